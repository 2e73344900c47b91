//! Pins over three tiers.

use super::*;
use crate::fabric::topology::Declaration;
use crate::fabric::topology::tests::with_pods;

#[test]
fn pins_lead_to_another_pod_over_planes() {
    let mut bench = Bench::new(with_pods(), &[ring("train", 4, 1..=2)]);
    let (plan, _) = bench.adopt();
    assert_eq!(state(&plan, "train"), State::Placed);
    assert_eq!(plan.pins.len(), 8);
    // Each leaf sends over the spines of its own pod.
    let own = |(name, paths): (&PinName, &Arc<[PinPath]>)| {
        let pods = match name.source.as_str().split_once(':').unwrap().0 {
            "leaf1" | "leaf2" => ["spine1", "spine2"],
            _ => ["spine3", "spine4"],
        };
        paths.iter().all(|path| pods.contains(&path.spine.as_str()))
    };
    assert!(plan.pins.iter().all(own));
    let certificate = plan.certificate.as_ref().unwrap();
    assert_eq!((certificate.max_load, certificate.lower_bound), (1.0, 1.0));
    assert_eq!((certificate.tight.len(), certificate.tight_count), (8, 8));
    let (_, moved) = bench.adopt();
    assert_eq!(moved, []);

    // A plane that does not lead to the other pod carries nothing: half of what is sent has to move.
    bench.topology.set_down("core1:eth2--spine3:eth9", true);
    let (plan, moved) = bench.adopt();
    assert_eq!(state(&plan, "train"), State::Placed);
    assert!(!moved.is_empty());
    let over = |plan: &PinPlan, pod: [&str; 2], spine: &str| {
        let pins = plan.pins.iter();
        let of_pod = pins.filter(|(name, _)| {
            pod.iter()
                .any(|leaf| name.source.as_str().starts_with(leaf))
        });
        of_pod
            .flat_map(|(_, paths)| paths.iter())
            .any(|path| path.spine.as_str() == spine)
    };
    let pods = [["leaf1:", "leaf2:"], ["leaf3:", "leaf4:"]];
    let used = [
        over(&plan, pods[0], "spine1"),
        over(&plan, pods[1], "spine3"),
    ];
    assert_eq!(
        used.iter().filter(|used| **used).count(),
        1,
        "one pod is cut off"
    );
}

#[test]
fn pins_spare_a_plane_with_little_above_its_spines() {
    let mut fabric = with_pods().declaration();
    let slow = "core1:eth2--spine3:eth9";
    let named = |link: &&mut v1::Link| {
        let end = |end: &Option<v1::LinkEnd>| {
            let end = end.clone().unwrap();
            format!("{}:{}", end.switch_name, end.interface_name)
        };
        format!("{}--{}", end(&link.a), end(&link.b)) == slow
    };
    fabric.links.iter_mut().find(named).unwrap().capacity_bps = 50_000_000_000;
    let topology = Topology::new(&fabric).unwrap();
    let mut bench = Bench::new(topology, &[ring("train", 4, 1..=2)]);
    let (plan, _) = bench.adopt();
    assert_eq!(state(&plan, "train"), State::Placed);
    // Two flows at 100 Gb/s go from pod to pod each way. One on each plane would be twice what the slow link has.
    let certificate = plan.certificate.as_ref().unwrap();
    assert!(certificate.max_load < 1.7, "{certificate:?}");
    let bound = certificate.lower_bound;
    assert!((1.333..1.334).contains(&bound), "of the pod: {bound}");

    // A link that an even plan has to overload is said to be overloaded.
    bench.topology.put(Fact::Link(Arc::new({
        let link = bench.topology.link(slow).unwrap();
        let mut link = link.clone();
        link.capacity_bps = 95_000_000_000;
        link
    })));
    let past = std::mem::take(&mut bench.pins);
    assert!(!past.is_empty());
    let (plan, _) = bench.adopt();
    let certificate = plan.certificate.as_ref().unwrap();
    let load = 100.0 / 95.0;
    assert!(
        (certificate.max_load - load).abs() < 1e-9,
        "{certificate:?}"
    );
    assert_eq!(certificate.tight, [slow.into()]);
    assert_eq!(certificate.tight_count, 1);
}

#[test]
fn spines_of_a_pod_below_the_same_super_spines_are_said_to_lead_nowhere() {
    let topology = Topology::new(&with_mixed_planes()).unwrap();
    let mut bench = Bench::new(topology, &[ring("train", 4, 1..=2)]);
    let (plan, _) = bench.adopt();
    let State::Infeasible(why) = state(&plan, "train") else {
        panic!("{plan:?}");
    };
    assert!(why.contains(" lead to the same super-spines: "), "{why}");
}

/// Two pods, with a second spine of the first one at the super-spine of another plane.
pub(crate) fn with_mixed_planes() -> Declaration {
    let mut fabric = with_pods().declaration();
    let mut link = fabric.links.last().unwrap().clone();
    let (a, b) = (link.a.as_mut().unwrap(), link.b.as_mut().unwrap());
    (a.switch_name, a.interface_name) = ("core1".to_owned(), "eth7".to_owned());
    (a.address, b.address) = ("192.1.7.1".to_owned(), "192.1.7.2".to_owned());
    b.interface_name = "eth10".to_owned();
    link.name.clear();
    fabric.links.push(link);
    fabric
}
