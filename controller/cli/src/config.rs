//! `weft config`: what a replica was told in its file, what a changed file would do, and that it does it.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use weft_proto::operator::v1 as proto;

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
}

/// What is compared.
#[derive(Args)]
pub(crate) struct Diff {
    /// Configuration file of weftd (TOML).
    file: PathBuf,
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
        let request = proto::ReloadConfigRequest {
            dry_run: self.dry_run,
            ..proto::ReloadConfigRequest::default()
        };
        let answer = change(request, dialog).await?;
        if dialog.format == Format::Table {
            let (file, replica) = (printable(&answer.file), answer.replica);
            let count = counted(answer.changes.len());
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
        let name = self.file.display().to_string();
        let text = std::fs::read_to_string(&self.file);
        let text = text.map_err(|error| Failure::Refused(format!("{name}: {error}")))?;
        let request = proto::ReloadConfigRequest {
            dry_run: true,
            text,
            name: name.clone(),
        };
        let answer = change(request, dialog).await?;
        if dialog.format == Format::Table {
            let (replica, count) = (answer.replica, counted(answer.changes.len()));
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
    let mut client = dialog.connection.operator().await?;
    let call = client.reload_config(request);
    let answer = dialog.connection.answer(call).await?;
    match dialog.format {
        Format::Table => {
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

fn counted(differences: usize) -> String {
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
        Self {
            subject: change.subject.clone(),
            change: change.change.clone(),
            knob: change.knob.clone(),
            old: change.old.clone(),
            new: change.new.clone(),
            effect: change.effect.clone(),
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
        let mut client = dialog.connection.operator().await?;
        let subject = self.part.join(" ");
        let ask = async |connection: &Connection, page_token| {
            let request = proto::GetConfigRequest {
                subject: subject.clone(),
                all: self.all,
                page_token,
                ..proto::GetConfigRequest::default()
            };
            let page = connection.answer(client.get_config(request)).await?;
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
        Self {
            subject: value.subject,
            knob: value.knob,
            value: value.value,
            from: value.from,
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
