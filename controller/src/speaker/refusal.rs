//! Connections that are refused: the message to the other end, how many there were by reason, and a line in the log now and
//! then. Knows sockets and reasons; the speaker and its peers decide.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::net::Shutdown;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::Instant;
use weft_bgp::capability::AddPathSet;
use weft_bgp::message::notification::Cease;
use weft_bgp::message::{DecodeContext, Message, Notification};

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Nobody may speak from its address.
    Stranger,
    /// The group of its address is shut down.
    Shutdown,
    /// As many dynamic peers are served as may be.
    NoRoom,
    /// The addresses of its /64 have half of the places of dynamic peers.
    Source,
    /// A dynamic peer that needed its place for nothing gave way to another.
    GaveWay,
    /// The task of the peer has other connections to look at.
    Busy,
    /// Another connection of the peer goes before it. RFC 4271 §6.8.
    Collision,
    /// A session of another BGP identifier is up at its address.
    OtherIdentifier,
    /// Its first message is no OPEN, or comes too late, while a session is up or places are scarce.
    NoOpen,
    /// The sessions of the peer fail, and it connects too often.
    TooOften,
    /// The session of the peer is stopped for a while, or by an operator.
    Stopped,
    /// The key that signs it cannot be read, or is not taken.
    Unsigned,
}

impl Reason {
    /// As a label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Stranger => "no peer has this address",
            Self::Shutdown => "shut down",
            Self::NoRoom => "too many dynamic peers",
            Self::Source => "too many dynamic peers of its address",
            Self::GaveWay => "gave way to another peer",
            Self::Busy => "task of the peer busy",
            Self::Collision => "another connection goes before it",
            Self::OtherIdentifier => "session of another BGP identifier",
            Self::NoOpen => "no OPEN in time",
            Self::TooOften => "sessions fail too often",
            Self::Stopped => "session stopped",
            Self::Unsigned => "cannot be signed",
        }
    }

    /// The subcode to the other end. RFC 4271 §6.8, RFC 4486 §4.
    pub fn cease(self) -> Cease {
        match self {
            Self::Collision | Self::OtherIdentifier | Self::NoOpen => Cease::Collision,
            Self::Stranger
            | Self::Shutdown
            | Self::NoRoom
            | Self::Source
            | Self::GaveWay
            | Self::Busy
            | Self::TooOften
            | Self::Stopped
            | Self::Unsigned => Cease::Rejected,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// Refused connections by reason.
#[derive(Clone, Debug, Default)]
pub struct Refusals(BTreeMap<Reason, Count>);

#[derive(Clone, Debug, Default)]
struct Count {
    total: u64,
    logged_at: Option<Instant>,
    unlogged: u64,
}

impl Refusals {
    /// Counts a connection. Returns how many of its reason were not logged before it, if it is to be logged: whoever
    /// connects again and again must not fill the log.
    pub fn note(&mut self, reason: Reason, now: Instant) -> Option<u64> {
        let count = self.0.entry(reason).or_default();
        count.total += 1;
        if count.logged_at.is_some_and(|at| now < at + LOG_PAUSE) {
            count.unlogged += 1;
            return None;
        }
        count.logged_at = Some(now);
        Some(std::mem::take(&mut count.unlogged))
    }

    /// Labels and numbers.
    pub fn totals(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counts = self.0.iter();
        counts.map(|(reason, count)| (reason.label(), count.total))
    }
}

/// Sends a Cease on a connection that no session takes, without waiting; the caller closes it.
pub fn reject(stream: &TcpStream, cease: Cease) {
    let socket = SockRef::from(stream);
    let octets = Message::Notification(Notification::cease(cease)).encode(&BEFORE_OPEN);
    // A new connection has room for it. One that has not, or is gone, hears nothing.
    let _ = socket.send(&octets);
    // Unread octets turn the close into a reset, which may overtake the message.
    let _ = (&*socket).read(&mut [0; OPEN_OCTETS]);
    let _ = socket.shutdown(Shutdown::Write);
}

/// Nothing is negotiated, and a NOTIFICATION needs nothing of it.
const BEFORE_OPEN: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: false,
    extended_message: false,
    add_path: AddPathSet::NONE,
};
/// More than an OPEN has, in practice.
const OPEN_OCTETS: usize = 4096;
/// Between two lines of the log for one reason.
const LOG_PAUSE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_a_line_each_ten_seconds_for_each_reason() {
        let (mut refusals, begin) = (Refusals::default(), Instant::now());
        let mut at = |secs, reason| refusals.note(reason, begin + Duration::from_secs(secs));
        assert_eq!(at(0, Reason::Stranger), Some(0));
        assert_eq!(at(1, Reason::Stranger), None);
        assert_eq!(at(1, Reason::Busy), Some(0));
        assert_eq!(at(9, Reason::Stranger), None);
        assert_eq!(at(10, Reason::Stranger), Some(2));
        assert_eq!(at(20, Reason::Stranger), Some(0));
        let totals: Vec<_> = refusals.totals().collect();
        let expected = [(Reason::Stranger.label(), 5), (Reason::Busy.label(), 1)];
        assert_eq!(totals, expected);
    }
}
