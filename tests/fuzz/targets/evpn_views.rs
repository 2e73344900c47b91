//! The views of EVPN under any routes and communities: nothing panics, whatever is announced, and what
//! was announced and is withdrawn leaves nothing behind.

#![no_main]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use weft_bgp::attribute::{Attributes, ExtendedCommunity, NextHop, PmsiTunnel};
use weft_bgp::nlri::Nlri;
use weft_bgp::peer::{PeerId, RouterId};
use weft_bgp::table::{PeerKind, Source, Table};
use weft_evpn::community::Community;
use weft_evpn::guard::{self, Fabric, RouterMacs};
use weft_evpn::limits::{Counts, Limits};
use weft_evpn::moves::{Holder, Moves, Settings, Standing};
use weft_evpn::neighbor::Neighbors;
use weft_evpn::segment::Segments;
use weft_evpn::vtep::Vteps;
use weft_evpn::{Route, admission};

// `peer, next hop, number of communities, communities (8 each), length of the NLRI (2), NLRI`, again and again.
fuzz_target!(|octets: &[u8]| {
    let mut views = Views::default();
    let mut rest = octets;
    let mut now = 0;
    while let [peer, host, count, after @ ..] = rest {
        let communities = usize::from(count % 8) * 8;
        let Some((communities, after)) = after.split_at_checked(communities) else {
            break;
        };
        let Some(([high, low], after)) = after.split_first_chunk::<2>() else {
            break;
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]) % 512).min(after.len());
        let (nlri, after) = after.split_at(length);
        views.announce(peer % 4, *host, communities, nlri, now);
        rest = after;
        now += 7;
    }
    views.end(now);
});

#[derive(Default)]
struct Views {
    table: Table<Route>,
    vteps: Vteps,
    router_macs: RouterMacs,
    segments: Segments,
    neighbors: Neighbors,
    moves: Moves,
}

fn peer(number: u8) -> PeerId {
    PeerId {
        router_id: RouterId(u32::from(number) + 1),
        asn: 64_496,
    }
}

impl Views {
    fn announce(&mut self, from: u8, host: u8, communities: &[u8], nlri: &[u8], now: u64) {
        let community = |octets: &[u8]| ExtendedCommunity(octets.try_into().expect("eight"));
        let ext_communities: Vec<_> = communities.chunks_exact(8).map(community).collect();
        for octets in &ext_communities {
            let view = Community::from(*octets);
            assert_eq!(ExtendedCommunity::from(view), *octets);
            assert!(!view.to_string().is_empty());
        }
        let vtep = [192, 0, 2, host].into();
        let attributes = Arc::new(Attributes {
            next_hop: Some(NextHop::V4([192, 0, 2, host].into())),
            pmsi: (host % 2 == 0).then(|| PmsiTunnel::ingress_replication([0, 0, host], vtep)),
            ext_communities,
            ..Attributes::default()
        });
        let source = Arc::new(Source::new(peer(from), vtep, PeerKind::IbgpClient));
        let mut counts = Counts::new(Limits::default());
        let mut routes = Vec::new();
        let _ = Route::decode_all_opaque(nlri, false, |_, route| routes.push(route), |_| {});
        for route in routes {
            let registered = BTreeSet::new();
            let fabric = Fabric {
                vteps: &self.vteps,
                router_macs: &self.router_macs,
                registered: &registered,
                peer: peer(from),
            };
            let _ = guard::check(&route, &attributes, &fabric);
            if let Route::MacIp(claim) = &route
                && let Some(holder) = Holder::of(claim, &attributes)
            {
                // Nobody is elsewhere than where it is.
                let standing = holder.standing(&route, &attributes);
                assert_ne!(standing, Some(Standing::Other));
            }
            let _ = admission::check(&route, &attributes);
            if counts.admit(&route, &attributes).is_ok() {
                counts.release(&route, &attributes);
            }
            assert_eq!(counts.routes(route.route_type()), 0);
            let withdraw = host == 255;
            if withdraw {
                self.table.withdraw(peer(from), 0, &route.key());
            } else {
                self.table.learn(&source, 0, route, Arc::clone(&attributes));
            }
        }
        self.select(now);
    }

    fn select(&mut self, now: u64) {
        for change in self.table.select() {
            self.vteps.learn(&change);
            self.router_macs.learn(&change);
            self.segments.learn(&change);
            self.neighbors.learn(&change);
            let _ = self.moves.learn(&change, Duration::from_secs(now));
        }
        for esi in self.segments.iter() {
            let tag = u32::from_be_bytes([0, 0, 0, esi.0[9]]);
            let all = self.segments.candidates(esi);
            let standing = self.segments.candidates_for(esi, tag);
            assert!(standing.iter().all(|it| all.contains(it)));
            let forwarder = self.segments.forwarder(esi, tag);
            let stands = |address| standing.iter().any(|it| it.originator == address);
            assert!(forwarder.is_none_or(stands), "elected, and no candidate");
            let _ = self.segments.redundancy(esi);
        }
        let _ = self.neighbors.duplicates().count();
    }

    fn end(&mut self, now: u64) {
        let held = self.table.selected_since(0).map(|(_, path, _)| path);
        assert_eq!(Neighbors::of(held).len(), self.neighbors.len());
        for number in 0..4 {
            self.table.withdraw_peer(peer(number));
        }
        self.select(now);
        let settings = Settings::default();
        self.moves
            .forget(Duration::from_secs(now) + settings.recover + settings.window);
        assert!(self.vteps.is_empty() && self.router_macs.is_empty());
        assert!(self.segments.is_empty() && self.neighbors.is_empty());
        assert_eq!(self.moves.followed(), 0);
    }
}
