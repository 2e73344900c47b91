//! Who calls, and whether they may. Every handler asks here; knows no call.

use std::fmt;
use std::net::SocketAddr;

use tonic::{Request, Status};

/// Whoever made a call, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    address: Option<SocketAddr>,
}

/// What a call wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// Look at what is declared.
    ReadFabric,
    /// Change what is declared.
    ChangeFabric,
    /// Look at jobs.
    ReadJobs,
    /// Say what runs on the fabric.
    ChangeJobs,
    /// Look at peers and sessions.
    ReadPeers,
    /// Reset a session, or have its routes told again.
    ControlSessions,
    /// Look at routes, and at what they say of the overlay.
    ReadRoutes,
    /// Take freezes and alarms of MAC addresses back.
    ClearDuplicateMacs,
    /// Look at the members of the Raft group.
    ReadReplicas,
    /// Look at plans, and at what switches have of them.
    ReadPlans,
    /// Change what weft does with plans.
    ChangeBalance,
    /// Look at the configuration of a replica.
    ReadConfig,
    /// Make a replica read its file again.
    ReloadConfig,
}

/// Says who calls, if they may. Whoever reaches the port may do everything, so far: there is no authentication.
///
/// # Errors
/// PERMISSION_DENIED.
#[expect(clippy::unnecessary_wraps, reason = "roles will refuse")]
pub(super) fn permit<T>(request: &Request<T>, _: Permission) -> Result<Identity, Status> {
    // One listener takes both families.
    let plain = |it: SocketAddr| SocketAddr::new(it.ip().to_canonical(), it.port());
    let address = request.remote_addr().map(plain);
    Ok(Identity { address })
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => address.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}
