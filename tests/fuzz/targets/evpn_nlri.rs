//! EVPN NLRI off the wire and out of storage: nothing panics, and what was accepted survives both. Types
//! that are not known too, as those who opt in see them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_bgp::attribute::Attributes;
use weft_bgp::nlri::{Nlri, decode_all};
use weft_bgp::reflect::Filter;
use weft_bgp::wire::Writer;
use weft_evpn::profile::{self, Withheld};
use weft_evpn::{Route, admission};

fuzz_target!(|octets: &[u8]| {
    let (known, known_end) = known(octets);
    let mut routes = Vec::new();
    // Faults are what a fuzzer finds all the time; only their number matters, which is bounded.
    let mut discarded = 0_usize;
    let end = Route::decode_all_opaque(
        octets,
        false,
        |_, route| routes.push(route),
        |_| discarded += 1,
    );
    assert!(routes.len() + discarded <= octets.len() / 3);
    assert!(end.is_ok() || !octets.is_empty());
    // Who does not opt in sees the same, without those of types that are not known.
    assert_eq!(end.is_ok(), known_end);
    let also_known = routes
        .iter()
        .filter(|route| !matches!(route, Route::Opaque(_)));
    assert!(known.iter().eq(also_known));
    for route in &routes {
        wire(route);
        storage(route);
        let verdict = admission::check(route, &Attributes::default());
        assert!(verdict.is_err(), "a route without a next hop");
        sent(route);
    }
    if let Some(key) = Route::key_from_octets(octets) {
        let mut again = Vec::new();
        Route::key_octets(&key, &mut again);
        assert_eq!(Route::key_from_octets(&again), Some(key));
    }
});

fn known(octets: &[u8]) -> (Vec<Route>, bool) {
    let mut routes = Vec::new();
    let end = decode_all::<Route>(octets, false, |_, route| routes.push(route), |_| {});
    (routes, end.is_ok())
}

fn decode(octets: &[u8]) -> Route {
    let mut routes = Vec::new();
    Route::decode_all_opaque(
        octets,
        false,
        |_, route| routes.push(route),
        |error| panic!("{error}"),
    )
    .expect("our own octets are framed");
    assert_eq!(routes.len(), 1);
    routes.remove(0)
}

fn wire(route: &Route) {
    let mut out = Writer::new();
    route.encode(&mut out);
    assert_eq!(decode(out.as_slice()), *route);
    let mut out = Writer::new();
    Route::encode_withdraw(&route.key(), &mut out);
    assert_eq!(decode(out.as_slice()).key(), route.key());
}

fn storage(route: &Route) {
    let (mut key, mut payload) = (Vec::new(), Vec::new());
    Route::key_octets(&route.key(), &mut key);
    route.payload_octets(&mut payload);
    let key = Route::key_from_octets(&key).expect("a stored key is a key");
    assert_eq!(key, route.key());
    assert!(!key.to_string().is_empty());
    assert_eq!(Route::from_parts(key, &payload).as_ref(), Some(route));
}

/// What everybody takes are types 2 and 3 without an originator of IPv6; with all bits all goes.
fn sent(route: &Route) {
    let attributes = Attributes::default();
    match profile::sendable(route, &attributes, Filter(0)) {
        Ok(()) => assert!(matches!(route.route_type(), 2 | 3)),
        Err(Withheld::RouteType(number)) => {
            assert!(!matches!(number, 2 | 3) && number == route.route_type());
        }
        Err(Withheld::Ipv6Originator) => assert!(route.route_type() == 3),
        Err(Withheld::OddSegment) => assert!(route.route_type() == 2),
        Err(other) => panic!("{other} without attributes"),
    }
    assert!(route.sendable(&attributes, Filter(u32::MAX)));
    assert!(profile::withdrawable(&route.key(), Filter(u32::MAX)).is_ok());
}
