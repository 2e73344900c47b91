//! What the agents of switches said last, and which leaves have another gRIBI server than weft-agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weft_proto::agent::v1 as agent;

use super::led::Led;
use crate::fabric::live::Interfaces;
use crate::fabric::mode::{Mode, Modes};
use crate::fabric::topology::{Role, Switch, SwitchName, Topology};
use crate::southbound::{Heard, Said};

/// What this replica knows of agents while it leads.
#[derive(Default)]
pub(super) struct Agents {
    /// Time at which this replica began to watch each leaf that has an agent.
    watched: BTreeMap<SwitchName, Instant>,
    observed: BTreeMap<SwitchName, Observed>,
    /// Switches whose gRIBI server says that it is not a weft-agent.
    foreign: BTreeSet<SwitchName>,
}

/// What a switch's agent said.
struct Observed {
    said: Arc<Said>,
    /// Empty while the agent is silent: it has no say then.
    interfaces: Arc<Interfaces>,
    /// When its counters were sampled last.
    sampled: Instant,
}

impl Agents {
    /// Forgets everything: this replica does not lead.
    pub(super) fn forget(&mut self, led: &Led) {
        if !self.watched.is_empty() || !self.observed.is_empty() {
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
                led.set_status(switch, None);
            }
            return;
        };
        let mut sampled = None;
        let mut kept = None;
        if let Some(before) = before {
            if Arc::ptr_eq(&before.said, &said) && !before.interfaces.is_empty() {
                return;
            }
            sampled = Some(before.sampled);
            kept = Some(Arc::clone(&before.interfaces));
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
        let observed = Observed {
            said,
            interfaces,
            sampled: fresh.unwrap_or(now),
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

    /// Leaves of which nobody knows yet whether their gRIBI server is a weft-agent.
    pub(super) fn unheard(&self, topology: &Topology, now: Instant) -> BTreeSet<SwitchName> {
        let young = |leaf: &SwitchName| {
            let since = self.watched.get(leaf);
            since.is_none_or(|since| now < *since + ANSWERED_WITHIN)
        };
        let known =
            |leaf: &SwitchName| self.observed.contains_key(leaf) || self.foreign.contains(leaf);
        programmed(topology)
            .filter(|leaf| young(leaf) && !known(leaf))
            .cloned()
            .collect()
    }
}

/// Leaves with an agent.
fn programmed(topology: &Topology) -> impl Iterator<Item = &SwitchName> {
    let programmed = |switch: &&Switch| switch.role == Role::Leaf && switch.agent.is_some();
    topology.switches().filter(programmed).map(|it| &it.name)
}

fn interfaces(status: &agent::Status) -> Interfaces {
    let interfaces = status.interfaces.iter();
    interfaces.map(|it| (it.name.clone(), it.up)).collect()
}

/// Counters are compared over seconds; shorter differences are noise.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// A switch that neither has a weft-agent that speaks nor says that it has none within this time gets what other gRIBI
/// servers get: ways that somebody confirms.
pub(super) const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::topology::tests::leaf_spine;

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
    fn a_switch_is_foreign_once_its_server_says_so() {
        let (topology, led) = (leaf_spine(2, 1), Led::new());
        let (mut agents, start) = (Agents::default(), Instant::now());
        let [one, two] = ["leaf1", "leaf2"].map(SwitchName::from);
        agents.watch(&topology, &Modes::default(), start);
        agents.observe(&one, status(true, 0), &led, start);
        assert_eq!(agents.unheard(&topology, start), [two.clone()].into());
        // An agent that needs a while to answer is no other server.
        let later = start + Duration::from_secs(2);
        assert_eq!(agents.unheard(&topology, later), [two.clone()].into());
        assert!(agents.foreign(later).is_empty());
        agents.observe(&two, Heard::Foreign, &led, later);
        assert!(agents.unheard(&topology, later).is_empty());
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
        assert!(agents.unheard(&topology, later).is_empty());
        assert_eq!(agents.foreign(later), ["leaf1".into()].into());
    }

    #[test]
    fn a_leaf_that_is_off_is_not_watched() {
        let (topology, mut modes) = (leaf_spine(1, 1), Modes::default());
        let (mut agents, start) = (Agents::default(), Instant::now());
        modes.set("leaf1", Some(Mode::Off));
        agents.watch(&topology, &modes, start);
        let later = start + ANSWERED_WITHIN;
        assert!(agents.foreign(later).is_empty());
        modes.set("leaf1", Some(Mode::On));
        agents.watch(&topology, &modes, later);
        assert_eq!(agents.unheard(&topology, later), ["leaf1".into()].into());
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
