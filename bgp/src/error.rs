//! What can be wrong with a peer's octets or behaviour: what, where, by which rule, and what now.
//! Knows the rules, not the sockets: acting on a fault is the session's and the edge's.

mod display;
mod notification;

use crate::attribute::row::{Row, code};
use crate::family::Family;
use crate::message::MessageKind;
use crate::message::notification::Cease;

/// A fault and where it was found.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecodeError {
    /// What was wrong.
    pub fault: Fault,
    /// Octets from the first octet of the marker; in an NLRI field decoded on its own, from the
    /// first octet of that field.
    pub offset: u32,
}

/// What has to be done about a fault, the mildest first, so that the worst of several is `max`.
/// RFC 7606 §2.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Treatment {
    /// The attribute (or one NLRI of a typed family, RFC 7606 §5.4) is dropped, the rest counts.
    AttributeDiscard,
    /// Every route of the UPDATE is taken as withdrawn.
    TreatAsWithdraw,
    /// NOTIFICATION, close.
    SessionReset,
}

/// Where a rule is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Number of the RFC.
    pub rfc: u16,
    /// Section in it.
    pub section: &'static str,
}

/// One variant per rule that a peer can break.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The marker is not all ones.
    Marker,
    /// A message length that its type or the negotiation does not allow.
    MessageLength {
        /// Length in the header, header included.
        length: u16,
    },
    /// An unknown message type.
    MessageType {
        /// Type in the header.
        code: u8,
    },
    /// An OPEN whose optional parameters or capabilities do not fit their lengths.
    OpenMalformed,
    /// A BGP version other than 4.
    Version {
        /// What the peer speaks.
        version: u8,
    },
    /// An AS number that is zero, contradicts itself, or is not the configured one.
    PeerAs {
        /// What the peer said.
        asn: u32,
    },
    /// A BGP Identifier that is zero or, inside one AS, our own.
    RouterId {
        /// What the peer said.
        router_id: u32,
    },
    /// An optional parameter other than capabilities.
    OptionalParameter {
        /// Its type.
        code: u8,
    },
    /// A hold time of one or two seconds.
    HoldTime {
        /// What the peer offered.
        secs: u16,
    },
    /// A family that we need and the peer does not offer.
    CapabilityMissing {
        /// The family.
        family: Family,
    },
    /// Withdrawn Routes Length or Total Path Attribute Length that does not fit the message.
    UpdateLength,
    /// Attributes that do not fill the Total Path Attribute Length exactly.
    AttributeList,
    /// A faulty attribute list in an UPDATE without reachable NLRI: they may have been lost.
    NlriNotLocatable,
    /// A second MP_REACH_NLRI or MP_UNREACH_NLRI.
    MultiProtocolTwice {
        /// Attribute code.
        code: u8,
    },
    /// A second attribute of another kind; the first counts.
    AttributeTwice {
        /// Attribute code.
        code: u8,
    },
    /// An attribute that claims to be well-known and is not.
    AttributeUnknown {
        /// Attribute code.
        code: u8,
    },
    /// A mandatory attribute is missing.
    AttributeMissing {
        /// Attribute code.
        code: u8,
    },
    /// Flags that contradict the attribute.
    AttributeFlags {
        /// Attribute code.
        code: u8,
        /// The flags octet.
        flags: u8,
    },
    /// A length that the attribute cannot have.
    AttributeLength {
        /// Attribute code.
        code: u8,
        /// The length.
        length: u16,
    },
    /// Content that the attribute cannot have.
    AttributeValue {
        /// Attribute code.
        code: u8,
    },
    /// An attribute that this kind of peer must not send.
    AttributeUnexpected {
        /// Attribute code.
        code: u8,
    },
    /// More attribute octets than we keep for a route.
    AttributesTooLong,
    /// An ORIGIN other than 0, 1 and 2.
    Origin {
        /// The value.
        value: u8,
    },
    /// Segments that do not fit the attribute, of unknown type, or empty.
    AsPath,
    /// AS number zero in AS_PATH.
    AsPathZero,
    /// More AS numbers than we keep.
    AsPathTooLong,
    /// An AS_SET or AS_CONFED_SET among its segments.
    AsSet,
    /// A next hop that is not the address of a host.
    NextHop,
    /// A next hop that is a link-local address without a global one.
    LinkLocalNextHop,
    /// A next hop length that the family does not have, or that exceeds MP_REACH_NLRI.
    NextHopLength {
        /// The length.
        length: u8,
    },
    /// MP_REACH_NLRI of a family that we do not speak.
    FamilyUnknown {
        /// The family.
        family: Family,
    },
    /// A prefix longer than its family allows or than the field.
    Network,
    /// Typed NLRI: a length that goes beyond the attribute, or none at all.
    NlriFraming,
    /// Typed NLRI of a type that we do not know.
    NlriType {
        /// The route type.
        route_type: u8,
    },
    /// Typed NLRI whose length contradicts its content.
    NlriLength {
        /// The route type.
        route_type: u8,
        /// The length.
        length: u8,
    },
    /// Typed NLRI with content that must not be.
    NlriValue {
        /// The route type.
        route_type: u8,
        /// What is wrong, as a noun phrase.
        what: &'static str,
    },
    /// A ROUTE-REFRESH of another length than 23.
    RouteRefreshLength,
    /// Nothing was received for the hold time.
    HoldTimerExpired,
    /// Nothing could be sent for the send hold time.
    SendHoldTimerExpired,
    /// A message that the state does not expect.
    Unexpected {
        /// In which state.
        state: SessionState,
        /// Which message.
        kind: MessageKind,
    },
    /// The end is our own wish.
    Cease(Cease),
}

/// The states in which a message can be unexpected. RFC 6608.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum SessionState {
    /// OpenSent.
    OpenSent,
    /// OpenConfirm.
    OpenConfirm,
    /// Established.
    Established,
}

impl Fault {
    /// The rule that was broken.
    #[must_use]
    pub fn rule(&self) -> Rule {
        let (rfc, section) = self.rfc_section();
        Rule { rfc, section }
    }

    fn rfc_section(&self) -> (u16, &'static str) {
        match self {
            Self::Marker | Self::MessageLength { .. } | Self::MessageType { .. } => (4271, "6.1"),
            Self::OpenMalformed
            | Self::Version { .. }
            | Self::PeerAs { .. }
            | Self::OptionalParameter { .. }
            | Self::HoldTime { .. } => (4271, "6.2"),
            Self::RouterId { .. } => (6286, "2.2"),
            Self::CapabilityMissing { .. } => (5492, "5"),
            Self::UpdateLength | Self::AttributeUnknown { .. } => (4271, "6.3"),
            Self::AttributeList => (7606, "4"),
            Self::NlriNotLocatable => (7606, "5.2"),
            Self::MultiProtocolTwice { .. } | Self::AttributeTwice { .. } => (7606, "3.g"),
            Self::AttributeMissing { .. } => (7606, "3.d"),
            Self::AttributeFlags { code, .. } => match Row::of(*code) {
                Some(row) if row.wrong_flags == Treatment::AttributeDiscard => {
                    (row.rule.rfc, row.rule.section)
                }
                Some(_) | None => (7606, "3.c"),
            },
            Self::AttributeLength { code, .. }
            | Self::AttributeValue { code }
            | Self::AttributeUnexpected { code } => {
                let rule = Row::of(*code).map_or(
                    Rule {
                        rfc: 4271,
                        section: "6.3",
                    },
                    |row| row.rule,
                );
                (rule.rfc, rule.section)
            }
            Self::AttributesTooLong => (7606, "3"),
            Self::Origin { .. } => (7606, "7.1"),
            Self::AsPath | Self::AsPathTooLong => (7606, "7.2"),
            Self::AsPathZero => (7607, "2"),
            Self::AsSet => (9774, "3"),
            Self::NextHop => (7606, "7.3"),
            Self::LinkLocalNextHop => (2545, "3"),
            Self::NextHopLength { .. } => (7606, "7.11"),
            Self::FamilyUnknown { .. } => (4760, "7"),
            Self::Network => (7606, "5.3"),
            Self::NlriFraming => (7606, "5.3"),
            Self::NlriType { .. } | Self::NlriLength { .. } | Self::NlriValue { .. } => {
                (7606, "5.4")
            }
            Self::RouteRefreshLength => (7313, "5"),
            Self::HoldTimerExpired => (4271, "6.5"),
            Self::SendHoldTimerExpired => (9687, "4"),
            Self::Unexpected { .. } => (6608, "3"),
            Self::Cease(_) => (4486, "3"),
        }
    }

    /// What has to be done. RFC 7606 §2.
    #[must_use]
    pub fn treatment(&self) -> Treatment {
        match self {
            Self::AttributeTwice { .. }
            | Self::AttributeUnexpected { .. }
            | Self::FamilyUnknown { .. }
            | Self::NlriType { .. }
            | Self::NlriLength { .. }
            | Self::NlriValue { .. } => Treatment::AttributeDiscard,
            // Without its D-PATH a route may loop. draft-ietf-bess-evpn-ipvpn-interworking §4.2.
            Self::AttributeValue { code: code::D_PATH } => Treatment::TreatAsWithdraw,
            Self::AttributeLength { code, .. } | Self::AttributeValue { code } => {
                Row::of(*code).map_or(Treatment::AttributeDiscard, |row| row.malformed)
            }
            Self::AttributeFlags { code, .. } => {
                Row::of(*code).map_or(Treatment::TreatAsWithdraw, |row| row.wrong_flags)
            }
            Self::AttributeList
            | Self::AttributeMissing { .. }
            | Self::AttributesTooLong
            | Self::Origin { .. }
            | Self::AsPath
            | Self::AsPathZero
            | Self::AsPathTooLong
            | Self::AsSet
            | Self::NextHop
            | Self::LinkLocalNextHop => Treatment::TreatAsWithdraw,
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
            | Self::NlriNotLocatable
            | Self::MultiProtocolTwice { .. }
            | Self::AttributeUnknown { .. }
            | Self::NextHopLength { .. }
            | Self::Network
            | Self::NlriFraming
            | Self::RouteRefreshLength
            | Self::HoldTimerExpired
            | Self::SendHoldTimerExpired
            | Self::Unexpected { .. }
            | Self::Cease(_) => Treatment::SessionReset,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::message::Notification;

    #[test]
    fn an_error_says_what_where_and_by_which_rule() {
        let fault = Fault::AttributeLength {
            code: 16,
            length: 9,
        };
        let error = DecodeError { fault, offset: 40 };
        let text = "length 9 of EXTENDED_COMMUNITIES at octet 40 (RFC 7606 §7.14)";
        assert_eq!(error.to_string(), text);
        assert_eq!(fault.treatment(), Treatment::TreatAsWithdraw);
    }

    #[test]
    fn notifications_carry_the_data_that_their_rule_asks_for() {
        let table: [(Fault, u8, u8, &[u8]); 8] = [
            (Fault::Version { version: 3 }, 2, 1, &[0, 4]),
            (
                Fault::CapabilityMissing {
                    family: Family::L2VPN_EVPN,
                },
                2,
                7,
                &[1, 4, 0, 25, 0, 70],
            ),
            (Fault::AttributeMissing { code: 1 }, 3, 3, &[1]),
            (Fault::NlriFraming, 3, 9, &[]),
            (Fault::HoldTimerExpired, 4, 0, &[]),
            (
                Fault::Unexpected {
                    state: SessionState::OpenSent,
                    kind: MessageKind::Update,
                },
                5,
                1,
                &[2],
            ),
            (Fault::Cease(Cease::Collision), 6, 7, &[]),
            (Fault::SendHoldTimerExpired, 8, 0, &[]),
        ];
        for (fault, code, subcode, data) in table {
            let data = Bytes::from_static(data);
            assert_eq!(
                fault.notification(),
                Notification {
                    code,
                    subcode,
                    data
                }
            );
        }
    }
}
