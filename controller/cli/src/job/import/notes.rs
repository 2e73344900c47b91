//! What an import leaves out, and why, for standard error. Knows no format.

/// Lines that are said beside the job.
#[derive(Default)]
pub(super) struct Notes {
    lines: Vec<String>,
}

impl Notes {
    /// Adds a line.
    pub(super) fn say(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Counts those of one kind, and names the first ones.
    pub(super) fn count(&mut self, what: &str, named: &[String]) {
        if named.is_empty() {
            return;
        }
        let first = named.iter().take(NAMED_MAX).cloned();
        let first = first.collect::<Vec<_>>().join(", ");
        let more = match named.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        self.say(format!("{what}: {}: {first}{more}", named.len()));
    }

    /// In the order in which they were added.
    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }
}

/// More names than these say nothing to a person.
const NAMED_MAX: usize = 10;
