//! Capabilities of an OPEN: typed where we use them, octets where not. Knows no negotiation.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use bytes::Bytes;

use crate::error::DecodeError;
use crate::family::Family;
use crate::wire::{Reader, Writer};

/// Something a speaker can do. RFC 5492 §4.
///
/// ```text
/// +-- 1 --+-- 1 --+-- length --+
/// | code  |length |   value    |
/// +-------+-------+------------+
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// 1: routes of a family. RFC 4760 §8.
    MultiProtocol(Family),
    /// 2: ROUTE-REFRESH. RFC 2918.
    RouteRefresh,
    /// 5: next hops of another address family than the NLRI's. RFC 8950 §4.
    ExtendedNextHop(Vec<ExtendedNextHop>),
    /// 6: messages of up to 65535 octets. RFC 8654.
    ExtendedMessage,
    /// 64: restarts without losing routes. RFC 4724 §3.
    GracefulRestart(GracefulRestart),
    /// 65: AS numbers of four octets, and the speaker's. RFC 6793 §3.
    FourOctetAs(u32),
    /// 69: several paths per destination. RFC 7911 §4.
    AddPath(Vec<AddPath>),
    /// 70: marks where a refresh begins and ends. RFC 7313 §3.1.
    EnhancedRouteRefresh,
    /// 71: routes kept for long after a restart time. RFC 9494 §3.1.
    LongLivedGracefulRestart(Vec<LongLived>),
    /// 73: names. draft-walton-bgp-hostname-capability.
    Fqdn {
        /// Name of the host, at most 64 octets are sent.
        host: String,
        /// Name of its domain, at most 64 octets are sent.
        domain: String,
    },
    /// 75: what the speaker runs. draft-abraitis-bgp-version-capability.
    SoftwareVersion(String),
    /// Any other, or one of these with text that cannot be read.
    Unknown {
        /// Capability code.
        code: u8,
        /// Its value.
        value: Bytes,
    },
}

/// RFC 4724 §3, RFC 8538 §2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GracefulRestart {
    /// R: the speaker has restarted.
    pub restarted: bool,
    /// N: NOTIFICATION and hold timer do not end it.
    pub notification: bool,
    /// Seconds until its session is back, 12 bits.
    pub restart_secs: u16,
    /// Families it covers, and F: whether forwarding state was kept.
    pub families: Vec<(Family, bool)>,
}

/// RFC 7911 §4.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct AddPath {
    /// For which family.
    pub family: Family,
    /// Whether the speaker can receive several paths.
    pub receive: bool,
    /// Whether it can send several paths.
    pub send: bool,
}

/// RFC 8950 §4.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExtendedNextHop {
    /// For which family.
    pub family: Family,
    /// Address family identifier of the next hops it can have, beside its own.
    pub next_hop_afi: u16,
}

/// RFC 9494 §3.1.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct LongLived {
    /// For which family.
    pub family: Family,
    /// F: forwarding state was kept.
    pub forwarding: bool,
    /// Seconds for which stale routes may be kept after the restart time, 24 bits.
    pub stale_secs: u32,
}

/// The families in which NLRI carry path identifiers in one direction of a session. RFC 7911 §3.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AddPathSet(u8);

impl AddPathSet {
    /// No family.
    pub const NONE: Self = Self(0);

    /// These families; one that cannot have several paths here is left out.
    pub fn of(families: impl IntoIterator<Item = Family>) -> Self {
        let bits = families.into_iter().map(Self::bit);
        Self(bits.fold(0, |all, bit| all | bit))
    }

    /// Whether NLRI of `family` carry path identifiers.
    #[must_use]
    pub fn contains(self, family: Family) -> bool {
        self.0 & Self::bit(family) != 0
    }

    /// Whether no family is in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Route target membership is not among them: every path of it says the same.
    fn bit(family: Family) -> u8 {
        let bits = [
            (Family::IPV4_UNICAST, 1),
            (Family::IPV6_UNICAST, 2),
            (Family::L2VPN_EVPN, 4),
        ];
        let held = bits.iter().find(|(held, _)| *held == family);
        held.map_or(0, |(_, bit)| *bit)
    }
}

impl Capability {
    /// Its code.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::MultiProtocol(_) => 1,
            Self::RouteRefresh => 2,
            Self::ExtendedNextHop(_) => 5,
            Self::ExtendedMessage => 6,
            Self::GracefulRestart(_) => 64,
            Self::FourOctetAs(_) => 65,
            Self::AddPath(_) => 69,
            Self::EnhancedRouteRefresh => 70,
            Self::LongLivedGracefulRestart(_) => 71,
            Self::Fqdn { .. } => 73,
            Self::SoftwareVersion(_) => 75,
            Self::Unknown { code, .. } => *code,
        }
    }

    /// One capability off `reader`. A known one of a wrong length is malformed, unless it is only for people to read,
    /// as is one longer than the parameter. `body` is what `reader` reads from, for sharing.
    pub(crate) fn decode(reader: &mut Reader<'_>, body: &Bytes) -> Result<Self, DecodeError> {
        let malformed = reader.error(crate::error::Fault::OpenMalformed);
        let code = reader.u8()?;
        let length = reader.u8()?;
        let mut value = reader.sub(length.into())?;
        let unknown = Self::Unknown {
            code,
            value: body.slice_ref(value.peek()),
        };
        let capability = match code {
            1 => {
                let afi = value.u16()?;
                value.u8()?;
                Self::MultiProtocol(Family {
                    afi,
                    safi: value.u8()?,
                })
            }
            2 => Self::RouteRefresh,
            5 => Self::ExtendedNextHop(ExtendedNextHop::decode_all(&mut value)?),
            6 => Self::ExtendedMessage,
            64 => Self::GracefulRestart(GracefulRestart::decode(&mut value)?),
            65 => Self::FourOctetAs(value.u32()?),
            69 => match AddPath::decode_all(&mut value)? {
                Some(families) => Self::AddPath(families),
                None => return Ok(unknown),
            },
            70 => Self::EnhancedRouteRefresh,
            71 => Self::LongLivedGracefulRestart(LongLived::decode_all(&mut value)?),
            // What is for people to read never refuses a session.
            73 => return Ok(fqdn(&mut value).unwrap_or(unknown)),
            75 => return Ok(software_version(value.rest()).unwrap_or(unknown)),
            _ => return Ok(unknown),
        };
        if value.is_empty() {
            Ok(capability)
        } else {
            Err(malformed)
        }
    }

    pub(crate) fn encode(&self, out: &mut Writer) {
        out.u8(self.code());
        let length = out.reserve_u8();
        match self {
            Self::MultiProtocol(family) => {
                out.u16(family.afi);
                out.u8(0);
                out.u8(family.safi);
            }
            Self::RouteRefresh | Self::ExtendedMessage | Self::EnhancedRouteRefresh => {}
            Self::ExtendedNextHop(families) => {
                families.iter().for_each(|family| family.encode(out));
            }
            Self::LongLivedGracefulRestart(families) => {
                families.iter().for_each(|family| family.encode(out));
            }
            Self::GracefulRestart(restart) => restart.encode(out),
            Self::FourOctetAs(asn) => out.u32(*asn),
            Self::AddPath(families) => families.iter().for_each(|family| family.encode(out)),
            Self::Fqdn { host, domain } => {
                write_text(host, out);
                write_text(domain, out);
            }
            Self::SoftwareVersion(version) => write_text(version, out),
            Self::Unknown { value, .. } => out.slice(value),
        }
        out.patch_u8(length);
    }
}

impl GracefulRestart {
    /// ```text
    /// +- 4 bits: R N - - -+- 12 bits: seconds -+- AFI (2) SAFI (1) F (1) -+- ...
    /// ```
    fn decode(value: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let head = value.u16()?;
        let mut families = Vec::with_capacity(value.remaining() / 4);
        while !value.is_empty() {
            let family = Family {
                afi: value.u16()?,
                safi: value.u8()?,
            };
            families.push((family, value.u8()? & 0x80 != 0));
        }
        Ok(Self {
            restarted: head & 0x8000 != 0,
            notification: head & 0x4000 != 0,
            restart_secs: head & 0x0fff,
            families,
        })
    }

    fn encode(&self, out: &mut Writer) {
        let flag = |set: bool, bit: u16| if set { bit } else { 0 };
        let flags = flag(self.restarted, 0x8000) | flag(self.notification, 0x4000);
        out.u16(flags | self.restart_secs.min(0x0fff));
        for &(family, forwarding) in &self.families {
            out.u16(family.afi);
            out.u8(family.safi);
            out.u8(if forwarding { 0x80 } else { 0 });
        }
    }
}

impl AddPath {
    /// RFC 7911 §4: with a value that is none of the three the whole capability is as if it were not
    /// understood; `None` then.
    fn decode_all(value: &mut Reader<'_>) -> Result<Option<Vec<Self>>, DecodeError> {
        let mut understood = true;
        let mut all = Vec::with_capacity(value.remaining() / 4);
        while !value.is_empty() {
            let family = Family {
                afi: value.u16()?,
                safi: value.u8()?,
            };
            let mode = value.u8()?;
            understood &= matches!(mode, 1..=3);
            all.push(Self {
                family,
                receive: mode & 1 != 0,
                send: mode & 2 != 0,
            });
        }
        Ok(understood.then_some(all))
    }

    fn encode(self, out: &mut Writer) {
        out.u16(self.family.afi);
        out.u8(self.family.safi);
        out.u8(u8::from(self.receive) | (u8::from(self.send) << 1));
    }
}

impl ExtendedNextHop {
    /// ```text
    /// +- AFI (2) -+- SAFI (2) -+- next hop AFI (2) -+- ...
    /// ```
    /// A SAFI that does not fit one octet is no family, and is left out.
    fn decode_all(value: &mut Reader<'_>) -> Result<Vec<Self>, DecodeError> {
        let mut all = Vec::with_capacity(value.remaining() / 6);
        while !value.is_empty() {
            let (afi, safi, next_hop_afi) = (value.u16()?, value.u16()?, value.u16()?);
            if let Ok(safi) = u8::try_from(safi) {
                let family = Family { afi, safi };
                all.push(Self {
                    family,
                    next_hop_afi,
                });
            }
        }
        Ok(all)
    }

    fn encode(self, out: &mut Writer) {
        out.u16(self.family.afi);
        out.u16(self.family.safi.into());
        out.u16(self.next_hop_afi);
    }
}

impl LongLived {
    /// ```text
    /// +- AFI (2) -+- SAFI (1) -+- F (1) -+- seconds (3) -+- ...
    /// ```
    fn decode_all(value: &mut Reader<'_>) -> Result<Vec<Self>, DecodeError> {
        let mut all = Vec::with_capacity(value.remaining() / 7);
        while !value.is_empty() {
            let family = Family {
                afi: value.u16()?,
                safi: value.u8()?,
            };
            all.push(Self {
                family,
                forwarding: value.u8()? & 0x80 != 0,
                stale_secs: value.u24()?,
            });
        }
        Ok(all)
    }

    fn encode(self, out: &mut Writer) {
        out.u16(self.family.afi);
        out.u8(self.family.safi);
        out.u8(if self.forwarding { 0x80 } else { 0 });
        out.u24(self.stale_secs.min(Self::STALE_SECS_MAX));
    }

    /// The longest stale time, in seconds: 24 bits.
    pub const STALE_SECS_MAX: u32 = 0xff_ffff;
}

/// ```text
/// +-- 1 --+-- length --+-- 1 --+-- length --+
/// |length |    host    |length |   domain   |     draft-walton-bgp-hostname-capability
/// +-------+------------+-------+------------+
/// ```
fn fqdn(value: &mut Reader<'_>) -> Option<Capability> {
    let mut name = || {
        let length = value.u8().ok()?;
        text(value.take(length.into()).ok()?)
    };
    let (host, domain) = (name()?, name()?);
    let whole = value.is_empty();
    whole.then_some(Capability::Fqdn { host, domain })
}

/// ```text
/// +-- 1 --+-- length --+                          +-- length --+
/// |length |    text    |  up to version 14,  and  |    text    |  since version 15
/// +-------+------------+                          +------------+
/// ```
/// draft-abraitis-bgp-version-capability. FRR sends either, by `capability software-version latest-encoding`.
fn software_version(value: &[u8]) -> Option<Capability> {
    let (length, rest) = value.split_first()?;
    let octets = match usize::from(*length) == rest.len() {
        true => rest,
        false => value,
    };
    text(octets).map(Capability::SoftwareVersion)
}

/// The text; `None` when it is not UTF-8 or longer than we send.
fn text(octets: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(octets).ok()?;
    (text.len() <= TEXT_MAX).then(|| text.to_owned())
}

/// Writes as many whole characters as fit [`TEXT_MAX`].
fn write_text(text: &str, out: &mut Writer) {
    let mut end = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    let length = out.reserve_u8();
    out.slice(text.get(..end).unwrap_or_default().as_bytes());
    out.patch_u8(length);
}

/// Names longer than this are cut, so that a capability always fits its length octet.
const TEXT_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(octets: &[u8]) -> Result<Capability, DecodeError> {
        let body = Bytes::copy_from_slice(octets);
        let mut reader = Reader::new(&body, 0, crate::error::Fault::OpenMalformed);
        Capability::decode(&mut reader, &body)
    }

    #[test]
    fn the_software_version_is_read_in_both_of_its_forms() {
        let version = Capability::SoftwareVersion("FRRouting/10.6".to_owned());
        assert_eq!(decoded(b"\x4b\x0f\x0eFRRouting/10.6"), Ok(version.clone()));
        assert_eq!(decoded(b"\x4b\x0eFRRouting/10.6"), Ok(version));
    }

    #[test]
    fn a_name_that_cannot_be_read_is_unknown_and_refuses_nothing() {
        let long = [b'a'; 66];
        for (code, value) in [
            (75, &[][..]),
            (75, &[b'a', 0xff]),
            (75, &[1, 0xff]),
            (75, &long),
            (73, &[]),
            (73, &[9]),
            (73, &[1, b'a']),
            (73, &[1, b'a', 9]),
            (73, &[1, b'a', 0, 0]),
            (73, &[1, 0xff, 0]),
        ] {
            let length = u8::try_from(value.len()).unwrap();
            let octets = [&[code, length], value].concat();
            let value = Bytes::copy_from_slice(value);
            let unknown = Capability::Unknown { code, value };
            assert_eq!(decoded(&octets), Ok(unknown), "{octets:?}");
        }
    }
}
