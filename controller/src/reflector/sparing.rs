//! Lines of the log that say the same of many things: the first few in a while, and then how many more there
//! were. It refuses to know what they say and where they go.

use std::time::Duration;

/// What may be said of one kind of thing.
#[derive(Debug, Default)]
pub(crate) struct Sparing {
    /// When the while began, from any fixed moment.
    since: Option<Duration>,
    said: u32,
    unsaid: u64,
}

impl Sparing {
    /// Whether one more thing may be said at `now`; if not, it is counted.
    pub(crate) fn admit(&mut self, now: Duration) -> bool {
        let over = |since: Duration| now.saturating_sub(since) >= WHILE;
        // What is left is to be asked for before another while begins.
        if self.unsaid == 0 && self.since.is_none_or(over) {
            self.since = Some(now);
            self.said = 0;
        }
        if self.said < SAID_MAX {
            self.said += 1;
            return true;
        }
        self.unsaid += 1;
        false
    }

    /// How many were not said, once the while is over.
    pub(crate) fn rest(&mut self, now: Duration) -> Option<u64> {
        let since = self.since?;
        let over = self.unsaid > 0 && now.saturating_sub(since) >= WHILE;
        over.then(|| std::mem::take(&mut self.unsaid))
    }
}

/// Said of each kind in a while: as many as a person reads.
const SAID_MAX: u32 = 16;
/// The while: a loop moves every address behind it in less.
const WHILE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_sixteen_lines_and_one_in_ten_seconds() {
        let mut sparing = Sparing::default();
        let at = Duration::from_secs;
        let said =
            |sparing: &mut Sparing, now| (0..100_000).filter(|_| sparing.admit(at(now))).count();
        assert_eq!(sparing.rest(at(0)), None);
        assert_eq!(said(&mut sparing, 5), 16);
        assert_eq!((said(&mut sparing, 14), sparing.rest(at(14))), (0, None));
        assert_eq!(sparing.rest(at(15)), Some(199_984));
        assert_eq!((sparing.rest(at(15)), said(&mut sparing, 15)), (None, 16));
        assert_eq!(sparing.rest(at(60)), Some(99_984));
        // A few now and then are all said.
        let few = (7..70).filter(|it| sparing.admit(at(it * 10))).count();
        assert_eq!((few, sparing.rest(at(1_000))), (63, None));
    }
}
