//! Which best paths changed lately, for those who follow routes: written by the reflector's thread, read by each watcher from its
//! own revision. Knows neither who watches nor what a route says.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::table::BestChange;
use weft_evpn::Route;

use super::history::Compacted;

/// Changes of the best paths of a family, of one look at what was dirty.
pub type Batch<N> = Arc<Vec<BestChange<N>>>;

/// What a poll of the reflector found out of a family.
#[derive(Debug)]
pub struct Selection<N: Nlri> {
    /// Best paths that changed.
    pub changes: Vec<BestChange<N>>,
    /// Destinations that changed and are as they were.
    pub unchanged: Vec<N::Key>,
}

/// What a poll of the reflector selected.
#[derive(Debug)]
pub enum Selected {
    /// Of L2VPN EVPN.
    Evpn(Selection<Route>),
    /// Of IPv4 unicast.
    Ipv4(Selection<Prefix4>),
    /// Of IPv6 unicast.
    Ipv6(Selection<Prefix6>),
    /// Of route target constraints.
    Rtc(Selection<Membership>),
}

/// The last changes of all families.
#[derive(Debug)]
pub struct News {
    /// Of L2VPN EVPN.
    pub evpn: Recent<Route>,
    /// Of IPv4 unicast.
    pub ipv4: Recent<Prefix4>,
    /// Of IPv6 unicast.
    pub ipv6: Recent<Prefix6>,
    /// Of route target constraints.
    pub rtc: Recent<Membership>,
    /// Rings when something changed.
    bell: watch::Sender<()>,
}

/// The last changes of a family. The lock is held to copy pointers.
#[derive(Debug)]
pub struct Recent<N: Nlri>(Mutex<Kept<N>>);

#[derive(Debug)]
struct Kept<N: Nlri> {
    /// Nothing is missing after this revision.
    after: u64,
    /// By revision; several may have the same.
    batches: VecDeque<Poll<N>>,
    /// Place of the first of them.
    first: u64,
    changes: usize,
}

#[derive(Debug)]
struct Poll<N: Nlri> {
    /// It selected what came after this revision, at once,
    begin: u64,
    /// up to this one.
    revision: u64,
    changes: Batch<N>,
    unchanged: Vec<N::Key>,
}

impl News {
    /// Nothing so far.
    pub fn new() -> Self {
        Self {
            evpn: Recent::new(),
            ipv4: Recent::new(),
            ipv6: Recent::new(),
            rtc: Recent::new(),
            bell: watch::Sender::new(()),
        }
    }

    /// Changes whenever a best path changed, or nobody knows any more which did.
    pub fn bell(&self) -> watch::Receiver<()> {
        self.bell.subscribe()
    }

    /// Begins anew after a revision.
    pub(super) fn reset(&self, revision: u64) {
        self.evpn.reset(revision);
        self.ipv4.reset(revision);
        self.ipv6.reset(revision);
        self.rtc.reset(revision);
        self.bell.send_replace(());
    }

    /// Takes what was selected of what came after one revision, up to another, before anybody hears that this is complete.
    pub(super) fn publish(&self, selected: Selected, begin: u64, revision: u64) {
        match selected {
            Selected::Evpn(selection) => self.evpn.publish(selection, begin, revision),
            Selected::Ipv4(selection) => self.ipv4.publish(selection, begin, revision),
            Selected::Ipv6(selection) => self.ipv6.publish(selection, begin, revision),
            Selected::Rtc(selection) => self.rtc.publish(selection, begin, revision),
        }
    }

    /// What was published can be found.
    pub(super) fn ring(&self) {
        self.bell.send_replace(());
    }
}

impl Default for News {
    fn default() -> Self {
        Self::new()
    }
}

impl<N: Nlri> Recent<N> {
    fn new() -> Self {
        Self(Mutex::new(Kept {
            after: 0,
            batches: VecDeque::new(),
            first: 0,
            changes: 0,
        }))
    }

    /// Where to read on that knows everything up to a revision.
    ///
    /// # Errors
    /// Something after it is forgotten.
    pub fn place(&self, revision: u64) -> Result<u64, Compacted> {
        let kept = self.kept();
        if revision < kept.after {
            return Err(Compacted { oldest: kept.after });
        }
        let known = kept.batches.partition_point(|it| it.revision <= revision);
        Ok(kept.first + known as u64)
    }

    /// Destinations of which somebody who knew everything up to a revision elsewhere may have seen what was never selected
    /// here: those that changed in a poll which began before the revision and ended after it.
    pub fn doubtful(&self, revision: u64) -> Vec<N::Key> {
        let kept = self.kept();
        let known = kept.batches.partition_point(|it| it.revision <= revision);
        // Polls follow one another; of the one that the revision falls into there may be several parts.
        let polls = kept.batches.iter().skip(known);
        let polls = polls.take_while(|it| it.begin < revision);
        let keys = polls.flat_map(|it| {
            let changed = it.changes.iter().map(|change| change.key.clone());
            changed.chain(it.unchanged.iter().cloned())
        });
        keys.collect()
    }

    /// What changed from a place on, in order, and the place behind it.
    ///
    /// # Errors
    /// Something of it is forgotten.
    pub fn from(&self, place: u64) -> Result<(Vec<Batch<N>>, u64), Compacted> {
        let kept = self.kept();
        let known = place.checked_sub(kept.first);
        let known = known.and_then(|known| usize::try_from(known).ok());
        let known = known.ok_or(Compacted { oldest: kept.after })?;
        let batches = kept.batches.iter().skip(known);
        let batches = batches.map(|it| Arc::clone(&it.changes)).collect();
        Ok((batches, kept.first + kept.batches.len() as u64))
    }

    fn reset(&self, revision: u64) {
        let mut kept = self.kept();
        // One more: who has read everything does not know what a reset changed.
        kept.first += kept.batches.len() as u64 + 1;
        kept.batches.clear();
        kept.changes = 0;
        kept.after = revision;
    }

    fn publish(&self, selection: Selection<N>, begin: u64, revision: u64) {
        let Selection { changes, unchanged } = selection;
        let mut kept = self.kept();
        kept.changes += changes.len() + unchanged.len();
        kept.batches.push_back(Poll {
            begin,
            revision,
            changes: Arc::new(changes),
            unchanged,
        });
        while kept.changes > CHANGES_MAX {
            let Some(oldest) = kept.batches.pop_front() else {
                break;
            };
            kept.first += 1;
            kept.changes -= oldest.changes.len() + oldest.unchanged.len();
            kept.after = oldest.revision;
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept<N>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of a family: some 10 MB. A leaf with more hosts than that comes and goes without being followed one by one.
const CHANGES_MAX: usize = 32_768;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use weft_bgp::decision::Step;

    use super::*;

    fn changes(count: usize) -> Selection<Prefix4> {
        let nlri = Prefix4 {
            addr: Ipv4Addr::new(192, 0, 2, 0),
            len: 24,
        };
        let change = BestChange {
            key: nlri.key(),
            old: None,
            new: None,
            by: Step::NoPath,
            revision: 1,
        };
        Selection {
            changes: vec![change; count],
            unchanged: Vec::new(),
        }
    }

    fn lengths(recent: &Recent<Prefix4>, place: u64) -> (Vec<usize>, u64) {
        let (found, next) = recent.from(place).unwrap();
        (found.iter().map(|batch| batch.len()).collect(), next)
    }

    #[test]
    fn a_watcher_hears_what_came_after_its_revision() {
        let recent = Recent::new();
        recent.reset(10);
        assert_eq!(recent.place(9).unwrap_err().oldest, 10);
        let begin = recent.place(10).unwrap();
        recent.publish(changes(1), 12, 12);
        recent.publish(changes(2), 15, 15);
        // With the same entry: by the clock.
        recent.publish(changes(3), 15, 15);
        let (found, place) = lengths(&recent, begin);
        assert_eq!(found, [1, 2, 3]);
        assert_eq!(lengths(&recent, place), (vec![], place));
        for (revision, expected) in [(11, vec![1, 2, 3]), (12, vec![2, 3]), (15, vec![])] {
            let place = recent.place(revision).unwrap();
            assert_eq!(lengths(&recent, place).0, expected);
        }
        recent.reset(20);
        assert_eq!(recent.from(place).unwrap_err().oldest, 20);
    }

    #[test]
    fn what_is_too_old_is_forgotten_and_said_so() {
        let recent = Recent::new();
        let begin = recent.place(0).unwrap();
        recent.publish(changes(CHANGES_MAX), 3, 3);
        assert_eq!(lengths(&recent, begin).0, [CHANGES_MAX]);
        recent.publish(changes(1), 4, 4);
        assert_eq!(recent.from(begin).unwrap_err().oldest, 3);
        assert_eq!(recent.place(2).unwrap_err().oldest, 3);
        assert_eq!(lengths(&recent, recent.place(3).unwrap()).0, [1]);
        recent.publish(changes(CHANGES_MAX + 1), 5, 5);
        assert_eq!(recent.place(4).unwrap_err().oldest, 5);
        recent.publish(changes(1), 6, 6);
        assert_eq!(lengths(&recent, recent.place(5).unwrap()).0, [1]);
    }

    #[test]
    fn what_was_never_selected_here_is_doubtful_to_who_comes_from_elsewhere() {
        let recent = Recent::new();
        recent.reset(10);
        let unchanged = Selection {
            unchanged: changes(1).changes.into_iter().map(|it| it.key).collect(),
            ..changes(0)
        };
        recent.publish(unchanged, 10, 13);
        recent.publish(changes(2), 13, 14);
        recent.publish(changes(1), 14, 20);
        let doubtful = |revision| recent.doubtful(revision).len();
        // At 10, 13, 14 and 20 both replicas had the same.
        assert_eq!(
            [10, 11, 12, 13, 14, 15, 20].map(doubtful),
            [0, 1, 1, 0, 0, 1, 0]
        );
    }
}
