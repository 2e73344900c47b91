//! What weft sends on of an UPDATE that it accepted: learned, stored, selected, reflected and packed. It knows no
//! octets; what comes out is for others to read.

use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;

use weft_bgp::attribute::{Attributes, NextHop};
use weft_bgp::capability::AddPathSet;
use weft_bgp::message::{DecodeContext, Update};
use weft_bgp::nlri::{Nlri, decode_all};
use weft_bgp::peer::{ClusterId, PeerId, RouterId};
use weft_bgp::reflect::{self, ExportKey, Filter, Local};
use weft_bgp::table::{PeerKind, Source, Table};
use weft_bgp::update_group::UpdateGroup;

const LOCAL: Local = Local {
    asn: 64_499,
    router_id: RouterId(0xc000_02fe),
    cluster_id: ClusterId(0xc000_02fe),
};

/// To whom: a client, a speaker of another AS without four-octet numbers, a client of a route server.
pub(crate) fn groups() -> [ExportKey; 3] {
    let key = |kind: PeerKind, four_octet_as: bool, extended_message: bool| ExportKey {
        filter: Filter(u32::MAX),
        long_lived: true,
        ..ExportKey::new(
            kind,
            &DecodeContext {
                four_octet_as,
                ibgp: !kind.is_external(),
                extended_message,
                add_path: AddPathSet::NONE,
            },
        )
    };
    [
        key(PeerKind::IbgpClient, true, false),
        key(PeerKind::Ebgp, false, false),
        key(PeerKind::RouteServerClient, true, true),
    ]
}

/// The messages that a group is told when a peer has sent these routes; none if they may not be learned.
pub(crate) fn emit<N: Nlri>(
    routes: &[N],
    update: &Update,
    next_hop: Option<NextHop>,
    ibgp: bool,
    key: &ExportKey,
) -> Vec<Bytes> {
    let from = if ibgp {
        PeerKind::IbgpClient
    } else {
        PeerKind::Ebgp
    };
    let Some(next_hop) = next_hop.filter(|hop| hop.is_host()) else {
        return Vec::new();
    };
    if update.is_withdraw() || reflect::accept(&update.attributes, from, &LOCAL, 0).is_err() {
        return Vec::new();
    }
    let learned = Attributes {
        next_hop: Some(next_hop),
        unknown: Vec::new(),
        ..update.attributes.clone()
    };
    let stored = Arc::new(Attributes::from_octets(&learned.to_octets()).unwrap());
    let address = Ipv4Addr::new(192, 0, 2, 2);
    let peer = PeerId {
        router_id: address.into(),
        asn: if ibgp { LOCAL.asn } else { 64_498 },
    };
    let source = Arc::new(Source::new(peer, address.into(), from));
    let mut table = Table::<N>::with_seed(1);
    for route in routes {
        table.learn(&source, 0, route.clone(), Arc::clone(&stored));
    }
    let mut group = UpdateGroup::<N>::new(key.clone(), LOCAL);
    let told = group.advertise(&table.select());
    table.withdraw_peer(peer);
    let gone = group.advertise(&table.select());
    let frames = told.frames.into_iter().chain(gone.frames);
    frames.map(|frame| frame.octets).collect()
}

/// The good NLRI of a field.
pub(crate) fn good<N: Nlri>(octets: &[u8], add_path: bool) -> Vec<N> {
    let mut routes = Vec::new();
    let _ = decode_all::<N>(octets, add_path, |_, route| routes.push(route), drop);
    routes
}
