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
