//! What leaves do not have of what they are to have, as far as it is known. Pure. It refuses to know how it came to be known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;

use crate::fabric::fact::SwitchName;
use crate::southbound::intent::{Members, Target, Withheld};

/// Why a leaf has nothing of what it is to have, or nobody knows what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bare {
    /// The answering replica has not heard its weft-agent: it leads only since a moment, or does not. The leaf may have what an
    /// earlier leader gave it, until its lease is over.
    Unheard,
    /// The leader has no gRIBI session to it, or has not read yet what it has. It may have what it was given before, until its lease
    /// is over.
    Unread,
    /// Its weft-agent has been silent, over gRIBI too, for longer than its lease.
    Silent {
        /// Seconds.
        secs: u64,
    },
    /// Nobody ever answered this leader at the address of its agent, for longer than a lease.
    Unanswered,
    /// Its weft-agent says that it has nothing, and the leader has no gRIBI session to it.
    Empty,
    /// Its weft-agent says that it leaves everything to the own routing of the leaf.
    Bypassed,
}

impl Bare {
    /// Why, without for how long: what has an etag does not change each second.
    #[must_use]
    pub fn lasting(self) -> Self {
        match self {
            Self::Silent { .. } => Self::Silent { secs: 0 },
            why => why,
        }
    }

    /// Whether the leaf has nothing. If not, nobody knows what it has.
    pub fn is_known(self) -> bool {
        match self {
            Self::Unheard | Self::Unread => false,
            Self::Silent { .. } | Self::Unanswered | Self::Empty | Self::Bypassed => true,
        }
    }
}

/// What a leaf does not have of what it is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lacks {
    /// Nothing is there, or nobody knows what is.
    All(Bare),
    /// Some of it is not in force.
    These(Missing),
}

/// What a leaf that has something does not have in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// What its forwarding plane does not have, as it answered over gRIBI.
    pub withheld: Arc<Withheld>,
    /// Prefixes of which its weft-agent says that not all next hops are in force.
    pub partly: Arc<Partly>,
}

/// What weft-agent says of prefixes of which not all next hops are in force.
pub type Partly = BTreeMap<IpNet, OwnRoute>;

/// What the own routing of a leaf has for a prefix of which not all next hops are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnRoute {
    /// Why the whole prefix is left to it, in words; None: some next hops are in force.
    pub bypassed: Option<Arc<str>>,
    /// The interfaces that it uses to the prefix; empty: it has no route to it, or that is not known.
    pub interfaces: BTreeSet<String>,
}

/// What leaves do not have of what they are to have; one that is not named has all.
pub type Lacking = BTreeMap<SwitchName, Lacks>;

impl Missing {
    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.withheld.is_empty() && self.partly.is_empty()
    }

    /// Why a leaf has no weights for a prefix that it is to have; None: it has some.
    pub(super) fn prefix(&self, prefix: IpNet) -> Option<Arc<str>> {
        let withheld = self.withheld.get(&Target::Prefix(prefix));
        let bypassed = || self.partly.get(&prefix)?.bypassed.as_ref();
        withheld.or_else(bypassed).cloned()
    }

    /// Why packets to a prefix do not go over all these next hops, which a pin has: weft-agent takes none that the own routing of the
    /// leaf does not use. None: they do, as far as it is known.
    pub(super) fn unused(&self, prefix: IpNet, members: &Members) -> Option<Arc<str>> {
        let own = self.partly.get(&prefix)?;
        let is_unknown = own.interfaces.is_empty() && own.bypassed.is_none();
        let unused = |interface: &str| !is_unknown && !own.interfaces.contains(interface);
        let mut interfaces = members.keys().map(|next_hop| &*next_hop.interface);
        let interface = interfaces.find(|interface| unused(interface))?;
        Some(
            format!("the switch's own routing does not use {interface} to the leaf that takes")
                .into(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::southbound::intent::NextHop;

    fn over(interfaces: &[&str]) -> Members {
        let next_hop = |interface: &&str| NextHop {
            address: None,
            interface: (*interface).into(),
        };
        interfaces.iter().map(|it| (next_hop(it), 1)).collect()
    }

    #[test]
    fn a_next_hop_that_own_routing_does_not_use_is_not_in_force() {
        let prefix: IpNet = "192.0.2.12/32".parse().unwrap();
        let other: IpNet = "192.0.2.13/32".parse().unwrap();
        let missing = |bypassed: Option<&str>, interfaces: &[&str]| {
            let interfaces = interfaces.iter().map(|it| (*it).to_owned());
            let own = OwnRoute {
                bypassed: bypassed.map(Arc::from),
                interfaces: interfaces.collect(),
            };
            Missing {
                partly: Arc::new([(prefix, own)].into()),
                ..Missing::default()
            }
        };
        let partial = missing(None, &["eth2", "eth3"]);
        let unused = "the switch's own routing does not use eth1 to the leaf that takes";
        let why = |missing: &Missing, interfaces: &[&str]| {
            let why = missing.unused(prefix, &over(interfaces))?;
            Some(why.to_string())
        };
        assert_eq!(why(&partial, &["eth1"]).as_deref(), Some(unused));
        assert_eq!(why(&partial, &["eth1", "eth2"]).as_deref(), Some(unused));
        assert_eq!(why(&partial, &["eth2"]), None);
        assert_eq!(partial.unused(other, &over(&["eth1"])), None);
        // Weights are divided over what is left, but where nothing is.
        assert_eq!(partial.prefix(prefix), None);
        let nothing = missing(Some("no route"), &[]);
        assert_eq!(nothing.prefix(prefix).as_deref(), Some("no route"));
        assert_eq!(why(&nothing, &["eth1"]).as_deref(), Some(unused));
        // A next hop is away for another reason, and nobody says what the own routing has.
        assert_eq!(why(&missing(None, &[]), &["eth1"]), None);
    }
}
