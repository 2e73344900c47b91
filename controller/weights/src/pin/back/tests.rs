//! Laws of the levels that are tried, beside all levels of small planes.

use proptest::prelude::*;

use super::super::tests::{Cells, GBPS, problem};
use super::*;

/// A leaf and a spine, with a link of each of these capacities.
fn plane(capacities: &[u64]) -> Plane {
    let cells: Cells = vec![capacities.to_vec()];
    Plane::new(&problem(1, &cells))
}

proptest! {
    #[test]
    fn the_lowest_level_is_found_among_all_at_which_a_link_is_full(
        capacities in prop::collection::vec(1..9_u64, 1..4), low in 1..40_u64, more in 0..40_u64, of in 1..9_u64, fits in 0..80_u64,
    ) {
        let plane = plane(&capacities);
        let level = |subflows| Level { subflows, capacity: of * GBPS };
        let (least, level, fits) = (level(low), level(low + more), level(fits));
        let full = capacities.iter().flat_map(|capacity| (0..).map(|subflows| Level { subflows, capacity: *capacity * GBPS }).take(800));
        let mut between: Vec<Level> = full.filter(|it| least < *it && *it < level).collect();
        between.sort_unstable();
        between.dedup();

        let found = plane.between(least, level);
        prop_assert!(found.map_or(between.is_empty(), |it| between.contains(&it)), "{found:?} of {between:?}");
        if let Some(below) = plane.just_below(level).filter(|it| *it > least) {
            prop_assert_eq!(Some(&below), between.last());
        }

        let mut tried = Vec::new();
        let found = lowest(&plane, least, level, |level| {
            tried.push(level);
            (fits <= level).then_some(level)
        });
        prop_assert!(tried.iter().all(|it| (least..level).contains(it)));
        let last = between.last().copied().filter(|it| fits <= *it);
        let wanted = if fits <= least && least < level { Some(least) } else { between.iter().copied().find(|it| fits <= *it) };
        prop_assert_eq!(found.is_some(), last.is_some() || wanted.is_some(), "tried {:?}", tried);
        if between.len() <= 3 {
            prop_assert_eq!(found, wanted, "tried {:?}", tried);
        }
        tried.sort_unstable();
        let count = tried.len();
        tried.dedup();
        prop_assert_eq!(count, tried.len(), "no level is tried twice");
    }
}

#[test]
fn the_largest_numbers_have_levels_between_or_none() {
    let most = u64::MAX / GBPS;
    let plane = plane(&[1, most / 2, most]);
    let levels = [0, 1, 16, u64::MAX - 1, u64::MAX].map(|subflows| {
        [1, GBPS, most * GBPS, u64::MAX].map(|capacity| Level { subflows, capacity })
    });
    let levels = levels.as_flattened();
    for (low, high) in levels
        .iter()
        .flat_map(|it| levels.iter().map(move |high| (*it, *high)))
    {
        let between = plane.between(low, high);
        assert!(between.is_none_or(|it| low < it && it < high));
        let below = plane.just_below(high).unwrap();
        assert!(below < high || high.subflows == 0);
    }
}
