//! Writers without sockets: what goes out, in which order, whatever is ordered meanwhile.

mod model;
mod weights;

use std::sync::atomic::{AtomicBool, Ordering};

use weft_bgp::attribute::{Attributes, ExtendedCommunity};
use weft_bgp::constrain::Targets;
use weft_bgp::peer::RouterId;
use weft_bgp::update_group::journal::Read;
use weft_bgp::update_group::{Audience, Concerns, Frame};

use super::*;

const FAMILY: Family = Family::L2VPN_EVPN;
const PEER: PeerId = PeerId {
    router_id: RouterId(0xc000_0201),
    asn: 64_496,
};

fn segment(revision: u64, text: &'static str) -> Arc<Segment> {
    segment_of(revision, &[(text, Concerns::All)])
}

fn segment_of(revision: u64, frames: &[(&'static str, Concerns)]) -> Arc<Segment> {
    let frame = |(text, concerns): &(&'static str, Concerns)| Frame {
        octets: Bytes::from_static(text.as_bytes()),
        audience: Audience::All,
        concerns: concerns.clone(),
        routes: 1,
        withdrawals: 0,
    };
    Arc::new(Segment {
        revision,
        octets_len: frames.iter().map(|(text, _)| text.len()).sum(),
        frames: frames.iter().map(frame).collect(),
    })
}

fn target(number: u32) -> ExtendedCommunity {
    ExtendedCommunity::route_target_as2(64_496, number)
}

fn targets(number: u32) -> Targets {
    Targets::of(&Attributes {
        ext_communities: vec![target(number)],
        ..Attributes::default()
    })
}

fn wanting(number: u32) -> Concerns {
    Concerns::Wanting(targets(number))
}

fn interest(number: u32) -> Interest {
    Interest::of_exports([target(number)])
}

fn stream(feed: &Arc<Feed>, image: Arc<Segment>) -> Stream {
    Stream {
        family: FAMILY,
        peer: PEER,
        interest: Interest::Everything,
        saved: Arc::default(),
        gate: Arc::default(),
        preface: None,
        own: None,
        image,
        feed: Arc::clone(feed),
        cursor: feed.end(),
        end_of_rib: None,
    }
}

fn begun(stream: Stream) -> Writer {
    let mut writer = Writer {
        control: VecDeque::new(),
        streams: Vec::new(),
        closing: false,
    };
    writer.take(Order::Begin(Box::new(stream)));
    writer
}

fn written(writer: &mut Writer) -> Vec<Bytes> {
    let mut chunk = Chunk::default();
    assert!(writer.fill(&mut chunk, Instant::now).is_none());
    chunk.octets
}

fn feed() -> Arc<Feed> {
    Arc::new(Feed::new(1 << 16))
}

fn again(image: Arc<Segment>, (cursor, complete): (Cursor, Cursor), marked: bool) -> Order {
    let mark = Bytes::from_static;
    let repeat = Repeat {
        preface: marked.then(|| mark(b"preface")),
        image,
        cursor,
        complete,
        marks: marked.then(|| (mark(b"BoRR"), mark(b"EoRR"))),
        ticket: Ticket::default(),
    };
    Order::Again(FAMILY, Box::new(repeat))
}

fn turn(until: Cursor, segment: Arc<Segment>, feed: &Arc<Feed>, interest: Interest) -> Order {
    let turning = Turning {
        until,
        segment,
        feed: Arc::clone(feed),
        cursor: feed.end(),
        interest,
        ticket: Ticket::default(),
    };
    Order::Turn(FAMILY, Box::new(turning), Arc::<Gate>::default().hold())
}

/// A writer on a feed, and the gate of its stream.
fn gated(feed: &Arc<Feed>) -> (Writer, Arc<Gate>) {
    let stream = stream(feed, segment(1, "image"));
    let gate = Arc::clone(&stream.gate);
    (begun(stream), gate)
}

/// The first bell is waited for in another way than the rest.
#[tokio::test(start_paused = true)]
async fn each_journal_and_each_order_wakes_the_writer() {
    let families = [FAMILY, Family::IPV4_UNICAST, Family::IPV6_UNICAST];
    let feeds = families.map(|_| feed());
    let mut writer = begun(stream(&feeds[0], segment(1, "image")));
    for (family, feed) in families.into_iter().zip(&feeds).skip(1) {
        let stream = stream(feed, segment(1, "image"));
        writer.take(Order::Begin(Box::new(Stream { family, ..stream })));
    }
    assert_eq!(written(&mut writer), ["image", "image", "image"]);
    let (orders, mut inbox) = mpsc::channel(1);
    for (revision, feed) in (2..).zip(feeds.iter().chain(feeds.iter().rev())) {
        let idle = tokio::time::timeout(Duration::from_secs(3600), writer.wait(&mut inbox));
        assert!(idle.await.is_err(), "there was nothing");
        feed.push(segment(revision, "news"));
        assert!(matches!(writer.wait(&mut inbox).await, Some(None)));
        assert_eq!(written(&mut writer), ["news"]);
    }
    orders.send(Order::Close).await.unwrap();
    let ordered = writer.wait(&mut inbox).await;
    assert!(matches!(ordered, Some(Some(Order::Close))));
    drop(orders);
    assert!(writer.wait(&mut inbox).await.is_none());
}

#[test]
fn a_refresh_repeats_what_came_after_its_image() {
    let feed = feed();
    let image = segment(1, "image");
    let cursor = feed.end();
    let mut writer = begun(stream(&feed, Arc::clone(&image)));
    feed.push(segment(2, "withdrawal"));
    assert_eq!(written(&mut writer), ["image", "withdrawal"]);
    writer.take(again(image, (cursor, cursor), false));
    assert_eq!(written(&mut writer), ["image", "withdrawal"]);
}

#[test]
fn a_refresh_skips_nothing_that_was_not_written() {
    let feed = feed();
    let mut writer = begun(stream(&feed, segment(1, "image")));
    assert_eq!(written(&mut writer), ["image"]);
    feed.push(segment(2, "withdrawal"));
    let end = feed.end();
    writer.take(again(segment(2, "newer image"), (end, end), false));
    assert_eq!(written(&mut writer), ["newer image", "withdrawal"]);
}

/// RFC 7313 §4: EoRR makes the peer drop what was not repeated, so all that was written is repeated before.
#[test]
fn a_marked_refresh_ends_when_all_was_repeated() {
    let feed = feed();
    let (image, cursor) = (segment(1, "image"), feed.end());
    let preface = Bytes::from_static(b"preface");
    let mut writer = begun(Stream {
        preface: Some(preface),
        ..stream(&feed, Arc::clone(&image))
    });
    feed.push(segment(2, "change"));
    assert_eq!(written(&mut writer), ["preface", "image", "change"]);
    writer.take(again(image, (cursor, feed.end()), true));
    feed.push(segment(3, "news"));
    let expected = ["BoRR", "preface", "image", "change", "EoRR", "news"];
    assert_eq!(written(&mut writer), expected);
}

/// An image withdraws nothing: told one after the other, they would never come to what is gone.
#[test]
fn who_asks_without_end_hears_all_the_same_what_is_gone() {
    let feed = feed();
    let mut active = Active::new(stream(&feed, segment(1, "image")));
    let mut said = Vec::new();
    for asked in 0..8 {
        if asked == 2 {
            feed.push(segment(2, "gone"));
        }
        let at = (feed.end(), feed.end());
        let Order::Again(_, repeat) = again(segment(1, "again"), at, false) else {
            unreachable!("it is a refresh");
        };
        active.repeat(*repeat);
        // One frame at a time: it reads slowly.
        let trouble = active.fill(&mut said, &mut 1, Instant::now);
        assert_eq!(trouble, None);
    }
    let expected = ["image", "again", "again", "gone", "again", "again"];
    assert_eq!(said[..6], expected);
}

#[test]
fn no_refresh_begins_before_end_of_rib() {
    let feed = feed();
    let (image, first) = (segment(1, "image"), feed.end());
    feed.push(segment(2, "known at the join"));
    let mut writer = begun(Stream {
        cursor: first,
        end_of_rib: Some((feed.end(), Bytes::from_static(b"end"))),
        ..stream(&feed, Arc::clone(&image))
    });
    writer.take(again(image, (first, feed.end()), true));
    let table = ["image", "known at the join"];
    let refresh = ["end", "BoRR", "preface"];
    let expected = [&table[..], &refresh, &table, &["EoRR"]].concat();
    assert_eq!(written(&mut writer), expected);
}

#[test]
fn end_of_rib_waits_for_what_there_was_at_the_join() {
    let feed = feed();
    let first = feed.end();
    feed.push(segment(2, "known at the join"));
    let mut writer = begun(Stream {
        cursor: first,
        end_of_rib: Some((feed.end(), Bytes::from_static(b"end"))),
        ..stream(&feed, segment(1, "older image"))
    });
    feed.push(segment(3, "news"));
    let expected = ["older image", "known at the join", "end", "news"];
    assert_eq!(written(&mut writer), expected);
}

#[test]
fn what_is_not_wanted_is_counted_and_not_written() {
    let feed = feed();
    let frames = [
        ("one", wanting(1)),
        ("two", wanting(2)),
        ("all", Concerns::All),
    ];
    let stream = Stream {
        interest: interest(2),
        ..stream(&feed, segment_of(1, &frames))
    };
    let saved = Arc::clone(&stream.saved);
    assert_eq!(written(&mut begun(stream)), ["two", "all"]);
    assert_eq!(saved.totals(), (1, 3));
}

#[test]
fn a_turn_comes_between_the_old_life_and_the_new_one() {
    let (old, new) = (feed(), feed());
    let mut writer = begun(stream(&old, segment(1, "image")));
    old.push(segment(2, "old"));
    let until = old.end();
    let order = turn(until, segment(2, "turn"), &new, interest(2));
    old.push(segment(3, "not for it"));
    new.push(segment_of(3, &[("one", wanting(1)), ("two", wanting(2))]));
    writer.take(order);
    assert_eq!(written(&mut writer), ["image", "old", "turn", "two"]);
    old.push(segment(4, "not for it"));
    new.push(segment(4, "new"));
    assert_eq!(written(&mut writer), ["new"]);
}

#[test]
fn what_comes_while_a_turn_is_on_its_way_waits_for_it() {
    let (old, new) = (feed(), feed());
    let (mut writer, gate) = gated(&old);
    old.push(segment(2, "old"));
    assert_eq!(written(&mut writer), ["image", "old"]);
    // The reflector answers, and goes on before the writer hears of it.
    let held = gate.hold();
    let order = turn(old.end(), segment(2, "turn"), &new, Interest::Everything);
    let Order::Turn(family, turning, _) = order else {
        panic!("a turn is ordered");
    };
    for revision in 3..9 {
        old.push(segment(revision, "not for it"));
        new.push(segment(revision, "new"));
        assert!(written(&mut writer).is_empty(), "held");
    }
    writer.take(Order::Turn(family, turning, held));
    let expected = ["turn", "new", "new", "new", "new", "new", "new"];
    assert_eq!(written(&mut writer), expected);
    new.push(segment(9, "news"));
    assert_eq!(written(&mut writer), ["news"], "not held any more");
}

#[test]
fn a_turn_that_was_taken_does_not_open_the_gate_for_the_next() {
    let (first, second) = (feed(), feed());
    let (mut writer, gate) = gated(&first);
    assert_eq!(written(&mut writer), ["image"]);
    let (held, next) = (gate.hold(), gate.hold());
    first.push(segment(2, "waits"));
    drop(held);
    assert!(written(&mut writer).is_empty());
    writer.take(turn(first.end(), segment(2, "turn"), &second, interest(1)));
    drop(next);
    assert_eq!(written(&mut writer), ["waits", "turn"]);
}

#[test]
fn a_turn_that_comes_to_nothing_loses_nothing() {
    let feed = feed();
    let (mut writer, gate) = gated(&feed);
    let held = gate.hold();
    feed.push(segment(2, "change"));
    assert_eq!(written(&mut writer), ["image"]);
    drop(held);
    assert_eq!(written(&mut writer), ["change"]);
}

/// And when it comes after all, nobody can say what the peer knows.
#[test]
fn nobody_waits_for_a_turn_for_ever() {
    let (old, new) = (feed(), feed());
    let (mut writer, gate) = gated(&old);
    assert_eq!(written(&mut writer), ["image"]);
    let _held = gate.hold();
    let order = turn(old.end(), segment(1, "turn"), &new, interest(1));
    old.push(segment(2, "change"));
    let (start, mut chunk) = (Instant::now(), Chunk::default());
    assert!(writer.fill(&mut chunk, || start).is_none() && chunk.octets.is_empty());
    let late = start + HOLD_MAX;
    assert!(
        writer
            .fill(&mut chunk, || late - Duration::from_millis(1))
            .is_none()
    );
    assert!(chunk.octets.is_empty());
    assert!(writer.fill(&mut chunk, || late).is_none());
    assert_eq!(std::mem::take(&mut chunk.octets), ["change"]);
    writer.take(order);
    let event = writer.fill(&mut chunk, || late);
    assert!(matches!(event, Some(Event::Lost(FAMILY))), "{event:?}");
}

/// Who closes the gate is another thread than the writer's.
#[test]
fn a_writer_is_never_beyond_the_end_that_its_turn_saw() {
    let (feed, gate) = (Feed::new(1 << 22), Arc::<Gate>::default());
    let mut cursor = feed.end();
    let (asked, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let (reached, seen) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                match feed.read_through(&gate, &mut cursor) {
                    Some(Read::Segment(_) | Read::Empty) => {}
                    Some(Read::Lagged) => unreachable!("the journal keeps all of it"),
                    None if asked.swap(false, Ordering::SeqCst) => reached.send(cursor).unwrap(),
                    None => {}
                }
            }
        });
        for _ in 0..500 {
            (0..3).for_each(|_| feed.push(segment(1, "change")));
            let held = gate.hold();
            let until = feed.end();
            (0..3).for_each(|_| feed.push(segment(2, "the turn does not know of it")));
            asked.store(true, Ordering::SeqCst);
            let reached = seen.recv().unwrap();
            drop(held);
            if reached > until {
                done.store(true, Ordering::SeqCst);
            }
            assert!(reached <= until, "{reached:?} is beyond {until:?}");
        }
        done.store(true, Ordering::SeqCst);
    });
}

/// Until then, another one would only be one more table that waits.
#[test]
fn the_ticket_of_an_order_is_held_until_it_is_begun_with() {
    let (old, new) = (feed(), feed());
    let mut writer = begun(stream(&old, segment(1, "image")));
    let end = old.end();
    let Order::Again(family, repeat) = again(segment(1, "again"), (end, end), false) else {
        panic!("a refresh is ordered");
    };
    let refresh = Arc::downgrade(&repeat.ticket);
    writer.take(Order::Again(family, repeat));
    let order = turn(end, segment(1, "turn"), &new, Interest::Everything);
    let Order::Turn(family, turning, held) = order else {
        panic!("a turn is ordered");
    };
    let turned = Arc::downgrade(&turning.ticket);
    writer.take(Order::Turn(family, turning, held));
    let waits = || [&refresh, &turned].map(|ticket| ticket.strong_count() > 0);
    assert_eq!(waits(), [true, true]);
    let fill = |writer: &mut Writer| {
        let (mut octets, mut room) = (Vec::new(), 1);
        let trouble = writer.streams[0].fill(&mut octets, &mut room, Instant::now);
        assert!(trouble.is_none() && octets.len() == 1, "{octets:?}");
    };
    fill(&mut writer);
    assert_eq!(waits(), [true, true], "the image is written");
    fill(&mut writer);
    assert_eq!(waits(), [false, true]);
    fill(&mut writer);
    assert_eq!(waits(), [false, false]);
}

#[test]
fn turns_and_repeats_keep_their_order() {
    let (first, second, third) = (feed(), feed(), feed());
    let mut writer = begun(stream(&first, segment(1, "image")));
    let at = first.end();
    writer.take(again(segment(1, "first again"), (at, at), false));
    writer.take(turn(
        at,
        segment(1, "second"),
        &second,
        Interest::Everything,
    ));
    let at = second.end();
    writer.take(again(segment(1, "second again"), (at, at), true));
    second.push(segment(2, "change"));
    let at = second.end();
    writer.take(turn(at, segment(2, "third"), &third, Interest::Everything));
    third.push(segment(3, "news"));
    let expected = [
        "image",
        "first again",
        "second",
        "BoRR",
        "preface",
        "second again",
        "EoRR",
        "change",
        "third",
        "news",
    ];
    assert_eq!(written(&mut writer), expected);
}

#[test]
fn who_lags_with_a_turn_ahead_is_lost() {
    // The turn was there before the lag, came after it, or even the answer to the lag came.
    for (turn_is_late, caught_up) in [(false, false), (true, false), (true, true)] {
        let (old, new) = (Arc::new(Feed::new(1)), feed());
        let mut writer = begun(stream(&old, segment(1, "image")));
        assert_eq!(written(&mut writer), ["image"]);
        for revision in 2..9 {
            old.push(segment(revision, "much"));
        }
        let order = turn(old.end(), segment(9, "turn"), &new, interest(1));
        let mut chunk = Chunk::default();
        if turn_is_late {
            let event = writer.fill(&mut chunk, Instant::now);
            assert!(matches!(event, Some(Event::Lagged(FAMILY, 1))));
        }
        writer.take(order);
        if caught_up {
            // What changed since, as the peer is told after the turn.
            let behind = Stream {
                interest: interest(1),
                ..stream(&new, segment(9, "since"))
            };
            writer.take(Order::Begin(Box::new(behind)));
        }
        let event = writer.fill(&mut chunk, Instant::now);
        assert!(matches!(event, Some(Event::Lost(FAMILY))), "{event:?}");
        assert!(chunk.octets.is_empty());
    }
}
