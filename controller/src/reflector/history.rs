//! What became of declared facts, of adopted pins, or of the leader's decisions, lately, for those who follow it: written by the
//! reflector's thread, read by each watcher from its own revision. Knows neither who watches nor what a fact says.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::fabric::decision::DecisionChanged;
use crate::fabric::declared::Changed;
use crate::fabric::pin::PinChanged;

/// A change that a history remembers.
pub trait Dated {
    /// What is remembered of changes of this kind, in octets.
    const OCTETS_MAX: usize;

    /// Raft index of the change.
    fn revision(&self) -> u64;
    /// Octets of memory that it takes, about.
    fn octets(&self) -> usize;
}

impl Dated for Changed {
    const OCTETS_MAX: usize = OCTETS_MAX;

    fn revision(&self) -> u64 {
        self.revision
    }

    fn octets(&self) -> usize {
        self.octets
    }
}

impl Dated for PinChanged {
    const OCTETS_MAX: usize = PIN_OCTETS_MAX;

    fn revision(&self) -> u64 {
        self.revision
    }

    fn octets(&self) -> usize {
        self.octets()
    }
}

impl Dated for DecisionChanged {
    const OCTETS_MAX: usize = DECISION_OCTETS_MAX;

    fn revision(&self) -> u64 {
        self.revision
    }

    fn octets(&self) -> usize {
        self.octets()
    }
}

/// The last changes and the revision up to which nothing is missing. The lock is held to copy pointers.
pub struct History<T = Changed> {
    kept: Mutex<Kept<T>>,
    /// Everything up to it is kept, or was.
    revision: AtomicU64,
    /// Rings when something changed.
    bell: watch::Sender<()>,
}

struct Kept<T> {
    /// Nothing is missing after this revision.
    after: u64,
    /// In order of their revisions.
    changes: VecDeque<Arc<T>>,
    octets: usize,
}

/// What a watcher hears at a time.
#[derive(Debug, PartialEq, Eq)]
pub struct Part<T = Changed> {
    /// What changed, in order.
    pub changes: Vec<Arc<T>>,
    /// Nothing up to this revision is missing.
    pub revision: u64,
    /// There is more.
    pub more: bool,
}

/// A revision is not reached any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The oldest revision that is.
    pub oldest: u64,
}

impl<T: Dated> History<T> {
    /// One that begins with the first `reset`.
    pub fn new() -> Self {
        Self {
            kept: Mutex::new(Kept {
                after: 0,
                changes: VecDeque::new(),
                octets: 0,
            }),
            revision: AtomicU64::new(0),
            bell: watch::Sender::new(()),
        }
    }

    /// The revision up to which nothing is missing.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Changes whenever something changed, or nobody knows any more what did.
    pub fn bell(&self) -> watch::Receiver<()> {
        self.bell.subscribe()
    }

    /// Begins anew after a revision: what changed before it is not known.
    pub(super) fn reset(&self, revision: u64) {
        let mut kept = self.kept();
        kept.changes.clear();
        kept.octets = 0;
        kept.after = revision;
        self.revision.store(revision, Ordering::Release);
        drop(kept);
        self.bell.send_replace(());
    }

    /// Takes what changed up to a revision, and nothing up to it comes later.
    pub(super) fn publish(&self, changed: Vec<T>, revision: u64) {
        // Who hears the bell finds what it rings for.
        if self.keep(changed, revision) {
            self.ring();
        }
    }

    /// Takes what changed up to a revision, before anybody hears that this is complete. True: the bell is to be rung then.
    pub(super) fn keep(&self, changed: Vec<T>, revision: u64) -> bool {
        let news = !changed.is_empty();
        if news {
            let octets: usize = changed.iter().map(Dated::octets).sum();
            let changed: Vec<_> = changed.into_iter().map(Arc::new).collect();
            let mut kept = self.kept();
            kept.octets += octets;
            kept.changes.extend(changed);
            while kept.octets > T::OCTETS_MAX {
                let Some(oldest) = kept.changes.pop_front() else {
                    break;
                };
                kept.octets -= oldest.octets();
                kept.after = oldest.revision();
            }
        }
        self.revision.fetch_max(revision, Ordering::Release);
        news
    }

    /// What was kept can be found.
    pub(super) fn ring(&self) {
        self.bell.send_replace(());
    }

    /// What changed after `revision`: whole revisions, and no more of them than it takes for `most` changes.
    ///
    /// # Errors
    /// Something after it is forgotten.
    pub fn after(&self, revision: u64, most: usize) -> Result<Part<T>, Compacted> {
        let reached = self.revision();
        let kept = self.kept();
        if revision < kept.after {
            return Err(Compacted { oldest: kept.after });
        }
        let from = kept.behind(revision);
        let until = kept.behind(reached);
        let mut end = until.min(from.saturating_add(most));
        let mut octets = 0;
        let fits = kept.changes.range(from..end.max(from)).take_while(|it| {
            octets += it.octets();
            octets <= PART_OCTETS
        });
        // One revision goes by itself, whatever it has.
        end = if most == 0 {
            end
        } else {
            end.min(from + fits.count().max(1))
        };
        // A revision is not divided.
        while end > from
            && end < until
            && kept.changes[end].revision() == kept.changes[end - 1].revision()
        {
            end += 1;
        }
        let changes: Vec<_> = kept.changes.range(from..end.max(from)).cloned().collect();
        let more = end < until;
        let last = changes.last().map_or(revision, |it| it.revision());
        Ok(Part {
            revision: if more { last } else { reached.max(revision) },
            changes,
            more,
        })
    }

    /// Everything that changed after one revision, up to another.
    ///
    /// # Errors
    /// Something of it is forgotten.
    pub fn between(&self, after: u64, until: u64) -> Result<Vec<Arc<T>>, Compacted> {
        let kept = self.kept();
        if after < kept.after {
            return Err(Compacted { oldest: kept.after });
        }
        let from = kept.behind(after);
        let end = kept.behind(until).max(from);
        Ok(kept.changes.range(from..end).cloned().collect())
    }

    fn kept(&self) -> MutexGuard<'_, Kept<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Dated> Kept<T> {
    /// The place of the first change behind a revision.
    fn behind(&self, revision: u64) -> usize {
        self.changes.partition_point(|it| it.revision() <= revision)
    }
}

impl<T: Dated> Default for History<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// What a watcher hears at a time: an answer has to be shorter than what clients take, 4 MiB.
const PART_OCTETS: usize = 1 << 20;
/// What is remembered: 100,000 changes of links, some minutes of the busiest orchestrator.
const OCTETS_MAX: usize = 128 << 20;
/// The same of pins: some 150,000 changes. A watcher that lags behind more of them begins anew.
const PIN_OCTETS_MAX: usize = 48 << 20;
/// Octets of decisions that are remembered: some 30,000 changes. A derating of a link changes every few seconds at most.
const DECISION_OCTETS_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(revision: u64) -> Changed {
        of_octets(revision, 1000)
    }

    fn of_octets(revision: u64, octets: usize) -> Changed {
        Changed {
            revision,
            before: None,
            after: None,
            octets,
        }
    }

    #[test]
    fn a_part_is_no_longer_than_an_answer_may_be() {
        let history = History::new();
        history.reset(0);
        let large = |revision| of_octets(revision, PART_OCTETS * 3 / 4);
        history.publish([1, 2, 2, 3].map(large).to_vec(), 3);
        let part = |revision| {
            let part = history.after(revision, 500).unwrap();
            (revisions(&part), part.revision, part.more)
        };
        assert_eq!(part(0), (vec![1], 1, true));
        // But a revision is not divided.
        assert_eq!(part(1), (vec![2, 2], 2, true));
        assert_eq!(part(2), (vec![3], 3, false));
    }

    #[test]
    fn what_changed_between_two_revisions_is_all_of_it() {
        let history = History::new();
        history.reset(3);
        history.publish([4, 5, 5, 5, 8].map(changed).to_vec(), 9);
        let between = |after, until| -> Result<Vec<u64>, Compacted> {
            let found = history.between(after, until)?;
            Ok(found.iter().map(|it| it.revision).collect())
        };
        assert_eq!(between(3, 5), Ok(vec![4, 5, 5, 5]));
        assert_eq!(between(5, 8), Ok(vec![8]));
        assert_eq!(between(5, 7), Ok(vec![]));
        assert_eq!(between(9, 5), Ok(vec![]));
        assert_eq!(between(2, 5), Err(Compacted { oldest: 3 }));
    }

    #[test]
    fn as_many_changes_of_pins_are_remembered_as_fit() {
        use crate::fabric::pin::{PinName, PinPath};
        let pinned = |revision| PinChanged {
            revision,
            name: PinName {
                job: "train".into(),
                source: "leaf1:eth1".into(),
                destination: "leaf2:eth1".into(),
            },
            before: None,
            after: Some(Arc::from([PinPath {
                spine: "spine1".into(),
                weight: 1,
            }])),
        };
        let history = History::new();
        history.reset(0);
        let fit = PIN_OCTETS_MAX / pinned(0).octets();
        assert!(fit > 100_000, "{fit}");
        assert!(history.keep(vec![pinned(1); fit], 1));
        assert_eq!(history.between(0, 1).unwrap().len(), fit);
        assert!(history.keep(vec![pinned(2)], 2));
        assert_eq!(history.between(0, 2), Err(Compacted { oldest: 1 }));
        assert_eq!(history.between(1, 2).unwrap().len(), 1);
        assert!(!history.keep(Vec::new(), 3));
    }

    #[test]
    fn as_many_changes_of_decisions_are_remembered_as_fit() {
        use crate::fabric::decision::Decided;
        let changed = |revision| DecisionChanged {
            revision,
            before: Some(Decided::KeptFree("leaf1".into(), 10)),
            after: Some(Decided::KeptFree("leaf1".into(), 20)),
        };
        let history = History::new();
        history.reset(0);
        let fit = DECISION_OCTETS_MAX / changed(0).octets();
        assert!(fit > 30_000, "{fit}");
        assert!(history.keep(vec![changed(1); fit], 1));
        assert_eq!(history.between(0, 1).unwrap().len(), fit);
        assert!(history.keep(vec![changed(2)], 2));
        assert_eq!(history.between(0, 2), Err(Compacted { oldest: 1 }));
    }

    fn revisions(part: &Part) -> Vec<u64> {
        part.changes.iter().map(|it| it.revision).collect()
    }

    #[test]
    fn a_watcher_hears_what_came_after_its_revision() {
        let history = History::new();
        history.reset(10);
        assert_eq!(history.after(9, 9), Err(Compacted { oldest: 10 }));
        assert!(history.after(10, 9).unwrap().changes.is_empty());
        history.publish(vec![changed(12), changed(14)], 15);
        let part = history.after(10, 9).unwrap();
        assert_eq!(
            (revisions(&part), part.revision, part.more),
            (vec![12, 14], 15, false)
        );
        let part = history.after(12, 9).unwrap();
        assert_eq!((revisions(&part), part.revision), (vec![14], 15));
        assert!(history.after(15, 9).unwrap().changes.is_empty());
    }

    #[test]
    fn the_bell_rings_for_changes_and_for_nothing_else() {
        let history = History::new();
        history.reset(1);
        let bell = history.bell();
        history.publish(Vec::new(), 5);
        assert!(!bell.has_changed().unwrap());
        assert_eq!(history.after(1, 9).unwrap().revision, 5);
        history.publish(vec![changed(6)], 6);
        assert!(bell.has_changed().unwrap());
        assert_eq!(revisions(&history.after(1, 9).unwrap()), [6]);
    }

    #[test]
    fn a_revision_is_not_divided() {
        let history = History::new();
        history.reset(0);
        history.publish([1, 2, 2, 2, 3].map(changed).to_vec(), 7);
        let part = history.after(0, 2).unwrap();
        assert_eq!(
            (revisions(&part), part.revision, part.more),
            (vec![1, 2, 2, 2], 2, true)
        );
        let part = history.after(part.revision, 2).unwrap();
        assert_eq!(
            (revisions(&part), part.revision, part.more),
            (vec![3], 7, false)
        );
    }

    #[test]
    fn what_is_too_old_is_forgotten_and_said_so() {
        let history = History::new();
        let large = |revision| of_octets(revision, OCTETS_MAX / 8);
        history.reset(0);
        history.publish((1..=8).map(large).collect(), 8);
        history.publish((9..=13).map(large).collect(), 13);
        assert_eq!(history.after(4, 1), Err(Compacted { oldest: 5 }));
        assert_eq!(revisions(&history.after(5, 1).unwrap()), [6]);
    }

    #[test]
    fn after_a_reset_nobody_knows_what_came_before() {
        let history = History::new();
        history.reset(0);
        history.publish(vec![changed(3)], 3);
        history.reset(9);
        assert_eq!(history.after(3, 9), Err(Compacted { oldest: 9 }));
        assert_eq!(history.after(9, 9).unwrap().revision, 9);
    }
}
