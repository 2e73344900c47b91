//! Where one message ends and the next begins. Knows the header, nothing of a body.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

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
        return Err(DecodeError {
            fault: Fault::Marker,
            offset: 0,
        });
    }
    let length = header.u16()?;
    let bad_length = DecodeError {
        fault: Fault::MessageLength { length },
        offset: LENGTH_AT,
    };
    if length < HEADER_LEN || length > max_len {
        return Err(bad_length);
    }
    let type_error = header.error(Fault::MessageType { code: 0 });
    let code = header.u8()?;
    let kind = MessageKind::from_code(code).ok_or(DecodeError {
        fault: Fault::MessageType { code },
        ..type_error
    })?;
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

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may fail where it stands")]
mod tests {
    use super::*;

    fn header(length: u16, kind: u8) -> BytesMut {
        let mut buffer = BytesMut::from(&MARKER[..]);
        buffer.extend_from_slice(&length.to_be_bytes());
        buffer.extend_from_slice(&[kind]);
        buffer
    }

    fn fault(mut buffer: BytesMut, max_len: u16) -> (Fault, (u8, u8), Bytes) {
        let before = buffer.clone();
        let fault = split(&mut buffer, max_len).unwrap_err().fault;
        assert_eq!(buffer, before);
        let notification = fault.notification();
        (
            fault,
            (notification.code, notification.subcode),
            notification.data,
        )
    }

    #[test]
    fn a_marker_that_is_not_all_ones_is_1_1() {
        for at in 0..16 {
            let mut buffer = header(19, 4);
            buffer[at] = 0xfe;
            assert_eq!(
                fault(buffer, MAX_LEN),
                (Fault::Marker, (1, 1), Bytes::new())
            );
        }
    }

    #[test]
    fn lengths_that_a_type_cannot_have_are_1_2() {
        let plain = [
            (18_u16, 4),
            (0, 1),
            (4_097, 2),
            (65_535, 2),
            (28, 1),
            (22, 2),
            (20, 3),
            (20, 4),
        ];
        for (length, kind) in plain {
            let data = Bytes::copy_from_slice(&length.to_be_bytes());
            let expected = (Fault::MessageLength { length }, (1, 2), data);
            assert_eq!(
                fault(header(length, kind), MAX_LEN),
                expected,
                "{length} {kind}"
            );
        }
        // RFC 8654 §4.
        assert_eq!(split(&mut header(4_097, 2), MAX_LEN_EXTENDED), Ok(None));
        assert_eq!(fault(header(4_097, 1), MAX_LEN_EXTENDED).1, (1, 2));
    }

    #[test]
    fn unknown_types_are_1_3() {
        for code in [0, 6, 255] {
            let expected = (
                Fault::MessageType { code },
                (1, 3),
                Bytes::copy_from_slice(&[code]),
            );
            assert_eq!(fault(header(19, code), MAX_LEN), expected);
        }
    }

    #[test]
    fn messages_come_out_one_by_one_when_they_are_complete() {
        let mut buffer = header(19, 4);
        buffer.extend_from_slice(&header(21, 3));
        buffer.extend_from_slice(&[6]);
        let keepalive = Frame {
            kind: MessageKind::Keepalive,
            body: Bytes::new(),
        };
        assert_eq!(split(&mut buffer, MAX_LEN), Ok(Some(keepalive)));
        assert_eq!(split(&mut buffer, MAX_LEN), Ok(None));
        buffer.extend_from_slice(&[2]);
        let frame = split(&mut buffer, MAX_LEN).unwrap().unwrap();
        assert_eq!(
            (frame.kind, frame.body.as_ref()),
            (MessageKind::Notification, &[6, 2][..])
        );
        assert!(buffer.is_empty());
    }
}
