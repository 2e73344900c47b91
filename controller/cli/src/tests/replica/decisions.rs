//! Its decisions: a link is derated, `train1` is left to weights, a leaf keeps a part of its uplinks free.

use weft_proto::v1::decision::Subject;
use weft_proto::v1::{self as proto, DecisionKind};

fn header(revision: u64) -> Option<proto::ResponseHeader> {
    Some(proto::ResponseHeader {
        revision,
        ..proto::ResponseHeader::default()
    })
}

fn decision(subject: Subject) -> proto::Decision {
    proto::Decision {
        subject: Some(subject),
        etag: "1".to_owned(),
    }
}

fn derated(derating_percent: u32) -> proto::Decision {
    decision(Subject::DeratedLink(proto::DeratedLink {
        link_name: "leaf1:eth1--spine1:eth1".to_owned(),
        derating_percent,
        derating_cause: proto::DeratingCause::Errors.into(),
    }))
}

fn off_plan() -> proto::Decision {
    decision(Subject::OffPlanJob(proto::OffPlanJob {
        job_name: "train1".to_owned(),
        leaf_name: "leaf1".to_owned(),
        excess_percent: 40,
    }))
}

fn kept_free() -> proto::Decision {
    decision(Subject::KeptFreeLeaf(proto::KeptFreeLeaf {
        leaf_name: "leaf1".to_owned(),
        kept_free_percent: 20,
    }))
}

/// Whether a decision is of a kind that was asked for.
fn wanted(decision: &proto::Decision, kind: DecisionKind) -> bool {
    let own = match &decision.subject {
        Some(Subject::DeratedLink(_)) => DecisionKind::DeratedLink,
        Some(Subject::OffPlanJob(_)) => DecisionKind::OffPlanJob,
        Some(Subject::KeptFreeLeaf(_)) => DecisionKind::KeptFreeLeaf,
        None => DecisionKind::Unspecified,
    };
    kind == DecisionKind::Unspecified || kind == own
}

/// One decision of each kind on two pages, or those of one kind.
pub(super) fn list(request: &proto::ListDecisionsRequest) -> proto::ListDecisionsResponse {
    let (mut decisions, next) = match request.page_token.as_str() {
        "" => (vec![derated(50), off_plan()], "second"),
        _ => (vec![kept_free()], ""),
    };
    decisions.retain(|it| wanted(it, request.kind()));
    proto::ListDecisionsResponse {
        header: header(4),
        decisions,
        next_page_token: next.to_owned(),
    }
}

/// What a watcher of decisions hears: a link and a leaf, or from their revision on that the link is derated more, and the leaf keeps
/// nothing free any more.
pub(super) fn changes(
    filter: &proto::DecisionFilter,
    after_revision: Option<u64>,
) -> proto::WatchResponse {
    use proto::ChangeType::{Created, Deleted, Updated};
    let (at, snapshot, changes) = match after_revision {
        None => {
            let exists = [derated(25), kept_free()].map(|it| (Created, None, it));
            (7, true, exists)
        }
        Some(_) => {
            let (more, none) = (derated(50), kept_free());
            let changes = [(Updated, Some(8), more), (Deleted, Some(9), none)];
            (9, false, changes)
        }
    };
    let own = changes.into_iter();
    let own = own.filter(|(_, _, it)| wanted(it, filter.kind()));
    let own = own.map(|(kind, revision, decision)| proto::DecisionChange {
        change_type: kind.into(),
        revision,
        decision: Some(decision),
    });
    proto::WatchResponse {
        header: header(at),
        snapshot,
        decision_changes: own.collect(),
        ..proto::WatchResponse::default()
    }
}
