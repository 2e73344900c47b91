//! From what the network is to what each leaf should do: the plan.
//!
//! A plan is made anew when an input changed, and adopted when it passes the check. What the leaves that take weights should
//! have is derived at once; all else, with every reason, leaf by leaf for whoever asks. Pure. It refuses to know gRIBI,
//! streams and clocks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use weft_weights::check;
use weft_weights::leaf::LeafSolution;
use weft_weights::problem::ProblemError;
use weft_weights::quantize::Limits;
use weft_weights::together::TableTooSmall;

use self::demand::{ByDemand, Demand, Instead};
use self::solved::Solved;
use crate::fabric::fact::{Link, LinkName};
use crate::fabric::hold::{CameUp, Hold};
use crate::fabric::live::{Announced, Interfaces, Live, Unusable};
use crate::fabric::measured::Measured;
use crate::fabric::topology::{SwitchName, Topology};
use crate::southbound::intent::Routes;

pub use self::plan::{Entry, Excluded, LeafPlan, Member};

mod backups;
pub mod compare;
pub mod demand;
pub mod flows;
pub mod measured;
pub mod pins;
mod plan;
mod planes;
mod queue_pairs;
pub mod simulation;
mod solved;
pub mod unweighted;

/// What a plan follows from.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Inputs {
    /// The declared fabric.
    pub topology: Arc<Topology>,
    /// What spines announce.
    pub announced: Arc<Announced>,
    /// What switches say of their interfaces.
    pub interfaces: BTreeMap<SwitchName, Arc<Interfaces>>,
    /// Interfaces of switches that came up less than [`crate::fabric::hold::UP_FOR`] ago.
    pub came_up: BTreeMap<SwitchName, CameUp>,
    /// Leaves that do not compare next hops with their own routing: they get ways that somebody confirms, and no others.
    pub foreign: BTreeSet<SwitchName>,
    /// Links that lead to another switch or port than declared, and what LLDP says of them.
    pub miswired: Arc<BTreeMap<LinkName, Arc<str>>>,
    /// What the leader decided from what it measured.
    pub measured: Measured,
}

/// How every leaf spreads what it sends. Cheap to clone.
#[derive(Clone, Default)]
pub struct Plan {
    /// Grows with every plan that differs from the one before; 0 for none.
    pub revision: u64,
    /// What the leaves that take weights should have. Two plans share what they have in common.
    pub routes: Arc<BTreeMap<SwitchName, Arc<Routes>>>,
    /// Routes of each leaf that takes weights, by the capacity of links alone: over which next hops it reaches other leaves.
    by_capacity: Arc<BTreeMap<SwitchName, Arc<Routes>>>,
    /// Leaves without routes as there is no room for their weights.
    without_room: Arc<BTreeSet<SwitchName>>,
    solved: Option<Arc<Solved>>,
    /// Weights for what jobs are known to send, where the routes are of these, or why there are none. None: by capacity is as good, or it was not looked yet.
    by_demand: Option<Result<Arc<ByDemand>, Arc<str>>>,
}

impl Plan {
    /// How one leaf spreads what it sends, and why; None if the fabric has no such leaf.
    ///
    /// # Errors
    /// What was solved does not pass the check.
    pub fn leaf(&self, leaf: &SwitchName) -> Option<Result<LeafPlan, Rejected>> {
        let by_demand = self.by_demand.as_ref();
        let backups = self.routes.get(leaf).map(|routes| &routes.backups);
        self.solved.as_ref()?.leaf(leaf, by_demand, backups)
    }

    /// Every leaf, in order of its name.
    pub fn leaves(&self) -> impl Iterator<Item = &SwitchName> {
        self.solved.iter().flat_map(|solved| solved.leaves())
    }

    /// Why a link does not carry traffic; None: it does, or nobody says anything of it.
    pub fn unusable(&self, link: &Link) -> Option<Unusable> {
        self.solved.as_ref()?.unusable(link)
    }

    /// Links that somebody other than an operator calls down.
    pub fn measured_down(&self) -> impl Iterator<Item = &LinkName> {
        self.solved.iter().flat_map(|it| it.measured_down())
    }

    /// Whether weights follow from what jobs are known to send.
    pub fn is_by_demand(&self) -> bool {
        self.weights_by_demand().is_some()
    }

    fn by_demand_or_why_not(&self) -> Option<Result<(), Arc<str>>> {
        let known = self.by_demand.as_ref()?;
        Some(known.as_ref().map(|_| ()).map_err(Arc::clone))
    }

    fn weights_by_demand(&self) -> Option<&Arc<ByDemand>> {
        self.by_demand.as_ref()?.as_ref().ok()
    }

    /// The fabric that it was made for.
    pub fn topology(&self) -> Option<&Arc<Topology>> {
        self.solved.as_ref().map(|solved| solved.topology())
    }
}

/// Holds the plan in force and the inputs that it was made from.
#[derive(Default)]
pub struct Balancer {
    limits: Limits,
    inputs: Option<Inputs>,
    hold: Hold,
    /// When a link has been up for long enough.
    due: Option<Duration>,
    plan: Plan,
    /// What the routes by capacity were made from.
    solutions: BTreeMap<SwitchName, LeafSolution>,
    /// The links and the demand that weights by demand were looked for last.
    weighed: Option<(Arc<Solved>, Arc<Demand>)>,
}

impl Balancer {
    /// No plan yet. Weights of a group sum to at most what `limits` says.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Goes on from a plan, and remembers nothing else.
    #[must_use]
    pub fn resume(limits: Limits, plan: Plan) -> Self {
        Self {
            plan,
            ..Self::new(limits)
        }
    }

    /// The plan in force; revision 0 and empty before the first.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// When the same inputs may give another plan; None: never.
    pub fn due(&self) -> Option<Duration> {
        self.due
    }

    /// Looks at the inputs, at a moment of a clock that cannot jump. Ok(true): there is another plan, perhaps with new reasons only, and then under the same
    /// revision. Ok(false): nothing changed. On an error there is an empty plan: what was right for other inputs may send
    /// packets where they are lost now, and the switches' own routing does not.
    ///
    /// # Errors
    /// Why there is no new plan; none is tried until the inputs change again.
    pub fn handle(&mut self, inputs: &Inputs, now: Duration) -> Result<bool, Rejected> {
        let is_due = self.due.is_some_and(|due| now >= due);
        if self.inputs.as_ref() == Some(inputs) && !is_due {
            return Ok(false);
        }
        self.inputs = Some(inputs.clone());
        self.plan_for(inputs, now).inspect_err(|_| {
            self.solutions.clear();
            self.weighed = None;
            self.plan = Plan {
                revision: self.plan.revision + 1,
                ..Plan::default()
            };
        })
    }

    fn plan_for(&mut self, inputs: &Inputs, now: Duration) -> Result<bool, Rejected> {
        let topology = &inputs.topology;
        let mut live = Live::new(topology, &inputs.announced, &inputs.interfaces);
        for (link, said) in &*inputs.miswired {
            live.miswire(link, said);
        }
        self.hold
            .follow(topology, &inputs.interfaces, &inputs.came_up, now);
        self.due = self.hold.look(topology, &mut live, now);
        let old = self.plan.solved.as_ref();
        if old.is_some_and(|old| old.is_for(inputs, &live)) {
            return Ok(false);
        }
        let solved = Solved::new(inputs, live, self.limits)?;
        let named_same = old.is_some_and(|old| old.is_named_as(&solved));
        let Made {
            routes,
            solutions,
            without_room,
        } = self.routes(&solved, named_same)?;
        let same_problem = old.is_some_and(|old| old.is_same_problem(&solved));
        let same_weights = same_problem && have_same_weights(&routes, &self.plan.by_capacity);
        let solved = Arc::new(solved);
        if same_weights {
            if routes != *self.plan.by_capacity {
                self.back(routes, &solved);
            }
            if !named_same {
                // Tables may be declared otherwise.
                self.weighed = None;
            } else if let Some((before, _)) = &mut self.weighed {
                *before = Arc::clone(&solved);
            }
        } else {
            self.plan.revision = inputs.topology.generation().max(self.plan.revision + 1);
            self.plan.by_capacity = Arc::new(routes);
            // At once, whatever was known of demand: it is looked at again after the pins.
            self.plan.routes = Arc::clone(&self.plan.by_capacity);
            // Why there are none most likely holds for other links, too.
            self.plan.by_demand.take_if(|it| it.is_ok());
            self.weighed = None;
        }
        self.solutions = solutions;
        self.plan.without_room = Arc::new(without_room);
        self.plan.solved = Some(solved);
        Ok(true)
    }

    /// Takes other backups of the same weights; those for what jobs are known to send stay.
    fn back(&mut self, by_capacity: LeafRoutes, solved: &Solved) {
        self.plan.revision += 1;
        let by_demand = self.plan.is_by_demand();
        let backed = |(leaf, routes): (&SwitchName, &Arc<Routes>)| {
            let known = self.plan.routes.get(leaf).filter(|_| by_demand);
            let routes = match known {
                Some(known) if known.prefixes != routes.prefixes => {
                    let prefixes = known.prefixes.clone();
                    let backups = routes.backups.clone();
                    Arc::new(solved.fitting(leaf, Routes { prefixes, backups }))
                }
                Some(_) | None => Arc::clone(routes),
            };
            (leaf.clone(), routes)
        };
        self.plan.routes = Arc::new(by_capacity.iter().map(backed).collect());
        self.plan.by_capacity = Arc::new(by_capacity);
    }

    /// Finds weights for what jobs are known to send beside what is pinned. True: there is another plan.
    pub fn weigh(&mut self, demand: &Arc<Demand>) -> bool {
        let Some(solved) = self.plan.solved.clone() else {
            return false;
        };
        let last = self.weighed.as_ref();
        if last.is_some_and(|(links, last)| Arc::ptr_eq(links, &solved) && last == demand) {
            return false;
        }
        self.weighed = Some((Arc::clone(&solved), Arc::clone(demand)));
        let was = self.plan.by_demand_or_why_not();
        self.plan.by_demand = match solved.by_demand(demand) {
            Ok(by_demand) => Some(Ok(Arc::new(by_demand))),
            Err(Instead::Impossible(why)) => Some(Err(why)),
            Err(Instead::AsGood) => None,
        };
        let by_demand = self.plan.weights_by_demand();
        let mut routes = Arc::clone(&self.plan.by_capacity);
        for (leaf, own) in by_demand.iter().flat_map(|it| &it.leaves) {
            let leaf = solved.name(*leaf);
            // One whose routes are empty is left to its own routing.
            let known = leaf.and_then(|leaf| Some((leaf, routes.get(leaf)?)));
            if let Some((leaf, old)) = known
                && !old.prefixes.is_empty()
            {
                let own = Routes {
                    backups: old.backups.clone(),
                    ..solved.routes(leaf, own)
                };
                let own = solved.fitting(leaf, own);
                let own = self.shared(&self.plan.routes, leaf, own);
                let leaf = leaf.clone();
                Arc::make_mut(&mut routes).insert(leaf, own);
            }
        }
        let changed = routes != self.plan.routes;
        if changed {
            self.plan.revision += 1;
            self.plan.routes = routes;
        }
        changed || was != self.plan.by_demand_or_why_not()
    }

    /// What every leaf that takes weights should have, and the weights that it comes from. Leaves whose weights and names stay
    /// share the routes that they have.
    fn routes(&self, solved: &Solved, named_same: bool) -> Result<Made, Rejected> {
        let mut made = Made::default();
        let mut members = 0;
        for leaf in solved.leaves().filter(|leaf| solved.takes_weights(leaf)) {
            let solution = match solved.solution(leaf) {
                Some(Err(too_small @ Rejected::Table(_))) => {
                    tracing::error!(%leaf, %too_small, "its own routing decides");
                    made.routes.insert(leaf.clone(), Arc::default());
                    made.without_room.insert(leaf.clone());
                    continue;
                }
                Some(solution) => solution?,
                None => continue,
            };
            members += solution.groups() * solution.uplinks().len();
            let backed = |routes: Routes| {
                let routes = solved.backed(leaf, routes);
                self.shared(&self.plan.by_capacity, leaf, routes)
            };
            let before = self.before(leaf, solved).filter(|_| named_same);
            let routes = match before {
                Some((old, routes)) if *old == solution => {
                    let known = self.plan.without_room.get(leaf);
                    made.without_room.extend(known.cloned());
                    match solved.has_drained() || !routes.backups.is_empty() {
                        true => backed(routes.without_backups()),
                        false => Arc::clone(routes),
                    }
                }
                _ if members > MEMBERS_MAX => {
                    tracing::error!(%leaf, "too many weights to hold; its own routing decides");
                    made.without_room.insert(leaf.clone());
                    Arc::default()
                }
                Some((old, routes)) => backed(solved.routes_after((old, routes), leaf, &solution)),
                None => backed(solved.routes(leaf, &solution)),
            };
            made.routes.insert(leaf.clone(), routes);
            made.solutions.insert(leaf.clone(), solution);
        }
        Ok(made)
    }

    /// The weights that the routes of a leaf in force were made from, and these routes; None: there are none, or other links of the
    /// leaf lack an address now.
    fn before(&self, leaf: &SwitchName, solved: &Solved) -> Option<(&LeafSolution, &Arc<Routes>)> {
        let in_force = self.plan.solved.as_ref()?;
        let routes = self.plan.by_capacity.get(leaf)?;
        let solution = self.solutions.get(leaf)?;
        (in_force.unresolved(leaf) == solved.unresolved(leaf)).then_some((solution, routes))
    }

    /// Routes that the leaf has already are those.
    fn shared(&self, known: &LeafRoutes, leaf: &SwitchName, routes: Routes) -> Arc<Routes> {
        let old = known.get(leaf);
        let same = old.filter(|old| ***old == routes);
        same.map_or_else(|| Arc::new(routes), Arc::clone)
    }
}

/// Whether leaves have the same routes, backups apart.
fn have_same_weights(one: &LeafRoutes, other: &LeafRoutes) -> bool {
    let same = |(one, other): (&Arc<Routes>, &Arc<Routes>)| {
        Arc::ptr_eq(one, other) || one.prefixes == other.prefixes
    };
    one.keys().eq(other.keys()) && one.values().zip(other.values()).all(same)
}

/// What leaves that take weights should have, by the capacity of links alone.
#[derive(Default)]
struct Made {
    routes: LeafRoutes,
    /// The weights that the routes are made from.
    solutions: BTreeMap<SwitchName, LeafSolution>,
    /// Leaves whose routes are empty, as there is no room for their weights.
    without_room: BTreeSet<SwitchName>,
}

/// What each leaf that takes weights should have.
type LeafRoutes = BTreeMap<SwitchName, Arc<Routes>>;

/// Weights of all leaves together that are held as routes: about 1 GiB. They are more only where very many links differ
/// from each other; leaves beyond that are left to their own routing.
const MEMBERS_MAX: usize = 1 << 24;

/// Why there is no new plan, or none for a leaf. The first two are mistakes of ours: a validated topology is a valid problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The topology could not be put as a problem.
    #[error("no problem for the solver: {0}")]
    Problem(#[from] ProblemError),
    /// The solution did not pass the independent check.
    #[error("solution failed the check: {0}")]
    Check(#[from] check::Fault),
    /// The declared table of a leaf cannot hold weights to all others, however they are merged.
    #[error("too many groups for the declared limits: {0}")]
    Table(#[from] TableTooSmall),
}

#[cfg(test)]
mod tests;
