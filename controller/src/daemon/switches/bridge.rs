//! The southbound as the switches task uses it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;
use weft_proto::agent::v1 as agent;

use crate::fabric::mode::Mode;
use crate::fabric::topology::SwitchName;
use crate::southbound::answers::Answers;
use crate::southbound::intent::{self, Allocation, Intent, Routes};
use crate::southbound::{AgentStatus, Election, Southbound};

/// What one switch should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SwitchIntent {
    pub(super) agent: Arc<str>,
    pub(super) mode: Mode,
    pub(super) routes: Arc<Routes>,
}

pub(super) struct Bridge {
    southbound: Southbound,
    allocation: Allocation,
    changes: watch::Sender<u64>,
}

impl Bridge {
    pub(super) fn new() -> Self {
        Self {
            southbound: Southbound::new(),
            allocation: Allocation::default(),
            changes: watch::Sender::new(0),
        }
    }

    pub(super) fn set_intent(
        &mut self,
        intents: BTreeMap<SwitchName, SwitchIntent>,
        revision: u64,
    ) {
        let switches = intents.into_iter().filter_map(|(name, intent)| {
            let routes = match intent.mode {
                Mode::On => Routes::clone(&intent.routes),
                Mode::Off => Routes::default(),
                Mode::Shadow => return None,
            };
            let agent = intent.agent;
            Some((name, Routes { agent, ..routes }))
        });
        let intent = Intent {
            revision,
            switches: switches.collect(),
        };
        if let Some(allocation) = intent::allocate(&intent, &self.allocation) {
            self.allocation = allocation;
        }
        let resolved = intent.resolve(&self.allocation);
        self.southbound
            .set_intent(resolved.expect("all was allocated"), revision);
    }

    pub(super) fn lead(&mut self, election: Election) {
        self.southbound.lead(election);
    }

    pub(super) fn yield_(&mut self) {
        self.southbound.yield_();
    }

    pub(super) fn answers(&self) -> Answers {
        self.southbound.answers()
    }

    pub(super) fn statuses(&self) -> Vec<AgentStatus> {
        self.southbound.statuses()
    }

    pub(super) fn observed(&self, _: &SwitchName) -> Option<Arc<agent::Status>> {
        None
    }

    pub(super) fn changed(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
