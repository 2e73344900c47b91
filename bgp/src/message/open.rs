//! OPEN: what a speaker says of itself first. Knows what every OPEN must satisfy, not which AS this
//! peer should have: that is the session's.

#![deny(clippy::indexing_slicing)]

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
    /// Whether a peer may use its BGP identifier beside ours. RFC 6286 §2.2: not the same one in
    /// one AS.
    ///
    /// # Errors
    /// [`Fault::RouterId`].
    pub fn check_router_id(&self, asn: u32, router_id: RouterId) -> Result<(), DecodeError> {
        if self.asn == asn && self.router_id == router_id {
            let fault = Fault::RouterId { router_id: self.router_id.0 };
            return Err(DecodeError { fault, offset: ROUTER_ID_AT });
        }
        Ok(())
    }

    /// AS, hold time and identifier are checked before the parameters are looked at.
    pub(crate) fn decode(body: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = body_reader(body, Fault::MessageLength { length: 19 });
        let at = reader.error(Fault::OpenMalformed);
        let version = reader.u8()?;
        if version != VERSION {
            return Err(DecodeError { fault: Fault::Version { version }, ..at });
        }
        let at = reader.offset();
        let as2 = reader.u16()?;
        let bad_as = |asn| DecodeError { fault: Fault::PeerAs { asn }, offset: at };
        if as2 == 0 {
            return Err(bad_as(0));
        }
        let at = reader.offset();
        let hold_secs = reader.u16()?;
        if matches!(hold_secs, 1 | 2) {
            return Err(DecodeError { fault: Fault::HoldTime { secs: hold_secs }, offset: at });
        }
        let bad_id = reader.error(Fault::RouterId { router_id: 0 });
        let router_id = RouterId(reader.u32()?);
        if router_id == RouterId(0) {
            return Err(bad_id);
        }
        let capabilities = parameters(reader.meaning(Fault::OpenMalformed), body)?;
        let asn = true_as(as2, &capabilities).map_err(bad_as)?;
        Ok(Self { asn, hold_secs, router_id, capabilities })
    }

    pub(crate) fn encode(&self, out: &mut Writer) {
        out.u8(VERSION);
        out.u16(u16::try_from(self.asn).unwrap_or(AS_TRANS));
        out.u16(self.hold_secs);
        out.u32(self.router_id.0);
        let mut value = Writer::new();
        self.capabilities.iter().for_each(|capability| capability.encode(&mut value));
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
        let length = if extended { all.u16()? } else { all.u8()?.into() };
        let mut value = all.sub(length.into())?;
        if code != CAPABILITIES {
            return Err(DecodeError { fault: Fault::OptionalParameter { code }, offset: at });
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
    let mut asns = capabilities.iter().filter_map(|capability| match capability {
        Capability::FourOctetAs(asn) => Some(*asn),
        Capability::MultiProtocol(_)
        | Capability::RouteRefresh
        | Capability::ExtendedMessage
        | Capability::GracefulRestart(_)
        | Capability::AddPath(_)
        | Capability::EnhancedRouteRefresh
        | Capability::Fqdn { .. }
        | Capability::SoftwareVersion(_)
        | Capability::Unknown { .. } => None,
    });
    let Some(asn) = asns.next() else {
        // AS_TRANS is nobody's number.
        return if as2 == AS_TRANS { Err(as2.into()) } else { Ok(as2.into()) };
    };
    let agrees = as2 == AS_TRANS || u32::from(as2) == asn;
    let is_number = asn != 0 && asn != u32::from(AS_TRANS);
    if agrees && is_number && asns.all(|other| other == asn) { Ok(asn) } else { Err(asn) }
}

const VERSION: u8 = 4;
const CAPABILITIES: u8 = 2;
const EXTENDED: u8 = 255;
const ROUTER_ID_AT: u32 = 24;
