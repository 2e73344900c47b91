//! A route of a type that is not known here, as octets. Only those that opted in are told of one.

use std::fmt;

use weft_bgp::error::{DecodeError, Fault};
use weft_bgp::wire::{Reader, Writer};

use super::LEAF;

/// All octets are key: what of them is payload is not known. RFC 7432 §7 says only that there is a type
/// and a length.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Opaque {
    route_type: u8,
    octets: Box<[u8]>,
}

impl Opaque {
    /// `None` when the type is known here or reserved, or when the octets are none or more than 255.
    #[must_use]
    pub fn new(route_type: u8, octets: &[u8]) -> Option<Self> {
        let fits = !octets.is_empty() && octets.len() <= u8::MAX.into();
        (Self::is_opaque(route_type) && fits).then(|| Self {
            route_type,
            octets: octets.into(),
        })
    }

    /// Whether a type is of those above all known ones.
    #[must_use]
    pub fn is_opaque(route_type: u8) -> bool {
        route_type > LEAF
    }

    /// Route type, 12 to 255.
    #[must_use]
    pub fn route_type(&self) -> u8 {
        self.route_type
    }

    /// What follows the length, 1 to 255 octets.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    pub(super) fn decode(route_type: u8, body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let unknown = body.error(Fault::NlriType { route_type });
        Self::new(route_type, body.rest()).ok_or(unknown)
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        out.slice(&self.octets);
    }
}

/// `[` all octets in hexadecimal digits `]`.
impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for octet in &self.octets {
            write!(f, "{octet:02x}")?;
        }
        f.write_str("]")
    }
}
