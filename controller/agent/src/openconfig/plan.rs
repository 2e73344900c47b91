//! When the leaves of one subscription list are sent: at once, when they change, or by the clock. Time is an argument.
//! Knows no stream.

use std::sync::Arc;
use std::time::Duration;

use weft_proto::gnmi::{Notification, Subscription, SubscriptionList, SubscriptionMode};

use super::pattern::Pattern;
use super::schema::Kind;
use super::tree::{Place, Tree, Value};
use super::write::Writer;
use crate::refusal::Refusal;

/// The subscriptions of one list.
#[derive(Clone, Debug)]
pub struct Plan {
    entries: Vec<Entry>,
    writer: Writer,
    updates_only: bool,
}

/// Where the next part of all that there is begins.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    entry: usize,
    leaf: usize,
}

/// What one subscription wants of leaves of one kind, and what it was sent.
#[derive(Clone, Debug)]
struct Entry {
    pattern: Pattern,
    when: When,
    heartbeat: Option<Beat>,
    /// The tree of which it was sent what it wanted.
    sent: Option<Arc<Tree>>,
}

#[derive(Clone, Debug)]
enum When {
    Changed,
    Sampled {
        beat: Beat,
        /// Without what has not changed.
        changed_only: bool,
    },
}

/// Something that is due again and again.
#[derive(Copy, Clone, Debug)]
struct Beat {
    every: Duration,
    at: Duration,
}

impl Plan {
    /// Reads a list.
    ///
    /// # Errors
    ///
    /// INVALID_ARGUMENT for an empty list, one that is too long, a path that is not of the schema, an unknown mode, or
    /// an interval that is neither 0 nor from [`INTERVAL_MIN`] to [`INTERVAL_MAX`]; UNIMPLEMENTED for an encoding.
    pub fn new(list: &SubscriptionList) -> Result<Self, Refusal> {
        if list.subscription.is_empty() {
            return Err(Refusal::invalid("the list has no subscription"));
        }
        if list.subscription.len() > SUBSCRIPTIONS_MAX {
            return Err(Refusal::invalid(&format!(
                "{} subscriptions in a list, at most {SUBSCRIPTIONS_MAX}",
                list.subscription.len()
            )));
        }
        let writer = Writer::new(list.encoding, list.prefix.as_ref())?;
        let mut entries = Vec::new();
        for (number, subscription) in list.subscription.iter().enumerate() {
            let read = Pattern::read(list.prefix.as_ref(), subscription.path.as_ref())
                .and_then(|pattern| read(pattern, subscription));
            entries.extend(read.map_err(|refusal| Refusal {
                text: format!("subscription {}: {}", number + 1, refusal.text),
                ..refusal
            })?);
        }
        Ok(Self {
            entries,
            writer,
            updates_only: list.updates_only,
        })
    }

    /// All that there is, a part at a time: what ONCE and a poll are answered with, and what a stream sends before it is in
    /// sync. Nothing, if only updates are wanted. The second value, if any, asks for the next part.
    #[must_use]
    pub fn all(&self, tree: &Tree, from: Cursor) -> (Vec<Notification>, Option<Cursor>) {
        let Some(entry) = self.entries.get(from.entry).filter(|_| !self.updates_only) else {
            return (Vec::new(), None);
        };
        let selected = entry.pattern.select(tree).skip(from.leaf);
        let leaves: Vec<_> = selected.take(PART_MAX).collect();
        let next = match leaves.len() {
            PART_MAX => Cursor {
                leaf: from.leaf.saturating_add(PART_MAX),
                ..from
            },
            _ => Cursor {
                entry: from.entry.saturating_add(1),
                leaf: 0,
            },
        };
        (self.writer.leaves(tree.unix_ns, &leaves, &[]), Some(next))
    }

    /// Begins a stream, which is sent all of this tree.
    pub fn begin(&mut self, tree: &Arc<Tree>, now: Duration) {
        for entry in &mut self.entries {
            entry.sent = Some(Arc::clone(tree));
            if let When::Sampled { beat, .. } = &mut entry.when {
                beat.begin(now);
            }
            if let Some(beat) = &mut entry.heartbeat {
                beat.begin(now);
            }
        }
    }

    /// Whether something is sent when it changes.
    #[must_use]
    pub fn wants_changes(&self) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| matches!(entry.when, When::Changed))
    }

    /// When something is due by the clock.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        let beats = self.entries.iter().flat_map(|entry| {
            let sample = match &entry.when {
                When::Changed => None,
                When::Sampled { beat, .. } => Some(beat.at),
            };
            let heartbeat = entry.heartbeat.map(|beat| beat.at);
            [sample, heartbeat].into_iter().flatten()
        });
        beats.min()
    }

    /// What is to be sent of this tree now.
    #[must_use]
    pub fn poll(&mut self, tree: &Arc<Tree>, now: Duration) -> Vec<Notification> {
        let mut notifications = Vec::new();
        for entry in &mut self.entries {
            let beats = entry.heartbeat.as_mut().is_some_and(|it| it.is_due(now));
            let all = match &mut entry.when {
                When::Changed => beats,
                When::Sampled { beat, changed_only } => match (beat.is_due(now), *changed_only) {
                    (false, _) if !beats => continue,
                    (sampled, changed_only) => beats || (sampled && !changed_only),
                },
            };
            let sent = entry.sent.replace(Arc::clone(tree));
            let (leaves, deleted) = match &sent {
                Some(sent) if Arc::ptr_eq(sent, tree) && !all => continue,
                Some(sent) => entry.pattern.changed(sent, tree, all),
                None => (entry.pattern.select(tree).collect(), Vec::new()),
            };
            let written = self.writer.leaves(tree.unix_ns, &leaves, &deleted);
            notifications.extend(written);
        }
        notifications
    }
}

impl Pattern {
    /// What is not as it was, or all, and what is there no more.
    fn changed<'a>(
        &'a self,
        before: &'a Tree,
        after: &'a Tree,
        all: bool,
    ) -> (Vec<(&'a Place, &'a Value)>, Vec<&'a Place>) {
        let leaves = self.select(after);
        let leaves = leaves.filter(|(place, value)| all || before.value(place) != Some(value));
        let deleted = self.select(before).map(|(place, _)| place);
        let deleted = deleted.filter(|place| after.value(place).is_none());
        (leaves.collect(), deleted.collect())
    }
}

impl Beat {
    fn new(every: Duration) -> Self {
        let at = every;
        Self { every, at }
    }

    fn begin(&mut self, now: Duration) {
        self.at = now.saturating_add(self.every);
    }

    /// Whether it is due, and then when it is due next. What was missed is not made up for.
    fn is_due(&mut self, now: Duration) -> bool {
        if now < self.at {
            return false;
        }
        self.at = self.at.saturating_add(self.every);
        if self.at <= now {
            self.begin(now);
        }
        true
    }
}

fn read(pattern: Pattern, subscription: &Subscription) -> Result<Vec<Entry>, Refusal> {
    let heartbeat = match subscription.heartbeat_interval {
        0 => None,
        given => Some(Beat::new(interval("heartbeat_interval", given)?)),
    };
    let sample = |every| When::Sampled {
        beat: Beat::new(every),
        changed_only: subscription.suppress_redundant,
    };
    let entry = |pattern: Pattern, when: When| {
        // A sample that leaves nothing out is a heartbeat itself.
        let full = matches!(when, When::Sampled { changed_only, .. } if !changed_only);
        Entry {
            pattern,
            when,
            heartbeat: heartbeat.filter(|_| !full),
            sent: None,
        }
    };
    let every = |default| match subscription.sample_interval {
        0 => Ok(default),
        given => interval("sample_interval", given),
    };
    match SubscriptionMode::try_from(subscription.mode) {
        Ok(SubscriptionMode::OnChange) => Ok(vec![entry(pattern, When::Changed)]),
        Ok(SubscriptionMode::Sample) => {
            let when = sample(every(INTERVAL_MIN)?);
            Ok(vec![entry(pattern, when)])
        }
        Ok(SubscriptionMode::TargetDefined) => {
            let every = every(INTERVAL_CHOSEN)?;
            let state = pattern.only(Kind::State);
            let state = state.map(|pattern| entry(pattern, When::Changed));
            let counters = pattern.only(Kind::Counter);
            let counters = counters.map(|pattern| entry(pattern, sample(every)));
            Ok(state.into_iter().chain(counters).collect())
        }
        Err(_) => Err(Refusal::invalid(&format!(
            "there is no mode {}",
            subscription.mode
        ))),
    }
}

fn interval(field: &str, nanoseconds: u64) -> Result<Duration, Refusal> {
    let given = Duration::from_nanos(nanoseconds);
    if (INTERVAL_MIN..=INTERVAL_MAX).contains(&given) {
        Ok(given)
    } else {
        Err(Refusal::invalid(&format!(
            "{field} is {nanoseconds} ns: from {} to {} can be done",
            INTERVAL_MIN.as_nanos(),
            INTERVAL_MAX.as_nanos()
        )))
    }
}

/// Reading all counters once a second costs the kernel little; more often, weft does not look either.
pub const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// A day.
pub const INTERVAL_MAX: Duration = Duration::from_secs(86_400);

/// Leaves of a part: some megabytes of messages, of a full switch as of a small one.
const PART_MAX: usize = 4096;

/// The sample interval of counters that a subscription leaves to the target (TARGET_DEFINED, or an interval of 0).
const INTERVAL_CHOSEN: Duration = Duration::from_secs(10);

/// Subscriptions in a list, and paths of a `Get`: what a collector asks for is a handful.
pub const SUBSCRIPTIONS_MAX: usize = 64;
