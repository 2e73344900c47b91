//! What a hash may do: of many flows that it spreads over links, how much more than its share one of them may get.
//!
//! The bound is Chernoff's (1952, for sums of independent parts of bounded size; Hoeffding 1963), and holds for flows of any sizes up
//! to the largest. It refuses to know which flows, and which hash: only that the hash takes each for itself.

/// The part above its share that a link gets at most, but for once in a hundred times, where that has to hold for so many links
/// at once. `flows` is the share of the link in units of the largest flow. 0 without a flow or a link.
///
/// ```
/// use weft_weights::hashing::excess;
///
/// // Of 64 links with a mean of 1,000 equal flows none gets a seventh more. With 16 times as many flows it is a quarter of that.
/// assert_eq!((excess(1_000.0, 64) * 100.0).round(), 14.0);
/// assert_eq!((excess(16_000.0, 64) * 100.0).round(), 3.0);
/// ```
pub fn excess(flows: f64, links: u64) -> f64 {
    if !(flows > 0.0 && flows.is_finite()) || links == 0 {
        return 0.0;
    }
    // P[more than (1 + d) m] <= exp(-m ((1 + d) ln(1 + d) - d)), of one link.
    let wanted = (links as f64 / DOUBT).ln() / flows;
    let exponent = |d: f64| (1.0 + d) * d.ln_1p() - d;
    let (mut low, mut high) = (0.0, 1.0);
    while exponent(high) < wanted {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        match exponent(middle) < wanted {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// How often the bound may be wrong.
const DOUBT: f64 = 0.01;
/// Halves a part of a thousand to less than a double tells apart.
const BISECTIONS: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_excess() {
        for (flows, links) in [
            (0.0, 5),
            (-1.0, 5),
            (f64::NAN, 5),
            (f64::INFINITY, 5),
            (9.0, 0),
        ] {
            assert_eq!(excess(flows, links), 0.0, "{flows} {links}");
        }
        assert!(excess(1e-300, u64::MAX).is_finite());
    }

    #[test]
    fn more_flows_have_less_and_more_links_more() {
        let of_flows = [1.0, 10.0, 100.0, 1e4, 1e8].map(|flows| excess(flows, 100));
        assert!(of_flows.is_sorted_by(|a, b| a > b), "{of_flows:?}");
        let of_links = [1, 10, 1_000, 1_000_000].map(|links| excess(50.0, links));
        assert!(of_links.is_sorted_by(|a, b| a < b), "{of_links:?}");
    }

    /// Hashes that are drawn: the busiest of all links passes the bound once in a hundred times at most.
    #[test]
    fn drawn_hashes_stay_below_it() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for (flows, links) in [(640_u64, 16_u64), (64, 8), (5_000, 50)] {
            let share = flows as f64 / links as f64;
            let most = share * (1.0 + excess(share, links));
            let over = (0..1_000).filter(|_| {
                let mut counts = vec![0_u64; links as usize];
                (0..flows).for_each(|_| counts[draw(links) as usize] += 1);
                counts.iter().any(|count| *count as f64 > most)
            });
            assert!(over.count() <= 10, "{flows} flows over {links} links");
        }
    }
}
