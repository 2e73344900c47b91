//! An Ethernet segment identifier. Knows no route and no election.

use std::fmt;
use std::str::FromStr;

use crate::mac::{colons, pairs};

/// Ethernet segment identifier, ten octets as sent. RFC 7432 §5.
///
/// ```text
/// +-- 1 --+---- 9 ----+
/// | type  |   value   |
/// +-------+-----------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Esi(pub [u8; 10]);

impl Esi {
    /// A single-homed site. RFC 7432 §5.
    pub const ZERO: Self = Self([0; 10]);
    /// Reserved. RFC 7432 §5.
    pub const MAX: Self = Self([0xff; 10]);

    /// True for the identifier of a single-homed site.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Type of the identifier: 0 arbitrary, 1 LACP, 2 bridge, 3 MAC, 4 router id, 5 AS. RFC 7432 §5.
    #[must_use]
    pub fn esi_type(self) -> u8 {
        let [esi_type, ..] = self.0;
        esi_type
    }

    /// A number that the same identifier always has, and hardly ever another one; no MAC address has it.
    #[must_use]
    pub fn number(self) -> u64 {
        let [a, b, low @ ..] = self.0;
        let high = u64::from(u16::from_be_bytes([a, b])) << 48;
        (u64::from_be_bytes(low) ^ high) | 1 << 63
    }
}

/// `03:00:00:5e:00:53:01:00:00:01`, as FRR prints it.
impl fmt::Display for Esi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        colons(&self.0, f)
    }
}

impl fmt::Debug for Esi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Esi {
    type Err = EsiSyntax;

    fn from_str(text: &str) -> Result<Self, EsiSyntax> {
        pairs(text).map(Self).ok_or(EsiSyntax)
    }
}

/// Not ten pairs of hexadecimal digits with colons or hyphens between them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EsiSyntax;

impl fmt::Display for EsiSyntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an Ethernet segment identifier")
    }
}

impl std::error::Error for EsiSyntax {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_esi_reads_what_it_writes() {
        let text = "01:00:00:5e:00:53:01:12:34:00";
        let esi: Esi = text.parse().unwrap();
        assert_eq!(esi.to_string(), text);
        assert_eq!(esi.esi_type(), 1);
        assert_eq!("01:00".parse::<Esi>(), Err(EsiSyntax));
    }
}
