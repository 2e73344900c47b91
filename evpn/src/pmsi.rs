//! The PMSI tunnel attribute as EVPN with ingress replication uses it. Knows no route.

use std::net::IpAddr;

use weft_bgp::attribute::PmsiTunnel;

use crate::vni::Label;

/// Flooded frames are sent to each VTEP by itself. RFC 6514 §5, RFC 7432 §11.2, RFC 8365 §5.1.3.
///
/// ```text
/// +-- 1 --+-- 1 --+--- 3 ---+-- 4,16 --+
/// | flags |   6   |  label  | endpoint |
/// +-------+-------+---------+----------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct IngressReplication {
    /// The flags octet as sent; 0x01: leaf information required.
    pub flags: u8,
    /// As sent; a VNI with VXLAN.
    pub label: Label,
    /// Where to send.
    pub endpoint: IpAddr,
}

/// Why a PMSI tunnel is not that.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PmsiFault {
    /// Another tunnel type than ingress replication.
    TunnelType(u8),
    /// An endpoint of neither 4 nor 16 octets.
    EndpointLength(usize),
}

impl TryFrom<&PmsiTunnel> for IngressReplication {
    type Error = PmsiFault;

    fn try_from(tunnel: &PmsiTunnel) -> Result<Self, PmsiFault> {
        if tunnel.tunnel_type != PmsiTunnel::INGRESS_REPLICATION {
            return Err(PmsiFault::TunnelType(tunnel.tunnel_type));
        }
        let bad_length = PmsiFault::EndpointLength(tunnel.endpoint.len());
        let endpoint = tunnel.endpoint_address().ok_or(bad_length)?;
        Ok(Self {
            flags: tunnel.flags,
            label: Label(tunnel.label),
            endpoint,
        })
    }
}

impl From<IngressReplication> for PmsiTunnel {
    fn from(tunnel: IngressReplication) -> Self {
        Self {
            flags: tunnel.flags,
            ..Self::ingress_replication(tunnel.label.0, tunnel.endpoint)
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn both_families_survive_a_round_trip() {
        for endpoint in ["192.0.2.1", "2001:db8::1"] {
            let endpoint = endpoint.parse().unwrap();
            let view = IngressReplication {
                flags: 1,
                label: Label([0, 0, 100]),
                endpoint,
            };
            let tunnel = PmsiTunnel::from(view);
            assert_eq!(tunnel.tunnel_type, 6);
            assert_eq!(IngressReplication::try_from(&tunnel), Ok(view));
        }
    }

    #[test]
    fn other_tunnels_are_no_ingress_replication() {
        let tunnel = |tunnel_type, octets: &'static [u8]| {
            let endpoint = Bytes::from_static(octets);
            IngressReplication::try_from(&PmsiTunnel {
                flags: 0,
                tunnel_type,
                label: [0; 3],
                endpoint,
            })
        };
        assert_eq!(tunnel(0, &[]), Err(PmsiFault::TunnelType(0)));
        assert_eq!(tunnel(6, &[1; 5]), Err(PmsiFault::EndpointLength(5)));
    }
}
