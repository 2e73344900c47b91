//! `weft context`: groups of replicas with a name, in a file of the user's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use prost_types::Timestamp;
use serde::{Deserialize, Serialize};

use crate::completion;
use crate::connection;
use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{Row, or_dash, printable};

/// What can be done with contexts.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every context; `*` marks the one that is used.
    List,
    /// Use a context from now on.
    Use {
        /// Its name.
        #[arg(add = completion::contexts())]
        name: String,
    },
    /// Write a context, or write it anew.
    Set {
        /// Its name.
        name: String,
        /// Its replicas, with commas between them.
        #[arg(
            value_name = "HOST:PORT,...",
            required = true,
            value_delimiter = ',',
            value_parser = connection::address
        )]
        addresses: Vec<String>,
    },
    /// Take a context out of the file.
    Delete {
        /// Its name.
        #[arg(add = completion::contexts())]
        name: String,
    },
}

/// The file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    /// Name of the context that is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default)]
    context: BTreeMap<String, Context>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    addresses: Vec<String>,
}

impl Contexts {
    /// What the file says; nothing if there is none.
    pub(crate) fn read() -> Result<Self, Failure> {
        let Some(path) = path() else {
            return Ok(Self::default());
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(fault(&path, &error)),
        };
        toml::from_str(&text).map_err(|error| fault(&path, &error))
    }

    /// The replicas of a context, or of the one that is used. None: no context is used.
    fn addresses(&self, name: Option<&str>) -> Result<Option<Vec<String>>, Failure> {
        let Some(name) = name.or(self.current.as_deref()) else {
            return Ok(None);
        };
        let context = self.context.get(name).ok_or_else(|| unknown(name))?;
        for address in &context.addresses {
            connection::address(address)
                .map_err(|why| Failure::Refused(format!("context {name}: {address}: {why}")))?;
        }
        Ok(Some(context.addresses.clone()))
    }

    /// Names, for the shell that completes one.
    pub(crate) fn names(&self) -> Vec<String> {
        self.context.keys().cloned().collect()
    }

    fn write(&self) -> Result<(), Failure> {
        let path = path().ok_or_else(|| {
            Failure::Refused("no place for a file: neither WEFT_CONFIG nor HOME is set".to_owned())
        })?;
        let text = toml::to_string(self).map_err(|error| fault(&path, &error))?;
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(|error| fault(directory, &error))?;
        }
        // Whoever reads it meanwhile reads the one or the other.
        let new = path.with_extension("new");
        std::fs::write(&new, text).map_err(|error| fault(&new, &error))?;
        std::fs::rename(&new, &path).map_err(|error| fault(&path, &error))
    }
}

/// Who is asked: what is given with the command, else what the environment says, else the context that is used, else this
/// machine.
pub(crate) fn addresses(
    addresses: Vec<String>,
    context: Option<&str>,
) -> Result<Vec<String>, Failure> {
    if !addresses.is_empty() {
        return Ok(addresses);
    }
    let set = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
    if let Some(given) = set(ADDRESS).filter(|_| context.is_none()) {
        return environment(&given);
    }
    let name = context.map(str::to_owned).or_else(|| set(CONTEXT));
    let used = Contexts::read()?.addresses(name.as_deref())?;
    Ok(used.unwrap_or_else(|| vec![DEFAULT_ADDRESS.to_owned()]))
}

fn environment(given: &str) -> Result<Vec<String>, Failure> {
    let each = given.split(',').map(|it| {
        let fault = |why| Failure::Refused(format!("{ADDRESS}: {it}: {why}"));
        connection::address(it).map_err(fault)
    });
    each.collect()
}

impl Command {
    /// Does it, and prints.
    pub(crate) fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let mut contexts = Contexts::read()?;
        match self {
            Self::List => return list(&contexts, dialog),
            Self::Use { name } => {
                contexts.context.get(&name).ok_or_else(|| unknown(&name))?;
                contexts.current = Some(name);
            }
            Self::Set { name, addresses } => {
                let first = contexts.context.is_empty();
                contexts.context.insert(name.clone(), Context { addresses });
                if first {
                    contexts.current = Some(name);
                }
            }
            Self::Delete { name } => {
                contexts
                    .context
                    .remove(&name)
                    .ok_or_else(|| unknown(&name))?;
                contexts.current = contexts.current.filter(|current| *current != name);
            }
        }
        contexts.write()
    }
}

fn list(contexts: &Contexts, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let rows = contexts.context.iter().map(|(name, context)| Line {
        name,
        addresses: &context.addresses,
        current: contexts.current.as_ref() == Some(name),
    });
    dialog.rows(&rows.collect::<Vec<_>>(), None)
}

/// A context; no message has it, for it is in a file of the user's own.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    addresses: &'a [String],
    current: bool,
}

impl Row for Line<'_> {
    const HEADER: &'static [&'static str] = &["", "NAME", "ADDRESSES"];

    fn object(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        vec![vec![
            if self.current { "*" } else { "" }.to_owned(),
            self.name.to_owned(),
            or_dash(&self.addresses.join(",")),
        ]]
    }

    fn name(&self) -> String {
        self.name.to_owned()
    }
}

/// `$WEFT_CONFIG`, or `weft/config.toml` among the user's configuration.
fn path() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty());
    if let Some(path) = set("WEFT_CONFIG") {
        return Some(path.into());
    }
    let directory = match set("XDG_CONFIG_HOME") {
        Some(directory) => PathBuf::from(directory),
        None => Path::new(&set("HOME")?).join(".config"),
    };
    Some(directory.join("weft/config.toml"))
}

fn unknown(name: &str) -> Failure {
    let name = printable(name);
    let place = match path() {
        Some(path) => path.display().to_string(),
        None => "no file is read: neither WEFT_CONFIG nor HOME is set".to_owned(),
    };
    Failure::Refused(format!(
        "no context is named {name:?} ({place}); weft context list"
    ))
}

fn fault(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Refused(format!("{}: {error}", path.display()))
}

/// Replicas to ask, where no option says so.
const ADDRESS: &str = "WEFT_ADDRESS";
/// Context to use, where no option says so.
const CONTEXT: &str = "WEFT_CONTEXT";
/// Where weftd listens unless its file says otherwise.
const DEFAULT_ADDRESS: &str = "127.0.0.1:7401";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_read_as_an_option_is() {
        let both = ["192.0.2.1:1", "[2001:db8::1]:1"];
        assert_eq!(environment("192.0.2.1:1,[2001:db8::1]:1").unwrap(), both);
        let fault = environment("192.0.2.1").unwrap_err().to_string();
        assert!(fault.starts_with("WEFT_ADDRESS: 192.0.2.1: "), "{fault}");
    }
}
