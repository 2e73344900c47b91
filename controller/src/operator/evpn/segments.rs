//! Ethernet segments as the selected EVPN routes tell of them. Knows tables; the rules are `weft_evpn`'s.

use std::net::IpAddr;

use weft_bgp::decision::Step;
use weft_bgp::nlri::Nlri;
use weft_bgp::table::{BestChange, Path, Table};
use weft_evpn::designated_forwarder::Algorithm;
use weft_evpn::segment::{Redundancy, Segments};
use weft_evpn::{Esi, EthernetTag, Route, Vni};
use weft_proto::v1::{self as proto, DesignatedForwarderAlgorithm, RedundancyMode};

use super::super::PART;

/// The segment that a path tells of.
fn told_of(path: &Path<Route>) -> Option<Esi> {
    match &path.nlri {
        Route::EthernetAd(route) => Some(route.key.esi),
        Route::EthernetSegment(route) => Some(route.key.esi),
        Route::MacIp(_)
        | Route::InclusiveMulticast(_)
        | Route::IpPrefix(_)
        | Route::SelectiveMulticast(_)
        | Route::MulticastJoin(_)
        | Route::MulticastLeave(_)
        | Route::RegionPmsi(_)
        | Route::SelectivePmsi(_)
        | Route::Leaf(_)
        | Route::Opaque(_) => None,
    }
}

/// Segments that selected types 1 and 4 in the next places of the table tell of, up to `end`, in no meaningful order, and where
/// to go on.
pub(super) fn identifiers(
    table: &Table<Route>,
    place: usize,
    end: Option<Esi>,
) -> (Vec<Esi>, Option<usize>) {
    let (part, next) = table.page(place, PART);
    let selected = part.into_iter().filter_map(|at| at.selected);
    let near = selected.filter_map(told_of);
    let near = near.filter(|esi| end.is_none_or(|end| *esi <= end));
    (near.collect(), next)
}

/// Copies of the selected types 1 and 4 of these segments, and of how many of them: there may be too many for a look, even of
/// the first.
pub(super) fn of(table: &Table<Route>, wanted: &[Esi]) -> (Vec<Path<Route>>, usize) {
    let mut paths = Vec::new();
    for (count, esi) in wanted.iter().enumerate() {
        let before = paths.len();
        let named = table.named(esi.number()).take(PART + 1 - before);
        let selected = named.filter_map(|at| at.selected);
        paths.extend(selected.filter(|it| told_of(it) == Some(*esi)).cloned());
        if paths.len() > PART {
            paths.truncate(before);
            return (paths, count);
        }
    }
    (paths, wanted.len())
}

/// Copies of the selected types 1 and 4 of a segment in the next places of the table, and where to go on.
pub(super) fn part(
    table: &Table<Route>,
    place: usize,
    esi: Esi,
) -> (Vec<Path<Route>>, Option<usize>) {
    let (part, next) = table.page(place, PART);
    let selected = part.into_iter().filter_map(|at| at.selected);
    let wanted = selected.filter(|path| told_of(path) == Some(esi));
    (wanted.cloned().collect(), next)
}

/// Segments as these paths tell of them, ascending; with the forwarder for this Ethernet tag, without one where it is the same
/// for all.
pub(super) fn rows(paths: Vec<Path<Route>>, tag: Option<u32>) -> Vec<proto::EthernetSegment> {
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
    let row = |esi: Esi| segment(&segments, esi, tag);
    segments.iter().map(row).collect()
}

fn segment(segments: &Segments, esi: Esi, tag: Option<u32>) -> proto::EthernetSegment {
    let domain = |(vni, tag): (Option<Vni>, EthernetTag)| proto::EthernetSegmentDomain {
        vni: vni.map(Vni::number),
        ethernet_tag: tag.0,
        vteps: texts(segments.aliases(esi, vni, tag)),
    };
    let redundancy_mode = match segments.redundancy(esi) {
        Redundancy::AllActive => RedundancyMode::AllActive,
        Redundancy::SingleActive => RedundancyMode::SingleActive,
        Redundancy::Mixed => RedundancyMode::Mixed,
        Redundancy::Unknown => RedundancyMode::Unspecified,
    };
    let (algorithm, algorithm_number) = match segments.algorithm(esi) {
        Algorithm::Modulo => (DesignatedForwarderAlgorithm::Modulo, 0),
        Algorithm::HighestRandomWeight => (DesignatedForwarderAlgorithm::HighestRandomWeight, 1),
        Algorithm::HighestPreference => (DesignatedForwarderAlgorithm::HighestPreference, 2),
        Algorithm::LowestPreference => (DesignatedForwarderAlgorithm::LowestPreference, 3),
        Algorithm::Other(number) => (DesignatedForwarderAlgorithm::Unspecified, number.into()),
    };
    let tag = tag.or_else(|| (!segments.goes_by_tag(esi)).then_some(0));
    let forwarder = tag.and_then(|tag| segments.forwarder(esi, tag));
    proto::EthernetSegment {
        esi: esi.to_string(),
        redundancy_mode: redundancy_mode.into(),
        algorithm: algorithm.into(),
        algorithm_number,
        designated_forwarder: forwarder.map(|it| it.to_string()),
        attached_vteps: texts(segments.attached(esi)),
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

    use super::super::super::page::list::First;
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
        let mut known = First::new(1, PartialEq::eq);
        let mut all = First::all();
        let mut place = Some(0);
        while let Some(at) = place {
            let (part, next) = identifiers(&table, at, known.end());
            known = known.with(part);
            all = all.with(identifiers(&table, at, None).0);
            place = next;
        }
        let list = known.finish(7);
        assert_eq!((list.items, list.more), (vec![first], true));
        assert_eq!(all.finish(7).items, [first, last]);
        let found = |wanted: &[Esi]| {
            let (paths, count) = of(&table, wanted);
            assert_eq!(count, wanted.len());
            let rows = rows(paths, None).into_iter();
            rows.map(|row| row.esi).collect::<Vec<_>>()
        };
        let missing = Esi([3; 10]);
        let both = [first.to_string(), last.to_string()];
        assert_eq!(found(&[first, last, missing]), both);
        assert_eq!(found(&[last]), [last.to_string()]);
        assert!(found(&[missing]).is_empty());
        assert_eq!(part(&table, 0, first).0.len(), 1);
    }

    #[test]
    fn a_segment_with_very_many_routes_is_left_for_looks_of_its_own() {
        let mut table = Table::new();
        let mut learn =
            |path: Path<Route>| table.learn(&path.source, 0, path.nlri, path.attributes);
        for tag in 0..u32::try_from(PART).unwrap() {
            learn(path(1, discovery(1, EthernetTag(tag)), None));
        }
        table.select();
        let (esi, other) = (Esi([1; 10]), Esi([2; 10]));
        let (paths, count) = of(&table, &[other, esi]);
        assert_eq!((paths.len(), count), (PART, 2));
        let path = path(2, of_segment(2), None);
        table.learn(&path.source, 0, path.nlri, path.attributes);
        table.select();
        let (paths, count) = of(&table, &[other, esi, other]);
        assert_eq!((paths.len(), count), (0, 1));
        assert_eq!(of(&table, &[esi]).1, 0);
        let (first, next) = part(&table, 0, esi);
        let (second, end) = part(&table, next.unwrap(), esi);
        assert_eq!((first.len() + second.len(), end), (PART + 1, None));
    }

    /// The highest preference forwards for all, unless only those count whose circuit is up. RFC 8584 §4.1.
    #[test]
    fn a_forwarder_for_all_is_shown_unless_circuits_count() {
        let cases = [
            (0, Some("192.0.2.2"), "192.0.2.2"),
            (0x4000, None, "192.0.2.1"),
        ];
        for (bitmap, for_all, second) in cases {
            let wished = |preference| Some(DfElection::new(2, bitmap, preference));
            let mut paths = Vec::new();
            for (leaf, preference) in [(1, 100), (2, 200)] {
                paths.push(path(leaf, of_segment(leaf), wished(preference)));
                paths.push(path(leaf, discovery(leaf, EthernetTag::MAX), None));
                paths.push(path(leaf, discovery(leaf, EthernetTag(7)), None));
            }
            paths.push(path(1, discovery(1, EthernetTag(8)), None));
            let forwarder = |tag| rows(paths.clone(), tag).remove(0).designated_forwarder;
            assert_eq!(forwarder(None).as_deref(), for_all);
            assert_eq!(forwarder(Some(7)).as_deref(), Some("192.0.2.2"));
            assert_eq!(forwarder(Some(8)).as_deref(), Some(second));
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
