//! `weft balance`: what weft does with the routes of each leaf.

use std::io::{self, Write};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use tokio::time::Instant;
use tonic::Code;
use tonic::transport::Channel;
use weft_proto::v1::plan_service_client::PlanServiceClient;
use weft_proto::v1::{self as proto, SwitchAgentState};

use crate::agent;
use crate::completion;
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Table, or_dash, printable};

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
    Show,
}

/// Which leaves a mode is set for.
#[derive(Args)]
pub(crate) struct Scope {
    /// Only this leaf; without it all, also those that have a mode of their own.
    #[arg(long, value_name = "LEAF", add = completion::switches())]
    leaf: Option<String>,
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
            Self::Show => show(dialog).await,
        }
    }
}

async fn show(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.plans().await?;
    let call = client.get_balance(proto::GetBalanceRequest {});
    let balance = dialog.connection.answer(call).await?.resource;
    print(&Balance::from(&balance.unwrap_or_default()), dialog)
}

async fn set(
    scope: Scope,
    mode: proto::BalanceMode,
    dialog: &mut Dialog<'_>,
) -> Result<(), Failure> {
    let balance = order(&scope, mode, dialog).await?;
    print(&Balance::from(&balance), dialog)
}

async fn order(
    scope: &Scope,
    mode: proto::BalanceMode,
    dialog: &Dialog<'_>,
) -> Result<proto::Balance, Failure> {
    let mut client = dialog.connection.plans().await?;
    let call = client.set_balance(proto::SetBalanceRequest {
        leaf_name: scope.leaf.clone(),
        mode: mode.into(),
    });
    let answer = dialog.connection.answer(call).await?;
    Ok(answer.resource.unwrap_or_default())
}

async fn turn_off(off: Off, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let balance = order(&off.scope, proto::BalanceMode::Off, dialog).await?;
    if off.wait == 0 {
        return print(&Balance::from(&balance), dialog);
    }
    let leaves = balance.leaves.into_iter();
    let named = |leaf: &str| off.scope.leaf.as_deref().is_none_or(|name| name == leaf);
    let leaves: Vec<String> = leaves
        .filter(|leaf| leaf.agent_address.is_some() && named(&leaf.leaf_name))
        .map(|leaf| leaf.leaf_name)
        .collect();
    let until = Instant::now() + Duration::from_secs(off.wait.into());
    let mut client = dialog.connection.plans().await?;
    let mut said = String::new();
    loop {
        let agents = agents(&mut client, dialog).await?;
        let emptied = Emptied::new(&leaves, &agents);
        if emptied.rest.is_empty() {
            return report(&emptied, dialog);
        }
        if Instant::now() >= until {
            return Err(Failure::Unmet(emptied.failure()));
        }
        let progress = emptied.to_string();
        if said != progress {
            // Nobody is left to be told when standard error is closed.
            let _ = writeln!(io::stderr(), "{progress}");
            said = progress;
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Every switch that weft programs, as the leader knows.
async fn agents(
    client: &mut PlanServiceClient<Channel>,
    dialog: &Dialog<'_>,
) -> Result<Vec<proto::SwitchAgent>, Failure> {
    let ask = async |page_token| {
        let request = proto::ListSwitchAgentsRequest {
            page_size: PAGE_SIZE,
            page_token,
        };
        let call = client.list_switch_agents(request);
        match dialog.connection.status(call).await? {
            Ok(page) => Ok((page.switch_agents, page.next_page_token)),
            Err(status) if status.code() == Code::FailedPrecondition => {
                let reason = format!("off is set; {}", status.message());
                Err(Failure::Unmet(reason))
            }
            Err(status) => {
                let address = dialog.connection.address();
                Err(Failure::from_status(address, &status))
            }
        }
    };
    dialog.connection.every(ask).await
}

fn report(emptied: &Emptied, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    if !output::object(dialog.out, dialog.format, emptied)? {
        writeln!(dialog.out, "{emptied}")?;
    }
    Ok(())
}

/// How many tables of weft's read back empty.
#[derive(Serialize)]
struct Emptied {
    tables: usize,
    empty: usize,
    #[serde(skip)]
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

fn print(balance: &Balance, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    if !output::object(dialog.out, dialog.format, balance)? {
        balance.print(dialog.out)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Balance {
    mode: &'static str,
    leaves: Vec<Leaf>,
}

#[derive(Serialize)]
struct Leaf {
    leaf: String,
    mode: &'static str,
    own: bool,
    agent: String,
}

impl Balance {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "default: {}\n", self.mode)?;
        let rows: Vec<_> = self.leaves.iter().map(Leaf::row).collect();
        Table::print(out, &["LEAF", "MODE", "SET-FOR", "AGENT"], &rows)
    }
}

impl Leaf {
    fn row(&self) -> Vec<String> {
        vec![
            printable(&self.leaf),
            self.mode.to_owned(),
            if self.own { "leaf" } else { "all" }.to_owned(),
            or_dash(&self.agent),
        ]
    }
}

impl From<&proto::Balance> for Balance {
    fn from(balance: &proto::Balance) -> Self {
        let leaf = |leaf: &proto::LeafBalance| Leaf {
            leaf: leaf.leaf_name.clone(),
            mode: name(leaf.mode()),
            own: leaf.has_own_mode,
            agent: leaf.agent_address().to_owned(),
        };
        Self {
            mode: name(balance.default_mode()),
            leaves: balance.leaves.iter().map(leaf).collect(),
        }
    }
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

    #[test]
    fn modes_in_columns() {
        let leaf = |leaf: &str, mode: proto::BalanceMode, own, agent: &str| proto::LeafBalance {
            leaf_name: leaf.to_owned(),
            mode: mode.into(),
            has_own_mode: own,
            agent_address: Some(agent.to_owned()).filter(|it| !it.is_empty()),
        };
        let balance = proto::Balance {
            default_mode: proto::BalanceMode::Shadow.into(),
            leaves: vec![
                leaf("leaf1", proto::BalanceMode::On, true, "192.0.2.11:9340"),
                leaf("leaf2", proto::BalanceMode::Shadow, false, ""),
            ],
        };
        let mut out = Vec::new();
        Balance::from(&balance).print(&mut out).unwrap();
        let expected = "\
default: shadow

LEAF   MODE    SET-FOR  AGENT
leaf1  on      leaf     192.0.2.11:9340
leaf2  shadow  all      -
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
