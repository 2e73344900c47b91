//! Plans as messages: of one leaf, of all where they are small, and beside what the leaves have of their own.

use prost::Message;
use tonic::Status;
use weft_proto::operator::v1 as proto;

use crate::balancer::compare::compare;
use crate::balancer::{LeafPlan, Plan};
use crate::daemon::switches::led::Led;
use crate::fabric::mode;
use crate::fabric::topology::SwitchName;

/// The plan of one leaf, or of all if they fit into one message.
pub(super) fn show(plan: &Plan, leaf: Option<&SwitchName>) -> Result<proto::Plan, Status> {
    let mut message = proto::Plan {
        revision: plan.revision,
        entries: Vec::new(),
    };
    if let Some(leaf) = leaf {
        let derived = derive(plan, leaf)?;
        message
            .entries
            .extend(derived.iter().flat_map(|it| it.to_messages(leaf)));
        return Ok(message);
    }
    let mut octets = 0;
    for leaf in plan.leaves() {
        for entry in derive(plan, leaf)?
            .iter()
            .flat_map(|it| it.to_messages(leaf))
        {
            octets += entry.encoded_len();
            if octets > OCTETS_MAX {
                return Err(Status::resource_exhausted(format!(
                    "leaf: the plan of all {} leaves is more than {} MiB; name one with --leaf",
                    plan.leaves().count(),
                    OCTETS_MAX >> 20,
                )));
            }
            message.entries.push(entry);
        }
    }
    Ok(message)
}

/// The plan of one leaf, or of all with an agent, beside what the agents say.
pub(super) fn diff(led: &Led, leaf: Option<&SwitchName>) -> Result<proto::PlanDiff, Status> {
    let plan = led.plan();
    let leaves: Vec<&SwitchName> = match leaf {
        Some(leaf) => vec![leaf],
        None => plan.routes.keys().collect(),
    };
    let mut octets = 0;
    let mut rows = Vec::new();
    for leaf in leaves {
        let row = leaf_diff(led, &plan, leaf)?;
        octets += row.encoded_len();
        if octets > OCTETS_MAX && rows.len() > 1 {
            return Err(Status::resource_exhausted(format!(
                "leaf: the answer for all leaves is more than {} MiB; name one with --leaf",
                OCTETS_MAX >> 20,
            )));
        }
        rows.push(row);
    }
    Ok(proto::PlanDiff {
        revision: plan.revision,
        leaves: rows,
    })
}

fn leaf_diff(led: &Led, plan: &Plan, leaf: &SwitchName) -> Result<proto::LeafDiff, Status> {
    let derived = derive(plan, leaf)?;
    let mode = mode::to_message(led.modes().of(leaf.as_str())).into();
    let diff = match (&derived, led.status(leaf)) {
        (Some(derived), Some(status)) => compare(derived, &status, &led.sent(leaf)),
        (Some(LeafPlan { agent: None, .. }), _) => unknown("the fabric declares no agent for it"),
        (Some(_), None) => unknown("no weft-agent there says what its own routing has"),
        (None, _) => unknown("there is no plan for it yet"),
    };
    Ok(proto::LeafDiff {
        leaf: leaf.to_string(),
        mode,
        ..diff
    })
}

fn unknown(why: &str) -> proto::LeafDiff {
    proto::LeafDiff {
        unknown: why.to_owned(),
        ..proto::LeafDiff::default()
    }
}

/// None before the first plan that has the leaf.
fn derive(plan: &Plan, leaf: &SwitchName) -> Result<Option<LeafPlan>, Status> {
    let derived = plan.leaf(leaf).transpose();
    derived.map_err(|error| Status::internal(error.to_string()))
}

/// What clients of gRPC take in one message unless they are told otherwise.
const OCTETS_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::balancer::{Balancer, Inputs};
    use crate::fabric::topology::tests::leaf_spine;

    fn plan(leaves: u8, spines: u8) -> Plan {
        let mut balancer = Balancer::default();
        let inputs = Inputs {
            topology: Arc::new(leaf_spine(leaves, spines)),
            ..Inputs::default()
        };
        balancer.handle(&inputs).unwrap();
        balancer.plan().clone()
    }

    #[test]
    fn a_plan_of_one_leaf_has_its_entries_alone() {
        let shown = show(&plan(3, 2), Some(&"leaf1".into())).unwrap();
        let to: Vec<_> = shown
            .entries
            .iter()
            .map(|entry| entry.to.as_str())
            .collect();
        assert_eq!(to, ["leaf2", "leaf3"]);
        assert_eq!(show(&plan(3, 2), None).unwrap().entries.len(), 6);
    }

    #[test]
    fn a_plan_that_is_too_large_for_a_message_asks_for_a_leaf() {
        let refused = show(&plan(60, 32), None).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert!(
            refused.message().ends_with("name one with --leaf"),
            "{refused}"
        );
        assert_eq!(
            show(&plan(60, 32), Some(&"leaf7".into()))
                .unwrap()
                .entries
                .len(),
            59
        );
    }

    #[test]
    fn a_leaf_without_a_status_says_why_it_is_not_compared() {
        let led = Led::new();
        let diff = diff(&led, Some(&"leaf1".into())).unwrap();
        assert_eq!(diff.leaves[0].unknown, "there is no plan for it yet");
    }
}
