//! Into how many pieces flows may be divided for the sake of jobs whose phases may meet: by their queue pairs, where these are known
//! and the leaf has room to tell them apart. Pure. It refuses to know spines.

use std::collections::BTreeMap;

use super::Sent;
use super::candidates::pins_most;
use crate::balancer::flows::{WAYS_MAX, flows_to, is_addressed};
use crate::fabric::fact::{JobName, SwitchName};
use crate::fabric::topology::Topology;

/// What a leaf would have, if all of its flows were divided.
#[derive(Default)]
struct Leaf {
    entries: usize,
    divided: usize,
}

/// Pieces of each bundle: one for each port of its queue pairs, or one where its leaf has no room for all of its flows in pieces. A
/// leaf has so many uplinks at most.
pub(super) fn of_bundles(
    topology: &Topology,
    bundles: &[Vec<(&JobName, &Sent)>],
    uplinks: usize,
) -> Vec<u32> {
    let all: Vec<usize> = bundles.iter().map(|bundle| ports(bundle)).collect();
    let mut leaves: BTreeMap<&SwitchName, Leaf> = BTreeMap::new();
    for (bundle, ports) in bundles.iter().zip(&all) {
        let (_, sent) = bundle[0];
        let leaf = leaves.entry(&sent.from.switch).or_default();
        let own = if *ports > 1 { *ports } else { 0 };
        leaf.entries += flows_to(&sent.to).count().max(1) * (1 + own);
        leaf.divided += usize::from(own > 0);
    }
    let has_room = |name: &SwitchName| {
        let leaf = &leaves[name];
        leaf.entries <= pins_most(topology, name) && leaf.divided + uplinks <= WAYS_MAX
    };
    let pieces = bundles.iter().zip(&all).map(|(bundle, ports)| {
        let (_, sent) = bundle[0];
        match has_room(&sent.from.switch) {
            true => u32::try_from(*ports).unwrap_or(u32::MAX),
            false => 1,
        }
    });
    pieces.collect()
}

/// The ports of the flow of a bundle that has fewest; 1 if those of some are not known.
fn ports(bundle: &[(&JobName, &Sent)]) -> usize {
    let of = |(_, sent): &(&JobName, &Sent)| match is_addressed(&sent.to) {
        true => sent.ports.chunk_by(PartialEq::eq).count(),
        false => 1,
    };
    bundle.iter().map(of).min().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_proto::v1;

    use crate::balancer::pins::tests::Bench;
    use crate::balancer::pins::{PinPlan, State};
    use crate::fabric::fact::{Fact, JobName};
    use crate::fabric::topology::tests::with_nics;

    /// Every fourth of 64 NICs at 8 leaves. In each of three overlap sets each sends to another one, over so many queue pairs.
    fn job(number: u8, queue_pairs: u16) -> v1::Job {
        let nic = |place: u8| {
            let all = 4 * (place % 16) + number;
            Some(v1::Nic {
                host_port_name: format!("leaf{}:nic{}", 1 + all / 8, 1 + all % 8),
                ..v1::Nic::default()
            })
        };
        let pair = |pair: u16| v1::QueuePair {
            udp_source_port: Some((49_152 + pair).into()),
            ..v1::QueuePair::default()
        };
        let flow = |set: u8, place: u8| v1::JobFlow {
            source: nic(place),
            destination: nic([3, 5, 11][usize::from(set)] * place + 1 + set),
            octets: 1 << 30,
            overlap_set: format!("set{set}"),
            pairs: (0..queue_pairs).map(pair).collect(),
            ..v1::JobFlow::default()
        };
        let flows = (0..3).flat_map(|set| (0..16).map(move |place| (set, place)));
        let flows = flows.map(|(set, place)| flow(set, place));
        v1::Job {
            name: format!("job{number}"),
            flows: flows
                .filter(|flow| flow.source != flow.destination)
                .collect(),
            ..v1::Job::default()
        }
    }

    fn planned(queue_pairs: u16, most: Option<u32>) -> PinPlan {
        let mut topology = with_nics(8, 8, 8);
        for leaf in 1..=8 {
            let leaf = format!("leaf{leaf}");
            let mut leaf = topology.switch(&leaf.as_str().into()).unwrap().clone();
            leaf.limits.pins = most;
            topology.put(Fact::Switch(Arc::new(leaf)));
        }
        let jobs: Vec<v1::Job> = (0..4).map(|number| job(number, queue_pairs)).collect();
        let mut bench = Bench::new(topology, &jobs);
        let (plan, _) = bench.adopt();
        for number in 0..4 {
            let job = JobName::from(format!("job{number}").as_str());
            assert_eq!(plan.jobs[&job].state, State::Placed);
        }
        PinPlan::clone(&plan)
    }

    #[test]
    fn phases_of_several_jobs_load_links_no_more_than_queue_pairs_make_it() {
        let load = |plan: &PinPlan| plan.certificate.as_ref().unwrap().max_load;
        let paths = |plan: &PinPlan| plan.pins.values().map(|paths| paths.len()).sum::<usize>();
        let (whole, divided) = (planned(0, None), planned(8, None));
        let loads = [load(&divided), load(&whole)];
        assert!(loads[0] < 1.1 && loads[1] > 1.2, "{loads:?}");
        // Leaves that have no room to tell queue pairs apart.
        let little = planned(8, Some(40));
        assert!(paths(&little) < paths(&divided) && load(&little) > loads[0]);
    }
}
