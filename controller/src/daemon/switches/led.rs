//! What the task knows of the fabric and its switches, for those who ask.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use weft_proto::agent::v1 as agent;
use weft_proto::v1 as proto;

use super::telemetry::links::Links;
use crate::balancer::Plan;
use crate::balancer::flows::LeafFlows;
use crate::balancer::measured::Sent;
use crate::balancer::pins::PinPlan;
use crate::balancer::pins::lacking::Lacking;
use crate::fabric::measured::Measured;
use crate::fabric::mode::Modes;
use crate::fabric::topology::{LinkName, SwitchName, Topology};
use crate::southbound::answers::Answers;
use crate::southbound::counters::Reached;
use crate::southbound::{AgentStatus, Said};

/// What the task knows. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Led(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    topology: Option<Arc<Topology>>,
    plan: Plan,
    pin_plan: Arc<PinPlan>,
    flows: Arc<LeafFlows>,
    lacking: Arc<Lacking>,
    covers: u64,
    planned_at: Option<Instant>,
    modes: Modes,
    agents: Vec<AgentStatus>,
    reached: BTreeMap<SwitchName, Reached>,
    observed: BTreeMap<SwitchName, Arc<Said>>,
    sent: BTreeMap<SwitchName, Sent>,
    answers: Answers,
    links: Links,
    measured: Measured,
    observed_links: Option<Observed>,
}

/// Links that somebody other than an operator calls down, as the leader of one term observes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The term.
    pub term: u64,
    /// Names of the links.
    pub down: BTreeSet<LinkName>,
}

impl Led {
    /// Nothing known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The declared fabric, if it is valid.
    pub fn topology(&self) -> Option<Arc<Topology>> {
        self.lock().topology.clone()
    }

    /// The plan in force.
    pub fn plan(&self) -> Plan {
        self.lock().plan.clone()
    }

    /// The plan of pins.
    pub fn pin_plan(&self) -> Arc<PinPlan> {
        Arc::clone(&self.lock().pin_plan)
    }

    /// The flows that leaves are to have of the adopted pins.
    pub fn flows(&self) -> Arc<LeafFlows> {
        Arc::clone(&self.lock().flows)
    }

    /// What leaves do not have of what they are to have: where this replica does not lead, it knows of none what it has.
    pub fn lacking(&self) -> Arc<Lacking> {
        Arc::clone(&self.lock().lacking)
    }

    /// The generation of the declared fabric up to which changes are in the plan.
    pub fn covers(&self) -> u64 {
        self.lock().covers
    }

    /// Since the plan changed.
    pub fn plan_age(&self) -> Option<Duration> {
        self.lock().planned_at.map(|at| at.elapsed())
    }

    /// What weft does with each leaf.
    pub fn modes(&self) -> Modes {
        self.lock().modes.clone()
    }

    /// What the switches answered.
    pub fn answers(&self) -> Answers {
        self.lock().answers.clone()
    }

    /// The switches that weft programs.
    #[expect(clippy::disallowed_methods, reason = "people and programs read it")]
    pub fn agents(&self) -> Vec<proto::SwitchAgent> {
        let (now, time) = (Instant::now(), SystemTime::now());
        self.lock()
            .agents
            .iter()
            .map(|status| status.to_message(now, time))
            .collect()
    }

    /// What is known of the sessions to those switches.
    pub fn sessions(&self) -> Vec<AgentStatus> {
        self.lock().agents.clone()
    }

    /// What a switch's weft-agent said last; None if it is silent.
    pub fn status(&self, switch: &SwitchName) -> Option<Arc<Said>> {
        self.lock().observed.get(switch).cloned()
    }

    /// How a switch's weft-agent is asked what it counts; None if it is silent, or the switch is not programmed by this replica.
    pub fn reached(&self, switch: &SwitchName) -> Option<Reached> {
        let known = self.lock();
        known.observed.get(switch)?;
        known.reached.get(switch).cloned()
    }

    /// What a switch's interfaces sent lately.
    pub fn sent(&self, switch: &SwitchName) -> Sent {
        self.lock().sent.get(switch).cloned().unwrap_or_default()
    }

    /// What is seen of links, at the leader.
    pub fn links<T>(&self, look: impl FnOnce(&mut Links) -> T) -> T {
        look(&mut self.lock().links)
    }

    /// What the leader decided from what it measured.
    pub fn measured(&self) -> Measured {
        self.lock().measured.clone()
    }

    /// Links that somebody calls down; None while this replica does not lead, or has not heard every switch yet.
    pub fn links_down(&self) -> Option<Observed> {
        self.lock().observed_links.clone()
    }

    pub(crate) fn set_observed(&self, observed: Option<Observed>) {
        self.lock().observed_links = observed;
    }

    pub(super) fn set_measured(&self, measured: &Measured) {
        self.lock().measured.clone_from(measured);
    }

    pub(super) fn set_topology(&self, topology: Option<Arc<Topology>>) {
        self.lock().topology = topology;
    }

    pub(super) fn set_plan(&self, plan: &Plan, covers: u64) {
        let mut known = self.lock();
        known.covers = covers;
        if known.plan.revision != plan.revision {
            known.planned_at = Some(Instant::now());
        }
        known.plan = plan.clone();
    }

    pub(super) fn set_pin_plan(&self, plan: &Arc<PinPlan>) {
        self.lock().pin_plan = Arc::clone(plan);
    }

    pub(super) fn set_flows(&self, flows: &Arc<LeafFlows>) {
        self.lock().flows = Arc::clone(flows);
    }

    pub(super) fn set_lacking(&self, lacking: Lacking) {
        self.lock().lacking = Arc::new(lacking);
    }

    pub(super) fn set_modes(&self, modes: &Modes) {
        self.lock().modes.clone_from(modes);
    }

    pub(super) fn set_agents(&self, agents: Vec<AgentStatus>) {
        self.lock().agents = agents;
    }

    pub(super) fn set_reached(&self, reached: BTreeMap<SwitchName, Reached>) {
        self.lock().reached = reached;
    }

    pub(super) fn set_answers(&self, answers: Answers) {
        self.lock().answers = answers;
    }

    /// Keeps what an agent says now; None: it is silent, and its counters are worth nothing.
    pub(super) fn set_status(&self, switch: &SwitchName, status: Option<Arc<Said>>) {
        let mut known = self.lock();
        match status {
            Some(status) => drop(known.observed.insert(switch.clone(), status)),
            None => {
                known.observed.remove(switch);
                known.sent.remove(switch);
            }
        }
    }

    /// Takes a sample of an agent's counters.
    pub(super) fn sample(&self, switch: &SwitchName, status: &agent::Status) {
        let interfaces = status.interfaces.iter();
        let counters = interfaces.map(|it| (it.name.as_str(), it.tx_octets));
        let mut known = self.lock();
        known
            .sent
            .entry(switch.clone())
            .or_default()
            .sample(counters);
    }

    /// Forgets what agents said: this replica does not lead.
    pub(super) fn forget_agents(&self) {
        let mut known = self.lock();
        known.observed.clear();
        known.sent.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
