//! How a peer is told what it is told: its configuration, its profile and what was negotiated as one export key for
//! each family. Knows no route, no socket and no time.

use std::net::IpAddr;

use bytes::Bytes;
use weft_bgp::attribute::{AsPath, Attributes, NextHop, Reach};
use weft_bgp::capability::Capability;
use weft_bgp::decision::DEFAULT_LOCAL_PREF;
use weft_bgp::family::Family;
use weft_bgp::message::Message;
use weft_bgp::message::update::Update;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::{Membership, OTHERS_MEMBERSHIPS};
use weft_bgp::nlri::unicast::IPV4_OVER_IPV6;
use weft_bgp::reflect::{Filter, Local, PathsTold};
use weft_bgp::session::Negotiated;
use weft_bgp::table::PeerKind;
use weft_bgp::update_group::ExportKey;
use weft_bgp::wire::Writer;
use weft_evpn::profile::{OPAQUE, Profile, Why};

use crate::config::{AddPath, PeerGroup};
use crate::southbound::link_bandwidth::Dialect;

/// How one peer is told.
#[derive(Clone, Debug)]
pub struct Exports {
    /// Of no family yet.
    key: ExportKey,
    add_path: AddPath,
    negotiated: Negotiated,
    opaque: bool,
    local_asn: u32,
    /// Our end of the session, where it is known.
    address: Option<IpAddr>,
    /// What runs on the peer.
    pub profile: Profile,
    /// How that is known.
    pub why: Why,
}

impl Exports {
    /// Of a peer of this group and kind. Destructured, so that a new knob does not compile until someone decides whether
    /// it changes what is told.
    pub fn of(group: &PeerGroup, kind: PeerKind, local: &Local, negotiated: &Negotiated) -> Self {
        let PeerGroup {
            name: _,
            description: _,
            shutdown: _,
            remote_asn: _,
            families: _,
            hold: _,
            connect_retry: _,
            passive: _,
            port: _,
            route_reflector_client: _, // said by `kind`, as the next
            route_server_client: _,
            local_as,
            allow_as_in: _,
            source_address: _,
            password_file: _,
            tcp_ao: _,
            ttl: _,
            bfd: _,
            graceful_restart: _,
            long_lived_secs: _, // what we keep; what the peer knows is in its OPEN
            graceful_shutdown,
            add_path,
            software_version: _,
            extended_messages: _,
            fqdn: _,
            route_target_filter: _, // an interest, not a key
            profile,
            opaque_relay,
            strict: _,
            guard: _,
            link_bandwidth,
            attributes,
            limits: _,
        } = group;
        let (profile, why) = match profile {
            Some(profile) => (*profile, Why::Configured),
            None => Profile::choose(&negotiated.peer_capabilities),
        };
        let long_lived = |it: &Capability| matches!(it, Capability::LongLivedGracefulRestart(_));
        let key = ExportKey {
            link_bandwidth: link_bandwidth.unwrap_or_else(|| profile.link_bandwidth()),
            local_as: local_as.filter(|_| kind == PeerKind::Ebgp),
            long_lived: negotiated.peer_capabilities.iter().any(long_lived),
            graceful_shutdown: *graceful_shutdown,
            attributes: attributes.filter(profile.attribute_forms()),
            ..ExportKey::new(kind, &negotiated.decode)
        };
        Self {
            key,
            add_path: add_path.clone(),
            negotiated: negotiated.clone(),
            opaque: *opaque_relay,
            local_asn: local_as.map_or(local.asn, |shown| shown.asn),
            address: None,
            profile,
            why,
        }
    }

    /// What a peer is told over a session whose end is at this address of ours.
    pub fn from(self, address: IpAddr) -> Self {
        Self {
            address: Some(address),
            ..self
        }
    }

    /// What a peer is told that ended a session over an UPDATE: what was guessed of it is not believed.
    pub fn doubted(self) -> Self {
        match self.why {
            Why::Capabilities(_) => Self {
                profile: self.profile.doubted(),
                why: Why::Doubted,
                ..self
            },
            Why::Configured | Why::SoftwareVersion(_) | Why::Doubted | Why::Unknown => self,
        }
    }

    /// Whether an UPDATE that the peer does not take may be the fault of a guess.
    pub fn is_guess(&self) -> bool {
        matches!(self.why, Why::Capabilities(_))
    }

    /// The key of a family.
    pub fn key(&self, family: Family) -> ExportKey {
        let several = self.negotiated.add_path_send.contains(family);
        let told = self.add_path.max.map_or(PathsTold::All, PathsTold::Best);
        ExportKey {
            filter: self.filter(family),
            add_path: several.then_some(told),
            next_hop: self.next_hop(family),
            ..self.key.clone()
        }
    }

    /// Our own address as next hop: of memberships, RFC 4684 §3.2, and of unicast routes to a peer of another AS that is
    /// no client of a route server, RFC 4271 §5.1.3, if the family has next hops of that kind. The next hop of EVPN is a
    /// VTEP and stays.
    fn next_hop(&self, family: Family) -> Option<NextHop> {
        let plain = self.key.kind == PeerKind::Ebgp;
        let over_ipv6 = self.negotiated.ipv4_over_ipv6;
        match (family, self.address?) {
            (Family::RTC, IpAddr::V4(ours)) => Some(NextHop::V4(ours)),
            (Family::RTC, IpAddr::V6(ours)) => Some(NextHop::V6(ours)),
            (Family::IPV4_UNICAST, IpAddr::V4(ours)) if plain => Some(NextHop::V4(ours)),
            (Family::IPV4_UNICAST, IpAddr::V6(ours)) if plain && over_ipv6 => {
                Some(NextHop::V6(ours))
            }
            (Family::IPV6_UNICAST, IpAddr::V6(ours)) if plain => Some(NextHop::V6(ours)),
            _ => None,
        }
    }

    /// How weights are said in a family; None: the peer takes no several paths of it, or all that we tell it is about to go.
    pub fn weights(&self, family: Family) -> Option<Dialect> {
        let unicast = matches!(family, Family::IPV4_UNICAST | Family::IPV6_UNICAST);
        let several = unicast && self.negotiated.add_path_send.contains(family);
        (several && !self.key.graceful_shutdown).then(|| Dialect {
            family,
            asn: self.local_asn,
            context: self.key.context(),
            max_len: self.key.max_len,
            form: self.key.link_bandwidth,
        })
    }

    fn filter(&self, family: Family) -> Filter {
        let when = |set: bool, bits: u32| if set { bits } else { 0 };
        Filter(match family {
            Family::L2VPN_EVPN => self.profile.filter().0 | when(self.opaque, OPAQUE.0),
            Family::IPV4_UNICAST => when(self.negotiated.ipv4_over_ipv6, IPV4_OVER_IPV6),
            Family::RTC => {
                let others = !self.profile.default_route_target_only();
                when(others, OTHERS_MEMBERSHIPS)
            }
            _ => 0,
        })
    }

    /// What we say of a family ourselves, whatever others say: of route target membership, that we want everything, with
    /// our end of the session as next hop. RFC 4684 §3.2.
    ///
    /// Not to a peer that does not take it, such as an old GoBGP: it is told what others wish for.
    pub fn preface(&self, family: Family, address: IpAddr) -> Option<Bytes> {
        if family != Family::RTC || !self.profile.takes_default_route_target() {
            return None;
        }
        let external = self.key.kind.is_external();
        let mut nlri = Writer::new();
        Membership::DEFAULT.encode(&mut nlri);
        let next_hop = match address {
            IpAddr::V4(address) => NextHop::V4(address),
            IpAddr::V6(address) => NextHop::V6(address),
        };
        let update = Update {
            reach: Some(Reach {
                family,
                next_hop,
                nlri: nlri.finish(),
            }),
            attributes: Attributes {
                as_path: AsPath::sequence(if external {
                    std::slice::from_ref(&self.local_asn)
                } else {
                    &[]
                }),
                local_pref: (!external).then_some(DEFAULT_LOCAL_PREF),
                ..Attributes::default()
            },
            ..Update::default()
        };
        Some(Message::Update(Box::new(update)).encode(&self.key.context()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::time::Duration;

    use bytes::BytesMut;
    use weft_bgp::attribute::{AttributeFilter, AttributeForms, ExtendedCommunity};
    use weft_bgp::capability::AddPathSet;
    use weft_bgp::constrain::Interest;
    use weft_bgp::frame;
    use weft_bgp::message::DecodeContext;
    use weft_bgp::nlri;
    use weft_bgp::peer::{ClusterId, PeerId, RouterId};
    use weft_bgp::reflect::LocalAs;
    use weft_bgp::table::{Source, Table};
    use weft_bgp::update_group::{Frame, UpdateGroup};
    use weft_evpn::profile::FrrVersion;

    use super::*;
    use crate::config::AttributeLists;

    const LOCAL: Local = Local {
        asn: 64_496,
        router_id: RouterId(0xc000_02fe),
        cluster_id: ClusterId(0xc000_02ff),
    };
    const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 254));

    /// A session of EVPN and route target membership with a peer in this AS.
    fn negotiated(asn: u32, peer_capabilities: Vec<Capability>) -> Negotiated {
        let ibgp = asn == LOCAL.asn;
        Negotiated {
            peer: PeerId {
                router_id: RouterId(0xc000_0201),
                asn,
            },
            ibgp,
            hold: Duration::from_secs(9),
            keepalive: Duration::from_secs(3),
            send_hold: Duration::from_secs(480),
            families: vec![Family::L2VPN_EVPN, Family::RTC],
            decode: DecodeContext {
                four_octet_as: true,
                ibgp,
                extended_message: false,
                add_path: AddPathSet::NONE,
            },
            max_len: frame::MAX_LEN,
            route_refresh: true,
            enhanced_route_refresh: true,
            add_path_receive: AddPathSet::NONE,
            add_path_send: AddPathSet::NONE,
            ipv4_over_ipv6: false,
            graceful_restart: None,
            restart_after_notification: false,
            long_lived: Vec::new(),
            peer_capabilities,
        }
    }

    fn group(profile: Option<Profile>) -> PeerGroup {
        PeerGroup {
            profile,
            ..PeerGroup::new("leaves".to_owned())
        }
    }

    /// Of a client, on which this runs.
    fn client(profile: Profile) -> Exports {
        let negotiated = negotiated(LOCAL.asn, Vec::new());
        Exports::of(
            &group(Some(profile)),
            PeerKind::IbgpClient,
            &LOCAL,
            &negotiated,
        )
    }

    /// What we say ourselves of route target membership, read back: its memberships, and the rest.
    fn said(exports: &Exports, address: IpAddr) -> Option<(Vec<Membership>, NextHop, Attributes)> {
        let octets = exports.preface(Family::RTC, address)?;
        let mut octets = BytesMut::from(&octets[..]);
        let message = frame::split(&mut octets, frame::MAX_LEN).unwrap().unwrap();
        assert!(octets.is_empty(), "one message");
        let Message::Update(update) = Message::decode(message, &exports.key.context()).unwrap()
        else {
            panic!("an UPDATE");
        };
        assert_eq!(update.faults, []);
        let reach = update.reach.unwrap();
        assert_eq!(reach.family, Family::RTC);
        let mut memberships = Vec::new();
        let each = |path_id, membership| {
            assert_eq!(path_id, 0);
            memberships.push(membership);
        };
        let discarded = |error| panic!("{error:?}");
        nlri::decode_all::<Membership>(&reach.nlri, false, each, discarded).unwrap();
        Some((memberships, reach.next_hop, update.attributes))
    }

    /// Which memberships of another client the peer is told: an ordinary one, and the default.
    fn told_of_others(exports: &Exports) -> [bool; 2] {
        let target = ExtendedCommunity::route_target_as2(64_496, 100);
        let memberships = [Membership::exactly(LOCAL.asn, target), Membership::DEFAULT];
        let other = PeerId {
            router_id: RouterId(0xc000_0202),
            asn: LOCAL.asn,
        };
        let address = Ipv4Addr::new(192, 0, 2, 2);
        let source = Arc::new(Source::new(other, address.into(), PeerKind::IbgpClient));
        let attributes = Arc::new(Attributes {
            next_hop: Some(NextHop::V4(address)),
            local_pref: Some(100),
            ..Attributes::default()
        });
        let mut table = Table::new();
        for membership in memberships {
            table.learn(&source, 0, membership, Arc::clone(&attributes));
        }
        table.select();
        let group = UpdateGroup::new(exports.key(Family::RTC), LOCAL);
        memberships.map(|membership| {
            let path = table.get(&membership).unwrap().selected.unwrap();
            group.explain(path, &Interest::Everything).is_ok()
        })
    }

    /// RFC 4684 §3.2. The octets are compared too: one bit of a length makes another wish of it.
    #[test]
    fn an_ordinary_client_is_told_that_we_want_everything_and_what_others_want() {
        let exports = client(Profile::Generic);
        let (memberships, next_hop, attributes) = said(&exports, OURS).unwrap();
        assert_eq!(memberships, [Membership::DEFAULT]);
        assert_eq!(next_hop, NextHop::V4(Ipv4Addr::new(192, 0, 2, 254)));
        assert_eq!(attributes.local_pref, Some(DEFAULT_LOCAL_PREF));
        assert_eq!(attributes.as_path, AsPath::default());
        let octets = exports.preface(Family::RTC, OURS).unwrap();
        // AFI 1, SAFI 132, the next hop, and a membership of no bits.
        let reach = [0, 1, 132, 4, 192, 0, 2, 254, 0, 0];
        let is_there = octets.windows(reach.len()).any(|window| window == reach);
        assert!(is_there, "{octets:02x?}");
        assert_eq!(told_of_others(&exports), [true, false]);
    }

    #[test]
    fn the_next_hop_of_what_we_say_is_our_end_of_an_ipv6_session_too() {
        let address = "2001:db8::fe".parse().unwrap();
        let (memberships, next_hop, _) = said(&client(Profile::Generic), address).unwrap();
        assert_eq!(memberships, [Membership::DEFAULT]);
        let IpAddr::V6(address) = address else {
            unreachable!("it is written so above");
        };
        assert_eq!(next_hop, NextHop::V6(address));
    }

    /// RFC 4684 §3.2, rule ii: once a non-client wants what clients want, it must hear of the clients all the same.
    #[test]
    fn a_non_client_is_told_a_clients_membership_whatever_a_non_client_wants() {
        let mut table = Table::new();
        let target = ExtendedCommunity::route_target_as2(64_496, 100);
        let wish = Membership::exactly(LOCAL.asn, target);
        let next_hop = |number: u8| NextHop::V4(Ipv4Addr::new(192, 0, 2, number));
        let mut wants = |number: u8, kind| {
            let address = Ipv4Addr::new(192, 0, 2, number);
            let peer = PeerId {
                router_id: address.into(),
                asn: LOCAL.asn,
            };
            let source = Arc::new(Source::new(peer, address.into(), kind));
            let attributes = Attributes {
                next_hop: Some(next_hop(number)),
                // The non-client's is preferred by every other rule.
                local_pref: Some(if number == 1 { 200 } else { 100 }),
                ..Attributes::default()
            };
            table.learn(&source, 0, wish, Arc::new(attributes));
            table.select()
        };
        let exports = |kind| {
            let negotiated = negotiated(LOCAL.asn, Vec::new());
            Exports::of(&group(Some(Profile::GoBgp)), kind, &LOCAL, &negotiated).from(OURS)
        };
        let mut outside = UpdateGroup::<Membership>::new(
            exports(PeerKind::IbgpNonClient).key(Family::RTC),
            LOCAL,
        );
        let first = outside.advertise(&wants(2, PeerKind::IbgpClient));
        assert_eq!(first.frames.len(), 1, "the client's");
        let changes = wants(1, PeerKind::IbgpNonClient);
        let withdrawn =
            |frames: &[Frame]| frames.iter().map(|frame| frame.withdrawals).sum::<u32>();
        let second = outside.advertise(&changes);
        assert_eq!(
            withdrawn(&second.frames),
            0,
            "it is still told the client's"
        );
    }

    /// RFC 4684 §3.2, rule i.
    #[test]
    fn the_next_hop_of_others_memberships_is_our_end_of_the_session() {
        let key = client(Profile::Frr(FrrVersion::OLD))
            .from(OURS)
            .key(Family::RTC);
        assert_eq!(
            key.next_hop,
            Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, 254)))
        );
    }

    /// RFC 4271 §5.1.3.
    #[test]
    fn our_end_of_the_session_is_the_next_hop_of_unicast_routes_to_plain_peers_of_another_as() {
        let ours6: IpAddr = "2001:db8::fe".parse().unwrap();
        let next_hop = |kind, family, address, over_ipv6| {
            let mut negotiated = negotiated(64_497, Vec::new());
            negotiated.ipv4_over_ipv6 = over_ipv6;
            let exports = Exports::of(&group(None), kind, &LOCAL, &negotiated);
            exports.from(address).key(family).next_hop.is_some()
        };
        let (v4, v6) = (Family::IPV4_UNICAST, Family::IPV6_UNICAST);
        for kind in [PeerKind::Ebgp, PeerKind::RouteServerClient] {
            let plain = kind == PeerKind::Ebgp;
            assert_eq!(next_hop(kind, v4, OURS, false), plain);
            assert_eq!(next_hop(kind, v6, ours6, false), plain);
            assert_eq!(next_hop(kind, v4, ours6, true), plain);
            // There is no such next hop in the family: that of the route stays.
            assert!(!next_hop(kind, v4, ours6, false));
            assert!(!next_hop(kind, v6, OURS, false));
            assert!(!next_hop(kind, Family::L2VPN_EVPN, OURS, false));
        }
    }

    #[test]
    fn what_an_open_shows_is_not_believed_after_a_session_that_ended_over_an_update() {
        let frr = ["frr-10.7", "frr"].map(|name| name.parse::<Profile>().unwrap());
        let unknown = |code| Capability::Unknown {
            code,
            value: Bytes::new(),
        };
        let (host, domain) = ("leaf1".to_owned(), String::new());
        let offered = vec![
            Capability::EnhancedRouteRefresh,
            unknown(76),
            Capability::Fqdn { host, domain },
        ];
        let kind = PeerKind::IbgpClient;
        let negotiated = negotiated(LOCAL.asn, offered);
        let guessed = Exports::of(&group(None), kind, &LOCAL, &negotiated);
        assert_eq!((guessed.profile, guessed.is_guess()), (frr[0], true));
        let doubted = guessed.doubted();
        assert_eq!((doubted.profile, doubted.is_guess()), (frr[1], false));
        // Somebody says so: that holds.
        let configured = Exports::of(&group(Some(frr[0])), kind, &LOCAL, &negotiated);
        assert_eq!(configured.doubted().profile, frr[0]);
    }

    #[test]
    fn a_gobgp_that_says_that_it_is_a_new_one_is_told_the_default_membership() {
        let version = Capability::SoftwareVersion("GoBGP/4.8.0".to_owned());
        let negotiated = negotiated(LOCAL.asn, vec![version]);
        let exports = Exports::of(&group(None), PeerKind::IbgpClient, &LOCAL, &negotiated);
        let (memberships, ..) = said(&exports, OURS).unwrap();
        assert_eq!(memberships, [Membership::DEFAULT]);
    }

    /// It would die of our own, and is told of others instead.
    #[test]
    fn gobgp_is_told_what_others_want_and_never_the_default_membership() {
        let configured = client(Profile::GoBgp);
        let version = Capability::SoftwareVersion("GoBGP/3.10.0".to_owned());
        let recognised = negotiated(LOCAL.asn, vec![version]);
        let kind = PeerKind::IbgpClient;
        let recognised = Exports::of(&group(None), kind, &LOCAL, &recognised);
        for exports in [configured, recognised] {
            assert_eq!(exports.profile, Profile::GoBgp, "{}", exports.why);
            assert_eq!(exports.preface(Family::RTC, OURS), None);
            assert_eq!(told_of_others(&exports), [true, false]);
        }
    }

    /// It would take what others want for all that we want.
    #[test]
    fn eos_is_told_that_we_want_everything_and_nothing_else() {
        let exports = client(Profile::Eos);
        let (memberships, ..) = said(&exports, OURS).unwrap();
        assert_eq!(memberships, [Membership::DEFAULT]);
        assert_eq!(told_of_others(&exports), [false, false]);
    }

    /// Whoever does not know the family is told its other families, and of them we have nothing to say ourselves.
    #[test]
    fn there_is_no_preface_to_any_other_family() {
        for profile in [Profile::Generic, Profile::GoBgp, Profile::Eos] {
            for family in [
                Family::L2VPN_EVPN,
                Family::IPV4_UNICAST,
                Family::IPV6_UNICAST,
            ] {
                assert_eq!(client(profile).preface(family, OURS), None, "{family}");
                let filter = client(profile).key(family).filter;
                assert_eq!(filter.0 & OTHERS_MEMBERSHIPS, 0, "{family}");
            }
        }
    }

    /// By the lists of the group, and the forms that its profile reads.
    #[test]
    fn the_lists_of_a_group_say_which_attributes_its_peers_are_told() {
        let negotiated = negotiated(LOCAL.asn, Vec::new());
        let filter = |profile, pass: &[u8], drop: &[u8]| {
            let group = PeerGroup {
                attributes: AttributeLists {
                    pass: pass.iter().copied().collect(),
                    drop: drop.iter().copied().collect(),
                },
                ..group(Some(profile))
            };
            let exports = Exports::of(&group, PeerKind::IbgpClient, &LOCAL, &negotiated);
            exports.key(Family::L2VPN_EVPN).attributes
        };
        let default = filter(Profile::Junos, &[], &[]);
        assert_eq!(default, AttributeFilter::default());
        let other = filter(Profile::Junos, &[35], &[40]);
        assert!(other.passes(35) && other.passes(36) && !other.passes(40));
        assert_ne!(default, other, "another group of updates");
        assert_eq!(
            filter(Profile::Generic, &[], &[]).forms,
            AttributeForms::Plain
        );
    }

    /// RFC 4271 §5.1.2 and §5.1.5.
    #[test]
    fn an_external_peer_is_told_by_the_as_that_it_knows_us_by_and_no_preference() {
        let shown = LocalAs {
            asn: 4_200_000_000,
            no_prepend: false,
            replace_as: false,
        };
        for (local_as, asn) in [(None, LOCAL.asn), (Some(shown), shown.asn)] {
            for (kind, four_octet_as) in [
                (PeerKind::Ebgp, true),
                (PeerKind::Ebgp, false),
                (PeerKind::RouteServerClient, true),
            ] {
                let group = PeerGroup {
                    local_as,
                    ..group(None)
                };
                let mut negotiated = negotiated(64_497, Vec::new());
                negotiated.decode.four_octet_as = four_octet_as;
                let exports = Exports::of(&group, kind, &LOCAL, &negotiated);
                let (memberships, next_hop, attributes) = said(&exports, OURS).unwrap();
                assert_eq!(memberships, [Membership::DEFAULT]);
                assert_eq!(next_hop, NextHop::V4(Ipv4Addr::new(192, 0, 2, 254)));
                let path = AsPath::sequence(&[asn]);
                assert_eq!(attributes.as_path, path, "{kind} {four_octet_as}");
                assert_eq!(attributes.local_pref, None);
            }
        }
    }
}
