//! What is planned for jobs, as rows: how far each plan came, and where the flows go. Knows no call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::Message;
use tonic::Status;
use weft_proto::v1 as proto;
use weft_weights::pin::Tight;

use super::super::page::{self, Page};
use super::super::{header, look, refusal};
use crate::balancer::flows::{Divided, LeafFlows, PinnedPort};
use crate::balancer::pins::lacking::{Bare, Lacking, Lacks};
use crate::balancer::pins::programmed::{Programmed, Unpinned, Ways};
use crate::balancer::pins::{Certificate, Hashed, JobPlan, PinPlan, SetTime, State, Weighted};
use crate::balancer::unweighted::Unweighted;
use crate::fabric::fact::{InvalidFabric, Job, PortName, SwitchName, etag};
use crate::fabric::job::Nics;
use crate::fabric::pin::{PinName, PinPath, Pins};
use crate::fabric::topology::Topology;
use crate::speaker::Shared;

/// What is agreed of jobs, with everything that was agreed before the call.
pub(super) struct Agreed {
    pub(super) topology: Topology,
    pub(super) pins: Pins,
    /// Up to where it is.
    pub(super) index: u64,
}

impl Agreed {
    pub(super) async fn look(shared: &Shared) -> Result<Self, Status> {
        let index = shared.consensus.read_index().await;
        let index = index.ok_or_else(refusal::no_majority_to_read)?;
        let look = look::at(shared, index, |reflector| {
            let control = reflector.control();
            let topology = control.declared.topology().clone();
            (topology, control.pins.clone(), reflector.index())
        });
        let (topology, pins, applied) = look.await?;
        Ok(Self {
            topology,
            pins,
            index: applied.max(index),
        })
    }

    /// The job of this name.
    pub(super) fn job(&self, name: &str) -> Result<&Arc<Job>, Status> {
        let job = self.topology.job(&name.into());
        job.ok_or_else(|| refusal::missing("job_name", "job", name))
    }
}

/// Jobs behind one of them, with their plans.
pub(super) fn page(
    agreed: &Agreed,
    (plan, programmed): (&PinPlan, Programmed<'_>),
    after: Option<&str>,
    size: usize,
) -> (Vec<proto::JobPlan>, String) {
    let behind = |job: &&Arc<Job>| after.is_none_or(|after| job.name.as_str() > after);
    let jobs = agreed.topology.jobs().filter(behind);
    let page = Page::of(
        size,
        jobs.map(|job| row(job, plan, &agreed.pins, Some(programmed))),
    );
    let next = page.next(JOB_PLANS, |last| last.job_name.clone());
    (page.rows, next)
}

/// How far the plan of a job came, and which way its flows go by what leaves are to have; None: every leaf has room.
pub(super) fn row(
    job: &Arc<Job>,
    plan: &PinPlan,
    pins: &Pins,
    programmed: Option<Programmed<'_>>,
) -> proto::JobPlan {
    // A plan of what the job was before says nothing of it.
    let planned = plan.topology.job(&job.name);
    let planned = planned.filter(|it| it.names_same(job));
    let own = planned.and_then(|_| plan.jobs.get(&job.name));
    let pinned = planned.map_or(0, |_| pinned(job, plan, pins));
    let flows = programmed.map(|it| it.flows);
    let undivided = planned.map_or(0, |_| undivided(job, plan, pins, flows));
    let moved = planned.map_or_else(Vec::new, |it| moved(it, &plan.topology));
    let ways = planned.and(programmed);
    let ways = ways.and_then(|programmed| plan.ways(&job.name, pins, programmed));
    let ways = ways.unwrap_or_default();
    let (times, sets) = own.map_or_else(Default::default, |_| plan.times(&job.name));
    let flows = own.map_or(0, |own| own.flows);
    let (state, reason) = match own.map(|own| &own.state) {
        None => (proto::JobPlanState::Pending, NOT_PLANNED.to_owned()),
        Some(State::NoFlows) => (proto::JobPlanState::NoFlows, NO_FLOWS.to_owned()),
        Some(State::Placed) if pinned == flows => (proto::JobPlanState::Pinned, String::new()),
        Some(State::Placed) => {
            let why = format!("{pinned} of {flows} flows have the pins that are planned");
            (proto::JobPlanState::Pending, why)
        }
        Some(State::Weighted(why)) => (proto::JobPlanState::Weighted, why.clone()),
        Some(State::Unresolved(why)) => (proto::JobPlanState::Unresolved, why.clone()),
        Some(State::Infeasible(why)) => (proto::JobPlanState::Infeasible, why.clone()),
    };
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let mut row = proto::JobPlan {
        job_name: job.name.to_string(),
        state: state.into(),
        reason,
        flow_count: count(flows),
        pinned_flow_count: count(pinned),
        bundled_flow_count: count(own.map_or(0, |own| own.bundled)),
        unaddressed_flow_count: count(own.map_or(0, |own| own.unaddressed)),
        undivided_flow_count: count(undivided),
        moved_nic_count: count(moved.len()),
        moved_nics: moved.into_iter().take(MOVED_MAX).collect(),
        programmed_flow_count: count(ways.pinned),
        weighted_flow_count: count(ways.weighted),
        own_routing_flow_count: count(ways.own_routing),
        unprogrammed_reasons: unprogrammed(&ways),
        weighted_cause: weighted_cause(own).into(),
        overlap_set_times: times.iter().map(set_time).collect(),
        overlap_set_count: count(sets),
        hashed_load: own.and_then(|own| own.hashed.as_ref()).map(hashed),
        etag: String::new(),
    };
    row.etag = etag(&row.encode_to_vec());
    row
}

/// Why weights carry a job.
fn weighted_cause(own: Option<&JobPlan>) -> proto::WeightedCause {
    match own.and_then(|own| own.weighted) {
        None => proto::WeightedCause::Unspecified,
        Some(Weighted::Off) => proto::WeightedCause::Off,
        Some(Weighted::Wide) => proto::WeightedCause::Wide,
        Some(Weighted::OverLimits) => proto::WeightedCause::OverLimits,
        Some(Weighted::OffPlan) => proto::WeightedCause::OffPlan,
    }
}

fn set_time(of: &SetTime) -> proto::OverlapSetTime {
    proto::OverlapSetTime {
        overlap_set: of.overlap_set.to_string(),
        ideal_duration: Some(header::duration(of.ideal)),
        predicted_duration: of.predicted.map(header::duration),
    }
}

fn hashed(of: &Hashed) -> proto::HashedLoad {
    proto::HashedLoad {
        even_load: of.even,
        most_load: of.most,
        leaf_name: of.leaf.to_string(),
    }
}

/// Why switches do not get pins of a job or do not have them, and why they have no weights instead, in words.
fn unprogrammed(ways: &Ways) -> Vec<String> {
    let shadowed = ways.is_shadowed.then(|| SHADOWED.to_owned());
    let leaves = ways.unpinned.iter();
    let leaves = leaves.map(|(why, leaves)| unpinned(*why, &names(leaves), leaves.len() == 1));
    let unweighted = ways.unweighted.iter();
    let unweighted = unweighted.map(|(why, leaves)| {
        let (have, their) = match leaves.len() {
            1 => ("has", "its"),
            _ => ("have", "their"),
        };
        let (leaves, why) = (names(leaves), unweighted_because(why));
        format!(
            "{leaves} {have} no weights to leaves of the job, {their} own routing decides: {why}"
        )
    });
    let held = ways.withheld.iter().take(WITHHELD_MAX);
    let held = held.map(|(why, leaves)| {
        let leaves = names(leaves);
        format!("not all pins of the job are in the forwarding plane of {leaves}: {why}")
    });
    let leaves = leaves.chain(bares(&ways.bare)).chain(held);
    let all = shadowed.into_iter().chain(leaves).chain(unweighted);
    all.collect()
}

/// Why leaves have nothing of what they are to have, in words: one for each reason.
fn bares(leaves: &BTreeMap<SwitchName, Bare>) -> impl Iterator<Item = String> {
    let mut of: BTreeMap<Bare, BTreeSet<SwitchName>> = BTreeMap::new();
    for (leaf, why) in leaves {
        of.entry(why.lasting()).or_default().insert(leaf.clone());
    }
    let of = of.into_iter();
    of.map(|(why, leaves)| bare(why, &names(&leaves), leaves.len() == 1))
}

/// Why a leaf of this name, or leaves of these, have nothing of what they are to have, in words that stay the same while the reason
/// does.
pub(super) fn bare(why: Bare, leaves: &str, one: bool) -> String {
    let (agent, is, has, them) = match one {
        true => ("weft-agent", "is", "has", "it"),
        false => ("weft-agents", "are", "have", "them"),
    };
    match (why, one) {
        (Bare::Unheard, _) => format!("{leaves} {is} not heard yet by the answering replica"),
        (Bare::Unread, _) => format!(
            "what {leaves} {has} is not known: the leader has no gRIBI session to {them}, or has read nothing there yet"
        ),
        (Bare::Silent { .. }, true) => {
            format!("{agent} of {leaves} has been silent for longer than its lease")
        }
        (Bare::Silent { .. }, false) => {
            format!("{agent} of {leaves} have been silent for longer than their leases")
        }
        (Bare::Unanswered, _) => unpinned(Unpinned::Foreign, leaves, one),
        (Bare::Empty, _) => {
            format!(
                "{agent} of {leaves} {has} nothing, and the leader has no gRIBI session to {them}"
            )
        }
        (Bare::Bypassed, true) => format!(
            "{agent} of {leaves} leaves everything to the own routing of the switch, its conditions say why"
        ),
        (Bare::Bypassed, false) => format!(
            "{agent} of {leaves} leave everything to the own routing of the switches, their conditions say why"
        ),
    }
}

/// Why a switch has nothing of what it is to have, or why nobody knows what it has, in words; None: it has some.
pub(super) fn unprogrammed_switch(lacking: &Lacking, switch: &str) -> Option<String> {
    match lacking.get(&SwitchName::from(switch))? {
        Lacks::All(Bare::Silent { secs }) => Some(format!(
            "weft-agent of {switch} has been silent for {secs} s"
        )),
        Lacks::All(why) => Some(bare(*why, switch, true)),
        Lacks::These(_) => None,
    }
}

/// Why a leaf has no weights to another one, in words.
pub(super) fn unweighted_because(why: &Unweighted) -> &str {
    match why {
        Unweighted::Unplanned => "no plan in force has both",
        Unweighted::NoRoom => "there is no room for them",
        Unweighted::Unnumbered => {
            "a link has no address, and no weft-agent answers that would find the neighbour by the interface"
        }
        Unweighted::Unannounced => "no spine announces a way that is up",
        Unweighted::NoWay => "there is no live way",
        Unweighted::Unanswered => "nobody answers at the address of its agent",
        Unweighted::Withheld(why) => why,
    }
}

/// Why a leaf of this name, or leaves of these, get no pins, in words.
pub(super) fn unpinned(why: Unpinned, leaves: &str, one: bool) -> String {
    let (is, has) = if one { ("is", "has") } else { ("are", "have") };
    match why {
        Unpinned::Shadow => format!("{leaves} {is} in shadow"),
        Unpinned::Off => format!("{leaves} {is} off"),
        Unpinned::Bgp => format!("{leaves} {is} told weights over BGP, and no pins"),
        Unpinned::Foreign => format!("{leaves} {has} no weft-agent that answers"),
        Unpinned::NoAgent => format!("{leaves} {has} no agent"),
    }
}

/// `leaf1, leaf2 and 38 more`.
fn names(leaves: &BTreeSet<SwitchName>) -> String {
    let named = leaves.iter().take(LEAVES_MAX).map(SwitchName::as_str);
    let named: Vec<&str> = named.collect();
    let named = named.join(", ");
    match leaves.len().saturating_sub(LEAVES_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// NICs of a job that type 2 routes place.
fn moved(job: &Job, topology: &Topology) -> Vec<proto::MovedNic> {
    if topology.are_places_declared() {
        return Vec::new();
    }
    let nics = Nics::find(topology, &job.declared, "", &mut InvalidFabric::default());
    let placed = |port: &&PortName| topology.is_placed(port);
    let leaf = |port: &PortName| topology.host_port(port).map(|it| it.switch.to_string());
    let moved = nics.ports().into_iter().filter(placed);
    let moved = moved.map(|port| proto::MovedNic {
        host_port_name: port.to_string(),
        leaf_name: leaf(port).unwrap_or_default(),
    });
    moved.filter(|it| !it.leaf_name.is_empty()).collect()
}

/// Adopted pins of a job over several paths that weights divide.
fn undivided(job: &Job, plan: &PinPlan, pins: &Pins, flows: Option<&LeafFlows>) -> usize {
    if job.declared.balance_mode() == proto::BalanceMode::Shadow {
        return 0;
    }
    let mut divided = Divided::new(&plan.topology, flows);
    let own = pins.after(first(job.name.as_str()));
    let own = own.take_while(|(name, _)| name.job == job.name);
    let several = own.filter(|(_, paths)| paths.len() > 1);
    several
        .filter(|(name, paths)| divided.of(name, paths).is_empty())
        .count()
}

/// Flows of a job whose adopted pins are as planned.
fn pinned(job: &Job, plan: &PinPlan, pins: &Pins) -> usize {
    let own = plan.pins.range(first(job.name.as_str())..);
    let own = own.take_while(|(name, _)| name.job == job.name);
    own.filter(|(name, paths)| pins.get(name) == Some(paths))
        .count()
}

/// Comes before every pin of a job.
pub(in crate::operator) fn first(job: &str) -> PinName {
    PinName {
        job: job.into(),
        source: "".into(),
        destination: "".into(),
    }
}

/// How good the pins are.
pub(super) fn certificate(of: &Certificate) -> proto::PinCertificate {
    let kind = match of.bound {
        None => proto::BoundKind::AllFlows,
        Some(Tight::Nothing) => proto::BoundKind::Unspecified,
        Some(Tight::Sends(_)) => proto::BoundKind::LeafSends,
        Some(Tight::Takes(_)) => proto::BoundKind::LeafTakes,
        Some(Tight::Pair(..)) => proto::BoundKind::LeafPair,
    };
    proto::PinCertificate {
        max_load: of.max_load,
        lower_bound: of.lower_bound,
        bound_kind: kind.into(),
        bound_leaf_names: of.leaves.iter().map(ToString::to_string).collect(),
        tight_link_names: of.tight.iter().map(ToString::to_string).collect(),
        tight_link_count: u32::try_from(of.tight_count).unwrap_or(u32::MAX),
    }
}

/// Which pins a page is asked for.
pub(super) struct Asked {
    list: String,
    job: Option<String>,
    after: Option<PinName>,
    size: usize,
}

impl Asked {
    pub(super) fn read(request: &proto::ListPinsRequest) -> Result<Self, Status> {
        let job = request.job_name.clone();
        let list = match &job {
            Some(job) => format!("pins?job={job}"),
            None => "pins".to_owned(),
        };
        let mut faults = InvalidFabric::default();
        let after = page::after_read(&list, &request.page_token, place, &mut faults);
        let size = page::size(request.page_size, &mut faults);
        refusal::check(&faults)?;
        Ok(Self {
            list,
            job,
            after,
            size,
        })
    }

    /// The adopted pins of the page, and the token of the next one.
    pub(super) fn page(
        &self,
        agreed: &Agreed,
        plan: &PinPlan,
        flows: &LeafFlows,
    ) -> Result<(Vec<proto::Pin>, String), Status> {
        if let Some(job) = &self.job {
            agreed.job(job)?;
        }
        let wanted = |name: &PinName| self.job.as_ref().is_none_or(|job| name.job.as_str() == job);
        let before = || first(self.job.as_deref().unwrap_or_default());
        let pins = agreed.pins.after(self.after.clone().unwrap_or_else(before));
        let pins = pins.take_while(|(name, _)| wanted(name));
        let mut divided = Divided::new(&plan.topology, Some(flows));
        let page = Page::of(
            self.size,
            pins.map(|(name, paths)| pin(name, paths, divided.of(name, paths))),
        );
        let next = page.next(&self.list, |last| {
            let ends = (
                &last.source_host_port_name,
                &last.destination_host_port_name,
            );
            format!("{} {} {}", last.job_name, ends.0, ends.1)
        });
        Ok((page.rows, next))
    }
}

/// The place of a pin in the list, in words: no name has a space.
fn place(text: &str) -> Option<PinName> {
    let mut parts = text.split(' ');
    let [job, source, destination] = [parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then(|| PinName {
        job: job.into(),
        source: source.into(),
        destination: destination.into(),
    })
}

/// A row of the list of pins.
pub(in crate::operator) fn pin(
    name: &PinName,
    paths: &[PinPath],
    ports: Vec<PinnedPort>,
) -> proto::Pin {
    let paths = paths.iter().map(|path| proto::PinPath {
        spine_name: path.spine.to_string(),
        weight: path.weight,
    });
    let mut row = proto::Pin {
        job_name: name.job.to_string(),
        source_host_port_name: name.source.to_string(),
        destination_host_port_name: name.destination.to_string(),
        paths: paths.collect(),
        ports: ports.iter().map(port).collect(),
        etag: String::new(),
    };
    row.etag = etag(&row.encode_to_vec());
    row
}

fn port(pinned: &PinnedPort) -> proto::PinnedPort {
    proto::PinnedPort {
        udp_source_port: pinned.port.into(),
        spine_name: pinned.spine.to_string(),
        queue_pair_count: u32::try_from(pinned.queue_pairs).unwrap_or(u32::MAX),
    }
}

/// Why nothing is known of a job yet.
pub(super) const NOT_PLANNED: &str = "it is not planned yet";
/// Why there is nothing to pin of a job.
pub(super) const NO_FLOWS: &str = "nothing that it sends crosses a spine, as far as anybody said";
/// Why no switch gets pins of a job.
pub(super) const SHADOWED: &str = "the job is in shadow";
/// The list of plans of jobs.
pub(super) const JOB_PLANS: &str = "job_plans";
/// NICs that a row names.
const MOVED_MAX: usize = 16;
/// Leaves that a reason names: so many fit into a line.
const LEAVES_MAX: usize = 8;
/// Reasons that a row says why forwarding planes do not have pins.
const WITHHELD_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancer::flows::of_leaves;
    use crate::balancer::pins::lacking::Missing;
    use crate::balancer::pins::tests::{Bench, ring};
    use crate::fabric::topology::tests::with_nics;
    use crate::southbound::intent::{Flow, Target};

    fn planned(bench: &mut Bench) -> proto::JobPlan {
        planned_without(bench, &Lacking::new())
    }

    /// Where leaves do not have all of what they are to have.
    fn planned_without(bench: &mut Bench, lacking: &Lacking) -> proto::JobPlan {
        let (plan, _) = bench.adopt();
        let weights = bench.balancer.plan();
        let programmed = Programmed {
            plan: weights,
            flows: &of_leaves(weights, &bench.topology, &bench.pins),
            lacking,
        };
        let job = bench.topology.job(&"train".into()).unwrap();
        row(job, &plan, &bench.pins, Some(programmed))
    }

    fn bench(mode: proto::BalanceMode) -> Bench {
        let mut job = ring("train", 4, 1..=2);
        job.set_balance_mode(mode);
        Bench::new(with_nics(4, 4, 2), &[job])
    }

    fn counts(row: &proto::JobPlan) -> [u32; 4] {
        [
            row.pinned_flow_count,
            row.programmed_flow_count,
            row.weighted_flow_count,
            row.own_routing_flow_count,
        ]
    }

    #[test]
    fn a_job_whose_pins_no_switch_gets_says_why() {
        let mut bench = bench(proto::BalanceMode::On);
        let on = planned(&mut bench);
        assert_eq!(on.state(), proto::JobPlanState::Pinned);
        assert_eq!(counts(&on), [8, 8, 0, 0]);
        assert!(on.unprogrammed_reasons.is_empty(), "{on:?}");

        let leaves = [
            ("leaf1", Unpinned::Shadow),
            ("leaf2", Unpinned::Shadow),
            ("leaf3", Unpinned::Off),
            ("leaf4", Unpinned::Foreign),
        ];
        let leaves = leaves.map(|(leaf, why)| (SwitchName::from(leaf), why));
        bench.unpinned = Arc::new(BTreeMap::from(leaves));
        let none = planned(&mut bench);
        assert_eq!(none.state(), proto::JobPlanState::Pinned);
        assert_eq!(counts(&none), [8, 0, 2, 6]);
        let why = [
            "leaf1, leaf2 are in shadow",
            "leaf3 is off",
            "leaf4 has no weft-agent that answers",
        ];
        assert_eq!(none.unprogrammed_reasons, why);
    }

    #[test]
    fn a_job_whose_leaves_have_nothing_says_why() {
        let mut bench = bench(proto::BalanceMode::On);
        let mut without = |leaves: &[(&str, Bare)]| {
            let leaves = leaves.iter();
            let lacking = leaves.map(|(leaf, why)| (SwitchName::from(*leaf), Lacks::All(*why)));
            planned_without(&mut bench, &lacking.collect())
        };
        let silent = |leaf, secs| (leaf, Bare::Silent { secs });
        let one = without(&[silent("leaf1", 12)]);
        assert_eq!(counts(&one), [8, 6, 0, 2]);
        let why = ["weft-agent of leaf1 has been silent for longer than its lease"];
        assert_eq!(one.unprogrammed_reasons, why);
        // It changes once, not each second.
        assert_eq!(without(&[silent("leaf1", 13)]).etag, one.etag);
        assert_ne!(without(&[]).etag, one.etag);
        let some = [
            silent("leaf1", 14),
            ("leaf2", Bare::Unheard),
            silent("leaf3", 12),
        ];
        let some = without(&some);
        assert_eq!(counts(&some), [8, 2, 0, 4]);
        let why = [
            "leaf2 is not heard yet by the answering replica",
            "weft-agents of leaf1, leaf3 have been silent for longer than their leases",
        ];
        assert_eq!(some.unprogrammed_reasons, why);
        let lost = without(&[
            ("leaf1", Bare::Unread),
            ("leaf2", Bare::Unread),
            ("leaf3", Bare::Empty),
            ("leaf4", Bare::Bypassed),
        ]);
        assert_eq!(counts(&lost), [8, 0, 0, 4]);
        let why = [
            "what leaf1, leaf2 have is not known: the leader has no gRIBI session to them, or has read nothing there yet",
            "weft-agent of leaf3 has nothing, and the leader has no gRIBI session to it",
            "weft-agent of leaf4 leaves everything to the own routing of the switch, its conditions say why",
        ];
        assert_eq!(lost.unprogrammed_reasons, why);
    }

    #[test]
    fn a_job_whose_pins_are_not_in_the_forwarding_plane_says_why() {
        let mut bench = bench(proto::BalanceMode::On);
        let target = Target::Flow(Flow::to(100, [192, 168, 2, 1].into()));
        let why = "accepted, not active: there is no VXLAN device for vni-100";
        let missing = Missing {
            withheld: Arc::new([(target, why.into())].into()),
            ..Missing::default()
        };
        let lacks = Lacks::These(missing);
        let held = planned_without(&mut bench, &[("leaf1".into(), lacks)].into());
        assert_eq!(counts(&held), [8, 7, 1, 0]);
        let why = format!("not all pins of the job are in the forwarding plane of leaf1: {why}");
        assert_eq!(held.unprogrammed_reasons, [why]);
    }

    #[test]
    fn a_switch_that_has_nothing_says_why() {
        let lacking = Lacking::from([
            ("leaf1".into(), Lacks::All(Bare::Unheard)),
            ("leaf2".into(), Lacks::These(Missing::default())),
            ("leaf4".into(), Lacks::All(Bare::Silent { secs: 12 })),
        ]);
        let why = |switch| unprogrammed_switch(&lacking, switch);
        let unheard = "leaf1 is not heard yet by the answering replica";
        assert_eq!(why("leaf1").as_deref(), Some(unheard));
        let silent = "weft-agent of leaf4 has been silent for 12 s";
        assert_eq!(why("leaf4").as_deref(), Some(silent));
        assert_eq!((why("leaf2"), why("leaf3")), (None, None));
    }

    /// No spine announces a way, and no weft-agent answers at these leaves.
    #[test]
    fn a_job_that_own_routing_carries_says_why_no_weights_do() {
        let mut bench = bench(proto::BalanceMode::On);
        let mut without = |leaves: &[&str]| {
            bench.foreign = leaves.iter().map(|leaf| SwitchName::from(*leaf)).collect();
            let foreign = bench.foreign.iter().cloned();
            let foreign = foreign.map(|leaf| (leaf, Unpinned::Foreign));
            bench.unpinned = Arc::new(foreign.collect());
            planned(&mut bench)
        };
        let one = without(&["leaf4"]);
        assert_eq!(counts(&one), [8, 6, 0, 2]);
        let why = [
            "leaf4 has no weft-agent that answers",
            "leaf4 has no weights to leaves of the job, its own routing decides: no spine announces a way that is up",
        ];
        assert_eq!(one.unprogrammed_reasons, why);
        let two = without(&["leaf1", "leaf4"]);
        assert_eq!(counts(&two), [8, 4, 0, 4]);
        let why = "leaf1, leaf4 have no weights to leaves of the job, their own routing decides: no spine announces a way that is up";
        assert_eq!(two.unprogrammed_reasons[1], why);
    }

    #[test]
    fn a_row_keeps_its_etag_while_it_is_the_same() {
        let mut bench = bench(proto::BalanceMode::On);
        let on = planned(&mut bench);
        assert_eq!(on.etag.len(), 16);
        let unnamed = proto::JobPlan {
            etag: String::new(),
            ..on.clone()
        };
        assert_eq!(etag(&unnamed.encode_to_vec()), on.etag);
        let off = [(SwitchName::from("leaf1"), Unpinned::Off)];
        bench.unpinned = Arc::new(BTreeMap::from(off));
        assert_ne!(planned(&mut bench).etag, on.etag);
        let (name, paths) = bench.pins.iter().next().unwrap();
        let port = PinnedPort {
            port: 49_152,
            spine: paths[0].spine.clone(),
            queue_pairs: 1,
        };
        let [alone, again] = [(); 2].map(|()| pin(name, paths, Vec::new()).etag);
        assert_eq!(alone, again);
        assert_ne!(pin(name, paths, vec![port]).etag, alone);
    }

    #[test]
    fn a_row_says_how_long_overlap_sets_take() {
        let on = planned(&mut bench(proto::BalanceMode::On));
        // 2 * 7 / 8 of 1 GiB at 100 Gb/s, and no link is above its capacity.
        let nanos = 150_323_855;
        let time = Some(prost_types::Duration { seconds: 0, nanos });
        let expected = proto::OverlapSetTime {
            overlap_set: String::new(),
            ideal_duration: time,
            predicted_duration: time,
        };
        assert_eq!(
            (on.overlap_set_times, on.overlap_set_count),
            (vec![expected], 1)
        );
        let off = planned(&mut bench(proto::BalanceMode::Off));
        assert_eq!((off.overlap_set_times, off.overlap_set_count), (vec![], 0));
    }

    #[test]
    fn a_job_in_shadow_goes_by_weights() {
        let shadowed = planned(&mut bench(proto::BalanceMode::Shadow));
        assert_eq!(shadowed.state(), proto::JobPlanState::Pinned);
        assert_eq!(counts(&shadowed), [8, 0, 8, 0]);
        assert_eq!(shadowed.unprogrammed_reasons, ["the job is in shadow"]);
    }

    #[test]
    fn a_job_that_is_off_is_carried_by_weights_as_it_is_wanted() {
        let off = planned(&mut bench(proto::BalanceMode::Off));
        assert_eq!(off.state(), proto::JobPlanState::Weighted);
        assert_eq!(off.weighted_cause(), proto::WeightedCause::Off);
        assert_eq!(counts(&off), [0; 4]);
    }

    #[test]
    fn a_reason_names_the_first_leaves() {
        let leaves = |count: u8| (1..=count).map(|it| SwitchName::from(&*format!("leaf{it}")));
        assert_eq!(names(&leaves(2).collect()), "leaf1, leaf2");
        let many = names(&leaves(9).collect());
        assert!(many.ends_with("leaf8 and 1 more"), "{many}");
    }
}
