//! Why a command did not do what was asked, and the exit code that says so. Knows no command.

use std::error::Error;
use std::{fmt, io};

use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request is wrong, here or in the eyes of the replica. Nothing was changed.
    Refused(String),
    /// It is not known what the replica thinks.
    Unanswered {
        /// The address that was asked.
        address: String,
        /// The error that came in place of an answer.
        reason: String,
    },
    /// The leader cannot decide the change yet. Nothing was changed.
    Undecided(String),
    /// A replica took the change, and its outcome is not known. Sent again with the same `request_id`, it is made once.
    Unsettled {
        /// The address that was asked.
        address: String,
        /// The error that came in place of an answer.
        reason: String,
    },
    /// The answer is there, and things are not as they should be.
    Unmet(String),
    /// Standard output does not take the answer.
    Unwritten(io::Error),
    /// Whoever read the answer has read enough.
    Unread,
}

impl Failure {
    /// What the process ends with.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Unwritten(_) => REFUSED,
            Self::Unanswered { .. } | Self::Undecided(_) | Self::Unsettled { .. } => UNANSWERED,
            Self::Unmet(_) => UNMET,
            Self::Unread => 0,
        }
    }

    /// What the status means that `address` gave, or that stands for a broken connection to it.
    pub(crate) fn from_status(address: &str, status: &Status) -> Self {
        let local = status.source().map(root);
        match (local, status.code()) {
            (Some(reason), _) => Self::unanswered(address, reason),
            (None, Code::Unavailable | Code::DeadlineExceeded) => {
                Self::unanswered(address, status.message())
            }
            // Another server, or a weft that is older than this command.
            (None, Code::Unimplemented) => {
                Self::unanswered(address, "no weft that knows the request")
            }
            // Nobody knows what became of it.
            (None, code @ (Code::Internal | Code::Unknown | Code::Cancelled | Code::DataLoss)) => {
                let reason = match status.message() {
                    "" => code.to_string(),
                    message => message.to_owned(),
                };
                Self::unanswered(address, reason)
            }
            (None, code) if status.message().is_empty() => Self::Refused(code.to_string()),
            (None, _) => Self::Refused(said(status)),
        }
    }

    /// Returns the meaning of a status that `address` answered to a change. A refusal names the option that overrides it.
    pub(crate) fn of_change(address: &str, status: &Status) -> Self {
        match reason(status).as_str() {
            "LAST_PATH" => Self::Refused(last_path(status)),
            "LEADER_UNSURE" => Self::Undecided(format!(
                "{}; nothing was changed: repeat in some seconds, or with --force",
                why(status)
            )),
            "NO_LEADER" => Self::Undecided(format!(
                "{}; nothing was changed: see `weft replica list`",
                why(status)
            )),
            "OUTCOME_UNKNOWN" => Self::from_status(address, status).unsettled(),
            _ => Self::from_status(address, status),
        }
    }

    /// The same, of a question that was asked after something was done.
    pub(crate) fn after(self, done: &str) -> Self {
        match self {
            Self::Refused(reason) => Self::Refused(format!("{done}; {reason}")),
            Self::Unmet(reason) => Self::Unmet(format!("{done}; {reason}")),
            Self::Undecided(reason) => Self::Undecided(format!("{done}; {reason}")),
            Self::Unanswered { address, reason } => Self::Unanswered {
                address,
                reason: format!("{reason}; {done}"),
            },
            Self::Unsettled { address, reason } => Self::Unsettled {
                address,
                reason: format!("{reason}; {done}"),
            },
            other @ (Self::Unwritten(_) | Self::Unread) => other,
        }
    }

    /// The same, with more to say.
    pub(crate) fn with(self, more: &str) -> Self {
        match self {
            Self::Refused(reason) => Self::Refused(format!("{reason}{more}")),
            Self::Unmet(reason) => Self::Unmet(format!("{reason}{more}")),
            Self::Undecided(reason) => Self::Undecided(format!("{reason}{more}")),
            Self::Unanswered { address, reason } => Self::Unanswered {
                address,
                reason: format!("{reason}{more}"),
            },
            Self::Unsettled { address, reason } => Self::Unsettled {
                address,
                reason: format!("{reason}{more}"),
            },
            other @ (Self::Unwritten(_) | Self::Unread) => other,
        }
    }

    /// The same, of a replica that took the change before it fell silent.
    pub(crate) fn unsettled(self) -> Self {
        match self {
            Self::Unanswered { address, reason } => Self::Unsettled { address, reason },
            other => other,
        }
    }

    /// There was no answer from `address`.
    pub(crate) fn unanswered(address: &str, reason: impl Into<String>) -> Self {
        Self::Unanswered {
            address: address.to_owned(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) | Self::Undecided(reason) | Self::Unmet(reason) => {
                f.write_str(reason)
            }
            Self::Unanswered { address, reason } | Self::Unsettled { address, reason } => {
                write!(f, "no answer from {address}: {reason}")
            }
            Self::Unwritten(error) => write!(f, "standard output: {error}"),
            Self::Unread => f.write_str("standard output: closed"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Unread,
            _ => Self::Unwritten(error),
        }
    }
}

/// Every field that is wrong, or what the replica says.
pub(crate) fn said(status: &Status) -> String {
    let bad = status.get_details_bad_request();
    let fields = bad.map(|bad| bad.field_violations).unwrap_or_default();
    let fields: Vec<String> = fields
        .iter()
        .map(|it| format!("{}: {}", it.field, it.description))
        .collect();
    match fields.len() {
        0 | 1 => status.message().to_owned(),
        _ => fields.join("; "),
    }
}

/// Returns the words of a refusal of a change, without those that nothing is changed: the command has them itself.
fn why(status: &Status) -> String {
    let said = said(status);
    let why = said.strip_suffix("; nothing is changed");
    why.unwrap_or(&said).to_owned()
}

/// Returns the reason of a refusal, as the services document them; empty if the status has none.
pub(crate) fn reason(status: &Status) -> String {
    let info = status.get_details_error_info();
    info.map(|it| it.reason).unwrap_or_default()
}

/// Returns a value that a refusal has beside its reason; empty if it has none of this name.
pub(crate) fn metadata(status: &Status, name: &str) -> String {
    let info = status.get_details_error_info();
    let value = info.and_then(|mut it| it.metadata.remove(name));
    value.unwrap_or_default()
}

/// Returns the text of a refusal that protects the last path between leaves: the leaves, the jobs and the remedy.
fn last_path(status: &Status) -> String {
    let whole = said(status);
    let without = whole.strip_suffix("; force makes the change all the same");
    let mut text = without.unwrap_or(&whole).to_owned();
    for name in ["leaves", "jobs"] {
        let value = metadata(status, name);
        if !value.split(", ").all(|it| text.contains(it)) {
            text += &format!("; {name}: {value}");
        }
    }
    text + "; nothing was changed. Repeat with --force to accept that"
}

/// The innermost cause, where the words that mean something are.
pub(crate) fn root(error: &(dyn Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    match error.downcast_ref::<io::Error>() {
        // Without "(os error 111)".
        Some(error) if error.raw_os_error().is_some() => error.kind().to_string(),
        Some(error) => error.to_string(),
        None => error.to_string(),
    }
}

/// Exit code of a request that is wrong.
pub(crate) const REFUSED: u8 = 1;
/// Exit code of a request that nobody answered.
pub(crate) const UNANSWERED: u8 = 2;
/// Exit code of an answer that says that something differs, or is not done in time.
pub(crate) const UNMET: u8 = 3;

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn a_refusal_says_once_that_nothing_was_changed() {
        let text = "only the leader decides this, and there is none; nothing is changed";
        let none = std::collections::HashMap::<String, String>::new();
        for reason in ["NO_LEADER", "LEADER_UNSURE"] {
            let details = ErrorDetails::with_error_info(reason, "weft", none.clone());
            let status = Status::with_error_details(Code::Unavailable, text, details);
            let said = Failure::of_change("192.0.2.1:7401", &status).to_string();
            let expected = "only the leader decides this, and there is none; nothing was changed: ";
            assert!(said.starts_with(expected), "{said}");
        }
    }

    #[test]
    fn a_replica_that_fails_has_refused_nothing() {
        for (code, exit) in [
            (Code::InvalidArgument, REFUSED),
            (Code::NotFound, REFUSED),
            (Code::FailedPrecondition, REFUSED),
            (Code::PermissionDenied, REFUSED),
            (Code::Internal, UNANSWERED),
            (Code::Unknown, UNANSWERED),
            (Code::Cancelled, UNANSWERED),
            (Code::DataLoss, UNANSWERED),
            (Code::Unavailable, UNANSWERED),
            (Code::DeadlineExceeded, UNANSWERED),
            (Code::Unimplemented, UNANSWERED),
        ] {
            let failure = Failure::from_status("192.0.2.1:7401", &Status::new(code, "why"));
            assert_eq!(failure.exit_code(), exit, "{code}");
        }
    }
}
