//! Several paths of one destination: which of them are told, and what they are called. RFC 7911.
//!
//! It does not know what is told of a path, nor to whom.

use crate::decision;
use crate::nlri::Nlri;
use crate::peer::PeerId;
use crate::reflect::PathsTold;
use crate::table::Path;

/// The paths of a destination that are told, with the ids that we give them, by id. `paths` are all of it.
pub(super) fn told<'a, N: Nlri>(paths: &'a [Path<N>], told: PathsTold) -> Vec<(u32, &'a Path<N>)> {
    let ids = ids(paths);
    let with_id = |place: usize| -> (u32, &'a Path<N>) { (ids[place], &paths[place]) };
    let mut told: Vec<_> = match told {
        PathsTold::All => (0..paths.len()).map(with_id).collect(),
        PathsTold::Best(max) => {
            let best = decision::best(paths, max.get().into());
            best.into_iter().map(with_id).collect()
        }
    };
    told.sort_unstable_by_key(|(id, _)| *id);
    told
}

/// The id of each path: what its peer and the peer's own id hash to, or the next number that no earlier path has.
///
/// It is the same on every replica and after every restart, unique in a destination, never 0, and stays while other
/// paths come and go, unless they collide (of 64 paths, once in two million destinations).
fn ids<N>(paths: &[Path<N>]) -> Vec<u32> {
    let mut ids: Vec<u32> = Vec::with_capacity(paths.len());
    for path in paths {
        let mut id = hash(path.source.peer, path.path_id());
        while id == 0 || ids.contains(&id) {
            id = id.wrapping_add(1);
        }
        ids.push(id);
    }
    ids
}

/// Written out, since a library's hash may change with its version and machine: replicas must agree. SplitMix64's
/// finalizer, twice.
fn hash(peer: PeerId, path_id: u32) -> u32 {
    let who = (u64::from(peer.router_id.0) << 32) | u64::from(peer.asn);
    let octets = mix(mix(who) ^ u64::from(path_id)).to_be_bytes();
    let [a, b, c, d, ..] = octets;
    u32::from_be_bytes([a, b, c, d])
}

fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use super::*;
    use crate::attribute::Attributes;
    use crate::nlri::unicast::Prefix4;
    use crate::peer::RouterId;
    use crate::table::{PeerKind, Source};

    fn path(router_id: u32, path_id: u32) -> Path<Prefix4> {
        let peer = PeerId {
            router_id: RouterId(router_id),
            asn: 64_496,
        };
        let address = Ipv4Addr::new(192, 0, 2, 1).into();
        let source = Source {
            path_id,
            ..Source::new(peer, address, PeerKind::IbgpClient)
        };
        Path {
            source: Arc::new(source),
            attributes: Arc::new(Attributes::default()),
            nlri: Prefix4::new(Ipv4Addr::new(198, 51, 100, 1), 32).unwrap(),
        }
    }

    /// Written down: another number would be another id on the wire after an upgrade.
    #[test]
    fn ids_depend_on_nothing_but_the_peer_and_its_id() {
        let alone = ids(&[path(0xc000_0201, 0)]);
        assert_eq!(alone, [729_947_178]);
        let all = ids(&[path(1, 0), path(0xc000_0201, 0), path(0xc000_0201, 1)]);
        assert_eq!(all[1], alone[0]);
        assert!(all[0] != all[1] && all[1] != all[2]);
    }

    #[test]
    fn ids_are_unique_even_if_peers_collide() {
        let mut seen = std::collections::HashMap::new();
        let (a, b) = (0_u32..)
            .find_map(|number| {
                let other = seen.insert(hash(path(number, 0).source.peer, 0), number)?;
                Some((other, number))
            })
            .unwrap();
        let ids = ids(&[path(a, 0), path(b, 0)]);
        assert_eq!(ids[0].wrapping_add(1), ids[1]);
    }
}
