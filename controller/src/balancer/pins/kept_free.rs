//! Pins where leaves keep a part of their uplinks free, for what no job declares. How much that is changes while jobs run: it must be
//! worth it to move what is pinned, or to divide a flow.

use weft_weights::pin::{Level, Part, Placement};

use super::Posed;
use crate::balancer::solved::Solved;

impl Posed<'_> {
    /// A placement in what leaves do not keep free, or one that is placed as if they kept nothing free: that where the first would
    /// divide more flows, or where it would move more of the past and is not better by a tenth where the worst link is. Its bound is
    /// that of the first.
    pub(super) fn staying(
        &self,
        solved: &Solved,
        past: &[Part],
        full: Level,
        placed: Placement,
    ) -> Placement {
        let Some(whole) = solved.whole_planes() else {
            return placed;
        };
        let moves = |placement: &Placement| {
            let stays = |part: &&Part| placement.parts.binary_search(part).is_ok();
            past.len() - past.iter().filter(stays).count()
        };
        let divides_none = placed.parts.len() == self.flows.all().len();
        if moves(&placed) == 0 && (divides_none || placed.parts.len() == past.len()) {
            return placed;
        }
        let Ok(other) = self.place(&whole.plane(), past, full) else {
            return placed;
        };
        let divides_more = placed.parts.len() > other.parts.len();
        let moves_more = || moves(&placed) > moves(&other);
        match divides_more || moves_more() && !self.is_better(solved, &placed, &other) {
            true => Placement {
                parts: other.parts,
                ..placed
            },
            false => placed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::balancer::pins::predict::predict;
    use crate::balancer::pins::tests::{Bench, ring, state};
    use crate::balancer::pins::{PinPlan, State};
    use crate::fabric::fact::{Fact, HostPort, Kind};
    use crate::fabric::pin::PinPath;
    use crate::fabric::topology::tests::{with_nics, with_pods};

    fn loads(plan: &PinPlan) -> (f64, f64) {
        let certificate = plan.certificate.as_ref().unwrap();
        (certificate.max_load, certificate.lower_bound)
    }

    #[test]
    fn what_leaves_keep_free_moves_no_pin_of_a_placement_at_its_bound() {
        // All uplinks full, and three of four.
        for hosts in [4, 3] {
            let mut bench = Bench::new(with_nics(4, 4, 4), &[ring("train", 4, 1..=hosts)]);
            bench.adopt();
            let all = ["leaf1", "leaf2", "leaf3", "leaf4"];
            for leaves in [&all[..1], &all[..]] {
                for percent in [10, 20, 50, 30, 0] {
                    for leaf in leaves {
                        bench.measured.keep_free((*leaf).into(), percent);
                    }
                    let (plan, moved) = bench.adopt();
                    assert_eq!(moved, [], "{hosts} {leaves:?} {percent}");
                    assert_eq!(state(&plan, "train"), State::Placed);
                    let left = f64::from(100 - percent);
                    let (load, bound) = loads(&plan);
                    assert!((load - 100.0 / left).abs() < 1e-9, "{load}");
                    assert!(bound <= load + 1e-9, "{bound}");
                }
            }
        }
    }

    #[test]
    fn each_leaf_may_keep_another_part_free() {
        let mut bench = Bench::new(with_nics(4, 4, 4), &[ring("train", 4, 1..=4)]);
        bench.adopt();
        for (leaf, percent) in [("leaf1", 10), ("leaf2", 20), ("leaf3", 50)] {
            bench.measured.keep_free(leaf.into(), percent);
        }
        let (plan, moved) = bench.adopt();
        assert_eq!((moved.len(), loads(&plan)), (0, (2.0, 2.0)));
        assert_eq!(plan.certificate.as_ref().unwrap().leaves, ["leaf3".into()]);
        // A dead link moves what it carried, and what another leaf keeps free nothing else.
        bench.topology.set_down("leaf1:eth1--spine1:eth1", true);
        let (plan, moved) = bench.adopt();
        assert_eq!(state(&plan, "train"), State::Placed);
        assert!(!moved.is_empty());
        assert_eq!(bench.adopt().1, []);
    }

    #[test]
    fn a_new_job_is_placed_whole_in_what_is_left() {
        let mut bench = Bench::new(with_nics(4, 4, 4), &[ring("train", 4, 1..=3)]);
        bench.measured.keep_free("leaf1".into(), 10);
        let (plan, _) = bench.adopt();
        assert!(plan.pins.values().all(|paths| paths.len() == 1));
        assert_eq!(bench.adopt().1, []);
    }

    /// Two flows at 30 Gb/s in each direction, which go over one of two spines.
    fn crowded() -> Bench {
        let mut topology = with_nics(2, 2, 2);
        for name in ["leaf1:nic1", "leaf1:nic2", "leaf2:nic1", "leaf2:nic2"] {
            let Some(Fact::HostPort(port)) = topology.fact(Kind::HostPort, name) else {
                panic!("no port {name}");
            };
            let port = HostPort {
                capacity_bps: Some(30_000_000_000),
                ..(*port).clone()
            };
            topology.put(Fact::HostPort(Arc::new(port)));
        }
        let jobs = [ring("first", 2, 1..=1), ring("second", 2, 2..=2)];
        let mut bench = Bench::new(topology, &jobs);
        let (plan, _) = bench.adopt();
        for name in plan.pins.keys() {
            let path = PinPath {
                spine: "spine1".into(),
                weight: 16,
            };
            bench.pins.put(name.clone(), Some([path].into()));
        }
        bench
    }

    #[test]
    fn flows_move_apart_where_what_is_left_of_a_link_is_too_little_for_both() {
        let mut bench = crowded();
        let (_, moved) = bench.adopt();
        assert_eq!(moved, [], "60 of 100 Gb/s delay nobody");
        bench.measured.keep_free("leaf1".into(), 50);
        let (plan, moved) = bench.adopt();
        assert_eq!(moved.len(), 2, "one of two each way: {moved:?}");
        let (load, _) = loads(&plan);
        assert!((load - 0.6).abs() < 1e-9, "{load}");
        // They stay there.
        for percent in [50, 10, 0] {
            bench.measured.keep_free("leaf1".into(), percent);
            assert_eq!(bench.adopt().1, [], "{percent}");
        }
    }

    #[test]
    fn what_is_predicted_is_a_share_of_what_is_left() {
        let mut bench = Bench::new(with_nics(4, 4, 4), &[ring("train", 4, 1..=4)]);
        bench.measured.keep_free("leaf1".into(), 20);
        bench.adopt();
        let solved = bench.balancer.plan().solved.clone().unwrap();
        let prediction = predict(&solved, &bench.topology, &bench.pins, &|| true);
        let first = &prediction.loads[0];
        assert!(
            [&first.from, &first.to]
                .iter()
                .any(|it| it.as_str() == "leaf1")
        );
        assert!((first.share - 1.25).abs() < 1e-6, "{first:?}");
        let last = prediction.loads.last().unwrap();
        assert!((last.share - 1.0).abs() < 1e-6, "{last:?}");
    }

    #[test]
    fn over_planes_nothing_moves_either() {
        let mut bench = Bench::new(with_pods(), &[ring("train", 4, 1..=2)]);
        bench.adopt();
        for percent in [10, 50, 0] {
            bench.measured.keep_free("leaf3".into(), percent);
            let (plan, moved) = bench.adopt();
            assert_eq!(moved, [], "{percent}");
            assert_eq!(state(&plan, "train"), State::Placed);
        }
    }
}
