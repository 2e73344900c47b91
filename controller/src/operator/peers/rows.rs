//! Peers as rows: what all agree on, and what this replica sees of its sessions. Knows reports and facts, no task and no
//! socket.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use prost_types::Timestamp;
use weft_bgp::nlri::Nlri;
use weft_bgp::peer::PeerId;
use weft_bgp::table::Table;
use weft_proto::v1::{self as proto, SessionState, Staleness};

use super::super::family;
use crate::ledger::Phase;
use crate::reflector::Reflector;
use crate::reflector::owner::Agreed;
use crate::speaker::report::{Direction, Facts};

/// What is agreed about peers, and how many routes of each.
#[derive(Clone, Debug, Default)]
pub(in crate::operator) struct Counted {
    agreed: BTreeMap<PeerId, Agreed>,
    routes: BTreeMap<PeerId, u64>,
}

impl Counted {
    /// What the reflector has now.
    pub(super) fn of(reflector: &Reflector) -> Self {
        let agreed = reflector.peers();
        let counted = Self {
            agreed: agreed
                .map(|(peer, agreed)| (peer, agreed.clone()))
                .collect(),
            routes: BTreeMap::new(),
        };
        counted
            .with(reflector.evpn())
            .with(reflector.ipv4())
            .with(reflector.ipv6())
            .with(reflector.rtc())
    }

    /// With the paths of a table too.
    fn with<N: Nlri>(mut self, table: &Table<N>) -> Self {
        for (peer, count) in table.paths_by_peer() {
            *self.routes.entry(peer).or_default() += u64::try_from(count).unwrap_or(u64::MAX);
        }
        self
    }

    fn routes(&self, peer: PeerId) -> u64 {
        self.routes.get(&peer).copied().unwrap_or(0)
    }
}

/// Peers that this replica speaks to, and those that others alone do; by router id, then address.
pub(super) fn rows(reports: &[(IpAddr, Facts)], counted: &Counted) -> Vec<proto::Peer> {
    let mut rows: Vec<proto::Peer> = Vec::new();
    let mut local = BTreeSet::new();
    for (address, facts) in reports {
        local.extend(served(facts));
        rows.push(row(*address, facts, counted));
    }
    let others = counted.agreed.keys();
    let others = others.filter(|peer| !local.contains(*peer));
    rows.extend(others.map(|peer| agreed(Some(*peer), Some(*peer), counted)));
    rows.sort_by_key(sort_key);
    rows
}

/// Where a row stands in a list; also what the token of the page after it says.
pub(super) fn sort_key(row: &proto::Peer) -> String {
    let id = row.router_id.as_deref();
    let id = id.and_then(|id| Ipv4Addr::from_str(id).ok());
    let address = row.session.as_ref().map_or("", |it| it.address.as_str());
    format!("{:08x}/{address}", id.map_or(0, u32::from))
}

/// A peer that others alone speak to, by its router id.
pub(super) fn elsewhere(router_id: &str, counted: &Counted) -> Option<proto::Peer> {
    let peers = counted.agreed.keys();
    let mut named = peers.filter(|peer| peer.router_id.to_string() == router_id);
    named
        .next()
        .map(|peer| agreed(Some(*peer), Some(*peer), counted))
}

/// A peer that this replica has a session to, or tries to.
pub(super) fn row(address: IpAddr, facts: &Facts, counted: &Counted) -> proto::Peer {
    proto::Peer {
        session: Some(session(address, facts)),
        ..agreed(facts.peer, served(facts), counted)
    }
}

/// Whose routes and sessions those of a peer are. One that is refused for its router id has none: what is agreed is of the
/// peer that was first.
fn served(facts: &Facts) -> Option<PeerId> {
    facts.peer.filter(|_| facts.rival.is_none())
}

/// What is agreed of a peer that calls itself `named` and is served as `served`.
fn agreed(named: Option<PeerId>, served: Option<PeerId>, counted: &Counted) -> proto::Peer {
    let agreed = served.and_then(|peer| counted.agreed.get(&peer));
    let owner = agreed.and_then(|agreed| agreed.owner.as_ref());
    let retention = owner.and_then(|owner| owner.retention.as_ref());
    let staleness = match retention.map(|retention| retention.phase) {
        None => Staleness::Fresh,
        Some(Phase::Graceful) => Staleness::Stale,
        Some(Phase::LongLived) => Staleness::LongLivedStale,
    };
    proto::Peer {
        router_id: named.map(|peer| peer.router_id.to_string()),
        asn: named.map(|peer| peer.asn),
        owner_replica_id: owner.map(|owner| owner.replica),
        session_replica_ids: agreed
            .map(|agreed| agreed.sessions.iter().copied().collect())
            .unwrap_or_default(),
        route_count: served.map_or(0, |peer| counted.routes(peer)),
        staleness: staleness.into(),
        session: None,
        detail: None,
    }
}

fn session(address: IpAddr, facts: &Facts) -> proto::PeerSession {
    let total = |wanted: Direction| messages(facts, wanted).map(|(_, count)| count).sum();
    let families = facts.families.iter();
    let error = match facts.attempt_error.as_str() {
        "" => facts.last_error.as_str(),
        attempt => attempt,
    };
    proto::PeerSession {
        address: address.to_string(),
        peer_group: facts.group.clone(),
        dynamic: facts.dynamic,
        state: state(facts.state).into(),
        state_change_time: Some(Timestamp::from(facts.since_time)),
        families: families.map(|it| family::to_message(*it).into()).collect(),
        messages_received: total(Direction::Received),
        messages_sent: total(Direction::Sent),
        last_error: (!error.is_empty()).then(|| error.to_owned()),
    }
}

/// By its name in RFC 4271 §8.2.2.
fn state(name: &str) -> SessionState {
    match name {
        "Idle" => SessionState::Idle,
        "Connect" => SessionState::Connect,
        "Active" => SessionState::Active,
        "OpenSent" => SessionState::OpenSent,
        "OpenConfirm" => SessionState::OpenConfirm,
        "Established" => SessionState::Established,
        _ => SessionState::Unspecified,
    }
}

/// Messages of a session by kind.
pub(super) fn messages(
    facts: &Facts,
    wanted: Direction,
) -> impl Iterator<Item = (&'static str, u64)> + '_ {
    let messages = facts.messages.iter();
    messages
        .filter(move |((way, _), _)| *way == wanted)
        .map(|((_, kind), count)| (*kind, *count))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_bgp::attribute::Attributes;
    use weft_bgp::nlri::unicast::Prefix4;
    use weft_bgp::peer::RouterId;
    use weft_bgp::table::{PeerKind, Source};

    use super::*;

    #[test]
    fn a_peer_that_is_refused_has_nothing_of_the_one_that_was_first() {
        use crate::ledger::Owner;
        use crate::speaker::report::Report;
        let id = PeerId {
            router_id: RouterId(9),
            asn: 64_496,
        };
        let [first, second] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let owner = Owner {
            replica: 1,
            epoch: 1,
            address: first,
            kind: PeerKind::IbgpClient,
            fresh_from: 0,
            returned: None,
            retention: None,
        };
        let agreed = Agreed {
            owner: Some(owner),
            sessions: [1].into(),
        };
        let counted = Counted {
            agreed: [(id, agreed)].into(),
            routes: [(id, 7)].into(),
        };
        let report = Report::new("leaves".to_owned(), false, Default::default());
        let mut facts = report.facts();
        facts.peer = Some(id);
        facts.rival = Some(first);
        let of = |rows: &[proto::Peer]| {
            let address = |row: &proto::Peer| row.session.clone().map(|it| it.address);
            let row = |row: &proto::Peer| (address(row), row.route_count, row.owner_replica_id);
            rows.iter().map(row).collect::<Vec<_>>()
        };
        let rows = rows(&[(second, facts)], &counted);
        let expected = [(None, 7, Some(1)), (Some(second.to_string()), 0, None)];
        assert_eq!(of(&rows), expected);
        let elsewhere = elsewhere("0.0.0.9", &counted).unwrap();
        assert_eq!((elsewhere.route_count, elsewhere.session), (7, None));
    }

    #[test]
    fn routes_of_a_peer_are_those_of_all_tables() {
        let peer = |last: u8| PeerId {
            router_id: RouterId(last.into()),
            asn: 64_496,
        };
        let sources = [1, 2].map(|last| {
            let address = Ipv4Addr::new(192, 0, 2, last).into();
            Arc::new(Source::new(peer(last), address, PeerKind::IbgpClient))
        });
        let table = |count: u32| {
            let mut table = Table::new();
            for number in 0..count {
                let nlri = Prefix4 {
                    addr: Ipv4Addr::from(0x0a00_0000 + number),
                    len: 32,
                };
                let announcers = if number % 10 == 0 { 2 } else { 1 };
                for source in &sources[..announcers] {
                    table.learn(source, 0, nlri, Arc::new(Attributes::default()));
                }
            }
            table
        };
        let counted = Counted::default().with(&table(100)).with(&table(7));
        let routes = [1, 2, 3].map(|last| counted.routes(peer(last)));
        assert_eq!(routes, [107, 11, 0]);
    }
}
