//! `weft agent`: the switches that weft programs.

use clap::Subcommand;
use prost_types::Timestamp;
use weft_proto::v1 as proto;

use crate::balance;
use crate::completion;
use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Row, or_dash};
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
    dialog.pages(page).await
}

/// One page of the switches that weft programs.
pub(crate) async fn page(
    connection: &Connection,
    page_token: String,
) -> Result<Page<proto::SwitchAgent>, Failure> {
    let mut client = connection.plans().await?;
    let request = proto::ListSwitchAgentsRequest {
        page_size: PAGE_SIZE,
        page_token,
    };
    let call = client.list_switch_agents(request);
    let page = connection.answer(call).await?;
    let rows = page.switch_agents;
    Ok(Page::new(page.header, rows, page.next_page_token))
}

/// The state in one word.
pub(crate) fn state(agent: &proto::SwitchAgent) -> String {
    words::word(agent.state().as_str_name(), "SWITCH_AGENT_STATE_")
}

impl Row for proto::SwitchAgent {
    const HEADER: &'static [&'static str] = &[
        "SWITCH",
        "ADDRESS",
        "MODE",
        "STATE",
        "REVISION",
        "ENTRIES",
        "PENDING",
        "NOT-IN-FIB",
        "FAILED",
        "DRIFT",
        "LAST-ACK",
        "LAST-ERROR",
    ];
    const PASSING: &'static [&'static str] = &["LAST-ACK"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.SwitchAgent", self)
    }

    fn lines(&self, answered: Option<Timestamp>) -> Vec<Vec<String>> {
        let last_ack = words::age(answered, self.last_acknowledgement_time);
        let last_ack = last_ack.map(|age| format!("{:.1}s", age.as_secs_f64()));
        let (installed, intended) = (self.installed_plan_revision(), self.intended_plan_revision);
        let revision = match installed == intended {
            true => installed.to_string(),
            false => format!("{installed} of {intended}"),
        };
        vec![vec![
            self.switch_name.clone(),
            or_dash(&self.address),
            balance::name(self.mode()).to_owned(),
            state(self),
            revision,
            self.entry_count.to_string(),
            self.pending_count.to_string(),
            self.held_count.to_string(),
            self.failed_count.to_string(),
            self.drift_count.to_string(),
            last_ack.unwrap_or_else(|| "never".to_owned()),
            or_dash(self.last_error()),
        ]]
    }

    fn name(&self) -> String {
        self.switch_name.clone()
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
        list.add(&[synced, lost], at(1_003, 210_000_000)).unwrap();
        list.end().unwrap();
        let expected = concat!(
            "SWITCH  ADDRESS          MODE  STATE        REVISION  ENTRIES  PENDING  NOT-IN-FIB  FAILED  DRIFT  LAST-ACK  LAST-ERROR\n",
            "leaf1   192.0.2.11:9340  on    in-sync      7         15       0        0           0       0      3.2s      -\n",
            "leaf2   192.0.2.12:9340  on    unreachable  0 of 7    0        15       0           1       0      never     connection refused\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
