//! How many paths of each peer a table has, so that nobody has to look at them all.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::peer::PeerId;

/// Paths by peer; a peer without any is not there.
#[derive(Debug, Default)]
pub(super) struct Counts(HashMap<PeerId, usize, FixedState>);

impl Counts {
    pub(super) fn add(&mut self, peer: PeerId) {
        *self.0.entry(peer).or_default() += 1;
    }

    pub(super) fn remove(&mut self, peer: PeerId, paths: usize) {
        if let Some(count) = self.0.get_mut(&peer) {
            *count -= paths;
            if *count == 0 {
                self.0.remove(&peer);
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PeerId, usize)> {
        self.0.iter().map(|(peer, count)| (*peer, *count))
    }
}
