//! Type 1, Ethernet auto-discovery: per segment (tag all ones) or per instance. RFC 7432 §7.1.

use std::fmt;

use weft_bgp::error::DecodeError;
use weft_bgp::rd::Rd;
use weft_bgp::wire::{Reader, Writer};

use super::label;
use crate::esi::Esi;
use crate::vni::{EthernetTag, Label};

/// ```text
/// +--- 8 ---+---- 10 ----+--- 4 ---+--- 3 ---+
/// |   RD    |    ESI     |   tag   |  label  |     key: all but the label
/// +---------+------------+---------+---------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct EthernetAd {
    /// What identifies it.
    pub key: EthernetAdKey,
    /// As sent; absent only from withdrawals of some speakers.
    pub label: Option<Label>,
}

/// Key of type 1.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EthernetAdKey {
    /// Route distinguisher.
    pub rd: Rd,
    /// The segment.
    pub esi: Esi,
    /// [`EthernetTag::MAX`]: about the whole segment.
    pub tag: EthernetTag,
}

impl EthernetAd {
    pub(super) fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let key = EthernetAdKey {
            rd: Rd(body.array()?),
            esi: Esi(body.array()?),
            tag: EthernetTag(body.u32()?),
        };
        Ok(Self {
            key,
            label: label(body)?,
        })
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        out.slice(&self.key.rd.0);
        out.slice(&self.key.esi.0);
        out.u32(self.key.tag.0);
        if let Some(label) = self.label {
            out.slice(&label.0);
        }
    }

    pub(super) fn payload_octets(&self, out: &mut Vec<u8>) {
        out.extend(self.label.iter().flat_map(|label| label.0));
    }

    pub(super) fn from_payload(key: EthernetAdKey, payload: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            key,
            label: label(payload).ok()?,
        })
    }
}

impl EthernetAdKey {
    /// Whether the route is about the whole segment: fast convergence and split horizon, RFC 7432
    /// §8.2.1, not aliasing.
    #[must_use]
    pub fn is_per_segment(&self) -> bool {
        self.tag == EthernetTag::MAX
    }

    pub(super) fn bare(self) -> EthernetAd {
        EthernetAd {
            key: self,
            label: Some(Label::ZERO),
        }
    }

    pub(super) fn octets(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.rd.0);
        out.extend_from_slice(&self.esi.0);
        out.extend_from_slice(&self.tag.0.to_be_bytes());
    }

    pub(super) fn from_octets(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            rd: Rd(reader.array().ok()?),
            esi: Esi(reader.array().ok()?),
            tag: EthernetTag(reader.u32().ok()?),
        })
    }
}

/// `[tag]:[ESI]:[IPlen]:[VTEP-IP]:[Frag-id]`: FRR has three fields more than the NLRI, and shows them
/// zero in a table that holds routes as they were received.
impl fmt::Display for EthernetAdKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]:[{}]:[32]:[0.0.0.0]:[0]", self.tag, self.esi)
    }
}
