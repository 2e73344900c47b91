//! Profiles by name and by OPEN, and what each may be told of.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use weft_bgp::attribute::{Attributes, ExtendedCommunity, NextHop, PmsiTunnel};
use weft_bgp::capability::{AddPathSet, Capability};
use weft_bgp::constrain::Interest;
use weft_bgp::family::Family;
use weft_bgp::message::DecodeContext;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::peer::{ClusterId, PeerId, RouterId};
use weft_bgp::table::{PeerKind, Source, Table};
use weft_bgp::update_group::{ExportKey, Local, UpdateGroup};

use super::*;
use crate::Route;
use crate::route::tests::any_route;

fn other(code: u8) -> Capability {
    let value = Bytes::new();
    Capability::Unknown { code, value }
}

fn host() -> Capability {
    let (host, domain) = ("leaf1".to_owned(), String::new());
    Capability::Fqdn { host, domain }
}

/// In the order of the OPEN that FRR 8.4.4 sent.
fn frr_8() -> Vec<Capability> {
    vec![
        Capability::MultiProtocol(Family::IPV4_UNICAST),
        Capability::MultiProtocol(Family::L2VPN_EVPN),
        other(128),
        Capability::RouteRefresh,
        Capability::EnhancedRouteRefresh,
        Capability::FourOctetAs(64_496),
        Capability::ExtendedMessage,
        Capability::AddPath(Vec::new()),
        host(),
        Capability::GracefulRestart(weft_bgp::capability::GracefulRestart::default()),
        Capability::LongLivedGracefulRestart(Vec::new()),
    ]
}

/// That of FRR 10.7.1.
fn frr_10() -> Vec<Capability> {
    vec![
        Capability::MultiProtocol(Family::L2VPN_EVPN),
        Capability::RouteRefresh,
        Capability::EnhancedRouteRefresh,
        Capability::FourOctetAs(64_496),
        Capability::ExtendedMessage,
        Capability::AddPath(Vec::new()),
        other(76),
        host(),
        Capability::GracefulRestart(weft_bgp::capability::GracefulRestart::default()),
        Capability::LongLivedGracefulRestart(Vec::new()),
    ]
}

/// That of BIRD 3.4.0.
fn bird_3() -> Vec<Capability> {
    vec![
        Capability::MultiProtocol(Family::L2VPN_EVPN),
        Capability::RouteRefresh,
        Capability::GracefulRestart(weft_bgp::capability::GracefulRestart::default()),
        Capability::FourOctetAs(64_496),
        Capability::EnhancedRouteRefresh,
        Capability::LongLivedGracefulRestart(Vec::new()),
    ]
}

/// That of GoBGP 3.10.0.
fn gobgp_3() -> Vec<Capability> {
    vec![
        Capability::RouteRefresh,
        host(),
        Capability::MultiProtocol(Family::L2VPN_EVPN),
        Capability::FourOctetAs(64_496),
        Capability::ExtendedNextHop(Vec::new()),
    ]
}

/// The capabilities of OpenBGPD 9.3, whose graceful restart says no time and no family; and R, if it keeps nothing of ours.
fn openbgpd_9(restarted: bool) -> Vec<Capability> {
    let restart = weft_bgp::capability::GracefulRestart {
        restarted,
        ..weft_bgp::capability::GracefulRestart::default()
    };
    vec![
        Capability::MultiProtocol(Family::L2VPN_EVPN),
        Capability::RouteRefresh,
        Capability::GracefulRestart(restart),
        Capability::FourOctetAs(64_496),
    ]
}

/// That of ExaBGP 4.2.21 and 5.0.15.
fn exabgp_4() -> Vec<Capability> {
    vec![
        Capability::MultiProtocol(Family::L2VPN_EVPN),
        Capability::FourOctetAs(64_496),
        Capability::ExtendedMessage,
    ]
}

fn with_version(version: &str) -> (Profile, String) {
    let mut capabilities = frr_8();
    capabilities.push(Capability::SoftwareVersion(version.to_owned()));
    let (profile, why) = Profile::choose(&capabilities);
    (profile, why.to_string())
}

#[test]
fn a_peer_is_known_by_what_it_offers() {
    let frr = Profile::Frr(FrrVersion::OLD);
    let cases = [
        (
            frr_8(),
            frr,
            "host name and capabilities of FRR, no software version",
        ),
        (
            gobgp_3(),
            Profile::GoBgp,
            "host name and capabilities of GoBGP, no software version",
        ),
        (
            frr_10(),
            Profile::Frr(FrrVersion::IPV6_TUNNELS),
            "host name and capabilities of FRR 10, no software version",
        ),
        (
            bird_3(),
            Profile::Bird,
            "the capabilities of BIRD, no software version",
        ),
        (
            exabgp_4(),
            Profile::ExaBgp,
            "the capabilities of ExaBGP, no software version",
        ),
        (
            openbgpd_9(true),
            Profile::OpenBgpd,
            "the capabilities of OpenBGPD, no software version",
        ),
        (
            openbgpd_9(false),
            Profile::OpenBgpd,
            "the capabilities of OpenBGPD, no software version",
        ),
        (
            [bird_3(), vec![Capability::ExtendedMessage]].concat(),
            Profile::Generic,
            "nothing in its OPEN says what it runs",
        ),
        (
            [exabgp_4(), vec![Capability::RouteRefresh]].concat(),
            Profile::Generic,
            "nothing in its OPEN says what it runs",
        ),
        (
            vec![],
            Profile::Generic,
            "nothing in its OPEN says what it runs",
        ),
    ];
    for (capabilities, profile, why) in cases {
        let chosen = Profile::choose(&capabilities);
        assert_eq!((chosen.0, chosen.1.to_string().as_str()), (profile, why));
    }
}

#[test]
fn a_software_version_says_more() {
    let frr = |major, minor| Profile::Frr(FrrVersion { major, minor });
    let cases = [
        ("FRRouting/10.7", frr(10, 7)),
        ("FRRouting/10.6.1-dev", frr(10, 6)),
        ("FRRouting/9.1", frr(9, 1)),
        ("FRRouting", frr(0, 0)),
        ("FRRouting/99999999.1", frr(0, 0)),
        ("GoBGP/3.37.0", Profile::GoBgp),
        ("GoBGP/4.8.0", Profile::GoBgp48),
        ("ExaBGP/5.0.0", Profile::ExaBgp),
        ("weft/0.1.0", Profile::Weft),
        // Not known: what it offers speaks for itself.
        ("somebody/1.0", frr(0, 0)),
    ];
    for (version, profile) in cases {
        assert_eq!(with_version(version).0, profile, "{version}");
    }
    let why = with_version("FRRouting/10.7").1;
    assert_eq!(why, "software version \"FRRouting/10.7\"");
}

#[test]
fn a_peer_that_is_doubted_is_told_no_more_than_before() {
    for (_, profile) in NAMES {
        let (before, after) = (profile.filter().0, profile.doubted().filter().0);
        // BIRD 3.4 ends no session over an UPDATE: it is somebody else, who takes type 5.
        let taken = match profile {
            Profile::Bird => before | TYPE_5.0,
            _ => before,
        };
        assert_eq!(taken & after, after, "{profile}");
    }
    for profile in [Profile::ExaBgp, Profile::OpenBgpd] {
        assert_eq!(
            profile.doubted().attribute_forms(),
            profile.attribute_forms()
        );
    }
    let frr = Profile::choose(&frr_10()).0.doubted();
    assert_eq!(frr, Profile::Frr(FrrVersion::OLD));
    assert!(!Profile::GoBgp48.doubted().takes_default_route_target());
}

#[test]
fn a_profile_reads_what_it_writes() {
    for (name, profile) in NAMES {
        assert_eq!(
            (name.parse(), profile.to_string().as_str()),
            (Ok(profile), name)
        );
    }
    let profile = Profile::Frr(FrrVersion::IPV6_TUNNELS);
    assert_eq!(profile.to_string(), "frr-10.7");
    assert_eq!("frr-10.7".parse(), Ok(profile));
    for bad in ["", "FRR", "frr-", "frr-10", "frr-10.x", "generic2"] {
        assert_eq!(bad.parse::<Profile>(), Err(UnknownProfile), "{bad}");
    }
}

fn of_type(route_type: u8) -> Route {
    let digits: &[u8] = match route_type {
        1 => &[3, 0, 0, 0x5e, 0, 0x53, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 100],
        2 => &[
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 48, 0, 0, 0x5e, 0, 0x53, 1, 0, 0, 0, 100,
        ],
        4 => &[3, 0, 0, 0x5e, 0, 0x53, 1, 0, 0, 1, 32, 192, 0, 2, 1],
        5 => &[
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 24, 198, 51, 100, 0, 0, 0, 0, 0, 0, 0, 100,
        ],
        3 => &[0, 0, 0, 0, 32, 192, 0, 2, 1],
        6 => &[0, 0, 0, 0, 0, 32, 239, 1, 1, 1, 32, 192, 0, 2, 1, 2],
        9 => &[0, 0, 0, 0, 0, 9, 0xfb, 0xf0, 0, 0, 0, 0],
        _ => panic!(),
    };
    let body = [&[0, 1, 192, 0, 2, 1, 0, 100], digits].concat();
    let octets = [&[route_type, u8::try_from(body.len()).unwrap()], &body[..]].concat();
    let framing = weft_bgp::error::Fault::NlriFraming;
    Route::decode(&mut weft_bgp::wire::Reader::new(&octets, 0, framing)).unwrap()
}

fn of_ipv6(route: Route) -> Route {
    match route {
        Route::InclusiveMulticast(mut route) => {
            route.key.originator = "2001:db8::53".parse().unwrap();
            Route::InclusiveMulticast(route)
        }
        other => panic!("{other:?}"),
    }
}

fn with_tunnel(endpoint: &str) -> Attributes {
    Attributes {
        next_hop: Some(NextHop::V4([192, 0, 2, 1].into())),
        pmsi: Some(PmsiTunnel::ingress_replication(
            [0, 0, 100],
            endpoint.parse().unwrap(),
        )),
        ..Attributes::default()
    }
}

#[test]
fn what_ended_a_session_is_not_sent_there_again() {
    let (v4, v6) = (with_tunnel("192.0.2.1"), with_tunnel("2001:db8::53"));
    let verdict = |route: &Route, attributes: &Attributes, profile: &str| {
        sendable(
            route,
            attributes,
            profile.parse::<Profile>().unwrap().filter(),
        )
    };
    let flood = of_type(3);
    let flood_v6 = of_ipv6(of_type(3));
    let link_local = Attributes {
        next_hop: Some(NextHop::V6LinkLocal(
            "2001:db8::53".parse().unwrap(),
            "fe80::1".parse().unwrap(),
        )),
        ..v4.clone()
    };
    for profile in ["frr", "frr-8.4", "cumulus", "generic", "openbgpd"] {
        assert_eq!(verdict(&flood, &v4, profile), Ok(()));
        assert_eq!(verdict(&flood, &v6, profile), Err(Withheld::Ipv6Pmsi));
        assert_eq!(
            verdict(&flood_v6, &v4, profile),
            Err(Withheld::Ipv6Originator)
        );
        let filter = profile.parse::<Profile>().unwrap().filter();
        assert_eq!(
            withdrawable(&flood_v6.key(), filter),
            Err(Withheld::Ipv6Originator)
        );
        assert_eq!(
            verdict(&flood, &link_local, profile),
            Err(Withheld::Ipv6NextHop)
        );
        assert_eq!(
            verdict(&of_type(6), &v4, profile),
            Err(Withheld::RouteType(6))
        );
        assert_eq!(
            verdict(&of_type(9), &v4, profile),
            Err(Withheld::RouteType(9))
        );
    }
    assert_eq!(verdict(&flood_v6, &v4, "frr-10.6"), Ok(()));
    assert_eq!(verdict(&flood_v6, &v6, "frr-10.6"), Err(Withheld::Ipv6Pmsi));
    assert_eq!(verdict(&flood_v6, &v6, "frr-10.7"), Ok(()));
    assert_eq!(verdict(&flood_v6, &v6, "gobgp"), Ok(()));
    for profile in ["frr-10.7", "gobgp"] {
        assert_eq!(
            verdict(&of_type(6), &v4, profile),
            Err(Withheld::RouteType(6))
        );
    }
    let nh6 = Attributes {
        next_hop: Some(NextHop::V6("2001:db8::53".parse().unwrap())),
        ..v4.clone()
    };
    for profile in ["frr-10.6", "gobgp", "weft"] {
        assert_eq!(verdict(&flood, &nh6, profile), Ok(()));
        assert_eq!(verdict(&flood, &link_local, profile), Ok(()));
    }
    for profile in ["generic", "exabgp", "frr", "cumulus"] {
        assert_eq!(verdict(&flood, &nh6, profile), Err(Withheld::Ipv6NextHop));
    }
    assert_eq!(verdict(&flood, &v6, "exabgp"), Err(Withheld::Ipv6Pmsi));
    for profile in ["weft", "bird", "junos"] {
        assert_eq!(verdict(&of_type(9), &v4, profile), Ok(()));
    }
}

/// BIRD 3.4 would keep routes of types 5 to 8 after their withdrawal.
#[test]
fn bird_is_told_nothing_of_types_5_to_8() {
    let attributes = with_tunnel("192.0.2.1");
    for route_type in [5, 6] {
        let route = of_type(route_type);
        let verdict = |profile: Profile| sendable(&route, &attributes, profile.filter());
        let withheld = Err(Withheld::RouteType(route_type));
        assert_eq!(verdict(Profile::Bird), withheld);
        for profile in [Profile::Weft, Profile::Eos, Profile::Junos] {
            assert_eq!(verdict(profile), Ok(()), "{profile}");
        }
    }
}

/// On any other type than 2 and 3 OpenBGPD 9.3 ends the session with 3/9; BIRD 3.4 keeps a type 5 that is withdrawn.
#[test]
fn openbgpd_is_told_types_2_and_3_bird_1_to_4_and_everybody_else_1_to_5() {
    let attributes = with_tunnel("192.0.2.1");
    for (name, profile) in NAMES {
        for number in 1..=5 {
            let route = of_type(number);
            let taken = match profile {
                Profile::OpenBgpd => matches!(number, 2 | 3),
                Profile::Bird => number != 5,
                _ => true,
            };
            let expected = match taken {
                true => Ok(()),
                false => Err(Withheld::RouteType(number)),
            };
            let filter = profile.filter();
            assert_eq!(sendable(&route, &attributes, filter), expected, "{name}");
            assert_eq!(withdrawable(&route.key(), filter), expected, "{name}");
        }
    }
}

fn group(profile: &str) -> UpdateGroup<Route> {
    let negotiated = DecodeContext {
        four_octet_as: true,
        ibgp: true,
        extended_message: false,
        add_path: AddPathSet::NONE,
    };
    let local = Local {
        asn: 64_496,
        router_id: RouterId(1),
        cluster_id: ClusterId(2),
    };
    let key = ExportKey {
        filter: profile.parse::<Profile>().unwrap().filter(),
        ..ExportKey::new(PeerKind::IbgpClient, &negotiated)
    };
    UpdateGroup::new(key, local)
}

fn source() -> Arc<Source> {
    let peer = PeerId {
        router_id: RouterId(3),
        asn: 64_496,
    };
    let address = [192, 0, 2, 1].into();
    Arc::new(Source::new(peer, address, PeerKind::IbgpClient))
}

/// Of two routes with the same attributes.
#[test]
fn a_peer_hears_of_types_1_whatever_it_exports() {
    let target = |number| ExtendedCommunity::route_target_as2(64_496, number);
    let attributes = Arc::new(Attributes {
        next_hop: Some(NextHop::V4([192, 0, 2, 1].into())),
        ext_communities: vec![target(1)],
        ..Attributes::default()
    });
    let mut table = Table::new();
    for number in [1, 3] {
        let (route, attributes) = (of_type(number), Arc::clone(&attributes));
        table.learn(&source(), 0, route, attributes);
    }
    let mut group = group("frr");
    let exports = Interest::of_exports([target(2)]);
    let member = Interest::of_memberships([Membership::exactly(64_496, target(2))]);
    let told = group.advertise(&table.select());
    let heard = |interest: &Interest| {
        let frames = told.frames.iter();
        let heard = frames.filter(|frame| frame.concerns.includes(interest));
        heard.map(|frame| frame.routes).sum::<u32>()
    };
    let all = heard(&Interest::Everything);
    assert_eq!((all, heard(&exports), heard(&member)), (2, 1, 0));
    for (_, path, _) in table.selected_since(0) {
        let is_told = group.explain(path, &exports).is_ok();
        assert_eq!(is_told, path.nlri.route_type() == 1);
    }
}

/// What it hears is the global half alone.
#[test]
fn a_next_hop_with_a_link_local_address_is_told_without_it() {
    let attributes = Attributes {
        next_hop: Some(NextHop::V6LinkLocal(
            "2001:db8::53".parse().unwrap(),
            "fe80::1".parse().unwrap(),
        )),
        ..Attributes::default()
    };
    let mut table = Table::new();
    table.learn(&source(), 0, of_type(3), Arc::new(attributes));
    let told = group("frr-10.6").advertise(&table.select());
    assert_eq!((told.frames.len(), told.frames[0].routes), (1, 1));
    // Behind the header and two lengths: MP_REACH_NLRI, whose own length is of one octet or two.
    let reach = &told.frames[0].octets[23..];
    assert_eq!((reach[0] & 0x80, reach[1]), (0x80, 14));
    let value = &reach[if reach[0] & 0x10 == 0 { 3 } else { 4 }..];
    assert_eq!(value[..4], [0, 25, 70, 16]);
}

/// GoBGP 3.10.0 loses the whole UPDATE, with the routes of other segments in it.
#[test]
fn a_segment_that_breaks_its_own_type_is_kept_from_gobgp() {
    let of = |first: u8, last: u8| {
        let key = crate::route::EthernetSegmentKey {
            rd: weft_bgp::rd::Rd::default(),
            esi: crate::Esi([first, 0, 0, 0x5e, 0, 0x53, 1, 0, 1, last]),
            originator: [192, 0, 2, 1].into(),
        };
        Route::EthernetSegment(crate::route::EthernetSegment { key })
    };
    let attributes = with_tunnel("192.0.2.1");
    for (first, last, odd) in [(1, 0, false), (1, 5, true), (2, 255, true), (3, 5, false)] {
        let route = of(first, last);
        let verdict = |profile: Profile| sendable(&route, &attributes, profile.filter());
        let expected = if odd {
            Err(Withheld::OddSegment)
        } else {
            Ok(())
        };
        for profile in [Profile::GoBgp, Profile::Generic] {
            assert_eq!(verdict(profile), expected, "{first} {last}");
            assert_eq!(withdrawable(&route.key(), profile.filter()), expected);
        }
        assert_eq!(verdict(Profile::Frr(FrrVersion::OLD)), Ok(()));
    }
}

#[test]
fn other_tunnels_are_for_those_who_know_them() {
    let mut attributes = with_tunnel("192.0.2.1");
    let tunnel = attributes.pmsi.as_mut().unwrap();
    tunnel.tunnel_type = 3;
    let refused = Err(Withheld::Tunnel(3));
    assert_eq!(sendable(&of_type(9), &attributes, TYPE_9), refused);
    let both = Filter(TYPE_9.0 | OTHER_TUNNELS.0);
    assert_eq!(sendable(&of_type(9), &attributes, both), Ok(()));
}

#[test]
fn only_eos_is_sent_the_default_route_target_alone() {
    let alone = |(_, profile): &&(&str, Profile)| profile.default_route_target_only();
    let names: Vec<_> = NAMES.iter().filter(alone).map(|(name, _)| *name).collect();
    assert_eq!(names, ["eos"]);
}

#[test]
fn who_is_known_to_read_all_forms_of_attributes_is_sent_them() {
    let named = |forms| {
        let of = |(_, profile): &&(&str, Profile)| profile.attribute_forms() == forms;
        let names = NAMES.iter().filter(of).map(|(name, _)| *name);
        names.collect::<Vec<_>>()
    };
    let all = ["bird", "eos", "sr-linux", "junos", "weft"];
    assert_eq!(named(AttributeForms::All), all);
    assert_eq!(named(AttributeForms::PlainWithoutServices), ["exabgp"]);
    let frr = "frr-10.7".parse::<Profile>().unwrap();
    assert_eq!(frr.attribute_forms(), AttributeForms::Plain);
}

#[test]
fn an_frr_that_reads_one_form_of_link_bandwidth_is_sent_that() {
    let form = |profile: &str| profile.parse::<Profile>().unwrap().link_bandwidth();
    for profile in ["frr-10.3", "frr-10.4", "frr-10.5"] {
        assert_eq!(form(profile), LinkBandwidthForm::Transitive, "{profile}");
    }
    for profile in ["frr", "frr-8.4", "frr-10.2", "frr-10.6", "gobgp", "generic"] {
        assert_eq!(form(profile), LinkBandwidthForm::AsIs, "{profile}");
    }
}

#[test]
fn a_reason_is_a_sentence() {
    assert_eq!(
        Withheld::RouteType(6).to_string(),
        "the profile does not take the route type 6"
    );
    assert_eq!(
        Withheld::Ipv6Pmsi.to_string(),
        "the profile does not take the PMSI tunnel to an IPv6 address"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// What may be announced may be withdrawn, and a set bit never takes away.
    #[test]
    fn a_bit_permits(route in any_route(), fewer: u32, more: u32) {
        let attributes = with_tunnel("192.0.2.1");
        let verdict = |bits| sendable(&route, &attributes, Filter(bits)).is_ok();
        if verdict(fewer) {
            prop_assert!(verdict(fewer | more));
            prop_assert!(withdrawable(&route.key(), Filter(fewer)).is_ok());
        }
        prop_assert!(verdict(u32::MAX));
        prop_assert_eq!(route.sendable(&attributes, Filter(fewer)), verdict(fewer));
    }
}
