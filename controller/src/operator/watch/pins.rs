//! Which adopted pins a watcher follows, and how they are written. Knows no stream.

use std::sync::Arc;

use weft_proto::v1::{self as proto, ChangeType};

use super::super::plans::job;
use super::{became, filled};
use crate::fabric::fact::InvalidFabric;
use crate::fabric::pin::{PinChanged, PinName, PinPath, Pins};

/// Which adopted pins a watcher follows.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Those of this job; None: all.
    job: Option<String>,
}

impl Wanted {
    /// Reads which a client wants; None: none.
    pub(super) fn read(
        wanted: Option<proto::PinFilter>,
        faults: &mut InvalidFabric,
    ) -> Option<Self> {
        let job = wanted?.job_name;
        if job.as_deref() == Some("") {
            faults.fault("pins.job_name", "no job has an empty name");
        }
        Some(Self { job })
    }

    /// Those of the changes that its watcher hears of.
    pub(super) fn of(&self, mut changed: Vec<Arc<PinChanged>>) -> Vec<Arc<PinChanged>> {
        changed.retain(|it| self.wants(&it.name));
        changed
    }

    /// What there is behind a pin, or from the first one on, as much as fits into an answer; and the pin to go on behind.
    pub(super) fn existing(
        &self,
        pins: &Pins,
        behind: Option<PinName>,
    ) -> (Vec<proto::PinChange>, Option<PinName>) {
        let first = || job::first(self.job.as_deref().unwrap_or_default());
        let rest = pins.after(behind.unwrap_or_else(first));
        filled(
            rest.take_while(|(name, _)| self.wants(name)),
            |(name, paths)| written(name, paths, ChangeType::Created, None),
            |(name, _)| name.clone(),
        )
    }

    fn wants(&self, name: &PinName) -> bool {
        let job = self.job.as_deref();
        job.is_none_or(|job| name.job.as_str() == job)
    }
}

/// An answer of these changes alone, without a header.
pub(super) fn answer(pin_changes: Vec<proto::PinChange>) -> proto::WatchResponse {
    proto::WatchResponse {
        pin_changes,
        ..proto::WatchResponse::default()
    }
}

/// A change as its watcher hears it; None if there was no pin and is none.
pub(super) fn change(changed: &PinChanged) -> Option<proto::PinChange> {
    let (paths, change) = became(changed.before.as_deref(), changed.after.as_deref())?;
    Some(written(
        &changed.name,
        paths,
        change,
        Some(changed.revision),
    ))
}

fn written(
    name: &PinName,
    paths: &[PinPath],
    change: ChangeType,
    revision: Option<u64>,
) -> proto::PinChange {
    proto::PinChange {
        change_type: change.into(),
        revision,
        // Ports are the leader's: they are not agreed.
        pin: Some(job::pin(name, paths, Vec::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::PART_OCTETS;
    use super::*;

    fn name(job: &str, destination: usize) -> PinName {
        PinName {
            job: job.into(),
            source: "leaf1:eth1".into(),
            destination: format!("leaf2:eth{destination:05}").as_str().into(),
        }
    }

    fn paths(spine: &str) -> Option<Arc<[PinPath]>> {
        let spine = spine.into();
        Some(Arc::from([PinPath { spine, weight: 1 }]))
    }

    fn wanted(job: Option<&str>) -> Wanted {
        let job_name = job.map(str::to_owned);
        let mut faults = InvalidFabric::default();
        let wanted = Wanted::read(Some(proto::PinFilter { job_name }), &mut faults);
        assert!(faults.is_empty());
        wanted.unwrap()
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_named() {
        let mut faults = InvalidFabric::default();
        assert!(Wanted::read(None, &mut faults).is_none());
        let job_name = Some(String::new());
        Wanted::read(Some(proto::PinFilter { job_name }), &mut faults);
        let fields = faults.faults.iter().map(|fault| fault.field.as_str());
        assert_eq!(fields.collect::<Vec<_>>(), ["pins.job_name"]);
    }

    #[test]
    fn a_change_is_what_became_of_the_pin() {
        let changed = |job: &str, before, after| PinChanged {
            revision: 7,
            name: name(job, 1),
            before,
            after,
        };
        let heard = |before, after| {
            let heard = change(&changed("train", before, after))?;
            assert_eq!(heard.revision, Some(7));
            let kind = heard.change_type();
            let pin = heard.pin.unwrap();
            assert!(pin.ports.is_empty() && pin.etag.len() == 16);
            Some((kind, pin.paths[0].spine_name.clone()))
        };
        let (one, two) = (paths("spine1"), paths("spine2"));
        let said = |kind, spine: &str| Some((kind, spine.to_owned()));
        let created = said(ChangeType::Created, "spine1");
        assert_eq!(heard(None, one.clone()), created);
        let updated = said(ChangeType::Updated, "spine2");
        assert_eq!(heard(one.clone(), two), updated);
        let deleted = said(ChangeType::Deleted, "spine1");
        assert_eq!(heard(one.clone(), None), deleted);
        assert_eq!(heard(None, None), None);
        let both = || {
            let changes = ["other", "train"].map(|job| changed(job, None, one.clone()));
            changes.map(Arc::new).to_vec()
        };
        assert_eq!(wanted(None).of(both()).len(), 2);
        let own = wanted(Some("train")).of(both());
        assert_eq!(own.len(), 1);
        assert_eq!(own[0].name.job.as_str(), "train");
    }

    #[test]
    fn what_exists_comes_in_parts_that_are_short_enough() {
        let mut pins = Pins::default();
        for destination in 0..10_000 {
            for job in ["a", "b", "c"] {
                pins.put(name(job, destination), paths("spine1"));
            }
        }
        let all = |wanted: &Wanted| {
            let (mut found, mut behind, mut parts) = (Vec::new(), None, 0);
            loop {
                let (part, next) = wanted.existing(&pins, behind);
                let octets: usize = part.iter().map(prost::Message::encoded_len).sum();
                assert!(octets < PART_OCTETS + 1_000, "{octets}");
                found.extend(part.into_iter().filter_map(|it| it.pin));
                parts += 1;
                if next.is_none() {
                    return (found, parts);
                }
                behind = next;
            }
        };
        let (found, parts) = all(&wanted(Some("b")));
        assert!(parts > 1, "{parts}");
        assert_eq!(found.len(), 10_000);
        assert!(found.iter().all(|it| it.job_name == "b"));
        assert!(found.is_sorted_by_key(|it| it.destination_host_port_name.clone()));
        assert_eq!(all(&wanted(None)).0.len(), 30_000);
        assert_eq!(all(&wanted(Some("d"))), (Vec::new(), 1));
    }
}
