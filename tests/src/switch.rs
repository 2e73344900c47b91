//! A model switch: what it announces, and to whom it speaks. Knows EVPN as a leaf does; not what
//! becomes of its routes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use weft_bgp::attribute::{Attributes, LargeCommunity, NextHop, PmsiTunnel, Reach, Unreach};
use weft_bgp::family::Family;
use weft_bgp::message::update::Update;
use weft_bgp::message::{DecodeContext, Message};
use weft_bgp::nlri::Nlri;
use weft_bgp::peer::{PeerId, RouterId};
use weft_bgp::rd::Rd;
use weft_bgp::wire::Writer;
use weft_controller::reflector::owner::Parting;
use weft_evpn::community::{Encapsulation, MacMobility, RouteTarget};
use weft_evpn::route::{InclusiveMulticast, InclusiveMulticastKey, Labels, MacIp, MacIpKey};
use weft_evpn::{Esi, EthernetTag, Label, Mac, Route, RouteKey};

use crate::random::Random;
use crate::stake;

/// One leaf.
pub(crate) struct Switch {
    pub(crate) peer: PeerId,
    pub(crate) address: IpAddr,
    vtep: Ipv4Addr,
    pub(crate) context: DecodeContext,
    /// To which replicas it is configured to speak.
    pub(crate) replicas: Vec<u64>,
    /// Whether it says End-of-RIB.
    pub(crate) ends: bool,
    /// Whether its routes are to outlive its sessions for a while. RFC 4724, RFC 9494.
    restarts: bool,
    pub(crate) alive: bool,
    /// What it announces, since when without a break, and under which version.
    pub(crate) routes: BTreeMap<RouteKey, Announced>,
    versions: u64,
}

/// One announced route.
#[derive(Clone)]
pub(crate) struct Announced {
    pub(crate) route: Route,
    pub(crate) attributes: Attributes,
    pub(crate) since: u64,
    /// Since when as it is now.
    pub(crate) changed: u64,
}

impl Switch {
    pub(crate) fn new(number: u8, replicas: Vec<u64>, random: &mut Random) -> Self {
        let vtep = Ipv4Addr::new(192, 0, 2, number);
        Self {
            peer: PeerId {
                router_id: RouterId::from(vtep),
                asn: ASN,
            },
            address: Ipv4Addr::new(198, 51, 100, number).into(),
            vtep,
            context: DecodeContext {
                four_octet_as: true,
                ibgp: true,
                extended_message: random.permille(300),
                add_path: weft_bgp::capability::AddPathSet::NONE,
            },
            replicas,
            ends: random.permille(800),
            restarts: random.permille(500),
            alive: true,
            routes: BTreeMap::new(),
            versions: 0,
        }
    }

    /// What the end of its last session means for its routes.
    pub(crate) fn parting(&self) -> Parting {
        match self.restarts {
            true => stake::restarting(),
            false => Parting::Gone,
        }
    }

    /// Announces a route again with other attributes, or another one.
    pub(crate) fn announce(&mut self, key: RouteKey, sequence: u32, now: u64) -> Bytes {
        self.versions += 1;
        let (route, attributes) = self.build(&key, sequence);
        let since = self.routes.get(&key).map_or(now, |before| before.since);
        let announced = Announced {
            route,
            attributes,
            since,
            changed: now,
        };
        let octets = self.encode(&announced);
        self.routes.insert(key, announced);
        octets
    }

    pub(crate) fn withdraw(&mut self, key: &RouteKey) -> Option<Bytes> {
        self.routes.remove(key)?;
        let mut nlri = Writer::new();
        Route::encode_withdraw(key, &mut nlri);
        let unreach = Unreach {
            family: Family::L2VPN_EVPN,
            nlri: nlri.finish(),
        };
        let update = Update {
            unreach: Some(unreach),
            ..Update::default()
        };
        Some(Message::Update(Box::new(update)).encode(&self.context))
    }

    /// Everything, for a session that has just been established.
    pub(crate) fn table(&self) -> Vec<Bytes> {
        let mut messages: Vec<_> = self.routes.values().map(|it| self.encode(it)).collect();
        if self.ends {
            let end = Message::Update(Box::new(Update::end_of_rib(Family::L2VPN_EVPN)));
            messages.push(end.encode(&self.context));
        }
        messages
    }

    fn encode(&self, announced: &Announced) -> Bytes {
        let mut nlri = Writer::new();
        announced.route.encode(&mut nlri);
        let mut attributes = announced.attributes.clone();
        let next_hop = attributes.next_hop.take().expect("built with one");
        let reach = Reach {
            family: Family::L2VPN_EVPN,
            next_hop,
            nlri: nlri.finish(),
        };
        let update = Update {
            reach: Some(reach),
            attributes,
            ..Update::default()
        };
        Message::Update(Box::new(update)).encode(&self.context)
    }

    fn build(&self, key: &RouteKey, sequence: u32) -> (Route, Attributes) {
        let label = Label([0, 0, 100]);
        let mut attributes = Attributes {
            next_hop: Some(NextHop::V4(self.vtep)),
            local_pref: Some(100),
            ext_communities: vec![
                RouteTarget::two_octet_as(64_496, 100).octets(),
                Encapsulation::new(Encapsulation::VXLAN).octets(),
                MacMobility::new(false, sequence).octets(),
            ],
            large_communities: vec![LargeCommunity {
                global: self.peer.router_id.0,
                local1: u32::try_from(self.versions).expect("few versions"),
                local2: 0,
            }],
            ..Attributes::default()
        };
        let route = match key {
            RouteKey::InclusiveMulticast(key) => {
                let tunnel = PmsiTunnel::ingress_replication(label.0, self.vtep.into());
                attributes.pmsi = Some(tunnel);
                Route::InclusiveMulticast(InclusiveMulticast { key: *key })
            }
            RouteKey::MacIp(key) => Route::MacIp(MacIp {
                key: *key,
                esi: Esi([0; 10]),
                labels: Labels::One(label),
            }),
            other => panic!("model switches announce types 2 and 3 only, not {other}"),
        };
        (route, attributes)
    }

    /// A key that only this switch announces.
    pub(crate) fn own_key(&self, number: u64) -> RouteKey {
        let rd = Rd::from_ipv4(self.vtep, 1);
        if number == 0 {
            return RouteKey::InclusiveMulticast(InclusiveMulticastKey {
                rd,
                tag: EthernetTag(0),
                originator: self.vtep.into(),
            });
        }
        let [.., a, b] = number.to_be_bytes();
        let mac = Mac([0, 0, 0x5e, 0, a, b]);
        mac_ip(rd, mac)
    }

    /// Whether `key` is this switch's alone.
    pub(crate) fn owns(&self, key: &RouteKey) -> bool {
        *key.rd() == Rd::from_ipv4(self.vtep, 1)
    }
}

/// A key that every switch may announce: a host that moves.
pub(crate) fn shared_key(number: u8) -> RouteKey {
    let mac = Mac([0, 0, 0x5e, 0x53, 0, number]);
    mac_ip(Rd::from_as2(64_496, 7), mac)
}

fn mac_ip(rd: Rd, mac: Mac) -> RouteKey {
    RouteKey::MacIp(MacIpKey {
        rd,
        tag: EthernetTag(0),
        mac,
        ip: None,
    })
}

/// Which announcement it is: the large community that its switch put there.
pub(crate) fn version(attributes: &Attributes) -> Option<LargeCommunity> {
    attributes.large_communities.first().copied()
}

/// AS of the fabric, RFC 5398.
pub(crate) const ASN: u32 = 64_496;
