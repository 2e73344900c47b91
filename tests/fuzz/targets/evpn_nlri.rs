//! EVPN NLRI off the wire and out of storage: nothing panics, and what was accepted survives both.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_bgp::attribute::Attributes;
use weft_bgp::nlri::{Nlri, decode_all};
use weft_bgp::wire::Writer;
use weft_evpn::{Route, admission};

fuzz_target!(|octets: &[u8]| {
    let mut routes = Vec::new();
    // Faults are what a fuzzer finds all the time; only their number matters, which is bounded.
    let mut discarded = 0_usize;
    let end = decode_all::<Route>(octets, false, |_, route| routes.push(route), |_| discarded += 1);
    assert!(routes.len() + discarded <= octets.len() / 3);
    assert!(end.is_ok() || !octets.is_empty());
    for route in &routes {
        wire(route);
        storage(route);
        let verdict = admission::check(route, &Attributes::default());
        assert!(verdict.is_err(), "a route without a next hop");
    }
    if let Some(key) = Route::key_from_octets(octets) {
        let mut again = Vec::new();
        Route::key_octets(&key, &mut again);
        assert_eq!(Route::key_from_octets(&again), Some(key));
    }
});

fn decode(octets: &[u8]) -> Route {
    let mut routes = Vec::new();
    decode_all::<Route>(
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
    assert_eq!(Route::from_parts(key, &payload), Some(*route));
    assert!(!key.to_string().is_empty());
}
