//! Links and spines that fail or are drained, and come back: what moves then, and what moves back.

use super::*;
use crate::fabric::fact::Switch;

/// Whether every pin leads over one spine, and what the busiest link carries.
fn wholeness(plan: &PinPlan) -> (bool, String) {
    let whole = plan.pins.values().all(|paths| paths.len() == 1);
    let load = plan.certificate.as_ref().unwrap().max_load;
    (whole, format!("{load:.4}"))
}

#[test]
fn where_a_link_came_back_flows_are_whole_again_and_no_link_carries_more_than_it_has_to() {
    const LINK: &str = "leaf1:eth1--spine1:eth1";
    let healthy = (true, "1.0000".to_owned());
    let mut bench = Bench::new(with_nics(4, 20, 20), &[ring("train", 4, 1..=20)]);
    assert_eq!(wholeness(&bench.adopt().0), healthy);
    bench.topology.set_down(LINK, true);
    let (plan, moved) = bench.adopt();
    assert_eq!(moved.len(), 2, "one each way");
    let failed = wholeness(&plan);
    assert_eq!(failed, (false, "1.0625".to_owned()));
    assert_eq!(bench.adopt().1, []);

    bench.topology.set_down(LINK, false);
    // A leader that has not seen the link down moves nothing for a sixteenth.
    let mut another = Bench::new(bench.topology.clone(), &[]);
    another.pins = bench.pins.clone();
    assert_eq!(another.adopt().1, []);
    // As long as what moves back is not adopted, it is planned.
    assert_eq!(wholeness(&bench.plan().unwrap()), healthy);
    bench.pins.set_revision(bench.pins.revision() + 1);
    let (plan, moved) = bench.adopt();
    assert_eq!((moved.len(), wholeness(&plan)), (2, healthy.clone()));
    assert_eq!(bench.adopt().1, []);

    // Another one fails as it comes back: first that one's flows move.
    bench.topology.set_down(LINK, true);
    bench.adopt();
    bench.topology.set_down(LINK, false);
    bench.topology.set_down("leaf3:eth1--spine1:eth3", true);
    let (plan, moved) = bench.adopt();
    assert_eq!((moved.len(), wholeness(&plan).1), (2, failed.1));
    assert_eq!(bench.adopt().1, [], "no link carries more than it has to");
    bench.topology.set_down("leaf3:eth1--spine1:eth3", false);
    let (plan, moved) = bench.adopt();
    assert_eq!((moved.len(), wholeness(&plan)), (4, healthy));
    assert_eq!(bench.adopt().1, []);
}

#[test]
fn flows_move_back_to_a_spine_that_was_drained() {
    let mut bench = Bench::new(with_nics(4, 20, 20), &[ring("train", 4, 1..=20)]);
    bench.adopt();
    let mut set_down = |down| {
        let Some(Fact::Switch(spine)) = bench.topology.fact(Kind::Switch, "spine1") else {
            panic!("there is a spine1");
        };
        let spine = Switch {
            down,
            ..(*spine).clone()
        };
        bench.topology.put(Fact::Switch(Arc::new(spine)));
        let (plan, moved) = bench.adopt();
        (wholeness(&plan), moved.len())
    };
    assert_eq!(set_down(true), ((false, "1.0625".to_owned()), 4));
    let (healthy, moved) = set_down(false);
    assert_eq!(healthy, (true, "1.0000".to_owned()));
    assert!(moved > 0);
}

/// Where leaf1's link to spine1 failed and came back: what the busiest link carries before, between and after, how many pins moved back, and
/// that nothing moves after that.
fn failed_and_returned(jobs: &[v1::Job]) -> ([String; 3], usize) {
    const LINK: &str = "leaf1:eth1--spine1:eth1";
    let mut bench = Bench::new(with_nics(4, 20, 20), jobs);
    let healthy = wholeness(&bench.adopt().0).1;
    bench.topology.set_down(LINK, true);
    let failed = wholeness(&bench.adopt().0).1;
    bench.topology.set_down(LINK, false);
    let (plan, moved) = bench.adopt();
    assert_eq!(bench.adopt().1, []);
    ([healthy, failed, wholeness(&plan).1], moved.len())
}

#[test]
fn flows_of_a_job_with_overlap_sets_move_back() {
    let mut job = ring("train", 4, 1..=20);
    let mut second = job.groups[0].clone();
    job.groups[0].overlap_set = "forward".to_owned();
    second.name = "parameters".to_owned();
    second.overlap_set = "backward".to_owned();
    second.collective = v1::Collective::ReduceScatter.into();
    job.groups.push(second);
    let (loads, moved) = failed_and_returned(&[job]);
    assert_eq!(loads, ["1.0000", "1.0625", "1.0000"]);
    assert!((1..=8).contains(&moved), "{moved} of 160");
}

#[test]
fn flows_of_jobs_of_different_priority_move_back() {
    let mut first = ring("first", 4, 1..=10);
    first.priority = 1;
    let (loads, moved) = failed_and_returned(&[first, ring("second", 4, 11..=20)]);
    assert_eq!(
        (&loads[0], &loads[2]),
        (&"1.0000".to_owned(), &"1.0000".to_owned())
    );
    assert!(loads[1] > loads[0], "{loads:?}");
    assert!((1..=8).contains(&moved), "{moved} of 80");
}
