//! Which routes a peer wants to hear of, by their route targets: RFC 4684, and what a peer that cannot say so shows by
//! the targets of its own routes. It does not know who the peer is, nor how routes reach it.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use crate::attribute::{Attributes, ExtendedCommunity};
use crate::nlri::route_target::Membership;

/// The route targets of a path, each once and in order. Paths of one tenant share theirs.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Targets(Option<Arc<[ExtendedCommunity]>>);

impl Targets {
    /// Of these attributes. ES-Import (RFC 7432 §7.6) and what else selects receivers in other ways is not one of them.
    #[must_use]
    pub fn of(attributes: &Attributes) -> Self {
        let all = attributes.ext_communities.iter().copied();
        let mut targets: Vec<_> = all
            .filter(|community| is_route_target(*community))
            .collect();
        if targets.is_empty() {
            return Self(None);
        }
        targets.sort_unstable();
        targets.dedup();
        Self(Some(targets.into()))
    }

    /// True without any: such a path is wanted by all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = ExtendedCommunity> {
        self.0.iter().flat_map(|targets| targets.iter().copied())
    }

    /// Equal, at the price of a comparison of addresses where both come from one memory.
    pub(crate) fn same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Whether anybody else holds it.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.as_ref().is_some_and(|it| Arc::strong_count(it) > 1)
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
