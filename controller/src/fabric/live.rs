//! Which links carry traffic now, as far as anybody says: soft, never in the log.
//!
//! A link is down when a switch at one end says that its interface is, or when the spine at one end has lost its route to
//! the VTEP at the other end. It is *confirmed* when the spine announces that route. A switch that compares each next hop
//! with its own routing (weft-agent) needs no confirmation: a spine that weft does not hear may forward as ever, and
//! without weft the switch would use it. Another switch may send a packet only where somebody vouches for the rest of
//! the way.
//!
//! Pure. It refuses to know how routes and interfaces come to be known.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::hold::UP_FOR;
use super::topology::{Link, LinkEnd, LinkName, Role, Switch, SwitchName, Topology};

/// What the spines with a declared `peer_address` announce to weft.
pub type Announced = BTreeMap<SwitchName, SpineRoutes>;

/// What one spine announces to weft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpineRoutes {
    /// The spine has no session to any replica.
    NoSession,
    /// The session began a moment ago. The VTEPs of this fabric that it has announced a route to; others may follow.
    Beginning(BTreeSet<IpAddr>),
    /// The VTEPs of this fabric that it has a route to. Empty: its routes say nothing of VTEPs.
    To(BTreeSet<IpAddr>),
}

/// The interfaces of a switch by name: whether each is up.
pub type Interfaces = BTreeMap<String, bool>;

/// Why a link does not count as one that carries traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// An operator set it down.
    SetDown,
    /// An operator set the switch at one end down.
    SwitchSetDown(SwitchName),
    /// A switch says that its interface is down.
    InterfaceDown(SwitchName, Arc<str>),
    /// A switch has no such interface.
    InterfaceMissing(SwitchName, Arc<str>),
    /// The spine has no session to weft.
    SpineSilent(SwitchName),
    /// The spine announces routes to other VTEPs, and none to this.
    NotAnnounced(SwitchName, IpAddr),
    /// Nobody says that the link carries traffic.
    Unconfirmed,
    /// The link came up a moment ago, and waits.
    CameUp,
    /// Another switch, or another port, is at the other end: what LLDP says of it.
    Miswired(Arc<str>),
}

impl Unusable {
    /// Whether nobody says that the link carries traffic, and nobody that it is down.
    pub fn is_unconfirmed(&self) -> bool {
        match self {
            Self::SpineSilent(_) | Self::Unconfirmed => true,
            Self::SetDown
            | Self::SwitchSetDown(_)
            | Self::InterfaceDown(..)
            | Self::InterfaceMissing(..)
            | Self::NotAnnounced(..)
            | Self::CameUp
            | Self::Miswired(_) => false,
        }
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetDown => f.write_str("an operator set it down"),
            Self::SwitchSetDown(switch) => write!(f, "an operator set {switch} down"),
            Self::InterfaceDown(switch, interface) => write!(f, "{switch}: {interface} is down"),
            Self::InterfaceMissing(switch, interface) => {
                write!(f, "{switch}: there is no interface {interface}")
            }
            Self::SpineSilent(spine) => write!(f, "{spine} has no BGP session to weft"),
            Self::NotAnnounced(spine, vtep) => write!(f, "{spine} announces no route to {vtep}"),
            Self::Unconfirmed => f.write_str("nobody announces the way"),
            Self::Miswired(said) => f.write_str(said),
            Self::CameUp => write!(f, "it came up less than {} s ago", UP_FOR.as_secs()),
        }
    }
}

/// What is known of every link of a topology.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Live {
    down: BTreeMap<LinkName, Unusable>,
    confirmed: BTreeSet<LinkName>,
    /// Links that nobody but an operator calls down.
    drained: BTreeSet<LinkName>,
    /// Links of a switch that an operator set down that somebody else calls down, too.
    also_down: BTreeSet<LinkName>,
    /// Why a link that is neither is not confirmed, where more is known than that nobody speaks of it.
    unheard: BTreeMap<LinkName, Unusable>,
}

impl Live {
    /// Puts together what spines announce and what switches say of their interfaces. A switch that says nothing has no
    /// say.
    pub fn new(
        topology: &Topology,
        announced: &Announced,
        interfaces: &BTreeMap<SwitchName, Arc<Interfaces>>,
    ) -> Self {
        let mut live = Self::default();
        let below = Below::new(topology);
        for link in topology.links() {
            let set_down = set_down(topology, link);
            let is_set_down = link.down || set_down.is_some();
            let measured = unusable(link, interfaces);
            let way = below.way(topology, link).map(|way| way.look(announced));
            if let Some(Ok(true)) = way {
                live.confirmed.insert(link.name.clone());
            }
            let said = match way.and_then(Result::err) {
                Some(why @ Unusable::SpineSilent(_)) => {
                    live.unheard.insert(link.name.clone(), why);
                    None
                }
                said => said,
            };
            match measured.is_some() || said.is_some() {
                false if is_set_down => drop(live.drained.insert(link.name.clone())),
                true if set_down.is_some() => drop(live.also_down.insert(link.name.clone())),
                _ => {}
            }
            if let Some(why) = set_down.or(measured).or(said) {
                live.down.insert(link.name.clone(), why);
            }
        }
        live
    }

    /// Links that somebody says are down, an operator apart.
    pub fn measured_down(&self) -> impl Iterator<Item = &LinkName> {
        let is_measured = |why: &Unusable| !matches!(why, Unusable::SwitchSetDown(_));
        let down = self.down.iter().filter(move |(_, why)| is_measured(why));
        let down = down.map(|(link, _)| link);
        down.chain(&self.also_down)
    }

    /// Takes a link as down that leads elsewhere; what else is said of it stays.
    pub fn miswire(&mut self, link: &LinkName, said: &Arc<str>) {
        self.drained.remove(link);
        let known = self.down.entry(link.clone());
        known.or_insert_with(|| Unusable::Miswired(Arc::clone(said)));
    }

    /// Takes a link that came up a moment ago as one that is down.
    pub fn hold(&mut self, link: &LinkName) {
        let known = self.down.entry(link.clone());
        known.or_insert(Unusable::CameUp);
        self.drained.remove(link);
    }

    /// Whether nobody but an operator calls a link down: it would carry traffic.
    pub fn is_drained(&self, link: &Link) -> bool {
        self.drained.contains(&link.name)
    }

    /// Whether somebody says that a link carries traffic, whatever an operator says.
    pub fn is_confirmed(&self, link: &Link) -> bool {
        self.confirmed.contains(&link.name)
    }

    /// Whether there is a link that nobody but an operator calls down.
    pub fn has_drained(&self) -> bool {
        !self.drained.is_empty()
    }

    /// Why a link does not carry traffic; None if it does, or if nobody says anything of it.
    pub fn unusable(&self, link: &Link) -> Option<Unusable> {
        match link.down {
            true => Some(Unusable::SetDown),
            false => self.down.get(&link.name).cloned(),
        }
    }

    /// Why a link does not carry traffic, where a link that nobody says anything of carries none.
    pub fn unconfirmed(&self, link: &Link) -> Option<Unusable> {
        let confirmed = self.is_confirmed(link);
        let unheard = || self.unheard.get(&link.name).cloned();
        self.unusable(link)
            .or_else(unheard)
            .or_else(|| (!confirmed).then_some(Unusable::Unconfirmed))
    }
}

/// The switch at one end that an operator set down.
fn set_down(topology: &Topology, link: &Link) -> Option<Unusable> {
    let down = |end: &LinkEnd| topology.switch(&end.switch).is_some_and(|it| it.down);
    let end = [&link.a, &link.b].into_iter().find(|end| down(end))?;
    Some(Unusable::SwitchSetDown(end.switch.clone()))
}

/// What the switches at the two ends say of their interfaces, if it is bad.
fn unusable(link: &Link, interfaces: &BTreeMap<SwitchName, Arc<Interfaces>>) -> Option<Unusable> {
    let end = |end: &LinkEnd| {
        let known = interfaces.get(&end.switch)?;
        let (switch, interface) = (end.switch.clone(), Arc::clone(&end.interface));
        match known.get(&*end.interface) {
            Some(true) => None,
            Some(false) => Some(Unusable::InterfaceDown(switch, interface)),
            None => Some(Unusable::InterfaceMissing(switch, interface)),
        }
    };
    end(&link.a).or_else(|| end(&link.b))
}

/// The VTEPs of the leaves below each spine.
struct Below<'a>(BTreeMap<&'a SwitchName, Vec<IpAddr>>);

/// The way down from a spine over one link: to a VTEP, or from a super-spine to those below a spine, of which one says enough.
struct Way<'a> {
    spine: &'a SwitchName,
    vteps: Vec<IpAddr>,
}

impl<'a> Below<'a> {
    fn new(topology: &'a Topology) -> Self {
        let mut below: BTreeMap<&SwitchName, Vec<IpAddr>> = BTreeMap::new();
        for link in topology.links() {
            if let Some((upper, lower)) = upper_first(topology, link)
                && let Some(vtep) = lower.vtep.filter(|_| lower.role == Role::Leaf)
            {
                below.entry(&upper.name).or_default().push(vtep);
            }
        }
        Self(below)
    }

    /// None for a link that does not lead down.
    fn way(&self, topology: &'a Topology, link: &'a Link) -> Option<Way<'a>> {
        let (upper, lower) = upper_first(topology, link)?;
        let vteps = match lower.role {
            Role::Leaf => vec![lower.vtep?],
            Role::Spine => self.0.get(&lower.name)?.clone(),
        };
        Some(Way {
            spine: &upper.name,
            vteps,
        })
    }
}

/// The switches at the ends of a link, the higher one first; None if neither is higher, or one is not there.
fn upper_first<'a>(topology: &'a Topology, link: &Link) -> Option<(&'a Switch, &'a Switch)> {
    let [a, b] = [&link.a, &link.b].map(|end| topology.switch(&end.switch));
    let (a, b) = (a?, b?);
    match a.height().cmp(&b.height()) {
        Ordering::Greater => Some((a, b)),
        Ordering::Less => Some((b, a)),
        Ordering::Equal => None,
    }
}

impl Way<'_> {
    /// Whether the spine confirms the way; an error if it denies it.
    fn look(&self, announced: &Announced) -> Result<bool, Unusable> {
        let leads = |known: &BTreeSet<IpAddr>| self.vteps.iter().any(|vtep| known.contains(vtep));
        match announced.get(self.spine) {
            None => Ok(false),
            Some(SpineRoutes::NoSession) => Err(Unusable::SpineSilent(self.spine.clone())),
            Some(SpineRoutes::Beginning(vteps)) => Ok(leads(vteps)),
            Some(SpineRoutes::To(vteps)) if vteps.is_empty() => Ok(false),
            Some(SpineRoutes::To(vteps)) if leads(vteps) => Ok(true),
            Some(SpineRoutes::To(_)) => match self.vteps.first() {
                Some(vtep) => Err(Unusable::NotAnnounced(self.spine.clone(), *vtep)),
                None => Ok(false),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_proto::v1;

    use super::*;
    use crate::fabric::topology::tests::{declared, leaf_spine, vtep};

    const FAR: &str = "leaf2:eth1--spine1:eth2";

    fn why(live: &Live, topology: &Topology, link: &str) -> Option<String> {
        let link = topology.link(link).unwrap();
        live.unusable(link).map(|why| why.to_string())
    }

    fn announced(spine: &str, leaves: &[u8]) -> Announced {
        let vteps = leaves.iter().map(|leaf| vtep(*leaf)).collect();
        [(spine.into(), SpineRoutes::To(vteps))].into()
    }

    #[test]
    fn a_link_that_nobody_speaks_of_is_up_and_unconfirmed() {
        let topology = leaf_spine(3, 2);
        let live = Live::new(&topology, &Announced::new(), &BTreeMap::new());
        assert_eq!(why(&live, &topology, FAR), None);
        let link = topology.link(FAR).unwrap();
        assert_eq!(live.unconfirmed(link), Some(Unusable::Unconfirmed));
    }

    #[test]
    fn a_spine_that_lost_its_route_to_a_vtep_has_lost_the_links_to_it() {
        let topology = leaf_spine(3, 2);
        let live = Live::new(&topology, &announced("spine1", &[1, 3]), &BTreeMap::new());
        let said = why(&live, &topology, FAR);
        assert_eq!(
            said.as_deref(),
            Some("spine1 announces no route to 198.51.100.2")
        );
        assert_eq!(why(&live, &topology, "leaf1:eth1--spine1:eth1"), None);
        assert_eq!(why(&live, &topology, "leaf2:eth2--spine2:eth2"), None);
        let near = topology.link("leaf1:eth1--spine1:eth1").unwrap();
        assert_eq!(live.unconfirmed(near), None);
    }

    #[test]
    fn a_super_spine_confirms_the_link_to_a_spine_by_a_leaf_below_it() {
        let mut fabric = declared(3, 2);
        fabric.switches.push(v1::Switch {
            name: "core1".to_owned(),
            role: v1::SwitchRole::Spine.into(),
            tier: Some(3),
            ..v1::Switch::default()
        });
        let end = |switch: &str, address: &str| v1::LinkEnd {
            switch_name: switch.to_owned(),
            interface_name: format!("up-{address}"),
            address: address.to_owned(),
        };
        fabric.links.push(v1::Link {
            name: "core-link".to_owned(),
            a: Some(end("core1", "192.1.3.0")),
            b: Some(end("spine1", "192.1.3.1")),
            capacity_bps: 1,
            ..v1::Link::default()
        });
        let topology = Topology::new(&fabric).unwrap();
        let up = topology.link("core-link").unwrap();
        let look = |leaves: &[u8]| {
            let live = Live::new(&topology, &announced("core1", leaves), &BTreeMap::new());
            live.unconfirmed(up).map(|why| why.to_string())
        };
        assert_eq!(look(&[3]), None);
        assert_eq!(look(&[]).as_deref(), Some("nobody announces the way"));
        let other = look(&[9]);
        assert_eq!(
            other.as_deref(),
            Some("core1 announces no route to 198.51.100.1")
        );
    }

    #[test]
    fn a_spine_without_a_session_confirms_nothing_and_denies_nothing() {
        let topology = leaf_spine(2, 2);
        let announced = [("spine1".into(), SpineRoutes::NoSession)].into();
        let live = Live::new(&topology, &announced, &BTreeMap::new());
        assert_eq!(why(&live, &topology, FAR), None);
        let said = live.unconfirmed(topology.link(FAR).unwrap());
        let said = said.map(|why| why.to_string());
        assert_eq!(said.as_deref(), Some("spine1 has no BGP session to weft"));
    }

    #[test]
    fn a_spine_that_begins_confirms_what_it_announces_and_denies_nothing() {
        let topology = leaf_spine(2, 2);
        let routes = SpineRoutes::Beginning([vtep(1)].into());
        let announced = [("spine1".into(), routes)].into();
        let live = Live::new(&topology, &announced, &BTreeMap::new());
        assert_eq!(why(&live, &topology, FAR), None);
        let near = topology.link("leaf1:eth1--spine1:eth1").unwrap();
        assert_eq!(live.unconfirmed(near), None);
    }

    #[test]
    fn a_spine_that_announces_no_vtep_at_all_denies_nothing() {
        let topology = leaf_spine(2, 2);
        let live = Live::new(&topology, &announced("spine1", &[]), &BTreeMap::new());
        assert_eq!(why(&live, &topology, FAR), None);
        let link = topology.link(FAR).unwrap();
        assert_eq!(live.unconfirmed(link), Some(Unusable::Unconfirmed));
    }

    #[test]
    fn an_interface_that_is_down_or_missing_at_either_end_takes_the_link_down() {
        let topology = leaf_spine(2, 2);
        let leaf2: Interfaces = [("eth1".to_owned(), false)].into();
        let interfaces = [("leaf2".into(), Arc::new(leaf2))].into();
        let live = Live::new(&topology, &announced("spine1", &[1, 2]), &interfaces);
        let said = |link| why(&live, &topology, link);
        assert_eq!(said(FAR).as_deref(), Some("leaf2: eth1 is down"));
        assert_eq!(
            said("leaf2:eth2--spine2:eth2").as_deref(),
            Some("leaf2: there is no interface eth2")
        );
        assert_eq!(said("leaf1:eth1--spine1:eth1"), None);
    }
}
