//! What was imported, in the file of a job that is declared by hand: takes the place of what the same tool brought before, and
//! leaves the rest of the file as it is, comments too. Knows the form of a job file, and no tool's format.
//!
//! A job file does not say where a flow comes from, so that is told by its form: only `rdma` knows queue pairs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;
use weft_proto::v1 as proto;

use super::notes::Notes;
use super::{InOrder, file, refuse, unreadable, within_limits};
use crate::failure::Failure;
use crate::job::declared;
use crate::output;

/// Who brought the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// Flows with queue pairs, and no group.
    Rdma,
    /// NCCL Inspector or Chakra: groups, and flows without queue pairs.
    Trace,
}

/// A file as it shall be.
#[derive(Debug)]
pub(super) struct Merged {
    path: PathBuf,
    text: String,
    done: String,
}

/// Puts the groups and flows of a job into the file of that job.
pub(super) fn merge(
    path: &Path,
    found: proto::Job,
    tool: Tool,
    notes: &mut Notes,
) -> Result<Merged, Failure> {
    // Standard input cannot be written to.
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    let (_, known) = declared::read(path, &mut std::io::empty())?;
    let mut job = known.clone();
    if job.name != found.name {
        let reason = format!("there is no job {}, but {}", found.name, job.name);
        return Err(refuse(path, &reason));
    }
    let (groups, flows) = (found.groups.len(), found.flows.len());
    let before = job.flows.len();
    let same = found.flows.clone();
    job.flows.retain(|flow| !is_of(flow, tool, &same));
    let gone = before - job.flows.len();
    if tool == Tool::Trace {
        let other = job.flows.iter().filter(|flow| flow.pairs.is_empty());
        match other.count() {
            0 => {}
            left => notes.say(format!(
                "{left} flows of {} between other NICs are left as they are",
                path.display()
            )),
        }
        take_ranks(&mut job, &found, path)?;
    }
    job.flows.extend(found.flows);
    for group in found.groups {
        match job.groups.iter_mut().find(|it| it.name == group.name) {
            Some(known) => *known = group,
            None => job.groups.push(group),
        }
    }
    within_limits(&job)?;
    Ok(Merged {
        path: path.to_owned(),
        text: rewritten(&text, (&known, &job), notes, path)?,
        done: format!(
            "job {} in {}: {groups} groups and {flows} flows, in the place of {gone} flows",
            job.name,
            path.display()
        ),
    })
}

/// Whether a flow came from this tool: by its queue pairs, or between the same NICs as one of those that were found.
fn is_of(flow: &proto::JobFlow, tool: Tool, found: &[proto::JobFlow]) -> bool {
    let ends = |flow: &proto::JobFlow| (flow.source.clone(), flow.destination.clone());
    match tool {
        Tool::Rdma => !flow.pairs.is_empty(),
        Tool::Trace => flow.pairs.is_empty() && found.iter().any(|other| ends(other) == ends(flow)),
    }
}

/// Groups name ranks by number: they mean the same in both jobs only if the ranks are the same.
fn take_ranks(job: &mut proto::Job, found: &proto::Job, path: &Path) -> Result<(), Failure> {
    if job.ranks == found.ranks || found.groups.is_empty() {
        return Ok(());
    }
    if job.ranks.is_empty() && job.host_names.is_empty() {
        job.ranks.clone_from(&found.ranks);
        return Ok(());
    }
    let reason = format!(
        "the ranks of job {} are not those that were found, and groups name ranks by number",
        job.name
    );
    Err(refuse(path, &reason))
}

/// The text with the changed lists of the job in it, and otherwise as it was; if its form does not allow that, written anew.
fn rewritten(
    text: &str,
    (before, after): (&proto::Job, &proto::Job),
    notes: &mut Notes,
    path: &Path,
) -> Result<String, Failure> {
    let (old, value) = (file(before), file(after));
    let mut spliced = text.to_owned();
    for list in LISTS {
        if old[list] != value[list] {
            spliced = splice(&spliced, list, &value[list])?;
        }
    }
    let comments = |text: &str| text.matches('#').count();
    let lost = comments(&spliced) < comments(text);
    let read = declared::read(Path::new("-"), &mut spliced.as_bytes());
    if read.is_ok_and(|(_, read)| read == *after) {
        if lost {
            notes.say(format!(
                "{}: comments inside of changed lists are gone",
                path.display()
            ));
        }
        return Ok(spliced);
    }
    let format = match serde_json::from_str::<Value>(text) {
        Ok(_) => output::Format::Json,
        Err(_) => output::Format::Yaml,
    };
    if comments(text) > 0 && format == output::Format::Yaml {
        notes.say(format!(
            "{} is written anew, without comments",
            path.display()
        ));
    }
    printed(&value, format)
}

fn printed(value: &Value, format: output::Format) -> Result<String, Failure> {
    let mut octets = Vec::new();
    output::object(&mut octets, format, &InOrder(value))?;
    Ok(String::from_utf8(octets).expect("JSON and YAML are text"))
}

/// The text with another list in a field that begins a line and has its entries in the lines below; at the end, if there is
/// no such field.
fn splice(text: &str, name: &str, list: &Value) -> Result<String, Failure> {
    let begins = |line: &&str| {
        let rest = line.strip_prefix(name).and_then(|it| it.strip_prefix(':'));
        rest.is_some_and(|rest| rest.trim().is_empty() || rest.trim().starts_with('#'))
    };
    let is_entry = |line: &str| line.starts_with([' ', '-']) && !line.trim().is_empty();
    let is_between = |line: &str| line.trim().is_empty() || line.starts_with('#');
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let at = lines.iter().position(begins);
    let first = at.map_or(lines.len(), |at| at + 1);
    let below = lines[first..].iter().zip(first + 1..);
    let below = below.take_while(|(line, _)| is_entry(line) || is_between(line));
    // Comments and empty lines behind the last entry belong to what follows.
    let end = below.filter(|(line, _)| is_entry(line)).last();
    let end = end.map_or(first, |(_, end)| end);
    let mut changed = lines[..first].concat();
    if !changed.is_empty() && !changed.ends_with('\n') {
        changed.push('\n');
    }
    if at.is_none() {
        changed.push_str(&format!("{name}:\n"));
    }
    changed.push_str(&printed(list, output::Format::Yaml)?);
    changed.push_str(&lines[end..].concat());
    Ok(changed)
}

impl Merged {
    /// Replaces the file, at once or not at all, and says what was done.
    pub(super) fn write(self, out: &mut dyn Write) -> Result<(), Failure> {
        let refused = |error: std::io::Error| unreadable(&self.path, &error);
        // A link stays a link.
        let path = self.path.canonicalize().map_err(refused)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = path.with_file_name(name);
        let permissions = fs::metadata(&path).map_err(refused)?.permissions();
        fs::write(&new, self.text).map_err(refused)?;
        fs::set_permissions(&new, permissions).map_err(refused)?;
        fs::rename(&new, &path).map_err(refused)?;
        writeln!(out, "{}", self.done)?;
        Ok(())
    }
}

/// What an import can change.
const LISTS: [&str; 3] = ["ranks", "groups", "flows"];
