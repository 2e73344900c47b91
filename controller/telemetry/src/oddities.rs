//! What of a switch's messages was not understood: how often, and one example of each kind. It refuses to know what is
//! done about it.

use std::collections::BTreeMap;
use std::fmt;

use crate::text::{SHOWN_MAX, plain};

/// A way of being not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Odd {
    /// A response that is neither an update nor a sync response.
    EmptyResponse,
    /// An update without a path, or without a value.
    NoValue,
    /// A path of another origin than OpenConfig's.
    Origin,
    /// A path of too many elements.
    LongPath,
    /// A path that was not subscribed to.
    UnknownPath,
    /// A list entry without its key, or with a key that is empty or too long.
    Key,
    /// JSON that cannot be parsed.
    Json,
    /// A typed value of a kind that no leaf here has.
    Encoding,
    /// A value that the leaf cannot have.
    Value,
    /// More interfaces than are kept.
    ManyInterfaces,
    /// More LLDP neighbours than are kept.
    ManyNeighbors,
    /// An update that is older than what is known.
    Late,
    /// More deletes with a wildcard than one notification may have.
    ManyDeletes,
    /// Updates, and no sync response for a long time.
    NoSync,
    /// A sync response that is false, or a second one.
    Sync,
}

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyResponse => "empty response",
            Self::NoValue => "update without path or value",
            Self::Origin => "origin other than openconfig",
            Self::LongPath => "path too long",
            Self::UnknownPath => "path not subscribed to",
            Self::Key => "list entry without usable key",
            Self::Json => "malformed JSON",
            Self::Encoding => "encoding not supported",
            Self::Value => "value not of the leaf's type",
            Self::ManyInterfaces => "too many interfaces",
            Self::ManyNeighbors => "too many LLDP neighbours",
            Self::Late => "update older than what is known",
            Self::ManyDeletes => "too many wildcard deletes",
            Self::NoSync => "no sync response",
            Self::Sync => "unexpected sync response",
        })
    }
}

/// Counts since the subscription began, each with its first example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    kinds: BTreeMap<Odd, (u64, String)>,
}

impl Oddities {
    /// Counts one. The example is cut and made safe to show.
    pub(crate) fn count(&mut self, odd: Odd, example: &str) {
        let kind = self.kinds.entry(odd);
        let (count, _) = kind.or_insert_with(|| (0, plain(example, EXAMPLE_MAX)));
        *count = count.saturating_add(1);
    }

    /// Each kind that was met: how often, and the first example.
    pub fn iter(&self) -> impl Iterator<Item = (Odd, u64, &str)> {
        let kinds = self.kinds.iter();
        kinds.map(|(odd, (count, example))| (*odd, *count, example.as_str()))
    }

    /// How often one kind was met.
    #[must_use]
    pub fn of(&self, odd: Odd) -> u64 {
        self.kinds.get(&odd).map_or(0, |(count, _)| *count)
    }

    /// Whether everything was understood.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}

impl fmt::Display for Oddities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (odd, count, example)) in self.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{odd} {count}x (first: {example})")?;
        }
        Ok(())
    }
}

/// Octets of an example: most of a path.
const EXAMPLE_MAX: usize = 2 * SHOWN_MAX;
