//! `weft config`: what a replica was told in its file, what a changed file would do, and that it does it.

mod replicas;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use weft_proto::v1::{self as proto, ChangeType, ConfigEffect, ConfigSource};

use crate::connection::Connection;
use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{self, Format, or_dash, printable};

/// What can be done with a replica's configuration.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Read the replica's file again, apply it, and say what changed; on an error nothing does.
    Reload(Reload),
    /// Say what a file would change.
    Diff(Diff),
    /// Values that hold, and where each comes from.
    Show(Show),
}

/// How the file is read again.
#[derive(Args)]
pub(crate) struct Reload {
    /// Check everything, change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Every replica among the addresses reads its own file again.
    #[arg(long)]
    all: bool,
}

/// What is compared.
#[derive(Args)]
pub(crate) struct Diff {
    /// Configuration file of weftd (TOML).
    #[arg(required_unless_present = "replicas")]
    file: Option<PathBuf>,
    /// Compare the replicas among the addresses with each other; what each must have for itself is left out. Exit code 3: they
    /// differ.
    #[arg(long, conflicts_with = "file")]
    replicas: bool,
}

/// What is shown.
#[derive(Args)]
pub(crate) struct Show {
    /// Only this part: `peer ADDRESS`, `peer_group NAME`, `bgp`, ...
    #[arg(value_name = "PART")]
    part: Vec<String>,
    /// Defaults too.
    #[arg(long)]
    all: bool,
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::Reload(reload) => reload.run(dialog).await,
            Self::Diff(diff) => diff.run(dialog).await,
            Self::Show(show) => show.run(dialog).await,
        }
    }
}

impl Reload {
    async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        if !self.all {
            return self.one(dialog).await;
        }
        // Each is asked, whatever the others say.
        let mut failures = Vec::new();
        for connection in dialog.connection.each() {
            let mut one = Dialog {
                connection,
                format: dialog.format,
                headers: dialog.headers,
                watch: false,
                out: dialog.out,
            };
            if let Err(failure) = self.one(&mut one).await {
                failures.push(failure);
            }
        }
        let more = failures.len().saturating_sub(1);
        match failures.into_iter().next() {
            None => Ok(()),
            Some(first) if more == 0 => Err(first),
            Some(first) => Err(first.with(&format!("; and {more} more replicas did not"))),
        }
    }

    async fn one(&self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let request = proto::ReloadConfigRequest {
            validate_only: self.dry_run,
            ..proto::ReloadConfigRequest::default()
        };
        let answer = change(request, dialog).await?;
        if dialog.format.is_for_people() {
            let (file, replica) = (printable(answer.file()), answering(&answer));
            let count = counted(answer.change_count);
            let done = if self.dry_run {
                "valid, nothing changed"
            } else {
                "reloaded"
            };
            writeln!(dialog.out, "replica {replica}: {file} {done}: {count}")?;
        }
        Ok(())
    }
}

impl Diff {
    async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let Some(file) = self.file else {
            return replicas::diff(dialog).await;
        };
        let name = file.display().to_string();
        let text = std::fs::read_to_string(&file);
        let text = text.map_err(|error| Failure::Refused(format!("{name}: {error}")))?;
        let request = proto::ReloadConfigRequest {
            validate_only: true,
            text: Some(text),
            text_name: name.clone(),
        };
        let answer = change(request, dialog).await?;
        if dialog.format.is_for_people() {
            let (replica, count) = (answering(&answer), counted(answer.change_count));
            writeln!(
                dialog.out,
                "replica {replica}: {}: {count}",
                printable(&name)
            )?;
        }
        Ok(())
    }
}

/// Asks, and prints one line for each difference.
async fn change(
    request: proto::ReloadConfigRequest,
    dialog: &mut Dialog<'_>,
) -> Result<proto::ReloadConfigResponse, Failure> {
    let mut client = dialog.connection.config().await?;
    let call = client.reload_config(request);
    let answer = dialog.connection.answer(call).await?;
    match dialog.format {
        Format::Table | Format::Wide | Format::Name => {
            for change in answer.changes.iter().map(Change::from) {
                writeln!(dialog.out, "{}", printable(&change.line()))?;
            }
        }
        Format::Json | Format::Yaml => {
            dialog.rows::<_, Change>(answer.changes.iter().collect())?;
        }
    }
    Ok(answer)
}

/// Raft id of the replica whose configuration it is.
fn answering(answer: &proto::ReloadConfigResponse) -> u64 {
    answer.header.as_ref().map_or(0, |header| header.replica_id)
}

fn counted(differences: u32) -> String {
    match differences {
        0 => "no difference".to_owned(),
        1 => "1 difference".to_owned(),
        count => format!("{count} differences"),
    }
}

#[derive(Serialize)]
struct Change {
    subject: String,
    change: String,
    knob: String,
    old: String,
    new: String,
    effect: String,
}

impl From<&proto::ConfigChange> for Change {
    fn from(change: &proto::ConfigChange) -> Self {
        let kind = match change.change_type() {
            ChangeType::Created => "added",
            ChangeType::Deleted => "removed",
            ChangeType::Updated | ChangeType::Unspecified => "changed",
        };
        let effect = match change.effect() {
            ConfigEffect::Applied => "applied",
            ConfigEffect::NextSession => "next session",
            ConfigEffect::SessionReset => "session reset",
            ConfigEffect::NeedsRestart => "needs restart",
            ConfigEffect::Unspecified => "unknown",
        };
        Self {
            subject: change.subject.clone(),
            change: kind.to_owned(),
            knob: change.key().to_owned(),
            old: change.old_value().to_owned(),
            new: change.new_value().to_owned(),
            effect: effect.to_owned(),
        }
    }
}

impl Change {
    fn line(&self) -> String {
        let Self {
            subject,
            change,
            knob,
            old,
            new,
            effect,
        } = self;
        match knob.as_str() {
            "" => format!("{subject}: {change} ({effect})"),
            _ => format!("{subject}: {knob}: {old} -> {new} ({effect})"),
        }
    }
}

impl output::Row for Change {
    const HEADER: &'static [&'static str] = &["SUBJECT", "KNOB", "OLD", "NEW", "EFFECT"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.subject.clone(),
            or_dash(&self.knob),
            or_dash(&self.old),
            or_dash(&self.new),
            self.effect.clone(),
        ]
    }
}

impl Show {
    async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let mut client = dialog.connection.config().await?;
        let subject = self.part.join(" ");
        let ask = async |connection: &Connection, page_token| {
            let request = proto::ListConfigValuesRequest {
                subject: Some(subject.clone()).filter(|it| !it.is_empty()),
                with_defaults: self.all,
                page_token,
                ..proto::ListConfigValuesRequest::default()
            };
            let call = client.list_config_values(request);
            let page = connection.answer(call).await?;
            Ok((page.values, page.next_page_token))
        };
        dialog.pages::<_, Value>(ask).await
    }
}

#[derive(Serialize)]
struct Value {
    subject: String,
    knob: String,
    value: String,
    from: String,
}

impl From<proto::ConfigValue> for Value {
    fn from(value: proto::ConfigValue) -> Self {
        let from = match value.source() {
            ConfigSource::Default => "default",
            ConfigSource::File => "file",
            ConfigSource::PeerGroup => "group",
            ConfigSource::Peer => "peer",
            ConfigSource::Unspecified => "unknown",
        };
        Self {
            subject: value.subject,
            knob: value.key,
            value: value.value,
            from: from.to_owned(),
        }
    }
}

impl output::Row for Value {
    const HEADER: &'static [&'static str] = &["SUBJECT", "KNOB", "VALUE", "FROM"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.subject.clone(),
            self.knob.clone(),
            self.value.clone(),
            self.from.clone(),
        ]
    }
}
