//! Why a member has its weight, or why a link has none, in words that a network engineer can check by hand.
//!
//! It refuses to know names: what it says is printed beside the name of the link and of the switch behind it.

use std::fmt;

/// Why a member has its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The member's parts.
    pub weight: u32,
    /// All parts of the group.
    pub parts: u32,
    /// What this member can carry to the destination, in bits per second, rounded down.
    pub end_to_end_bps: u64,
    /// What the live links to the same next switch carry together, this one included.
    pub up_bps: u64,
    /// How many live links there are to the same next switch, this one included.
    pub up_links: usize,
    /// What is alive from the next switch to the destination.
    pub down_bps: u64,
    /// The same if every declared link were alive.
    pub down_declared_bps: u64,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.up_links > 1 {
            "its share of "
        } else {
            ""
        };
        write!(
            f,
            "{} of {} {}: {} end to end, {whose}the least of {} up",
            self.weight,
            self.parts,
            if self.parts == 1 { "part" } else { "parts" },
            Bps(self.end_to_end_bps),
            Bps(self.up_bps),
        )?;
        if self.up_links > 1 {
            write!(f, " over {} links", self.up_links)?;
        }
        write!(f, " and {} down", Bps(self.down_bps))?;
        if self.down_declared_bps > self.down_bps {
            write!(
                f,
                " ({} when all links are up)",
                Bps(self.down_declared_bps)
            )?;
        }
        Ok(())
    }
}

/// Why a first-hop link of the source has no part in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// The link itself is not alive.
    LinkDown,
    /// The switch behind it has no live way on to the destination.
    NoWayOn,
    /// Its share is less than one part.
    TooSmall {
        /// What it could carry, in bits per second, rounded down.
        end_to_end_bps: u64,
        /// The largest sum of parts allowed.
        parts_max: u32,
    },
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkDown => f.write_str("no part: the link is down"),
            Self::NoWayOn => {
                f.write_str("no part: the next switch has no live link towards the destination")
            }
            Self::TooSmall {
                end_to_end_bps,
                parts_max,
            } => write!(
                f,
                "no part: {} end to end is less than 1 of {parts_max} parts",
                Bps(*end_to_end_bps)
            ),
        }
    }
}

/// Bits per second, printed in the largest unit with at most one decimal, rounded down: `33.3 Gb/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bps(pub u64);

impl fmt::Display for Bps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = UNITS
            .into_iter()
            .find(|(unit, _)| self.0 >= *unit)
            .unwrap_or((1, "b/s"));
        let tenths = u128::from(self.0) * 10 / u128::from(unit);
        if tenths.is_multiple_of(10) {
            write!(f, "{} {name}", tenths / 10)
        } else {
            write!(f, "{}.{} {name}", tenths / 10, tenths % 10)
        }
    }
}

const UNITS: [(u64, &str); 4] = [
    (1_000_000_000_000, "Tb/s"),
    (1_000_000_000, "Gb/s"),
    (1_000_000, "Mb/s"),
    (1_000, "kb/s"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_per_second_read_like_a_port() {
        let text = |bps| Bps(bps).to_string();
        assert_eq!(text(0), "0 b/s");
        assert_eq!(text(999), "999 b/s");
        assert_eq!(text(10_000_000), "10 Mb/s");
        assert_eq!(text(33_333_333_333), "33.3 Gb/s");
        assert_eq!(text(400_000_000_000), "400 Gb/s");
        assert_eq!(text(1_600_000_000_000), "1.6 Tb/s");
    }

    #[test]
    fn a_reason_names_what_limits_a_parallel_link() {
        let reason = Reason {
            weight: 1,
            parts: 6,
            end_to_end_bps: 50_000_000_000,
            up_bps: 200_000_000_000,
            up_links: 2,
            down_bps: 100_000_000_000,
            down_declared_bps: 200_000_000_000,
        };
        assert_eq!(
            reason.to_string(),
            "1 of 6 parts: 50 Gb/s end to end, its share of the least of 200 Gb/s up over 2 links and 100 Gb/s down \
             (200 Gb/s when all links are up)"
        );
    }

    #[test]
    fn an_exclusion_says_why() {
        assert_eq!(Exclusion::LinkDown.to_string(), "no part: the link is down");
        assert_eq!(
            Exclusion::TooSmall {
                end_to_end_bps: 1_000_000_000,
                parts_max: 255
            }
            .to_string(),
            "no part: 1 Gb/s end to end is less than 1 of 255 parts"
        );
    }
}
