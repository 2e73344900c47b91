//! `weft context`: groups of replicas with a name, in a file of the user's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::{Deserialize, Serialize};

use crate::completion;
use crate::connection;
use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{self, or_dash, printable};

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
        #[arg(value_name = "HOST:PORT,...", value_delimiter = ',', value_parser = connection::address)]
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
    pub(crate) fn addresses(&self, name: Option<&str>) -> Result<Option<Vec<String>>, Failure> {
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
    let rows = contexts.context.iter().map(|(name, context)| Row {
        name: name.clone(),
        addresses: context.addresses.clone(),
        current: contexts.current.as_ref() == Some(name),
    });
    dialog.rows::<_, Row>(rows.collect())
}

#[derive(Serialize)]
struct Row {
    name: String,
    addresses: Vec<String>,
    current: bool,
}

impl output::Row for Row {
    const HEADER: &'static [&'static str] = &["", "NAME", "ADDRESSES"];

    fn cells(&self) -> Vec<String> {
        vec![
            if self.current { "*" } else { "" }.to_owned(),
            self.name.clone(),
            or_dash(&self.addresses.join(",")),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
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
    Failure::Refused(format!("no context is named {name:?}; weft context list"))
}

fn fault(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Refused(format!("{}: {error}", path.display()))
}
