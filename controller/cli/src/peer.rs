//! `weft peer`: BGP sessions as the asked replica sees them.

mod detail;

use std::net::IpAddr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use prost_types::Timestamp;
use tokio::time::Instant;
use tonic::Code;
use weft_proto::v1::{self as proto, ChangeType, SessionState};

use crate::completion;
use crate::config;
use crate::connection::{Connection, Page, request_id};
use crate::dialog::{Dialog, Heard, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Row, or_dash};
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
    /// Wait until a session is as wanted at the asked replica. Exit code 3: it is not, in time. A peer that is neither known nor in a
    /// listen range is refused at once.
    Wait(Wait),
    /// End the asked replica's session to a peer; it is opened again as after any other end.
    Reset {
        /// Its address or router id.
        #[arg(add = completion::peers())]
        peer: String,
    },
    /// Have routes sent again in a session that goes on.
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
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(..=WITHIN_MAX_SECS)
    )]
    within: u64,
}

/// A state that can be waited for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Awaited {
    /// Routes are exchanged.
    Established,
    /// No routes are exchanged.
    Down,
}

/// Whose routes are sent again.
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
    if dialog.watch {
        let request = proto::WatchRequest {
            peers: Some(proto::PeerFilter::default()),
            ..proto::WatchRequest::default()
        };
        return dialog.follow(request, heard).await;
    }
    dialog.pages(page).await
}

/// One page of peers, as one replica sees them.
pub(crate) async fn page(
    connection: &Connection,
    page_token: String,
) -> Result<Page<proto::Peer>, Failure> {
    let mut client = connection.peers().await?;
    let request = proto::ListPeersRequest {
        page_size: PAGE_SIZE,
        page_token,
    };
    let page = connection.answer(client.list_peers(request)).await?;
    Ok(Page::new(page.header, page.peers, page.next_page_token))
}

/// What an answer of a watch says of peers.
fn heard(answer: proto::WatchResponse) -> Heard<proto::Peer> {
    let (mut rows, mut gone) = (Vec::new(), Vec::new());
    for change in answer.peer_changes {
        let into = match change.change_type() {
            ChangeType::Deleted => &mut gone,
            ChangeType::Created | ChangeType::Updated | ChangeType::Unspecified => &mut rows,
        };
        into.extend(change.peer);
    }
    Heard {
        rows,
        gone,
        whole: answer.peer_snapshot && answer.header.is_some(),
    }
}

async fn show(name: String, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let connection = &dialog.connection;
    let question = async || {
        let mut client = connection.peers().await?;
        let request = proto::GetPeerRequest { name: name.clone() };
        connection.answer(client.get_peer(request)).await
    };
    let answer = connection.read(question).await?;
    let now = words::answered(answer.header.as_ref());
    let peer = answer.resource.unwrap_or_default();
    if !dialog.object(&peer.object())? {
        detail::print(&peer, now, dialog.out)?;
    }
    Ok(())
}

impl Wait {
    /// Asks again and again; nobody else is disturbed by it.
    async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let due = Instant::now() + Duration::from_secs(self.within);
        let name = output::printable(&self.peer);
        let mut last = Err(Failure::unanswered(
            dialog.connection.address(),
            "nothing yet",
        ));
        let mut is_known = false;
        loop {
            // At least one answer is waited for, and none longer than there is time.
            let left = due.saturating_duration_since(Instant::now());
            let connection = dialog.connection.hasty(left.max(AT_LEAST));
            let question = async || self.state(&connection).await;
            match tokio::time::timeout(left.max(AT_LEAST), connection.read(question)).await {
                Ok(Err(failure @ Failure::Refused(_))) => return Err(failure),
                Ok(Err(failure)) => last = Err(failure),
                Ok(Ok(state)) => {
                    if state.is_none() && !is_known {
                        self.check_range(&connection).await?;
                    }
                    is_known = true;
                    last = Ok(state.unwrap_or(SessionState::Idle));
                }
                Err(_) => {}
            }
            if let Ok(state) = &last {
                let is = *state == SessionState::Established;
                if is == (self.awaited == Awaited::Established) {
                    return Ok(());
                }
                let state = self::state(*state);
                dialog.progress.say(format!("{name} is {state}"));
            }
            if Instant::now() + AGAIN > due {
                return Err(match last {
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

    /// Returns the state at the replica that answers; Idle without a session, None without such a peer.
    async fn state(&self, connection: &Connection) -> Result<Option<SessionState>, Failure> {
        let mut client = connection.peers().await?;
        let request = proto::GetPeerRequest {
            name: self.peer.clone(),
        };
        match connection.status(client.get_peer(request)).await? {
            Ok(answer) => {
                let peer = answer.resource.unwrap_or_default();
                let state = peer.session.map_or(SessionState::Idle, |it| it.state());
                Ok(Some(state))
            }
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(Failure::from_status(connection.address(), &status)),
        }
    }

    /// Refuses a peer that is not known, unless a listen range has its address: it may still connect.
    async fn check_range(&self, connection: &Connection) -> Result<(), Failure> {
        let ask = async |page_token| {
            let request = proto::ListConfigValuesRequest {
                page_token,
                ..proto::ListConfigValuesRequest::default()
            };
            config::values(connection, request).await
        };
        let values = connection.every(ask, |_| ()).await?;
        let subjects = values.iter().map(|it| it.subject.as_str());
        let mut ranges = subjects.filter_map(|it| it.strip_prefix("listen_range "));
        // The zone of a link-local address (RFC 4007 §11) is in no prefix.
        let address = self.peer.split('%').next();
        let address = address.and_then(|it| it.parse::<IpAddr>().ok());
        if ranges.any(|range| address.is_some_and(|it| covers(range, it))) {
            return Ok(());
        }
        let name = output::printable(&self.peer);
        let reason = format!("no such peer: {name}; `weft peer list` has those that are known");
        Err(Failure::Refused(reason))
    }
}

/// Returns true if a prefix, as in 192.0.2.0/24, has an address.
fn covers(prefix: &str, address: IpAddr) -> bool {
    let Some((network, length)) = prefix.split_once('/') else {
        return false;
    };
    let bits = |address: IpAddr| match address {
        IpAddr::V4(it) => (u128::from(it.to_bits()) << 96, 32),
        IpAddr::V6(it) => (it.to_bits(), 128),
    };
    let (Ok(network), Ok(length)) = (network.parse::<IpAddr>(), length.parse::<u32>()) else {
        return false;
    };
    let ((network, width), (address, other)) = (bits(network), bits(address));
    let differ = (network ^ address).leading_zeros();
    width == other && length <= width && differ >= length
}

async fn reset(name: String, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.peers().await?;
    let request = proto::ResetPeerRequest {
        name,
        request_id: request_id(),
    };
    let call = client.reset_peer(request);
    let answer = dialog.connection.answer(call).await?;
    let answer = output::message("weft.v1.ResetPeerResponse", &answer);
    dialog.object(&answer).map(|_| ())
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
        request_id: request_id(),
    };
    let call = client.refresh_peer(request);
    let answer = dialog.connection.answer(call).await?;
    let answer = output::message("weft.v1.RefreshPeerResponse", &answer);
    dialog.object(&answer).map(|_| ())
}

/// Between two looks.
const AGAIN: Duration = Duration::from_millis(200);
/// A replica that is there answers by then.
const AT_LEAST: Duration = Duration::from_secs(1);
/// A year; more is no wait.
const WITHIN_MAX_SECS: u64 = 366 * 86_400;

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

impl Row for proto::Peer {
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
    const WIDE: &'static [&'static str] = &["FAMILIES", "RECEIVED", "SENT", "DYNAMIC"];
    const PASSING: &'static [&'static str] = &["SINCE", "RECEIVED", "SENT"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.Peer", self)
    }

    fn lines(&self, answered: Option<Timestamp>) -> Vec<Vec<String>> {
        let none = proto::PeerSession::default();
        let session = self.session.as_ref().unwrap_or(&none);
        let since = words::age(answered, session.state_change_time).unwrap_or_default();
        let sessions = self.session_replica_ids.iter().map(ToString::to_string);
        let families: Vec<_> = session.families().map(words::family).collect();
        vec![vec![
            or_dash(self.router_id()),
            or_dash(&session.address),
            words::or_dash(self.asn),
            or_dash(&session.peer_group),
            state(session.state()).to_owned(),
            words::units(since.as_secs()),
            self.route_count.to_string(),
            words::or_dash(self.owner_replica_id),
            or_dash(&sessions.collect::<Vec<_>>().join(",")),
            or_dash(session.last_error()),
            or_dash(&families.join(",")),
            session.messages_received.to_string(),
            session.messages_sent.to_string(),
            if session.dynamic { "yes" } else { "no" }.to_owned(),
        ]]
    }

    /// Its address here, or the router id of one without a session here.
    fn name(&self) -> String {
        match &self.session {
            Some(session) => session.address.clone(),
            None => self.router_id().to_owned(),
        }
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

    fn print(format: Format, peers: &[proto::Peer]) -> String {
        let mut out = Vec::new();
        let mut list = List::new(&mut out, format);
        list.add(peers, at(1_192)).unwrap();
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
        assert_eq!(print(Format::Table, &[silent, peer()]), expected);
    }

    #[test]
    fn a_peer_of_other_replicas_is_idle_here() {
        let elsewhere = proto::Peer {
            session: None,
            ..peer()
        };
        let printed = print(Format::Table, &[elsewhere]);
        let row = "192.0.2.11  -        64496  -      Idle   0s     5       2      1,2,3     -\n";
        assert!(printed.ends_with(row), "{printed}");
    }

    #[test]
    fn a_prefix_has_the_addresses_of_its_family_that_begin_like_it() {
        for (prefix, address, has) in [
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.9/32", "192.0.2.9", true),
            ("192.0.2.9/32", "192.0.2.8", false),
            ("0.0.0.0/0", "203.0.113.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/128", "2001:db8::1", false),
            ("192.0.2.0/33", "192.0.2.0", false),
            ("192.0.2.0", "192.0.2.0", false),
            ("x/8", "192.0.2.0", false),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(covers(prefix, address), has, "{prefix} {address}");
        }
    }

    #[test]
    fn machines_read_the_messages_of_the_api() {
        let printed = print(Format::Json, &[peer(), peer()]);
        assert_eq!(printed.lines().count(), 4, "{printed}");
        let read: Vec<serde_json::Value> = serde_json::from_str(&printed).unwrap();
        let session = &read[0]["session"];
        assert_eq!(read[0]["router_id"], "192.0.2.11");
        assert_eq!(read[0]["session_replica_ids"], serde_json::json!([1, 2, 3]));
        assert_eq!(session["state"], "SESSION_STATE_ESTABLISHED");
        assert_eq!(session["state_change_time"], "1970-01-01T00:16:40Z");
        assert_eq!(session["families"][0], "ADDRESS_FAMILY_L2VPN_EVPN");
        assert!(session.get("last_error").is_none());
        let yaml = print(Format::Yaml, &[peer(), peer()]);
        let same: Vec<serde_json::Value> = serde_yaml_ng::from_str(&yaml).unwrap();
        assert_eq!(same, read);
    }

    #[test]
    fn what_changes_all_the_time_is_no_change() {
        let mut later = peer();
        let session = later.session.as_mut().unwrap();
        session.messages_received += 1;
        session.state_change_time = at(1_001);
        assert_eq!(later.lasting(), peer().lasting());
        later.route_count += 1;
        assert_ne!(later.lasting(), peer().lasting());
    }
}
