//! weft: what an operator types. Knows words, tables and exit codes; every answer is a replica's.
//!
//! Each noun has its file, which knows its questions, its row and its columns.

use std::io::{self, BufReader, BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{FromArgMatches, Parser, Subcommand};

use connection::Connection;
use dialog::Dialog;
use failure::Failure;
use output::{Format, printable, printable_lines};
use person::Person;
use progress::{Progress, Screen};

mod agent;
mod backup;
mod balance;
mod completion;
mod config;
mod connection;
mod context;
mod decision;
mod dialog;
mod fabric;
mod failure;
mod fault;
mod follow;
mod host;
mod job;
mod link;
mod mac;
mod manual;
mod output;
mod peer;
mod person;
mod pin;
mod plan;
mod progress;
mod replica;
mod rib;
mod route;
mod segment;
mod status;
mod switch;
mod vni;
mod vtep;
mod words;

#[cfg(test)]
mod tests;

/// Asks a replica of weft, and declares the fabric to it.
#[derive(Parser)]
#[command(name = "weft", version)]
struct Arguments {
    /// Replica addresses, comma-separated; if one has not answered after 0.1 s, the next one is asked as well. Without it those of
    /// WEFT_ADDRESS, of the context, or 127.0.0.1:7401.
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT,...",
        value_delimiter = ',',
        value_parser = connection::address
    )]
    address: Vec<String>,
    /// Replicas to ask, by the name of a context; see `weft context`. Without it that of WEFT_CONTEXT, or the one in use.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        add = completion::contexts(),
        conflicts_with = "address"
    )]
    context: Option<String>,
    /// Form of the answer.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Columns without a line above them.
    #[arg(long, global = true)]
    no_headers: bool,
    /// Of a list: go on, and print each row that comes or changes, and the names of those that go.
    #[arg(short, long, global = true)]
    watch: bool,
    /// Longest time to wait for each answer, in seconds. A replica that answers no ping is left after 1.7 s.
    #[arg(
        long,
        global = true,
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=TIMEOUT_MAX_SECS)
    )]
    timeout: u64,
    #[command(subcommand)]
    noun: Noun,
}

#[derive(Subcommand)]
enum Noun {
    /// All that is wrong, on one screen. Exit code 3: something is.
    Status,
    /// BGP sessions, and which replica commits each peer's routes.
    #[command(subcommand)]
    Peer(peer::Command),
    /// Routes with all their paths.
    #[command(subcommand)]
    Route(route::Command),
    /// Ethernet segments: who is attached, who is the designated forwarder (DF).
    #[command(subcommand)]
    Segment(segment::Command),
    /// IP addresses with their MAC addresses and VTEPs.
    #[command(subcommand)]
    Host(host::Command),
    /// VNIs with their VTEPs and flood lists.
    #[command(subcommand)]
    Vni(vni::Command),
    /// MAC addresses.
    #[command(subcommand)]
    Mac(mac::Command),
    /// The tables as files.
    #[command(subcommand)]
    Rib(rib::Command),
    /// Tunnel endpoints that routes announce.
    #[command(subcommand)]
    Vtep(vtep::Command),
    /// Members of the Raft group.
    #[command(subcommand)]
    Replica(replica::Command),
    /// The fabric as it is declared: switches, links, host ports.
    #[command(subcommand)]
    Fabric(fabric::Command),
    /// Everything that operators and programs declared, as one file.
    #[command(subcommand)]
    Backup(backup::Command),
    /// The declared switches, one by one.
    #[command(subcommand)]
    Switch(switch::Command),
    /// The declared links, one by one: take one out of service, and put it back.
    #[command(subcommand)]
    Link(link::Command),
    /// How each leaf should spread its traffic, and why.
    #[command(subcommand)]
    Plan(plan::Command),
    /// What weft does with the routes of each leaf: off, shadow or on.
    #[command(subcommand)]
    Balance(balance::Command),
    /// Jobs: what trains on the fabric, and what it sends.
    #[command(subcommand)]
    Job(job::Command),
    /// Which spines the flows of jobs are to go over.
    #[command(subcommand)]
    Pin(pin::Command),
    /// What the leader decided from what it measured.
    #[command(subcommand)]
    Decision(decision::Command),
    /// The configuration of a replica; each has its own file.
    #[command(subcommand)]
    Config(config::Command),
    /// The switches that weft programs.
    #[command(subcommand)]
    Agent(agent::Command),
    /// Groups of replicas with a name.
    #[command(subcommand)]
    Context(context::Command),
    #[command(flatten)]
    Manual(manual::Command),
}

impl Noun {
    /// Whether a list of what may come and go is asked for; if not, why it is not watched.
    fn watched(&self) -> Result<(), Failure> {
        let reason = match self {
            _ if self.lists() => return Ok(()),
            Self::Context(_) => {
                "--watch: contexts are in a file of your own; nobody else changes it"
            }
            Self::Fabric(_) => "--watch is for lists; the fabric has `weft fabric watch`",
            _ => "--watch is for lists",
        };
        Err(Failure::Refused(reason.to_owned()))
    }

    /// Whether the answer is a list of what may come and go.
    fn lists(&self) -> bool {
        matches!(
            self,
            Self::Peer(peer::Command::List)
                | Self::Route(route::Command::List(_))
                | Self::Segment(segment::Command::List(_))
                | Self::Host(host::Command::List(_))
                | Self::Vni(vni::Command::List(_))
                | Self::Mac(mac::Command::Moves)
                | Self::Vtep(vtep::Command::List(_))
                | Self::Replica(replica::Command::List)
                | Self::Switch(switch::Command::List)
                | Self::Link(link::Command::List | link::Command::Status { link: None })
                | Self::Job(job::Command::List)
                | Self::Pin(pin::Command::List(_))
                | Self::Decision(decision::Command::List(_))
                | Self::Config(config::Command::Show(_))
                | Self::Agent(agent::Command::List)
        )
    }
}

fn main() -> ExitCode {
    // A shell that completes a line runs this program in its own way, which ends here.
    clap_complete::CompleteEnv::with_factory(manual::command)
        .var(completion::VARIABLE)
        .complete();
    let matches = manual::command().try_get_matches();
    let arguments = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(help) => return explain(&help),
    };
    let progress = Progress::new();
    let screen = Screen {
        out: io::stdout().lock(),
        progress: &progress,
    };
    let mut out = BufWriter::new(screen);
    // Standard input stays unlocked: a file named `-` is read from it, too.
    let (mut input, mut questions) = (BufReader::new(io::stdin()), io::stderr());
    let person = Person::new(person::is_present(), &mut input, &mut questions);
    let result = run(arguments, &progress, person, &mut out).and_then(|()| Ok(out.flush()?));
    drop(out);
    for note in progress.notes() {
        let _ = writeln!(io::stderr(), "weft: {}", printable(&note));
    }
    match result {
        Ok(()) | Err(Failure::Unread) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody reads it when standard error is closed too.
            let _ = writeln!(io::stderr(), "weft: {}", shown(&failure));
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Why, as it is printed: a mistake in a file is shown with its line, under which it is marked.
fn shown(failure: &Failure) -> String {
    printable_lines(&failure.to_string())
}

/// Help that was asked for, or what is wrong with the arguments.
fn explain(help: &clap::Error) -> ExitCode {
    let _ = help.print();
    ExitCode::from(if help.use_stderr() {
        failure::REFUSED
    } else {
        0
    })
}

fn run<'a>(
    arguments: Arguments,
    progress: &'a Progress,
    person: Person<'a>,
    out: &'a mut dyn Write,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(progress.during(ask(arguments, progress, person, out)));
    // A resolver that hangs is not waited for.
    runtime.shutdown_background();
    result
}

async fn ask<'a>(
    arguments: Arguments,
    progress: &'a Progress,
    person: Person<'a>,
    out: &'a mut dyn Write,
) -> Result<(), Failure> {
    let Arguments {
        address,
        context,
        output: format,
        no_headers,
        watch,
        timeout,
        noun,
    } = arguments;
    if watch {
        noun.watched()?;
    }
    let local = matches!(noun, Noun::Context(_) | Noun::Manual(_));
    let addresses = match local {
        true => Vec::new(),
        false => context::addresses(address, context.as_deref())?,
    };
    let mut dialog = Dialog {
        connection: Connection::new(addresses, Duration::from_secs(timeout)),
        format,
        headers: !no_headers,
        watch,
        progress,
        person,
        out,
    };
    match noun {
        Noun::Status => status::run(&mut dialog).await,
        Noun::Context(command) => command.run(&mut dialog),
        Noun::Manual(command) => command.run(&mut dialog),
        Noun::Peer(command) => command.run(&mut dialog).await,
        Noun::Route(command) => command.run(&mut dialog).await,
        Noun::Segment(command) => command.run(&mut dialog).await,
        Noun::Host(command) => command.run(&mut dialog).await,
        Noun::Vni(command) => command.run(&mut dialog).await,
        Noun::Mac(command) => command.run(&mut dialog).await,
        Noun::Rib(command) => command.run(&mut dialog).await,
        Noun::Vtep(command) => command.run(&mut dialog).await,
        Noun::Replica(command) => command.run(&mut dialog).await,
        Noun::Fabric(command) => command.run(&mut dialog).await,
        Noun::Backup(command) => command.run(&mut dialog).await,
        Noun::Switch(command) => command.run(&mut dialog).await,
        Noun::Link(command) => command.run(&mut dialog).await,
        Noun::Plan(command) => command.run(&mut dialog).await,
        Noun::Balance(command) => command.run(&mut dialog).await,
        Noun::Job(command) => command.run(&mut dialog).await,
        Noun::Pin(command) => command.run(&mut dialog).await,
        Noun::Decision(command) => command.run(&mut dialog).await,
        Noun::Config(command) => command.run(&mut dialog).await,
        Noun::Agent(command) => command.run(&mut dialog).await,
    }
}

/// A day; more is no timeout.
const TIMEOUT_MAX_SECS: u64 = 86_400;
