//! Counters of interfaces that go back: they wrapped, or the interface is another one of that name.
//! Knows no rates; who computes them wants to know that one sample is lost.

use std::collections::BTreeMap;

use crate::forwarding::Link;

/// The counters of each interface as they stood last.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Octets sent and received, by name.
    last: BTreeMap<String, (u64, u64)>,
}

impl Counters {
    /// Takes the counters as they stand: text for a person when one went back, the first of them.
    pub(super) fn observe(&mut self, links: &[Link]) -> Option<String> {
        let mut text = None;
        for link in links {
            let now = (link.tx_octets, link.rx_octets);
            let before = self.last.insert(link.name.clone(), now).unwrap_or(now);
            for (what, before, now) in [("sent", before.0, now.0), ("received", before.1, now.1)] {
                if now < before && text.is_none() {
                    text = Some(format!(
                        "interface {} went back from {before} to {now} octets {what}",
                        link.name
                    ));
                }
            }
        }
        if self.last.len() > NAMES_MAX {
            self.last
                .retain(|name, _| links.iter().any(|link| link.name == *name));
        }
        text
    }
}

/// Names of interfaces that came and went. Above, those that are not there are forgotten.
const NAMES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, tx_octets: u64) -> Link {
        Link {
            index: 1,
            name: name.into(),
            up: true,
            addresses: Vec::new(),
            vxlan: false,
            vni: None,
            tx_octets,
            rx_octets: 7,
        }
    }

    #[test]
    fn a_counter_that_wraps_is_told_of_once() {
        let mut counters = Counters::default();
        assert_eq!(counters.observe(&[link("eth1", 4_294_967_200)]), None);
        assert_eq!(
            counters.observe(&[link("eth1", 200)]).as_deref(),
            Some("interface eth1 went back from 4294967200 to 200 octets sent")
        );
        assert_eq!(counters.observe(&[link("eth1", 300)]), None);
    }

    #[test]
    fn an_interface_that_is_made_anew_is_told_of() {
        let mut counters = Counters::default();
        assert_eq!(counters.observe(&[link("eth1", 5_000)]), None);
        assert_eq!(counters.observe(&[]), None);
        assert!(counters.observe(&[link("eth1", 0)]).is_some());
    }

    #[test]
    fn names_that_came_and_went_are_forgotten() {
        let mut counters = Counters::default();
        for number in 0..=NAMES_MAX {
            counters.observe(&[link(&format!("veth{number}"), 1)]);
        }
        assert_eq!(counters.last.len(), 1);
    }
}
