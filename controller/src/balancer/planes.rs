//! Three tiers as two, for pins: leaves, and planes in place of spines. A plane is the spines, one of each pod, that lead to the
//! same super-spines; what a leaf sends over its spine of a plane comes down by the spine of that plane in the other pod. Which
//! super-spine it takes is a hash's choice: spines see tunnels, and not the flows in them. A fabric of two tiers has a plane for
//! each spine.
//!
//! Pure. It refuses to know names, and flows.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use weft_weights::pin::Plane;
use weft_weights::problem::{Link, LinkId, Problem, Switch, SwitchId};

use crate::fabric::measured::left_bps;

/// The planes of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planes {
    /// Leaves, and planes as spines: each has the number of the first of its spines.
    problem: Problem,
    plane_of: BTreeMap<SwitchId, SwitchId>,
    pod_of: BTreeMap<SwitchId, SwitchId>,
    /// The spine of a plane in a pod; each pod has the number of the first of its leaves.
    spines: BTreeMap<(SwitchId, SwitchId), SwitchId>,
    mixed: Option<[SwitchId; 2]>,
    /// Pods in place of leaves, planes in place of spines, and between a pod and a plane the links above their spine.
    above: Option<Problem>,
}

impl Planes {
    /// Finds them. A link to a spine that has no way on to the spine of its plane in some other pod is dead: a plane leads to every
    /// pod, or to none.
    pub(super) fn new(problem: &Problem) -> Self {
        let pod_of = joined(problem, [0, 1]);
        let plane_of = joined(problem, [1, 2]);
        let tier = |wanted: u8| problem.switches().filter(move |(_, tier)| *tier == wanted);
        let mut spines = BTreeMap::new();
        let twice = tier(1).find_map(|(spine, _)| {
            let other = spines.insert((pod_of[&spine], plane_of[&spine]), spine);
            other.map(|other| [other, spine])
        });
        if twice.is_some() {
            spines = tier(1).map(|(it, _)| ((pod_of[&it], it), it)).collect();
            let plane_of = tier(1).map(|(it, _)| (it, it)).collect();
            return Self::project(problem, plane_of, (pod_of, spines), twice);
        }
        Self::project(problem, plane_of, (pod_of, spines), None)
    }

    fn project(
        problem: &Problem,
        plane_of: BTreeMap<SwitchId, SwitchId>,
        (pod_of, spines): (
            BTreeMap<SwitchId, SwitchId>,
            BTreeMap<(SwitchId, SwitchId), SwitchId>,
        ),
        mixed: Option<[SwitchId; 2]>,
    ) -> Self {
        let cut = match mixed {
            Some(_) => BTreeSet::new(),
            None => cut_off(problem, &plane_of),
        };
        let links = between(problem, [0, 1]).map(|(leaf, spine, link)| Link {
            ends: (leaf, plane_of[&spine]),
            alive: link.alive && !cut.contains(&spine),
            ..*link
        });
        let planes: BTreeSet<SwitchId> = spines.keys().map(|(_, plane)| *plane).collect();
        let leaves = problem.leaves().collect();
        let projected = two_tiers(&leaves, &planes, links.collect());
        // A spine below which no leaf is has a pod of its own, from which nothing is sent.
        let pods = leaves.iter().filter_map(|leaf| pod_of.get(leaf).copied());
        let pods: BTreeSet<SwitchId> = pods.collect();
        let above = mixed.is_none().then(|| onward(problem, &spines, &pods));
        let above = above.filter(|links| links.iter().any(|link| link.alive));
        let above = above.map(|links| two_tiers(&pods, &planes, links));
        Self {
            problem: projected,
            plane_of,
            pod_of,
            spines,
            mixed,
            above,
        }
    }

    /// These planes with the capacity of each link of a leaf reduced by the percent that the leaf keeps free; None: no such leaf is in
    /// them.
    pub(super) fn without(&self, kept_free: &BTreeMap<SwitchId, u8>) -> Option<Self> {
        let mut leaves = self.problem.leaves();
        if !leaves.any(|leaf| kept_free.contains_key(&leaf)) {
            return None;
        }
        let links = self.problem.links().map(|link| {
            let (leaf, _) = link.ends;
            let kept_free = kept_free.get(&leaf).copied().unwrap_or_default();
            Link {
                capacity_bps: left_bps(link.capacity_bps, kept_free),
                ..*link
            }
        });
        let switches = self.problem.switches();
        let switches = switches.map(|(id, tier)| Switch { id, tier });
        let problem = Problem::new(switches.collect(), links.collect());
        Some(Self {
            problem: problem.expect("its switches and links are those of a problem"),
            ..self.clone()
        })
    }

    /// What pins are placed in: leaves and planes, and what planes carry between pods.
    pub(super) fn plane(&self) -> Plane {
        let plane = Plane::new(&self.problem);
        let above = self.above.as_ref();
        match above.filter(|above| above.leaves().nth(1).is_some()) {
            Some(above) => plane.with_pods(above, |leaf| self.pod(leaf)),
            None => plane,
        }
    }

    /// What is above the spines; None: nothing, or no planes.
    pub(super) fn above(&self) -> Option<&Problem> {
        self.above.as_ref()
    }

    /// The pod of a leaf: it has the number of its first leaf.
    pub(super) fn pod(&self, leaf: SwitchId) -> Option<SwitchId> {
        self.pod_of.get(&leaf).copied()
    }

    /// Whether two leaves are in different pods, between which planes carry what they send.
    pub(super) fn are_apart(&self, one: SwitchId, other: SwitchId) -> bool {
        self.above.is_some() && self.pod(one) != self.pod(other)
    }

    /// Two spines of one pod that lead to the same super-spines, if there are such. Then who sends cannot tell by which of them it
    /// comes down: every spine is a plane of its own, and no plane leads to another pod.
    pub(super) fn mixed(&self) -> Option<[SwitchId; 2]> {
        self.mixed
    }

    /// Leaves, and planes as spines.
    pub(super) fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The plane of a spine.
    pub(super) fn of_spine(&self, spine: SwitchId) -> Option<SwitchId> {
        self.plane_of.get(&spine).copied()
    }

    /// The spine of a plane above a leaf.
    pub(super) fn spine(&self, leaf: SwitchId, plane: SwitchId) -> Option<SwitchId> {
        let pod = self.pod_of.get(&leaf)?;
        self.spines.get(&(*pod, plane)).copied()
    }
}

/// Switches of two tiers with links between them.
fn two_tiers(low: &BTreeSet<SwitchId>, high: &BTreeSet<SwitchId>, links: Vec<Link>) -> Problem {
    let tier = |tier: u8| move |id: &SwitchId| Switch { id: *id, tier };
    let switches = low.iter().map(tier(0)).chain(high.iter().map(tier(1)));
    let problem = Problem::new(switches.collect(), links);
    problem.expect("its switches and links are those of a problem")
}

/// A link between a pod and a plane for all that is above their spine, of these pods.
fn onward(
    problem: &Problem,
    spines: &BTreeMap<(SwitchId, SwitchId), SwitchId>,
    pods: &BTreeSet<SwitchId>,
) -> Vec<Link> {
    let mut above: BTreeMap<SwitchId, u64> = BTreeMap::new();
    for (spine, _, link) in between(problem, [1, 2]).filter(|(_, _, link)| link.alive) {
        let known = above.entry(spine).or_default();
        *known = known.saturating_add(link.capacity_bps);
    }
    let of_pods = spines.iter().filter(|((pod, _), _)| pods.contains(pod));
    let links = of_pods.zip(0..).map(|((ends, spine), id)| {
        let above = above.get(spine).copied().unwrap_or_default();
        Link {
            id: LinkId(id),
            ends: *ends,
            capacity_bps: above.max(1),
            alive: above > 0,
        }
    });
    links.collect()
}

/// Links between two tiers: the lower end, the upper end, and the link.
fn between(
    problem: &Problem,
    [low, high]: [u8; 2],
) -> impl Iterator<Item = (SwitchId, SwitchId, &Link)> {
    problem.links().filter_map(move |link| {
        let (a, b) = link.ends;
        match (problem.tier(a)?, problem.tier(b)?) {
            it if it == (low, high) => Some((a, b, link)),
            it if it == (high, low) => Some((b, a, link)),
            _ => None,
        }
    })
}

/// The switches of two tiers that links join, dead or alive: of each, the first of the lower tier that it is joined with, or itself.
fn joined(problem: &Problem, tiers: [u8; 2]) -> BTreeMap<SwitchId, SwitchId> {
    let mut neighbours: BTreeMap<SwitchId, Vec<SwitchId>> = BTreeMap::new();
    for (low, high, _) in between(problem, tiers) {
        neighbours.entry(low).or_default().push(high);
        neighbours.entry(high).or_default().push(low);
    }
    let mut found = BTreeMap::new();
    // The lower tier first: it names what it is joined with.
    for wanted in tiers {
        for (first, _) in problem.switches().filter(|(_, tier)| *tier == wanted) {
            let mut open = vec![first];
            while let Some(switch) = open.pop() {
                if let Entry::Vacant(place) = found.entry(switch) {
                    place.insert(first);
                    open.extend(neighbours.get(&switch).into_iter().flatten());
                }
            }
        }
    }
    found
}

/// Spines that share no live super-spine with another spine of their plane: of two, the one with fewer.
fn cut_off(problem: &Problem, plane_of: &BTreeMap<SwitchId, SwitchId>) -> BTreeSet<SwitchId> {
    let mut above: BTreeMap<SwitchId, BTreeSet<SwitchId>> = BTreeMap::new();
    for (spine, core, link) in between(problem, [1, 2]) {
        let known = above.entry(spine).or_default();
        if link.alive {
            known.insert(core);
        }
    }
    // Most spines of a plane lead to the same: each such set is looked at once.
    let mut planes: BTreeMap<SwitchId, BTreeMap<BTreeSet<SwitchId>, Vec<SwitchId>>> =
        BTreeMap::new();
    for (spine, cores) in above {
        let sets = planes.entry(plane_of[&spine]).or_default();
        sets.entry(cores).or_default().push(spine);
    }
    let mut cut = BTreeSet::new();
    for sets in planes.into_values() {
        let alone = sets.values().map(Vec::len).sum::<usize>() < 2;
        let mut sets: Vec<_> = sets.into_iter().collect();
        // Those that lead to most, and are most, stay.
        sets.sort_by_key(|(cores, spines)| Reverse((cores.len(), spines.len())));
        let mut kept: Vec<BTreeSet<SwitchId>> = Vec::new();
        for (cores, spines) in sets.into_iter().filter(|_| !alone) {
            let meets = |other: &BTreeSet<SwitchId>| !other.is_disjoint(&cores);
            match !cores.is_empty() && kept.iter().all(meets) {
                true => kept.push(cores),
                false => cut.extend(spines),
            }
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pods of two leaves (0 to 3), with a spine in each of two planes (4 to 7); two super-spines above each plane (8 to 11).
    /// Dead: the ends of links.
    fn problem(dead: &[(u32, u32)]) -> Problem {
        let switch = |(id, tier)| Switch {
            id: SwitchId(id),
            tier,
        };
        let tiers = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2];
        let switches = (0..).zip(tiers).map(switch).collect();
        let mut ends = Vec::new();
        for pod in 0..2 {
            for plane in 0..2 {
                let spine = 4 + 2 * pod + plane;
                ends.extend([(2 * pod, spine), (2 * pod + 1, spine)]);
                ends.extend([(spine, 8 + 2 * plane), (spine, 9 + 2 * plane)]);
            }
        }
        let links = (0..).zip(ends).map(|(id, (a, b))| Link {
            id: LinkId(id),
            ends: (SwitchId(a), SwitchId(b)),
            capacity_bps: 100,
            alive: !dead.contains(&(a, b)),
        });
        Problem::new(switches, links.collect()).unwrap()
    }

    fn alive(planes: &Planes) -> Vec<(u32, u32)> {
        let links = planes.problem().links().filter(|link| link.alive);
        links.map(|link| (link.ends.0.0, link.ends.1.0)).collect()
    }

    #[test]
    fn spines_of_two_pods_below_the_same_super_spines_are_one_plane() {
        let planes = Planes::new(&problem(&[]));
        let all = [
            (0, 4),
            (1, 4),
            (0, 5),
            (1, 5),
            (2, 4),
            (3, 4),
            (2, 5),
            (3, 5),
        ];
        assert_eq!(alive(&planes), all);
        let id = SwitchId;
        assert_eq!(planes.of_spine(id(6)), Some(id(4)));
        assert_eq!(planes.spine(id(3), id(4)), Some(id(6)));
        assert_eq!(planes.spine(id(0), id(5)), Some(id(5)));
    }

    #[test]
    fn a_spine_without_a_way_to_the_other_pod_is_cut_off() {
        // One link to a super-spine less changes nothing.
        assert_eq!(alive(&Planes::new(&problem(&[(6, 8)]))).len(), 8);
        let planes = Planes::new(&problem(&[(6, 8), (6, 9)]));
        assert_eq!(
            alive(&planes),
            [(0, 4), (1, 4), (0, 5), (1, 5), (2, 5), (3, 5)]
        );
        // They lead up, to no common super-spine.
        let planes = Planes::new(&problem(&[(4, 8), (6, 9)]));
        assert_eq!(alive(&planes).len(), 6);
    }

    #[test]
    fn what_a_spine_has_above_it_is_what_its_plane_carries_between_pods() {
        let planes = Planes::new(&problem(&[]));
        let above = planes.above().unwrap();
        let ends = |link: &Link| (link.ends.0.0, link.ends.1.0, link.capacity_bps);
        let carried: Vec<_> = above.links().map(ends).collect();
        assert_eq!(
            carried,
            [(0, 4, 200), (0, 5, 200), (2, 4, 200), (2, 5, 200)]
        );
        // The spine of plane 1 in the second pod has half of that.
        let planes = Planes::new(&problem(&[(6, 8)]));
        let above = planes.above().unwrap();
        let carried: Vec<_> = above.links().map(ends).collect();
        assert_eq!(
            carried,
            [(0, 4, 200), (0, 5, 200), (2, 4, 100), (2, 5, 200)]
        );
        assert_ne!(planes.plane(), Plane::new(planes.problem()));
    }

    #[test]
    fn a_spine_without_leaves_is_no_pod() {
        let fabric = problem(&[]);
        let switches = fabric.switches().map(|(id, tier)| Switch { id, tier });
        // Spine 4 is the first of its plane, and no leaf is below it.
        let links = fabric.links().filter(|link| link.ends.1 != SwitchId(4));
        let fabric = Problem::new(switches.collect(), links.copied().collect()).unwrap();
        let planes = Planes::new(&fabric);
        let above = planes.above().unwrap();
        assert_eq!(above.leaves().collect::<Vec<_>>(), [0, 2].map(SwitchId));
        let ends = |link: &Link| (link.ends.0.0, link.ends.1.0);
        let carried: Vec<_> = above.links().map(ends).collect();
        assert_eq!(carried, [(0, 5), (2, 4), (2, 5)]);
    }

    #[test]
    fn what_a_leaf_keeps_free_is_left_out_of_its_links_and_of_no_others() {
        let planes = Planes::new(&problem(&[(6, 8)]));
        let kept_free = BTreeMap::from([(SwitchId(2), 30)]);
        let left = planes.without(&kept_free).unwrap();
        let capacity = |problem: &Problem, leaf: u32| -> Vec<u64> {
            let links = problem.links();
            let of_leaf = links.filter(|link| link.ends.0 == SwitchId(leaf));
            of_leaf.map(|link| link.capacity_bps).collect()
        };
        assert_eq!(capacity(left.problem(), 2), [70, 70]);
        assert_eq!(capacity(left.problem(), 3), [100, 100]);
        assert_eq!(alive(&left), alive(&planes));
        // Above the spines nothing is kept free.
        assert_eq!(left.above(), planes.above());
        // One that is no leaf of it.
        let nobody = BTreeMap::from([(SwitchId(5), 30), (SwitchId(99), 30)]);
        assert_eq!(planes.without(&nobody), None);
    }

    #[test]
    fn a_fabric_of_two_tiers_has_a_plane_for_each_spine() {
        let two = problem(&[]);
        let low = |(_, tier): &(SwitchId, u8)| *tier < 2;
        let switches = two
            .switches()
            .filter(low)
            .map(|(id, tier)| Switch { id, tier });
        let links = between(&two, [0, 1]).map(|(_, _, link)| *link);
        let two = Problem::new(switches.collect(), links.collect()).unwrap();
        let planes = Planes::new(&two);
        assert_eq!(*planes.problem(), two);
        assert_eq!(planes.above(), None);
        assert_eq!(planes.plane(), Plane::new(&two));
        let spines = (4..8).map(SwitchId);
        assert!(spines.clone().all(|it| planes.of_spine(it) == Some(it)));
    }

    #[test]
    fn two_spines_of_a_pod_below_the_same_super_spines_lead_to_no_other_pod() {
        let fabric = problem(&[]);
        let switches = fabric.switches().map(|(id, tier)| Switch { id, tier });
        let mut links: Vec<Link> = fabric.links().copied().collect();
        links.push(Link {
            id: LinkId(99),
            ends: (SwitchId(5), SwitchId(8)),
            ..links[0]
        });
        let fabric = Problem::new(switches.collect(), links).unwrap();
        let planes = Planes::new(&fabric);
        assert_eq!(planes.mixed(), Some([4, 5].map(SwitchId)));
        assert_eq!(planes.above(), None);
        // Within a pod there is no doubt.
        assert_eq!(planes.of_spine(SwitchId(5)), Some(SwitchId(5)));
        assert_eq!(alive(&planes)[..4], [(0, 4), (1, 4), (0, 5), (1, 5)]);
        assert_eq!(alive(&planes)[4..], [(2, 6), (3, 6), (2, 7), (3, 7)]);
    }
}
