//! MAC addresses per VNI and IP addresses per MAC address of one peer, where somebody limits them. Knows
//! no session; the counting is `weft_evpn::limits`'.

use std::collections::BTreeSet;

use bytes::Bytes;
use foldhash::HashSet;
use weft_bgp::attribute::Attributes;
use weft_evpn::Route;
use weft_evpn::limits::{self, Counts, Limit, LimitHit};

use super::bounds::{Bound, Warning, has_room};
use crate::config::{LimitAction, Limits};

/// The hosts behind a peer; counted only while there is a limit.
#[derive(Debug, Default)]
pub struct Hosts {
    counts: Option<Counts>,
    /// Routes that are kept although they were one too many.
    uncounted: HashSet<Bytes>,
    /// Limits that refused a route, until there is room; [`FULL_MAX`] at most.
    full: BTreeSet<Limit>,
}

/// A route as it is counted: where it is held, and what it says.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// Its key.
    pub key: &'a Bytes,
    /// What it is.
    pub route: &'a Route,
    /// Its attributes.
    pub attributes: &'a Attributes,
}

impl Hosts {
    /// Counts by these limits from now on. Whether what is held has to be counted first.
    pub fn limit(&mut self, limits: &Limits) -> bool {
        if limits.macs_per_vni.is_none() && limits.ips_per_mac.is_none() {
            *self = Self::default();
            return false;
        }
        let limits = limits::Limits {
            warn_percent: limits.warn_percent,
            macs_per_vni: limits.macs_per_vni.unwrap_or(u64::MAX),
            ips_per_mac: limits.ips_per_mac.unwrap_or(u64::MAX),
            routes_per_type: u64::MAX,
        };
        match &mut self.counts {
            Some(counts) => {
                counts.limit(limits);
                false
            }
            none => {
                *none = Some(Counts::new(limits));
                true
            }
        }
    }

    /// Whether anybody counts.
    pub fn is_counting(&self) -> bool {
        self.counts.is_some()
    }

    /// Counts what is held, or will be. The bound that it breaks; then it is not counted, and `old` neither.
    ///
    /// # Errors
    /// The bound, where it shall not be kept.
    pub fn admit(
        &mut self,
        old: Option<(&Route, &Attributes)>,
        new: Host<'_>,
        action: LimitAction,
    ) -> Result<Option<Warning>, Bound> {
        let Some(counts) = &mut self.counts else {
            return Ok(None);
        };
        let counted = !self.uncounted.remove(new.key);
        let admitted = match old.filter(|_| counted) {
            Some(old) => counts.replace(old, (new.route, new.attributes)),
            None => counts.admit(new.route, new.attributes),
        };
        match admitted {
            Ok(near) => Ok(near.map(|near| Warning {
                bound: bound(near.limit),
                count: near.count,
                limit: near.max,
            })),
            Err(LimitHit { limit, max }) if action == LimitAction::Warn => {
                self.uncounted.insert(new.key.clone());
                Ok(Some(Warning {
                    bound: bound(limit),
                    count: max,
                    limit: max,
                }))
            }
            Err(LimitHit { limit, .. }) => {
                if self.full.len() < FULL_MAX {
                    self.full.insert(limit);
                }
                Err(bound(limit))
            }
        }
    }

    /// Whether a limit that refused a route has room now; said once of each.
    pub fn take_room(&mut self, limits: &Limits) -> bool {
        let Some(counts) = self.counts.as_ref().filter(|_| !self.full.is_empty()) else {
            return false;
        };
        let before = self.full.len();
        self.full.retain(|full| {
            let (count, limit) = match full {
                Limit::MacsPerVni(vni) => (counts.macs(*vni), limits.macs_per_vni),
                Limit::IpsPerMac(vni, mac) => (counts.ips(*vni, *mac), limits.ips_per_mac),
                Limit::RoutesPerType(_) => (0, None),
            };
            limit.is_some_and(|limit| !has_room(count, limit))
        });
        self.full.len() < before
    }

    /// What was refused is asked for by somebody else.
    pub fn forget_refused(&mut self) {
        self.full.clear();
    }

    /// A route that was kept is gone.
    pub fn release(&mut self, host: Host<'_>) {
        if self.uncounted.remove(host.key) {
            return;
        }
        if let Some(counts) = &mut self.counts {
            counts.release(host.route, host.attributes);
        }
    }
}

fn bound(limit: Limit) -> Bound {
    match limit {
        Limit::MacsPerVni(vni) => Bound::MacsPerVni(vni.number()),
        Limit::IpsPerMac(vni, _) => Bound::IpsPerMac(vni.number()),
        Limit::RoutesPerType(route_type) => Bound::Type(route_type),
    }
}

/// Full limits that are remembered. What is refused at others is not asked for by itself; but whoever is asked
/// says all its routes.
const FULL_MAX: usize = 1_024;
