//! No vote and no acknowledgement leaves before what it speaks of is durable, and after a failed
//! write nothing leaves at all.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use weft_store::{Config, Input, Outcome, Output, Probe, Role, Step, config::Spoken};

use crate::world::{Random, Weather, World, put};

/// What a replica has on disk, according to its synced writes.
#[derive(Copy, Clone)]
pub(crate) struct Durable {
    term: u64,
    vote: u64,
    last: u64,
}

/// Watches all replicas of a world.
#[derive(Default)]
pub(crate) struct Watch {
    durable: BTreeMap<u64, Durable>,
    votes: BTreeMap<(u64, u64), u64>,
    pub(crate) spoken: u64,
}

impl Watch {
    /// Takes note of a step, and panics if it breaks a promise.
    pub(crate) fn see(&mut self, id: u64, step: &Step) {
        let founded = Durable {
            term: 1,
            vote: 0,
            last: 1,
        };
        let durable = self.durable.entry(id).or_insert(founded);
        match *step {
            Step::LogWritten {
                term,
                vote,
                last,
                synced,
            } => {
                assert!(synced && term >= durable.term);
                *durable = Durable { term, vote, last };
            }
            Step::Release {
                to,
                kind,
                term,
                index,
            } => {
                self.spoken += 1;
                assert_eq!(
                    durable.term, term,
                    "replica {id} speaks of a term it has not written"
                );
                let vote = match kind {
                    Spoken::Acknowledgement => {
                        assert!(index <= durable.last, "replica {id} acknowledges {index}");
                        return;
                    }
                    Spoken::VoteRequest => id,
                    Spoken::Vote => to,
                };
                assert_eq!(durable.vote, vote, "replica {id} has not written its vote");
                let first = *self.votes.entry((id, term)).or_insert(vote);
                assert_eq!(first, vote, "replica {id} votes twice in term {term}");
            }
            Step::LogWrite
            | Step::Apply { .. }
            | Step::AppliedAt { .. }
            | Step::Install { .. }
            | Step::Compact { .. } => {}
        }
    }
}

#[test]
fn votes_and_acknowledgements_follow_their_synced_write() {
    let watch = Arc::new(Mutex::new(Watch::default()));
    let watcher = Arc::clone(&watch);
    let mut world = World::with(3, move |config| {
        let (id, watch) = (config.id, Arc::clone(&watcher));
        config.probe = Some(Probe::new(move |step| {
            watch.lock().unwrap().see(id, &step);
            Ok(())
        }));
    });
    world.random = Random(5);
    world.weather = Some(Weather {
        loss_percent: 30,
        repeat_percent: 20,
        reorder: true,
    });
    for n in 0..120 {
        world.propose(1 + n % 3, put("a", &n.to_string()));
        world.tick();
        if n % 40 == 39 {
            let cut = 1 + world.random.below(3);
            world.cut = [cut].into();
        }
    }
    for id in 1..=3 {
        let degraded = world.replicas[&id].status().degraded;
        assert_eq!(degraded, None);
    }
    assert!(watch.lock().unwrap().spoken > 100);
}

#[test]
fn a_replica_whose_disk_fails_falls_silent_and_still_reads() {
    for kind in ["before", "after"] {
        let failing = Arc::new(AtomicU64::new(0));
        let switch = Arc::clone(&failing);
        let mut world = World::with(3, move |config| fail(config, &switch, kind));
        let leader = world.leader();
        world.commit(leader, put("a", "1"));
        world.converge();
        failing.store(leader, Ordering::Relaxed);
        let lost = world.propose(leader, put("a", "2"));
        let mut out = Vec::new();
        let replica = world.replicas.get_mut(&leader).unwrap();
        replica.poll(&mut out);
        assert!(
            out.iter()
                .all(|output| !matches!(output, Output::Send { .. }))
        );
        assert!(replica.status().degraded.is_some());
        let dropped = |output: &Output| matches!(output, Output::Proposed { ticket, outcome: Outcome::Dropped } if *ticket == lost);
        assert!(out.iter().any(dropped));
        failing.store(0, Ordering::Relaxed);
        out.clear();
        replica.handle(Input::Propose {
            batch: put("a", "3"),
            ticket: 70,
        });
        replica.handle(Input::Read { ticket: 71 });
        replica.handle(Input::Campaign);
        replica.poll(&mut out);
        assert!(
            matches!(
                &out[..],
                [
                    Output::Proposed {
                        ticket: 70,
                        outcome: Outcome::Dropped
                    },
                    Output::ReadFailed { ticket: 71 }
                ]
            ),
            "a failed sync is never retried: {out:?}"
        );
        assert_eq!(world.get(leader, "a").as_deref(), Some("1"));
        world.cut.insert(leader);
        let new = world.leader();
        world.commit(new, put("b", "1"));
        world.cut.clear();
        world.kill(leader);
        world.start(leader);
        world.converge();
        assert_eq!(world.replicas[&leader].status().role, Role::Follower);
        assert_eq!(world.get(leader, "b").as_deref(), Some("1"));
    }
}

fn fail(config: &mut Config, failing: &Arc<AtomicU64>, kind: &'static str) {
    let (id, failing) = (config.id, Arc::clone(failing));
    config.probe = Some(Probe::new(move |step| {
        let here = match step {
            Step::LogWrite => kind == "before",
            Step::LogWritten { .. } => kind == "after",
            _ => false,
        };
        if here && failing.load(Ordering::Relaxed) == id {
            return Err("no space left on device".to_owned());
        }
        Ok(())
    }));
}
