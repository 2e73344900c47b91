//! What the agents of switches said last, and which leaves have another gRIBI server than weft-agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weft_proto::agent::v1 as agent;

use super::lacking::{self, Agent, LEASE};
use super::led::Led;
use crate::balancer::pins::lacking::Partly;
use crate::fabric::hold::{self, CameUp};
use crate::fabric::live::Interfaces;
use crate::fabric::mode::{Mode, Modes};
use crate::fabric::topology::{Role, Switch, SwitchName, Topology};
use crate::southbound::{Heard, Said};

/// What this replica knows of agents while it leads.
#[derive(Default)]
pub(super) struct Agents {
    /// Time at which this replica began to watch each leaf that has an agent.
    watched: BTreeMap<SwitchName, Instant>,
    /// When the first leaf was watched.
    began: Option<Instant>,
    observed: BTreeMap<SwitchName, Observed>,
    /// Switches whose gRIBI server says that it is not a weft-agent.
    foreign: BTreeSet<SwitchName>,
}

/// What a switch's agent said.
struct Observed {
    said: Arc<Said>,
    /// Empty while the agent is silent: it has no say then.
    interfaces: Arc<Interfaces>,
    /// Interfaces that came up less than [`hold::UP_FOR`] ago.
    came_up: CameUp,
    /// When its counters were sampled last.
    sampled: Instant,
    /// When it spoke last.
    heard: Instant,
    /// Prefixes of which not all next hops are in force.
    partly: Arc<Partly>,
}

impl Agents {
    /// Forgets everything: this replica does not lead.
    pub(super) fn forget(&mut self, led: &Led) {
        if self.began.is_some() || !self.observed.is_empty() {
            *self = Self::default();
            led.forget_agents();
        }
    }

    /// Notes which leaves are watched from now on: those that are not off.
    pub(super) fn watch(&mut self, topology: &Topology, modes: &Modes, now: Instant) {
        let watched: BTreeSet<&SwitchName> = programmed(topology)
            .filter(|leaf| modes.of(leaf.as_str()) != Mode::Off)
            .collect();
        self.watched.retain(|leaf, _| watched.contains(leaf));
        for leaf in watched {
            if !self.watched.contains_key(leaf) {
                self.watched.insert(leaf.clone(), now);
                self.began.get_or_insert(now);
            }
        }
    }

    /// Takes what was heard of the agent of a switch last.
    pub(super) fn observe(&mut self, switch: &SwitchName, heard: Heard, led: &Led, now: Instant) {
        let (said, foreign) = match heard {
            Heard::Status(said) => (Some(said), false),
            Heard::Foreign => (None, true),
            Heard::Silent => (None, false),
        };
        if !foreign {
            self.foreign.remove(switch);
        } else if !self.foreign.contains(switch) {
            self.foreign.insert(switch.clone());
        }
        let before = self.observed.get_mut(switch);
        let Some(said) = said else {
            if let Some(before) = before.filter(|before| !before.interfaces.is_empty()) {
                before.interfaces = Arc::default();
                before.came_up.clear();
                led.set_status(switch, None);
            }
            return;
        };
        let mut sampled = None;
        let mut kept = None;
        let mut came_up = CameUp::new();
        let mut partly = None;
        if let Some(before) = before {
            if Arc::ptr_eq(&before.said, &said) && !before.interfaces.is_empty() {
                return;
            }
            sampled = Some(before.sampled);
            kept = Some(Arc::clone(&before.interfaces));
            came_up = std::mem::take(&mut before.came_up);
            partly = same_prefixes(&before.said, &said).then(|| Arc::clone(&before.partly));
        }
        let interfaces = Arc::new(interfaces(&said.status));
        let interfaces = kept
            .filter(|kept| *kept == interfaces)
            .unwrap_or(interfaces);
        let fresh = sampled.filter(|at| now < *at + SAMPLE_EVERY);
        if fresh.is_none() {
            led.sample(switch, &said.status);
        }
        led.set_status(switch, Some(Arc::clone(&said)));
        let prefixes = said.prefixes.as_deref();
        let partly =
            partly.unwrap_or_else(|| Arc::new(prefixes.map_or_else(Partly::new, lacking::partly)));
        let observed = Observed {
            came_up: hold::came_up(up_for(&said.status), &came_up),
            said,
            interfaces,
            sampled: fresh.unwrap_or(now),
            heard: now,
            partly,
        };
        self.observed.insert(switch.clone(), observed);
    }

    /// The interfaces of every switch whose agent speaks.
    pub(super) fn interfaces(&self) -> BTreeMap<SwitchName, Arc<Interfaces>> {
        let observed = self.observed.iter();
        let known = observed.filter(|(_, observed)| !observed.interfaces.is_empty());
        known
            .map(|(switch, observed)| (switch.clone(), Arc::clone(&observed.interfaces)))
            .collect()
    }

    /// Interfaces that came up less than [`hold::UP_FOR`] ago, of switches whose agent speaks.
    pub(super) fn came_up(&self) -> BTreeMap<SwitchName, CameUp> {
        let observed = self.observed.iter();
        let recent = observed.filter(|(_, observed)| !observed.came_up.is_empty());
        recent
            .map(|(switch, observed)| (switch.clone(), observed.came_up.clone()))
            .collect()
    }

    /// Leaves whose gRIBI server is not a weft-agent: it says so, or nobody has heard of it within a time that every
    /// weft-agent keeps. One that was heard and is silent stays what it was.
    pub(super) fn foreign(&self, now: Instant) -> BTreeSet<SwitchName> {
        let watched = self.watched.iter();
        let foreign = watched.filter(|(leaf, since)| {
            let silent = now >= **since + ANSWERED_WITHIN && !self.observed.contains_key(*leaf);
            silent || self.foreign.contains(*leaf)
        });
        foreign.map(|(leaf, _)| leaf.clone()).collect()
    }

    /// What is known of the agents of leaves that are on.
    pub(super) fn known(
        &self,
        topology: &Topology,
        modes: &Modes,
        now: Instant,
    ) -> BTreeMap<SwitchName, Agent> {
        let on = programmed(topology).filter(|leaf| modes.of(leaf.as_str()) == Mode::On);
        on.map(|leaf| (leaf.clone(), self.one(leaf, now))).collect()
    }

    fn one(&self, leaf: &SwitchName, now: Instant) -> Agent {
        if self.foreign.contains(leaf) {
            return Agent::Foreign;
        }
        let since = self.watched.get(leaf).copied();
        match (self.observed.get(leaf), since) {
            (Some(observed), _) if !observed.interfaces.is_empty() => {
                Agent::Speaks(observed.said.status.state(), Arc::clone(&observed.partly))
            }
            (Some(observed), since) => {
                // It was not asked before it was watched.
                let since = since.map_or(observed.heard, |it| it.max(observed.heard));
                let primary = observed.said.status.primary.as_ref();
                let lease = primary.map(|it| Duration::from_millis(it.lease_remaining_ms.into()));
                let lease = lease.map_or(LEASE, |lease| lease.max(LEASE));
                Agent::Silent(now.saturating_duration_since(since), lease)
            }
            (None, Some(since)) if now >= since + ANSWERED_WITHIN => Agent::Unanswered,
            (None, _) => Agent::Unheard,
        }
    }

    /// Leaves that are not off, and of which it is not known yet whether their gRIBI server is a weft-agent. In the first second of
    /// a leader, while there is one such leaf, all leaves that are not off: a new leader learns that a link is down from the switch
    /// at its end, and until then leaves have the right weights from the leader before.
    pub(super) fn unheard(
        &self,
        topology: &Topology,
        modes: &Modes,
        now: Instant,
    ) -> BTreeSet<SwitchName> {
        let is_off = |leaf: &SwitchName| modes.of(leaf.as_str()) == Mode::Off;
        let young = |leaf: &SwitchName| {
            let since = self.watched.get(leaf);
            since.is_none_or(|since| now < *since + ANSWERED_WITHIN)
        };
        let known =
            |leaf: &SwitchName| self.observed.contains_key(leaf) || self.foreign.contains(leaf);
        let is_unheard = |leaf: &&SwitchName| young(leaf) && !known(leaf);
        let watched = || programmed(topology).filter(|leaf| !is_off(leaf));
        let begins = self.began.is_some_and(|at| now < at + ALL_WITHIN);
        let waits_for_all = begins && watched().any(|leaf| is_unheard(&leaf));
        let unheard = watched().filter(|leaf| waits_for_all || is_unheard(leaf));
        unheard.cloned().collect()
    }
}

/// Leaves with an agent.
fn programmed(topology: &Topology) -> impl Iterator<Item = &SwitchName> {
    let programmed = |switch: &&Switch| switch.role == Role::Leaf && switch.agent.is_some();
    topology.switches().filter(programmed).map(|it| &it.name)
}

/// Whether two statuses have the prefixes of the same one.
fn same_prefixes(one: &Said, other: &Said) -> bool {
    match (&one.prefixes, &other.prefixes) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn interfaces(status: &agent::Status) -> Interfaces {
    let interfaces = status.interfaces.iter();
    interfaces.map(|it| (it.name.clone(), it.up)).collect()
}

/// How long each interface has been up, of those that the agent saw come up.
fn up_for(status: &agent::Status) -> impl Iterator<Item = (&str, Duration)> {
    let up = status.interfaces.iter().filter(|it| it.up);
    up.filter_map(|it| {
        let up_for = Duration::from_millis(it.up_for_ms?.into());
        Some((it.name.as_str(), up_for))
    })
}

/// Counters are compared over seconds; shorter differences are noise.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// A switch that neither has a weft-agent that speaks nor says that it has none within this time gets what other gRIBI
/// servers get: ways that somebody confirms.
pub(super) const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// The longest time that a new leader waits for every agent to answer before it programs any leaf.
const ALL_WITHIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::topology::tests::leaf_spine;
    use crate::southbound::Prefixes;

    fn status(up: bool, tx_octets: u64) -> Heard {
        let status = agent::Status {
            interfaces: vec![agent::Interface {
                name: "eth1".to_owned(),
                up,
                tx_octets,
                ..agent::Interface::default()
            }],
            ..agent::Status::default()
        };
        Heard::Status(Arc::new(Said {
            status,
            ..Said::default()
        }))
    }

    #[test]
    fn what_came_up_a_moment_ago_is_known_until_it_is_up_for_long_enough() {
        let (led, leaf) = (Led::new(), SwitchName::from("leaf1"));
        let (mut agents, start) = (Agents::default(), Instant::now());
        let mut came_up = |second, heard: Heard| {
            let now = start + Duration::from_secs(second);
            agents.observe(&leaf, heard, &led, now);
            let all = agents.came_up();
            let eth1 = all.get(&leaf).and_then(|it| it.get("eth1").copied());
            eth1.map(|up_for| up_for.as_millis())
        };
        let up_for = |ms: Option<u32>| {
            let interface = agent::Interface {
                name: "eth1".to_owned(),
                up: true,
                up_for_ms: ms,
                ..agent::Interface::default()
            };
            let status = agent::Status {
                interfaces: vec![interface],
                ..agent::Status::default()
            };
            Heard::Status(Arc::new(Said {
                status,
                ..Said::default()
            }))
        };
        // What was said first stays, so that nothing is planned anew.
        assert_eq!(came_up(0, up_for(Some(3_000))), Some(3_000));
        assert_eq!(came_up(1, up_for(Some(4_000))), Some(3_000));
        assert_eq!(came_up(2, Heard::Silent), None);
        assert_eq!(came_up(3, up_for(Some(6_000))), Some(6_000));
        assert_eq!(came_up(7, up_for(Some(10_000))), None);
        // The agent was restarted while the interface was up.
        assert_eq!(came_up(8, up_for(None)), None);
        assert_eq!(came_up(9, up_for(Some(0))), Some(0));
        assert_eq!(came_up(10, status(false, 0)), None);
    }

    #[test]
    fn a_switch_is_foreign_once_its_server_says_so() {
        let (topology, led) = (leaf_spine(2, 1), Led::new());
        let (mut agents, start) = (Agents::default(), Instant::now());
        let [one, two] = ["leaf1", "leaf2"].map(SwitchName::from);
        let modes = Modes::default();
        let unheard = |agents: &Agents, now| agents.unheard(&topology, &modes, now);
        agents.watch(&topology, &modes, start);
        agents.observe(&one, status(true, 0), &led, start);
        // An agent that needs a while to answer is no other server.
        let later = start + Duration::from_secs(2);
        assert_eq!(unheard(&agents, later), [two.clone()].into());
        assert!(agents.foreign(later).is_empty());
        agents.observe(&two, Heard::Foreign, &led, later);
        assert!(unheard(&agents, later).is_empty());
        assert_eq!(agents.foreign(later), [two.clone()].into());
        agents.observe(&two, status(true, 0), &led, later);
        assert!(agents.foreign(later).is_empty());
        // One that was heard and falls silent may be replaced: the other server says so.
        let silent = later + ANSWERED_WITHIN;
        agents.observe(&one, Heard::Silent, &led, silent);
        assert!(agents.foreign(silent).is_empty());
        agents.observe(&one, Heard::Foreign, &led, silent);
        assert_eq!(agents.foreign(silent), [one].into());
    }

    #[test]
    fn a_switch_that_never_answers_is_treated_as_foreign_after_a_while() {
        let (topology, start) = (leaf_spine(1, 1), Instant::now());
        let mut agents = Agents::default();
        agents.watch(&topology, &Modes::default(), start);
        let later = start + ANSWERED_WITHIN;
        let modes = Modes::default();
        assert!(agents.unheard(&topology, &modes, later).is_empty());
        assert_eq!(agents.foreign(later), ["leaf1".into()].into());
    }

    #[test]
    fn a_new_leader_programs_nobody_before_it_heard_all_or_waited_a_second() {
        let (topology, led) = (leaf_spine(3, 1), Led::new());
        let (mut agents, start) = (Agents::default(), Instant::now());
        let [one, two, three] = ["leaf1", "leaf2", "leaf3"].map(SwitchName::from);
        let mut modes = Modes::default();
        modes.set("leaf3", Some(Mode::Off));
        agents.watch(&topology, &modes, start);
        agents.observe(&one, status(true, 0), &led, start);
        let both: BTreeSet<SwitchName> = [one.clone(), two.clone()].into();
        assert_eq!(agents.unheard(&topology, &modes, start), both);
        let waited = start + ALL_WITHIN;
        assert_eq!(
            agents.unheard(&topology, &modes, waited),
            [two.clone()].into()
        );
        agents.observe(&two, status(false, 0), &led, start);
        assert!(agents.unheard(&topology, &modes, start).is_empty());
        // A leaf that is set on later does not hold up the others.
        modes.set("leaf3", Some(Mode::On));
        agents.watch(&topology, &modes, waited);
        assert_eq!(agents.unheard(&topology, &modes, waited), [three].into());
    }

    #[test]
    fn a_leaf_that_is_off_is_not_watched() {
        let (topology, mut modes) = (leaf_spine(1, 1), Modes::default());
        let (mut agents, start) = (Agents::default(), Instant::now());
        modes.set("leaf1", Some(Mode::Off));
        agents.watch(&topology, &modes, start);
        let later = start + ANSWERED_WITHIN;
        assert!(agents.foreign(later).is_empty());
        assert!(agents.unheard(&topology, &modes, start).is_empty());
        modes.set("leaf1", Some(Mode::On));
        agents.watch(&topology, &modes, later);
        let unheard = agents.unheard(&topology, &modes, later);
        assert_eq!(unheard, ["leaf1".into()].into());
    }

    #[test]
    fn what_is_known_of_an_agent_is_what_it_said_and_since_when_it_is_silent() {
        let (topology, led) = (leaf_spine(3, 1), Led::new());
        let (mut agents, start) = (Agents::default(), Instant::now());
        let [one, two, three] = ["leaf1", "leaf2", "leaf3"].map(SwitchName::from);
        let mut modes = Modes::default();
        modes.set("", Some(Mode::On));
        modes.set("leaf3", Some(Mode::Shadow));
        let at = |secs| start + Duration::from_secs(secs);
        let known = |agents: &Agents, secs| agents.known(&topology, &modes, at(secs));
        let both = |first: Agent, second: Agent| -> BTreeMap<SwitchName, Agent> {
            [(one.clone(), first), (two.clone(), second)].into()
        };
        let unheard = both(Agent::Unheard, Agent::Unheard);
        assert_eq!(known(&agents, 0), unheard);
        agents.watch(&topology, &modes, start);
        assert_eq!(known(&agents, 9), unheard);
        agents.observe(&one, status(true, 0), &led, at(5));
        agents.observe(&three, status(true, 0), &led, at(5));
        let speaks = || Agent::Speaks(agent::State::Unspecified, Arc::default());
        assert_eq!(known(&agents, 8), both(speaks(), Agent::Unheard));
        agents.observe(&one, Heard::Silent, &led, at(8));
        let silent = |secs| Agent::Silent(Duration::from_secs(secs), LEASE);
        assert_eq!(known(&agents, 15), both(silent(10), Agent::Unanswered));
        assert_eq!(known(&agents, 22), both(silent(17), Agent::Unanswered));
        // Another server answers at leaf 2, and the agent of leaf 1 is back.
        agents.observe(&two, Heard::Foreign, &led, at(23));
        agents.observe(&one, status(true, 0), &led, at(23));
        assert_eq!(known(&agents, 24), both(speaks(), Agent::Foreign));
    }

    #[test]
    fn prefixes_that_are_not_wholly_in_force_are_those_of_the_last_status_that_has_them() {
        let (topology, led) = (leaf_spine(1, 1), Led::new());
        let (mut agents, now) = (Agents::default(), Instant::now());
        let leaf = SwitchName::from("leaf1");
        let mut modes = Modes::default();
        modes.set("", Some(Mode::On));
        let prefixes = |state: agent::PrefixState| {
            let prefix = agent::Prefix {
                prefix: "192.0.2.12/32".to_owned(),
                state: state.into(),
                ..agent::Prefix::default()
            };
            let name = prefix.prefix.parse().unwrap();
            Some(Arc::new(Prefixes::from([(name, Arc::new(prefix))])))
        };
        let mut partly = |prefixes: Option<Arc<Prefixes>>| {
            let Heard::Status(said) = status(true, 0) else {
                panic!("no status")
            };
            let said = Said {
                prefixes,
                ..Said::clone(&said)
            };
            agents.observe(&leaf, Heard::Status(Arc::new(said)), &led, now);
            match &agents.known(&topology, &modes, now)[&leaf] {
                Agent::Speaks(_, partly) => partly.len(),
                other => panic!("{other:?}"),
            }
        };
        let partial = prefixes(agent::PrefixState::Partial);
        assert_eq!(partly(None), 0);
        assert_eq!(partly(partial.clone()), 1);
        assert_eq!(partly(partial), 1);
        assert_eq!(partly(prefixes(agent::PrefixState::Forwarding)), 0);
    }

    #[test]
    fn a_silent_agent_has_no_say_and_its_counters_are_forgotten() {
        let (led, leaf) = (Led::new(), SwitchName::from("leaf1"));
        let (mut agents, start) = (Agents::default(), Instant::now());
        agents.observe(&leaf, status(false, 1_000), &led, start);
        let second = start + SAMPLE_EVERY;
        agents.observe(&leaf, status(false, 1_600), &led, second);
        assert_eq!(led.sent(&leaf).octets("eth1"), Some(600));
        assert_eq!(agents.interfaces()[&leaf].get("eth1"), Some(&false));
        agents.observe(&leaf, Heard::Silent, &led, second);
        assert!(agents.interfaces().is_empty());
        assert_eq!(led.sent(&leaf).octets("eth1"), None);
        assert!(led.status(&leaf).is_none());
    }
}
