//! The problem: switches in tiers, links with capacity, which of them are alive.
//!
//! It refuses to know names, addresses and why a link is dead.

use std::collections::BTreeMap;
use std::fmt;

/// A switch, by a number that the caller chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub u32);

/// A link, by a number that the caller chooses. Ties are broken by it: the lowest wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// A switch and its height in the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Which switch.
    pub id: SwitchId,
    /// 0 for a leaf, 1 for a spine, 2 for a super-spine. Traffic goes up, then down, and never up again.
    pub tier: u8,
}

/// A link between two switches of different tiers. Both directions have the same capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Which link.
    pub id: LinkId,
    /// The two switches, in any order.
    pub ends: (SwitchId, SwitchId),
    /// Bits per second in each direction; above 0.
    pub capacity_bps: u64,
    /// Whether it can carry traffic now.
    pub alive: bool,
}

/// A validated problem. Equal contents in another order make an equal problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    switches: BTreeMap<SwitchId, u8>,
    links: BTreeMap<LinkId, Link>,
    neighbours: BTreeMap<SwitchId, BTreeMap<SwitchId, Vec<LinkId>>>,
}

impl Problem {
    /// Builds a problem. Links between switches of one tier are kept and never used.
    pub fn new(switches: Vec<Switch>, links: Vec<Link>) -> Result<Self, ProblemError> {
        let mut problem = Self {
            switches: BTreeMap::new(),
            links: BTreeMap::new(),
            neighbours: BTreeMap::new(),
        };
        for switch in switches {
            if problem.switches.insert(switch.id, switch.tier).is_some() {
                return Err(ProblemError::DuplicateSwitch(switch.id));
            }
            problem.neighbours.insert(switch.id, BTreeMap::new());
        }
        for link in links {
            problem.insert_link(link)?;
        }
        for by_switch in problem.neighbours.values_mut() {
            by_switch.values_mut().for_each(|ids| ids.sort_unstable());
        }
        Ok(problem)
    }

    fn insert_link(&mut self, link: Link) -> Result<(), ProblemError> {
        let (a, b) = link.ends;
        if a == b {
            return Err(ProblemError::EndsEqual(link.id));
        }
        if link.capacity_bps == 0 {
            return Err(ProblemError::CapacityZero(link.id));
        }
        for (here, there) in [(a, b), (b, a)] {
            let Some(neighbours) = self.neighbours.get_mut(&here) else {
                return Err(ProblemError::UnknownSwitch(link.id, here));
            };
            neighbours.entry(there).or_default().push(link.id);
        }
        if self.links.insert(link.id, link).is_some() {
            return Err(ProblemError::DuplicateLink(link.id));
        }
        Ok(())
    }

    /// The leaves (tier 0), in order.
    pub fn leaves(&self) -> impl Iterator<Item = SwitchId> + '_ {
        self.switches
            .iter()
            .filter(|(_, tier)| **tier == 0)
            .map(|(id, _)| *id)
    }

    /// Every switch with its tier, in order of its number.
    pub fn switches(&self) -> impl Iterator<Item = (SwitchId, u8)> + '_ {
        self.switches.iter().map(|(id, tier)| (*id, *tier))
    }

    /// The tier of a switch; None if it is not part of the problem.
    pub fn tier(&self, switch: SwitchId) -> Option<u8> {
        self.switches.get(&switch).copied()
    }

    /// A link by its number.
    pub fn link(&self, link: LinkId) -> Option<&Link> {
        self.links.get(&link)
    }

    /// Every link, in order of its number.
    pub fn links(&self) -> impl Iterator<Item = &Link> + '_ {
        self.links.values()
    }

    /// The neighbours of a switch with a higher tier, each with the links to it.
    pub(crate) fn above(&self, switch: SwitchId) -> impl Iterator<Item = (SwitchId, &[LinkId])> {
        let tier = self.tier(switch);
        self.adjacent(switch)
            .filter(move |(there, _)| self.tier(*there) > tier)
    }

    /// The neighbours of a switch with a lower tier, each with the links to it.
    pub(crate) fn below(&self, switch: SwitchId) -> impl Iterator<Item = (SwitchId, &[LinkId])> {
        let tier = self.tier(switch);
        self.adjacent(switch)
            .filter(move |(there, _)| self.tier(*there) < tier)
    }

    fn adjacent(&self, switch: SwitchId) -> impl Iterator<Item = (SwitchId, &[LinkId])> {
        self.neighbours
            .get(&switch)
            .into_iter()
            .flatten()
            .map(|(there, ids)| (*there, ids.as_slice()))
    }
}

/// Why a problem was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemError {
    /// Two switches have one number.
    DuplicateSwitch(SwitchId),
    /// Two links have one number.
    DuplicateLink(LinkId),
    /// A link ends at a switch that is not there.
    UnknownSwitch(LinkId, SwitchId),
    /// Both ends of a link are one switch.
    EndsEqual(LinkId),
    /// A link has no capacity.
    CapacityZero(LinkId),
}

impl fmt::Display for ProblemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateSwitch(SwitchId(id)) => write!(f, "switch {id} twice"),
            Self::DuplicateLink(LinkId(id)) => write!(f, "link {id} twice"),
            Self::UnknownSwitch(LinkId(link), SwitchId(switch)) => {
                write!(f, "link {link} ends at the unknown switch {switch}")
            }
            Self::EndsEqual(LinkId(id)) => write!(f, "link {id} has two equal ends"),
            Self::CapacityZero(LinkId(id)) => write!(f, "link {id} has capacity 0"),
        }
    }
}

impl std::error::Error for ProblemError {}
