//! What a peer has announced, from the facts in which its task holds it: Adj-RIB-In. Facts say what was
//! kept; what was refused before a collector connected is not in them. Knows no collector.

use std::vec;

use bytes::Bytes;
use weft_bgp::capability::AddPathSet;
use weft_bgp::family::Family;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::wire::Writer;
use weft_evpn::Route;

use super::message::Messages;
use crate::ledger::{self, FactKey};

/// Routes that wait to be told.
#[derive(Debug)]
pub(super) struct Held {
    routes: vec::IntoIter<(Bytes, Bytes)>,
    /// Taken off, and the begin of the next message.
    next: Option<(Bytes, Bytes)>,
    add_path: AddPathSet,
}

impl Held {
    /// All of these; in some families their peer sends path identifiers.
    pub(super) fn new(mut routes: Vec<(Bytes, Bytes)>, add_path: AddPathSet) -> Self {
        // One UPDATE of the peer gave one value, wherever it stands: together again.
        routes.sort_unstable_by_key(|(_, value)| value.as_ptr() as usize);
        let mut routes = routes.into_iter();
        Self {
            next: routes.next(),
            routes,
            add_path,
        }
    }

    /// The messages of the next routes that have one value; `None`: there are no more.
    pub(super) fn next(&mut self) -> Option<(Family, Vec<Bytes>)> {
        loop {
            let (first, value) = self.next.take()?;
            let mut keys = vec![first];
            for (key, other) in self.routes.by_ref() {
                if other != value || family(&key) != family(&keys[0]) || keys.len() == RUN_MAX {
                    self.next = Some((key, other));
                    break;
                }
                keys.push(key);
            }
            // What this version does not understand it has not told anybody else either.
            let Some(family) = family(&keys[0]) else {
                continue;
            };
            let add_path = self.add_path.contains(family);
            let messages = match family {
                Family::IPV4_UNICAST => messages::<Prefix4>(&keys, &value, add_path),
                Family::IPV6_UNICAST => messages::<Prefix6>(&keys, &value, add_path),
                Family::RTC => messages::<Membership>(&keys, &value, add_path),
                _ => messages::<Route>(&keys, &value, add_path),
            };
            if let Some(messages) = messages {
                return Some((family, messages));
            }
        }
    }
}

fn family(key: &[u8]) -> Option<Family> {
    match FactKey::decode(key)? {
        FactKey::Route(family, ..) => Some(family),
        FactKey::Owner(_)
        | FactKey::Session(..)
        | FactKey::Head
        | FactKey::Declared(..)
        | FactKey::Stage(_)
        | FactKey::Edit(..)
        | FactKey::Job(_)
        | FactKey::Jobs
        | FactKey::Pins
        | FactKey::Pin(_)
        | FactKey::Request(_)
        | FactKey::RequestAt(_)
        | FactKey::Incarnation
        | FactKey::Freeze(_)
        | FactKey::Balance(_)
        | FactKey::Derating(_)
        | FactKey::OffPlan(_)
        | FactKey::KeptFree(_) => None,
    }
}

fn messages<N: Nlri>(keys: &[Bytes], value: &[u8], add_path: bool) -> Option<Vec<Bytes>> {
    let (payload, attributes) = ledger::decode_path(value)?;
    let encode = |key: &Bytes| {
        let FactKey::Route(_, _, octets) = FactKey::decode(key)? else {
            return None;
        };
        let (path_id, octets) = ledger::read_path(octets)?;
        let nlri = N::from_parts(N::key_from_octets(octets)?, payload)?;
        let mut out = Writer::new();
        if add_path {
            out.u32(path_id);
        }
        nlri.encode(&mut out);
        Some(out.finish())
    };
    let nlri: Vec<Bytes> = keys.iter().filter_map(encode).collect();
    let mut messages = Messages::new(N::family());
    messages.announce(&attributes, nlri.iter().map(|nlri| &nlri[..]));
    Some(messages.finish())
}

/// What became of these routes: withdrawals of those that are not held, announcements of the others.
pub(crate) fn retold(said: Vec<(Bytes, Option<Bytes>)>, add_path: AddPathSet) -> Vec<Bytes> {
    let mut gone = Vec::new();
    let mut kept = Vec::new();
    for (key, value) in said {
        match value {
            Some(value) => kept.push((key, value)),
            None => gone.push(key),
        }
    }
    let mut messages = withdrawn(&gone, add_path);
    let mut held = Held::new(kept, add_path);
    messages.extend(std::iter::from_fn(|| held.next()).flat_map(|(_, messages)| messages));
    messages
}

/// Withdrawals of routes that were held under these keys, those of a family together; in some families their
/// peer sends path identifiers.
pub(crate) fn withdrawn(keys: &[Bytes], add_path: AddPathSet) -> Vec<Bytes> {
    let runs = keys.chunk_by(|a, b| family(a) == family(b));
    let of_run = |run: &[Bytes]| {
        let family = family(&run[0])?;
        let add_path = add_path.contains(family);
        Some(match family {
            Family::IPV4_UNICAST => withdrawals::<Prefix4>(run, add_path),
            Family::IPV6_UNICAST => withdrawals::<Prefix6>(run, add_path),
            Family::RTC => withdrawals::<Membership>(run, add_path),
            _ => withdrawals::<Route>(run, add_path),
        })
    };
    runs.filter_map(of_run).flatten().collect()
}

fn withdrawals<N: Nlri>(keys: &[Bytes], add_path: bool) -> Vec<Bytes> {
    let mut messages = Messages::new(N::family());
    for key in keys {
        let Some(FactKey::Route(_, _, octets)) = FactKey::decode(key) else {
            continue;
        };
        let path = ledger::read_path(octets);
        let path = path.and_then(|(id, octets)| Some((id, N::key_from_octets(octets)?)));
        let Some((path_id, key)) = path else {
            continue;
        };
        messages.withdraw(|out| {
            if add_path {
                out.u32(path_id);
            }
            N::encode_withdraw(&key, out);
        });
    }
    messages.finish()
}

/// Routes told before others get their turn.
const RUN_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use bytes::BytesMut;
    use weft_bgp::attribute::{Attributes, NextHop};
    use weft_bgp::frame;
    use weft_bgp::message::{DecodeContext, Message, Update};
    use weft_bgp::peer::{ClusterId, PeerId, RouterId};
    use weft_bgp::reflect::Local;
    use weft_bgp::table::PeerKind;

    use super::*;
    use crate::monitoring::tests::{self, announced, flood, host};
    use crate::reflector::learn::AdjRibIn;

    fn fact(path_id: u32, last: u8, value: &Bytes) -> (Bytes, Bytes) {
        let peer = PeerId {
            router_id: RouterId(1),
            asn: 64_496,
        };
        let prefix = prefix(last);
        let (mut key, mut octets) = (Vec::new(), Vec::new());
        Prefix4::key_octets(&prefix, &mut key);
        ledger::write_path(path_id, &key, &mut octets);
        let key = FactKey::Route(Family::IPV4_UNICAST, peer, &octets).encode();
        (key, value.clone())
    }

    fn prefix(last: u8) -> Prefix4 {
        Prefix4 {
            addr: Ipv4Addr::new(203, 0, 113, last),
            len: 32,
        }
    }

    fn value(last: u8) -> Bytes {
        let attributes = Attributes {
            next_hop: Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, last))),
            ..Attributes::default()
        };
        ledger::encode_path(&prefix(0), &attributes.to_octets(), &mut Vec::new())
    }

    #[test]
    fn routes_of_one_value_stand_in_one_update_with_their_path_ids() {
        let (one, other) = (value(1), value(2));
        let facts = vec![fact(7, 1, &one), fact(8, 2, &other), fact(9, 3, &one)];
        let add_path = AddPathSet::of([Family::IPV4_UNICAST]);
        let context = DecodeContext {
            four_octet_as: true,
            ibgp: true,
            extended_message: false,
            add_path,
        };
        let mut held = Held::new(facts, add_path);
        let mut told = Vec::new();
        while let Some((family, messages)) = held.next() {
            assert_eq!((family, messages.len()), (Family::IPV4_UNICAST, 1));
            let mut octets = BytesMut::from(&messages[0][..]);
            let frame = frame::split(&mut octets, 4_096).unwrap().unwrap();
            let Message::Update(update) = Message::decode(frame, &context).unwrap() else {
                panic!("an UPDATE");
            };
            let mut announced = update.announced;
            announced.sort_unstable();
            told.push((update.attributes.next_hop, announced));
        }
        told.sort_by_key(|(_, announced)| announced.clone());
        let next_hop = |last| Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, last)));
        let expected = vec![
            (next_hop(1), vec![(7, prefix(1)), (9, prefix(3))]),
            (next_hop(2), vec![(8, prefix(2))]),
        ];
        assert_eq!(told, expected);
    }

    fn decoded(octets: &[u8], context: &DecodeContext) -> Update {
        let mut octets = BytesMut::from(octets);
        let frame = frame::split(&mut octets, 4_096).unwrap().unwrap();
        let Message::Update(update) = Message::decode(frame, context).unwrap() else {
            panic!("an UPDATE");
        };
        *update
    }

    /// 203.0.113.1/32 with this ORIGIN and one attribute more.
    fn announcement(origin: u8, more: &[u8]) -> Vec<u8> {
        let attributes = [
            &[0x40, 1, 1, origin, 0x40, 2, 0, 0x40, 3, 4, 192, 0, 2, 1][..],
            &[0x40, 5, 4, 0, 0, 0, 100],
            more,
        ]
        .concat();
        let nlri = [32, 203, 0, 113, 1];
        let lengths = [23 + attributes.len() + nlri.len(), attributes.len()];
        let [whole, list] = lengths.map(|length| u8::try_from(length).unwrap());
        let head = [&[0xff; 16][..], &[0, whole, 2, 0, 0, 0, list]].concat();
        [&head[..], &attributes, &nlri].concat()
    }

    /// RFC 7606 §2: what is told is what was made of it.
    #[test]
    fn a_malformed_update_is_retold_as_what_is_held_after_it() {
        let context = DecodeContext {
            four_octet_as: true,
            ibgp: true,
            extended_message: false,
            add_path: AddPathSet::NONE,
        };
        let (router_id, asn) = (RouterId(1), 64_496);
        let peer = PeerId { router_id, asn };
        let local = Local {
            asn,
            router_id: RouterId(2),
            cluster_id: ClusterId(2),
        };
        let families = vec![Family::IPV4_UNICAST];
        let mut adj_rib_in = AdjRibIn::new(peer, PeerKind::IbgpClient, local, families);
        let mut retell = |octets: &[u8]| {
            let update = decoded(octets, &context);
            adj_rib_in.learn(&update).unwrap();
            let messages = retold(adj_rib_in.said(&update), AddPathSet::NONE);
            let told = messages.iter().map(|octets| decoded(octets, &context));
            (!update.faults.is_empty(), told.collect::<Vec<_>>())
        };
        // An ATOMIC_AGGREGATE with a value is discarded; ORIGIN 9 takes the route away.
        for (octets, is_held) in [
            (announcement(0, &[0x40, 6, 1, 0]), true),
            (announcement(9, &[]), false),
        ] {
            let (is_faulty, told) = retell(&octets);
            let [told] = &told[..] else {
                panic!("one message: {told:?}");
            };
            assert!(is_faulty && told.faults.is_empty());
            let (gone, held) = (&told.withdrawn, &told.announced);
            let (some, none) = if is_held { (held, gone) } else { (gone, held) };
            assert_eq!((&some[..], &none[..]), (&[(0, prefix(1))][..], &[][..]));
        }
    }

    #[test]
    fn swept_routes_are_withdrawn_under_their_path_ids() {
        let keys: Vec<Bytes> = (0..200).map(|last| fact(7, last, &value(1)).0).collect();
        for add_path in [AddPathSet::of([Family::IPV4_UNICAST]), AddPathSet::NONE] {
            let context = DecodeContext {
                four_octet_as: true,
                ibgp: true,
                extended_message: false,
                add_path,
            };
            let mut gone = Vec::new();
            for message in withdrawn(&keys, add_path) {
                let mut octets = BytesMut::from(&message[..]);
                let frame = frame::split(&mut octets, 4_096).unwrap().unwrap();
                let Message::Update(update) = Message::decode(frame, &context).unwrap() else {
                    panic!("an UPDATE");
                };
                assert!(update.announced.is_empty());
                gone.extend(update.withdrawn);
            }
            let path_id = if add_path == AddPathSet::NONE { 0 } else { 7 };
            let expected: Vec<_> = (0..200).map(|last| (path_id, prefix(last))).collect();
            assert_eq!(gone, expected);
        }
        assert!(withdrawn(&[], AddPathSet::NONE).is_empty());
    }
    /// What is held of a client that has said these routes, one by one.
    fn client(add_path: AddPathSet, routes: &[Route]) -> AdjRibIn {
        let (router_id, asn) = (RouterId(1), 64_496);
        let local = Local {
            asn,
            router_id: RouterId(2),
            cluster_id: ClusterId(2),
        };
        let families = vec![Family::L2VPN_EVPN];
        let peer = PeerId { router_id, asn };
        let mut adj_rib_in = AdjRibIn::new(peer, PeerKind::IbgpClient, local, families);
        adj_rib_in.set_add_path(add_path);
        for route in routes {
            let path_id = (add_path != AddPathSet::NONE).then_some(PATH_ID);
            let update = tests::announcement(path_id, route);
            let learned = adj_rib_in.learn(&update).unwrap();
            assert_eq!(learned.announced, 1, "{learned:?}");
        }
        adj_rib_in
    }

    const PATH_ID: u32 = 7;

    /// With their labels and their segment, which no key has, and with all of their attributes.
    #[test]
    fn evpn_routes_are_told_as_their_peer_said_them() {
        for add_path in [AddPathSet::of([Family::L2VPN_EVPN]), AddPathSet::NONE] {
            let routes = [host(1), host(2), flood(1), flood(2)];
            let adj_rib_in = client(add_path, &routes);
            let with_ids = add_path != AddPathSet::NONE;
            let path_id = if with_ids { PATH_ID } else { 0 };
            let mut held = Held::new(adj_rib_in.held(), add_path);
            let mut told = Vec::new();
            while let Some((family, messages)) = held.next() {
                assert_eq!(family, Family::L2VPN_EVPN);
                for message in messages {
                    let update = tests::decoded(&message, add_path);
                    for (id, route) in announced(&update, with_ids) {
                        let expected = Attributes {
                            next_hop: None,
                            ..tests::attributes(&route)
                        };
                        assert_eq!((id, &update.attributes), (path_id, &expected));
                        told.push(route);
                    }
                }
            }
            told.sort_by_key(Route::key);
            assert_eq!(told, routes);
        }
    }

    #[test]
    fn evpn_routes_are_taken_back_under_their_keys() {
        for add_path in [AddPathSet::of([Family::L2VPN_EVPN]), AddPathSet::NONE] {
            let routes = [host(1), flood(1)];
            let adj_rib_in = client(add_path, &routes);
            let with_ids = add_path != AddPathSet::NONE;
            let path_id = if with_ids { PATH_ID } else { 0 };
            let mut keys: Vec<_> = adj_rib_in.held().into_iter().map(|(key, _)| key).collect();
            keys.sort_unstable();
            let [message] = &withdrawn(&keys, add_path)[..] else {
                panic!("one message");
            };
            let update = tests::decoded(message, add_path);
            let gone = tests::withdrawn(&update, with_ids);
            assert_eq!(gone, routes.map(|route| (path_id, route.key())));
        }
    }

    /// RFC 7606 §2, as above: a type 2 with ORIGIN 9 is not held any more, and the type 3 of its peer is.
    #[test]
    fn a_malformed_update_of_evpn_routes_is_retold_as_their_withdrawal() {
        let mut adj_rib_in = client(AddPathSet::NONE, &[host(1), flood(1)]);
        let context = DecodeContext {
            four_octet_as: true,
            ibgp: true,
            extended_message: false,
            add_path: AddPathSet::NONE,
        };
        let update = tests::announcement(None, &host(1));
        let mut octets = Message::Update(Box::new(update)).encode(&context).to_vec();
        let origin = [0x40, 1, 1, 0];
        let at = octets.windows(4).position(|window| window == origin);
        octets[at.unwrap() + 3] = 9;
        let update = decoded(&octets, &context);
        assert!(!update.faults.is_empty());
        let learned = adj_rib_in.learn(&update).unwrap();
        assert_eq!((learned.announced, learned.withdrawn), (0, 1));
        let [message] = &retold(adj_rib_in.said(&update), AddPathSet::NONE)[..] else {
            panic!("one message");
        };
        let told = tests::decoded(message, AddPathSet::NONE);
        assert_eq!(announced(&told, false), []);
        assert_eq!(tests::withdrawn(&told, false), [(0, host(1).key())]);
    }
}
