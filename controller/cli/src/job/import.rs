//! `weft job import`: makes a job of what other tools wrote. Knows files, limits of a job and where it goes, and no format.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use prost::Message;
use prost_types::Duration;
use serde::{Serialize, Serializer};
use serde_json::Value;
use weft_proto::v1 as proto;

use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{self, Format, Row};

use nics::Nics;
use notes::Notes;

mod chakra;
mod inspector;
mod into;
mod nics;
mod notes;
mod ranks;
mod rdma;

/// What a job can be made of.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// NCCL Inspector's JSON lines (NCCL 2.28 and later): a group for each communicator and collective, flows of sends.
    NcclInspector(inspector::Source),
    /// Chakra execution traces, octets or JSON, a file for each rank: a group for each process group and collective, flows of sends.
    Chakra(chakra::Source),
    /// Queue pairs, as `rdma -j resource show qp` prints them on each host: flows between NICs with their queue pairs.
    Rdma(rdma::Source),
}

/// What is said of the job whatever it is made of.
#[derive(Args)]
struct Wanted {
    /// Name of the job.
    #[arg(long)]
    name: String,
    /// Time from now until the job expires, as in 90m; without it, it ends when it is deleted.
    #[arg(long, value_name = "TIME", value_parser = super::read_ttl)]
    ttl: Option<Duration>,
    /// Flows of a job with a higher priority are placed first.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=PRIORITY_MAX)
    )]
    priority: u32,
    /// Fabric file, YAML or JSON, to look up host ports in; without it a replica is asked.
    #[arg(long, value_name = "FILE")]
    fabric: Option<PathBuf>,
    /// Declare the job, instead of printing it.
    #[arg(long)]
    apply: bool,
    /// Check everything, change nothing.
    #[arg(long, requires = "apply")]
    dry_run: bool,
    /// Put what is found into the job of this file, in the place of what came from the same tool before, instead of printing it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["apply", "ttl", "priority"])]
    into: Option<PathBuf>,
}

impl Command {
    /// Reads, asks where the NICs are, and prints or declares the job.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let mut notes = Notes::default();
        let tool = match self {
            Self::NcclInspector(_) | Self::Chakra(_) => into::Tool::Trace,
            Self::Rdma(_) => into::Tool::Rdma,
        };
        let made = match self {
            Self::NcclInspector(source) => source.job(dialog, &mut notes).await,
            Self::Chakra(source) => source.job(dialog, &mut notes).await,
            Self::Rdma(source) => source.job(dialog, &mut notes).await,
        };
        let made = made.and_then(|(wanted, job)| {
            let job = wanted.finish(job, &mut notes)?;
            let merged = wanted.into.as_deref();
            let merged = merged.map(|file| into::merge(file, job.clone(), tool, &mut notes));
            Ok((wanted, job, merged.transpose()?))
        });
        // What was left out is said also if nothing is left.
        for line in notes.lines() {
            dialog.progress.note(line.as_str());
        }
        let (wanted, job, merged) = made?;
        if let Some(merged) = merged {
            return merged.write(dialog.out);
        }
        if wanted.apply {
            return super::declare("import", job, wanted.dry_run, dialog).await;
        }
        let format = match dialog.format {
            Format::Json => Format::Json,
            Format::Table | Format::Wide | Format::Yaml | Format::Name => Format::Yaml,
        };
        output::object(dialog.out, format, &InOrder(&file(&job)))?;
        Ok(())
    }
}

impl Wanted {
    /// Host ports by their hosts.
    async fn nics(&self, dialog: &Dialog<'_>) -> Result<Nics, Failure> {
        match &self.fabric {
            Some(file) => Nics::declared(file),
            None => Nics::asked(dialog).await,
        }
    }

    /// Gives a job its name, and at most what a job may have.
    fn finish(&self, mut job: proto::Job, notes: &mut Notes) -> Result<proto::Job, Failure> {
        job.name.clone_from(&self.name);
        job.ttl = self.ttl;
        job.priority = self.priority;
        let octets = |it: &proto::CollectiveGroup| it.octets;
        fit(&mut job.groups, GROUPS_MAX, octets, "groups", notes);
        fit(&mut job.flows, FLOWS_MAX, |it| it.octets, "flows", notes);
        if job.groups.is_empty() && job.flows.is_empty() {
            return Err(Failure::Refused(
                "no group and no flow was found".to_owned(),
            ));
        }
        within_limits(&job)?;
        Ok(job)
    }
}

/// Refuses a job that a replica would not take.
fn within_limits(job: &proto::Job) -> Result<(), Failure> {
    let (groups, flows, ranks) = (job.groups.len(), job.flows.len(), job.ranks.len());
    let octets = job.encoded_len();
    if octets > OCTETS_MAX || groups > GROUPS_MAX || flows > FLOWS_MAX {
        let reason = format!(
            "the job has {octets} octets, at most {OCTETS_MAX}: {ranks} ranks, {groups} groups (at most {GROUPS_MAX}), {flows} flows (at most {FLOWS_MAX}); import fewer files"
        );
        return Err(Failure::Refused(reason));
    }
    Ok(())
}

/// Leaves away the smallest of a list that is too long.
fn fit<T>(
    list: &mut Vec<T>,
    most: usize,
    octets: impl Fn(&T) -> u64,
    what: &str,
    notes: &mut Notes,
) {
    if list.len() <= most {
        return;
    }
    let count = list.len();
    let mut sizes: Vec<(u64, usize)> = list.iter().map(octets).zip(0..).collect();
    sizes.sort_unstable_by_key(|(octets, at)| (std::cmp::Reverse(*octets), *at));
    let lost: u128 = sizes[most..].iter().map(|(it, _)| u128::from(*it)).sum();
    let mut keeps = vec![false; count];
    for (_, at) in &sizes[..most] {
        keeps[*at] = true;
    }
    let mut keeps = keeps.into_iter();
    list.retain(|_| keeps.next().unwrap_or(false));
    let left = count - most;
    notes.say(format!(
        "{count} {what}, and a job has at most {most}: the smallest {left} are left out, {lost} octets together"
    ));
}

/// A job as a file has it: without what is empty.
fn file(job: &proto::Job) -> Value {
    let mut value = job.object();
    strip(&mut value);
    value
}

/// A value whose fields stand in the order in which a person reads them.
struct InOrder<'a>(&'a Value);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => {
                let place = |name: &str| FIELDS.iter().position(|it| *it == name);
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_by_key(|(name, _)| place(name).unwrap_or(FIELDS.len()));
                serializer.collect_map(fields.into_iter().map(|(name, it)| (name, InOrder(it))))
            }
            Value::Array(values) => serializer.collect_seq(values.iter().map(InOrder)),
            other => other.serialize(serializer),
        }
    }
}

/// Takes fields away that say nothing.
fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(strip);
            fields.retain(|_, value| !is_empty(value));
        }
        Value::Array(values) => values.iter_mut().for_each(strip),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty() || text.ends_with("_UNSPECIFIED"),
        Value::Number(number) => number.as_u64() == Some(0),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) => false,
    }
}

/// The files that are named, and those in the directories that are.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let refused = |error| unreadable(path, &error);
        let mut inner = Vec::new();
        for entry in std::fs::read_dir(path).map_err(refused)? {
            let file = entry.map_err(refused)?.path();
            let hidden = file
                .file_name()
                .is_none_or(|it| it.as_encoded_bytes().starts_with(b"."));
            if file.is_file() && !hidden {
                inner.push(file);
            }
        }
        if inner.is_empty() {
            return Err(refuse(path, "a directory without files"));
        }
        inner.sort();
        files.append(&mut inner);
    }
    match files.len() {
        0..=FILES_MAX => Ok(files),
        count => Err(Failure::Refused(format!(
            "{count} files, at most {FILES_MAX}"
        ))),
    }
}

fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    Ok(BufReader::new(file))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    refuse(path, &error.to_string())
}

fn refuse(path: &Path, reason: &str) -> Failure {
    Failure::Refused(format!("{}: {reason}", path.display()))
}

/// What is wrong with a file, and where; of another kind of file, which kind that is.
fn fault(path: &Path, place: &str, reason: &str, expected: Kind) -> Failure {
    match kind(path) {
        Some(kind) if kind != expected => {
            let reason = format!("{}, not {}", kind.name(), expected.name());
            refuse(path, &reason)
        }
        _ => Failure::Refused(format!("{}:{place}: {reason}", path.display())),
    }
}

/// Line and column of a mistake in JSON, and the reason.
fn json_fault(error: &serde_json::Error) -> (String, String) {
    let (line, column) = (error.line(), error.column());
    let reason = error.to_string();
    let end = format!(" at line {line} column {column}");
    let reason = reason.strip_suffix(&end).unwrap_or(&reason);
    (format!("{line}:{column}"), reason.to_owned())
}

/// What a file can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// What NCCL Inspector writes.
    Inspector,
    /// An execution trace.
    Chakra,
    /// What `rdma` prints.
    Rdma,
    /// What PyTorch's profiler writes, before it is converted.
    PyTorch,
    /// What `gzip` made of another one.
    Compressed,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Inspector => "lines of NCCL Inspector",
            Self::Chakra => "a Chakra execution trace",
            Self::Rdma => "what `rdma -j resource show qp` prints",
            Self::PyTorch => "a trace of PyTorch's profiler, which chakra_converter reads",
            Self::Compressed => "compressed by gzip",
        }
    }
}

/// What a file is by its first octets, if that is known.
fn kind(path: &Path) -> Option<Kind> {
    let mut head = Vec::new();
    let file = File::open(path).ok()?;
    file.take(HEAD_OCTETS).read_to_end(&mut head).ok()?;
    if head.starts_with(&[0x1f, 0x8b]) {
        return Some(Kind::Compressed);
    }
    let text = String::from_utf8_lossy(&head);
    let words = [
        ("\"coll_perf\"", Kind::Inspector),
        ("\"p2p_perf\"", Kind::Inspector),
        ("\"dump_stats\"", Kind::Inspector),
        ("\"lqpn\"", Kind::Rdma),
        ("\"workload_graph\"", Kind::Chakra),
        ("_NODE\"", Kind::Chakra),
        ("\"traceEvents\"", Kind::PyTorch),
        ("\"schema\"", Kind::PyTorch),
    ];
    let found = words.iter().find(|(word, _)| text.contains(word));
    match found {
        Some((_, kind)) => Some(*kind),
        None if head.iter().any(|it| *it < 0x09) => Some(Kind::Chakra),
        None => None,
    }
}

/// Adds a number to a sum that stays where it cannot grow.
fn add(sum: &mut u64, octets: u64) {
    *sum = sum.saturating_add(octets);
}

/// Names of fields in the order in which they are printed.
const FIELDS: [&str; 16] = [
    "name",
    "ttl",
    "priority",
    "collective",
    "algorithm",
    "source",
    "destination",
    "host_port_name",
    "source_number",
    "destination_number",
    "octets",
    "channels",
    "ranks",
    "groups",
    "flows",
    "pairs",
];
/// As many groups as a replica takes.
const GROUPS_MAX: usize = 1_000;
/// As many flows as a replica takes.
const FLOWS_MAX: usize = 65_536;
/// As many octets as a replica takes of a job.
const OCTETS_MAX: usize = 1 << 20;
/// As many ranks as a replica takes.
const RANKS_MAX: usize = 65_536;
/// The highest priority that a replica takes.
const PRIORITY_MAX: i64 = 1_000;
/// A file for each rank.
const FILES_MAX: usize = RANKS_MAX;
/// Octets of a file that say what it is.
const HEAD_OCTETS: u64 = 65_536;
