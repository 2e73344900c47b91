//! One session with a switch: reads what is there, sends the difference, reads again now and then.
//!
//! One loop, so that a slow answer to one thing delays no other: operations, intents, looks and the lease. It refuses to
//! know connections and why an intent is what it is.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};
use weft_proto::gribi::{ModifyResponse, aft_result};

use super::push::{Answer, Push, said};
use super::stream::{ANSWER_MAX, PROGRESS_MAX, Stream, get};
use super::{Counted, Device, Ended, Wanted, Written, message};
use crate::southbound::AgentState;
use crate::southbound::access::Line;
use crate::southbound::intent::{Entry, Flows, Installed, Mode, Routes, Tables, Withheld};
use crate::southbound::reconcile::{Change, Operation, reconcile};

/// A stream on which this replica is the highest, and what is known of the switch behind it.
pub(super) struct Session<'a> {
    device: &'a mut Device,
    line: Line,
    stream: Stream,
    /// None until it was read.
    installed: Option<Installed>,
    /// What the operations in progress lead to.
    aim: Wanted,
    push: Push,
    /// The intent or what is installed changed since the operations were made.
    outdated: bool,
    /// When operations were sent.
    sent: BTreeMap<u64, Instant>,
    /// A reading of the switch on its way.
    look: Option<Look>,
    look_at: Instant,
    /// Until the next look after a failure.
    pause: Duration,
    /// Why the switch gets no backups: it did not take a group while there were some. It is tried again when there are none for a while.
    without_backups: Option<String>,
    /// Entries that differed at the last look from what was acknowledged.
    drift: usize,
    settled: bool,
    progress_at: Instant,
    heard_at: Instant,
}

type Look = Pin<Box<dyn Future<Output = Result<Installed, Ended>> + Send>>;

impl<'a> Session<'a> {
    pub(super) fn new(device: &'a mut Device, line: Line, stream: Stream) -> Self {
        let now = Instant::now();
        let aim = device.wanted.borrow().clone();
        Self {
            look: Some(Box::pin(get(line.clone(), device.counted.clone()))),
            device,
            line,
            stream,
            installed: None,
            aim,
            push: Push::new(Vec::new(), FIRST_ID),
            outdated: true,
            sent: BTreeMap::new(),
            look_at: now,
            pause: PAUSE_MIN,
            without_backups: None,
            drift: 0,
            settled: false,
            progress_at: now,
            heard_at: now,
        }
    }

    /// Until the session ends.
    pub(super) async fn run(mut self) -> Ended {
        let mut renewal = interval(RENEW_EVERY);
        renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Err(ended) = self.poll(&mut renewal).await {
                // What was not answered in time is not there, as far as anybody knows.
                self.report_withheld();
                return ended;
            }
        }
    }

    async fn poll(&mut self, renewal: &mut Interval) -> Result<(), Ended> {
        self.plan();
        self.send().await?;
        self.settle();
        self.report();
        let progress_until = self.progress_at + PROGRESS_MAX;
        let is_idle = self.look.is_none() && self.settled;
        tokio::select! {
            answer = self.stream.next() => self.handle(&answer?),
            _ = renewal.tick() => self.renew().await?,
            seen = arrival(&mut self.look) => self.seen(seen?)?,
            () = sleep_until(self.look_at), if is_idle => {
                let counted = self.device.counted.clone();
                self.look = Some(Box::pin(get(self.line.clone(), counted)));
            }
            changed = self.device.wanted.changed() => {
                changed.map_err(|_| Ended::Unwanted)?;
                self.outdated = true;
                self.push.stop();
            }
            () = sleep_until(progress_until), if self.push.in_flight() > 0 => {
                return Err(Ended::Lost(format!(
                    "no answer to {} operations within {} s",
                    self.push.in_flight(),
                    PROGRESS_MAX.as_secs()
                )));
            }
        }
        Ok(())
    }

    /// Makes new operations when the old ones are outdated and all that were sent are answered.
    fn plan(&mut self) {
        let Some(installed) = &self.installed else {
            return;
        };
        if !self.outdated || self.push.in_flight() > 0 || self.is_on_hold() {
            return;
        }
        let wanted = self.device.wanted.borrow_and_update().clone();
        if wanted.mode != self.aim.mode {
            self.pause = PAUSE_MIN;
        }
        self.aim = wanted;
        let (routes, flows) = match self.aim.mode {
            Mode::On => {
                self.device.written = Written::Something;
                if self.aim.routes.backups.is_empty() {
                    self.without_backups = None;
                }
                let routes = match self.without_backups {
                    Some(_) => Arc::new(self.aim.routes.without_backups()),
                    None => self.aim.routes.clone(),
                };
                (routes, self.aim.flows.clone())
            }
            Mode::Off | Mode::Shadow => (Arc::<Routes>::default(), Arc::<Flows>::default()),
        };
        let operations = reconcile(&routes, &flows, installed);
        let is_first = self.push.next_id() == FIRST_ID;
        let adds_flows = operations.iter().any(adds_flow);
        self.push = Push::new(operations, self.push.next_id());
        // Nothing is in flight; what was held is asked for under new ids.
        self.sent.clear();
        self.outdated = false;
        self.settled = false;
        self.progress_at = Instant::now();
        if is_first || adds_flows {
            // What was read may be less than what was known of an earlier session, and a job has no pin before it is answered.
            self.report_withheld();
        }
        if !self.push.is_empty() {
            // What is read meanwhile would be neither old nor new.
            self.look = None;
        }
    }

    async fn send(&mut self) -> Result<(), Ended> {
        loop {
            let operations = self.push.take();
            if operations.is_empty() {
                return Ok(());
            }
            let now = Instant::now();
            self.sent
                .extend(operations.iter().map(|(id, _)| (*id, now)));
            let election = self.device.election;
            let message = message::operations(&operations, election, self.aim.revision);
            self.stream.send(message).await?;
        }
    }

    fn handle(&mut self, response: &ModifyResponse) {
        self.heard_at = Instant::now();
        for result in &response.result {
            let Counted { switch, answers } = &self.device.counted;
            let status = result.status();
            answers.count(switch, status.as_str_name());
            if status != aft_result::Status::RibProgrammed
                && let Some(at) = self.sent.remove(&result.id)
                && status == aft_result::Status::FibProgrammed
            {
                answers.measure(switch, at.elapsed());
            }
            let Some(installed) = &mut self.installed else {
                continue;
            };
            let answer = self.push.handle(result);
            if self.aim.mode == Mode::On
                && let Answer::Failed(change) | Answer::Refused(change) = &answer
                && self.without_backups.is_none()
                && backs(change, &self.aim.routes)
            {
                // Weights do not wait for what a switch does not take, or has no room for.
                let why = format!(
                    "no backups are sent, for it did not take one: {change}: {}",
                    said(result)
                );
                tracing::warn!(agent = %self.device.agent, why, "backups of next-hop groups");
                self.without_backups = Some(why);
                self.outdated = true;
                self.push.stop();
            }
            match answer {
                Answer::Programmed(change) => {
                    installed.program(&change);
                    let now = Some(self.heard_at);
                    self.device
                        .status
                        .send_modify(|status| status.last_ack = now);
                }
                Answer::Held(change) | Answer::Failed(change) => installed.hold(&change),
                Answer::Refused(_) => {}
                Answer::Unknown => continue,
            }
            self.progress_at = self.heard_at;
            // An answer that came late may have made the next operations ready.
            self.settled = false;
        }
    }

    /// Says that this replica is still there, and hears whether the switch is.
    async fn renew(&mut self) -> Result<(), Ended> {
        if self.heard_at.elapsed() > ANSWER_MAX {
            let secs = ANSWER_MAX.as_secs();
            return Err(Ended::Lost(format!(
                "no answer to the election id within {secs} s"
            )));
        }
        self.stream.renew().await
    }

    /// Takes what was read. What differs from what was acknowledged is drift, and repaired like any other difference.
    fn seen(&mut self, seen: Installed) -> Result<(), Ended> {
        self.look = None;
        // A new leader connects to all switches at once, and reads each at a time of its own from the second look on.
        let next = match self.installed {
            Some(_) => LOOK_EVERY,
            None => self.device.second_look,
        };
        self.look_at = Instant::now() + next;
        let seen = match &self.installed {
            Some(before) => {
                self.drift = before.tables.differences(&seen.tables);
                if self.aim.mode == Mode::On && loses_backups(&before.tables, &seen.tables) {
                    let why = "no backups are sent, for it says of none that it has it";
                    self.without_backups = Some(why.to_owned());
                }
                seen.seen(before)
            }
            None => seen,
        };
        if self.drift > 0 {
            let (agent, entries) = (&self.device.agent, self.drift);
            tracing::warn!(%agent, entries, "the switch has not what it acknowledged");
        }
        let empty = seen.is_empty();
        let same = self.installed.as_ref() == Some(&seen);
        self.installed = Some(seen);
        // What failed or is held is tried again by a plan that follows from a look.
        self.outdated |= !(same && self.is_done());
        match self.device.wanted.borrow().mode {
            Mode::Off | Mode::Shadow if empty => Err(Ended::Emptied),
            Mode::Off | Mode::Shadow | Mode::On => Ok(()),
        }
    }

    /// Whether nothing is to be written yet.
    fn is_on_hold(&self) -> bool {
        let wanted = self.device.wanted.borrow();
        wanted.hold && wanted.mode == Mode::On && self.push.next_id() == FIRST_ID
    }

    /// Whether everything that is wanted was programmed.
    fn is_done(&self) -> bool {
        self.settled && self.is_complete() && self.aim.mode == Mode::On
    }

    fn is_complete(&self) -> bool {
        self.push.failed() + self.push.held() + self.push.pending() == 0
    }

    /// Decides when to look again, once everything that can be done is done.
    fn settle(&mut self) {
        if self.settled || self.outdated || !self.push.is_settled() {
            return;
        }
        self.settled = true;
        let now = Instant::now();
        let complete = self.is_complete();
        self.report_withheld();
        if !complete && let Some(what) = self.push.summary() {
            let agent = &self.device.agent;
            let (failed, held) = (self.push.failed(), self.push.held());
            tracing::info!(%agent, failed, held, what, "operations held or failed");
        }
        if self.aim.mode != Mode::On && complete && self.pause == PAUSE_MIN {
            self.look_at = now;
            self.pause *= 2;
        } else if self.aim.mode != Mode::On || self.push.failed() > 0 {
            self.look_at = self.look_at.min(now + self.pause);
            self.pause = (self.pause * 2).min(LOOK_EVERY);
        } else {
            self.pause = PAUSE_MIN;
        }
    }

    /// Says what is not in the forwarding plane, as far as the switch answered.
    fn report_withheld(&self) {
        let Some(installed) = self.installed.as_ref().filter(|_| !self.is_on_hold()) else {
            return;
        };
        let withheld = match self.is_complete() {
            true => Withheld::new(),
            false => self.push.withheld(&installed.tables),
        };
        let withheld = (self.aim.mode == Mode::On).then(|| Arc::new(withheld));
        self.device
            .status
            .send_modify(|status| status.withheld = withheld);
    }

    fn report(&self) {
        let heard = Some(self.heard_at);
        let Some(installed) = &self.installed else {
            let state = self.device.working(AgentState::Synchronizing);
            self.device.status.send_modify(|status| {
                status.state = state;
                status.is_up = true;
                status.last_heard = heard;
                status.withheld = None;
            });
            return;
        };
        let push = &self.push;
        let state = match self.aim.mode {
            Mode::Off | Mode::Shadow => AgentState::TurningOff,
            Mode::On if self.is_on_hold() => AgentState::Connecting,
            Mode::On if !self.settled || push.failed() > 0 => AgentState::Synchronizing,
            Mode::On if push.held() > 0 || push.pending() > 0 => AgentState::Held,
            Mode::On => AgentState::InSync,
        };
        self.device.status.send_modify(|status| {
            status.state = state;
            status.is_up = true;
            status.last_heard = heard;
            status.entries = installed.tables.len();
            status.pending = push.pending();
            status.held = push.held();
            status.failed = push.failed();
            status.drift = self.drift;
            if state == AgentState::InSync {
                status.installed_revision = self.aim.revision;
                status.last_error = self.without_backups.clone().unwrap_or_default();
            } else if let Some(error) = push.summary() {
                status.last_error = error;
            }
        });
    }
}

fn adds_flow(operation: &Operation) -> bool {
    matches!(operation.change, Change::Add(Entry::Policy(..)))
}

/// Whether a change is one of a group or a next hop that is there for backups, or may be.
fn backs(change: &Change, routes: &Routes) -> bool {
    let is_put = matches!(
        change,
        Change::Add(Entry::Group(..) | Entry::NextHop(..))
            | Change::Replace(Entry::Group(..) | Entry::NextHop(..))
    );
    is_put && !routes.backups.is_empty()
}

/// Whether a switch acknowledged groups with a backup, and has them without.
fn loses_backups(acknowledged: &Tables, seen: &Tables) -> bool {
    acknowledged.groups.iter().any(|(id, group)| {
        let seen = seen.groups.get(id);
        group.backup.is_some() && seen.is_some_and(|seen| seen.backup.is_none())
    })
}

/// What a look brings; never, when there is none.
async fn arrival(look: &mut Option<Look>) -> Result<Installed, Ended> {
    match look {
        Some(look) => look.await,
        None => std::future::pending().await,
    }
}

/// The id of the first operation of a session.
const FIRST_ID: u64 = 1;
/// How often the lease is renewed: weft-agent takes 10 s of silence as its end.
const RENEW_EVERY: Duration = Duration::from_secs(1);
/// How often a switch is read while nothing changes: entries that it lost are missed for so long, and reading 1,000
/// entries costs it some 100 kB each time.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Until a failed operation is tried again, doubled up to the time between two looks.
const PAUSE_MIN: Duration = Duration::from_secs(1);
