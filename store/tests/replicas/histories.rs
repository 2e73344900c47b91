//! Replicas whose histories differ, because one of them lost its directory and voted without it.

use prost::Message as _;
use raft::eraftpb::{Entry, Message, MessageType};
use weft_store::{Input, Outcome, Role};

use crate::forged::envelope;
use crate::world::{CLUSTER, World, directory, put};

/// Replica 3 does not receive x; replica 2, which acknowledged it, loses its directory; replica 1,
/// which has it, is down meanwhile. The two others elect a leader without x.
fn diverged(mut world: World, further: usize) -> World {
    world.input(1, Input::Campaign);
    world.until("replica 1 leads", |world| {
        world.replicas[&1].status().role == Role::Leader
    });
    world.commit(1, put("a", "1"));
    world.converge();
    world.cut = [3].into();
    assert!(matches!(
        world.commit(1, put("x", "1")),
        Outcome::Applied { .. }
    ));
    world.kill(2);
    world.dirs.insert(2, directory());
    world.kill(1);
    world.cut.clear();
    world.start(2);
    let leader = world.leader();
    assert_eq!(leader, 3, "an empty log wins no election");
    for n in 0..further {
        world.commit(leader, put("a", &n.to_string()));
    }
    world.converge();
    assert_eq!(world.get(3, "x"), None);
    world
}

/// The text under which replica 1 stops after its start.
fn stopped_by(world: &mut World) -> String {
    world.start(1);
    world.until("replica 1 stops", |world| {
        world.replicas[&1].status().degraded.is_some()
    });
    assert_eq!(world.get(1, "x").as_deref(), Some("1"));
    world.replicas[&1].status().degraded.unwrap()
}

#[test]
fn a_replica_names_the_committed_entry_of_which_the_leader_has_another() {
    for further in [0, 1, 40] {
        let mut world = diverged(World::new(3), further);
        let term = world.replicas[&3].status().term;
        let reason = stopped_by(&mut world);
        let x = world.replicas[&1].status().commit;
        let named = format!("replica 3 has entry {x} of term {term}");
        assert!(reason.contains(&named), "after {further}: {reason}");
        // The others go on, and a restart does not make it forget.
        world.commit(3, put("b", "1"));
        world.kill(1);
        assert_eq!(stopped_by(&mut world), reason);
    }
}

/// Gives `to` an append of `leader` in `term`: the entry before it, and its entries, each by index
/// and term.
fn append(world: &mut World, (leader, to): (u64, u64), term: u64, entries: &[(u64, u64)]) {
    let mut message = Message::default();
    message.set_msg_type(MessageType::MsgAppend);
    (message.from, message.to, message.term) = (leader, to, term);
    (message.index, message.log_term) = entries[0];
    message.commit = world.replicas[&to].status().commit;
    for (index, term) in &entries[1..] {
        let mut entry = Entry::default();
        (entry.index, entry.term) = (*index, *term);
        message.entries.push(entry);
    }
    let octets = envelope(CLUSTER, leader, to, 1, &message.encode_to_vec());
    let from = leader;
    world.input(to, Input::Message { from, octets });
    world.poll(to);
}

/// Gives `to` a heartbeat of `leader` in `term`, which it follows from then on.
fn heartbeat(world: &mut World, (leader, to): (u64, u64), term: u64) {
    let mut message = Message::default();
    message.set_msg_type(MessageType::MsgHeartbeat);
    (message.from, message.to, message.term) = (leader, to, term);
    let octets = envelope(CLUSTER, leader, to, 1, &message.encode_to_vec());
    let from = leader;
    world.input(to, Input::Message { from, octets });
    world.poll(to);
}

#[test]
fn an_append_of_entries_that_are_committed_here_passes() {
    let mut world = World::new(3);
    let leader = world.leader();
    let follower = world.follower();
    for n in 0..3 {
        world.commit(leader, put("a", &n.to_string()));
    }
    world.converge();
    let status = world.replicas[&follower].status();
    let term = status.term;
    assert_eq!(status.commit, 5);
    let way = (leader, follower);
    let committed = [(1, 1), (2, term), (3, term), (4, term), (5, term)];
    for from in 0..committed.len() {
        append(&mut world, way, term, &committed[from..]);
    }
    // Entries of a leader of an older term may have been overwritten since.
    append(&mut world, way, term - 1, &[(1, 1), (2, 1), (3, 1)]);
    let after = world.replicas[&follower].status();
    assert_eq!((after.refused, after.degraded), (0, None));
    let other = [(2, term), (3, term + 1)];
    append(&mut world, way, term + 1, &other);
    let after = world.replicas[&follower].status();
    assert_eq!((after.refused, after.degraded), (1, None), "not followed");
    heartbeat(&mut world, way, term + 1);
    append(&mut world, way, term + 1, &other);
    let reason = world.replicas[&follower].status().degraded.unwrap();
    let later = term + 1;
    let named = format!("entry 3 of term {later}, where this one has committed one of term {term}");
    assert!(reason.contains(&named), "{reason}");
}

#[test]
fn the_entry_before_an_append_is_compared_as_well() {
    let mut world = World::new(3);
    let leader = world.leader();
    let follower = world.follower();
    world.commit(leader, put("a", "1"));
    world.converge();
    let term = world.replicas[&follower].status().term + 1;
    let way = (leader, follower);
    heartbeat(&mut world, way, term);
    append(&mut world, way, term, &[(3, term), (4, term)]);
    let reason = world.replicas[&follower].status().degraded.unwrap();
    assert!(reason.contains("has entry 3 of term"), "{reason}");
}

#[test]
fn entries_that_are_dropped_from_the_log_cannot_be_compared() {
    let mut world = World::with(3, |config| config.log_keep_entries = 5);
    let leader = world.leader();
    let follower = world.follower();
    for n in 0..40 {
        world.commit(leader, put("a", &n.to_string()));
    }
    world.converge();
    let status = world.replicas[&follower].status();
    let (boundary, term) = (status.first - 1, status.term + 1);
    assert!(boundary > 20, "{status:?}");
    let way = (leader, follower);
    append(&mut world, way, term, &[(boundary - 1, term)]);
    assert_eq!(world.replicas[&follower].status().degraded, None);
    append(&mut world, way, term, &[(boundary, term)]);
    let reason = world.replicas[&follower].status().degraded.unwrap();
    let named = format!("has entry {boundary} of term {term}");
    assert!(reason.contains(&named), "{reason}");
}
