//! Replicas, their files, and their sessions.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use tokio::join;
use weft_proto::v1::{self as proto, ReplicaRole, SessionState, Staleness};

use super::{Part, Report};
use crate::config::replicas::{Compared, Difference};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{config, peer, replica, words};

/// Looks whether there is a leader, and every replica keeps up with it.
pub(super) async fn replicas(report: &Report<'_>) -> Result<Part, Failure> {
    let connection = &report.connection;
    let header = RefCell::new(None);
    let ask = async |token| {
        let page = replica::page(connection, token).await?;
        header.replace(page.header);
        Ok(page)
    };
    let (replicas, api) = join!(connection.every(ask, |_| ()), api(connection));
    let replicas = replicas?;
    let header: proto::ResponseHeader = header.into_inner().unwrap_or_default();
    report.replica.set(header.replica_id);
    report
        .group
        .replace(replicas.iter().map(|it| it.id).collect());
    let wrong = faults(&header, &replicas);
    let answering = replicas.iter().find(|it| it.answering);
    let summary = format!(
        "{}, leader {}, term {}",
        replicas.len(),
        header
            .leader_id
            .map_or_else(|| "none".to_owned(), |id| id.to_string()),
        words::or_dash(answering.and_then(|it| it.term))
    );
    let exposed = exposed(header.replica_id, &api);
    Ok(Part::new(summary, wrong).noted(exposed.into_iter().collect()))
}

/// Settings of the API's port; none if the replica does not answer.
async fn api(connection: &Connection) -> Vec<proto::ConfigValue> {
    let request = proto::ListConfigValuesRequest {
        subject: Some("api".to_owned()),
        with_defaults: true,
        ..proto::ListConfigValuesRequest::default()
    };
    // Tables of the daemon come first: they are on the first page.
    let page = config::values(connection, request).await;
    page.map(|page| page.rows).unwrap_or_default()
}

/// Warns of a replica whose API listens beyond its machine, without encryption or a password, or in vain.
fn exposed(id: u64, api: &[proto::ConfigValue]) -> Option<String> {
    let value = |key: &str| Some(api.iter().find(|it| it.key == key)?.value.trim_matches('"'));
    let listen: SocketAddr = value("listen")?.parse().ok()?;
    if listen.ip().to_canonical().is_loopback() {
        return None;
    }
    let insecure = value("insecure")?;
    let consequence = match insecure {
        "true" => "whoever reaches it may change everything",
        _ => "calls from other machines are refused",
    };
    Some(format!(
        "replica {id}: the API listens at {listen} with insecure = {insecure}: {consequence}"
    ))
}

/// Names what is wrong with replicas, a line for each fault.
fn faults(header: &proto::ResponseHeader, replicas: &[proto::Replica]) -> Vec<String> {
    let mut wrong = Vec::new();
    if header.leader_id.is_none() {
        wrong.push("no leader is known: nothing can be changed".to_owned());
    }
    let leader = replicas.iter().find(|it| it.role() == ReplicaRole::Leader);
    let committed = leader.and_then(|it| it.commit_index);
    for replica in replicas {
        let id = replica.id;
        if replica.role() == ReplicaRole::Unreachable {
            wrong.push(format!("replica {id}: the leader does not hear of it"));
        }
        if let Some(reason) = &replica.degraded_reason {
            wrong.push(format!("replica {id}: {reason}"));
        }
        let lag = committed.zip(replica.applied_index);
        let lag = lag.map_or(0, |(committed, applied)| committed.saturating_sub(applied));
        if lag > LAG_MAX {
            wrong.push(format!("replica {id}: {lag} entries behind"));
        }
        let last = words::age(words::answered(Some(header)), replica.last_log_drop_time);
        if let Some(ago) = last.filter(|ago| *ago < LOG_DROP_SHOWN_FOR) {
            let lines = replica.dropped_log_line_count();
            let ago = words::units(ago.as_secs());
            wrong.push(format!(
                "replica {id}: {lines} lines of its log dropped, the last {ago} ago: its standard error is not read"
            ));
        }
    }
    wrong
}

/// Looks whether the files of the replicas differ. `given` is the number of addresses, `group` has the Raft ids of all replicas.
pub(super) fn config(compared: &Compared, given: usize, group: &BTreeSet<u64>) -> Part {
    let mut part = Part::skipped("config");
    if given < 2 {
        part.summary = "not compared: one address is given".to_owned();
        return part;
    }
    part.known = !compared.ids.is_empty();
    let all = group.len().max(given);
    part.summary = format!("{} of {all} replicas are compared", compared.ids.len());
    part.wrong = compared.differences.iter().map(Difference::line).collect();
    let missing = group.difference(&compared.ids).count();
    // One that is given and does not answer stands beside the replicas.
    if let Some(ungiven) = missing.checked_sub(compared.silent.len() + 1) {
        let line = format!("{} replicas are not among the addresses", ungiven + 1);
        part.wrong.push(line);
    }
    part
}

/// Looks at the sessions of every replica that is given: each has its own. Returns a line for each replica that does not answer, too.
pub(super) async fn peers(
    each: &[Connection],
    progress: &Progress,
) -> (Result<Part, Failure>, BTreeSet<String>) {
    let count = |count| progress.say(format!("{count} peers so far"));
    let answers = join_all(each.iter().map(|it| peers_of(it, count))).await;
    let (mut seen, mut failures) = (Seen::default(), Vec::new());
    for answer in answers {
        match answer {
            Ok((id, peers)) => seen.add(id, peers),
            Err(failure) => failures.push(failure),
        }
    }
    let silent = failures.len();
    if silent == each.len()
        && let Some(failure) = failures.pop()
    {
        return (Err(failure), BTreeSet::new());
    }
    let at = match each.len() {
        1 => String::new(),
        all => format!(" at {} of {all} replicas", all - silent),
    };
    let silent = failures.iter().map(ToString::to_string).collect();
    (Ok(seen.part(&at)), silent)
}

/// Sessions of several replicas.
#[derive(Default)]
struct Seen {
    count: usize,
    up: usize,
    wrong: Vec<String>,
    /// Staleness of the routes of peers, by name.
    stale: BTreeMap<String, &'static str>,
}

impl Seen {
    /// Adds the peers as one replica sees them.
    fn add(&mut self, id: u64, peers: Vec<proto::Peer>) {
        for it in peers {
            if matches!(it.staleness(), Staleness::Stale | Staleness::LongLivedStale) {
                let name = it.router_id().to_owned();
                self.stale.insert(name, words::stale(it.staleness()));
            }
            let Some(session) = it.session else {
                continue;
            };
            self.count += 1;
            if session.state() == SessionState::Established {
                self.up += 1;
                continue;
            }
            let state = peer::state(session.state());
            let why = session.last_error.map(|it| format!(": {it}"));
            let (address, why) = (session.address, why.unwrap_or_default());
            let line = format!("peer {address} is {state} at replica {id}{why}");
            self.wrong.push(line);
        }
    }

    fn part(self, at: &str) -> Part {
        let stale = self.stale.iter();
        let stale = stale.map(|(name, stale)| format!("routes of peer {name} are {stale}"));
        let wrong = self.wrong.into_iter().chain(stale).collect();
        let summary = format!("{} of {} sessions established{at}", self.up, self.count);
        Part::new(summary, wrong)
    }
}

async fn peers_of(
    connection: &Connection,
    count: impl FnMut(usize),
) -> Result<(u64, Vec<proto::Peer>), Failure> {
    let id = Cell::new(0);
    let ask = async |token| {
        let page = peer::page(connection, token).await?;
        id.set(page.replica());
        Ok(page)
    };
    let peers = connection.every(ask, count).await?;
    Ok((id.get(), peers))
}

/// A replica that applies more later than the leader commits is behind: seconds of a busy fabric.
const LAG_MAX: u64 = 5_000;
/// As agents show an event: a person who is called looks within this time.
const LOG_DROP_SHOWN_FOR: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    #[test]
    fn an_api_beyond_this_machine_is_named() {
        let exposed = |listen: &str, insecure: &str| {
            let value = |(key, value): (&str, &str)| proto::ConfigValue {
                key: key.to_owned(),
                value: value.to_owned(),
                ..proto::ConfigValue::default()
            };
            let listen = format!("\"{listen}\"");
            exposed(
                1,
                &[("listen", &*listen), ("insecure", insecure)].map(value),
            )
        };
        for (listen, insecure, expected) in [
            ("127.0.0.1:7401", "true", None),
            ("[::1]:7401", "true", None),
            (
                "0.0.0.0:7401",
                "true",
                Some("whoever reaches it may change everything"),
            ),
            (
                "192.0.2.1:7401",
                "false",
                Some("calls from other machines are refused"),
            ),
        ] {
            let expected = expected.map(|why| {
                format!("replica 1: the API listens at {listen} with insecure = {insecure}: {why}")
            });
            assert_eq!(exposed(listen, insecure), expected);
        }
        assert_eq!(super::exposed(1, &[]), None, "an older release");
    }

    #[test]
    fn a_replica_whose_log_nobody_reads_is_wrong_for_ten_minutes() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let faults = |answered| {
            let header = proto::ResponseHeader {
                leader_id: Some(1),
                answer_time: at(answered),
                ..proto::ResponseHeader::default()
            };
            let replica = proto::Replica {
                id: 1,
                role: ReplicaRole::Leader.into(),
                dropped_log_line_count: Some(4_711),
                last_log_drop_time: at(1_000),
                ..proto::Replica::default()
            };
            faults(&header, &[replica])
        };
        let expected = "replica 1: 4711 lines of its log dropped, the last 5s ago: its standard error is not read";
        assert_eq!(faults(1_005), [expected]);
        assert_eq!(faults(1_600), [""; 0]);
    }
}
