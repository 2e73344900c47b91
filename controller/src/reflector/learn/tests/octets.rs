//! The bound of the octets of all attributes of a peer. Knows no session.

use super::*;

fn octets(rib: &AdjRibIn) -> usize {
    rib.routes.values().map(Bytes::len).sum()
}

#[test]
fn the_attributes_of_all_routes_of_a_peer_have_a_bound() {
    let mut rib = client(Inbound::default());
    assert!(kept(&mut rib, &announce(&host(1, 100), 1, &[])));
    let one = octets(&rib);
    let mut rib = limited(Limits {
        attribute_octets_total: Some(u64::try_from(2 * one).unwrap()),
        macs_per_vni: Some(2),
        ..Limits::default()
    });
    assert!(kept(&mut rib, &announce(&host(1, 100), 1, &[])));
    assert!(kept(&mut rib, &announce(&host(2, 100), 1, &[])));
    let refused = |rib: &mut AdjRibIn, update: &Update| {
        let learned = rib.learn(update).unwrap();
        (learned.refused["limit of attribute octets"], rib.len())
    };
    assert_eq!(
        refused(&mut rib, &announce(&host(3, 100), 1, &[])),
        (1, 2),
        "one route more"
    );
    // The route with the old attributes goes: they are not those of the peer any more.
    assert_eq!(
        refused(&mut rib, &announce(&host(2, 100), 1, &[7, 8])),
        (1, 1),
        "longer attributes in place of shorter ones"
    );
    assert_eq!(octets(&rib), one);
    // Its octets and its MAC address make room.
    assert!(kept(&mut rib, &announce(&host(3, 100), 1, &[])));
    assert_eq!(rib.len(), 2);
}

/// A leaf of 20,000 routes, as in the benchmark of the reflector, uses a tenth of the defaults at most.
#[test]
fn the_defaults_are_far_above_a_leaf() {
    let limits = Limits::default();
    assert_eq!(limits.routes, Some(200_000));
    assert_eq!(limits.attribute_octets_total, Some(64 << 20));
    let mut rib = client(Inbound::default());
    let targets: Vec<u32> = (0..8).collect();
    assert!(kept(&mut rib, &announce(&host(1, 100), 1, &targets)));
    assert!(20_000 * octets(&rib) < (64 << 20) / 10);
}
