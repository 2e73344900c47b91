//! A topology as a problem of numbers, solved, and the answer with the names put back.
//!
//! There are two problems of one topology: for leaves that compare next hops with their own routing a link counts unless
//! somebody says that it is down; for others only if somebody says that it carries traffic.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use ipnet::IpNet;
use weft_weights::check::{self, Checker};
use weft_weights::explain::Exclusion;
use weft_weights::fabric::Fabric;
use weft_weights::leaf::LeafSolution;
use weft_weights::problem::{self, LinkId, Problem, SwitchId};
use weft_weights::quantize::Limits;
use weft_weights::spread;
use weft_weights::together::{Table, TableTooSmall};

use super::backups::{OfLeaf, Undrained};
use super::demand::{ByDemand, Demand, Instead};
use super::plan::{Entry, Excluded, LeafPlan, Member};
use super::planes::Planes;
use super::{Inputs, Rejected};
use crate::fabric::live::{Live, Unusable};
use crate::fabric::measured::{Measured, left_bps};
use crate::fabric::topology::{Link, LinkEnd, LinkName, Role, Switch, SwitchName, Topology};
use crate::southbound::intent::{Members, NextHop, Routes};

/// A topology at one moment, ready to answer for each leaf.
pub(super) struct Solved {
    topology: Arc<Topology>,
    live: Live,
    measured: Measured,
    foreign: BTreeSet<SwitchName>,
    limits: Limits,
    names: Names,
    /// For leaves that look themselves.
    trusting: Question,
    /// For those that do not; None without any.
    strict: Option<Question>,
    /// When it is asked for; None: nothing is drained.
    undrained: OnceLock<Option<Undrained>>,
    /// Planes for pins with the whole capacity of all links, when it is asked for.
    whole: OnceLock<Planes>,
    /// Planes for pins without the capacity that leaves keep free, when it is asked for; None: no leaf keeps any free.
    left: OnceLock<Option<Planes>>,
}

/// What became of links.
#[derive(Clone, Copy, Default)]
pub(super) struct Since {
    /// One carries more.
    pub(super) more: bool,
    /// One carries less.
    pub(super) less: bool,
}

/// A problem, indexed for its solver and its checker.
pub(super) struct Question {
    problem: Problem,
    pub(super) fabric: Fabric,
    pub(super) checker: Checker,
    /// Weights rounded again, those of all leaves together: when the first leaf is asked for that has no room for its own in its table, or
    /// whose own are coarse.
    tabled: OnceLock<Result<Tabled, Rejected>>,
}

/// Weights of all leaves that were rounded together, or why the table of a leaf has no room for them.
type Tabled = BTreeMap<SwitchId, Result<LeafSolution, TableTooSmall>>;

impl Question {
    fn new(problem: Problem) -> Self {
        Self {
            fabric: Fabric::new(&problem),
            checker: Checker::new(&problem),
            tabled: OnceLock::new(),
            problem,
        }
    }

    /// Whether rounding all leaves together takes little of the solver's thread.
    fn is_quick(&self) -> bool {
        let leaves = self.problem.leaves().count();
        let others = self.problem.switches().len() - leaves;
        leaves.saturating_mul(leaves).saturating_mul(others) <= TOGETHER_MAX
    }
}

impl Solved {
    /// Indexes the problems; leaves are solved one by one.
    pub(super) fn new(inputs: &Inputs, live: Live, limits: Limits) -> Result<Self, Rejected> {
        let topology = Arc::clone(&inputs.topology);
        let names = Names::new(&topology);
        let usable_bps = |link: &Link| inputs.measured.usable_bps(link);
        let ask = |alive: &dyn Fn(&Link) -> bool| -> Result<Question, Rejected> {
            let problem = names.problem(&topology, alive, &usable_bps)?;
            Ok(Question::new(problem))
        };
        let trusting = ask(&|link| live.unusable(link).is_none())?;
        let strict = match inputs.foreign.is_empty() {
            true => None,
            false => Some(ask(&|link| live.unconfirmed(link).is_none())?),
        };
        Ok(Self {
            measured: inputs.measured.clone(),
            foreign: inputs.foreign.clone(),
            limits,
            undrained: OnceLock::new(),
            topology,
            live,
            names,
            trusting,
            strict,
            whole: OnceLock::new(),
            left: OnceLock::new(),
        })
    }

    /// The fabric as if nothing were drained; None: nothing is.
    pub(super) fn undrained(&self) -> Option<&Undrained> {
        let undrained = self.undrained.get_or_init(|| {
            let undrained = Undrained::new(self, &self.live);
            undrained.unwrap_or_else(|rejected| {
                tracing::error!(%rejected, "there are no backups");
                None
            })
        });
        undrained.as_ref()
    }

    /// The problem of links that are alive.
    pub(super) fn ask(&self, alive: &dyn Fn(&Link) -> bool) -> Result<Question, Rejected> {
        let usable_bps = |link: &Link| self.measured.usable_bps(link);
        let problem = self.names.problem(&self.topology, alive, &usable_bps)?;
        Ok(Question::new(problem))
    }

    /// Whether there is a link that nobody but an operator calls down.
    pub(super) fn has_drained(&self) -> bool {
        self.live.has_drained()
    }

    /// Whether any leaf gets only ways that somebody confirms.
    pub(super) fn has_foreign(&self) -> bool {
        !self.foreign.is_empty()
    }

    /// The problem, if it is one for all leaves.
    pub(super) fn problem_of_all(&self) -> Option<&Problem> {
        self.strict_problem()
            .is_none()
            .then_some(&self.trusting.problem)
    }

    /// The problem of leaves that do not compare next hops with their own routing, if it differs from that of the others.
    fn strict_problem(&self) -> Option<&Problem> {
        let strict = self.strict.as_ref().map(|strict| &strict.problem);
        strict.filter(|strict| **strict != self.trusting.problem)
    }

    /// Weights for a demand, within the declared tables of all leaves.
    ///
    /// # Errors
    /// Weights by capacity stay; why.
    pub(super) fn by_demand(&self, demand: &Demand) -> Result<ByDemand, Instead> {
        let leaves = self.leaves().filter_map(|leaf| self.topology.switch(leaf));
        let widths = leaves.filter_map(|leaf| leaf.limits.group_width);
        let limits = widths.min().map_or(self.limits, Limits::new);
        ByDemand::new(demand, self, limits, |leaf| self.table(leaf).1)
    }

    /// The same view of links and leaves, of another topology.
    pub(super) fn of_topology(&self, topology: Arc<Topology>) -> Result<Self, Rejected> {
        let inputs = Inputs {
            topology,
            foreign: self.foreign.clone(),
            measured: self.measured.clone(),
            ..Inputs::default()
        };
        Self::new(&inputs, self.live.clone(), self.limits)
    }

    /// Whether the answer would be the same, with every reason.
    pub(super) fn is_for(&self, inputs: &Inputs, live: &Live) -> bool {
        (&self.topology, &self.live, &self.foreign, &self.measured)
            == (&inputs.topology, live, &inputs.foreign, &inputs.measured)
    }

    /// Whether the numbers are the same; reasons may differ.
    pub(super) fn is_same_problem(&self, other: &Self) -> bool {
        self.trusting.problem == other.trusting.problem
            && self.strict_problem() == other.strict_problem()
    }

    /// Whether a link carries more than in an earlier view of the same links, and whether one carries less.
    pub(super) fn links_since(&self, earlier: &Self) -> Since {
        if !self.has_same_links(earlier) {
            return Since::default();
        }
        let usable_bps = |link: &problem::Link| u64::from(link.alive) * link.capacity_bps;
        let [now, before] = [self, earlier].map(|it| it.trusting.problem.links().map(usable_bps));
        let mut since = Since::default();
        for (now, before) in now.zip(before) {
            since.more |= now > before;
            since.less |= now < before;
        }
        since
    }

    /// Whether equal weights are equal routes: switches and links are the same, whatever the links carry.
    pub(super) fn is_named_as(&self, other: &Self) -> bool {
        self.has_same_links(other) && self.topology.switches().eq(other.topology.switches())
    }

    /// Whether links lead from the same ports to the same ports.
    fn has_same_links(&self, other: &Self) -> bool {
        fn ends(link: &Link) -> (&LinkEnd, &LinkEnd) {
            (&link.a, &link.b)
        }
        let (one, other) = (&self.topology, &other.topology);
        Arc::ptr_eq(one, other) || one.links().map(ends).eq(other.links().map(ends))
    }

    pub(super) fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// What pins are placed in: links that nobody calls down, without what their leaves keep free. Leaves that do not look at their own
    /// routing get no pins.
    pub(super) fn planes(&self) -> &Planes {
        let left = self.left.get_or_init(|| {
            let kept_free = self.measured.all_kept_free();
            let kept = kept_free.filter_map(|(leaf, kept)| Some((self.number(leaf)?, kept)));
            self.whole().without(&kept.collect())
        });
        left.as_ref().unwrap_or_else(|| self.whole())
    }

    /// What pins would be placed in if no leaf kept anything free; None: none does.
    pub(super) fn whole_planes(&self) -> Option<&Planes> {
        let is_whole = std::ptr::eq(self.planes(), self.whole());
        (!is_whole).then(|| self.whole())
    }

    fn whole(&self) -> &Planes {
        self.whole
            .get_or_init(|| Planes::new(&self.trusting.problem))
    }

    /// The plane of a spine.
    pub(super) fn plane_of(&self, spine: &SwitchName) -> Option<SwitchId> {
        self.planes().of_spine(self.number(spine)?)
    }

    /// The spine of a plane above a leaf.
    pub(super) fn spine(&self, leaf: SwitchId, plane: SwitchId) -> Option<&SwitchName> {
        self.name(self.planes().spine(leaf, plane)?)
    }

    /// The number of a switch in the problem.
    pub(super) fn number(&self, switch: &SwitchName) -> Option<SwitchId> {
        self.names.numbers.get(switch).copied()
    }

    /// The name of a switch of the problem.
    pub(super) fn name(&self, switch: SwitchId) -> Option<&SwitchName> {
        self.names.switches.get(switch.0 as usize)
    }

    /// Whether a link counts as one that carries what is pinned.
    pub(super) fn carries(&self, link: &Link) -> bool {
        self.live.unusable(link).is_none()
    }

    /// Links that somebody other than an operator calls down.
    pub(super) fn measured_down(&self) -> impl Iterator<Item = &LinkName> {
        self.live.measured_down()
    }

    /// Why a link does not carry traffic.
    pub(super) fn unusable(&self, link: &Link) -> Option<Unusable> {
        self.live.unusable(link)
    }

    /// What the leader decided from what it measured.
    pub(super) fn measured(&self) -> &Measured {
        &self.measured
    }

    /// Bits per second of a link that pins may use.
    pub(super) fn usable_bps(&self, link: &Link) -> u64 {
        let kept_free = self.measured.kept_free_of(link);
        left_bps(self.measured.usable_bps(link), kept_free)
    }

    /// Links of a leaf to its spine of a plane.
    pub(super) fn links_between(
        &self,
        leaf: SwitchId,
        plane: SwitchId,
    ) -> impl Iterator<Item = &LinkName> {
        let ends = self.name(leaf).zip(self.spine(leaf, plane));
        let ends = ends.map(|(leaf, spine)| (leaf.clone(), spine.clone()));
        let links = ends.and_then(|ends| self.names.between.get(&ends));
        let names = links.into_iter().flatten();
        names.filter_map(|link| self.names.links.get(link.0 as usize))
    }

    /// Links of a spine to super-spines.
    pub(super) fn links_above(&self, spine: SwitchId) -> impl Iterator<Item = &LinkName> {
        let problem = &self.trusting.problem;
        let leads_up = move |link: &&problem::Link| {
            let (a, b) = link.ends;
            (a == spine && problem.tier(b) == Some(2)) || (b == spine && problem.tier(a) == Some(2))
        };
        let links = problem.links().filter(leads_up);
        links.filter_map(|link| self.names.links.get(link.id.0 as usize))
    }

    /// Every leaf, in order of its name.
    pub(super) fn leaves(&self) -> impl Iterator<Item = &SwitchName> {
        let leaves = self.topology.switches();
        let leaves = leaves.filter(|switch| switch.role == Role::Leaf);
        leaves.map(|switch| &switch.name)
    }

    /// Whether weights can reach a switch: over gRIBI, or over BGP.
    pub(super) fn takes_weights(&self, switch: &SwitchName) -> bool {
        let switch = self.topology.switch(switch);
        switch.is_some_and(|switch| switch.agent.is_some() || switch.link_bandwidth)
    }

    /// The weights of one leaf, checked; None if there is no such leaf.
    pub(super) fn solution(&self, leaf: &SwitchName) -> Option<Result<LeafSolution, Rejected>> {
        let source = *self.names.numbers.get(leaf)?;
        let question = self.question(leaf);
        let (limits, table) = self.table(source);
        let solution = question.fabric.leaf(source, limits)?;
        let is_small = table.is_some_and(|table| !fits(&solution, table));
        if is_small || (is_coarse(&solution) && question.is_quick()) {
            let tabled = question.tabled.get_or_init(|| self.within_tables(question));
            match tabled {
                Ok(tabled) => match tabled.get(&source)? {
                    Ok(solution) => return Some(Ok(solution.clone())),
                    Err(too_small) if is_small => return Some(Err(Rejected::from(*too_small))),
                    Err(_) => {}
                },
                Err(rejected) if is_small => return Some(Err(rejected.clone())),
                // Those of its own, which are coarse, are checked below.
                Err(_) => {}
            }
        }
        let checked = question.checker.check_leaf(limits, &solution);
        Some(checked.map(|()| solution).map_err(Rejected::from))
    }

    /// What the weights of a leaf must stay within; no table: nobody declared how large it is.
    pub(super) fn table(&self, leaf: SwitchId) -> (Limits, Option<Table>) {
        let limits = self.switch(leaf).map(|it| it.limits).unwrap_or_default();
        let (members, groups) = (limits.group_members, limits.groups);
        let table = members.or(groups).map(|_| {
            let table = Table::new(members.unwrap_or(u32::MAX));
            table.with_groups(groups.unwrap_or(u32::MAX))
        });
        (limits.group_width.map_or(self.limits, Limits::new), table)
    }

    /// The weights of all leaves together within their tables, counted anew.
    fn within_tables(&self, question: &Question) -> Result<Tabled, Rejected> {
        let within = |leaf| {
            let (limits, table) = self.table(leaf);
            (limits, table.unwrap_or_else(|| Table::new(u32::MAX)))
        };
        let tables = question.fabric.together_within(&within);
        let links = check::links(&question.problem, &tables.leaves)?;
        let loss = links.loss * 100.0;
        tracing::info!(loss, "weights of all leaves rounded together, percent lost");
        let too_small = tables.too_small.iter();
        let too_small: BTreeMap<_, _> = too_small.map(|it| (it.leaf, *it)).collect();
        let counted = tables.leaves.into_iter().zip(&links.leaves);
        let fitting = counted.map(|(leaf, counted)| {
            let source = leaf.source();
            let table = within(source).1;
            let (entries_max, groups_max) = (table.entries_max(), table.groups_max());
            let fits = counted.entries <= u64::from(entries_max)
                && counted.groups <= u64::from(groups_max);
            let own = match too_small.get(&source) {
                Some(too_small) => Err(*too_small),
                None if fits => Ok(leaf),
                None => Err(TableTooSmall {
                    leaf: source,
                    groups: leaf.groups(),
                    entries_max,
                    groups_max,
                }),
            };
            (source, own)
        });
        Ok(fitting.collect())
    }

    /// Whether a leaf gets only ways that somebody confirms, as it does not compare next hops with its own routing.
    pub(super) fn is_foreign(&self, leaf: &SwitchName) -> bool {
        self.foreign.contains(leaf)
    }

    /// An uplink without an address of a leaf where no weft-agent finds the neighbour by the interface: the leaf gets no routes.
    pub(super) fn unresolved(&self, leaf: &SwitchName) -> Option<&LinkName> {
        if !self.foreign.contains(leaf) {
            return None;
        }
        let mut unnumbered = self.topology.links_of(leaf).filter(|it| it.is_unnumbered());
        unnumbered.next().map(|link| &link.name)
    }

    /// What a leaf should have, without backups. Entries without a member are left out: plain routing decides.
    pub(super) fn routes(&self, leaf: &SwitchName, solution: &LeafSolution) -> Routes {
        if self.unresolved(leaf).is_some() {
            return Routes::default();
        }
        let next_hops = self.next_hops(leaf, solution);
        let groups = 0..solution.groups();
        let groups: Vec<_> = groups.map(|it| members(&next_hops, solution, it)).collect();
        let prefixes = solution.destinations().filter_map(|(to, group)| {
            let members = groups.get(group).filter(|members| !members.is_empty())?;
            Some((self.prefix(to)?, Arc::clone(members)))
        });
        Routes {
            prefixes: prefixes.collect(),
            ..Routes::default()
        }
    }

    /// Routes of a leaf, made from those of the solution before, of the same names: a link event changes few entries of most
    /// leaves.
    pub(super) fn routes_after(
        &self,
        (old, routes): (&LeafSolution, &Routes),
        leaf: &SwitchName,
        solution: &LeafSolution,
    ) -> Routes {
        let links = |of: &LeafSolution| of.uplinks().iter().map(|it| it.link).collect::<Vec<_>>();
        let same_places = old.destinations().map(|(to, _)| to);
        let same_places = same_places.eq(solution.destinations().map(|(to, _)| to));
        if routes.prefixes.is_empty() || !same_places || links(old) != links(solution) {
            return self.routes(leaf, solution);
        }
        let mut prefixes = routes.prefixes.clone();
        let next_hops = self.next_hops(leaf, solution);
        // By the group now and the one before, as far as it was looked at.
        let mut same: Vec<Option<bool>> = vec![None; solution.groups() * old.groups()];
        let mut groups: Vec<Option<Arc<Members>>> = vec![None; solution.groups()];
        let mut changed = Vec::new();
        for ((to, group), (_, before)) in solution.destinations().zip(old.destinations()) {
            let known = &mut same[group * old.groups() + before];
            let look = || solution.weights(group).weights == old.weights(before).weights;
            let is_same = *known.get_or_insert_with(look);
            match (self.prefix(to), is_same) {
                (Some(prefix), false) => changed.push((prefix, group)),
                // What others of the group have is shared with those that come to it.
                (Some(prefix), true) if groups[group].is_none() => {
                    groups[group] = prefixes.get(&prefix).map(Arc::clone);
                }
                (Some(_), true) | (None, _) => {}
            }
        }
        for (prefix, group) in changed {
            let new = || members(&next_hops, solution, group);
            let members = groups[group].get_or_insert_with(new);
            match members.is_empty() {
                true => drop(prefixes.remove(&prefix)),
                false => drop(prefixes.insert(prefix, Arc::clone(members))),
            }
        }
        Routes {
            prefixes,
            ..Routes::default()
        }
    }

    /// The next hop of each uplink of a leaf, in the order of the solution.
    pub(super) fn next_hops(
        &self,
        leaf: &SwitchName,
        solution: &LeafSolution,
    ) -> Vec<Option<NextHop>> {
        let uplinks = solution.uplinks().iter();
        uplinks.map(|it| self.next_hop(leaf, it.link)).collect()
    }

    /// The prefix of the VTEP of a leaf.
    pub(super) fn prefix(&self, leaf: SwitchId) -> Option<IpNet> {
        let vtep = *self.names.vteps.get(leaf.0 as usize)?;
        vtep.map(IpNet::from)
    }

    /// How one leaf spreads what it sends, and why, by demand where that is given and there are such weights, with what it falls back to;
    /// None if there is no such leaf.
    pub(super) fn leaf(
        &self,
        leaf: &SwitchName,
        by_demand: Option<&Result<Arc<ByDemand>, Arc<str>>>,
        backups: Option<&OfLeaf>,
    ) -> Option<Result<LeafPlan, Rejected>> {
        let found = by_demand.and_then(|it| it.as_ref().ok());
        let of_demand = || found?.leaves.get(&self.number(leaf)?).cloned();
        let solution = match of_demand() {
            Some(solution) => solution,
            None => match self.solution(leaf)? {
                Ok(solution) => solution,
                Err(rejected) => return Some(Err(rejected)),
            },
        };
        let by_demand = by_demand.map(|it| match it {
            Ok(it) => Ok(it.utilization),
            Err(why) => Err(Arc::clone(why)),
        });
        let switch = self.topology.switch(leaf)?;
        let fabric = &self.question(leaf).fabric;
        let mut explained: BTreeMap<usize, spread::Group> = BTreeMap::new();
        let entries = solution.destinations().filter_map(|(to, group)| {
            let to = self.switch(to)?;
            let explain = || fabric.explain(&solution, group);
            let group = explained.entry(group).or_insert_with(explain);
            let prefix = IpNet::from(to.vtep?);
            let mut entry = self.entry(switch, to, group);
            entry.by_demand = by_demand.clone();
            if let Some(backup) = backups.and_then(|backups| backups.get(&prefix)) {
                entry.backups = self.backups_of(leaf, &entry.excluded, backup);
            }
            Some((prefix, entry))
        });
        Some(Ok(LeafPlan {
            agent: switch.agent.clone(),
            entries: entries.collect(),
        }))
    }

    pub(super) fn question(&self, leaf: &SwitchName) -> &Question {
        let strict = self.strict.as_ref();
        strict
            .filter(|_| self.foreign.contains(leaf))
            .unwrap_or(&self.trusting)
    }

    fn switch(&self, switch: SwitchId) -> Option<&Switch> {
        let name = self.names.switches.get(switch.0 as usize)?;
        self.topology.switch(name)
    }

    fn next_hop(&self, leaf: &SwitchName, link: LinkId) -> Option<NextHop> {
        let (near, far) = self.link(link)?.ends_from(leaf)?;
        Some(NextHop {
            address: far.address,
            interface: Arc::clone(&near.interface),
        })
    }

    fn entry(&self, leaf: &Switch, to: &Switch, group: &spread::Group) -> Entry {
        let unresolved = self.unresolved(&leaf.name);
        let resolved = group.members.iter().filter(|_| unresolved.is_none());
        let members = resolved.filter_map(|member| {
            Some(Member {
                next_hop: self.next_hop(&leaf.name, member.link)?,
                via: self.names.switches.get(member.via.0 as usize)?.clone(),
                link: self.link(member.link)?.name.clone(),
                weight: member.weight,
                reason: member.reason,
            })
        });
        let excluded = group.excluded.iter().filter_map(|excluded| {
            let link = self.link(excluded.link)?;
            Some(Excluded {
                link: link.name.clone(),
                reason: excluded.reason,
                seen: self.seen(leaf, to, link, excluded.reason),
            })
        });
        Entry {
            to: to.name.clone(),
            members: members.collect(),
            excluded: excluded.collect(),
            backups: Vec::new(),
            parts: group.parts,
            delta_ppm: group.delta_ppm,
            by_demand: None,
            unresolved: unresolved.cloned(),
        }
    }

    /// What is known of the link that an exclusion is about: of the uplink itself, or of the way on from the switch
    /// behind it.
    fn seen(&self, leaf: &Switch, to: &Switch, link: &Link, why: Exclusion) -> Option<Unusable> {
        let unusable = |link: &Link| match self.foreign.contains(&leaf.name) {
            true => self.live.unconfirmed(link),
            false => self.live.unusable(link),
        };
        match why {
            Exclusion::LinkDown => unusable(link),
            Exclusion::NoWayOn => {
                let (_, far) = link.ends_from(&leaf.name)?;
                let between = (far.switch.clone(), to.name.clone());
                let onward = self.names.between.get(&between)?;
                let onward = onward.iter();
                let seen = onward.filter_map(|link| unusable(self.link(*link)?));
                // While one of several links is not down, the way on is not down.
                seen.min_by_key(|why| !why.is_unconfirmed())
            }
            Exclusion::TooSmall { .. } => None,
        }
    }

    /// A link of the problem.
    pub(super) fn link(&self, link: LinkId) -> Option<&Link> {
        let name = self.names.links.get(link.0 as usize)?;
        self.topology.link_named(name)
    }
}

/// Whether a table has room for the groups of a leaf: for the members of all of them, and for so many groups of which no two
/// are the same.
pub(super) fn fits(solution: &LeafSolution, table: Table) -> bool {
    let groups: BTreeSet<usize> = solution.destinations().map(|(_, group)| group).collect();
    let groups = groups.into_iter().map(|group| solution.weights(group));
    let groups: Vec<_> = groups.filter(|group| group.parts > 0).collect();
    let entries: u64 = groups.iter().map(|group| u64::from(group.parts)).sum();
    let apart: BTreeSet<&[u16]> = groups.iter().map(|group| group.weights).collect();
    entries <= table.entries_max().into() && apart.len() <= table.groups_max() as usize
}

/// Whether rounding overloads some uplink by more than can be left.
fn is_coarse(solution: &LeafSolution) -> bool {
    let groups = 0..solution.groups();
    groups
        .into_iter()
        .any(|group| solution.weights(group).delta_ppm > COARSE_PPM)
}

/// One percent.
const COARSE_PPM: u64 = 1_010_000;
/// Leaves times leaves times other switches: some 0.2 s of one thread.
const TOGETHER_MAX: usize = 4 << 20;

/// Switches and links by the numbers that the solver knows them by: their places in order of their names, so that ties
/// break the same way on every replica.
struct Names {
    switches: Vec<SwitchName>,
    vteps: Vec<Option<IpAddr>>,
    numbers: BTreeMap<SwitchName, SwitchId>,
    links: Vec<LinkName>,
    /// Links from a spine to a leaf.
    between: BTreeMap<(SwitchName, SwitchName), Vec<LinkId>>,
}

impl Names {
    fn new(topology: &Topology) -> Self {
        let switches: Vec<_> = topology.switches().map(|it| it.name.clone()).collect();
        let numbers = switches.iter().cloned().zip((0..).map(SwitchId)).collect();
        let mut between: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (link, number) in topology.links().zip((0..).map(LinkId)) {
            let (a, b) = (link.a.switch.clone(), link.b.switch.clone());
            between
                .entry((a.clone(), b.clone()))
                .or_default()
                .push(number);
            between.entry((b, a)).or_default().push(number);
        }
        Self {
            vteps: topology.switches().map(|it| it.vtep).collect(),
            switches,
            numbers,
            links: topology.links().map(|link| link.name.clone()).collect(),
            between,
        }
    }

    fn problem(
        &self,
        topology: &Topology,
        alive: &dyn Fn(&Link) -> bool,
        usable_bps: &dyn Fn(&Link) -> u64,
    ) -> Result<Problem, problem::ProblemError> {
        // The problem names whoever is not there.
        let nobody = SwitchId(u32::MAX);
        let number = |name: &SwitchName| self.numbers.get(name).copied().unwrap_or(nobody);
        // Tiers that are there, whatever their numbers; leaves are the lowest.
        let heights = topology.switches().map(Switch::height);
        let heights: BTreeSet<u32> = heights.chain([1]).collect();
        let switches = topology.switches().map(|switch| problem::Switch {
            id: number(&switch.name),
            tier: heights.range(..switch.height()).count().min(u8::MAX.into()) as u8,
        });
        let links = topology.links().zip((0..).map(LinkId));
        let links = links.map(|(link, id)| problem::Link {
            id,
            ends: (number(&link.a.switch), number(&link.b.switch)),
            capacity_bps: usable_bps(link),
            alive: alive(link),
        });
        Problem::new(switches.collect(), links.collect())
    }
}

/// The members of a group, where its uplinks have these next hops.
fn members(next_hops: &[Option<NextHop>], solution: &LeafSolution, group: usize) -> Arc<Members> {
    members_where(next_hops, solution, group, |_| true)
}

/// The members of a group over the uplinks that are wanted; `wanted` gets the place of an uplink in the solution.
pub(super) fn members_where(
    next_hops: &[Option<NextHop>],
    solution: &LeafSolution,
    group: usize,
    wanted: impl Fn(usize) -> bool,
) -> Arc<Members> {
    let weights = solution.weights(group).weights.iter();
    let weighted = next_hops.iter().zip(weights).enumerate();
    let weighted = weighted.filter(|(uplink, (_, weight))| **weight > 0 && wanted(*uplink));
    let members = weighted
        .filter_map(|(_, (next_hop, weight))| Some((next_hop.clone()?, u32::from(*weight))));
    Arc::new(members.collect())
}
