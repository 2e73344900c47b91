//! What follows for links from what switches say of their interfaces: whether they are up, whether LLDP hears the declared
//! neighbour, what they carry, and what they should be derated by. Pure; time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use weft_telemetry::derating::{Decision, Derating, Symptoms};
use weft_telemetry::lldp::{self, Expected, Verdict};
use weft_telemetry::rates::{InterfaceRates, Rates};
use weft_telemetry::{Neighbor, Sample};

use crate::fabric::fact::{Link, LinkEnd, LinkName, SwitchName};
use crate::fabric::hold::{self, CameUp};
use crate::fabric::live::Interfaces;
use crate::fabric::measured::Measured;
use crate::fabric::topology::Topology;

/// What a switch said; an error: why it is silent.
pub(super) type Said = Result<Arc<Sample>, Arc<str>>;

/// What is seen of the links of a fabric.
#[derive(Default)]
pub struct Links {
    topology: Arc<Topology>,
    /// The declared other ends, and the links, of each switch with a gNMI server.
    declared: BTreeMap<SwitchName, Declared>,
    seen: BTreeMap<SwitchName, Seen>,
    /// Why others are silent.
    silent: BTreeMap<SwitchName, Arc<str>>,
    derating: Derating,
    miswired: Arc<BTreeMap<LinkName, Arc<str>>>,
}

#[derive(Default)]
struct Declared {
    expected: BTreeMap<Arc<str>, Expected>,
    /// By interface.
    links: BTreeMap<Arc<str>, LinkName>,
}

/// A switch that speaks.
struct Seen {
    sample: Arc<Sample>,
    interfaces: Arc<Interfaces>,
    /// Interfaces that came up less than [`hold::UP_FOR`] ago.
    came_up: CameUp,
    rates: Rates,
    verdicts: BTreeMap<Arc<str>, Verdict>,
}

impl Links {
    /// Takes another topology, if it is one. What was derated under the leader before is taken over.
    pub(super) fn set_topology(
        &mut self,
        topology: &Arc<Topology>,
        agreed: &Measured,
        now: Duration,
    ) {
        if Arc::ptr_eq(&self.topology, topology) {
            return;
        }
        self.topology = Arc::clone(topology);
        self.declared = declared(topology);
        let is_seen = |link: &Link| {
            let mut ends = [&link.a, &link.b].into_iter();
            ends.any(|end| self.declared.contains_key(&end.switch))
        };
        let link = |name: &str| topology.link(name).is_some_and(is_seen);
        self.derating.retain(link);
        for (name, decision) in agreed.deratings() {
            let known = self.derating.of(name.as_str()).derating_percent > 0;
            if !known && link(name.as_str()) {
                let percent = decision.derating_percent;
                self.derating.take_over(&name.into(), percent, now);
            }
        }
        self.seen
            .retain(|switch, _| self.declared.contains_key(switch));
        self.silent
            .retain(|switch, _| self.declared.contains_key(switch));
        for (switch, seen) in &mut self.seen {
            seen.verdicts = lldp::judge(&self.declared[switch].expected, &seen.sample);
        }
        self.find_miswired();
    }

    /// Takes what switches said. What one that is silent said before counts no more.
    pub(super) fn learn(&mut self, heard: Vec<(SwitchName, Said)>, now: Duration) {
        let (mut changed, mut rewired) = (BTreeSet::new(), false);
        for (switch, sample) in heard {
            let Some(declared) = self.declared.get(&switch) else {
                continue;
            };
            let sample = match sample {
                Ok(sample) => sample,
                Err(why) => {
                    rewired |= self.seen.remove(&switch).is_some();
                    self.silent.insert(switch, why);
                    continue;
                }
            };
            self.silent.remove(&switch);
            let verdicts = lldp::judge(&declared.expected, &sample);
            let interfaces = Arc::new(sample.oper_up());
            changed.extend(declared.links.values().cloned());
            match self.seen.get_mut(&switch) {
                Some(seen) => {
                    rewired |= seen.verdicts != verdicts;
                    seen.rates.learn(&sample);
                    if seen.interfaces != interfaces {
                        seen.interfaces = interfaces;
                    }
                    (seen.sample, seen.verdicts) = (sample, verdicts);
                }
                None => {
                    rewired = true;
                    let mut rates = Rates::default();
                    rates.learn(&sample);
                    let seen = Seen {
                        sample,
                        interfaces,
                        came_up: CameUp::new(),
                        rates,
                        verdicts,
                    };
                    self.seen.insert(switch, seen);
                }
            }
        }
        for name in changed {
            let link = self.topology.link_named(&name);
            let symptoms = link.and_then(|link| self.symptoms(link));
            self.derating.learn(&(&name).into(), symptoms.as_ref(), now);
        }
        if rewired {
            self.find_miswired();
        }
    }

    /// Finds the interfaces that came up less than [`hold::UP_FOR`] ago, of switches that spoke just now. The time of day is in
    /// nanoseconds since the Unix epoch, by this replica's clock; `last-change` is by the switch's.
    pub(super) fn find_came_up(&mut self, spoken: &[SwitchName], unix_ns: u64) {
        for switch in spoken {
            if let Some(seen) = self.seen.get_mut(switch) {
                seen.came_up = hold::came_up(seen.sample.up_for(unix_ns), &seen.came_up);
            }
        }
    }

    /// Interfaces that came up less than [`hold::UP_FOR`] ago, of switches that speak.
    pub(in super::super) fn came_up(&self) -> impl Iterator<Item = (&SwitchName, &CameUp)> {
        let recent = self.seen.iter();
        let recent = recent.filter(|(_, seen)| !seen.came_up.is_empty());
        recent.map(|(switch, seen)| (switch, &seen.came_up))
    }

    /// The interfaces of every switch that speaks.
    pub(in super::super) fn interfaces(
        &self,
    ) -> impl Iterator<Item = (&SwitchName, &Arc<Interfaces>)> {
        let known = self.seen.iter();
        let known = known.filter(|(_, seen)| !seen.interfaces.is_empty());
        known.map(|(switch, seen)| (switch, &seen.interfaces))
    }

    /// Links that lead to another declared switch, or to another port of the declared one. A neighbour that the fabric does not
    /// have may be a name that nobody declared: it is shown, and decides nothing.
    pub fn miswired(&self) -> Arc<BTreeMap<LinkName, Arc<str>>> {
        Arc::clone(&self.miswired)
    }

    /// The links whose derating is not what is agreed, with what it should be.
    pub(in super::super) fn undecided(&self, agreed: &Measured) -> Vec<(LinkName, Decision)> {
        let wanted = self.derating.iter();
        let wanted = wanted.map(|(link, decision)| (LinkName::from(&**link), decision));
        let raised = wanted.filter(|(link, decision)| {
            agreed.derating(link).derating_percent != decision.derating_percent
        });
        let over = agreed.deratings().filter_map(|(link, _)| {
            let decision = self.derating.of(link.as_str());
            (decision.derating_percent == 0).then(|| (link.clone(), decision))
        });
        raised.chain(over).collect()
    }

    /// What LLDP says of a link; None: neither end speaks.
    pub fn lldp(&self, link: &Link) -> Option<String> {
        let verdicts = [&link.a, &link.b].map(|end| self.verdict(end));
        match verdicts {
            [None, None] => None,
            [Some(verdict), None] | [None, Some(verdict)] => Some(verdict.to_string()),
            [Some(a), Some(b)] => Some(lldp::link(a, b).to_string()),
        }
    }

    /// Why the gNMI servers at the ends of a link are not heard.
    pub fn unheard(&self, link: &Link) -> Vec<String> {
        let asked = |end: &&&LinkEnd| {
            self.declared.contains_key(&end.switch) && !self.seen.contains_key(&end.switch)
        };
        let why = |end: &&LinkEnd| {
            let why = self.silent.get(&end.switch);
            let why = why.map_or("it has not answered yet", |why| why);
            format!("{}: {why}", end.switch)
        };
        [&link.a, &link.b].iter().filter(asked).map(why).collect()
    }

    /// Bits per second from end a to end b of a link, and back; None: nobody counts them.
    pub fn bps(&self, link: &Link) -> [Option<u64>; 2] {
        let [a, b] = [&link.a, &link.b].map(|end| self.rates(end));
        let sent = |near: Option<&InterfaceRates>, far: Option<&InterfaceRates>| {
            let sent = near.and_then(|rates| rates.out_octets);
            let taken = || far.and_then(|rates| rates.in_octets);
            #[expect(clippy::cast_sign_loss, reason = "a rate is never negative")]
            sent.or_else(taken).map(|rate| rate.mean_bps() as u64)
        };
        [sent(a, b), sent(b, a)]
    }

    fn verdict(&self, end: &LinkEnd) -> Option<&Verdict> {
        self.seen.get(&end.switch)?.verdicts.get(&end.interface)
    }

    fn rates(&self, end: &LinkEnd) -> Option<&InterfaceRates> {
        self.interface_rates(&end.switch, &end.interface)
    }

    /// What an interface counts.
    pub(super) fn interface_rates(
        &self,
        switch: &SwitchName,
        interface: &str,
    ) -> Option<&InterfaceRates> {
        self.seen.get(switch)?.rates.of(interface)
    }

    /// The declared links of a switch that speaks, by interface.
    pub(super) fn links_of(
        &self,
        switch: &SwitchName,
    ) -> impl Iterator<Item = (&Arc<str>, &LinkName)> {
        let declared = self.declared.get(switch).into_iter();
        declared.flat_map(|declared| &declared.links)
    }

    /// The worse of what both ends say.
    fn symptoms(&self, link: &Link) -> Option<Symptoms> {
        let ends = [&link.a, &link.b];
        let ends = ends.map(|end| self.rates(end).and_then(Symptoms::of));
        ends.into_iter().flatten().reduce(Symptoms::worst)
    }

    fn find_miswired(&mut self) {
        let mut found = BTreeMap::new();
        for (switch, seen) in &self.seen {
            for (interface, verdict) in &seen.verdicts {
                if let Verdict::Miswired { expected, seen } = verdict
                    && let Some(link) = self.declared[switch].links.get(interface)
                    && self.is_declared(seen)
                {
                    let said = format!("LLDP at {switch}:{interface} hears {seen}, not {expected}");
                    found.entry(link.clone()).or_insert_with(|| said.into());
                }
            }
        }
        if found != *self.miswired {
            for (link, said) in &found {
                tracing::warn!(%link, said = &**said, "link is miswired");
            }
            self.miswired = Arc::new(found);
        }
    }

    fn is_declared(&self, neighbor: &Neighbor) -> bool {
        let Some(heard) = neighbor.system_name.as_deref() else {
            return false;
        };
        let mut switches = self.topology.switches();
        switches.any(|switch| lldp::is_same_switch(switch.name.as_str(), heard))
    }
}

/// What is declared of the switches with a gNMI server.
fn declared(topology: &Topology) -> BTreeMap<SwitchName, Declared> {
    let switches = topology.switches().filter(|switch| switch.gnmi.is_some());
    let mut all: BTreeMap<SwitchName, Declared> = switches
        .map(|switch| (switch.name.clone(), Declared::default()))
        .collect();
    for link in topology.links() {
        for (near, far) in [(&link.a, &link.b), (&link.b, &link.a)] {
            if let Some(known) = all.get_mut(&near.switch) {
                let expected = Expected {
                    switch: (&far.switch).into(),
                    interface: Arc::clone(&far.interface),
                };
                known.expected.insert(Arc::clone(&near.interface), expected);
                let interface = Arc::clone(&near.interface);
                known.links.insert(interface, link.name.clone());
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use weft_telemetry::derating::Cause;
    use weft_telemetry::{Counter, Counters, Interface};

    use super::*;
    use crate::fabric::topology::tests::declared;

    const LINK: &str = "leaf1:eth1--spine1:eth1";

    /// When the uplink of leaf1 came up.
    const CHANGED_NS: u64 = 1_700_000_000_000_000_000;

    fn fabric() -> Arc<Topology> {
        let mut fabric = declared(2, 2);
        for switch in &mut fabric.switches {
            switch.gnmi_address = format!("{}.example:9339", switch.name);
        }
        Arc::new(Topology::new(&fabric).unwrap())
    }

    /// A sample of leaf1 in a second: its first uplink with so many errors in all, and the switch and port that it hears.
    fn sample(second: u64, errors: u64, (switch, port): (&str, &str)) -> Arc<Sample> {
        let counter = |value| {
            Some(Counter {
                value,
                unix_ns: second as i64 * 1_000_000_000,
                received: Duration::from_secs(second),
            })
        };
        let neighbor = Neighbor {
            system_name: Some(switch.into()),
            port_id: Some(port.into()),
            ..Neighbor::default()
        };
        let interface = Interface {
            up: Some(true),
            last_change_unix_ns: Some(CHANGED_NS),
            speed_bps: Some(1_000_000_000),
            counters: Counters {
                out_octets: counter(second * 1_000_000),
                in_errors: counter(errors),
                ..Counters::default()
            },
            neighbors: [("1".into(), neighbor)].into(),
        };
        Arc::new(Sample {
            interfaces: [("eth1".into(), interface)].into(),
            has_lldp: true,
            ..Sample::default()
        })
    }

    /// Links that learnt of leaf1 in some seconds.
    fn learnt(agreed: &Measured, seconds: std::ops::Range<u64>, errors_per_s: u64) -> Links {
        let mut links = Links::default();
        let topology = fabric();
        for second in seconds {
            let now = Duration::from_secs(second);
            links.set_topology(&topology, agreed, now);
            let said = sample(second, second * errors_per_s, ("spine1", "eth1"));
            links.learn(vec![("leaf1".into(), Ok(said))], now);
        }
        links
    }

    #[test]
    fn errors_derate_a_link_and_a_new_leader_takes_that_over() {
        let mut agreed = Measured::default();
        let links = learnt(&agreed, 0..5, 100);
        let undecided = links.undecided(&agreed);
        let [(link, decision)] = &undecided[..] else {
            panic!("{undecided:?}");
        };
        assert_eq!((link.as_str(), decision.cause), (LINK, Some(Cause::Errors)));
        assert_eq!(decision.derating_percent, 25);
        agreed.derate(link.clone(), *decision);
        assert_eq!(links.undecided(&agreed), []);
        // The next leader hears no errors: it waits before it gives anything back.
        assert_eq!(learnt(&agreed, 10..15, 0).undecided(&agreed), []);
        let over = learnt(&agreed, 10..60, 0).undecided(&agreed);
        assert_eq!(over, [(link.clone(), Decision::default())]);
        // A link that nobody can hear is not derated.
        let mut links = Links::default();
        let deaf = Arc::new(Topology::new(&declared(2, 2)).unwrap());
        links.set_topology(&deaf, &agreed, Duration::ZERO);
        assert_eq!(links.undecided(&agreed), over);
    }

    #[test]
    fn an_interface_came_up_a_moment_ago_if_its_last_change_is_that_old_by_the_own_clock() {
        let agreed = Measured::default();
        let mut links = learnt(&agreed, 0..1, 0);
        let leaf1 = SwitchName::from("leaf1");
        let mut at = |ms: i64| {
            let unix_ns = CHANGED_NS.saturating_add_signed(ms * 1_000_000);
            links.find_came_up(std::slice::from_ref(&leaf1), unix_ns);
            let mut all = links.came_up();
            let eth1 = all.next().map(|(_, came_up)| came_up["eth1"].as_millis());
            assert!(all.next().is_none());
            eth1
        };
        assert_eq!(at(-1), None, "a clock that is ahead");
        assert_eq!(at(3_000), Some(3_000));
        assert_eq!(at(4_000), Some(3_000), "the same as before");
        assert_eq!(at(10_000), None);
        assert_eq!(at(9_000), Some(9_000));
        // What a switch said before it fell silent no longer counts.
        links.learn(vec![(leaf1, Err("lost".into()))], Duration::from_secs(1));
        assert_eq!(links.came_up().count(), 0);
    }

    #[test]
    fn false_reports_touch_the_links_of_their_switch_only() {
        let topology = fabric();
        let agreed = Measured::default();
        let mut links = Links::default();
        for second in 0..5 {
            let now = Duration::from_secs(second);
            links.set_topology(&topology, &agreed, now);
            // Every port of every switch, and names of links, as if they were its own: in error, wired elsewhere, and down.
            let true_one = sample(second, second * 100, ("spine2", "eth1"));
            let own = Interface {
                up: Some(false),
                ..true_one.interfaces["eth1"].clone()
            };
            let names = topology.links().flat_map(|link| {
                let ends = [&link.a, &link.b];
                let ends = ends.map(|end| format!("{}:{}", end.switch, end.interface));
                let [a, b] = [&link.a, &link.b].map(|end| end.interface.to_string());
                ends.into_iter().chain([a, b, link.name.to_string()])
            });
            let lies = Arc::new(Sample {
                interfaces: names.map(|name| (name.into(), own.clone())).collect(),
                ..Sample::clone(&true_one)
            });
            let heard = ["leaf1", "stranger"].map(|switch| (switch.into(), Ok(Arc::clone(&lies))));
            links.learn(heard.into(), now);
            links.find_came_up(&["leaf1".into(), "stranger".into()], CHANGED_NS + 1);
        }
        let leaf1 = SwitchName::from("leaf1");
        let is_own = |name: &LinkName| {
            let link = topology.link_named(name).unwrap();
            link.a.switch == leaf1 || link.b.switch == leaf1
        };
        let undecided = links.undecided(&agreed);
        assert!(!undecided.is_empty() && undecided.iter().all(|(link, _)| is_own(link)));
        let miswired = links.miswired();
        assert!(!miswired.is_empty() && miswired.keys().all(is_own));
        assert!(links.interfaces().all(|(switch, _)| *switch == leaf1));
        assert!(links.came_up().all(|(switch, _)| *switch == leaf1));
        for link in topology.links().filter(|link| !is_own(&link.name)) {
            assert_eq!((links.bps(link), links.lldp(link)), ([None; 2], None));
        }
    }

    #[test]
    fn a_link_carries_what_its_ends_count() {
        let links = learnt(&Measured::default(), 0..5, 0);
        let topology = fabric();
        assert_eq!(
            links.bps(topology.link(LINK).unwrap()),
            [Some(8_000_000), None]
        );
        let other = topology.link("leaf2:eth1--spine1:eth2").unwrap();
        assert_eq!((links.bps(other), links.lldp(other)), ([None; 2], None));
    }

    #[test]
    fn a_link_to_another_declared_port_is_miswired_and_an_unknown_name_is_only_shown() {
        let topology = fabric();
        let link = topology.link(LINK).unwrap();
        let mut links = Links::default();
        let mut hear = |second, neighbor| {
            let now = Duration::from_secs(second);
            links.set_topology(&topology, &Measured::default(), now);
            links.learn(vec![("leaf1".into(), Ok(sample(second, 0, neighbor)))], now);
            let miswired = links.miswired();
            let said = miswired.get(&link.name).map(ToString::to_string);
            (said, links.lldp(link).unwrap())
        };
        assert_eq!(
            hear(1, ("spine1", "eth1")),
            (None, "as declared".to_owned())
        );
        let said = "LLDP at leaf1:eth1 hears spine2:eth1, not spine1:eth1";
        assert_eq!(hear(2, ("spine2", "eth1")).0.as_deref(), Some(said));
        let (said, shown) = hear(3, ("another", "eth1"));
        assert_eq!(said, None);
        assert!(shown.contains("LLDP hears another:eth1"), "{shown}");
        assert!(
            hear(4, ("spine1", "eth2"))
                .0
                .is_some_and(|it| it.contains("spine1:eth2"))
        );
        // A switch that falls silent says nothing any more.
        links.learn(
            vec![("leaf1".into(), Err("connection refused".into()))],
            Duration::from_secs(5),
        );
        assert!(links.miswired().is_empty());
        assert_eq!(links.interfaces().count(), 0);
        let why = [
            "leaf1: connection refused",
            "spine1: it has not answered yet",
        ];
        assert_eq!(links.unheard(link), why);
    }
}
