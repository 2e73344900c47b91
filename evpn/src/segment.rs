//! Ethernet segments as the selected types 1 and 4 show them: who is attached, who forwards, over whom
//! hosts can be reached. Knows no host and no session.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;

use weft_bgp::table::{BestChange, Path};

use crate::community::{DfElection, EsiLabel, find, views};
use crate::designated_forwarder::{self, Algorithm, Candidate};
use crate::esi::Esi;
use crate::route::{EthernetAd, Route, RouteKey};
use crate::vni::{EthernetTag, Vni};
use crate::vtep::next_hop;

/// Who of a segment forwards: all, or one. RFC 7432 §14.1.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Redundancy {
    /// All VTEPs forward.
    AllActive,
    /// One VTEP forwards.
    SingleActive,
    /// They contradict each other; others take it for single-active.
    Mixed,
    /// No type 1 about the whole segment says.
    Unknown,
}

impl fmt::Display for Redundancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AllActive => "all-active",
            Self::SingleActive => "single-active",
            Self::Mixed => "mixed",
            Self::Unknown => "unknown",
        })
    }
}

/// Segments with more than nobody attached.
///
/// ```text
/// type 4              --> candidates: ESI -> originator -> what it wants
/// type 1, tag all ones --> per segment: ESI -> VTEP -> single-active?
/// type 1, other tags  --> per domain:  ESI -> (VNI, tag) -> VTEPs
/// ```
#[derive(Clone, Debug, Default)]
pub struct Segments {
    segments: BTreeMap<Esi, Segment>,
    /// What was learned from each route, to take it back.
    learned: HashMap<RouteKey, Said>,
}

/// One segment. Each entry counts the routes that say so.
#[derive(Clone, Debug, Default)]
struct Segment {
    candidates: BTreeMap<(IpAddr, Candidate), u32>,
    per_segment: BTreeMap<(IpAddr, bool), u32>,
    per_domain: BTreeMap<(Domain, IpAddr), u32>,
}

/// A broadcast domain as a type 1 names it: the VNI with VXLAN, and the tag.
type Domain = (Option<Vni>, EthernetTag);

/// What one route says.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Said {
    Candidate(Esi, Candidate),
    PerSegment(Esi, IpAddr, bool),
    PerDomain(Esi, Domain, IpAddr),
}

impl Segments {
    /// There are none.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a change of selection; it follows from `new` alone, so that changes may be given again.
    /// Types other than 1 and 4 change nothing.
    pub fn learn(&mut self, change: &BestChange<Route>) {
        let segment = matches!(
            change.key,
            RouteKey::EthernetAd(_) | RouteKey::EthernetSegment(_)
        );
        if !segment {
            return;
        }
        let said = change.new.as_ref().and_then(said);
        if self.learned.get(&change.key) == said.as_ref() {
            return;
        }
        if let Some(old) = self.learned.remove(&change.key) {
            self.uncount(old);
        }
        if let Some(said) = said {
            self.learned.insert(change.key.clone(), said);
            self.count(said);
        }
    }

    /// Every segment, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Esi> {
        self.segments.keys().copied()
    }

    /// The VTEPs of a segment by its types 4 and its types 1 about all of it, ascending.
    pub fn attached(&self, esi: Esi) -> impl Iterator<Item = IpAddr> {
        let segment = self.segments.get(&esi);
        let all: BTreeSet<IpAddr> = segment
            .into_iter()
            .flat_map(|segment| {
                let candidates = segment.candidates.keys().map(|(vtep, _)| *vtep);
                candidates.chain(segment.per_segment.keys().map(|(vtep, _)| *vtep))
            })
            .collect();
        all.into_iter()
    }

    /// Who of the segment forwards, by the ESI label communities. RFC 7432 §7.5.
    #[must_use]
    pub fn redundancy(&self, esi: Esi) -> Redundancy {
        let segment = self.segments.get(&esi);
        let said = |single: bool| {
            segment.is_some_and(|segment| segment.per_segment.keys().any(|it| it.1 == single))
        };
        match (said(false), said(true)) {
            (true, false) => Redundancy::AllActive,
            (false, true) => Redundancy::SingleActive,
            (true, true) => Redundancy::Mixed,
            (false, false) => Redundancy::Unknown,
        }
    }

    /// The candidates for forwarder, ascending.
    #[must_use]
    pub fn candidates(&self, esi: Esi) -> Vec<Candidate> {
        let segment = self.segments.get(&esi);
        let mut all: Vec<Candidate> = segment
            .into_iter()
            .flat_map(|segment| segment.candidates.keys().map(|(_, candidate)| *candidate))
            .collect();
        all.sort_unstable();
        // An originator is one candidate, whatever its route distinguishers.
        all.dedup_by_key(|candidate| candidate.originator);
        all
    }

    /// How the forwarder is elected. RFC 8584 §2.2.1.
    #[must_use]
    pub fn algorithm(&self, esi: Esi) -> Algorithm {
        designated_forwarder::agreed(&self.candidates(esi))
    }

    /// Whether its broadcast domains may have different forwarders: by the tag they are carved by, or since
    /// circuits count.
    #[must_use]
    pub fn goes_by_tag(&self, esi: Esi) -> bool {
        let candidates = self.candidates(esi);
        let carved = designated_forwarder::agreed(&candidates).goes_by_tag();
        carved && candidates.len() > 1 || designated_forwarder::by_circuit(&candidates)
    }

    /// The candidates for forwarder of a broadcast domain, ascending: `tag` is what its VTEPs count by, mostly
    /// the VLAN. Where all agree that circuits count, a VTEP is none unless it has a type 1 about the segment
    /// and one about the domain, which it withdraws when its circuit goes down. RFC 8584 §4.1.
    ///
    /// A type 1 is of the VTEP that is its next hop, and names its domain by the VNI or by its tag. A number that
    /// no type 1 names, such as a VLAN where the tags are zero, tells nothing of circuits: all count.
    #[must_use]
    pub fn candidates_for(&self, esi: Esi, tag: u32) -> Vec<Candidate> {
        let mut candidates = self.candidates(esi);
        let Some(segment) = self.segments.get(&esi) else {
            return candidates;
        };
        if designated_forwarder::by_circuit(&candidates) && segment.names(tag) {
            let up = segment.reached_over(|domain| names(domain, tag));
            candidates.retain(|candidate| up.contains(&candidate.originator));
        }
        candidates
    }

    /// The forwarder for a broadcast domain, among its candidates.
    #[must_use]
    pub fn forwarder(&self, esi: Esi, tag: u32) -> Option<IpAddr> {
        designated_forwarder::elect(&self.candidates_for(esi, tag), esi, tag)
    }

    /// The aliasing set: VTEPs over which hosts of the segment in this domain can be reached, whoever of
    /// them announced a host, ascending. Each has both a type 1 about the domain and one about the
    /// segment. RFC 7432 §8.4.
    pub fn aliases(&self, esi: Esi, vni: Option<Vni>, tag: EthernetTag) -> Vec<IpAddr> {
        let segment = self.segments.get(&esi);
        let over = segment.map(|segment| segment.reached_over(|domain| domain == (vni, tag)));
        over.into_iter().flatten().collect()
    }

    /// The domains that a segment is in, ascending.
    pub fn domains(&self, esi: Esi) -> impl Iterator<Item = (Option<Vni>, EthernetTag)> {
        let segment = self.segments.get(&esi);
        let all: BTreeSet<Domain> = segment
            .into_iter()
            .flat_map(|segment| segment.per_domain.keys().map(|(domain, _)| *domain))
            .collect();
        all.into_iter()
    }

    /// How many segments there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    fn count(&mut self, said: Said) {
        let count = self.counter(said);
        *count = count.saturating_add(1);
    }

    fn uncount(&mut self, said: Said) {
        let count = self.counter(said);
        *count = count.saturating_sub(1);
        let esi = said.esi();
        let Some(segment) = self.segments.get_mut(&esi) else {
            return;
        };
        segment.candidates.retain(|_, count| *count > 0);
        segment.per_segment.retain(|_, count| *count > 0);
        segment.per_domain.retain(|_, count| *count > 0);
        let gone = segment.candidates.is_empty()
            && segment.per_segment.is_empty()
            && segment.per_domain.is_empty();
        if gone {
            self.segments.remove(&esi);
        }
    }

    fn counter(&mut self, said: Said) -> &mut u32 {
        let segment = self.segments.entry(said.esi()).or_default();
        match said {
            Said::Candidate(_, candidate) => {
                let key = (candidate.originator, candidate);
                segment.candidates.entry(key).or_default()
            }
            Said::PerSegment(_, vtep, single) => {
                segment.per_segment.entry((vtep, single)).or_default()
            }
            Said::PerDomain(_, domain, vtep) => {
                segment.per_domain.entry((domain, vtep)).or_default()
            }
        }
    }
}

impl Segment {
    /// The VTEPs with a type 1 about the segment and one about such a domain.
    fn reached_over(&self, wanted: impl Fn(Domain) -> bool) -> BTreeSet<IpAddr> {
        let whole: BTreeSet<IpAddr> = self.per_segment.keys().map(|(vtep, _)| *vtep).collect();
        let domain = self.per_domain.keys();
        let both = domain.filter(|(domain, vtep)| wanted(*domain) && whole.contains(vtep));
        both.map(|(_, vtep)| *vtep).collect()
    }

    /// Whether a type 1 names a domain by this number.
    fn names(&self, number: u32) -> bool {
        let mut domains = self.per_domain.keys();
        domains.any(|(domain, _)| names(*domain, number))
    }
}

/// Whether this is the domain's VNI or tag. Zero is neither: it stands where there is none.
fn names((vni, tag): Domain, number: u32) -> bool {
    number != 0 && (tag.0 == number || vni.is_some_and(|vni| vni.number() == number))
}

impl Said {
    fn esi(self) -> Esi {
        match self {
            Self::Candidate(esi, _) | Self::PerSegment(esi, ..) | Self::PerDomain(esi, ..) => esi,
        }
    }
}

fn said(path: &Path<Route>) -> Option<Said> {
    let attributes = &path.attributes;
    match &path.nlri {
        Route::EthernetSegment(route) => {
            // Several count as none. RFC 8584 §2.2.1.
            let mut elections = views(attributes, DfElection::of);
            let election = elections.next().filter(|_| elections.next().is_none());
            let candidate = Candidate::new(route.key.originator, election);
            Some(Said::Candidate(route.key.esi, candidate))
        }
        Route::EthernetAd(EthernetAd { key, .. }) if key.esi.is_zero() => None,
        Route::EthernetAd(EthernetAd { key, .. }) if key.is_per_segment() => {
            let label = find(attributes, EsiLabel::of);
            let single = label.is_some_and(EsiLabel::is_single_active);
            Some(Said::PerSegment(key.esi, next_hop(attributes)?, single))
        }
        Route::EthernetAd(EthernetAd { key, .. }) => {
            let domain = (path.nlri.vni(attributes), key.tag);
            Some(Said::PerDomain(key.esi, domain, next_hop(attributes)?))
        }
        Route::MacIp(_)
        | Route::InclusiveMulticast(_)
        | Route::IpPrefix(_)
        | Route::SelectiveMulticast(_)
        | Route::MulticastJoin(_)
        | Route::MulticastLeave(_)
        | Route::RegionPmsi(_)
        | Route::SelectivePmsi(_)
        | Route::Leaf(_)
        | Route::Opaque(_) => None,
    }
}

#[cfg(test)]
mod tests;
