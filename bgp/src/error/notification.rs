//! Faults as NOTIFICATIONs: code, subcode, data. Knows no treatment.

use bytes::{BufMut, Bytes, BytesMut};

use crate::error::{Fault, SessionState};
use crate::message::Notification;

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
            Self::NextHop => (3, 8),
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

    /// Data of the NOTIFICATION, where the fault alone tells it. RFC 4271 §6 asks for the offending
    /// attribute in most 3/x; it may be as long as a message, and `DecodeError::offset` and our log
    /// say which it was, so we leave it out.
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
