//! Names that a shell completes: a replica is asked for them while the line is typed, and nothing is completed if it does not
//! answer at once. Knows lists, no command.

use std::ffi::OsStr;
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use weft_proto::v1 as proto;

use crate::connection::Connection;
use crate::context::Contexts;
use crate::dialog::PAGE_SIZE;
use crate::failure::Failure;

/// Names of contexts.
pub(crate) fn contexts() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let contexts = Contexts::read().unwrap_or_default();
        candidates(contexts.names(), begun)
    })
}

/// Addresses of peers, or router ids of those without a session here.
pub(crate) fn peers() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let names = asked(async |connection: Connection| {
            let request = proto::ListPeersRequest {
                page_size: PAGE_SIZE,
                ..proto::ListPeersRequest::default()
            };
            let mut client = connection.peers().await?;
            let page = connection.answer(client.list_peers(request)).await?;
            let name = |peer: proto::Peer| match peer.session {
                Some(session) => session.address,
                None => peer.router_id.unwrap_or_default(),
            };
            Ok(page.peers.into_iter().map(name).collect())
        });
        candidates(names, begun)
    })
}

/// Names of declared switches.
pub(crate) fn switches() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let names = asked(async |connection: Connection| {
            let request = proto::ListSwitchesRequest {
                page_size: PAGE_SIZE,
                ..proto::ListSwitchesRequest::default()
            };
            let mut client = connection.fabric().await?;
            let page = connection.answer(client.list_switches(request)).await?;
            Ok(page.switches.into_iter().map(|it| it.name).collect())
        });
        candidates(names, begun)
    })
}

/// Names of declared links.
pub(crate) fn links() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let names = asked(async |connection: Connection| {
            let request = proto::ListLinksRequest {
                page_size: PAGE_SIZE,
                ..proto::ListLinksRequest::default()
            };
            let mut client = connection.fabric().await?;
            let page = connection.answer(client.list_links(request)).await?;
            Ok(page.links.into_iter().map(|it| it.name).collect())
        });
        candidates(names, begun)
    })
}

/// VNIs that the routes tell of.
pub(crate) fn vnis() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let names = asked(async |connection: Connection| {
            let request = proto::ListVnisRequest {
                page_size: PAGE_SIZE,
                consistency: proto::Consistency::Serializable.into(),
                ..proto::ListVnisRequest::default()
            };
            let mut client = connection.evpn().await?;
            let page = connection.answer(client.list_vnis(request)).await?;
            Ok(page.vnis.into_iter().map(|it| it.vni.to_string()).collect())
        });
        candidates(names, begun)
    })
}

/// What a replica of the environment, or of the context that is used, answers; nothing if it does not.
fn asked(question: impl AsyncFnOnce(Connection) -> Result<Vec<String>, Failure>) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return Vec::new();
    };
    let connection = Connection::new(crate::addresses(), PATIENCE);
    runtime.block_on(question(connection)).unwrap_or_default()
}

/// Those that begin with what is typed.
fn candidates(names: Vec<String>, begun: &OsStr) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    let names = names.into_iter().filter(|name| name.starts_with(&*begun));
    names.map(CompletionCandidate::new).collect()
}

/// What the shell sets when it wants a line completed.
pub(crate) const VARIABLE: &str = "WEFT_COMPLETE";
/// Whoever types does not wait longer.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_how_a_name_begins() {
        let names = ["leaf1", "leaf10", "spine1"].map(str::to_owned).to_vec();
        let found = candidates(names, "leaf1".as_ref());
        let found: Vec<_> = found.iter().map(|it| it.get_value().to_owned()).collect();
        assert_eq!(found, ["leaf1", "leaf10"]);
    }
}
