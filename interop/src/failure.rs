//! Why something did not work, in words for the person who started it.

use std::fmt;

/// What ends a command early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// SIGINT or SIGTERM arrived.
    Interrupted,
    /// A noun phrase that names what failed and why.
    Said(String),
}

impl Failure {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self::Said(reason.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::Said(reason) => f.write_str(reason),
        }
    }
}

/// Names the thing that was being done when an error of another crate appeared.
pub(crate) trait Context<T> {
    fn context(self, doing: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, doing: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(format!("{}: {error}", doing())))
    }
}
