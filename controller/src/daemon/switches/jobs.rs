//! What the leader makes of jobs: pins that are planned become facts, jobs whose lease is over go. Level-triggered: it compares
//! what is planned with what is agreed, so that a new leader goes on where the old one stopped. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use weft_store::{Batch, Op};

use crate::balancer::pins::PinPlan;
use crate::fabric::declared::Declared;
use crate::fabric::fact::Job;
use crate::fabric::pin::{PinName, Pins};
use crate::ledger::{self, FactKey};

/// Batches that make the adopted pins those of a plan, in order; none if they are, or if the plan was made from others.
pub(super) fn adoption(plan: &PinPlan, pins: &Pins) -> Vec<Batch> {
    if plan.adopted != pins.revision() {
        return Vec::new();
    }
    let put = plan.pins.iter().filter_map(|(name, paths)| {
        let same = pins.get(name).is_some_and(|old| old == paths);
        (!same).then(|| (name, Some(ledger::encode_paths(paths))))
    });
    let gone = pins.iter().map(|(name, _)| name);
    let gone = gone.filter(|name| !plan.pins.contains_key(name));
    let changes: Vec<_> = put.chain(gone.map(|name| (name, None))).collect();
    let mut rest = &changes[..];
    let mut batches = Vec::new();
    for count in pins.revision().. {
        if rest.is_empty() {
            break;
        }
        let (part, behind) = rest.split_at(part(rest));
        batches.push(batch(part, count));
        rest = behind;
    }
    batches
}

/// How many of these changes make a batch.
fn part(changes: &[(&PinName, Option<Bytes>)]) -> usize {
    let mut octets = 0;
    let fits = changes.iter().take_while(|(name, value)| {
        let names = [
            name.job.as_str(),
            name.source.as_str(),
            name.destination.as_str(),
        ];
        let names: usize = names.iter().map(|name| name.len()).sum();
        octets += PIN_OCTETS + names + value.as_ref().map_or(0, Bytes::len);
        octets <= BATCH_OCTETS
    });
    fits.count().max(1)
}

/// Pins of one value are one operation: most flows of a fabric go whole over one of a few spines.
fn batch(changes: &[(&PinName, Option<Bytes>)], count: u64) -> Batch {
    let mut by_value: BTreeMap<&Option<Bytes>, Vec<Bytes>> = BTreeMap::new();
    for (name, value) in changes {
        let key = FactKey::Pin((*name).clone()).encode();
        by_value.entry(value).or_default().push(key);
    }
    let ops = by_value.into_iter().map(|(value, keys)| match value {
        Some(value) => Op::Put {
            value: value.clone(),
            keys,
        },
        None => Op::Delete { keys },
    });
    let next = ledger::put(&FactKey::Pins, ledger::encode_count(count + 1));
    Batch {
        conditions: vec![ledger::count_is(&FactKey::Pins, count)],
        ops: ops.chain([next]).collect(),
    }
}

/// The jobs whose lease is over, and a batch that deletes them, if no job changed since.
pub(super) fn ended(declared: &Declared, now_secs: i64) -> Option<(Vec<Arc<Job>>, Batch)> {
    let over = |job: &&Arc<Job>| job.expires().is_some_and(|at| at <= now_secs);
    let jobs = declared.topology().jobs().filter(over);
    let jobs: Vec<_> = jobs.take(ENDED_MAX).cloned().collect();
    if jobs.is_empty() {
        return None;
    }
    let count = declared.jobs();
    let keys = jobs
        .iter()
        .map(|job| FactKey::Job(job.name.as_str()).encode());
    let keys = keys.collect();
    let next = ledger::put(&FactKey::Jobs, ledger::encode_count(count + 1));
    let batch = Batch {
        conditions: vec![ledger::count_is(&FactKey::Jobs, count)],
        ops: vec![Op::Delete { keys }, next],
    };
    Some((jobs, batch))
}

/// A quarter of what a batch may have: other proposals go between two of them.
const BATCH_OCTETS: usize = 2 << 20;
/// What a pin takes beside names and paths.
const PIN_OCTETS: usize = 32;
/// Jobs that are deleted at once.
const ENDED_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use weft_proto::v1;

    use super::*;
    use crate::fabric::fact::Fact;
    use crate::fabric::pin::PinPath;

    fn name(destination: usize) -> PinName {
        PinName {
            job: "train".into(),
            source: "leaf1:eth1".into(),
            destination: format!("leaf2:eth{destination}").as_str().into(),
        }
    }

    fn paths(spine: &str) -> Arc<[PinPath]> {
        [PinPath {
            spine: spine.into(),
            weight: 16,
        }]
        .into()
    }

    /// What a batch makes of pins.
    fn apply(pins: &mut Pins, batch: &Batch) {
        assert_eq!(
            batch.conditions,
            [ledger::count_is(&FactKey::Pins, pins.revision())]
        );
        for op in &batch.ops {
            let (keys, value) = match op {
                Op::Put { keys, value } => (keys, Some(value)),
                Op::Delete { keys } => (keys, None),
                Op::DeletePrefix { .. } => panic!("nothing is deleted by prefix"),
            };
            for key in keys {
                match FactKey::decode(key).unwrap() {
                    FactKey::Pins => {
                        let count = value.and_then(|it| ledger::decode_count(it));
                        pins.set_revision(count.unwrap());
                    }
                    FactKey::Pin(name) => {
                        pins.put(name, value.and_then(|it| ledger::decode_paths(it)));
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn what_is_planned_becomes_fact_as_differences() {
        let mut pins = Pins::default();
        let mut plan = PinPlan::default();
        plan.pins = (0..40_000).map(|to| (name(to), paths("spine1"))).collect();
        let batches = adoption(&plan, &pins);
        assert_eq!(batches.len(), 2);
        assert!(batches.iter().all(Batch::is_acceptable));
        batches.iter().for_each(|batch| apply(&mut pins, batch));
        assert_eq!((pins.len(), pins.revision()), (40_000, 2));

        // A plan that was made before says nothing of what is adopted now.
        plan.pins.insert(name(7), paths("spine2"));
        plan.pins.remove(&name(8));
        assert_eq!(adoption(&plan, &pins), []);
        plan.adopted = 2;
        let batches = adoption(&plan, &pins);
        assert_eq!(batches[0].ops.len(), 3);
        batches.iter().for_each(|batch| apply(&mut pins, batch));
        assert_eq!(pins.get(&name(7)), Some(&paths("spine2")));
        assert_eq!(pins.get(&name(8)), None);
        plan.adopted = 3;
        assert_eq!(adoption(&plan, &pins), []);
    }

    #[test]
    fn a_lease_that_is_over_ends_a_job_unless_it_was_renewed() {
        let mut declared = Declared::default();
        let job = |name: &str, expires: Option<i64>| {
            let time = |seconds| prost_types::Timestamp { seconds, nanos: 0 };
            let job = v1::Job {
                name: name.to_owned(),
                expire_time: expires.map(time),
                ..v1::Job::default()
            };
            Fact::declared(&job).unwrap()
        };
        for (name, expires) in [("a", None), ("b", Some(100)), ("c", Some(101))] {
            let octets = job(name, expires).encode();
            declared.put_job(name, &octets).unwrap();
        }
        declared.set_jobs(3);
        assert!(ended(&declared, 99).is_none());
        let (jobs, batch) = ended(&declared, 100).unwrap();
        assert_eq!(
            jobs.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(),
            ["b"]
        );
        assert_eq!(batch.conditions, [ledger::count_is(&FactKey::Jobs, 3)]);
        let Op::Delete { keys } = &batch.ops[0] else {
            panic!("nothing is deleted");
        };
        assert_eq!(*keys, [FactKey::Job("b").encode()]);
    }
}
