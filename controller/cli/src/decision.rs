//! `weft decision`: what the leader decided from what it measured.

use std::cell::Cell;

use clap::{Args, Subcommand, ValueEnum};
use prost_types::Timestamp;
use weft_proto::v1::decision::Subject;
use weft_proto::v1::{self as proto, ChangeType, DecisionKind, DeratingCause};

use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, Heard, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Format, Row};
use crate::route::Consistency;
use crate::words;

/// What can be asked of decisions.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every link that is derated, every job that is left to weights because
    /// uplinks carried more than was predicted, and every leaf that keeps a part of its uplinks free.
    ///
    /// NAME is the name of the link, the job or the leaf. DECISION says by how much, and for which cause or because of which leaf.
    /// All of it is decided from what switches say over gNMI: nothing is decided of those without a gnmi_address in the fabric.
    List(Wanted),
}

/// Which decisions are wanted.
#[derive(Args)]
pub(crate) struct Wanted {
    /// Only decisions of this kind.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Who has to agree on the answer.
    #[arg(long, value_enum, default_value_t = Consistency::Linearizable)]
    consistency: Consistency,
}

/// What decisions are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Links that are derated for what was measured.
    DeratedLink,
    /// Jobs that are left to weights because uplinks carried more than was predicted.
    OffPlanJob,
    /// Leaves that keep a part of their uplinks free of pins.
    KeptFreeLeaf,
}

impl From<Kind> for DecisionKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::DeratedLink => Self::DeratedLink,
            Kind::OffPlanJob => Self::OffPlanJob,
            Kind::KeptFreeLeaf => Self::KeptFreeLeaf,
        }
    }
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::List(wanted) => list(&wanted, dialog).await,
        }
    }
}

async fn list(wanted: &Wanted, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let kind = wanted.kind.map_or(DecisionKind::Unspecified, Into::into);
    if dialog.watch {
        let decisions = proto::DecisionFilter { kind: kind.into() };
        let request = proto::WatchRequest {
            decisions: Some(decisions),
            ..proto::WatchRequest::default()
        };
        return dialog.follow(request, heard).await;
    }
    let count = Cell::new(0);
    let ask = async |connection: &Connection, page_token| {
        let mut client = connection.plans().await?;
        let request = proto::ListDecisionsRequest {
            page_size: PAGE_SIZE,
            page_token,
            consistency: proto::Consistency::from(wanted.consistency).into(),
            kind: kind.into(),
        };
        let page = connection.answer(client.list_decisions(request)).await?;
        count.set(count.get() + page.decisions.len());
        Ok(Page::new(page.header, page.decisions, page.next_page_token))
    };
    dialog.pages(ask).await?;
    if count.get() == 0 && matches!(dialog.format, Format::Table | Format::Wide) {
        dialog.progress.note(match wanted.kind {
            None => "nothing is decided",
            Some(_) => "nothing of this kind is decided",
        });
    }
    Ok(())
}

/// What an answer of a watch says of decisions.
fn heard(answer: proto::WatchResponse) -> Heard<proto::Decision> {
    let whole = answer.snapshot && answer.header.is_some();
    let (mut rows, mut gone) = (Vec::new(), Vec::new());
    for change in answer.decision_changes {
        let into = match change.change_type() {
            ChangeType::Deleted => &mut gone,
            ChangeType::Created | ChangeType::Updated | ChangeType::Unspecified => &mut rows,
        };
        into.extend(change.decision);
    }
    Heard { rows, gone, whole }
}

/// Kind and name of what a decision is of.
fn subject(decision: &proto::Decision) -> (&'static str, &str) {
    match &decision.subject {
        Some(Subject::DeratedLink(it)) => ("derated-link", it.link_name.as_str()),
        Some(Subject::OffPlanJob(it)) => ("off-plan-job", it.job_name.as_str()),
        Some(Subject::KeptFreeLeaf(it)) => ("kept-free-leaf", it.leaf_name.as_str()),
        None => ("unknown", "-"),
    }
}

/// What is decided, in words.
fn decided(decision: &proto::Decision) -> String {
    match &decision.subject {
        Some(Subject::DeratedLink(it)) => {
            let percent = it.derating_percent;
            match it.derating_cause() {
                DeratingCause::Unspecified => format!("derated by {percent} %"),
                cause => {
                    let cause = words::word(cause.as_str_name(), "DERATING_CAUSE_");
                    format!("derated by {percent} % for {cause}")
                }
            }
        }
        Some(Subject::OffPlanJob(it)) => {
            let (leaf, percent) = (&it.leaf_name, it.excess_percent);
            format!(
                "left to weights: the busiest uplink of {leaf} carried {percent} % more than predicted"
            )
        }
        Some(Subject::KeptFreeLeaf(it)) => {
            format!("{} % of its uplinks kept free", it.kept_free_percent)
        }
        None => "of a later release".to_owned(),
    }
}

impl Row for proto::Decision {
    const HEADER: &'static [&'static str] = &["KIND", "NAME", "DECISION"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.Decision", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        let (kind, name) = subject(self);
        vec![vec![kind.to_owned(), name.to_owned(), decided(self)]]
    }

    /// A job may be named like a leaf.
    fn name(&self) -> String {
        let (kind, name) = subject(self);
        format!("{kind} {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_called_as_they_are_asked_for() {
        for kind in Kind::value_variants() {
            let subject = match kind {
                Kind::DeratedLink => Subject::DeratedLink(proto::DeratedLink::default()),
                Kind::OffPlanJob => Subject::OffPlanJob(proto::OffPlanJob::default()),
                Kind::KeptFreeLeaf => Subject::KeptFreeLeaf(proto::KeptFreeLeaf::default()),
            };
            let decision = proto::Decision {
                subject: Some(subject),
                ..proto::Decision::default()
            };
            let word = kind.to_possible_value().unwrap();
            assert_eq!(word.get_name(), decision.lines(None)[0][0]);
            let name = DecisionKind::from(*kind).as_str_name();
            assert_eq!(word.get_name(), words::word(name, "DECISION_KIND_"));
        }
    }

    #[test]
    fn what_this_release_does_not_know_is_shown_as_such() {
        let line = proto::Decision::default().lines(None).remove(0);
        assert_eq!(line, ["unknown", "-", "of a later release"]);
        let taken_over = proto::DeratedLink {
            link_name: "link1".to_owned(),
            derating_percent: 25,
            ..proto::DeratedLink::default()
        };
        let decision = proto::Decision {
            subject: Some(Subject::DeratedLink(taken_over)),
            ..proto::Decision::default()
        };
        assert_eq!(decision.lines(None)[0][2], "derated by 25 %");
    }
}
