//! One peer in full: what was negotiated with it, what signs its connection, and what became of what it announced. Knows
//! reports, no task and no socket.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use prost_types::Timestamp;
use weft_bfd::State;
use weft_bgp::capability::Capability;
use weft_bgp::family::Family;
use weft_bgp::session::Negotiated;
use weft_bgp::table::PeerKind;
use weft_proto::v1::{self as proto, AuthenticationMethod, BfdState};
use weft_sys::tcp_ao::Status;

use super::super::family;
use super::super::header::duration;
use super::rows::messages;
use crate::config::{PeerGroup, Resolved};
use crate::speaker::report::{Direction, Facts};

/// All that this replica knows of one peer.
pub(super) fn detail(
    facts: &Facts,
    settings: Option<Resolved<'_>>,
    local_asn: u32,
) -> proto::PeerDetail {
    let settings = settings.map(|resolved| resolved.settings);
    let negotiated = facts.negotiated.as_deref();
    let asn = facts.peer.map(|peer| peer.asn);
    let kind = settings.and_then(|settings| Some(settings.kind(asn?, local_asn)));
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let dropped = facts.dropped.iter();
    let end = |end: fn(&crate::speaker::report::Wire) -> SocketAddr| {
        let wire = facts.wire.as_ref();
        wire.map(|wire| end(wire).to_string())
    };
    let capabilities = negotiated.map(|it| it.peer_capabilities.iter().map(capability));
    proto::PeerDetail {
        description: settings.and_then(|settings| settings.description.clone()),
        kind: kind.map_or(proto::PeerKind::Unspecified, kind_of).into(),
        profile: text(&facts.profile.0),
        profile_reason: text(&facts.profile.1),
        capabilities: capabilities.map(Iterator::collect).unwrap_or_default(),
        hold_time: negotiated.map(|it| duration(it.hold)),
        keepalive_interval: negotiated.map(|it| duration(it.keepalive)),
        message_octets_max: negotiated.map(|it| it.max_len.into()),
        families: negotiated.map(|it| families(it, facts)).unwrap_or_default(),
        refused: by_name(&facts.refused),
        discarded: facts.discarded(),
        suspect: by_name(&facts.suspect),
        malformed: facts.malformed.clone(),
        dropped: dropped
            .map(|(code, count)| (u32::from(*code), *count))
            .collect(),
        established_count: facts.established,
        messages_received: by_kind(facts, Direction::Received),
        messages_sent: by_kind(facts, Direction::Sent),
        bfd_state: bfd_state(facts).into(),
        authentication: Some(authentication(facts, settings)),
        near_limits: facts.near.lines(),
        local_address: end(|wire| wire.local),
        remote_address: end(|wire| wire.remote),
        wait_reason: facts.waits.as_ref().map(|(reason, _)| reason.clone()),
        wait_end_time: facts.waits.as_ref().map(|(_, at)| Timestamp::from(*at)),
        refused_connections: facts.refusals.totals().map(named).collect(),
    }
}

fn by_name(counts: &BTreeMap<&'static str, u64>) -> BTreeMap<String, u64> {
    let counts = counts.iter().map(|(name, count)| (*name, *count));
    counts.map(named).collect()
}

fn named((name, count): (&str, u64)) -> (String, u64) {
    (name.to_owned(), count)
}

fn by_kind(facts: &Facts, wanted: Direction) -> BTreeMap<String, u64> {
    let pairs = messages(facts, wanted);
    pairs
        .map(|(kind, count)| (kind.to_owned(), count))
        .collect()
}

fn kind_of(kind: PeerKind) -> proto::PeerKind {
    match kind {
        PeerKind::IbgpClient => proto::PeerKind::Client,
        PeerKind::IbgpNonClient => proto::PeerKind::NonClient,
        PeerKind::RouteServerClient => proto::PeerKind::RouteServerClient,
        PeerKind::Ebgp => proto::PeerKind::External,
    }
}

fn bfd_state(facts: &Facts) -> BfdState {
    let state = facts.bfd.as_ref().map(|status| status.borrow().state);
    match state {
        None => BfdState::Unspecified,
        Some(State::AdminDown) => BfdState::AdminDown,
        Some(State::Down) => BfdState::Down,
        Some(State::Init) => BfdState::Init,
        Some(State::Up) => BfdState::Up,
    }
}

/// What signs the connection; of TCP-AO also the ids of the keys, and what it dropped.
fn authentication(facts: &Facts, settings: Option<&PeerGroup>) -> proto::PeerAuthentication {
    let has_md5 = settings.is_some_and(|settings| settings.password_file.is_some());
    let has_tcp_ao = settings.is_some_and(|settings| !settings.tcp_ao.is_empty());
    let method = match (has_tcp_ao, has_md5) {
        (true, _) => AuthenticationMethod::TcpAo,
        (false, true) => AuthenticationMethod::Md5,
        (false, false) => AuthenticationMethod::None,
    };
    let unsigned = proto::PeerAuthentication {
        method: method.into(),
        ..proto::PeerAuthentication::default()
    };
    match facts.signed.filter(|_| has_tcp_ao) {
        Some(Status {
            send_id,
            recv_id,
            good,
            dropped,
        }) => proto::PeerAuthentication {
            send_key_id: Some(send_id.into()),
            receive_key_id: Some(recv_id.into()),
            good_segments: Some(good),
            dropped_segments: Some(dropped),
            ..unsigned
        },
        None => unsigned,
    }
}

fn families(negotiated: &Negotiated, facts: &Facts) -> Vec<proto::PeerFamily> {
    let families = negotiated.families.iter();
    families
        .map(|it| negotiated_family(*it, negotiated, facts))
        .collect()
}

fn negotiated_family(family: Family, negotiated: &Negotiated, facts: &Facts) -> proto::PeerFamily {
    let secs = |secs: u32| duration(std::time::Duration::from_secs(secs.into()));
    let restart = negotiated.graceful_restart.as_ref();
    let restart = restart.filter(|it| it.families.iter().any(|(one, _)| *one == family));
    let mut long_lived = negotiated.long_lived.iter();
    let interest = facts.told.get(&family).map(|(_, interest)| interest.len());
    let interest = interest.map(|targets| proto::PeerInterest {
        everything: targets.is_none(),
        route_target_count: targets.map_or(0, |count| count as u64),
    });
    let saved = facts.saved.get(&family);
    let (routes_saved, octets_saved) = saved.map_or((0, 0), |saved| saved.totals());
    proto::PeerFamily {
        family: family::to_message(family).into(),
        route_count: facts.routes.get(&family).map_or(0, |count| *count as u64),
        add_path_receive: negotiated.add_path_receive.contains(family),
        add_path_send: negotiated.add_path_send.contains(family),
        end_of_rib_received: facts.ended.contains(&family),
        interest,
        routes_saved,
        octets_saved,
        restart_time: restart.map(|it| secs(it.restart_secs.into())),
        long_lived_stale_time: long_lived
            .find(|it| it.family == family)
            .map(|it| secs(it.stale_secs)),
    }
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
