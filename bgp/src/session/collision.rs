//! Connection collision, RFC 4271 §6.8: which of two connections to one peer lives. It refuses to know their states.

use crate::peer::PeerId;

use super::Side;

/// The side whose connection survives: the one that the speaker with the higher router id initiated. With equal router
/// ids, which only an eBGP peer may have, the larger AS number decides (RFC 6286 §2.3).
pub(super) fn survivor(local: PeerId, remote: PeerId) -> Side {
    if (local.router_id, local.asn) > (remote.router_id, remote.asn) {
        Side::Outgoing
    } else {
        Side::Incoming
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::RouterId;

    fn id(router_id: u32, asn: u32) -> PeerId {
        PeerId {
            router_id: RouterId(router_id),
            asn,
        }
    }

    #[test]
    fn the_higher_router_id_keeps_the_connection_it_initiated() {
        assert_eq!(survivor(id(2, 64_496), id(1, 64_496)), Side::Outgoing);
        assert_eq!(survivor(id(1, 64_496), id(2, 64_496)), Side::Incoming);
        assert_eq!(
            survivor(id(0x8000_0000, 64_496), id(0x7fff_ffff, 64_496)),
            Side::Outgoing
        );
    }

    #[test]
    fn equal_router_ids_are_told_apart_by_the_larger_as() {
        assert_eq!(survivor(id(1, 64_497), id(1, 64_496)), Side::Outgoing);
        assert_eq!(survivor(id(1, 64_496), id(1, 64_497)), Side::Incoming);
    }
}
