//! Replicas, their files, and their sessions.

use std::collections::BTreeMap;
use std::time::Duration;

use weft_proto::v1::{self as proto, ReplicaRole, SessionState, Staleness};

use super::Report;
use crate::config;
use crate::connection::{Connection, Page};
use crate::dialog::PAGE_SIZE;
use crate::failure::Failure;
use crate::replica;
use crate::words;

/// Whether there is a leader, and every replica keeps up with it.
pub(super) async fn replicas(report: &mut Report<'_>) {
    let connection = report.connection;
    let mut header = None;
    let ask = async |token| {
        let page = replica::page(connection, token).await?;
        header.clone_from(&page.header);
        Ok(page)
    };
    let replicas = match connection.every(ask, |_| ()).await {
        Ok(replicas) => replicas,
        Err(failure) => return report.unknown("replicas", failure),
    };
    let header: proto::ResponseHeader = header.unwrap_or_default();
    report.replica = header.replica_id;
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
    report.part("replicas", summary, wrong);
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

/// Whether the files of the replicas that are given differ.
pub(super) async fn config(report: &mut Report<'_>) {
    let each = report.connection.each().len();
    if each < 2 {
        return report.part("config", "not compared: one address is given", Vec::new());
    }
    let group = match config::replicas::group(report.connection).await {
        Ok(group) => group,
        Err(failure) => return report.unknown("config", failure),
    };
    let compared = config::replicas::compared(report.connection, &group, report.progress).await;
    let differ = compared
        .differences
        .iter()
        .map(config::replicas::Difference::line);
    let wrong: Vec<_> = differ.chain(compared.faults).collect();
    let summary = format!("{each} of {} replicas are given", group.len());
    report.part("config", summary, wrong);
}

/// Sessions of every replica that is given: each has its own.
pub(super) async fn peers(report: &mut Report<'_>) {
    let (mut wrong, mut count, mut up) = (Vec::new(), 0, 0);
    let mut stale = BTreeMap::new();
    let each = report.connection.each();
    let mut failures = Vec::new();
    for connection in &each {
        let (id, peers) = match peers_of(connection, report.count("peers")).await {
            Ok(answer) => answer,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        for peer in peers {
            if matches!(
                peer.staleness(),
                Staleness::Stale | Staleness::LongLivedStale
            ) {
                let name = peer.router_id().to_owned();
                stale.insert(name, words::stale(peer.staleness()));
            }
            let Some(session) = peer.session else {
                continue;
            };
            count += 1;
            if session.state() == SessionState::Established {
                up += 1;
                continue;
            }
            let state = crate::peer::state(session.state());
            let why = session.last_error.map(|it| format!(": {it}"));
            let (address, why) = (session.address, why.unwrap_or_default());
            wrong.push(format!("peer {address} is {state} at replica {id}{why}"));
        }
    }
    let stale = stale.iter();
    wrong.extend(stale.map(|(name, stale)| format!("routes of peer {name} are {stale}")));
    if failures.len() == each.len()
        && let Some(failure) = failures.pop()
    {
        return report.unknown("peers", failure);
    }
    wrong.extend(failures.iter().map(ToString::to_string));
    let at = match each.len() {
        1 => String::new(),
        replicas => format!(" at {replicas} replicas"),
    };
    let summary = format!("{up} of {count} sessions established{at}");
    report.part("peers", summary, wrong);
}

async fn peers_of(
    connection: &Connection,
    count: impl FnMut(usize),
) -> Result<(u64, Vec<proto::Peer>), Failure> {
    let mut id = 0;
    let ask = async |page_token| {
        let mut client = connection.peers().await?;
        let request = proto::ListPeersRequest {
            page_size: PAGE_SIZE,
            page_token,
        };
        let page = connection.answer(client.list_peers(request)).await?;
        let page = Page::new(page.header, page.peers, page.next_page_token);
        id = page.replica();
        Ok(page)
    };
    let peers = connection.every(ask, count).await?;
    Ok((id, peers))
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
