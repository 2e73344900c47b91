//! The groups of one leaf and what each may take of its table. It refuses to know other leaves' groups.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::ops::Range;
use std::sync::Arc;

use super::{Table, TableTooSmall};
use crate::fabric::{Fabric, Source};
use crate::leaf::Amounts;
use crate::quantize::{Counted, Limits, Quantizer, Rounding};

mod merge;

/// A leaf, its destinations in groups, and how many parts each group has.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    /// The place of the leaf among the leaves.
    pub(super) place: usize,
    pub(super) source: &'a Source,
    /// What each group stays within.
    pub(super) limits: Limits,
    /// The column of the switch behind each uplink.
    pub(super) columns: Vec<u32>,
    /// Whether those are all columns, in their order: the usual case.
    pub(super) in_order: bool,
    /// Places of all other leaves, those of a group together.
    pub(super) destinations: Vec<u32>,
    pub(super) groups: Vec<Shared>,
    /// How many groups were merged into others.
    pub(super) merged: u32,
    /// The table has no room for what is left after that.
    pub(super) too_small: Option<TableTooSmall>,
}

/// Destinations that share a group.
#[derive(Debug)]
pub(super) struct Shared {
    /// Of `Plan::destinations`.
    pub(super) range: Range<usize>,
    /// What the weights sum to, before they are reduced; 0 when nothing alive leads there.
    pub(super) parts: u32,
    /// Whether so many parts make the shares whole numbers.
    pub(super) exact: bool,
    pub(super) merged: Option<Merged>,
    /// The largest sum that is of use: that of exact weights, or of the limits.
    parts_max: u32,
}

/// What a group is for that several were merged into.
#[derive(Debug)]
pub(super) struct Merged {
    /// The destinations of each, of `Plan::destinations`.
    ranges: Vec<Range<usize>>,
    /// What each uplink should carry to all of them: 0 where it does not lead to one of them.
    pub(super) shares: Vec<f64>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(fabric: &'a Fabric, place: usize, limits: Limits, table: Table) -> Self {
        let source = &fabric.sources[place];
        let columns = source.ports.iter().map(|port| {
            let column = source.ways[port.way].column;
            u32::try_from(column)
                .expect("fewer switches than 2^32, as they have numbers of 32 bits")
        });
        let columns: Vec<u32> = columns.collect();
        let all = u32::try_from(fabric.columns()).unwrap_or(u32::MAX);
        let mut plan = Self {
            place,
            source,
            limits,
            in_order: columns.iter().copied().eq(0..all),
            columns,
            destinations: Vec::with_capacity(fabric.leaves.len()),
            groups: Vec::new(),
            merged: 0,
            too_small: None,
        };
        plan.gather(fabric, limits);
        let (entries_max, groups_max) = (table.entries_max(), table.groups_max());
        // Each group has a member.
        let most = entries_max.min(groups_max) as usize;
        merge::until(&mut plan, fabric, limits, most);
        let groups = plan.live();
        plan.too_small = (groups > most).then(|| TableTooSmall {
            leaf: fabric.leaves[place],
            groups,
            entries_max,
            groups_max,
        });
        plan.divide(entries_max);
        plan
    }

    /// Groups that have a member.
    fn live(&self) -> usize {
        self.groups
            .iter()
            .filter(|group| group.parts_max > 0)
            .count()
    }

    /// Puts destinations together to which every uplink should carry the same.
    fn gather(&mut self, fabric: &Fabric, limits: Limits) {
        let pod = &fabric.pods[self.source.pod];
        let mut members = vec![Vec::new(); pod.members.len()];
        for (destination, class) in (0_u32..).zip(pod.class_of.iter()) {
            if destination as usize != self.place {
                members[*class as usize].push(destination);
            }
        }
        // What the capacities declare may differ where what is alive does not.
        let mut first_of: HashMap<u64, usize, BuildHasherDefault<DefaultHasher>> =
            HashMap::default();
        let mut amounts = Amounts::new(fabric, self.source);
        let mut found: Vec<(Vec<u32>, u32, bool)> = Vec::with_capacity(members.len());
        for destinations in members {
            let Some(example) = destinations.first() else {
                continue;
            };
            let wanted = amounts.toward(*example as usize);
            let same = *first_of.entry(fingerprint(wanted)).or_insert(found.len());
            if let Some(known) = found.get_mut(same) {
                let wanted = wanted.to_vec();
                if wanted == amounts.toward(known.0[0] as usize) {
                    known.0.extend(destinations);
                    continue;
                }
                // Another with the same fingerprint stays a group of its own.
                let (parts_max, exact) = useful(&wanted, limits);
                found.push((destinations, parts_max, exact));
                continue;
            }
            let (parts_max, exact) = useful(wanted, limits);
            found.push((destinations, parts_max, exact));
        }
        for (destinations, parts_max, exact) in found {
            let begin = self.destinations.len();
            self.destinations.extend(destinations);
            self.groups.push(Shared {
                range: begin..self.destinations.len(),
                parts: 0,
                exact,
                merged: None,
                parts_max,
            });
        }
    }

    /// Divides the table by the number of destinations; nobody gets more than is of use, or less than 1.
    fn divide(&mut self, entries_max: u32) {
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.retain(|at| self.groups[*at].parts_max > 0);
        let times = |group: &Shared| group.range.len() as u64;
        // Those first that need least for each destination: what they leave is for the others.
        order.sort_by(|one, other| {
            let (one, other) = (&self.groups[*one], &self.groups[*other]);
            let needs = u64::from(one.parts_max) * times(other);
            needs.cmp(&(u64::from(other.parts_max) * times(one)))
        });
        let mut entries = u64::from(entries_max);
        let mut waiting: u64 = order.iter().map(|at| times(&self.groups[*at])).sum();
        for (after, at) in order.iter().rev().enumerate().rev() {
            let group = &mut self.groups[*at];
            let fair = entries * times(group) / waiting.max(1);
            // At least one is left for each of those after it.
            let most = entries.saturating_sub(after as u64).max(1);
            let parts = fair.clamp(1, most).min(group.parts_max.into());
            waiting -= times(group);
            entries = entries.saturating_sub(parts);
            group.parts = u32::try_from(parts).expect("at most what is of use, which has 32 bits");
            group.exact &= group.parts == group.parts_max;
        }
    }

    /// The destinations of a group by what they should have: one of each kind, and all of it.
    pub(super) fn alike<'b>(
        &'b self,
        group: &'b Shared,
    ) -> impl Iterator<Item = (usize, &'b [u32])> + 'b {
        let ranges = match &group.merged {
            Some(merged) => merged.ranges.as_slice(),
            None => std::slice::from_ref(&group.range),
        };
        ranges.iter().map(|range| {
            let destinations = &self.destinations[range.clone()];
            (destinations[0] as usize, destinations)
        })
    }

    /// The weights of a group, of those of all groups.
    pub(super) fn row<'b>(&self, weights: &'b [u16], group: usize) -> &'b [u16] {
        let width = self.columns.len();
        &weights[group * width..][..width]
    }

    /// What each uplink should carry to a group, as numbers to be rounded.
    fn amounts<'b>(
        &self,
        group: &Shared,
        amounts: &'b mut Amounts<'_>,
    ) -> std::borrow::Cow<'b, [u64]> {
        match &group.merged {
            Some(merged) => {
                let amount = |share: &f64| match *share > 0.0 {
                    true => ((share * AMOUNTS) as u64).max(1),
                    false => 0,
                };
                merged.shares.iter().map(amount).collect()
            }
            None => amounts
                .toward(self.destinations[group.range.start] as usize)
                .into(),
        }
    }

    /// Weights of each group rounded alone.
    pub(super) fn alone(&self, fabric: &Fabric, quantizer: &mut Quantizer) -> Vec<u16> {
        let width = self.columns.len();
        let mut amounts = Amounts::new(fabric, self.source);
        let mut weights = vec![0; width * self.groups.len()];
        for (at, group) in self
            .groups
            .iter()
            .enumerate()
            .filter(|(_, group)| group.parts > 0)
        {
            let row = &mut weights[at * width..][..width];
            quantizer.within(&self.amounts(group, &mut amounts), group.parts, row);
        }
        weights
    }

    /// What the weights of each group come to, and how many pairs of destination and uplink have none.
    pub(super) fn roundings(&self, fabric: &Fabric, weights: &[u16]) -> (Vec<Rounding>, u64) {
        let mut amounts = Amounts::new(fabric, self.source);
        let mut wanted = Vec::new();
        let mut left_out = 0;
        let roundings = self.groups.iter().enumerate().map(|(at, group)| {
            let row = self.row(weights, at);
            let parts = sum(row);
            let mut worst = 0.0_f64;
            for (alike, destinations) in self.alike(group) {
                shares(amounts.toward(alike), &mut wanted);
                let mut without = 0;
                for (weight, share) in row.iter().zip(&wanted) {
                    match (*weight, *share > 0.0) {
                        (0, true) => without += 1,
                        (1.., true) => worst = worst.max(f64::from(*weight) / share),
                        (_, false) => {}
                    }
                }
                left_out += without * destinations.len() as u64;
            }
            let delta = (worst / f64::from(parts.max(1)) * 1e6 * (1.0 - EXACT)).ceil();
            Rounding {
                parts,
                // A number above the largest becomes the largest.
                delta_ppm: delta as u64,
            }
        });
        (roundings.collect(), left_out)
    }

    /// The group of each leaf; that of the leaf itself has no meaning.
    pub(super) fn group_of(&self, leaves: usize) -> Arc<[u32]> {
        let mut group_of = vec![0; leaves];
        for (number, group) in (0..).zip(&self.groups) {
            for destination in &self.destinations[group.range.clone()] {
                group_of[*destination as usize] = number;
            }
        }
        group_of.into()
    }
}

/// The largest sum that is of use for these amounts, and whether it makes them exact.
fn useful(amounts: &[u64], limits: Limits) -> (u32, bool) {
    let counted = Counted::new(amounts);
    let parts_max = match counted.members {
        0 => 0,
        members => limits.parts_max(members),
    };
    match counted.exact_parts(amounts) {
        Some(exact) if exact <= parts_max => (exact, true),
        _ => (parts_max, false),
    }
}

/// A number that differs where amounts differ, but for accidents.
fn fingerprint(amounts: &[u64]) -> u64 {
    amounts.iter().fold(0, |all: u64, amount| {
        (all ^ amount)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
    })
}

/// Amounts as parts of their sum.
pub(super) fn shares(amounts: &[u64], shares: &mut Vec<f64>) {
    let sum: f64 = amounts.iter().map(|amount| *amount as f64).sum();
    let one = if sum > 0.0 { 1.0 / sum } else { 0.0 };
    shares.clear();
    shares.extend(amounts.iter().map(|amount| *amount as f64 * one));
}

pub(super) fn sum(weights: &[u16]) -> u32 {
    weights.iter().map(|weight| u32::from(*weight)).sum()
}

/// What a share of one is, as a number to be rounded.
const AMOUNTS: f64 = (1_u64 << 40) as f64;
/// More than arithmetic in floating point adds to an exact share, and less than a millionth.
const EXACT: f64 = 1e-9;
