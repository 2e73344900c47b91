//! Faults as NOTIFICATIONs: code, subcode, data. Knows no treatment.

use bytes::{BufMut, Bytes, BytesMut};

use crate::attribute::row::{code, flag};
use crate::error::{DecodeError, Fault, SessionState};
use crate::frame::{HEADER_LEN, MAX_LEN};
use crate::message::Notification;
use crate::wire::Reader;

impl DecodeError {
    /// As [`Fault::notification`], with what only the message can tell: itself (RFC 7313 §5) or the erroneous attribute
    /// (RFC 4271 §6.3), if that fits into a NOTIFICATION of any session. `message` begins with its marker, and is
    /// empty where nobody has it.
    #[must_use]
    pub fn notification(&self, message: &Bytes) -> Notification {
        let notification = self.fault.notification();
        let told = match self.fault.attribute() {
            Some(code) => attribute(message, code),
            None => (self.fault == Fault::RouteRefreshLength).then(|| message.clone()),
        };
        let told = told.filter(|data| data.len() <= DATA_MAX);
        Notification {
            data: told.unwrap_or(notification.data),
            ..notification
        }
    }
}

/// The whole attribute in an UPDATE: flags, code, length and value.
fn attribute(message: &Bytes, wanted: u8) -> Option<Bytes> {
    let mut reader = Reader::new(message, 0, Fault::UpdateLength);
    reader.sub(HEADER_LEN.into()).ok()?;
    let length = reader.u16().ok()?;
    reader.sub(length.into()).ok()?;
    let length = reader.u16().ok()?;
    let mut list = reader.sub(length.into()).ok()?;
    while !list.is_empty() {
        let rest = list.peek();
        let flags = list.u8().ok()?;
        let code = list.u8().ok()?;
        let length = match flags & flag::EXTENDED_LENGTH {
            0 => list.u8().ok()?.into(),
            _ => list.u16().ok()?,
        };
        list.sub(length.into()).ok()?;
        if code == wanted {
            let taken = rest.len().checked_sub(list.remaining())?;
            return rest.get(..taken).map(|octets| message.slice_ref(octets));
        }
    }
    None
}

impl Fault {
    /// The NOTIFICATION that tells the peer, if the session ends by this fault.
    #[must_use]
    pub fn notification(&self) -> Notification {
        let (code, subcode) = self.code_subcode();
        Notification {
            code,
            subcode,
            data: self.data(),
        }
    }

    /// The attribute that is wrong, where RFC 4271 §6.3 asks for the whole of it.
    fn attribute(&self) -> Option<u8> {
        match *self {
            Self::AttributeUnknown { code }
            | Self::AttributeFlags { code, .. }
            | Self::AttributeLength { code, .. }
            | Self::AttributeValue { code }
            | Self::AttributeUnexpected { code } => Some(code),
            Self::Origin { .. } => Some(code::ORIGIN),
            Self::NextHopLength { .. } => Some(code::MP_REACH_NLRI),
            Self::Marker
            | Self::MessageLength { .. }
            | Self::MessageType { .. }
            | Self::OpenMalformed
            | Self::Version { .. }
            | Self::PeerAs { .. }
            | Self::RouterId { .. }
            | Self::OptionalParameter { .. }
            | Self::HoldTime { .. }
            | Self::CapabilityMissing { .. }
            | Self::UpdateLength
            | Self::AttributeList
            | Self::NlriNotLocatable
            | Self::MultiProtocolTwice { .. }
            | Self::AttributeTwice { .. }
            | Self::AttributeMissing { .. }
            | Self::AttributesTooLong
            | Self::AsPath
            | Self::AsPathZero
            | Self::AsPathTooLong
            | Self::AsSet
            // In NEXT_HOP or in MP_REACH_NLRI; it never ends a session.
            | Self::NextHop
            | Self::LinkLocalNextHop
            | Self::FamilyUnknown { .. }
            | Self::Network
            | Self::NlriFraming
            | Self::NlriType { .. }
            | Self::NlriLength { .. }
            | Self::NlriValue { .. }
            | Self::RouteRefreshLength
            | Self::HoldTimerExpired
            | Self::SendHoldTimerExpired
            | Self::Unexpected { .. }
            | Self::Cease(_) => None,
        }
    }

    fn code_subcode(&self) -> (u8, u8) {
        match self {
            Self::Marker => (1, 1),
            Self::MessageLength { .. } => (1, 2),
            Self::MessageType { .. } => (1, 3),
            Self::OpenMalformed => (2, 0),
            Self::Version { .. } => (2, 1),
            Self::PeerAs { .. } => (2, 2),
            Self::RouterId { .. } => (2, 3),
            Self::OptionalParameter { .. } => (2, 4),
            Self::HoldTime { .. } => (2, 6),
            Self::CapabilityMissing { .. } => (2, 7),
            Self::UpdateLength
            | Self::AttributeList
            | Self::NlriNotLocatable
            | Self::MultiProtocolTwice { .. }
            | Self::AttributeTwice { .. }
            | Self::AttributesTooLong => (3, 1),
            Self::AttributeUnknown { .. } => (3, 2),
            Self::AttributeMissing { .. } => (3, 3),
            Self::AttributeFlags { .. } => (3, 4),
            Self::AttributeLength { .. } => (3, 5),
            Self::Origin { .. } => (3, 6),
            Self::NextHop | Self::LinkLocalNextHop => (3, 8),
            Self::AttributeValue { .. }
            | Self::AttributeUnexpected { .. }
            | Self::NextHopLength { .. }
            | Self::FamilyUnknown { .. }
            | Self::NlriFraming
            | Self::NlriType { .. }
            | Self::NlriLength { .. }
            | Self::NlriValue { .. } => (3, 9),
            Self::Network => (3, 10),
            Self::AsPath | Self::AsPathZero | Self::AsPathTooLong | Self::AsSet => (3, 11),
            Self::HoldTimerExpired => (4, 0),
            Self::Unexpected { state, .. } => match state {
                SessionState::OpenSent => (5, 1),
                SessionState::OpenConfirm => (5, 2),
                SessionState::Established => (5, 3),
            },
            Self::Cease(cease) => (6, cease.subcode()),
            Self::RouteRefreshLength => (7, 1),
            Self::SendHoldTimerExpired => (8, 0),
        }
    }

    /// Data of the NOTIFICATION, where the fault alone tells it.
    fn data(&self) -> Bytes {
        match self {
            Self::MessageLength { length } => Bytes::copy_from_slice(&length.to_be_bytes()),
            Self::MessageType { code } => Bytes::copy_from_slice(&[*code]),
            // The largest version we speak. RFC 4271 §6.2.
            Self::Version { .. } => Bytes::from_static(&[0, 4]),
            Self::CapabilityMissing { family } => {
                let mut data = BytesMut::with_capacity(6);
                data.put_slice(&[1, 4]);
                data.put_u16(family.afi);
                data.put_slice(&[0, family.safi]);
                data.freeze()
            }
            Self::AttributeMissing { code } | Self::AttributeUnknown { code } => {
                Bytes::copy_from_slice(&[*code])
            }
            // RFC 6608 §3.
            Self::Unexpected { kind, .. } => Bytes::copy_from_slice(&[kind.code()]),
            Self::Marker
            | Self::OpenMalformed
            | Self::PeerAs { .. }
            | Self::RouterId { .. }
            | Self::OptionalParameter { .. }
            | Self::HoldTime { .. }
            | Self::UpdateLength
            | Self::AttributeList
            | Self::NlriNotLocatable
            | Self::MultiProtocolTwice { .. }
            | Self::AttributeTwice { .. }
            | Self::AttributeFlags { .. }
            | Self::AttributeLength { .. }
            | Self::AttributeValue { .. }
            | Self::AttributeUnexpected { .. }
            | Self::AttributesTooLong
            | Self::Origin { .. }
            | Self::AsPath
            | Self::AsPathZero
            | Self::AsPathTooLong
            | Self::AsSet
            | Self::NextHop
            | Self::LinkLocalNextHop
            | Self::NextHopLength { .. }
            | Self::FamilyUnknown { .. }
            | Self::Network
            | Self::NlriFraming
            | Self::NlriType { .. }
            | Self::NlriLength { .. }
            | Self::NlriValue { .. }
            | Self::RouteRefreshLength
            | Self::HoldTimerExpired
            | Self::SendHoldTimerExpired
            | Self::Cease(_) => Bytes::new(),
        }
    }
}

/// Octets of data for which any session has room, after code and subcode.
const DATA_MAX: usize = (MAX_LEN - HEADER_LEN - 2) as usize;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::AddPathSet;
    use crate::frame::{self, Frame};
    use crate::message::{DecodeContext, Message};

    const CONTEXT: DecodeContext = DecodeContext {
        four_octet_as: true,
        ibgp: true,
        extended_message: false,
        add_path: AddPathSet::NONE,
    };

    /// A message of this type, and what has to be said of it.
    fn rejected(kind: u8, body: &[u8]) -> (Bytes, Notification) {
        let length = u16::try_from(19 + body.len()).unwrap();
        let message = [&[0xff; 16][..], &length.to_be_bytes(), &[kind], body].concat();
        let message = Bytes::from(message);
        let frame: Frame = frame::split(&mut message.clone().into(), MAX_LEN)
            .unwrap()
            .unwrap();
        let error = Message::decode(frame, &CONTEXT).unwrap_err();
        let notification = error.notification(&message);
        assert_eq!(
            error.notification(&Bytes::new()),
            error.fault.notification()
        );
        (message, notification)
    }

    /// RFC 7313 §5.
    #[test]
    fn a_route_refresh_of_another_length_is_sent_back() {
        let (message, notification) = rejected(5, &[0, 25, 0]);
        assert_eq!((notification.code, notification.subcode), (7, 1));
        assert_eq!(notification.data, message);
        let (_, notification) = rejected(5, &[0; 4_077]);
        assert!(notification.data.is_empty(), "it does not fit");
    }

    /// RFC 4271 §6.3.
    #[test]
    fn an_attribute_that_ends_the_session_is_sent_back() {
        let next_hop: &[u8] = &[0x90, 14, 0, 6, 0, 25, 70, 1, 9, 0];
        let unknown: &[u8] = &[0x40, 99, 1, 0];
        for (bad, subcode) in [(next_hop, 9), (unknown, 2)] {
            let origin = [0x40, 1, 1, 0];
            let length = u8::try_from(origin.len() + bad.len()).unwrap();
            let body = [&[0, 0, 0, length], &origin[..], bad].concat();
            let (_, notification) = rejected(2, &body);
            assert_eq!((notification.code, notification.subcode), (3, subcode));
            assert_eq!(notification.data, bad);
        }
    }
}
