//! PMSI_TUNNEL: how to reach many. Knows the layout, not whose label it is.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::net::IpAddr;

use bytes::Bytes;

use crate::attribute::row::code;
use crate::error::{DecodeError, Fault};
use crate::wire::{Reader, Writer};

/// A tunnel to several routers. RFC 6514 §5. The endpoint of a type that is not known here, and of a composite tunnel
/// (RFC 8317 §6), is carried as it came.
///
/// ```text
/// +-- 1 --+-- 1 --+--- 3 ---+--- ... ---+
/// | flags | type  |  label  |  endpoint |     label: a VNI with VXLAN, RFC 8365 §5.1.3
/// +-------+-------+---------+-----------+
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PmsiTunnel {
    /// Flags, unchanged.
    pub flags: u8,
    /// Tunnel type; [`PmsiTunnel::INGRESS_REPLICATION`] in EVPN.
    pub tunnel_type: u8,
    /// The three octets, unchanged.
    pub label: [u8; 3],
    /// Tunnel identifier, as the type says.
    pub endpoint: Bytes,
}

impl PmsiTunnel {
    /// Type: no tunnel information.
    pub const NONE: u8 = 0;
    /// Type: ingress replication; the endpoint is the address to send to.
    pub const INGRESS_REPLICATION: u8 = 6;

    /// Ingress replication to `endpoint`.
    #[must_use]
    pub fn ingress_replication(label: [u8; 3], endpoint: IpAddr) -> Self {
        let endpoint = match endpoint {
            IpAddr::V4(address) => Bytes::copy_from_slice(&address.octets()),
            IpAddr::V6(address) => Bytes::copy_from_slice(&address.octets()),
        };
        Self {
            flags: 0,
            tunnel_type: Self::INGRESS_REPLICATION,
            label,
            endpoint,
        }
    }

    /// The endpoint, where it is an address and nothing else.
    #[must_use]
    pub fn endpoint_address(&self) -> Option<IpAddr> {
        if let Ok(address) = <[u8; 4]>::try_from(self.endpoint.as_ref()) {
            return Some(address.into());
        }
        let address = <[u8; 16]>::try_from(self.endpoint.as_ref()).ok()?;
        Some(address.into())
    }

    /// Whether it is ingress replication to an IPv4 address, which every speaker that knows the attribute reads. FRR
    /// 8.4.4 ends the session on others, in whatever family they are.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.tunnel_type == Self::INGRESS_REPLICATION && self.endpoint.len() == 4
    }

    /// The value of the attribute. RFC 6514 §5: an identifier that does not fit the type is malformed. A type that is
    /// not defined would be too; defined by others later, it is no fault of the route.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let malformed = reader.error(Fault::AttributeValue {
            code: code::PMSI_TUNNEL,
        });
        let flags = reader.u8()?;
        let tunnel_type = reader.u8()?;
        let label = reader.array()?;
        let endpoint = reader.rest();
        if !endpoint_fits(tunnel_type, endpoint.len()) {
            return Err(malformed);
        }
        let endpoint = Bytes::copy_from_slice(endpoint);
        Ok(Self {
            flags,
            tunnel_type,
            label,
            endpoint,
        })
    }

    pub(crate) fn encode(&self, out: &mut Writer) {
        out.u8(self.flags);
        out.u8(self.tunnel_type);
        out.slice(&self.label);
        out.slice(&self.endpoint);
    }
}

/// IANA, "P-Multicast Service Interface Tunnel (PMSI Tunnel) Tunnel Types".
fn endpoint_fits(tunnel_type: u8, length: usize) -> bool {
    match tunnel_type {
        PmsiTunnel::NONE => length == 0,
        // RSVP-TE P2MP LSP, RFC 6514 §5.
        1 => matches!(length, 12 | 24),
        // mLDP P2MP and MP2MP LSP: a FEC element. BIER, RFC 8556 §2.
        2 | 7 | 11 => length > 0,
        // PIM-SSM, PIM-SM and BIDIR-PIM trees: sender and group.
        3..=5 => matches!(length, 8 | 32),
        PmsiTunnel::INGRESS_REPLICATION => matches!(length, 4 | 16),
        // Assisted replication, RFC 9574 §4.
        10 => matches!(length, 4 | 16),
        // Not known here, or composite.
        _ => true,
    }
}
