//! Between a writer and its feed: closed while the writer's next turn is worked out, so that nothing is told in the old
//! way that the turn does not know of. Knows no feed, no route and no time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The gate of one stream: open while nobody holds it.
#[derive(Debug, Default)]
pub struct Gate(AtomicUsize);

impl Gate {
    /// Closes it. Who looks at the end of the feed afterwards knows how far the writer is at most.
    pub fn hold(self: &Arc<Self>) -> Held {
        self.0.fetch_add(1, Ordering::AcqRel);
        Held(Arc::clone(self))
    }

    /// Whether it is closed.
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// Keeps a gate closed until it is dropped: by the writer when it has its turn, or by anybody when the turn comes to
/// nothing.
#[derive(Debug)]
pub struct Held(Arc<Gate>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}
