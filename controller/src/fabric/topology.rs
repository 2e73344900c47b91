//! The declared topology: all facts of the fabric, and what they must not have in common.
//!
//! It is persistent: a copy costs nothing, whatever is declared, and a change what the change costs. What is committed is
//! taken as it is; what is not committed yet is checked here, all at once, with the field and the reason. It refuses to
//! know weights, plans and where a declaration came from.

use std::net::IpAddr;
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use imbl::{OrdMap, OrdSet};
use weft_proto::v1;

pub use super::fact::{
    Fact, FieldFault, Host, HostName, HostPort, InvalidFabric, Job, JobName, Kind, Link, LinkEnd,
    LinkName, PortName, Resource, Role, Switch, SwitchName,
};

use self::jobs::{Jobs, Named};
use super::fact::UdpPortFormula;
use super::place::{self, Address, Places};

mod check;
mod jobs;

/// A whole fabric as somebody declares it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Declaration {
    /// A name to show.
    pub display_name: String,
    /// Switches.
    pub switches: Vec<v1::Switch>,
    /// Hosts.
    pub hosts: Vec<v1::Host>,
    /// Links.
    pub links: Vec<v1::Link>,
    /// Host ports.
    pub host_ports: Vec<v1::HostPort>,
}

impl Declaration {
    /// True if it names no resource.
    pub fn is_empty(&self) -> bool {
        let Self {
            display_name: _,
            switches,
            hosts,
            links,
            host_ports,
        } = self;
        switches.is_empty() && hosts.is_empty() && links.is_empty() && host_ports.is_empty()
    }
}

/// A topology after a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The topology.
    pub topology: Topology,
    /// Deletions of the resources that the declaration does not name, by kind and name: made if it prunes, left undone otherwise.
    pub unnamed: Vec<Change>,
}

/// A topology, and who has what there is one of.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Topology {
    display_name: String,
    generation: u64,
    switches: OrdMap<SwitchName, Arc<Switch>>,
    hosts: OrdMap<HostName, Arc<Host>>,
    links: OrdMap<LinkName, Arc<Link>>,
    host_ports: OrdMap<PortName, Arc<HostPort>>,
    jobs: Jobs,
    vteps: Index<IpAddr, SwitchName>,
    agents: Index<Arc<str>, SwitchName>,
    gnmi: Index<Arc<str>, SwitchName>,
    peers: Index<IpAddr, SwitchName>,
    addresses: Index<IpAddr, LinkName>,
    interfaces: Index<(SwitchName, Arc<str>), User>,
    /// Ports by their host.
    ports: Index<HostName, PortName>,
    /// Ports by the addresses of the NICs behind them.
    nics: Index<(IpAddr, Option<u32>), PortName>,
    /// Where NICs are that are not where they are declared.
    places: Arc<Places>,
}

/// Who has a value: one, as long as all that is declared was checked.
type Index<K, V> = OrdSet<(K, V)>;

/// What uses an interface.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum User {
    Link(LinkName),
    HostPort(PortName),
}

/// What makes one topology of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A fact that was not there.
    Create(Fact),
    /// A fact that was there with other content.
    Update(Fact),
    /// A fact that goes.
    Delete(Kind, String),
}

impl Topology {
    /// Checks a declaration by itself. On an error nothing is built, and every fault is named.
    pub fn new(declaration: &Declaration) -> Result<Self, InvalidFabric> {
        let applied = Self::default().declared(declaration, true);
        applied.map(|applied| applied.topology)
    }

    /// This topology after a declaration. A declared switch or link keeps its admin state where the declaration leaves it
    /// unspecified. Resources that the declaration does not name stay, unless `prune` is set.
    ///
    /// # Errors
    /// Every fault of the topology as a whole, with its field.
    pub fn declared(
        &self,
        declaration: &Declaration,
        prune: bool,
    ) -> Result<Applied, InvalidFabric> {
        check::declaration(self, declaration, prune)
    }

    /// The name to show; empty if nothing is declared.
    pub fn display_name(&self) -> &str {
        &self.display_name
    }

    /// Counts the changes of the fabric.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The same facts under another name and generation.
    #[must_use]
    pub fn with_head(mut self, display_name: &str, generation: u64) -> Self {
        self.set_head(display_name, generation);
        self
    }

    /// Takes another name and generation.
    pub fn set_head(&mut self, display_name: &str, generation: u64) {
        display_name.clone_into(&mut self.display_name);
        self.generation = generation;
    }

    /// Whether there is no fabric.
    pub fn is_empty(&self) -> bool {
        let mut kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Job);
        self.display_name.is_empty() && kinds.all(|kind| self.count(kind) == 0)
    }

    /// Whether switches and links are those of another topology that this one was made of, or the other way around. False
    /// also for equal ones that were declared anew.
    pub fn is_same_network(&self, other: &Self) -> bool {
        self.switches.ptr_eq(&other.switches) && self.links.ptr_eq(&other.links)
    }

    /// How many facts of a kind there may be.
    pub fn most(kind: Kind) -> usize {
        check::most(kind)
    }

    /// How many facts of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Switch => self.switches.len(),
            Kind::Host => self.hosts.len(),
            Kind::Link => self.links.len(),
            Kind::HostPort => self.host_ports.len(),
            Kind::Job => self.jobs.facts.len(),
        }
    }

    /// Every switch, in order of its name.
    pub fn switches(&self) -> impl Iterator<Item = &Switch> + '_ {
        self.switches.values().map(AsRef::as_ref)
    }

    /// A switch by its name.
    pub fn switch(&self, name: &SwitchName) -> Option<&Switch> {
        self.switches.get(name).map(AsRef::as_ref)
    }

    /// The switch that has this VTEP address.
    pub fn switch_of_vtep(&self, vtep: IpAddr) -> Option<&Switch> {
        let first = (vtep, SwitchName::from(""));
        let (found, name) = self.vteps.range(first..).next()?;
        self.switch(name).filter(|_| *found == vtep)
    }

    /// Returns true if the BGP sessions of a switch come from this address.
    pub fn has_peer(&self, address: IpAddr) -> bool {
        let first = (address, SwitchName::from(""));
        let next = self.peers.range(first..).next();
        next.is_some_and(|(found, _)| *found == address)
    }

    /// Every link, in order of its name.
    pub fn links(&self) -> impl Iterator<Item = &Link> + '_ {
        self.links.values().map(AsRef::as_ref)
    }

    /// Links behind a name, in order of their names.
    pub fn links_after(&self, name: &str) -> impl Iterator<Item = &Link> + '_ {
        use std::ops::Bound::{Excluded, Unbounded};
        let links = self.links.range::<_, str>((Excluded(name), Unbounded));
        links.map(|(_, it)| it.as_ref())
    }

    /// A link by its name.
    pub fn link_named(&self, name: &LinkName) -> Option<&Link> {
        self.links.get(name).map(AsRef::as_ref)
    }

    /// A link by its name as text.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.get(name).map(AsRef::as_ref)
    }

    /// Every link that ends at a switch, in order of the switch's interfaces.
    pub fn links_of(&self, switch: &SwitchName) -> impl Iterator<Item = &Link> + '_ {
        let (of, first) = (switch.clone(), (switch.clone(), Arc::from("")));
        let used = self.interfaces.range((first, User::Link("".into()))..);
        let used = used.take_while(move |((switch, _), _)| *switch == of);
        used.filter_map(|(_, user)| match user {
            User::Link(name) => self.link_named(name),
            User::HostPort(_) => None,
        })
    }

    /// Every job, in order of its name.
    pub fn jobs(&self) -> impl Iterator<Item = &Arc<Job>> + '_ {
        self.jobs.facts.values()
    }

    /// A job by its name.
    pub fn job(&self, name: &JobName) -> Option<&Arc<Job>> {
        self.jobs.facts.get(name)
    }

    /// Octets of memory that all jobs take, about.
    pub fn job_octets(&self) -> usize {
        self.jobs.octets()
    }

    /// The jobs that have a NIC: more than one only if the fabric changed since, and one more than once if it names the NIC in several
    /// ways.
    pub fn jobs_with(&self, port: &HostPort) -> impl Iterator<Item = &JobName> {
        let is_declared = self.is_declared(&port.name);
        let own = is_declared.then(|| Named::Port(port.name.clone()));
        let host = port.host.clone().filter(|_| is_declared);
        let addresses = port.addresses.iter().flat_map(move |ip| {
            let in_vni = port.vni.map(|vni| Named::Address(*ip, Some(vni)));
            in_vni.into_iter().chain([Named::Address(*ip, None)])
        });
        let addresses = addresses.filter(|named| self.is_named(named, port));
        let all = own.into_iter().chain(host.map(Named::Host));
        let all = all.chain(addresses).collect::<Vec<_>>();
        all.into_iter()
            .flat_map(move |named| self.jobs.that_name(&named).collect::<Vec<_>>())
    }

    /// Returns true if an address stands for the NIC behind a port.
    fn is_named(&self, named: &Named, port: &HostPort) -> bool {
        let Named::Address(ip, vni) = named else {
            return true;
        };
        // Most are named by nobody.
        self.jobs.that_name(named).next().is_some()
            && self
                .nic(&v1::Nic {
                    address: ip.to_string(),
                    vni: *vni,
                    ..v1::Nic::default()
                })
                .is_ok_and(|found| found.name == port.name)
    }

    /// Whether jobs do the same, and all that they name is the same, as in another topology that this one was made of, or the other
    /// way around: leases and labels aside. False also for equal hosts and ports that were declared anew.
    pub fn has_alike_jobs(&self, other: &Self) -> bool {
        let alike = |(a, b): (&Arc<Job>, &Arc<Job>)| a.name == b.name && a.names_same(b);
        self.host_ports.ptr_eq(&other.host_ports)
            && self.places == other.places
            && self.hosts.ptr_eq(&other.hosts)
            && (self.jobs.facts.ptr_eq(&other.jobs.facts)
                || self.count(Kind::Job) == other.count(Kind::Job)
                    && self.jobs().zip(other.jobs()).all(alike))
    }

    /// Replaces the jobs by those of another topology.
    #[must_use]
    pub fn with_jobs_of(mut self, other: &Self) -> Self {
        self.jobs = other.jobs.clone();
        self
    }

    /// Whether there is a host of this name.
    pub fn has_host(&self, name: &str) -> bool {
        self.hosts.contains_key(name)
    }

    /// This topology, with NICs at the leaves that type 2 routes announce them from.
    #[must_use]
    pub fn with_places(mut self, places: Arc<Places>) -> Self {
        self.places = places;
        self
    }

    /// A host port, at the leaf that its NIC is behind.
    fn placed(&self, port: &Arc<HostPort>) -> Arc<HostPort> {
        match self.places.leaf_of_port(&port.name) {
            None => Arc::clone(port),
            Some(leaf) => Arc::new(HostPort {
                switch: leaf.clone(),
                interface: Arc::from(""),
                ..HostPort::clone(port)
            }),
        }
    }

    /// Whether every NIC is where it is declared, as far as routes say.
    pub fn are_places_declared(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether a NIC is not where it is declared, or declared nowhere.
    pub fn is_placed(&self, port: &PortName) -> bool {
        self.places.leaf_of_port(port).is_some() || !self.host_ports.contains_key(port)
    }

    /// Whether there is a host port of this name.
    pub fn is_declared(&self, port: &PortName) -> bool {
        self.host_ports.contains_key(port)
    }

    /// The host port that declares an address in a VNI.
    pub fn port_of_address(&self, (vni, ip): Address) -> Option<Arc<HostPort>> {
        let first = ((ip, Some(vni)), PortName::from(""));
        let (found, port) = self.nics.range(first..).next()?;
        let port = self.host_ports.get(port);
        port.filter(|_| *found == (ip, Some(vni))).cloned()
    }

    /// The ports with a host behind them, in order of their names.
    pub fn ports_of(&self, host: &str) -> Vec<Arc<HostPort>> {
        let of_host = self
            .ports
            .range((HostName::from(host), PortName::from(""))..);
        of_host
            .take_while(|(found, _)| found.as_str() == host)
            .filter_map(|(_, port)| Some(self.placed(self.host_ports.get(port)?)))
            .collect()
    }

    /// Every host port, in order of its name.
    pub fn all_host_ports(&self) -> impl Iterator<Item = &Arc<HostPort>> + '_ {
        self.host_ports.values()
    }

    /// A host port by its name, at the leaf that its NIC is behind; or what stands for a NIC that none declares.
    pub fn host_port(&self, name: &PortName) -> Option<Arc<HostPort>> {
        if let Some(port) = self.host_ports.get(name) {
            return Some(self.placed(port));
        }
        let address = place::address_of(name)?;
        let leaf = self.places.leaf_of_address(address);
        Some(place::undeclared(address, "", leaf))
    }

    /// The host port that a NIC is behind, or why it is not known. What stands for a NIC in a VNI that no host port declares is at
    /// no leaf, unless a type 2 route says which. What the NIC says of its UDP source ports counts where its host port says nothing.
    pub fn nic(&self, nic: &v1::Nic) -> Result<Arc<HostPort>, String> {
        let name = nic.host_port_name.as_str();
        if !name.is_empty() {
            let port = self.host_ports.get(name);
            let port = port.ok_or_else(|| format!("no host port is named {name:?}"))?;
            return Ok(self.placed(port));
        }
        let mut found = self.nic_of_address(nic)?;
        if found.udp_port_formula.is_none()
            && let Some(formula) = UdpPortFormula::read(nic.udp_port_formula())
        {
            Arc::make_mut(&mut found).udp_port_formula = Some(formula);
        }
        Ok(found)
    }

    fn nic_of_address(&self, nic: &v1::Nic) -> Result<Arc<HostPort>, String> {
        let ip = nic.address.parse::<IpAddr>();
        let ip = ip.map_err(|_| format!("{:?} is not an IP address", nic.address))?;
        if let Some(vni) = nic.vni {
            let address = (vni, ip);
            let leaf = || self.places.leaf_of_address(address);
            return Ok(match self.port_of_address(address) {
                Some(port) => self.placed(&port),
                None => place::undeclared(address, &nic.host_name, leaf()),
            });
        }
        let first = ((ip, None), PortName::from(""));
        let found = self.nics.range(first..);
        let mut found = found.take_while(|((it, _), _)| *it == ip);
        let words = |vni: Option<u32>| vni.map_or_else(|| "none".to_owned(), |vni| vni.to_string());
        match (found.next(), found.next()) {
            (Some((_, port)), None) if let Some(port) = self.host_ports.get(port) => {
                Ok(self.placed(port))
            }
            (Some(((_, one), _)), Some(((_, other), _))) => Err(format!(
                "{ip} is there in the VNIs {} and {}: which one?",
                words(*one),
                words(*other)
            )),
            _ => Err(format!("no host port has the address {ip}")),
        }
    }

    /// A fact by its kind and name.
    pub fn fact(&self, kind: Kind, name: &str) -> Option<Fact> {
        match kind {
            Kind::Switch => self.switches.get(name).cloned().map(Fact::Switch),
            Kind::Host => self.hosts.get(name).cloned().map(Fact::Host),
            Kind::Link => self.links.get(name).cloned().map(Fact::Link),
            Kind::HostPort => self.host_ports.get(name).cloned().map(Fact::HostPort),
            Kind::Job => self.jobs.facts.get(name).cloned().map(Fact::Job),
        }
    }

    /// Facts of a kind behind a name, in order of their names.
    pub fn facts_after(&self, kind: Kind, name: &str) -> Box<dyn Iterator<Item = Fact> + '_> {
        use std::ops::Bound::{Excluded, Unbounded};
        // No name is empty.
        let behind = (Excluded(name), Unbounded);
        match kind {
            Kind::Switch => {
                let facts = self.switches.range::<_, str>(behind);
                Box::new(facts.map(|(_, it)| Fact::Switch(Arc::clone(it))))
            }
            Kind::Host => {
                let facts = self.hosts.range::<_, str>(behind);
                Box::new(facts.map(|(_, it)| Fact::Host(Arc::clone(it))))
            }
            Kind::Link => {
                let facts = self.links.range::<_, str>(behind);
                Box::new(facts.map(|(_, it)| Fact::Link(Arc::clone(it))))
            }
            Kind::HostPort => {
                let facts = self.host_ports.range::<_, str>(behind);
                Box::new(facts.map(|(_, it)| Fact::HostPort(Arc::clone(it))))
            }
            Kind::Job => {
                let facts = self.jobs.facts.range::<_, str>(behind);
                Box::new(facts.map(|(_, it)| Fact::Job(Arc::clone(it))))
            }
        }
    }

    /// Every fact, by kind and name.
    pub fn facts(&self) -> impl Iterator<Item = Fact> + '_ {
        Kind::ALL
            .into_iter()
            .flat_map(|kind| self.facts_after(kind, ""))
    }

    /// Takes a fact as it is, in the place of the one of its kind and name.
    pub fn put(&mut self, fact: Fact) {
        if fact.kind() != Kind::Job {
            self.remove(fact.kind(), fact.name());
        }
        match fact {
            Fact::Switch(switch) => {
                let name = &switch.name;
                if let Some(vtep) = switch.vtep {
                    self.vteps.insert((vtep, name.clone()));
                }
                if let Some(agent) = &switch.agent {
                    self.agents.insert((Arc::clone(agent), name.clone()));
                }
                if let Some(gnmi) = &switch.gnmi {
                    self.gnmi.insert((Arc::clone(gnmi), name.clone()));
                }
                if let Some(peer) = switch.peer {
                    self.peers.insert((peer, name.clone()));
                }
                self.switches.insert(name.clone(), switch);
            }
            Fact::Host(host) => drop(self.hosts.insert(host.name.clone(), host)),
            Fact::Link(link) => {
                for end in [&link.a, &link.b] {
                    if let Some(address) = end.address {
                        self.addresses.insert((address, link.name.clone()));
                    }
                    let user = User::Link(link.name.clone());
                    self.interfaces.insert((end.port(), user));
                }
                self.links.insert(link.name.clone(), link);
            }
            Fact::HostPort(port) => {
                let interface = (port.switch.clone(), Arc::clone(&port.interface));
                let user = User::HostPort(port.name.clone());
                self.interfaces.insert((interface, user));
                if let Some(host) = &port.host {
                    self.ports.insert((host.clone(), port.name.clone()));
                }
                for address in &port.addresses {
                    self.nics.insert(((*address, port.vni), port.name.clone()));
                }
                self.host_ports.insert(port.name.clone(), port);
            }
            Fact::Job(job) => self.jobs.put(job),
        }
    }

    /// Forgets a fact, if it is there.
    pub fn remove(&mut self, kind: Kind, name: &str) {
        match kind {
            Kind::Switch => {
                let Some(switch) = self.switches.remove(name) else {
                    return;
                };
                let name = &switch.name;
                if let Some(vtep) = switch.vtep {
                    self.vteps.remove(&(vtep, name.clone()));
                }
                if let Some(agent) = &switch.agent {
                    self.agents.remove(&(Arc::clone(agent), name.clone()));
                }
                if let Some(gnmi) = &switch.gnmi {
                    self.gnmi.remove(&(Arc::clone(gnmi), name.clone()));
                }
                if let Some(peer) = switch.peer {
                    self.peers.remove(&(peer, name.clone()));
                }
            }
            Kind::Host => drop(self.hosts.remove(name)),
            Kind::Link => {
                let Some(link) = self.links.remove(name) else {
                    return;
                };
                for end in [&link.a, &link.b] {
                    if let Some(address) = end.address {
                        self.addresses.remove(&(address, link.name.clone()));
                    }
                    let user = User::Link(link.name.clone());
                    self.interfaces.remove(&(end.port(), user));
                }
            }
            Kind::HostPort => {
                let Some(port) = self.host_ports.remove(name) else {
                    return;
                };
                let interface = (port.switch.clone(), Arc::clone(&port.interface));
                let user = User::HostPort(port.name.clone());
                self.interfaces.remove(&(interface, user));
                if let Some(host) = &port.host {
                    self.ports.remove(&(host.clone(), port.name.clone()));
                }
                for address in &port.addresses {
                    self.nics.remove(&((*address, port.vni), port.name.clone()));
                }
            }
            Kind::Job => self.jobs.remove(name),
        }
    }

    /// What makes `target` of this topology, jobs aside, in an order in which nothing names at any time what is not there: what
    /// names others goes first and comes last.
    pub fn changes_to(&self, target: &Self) -> Vec<Change> {
        let deleted = |change: &Change| matches!(change, Change::Delete(..));
        let (mut first, mut put, mut last) = (Vec::new(), Vec::new(), Vec::new());
        let mut sort = |of_kind: Vec<Change>, last: &mut Vec<Change>| {
            let (gone, kept): (Vec<_>, Vec<_>) = of_kind.into_iter().partition(deleted);
            last.extend(gone);
            put.extend(kept);
        };
        let hosts = differences(&self.hosts, &target.hosts, Fact::Host);
        sort(hosts, &mut last);
        let switches = differences(&self.switches, &target.switches, Fact::Switch);
        sort(switches, &mut last);
        let links = differences(&self.links, &target.links, Fact::Link);
        sort(links, &mut first);
        let ports = differences(&self.host_ports, &target.host_ports, Fact::HostPort);
        sort(ports, &mut first);
        first.into_iter().chain(put).chain(last).collect()
    }

    /// Takes a change as it is.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Create(fact) | Change::Update(fact) => self.put(fact.clone()),
            Change::Delete(kind, name) => self.remove(*kind, name),
        }
    }

    /// Says what is wrong with a change of one fact; `field` is where it stands in the request.
    pub fn check(&self, change: &Change, field: &str, faults: &mut InvalidFabric) {
        check::change(self, change, field, faults);
    }
}

/// What makes one table of another one, by name.
fn differences<N: Ord + Clone + ToString, T: Clone + Eq>(
    old: &OrdMap<N, T>,
    new: &OrdMap<N, T>,
    fact: fn(T) -> Fact,
) -> Vec<Change> {
    old.diff(new)
        .map(|item| match item {
            DiffItem::Add(_, it) => Change::Create(fact(it.clone())),
            DiffItem::Update { new: (_, it), .. } => Change::Update(fact(it.clone())),
            DiffItem::Remove(name, it) => Change::Delete(fact(it.clone()).kind(), name.to_string()),
        })
        .collect()
}

impl Change {
    /// Kind and name of the fact that changes.
    pub fn subject(&self) -> (Kind, &str) {
        match self {
            Self::Create(fact) | Self::Update(fact) => (fact.kind(), fact.name()),
            Self::Delete(kind, name) => (*kind, name),
        }
    }

    /// Its kind and name, and what is done, as the API says it.
    pub fn to_message(&self) -> v1::ResourceChange {
        let (kind, name) = self.subject();
        let change = match self {
            Self::Create(_) => v1::ChangeType::Created,
            Self::Update(_) => v1::ChangeType::Updated,
            Self::Delete(..) => v1::ChangeType::Deleted,
        };
        v1::ResourceChange {
            kind: kind.to_message().into(),
            name: name.to_owned(),
            change_type: change.into(),
            ..v1::ResourceChange::default()
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use prost::Message;

    use super::*;

    /// The VTEP address of a leaf of [`leaf_spine`].
    pub(crate) fn vtep(leaf: u8) -> IpAddr {
        IpAddr::from([198, 51, 100, leaf])
    }

    /// Every leaf with one link to every spine, 100 Gb/s each: `leaf2:eth1--spine1:eth2`. Every leaf has an agent; on the
    /// link between leaf and spine the spine is 192.0.`leaf`.`spine`, the leaf 192.0.`leaf`.`100 + spine`.
    pub(crate) fn declared(leaves: u8, spines: u8) -> Declaration {
        let leaf = |leaf: u8| v1::Switch {
            name: format!("leaf{leaf}"),
            role: v1::SwitchRole::Leaf.into(),
            vtep_address: vtep(leaf).to_string(),
            agent_address: format!("192.0.2.{leaf}:9340"),
            ..v1::Switch::default()
        };
        let spine = |spine: u8| v1::Switch {
            name: format!("spine{spine}"),
            role: v1::SwitchRole::Spine.into(),
            ..v1::Switch::default()
        };
        let end = |switch_name: String, port: u8, address: String| {
            Some(v1::LinkEnd {
                switch_name,
                interface_name: format!("eth{port}"),
                address,
            })
        };
        let link = |leaf: u8, spine: u8| v1::Link {
            a: end(
                format!("leaf{leaf}"),
                spine,
                format!("192.0.{leaf}.{}", 100 + spine),
            ),
            b: end(
                format!("spine{spine}"),
                leaf,
                format!("192.0.{leaf}.{spine}"),
            ),
            capacity_bps: 100_000_000_000,
            ..v1::Link::default()
        };
        let links = (1..=leaves).flat_map(|leaf| (1..=spines).map(move |spine| (leaf, spine)));
        Declaration {
            display_name: "example".to_owned(),
            switches: (1..=leaves)
                .map(leaf)
                .chain((1..=spines).map(spine))
                .collect(),
            links: links.map(|(leaf, spine)| link(leaf, spine)).collect(),
            ..Declaration::default()
        }
    }

    /// [`declared`], checked.
    pub(crate) fn leaf_spine(leaves: u8, spines: u8) -> Topology {
        Topology::new(&declared(leaves, spines)).unwrap()
    }

    /// [`declared`] with hosts: `h1-2` is behind `leaf1:nic2`, with the address 192.168.1.2 in VNI 100; `t1-2` is behind
    /// `leaf1:tenant2`, with the same address in VNI 200.
    pub(crate) fn with_nics(leaves: u8, spines: u8, hosts: u8) -> Topology {
        let mut fabric = declared(leaves, spines);
        let all = (1..=leaves).flat_map(|leaf| (1..=hosts).map(move |host| (leaf, host)));
        for (leaf, host) in all {
            for (tenant, interface, vni) in [("h", "nic", 100), ("t", "tenant", 200)] {
                let name = format!("{tenant}{leaf}-{host}");
                fabric.host_ports.push(v1::HostPort {
                    switch_name: format!("leaf{leaf}"),
                    interface_name: format!("{interface}{host}"),
                    host_name: name.clone(),
                    vni: Some(vni),
                    capacity_bps: Some(100_000_000_000),
                    addresses: vec![format!("192.168.{leaf}.{host}")],
                    ..v1::HostPort::default()
                });
                fabric.hosts.push(v1::Host {
                    name,
                    ..v1::Host::default()
                });
            }
        }
        Topology::new(&fabric).unwrap()
    }

    /// Two pods of two leaves of two hosts each, with two spines: 1 and 2, 3 and 4. Super-spine `core1` is above spines 1 and 3, which
    /// are one plane, `core2` above spines 2 and 4: `core1:eth2--spine3:eth9`.
    pub(crate) fn with_pods() -> Topology {
        let mut fabric = with_nics(4, 4, 2).declaration();
        let number = |end: &Option<v1::LinkEnd>| {
            let name = &end.as_ref().unwrap().switch_name;
            name.trim_start_matches(char::is_alphabetic)
                .parse::<u8>()
                .unwrap()
        };
        let pod = |number: u8| number.div_ceil(2);
        fabric
            .links
            .retain(|link| pod(number(&link.a)) == pod(number(&link.b)));
        for core in 1..=2_u8 {
            fabric.switches.push(v1::Switch {
                name: format!("core{core}"),
                role: v1::SwitchRole::Spine.into(),
                tier: Some(3),
                ..v1::Switch::default()
            });
            for pod in 1..=2_u8 {
                let end = |switch_name: String, port: u8, host: u8| {
                    Some(v1::LinkEnd {
                        switch_name,
                        interface_name: format!("eth{port}"),
                        address: format!("192.1.{core}.{}", 10 * pod + host),
                    })
                };
                fabric.links.push(v1::Link {
                    a: end(format!("core{core}"), pod, 1),
                    b: end(format!("spine{}", 2 * (pod - 1) + core), 9, 2),
                    capacity_bps: 200_000_000_000,
                    ..v1::Link::default()
                });
            }
        }
        Topology::new(&fabric).unwrap()
    }

    impl Topology {
        /// What declares it, jobs aside.
        pub(crate) fn declaration(&self) -> Declaration {
            fn all<R: Resource>(topology: &Topology) -> Vec<R> {
                let facts = topology.facts_after(R::KIND, "");
                facts.filter_map(|fact| R::of(&fact)).collect()
            }
            Declaration {
                display_name: self.display_name.clone(),
                switches: all(self),
                hosts: all(self),
                links: all(self),
                host_ports: all(self),
            }
        }

        /// Sets a link of the topology down or up.
        pub(crate) fn set_down(&mut self, name: &str, down: bool) {
            let link = self.link(name).unwrap().clone();
            self.put(Fact::Link(Arc::new(Link { down, ..link })));
        }
    }

    /// [`declared`] with a host and a port of it.
    fn with_hosts() -> Declaration {
        let mut declaration = declared(2, 2);
        declaration.hosts = vec![v1::Host {
            name: "h1".to_owned(),
            ..v1::Host::default()
        }];
        declaration.host_ports = vec![v1::HostPort {
            switch_name: "leaf1".to_owned(),
            interface_name: "eth9".to_owned(),
            host_name: "h1".to_owned(),
            vni: Some(100),
            ..v1::HostPort::default()
        }];
        declaration
    }

    #[test]
    fn every_fact_survives_a_round_trip_and_has_an_etag_of_its_content() {
        let topology = Topology::new(&with_hosts()).unwrap();
        let facts: Vec<Fact> = topology.facts().collect();
        assert_eq!(facts.len(), 4 + 1 + 4 + 1);
        for fact in facts {
            let read = Fact::decode(fact.kind(), &fact.encode()).unwrap();
            assert_eq!(read, fact);
            assert_eq!(read.etag(), fact.etag());
        }
        let mut down = topology.clone();
        let link = "leaf1:eth1--spine1:eth1";
        down.set_down(link, true);
        let etag = |of: &Topology| of.fact(Kind::Link, link).unwrap().etag();
        assert_ne!(etag(&topology), etag(&down));
        down.set_down(link, false);
        assert_eq!(etag(&topology), etag(&down));
    }

    /// What was declared under other limits does not vanish with a new release.
    #[test]
    fn what_is_stored_stays_a_fact_whatever_may_be_declared_today() {
        let long = "x".repeat(1000);
        let mut declaration = with_hosts();
        let switch = &mut declaration.switches[0];
        (switch.vtep_address, switch.tier) = (String::new(), Some(9));
        switch.agent_address.clone_from(&long);
        switch.labels = (0..99).map(|at| (at.to_string(), long.clone())).collect();
        declaration.hosts[0].name.clone_from(&long);
        let link = &mut declaration.links[0];
        link.capacity_bps = 0;
        link.a.as_mut().unwrap().interface_name.clone_from(&long);
        declaration.host_ports[0].vni = Some(1 << 30);
        assert!(Topology::new(&declaration).is_err());
        let stored = |kind, octets: Vec<u8>| Fact::decode(kind, &octets).unwrap();
        for fact in [
            stored(Kind::Switch, declaration.switches[0].encode_to_vec()),
            stored(Kind::Host, declaration.hosts[0].encode_to_vec()),
            stored(Kind::Link, declaration.links[0].encode_to_vec()),
            stored(Kind::HostPort, declaration.host_ports[0].encode_to_vec()),
        ] {
            assert_eq!(Fact::decode(fact.kind(), &fact.encode()), Ok(fact));
        }
        // What is none at all is not taken for one.
        declaration.links[0].a = None;
        let octets = declaration.links[0].encode_to_vec();
        assert!(Fact::decode(Kind::Link, &octets).is_err());
    }

    #[test]
    fn changes_make_one_topology_of_another_and_name_nothing_that_is_not_there() {
        let one = Topology::new(&with_hosts()).unwrap();
        let mut other = leaf_spine(3, 1);
        other.set_down("leaf2:eth1--spine1:eth2", true);
        for (from, to) in [
            (&Topology::default(), &one),
            (&one, &other),
            (&other, &one),
            (&one, &Topology::default()),
        ] {
            let mut made = from.clone();
            let changes = from.changes_to(to);
            for change in &changes {
                made.apply(change);
                for link in made.links() {
                    assert!(
                        [&link.a, &link.b]
                            .iter()
                            .all(|end| made.switch(&end.switch).is_some())
                    );
                }
            }
            let name = to.display_name();
            assert_eq!(made.with_head(name, 0), *to, "{changes:?}");
        }
        assert_eq!(one.changes_to(&one), []);
    }

    /// A link that keeps its name and moves from a switch that goes to one that comes.
    #[test]
    fn a_switch_goes_after_the_links_that_moved_away_from_it() {
        let mut declaration = declared(1, 1);
        declaration.links[0].name = "cable1".to_owned();
        let one = Topology::new(&declaration).unwrap();
        declaration.switches[1].name = "spine9".to_owned();
        declaration.links[0].b.as_mut().unwrap().switch_name = "spine9".to_owned();
        let other = Topology::new(&declaration).unwrap();
        let changes = one.changes_to(&other);
        let done: Vec<_> = changes.iter().map(|it| it.to_message().name).collect();
        assert_eq!(done, ["spine9", "cable1", "spine1"]);
    }

    /// Two switches that swap what there is one of, and are put one after the other.
    #[test]
    fn what_two_have_for_a_moment_is_known_of_both() {
        let swapped = |first: u8, second: u8| {
            let mut declaration = declared(2, 1);
            declaration.switches[0].vtep_address = vtep(first).to_string();
            declaration.switches[1].vtep_address = vtep(second).to_string();
            Topology::new(&declaration).unwrap()
        };
        let (one, other) = (swapped(1, 2), swapped(2, 1));
        let mut made = one.clone();
        for change in one.changes_to(&other) {
            made.apply(&change);
        }
        assert_eq!(made, other);
    }

    #[test]
    fn facts_are_put_and_removed_in_any_order() {
        let topology = Topology::new(&with_hosts()).unwrap();
        let facts: Vec<Fact> = topology.facts().collect();
        let mut made = Topology::default().with_head("example", 0);
        facts.iter().rev().for_each(|fact| made.put(fact.clone()));
        assert_eq!(made, topology);
        facts
            .iter()
            .for_each(|fact| made.remove(fact.kind(), fact.name()));
        assert_eq!(made, Topology::default().with_head("example", 0));
    }

    #[test]
    fn hosts_and_their_ports_make_no_other_network() {
        let one = leaf_spine(2, 1);
        let mut other = one.clone();
        let host = v1::Host {
            name: "h9".to_owned(),
            ..v1::Host::default()
        };
        other.put(Fact::declared(&host).unwrap());
        assert!(other.is_same_network(&one));
        let mut link = v1::Link::of(&other.fact(Kind::Link, "leaf1:eth1--spine1:eth1").unwrap());
        link.as_mut().unwrap().admin_state = v1::AdminState::Down.into();
        other.put(Fact::declared(&link.unwrap()).unwrap());
        assert!(!other.is_same_network(&one));
    }

    #[test]
    fn a_tier_is_that_of_the_role() {
        let mut declaration = declared(1, 1);
        declaration.switches[0].tier = Some(1);
        declaration.switches[1].tier = Some(2);
        assert!(Topology::new(&declaration).is_ok());
        declaration.switches[0].tier = Some(7);
        declaration.switches[1].tier = Some(1);
        let refused = Topology::new(&declaration).unwrap_err();
        let fields: Vec<_> = refused.faults.iter().map(|it| it.field.as_str()).collect();
        assert_eq!(fields, ["switches[0].tier", "switches[1].tier"]);
    }

    #[test]
    fn a_page_goes_on_behind_a_name() {
        let topology = leaf_spine(3, 1);
        let after = |name| {
            let facts = topology.facts_after(Kind::Switch, name);
            facts.map(|fact| fact.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(after(""), ["leaf1", "leaf2", "leaf3", "spine1"]);
        assert_eq!(after("leaf2"), ["leaf3", "spine1"]);
        assert_eq!(after("leaf9"), ["spine1"]);
        assert!(after("z").is_empty());
    }
}
