//! Metrics of peers and their sessions, off their reports. Knows no table.

use std::net::IpAddr;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::gauge;
use crate::reflector::learn::total::Total;
use crate::speaker::refusal::Refusals;
use crate::speaker::report::Facts;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PeerLabels {
    peer: String,
    peer_group: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PeerLabel {
    peer: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct MessageLabels {
    peer: String,
    direction: &'static str,
    r#type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PrefixLabels {
    peer: String,
    afi_safi: String,
    rib: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FamilyLabels {
    peer: String,
    afi_safi: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    peer: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TypeLabels {
    peer: String,
    route_type: u32,
    fault: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AskedLabels {
    peer: String,
    able: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RuleLabels {
    peer: String,
    rule: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AttributeLabels {
    peer: String,
    attribute: u32,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LimitLabels {
    peer: String,
    limit: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RivalLabels {
    peer: String,
    id: String,
    rival: String,
}

/// One family for each thing that is said of peers.
#[derive(Default)]
struct Sessions {
    state: Family<PeerLabels, Gauge>,
    uptime: Family<PeerLabel, Gauge>,
    messages: Family<MessageLabels, Counter>,
    prefixes: Family<PrefixLabels, Gauge>,
    refused: Family<ReasonLabels, Counter>,
    discarded: Family<TypeLabels, Counter>,
    suspect: Family<RuleLabels, Counter>,
    asked: Family<AskedLabels, Counter>,
    dropped: Family<AttributeLabels, Counter>,
    malformed: Family<RuleLabels, Counter>,
    near: Family<LimitLabels, Gauge>,
    unwanted: Family<FamilyLabels, Counter>,
    spared: Family<FamilyLabels, Counter>,
    bfd: Family<PeerLabel, Gauge>,
    rivals: Family<RivalLabels, Gauge>,
    refusals: Family<ReasonLabels, Counter>,
}

/// Registers what the reports say, and the connections that were refused before a peer's task saw them.
pub(super) fn register(registry: &mut Registry, reports: &[(IpAddr, Facts)], refusals: &Refusals) {
    let sessions = Sessions::default();
    sessions.refusals("", refusals);
    for (address, facts) in reports {
        sessions.session(&address.to_string(), facts);
        sessions.routes(&address.to_string(), facts);
        sessions.refusals(&address.to_string(), &facts.refusals);
    }
    sessions.register(registry);
}

/// Registers the octets of routes that the peers of this replica hold.
pub(super) fn register_held(registry: &mut Registry, held: &Total) {
    let mut single = |name: &str, help: &str, value: u64| {
        let metric: Gauge = Gauge::default();
        metric.set(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, help, metric);
    };
    let help = "Octets that the routes of all sessions of this replica take, as estimated";
    single("bgp_route_octets", help, held.octets());
    let help = "Octets that they may take, bgp.route_octets_total; 0: no limit";
    single("bgp_route_octets_limit", help, held.limit().unwrap_or(0));
    let help = "1 while new routes are refused for that limit";
    single("bgp_routes_full", help, held.is_full().into());
}

impl Sessions {
    fn session(&self, peer: &str, facts: &Facts) {
        let peer = peer.to_owned();
        let up = facts.state == "Established";
        let labels = PeerLabels {
            peer: peer.clone(),
            peer_group: facts.group.clone(),
        };
        self.state.get_or_create(&labels).set(number(facts.state));
        let secs = if up {
            facts.since.elapsed().as_secs()
        } else {
            0
        };
        let label = PeerLabel { peer: peer.clone() };
        let secs = i64::try_from(secs).unwrap_or(i64::MAX);
        self.uptime.get_or_create(&label).set(secs);
        if let Some(bfd) = &facts.bfd {
            let up = bfd.borrow().state == weft_bfd::State::Up;
            self.bfd.get_or_create(&label).set(i64::from(up));
        }
        if let Some((rival, id)) = facts.rival.zip(facts.peer) {
            let labels = RivalLabels {
                peer: peer.clone(),
                id: id.to_string(),
                rival: rival.to_string(),
            };
            self.rivals.get_or_create(&labels).set(1);
        }
        for ((direction, kind), count) in &facts.messages {
            let labels = MessageLabels {
                peer: peer.clone(),
                direction: direction.label(),
                r#type: kind,
            };
            self.messages.get_or_create(&labels).inc_by(*count);
        }
        for (code, count) in &facts.dropped {
            let (peer, attribute) = (peer.clone(), (*code).into());
            let labels = AttributeLabels { peer, attribute };
            self.dropped.get_or_create(&labels).inc_by(*count);
        }
        for (rule, count) in &facts.malformed {
            let (peer, rule) = (peer.clone(), rule.clone());
            let labels = RuleLabels { peer, rule };
            self.malformed.get_or_create(&labels).inc_by(*count);
        }
    }

    fn routes(&self, peer: &str, facts: &Facts) {
        let peer = || peer.to_owned();
        for (reason, count) in &facts.refused {
            let labels = ReasonLabels {
                peer: peer(),
                reason,
            };
            self.refused.get_or_create(&labels).inc_by(*count);
        }
        let unknown = facts.unknown.iter();
        let unknown = unknown.map(|(number, count)| (number, "unknown", count));
        let malformed = facts.malformed_nlri.iter();
        let malformed = malformed.map(|(number, (_, count))| (number, "malformed", count));
        for (route_type, fault, count) in unknown.chain(malformed) {
            let labels = TypeLabels {
                peer: peer(),
                route_type: (*route_type).into(),
                fault,
            };
            self.discarded.get_or_create(&labels).inc_by(*count);
        }
        for (rule, count) in &facts.suspect {
            let labels = RuleLabels {
                peer: peer(),
                rule: (*rule).to_owned(),
            };
            self.suspect.get_or_create(&labels).inc_by(*count);
        }
        let (asked, unable) = facts.asked;
        for (able, count) in [("yes", asked), ("no", unable)] {
            let labels = AskedLabels { peer: peer(), able };
            self.asked.get_or_create(&labels).inc_by(count);
        }
        for (family, count) in &facts.routes {
            let labels = PrefixLabels {
                peer: peer(),
                afi_safi: family.to_string(),
                rib: "adj-rib-in",
            };
            self.prefixes.get_or_create(&labels).set(gauge(*count));
        }
        for bound in facts.near.bounds() {
            let labels = LimitLabels {
                peer: peer(),
                limit: bound.to_string(),
            };
            self.near.get_or_create(&labels).set(1);
        }
        for (family, saved) in &facts.saved {
            let labels = FamilyLabels {
                peer: peer(),
                afi_safi: family.to_string(),
            };
            let (routes, octets) = saved.totals();
            self.unwanted.get_or_create(&labels).inc_by(routes);
            self.spared.get_or_create(&labels).inc_by(octets);
        }
    }

    fn refusals(&self, peer: &str, refusals: &Refusals) {
        for (reason, count) in refusals.totals() {
            let peer = peer.to_owned();
            let labels = ReasonLabels { peer, reason };
            self.refusals.get_or_create(&labels).inc_by(count);
        }
    }

    fn register(self, registry: &mut Registry) {
        let help = "State of RFC 4273: 1 idle, 2 connect, 3 active, 4 opensent, 5 openconfirm, 6 established";
        registry.register("bgp_peer_state", help, self.state);
        let help = "Time in Established; 0 outside";
        registry.register_with_unit("bgp_peer_uptime", help, Unit::Seconds, self.uptime);
        let help = "BGP messages by direction and type";
        registry.register("bgp_messages", help, self.messages);
        let help = "Routes of the peer in a table, by family";
        registry.register("bgp_prefixes", help, self.prefixes);
        let help = "NLRI of the peer that were not kept, by reason";
        registry.register("bgp_routes_refused", help, self.refused);
        let help = "NLRI that could not be read, by route type: unknown or malformed";
        registry.register("bgp_nlri_discarded", help, self.discarded);
        let help = "NLRI that were kept although they break a rule of the guard, by rule";
        registry.register("bgp_routes_suspect", help, self.suspect);
        let help = "Times there was room for routes that a limit had refused, by whether the peer could be asked for them again";
        registry.register("bgp_routes_asked_again", help, self.asked);
        let help = "UPDATEs with an attribute that is not passed on, by its code";
        registry.register("bgp_attributes_dropped", help, self.dropped);
        let help = "UPDATEs with a fault that did not end the session, by the rule they break";
        registry.register("bgp_updates_malformed", help, self.malformed);
        let help = "1 if the routes of the peer came near a limit in this session; absent while they have not";
        registry.register("bgp_limits_near", help, self.near);
        let help = "Routes that were not sent because the peer wants none of their route targets";
        registry.register("bgp_routes_unwanted", help, self.unwanted);
        let help = "Octets of those routes that were not sent because the peer wants none of their route targets";
        registry.register_with_unit("bgp_routes_unwanted", help, Unit::Bytes, self.spared);
        let help = "1 if BFD says that the path to the peer is up; absent without BFD";
        registry.register("bfd_up", help, self.bfd);
        let help = "1 if the session is refused because another peer has its router id and AS";
        registry.register("bgp_peer_refused", help, self.rivals);
        let help = "Connections that were refused, by reason; peer is empty where no session of a peer was asked";
        registry.register("bgp_connections_refused", help, self.refusals);
    }
}

/// bgpPeerState of RFC 4273 §4; 0 for a state that it does not have.
fn number(state: &str) -> i64 {
    let states = [
        "Idle",
        "Connect",
        "Active",
        "OpenSent",
        "OpenConfirm",
        "Established",
    ];
    (1..)
        .zip(states)
        .find(|(_, it)| *it == state)
        .map_or(0, |(number, _)| number)
}
