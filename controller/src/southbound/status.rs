//! What is known of the stream to a switch, and its words.
//!
//! It refuses to know how it came to be known.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::time::Instant;
use weft_proto::v1::{self, SwitchAgentState};

use super::intent::{Mode, Withheld};
use crate::fabric::mode;
use crate::fabric::topology::SwitchName;

/// What is known of the stream to a switch.
#[derive(Clone, Debug)]
pub struct AgentStatus {
    /// The switch.
    pub switch: SwitchName,
    /// `host:port` of its gRIBI server.
    pub address: Arc<str>,
    /// Whether it is to be programmed.
    pub mode: Mode,
    /// Where the stream stands.
    pub state: AgentState,
    /// The session is open: what is installed is read, or written.
    pub is_up: bool,
    /// The revision of the plan that it should have.
    pub intended_revision: u64,
    /// The revision of the last plan that it acknowledged as a whole, or needed nothing for; 0 for none by this leader.
    pub installed_revision: u64,
    /// Entries installed: next hops, groups, prefixes, and those of policy forwarding.
    pub entries: usize,
    /// Operations not answered yet, or not sent because they wait for others.
    pub pending: usize,
    /// Operations that the switch accepted and that are not in its forwarding plane: a link is down, or another
    /// protocol's route is preferred.
    pub held: usize,
    /// Operations that failed in the last run.
    pub failed: usize,
    /// What its forwarding plane does not have as it should, as far as it answered. None: nothing was read or answered yet since its
    /// mode is on, so that nobody knows.
    pub withheld: Option<Arc<Withheld>>,
    /// Entries that differed from what the switch had acknowledged when it was last read; they are written again.
    pub drift: usize,
    /// Why the stream ended, or what failed or is held; empty if nothing did since it was in sync.
    pub last_error: String,
    /// When an operation was last acknowledged.
    pub last_ack: Option<Instant>,
    /// When anything was last heard in a session.
    pub last_heard: Option<Instant>,
}

impl AgentStatus {
    /// Of a switch of which nothing more is known.
    pub(crate) fn new(
        switch: SwitchName,
        address: Arc<str>,
        mode: Mode,
        state: AgentState,
    ) -> Self {
        Self {
            switch,
            address,
            mode,
            state,
            is_up: false,
            intended_revision: 0,
            installed_revision: 0,
            entries: 0,
            pending: 0,
            held: 0,
            failed: 0,
            withheld: None,
            drift: 0,
            last_error: String::new(),
            last_ack: None,
            last_heard: None,
        }
    }

    /// As the API shows it at `now`, which is `time` by the time of day.
    pub fn to_message(&self, now: Instant, time: SystemTime) -> v1::SwitchAgent {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let ago = self.last_ack.map(|at| now.saturating_duration_since(at));
        let last_ack = ago.and_then(|ago| time.checked_sub(ago));
        v1::SwitchAgent {
            switch_name: self.switch.to_string(),
            address: self.address.to_string(),
            mode: mode::to_message(self.mode).into(),
            state: self.state.to_message().into(),
            intended_plan_revision: self.intended_revision,
            installed_plan_revision: Some(self.installed_revision).filter(|it| *it > 0),
            entry_count: count(self.entries),
            pending_count: count(self.pending),
            held_count: count(self.held),
            failed_count: count(self.failed),
            drift_count: count(self.drift),
            last_error: Some(self.last_error.clone()).filter(|it| !it.is_empty()),
            last_acknowledgement_time: last_ack.map(Into::into),
            agent_status: None,
            unprogrammed_reason: None,
        }
    }
}

/// Where the stream to a switch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// Opening the connection and the session.
    Connecting,
    /// Reading what is installed, or sending the difference, or waiting to try again what failed.
    Synchronizing,
    /// The switch acknowledged everything.
    InSync,
    /// The switch accepted everything that was sent, and some of it is not in its forwarding plane.
    Held,
    /// What weft installed is being removed.
    TurningOff,
    /// The switch said that nothing of weft's is installed.
    Off,
    /// Nothing is written and nothing is read over gRIBI.
    Shadow,
    /// No session; another attempt follows after 1 to 30 seconds.
    Unreachable,
    /// The switch obeys a later term of this cluster; another attempt follows after 10 seconds.
    Deposed,
    /// The switch obeys another incarnation or another controller; another attempt follows after 10 seconds.
    ForeignController,
    /// This replica does not lead.
    Standby,
}

impl AgentState {
    /// The state as the API writes it.
    pub fn to_message(self) -> SwitchAgentState {
        match self {
            Self::Connecting => SwitchAgentState::Connecting,
            Self::Synchronizing => SwitchAgentState::Synchronizing,
            Self::InSync => SwitchAgentState::InSync,
            Self::Held => SwitchAgentState::Held,
            Self::TurningOff => SwitchAgentState::TurningOff,
            Self::Off => SwitchAgentState::Off,
            Self::Shadow => SwitchAgentState::Shadow,
            Self::Unreachable => SwitchAgentState::Unreachable,
            Self::Deposed => SwitchAgentState::Deposed,
            Self::ForeignController => SwitchAgentState::ForeignController,
            Self::Standby => SwitchAgentState::Standby,
        }
    }
}
