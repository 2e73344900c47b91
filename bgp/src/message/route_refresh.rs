//! ROUTE-REFRESH. Knows no state: whether a refresh may be asked for now is the session's.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use crate::error::{DecodeError, Fault};
use crate::family::Family;
use crate::message::body_reader;
use crate::wire::Writer;

/// Asks for all routes of a family again, or marks where they begin and end.
///
/// ```text
/// +-- 2 --+-- 1 --+-- 1 --+
/// |  AFI  |subtype| SAFI  |     RFC 2918 §3, RFC 7313 §3.2
/// +-------+-------+-------+
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteRefresh {
    /// Of which family.
    pub family: Family,
    /// One of the constants below; others are to be ignored (RFC 7313 §5).
    pub subtype: u8,
}

impl RouteRefresh {
    /// Subtype: a request. RFC 2918.
    pub const REQUEST: u8 = 0;
    /// Subtype: beginning of the refresh. RFC 7313 §3.2.
    pub const BEGIN: u8 = 1;
    /// Subtype: end of the refresh. RFC 7313 §3.2.
    pub const END: u8 = 2;

    /// A request for `family`.
    #[must_use]
    pub fn request(family: Family) -> Self {
        Self {
            family,
            subtype: Self::REQUEST,
        }
    }

    /// The mark before the answer to a request. RFC 7313 §4.
    #[must_use]
    pub fn begin(family: Family) -> Self {
        Self {
            family,
            subtype: Self::BEGIN,
        }
    }

    /// The mark behind the answer to a request. RFC 7313 §4.
    #[must_use]
    pub fn end(family: Family) -> Self {
        Self {
            family,
            subtype: Self::END,
        }
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = body_reader(body, Fault::RouteRefreshLength);
        let afi = reader.u16()?;
        let subtype = reader.u8()?;
        let safi = reader.u8()?;
        // We never offer outbound route filters (RFC 5291), so nothing may follow.
        if !reader.is_empty() {
            return Err(reader.error(Fault::RouteRefreshLength));
        }
        Ok(Self {
            family: Family { afi, safi },
            subtype,
        })
    }

    pub(crate) fn encode(&self, out: &mut Writer) {
        out.u16(self.family.afi);
        out.u8(self.subtype);
        out.u8(self.family.safi);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_length_is_7_1() {
        let refresh = RouteRefresh::decode(&[0, 25, 0, 70]).unwrap();
        assert_eq!(refresh, RouteRefresh::request(Family::L2VPN_EVPN));
        for body in [&[][..], &[0, 25, 0], &[0, 25, 0, 70, 0]] {
            let notification = RouteRefresh::decode(body).unwrap_err().fault.notification();
            assert_eq!((notification.code, notification.subcode), (7, 1));
        }
    }
}
