//! How many hosts one peer may announce: MAC addresses per VNI, IP addresses per MAC address, routes per
//! type. It counts what is in one Adj-RIB-In and knows neither the routes nor what is done about a limit.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use weft_bgp::attribute::Attributes;

use crate::mac::Mac;
use crate::route::{MacIp, Route};
use crate::vni::Vni;

/// The largest counts that are admitted.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// MAC addresses in one VNI.
    pub macs_per_vni: u64,
    /// IP addresses of one MAC address in one VNI.
    pub ips_per_mac: u64,
    /// Routes of one route type.
    pub routes_per_type: u64,
    /// A count that reaches so much of its limit is said.
    pub warn_percent: u8,
}

/// Generous: a leaf with all hosts of a large data centre behind it is below them, a loop or a forger is
/// not for long.
impl Default for Limits {
    fn default() -> Self {
        Self {
            macs_per_vni: 131_072,
            ips_per_mac: 1_024,
            routes_per_type: 1_048_576,
            warn_percent: 75,
        }
    }
}

/// Which limit.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Limit {
    /// MAC addresses of this VNI.
    MacsPerVni(Vni),
    /// IP addresses of this MAC address.
    IpsPerMac(Vni, Mac),
    /// Routes of this type.
    RoutesPerType(u8),
}

/// A count has reached [`Limits::warn_percent`] of its limit. Said once on the way up.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Near {
    /// Of which limit.
    pub limit: Limit,
    /// How many there are now.
    pub count: u64,
    /// What it is.
    pub max: u64,
}

/// A route is one too many and is to be dropped; what was admitted before stays.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct LimitHit {
    /// Of which limit.
    pub limit: Limit,
    /// What it is.
    pub max: u64,
}

impl Limit {
    /// What is counted, without of what: for counting.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::MacsPerVni(_) => "MAC addresses of a VNI",
            Self::IpsPerMac(..) => "IP addresses of a MAC address",
            Self::RoutesPerType(_) => "routes of a type",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MacsPerVni(vni) => write!(f, "MAC addresses of VNI {vni}"),
            Self::IpsPerMac(vni, mac) => write!(f, "IP addresses of {mac} in VNI {vni}"),
            Self::RoutesPerType(route_type) => write!(f, "routes of type {route_type}"),
        }
    }
}

impl fmt::Display for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.count, self.max, self.limit)
    }
}

impl fmt::Display for LimitHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} {}", self.max, self.limit)
    }
}

impl std::error::Error for LimitHit {}

/// The counts of one peer.
///
/// ```text
/// type 2 --> macs:   VNI        -> MAC addresses
///            hosts: (VNI, MAC)  -> routes, of which with an IP address
/// any    --> types:  route type -> routes
/// ```
///
/// A MAC address is counted once, by itself or with any of its IP addresses. About 40 octets for each.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    limits: Limits,
    macs: HashMap<Vni, u64>,
    hosts: HashMap<(Vni, Mac), Host>,
    types: HashMap<u8, u64>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
struct Host {
    routes: u64,
    ips: u64,
}

impl Counts {
    /// Nothing is counted yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Changes the limits; what was admitted under the old ones stays.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Counts a route that is in the Adj-RIB-In from now on, and was not. For one that takes another's
    /// place see [`Counts::replace`].
    ///
    /// # Errors
    /// The first limit that it exceeds; then nothing is counted.
    pub fn admit(
        &mut self,
        route: &Route,
        attributes: &Attributes,
    ) -> Result<Option<Near>, LimitHit> {
        let route_type = route.route_type();
        let of_type = self.types.get(&route_type).copied().unwrap_or(0);
        let limit = Limit::RoutesPerType(route_type);
        let mut warning = self.fits(limit, of_type, self.limits.routes_per_type)?;
        if let Some((vni, host)) = place(route, attributes) {
            warning = self.admit_host(vni, host)?.or(warning);
        }
        self.types.insert(route_type, of_type.saturating_add(1));
        Ok(warning)
    }

    /// Uncounts a route that was admitted, with the attributes that it had then.
    pub fn release(&mut self, route: &Route, attributes: &Attributes) {
        if let Some(count) = self.types.get_mut(&route.route_type()) {
            *count = count.saturating_sub(1);
        }
        if let Some((vni, host)) = place(route, attributes) {
            self.release_host(vni, host);
        }
    }

    /// A route takes the place of another one with the same key.
    ///
    /// # Errors
    /// The limit that it exceeds where it is now: then neither is counted, for the old one is gone too.
    pub fn replace(
        &mut self,
        old: (&Route, &Attributes),
        new: (&Route, &Attributes),
    ) -> Result<Option<Near>, LimitHit> {
        let vni = |(route, attributes)| place(route, attributes).map(|(vni, _)| vni);
        if vni(old) == vni(new) {
            return Ok(None); // the key says the rest
        }
        self.release(old.0, old.1);
        self.admit(new.0, new.1)
    }

    /// MAC addresses in a VNI.
    #[must_use]
    pub fn macs(&self, vni: Vni) -> u64 {
        self.macs.get(&vni).copied().unwrap_or(0)
    }

    /// IP addresses of a MAC address in a VNI.
    #[must_use]
    pub fn ips(&self, vni: Vni, mac: Mac) -> u64 {
        self.hosts.get(&(vni, mac)).map_or(0, |host| host.ips)
    }

    /// Routes of a type.
    #[must_use]
    pub fn routes(&self, route_type: u8) -> u64 {
        self.types.get(&route_type).copied().unwrap_or(0)
    }

    fn admit_host(&mut self, vni: Vni, route: &MacIp) -> Result<Option<Near>, LimitHit> {
        let (mac, ip) = (route.key.mac, route.key.ip);
        let before = self.hosts.get(&(vni, mac)).copied().unwrap_or_default();
        let mut warning = None;
        if ip.is_some() {
            warning = self.fits(
                Limit::IpsPerMac(vni, mac),
                before.ips,
                self.limits.ips_per_mac,
            )?;
        }
        if before.routes == 0 {
            let (macs, max) = (self.macs(vni), self.limits.macs_per_vni);
            warning = self.fits(Limit::MacsPerVni(vni), macs, max)?.or(warning);
            self.macs.insert(vni, macs.saturating_add(1));
        }
        let host = Host {
            routes: before.routes.saturating_add(1),
            ips: before.ips.saturating_add(one(ip)),
        };
        self.hosts.insert((vni, mac), host);
        Ok(warning)
    }

    /// Whether one more fits, and whether it is the one that is to be said.
    fn fits(&self, limit: Limit, count: u64, max: u64) -> Result<Option<Near>, LimitHit> {
        if count >= max {
            return Err(LimitHit { limit, max });
        }
        let enough = u128::from(max) * u128::from(self.limits.warn_percent);
        let is_near = |count: u64| u128::from(count) * 100 >= enough;
        let now = count.saturating_add(1);
        let reached = !is_near(count) && is_near(now);
        Ok(reached.then_some(Near {
            limit,
            count: now,
            max,
        }))
    }

    fn release_host(&mut self, vni: Vni, route: &MacIp) {
        let at = (vni, route.key.mac);
        let Some(host) = self.hosts.get_mut(&at) else {
            return;
        };
        host.routes = host.routes.saturating_sub(1);
        host.ips = host.ips.saturating_sub(one(route.key.ip));
        if host.routes > 0 {
            return;
        }
        self.hosts.remove(&at);
        if let Some(macs) = self.macs.get_mut(&vni) {
            *macs = macs.saturating_sub(1);
            if *macs == 0 {
                self.macs.remove(&vni);
            }
        }
    }
}

/// A host that counts: one without a VNI is in no broadcast domain that is known here.
fn place<'a>(route: &'a Route, attributes: &Attributes) -> Option<(Vni, &'a MacIp)> {
    match route {
        Route::MacIp(host) => route.vni(attributes).map(|vni| (vni, host)),
        Route::EthernetAd(_)
        | Route::InclusiveMulticast(_)
        | Route::EthernetSegment(_)
        | Route::IpPrefix(_)
        | Route::SelectiveMulticast(_)
        | Route::MulticastJoin(_)
        | Route::MulticastLeave(_)
        | Route::RegionPmsi(_)
        | Route::SelectivePmsi(_)
        | Route::Leaf(_)
        | Route::Opaque(_) => None,
    }
}

fn one(ip: Option<IpAddr>) -> u64 {
    ip.map_or(0, |_| 1)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;
    use weft_bgp::nlri::Nlri;
    use weft_bgp::rd::Rd;

    use super::*;
    use crate::community::Encapsulation;
    use crate::route::{Labels, MacIpKey};
    use crate::{Esi, EthernetTag, Label};

    fn attributes() -> Attributes {
        Attributes {
            ext_communities: vec![Encapsulation::new(Encapsulation::VXLAN).octets()],
            ..Attributes::default()
        }
    }

    fn host(rd: u8, vni: u8, mac: u8, ip: u8) -> Route {
        let key = MacIpKey {
            rd: Rd::from_ipv4([192, 0, 2, 1].into(), rd.into()),
            tag: EthernetTag(0),
            mac: Mac([0, 0, 0x5e, 0, 0x53, mac]),
            ip: (ip > 0).then(|| [198, 51, 100, ip].into()),
        };
        Route::MacIp(MacIp {
            key,
            esi: Esi::ZERO,
            labels: Labels::One(Label([0, 0, vni])),
        })
    }

    fn counts(macs_per_vni: u64, ips_per_mac: u64) -> Counts {
        Counts::new(Limits {
            macs_per_vni,
            ips_per_mac,
            ..Limits::default()
        })
    }

    fn vni(number: u32) -> Vni {
        Vni::new(number).unwrap()
    }

    #[test]
    fn the_fifth_of_four_is_dropped_and_the_third_warns() {
        let mut counts = counts(4, 9);
        let limit = Limit::MacsPerVni(vni(100));
        for mac in 1..=4 {
            let warning = (mac == 3).then_some(Near {
                limit,
                count: 3,
                max: 4,
            });
            assert_eq!(
                counts.admit(&host(1, 100, mac, 0), &attributes()),
                Ok(warning)
            );
        }
        let hit = LimitHit { limit, max: 4 };
        assert_eq!(counts.admit(&host(1, 100, 5, 0), &attributes()), Err(hit));
        assert_eq!(hit.to_string(), "more than 4 MAC addresses of VNI 100");
        // One that is there may get an address, another VNI is another count, and one that goes makes room.
        assert_eq!(counts.admit(&host(1, 100, 4, 1), &attributes()), Ok(None));
        assert_eq!(counts.admit(&host(1, 200, 5, 0), &attributes()), Ok(None));
        counts.release(&host(1, 100, 1, 0), &attributes());
        assert_eq!(counts.admit(&host(1, 100, 5, 0), &attributes()), Ok(None));
        assert_eq!(counts.macs(vni(100)), 4);
    }

    #[test]
    fn what_is_near_is_for_the_limits_to_say() {
        // Of four at most: the place of the one that is said.
        for (warn_percent, place) in [(0, 0), (1, 1), (50, 2), (51, 3), (75, 3), (76, 4), (100, 4)]
        {
            let mut counts = Counts::new(Limits {
                macs_per_vni: 4,
                warn_percent,
                ..Limits::default()
            });
            for mac in 1..=4 {
                let said = counts.admit(&host(1, 100, mac, 0), &attributes()).unwrap();
                let expected = (mac == place).then_some((u64::from(mac), 4));
                assert_eq!(said.map(|near| (near.count, near.max)), expected);
            }
        }
        // A product of 64 bits would be too short.
        let mut counts = counts(u64::MAX, u64::MAX);
        assert_eq!(counts.admit(&host(1, 100, 1, 1), &attributes()), Ok(None));
    }

    #[test]
    fn another_route_distinguisher_is_no_way_around() {
        let mut counts = counts(1, 2);
        assert!(counts.admit(&host(1, 100, 1, 1), &attributes()).is_ok());
        assert!(counts.admit(&host(2, 100, 1, 2), &attributes()).is_ok());
        let mac = Mac([0, 0, 0x5e, 0, 0x53, 1]);
        let hit = LimitHit {
            limit: Limit::IpsPerMac(vni(100), mac),
            max: 2,
        };
        assert_eq!(counts.admit(&host(3, 100, 1, 3), &attributes()), Err(hit));
        assert_eq!(counts.ips(vni(100), mac), 2);
        counts.release(&host(1, 100, 1, 1), &attributes());
        counts.release(&host(2, 100, 1, 2), &attributes());
        assert_eq!((counts.macs(vni(100)), counts.ips(vni(100), mac)), (0, 0));
        assert!(counts.hosts.is_empty() && counts.macs.is_empty());
    }

    #[test]
    fn a_route_that_moves_to_a_full_vni_is_in_neither() {
        let mut counts = counts(1, 9);
        let with = attributes();
        assert!(counts.admit(&host(1, 100, 1, 0), &with).is_ok());
        assert!(counts.admit(&host(1, 200, 2, 0), &with).is_ok());
        let (old, new) = (host(1, 100, 1, 0), host(1, 200, 1, 0));
        assert!(counts.replace((&old, &with), (&new, &with)).is_err());
        assert_eq!((counts.macs(vni(100)), counts.macs(vni(200))), (0, 1));
        assert_eq!(counts.routes(2), 1);
        let same = host(1, 200, 2, 0);
        assert_eq!(counts.replace((&same, &with), (&same, &with)), Ok(None));
    }

    #[test]
    fn routes_of_a_type_are_counted_without_a_vni() {
        let mut counts = Counts::new(Limits {
            routes_per_type: 1,
            ..Limits::default()
        });
        let mpls = Attributes::default();
        assert!(counts.admit(&host(1, 100, 1, 0), &mpls).is_ok());
        let limit = Limit::RoutesPerType(2);
        let hit = LimitHit { limit, max: 1 };
        assert_eq!(counts.admit(&host(1, 100, 2, 0), &mpls), Err(hit));
        assert_eq!(counts.macs(vni(100)), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Counted like a set that holds the routes, whatever came and went.
        #[test]
        fn counts_are_a_function_of_what_is_held(
            steps in prop::collection::vec((any::<bool>(), 1..3_u8, 1..4_u8, 0..4_u8), 0..60),
        ) {
            let (mut counts, with) = (counts(2, 2), attributes());
            let mut held = BTreeMap::new();
            for (add, vni, mac, ip) in steps {
                let route = host(vni, vni, mac, ip);
                match (add, held.contains_key(&route.key())) {
                    (true, false) => {
                        if counts.admit(&route, &with).is_ok() {
                            held.insert(route.key(), route);
                        }
                    }
                    (false, true) => {
                        held.remove(&route.key());
                        counts.release(&route, &with);
                    }
                    (true, true) | (false, false) => {}
                }
            }
            for number in 1..3 {
                let of = |route: &&Route| route.vni(&with) == Some(vni(number));
                let macs: BTreeSet<_> = held.values().filter(of).map(|route| match route {
                    Route::MacIp(route) => route.key.mac,
                    other => panic!("{other:?}"),
                }).collect();
                prop_assert_eq!(counts.macs(vni(number)), macs.len() as u64);
                prop_assert!(macs.len() <= 2);
            }
            prop_assert_eq!(counts.routes(2), held.len() as u64);
        }
    }
}
