//! The bound beside placements, and beside what a leaf's links prove.

use proptest::prelude::*;

use super::*;
use crate::pin::tests::{GBPS, cells, flows, pairs, problem};
use crate::pin::{Level, place};

fn as_number(level: Level) -> f64 {
    level.subflows as f64 / level.capacity as f64
}

#[test]
fn leaves_that_share_one_spine_are_bound_together() {
    // Leaves 0 and 1 have spines 0 and 1, leaf 2 has spines 1 to 3: leaves and pairs alone prove half as much.
    let all = [1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1];
    let cells = all.map(|gbps| vec![gbps; usize::from(gbps > 0)]).to_vec();
    let plane = Plane::new(&problem(4, &cells));
    let flows = flows(&[(0, 2), (1, 2)], 4);
    let bound = lower_bound_by_duality(&plane, &flows).unwrap() * GBPS as f64;
    assert!((7.9..=8.0).contains(&bound), "{bound}");
    let placement = place(&plane, &flows).unwrap();
    assert_eq!(as_number(placement.level) * GBPS as f64, 8.0);
    assert_eq!(as_number(placement.bound.level) * GBPS as f64, 4.0);
}

#[test]
fn flows_without_a_way_are_refused_as_when_they_are_placed() {
    let plane = Plane::new(&problem(
        2,
        &vec![vec![1], vec![], vec![], vec![1], vec![], vec![]],
    ));
    for pair in [(0, 1), (0, 2), (1, 1), (0, 7)] {
        let flows = flows(&[pair], 4);
        let refused = lower_bound_by_duality(&plane, &flows).unwrap_err();
        assert_eq!(refused, place(&plane, &flows).unwrap_err());
    }
    assert_eq!(lower_bound_by_duality(&plane, &flows(&[], 4)), Ok(0.0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_placement_is_below_the_bound(cells in cells(15), pairs in pairs(5, 12), size in 1_u32..6) {
        let plane = Plane::new(&problem(3, &cells));
        let flows = flows(&pairs, size);
        let Ok(placement) = place(&plane, &flows) else {
            prop_assert!(lower_bound_by_duality(&plane, &flows).is_err());
            return Ok(());
        };
        let bound = lower_bound_by_duality(&plane, &flows).unwrap();
        prop_assert!(bound <= as_number(placement.level));
        for leaf in 0..5 {
            let of = |end: fn(&(u32, u32)) -> u32| pairs.iter().filter(|pair| end(pair) == leaf).count();
            let most = of(|pair| pair.0).max(of(|pair| pair.1)) as f64 * f64::from(size);
            let capacity = plane.capacity(leaf as usize) as f64;
            prop_assert!(capacity == 0.0 || bound >= most / capacity * (1.0 - 1e-8));
        }
    }
}
