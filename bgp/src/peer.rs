//! Who a BGP speaker is: router id, cluster id, and the two together with the AS. Knows no address
//! and no connection: a speaker that re-homes stays the same peer.

use std::fmt;
use std::net::{AddrParseError, Ipv4Addr};
use std::str::FromStr;

/// BGP Identifier: four octets, not zero, unique within an AS. RFC 4271 §4.2, RFC 6286 §2.1.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RouterId(pub u32);

/// Identifier of a reflection cluster. RFC 4456 §7.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ClusterId(pub u32);

/// Identity of a peer: what it calls itself, in which AS. Addresses and sessions come and go.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId {
    /// BGP Identifier of its OPEN.
    pub router_id: RouterId,
    /// Its AS number, four octets.
    pub asn: u32,
}

impl fmt::Display for RouterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Ipv4Addr::from(self.0), f)
    }
}

impl fmt::Debug for RouterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for RouterId {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<Ipv4Addr>().map(Self::from)
    }
}

impl From<Ipv4Addr> for RouterId {
    fn from(address: Ipv4Addr) -> Self {
        Self(address.into())
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Ipv4Addr::from(self.0), f)
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ClusterId {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<Ipv4Addr>().map(Self::from)
    }
}

impl From<Ipv4Addr> for ClusterId {
    fn from(address: Ipv4Addr) -> Self {
        Self(address.into())
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} AS {}", self.router_id, self.asn)
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_shown_with_its_as() {
        let router_id: RouterId = "192.0.2.1".parse().unwrap();
        let peer = PeerId {
            router_id,
            asn: 64_496,
        };
        assert_eq!(peer.to_string(), "192.0.2.1 AS 64496");
    }
}
