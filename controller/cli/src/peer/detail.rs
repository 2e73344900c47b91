//! One peer in full: what was agreed with it, what it announced, and what became of that.

use std::collections::BTreeMap;
use std::io::{self, Write};

use prost_types::Timestamp;
use weft_proto::v1::{self as proto, AuthenticationMethod, BfdState, PeerKind};

use super::state;
use crate::output::{Table, or_dash, printable};
use crate::words;

/// For people: a line for each thing that there is something to say of. Ages are counted from `answered`.
pub(super) fn print(
    peer: &proto::Peer,
    answered: Option<Timestamp>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let none = proto::PeerDetail::default();
    let detail = peer.detail.as_ref().unwrap_or(&none);
    for (name, text) in lines(peer, detail, answered) {
        if !text.is_empty() {
            writeln!(out, "{:15} {}", format!("{name}:"), printable(&text))?;
        }
    }
    if detail.families.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = detail.families.iter().map(cells).collect();
    writeln!(out)?;
    Table::print(out, FAMILIES, &rows, true)
}

fn lines(
    peer: &proto::Peer,
    detail: &proto::PeerDetail,
    answered: Option<Timestamp>,
) -> [(&'static str, String); 21] {
    let none = proto::PeerSession::default();
    let session = peer.session.as_ref().unwrap_or(&none);
    let since = words::age(answered, session.state_change_time).unwrap_or_default();
    let owner = peer.owner_replica_id.map(|id| format!("replica {id}"));
    let message_max = detail.message_octets_max.map(|it| format!("{it} octets"));
    let ends = detail.local_address.as_ref();
    let ends = ends.map(|local| format!("{local} to {}", detail.remote_address()));
    let profile = match detail.profile_reason() {
        "" => detail.profile().to_owned(),
        reason => format!("{} ({reason})", detail.profile()),
    };
    let stale = match words::stale(peer.staleness()) {
        "" => String::new(),
        stale => format!("{stale}: its paths outlive its session"),
    };
    [
        (
            "peer",
            format!(
                "{} AS {}",
                or_dash(peer.router_id()),
                words::or_dash(peer.asn)
            ),
        ),
        ("address", session.address.clone()),
        ("connection", ends.unwrap_or_default()),
        ("group", session.peer_group.clone()),
        ("description", detail.description().to_owned()),
        (
            "state",
            format!(
                "{} for {}",
                state(session.state()),
                words::units(since.as_secs())
            ),
        ),
        ("waits", waits(detail, answered)),
        ("kind", kind(detail.kind()).to_owned()),
        ("profile", profile),
        ("owner", owner.unwrap_or_default()),
        ("timers", timers(detail)),
        ("message", message_max.unwrap_or_default()),
        ("capabilities", detail.capabilities.join(", ")),
        (
            "authentication",
            detail
                .authentication
                .as_ref()
                .map(signed)
                .unwrap_or_default(),
        ),
        ("bfd", bfd(detail.bfd_state()).to_owned()),
        ("stale", stale),
        ("near limits", detail.near_limits.join(", ")),
        ("messages", messages(detail)),
        ("routes", verdicts(detail)),
        ("refused", counts(&detail.refused_connections)),
        ("last error", session.last_error().to_owned()),
    ]
}

/// Why no session begins, and for how long at most.
fn waits(detail: &proto::PeerDetail, answered: Option<Timestamp>) -> String {
    match (
        detail.wait_reason(),
        words::age(detail.wait_end_time, answered),
    ) {
        ("", _) => String::new(),
        (reason, left) => {
            let left = left.unwrap_or_default();
            let left = left.as_secs() + u64::from(left.subsec_nanos() > 0);
            format!("{} at most: {reason}", words::units(left))
        }
    }
}

fn timers(detail: &proto::PeerDetail) -> String {
    let secs = |span: &Option<prost_types::Duration>| words::secs(span.as_ref());
    match secs(&detail.hold_time) {
        0 if detail.families.is_empty() => String::new(),
        hold => format!(
            "hold {hold}s, keepalive {}s",
            secs(&detail.keepalive_interval)
        ),
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

fn messages(detail: &proto::PeerDetail) -> String {
    let received = counts(&detail.messages_received);
    let sent = counts(&detail.messages_sent);
    match (received.as_str(), sent.as_str()) {
        ("", "") => String::new(),
        _ => format!("received {}; sent {}", or_dash(&received), or_dash(&sent)),
    }
}

/// What became of routes that were not kept as they came.
fn verdicts(detail: &proto::PeerDetail) -> String {
    let dropped = detail.dropped.iter();
    let dropped = dropped.map(|(code, count)| (format!("attribute {code}:"), *count));
    let parts = [
        ("refused", &detail.refused),
        ("discarded", &detail.discarded),
        ("dropped", &dropped.collect()),
        ("suspect", &detail.suspect),
        ("malformed", &detail.malformed),
    ];
    let known = parts.iter().filter(|(_, counted)| !counted.is_empty());
    let texts = known.map(|(word, counted)| format!("{word}: {}", counts(counted)));
    texts.collect::<Vec<_>>().join("; ")
}

fn cells(family: &proto::PeerFamily) -> Vec<String> {
    let add_path = match (family.add_path_receive, family.add_path_send) {
        (true, true) => "both",
        (true, false) => "receive",
        (false, true) => "send",
        (false, false) => "-",
    };
    let interest = family.interest.as_ref();
    let interest = interest.map(|interest| match interest.everything {
        true => "everything".to_owned(),
        false => format!("{} route targets", interest.route_target_count),
    });
    let secs = |span: &Option<prost_types::Duration>| match words::secs(span.as_ref()) {
        0 => "-".to_owned(),
        secs => format!("{secs}s"),
    };
    let saved = match (family.routes_saved, family.octets_saved) {
        (0, 0) => "-".to_owned(),
        (routes, octets) => format!("{routes} routes, {octets} octets"),
    };
    vec![
        words::family(family.family()),
        family.route_count.to_string(),
        if family.end_of_rib_received {
            "yes"
        } else {
            "no"
        }
        .to_owned(),
        add_path.to_owned(),
        words::or_dash(interest),
        saved,
        secs(&family.restart_time),
        secs(&family.long_lived_stale_time),
    ]
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
    "INTEREST",
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
            refused_connections: counts(&[("no OPEN in time", 3)]),
            ..proto::PeerDetail::default()
        }
    }

    #[test]
    fn a_wait_has_a_reason_and_an_end() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let detail = proto::PeerDetail {
            wait_reason: Some("limit of routes exceeded".to_owned()),
            wait_end_time: at(1_600),
            ..detail()
        };
        let shown = waits(&detail, at(1_000));
        assert_eq!(shown, "10m0s at most: limit of routes exceeded");
        assert_eq!(waits(&self::detail(), at(1_000)), "");
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
        print(&peer, at(1_192), &mut out).unwrap();
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
refused:        no OPEN in time 3

FAMILY      ROUTES  END-OF-RIB  ADD-PATH  INTEREST         SAVED                 RESTART  LONG-LIVED
l2vpn-evpn  5       yes         -         2 route targets  7 routes, 700 octets  120s     -
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
