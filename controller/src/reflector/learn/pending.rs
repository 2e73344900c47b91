//! Which keys were said something of that is not committed yet, and in which batches it goes. Knows keys
//! and values as octets only.

use std::collections::VecDeque;

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt, HashSet};
use weft_store::Op;

use crate::ledger;

/// Keys whose latest word was not proposed, in order of arrival, each once.
#[derive(Debug, Default)]
pub struct Pending {
    waiting: VecDeque<Bytes>,
    dirty: HashSet<Bytes>,
    /// This replica commits what the peer says; otherwise nothing waits.
    owned: bool,
    /// The peer's [`ledger::Owner::fresh_from`]: what it says stands under that epoch.
    fresh_from: u64,
}

impl Pending {
    /// Whether something waits to be proposed.
    pub fn is_dirty(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Keys that wait to be proposed.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Something about `key` changed.
    pub fn mark(&mut self, key: Bytes) {
        if self.owned && self.dirty.insert(key.clone()) {
            self.waiting.push_back(key);
        }
    }

    /// From now on this replica commits, beginning with these keys.
    pub fn claim(&mut self, keys: Vec<Bytes>, fresh_from: u64) {
        self.renounce();
        self.owned = true;
        self.fresh_from = fresh_from;
        keys.into_iter().for_each(|key| self.mark(key));
    }

    /// Another replica commits what the peer says.
    pub fn renounce(&mut self) {
        self.owned = false;
        self.empty();
    }

    /// Nothing waits any more. Room for more than is said now and then is given back: it was needed for a whole table.
    fn empty(&mut self) {
        self.waiting.clear();
        self.dirty.clear();
        self.waiting.shrink_to(KEPT_MAX);
        self.dirty.shrink_to(KEPT_MAX);
    }

    /// The next operations to propose and the keys in them, by what `routes` holds now; `None` if nothing
    /// waits. Equal values travel once.
    pub fn next_batch(&mut self, routes: &HashMap<Bytes, Bytes>) -> Option<(Vec<Op>, Vec<Bytes>)> {
        let mut keys = Vec::new();
        let mut gone = Vec::new();
        let mut puts: Vec<(Bytes, Vec<Bytes>)> = Vec::new();
        let mut places: HashMap<Bytes, usize> = HashMap::new();
        let mut octets = 0;
        while keys.len() < BATCH_KEYS_MAX && octets < BATCH_OCTETS_MAX {
            let Some(key) = self.waiting.pop_front() else {
                break;
            };
            self.dirty.remove(&key);
            octets += key.len();
            match routes.get(&key) {
                None => gone.push(key.clone()),
                Some(value) => {
                    let place = *places.entry(value.clone()).or_insert_with(|| {
                        octets += value.len();
                        puts.push((value.clone(), Vec::new()));
                        puts.len() - 1
                    });
                    puts[place].1.push(key.clone());
                }
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return None;
        }
        if self.waiting.is_empty() {
            self.empty();
        }
        let mut ops: Vec<_> = puts
            .into_iter()
            .map(|(value, keys)| Op::Put {
                value: ledger::said_under(self.fresh_from, &value),
                keys,
            })
            .collect();
        if !gone.is_empty() {
            ops.push(Op::Delete { keys: gone });
        }
        Some((ops, keys))
    }
}

/// As many routes as go into one batch: it must stay small enough not to delay a heartbeat.
const BATCH_KEYS_MAX: usize = 1000;
const BATCH_OCTETS_MAX: usize = 256 << 10;
/// Keys for which there is room while nothing waits.
const KEPT_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_of_a_whole_table_is_given_back() {
        let key = |number: u32| Bytes::copy_from_slice(&number.to_be_bytes());
        let keys = || (0..4_000).map(key).collect();
        let room = |pending: &Pending| pending.waiting.capacity().max(pending.dirty.capacity());
        let mut pending = Pending::default();
        pending.claim(keys(), 0);
        assert!(room(&pending) >= 4_000);
        let mut taken = 0;
        while let Some((_, keys)) = pending.next_batch(&HashMap::new()) {
            taken += keys.len();
        }
        assert_eq!(taken, 4_000);
        assert!(room(&pending) < 1_000);
        pending.claim(keys(), 0);
        pending.renounce();
        assert!(room(&pending) < 1_000);
    }
}
