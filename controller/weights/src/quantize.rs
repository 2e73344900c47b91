//! Amounts to small integers: what a hardware table or a kernel's next-hop group can hold.
//!
//! A divisor method: one part each, then one more at a time to the member that it overloads least, that with the least
//! (weight + 1) / amount. For every sum of parts on the way this gives the least overload of the worst member that any
//! weights of that sum can have (Zhou et al., "WCMP", EuroSys 2014: Delta = max over members of given fraction / wanted
//! fraction); the best sum is kept. Comparisons are exact. It refuses to know what an amount means.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::{Div, Rem};

/// What the weights of a group must stay within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    parts_max: u32,
    parts_per_member: u32,
    /// However many members there are.
    ceiling: u32,
}

impl Limits {
    /// Groups of at most `parts_max` parts in all, at least 1. For a table that spends an entry per part: a group of more members
    /// than that leaves some out. More than [`PARTS_MAX`] are used only for [`PARTS_PER_MEMBER`] of each member.
    pub fn new(parts_max: u32) -> Self {
        Self {
            parts_max: parts_max.clamp(1, PARTS_MAX),
            parts_per_member: PARTS_PER_MEMBER,
            ceiling: parts_max.max(1),
        }
    }

    /// The largest sum of the weights of a group of so many usable members.
    pub fn parts_max(self, members: usize) -> u32 {
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        self.parts_max
            .max(self.parts_per_member.saturating_mul(members))
            .min(self.ceiling)
    }
}

/// At most [`PARTS_DEFAULT`] parts, and [`PARTS_PER_MEMBER`] for each member where that is more: no member is left out
/// for want of parts, however many there are.
impl Default for Limits {
    fn default() -> Self {
        Self {
            parts_max: PARTS_DEFAULT,
            parts_per_member: PARTS_PER_MEMBER,
            ceiling: u32::MAX,
        }
    }
}

/// What the weights of one group come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rounding {
    /// The sum of the weights.
    pub parts: u32,
    /// Delta in millionths, rounded up: 1,000,000 is exact, 1,100,000 gives some member 10 % more than its share.
    pub delta_ppm: u64,
}

/// Rounds amounts to weights; keeps its buffers from group to group.
#[derive(Debug, Default)]
pub struct Quantizer {
    kept: Vec<Share>,
    /// Ranks of those that may have to be left out.
    small: Vec<(u64, Reverse<u32>)>,
    /// Who would get the next part, the least overloaded first.
    next: BinaryHeap<Reverse<(u64, u32)>>,
    /// Who got the parts after the first weights, in order.
    given: Vec<u32>,
}

/// What one member should carry, at most [`AMOUNT_MAX`], and what it gets.
#[derive(Clone, Copy, Debug)]
struct Share {
    amount: u64,
    place: u32,
    weight: u16,
}

impl Quantizer {
    /// Writes a weight for every amount, as near to their proportions as the limits allow.
    ///
    /// Exact when the amounts, reduced by their greatest common divisor, fit. 0 for the amount 0, and for amounts of
    /// less than one part of the largest sum allowed. Of equal amounts that cannot weigh the same the first weighs more.
    pub fn quantize(&mut self, amounts: &[u64], limits: Limits, weights: &mut [u16]) -> Rounding {
        let members = Counted::new(amounts).members;
        self.within(amounts, limits.parts_max(members), weights)
    }

    /// As [`Self::quantize`], for a largest sum that the caller has worked out for this group.
    pub(crate) fn within(
        &mut self,
        amounts: &[u64],
        parts_max: u32,
        weights: &mut [u16],
    ) -> Rounding {
        assert_eq!(amounts.len(), weights.len(), "a weight for every amount");
        let counted = Counted::new(amounts);
        if let Some(rounding) = counted.exact(parts_max, amounts, weights) {
            return rounding;
        }
        self.keep(amounts);
        let total = self.total();
        self.drop_smallest(parts_max);
        let rounding = self.exact(parts_max, total);
        let rounding = rounding.unwrap_or_else(|| self.nearest(parts_max, total));
        weights.fill(0);
        for share in &self.kept {
            weights[share.place as usize] = share.weight;
        }
        rounding
    }

    /// The amounts above 0, reduced, and where they are still too large scaled down.
    fn keep(&mut self, amounts: &[u64]) {
        let divisor = divisor(amounts.iter().copied()).max(1);
        let largest = amounts.iter().fold(0, |most, amount| *amount.max(&most)) / divisor;
        let shift = (u64::BITS - largest.leading_zeros()).saturating_sub(AMOUNT_MAX.ilog2());
        self.kept.clear();
        let shares = amounts.iter().zip(0..).filter(|(amount, _)| **amount > 0);
        self.kept.extend(shares.map(|(amount, place)| {
            Share {
                amount: match divisor {
                    1 => amount >> shift,
                    _ => (amount / divisor) >> shift,
                }
                .max(1),
                place,
                weight: 0,
            }
        }));
    }

    fn total(&self) -> u64 {
        self.kept.iter().map(|share| share.amount).sum()
    }

    /// Leaves out, smallest first, what is less than one part of the largest sum.
    fn drop_smallest(&mut self, parts_max: u32) {
        let mut total = self.total();
        let less_than = |total: u64| total.div_ceil(u64::from(parts_max));
        let small = self.kept.iter().map(Share::rank);
        self.small.clear();
        self.small
            .extend(small.filter(|(amount, _)| *amount < less_than(total)));
        self.small.sort_unstable();
        let mut last = None;
        for rank in &self.small {
            if rank.0 >= less_than(total) {
                break;
            }
            total -= rank.0;
            last = Some(*rank);
        }
        if let Some(last) = last {
            self.kept.retain(|share| share.rank() > last);
        }
    }

    /// The amounts themselves, when they are small enough after reduction.
    fn exact(&mut self, parts_max: u32, total: u64) -> Option<Rounding> {
        let kept = self.total();
        let divisor = divisor(self.kept.iter().map(|share| share.amount));
        let largest = self.kept.iter().map(|share| share.amount).max()?;
        if kept / divisor > u64::from(parts_max) || largest / divisor > u64::from(WEIGHT_MAX) {
            return None;
        }
        for share in &mut self.kept {
            share.weight = narrow(share.amount / divisor);
        }
        Some(Rounding {
            parts: u32::try_from(kept / divisor).ok()?,
            delta_ppm: ratio_ppm(total.into(), kept.into()),
        })
    }

    /// The best weights over all allowed sums; of equally good ones those with the fewest parts.
    fn nearest(&mut self, parts_max: u32, total: u64) -> Rounding {
        let smallest = self.kept.iter().map(|share| share.amount).min();
        let smallest = smallest.expect("what is left out is less than what is kept");
        // One part for the smallest overloads it so much that all others can have as many as that allows.
        let mut parts = 0;
        for share in &mut self.kept {
            share.weight = narrow((share.amount / smallest).min(WEIGHT_MAX.into()));
            parts += u32::from(share.weight);
        }
        let mut best = Overload {
            weight: 1,
            amount: smallest,
            parts,
        };
        let mut best_given = 0;
        self.given.clear();
        self.next.clear();
        let next = self
            .kept
            .iter()
            .zip(0..)
            .map(|(share, at)| Reverse((share.next(), at)));
        self.next.extend(next);
        while parts < parts_max
            && let Some(mut least) = self.next.peek_mut()
        {
            let at = least.0.1;
            let share = &mut self.kept[at as usize];
            if share.weight == WEIGHT_MAX {
                break;
            }
            share.weight += 1;
            least.0.0 = share.next();
            parts += 1;
            self.given.push(at);
            let overload = Overload {
                weight: share.weight,
                amount: share.amount,
                parts,
            };
            if overload.is_less(best) {
                best = overload;
                best_given = self.given.len();
            }
        }
        for at in &self.given[best_given..] {
            self.kept[*at as usize].weight -= 1;
        }
        Rounding {
            parts: best.parts,
            delta_ppm: best.delta_ppm(total),
        }
    }
}

impl Share {
    /// The order of leaving out: the smallest first, of equal ones the last.
    fn rank(&self) -> (u64, Reverse<u32>) {
        (self.amount, Reverse(self.place))
    }

    /// (weight + 1) / amount as a number that sorts as the fraction does. The numerator has 8 bits and the denominator
    /// 42, so that two different fractions differ by more than 2^-51 of themselves and never round to one `f64`, and
    /// equal ones always do; the bits of a positive `f64` sort as it does.
    fn next(&self) -> u64 {
        (f64::from(self.weight + 1) / self.amount as f64).to_bits()
    }
}

/// weight / (amount x parts) of the worst member: Delta without the factor that all sums have in common.
#[derive(Clone, Copy, Debug)]
struct Overload {
    weight: u16,
    amount: u64,
    parts: u32,
}

impl Overload {
    fn is_less(self, other: Self) -> bool {
        // 8 + 32 + 43 bits: fits.
        let product = |weight: u16, parts: u32, amount: u64| {
            u128::from(u64::from(weight) * u64::from(parts)) * u128::from(amount)
        };
        product(self.weight, other.parts, other.amount)
            < product(other.weight, self.parts, self.amount)
    }

    fn delta_ppm(self, total: u64) -> u64 {
        ratio_ppm(
            u128::from(self.weight) * u128::from(total),
            u128::from(self.amount) * u128::from(self.parts),
        )
    }
}

/// What one look at all amounts finds.
#[derive(Default)]
pub(crate) struct Counted {
    /// How many are above 0.
    pub(crate) members: usize,
    largest: u64,
    /// Stops at the largest number.
    total: u64,
}

impl Counted {
    pub(crate) fn new(amounts: &[u64]) -> Self {
        amounts
            .iter()
            .fold(Self::default(), |counted, amount| Self {
                members: counted.members + usize::from(*amount > 0),
                largest: counted.largest.max(*amount),
                total: counted.total.saturating_add(*amount),
            })
    }

    /// Writes the amounts themselves, when they are small enough after reduction: nothing is left out then.
    fn exact(&self, parts_max: u32, amounts: &[u64], weights: &mut [u16]) -> Option<Rounding> {
        if self.members == 0 {
            weights.fill(0);
            return Some(Rounding::default());
        }
        let (even, divisor) = self.divisor(amounts)?;
        let parts = self.parts(divisor)?;
        if parts > parts_max {
            return None;
        }
        for (weight, amount) in weights.iter_mut().zip(amounts) {
            *weight = match (even, divisor) {
                (true, _) => u16::from(*amount > 0),
                // At most the largest, as was just seen.
                (false, 1) => *amount as u16,
                (false, _) => (amount / divisor) as u16,
            };
        }
        Some(Rounding {
            parts,
            delta_ppm: PPM,
        })
    }

    /// The sum of the weights that are exact; None where they are too large for any table.
    pub(crate) fn exact_parts(&self, amounts: &[u64]) -> Option<u32> {
        if self.members == 0 {
            return None;
        }
        let (_, divisor) = self.divisor(amounts)?;
        self.parts(divisor)
    }

    /// What all amounts can be divided by, and whether they are all equal; None where their sum is unknown.
    fn divisor(&self, amounts: &[u64]) -> Option<(bool, u64)> {
        if self.total == u64::MAX {
            return None;
        }
        // Equal amounts are the usual case and need no divisor.
        let even = u128::from(self.largest) * self.members as u128 == u128::from(self.total);
        let divisor = match even {
            true => self.largest,
            false => divisor(amounts.iter().copied()),
        };
        Some((even, divisor))
    }

    /// The sum of the reduced amounts; None where one of them is above the largest weight.
    fn parts(&self, divisor: u64) -> Option<u32> {
        (self.largest / divisor <= u64::from(WEIGHT_MAX))
            .then(|| u32::try_from(self.total / divisor).ok())
            .flatten()
    }
}

fn divisor(mut amounts: impl Iterator<Item = u64>) -> u64 {
    let mut divisor = 0;
    while divisor != 1
        && let Some(amount) = amounts.next()
    {
        divisor = gcd(divisor, amount);
    }
    divisor
}

/// The greatest common divisor; gcd(0, b) = b.
pub(crate) fn gcd<T>(a: T, b: T) -> T
where
    T: Copy + Default + PartialOrd + Rem<Output = T> + Div<Output = T>,
{
    let (mut a, mut b) = (a, b);
    while b > T::default() {
        (a, b) = (b, a % b);
    }
    a
}

fn narrow(weight: u64) -> u16 {
    u16::try_from(weight).expect("at most the largest weight")
}

/// over / under in millionths, rounded up; both have at most 100 bits.
fn ratio_ppm(over: u128, under: u128) -> u64 {
    u64::try_from((over * u128::from(PPM)).div_ceil(under)).unwrap_or(u64::MAX)
}

/// The default sum of a group: the kernel's weight is 8 bits wide, SONiC normalises to 255, and 255 keeps any single
/// weight within both.
pub const PARTS_DEFAULT: u32 = 255;
/// What each member adds to the default sum where that is more than [`PARTS_DEFAULT`], that is from 64 members on: the
/// kernel bounds single weights, not their sum, and with as many parts for 256 members as for 64 those with the
/// smallest shares would get none. Links of 100, 200 and 400 Gb/s in any mixture are exact with four each.
pub const PARTS_PER_MEMBER: u32 = 4;
/// The largest sum of a group of few members: more would make nothing better that can be seen.
pub const PARTS_MAX: u32 = 256;
/// The largest weight: a Linux next-hop weight is 1 to 256 before Linux 6.12, and 256 wraps to 0 where SONiC keeps it in
/// 8 bits. A member that should have more gets this and is underloaded.
pub const WEIGHT_MAX: u16 = 255;
/// The largest amount that is taken as it is after reduction; larger ones are scaled to it, to within 1 in 2^41 of the
/// largest.
pub const AMOUNT_MAX: u64 = 1 << 42;
const PPM: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quantize(amounts: &[u64], limits: Limits) -> (Vec<u16>, Rounding) {
        let mut weights = vec![0; amounts.len()];
        let rounding = Quantizer::default().quantize(amounts, limits, &mut weights);
        (weights, rounding)
    }

    fn weights(amounts: &[u64], parts_max: u32) -> Vec<u16> {
        quantize(amounts, Limits::new(parts_max)).0
    }

    #[test]
    fn proportions_that_fit_are_exact_and_reduced() {
        assert_eq!(weights(&[100, 100, 100, 100], 255), [1, 1, 1, 1]);
        assert_eq!(weights(&[100_000, 50_000], 255), [2, 1]);
        assert_eq!(weights(&[63, 0, 1], 255), [63, 0, 1]);
        let (_, rounding) = quantize(&[400, 100], Limits::default());
        assert_eq!(rounding.delta_ppm, 1_000_000);
    }

    #[test]
    fn sixty_two_to_thirty_eight_in_ten_parts_is_five_to_three() {
        let (weights, rounding) = quantize(&[62, 38], Limits::new(10));
        assert_eq!(weights, [5, 3]);
        assert_eq!(rounding.delta_ppm, 1_008_065);
    }

    #[test]
    fn a_member_below_one_part_gets_none() {
        let (weights, rounding) = quantize(&[100_000, 100_000, 1], Limits::default());
        assert_eq!(weights, [1, 1, 0]);
        assert_eq!(rounding.parts, 2);
        assert!(rounding.delta_ppm > 1_000_000);
    }

    #[test]
    fn equal_members_all_keep_a_part_however_many() {
        for members in [255, 256, 257, 1_024] {
            let (weights, rounding) = quantize(&vec![7; members], Limits::default());
            assert_eq!(weights, vec![1; members]);
            assert_eq!(rounding.parts as usize, members);
            assert_eq!(rounding.delta_ppm, 1_000_000);
        }
    }

    #[test]
    fn one_speed_among_four_keeps_its_part_in_a_wide_group() {
        let amounts: Vec<u64> = (0..256).map(|place| 100 * (1 + place % 4)).collect();
        let (weights, rounding) = quantize(&amounts, Limits::default());
        let wanted = (0..256).map(|place| 1 + place % 4);
        assert!(weights.into_iter().eq(wanted));
        assert_eq!(rounding.delta_ppm, 1_000_000);
    }

    #[test]
    fn a_strict_limit_leaves_out_the_last_of_too_many_equal_members() {
        let (weights, rounding) = quantize(&[1; 300], Limits::new(255));
        assert_eq!(rounding.parts, 255);
        assert!(weights[..255].iter().all(|weight| *weight == 1));
        assert!(weights[255..].iter().all(|weight| *weight == 0));
    }

    #[test]
    fn a_wide_group_has_four_parts_for_each_member_where_there_is_room() {
        let parts_max = |limit, members| Limits::new(limit).parts_max(members);
        assert_eq!([2, 64, 256].map(|it| parts_max(8, it)), [8, 8, 8]);
        assert_eq!([2, 64, 256].map(|it| parts_max(512, it)), [256, 256, 512]);
        assert_eq!(
            [2, 64, 256].map(|it| parts_max(65_535, it)),
            [256, 256, 1_024]
        );
        assert_eq!(
            [64, 256].map(|it| Limits::default().parts_max(it)),
            [256, 1_024]
        );
    }

    #[test]
    fn no_weight_is_above_the_largest_however_wide_the_group() {
        let mut amounts = vec![1; 1_024];
        amounts[0] = 1_000;
        let (weights, rounding) = quantize(&amounts, Limits::default());
        assert_eq!(weights[0], WEIGHT_MAX);
        assert!(weights[1..].iter().all(|weight| *weight == 1));
        assert_eq!(rounding.parts, 255 + 1_023);
    }

    #[test]
    fn nothing_wanted_gives_nothing() {
        assert_eq!(
            quantize(&[0, 0], Limits::default()),
            (vec![0, 0], Rounding::default())
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn the_sum_the_bound_and_the_members_hold(
            amounts in prop::collection::vec(0_u64..2_000_000_000_000, 1..40),
            parts_max in 1_u32..=256,
        ) {
            let (weights, rounding) = quantize(&amounts, Limits::new(parts_max));
            let sum: u32 = weights.iter().map(|weight| u32::from(*weight)).sum();
            prop_assert_eq!(sum, rounding.parts);
            prop_assert!(sum <= parts_max);
            let all: u64 = amounts.iter().sum();
            let kept = || amounts.iter().zip(&weights).filter(|(_, weight)| **weight > 0);
            let kept_all: u64 = kept().map(|(amount, _)| amount).sum();
            let Some(smallest) = kept().map(|(amount, _)| amount).min() else {
                prop_assert_eq!(all, 0);
                return Ok(());
            };
            for (amount, weight) in amounts.iter().zip(&weights) {
                prop_assert!(*amount > 0 || *weight == 0);
                prop_assert!(*weight > 0 || amount <= smallest);
            }
            let bound = all as f64 / kept_all as f64
                * (1.0 + kept_all as f64 / (f64::from(parts_max) * *smallest as f64));
            prop_assert!(rounding.delta_ppm as f64 <= bound * 1e6 + 2.0);
        }

        #[test]
        fn order_and_unit_do_not_matter(
            amounts in prop::collection::vec(1_u64..100_000, 1..20),
            unit in 1_u64..1_000_000,
            turn in 0_usize..20,
        ) {
            let plain = quantize(&amounts, Limits::default());
            let mut turned: Vec<u64> = amounts.iter().map(|amount| amount * unit).collect();
            prop_assert_eq!(&plain, &quantize(&turned, Limits::default()));
            let middle = turn % turned.len();
            turned.rotate_left(middle);
            prop_assert_eq!(plain.1, quantize(&turned, Limits::default()).1);
        }

        #[test]
        fn a_larger_share_never_weighs_less(amounts in prop::collection::vec(1_u64..1_000, 2..12)) {
            let (weights, _) = quantize(&amounts, Limits::default());
            for (a, one) in amounts.iter().zip(&weights) {
                for (b, other) in amounts.iter().zip(&weights) {
                    prop_assert!(a <= b || one >= other);
                }
            }
        }

        #[test]
        fn any_amounts_are_rounded(
            amounts in prop::collection::vec(prop_oneof![Just(u64::MAX), any::<u64>(), 0_u64..9], 1..300),
        ) {
            let (weights, rounding) = quantize(&amounts, Limits::default());
            let sum: u32 = weights.iter().map(|weight| u32::from(*weight)).sum();
            prop_assert_eq!(sum, rounding.parts);
            prop_assert!(weights.iter().all(|weight| *weight <= WEIGHT_MAX));
            prop_assert_eq!(sum == 0, amounts.iter().all(|amount| *amount == 0));
        }
    }
}
