//! Which path of a destination is the best one, and by which rule: RFC 4271 §9.1.2.2 and RFC 4456 §9.
//!
//! Elimination step by step over all paths at once. It is not an `Ord`: MED is compared only between paths from one
//! neighbouring AS, which is not transitive, so a pairwise scan would let the order of arrival decide.
//! It does not know what a destination is, who asked, or what will be sent.

use std::cmp::{Ordering, Reverse};
use std::fmt;

use crate::nlri::Nlri;
use crate::peer::RouterId;
use crate::table::Path;

/// The rule that left one path standing.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// There is no path any more.
    NoPath,
    /// There was nothing to compare with.
    OnlyPath,
    /// A rule of the family that comes before the standard ones, in its own words (EVPN: RFC 7432 §15).
    Family(&'static str),
    /// Highest LOCAL_PREF, 100 where it is absent. RFC 4271 §9.1.1.
    LocalPref,
    /// Shortest AS_PATH. RFC 4271 §9.1.2.2 a.
    AsPathLength,
    /// Lowest ORIGIN. RFC 4271 §9.1.2.2 b.
    Origin,
    /// Lowest MED among paths from one neighbouring AS, 0 where it is absent. RFC 4271 §9.1.2.2 c.
    Med,
    /// Learned from another AS rather than from our own. RFC 4271 §9.1.2.2 d.
    ExternalOverInternal,
    /// Lowest ORIGINATOR_ID, or router id of the peer where it is absent. RFC 4271 §9.1.2.2 f, RFC 4456 §9.
    RouterId,
    /// Shortest CLUSTER_LIST. RFC 4456 §9.
    ClusterListLength,
    /// Lowest address of the peer. RFC 4271 §9.1.2.2 g.
    PeerAddress,
    /// Lowest AS of the peer: two speakers may share a router id (RFC 6286 §2.1) and, behind a relay, an address.
    PeerAs,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPath => "no path left",
            Self::OnlyPath => "only path",
            Self::Family(words) => words,
            Self::LocalPref => "highest local preference",
            Self::AsPathLength => "shortest AS path",
            Self::Origin => "lowest origin",
            Self::Med => "lowest MED from the same neighbouring AS",
            Self::ExternalOverInternal => "external over internal",
            Self::RouterId => "lowest originator or router id",
            Self::ClusterListLength => "shortest cluster list",
            Self::PeerAddress => "lowest peer address",
            Self::PeerAs => "lowest peer AS",
        })
    }
}

/// The best path and why it is that.
#[derive(Debug)]
pub struct Selected<'a, N> {
    /// The path.
    pub path: &'a Path<N>,
    /// Its place among the paths that were given.
    pub index: usize,
    /// The rule that eliminated the last rival.
    pub by: Step,
}

/// The best of `paths`, or `None` if there is none. The order of `paths` does not matter as long as no peer is in it twice.
///
/// The IGP cost of RFC 4271 §9.1.2.2 e is taken as equal: a reflector is not on the forwarding path, and its own
/// distance to a next hop says nothing about its clients' (RFC 9107 §1).
#[must_use]
pub fn select<N: Nlri>(paths: &[Path<N>]) -> Option<Selected<'_, N>> {
    let (index, by) = match paths.len() {
        0 => return None,
        1 => (0, Step::OnlyPath),
        _ => eliminate(paths),
    };
    paths.get(index).map(|path| Selected { path, index, by })
}

/// LOCAL_PREF where the attribute is absent: what every implementation takes.
pub const DEFAULT_LOCAL_PREF: u32 = 100;

fn eliminate<N: Nlri>(paths: &[Path<N>]) -> (usize, Step) {
    let mut left = Candidates {
        paths,
        indexes: (0..paths.len()).collect(),
    };
    if let Some(decided) = left.prefer_by_family() {
        return decided;
    }
    if left.keep_lowest(|path| Reverse(path.attributes.local_pref.unwrap_or(DEFAULT_LOCAL_PREF))) {
        return left.decided(Step::LocalPref);
    }
    if left.keep_lowest(|path| path.attributes.as_path.length()) {
        return left.decided(Step::AsPathLength);
    }
    if left.keep_lowest(|path| path.attributes.origin) {
        return left.decided(Step::Origin);
    }
    if left.keep_lowest_med() {
        return left.decided(Step::Med);
    }
    if left.keep_lowest(|path| !path.source.kind.is_external()) {
        return left.decided(Step::ExternalOverInternal);
    }
    if left.keep_lowest(originator) {
        return left.decided(Step::RouterId);
    }
    if left.keep_lowest(|path| path.attributes.cluster_list.len()) {
        return left.decided(Step::ClusterListLength);
    }
    if left.keep_lowest(|path| path.source.address) {
        return left.decided(Step::PeerAddress);
    }
    left.keep_lowest(|path| path.source.peer);
    left.decided(Step::PeerAs)
}

/// RFC 4456 §9: ORIGINATOR_ID stands in for the router id of the peer.
fn originator<N>(path: &Path<N>) -> RouterId {
    path.attributes
        .originator_id
        .unwrap_or(path.source.peer.router_id)
}

/// The paths that no step has eliminated yet.
struct Candidates<'a, N> {
    paths: &'a [Path<N>],
    indexes: Vec<usize>,
}

impl<N: Nlri> Candidates<'_, N> {
    /// Keeps the paths whose rank is lowest; true when one is left.
    fn keep_lowest<R: Ord>(&mut self, rank: impl Fn(&Path<N>) -> R) -> bool {
        let Self { paths, indexes } = self;
        let lowest = indexes.iter().map(|i| rank(&paths[*i])).min();
        indexes.retain(|i| Some(rank(&paths[*i])) == lowest);
        indexes.len() == 1
    }

    /// Drops every path that has a rival from the same neighbouring AS with a lower MED; true when one is left.
    fn keep_lowest_med(&mut self) -> bool {
        let Self { paths, indexes } = self;
        let mut lowest: Vec<(Option<u32>, u32)> = Vec::new();
        for path in indexes.iter().map(|i| &paths[*i]) {
            let (neighbour, med) = med_of(path);
            match lowest.iter_mut().find(|entry| entry.0 == neighbour) {
                Some(entry) => entry.1 = entry.1.min(med),
                None => lowest.push((neighbour, med)),
            }
        }
        indexes.retain(|i| lowest.contains(&med_of(&paths[*i])));
        indexes.len() == 1
    }

    /// The family's own rules. Decided when one path is better than all others; otherwise the best ones stay.
    fn prefer_by_family(&mut self) -> Option<(usize, Step)> {
        let Self { paths, indexes } = self;
        let compare = |a: usize, b: usize| {
            let (a, b) = (&paths[a], &paths[b]);
            N::prefer((&a.nlri, &a.attributes), (&b.nlri, &b.attributes))
        };
        let best = best_of(indexes, |a, b| compare(a, b).0)?;
        let (equal, worse): (Vec<usize>, Vec<usize>) = indexes
            .iter()
            .partition(|i| compare(**i, best).0 == Ordering::Equal);
        *indexes = equal;
        if indexes.len() > 1 {
            return None;
        }
        let runner_up = best_of(&worse, |a, b| compare(a, b).0)?;
        Some((best, compare(best, runner_up).1))
    }

    fn decided(&self, by: Step) -> (usize, Step) {
        let first = self.indexes.first().copied();
        (first.expect("a step keeps the best path"), by)
    }
}

/// The first of those that no other beats. A family's rules are a total preorder, so one scan finds it.
fn best_of(indexes: &[usize], compare: impl Fn(usize, usize) -> Ordering) -> Option<usize> {
    indexes
        .iter()
        .copied()
        .reduce(|best, next| match compare(next, best) {
            Ordering::Greater => next,
            Ordering::Less | Ordering::Equal => best,
        })
}

/// The neighbouring AS, `None` for a path that began in our own AS, and the MED, 0 where it is absent.
fn med_of<N>(path: &Path<N>) -> (Option<u32>, u32) {
    let attributes = &path.attributes;
    (
        attributes.as_path.neighbor_as(),
        attributes.med.unwrap_or_default(),
    )
}
