//! The load: who announces which routes, and their octets. Each route has an index, which its MAC
//! carries, so that a receiver can tick it off. Knows no socket and no clock.

use std::net::Ipv4Addr;

use bytes::Bytes;
use weft_bgp::{
    attribute::{Attributes, NextHop, Reach, Unreach},
    capability::Capability,
    family::Family,
    message::{DecodeContext, Message, Open, Update},
    nlri::Nlri,
    peer::RouterId,
    rd::Rd,
    wire::Writer,
};
use weft_evpn::{
    community::{Encapsulation, RouteTarget},
    esi::Esi,
    mac::Mac,
    route::{Labels, MacIp, MacIpKey, Route},
    vni::{EthernetTag, Label},
};

use crate::failure::Failure;

/// `routes` type-2 routes, spread evenly over speakers and VNIs, and a few that come and go later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) speakers: u32,
    /// All routes together, without the extras.
    pub(crate) routes: u32,
    per_speaker: u32,
    per_vni: u32,
}

/// What the wire must say of one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) next_hop: [u8; 4],
    pub(crate) rd: [u8; 8],
    pub(crate) ip: [u8; 4],
    pub(crate) label: [u8; 3],
}

impl Load {
    /// Every speaker must have the same number of routes in every VNI.
    pub(crate) fn new(speakers: u32, routes: u32, vnis: u32) -> Result<Self, Failure> {
        let parts = speakers.saturating_mul(vnis);
        if !(2..=SPEAKERS_MAX).contains(&speakers) {
            return Err(Failure::new(format!(
                "{speakers} speakers, not 2 to {SPEAKERS_MAX}"
            )));
        }
        if parts == 0 || !routes.is_multiple_of(parts) || routes == 0 || vnis > VNIS_MAX {
            return Err(Failure::new(format!(
                "{routes} routes do not divide by {speakers} speakers and {vnis} VNIs"
            )));
        }
        if routes > ROUTES_MAX || routes / parts > PER_UPDATE_MAX {
            return Err(Failure::new(format!(
                "more than {ROUTES_MAX} routes, or than {PER_UPDATE_MAX} per speaker and VNI"
            )));
        }
        Ok(Self {
            speakers,
            routes,
            per_speaker: routes / speakers,
            per_vni: routes / parts,
        })
    }

    /// How many indexes there are: the routes, then the extras, then the sentinel.
    pub(crate) fn indexes(&self) -> u32 {
        self.routes + EXTRAS + 1
    }

    /// The index of an extra route.
    pub(crate) fn extra(&self, number: u32) -> u32 {
        assert!(number < EXTRAS, "an extra beyond those foreseen");
        self.routes + number
    }

    /// The extra that is announced last: who has it has seen all before it.
    pub(crate) fn sentinel(&self) -> u32 {
        self.routes + EXTRAS
    }

    /// The speaker that announces the extras.
    pub(crate) fn announcer(&self) -> u32 {
        self.speakers / 2
    }

    /// How many routes this speaker must get from the others. A speaker beyond the last has none of
    /// its own.
    pub(crate) fn foreign(&self, speaker: u32) -> u32 {
        if speaker < self.speakers {
            self.routes - self.per_speaker
        } else {
            self.routes
        }
    }

    pub(crate) fn owner(&self, index: u32) -> u32 {
        if index < self.routes {
            index / self.per_speaker
        } else {
            self.announcer()
        }
    }

    /// Its address, router id and next hop.
    pub(crate) fn address(speaker: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(SPEAKERS_FROM.to_bits() + speaker)
    }

    pub(crate) fn expected(&self, index: u32) -> Expected {
        let address = Self::address(self.owner(index));
        let vni = self.vni(index);
        let [_, label @ ..] = vni.to_be_bytes();
        Expected {
            next_hop: address.octets(),
            rd: Rd::from_ipv4(address, Self::rd_number(vni)).0,
            ip: Ipv4Addr::from_bits(HOSTS_FROM.to_bits() + index).octets(),
            label,
        }
    }

    /// All of a speaker's routes, one UPDATE per VNI, one after the other.
    pub(crate) fn announcements(&self, speaker: u32) -> Vec<u8> {
        let first = speaker * self.per_speaker;
        (first..first + self.per_speaker)
            .step_by(usize::try_from(self.per_vni).expect("u32 fits usize"))
            .flat_map(|from| self.announcement(from, self.per_vni))
            .collect()
    }

    /// One UPDATE with `count` routes of one speaker and VNI.
    pub(crate) fn announcement(&self, from: u32, count: u32) -> Bytes {
        let mut nlri = Writer::new();
        for index in from..from + count {
            self.route(index).encode(&mut nlri);
        }
        let next_hop = NextHop::V4(Self::address(self.owner(from)));
        let target = RouteTarget::two_octet_as(SHORT_ASN, self.vni(from));
        let update = Update {
            reach: Some(Reach {
                family: Family::L2VPN_EVPN,
                next_hop,
                nlri: nlri.finish(),
            }),
            attributes: Attributes {
                local_pref: Some(100),
                ext_communities: vec![
                    target.octets(),
                    Encapsulation::new(Encapsulation::VXLAN).octets(),
                ],
                ..Attributes::default()
            },
            ..Update::default()
        };
        Message::Update(Box::new(update)).encode(&CONTEXT)
    }

    /// One UPDATE that withdraws one route.
    pub(crate) fn withdrawal(&self, index: u32) -> Bytes {
        let mut nlri = Writer::new();
        Route::encode_withdraw(&self.route(index).key(), &mut nlri);
        let update = Update {
            unreach: Some(Unreach {
                family: Family::L2VPN_EVPN,
                nlri: nlri.finish(),
            }),
            ..Update::default()
        };
        Message::Update(Box::new(update)).encode(&CONTEXT)
    }

    /// What a speaker says first.
    pub(crate) fn open(speaker: u32) -> Bytes {
        Message::Open(Open {
            asn: ASN,
            hold_secs: HOLD_SECS,
            router_id: RouterId::from(Self::address(speaker)),
            capabilities: vec![
                Capability::MultiProtocol(Family::L2VPN_EVPN),
                Capability::RouteRefresh,
                Capability::FourOctetAs(ASN),
            ],
        })
        .encode(&CONTEXT)
    }

    pub(crate) fn keepalive() -> Bytes {
        Message::Keepalive.encode(&CONTEXT)
    }

    fn route(&self, index: u32) -> Route {
        let expected = self.expected(index);
        let [a, b, c, d] = index.to_be_bytes();
        Route::MacIp(MacIp {
            key: MacIpKey {
                rd: Rd(expected.rd),
                tag: EthernetTag(0),
                mac: Mac([0x02, 0, a, b, c, d]),
                ip: Some(Ipv4Addr::from(expected.ip).into()),
            },
            esi: Esi::ZERO,
            labels: Labels::One(Label(expected.label)),
        })
    }

    fn vni(&self, index: u32) -> u32 {
        if index < self.routes {
            VNI_FROM + index % self.per_speaker / self.per_vni
        } else {
            VNI_FROM
        }
    }

    fn rd_number(vni: u32) -> u16 {
        u16::try_from(vni).expect("the VNIs of the load have 16 bits")
    }
}

/// Latency is measured this many times.
pub(crate) const EXTRAS: u32 = 100;

/// The AS of speakers and reflector.
pub(crate) const ASN: u32 = 65000;
const SHORT_ASN: u16 = 65000;

/// What every speaker and reflector offers; a third of it passes between keepalives.
pub(crate) const HOLD_SECS: u16 = 180;

/// The first speaker's address; the others follow it.
const SPEAKERS_FROM: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// They share a /24 with nobody, and one joins late.
const SPEAKERS_MAX: u32 = 250;

/// The hosts' addresses are 10.128.0.0/9, by index.
const HOSTS_FROM: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);
const ROUTES_MAX: u32 = 8_000_000;

const VNI_FROM: u32 = 1001;
/// With their first one they stay within the 16 bits of an RD's number.
const VNIS_MAX: u32 = 64_000;

/// 39 octets each beside less than 150 of attributes: an UPDATE of 4096 octets holds them.
const PER_UPDATE_MAX: u32 = 100;

const CONTEXT: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: true,
    extended_message: false,
    add_path: weft_bgp::capability::AddPathSet::NONE,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_that_do_not_divide_are_refused() {
        assert!(Load::new(100, 400_000, 200).is_ok());
        assert!(Load::new(100, 400_001, 200).is_err());
        assert!(Load::new(1, 200, 200).is_err());
        assert!(Load::new(2, 0, 1).is_err());
        assert!(Load::new(2, 200, 0).is_err());
        assert!(Load::new(2, 202, 1).is_err());
    }

    #[test]
    fn owners_and_vnis_share_the_routes_evenly() {
        let load = Load::new(4, 240, 3).unwrap();
        for speaker in 0..4 {
            for vni in 0..3 {
                let held = (0..240)
                    .filter(|&index| load.owner(index) == speaker)
                    .filter(|&index| load.vni(index) == VNI_FROM + vni)
                    .count();
                assert_eq!(held, 20);
            }
        }
        assert_eq!(load.foreign(3), 180);
        assert_eq!(load.foreign(4), 240);
    }

    #[test]
    fn an_update_carries_the_routes_of_one_vni() {
        let load = Load::new(2, 400, 10).unwrap();
        let octets = load.announcement(20, 20);
        let mut buffer = bytes::BytesMut::from(&octets[..]);
        let frame = weft_bgp::frame::split(&mut buffer, 4096).unwrap().unwrap();
        let Message::Update(update) = Message::decode(frame, &CONTEXT).unwrap() else {
            panic!("not an UPDATE");
        };
        assert_eq!(update.faults, []);
        let reach = update.reach.unwrap();
        assert_eq!(reach.next_hop, NextHop::V4(Load::address(0)));
        let mut routes = Vec::new();
        weft_bgp::nlri::decode_all::<Route>(
            &reach.nlri,
            false,
            |_, route| routes.push(route),
            |_| (),
        )
        .unwrap();
        let wanted: Vec<Route> = (20..40).map(|index| load.route(index)).collect();
        assert_eq!(routes, wanted);
        assert_eq!(routes[0].vni(&update.attributes).unwrap().number(), 1002);
    }
}
