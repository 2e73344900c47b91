//! A gRIBI client: the task that holds the stream to one switch.
//!
//! ```text
//! connect -> parameters -> election id -> Get -> reconcile -> push -> in sync
//!    ^                                              ^                   |
//!    |                                              +--- new intent ----+
//!    +--- 1 s .. 30 s --- connection lost, or an operation failed
//! a higher election id, at any moment -> stop for good
//! ```
//!
//! openconfig/gribi `doc/specification.md` v1.0.1. After any break nothing is assumed: the next stream begins with a
//! `Get`. It refuses to know where the intent comes from.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use weft_proto::gribi::{ModifyResponse, aft_result};

use self::push::{Answer, Push};
use self::stream::{ANSWER_MAX, PROGRESS_MAX, Stream, get};
use super::answers::Answers;
use super::intent::Tables;
use super::reconcile::reconcile;
use super::{AgentState, AgentStatus, Election};
use crate::fabric::topology::SwitchName;

pub(super) use self::stream::connect_tcp;

mod message;
mod push;
mod stream;

/// Opens a connection to the gRIBI server at an address, `host:port`; an error is text for a person.
pub type Connect = Arc<dyn Fn(Arc<str>) -> Connecting + Send + Sync>;

/// A connection on its way.
pub type Connecting = Pin<Box<dyn Future<Output = Result<Channel, String>> + Send>>;

/// What a switch should have now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Of the plan.
    pub(super) revision: u64,
    /// The switch's tables.
    pub(super) tables: Arc<Tables>,
}

/// Where the answers of one switch are counted.
pub(super) struct Counted {
    /// Whose.
    pub(super) switch: SwitchName,
    /// Where.
    pub(super) answers: Answers,
}

/// The client of one switch.
pub(super) struct Device {
    agent: Arc<str>,
    connect: Connect,
    election: Election,
    wanted: watch::Receiver<Wanted>,
    status: watch::Sender<AgentStatus>,
    counted: Counted,
}

/// Why a session ended.
enum Ended {
    /// The switch knows a higher election id.
    Outranked(Election),
    /// The connection or the session failed.
    Lost(String),
    /// Operations failed: read again what is there, and try again.
    Incomplete,
    /// Nobody wants anything any more.
    Unwanted,
}

impl Device {
    pub(super) fn new(
        agent: Arc<str>,
        connect: Connect,
        election: Election,
        wanted: watch::Receiver<Wanted>,
        status: watch::Sender<AgentStatus>,
        counted: Counted,
    ) -> Self {
        Self {
            agent,
            connect,
            election,
            wanted,
            status,
            counted,
        }
    }

    /// Sessions one after another until somebody with a higher election id writes, or the task is aborted.
    pub(super) async fn run(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let last_ack = self.status.borrow().last_ack;
            let ended = self.session().await;
            let good = {
                let status = self.status.borrow();
                status.state == AgentState::InSync || status.last_ack != last_ack
            };
            if good {
                pause = PAUSE_MIN;
            }
            match ended {
                Ended::Outranked(by) => return self.outranked(by),
                Ended::Unwanted => return,
                Ended::Lost(why) => {
                    tracing::warn!(agent = %self.agent, error = %why, "gRIBI session lost");
                    self.status.send_modify(|status| {
                        status.state = AgentState::Unreachable;
                        status.last_error = why;
                    });
                    sleep(pause).await;
                }
                Ended::Incomplete => {
                    // A new intent may be what helps: no need to wait then.
                    let changed = timeout(pause, self.wanted.changed()).await;
                    if let Ok(Err(_)) = changed {
                        return;
                    }
                }
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Never answered with a higher id of ours: two controllers must not chase each other.
    fn outranked(&self, by: Election) {
        let foreign = by.incarnation > self.election.incarnation;
        let own = self.election;
        tracing::error!(agent = %self.agent, %own, %by, foreign, "a switch obeys another writer");
        self.status.send_modify(|status| {
            status.state = if foreign {
                AgentState::ForeignController
            } else {
                AgentState::Deposed
            };
            status.pending = 0;
            status.last_error = format!("the switch obeys {by}, this is {own}");
        });
    }

    async fn session(&mut self) -> Ended {
        let revision = self.wanted.borrow().revision;
        self.status
            .send_modify(|status| status.intended_revision = revision);
        match self.converse().await {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    async fn converse(&mut self) -> Result<std::convert::Infallible, Ended> {
        let connecting = timeout(ANSWER_MAX, (self.connect)(self.agent.clone()));
        let channel = connecting
            .await
            .map_err(|_| Ended::Lost("no answer to the connection".to_owned()))?
            .map_err(Ended::Lost)?;
        let mut stream = Stream::open(channel.clone(), self.election).await?;
        self.status
            .send_modify(|status| status.state = AgentState::Synchronizing);
        let mut installed = get(channel).await?;
        let mut next_id = 1;
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            let operations = reconcile(&wanted.tables, &installed);
            let push = Push::new(operations, next_id);
            next_id = self
                .push(push, &wanted, &mut stream, &mut installed)
                .await?;
            if !self.wanted.has_changed().map_err(|_| Ended::Unwanted)? {
                self.idle(&mut stream).await?;
            }
        }
    }

    /// Sends operations phase by phase until all are answered, or until there is a newer intent and what is in flight
    /// is answered. Returns the next operation id.
    async fn push(
        &self,
        mut push: Push,
        wanted: &Wanted,
        stream: &mut Stream,
        installed: &mut Tables,
    ) -> Result<u64, Ended> {
        let mut changed = self.wanted.clone();
        let mut interrupted = false;
        let mut accepted_only = 0;
        let mut sent = BTreeMap::new();
        self.progress(&push, wanted, installed, false);
        while !push.is_done() {
            let operations = push.take();
            if !operations.is_empty() {
                let now = Instant::now();
                sent.extend(operations.iter().map(|(id, _)| (*id, now)));
                let message = message::operations(&operations, self.election, wanted.revision);
                stream.send(message).await?;
                continue;
            }
            if push.is_done() {
                break;
            }
            tokio::select! {
                answer = timeout(PROGRESS_MAX, stream.next()) => match answer {
                    Ok(answer) => {
                        self.count(&answer?, &mut sent, &mut push, installed);
                    }
                    Err(_) => accepted_only += self.stalled(&mut push)?,
                },
                _ = changed.changed(), if !interrupted => {
                    interrupted = true;
                    push.stop();
                }
            }
            self.progress(&push, wanted, installed, false);
        }
        self.finish(&push, wanted, installed, interrupted, accepted_only)?;
        Ok(push.next_id())
    }

    /// Counts what is answered, and takes it.
    fn count(
        &self,
        response: &ModifyResponse,
        sent: &mut BTreeMap<u64, Instant>,
        push: &mut Push,
        installed: &mut Tables,
    ) {
        let Counted { switch, answers } = &self.counted;
        for result in &response.result {
            let status = result.status();
            answers.count(switch, status.as_str_name());
            if status != aft_result::Status::RibProgrammed
                && let Some(at) = sent.remove(&result.id)
                && status == aft_result::Status::FibProgrammed
            {
                answers.measure(switch, at.elapsed());
            }
        }
        self.answered(response, push, installed);
    }

    fn answered(&self, response: &ModifyResponse, push: &mut Push, installed: &mut Tables) {
        for result in &response.result {
            match push.handle(result) {
                Answer::Programmed(operation) => {
                    installed.apply(&operation);
                    self.status
                        .send_modify(|status| status.last_ack = Some(Instant::now()));
                }
                Answer::NotForwarding(operation) => installed.apply(&operation),
                Answer::Accepted | Answer::Refused | Answer::Unknown => {}
            }
        }
    }

    /// No answer for a while. What was accepted is left as that; what was not answered at all ends the session.
    fn stalled(&self, push: &mut Push) -> Result<usize, Ended> {
        let accepted = push.settle_accepted();
        if accepted == 0 {
            return Err(Ended::Lost(format!(
                "no acknowledgement of {} operations within {} s",
                push.pending(),
                PROGRESS_MAX.as_secs()
            )));
        }
        Ok(accepted)
    }

    fn finish(
        &self,
        push: &Push,
        wanted: &Wanted,
        installed: &Tables,
        interrupted: bool,
        accepted_only: usize,
    ) -> Result<(), Ended> {
        if let Some(error) = push.summary() {
            tracing::warn!(agent = %self.agent, %error, "operations failed");
            return Err(Ended::Incomplete);
        }
        if accepted_only > 0 {
            let error = format!(
                "{accepted_only} entries accepted and not active: another route is preferred"
            );
            self.status.send_modify(|status| {
                status.failed = 0;
                status.pending = accepted_only;
                status.last_error = error;
            });
            return Err(Ended::Incomplete);
        }
        self.progress(push, wanted, installed, !interrupted);
        Ok(())
    }

    /// Waits for a newer intent; the switch has nothing to say meanwhile but that it is there.
    async fn idle(&mut self, stream: &mut Stream) -> Result<(), Ended> {
        loop {
            tokio::select! {
                changed = self.wanted.changed() => return changed.map_err(|_| Ended::Unwanted),
                answer = stream.next() => {
                    answer?;
                }
            }
        }
    }

    fn progress(&self, push: &Push, wanted: &Wanted, installed: &Tables, in_sync: bool) {
        self.status.send_modify(|status| {
            status.intended_revision = wanted.revision;
            status.entries = installed.len();
            status.pending = push.pending();
            status.failed = push.failures().len();
            if in_sync {
                status.state = AgentState::InSync;
                status.installed_revision = wanted.revision;
                status.last_error.clear();
            } else {
                status.state = AgentState::Synchronizing;
                if let Some(error) = push.summary() {
                    status.last_error = error;
                }
            }
        });
    }
}

/// Between attempts: doubled from the first to the second.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
