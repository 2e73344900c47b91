//! Behind which leaf NICs are by the type 2 routes of their addresses (RFC 7432 section 7.2), where nobody declared that, or where
//! it was declared otherwise: an endpoint may move, and its plans follow. Pure. It refuses to know sessions and tables.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use weft_bgp::rd::Rd;
use weft_bgp::table::{BestChange, Path};
use weft_evpn::Route;
use weft_evpn::mac::Mac;
use weft_evpn::neighbor::{self, Domain, Neighbor};
use weft_proto::v1;

use super::topology::{HostPort, Job, PortName, Role, SwitchName, Topology};

/// An IP address in a VNI.
pub type Address = (u32, IpAddr);

/// Who claims addresses in VNIs: some 150 octets for each route.
#[derive(Debug, Default)]
pub struct Claims(BTreeMap<Address, Vec<Claim>>);

/// A route that says behind which VTEP an address is.
#[derive(Debug)]
struct Claim {
    /// Which route it is, beside its address.
    route: (Rd, Mac),
    vtep: IpAddr,
    sequence: u32,
    sticky: bool,
    /// Over other VTEPs of its segment it can be reached too.
    multihomed: bool,
}

impl Claims {
    /// Takes a selected path; what it says may be known already. The address, if it is about one that a host has.
    pub fn put(&mut self, path: &Path<Route>) -> Option<Address> {
        let (address, claim) = claim(path)?;
        let known = self.0.entry(address).or_default();
        match known.iter_mut().find(|it| it.route == claim.route) {
            Some(before) => *before = claim,
            None => known.push(claim),
        }
        Some(address)
    }

    /// Takes a change of selection. The addresses that it is about.
    pub fn learn(&mut self, change: &BestChange<Route>) -> impl Iterator<Item = Address> + use<> {
        let old = change.old.as_ref().and_then(claim);
        let gone = old.map(|(address, claim)| {
            if let Some(known) = self.0.get_mut(&address) {
                known.retain(|it| it.route != claim.route);
                if known.is_empty() {
                    self.0.remove(&address);
                }
            }
            address
        });
        let put = change.new.as_ref().and_then(|path| self.put(path));
        gone.into_iter().chain(put)
    }

    /// Every address that is claimed.
    pub fn addresses(&self) -> impl Iterator<Item = Address> {
        self.0.keys().copied()
    }

    /// The leaves that an address may be behind, by the claims that count: those that must not move, then the latest. RFC 7432
    /// section 15. None: of one of them other leaves have the segment too, and the address with it.
    fn leaves(&self, topology: &Topology, address: Address) -> Option<BTreeSet<SwitchName>> {
        let claims = self.0.get(&address).map_or(&[][..], Vec::as_slice);
        let rank = |it: &Claim| (it.sticky, it.sequence);
        let best = claims.iter().map(rank).max();
        let best = claims.iter().filter(|it| Some(rank(it)) == best);
        let leaf = |claim: &Claim| {
            let switch = topology.switch_of_vtep(claim.vtep)?;
            (switch.role == Role::Leaf).then(|| switch.name.clone())
        };
        let several = best.clone().any(|claim| claim.multihomed);
        (!several).then(|| best.filter_map(leaf).collect())
    }

    /// The leaf that an address is behind that nobody declared: the lowest of several.
    fn leaf(&self, topology: &Topology, address: Address) -> Option<SwitchName> {
        let claims = self.0.get(&address)?;
        let order = |it: &&Claim| (it.sticky, it.sequence, Reverse((it.vtep, it.route)));
        let claim = claims.iter().max_by_key(order)?;
        let switch = topology.switch_of_vtep(claim.vtep)?;
        (switch.role == Role::Leaf).then(|| switch.name.clone())
    }
}

/// What a path says of an address of a host. A gateway's is at many leaves.
fn claim(path: &Path<Route>) -> Option<(Address, Claim)> {
    let Route::MacIp(route) = &path.nlri else {
        return None;
    };
    let (domain, ip, of) = neighbor::claim(path)?;
    let Domain::Vni(vni) = domain else {
        return None;
    };
    let Neighbor {
        mac,
        vtep,
        esi,
        sequence,
        sticky,
        gateway,
        ..
    } = of;
    let claim = Claim {
        route: (route.key.rd, mac),
        vtep,
        sequence,
        sticky,
        multihomed: !esi.is_zero(),
    };
    (!gateway).then_some(((vni.number(), ip), claim))
}

/// Where NICs of jobs are, as far as routes say something that is not declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Host ports whose addresses are behind another leaf.
    moved: BTreeMap<PortName, SwitchName>,
    /// Addresses that jobs name and no host port has.
    named: BTreeMap<Address, SwitchName>,
}

impl Places {
    /// Where everything is; what nobody claims is where it was.
    pub fn of(
        topology: &Topology,
        named: &BTreeSet<Address>,
        claims: &Claims,
        before: &Self,
    ) -> Self {
        let mut places = before.clone();
        let declared = |port: &PortName| topology.is_declared(port);
        places.moved.retain(|port, _| declared(port));
        places.named.retain(|address, _| named.contains(address));
        for address in claims.addresses() {
            places.look(topology, named, claims, address);
        }
        places
    }

    /// Finds where an address is, after its claims changed. One that nobody claims any more is where it was: a NIC that is silent, or a
    /// leaf that restarts, moves no plan.
    pub fn look(
        &mut self,
        topology: &Topology,
        named: &BTreeSet<Address>,
        claims: &Claims,
        address: Address,
    ) {
        let port = topology.port_of_address(address);
        let addresses = port.as_deref().map(addresses_of);
        let addresses = addresses.unwrap_or_else(|| vec![address]);
        if !addresses.iter().any(|it| claims.0.contains_key(it)) {
            return;
        }
        if let Some(port) = port {
            match moved(topology, &port, claims) {
                Some(leaf) => drop(self.moved.insert(port.name.clone(), leaf)),
                None => drop(self.moved.remove(&port.name)),
            }
            return;
        }
        let leaf = claims.leaf(topology, address);
        match leaf.filter(|_| named.contains(&address)) {
            Some(leaf) => drop(self.named.insert(address, leaf)),
            None => drop(self.named.remove(&address)),
        }
    }

    /// Whether every NIC is where it is declared.
    pub fn is_empty(&self) -> bool {
        self.moved.is_empty() && self.named.is_empty()
    }

    /// The leaf that a host port's NIC is behind, if it is not where it is declared.
    pub fn leaf_of_port(&self, port: &PortName) -> Option<&SwitchName> {
        self.moved.get(port)
    }

    /// The leaf that an address is behind that no host port has.
    pub fn leaf_of_address(&self, address: Address) -> Option<&SwitchName> {
        self.named.get(&address)
    }
}

fn addresses_of(port: &HostPort) -> Vec<Address> {
    let vni = port.vni.into_iter();
    vni.flat_map(|vni| port.addresses.iter().map(move |it| (vni, *it)))
        .collect()
}

/// The leaf that the NIC of a host port has moved to: all that is said of its addresses agrees on it.
fn moved(topology: &Topology, port: &HostPort, claims: &Claims) -> Option<SwitchName> {
    let mut to = BTreeSet::new();
    for address in addresses_of(port) {
        let leaves = claims.leaves(topology, address)?;
        if leaves.contains(&port.switch) {
            return None;
        }
        to.extend(leaves);
    }
    to.pop_first().filter(|_| to.is_empty())
}

/// Addresses that jobs name and no host port has.
pub fn named(topology: &Topology) -> BTreeSet<Address> {
    let jobs = topology.jobs().flat_map(|job| nics(job));
    let addresses = jobs.filter_map(address);
    let nobodys = addresses.filter(|it| topology.port_of_address(*it).is_none());
    nobodys.collect()
}

fn nics(job: &Job) -> impl Iterator<Item = &v1::Nic> {
    let flows = job.declared.flows.iter();
    let ends = flows.flat_map(|flow| flow.source.iter().chain(&flow.destination));
    job.declared.ranks.iter().chain(ends)
}

fn address(nic: &v1::Nic) -> Option<Address> {
    Some((nic.vni?, nic.address.parse().ok()?))
}

/// What stands for a NIC that no host port declares: a port of its own, at no leaf as long as no route says which.
pub fn undeclared(address: Address, host: &str, leaf: Option<&SwitchName>) -> Arc<HostPort> {
    let (vni, ip) = address;
    let name = format!("vni{vni}:{ip}");
    Arc::new(HostPort {
        host: Some(if host.is_empty() { &*name } else { host }.into()),
        name: PortName::from(name.as_str()),
        switch: leaf.cloned().unwrap_or_else(|| SwitchName::from("")),
        interface: Arc::from(""),
        vni: Some(vni),
        capacity_bps: None,
        rail: None,
        addresses: vec![ip],
        udp_port_formula: None,
        labels: BTreeMap::new(),
    })
}

/// The address of a NIC that no host port declares, by the name that it goes by.
pub fn address_of(name: &PortName) -> Option<Address> {
    let (vni, ip) = name.as_str().strip_prefix("vni")?.split_once(':')?;
    Some((vni.parse().ok()?, ip.parse().ok()?))
}

#[cfg(test)]
mod tests;
