//! Control packets: octets to values and back, and the checks of RFC 5880 §6.8.6 that need no session.
//! It refuses to know addresses, sessions and time.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-----+---------+---+-+-+-+-+-+-+---------------+---------------+
//! |Vers |  Diag   |Sta|P|F|C|A|D|M|  Detect Mult  |    Length     |
//! +-----+---------+---+-+-+-+-+-+-+---------------+---------------+
//! |                       My Discriminator                        |
//! |                      Your Discriminator                       |
//! |                    Desired Min TX Interval                    | microseconds
//! |                   Required Min RX Interval                    | microseconds
//! |                 Required Min Echo RX Interval                 | microseconds
//! +---------------------------------------------------------------+
//! ```

use std::fmt;
use std::num::{NonZeroU8, NonZeroU32};
use std::time::Duration;

/// What one system calls a session; never zero on its own packets. RFC 5880 §6.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Discriminator(pub NonZeroU32);

/// The state of a session at one end. RFC 5880 §6.2; by its number in a packet, §4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// 0: the operator holds the session down, which says nothing of the path.
    AdminDown,
    /// 1: nothing is heard, or the other end just said Down.
    Down,
    /// 2: the other end is heard, and may not hear us.
    Init,
    /// 3: both ends hear each other.
    Up,
}

/// Why a session left Up the last time. RFC 5880 §4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diagnostic {
    /// 0.
    None,
    /// 1: nothing came for the detection time.
    DetectionTimeExpired,
    /// 2.
    EchoFailed,
    /// 3: the other end says that it is Down or AdminDown.
    NeighborSignaledDown,
    /// 4.
    ForwardingPlaneReset,
    /// 5.
    PathDown,
    /// 6.
    ConcatenatedPathDown,
    /// 7: the operator wants it so.
    AdministrativelyDown,
    /// 8.
    ReverseConcatenatedPathDown,
    /// 9 to 31, which RFC 5880 reserves.
    Unknown(u8),
}

/// A control packet that can be of a session, without an authentication section. RFC 5880 §4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The sender's reason.
    pub diagnostic: Diagnostic,
    /// The sender's state.
    pub state: State,
    /// The sender wants an answer with the final bit.
    pub poll: bool,
    /// An answer to the poll bit.
    pub final_bit: bool,
    /// The sender's BFD does not share fate with its control plane.
    pub control_plane_independent: bool,
    /// The sender wishes no periodic packets while both are Up.
    pub demand: bool,
    /// Packets that may be missing until the sender is taken for dead.
    pub multiplier: NonZeroU8,
    /// The sender's name of the session.
    pub mine: Discriminator,
    /// The receiver's name of it; `None` if the sender has not learned it.
    pub yours: Option<Discriminator>,
    /// The least time between packets that the sender wishes to send.
    pub desired_min_tx: Interval,
    /// The least time between packets that the sender can receive; zero for none at all.
    pub required_min_rx: Interval,
    /// As `required_min_rx`, for echo packets; zero if it does not do that.
    pub required_min_echo_rx: Interval,
}

/// A time on the wire, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval(pub u32);

/// Why octets are dropped. RFC 5880 §6.8.6, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Fewer octets than the shortest packet.
    #[error("packet shorter than 24 octets")]
    Short,
    /// Not version 1.
    #[error("version {0}, expected 1")]
    Version(u8),
    /// Its length is below that of the shortest packet (24, or 26 octets with authentication).
    #[error("length {0} below the least")]
    LengthBelowLeast(u8),
    /// Its length is above what came.
    #[error("length {0} beyond the datagram")]
    LengthBeyondDatagram(u8),
    /// Nothing could ever be missing.
    #[error("detect multiplier 0")]
    Multiplier,
    /// Meant for point to multipoint.
    #[error("multipoint bit set")]
    Multipoint,
    /// The sender does not name its session.
    #[error("my discriminator 0")]
    MyDiscriminator,
    /// It answers nothing, in a state that only an answer can have.
    #[error("your discriminator 0 in state {0:?}")]
    YourDiscriminator(State),
    /// It is authenticated, and we are not.
    #[error("authentication section not expected")]
    Authenticated,
}

impl Packet {
    /// The octets of a packet that we send or receive. A session must still be found for it.
    ///
    /// # Errors
    ///
    /// The first check of RFC 5880 §6.8.6 that fails. To set both the poll and the final bit is
    /// forbidden (§6.5), but no reason to drop a packet.
    pub fn decode(octets: &[u8]) -> Result<Self, Fault> {
        let Some((fixed, _)) = octets.split_first_chunk::<LEN>() else {
            return Err(Fault::Short);
        };
        let &[first, second, multiplier, length, ref words @ ..] = fixed;
        check_envelope(first, second, length, octets.len())?;
        let multiplier = NonZeroU8::new(multiplier).ok_or(Fault::Multiplier)?;
        if second & MULTIPOINT != 0 {
            return Err(Fault::Multipoint);
        }
        let (words, _) = words.as_chunks::<4>();
        let &[mine, yours, tx, rx, echo_rx] = words else {
            return Err(Fault::Short);
        };
        let mine = Discriminator::from_octets(mine).ok_or(Fault::MyDiscriminator)?;
        let yours = Discriminator::from_octets(yours);
        let state = State::from_bits(second >> 6);
        if yours.is_none() && matches!(state, State::Init | State::Up) {
            return Err(Fault::YourDiscriminator(state));
        }
        if second & AUTHENTICATED != 0 {
            return Err(Fault::Authenticated);
        }
        Ok(Self {
            diagnostic: Diagnostic::from_code(first & DIAGNOSTIC),
            state,
            poll: second & POLL != 0,
            final_bit: second & FINAL != 0,
            control_plane_independent: second & CONTROL_PLANE_INDEPENDENT != 0,
            demand: second & DEMAND != 0,
            multiplier,
            mine,
            yours,
            desired_min_tx: Interval(u32::from_be_bytes(tx)),
            required_min_rx: Interval(u32::from_be_bytes(rx)),
            required_min_echo_rx: Interval(u32::from_be_bytes(echo_rx)),
        })
    }

    /// The octets to send.
    #[must_use]
    pub fn encode(&self) -> [u8; LEN] {
        let mut octets = [0; LEN];
        let (head, words) = octets.split_at_mut(4);
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let second = (self.state.bits() << 6)
            | bit(self.poll, POLL)
            | bit(self.final_bit, FINAL)
            | bit(self.control_plane_independent, CONTROL_PLANE_INDEPENDENT)
            | bit(self.demand, DEMAND);
        let first = (VERSION << 5) | (self.diagnostic.code() & DIAGNOSTIC);
        head.copy_from_slice(&[first, second, self.multiplier.get(), LEN_OCTET]);
        let yours = self.yours.map_or(0, |yours| yours.0.get());
        let values = [
            self.mine.0.get(),
            yours,
            self.desired_min_tx.0,
            self.required_min_rx.0,
            self.required_min_echo_rx.0,
        ];
        for (word, value) in words.as_chunks_mut::<4>().0.iter_mut().zip(values) {
            *word = value.to_be_bytes();
        }
        octets
    }
}

/// Version and length, before anything else counts.
fn check_envelope(first: u8, second: u8, length: u8, received: usize) -> Result<(), Fault> {
    let version = first >> 5;
    if version != VERSION {
        return Err(Fault::Version(version));
    }
    let least = if second & AUTHENTICATED == 0 {
        LEN_OCTET
    } else {
        LEN_AUTHENTICATED
    };
    if length < least {
        return Err(Fault::LengthBelowLeast(length));
    }
    if usize::from(length) > received {
        return Err(Fault::LengthBeyondDatagram(length));
    }
    Ok(())
}

impl Discriminator {
    fn from_octets(octets: [u8; 4]) -> Option<Self> {
        NonZeroU32::new(u32::from_be_bytes(octets)).map(Self)
    }
}

impl fmt::Display for Discriminator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl State {
    fn from_bits(bits: u8) -> Self {
        match bits & 0x03 {
            0 => Self::AdminDown,
            1 => Self::Down,
            2 => Self::Init,
            _ => Self::Up,
        }
    }

    fn bits(self) -> u8 {
        match self {
            Self::AdminDown => 0,
            Self::Down => 1,
            Self::Init => 2,
            Self::Up => 3,
        }
    }
}

impl Diagnostic {
    /// By its number, of which the lower five bits count.
    #[must_use]
    pub fn from_code(code: u8) -> Self {
        match code & DIAGNOSTIC {
            0 => Self::None,
            1 => Self::DetectionTimeExpired,
            2 => Self::EchoFailed,
            3 => Self::NeighborSignaledDown,
            4 => Self::ForwardingPlaneReset,
            5 => Self::PathDown,
            6 => Self::ConcatenatedPathDown,
            7 => Self::AdministrativelyDown,
            8 => Self::ReverseConcatenatedPathDown,
            code => Self::Unknown(code),
        }
    }

    /// Its number. RFC 5880 §4.1.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::DetectionTimeExpired => 1,
            Self::EchoFailed => 2,
            Self::NeighborSignaledDown => 3,
            Self::ForwardingPlaneReset => 4,
            Self::PathDown => 5,
            Self::ConcatenatedPathDown => 6,
            Self::AdministrativelyDown => 7,
            Self::ReverseConcatenatedPathDown => 8,
            Self::Unknown(code) => code,
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::DetectionTimeExpired => "control detection time expired",
            Self::EchoFailed => "echo function failed",
            Self::NeighborSignaledDown => "neighbor signaled session down",
            Self::ForwardingPlaneReset => "forwarding plane reset",
            Self::PathDown => "path down",
            Self::ConcatenatedPathDown => "concatenated path down",
            Self::AdministrativelyDown => "administratively down",
            Self::ReverseConcatenatedPathDown => "reverse concatenated path down",
            Self::Unknown(code) => return write!(f, "diagnostic {code}"),
        })
    }
}

impl Interval {
    /// The same as a duration.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_micros(self.0.into())
    }

    /// Whole microseconds of a duration, the most that fit if it is longer than 71 minutes.
    #[must_use]
    pub fn of(duration: Duration) -> Self {
        Self(u32::try_from(duration.as_micros()).unwrap_or(u32::MAX))
    }
}

/// The octets of a packet without authentication. RFC 5880 §4.1.
pub const LEN: usize = 24;

const LEN_OCTET: u8 = 24;
/// With an authentication section of two octets, the shortest. RFC 5880 §6.8.6.
const LEN_AUTHENTICATED: u8 = 26;
const VERSION: u8 = 1;
const DIAGNOSTIC: u8 = 0x1f;
const POLL: u8 = 0x20;
const FINAL: u8 = 0x10;
const CONTROL_PLANE_INDEPENDENT: u8 = 0x08;
const AUTHENTICATED: u8 = 0x04;
const DEMAND: u8 = 0x02;
const MULTIPOINT: u8 = 0x01;

#[cfg(test)]
mod tests;
