//! What switches that are declared with TLS are reached with: CAs and a login. Reads the files that hold them, and knows
//! no connection.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use weft_sys::{Key, KeyError};
use weft_telemetry::Authorities;

use super::check::{Invalid, invalid};
use super::file::{FileSwitches, OrFlag};
use super::knobs::off;

/// The table `[switches]`. The login itself is never held here.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Switches {
    /// PEM file with the CAs that certificates of switches are checked against.
    pub ca_file: Option<PathBuf>,
    /// What is sent with each call, over TLS only.
    pub login: Option<Login>,
}

/// Who weft is at a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub username: String,
    /// The file with the user's password.
    pub password_file: PathBuf,
}

/// What the files of `[switches]` hold. Two can be compared, to find out whether a file changed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Credentials {
    /// The CAs to trust; without any, no switch is reached over TLS.
    pub authorities: Option<Authorities>,
    /// User and password.
    pub login: Option<(String, Key)>,
}

/// Why the files of `[switches]` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The CAs cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// They are not certificates.
    #[error("{}: {reason}", path.display())]
    NoAuthority {
        /// Which file.
        path: PathBuf,
        /// What is wrong with them.
        reason: String,
    },
    /// The password cannot be read.
    #[error("{}", with_source(.0))]
    Password(KeyError),
    /// gRPC's metadata, which carries the password, takes printable ASCII.
    #[error("password in {} not printable ASCII", .0.display())]
    Unprintable(PathBuf),
}

impl CredentialsError {
    /// The field of the configuration that names the file.
    fn field(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } | Self::NoAuthority { .. } => "switches.ca_file",
            Self::Password(_) | Self::Unprintable(_) => "switches.password_file",
        }
    }
}

impl Switches {
    /// What the files hold now.
    ///
    /// # Errors
    /// Why one of them cannot be used.
    pub fn load(&self) -> Result<Credentials, CredentialsError> {
        let authorities = self.ca_file.as_deref().map(authorities).transpose()?;
        let login = self.login.as_ref().map(|login| {
            let path = &login.password_file;
            let password = Key::load(path).map_err(CredentialsError::Password)?;
            match password.octets().iter().all(|it| is_printable(*it)) {
                true => Ok((login.username.clone(), password)),
                false => Err(CredentialsError::Unprintable(path.clone())),
            }
        });
        Ok(Credentials {
            authorities,
            login: login.transpose()?,
        })
    }

    /// Whether every file holds what it is said to hold.
    pub(super) fn check_files(&self) -> Result<(), Invalid> {
        let loaded = self.load().map(drop);
        loaded.or_else(|error| invalid(error.field(), error))
    }
}

impl FileSwitches {
    pub(super) fn check(self) -> Result<Switches, Invalid> {
        let ca_file = given(self.ca_file, "ca_file", |path| path.as_os_str().is_empty())?;
        let username = given(self.username, "username", String::is_empty)?;
        let password_file = given(self.password_file, "password_file", |path| {
            path.as_os_str().is_empty()
        })?;
        let login = match (username, password_file) {
            (None, None) => None,
            (Some(_), None) => return invalid("switches.username", "needs password_file"),
            (None, Some(_)) => return invalid("switches.password_file", "needs username"),
            (Some(username), Some(password_file)) => {
                if !username.bytes().all(is_printable) {
                    return invalid("switches.username", "not printable ASCII");
                }
                if ca_file.is_none() {
                    let reason = "needs ca_file: a login is sent over TLS only";
                    return invalid("switches.username", reason);
                }
                Some(Login {
                    username,
                    password_file,
                })
            }
        };
        Ok(Switches { ca_file, login })
    }
}

/// A value that is written and not empty; `false` is none.
fn given<T>(
    value: Option<OrFlag<T>>,
    knob: &str,
    is_empty: impl Fn(&T) -> bool,
) -> Result<Option<T>, Invalid> {
    let field = format!("switches.{knob}");
    match value {
        None => Ok(None),
        Some(OrFlag::Flag(flag)) => off(field, flag).map(|()| None),
        Some(OrFlag::Given(value)) if is_empty(&value) => invalid(field, "is empty"),
        Some(OrFlag::Given(value)) => Ok(Some(value)),
    }
}

fn authorities(path: &Path) -> Result<Authorities, CredentialsError> {
    let pem = std::fs::read(path).map_err(|source| CredentialsError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    Authorities::from_pem(&pem).map_err(|reason| CredentialsError::NoAuthority {
        path: path.to_owned(),
        reason,
    })
}

fn is_printable(octet: u8) -> bool {
    octet == b' ' || octet.is_ascii_graphic()
}

fn with_source(error: &KeyError) -> impl fmt::Display + use<> {
    let source = std::error::Error::source(error);
    let why = source.map_or_else(String::new, |source| format!(": {source}"));
    format!("{error}{why}")
}
