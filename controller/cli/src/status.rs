//! `weft status`: all that is wrong, on one screen.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde::Serialize;
use weft_proto::v1::{self as proto, ReplicaRole, SessionState};

use crate::agent;
use crate::connection::Connection;
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, printable};

/// Asks, prints, and fails if anything is wrong.
pub(crate) async fn run(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let connection = &dialog.connection;
    let mut report = Report::default();
    replicas(connection, &mut report).await?;
    peers(connection, &mut report).await;
    let leaves = fabric(connection, &mut report).await;
    vteps(connection, &leaves, &mut report).await;
    agents(connection, &mut report).await;
    plans(connection, &mut report).await;
    macs(connection, &mut report).await;
    if !output::object(dialog.out, dialog.format, &report)? {
        report.print(dialog.out)?;
    }
    match report.parts.iter().map(|part| part.wrong.len()).sum() {
        0 => Ok(()),
        1 => Err(Failure::Unmet("1 thing is wrong".to_owned())),
        count => Err(Failure::Unmet(format!("{count} things are wrong"))),
    }
}

/// What was looked at, in order.
#[derive(Default, Serialize)]
struct Report {
    /// Raft id of the replica that was asked; 0 before it answered.
    replica: u64,
    address: String,
    parts: Vec<Part>,
}

/// What was looked at in one place.
#[derive(Serialize)]
struct Part {
    what: &'static str,
    /// How much there is.
    summary: String,
    wrong: Vec<String>,
}

impl Report {
    fn part(&mut self, what: &'static str, summary: impl Into<String>, wrong: Vec<String>) {
        let summary = summary.into();
        self.parts.push(Part {
            what,
            summary,
            wrong,
        });
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "replica {} at {}", self.replica, self.address)?;
        for part in &self.parts {
            let summary = printable(&part.summary);
            let verdict = match part.wrong.len() {
                0 => "ok".to_owned(),
                count => format!("{count} wrong"),
            };
            writeln!(out, "{:<9} {summary:<56} {verdict}", part.what)?;
            for wrong in part.wrong.iter().take(SHOWN) {
                writeln!(out, "  {}", printable(wrong))?;
            }
            if let Some(more) = part.wrong.len().checked_sub(SHOWN + 1) {
                writeln!(out, "  and {} more", more + 1)?;
            }
        }
        Ok(())
    }
}

async fn replicas(connection: &Connection, report: &mut Report) -> Result<(), Failure> {
    let mut client = connection.replicas().await?;
    let request = proto::ListReplicasRequest {
        page_size: PAGE_SIZE,
        ..proto::ListReplicasRequest::default()
    };
    let answer = connection.answer(client.list_replicas(request)).await?;
    let header = answer.header.unwrap_or_default();
    report.replica = header.replica_id;
    connection.address().clone_into(&mut report.address);
    let mut wrong = Vec::new();
    if header.leader_id.is_none() {
        wrong.push("no leader is known: nothing can be changed".to_owned());
    }
    let leader = answer
        .replicas
        .iter()
        .find(|it| it.role() == ReplicaRole::Leader);
    let committed = leader.and_then(|it| it.commit_index);
    for replica in &answer.replicas {
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
    }
    let leader = header
        .leader_id
        .map_or_else(|| "none".to_owned(), |id| id.to_string());
    let summary = format!(
        "{}, leader {leader}, term {}",
        answer.replicas.len(),
        answer.term
    );
    report.part("replicas", summary, wrong);
    Ok(())
}

/// Sessions of every replica that is given: each has its own.
async fn peers(connection: &Connection, report: &mut Report) {
    let (mut wrong, mut count, mut up) = (Vec::new(), 0, 0);
    let each = connection.each();
    for replica in &each {
        match peers_of(replica).await {
            Ok((id, peers)) => {
                count += peers.len();
                for session in peers.into_iter().filter_map(|peer| peer.session) {
                    if session.state() == SessionState::Established {
                        up += 1;
                        continue;
                    }
                    let state = crate::peer::state(session.state());
                    let why = session.last_error.map(|it| format!(": {it}"));
                    let address = session.address;
                    let why = why.unwrap_or_default();
                    wrong.push(format!("peer {address} is {state} at replica {id}{why}"));
                }
            }
            Err(failure) => wrong.push(failure.to_string()),
        }
    }
    let at = match each.len() {
        1 => String::new(),
        replicas => format!(" at {replicas} replicas"),
    };
    report.part(
        "peers",
        format!("{up} of {count} sessions established{at}"),
        wrong,
    );
}

async fn peers_of(connection: &Connection) -> Result<(u64, Vec<proto::Peer>), Failure> {
    let mut client = connection.peers().await?;
    let mut id = 0;
    let ask = async |page_token| {
        let request = proto::ListPeersRequest {
            page_size: PAGE_SIZE,
            page_token,
        };
        let page = connection.answer(client.list_peers(request)).await?;
        id = page.header.map_or(0, |header| header.replica_id);
        Ok((page.peers, page.next_page_token))
    };
    let peers = connection.every(ask).await?;
    Ok((
        id,
        peers
            .into_iter()
            .filter(|it| it.session.is_some())
            .collect(),
    ))
}

/// The leaves with a VTEP: name and address.
async fn fabric(connection: &Connection, report: &mut Report) -> Vec<(String, String)> {
    match declared(connection).await {
        Ok((fabric, switches, links)) => {
            let down = links
                .iter()
                .filter(|link| link.admin_state() == proto::AdminState::Down);
            let mut wrong: Vec<_> = down
                .map(|link| format!("link {} is declared down", link.name))
                .collect();
            if fabric.applying {
                wrong.push("a declaration is being written, or was not written whole".to_owned());
            }
            let summary = format!(
                "{}: {} switches, {} links, {} host ports",
                match fabric.display_name.as_str() {
                    "" => "none is declared",
                    name => name,
                },
                fabric.switch_count,
                fabric.link_count,
                fabric.host_port_count
            );
            report.part("fabric", summary, wrong);
            let leaves = switches
                .into_iter()
                .filter(|it| it.role() == proto::SwitchRole::Leaf);
            let leaves = leaves.map(|leaf| (leaf.name, leaf.vtep_address));
            leaves.filter(|(_, vtep)| !vtep.is_empty()).collect()
        }
        Err(failure) => {
            report.part("fabric", "not known", vec![failure.to_string()]);
            Vec::new()
        }
    }
}

async fn declared(
    connection: &Connection,
) -> Result<
    (
        proto::GetFabricResponse,
        Vec<proto::Switch>,
        Vec<proto::Link>,
    ),
    Failure,
> {
    let mut client = connection.fabric().await?;
    let call = client.get_fabric(proto::GetFabricRequest {});
    let fabric = connection.answer(call).await?;
    let ask = async |page_token| {
        let request = proto::ListSwitchesRequest {
            page_size: PAGE_SIZE,
            page_token,
        };
        let page = connection.answer(client.list_switches(request)).await?;
        Ok((page.switches, page.next_page_token))
    };
    let switches = connection.every(ask).await?;
    let ask = async |page_token| {
        let request = proto::ListLinksRequest {
            page_size: PAGE_SIZE,
            page_token,
        };
        let page = connection.answer(client.list_links(request)).await?;
        Ok((page.links, page.next_page_token))
    };
    let links = connection.every(ask).await?;
    Ok((fabric, switches, links))
}

async fn vteps(connection: &Connection, leaves: &[(String, String)], report: &mut Report) {
    match announced(connection).await {
        Ok(announced) => {
            let silent = leaves.iter().filter(|(_, vtep)| !announced.contains(vtep));
            let wrong: Vec<_> = silent
                .map(|(name, vtep)| format!("leaf {name} announces nothing of its VTEP {vtep}"))
                .collect();
            let summary = format!(
                "{} announced, {} of {} leaves",
                announced.len(),
                leaves.len() - wrong.len(),
                leaves.len()
            );
            report.part("vteps", summary, wrong);
        }
        Err(failure) => report.part("vteps", "not known", vec![failure.to_string()]),
    }
}

async fn announced(connection: &Connection) -> Result<BTreeSet<String>, Failure> {
    let mut client = connection.evpn().await?;
    let ask = async |page_token| {
        let request = proto::ListVtepsRequest {
            page_size: PAGE_SIZE,
            page_token,
            ..proto::ListVtepsRequest::default()
        };
        let page = connection.answer(client.list_vteps(request)).await?;
        Ok((page.vteps, page.next_page_token))
    };
    let vteps = connection.every(ask).await?.into_iter();
    Ok(vteps.map(|vtep| vtep.address).collect())
}

async fn agents(connection: &Connection, report: &mut Report) {
    let (summary, wrong) = match agents_of(connection).await {
        Ok(agents) => {
            let wrong = agents.iter().filter_map(|agent| {
                use proto::SwitchAgentState as State;
                if matches!(agent.state(), State::InSync | State::Shadow | State::Off) {
                    return None;
                }
                let why = agent.last_error.as_ref().map(|it| format!(": {it}"));
                let (name, state) = (&agent.switch_name, agent::state(agent));
                Some(format!(
                    "agent of {name} is {state}{}",
                    why.unwrap_or_default()
                ))
            });
            (
                format!("{} switches are programmed", agents.len()),
                wrong.collect(),
            )
        }
        Err(failure) => ("not known".to_owned(), vec![failure.to_string()]),
    };
    report.part("agents", summary, wrong);
}

async fn agents_of(connection: &Connection) -> Result<Vec<proto::SwitchAgent>, Failure> {
    let mut client = connection.plans().await?;
    let ask = async |page_token| {
        let request = proto::ListSwitchAgentsRequest {
            page_size: PAGE_SIZE,
            page_token,
        };
        let call = client.list_switch_agents(request);
        let page = connection.answer(call).await?;
        Ok((page.switch_agents, page.next_page_token))
    };
    connection.every(ask).await
}

async fn plans(connection: &Connection, report: &mut Report) {
    let (summary, wrong) = match plans_of(connection).await {
        Ok(diffs) => {
            let wrong = diffs.iter().filter_map(|diff| {
                let differing = diff.prefixes.iter().filter(|it| it.differs).count();
                let on = diff.mode() == proto::BalanceMode::On;
                (on && differing > 0).then(|| {
                    format!(
                        "{}: {differing} prefixes differ from the plan",
                        diff.leaf_name
                    )
                })
            });
            (
                format!("{} leaves are compared", diffs.len()),
                wrong.collect(),
            )
        }
        Err(failure) => ("not known".to_owned(), vec![failure.to_string()]),
    };
    report.part("plans", summary, wrong);
}

async fn plans_of(connection: &Connection) -> Result<Vec<proto::LeafPlanDiff>, Failure> {
    let mut client = connection.plans().await?;
    let ask = async |page_token| {
        let request = proto::ListLeafPlanDiffsRequest {
            page_size: PAGE_SIZE,
            page_token,
        };
        let call = client.list_leaf_plan_diffs(request);
        let page = connection.answer(call).await?;
        Ok((page.leaf_plan_diffs, page.next_page_token))
    };
    connection.every(ask).await
}

async fn macs(connection: &Connection, report: &mut Report) {
    let listed = async {
        let mut client = connection.evpn().await?;
        let ask = async |page_token| {
            let request = proto::ListDuplicateMacsRequest {
                page_size: PAGE_SIZE,
                page_token,
            };
            let call = client.list_duplicate_macs(request);
            let page = connection.answer(call).await?;
            Ok((page.duplicate_macs, page.next_page_token))
        };
        connection.every(ask).await
    };
    match listed.await {
        Ok(macs) => {
            let wrong = macs.iter().map(|it| {
                let frozen = if it.frozen { ", and is frozen" } else { "" };
                format!("MAC {} moves too often in VNI {}{frozen}", it.mac, it.vni)
            });
            report.part(
                "macs",
                format!("{} duplicates", macs.len()),
                wrong.collect(),
            );
        }
        Err(failure) => report.part("macs", "not known", vec![failure.to_string()]),
    }
}

/// Lines of each part; the rest is counted.
const SHOWN: usize = 20;
/// A replica that applies more later than the leader commits is behind: seconds of a busy fabric.
const LAG_MAX: u64 = 5_000;
