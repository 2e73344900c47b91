//! From what jobs send to pins: the spines that each flow between two NICs goes over, and how good they are together.
//!
//! A plan of pins depends on its past: what is adopted stays where it is unless it has to move. What NICs of one leaf send to one
//! NIC goes over the same spines where each of them sends less than half a sub-flow there, or where the leaf has no room to tell them apart.
//! Pure. It refuses to know who adopts, and how a switch pins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weft_weights::pin::{
    Fault, Flow, Flows, Infeasible, Level, Part, Phase, Placement, Plane, Recount,
    place_by_priority_in_phases, place_lower_by_priority, recount_in_phases,
};

use self::candidates::candidates;
pub use self::certificate::Certificate;
pub use self::hashed::Hashed;
use self::programmed::Unpinned;
use self::sent::{Sent, SentOfJob, Unresolved};
pub use self::times::SetTime;
use super::Plan;
use super::demand::Demand;
use super::flows::{flow_from, is_addressed, is_told_apart};
use super::queue_pairs::divided;
use super::solved::Solved;
use crate::fabric::fact::{JobName, SwitchName};
use crate::fabric::pin::{PinName, PinPath, Pins};
use crate::fabric::topology::Topology;

pub(super) mod above;
mod candidates;
mod certificate;
mod hashed;
mod kept_free;
pub mod lacking;
mod owners;
mod pieces;
pub mod predict;
pub mod programmed;
pub mod sends;
mod sent;
mod times;
pub mod ways;

/// What pins follow from, beside the plan of weights, which knows the links.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// What is declared, with the jobs.
    pub topology: Topology,
    /// The pins that are adopted.
    pub pins: Pins,
    /// Leaves that get no pins, as far as their modes and their servers say. Others with an agent get them.
    pub unpinned: Arc<BTreeMap<SwitchName, Unpinned>>,
}

impl Inputs {
    /// Whether pins that follow from one follow from the other.
    pub fn is_same(&self, other: &Self) -> bool {
        self.topology.has_alike_jobs(&other.topology)
            && self.pins.is_same(&other.pins)
            && self.unpinned == other.unpinned
    }

    /// Whether a switch gets the pin of what is sent: not of a job that is in shadow, of a NIC that no switch can tell, or at a
    /// leaf that gets no pins.
    fn is_installed(&self, (job, sent): &(&JobName, &Sent)) -> bool {
        let (topology, leaf) = (&self.topology, &sent.from.switch);
        !programmed::is_shadowed(topology, job)
            && Unpinned::why(topology, &self.unpinned, leaf).is_none()
            && sent.is_known()
    }
}

/// Where flows of jobs should go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PinPlan {
    /// The count of the adopted pins that it was made from.
    pub adopted: u64,
    /// What is declared, with the jobs, as it was planned for.
    pub topology: Topology,
    /// What became of each job.
    pub jobs: BTreeMap<JobName, JobPlan>,
    /// Every pin.
    pub pins: BTreeMap<PinName, Arc<[PinPath]>>,
    /// How good they are; None without any.
    pub certificate: Option<Certificate>,
    /// Leaves that get none of them, as it was planned for.
    unpinned: Arc<BTreeMap<SwitchName, Unpinned>>,
    /// What pins carry, and weights.
    demand: Arc<Demand>,
    /// What every job sends.
    sent: Arc<SentByJobs>,
}

impl PinPlan {
    /// What pins carry between leaves and spines, and what jobs are known to send that weights carry.
    pub fn demand(&self) -> &Arc<Demand> {
        &self.demand
    }
}

/// What every job sends, or why nobody knows.
type SentByJobs = BTreeMap<JobName, Result<SentOfJob, Unresolved>>;

/// What became of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// How far it came.
    pub state: State,
    /// Pairs of NICs at different leaves of which the first sends to the second, as far as they were counted.
    pub flows: usize,
    /// Flows that go over the same spines as all others of their leaf to the same NIC: the leaf has one entry for them.
    pub bundled: usize,
    /// Flows that no switch can tell: to NICs without a known address or VNI, from one that sends to several of them.
    pub unaddressed: usize,
    /// Why weights carry it; None: they do not.
    pub weighted: Option<Weighted>,
    /// What hashing may make of it, where weights carry it and somebody knows what it sends.
    pub hashed: Option<Hashed>,
    /// How long its overlap sets take, in order of their names; the first of them, and of a wide job none: see [`PinPlan::times`].
    times: Vec<SetTime>,
    /// How many overlap sets it sends in.
    sets: usize,
}

/// Why weights carry a job that could be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighted {
    /// An operator said so.
    Off,
    /// The job has more flows than are pinned of one job.
    Wide,
    /// A leaf has no room for its pins, or there is too much to place.
    OverLimits,
    /// Measured load was off its plan.
    OffPlan,
}

/// How far the plan of a job came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is sent over a spine, as far as anybody said.
    NoFlows,
    /// Every flow has its spines.
    Placed,
    /// Weights carry it, for this reason.
    Weighted(String),
    /// The fabric does not have what the job names, or ranks make no communicator.
    Unresolved(String),
    /// Flows have no way.
    Infeasible(String),
}

/// Makes plans of pins, and remembers what does not change with links.
#[derive(Default)]
pub struct Planner {
    last: Option<(Arc<Solved>, Inputs)>,
    /// What every job sends, as long as no job and no host port changes.
    sent: Arc<SentByJobs>,
    plan: Arc<PinPlan>,
    /// Whether links came back, and nothing that was planned for them is adopted yet.
    has_returned: bool,
}

impl Planner {
    /// The plan for these inputs; None: nothing changed since the last one.
    pub fn handle(&mut self, weights: &Plan, inputs: &Inputs) -> Option<Arc<PinPlan>> {
        let solved = weights.solved.as_ref()?;
        if let Some((old, before)) = &self.last
            && Arc::ptr_eq(old, solved)
            && before.is_same(inputs)
        {
            return None;
        }
        let last = self.last.as_ref();
        let same_network = |old: &Solved| old.topology().is_same_network(solved.topology());
        let topology = &inputs.topology;
        if !last.is_some_and(|(old, before)| {
            before.topology.has_alike_jobs(topology) && same_network(old)
        }) {
            let sent = |job: &Arc<_>| sent::by(topology, job);
            let jobs = topology.jobs();
            let mut all: SentByJobs = jobs.map(|job| (job.name.clone(), sent(job))).collect();
            owners::settle(topology, &mut all);
            self.sent = Arc::new(all);
        }
        let since = last.map(|(old, _)| solved.links_since(old));
        let since = since.unwrap_or_default();
        let has_returned = self.has_returned || since.more;
        // Where others fail at the same time only what those carried moves, and flows move back with the next plan.
        let moves_back = has_returned && !since.less;
        self.last = Some((Arc::clone(solved), inputs.clone()));
        self.plan = Arc::new(PinPlan {
            topology: inputs.topology.clone(),
            sent: Arc::clone(&self.sent),
            ..planned(solved, inputs, &self.sent, moves_back)
        });
        let is_adopted = || self.plan.pins.iter().eq(inputs.pins.iter());
        self.has_returned = has_returned && !(moves_back && is_adopted());
        Some(Arc::clone(&self.plan))
    }
}

/// Jobs that are placed together.
struct Posed<'a> {
    /// What goes together: a flow, or several of a leaf to one NIC. In the order in which the solver knows it as one flow.
    bundles: Vec<Vec<(&'a JobName, &'a Sent)>>,
    flows: Flows,
    /// Priorities of the flows: of each, the highest of the jobs that send it.
    priorities: Vec<u32>,
    /// Phases of the flows: of each, when it is sent, if one job sends it, and not always.
    phases: Vec<Option<Phase>>,
    /// The part of each flow, 0 to 1, that switches get pins for; weights carry the rest.
    installed: Vec<f64>,
    /// Bits per second of a sub-flow.
    unit_bps: u64,
    /// Whether a few flows move back, to links that carry less than they could.
    moves_back: bool,
}

/// A plan as if every leaf with an agent got its pins.
fn plan(solved: &Solved, topology: &Topology, all: &SentByJobs, past: &Pins) -> PinPlan {
    let inputs = Inputs {
        topology: topology.clone(),
        pins: past.clone(),
        ..Inputs::default()
    };
    planned(solved, &inputs, all, false)
}

/// A plan for what jobs send, from the adopted pins. With `moves_back` a few flows move if no link carries more than it has to then.
fn planned(solved: &Solved, inputs: &Inputs, all: &SentByJobs, moves_back: bool) -> PinPlan {
    let (topology, past) = (&inputs.topology, &inputs.pins);
    let mut made = PinPlan {
        adopted: past.revision(),
        unpinned: Arc::clone(&inputs.unpinned),
        ..PinPlan::default()
    };
    let (candidates, apart) = candidates(topology, all, solved.measured(), &mut made.jobs);
    let mut pinned: Pinned = candidates
        .into_iter()
        .map(|(job, sent)| (job, sent.iter().collect()))
        .collect();
    let plane = solved.planes().plane();
    while !pinned.is_empty() {
        let posed = Posed {
            moves_back,
            ..pose(solved, inputs, &plane, (&pinned, &apart))
        };
        let parts = posed.parts_of(solved, &plane, past);
        // A link that is not full delays nobody.
        let full = Level {
            subflows: 1,
            capacity: posed.unit_bps,
        };
        match posed.place(&plane, &parts, full) {
            Ok(placement) => {
                let placement = posed.staying(solved, &parts, full, placement);
                if !posed.take(solved, &plane, &placement, &mut made) {
                    keep(past, &pinned, &mut made);
                }
                break;
            }
            // Each turn leaves out what has no way, or a job.
            Err(infeasible) => posed.leave_out(&plane, solved, infeasible, &mut pinned, &mut made),
        }
    }
    weighted(inputs, all, &mut made);
    // Only pins leave alone what leaves keep free.
    let whole = solved.whole_planes();
    let whole = whole.map_or(plane, |planes| Plane::new(planes.problem()));
    for (job, plan) in &mut made.jobs {
        if matches!(plan.state, State::Weighted(_)) {
            plan.hashed = hashed::of_job(solved, &whole, &all[job]);
        }
    }
    made
}

/// What is to be pinned, job by job.
type Pinned<'a> = BTreeMap<&'a JobName, Vec<&'a Sent>>;

/// Keeps what is adopted for jobs whose placement failed the check. A leaf where a link of it is dead does without that pin.
fn keep(past: &Pins, pinned: &Pinned<'_>, made: &mut PinPlan) {
    for job in pinned.keys() {
        let plan = made.jobs.get_mut(*job).expect("every job has a plan");
        plan.state =
            State::Infeasible("pins failed the check; those that are adopted stay".to_owned());
    }
    let kept = past
        .iter()
        .filter(|(name, _)| pinned.contains_key(&name.job));
    made.pins
        .extend(kept.map(|(name, paths)| (name.clone(), Arc::clone(paths))));
}

/// Adds what jobs are known to send that weights carry.
fn weighted(inputs: &Inputs, all: &SentByJobs, made: &mut PinPlan) {
    let demand = Arc::make_mut(&mut made.demand);
    for (job, sent) in all {
        match sent {
            Ok(sent) => {
                let (plan, pins) = (made.jobs.get(job), &made.pins);
                // Every flow of it has a pin then: none is looked for among hundreds of thousands.
                let is_placed = plan.is_some_and(|plan| plan.state == State::Placed);
                let by_weights = |it: &&Sent| {
                    let has_pin = is_placed || pins.contains_key(&name(&(job, it)));
                    !has_pin || !inputs.is_installed(&(job, it))
                };
                for sent in sent.over.iter().filter(by_weights) {
                    demand.send(&sent.from.switch, &sent.to.switch, sent.bps);
                }
            }
            Err(Unresolved::TooMany { wide, .. }) => {
                for (from, to, bps) in &wide.between {
                    demand.send(from, to, *bps);
                }
            }
            Err(_) => {}
        }
    }
}

/// Puts what jobs send as flows of whole sub-flows. A sub-flow is a sixteenth of the slowest NIC's rate, unless NICs differ much.
fn pose<'a>(
    solved: &Solved,
    inputs: &Inputs,
    plane: &Plane,
    (pinned, apart): (&Pinned<'a>, &BTreeSet<&JobName>),
) -> Posed<'a> {
    let all = || {
        let of_jobs = pinned.iter();
        of_jobs.flat_map(|(job, sent)| sent.iter().map(|it| (*job, *it)))
    };
    let rates = || all().map(|(_, sent)| sent.nic_bps);
    let (slowest, fastest) = (rates().min().unwrap_or(1), rates().max().unwrap_or(1));
    let unit_bps = unit_bps(slowest, fastest);
    let mut places: BTreeMap<&SwitchName, u32> = BTreeMap::new();
    let mut place = |leaf: &'a SwitchName| {
        let found = || plane.leaves().binary_search(&solved.number(leaf)?).ok();
        let place = places.entry(leaf);
        *place.or_insert_with(|| found().map_or(u32::MAX, |at| at as u32))
    };
    let mut bundles: BTreeMap<_, Vec<(&JobName, &Sent)>> = BTreeMap::new();
    for (job, sent) in all() {
        let is_apart = apart.contains(job) && sent.is_worth_telling_apart(unit_bps);
        let source = is_apart.then_some(&sent.from.name);
        let bundle = (&sent.from.switch, &sent.to.name, source);
        bundles.entry(bundle).or_default().push((job, sent));
    }
    let flows = bundles.values().map(|sent| {
        let (_, first) = sent[0];
        let bps = sent.iter().map(|(_, sent)| u128::from(sent.bps)).sum();
        Flow {
            from: place(&first.from.switch),
            to: place(&first.to.switch),
            subflows: subflows(bps, unit_bps),
        }
    });
    let flows = Flows::new(flows.collect());
    let topology = &inputs.topology;
    let priority = |job: &JobName| topology.job(job).map_or(0, |job| job.declared.priority);
    let numbers: BTreeMap<&JobName, u32> = pinned.keys().copied().zip(0..).collect();
    let phase = |(job, sent): (&JobName, &Sent)| {
        let phase = sent.phase?;
        Some(Phase {
            job: numbers[job],
            phase,
        })
    };
    let bundles: Vec<_> = bundles.into_values().collect();
    let flows = flows.with_pieces(pieces::of_bundles(topology, &bundles, plane.spines().len()));
    let of_bundle = |bundle: &Vec<(&JobName, &Sent)>| {
        let mut phases = bundle.iter().map(|it| phase(*it));
        let first = phases.next().flatten();
        first.filter(|_| phases.all(|it| it == first))
    };
    let highest = |bundle: &Vec<(&JobName, &Sent)>| {
        let priorities = bundle.iter().map(|(job, _)| priority(job));
        priorities.max().unwrap_or(0)
    };
    let installed = |bundle: &Vec<(&JobName, &Sent)>| {
        let bps = |part: &mut dyn Iterator<Item = &(&JobName, &Sent)>| -> u128 {
            part.map(|(_, sent)| u128::from(sent.bps)).sum()
        };
        let own = bundle.iter().filter(|it| inputs.is_installed(it));
        bps(&mut own.into_iter()) as f64 / bps(&mut bundle.iter()).max(1) as f64
    };
    Posed {
        flows,
        installed: bundles.iter().map(installed).collect(),
        priorities: bundles.iter().map(highest).collect(),
        phases: bundles.iter().map(of_bundle).collect(),
        bundles,
        unit_bps,
        moves_back: false,
    }
}

/// Bits per second of a sub-flow, where NICs send at these rates.
fn unit_bps(slowest: u64, fastest: u64) -> u64 {
    (slowest / SUBFLOWS).max(fastest / SUBFLOWS_MAX).max(1)
}

/// A flow in whole sub-flows, at least one. No rate that anybody declares makes too many of them to count.
fn subflows(bps: u128, unit_bps: u64) -> u32 {
    let rounded = (bps + u128::from(unit_bps / 2)) / u128::from(unit_bps);
    u32::try_from(rounded).unwrap_or(u32::MAX).max(1)
}

/// Adopted paths of a flow that has so many sub-flows now: rates of others may have changed what a sub-flow is.
fn rescaled(paths: &[PinPath], subflows: u32) -> impl Iterator<Item = (&SwitchName, u32)> {
    let total: u64 = paths.iter().map(|path| u64::from(path.weight)).sum();
    paths.iter().filter_map(move |path| {
        let share = u64::from(path.weight) * u64::from(subflows) / total.max(1);
        let share = u32::try_from(share).ok().filter(|share| *share > 0)?;
        Some((&path.spine, share))
    })
}

impl Sent {
    /// Whether the flow has a way of its own: if it is half a sub-flow or more, and switches can tell it from others.
    fn is_worth_telling_apart(&self, unit_bps: u64) -> bool {
        self.bps >= unit_bps / 2 && is_told_apart(&self.from, &self.to)
    }

    /// Whether switches can know it: by where it goes, or by where it comes from.
    fn is_known(&self) -> bool {
        is_addressed(&self.to) || self.by_interface && flow_from(&self.from, &self.to).is_some()
    }
}

fn name((job, sent): &(&JobName, &Sent)) -> PinName {
    PinName {
        job: (*job).clone(),
        source: sent.from.name.clone(),
        destination: sent.to.name.clone(),
    }
}

impl Posed<'_> {
    /// By priority where jobs differ in it; phases of a job apart.
    fn place(&self, plane: &Plane, past: &[Part], full: Level) -> Result<Placement, Infeasible> {
        let (flows, priorities, phases) = (&self.flows, &self.priorities, &self.phases);
        let ranked = match self.moves_back {
            true => place_lower_by_priority(plane, flows, priorities, phases, past, full),
            false => place_by_priority_in_phases(plane, flows, priorities, phases, past, full),
        };
        ranked.map(|ranked| ranked.placement)
    }

    /// An independent count of parts.
    fn recount(&self, solved: &Solved, parts: &[Part]) -> Result<Recount, Fault> {
        let problem = solved.planes().problem();
        recount_in_phases(problem, &self.flows, &self.phases, parts)
    }

    /// Parts as switches can divide flows: by whole queue pairs, where these are known. In sub-flows, rounded.
    fn by_queue_pairs(&self, parts: &[Part]) -> Vec<Part> {
        let mut all = Vec::with_capacity(parts.len());
        for parts in parts.chunk_by(|a, b| a.flow == b.flow) {
            let bundle = &self.bundles[parts[0].flow as usize];
            let has_ports = |sent: &Sent| !sent.ports.is_empty() && is_addressed(&sent.to);
            let known = bundle.iter().all(|(_, sent)| has_ports(sent));
            if parts.len() == 1 || !known {
                all.extend_from_slice(parts);
                continue;
            }
            let weights: Vec<u32> = parts.iter().map(|part| part.subflows).collect();
            let mut bps = vec![0_u128; parts.len()];
            for (_, sent) in bundle {
                for (_, count, path) in divided(&sent.ports, &weights) {
                    bps[path] += u128::from(sent.bps) * count as u128 / sent.ports.len() as u128;
                }
            }
            all.extend(rounded(parts, &bps));
        }
        all
    }

    /// The adopted pins of these flows, as the solver knows them.
    fn parts_of(&self, solved: &Solved, plane: &Plane, pins: &Pins) -> Vec<Part> {
        if pins.is_empty() {
            return Vec::new();
        }
        let mut parts = Vec::with_capacity(self.bundles.len());
        for (flow, bundle) in self.bundles.iter().enumerate() {
            // All of a bundle have the same paths; what joined it since has none.
            let Some(paths) = bundle.iter().find_map(|it| pins.get(&name(it))) else {
                continue;
            };
            let begin = parts.len();
            for (spine, subflows) in rescaled(paths, self.flows.all()[flow].subflows) {
                let number = solved.plane_of(spine);
                let spine = number.and_then(|number| plane.spines().binary_search(&number).ok());
                parts.extend(spine.map(|spine| Part {
                    flow: flow as u32,
                    spine: spine as u32,
                    subflows,
                }));
            }
            parts[begin..].sort_unstable();
        }
        parts
    }

    /// Takes a placement, if an independent count of it agrees; whether it does.
    fn take(
        &self,
        solved: &Solved,
        plane: &Plane,
        placement: &Placement,
        made: &mut PinPlan,
    ) -> bool {
        let parts = self.by_queue_pairs(&placement.parts);
        let recounts = self.recount(solved, &parts);
        let recounts =
            recounts.and_then(|leaves| Ok((leaves, self.recount_above(solved, &parts)?)));
        let counted = match recounts {
            Ok(counted) => counted,
            Err(fault) => {
                tracing::error!(%fault, "pins failed the check; those that are adopted stay");
                return false;
            }
        };
        let spine = |leaf: u32, place: u32| {
            let leaf = plane.leaves()[leaf as usize];
            solved.spine(leaf, plane.spines()[place as usize])
        };
        for parts in placement.parts.chunk_by(|a, b| a.flow == b.flow) {
            let paths = parts.iter().filter_map(|part| {
                let from = self.flows.all()[part.flow as usize].from;
                Some(PinPath {
                    spine: spine(from, part.spine)?.clone(),
                    weight: part.subflows,
                })
            });
            let paths: Arc<[PinPath]> = paths.collect();
            let bundle = &self.bundles[parts[0].flow as usize];
            let names = bundle.iter().map(name);
            made.pins
                .extend(names.map(|name| (name, Arc::clone(&paths))));
        }
        self.count_bundled(made);
        let demand = Arc::make_mut(&mut made.demand);
        for part in &parts {
            let flow = self.flows.all()[part.flow as usize];
            let bps = f64::from(part.subflows) * self.unit_bps as f64;
            let bps = (bps * self.installed[part.flow as usize]) as u64;
            let is_between_pods = solved.planes().are_apart(
                plane.leaves()[flow.from as usize],
                plane.leaves()[flow.to as usize],
            );
            for (leaf, is_down) in [(flow.from, false), (flow.to, true)] {
                let name = solved.name(plane.leaves()[leaf as usize]);
                if let Some((leaf, spine)) = name.zip(spine(leaf, part.spine)) {
                    demand.pin(leaf, spine, is_down, bps);
                    if is_between_pods {
                        demand.pin_above(spine, is_down, bps);
                    }
                }
            }
        }
        self.predict_times(plane, &parts, made);
        made.certificate = Some(self.certificate(solved, plane, placement, &counted));
        true
    }

    /// Counts flows that their leaf knows by one entry, for they go the same way to one NIC.
    fn count_bundled(&self, made: &mut PinPlan) {
        let is_one = |a: &Sent, b: &Sent| ends(a).0 == ends(b).0 && a.to.name == b.to.name;
        // Bundles are in order of leaf and destination.
        let alike = self.bundles.chunk_by(|a, b| is_one(a[0].1, b[0].1));
        for together in alike {
            let all = || together.iter().flatten();
            let mut paths = all().map(|it| made.pins.get(&name(it)));
            let one = paths.next().flatten();
            let is_addressed = is_addressed(&together[0][0].1.to);
            if !is_addressed || all().nth(1).is_none() || !paths.all(|it| it == one) {
                continue;
            }
            for (job, _) in all() {
                let plan = made.jobs.get_mut(*job).expect("every job has a plan");
                plan.bundled += 1;
            }
        }
    }

    /// Leaves out what cannot be placed: flows without a way, or jobs.
    fn leave_out(
        &self,
        plane: &Plane,
        solved: &Solved,
        infeasible: Infeasible,
        pinned: &mut Pinned<'_>,
        made: &mut PinPlan,
    ) {
        match infeasible {
            Infeasible::NoLink { .. } | Infeasible::NoWay { .. } => {
                self.leave_out_cut(plane, solved, pinned, made);
            }
            Infeasible::NoFlow { flow } => {
                let why = "a host port is at no leaf of the plan";
                for (job, _) in &self.bundles[flow] {
                    if pinned.remove(*job).is_some() {
                        let plan = made.jobs.get_mut(*job).expect("every job has a plan");
                        plan.state = State::Infeasible(why.to_owned());
                    }
                }
            }
            Infeasible::TooMany => self.leave_out_largest(pinned, made),
        }
    }

    /// Leaves out flows without a way. The others of their jobs stay as they are.
    fn leave_out_cut(
        &self,
        plane: &Plane,
        solved: &Solved,
        pinned: &mut Pinned<'_>,
        made: &mut PinPlan,
    ) {
        let mut cut: BTreeMap<(&SwitchName, &SwitchName), String> = BTreeMap::new();
        for (flow, bundle) in self.flows.all().iter().zip(&self.bundles) {
            let (_, sent) = bundle[0];
            if let Some(why) = why_cut(plane, solved, *flow, sent) {
                cut.insert(ends(sent), why);
            }
        }
        // Whoever asks again leaves something out, whatever the solver means.
        if cut.is_empty() {
            return self.leave_out_largest(pinned, made);
        }
        pinned.retain(|job, sent| {
            let reasons: BTreeSet<&String> =
                sent.iter().filter_map(|it| cut.get(&ends(it))).collect();
            if reasons.is_empty() {
                return true;
            }
            let why = some_of(&reasons);
            let all = sent.len();
            sent.retain(|sent| !cut.contains_key(&ends(sent)));
            let why = match all - sent.len() {
                lost if lost == all => why,
                1 => format!("{why}: 1 of {all} flows has no way, the others are pinned"),
                lost => format!("{why}: {lost} of {all} flows have no way, the others are pinned"),
            };
            let plan = made.jobs.get_mut(*job).expect("every job has a plan");
            plan.state = State::Infeasible(why);
            !sent.is_empty()
        });
    }

    /// Leaves the job with most flows to weights: with it there is too much to place.
    fn leave_out_largest(&self, pinned: &mut Pinned<'_>, made: &mut PinPlan) {
        let largest = pinned.iter().max_by_key(|(_, sent)| sent.len());
        let Some(job) = largest.map(|(job, _)| *job) else {
            return;
        };
        pinned.remove(job);
        let plan = made.jobs.get_mut(job).expect("every job has a plan");
        plan.state = State::Weighted("with it there are too many flows to place".to_owned());
        plan.weighted = Some(Weighted::OverLimits);
    }
}

fn ends(sent: &Sent) -> (&SwitchName, &SwitchName) {
    (&sent.from.switch, &sent.to.switch)
}

/// Why there is no way for what is sent from one leaf to another; None: there is one.
fn why_cut(plane: &Plane, solved: &Solved, flow: Flow, sent: &Sent) -> Option<String> {
    let places = [flow.from, flow.to].map(|leaf| leaf as usize);
    let leaves = [&sent.from.switch, &sent.to.switch];
    let dead = |(place, _): &(usize, &SwitchName)| plane.capacity(*place) == 0;
    if let Some((_, leaf)) = places.into_iter().zip(leaves).find(dead) {
        return Some(format!("{leaf} has no link that carries traffic"));
    }
    let [from, to] = leaves.map(SwitchName::as_str);
    (!plane.share(places[0], places[1])).then(|| no_way(solved, from, to))
}

/// Reasons in a line, the first of them if they are many.
fn some_of(reasons: &BTreeSet<&String>) -> String {
    let some: Vec<&str> = reasons
        .iter()
        .take(REASONS_MAX)
        .map(|it| it.as_str())
        .collect();
    match reasons.len() - some.len() {
        0 => some.join("; "),
        more => format!("{}; and {more} more", some.join("; ")),
    }
}

/// Why there is no way for pins from one leaf to another.
fn no_way(solved: &Solved, from: &str, to: &str) -> String {
    let mixed = solved.planes().mixed();
    let mixed = mixed.map(|both| both.map(|it| solved.name(it)));
    match mixed {
        Some([Some(one), Some(other)]) => format!(
            "no spine leads from {from} to {to}: {one} and {other} lead to the same super-spines"
        ),
        _ => format!("no spine leads from {from} to {to}"),
    }
}

/// The sub-flows of a flow, by what each part carries.
fn rounded(parts: &[Part], bps: &[u128]) -> Vec<Part> {
    let subflows: u64 = parts.iter().map(|part| u64::from(part.subflows)).sum();
    let total = bps.iter().sum::<u128>().max(1);
    let (mut before, mut given) = (0_u128, 0);
    let parts = parts.iter().zip(bps).map(|(part, bps)| {
        before += bps;
        let reached = (before * u128::from(subflows) + total / 2) / total;
        let reached = u64::try_from(reached).unwrap_or(u64::MAX);
        let own = reached - given;
        given = reached;
        Part {
            subflows: u32::try_from(own).unwrap_or(u32::MAX),
            ..*part
        }
    });
    parts.filter(|part| part.subflows > 0).collect()
}

/// Reasons of a job that are said.
const REASONS_MAX: usize = 3;
/// Sub-flows of a NIC that sends at its rate: a flow can be divided into so many parts.
const SUBFLOWS: u64 = 16;
/// Sub-flows of the fastest NIC at most, where rates differ much.
const SUBFLOWS_MAX: u64 = 256;

#[cfg(test)]
pub(crate) mod tests;
