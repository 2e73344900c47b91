//! What the switch's own routing (FRR, by the main table) has for a prefix. Knows nothing of who
//! wrote it, nor of what the agent wants.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::{Family, Path};

/// The main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Own {
    /// The forwarding plane has no routing of its own: every next hop is allowed. No kernel says so.
    Everything,
    /// The best route of each prefix.
    Routes(BTreeMap<IpNet, OwnRoute>),
}

/// A route of the main table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnRoute {
    /// Metric; of two routes to one prefix the one with the lower metric is used.
    pub metric: u32,
    /// Where it sends packets; empty for a route that drops them.
    pub hops: Vec<OwnHop>,
}

/// A next hop that the switch's own routing uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnHop {
    /// Where packets go.
    pub path: Path,
    /// The share is weight / sum of weights.
    pub weight: u16,
}

impl Default for Own {
    fn default() -> Self {
        Self::Routes(BTreeMap::new())
    }
}

impl Own {
    /// Adds a route; of several to one prefix the one with the lowest metric stays.
    pub fn insert(&mut self, prefix: IpNet, route: OwnRoute) {
        let Self::Routes(routes) = self else {
            return;
        };
        let known = routes.get(&prefix);
        if known.is_none_or(|known| route.metric < known.metric) {
            routes.insert(prefix, route);
        }
    }

    /// The route by which the switch itself would send packets to every address of the prefix: that
    /// of the longest prefix around it.
    ///
    /// # Errors
    ///
    /// When there is none, or when part of the prefix has a longer one; text for a person.
    pub fn route(&self, prefix: IpNet) -> Result<Option<&OwnRoute>, String> {
        let Self::Routes(routes) = self else {
            return Ok(None);
        };
        let within = routes.range(prefix..).map(|(other, _)| other);
        let longer = within
            .take_while(|other| prefix.contains(&other.network()))
            .find(|other| prefix.contains(*other) && **other != prefix);
        if let Some(longer) = longer {
            return Err(format!(
                "the switch's own routing has {longer}, a part of {prefix}"
            ));
        }
        let mut around = Some(prefix);
        while let Some(covering) = around {
            if let Some(route) = routes.get(&covering) {
                return Ok(Some(route));
            }
            around = covering.supernet();
        }
        Err(format!("the switch's own routing has no route to {prefix}"))
    }

    /// The gateways of all routes by the family of their prefixes and by interface.
    #[must_use]
    pub fn gateways(&self) -> BTreeMap<(Family, u32), BTreeSet<IpAddr>> {
        let mut gateways: BTreeMap<_, BTreeSet<IpAddr>> = BTreeMap::new();
        if let Self::Routes(routes) = self {
            for (prefix, route) in routes {
                for path in route.hops.iter().map(|hop| &hop.path) {
                    let key = (Family::of(*prefix), path.interface);
                    gateways.entry(key).or_default().extend(path.gateway);
                }
            }
        }
        gateways
    }

    /// What the switch's own routing has for a prefix, if anything.
    #[must_use]
    pub fn hops(&self, prefix: IpNet) -> &[OwnHop] {
        match self.route(prefix) {
            Ok(Some(route)) => &route.hops,
            Ok(None) | Err(_) => &[],
        }
    }
}

impl OwnRoute {
    /// Whether it sends packets there. Without a gateway the destination itself is on the link.
    #[must_use]
    pub fn uses(&self, gateway: Option<IpAddr>, interface: u32) -> bool {
        self.hops
            .iter()
            .any(|hop| hop.path.gateway == gateway && hop.path.interface == interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().expect("a prefix")
    }

    fn via(last: u8) -> OwnRoute {
        let path = Path {
            gateway: Some([192, 0, 2, last].into()),
            interface: u32::from(last),
        };
        OwnRoute {
            metric: 20,
            hops: vec![OwnHop { path, weight: 1 }],
        }
    }

    fn own(rows: &[(&str, u8)]) -> Own {
        let mut own = Own::default();
        for (prefix, last) in rows {
            own.insert(net(prefix), via(*last));
        }
        own
    }

    #[test]
    fn the_longest_route_around_a_host_is_its_own() {
        let own = own(&[
            ("0.0.0.0/0", 1),
            ("203.0.113.0/24", 2),
            ("203.0.113.7/32", 3),
        ]);
        assert_eq!(own.route(net("203.0.113.7/32")), Ok(Some(&via(3))));
        assert_eq!(own.route(net("203.0.113.8/32")), Ok(Some(&via(2))));
        assert_eq!(own.route(net("198.51.100.1/32")), Ok(Some(&via(1))));
    }

    #[test]
    fn a_prefix_with_a_longer_route_inside_is_left_alone() {
        let own = own(&[("203.0.113.0/24", 2), ("203.0.113.7/32", 3)]);
        assert_eq!(
            own.route(net("203.0.113.0/24")).expect_err("refused"),
            "the switch's own routing has 203.0.113.7/32, a part of 203.0.113.0/24"
        );
        assert!(own.route(net("203.0.113.128/25")).is_ok());
    }

    #[test]
    fn what_nobody_routes_is_named() {
        let own = own(&[("203.0.113.0/24", 2)]);
        assert_eq!(
            own.route(net("198.51.100.1/32")).expect_err("refused"),
            "the switch's own routing has no route to 198.51.100.1/32"
        );
        assert!(own.route(net("2001:db8::1/128")).is_err());
    }

    #[test]
    fn of_two_routes_the_lower_metric_counts() {
        let mut own = own(&[("203.0.113.0/24", 2)]);
        own.insert(
            net("203.0.113.0/24"),
            OwnRoute {
                metric: 30,
                ..via(4)
            },
        );
        assert!(own.hops(net("203.0.113.1/32")) == via(2).hops);
        own.insert(
            net("203.0.113.0/24"),
            OwnRoute {
                metric: 10,
                ..via(4)
            },
        );
        assert!(own.hops(net("203.0.113.1/32")) == via(4).hops);
    }
}
