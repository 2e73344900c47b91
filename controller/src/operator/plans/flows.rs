//! The flows of a job as rows: the way that each goes, and what is predicted and seen of it. Knows no call.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use tonic::Status;
use weft_proto::v1 as proto;

use super::super::page::{self, Page};
use super::super::refusal;
use super::job::{self, Agreed};
use crate::balancer::pins::programmed::{Loose, Programmed, Way};
use crate::balancer::pins::ways::PlannedFlow;
use crate::balancer::pins::{JobPlan, PinPlan, State};
use crate::daemon::switches::led::Led;
use crate::fabric::fact::{InvalidFabric, PortName, SwitchName};
use crate::southbound::intent::Flow;

/// Which flows a page is asked for.
pub(super) struct Asked {
    list: String,
    job: String,
    after: Option<(PortName, PortName)>,
    size: usize,
}

/// Flows of a job, and by what their leaves count them.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// The flows.
    pub(super) rows: Vec<proto::PlannedFlow>,
    /// The token of the next page.
    pub(super) next: String,
    /// Why there are none; empty: there are some.
    pub(super) unlisted_reason: String,
    /// Of each row the leaf that sends it, and by what it counts that; nothing where it does not.
    counted: Vec<(SwitchName, BTreeSet<Flow>)>,
}

impl Asked {
    pub(super) fn read(request: &proto::ListJobFlowsRequest) -> Result<Self, Status> {
        let list = format!("job_flows?job={}", request.job_name);
        let mut faults = InvalidFabric::default();
        let after = page::after_read(&list, &request.page_token, place, &mut faults);
        let size = page::size(request.page_size, &mut faults);
        refusal::check(&faults)?;
        Ok(Self {
            list,
            job: request.job_name.clone(),
            after,
            size,
        })
    }

    /// The flows of the page, of which nothing is seen yet.
    pub(super) fn page(
        &self,
        agreed: &Agreed,
        plan: &PinPlan,
        programmed: Programmed<'_>,
    ) -> Result<Listed, Status> {
        let job = agreed.job(&self.job)?;
        // A plan of what the job was before says nothing of it.
        let planned = plan.topology.job(&job.name);
        let planned = planned.is_some_and(|it| it.names_same(job));
        let own = plan.jobs.get(&job.name).filter(|_| planned);
        let after = self.after.as_ref();
        // One more than fits says that there is another page.
        let most = self.size.saturating_add(1);
        let found = own.and_then(|_| {
            let adopted = (&agreed.pins, programmed);
            plan.job_flows(&job.name, after, most, adopted)
        });
        let found = found.unwrap_or_default();
        let page = Page::of(self.size, found.iter().map(|flow| row(flow, own)));
        let next = page.next(&self.list, |last| {
            let [from, to] = [
                &last.source_host_port_name,
                &last.destination_host_port_name,
            ];
            format!("{from} {to}")
        });
        let counted = found.into_iter().take(page.rows.len());
        let counted = counted.map(|it| (it.from.switch.clone(), it.counted_by));
        let is_empty = page.rows.is_empty() && after.is_none();
        Ok(Listed {
            counted: counted.collect(),
            next,
            unlisted_reason: if is_empty {
                unlisted(own)
            } else {
                String::new()
            },
            rows: page.rows,
        })
    }
}

impl Listed {
    /// Asks the weft-agents of the leaves what they see of the flows; one that is silent leaves that out.
    pub(super) async fn see(&mut self, led: &Led) {
        let mut wanted: BTreeMap<&SwitchName, BTreeSet<Flow>> = BTreeMap::new();
        for (leaf, flows) in self.counted.iter().filter(|(_, flows)| !flows.is_empty()) {
            wanted.entry(leaf).or_default().extend(flows);
        }
        let asked = wanted.into_iter().filter_map(|(leaf, flows)| {
            let reached = led.reached(leaf)?;
            Some((leaf.clone(), reached, flows))
        });
        let asked: Vec<_> = asked.collect();
        let answers = stream::iter(asked)
            .map(|(leaf, reached, flows)| async move { (leaf, reached.seen(flows).await) })
            .buffer_unordered(ASKED_MAX)
            .take_until(tokio::time::sleep(SEEN_WITHIN));
        let seen: BTreeMap<SwitchName, BTreeMap<Flow, u64>> = answers.collect().await;
        self.show(&seen);
    }

    /// Takes what leaves counted.
    fn show(&mut self, seen: &BTreeMap<SwitchName, BTreeMap<Flow, u64>>) {
        for (row, (leaf, counted_by)) in self.rows.iter_mut().zip(&self.counted) {
            row.seen_bps = seen.get(leaf).and_then(|seen| total(counted_by, seen));
        }
    }
}

/// What was counted of all of these together; None if one of them was not counted, or there is none.
fn total(counted_by: &BTreeSet<Flow>, seen: &BTreeMap<Flow, u64>) -> Option<u64> {
    let all: Option<Vec<u64>> = counted_by.iter().map(|it| seen.get(it).copied()).collect();
    let all = all.filter(|all| !all.is_empty())?;
    Some(all.into_iter().fold(0, u64::saturating_add))
}

/// The place of a flow in the list, in words: no name has a space.
fn place(text: &str) -> Option<(PortName, PortName)> {
    let (from, to) = text.split_once(' ')?;
    let is_name = |name: &str| !name.is_empty() && !name.contains(' ');
    (is_name(from) && is_name(to)).then(|| (from.into(), to.into()))
}

/// A flow of a job that came so far, with nothing seen of it.
fn row(flow: &PlannedFlow, own: Option<&JobPlan>) -> proto::PlannedFlow {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let way = match flow.way() {
        Way::Pins => proto::FlowWay::Pins,
        Way::Weights => proto::FlowWay::Weights,
        Way::OwnRouting => proto::FlowWay::OwnRouting,
        Way::Unknown => proto::FlowWay::Unspecified,
    };
    let others = flow.bundle.sources.iter();
    let others = others.filter(|name| **name != flow.from.name);
    let paths = flow.paths.iter().map(|path| proto::PinPath {
        spine_name: path.spine.to_string(),
        weight: path.weight,
    });
    proto::PlannedFlow {
        source_host_port_name: flow.from.name.to_string(),
        destination_host_port_name: flow.to.name.to_string(),
        source_leaf_name: flow.from.switch.to_string(),
        destination_leaf_name: flow.to.switch.to_string(),
        way: way.into(),
        unpinned_reason: reason(flow, own),
        paths: paths.collect(),
        predicted_bps: flow.bps,
        bundled_source_count: count(others.clone().count()),
        bundled_source_names: others.take(NAMED_MAX).map(ToString::to_string).collect(),
        bundle_predicted_bps: flow.bundle.bps,
        seen_bps: None,
    }
}

/// Why a flow of a job that came so far does not go by its pin, and why not by weights instead, in words; empty: it goes by its pin.
fn reason(flow: &PlannedFlow, own: Option<&JobPlan>) -> String {
    let loose = loose(flow, own);
    let (leaf, to) = (&flow.from.switch, &flow.to.switch);
    match flow.unweighted.as_ref().map(job::unweighted_because) {
        None => loose,
        Some(why) => {
            format!("{loose}; {leaf} has no weights to {to}, its own routing decides: {why}")
        }
    }
}

/// Why a flow of a job that came so far does not go by its pin, in words; empty: it does.
fn loose(flow: &PlannedFlow, own: Option<&JobPlan>) -> String {
    let (leaf, to) = (&flow.from.switch, &flow.to.name);
    match &flow.loose {
        None => String::new(),
        Some(Loose::Leaf(why)) => job::unpinned(*why, leaf.as_str(), true),
        Some(Loose::Bare(why)) => job::bare(*why, leaf.as_str(), true),
        Some(Loose::Withheld(why)) => {
            format!("the forwarding plane of {leaf} does not have its pin: {why}")
        }
        Some(Loose::Shadowed) => job::SHADOWED.to_owned(),
        Some(Loose::NoPin) => match own.map(|own| &own.state) {
            Some(State::Weighted(why) | State::Unresolved(why) | State::Infeasible(why)) => {
                why.clone()
            }
            Some(State::Placed | State::NoFlows) | None => {
                "its pin is not agreed on yet".to_owned()
            }
        },
        Some(Loose::Unaddressed) => format!(
            "host port {to} has no address or no VNI, and {} has no VNI or sends to more of that kind",
            flow.from.name
        ),
        Some(Loose::NoNextHop) => {
            format!(
                "{leaf} has no next hop over the spines of its pin, or too many ways to divide flows"
            )
        }
    }
}

/// Why a job that came so far has no flows in the list, in words.
fn unlisted(own: Option<&JobPlan>) -> String {
    match own.map(|own| &own.state) {
        None | Some(State::Placed) => job::NOT_PLANNED.to_owned(),
        Some(State::NoFlows) => job::NO_FLOWS.to_owned(),
        Some(State::Weighted(why) | State::Unresolved(why) | State::Infeasible(why)) => why.clone(),
    }
}

/// Host ports that a row names of those that go together.
const NAMED_MAX: usize = 16;
/// Agents that are asked at one time: each answer may have thousands of pins.
const ASKED_MAX: usize = 16;
/// Until all agents have answered, or are left out: other replicas wait 5 s for the leader.
const SEEN_WITHIN: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::balancer::Plan;
    use crate::balancer::flows::{LeafFlows, of_leaves};
    use crate::balancer::pins::lacking::{Bare, Lacking, Lacks, Missing};
    use crate::balancer::pins::programmed::Unpinned;
    use crate::balancer::pins::tests::{Bench, ring};
    use crate::fabric::topology::tests::with_nics;
    use crate::southbound::intent::Target;

    fn asked(job: &str, size: i32, token: &str) -> Result<Asked, Status> {
        Asked::read(&proto::ListJobFlowsRequest {
            job_name: job.to_owned(),
            page_size: size,
            page_token: token.to_owned(),
        })
    }

    fn bench(mode: proto::BalanceMode) -> Bench {
        let mut job = ring("train", 4, 1..=2);
        job.set_balance_mode(mode);
        Bench::new(with_nics(4, 4, 2), &[job])
    }

    fn listed(bench: &mut Bench, size: i32, token: &str) -> Listed {
        listed_without(bench, &Lacking::new(), size, token)
    }

    /// Where leaves do not have all of what they are to have.
    fn listed_without(bench: &mut Bench, lacking: &Lacking, size: i32, token: &str) -> Listed {
        let (plan, _) = bench.adopt();
        let weights = bench.balancer.plan();
        let programmed = Programmed {
            plan: weights,
            flows: &of_leaves(weights, &bench.topology, &bench.pins),
            lacking,
        };
        let agreed = Agreed {
            topology: bench.topology.clone(),
            pins: bench.pins.clone(),
            index: 7,
        };
        let asked = asked("train", size, token).unwrap();
        asked.page(&agreed, &plan, programmed).unwrap()
    }

    #[test]
    fn the_flows_of_a_job_go_by_pins_page_by_page() {
        let mut bench = bench(proto::BalanceMode::On);
        let (mut rows, mut token) = (Vec::new(), String::new());
        for expected in [3, 3, 2] {
            let page = listed(&mut bench, 3, &token);
            assert_eq!(page.rows.len(), expected);
            assert_eq!(page.counted.len(), expected);
            assert_eq!(page.unlisted_reason, "");
            rows.extend(page.rows);
            token = page.next;
        }
        assert_eq!(token, "");
        let first = &rows[0];
        assert_eq!(first.source_host_port_name, "leaf1:nic1");
        assert_eq!(first.destination_host_port_name, "leaf2:nic1");
        assert_eq!(
            (&*first.source_leaf_name, &*first.destination_leaf_name),
            ("leaf1", "leaf2")
        );
        for row in &rows {
            assert_eq!(row.way(), proto::FlowWay::Pins);
            assert_eq!((row.unpinned_reason.as_str(), row.paths.len()), ("", 1));
            // A ring sends at the rate of a NIC.
            assert_eq!(row.predicted_bps, 100_000_000_000);
            assert_eq!(row.bundle_predicted_bps, row.predicted_bps);
            assert_eq!((row.bundled_source_count, row.seen_bps), (0, None));
        }
    }

    #[test]
    fn a_flow_that_does_not_go_by_its_pin_says_why() {
        let mut on = bench(proto::BalanceMode::On);
        let leaf = |name: &str| SwitchName::from(name);
        let leaves = [
            (leaf("leaf1"), Unpinned::Off),
            (leaf("leaf2"), Unpinned::Bgp),
        ];
        on.unpinned = Arc::new(leaves.into());
        for row in listed(&mut on, 0, "").rows {
            let (way, why) = match row.source_leaf_name.as_str() {
                "leaf1" => (proto::FlowWay::OwnRouting, "leaf1 is off"),
                "leaf2" => {
                    let why = "leaf2 is told weights over BGP, and no pins";
                    (proto::FlowWay::Weights, why)
                }
                _ => (proto::FlowWay::Pins, ""),
            };
            assert_eq!((row.way(), row.unpinned_reason.as_str()), (way, why));
        }
        let shadowed = listed(&mut bench(proto::BalanceMode::Shadow), 0, "");
        assert_eq!(shadowed.rows.len(), 8);
        for row in &shadowed.rows {
            assert_eq!(row.way(), proto::FlowWay::Weights);
            assert_eq!(row.unpinned_reason, "the job is in shadow");
            assert_eq!((row.paths.len(), row.bundle_predicted_bps), (1, 0));
        }
    }

    /// No weft-agent answers at leaf 1, and no spine announces a way.
    #[test]
    fn a_flow_that_own_routing_carries_says_why_no_weights_do() {
        let mut bench = bench(proto::BalanceMode::On);
        let leaf1 = SwitchName::from("leaf1");
        bench.foreign = [leaf1.clone()].into();
        bench.unpinned = Arc::new([(leaf1, Unpinned::Foreign)].into());
        let rows = listed(&mut bench, 0, "").rows;
        let own = rows.iter().filter(|row| row.source_leaf_name == "leaf1");
        for row in own.clone() {
            assert_eq!(row.way(), proto::FlowWay::OwnRouting);
            let expected = "leaf1 has no weft-agent that answers; \
                            leaf1 has no weights to leaf2, its own routing decides: no spine announces a way that is up";
            assert_eq!(row.unpinned_reason, expected);
        }
        assert_eq!(own.count(), 2);
        let pinned = rows.iter().filter(|row| row.way() == proto::FlowWay::Pins);
        assert_eq!(pinned.count(), 6);
    }

    #[test]
    fn a_flow_whose_leaf_has_nothing_says_why() {
        let mut bench = bench(proto::BalanceMode::On);
        let target = Target::Flow(Flow::to(100, [192, 168, 4, 1].into()));
        let why = "accepted, not active: there is no VXLAN device for vni-100";
        let missing = Missing {
            withheld: Arc::new([(target, why.into())].into()),
            ..Missing::default()
        };
        let lacks = [
            ("leaf1", Lacks::All(Bare::Silent { secs: 12 })),
            ("leaf2", Lacks::All(Bare::Unheard)),
            ("leaf3", Lacks::These(missing)),
        ];
        let lacking = lacks.map(|(leaf, lacks)| (SwitchName::from(leaf), lacks));
        let rows = listed_without(&mut bench, &lacking.into(), 0, "").rows;
        assert_eq!(rows.len(), 8);
        for row in &rows {
            let (way, why) = match row.source_host_port_name.as_str() {
                "leaf1:nic1" | "leaf1:nic2" => (
                    proto::FlowWay::OwnRouting,
                    "weft-agent of leaf1 has been silent for longer than its lease".to_owned(),
                ),
                "leaf2:nic1" | "leaf2:nic2" => (
                    proto::FlowWay::Unspecified,
                    "leaf2 is not heard yet by the answering replica".to_owned(),
                ),
                "leaf3:nic1" => (
                    proto::FlowWay::Weights,
                    format!("the forwarding plane of leaf3 does not have its pin: {why}"),
                ),
                _ => (proto::FlowWay::Pins, String::new()),
            };
            assert_eq!((row.way(), &row.unpinned_reason), (way, &why));
        }
    }

    #[test]
    fn a_job_whose_flows_nobody_knows_says_why_there_are_none() {
        let off = listed(&mut bench(proto::BalanceMode::Off), 0, "");
        assert!(off.rows.is_empty() && off.next.is_empty());
        assert_eq!(off.unlisted_reason, "its mode is off");

        let mut bench = bench(proto::BalanceMode::On);
        bench.adopt();
        let agreed = Agreed {
            topology: bench.topology.clone(),
            pins: bench.pins.clone(),
            index: 7,
        };
        let page = |job: &str| {
            let none = Programmed {
                plan: &Plan::default(),
                flows: &LeafFlows::new(),
                lacking: &Lacking::new(),
            };
            let asked = asked(job, 0, "").unwrap();
            asked.page(&agreed, &PinPlan::default(), none)
        };
        let unplanned = page("train").unwrap();
        assert_eq!(unplanned.unlisted_reason, "it is not planned yet");
        let missing = page("nobody").unwrap_err();
        assert_eq!(missing.code(), tonic::Code::NotFound);
    }

    #[test]
    fn a_page_that_is_none_is_refused() {
        let fields = |size: i32, token: &str| {
            let refused = asked("train", size, token).err().unwrap();
            super::super::super::lone::fields(&refused)
        };
        assert_eq!(fields(-1, "nothing"), ["page_token", "page_size"]);
        let list = "job_flows?job=train/";
        for place in ["", "leaf1:nic1", "leaf1:nic1 ", " leaf2:nic1", "a b c"] {
            assert_eq!(fields(0, &format!("{list}{place}")), ["page_token"]);
        }
        // Another job has another list.
        let other = "job_flows?job=other/leaf1:nic1 leaf2:nic1";
        assert_eq!(fields(0, other), ["page_token"]);
        let own = asked("train", 0, &format!("{list}leaf1:nic1 leaf2:nic1")).unwrap();
        assert_eq!(own.after, Some(("leaf1:nic1".into(), "leaf2:nic1".into())));
    }

    #[tokio::test]
    async fn what_is_seen_is_the_sum_of_what_counts_a_flow() {
        let flow = |last: u8| Flow::to(100, [192, 168, 0, last].into());
        let counted = |flows: &[u8]| {
            let flows = flows.iter().map(|last| flow(*last));
            (SwitchName::from("leaf1"), flows.collect::<BTreeSet<_>>())
        };
        let mut listed = Listed {
            rows: vec![proto::PlannedFlow::default(); 4],
            counted: vec![
                counted(&[1]),
                counted(&[1, 2]),
                counted(&[1, 3]),
                counted(&[]),
            ],
            ..Listed::default()
        };
        let seen = BTreeMap::from([(flow(1), 5), (flow(2), u64::MAX)]);
        listed.show(&BTreeMap::from([("leaf1".into(), seen)]));
        let seen = |listed: &Listed| -> Vec<Option<u64>> {
            listed.rows.iter().map(|row| row.seen_bps).collect()
        };
        assert_eq!(seen(&listed), [Some(5), Some(u64::MAX), None, None]);
        // No agent speaks: nobody counts.
        listed.see(&Led::new()).await;
        assert_eq!(seen(&listed), [None; 4]);
    }
}
