//! Which path of a destination is the best one, and by which rule: RFC 4271 §9.1.2.2 and RFC 4456 §9.
//!
//! Elimination step by step over all paths at once. It is not an `Ord`: MED is compared only between paths from one
//! neighbouring AS, which is not transitive, so a pairwise scan would let the order of arrival decide.
//! It does not know what a destination is, who asked, or what will be sent.

use std::cmp::{Ordering, Reverse};
use std::fmt;

use crate::nlri::Nlri;
use crate::peer::RouterId;
use crate::table::{Path, PeerKind};

/// The rule that left one path standing.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// There is no path any more.
    NoPath,
    /// There was nothing to compare with.
    OnlyPath,
    /// Not withheld from everybody.
    Withheld,
    /// Not kept beyond its session's restart time. RFC 9494 §4.3.
    Stale,
    /// Not from a non-client, in a family where non-clients have to hear what others announce. RFC 4684 §3.2.
    NonClient,
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
    /// Lowest path id, among paths of one peer. RFC 7911 leaves it open; replicas must agree.
    PathId,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPath => "no path left",
            Self::OnlyPath => "only path",
            Self::Withheld => "not withheld",
            Self::Stale => "not long-lived stale",
            Self::NonClient => "not from a non-client",
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
            Self::PathId => "lowest path id",
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

/// The best of `paths`, or `None` if there is none. The order of `paths` does not matter as long as no peer is in it twice
/// with one path id.
///
/// The IGP cost of RFC 4271 §9.1.2.2 e is taken as equal: a reflector is not on the forwarding path, and its own
/// distance to a next hop says nothing about its clients' (RFC 9107 §1).
#[must_use]
pub fn select<N: Nlri>(paths: &[Path<N>]) -> Option<Selected<'_, N>> {
    let (index, by) = match paths.len() {
        0 => return None,
        1 => (0, Step::OnlyPath),
        _ => Candidates::all(paths).eliminate(),
    };
    paths.get(index).map(|path| Selected { path, index, by })
}

/// Places of the `max` best of `paths`, best first: the best of all, then the best of the others, and so on.
#[must_use]
pub fn best<N: Nlri>(paths: &[Path<N>], max: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..paths.len()).collect();
    let mut best = Vec::with_capacity(max.min(paths.len()));
    while best.len() < max && !left.is_empty() {
        let (index, _) = Candidates::of(paths, left.clone()).eliminate();
        left.retain(|place| *place != index);
        best.push(index);
    }
    best
}

/// The step that eliminated each path but the best one, in the order in which they went, by their places among `paths`.
#[must_use]
pub fn explain<N: Nlri>(paths: &[Path<N>]) -> Vec<(usize, Step)> {
    if paths.len() < 2 {
        return Vec::new();
    }
    let mut left = Candidates::all(paths);
    left.went = Some(Vec::new());
    left.eliminate();
    left.went.unwrap_or_default()
}

/// LOCAL_PREF where the attribute is absent: what every implementation takes.
pub const DEFAULT_LOCAL_PREF: u32 = 100;

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
    /// Those that went, for who wants to know.
    went: Option<Vec<(usize, Step)>>,
}

impl<'a, N: Nlri> Candidates<'a, N> {
    fn all(paths: &'a [Path<N>]) -> Self {
        Self::of(paths, (0..paths.len()).collect())
    }

    /// At least one.
    fn of(paths: &'a [Path<N>], indexes: Vec<usize>) -> Self {
        Self {
            paths,
            indexes,
            went: None,
        }
    }

    fn eliminate(&mut self) -> (usize, Step) {
        if self.indexes.len() == 1 {
            return self.decided(Step::OnlyPath);
        }
        // What may not be told is never better than what may be.
        let withheld = |path: &Path<N>| path.source.withheld;
        if self.paths.iter().any(withheld) && self.keep_lowest(Step::Withheld, withheld) {
            return self.decided(Step::Withheld);
        }
        // RFC 9494 §4.3: a route that is kept beyond its time is used only if there is no other.
        if self.paths.iter().any(Path::is_long_lived_stale)
            && self.keep_lowest(Step::Stale, Path::is_long_lived_stale)
        {
            return self.decided(Step::Stale);
        }
        if N::NON_CLIENTS_LAST
            && self.keep_lowest(Step::NonClient, |path| {
                path.source.kind == PeerKind::IbgpNonClient
            })
        {
            return self.decided(Step::NonClient);
        }
        if let Some(decided) = self.prefer_by_family() {
            return decided;
        }
        let local_pref = |path: &Path<N>| path.attributes.local_pref.unwrap_or(DEFAULT_LOCAL_PREF);
        if self.keep_lowest(Step::LocalPref, |path| Reverse(local_pref(path))) {
            return self.decided(Step::LocalPref);
        }
        if self.keep_lowest(Step::AsPathLength, |path| path.attributes.as_path.length()) {
            return self.decided(Step::AsPathLength);
        }
        if self.keep_lowest(Step::Origin, |path| path.attributes.origin) {
            return self.decided(Step::Origin);
        }
        if self.keep_lowest_med() {
            return self.decided(Step::Med);
        }
        if self.keep_lowest(Step::ExternalOverInternal, |path| {
            !path.source.kind.is_external()
        }) {
            return self.decided(Step::ExternalOverInternal);
        }
        if self.keep_lowest(Step::RouterId, originator) {
            return self.decided(Step::RouterId);
        }
        let clusters = |path: &Path<N>| path.attributes.cluster_list.len();
        if self.keep_lowest(Step::ClusterListLength, clusters) {
            return self.decided(Step::ClusterListLength);
        }
        if self.keep_lowest(Step::PeerAddress, |path| path.source.address) {
            return self.decided(Step::PeerAddress);
        }
        if self.keep_lowest(Step::PeerAs, |path| path.source.peer) {
            return self.decided(Step::PeerAs);
        }
        self.keep_lowest(Step::PathId, Path::path_id);
        self.decided(Step::PathId)
    }

    /// Keeps the paths whose rank is lowest; true when one is left.
    fn keep_lowest<R: Ord>(&mut self, by: Step, rank: impl Fn(&Path<N>) -> R) -> bool {
        let paths = self.paths;
        let lowest = self.indexes.iter().map(|i| rank(&paths[*i])).min();
        self.keep(by, |i| Some(rank(&paths[i])) == lowest)
    }

    /// Drops every path that has a rival from the same neighbouring AS with a lower MED; true when one is left.
    fn keep_lowest_med(&mut self) -> bool {
        let paths = self.paths;
        let mut lowest: Vec<(Option<u32>, u32)> = Vec::new();
        for path in self.indexes.iter().map(|i| &paths[*i]) {
            let (neighbour, med) = med_of(path);
            match lowest.iter_mut().find(|entry| entry.0 == neighbour) {
                Some(entry) => entry.1 = entry.1.min(med),
                None => lowest.push((neighbour, med)),
            }
        }
        self.keep(Step::Med, |i| lowest.contains(&med_of(&paths[i])))
    }

    /// Keeps those that pass; true when one is left.
    fn keep(&mut self, by: Step, pass: impl Fn(usize) -> bool) -> bool {
        let Self { indexes, went, .. } = self;
        if let Some(went) = went {
            let fail = indexes.iter().filter(|i| !pass(**i));
            went.extend(fail.map(|i| (*i, by)));
        }
        indexes.retain(|i| pass(*i));
        indexes.len() == 1
    }

    /// The family's own rules. Decided when one path is better than all others; otherwise the best ones stay.
    fn prefer_by_family(&mut self) -> Option<(usize, Step)> {
        let Self {
            paths,
            indexes,
            went,
        } = self;
        let compare = |a: usize, b: usize| {
            let (a, b) = (&paths[a], &paths[b]);
            N::prefer((&a.nlri, &a.attributes), (&b.nlri, &b.attributes))
        };
        let best = best_of(indexes, |a, b| compare(a, b).0)?;
        let (equal, worse): (Vec<usize>, Vec<usize>) = indexes
            .iter()
            .partition(|i| compare(**i, best).0 == Ordering::Equal);
        *indexes = equal;
        if let Some(went) = went {
            went.extend(worse.iter().map(|i| (*i, compare(best, *i).1)));
        }
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
