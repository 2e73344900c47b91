//! The one source of chance: a seed in, the same numbers out. Knows not what they decide.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x7765_6674_7369_6d00)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to but not `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True so many times of a thousand.
    pub(crate) fn permille(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// One of a list, if there is any.
    pub(crate) fn pick<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        let len = list.len() as u64;
        let at = if len == 0 { 0 } else { self.below(len) };
        usize::try_from(at)
            .ok()
            .and_then(|at| list.get(at))
            .cloned()
    }
}
