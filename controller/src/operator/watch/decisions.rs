//! Which decisions of the leader a watcher follows, and how they are written. Knows no stream.

use std::sync::Arc;

use weft_proto::v1::{self as proto, ChangeType, DecisionKind};

use super::super::plans::decision;
use super::{became, filled};
use crate::fabric::decision::{Decided, DecisionChanged, Subject};
use crate::fabric::fact::InvalidFabric;
use crate::fabric::measured::Measured;

/// Which decisions a watcher follows.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The kind of decisions that the watcher follows; None: every kind.
    kind: Option<DecisionKind>,
}

impl Wanted {
    /// Reads which a client wants; None: none.
    pub(super) fn read(
        wanted: Option<proto::DecisionFilter>,
        faults: &mut InvalidFabric,
    ) -> Option<Self> {
        let number = wanted?.kind;
        let kind = decision::kind(number, "decisions.kind", faults);
        Some(Self { kind })
    }

    /// The changes that the watcher follows, as messages of its stream.
    pub(super) fn of(&self, changed: &[Arc<DecisionChanged>]) -> Vec<proto::DecisionChange> {
        changed.iter().filter_map(|it| self.change(it)).collect()
    }

    /// What is decided behind a subject, or from the first one on, as much as fits into an answer; and the subject to go on behind.
    pub(super) fn existing(
        &self,
        measured: &Measured,
        behind: Option<Subject>,
    ) -> (Vec<proto::DecisionChange>, Option<Subject>) {
        filled(
            measured.after(behind).filter(|it| self.wants(it)),
            |decided| written(decision::row(decided), ChangeType::Created, None),
            |decided| decided.subject(),
        )
    }

    /// A change as its watcher hears it; None if it does not.
    fn change(&self, changed: &DecisionChanged) -> Option<proto::DecisionChange> {
        let both = [&changed.before, &changed.after];
        let wanted = both.map(|it| it.as_ref().filter(|it| self.wants(it)));
        let [before, after] = wanted.map(|it| it.map(decision::row));
        // The fingerprint of a job is in no row: that it alone is another one is no change to a watcher.
        if before == after {
            return None;
        }
        let (row, change) = became(before, after)?;
        Some(written(row, change, Some(changed.revision)))
    }

    fn wants(&self, decided: &Decided) -> bool {
        self.kind.is_none_or(|kind| decided.kind() == kind)
    }
}

/// An answer of these changes alone, without a header.
pub(super) fn answer(decision_changes: Vec<proto::DecisionChange>) -> proto::WatchResponse {
    proto::WatchResponse {
        decision_changes,
        ..proto::WatchResponse::default()
    }
}

fn written(
    row: proto::Decision,
    change: ChangeType,
    revision: Option<u64>,
) -> proto::DecisionChange {
    proto::DecisionChange {
        change_type: change.into(),
        revision,
        decision: Some(row),
    }
}

#[cfg(test)]
mod tests {
    use weft_proto::v1::decision::Subject as Written;

    use super::super::PART_OCTETS;
    use super::*;
    use crate::fabric::measured::OffPlan;

    fn wanted(kind: DecisionKind) -> Wanted {
        let filter = proto::DecisionFilter { kind: kind.into() };
        let mut faults = InvalidFabric::default();
        let wanted = Wanted::read(Some(filter), &mut faults);
        assert!(faults.is_empty());
        wanted.unwrap()
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_named() {
        let mut faults = InvalidFabric::default();
        assert!(Wanted::read(None, &mut faults).is_none());
        Wanted::read(Some(proto::DecisionFilter { kind: 77 }), &mut faults);
        let fields = faults.faults.iter().map(|fault| fault.field.as_str());
        assert_eq!(fields.collect::<Vec<_>>(), ["decisions.kind"]);
    }

    #[test]
    fn a_change_is_what_became_of_the_decision() {
        let changed = |before: Option<u8>, after: Option<u8>| {
            let decided = |percent| Decided::KeptFree("leaf1".into(), percent);
            Arc::new(DecisionChanged {
                revision: 7,
                before: before.map(decided),
                after: after.map(decided),
            })
        };
        let story = [
            changed(None, Some(10)),
            changed(Some(10), Some(20)),
            changed(Some(20), None),
            changed(None, None),
        ];
        let heard = wanted(DecisionKind::KeptFreeLeaf).of(&story);
        let said = heard.iter().map(|it| {
            assert_eq!(it.revision, Some(7));
            match it.decision.clone().unwrap().subject {
                Some(Written::KeptFreeLeaf(leaf)) => (it.change_type(), leaf.kept_free_percent),
                other => panic!("{other:?}"),
            }
        });
        let expected = [
            (ChangeType::Created, 10),
            (ChangeType::Updated, 20),
            (ChangeType::Deleted, 20),
        ];
        assert_eq!(said.collect::<Vec<_>>(), expected);
        assert_eq!(wanted(DecisionKind::Unspecified).of(&story), heard);
        assert!(wanted(DecisionKind::DeratedLink).of(&story).is_empty());
    }

    /// The job was changed, and is left to weights as before.
    #[test]
    fn a_new_fingerprint_of_the_job_alone_is_no_change() {
        let off_plan = |percent, fingerprint| {
            let why = OffPlan {
                leaf: "leaf1".into(),
                percent,
                fingerprint,
            };
            Some(Decided::OffPlan("train".into(), why))
        };
        let changed = |revision, before, after| {
            Arc::new(DecisionChanged {
                revision,
                before,
                after,
            })
        };
        let story = [
            changed(7, None, off_plan(40, 1)),
            changed(8, off_plan(40, 1), off_plan(40, 2)),
            changed(9, off_plan(40, 2), off_plan(50, 3)),
            changed(10, off_plan(50, 3), None),
        ];
        for kind in [DecisionKind::OffPlanJob, DecisionKind::Unspecified] {
            let heard = wanted(kind).of(&story);
            let said = heard.iter().map(|it| (it.revision, it.change_type()));
            let expected = [
                (Some(7), ChangeType::Created),
                (Some(9), ChangeType::Updated),
                (Some(10), ChangeType::Deleted),
            ];
            assert_eq!(said.collect::<Vec<_>>(), expected);
            let rows = heard.iter().filter_map(|it| it.decision.as_ref());
            let etags: Vec<_> = rows.map(|it| it.etag.as_str()).collect();
            assert_ne!(etags[0], etags[1]);
            assert_eq!(etags[1], etags[2]);
        }
    }

    #[test]
    fn what_exists_comes_in_parts_that_are_short_enough() {
        let mut measured = Measured::default();
        for at in 0..10_000 {
            let leaf = format!("leaf{at:05}");
            measured.keep_free(leaf.as_str().into(), 10);
        }
        let link = "leaf1:eth1--spine1:eth1";
        let derated = weft_telemetry::derating::Decision {
            derating_percent: 25,
            cause: None,
        };
        measured.derate(link.into(), derated);
        let all = |kind| {
            let wanted = wanted(kind);
            let (mut found, mut behind, mut parts) = (Vec::new(), None, 0);
            loop {
                let (part, next) = wanted.existing(&measured, behind);
                let octets: usize = part.iter().map(prost::Message::encoded_len).sum();
                assert!(octets < PART_OCTETS + 1_000, "{octets}");
                found.extend(part.into_iter().filter_map(|it| it.decision));
                parts += 1;
                if next.is_none() {
                    return (found, parts);
                }
                behind = next;
            }
        };
        let (found, parts) = all(DecisionKind::KeptFreeLeaf);
        assert!(parts > 1, "{parts}");
        assert_eq!(found.len(), 10_000);
        let (everything, _) = all(DecisionKind::Unspecified);
        assert_eq!(everything[1..], found);
        assert_eq!(all(DecisionKind::OffPlanJob), (Vec::new(), 1));
    }
}
