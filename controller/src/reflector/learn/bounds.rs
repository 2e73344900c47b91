//! How many routes one peer holds, and how many it may: by family and by EVPN route type. Knows no
//! route; MAC addresses and hosts are counted by `weft_evpn::limits`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use weft_bgp::family::Family;

use crate::config::Limits;

/// Something of which there may be only so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// Routes of all families.
    Routes,
    /// Routes of one family.
    Family(Family),
    /// EVPN routes of one type.
    Type(u8),
    /// MAC addresses in one VNI.
    MacsPerVni(u32),
    /// IP addresses of one MAC address, in this VNI.
    IpsPerMac(u32),
    /// Octets of path attributes of all routes.
    Octets,
    /// Octets of the routes of all peers.
    Total,
}

/// A bound is near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Which.
    pub bound: Bound,
    /// How much there is.
    pub count: u64,
    /// How much there may be.
    pub limit: u64,
}

/// The counts of one session.
#[derive(Debug, Default)]
pub struct Bounds {
    total: u64,
    octets: u64,
    families: BTreeMap<Family, usize>,
    types: BTreeMap<u8, u64>,
    /// Bounds that were warned of, until they are well below again.
    near: BTreeSet<Bound>,
    /// Bounds that refused a route of this family, until there is room.
    full: BTreeSet<(Bound, Family)>,
}

impl Bounds {
    /// Routes held, by family.
    pub fn families(&self) -> &BTreeMap<Family, usize> {
        &self.families
    }

    /// EVPN routes held, by type.
    pub fn types(&self) -> &BTreeMap<u8, u64> {
        &self.types
    }

    /// The bound that one route more would break.
    pub fn broken(&self, limits: &Limits, family: Family, route_type: Option<u8>) -> Option<Bound> {
        let full = |(bound, count, limit): (Bound, u64, Option<u64>)| {
            limit.is_some_and(|limit| count >= limit).then_some(bound)
        };
        self.each(limits, family, route_type).find_map(full)
    }

    /// True if a value of `new` octets in place of one of `old` goes beyond the limit of octets.
    pub fn overflows(&self, limits: &Limits, old: usize, new: usize) -> bool {
        let after = self.resized(old, new);
        let limit = limits.attribute_octets_total;
        after > self.octets && limit.is_some_and(|limit| after > limit)
    }

    /// Counts a value of `new` octets in place of one of `old`. A route that comes or goes has none before or after.
    pub fn resize(&mut self, old: usize, new: usize) {
        self.octets = self.resized(old, new);
    }

    fn resized(&self, old: usize, new: usize) -> u64 {
        let octets = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let others = self.octets.saturating_sub(octets(old));
        others.saturating_add(octets(new))
    }

    /// One route more is held; the bounds that came near by it.
    pub fn add(&mut self, limits: &Limits, family: Family, route_type: Option<u8>) -> Vec<Warning> {
        self.total += 1;
        *self.families.entry(family).or_default() += 1;
        if let Some(route_type) = route_type {
            *self.types.entry(route_type).or_default() += 1;
        }
        let near = |(bound, count, limit): (Bound, u64, Option<u64>)| {
            let limit = limit?;
            is_near(count, limit, limits.warn_percent).then_some(Warning {
                bound,
                count,
                limit,
            })
        };
        let mut warnings: Vec<_> = self
            .each(limits, family, route_type)
            .filter_map(near)
            .collect();
        warnings.retain(|warning| self.near.insert(warning.bound));
        warnings
    }

    /// One route less is held.
    pub fn remove(&mut self, limits: &Limits, family: Family, route_type: Option<u8>) {
        self.total = self.total.saturating_sub(1);
        if let Some(count) = self.families.get_mut(&family) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = route_type.and_then(|route_type| self.types.get_mut(&route_type)) {
            *count = count.saturating_sub(1);
        }
        if self.near.is_empty() {
            return;
        }
        let far = |(bound, count, limit): (Bound, u64, Option<u64>)| {
            let near =
                limit.is_some_and(|limit| is_near(count, lowered(limit), limits.warn_percent));
            (!near).then_some(bound)
        };
        let far: Vec<_> = self
            .each(limits, family, route_type)
            .filter_map(far)
            .collect();
        far.iter().for_each(|bound| {
            self.near.remove(bound);
        });
    }

    /// A route of this family was refused at a bound.
    pub fn refused(&mut self, bound: Bound, family: Family) {
        self.full.insert((bound, family));
    }

    /// Families of which routes were refused at bounds that have room now: each once.
    pub fn take_room(&mut self, limits: &Limits) -> BTreeSet<Family> {
        if self.full.is_empty() {
            return BTreeSet::new();
        }
        let full = std::mem::take(&mut self.full);
        let (room, full): (BTreeSet<_>, BTreeSet<_>) =
            full.into_iter().partition(|(bound, family)| {
                let route_type = match bound {
                    Bound::Type(route_type) => Some(*route_type),
                    Bound::Routes
                    | Bound::Family(_)
                    | Bound::Octets
                    | Bound::Total
                    | Bound::MacsPerVni(_)
                    | Bound::IpsPerMac(_) => None,
                };
                let mut each = self.each(limits, *family, route_type);
                let found = each.find(|(other, ..)| other == bound);
                found.is_none_or(|(_, count, limit)| {
                    limit.is_none_or(|limit| has_room(count, limit))
                })
            });
        self.full = full;
        room.into_iter().map(|(_, family)| family).collect()
    }

    /// What was refused is asked for by somebody else.
    pub fn forget_refused(&mut self) {
        self.full.clear();
    }

    /// The bounds that a route counts for, with what there is and what there may be.
    fn each(
        &self,
        limits: &Limits,
        family: Family,
        route_type: Option<u8>,
    ) -> impl Iterator<Item = (Bound, u64, Option<u64>)> {
        let held = self.families.get(&family).copied().unwrap_or_default();
        let of_family = (
            Bound::Family(family),
            u64::try_from(held).unwrap_or(u64::MAX),
            limits.families.get(&family).copied(),
        );
        let of_type = route_type.map(|route_type| {
            let held = self.types.get(&route_type).copied().unwrap_or_default();
            let limit = limits.types.get(&route_type).copied();
            (Bound::Type(route_type), held, limit)
        });
        let octets = (Bound::Octets, self.octets, limits.attribute_octets_total);
        [
            (Bound::Routes, self.total, limits.routes),
            of_family,
            octets,
        ]
        .into_iter()
        .chain(of_type)
    }
}

impl Bound {
    /// As a reason in a counter.
    pub fn name(self) -> &'static str {
        match self {
            Self::Routes => "limit of routes",
            Self::Family(_) => "limit of the family",
            Self::Type(_) => "limit of the route type",
            Self::MacsPerVni(_) => "limit of MACs in a VNI",
            Self::IpsPerMac(_) => "limit of IPs of a MAC",
            Self::Octets => "limit of attribute octets",
            Self::Total => "limit of all peers",
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Routes => f.write_str("routes"),
            Self::Family(family) => write!(f, "routes of {family}"),
            Self::Type(route_type) => write!(f, "routes of type {route_type}"),
            Self::MacsPerVni(vni) => write!(f, "MACs in VNI {vni}"),
            Self::IpsPerMac(vni) => write!(f, "IPs of a MAC in VNI {vni}"),
            Self::Octets => f.write_str("octets of attributes"),
            Self::Total => f.write_str("octets of all peers"),
        }
    }
}

/// Octets and percent are far from the end of 128 bits; a product of 32 bits once was not, elsewhere.
fn is_near(count: u64, limit: u64, percent: u8) -> bool {
    u128::from(count) * 100 >= u128::from(limit) * u128::from(percent)
}

/// A twentieth below, so that a peer at the edge does not say all its routes again with each of them.
pub(super) fn has_room(count: u64, limit: u64) -> bool {
    u128::from(count) * 100 < u128::from(limit) * 95
}

/// A tenth below, so that a peer at the edge is not warned of with each route.
fn lowered(limit: u64) -> u64 {
    limit - limit / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVPN: Family = Family::L2VPN_EVPN;

    fn limits(routes: u64) -> Limits {
        Limits {
            routes: Some(routes),
            ..Limits::default()
        }
    }

    #[test]
    fn each_bound_is_found_by_itself() {
        let mut bounds = Bounds::default();
        let none = Limits::default();
        for route_type in [2, 2, 3] {
            bounds.add(&none, EVPN, Some(route_type));
        }
        let of_type = Limits {
            types: BTreeMap::from([(2, 2)]),
            ..Limits::default()
        };
        assert_eq!(bounds.broken(&of_type, EVPN, Some(2)), Some(Bound::Type(2)));
        assert_eq!(bounds.broken(&of_type, EVPN, Some(3)), None);
        let of_family = Limits {
            families: BTreeMap::from([(EVPN, 3)]),
            ..Limits::default()
        };
        assert_eq!(
            bounds.broken(&of_family, EVPN, Some(3)),
            Some(Bound::Family(EVPN))
        );
        assert_eq!(bounds.broken(&of_family, Family::IPV4_UNICAST, None), None);
        assert_eq!(
            bounds.broken(&limits(3), Family::IPV4_UNICAST, None),
            Some(Bound::Routes)
        );
        bounds.remove(&limits(3), EVPN, Some(2));
        assert_eq!(bounds.broken(&limits(3), EVPN, Some(2)), None);
    }

    #[test]
    fn a_warning_comes_once_and_again_after_a_real_fall() {
        let limits = limits(100);
        let mut bounds = Bounds::default();
        let warned = |bounds: &mut Bounds, times: usize| {
            (0..times)
                .map(|_| bounds.add(&limits, EVPN, None).len())
                .sum::<usize>()
        };
        assert_eq!(warned(&mut bounds, 74), 0);
        assert_eq!(warned(&mut bounds, 1), 1);
        bounds.remove(&limits, EVPN, None);
        assert_eq!(warned(&mut bounds, 20), 0);
        (0..40).for_each(|_| bounds.remove(&limits, EVPN, None));
        assert_eq!(warned(&mut bounds, 40), 1);
    }

    /// FRR multiplied in 32 bits: above 16.7 million the warning was lost.
    #[test]
    fn large_limits_do_not_wrap() {
        for limit in [u64::from(u32::MAX) * 3, u64::MAX] {
            assert!(!is_near(limit / 2, limit, 75));
            assert!(is_near(limit / 4 * 3 + 3, limit, 75));
        }
    }
}
