//! What must hold between facts: each names what exists, no two have what there is one of, and the whole can be planned.

use std::collections::HashSet;
use std::sync::Arc;

use super::{
    Applied, Change, Declaration, Fact, HostPort, Index, InvalidFabric, Job, Kind, Link, LinkEnd,
    LinkName, PortName, Resource, Role, Switch, SwitchName, Topology, User,
};
use crate::fabric::fact::below;
use crate::fabric::job;

/// A topology after a declaration, without what the declaration does not name if `prune` is set.
pub(super) fn declaration(
    before: &Topology,
    declaration: &Declaration,
    prune: bool,
) -> Result<Applied, InvalidFabric> {
    let mut faults = InvalidFabric::default();
    display_name(&declaration.display_name, &mut faults);
    let mut all = Vec::new();
    read(&declaration.switches, before, &mut all);
    read(&declaration.hosts, before, &mut all);
    read(&declaration.links, before, &mut all);
    read(&declaration.host_ports, before, &mut all);
    let mut rest = before.clone();
    let facts = || all.iter().filter_map(|it| it.fact.as_ref());
    for fact in facts() {
        rest.remove(fact.kind(), fact.name());
    }
    let unnamed = rest.facts().filter(|fact| fact.kind() != Kind::Job);
    let unnamed = unnamed.map(|fact| Change::Delete(fact.kind(), fact.name().to_owned()));
    let unnamed = unnamed.collect();
    let mut topology = if prune {
        Topology::default().with_jobs_of(before)
    } else {
        rest
    };
    topology.set_head(&declaration.display_name, before.generation());
    for kind in Kind::ALL {
        let count = topology.count(kind) + facts().filter(|it| it.kind() == kind).count();
        if count > most(kind) {
            faults.fault(kind.field(), too_many(kind, count));
            return Err(faults);
        }
    }
    for read in all {
        faults.faults.extend(read.faults.faults);
        let Some(fact) = read.fact else { continue };
        conflicts(&topology, &fact, &read.field, &mut faults);
        if !fact.name().is_empty() {
            topology.put(fact);
        }
    }
    ways(&topology, Kind::Switch.field(), &mut faults);
    if faults.is_empty() {
        Ok(Applied { topology, unnamed })
    } else {
        Err(faults)
    }
}

/// A fact of a declaration.
struct Read {
    /// Its place in the declaration.
    field: String,
    /// None: a second one of its kind and name.
    fact: Option<Fact>,
    /// Faults of the fact by itself.
    faults: InvalidFabric,
}

/// Reads every message of a kind, one after the other.
fn read<R: Resource>(messages: &[R], before: &Topology, all: &mut Vec<Read>) {
    let mut names = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        let field = format!("{}[{at}]", R::KIND.field());
        let mut faults = InvalidFabric::default();
        message.check(&field, &mut faults);
        let mut fact = message.read(&field, &mut faults);
        if message.has_no_admin_state() {
            fact = with_state_of(fact, before);
        }
        let is_second = !fact.name().is_empty() && !names.insert(fact.name().to_owned());
        if is_second {
            let (noun, name) = (R::KIND.noun(), fact.name());
            let reason = format!("a second {noun} named {name:?}");
            faults.fault(below(&field, "name"), reason);
        }
        all.push(Read {
            field,
            fact: Some(fact).filter(|_| !is_second),
            faults,
        });
    }
}

/// A fact with the admin state that it has in another topology.
fn with_state_of(fact: Fact, before: &Topology) -> Fact {
    match fact {
        Fact::Switch(new) => {
            // A leaf is always up.
            let is_down = |old: &Switch| old.down && new.role == Role::Spine;
            let down = before.switch(&new.name).is_some_and(is_down);
            Fact::Switch(Arc::new(Switch {
                down: down || new.down,
                ..Switch::clone(&new)
            }))
        }
        Fact::Link(new) => {
            let down = before.link_named(&new.name).is_some_and(|old| old.down);
            Fact::Link(Arc::new(Link {
                down: down || new.down,
                ..Link::clone(&new)
            }))
        }
        fact @ (Fact::Host(_) | Fact::HostPort(_) | Fact::Job(_)) => fact,
    }
}

fn display_name(name: &str, faults: &mut InvalidFabric) {
    if name.trim().is_empty() {
        faults.fault("display_name", "empty");
    }
    if name.len() > DISPLAY_NAME_OCTETS_MAX {
        let reason = format!("{} octets, at most {DISPLAY_NAME_OCTETS_MAX}", name.len());
        faults.fault("display_name", reason);
    }
}

/// Says what is wrong with a change of one fact.
pub(super) fn change(
    topology: &Topology,
    change: &Change,
    field: &str,
    faults: &mut InvalidFabric,
) {
    match change {
        Change::Create(fact) | Change::Update(fact) => {
            conflicts(topology, fact, field, faults);
            let kind = fact.kind();
            let created = matches!(change, Change::Create(_));
            if created && topology.count(kind) >= most(kind) {
                faults.fault(field, too_many(kind, topology.count(kind) + 1));
            }
            if let Fact::Job(job) = fact {
                octets(topology, job, field, faults);
            }
            if costs_more(topology, fact) {
                let mut after = topology.clone();
                after.put(fact.clone());
                ways(&after, field, faults);
            }
        }
        Change::Delete(Kind::Switch, name) => {
            // An interface has a name, which comes behind the empty one.
            let first = ((name.as_str().into(), Arc::from("")), User::Link("".into()));
            let used = topology.interfaces.range(first..).next();
            if let Some(((_, interface), user)) =
                used.filter(|((switch, _), _)| switch.as_str() == name)
            {
                let reason = format!("{} ends at {name}:{interface}", named(user));
                faults.fault("name", reason);
            }
        }
        Change::Delete(Kind::Host, name) => {
            let first = (name.as_str().into(), "".into());
            let port = topology.ports.range(first..).next();
            if let Some((_, port)) = port.filter(|(host, _)| host.as_str() == name) {
                faults.fault("name", format_args!("host port {port} is one of it"));
            }
        }
        // A job whose host port goes is told so by its plan; so is one of two that come to name one NIC by a host port that changes.
        Change::Delete(Kind::Link | Kind::HostPort | Kind::Job, _) => {}
    }
}

/// Whether planning may cost more with a fact: a leaf that was none, a link that ended elsewhere.
fn costs_more(topology: &Topology, fact: &Fact) -> bool {
    match fact {
        Fact::Switch(new) => {
            let old = topology.switch(&new.name).map(|old| old.role);
            new.role == Role::Leaf && old != Some(Role::Leaf)
        }
        Fact::Link(new) => {
            let ends = |link: &Link| [&link.a, &link.b].map(|end| end.switch.clone());
            let old = topology.link_named(&new.name);
            old.is_none_or(|old| ends(old) != ends(new))
        }
        Fact::Host(_) | Fact::HostPort(_) | Fact::Job(_) => false,
    }
}

fn conflicts(topology: &Topology, fact: &Fact, field: &str, faults: &mut InvalidFabric) {
    match fact {
        Fact::Switch(switch) => of_switch(topology, switch, field, faults),
        Fact::Host(_) => {}
        Fact::Link(link) => {
            for (part, end) in [("a", &link.a), ("b", &link.b)] {
                let field = below(field, part);
                of_end(topology, link, end, &field, faults);
                if link.is_unnumbered() {
                    weighed_by_address(topology, end, &field, faults);
                }
            }
        }
        Fact::HostPort(port) => of_port(topology, port, field, faults),
        Fact::Job(new) => {
            let old = topology.job(&new.name);
            // Its lease can be renewed whatever became of the fabric.
            if !old.is_some_and(|old| old.names_same(new)) {
                job::conflicts(topology, new, field, faults);
            }
        }
    }
}

fn of_switch(topology: &Topology, switch: &Switch, field: &str, faults: &mut InvalidFabric) {
    let mut unique = |part: &str, value: &str, other: Option<&SwitchName>| {
        if let Some(other) = other {
            let reason = format!("{value} belongs to switch {other}");
            faults.fault(below(field, part), reason);
        }
    };
    let (own, none) = (&switch.name, SwitchName::from(""));
    if let Some(vtep) = switch.vtep {
        let other = another(&topology.vteps, &vtep, none.clone(), own);
        unique("vtep_address", &vtep.to_string(), other);
    }
    if let Some(agent) = &switch.agent {
        let other = another(&topology.agents, agent, none.clone(), own);
        unique("agent_address", agent, other);
    }
    if let Some(gnmi) = &switch.gnmi {
        let other = another(&topology.gnmi, gnmi, none.clone(), own);
        unique("gnmi_address", gnmi, other);
    }
    if let Some(peer) = switch.peer {
        let other = another(&topology.peers, &peer, none, own);
        unique("peer_address", &peer.to_string(), other);
    }
    let mut links = topology.links_of(own).filter(|link| link.is_unnumbered());
    if switch.link_bandwidth
        && let Some(link) = links.next()
    {
        let reason = format!(
            "needs addresses on the links of the leaf: {} has none",
            link.name
        );
        faults.fault(below(field, "link_bandwidth_weights"), reason);
    }
}

fn of_end(
    topology: &Topology,
    link: &Link,
    end: &LinkEnd,
    field: &str,
    faults: &mut InvalidFabric,
) {
    let user = User::Link(link.name.clone());
    of_interface(topology, &end.port(), &user, field, faults);
    let Some(address) = end.address else {
        return;
    };
    let none = LinkName::from("");
    if let Some(other) = another(&topology.addresses, &address, none, &link.name) {
        let reason = format!("{address} belongs to link {other}");
        faults.fault(below(field, "address"), reason);
    }
}

/// Weights over BGP go by the addresses of next hops.
fn weighed_by_address(topology: &Topology, end: &LinkEnd, field: &str, faults: &mut InvalidFabric) {
    let switch = topology.switch(&end.switch);
    if switch.is_some_and(|switch| switch.link_bandwidth) {
        let reason = format!(
            "missing: {} has link_bandwidth_weights, which need addresses on its links",
            end.switch
        );
        faults.fault(below(field, "address"), reason);
    }
}

fn of_port(topology: &Topology, port: &HostPort, field: &str, faults: &mut InvalidFabric) {
    let user = User::HostPort(port.name.clone());
    let at = (port.switch.clone(), Arc::clone(&port.interface));
    of_interface(topology, &at, &user, field, faults);
    if let Some(host) = &port.host
        && !topology.hosts.contains_key(host)
    {
        let reason = format!("no host is named {:?}", host.as_str());
        faults.fault(below(field, "host_name"), reason);
    }
    for (place, address) in port.addresses.iter().enumerate() {
        let (key, none) = ((*address, port.vni), PortName::from(""));
        if let Some(other) = another(&topology.nics, &key, none, &port.name) {
            let reason = format!("{address} belongs to host port {other}");
            faults.fault(below(field, &format!("addresses[{place}]")), reason);
        }
    }
}

/// A switch that exists, and an interface of it that nothing else uses. What is not said at all is a fault by itself.
fn of_interface(
    topology: &Topology,
    port: &(SwitchName, Arc<str>),
    user: &User,
    field: &str,
    faults: &mut InvalidFabric,
) {
    let (switch, interface) = port;
    if switch.as_str().is_empty() {
        return;
    }
    if topology.switch(switch).is_none() {
        let reason = format!("no switch is named {:?}", switch.as_str());
        faults.fault(below(field, "switch_name"), reason);
        return;
    }
    if interface.is_empty() {
        return;
    }
    let none = User::Link("".into());
    if let Some(other) = another(&topology.interfaces, port, none, user) {
        let reason = format!("{switch}:{interface} belongs to {}", named(other));
        faults.fault(below(field, "interface_name"), reason);
    }
}

/// Who else has a value than its owner; `none` comes before all who may.
fn another<'a, K: Ord + Clone, V: Ord>(
    index: &'a Index<K, V>,
    value: &K,
    none: V,
    owner: &V,
) -> Option<&'a V> {
    index
        .range((value.clone(), none)..)
        .take_while(|(found, _)| found == value)
        .map(|(_, other)| other)
        .find(|other| *other != owner)
}

fn named(user: &User) -> String {
    match user {
        User::Link(name) => format!("link {name}"),
        User::HostPort(name) => format!("host port {name}"),
    }
}

/// What planning costs: every leaf compares its uplinks for every other leaf. Nothing that exhausts the replicas may
/// become a fact.
fn ways(topology: &Topology, field: &str, faults: &mut InvalidFabric) {
    let leaves: HashSet<&str> = topology
        .switches()
        .filter(|switch| switch.role == Role::Leaf)
        .map(|switch| switch.name.as_str())
        .collect();
    let others = leaves.len().saturating_sub(1);
    // Both ends at leaves are the most that there can be.
    let most = leaves.len() + 2 * topology.count(Kind::Link);
    if most.saturating_mul(others) <= WAYS_MAX {
        return;
    }
    let at_leaves = |link: &Link| {
        let ends = [&link.a, &link.b].into_iter();
        ends.filter(|end| leaves.contains(end.switch.as_str()))
            .count()
    };
    let uplinks: usize = topology.links().map(at_leaves).sum();
    let leaves = leaves.len();
    let ways = (leaves + uplinks).saturating_mul(others);
    if ways > WAYS_MAX {
        let reason = format!(
            "{leaves} leaves with {uplinks} uplinks are {ways} paths to plan, at most {WAYS_MAX}: fewer leaves, \
             or fewer links"
        );
        faults.fault(field, reason);
    }
}

/// Every replica holds all jobs. One that takes no more than before can be renewed.
fn octets(topology: &Topology, job: &Job, field: &str, faults: &mut InvalidFabric) {
    let before = topology.job(&job.name).map_or(0, |old| old.octets());
    let own = job.octets();
    let all = topology.job_octets() - before + own;
    if own > before && all > JOBS_OCTETS_MAX {
        let reason = format!(
            "{all} octets of memory with the other jobs, at most {JOBS_OCTETS_MAX}: delete jobs that ended"
        );
        faults.fault(field, reason);
    }
}

pub(super) fn too_many(kind: Kind, count: usize) -> String {
    format!("{count} entries, at most {}", most(kind))
}

/// How many facts of a kind there may be.
pub(super) fn most(kind: Kind) -> usize {
    match kind {
        Kind::Switch => SWITCHES_MAX,
        Kind::Host => HOSTS_MAX,
        Kind::Link => LINKS_MAX,
        Kind::HostPort => HOST_PORTS_MAX,
        Kind::Job => JOBS_MAX,
    }
}

/// It stands in every log entry that changes the fabric.
const DISPLAY_NAME_OCTETS_MAX: usize = 256;
/// Every way from a leaf over one of its uplinks to another leaf, and one for each pair of leaves: 512 leaves with 256
/// uplinks each are 67,239,424.
const WAYS_MAX: usize = 70_000_000;
/// Above what one controller plans for; a declaration beyond it is a mistake.
const SWITCHES_MAX: usize = 10_000;
/// 10,000 switches with 64 ports each, both ends counted once.
const LINKS_MAX: usize = 320_000;
/// As many again for hosts.
const HOST_PORTS_MAX: usize = 640_000;
/// No host has less than a port.
const HOSTS_MAX: usize = 640_000;
/// Jobs that run, or wait, at one time on what one controller plans for.
const JOBS_MAX: usize = 10_000;
/// Octets of memory that all jobs take on each replica: a NIC is in one job at most, and 640,000 NICs take some 170 MiB.
const JOBS_OCTETS_MAX: usize = 256 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use weft_proto::v1;

    use super::*;
    use crate::fabric::topology::FieldFault;
    use crate::fabric::topology::tests::leaf_spine;

    fn fabric() -> Declaration {
        let end = |switch_name: &str, interface: &str, address: &str| {
            Some(v1::LinkEnd {
                switch_name: switch_name.to_owned(),
                interface_name: interface.to_owned(),
                address: address.to_owned(),
            })
        };
        Declaration {
            display_name: "example".to_owned(),
            switches: vec![
                v1::Switch {
                    name: "leaf1".to_owned(),
                    role: v1::SwitchRole::Leaf.into(),
                    vtep_address: "198.51.100.1".to_owned(),
                    agent_address: "leaf1.example:9340".to_owned(),
                    ..v1::Switch::default()
                },
                v1::Switch {
                    name: "spine1".to_owned(),
                    role: v1::SwitchRole::Spine.into(),
                    ..v1::Switch::default()
                },
            ],
            hosts: vec![v1::Host {
                name: "h1".to_owned(),
                ..v1::Host::default()
            }],
            links: vec![v1::Link {
                a: end("leaf1", "eth1", "192.0.2.0"),
                b: end("spine1", "eth1", "192.0.2.1"),
                capacity_bps: 100_000_000_000,
                ..v1::Link::default()
            }],
            host_ports: vec![v1::HostPort {
                switch_name: "leaf1".to_owned(),
                interface_name: "eth9".to_owned(),
                host_name: "h1".to_owned(),
                vni: Some(100),
                ..v1::HostPort::default()
            }],
        }
    }

    /// What is wrong after a change.
    fn faults(change: impl Fn(&mut Declaration)) -> Vec<String> {
        let mut fabric = fabric();
        change(&mut fabric);
        match Topology::new(&fabric) {
            Ok(_) => Vec::new(),
            Err(invalid) => invalid.faults.iter().map(FieldFault::to_string).collect(),
        }
    }

    fn end_a(fabric: &mut Declaration) -> &mut v1::LinkEnd {
        fabric.links[0].a.as_mut().unwrap()
    }

    fn unnumber(fabric: &mut Declaration) {
        for link in &mut fabric.links {
            let ends = [&mut link.a, &mut link.b].into_iter().flatten();
            ends.for_each(|end| end.address.clear());
        }
    }

    #[test]
    fn links_without_addresses_are_declared_and_have_no_address_in_common() {
        let unnumbered = |fabric: &mut Declaration| {
            let mut other = fabric.links[0].clone();
            other.a.as_mut().unwrap().interface_name = "eth2".to_owned();
            other.b.as_mut().unwrap().interface_name = "eth2".to_owned();
            fabric.links.push(other);
            unnumber(fabric);
        };
        assert_eq!(faults(unnumbered), [""; 0]);
        let mut fabric = fabric();
        unnumbered(&mut fabric);
        let topology = Topology::new(&fabric).unwrap();
        assert!(topology.links().all(Link::is_unnumbered));
        let again = topology.declaration();
        assert!(again.links[0].a.as_ref().unwrap().address.is_empty());
        assert_eq!(Topology::new(&again).unwrap().changes_to(&topology), []);
        let ends = topology
            .links_of(&"leaf1".into())
            .map(|link| link.name.as_str());
        assert_eq!(
            ends.collect::<Vec<_>>(),
            ["leaf1:eth1--spine1:eth1", "leaf1:eth2--spine1:eth2"]
        );
        assert_eq!(topology.links_of(&"leaf".into()).count(), 0);
    }

    /// A leaf that gets its weights over BGP later is refused as one that has them before its links.
    #[test]
    fn weights_over_bgp_need_addresses_on_links() {
        let mut fabric = fabric();
        fabric.switches[0].agent_address.clear();
        fabric.switches[0].peer_address = "192.0.2.7".to_owned();
        unnumber(&mut fabric);
        let topology = Topology::new(&fabric).unwrap();
        fabric.switches[0].link_bandwidth_weights = true;
        let fact = Fact::declared(&fabric.switches[0]).unwrap();
        let mut faults = InvalidFabric::default();
        topology.check(&Change::Update(fact), "resource", &mut faults);
        assert_eq!(
            faults.to_string(),
            "resource.link_bandwidth_weights: needs addresses on the links of the leaf: leaf1:eth1--spine1:eth1 has none"
        );
    }

    #[test]
    fn a_good_fabric_has_no_fault() {
        assert_eq!(faults(|_| {}), [""; 0]);
        let topology = Topology::new(&fabric()).unwrap();
        let name = "leaf1:eth1--spine1:eth1";
        assert_eq!(topology.links().next().unwrap().name.as_str(), name);
        assert!(topology.link(name).is_some());
        assert!(topology.link("spine1:eth1--leaf1:eth1").is_none());
    }

    type Edit = fn(&mut Declaration);

    const TABLE: &[(Edit, &str)] = &[
        (|f| f.display_name.clear(), "display_name: empty"),
        (
            |f| f.switches[1].name = "leaf1".to_owned(),
            "switches[1].name: a second switch named \"leaf1\"",
        ),
        (
            |f| f.switches[1].name = "a b".to_owned(),
            "switches[1].name: \"a b\" is not a name of letters, digits, '.', '_' and single '-'",
        ),
        (
            |f| f.switches[1].role = 0,
            "switches[1].role: neither leaf nor spine",
        ),
        (
            |f| f.switches[1].role = 77,
            "switches[1].role: neither leaf nor spine",
        ),
        (
            |f| f.switches[0].vtep_address.clear(),
            "switches[0].vtep_address: empty, and a leaf needs one",
        ),
        (
            |f| f.switches[0].vtep_address = "198.51.100".to_owned(),
            "switches[0].vtep_address: \"198.51.100\" is not an IP address",
        ),
        (
            |f| f.switches[0].vtep_address = "127.0.0.1".to_owned(),
            "switches[0].vtep_address: 127.0.0.1 is not a unicast address",
        ),
        (
            |f| f.switches[1].vtep_address = "198.51.100.1".to_owned(),
            "switches[1].vtep_address: 198.51.100.1 belongs to switch leaf1",
        ),
        (
            |f| f.switches[0].agent_address = "leaf1".to_owned(),
            "switches[0].agent_address: \"leaf1\" is not host:port",
        ),
        (
            |f| f.switches[0].agent_address = "leaf1:0".to_owned(),
            "switches[0].agent_address: \"leaf1:0\" is not host:port",
        ),
        (
            |f| f.switches[1].agent_address = "leaf1.example:9340".to_owned(),
            "switches[1].agent_address: leaf1.example:9340 belongs to switch leaf1",
        ),
        (
            |f| f.switches[0].gnmi_address = "leaf1".to_owned(),
            "switches[0].gnmi_address: \"leaf1\" is not host:port",
        ),
        (
            |f| {
                for switch in &mut f.switches[..2] {
                    switch.gnmi_address = "leaf1.example:9339".to_owned();
                }
            },
            "switches[1].gnmi_address: leaf1.example:9339 belongs to switch leaf1",
        ),
        (
            |f| f.switches[0].link_bandwidth_weights = true,
            "switches[0].link_bandwidth_weights: needs the peer_address of the leaf",
        ),
        (
            |f| {
                f.switches[0].link_bandwidth_weights = true;
                f.switches[0].peer_address = "192.0.2.7".to_owned();
            },
            "switches[0].link_bandwidth_weights: not with an agent_address: weights would come twice",
        ),
        (
            |f| {
                f.switches[1].link_bandwidth_weights = true;
                f.switches[1].peer_address = "192.0.2.7".to_owned();
            },
            "switches[1].link_bandwidth_weights: a spine gets no weights",
        ),
        (
            |f| f.switches[1].peer_address = "spine1".to_owned(),
            "switches[1].peer_address: \"spine1\" is not an IP address",
        ),
        (
            |f| {
                f.switches[0].peer_address = "192.0.2.1".to_owned();
                f.switches[1].peer_address = "192.0.2.1".to_owned();
            },
            "switches[1].peer_address: 192.0.2.1 belongs to switch leaf1",
        ),
        (
            |f| drop(f.switches[0].labels.insert(String::new(), String::new())),
            "switches[0].labels: \"\" is not a key of 1 to 63 octets",
        ),
        (|f| f.links[0].a = None, "links[0].a: missing"),
        (
            |f| end_a(f).switch_name = "leaf9".to_owned(),
            "links[0].a.switch_name: no switch is named \"leaf9\"",
        ),
        (
            |f| end_a(f).interface_name.clear(),
            "links[0].a.interface_name: \"\" is not the name of an interface",
        ),
        (
            |f| end_a(f).switch_name.clear(),
            "links[0].a.switch_name: empty",
        ),
        (
            |f| end_a(f).address = "192.0.2.1".to_owned(),
            "links[0].b.address: 192.0.2.1 is at both ends",
        ),
        (
            |f| {
                let mut other = f.links[0].clone();
                other.a.as_mut().unwrap().interface_name = "eth2".to_owned();
                other.b.as_mut().unwrap().interface_name = "eth2".to_owned();
                f.links.push(other);
            },
            "links[1].a.address: 192.0.2.0 belongs to link leaf1:eth1--spine1:eth1",
        ),
        (
            |f| end_a(f).address = "2001:db8::1".to_owned(),
            "links[0].b.address: 192.0.2.1 is not of the same family as 2001:db8::1",
        ),
        (
            |f| end_a(f).address.clear(),
            "links[0].a.address: missing, and the other end has one: both have one, or none",
        ),
        (
            |f| {
                f.links[0].b.as_mut().unwrap().address.clear();
            },
            "links[0].b.address: missing, and the other end has one: both have one, or none",
        ),
        (
            |f| {
                f.switches[0].agent_address.clear();
                f.switches[0].peer_address = "192.0.2.7".to_owned();
                f.switches[0].link_bandwidth_weights = true;
                unnumber(f);
            },
            "links[0].a.address: missing: leaf1 has link_bandwidth_weights, which need addresses on its links",
        ),
        (
            |f| {
                end_a(f).switch_name = "spine1".to_owned();
                end_a(f).interface_name = "eth2".to_owned();
            },
            "links[0].b.switch_name: \"spine1\" is at both ends",
        ),
        (
            |f| f.links[0].capacity_bps = 0,
            "links[0].capacity_bps: missing, or 0",
        ),
        (
            |f| f.links[0].derating_percent = 100,
            "links[0].derating_percent: 100 is not 0 to 99",
        ),
        (
            |f| f.switches[0].admin_state = v1::AdminState::Down.into(),
            "switches[0].admin_state: a leaf is always up: what its hosts send has no other path",
        ),
        (
            |f| {
                f.switches[0].limits = Some(v1::SwitchLimits {
                    group_members: Some(1),
                    ..v1::SwitchLimits::default()
                })
            },
            "switches[0].limits.group_members: 1 is not 2 to 1048576",
        ),
        (
            |f| {
                f.switches[0].limits = Some(v1::SwitchLimits {
                    pins: Some(1 << 20),
                    ..v1::SwitchLimits::default()
                })
            },
            "switches[0].limits.pins: 1048576 is not 0 to 65536",
        ),
        (
            |f| {
                f.switches[0].limits = Some(v1::SwitchLimits {
                    groups: Some(0),
                    ..v1::SwitchLimits::default()
                })
            },
            "switches[0].limits.groups: 0 is not 1 to 65536",
        ),
        (
            |f| f.host_ports[0].udp_port_formula = 9,
            "host_ports[0].udp_port_formula: not a formula",
        ),
        (
            |f| f.links[0].admin_state = 9,
            "links[0].admin_state: neither up nor down",
        ),
        (
            |f| f.links[0].name = "a b".to_owned(),
            "links[0].name: \"a b\" is not a name of 1 to 256 printable characters of ASCII",
        ),
        (
            |f| f.links[0].name = "spine1:eth1--leaf1:eth1".to_owned(),
            "links[0].name: \"spine1:eth1--leaf1:eth1\" is not \"leaf1:eth1--spine1:eth1\", as its ends say: other names have no \"--\"",
        ),
        (
            |f| f.display_name = "x".repeat(257),
            "display_name: 257 octets, at most 256",
        ),
        (
            |f| f.switches[0].agent_address = format!("{}:1", "x".repeat(300)),
            "switches[0].agent_address: 302 octets, at most 260",
        ),
        (
            |f| f.host_ports[0].interface_name = "eth1".to_owned(),
            "host_ports[0].interface_name: leaf1:eth1 belongs to link leaf1:eth1--spine1:eth1",
        ),
        (
            |f| f.host_ports[0].host_name = "h2".to_owned(),
            "host_ports[0].host_name: no host is named \"h2\"",
        ),
        (
            |f| f.host_ports[0].name = "eth9".to_owned(),
            "host_ports[0].name: \"eth9\" is not \"leaf1:eth9\", as its switch and interface say",
        ),
        (
            |f| f.host_ports[0].vni = Some(1 << 24),
            "host_ports[0].vni: 16777216 is not a VNI of 1 to 16777215",
        ),
    ];

    #[test]
    fn each_fault_names_the_field_and_the_reason() {
        for (edit, fault) in TABLE {
            // Others may follow from the first: what does not exist cannot be named.
            assert_eq!(faults(edit)[0], *fault);
        }
    }

    /// 400 kB that took more memory than a replica has, at each start.
    #[test]
    fn ten_thousand_leaves_without_links_are_refused() {
        let leaf = |leaf: usize| v1::Switch {
            name: format!("leaf{leaf}"),
            role: v1::SwitchRole::Leaf.into(),
            vtep_address: format!("198.18.{}.{}", leaf / 256, leaf % 256),
            ..v1::Switch::default()
        };
        let fabric = Declaration {
            display_name: "example".to_owned(),
            switches: (0..10_000).map(leaf).collect(),
            ..Declaration::default()
        };
        let refused = Topology::new(&fabric).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "switches: 10000 leaves with 0 uplinks are 99990000 paths to plan, at most 70000000: fewer leaves, or fewer links"
        );
    }

    #[test]
    fn all_faults_come_at_once() {
        let all = faults(|fabric| {
            fabric.display_name.clear();
            fabric.links[0].capacity_bps = 0;
            fabric.host_ports[0].switch_name = "leaf9".to_owned();
        });
        assert_eq!(all.len(), 3);
    }

    /// What is wrong with one field hides nothing that is wrong with another one.
    #[test]
    fn what_is_left_of_a_fact_is_checked() {
        let all = faults(|fabric| {
            fabric.switches[1].name = "a b".to_owned();
            fabric.switches[1].role = 0;
            let link = &mut fabric.links[0];
            link.name = "a b".to_owned();
            link.a = None;
            link.b.as_mut().unwrap().address = "x".to_owned();
            let port = &mut fabric.host_ports[0];
            port.switch_name.clear();
            port.interface_name = "a--b".to_owned();
            port.host_name = "h2".to_owned();
            port.vni = Some(0);
        });
        let fields: Vec<_> = all
            .iter()
            .map(|it| it.split(": ").next().unwrap())
            .collect();
        let expected = [
            "switches[1].name",
            "switches[1].role",
            "links[0].name",
            "links[0].a",
            "links[0].b.address",
            "links[0].b.switch_name",
            "host_ports[0].switch_name",
            "host_ports[0].interface_name",
            "host_ports[0].vni",
            "host_ports[0].host_name",
        ];
        assert_eq!(fields, expected);
    }

    /// Two facts that say nothing have nothing in common.
    #[test]
    fn what_is_not_said_is_no_conflict() {
        let all = faults(|fabric| {
            fabric.links = vec![v1::Link::default(); 2];
            fabric.host_ports = vec![v1::HostPort::default(); 2];
        });
        let all = all
            .iter()
            .filter(|it| it.contains("second") || it.contains("belongs"));
        assert_eq!(all.count(), 0);
    }

    #[test]
    fn what_others_name_stays() {
        let topology = Topology::new(&fabric()).unwrap();
        let refusal = |kind, name: &str| {
            let mut faults = InvalidFabric::default();
            let change = Change::Delete(kind, name.to_owned());
            topology.check(&change, "", &mut faults);
            faults.to_string()
        };
        let used = "name: link leaf1:eth1--spine1:eth1 ends at spine1:eth1";
        assert_eq!(refusal(Kind::Switch, "spine1"), used);
        let used = "name: host port leaf1:eth9 is one of it";
        assert_eq!(refusal(Kind::Host, "h1"), used);
        assert_eq!(refusal(Kind::Link, "leaf1:eth1--spine1:eth1"), "");
        assert_eq!(refusal(Kind::HostPort, "leaf1:eth9"), "");
    }

    #[test]
    fn a_fact_does_not_stand_in_its_own_way() {
        let topology = leaf_spine(2, 2);
        for fact in topology.facts() {
            let mut faults = InvalidFabric::default();
            topology.check(&Change::Update(fact), "resource", &mut faults);
            assert_eq!(faults, InvalidFabric::default());
        }
    }
}
