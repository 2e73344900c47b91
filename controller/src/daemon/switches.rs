//! From the declared fabric to the switches: what is seen of it goes to the balancer, and what the balancer plans goes to
//! the switches, if this replica leads and the operator wants it.
//!
//! ```text
//! reflector --fabric, modes--> switches (1x) --inputs--> balancer thread (1x)
//! announced (1x) --spines' routes--^   ^  |  <--plan--
//! southbound --interfaces, counters----+  +--intents--> southbound
//! gNMI clients --interfaces, LLDP------+
//! ```
//!
//! Every replica plans; only the leader hears of switches and writes to them. It refuses to know BGP peers and replicas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;
use weft_store::{Batch, Condition, Outcome};

use self::agents::Agents;
use self::led::{Led, Observed};
use self::stages::Stages;
use self::telemetry::{Predicted, Telemetry};
use super::files;
use super::solver::{Ordered, Solver};
use super::supervision::supervised;
use crate::balancer::flows::{self, LeafFlows};
use crate::balancer::pins::{self, lacking::Lacking, programmed::Unpinned};
use crate::balancer::{Inputs, Plan};
use crate::config::Config;
use crate::consensus::Group;
use crate::fabric::declared::Declared;
use crate::fabric::live::Announced;
use crate::fabric::measured::Measured;
use crate::fabric::mode::{Mode, Modes};
use crate::fabric::pin::Pins;
use crate::fabric::place::Places;
use crate::fabric::topology::{Kind, Role, Switch, SwitchName, Topology};
use crate::ledger::{self, FactKey};
use crate::southbound::intent::SwitchIntent;
use crate::southbound::{AgentStatus, Election, Southbound};
use crate::speaker::Shared;

mod agents;
mod announced;
mod decisions;
mod jobs;
mod lacking;
pub mod led;
mod places;
mod stages;
pub mod telemetry;

/// Plans and programs until it is aborted.
pub async fn program(shared: Arc<Shared>, led: Led) {
    let (fabric, declared) = watch::channel(None);
    let (publish, announced) = watch::channel(Arc::default());
    let follow = announced::follow(Arc::clone(&shared), declared, publish);
    let (publish, places) = watch::channel(None);
    let switches = Switches {
        places,
        ..Switches::new(
            Arc::clone(&shared),
            led,
            fabric,
            announced,
            Southbound::new(),
        )
    };
    let nics = places::follow(shared, switches.declared_with_jobs.subscribe(), publish);
    tokio::join!(
        supervised("announced", follow),
        supervised("places", nics),
        switches.run()
    );
}

struct Switches {
    shared: Arc<Shared>,
    /// Changes whenever the configuration was read again.
    config: watch::Receiver<Arc<Config>>,
    /// The files that `[switches]` names could not be read: they are read again then.
    reread: Option<Instant>,
    led: Led,
    solver: Solver,
    plans: watch::Receiver<Plan>,
    pin_plans: watch::Receiver<Ordered>,
    /// Number of the last order to the solver that the plan in force was made for.
    solved: watch::Receiver<u64>,
    southbound: Southbound,
    /// Grows whenever an agent says something new.
    spoken: watch::Receiver<u64>,
    declared: Declared,
    /// Declared fabric with its jobs, and NICs at the leaves that announce them.
    running: Topology,
    /// What is declared with its jobs, for the task that follows where NICs are.
    declared_with_jobs: watch::Sender<Topology>,
    /// Where NICs are that are not where they are declared; None: nobody knows yet.
    places: watch::Receiver<Option<Arc<Places>>>,
    /// The pins that are adopted.
    pins: Pins,
    /// The generation that was taken last.
    taken: u64,
    /// Fabrics that are being written beside the one in force.
    stages: Stages,
    topology: watch::Sender<Option<Arc<Topology>>>,
    announced: watch::Receiver<Arc<Announced>>,
    modes: Modes,
    incarnation: Option<u64>,
    agents: Agents,
    telemetry: Telemetry,
    /// What the leader decided from what it measured.
    measured: Measured,
    /// What the balancer was given last.
    inputs: Inputs,
    /// What pins were to be planned from last.
    pin_inputs: pins::Inputs,
    /// How often it was given something.
    ordered: u64,
    /// Leaves that were heard after the plan in force was made, each with the number of the first order that has what it said.
    heard: BTreeMap<SwitchName, u64>,
    /// What the intents were made from last.
    intended: Option<Intended>,
    /// The flows of leaves that follow from that.
    flows: Arc<LeafFlows>,
    /// The term in which an entry of our own was applied.
    confirmed: Option<u64>,
    /// The last order to the solver before all switches were heard, at the leader.
    heard_all: Option<u64>,
    /// When this replica knew of a leader last.
    guided: Instant,
}

/// What the last intents were made from.
struct Intended {
    plan: Plan,
    modes: Modes,
    unheard: BTreeSet<SwitchName>,
    foreign: BTreeSet<SwitchName>,
    pins: pins::Inputs,
}

impl Intended {
    fn is_from(&self, plan: &Plan, modes: &Modes, unheard: &BTreeSet<SwitchName>) -> bool {
        self.is_by(plan) && (&self.modes, &self.unheard) == (modes, unheard)
    }

    fn is_by(&self, plan: &Plan) -> bool {
        let topology = |plan: &Plan| plan.topology().map(Arc::as_ptr);
        Arc::ptr_eq(&self.plan.routes, &plan.routes) && topology(&self.plan) == topology(plan)
    }
}

impl Switches {
    fn new(
        shared: Arc<Shared>,
        led: Led,
        topology: watch::Sender<Option<Arc<Topology>>>,
        announced: watch::Receiver<Arc<Announced>>,
        southbound: Southbound,
    ) -> Self {
        let solver = Solver::start(shared.health.balancer(), shared.health.breaker());
        led.set_answers(southbound.answers());
        let mut config = shared.follow_config();
        config.mark_changed();
        Self {
            config,
            reread: None,
            shared,
            led,
            plans: solver.plans(),
            pin_plans: solver.pin_plans(),
            solved: solver.solved(),
            solver,
            spoken: southbound.changed(),
            southbound,
            declared: Declared::default(),
            running: Topology::default(),
            declared_with_jobs: watch::Sender::new(Topology::default()),
            places: watch::channel(None).1,
            pins: Pins::default(),
            taken: 0,
            stages: Stages::default(),
            topology,
            announced,
            modes: Modes::default(),
            incarnation: None,
            agents: Agents::default(),
            telemetry: Telemetry::new(),
            measured: Measured::default(),
            inputs: Inputs::default(),
            pin_inputs: pins::Inputs::default(),
            ordered: 0,
            heard: BTreeMap::new(),
            intended: None,
            flows: Arc::default(),
            confirmed: None,
            heard_all: None,
            guided: Instant::now(),
        }
    }

    async fn run(mut self) {
        let mut control = self.shared.reflection.control();
        let mut group = self.shared.consensus.group();
        let mut telemetry = self.telemetry.changed();
        control.mark_changed();
        loop {
            if control.has_changed().unwrap_or(true) {
                control.mark_unchanged();
                if self.look().await.is_none() {
                    return;
                }
            }
            let began = Instant::now();
            self.turn().await;
            // A turn looks at every switch: where there are many, most of the time is left to what speaks to them.
            let rest = (began.elapsed() * REST).min(GATHER_MAX);
            let rested = Instant::now() + rest;
            tokio::select! {
                changed = control.changed() => match changed {
                    Ok(()) => control.mark_changed(),
                    Err(_) => return,
                },
                changed = group.changed() => if changed.is_err() { return },
                Ok(()) = self.announced.changed() => {}
                Ok(()) = self.places.changed() => {}
                Ok(()) = self.plans.changed() => {}
                Ok(()) = self.pin_plans.changed() => {}
                // Agents speak many times a second, each for itself.
                Ok(()) = self.spoken.changed() => self.gather(rested).await,
                Ok(()) = telemetry.changed() => self.gather(rested).await,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Waits for what others say at the same time, and until this moment; not when there is another plan.
    async fn gather(&mut self, rested: Instant) {
        let until = rested.max(Instant::now() + GATHER);
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            // The next turn takes it.
            Ok(()) = self.plans.changed() => {}
        }
    }

    /// Reads the facts that concern switches; None while the daemon stops.
    async fn look(&mut self) -> Option<()> {
        let control = self
            .shared
            .reflection
            .query(|reflector| reflector.control().clone());
        let control = control.await?;
        (self.modes, self.incarnation) = (control.modes, control.incarnation);
        self.led.set_modes(&self.modes);
        self.declared = control.declared;
        self.pins = control.pins;
        self.measured = control.measured;
        self.led.set_measured(&self.measured);
        self.take_declared();
        Some(())
    }

    /// Takes the declared fabric.
    fn take_declared(&mut self) {
        let declared = self.declared.topology().clone();
        let generation = declared.generation();
        self.run_on(declared.clone());
        if self.taken == generation {
            return;
        }
        self.taken = generation;
        let topology = (!declared.is_empty()).then(|| Arc::new(declared));
        self.led.set_topology(topology.clone());
        let planned = self.topology.borrow().clone();
        if let (Some(planned), Some(topology)) = (&planned, &topology)
            && planned.is_same_network(topology)
        {
            return; // hosts and their ports change no weight
        }
        self.topology.send_replace(topology);
    }

    /// Takes what is declared with its jobs, and NICs from where they are.
    fn run_on(&mut self, declared: Topology) {
        let places = self.places.borrow_and_update().clone();
        let places = places.unwrap_or_default();
        self.running = declared.clone().with_places(places);
        let declared = declared.with_places(Arc::default());
        self.declared_with_jobs.send_if_modified(|before| {
            let alike = before.has_alike_jobs(&declared) && before.is_same_network(&declared);
            *before = declared;
            !alike
        });
    }

    async fn turn(&mut self) {
        self.read_credentials().await;
        let now = Instant::now();
        self.take_declared();
        let group = self.shared.consensus.group().borrow().clone();
        self.observe(&group, now);
        self.solve(now);
        self.intend(now);
        if group.status.leader.is_some() {
            self.guided = now;
        }
        self.tell(now);
        self.led.set_pin_plan(&self.pin_plans.borrow_and_update().1);
        if group.leads() {
            self.program(&group).await;
            self.end_jobs().await;
            self.end_stages(now).await;
            if self.confirmed == Some(group.status.term) {
                self.decide().await;
                self.adopt(now).await;
            }
        } else {
            self.confirmed = None;
            self.stages = Stages::default();
            self.southbound.yield_();
        }
        let observed = self.observed(&group, now);
        self.led.set_observed(observed);
        let mut agents = self.southbound.statuses();
        for agent in &mut agents {
            // As the operator set it, also where a leaf is only watched until it was heard.
            if self.is_set_to(&agent.switch, Mode::On) {
                agent.mode = Mode::On;
            }
        }
        self.led.set_lacking(self.lacking(&agents, now));
        self.led.set_agents(agents);
        self.led.set_reached(self.southbound.reached());
    }

    /// What leaves do not have of what they are to have. Of none it is known what it has, while this replica does not lead.
    fn lacking(&self, sessions: &[AgentStatus], now: Instant) -> Lacking {
        let Some(topology) = self.topology.borrow().clone() else {
            return Lacking::new();
        };
        let agents = self.agents.known(&topology, &self.modes, now);
        let waiting = self.intended.iter().flat_map(|it| &it.unheard);
        lacking::of_leaves(agents, waiting, sessions, now)
    }

    /// Reads the files that `[switches]` names, once after the configuration was read. What was good when it was checked and is
    /// not any more leaves the connections as they are, until it is good again.
    async fn read_credentials(&mut self) {
        let now = Instant::now();
        let is_due = self.reread.take_if(|at| now >= *at).is_some();
        if !is_due && !self.config.has_changed().unwrap_or(false) {
            return;
        }
        self.reread = None;
        let switches = self.config.borrow_and_update().switches.clone();
        let passwords = switches.login.iter().map(|login| &login.password_file);
        let place = files::place(passwords.chain(&switches.ca_file));
        let read = files::read(place, move || switches.load()).await;
        match read.and_then(|read| read.map_err(std::io::Error::other)) {
            Ok(credentials) => {
                let credentials = Arc::new(credentials);
                self.telemetry.set_credentials(Arc::clone(&credentials));
                self.southbound.set_credentials(credentials);
            }
            Err(error) => {
                tracing::error!(%error, "[switches] stays as it was; its files are read again soon");
                self.reread = Some(now + REREAD_AFTER);
            }
        }
    }

    /// Whether a switch is a leaf that the operator set to this mode.
    fn is_set_to(&self, switch: &SwitchName, mode: Mode) -> bool {
        let topology = self.topology.borrow();
        let declared = topology.as_ref().and_then(|it| it.switch(switch));
        declared.is_some_and(|it| it.role == Role::Leaf) && self.modes.of(switch.as_str()) == mode
    }

    /// Takes what agents said since, at the leader.
    fn observe(&mut self, group: &Group, now: Instant) {
        let topology = self.topology.borrow().clone().filter(|_| group.leads());
        let Some(topology) = topology else {
            self.telemetry.forget(&self.led);
            return self.agents.forget(&self.led);
        };
        // What was decided before is known from then on.
        if self.confirmed == Some(group.status.term) {
            self.listen(&topology);
        }
        // A replica asks agents only while it leads: before, that all are silent says nothing of them.
        if self.southbound.election().is_some() {
            self.agents.watch(&topology, &self.modes, now);
        }
        for switch in topology.switches().filter(|switch| switch.agent.is_some()) {
            let heard = self.southbound.observed(&switch.name);
            self.agents.observe(&switch.name, heard, &self.led, now);
        }
    }

    /// Takes what gNMI servers said since.
    fn listen(&mut self, topology: &Arc<Topology>) {
        let leaves = topology.switches().filter(|it| it.role == Role::Leaf);
        let on = leaves.filter(|it| self.modes.of(it.name.as_str()) == Mode::On);
        let (plan, pin_plan) = (self.plans.borrow(), self.pin_plans.borrow());
        let from = Predicted {
            topology: &self.running,
            plan: &plan,
            pin_plan: &pin_plan.1,
            pins: &self.pins,
            agreed: &self.measured,
            on: on.map(|it| it.name.clone()).collect(),
        };
        self.telemetry.look(topology, &from, &self.led);
    }

    /// Gives the balancer what there is to plan from, if it changed.
    fn solve(&mut self, now: Instant) {
        let Some(topology) = self.topology.borrow().clone() else {
            return;
        };
        let announced = Arc::clone(&self.announced.borrow_and_update());
        let mut foreign = self.agents.foreign(now);
        foreign.extend(weighed(&topology).map(|leaf| leaf.name.clone()));
        let mut interfaces = self.agents.interfaces();
        let mut came_up = self.agents.came_up();
        let miswired = self.led.links(|links| {
            for (switch, own) in links.interfaces() {
                let known = interfaces.entry(switch.clone());
                known.or_insert_with(|| Arc::clone(own));
            }
            for (switch, own) in links.came_up() {
                let known = came_up.entry(switch.clone());
                known.or_insert_with(|| own.clone());
            }
            links.miswired()
        });
        let inputs = Inputs {
            announced,
            interfaces,
            came_up,
            foreign,
            miswired,
            measured: self.measured.clone(),
            topology,
        };
        let unpinned = Unpinned::all(&self.running, &self.modes, &inputs.foreign);
        let pins = pins::Inputs {
            topology: self.running.clone(),
            pins: self.pins.clone(),
            unpinned: Arc::new(unpinned),
        };
        let same = pins.is_same(&self.pin_inputs);
        // The newest, of which comparing is cheap: leases may have been renewed.
        self.pin_inputs = pins.clone();
        if inputs != self.inputs || !same {
            self.inputs = inputs.clone();
            self.ordered += 1;
            self.solver.solve(inputs, pins, self.ordered);
        }
    }

    /// Says what every switch should have. False: that did not change, and nothing was built.
    fn intend(&mut self, now: Instant) -> bool {
        // Read before the plan, which may be of a later order.
        let solved = *self.solved.borrow();
        let plan = self.plans.borrow_and_update().clone();
        let Some(topology) = plan.topology() else {
            return false;
        };
        // What was declared since, and is the same network, is in the plan too.
        let planned = topology.generation();
        let network = self.topology.borrow().as_ref().map(|it| it.generation());
        let covers = match network == Some(planned) {
            true => self.taken,
            false => planned,
        };
        // Reasons may be new where routes are not.
        self.led.set_plan(&plan, covers);
        let unheard = self.agents.unheard(topology, &self.modes, now);
        let unheard = self.held(unheard, solved);
        let pins = self.pin_inputs.clone();
        let intended = self.intended.as_mut();
        let same_pins = intended.as_ref().is_some_and(|it| it.pins.is_same(&pins));
        let is_by = intended.as_ref().is_some_and(|it| it.is_by(&plan));
        if let Some(it) = intended
            && same_pins
            && it.is_from(&plan, &self.modes, &unheard)
            && it.foreign == self.inputs.foreign
        {
            it.pins = pins;
            return false;
        }
        if !(same_pins && is_by) {
            let breaker = self.shared.health.breaker();
            let flows = || flows::of_leaves(&plan, &pins.topology, &pins.pins);
            // Flows stay as they are where planning is off; modes and weights do not wait for it.
            if let Some(flows) = breaker.run(&pins.topology, flows) {
                self.flows = Arc::new(flows);
                self.led.set_flows(&self.flows);
            }
        }
        let foreign = self.inputs.foreign.clone();
        let intents = intents(&plan, &self.modes, (&unheard, &foreign), &self.flows);
        self.southbound.set_intent(intents, plan.revision);
        self.intended = Some(Intended {
            modes: self.modes.clone(),
            unheard,
            foreign,
            plan,
            pins,
        });
        true
    }

    /// Leaves that get nothing yet: those of which it is not known whether they have a weft-agent, and those that were heard since
    /// the plan in force was made. The first plan of a new leader knows of no interface.
    fn held(&mut self, mut unheard: BTreeSet<SwitchName>, solved: u64) -> BTreeSet<SwitchName> {
        let before = self.intended.iter().flat_map(|it| &it.unheard);
        for leaf in before.filter(|leaf| !unheard.contains(*leaf)) {
            if !self.heard.contains_key(leaf) {
                self.heard.insert(leaf.clone(), self.ordered);
            }
        }
        self.heard
            .retain(|leaf, order| solved < *order && !unheard.contains(leaf));
        unheard.extend(self.heard.keys().cloned());
        unheard
    }

    /// Says what the leaves that take weights over BGP should be told in the sessions of this replica. Nothing while nobody
    /// leads: what the spines announce may have changed since.
    fn tell(&self, now: Instant) {
        let plan = self.plans.borrow();
        let guided = now < self.guided + UNGUIDED_FOR;
        let leaves = plan.topology().into_iter().flat_map(|it| weighed(it));
        let weighted = leaves.filter_map(|leaf| {
            let on = guided && self.modes.of(leaf.name.as_str()) == Mode::On;
            let routes = plan.routes.get(&leaf.name).filter(|_| on);
            Some((leaf.peer?, routes.cloned().unwrap_or_default()))
        });
        self.shared.weights.set(weighted.collect());
    }

    /// Sees to it that the replicas have a name for switches, and that the switches get what is intended.
    async fn program(&mut self, group: &Group) {
        let Some(incarnation) = self.incarnation else {
            return self.found().await;
        };
        if self.intended.is_none() {
            return;
        }
        let term = group.status.term;
        if self.confirmed != Some(term) {
            // A majority confirms that this replica leads, and that it has applied an entry of its term.
            if self.shared.consensus.read_index().await.is_none() {
                return;
            }
            self.confirmed = Some(term);
        }
        self.southbound.lead(Election { incarnation, term });
    }

    /// Makes facts of the pins that are planned, once every leaf's agent was heard: until then links count as up that an agent
    /// called down before.
    async fn adopt(&self, now: Instant) {
        let placed = self.running.count(Kind::Job) == 0 || self.places.borrow().is_some();
        if !placed || !self.is_heard(now) {
            return;
        }
        let (order, plan) = self.pin_plans.borrow().clone();
        if order != self.ordered {
            return; // what was heard since may say otherwise
        }
        for batch in jobs::adoption(&plan, &self.pins) {
            match self.shared.consensus.propose(batch).await {
                Outcome::Applied { index } => tracing::info!(index, "pins adopted"),
                // What is agreed now comes back through the reflector, and is planned from.
                Outcome::ConditionFailed { .. } | Outcome::Superseded => return,
                Outcome::Dropped => return tracing::debug!("pins not adopted; trying again"),
            }
        }
    }

    /// Links that somebody calls down, once a plan has all that switches reported in the term that this replica leads. None before: a
    /// link may count as up that a switch reported down to the leader before.
    fn observed(&mut self, group: &Group, now: Instant) -> Option<Observed> {
        let term = group
            .term_led()
            .filter(|term| self.confirmed == Some(*term));
        let Some(term) = term.filter(|_| self.is_heard(now)) else {
            self.heard_all = None;
            return None;
        };
        let plan = self.plans.borrow();
        // A fabric that cannot be planned says nothing of its links.
        plan.topology()?;
        let order = *self.heard_all.get_or_insert(self.ordered);
        (*self.solved.borrow() >= order).then(|| Observed {
            term,
            down: plan.measured_down().cloned().collect(),
        })
    }

    /// True once every leaf that is asked, and every gNMI server, reported to this replica as the leader, or had the time to.
    fn is_heard(&self, now: Instant) -> bool {
        let heard = self.intended.as_ref().map(|it| it.unheard.is_empty());
        heard == Some(true) && self.telemetry.is_heard(now)
    }

    /// Deletes fabrics that nobody goes on writing.
    async fn end_stages(&mut self, now: Instant) {
        for batch in self.stages.abandoned(&self.declared, now) {
            self.shared.consensus.propose(batch).await;
        }
    }

    /// Makes facts of what follows from what was measured.
    async fn decide(&mut self) {
        // Until then the decisions of the leader before are not taken over.
        let is_declared = self.topology.borrow().is_some();
        if is_declared && !self.telemetry.is_listening() {
            return;
        }
        let deratings = self.led.links(|links| links.undecided(&self.measured));
        let kept_free = self.telemetry.kept_free(&self.measured);
        let off_plan = self.telemetry.off_plan(&self.measured);
        let over = decisions::over(&self.measured, self.declared.topology());
        if let Some(batch) = decisions::batch(&deratings, &kept_free, off_plan, &over) {
            // What is not agreed on now is proposed again by the next turn.
            self.shared.consensus.propose(batch).await;
        }
    }

    /// Deletes jobs whose lease is over.
    #[expect(clippy::disallowed_methods, reason = "leases end at times of day")]
    async fn end_jobs(&self) {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = since.map_or(0, |since| since.as_secs());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let Some((over, batch)) = jobs::ended(&self.declared, now) else {
            return;
        };
        if let Outcome::Applied { index } = self.shared.consensus.propose(batch).await {
            for job in over {
                tracing::info!(resource = %job.name, by = "expire_time", index, "job deleted");
            }
        }
    }

    /// The first leader of a new group names it: by the clock, so that a later group of the same
    /// replicas is later for every switch.
    #[expect(
        clippy::disallowed_methods,
        reason = "read once in the life of a group, and committed"
    )]
    async fn found(&self) {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let incarnation = since.map_or(1, |since| since.as_secs().max(1));
        let value = Bytes::copy_from_slice(&incarnation.to_be_bytes());
        let key = FactKey::Incarnation;
        let conditions = vec![Condition::Equals {
            key: key.encode(),
            value: None,
        }];
        let batch = Batch {
            conditions,
            ops: vec![ledger::put(&key, value)],
        };
        match self.shared.consensus.propose(batch).await {
            // The change comes back through the reflector and wakes this task.
            Outcome::Applied { .. } | Outcome::ConditionFailed { .. } => {}
            Outcome::Superseded | Outcome::Dropped => {
                tracing::debug!(?key, "not agreed; trying again")
            }
        }
    }
}

/// Leaves that take their weights over BGP. They do not compare next hops with their own routing.
fn weighed(topology: &Topology) -> impl Iterator<Item = &Switch> {
    topology.switches().filter(|switch| switch.link_bandwidth)
}

/// What every switch with an agent should have. One that nobody has heard of yet is only watched: whether it looks at its
/// own routing decides what it may have.
fn intents(
    plan: &Plan,
    modes: &Modes,
    (unheard, foreign): (&BTreeSet<SwitchName>, &BTreeSet<SwitchName>),
    flows: &LeafFlows,
) -> BTreeMap<SwitchName, SwitchIntent> {
    let switches = plan.topology().into_iter().flat_map(|it| it.switches());
    let intents = switches.filter_map(|switch| {
        let agent = switch.agent.clone()?;
        let name = &switch.name;
        let mode = match (switch.role, modes.of(name.as_str())) {
            // A spine gets no routes; what its agent sees of its links counts.
            (Role::Spine, _) => Mode::Shadow,
            (Role::Leaf, mode) => mode,
        };
        let routes = plan.routes.get(name).cloned().unwrap_or_default();
        let intent = SwitchIntent {
            agent,
            tls: switch.tls,
            mode,
            hold: unheard.contains(name),
            routes,
            // Another server may end the session over a table that it does not know.
            flows: flows
                .get(name)
                .filter(|_| !foreign.contains(name))
                .cloned()
                .unwrap_or_default(),
        };
        Some((name.clone(), intent))
    });
    intents.collect()
}

/// Looks again now and then, whatever happens: time passes for switches that are silent.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Between two reads of files that could not be read.
const REREAD_AFTER: Duration = Duration::from_secs(10);
/// So long weights stay with leaves that take them over BGP while nobody leads: longer than an election, and as long as those
/// of agents by their lease.
const UNGUIDED_FOR: Duration = Duration::from_secs(10);
/// What many agents say at once is looked at once.
const GATHER: Duration = Duration::from_millis(5);
/// At most so long nobody looks at statuses that came, while no plan is new.
const GATHER_MAX: Duration = Duration::from_millis(40);
/// After a look at all switches, statuses wait so many times as long as it took.
const REST: u32 = 4;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::balancer::Balancer;
    use crate::config::Login;
    use crate::consensus::tests::unheard;
    use crate::fabric::live::SpineRoutes;
    use crate::fabric::topology::tests::{declared, leaf_spine, vtep};
    use crate::southbound::Heard;
    use crate::speaker::peer::tests::shared_over;

    fn plan() -> Plan {
        let mut fabric = declared(3, 2);
        fabric.switches[2].agent_address.clear();
        fabric.switches[3].agent_address = "192.0.2.100:9340".to_owned();
        let mut balancer = Balancer::default();
        let inputs = Inputs {
            topology: Arc::new(Topology::new(&fabric).unwrap()),
            ..Inputs::default()
        };
        balancer.handle(&inputs, Duration::ZERO).unwrap();
        balancer.plan().clone()
    }

    #[test]
    fn a_declared_fabric_is_watched_and_not_touched_until_somebody_says_on() {
        let plan = plan();
        let modes_of = |modes: &Modes| {
            let intents = intents(
                &plan,
                modes,
                (&BTreeSet::new(), &BTreeSet::new()),
                &LeafFlows::new(),
            )
            .into_iter();
            intents
                .map(|(name, intent)| (name.to_string(), intent.mode))
                .collect::<Vec<_>>()
        };
        let named = |modes: [Mode; 3]| {
            let names = ["leaf1", "leaf2", "spine1"].map(str::to_owned);
            names.into_iter().zip(modes).collect::<Vec<_>>()
        };
        let mut modes = Modes::default();
        assert_eq!(modes_of(&modes), named([Mode::Shadow; 3]));
        modes.set("", Some(Mode::On));
        modes.set("leaf2", Some(Mode::Off));
        assert_eq!(modes_of(&modes), named([Mode::On, Mode::Off, Mode::Shadow]));
        // Nobody knows yet what kind of switch leaf 1 is.
        let unheard = ["leaf1".into()].into();
        let held: Vec<_> = intents(
            &plan,
            &modes,
            (&unheard, &BTreeSet::new()),
            &LeafFlows::new(),
        )
        .into_iter()
        .filter(|(_, intent)| intent.hold)
        .map(|(name, intent)| (name.to_string(), intent.mode))
        .collect();
        assert_eq!(held, [("leaf1".to_owned(), Mode::On)]);
    }

    #[tokio::test]
    async fn a_leaf_that_was_heard_gets_nothing_before_what_it_said_is_planned_from() {
        let dir = tempfile::tempdir().unwrap();
        let (consensus, _proposed) = unheard(&dir);
        let (_publish, spines) = watch::channel(announced(&[]));
        let (fabric, _declared) = watch::channel(Some(Arc::new(leaf_spine(2, 2))));
        let nobody = Southbound::over(Arc::new(|_| Box::pin(std::future::pending())));
        let shared = Arc::new(shared_over(consensus));
        let mut switches = Switches::new(shared, Led::new(), fabric, spines, nobody);
        let [one, two] = ["leaf1", "leaf2"].map(SwitchName::from);
        let both = BTreeSet::from([one, two.clone()]);
        switches.intended = Some(Intended {
            plan: Plan::default(),
            modes: Modes::default(),
            unheard: both.clone(),
            foreign: BTreeSet::new(),
            pins: pins::Inputs::default(),
        });
        let only_two = BTreeSet::from([two]);
        switches.ordered = 7;
        assert_eq!(switches.held(only_two.clone(), 6), both);
        switches.ordered = 8;
        assert_eq!(switches.held(only_two.clone(), 6), both);
        assert_eq!(switches.held(only_two.clone(), 7), only_two);
        assert!(switches.heard.is_empty());
    }

    #[tokio::test]
    async fn credentials_that_cannot_be_read_are_read_again_later() {
        let dir = tempfile::tempdir().unwrap();
        let (consensus, _proposed) = unheard(&dir);
        let (_publish, spines) = watch::channel(announced(&[]));
        let (fabric, _declared) = watch::channel(None);
        let nobody = Southbound::over(Arc::new(|_| Box::pin(std::future::pending())));
        let shared = Arc::new(shared_over(consensus));
        let mut config = Config::clone(&shared.config());
        let password_file = dir.path().join("password");
        config.switches.login = Some(Login {
            username: "weft".to_owned(),
            password_file: password_file.clone(),
        });
        let mut switches = Switches::new(shared, Led::new(), fabric, spines, nobody);
        let (_reload, config) = watch::channel(Arc::new(config));
        switches.config = config;
        switches.config.mark_changed();
        switches.read_credentials().await;
        let again_at = switches.reread.unwrap();
        std::fs::write(&password_file, "a secret").unwrap();
        std::fs::set_permissions(&password_file, PermissionsExt::from_mode(0o600)).unwrap();
        switches.read_credentials().await;
        assert_eq!(switches.reread, Some(again_at), "not before");
        switches.reread = Some(Instant::now());
        switches.read_credentials().await;
        assert_eq!(switches.reread, None);
    }

    /// What two spines announce, but for what the first one lost.
    fn announced(lost: &[u8]) -> Arc<Announced> {
        let routes = |lost: &[u8]| {
            let kept = (1..=2).filter(|leaf| !lost.contains(leaf));
            SpineRoutes::To(kept.map(vtep).collect())
        };
        let spines = [
            ("spine1".into(), routes(lost)),
            ("spine2".into(), routes(&[])),
        ];
        Arc::new(spines.into())
    }

    #[tokio::test]
    async fn a_link_event_builds_intents_once_and_proposes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (consensus, mut proposed) = unheard(&dir);
        let (publish, spines) = watch::channel(announced(&[]));
        let (fabric, _declared) = watch::channel(Some(Arc::new(leaf_spine(2, 2))));
        let nobody = Southbound::over(Arc::new(|_| Box::pin(std::future::pending())));
        let shared = Arc::new(shared_over(consensus));
        let mut group = shared.consensus.group().borrow().clone();
        group.status.term = 7;
        let mut switches = Switches::new(shared, Led::new(), fabric, spines, nobody);
        switches.modes.set("", Some(Mode::On));
        switches.incarnation = Some(1);
        switches.confirmed = Some(7);
        for leaf in ["leaf1", "leaf2"] {
            let heard = Heard::Status(Arc::default());
            let now = Instant::now();
            switches
                .agents
                .observe(&leaf.into(), heard, &switches.led, now);
        }
        let mut revisions = Vec::new();
        // The first plan, a link that is lost, and the same link again, which waits.
        for (lost, once) in [(&[][..], &[0][..]), (&[2], &[0]), (&[], &[])] {
            publish.send_replace(announced(lost));
            switches.solve(Instant::now());
            switches.plans.changed().await.unwrap();
            let built: Vec<_> = (0..100)
                .filter(|_| {
                    switches.solve(Instant::now());
                    switches.intend(Instant::now())
                })
                .collect();
            assert_eq!(built, once, "with {lost:?} lost");
            assert!(!switches.plans.has_changed().unwrap());
            switches.program(&group).await;
            revisions.extend(switches.intended.as_ref().map(|it| it.plan.revision));
        }
        assert!(
            revisions.is_sorted() && revisions[0] < revisions[1],
            "{revisions:?}"
        );
        assert!(proposed.try_recv().is_err(), "nothing is agreed on");
    }
}
