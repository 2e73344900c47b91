//! What pins would come to: what every link carries of jobs, and what flows get, with these pins and in other ways to place them.
//!
//! Pure. Draws come from a fixed seed, so that equal plans give equal predictions. It refuses to know who asks, and packets.

use std::collections::{BTreeMap, BTreeSet};

use weft_proto::v1;
use weft_weights::pin::{Flow, Flows, Part, Plane};
use weft_weights::simulate::{Switches, by_switches, rates};

use super::{PinPlan, Sent, SentByJobs, name, owners, plan, sent, subflows, unit_bps};
use crate::balancer::solved::Solved;
use crate::fabric::fact::{JobName, LinkName, SwitchName};
use crate::fabric::job::Nics;
use crate::fabric::pin::{PinPath, Pins};
use crate::fabric::topology::{InvalidFabric, Job, Link, PortName, Topology};

/// A plan of pins, and what it comes to.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The plan.
    pub plan: PinPlan,
    /// What links carry, those with the largest share first. Links that carry nothing are left out.
    pub loads: Vec<LinkLoad>,
    /// Flows of jobs whose flows are known.
    pub flows: usize,
    /// Those of them that no spine carries.
    pub stranded: usize,
    /// What the others get, way by way. Empty: there are none, or too many to compare ways.
    pub rates: Vec<(Method, Rates)>,
}

/// What a link carries in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkLoad {
    /// The link.
    pub link: LinkName,
    /// The switch that sends over it.
    pub from: SwitchName,
    /// The switch at the other end.
    pub to: SwitchName,
    /// Bits per second.
    pub bps: u64,
    /// Of the link's capacity.
    pub share: f64,
}

/// A way to place flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The pins, and weights for what is not pinned.
    Pins,
    /// A hash of each flow.
    Ecmp,
    /// A hash of each queue pair.
    EnhancedEcmp,
    /// A hash of each queue pair, by what spines carry end to end.
    CapacityWeights,
    /// The least loaded uplink of the leaf.
    LeastLoadedUplink,
    /// All spines, in proportion to what they carry end to end.
    Spray,
}

/// What flows get, of what they would send without limits; the mean of draws.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// The slowest flow.
    pub slowest: f64,
    /// All flows, on average.
    pub mean: f64,
    /// How many draws.
    pub draws: u32,
}

/// Plans pins for jobs of a topology from what is adopted, and says what they come to. Draws nothing any more once nobody waits.
pub(in crate::balancer) fn predict(
    solved: &Solved,
    topology: &Topology,
    past: &Pins,
    is_awaited: &dyn Fn() -> bool,
) -> Prediction {
    let mut all: SentByJobs = topology
        .jobs()
        .map(|job| (job.name.clone(), sent::by(topology, job)))
        .collect();
    owners::settle(topology, &mut all);
    let plan = PinPlan {
        topology: topology.clone(),
        ..plan(solved, topology, &all, past)
    };
    let crowd = Crowd::new(solved, topology, &plan, &all);
    Prediction {
        loads: crowd.loads(solved, topology),
        flows: crowd.known.len() + crowd.stranded,
        stranded: crowd.stranded,
        rates: crowd.rates(is_awaited),
        plan,
    }
}

/// The flows of all jobs at the same time, in sub-flows that are fine enough for every way to place them.
struct Crowd {
    plane: Plane,
    known: Vec<Known>,
    flows: Flows,
    /// Bits per second of a sub-flow.
    subflow_bps: f64,
    stranded: usize,
}

/// A flow with a way.
struct Known {
    bps: u64,
    /// Sixteenths of a NIC's rate.
    units: u32,
    queue_pairs: u32,
    /// By the places of spines; empty: it is not pinned.
    pinned: Vec<(u32, u64)>,
    /// What each spine carries of its leaves, in Mb/s, at least 1.
    ways: Vec<(u32, u64)>,
    ends: (u32, u32),
}

impl Crowd {
    fn new(solved: &Solved, topology: &Topology, plan: &PinPlan, all: &SentByJobs) -> Self {
        let plane = Plane::new(solved.planes().problem());
        let sending = || {
            let sending = all
                .iter()
                .filter_map(|(job, sent)| Some((job, sent.as_ref().ok()?)));
            sending.flat_map(|(job, sent)| sent.over.iter().map(move |sent| (job, sent)))
        };
        let slowest = sending().map(|(_, sent)| sent.nic_bps).min().unwrap_or(1);
        let fastest = sending().map(|(_, sent)| sent.nic_bps).max().unwrap_or(1);
        let unit_bps = unit_bps(slowest, fastest);
        let place = |leaf: &SwitchName| {
            let number = solved.number(leaf)?;
            let place = plane.leaves().binary_search(&number).ok()?;
            u32::try_from(place).ok()
        };
        let spine = |path: &PinPath| {
            let number = solved.plane_of(&path.spine)?;
            let place = plane.spines().binary_search(&number).ok()?;
            Some((u32::try_from(place).ok()?, u64::from(path.weight)))
        };
        let (mut known, mut stranded) = (Vec::new(), 0);
        let mut queue_pairs = QueuePairs::new(topology);
        for (job, sent) in sending() {
            let ends = place(&sent.from.switch).zip(place(&sent.to.switch));
            let ways = ends.map(|(from, to)| ways(&plane, from, to));
            let (Some(ends), Some(ways)) = (ends, ways.filter(|ways| !ways.is_empty())) else {
                stranded += 1;
                continue;
            };
            let paths = plan.pins.get(&name(&(job, sent)));
            known.push(Known {
                bps: sent.bps,
                units: subflows(sent.bps.into(), unit_bps),
                queue_pairs: queue_pairs.of(job, sent),
                pinned: paths
                    .iter()
                    .flat_map(|it| it.iter())
                    .filter_map(spine)
                    .collect(),
                ways,
                ends,
            });
        }
        let units: u64 = known.iter().map(|it| u64::from(it.units)).sum();
        let fineness = (SUBFLOWS_MOST / units.max(1)).clamp(1, FINENESS_MAX) as u32;
        let flows = known
            .iter()
            .map(|it| it.flow(it.units.saturating_mul(fineness)));
        Self {
            flows: Flows::new(flows.collect()),
            plane,
            subflow_bps: unit_bps as f64 / f64::from(fineness),
            known,
            stranded,
        }
    }

    /// Parts of each flow by shares of spines, in sub-flows.
    fn by_shares<'a>(&'a self, shares: impl Fn(&'a Known) -> &'a [(u32, u64)]) -> Vec<Part> {
        let all = self.known.iter().zip(self.flows.all()).zip(0..);
        let parts = all.flat_map(|((known, flow), at)| divided(at, flow.subflows, shares(known)));
        parts.collect()
    }

    /// Parts as switches place pieces of flows, each of which stays whole.
    fn by_pieces(
        &self,
        how: Switches,
        pieces: impl Fn(&Known) -> u32,
        random: &mut impl FnMut(u64) -> u64,
    ) -> Vec<Part> {
        let all = self.known.iter().zip(self.flows.all());
        // A piece has a sub-flow at least.
        let flows = all.map(|(known, flow)| known.flow(pieces(known).clamp(1, flow.subflows)));
        let placed = by_switches(&self.plane, &Flows::new(flows.collect()), how, random);
        let of_flows = placed.chunk_by(|a, b| a.flow == b.flow);
        let parts = of_flows.flat_map(|parts| {
            let shares: Vec<_> = parts
                .iter()
                .map(|part| (part.spine, u64::from(part.subflows)))
                .collect();
            let subflows = self.flows.all()[parts[0].flow as usize].subflows;
            divided(parts[0].flow, subflows, &shares)
        });
        parts.collect()
    }

    /// With pins; what is not pinned goes by weights, queue pair by queue pair.
    fn by_pins(&self, random: &mut impl FnMut(u64) -> u64) -> Vec<Part> {
        let mut parts = self.by_shares(|known| &known.pinned);
        if self.known.iter().any(|known| known.pinned.is_empty()) {
            let hashed = self.by_pieces(Switches::HashByCapacity, |it| it.queue_pairs, random);
            let free = |part: &Part| self.known[part.flow as usize].pinned.is_empty();
            parts.extend(hashed.into_iter().filter(free));
            parts.sort_unstable();
        }
        parts
    }

    /// What links carry; of what is not pinned, each spine its share of the capacity.
    fn loads(&self, solved: &Solved, topology: &Topology) -> Vec<LinkLoad> {
        let mut cells: BTreeMap<(u32, u32, bool), u128> = BTreeMap::new();
        for known in &self.known {
            let shares = match known.pinned.is_empty() {
                true => &known.ways,
                false => &known.pinned,
            };
            let sum: u128 = shares.iter().map(|(_, share)| u128::from(*share)).sum();
            let ends = [(known.ends.0, true), (known.ends.1, false)];
            for (spine, share) in shares {
                let bps = u128::from(known.bps) * u128::from(*share) / sum.max(1);
                for (leaf, up) in ends {
                    *cells.entry((leaf, *spine, up)).or_default() += bps;
                }
            }
        }
        let of_cell = |((leaf, spine, up), bps): ((u32, u32, bool), u128)| {
            let ends = (
                self.plane.leaves()[leaf as usize],
                self.plane.spines()[spine as usize],
            );
            let links = solved.links_between(ends.0, ends.1);
            let links = links.filter_map(|name| topology.link_named(name));
            let links: Vec<_> = links.filter(|link| solved.carries(link)).collect();
            let bps = bps.min(u64::MAX.into());
            let capacity: u128 = links
                .iter()
                .map(|it| u128::from(solved.usable_bps(it)))
                .sum();
            let names = (
                solved.name(ends.0).cloned(),
                solved.spine(ends.0, ends.1).cloned(),
            );
            let one = move |link: &Link| {
                let own = bps * u128::from(solved.usable_bps(link)) / capacity.max(1);
                let (leaf, spine) = (names.0.clone()?, names.1.clone()?);
                let (from, to) = if up { (leaf, spine) } else { (spine, leaf) };
                Some(LinkLoad {
                    link: link.name.clone(),
                    from,
                    to,
                    bps: u64::try_from(own).unwrap_or(u64::MAX),
                    share: own as f64 / solved.usable_bps(link) as f64,
                })
            };
            links.into_iter().filter_map(one).collect::<Vec<_>>()
        };
        let mut loads: Vec<_> = cells.into_iter().flat_map(of_cell).collect();
        // Equal ones stay in order of their leaves.
        loads.sort_by(|a, b| b.share.total_cmp(&a.share));
        loads
    }

    /// What flows get in each way.
    fn rates(&self, is_awaited: &dyn Fn() -> bool) -> Vec<(Method, Rates)> {
        let draws = self.draws();
        if self.known.is_empty() || draws == 0 {
            return Vec::new();
        }
        let mean = |draws, place: &mut dyn FnMut() -> Vec<Part>| {
            if is_awaited() {
                self.mean(draws, place)
            } else {
                Rates::default()
            }
        };
        let mut random = Random(SEED);
        let mut random = |below: u64| random.below(below);
        let pinned = self.known.iter().all(|known| !known.pinned.is_empty());
        let pins = if pinned {
            mean(1, &mut || self.by_shares(|known| &known.pinned))
        } else {
            mean(draws, &mut || self.by_pins(&mut random))
        };
        let ecmp = mean(draws, &mut || {
            self.by_pieces(Switches::Hash, |_| 1, &mut random)
        });
        let enhanced = mean(draws, &mut || {
            self.by_pieces(Switches::Hash, |it| it.queue_pairs, &mut random)
        });
        let weights = mean(draws, &mut || {
            self.by_pieces(Switches::HashByCapacity, |it| it.queue_pairs, &mut random)
        });
        let least = mean(draws, &mut || {
            self.by_pieces(Switches::LeastLoaded, |it| it.units, &mut random)
        });
        let spray = mean(1, &mut || self.by_shares(|known| &known.ways));
        vec![
            (Method::Pins, pins),
            (Method::Ecmp, ecmp),
            (Method::EnhancedEcmp, enhanced),
            (Method::CapacityWeights, weights),
            (Method::LeastLoadedUplink, least),
            (Method::Spray, spray),
        ]
    }

    /// How often a way that hashes is drawn: fewer times where there is much to place, and not at all where that is too much.
    fn draws(&self) -> u32 {
        let spines = self.plane.spines().len() as u64 + 1;
        let pieces = self.known.iter();
        let pieces = pieces.map(|it| u64::from(it.units.max(it.queue_pairs)) + 1);
        let steps = pieces.fold(0, u64::saturating_add).saturating_mul(spines);
        match steps {
            steps if steps > STEPS_MAX => 0,
            steps => (STEPS_MAX / steps.max(1)).clamp(1, DRAWS_MAX) as u32,
        }
    }

    fn mean(&self, draws: u32, mut place: impl FnMut() -> Vec<Part>) -> Rates {
        let mut sum = Rates {
            draws,
            ..Rates::default()
        };
        for _ in 0..draws {
            let got = rates(&self.plane, &self.flows, &place(), self.subflow_bps);
            let wanted = self.flows.all().iter();
            let wanted = wanted.map(|flow| f64::from(flow.subflows) * self.subflow_bps);
            let shares = || {
                got.iter()
                    .zip(wanted.clone())
                    .map(|(got, wanted)| got / wanted)
            };
            sum.slowest += shares().fold(1.0, f64::min);
            sum.mean += shares().sum::<f64>() / got.len().max(1) as f64;
        }
        Rates {
            slowest: sum.slowest / f64::from(draws),
            mean: sum.mean / f64::from(draws),
            draws,
        }
    }
}

impl Known {
    fn flow(&self, subflows: u32) -> Flow {
        Flow {
            from: self.ends.0,
            to: self.ends.1,
            subflows,
        }
    }
}

/// The spines that lead from one leaf to another, with what each carries end to end.
fn ways(plane: &Plane, from: u32, to: u32) -> Vec<(u32, u64)> {
    let capacity = |leaf: u32, spine: u32| -> u128 {
        let links = plane.links(leaf as usize, spine as usize).iter();
        links.copied().map(u128::from).sum()
    };
    let spines = 0..plane.spines().len() as u32;
    let carried = spines.map(|spine| (spine, capacity(from, spine).min(capacity(to, spine))));
    let mega = |bps: u128| {
        u64::try_from(bps / 1_000_000)
            .unwrap_or(u64::MAX)
            .clamp(1, WAY_MAX)
    };
    let there = carried.filter(|(_, bps)| *bps > 0);
    there.map(|(spine, bps)| (spine, mega(bps))).collect()
}

/// Divides the sub-flows of a flow by shares, whole sub-flow by whole sub-flow, with all of them given.
fn divided(flow: u32, subflows: u32, shares: &[(u32, u64)]) -> Vec<Part> {
    let sum: u128 = shares.iter().map(|(_, share)| u128::from(*share)).sum();
    let (mut before, mut given) = (0_u128, 0_u32);
    let mut parts = Vec::with_capacity(shares.len());
    for (spine, share) in shares {
        before += u128::from(*share);
        let until = u128::from(subflows) * before / sum.max(1);
        let until = u32::try_from(until).unwrap_or(subflows);
        if until > given {
            parts.push(Part {
                flow,
                spine: *spine,
                subflows: until - given,
            });
        }
        given = until;
    }
    parts
}

/// How many queue pairs flows have, by the NIC that sends and the one that takes. Those that are missing have one.
type PairCounts = BTreeMap<(PortName, PortName), u32>;

/// How many queue pairs flows of jobs have, job by job as they are asked for.
struct QueuePairs<'a> {
    topology: &'a Topology,
    jobs: BTreeMap<JobName, PairCounts>,
}

impl<'a> QueuePairs<'a> {
    fn new(topology: &'a Topology) -> Self {
        Self {
            topology,
            jobs: BTreeMap::new(),
        }
    }

    fn of(&mut self, job: &JobName, sent: &Sent) -> u32 {
        let topology = self.topology;
        let counts = self.jobs.entry(job.clone()).or_insert_with(|| {
            let job = topology.job(job);
            job.map(|job| pair_counts(topology, job))
                .unwrap_or_default()
        });
        counts.get(&ends(sent)).copied().unwrap_or(1)
    }
}

/// As many as flows from one NIC to the other name; where none names any, the most that a flow or group declares that sends there.
/// Every NIC of the job is there.
fn pair_counts(topology: &Topology, job: &Job) -> PairCounts {
    let (mut counts, mut named) = (PairCounts::new(), PairCounts::new());
    let declared = &job.declared;
    let nics = Nics::find(topology, declared, "", &mut InvalidFabric::default());
    for (flow, [from, to]) in declared.flows.iter().zip(&nics.flows) {
        let ends = (from.name.clone(), to.name.clone());
        if flow.pairs.is_empty() {
            let most = counts.entry(ends).or_default();
            *most = flow.queue_pairs.unwrap_or(1).max(*most);
        } else {
            let sum = named.entry(ends).or_default();
            *sum = sum.saturating_add(flow.pairs.len() as u32);
        }
    }
    let of_group = |group: &v1::CollectiveGroup| group.queue_pairs.unwrap_or(1);
    let several: BTreeSet<u32> = declared.groups.iter().map(of_group).collect();
    // All groups with as many at once: to find their NICs takes longest.
    for own in several.into_iter().filter(|own| *own > 1) {
        let groups = declared.groups.iter();
        let groups = groups.filter(|group| of_group(group) == own).cloned();
        let alone = Job {
            name: job.name.clone(),
            declared: v1::Job {
                groups: groups.collect(),
                flows: Vec::new(),
                ..declared.clone()
            },
        };
        let sent = sent::by(topology, &alone).unwrap_or_default();
        for sent in &sent.over {
            let most = counts.entry(ends(sent)).or_default();
            *most = own.max(*most);
        }
    }
    counts.extend(named);
    counts
}

fn ends(sent: &Sent) -> (PortName, PortName) {
    (sent.from.name.clone(), sent.to.name.clone())
}

/// Numbers that are always the same: Marsaglia's xorshift, of 64 bits.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let product = u128::from(self.0) * u128::from(limit);
        (product >> 64) as u64
    }
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// Sub-flows of all flows together: a link's are counted in 32 bits.
const SUBFLOWS_MOST: u64 = 1 << 31;
/// A sixteenth of a NIC's rate is divided no finer, which is fine enough for 64 spines.
const FINENESS_MAX: u64 = 256;
/// Mb/s of one way as a share: sums of them fit.
const WAY_MAX: u64 = 1 << 40;
/// Looks at a spine for a piece of a flow in all draws of one way: about a second.
const STEPS_MAX: u64 = 200_000_000;
/// Enough for a mean that a person compares.
const DRAWS_MAX: u64 = 16;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::balancer::{Balancer, Inputs};
    use crate::fabric::fact::Fact;
    use crate::fabric::topology::tests::with_nics;

    fn nic(leaf: u8, host: u8) -> v1::Nic {
        v1::Nic {
            host_port_name: format!("leaf{leaf}:nic{host}"),
            ..v1::Nic::default()
        }
    }

    fn flow(from: v1::Nic, to: v1::Nic, pairs: usize) -> v1::JobFlow {
        v1::JobFlow {
            source: Some(from),
            destination: Some(to),
            octets: 1 << 30,
            pairs: vec![v1::QueuePair::default(); pairs],
            ..v1::JobFlow::default()
        }
    }

    /// Queue pairs of each flow of a job at two leaves, in order of its NICs.
    fn queue_pairs(job: &v1::Job) -> Vec<u32> {
        let mut topology = with_nics(2, 2, 4);
        topology.put(Fact::declared(job).unwrap());
        let mut balancer = Balancer::default();
        let inputs = Inputs {
            topology: Arc::new(topology.clone()),
            ..Inputs::default()
        };
        balancer.handle(&inputs, Duration::ZERO).unwrap();
        let solved = balancer.plan().solved.clone().unwrap();
        let job = topology.jobs().next().unwrap();
        let all = SentByJobs::from([(job.name.clone(), sent::by(&topology, job))]);
        let crowd = Crowd::new(&solved, &topology, &PinPlan::default(), &all);
        crowd.known.iter().map(|it| it.queue_pairs).collect()
    }

    #[test]
    fn each_flow_has_the_queue_pairs_of_its_own_group_or_those_that_it_names() {
        let group = |name: &str, ranks: [u32; 2], queue_pairs| v1::CollectiveGroup {
            name: name.to_owned(),
            collective: v1::Collective::AllReduce.into(),
            ranks: ranks.into(),
            octets: 1 << 30,
            queue_pairs,
            ..v1::CollectiveGroup::default()
        };
        let ends = [(1, 1), (2, 1), (1, 2), (2, 2)];
        let mut job = v1::Job {
            name: "train".to_owned(),
            ranks: ends.map(|(leaf, host)| nic(leaf, host)).into(),
            groups: vec![group("few", [0, 1], None), group("many", [2, 3], Some(32))],
            flows: vec![
                flow(nic(1, 3), nic(2, 3), 5),
                v1::JobFlow {
                    queue_pairs: Some(7),
                    ..flow(nic(2, 3), nic(1, 3), 0)
                },
                flow(nic(1, 4), nic(2, 4), 0),
            ],
            ..v1::Job::default()
        };
        assert_eq!(queue_pairs(&job), [1, 1, 32, 32, 5, 7, 1]);
        // What is named is there, whatever is declared; two lists of one flow are one list.
        job.flows = vec![
            flow(nic(1, 1), nic(2, 1), 5),
            flow(nic(1, 1), nic(2, 1), 0),
            flow(nic(1, 1), nic(2, 1), 6),
            flow(nic(1, 2), nic(2, 2), 5),
        ];
        assert_eq!(queue_pairs(&job), [11, 1, 5, 32]);
        job.groups.push(group("more", [0, 1], Some(8)));
        assert_eq!(queue_pairs(&job), [11, 8, 5, 32]);
    }

    proptest! {
        #[test]
        fn a_flow_is_divided_without_a_rest(
            subflows in 1..1_u32 << 20,
            shares in prop::collection::vec(0..=WAY_MAX, 1..64),
        ) {
            prop_assume!(shares.iter().any(|share| *share > 0));
            let shares: Vec<_> = (0..).zip(shares).collect();
            let parts = divided(7, subflows, &shares);
            let given: u64 = parts.iter().map(|part| u64::from(part.subflows)).sum();
            prop_assert_eq!(given, u64::from(subflows));
            let sum: u128 = shares.iter().map(|(_, share)| u128::from(*share)).sum();
            for (spine, share) in &shares {
                let part = parts.iter().find(|part| part.spine == *spine);
                let got = f64::from(part.map_or(0, |part| part.subflows));
                let exact = f64::from(subflows) * *share as f64 / sum as f64;
                prop_assert!((got - exact).abs() <= 1.001, "{} of {}", got, exact);
            }
        }

        #[test]
        fn draws_are_below_their_limit_and_always_the_same(limit in 1..=u64::MAX) {
            let (mut one, mut other) = (Random(SEED), Random(SEED));
            for _ in 0..16 {
                let drawn = one.below(limit);
                prop_assert!(drawn < limit);
                prop_assert_eq!(drawn, other.below(limit));
            }
        }
    }
}
