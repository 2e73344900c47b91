//! `weft fabric watch`: what changes of the declared fabric, and of jobs, as it changes.

use clap::{Args, ValueEnum};
use prost_types::Timestamp;
use weft_proto::v1::{self as proto, ChangeType};

use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::follow::{Follow, News};
use crate::output::{self, Format, List, Row, Table};
use crate::words;

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
    /// Jobs.
    Job,
}

impl Watch {
    /// Prints changes until the reader has read enough, or nobody says any.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        dialog.progress.end();
        let request = proto::WatchRequest {
            kinds: self.kind.iter().map(|kind| kind.number().into()).collect(),
            names: self.name,
            after_revision: self.after_revision,
            ..proto::WatchRequest::default()
        };
        let mut table = Table::new(&["REVISION", "CHANGE", "KIND", "NAME"]);
        table.fit(&[WIDEST.map(str::to_owned).to_vec()]);
        let is_table = matches!(dialog.format, Format::Table | Format::Wide);
        if is_table && dialog.headers {
            writeln!(dialog.out, "{}", table.header())?;
        }
        let mut follow = Follow::new(&dialog.connection, request);
        loop {
            let news = follow.next().await;
            let answer = match news.map_err(|failure| with_revision(failure, &follow))? {
                News::Begins => continue,
                News::Answer(answer) => answer,
            };
            if is_table {
                for change in &answer.changes {
                    let row = [cells(change)];
                    table.fit(&row);
                    writeln!(dialog.out, "{}", table.body(&row))?;
                }
                dialog.out.flush()?;
            } else {
                let mut list = List::new(dialog.out, dialog.format).endless();
                list.add(&answer.changes, None)?;
                list.flush()?;
            }
        }
    }
}

/// Where somebody else can go on.
fn with_revision(failure: Failure, follow: &Follow<'_>) -> Failure {
    match follow.revision() {
        Some(revision) => failure.with(&format!("; go on with --after-revision {revision}")),
        None => failure,
    }
}

impl Kind {
    fn number(self) -> proto::ResourceKind {
        match self {
            Self::Switch => proto::ResourceKind::Switch,
            Self::Host => proto::ResourceKind::Host,
            Self::Link => proto::ResourceKind::Link,
            Self::HostPort => proto::ResourceKind::HostPort,
            Self::Job => proto::ResourceKind::Job,
        }
    }
}

impl Row for proto::ResourceChange {
    const HEADER: &'static [&'static str] = &["REVISION", "CHANGE", "KIND", "NAME"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.ResourceChange", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        vec![cells(self)]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

fn cells(change: &proto::ResourceChange) -> Vec<String> {
    let done = match (change.change_type(), change.revision) {
        (ChangeType::Created, None) => "exists",
        (ChangeType::Created, Some(_)) => "created",
        (ChangeType::Updated, _) => "updated",
        (ChangeType::Deleted, _) => "deleted",
        (ChangeType::Unspecified, _) => "unknown",
    };
    vec![
        words::or_dash(change.revision),
        done.to_owned(),
        super::noun(change.kind()).to_owned(),
        change.name.clone(),
    ]
}

/// Rows come one by one: the columns are as wide as they will be.
const WIDEST: [&str; 4] = ["1234567890", "deleted", "host port", ""];
