//! `weft peer`: BGP sessions as the asked replica sees them.

mod detail;

use clap::Subcommand;
use serde::Serialize;
use weft_proto::operator::v1 as proto;

use crate::connection::Connection;
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, or_dash};

/// What can be asked of peers.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Sessions, their state, and the replica that commits each peer's routes.
    List,
    /// One session: what was agreed, what was announced, and what became of it.
    Show {
        /// Its address or router id.
        peer: String,
    },
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::List => list(dialog).await,
            Self::Show { peer } => show(peer, dialog).await,
        }
    }
}

async fn list(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.operator().await?;
    let ask = async |connection: &Connection, page_token| {
        let request = proto::ListPeersRequest {
            page_size: PAGE_SIZE,
            page_token,
        };
        let page = connection.answer(client.list_peers(request)).await?;
        Ok((page.peers, page.next_page_token))
    };
    dialog.pages::<_, Peer>(ask).await
}

async fn show(peer: String, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.operator().await?;
    let call = client.get_peer(proto::GetPeerRequest { peer });
    let detail = detail::Detail::from(dialog.connection.answer(call).await?);
    if !output::object(dialog.out, dialog.format, &detail)? {
        detail.print(dialog.out)?;
    }
    Ok(())
}

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

impl From<proto::Peer> for Peer {
    fn from(peer: proto::Peer) -> Self {
        Self {
            address: peer.address,
            asn: peer.asn,
            router_id: peer.router_id,
            peer_group: peer.peer_group,
            state: peer.state,
            since_secs: peer.since_secs,
            families: peer.families,
            routes: peer.routes,
            messages_received: peer.messages_received,
            messages_sent: peer.messages_sent,
            owner: peer.owner,
            sessions: peer.sessions,
            last_error: peer.last_error,
            dynamic: peer.dynamic,
        }
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

    fn peer() -> proto::Peer {
        proto::Peer {
            address: "192.0.2.11".to_owned(),
            asn: 64_496,
            router_id: "192.0.2.11".to_owned(),
            peer_group: "leaves".to_owned(),
            state: "Established".to_owned(),
            since_secs: 192,
            families: vec!["l2vpn-evpn".to_owned()],
            routes: 5,
            messages_received: 40,
            messages_sent: 41,
            owner: 2,
            sessions: vec![1, 2, 3],
            last_error: String::new(),
            dynamic: true,
        }
    }

    fn print(format: Format, peers: Vec<proto::Peer>) -> String {
        let mut out = Vec::new();
        let mut list = List::new(&mut out, format);
        list.add(&peers.into_iter().map(Peer::from).collect::<Vec<_>>())
            .unwrap();
        list.end().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn peers_in_columns() {
        let silent = proto::Peer {
            address: "192.0.2.9".to_owned(),
            state: "Active".to_owned(),
            since_secs: 7,
            last_error: "peer said \u{1b}[2J\nbye".to_owned(),
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
