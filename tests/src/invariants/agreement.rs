//! Raft's promise: one leader per term, one entry per index, one state per index, and what was
//! committed stays. Knows no entry's meaning.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use weft_store::{Applied, Change, Role, Status};

use super::Verdict;

/// What was seen of terms, entries and states.
#[derive(Default)]
pub(crate) struct Agreement {
    leaders: BTreeMap<u64, u64>,
    entries: BTreeMap<u64, (u64, u64)>,
    states: BTreeMap<u64, u64>,
}

impl Agreement {
    pub(crate) fn status(&mut self, status: &Status) -> Verdict {
        if let Some(reason) = &status.degraded {
            return Err(format!(
                "replica {} stopped taking part: {reason}",
                status.id
            ));
        }
        if status.role == Role::Leader {
            let leader = *self.leaders.entry(status.term).or_insert(status.id);
            if leader != status.id {
                let (id, term) = (status.id, status.term);
                return Err(format!("{leader} and {id} lead in term {term}"));
            }
        }
        Ok(())
    }

    pub(crate) fn applied(&mut self, replica: u64, applied: &Applied) -> Verdict {
        if applied.changes.contains(&Change::Reset) {
            return Ok(());
        }
        let seen = (applied.term, hash(&applied.changes));
        let first = *self.entries.entry(applied.index).or_insert(seen);
        if first != seen {
            let index = applied.index;
            return Err(format!(
                "replica {replica} applied another entry at {index}"
            ));
        }
        Ok(())
    }

    pub(crate) fn state(&mut self, replica: u64, index: u64, hash: u64) -> Verdict {
        let first = *self.states.entry(index).or_insert(hash);
        if first != hash {
            return Err(format!(
                "replica {replica} has another state at index {index}"
            ));
        }
        Ok(())
    }

    /// When all is healed: nothing that anybody ever applied is missing.
    pub(crate) fn healed(&self, replica: u64, applied: u64) -> Verdict {
        let last = self.entries.keys().next_back().copied().unwrap_or_default();
        if applied < last {
            return Err(format!(
                "replica {replica} has {applied}, committed was {last}"
            ));
        }
        Ok(())
    }
}

fn hash(changes: &[Change]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for change in changes {
        match change {
            Change::Put { value, keys } => (0, value, keys).hash(&mut hasher),
            Change::Delete { keys } => (1, keys).hash(&mut hasher),
            Change::DeletePrefix { prefix } => (2, prefix).hash(&mut hasher),
            Change::Reset => 3.hash(&mut hasher),
        }
    }
    hasher.finish()
}
