//! Ends planning that panics again and again: a declaration that nobody can plan must not end every replica, with every BGP session,
//! one start after the other. It refuses to know how plans are made.
//!
//! ```text
//! panic 1: planned anew, with nothing remembered   panic 2: off, weights and pins stay   another declaration: from the beginning
//! ```
//!
//! The reflector has no breaker: its tables would be wrong, and a replica that ends is replaced by the others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::supervision::caught;
use crate::fabric::topology::Topology;

/// Panics of planning with one declaration of fabric and jobs.
#[derive(Debug, Default)]
pub struct Breaker(Mutex<Panics>);

#[derive(Debug, Default)]
struct Panics {
    declared: Topology,
    /// With this declaration.
    count: u32,
    /// Since the start.
    total: u64,
}

impl Breaker {
    /// Runs a part of planning; None: it panicked, or planning is off. The caller throws away all that the part may have left halfway.
    pub(super) fn run<T>(&self, declared: &Topology, plan: impl FnOnce() -> T) -> Option<T> {
        if self.is_off_for(declared) {
            return None;
        }
        let error = match caught(plan) {
            Ok(planned) => return Some(planned),
            Err(reason) => reason,
        };
        let mut panics = self.lock();
        panics.count += 1;
        panics.total += 1;
        let (generation, panics) = (declared.generation(), panics.count);
        if panics < PANICS_MAX {
            tracing::error!(generation, error, "the balancer panicked; it plans anew");
        } else {
            tracing::error!(
                generation,
                panics,
                error,
                "the balancer panicked again and is off; weights and pins stay until the fabric or a job changes"
            );
        }
        None
    }

    /// True while nothing is planned with this declaration. Another one than the last begins anew; leases and places of NICs make
    /// none.
    pub(super) fn is_off_for(&self, declared: &Topology) -> bool {
        let declared = declared.clone().with_places(Arc::default());
        let mut panics = self.lock();
        let known = &panics.declared;
        if known.generation() != declared.generation() || !known.has_alike_jobs(&declared) {
            (panics.declared, panics.count) = (declared, 0);
        }
        panics.count >= PANICS_MAX
    }

    /// Returns the reason why planning is off; None: it is on.
    pub fn fault(&self) -> Option<String> {
        let panics = self.lock();
        let (count, generation) = (panics.count, panics.declared.generation());
        (count >= PANICS_MAX).then(|| {
            format!(
                "the balancer is off: it panicked {count} times on generation {generation} of the fabric; weights and pins stay \
                 until the fabric or a job changes"
            )
        })
    }

    /// Panics since the start.
    pub fn panics(&self) -> u64 {
        self.lock().total
    }

    fn lock(&self) -> MutexGuard<'_, Panics> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Panics with one declaration: the first may come from what was remembered, the second comes from the declaration.
const PANICS_MAX: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::topology::tests::leaf_spine;

    #[test]
    fn planning_is_off_after_two_panics_on_one_generation_until_the_next() {
        let breaker = Breaker::default();
        let declared = leaf_spine(2, 2).with_head("example", 7);
        let fail = |declared: &Topology| breaker.run(declared, || -> u32 { panic!("no plan") });
        assert_eq!(breaker.run(&declared, || 1), Some(1));
        assert_eq!((fail(&declared), breaker.fault()), (None, None));
        assert_eq!(breaker.run(&declared, || 2), Some(2));
        assert_eq!(fail(&declared), None);
        let why = breaker.fault().unwrap();
        assert!(why.contains("panicked 2 times on generation 7"), "{why}");
        assert_eq!(breaker.run(&declared, || 3), None);
        assert_eq!(breaker.panics(), 2);
        let next = declared.with_head("example", 8);
        assert_eq!(breaker.run(&next, || 4), Some(4));
        assert_eq!(breaker.fault(), None);
        fail(&next);
        assert_eq!((breaker.fault(), breaker.panics()), (None, 3));
    }
}
