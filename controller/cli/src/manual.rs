//! Man pages and completion, written from the commands themselves.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Subcommand};
use clap_complete::Shell;

use crate::Arguments;
use crate::completion;
use crate::dialog::Dialog;
use crate::failure::{self, Failure};

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
                let refused = |error: io::Error| {
                    Failure::Refused(format!("{}: {error}", directory.display()))
                };
                fs::create_dir_all(&directory).map_err(refused)?;
                write_pages(&directory).map_err(refused)
            }
        }
    }
}

/// A man page of each command.
fn write_pages(directory: &Path) -> io::Result<()> {
    let mut command = without_help(Arguments::command());
    command.build();
    write_page(&command, "weft", directory)
}

/// `help` has no page of its own, nor has any of its commands.
fn without_help(command: clap::Command) -> clap::Command {
    let command = command.disable_help_subcommand(true);
    command.mut_subcommands(without_help)
}

fn write_page(command: &clap::Command, path: &str, directory: &Path) -> io::Result<()> {
    let name = path.replace(' ', "-");
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone()).title(name.to_uppercase());
    man.date(DATE).source(SOURCE).render(&mut page)?;
    // Lines are broken around an empty one there, which mandoc warns of.
    let text = String::from_utf8_lossy(&page);
    let mut page = text.replace(".br\n\n.br\n", ".sp\n").into_bytes();
    if let Some(example) = example(path) {
        let example = example.replace('-', "\\-");
        write!(page, ".SH EXAMPLES\n.nf\n{example}\n.fi\n")?;
    }
    writeln!(page, ".SH \"EXIT STATUS\"")?;
    for (code, meaning) in EXIT_CODES {
        write!(page, ".TP\n{code}\n{meaning}\n")?;
    }
    fs::write(directory.join(format!("{name}.1")), page)?;
    for command in command.get_subcommands() {
        let path = format!("{path} {}", command.get_name());
        write_page(command, &path, directory)?;
    }
    Ok(())
}

/// When what the pages say changed last: a page must have a date, and that of a build would differ from build to build.
const DATE: &str = "2026-11-26";
/// What the pages belong to.
const SOURCE: &str = concat!("weft ", env!("CARGO_PKG_VERSION"));

/// All commands, each with an example and the exit codes behind its options.
pub(crate) fn command() -> clap::Command {
    explained(Arguments::command(), "weft")
}

fn explained(command: clap::Command, path: &str) -> clap::Command {
    let names: Vec<_> = command
        .get_subcommands()
        .map(|it| it.get_name().to_owned())
        .collect();
    let mut command = command;
    for name in names {
        let inner = format!("{path} {name}");
        command = command.mut_subcommand(name, |it| explained(it, &inner));
    }
    let example = example(path).map(|example| format!("Example:\n  {example}\n\n"));
    let codes = EXIT_CODES.iter();
    let codes: Vec<_> = codes
        .map(|(code, meaning)| format!("  {code}  {meaning}"))
        .collect();
    let (example, codes) = (example.unwrap_or_default(), codes.join("\n"));
    command.after_help(format!("{example}Exit codes:\n{codes}"))
}

/// The first example of a command, or of those below it.
fn example(path: &str) -> Option<&'static str> {
    EXAMPLES.iter().find(|it| is_of(it, path)).copied()
}

/// Whether an example is one of this command: its words begin with the command's.
fn is_of(example: &str, path: &str) -> bool {
    let rest = example.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// What each exit code means.
const EXIT_CODES: [(u8, &str); 4] = [
    (0, "ok"),
    (
        failure::REFUSED,
        "refused: an argument, a file, or the replica's answer says why; nothing was changed",
    ),
    (
        failure::UNANSWERED,
        "no answer: no weft listens, nothing comes in time, a replica fails, or no majority of replicas agrees",
    ),
    (
        failure::UNMET,
        "not so: something is wrong, differs or cannot be compared, or is not reached in time",
    ),
];

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
    "weft fabric apply fabric.yaml --prune --yes",
    "weft fabric show -o yaml",
    "weft fabric watch --kind link",
    "weft backup save backup.yaml",
    "weft backup restore backup.yaml --dry-run",
    "weft switch list -o wide",
    "weft switch show leaf1",
    "weft link list -w",
    "weft link show leaf1:eth1--spine1:eth1",
    "weft link status",
    "weft link status -w",
    "weft link down leaf1:eth1--spine1:eth1",
    "weft link up leaf1:eth1--spine1:eth1",
    "weft switch up spine1",
    "weft switch down spine1",
    "weft switch down spine1 --force",
    "weft plan show --leaf leaf1",
    "weft plan diff",
    "weft plan what-if --drain spine1 --fail-link leaf1:eth1--spine2:eth1 --job job.yaml --without-job train1",
    "weft plan what-if --replan --job train1-placed-otherwise.yaml --pins -o json",
    "weft plan simulate --fabric fabric.yaml --job job.yaml --pins --svg links.svg",
    "weft plan why leaf1 leaf2",
    "weft balance off --leaf leaf1",
    "weft balance shadow --leaf leaf1",
    "weft balance on",
    "weft balance list",
    "weft job list -o wide",
    "weft job list -w",
    "weft job show train1",
    "weft job show train1 --flows",
    "weft job apply job.yaml --dry-run",
    "weft job import nccl-inspector nccl-inspector-4711 --name train1 --ttl 1h",
    "weft job import chakra train.0.et train.1.et --host h1,h2 --name train1",
    "weft job import rdma --host h1=h1.json --host h2=h2.json --device mlx5_0=0 --device mlx5_1=1 --name train1 --apply",
    "weft job import rdma --host h1=h1.json --host h2=h2.json --name train1 --into train1.yaml",
    "weft job renew train1 --ttl 1h",
    "weft job delete train1",
    "weft pin list --job train1",
    "weft decision list --kind derated-link",
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

    #[test]
    fn help_and_man_page_of_each_command_have_an_example_and_the_exit_codes() {
        let mut found = Vec::new();
        paths(&Arguments::command(), "weft", &mut found);
        for path in found {
            let mut command = command();
            command.build();
            for word in path.split(' ').skip(1) {
                command = command.find_subcommand(word).unwrap().clone();
            }
            let help = command.render_help().to_string();
            assert!(
                help.contains(&format!("Example:\n  {path}")),
                "{path}: {help}"
            );
            assert!(help.contains("Exit codes:\n  0  ok"), "{path}: {help}");
        }
        let directory = tempfile::tempdir().unwrap();
        write_pages(directory.path()).unwrap();
        let mut pages = 0;
        for page in fs::read_dir(directory.path()).unwrap() {
            let page = fs::read_to_string(page.unwrap().path()).unwrap();
            pages += 1;
            assert!(page.contains(".SH EXAMPLES\n.nf\nweft "), "{page}");
            assert!(page.contains(".SH \"EXIT STATUS\"\n.TP\n0\nok\n"), "{page}");
        }
        assert!(pages > 40, "{pages}");
    }
}
