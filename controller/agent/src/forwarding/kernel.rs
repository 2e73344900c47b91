//! The Linux kernel as a forwarding plane: next-hop objects, groups, routes in a table of their own
//! that name a group, and the rule by which marked packets look that table up before the main one.
//! Knows nothing of gRIBI, and touches only what has its own protocol number.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use tokio::sync::Notify;

use super::netlink::{Netlink, Put, Tables};
use super::{Forwarding, Interface, Observed, Operation, Slot};

/// The numbers by which the agent's objects are known in the kernel.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The protocol number of routes, next hops and rules.
    pub protocol: u8,
    /// The routing table of the weights; neither main, local nor default. Those of pins are 1000 times that, and their slot.
    pub table: u8,
    /// The priority of the rules; below 32766, the main table's. Those of pins come one before.
    pub priority: u32,
    /// The mark of packets that look the table up. Pinned packets have their slot in the eight bits behind the mask too.
    pub mark: u32,
    /// Which bits of a packet's mark are the agent's.
    pub mask: u32,
}

impl Numbers {
    /// The routing table of a slot.
    #[must_use]
    pub fn table_of(&self, slot: Slot) -> u32 {
        match slot {
            Slot::WEIGHTS => self.table.into(),
            Slot(slot) => u32::from(self.table) * 1_000 + u32::from(slot),
        }
    }

    /// The slot of a routing table, if it is one of the agent's.
    #[must_use]
    pub fn slot_of(&self, table: u32) -> Option<Slot> {
        if table == u32::from(self.table) {
            return Some(Slot::WEIGHTS);
        }
        let slot = table.checked_sub(u32::from(self.table) * 1_000)?;
        u8::try_from(slot).ok().filter(|slot| *slot > 0).map(Slot)
    }

    /// The mark, and the bits of it that count, of packets that look up the table of a slot.
    #[must_use]
    pub fn mark_of(&self, slot: Slot) -> (u32, u32) {
        let shift = self.slot_shift();
        match slot {
            Slot::WEIGHTS => (self.mark, self.mask),
            Slot(slot) => (
                self.mark | u32::from(slot) << shift,
                self.mask | 0xff << shift,
            ),
        }
    }

    /// The bits of a mark that are the agent's: those of the mask, and those of slots if there is room for them.
    #[must_use]
    pub fn bits(&self) -> u32 {
        match self.has_slots() {
            true => self.mask | 0xff << self.slot_shift(),
            false => self.mask,
        }
    }

    /// Where the eight bits of the slot begin in a mark: right below the mask.
    fn slot_shift(&self) -> u32 {
        self.mask.trailing_zeros().saturating_sub(8)
    }

    /// Whether there are eight bits below the mask for slots.
    #[must_use]
    pub fn has_slots(&self) -> bool {
        (8..32).contains(&self.mask.trailing_zeros())
    }
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            protocol: 155,
            table: 155,
            priority: 1550,
            mark: 0x5700_0000,
            mask: 0xff00_0000,
        }
    }
}

/// The kernel of this network namespace.
#[derive(Debug)]
pub struct Kernel {
    netlink: Netlink,
    changed: Arc<Notify>,
    numbers: Numbers,
    /// What the kernel has of ours, by id and by prefix: only that is ever replaced.
    ids: BTreeSet<u32>,
    prefixes: BTreeSet<(Slot, IpNet)>,
}

impl Kernel {
    /// Opens the sockets.
    ///
    /// # Errors
    ///
    /// When the kernel does not give netlink sockets.
    pub fn open(numbers: Numbers) -> io::Result<Self> {
        let netlink = Netlink::open()?;
        let changed = netlink.watch()?;
        Ok(Self {
            netlink,
            changed,
            numbers,
            ids: BTreeSet::new(),
            prefixes: BTreeSet::new(),
        })
    }

    /// Removes the rules: packets take the main table from now on. How many there were.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub async fn bypass(&mut self) -> io::Result<usize> {
        self.netlink.delete_rules(self.numbers).await
    }

    /// Removes everything with the protocol number, the rules first. How many objects there were.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub async fn clean(&mut self) -> io::Result<usize> {
        let rules = self.bypass().await?;
        self.ids.clear();
        self.prefixes.clear();
        Ok(rules + self.netlink.delete_all(self.numbers).await?)
    }

    async fn change(&mut self, operation: &Operation) -> io::Result<()> {
        let (netlink, numbers) = (&self.netlink, self.numbers);
        let put = |known| if known { Put::Over } else { Put::New };
        match operation {
            Operation::PutNextHop(id, path) => {
                let put = put(self.ids.contains(id));
                netlink.put_next_hop(*id, path, put, numbers).await?;
                self.ids.insert(*id);
            }
            Operation::PutGroup(id, members) => {
                let put = put(self.ids.contains(id));
                netlink.put_group(*id, members, put, numbers).await?;
                self.ids.insert(*id);
            }
            Operation::PutRoute(slot, prefix, group) => {
                let put = put(self.prefixes.contains(&(*slot, *prefix)));
                netlink
                    .put_route(*slot, *prefix, *group, put, numbers)
                    .await?;
                self.prefixes.insert((*slot, *prefix));
            }
            Operation::DeleteRoute(slot, prefix) => {
                netlink.delete_route(*slot, *prefix, numbers).await?;
                self.prefixes.remove(&(*slot, *prefix));
            }
            Operation::DeleteGroup(id) | Operation::DeleteNextHop(id) => {
                netlink.delete_next_hop(*id).await?;
                self.ids.remove(id);
            }
            Operation::PutRule(slot, family) => netlink.put_rule(*slot, *family, numbers).await?,
            Operation::DeleteRule(slot, family) => {
                netlink.delete_rule(*slot, *family, numbers).await?;
            }
        }
        Ok(())
    }

    async fn look(&mut self) -> io::Result<Observed> {
        let links = self.netlink.links().await?;
        let Tables {
            installed,
            own,
            foreign,
        } = self.netlink.tables(self.numbers).await?;
        let ids = installed.next_hops.keys().chain(installed.groups.keys());
        self.ids = ids.copied().collect();
        let weights = installed.routes.keys();
        let weights = weights.map(|prefix| (Slot::WEIGHTS, *prefix));
        self.prefixes = weights
            .chain(installed.pin_routes.keys().copied())
            .collect();
        Ok(Observed {
            installed,
            links,
            own,
            foreign,
        })
    }
}

impl Forwarding for Kernel {
    async fn apply(&mut self, operation: &Operation) -> Result<(), String> {
        let outcome = self.change(operation).await;
        outcome.map_err(|error| format!("the kernel refused {operation:?}: {error}"))
    }

    async fn observe(&mut self) -> Result<Observed, String> {
        self.look().await.map_err(|error| error.to_string())
    }

    async fn interfaces(&mut self) -> Result<Vec<Interface>, String> {
        let interfaces = self.netlink.interfaces().await;
        interfaces.map_err(|error| error.to_string())
    }

    async fn changed(&mut self) {
        self.changed.notified().await;
    }
}

/// A setting of the kernel, by its path below /proc/sys, and a value of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    path: String,
    value: String,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.path, self.value)
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, value) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?} is not PATH=VALUE"))?;
        Ok(Self {
            path: path.into(),
            value: value.into(),
        })
    }
}

/// Makes the kernel spread flows by addresses and ports, not by addresses alone: the entropy of
/// VXLAN and RoCE is in the UDP source port. What was there before, if that was something else.
///
/// # Errors
///
/// When the kernel's settings can not be written.
pub fn hash_ports_too() -> io::Result<Vec<Setting>> {
    let mut changed = Vec::new();
    for family in ["ipv4", "ipv6"] {
        let path = format!("/proc/sys/net/{family}/fib_multipath_hash_policy");
        let before = match fs::read_to_string(&path) {
            Ok(before) => before,
            // A kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let value = before.trim().to_owned();
        if value == LAYER_4 {
            continue;
        }
        fs::write(&path, LAYER_4)?;
        tracing::info!(
            path,
            before = value,
            after = LAYER_4,
            "set the multipath hash policy"
        );
        changed.push(Setting { path, value });
    }
    Ok(changed)
}

/// Writes settings back, as the last thing that the agent or its guardian does.
pub fn put_back(settings: &[Setting]) {
    for Setting { path, value } in settings {
        if let Err(error) = fs::write(path, value) {
            tracing::warn!(path, %error, "could not put back");
        }
    }
}

const LAYER_4: &str = "1";
