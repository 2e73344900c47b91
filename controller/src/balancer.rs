//! From what the network is to what each leaf should do: the plan.
//!
//! It translates the topology into a problem of numbers, has it solved and checked, and gives the answer the names back.
//! A plan is recomputed when an input changed and adopted when it differs and passes the check. Pure. It refuses to know
//! gRIBI, streams and clocks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weft_weights::check::{self, check};
use weft_weights::problem::{self, LinkId, Problem, ProblemError, SwitchId};
use weft_weights::quantize::Limits;
use weft_weights::spread;

use crate::fabric::topology::{Link, Live, Role, Switch, SwitchName, Topology};
use crate::southbound::intent::NextHop;

pub use self::plan::{Entry, Excluded, LeafPlan, Member, Plan};

mod plan;

/// Which VTEPs a leaf needs a way to.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Vteps {
    /// Those of all leaves of the topology.
    #[default]
    All,
    /// Of those, only these: the ones that EVPN knows.
    Known(BTreeSet<IpAddr>),
}

impl Vteps {
    fn contains(&self, vtep: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::Known(known) => known.contains(&vtep),
        }
    }
}

/// Holds the plan in force and the inputs that it was made from.
#[derive(Debug, Default)]
pub struct Balancer {
    limits: Limits,
    inputs: Option<(Topology, Vteps, Live)>,
    plan: Plan,
}

impl Balancer {
    /// No plan yet. Weights of a group sum to at most what `limits` says.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// The plan in force; revision 0 and empty before the first.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Looks at the inputs. Ok(true): there is a new plan, under `revision`. Ok(false): the one in force stays, with its
    /// own revision, since nothing relevant changed. On an error the plan in force stays too.
    ///
    /// `revision` must grow, and be the same on every replica for the same inputs: the index of the last fact applied.
    pub fn handle(
        &mut self,
        revision: u64,
        topology: &Topology,
        vteps: &Vteps,
        live: &Live,
    ) -> Result<bool, Rejected> {
        let same = self
            .inputs
            .as_ref()
            .is_some_and(|(old_topology, old_vteps, old_live)| {
                old_topology == topology && old_vteps == vteps && old_live == live
            });
        if same {
            return Ok(false);
        }
        let leaves = solve(topology, vteps, live, self.limits)?;
        self.inputs = Some((topology.clone(), vteps.clone(), live.clone()));
        if leaves == self.plan.leaves {
            return Ok(false);
        }
        self.plan = Plan { revision, leaves };
        Ok(true)
    }
}

/// Why there is no new plan. Both are mistakes of ours: a validated topology is a valid problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The topology could not be put as a problem.
    #[error("no problem for the solver: {0}")]
    Problem(#[from] ProblemError),
    /// The solution did not pass the independent check.
    #[error("solution failed the check: {0}")]
    Check(#[from] check::Fault),
}

fn solve(
    topology: &Topology,
    vteps: &Vteps,
    live: &Live,
    limits: Limits,
) -> Result<BTreeMap<SwitchName, LeafPlan>, Rejected> {
    let numbered = Numbered::new(topology);
    let problem = numbered.problem(live)?;
    let solution = spread::solve(&problem, limits);
    check(&problem, limits, &solution)?;

    let mut leaves: BTreeMap<SwitchName, LeafPlan> = BTreeMap::new();
    for leaf in topology
        .switches()
        .filter(|switch| switch.role == Role::Leaf)
    {
        let plan = LeafPlan {
            agent: leaf.agent.clone(),
            entries: BTreeMap::new(),
        };
        leaves.insert(leaf.name.clone(), plan);
    }
    for ((source, destination), group) in solution.groups() {
        let (leaf, to) = (numbered.switch(source), numbered.switch(destination));
        let Some(vtep) = to.vtep.filter(|vtep| vteps.contains(*vtep)) else {
            continue;
        };
        if let Some(plan) = leaves.get_mut(&leaf.name) {
            plan.entries
                .insert(IpNet::from(vtep), numbered.entry(leaf, to, group));
        }
    }
    Ok(leaves)
}

/// Switches and links by the numbers that the solver knows them by: their places in order of their names, so that ties
/// break the same way on every replica.
struct Numbered<'a> {
    switches: Vec<&'a Switch>,
    links: Vec<&'a Link>,
}

impl<'a> Numbered<'a> {
    fn new(topology: &'a Topology) -> Self {
        Self {
            switches: topology.switches().collect(),
            links: topology.links().collect(),
        }
    }

    fn problem(&self, live: &Live) -> Result<Problem, ProblemError> {
        let numbers: BTreeMap<&SwitchName, SwitchId> = self
            .switches
            .iter()
            .zip(0..)
            .map(|(switch, number)| (&switch.name, SwitchId(number)))
            .collect();
        let switches = self
            .switches
            .iter()
            .zip(0..)
            .map(|(switch, number)| problem::Switch {
                id: SwitchId(number),
                tier: match switch.role {
                    Role::Leaf => 0,
                    Role::Spine => 1,
                },
            })
            .collect();
        let links = self
            .links
            .iter()
            .zip(0..)
            .map(|(link, number)| problem::Link {
                id: LinkId(number),
                ends: (numbers[&link.a.switch], numbers[&link.b.switch]),
                capacity_bps: link.capacity_bps,
                alive: live.carries(link),
            })
            .collect();
        Problem::new(switches, links)
    }

    fn switch(&self, id: SwitchId) -> &'a Switch {
        self.switches[id.0 as usize]
    }

    fn link(&self, id: LinkId) -> &'a Link {
        self.links[id.0 as usize]
    }

    fn entry(&self, leaf: &Switch, to: &Switch, group: &spread::Group) -> Entry {
        let members = group.members.iter().filter_map(|member| {
            let link = self.link(member.link);
            let (near, far) = link.ends_from(&leaf.name)?;
            Some(Member {
                next_hop: NextHop {
                    address: far.address,
                    interface: Arc::clone(&near.interface),
                },
                via: self.switch(member.via).name.clone(),
                link: link.name.clone(),
                weight: member.weight,
                reason: member.reason,
            })
        });
        let excluded = group.excluded.iter().map(|excluded| Excluded {
            link: self.link(excluded.link).name.clone(),
            reason: excluded.reason,
        });
        Entry {
            to: to.name.clone(),
            members: members.collect(),
            excluded: excluded.collect(),
            parts: group.parts,
            delta_ppm: group.delta_ppm,
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_proto::fabric::v1;

    use super::*;
    use crate::southbound::intent::Mode;

    /// Leaves 1 to 3 and spines 1 and 2, 100 Gb/s each, addresses 192.0.2.(10 leaf + spine) at the spine.
    fn fabric() -> v1::Fabric {
        let switch = |name: String, role: v1::Role, vtep: String, agent: String| v1::Switch {
            name,
            role: role.into(),
            vtep_address: vtep,
            agent_address: agent,
            peer_address: String::new(),
        };
        let leaf = |leaf: u8| {
            let agent = if leaf == 3 {
                String::new()
            } else {
                format!("192.0.2.{leaf}:9340")
            };
            switch(
                format!("leaf{leaf}"),
                v1::Role::Leaf,
                format!("198.51.100.{leaf}"),
                agent,
            )
        };
        let spine = |spine: u8| {
            switch(
                format!("spine{spine}"),
                v1::Role::Spine,
                String::new(),
                String::new(),
            )
        };
        let link = |leaf: u8, spine: u8| v1::Link {
            a: Some(v1::LinkEnd {
                switch: format!("leaf{leaf}"),
                interface: format!("eth{spine}"),
                address: format!("192.0.2.{}", 100 + 10 * leaf + spine),
            }),
            b: Some(v1::LinkEnd {
                switch: format!("spine{spine}"),
                interface: format!("eth{leaf}"),
                address: format!("192.0.2.{}", 10 * leaf + spine),
            }),
            capacity_bps: 100_000_000_000,
            down: false,
        };
        v1::Fabric {
            name: "example".to_owned(),
            switches: vec![spine(1), leaf(1), leaf(2), leaf(3), spine(2)],
            links: (1..=3)
                .flat_map(|leaf| [link(leaf, 1), link(leaf, 2)])
                .collect(),
            ..v1::Fabric::default()
        }
    }

    fn topology() -> Topology {
        Topology::new(&fabric()).unwrap()
    }

    fn weights(plan: &Plan, leaf: &str, to: u8) -> Vec<(String, u32)> {
        plan.leaves[&SwitchName::from(leaf)].entries[&IpNet::from(IpAddr::from([198, 51, 100, to]))]
            .members
            .iter()
            .map(|member| (member.next_hop.address.to_string(), member.weight))
            .collect()
    }

    #[test]
    fn a_healthy_fabric_gets_an_even_plan() {
        let mut balancer = Balancer::new(Limits::default());
        assert_eq!(
            balancer.handle(3, &topology(), &Vteps::All, &Live::default()),
            Ok(true)
        );
        let plan = balancer.plan();
        assert_eq!(plan.revision, 3);
        assert_eq!(plan.leaves.len(), 3);
        assert_eq!(
            weights(plan, "leaf1", 2),
            [("192.0.2.11".to_owned(), 1), ("192.0.2.12".to_owned(), 1)]
        );
        let intent = plan.intent(|_| Mode::On);
        // Leaf 3 has no agent; the others need two prefixes each, with equal members.
        assert_eq!(intent.switches.len(), 2);
        let routes = &intent.switches[&SwitchName::from("leaf1")].routes;
        let members: Vec<_> = routes.prefixes.values().collect();
        assert_eq!((members.len(), members[0].len()), (2, 2));
        assert_eq!(members[0], members[1]);
    }

    #[test]
    fn a_link_set_down_changes_the_plan_at_once_and_back() {
        let mut balancer = Balancer::new(Limits::default());
        let mut topology = topology();
        balancer
            .handle(1, &topology, &Vteps::All, &Live::default())
            .unwrap();
        assert_eq!(
            topology.set_link_down("spine1:eth2--leaf2:eth1", true),
            Ok(true)
        );
        assert_eq!(
            balancer.handle(2, &topology, &Vteps::All, &Live::default()),
            Ok(true)
        );
        assert_eq!(
            weights(balancer.plan(), "leaf1", 2),
            [("192.0.2.12".to_owned(), 1)]
        );
        assert_eq!(weights(balancer.plan(), "leaf1", 3).len(), 2);
        let message = balancer.plan().to_message(Some(&"leaf2".into()));
        assert_eq!(
            message.entries[0].reason,
            "1 part over 1 of 2 uplinks; leaf2:eth1--spine1:eth2: no part: the link is down"
        );
        // What a switch sees counts as much as what an operator sets.
        topology
            .set_link_down("leaf2:eth1--spine1:eth2", false)
            .unwrap();
        let mut live = Live::default();
        let name = topology
            .link("leaf2:eth1--spine1:eth2")
            .unwrap()
            .name
            .clone();
        assert!(live.set(&name, false));
        assert_eq!(balancer.handle(3, &topology, &Vteps::All, &live), Ok(false));
        assert_eq!(balancer.plan().revision, 2);
        assert!(live.set(&name, true));
        assert_eq!(balancer.handle(4, &topology, &Vteps::All, &live), Ok(true));
        assert_eq!(balancer.plan().revision, 4);
        assert_eq!(weights(balancer.plan(), "leaf1", 2).len(), 2);
    }

    #[test]
    fn only_known_vteps_are_planned_for() {
        let mut balancer = Balancer::new(Limits::default());
        let known = Vteps::Known([IpAddr::from([198, 51, 100, 2])].into());
        balancer
            .handle(1, &topology(), &known, &Live::default())
            .unwrap();
        assert_eq!(
            balancer.plan().leaves[&SwitchName::from("leaf1")]
                .entries
                .len(),
            1
        );
        assert_eq!(
            balancer.plan().leaves[&SwitchName::from("leaf2")]
                .entries
                .len(),
            0
        );
    }

    #[test]
    fn a_leaf_without_a_live_way_is_left_to_plain_routing() {
        let mut balancer = Balancer::new(Limits::default());
        let mut topology = topology();
        for spine in ["spine1:eth2", "spine2:eth2"] {
            let name = format!("leaf2:eth{}--{spine}", &spine[5..6]);
            topology.set_link_down(&name, true).unwrap();
        }
        balancer
            .handle(1, &topology, &Vteps::All, &Live::default())
            .unwrap();
        let intent = balancer.plan().intent(|_| Mode::On);
        // Named and without a member: not programmed.
        let programmed = |leaf: &str| {
            let prefixes = &intent.switches[&SwitchName::from(leaf)].routes.prefixes;
            assert_eq!(prefixes.len(), 2);
            prefixes
                .values()
                .filter(|members| !members.is_empty())
                .count()
        };
        assert_eq!((programmed("leaf1"), programmed("leaf2")), (1, 0));
        assert!(
            balancer
                .plan()
                .to_string()
                .contains("no live way over 2 uplinks")
        );
    }

    #[test]
    fn the_same_inputs_in_another_order_give_the_same_plan() {
        let mut turned = fabric();
        turned.switches.reverse();
        turned.links.reverse();
        let plan = |topology: &Topology| {
            let mut balancer = Balancer::new(Limits::default());
            balancer
                .handle(1, topology, &Vteps::All, &Live::default())
                .unwrap();
            balancer.plan().clone()
        };
        assert_eq!(plan(&topology()), plan(&Topology::new(&turned).unwrap()));
    }

    #[test]
    fn a_topology_reads_back_what_it_wrote() {
        let topology = topology();
        assert_eq!(Topology::new(&topology.to_fabric()), Ok(topology));
    }
}
