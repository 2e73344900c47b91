//! Address families: an (AFI, SAFI) pair and its name. Knows no NLRI layout.

use std::fmt;
use std::str::FromStr;

/// An address family and subsequent address family, as IANA numbers them. RFC 4760 §3.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Family {
    /// Address family identifier.
    pub afi: u16,
    /// Subsequent address family identifier.
    pub safi: u8,
}

impl Family {
    /// IPv4 unicast, the family of the classic fields of an UPDATE. RFC 4271 §4.3.
    pub const IPV4_UNICAST: Self = Self { afi: 1, safi: 1 };
    /// IPv6 unicast. RFC 2545.
    pub const IPV6_UNICAST: Self = Self { afi: 2, safi: 1 };
    /// Ethernet VPN. RFC 7432 §7.
    pub const L2VPN_EVPN: Self = Self { afi: 25, safi: 70 };
    /// Route target membership. RFC 4684 §4.
    pub const RTC: Self = Self { afi: 1, safi: 132 };

    const NAMES: [(Self, &'static str); 4] = [
        (Self::IPV4_UNICAST, "ipv4-unicast"),
        (Self::IPV6_UNICAST, "ipv6-unicast"),
        (Self::L2VPN_EVPN, "l2vpn-evpn"),
        (Self::RTC, "rtc"),
    ];

    /// Whether this is one of the four families that have a name here.
    #[must_use]
    pub fn is_known(self) -> bool {
        Self::NAMES.iter().any(|&(family, _)| family == self)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(family, _)| family == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "afi-{}-safi-{}", self.afi, self.safi),
        }
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text names no family.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct UnknownFamily;

impl fmt::Display for UnknownFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown address family")
    }
}

impl std::error::Error for UnknownFamily {}

impl FromStr for Family {
    type Err = UnknownFamily;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some((family, _)) = Self::NAMES.iter().find(|(_, name)| *name == text) {
            return Ok(*family);
        }
        let numbers = text.strip_prefix("afi-").ok_or(UnknownFamily)?;
        let (afi, safi) = numbers.split_once("-safi-").ok_or(UnknownFamily)?;
        Ok(Self {
            afi: afi.parse().map_err(|_| UnknownFamily)?,
            safi: safi.parse().map_err(|_| UnknownFamily)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_round_trip() {
        let other = Family {
            afi: 16388,
            safi: 71,
        };
        for family in [Family::IPV4_UNICAST, Family::L2VPN_EVPN, Family::RTC, other] {
            assert_eq!(family.to_string().parse(), Ok(family));
        }
        assert_eq!("ipv4".parse::<Family>(), Err(UnknownFamily));
    }
}
