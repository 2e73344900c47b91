//! The naive reflector that is right by being simple. It refuses to know tables, groups and octets.

use super::*;

/// The naive reflector: facts only, everything is computed again.
pub(super) struct Model<N> {
    pub(super) facts: BTreeMap<N, BTreeMap<(usize, u32), Fact>>,
    pub(super) members: Vec<(Manner, Interest)>,
}

#[derive(Clone)]
pub(super) struct Fact {
    pub(super) attributes: Attributes,
    pub(super) stale: Stale,
}

pub(super) type Candidate<'a> = ((usize, u32), &'a Fact);

impl<N: Subject> Model<N> {
    pub(super) fn run(&mut self, op: &Op) {
        match op {
            Op::Announce {
                peer,
                path_id,
                nlri,
                says,
            } => {
                let paths = self.facts.entry(N::numbered(*nlri)).or_default();
                let fact = Fact {
                    attributes: says.attributes::<N>(&source(*peer)),
                    stale: Stale::No,
                };
                paths.insert((*peer, *path_id), fact);
            }
            Op::Withdraw {
                peer,
                path_id,
                nlri,
            } => {
                let paths = self.facts.entry(N::numbered(*nlri)).or_default();
                paths.remove(&(*peer, *path_id));
            }
            Op::Lose { peer } => self
                .facts
                .values_mut()
                .for_each(|paths| paths.retain(|(other, _), _| other != peer)),
            Op::Age { peer, stale } => {
                let all = self.facts.values_mut().flatten();
                all.filter(|((other, _), _)| other == peer)
                    .for_each(|(_, fact)| fact.stale = *stale);
            }
            Op::Turn {
                peer,
                manner,
                interest: number,
            } => {
                let member = &mut self.members[*peer];
                if member.0.fits(*manner) {
                    member.0 = *manner;
                }
                member.1 = interest(*number);
            }
            Op::Select | Op::Read { .. } | Op::Join { .. } => {}
        }
    }

    /// What a member holds: each NLRI with the attributes of each of its paths, written out to have an order.
    pub(super) fn view_of(&self, member: usize) -> Vec<(N, String)> {
        let (manner, interest) = &self.members[member];
        let mut view = Vec::new();
        for (nlri, paths) in &self.facts {
            let mut left: Vec<Candidate<'_>> = paths.iter().map(|(k, v)| (*k, v)).collect();
            let most = match manner.best {
                None => 1,
                Some(0) => left.len(),
                Some(best) => best.into(),
            };
            for _ in 0..most {
                let Some(best) = naive_best(left.clone()) else {
                    break;
                };
                left.retain(|(place, _)| *place != best.0);
                let ((peer, _), fact) = best;
                let told = naive_reflect(peer, fact, KINDS[member], *manner);
                let over_ipv6 = matches!(fact.attributes.next_hop, Some(NextHop::V6(_)));
                let withheld = N::family() == Family::IPV4_UNICAST && over_ipv6;
                if let Some(told) = told
                    && (manner.over_ipv6 || !withheld)
                    && peer != member
                    && naive_wants(interest, &told)
                {
                    view.push((*nlri, format!("{told:?}")));
                }
            }
        }
        view.sort();
        view
    }
}

/// By number again, so that it is not the implementation that is asked.
pub(super) fn naive_wants(wish: &Interest, told: &Attributes) -> bool {
    let number = (0..INTERESTS).find(|number| interest(*number) == *wish);
    let number = number.unwrap();
    let all = &told.ext_communities;
    let everything = number == 0;
    everything
        || all.is_empty()
        || (0..3).any(|bit| number & (1 << bit) != 0 && all.contains(&target(bit)))
}

/// RFC 4271 §9.1.2.2 read aloud.
pub(super) fn naive_best(mut left: Vec<Candidate<'_>>) -> Option<Candidate<'_>> {
    fn keep<K: Ord>(left: &mut Vec<Candidate<'_>>, rank: impl Fn(usize, &Attributes) -> K) {
        let of = |((peer, _), fact): &Candidate<'_>| rank(*peer, &fact.attributes);
        let best = left.iter().map(of).min();
        left.retain(|candidate| Some(of(candidate)) == best);
    }
    let old = |(_, fact): &Candidate<'_>| {
        fact.stale == Stale::LongLived || says(&fact.attributes, Community::LLGR_STALE)
    };
    if !left.iter().all(old) {
        left.retain(|candidate| !old(candidate));
    }
    keep(&mut left, |_, a| u32::MAX - a.local_pref.unwrap_or(100));
    keep(&mut left, |_, a| a.as_path.length());
    keep(&mut left, |_, a| match a.origin {
        Origin::Igp => 0,
        Origin::Egp => 1,
        Origin::Incomplete => 2,
    });
    let rivals = left.clone();
    left.retain(|(_, a)| {
        !rivals.iter().any(|(_, b)| {
            let (a, b) = (&a.attributes, &b.attributes);
            a.as_path.neighbor_as() == b.as_path.neighbor_as()
                && b.med.unwrap_or(0) < a.med.unwrap_or(0)
        })
    });
    keep(&mut left, |peer, _| !KINDS[peer].is_external());
    keep(&mut left, |peer, a| {
        a.originator_id.unwrap_or(source(peer).peer.router_id)
    });
    keep(&mut left, |_, a| a.cluster_list.len());
    keep(&mut left, |peer, _| -> IpAddr { source(peer).address });
    left.into_iter().min_by_key(|((_, path_id), _)| *path_id)
}

pub(super) fn says(attributes: &Attributes, community: Community) -> bool {
    attributes.communities.contains(&community)
}

pub(super) fn naive_reflect(
    from: usize,
    fact: &Fact,
    to: PeerKind,
    manner: Manner,
) -> Option<Attributes> {
    let mut told = naive_told(from, &fact.attributes, to)?;
    let long_lived = fact.stale == Stale::LongLived;
    let marked = says(&told, Community::LLGR_STALE);
    if (long_lived || marked) && !manner.long_lived {
        return None;
    }
    if long_lived && says(&told, Community::NO_LLGR) {
        return None;
    }
    if long_lived && !marked {
        told.communities.push(Community::LLGR_STALE);
    }
    if manner.graceful_shutdown {
        told.communities.push(Community::GRACEFUL_SHUTDOWN);
        told.local_pref = told.local_pref.map(|_| 0);
    }
    Some(told)
}

pub(super) fn naive_told(from: usize, attributes: &Attributes, to: PeerKind) -> Option<Attributes> {
    let from = source(from);
    let mut told = attributes.clone();
    let no_export = says(attributes, Community::NO_EXPORT);
    if says(attributes, Community::NO_ADVERTISE) || (to.is_external() && no_export) {
        return None;
    }
    if from.kind == PeerKind::IbgpNonClient && to == PeerKind::IbgpNonClient {
        return None;
    }
    if !to.is_external() {
        told.local_pref = told.local_pref.or(Some(100));
        if !from.kind.is_external() {
            told.originator_id = told.originator_id.or(Some(from.peer.router_id));
            told.cluster_list.insert(0, LOCAL.cluster_id);
        }
        return Some(told);
    }
    told.local_pref = None;
    told.originator_id = None;
    told.cluster_list.clear();
    if to == PeerKind::Ebgp || !from.kind.is_external() {
        if told.as_path.length() > 0 {
            told.med = None;
        }
        told.as_path.prepend(LOCAL.asn);
    }
    Some(told)
}
