//! What weft does with each leaf, as an operator says: by leaf, and for all others.
//!
//! Without a word from the operator a declared fabric is planned and compared, and nothing is touched.

use std::collections::BTreeMap;

use weft_proto::v1;

pub use crate::southbound::intent::Mode;

/// The mode of every leaf.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Modes {
    others: Option<Mode>,
    leaves: BTreeMap<String, Mode>,
}

impl Modes {
    /// Sets, or with None forgets, the mode of a leaf; with an empty name, of all that have none of their own.
    pub fn set(&mut self, leaf: &str, mode: Option<Mode>) {
        match (leaf, mode) {
            ("", mode) => self.others = mode,
            (leaf, Some(mode)) => drop(self.leaves.insert(leaf.to_owned(), mode)),
            (leaf, None) => drop(self.leaves.remove(leaf)),
        }
    }

    /// What weft does with a leaf.
    pub fn of(&self, leaf: &str) -> Mode {
        let own = self.leaves.get(leaf).copied();
        own.unwrap_or_else(|| self.of_others())
    }

    /// What weft does with leaves that have no mode of their own.
    pub fn of_others(&self) -> Mode {
        self.others.unwrap_or(Mode::Shadow)
    }

    /// Whether a leaf has a mode of its own.
    pub fn is_own(&self, leaf: &str) -> bool {
        self.leaves.contains_key(leaf)
    }

    /// Returns true if a leaf has this mode of its own; with an empty name, if all leaves have it and none has one of its own.
    pub fn is_set(&self, leaf: &str, mode: Mode) -> bool {
        match leaf {
            "" => self.leaves.is_empty() && self.of_others() == mode,
            leaf => self.leaves.get(leaf) == Some(&mode),
        }
    }

    /// Every mode that was set, by leaf; that of all others has an empty name.
    pub fn declared(&self) -> impl Iterator<Item = (&str, Mode)> {
        let others = self.others.map(|mode| ("", mode));
        let leaves = self.leaves.iter();
        others
            .into_iter()
            .chain(leaves.map(|(leaf, mode)| (leaf.as_str(), *mode)))
    }
}

/// The mode as the operator's API writes it.
pub fn to_message(mode: Mode) -> v1::BalanceMode {
    match mode {
        Mode::Off => v1::BalanceMode::Off,
        Mode::Shadow => v1::BalanceMode::Shadow,
        Mode::On => v1::BalanceMode::On,
    }
}

/// Reads a mode of the operator's API; `None` if none was given.
pub fn from_message(mode: i32) -> Option<Mode> {
    match v1::BalanceMode::try_from(mode) {
        Ok(v1::BalanceMode::Off) => Some(Mode::Off),
        Ok(v1::BalanceMode::Shadow) => Some(Mode::Shadow),
        Ok(v1::BalanceMode::On) => Some(Mode::On),
        Ok(v1::BalanceMode::Unspecified) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_word_everything_is_planned_and_nothing_touched() {
        assert_eq!(Modes::default().of("leaf1"), Mode::Shadow);
        assert_eq!(Modes::default().declared().count(), 0);
    }

    #[test]
    fn a_leaf_of_its_own_does_not_follow_the_others() {
        let mut modes = Modes::default();
        modes.set("", Some(Mode::On));
        modes.set("leaf1", Some(Mode::Off));
        assert_eq!(
            (modes.of("leaf1"), modes.of("leaf2")),
            (Mode::Off, Mode::On)
        );
        let declared: Vec<_> = modes.declared().collect();
        assert_eq!(declared, [("", Mode::On), ("leaf1", Mode::Off)]);
        assert!(modes.is_set("leaf1", Mode::Off) && !modes.is_set("leaf1", Mode::On));
        // Leaf 2 follows the others, and leaf 1 does not.
        assert!(!modes.is_set("leaf2", Mode::On) && !modes.is_set("", Mode::On));
        modes.set("leaf1", None);
        assert!(modes.is_set("", Mode::On) && !modes.is_set("", Mode::Off));
        modes.set("", None);
        assert_eq!(modes, Modes::default());
    }
}
