//! What the leader decided from what it measured, as rows: derated links, jobs off plan, leaves that keep a part of their uplinks
//! free. Every replica has it. Knows no call.

use prost::Message;
use tonic::Status;
use weft_proto::v1::decision::Subject as Written;
use weft_proto::v1::{self as proto, Consistency, DecisionKind};

use super::super::page::{self, Page};
use super::super::{field, look, refusal};
use super::link;
use crate::fabric::decision::{Decided, Subject};
use crate::fabric::fact::{InvalidFabric, etag};
use crate::fabric::measured::Measured;
use crate::speaker::Shared;

/// Which decisions a client asks for, and how many of them.
pub(super) struct Asked {
    /// The name of the list in page tokens: lists of two kinds have two names.
    list: String,
    /// The kind of decisions that are listed; None: every kind.
    kind: Option<DecisionKind>,
    /// Who has to agree on the answer.
    consistency: Consistency,
    /// What the last decision of the page before is of; None: the first page is asked for.
    after: Option<Subject>,
    /// Decisions of the page at most.
    size: usize,
}

impl Asked {
    /// Reads a request for a page of decisions.
    ///
    /// # Errors
    /// INVALID_ARGUMENT: a field cannot be read, or the page token is of another list.
    pub(super) fn read(request: &proto::ListDecisionsRequest) -> Result<Self, Status> {
        let mut faults = InvalidFabric::default();
        let kind = kind(request.kind, "kind", &mut faults);
        let list = match kind {
            Some(kind) => format!("decisions?kind={}", kind.as_str_name()),
            None => "decisions".to_owned(),
        };
        let consistency = field::consistency(request.consistency, &mut faults);
        let after = page::after_read(&list, &request.page_token, place, &mut faults);
        let size = page::size(request.page_size, &mut faults);
        refusal::check(&faults)?;
        Ok(Self {
            list,
            kind,
            consistency,
            after,
            size,
        })
    }

    /// Reads every decision that holds, with the consistency that is asked for, and the revision of the answer.
    ///
    /// # Errors
    /// UNAVAILABLE: no majority of the replicas answers; not if SERIALIZABLE is asked for.
    pub(super) async fn look(&self, shared: &Shared) -> Result<(Measured, u64), Status> {
        let index = match self.consistency {
            Consistency::Serializable => 0,
            Consistency::Unspecified | Consistency::Linearizable => {
                let index = shared.consensus.read_index().await;
                index.ok_or_else(refusal::no_majority_to_read)?
            }
        };
        let look = look::at(shared, index, |reflector| {
            (reflector.control().measured.clone(), reflector.index())
        });
        look.await
    }

    /// The decisions of the page that is asked for, and the token of the next page; empty: there is none.
    pub(super) fn page(&self, measured: &Measured) -> (Vec<proto::Decision>, String) {
        let rest = measured.after(self.after.clone());
        let rest = rest.filter(|it| self.kind.is_none_or(|kind| it.kind() == kind));
        let page = Page::of(self.size, rest.map(|it| row(&it)));
        let next = page.next(&self.list, name);
        (page.rows, next)
    }
}

/// Reads which kind of decisions a client wants, from the field of this name; None: every kind, or no kind has this number, which is
/// noted as a fault.
pub(in crate::operator) fn kind(
    number: i32,
    name: &str,
    faults: &mut InvalidFabric,
) -> Option<DecisionKind> {
    let read = DecisionKind::try_from(number).ok();
    let read = field::noted(read, name, &number, "not a kind of decision", faults);
    read.filter(|kind| *kind != DecisionKind::Unspecified)
}

/// A decision as lists and watches answer it, with its etag.
pub(in crate::operator) fn row(decided: &Decided) -> proto::Decision {
    let subject = match decided {
        Decided::Derated(link, decision) => Written::DeratedLink(proto::DeratedLink {
            link_name: link.to_string(),
            derating_percent: decision.derating_percent.into(),
            derating_cause: link::cause(decision.cause).into(),
        }),
        Decided::OffPlan(job, why) => Written::OffPlanJob(proto::OffPlanJob {
            job_name: job.to_string(),
            leaf_name: why.leaf.to_string(),
            excess_percent: why.percent.into(),
        }),
        Decided::KeptFree(leaf, percent) => Written::KeptFreeLeaf(proto::KeptFreeLeaf {
            leaf_name: leaf.to_string(),
            kept_free_percent: (*percent).into(),
        }),
    };
    let mut row = proto::Decision {
        subject: Some(subject),
        etag: String::new(),
    };
    row.etag = etag(&row.encode_to_vec());
    row
}

/// The kind and the name of what a decision is of, as page tokens have them; empty: it is of no known kind.
fn name(row: &proto::Decision) -> String {
    match &row.subject {
        Some(Written::DeratedLink(it)) => format!("{LINK} {}", it.link_name),
        Some(Written::OffPlanJob(it)) => format!("{JOB} {}", it.job_name),
        Some(Written::KeptFreeLeaf(it)) => format!("{LEAF} {}", it.leaf_name),
        None => String::new(),
    }
}

/// Reads what a decision is of, from its kind and name in a page token; None: they are not of this list.
fn place(text: &str) -> Option<Subject> {
    let (kind, name) = text.split_once(' ')?;
    match kind {
        LINK => Some(Subject::Link(name.into())),
        JOB => Some(Subject::Job(name.into())),
        LEAF => Some(Subject::Leaf(name.into())),
        _ => None,
    }
}

const LINK: &str = "link";
const JOB: &str = "job";
const LEAF: &str = "leaf";

#[cfg(test)]
mod tests {
    use weft_telemetry::derating::{Cause, Decision};

    use super::*;
    use crate::fabric::measured::OffPlan;

    fn derated(derating_percent: u8, cause: Option<Cause>) -> Decision {
        Decision {
            derating_percent,
            cause,
        }
    }

    fn off_plan(percent: u16) -> OffPlan {
        OffPlan {
            leaf: "leaf1".into(),
            percent,
            fingerprint: 7,
        }
    }

    /// Two decisions of each kind.
    fn measured() -> Measured {
        let mut measured = Measured::default();
        for at in 1..=2 {
            let link = format!("leaf{at}:eth1--spine1:eth{at}");
            measured.derate(link.as_str().into(), derated(50, Some(Cause::Pause)));
            let job = format!("train{at}");
            measured.set_off_plan(job.as_str().into(), Some(off_plan(40)));
            let leaf = format!("leaf{at}");
            measured.keep_free(leaf.as_str().into(), 20);
        }
        measured
    }

    fn request(kind: DecisionKind, page_token: &str) -> proto::ListDecisionsRequest {
        proto::ListDecisionsRequest {
            page_size: 1,
            page_token: page_token.to_owned(),
            kind: kind.into(),
            ..proto::ListDecisionsRequest::default()
        }
    }

    /// What all pages of one row have.
    fn listed(measured: &Measured, kind: DecisionKind) -> Vec<proto::Decision> {
        let (mut rows, mut token) = (Vec::new(), String::new());
        loop {
            let asked = Asked::read(&request(kind, &token)).unwrap();
            let (page, next) = asked.page(measured);
            rows.extend(page);
            if next.is_empty() {
                return rows;
            }
            token = next;
        }
    }

    #[test]
    fn decisions_are_listed_page_by_page_of_all_kinds_or_of_one() {
        let measured = measured();
        let names = |kind| -> Vec<String> {
            let rows = listed(&measured, kind);
            rows.iter().map(name).collect()
        };
        let all = [
            "link leaf1:eth1--spine1:eth1",
            "link leaf2:eth1--spine1:eth2",
            "job train1",
            "job train2",
            "leaf leaf1",
            "leaf leaf2",
        ];
        assert_eq!(names(DecisionKind::Unspecified), all);
        assert_eq!(names(DecisionKind::DeratedLink), all[..2]);
        assert_eq!(names(DecisionKind::OffPlanJob), all[2..4]);
        assert_eq!(names(DecisionKind::KeptFreeLeaf), all[4..]);
        assert!(listed(&Measured::default(), DecisionKind::Unspecified).is_empty());
    }

    #[test]
    fn a_token_of_another_kind_is_refused() {
        let asked = Asked::read(&request(DecisionKind::OffPlanJob, "")).unwrap();
        let (_, token) = asked.page(&measured());
        assert_eq!(
            token,
            "decisions?kind=DECISION_KIND_OFF_PLAN_JOB/job train1"
        );
        assert!(Asked::read(&request(DecisionKind::OffPlanJob, &token)).is_ok());
        for kind in [DecisionKind::Unspecified, DecisionKind::DeratedLink] {
            assert!(Asked::read(&request(kind, &token)).is_err(), "{kind:?}");
        }
        for token in ["decisions/leaf1", "decisions/spine spine1", "pins/job a"] {
            assert!(Asked::read(&request(DecisionKind::Unspecified, token)).is_err());
        }
    }

    #[test]
    fn a_row_says_what_is_decided_and_keeps_its_etag_while_it_is_the_same() {
        let rows = |link: Decision, job: u16, leaf: u8| {
            let decided = [
                Decided::Derated("link1".into(), link),
                Decided::OffPlan("train".into(), off_plan(job)),
                Decided::KeptFree("leaf1".into(), leaf),
            ];
            decided.map(|it| row(&it))
        };
        let first = rows(derated(25, Some(Cause::Errors)), 40, 10);
        let said = first.clone().map(|it| it.subject.unwrap());
        let expected = [
            Written::DeratedLink(proto::DeratedLink {
                link_name: "link1".to_owned(),
                derating_percent: 25,
                derating_cause: proto::DeratingCause::Errors.into(),
            }),
            Written::OffPlanJob(proto::OffPlanJob {
                job_name: "train".to_owned(),
                leaf_name: "leaf1".to_owned(),
                excess_percent: 40,
            }),
            Written::KeptFreeLeaf(proto::KeptFreeLeaf {
                leaf_name: "leaf1".to_owned(),
                kept_free_percent: 10,
            }),
        ];
        assert_eq!(said, expected);
        assert_eq!(rows(derated(25, Some(Cause::Errors)), 40, 10), first);
        let others = rows(derated(25, None), 41, 20);
        for (one, other) in first.iter().zip(&others) {
            assert_eq!(one.etag.len(), 16);
            assert_ne!(one.etag, other.etag);
        }
    }
}
