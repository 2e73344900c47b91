//! Who wants the status, and when they are told. Knows nothing of what a status says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio::time::Instant;
use weft_proto::agent::v1::Status;

use crate::status::{self, Asked, Told, ToldPrefixes};

/// Everybody who watches.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    all: Vec<Watcher>,
    /// When somebody was told last, or there was nothing new.
    looked: Option<Instant>,
    /// How long it took to make what was told last.
    cost: Duration,
    changed: bool,
}

/// Somebody who watches.
#[derive(Debug)]
struct Watcher {
    asked: Asked,
    to: mpsc::Sender<Status>,
    /// When it was told last, or had not taken the last ones.
    told: Instant,
    /// What it was told last, without prefixes.
    last: Option<Status>,
    /// Whether a status had the prefixes.
    had_prefixes: bool,
    /// What it knows of prefixes, if it wants changes only.
    prefixes: Option<ToldPrefixes>,
    /// When a status is to have the prefixes; None: they have not changed since the last one that had them.
    due: Option<Instant>,
}

impl Watcher {
    fn wants_prefixes(&self, now: Instant) -> bool {
        let always = self.asked.after.is_zero() && self.had_prefixes;
        always || self.due.is_some_and(|due| now >= due)
    }

    /// What it is told now; None: it was told that a moment ago, counters apart.
    fn next(
        &mut self,
        now: Instant,
        made: &mut Made,
        status: impl Fn(Told<'_>) -> Status,
    ) -> Option<Status> {
        if !self.wants_prefixes(now) {
            let last = self.last.as_ref();
            let told = status(Told::LeftOut(last));
            let same = last.is_some_and(|last| status::is_alike(last, &told));
            if same && now < self.told + TOLD_EVERY {
                return None;
            }
            self.last = Some(told.clone());
            return Some(told);
        }
        let asked = &self.asked.prefixes;
        let mut told = if self.asked.only_changes {
            let prefixes_are_changes = self.prefixes.is_some();
            let known = self.prefixes.get_or_insert_default();
            Status {
                prefixes_are_changes,
                ..status(Told::Changes(asked, known))
            }
        } else {
            let known = made.entry(asked.clone());
            let known = known.or_insert_with(|| status(Told::Prefixes(asked)));
            known.clone()
        };
        let prefixes = std::mem::take(&mut told.prefixes);
        self.last = Some(told.clone());
        (self.had_prefixes, self.due) = (true, None);
        Some(Status { prefixes, ..told })
    }
}

/// Statuses with prefixes, by those that are asked for.
type Made = BTreeMap<BTreeSet<IpNet>, Status>;

impl Watchers {
    /// Takes one more, unless there are too many; its stream ends then.
    pub(super) fn add(&mut self, asked: Asked, to: mpsc::Sender<Status>, now: Instant) -> bool {
        self.all.retain(|it| !it.to.is_closed());
        let room = self.all.len() < WATCHERS_MAX;
        if room {
            self.all.push(Watcher {
                due: Some(now + asked.first_after),
                asked,
                to,
                told: now,
                last: None,
                had_prefixes: false,
                prefixes: None,
            });
        }
        room
    }

    /// There may be news.
    pub(super) fn changed(&mut self, now: Instant) {
        self.changed = true;
        for watcher in &mut self.all {
            watcher.due.get_or_insert(now + watcher.asked.after);
        }
    }

    /// When they are to be told next; None while nobody watches.
    pub(super) fn next(&self) -> Option<Instant> {
        let looked = self.looked.filter(|_| !self.all.is_empty())?;
        // Of those who want prefixes seldom, the next one most likely has none, and costs nothing.
        let costs = self.all.iter().any(|it| it.asked.after.is_zero());
        let least = match costs {
            true => (self.cost * REST).min(TOLD_EVERY),
            false => Duration::ZERO,
        };
        let news = looked + NEWS_EVERY.max(least);
        let next = match self.changed {
            true => news,
            false => self.all.iter().map(|it| it.told).min()? + TOLD_EVERY,
        };
        // Prefixes go out when they are due, not with the next counters: agents whose times differ do not send at once.
        let ready = self.all.iter().filter(|it| it.to.capacity() > 0);
        let due = ready.filter_map(|it| it.due).min();
        Some(due.map_or(next, |due| next.min(due.max(news))))
    }

    /// Tells everybody. Who has not taken the last ones gets the next one instead of this. Those who ask
    /// for the same get the same, which is made once.
    pub(super) fn tell(&mut self, now: Instant, status: impl Fn(Told<'_>) -> Status) {
        self.changed = false;
        self.looked = Some(now);
        self.all.retain(|it| !it.to.is_closed());
        let mut made = Made::new();
        for watcher in &mut self.all {
            if watcher.to.capacity() > 0 {
                let Some(told) = watcher.next(now, &mut made, &status) else {
                    continue;
                };
                // There is room: only this task sends.
                let _sent = watcher.to.try_send(told);
            }
            watcher.told = now;
        }
    }

    /// What was told last took so long to make: what is told next waits for ten times that, a second at
    /// most.
    pub(super) fn took(&mut self, cost: Duration) {
        self.cost = cost;
    }
}

/// The replicas, and a few people who look. One more is refused.
const WATCHERS_MAX: usize = 16;

/// News in a burst are told together.
const NEWS_EVERY: Duration = Duration::from_millis(50);

/// Counters, and that the agent lives.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// A status of a full switch has many thousand prefixes: while making one takes less than a tenth of a
/// second, the agent spends a tenth of its time on them at most, and a burst of news is told as one.
const REST: u32 = 10;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn who_asks_for_the_same_gets_the_same_and_it_is_made_once() {
        let mut watchers = Watchers::default();
        let mut queues = Vec::new();
        for asked in ["198.51.100.1/32", "198.51.100.1/32", "198.51.100.2/32"] {
            let (to, queue) = mpsc::channel(1);
            let asked = asked.parse().expect("a prefix");
            let asked = Asked {
                prefixes: BTreeSet::from([asked]),
                ..Asked::default()
            };
            assert!(watchers.add(asked, to, Instant::now()));
            queues.push(queue);
        }
        let made = Cell::new(0);
        watchers.tell(Instant::now(), |told| {
            made.set(made.get() + 1);
            let Told::Prefixes(asked) = told else {
                panic!("nobody wants them seldom");
            };
            let version = asked.iter().map(IpNet::to_string).collect();
            Status {
                version,
                ..Status::default()
            }
        });
        assert_eq!(made.get(), 2);
        let told = queues.iter_mut().map(|queue| queue.try_recv());
        let told: Vec<_> = told.map(|status| status.expect("told").version).collect();
        assert_eq!(
            told,
            ["198.51.100.1/32", "198.51.100.1/32", "198.51.100.2/32"]
        );
    }

    /// Prefixes at once, and then ten seconds after a change.
    fn seldom() -> Asked {
        Asked {
            after: Duration::from_secs(10),
            ..Asked::default()
        }
    }

    #[test]
    fn what_only_counts_otherwise_is_told_with_the_next_second() {
        let (to, mut queue) = mpsc::channel(1);
        let mut watchers = Watchers::default();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert!(watchers.add(seldom(), to, start));
        let mut told = |ms: u64, state: i32, routes: u32| {
            watchers.changed(at(ms));
            watchers.tell(at(ms), |_| Status {
                state,
                routes,
                ..Status::default()
            });
            let told = queue.try_recv().ok().map(|status| status.routes);
            (told, watchers.next())
        };
        assert_eq!(told(0, 1, 1), (Some(1), Some(at(1_000))));
        assert_eq!(told(100, 1, 1), (None, Some(at(1_000))));
        assert_eq!(told(999, 1, 2), (None, Some(at(1_000))));
        assert_eq!(told(1_000, 1, 3), (Some(3), Some(at(2_000))));
        assert_eq!(told(1_200, 2, 3), (Some(3), Some(at(2_200))));
        // The one that has the prefixes, ten seconds after the first change, and back at once.
        assert_eq!(told(10_000, 2, 4).0, Some(4));
        assert_eq!(told(10_100, 1, 5).0, Some(5));
        assert_eq!(told(10_200, 2, 6).0, Some(6));
    }

    #[test]
    fn who_wants_changes_gets_all_prefixes_once_and_then_what_changed() {
        let (to, mut queue) = mpsc::channel(1);
        let mut watchers = Watchers::default();
        let now = Instant::now();
        let asked = Asked {
            only_changes: true,
            ..Asked::default()
        };
        assert!(watchers.add(asked, to, now));
        let prefix: IpNet = "198.51.100.1/32".parse().expect("a prefix");
        let known = Cell::new(0);
        for times in 0..3 {
            watchers.tell(now, |told| {
                let Told::Changes(_, told) = told else {
                    panic!("all are made");
                };
                known.set(told.len());
                told.insert(prefix, 7);
                Status::default()
            });
            let told = queue.try_recv().expect("told");
            let is_later = times > 0;
            assert_eq!(told.prefixes_are_changes, is_later);
            assert_eq!(known.get(), usize::from(is_later));
        }
    }

    #[test]
    fn prefixes_are_told_a_while_after_they_changed_and_not_before() {
        let (to, mut queue) = mpsc::channel(1);
        let mut watchers = Watchers::default();
        let asked = Asked {
            first_after: Duration::from_secs(3),
            after: Duration::from_secs(10),
            ..Asked::default()
        };
        let start = Instant::now();
        assert!(watchers.add(asked, to, start));
        let mut has_prefixes = |second: u64, changes: bool| {
            let now = start + Duration::from_secs(second);
            if changes {
                watchers.changed(now);
            }
            watchers.tell(now, |told| Status {
                prefixes_left_out: matches!(told, Told::LeftOut(_)),
                ..Status::default()
            });
            !queue.try_recv().expect("told").prefixes_left_out
        };
        assert!(!has_prefixes(0, false));
        assert!(!has_prefixes(2, true));
        assert!(has_prefixes(3, false), "the first one that has them");
        assert!(!has_prefixes(100, false), "they are the same");
        assert!(!has_prefixes(200, true));
        assert!(!has_prefixes(209, true));
        assert!(has_prefixes(210, false));
        assert!(!has_prefixes(300, false));
    }

    #[test]
    fn prefixes_are_told_when_they_are_due_and_not_with_the_next_counters() {
        let (to, mut queue) = mpsc::channel(1);
        let mut watchers = Watchers::default();
        let asked = Asked {
            first_after: Duration::from_millis(1_300),
            after: Duration::from_millis(2_100),
            ..Asked::default()
        };
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert!(watchers.add(asked, to, start));
        let mut next = |ms: u64, changes: bool, reads: bool| {
            if changes {
                watchers.changed(at(ms));
            }
            watchers.tell(at(ms), |_| Status::default());
            if reads {
                queue.try_recv().expect("told");
            }
            watchers.next()
        };
        assert_eq!(next(0, false, true), Some(at(1_000)));
        assert_eq!(next(1_000, false, true), Some(at(1_300)));
        assert_eq!(next(1_300, false, true), Some(at(2_300)));
        assert_eq!(next(2_300, true, true), Some(at(3_300)));
        // A watcher that does not read brings no status forward.
        assert_eq!(next(4_380, false, false), Some(at(5_380)));
        assert_eq!(next(5_380, false, true), Some(at(5_430)));
    }

    #[test]
    fn what_takes_long_is_told_less_often() {
        let (to, _queue) = mpsc::channel(1);
        let mut watchers = Watchers::default();
        let now = Instant::now();
        assert!(watchers.add(Asked::default(), to, now));
        watchers.tell(now, |_| Status::default());
        watchers.took(Duration::from_millis(1));
        assert_eq!(watchers.next(), Some(now + TOLD_EVERY));
        watchers.changed(now);
        assert_eq!(watchers.next(), Some(now + NEWS_EVERY));
        watchers.took(Duration::from_millis(20));
        assert_eq!(watchers.next(), Some(now + Duration::from_millis(200)));
        watchers.took(Duration::from_millis(200));
        assert_eq!(watchers.next(), Some(now + TOLD_EVERY));
    }

    #[test]
    fn news_do_not_wait_for_prefixes_that_are_told_seldom() {
        let (to, _queue) = mpsc::channel(2);
        let mut watchers = Watchers::default();
        let now = Instant::now();
        assert!(watchers.add(seldom(), to, now));
        watchers.tell(now, |_| Status::default());
        watchers.took(Duration::from_millis(200));
        watchers.changed(now);
        assert_eq!(watchers.next(), Some(now + NEWS_EVERY));
    }
}
