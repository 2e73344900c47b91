//! One peer's offer for one destination, and who the peer is to us. It does not know tables or octets.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::attribute::Attributes;
use crate::nlri::Nlri;
use crate::peer::PeerId;

/// What a peer is to us: decides what it may be told (RFC 4456 §6, RFC 7947).
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum PeerKind {
    /// Of our AS, a client of this reflector.
    IbgpClient,
    /// Of our AS, not a client: meshed with its like.
    IbgpNonClient,
    /// Of another AS, served as by a route server: AS_PATH untouched. RFC 7947.
    RouteServerClient,
    /// Of another AS, an ordinary neighbour: our AS is prepended.
    Ebgp,
}

impl PeerKind {
    /// True for a peer of another AS.
    #[must_use]
    pub fn is_external(self) -> bool {
        match self {
            Self::IbgpClient | Self::IbgpNonClient => false,
            Self::RouteServerClient | Self::Ebgp => true,
        }
    }
}

impl fmt::Display for PeerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IbgpClient => "client",
            Self::IbgpNonClient => "non-client",
            Self::RouteServerClient => "route server client",
            Self::Ebgp => "external",
        })
    }
}

/// Where a path comes from. One `Arc` per peer, shared by all its paths.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Source {
    /// Who.
    pub peer: PeerId,
    /// The peer's address: the last tie-breaker of the decision.
    pub address: IpAddr,
    /// What it is to us.
    pub kind: PeerKind,
}

/// One peer's offer for one destination: two pointers and the NLRI.
#[derive(Clone, Debug)]
pub struct Path<N> {
    /// Who announced it.
    pub source: Arc<Source>,
    /// With which attributes, next hop included.
    pub attributes: Arc<Attributes>,
    /// The NLRI with what is not part of its key (ESI, labels, gateway).
    pub nlri: N,
}

impl<N: Nlri> Path<N> {
    /// Equal in everything that can be sent: peer, NLRI, and attributes but for the unknown ones.
    #[must_use]
    pub fn sends_same(&self, other: &Self) -> bool {
        self.source.peer == other.source.peer
            && self.source.kind == other.source.kind
            && self.nlri == other.nlri
            && same_attributes(&self.attributes, &other.attributes)
    }
}

fn same_attributes(a: &Arc<Attributes>, b: &Arc<Attributes>) -> bool {
    if Arc::ptr_eq(a, b) || a == b {
        return true;
    }
    if a.unknown.is_empty() && b.unknown.is_empty() {
        return false;
    }
    let known = |attributes: &Attributes| Attributes {
        unknown: Vec::new(),
        ..attributes.clone()
    };
    known(a) == known(b)
}
