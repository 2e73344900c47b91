//! What replicas do when nothing is wrong, or one thing is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use weft_store::{Batch, Change, Input, Op, Outcome, Role};

use crate::world::{World, directory, in_term, put, replay, when};

#[test]
fn a_single_replica_elects_itself_and_commits_without_a_tick() {
    let mut world = World::new(1);
    let ticket = world.propose(1, put("a", "1"));
    let read = world.read(1);
    world.poll(1);
    assert_eq!(world.replicas[&1].status().role, Role::Leader);
    assert_eq!(world.outcomes[&ticket], Outcome::Applied { index: 3 });
    assert!(world.ready.contains_key(&read));
    assert_eq!(world.get(1, "a").as_deref(), Some("1"));
}

#[test]
fn three_replicas_elect_one_leader_and_replicate() {
    let mut world = World::new(3);
    let leader = world.leader();
    let outcome = world.commit(leader, put("a", "1"));
    assert!(matches!(outcome, Outcome::Applied { .. }));
    world.converge();
    for id in 1..=3 {
        assert_eq!(world.get(id, "a").as_deref(), Some("1"));
        assert_eq!(world.applied[&id].len(), 1, "empty entries are not emitted");
    }
    let peers = world.replicas[&leader].status().peers;
    assert!(peers.len() == 2 && peers.iter().all(|(_, _, active)| *active));
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let history = || {
        let mut world = World::new(3);
        let leader = world.leader();
        let follower = world.follower();
        world.commit(follower, put("a", "1"));
        let status = world.replicas[&leader].status();
        (leader, status.term, status.applied)
    };
    assert_eq!(history(), history());
}

#[test]
fn a_follower_forwards_and_learns_the_outcome_itself() {
    let mut world = World::new(3);
    let follower = world.follower();
    let outcome = world.commit(follower, put("a", "1"));
    assert!(matches!(outcome, Outcome::Applied { .. }));
    assert_eq!(world.get(follower, "a").as_deref(), Some("1"));
}

#[test]
fn proposals_wait_for_a_leader() {
    let mut world = World::new(3);
    let ticket = world.propose(2, put("a", "1"));
    world.leader();
    world.until("an outcome", |world| world.outcomes.contains_key(&ticket));
    assert!(matches!(world.outcomes[&ticket], Outcome::Applied { .. }));
}

#[test]
fn without_a_leader_a_proposal_is_dropped_at_its_deadline() {
    let mut world = World::new(3);
    world.kill(2);
    world.kill(3);
    let ticket = world.propose(1, put("a", "1"));
    world.ticks(59);
    assert!(world.outcomes.is_empty());
    world.ticks(1);
    assert_eq!(world.outcomes[&ticket], Outcome::Dropped);
}

#[test]
fn a_failed_condition_changes_nothing_and_names_itself() {
    let mut world = World::new(3);
    let leader = world.leader();
    world.commit(leader, put("owner", "1"));
    let batch = when("owner", Some("1"), when("owner", None, put("a", "1")));
    let outcome = world.commit(leader, batch);
    assert!(matches!(
        outcome,
        Outcome::ConditionFailed { condition: 0, .. }
    ));
    let batch = when("owner", None, when("owner", Some("1"), put("a", "1")));
    let outcome = world.commit(leader, batch);
    assert!(matches!(
        outcome,
        Outcome::ConditionFailed { condition: 1, .. }
    ));
    assert_eq!(world.get(leader, "a"), None);
    let batch = when("none", None, when("owner", Some("1"), put("a", "1")));
    assert!(matches!(
        world.commit(leader, batch),
        Outcome::Applied { .. }
    ));
    world.converge();
}

#[test]
fn a_batch_for_one_term_is_applied_in_that_term_only() {
    let mut world = World::new(3);
    let leader = world.leader();
    let follower = world.follower();
    let term = world.replicas[&leader].status().term;
    for id in [leader, follower] {
        let outcome = world.commit(id, in_term(term, put("a", "1")));
        assert!(matches!(outcome, Outcome::Applied { .. }));
        for other in [term - 1, term + 1] {
            let batch = when("a", Some("1"), put("a", "2"));
            let outcome = world.commit(id, in_term(other, batch));
            assert!(matches!(
                outcome,
                Outcome::ConditionFailed { condition: 1, .. }
            ));
        }
    }
    world.converge();
    assert_eq!(world.get(follower, "a").as_deref(), Some("1"));
}

/// The old leader decides something, loses its term before it proposes, and forwards the decision
/// to its successor.
#[test]
fn a_decision_of_an_older_term_that_reaches_a_newer_leader_has_no_effect() {
    let mut world = World::new(3);
    let old = world.leader();
    let new = world.follower();
    world.commit(old, put("a", "1"));
    let term = world.replicas[&old].status().term;
    world.input(old, Input::TransferLeader(new));
    world.until("the transfer", |world| {
        let status = world.replicas[&old].status();
        status.leader == Some(new) && status.term > term
    });
    let ticket = world.propose(old, in_term(term, put("a", "2")));
    world.poll(old);
    let forwarded = world.wire.iter().any(|it| it.from == old && it.to == new);
    assert!(forwarded);
    world.until("the outcome", |world| world.outcomes.contains_key(&ticket));
    assert!(matches!(
        world.outcomes[&ticket],
        Outcome::ConditionFailed { condition: 0, .. }
    ));
    world.converge();
    assert_eq!(world.get(old, "a").as_deref(), Some("1"));
    let outcome = world.commit(old, in_term(term + 1, put("a", "3")));
    assert!(matches!(outcome, Outcome::Applied { .. }));
}

#[test]
fn a_prefix_is_deleted_with_what_the_same_batch_put_there() {
    let mut world = World::new(3);
    let leader = world.leader();
    for key in ["p/1", "p/2", "q/1"] {
        world.commit(leader, put(key, "old"));
    }
    let put_new = put("p/3", "new").ops.remove(0);
    let outside = put("p", "new").ops.remove(0);
    let last = put("p/4", "last").ops.remove(0);
    let prefix = Bytes::from_static(b"p/");
    let batch = Batch {
        conditions: Vec::new(),
        ops: vec![
            put_new,
            outside,
            Op::DeletePrefix {
                prefix: prefix.clone(),
            },
            last,
        ],
    };
    world.commit(leader, batch);
    world.converge();
    let view = world.replicas[&leader].view();
    let keys: Vec<_> = view.scan(b"").map(|item| item.unwrap().0).collect();
    assert_eq!(keys, ["p", "p/4", "q/1"]);
    assert_eq!(view.scan(b"p/").count(), 1);
    let changes = &world.applied[&leader].last().unwrap().changes;
    assert_eq!(changes[2], Change::DeletePrefix { prefix });
}

#[test]
fn changes_replayed_are_the_state() {
    let mut world = World::new(3);
    let leader = world.leader();
    for n in 0..40 {
        let (key, value) = (format!("k{}", n % 7), n.to_string());
        let mut batch = put(&key, &value);
        if n % 5 == 0 {
            let keys = vec![Bytes::from(format!("k{}", n % 3))];
            batch.ops.push(Op::Delete { keys });
        }
        world.propose(1 + n % 3, batch);
        world.deliver();
    }
    world.converge();
    let view = world.replicas[&leader].view();
    let state: Vec<_> = view.scan(b"").map(Result::unwrap).collect();
    for id in 1..=3 {
        let replayed = replay(&world.applied[&id]);
        assert_eq!(replayed.into_iter().collect::<Vec<_>>(), state);
    }
}

#[test]
fn a_restarted_replica_catches_up_from_the_log() {
    let mut world = World::new(3);
    let leader = world.leader();
    let follower = world.follower();
    world.commit(leader, put("a", "1"));
    world.converge();
    world.kill(follower);
    world.commit(leader, put("a", "2"));
    let before = world.applied[&follower].len();
    world.start(follower);
    world.converge();
    assert_eq!(world.get(follower, "a").as_deref(), Some("2"));
    assert_eq!(
        world.applied[&follower].len(),
        before + 1,
        "no entry is emitted twice"
    );
}

/// Its earlier proposals are remembered by the others, and not by itself.
#[test]
fn a_replica_that_lost_its_directory_proposes_again() {
    let now = Arc::new(AtomicU64::new(1_000));
    let clock = Arc::clone(&now);
    let mut world = World::with(3, move |config| {
        config.boot_min = clock.fetch_add(1, Relaxed);
    });
    let lost = world.leader();
    for n in 0..5 {
        world.kill(lost);
        world.start(lost);
        world.leader();
        let outcome = world.commit(lost, put("a", &n.to_string()));
        assert!(matches!(outcome, Outcome::Applied { .. }));
    }
    world.converge();
    world.kill(lost);
    world.dirs.insert(lost, directory());
    // The leader that knew the old log stands down first: to it, entries would be lost.
    let old = world.leader();
    let new = world.ids().into_iter().find(|id| *id != old).unwrap();
    world.input(old, Input::TransferLeader(new));
    world.until("the transfer", |world| {
        world.replicas[&new].status().role == Role::Leader
    });
    world.start(lost);
    world.converge();
    let outcome = world.commit(lost, put("a", "last"));
    assert!(matches!(outcome, Outcome::Applied { .. }));
    world.converge();
    assert_eq!(world.get(old, "a").as_deref(), Some("last"));
}

#[test]
fn all_restart_and_nothing_is_lost() {
    let mut world = World::new(3);
    for n in 0..10 {
        let leader = world.leader();
        world.commit(leader, put("a", &n.to_string()));
        let term = world.replicas[&leader].status().term;
        for id in 1..=3 {
            world.kill(id);
        }
        for id in 1..=3 {
            world.start(id);
            assert!(world.replicas[&id].status().term >= term - 1);
        }
    }
    world.leader();
    world.converge();
    assert_eq!(world.get(1, "a").as_deref(), Some("9"));
}

#[test]
fn a_follower_that_lags_behind_the_log_gets_a_snapshot() {
    let mut world = World::with(3, |config| config.log_keep_entries = 20);
    let leader = world.leader();
    let follower = world.follower();
    world.commit(leader, put("stale", "1"));
    world.converge();
    world.kill(follower);
    let keys = vec![Bytes::from_static(b"stale")];
    world.commit(
        leader,
        Batch {
            conditions: Vec::new(),
            ops: vec![Op::Delete { keys }],
        },
    );
    for n in 0..100 {
        world.commit(leader, put(&format!("k{n}"), &format!("{}", n / 10)));
    }
    let status = world.replicas[&leader].status();
    assert!(
        status.first > 80 && status.last - status.first < 30,
        "{status:?}"
    );
    world.start(follower);
    world.applied.insert(follower, Vec::new());
    world.converge();
    let applied = &world.applied[&follower];
    assert_eq!(applied[0].changes, [Change::Reset]);
    assert_eq!(world.get(follower, "stale"), None);
    assert_eq!(world.get(follower, "k99").as_deref(), Some("9"));
    world.commit(leader, put("after", "1"));
    world.converge();
    world.kill(follower);
    world.start(follower);
    world.converge();
}

#[test]
fn a_lost_snapshot_is_sent_again() {
    let mut world = World::with(3, |config| config.log_keep_entries = 5);
    let leader = world.leader();
    let follower = world.follower();
    world.kill(follower);
    for n in 0..50 {
        world.commit(leader, put(&format!("k{n}"), "1"));
    }
    world.start(follower);
    let mut lost = 0;
    for _ in 0..60 {
        world.input(leader, Input::Tick);
        world.input(follower, Input::Tick);
        for id in world.ids() {
            world.poll(id);
        }
        while let Some(packet) = world.wire.pop_front() {
            let lose = packet.snapshot && lost < 2;
            if packet.snapshot {
                let (to, ok) = (packet.to, !lose);
                world.input(packet.from, Input::SnapshotSent { to, ok });
            }
            lost += u32::from(lose);
            if !lose {
                let (from, octets) = (packet.from, packet.octets);
                world.input(packet.to, Input::Message { from, octets });
            }
            world.poll(packet.from);
            world.poll(packet.to);
        }
    }
    assert_eq!(lost, 2);
    world.converge();
}

#[test]
fn a_follower_reads_what_was_committed_before() {
    let mut world = World::new(3);
    let leader = world.leader();
    let follower = world.follower();
    for n in 0..5 {
        let Outcome::Applied { index } = world.commit(leader, put("a", &n.to_string())) else {
            panic!("not applied");
        };
        let read = world.read(follower);
        world.deliver();
        world.until("a read", |world| world.ready.contains_key(&read));
        assert!(world.ready[&read] >= index);
        assert_eq!(world.get(follower, "a"), Some(n.to_string()));
    }
}

#[test]
fn a_leader_that_is_cut_off_answers_no_read_and_commits_nothing() {
    let mut world = World::new(3);
    let old = world.leader();
    world.commit(old, put("a", "old"));
    world.cut.insert(old);
    let stale_read = world.read(old);
    let lost = world.propose(old, put("a", "lost"));
    let new = world.leader();
    assert_ne!(old, new);
    world.commit(new, put("a", "new"));
    world.ticks(70);
    assert!(world.failed.contains(&stale_read) && !world.ready.contains_key(&stale_read));
    assert_eq!(world.outcomes[&lost], Outcome::Dropped);
    assert_eq!(world.get(old, "a").as_deref(), Some("old"));
    assert_ne!(world.replicas[&old].status().role, Role::Leader);
    world.cut.clear();
    world.converge();
    assert_eq!(world.get(old, "a").as_deref(), Some("new"));
    assert_eq!(world.leader(), new, "who comes back does not disturb");
}

#[test]
fn a_paused_leader_answers_no_read_when_it_wakes() {
    let mut world = World::new(3);
    let old = world.leader();
    world.commit(old, put("a", "old"));
    let mut paused = world.replicas.remove(&old).unwrap();
    let new = world.leader();
    world.commit(new, put("a", "new"));
    paused.handle(Input::Read { ticket: 1_000 });
    world.replicas.insert(old, paused);
    world.until("the read", |world| {
        world.ready.contains_key(&1_000) || world.failed.contains(&1_000)
    });
    if world.ready.contains_key(&1_000) {
        assert_eq!(world.get(old, "a").as_deref(), Some("new"));
    }
}

#[test]
fn leadership_can_be_handed_over_from_any_replica() {
    let mut world = World::new(3);
    let old = world.leader();
    let to = world.follower();
    let asked = world
        .ids()
        .into_iter()
        .find(|id| *id != old && *id != to)
        .unwrap();
    world.input(asked, Input::TransferLeader(to));
    world.deliver();
    world.until("the transfer", |world| {
        world.replicas[&to].status().role == Role::Leader
    });
    assert!(matches!(
        world.commit(asked, put("a", "1")),
        Outcome::Applied { .. }
    ));
}

#[test]
fn a_leader_whose_process_ended_is_replaced_at_once_by_one_election() {
    for (replicas, lagging) in [(3, false), (3, true), (5, false), (5, true), (7, false)] {
        let mut world = World::new(replicas);
        let old = world.leader();
        let next = world.follower();
        let term = world.replicas[&old].status().term;
        if lagging {
            // Whose turn is first has not what is committed.
            world.cut = [next].into();
            world.commit(old, put("a", "1"));
            world.cut.clear();
        }
        world.kill(old);
        // One hears of it a tick before the others.
        for id in world.ids() {
            world.input(id, Input::Gone(old));
            if id == next {
                world.tick();
            }
        }
        let turns = if lagging { 2 } else { 1 };
        world.ticks(3 + 2 * turns);
        let leads = |id: &u64| world.replicas[id].status().role == Role::Leader;
        let leader = world.ids().into_iter().find(leads);
        let leader = leader.unwrap_or_else(|| panic!("{replicas} replicas have no leader"));
        assert_eq!(leader == next, !lagging);
        assert_eq!(world.replicas[&leader].status().term, term + 1);
        world.commit(leader, put("b", "2"));
    }
}

#[test]
fn a_leader_that_was_silent_for_long_before_it_is_gone_is_replaced_by_one_election() {
    let mut late = 0;
    for (seed, silent) in (0..12).flat_map(|seed| (12..20).map(move |silent| (seed, silent))) {
        let mut world = World::with(3, move |config| config.seed = seed);
        let old = world.leader();
        let term = world.replicas[&old].status().term;
        world.cut = [old].into();
        world.ticks(silent);
        world.kill(old);
        let waits = |id: &u64| world.replicas[id].status().leader == Some(old);
        if !world.ids().iter().all(waits) {
            continue;
        }
        late += 1;
        for id in world.ids() {
            world.input(id, Input::Gone(old));
        }
        let leader = world.leader();
        assert_eq!(
            world.replicas[&leader].status().term,
            term + 1,
            "seed {seed}, silent for {silent}"
        );
    }
    assert!(late > 10, "{late} of them");
}

#[test]
fn a_leader_that_is_called_gone_and_lives_goes_on() {
    let mut world = World::new(3);
    let leader = world.leader();
    let term = world.replicas[&leader].status().term;
    for n in 0..100 {
        for id in world.ids() {
            world.input(id, Input::Gone(leader));
            world.input(id, Input::Gone(1 + n % 3));
        }
        world.ticks(5);
    }
    assert_eq!(world.leader(), leader);
    assert_eq!(world.replicas[&leader].status().term, term);
}

#[test]
fn one_that_alone_takes_its_leader_for_gone_gets_no_vote() {
    let mut world = World::new(3);
    let leader = world.leader();
    let term = world.replicas[&leader].status().term;
    let follower = world.follower();
    world.cut_ways = [(leader, follower)].into();
    world.input(follower, Input::Gone(leader));
    world.ticks(6);
    assert_eq!(world.replicas[&follower].status().role, Role::PreCandidate);
    // It goes on to ask, and nobody who hears the leader answers.
    world.ticks(100);
    assert_eq!(world.replicas[&leader].status().role, Role::Leader);
    world.cut_ways.clear();
    assert_eq!(world.leader(), leader);
    assert_eq!(world.replicas[&leader].status().term, term);
}

#[test]
fn a_new_leader_drops_what_the_old_one_was_given() {
    let mut world = World::new(3);
    let old = world.leader();
    let follower = world.follower();
    world.cut.insert(old);
    let ticket = world.propose(follower, put("a", "1"));
    world.poll(follower);
    world.leader();
    world.until("the outcome", |world| world.outcomes.contains_key(&ticket));
    assert_eq!(world.outcomes[&ticket], Outcome::Dropped);
}

#[test]
fn a_repeated_forward_takes_effect_once() {
    let mut world = World::new(3);
    let leader = world.leader();
    let follower = world.follower();
    world.propose(follower, put("a", "1"));
    world.poll(follower);
    let forwarded = world.wire.pop_front().unwrap();
    assert_eq!(forwarded.to, leader);
    for _ in 0..3 {
        let (from, octets) = (forwarded.from, forwarded.octets.clone());
        world.input(leader, Input::Message { from, octets });
    }
    world.deliver();
    world.converge();
    assert_eq!(world.applied[&leader].len(), 1);
    assert!(world.replicas[&leader].status().last >= 5);
}

#[test]
fn a_batch_beyond_the_bounds_is_dropped_at_once() {
    let mut world = World::new(1);
    let long = put(&"k".repeat(weft_store::batch::MAX_KEY_OCTETS + 1), "1");
    let large = put("k", &"v".repeat(weft_store::batch::MAX_BATCH_OCTETS));
    for batch in [long, large, put("", "1")] {
        assert!(!batch.is_acceptable());
        let ticket = world.propose(1, batch);
        world.poll(1);
        assert_eq!(world.outcomes[&ticket], Outcome::Dropped);
    }
}
