//! Why a leaf has no weights for what it sends to another one, by the routes of the plan in force. Pure. It refuses to know modes, and
//! who asks.

use std::sync::Arc;

use ipnet::IpNet;

use super::Plan;
use crate::fabric::topology::SwitchName;

/// Why a leaf has no weights for what it sends to another one: its own routing decides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unweighted {
    /// The plan in force has no routes of the leaf, or does not know the other one.
    Unplanned,
    /// The tables that the leaf declares, or this replica, have no room for its weights.
    NoRoom,
    /// A link of the leaf has no address, and no weft-agent answers that would find the neighbour by the interface.
    Unnumbered,
    /// The leaf gets only ways that a spine announces, and none that is up is announced: no weft-agent answers there, or it takes
    /// weights over BGP.
    Unannounced,
    /// No live way leads to the other leaf.
    NoWay,
    /// Nobody answers at the address of the leaf's agent.
    Unanswered,
    /// The forwarding plane of the leaf does not have them, for this reason.
    Withheld(Arc<str>),
}

impl Plan {
    /// Why a leaf gets no weights for what it sends to another one; None: its routes have some.
    pub fn unweighted(&self, leaf: &SwitchName, to: &SwitchName) -> Option<Unweighted> {
        let known = || {
            let solved = self.solved.as_ref()?;
            let vtep = solved.topology().switch(to)?.vtep?;
            Some((solved, self.routes.get(leaf)?, IpNet::from(vtep)))
        };
        let Some((solved, routes, prefix)) = known() else {
            return Some(Unweighted::Unplanned);
        };
        if routes.prefixes.contains_key(&prefix) {
            None
        } else if self.without_room.contains(leaf) {
            Some(Unweighted::NoRoom)
        } else if solved.unresolved(leaf).is_some() {
            Some(Unweighted::Unnumbered)
        } else if solved.is_foreign(leaf) {
            Some(Unweighted::Unannounced)
        } else {
            Some(Unweighted::NoWay)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use weft_proto::v1;

    use super::*;
    use crate::balancer::{Balancer, Inputs};
    use crate::fabric::live::{Announced, SpineRoutes};
    use crate::fabric::topology::tests::{declared, leaf_spine, vtep};
    use crate::fabric::topology::{Declaration, Topology};

    /// No weft-agent answers at these leaves.
    fn inputs(fabric: &Declaration, foreign: &[&str]) -> Inputs {
        let foreign = foreign.iter().map(|leaf| SwitchName::from(*leaf));
        Inputs {
            topology: Arc::new(Topology::new(fabric).unwrap()),
            foreign: foreign.collect(),
            ..Inputs::default()
        }
    }

    fn plan(inputs: &Inputs) -> Plan {
        let mut balancer = Balancer::default();
        balancer.handle(inputs, Duration::ZERO).unwrap();
        balancer.plan().clone()
    }

    fn set_down(fabric: &mut Declaration, ends: &[(&str, &str)]) {
        for link in &mut fabric.links {
            let (a, b) = link.a.as_ref().zip(link.b.as_ref()).unwrap();
            if ends.contains(&(a.switch_name.as_str(), b.switch_name.as_str())) {
                link.admin_state = v1::AdminState::Down.into();
            }
        }
    }

    fn why(plan: &Plan, leaf: &str, to: &str) -> Option<Unweighted> {
        plan.unweighted(&leaf.into(), &to.into())
    }

    #[test]
    fn a_leaf_has_weights_to_where_its_routes_lead() {
        let plan = plan(&inputs(&declared(3, 2), &[]));
        assert_eq!(why(&plan, "leaf1", "leaf2"), None);
        assert_eq!(why(&plan, "leaf1", "leaf9"), Some(Unweighted::Unplanned));
        assert_eq!(why(&plan, "leaf9", "leaf1"), Some(Unweighted::Unplanned));
        let none = Plan::default();
        assert_eq!(why(&none, "leaf1", "leaf2"), Some(Unweighted::Unplanned));
    }

    #[test]
    fn a_leaf_whose_agent_never_answered_has_weights_over_announced_ways_alone() {
        let mut inputs = inputs(&declared(3, 2), &["leaf1"]);
        let none = plan(&inputs);
        assert_eq!(why(&none, "leaf1", "leaf2"), Some(Unweighted::Unannounced));
        assert_eq!(why(&none, "leaf2", "leaf1"), None);
        // Spine 1 announces the VTEPs of leaves 1 and 2.
        let routes = SpineRoutes::To([vtep(1), vtep(2)].into());
        let announced: Announced = [("spine1".into(), routes)].into();
        inputs.announced = Arc::new(announced);
        let some = plan(&inputs);
        assert_eq!(why(&some, "leaf1", "leaf2"), None);
        assert_eq!(why(&some, "leaf1", "leaf3"), Some(Unweighted::Unannounced));
    }

    #[test]
    fn a_leaf_without_addresses_and_weft_agent_has_no_weights() {
        let mut fabric = declared(2, 1);
        for link in &mut fabric.links {
            let ends = [&mut link.a, &mut link.b].into_iter().flatten();
            ends.for_each(|end| end.address.clear());
        }
        let plan = plan(&inputs(&fabric, &["leaf1"]));
        assert_eq!(why(&plan, "leaf1", "leaf2"), Some(Unweighted::Unnumbered));
        assert_eq!(why(&plan, "leaf2", "leaf1"), None);
    }

    #[test]
    fn a_leaf_has_no_weights_to_one_that_is_cut_off() {
        let mut fabric = declared(3, 2);
        set_down(&mut fabric, &[("leaf2", "spine1"), ("leaf2", "spine2")]);
        let plan = plan(&inputs(&fabric, &[]));
        assert_eq!(why(&plan, "leaf1", "leaf2"), Some(Unweighted::NoWay));
        assert_eq!(why(&plan, "leaf2", "leaf1"), Some(Unweighted::NoWay));
        assert_eq!(why(&plan, "leaf1", "leaf3"), None);
    }

    #[test]
    fn a_leaf_whose_table_is_too_small_has_no_weights_until_it_fits() {
        let mut fabric = declared(3, 2);
        // Leaf 2 is reached over spine 2 alone, and leaf 3 over spine 1 alone.
        set_down(&mut fabric, &[("leaf2", "spine1"), ("leaf3", "spine2")]);
        fabric.switches[0].limits = Some(v1::SwitchLimits {
            groups: Some(1),
            ..v1::SwitchLimits::default()
        });
        let mut balancer = Balancer::default();
        let small = inputs(&fabric, &[]);
        balancer.handle(&small, Duration::ZERO).unwrap();
        let no_room = Some(Unweighted::NoRoom);
        assert_eq!(why(balancer.plan(), "leaf1", "leaf2"), no_room);
        assert_eq!(why(balancer.plan(), "leaf3", "leaf1"), None);
        let fitting = Inputs {
            topology: Arc::new(leaf_spine(3, 2)),
            ..Inputs::default()
        };
        balancer.handle(&fitting, Duration::ZERO).unwrap();
        assert_eq!(why(balancer.plan(), "leaf1", "leaf2"), None);
    }
}
