//! The problem: switches in tiers, links with capacity, which of them are alive.
//!
//! It refuses to know names, addresses and why a link is dead.

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
    /// In order of their numbers.
    switches: Vec<Switch>,
    /// In order of their numbers.
    links: Vec<Link>,
}

impl Problem {
    /// Builds a problem. Links between switches of one tier are kept and never used.
    pub fn new(mut switches: Vec<Switch>, mut links: Vec<Link>) -> Result<Self, ProblemError> {
        switches.sort_unstable_by_key(|switch| switch.id);
        links.sort_unstable_by_key(|link| link.id);
        if let Some(pair) = switches.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(ProblemError::DuplicateSwitch(pair[0].id));
        }
        if let Some(pair) = links.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(ProblemError::DuplicateLink(pair[0].id));
        }
        let problem = Self { switches, links };
        for link in &problem.links {
            problem.validate(link)?;
        }
        Ok(problem)
    }

    fn validate(&self, link: &Link) -> Result<(), ProblemError> {
        let (a, b) = link.ends;
        if a == b {
            return Err(ProblemError::EndsEqual(link.id));
        }
        if link.capacity_bps == 0 {
            return Err(ProblemError::CapacityZero(link.id));
        }
        match [a, b].into_iter().find(|end| self.place(*end).is_none()) {
            Some(end) => Err(ProblemError::UnknownSwitch(link.id, end)),
            None => Ok(()),
        }
    }

    /// The leaves (tier 0), in order.
    pub fn leaves(&self) -> impl Iterator<Item = SwitchId> + '_ {
        self.switches
            .iter()
            .filter(|switch| switch.tier == 0)
            .map(|switch| switch.id)
    }

    /// Every switch with its tier, in order of its number.
    pub fn switches(&self) -> impl ExactSizeIterator<Item = (SwitchId, u8)> + '_ {
        self.switches.iter().map(|switch| (switch.id, switch.tier))
    }

    /// The tier of a switch; None if it is not part of the problem.
    pub fn tier(&self, switch: SwitchId) -> Option<u8> {
        self.place(switch).map(|place| self.switches[place].tier)
    }

    /// A link by its number.
    pub fn link(&self, link: LinkId) -> Option<&Link> {
        let found = self.links.binary_search_by_key(&link, |link| link.id);
        found.ok().map(|place| &self.links[place])
    }

    /// Every link, in order of its number.
    pub fn links(&self) -> impl ExactSizeIterator<Item = &Link> + Clone + '_ {
        self.links.iter()
    }

    /// The place of a switch in [`Self::switches`]. Numbers that are places already, the usual case, need no search.
    pub(crate) fn place(&self, switch: SwitchId) -> Option<usize> {
        let guess = switch.0 as usize;
        if self
            .switches
            .get(guess)
            .is_some_and(|there| there.id == switch)
        {
            return Some(guess);
        }
        let found = self
            .switches
            .binary_search_by_key(&switch, |there| there.id);
        found.ok()
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
