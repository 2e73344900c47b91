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

/// How one peer is told.
#[derive(Clone, Debug)]
pub struct Exports {
    /// Of no family yet.
    key: ExportKey,
    add_path: AddPath,
    negotiated: Negotiated,
    opaque: bool,
    local_asn: u32,
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
            ..ExportKey::new(kind, &negotiated.decode)
        };
        Self {
            key,
            add_path: add_path.clone(),
            negotiated: negotiated.clone(),
            opaque: *opaque_relay,
            local_asn: local_as.map_or(local.asn, |shown| shown.asn),
            profile,
            why,
        }
    }

    /// The key of a family.
    pub fn key(&self, family: Family) -> ExportKey {
        let several = self.negotiated.add_path_send.contains(family);
        let told = self.add_path.max.map_or(PathsTold::All, PathsTold::Best);
        ExportKey {
            filter: self.filter(family),
            add_path: several.then_some(told),
            ..self.key.clone()
        }
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
    /// Not to GoBGP: 3.10.0 reads the target of the default membership, which has none, as soon as another membership comes
    /// or goes, and dies of that (measured: nil dereference in `propagateUpdate`). It tells us what others wish for.
    pub fn preface(&self, family: Family, address: IpAddr) -> Option<Bytes> {
        if family != Family::RTC || self.profile == Profile::GoBgp {
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
