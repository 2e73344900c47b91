//! `weft config`: what a replica was told in its file, what a changed file would do, and that it does it.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use weft_proto::operator::v1 as proto;

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{self, Format, List, or_dash, printable};

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
    pub(crate) async fn run(
        self,
        connection: &Connection,
        format: Format,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        match self {
            Self::Reload(reload) => reload.run(connection, format, out).await,
            Self::Diff(diff) => diff.run(connection, format, out).await,
            Self::Show(show) => show.run(connection, format, out).await,
        }
    }
}

impl Reload {
    async fn run(
        self,
        connection: &Connection,
        format: Format,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let request = proto::ReloadConfigRequest {
            dry_run: self.dry_run,
            ..proto::ReloadConfigRequest::default()
        };
        let answer = change(request, connection, format, out).await?;
        if format == Format::Table {
            let (file, replica) = (printable(&answer.file), answer.replica);
            let count = counted(answer.changes.len());
            let done = if self.dry_run {
                "valid, nothing changed"
            } else {
                "reloaded"
            };
            writeln!(out, "replica {replica}: {file} {done}: {count}")?;
        }
        Ok(())
    }
}

impl Diff {
    async fn run(
        self,
        connection: &Connection,
        format: Format,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let name = self.file.display().to_string();
        let text = std::fs::read_to_string(&self.file);
        let text = text.map_err(|error| Failure::Refused(format!("{name}: {error}")))?;
        let request = proto::ReloadConfigRequest {
            dry_run: true,
            text,
            name: name.clone(),
        };
        let answer = change(request, connection, format, out).await?;
        if format == Format::Table {
            let (replica, count) = (answer.replica, counted(answer.changes.len()));
            writeln!(out, "replica {replica}: {}: {count}", printable(&name))?;
        }
        Ok(())
    }
}

/// Asks, and prints one line for each difference.
async fn change(
    request: proto::ReloadConfigRequest,
    connection: &Connection,
    format: Format,
    out: &mut dyn Write,
) -> Result<proto::ReloadConfigResponse, Failure> {
    let mut client = connection.operator().await?;
    let answer = connection.answer(client.reload_config(request)).await?;
    let changes = answer.changes.iter().map(Change::from).collect::<Vec<_>>();
    match format {
        Format::Table => {
            for change in &changes {
                writeln!(out, "{}", printable(&change.line()))?;
            }
        }
        Format::Json | Format::Yaml => {
            let mut list = List::new(out, format);
            list.add(&changes)?;
            list.end()?;
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
    async fn run(
        self,
        connection: &Connection,
        format: Format,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let mut client = connection.operator().await?;
        let mut list = List::new(out, format);
        let mut request = proto::GetConfigRequest {
            subject: self.part.join(" "),
            all: self.all,
            ..proto::GetConfigRequest::default()
        };
        loop {
            let page = connection
                .answer(client.get_config(request.clone()))
                .await?;
            let values = page.values.into_iter().map(Value::from);
            list.add(&values.collect::<Vec<_>>())?;
            if page.next_page_token.is_empty() {
                break;
            }
            connection.advance(&mut request.page_token, page.next_page_token)?;
        }
        Ok(list.end()?)
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
