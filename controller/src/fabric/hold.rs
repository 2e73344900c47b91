//! A link that comes up waits: flows that left it go back once it has stayed up for a while, so that a link that flaps moves
//! them once.
//!
//! Pure; time is an argument. It refuses to know why a link was down.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::fact::LinkName;
use super::live::Live;
use super::topology::Topology;

/// Which links were down, and since when those that came up are up.
#[derive(Clone, Debug, Default)]
pub struct Hold {
    down: BTreeSet<LinkName>,
    up_since: BTreeMap<LinkName, Duration>,
}

impl Hold {
    /// Marks the links that came up less than [`UP_FOR`] ago as still down. A link that was not down before, or that an
    /// operator set down, does not wait. The answer is when the next link has waited enough; None: none waits.
    pub fn look(
        &mut self,
        topology: &Topology,
        live: &mut Live,
        now: Duration,
    ) -> Option<Duration> {
        let down: BTreeSet<LinkName> = live.measured_down().cloned().collect();
        let is_declared = |link: &LinkName| topology.link_named(link).is_some();
        let came_up = std::mem::take(&mut self.down).into_iter();
        let came_up = came_up.filter(|link| !down.contains(link));
        self.up_since.extend(came_up.map(|link| (link, now)));
        self.up_since.retain(|link, since| {
            now < since.saturating_add(UP_FOR) && !live.is_down(link) && is_declared(link)
        });
        self.down = down;
        self.up_since.keys().for_each(|link| live.hold(link));
        let due = self.up_since.values().min()?;
        Some(due.saturating_add(UP_FOR))
    }
}

/// So long a link that came up must stay up before it carries what weft decides on.
pub const UP_FOR: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fabric::live::{Announced, Interfaces, Unusable};
    use crate::fabric::topology::tests::leaf_spine;

    const LINK: &str = "leaf2:eth1--spine1:eth2";

    /// Looks at a moment, in seconds, with the link up or not.
    fn look(hold: &mut Hold, second: u64, is_up: bool) -> (Option<Unusable>, Option<u64>) {
        let topology = leaf_spine(2, 2);
        let leaf2: Interfaces = [("eth1".to_owned(), is_up), ("eth2".to_owned(), true)].into();
        let interfaces = [("leaf2".into(), Arc::new(leaf2))].into();
        let mut live = Live::new(&topology, &Announced::new(), &interfaces);
        let due = hold.look(&topology, &mut live, Duration::from_secs(second));
        let why = live.unusable(topology.link(LINK).unwrap());
        (why, due.map(|due| due.as_secs()))
    }

    #[test]
    fn a_link_that_comes_up_waits_and_begins_anew_when_it_flaps() {
        let mut hold = Hold::default();
        let down = Some(Unusable::InterfaceDown("leaf2".into(), "eth1".into()));
        let held = Some(Unusable::CameUp);
        assert_eq!(look(&mut hold, 0, true), (None, None), "it never was down");
        assert_eq!(look(&mut hold, 1, false), (down.clone(), None));
        assert_eq!(look(&mut hold, 2, true), (held.clone(), Some(12)));
        assert_eq!(look(&mut hold, 5, true), (held.clone(), Some(12)));
        assert_eq!(look(&mut hold, 6, false), (down, None));
        assert_eq!(look(&mut hold, 7, true), (held.clone(), Some(17)));
        assert_eq!(look(&mut hold, 16, true), (held, Some(17)));
        assert_eq!(look(&mut hold, 17, true), (None, None));
        assert_eq!(look(&mut hold, 18, true), (None, None));
    }

    #[test]
    fn a_link_that_an_operator_set_down_does_not_wait() {
        let topology = leaf_spine(2, 2);
        let mut hold = Hold::default();
        let spines = |down: bool| {
            let mut declared = crate::fabric::topology::tests::declared(2, 2);
            for switch in declared
                .switches
                .iter_mut()
                .filter(|it| it.name == "spine1")
            {
                switch.admin_state = i32::from(down) + 1;
            }
            Topology::new(&declared).unwrap()
        };
        for (second, down) in [(0, true), (1, false)] {
            let topology = spines(down);
            let mut live = Live::new(&topology, &Announced::new(), &BTreeMap::new());
            let due = hold.look(&topology, &mut live, Duration::from_secs(second));
            let why = live.unusable(topology.link(LINK).unwrap());
            assert_eq!((why.is_some(), due), (down, None));
        }
        // Nor one that is declared no more.
        look(&mut hold, 2, false);
        let mut live = Live::new(&Topology::default(), &Announced::new(), &BTreeMap::new());
        let due = hold.look(&Topology::default(), &mut live, Duration::from_secs(3));
        assert_eq!(due, None);
        assert!(topology.link(LINK).is_some());
    }
}
