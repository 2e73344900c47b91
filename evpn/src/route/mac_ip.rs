//! Type 2, a MAC address and perhaps an IP address of it. RFC 7432 §7.2, RFC 9135 §5.1.

use std::fmt;
use std::net::IpAddr;

use weft_bgp::error::{DecodeError, Fault};
use weft_bgp::rd::Rd;
use weft_bgp::wire::{Reader, Writer};

use super::{MAC_IP, address};
use crate::esi::Esi;
use crate::mac::Mac;
use crate::vni::{EthernetTag, Label};

/// ```text
/// +--- 8 ---+-- 10 --+-- 4 --+-- 1 --+-- 6 --+-- 1 --+- 0,4,16 -+--- 3 ---+-- 0,3 --+
/// |   RD    |  ESI   |  tag  |  48   |  MAC  | IPlen |    IP    | label 1 | label 2 |
/// +---------+--------+-------+-------+-------+-------+----------+---------+---------+
///     key              key             key               key
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct MacIp {
    /// What identifies it.
    pub key: MacIpKey,
    /// The segment behind which it is; zero when single-homed.
    pub esi: Esi,
    /// As sent.
    pub labels: Labels,
}

/// Key of type 2.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct MacIpKey {
    /// Route distinguisher.
    pub rd: Rd,
    /// Broadcast domain within the instance.
    pub tag: EthernetTag,
    /// The MAC address.
    pub mac: Mac,
    /// An address of the same host.
    pub ip: Option<IpAddr>,
}

/// The labels of type 2: of the bridge domain, and, with symmetric routing, of the IP-VRF. RFC 9135 §5.1.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Labels {
    /// Only in withdrawals of some speakers.
    None,
    /// Of the bridge domain.
    One(Label),
    /// Of the bridge domain and of the IP-VRF.
    Two(Label, Label),
}

impl Labels {
    /// Label of the bridge domain.
    #[must_use]
    pub fn first(self) -> Option<Label> {
        match self {
            Self::None => None,
            Self::One(first) | Self::Two(first, _) => Some(first),
        }
    }

    /// Label of the IP-VRF.
    #[must_use]
    pub fn second(self) -> Option<Label> {
        match self {
            Self::None | Self::One(_) => None,
            Self::Two(_, second) => Some(second),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if reader.is_empty() {
            return Ok(Self::None);
        }
        let first = Label(reader.array()?);
        if reader.is_empty() {
            return Ok(Self::One(first));
        }
        Ok(Self::Two(first, Label(reader.array()?)))
    }

    fn octets(self) -> impl Iterator<Item = u8> {
        [self.first(), self.second()]
            .into_iter()
            .flatten()
            .flat_map(|label| label.0)
    }
}

impl MacIp {
    pub(super) fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let rd = Rd(body.array()?);
        let esi = Esi(body.array()?);
        let tag = EthernetTag(body.u32()?);
        let bad_length = body.error(Fault::NlriValue {
            route_type: MAC_IP,
            what: "MAC address length",
        });
        if body.u8()? != MAC_BITS {
            return Err(bad_length);
        }
        let mac = Mac(body.array()?);
        let ip = address::read(body, MAC_IP)?;
        let labels = Labels::read(body)?;
        Ok(Self {
            key: MacIpKey { rd, tag, mac, ip },
            esi,
            labels,
        })
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        out.slice(&self.key.rd.0);
        out.slice(&self.esi.0);
        out.u32(self.key.tag.0);
        out.u8(MAC_BITS);
        out.slice(&self.key.mac.0);
        address::write(self.key.ip, out);
        for octet in self.labels.octets() {
            out.u8(octet);
        }
    }

    pub(super) fn payload_octets(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.esi.0);
        out.extend(self.labels.octets());
    }

    pub(super) fn from_payload(key: MacIpKey, payload: &mut Reader<'_>) -> Option<Self> {
        let esi = Esi(payload.array().ok()?);
        let labels = Labels::read(payload).ok()?;
        Some(Self { key, esi, labels })
    }
}

impl MacIpKey {
    pub(super) fn bare(self) -> MacIp {
        MacIp {
            key: self,
            esi: Esi::ZERO,
            labels: Labels::One(Label::ZERO),
        }
    }

    pub(super) fn octets(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.rd.0);
        out.extend_from_slice(&self.tag.0.to_be_bytes());
        out.extend_from_slice(&self.mac.0);
        if let Some(ip) = self.ip {
            address::octets(ip, out);
        }
    }

    pub(super) fn from_octets(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            rd: Rd(reader.array().ok()?),
            tag: EthernetTag(reader.u32().ok()?),
            mac: Mac(reader.array().ok()?),
            ip: address::from_octets(reader)?,
        })
    }
}

/// `[tag]:[48]:[MAC]` or `[tag]:[48]:[MAC]:[IPlen]:[IP]`.
impl fmt::Display for MacIpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]:[{MAC_BITS}]:[{}]", self.tag, self.mac)?;
        match self.ip {
            None => Ok(()),
            Some(ip) => write!(f, ":[{}]:[{ip}]", address::bits(self.ip)),
        }
    }
}

/// The only MAC address length there is.
const MAC_BITS: u8 = 48;
