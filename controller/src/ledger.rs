//! What every fact in the store means: the one place that knows the octets of keys and values.
//! Knows nothing of how facts come about or what follows from them.
//!
//! ```text
//! key                                              value
//! r afi(2) safi(1) router-id(4) as(4) path         a path as a peer announced it: see value
//! o router-id(4) as(4)                             who commits that peer's paths, and its epoch
//! s replica(8) router-id(4) as(4)                  a replica holds an established session to it
//! t                                                the declared fabric as such: see [`Head`]
//! t g slot(8)                                      an ApplyFabric of several batches writes into this slot
//! t g slot(8) kind(1) name                         a switch, a host, a link or a host port: declared if the slot is in force
//! t e kind(1) name                                 a call changed this resource since the last ApplyFabric
//! t j name                                         a job
//! j                                                how often jobs changed
//! p                                                how often pins changed
//! p job 0 source 0 destination                     the spines that a flow of a job goes over, by its host ports
//! q request-id(16)                                 a change of the fabric that was made: see [`Request`]
//! g generation(8)                                  the request that made this generation of the fabric
//! i                                                incarnation of the replicas
//! m vni(3) mac(6)                                  a MAC address that is frozen, and where
//! b name                                           what weft does with a leaf's routes; no name: with all others'
//! d name                                           what a link is derated by, from what was measured
//! w name                                           why weights carry a job
//! k name                                           percent of its uplinks that a leaf keeps free of pins
//! ```

mod balance;
mod declared;
mod freeze;
mod known;
mod measured;
mod path;
mod pin;
mod retention;
mod value;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{BufMut, Bytes, BytesMut};
use weft_bgp::family::Family;
use weft_bgp::peer::{PeerId, RouterId};
use weft_bgp::table::{PeerKind, Source, Stale};
use weft_evpn::moves::Place;
use weft_store::{Batch, Condition, Op};

use crate::fabric::fact::Kind;
use crate::fabric::pin::PinName;

pub use balance::{decode_mode, encode_mode};
pub use declared::{Head, Request, RequestId, decode_edit, encode_edit};
pub use freeze::{decode_holder, encode_holder};
pub use known::knows;
pub use measured::{decode_derating, decode_kept_free, decode_off_plan};
pub use measured::{encode_derating, encode_kept_free, encode_off_plan};
pub use path::{FAMILIES, read_path, write_path};
pub use pin::{decode_paths, encode_paths};
pub use retention::{Phase, Retention};
pub use value::{decode_path, encode_path, epoch_of, said_under, what_is_said};

/// What a key names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactKey<'a> {
    /// A path: family, announcing peer, and which of its paths to which NLRI: see [`read_path`].
    Route(Family, PeerId, &'a [u8]),
    /// The owner of a peer.
    Owner(PeerId),
    /// A replica's session to a peer.
    Session(u64, PeerId),
    /// The declared fabric as such.
    Head,
    /// A resource of the fabric, by its slot, kind and name.
    Declared(u64, Kind, &'a str),
    /// A slot that an ApplyFabric writes into.
    Stage(u64),
    /// A resource that a call changed since the last ApplyFabric.
    Edit(Kind, &'a str),
    /// A job.
    Job(&'a str),
    /// How often jobs changed: each change puts it too, on the condition that it is as it was.
    Jobs,
    /// How often pins changed, likewise.
    Pins,
    /// Where a flow goes.
    Pin(PinName),
    /// A change of the fabric that was made.
    Request(RequestId),
    /// The request that made a generation of the fabric.
    RequestAt(u64),
    /// Incarnation of the replicas.
    Incarnation,
    /// A MAC address that is frozen.
    Freeze(Place),
    /// The mode of a leaf; of all that have none of their own if the name is empty.
    Balance(&'a str),
    /// What the leader derated a link by.
    Derating(&'a str),
    /// Why weights carry a job that could be pinned.
    OffPlan(&'a str),
    /// What a leaf keeps free, for what no job declares.
    KeptFree(&'a str),
}

impl<'a> FactKey<'a> {
    /// Reads a key; `None` if no version of weft that this one knows wrote it.
    pub fn decode(key: &'a [u8]) -> Option<Self> {
        let (kind, rest) = key.split_first()?;
        match kind {
            b'r' => {
                let (family, rest) = rest.split_first_chunk::<3>()?;
                let (peer, nlri) = rest.split_first_chunk::<8>()?;
                let family = Family {
                    afi: u16::from_be_bytes([family[0], family[1]]),
                    safi: family[2],
                };
                Some(Self::Route(family, peer_from(peer), nlri))
            }
            b'o' => Some(Self::Owner(peer_from(rest.try_into().ok()?))),
            b's' => {
                let (replica, peer) = rest.split_first_chunk::<8>()?;
                Some(Self::Session(
                    u64::from_be_bytes(*replica),
                    peer_from(peer.try_into().ok()?),
                ))
            }
            b't' => declared::key_from(rest),
            b'j' if rest.is_empty() => Some(Self::Jobs),
            b'p' => pin::key_from(rest),
            b'q' => Some(Self::Request(RequestId(rest.try_into().ok()?))),
            b'g' => Some(Self::RequestAt(u64::from_be_bytes(rest.try_into().ok()?))),
            b'i' if rest.is_empty() => Some(Self::Incarnation),
            b'm' => freeze::place_from(rest).map(Self::Freeze),
            b'b' => std::str::from_utf8(rest).ok().map(Self::Balance),
            b'd' => std::str::from_utf8(rest).ok().map(Self::Derating),
            b'w' => std::str::from_utf8(rest).ok().map(Self::OffPlan),
            b'k' => std::str::from_utf8(rest).ok().map(Self::KeptFree),
            _ => None,
        }
    }

    /// Octets that the key takes at most.
    fn octets_max(&self) -> usize {
        match self {
            Self::Route(_, _, nlri) => ROUTE_PREFIX_LEN + nlri.len(),
            Self::Balance(name)
            | Self::Derating(name)
            | Self::OffPlan(name)
            | Self::KeptFree(name) => 1 + name.len(),
            Self::Declared(_, _, name) => SLOT_PREFIX_LEN + 1 + name.len(),
            Self::Edit(_, name) => 3 + name.len(),
            Self::Job(name) => 2 + name.len(),
            Self::Pin(name) => pin::key_len(name),
            _ => OTHERS_LEN_MAX,
        }
    }

    /// The octets of the key.
    pub fn encode(&self) -> Bytes {
        // Those of routes are held by the hundred thousand, and room to spare with them.
        let mut key = BytesMut::with_capacity(self.octets_max());
        match self {
            Self::Route(family, peer, nlri) => {
                key.put_u8(b'r');
                key.put_u16(family.afi);
                key.put_u8(family.safi);
                put_peer(&mut key, *peer);
                key.put_slice(nlri);
            }
            Self::Owner(peer) => {
                key.put_u8(b'o');
                put_peer(&mut key, *peer);
            }
            Self::Session(replica, peer) => {
                key.put_u8(b's');
                key.put_u64(*replica);
                put_peer(&mut key, *peer);
            }
            Self::Head => key.put_u8(b't'),
            Self::Declared(slot, kind, name) => declared::put_key(&mut key, *slot, *kind, name),
            Self::Stage(slot) => declared::put_slot(&mut key, *slot),
            Self::Edit(kind, name) => declared::put_edit(&mut key, *kind, name),
            Self::Job(name) => declared::put_job(&mut key, name),
            Self::Jobs => key.put_u8(b'j'),
            Self::Pins => key.put_u8(b'p'),
            Self::Pin(name) => {
                key.put_u8(b'p');
                pin::put_key(&mut key, name);
            }
            Self::Request(id) => {
                key.put_u8(b'q');
                key.put_slice(&id.0);
            }
            Self::RequestAt(generation) => {
                key.put_u8(b'g');
                key.put_u64(*generation);
            }
            Self::Incarnation => key.put_u8(b'i'),
            Self::Freeze(place) => {
                key.put_u8(b'm');
                freeze::put_place(&mut key, *place);
            }
            Self::Balance(leaf) => {
                key.put_u8(b'b');
                key.put_slice(leaf.as_bytes());
            }
            Self::Derating(link) => {
                key.put_u8(b'd');
                key.put_slice(link.as_bytes());
            }
            Self::OffPlan(job) => {
                key.put_u8(b'w');
                key.put_slice(job.as_bytes());
            }
            Self::KeptFree(leaf) => {
                key.put_u8(b'k');
                key.put_slice(leaf.as_bytes());
            }
        }
        key.freeze()
    }
}

/// What a deleted prefix covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactPrefix {
    /// Every path of a family that a peer announced.
    RoutesOfPeer(Family, PeerId),
    /// Every session of a replica.
    SessionsOfReplica(u64),
    /// The mode of every leaf, and that of all others.
    Balance,
    /// Every resource in a slot, and the mark of the ApplyFabric that writes into it.
    Slot(u64),
    /// Every edit.
    Edits,
}

impl FactPrefix {
    /// Reads a prefix; `None` if weft deletes no such prefix.
    pub fn decode(prefix: &[u8]) -> Option<Self> {
        match FactKey::decode(prefix) {
            Some(FactKey::Route(family, peer, [])) => Some(Self::RoutesOfPeer(family, peer)),
            Some(FactKey::Balance("")) => Some(Self::Balance),
            Some(FactKey::Stage(slot)) => Some(Self::Slot(slot)),
            _ if prefix == declared::EDITS => Some(Self::Edits),
            _ => {
                let (kind, replica) = prefix.split_first()?;
                let replica = u64::from_be_bytes(replica.try_into().ok()?);
                (*kind == b's').then_some(Self::SessionsOfReplica(replica))
            }
        }
    }

    /// The octets of the prefix.
    pub fn encode(&self) -> Bytes {
        match self {
            Self::RoutesOfPeer(family, peer) => FactKey::Route(*family, *peer, &[]).encode(),
            Self::SessionsOfReplica(replica) => {
                let mut prefix = BytesMut::with_capacity(9);
                prefix.put_u8(b's');
                prefix.put_u64(*replica);
                prefix.freeze()
            }
            Self::Balance => FactKey::Balance("").encode(),
            Self::Slot(slot) => FactKey::Stage(*slot).encode(),
            Self::Edits => Bytes::from_static(declared::EDITS),
        }
    }
}

/// Kind, family and peer.
const ROUTE_PREFIX_LEN: usize = 1 + 3 + 8;
/// Kind, part and slot of a resource.
const SLOT_PREFIX_LEN: usize = 2 + 8;
/// Of a session: kind, replica and peer.
const OTHERS_LEN_MAX: usize = 1 + 8 + 8;

/// Prefix of every session of every replica.
pub const SESSIONS: &[u8] = b"s";

/// Prefix of every owner record.
pub const OWNERS: &[u8] = b"o";

/// Who commits a peer's paths. The epoch grows with each claim; a batch under an older one is void.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Raft id of the owner.
    pub replica: u64,
    /// Grows by one with each claim.
    pub epoch: u64,
    /// Address of the session.
    pub address: IpAddr,
    /// How reflection treats the peer.
    pub kind: PeerKind,
    /// What was said before the peer's return from being long-lived stale is so still: every path that does not stand
    /// under this epoch or a later one. 0: nothing is. RFC 9494 §4.2.
    pub fresh_from: u64,
    /// The peer is back, and has not said everything again: how its paths were kept, of the families whose end it has
    /// not said. Seconds of [`Phase::LongLived`] are what was left at its return.
    pub returned: Option<Retention>,
    /// The last session ended, and this is how long its paths stay; `None` while the peer is served, and
    /// after the replicas that served it died.
    pub retention: Option<Retention>,
}

impl Owner {
    /// The octets of the fact: replica(8) epoch(8) kind(1) address-length(1) address(4 or 16); if the kind says so
    /// fresh-from(8) returned-length(1) returned; and the retention if there is one.
    pub fn encode(&self) -> Bytes {
        let mut value = BytesMut::with_capacity(64);
        value.put_u64(self.replica);
        value.put_u64(self.epoch);
        let kind = match self.kind {
            PeerKind::IbgpClient => 0,
            PeerKind::IbgpNonClient => 1,
            PeerKind::RouteServerClient => 2,
            PeerKind::Ebgp => 3,
        };
        let back = self.fresh_from > 0 || self.returned.is_some();
        value.put_u8(if back { kind | BACK } else { kind });
        match self.address {
            IpAddr::V4(address) => {
                value.put_u8(4);
                value.put_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                value.put_u8(16);
                value.put_slice(&address.octets());
            }
        }
        if back {
            value.put_u64(self.fresh_from);
            let mut returned = BytesMut::new();
            if let Some(retention) = &self.returned {
                retention.encode(&mut returned);
            }
            let len = u8::try_from(returned.len());
            value.put_u8(len.expect("there are few families"));
            value.put_slice(&returned);
        }
        if let Some(retention) = &self.retention {
            retention.encode(&mut value);
        }
        value.freeze()
    }

    /// Reads the fact.
    pub fn decode(value: &[u8]) -> Option<Self> {
        let (replica, rest) = value.split_first_chunk::<8>()?;
        let (epoch, rest) = rest.split_first_chunk::<8>()?;
        let ([kind, address_len], rest) = rest.split_first_chunk::<2>()?;
        let (address, rest) = rest.split_at_checked(usize::from(*address_len))?;
        let (fresh_from, returned, rest) = match kind & BACK {
            0 => (0, &[][..], rest),
            _ => {
                let (fresh_from, rest) = rest.split_first_chunk::<8>()?;
                let (len, rest) = rest.split_first()?;
                let (returned, rest) = rest.split_at_checked(usize::from(*len))?;
                (u64::from_be_bytes(*fresh_from), returned, rest)
            }
        };
        let kind = match kind & !BACK {
            0 => PeerKind::IbgpClient,
            1 => PeerKind::IbgpNonClient,
            2 => PeerKind::RouteServerClient,
            3 => PeerKind::Ebgp,
            _ => return None,
        };
        let address = match address.len() {
            4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(address).ok()?)),
            16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?)),
            _ => return None,
        };
        let retention = |octets: &[u8]| match octets {
            [] => Some(None),
            octets => Retention::decode(octets).map(Some),
        };
        let (returned, retention) = (retention(returned)?, retention(rest)?);
        Some(Self {
            replica: u64::from_be_bytes(*replica),
            epoch: u64::from_be_bytes(*epoch),
            address,
            kind,
            fresh_from,
            returned,
            retention,
        })
    }

    /// Whether all that stays of the peer is long-lived stale.
    pub fn is_long_lived_stale(&self) -> bool {
        let retention = self.retention.as_ref();
        retention.is_some_and(|retention| retention.phase == Phase::LongLived)
    }

    /// What the decision and reflection need to know of the peer, as far as it said its paths since it is back.
    pub fn source(&self, peer: PeerId) -> Source {
        let stale = match self.retention.as_ref().map(|retention| retention.phase) {
            None => Stale::No,
            Some(Phase::Graceful) => Stale::Graceful,
            Some(Phase::LongLived) => Stale::LongLived,
        };
        Source {
            stale,
            ..Source::new(peer, self.address, self.kind)
        }
    }
}

/// In an owner's kind: it says what the peer is back from.
const BACK: u8 = 0x80;

/// A batch that holds only while `owner` is the record of `peer`.
pub fn owned(peer: PeerId, owner: Option<&Owner>, ops: Vec<Op>) -> Batch {
    Batch {
        conditions: vec![owner_is(peer, owner)],
        ops,
    }
}

/// The condition that the record of `peer` is this one.
pub fn owner_is(peer: PeerId, owner: Option<&Owner>) -> Condition {
    Condition::Equals {
        key: FactKey::Owner(peer).encode(),
        value: owner.map(Owner::encode),
    }
}

/// The condition that `replica` holds, or does not hold, a session to `peer`.
pub fn session_is(replica: u64, peer: PeerId, established: bool) -> Condition {
    Condition::Equals {
        key: FactKey::Session(replica, peer).encode(),
        value: established.then(Bytes::new),
    }
}

/// A count, in the octets of its fact.
pub fn encode_count(count: u64) -> Bytes {
    Bytes::copy_from_slice(&count.to_be_bytes())
}

/// Reads a count.
pub fn decode_count(value: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(value.try_into().ok()?))
}

/// The condition that a count is this one; 0: that there is none.
pub fn count_is(key: &FactKey<'_>, count: u64) -> Condition {
    Condition::Equals {
        key: key.encode(),
        value: (count > 0).then(|| encode_count(count)),
    }
}

/// Puts one value under one key.
pub fn put(key: &FactKey<'_>, value: Bytes) -> Op {
    Op::Put {
        value,
        keys: vec![key.encode()],
    }
}

/// Deletes one key.
pub fn delete(key: &FactKey<'_>) -> Op {
    Op::Delete {
        keys: vec![key.encode()],
    }
}

/// Everything that `peer` announced, and its owner record, go.
pub fn forget(peer: PeerId, families: &[Family]) -> Vec<Op> {
    let routes = |family: &Family| Op::DeletePrefix {
        prefix: FactPrefix::RoutesOfPeer(*family, peer).encode(),
    };
    let mut ops: Vec<_> = families.iter().map(routes).collect();
    ops.push(delete(&FactKey::Owner(peer)));
    ops
}

fn put_peer(key: &mut BytesMut, peer: PeerId) {
    key.put_u32(peer.router_id.0);
    key.put_u32(peer.asn);
}

fn peer_from(octets: &[u8; 8]) -> PeerId {
    let [a, b, c, d, e, f, g, h] = *octets;
    PeerId {
        router_id: RouterId(u32::from_be_bytes([a, b, c, d])),
        asn: u32::from_be_bytes([e, f, g, h]),
    }
}

#[cfg(test)]
mod format;

#[cfg(test)]
mod tests {
    use weft_evpn::{Mac, Vni};

    use super::*;

    const PEER: PeerId = PeerId {
        router_id: RouterId(0xc000_0201),
        asn: 64_496,
    };

    #[test]
    fn every_key_survives_a_round_trip() {
        let keys = [
            FactKey::Route(Family::L2VPN_EVPN, PEER, b"nlri"),
            FactKey::Owner(PEER),
            FactKey::Session(3, PEER),
            FactKey::Head,
            FactKey::Declared(0, Kind::Switch, "leaf1"),
            FactKey::Declared(u64::MAX, Kind::HostPort, "leaf1:eth3"),
            FactKey::Stage(7),
            FactKey::Edit(Kind::Link, "leaf1:eth1--spine1:eth1"),
            FactKey::Job("train"),
            FactKey::Request(RequestId([7; 16])),
            FactKey::RequestAt(7),
            FactKey::Incarnation,
            FactKey::Freeze((Vni::new(0x00ab_cdef).unwrap(), Mac([2, 3, 4, 5, 6, 7]))),
            FactKey::Balance(""),
            FactKey::Balance("leaf1"),
            FactKey::Derating("leaf1:eth1--spine1:eth1"),
            FactKey::OffPlan("train"),
            FactKey::KeptFree("leaf1"),
        ];
        for key in keys {
            assert_eq!(FactKey::decode(&key.encode()), Some(key));
        }
        let prefixes = [
            FactPrefix::RoutesOfPeer(Family::IPV4_UNICAST, PEER),
            FactPrefix::SessionsOfReplica(9),
            FactPrefix::Balance,
            FactPrefix::Slot(7),
            FactPrefix::Edits,
        ];
        for prefix in prefixes {
            assert_eq!(FactPrefix::decode(&prefix.encode()), Some(prefix));
        }
    }

    #[test]
    fn a_key_of_an_unknown_kind_is_not_understood() {
        assert_eq!(FactKey::decode(b""), None);
        assert_eq!(FactKey::decode(b"z123"), None);
        assert_eq!(FactKey::decode(b"o123"), None);
        assert_eq!(FactKey::decode(b"tg12345678jtrain"), None);
        assert_eq!(FactKey::decode(b"m12345678"), None);
        assert_eq!(FactPrefix::decode(b"o"), None);
    }

    #[test]
    fn an_owner_survives_a_round_trip() {
        for address in ["192.0.2.9", "2001:db8::9"] {
            let owner = Owner {
                replica: 2,
                epoch: 7,
                address: address.parse().unwrap(),
                kind: PeerKind::RouteServerClient,
                fresh_from: 0,
                returned: None,
                retention: None,
            };
            let kept = Retention {
                phase: Phase::LongLived,
                restart_secs: 0,
                families: vec![(Family::L2VPN_EVPN, 86_400)],
            };
            for fresh_from in [0, 7] {
                for returned in [None, Some(kept.clone())] {
                    for retention in [None, Some(kept.clone())] {
                        let owner = Owner {
                            fresh_from,
                            returned: returned.clone(),
                            retention,
                            ..owner.clone()
                        };
                        assert_eq!(Owner::decode(&owner.encode()), Some(owner));
                    }
                }
            }
        }
        assert_eq!(Owner::decode(b"short"), None);
    }
}
