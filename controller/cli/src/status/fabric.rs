//! What is declared, and what the switches have of the plan.

use std::collections::BTreeSet;

use weft_proto::agent::v1::ConditionType;
use weft_proto::v1::{self as proto, AdminState, SwitchAgentState, SwitchRole};

use super::Report;
use crate::failure::Failure;
use crate::{agent, fabric, link, plan, switch};

/// What is declared, as far as other parts are measured by it.
#[derive(Default)]
pub(super) struct Declared {
    /// The leaves with a VTEP: name and address.
    pub(super) leaves: Vec<(String, String)>,
    /// Links that an operator set down, or the switch at one end of them.
    pub(super) set_down: BTreeSet<String>,
    /// Links were not read.
    pub(super) too_many_links: bool,
}

/// What is declared, and what an operator set down.
pub(super) async fn fabric(report: &mut Report<'_>) -> Declared {
    match declared(report).await {
        Ok((head, switches, links)) => {
            let mut wrong = Vec::new();
            if head.applying {
                wrong.push("a declaration is being written, or was not written whole".to_owned());
            }
            let name = match head.display_name.as_str() {
                "" => "none is declared",
                name => name,
            };
            let read = match links {
                Some(_) => "",
                None => ", too many to look at",
            };
            let summary = format!(
                "{name}: {} switches, {} links{read}, {} host ports",
                head.switch_count, head.link_count, head.host_port_count
            );
            let too_many_links = links.is_none();
            let links = links.unwrap_or_default();
            report.noted("fabric", summary, wrong, notes(&switches, &links));
            let set_down = set_down(&switches, &links);
            let leaves = switches.into_iter();
            let leaves = leaves.filter(|it| it.role() == SwitchRole::Leaf);
            let leaves = leaves.map(|leaf| (leaf.name, leaf.vtep_address));
            Declared {
                leaves: leaves.filter(|(_, vtep)| !vtep.is_empty()).collect(),
                set_down,
                too_many_links,
            }
        }
        Err(failure) => {
            report.unknown("fabric", failure);
            Declared::default()
        }
    }
}

/// Links and switches that an operator set down.
fn notes(switches: &[proto::Switch], links: &[proto::Link]) -> Vec<String> {
    let links = links.iter();
    let links = links.filter(|it| it.admin_state() == AdminState::Down);
    let links = links.map(|it| format!("link {} is down, as an operator set it", it.name));
    let switches = switches.iter();
    let switches = switches.filter(|it| it.admin_state() == AdminState::Down);
    let switches = switches.map(|it| format!("{} is down, as an operator set it", it.name));
    switches.chain(links).collect()
}

/// Names of links that an operator set down, or the switch at one end of them.
fn set_down(switches: &[proto::Switch], links: &[proto::Link]) -> BTreeSet<String> {
    let switches = switches.iter();
    let switches = switches.filter(|it| it.admin_state() == AdminState::Down);
    let switches: BTreeSet<&str> = switches.map(|it| it.name.as_str()).collect();
    let is_at = |end: &Option<proto::LinkEnd>| {
        let end = end.as_ref();
        end.is_some_and(|it| switches.contains(it.switch_name.as_str()))
    };
    let down = links
        .iter()
        .filter(|link| link.admin_state() == AdminState::Down || is_at(&link.a) || is_at(&link.b));
    down.map(|link| link.name.clone()).collect()
}

/// The fabric as such, its switches, and its links; None: there are too many to read them all.
async fn declared(
    report: &Report<'_>,
) -> Result<
    (
        proto::GetFabricResponse,
        Vec<proto::Switch>,
        Option<Vec<proto::Link>>,
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
    Ok((head, switches, Some(links)))
}

/// Whether every switch has what it should have, and packets go by its pins.
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
    let mut wrong: Vec<String> = wrong.collect();
    let mut summary = format!("{} switches are programmed", agents.len());
    match idle(&agents, report).await {
        Ok(Some(idle)) => wrong.extend(idle),
        Ok(None) => summary += ", too many to ask for idle pins",
        Err(failure) => wrong.push(format!("pins are not looked at: {failure}")),
    }
    report.part("agents", summary, wrong);
}

/// Pins that no packet goes by, as weft-agents say one by one; None: there are too many of them.
async fn idle(
    agents: &[proto::SwitchAgent],
    report: &Report<'_>,
) -> Result<Option<Vec<String>>, Failure> {
    let connection = report.connection;
    let have = |agent: &&proto::SwitchAgent| {
        agent.mode() == proto::BalanceMode::On && agent.entry_count > 0
    };
    let having: Vec<_> = agents.iter().filter(have).collect();
    if having.len() > ASKED_MAX {
        return Ok(None);
    }
    let mut idle = Vec::new();
    for agent in having {
        let question = async || {
            let mut client = connection.plans().await?;
            let switch_name = agent.switch_name.clone();
            let call = client.get_switch_agent(proto::GetSwitchAgentRequest { switch_name });
            connection.answer(call).await
        };
        let answer = connection.read(question).await?;
        let status = answer.resource.and_then(|it| it.agent_status);
        let conditions = status.map(|it| it.conditions).unwrap_or_default();
        let conditions = conditions.into_iter();
        let conditions = conditions.filter(|it| it.condition_type() == ConditionType::PinsIdle);
        let name = &agent.switch_name;
        idle.extend(conditions.map(|it| format!("no packet by pins of {name}: {}", it.message)));
    }
    Ok(Some(idle))
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
/// Agents that are asked, one after the other, for what they say of themselves.
const ASKED_MAX: usize = 64;
