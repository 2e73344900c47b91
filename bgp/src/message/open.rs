//! OPEN: what a speaker says of itself first. Knows what every OPEN must satisfy, not which AS this
//! peer should have: that is the session's.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use bytes::Bytes;

use crate::attribute::as_path::AS_TRANS;
use crate::capability::Capability;
use crate::error::{DecodeError, Fault};
use crate::message::body_reader;
use crate::peer::RouterId;
use crate::wire::{Reader, Writer};

/// The first message of a session.
///
/// ```text
/// +---- 1 ----+-- 2 --+--- 2 ---+------ 4 ------+--- 1 ---+-- length --+
/// |version: 4 |  AS   |hold time|BGP identifier | length  | parameters |     RFC 4271 §4.2
/// +-----------+-------+---------+---------------+---------+------------+
/// parameter:  | type (1) | length (1) | value |, type 2: capabilities, RFC 5492 §4
/// extended:   length 255, then | 255 | length (2) |, and two octets per parameter length, RFC 9072 §2
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The AS number: that of [`Capability::FourOctetAs`], where there is one.
    pub asn: u32,
    /// Seconds, 0 or at least 3.
    pub hold_secs: u16,
    /// BGP identifier, not zero.
    pub router_id: RouterId,
    /// Capabilities, in their order.
    pub capabilities: Vec<Capability>,
}

impl Open {
    /// AS, hold time and identifier are checked before the parameters are looked at.
    pub(crate) fn decode(body: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = body_reader(body, Fault::MessageLength { length: 19 });
        let at = reader.error(Fault::OpenMalformed);
        let version = reader.u8()?;
        if version != VERSION {
            return Err(DecodeError {
                fault: Fault::Version { version },
                ..at
            });
        }
        let at = reader.offset();
        let as2 = reader.u16()?;
        let bad_as = |asn| DecodeError {
            fault: Fault::PeerAs { asn },
            offset: at,
        };
        if as2 == 0 {
            return Err(bad_as(0));
        }
        let at = reader.offset();
        let hold_secs = reader.u16()?;
        if matches!(hold_secs, 1 | 2) {
            return Err(DecodeError {
                fault: Fault::HoldTime { secs: hold_secs },
                offset: at,
            });
        }
        let bad_id = reader.error(Fault::RouterId { router_id: 0 });
        let router_id = RouterId(reader.u32()?);
        if router_id == RouterId(0) {
            return Err(bad_id);
        }
        let capabilities = parameters(reader.meaning(Fault::OpenMalformed), body)?;
        let asn = true_as(as2, &capabilities).map_err(bad_as)?;
        Ok(Self {
            asn,
            hold_secs,
            router_id,
            capabilities,
        })
    }

    pub(crate) fn encode(&self, out: &mut Writer) {
        out.u8(VERSION);
        out.u16(u16::try_from(self.asn).unwrap_or(AS_TRANS));
        out.u16(self.hold_secs);
        out.u32(self.router_id.0);
        let mut value = Writer::new();
        self.capabilities
            .iter()
            .for_each(|capability| capability.encode(&mut value));
        if value.is_empty() {
            out.u8(0);
            return;
        }
        // Room for the parameter's type and length in one octet of length.
        if value.len() <= 253 {
            let all = out.reserve_u8();
            out.u8(CAPABILITIES);
            let length = out.reserve_u8();
            out.slice(value.as_slice());
            out.patch_u8(length);
            out.patch_u8(all);
        } else {
            out.u8(EXTENDED);
            out.u8(EXTENDED);
            let all = out.reserve_u16();
            out.u8(CAPABILITIES);
            let length = out.reserve_u16();
            out.slice(value.as_slice());
            out.patch_u16(length);
            out.patch_u16(all);
        }
    }
}

/// The optional parameters, in either form. Nothing may follow them.
fn parameters(mut reader: Reader<'_>, body: &Bytes) -> Result<Vec<Capability>, DecodeError> {
    let length = reader.u8()?;
    // RFC 9072 §2: the type of the first parameter tells, the length does not, if it is not 0.
    let extended = length != 0 && reader.peek().first() == Some(&EXTENDED);
    let length = if extended {
        reader.u8()?;
        reader.u16()?
    } else {
        length.into()
    };
    let mut all = reader.sub(length.into())?;
    if !reader.is_empty() {
        return Err(reader.error(Fault::OpenMalformed));
    }
    let mut capabilities = Vec::new();
    while !all.is_empty() {
        let at = all.offset();
        let code = all.u8()?;
        let length = if extended {
            all.u16()?
        } else {
            all.u8()?.into()
        };
        let mut value = all.sub(length.into())?;
        if code != CAPABILITIES {
            return Err(DecodeError {
                fault: Fault::OptionalParameter { code },
                offset: at,
            });
        }
        while !value.is_empty() {
            capabilities.push(Capability::decode(&mut value, body)?);
        }
    }
    Ok(capabilities)
}

/// The AS number from the field and the capability, which must agree; otherwise the bad one.
/// RFC 6793 §4.1, RFC 7607 §2.
fn true_as(as2: u16, capabilities: &[Capability]) -> Result<u32, u32> {
    let mut asns = capabilities
        .iter()
        .filter_map(|capability| match capability {
            Capability::FourOctetAs(asn) => Some(*asn),
            Capability::MultiProtocol(_)
            | Capability::RouteRefresh
            | Capability::ExtendedNextHop(_)
            | Capability::ExtendedMessage
            | Capability::GracefulRestart(_)
            | Capability::AddPath(_)
            | Capability::EnhancedRouteRefresh
            | Capability::LongLivedGracefulRestart(_)
            | Capability::Fqdn { .. }
            | Capability::SoftwareVersion(_)
            | Capability::Unknown { .. } => None,
        });
    let Some(asn) = asns.next() else {
        // AS_TRANS is nobody's number.
        return if as2 == AS_TRANS {
            Err(as2.into())
        } else {
            Ok(as2.into())
        };
    };
    let agrees = as2 == AS_TRANS || u32::from(as2) == asn;
    let is_number = asn != 0 && asn != u32::from(AS_TRANS);
    if agrees && is_number && asns.all(|other| other == asn) {
        Ok(asn)
    } else {
        Err(asn)
    }
}

const VERSION: u8 = 4;
const CAPABILITIES: u8 = 2;
const EXTENDED: u8 = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Family;

    fn open(version: u8, asn: u16, hold: u16, id: u32, parameters: &[u8]) -> Bytes {
        let mut out = Writer::new();
        out.u8(version);
        out.u16(asn);
        out.u16(hold);
        out.u32(id);
        out.slice(parameters);
        out.finish()
    }

    fn refused(body: &Bytes) -> (u8, u8, Vec<u8>) {
        let notification = Open::decode(body).unwrap_err().fault.notification();
        (
            notification.code,
            notification.subcode,
            notification.data.to_vec(),
        )
    }

    const FOUR_OCTET_65550: &[u8] = &[8, 2, 6, 65, 4, 0, 1, 0, 14];

    #[test]
    fn an_open_is_refused_by_the_rule_it_breaks() {
        // A4, A5, A7.
        assert_eq!(refused(&open(3, 64_496, 90, 1, &[0])), (2, 1, vec![0, 4]));
        assert_eq!(refused(&open(4, 0, 90, 1, &[0])), (2, 2, vec![]));
        assert_eq!(refused(&open(4, 23_456, 90, 1, &[0])), (2, 2, vec![]));
        assert_eq!(
            refused(&open(4, 64_496, 90, 1, FOUR_OCTET_65550)),
            (2, 2, vec![])
        );
        let zero = &[8, 2, 6, 65, 4, 0, 0, 0, 0];
        assert_eq!(refused(&open(4, 23_456, 90, 1, zero)), (2, 2, vec![]));
        assert_eq!(refused(&open(4, 64_496, 90, 0, &[0])), (2, 3, vec![]));
        assert_eq!(refused(&open(4, 64_496, 1, 1, &[0])), (2, 6, vec![]));
        assert_eq!(refused(&open(4, 64_496, 2, 1, &[0])), (2, 6, vec![]));
        assert_eq!(
            refused(&open(4, 64_496, 90, 1, &[3, 1, 1, 0])),
            (2, 4, vec![])
        );
        // Lengths that do not fit, in the order of parameters, parameter, capability, value.
        for parameters in [
            &[1][..],
            &[0, 0],
            &[1, 2],
            &[2, 2, 1],
            &[3, 2, 1, 1],
            &[4, 2, 2, 65, 1],
            &[5, 2, 3, 65, 1, 0],
            &[5, 2, 3, 2, 1, 0],
            &[9, 2, 7, 1, 5, 0, 1, 0, 1, 0],
        ] {
            assert_eq!(
                refused(&open(4, 64_496, 90, 1, parameters)),
                (2, 0, vec![]),
                "{parameters:?}"
            );
        }
    }

    #[test]
    fn the_fixed_fields_are_checked_before_the_parameters() {
        assert_eq!(refused(&open(4, 64_496, 1, 1, &[9])).1, 6);
        assert_eq!(refused(&open(4, 64_496, 90, 0, &[9])).1, 3);
    }

    #[test]
    fn hold_time_zero_and_three_are_accepted() {
        for hold in [0, 3, 65_535] {
            assert_eq!(
                Open::decode(&open(4, 64_496, hold, 1, &[0]))
                    .unwrap()
                    .hold_secs,
                hold
            );
        }
    }

    #[test]
    fn the_capability_tells_the_true_as() {
        let open = Open::decode(&open(4, AS_TRANS, 90, 1, FOUR_OCTET_65550)).unwrap();
        assert_eq!(open.asn, 65_550);
        assert_eq!(open.capabilities, [Capability::FourOctetAs(65_550)]);
    }

    #[test]
    fn extended_parameters_are_read_and_written() {
        // RFC 9072 §2: any length but zero, then type 255.
        let body = open(
            4,
            64_496,
            90,
            1,
            &[1, 255, 0, 9, 2, 0, 6, 65, 4, 0, 0, 0xfb, 0xf0],
        );
        assert_eq!(
            Open::decode(&body).unwrap().capabilities,
            [Capability::FourOctetAs(64_496)]
        );
        let value = Bytes::from(vec![7; 250]);
        let many = Open {
            asn: 64_496,
            hold_secs: 90,
            router_id: RouterId(1),
            capabilities: vec![
                Capability::Unknown { code: 200, value },
                Capability::MultiProtocol(Family::L2VPN_EVPN),
            ],
        };
        let mut out = Writer::new();
        many.encode(&mut out);
        let octets = out.finish();
        assert_eq!(octets.get(9..14), Some(&[255, 255, 1, 5, 2][..]));
        assert_eq!(Open::decode(&octets), Ok(many));
    }
}
