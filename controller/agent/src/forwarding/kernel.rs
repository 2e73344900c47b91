//! The Linux kernel as a forwarding plane: next-hop objects, groups, and routes that name a group.
//! Knows nothing of gRIBI, and touches only what has its own protocol number.

use std::fs;
use std::io;
use std::sync::Arc;

use tokio::sync::Notify;

use super::netlink::{Mark, Netlink};
use super::{Forwarding, Observed, Operation};

/// The kernel of this network namespace.
#[derive(Debug)]
pub struct Kernel {
    netlink: Netlink,
    changed: Arc<Notify>,
    mark: Mark,
}

impl Kernel {
    /// Opens the sockets. `protocol` marks next hops and routes as the agent's; `metric` is below
    /// that of the switch's own routing (zebra: 20), so that the agent's routes win while they are
    /// there.
    ///
    /// # Errors
    ///
    /// When the kernel does not give netlink sockets.
    pub fn open(protocol: u8, metric: u32) -> io::Result<Self> {
        let netlink = Netlink::open()?;
        let changed = Netlink::watch()?;
        Ok(Self {
            netlink,
            changed,
            mark: Mark { protocol, metric },
        })
    }
}

impl Forwarding for Kernel {
    async fn apply(&mut self, operation: &Operation) -> Result<(), String> {
        let (netlink, mark) = (&self.netlink, self.mark);
        let outcome = match operation {
            Operation::PutNextHop(id, path) => netlink.put_next_hop(*id, path, mark).await,
            Operation::PutGroup(id, members) => netlink.put_group(*id, members, mark).await,
            Operation::PutRoute(prefix, group) => netlink.put_route(*prefix, *group, mark).await,
            Operation::DeleteRoute(prefix) => netlink.delete_route(*prefix, mark).await,
            Operation::DeleteGroup(id) | Operation::DeleteNextHop(id) => {
                netlink.delete_next_hop(*id).await
            }
        };
        outcome.map_err(|error| format!("the kernel refused {operation:?}: {error}"))
    }

    async fn observe(&mut self) -> Result<Observed, String> {
        let links = self
            .netlink
            .links()
            .await
            .map_err(|error| error.to_string())?;
        let installed = self
            .netlink
            .installed(self.mark)
            .await
            .map_err(|error| error.to_string())?;
        Ok(Observed { installed, links })
    }

    async fn changed(&mut self) {
        self.changed.notified().await;
    }
}

/// Makes the kernel spread flows by addresses and ports, not by addresses alone: the entropy of
/// RoCE is in the UDP source port.
///
/// # Errors
///
/// When the kernel's settings can not be written.
pub fn hash_ports_too() -> io::Result<()> {
    for family in ["ipv4", "ipv6"] {
        let path = format!("/proc/sys/net/{family}/fib_multipath_hash_policy");
        let before = match fs::read_to_string(&path) {
            Ok(before) => before,
            // A kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let before = before.trim();
        if before == LAYER_4 {
            tracing::info!(path, "multipath hash policy is layer 4 already");
        } else {
            fs::write(&path, LAYER_4)?;
            tracing::info!(
                path,
                before,
                after = LAYER_4,
                "set the multipath hash policy"
            );
        }
    }
    Ok(())
}

const LAYER_4: &str = "1";
