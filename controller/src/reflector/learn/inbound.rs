//! What one peer may announce, and what becomes of what it may not: the inbound half of its group. Knows
//! no route.

use std::sync::Arc;

use ipnet::IpNet;
use weft_bgp::reflect::LocalAs;

use super::total::Total;
use crate::config::{Guard, Limits, PeerGroup, RouteTargetFilter};

/// The inbound policy of a session. It may change while the session is up; what is held stays.
#[derive(Clone, Debug)]
pub struct Inbound {
    /// How much there may be.
    pub limits: Limits,
    /// What is looked at before a route is committed.
    pub guard: Guard,
    /// How often our AS may stand in an AS_PATH.
    pub allow_as_in: u8,
    /// The AS that an ordinary eBGP peer knows us by, where it is another than ours.
    pub local_as: Option<LocalAs>,
    /// A malformed EVPN NLRI ends the session, instead of being discarded. RFC 7606 §5.4 allows either.
    pub strict: bool,
    /// EVPN routes of unknown types are kept for those who want them.
    pub opaque: bool,
    /// What says which routes the peer wants.
    pub route_target_filter: RouteTargetFilter,
    /// Where VTEPs may be that nobody announced yet.
    pub vteps: Arc<[IpNet]>,
    /// Octets that all peers of the replica hold.
    pub total: Total,
}

impl Inbound {
    /// The policy of a group, in a fabric with these VTEPs, at a replica whose peers hold that much.
    pub fn of(group: &PeerGroup, vteps: Arc<[IpNet]>, total: &Total) -> Self {
        Self {
            limits: group.limits.clone(),
            guard: group.guard,
            allow_as_in: group.allow_as_in,
            local_as: group.local_as,
            strict: group.strict,
            opaque: group.opaque_relay,
            route_target_filter: group.route_target_filter,
            vteps,
            total: total.clone(),
        }
    }
}

/// Everything that is well-formed, and our AS nowhere.
impl Default for Inbound {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            guard: Guard::default(),
            allow_as_in: 0,
            local_as: None,
            strict: false,
            opaque: false,
            route_target_filter: RouteTargetFilter::Off,
            vteps: Arc::default(),
            total: Total::default(),
        }
    }
}
