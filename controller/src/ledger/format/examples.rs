//! Examples of every kind of key and value in their octets, and the octets that decoders take.

mod routes;

use std::collections::BTreeSet;
use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use weft_bgp::family::Family;
use weft_bgp::peer::{PeerId, RouterId};
use weft_bgp::table::PeerKind;
use weft_evpn::esi::Esi;
use weft_evpn::moves::Holder;
use weft_evpn::{Mac, Vni};
use weft_telemetry::derating::{Cause, Decision};

use super::Part;
use crate::fabric::declared::Edit;
use crate::fabric::fact::Kind;
use crate::fabric::measured::OffPlan;
use crate::fabric::mode::Mode;
use crate::fabric::pin::{PinName, PinPath};
use crate::ledger::known::is_value;
use crate::ledger::{self, FactKey, FactPrefix, Head, Owner, Phase, Request, RequestId, Retention};

/// Keys, prefixes and values by example, and the octets that are understood as such.
pub(super) fn parts() -> Vec<Part> {
    let facts = facts();
    let mut parts = vec![
        (
            "keys that are understood".to_owned(),
            understood(&facts, is_key),
        ),
        (
            "prefixes that are understood".to_owned(),
            understood(&facts, is_prefix),
        ),
    ];
    for prefix in prefixes() {
        parts.push((format!("prefix {prefix:?}"), prefix.encode().to_vec()));
    }
    for (key, values) in &facts {
        parts.push((format!("key {key:?}"), key.encode().to_vec()));
        for value in values {
            parts.push((format!("value of {key:?}"), value.to_vec()));
            parts.push((format!("octets taken in it for {key:?}"), taken(key, value)));
        }
    }
    parts.extend(routes::parts(PEER));
    parts
}

/// One key of each kind, routes aside, and values that are different in kind.
fn facts() -> Vec<(FactKey<'static>, Vec<Bytes>)> {
    let pin = PinName {
        job: "train".into(),
        source: "leaf1:eth1".into(),
        destination: "leaf2:eth1".into(),
    };
    let paths = [("spine1", 12), ("spine2", 4)].map(|(spine, weight)| PinPath {
        spine: spine.into(),
        weight,
    });
    let head = Head {
        generation: 7,
        slot: 3,
        display_name: "example".to_owned(),
    };
    let request = Request {
        generation: 7,
        content: 9,
    };
    let off_plan = OffPlan {
        leaf: "leaf1".into(),
        percent: 23,
        fingerprint: 9,
    };
    let id = RequestId(*b"a request's name");
    let count = || vec![ledger::encode_count(7)];
    let kinds = || Kind::ALL.into_iter().filter(|kind| *kind != Kind::Job);
    let declared = kinds().map(|kind| (FactKey::Declared(7, kind, "name"), Vec::new()));
    let edited = kinds().map(|kind| (FactKey::Edit(kind, "name"), edits()));
    let others = [
        (FactKey::Owner(PEER), owners()),
        (FactKey::Session(3, PEER), vec![Bytes::new()]),
        (FactKey::Head, vec![head.encode()]),
        (FactKey::Jobs, count()),
        (FactKey::Pins, count()),
        (FactKey::Pin(pin), vec![ledger::encode_paths(&paths)]),
        (FactKey::Request(id), vec![request.encode()]),
        (FactKey::RequestAt(7), vec![Bytes::copy_from_slice(&id.0)]),
        (FactKey::Stage(7), vec![Bytes::new()]),
        (FactKey::Job("name"), Vec::new()),
        (FactKey::Incarnation, count()),
        (
            FactKey::Freeze((Vni::MAX, Mac([2, 3, 4, 5, 6, 7]))),
            holders(),
        ),
        (FactKey::Balance("leaf1"), modes()),
        (FactKey::Derating("link1"), deratings()),
        (
            FactKey::OffPlan("train"),
            vec![ledger::encode_off_plan(&off_plan)],
        ),
        (
            FactKey::KeptFree("leaf1"),
            vec![ledger::encode_kept_free(10)],
        ),
    ];
    others.into_iter().chain(declared).chain(edited).collect()
}

fn owners() -> Vec<Bytes> {
    let retained = |phase| Retention {
        phase,
        restart_secs: 120,
        families: vec![(Family::L2VPN_EVPN, 86_400), (Family::IPV4_UNICAST, 0)],
    };
    let [v4, v6] = ADDRESSES;
    let owner = |address, kind, returned: Option<Phase>, retention: Option<Phase>| Owner {
        replica: 2,
        epoch: 7,
        address,
        kind,
        fresh_from: if returned.is_some() { 5 } else { 0 },
        returned: returned.map(retained),
        retention: retention.map(retained),
    };
    let owners = [
        owner(v4, PeerKind::IbgpClient, None, None),
        owner(v6, PeerKind::IbgpNonClient, None, Some(Phase::Graceful)),
        owner(
            v4,
            PeerKind::RouteServerClient,
            Some(Phase::LongLived),
            None,
        ),
        owner(
            v6,
            PeerKind::Ebgp,
            Some(Phase::Graceful),
            Some(Phase::LongLived),
        ),
    ];
    owners.iter().map(Owner::encode).collect()
}

fn edits() -> Vec<Bytes> {
    let edits = [Edit::Created, Edit::Updated, Edit::Deleted];
    edits.map(ledger::encode_edit).into()
}

fn holders() -> Vec<Bytes> {
    let [v4, v6] = ADDRESSES.map(Holder::Vtep);
    let segment = Holder::Segment(Esi([7; 10]));
    [v4, v6, segment].map(ledger::encode_holder).into()
}

fn modes() -> Vec<Bytes> {
    let modes = [Mode::Off, Mode::Shadow, Mode::On];
    modes.map(ledger::encode_mode).into()
}

fn deratings() -> Vec<Bytes> {
    let causes = [
        None,
        Some(Cause::Errors),
        Some(Cause::Discards),
        Some(Cause::Pause),
    ];
    let derated = causes.map(|cause| Decision {
        derating_percent: 25,
        cause,
    });
    derated.map(ledger::encode_derating).into()
}

fn prefixes() -> [FactPrefix; 5] {
    [
        FactPrefix::RoutesOfPeer(Family::L2VPN_EVPN, PEER),
        FactPrefix::SessionsOfReplica(3),
        FactPrefix::Balance,
        FactPrefix::Slot(7),
        FactPrefix::Edits,
    ]
}

/// A hash of the octets that may stand at each place of a value, and of the lengths that it may be
/// cut or prolonged to: a decoder that takes more, or less, is of another format.
fn taken(key: &FactKey<'_>, value: &[u8]) -> Vec<u8> {
    let mut hasher = fnv::FnvHasher::default();
    let mut other = value.to_vec();
    for at in 0..value.len() {
        for octet in 0..=u8::MAX {
            other[at] = octet;
            hasher.write_u8(is_value(key, &other).into());
        }
        other[at] = value[at];
        hasher.write_u8(is_value(key, &value[..at]).into());
    }
    for _ in 0..8 {
        other.push(0);
        hasher.write_u8(is_value(key, &other).into());
    }
    hasher.finish().to_be_bytes().into()
}

fn is_key(octets: &[u8]) -> bool {
    FactKey::decode(octets).is_some()
}

fn is_prefix(octets: &[u8]) -> bool {
    FactPrefix::decode(octets).is_some()
}

/// The first octets of what `is_known` understands, and a hash of all that was tried.
fn understood(facts: &[(FactKey<'static>, Vec<Bytes>)], is_known: fn(&[u8]) -> bool) -> Vec<u8> {
    let keys = facts.iter().map(|(key, _)| key.encode());
    let mut tails: Vec<Vec<u8>> = keys.map(|key| key[1..].to_vec()).collect();
    let fills = [0, 1, b'a'];
    tails.extend((0..24).flat_map(|len| fills.map(|fill| vec![fill; len])));
    // Some keys have a kind within their kind.
    tails.extend((0..=u8::MAX).map(|within| vec![within, b'a']));
    let mut known = Vec::new();
    let mut hasher = fnv::FnvHasher::default();
    for kind in 0..=u8::MAX {
        let tried = tails
            .iter()
            .map(|tail| is_known(&[&[kind][..], tail].concat()));
        let tried: Vec<u8> = tried.map(u8::from).collect();
        hasher.write(&tried);
        if tried.contains(&1) {
            known.push(kind);
        }
    }
    known.extend(hasher.finish().to_be_bytes());
    known
}

#[test]
fn every_kind_of_key_that_is_understood_has_an_example() {
    let facts = facts();
    let keys = facts.iter().map(|(key, _)| key.encode());
    let mut kinds: BTreeSet<u8> = keys.map(|key| key[0]).collect();
    kinds.insert(b'r');
    let mut understood = understood(&facts, is_key);
    understood.truncate(understood.len() - 8);
    assert_eq!(understood, kinds.into_iter().collect::<Vec<_>>());
}

#[test]
fn every_example_is_understood() {
    for (key, values) in facts() {
        assert_eq!(FactKey::decode(&key.encode()), Some(key.clone()));
        for value in values {
            assert!(is_value(&key, &value), "{key:?}: {value:?}");
        }
    }
    for prefix in prefixes() {
        assert_eq!(FactPrefix::decode(&prefix.encode()), Some(prefix));
    }
}

/// A planted change: a release that lacks a kind of key, or has one more.
#[test]
fn a_kind_of_key_more_or_less_is_another_format() {
    let facts = facts();
    let now = understood(&facts, is_key);
    assert_ne!(understood(&facts, |key| is_key(key) && key[0] != b'd'), now);
    assert_ne!(
        understood(&facts, |key| is_key(key) && !key.starts_with(b"tj")),
        now
    );
    assert_ne!(understood(&facts, |key| is_key(key) || key[0] == b'z'), now);
    let prefixes = understood(&facts, is_prefix);
    assert_ne!(
        understood(&facts, |prefix| is_prefix(prefix) && prefix != b"b"),
        prefixes
    );
}

const PEER: PeerId = PeerId {
    router_id: RouterId(0xc000_0201),
    asn: 64_496,
};
const ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];
