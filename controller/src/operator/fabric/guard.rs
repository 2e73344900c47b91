//! Decides whether a change takes the last path between two leaves away. Knows the declared fabric before and after the change, and
//! the links that the leader observes to be down; no call.

use std::collections::BTreeSet;

use tonic::Status;

use super::super::refusal;
use crate::daemon::switches::led::Observed;
use crate::fabric::reach;
use crate::fabric::topology::{LinkName, Topology};

/// Refuses a change, of those that take a link away, by which leaves lose their last path to each other. The term in which the links
/// were observed: the change holds in that term alone.
///
/// # Errors
/// LAST_PATH: pairs of leaves lose their last path. LEADER_UNSURE: nobody has observed the links yet.
pub(super) fn decided(
    before: &Topology,
    after: &Topology,
    observed: impl FnOnce() -> Option<Observed>,
) -> Result<Option<u64>, Status> {
    // Links that are down now may come back: a path must also be left as far as operators say.
    check(before, after, &BTreeSet::new())?;
    let observed = observed().ok_or_else(refusal::leader_unsure)?;
    check(before, after, &observed.down)?;
    Ok(Some(observed.term))
}

fn check(before: &Topology, after: &Topology, down: &BTreeSet<LinkName>) -> Result<(), Status> {
    let pairs = reach::severed(before, after, down);
    if pairs.is_empty() {
        return Ok(());
    }
    let leaves: BTreeSet<&str> = pairs
        .iter()
        .flat_map(|(a, b)| [a.as_str(), b.as_str()])
        .collect();
    let leaves: Vec<&str> = leaves.into_iter().collect();
    let jobs = reach::jobs_of(before, &pairs);
    let jobs: Vec<&str> = jobs.iter().map(|job| job.as_str()).collect();
    let (a, b) = &pairs[0];
    Err(refusal::last_path((a.as_str(), b.as_str()), &leaves, &jobs))
}
