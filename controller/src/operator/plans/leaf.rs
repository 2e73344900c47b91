//! Plans of leaves as messages: one by one, in pages, and beside what the leaves have of their own. Knows no call.

use ipnet::IpNet;
use prost::Message;
use tonic::Status;
use weft_proto::v1::{self as proto, NotComparedReason};

use super::super::page::{self, OCTETS_MAX, Page};
use super::super::refusal;
use crate::balancer::compare::compare;
use crate::balancer::{LeafPlan, Plan};
use crate::daemon::switches::led::Led;
use crate::fabric::mode;
use crate::fabric::topology::SwitchName;

/// Where a page ends: after a leaf, or within one, after a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    leaf: SwitchName,
    prefix: Option<IpNet>,
}

/// A page of plans that is filled.
struct Filling {
    /// The generation of the fabric that the plan covers.
    covers: u64,
    plans: Vec<proto::LeafPlan>,
    octets: usize,
}

/// The plan of one leaf, as long as a client takes the message.
pub(super) fn one(plan: &Plan, covers: u64, leaf: &SwitchName) -> Result<proto::LeafPlan, Status> {
    let derived = derive(plan, leaf)?;
    let mut message = empty(plan, covers, leaf);
    message.entries = derived.iter().flat_map(LeafPlan::to_messages).collect();
    match message.encoded_len() > MESSAGE_OCTETS_MAX {
        true => Err(refusal::too_large("ListLeafPlans")),
        false => Ok(message),
    }
}

/// A page of plans, of one leaf if it is named, and the token of the next page. Only the leaves of the page are derived.
pub(super) fn page(
    plan: &Plan,
    covers: u64,
    only: Option<&SwitchName>,
    after: Option<&Place>,
    size: usize,
) -> Result<(Vec<proto::LeafPlan>, String), Status> {
    let mut page = Filling {
        covers,
        plans: Vec::new(),
        octets: 0,
    };
    // A leaf that is known and not planned yet has an empty plan.
    let named = only.filter(|only| !plan.leaves().any(|leaf| leaf == *only));
    let leaves = plan
        .leaves()
        .filter(|leaf| only.is_none_or(|it| it == *leaf));
    let mut last = None;
    for leaf in leaves.chain(named) {
        let begun = match after {
            Some(after) if *leaf < after.leaf => continue,
            Some(after) if *leaf == after.leaf => match after.prefix {
                None => continue,
                begun => begun,
            },
            Some(_) | None => None,
        };
        if page.plans.len() == size {
            return Ok((page.plans, next(last)));
        }
        if let Some(place) = page.put(plan, leaf, begun)? {
            return Ok((page.plans, next(place.or(last))));
        }
        last = Some(Place {
            leaf: leaf.clone(),
            prefix: None,
        });
    }
    Ok((page.plans, String::new()))
}

impl Filling {
    /// Puts a leaf on the page, from after a prefix if it is begun. Some: the page is full; where it ends, unless it is after
    /// the leaf before.
    fn put(
        &mut self,
        plan: &Plan,
        leaf: &SwitchName,
        begun: Option<IpNet>,
    ) -> Result<Option<Option<Place>>, Status> {
        let derived = derive(plan, leaf)?;
        let entries = derived.iter().flat_map(|derived| &derived.entries);
        let rest = entries.filter(|(prefix, _)| begun.is_none_or(|begun| **prefix > begun));
        let mut message = empty(plan, self.covers, leaf);
        let mut last = None;
        for (prefix, entry) in rest {
            let entry = entry.to_message(prefix);
            self.octets += entry.encoded_len() + FRAME_OCTETS;
            let is_first = self.plans.is_empty() && message.entries.is_empty();
            if self.octets > OCTETS_MAX && !is_first {
                if last.is_some() {
                    self.plans.push(message);
                }
                let place = last.map(|prefix| Place {
                    leaf: leaf.clone(),
                    prefix: Some(prefix),
                });
                return Ok(Some(place));
            }
            message.entries.push(entry);
            last = Some(*prefix);
        }
        self.plans.push(message);
        Ok(None)
    }
}

fn empty(plan: &Plan, covers: u64, leaf: &SwitchName) -> proto::LeafPlan {
    proto::LeafPlan {
        leaf_name: leaf.to_string(),
        plan_revision: revision(plan),
        entries: Vec::new(),
        fabric_generation: revision(plan).map(|_| covers),
    }
}

fn revision(plan: &Plan) -> Option<u64> {
    (plan.revision > 0).then_some(plan.revision)
}

fn next(place: Option<Place>) -> String {
    place.map_or_else(String::new, |Place { leaf, prefix }| match prefix {
        None => page::token(PLANS, leaf),
        Some(prefix) => page::token(PLANS, format_args!("{leaf}/{prefix}")),
    })
}

/// The place that a token names.
pub(super) fn place(name: &str) -> Option<Place> {
    let (leaf, prefix) = match name.split_once('/') {
        None => (name, None),
        Some((leaf, prefix)) => (leaf, Some(prefix.parse().ok()?)),
    };
    Some(Place {
        leaf: leaf.into(),
        prefix,
    })
}

/// A page of differences of the leaves that have an agent, and the token of the next page.
pub(super) fn diffs(
    led: &Led,
    after: Option<&str>,
    size: usize,
) -> Result<(Vec<proto::LeafPlanDiff>, String), Status> {
    let plan = led.plan();
    let mut page = Page::new(size);
    let rest = plan.routes.keys();
    for leaf in rest.filter(|leaf| after.is_none_or(|after| leaf.as_str() > after)) {
        // What does not fit is not worked out.
        if page.rows.len() == size {
            page.more = true;
            break;
        }
        if !page.put(diff_of(led, &plan, leaf)?) {
            break;
        }
    }
    let token = page.next(DIFFS, |last| last.leaf_name.clone());
    Ok((page.rows, token))
}

/// The plan of one leaf beside what its agent says.
pub(super) fn diff(led: &Led, leaf: &SwitchName) -> Result<proto::LeafPlanDiff, Status> {
    let diff = diff_of(led, &led.plan(), leaf)?;
    match diff.encoded_len() > MESSAGE_OCTETS_MAX {
        true => Err(refusal::too_large("ListLeafPlanDiffs")),
        false => Ok(diff),
    }
}

fn diff_of(led: &Led, plan: &Plan, leaf: &SwitchName) -> Result<proto::LeafPlanDiff, Status> {
    let derived = derive(plan, leaf)?;
    let said = led.status(leaf).and_then(|said| said.prefixes.clone());
    let diff = match (&derived, said) {
        (Some(derived), Some(prefixes)) => compare(derived, &prefixes, &led.sent(leaf)),
        (Some(LeafPlan { agent: None, .. }), _) => unknown(NotComparedReason::NoAgent),
        (Some(_), None) => unknown(NotComparedReason::AgentSilent),
        (None, _) => unknown(NotComparedReason::NoPlan),
    };
    Ok(proto::LeafPlanDiff {
        leaf_name: leaf.to_string(),
        plan_revision: revision(plan),
        fabric_generation: revision(plan).map(|_| led.covers()),
        mode: mode::to_message(led.modes().of(leaf.as_str())).into(),
        ..diff
    })
}

fn unknown(why: NotComparedReason) -> proto::LeafPlanDiff {
    proto::LeafPlanDiff {
        not_compared_reason: why.into(),
        ..proto::LeafPlanDiff::default()
    }
}

/// None before the first plan that has the leaf.
fn derive(plan: &Plan, leaf: &SwitchName) -> Result<Option<LeafPlan>, Status> {
    let derived = plan.leaf(leaf).transpose();
    derived.map_err(refusal::failed)
}

/// What tokens of pages of plans begin with.
pub(super) const PLANS: &str = "leaf_plans";
/// What tokens of pages of differences begin with.
pub(super) const DIFFS: &str = "leaf_plan_diffs";
/// What clients of gRPC take in one message unless they are told otherwise, without the header.
const MESSAGE_OCTETS_MAX: usize = (4 << 20) - 1024;
/// Tag and length of an entry.
const FRAME_OCTETS: usize = 4;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::balancer::{Balancer, Inputs};
    use crate::fabric::fact::InvalidFabric;
    use crate::fabric::topology::tests::leaf_spine;

    fn plan(leaves: u8, spines: u8) -> Plan {
        let mut balancer = Balancer::default();
        let inputs = Inputs {
            topology: Arc::new(leaf_spine(leaves, spines)),
            ..Inputs::default()
        };
        balancer.handle(&inputs, Duration::ZERO).unwrap();
        balancer.plan().clone()
    }

    /// Every page; by leaf the number of entries, and how many pages there are.
    fn all(plan: &Plan, only: Option<&SwitchName>, size: usize) -> (Vec<(String, usize)>, usize) {
        let (mut leaves, mut pages, mut after) = (Vec::<(String, usize)>::new(), 0, None);
        loop {
            let (plans, token) = page(plan, 1, only, after.as_ref(), size).unwrap();
            assert!(!plans.is_empty() && plans.len() <= size);
            let octets: usize = plans.iter().map(Message::encoded_len).sum();
            assert!(octets <= OCTETS_MAX + 1024 * plans.len(), "{octets}");
            pages += 1;
            for plan in plans {
                match leaves.last_mut() {
                    Some((leaf, count)) if *leaf == plan.leaf_name => *count += plan.entries.len(),
                    Some(_) | None => leaves.push((plan.leaf_name, plan.entries.len())),
                }
            }
            after = there(&token);
            if after.is_none() {
                return (leaves, pages);
            }
        }
    }

    /// The place that a token names.
    fn there(token: &str) -> Option<Place> {
        let mut faults = InvalidFabric::default();
        let place = page::after_read(PLANS, token, place, &mut faults);
        assert!(faults.is_empty(), "{faults}");
        place
    }

    #[test]
    fn a_plan_of_one_leaf_has_its_entries_alone() {
        let shown = one(&plan(3, 2), 7, &"leaf1".into()).unwrap();
        let to: Vec<_> = shown
            .entries
            .iter()
            .map(|entry| entry.destination_switch_name.as_str())
            .collect();
        assert_eq!(to, ["leaf2", "leaf3"]);
    }

    #[test]
    fn pages_are_every_leaf_once_whatever_their_size() {
        let plan = plan(3, 2);
        let whole = ["leaf1", "leaf2", "leaf3"].map(|leaf| (leaf.to_owned(), 2));
        for (size, count) in [(1, 3), (2, 2), (3, 1), (1_000, 1)] {
            assert_eq!(all(&plan, None, size), (whole.to_vec(), count), "{size}");
        }
        let leaf = SwitchName::from("leaf2");
        let (only, pages) = all(&plan, Some(&leaf), 10);
        assert_eq!((only, pages), (vec![("leaf2".to_owned(), 2)], 1));
    }

    #[test]
    fn a_plan_that_is_larger_than_a_page_goes_on_in_the_next_one() {
        let plan = plan(60, 32);
        let (leaves, pages) = all(&plan, None, 1_000);
        assert_eq!(leaves.len(), 60);
        assert!(leaves.iter().all(|(_, count)| *count == 59), "{leaves:?}");
        assert!(pages > 1, "{pages}");
    }

    #[test]
    fn a_leaf_that_is_not_planned_yet_has_no_entries() {
        let leaf = SwitchName::from("leaf1");
        let (plans, token) = page(&Plan::default(), 7, Some(&leaf), None, 10).unwrap();
        assert_eq!((plans.len(), token.as_str()), (1, ""));
        assert_eq!((plans[0].plan_revision, plans[0].entries.len()), (None, 0));
        assert!(
            page(&Plan::default(), 7, None, None, 10)
                .unwrap()
                .0
                .is_empty()
        );
    }

    #[test]
    fn a_place_survives_as_a_token() {
        for prefix in [None, Some("2001:db8::1/128".parse().unwrap())] {
            let named = Place {
                leaf: "leaf-1.a".into(),
                prefix,
            };
            let token = next(Some(named.clone()));
            assert_eq!(there(&token), Some(named));
        }
        assert_eq!(place("leaf1/nonsense"), None);
    }

    #[test]
    fn a_leaf_without_a_status_says_why_it_is_not_compared() {
        let diff = diff(&Led::new(), &"leaf1".into()).unwrap();
        assert_eq!(diff.not_compared_reason(), NotComparedReason::NoPlan);
        assert_eq!(diff.plan_revision, None);
    }
}
