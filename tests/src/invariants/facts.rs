//! The agreed facts, replayed from the first sight of each committed entry: what every replica must
//! arrive at. Knows of their meaning only which routes are long-lived stale.

use std::collections::BTreeMap;

use bytes::Bytes;
use weft_controller::ledger::{self, FactKey, FactPrefix, Owner};
use weft_store::{Applied, Change};

use crate::stake::FAMILIES;

/// The state at the highest index that any replica has applied.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) index: u64,
    pub(crate) held: BTreeMap<Bytes, Bytes>,
    /// Since when, without a break, and not long-lived stale.
    pub(crate) since: BTreeMap<Bytes, u64>,
}

/// One fact's change.
pub(crate) struct Delta {
    pub(crate) key: Bytes,
    pub(crate) old: Option<Bytes>,
    pub(crate) new: Option<Bytes>,
}

impl Facts {
    /// What an entry changed, if it is seen for the first time.
    pub(crate) fn apply(&mut self, applied: &Applied, now: u64) -> Vec<Delta> {
        let mut deltas = Vec::new();
        if applied.index <= self.index {
            return deltas;
        }
        self.index = applied.index;
        for change in &applied.changes {
            match change {
                Change::Put { value, keys } => {
                    for key in keys {
                        let old = self.held.insert(key.clone(), value.clone());
                        self.since.entry(key.clone()).or_insert(now);
                        self.freshen(key, old.as_ref(), value, now);
                        let (key, new) = (key.clone(), Some(value.clone()));
                        deltas.push(Delta { key, old, new });
                    }
                }
                Change::Delete { keys } => {
                    keys.iter().for_each(|key| self.remove(key, &mut deltas));
                }
                Change::DeletePrefix { prefix } => {
                    let gone = self.held.keys().filter(|key| key.starts_with(prefix));
                    let gone: Vec<_> = gone.cloned().collect();
                    gone.iter().for_each(|key| self.remove(key, &mut deltas));
                }
                // Whoever built the snapshot had applied all that is in it.
                Change::Reset => {}
            }
        }
        deltas
    }

    /// What was long-lived stale until now is there since now.
    fn freshen(&mut self, key: &Bytes, old: Option<&Bytes>, new: &Bytes, now: u64) {
        match FactKey::decode(key) {
            Some(FactKey::Route(..)) => {
                let epoch = |value: &Bytes| ledger::epoch_of(value);
                if old.is_some_and(|old| epoch(old) != epoch(new)) {
                    self.since.insert(key.clone(), now);
                }
            }
            Some(FactKey::Owner(peer)) => {
                let mut owners = old
                    .into_iter()
                    .chain([new])
                    .filter_map(|it| Owner::decode(it));
                let stale = |owner: Owner| owner.fresh_from > 0 || owner.is_long_lived_stale();
                if owners.any(stale) {
                    let [family] = FAMILIES;
                    let prefix = FactPrefix::RoutesOfPeer(family, peer).encode();
                    let routes = self.since.iter_mut();
                    let of = routes.filter(|(key, _)| key.starts_with(&prefix));
                    of.for_each(|(_, since)| *since = now);
                }
            }
            _ => {}
        }
    }

    /// Whether a route is long-lived stale: clients that do not know what that is are not told.
    pub(crate) fn is_stale(&self, key: &Bytes) -> bool {
        let Some(FactKey::Route(_, peer, _)) = FactKey::decode(key) else {
            return false;
        };
        let owner = self.held.get(&FactKey::Owner(peer).encode());
        let owner = owner.and_then(|value| Owner::decode(value));
        let epoch = self
            .held
            .get(key)
            .map_or(0, |value| ledger::epoch_of(value));
        owner.is_some_and(|owner| owner.is_long_lived_stale() || epoch < owner.fresh_from)
    }

    fn remove(&mut self, key: &Bytes, deltas: &mut Vec<Delta>) {
        if let Some(old) = self.held.remove(key) {
            self.since.remove(key);
            let (key, old) = (key.clone(), Some(old));
            deltas.push(Delta {
                key,
                old,
                new: None,
            });
        }
    }
}
