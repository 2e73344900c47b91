//! A moment as BMP and MRT write it. It refuses to read the clock.

/// Time since 1970-01-01 00:00 UTC. RFC 7854 §4.2, RFC 6396 §3.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds. With all of [`Timestamp::micros`] zero it means "not known" in BMP.
    pub secs: u32,
    /// Microseconds beyond them, below a million.
    pub micros: u32,
}

impl Timestamp {
    /// When it is not known. RFC 7854 §4.2.
    pub const UNKNOWN: Self = Self { secs: 0, micros: 0 };

    /// So many microseconds after the epoch; what no field can hold is the last moment that fits, in
    /// the year 2106.
    #[must_use]
    pub fn from_micros(micros: u64) -> Self {
        const SECOND: u64 = 1_000_000;
        match u32::try_from(micros / SECOND) {
            Ok(secs) => Self {
                secs,
                micros: u32::try_from(micros % SECOND).expect("a remainder is below a million"),
            },
            Err(_) => Self {
                secs: u32::MAX,
                micros: 999_999,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_split() {
        let time = Timestamp::from_micros(1_700_000_000_000_007);
        assert_eq!((time.secs, time.micros), (1_700_000_000, 7));
        let end = Timestamp::from_micros(u64::MAX);
        assert_eq!((end.secs, end.micros), (u32::MAX, 999_999));
        assert_eq!(Timestamp::from_micros(0), Timestamp::UNKNOWN);
    }
}
