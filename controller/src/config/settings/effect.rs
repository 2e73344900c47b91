//! What a changed value costs, and who has to hear of it. Knows no value.

use std::fmt;

/// When a changed value holds, the mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// At once; every session goes on.
    Applied,
    /// From the next session of the peer on; the one that is up goes on.
    NextSession,
    /// At once, and the session of the peer ends for it and begins again.
    SessionReset,
    /// When weftd is started again.
    NeedsRestart,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Applied => "applied",
            Self::NextSession => "next session",
            Self::SessionReset => "session reset",
            Self::NeedsRestart => "needs restart",
        })
    }
}

/// Who must be told that a value changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// Nobody: it is read when it is needed.
    Reader,
    /// The session's administration: whether it may be up at all.
    Administration,
    /// The session and its capabilities.
    Session,
    /// The keys of TCP-MD5 and TCP-AO, of listeners too.
    Key,
    /// BFD.
    Watch,
    /// Whether the peer is told only of what it asks for.
    Interest,
    /// What the peer is told.
    Export,
    /// What is learned from the peer.
    Inbound,
    /// How reflection treats the peer: what it is told, and what others are told of its paths.
    Kind,
}
