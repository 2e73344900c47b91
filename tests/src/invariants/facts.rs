//! The agreed facts, replayed from the first sight of each committed entry: what every replica must
//! arrive at. Knows keys as octets.

use std::collections::BTreeMap;

use bytes::Bytes;
use weft_store::{Applied, Change};

/// The state at the highest index that any replica has applied.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) index: u64,
    pub(crate) held: BTreeMap<Bytes, Bytes>,
    /// Since when, without a break.
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
