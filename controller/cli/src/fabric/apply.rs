//! `weft fabric apply`: declares what a file names, and deletes the rest only if that is asked for.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tonic::{Response, Status};
use weft_proto::v1::{self as proto, ChangeType};

use super::{changes, declared, head, parsed};
use crate::connection::request_id;
use crate::dialog::Dialog;
use crate::failure::{self, Failure};
use crate::output::{self, printable};

/// A declaration.
#[derive(Args)]
pub(crate) struct Apply {
    /// Fabric file, YAML or JSON; `-` is standard input. With `generation: N` it is refused if the fabric was changed since
    /// generation N.
    file: PathBuf,
    /// Delete the resources that the file does not name; asks first, and names them.
    #[arg(long)]
    prune: bool,
    /// Do not ask before resources are deleted; needed where standard input is no terminal.
    #[arg(short, long)]
    yes: bool,
    /// Apply the file even if two leaves lose their last path to each other.
    #[arg(long)]
    force: bool,
    /// Apply the file even if the declared fabric has another name, which becomes that of the file.
    #[arg(long)]
    rename: bool,
    /// Check everything, change nothing.
    #[arg(long)]
    dry_run: bool,
}

impl Apply {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let (file, text) = if self.file == Path::new("-") {
            ("standard input".to_owned(), dialog.person.read())
        } else {
            let text = std::fs::read_to_string(&self.file);
            (self.file.display().to_string(), text)
        };
        let fabric = parsed(&file, text);
        let fabric = fabric.map_err(|failure| failure.with("; nothing was changed"))?;
        if fabric.is_empty() {
            return Err(Failure::Refused(nothing_declared(&file)));
        }
        let (name, generation) = (fabric.name.clone(), fabric.generation);
        let mut parts = self.request(fabric);
        let mut changed_before = proto::ApplyFabricResponse::default();
        if self.prune && !self.yes && !self.dry_run {
            changed_before = self.ask_first(&file, &mut parts, dialog).await?;
        }
        let answer = send(dialog, parts).await?;
        let mut applied =
            answer.map_err(|status| self.refused(&file, generation, dialog, &status))?;
        if applied.changed_since_apply.is_empty() {
            applied.changed_since_apply = changed_before.changed_since_apply;
            applied.changed_since_apply_truncated |= changed_before.changed_since_apply_truncated;
        }
        if dialog.object(&output::message("weft.v1.ApplyFabricResponse", &applied))? {
            return Ok(());
        }
        self.print(&file, &name, &applied, dialog)
    }

    /// Returns the declaration with the options of the command.
    fn request(&self, fabric: declared::Fabric) -> Vec<proto::ApplyFabricRequest> {
        let mut parts = fabric.parts();
        let first = parts.first_mut().expect("a declaration has a first part");
        first.validate_only = self.dry_run;
        first.prune = self.prune;
        first.force = self.force;
        first.rename = self.rename;
        if !self.dry_run {
            first.request_id = request_id();
        }
        parts
    }

    /// Asks whether the resources that the file does not name may be deleted. Afterwards the declaration has the generation of which
    /// the person saw the deletions.
    async fn ask_first(
        &self,
        file: &str,
        parts: &mut [proto::ApplyFabricRequest],
        dialog: &mut Dialog<'_>,
    ) -> Result<proto::ApplyFabricResponse, Failure> {
        let shown = head(&dialog.connection).await?.generation;
        let first = parts.first().expect("a declaration has a first part");
        let generation = first.generation;
        let mut trial = parts.to_vec();
        trial[0].validate_only = true;
        trial[0].request_id.clear();
        let answer = send(dialog, trial).await?;
        let answer = answer.map_err(|status| self.refused(file, generation, dialog, &status))?;
        if let Some(deleted) = changes::asked(changes::of(&answer.changes, ChangeType::Deleted)) {
            let changes = format!("not in {file}, would be deleted: {deleted}");
            dialog.confirm(self.yes, &changes, "Delete them?")?;
        }
        parts[0].generation = Some(generation.unwrap_or(shown));
        Ok(answer)
    }

    /// Returns a refusal in the words of a file and its options.
    fn refused(
        &self,
        file: &str,
        generation: Option<u64>,
        dialog: &Dialog<'_>,
        status: &Status,
    ) -> Failure {
        match failure::reason(status).as_str() {
            "NOTHING_DECLARED" => Failure::Refused(nothing_declared(file)),
            "OTHER_FABRIC" => {
                let declared = failure::metadata(status, "declared");
                Failure::Refused(other_fabric(file, &declared))
            }
            "GENERATION_MISMATCH" => Failure::Refused(generation_mismatch(file, generation)),
            _ => match Failure::of_change(dialog.connection.address(), status) {
                Failure::Refused(reason) => Failure::Refused(format!("{file}: {reason}")),
                other => other,
            },
        }
    }

    fn print(
        &self,
        file: &str,
        name: &str,
        applied: &proto::ApplyFabricResponse,
        dialog: &mut Dialog<'_>,
    ) -> Result<(), Failure> {
        let (verdict, generation) = if self.dry_run {
            ("valid, nothing changed; it would be", None)
        } else {
            ("applied", applied.generation)
        };
        let counts = if applied.applied_before {
            "by an earlier try of this command, whose answer was lost".to_owned()
        } else {
            changes::counts(&applied.changes)
        };
        let generation = generation.map(|it| format!(", generation {it}"));
        let (name, generation) = (printable(name), generation.unwrap_or_default());
        writeln!(dialog.out, "fabric {name} {verdict}: {counts}{generation}")?;
        let deleted = changes::listed(changes::of(&applied.changes, ChangeType::Deleted));
        if let Some(deleted) = deleted {
            let verb = if self.dry_run {
                "would be deleted"
            } else {
                "deleted"
            };
            let line = printable(&format!("not in {file}, {verb}: {deleted}"));
            writeln!(dialog.out, "{line}")?;
        }
        if let Some(kept) = changes::listed(&applied.would_delete) {
            let line = printable(&format!(
                "not in {file}, kept: {kept}; --prune deletes them"
            ));
            writeln!(dialog.out, "{line}")?;
        }
        if let Some(others) = changes::listed(&applied.changed_since_apply) {
            let more = if applied.changed_since_apply_truncated {
                ", and others"
            } else {
                ""
            };
            let line = format!(
                "changed by other calls since the last apply that changed something: {others}{more}"
            );
            writeln!(dialog.out, "{}", printable(&line))?;
        }
        Ok(())
    }
}

/// Sends a declaration, and adds the parts of the answer to each other. The inner error is a refusal.
pub(crate) async fn send(
    dialog: &Dialog<'_>,
    parts: Vec<proto::ApplyFabricRequest>,
) -> Result<Result<proto::ApplyFabricResponse, Status>, Failure> {
    // The whole is read, checked and compared before the first part of the answer.
    let connection = dialog.connection.patient(APPLY_TIMEOUT);
    let settle = |status: Status| match Failure::of_change(connection.address(), &status) {
        Failure::Refused(_) => Ok(Err(status)),
        failure => Err(failure),
    };
    let changes = parts.first().is_some_and(|it| !it.validate_only);
    let ask = async || {
        let mut client = connection.fabric().await?;
        let stream = tokio_stream::iter(parts.clone());
        let answer = connection.status(client.apply_fabric(stream)).await?;
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(status) => return settle(status),
        };
        let mut applied = proto::ApplyFabricResponse::default();
        loop {
            let part = async { answer.message().await.map(Response::new) };
            match connection.status(part).await? {
                Ok(Some(part)) => add(&mut applied, part),
                Ok(None) if applied.generation.is_some() => return Ok(Ok(applied)),
                Ok(None) => {
                    let failure =
                        Failure::unanswered(connection.address(), "the answer ended early");
                    return Err(failure.unsettled());
                }
                // The replica began to answer, and died with the declaration.
                Err(status) if status.source().is_some() => {
                    return settle(status).map_err(Failure::unsettled);
                }
                Err(status) => return settle(status),
            }
            let count = applied.changes.len();
            dialog.progress.say(format!("{count} changes so far"));
        }
    };
    let answer = connection.change(ask).await;
    answer.map_err(|failure| match failure {
        Failure::Unanswered { .. } | Failure::Unsettled { .. } if changes => failure.with(REPEAT),
        failure => failure,
    })
}

/// Adds a part of an answer to those before it.
fn add(whole: &mut proto::ApplyFabricResponse, part: proto::ApplyFabricResponse) {
    whole.header = part.header;
    whole.generation = part.generation;
    whole.changes.extend(part.changes);
    whole.would_delete.extend(part.would_delete);
    whole.changed_since_apply.extend(part.changed_since_apply);
    whole.changed_since_apply_truncated |= part.changed_since_apply_truncated;
    whole.applied_before |= part.applied_before;
}

/// Returns the text of a refusal of a file without resources.
fn nothing_declared(file: &str) -> String {
    format!("{file}: names no switch, host, link or host port; nothing was changed")
}

/// Returns the text of a refusal of the file of another fabric.
pub(crate) fn other_fabric(file: &str, declared: &str) -> String {
    format!(
        "{file}: is of another fabric: {declared:?} is declared; nothing was changed. Repeat with --rename to give the fabric the name of the file"
    )
}

/// Returns the text of a refusal of a file that others overtook.
fn generation_mismatch(file: &str, generation: Option<u64>) -> String {
    match generation {
        Some(generation) => format!(
            "{file}: states generation {generation}, and the fabric was changed since: it has another; nothing was changed. \
             Compare it with `weft fabric show -o yaml`, then state the new generation, or none"
        ),
        None => format!(
            "{file}: others changed the fabric meanwhile; nothing was changed. Repeat the command"
        ),
    }
}

/// Words behind a failure after which the declaration may be applied.
const REPEAT: &str =
    "; all of the declaration is applied, or nothing of it: repeat the same command, which is safe";
/// A large declaration is read, checked and compared by then.
const APPLY_TIMEOUT: Duration = Duration::from_secs(600);
