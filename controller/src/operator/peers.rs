//! Peers as rows and in full: what this replica sees of its sessions, and what all agree on. Knows
//! reports and facts, no task and no socket.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::sync::Arc;

use foldhash::HashMap;
use weft_bgp::capability::Capability;
use weft_bgp::nlri::Nlri;
use weft_bgp::peer::PeerId;
use weft_bgp::session::Negotiated;
use weft_bgp::table::{Source, Table};
use weft_proto::operator::v1 as proto;
use weft_sys::tcp_ao::Status;

use super::PART;
use crate::config::{PeerGroup, Resolved};
use crate::reflector::Reflector;
use crate::reflector::owner::Agreed;
use crate::speaker::report::{Direction, Facts};

/// What is agreed about peers, and how many routes of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    agreed: BTreeMap<PeerId, Agreed>,
    routes: BTreeMap<PeerId, u64>,
}

impl Counted {
    /// What is agreed, and no route yet.
    pub(super) fn of(reflector: &Reflector) -> Self {
        let agreed = reflector.peers();
        Self {
            agreed: agreed
                .map(|(peer, agreed)| (peer, agreed.clone()))
                .collect(),
            routes: BTreeMap::new(),
        }
    }

    /// The paths of each peer in the next places of a table, and where to go on. Paths share their source: those of
    /// one are counted without a look at it.
    pub(super) fn part<N: Nlri>(
        table: &Table<N>,
        place: usize,
    ) -> (Vec<(PeerId, u64)>, Option<usize>) {
        let mut sources: HashMap<*const Source, (PeerId, u64)> = HashMap::default();
        let (part, next) = table.page(place, PART);
        for path in part.iter().flat_map(|at| at.paths) {
            let of = sources.entry(Arc::as_ptr(&path.source));
            of.or_insert_with(|| (path.source.peer, 0)).1 += 1;
        }
        (sources.into_values().collect(), next)
    }

    /// With these counted too.
    pub(super) fn with(mut self, part: Vec<(PeerId, u64)>) -> Self {
        for (peer, count) in part {
            *self.routes.entry(peer).or_default() += count;
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
    let others = counted.agreed.iter();
    for (peer, agreed) in others.filter(|(peer, _)| !local.contains(peer)) {
        rows.push(proto::Peer {
            asn: peer.asn,
            router_id: peer.router_id.to_string(),
            state: "Idle".to_owned(),
            routes: counted.routes(*peer),
            owner: agreed.owner.as_ref().map_or(0, |owner| owner.replica),
            sessions: agreed.sessions.iter().copied().collect(),
            ..proto::Peer::default()
        });
    }
    rows.sort_by_key(sort_key);
    rows
}

/// Where a row stands in a list; also the token of the page after it.
pub(super) fn sort_key(row: &proto::Peer) -> String {
    let id = Ipv4Addr::from_str(&row.router_id).map_or(0, u32::from);
    format!("{id:08x}/{}", row.address)
}

/// Whose routes and sessions those of a peer are. One that is refused for its router id has none: what is agreed is of the
/// peer that was first.
fn served(facts: &Facts) -> Option<PeerId> {
    facts.peer.filter(|_| facts.rival.is_none())
}

fn row(address: IpAddr, facts: &Facts, counted: &Counted) -> proto::Peer {
    let agreed = served(facts).and_then(|peer| counted.agreed.get(&peer));
    let owner = agreed.and_then(|agreed| agreed.owner.as_ref());
    let total = |wanted: Direction| messages(facts, wanted).map(|(_, count)| count).sum();
    proto::Peer {
        address: address.to_string(),
        asn: facts.peer.map_or(0, |peer| peer.asn),
        router_id: facts
            .peer
            .map(|peer| peer.router_id.to_string())
            .unwrap_or_default(),
        peer_group: facts.group.clone(),
        state: facts.state.to_owned(),
        since_secs: facts.since.elapsed().as_secs(),
        families: facts.families.iter().map(ToString::to_string).collect(),
        routes: served(facts).map_or(0, |peer| counted.routes(peer)),
        messages_received: total(Direction::Received),
        messages_sent: total(Direction::Sent),
        owner: owner.map_or(0, |owner| owner.replica),
        sessions: agreed
            .map(|agreed| agreed.sessions.iter().copied().collect())
            .unwrap_or_default(),
        last_error: match facts.attempt_error.as_str() {
            "" => facts.last_error.clone(),
            attempt => attempt.to_owned(),
        },
        dynamic: facts.dynamic,
    }
}

fn messages(facts: &Facts, wanted: Direction) -> impl Iterator<Item = (&'static str, u64)> + '_ {
    let messages = facts.messages.iter();
    messages
        .filter(move |((way, _), _)| *way == wanted)
        .map(|((_, kind), count)| (*kind, *count))
}

/// All that is known of one peer.
pub(super) fn detail(
    address: IpAddr,
    facts: &Facts,
    settings: Option<Resolved<'_>>,
    local_asn: u32,
    counted: &Counted,
) -> proto::PeerDetail {
    let settings = settings.map(|resolved| resolved.settings);
    let negotiated = facts.negotiated.as_deref();
    let asn = facts.peer.map(|peer| peer.asn);
    let kind = settings.and_then(|settings| Some(settings.kind(asn?, local_asn)));
    let agreed = served(facts).and_then(|peer| counted.agreed.get(&peer));
    let retention = agreed.and_then(|agreed| agreed.owner.as_ref()?.retention.as_ref());
    let by_name = |counts: &BTreeMap<&'static str, u64>| {
        let pairs = counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count));
        pairs.collect()
    };
    let by_kind = |wanted: Direction| {
        let pairs = messages(facts, wanted);
        pairs
            .map(|(kind, count)| (kind.to_owned(), count))
            .collect()
    };
    let secs =
        |duration: std::time::Duration| u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
    proto::PeerDetail {
        description: settings
            .and_then(|settings| settings.description.clone())
            .unwrap_or_default(),
        kind: kind.map(|kind| kind.to_string()).unwrap_or_default(),
        profile: facts.profile.0.clone(),
        profile_reason: facts.profile.1.clone(),
        capabilities: negotiated
            .map(|it| it.peer_capabilities.iter().map(capability).collect())
            .unwrap_or_default(),
        hold_secs: negotiated.map_or(0, |it| secs(it.hold)),
        keepalive_secs: negotiated.map_or(0, |it| secs(it.keepalive)),
        message_max: negotiated.map_or(0, |it| it.max_len.into()),
        negotiated: negotiated.map(|it| families(it, facts)).unwrap_or_default(),
        refused: by_name(&facts.refused),
        discarded: facts.discarded().into_iter().collect(),
        suspect: by_name(&facts.suspect),
        dropped: facts
            .dropped
            .iter()
            .map(|(code, count)| (u32::from(*code), *count))
            .collect(),
        malformed: facts.malformed.clone().into_iter().collect(),
        established: facts.established,
        messages_received: by_kind(Direction::Received),
        messages_sent: by_kind(Direction::Sent),
        bfd: facts
            .bfd
            .as_ref()
            .map(|status| format!("{:?}", status.borrow().state))
            .unwrap_or_default(),
        authentication: authentication(facts, settings),
        stale: retention
            .map(|retention| retention.phase.to_string())
            .unwrap_or_default(),
        warnings: facts.near.lines(),
        local_address: facts
            .wire
            .as_ref()
            .map(|wire| wire.local.to_string())
            .unwrap_or_default(),
        remote_address: facts
            .wire
            .as_ref()
            .map(|wire| wire.remote.to_string())
            .unwrap_or_default(),
        peer: Some(row(address, facts, counted)),
    }
}

/// What signs the connection; of TCP-AO also the ids of the keys, and what it dropped.
fn authentication(facts: &Facts, settings: Option<&PeerGroup>) -> String {
    let has_md5 = settings.is_some_and(|settings| settings.password_file.is_some());
    let has_tcp_ao = settings.is_some_and(|settings| !settings.tcp_ao.is_empty());
    match facts.signed.filter(|_| has_tcp_ao) {
        Some(Status {
            send_id,
            recv_id,
            good,
            dropped,
        }) => format!(
            "tcp-ao (signs with {send_id}, asks for {recv_id}; {good} segments good, {dropped} dropped)"
        ),
        None if has_tcp_ao => "tcp-ao".to_owned(),
        None if has_md5 => "md5".to_owned(),
        None => "none".to_owned(),
    }
}

fn families(negotiated: &Negotiated, facts: &Facts) -> Vec<proto::PeerFamily> {
    let restart = negotiated.graceful_restart.as_ref();
    let row = |family: &weft_bgp::family::Family| {
        let restarts = restart.filter(|it| it.families.iter().any(|(one, _)| one == family));
        let mut long_lived = negotiated.long_lived.iter();
        let told = facts.told.get(family);
        let interest = told.map(|(_, interest)| match interest.len() {
            None => "everything".to_owned(),
            Some(targets) => format!("{targets} route targets"),
        });
        let saved = facts.saved.get(family);
        let (routes_saved, octets_saved) = saved.map_or((0, 0), |saved| saved.totals());
        proto::PeerFamily {
            family: family.to_string(),
            routes: facts.routes.get(family).map_or(0, |count| *count as u64),
            add_path_receive: negotiated.add_path_receive.contains(*family),
            add_path_send: negotiated.add_path_send.contains(*family),
            end_of_rib: facts.ended.contains(family),
            interest: interest.unwrap_or_default(),
            routes_saved,
            octets_saved,
            restart_secs: restarts.map_or(0, |it| it.restart_secs.into()),
            long_lived_secs: long_lived
                .find(|it| it.family == *family)
                .map_or(0, |it| it.stale_secs),
        }
    };
    negotiated.families.iter().map(row).collect()
}

/// In the words of the RFCs.
fn capability(capability: &Capability) -> String {
    match capability {
        Capability::MultiProtocol(family) => format!("multiprotocol {family}"),
        Capability::RouteRefresh => "route refresh".to_owned(),
        Capability::ExtendedNextHop(families) => {
            let names = families.iter().map(|it| it.family.to_string());
            format!("extended next hop {}", names.collect::<Vec<_>>().join(","))
        }
        Capability::ExtendedMessage => "extended message".to_owned(),
        Capability::GracefulRestart(restart) => {
            format!("graceful restart {}s", restart.restart_secs)
        }
        Capability::FourOctetAs(asn) => format!("four-octet AS {asn}"),
        Capability::AddPath(families) => {
            let name = |it: &weft_bgp::capability::AddPath| {
                let way = match (it.receive, it.send) {
                    (true, true) => "both",
                    (true, false) => "receive",
                    (false, true) => "send",
                    (false, false) => "none",
                };
                format!("{} {way}", it.family)
            };
            let names: Vec<_> = families.iter().map(name).collect();
            format!("add-path {}", names.join(","))
        }
        Capability::EnhancedRouteRefresh => "enhanced route refresh".to_owned(),
        Capability::LongLivedGracefulRestart(families) => {
            let name =
                |it: &weft_bgp::capability::LongLived| format!("{} {}s", it.family, it.stale_secs);
            let names: Vec<_> = families.iter().map(name).collect();
            format!("long-lived graceful restart {}", names.join(","))
        }
        Capability::Fqdn { host, .. } => format!("host name {host}"),
        Capability::SoftwareVersion(version) => format!("software {version}"),
        Capability::Unknown { code, .. } => format!("unknown {code}"),
    }
}

#[cfg(test)]
mod tests {
    use weft_bgp::attribute::Attributes;
    use weft_bgp::nlri::unicast::Prefix4;
    use weft_bgp::peer::RouterId;
    use weft_bgp::table::PeerKind;

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
        let report = Report::new("leaves".to_owned(), false);
        let mut facts = report.facts();
        facts.peer = Some(id);
        facts.rival = Some(first);
        let of = |rows: &[proto::Peer]| {
            let row = |row: &proto::Peer| (row.address.clone(), row.routes, row.owner);
            rows.iter().map(row).collect::<Vec<_>>()
        };
        let rows = rows(&[(second, facts)], &counted);
        let expected = [(String::new(), 7, 1), (second.to_string(), 0, 0)];
        assert_eq!(of(&rows), expected);
    }

    #[test]
    fn routes_are_counted_by_peer_over_all_parts_of_a_table() {
        let peer = |last: u8| PeerId {
            router_id: RouterId(last.into()),
            asn: 64_496,
        };
        let sources = [1, 2].map(|last| {
            let address = Ipv4Addr::new(192, 0, 2, last).into();
            Arc::new(Source::new(peer(last), address, PeerKind::IbgpClient))
        });
        let mut table = Table::new();
        let count = u32::try_from(2 * PART + 7).unwrap();
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
        table.select();
        let (mut counted, mut place, mut parts) = (Counted::default(), Some(0), 0);
        while let Some(at) = place {
            let (part, next) = Counted::part(&table, at);
            counted = counted.with(part);
            (place, parts) = (next, parts + 1);
        }
        assert_eq!(parts, 3);
        let routes = [1, 2, 3].map(|last| counted.routes(peer(last)));
        assert_eq!(routes, [count.into(), count.div_ceil(10).into(), 0]);
    }
}
