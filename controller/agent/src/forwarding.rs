//! What a switch can be told, and what it can be asked: next hops, weighted groups, routes in a
//! table of their own, the rule that looks it up, links, and what the switch's own routing has.
//! Knows nothing of gRIBI, of elections, or of why a group has the weights it has.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::IpAddr;

use ipnet::IpNet;

pub use self::own::{Own, OwnHop, OwnRoute};

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
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The id of a next hop.
    pub next_hop: u32,
    /// The member's share is weight / sum of weights. From 1 to [`WEIGHT_MAX`].
    pub weight: u16,
}

/// One change, in the order in which the agent wants it. Puts replace in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates or replaces a next hop.
    PutNextHop(u32, Path),
    /// Creates or replaces a group. Routes that use it are not touched.
    PutGroup(u32, Vec<Member>),
    /// Points a prefix at a group.
    PutRoute(IpNet, u32),
    /// Removes the route to a prefix.
    DeleteRoute(IpNet),
    /// Removes a group.
    DeleteGroup(u32),
    /// Removes a next hop.
    DeleteNextHop(u32),
    /// Has packets of this family look up the agent's table before the main one.
    PutRule(Family),
    /// Leaves packets of this family to the main table.
    DeleteRule(Family),
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
    /// The group that each prefix uses.
    pub routes: BTreeMap<IpNet, u32>,
    /// The families whose packets look up the agent's table.
    pub rules: BTreeSet<Family>,
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
    /// Octets sent since it came into being, as the kernel counts.
    pub tx_octets: u64,
    /// Octets received, likewise.
    pub rx_octets: u64,
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
    /// Returns when something else than the agent has changed the switch. May be dropped and
    /// called again without losing a change.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;
}

/// The kernel keeps weight - 1 in eight bits (`struct nexthop_grp`); newer kernels have eight more,
/// which the agent does not use, so that one plan suits all kernels.
pub const WEIGHT_MAX: u16 = 256;
