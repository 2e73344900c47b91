//! A route taken apart for storage: the octets of its key and those of its payload. Knows no store.
//!
//! A key is the route type, then the fields in the order of the wire. In types 1 to 5 the length of an
//! address or prefix follows from where the octets end; types 6 to 11 keep their length octets.

use weft_bgp::error::Fault;
use weft_bgp::wire::{Reader, Writer};

use super::{
    ETHERNET_AD, ETHERNET_SEGMENT, EthernetAd, EthernetAdKey, EthernetSegment, EthernetSegmentKey,
    INCLUSIVE_MULTICAST, IP_PREFIX, InclusiveMulticast, InclusiveMulticastKey, IpPrefix,
    IpPrefixKey, LEAF, Leaf, LeafKey, MAC_IP, MULTICAST_JOIN, MULTICAST_LEAVE, MacIp, MacIpKey,
    MembershipFlags, MulticastJoin, MulticastLeave, MulticastSyncKey, Opaque, REGION_PMSI,
    RegionPmsi, RegionPmsiKey, Route, RouteKey, SELECTIVE_MULTICAST, SELECTIVE_PMSI,
    SelectiveMulticast, SelectiveMulticastKey, SelectivePmsi, SelectivePmsiKey,
};

pub(super) fn key_octets(key: &RouteKey, out: &mut Vec<u8>) {
    out.push(key.route_type());
    match key {
        RouteKey::EthernetAd(key) => key.octets(out),
        RouteKey::MacIp(key) => key.octets(out),
        RouteKey::InclusiveMulticast(key) => key.octets(out),
        RouteKey::EthernetSegment(key) => key.octets(out),
        RouteKey::IpPrefix(key) => key.octets(out),
        RouteKey::SelectiveMulticast(key) => written(out, |writer| key.encode(writer)),
        RouteKey::MulticastJoin(key) | RouteKey::MulticastLeave(key) => {
            written(out, |writer| key.encode(writer));
        }
        RouteKey::RegionPmsi(key) => written(out, |writer| key.encode(writer)),
        RouteKey::SelectivePmsi(key) => written(out, |writer| key.encode(writer)),
        RouteKey::Leaf(key) => written(out, |writer| key.encode(writer)),
        RouteKey::Opaque(key) => out.extend_from_slice(key.octets()),
    }
}

fn written(out: &mut Vec<u8>, encode: impl FnOnce(&mut Writer)) {
    let mut writer = Writer::new();
    encode(&mut writer);
    out.extend_from_slice(writer.as_slice());
}

pub(super) fn key_from_octets(octets: &[u8]) -> Option<RouteKey> {
    let mut reader = Reader::new(octets, 0, Fault::NlriFraming);
    let body = &mut reader;
    let key = match body.u8().ok()? {
        ETHERNET_AD => RouteKey::EthernetAd(EthernetAdKey::from_octets(body)?),
        MAC_IP => RouteKey::MacIp(MacIpKey::from_octets(body)?),
        INCLUSIVE_MULTICAST => {
            RouteKey::InclusiveMulticast(InclusiveMulticastKey::from_octets(body)?)
        }
        ETHERNET_SEGMENT => RouteKey::EthernetSegment(EthernetSegmentKey::from_octets(body)?),
        IP_PREFIX => RouteKey::IpPrefix(IpPrefixKey::from_octets(body)?),
        SELECTIVE_MULTICAST => {
            RouteKey::SelectiveMulticast(SelectiveMulticastKey::decode(body).ok()?.into())
        }
        MULTICAST_JOIN => {
            RouteKey::MulticastJoin(MulticastSyncKey::decode(body, MULTICAST_JOIN).ok()?.into())
        }
        MULTICAST_LEAVE => {
            RouteKey::MulticastLeave(MulticastSyncKey::decode(body, MULTICAST_LEAVE).ok()?.into())
        }
        REGION_PMSI => RouteKey::RegionPmsi(RegionPmsiKey::decode(body).ok()?.into()),
        SELECTIVE_PMSI => RouteKey::SelectivePmsi(SelectivePmsiKey::decode(body).ok()?.into()),
        LEAF => RouteKey::Leaf(LeafKey::decode(body).ok()?.into()),
        route_type => RouteKey::Opaque(Opaque::new(route_type, body.rest())?.into()),
    };
    reader.is_empty().then_some(key)
}

pub(super) fn payload_octets(route: &Route, out: &mut Vec<u8>) {
    match route {
        Route::EthernetAd(route) => route.payload_octets(out),
        Route::MacIp(route) => route.payload_octets(out),
        Route::IpPrefix(route) => route.payload_octets(out),
        Route::SelectiveMulticast(route) => out.push(route.flags.0),
        Route::MulticastJoin(route) => out.push(route.flags.0),
        Route::MulticastLeave(route) => out.extend_from_slice(&route.payload()),
        Route::InclusiveMulticast(_)
        | Route::EthernetSegment(_)
        | Route::RegionPmsi(_)
        | Route::SelectivePmsi(_)
        | Route::Leaf(_)
        | Route::Opaque(_) => {}
    }
}

pub(super) fn from_parts(key: RouteKey, payload: &[u8]) -> Option<Route> {
    let mut reader = Reader::new(payload, 0, Fault::NlriFraming);
    let body = &mut reader;
    let route = match key {
        RouteKey::EthernetAd(key) => Route::EthernetAd(EthernetAd::from_payload(key, body)?),
        RouteKey::MacIp(key) => Route::MacIp(MacIp::from_payload(key, body)?),
        RouteKey::InclusiveMulticast(key) => Route::InclusiveMulticast(InclusiveMulticast { key }),
        RouteKey::EthernetSegment(key) => Route::EthernetSegment(EthernetSegment { key }),
        RouteKey::IpPrefix(key) => Route::IpPrefix(IpPrefix::from_payload(key, body)?),
        RouteKey::SelectiveMulticast(key) => {
            let flags = MembershipFlags(body.u8().ok()?);
            Route::SelectiveMulticast(SelectiveMulticast { key: *key, flags }.into())
        }
        RouteKey::MulticastJoin(key) => {
            let flags = MembershipFlags(body.u8().ok()?);
            Route::MulticastJoin(MulticastJoin { key: *key, flags }.into())
        }
        RouteKey::MulticastLeave(key) => {
            Route::MulticastLeave(MulticastLeave::decode_payload(*key, body).ok()?.into())
        }
        RouteKey::RegionPmsi(key) => Route::RegionPmsi(RegionPmsi { key: *key }.into()),
        RouteKey::SelectivePmsi(key) => Route::SelectivePmsi(SelectivePmsi { key: *key }.into()),
        RouteKey::Leaf(key) => Route::Leaf(Leaf { key: *key }.into()),
        RouteKey::Opaque(key) => Route::Opaque(key),
    };
    reader.is_empty().then_some(route)
}
