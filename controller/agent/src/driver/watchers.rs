//! Who wants the status, and when they are told. Knows nothing of what a status says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio::time::Instant;
use weft_proto::agent::v1::Status;

use crate::status::Told;

/// Everybody who watches.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    all: Vec<Watcher>,
    told: Option<Instant>,
    /// How long it took to make what was told last.
    cost: Duration,
    changed: bool,
}

/// Somebody who watches.
#[derive(Debug)]
struct Watcher {
    asked: BTreeSet<IpNet>,
    to: mpsc::Sender<Status>,
    /// From a change until a status has the prefixes.
    after: Duration,
    /// The last status that had the prefixes, with these taken out.
    had: Option<Status>,
    /// Time of the first change since prefixes were told; None: there was none.
    stale: Option<Instant>,
}

impl Watcher {
    /// What the next one says of prefixes.
    fn told(&self, now: Instant) -> Told<'_> {
        let is_due = self.stale.is_some_and(|since| now >= since + self.after);
        match &self.had {
            Some(had) if !self.after.is_zero() && !is_due => Told::LeftOut(had),
            Some(_) | None => Told::Prefixes(&self.asked),
        }
    }
}

impl Watchers {
    /// Takes one more, unless there are too many; its stream ends then.
    pub(super) fn add(
        &mut self,
        asked: BTreeSet<IpNet>,
        after: Duration,
        to: mpsc::Sender<Status>,
    ) -> bool {
        self.all.retain(|it| !it.to.is_closed());
        let room = self.all.len() < WATCHERS_MAX;
        if room {
            self.all.push(Watcher {
                asked,
                to,
                after,
                had: None,
                stale: None,
            });
        }
        room
    }

    /// There may be news.
    pub(super) fn changed(&mut self, now: Instant) {
        self.changed = true;
        for watcher in &mut self.all {
            watcher.stale.get_or_insert(now);
        }
    }

    /// When they are to be told next; None while nobody watches.
    pub(super) fn next(&self) -> Option<Instant> {
        let told = self.told.filter(|_| !self.all.is_empty())?;
        let every = if self.changed { NEWS_EVERY } else { TOLD_EVERY };
        Some(told + every.max((self.cost * REST).min(TOLD_EVERY)))
    }

    /// Tells everybody. Who has not taken the last ones gets the next one instead of this. Those who ask
    /// for the same get the same, which is made once.
    pub(super) fn tell(&mut self, now: Instant, status: impl Fn(Told<'_>) -> Status) {
        self.changed = false;
        self.told = Some(now);
        self.all.retain(|it| !it.to.is_closed());
        let mut made: BTreeMap<BTreeSet<IpNet>, Status> = BTreeMap::new();
        for watcher in self.all.iter_mut().filter(|it| it.to.capacity() > 0) {
            let told = match watcher.told(now) {
                Told::Prefixes(asked) => {
                    let known = made.entry(asked.clone());
                    let told = known
                        .or_insert_with(|| status(Told::Prefixes(asked)))
                        .clone();
                    watcher.had = Some(Status {
                        prefixes: Vec::new(),
                        ..told.clone()
                    });
                    watcher.stale = None;
                    told
                }
                left_out @ Told::LeftOut(_) => status(left_out),
            };
            // There is room: only this task sends.
            let _sent = watcher.to.try_send(told);
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
            assert!(watchers.add(BTreeSet::from([asked]), Duration::ZERO, to));
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

    #[test]
    fn prefixes_are_told_a_while_after_they_changed_and_not_before() {
        let (to, mut queue) = mpsc::channel(1);
        let mut watchers = Watchers::default();
        let after = Duration::from_secs(10);
        assert!(watchers.add(BTreeSet::new(), after, to));
        let start = Instant::now();
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
        assert!(has_prefixes(0, false), "the first one");
        assert!(!has_prefixes(100, false), "they are the same");
        assert!(!has_prefixes(200, true));
        assert!(!has_prefixes(209, true));
        assert!(has_prefixes(210, false));
        assert!(!has_prefixes(300, false));
    }

    #[test]
    fn what_takes_long_is_told_less_often() {
        let (to, _queue) = mpsc::channel(1);
        let mut watchers = Watchers::default();
        assert!(watchers.add(BTreeSet::new(), Duration::ZERO, to));
        let now = Instant::now();
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
}
