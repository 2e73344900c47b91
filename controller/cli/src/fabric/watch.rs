//! `weft fabric watch`: what changes of the declared fabric, as it changes.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use weft_proto::v1 as proto;
use weft_proto::v1::resource_change::Resource;

use super::declared::{Host, HostPort, Link, Switch};
use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{Format, Table, printable};

/// Which changes.
#[derive(Args)]
pub(crate) struct Watch {
    /// Only resources of this kind; may be given several times.
    #[arg(long, value_enum)]
    kind: Vec<Kind>,
    /// Only resources of this name; may be given several times.
    #[arg(long)]
    name: Vec<String>,
    /// Changes after this revision; without it, what exists comes first.
    #[arg(long)]
    after_revision: Option<u64>,
}

/// A kind of declared resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Switches.
    Switch,
    /// Hosts.
    Host,
    /// Links.
    Link,
    /// Host ports.
    HostPort,
}

/// A change as an object.
#[derive(Serialize)]
struct Change {
    /// Raft index; absent: it existed when the watch began.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    change: &'static str,
    kind: &'static str,
    name: String,
    /// As it is, or as it was before it was deleted.
    resource: serde_json::Value,
}

impl Watch {
    /// Prints changes until the stream or the reader ends.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let request = proto::WatchRequest {
            kinds: self.kind.iter().map(|kind| kind.number().into()).collect(),
            names: self.name,
            after_revision: self.after_revision,
            ..proto::WatchRequest::default()
        };
        let connection = &dialog.connection;
        let mut client = connection.watch().await?;
        let mut stream = connection.answer(client.watch(request)).await?;
        // A replica says at least every ten seconds how far it is.
        let patient = connection.patient(SILENCE);
        let mut table = Table::new(&["REVISION", "CHANGE", "KIND", "NAME"]);
        table.fit(&[WIDEST.map(str::to_owned).to_vec()]);
        if dialog.format.is_for_people() && dialog.headers {
            writeln!(dialog.out, "{}", table.header())?;
        }
        let mut revision = self.after_revision;
        while let Some(answer) =
            patient
                .part(stream.message())
                .await
                .map_err(|failure| match revision {
                    Some(revision) => {
                        failure.with(&format!("; go on with --after-revision {revision}"))
                    }
                    None => failure,
                })?
        {
            revision = answer.header.map(|header| header.revision).or(revision);
            for change in answer.changes {
                let change = Change::from(change);
                match dialog.format {
                    Format::Table | Format::Wide => {
                        writeln!(dialog.out, "{}", table.body(&[change.cells()]))?;
                    }
                    Format::Name => writeln!(dialog.out, "{}", printable(&change.name))?,
                    Format::Json => {
                        let line = serde_json::to_string(&change).map_err(std::io::Error::from)?;
                        writeln!(dialog.out, "{line}")?;
                    }
                    Format::Yaml => {
                        let text =
                            serde_yaml_ng::to_string(&change).map_err(std::io::Error::other)?;
                        writeln!(dialog.out, "---\n{}", text.trim_end())?;
                    }
                }
            }
            dialog.out.flush()?;
        }
        Ok(())
    }
}

impl Kind {
    fn number(self) -> proto::ResourceKind {
        match self {
            Self::Switch => proto::ResourceKind::Switch,
            Self::Host => proto::ResourceKind::Host,
            Self::Link => proto::ResourceKind::Link,
            Self::HostPort => proto::ResourceKind::HostPort,
        }
    }
}

impl From<proto::ResourceChange> for Change {
    fn from(change: proto::ResourceChange) -> Self {
        let kind = super::noun(change.kind());
        let done = match (change.change_type(), change.revision) {
            (proto::ChangeType::Created, None) => "exists",
            (proto::ChangeType::Created, Some(_)) => "created",
            (proto::ChangeType::Updated, _) => "updated",
            (proto::ChangeType::Deleted, _) => "deleted",
            (proto::ChangeType::Unspecified, _) => "unknown",
        };
        let resource = match change.resource {
            Some(Resource::SwitchResource(it)) => serde_json::to_value(Switch::from(it)),
            Some(Resource::HostResource(it)) => serde_json::to_value(Host::from(it)),
            Some(Resource::LinkResource(it)) => serde_json::to_value(Link::from(it)),
            Some(Resource::HostPortResource(it)) => serde_json::to_value(HostPort::from(it)),
            None => Ok(serde_json::Value::Null),
        };
        Self {
            revision: change.revision,
            change: done,
            kind,
            name: change.name,
            resource: resource.unwrap_or_default(),
        }
    }
}

impl Change {
    fn cells(&self) -> Vec<String> {
        let revision = self
            .revision
            .map_or_else(|| "-".to_owned(), |it| it.to_string());
        vec![
            revision,
            self.change.to_owned(),
            self.kind.to_owned(),
            printable(&self.name),
        ]
    }
}

/// Longer than a replica is silent.
const SILENCE: Duration = Duration::from_secs(15);
/// Rows come one by one: the columns are as wide as they will be.
const WIDEST: [&str; 4] = ["1234567890", "deleted", "host port", ""];
