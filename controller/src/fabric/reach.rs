//! Leaves that lose their last path to each other by a change: a change that an operator must not make by accident.
//!
//! Pure. It refuses to know who asks for the change and how links are observed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::fact::{InvalidFabric, Job, JobName, Kind, Link, LinkName, Role, Switch, SwitchName};
use super::job::Nics;
use super::topology::Topology;

/// Two leaves without a path to each other.
pub type Pair = (SwitchName, SwitchName);

/// Pairs of leaves that have a path before a change and none after it, at most 1,000. A path goes up from one leaf and down to
/// the other, over links and switches that no operator set down, and over no link of `down`: those are observed to be down. A leaf
/// that the change deletes loses nothing.
///
/// The cost grows with the leaves below what changes, times all leaves.
pub fn severed(before: &Topology, after: &Topology, down: &BTreeSet<LinkName>) -> Vec<Pair> {
    let (old, new) = (Paths::new(before, down), Paths::new(after, down));
    let stays = |leaf: &&SwitchName| after.switch(leaf).is_some_and(|it| it.role == Role::Leaf);
    let affected: BTreeSet<&SwitchName> = old.below_lost(after).into_iter().filter(stays).collect();
    let leaves: Vec<&SwitchName> = leaves(before).filter(stays).collect();
    let mut pairs = Vec::new();
    for leaf in &affected {
        let (up_before, up_after) = (old.above(leaf), new.above(leaf));
        for other in &leaves {
            // Of two that are affected, the pair is looked at once.
            let is_looked_at = leaf < other || !affected.contains(other);
            if leaf == other || !is_looked_at || new.climbs(other, &up_after) {
                continue;
            }
            if old.climbs(other, &up_before) {
                let (a, b) = (leaf.min(other), leaf.max(other));
                pairs.push(((*a).clone(), (*b).clone()));
            }
            if pairs.len() == PAIRS_MAX {
                return pairs;
            }
        }
    }
    pairs.sort();
    pairs
}

/// True if a change takes away a link that may carry traffic, as far as operators say.
pub fn takes_away(before: &Topology, after: &Topology) -> bool {
    !lost(before, after).is_empty()
}

/// Links that may carry traffic before a change, as far as operators say, and not after it.
fn lost<'a>(before: &'a Topology, after: &Topology) -> Vec<&'a Link> {
    if before.is_same_network(after) {
        return Vec::new();
    }
    let carries_less = |old: &&Link| {
        let stays = |new: &Link| may_carry(after, new) && ends_alike(old, new);
        let moved = [&old.a, &old.b].iter().any(|end| {
            let height = |of: &Topology| of.switch(&end.switch).map(Switch::height);
            height(before) != height(after)
        });
        let gone = !after.link_named(&old.name).is_some_and(stays);
        may_carry(before, old) && (gone || moved)
    };
    let mut lost = Vec::new();
    // Two topologies that share most of their facts are compared in no time.
    for change in before.changes_to(after) {
        match change.subject() {
            (Kind::Switch, name) => lost.extend(before.links_of(&name.into()).filter(carries_less)),
            (Kind::Link, name) => lost.extend(before.link(name).filter(carries_less)),
            (Kind::Host | Kind::HostPort | Kind::Job, _) => {}
        }
    }
    lost
}

/// Jobs with NICs behind both leaves of one of these pairs, in order of their names.
pub fn jobs_of(topology: &Topology, pairs: &[Pair]) -> Vec<JobName> {
    let is_cut = |job: &&Arc<Job>| {
        let mut not_found = InvalidFabric::default();
        let nics = Nics::find(topology, &job.declared, "", &mut not_found);
        let leaves = nics.leaves();
        let both = |(a, b): &Pair| leaves.contains(a) && leaves.contains(b);
        pairs.iter().any(both)
    };
    let jobs = topology.jobs().filter(is_cut);
    jobs.map(|job| job.name.clone()).collect()
}

fn leaves(topology: &Topology) -> impl Iterator<Item = &SwitchName> {
    let leaves = topology.switches().filter(|it| it.role == Role::Leaf);
    leaves.map(|it| &it.name)
}

/// True unless an operator set the link, or the switch at one of its ends, down.
fn may_carry(topology: &Topology, link: &Link) -> bool {
    let is_up = |name: &SwitchName| topology.switch(name).is_some_and(|it| !it.down);
    !link.down && [&link.a, &link.b].iter().all(|end| is_up(&end.switch))
}

fn ends_alike(old: &Link, new: &Link) -> bool {
    (&old.a.switch, &old.b.switch) == (&new.a.switch, &new.b.switch)
}

/// The links of a topology that carry traffic.
#[derive(Clone, Copy)]
struct Paths<'a> {
    topology: &'a Topology,
    down: &'a BTreeSet<LinkName>,
    /// Nothing is above a switch of this height.
    top: u32,
}

impl<'a> Paths<'a> {
    fn new(topology: &'a Topology, down: &'a BTreeSet<LinkName>) -> Self {
        let top = topology.switches().map(Switch::height).max();
        Self {
            topology,
            down,
            top: top.unwrap_or_default(),
        }
    }

    /// The switches of other tiers that a switch has a link to, each with the height of the switch. No path goes between two switches
    /// of one tier.
    fn neighbours(&self, name: &SwitchName) -> impl Iterator<Item = (u32, &'a Switch)> + use<'a> {
        let Self { topology, down, .. } = *self;
        let near = topology.switch(name);
        near.into_iter().flat_map(move |near| {
            let links = topology.links_of(&near.name);
            let links =
                links.filter(|link| may_carry(topology, link) && !down.contains(&link.name));
            links.filter_map(|link| {
                let (_, far) = link.ends_from(&near.name)?;
                Some((near.height(), topology.switch(&far.switch)?))
            })
        })
    }

    /// The switches directly above a switch.
    fn up(&self, name: &SwitchName) -> impl Iterator<Item = &'a SwitchName> + use<'a> {
        let is_below = |it: &Switch| it.height() < self.top;
        let is_below = self.topology.switch(name).is_some_and(is_below);
        let above = is_below.then(|| self.neighbours(name));
        let above = above.into_iter().flatten();
        let above = above.filter(|(near, far)| far.height() > *near);
        above.map(|(_, far)| &far.name)
    }

    /// All switches above a switch.
    fn above(&self, name: &SwitchName) -> BTreeSet<&'a SwitchName> {
        let mut found = BTreeSet::new();
        let mut rest: Vec<_> = self.up(name).collect();
        while let Some(next) = rest.pop() {
            if found.insert(next) {
                rest.extend(self.up(next));
            }
        }
        found
    }

    /// True if a way up from a leaf meets one of these switches. Most leaves have one of them directly above.
    fn climbs(&self, leaf: &SwitchName, above: &BTreeSet<&SwitchName>) -> bool {
        self.up(leaf).any(|next| above.contains(next))
            || self.above(leaf).iter().any(|next| above.contains(next))
    }

    /// Leaves below links that a change takes away: one of two leaves that lose a path is below a link of it.
    fn below_lost(&self, after: &Topology) -> Vec<&'a SwitchName> {
        let height = |name: &SwitchName| self.topology.switch(name).map(Switch::height);
        let low = |link: &'a Link| {
            let ends = [&link.a.switch, &link.b.switch];
            ends.into_iter().min_by_key(|end| height(end))
        };
        let lost = lost(self.topology, after);
        let mut rest: Vec<&SwitchName> = lost.into_iter().filter_map(low).collect();
        let mut found = BTreeSet::new();
        while let Some(next) = rest.pop() {
            if found.insert(next) {
                let below = self.neighbours(next);
                let below = below.filter(|(near, far)| far.height() < *near);
                rest.extend(below.map(|(_, far)| &far.name));
            }
        }
        let is_leaf = |name: &&SwitchName| height(name) == Some(1);
        found.into_iter().filter(is_leaf).collect()
    }
}

/// As many pairs say enough.
const PAIRS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::fact::Fact;
    use crate::fabric::topology::tests::{leaf_spine, with_nics, with_pods};

    fn set_down(topology: &Topology, switch: &str) -> Topology {
        let mut after = topology.clone();
        let switch = topology.switch(&switch.into()).unwrap().clone();
        after.put(Fact::Switch(Arc::new(Switch {
            down: true,
            ..switch
        })));
        after
    }

    fn pairs(before: &Topology, after: &Topology, down: &[&str]) -> Vec<String> {
        let down = down.iter().map(|it| LinkName::from(*it)).collect();
        let pairs = severed(before, after, &down);
        pairs.iter().map(|(a, b)| format!("{a} {b}")).collect()
    }

    #[test]
    fn the_last_spine_takes_every_path_away_and_the_one_before_none() {
        let whole = leaf_spine(3, 2);
        let one = set_down(&whole, "spine1");
        assert_eq!(pairs(&whole, &one, &[]), [""; 0]);
        let none = set_down(&one, "spine2");
        assert_eq!(
            pairs(&one, &none, &[]),
            ["leaf1 leaf2", "leaf1 leaf3", "leaf2 leaf3"]
        );
        // Nothing that is gone already is lost.
        assert_eq!(pairs(&none, &none, &[]), [""; 0]);
    }

    #[test]
    fn a_link_that_is_observed_down_is_no_path() {
        let whole = leaf_spine(3, 2);
        let mut after = whole.clone();
        after.set_down("leaf1:eth1--spine1:eth1", true);
        assert_eq!(pairs(&whole, &after, &[]), [""; 0]);
        let down = ["leaf1:eth2--spine2:eth1"];
        assert_eq!(pairs(&whole, &after, &down), ["leaf1 leaf2", "leaf1 leaf3"]);
        // Leaf 2 reaches leaf 3 over either spine still; leaf 1 over none that leaf 2 has.
        let down = ["leaf2:eth2--spine2:eth2"];
        assert_eq!(pairs(&whole, &after, &down), ["leaf1 leaf2"]);
    }

    #[test]
    fn a_deleted_link_is_a_path_less_and_a_deleted_leaf_loses_nothing() {
        let whole = leaf_spine(2, 1);
        let mut after = whole.clone();
        after.remove(Kind::Link, "leaf1:eth1--spine1:eth1");
        assert_eq!(pairs(&whole, &after, &[]), ["leaf1 leaf2"]);
        assert!(takes_away(&whole, &after));
        after.remove(Kind::Switch, "leaf1");
        assert_eq!(pairs(&whole, &after, &[]), [""; 0]);
    }

    #[test]
    fn a_pod_without_super_spines_reaches_itself_alone() {
        let whole = with_pods();
        let one = set_down(&whole, "core1");
        assert_eq!(pairs(&whole, &one, &[]), [""; 0]);
        let none = set_down(&one, "core2");
        let expected = ["leaf1 leaf3", "leaf1 leaf4", "leaf2 leaf3", "leaf2 leaf4"];
        assert_eq!(pairs(&one, &none, &[]), expected);
        // Spine 1 and super-spine 2 have no plane in common: the path over another leaf is none.
        let one = set_down(&set_down(&whole, "spine2"), "spine3");
        assert!(pairs(&one, &one, &[]).is_empty());
        assert_eq!(pairs(&whole, &one, &[]), expected);
    }

    #[test]
    fn a_change_that_adds_or_leaves_paths_takes_nothing_away() {
        let whole = leaf_spine(2, 2);
        let mut down = whole.clone();
        down.set_down("leaf1:eth1--spine1:eth1", true);
        assert!(takes_away(&whole, &down));
        assert!(!takes_away(&down, &whole));
        assert!(!takes_away(&whole, &whole));
        // The switch was down before, and so was the link.
        let drained = set_down(&whole, "spine1");
        let mut both = drained.clone();
        both.set_down("leaf1:eth1--spine1:eth1", true);
        assert!(takes_away(&whole, &drained));
        assert!(!takes_away(&drained, &both));
        // A link of its name that leads elsewhere is another one.
        let mut moved = whole.clone();
        let link = whole.link("leaf1:eth1--spine1:eth1").unwrap().clone();
        let mut end = link.b.clone();
        end.switch = "spine2".into();
        moved.put(Fact::Link(Arc::new(Link { b: end, ..link })));
        assert!(takes_away(&whole, &moved));
    }

    #[test]
    fn jobs_are_named_that_have_nics_at_both_leaves() {
        use weft_proto::v1;
        let mut whole = with_nics(3, 1, 1);
        for (name, hosts) in [("far", ["h1-1", "h2-1"]), ("near", ["h1-1", "t1-1"])] {
            let job = v1::Job {
                name: name.to_owned(),
                host_names: hosts.map(str::to_owned).to_vec(),
                ..v1::Job::default()
            };
            let octets = prost::Message::encode_to_vec(&job);
            let fact = Fact::decode(Kind::Job, &octets).unwrap();
            let Fact::Job(job) = &fact else {
                panic!("no job")
            };
            assert_eq!(job.name.as_str(), name);
            whole.put(fact);
        }
        let none = set_down(&whole, "spine1");
        let pairs = severed(&whole, &none, &BTreeSet::new());
        assert_eq!(jobs_of(&whole, &pairs), ["far".into()]);
    }
}
