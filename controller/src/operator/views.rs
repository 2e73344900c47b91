//! What the selected EVPN routes say of the fabric, as rows: VTEPs, flood lists, segments.
//! Knows tables; the rules are `weft_evpn`'s.

use std::net::IpAddr;

use weft_bgp::decision::Step;
use weft_bgp::nlri::Nlri;
use weft_bgp::table::{BestChange, Path, Table};
use weft_evpn::designated_forwarder::Algorithm;
use weft_evpn::segment::{Redundancy, Segments};
use weft_evpn::{Esi, EthernetTag, Route, Vni};
use weft_proto::operator::v1 as proto;

use super::PART;
use crate::reflector::Reflector;

/// Every VTEP; the switch behind it is left open.
pub(super) fn vteps(reflector: &Reflector) -> Vec<proto::Vtep> {
    let vteps = reflector.vteps();
    let row = |address: IpAddr| {
        let vnis: Vec<_> = vteps.vnis_of(address).collect();
        let peer = vnis
            .first()
            .and_then(|vni| vteps.announcers(*vni, address).next());
        proto::Vtep {
            address: address.to_string(),
            peer: peer
                .map(|peer| peer.router_id.to_string())
                .unwrap_or_default(),
            switch: String::new(),
            vnis: vnis.iter().map(|vni| vni.number()).collect(),
            macs: vteps.mac_routes(address),
        }
    };
    vteps.vteps().map(row).collect()
}

/// The VTEPs of each VNI; 0: of all.
pub(super) fn flood_lists(reflector: &Reflector, vni: u32) -> Vec<proto::FloodList> {
    let vteps = reflector.vteps();
    let wanted = vteps.vnis().filter(|it| vni == 0 || it.number() == vni);
    let row = |vni: Vni| proto::FloodList {
        vni: vni.number(),
        vteps: vteps.members(vni).map(|it| it.to_string()).collect(),
    };
    wanted.map(row).collect()
}

/// Copies of the selected types 1 and 4, of one segment if it is named, in the next places of the table, and where
/// to go on.
pub(super) fn segment_paths(
    table: &Table<Route>,
    place: usize,
    esi: Option<Esi>,
) -> (Vec<Path<Route>>, Option<usize>) {
    let (part, next) = table.page(place, PART);
    let wanted = |path: &&Path<Route>| match &path.nlri {
        Route::EthernetAd(route) => esi.is_none_or(|esi| esi == route.key.esi),
        Route::EthernetSegment(route) => esi.is_none_or(|esi| esi == route.key.esi),
        Route::MacIp(_)
        | Route::InclusiveMulticast(_)
        | Route::IpPrefix(_)
        | Route::SelectiveMulticast(_)
        | Route::MulticastJoin(_)
        | Route::MulticastLeave(_)
        | Route::RegionPmsi(_)
        | Route::SelectivePmsi(_)
        | Route::Leaf(_)
        | Route::Opaque(_) => false,
    };
    let selected = part.into_iter().filter_map(|at| at.selected);
    (selected.filter(wanted).cloned().collect(), next)
}

/// Segments as these paths tell of them; with the forwarder for `tag`, without one where it is the same for all.
pub(super) fn segments(
    paths: Vec<Path<Route>>,
    esi: Option<Esi>,
    tag: Option<u32>,
) -> Vec<proto::Segment> {
    let mut segments = Segments::new();
    for path in paths {
        segments.learn(&BestChange {
            key: path.nlri.key(),
            old: None,
            new: Some(path),
            by: Step::OnlyPath,
            revision: 0,
        });
    }
    let wanted = segments
        .iter()
        .filter(|it| esi.is_none_or(|esi| esi == *it));
    wanted.map(|esi| segment(&segments, esi, tag)).collect()
}

fn segment(segments: &Segments, esi: Esi, tag: Option<u32>) -> proto::Segment {
    let domain = |(vni, tag): (Option<Vni>, EthernetTag)| proto::SegmentDomain {
        vni: vni.map_or(0, |vni| vni.number()),
        tag: tag.0,
        vteps: texts(segments.aliases(esi, vni, tag)),
    };
    let redundancy = match segments.redundancy(esi) {
        Redundancy::AllActive => "all-active",
        Redundancy::SingleActive => "single-active",
        Redundancy::Mixed => "mixed",
        Redundancy::Unknown => "unknown",
    };
    let algorithm = match segments.algorithm(esi) {
        Algorithm::Modulo => "modulo".to_owned(),
        Algorithm::HighestRandomWeight => "highest random weight".to_owned(),
        Algorithm::HighestPreference => "highest preference".to_owned(),
        Algorithm::LowestPreference => "lowest preference".to_owned(),
        Algorithm::Other(number) => format!("algorithm {number}"),
    };
    let tag = tag.or_else(|| (!segments.goes_by_tag(esi)).then_some(0));
    let forwarder = tag.and_then(|tag| segments.forwarder(esi, tag));
    proto::Segment {
        esi: esi.to_string(),
        redundancy: redundancy.to_owned(),
        algorithm,
        forwarder: forwarder.map(|it| it.to_string()).unwrap_or_default(),
        attached: texts(segments.attached(esi)),
        domains: segments.domains(esi).map(domain).collect(),
    }
}

fn texts(values: impl IntoIterator<Item = IpAddr>) -> Vec<String> {
    let texts = values.into_iter().map(|value| value.to_string());
    texts.collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use weft_bgp::attribute::{Attributes, NextHop};
    use weft_bgp::peer::{PeerId, RouterId};
    use weft_bgp::rd::Rd;
    use weft_bgp::table::{PeerKind, Source};
    use weft_evpn::community::DfElection;
    use weft_evpn::route::{
        EthernetAd, EthernetAdKey, EthernetSegment, EthernetSegmentKey, InclusiveMulticast,
        InclusiveMulticastKey,
    };

    use super::*;

    #[test]
    fn segments_are_found_among_other_routes_in_every_part_of_the_table() {
        let peer = PeerId {
            router_id: RouterId(1),
            asn: 64_496,
        };
        let originator = Ipv4Addr::new(192, 0, 2, 1);
        let source = Arc::new(Source::new(peer, originator.into(), PeerKind::IbgpClient));
        let attributes = Arc::new(Attributes {
            next_hop: Some(NextHop::V4(originator)),
            ..Attributes::default()
        });
        let mut table = Table::new();
        let count = u32::try_from(2 * PART).unwrap();
        let mut learn = |route| table.learn(&source, 0, route, Arc::clone(&attributes));
        let segment = |esi, rd| {
            let originator = originator.into();
            let key = EthernetSegmentKey {
                rd,
                esi,
                originator,
            };
            Route::EthernetSegment(EthernetSegment { key })
        };
        let [first, last] = [Esi([1; 10]), Esi([2; 10])];
        learn(segment(first, Rd::from_as2(64_496, count + 1)));
        for rd in (0..count).map(|number| Rd::from_as2(64_496, number)) {
            let (tag, originator) = (EthernetTag(0), originator.into());
            let key = InclusiveMulticastKey {
                rd,
                tag,
                originator,
            };
            learn(Route::InclusiveMulticast(InclusiveMulticast { key }));
        }
        learn(segment(last, Rd::from_as2(64_496, count + 2)));
        table.select();
        let found = |esi: Option<Esi>| {
            let (mut paths, mut place) = (Vec::new(), Some(0));
            while let Some(at) = place {
                let (part, next) = segment_paths(&table, at, esi);
                paths.extend(part);
                place = next;
            }
            let rows = segments(paths, esi, None).into_iter();
            rows.map(|row| row.esi).collect::<Vec<_>>()
        };
        assert_eq!(found(None), [first.to_string(), last.to_string()]);
        assert_eq!(found(Some(last)), [last.to_string()]);
        assert!(found(Some(Esi([3; 10]))).is_empty());
    }

    /// The highest preference forwards for all, unless only those count whose circuit is up. RFC 8584 §4.1.
    #[test]
    fn a_forwarder_for_all_is_shown_unless_circuits_count() {
        for (bitmap, for_all, second) in [(0, "192.0.2.2", "192.0.2.2"), (0x4000, "", "192.0.2.1")]
        {
            let wished = |preference| Some(DfElection::new(2, bitmap, preference));
            let mut paths = Vec::new();
            for (leaf, preference) in [(1, 100), (2, 200)] {
                paths.push(path(leaf, of_segment(leaf), wished(preference)));
                paths.push(path(leaf, discovery(leaf, EthernetTag::MAX), None));
                paths.push(path(leaf, discovery(leaf, EthernetTag(7)), None));
            }
            paths.push(path(1, discovery(1, EthernetTag(8)), None));
            let forwarder = |tag| segments(paths.clone(), None, tag).remove(0).forwarder;
            assert_eq!(forwarder(None), for_all);
            assert_eq!(forwarder(Some(7)), "192.0.2.2");
            assert_eq!(forwarder(Some(8)), second);
        }
    }

    fn leaf_address(leaf: u8) -> Ipv4Addr {
        Ipv4Addr::new(192, 0, 2, leaf)
    }

    fn of_segment(leaf: u8) -> Route {
        let key = EthernetSegmentKey {
            rd: Rd::from_ipv4(leaf_address(leaf), 1),
            esi: Esi([1; 10]),
            originator: leaf_address(leaf).into(),
        };
        Route::EthernetSegment(EthernetSegment { key })
    }

    fn discovery(leaf: u8, tag: EthernetTag) -> Route {
        let key = EthernetAdKey {
            rd: Rd::from_ipv4(leaf_address(leaf), 1),
            esi: Esi([1; 10]),
            tag,
        };
        Route::EthernetAd(EthernetAd { key, label: None })
    }

    fn path(leaf: u8, route: Route, election: Option<DfElection>) -> Path<Route> {
        let address = leaf_address(leaf);
        let peer = PeerId {
            router_id: RouterId(leaf.into()),
            asn: 64_496,
        };
        let source = Source::new(peer, address.into(), PeerKind::IbgpClient);
        let attributes = Attributes {
            next_hop: Some(NextHop::V4(address)),
            ext_communities: election.map(DfElection::octets).into_iter().collect(),
            ..Attributes::default()
        };
        Path {
            source: Arc::new(source),
            attributes: Arc::new(attributes),
            nlri: route,
        }
    }
}
