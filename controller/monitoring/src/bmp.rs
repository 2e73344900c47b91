//! BMP messages, version 3: who speaks, which peers are up, their routes, their counts. RFC 7854,
//! with Adj-RIB-Out (RFC 8671) and Loc-RIB (RFC 9069).
//!
//! ```text
//! +-- 1 --+-- 4 --+-- 1 --+----- 42 -----+-- ... --+
//! |   3   |length | type  |   per-peer   |  body   |     RFC 7854 §4.1, length counts all of it
//! +-------+-------+-------+--------------+---------+
//! ```
//! BGP messages travel inside as octets. This file checks where they begin and end, since a collector
//! would lose its place in the stream, and refuses to know what they say.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod peer;
mod session;
mod statistics;

use std::fmt;

use bytes::{BufMut, BytesMut};
use weft_bgp::frame::HEADER_LEN;
use weft_bgp::message::MessageKind;

pub use peer::{Instance, Peer, PeerHeader, Policy, Rib};
pub use session::{Down, PeerUp, peer_down, peer_up};
pub use statistics::{Statistic, statistics};

/// TCP has no port of BMP; collectors usually listen here.
pub const USUAL_PORT: u16 = 1_790;

/// Octets of a Route Monitoring message before the UPDATE.
pub const ROUTE_MONITORING_HEAD_LEN: usize = COMMON_LEN + PeerHeader::LEN;

/// Who speaks: the first message of a connection. RFC 7854 §4.3.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Initiation {
    /// Name of this router, as sysName.
    pub name: String,
    /// What it is and which version, as sysDescr.
    pub description: String,
    /// Anything else a reader should know; nothing if empty.
    pub text: String,
}

/// Why a connection ends: the last message of it. RFC 7854 §4.5.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Termination {
    /// Administratively closed; it might come back.
    Administrative,
    /// No reason given.
    Unspecified,
    /// Out of resources.
    OutOfResources,
    /// This collector has a connection already.
    Redundant,
    /// Administratively closed for good: the collector must not expect it back.
    Permanent,
}

/// The octets are not one BGP message of this kind.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NotFramed {
    /// What was expected.
    pub kind: MessageKind,
}

impl fmt::Display for NotFramed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "octets that are not one {} message", self.kind)
    }
}

impl std::error::Error for NotFramed {}

/// Appends an Initiation. Texts are cut at 4096 octets. RFC 7854 §4.3.
pub fn initiation(out: &mut BytesMut, initiation: &Initiation) {
    message(out, INITIATION, |out| {
        tlv(out, SYS_DESCR, cut(&initiation.description));
        tlv(out, SYS_NAME, cut(&initiation.name));
        if !initiation.text.is_empty() {
            tlv(out, STRING, cut(&initiation.text));
        }
    });
}

/// Appends a Termination with its reason. RFC 7854 §4.5.
pub fn termination(out: &mut BytesMut, reason: Termination) {
    let code: u16 = match reason {
        Termination::Administrative => 0,
        Termination::Unspecified => 1,
        Termination::OutOfResources => 2,
        Termination::Redundant => 3,
        Termination::Permanent => 4,
    };
    message(out, TERMINATION, |out| {
        tlv(out, TERMINATION_REASON, &code.to_be_bytes());
    });
}

/// Appends a Route Monitoring message: `update` is one UPDATE with its header. RFC 7854 §4.6.
///
/// # Errors
/// [`NotFramed`]; nothing is appended then.
pub fn route_monitoring(
    out: &mut BytesMut,
    header: &PeerHeader,
    update: &[u8],
) -> Result<(), NotFramed> {
    out.put_slice(&route_monitoring_head(header, update)?);
    out.put_slice(update);
    Ok(())
}

/// What stands before `update` in a Route Monitoring message, for those who write the two in one
/// vectored call and do not copy the message.
///
/// # Errors
/// [`NotFramed`].
pub fn route_monitoring_head(
    header: &PeerHeader,
    update: &[u8],
) -> Result<[u8; ROUTE_MONITORING_HEAD_LEN], NotFramed> {
    let length = framed(update, MessageKind::Update)?;
    let length = u32::from(length).saturating_add(HEAD_LEN);
    let mut head = [0; ROUTE_MONITORING_HEAD_LEN];
    let mut rest = &mut head[..];
    rest.put_u8(VERSION);
    rest.put_u32(length);
    rest.put_u8(ROUTE_MONITORING);
    header.encode(&mut rest);
    Ok(head)
}

/// Checks that `octets` are one whole message of `kind` as its header says, and gives their length.
/// RFC 4271 §4.1.
pub(crate) fn framed(octets: &[u8], kind: MessageKind) -> Result<u16, NotFramed> {
    let fault = NotFramed { kind };
    let (header, _) = octets
        .split_first_chunk::<{ HEADER_LEN as usize }>()
        .ok_or(fault)?;
    let [marker @ .., high, low, code] = header;
    let length = u16::from_be_bytes([*high, *low]);
    let whole = usize::from(length) == octets.len();
    if marker == &[0xff; 16] && whole && *code == kind.code() {
        Ok(length)
    } else {
        Err(fault)
    }
}

/// Appends a message and fills in its length.
fn message(out: &mut BytesMut, kind: u8, body: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u8(VERSION);
    let length_at = out.len();
    out.put_u32(0);
    out.put_u8(kind);
    body(out);
    let length = out.len().saturating_sub(start);
    let length = u32::try_from(length).expect("bodies are made of fields with two-octet lengths");
    let end = length_at.saturating_add(4);
    out.get_mut(length_at..end)
        .expect("it was written above")
        .copy_from_slice(&length.to_be_bytes());
}

/// ```text
/// +-- 2 --+-- 2 --+-- length --+
/// | type  |length |   value    |     RFC 7854 §4.4
/// +-------+-------+------------+
/// ```
fn tlv(out: &mut BytesMut, kind: u16, value: &[u8]) {
    out.put_u16(kind);
    out.put_u16(u16::try_from(value.len()).expect("values are cut to fit"));
    out.put_slice(value);
}

/// The octets of a text, whole characters only.
fn cut(text: &str) -> &[u8] {
    let end = text.floor_char_boundary(TEXT_MAX);
    text.as_bytes().get(..end).unwrap_or_default()
}

const VERSION: u8 = 3;

/// Octets before the per-peer header.
const COMMON_LEN: usize = 6;
const HEAD_LEN: u32 = ROUTE_MONITORING_HEAD_LEN as u32;

/// Octets of a text, far below what a length can say: collectors keep these in memory and in each log
/// line.
const TEXT_MAX: usize = 4_096;

// Message types. RFC 7854 §4.1.
const ROUTE_MONITORING: u8 = 0;
const STATISTICS_REPORT: u8 = 1;
const PEER_DOWN: u8 = 2;
const PEER_UP: u8 = 3;
const INITIATION: u8 = 4;
const TERMINATION: u8 = 5;

// Information of Initiation. RFC 7854 §4.4.
const STRING: u16 = 0;
const SYS_DESCR: u16 = 1;
const SYS_NAME: u16 = 2;
// Information of Termination. RFC 7854 §4.5.
const TERMINATION_REASON: u16 = 1;
