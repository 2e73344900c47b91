//! `weft peer`: BGP sessions as the asked replica sees them.

mod detail;

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use prost_types::Timestamp;
use serde::Serialize;
use tokio::time::Instant;
use tonic::Code;
use weft_proto::v1::{self as proto, SessionState};

use crate::completion;
use crate::connection::Connection;
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, or_dash};
use crate::words;

/// What can be asked of peers.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Sessions, their state, and the replica that commits each peer's routes.
    List,
    /// One session: what was agreed, what was announced, and what became of it.
    Show {
        /// Its address or router id.
        #[arg(add = completion::peers())]
        peer: String,
    },
    /// Wait until a session is as wanted at the asked replica. Exit code 3: it is not, in time.
    Wait(Wait),
    /// End the asked replica's session to a peer; it is opened again as after any other end.
    Reset {
        /// Its address or router id.
        #[arg(add = completion::peers())]
        peer: String,
    },
    /// Have routes told again in a session that goes on.
    Refresh {
        /// Its address or router id.
        #[arg(add = completion::peers())]
        peer: String,
        /// Whose routes: the peer's (in), by ROUTE-REFRESH, or weft's (out).
        #[arg(long, value_enum)]
        soft: Soft,
    },
}

/// What is waited for.
#[derive(Args)]
pub(crate) struct Wait {
    /// Its address or router id.
    #[arg(add = completion::peers())]
    peer: String,
    /// What is waited for.
    #[arg(long = "for", value_enum, default_value_t = Awaited::Established)]
    awaited: Awaited,
    /// How long, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    within: u64,
}

/// A state that can be waited for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Awaited {
    /// Routes are exchanged.
    Established,
    /// No routes are exchanged.
    Gone,
}

/// Whose routes are told again.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Soft {
    /// The peer's.
    In,
    /// Weft's.
    Out,
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::List => list(dialog).await,
            Self::Show { peer } => show(peer, dialog).await,
            Self::Wait(wait) => wait.run(dialog).await,
            Self::Reset { peer } => reset(peer, dialog).await,
            Self::Refresh { peer, soft } => refresh(peer, soft, dialog).await,
        }
    }
}

async fn list(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.peers().await?;
    let ask = async |connection: &Connection, page_token| {
        let request = proto::ListPeersRequest {
            page_size: PAGE_SIZE,
            page_token,
        };
        let page = connection.answer(client.list_peers(request)).await?;
        let now = words::answered(page.header.as_ref());
        let rows = page.peers.into_iter().map(|peer| Peer::new(peer, now));
        Ok((rows.collect(), page.next_page_token))
    };
    dialog.pages::<Peer, Peer>(ask).await
}

async fn show(name: String, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.peers().await?;
    let call = client.get_peer(proto::GetPeerRequest { name });
    let answer = dialog.connection.answer(call).await?;
    let now = words::answered(answer.header.as_ref());
    let detail = detail::Detail::new(answer.resource.unwrap_or_default(), now);
    if !output::object(dialog.out, dialog.format, &detail)? {
        detail.print(dialog.out)?;
    }
    Ok(())
}

impl Wait {
    /// Asks again and again; nobody else is disturbed by it.
    async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let due = Instant::now() + Duration::from_secs(self.within);
        loop {
            let state = self.state(&dialog.connection).await;
            let is = matches!(state, Ok(SessionState::Established));
            let known = state.is_ok() && is == (self.awaited == Awaited::Established);
            if known {
                return Ok(());
            }
            if Instant::now() >= due {
                let name = output::printable(&self.peer);
                return Err(match state {
                    Ok(state) => {
                        let state = self::state(state);
                        let reason = format!("{name} is {state} after {} s", self.within);
                        Failure::Unmet(reason)
                    }
                    Err(failure) => failure,
                });
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The state at the replica that answers; Idle without a session.
    async fn state(&self, connection: &Connection) -> Result<SessionState, Failure> {
        let mut client = connection.peers().await?;
        let request = proto::GetPeerRequest {
            name: self.peer.clone(),
        };
        match connection.status(client.get_peer(request)).await? {
            Ok(answer) => {
                let peer = answer.resource.unwrap_or_default();
                Ok(peer.session.map_or(SessionState::Idle, |it| it.state()))
            }
            Err(status) if status.code() == Code::NotFound => Ok(SessionState::Idle),
            Err(status) => Err(Failure::from_status(connection.address(), &status)),
        }
    }
}

async fn reset(name: String, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.peers().await?;
    let request = proto::ResetPeerRequest {
        name,
        ..proto::ResetPeerRequest::default()
    };
    let call = client.reset_peer(request);
    dialog.connection.answer(call).await.map(|_| ())
}

async fn refresh(name: String, soft: Soft, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.peers().await?;
    let direction = match soft {
        Soft::In => proto::RefreshDirection::In,
        Soft::Out => proto::RefreshDirection::Out,
    };
    let request = proto::RefreshPeerRequest {
        name,
        direction: direction.into(),
        ..proto::RefreshPeerRequest::default()
    };
    let call = client.refresh_peer(request);
    dialog.connection.answer(call).await.map(|_| ())
}

/// Between two looks.
const AGAIN: Duration = Duration::from_millis(200);

#[derive(Serialize)]
struct Peer {
    address: String,
    asn: u32,
    router_id: String,
    peer_group: String,
    state: String,
    since_secs: u64,
    families: Vec<String>,
    routes: u64,
    messages_received: u64,
    messages_sent: u64,
    owner: u64,
    sessions: Vec<u64>,
    last_error: String,
    dynamic: bool,
}

impl Peer {
    /// As it was when the replica answered.
    fn new(peer: proto::Peer, now: Option<Timestamp>) -> Self {
        let session = peer.session.unwrap_or_default();
        let age = words::age(now, session.state_change_time).unwrap_or_default();
        Self {
            state: state(session.state()).to_owned(),
            families: session.families().map(words::family).collect(),
            address: session.address,
            asn: peer.asn.unwrap_or(0),
            router_id: peer.router_id.unwrap_or_default(),
            peer_group: session.peer_group,
            since_secs: Duration::from_secs_f64(age).as_secs(),
            routes: peer.route_count,
            messages_received: session.messages_received,
            messages_sent: session.messages_sent,
            owner: peer.owner_replica_id.unwrap_or(0),
            sessions: peer.session_replica_ids,
            last_error: session.last_error.unwrap_or_default(),
            dynamic: session.dynamic,
        }
    }
}

/// As RFC 4271 §8.2.2 writes it.
pub(crate) fn state(state: SessionState) -> &'static str {
    match state {
        // Without a session here.
        SessionState::Unspecified | SessionState::Idle => "Idle",
        SessionState::Connect => "Connect",
        SessionState::Active => "Active",
        SessionState::OpenSent => "OpenSent",
        SessionState::OpenConfirm => "OpenConfirm",
        SessionState::Established => "Established",
    }
}

impl output::Row for Peer {
    const HEADER: &'static [&'static str] = &[
        "ROUTER-ID",
        "ADDRESS",
        "ASN",
        "GROUP",
        "STATE",
        "SINCE",
        "ROUTES",
        "OWNER",
        "SESSIONS",
        "LAST-ERROR",
    ];

    fn cells(&self) -> Vec<String> {
        let sessions: Vec<_> = self.sessions.iter().map(ToString::to_string).collect();
        let known = |number: u64| {
            if number == 0 {
                "-".to_owned()
            } else {
                number.to_string()
            }
        };
        vec![
            or_dash(&self.router_id),
            or_dash(&self.address),
            known(self.asn.into()),
            or_dash(&self.peer_group),
            self.state.clone(),
            age(self.since_secs),
            self.routes.to_string(),
            known(self.owner),
            or_dash(&sessions.join(",")),
            or_dash(&self.last_error),
        ]
    }

    const WIDE: &'static [&'static str] = &["FAMILIES", "RECEIVED", "SENT", "DYNAMIC"];

    fn wide(&self) -> Vec<String> {
        vec![
            or_dash(&self.families.join(",")),
            self.messages_received.to_string(),
            self.messages_sent.to_string(),
            if self.dynamic { "yes" } else { "no" }.to_owned(),
        ]
    }

    fn lasting(&self) -> Vec<String> {
        const SINCE: usize = 5;
        let mut cells = self.cells();
        cells.remove(SINCE);
        cells
    }

    fn name(&self) -> String {
        match self.address.as_str() {
            "" => self.router_id.clone(),
            address => address.to_owned(),
        }
    }
}

/// The two largest units: `4d7h`, `2h5m`, `3m12s`, `45s`.
fn age(secs: u64) -> String {
    let (minutes, hours, days) = (secs / 60, secs / 3_600, secs / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{secs}s"),
        (0, 0, _) => format!("{minutes}m{}s", secs % 60),
        (0, ..) => format!("{hours}h{}m", minutes % 60),
        (..) => format!("{days}d{}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use crate::output::List;

    fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp { seconds, nanos: 0 })
    }

    fn peer() -> proto::Peer {
        proto::Peer {
            asn: Some(64_496),
            router_id: Some("192.0.2.11".to_owned()),
            owner_replica_id: Some(2),
            session_replica_ids: vec![1, 2, 3],
            route_count: 5,
            session: Some(proto::PeerSession {
                address: "192.0.2.11".to_owned(),
                peer_group: "leaves".to_owned(),
                dynamic: true,
                state: SessionState::Established.into(),
                state_change_time: at(1_000),
                families: vec![proto::AddressFamily::L2vpnEvpn.into()],
                messages_received: 40,
                messages_sent: 41,
                last_error: None,
            }),
            ..proto::Peer::default()
        }
    }

    fn print(format: Format, peers: Vec<proto::Peer>) -> String {
        let mut out = Vec::new();
        let mut list = List::new(&mut out, format);
        let rows = peers.into_iter().map(|peer| Peer::new(peer, at(1_192)));
        list.add(&rows.collect::<Vec<_>>()).unwrap();
        list.end().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn peers_in_columns() {
        let silent = proto::Peer {
            session: Some(proto::PeerSession {
                address: "192.0.2.9".to_owned(),
                state: SessionState::Active.into(),
                state_change_time: at(1_185),
                last_error: Some("peer said \u{1b}[2J\nbye".to_owned()),
                ..proto::PeerSession::default()
            }),
            ..proto::Peer::default()
        };
        let expected = concat!(
            "ROUTER-ID   ADDRESS     ASN    GROUP   STATE        SINCE  ROUTES  OWNER  SESSIONS  LAST-ERROR\n",
            "-           192.0.2.9   -      -       Active       7s     0       -      -         peer said \\u{1b}[2J\\nbye\n",
            "192.0.2.11  192.0.2.11  64496  leaves  Established  3m12s  5       2      1,2,3     -\n",
        );
        assert_eq!(print(Format::Table, vec![silent, peer()]), expected);
    }

    #[test]
    fn a_peer_of_other_replicas_is_idle_here() {
        let elsewhere = proto::Peer {
            session: None,
            ..peer()
        };
        let printed = print(Format::Table, vec![elsewhere]);
        let row = "192.0.2.11  -        64496  -      Idle   0s     5       2      1,2,3     -\n";
        assert!(printed.ends_with(row), "{printed}");
    }

    #[test]
    fn peers_for_machines() {
        let expected = concat!(
            "[\n  {\"address\":\"192.0.2.11\",\"asn\":64496,\"router_id\":\"192.0.2.11\",\"peer_group\":\"leaves\",",
            "\"state\":\"Established\",\"since_secs\":192,\"families\":[\"l2vpn-evpn\"],\"routes\":5,",
            "\"messages_received\":40,\"messages_sent\":41,\"owner\":2,\"sessions\":[1,2,3],\"last_error\":\"\",",
            "\"dynamic\":true}\n]\n",
        );
        assert_eq!(print(Format::Json, vec![peer()]), expected);
        let yaml = print(Format::Yaml, vec![peer(), peer()]);
        let read: Vec<serde_json::Value> = serde_yaml_ng::from_str(&yaml).unwrap();
        assert_eq!((read.len(), &read[1]["since_secs"]), (2, &192.into()));
    }

    #[test]
    fn ages_have_two_units() {
        for (secs, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m0s"),
            (7_500, "2h5m"),
            (370_800, "4d7h"),
        ] {
            assert_eq!(age(secs), text);
        }
    }
}
