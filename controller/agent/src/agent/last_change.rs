//! When each interface last came up or went down, as far as the agent saw it since it started. Knows no clock.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Now;
use crate::forwarding::{Interface, Link};

/// The last change of each interface.
#[derive(Debug, Default)]
pub(super) struct LastChanges {
    /// Interfaces by name. One that is deleted and made again under the same name has another index.
    known: BTreeMap<String, Known>,
}

/// An interface as it was seen last.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Known {
    index: u32,
    up: bool,
    /// When it last came up or went down; None: not since the agent started.
    since: Option<Now>,
}

impl LastChanges {
    /// Starts from these links; when they last changed is not known.
    pub(super) fn new(links: &[Link]) -> Self {
        let mut changes = Self::default();
        changes.take(links.iter().map(of_link), None);
        changes
    }

    /// Takes all links, read at a time, and notes those that changed.
    pub(super) fn links(&mut self, links: &[Link], now: Now) {
        self.take(links.iter().map(of_link), Some(now));
    }

    /// Takes all interfaces, read at a time for gNMI, and notes those that changed: they may be ahead of the links that were read
    /// last.
    pub(super) fn interfaces(&mut self, interfaces: &[Interface], now: Now) {
        let all = interfaces.iter();
        let all = all.map(|it| (it.name.as_str(), it.index, it.up));
        self.take(all, Some(now));
    }

    fn take<'a>(&mut self, all: impl Iterator<Item = (&'a str, u32, bool)>, now: Option<Now>) {
        let mut before = std::mem::take(&mut self.known);
        let seen = all.map(|(name, index, up)| {
            let new = Known {
                index,
                up,
                since: now,
            };
            match before.remove_entry(name) {
                Some((name, known)) if (known.index, known.up) == (index, up) => (name, known),
                Some((name, _)) => (name, new),
                None => (name.to_owned(), new),
            }
        });
        self.known = seen.collect();
    }

    /// The uptime at which an interface came up; None: it is down, or it was up already when the agent started.
    pub(super) fn up_since(&self, name: &str) -> Option<Duration> {
        let known = self.known.get(name).filter(|known| known.up)?;
        known.since.map(|since| since.uptime)
    }

    /// Time at which each interface last came up or went down, by its index, in nanoseconds since the Unix epoch. An interface that
    /// has not changed since the agent started is left out.
    pub(super) fn unix_ns(&self) -> BTreeMap<u32, i64> {
        let known = self.known.values();
        let known = known.filter_map(|known| Some((known.index, known.since?.unix_ns)));
        known.collect()
    }
}

fn of_link(link: &Link) -> (&str, u32, bool) {
    (&link.name, link.index, link.up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, up: bool) -> Link {
        Link {
            index,
            name: name.into(),
            up,
            addresses: Vec::new(),
            vxlan: false,
            vni: None,
            tx_octets: 0,
            rx_octets: 0,
        }
    }

    fn at(second: u64) -> Now {
        Now {
            unix_ns: 1_000 + i64::try_from(second).expect("small"),
            uptime: Duration::from_secs(second),
        }
    }

    /// When an interface came up, in seconds.
    fn since(changes: &LastChanges, name: &str) -> Option<u64> {
        changes.up_since(name).map(|since| since.as_secs())
    }

    #[test]
    fn what_was_up_before_the_agent_began_has_no_time() {
        let mut changes = LastChanges::new(&[link(1, "up1", true)]);
        changes.links(&[link(1, "up1", true)], at(5));
        assert_eq!(since(&changes, "up1"), None);
        assert_eq!(changes.unix_ns(), BTreeMap::new());
    }

    #[test]
    fn the_last_change_counts_and_looks_between_change_nothing() {
        let mut changes = LastChanges::new(&[link(1, "up1", true), link(2, "up2", false)]);
        let mut look = |second, up1, up2| {
            changes.links(&[link(1, "up1", up1), link(2, "up2", up2)], at(second));
            let up_since = ["up1", "up2"].map(|name| since(&changes, name));
            (up_since, changes.unix_ns())
        };
        let second = ([None, Some(3)], BTreeMap::from([(2, 1_003)]));
        assert_eq!(look(3, true, true), second);
        assert_eq!(look(4, true, true), second);
        let both = |first, second| BTreeMap::from([(1, first), (2, second)]);
        assert_eq!(
            look(5, false, true),
            ([None, Some(3)], both(1_005, 1_003)),
            "one that is down has a last change too"
        );
        assert_eq!(look(7, true, false), ([Some(7), None], both(1_007, 1_007)));
    }

    #[test]
    fn an_interface_that_comes_or_is_made_anew_came_up_then() {
        let mut changes = LastChanges::new(&[link(1, "up1", true)]);
        changes.links(&[link(1, "up1", true), link(2, "up2", true)], at(1));
        assert_eq!(since(&changes, "up2"), Some(1));
        changes.links(&[link(1, "up1", true), link(3, "up2", true)], at(2));
        assert_eq!(since(&changes, "up2"), Some(2));
        assert_eq!(changes.unix_ns(), BTreeMap::from([(3, 1_002)]));
        // An interface that is deleted and made again came up when it was made.
        changes.links(&[link(3, "up2", true)], at(3));
        changes.links(&[link(1, "up1", true), link(3, "up2", true)], at(4));
        assert_eq!(
            ["up1", "up2"].map(|name| since(&changes, name)),
            [Some(4), Some(2)]
        );
    }
}
