//! The session of one peer: RFC 4271 §8 without sockets and clocks. Inputs and the time go in,
//! outputs and one deadline come out. It refuses to know octets, addresses, routes and how a
//! connection is made; the UPDATEs that we send do not pass through it.
//!
//! ```text
//!            Start                dial fails / retry due
//!   Idle ───────────► Connect ◄───────────────────────────► Active      passive: Start leads here,
//!    ▲ idle hold         │ connected                           │        and nothing dials
//!    │ is over           ▼                           connected ▼
//!    ├─ peer dials ─► OpenSent ◄───────────────────────────────┘        our OPEN is out
//!    │                   │ OPEN
//!    │                   ▼
//!    ├─────────────── OpenConfirm                                       + what both sides hold
//!    │ any fault,        │ KEEPALIVE
//!    │ Stop, loss        ▼
//!    └─────────────── Established                                       + hold, keepalive, send hold
//! ```
//!
//! There are at most two connections, one that we dialed and one that the peer dialed. In OpenSent
//! and OpenConfirm the second is the *rival* of the first; RFC 4271 §6.8 decides when both have got
//! an OPEN. A rival never shows in the name of the state.
//!
//! Where we depart from the letter of the RFCs:
//!
//! - A failed dial leads to Active, not to Idle (RFC 4271 §8.2.2), so that the peer can still reach
//!   us; the next dial is due when the connect-retry timer runs out.
//! - A connection that ends before it got an OPEN, by loss or by Cease/5 or Cease/7, leads to Active
//!   too. Two speakers that refuse each other while idle would otherwise never meet.
//! - A failed session is Idle for 0.5 s, doubled by each failure up to 16 s and shortened by up to a
//!   quarter (RFC 4271 §8.1 leaves the amount open). A minute in Established forgives the failures.
//!   Meanwhile we do not dial. A peer that dials is ready: its connection is taken, though §8.2.2 refuses
//!   it, ten times in a row and then once each six seconds.
//! - A connection that the collision rule dooms is not established by its KEEPALIVE while its rival
//!   is open, but when the rival has gone, an UPDATE shows that the peer chose it, or 5 s have
//!   passed. Otherwise the KEEPALIVE here and the OPEN there race, and both connections can die.
//! - KEEPALIVEs are sent without jitter (RFC 4271 §10): sessions start at jittered times already.
//! - A new connection replaces an Established one if the peer negotiated graceful restart (RFC 4724
//!   §5), and only if the peer dialed it 5 s or more after the session began: before that it is a
//!   latecomer of a collision. The edge waits for the OPEN of the same peer on it before it tells of
//!   it, since who can only connect should not be able to end a session.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;

use crate::capability::AddPathSet;
use crate::error::DecodeError;
use crate::message::notification::Cease;
use crate::message::{DecodeContext, Message, Notification, RouteRefresh, Update};
use crate::peer::PeerId;

use self::state::State;
use self::timers::IdleHold;

pub use self::config::{RemoteAsn, SessionConfig};
pub use self::down::DownReason;
pub use self::negotiation::Negotiated;
pub use self::reconfigure::Effect;

mod collision;
mod config;
mod down;
mod established;
mod negotiation;
mod open_confirm;
mod open_sent;
mod reconfigure;
mod state;
mod timers;

/// Which of the at most two connections of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// We dialed.
    Outgoing,
    /// The peer dialed.
    Incoming,
}

impl Side {
    /// The side that this one is not.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Outgoing => Self::Incoming,
            Self::Incoming => Self::Outgoing,
        }
    }
}

/// What can happen to a session. An input that makes no sense in a state, such as a message of a
/// connection that was closed meanwhile, changes nothing.
#[derive(Clone, Debug)]
pub enum Input {
    /// Begin, or end an idle hold early. ManualStart and AutomaticStart of RFC 4271 §8.1.2.
    Start,
    /// The dial succeeded, or a connection of the peer was accepted. One that was accepted while there is
    /// another of its side is refused, or the other one is closed first.
    Connected(Side),
    /// The dial that [`Output::Connect`] asked for failed.
    ConnectFailed,
    /// The connection ended by the peer or the network; nothing of it remains to be closed.
    Disconnected(Side),
    /// A message was decoded.
    Message(Side, Message),
    /// Octets that are no message, or an UPDATE whose fault is not healed by RFC 7606; and the whole message with its
    /// header, which is empty where nobody has it.
    Malformed(Side, DecodeError, Bytes),
    /// The deadline of [`Session::poll_timeout`] has come.
    Timeout,
    /// End, and stay Idle until the next `Start`. RFC 4486. A Hard Reset is said to a peer that keeps
    /// routes over a NOTIFICATION; to others it is a shutdown (RFC 8538 §3).
    Stop(Cease),
    /// As `Stop`, with a text for the operator at the other end, at most 255 octets of which are
    /// sent. RFC 9003; only with Administrative Shutdown, Administrative Reset and Hard Reset.
    StopSaying(Cease, String),
    /// Begin a new session, for capabilities that have changed: close the established one without a NOTIFICATION, as a
    /// restart would, and dial at once. Nothing happens in other states, whose OPEN says them anyway.
    Renew,
    /// The established connection took octets; nothing waits, or some progress was made. RFC 9687.
    Sent,
    /// The established connection takes no octets although some wait. RFC 9687.
    SendBlocked,
}

/// What the edge has to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Dial the peer. At most one dial is under way.
    Connect,
    /// Write a message.
    Send(Side, Message),
    /// Write out what was sent before, for a short while at most, and close. A dial that is under
    /// way is given up. Nothing of this connection may be reported afterwards. If another of its side
    /// has just been announced, that one takes its place.
    Close(Side),
    /// The session is up, on this connection.
    Established(Side, Negotiated),
    /// An UPDATE of the established session, End-of-RIB included. Families are not checked here.
    Learn(Box<Update>),
    /// The peer asks for a negotiated family again (RFC 2918), or marks the begin or end of its own
    /// answer (RFC 7313).
    Refresh(RouteRefresh),
    /// The session fell to Idle from any other state, also if it was never established. All its
    /// connections are closed. It starts again by itself, unless it was stopped: after
    /// [`DownReason::Replaced`] at once, with the connection that was announced last.
    Down(DownReason),
    /// Close the connection that the last `Connected` of this side announced, after writing the message
    /// of [`Session::refusal`]. A connection that the session already holds on this side goes on.
    Refuse(Side),
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another connection goes before it. RFC 4271 §6.8.
    Collision,
    /// The session failed, and the peer has connected too often since.
    TooOften {
        /// When a connection is taken again.
        until: Option<Instant>,
    },
    /// The session is stopped.
    Stopped,
}

impl Refusal {
    /// The message to the peer. RFC 4271 §6.8, RFC 4486 §4.
    #[must_use]
    pub fn notification(self) -> Notification {
        Notification::cease(match self {
            Self::Collision => Cease::Collision,
            Self::TooOften { .. } | Self::Stopped => Cease::Rejected,
        })
    }
}

/// The state machine of one peer.
#[derive(Debug)]
pub struct Session {
    state: State,
    local: Local,
}

/// What does not depend on the state.
#[derive(Debug)]
struct Local {
    config: SessionConfig,
    idle_hold: IdleHold,
    outputs: VecDeque<Output>,
}

impl Session {
    /// A stopped session.
    ///
    /// # Panics
    ///
    /// If the configuration breaks the bounds that [`SessionConfig`] states.
    #[must_use]
    pub fn new(config: SessionConfig) -> Self {
        config.assert_bounds();
        let idle_hold = IdleHold::new(config.delay_jitter_seed);
        Self {
            state: State::stopped(),
            local: Local {
                config,
                idle_hold,
                outputs: VecDeque::new(),
            },
        }
    }

    /// Takes one input. The outputs must be polled until there are none before the next input.
    pub fn handle(&mut self, input: Input, now: Instant) {
        let state = std::mem::replace(&mut self.state, State::stopped());
        self.state = state.handle(input, now, &mut self.local);
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.local.outputs.pop_front()
    }

    /// When [`Input::Timeout`] is due; `None` if only another input can change something.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.state.deadline().at()
    }

    /// Idle, Connect, Active, OpenSent, OpenConfirm or Established: the further of two connections.
    #[must_use]
    pub fn state_name(&self) -> &'static str {
        self.state.name()
    }

    /// How to decode what comes next on a connection, and the longest message (in octets) to accept.
    /// It changes with the OPEN, so ask again for each message.
    #[must_use]
    pub fn decode_context(&self, side: Side) -> (DecodeContext, u16) {
        self.state
            .negotiated(side)
            .map_or((BEFORE_OPEN, MAX_LEN), |negotiated| {
                (negotiated.decode, negotiated.max_len)
            })
    }

    /// What both sides hold, once Established.
    #[must_use]
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.state.established()
    }

    /// Returns why a connection that [`Output::Refuse`] names is refused.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        self.state.refusal(&self.local.idle_hold)
    }

    /// Returns the time before which a failed session does not dial; `None` if it is not held.
    #[must_use]
    pub fn held_until(&self) -> Option<Instant> {
        self.state.held_until()
    }

    /// How it was configured.
    #[must_use]
    pub fn config(&self) -> &SessionConfig {
        &self.local.config
    }
}

impl Local {
    fn emit(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    fn send(&mut self, side: Side, message: Message) {
        self.emit(Output::Send(side, message));
    }

    fn close(&mut self, side: Side) {
        self.emit(Output::Close(side));
    }

    fn close_with(&mut self, side: Side, notification: Notification) {
        self.send(side, Message::Notification(notification));
        self.close(side);
    }

    fn id(&self) -> PeerId {
        PeerId {
            router_id: self.config.router_id,
            asn: self.config.local_asn,
        }
    }
}

/// Before the OPEN nothing is negotiated, and no UPDATE is due.
const BEFORE_OPEN: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: false,
    extended_message: false,
    add_path: AddPathSet::NONE,
};

/// RFC 4271 §4.1, in octets.
const MAX_LEN: u16 = 4096;

/// RFC 8654 §3, in octets.
const MAX_LEN_EXTENDED: u16 = 65_535;
