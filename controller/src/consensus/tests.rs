//! The handle and the edge without the thread: what is queued, handed over and answered, in which order. Knows a real
//! store of one replica, and no time.

use weft_store::{Config, Op};

use super::*;
use crate::reflector::thread;

fn batch(key: &'static [u8]) -> Batch {
    Batch {
        conditions: Vec::new(),
        ops: vec![Op::Put {
            value: Bytes::from_static(b"value"),
            keys: vec![Bytes::from_static(key)],
        }],
    }
}

/// The handle and what the thread would drive, with a reflector that has room for one entry.
fn world(dir: &tempfile::TempDir) -> (Consensus, Edge, mpsc::Receiver<Entry>) {
    let config = Config::new(1, vec![1], dir.path(), [1; 16], 1);
    let replica = Replica::open(config).unwrap();
    let (sink, reflected) = mpsc::channel(1);
    let (consensus, edge) = edge(replica, sink, BTreeMap::new(), Counted::default());
    (consensus, edge, reflected)
}

/// A handle whose commands the caller takes: nobody else does.
pub(crate) fn unheard(dir: &tempfile::TempDir) -> (Consensus, mpsc::Receiver<Command>) {
    let (consensus, edge, _) = world(dir);
    (consensus, edge.inbox)
}

/// A lone leader whose thread hangs, for as long as somebody holds the last value: its inbox, and what it has.
pub(crate) fn hung(
    dir: &tempfile::TempDir,
) -> (Consensus, (mpsc::Receiver<Command>, impl Sized + use<>)) {
    let (consensus, mut edge, reflected) = world(dir);
    while !edge.leads() {
        edge.replica.handle(Input::Tick);
        edge.settle();
    }
    let Edge {
        inbox,
        replica,
        publish,
        ..
    } = edge;
    (consensus, (inbox, (replica, publish, reflected)))
}

/// To wake a proposer takes longer than to hand an entry over, and the whole fabric waits for that.
#[test]
fn what_is_applied_is_handed_over_before_its_proposer_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (_consensus, mut edge, mut reflected) = world(&dir);
    let applied = |index| {
        Output::Applied(Applied {
            index,
            term: 1,
            changes: Vec::new(),
        })
    };
    let mut handed_over = || match reflected.try_recv() {
        Ok(Entry {
            applied,
            taken: None,
        }) => Some(applied.index),
        _ => None,
    };
    (7..10).for_each(|index| edge.dispatch(applied(index), None));
    assert_eq!(handed_over(), Some(7), "nothing else had to happen");
    assert_eq!(handed_over(), None, "there was no room");
    edge.hand_over();
    assert_eq!(handed_over(), Some(8), "in order");
    edge.dispatch(applied(10), None);
    assert_eq!(handed_over(), Some(9), "the newest is the last");
    edge.hand_over();
    assert_eq!(handed_over(), Some(10));
}

/// In the same turn: whoever advertises it must not have to wait for the answer.
#[test]
fn an_entry_comes_with_the_time_at_which_an_update_in_it_was_taken() {
    let dir = tempfile::tempdir().unwrap();
    let (_consensus, mut edge, mut reflected) = world(&dir);
    let taken = tokio::time::Instant::now().into_std();
    let (reply, _outcome) = oneshot::channel();
    let taken_then = Some(taken);
    edge.proposals.insert(
        5,
        Asker {
            reply,
            taken: taken_then,
        },
    );
    let mut handed_over = |next: Option<&Output>| {
        let applied = Applied {
            index: 7,
            term: 1,
            changes: Vec::new(),
        };
        edge.dispatch(Output::Applied(applied), next);
        match reflected.try_recv() {
            Ok(Entry { taken, .. }) => taken,
            _ => panic!("not handed over"),
        }
    };
    let answer = |ticket| Output::Proposed {
        ticket,
        outcome: Outcome::Applied { index: 7 },
    };
    assert_eq!(handed_over(None), None, "of another replica");
    assert_eq!(handed_over(Some(&answer(4))), None, "not measured");
    assert_eq!(handed_over(Some(&answer(5))), taken_then);
}

#[tokio::test]
async fn a_proposal_stands_in_the_queue_before_anybody_waits_for_its_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, mut edge, _reflected) = world(&dir);
    let first = consensus.try_room().unwrap().propose(batch(b"first"));
    let second = consensus.try_room().unwrap().propose(batch(b"second"));
    drop(second);
    for (key, index) in [(&b"first"[..], 7), (b"second", 8)] {
        let Ok(Command::Propose(queued, asker)) = edge.inbox.try_recv() else {
            panic!("{index} was not queued");
        };
        assert_eq!(queued, batch(key));
        asker.reply.send(Outcome::Applied { index }).ok();
    }
    assert_eq!(first.await, Outcome::Applied { index: 7 });
}

#[tokio::test]
async fn who_finds_no_room_is_told_so_and_keeps_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, edge, _reflected) = world(&dir);
    let mut rooms: Vec<_> = std::iter::from_fn(|| consensus.try_room()).collect();
    assert_eq!(rooms.len(), COMMANDS_MAX);
    drop(rooms.pop());
    assert!(consensus.try_room().is_some());
    drop(edge);
    assert!(consensus.try_room().is_none(), "the thread is gone");
    let outcome = consensus.propose(batch(b"late")).await;
    assert_eq!(outcome, Outcome::Dropped);
}

#[tokio::test(start_paused = true)]
async fn a_read_ends_also_if_a_thread_that_hangs_leaves_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, _edge, _reflected) = world(&dir);
    let rooms: Vec<_> = std::iter::from_fn(|| consensus.try_room()).collect();
    assert_eq!(rooms.len(), COMMANDS_MAX);
    assert_eq!(consensus.read_index().await, None);
}

/// A client that asks the reflector for more than it answers holds up no proposal.
#[test]
fn a_proposal_is_taken_and_its_entry_arrives_while_questions_fill_the_reflectors_queue() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::new(1, vec![1], dir.path(), [1; 16], 1);
    let replica = Replica::open(config).unwrap();
    let (reflection, mut inbox) = thread::channel();
    let sink = reflection.entries();
    let (_consensus, mut edge) = edge(replica, sink, BTreeMap::new(), Counted::default());
    while !edge.leads() {
        edge.replica.handle(Input::Tick);
        edge.settle();
    }
    let inputs = reflection.inputs();
    while inputs
        .try_send(thread::Input::Query(Box::new(|_| ())))
        .is_ok()
    {}
    for key in [&b"first"[..], b"second"] {
        let (reply, mut outcome) = oneshot::channel();
        let taken = None;
        edge.take(Command::Propose(batch(key), Asker { reply, taken }));
        let answered = (0..100).find_map(|_| {
            edge.settle();
            outcome.try_recv().ok()
        });
        let Some(Outcome::Applied { index }) = answered else {
            panic!("not applied: {answered:?}");
        };
        let entries = std::iter::from_fn(|| inbox.try_entry());
        assert!(entries.last().is_some_and(|it| it.applied.index == index));
    }
}
