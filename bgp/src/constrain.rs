//! Which routes a peer wants to hear of, by their route targets: RFC 4684, and what a peer that cannot say so shows by
//! the targets of its own routes. It does not know who the peer is, nor how routes reach it.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use crate::attribute::{Attributes, ExtendedCommunity};
use crate::nlri::route_target::Membership;

/// The route targets of a path, each once and in order. Paths of one tenant share theirs.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Targets {
    all: Option<Arc<[ExtendedCommunity]>>,
    /// [`Interest::Auto`] wants them whatever they are.
    apart: bool,
}

impl Targets {
    /// Of these attributes. ES-Import (RFC 7432 §7.6) and what else selects receivers in other ways is not one of them.
    #[must_use]
    pub fn of(attributes: &Attributes) -> Self {
        let all = attributes.ext_communities.iter().copied();
        let mut targets: Vec<_> = all
            .filter(|community| is_route_target(*community))
            .collect();
        if targets.is_empty() {
            return Self::default();
        }
        targets.sort_unstable();
        targets.dedup();
        Self {
            all: Some(targets.into()),
            apart: false,
        }
    }

    /// The same, of a route that [stands apart](crate::nlri::Nlri::stands_apart) or not.
    #[must_use]
    pub fn standing(self, apart: bool) -> Self {
        Self { apart, ..self }
    }

    /// True without any: such a path is wanted by all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_none()
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = ExtendedCommunity> {
        self.all.iter().flat_map(|targets| targets.iter().copied())
    }

    /// Equal, at the price of a comparison of addresses where both come from one memory.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let equal = match (&self.all, &other.all) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        equal && self.apart == other.apart
    }

    /// Whether anybody else holds it.
    pub(crate) fn is_shared(&self) -> bool {
        self.all
            .as_ref()
            .is_some_and(|it| Arc::strong_count(it) > 1)
    }
}

/// A route target of RFC 4360 §4 or RFC 5668 §2.
#[must_use]
pub fn is_route_target(community: ExtendedCommunity) -> bool {
    community.kind() <= 0x02 && community.subtype() == 0x02
}

/// What one peer wants to hear of. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Interest {
    /// All routes.
    #[default]
    Everything,
    /// What its route target memberships match. RFC 4684 §6.
    Members(Arc<Wanted>),
    /// What may concern a peer that has routes with certain targets itself.
    Auto(Arc<Wanted>),
}

/// Route targets, hashed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    exact: HashSet<[u8; 8], FixedState>,
    /// Targets that count only up to a length.
    partial: HashSet<Membership, FixedState>,
    /// VNIs of which any AS may stand in the target: FRR imports `*:VNI`.
    vnis: HashSet<u32, FixedState>,
}

impl Interest {
    /// What a peer with these memberships wants: nothing without any, everything with the default one. RFC 4684 §3.2.
    #[must_use]
    pub fn of_memberships(memberships: impl IntoIterator<Item = Membership>) -> Self {
        let mut wanted = Wanted::default();
        for membership in memberships {
            // Who wants it does not matter, only what.
            let membership = Membership {
                origin_as: 0,
                ..membership
            };
            match membership.len {
                ..=AS_BITS => return Self::Everything,
                ALL_BITS => drop(wanted.exact.insert(membership.target)),
                _ => drop(wanted.partial.insert(membership)),
            }
        }
        Self::Members(Arc::new(wanted))
    }

    /// What a peer that exports these targets may import: the same ones, and those that FRR derives for the same VNI in
    /// another AS (two-octet AS, any AS, the low 24 bits of the number). Everything while it exports nothing.
    #[must_use]
    pub fn of_exports(targets: impl IntoIterator<Item = ExtendedCommunity>) -> Self {
        let mut wanted = Wanted::default();
        for target in targets.into_iter().filter(|it| is_route_target(*it)) {
            wanted.exact.insert(target.0);
            wanted.vnis.extend(derived_vni(target));
        }
        if wanted.exact.is_empty() {
            return Self::Everything;
        }
        Self::Auto(Arc::new(wanted))
    }

    /// Whether a path with these route targets is wanted. One without any is wanted by all.
    #[must_use]
    pub fn wants(&self, targets: &Targets) -> bool {
        match self {
            Self::Everything => true,
            Self::Auto(_) if targets.apart => true,
            Self::Members(wanted) | Self::Auto(wanted) => {
                targets.is_empty() || targets.iter().any(|target| wanted.contains(target))
            }
        }
    }

    /// What either wants.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (a, b) = match (self, other) {
            (Self::Everything, _) | (_, Self::Everything) => return Self::Everything,
            (Self::Members(a) | Self::Auto(a), Self::Members(b) | Self::Auto(b)) => (a, b),
        };
        let mut wanted = (**a).clone();
        wanted.exact.extend(&b.exact);
        wanted.partial.extend(&b.partial);
        wanted.vnis.extend(&b.vnis);
        match (self, other) {
            (Self::Auto(_), _) | (_, Self::Auto(_)) => Self::Auto(Arc::new(wanted)),
            (Self::Everything | Self::Members(_), _) => Self::Members(Arc::new(wanted)),
        }
    }

    /// Number of targets and prefixes of targets; `None`: everything is wanted.
    #[must_use]
    pub fn len(&self) -> Option<usize> {
        match self {
            Self::Everything => None,
            Self::Members(wanted) | Self::Auto(wanted) => {
                Some(wanted.exact.len() + wanted.partial.len())
            }
        }
    }

    /// True when only routes without a target are wanted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }
}

impl Wanted {
    fn contains(&self, target: ExtendedCommunity) -> bool {
        self.exact.contains(&target.0)
            || derived_vni(target).is_some_and(|vni| self.vnis.contains(&vni))
            || self.partial.iter().any(|some| some.matches(target))
    }
}

/// The VNI in a target that FRR or an RFC 8365 §5.1.2.1 device has derived: the low 24 bits of the number behind a
/// two-octet AS.
fn derived_vni(target: ExtendedCommunity) -> Option<u32> {
    match target.0 {
        [0x00, 0x02, _, _, _, a, b, c] => Some(u32::from_be_bytes([0, a, b, c])),
        _ => None,
    }
}

/// Length of a membership that says nothing of the target.
const AS_BITS: u8 = 32;
/// Length of a membership that says all of it.
const ALL_BITS: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nlri::Nlri;

    const EXACT: [u8; 8] = [0x00, 0x02, 0xfb, 0xf0, 0, 0, 0, 100];
    const OTHER_AS: [u8; 8] = [0x00, 0x02, 0xfb, 0xf1, 0, 0, 0, 100];
    const RFC_8365: [u8; 8] = [0x00, 0x02, 0xfb, 0xf1, 0x10, 0, 0, 100];
    const OTHER_VNI: [u8; 8] = [0x00, 0x02, 0xfb, 0xf0, 0, 0, 0, 101];
    const BY_ADDRESS: [u8; 8] = [0x01, 0x02, 192, 0, 2, 1, 0, 100];
    const ES_IMPORT: [u8; 8] = [0x06, 0x02, 0, 0, 0x5e, 0, 0x53, 1];
    const ENCAPSULATION: [u8; 8] = [0x03, 0x0c, 0, 0, 0, 0, 0, 8];

    fn targets(all: &[[u8; 8]]) -> Targets {
        Targets::of(&Attributes {
            ext_communities: all
                .iter()
                .map(|octets| ExtendedCommunity(*octets))
                .collect(),
            ..Attributes::default()
        })
    }

    #[test]
    fn only_route_targets_count_and_each_once() {
        let all = targets(&[BY_ADDRESS, ENCAPSULATION, EXACT, ES_IMPORT, EXACT]);
        let octets: Vec<_> = all.iter().map(|target| target.0).collect();
        assert_eq!(octets, [EXACT, BY_ADDRESS]);
        assert!(targets(&[ES_IMPORT, ENCAPSULATION]).is_empty());
        assert!(all.same(&targets(&[EXACT, BY_ADDRESS])));
        assert!(!all.same(&targets(&[EXACT])) && !all.same(&targets(&[])));
    }

    /// What each interest says of a path with one target; interop.md 19.
    #[test]
    fn an_interest_is_exact_but_for_what_frr_derives() {
        let exact = |octets| Membership::exactly(64_499, ExtendedCommunity(octets));
        let partial =
            Membership::key_from_octets(&[48, 0, 0, 0, 7, EXACT[0], EXACT[1], 0, 0, 0, 0, 0, 0]);
        let of_type = Membership::key_from_octets(&[32, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
        let exports = |octets| Interest::of_exports([ExtendedCommunity(octets)]);
        let paths = [EXACT, OTHER_AS, RFC_8365, OTHER_VNI, BY_ADDRESS];
        let table = [
            (Interest::Everything, [true; 5]),
            (Interest::of_memberships([]), [false; 5]),
            (Interest::of_memberships([Membership::DEFAULT]), [true; 5]),
            (Interest::of_memberships(of_type), [true; 5]),
            (
                Interest::of_memberships([exact(EXACT)]),
                [true, false, false, false, false],
            ),
            (
                Interest::of_memberships(partial),
                [true, true, true, true, false],
            ),
            (exports(EXACT), [true, true, true, false, false]),
            (exports(BY_ADDRESS), [false, false, false, false, true]),
            (exports(ES_IMPORT), [true; 5]),
            (Interest::of_exports([]), [true; 5]),
        ];
        for (interest, expected) in table {
            let wants = paths.map(|octets| interest.wants(&targets(&[octets])));
            assert_eq!(wants, expected, "{interest:?}");
            assert!(interest.wants(&targets(&[])), "{interest:?}");
            assert!(interest.wants(&targets(&[ES_IMPORT])), "{interest:?}");
        }
    }

    #[test]
    fn what_stands_apart_is_not_measured_by_what_a_peer_exports() {
        let apart = targets(&[EXACT]).standing(true);
        let other = ExtendedCommunity(BY_ADDRESS);
        let member = Interest::of_memberships([Membership::exactly(1, other)]);
        let auto = Interest::of_exports([other]);
        assert!(auto.wants(&apart) && !auto.wants(&targets(&[EXACT])));
        assert!(!member.wants(&apart));
        assert!(!apart.same(&targets(&[EXACT])));
    }

    #[test]
    fn any_of_several_targets_is_enough() {
        let interest = Interest::of_exports([ExtendedCommunity(BY_ADDRESS)]);
        assert!(interest.wants(&targets(&[EXACT, BY_ADDRESS])));
    }

    #[test]
    fn a_union_wants_what_either_wants() {
        let one = Interest::of_exports([ExtendedCommunity(EXACT)]);
        let other =
            Interest::of_memberships([Membership::exactly(1, ExtendedCommunity(BY_ADDRESS))]);
        let both = one.union(&other);
        for octets in [EXACT, OTHER_AS, OTHER_VNI, BY_ADDRESS] {
            let path = targets(&[octets]);
            assert_eq!(both.wants(&path), one.wants(&path) || other.wants(&path));
        }
        assert_eq!(both.len(), Some(2));
        assert_eq!(both.union(&one), both);
        assert_eq!(both.union(&Interest::Everything), Interest::Everything);
    }
}
