//! The per-peer header: whose routes, out of which of its RIBs, since when. It refuses to know what
//! follows it.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::net::{IpAddr, Ipv4Addr};

use bytes::BufMut;
use weft_bgp::peer::RouterId;
use weft_bgp::rd::Rd;

use crate::timestamp::Timestamp;

/// Which of several routing instances of this router a peer belongs to. RFC 7854 §4.2.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Instance {
    /// The only one, or the default one.
    #[default]
    Global,
    /// One with a route distinguisher.
    Distinguished(Rd),
    /// One with a number of its own on this router.
    Local(u64),
}

/// Who a message is about. Equal values are the same peer to a collector.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer {
    /// Where it is.
    pub instance: Instance,
    /// The peer's end of the connection; zero for Loc-RIB.
    pub address: IpAddr,
    /// Its AS number; for Loc-RIB, ours.
    pub asn: u32,
    /// Its BGP Identifier; for Loc-RIB, ours.
    pub router_id: RouterId,
}

/// Before or after policy.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Policy {
    /// As received, or before what is to be sent is filtered and changed.
    Pre,
    /// As it takes part in the decision, or as it is sent.
    Post,
}

/// Which of a peer's tables. RFC 7854 §5, RFC 8671 §4, RFC 9069 §4.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rib {
    /// What the peer announced.
    AdjRibIn(Policy),
    /// What the peer is told.
    AdjRibOut(Policy),
    /// What was selected; no peer's.
    LocRib {
        /// Not all of it is told.
        filtered: bool,
    },
}

/// The per-peer header of all messages but Initiation and Termination. RFC 7854 §4.2.
///
/// ```text
/// +- 1 -+- 1 -+------ 8 ------+------ 16 ------+- 4 -+-- 4 --+-- 4 --+-- 4 --+
/// |type |flags| distinguisher |    address     | AS  |  id   | secs  |micros |
/// +-----+-----+---------------+----------------+-----+-------+-------+-------+
/// flags: V 0x80 IPv6, L 0x40 post-policy, A 0x20 two-octet AS_PATH, O 0x10 Adj-RIB-Out
/// type 3: F 0x80 filtered, and no other
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerHeader {
    /// Which table.
    pub rib: Rib,
    /// Whose.
    pub peer: Peer,
    /// The UPDATE that follows has two-octet AS numbers in AS_PATH, as it was sent to or received from
    /// an old speaker. Never for Loc-RIB.
    pub two_octet_as: bool,
    /// When the routes were received, sent or selected.
    pub time: Timestamp,
}

impl Peer {
    /// The peer that stands for this router's Loc-RIB. RFC 9069 §4.1.
    #[must_use]
    pub fn loc_rib(instance: Instance, asn: u32, router_id: RouterId) -> Self {
        Self {
            instance,
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            asn,
            router_id,
        }
    }
}

impl PeerHeader {
    /// Octets of it.
    pub const LEN: usize = 42;

    pub(super) fn encode(&self, out: &mut impl BufMut) {
        out.put_u8(self.peer_type());
        out.put_u8(self.flags());
        match self.peer.instance {
            Instance::Global => out.put_u64(0),
            Instance::Distinguished(rd) => out.put_slice(&rd.0),
            Instance::Local(number) => out.put_u64(number),
        }
        match self.rib {
            // RFC 9069 §4.1: zero-filled, whatever stands there.
            Rib::LocRib { .. } => out.put_u128(0),
            Rib::AdjRibIn(_) | Rib::AdjRibOut(_) => address(out, self.peer.address),
        }
        out.put_u32(self.peer.asn);
        out.put_u32(self.peer.router_id.0);
        out.put_u32(self.time.secs);
        out.put_u32(self.time.micros);
    }

    fn peer_type(&self) -> u8 {
        match (self.rib, self.peer.instance) {
            (Rib::LocRib { .. }, _) => 3,
            (Rib::AdjRibIn(_) | Rib::AdjRibOut(_), Instance::Global) => 0,
            (Rib::AdjRibIn(_) | Rib::AdjRibOut(_), Instance::Distinguished(_)) => 1,
            (Rib::AdjRibIn(_) | Rib::AdjRibOut(_), Instance::Local(_)) => 2,
        }
    }

    fn flags(&self) -> u8 {
        let (policy, out) = match self.rib {
            Rib::LocRib { filtered } => return u8::from(filtered) << 7,
            Rib::AdjRibIn(policy) => (policy, false),
            Rib::AdjRibOut(policy) => (policy, true),
        };
        u8::from(self.peer.address.is_ipv6()) << 7
            | u8::from(policy == Policy::Post) << 6
            | u8::from(self.two_octet_as) << 5
            | u8::from(out) << 4
    }

    /// The header of a message about the session itself, which belongs to no table of the peer: RFC 8671
    /// §6.3 lets readers ignore O there, and L says nothing.
    pub(super) fn of_session(&self) -> Self {
        match self.rib {
            Rib::LocRib { .. } => *self,
            Rib::AdjRibIn(_) | Rib::AdjRibOut(_) => Self {
                rib: Rib::AdjRibIn(Policy::Pre),
                ..*self
            },
        }
    }
}

/// Sixteen octets; an IPv4 address is the last four.
pub(super) fn address(out: &mut impl BufMut, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            out.put_slice(&[0; 12]);
            out.put_slice(&address.octets());
        }
        IpAddr::V6(address) => out.put_slice(&address.octets()),
    }
}
