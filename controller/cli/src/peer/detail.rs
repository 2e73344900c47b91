//! One peer in full: what was agreed with it, what it announced, and what became of that.

use std::collections::BTreeMap;
use std::io::{self, Write};

use prost_types::Timestamp;
use serde::Serialize;
use weft_proto::v1::{self as proto, AuthenticationMethod, BfdState, PeerKind};

use super::{Peer, age};
use crate::output::{Table, or_dash, printable};
use crate::words;

/// As an object.
#[derive(Serialize)]
pub(super) struct Detail {
    #[serde(flatten)]
    peer: Peer,
    description: String,
    kind: String,
    profile: String,
    profile_reason: String,
    capabilities: Vec<String>,
    hold_secs: u32,
    keepalive_secs: u32,
    message_max: u32,
    negotiated: Vec<Family>,
    refused: BTreeMap<String, u64>,
    discarded: BTreeMap<String, u64>,
    dropped: BTreeMap<u32, u64>,
    suspect: BTreeMap<String, u64>,
    malformed: BTreeMap<String, u64>,
    established: u64,
    received: BTreeMap<String, u64>,
    sent: BTreeMap<String, u64>,
    bfd: String,
    authentication: String,
    stale: String,
    warnings: Vec<String>,
    local_address: String,
    remote_address: String,
}

#[derive(Serialize)]
struct Family {
    family: String,
    routes: u64,
    add_path_receive: bool,
    add_path_send: bool,
    end_of_rib: bool,
    interest: String,
    routes_saved: u64,
    octets_saved: u64,
    restart_secs: u32,
    long_lived_secs: u32,
}

impl Detail {
    /// As it was when the replica answered.
    pub(super) fn new(mut peer: proto::Peer, now: Option<Timestamp>) -> Self {
        let detail = peer.detail.take().unwrap_or_default();
        let secs = |span: Option<prost_types::Duration>| {
            u32::try_from(words::secs(span.as_ref())).unwrap_or(u32::MAX)
        };
        let authentication = detail.authentication.as_ref();
        Self {
            kind: kind(detail.kind()).to_owned(),
            bfd: bfd(detail.bfd_state()).to_owned(),
            authentication: authentication.map(signed).unwrap_or_default(),
            stale: words::stale(peer.staleness()).to_owned(),
            peer: Peer::new(peer, now),
            description: detail.description.unwrap_or_default(),
            profile: detail.profile.unwrap_or_default(),
            profile_reason: detail.profile_reason.unwrap_or_default(),
            capabilities: detail.capabilities,
            hold_secs: secs(detail.hold_time),
            keepalive_secs: secs(detail.keepalive_interval),
            message_max: detail.message_octets_max.unwrap_or(0),
            negotiated: detail.families.into_iter().map(Family::from).collect(),
            refused: detail.refused,
            discarded: detail.discarded,
            dropped: detail.dropped,
            suspect: detail.suspect,
            malformed: detail.malformed,
            established: detail.established_count,
            received: detail.messages_received,
            sent: detail.messages_sent,
            warnings: detail.near_limits,
            local_address: detail.local_address.unwrap_or_default(),
            remote_address: detail.remote_address.unwrap_or_default(),
        }
    }
}

fn kind(kind: PeerKind) -> &'static str {
    match kind {
        PeerKind::Unspecified => "",
        PeerKind::Client => "client",
        PeerKind::NonClient => "non-client",
        PeerKind::RouteServerClient => "route server client",
        PeerKind::External => "external",
    }
}

fn bfd(state: BfdState) -> &'static str {
    match state {
        BfdState::Unspecified => "",
        BfdState::AdminDown => "AdminDown",
        BfdState::Down => "Down",
        BfdState::Init => "Init",
        BfdState::Up => "Up",
    }
}

/// What signs the connection; of TCP-AO also the ids of the keys, and what it dropped.
fn signed(by: &proto::PeerAuthentication) -> String {
    match by.method() {
        AuthenticationMethod::Unspecified => String::new(),
        AuthenticationMethod::None => "none".to_owned(),
        AuthenticationMethod::Md5 => "md5".to_owned(),
        AuthenticationMethod::TcpAo => match (by.send_key_id, by.receive_key_id) {
            (Some(send), Some(receive)) => format!(
                "tcp-ao (signs with {send}, asks for {receive}; {} segments good, {} dropped)",
                by.good_segments(),
                by.dropped_segments(),
            ),
            _ => "tcp-ao".to_owned(),
        },
    }
}

impl From<proto::PeerFamily> for Family {
    fn from(family: proto::PeerFamily) -> Self {
        let secs = |span: Option<prost_types::Duration>| {
            u32::try_from(words::secs(span.as_ref())).unwrap_or(u32::MAX)
        };
        let interest = family.interest.map(|interest| match interest.everything {
            true => "everything".to_owned(),
            false => format!("{} route targets", interest.route_target_count),
        });
        Self {
            family: words::family(family.family()),
            routes: family.route_count,
            add_path_receive: family.add_path_receive,
            add_path_send: family.add_path_send,
            end_of_rib: family.end_of_rib_received,
            interest: interest.unwrap_or_default(),
            routes_saved: family.routes_saved,
            octets_saved: family.octets_saved,
            restart_secs: secs(family.restart_time),
            long_lived_secs: secs(family.long_lived_stale_time),
        }
    }
}

impl Detail {
    /// For people: a line for each thing that there is something to say of.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        for (name, text) in self.lines() {
            if !text.is_empty() {
                writeln!(out, "{:15} {}", format!("{name}:"), printable(&text))?;
            }
        }
        if self.negotiated.is_empty() {
            return Ok(());
        }
        let rows: Vec<_> = self.negotiated.iter().map(Family::cells).collect();
        let mut table = Table::new(FAMILIES);
        table.fit(&rows);
        writeln!(out, "\n{}\n{}", table.header(), table.body(&rows))
    }

    fn lines(&self) -> [(&'static str, String); 19] {
        let peer = &self.peer;
        let optional = |text: &str, words: &str| match text {
            "" => String::new(),
            text => format!("{text}{words}"),
        };
        let state = format!("{} for {}", peer.state, age(peer.since_secs));
        let owner = match peer.owner {
            0 => String::new(),
            owner => format!("replica {owner}"),
        };
        let timers = match self.hold_secs {
            0 if self.negotiated.is_empty() => String::new(),
            hold => format!("hold {hold}s, keepalive {}s", self.keepalive_secs),
        };
        let message_max = match self.message_max {
            0 => String::new(),
            octets => format!("{octets} octets"),
        };
        let ends = match self.local_address.as_str() {
            "" => String::new(),
            local => format!("{local} to {}", self.remote_address),
        };
        let profile = match self.profile_reason.as_str() {
            "" => self.profile.clone(),
            reason => format!("{} ({reason})", self.profile),
        };
        [
            (
                "peer",
                format!("{} AS {}", or_dash(&peer.router_id), peer.asn),
            ),
            ("address", peer.address.clone()),
            ("connection", ends),
            ("group", peer.peer_group.clone()),
            ("description", self.description.clone()),
            ("state", state),
            ("kind", self.kind.clone()),
            ("profile", profile),
            ("owner", owner),
            ("timers", timers),
            ("message", message_max),
            ("capabilities", self.capabilities.join(", ")),
            ("authentication", self.authentication.clone()),
            ("bfd", self.bfd.clone()),
            (
                "stale",
                optional(&self.stale, ": its paths outlive its session"),
            ),
            ("near limits", self.warnings.join(", ")),
            ("messages", self.messages()),
            ("routes", self.verdicts()),
            ("last error", peer.last_error.clone()),
        ]
    }

    fn messages(&self) -> String {
        let received = counts(&self.received);
        let sent = counts(&self.sent);
        match (received.as_str(), sent.as_str()) {
            ("", "") => String::new(),
            _ => format!("received {}; sent {}", or_dash(&received), or_dash(&sent)),
        }
    }

    fn verdicts(&self) -> String {
        let dropped = self.dropped.iter();
        let dropped = dropped.map(|(code, count)| (format!("attribute {code}:"), *count));
        let parts = [
            ("refused", &self.refused),
            ("discarded", &self.discarded),
            ("dropped", &dropped.collect()),
            ("suspect", &self.suspect),
            ("malformed", &self.malformed),
        ];
        let said = parts.iter().filter(|(_, counted)| !counted.is_empty());
        let texts = said.map(|(word, counted)| format!("{word}: {}", counts(counted)));
        texts.collect::<Vec<_>>().join("; ")
    }
}

impl Family {
    fn cells(&self) -> Vec<String> {
        let add_path = match (self.add_path_receive, self.add_path_send) {
            (true, true) => "both",
            (true, false) => "receive",
            (false, true) => "send",
            (false, false) => "-",
        };
        let secs = |secs: u32| match secs {
            0 => "-".to_owned(),
            secs => format!("{secs}s"),
        };
        let saved = match (self.routes_saved, self.octets_saved) {
            (0, 0) => "-".to_owned(),
            (routes, octets) => format!("{routes} routes, {octets} octets"),
        };
        vec![
            self.family.clone(),
            self.routes.to_string(),
            if self.end_of_rib { "yes" } else { "no" }.to_owned(),
            add_path.to_owned(),
            or_dash(&self.interest),
            saved,
            secs(self.restart_secs),
            secs(self.long_lived_secs),
        ]
    }
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    let texts = counts.iter().map(|(name, count)| format!("{name} {count}"));
    texts.collect::<Vec<_>>().join(", ")
}

const FAMILIES: &[&str] = &[
    "FAMILY",
    "ROUTES",
    "END-OF-RIB",
    "ADD-PATH",
    "TOLD-OF",
    "SAVED",
    "RESTART",
    "LONG-LIVED",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn detail() -> proto::PeerDetail {
        let counts = |pairs: &[(&str, u64)]| {
            let pairs = pairs
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count));
            pairs.collect()
        };
        let secs = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        proto::PeerDetail {
            kind: PeerKind::Client.into(),
            profile: Some("frr-8".to_owned()),
            profile_reason: Some("only FRR offers these capabilities".to_owned()),
            capabilities: vec!["route refresh".to_owned(), "four-octet AS 64496".to_owned()],
            hold_time: secs(9),
            keepalive_interval: secs(3),
            message_octets_max: Some(65_535),
            families: vec![proto::PeerFamily {
                family: proto::AddressFamily::L2vpnEvpn.into(),
                route_count: 5,
                end_of_rib_received: true,
                interest: Some(proto::PeerInterest {
                    everything: false,
                    route_target_count: 2,
                }),
                routes_saved: 7,
                octets_saved: 700,
                restart_time: secs(120),
                ..proto::PeerFamily::default()
            }],
            refused: counts(&[("loop", 1), ("nlri", 2)]),
            discarded: counts(&[("unknown type 99:", 2)]),
            dropped: [(26, 4)].into(),
            messages_received: counts(&[("open", 1), ("update", 4)]),
            authentication: Some(proto::PeerAuthentication {
                method: AuthenticationMethod::Md5.into(),
                ..proto::PeerAuthentication::default()
            }),
            near_limits: vec!["routes".to_owned()],
            ..proto::PeerDetail::default()
        }
    }

    #[test]
    fn a_peer_in_full() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let peer = proto::Peer {
            asn: Some(64_496),
            router_id: Some("192.0.2.11".to_owned()),
            owner_replica_id: Some(2),
            session: Some(proto::PeerSession {
                address: "192.0.2.11".to_owned(),
                peer_group: "leaves".to_owned(),
                state: proto::SessionState::Established.into(),
                state_change_time: at(1_000),
                ..proto::PeerSession::default()
            }),
            detail: Some(detail()),
            ..proto::Peer::default()
        };
        let mut out = Vec::new();
        Detail::new(peer, at(1_192)).print(&mut out).unwrap();
        let expected = "\
peer:           192.0.2.11 AS 64496
address:        192.0.2.11
group:          leaves
state:          Established for 3m12s
kind:           client
profile:        frr-8 (only FRR offers these capabilities)
owner:          replica 2
timers:         hold 9s, keepalive 3s
message:        65535 octets
capabilities:   route refresh, four-octet AS 64496
authentication: md5
near limits:    routes
messages:       received open 1, update 4; sent -
routes:         refused: loop 1, nlri 2; discarded: unknown type 99: 2; dropped: attribute 26: 4

FAMILY      ROUTES  END-OF-RIB  ADD-PATH  TOLD-OF          SAVED                 RESTART  LONG-LIVED
l2vpn-evpn  5       yes         -         2 route targets  7 routes, 700 octets  120s     -
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
