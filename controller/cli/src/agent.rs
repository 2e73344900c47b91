//! `weft agent`: the switches that weft programs.

use clap::Subcommand;
use serde::Serialize;
use weft_proto::operator::v1 as proto;

use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{self, or_dash};

mod detail;

/// What can be asked of agents.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every switch with a gRIBI server: what it should have and what it says it has.
    List,
    /// One switch: what weft-agent does there, on whose behalf, and what is not as wanted.
    Show {
        /// Name of the switch.
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
    let mut client = dialog.connection.operator().await?;
    let call = client.list_agents(proto::ListAgentsRequest {});
    let answer = dialog.connection.answer(call).await?;
    dialog.rows::<_, Agent>(answer.agents)
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

impl From<proto::Agent> for Agent {
    fn from(agent: proto::Agent) -> Self {
        Self {
            switch: agent.switch,
            address: agent.address,
            mode: agent.mode,
            state: agent.state,
            intended_revision: agent.intended_revision,
            installed_revision: agent.installed_revision,
            entries: agent.entries,
            pending: agent.pending,
            held: agent.held,
            failed: agent.failed,
            drift: agent.drift,
            last_error: agent.last_error,
            last_ack_secs: agent.last_ack_secs,
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
        let synced = proto::Agent {
            switch: "leaf1".to_owned(),
            address: "192.0.2.11:9340".to_owned(),
            mode: "on".to_owned(),
            state: "in-sync".to_owned(),
            intended_revision: 7,
            installed_revision: 7,
            entries: 15,
            last_ack_secs: 3.21,
            ..proto::Agent::default()
        };
        let lost = proto::Agent {
            switch: "leaf2".to_owned(),
            address: "192.0.2.12:9340".to_owned(),
            mode: "on".to_owned(),
            state: "unreachable".to_owned(),
            intended_revision: 7,
            pending: 15,
            failed: 1,
            last_error: "connection refused".to_owned(),
            last_ack_secs: -1.0,
            ..proto::Agent::default()
        };
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        list.add(&[synced, lost].map(Agent::from)).unwrap();
        list.end().unwrap();
        let expected = concat!(
            "SWITCH  ADDRESS          MODE  STATE        REVISION  ENTRIES  PENDING  HELD  FAILED  DRIFT  LAST-ACK  LAST-ERROR\n",
            "leaf1   192.0.2.11:9340  on    in-sync      7         15       0        0     0       0      3.2s      -\n",
            "leaf2   192.0.2.12:9340  on    unreachable  0 of 7    0        15       0     1       0      never     connection refused\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
