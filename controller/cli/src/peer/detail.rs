//! One peer in full: what was agreed with it, what it announced, and what became of that.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use weft_proto::operator::v1 as proto;

use super::{Peer, age};
use crate::output::{Table, or_dash, printable};

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

impl From<proto::PeerDetail> for Detail {
    fn from(detail: proto::PeerDetail) -> Self {
        Self {
            peer: detail.peer.unwrap_or_default().into(),
            description: detail.description,
            kind: detail.kind,
            profile: detail.profile,
            profile_reason: detail.profile_reason,
            capabilities: detail.capabilities,
            hold_secs: detail.hold_secs,
            keepalive_secs: detail.keepalive_secs,
            message_max: detail.message_max,
            negotiated: detail.negotiated.into_iter().map(Family::from).collect(),
            refused: detail.refused.into_iter().collect(),
            discarded: detail.discarded.into_iter().collect(),
            dropped: detail.dropped.into_iter().collect(),
            suspect: detail.suspect.into_iter().collect(),
            malformed: detail.malformed.into_iter().collect(),
            established: detail.established,
            received: detail.messages_received.into_iter().collect(),
            sent: detail.messages_sent.into_iter().collect(),
            bfd: detail.bfd,
            authentication: detail.authentication,
            stale: detail.stale,
            warnings: detail.warnings,
            local_address: detail.local_address,
            remote_address: detail.remote_address,
        }
    }
}

impl From<proto::PeerFamily> for Family {
    fn from(family: proto::PeerFamily) -> Self {
        Self {
            family: family.family,
            routes: family.routes,
            add_path_receive: family.add_path_receive,
            add_path_send: family.add_path_send,
            end_of_rib: family.end_of_rib,
            interest: family.interest,
            routes_saved: family.routes_saved,
            octets_saved: family.octets_saved,
            restart_secs: family.restart_secs,
            long_lived_secs: family.long_lived_secs,
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

    #[test]
    fn a_peer_in_full() {
        let counts = |pairs: &[(&str, u64)]| {
            let pairs = pairs
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count));
            pairs.collect()
        };
        let detail = proto::PeerDetail {
            peer: Some(proto::Peer {
                address: "192.0.2.11".to_owned(),
                asn: 64_496,
                router_id: "192.0.2.11".to_owned(),
                peer_group: "leaves".to_owned(),
                state: "Established".to_owned(),
                since_secs: 192,
                owner: 2,
                ..proto::Peer::default()
            }),
            kind: "client".to_owned(),
            profile: "frr-8".to_owned(),
            profile_reason: "only FRR offers these capabilities".to_owned(),
            capabilities: vec!["route refresh".to_owned(), "four-octet AS 64496".to_owned()],
            hold_secs: 9,
            keepalive_secs: 3,
            message_max: 65_535,
            negotiated: vec![proto::PeerFamily {
                family: "l2vpn-evpn".to_owned(),
                routes: 5,
                end_of_rib: true,
                interest: "2 route targets".to_owned(),
                routes_saved: 7,
                octets_saved: 700,
                restart_secs: 120,
                ..proto::PeerFamily::default()
            }],
            refused: counts(&[("loop", 1), ("nlri", 2)]),
            discarded: counts(&[("unknown type 99:", 2)]),
            dropped: [(26, 4)].into(),
            messages_received: counts(&[("open", 1), ("update", 4)]),
            authentication: "md5".to_owned(),
            warnings: vec!["routes".to_owned()],
            ..proto::PeerDetail::default()
        };
        let mut out = Vec::new();
        Detail::from(detail).print(&mut out).unwrap();
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
