//! `weft backup restore`: makes what is declared what a file has. Everything is read and compared before anything changes, and a restore
//! that was interrupted goes on when it is repeated.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use weft_proto::v1 as proto;

use super::Backup;
use super::difference::Difference;
use super::state::State;
use crate::connection::request_id;
use crate::dialog::Dialog;
use crate::fabric::{self, changes};
use crate::failure::{self, Failure};
use crate::job;
use crate::output::{self, printable};

/// Source of a restore.
#[derive(Args)]
pub(crate) struct Restore {
    /// File of `weft backup save`; `-` is standard input.
    file: PathBuf,
    /// Show what would change, change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask before something that is declared is changed or deleted; needed where standard input is no terminal.
    #[arg(short, long)]
    yes: bool,
    /// Restore the file even if the declared fabric has another name, which becomes that of the file.
    #[arg(long)]
    rename: bool,
}

/// A file that is restored.
struct Restoring {
    /// Name of the file.
    file: String,
    /// Content of the file.
    backup: Backup,
    /// Generation of the fabric that the file was compared with.
    generation: u64,
    /// Differences that were found.
    difference: Difference,
}

impl Restore {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let (file, backup) = read(&self.file, &mut io::stdin())?;
        let State {
            backup: declared,
            answered,
        } = State::read(dialog).await?;
        let is_empty = declared.is_empty();
        let difference = Difference::new(&backup, &declared, answered);
        if let Some((old, _)) = difference.renamed.as_ref().filter(|_| !self.rename) {
            return Err(Failure::Refused(fabric::other_fabric(&file, old)));
        }
        if backup.names_no_resource() && !declared.names_no_resource() {
            let reason = format!(
                "{file}: has no switch, host, link or host port, and weft does not delete all of them at once; nothing was changed"
            );
            return Err(Failure::Refused(reason));
        }
        let mut restoring = Restoring {
            file,
            backup,
            generation: declared.generation,
            difference,
        };
        if !restoring.backup.names_no_resource() {
            restoring.difference.resources = restoring.apply(true, dialog).await?.changes;
        }
        if restoring.difference.is_empty() || self.dry_run {
            restoring.print(true, dialog)?;
            return if self.dry_run {
                Ok(())
            } else {
                restoring.complete(&[])
            };
        }
        if !is_empty {
            let lines = restoring.difference.lines().join("\n  ");
            let changes = format!("to restore {}:\n  {lines}", restoring.file);
            dialog.confirm(self.yes, &changes, "Restore it?")?;
        }
        restoring.run(dialog).await
    }
}

impl Restoring {
    /// Makes the changes: the fabric first, since modes and jobs name its leaves and NICs.
    async fn run(mut self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        if self.difference.changes_fabric() {
            self.apply(false, dialog).await?;
        }
        let modes = self.set_modes(dialog).await;
        modes.map_err(|failure| failure.with(AGAIN))?;
        let refused = self.restore_jobs(dialog).await;
        let refused = refused.map_err(|failure| failure.with(AGAIN))?;
        let difference = &mut self.difference;
        for jobs in [&mut difference.created, &mut difference.updated] {
            jobs.retain(|job| !refused.iter().any(|(name, _)| *name == job.name));
        }
        self.print(false, dialog)?;
        self.complete(&refused)
    }

    /// Fails if jobs of the file are left out.
    fn complete(&self, refused: &[(String, String)]) -> Result<(), Failure> {
        // A file that lacks what its jobs name is the same when the command is repeated.
        let again = if refused.is_empty() { "" } else { AGAIN };
        let refused = refused
            .iter()
            .map(|(name, reason)| format!("{name} ({reason})"));
        let rest = refused.chain(self.difference.unresolved.iter().cloned());
        match changes::shortened(rest.collect()) {
            None => Ok(()),
            Some(jobs) => Err(Failure::Unmet(format!(
                "{}: everything is restored but jobs {jobs}{again}",
                self.file
            ))),
        }
    }

    /// Declares the fabric of the file, or only checks that.
    async fn apply(
        &self,
        validate_only: bool,
        dialog: &Dialog<'_>,
    ) -> Result<proto::ApplyFabricResponse, Failure> {
        let mut parts = fabric::parts(self.backup.fabric.clone(), Some(self.generation));
        let first = parts.first_mut().expect("a declaration has a first part");
        first.validate_only = validate_only;
        first.prune = true;
        first.force = true;
        // Without the option a fabric of another name was refused before.
        first.rename = self.difference.renamed.is_some();
        if !validate_only {
            first.request_id = request_id();
        }
        let answer = fabric::send(dialog, parts).await?;
        answer.map_err(|status| {
            let file = &self.file;
            if failure::reason(&status) == "GENERATION_MISMATCH" {
                let reason = format!(
                    "{file}: others changed the fabric meanwhile; nothing was changed. Repeat the command"
                );
                return Failure::Refused(reason);
            }
            match Failure::of_change(dialog.connection.address(), &status) {
                Failure::Refused(reason) => Failure::Refused(format!("{file}: {reason}")),
                other => other,
            }
        })
    }

    async fn set_modes(&self, dialog: &Dialog<'_>) -> Result<(), Failure> {
        let connection = &dialog.connection;
        for mode in &self.difference.modes {
            let request = proto::SetBalanceRequest {
                request_id: request_id(),
                ..mode.clone()
            };
            let ask = async || {
                let mut client = connection.plans().await?;
                connection
                    .changed(client.set_balance(request.clone()))
                    .await
            };
            connection.change(ask).await?;
        }
        Ok(())
    }

    /// Deletes, updates and creates jobs. Returns those that the replica refused, each with the reason; one that was deleted for that
    /// is declared again as it was.
    async fn restore_jobs(&self, dialog: &Dialog<'_>) -> Result<Vec<(String, String)>, Failure> {
        let connection = &dialog.connection;
        let difference = &self.difference;
        for name in &difference.deleted {
            job::remove(name, connection).await?;
        }
        let mut refused = Vec::new();
        let updated = difference.updated.iter().map(|job| (job, true));
        let created = difference.created.iter().map(|job| (job, false));
        for (job, is_present) in updated.chain(created) {
            dialog.progress.say(format!("restoring job {}", job.name));
            match job::put(job, is_present, connection).await {
                Ok(()) => {}
                Err(Failure::Refused(reason)) => refused.push((job.name.clone(), reason)),
                Err(failure) => return Err(failure),
            }
        }
        for (name, reason) in &mut refused {
            let Some(former) = difference.former.get(name) else {
                continue;
            };
            match job::put(former, false, connection).await {
                Ok(()) => reason.push_str("; it is as before"),
                Err(Failure::Refused(again)) => reason.push_str(&format!("; as before: {again}")),
                Err(failure) => return Err(failure),
            }
        }
        Ok(refused)
    }

    /// Prints the differences: those that a restore would make, or those that it made.
    fn print(&self, dry_run: bool, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        if dialog.object(&self.object(dry_run))? {
            return Ok(());
        }
        let (difference, name) = (&self.difference, &self.backup.fabric.display_name);
        let expired = changes::shortened(difference.expired.clone());
        let expired = expired.map(|it| format!("; left out, since they expired: {it}"));
        let unresolved = changes::shortened(difference.unresolved.clone());
        let unresolved = unresolved.map(|it| format!("; left out: {it}"));
        let left_out = expired.unwrap_or_default() + &unresolved.unwrap_or_default();
        let line = if difference.is_empty() {
            format!(
                "{}: nothing differs from fabric {name}, nothing was changed{left_out}",
                self.file
            )
        } else if dry_run {
            format!(
                "{}: valid, nothing changed; it would\n  {}",
                self.file,
                difference.lines().join("\n  ")
            )
        } else {
            format!(
                "{}: fabric {name} restored: {}; {} balance modes set; jobs: {} created, {} updated, {} deleted{left_out}",
                self.file,
                changes::counts(&difference.resources),
                difference.modes.len(),
                difference.created.len(),
                difference.updated.len(),
                difference.deleted.len(),
            )
        };
        writeln!(dialog.out, "{}", output::printable_lines(&line))?;
        Ok(())
    }

    fn object(&self, dry_run: bool) -> serde_json::Value {
        let difference = &self.difference;
        let resources = difference.resources.iter();
        let resources = resources.map(|it| output::message("weft.v1.ResourceChange", it));
        let modes = difference.modes.iter();
        let modes = modes.map(|it| output::message("weft.v1.SetBalanceRequest", it));
        let names = |jobs: &[proto::Job]| jobs.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        serde_json::json!({
            "dry_run": dry_run,
            "changes": resources.collect::<Vec<_>>(),
            "balance_modes": modes.collect::<Vec<_>>(),
            "jobs_created": names(&difference.created),
            "jobs_updated": names(&difference.updated),
            "jobs_deleted": difference.deleted,
            "jobs_expired": difference.expired,
            "jobs_unresolved": difference.unresolved,
        })
    }
}

/// Words behind a failure in the middle of a restore.
const AGAIN: &str = "; repeat the command to restore the rest";

/// Reads a file, whole and checked, with its name. `input` stands behind the name `-`.
fn read(file: &Path, input: &mut dyn Read) -> Result<(String, Backup), Failure> {
    let (name, text) = if file == Path::new("-") {
        let mut text = String::new();
        let read = input.read_to_string(&mut text).map(|_| text);
        ("standard input".to_owned(), read)
    } else {
        (file.display().to_string(), std::fs::read_to_string(file))
    };
    let name = printable(&name);
    let text = text.map_err(|error| Failure::Refused(format!("{name}: {error}")))?;
    match Backup::parse(&text) {
        Ok(backup) => Ok((name, backup)),
        Err(fault) => Err(Failure::Refused(format!(
            "{name}{fault}; nothing was changed"
        ))),
    }
}
