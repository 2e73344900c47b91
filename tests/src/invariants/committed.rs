//! Commit before reflect: no client hears an announcement that no replica has applied. Knows an
//! announcement by the mark that its switch put on it.

use std::collections::HashSet;

use weft_bgp::attribute::{Attributes, LargeCommunity};
use weft_controller::ledger;
use weft_evpn::RouteKey;

use super::Verdict;
use super::facts::Delta;
use crate::switch;

/// Every announcement that was ever committed.
#[derive(Default)]
pub(crate) struct Committed {
    marks: HashSet<(u32, u32)>,
}

impl Committed {
    pub(crate) fn changed(&mut self, delta: &Delta) {
        let route = delta.key.first() == Some(&b'r');
        let value = delta.new.as_ref().filter(|_| route);
        let attributes = value.and_then(|value| ledger::decode_path(value));
        let mark = attributes.and_then(|(_, attributes)| switch::version(&attributes));
        self.marks.extend(mark.map(of));
    }

    pub(crate) fn reflected(&self, key: &RouteKey, attributes: &Attributes) -> Verdict {
        let mark = switch::version(attributes).map(of);
        match mark {
            Some(mark) if self.marks.contains(&mark) => Ok(()),
            _ => Err(format!("{key} was reflected and not committed: {mark:?}")),
        }
    }
}

fn of(mark: LargeCommunity) -> (u32, u32) {
    (mark.global, mark.local1)
}
