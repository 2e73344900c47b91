//! What the selected EVPN routes say of the fabric, as rows: VTEPs, flood lists, segments.
//! Knows tables; the rules are `weft_evpn`'s.

use std::net::IpAddr;

use weft_bgp::decision::Step;
use weft_bgp::nlri::Nlri;
use weft_bgp::table::{BestChange, Path};
use weft_evpn::designated_forwarder::Algorithm;
use weft_evpn::segment::{Redundancy, Segments};
use weft_evpn::{Esi, EthernetTag, Route, RouteKey, Vni};
use weft_proto::operator::v1 as proto;

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

/// Copies of the selected types 1 and 4.
pub(super) fn segment_paths(reflector: &Reflector) -> Vec<Path<Route>> {
    selected(reflector, |key| {
        matches!(key, RouteKey::EthernetAd(_) | RouteKey::EthernetSegment(_))
    })
}

fn selected(reflector: &Reflector, wanted: impl Fn(&RouteKey) -> bool) -> Vec<Path<Route>> {
    let table = reflector.evpn().iter();
    let wanted = table.filter_map(|at| at.selected.filter(|path| wanted(&path.nlri.key())));
    wanted.cloned().collect()
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
    let by_tag = segments.algorithm(esi).goes_by_tag() && segments.candidates(esi).len() > 1;
    let tag = tag.or_else(|| (!by_tag).then_some(0));
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
