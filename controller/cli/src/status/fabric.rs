//! What is declared, and what the switches have of the plan.

use weft_proto::v1::{self as proto, AdminState, SwitchAgentState, SwitchRole};

use super::Report;
use crate::failure::Failure;
use crate::{agent, fabric, link, plan, switch};

/// The leaves with a VTEP: name and address.
pub(super) async fn fabric(report: &mut Report<'_>) -> Vec<(String, String)> {
    match declared(report).await {
        Ok((head, switches, down)) => {
            let mut wrong = Vec::new();
            if head.applying {
                wrong.push("a declaration is being written, or was not written whole".to_owned());
            }
            let name = match head.display_name.as_str() {
                "" => "none is declared",
                name => name,
            };
            let read = match down {
                Some(_) => "",
                None => ", too many to look at",
            };
            let summary = format!(
                "{name}: {} switches, {} links{read}, {} host ports",
                head.switch_count, head.link_count, head.host_port_count
            );
            let down = down.unwrap_or_default().into_iter();
            let notes = down.map(|name| format!("link {name} is down, as an operator set it"));
            report.noted("fabric", summary, wrong, notes.collect());
            let leaves = switches.into_iter();
            let leaves = leaves.filter(|it| it.role() == SwitchRole::Leaf);
            let leaves = leaves.map(|leaf| (leaf.name, leaf.vtep_address));
            leaves.filter(|(_, vtep)| !vtep.is_empty()).collect()
        }
        Err(failure) => {
            report.unknown("fabric", failure);
            Vec::new()
        }
    }
}

/// The fabric as such, its switches, and the links that are set down; None: there are too many to read them all.
async fn declared(
    report: &Report<'_>,
) -> Result<
    (
        proto::GetFabricResponse,
        Vec<proto::Switch>,
        Option<Vec<String>>,
    ),
    Failure,
> {
    let connection = report.connection;
    let head = fabric::head(connection).await?;
    let ask = async |token| switch::page(connection, token).await;
    let switches = connection.every(ask, report.count("switches")).await?;
    if head.link_count > LINKS_MAX {
        return Ok((head, switches, None));
    }
    let ask = async |token| link::page(connection, token).await;
    let links = connection.every(ask, report.count("links")).await?;
    let down = links.into_iter();
    let down = down.filter(|link| link.admin_state() == AdminState::Down);
    let down = down.map(|link| link.name).collect();
    Ok((head, switches, Some(down)))
}

/// Whether every switch has what it should have.
pub(super) async fn agents(report: &mut Report<'_>) {
    let connection = report.connection;
    let ask = async |token| agent::page(connection, token).await;
    let agents = match connection.every(ask, report.count("agents")).await {
        Ok(agents) => agents,
        Err(failure) => return report.unknown("agents", failure),
    };
    let wrong = agents.iter().filter_map(|agent| {
        use SwitchAgentState as State;
        if matches!(agent.state(), State::InSync | State::Shadow | State::Off) {
            return None;
        }
        let why = agent.last_error.as_ref().map(|it| format!(": {it}"));
        let (name, state) = (&agent.switch_name, agent::state(agent));
        let why = why.unwrap_or_default();
        Some(format!("agent of {name} is {state}{why}"))
    });
    let wrong = wrong.collect();
    let summary = format!("{} switches are programmed", agents.len());
    report.part("agents", summary, wrong);
}

/// What weft changes at the leaves that it balances. Whether they have it, their agents say.
pub(super) async fn plans(report: &mut Report<'_>) {
    let connection = report.connection;
    let ask = async |token| plan::diff::page(connection, token).await;
    let diffs = match connection.every(ask, report.count("plans")).await {
        Ok(diffs) => diffs,
        Err(failure) => return report.unknown("plans", failure),
    };
    let on = diffs
        .iter()
        .filter(|diff| diff.mode() == proto::BalanceMode::On);
    let prefixes = on.flat_map(|diff| &diff.prefixes);
    let changed = prefixes.filter(|prefix| prefix.differs).count();
    let summary = format!(
        "{} leaves are compared, {changed} prefixes go by weights that their own routing does not have",
        diffs.len()
    );
    report.part("plans", summary, Vec::new());
}

/// Links that are read for those that are set down: two pages.
const LINKS_MAX: u32 = 20_000;
