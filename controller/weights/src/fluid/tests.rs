//! Fluid and its bound, on networks small enough to see through, and on random ones.

use proptest::prelude::*;

use super::*;

/// Demands between the leaves of a network with these capacities.
fn solved(spines: usize, capacity: &[u32], demands: &[(u32, u32, u32)]) -> Fluid {
    let network = network(spines, capacity);
    let mut demands = reachable(&network, demands);
    let bins = network.bins(&mut demands);
    solve(&network, &demands, &bins)
}

fn network(spines: usize, capacity: &[u32]) -> Network {
    let capacity: Vec<f64> = capacity.iter().map(|it| f64::from(*it)).collect();
    Network::new(capacity.len() / spines, spines, capacity)
}

fn reachable(network: &Network, demands: &[(u32, u32, u32)]) -> Vec<Demand> {
    let demands = demands.iter().map(|(from, to, amount)| Demand {
        from: *from,
        to: *to,
        amount: f64::from(*amount),
    });
    demands
        .filter(|it| network.reaches(it.from, it.to))
        .collect()
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 0.01 * other
}

#[test]
fn leaves_that_share_one_spine_are_bound_together() {
    // Leaves 0 and 1 have spines 0 and 1, leaf 2 has spines 1 to 3: no leaf and no pair needs more than 1.
    let capacity = [1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1];
    let fluid = solved(4, &capacity, &[(0, 2, 1), (1, 2, 1)]);
    assert!(is_near(fluid.used, 2.0));
    assert!(is_near(fluid.bound, 2.0), "{}", fluid.bound);
}

#[test]
fn demands_make_way_for_each_other() {
    // Leaf 0 reaches leaf 1 over both spines, and leaf 2 over spine 1 alone: what it sends to leaf 1 goes over spine 0.
    let fluid = solved(2, &[10, 10, 10, 10, 0, 10], &[(0, 1, 10), (0, 2, 10)]);
    assert!(is_near(fluid.used_by_capacity, 1.5));
    assert!(is_near(fluid.used, 1.0));
    assert!(is_near(fluid.bound, 1.0));
}

#[test]
fn nothing_to_send_uses_nothing() {
    let fluid = solved(2, &[1, 1, 1, 1], &[]);
    assert_eq!((fluid.used, fluid.bound), (0.0, 0.0));
    assert!(fluid.is_by_capacity);
    let none = Network::new(3, 0, Vec::new());
    assert_eq!(solve(&none, &[], &[]).used, 0.0);
}

#[test]
fn equal_capacities_make_a_class() {
    let mut network = network(2, &[1, 2, 1, 0, 1, 2, 1, 0]);
    network.classify();
    let classes: Vec<u32> = (0..4).map(|leaf| network.class_of(leaf)).collect();
    assert_eq!(classes, [0, 1, 0, 1]);
}

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) % u64::from(bound)) as u32
    }
}

#[test]
fn random_networks_are_within_one_percent_of_the_bound() {
    let mut random = Random(1);
    let mut worst = 0.0_f64;
    for case in 0..200 {
        let (leaves, spines) = (4 + random.below(20), 2 + random.below(8));
        let (dead, density) = (random.below(60), 5 + random.below(60));
        let cell = |random: &mut Random| match random.below(100) < dead {
            true => 0,
            false => 1 + random.below(1 + case % 8),
        };
        let capacity: Vec<u32> = (0..leaves * spines).map(|_| cell(&mut random)).collect();
        let pairs = (0..leaves * leaves).map(|pair| (pair / leaves, pair % leaves));
        let demands: Vec<_> = pairs
            .filter(|(from, to)| from != to && random.below(100) < density)
            .map(|(from, to)| (from, to, 1 + (from * 7 + to * 5) % 9))
            .collect();
        let fluid = solved(spines as usize, &capacity, &demands);
        if fluid.bound > 0.0 {
            worst = worst.max(fluid.used / fluid.bound - 1.0);
        }
    }
    assert!(worst < 0.01, "{worst}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_shares_are_better_than_the_bound(
        capacity in prop::collection::vec(0_u32..4, 24),
        background in prop::collection::vec(0_u32..3, 48),
        demands in prop::collection::vec((0_u32..6, 0_u32..6, 1_u32..9), 0..20),
        shares in prop::collection::vec(0.01_f64..1.0, 80),
    ) {
        let mut network = network(4, &capacity);
        for (at, load) in background.iter().enumerate() {
            if capacity[at % 24] > 0 {
                network.add_background(at / 24, at % 24 / 4, at % 4, f64::from(*load));
            }
        }
        let mut demands = reachable(&network, &demands);
        demands.retain(|demand| demand.from != demand.to);
        let bins = network.bins(&mut demands);
        let fluid = solve(&network, &demands, &bins);
        prop_assert!(fluid.bound <= fluid.used);
        prop_assert!(fluid.used <= fluid.used_by_capacity);
        prop_assert!(fluid.bound >= bound::at_least(&network, &demands));
        // Any other shares.
        let mut loads = network.background.clone();
        for (at, demand) in demands.iter().enumerate() {
            let ends = [demand.from as usize, demand.to as usize];
            let part = |spine: usize| {
                let alive = ends.iter().all(|leaf| network.capacity(*leaf, spine) > 0.0);
                if alive { shares[at * 4 + spine] } else { 0.0 }
            };
            let sum: f64 = (0..4).map(part).sum();
            for spine in 0..4 {
                for (loads, leaf) in loads.iter_mut().zip(ends) {
                    loads[leaf * 4 + spine] += demand.amount * part(spine) / sum;
                }
            }
        }
        let used = loads.iter().flat_map(|loads| loads.iter().zip(&network.capacity));
        let used = used.filter(|(_, capacity)| **capacity > 0.0);
        let most = used.map(|(load, capacity)| load / capacity).fold(0.0, f64::max);
        prop_assert!(fluid.bound <= most);
    }
}
