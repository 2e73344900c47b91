//! Whatever a peer sends, what we emit is valid: an UPDATE is decoded, learned, selected, reflected and packed, and
//! each message of that is decoded again, without a fault, to the same routes and attributes.

#![no_main]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::num::NonZeroU8;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;

use weft_bgp::attribute::{Attributes, NextHop};
use weft_bgp::capability::AddPathSet;
use weft_bgp::family::Family;
use weft_bgp::frame::{self, Frame};
use weft_bgp::message::{DecodeContext, Message, MessageKind, Update};
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::nlri::{Nlri, decode_all};
use weft_bgp::peer::{ClusterId, PeerId, RouterId};
use weft_bgp::reflect::{self, ExportKey, Filter, Local, PathsTold};
use weft_bgp::table::{PeerKind, Source, Table};
use weft_bgp::update_group::UpdateGroup;
use weft_evpn::Route;

const FAMILIES: [Family; 3] = [Family::IPV4_UNICAST, Family::IPV6_UNICAST, Family::L2VPN_EVPN];
const LOCAL: Local = Local { asn: 64_496, router_id: RouterId(0xc000_0201), cluster_id: ClusterId(0xc000_0201) };

fuzz_target!(|octets: &[u8]| {
    let Some((&[flags, towards], body)) = octets.split_first_chunk::<2>() else { return };
    let on = |bit: u8| flags & (1 << bit) != 0;
    let ctx = DecodeContext {
        four_octet_as: on(0),
        ibgp: on(1),
        extended_message: true,
        add_path: AddPathSet::of(FAMILIES.into_iter().filter(|_| on(2))),
    };
    let frame = Frame { kind: MessageKind::Update, body: Bytes::copy_from_slice(body) };
    let Ok(Message::Update(update)) = Message::decode(frame, &ctx) else { return };
    if update.is_withdraw() {
        return;
    }
    let from = if on(1) { PeerKind::IbgpClient } else { PeerKind::Ebgp };
    if reflect::accept(&update.attributes, from, &LOCAL, 0).is_err() {
        return;
    }
    let classic: Vec<_> = update.announced.iter().copied().collect();
    let hop = update.attributes.next_hop;
    through(classic, &update, hop, from, towards);
    let Some(reach) = &update.reach else { return };
    let (hop, add_path) = (Some(reach.next_hop), ctx.add_path.contains(reach.family));
    match reach.family {
        Family::IPV4_UNICAST => through(decode::<Prefix4>(&reach.nlri, add_path), &update, hop, from, towards),
        Family::IPV6_UNICAST => through(decode::<Prefix6>(&reach.nlri, add_path), &update, hop, from, towards),
        Family::L2VPN_EVPN => through(decode::<Route>(&reach.nlri, add_path), &update, hop, from, towards),
        Family::RTC => through(decode::<Membership>(&reach.nlri, add_path), &update, hop, from, towards),
        _ => {}
    }
});

fn decode<N: Nlri>(octets: &[u8], add_path: bool) -> Vec<(u32, N)> {
    let mut routes = Vec::new();
    let _ = decode_all::<N>(octets, add_path, |id, route| routes.push((id, route)), drop);
    routes
}

fn export(towards: u8) -> ExportKey {
    let on = |bit: u8| towards & (1 << bit) != 0;
    let kind = match towards & 3 {
        0 => PeerKind::IbgpClient,
        1 => PeerKind::IbgpNonClient,
        2 => PeerKind::Ebgp,
        _ => PeerKind::RouteServerClient,
    };
    let ctx = DecodeContext {
        four_octet_as: on(2),
        ibgp: !kind.is_external(),
        extended_message: on(3),
        add_path: AddPathSet::NONE,
    };
    ExportKey {
        filter: Filter(u32::MAX),
        add_path: on(4).then_some(PathsTold::Best(NonZeroU8::MIN)),
        long_lived: on(5),
        graceful_shutdown: on(6),
        ..ExportKey::new(kind, &ctx)
    }
}

fn through<N: Nlri>(routes: Vec<(u32, N)>, update: &Update, hop: Option<NextHop>, from: PeerKind, towards: u8) {
    // As the session's edge does before it lets anything in.
    let Some(hop) = hop.filter(|hop| hop.is_host()) else { return };
    if routes.is_empty() {
        return;
    }
    let attributes = Attributes { next_hop: Some(hop), unknown: Vec::new(), ..update.attributes.clone() };
    let stored = attributes.to_octets();
    let attributes = Arc::new(Attributes::from_octets(&stored).expect("we wrote it ourselves"));
    let address = Ipv4Addr::new(192, 0, 2, 2);
    let peer = PeerId { router_id: address.into(), asn: 64_496 + u32::from(from.is_external()) };
    let source = Arc::new(Source::new(peer, address.into(), from));
    let mut table = Table::<N>::with_seed(1);
    let key = export(towards);
    let several = key.add_path.is_some() && N::family() != Family::RTC;
    let key = ExportKey { add_path: key.add_path.filter(|_| several), ..key };
    table.track_paths(several);
    let mut last = BTreeMap::new();
    for (id, route) in routes {
        last.insert(route.key(), route.clone());
        table.learn(&source, if several { 0 } else { id }, route, Arc::clone(&attributes));
    }
    let mut group = UpdateGroup::<N>::new(key.clone(), LOCAL);
    let segment = if several {
        let changes = table.path_changes();
        group.advertise_paths(&changes, 1)
    } else {
        group.advertise(&table.select())
    };
    let mut told = reflect::reflect(&source, &attributes, &key, &LOCAL);
    // Memberships come back to who told them, as ours.
    if let (Ok(told), true) = (&mut told, group.returns()) {
        told.originator_id = told.originator_id.map(|_| RouterId(LOCAL.cluster_id.0));
    }
    let mut found = BTreeMap::new();
    let mut sent = Vec::new();
    for frame in &segment.frames {
        assert!(frame.octets.len() <= usize::from(key.max_len));
        let update = read(&frame.octets, &key, several, N::family());
        let told = told.as_ref().expect("what may not be told is not");
        assert_eq!(Attributes { next_hop: told.next_hop, ..update.attributes.clone() }, *told);
        collect::<N>(&update, several, &mut sent);
    }
    for (_, route) in sent {
        assert!(found.insert(route.key(), route).is_none(), "told twice");
    }
    if several || !found.is_empty() {
        assert!(found.iter().all(|(key, route)| last.get(key).is_some_and(|known| several || known.key() == route.key())));
    }
}

fn read(octets: &Bytes, key: &ExportKey, several: bool, family: Family) -> Update {
    let ctx = DecodeContext { add_path: AddPathSet::of(several.then_some(family)), ..key.context() };
    let mut buffer = BytesMut::from(&octets[..]);
    let frame = frame::split(&mut buffer, key.max_len).expect("a good header").expect("a complete message");
    assert!(buffer.is_empty());
    let Ok(Message::Update(update)) = Message::decode(frame, &ctx) else { panic!("what we emit is an UPDATE") };
    assert_eq!(update.faults, []);
    *update
}

fn collect<N: Nlri>(update: &Update, add_path: bool, into: &mut Vec<(u32, N)>) {
    let strict = |octets: &[u8], into: &mut Vec<(u32, N)>| {
        decode_all::<N>(octets, add_path, |id, route| into.push((id, route)), |error| panic!("{error}"))
            .expect("our own octets are framed");
    };
    if let Some(reach) = &update.reach {
        strict(&reach.nlri, into);
    }
    let mut classic = weft_bgp::wire::Writer::new();
    for (id, prefix) in &update.announced {
        if add_path {
            classic.u32(*id);
        }
        prefix.encode(&mut classic);
    }
    strict(classic.as_slice(), into);
}
