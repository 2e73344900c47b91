//! Which decisions of the leader a watcher follows, and how they are written. Knows no stream.

use std::sync::Arc;

use weft_proto::v1::{self as proto, ChangeType, DecisionKind};

use super::super::plans::decision;
use super::PART_OCTETS;
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
        let (mut changes, mut octets) = (Vec::new(), 0);
        for decided in measured.after(behind).filter(|it| self.wants(it)) {
            let change = written(&decided, ChangeType::Created, None);
            octets += prost::Message::encoded_len(&change);
            changes.push(change);
            if octets > PART_OCTETS {
                return (changes, Some(decided.subject()));
            }
        }
        (changes, None)
    }

    /// A change as its watcher hears it; None if it does not.
    fn change(&self, changed: &DecisionChanged) -> Option<proto::DecisionChange> {
        let (decided, change) = match (&changed.before, &changed.after) {
            (None, Some(after)) => (after, ChangeType::Created),
            (Some(_), Some(after)) => (after, ChangeType::Updated),
            (Some(before), None) => (before, ChangeType::Deleted),
            (None, None) => return None,
        };
        let revision = Some(changed.revision);
        self.wants(decided)
            .then(|| written(decided, change, revision))
    }

    fn wants(&self, decided: &Decided) -> bool {
        self.kind.is_none_or(|kind| decided.kind() == kind)
    }
}

fn written(decided: &Decided, change: ChangeType, revision: Option<u64>) -> proto::DecisionChange {
    proto::DecisionChange {
        change_type: change.into(),
        revision,
        decision: Some(decision::row(decided)),
    }
}

#[cfg(test)]
mod tests {
    use weft_proto::v1::decision::Subject as Written;

    use super::*;

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
