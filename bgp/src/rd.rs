//! Route distinguishers: eight octets, and how they are written. Knows no route.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// Makes equal prefixes of different tenants different. Carried unchanged. RFC 4364 §4.2.
///
/// ```text
/// type 0: |  0  | AS (2) | number (4)  |
/// type 1: |  1  | IPv4 (4) | number (2) |
/// type 2: |  2  | AS (4) | number (2)  |
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Rd(pub [u8; 8]);

impl Rd {
    /// Type 0.
    #[must_use]
    pub fn from_as2(asn: u16, number: u32) -> Self {
        let ([a, b], [c, d, e, f]) = (asn.to_be_bytes(), number.to_be_bytes());
        Self([0, 0, a, b, c, d, e, f])
    }

    /// Type 1.
    #[must_use]
    pub fn from_ipv4(address: Ipv4Addr, number: u16) -> Self {
        let ([a, b, c, d], [e, f]) = (address.octets(), number.to_be_bytes());
        Self([0, 1, a, b, c, d, e, f])
    }

    /// Type 2.
    #[must_use]
    pub fn from_as4(asn: u32, number: u16) -> Self {
        let ([a, b, c, d], [e, f]) = (asn.to_be_bytes(), number.to_be_bytes());
        Self([0, 2, a, b, c, d, e, f])
    }
}

/// "65000:1" for types 0 and 2, "192.0.2.1:1" for type 1, hexadecimal octets for others.
impl fmt::Display for Rd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [high, kind, a, b, c, d, e, g] = self.0;
        match (high, kind) {
            (0, 0) => {
                write!(
                    f,
                    "{}:{}",
                    u16::from_be_bytes([a, b]),
                    u32::from_be_bytes([c, d, e, g])
                )
            }
            (0, 1) => write!(
                f,
                "{}:{}",
                Ipv4Addr::new(a, b, c, d),
                u16::from_be_bytes([e, g])
            ),
            (0, 2) => {
                write!(
                    f,
                    "{}:{}",
                    u32::from_be_bytes([a, b, c, d]),
                    u16::from_be_bytes([e, g])
                )
            }
            _ => write!(f, "0x{:016x}", u64::from_be_bytes(self.0)),
        }
    }
}

impl fmt::Debug for Rd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is no route distinguisher.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RdParseError;

impl fmt::Display for RdParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bad route distinguisher")
    }
}

impl std::error::Error for RdParseError {}

/// A two-octet AS gives type 0, a larger one type 2, an address type 1.
impl FromStr for Rd {
    type Err = RdParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(octets) = text.strip_prefix("0x") {
            let octets = u64::from_str_radix(octets, 16).map_err(|_| RdParseError)?;
            return Ok(Self(octets.to_be_bytes()));
        }
        let (administrator, number) = text.split_once(':').ok_or(RdParseError)?;
        let small = || number.parse::<u16>().map_err(|_| RdParseError);
        if let Ok(address) = administrator.parse::<Ipv4Addr>() {
            return Ok(Self::from_ipv4(address, small()?));
        }
        let asn = administrator.parse::<u32>().map_err(|_| RdParseError)?;
        match u16::try_from(asn) {
            Ok(asn) => Ok(Self::from_as2(
                asn,
                number.parse().map_err(|_| RdParseError)?,
            )),
            Err(_) => Ok(Self::from_as4(asn, small()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_types_survive_a_round_trip_through_text() {
        for text in [
            "64496:70000",
            "192.0.2.1:2",
            "4200000000:7",
            "0x0009000000000001",
        ] {
            assert_eq!(text.parse::<Rd>().unwrap().to_string(), text);
        }
        for text in ["", "1", "192.0.2.1:65536", "x:1", "4200000000:65536"] {
            assert_eq!(text.parse::<Rd>(), Err(RdParseError));
        }
    }
}
