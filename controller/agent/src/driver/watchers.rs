//! Who wants the status, and when they are told. Knows nothing of what a status says.

use std::collections::BTreeSet;
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio::time::Instant;
use weft_proto::agent::v1::Status;

/// Everybody who watches.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    all: Vec<(BTreeSet<IpNet>, mpsc::Sender<Status>)>,
    told: Option<Instant>,
    changed: bool,
}

impl Watchers {
    /// Takes one more, unless there are too many; its stream ends then.
    pub(super) fn add(&mut self, asked: BTreeSet<IpNet>, to: mpsc::Sender<Status>) -> bool {
        self.all.retain(|(_, to)| !to.is_closed());
        let room = self.all.len() < WATCHERS_MAX;
        if room {
            self.all.push((asked, to));
        }
        room
    }

    /// There may be news.
    pub(super) fn changed(&mut self) {
        self.changed = true;
    }

    /// When they are to be told next; None while nobody watches.
    pub(super) fn next(&self) -> Option<Instant> {
        let told = self.told.filter(|_| !self.all.is_empty())?;
        Some(told + if self.changed { NEWS_EVERY } else { TOLD_EVERY })
    }

    /// Tells everybody. Who has not taken the last ones gets the next one instead of this.
    pub(super) fn tell(&mut self, now: Instant, status: impl Fn(&BTreeSet<IpNet>) -> Status) {
        self.changed = false;
        self.told = Some(now);
        self.all.retain(|(_, to)| !to.is_closed());
        for (asked, to) in &self.all {
            if to.capacity() > 0 {
                // There is room: only this task sends.
                let _sent = to.try_send(status(asked));
            }
        }
    }
}

/// The replicas, and a few people who look. One more is refused.
const WATCHERS_MAX: usize = 16;

/// News in a burst are told together.
const NEWS_EVERY: Duration = Duration::from_millis(50);

/// Counters, and that the agent lives.
const TOLD_EVERY: Duration = Duration::from_secs(1);
