//! At which intervals both ends run: what we offer, what is in force, and the poll sequence between the
//! two. RFC 5880 §6.5, §6.8.3. It refuses to know states, packets and what time it is.

use std::num::NonZeroU8;
use std::time::{Duration, Instant};

/// Our half of the timers. The other end's is in what it last said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// "Desired min TX" in our packets.
    pub(super) offered_transmit: Duration,
    /// "Required min RX" in our packets.
    pub(super) offered_receive: Duration,
    /// What we go by until the other end has seen the offer.
    pub(super) transmit: Duration,
    /// As `transmit`.
    pub(super) receive: Duration,
    poll: Poll,
}

/// RFC 5880 §6.5: at most one sequence at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Poll {
    Silent,
    /// Until a packet with the final bit.
    Asking,
    /// The offer changed after a poll was out, so its answer may be to the older one.
    AskingAgain,
}

impl Pace {
    pub(super) fn new(transmit: Duration, receive: Duration) -> Self {
        Self {
            offered_transmit: transmit,
            offered_receive: receive,
            transmit,
            receive,
            poll: Poll::Silent,
        }
    }

    /// Offers intervals. What makes either end slower holds only when the other has confirmed it, if both
    /// are Up: we do not send less often, and do not expect more often, before. RFC 5880 §6.8.3.
    pub(super) fn offer(&mut self, transmit: Duration, receive: Duration, up: bool, heard: bool) {
        let changed = transmit != self.offered_transmit || receive != self.offered_receive;
        self.offered_transmit = transmit;
        self.offered_receive = receive;
        if !up || transmit < self.transmit {
            self.transmit = transmit;
        }
        if !up || receive > self.receive {
            self.receive = receive;
        }
        if changed && heard {
            self.poll = match self.poll {
                Poll::Silent => Poll::Asking,
                Poll::Asking | Poll::AskingAgain => Poll::AskingAgain,
            };
        }
    }

    /// The final bit came.
    pub(super) fn settle(&mut self) {
        match self.poll {
            Poll::Silent => {}
            Poll::Asking => {
                self.poll = Poll::Silent;
                self.transmit = self.offered_transmit;
                self.receive = self.offered_receive;
            }
            Poll::AskingAgain => self.poll = Poll::Asking,
        }
    }

    /// Nobody is there who could answer.
    pub(super) fn forget(&mut self) {
        self.poll = Poll::Silent;
    }

    pub(super) fn is_polling(&self) -> bool {
        self.poll != Poll::Silent
    }
}

/// The last periodic packet, from which the next one is counted. So a new interval holds at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Periodic {
    last: Instant,
    jitter: Part,
}

/// Draws what part of an interval passes before the next packet, so that many sessions do not send
/// together. RFC 5880 §6.8.7.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

/// Of an interval, in `STEPS`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part(u32);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Three quarters to the whole; at most nine tenths if not one packet may be missing.
    pub(super) fn draw(&mut self, multiplier: NonZeroU8) -> Part {
        let most = if multiplier == NonZeroU8::MIN {
            STEPS / 10 * 9
        } else {
            STEPS
        };
        let least = STEPS / 4 * 3;
        let spread = u64::from(most - least + 1);
        let drawn = u32::try_from(self.next() % spread).expect("below STEPS");
        Part(least + drawn)
    }

    /// SplitMix64 (Steele, Lea, Flood, 2014): enough to spread timers, and reproducible from the seed.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Periodic {
    /// The first is due now.
    pub(super) fn due(now: Instant) -> Self {
        Self::sent(now, Part(0))
    }

    pub(super) fn sent(now: Instant, jitter: Part) -> Self {
        Self { last: now, jitter }
    }

    pub(super) fn next_at(self, interval: Duration) -> Instant {
        self.last + self.jitter.of(interval)
    }
}

impl Part {
    fn of(self, interval: Duration) -> Duration {
        interval * self.0 / STEPS
    }
}

const STEPS: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_millis(300);
    const SLOW: Duration = Duration::from_secs(1);

    #[test]
    fn slower_holds_when_confirmed_and_faster_at_once() {
        let mut pace = Pace::new(FAST, FAST);
        pace.offer(SLOW, SLOW, true, true);
        assert!(pace.is_polling());
        assert_eq!((pace.transmit, pace.receive), (FAST, SLOW));
        pace.settle();
        assert!(!pace.is_polling());
        assert_eq!((pace.transmit, pace.receive), (SLOW, SLOW));
        pace.offer(FAST, FAST, true, true);
        assert_eq!((pace.transmit, pace.receive), (FAST, SLOW));
        pace.settle();
        assert_eq!((pace.transmit, pace.receive), (FAST, FAST));
    }

    #[test]
    fn an_answer_to_an_older_poll_settles_nothing() {
        let mut pace = Pace::new(FAST, FAST);
        pace.offer(SLOW, FAST, true, true);
        pace.offer(SLOW * 2, FAST, true, true);
        pace.settle();
        assert!(pace.is_polling());
        assert_eq!(pace.transmit, FAST);
        pace.settle();
        assert_eq!(pace.transmit, SLOW * 2);
    }

    #[test]
    fn while_not_up_the_offer_holds_at_once() {
        let mut pace = Pace::new(FAST, FAST);
        pace.offer(SLOW, FAST, false, false);
        assert_eq!(pace.transmit, SLOW);
        assert!(!pace.is_polling(), "nobody was heard");
    }

    #[test]
    fn jitter_takes_up_to_a_quarter_and_at_least_a_tenth_if_one_packet_counts() {
        let mut jitter = Jitter::new(7);
        let three = NonZeroU8::new(3).unwrap();
        let interval = Duration::from_secs(1);
        let mut drawn = |multiplier| {
            let all: Vec<_> = (0..2_000)
                .map(|_| jitter.draw(multiplier).of(interval))
                .collect();
            (*all.iter().min().unwrap(), *all.iter().max().unwrap())
        };
        let ms = Duration::from_millis;
        assert_eq!(drawn(three), (ms(750), ms(1_000)));
        assert_eq!(drawn(NonZeroU8::MIN), (ms(750), ms(900)));
    }
}
