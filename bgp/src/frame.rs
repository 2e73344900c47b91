//! Where one message ends and the next begins. Knows the header, nothing of a body.

#![deny(clippy::indexing_slicing)]

use bytes::{Buf, Bytes, BytesMut};

use crate::error::{DecodeError, Fault};
use crate::message::MessageKind;
use crate::wire::Reader;

/// Octets of a header: marker (16), length (2), type (1). RFC 4271 §4.1.
pub const HEADER_LEN: u16 = 19;
/// The largest message without the extended message capability. RFC 4271 §4.1.
pub const MAX_LEN: u16 = 4_096;
/// The largest message with it. RFC 8654 §4.
pub const MAX_LEN_EXTENDED: u16 = 65_535;

/// One message, cut out of the stream.
///
/// ```text
/// +--------- 16 ---------+--- 2 ---+- 1 -+--- length - 19 ---+
/// |   marker: all ones   | length  |type |       body        |
/// +----------------------+---------+-----+-------------------+
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The message type.
    pub kind: MessageKind,
    /// The body, without the header.
    pub body: Bytes,
}

/// Splits the next message off the front of `buffer`; `None` when it is not there completely yet.
/// A wrong header is found as soon as it is there, before its body. `max_len` is what was
/// negotiated, [`MAX_LEN`] or [`MAX_LEN_EXTENDED`].
///
/// # Errors
/// Marker, length or type are wrong (RFC 4271 §6.1); `buffer` is left as it was.
pub fn split(buffer: &mut BytesMut, max_len: u16) -> Result<Option<Frame>, DecodeError> {
    if buffer.len() < usize::from(HEADER_LEN) {
        return Ok(None);
    }
    let mut header = Reader::new(buffer, 0, Fault::Marker);
    if header.array()? != MARKER {
        return Err(DecodeError { fault: Fault::Marker, offset: 0 });
    }
    let length = header.u16()?;
    let bad_length = DecodeError { fault: Fault::MessageLength { length }, offset: LENGTH_AT };
    if length < HEADER_LEN || length > max_len {
        return Err(bad_length);
    }
    let type_error = header.error(Fault::MessageType { code: 0 });
    let code = header.u8()?;
    let kind = MessageKind::from_code(code)
        .ok_or(DecodeError { fault: Fault::MessageType { code }, ..type_error })?;
    if !lengths(kind).contains(&length) {
        return Err(bad_length);
    }
    if buffer.len() < usize::from(length) {
        return Ok(None);
    }
    let mut body = buffer.split_to(usize::from(length)).freeze();
    body.advance(usize::from(HEADER_LEN));
    Ok(Some(Frame { kind, body }))
}

/// Lengths that a message of this kind may have. RFC 4271 §6.1, RFC 8654 §4 (OPEN and KEEPALIVE
/// are never extended). ROUTE-REFRESH has its own fault for a wrong length (RFC 7313 §5).
fn lengths(kind: MessageKind) -> std::ops::RangeInclusive<u16> {
    match kind {
        MessageKind::Open => 29..=MAX_LEN,
        MessageKind::Update => 23..=MAX_LEN_EXTENDED,
        MessageKind::Notification => 21..=MAX_LEN_EXTENDED,
        MessageKind::Keepalive => HEADER_LEN..=HEADER_LEN,
        MessageKind::RouteRefresh => HEADER_LEN..=MAX_LEN_EXTENDED,
    }
}

/// Sixteen octets, all ones. RFC 4271 §4.1.
pub(crate) const MARKER: [u8; 16] = [0xff; 16];
const LENGTH_AT: u32 = 16;
