//! A forwarding plane in memory, with the kernel's rules about references, that remembers what it
//! was told. Knows no netlink.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use tokio::sync::Notify;

use super::{
    Counters, Forwarding, Installed, Interface, Link, Observed, OperStatus, Operation, Own,
    PauseFrames,
};

/// A handle to the recorded plane; clones share it.
#[derive(Clone, Default)]
pub struct Recorded {
    plane: Arc<Mutex<Plane>>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct Plane {
    observed: Observed,
    told: Vec<Operation>,
    refuse: Option<String>,
    looks: u64,
}

impl Recorded {
    /// A plane with these links and nothing installed, and without a routing of its own.
    #[must_use]
    pub fn new(links: Vec<Link>) -> Self {
        let recorded = Self::default();
        recorded.plane().observed.links = links;
        recorded.plane().observed.own = Own::Everything;
        recorded
    }

    /// Gives the switch a routing of its own, or changes it.
    pub fn route(&self, own: Own) {
        self.plane().observed.own = own;
        self.changed.notify_one();
    }

    /// Puts a route of somebody else into the agent's table, or takes all of them away.
    pub fn trespass(&self, prefix: Option<IpNet>) {
        self.plane().observed.foreign = prefix.into_iter().collect();
        self.changed.notify_one();
    }

    /// Takes the rules away, as another hand does.
    pub fn remove_rules(&self) {
        let installed = &mut self.plane().observed.installed;
        installed.rules.clear();
        installed.pin_rules.clear();
        self.changed.notify_one();
    }

    /// Every operation so far, the refused ones included.
    #[must_use]
    pub fn told(&self) -> Vec<Operation> {
        self.plane().told.clone()
    }

    /// What is installed now.
    #[must_use]
    pub fn installed(&self) -> Installed {
        self.plane().observed.installed.clone()
    }

    /// How often it was read.
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.plane().looks
    }

    /// Refuses every change with this text from now on; `None` ends it.
    pub fn refuse(&self, why: Option<&str>) {
        self.plane().refuse = why.map(str::to_owned);
    }

    /// Takes a link up or down as the kernel does: next hops on a link that goes down are dropped
    /// from it, from their groups, and groups without members from their routes.
    pub fn turn(&self, name: &str, up: bool) {
        self.plane().turn(name, up);
        self.changed.notify_one();
    }

    fn plane(&self) -> MutexGuard<'_, Plane> {
        self.plane.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plane {
    fn turn(&mut self, name: &str, up: bool) {
        let Observed {
            installed, links, ..
        } = &mut self.observed;
        let Some(link) = links.iter_mut().find(|link| link.name == name) else {
            return;
        };
        link.up = up;
        if up {
            return;
        }
        let index = link.index;
        installed
            .next_hops
            .retain(|_, path| path.interface != index);
        installed.drop_dangling();
    }

    fn apply(&mut self, operation: &Operation) -> Result<(), String> {
        self.told.push(operation.clone());
        if let Some(why) = &self.refuse {
            return Err(why.clone());
        }
        let links = &self.observed.links;
        let installed = &mut self.observed.installed;
        match operation {
            Operation::PutNextHop(id, path) => {
                let up = links
                    .iter()
                    .any(|link| link.index == path.interface && link.up);
                require(up, "link is down")?;
                installed.next_hops.insert(*id, path.clone());
            }
            Operation::PutGroup(id, members) => {
                let known = |id| installed.next_hops.contains_key(id);
                let all = members.iter().all(|member| known(&member.next_hop));
                require(!members.is_empty() && all, "member does not exist")?;
                installed.groups.insert(*id, members.clone());
            }
            Operation::PutRoute(slot, prefix, group) => {
                require(installed.groups.contains_key(group), "no such group")?;
                installed.set_route(*slot, *prefix, Some(*group));
            }
            Operation::DeleteRoute(slot, prefix) => {
                installed.set_route(*slot, *prefix, None);
            }
            Operation::DeleteGroup(id) => {
                installed.groups.remove(id);
                installed.drop_dangling();
            }
            Operation::DeleteNextHop(id) => {
                installed.next_hops.remove(id);
                installed.drop_dangling();
            }
            Operation::PutRule(slot, family) => {
                installed.set_rule(*slot, *family, true);
            }
            Operation::DeleteRule(slot, family) => {
                installed.set_rule(*slot, *family, false);
            }
        }
        Ok(())
    }
}

impl Installed {
    fn drop_dangling(&mut self) {
        let Self {
            next_hops,
            groups,
            routes,
            pin_routes,
            rules: _,
            pin_rules: _,
        } = self;
        for members in groups.values_mut() {
            members.retain(|member| next_hops.contains_key(&member.next_hop));
        }
        groups.retain(|_, members| !members.is_empty());
        routes.retain(|_, group| groups.contains_key(group));
        pin_routes.retain(|_, group| groups.contains_key(group));
    }
}

impl Forwarding for Recorded {
    async fn apply(&mut self, operation: &Operation) -> Result<(), String> {
        self.plane().apply(operation)
    }

    async fn observe(&mut self) -> Result<Observed, String> {
        let mut plane = self.plane();
        plane.looks += 1;
        Ok(plane.observed.clone())
    }

    async fn interfaces(&mut self) -> Result<Vec<Interface>, String> {
        let plane = self.plane();
        let links = plane.observed.links.iter();
        Ok(links.map(interface).collect())
    }

    async fn changed(&mut self) {
        self.changed.notified().await;
    }
}

/// A link that is not up has no carrier; nothing counts errors.
fn interface(link: &Link) -> Interface {
    Interface {
        index: link.index,
        name: link.name.clone(),
        admin_up: true,
        up: link.up,
        oper: if link.up {
            OperStatus::Up
        } else {
            OperStatus::Down
        },
        mtu: 1500,
        counters: Counters {
            in_octets: link.rx_octets,
            out_octets: link.tx_octets,
            ..Counters::default()
        },
        pause: PauseFrames::default(),
    }
}

fn require(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}
