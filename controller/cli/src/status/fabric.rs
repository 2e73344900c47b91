//! What is declared, and what the switches have of the plan.

use std::collections::BTreeSet;

use futures::future::join_all;
use weft_proto::agent::v1::ConditionType;
use weft_proto::v1::{
    self as proto, AdminState, BalanceMode, NotComparedReason, SwitchAgentState, SwitchRole,
};

use super::{Part, Report};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::{agent, fabric, link, plan, switch};

/// What is declared, as far as other parts are measured by it.
pub(super) struct Declared {
    /// The leaves with a VTEP: name and address.
    pub(super) leaves: Vec<(String, String)>,
    /// Links that an operator set down, or the switch at one end of them.
    pub(super) set_down: BTreeSet<String>,
    /// Links were not read.
    pub(super) too_many_links: bool,
}

/// Looks at what is declared, and what an operator set down.
pub(super) async fn fabric(report: &Report<'_>) -> Result<(Part, Declared), Failure> {
    let (head, switches, links) = declared(report).await?;
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
    let part = Part::new(summary, Vec::new()).noted(notes(&switches, &links));
    let set_down = set_down(&switches, &links);
    let leaves = switches.into_iter();
    let leaves = leaves.filter(|it| it.role() == SwitchRole::Leaf);
    let leaves = leaves.map(|leaf| (leaf.name, leaf.vtep_address));
    let declared = Declared {
        leaves: leaves.filter(|(_, vtep)| !vtep.is_empty()).collect(),
        set_down,
        too_many_links,
    };
    Ok((part, declared))
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
    let connection = &report.connection;
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

/// Looks whether every switch has what it should have, and packets go by its pins.
pub(super) async fn agents(report: &Report<'_>) -> Result<Part, Failure> {
    let connection = &report.connection;
    let ask = async |token| agent::page(connection, token).await;
    let agents = connection.every(ask, report.count("agents")).await?;
    let mut seen = seen(&agents);
    let mut unasked = "";
    match idle_pins(&agents, report).await {
        Ok(Some(idle)) => seen.wrong.extend(idle),
        Ok(None) => unasked = ", too many to ask for idle pins",
        Err(failure) => {
            let line = format!("pins are not looked at: {failure}");
            seen.wrong.push(line);
        }
    }
    let on = agents.iter().filter(|it| it.mode() == BalanceMode::On);
    let programmed = on.count().saturating_sub(seen.bare.len());
    let all = agents
        .iter()
        .filter(|it| it.mode() == BalanceMode::On)
        .count();
    let summary = format!("{programmed} of {all} switches that are on are programmed{unasked}");
    let wrong = unprogrammed(&seen.bare).into_iter().chain(seen.wrong);
    Ok(Part::new(summary, wrong.collect()).noted(seen.notes))
}

/// What an operator makes of the sessions to switches.
#[derive(Default)]
struct Seen {
    /// Switches that are on and get nothing, each with the reason: `leaf1 (unreachable: connection refused)`.
    bare: Vec<String>,
    wrong: Vec<String>,
    notes: Vec<String>,
}

fn seen(agents: &[proto::SwitchAgent]) -> Seen {
    let mut seen = Seen::default();
    for agent in agents {
        let name = &agent.switch_name;
        let said = match agent.last_error() {
            "" => agent::state(agent),
            why => format!("{}: {why}", agent::state(agent)),
        };
        match standing(agent) {
            Standing::Good => {}
            // There is a session, and the switch does not go by what it has of it.
            Standing::Lacking(why) => seen.bare.push(format!("{name} ({why})")),
            Standing::Bare => seen.bare.push(format!("{name} ({said})")),
            Standing::Wrong => seen.wrong.push(format!("agent of {name} is {said}")),
            Standing::Noted => {
                let note = format!("{name} is off, and its agent is {said}");
                seen.notes.push(note);
            }
        }
    }
    seen
}

/// What an operator makes of the session to one switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing<'a> {
    /// As it should be.
    Good,
    /// The switch is on and has a session, and has nothing of it all the same, or nobody knows what it has: why.
    Lacking(&'a str),
    /// The switch is on, and there is no session that programs it.
    Bare,
    /// The switch does not have all that it should have, or still has what it should not.
    Wrong,
    /// The switch is to have nothing.
    Noted,
}

fn standing(agent: &proto::SwitchAgent) -> Standing<'_> {
    use SwitchAgentState as State;
    let has_session = matches!(
        agent.state(),
        State::InSync | State::Synchronizing | State::Held
    );
    let is_to_have = agent.mode() == BalanceMode::On && agent.entry_count > 0;
    let lacking = agent.unprogrammed_reason.as_deref();
    if let Some(why) = lacking.filter(|_| has_session && is_to_have) {
        return Standing::Lacking(why);
    }
    match (agent.state(), agent.mode()) {
        (State::InSync | State::Shadow | State::Off, _) => Standing::Good,
        (_, BalanceMode::Off) if agent.entry_count == 0 => Standing::Noted,
        (
            State::Connecting
            | State::Unreachable
            | State::Deposed
            | State::ForeignController
            | State::Standby,
            BalanceMode::On,
        ) => Standing::Bare,
        (State::Unspecified | State::Synchronizing | State::Held | State::TurningOff, _)
        | (_, BalanceMode::Unspecified | BalanceMode::Shadow | BalanceMode::Off) => Standing::Wrong,
    }
}

/// One line for all switches that are on and get nothing; None: there is none.
fn unprogrammed(bare: &[String]) -> Option<String> {
    let count = match bare.len() {
        0 => return None,
        1 => "1 switch is".to_owned(),
        count => format!("{count} switches are"),
    };
    Some(format!("{count} not programmed: {}", named(bare)))
}

/// `leaf1, leaf2 and 38 more`.
fn named(names: &[String]) -> String {
    let shown = &names[..names.len().min(NAMED_MAX)];
    let text = shown.join(", ");
    match names.len() - shown.len() {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// Pins that no packet goes by, which switches with entries say one by one; None: there are too many of them.
async fn idle_pins(
    agents: &[proto::SwitchAgent],
    report: &Report<'_>,
) -> Result<Option<Vec<String>>, Failure> {
    let connection = &report.connection;
    let have = |agent: &&proto::SwitchAgent| {
        agent.mode() == BalanceMode::On
            && agent.entry_count > 0
            && !matches!(standing(agent), Standing::Bare | Standing::Lacking(_))
    };
    let having: Vec<_> = agents.iter().filter(have).collect();
    if having.len() > ASKED_MAX {
        return Ok(None);
    }
    let answers = having.iter().map(|agent| one(agent, connection));
    let answers = join_all(answers).await;
    let mut all = Vec::new();
    for (agent, answer) in having.iter().zip(answers) {
        let answer = answer?;
        let shown = answer.resource.unwrap_or_default();
        let name = &agent.switch_name;
        let conditions = shown.agent_status.map(|it| it.conditions);
        let conditions = conditions.unwrap_or_default().into_iter();
        let conditions = conditions.filter(|it| it.condition_type() == ConditionType::PinsIdle);
        let idle = conditions.map(|it| format!("no packet by pins of {name}: {}", it.message));
        all.extend(idle);
    }
    Ok(Some(all))
}

/// Returns the agent of one switch, with its conditions.
async fn one(
    agent: &proto::SwitchAgent,
    connection: &Connection,
) -> Result<proto::GetSwitchAgentResponse, Failure> {
    let question = async || {
        let mut client = connection.plans().await?;
        let switch_name = agent.switch_name.clone();
        let call = client.get_switch_agent(proto::GetSwitchAgentRequest { switch_name });
        connection.answer(call).await
    };
    connection.read(question).await
}

/// Looks at the changes that weft makes at the leaves that it balances. Agents report whether leaves have them.
pub(super) async fn plans(report: &Report<'_>) -> Result<Part, Failure> {
    let connection = &report.connection;
    let ask = async |token| plan::diff::page(connection, token).await;
    let diffs = connection.every(ask, report.count("plans")).await?;
    let (summary, notes) = compared(&diffs);
    Ok(Part::new(summary, Vec::new()).noted(notes))
}

/// How many leaves are compared, and those in shadow that are not. Nothing else is done with these, and nothing is touched there: some
/// may have no weft-agent yet, and agents of a large fabric tell a new leader one after the other what their own routing has.
fn compared(diffs: &[proto::LeafPlanDiff]) -> (String, Vec<String>) {
    let on = diffs.iter().filter(|it| it.mode() == BalanceMode::On);
    let prefixes = on.flat_map(|diff| &diff.prefixes);
    let changed = prefixes.filter(|prefix| prefix.differs).count();
    let because = |reason: NotComparedReason| {
        let diffs = diffs.iter();
        diffs.filter(move |it| it.not_compared_reason() == reason)
    };
    let summary = format!(
        "{} of {} leaves are compared, {changed} prefixes go by weights that their own routing does not have",
        because(NotComparedReason::Unspecified).count(),
        diffs.len()
    );
    let silent = because(NotComparedReason::AgentSilent);
    let silent = silent.filter(|it| it.mode() == BalanceMode::Shadow);
    let silent: Vec<String> = silent.map(|it| it.leaf_name.clone()).collect();
    let count = match silent.len() {
        0 => return (summary, Vec::new()),
        1 => "1 leaf in shadow is".to_owned(),
        count => format!("{count} leaves in shadow are"),
    };
    let names = named(&silent);
    let line = format!("{count} not compared, what its own routing has is not heard: {names}");
    (summary, vec![line])
}

/// Links that are read for those that are set down: two pages.
const LINKS_MAX: u32 = 20_000;
/// Agents that are asked at once for their conditions.
const ASKED_MAX: usize = 64;
/// Switches that a line names.
const NAMED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, mode: BalanceMode, state: SwitchAgentState) -> proto::SwitchAgent {
        proto::SwitchAgent {
            switch_name: name.to_owned(),
            mode: mode.into(),
            state: state.into(),
            ..proto::SwitchAgent::default()
        }
    }

    /// A switch that has none of its entries, and says why.
    fn lacking(name: &str, mode: BalanceMode, state: SwitchAgentState) -> proto::SwitchAgent {
        proto::SwitchAgent {
            entry_count: 7,
            unprogrammed_reason: Some("bypassed".to_owned()),
            ..agent(name, mode, state)
        }
    }

    #[test]
    fn switches_that_are_on_and_get_nothing_are_one_line() {
        use SwitchAgentState as State;
        let refused = proto::SwitchAgent {
            last_error: Some("connection refused".to_owned()),
            ..agent("leaf1", BalanceMode::On, State::Unreachable)
        };
        let agents = [
            refused.clone(),
            agent("leaf2", BalanceMode::On, State::InSync),
            agent("leaf3", BalanceMode::On, State::ForeignController),
            agent("leaf4", BalanceMode::On, State::Held),
            agent("leaf5", BalanceMode::Shadow, State::Shadow),
            proto::SwitchAgent {
                mode: BalanceMode::Off.into(),
                ..refused
            },
            agent("leaf6", BalanceMode::Off, State::Off),
            proto::SwitchAgent {
                entry_count: 7,
                ..agent("leaf7", BalanceMode::Off, State::Unreachable)
            },
            lacking("leaf8", BalanceMode::On, State::InSync),
            lacking("leaf9", BalanceMode::On, State::Held),
            lacking("leaf10", BalanceMode::On, State::Unreachable),
            lacking("leaf11", BalanceMode::Shadow, State::Shadow),
            proto::SwitchAgent {
                entry_count: 0,
                ..lacking("leaf12", BalanceMode::On, State::InSync)
            },
        ];
        let seen = seen(&agents);
        let line = "5 switches are not programmed: leaf1 (unreachable: connection refused), leaf3 (foreign-controller), leaf8 (bypassed), \
                    leaf9 (bypassed), leaf10 (unreachable)";
        assert_eq!(unprogrammed(&seen.bare).as_deref(), Some(line));
        let wrong = ["agent of leaf4 is held", "agent of leaf7 is unreachable"];
        assert_eq!(seen.wrong, wrong);
        let note = "leaf1 is off, and its agent is unreachable: connection refused";
        assert_eq!(seen.notes, [note]);
        assert_eq!(unprogrammed(&[]), None);
        let many: Vec<_> = (1..=10).map(|at| format!("leaf{at} (standby)")).collect();
        let line = unprogrammed(&many).unwrap();
        assert!(line.starts_with("10 switches are not programmed: leaf1 (standby), "));
        assert!(line.ends_with(", leaf8 (standby) and 2 more"), "{line}");
    }

    #[test]
    fn a_leaf_in_shadow_that_nobody_hears_is_noted() {
        use BalanceMode::{Off, On, Shadow};
        use NotComparedReason::{AgentSilent, NoAgent, Unspecified};
        let diff = |name: &str, mode: BalanceMode, reason: NotComparedReason| proto::LeafPlanDiff {
            leaf_name: name.to_owned(),
            mode: mode.into(),
            not_compared_reason: reason.into(),
            ..proto::LeafPlanDiff::default()
        };
        let mut diffs = vec![
            diff("leaf1", Shadow, Unspecified),
            // Whether it has what it should have, its session says.
            diff("leaf2", On, AgentSilent),
            diff("leaf3", Off, AgentSilent),
            diff("leaf4", Shadow, NoAgent),
        ];
        let (summary, notes) = compared(&diffs);
        assert!(summary.starts_with("1 of 4 leaves are compared, 0 prefixes "));
        assert_eq!(notes, [""; 0]);
        diffs.push(diff("leaf5", Shadow, AgentSilent));
        let line = "1 leaf in shadow is not compared, what its own routing has is not heard: leaf5";
        assert_eq!(compared(&diffs).1, [line]);
    }
}
