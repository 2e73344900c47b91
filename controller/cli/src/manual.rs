//! Man pages and completion, written from the commands themselves.

use std::fs;
use std::path::PathBuf;

use clap::{CommandFactory, Subcommand};
use clap_complete::Shell;

use crate::Arguments;
use crate::completion;
use crate::dialog::Dialog;
use crate::failure::Failure;

/// What can be written.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// A man page for each command, into a directory.
    Man {
        /// The directory; it is made if it is not there.
        directory: PathBuf,
    },
    /// What a shell has to run to complete commands, options, and names, for which it asks a replica: bash has it by
    /// `source <(weft completion bash)`.
    Completion {
        /// The shell.
        shell: Shell,
    },
}

impl Command {
    /// Writes it.
    pub(crate) fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::Completion { shell } => {
                let shell = shell.to_string();
                let shells = clap_complete::env::Shells::builtins();
                let known = shells.completer(&shell).ok_or_else(|| {
                    Failure::Refused(format!("no completion is known for {shell}"))
                })?;
                let written = known.write_registration(
                    completion::VARIABLE,
                    "weft",
                    "weft",
                    "weft",
                    &mut dialog.out,
                );
                Ok(written?)
            }
            Self::Man { directory } => {
                let refused = |error: std::io::Error| {
                    Failure::Refused(format!("{}: {error}", directory.display()))
                };
                fs::create_dir_all(&directory).map_err(refused)?;
                let mut command = with_examples(Arguments::command(), "weft");
                command.build();
                clap_mangen::generate_to(command, &directory).map_err(refused)
            }
        }
    }
}

/// Each command with its example behind its options.
fn with_examples(command: clap::Command, path: &str) -> clap::Command {
    let names: Vec<_> = command
        .get_subcommands()
        .map(|it| it.get_name().to_owned())
        .collect();
    let mut command = command;
    for name in names {
        let inner = format!("{path} {name}");
        command = command.mut_subcommand(name, |it| with_examples(it, &inner));
    }
    let example = EXAMPLES.iter().find(|it| is_of(it, path));
    match example {
        Some(example) => command.after_help(format!("Example:\n  {example}")),
        None => command,
    }
}

/// Whether an example is one of this command: its words begin with the command's.
fn is_of(example: &str, path: &str) -> bool {
    let rest = example.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// One for each command.
const EXAMPLES: &[&str] = &[
    "weft status --address 192.0.2.1:7401,192.0.2.2:7401,192.0.2.3:7401",
    "weft peer list -o wide",
    "weft peer show 10.255.0.11",
    "weft peer wait 10.255.0.11 --for established --within 60",
    "weft peer reset 10.255.0.11",
    "weft peer refresh 10.255.0.11 --soft in",
    "weft route list --vni 100 --type 2",
    "weft route show 10.1.0.0/16",
    "weft segment list --tag 100",
    "weft segment show 03:00:00:00:00:00:01:00:00:01",
    "weft host list --vni 100",
    "weft vni list --no-headers",
    "weft vni show 100",
    "weft mac moves",
    "weft mac clear 100 00:00:5e:00:53:01",
    "weft rib dump rib.mrt",
    "weft vtep list",
    "weft replica list",
    "weft fabric apply fabric.yaml --dry-run",
    "weft fabric show -o yaml",
    "weft fabric link leaf1:eth1--spine1:eth1 down",
    "weft fabric watch --kind link",
    "weft plan show --leaf leaf1",
    "weft plan diff",
    "weft balance off --leaf leaf1",
    "weft balance shadow --leaf leaf1",
    "weft balance on",
    "weft balance show",
    "weft config show peer 192.0.2.1",
    "weft config diff --replicas",
    "weft config reload --all --dry-run",
    "weft agent list",
    "weft agent show leaf1",
    "weft context list",
    "weft context use lab",
    "weft context set lab 192.0.2.1:7401,192.0.2.2:7401,192.0.2.3:7401",
    "weft context delete lab",
    "weft man man1",
    "weft completion bash",
];

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// The paths of commands that do something.
    fn paths(command: &clap::Command, before: &str, found: &mut Vec<String>) {
        let mut inner = command
            .get_subcommands()
            .filter(|it| it.get_name() != "help")
            .peekable();
        if inner.peek().is_none() {
            found.push(before.to_owned());
        }
        for command in inner {
            paths(command, &format!("{before} {}", command.get_name()), found);
        }
    }

    #[test]
    fn each_command_has_an_example_that_it_understands() {
        for example in EXAMPLES {
            if let Err(fault) = Arguments::try_parse_from(example.split(' ')) {
                panic!("{example}: {fault}");
            }
        }
        let mut found = Vec::new();
        paths(&Arguments::command(), "weft", &mut found);
        let without: Vec<_> = found
            .iter()
            .filter(|path| !EXAMPLES.iter().any(|it| is_of(it, path)))
            .collect();
        assert!(without.is_empty(), "{without:?}");
    }
}
