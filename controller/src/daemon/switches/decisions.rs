//! What the leader decided from what it measured, as a batch of facts. Pure.

use weft_store::Batch;
use weft_telemetry::derating::Decision;

use crate::fabric::fact::{JobName, LinkName, SwitchName};
use crate::fabric::measured::{Measured, OffPlan};
use crate::fabric::topology::Topology;
use crate::ledger::{self, FactKey};

/// Jobs that were left to weights, and were changed since, or are gone.
pub(super) fn over(measured: &Measured, declared: &Topology) -> Vec<JobName> {
    let is_over = |(job, why): &(&JobName, &OffPlan)| {
        let job = declared.job(job);
        job.is_none_or(|job| job.fingerprint() != why.fingerprint)
    };
    let over = measured.all_off_plan().filter(is_over);
    over.map(|(job, _)| job.clone()).collect()
}

/// A batch that makes facts of deratings of links, of what percent leaves keep free, of jobs that are left to weights, and of those
/// that are no more: some now, the rest when these are agreed. None: nothing is to be agreed.
pub(super) fn batch(
    deratings: &[(LinkName, Decision)],
    kept_free: &[(SwitchName, u8)],
    off_plan: &[(JobName, OffPlan)],
    over: &[JobName],
) -> Option<Batch> {
    let mut ops = Vec::new();
    for (link, decision) in deratings.iter().take(EACH_MAX) {
        let key = FactKey::Derating(link.as_str());
        let percent = decision.derating_percent;
        match decision.cause {
            Some(cause) => tracing::warn!(%link, percent, %cause, "link derated"),
            None => tracing::info!(%link, percent, "link derated less"),
        }
        ops.push(match percent {
            0 => ledger::delete(&key),
            _ => ledger::put(&key, ledger::encode_derating(*decision)),
        });
    }
    for (leaf, percent) in kept_free.iter().take(EACH_MAX) {
        let key = FactKey::KeptFree(leaf.as_str());
        tracing::info!(%leaf, percent, "pins leave a part of uplinks alone for what no job declares");
        ops.push(match percent {
            0 => ledger::delete(&key),
            _ => ledger::put(&key, ledger::encode_kept_free(*percent)),
        });
    }
    for (job, why) in off_plan.iter().take(EACH_MAX) {
        tracing::warn!(%job, %why, "weights carry a job that was pinned");
        let key = FactKey::OffPlan(job.as_str());
        ops.push(ledger::put(&key, ledger::encode_off_plan(why)));
    }
    let over = over.iter().take(EACH_MAX);
    ops.extend(over.map(|job| ledger::delete(&FactKey::OffPlan(job.as_str()))));
    (!ops.is_empty()).then_some(Batch {
        conditions: Vec::new(),
        ops,
    })
}

/// Deratings in one batch, leaves, and jobs, at most.
const EACH_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_leaf_keeps_free_becomes_a_fact_and_goes_with_it() {
        assert!(batch(&[], &[], &[], &[]).is_none());
        let kept_free = [("leaf1".into(), 20), ("leaf2".into(), 0)];
        let made = batch(&[], &kept_free, &[], &[]).unwrap();
        let [put, delete] = &made.ops[..] else {
            panic!("{made:?}");
        };
        let key = FactKey::KeptFree("leaf1");
        assert_eq!(*put, ledger::put(&key, ledger::encode_kept_free(20)));
        assert_eq!(*delete, ledger::delete(&FactKey::KeptFree("leaf2")));
    }
}
