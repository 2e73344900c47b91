//! `weft agent`: the switches that weft programs.

use clap::Subcommand;
use prost_types::Timestamp;
use serde::Serialize;
use weft_proto::v1 as proto;

use crate::balance;
use crate::completion;
use crate::connection::Connection;
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, or_dash};
use crate::words;

mod detail;

/// What can be asked of agents.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every switch with a gRIBI server: what it should have and what it says it has.
    List,
    /// One switch: what weft-agent does there, on whose behalf, and what is not as wanted.
    Show {
        /// Name of the switch.
        #[arg(add = completion::switches())]
        switch: String,
    },
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::List => list(dialog).await,
            Self::Show { switch } => detail::show(switch, dialog).await,
        }
    }
}

async fn list(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.plans().await?;
    let ask = async |connection: &Connection, page_token| {
        let request = proto::ListSwitchAgentsRequest {
            page_size: PAGE_SIZE,
            page_token,
        };
        let call = client.list_switch_agents(request);
        let page = connection.answer(call).await?;
        let now = words::answered(page.header.as_ref());
        let rows = page.switch_agents.into_iter();
        let rows = rows.map(|agent| Agent::new(agent, now));
        Ok((rows.collect(), page.next_page_token))
    };
    dialog.pages::<Agent, Agent>(ask).await
}

#[derive(Serialize)]
struct Agent {
    switch: String,
    address: String,
    mode: String,
    state: String,
    intended_revision: u64,
    installed_revision: u64,
    entries: u32,
    pending: u32,
    held: u32,
    failed: u32,
    drift: u32,
    last_error: String,
    last_ack_secs: f64,
}

/// The state in one word.
pub(crate) fn state(agent: &proto::SwitchAgent) -> String {
    words::word(agent.state().as_str_name(), "SWITCH_AGENT_STATE_")
}

impl Agent {
    /// As it was when the replica answered.
    fn new(agent: proto::SwitchAgent, now: Option<Timestamp>) -> Self {
        Self {
            mode: balance::name(agent.mode()).to_owned(),
            state: state(&agent),
            // Negative: never.
            last_ack_secs: words::age(now, agent.last_acknowledgement_time).unwrap_or(-1.0),
            switch: agent.switch_name,
            address: agent.address,
            intended_revision: agent.intended_plan_revision,
            installed_revision: agent.installed_plan_revision.unwrap_or(0),
            entries: agent.entry_count,
            pending: agent.pending_count,
            held: agent.held_count,
            failed: agent.failed_count,
            drift: agent.drift_count,
            last_error: agent.last_error.unwrap_or_default(),
        }
    }
}

impl Agent {
    /// Every value with its name, for a switch that is shown alone.
    fn lines(&self) -> Vec<(&'static str, String)> {
        let names = <Self as output::Row>::HEADER.iter();
        let names = names.map(|name| match *name {
            "SWITCH" => "switch",
            "ADDRESS" => "address",
            "MODE" => "mode",
            "STATE" => "session",
            "REVISION" => "plan",
            "ENTRIES" => "entries",
            "PENDING" => "pending",
            "HELD" => "held",
            "DRIFT" => "drift",
            "FAILED" => "failed",
            "LAST-ACK" => "last acknowledgement",
            "LAST-ERROR" => "last error",
            name => name,
        });
        names.zip(output::Row::cells(self)).collect()
    }
}

impl output::Row for Agent {
    const HEADER: &'static [&'static str] = &[
        "SWITCH",
        "ADDRESS",
        "MODE",
        "STATE",
        "REVISION",
        "ENTRIES",
        "PENDING",
        "HELD",
        "FAILED",
        "DRIFT",
        "LAST-ACK",
        "LAST-ERROR",
    ];

    fn lasting(&self) -> Vec<String> {
        const LAST_ACK: usize = 10;
        let mut cells = self.cells();
        cells.remove(LAST_ACK);
        cells
    }

    fn cells(&self) -> Vec<String> {
        let last_ack = match self.last_ack_secs {
            ..0.0 => "never".to_owned(),
            secs => format!("{secs:.1}s"),
        };
        let revision = if self.installed_revision == self.intended_revision {
            self.installed_revision.to_string()
        } else {
            format!("{} of {}", self.installed_revision, self.intended_revision)
        };
        vec![
            self.switch.clone(),
            or_dash(&self.address),
            or_dash(&self.mode),
            self.state.clone(),
            revision,
            self.entries.to_string(),
            self.pending.to_string(),
            self.held.to_string(),
            self.failed.to_string(),
            self.drift.to_string(),
            last_ack,
            or_dash(&self.last_error),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use crate::output::List;

    #[test]
    fn agents_in_columns() {
        let at = |seconds, nanos| Some(Timestamp { seconds, nanos });
        let synced = proto::SwitchAgent {
            switch_name: "leaf1".to_owned(),
            address: "192.0.2.11:9340".to_owned(),
            mode: proto::BalanceMode::On.into(),
            state: proto::SwitchAgentState::InSync.into(),
            intended_plan_revision: 7,
            installed_plan_revision: Some(7),
            entry_count: 15,
            last_acknowledgement_time: at(1_000, 0),
            ..proto::SwitchAgent::default()
        };
        let lost = proto::SwitchAgent {
            switch_name: "leaf2".to_owned(),
            address: "192.0.2.12:9340".to_owned(),
            mode: proto::BalanceMode::On.into(),
            state: proto::SwitchAgentState::Unreachable.into(),
            intended_plan_revision: 7,
            pending_count: 15,
            failed_count: 1,
            last_error: Some("connection refused".to_owned()),
            ..proto::SwitchAgent::default()
        };
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        let row = |agent| Agent::new(agent, at(1_003, 210_000_000));
        list.add(&[synced, lost].map(row)).unwrap();
        list.end().unwrap();
        let expected = concat!(
            "SWITCH  ADDRESS          MODE  STATE        REVISION  ENTRIES  PENDING  HELD  FAILED  DRIFT  LAST-ACK  LAST-ERROR\n",
            "leaf1   192.0.2.11:9340  on    in-sync      7         15       0        0     0       0      3.2s      -\n",
            "leaf2   192.0.2.12:9340  on    unreachable  0 of 7    0        15       0     1       0      never     connection refused\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
