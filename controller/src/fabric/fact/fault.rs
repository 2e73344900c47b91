//! What is wrong with a declaration, or with a call: every field, with a reason. Knows no field.

use std::fmt;

/// Everything that is wrong with what was declared, in the order of the declaration.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct InvalidFabric {
    /// At most 100.
    pub faults: Vec<FieldFault>,
}

impl InvalidFabric {
    /// One fault.
    pub fn of(field: impl fmt::Display, reason: impl fmt::Display) -> Self {
        let mut faults = Self::default();
        faults.fault(field, reason);
        faults
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Adds a fault, as long as they are few.
    pub(crate) fn fault(&mut self, field: impl fmt::Display, reason: impl fmt::Display) {
        if self.faults.len() < FAULTS_MAX {
            // What a client wrote stands in it, at whatever length.
            let short = |text: String| match text.char_indices().nth(FAULT_CHARS_MAX) {
                Some((end, _)) => format!("{}...", &text[..end]),
                None => text,
            };
            self.faults.push(FieldFault {
                field: short(field.to_string()),
                reason: short(reason.to_string()),
            });
        }
    }
}

impl fmt::Display for InvalidFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidFabric {}

/// A field of the declaration and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFault {
    /// The path of the field: `links[3].a.switch_name`.
    pub field: String,
    /// A noun phrase: `no switch is named "leaf9"`.
    pub reason: String,
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

/// A field below another one.
pub(in crate::fabric) fn below(field: &str, name: &str) -> String {
    match field {
        "" => name.to_owned(),
        field => format!("{field}.{name}"),
    }
}

/// More would not be read by anybody; the first are enough to find the cause.
const FAULTS_MAX: usize = 100;
/// Characters of a field and of a reason: longer ones are cut.
const FAULT_CHARS_MAX: usize = 200;
