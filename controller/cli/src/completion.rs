//! Names that a shell completes: a replica is asked for them while the line is typed, and nothing is completed if it does not
//! answer at once. Knows lists, no command.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use weft_proto::v1 as proto;

use crate::connection::{self, Connection};
use crate::context::{self, Contexts};
use crate::dialog::PAGE_SIZE;
use crate::failure::Failure;
use crate::output::Row;
use crate::{config, job, link, mac, peer, switch, vtep};

/// Names of contexts.
pub(crate) fn contexts() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let contexts = Contexts::read().unwrap_or_default();
        candidates(contexts.names(), begun)
    })
}

/// Addresses of peers, or router ids of those without a session here.
pub(crate) fn peers() -> ArgValueCompleter {
    names(async |connection: Connection| {
        let page = peer::page(&connection, String::new()).await?;
        Ok(page.rows.iter().map(Row::name).collect())
    })
}

/// Names of declared switches.
pub(crate) fn switches() -> ArgValueCompleter {
    names(async |connection: Connection| {
        let page = switch::page(&connection, String::new()).await?;
        Ok(page.rows.into_iter().map(|it| it.name).collect())
    })
}

/// Names of declared leaves.
pub(crate) fn leaves() -> ArgValueCompleter {
    names(async |connection: Connection| {
        let page = switch::page(&connection, String::new()).await?;
        let leaves = page.rows.into_iter();
        let leaves = leaves.filter(|it| it.role() == proto::SwitchRole::Leaf);
        Ok(leaves.map(|it| it.name).collect())
    })
}

/// Names of declared links.
pub(crate) fn links() -> ArgValueCompleter {
    names(async |connection: Connection| {
        let page = link::page(&connection, String::new()).await?;
        Ok(page.rows.into_iter().map(|it| it.name).collect())
    })
}

/// Names of jobs.
pub(crate) fn jobs() -> ArgValueCompleter {
    names(async |connection: Connection| {
        let page = job::page(&connection, String::new()).await?;
        Ok(page.rows.into_iter().map(|it| it.name).collect())
    })
}

/// VNIs that routes announce.
pub(crate) fn vnis() -> ArgValueCompleter {
    names(async |connection: Connection| {
        let request = proto::ListVnisRequest {
            page_size: PAGE_SIZE,
            consistency: proto::Consistency::Serializable.into(),
            ..proto::ListVnisRequest::default()
        };
        let mut client = connection.evpn().await?;
        let page = connection.answer(client.list_vnis(request)).await?;
        Ok(page.vnis.into_iter().map(|it| it.vni.to_string()).collect())
    })
}

/// Addresses of VTEPs.
pub(crate) fn vteps() -> ArgValueCompleter {
    names(async |connection: Connection| {
        let consistency = proto::Consistency::Serializable;
        let page = vtep::page(&connection, consistency, String::new()).await?;
        Ok(page.rows.into_iter().map(|it| it.address).collect())
    })
}

/// Identifiers of Ethernet segments.
pub(crate) fn segments() -> ArgValueCompleter {
    names(async |connection: Connection| {
        let request = proto::ListEthernetSegmentsRequest {
            page_size: PAGE_SIZE,
            consistency: proto::Consistency::Serializable.into(),
            ..proto::ListEthernetSegmentsRequest::default()
        };
        let mut client = connection.evpn().await?;
        let call = client.list_ethernet_segments(request);
        let page = connection.answer(call).await?;
        let segments = page.ethernet_segments.into_iter();
        Ok(segments.map(|it| it.esi).collect())
    })
}

/// MAC addresses that moved too often.
pub(crate) fn duplicates() -> ArgValueCompleter {
    names(async |connection: Connection| {
        let page = mac::page(&connection, String::new()).await?;
        Ok(page.rows.into_iter().map(|it| it.mac).collect())
    })
}

/// Words that parts of a configuration are called by: `peer`, or an address behind it.
pub(crate) fn parts() -> ArgValueCompleter {
    names(async |connection: Connection| {
        let request = proto::ListConfigValuesRequest {
            page_size: 1_000,
            with_defaults: true,
            ..proto::ListConfigValuesRequest::default()
        };
        let page = config::values(&connection, request).await?;
        let words = page.rows.iter();
        let words: BTreeSet<_> = words.flat_map(|it| it.subject.split(' ')).collect();
        Ok(words.into_iter().map(str::to_owned).collect())
    })
}

/// What a replica answers to whom the line, the environment or the context that is used leads; nothing if none does so at once.
fn names(
    question: impl AsyncFn(Connection) -> Result<Vec<String>, Failure> + Clone + Send + Sync + 'static,
) -> ArgValueCompleter {
    ArgValueCompleter::new(move |begun: &OsStr| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let line: Vec<_> = std::env::args().collect();
        let (Ok(runtime), Ok(addresses)) = (runtime, addresses(&line)) else {
            return Vec::new();
        };
        let answer = runtime.block_on(async {
            let connection = Connection::new(addresses, PATIENCE);
            tokio::time::timeout(PATIENCE, question(connection)).await
        });
        // A person who types does not wait for a resolver that hangs.
        runtime.shutdown_background();
        let names = answer.ok().and_then(Result::ok).unwrap_or_default();
        candidates(names, begun)
    })
}

/// Whom a line asks that is being typed.
fn addresses(line: &[String]) -> Result<Vec<String>, Failure> {
    let given = given(line, "--address").unwrap_or_default();
    let given = given
        .split(',')
        .filter(|it| connection::address(it).is_ok());
    let given = given.map(str::to_owned).collect();
    context::addresses(given, self::given(line, "--context"))
}

/// What an option has on a line: `--address X` or `--address=X`.
fn given<'a>(line: &'a [String], option: &str) -> Option<&'a str> {
    let mut words = line.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix(option) {
            Some("") => return words.next().map(String::as_str),
            Some(rest) if rest.starts_with('=') => return rest.get(1..),
            _ => {}
        }
    }
    None
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

    #[test]
    fn the_line_says_whom_to_ask() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let line = words("weft -- weft --address 192.0.2.1:1,192.0.2.2:1,x peer show");
        let both = ["192.0.2.1:1", "192.0.2.2:1"];
        assert_eq!(addresses(&line).unwrap(), both);
        let line = words("weft -- weft peer show --address=192.0.2.3:1");
        assert_eq!(addresses(&line).unwrap(), ["192.0.2.3:1"]);
        let line = words("weft -- weft --context lab");
        assert_eq!(given(&line, "--context"), Some("lab"));
        assert_eq!(given(&line, "--address"), None);
    }
}
