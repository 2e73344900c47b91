//! A link that comes up waits: flows that left it go back once it has stayed up for a while, so that a link that flaps moves
//! them once.
//!
//! A leader that saw a link down knows when it came up. A new leader goes by how long the switches at the ends of the link say that
//! their interfaces have been up.
//!
//! Pure; time is an argument. It refuses to know why a link was down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::fact::{Link, LinkName, SwitchName};
use super::live::{Interfaces, Live};
use super::topology::Topology;

/// Interfaces of a switch that came up less than [`UP_FOR`] ago, by name: how long each had been up when the switch said so first.
pub type CameUp = BTreeMap<String, Duration>;

/// Which links were down, and until when those that came up wait.
#[derive(Clone, Debug, Default)]
pub struct Hold {
    down: BTreeSet<LinkName>,
    until: BTreeMap<LinkName, Duration>,
    /// Switches that said something of their interfaces, since there are any that do.
    heard: BTreeSet<SwitchName>,
    /// The links that were looked at last.
    topology: Arc<Topology>,
}

impl Hold {
    /// Takes what switches say of interfaces that came up less than [`UP_FOR`] ago. It counts when a link is looked at for the
    /// first time, or the switch at one end is heard for the first time: the link waits for the rest of [`UP_FOR`] then. A link
    /// that was looked at before waits only if [`look`](Self::look) saw it down, so that one that flaps faster than anybody sees
    /// moves no flows.
    pub fn follow(
        &mut self,
        topology: &Arc<Topology>,
        interfaces: &BTreeMap<SwitchName, Arc<Interfaces>>,
        came_up: &BTreeMap<SwitchName, CameUp>,
        now: Duration,
    ) {
        if interfaces.is_empty() {
            // Only a leader hears switches: what this replica heard before it followed says nothing of links since.
            self.heard.clear();
        }
        for (switch, came_up) in came_up {
            let is_new = !self.heard.contains(switch);
            for link in topology.links_of(switch) {
                if (is_new || !self.is_known(link))
                    && let Some(up_for) = up_for(link, switch, came_up)
                {
                    let until = now.saturating_add(UP_FOR.saturating_sub(up_for));
                    let known = self.until.entry(link.name.clone()).or_default();
                    *known = until.max(*known);
                }
            }
        }
        for switch in interfaces.keys() {
            if !self.heard.contains(switch) {
                self.heard.insert(switch.clone());
            }
        }
        self.topology = Arc::clone(topology);
    }

    /// Whether a link was there at the last look, between the same interfaces.
    fn is_known(&self, link: &Link) -> bool {
        let known = self.topology.link_named(&link.name);
        known.is_some_and(|known| (&known.a, &known.b) == (&link.a, &link.b))
    }

    /// Marks the links that came up less than [`UP_FOR`] ago as still down. A link that was not down before, or that nobody but an
    /// operator called down, does not wait. The answer is when the next link has waited enough; None: none waits.
    pub fn look(
        &mut self,
        topology: &Topology,
        live: &mut Live,
        now: Duration,
    ) -> Option<Duration> {
        let down: BTreeSet<LinkName> = live.measured_down().cloned().collect();
        let is_declared = |link: &LinkName| topology.link_named(link).is_some();
        let came_up = std::mem::take(&mut self.down).into_iter();
        let came_up = came_up.filter(|link| !down.contains(link));
        let until = now.saturating_add(UP_FOR);
        self.until.extend(came_up.map(|link| (link, until)));
        self.until
            .retain(|link, until| now < *until && !down.contains(link) && is_declared(link));
        self.down = down;
        self.until.keys().for_each(|link| live.hold(link));
        self.until.values().min().copied()
    }
}

/// The interfaces that came up less than [`UP_FOR`] ago, of those of which a switch says how long they have been up. What was said of
/// one first stays, so that the answer is another one only when an interface came up, or has been up for long enough.
pub fn came_up<'a>(said: impl IntoIterator<Item = (&'a str, Duration)>, before: &CameUp) -> CameUp {
    let recent = said.into_iter().filter(|(_, up_for)| *up_for < UP_FOR);
    let first = recent.map(|(name, up_for)| {
        // An interface that has been up for less time than was said before came up again.
        let known = before.get(name).filter(|known| **known <= up_for);
        (name.to_owned(), known.copied().unwrap_or(up_for))
    });
    first.collect()
}

/// How long the interface of a link at a switch has been up, if that is less than [`UP_FOR`].
fn up_for(link: &Link, switch: &SwitchName, came_up: &CameUp) -> Option<Duration> {
    let ends = [&link.a, &link.b].into_iter();
    let ends = ends.filter(|end| end.switch == *switch);
    ends.filter_map(|end| came_up.get(&*end.interface).copied())
        .min()
}

/// So long a link that came up must stay up before it carries what weft decides on.
pub const UP_FOR: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::live::{Announced, Unusable};
    use crate::fabric::topology::tests::leaf_spine;

    const LINK: &str = "leaf2:eth1--spine1:eth2";

    /// Looks at a moment, in seconds, with the link up or not.
    fn look(hold: &mut Hold, second: u64, is_up: bool) -> (Option<Unusable>, Option<u64>) {
        let topology = leaf_spine(2, 2);
        let leaf2: Interfaces = [("eth1".to_owned(), is_up), ("eth2".to_owned(), true)].into();
        let interfaces = [("leaf2".into(), Arc::new(leaf2))].into();
        let mut live = Live::new(&topology, &Announced::new(), &interfaces);
        let due = hold.look(&topology, &mut live, Duration::from_secs(second));
        let why = live.unusable(topology.link(LINK).unwrap());
        (why, due.map(|due| due.as_secs()))
    }

    #[test]
    fn a_link_that_comes_up_waits_and_begins_anew_when_it_flaps() {
        let mut hold = Hold::default();
        let down = Some(Unusable::InterfaceDown("leaf2".into(), "eth1".into()));
        let held = Some(Unusable::CameUp);
        assert_eq!(look(&mut hold, 0, true), (None, None), "it never was down");
        assert_eq!(look(&mut hold, 1, false), (down.clone(), None));
        assert_eq!(look(&mut hold, 2, true), (held.clone(), Some(12)));
        assert_eq!(look(&mut hold, 5, true), (held.clone(), Some(12)));
        assert_eq!(look(&mut hold, 6, false), (down, None));
        assert_eq!(look(&mut hold, 7, true), (held.clone(), Some(17)));
        assert_eq!(look(&mut hold, 16, true), (held, Some(17)));
        assert_eq!(look(&mut hold, 17, true), (None, None));
        assert_eq!(look(&mut hold, 18, true), (None, None));
    }

    /// Hears these switches at a time in seconds: all interfaces are up, and the first one has been up for so many seconds. Looks
    /// then, and answers until when the link waits.
    fn hear(
        hold: &mut Hold,
        topology: &Arc<Topology>,
        second: u64,
        said: &[(&str, Option<u64>)],
    ) -> Option<u64> {
        let now = Duration::from_secs(second);
        let up = ["eth1", "eth2"].map(|name| (name.to_owned(), true));
        let up: Arc<Interfaces> = Arc::new(up.into());
        let all = said.iter().map(|(switch, _)| SwitchName::from(*switch));
        let interfaces = all.map(|switch| (switch, Arc::clone(&up))).collect();
        let recent = said.iter().filter_map(|(switch, up_for)| {
            let up_for = Duration::from_secs((*up_for)?);
            Some((
                SwitchName::from(*switch),
                CameUp::from([("eth1".to_owned(), up_for)]),
            ))
        });
        hold.follow(topology, &interfaces, &recent.collect(), now);
        let mut live = Live::new(topology, &Announced::new(), &interfaces);
        let due = hold.look(topology, &mut live, now);
        let why = topology.link(LINK).and_then(|link| live.unusable(link));
        assert_eq!(why, due.map(|_| Unusable::CameUp), "at {second} s");
        due.map(|due| due.as_secs())
    }

    /// The link came up 3 s before the new leader heard of it.
    #[test]
    fn a_new_leader_lets_a_link_wait_for_the_rest_of_its_time() {
        let (mut hold, topology) = (Hold::default(), Arc::new(leaf_spine(2, 2)));
        let mut hear = |second, said: &[_]| hear(&mut hold, &topology, second, said);
        let (leaf1, leaf2) = (("leaf1", None), ("leaf2", Some(3)));
        // While it follows, it hears nobody; then one switch after another.
        assert_eq!(hear(90, &[]), None);
        assert_eq!(hear(100, &[leaf1]), None);
        assert_eq!(hear(101, &[leaf1, leaf2]), Some(108));
        assert_eq!(hear(104, &[leaf1, leaf2]), Some(108));
        assert_eq!(hear(108, &[leaf1, leaf2]), None);
        assert_eq!(hear(109, &[leaf1, leaf2]), None);
    }

    #[test]
    fn a_link_that_nobody_saw_come_up_does_not_wait() {
        let (mut hold, topology) = (Hold::default(), Arc::new(leaf_spine(2, 2)));
        let all = [("leaf1", None), ("leaf2", None), ("spine1", None)];
        assert_eq!(hear(&mut hold, &topology, 0, &all), None);
    }

    #[test]
    fn a_link_that_was_looked_at_before_waits_only_if_it_was_seen_down() {
        let (mut hold, topology) = (Hold::default(), Arc::new(leaf_spine(2, 2)));
        let mut hear = |second, said: &[_]| hear(&mut hold, &topology, second, said);
        let (leaf1, leaf2) = (("leaf1", None), ("leaf2", None));
        assert_eq!(hear(0, &[leaf1, leaf2]), None);
        // It flapped faster than anybody saw.
        let flapped = ("leaf2", Some(0));
        assert_eq!(hear(1, &[leaf1, flapped]), None);
        // The stream of the agent is lost, and is back.
        assert_eq!(hear(2, &[leaf1]), None);
        assert_eq!(hear(3, &[leaf1, flapped]), None);
    }

    #[test]
    fn a_replica_that_leads_again_asks_again() {
        let (mut hold, topology) = (Hold::default(), Arc::new(leaf_spine(2, 2)));
        let mut hear = |second, said: &[_]| hear(&mut hold, &topology, second, said);
        assert_eq!(hear(0, &[("leaf2", None)]), None);
        assert_eq!(hear(1, &[]), None);
        assert_eq!(hear(50, &[("leaf2", Some(4))]), Some(56));
    }

    #[test]
    fn a_link_that_is_declared_waits_as_one_that_a_new_leader_sees() {
        let (mut hold, topology) = (Hold::default(), Arc::new(leaf_spine(2, 2)));
        let none = Arc::new(Topology::default());
        assert_eq!(hear(&mut hold, &none, 0, &[("leaf2", None)]), None);
        let recent = [("leaf2", Some(9))];
        assert_eq!(hear(&mut hold, &none, 1, &recent), None);
        assert_eq!(hear(&mut hold, &topology, 2, &recent), Some(3));
        assert_eq!(hear(&mut hold, &topology, 3, &recent), None);
    }

    #[test]
    fn the_end_that_came_up_last_counts_and_one_that_is_down_begins_anew() {
        let (mut hold, topology) = (Hold::default(), Arc::new(leaf_spine(2, 2)));
        // The link from leaf 1 to spine 1 is at the first interface of both.
        let near = "leaf1:eth1--spine1:eth1";
        let mut due = |second, spine1_is_up: bool| {
            let up: Interfaces = ["eth1", "eth2"].map(|name| (name.to_owned(), true)).into();
            let mut spine1 = up.clone();
            spine1.insert("eth1".to_owned(), spine1_is_up);
            let heard = [("leaf1", up), ("spine1", spine1)];
            let interfaces = heard.map(|(name, it)| (name.into(), Arc::new(it))).into();
            let recent = |secs| CameUp::from([("eth1".to_owned(), Duration::from_secs(secs))]);
            let came_up = [("leaf1", recent(6)), ("spine1", recent(2))];
            let came_up = came_up.map(|(name, it)| (name.into(), it)).into();
            let now = Duration::from_secs(second);
            hold.follow(&topology, &interfaces, &came_up, now);
            let mut live = Live::new(&topology, &Announced::new(), &interfaces);
            let due = hold.look(&topology, &mut live, now);
            let is_down = live.unusable(topology.link(near).unwrap()).is_some();
            (is_down, due.map(|due| due.as_secs()))
        };
        assert_eq!(due(100, true), (true, Some(108)));
        assert_eq!(due(103, false), (true, None));
        assert_eq!(due(104, true), (true, Some(114)));
        assert_eq!(due(114, true), (false, None));
    }

    #[test]
    fn what_was_said_first_of_an_interface_stays_until_it_is_up_for_long_enough() {
        let mut known = CameUp::new();
        let mut said = |ms: Option<u64>| {
            let all = ms.map(|ms| ("eth1", Duration::from_millis(ms)));
            known = came_up(all, &known);
            known.get("eth1").map(Duration::as_millis)
        };
        assert_eq!(said(Some(3_000)), Some(3_000));
        assert_eq!(said(Some(4_000)), Some(3_000));
        assert_eq!(said(Some(9_999)), Some(3_000));
        // It came up again.
        assert_eq!(said(Some(500)), Some(500));
        assert_eq!(said(Some(10_000)), None);
        assert_eq!(said(Some(3_000)), Some(3_000));
        assert_eq!(said(None), None);
    }

    #[test]
    fn a_link_that_an_operator_set_down_does_not_wait() {
        let topology = leaf_spine(2, 2);
        let mut hold = Hold::default();
        let spines = |down: bool| {
            let mut declared = crate::fabric::topology::tests::declared(2, 2);
            for switch in declared
                .switches
                .iter_mut()
                .filter(|it| it.name == "spine1")
            {
                switch.admin_state = i32::from(down) + 1;
            }
            Topology::new(&declared).unwrap()
        };
        for (second, down) in [(0, true), (1, false)] {
            let topology = spines(down);
            let mut live = Live::new(&topology, &Announced::new(), &BTreeMap::new());
            let due = hold.look(&topology, &mut live, Duration::from_secs(second));
            let why = live.unusable(topology.link(LINK).unwrap());
            assert_eq!((why.is_some(), due), (down, None));
        }
        // Nor one that is declared no more.
        look(&mut hold, 2, false);
        let mut live = Live::new(&Topology::default(), &Announced::new(), &BTreeMap::new());
        let due = hold.look(&Topology::default(), &mut live, Duration::from_secs(3));
        assert_eq!(due, None);
        assert!(topology.link(LINK).is_some());
    }
}
