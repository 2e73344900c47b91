//! Faults in words, for the log: noun phrases in lower case. Knows no treatment.

use std::fmt;
use std::net::Ipv4Addr;

use crate::attribute::row::Row;
use crate::error::{DecodeError, Fault, Rule};

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |code: u8| Row::of(code).map_or("unknown attribute", |row| row.name);
        match self {
            Self::Marker => f.write_str("marker not all ones"),
            Self::MessageLength { length } => write!(f, "bad message length {length}"),
            Self::MessageType { code } => write!(f, "bad message type {code}"),
            Self::OpenMalformed => f.write_str("malformed optional parameters"),
            Self::Version { version } => write!(f, "unsupported version {version}"),
            Self::PeerAs { asn } => write!(f, "bad peer AS {asn}"),
            Self::RouterId { router_id } => {
                write!(f, "bad BGP identifier {}", Ipv4Addr::from(*router_id))
            }
            Self::OptionalParameter { code } => write!(f, "unsupported optional parameter {code}"),
            Self::HoldTime { secs } => write!(f, "unacceptable hold time {secs} s"),
            Self::CapabilityMissing { family } => write!(f, "no capability for {family}"),
            Self::UpdateLength => f.write_str("field lengths beyond the message"),
            Self::AttributeList => f.write_str("attributes that do not fill their length"),
            Self::NlriNotLocatable => f.write_str("faulty attributes without reachable NLRI"),
            Self::MultiProtocolTwice { code } | Self::AttributeTwice { code } => {
                write!(f, "second {}", name(*code))
            }
            Self::AttributeUnknown { code } => write!(f, "unknown well-known attribute {code}"),
            Self::AttributeMissing { code } => write!(f, "missing {}", name(*code)),
            Self::AttributeFlags { code, flags } => {
                write!(f, "flags {flags:#04x} of {}", name(*code))
            }
            Self::AttributeLength { code, length } => {
                write!(f, "length {length} of {}", name(*code))
            }
            Self::AttributeValue { code } => write!(f, "malformed {}", name(*code)),
            Self::AttributeUnexpected { code } => write!(f, "unexpected {}", name(*code)),
            Self::AttributesTooLong => f.write_str("too many attribute octets"),
            Self::Origin { value } => write!(f, "ORIGIN {value}"),
            Self::AsPath => f.write_str("malformed AS_PATH"),
            Self::AsPathZero => f.write_str("AS 0 in AS_PATH"),
            Self::AsPathTooLong => f.write_str("AS_PATH too long"),
            Self::AsSet => f.write_str("AS_SET in AS_PATH"),
            Self::NextHop => f.write_str("next hop that is no host"),
            Self::LinkLocalNextHop => f.write_str("link-local next hop without a global one"),
            Self::NextHopLength { length } => write!(f, "next hop length {length}"),
            Self::FamilyUnknown { family } => write!(f, "routes of {family}"),
            Self::Network => f.write_str("malformed prefix"),
            Self::NlriFraming => f.write_str("NLRI length beyond its field"),
            Self::NlriType { route_type } => write!(f, "unknown route type {route_type}"),
            Self::NlriLength { route_type, length } => {
                write!(f, "length {length} of route type {route_type}")
            }
            Self::NlriValue { route_type, what } => write!(f, "{what} in route type {route_type}"),
            Self::RouteRefreshLength => f.write_str("bad ROUTE-REFRESH length"),
            Self::HoldTimerExpired => f.write_str("hold timer expired"),
            Self::SendHoldTimerExpired => f.write_str("send hold timer expired"),
            Self::Unexpected { state, kind } => write!(f, "unexpected {kind} in {state:?}"),
            Self::Cease(cease) => write!(f, "cease: {cease}"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RFC {} §{}", self.rfc, self.section)
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at octet {} ({})",
            self.fault,
            self.offset,
            self.fault.rule()
        )
    }
}

impl std::error::Error for DecodeError {}
