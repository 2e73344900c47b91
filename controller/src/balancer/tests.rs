//! What is planned from which inputs, and what two plans share.

use std::net::IpAddr;

use ipnet::IpNet;
use proptest::prelude::*;

use super::*;
use crate::fabric::live::SpineRoutes;
use crate::fabric::topology::tests::{declared, leaf_spine, vtep};

const FAR: &str = "leaf2:eth1--spine1:eth2";

fn inputs(topology: Topology) -> Inputs {
    Inputs {
        topology: Arc::new(topology),
        ..Inputs::default()
    }
}

fn weights(plan: &Plan, leaf: &str, to: u8) -> Vec<(String, u32)> {
    let plan = plan.leaf(&leaf.into()).unwrap().unwrap();
    let members = plan.entries[&IpNet::from(vtep(to))].members.iter();
    members
        .map(|member| (member.next_hop.to_string(), member.weight))
        .collect()
}

fn reason(plan: &Plan, leaf: &str, to: u8) -> String {
    let plan = plan.leaf(&leaf.into()).unwrap().unwrap();
    plan.entries[&IpNet::from(vtep(to))].reason()
}

fn announced(to: &[(&str, &[u8])]) -> Arc<Announced> {
    let routes = |leaves: &[u8]| SpineRoutes::To(leaves.iter().map(|leaf| vtep(*leaf)).collect());
    let announced = to.iter();
    Arc::new(
        announced
            .map(|(spine, to)| ((*spine).into(), routes(to)))
            .collect(),
    )
}

#[test]
fn a_healthy_fabric_gets_an_even_plan() {
    let mut fabric = declared(3, 2);
    fabric.switches[2].agent_address.clear();
    let mut balancer = Balancer::new(Limits::default());
    let topology = Topology::new(&fabric).unwrap().with_head("example", 3);
    let inputs = inputs(topology);
    assert_eq!(balancer.handle(&inputs, Duration::ZERO), Ok(true));
    let plan = balancer.plan();
    assert_eq!((plan.revision, plan.leaves().count()), (3, 3));
    let even = [("192.0.1.1".to_owned(), 1), ("192.0.1.2".to_owned(), 1)];
    assert_eq!(weights(plan, "leaf1", 2), even);
    // Leaf 3 has no agent; the others need two prefixes each.
    assert_eq!(plan.routes.len(), 2);
    assert_eq!(plan.routes["leaf1"].prefixes.len(), 2);
    assert!(plan.leaf(&"spine1".into()).is_none());
    assert_eq!(balancer.handle(&inputs, Duration::ZERO), Ok(false));
}

/// Nobody at the leaf compares next hops with its routing.
#[test]
fn a_leaf_that_takes_weights_over_bgp_gets_ways_that_a_spine_vouches_for() {
    let mut fabric = declared(3, 2);
    fabric.switches[2].agent_address.clear();
    fabric.switches[2].peer_address = "203.0.113.3".to_owned();
    fabric.switches[2].link_bandwidth_weights = true;
    let mut balancer = Balancer::new(Limits::default());
    let mut inputs = inputs(Topology::new(&fabric).unwrap());
    inputs.foreign = ["leaf3".into()].into();
    balancer.handle(&inputs, Duration::ZERO).unwrap();
    let plan = balancer.plan();
    assert_eq!(plan.routes.len(), 3);
    assert_eq!(plan.routes["leaf1"].prefixes.len(), 2);
    assert!(plan.routes["leaf3"].prefixes.is_empty(), "nobody spoke");
    inputs.announced = announced(&[("spine1", &[1, 2, 3]), ("spine2", &[2, 3])]);
    balancer.handle(&inputs, Duration::ZERO).unwrap();
    let plan = balancer.plan();
    assert_eq!(weights(plan, "leaf3", 1), [("192.0.3.1".to_owned(), 1)]);
    assert_eq!(weights(plan, "leaf3", 2).len(), 2);
}

#[test]
fn a_link_set_down_changes_the_plan_at_once_and_back() {
    let mut balancer = Balancer::new(Limits::default());
    let mut topology = leaf_spine(3, 2);
    balancer
        .handle(&inputs(topology.clone()), Duration::ZERO)
        .unwrap();
    let before = balancer.plan().clone();
    topology.set_down("leaf2:eth1--spine1:eth2", true);
    assert_eq!(
        balancer.handle(&inputs(topology.clone()), Duration::ZERO),
        Ok(true)
    );
    let plan = balancer.plan();
    assert_eq!(plan.revision, 2);
    assert_eq!(weights(plan, "leaf1", 2), [("192.0.1.2".to_owned(), 1)]);
    assert_eq!(weights(plan, "leaf1", 3).len(), 2);
    assert_eq!(
        reason(plan, "leaf2", 1),
        "1 part over 1 of 2 uplinks, with spine1 as backup; \
         leaf2:eth1--spine1:eth2: no part: the link is down (an operator set it down)"
    );
    topology.set_down(FAR, false);
    balancer.handle(&inputs(topology), Duration::ZERO).unwrap();
    assert_eq!(balancer.plan().routes, before.routes);
    assert_eq!(balancer.plan().revision, 3);
}

#[test]
fn a_spine_that_lost_a_vtep_gets_no_part_towards_it() {
    let mut balancer = Balancer::new(Limits::default());
    let mut inputs = inputs(leaf_spine(3, 2));
    inputs.announced = announced(&[("spine1", &[1, 3]), ("spine2", &[1, 2, 3])]);
    balancer.handle(&inputs, Duration::ZERO).unwrap();
    let plan = balancer.plan();
    assert_eq!(weights(plan, "leaf1", 2), [("192.0.1.2".to_owned(), 1)]);
    assert_eq!(weights(plan, "leaf1", 3).len(), 2);
    assert_eq!(
        reason(plan, "leaf1", 2),
        "1 part over 1 of 2 uplinks; leaf1:eth1--spine1:eth1: no part: the next switch has no live link towards the \
         destination (spine1 announces no route to 198.51.100.2)"
    );
}

#[test]
fn a_foreign_switch_gets_ways_that_somebody_confirms_and_no_others() {
    let mut balancer = Balancer::new(Limits::default());
    let mut inputs = inputs(leaf_spine(3, 2));
    inputs.foreign = ["leaf1".into()].into();
    balancer.handle(&inputs, Duration::ZERO).unwrap();
    let none = balancer.plan().routes["leaf1"].prefixes.len();
    assert_eq!(none, 0);
    assert_eq!(balancer.plan().routes["leaf2"].prefixes.len(), 2);
    assert!(reason(balancer.plan(), "leaf1", 2).contains("nobody announces the way"));

    inputs.announced = announced(&[("spine2", &[1, 2, 3])]);
    balancer.handle(&inputs, Duration::ZERO).unwrap();
    assert_eq!(
        weights(balancer.plan(), "leaf1", 2),
        [("192.0.1.2".to_owned(), 1)]
    );
    assert_eq!(weights(balancer.plan(), "leaf2", 1).len(), 2);
}

#[test]
fn a_link_that_nobody_vouches_for_is_not_called_down() {
    let mut inputs = inputs(leaf_spine(3, 2));
    inputs.foreign = ["leaf1".into()].into();
    let said = |inputs: &Inputs| {
        let mut balancer = Balancer::new(Limits::default());
        balancer.handle(inputs, Duration::ZERO).unwrap();
        let (plan, links) = (balancer.plan(), inputs.topology.links());
        let down = links.filter(|link| plan.unusable(link).is_some());
        (reason(plan, "leaf1", 2), down.count())
    };
    let none = "no confirmed way over 2 uplinks: the switch's own routing decides; \
                leaf1:eth1--spine1:eth1: not used: nobody announces the way; \
                leaf1:eth2--spine2:eth1: not used: nobody announces the way";
    assert_eq!(said(&inputs), (none.to_owned(), 0));
    // The session of spine 1 began a moment ago.
    let spine1 = SpineRoutes::Beginning([vtep(1)].into());
    let spine2 = SpineRoutes::NoSession;
    let announced: Announced = [("spine1".into(), spine1), ("spine2".into(), spine2)].into();
    inputs.announced = Arc::new(announced);
    let begun = "no confirmed way over 2 uplinks: the switch's own routing decides; \
                 leaf1:eth1--spine1:eth1: not used: the next switch has no confirmed link towards the destination \
                 (nobody announces the way); \
                 leaf1:eth2--spine2:eth1: not used: spine2 has no BGP session to weft";
    assert_eq!(said(&inputs), (begun.to_owned(), 0));
    let mut topology = leaf_spine(3, 2);
    topology.set_down("leaf1:eth2--spine2:eth1", true);
    inputs.topology = Arc::new(topology);
    let (set_down, count) = said(&inputs);
    let expected = "; leaf1:eth2--spine2:eth1: no part: the link is down (an operator set it down)";
    assert!(set_down.ends_with(expected), "{set_down}");
    assert_eq!(count, 1);
}

/// Two links from spine 1 to leaf 2: one is down, and of the other nobody speaks.
#[test]
fn a_way_on_is_not_called_down_for_one_of_its_links() {
    let mut fabric = declared(2, 1);
    let mut second = fabric.links[1].clone();
    let ends = [&mut second.a, &mut second.b].into_iter().flatten();
    for (end, address) in ends.zip(["192.0.9.101", "192.0.9.1"]) {
        (end.interface_name, end.address) = ("eth9".to_owned(), address.to_owned());
    }
    fabric.links.push(second);
    let mut topology = Topology::new(&fabric).unwrap();
    topology.set_down(FAR, true);
    let mut inputs = inputs(topology);
    inputs.foreign = ["leaf1".into()].into();
    let spine1 = SpineRoutes::Beginning([vtep(1)].into());
    let announced: Announced = [("spine1".into(), spine1)].into();
    inputs.announced = Arc::new(announced);
    let mut balancer = Balancer::new(Limits::default());
    balancer.handle(&inputs, Duration::ZERO).unwrap();
    assert_eq!(
        reason(balancer.plan(), "leaf1", 2),
        "no confirmed way over 1 uplinks: the switch's own routing decides; \
         leaf1:eth1--spine1:eth1: not used: the next switch has no confirmed link towards the destination \
         (nobody announces the way)"
    );
}

/// weft-agent finds a neighbour by its interface; another gRIBI server needs its address.
#[test]
fn a_foreign_switch_with_unnumbered_links_is_left_to_its_own_routing() {
    let mut fabric = declared(3, 2);
    for link in &mut fabric.links {
        let ends = [&mut link.a, &mut link.b].into_iter().flatten();
        ends.for_each(|end| end.address.clear());
    }
    let mut balancer = Balancer::new(Limits::default());
    let mut inputs = inputs(Topology::new(&fabric).unwrap());
    inputs.announced = announced(&[("spine1", &[1, 2, 3]), ("spine2", &[1, 2, 3])]);
    balancer.handle(&inputs, Duration::ZERO).unwrap();
    let plan = balancer.plan().clone();
    let both = [("eth1".to_owned(), 1), ("eth2".to_owned(), 1)];
    assert_eq!(weights(&plan, "leaf1", 2), both);
    assert_eq!(plan.routes["leaf1"].prefixes.len(), 2);

    // The same weights, and another server.
    inputs.foreign = ["leaf1".into()].into();
    balancer.handle(&inputs, Duration::ZERO).unwrap();
    let plan = balancer.plan().clone();
    assert!(plan.routes["leaf1"].prefixes.is_empty());
    assert_eq!(weights(&plan, "leaf1", 2), []);
    assert_eq!(
        reason(&plan, "leaf1", 2),
        "leaf1:eth1--spine1:eth1 has no address, and no weft-agent answers that would find the neighbour by the interface: \
         the switch's own routing decides"
    );
    assert_eq!(plan.routes["leaf2"].prefixes.len(), 2);

    inputs.foreign.clear();
    balancer.handle(&inputs, Duration::ZERO).unwrap();
    assert_eq!(balancer.plan().routes["leaf1"].prefixes.len(), 2);
}

#[test]
fn what_a_switch_sees_counts_as_much_as_what_an_operator_sets() {
    let mut balancer = Balancer::new(Limits::default());
    let mut topology = leaf_spine(3, 2);
    topology.set_down(FAR, true);
    balancer
        .handle(&inputs(topology.clone()), Duration::ZERO)
        .unwrap();
    let before = balancer.plan().clone();
    topology.set_down(FAR, false);
    let mut seen = inputs(topology);
    let leaf2: Interfaces = [("eth1".to_owned(), false), ("eth2".to_owned(), true)].into();
    seen.interfaces = [("leaf2".into(), Arc::new(leaf2))].into();
    // The same weights for another reason, and nothing that is drained.
    assert_eq!(balancer.handle(&seen, Duration::ZERO), Ok(true));
    let routes = balancer.plan().routes.clone();
    for (leaf, routes) in &*routes {
        assert_eq!(routes.prefixes, before.routes[leaf].prefixes);
    }
    // Once more for another reason: it is the same plan.
    let revision = balancer.plan().revision;
    seen.announced = announced(&[("spine1", &[1, 3])]);
    seen.interfaces = BTreeMap::new();
    assert_eq!(balancer.handle(&seen, Duration::ZERO), Ok(true));
    assert_eq!(balancer.plan().revision, revision);
    assert!(Arc::ptr_eq(&balancer.plan().routes, &routes));
    assert!(reason(balancer.plan(), "leaf2", 1).contains("no route to"));
    seen.announced = Arc::default();
    let leaf2: Interfaces = [("eth1".to_owned(), false), ("eth2".to_owned(), true)].into();
    seen.interfaces = [("leaf2".into(), Arc::new(leaf2))].into();
    balancer.handle(&seen, Duration::ZERO).unwrap();
    assert!(reason(balancer.plan(), "leaf2", 1).contains("leaf2: eth1 is down"));
}

#[test]
fn a_change_at_one_leaf_leaves_the_routes_of_others_as_they_are() {
    let mut balancer = Balancer::new(Limits::default());
    let mut topology = leaf_spine(3, 2);
    balancer
        .handle(&inputs(topology.clone()), Duration::ZERO)
        .unwrap();
    let before = balancer.plan().clone();
    for spine in 1..=2 {
        let name = format!("leaf2:eth{spine}--spine{spine}:eth2");
        topology.set_down(&name, true);
    }
    topology.set_down("leaf1:eth1--spine1:eth1", true);
    topology.set_down("leaf1:eth2--spine2:eth1", true);
    balancer.handle(&inputs(topology), Duration::ZERO).unwrap();
    let plan = balancer.plan();
    assert_eq!(plan.routes["leaf2"].prefixes.len(), 0);
    assert!(reason(plan, "leaf3", 2).starts_with("no live way over 2 uplinks"));
    let leaf3: SwitchName = "leaf3".into();
    assert!(!Arc::ptr_eq(&plan.routes[&leaf3], &before.routes[&leaf3]));
    let again = balancer.plan().clone();
    let mut changed = plan.topology().unwrap().as_ref().clone();
    changed.set_down("leaf2:eth1--spine1:eth2", false);
    balancer.handle(&inputs(changed), Duration::ZERO).unwrap();
    let leaf1: SwitchName = "leaf1".into();
    assert!(Arc::ptr_eq(
        &balancer.plan().routes[&leaf1],
        &again.routes[&leaf1]
    ));
}

#[test]
fn the_same_inputs_in_another_order_give_the_same_plan() {
    let mut turned = declared(3, 2);
    turned.switches.reverse();
    turned.links.reverse();
    let plan = |topology: Topology| {
        let mut balancer = Balancer::new(Limits::default());
        balancer.handle(&inputs(topology), Duration::ZERO).unwrap();
        let leaves = balancer.plan().leaves().cloned().collect::<Vec<_>>();
        leaves
            .iter()
            .map(|leaf| balancer.plan().leaf(leaf))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        plan(leaf_spine(3, 2)),
        plan(Topology::new(&turned).unwrap())
    );
}

#[test]
fn a_prefix_is_the_address_of_a_vtep_alone() {
    let mut balancer = Balancer::new(Limits::default());
    balancer
        .handle(&inputs(leaf_spine(2, 1)), Duration::ZERO)
        .unwrap();
    let prefixes = &balancer.plan().routes["leaf1"].prefixes;
    let address = IpAddr::from([198, 51, 100, 2]);
    assert_eq!(prefixes.keys().collect::<Vec<_>>(), [&IpNet::from(address)]);
}

#[test]
fn a_spine_set_down_gets_no_part_as_long_as_there_is_another() {
    let mut fabric = declared(2, 2);
    let mut balancer = Balancer::new(Limits::default());
    balancer
        .handle(&inputs(Topology::new(&fabric).unwrap()), Duration::ZERO)
        .unwrap();
    let spine1 = fabric.switches.iter_mut().find(|it| it.name == "spine1");
    spine1.unwrap().admin_state = weft_proto::v1::AdminState::Down.into();
    let drained = inputs(Topology::new(&fabric).unwrap());
    assert_eq!(balancer.handle(&drained, Duration::ZERO), Ok(true));
    let plan = balancer.plan();
    assert_eq!(weights(plan, "leaf1", 2), [("192.0.1.2".to_owned(), 1)]);
    let why = reason(plan, "leaf1", 2);
    assert!(why.contains("an operator set spine1 down"), "{why}");
}

/// What a leaf falls back to on its way to another one.
fn backups(plan: &Plan, leaf: &str, to: u8) -> Vec<(String, u32)> {
    let backup = plan.routes[leaf].backups.get(&IpNet::from(vtep(to)));
    let members = backup.into_iter().flat_map(|members| members.iter());
    members
        .map(|(next_hop, weight)| (next_hop.to_string(), *weight))
        .collect()
}

/// A fabric of three leaves and three spines, of which the first is set down.
fn drained() -> crate::fabric::topology::Declaration {
    let mut fabric = declared(3, 3);
    let spine1 = fabric.switches.iter_mut().find(|it| it.name == "spine1");
    spine1.unwrap().admin_state = weft_proto::v1::AdminState::Down.into();
    fabric
}

#[test]
fn what_is_drained_is_what_leaves_fall_back_to() {
    let mut balancer = Balancer::new(Limits::default());
    let whole = inputs(leaf_spine(3, 3));
    balancer.handle(&whole, Duration::ZERO).unwrap();
    assert!(balancer.plan().routes["leaf1"].backups.is_empty());
    let spine = inputs(Topology::new(&drained()).unwrap());
    balancer.handle(&spine, Duration::ZERO).unwrap();
    let plan = balancer.plan();
    assert_eq!(weights(plan, "leaf1", 2).len(), 2);
    let spine1 = [("192.0.1.1".to_owned(), 1)];
    assert_eq!(backups(plan, "leaf1", 2), spine1);
    let why = reason(plan, "leaf1", 2);
    assert!(
        why.contains(" uplinks, with spine1 as backup; leaf1:eth1"),
        "{why}"
    );
    // One far link: only what goes to its leaf falls back to it.
    let mut link = leaf_spine(3, 3);
    link.set_down(FAR, true);
    balancer.handle(&inputs(link), Duration::ZERO).unwrap();
    let plan = balancer.plan();
    assert_eq!(backups(plan, "leaf1", 2), spine1);
    assert!(backups(plan, "leaf1", 3).is_empty());
    // And back.
    balancer.handle(&whole, Duration::ZERO).unwrap();
    assert!(balancer.plan().routes["leaf1"].backups.is_empty());
}

#[test]
fn a_link_that_somebody_else_calls_down_is_no_backup() {
    let mut balancer = Balancer::new(Limits::default());
    let mut spine = inputs(Topology::new(&drained()).unwrap());
    balancer.handle(&spine, Duration::ZERO).unwrap();
    let before = balancer.plan().revision;
    let up = |eth: u8| (format!("eth{eth}"), eth != 1);
    let interfaces: Interfaces = (1..=3).map(up).collect();
    spine.interfaces = [("leaf1".into(), Arc::new(interfaces))].into();
    assert_eq!(balancer.handle(&spine, Duration::ZERO), Ok(true));
    let plan = balancer.plan();
    assert!(plan.revision > before);
    assert!(backups(plan, "leaf1", 2).is_empty());
    assert!(backups(plan, "leaf2", 1).is_empty());
    assert_eq!(backups(plan, "leaf2", 3), [("192.0.2.1".to_owned(), 1)]);
    // A spine that says that it lost a leaf.
    let mut spine = inputs(Topology::new(&drained()).unwrap());
    spine.announced = announced(&[("spine1", &[1, 3])]);
    let mut balancer = Balancer::new(Limits::default());
    balancer.handle(&spine, Duration::ZERO).unwrap();
    let plan = balancer.plan();
    assert!(backups(plan, "leaf1", 2).is_empty());
    assert_eq!(backups(plan, "leaf1", 3), [("192.0.1.1".to_owned(), 1)]);
}

#[test]
fn a_drained_link_that_flaps_waits_and_leaves_weights_as_they_are() {
    let mut balancer = Balancer::new(Limits::default());
    let mut spine = inputs(Topology::new(&drained()).unwrap());
    let mut at = |balancer: &mut Balancer, up: bool, second: u64| {
        let interface = |eth: u8| (format!("eth{eth}"), eth != 1 || up);
        let interfaces: Interfaces = (1..=3).map(interface).collect();
        spine.interfaces = [("leaf1".into(), Arc::new(interfaces))].into();
        balancer
            .handle(&spine, Duration::from_secs(second))
            .unwrap();
        backups(balancer.plan(), "leaf1", 2).len()
    };
    assert_eq!(at(&mut balancer, true, 0), 1);
    let before = balancer.plan().clone();
    assert_eq!(at(&mut balancer, false, 1), 0);
    assert_eq!(at(&mut balancer, true, 2), 0);
    assert!(reason(balancer.plan(), "leaf1", 2).contains("an operator set spine1 down"));
    assert_eq!(at(&mut balancer, true, 11), 0);
    let due = balancer.due().unwrap();
    assert_eq!(at(&mut balancer, true, due.as_secs()), 1);
    assert_eq!(balancer.plan().routes, before.routes);
}

#[test]
fn a_leaf_that_takes_weights_over_bgp_has_no_backups() {
    let mut fabric = drained();
    let leaf1 = fabric.switches.iter_mut().find(|it| it.name == "leaf1");
    let leaf1 = leaf1.unwrap();
    leaf1.agent_address.clear();
    (leaf1.link_bandwidth_weights, leaf1.peer_address) = (true, "198.51.100.1".to_owned());
    let mut spine = inputs(Topology::new(&fabric).unwrap());
    spine.foreign = ["leaf1".into()].into();
    spine.announced = announced(&[("spine1", &[1, 2, 3]), ("spine2", &[1, 2, 3])]);
    let mut balancer = Balancer::new(Limits::default());
    balancer.handle(&spine, Duration::ZERO).unwrap();
    let plan = balancer.plan();
    assert_eq!(weights(plan, "leaf1", 2).len(), 1);
    assert!(backups(plan, "leaf1", 2).is_empty());
    assert_eq!(backups(plan, "leaf2", 3).len(), 1);
}

#[test]
fn a_foreign_switch_falls_back_to_ways_that_somebody_confirms() {
    let mut balancer = Balancer::new(Limits::default());
    let mut spine = inputs(Topology::new(&drained()).unwrap());
    spine.foreign = ["leaf1".into()].into();
    spine.announced = announced(&[("spine2", &[1, 2, 3])]);
    balancer.handle(&spine, Duration::ZERO).unwrap();
    let plan = balancer.plan();
    assert_eq!(weights(plan, "leaf1", 2), [("192.0.1.2".to_owned(), 1)]);
    assert!(backups(plan, "leaf1", 2).is_empty());
    assert_eq!(backups(plan, "leaf2", 3), [("192.0.2.1".to_owned(), 1)]);
    spine.announced = announced(&[("spine1", &[1, 2, 3]), ("spine2", &[1, 2, 3])]);
    balancer.handle(&spine, Duration::ZERO).unwrap();
    assert_eq!(
        backups(balancer.plan(), "leaf1", 2),
        [("192.0.1.1".to_owned(), 1)]
    );
}

#[test]
fn a_table_without_room_for_backups_keeps_the_weights() {
    let mut balancer = Balancer::new(Limits::default());
    let mut fabric = drained();
    let limits = |groups| weft_proto::v1::SwitchLimits {
        groups: Some(groups),
        ..weft_proto::v1::SwitchLimits::default()
    };
    for groups in [2, 3] {
        let leaf1 = fabric.switches.iter_mut().find(|it| it.name == "leaf1");
        leaf1.unwrap().limits = Some(limits(groups));
        let spine = inputs(Topology::new(&fabric).unwrap());
        balancer.handle(&spine, Duration::ZERO).unwrap();
        let plan = balancer.plan();
        assert_eq!(weights(plan, "leaf1", 2).len(), 2);
        assert_eq!(backups(plan, "leaf1", 2).is_empty(), groups == 2);
        assert_eq!(backups(plan, "leaf2", 1).len(), 1);
    }
}

#[test]
fn a_link_that_is_derated_gets_what_is_left_of_it() {
    let mut fabric = declared(2, 2);
    let first = fabric.links.iter_mut().find(|link| {
        let ends = link.a.as_ref().zip(link.b.as_ref());
        ends.is_some_and(|(a, b)| a.switch_name == "leaf1" && b.switch_name == "spine1")
    });
    first.unwrap().derating_percent = 75;
    let mut balancer = Balancer::new(Limits::default());
    balancer
        .handle(&inputs(Topology::new(&fabric).unwrap()), Duration::ZERO)
        .unwrap();
    let uneven = [("192.0.1.1".to_owned(), 1), ("192.0.1.2".to_owned(), 4)];
    assert_eq!(weights(balancer.plan(), "leaf1", 2), uneven);
    assert_eq!(weights(balancer.plan(), "leaf2", 1).len(), 2);
}

/// Each leaf but the first has one slow link, to another spine: leaf 1 needs three groups of 31 parts.
fn with_slow_links() -> crate::fabric::topology::Declaration {
    let mut fabric = declared(4, 4);
    for link in &mut fabric.links {
        let (Some(a), Some(b)) = (&link.a, &link.b) else {
            continue;
        };
        let slow = [
            ("leaf2", "spine1"),
            ("leaf3", "spine2"),
            ("leaf4", "spine3"),
        ];
        if slow.contains(&(a.switch_name.as_str(), b.switch_name.as_str())) {
            link.capacity_bps = 10_000_000_000;
        }
    }
    fabric
}

#[test]
fn weights_fit_into_the_declared_table_of_a_leaf() {
    let mut fabric = with_slow_links();
    let entries = |fabric: &crate::fabric::topology::Declaration| {
        let mut balancer = Balancer::new(Limits::default());
        balancer
            .handle(&inputs(Topology::new(fabric).unwrap()), Duration::ZERO)
            .unwrap();
        let of_leaf = |leaf: &str| {
            let routes = &balancer.plan().routes[leaf].prefixes;
            let groups: BTreeSet<_> = routes.values().map(|it| (**it).clone()).collect();
            assert_eq!(routes.len(), 3);
            groups.iter().flat_map(BTreeMap::values).sum::<u32>()
        };
        (of_leaf("leaf1"), of_leaf("leaf2"))
    };
    let (all, others) = entries(&fabric);
    assert_eq!(all, 93);
    let leaf1 = fabric.switches.iter_mut().find(|it| it.name == "leaf1");
    leaf1.unwrap().limits = Some(weft_proto::v1::SwitchLimits {
        group_members: Some(40),
        ..weft_proto::v1::SwitchLimits::default()
    });
    let (fitting, unlimited) = entries(&fabric);
    assert!((3..=40).contains(&fitting), "{fitting}");
    assert_eq!(unlimited, others);
    let leaf1 = fabric.switches.iter_mut().find(|it| it.name == "leaf1");
    leaf1.unwrap().limits = Some(weft_proto::v1::SwitchLimits {
        group_width: Some(8),
        ..weft_proto::v1::SwitchLimits::default()
    });
    assert!(entries(&fabric).0 <= 24);
}

#[test]
fn a_leaf_has_no_more_groups_than_it_declares() {
    let mut fabric = with_slow_links();
    let groups = |fabric: &crate::fabric::topology::Declaration| {
        let mut balancer = Balancer::new(Limits::default());
        balancer
            .handle(&inputs(Topology::new(fabric).unwrap()), Duration::ZERO)
            .unwrap();
        let of_leaf = |leaf: &str| {
            let routes = &balancer.plan().routes[leaf].prefixes;
            assert_eq!(routes.len(), 3);
            let groups: BTreeSet<_> = routes.values().map(|it| (**it).clone()).collect();
            groups.len()
        };
        (of_leaf("leaf1"), of_leaf("leaf2"))
    };
    let (all, others) = groups(&fabric);
    assert_eq!(all, 3);
    for most in [2, 1] {
        let leaf1 = fabric.switches.iter_mut().find(|it| it.name == "leaf1");
        leaf1.unwrap().limits = Some(weft_proto::v1::SwitchLimits {
            groups: Some(most),
            ..weft_proto::v1::SwitchLimits::default()
        });
        let (fitting, unlimited) = groups(&fabric);
        assert!((1..=most as usize).contains(&fitting), "{fitting}");
        assert_eq!(unlimited, others);
    }
}

#[test]
fn a_leaf_with_too_few_groups_for_its_paths_is_left_to_its_own_routing() {
    let mut fabric = declared(3, 2);
    // Leaf 2 is reached over spine 2 alone, and leaf 3 over spine 1 alone.
    for link in &mut fabric.links {
        let (Some(a), Some(b)) = (&link.a, &link.b) else {
            continue;
        };
        let ends = (a.switch_name.as_str(), b.switch_name.as_str());
        if [("leaf2", "spine1"), ("leaf3", "spine2")].contains(&ends) {
            link.admin_state = weft_proto::v1::AdminState::Down.into();
        }
    }
    fabric.switches[0].limits = Some(weft_proto::v1::SwitchLimits {
        groups: Some(1),
        ..weft_proto::v1::SwitchLimits::default()
    });
    let mut balancer = Balancer::new(Limits::default());
    balancer
        .handle(&inputs(Topology::new(&fabric).unwrap()), Duration::ZERO)
        .unwrap();
    let plan = balancer.plan();
    assert!(plan.routes["leaf1"].prefixes.is_empty());
    assert_eq!(plan.routes["leaf2"].prefixes.len(), 1);
    let refused = plan.leaf(&"leaf1".into()).unwrap().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "too many groups for the declared limits: switch 0 needs 2 groups, and its table has room for 1"
    );
}

#[test]
fn a_link_that_flaps_moves_what_it_carried_once() {
    let mut balancer = Balancer::new(Limits::default());
    let topology = leaf_spine(3, 2);
    let seen = |is_up: bool| {
        let leaf2: Interfaces = [("eth1".to_owned(), is_up), ("eth2".to_owned(), true)].into();
        let mut seen = inputs(topology.clone());
        seen.interfaces = [("leaf2".into(), Arc::new(leaf2))].into();
        seen
    };
    let at = Duration::from_secs;
    let ways = |balancer: &Balancer| weights(balancer.plan(), "leaf1", 2).len();
    balancer.handle(&seen(true), at(0)).unwrap();
    assert_eq!(ways(&balancer), 2);
    balancer.handle(&seen(false), at(1)).unwrap();
    let lost = balancer.plan().revision;
    for second in [2, 4, 6] {
        // Up, and down again a second later.
        balancer.handle(&seen(true), at(second)).unwrap();
        assert!(reason(balancer.plan(), "leaf2", 1).contains("it came up less than 10 s ago"));
        balancer.handle(&seen(false), at(second + 1)).unwrap();
    }
    balancer.handle(&seen(true), at(8)).unwrap();
    assert_eq!(balancer.due(), Some(at(18)));
    assert_eq!(balancer.handle(&seen(true), at(17)), Ok(false));
    assert_eq!((balancer.plan().revision, ways(&balancer)), (lost, 1));
    assert_eq!(balancer.handle(&seen(true), at(18)), Ok(true));
    assert_eq!((balancer.due(), ways(&balancer)), (None, 2));
}

#[test]
fn a_link_that_flaps_while_the_leader_changes_moves_what_it_carried_once() {
    let topology = leaf_spine(3, 2);
    // What the leaf says: whether its first uplink is up, and for how many seconds.
    let said = |is_up: bool, up_for: Option<u64>| {
        let leaf2: Interfaces = [("eth1".to_owned(), is_up), ("eth2".to_owned(), true)].into();
        let came_up = up_for.map(|secs| ("eth1".to_owned(), Duration::from_secs(secs)));
        let came_up: CameUp = came_up.into_iter().collect();
        let mut said = inputs(topology.clone());
        said.interfaces = [("leaf2".into(), Arc::new(leaf2))].into();
        said.came_up = [("leaf2".into(), came_up)].into();
        said
    };
    let at = Duration::from_secs;
    let ways = |balancer: &Balancer| weights(balancer.plan(), "leaf1", 2).len();
    let [mut leader, mut next] = [(); 2].map(|()| Balancer::new(Limits::default()));
    leader.handle(&said(true, None), at(0)).unwrap();
    next.handle(&inputs(topology.clone()), at(0)).unwrap();
    leader.handle(&said(false, None), at(1)).unwrap();
    leader.handle(&said(true, Some(0)), at(2)).unwrap();
    assert_eq!((ways(&leader), leader.due()), (1, Some(at(12))));
    // The leader is killed. The next one has not seen that the link was down, and hears of the leaf.
    next.handle(&said(true, Some(3)), at(5)).unwrap();
    assert_eq!((ways(&next), next.due()), (1, Some(at(12))));
    assert!(reason(next.plan(), "leaf2", 1).contains("it came up less than 10 s ago"));
    let lost = next.plan().revision;
    next.handle(&said(false, None), at(7)).unwrap();
    next.handle(&said(true, Some(0)), at(8)).unwrap();
    assert_eq!((next.plan().revision, ways(&next)), (lost, 1));
    next.handle(&said(true, None), at(18)).unwrap();
    assert_eq!((next.due(), ways(&next)), (None, 2));
}

proptest! {
    /// Most of what a leaf should have is taken over from one link event to the next.
    #[test]
    fn after_any_links_the_routes_are_those_of_a_fabric_that_begins_so(
        links in prop::collection::vec((1..=5_u8, 1..=3_u8, any::<bool>()), 1..30),
    ) {
        let mut balancer = Balancer::new(Limits::default());
        let mut topology = leaf_spine(5, 3);
        for (leaf, spine, down) in links {
            topology.set_down(&format!("leaf{leaf}:eth{spine}--spine{spine}:eth{leaf}"), down);
            let inputs = inputs(topology.clone());
            balancer.handle(&inputs, Duration::ZERO).unwrap();
            let mut anew = Balancer::new(Limits::default());
            anew.handle(&inputs, Duration::ZERO).unwrap();
            prop_assert_eq!(&balancer.plan().routes, &anew.plan().routes);
        }
    }
}
