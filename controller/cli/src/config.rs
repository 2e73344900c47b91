//! `weft config`: what a replica's file says, what a changed file would do, and that it does it.

pub(crate) mod replicas;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use prost_types::Timestamp;
use weft_proto::v1::{self as proto, ChangeType, ConfigEffect, ConfigSource};

use crate::completion;
use crate::connection::{Connection, Page};
use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{self, Row, or_dash, printable};

/// What can be done with a replica's configuration.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Read the replica's file again, apply it, and say what changed; on an error nothing does.
    Reload(Reload),
    /// Say what a file would change. Exit code 3: something.
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
    /// Every replica reads its own file again, after all of them found theirs valid; give the address of each. Exit code 3: one
    /// did not.
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
    /// differ, or one is not among them.
    #[arg(long, conflicts_with = "file")]
    replicas: bool,
}

/// What is shown.
#[derive(Args)]
pub(crate) struct Show {
    /// Only this part: `peer ADDRESS`, `peer_group NAME`, `bgp`, ...
    #[arg(value_name = "PART", add = completion::parts())]
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
        if self.all {
            return replicas::reload(self.dry_run, dialog).await;
        }
        let answer = ask(&dialog.connection, reloading(self.dry_run)).await?;
        if !dialog.object(&answer.object())? {
            reloaded(&answer, self.dry_run, dialog.out)?;
        }
        Ok(())
    }
}

/// Has the file read again.
fn reloading(dry_run: bool) -> proto::ReloadConfigRequest {
    proto::ReloadConfigRequest {
        validate_only: dry_run,
        ..proto::ReloadConfigRequest::default()
    }
}

/// For people: one line for each difference, and what became of the file.
fn reloaded(
    answer: &proto::ReloadConfigResponse,
    dry_run: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    print(answer, out)?;
    let (file, replica) = (printable(answer.file()), answering(answer));
    let count = counted(answer.change_count);
    let done = match dry_run {
        true => "valid, nothing changed",
        false => "reloaded",
    };
    writeln!(out, "replica {replica}: {file} {done}: {count}")
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
            ..proto::ReloadConfigRequest::default()
        };
        let connection = &dialog.connection;
        let question = async || ask(connection, request.clone()).await;
        let answer = connection.read(question).await?;
        let count = counted(answer.change_count);
        if !dialog.object(&answer.object())? {
            print(&answer, dialog.out)?;
            let (replica, name) = (answering(&answer), printable(&name));
            writeln!(dialog.out, "replica {replica}: {name}: {count}")?;
        }
        match answer.change_count {
            0 => Ok(()),
            _ => Err(Failure::Unmet(count)),
        }
    }
}

async fn ask(
    connection: &Connection,
    request: proto::ReloadConfigRequest,
) -> Result<proto::ReloadConfigResponse, Failure> {
    let mut client = connection.config().await?;
    connection.answer(client.reload_config(request)).await
}

/// One line for each difference.
fn print(answer: &proto::ReloadConfigResponse, out: &mut dyn Write) -> io::Result<()> {
    for change in &answer.changes {
        writeln!(out, "{}", printable(&line(change)))?;
    }
    Ok(())
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

fn line(change: &proto::ConfigChange) -> String {
    let effect = effect(change.effect());
    let subject = &change.subject;
    let (old, new) = (change.old_value(), change.new_value());
    match (change.change_type(), change.key()) {
        (ChangeType::Created, "") => format!("{subject}: added ({effect})"),
        (ChangeType::Deleted, "") => format!("{subject}: removed ({effect})"),
        (_, "") => format!("{subject}: changed ({effect})"),
        (_, key) => format!("{subject}: {key}: {old} -> {new} ({effect})"),
    }
}

fn effect(effect: ConfigEffect) -> &'static str {
    match effect {
        ConfigEffect::Applied => "applied",
        ConfigEffect::NextSession => "next session",
        ConfigEffect::SessionReset => "session reset",
        ConfigEffect::NeedsRestart => "needs restart",
        ConfigEffect::Unspecified => "unknown",
    }
}

impl Row for proto::ReloadConfigResponse {
    const HEADER: &'static [&'static str] = &["REPLICA", "SUBJECT", "KEY", "OLD", "NEW", "EFFECT"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.ReloadConfigResponse", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        let line = |change: &proto::ConfigChange| {
            vec![
                self.name(),
                change.subject.clone(),
                or_dash(change.key()),
                or_dash(change.old_value()),
                or_dash(change.new_value()),
                effect(change.effect()).to_owned(),
            ]
        };
        self.changes.iter().map(line).collect()
    }

    fn name(&self) -> String {
        answering(self).to_string()
    }
}

impl Show {
    async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let subject = Some(self.part.join(" ")).filter(|it| !it.is_empty());
        let ask = async |connection: &Connection, page_token| {
            let request = proto::ListConfigValuesRequest {
                subject: subject.clone(),
                with_defaults: self.all,
                page_token,
                ..proto::ListConfigValuesRequest::default()
            };
            values(connection, request).await
        };
        dialog.pages(ask).await
    }
}

/// One page of values.
pub(crate) async fn values(
    connection: &Connection,
    request: proto::ListConfigValuesRequest,
) -> Result<Page<proto::ConfigValue>, Failure> {
    let mut client = connection.config().await?;
    let call = client.list_config_values(request);
    let page = connection.answer(call).await?;
    Ok(Page::new(page.header, page.values, page.next_page_token))
}

impl Row for proto::ConfigValue {
    const HEADER: &'static [&'static str] = &["SUBJECT", "KEY", "VALUE", "FROM"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.ConfigValue", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        let from = match self.source() {
            ConfigSource::Default => "default",
            ConfigSource::File => "file",
            ConfigSource::PeerGroup => "group",
            ConfigSource::Peer => "peer",
            ConfigSource::Unspecified => "unknown",
        };
        vec![vec![
            self.subject.clone(),
            self.key.clone(),
            self.value.clone(),
            from.to_owned(),
        ]]
    }

    fn name(&self) -> String {
        format!("{} {}", self.subject, self.key)
    }
}
