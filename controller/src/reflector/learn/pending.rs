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
        self.dirty.clear();
        self.waiting.clear();
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
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT_MAX {
            // A whole table went through here, and what comes now is a route now and then.
            (self.waiting, self.dirty) = Default::default();
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
const KEPT_MAX: usize = 64;
