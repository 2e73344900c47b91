//! BGP4MP_ET: messages and state changes in the order in which they came, with microseconds. It refuses
//! to know what the messages say.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::io::Write;
use std::net::IpAddr;

use weft_bgp::message::MessageKind;
use weft_bgp::wire::Writer;

use super::{Error, address, record};
use crate::bmp::{NotFramed, framed};
use crate::timestamp::Timestamp;

/// Between whom. RFC 6396 §4.4.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    /// The peer's AS number, four octets.
    pub peer_asn: u32,
    /// Ours.
    pub local_asn: u32,
    /// Index of the interface, 0 if it does not matter.
    pub interface: u16,
    /// The peer's address.
    pub peer_address: IpAddr,
    /// Ours; of the same kind.
    pub local_address: IpAddr,
    /// AS_PATH has two-octet numbers on this session. RFC 6793.
    pub two_octet_as: bool,
    /// NLRI have path identifiers on this session. A record cannot say for which families. RFC 8050 §3.
    pub add_path: bool,
}

/// Who said it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The peer.
    Received,
    /// We (subtypes LOCAL).
    Sent,
}

/// States of a session. RFC 4271 §8.2.2, numbered as in RFC 6396 §4.4.1.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum FsmState {
    /// 1.
    Idle,
    /// 2.
    Connect,
    /// 3.
    Active,
    /// 4.
    OpenSent,
    /// 5.
    OpenConfirm,
    /// 6.
    Established,
}

/// Writes a log, record by record, and keeps none of it.
///
/// ```text
/// micros (4), peer AS (2, 4), local AS (2, 4), interface (2), AFI (2),
/// peer address (4, 16), local address (4, 16), message or old state (2) and new state (2)
/// ```
#[derive(Debug)]
pub struct UpdateLog<W> {
    out: W,
    body: Writer,
}

impl<W: Write> UpdateLog<W> {
    /// A log without records. A log has no beginning of its own: it may go on where another stopped.
    pub fn new(out: W) -> Self {
        Self {
            out,
            body: Writer::new(),
        }
    }

    /// Writes one BGP message of any kind, header included.
    ///
    /// # Errors
    /// [`Error::NotFramed`], [`Error::Io`].
    pub fn message(
        &mut self,
        time: Timestamp,
        session: &Session,
        direction: Direction,
        message: &[u8],
    ) -> Result<(), Error> {
        whole(message)?;
        let subtype: u16 = match (direction, session.add_path) {
            (Direction::Received, false) if session.two_octet_as => 1,
            (Direction::Received, false) => 4,
            (Direction::Sent, false) => 6 | u16::from(!session.two_octet_as),
            (Direction::Received, true) => 8 | u16::from(!session.two_octet_as),
            (Direction::Sent, true) => 10 | u16::from(!session.two_octet_as),
        };
        self.head(time, session, session.two_octet_as);
        self.body.slice(message);
        self.write(time, subtype)
    }

    /// Writes that a session went from one state to another.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn state_change(
        &mut self,
        time: Timestamp,
        session: &Session,
        old: FsmState,
        new: FsmState,
    ) -> Result<(), Error> {
        self.head(time, session, false);
        self.body.u16(old.code());
        self.body.u16(new.code());
        self.write(time, STATE_CHANGE_AS4)
    }

    /// Flushes, and gives the writer back.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self) -> Result<W, Error> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn head(&mut self, time: Timestamp, session: &Session, two_octet_as: bool) {
        let body = &mut self.body;
        body.u32(time.micros);
        for asn in [session.peer_asn, session.local_asn] {
            if two_octet_as {
                body.u16(u16::try_from(asn).unwrap_or(AS_TRANS));
            } else {
                body.u32(asn);
            }
        }
        body.u16(session.interface);
        let ends = [session.peer_address, session.local_address];
        let afi = if ends.iter().all(IpAddr::is_ipv4) {
            1
        } else {
            2
        };
        body.u16(afi);
        for end in ends {
            match end {
                // One AFI stands for both.
                IpAddr::V4(end) if afi == 2 => address(body, end.to_ipv6_mapped().into()),
                IpAddr::V4(_) | IpAddr::V6(_) => address(body, end),
            }
        }
    }

    fn write(&mut self, time: Timestamp, subtype: u16) -> Result<(), Error> {
        let body = self.body.as_slice();
        let written = record(&mut self.out, time.secs, (BGP4MP_ET, subtype), body);
        self.body.truncate(0);
        written
    }
}

impl FsmState {
    fn code(self) -> u16 {
        match self {
            Self::Idle => 1,
            Self::Connect => 2,
            Self::Active => 3,
            Self::OpenSent => 4,
            Self::OpenConfirm => 5,
            Self::Established => 6,
        }
    }
}

/// Checks that these octets are one message, of the kind that they say.
fn whole(message: &[u8]) -> Result<(), NotFramed> {
    let code = message.get(18).copied().unwrap_or_default();
    let kind = MessageKind::from_code(code).unwrap_or(MessageKind::Update);
    framed(message, kind).map(|_| ())
}

/// RFC 6396 §4.4 and §3: the microseconds count as part of the message.
const BGP4MP_ET: u16 = 17;
const STATE_CHANGE_AS4: u16 = 5;
/// Stands for an AS number that does not fit two octets. RFC 6793 §9.
const AS_TRANS: u16 = 23_456;
