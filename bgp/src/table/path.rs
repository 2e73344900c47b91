//! One peer's offer for one destination, and who the peer is to us. It does not know tables or octets.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::attribute::{Attributes, Community};
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

/// Whether the session that a path came from has ended, and which rule keeps the path all the same.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Stale {
    /// The session is there, or its end changed nothing.
    #[default]
    No,
    /// Kept for the restart time. Told as before. RFC 4724 §4.2.
    Graceful,
    /// Kept for the long-lived stale time: least preferred, and told only to those who know what that means.
    /// RFC 9494 §4.
    LongLived,
}

/// Where a path comes from. One `Arc` per peer, shared by all its paths; a table makes one more for each path id.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Source {
    /// Who.
    pub peer: PeerId,
    /// The peer's address: the last tie-breaker of the decision.
    pub address: IpAddr,
    /// What it is to us.
    pub kind: PeerKind,
    /// Whether its session is there.
    pub stale: Stale,
    /// What comes from it is known and told to nobody; chosen only where there is nothing else. Said of single paths, as
    /// the id below is.
    pub withheld: bool,
    /// What the peer calls this one of its paths, 0 where it sends no ids. RFC 7911 §3. It is here because a field of
    /// [`Path`] would cost every path 8 octets; [`super::Table::learn`] sets it.
    pub path_id: u32,
}

impl Source {
    /// A peer with a session that sends no path ids.
    #[must_use]
    pub fn new(peer: PeerId, address: IpAddr, kind: PeerKind) -> Self {
        Self {
            peer,
            address,
            kind,
            stale: Stale::No,
            withheld: false,
            path_id: 0,
        }
    }

    /// Its place among the paths of a destination.
    pub(super) fn place(&self) -> (PeerId, u32) {
        (self.peer, self.path_id)
    }
}

/// One peer's offer for one destination: two pointers and the NLRI.
#[derive(Clone, Debug)]
pub struct Path<N> {
    /// Who announced it, and under which path id.
    pub source: Arc<Source>,
    /// With which attributes, next hop included.
    pub attributes: Arc<Attributes>,
    /// The NLRI with what is not part of its key (ESI, labels, gateway).
    pub nlri: N,
}

impl<N> Path<N> {
    /// What its peer calls it, 0 without add-path.
    #[must_use]
    pub fn path_id(&self) -> u32 {
        self.source.path_id
    }

    /// Of a session that ended longer ago than the restart time, by our knowledge or by what the path says.
    /// RFC 9494 §4.3.
    #[must_use]
    pub fn is_long_lived_stale(&self) -> bool {
        self.source.stale == Stale::LongLived
            || self.attributes.communities.contains(&Community::LLGR_STALE)
    }
}

impl<N: Nlri> Path<N> {
    /// Equal in everything that can be sent: peer, NLRI, and attributes but for the unknown ones.
    #[must_use]
    pub fn sends_same(&self, other: &Self) -> bool {
        let long_lived = |path: &Self| path.source.stale == Stale::LongLived;
        self.source.peer == other.source.peer
            && self.source.kind == other.source.kind
            && self.source.withheld == other.source.withheld
            && long_lived(self) == long_lived(other)
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

/// One copy of a source for each of its path ids. Copies that no path holds are dropped when their number has doubled.
#[derive(Debug, Default)]
pub(super) struct Sources {
    copies: HashMap<(PeerId, u32), Arc<Source>, FixedState>,
    after_sweep: usize,
}

impl Sources {
    /// `source` with this path id; without one it is shared as it is.
    pub(super) fn with_id(&mut self, source: &Arc<Source>, path_id: u32) -> Arc<Source> {
        if source.path_id == path_id {
            return Arc::clone(source);
        }
        if self.copies.len() >= SWEEP_AT_LEAST.max(2 * self.after_sweep) {
            self.copies.retain(|_, copy| Arc::strong_count(copy) > 1);
            self.after_sweep = self.copies.len();
        }
        let wanted = Source {
            path_id,
            ..(**source).clone()
        };
        let copy = self
            .copies
            .entry(wanted.place())
            .or_insert_with(|| Arc::new(wanted.clone()));
        if **copy != wanted {
            *copy = Arc::new(wanted);
        }
        Arc::clone(copy)
    }
}

/// Below this many copies (about 100 kB) a sweep is not worth its scan.
const SWEEP_AT_LEAST: usize = 1024;
