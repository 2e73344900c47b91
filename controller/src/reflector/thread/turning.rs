//! Turns that wait for the reflector's thread: which of them have one answer, and how long their members rest then.
//! Knows no table and no clock.

use std::time::Duration;

use super::{Turn, Turned, Way};

/// Turns that wait, and what turns have cost lately.
#[derive(Default)]
pub(super) struct Turning {
    waiting: Vec<Turn>,
    toll: Toll,
}

impl Turning {
    /// One more.
    pub(super) fn push(&mut self, turn: Turn) {
        self.waiting.push(turn);
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Answers the first, and with it all that go the same way: when a group is changed under churn, nothing that was
    /// worked out for one member would be good for the next a moment later. `now` is as of any fixed moment.
    pub(super) fn answer(
        &mut self,
        now: impl Fn() -> Duration,
        turned: impl FnOnce(Way) -> Option<Turned>,
    ) {
        self.waiting.retain(|turn| !turn.reply.is_closed());
        let Some(first) = self.waiting.first() else {
            return;
        };
        let way = first.way();
        let together = self.waiting.extract_if(.., |turn| turn.goes(&way));
        // Before the end of the members' feed is looked at: their writers stand still there or before.
        let held: Vec<_> = together
            .map(|turn| (turn.gate.hold(), turn.reply))
            .collect();
        let began = now();
        let turned = turned(way);
        let done = now();
        let rest = self.toll.pay(done - began, done);
        for (held, reply) in held {
            let turned = turned.clone().map(|turned| Turned { rest, ..turned });
            let _ = reply.send(turned.map(|turned| (turned, held)));
        }
    }
}

impl Turn {
    fn way(&self) -> Way {
        (self.family, self.old.clone(), self.new.clone())
    }

    fn goes(&self, (family, old, new): &Way) -> bool {
        self.family == *family && self.old == *old && self.new == *new
    }
}

/// What turns have cost and was not paid back in time. Whoever has been quiet turns at once; whoever turned rests until all
/// is paid back, its own turn and those of others: however many never are quiet, they take a tenth of the thread.
#[derive(Default)]
struct Toll {
    owed: Duration,
    at: Duration,
}

impl Toll {
    /// A turn took so long. How long whoever turned is to rest.
    fn pay(&mut self, took: Duration, now: Duration) -> Duration {
        let passed = now - std::mem::replace(&mut self.at, now);
        self.owed = self.owed.saturating_sub(passed / COST) + took;
        (self.owed * COST).min(REST_MAX)
    }
}

/// As for images: a tenth of the thread's time at most.
const COST: u32 = super::IMAGE_COST;
/// Nobody waits longer for what it wants, however many do.
const REST_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::oneshot;
    use weft_bgp::capability::AddPathSet;
    use weft_bgp::constrain::Interest;
    use weft_bgp::family::Family;
    use weft_bgp::message::DecodeContext;
    use weft_bgp::table::PeerKind;
    use weft_bgp::update_group::{ExportKey, Segment};

    use super::*;
    use crate::speaker::feed::Feed;
    use crate::speaker::gate::{Gate, Held};

    type Answer = oneshot::Receiver<Option<(Turned, Held)>>;

    const CONTEXT: DecodeContext = DecodeContext {
        four_octet_as: true,
        ibgp: true,
        extended_message: false,
        add_path: AddPathSet::NONE,
    };

    fn turn(family: Family, interest: Interest) -> (Turn, Arc<Gate>, Answer) {
        let (reply, answer) = oneshot::channel();
        let (gate, key) = (
            Arc::<Gate>::default(),
            ExportKey::new(PeerKind::IbgpClient, &CONTEXT),
        );
        let drained = ExportKey {
            graceful_shutdown: true,
            ..key.clone()
        };
        let turn = Turn {
            family,
            old: (key, interest.clone()),
            new: (drained, interest),
            gate: Arc::clone(&gate),
            reply,
        };
        (turn, gate, answer)
    }

    fn turned() -> Turned {
        let feed = Arc::new(Feed::new(1));
        let segment = Segment {
            revision: 1,
            frames: Vec::new(),
            octets_len: 0,
        };
        Turned {
            until: feed.end(),
            segment: Arc::new(segment),
            cursor: feed.end(),
            feed,
            rest: Duration::ZERO,
        }
    }

    #[test]
    fn members_that_go_the_same_way_have_one_answer() {
        let mut turning = Turning::default();
        let (evpn, nothing) = (Family::L2VPN_EVPN, || Interest::of_memberships([]));
        let mut add = |family, interest| {
            let (turn, gate, answer) = turn(family, interest);
            turning.push(turn);
            (gate, answer)
        };
        let same: Vec<_> = (0..3).map(|_| add(evpn, Interest::Everything)).collect();
        let mut others = vec![add(evpn, nothing()), add(Family::RTC, nothing())];
        drop(add(evpn, Interest::Everything)); // nobody waits for that one any more
        let last = add(evpn, Interest::Everything);
        let same: Vec<_> = same.into_iter().chain([last]).collect();

        let gates: Vec<_> = same.iter().map(|(gate, _)| Arc::clone(gate)).collect();
        let clock = || Duration::ZERO;
        turning.answer(clock, |_| {
            assert!(gates.iter().all(|gate| gate.is_held()));
            Some(turned())
        });
        let segment = |(gate, mut answer): (Arc<Gate>, Answer)| {
            let (turned, held) = answer.try_recv().unwrap().unwrap();
            assert!(gate.is_held());
            drop(held);
            assert!(!gate.is_held());
            turned.segment
        };
        let segments: Vec<_> = same.into_iter().map(segment).collect();
        assert_eq!(segments.len(), 4);
        assert!(segments.iter().all(|it| Arc::ptr_eq(it, &segments[0])));
        for (gate, answer) in &mut others {
            assert!(!gate.is_held() && answer.try_recv().is_err());
        }
        turning.answer(clock, |_| Some(turned()));
        turning.answer(clock, |_| None);
        assert!(turning.is_empty());
        let (gate, mut answer) = others.remove(1);
        assert!(answer.try_recv().unwrap().is_none() && !gate.is_held());
        assert!(!Arc::ptr_eq(&segment(others.remove(0)), &segments[0]));
        turning.answer(clock, |_| unreachable!("nobody waits"));
    }

    #[test]
    fn however_many_turn_they_take_a_tenth_of_the_time() {
        let took = Duration::from_millis(80);
        for members in [1_u32, 10, 30] {
            let mut toll = Toll::default();
            let mut next = vec![Duration::ZERO; members as usize];
            let (mut turns, mut now) = (0, Duration::ZERO);
            while now < Duration::from_secs(600) {
                let first = next.iter_mut().min().unwrap();
                now = now.max(*first) + took;
                *first = now + toll.pay(took, now);
                turns += 1;
            }
            let spent = took * turns;
            let bound = Duration::from_secs(60) + took * 2 * members;
            assert!(spent <= bound, "{members} members: {spent:?}");
            assert!(
                spent > Duration::from_secs(50),
                "{members} members: {spent:?}"
            );
        }
    }

    #[test]
    fn who_was_quiet_owes_nothing_any_more() {
        let mut toll = Toll::default();
        let (took, second) = (Duration::from_millis(80), Duration::from_secs(1));
        assert_eq!(toll.pay(took, second), took * 10);
        assert_eq!(toll.pay(took, second), took * 20);
        assert_eq!(toll.pay(took, 3 * second), took * 10);
        let rest = toll.pay(1000 * second, 4 * second);
        assert_eq!(rest, REST_MAX);
    }
}
