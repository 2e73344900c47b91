//! What a switch can be told, and what it can be asked: next hops, weighted groups, routes in
//! tables of their own, the rules that look them up, links, and what the switch's own routing has.
//! Knows nothing of gRIBI, of elections, or of why a group has the weights it has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::ops::Bound;

use ipnet::{IpNet, Ipv4Net};

pub(crate) use self::netlink::ethtool;
pub use self::own::{Own, OwnHop, OwnRoute};
use crate::instance::Source;

pub mod kernel;
mod netlink;
mod own;
pub mod recorded;

/// Where packets that use one next hop go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The neighbour; `None` when the destination itself is on the link.
    pub gateway: Option<IpAddr>,
    /// The index of the link.
    pub interface: u32,
}

/// One member of a group.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The id of a next hop.
    pub next_hop: u32,
    /// The member's share is weight / sum of weights. From 1 to [`WEIGHT_MAX`].
    pub weight: u16,
}

/// Which of the agent's tables: the one of the weights, or one for pins to a group. Packets have a mark for each; where a pin's
/// table has no route for them, they go by the weights.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u8);

impl Slot {
    /// The table of the weights. All others are for pins.
    pub const WEIGHTS: Self = Self(0);
}

/// Packets that are pinned: what leaves through a VXLAN device from this source for this destination, with this protocol and source
/// port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pin {
    /// The name of the device.
    pub device: String,
    /// Where the inner packet comes from.
    pub source: Source,
    /// The destination of the inner packet; None: whatever it is, of packets that come from a port.
    pub destination: Option<IpAddr>,
    /// Protocol and source port; None: whatever they are.
    pub port: Option<(u8, u16)>,
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "through {}", self.device)?;
        match self.source {
            Source::Any => {}
            Source::Address(address) => write!(f, " from {address}")?,
            Source::Port(port) => write!(f, " from {port}")?,
        }
        match self.destination {
            Some(destination) => write!(f, " to {destination}"),
            None => Ok(()),
        }
    }
}

/// The tables by which pinned packets are routed.
pub type Pins = BTreeMap<Pin, Slot>;

/// One change, in the order in which the agent wants it. Puts replace in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates or replaces a next hop.
    PutNextHop(u32, Path),
    /// Creates or replaces a group. Routes that use it are not touched.
    PutGroup(u32, Vec<Member>),
    /// Points a prefix at a group.
    PutRoute(Slot, IpNet, u32),
    /// Removes the route to a prefix.
    DeleteRoute(Slot, IpNet),
    /// Removes a group.
    DeleteGroup(u32),
    /// Removes a next hop.
    DeleteNextHop(u32),
    /// Has packets of this family, with the mark of the table, look it up before the main one.
    PutRule(Slot, Family),
    /// Leaves them to the tables behind.
    DeleteRule(Slot, Family),
}

/// A family of addresses: each has tables and rules of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of a prefix.
    #[must_use]
    pub fn of(prefix: IpNet) -> Self {
        match prefix {
            IpNet::V4(_) => Self::V4,
            IpNet::V6(_) => Self::V6,
        }
    }
}

/// The agent's own objects, as the switch has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Next hops by id.
    pub next_hops: BTreeMap<u32, Path>,
    /// Groups by id.
    pub groups: BTreeMap<u32, Vec<Member>>,
    /// The group that each prefix uses by the weights.
    pub routes: BTreeMap<IpNet, u32>,
    /// The group that each prefix uses in the tables of pins.
    pub pin_routes: BTreeMap<(Slot, IpNet), u32>,
    /// The families whose packets look up the table of the weights.
    pub rules: BTreeSet<Family>,
    /// The families whose packets look up the tables of pins.
    pub pin_rules: BTreeSet<(Slot, Family)>,
}

impl Installed {
    /// Takes a route, or forgets it; the group that it had.
    pub fn set_route(&mut self, slot: Slot, prefix: IpNet, group: Option<u32>) -> Option<u32> {
        match (slot, group) {
            (Slot::WEIGHTS, Some(group)) => self.routes.insert(prefix, group),
            (Slot::WEIGHTS, None) => self.routes.remove(&prefix),
            (_, Some(group)) => self.pin_routes.insert((slot, prefix), group),
            (_, None) => self.pin_routes.remove(&(slot, prefix)),
        }
    }

    /// Whether a table has a route of a family. Prefixes are in order of their families.
    #[must_use]
    pub fn has_route(&self, slot: Slot, family: Family) -> bool {
        let last = || match slot {
            Slot::WEIGHTS => self.routes.keys().next_back().copied(),
            _ => self.of_slot(slot).next_back(),
        };
        let first = match slot {
            Slot::WEIGHTS => self.routes.keys().next().copied(),
            _ => self.of_slot(slot).next(),
        };
        let of_family = |prefix: IpNet| Family::of(prefix) == family;
        first.is_some_and(of_family) || last().is_some_and(of_family)
    }

    /// Prefixes in the table of a slot of pins.
    pub fn of_slot(&self, slot: Slot) -> impl DoubleEndedIterator<Item = IpNet> + '_ {
        let first = |slot| (slot, IpNet::V4(Ipv4Net::default()));
        let begin = Bound::Included(first(slot));
        let end = match slot.0.checked_add(1) {
            Some(next) => Bound::Excluded(first(Slot(next))),
            None => Bound::Unbounded,
        };
        self.pin_routes
            .range((begin, end))
            .map(|((_, prefix), _)| *prefix)
    }

    /// Takes a rule, or forgets it. Whether it was not so before.
    pub fn set_rule(&mut self, slot: Slot, family: Family, there: bool) -> bool {
        match (slot, there) {
            (Slot::WEIGHTS, true) => self.rules.insert(family),
            (Slot::WEIGHTS, false) => self.rules.remove(&family),
            (_, true) => self.pin_rules.insert((slot, family)),
            (_, false) => self.pin_rules.remove(&(slot, family)),
        }
    }
}

/// A link of the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The kernel's number of it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Administratively up, and with carrier.
    pub up: bool,
    /// Its addresses, with the length of the connected subnet.
    pub addresses: Vec<IpNet>,
    /// Whether it is a VXLAN device: what leaves through it is encapsulated.
    pub vxlan: bool,
    /// The VNI of a VXLAN device that has one.
    pub vni: Option<u32>,
    /// Octets sent since it came into being, as the kernel counts.
    pub tx_octets: u64,
    /// Octets received, likewise.
    pub rx_octets: u64,
}

impl Link {
    /// Whether nftables can read its name. Nobody gives others.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\\' | '*');
        !self.name.contains(odd)
    }
}

/// An interface as telemetry shows it: more of a link than programming needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's number of it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether somebody set it up.
    pub admin_up: bool,
    /// Administratively up, and with carrier: the same as [`Link::up`].
    pub up: bool,
    /// Whether it works.
    pub oper: OperStatus,
    /// Octets of the largest packet.
    pub mtu: u32,
    /// What the kernel counts.
    pub counters: Counters,
    /// What its driver counts. Not asked for with the rest: whoever shows it fills it in.
    pub pause: PauseFrames,
}

/// RFC 2863 `ifOperStatus`, as `IF_OPER_*` of linux/if.h has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of RFC 2863")]
pub enum OperStatus {
    Up,
    Down,
    Testing,
    Unknown,
    Dormant,
    NotPresent,
    LowerLayerDown,
}

/// Counters of an interface since it came into being: `rtnl_link_stats64`, and `IFLA_CARRIER_CHANGES`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of openconfig-interfaces")]
pub struct Counters {
    pub in_octets: u64,
    pub in_pkts: u64,
    pub in_errors: u64,
    pub in_discards: u64,
    pub out_octets: u64,
    pub out_pkts: u64,
    pub out_errors: u64,
    pub out_discards: u64,
    pub carrier_transitions: u64,
}

/// IEEE 802.3 annex 31B pause frames of an interface since it came into being; `None` where its driver does not count them.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PauseFrames {
    /// The neighbour wants us to be silent for a while.
    pub received: Option<u64>,
    /// We want the neighbour to be.
    pub sent: Option<u64>,
}

/// Everything that the agent wants to know of a switch, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Own objects.
    pub installed: Installed,
    /// All links.
    pub links: Vec<Link>,
    /// What the switch's own routing has.
    pub own: Own,
    /// Routes of others in the agent's table.
    pub foreign: Vec<IpNet>,
}

/// A forwarding plane. The kernel ships; the recorded one stands in for it in tests.
pub trait Forwarding: Send + 'static {
    /// Makes one change and says whether it is in force. An error is text for a person.
    fn apply(&mut self, operation: &Operation) -> impl Future<Output = Result<(), String>> + Send;
    /// Reads everything.
    fn observe(&mut self) -> impl Future<Output = Result<Observed, String>> + Send;
    /// Reads the interfaces alone, with their counters.
    fn interfaces(&mut self) -> impl Future<Output = Result<Vec<Interface>, String>> + Send;
    /// Returns when something else than the agent has changed the switch. May be dropped and
    /// called again without losing a change.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;
}

/// The kernel keeps weight - 1 in eight bits (`struct nexthop_grp`); newer kernels have eight more,
/// which the agent does not use, so that one plan suits all kernels.
pub const WEIGHT_MAX: u16 = 256;
