//! The plan of a leaf beside what the leaf's own routing has and what its uplinks carry.
//!
//! Pure. It refuses to know streams and time.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use weft_proto::agent::v1 as agent;
use weft_proto::v1;

use super::measured::Sent;
use super::plan::{Entry, LeafPlan};
use crate::southbound::Prefixes;

/// Compares the plan of a leaf with the prefixes that its agent has.
pub fn compare(plan: &LeafPlan, prefixes: &Prefixes, sent: &Sent) -> v1::LeafPlanDiff {
    let prefixes = plan.entries.iter().map(|(prefix, entry)| {
        let own = prefixes.get(prefix).map(|prefix| prefix.own.as_slice());
        let planned = planned_next_hops(entry);
        let own = own_next_hops(own.unwrap_or_default(), &planned);
        v1::PrefixDiff {
            prefix: prefix.to_string(),
            destination_switch_name: entry.to.to_string(),
            // An entry without a member is left to the switch's own routing.
            differs: !planned.is_empty() && differ(&own, &planned),
            own_next_hops: own,
            planned_next_hops: planned,
        }
    });
    v1::LeafPlanDiff {
        prefixes: prefixes.collect(),
        uplinks: uplinks(plan, sent),
        ..v1::LeafPlanDiff::default()
    }
}

/// What the switch's own routing has. A next hop that is alone on its interface is the planned one there, as it is for the agent, if
/// that is known by the interface alone, or if its own address is link-local (BGP unnumbered).
fn own_next_hops(
    own: &[agent::NextHop],
    planned: &[v1::WeightedNextHop],
) -> Vec<v1::WeightedNextHop> {
    let declared = |next_hop: &agent::NextHop| {
        let address = next_hop.address.parse::<Ipv6Addr>();
        let is_link_local = address.is_ok_and(|address| address.is_unicast_link_local());
        let there = |interface: &str| interface == next_hop.interface_name;
        let alone = own.iter().filter(|it| there(&it.interface_name)).count() == 1;
        let mut planned = planned.iter().filter(|it| there(&it.interface_name));
        let (first, second) = (planned.next(), planned.next());
        let is_it = |it: &&v1::WeightedNextHop| it.address.is_none() || is_link_local;
        first.filter(|it| alone && second.is_none() && is_it(it))
    };
    let own = own.iter().map(|next_hop| v1::WeightedNextHop {
        address: match declared(next_hop) {
            Some(planned) => planned.address.clone(),
            None => Some(next_hop.address.clone()).filter(|it| !it.is_empty()),
        },
        interface_name: next_hop.interface_name.clone(),
        weight: next_hop.weight.max(1),
    });
    own.collect()
}

fn planned_next_hops(entry: &Entry) -> Vec<v1::WeightedNextHop> {
    let members = entry.members.iter().map(|member| v1::WeightedNextHop {
        address: member.next_hop.address.map(|it| it.to_string()),
        interface_name: member.next_hop.interface.to_string(),
        weight: member.weight,
    });
    members.collect()
}

/// Whether two sets of next hops divide traffic in different ways.
fn differ(own: &[v1::WeightedNextHop], planned: &[v1::WeightedNextHop]) -> bool {
    let (own, planned) = (shares(own), shares(planned));
    own.len() != planned.len()
        || planned.iter().any(|(next_hop, share)| {
            let own = own.get(next_hop);
            own.is_none_or(|own| own.abs_diff(*share) > TOLERATED_PPM)
        })
}

/// The share of each next hop in millionths.
fn shares(next_hops: &[v1::WeightedNextHop]) -> BTreeMap<(Option<&str>, &str), u64> {
    let parts: u64 = next_hops.iter().map(|it| u64::from(it.weight)).sum();
    let share = |it: &v1::WeightedNextHop| u64::from(it.weight) * MILLION / parts.max(1);
    next_hops
        .iter()
        .map(|it| {
            (
                (it.address.as_deref(), it.interface_name.as_str()),
                share(it),
            )
        })
        .collect()
}

/// What each uplink should carry, if the leaf sends as much to every leaf, and what it carried.
fn uplinks(plan: &LeafPlan, sent: &Sent) -> Vec<v1::UplinkShare> {
    let mut planned: BTreeMap<&str, u64> = BTreeMap::new();
    let routed = || {
        plan.entries
            .values()
            .filter(|entry| !entry.members.is_empty())
    };
    let entries = (routed().count() as u64).max(1);
    for entry in routed() {
        for member in &entry.members {
            let share = u64::from(member.weight) * MILLION / u64::from(entry.parts.max(1));
            *planned.entry(&*member.next_hop.interface).or_default() += share;
        }
    }
    let all: u64 = planned
        .keys()
        .filter_map(|interface| sent.octets(interface))
        .fold(0, u64::saturating_add);
    let ppm = |part: u128, all: u64| (part * u128::from(MILLION)).checked_div(u128::from(all));
    let uplinks = planned.iter().map(|(interface, share)| {
        let octets = sent.octets(interface);
        let measured = octets.and_then(|octets| ppm(octets.into(), all));
        v1::UplinkShare {
            interface_name: (*interface).to_owned(),
            planned_ppm: u32::try_from(share / entries).unwrap_or(u32::MAX),
            measured_ppm: measured.and_then(|ppm| u32::try_from(ppm).ok()),
            octets: octets.unwrap_or(0),
        }
    });
    uplinks.collect()
}

const MILLION: u64 = 1_000_000;
/// FRR rounds weights to 255 parts, so that shares differ a little though nobody wants them to.
const TOLERATED_PPM: u64 = MILLION / 100;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::balancer::{Balancer, Inputs};
    use crate::fabric::topology::tests::declared;
    use crate::fabric::topology::{Declaration, Topology};

    /// Leaf 1, whose second uplink is three times as fast.
    fn plan() -> LeafPlan {
        plan_of(declared(2, 2))
    }

    fn unnumbered() -> LeafPlan {
        let mut fabric = declared(2, 2);
        for link in &mut fabric.links {
            let ends = [&mut link.a, &mut link.b].into_iter().flatten();
            ends.for_each(|end| end.address.clear());
        }
        plan_of(fabric)
    }

    fn plan_of(mut fabric: Declaration) -> LeafPlan {
        for link in &mut fabric.links {
            let spine2 = link
                .b
                .as_ref()
                .is_some_and(|end| end.switch_name == "spine2");
            link.capacity_bps *= if spine2 { 3 } else { 1 };
        }
        let mut balancer = Balancer::default();
        let inputs = Inputs {
            topology: Arc::new(Topology::new(&fabric).unwrap()),
            ..Inputs::default()
        };
        balancer.handle(&inputs, Duration::ZERO).unwrap();
        balancer.plan().leaf(&"leaf1".into()).unwrap().unwrap()
    }

    fn prefixes(weights: &[(&str, &str, u32)]) -> Prefixes {
        let own = weights
            .iter()
            .map(|(address, interface, weight)| agent::NextHop {
                address: (*address).to_owned(),
                interface_name: (*interface).to_owned(),
                weight: *weight,
                in_use: true,
            });
        let name = "198.51.100.2/32";
        let prefix = agent::Prefix {
            prefix: name.to_owned(),
            own: own.collect(),
            ..agent::Prefix::default()
        };
        Prefixes::from([(name.parse().unwrap(), Arc::new(prefix))])
    }

    fn differs(weights: &[(&str, &str, u32)]) -> bool {
        compare(&plan(), &prefixes(weights), &Sent::default()).prefixes[0].differs
    }

    #[test]
    fn a_link_local_next_hop_is_the_planned_one_of_its_interface() {
        assert!(!differs(&[("fe80::1", "eth1", 1), ("fe80::1", "eth2", 3)]));
        assert!(differs(&[("fe80::1", "eth1", 1), ("fe80::1", "eth2", 1)]));
        assert!(differs(&[
            ("2001:db8::1", "eth1", 1),
            ("fe80::1", "eth2", 3)
        ]));
        let two = [
            ("fe80::1", "eth1", 1),
            ("fe80::2", "eth1", 0),
            ("fe80::1", "eth2", 3),
        ];
        assert!(differs(&two));
    }

    #[test]
    fn a_next_hop_is_the_planned_one_of_an_unnumbered_link_whatever_its_address() {
        let differs = |weights: &[(&str, &str, u32)]| {
            let diff = compare(&unnumbered(), &prefixes(weights), &Sent::default());
            diff.prefixes[0].differs
        };
        assert!(!differs(&[("fe80::1", "eth1", 1), ("fe80::2", "eth2", 3)]));
        assert!(!differs(&[
            ("169.254.0.1", "eth1", 1),
            ("192.0.2.1", "eth2", 3)
        ]));
        assert!(differs(&[("fe80::1", "eth1", 1), ("fe80::2", "eth2", 1)]));
        assert!(differs(&[("fe80::1", "eth1", 4)]));
        // Nobody knows which of two neighbours is meant.
        let two = [
            ("fe80::1", "eth1", 1),
            ("fe80::9", "eth1", 0),
            ("fe80::2", "eth2", 3),
        ];
        assert!(differs(&two));
    }

    #[test]
    fn plain_ecmp_differs_from_weights_and_weights_in_another_scale_do_not() {
        assert!(differs(&[
            ("192.0.1.1", "eth1", 1),
            ("192.0.1.2", "eth2", 1)
        ]));
        assert!(differs(&[("192.0.1.2", "eth2", 1)]));
        assert!(differs(&[]));
        assert!(!differs(&[
            ("192.0.1.1", "eth1", 1),
            ("192.0.1.2", "eth2", 3)
        ]));
        // As FRR writes 1 to 3.
        assert!(!differs(&[
            ("192.0.1.1", "eth1", 85),
            ("192.0.1.2", "eth2", 255)
        ]));
    }

    #[test]
    fn shares_are_planned_and_measured_by_uplink() {
        let mut sent = Sent::default();
        sent.sample([("eth1", 0), ("eth2", 0), ("eth3", 0)]);
        sent.sample([("eth1", 300), ("eth2", 700), ("eth3", 1_000)]);
        let diff = compare(&plan(), &prefixes(&[]), &sent);
        let shares: Vec<_> = diff
            .uplinks
            .iter()
            .map(|it| (it.interface_name.as_str(), it.planned_ppm, it.measured_ppm))
            .collect();
        let expected = [
            ("eth1", 250_000, Some(300_000)),
            ("eth2", 750_000, Some(700_000)),
        ];
        assert_eq!(shares, expected);
        let idle = compare(&plan(), &prefixes(&[]), &Sent::default());
        assert_eq!(idle.uplinks[0].measured_ppm, None);
    }
}
