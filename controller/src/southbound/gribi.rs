//! A gRIBI client: the task that programs one switch.
//!
//! ```text
//! mode on:     connect -> parameters -> election id -> Get -> reconcile -> push -> in sync, or held
//!                 ^                                     ^                             |
//!                 |                                     +-- new intent, look, drift --+
//!                 +--- 1 s .. 30 s --- connection lost
//!                 +--- 10 s ---------- a higher election id
//! mode off:    the same with nothing intended, until Get reads back empty; then no session
//! mode shadow: no session; one that was programmed before is emptied first
//! ```
//!
//! openconfig/gribi `doc/specification.md` v1.0.1. After any break nothing is assumed: the next stream begins with a
//! `Get`. It refuses to know where the intent comes from.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use self::session::{LOOK_EVERY, Session};
use self::stream::{ANSWER_MAX, Stream};
use super::access::Dialer;
use super::answers::Answers;
use super::intent::{Flows, Mode, Routes};
use super::{AgentState, AgentStatus, Election};
use crate::fabric::topology::SwitchName;

mod message;
mod push;
mod session;
mod stream;

/// What a switch should have now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Of the plan.
    pub(super) revision: u64,
    /// Whether it is programmed.
    pub(super) mode: Mode,
    /// Whether a session that has not written yet waits: it reads, and renews the lease.
    pub(super) hold: bool,
    /// What with.
    pub(super) routes: Arc<Routes>,
    /// Flows that go their own way.
    pub(super) flows: Arc<Flows>,
}

/// Where the answers of one switch are counted.
#[derive(Clone)]
pub(super) struct Counted {
    /// Whose.
    pub(super) switch: SwitchName,
    /// Where.
    pub(super) answers: Answers,
}

/// The client of one switch.
pub(super) struct Device {
    agent: Arc<str>,
    dialer: Dialer,
    election: Election,
    wanted: watch::Receiver<Wanted>,
    status: watch::Sender<AgentStatus>,
    counted: Counted,
    written: Written,
    /// From the first look of a session to the second.
    second_look: Duration,
}

/// What this client left at the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// Nothing that it knows of; whoever led before may have written.
    Unknown,
    /// Entries that this client wrote, or the leader before it.
    Something,
    /// It read that nothing is there.
    Nothing,
}

/// Why a session ended.
enum Ended {
    /// The switch knows a higher election id.
    Outranked(Election),
    /// There is no connection to the server.
    Unreached(String),
    /// The connection or the session failed.
    Lost(String),
    /// Nothing is to be installed, and the switch says that nothing is.
    Emptied,
    /// Nobody wants anything any more.
    Unwanted,
}

impl Device {
    pub(super) fn new(
        agent: Arc<str>,
        dialer: Dialer,
        election: Election,
        wanted: watch::Receiver<Wanted>,
        status: watch::Sender<AgentStatus>,
        counted: Counted,
        touched: bool,
    ) -> Self {
        let written = if touched {
            Written::Something
        } else {
            Written::Unknown
        };
        Self {
            second_look: second_look(&agent),
            agent,
            dialer,
            election,
            wanted,
            status,
            counted,
            written,
        }
    }

    /// Sessions one after another, as the mode asks for, until the task is aborted.
    pub(super) async fn run(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            if let Some(state) = self.resting() {
                self.rest(state);
                if self.wanted.changed().await.is_err() {
                    return;
                }
                pause = PAUSE_MIN;
                continue;
            }
            let last_ack = self.status.borrow().last_ack;
            let ended = self.session().await;
            let good = {
                let status = self.status.borrow();
                status.state == AgentState::InSync || status.last_ack != last_ack
            };
            if good {
                pause = PAUSE_MIN;
            }
            let hold = self.wanted.borrow().hold;
            let waited = match ended {
                Ended::Emptied => {
                    self.written = Written::Nothing;
                    continue;
                }
                Ended::Unwanted => return,
                Ended::Outranked(by) => {
                    self.outranked(by);
                    self.wait(OUTRANKED_PAUSE).await
                }
                Ended::Unreached(why) => self.retry(why, UNREACHED, &mut pause).await,
                Ended::Lost(why) => self.retry(why, UNOPENED, &mut pause).await,
            };
            if waited.is_err() {
                return;
            }
            if hold && !self.wanted.borrow().hold {
                pause = PAUSE_MIN;
            }
        }
    }

    /// The state in which the mode needs no session.
    fn resting(&mut self) -> Option<AgentState> {
        let mode = self.wanted.borrow_and_update().mode;
        match (mode, self.written) {
            (Mode::Shadow, Written::Unknown | Written::Nothing) => Some(AgentState::Shadow),
            (Mode::Off, Written::Nothing) => Some(AgentState::Off),
            (Mode::Shadow, Written::Something)
            | (Mode::Off, Written::Unknown | Written::Something)
            | (Mode::On, _) => None,
        }
    }

    fn rest(&self, state: AgentState) {
        self.status.send_modify(|status| {
            *status = AgentStatus {
                last_ack: status.last_ack,
                ..AgentStatus::new(
                    status.switch.clone(),
                    status.address.clone(),
                    status.mode,
                    state,
                )
            };
        });
    }

    /// Waits, or until the mode changes, or what was on hold is not any more.
    async fn wait(&mut self, pause: Duration) -> Result<(), watch::error::RecvError> {
        let (mode, hold) = {
            let wanted = self.wanted.borrow();
            (wanted.mode, wanted.hold)
        };
        let is_other = |wanted: &Wanted| wanted.mode != mode || (hold && !wanted.hold);
        let changed = self.wanted.wait_for(is_other);
        match timeout(pause, changed).await {
            Ok(Err(closed)) => Err(closed),
            Ok(Ok(_)) | Err(_) => Ok(()),
        }
    }

    /// Says why there is no session, and waits; longer the next time.
    async fn retry(
        &mut self,
        why: String,
        unopened: &'static str,
        pause: &mut Duration,
    ) -> Result<(), watch::error::RecvError> {
        self.lost(why, unopened);
        let waited = self.wait(*pause).await;
        *pause = (*pause * 2).min(PAUSE_MAX);
        waited
    }

    fn lost(&self, why: String, unopened: &'static str) {
        let news = news(&self.status.borrow(), &why, unopened);
        if let Some(news) = news {
            tracing::warn!(agent = %self.agent, error = %why, "{news}");
        }
        self.status.send_modify(|status| {
            status.state = AgentState::Unreachable;
            status.is_up = false;
            status.last_error = why;
        });
    }

    /// Never answered with a higher id of ours: two controllers must not chase each other. A switch forgets an id whose
    /// holder is silent past its lease, and so ours is tried again.
    fn outranked(&self, by: Election) {
        let state = if by.incarnation > self.election.incarnation {
            AgentState::ForeignController
        } else {
            AgentState::Deposed
        };
        let own = self.election;
        if self.status.borrow().state != state {
            tracing::error!(agent = %self.agent, %own, %by, "a switch obeys another writer");
        }
        self.status.send_modify(|status| {
            status.state = state;
            status.is_up = false;
            status.pending = 0;
            status.last_error = format!("the switch obeys {by}, this is {own}");
        });
    }

    async fn session(&mut self) -> Ended {
        // A switch that obeys another writer is shown as that until it obeys this one.
        let state = self.status.borrow().state;
        if !matches!(state, AgentState::Deposed | AgentState::ForeignController) {
            let state = self.working(AgentState::Connecting);
            self.status.send_modify(|status| {
                status.state = state;
                status.is_up = false;
            });
        }
        let connecting = timeout(ANSWER_MAX, self.dialer.open(self.agent.clone()));
        let line = match connecting.await {
            Ok(Ok(line)) => line,
            Ok(Err(why)) => return Ended::Unreached(why),
            Err(_) => return Ended::Unreached("no answer to the connection".to_owned()),
        };
        match Stream::open(line.clone(), self.election).await {
            Ok(stream) => Session::new(self, line, stream).run().await,
            Err(ended) => ended,
        }
    }

    /// The state of work in progress: towards the plan, or towards nothing.
    fn working(&self, state: AgentState) -> AgentState {
        match self.wanted.borrow().mode {
            Mode::On => state,
            Mode::Off | Mode::Shadow => AgentState::TurningOff,
        }
    }
}

/// A time of each server's own, from half of the time between two looks to one and a half of it.
fn second_look(agent: &str) -> Duration {
    let mut hasher = DefaultHasher::new();
    agent.hash(&mut hasher);
    LOOK_EVERY / 2 + LOOK_EVERY.mul_f64((hasher.finish() % 1_000) as f64 / 1_000.0)
}

/// What is logged of an attempt or a session that failed; None: it was logged when it failed in the same way before.
fn news(before: &AgentStatus, why: &str, unopened: &'static str) -> Option<&'static str> {
    match before.is_up {
        true => Some("gRIBI session lost"),
        false if before.last_error == why => None,
        false => Some(unopened),
    }
}

/// What is logged where there is no connection.
const UNREACHED: &str = "cannot reach the gRIBI server";
/// What is logged where a server takes the connection, and no session follows.
const UNOPENED: &str = "no gRIBI session with the server";

/// Between attempts: doubled from the first to the second.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Between attempts at a switch that obeys another writer: weft-agent forgets a silent one after as long.
const OUTRANKED_PAUSE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_that_are_connected_to_at_once_are_read_apart() {
        let mut seconds = [0_u32; 15];
        for number in 0..512 {
            let after = second_look(&format!("192.0.2.{}:{number}", number % 250));
            seconds[after.as_secs() as usize] += 1;
        }
        assert_eq!(seconds[..5], [0; 5]);
        assert!(seconds[5..].iter().all(|count| (25..80).contains(count)));
    }

    #[test]
    fn only_a_session_that_was_there_is_lost_and_a_failure_is_logged_once() {
        let address = "192.0.2.1:9340".into();
        let mut status =
            AgentStatus::new("leaf1".into(), address, Mode::On, AgentState::Connecting);
        let refused = "no connection: connection refused";
        assert_eq!(news(&status, refused, UNREACHED), Some(UNREACHED));
        status.last_error = refused.to_owned();
        assert_eq!(news(&status, refused, UNREACHED), None);
        let unopened = "the stream was closed";
        assert_eq!(news(&status, unopened, UNOPENED), Some(UNOPENED));
        status.is_up = true;
        assert_eq!(
            news(&status, refused, UNREACHED),
            Some("gRIBI session lost")
        );
    }
}
