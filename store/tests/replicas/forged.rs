//! Messages that no correct replica sends. None may panic, and none is worth more than a count.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;
use raft::eraftpb::{ConfState, Entry, Message, MessageType, Snapshot, SnapshotMetadata};
use weft_store::{FORMAT, Input, Op, Outcome, Output};

use crate::world::{CLUSTER, Random, World, put};

#[test]
fn forged_messages_of_a_member_never_panic() {
    for seed in 0..12 {
        let mut world = World::new(3);
        world.random = Random(seed);
        let leader = world.leader();
        world.commit(leader, put("a", "1"));
        for n in 0..400 {
            let to = 1 + world.random.below(3);
            let from = 1 + (to + world.random.below(2)) % 3;
            let message = forge(&mut world, from, to);
            let octets = envelope(CLUSTER, from, to, 1, &message.encode_to_vec());
            world.input(to, Input::Message { from, octets });
            if n % 4 == 0 {
                world.poll(to);
                // What Raft answers to a forged message goes nowhere: only one replica lies.
                world.wire.clear();
            }
            if n % 16 == 0 {
                world.input(to, Input::Tick);
            }
            let degraded = world.replicas[&to].status().degraded;
            if let Some(reason) = degraded {
                assert!(is_named(&reason), "seed {seed}: {reason}");
                world.kill(to);
                world.start(to);
            }
        }
    }
}

#[test]
fn garbage_is_refused_and_counted() {
    let mut world = World::new(3);
    let leader = world.leader();
    let follower = world.follower();
    world.propose(follower, put("a", "1"));
    world.input(leader, Input::Tick);
    world.input(leader, Input::Tick);
    world.poll(leader);
    world.poll(follower);
    let samples: Vec<_> = world.wire.drain(..).collect();
    assert!(samples.len() >= 3);
    let mut random = Random(3);
    let before = world.replicas[&leader].status().refused;
    for packet in &samples {
        for len in 0..packet.octets.len() {
            let from = packet.from;
            let octets = packet.octets.slice(..len);
            world.input(packet.to, Input::Message { from, octets });
        }
        for _ in 0..200 {
            let mut octets = BytesMut::from(&packet.octets[..]);
            let at = random.below(octets.len() as u64) as usize;
            octets[at] ^= 1 << random.below(8);
            let (from, octets) = (packet.from, octets.freeze());
            world.input(packet.to, Input::Message { from, octets });
        }
        world.poll(packet.to);
        let degraded = world.replicas[&packet.to].status().degraded;
        assert!(degraded.is_none_or(|reason| is_named(&reason)));
    }
    for _ in 0..1_000 {
        let len = random.below(200);
        let octets: Bytes = (0..len).map(|_| random.next() as u8).collect();
        world.input(
            leader,
            Input::Message {
                from: follower,
                octets,
            },
        );
    }
    world.poll(leader);
    assert!(world.replicas[&leader].status().refused >= before + 1_000);
}

#[test]
fn messages_of_others_are_refused() {
    let mut world = World::new(3);
    let leader = world.leader();
    let follower = world.follower();
    let term = world.replicas[&leader].status().term;
    let mut message = Message::default();
    message.set_msg_type(MessageType::MsgHeartbeat);
    (message.from, message.to, message.term) = (leader, follower, term + 1);
    let octets = message.encode_to_vec();
    let mut foreign = vec![
        (leader, envelope([8; 16], leader, follower, 1, &octets)),
        (
            3 - leader % 2,
            envelope(CLUSTER, leader, follower, 1, &octets),
        ),
        (leader, envelope(CLUSTER, leader, leader, 1, &octets)),
        (leader, envelope(CLUSTER, leader, follower, 9, &octets)),
        (9, envelope(CLUSTER, 9, follower, 1, &octets)),
        (
            leader,
            envelope(CLUSTER, leader, follower, 2, b"no proposal"),
        ),
        (
            leader,
            envelope(CLUSTER, leader, follower, 3, &9_u64.to_be_bytes()),
        ),
    ];
    for format in [FORMAT - 1, FORMAT + 1] {
        let mut octets = BytesMut::from(&envelope(CLUSTER, leader, follower, 1, &octets)[..]);
        octets[0] = format;
        foreign.push((leader, octets.freeze()));
    }
    foreign.retain(|(from, _)| *from != follower);
    for (n, (from, octets)) in (1..).zip(foreign) {
        world.input(follower, Input::Message { from, octets });
        world.poll(follower);
        let status = world.replicas[&follower].status();
        assert_eq!((status.refused, status.term), (n, term));
    }
}

#[test]
fn proposals_of_raft_itself_are_refused() {
    let mut world = World::new(3);
    let leader = world.leader();
    let follower = world.follower();
    let last = world.replicas[&leader].status().last;
    let mut message = Message::default();
    message.set_msg_type(MessageType::MsgPropose);
    (message.from, message.to) = (follower, leader);
    message.entries = vec![Entry::default()];
    let octets = envelope(CLUSTER, follower, leader, 1, &message.encode_to_vec());
    world.input(
        leader,
        Input::Message {
            from: follower,
            octets,
        },
    );
    world.deliver();
    let status = world.replicas[&leader].status();
    assert_eq!((status.refused, status.last), (1, last));
}

#[test]
fn a_replica_that_lost_acknowledged_entries_stops_voting() {
    let mut world = World::new(3);
    let leader = world.leader();
    let follower = world.follower();
    world.commit(leader, put("a", "1"));
    world.converge();
    let status = world.replicas[&leader].status();
    let mut message = Message::default();
    message.set_msg_type(MessageType::MsgHeartbeat);
    (message.from, message.to, message.term) = (leader, follower, status.term);
    message.commit = status.last + 1;
    let octets = envelope(CLUSTER, leader, follower, 1, &message.encode_to_vec());
    world.input(
        follower,
        Input::Message {
            from: leader,
            octets,
        },
    );
    let mut out = Vec::new();
    let replica = world.replicas.get_mut(&follower).unwrap();
    replica.poll(&mut out);
    assert!(matches!(&out[..], [Output::Status(status)] if status.degraded.is_some()));
    for _ in 0..100 {
        replica.handle(Input::Tick);
    }
    out.clear();
    replica.poll(&mut out);
    assert!(out.is_empty());
    assert_eq!(world.get(follower, "a").as_deref(), Some("1"));
}

/// A forger needs no knowledge for a term of its own; the group goes on after it.
#[test]
fn a_leader_that_is_not_followed_halts_nobody() {
    let mut world = World::new(3);
    let leader = world.leader();
    let follower = world.follower();
    world.commit(leader, put("a", "1"));
    world.converge();
    let other = 6 - leader - follower;
    for (n, from) in [leader, other].into_iter().enumerate() {
        let status = world.replicas[&follower].status();
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgHeartbeat);
        (message.from, message.to, message.term) = (from, follower, status.term + (1 << 20));
        message.commit = 1 << 59;
        let octets = envelope(CLUSTER, from, follower, 1, &message.encode_to_vec());
        world.input(follower, Input::Message { from, octets });
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgAppend);
        (message.from, message.to, message.term) = (from, follower, status.term + (2 << 20) - 1);
        (message.index, message.log_term) = (status.commit, status.term + 7);
        let octets = envelope(CLUSTER, from, follower, 1, &message.encode_to_vec());
        world.input(follower, Input::Message { from, octets });
        world.poll(follower);
        assert_eq!(world.replicas[&follower].status().degraded, None);
        assert_eq!(world.replicas[&follower].status().refused, n as u64 + 1);
        let leads = world.leader();
        let outcome = world.commit(leads, put("a", "2"));
        assert!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
        world.converge();
    }
}

#[test]
fn a_forwarded_proposal_that_no_replica_makes_is_refused() {
    let mut world = World::with(3, |config| {
        config.accepts = |batch| {
            let known = |op: &Op| !matches!(op, Op::Delete { keys } if keys[0] != "a");
            batch.ops.iter().all(known)
        };
    });
    let leader = world.leader();
    let follower = world.follower();
    world.commit(follower, put("a", "1"));
    world.converge();
    let delete =
        |key: &[u8]| [&[2, 0, 0, 0, 1], &(key.len() as u32).to_be_bytes()[..], key].concat();
    let year = 366 * 86_400;
    let forged = [
        (u64::MAX, 1, delete(b"a")),
        (year + 10_000, 1, delete(b"a")),
        (1, u64::MAX, delete(b"a")),
        (2, (1 << 32) + 1, delete(b"a")),
        (1, 2, vec![3, 0, 0, 0, 0]),
        (1, 2, delete(b"b")),
    ];
    for (n, (boot, seq, op)) in (1..).zip(forged) {
        let octets = forwarded(follower, leader, (boot, seq), &op);
        let from = follower;
        world.input(leader, Input::Message { from, octets });
        world.deliver();
        assert_eq!(world.replicas[&leader].status().refused, n, "{boot} {seq}");
    }
    assert_eq!(world.get(leader, "a").as_deref(), Some("1"));
    let octets = forwarded(follower, leader, (1, 2), &delete(b"a"));
    let from = follower;
    world.input(leader, Input::Message { from, octets });
    world.deliver();
    world.converge();
    assert_eq!(world.get(leader, "a"), None);
}

/// Whether a forger made it, or the replica itself while its clock was ahead.
#[test]
fn a_proposal_of_a_later_start_does_not_silence_a_replica() {
    let mut world = World::new(3);
    let leader = world.leader();
    let follower = world.follower();
    world.commit(follower, put("a", "1"));
    let delete = [&[2, 0, 0, 0, 1, 0, 0, 0, 1][..], b"a"].concat();
    let octets = forwarded(follower, leader, (1_000, 5), &delete);
    let from = follower;
    world.input(leader, Input::Message { from, octets });
    world.deliver();
    world.converge();
    assert_eq!(world.get(leader, "a"), None);
    let first = world.propose(follower, put("a", "2"));
    let second = world.propose(follower, put("a", "3"));
    world.until("outcomes", |world| world.outcomes.len() == 3);
    assert_eq!(world.outcomes[&first], Outcome::Superseded);
    assert_eq!(world.outcomes[&second], Outcome::Dropped);
    for restarted in [false, true] {
        if restarted {
            world.kill(follower);
            world.start(follower);
            world.leader();
        }
        let outcome = world.commit(follower, put("a", "4"));
        assert!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
    }
}

#[test]
fn a_message_that_is_refused_is_no_sign_of_life() {
    let mut world = World::new(3);
    let leader = world.leader();
    let follower = world.follower();
    world.converge();
    let heard = |world: &mut World| world.replicas.get_mut(&leader).unwrap().heard();
    heard(&mut world);
    let garbage = Bytes::from_static(b"garbage");
    let from = follower;
    world.input(
        leader,
        Input::Message {
            from,
            octets: garbage,
        },
    );
    world.poll(leader);
    assert_eq!(heard(&mut world), [].into());
    world.ticks(4);
    assert_eq!(
        heard(&mut world),
        [1, 2, 3].into_iter().filter(|id| *id != leader).collect()
    );
    assert_eq!(heard(&mut world), [].into());
}

#[test]
fn a_committed_entry_that_does_not_decode_stops_the_replica_by_name() {
    let mut world = World::new(3);
    let leader = world.leader();
    let follower = world.follower();
    world.commit(leader, put("a", "1"));
    world.converge();
    let status = world.replicas[&leader].status();
    let mut message = Message::default();
    message.set_msg_type(MessageType::MsgAppend);
    (message.from, message.to, message.term) = (leader, follower, status.term);
    (message.index, message.log_term) = (status.last, status.term);
    message.commit = status.last + 1;
    let mut damaged = Entry::default();
    (damaged.index, damaged.term) = (status.last + 1, status.term);
    damaged.data = b"no proposal".to_vec();
    message.entries = vec![damaged];
    let octets = envelope(CLUSTER, leader, follower, 1, &message.encode_to_vec());
    let from = leader;
    world.input(follower, Input::Message { from, octets });
    for start in [false, true] {
        if start {
            world.kill(follower);
            world.start(follower);
        }
        world.poll(follower);
        let stopped = world.replicas[&follower].status();
        let reason = stopped.degraded.unwrap();
        let named = format!(
            "committed entry {} of term {}",
            status.last + 1,
            status.term
        );
        assert!(reason.contains(&named), "{reason}");
        assert_eq!(stopped.applied, status.last, "nothing is applied instead");
    }
}

/// True if a replica stopped for a reason that it has a name for; a panic has none.
fn is_named(reason: &str) -> bool {
    let named = [
        "acknowledged entries",
        "their histories differ",
        "does not decode",
    ];
    named.iter().any(|name| reason.contains(name))
}

/// A proposal of one operation that `from` forwards to `to`.
fn forwarded(from: u64, to: u64, (boot, seq): (u64, u64), op: &[u8]) -> Bytes {
    let mut proposal = vec![FORMAT];
    for number in [from, boot, seq] {
        proposal.extend(number.to_be_bytes());
    }
    proposal.extend([0, 0, 0, 0, 0, 0, 0, 1]);
    proposal.extend(op);
    envelope(CLUSTER, from, to, 2, &proposal)
}

pub(crate) fn envelope(cluster: [u8; 16], from: u64, to: u64, kind: u8, payload: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(FORMAT);
    out.put_u8(kind);
    out.put_slice(&cluster);
    out.put_u64(from);
    out.put_u64(to);
    out.put_slice(payload);
    out.freeze()
}

fn forge(world: &mut World, from: u64, to: u64) -> Message {
    let status = world.replicas[&to].status();
    let random = &mut world.random;
    let mut number = |near: u64| match random.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => 1 << 60,
        3 => near.saturating_add(1),
        4 => near.saturating_sub(1),
        5 => random.below(6),
        _ => near,
    };
    let mut message = Message::default();
    (message.from, message.to) = (from, to);
    message.term = number(status.term);
    message.log_term = number(status.term);
    message.index = number(status.last);
    message.commit = number(status.commit);
    message.commit_term = number(status.term);
    message.reject_hint = number(status.last);
    let entries: Vec<_> = (0..number(0).min(3))
        .map(|n| (number(message.index.wrapping_add(n)), number(status.term)))
        .collect();
    let snapshot = (number(status.last), number(status.term));
    message.msg_type = random.below(20) as i32;
    message.reject = random.percent(50);
    message.request_snapshot = u64::from(random.percent(10));
    message.priority = random.next() as i64;
    if random.percent(30) {
        message.context = b"CampaignTransfer".to_vec();
    }
    for (index, term) in entries {
        let mut entry = Entry::default();
        (entry.index, entry.term) = (index, term);
        entry.entry_type = i32::from(random.percent(10));
        entry.data = vec![1; random.below(40) as usize];
        message.entries.push(entry);
    }
    if random.percent(70) {
        let forged = Snapshot {
            data: vec![1; random.below(40) as usize],
            metadata: Some(SnapshotMetadata {
                conf_state: Some(ConfState::from(([1, 2, 3], []))),
                index: snapshot.0,
                term: snapshot.1,
            }),
        };
        message.set_snapshot(forged);
    }
    message
}
