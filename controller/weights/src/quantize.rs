//! Shares to small integers: what a hardware table or a kernel's next-hop group can hold.
//!
//! Largest remainder, over every sum of parts that is allowed, keeping the one that overloads its worst member least
//! (Zhou et al., "WCMP", EuroSys 2014: Delta = max over members of given fraction / wanted fraction). It refuses to
//! know what a share means.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use crate::problem::LinkId;

/// What a weight must stay within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    parts_max: u32,
}

impl Limits {
    /// Groups of at most `parts_max` parts in all, 1 to [`PARTS_MAX`]; what is outside is brought inside.
    pub fn new(parts_max: u32) -> Self {
        Self {
            parts_max: parts_max.clamp(1, PARTS_MAX),
        }
    }

    /// The largest sum of the weights of a group.
    pub fn parts_max(self) -> u32 {
        self.parts_max
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new(PARTS_DEFAULT)
    }
}

/// What one member should carry, in any unit that is the same for all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The first-hop link.
    pub link: LinkId,
    /// How much; 0 means no member. At most [`AMOUNT_MAX`].
    pub amount: u128,
}

/// Weights for shares.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Quantized {
    /// One weight of at least 1 per kept member.
    pub weights: BTreeMap<LinkId, u32>,
    /// Members whose share is less than one part of the largest sum allowed: named, never silently 0.
    pub dropped: Vec<LinkId>,
    /// The sum of the weights.
    pub parts: u32,
    /// Delta in millionths, rounded up: 1,000,000 is exact, 1,100,000 gives some member 10 % more than its share.
    pub delta_ppm: u64,
    /// What Delta cannot exceed for these shares and this limit, in millionths:
    /// (all shares / kept shares) x (1 + 1 / parts of the smallest kept share at the limit).
    pub bound_ppm: u64,
}

/// Weights whose proportions are as near to the shares as the limits allow.
///
/// Exact when the shares, reduced by their greatest common divisor, fit. Equal shares in another order give equal
/// weights. Amounts above [`AMOUNT_MAX`] count as that.
pub fn quantize(shares: &[Share], limits: Limits) -> Quantized {
    let mut wanted: Vec<Share> = shares
        .iter()
        .filter(|share| share.amount > 0)
        .map(|share| Share {
            amount: share.amount.min(AMOUNT_MAX),
            ..*share
        })
        .collect();
    if wanted.is_empty() {
        return Quantized::default();
    }
    wanted.sort_unstable_by_key(|share| (Reverse(share.amount), share.link));
    let divisor = wanted
        .iter()
        .fold(0, |divisor, share| gcd(divisor, share.amount));
    wanted.iter_mut().for_each(|share| share.amount /= divisor);

    let total = sum(&wanted);
    let dropped = drop_smallest(&mut wanted, limits);
    wanted.sort_unstable_by_key(|share| share.link);
    let weights = exact(&wanted, limits).unwrap_or_else(|| nearest(&wanted, limits));
    let parts = weights.iter().sum();
    Quantized {
        delta_ppm: delta_ppm(&wanted, &weights, parts, total),
        bound_ppm: bound_ppm(&wanted, limits, total),
        weights: wanted.iter().map(|share| share.link).zip(weights).collect(),
        dropped,
        parts,
    }
}

/// Removes, smallest first, what is less than one part of the largest sum; the order of `wanted` is descending.
fn drop_smallest(wanted: &mut Vec<Share>, limits: Limits) -> Vec<LinkId> {
    let mut dropped = Vec::new();
    let mut total = sum(wanted);
    while let Some(last) = wanted.last().copied() {
        if last.amount * u128::from(limits.parts_max) >= total {
            break;
        }
        total -= last.amount;
        dropped.push(last.link);
        wanted.pop();
    }
    dropped.sort_unstable();
    dropped
}

/// The shares themselves, when they are small enough after reduction.
fn exact(wanted: &[Share], limits: Limits) -> Option<Vec<u32>> {
    let divisor = wanted
        .iter()
        .fold(0, |divisor, share| gcd(divisor, share.amount));
    if sum(wanted) / divisor > u128::from(limits.parts_max) {
        return None;
    }
    wanted
        .iter()
        .map(|share| u32::try_from(share.amount / divisor).ok())
        .collect()
}

/// The best apportionment over all allowed sums; of equally good ones that with the fewest parts.
fn nearest(wanted: &[Share], limits: Limits) -> Vec<u32> {
    let fewest = u32::try_from(wanted.len()).unwrap_or(limits.parts_max);
    let total = sum(wanted);
    let mut best: Option<(Overload, Vec<u32>)> = None;
    for parts in fewest..=limits.parts_max {
        let weights = apportion(wanted, total, parts);
        if weights.contains(&0) {
            continue;
        }
        let overload = Overload::worst(wanted, &weights, parts);
        if best.as_ref().is_none_or(|(least, _)| overload < *least) {
            best = Some((overload, weights));
        }
    }
    best.map(|(_, weights)| weights)
        .expect("at the largest sum every kept share is worth at least one part")
}

/// Largest remainder (Hamilton): the whole parts, then one more each for the largest remainders, lowest link first.
fn apportion(wanted: &[Share], total: u128, parts: u32) -> Vec<u32> {
    let mut weights = Vec::with_capacity(wanted.len());
    let mut order = Vec::with_capacity(wanted.len());
    for (at, share) in wanted.iter().enumerate() {
        let quota = share.amount * u128::from(parts);
        weights.push(u32::try_from(quota / total).expect("a quota is at most the parts"));
        order.push((Reverse(quota % total), share.link, at));
    }
    let left = (parts - weights.iter().sum::<u32>()) as usize;
    if left > 0 {
        // Fewer are left than there are members: each remainder is less than one part.
        order.select_nth_unstable(left);
    }
    for (_, _, at) in &order[..left] {
        weights[*at] += 1;
    }
    weights
}

/// weight / (amount x parts): Delta without the factor that all candidates have in common.
struct Overload {
    weight: u128,
    amount: u128,
    parts: u128,
}

impl Overload {
    fn worst(wanted: &[Share], weights: &[u32], parts: u32) -> Self {
        wanted
            .iter()
            .zip(weights)
            .map(|(share, weight)| Self {
                weight: u128::from(*weight),
                amount: share.amount,
                parts: u128::from(parts),
            })
            .max_by(Self::compare)
            .expect("a group that is apportioned has members")
    }

    fn compare(&self, other: &Self) -> Ordering {
        // 9 + 90 + 9 bits: fits.
        (self.weight * other.amount * other.parts).cmp(&(other.weight * self.amount * self.parts))
    }
}

impl PartialEq for Overload {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other) == Ordering::Equal
    }
}

impl PartialOrd for Overload {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.compare(other))
    }
}

fn delta_ppm(wanted: &[Share], weights: &[u32], parts: u32, total: u128) -> u64 {
    let worst = Overload::worst(wanted, weights, parts);
    ratio_ppm(worst.weight * total, worst.amount * worst.parts)
}

fn bound_ppm(wanted: &[Share], limits: Limits, total: u128) -> u64 {
    let kept = sum(wanted);
    let smallest = wanted.iter().map(|share| share.amount).min().unwrap_or(1);
    // total / kept x (1 + kept / (parts_max x smallest)) = total x (parts_max x smallest + kept) / (kept x parts_max x
    // smallest), taken factor by factor, each rounded up, so as not to overflow.
    let scaled = smallest * u128::from(limits.parts_max);
    let kept_factor = u128::from(ratio_ppm(total, kept));
    let rounding_factor = u128::from(ratio_ppm(scaled + kept, scaled));
    u64::try_from((kept_factor * rounding_factor).div_ceil(PPM)).unwrap_or(u64::MAX)
}

/// over / under in millionths, rounded up; both are halved until the product fits.
fn ratio_ppm(mut over: u128, mut under: u128) -> u64 {
    while over > u128::MAX / PPM {
        over = over.div_ceil(2);
        under /= 2;
    }
    u64::try_from((over * PPM).div_ceil(under.max(1))).unwrap_or(u64::MAX)
}

fn sum(shares: &[Share]) -> u128 {
    shares.iter().map(|share| share.amount).sum()
}

/// The greatest common divisor; gcd(0, b) = b.
pub(crate) fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The default sum of a group: the kernel's weight is 8 bits wide, SONiC normalises to 255, and 255 keeps any single
/// weight within both.
pub const PARTS_DEFAULT: u32 = 255;
/// The largest sum that can be asked for: a Linux next-hop weight is 1 to 256 before Linux 6.12.
pub const PARTS_MAX: u32 = 256;
/// The largest amount of one share: what keeps every product here within 128 bits.
pub const AMOUNT_MAX: u128 = 1 << 90;
const PPM: u128 = 1_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shares(amounts: &[u128]) -> Vec<Share> {
        amounts
            .iter()
            .zip(0..)
            .map(|(amount, id)| Share {
                link: LinkId(id),
                amount: *amount,
            })
            .collect()
    }

    fn weights(amounts: &[u128], parts_max: u32) -> Vec<u32> {
        quantize(&shares(amounts), Limits::new(parts_max))
            .weights
            .into_values()
            .collect()
    }

    #[test]
    fn proportions_that_fit_are_exact_and_reduced() {
        assert_eq!(weights(&[100, 100, 100, 100], 255), [1, 1, 1, 1]);
        assert_eq!(weights(&[100_000, 50_000], 255), [2, 1]);
        assert_eq!(weights(&[63, 1], 255), [63, 1]);
        assert_eq!(
            quantize(&shares(&[400, 100]), Limits::default()).delta_ppm,
            1_000_000
        );
    }

    #[test]
    fn sixty_two_to_thirty_eight_in_ten_parts_is_five_to_three() {
        assert_eq!(weights(&[62, 38], 10), [5, 3]);
        let quantized = quantize(&shares(&[62, 38]), Limits::new(10));
        assert_eq!(quantized.delta_ppm, 1_008_065);
    }

    #[test]
    fn a_member_below_one_part_is_named_as_dropped() {
        let quantized = quantize(&shares(&[100_000, 100_000, 1]), Limits::default());
        assert_eq!(quantized.dropped, [LinkId(2)]);
        assert_eq!(quantized.weights.len(), 2);
        assert_eq!(quantized.parts, 2);
        assert!(quantized.delta_ppm > 1_000_000);
    }

    #[test]
    fn more_members_than_parts_drop_the_highest_links() {
        let quantized = quantize(&shares(&[1; 300]), Limits::default());
        assert_eq!(quantized.parts, 255);
        assert_eq!(quantized.dropped.len(), 45);
        assert_eq!(quantized.dropped[0], LinkId(255));
    }

    #[test]
    fn nothing_wanted_gives_nothing() {
        assert_eq!(
            quantize(&shares(&[0, 0]), Limits::default()),
            Quantized::default()
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn the_sum_the_bound_and_the_members_hold(
            amounts in prop::collection::vec(0_u128..2_000_000_000_000, 1..40),
            parts_max in 1_u32..=256,
        ) {
            let shares = shares(&amounts);
            let quantized = quantize(&shares, Limits::new(parts_max));
            let sum: u32 = quantized.weights.values().sum();
            prop_assert_eq!(sum, quantized.parts);
            prop_assert!(sum <= parts_max);
            prop_assert!(quantized.weights.values().all(|weight| (1..=256).contains(weight)));
            prop_assert!(quantized.delta_ppm <= quantized.bound_ppm + 1);
            for share in &shares {
                let kept = quantized.weights.contains_key(&share.link);
                let dropped = quantized.dropped.contains(&share.link);
                prop_assert_eq!(share.amount > 0, kept != dropped);
                prop_assert!(!(kept && dropped));
            }
        }

        #[test]
        fn order_and_unit_do_not_matter(
            amounts in prop::collection::vec(1_u128..100_000, 1..20),
            unit in 1_u128..1_000_000,
            turn in 0_usize..20,
        ) {
            let plain = shares(&amounts);
            let mut turned: Vec<Share> = plain
                .iter()
                .map(|share| Share { amount: share.amount * unit, ..*share })
                .collect();
            let middle = turn % turned.len();
            turned.rotate_left(middle);
            prop_assert_eq!(
                quantize(&plain, Limits::default()),
                quantize(&turned, Limits::default())
            );
        }

        #[test]
        fn a_larger_share_never_weighs_less(amounts in prop::collection::vec(1_u128..1_000, 2..12)) {
            let quantized = quantize(&shares(&amounts), Limits::default());
            for (a, one) in amounts.iter().zip(0..) {
                for (b, other) in amounts.iter().zip(0..) {
                    let weight = |id| quantized.weights.get(&LinkId(id)).copied().unwrap_or(0);
                    if a > b {
                        prop_assert!(weight(one) >= weight(other));
                    }
                }
            }
        }
    }
}
