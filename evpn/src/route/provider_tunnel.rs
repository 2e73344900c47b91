//! Types 9, 10 and 11: which tunnel carries flooded or selected frames of a region, and who joins it.
//! RFC 9572 §3. Knows the tunnel's attribute not.

use std::fmt;
use std::net::IpAddr;

use weft_bgp::attribute::ExtendedCommunity;
use weft_bgp::error::{DecodeError, Fault};
use weft_bgp::rd::Rd;
use weft_bgp::wire::{Reader, Writer};

use super::inclusive_multicast::{InclusiveMulticast, InclusiveMulticastKey};
use super::{INCLUSIVE_MULTICAST, LEAF, REGION_PMSI, SELECTIVE_PMSI, address, channel::Channel};
use crate::vni::EthernetTag;

/// Type 9, per-region I-PMSI A-D. RFC 9572 §3.1.
///
/// ```text
/// +--- 8 ---+-- 4 --+---- 8 ----+
/// |   RD    |  tag  |  region   |     key: all of it
/// +---------+-------+-----------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct RegionPmsi {
    /// All there is.
    pub key: RegionPmsiKey,
}

/// Key of type 9.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RegionPmsiKey {
    /// Route distinguisher.
    pub rd: Rd,
    /// Broadcast domain within the instance.
    pub tag: EthernetTag,
    /// The region: laid out as an extended community, and carried as it is. RFC 9572 §6.2.
    pub region: ExtendedCommunity,
}

/// Type 10, S-PMSI A-D. RFC 9572 §3.2.
///
/// ```text
/// +--- 8 ---+-- 4 --+--- 2 to 34 ---+----- 5,17 -----+
/// |   RD    |  tag  |    channel    |  originator    |     key: all of it
/// +---------+-------+---------------+----------------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct SelectivePmsi {
    /// All there is.
    pub key: SelectivePmsiKey,
}

/// Key of type 10.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SelectivePmsiKey {
    /// Route distinguisher.
    pub rd: Rd,
    /// Broadcast domain within the instance.
    pub tag: EthernetTag,
    /// What the tunnel carries.
    pub channel: Channel,
    /// Address of the originating router.
    pub originator: IpAddr,
}

/// Type 11, Leaf A-D: the originator joins the tunnel of another route. RFC 9572 §3.3.
///
/// ```text
/// +-- 1 --+-- 1 --+-- length --+----- 5,17 -----+
/// | type  | length|   route    |  originator    |     key: all of it; type: 3, 9 or 10
/// +-------+-------+------------+----------------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Leaf {
    /// All there is.
    pub key: LeafKey,
}

/// Key of type 11.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct LeafKey {
    /// The route that is answered.
    pub of: PmsiKey,
    /// Address of the router that answers.
    pub originator: IpAddr,
}

/// Routes that a type 11 may answer: those that advertise a tunnel. A type 11 never answers another one,
/// so that nothing nests. RFC 9572 §3.3.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum PmsiKey {
    /// Type 3.
    InclusiveMulticast(InclusiveMulticastKey),
    /// Type 9.
    RegionPmsi(RegionPmsiKey),
    /// Type 10.
    SelectivePmsi(SelectivePmsiKey),
}

impl RegionPmsiKey {
    pub(super) fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            rd: Rd(body.array()?),
            tag: EthernetTag(body.u32()?),
            region: ExtendedCommunity(body.array()?),
        })
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        out.slice(&self.rd.0);
        out.u32(self.tag.0);
        out.slice(&self.region.0);
    }
}

impl SelectivePmsiKey {
    pub(super) fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            rd: Rd(body.array()?),
            tag: EthernetTag(body.u32()?),
            channel: Channel::read(body, SELECTIVE_PMSI)?,
            originator: address::required(body, SELECTIVE_PMSI)?,
        })
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        out.slice(&self.rd.0);
        out.u32(self.tag.0);
        self.channel.write(out);
        address::write(Some(self.originator), out);
    }
}

impl LeafKey {
    pub(super) fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            of: PmsiKey::decode(body)?,
            originator: address::required(body, LEAF)?,
        })
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        self.of.encode(out);
        address::write(Some(self.originator), out);
    }
}

impl PmsiKey {
    /// Its route distinguisher.
    #[must_use]
    pub fn rd(&self) -> &Rd {
        match self {
            Self::InclusiveMulticast(key) => &key.rd,
            Self::RegionPmsi(key) => &key.rd,
            Self::SelectivePmsi(key) => &key.rd,
        }
    }

    /// Its route type: 3, 9 or 10.
    #[must_use]
    pub fn route_type(&self) -> u8 {
        match self {
            Self::InclusiveMulticast(_) => INCLUSIVE_MULTICAST,
            Self::RegionPmsi(_) => REGION_PMSI,
            Self::SelectivePmsi(_) => SELECTIVE_PMSI,
        }
    }

    /// The inner length bounds what is read for the key, and all of it has to be used.
    fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bad = body.error(Fault::NlriValue {
            route_type: LEAF,
            what: "route key",
        });
        let route_type = body.u8()?;
        let length = body.u8()?;
        let mut inner = body.sub(length.into())?.meaning(bad.fault);
        let key = match route_type {
            INCLUSIVE_MULTICAST => InclusiveMulticast::decode(&mut inner)
                .map(|route| Self::InclusiveMulticast(route.key)),
            REGION_PMSI => RegionPmsiKey::decode(&mut inner).map(Self::RegionPmsi),
            SELECTIVE_PMSI => SelectivePmsiKey::decode(&mut inner).map(Self::SelectivePmsi),
            _ => Err(bad),
        };
        key.ok().filter(|_| inner.is_empty()).ok_or(bad)
    }

    fn encode(&self, out: &mut Writer) {
        out.u8(self.route_type());
        let length = out.reserve_u8();
        match self {
            Self::InclusiveMulticast(key) => InclusiveMulticast { key: *key }.encode(out),
            Self::RegionPmsi(key) => key.encode(out),
            Self::SelectivePmsi(key) => key.encode(out),
        }
        out.patch_u8(length);
    }
}

/// `[tag]:[region]`, the region as sixteen hexadecimal digits.
impl fmt::Display for RegionPmsiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]:[", self.tag)?;
        for octet in self.region.0 {
            write!(f, "{octet:02x}")?;
        }
        f.write_str("]")
    }
}

/// `[tag]:[bits]:[source]:[bits]:[group]:[bits]:[originator]`.
impl fmt::Display for SelectivePmsiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = address::bits(Some(self.originator));
        let Self {
            tag,
            channel,
            originator,
            ..
        } = self;
        write!(f, "[{tag}]:{channel}:[{bits}]:[{originator}]")
    }
}

/// `[type]:` and the key of the route that is answered, then `:[bits]:[originator]`.
impl fmt::Display for LeafKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]:", self.of.route_type())?;
        match &self.of {
            PmsiKey::InclusiveMulticast(key) => key.fmt(f),
            PmsiKey::RegionPmsi(key) => key.fmt(f),
            PmsiKey::SelectivePmsi(key) => key.fmt(f),
        }?;
        let bits = address::bits(Some(self.originator));
        write!(f, ":[{bits}]:[{}]", self.originator)
    }
}
