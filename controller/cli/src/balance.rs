//! `weft balance`: what weft does with the routes of each leaf.

use std::time::Duration;

use clap::{Args, Subcommand};
use prost_types::Timestamp;
use tokio::time::Instant;
use weft_proto::v1::{self as proto, SwitchAgentState};

use crate::agent;
use crate::completion;
use crate::connection::{Connection, Page, request_id};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::job;
use crate::output::{self, Row, or_dash};

/// What weft is to do, or what it does.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Remove everything that weft installed, and wait until every table reads back empty.
    Off(Off),
    /// Plan and compare, touch nothing: see `weft plan diff`.
    Shadow(Scope),
    /// Install what is planned.
    On(Scope),
    /// The mode of every leaf.
    #[command(visible_alias = "show")]
    List,
}

/// Which leaves, or which job, a mode is set for.
#[derive(Args)]
pub(crate) struct Scope {
    /// Only this leaf; without it all, also those that have a mode of their own.
    #[arg(long, value_name = "LEAF", add = completion::leaves())]
    leaf: Option<String>,
    /// Only the pins of this job, at leaves that are on.
    #[arg(long, value_name = "JOB", conflicts_with = "leaf", add = completion::jobs())]
    job: Option<String>,
}

/// How to turn off.
#[derive(Args)]
pub(crate) struct Off {
    #[command(flatten)]
    scope: Scope,
    /// Longest time to wait until the tables are empty, in seconds; 0: not at all.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    wait: u32,
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::Off(off) => turn_off(off, dialog).await,
            Self::Shadow(scope) => set(scope, proto::BalanceMode::Shadow, dialog).await,
            Self::On(scope) => set(scope, proto::BalanceMode::On, dialog).await,
            Self::List => dialog.pages(page).await,
        }
    }
}

/// One page of what weft does with the routes of leaves.
async fn page(
    connection: &Connection,
    page_token: String,
) -> Result<Page<proto::LeafBalance>, Failure> {
    let mut client = connection.plans().await?;
    let request = proto::ListLeafBalancesRequest {
        page_size: PAGE_SIZE,
        page_token,
    };
    let page = connection.answer(client.list_leaf_balances(request));
    let page = page.await?;
    let (rows, next) = (page.leaf_balances, page.next_page_token);
    Ok(Page::new(page.header, rows, next))
}

impl Row for proto::LeafBalance {
    const HEADER: &'static [&'static str] = &["LEAF", "MODE", "FROM", "AGENT", "PEER"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.LeafBalance", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        let from = if self.has_own_mode { "leaf" } else { "default" };
        vec![vec![
            self.leaf_name.clone(),
            name(self.mode()).to_owned(),
            from.to_owned(),
            or_dash(self.agent_address()),
            or_dash(self.peer_address()),
        ]]
    }

    fn name(&self) -> String {
        self.leaf_name.clone()
    }
}

async fn set(
    scope: Scope,
    mode: proto::BalanceMode,
    dialog: &mut Dialog<'_>,
) -> Result<(), Failure> {
    if let Some(job) = scope.job {
        return job::set_mode(job, mode, dialog).await;
    }
    order(&scope, mode, dialog).await?;
    list(&scope, dialog).await
}

/// Prints the mode of the leaves that it was set for.
async fn list(scope: &Scope, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let Some(leaf) = &scope.leaf else {
        return dialog.pages(page).await;
    };
    let leaf = one(leaf, dialog).await?;
    match dialog.object(&leaf.object())? {
        true => Ok(()),
        false => dialog.rows(&[leaf], None),
    }
}

/// What weft does with the routes of one leaf.
async fn one(leaf: &str, dialog: &Dialog<'_>) -> Result<proto::LeafBalance, Failure> {
    let connection = &dialog.connection;
    let question = async || {
        let mut client = connection.plans().await?;
        let call = client.get_leaf_balance(proto::GetLeafBalanceRequest {
            leaf_name: leaf.to_owned(),
        });
        connection.answer(call).await
    };
    let answer = connection.read(question).await?;
    Ok(answer.resource.unwrap_or_default())
}

/// Sets a mode, once however often replicas are asked.
async fn order(
    scope: &Scope,
    mode: proto::BalanceMode,
    dialog: &Dialog<'_>,
) -> Result<(), Failure> {
    let connection = &dialog.connection;
    let request = proto::SetBalanceRequest {
        leaf_name: scope.leaf.clone(),
        all_leaves: scope.leaf.is_none(),
        mode: mode.into(),
        request_id: request_id(),
    };
    let question = async || {
        let mut client = connection.plans().await?;
        connection.answer(client.set_balance(request.clone())).await
    };
    connection.read(question).await?;
    Ok(())
}

async fn turn_off(off: Off, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    if off.scope.job.is_some() {
        return set(off.scope, proto::BalanceMode::Off, dialog).await;
    }
    order(&off.scope, proto::BalanceMode::Off, dialog).await?;
    if off.wait == 0 {
        return list(&off.scope, dialog).await;
    }
    let connection = &dialog.connection;
    let leaves = match &off.scope.leaf {
        Some(leaf) => vec![one(leaf, dialog).await?],
        None => {
            let every = connection.every(async |token| page(connection, token).await, |_| ());
            every.await?
        }
    };
    let leaves = leaves.into_iter().filter(|it| it.agent_address.is_some());
    let leaves: Vec<String> = leaves.map(|it| it.leaf_name).collect();
    let until = Instant::now() + Duration::from_secs(off.wait.into());
    loop {
        let agents = agents(dialog).await?;
        let emptied = Emptied::new(&leaves, &agents);
        if emptied.rest.is_empty() {
            if !dialog.format.is_for_people() {
                return list(&off.scope, dialog).await;
            }
            writeln!(dialog.out, "{emptied}")?;
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(Failure::Unmet(emptied.failure()));
        }
        dialog.progress.say(emptied.to_string());
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Every switch that weft programs, as the leader knows.
async fn agents(dialog: &Dialog<'_>) -> Result<Vec<proto::SwitchAgent>, Failure> {
    let connection = &dialog.connection;
    let ask = async |token| agent::page(connection, token).await;
    let agents = connection.every(ask, |_| ()).await;
    agents.map_err(|failure| failure.after("off is set"))
}

/// How many tables of weft's read back empty.
struct Emptied {
    tables: usize,
    empty: usize,
    rest: Vec<String>,
}

impl Emptied {
    fn new(leaves: &[String], agents: &[proto::SwitchAgent]) -> Self {
        let is_off = |agent: &proto::SwitchAgent| {
            agent.state() == SwitchAgentState::Off && agent.entry_count == 0
        };
        let agent = |leaf: &String| agents.iter().find(|agent| agent.switch_name == *leaf);
        let rest: Vec<_> = leaves
            .iter()
            .filter_map(|leaf| match agent(leaf) {
                Some(agent) if is_off(agent) => None,
                Some(agent) => Some(state(agent)),
                None => Some(format!("{leaf} (not known yet)")),
            })
            .collect();
        Self {
            tables: leaves.len(),
            empty: leaves.len() - rest.len(),
            rest,
        }
    }

    fn failure(&self) -> String {
        let (named, others) = self.rest.split_at(self.rest.len().min(NAMED_MAX));
        let named = named.join(", ");
        match others.len() {
            0 => format!("{self}; not those of {named}"),
            others => format!("{self}; not those of {named} and {others} more: weft agent list"),
        }
    }
}

impl std::fmt::Display for Emptied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "off: {} of {} tables are empty", self.empty, self.tables)
    }
}

/// A switch whose table is not known to be empty, and why.
fn state(agent: &proto::SwitchAgent) -> String {
    let mut state = format!("{} ({}", agent.switch_name, agent::state(agent));
    if agent.entry_count > 0 {
        state += &format!(", {} entries", agent.entry_count);
    }
    if let Some(error) = &agent.last_error {
        state += &format!(": {error}");
    }
    state + ")"
}

/// The mode in one word.
pub(crate) fn name(mode: proto::BalanceMode) -> &'static str {
    match mode {
        proto::BalanceMode::Off => "off",
        proto::BalanceMode::Shadow => "shadow",
        proto::BalanceMode::On => "on",
        proto::BalanceMode::Unspecified => "unknown",
    }
}

const ASK_EVERY: Duration = Duration::from_millis(100);
/// As many as one looks at; the list has all.
const NAMED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(switch: &str, state: SwitchAgentState, entries: u32) -> proto::SwitchAgent {
        proto::SwitchAgent {
            switch_name: switch.to_owned(),
            state: state.into(),
            entry_count: entries,
            ..proto::SwitchAgent::default()
        }
    }

    #[test]
    fn tables_count_as_empty_when_they_read_back_so() {
        let leaves = ["leaf1", "leaf2", "leaf3"].map(str::to_owned);
        let unreachable = proto::SwitchAgent {
            last_error: Some("connection refused".to_owned()),
            ..agent("leaf2", SwitchAgentState::Unreachable, 0)
        };
        let agents = [
            agent("leaf1", SwitchAgentState::Off, 0),
            unreachable,
            agent("leaf3", SwitchAgentState::TurningOff, 12),
        ];
        let emptied = Emptied::new(&leaves, &agents);
        assert_eq!(
            emptied.failure(),
            "off: 1 of 3 tables are empty; not those of leaf2 (unreachable: connection refused), \
             leaf3 (turning-off, 12 entries)"
        );
        let agents = leaves
            .each_ref()
            .map(|leaf| agent(leaf, SwitchAgentState::Off, 0));
        let emptied = Emptied::new(&leaves, &agents);
        assert!(emptied.rest.is_empty());
        assert_eq!(emptied.to_string(), "off: 3 of 3 tables are empty");
    }
}
