//! What every switch next to a leaf can carry to every leaf, followed tier by tier in floating point.
//!
//! It refuses to know how the solver does the same.

use std::cmp::Ordering;

use crate::problem::{Link, LinkId, Problem, SwitchId};

/// Uplinks of every leaf, and capacities from the switches above the leaves to each leaf.
#[derive(Debug)]
pub(super) struct Follow {
    leaves: Vec<SwitchId>,
    /// Of each leaf, in order of the links.
    uplinks: Vec<Vec<Uplink>>,
    /// By destination, then by column.
    carried_bps: Vec<f64>,
    columns: usize,
}

/// An uplink of a leaf as the check sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uplink {
    pub(super) link: LinkId,
    /// The column of the switch at its other end.
    pub(super) column: usize,
    /// Its part of the live capacity to that switch; 0 for a dead link.
    pub(super) share: f64,
    /// The live capacity to that switch, all links together.
    pub(super) width_bps: f64,
}

impl Follow {
    pub(super) fn new(problem: &Problem) -> Self {
        let live = Live::new(problem);
        let leaves: Vec<(usize, SwitchId)> = problem
            .switches()
            .enumerate()
            .filter(|(_, (_, tier))| *tier == 0)
            .map(|(at, (leaf, _))| (at, leaf))
            .collect();
        let mut column_of = vec![None; live.tiers.len()];
        let mut columns = Vec::new();
        let mut uplinks = vec![Vec::new(); live.tiers.len()];
        for link in problem.links() {
            let Some((low, high)) = live
                .ends(problem, link)
                .filter(|(low, _)| live.tiers[*low] == 0)
            else {
                continue;
            };
            let column = *column_of[high].get_or_insert_with(|| {
                columns.push(high);
                columns.len() - 1
            });
            let width_bps = live.width_bps(low, high);
            let bps = if link.alive {
                link.capacity_bps as f64
            } else {
                0.0
            };
            uplinks[low].push(Uplink {
                link: link.id,
                column,
                share: if link.alive { bps / width_bps } else { 0.0 },
                width_bps,
            });
        }
        let mut carried_bps = Vec::with_capacity(leaves.len() * columns.len());
        let mut way = Way::new(&live);
        for (leaf, _) in &leaves {
            way.begin(*leaf);
            carried_bps.extend(columns.iter().map(|switch| way.onward_bps(*switch)));
        }
        Self {
            uplinks: leaves
                .iter()
                .map(|(at, _)| std::mem::take(&mut uplinks[*at]))
                .collect(),
            leaves: leaves.into_iter().map(|(_, leaf)| leaf).collect(),
            carried_bps,
            columns: columns.len(),
        }
    }

    /// The leaves, in order.
    pub(super) fn leaves(&self) -> impl Iterator<Item = SwitchId> + '_ {
        self.leaves.iter().copied()
    }

    pub(super) fn uplinks(&self, leaf: usize) -> &[Uplink] {
        &self.uplinks[leaf]
    }

    /// By column what its switch carries to a leaf.
    pub(super) fn carried_bps(&self, destination: usize) -> &[f64] {
        &self.carried_bps[destination * self.columns..][..self.columns]
    }
}

/// The live capacity from every switch to each switch above it.
struct Live {
    tiers: Vec<u8>,
    up: Vec<Vec<(usize, f64)>>,
}

impl Live {
    fn new(problem: &Problem) -> Self {
        let tiers: Vec<u8> = problem.switches().map(|(_, tier)| tier).collect();
        let mut live = Self {
            up: vec![Vec::new(); tiers.len()],
            tiers,
        };
        for link in problem.links().filter(|link| link.alive) {
            if let Some((low, high)) = live.ends(problem, link) {
                live.up[low].push((high, link.capacity_bps as f64));
            }
        }
        for up in &mut live.up {
            up.sort_unstable_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
            up.dedup_by(|link, sum| {
                let parallel = link.0 == sum.0;
                sum.1 += if parallel { link.1 } else { 0.0 };
                parallel
            });
        }
        live
    }

    /// The lower and the higher end; None within a tier.
    fn ends(&self, problem: &Problem, link: &Link) -> Option<(usize, usize)> {
        let (a, b) = (problem.place(link.ends.0)?, problem.place(link.ends.1)?);
        match self.tiers[a].cmp(&self.tiers[b]) {
            Ordering::Less => Some((a, b)),
            Ordering::Equal => None,
            Ordering::Greater => Some((b, a)),
        }
    }

    fn width_bps(&self, low: usize, high: usize) -> f64 {
        let found = self.up[low].binary_search_by_key(&high, |(there, _)| *there);
        found.map_or(0.0, |at| self.up[low][at].1)
    }
}

/// The way to one destination.
struct Way<'a> {
    live: &'a Live,
    /// What each switch carries straight down.
    down_bps: Vec<f64>,
    /// What each switch carries by way of the tier above, where it is known already.
    over_bps: Vec<Option<f64>>,
    /// The switches that lead straight down, by tier.
    below: Vec<Vec<usize>>,
}

impl<'a> Way<'a> {
    fn new(live: &'a Live) -> Self {
        let tiers = live
            .tiers
            .iter()
            .max()
            .map_or(0, |tier| usize::from(*tier) + 1);
        Self {
            live,
            down_bps: vec![0.0; live.tiers.len()],
            over_bps: vec![None; live.tiers.len()],
            below: vec![Vec::new(); tiers],
        }
    }

    /// Climbs from the destination and notes who leads straight down to it.
    fn begin(&mut self, destination: usize) {
        self.down_bps.fill(0.0);
        self.over_bps.fill(None);
        self.below.iter_mut().for_each(Vec::clear);
        self.down_bps[destination] = f64::INFINITY;
        self.below[0].push(destination);
        for tier in 0..self.below.len() {
            for here in std::mem::take(&mut self.below[tier]) {
                let beyond = self.down_bps[here];
                for (next, bps) in &self.live.up[here] {
                    if self.down_bps[*next] == 0.0 {
                        self.below[usize::from(self.live.tiers[*next])].push(*next);
                    }
                    self.down_bps[*next] += bps.min(beyond);
                }
            }
        }
    }

    /// The capacity from a switch to the destination: down where anything leads down, else by way of the tier above.
    fn onward_bps(&mut self, here: usize) -> f64 {
        if self.down_bps[here] > 0.0 {
            return self.down_bps[here];
        }
        if let Some(known) = self.over_bps[here] {
            return known;
        }
        let live = self.live;
        let above = live.up[here].iter();
        let over = above
            .map(|(next, bps)| bps.min(self.onward_bps(*next)))
            .sum();
        self.over_bps[here] = Some(over);
        over
    }
}
