//! One BGP session between a switch and a replica: octets in order both ways, and what the switch has
//! learned over it. Knows no FSM: both ends are established until they notice otherwise.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use weft_bgp::attribute::Attributes;
use weft_bgp::frame;
use weft_bgp::message::{DecodeContext, Message};
use weft_bgp::nlri::{Nlri, decode_all};
use weft_evpn::{Route, RouteKey};

/// What travels.
pub(crate) enum Wire {
    Octets(Bytes),
    /// The other end closed the connection.
    Close,
}

/// A route as a client holds it: its payload and attributes in canonical octets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) payload: Vec<u8>,
    pub(crate) attributes: Bytes,
}

/// What an UPDATE did to a client.
pub(crate) enum Heard {
    Announced(RouteKey, Box<Attributes>),
    Withdrawn(RouteKey),
    EndOfRib,
}

/// Both ends and the wire between them.
pub(crate) struct Session {
    pub(crate) switch: usize,
    pub(crate) replica: u64,
    pub(crate) since: u64,
    pub(crate) switch_up: bool,
    pub(crate) replica_up: bool,
    /// When each end last heard the other's keepalives.
    pub(crate) switch_heard: u64,
    pub(crate) replica_heard: u64,
    pub(crate) to_replica: VecDeque<(u64, Wire)>,
    pub(crate) to_switch: VecDeque<(u64, Wire)>,
    /// The switch takes nothing before this.
    pub(crate) blocked_until: u64,
    /// Adj-RIB-In of the switch.
    pub(crate) routes: BTreeMap<RouteKey, Held>,
    pub(crate) ended: bool,
    /// No majority confirmed the table that the switch was sent: it must not hear End-of-RIB.
    pub(crate) unconfirmed: bool,
}

impl Session {
    pub(crate) fn new(switch: usize, replica: u64, now: u64) -> Self {
        Self {
            switch,
            replica,
            since: now,
            switch_up: true,
            replica_up: true,
            switch_heard: now,
            replica_heard: now,
            to_replica: VecDeque::new(),
            to_switch: VecDeque::new(),
            blocked_until: 0,
            routes: BTreeMap::new(),
            ended: false,
            unconfirmed: false,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.switch_up && self.replica_up
    }

    /// The switch takes a message.
    pub(crate) fn learn(&mut self, octets: &Bytes, context: &DecodeContext) -> Vec<Heard> {
        let mut heard = Vec::new();
        let mut buffer = BytesMut::from(&octets[..]);
        while let Some(frame) = frame::split(&mut buffer, u16::MAX).expect("weft sends messages") {
            match Message::decode(frame, context).expect("weft sends sound messages") {
                Message::Update(update) => {
                    assert!(update.faults.is_empty(), "weft sent {:?}", update.faults);
                    if update.is_end_of_rib().is_some() {
                        self.ended = true;
                        heard.push(Heard::EndOfRib);
                    }
                    if let Some(unreach) = &update.unreach {
                        self.withdraw(&unreach.nlri, &mut heard);
                    }
                    if let Some(reach) = &update.reach {
                        let mut attributes = update.attributes.clone();
                        attributes.next_hop = Some(reach.next_hop);
                        self.announce(&reach.nlri, &attributes, &mut heard);
                    }
                }
                other => panic!("weft sent {other:?} in a stream of routes"),
            }
        }
        heard
    }

    fn withdraw(&mut self, nlri: &[u8], heard: &mut Vec<Heard>) {
        let each = |_, route: Route| {
            if self.routes.remove(&route.key()).is_some() {
                heard.push(Heard::Withdrawn(route.key()));
            }
        };
        decode_all(nlri, false, each, |fault| panic!("weft sent {fault:?}")).expect("sound NLRI");
    }

    fn announce(&mut self, nlri: &[u8], attributes: &Attributes, heard: &mut Vec<Heard>) {
        let octets = attributes.to_octets();
        let each = |_, route: Route| {
            let held = held(&route, octets.clone());
            self.routes.insert(route.key(), held);
            heard.push(Heard::Announced(route.key(), Box::new(attributes.clone())));
        };
        decode_all(nlri, false, each, |fault| panic!("weft sent {fault:?}")).expect("sound NLRI");
    }
}

/// A route in canonical octets.
pub(crate) fn held(route: &Route, attributes: Bytes) -> Held {
    let mut payload = Vec::new();
    route.payload_octets(&mut payload);
    Held {
        payload,
        attributes,
    }
}
