//! What is wrong with a file in YAML or JSON, and where. Knows no field.

use std::fmt;

use serde::{Deserialize, Deserializer};

/// What is wrong with a text, and where. Printed right behind the name of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Line and column, both from 1; None where the text ends too early.
    place: Option<(usize, usize)>,
    /// Path of the field, if it is known, and the reason.
    reason: String,
}

impl Fault {
    /// A field that must be there is not.
    pub(crate) fn missing(field: &str) -> Self {
        Self {
            place: None,
            reason: format!("missing field `{field}`"),
        }
    }

    /// Returns a fault of the text as a whole.
    pub(crate) fn whole(reason: impl Into<String>) -> Self {
        Self {
            place: None,
            reason: reason.into(),
        }
    }

    /// A fault with its reason replaced, if `words` has a better text for it. The reason begins with the path of the field.
    pub(crate) fn in_words(mut self, words: impl FnOnce(&str) -> Option<String>) -> Self {
        if let Some(reason) = words(&self.reason) {
            self.reason = reason;
        }
        self
    }
}

impl From<serde_yaml_ng::Error> for Fault {
    fn from(error: serde_yaml_ng::Error) -> Self {
        let place = error.location().map(|at| (at.line(), at.column()));
        let mut reason = error.to_string();
        if let Some((line, column)) = place {
            reason = reason.replacen(&format!(" at line {line} column {column}"), "", 1);
        }
        Self { place, reason }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Reads a number that may be left out. A field without a value, as of a variable that is not set, is a fault.
pub(crate) fn stated<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    u64::deserialize(deserializer).map(Some)
}
