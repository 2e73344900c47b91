//! Changes that a restore makes: the declared fabric, balance modes and jobs that differ from a backup. Knows no file and no call.

use std::collections::{BTreeMap, HashSet};

use prost_types::Timestamp;
use weft_proto::v1 as proto;
use weft_proto::v1::ChangeType;

use super::Backup;
use crate::balance;
use crate::fabric::changes;

/// Changes that make what is declared the same as a backup.
#[derive(Default)]
pub(super) struct Difference {
    /// Changes of declared resources, as a replica lists them.
    pub(super) resources: Vec<proto::ResourceChange>,
    /// Name of the declared fabric and its new name.
    pub(super) renamed: Option<(String, String)>,
    /// Balance modes to set, in this order.
    pub(super) modes: Vec<proto::SetBalanceRequest>,
    /// Jobs to delete.
    pub(super) deleted: Vec<String>,
    /// Jobs to replace.
    pub(super) updated: Vec<proto::Job>,
    /// Jobs to create.
    pub(super) created: Vec<proto::Job>,
    /// Jobs that are deleted and created again, as they were before.
    pub(super) former: BTreeMap<String, proto::Job>,
    /// Jobs that expired since the backup and stay away.
    pub(super) expired: Vec<String>,
    /// Jobs that name what the backup does not have, and stay as they are: each with the reason.
    pub(super) unresolved: Vec<String>,
}

impl Difference {
    /// Compares a backup with what is declared, without declared resources. Leases are compared with `now`, the time of a replica.
    pub(super) fn new(backup: &Backup, declared: &Backup, now: Option<Timestamp>) -> Self {
        let mut difference = Self::default();
        difference.compare_name(backup, declared);
        difference.compare_modes(backup, declared);
        difference.compare_jobs(backup, declared, now);
        difference
    }

    /// True if a declaration has to be applied.
    pub(super) fn changes_fabric(&self) -> bool {
        !self.resources.is_empty() || self.renamed.is_some()
    }

    /// True if nothing differs.
    pub(super) fn is_empty(&self) -> bool {
        !self.changes_fabric()
            && self.modes.is_empty()
            && self.deleted.is_empty()
            && self.updated.is_empty()
            && self.created.is_empty()
    }

    fn compare_name(&mut self, backup: &Backup, declared: &Backup) {
        let (old, new) = (&declared.fabric.display_name, &backup.fabric.display_name);
        if !old.is_empty() && old != new {
            self.renamed = Some((old.clone(), new.clone()));
        }
    }

    /// A leaf loses a mode of its own only together with all others. Modes of leaves that are deleted are lost with them.
    fn compare_modes(&mut self, backup: &Backup, declared: &Backup) {
        let own = |backup: &Backup| {
            let leaves = backup.leaf_balances.iter();
            let leaves = leaves.map(|it| (it.leaf_name.clone(), it.mode));
            leaves.collect::<BTreeMap<_, _>>()
        };
        let (wanted, mut present) = (own(backup), own(declared));
        present.retain(|leaf, _| backup.fabric.switches.iter().any(|it| it.name == *leaf));
        let is_without = |leaf: &String| !wanted.contains_key(leaf);
        if backup.default_mode != declared.default_mode || present.keys().any(is_without) {
            self.modes.push(proto::SetBalanceRequest {
                all_leaves: true,
                mode: backup.default_mode.into(),
                ..proto::SetBalanceRequest::default()
            });
            present.clear();
        }
        for (leaf, mode) in wanted {
            if present.get(&leaf) != Some(&mode) {
                self.modes.push(proto::SetBalanceRequest {
                    leaf_name: Some(leaf),
                    mode,
                    ..proto::SetBalanceRequest::default()
                });
            }
        }
    }

    fn compare_jobs(&mut self, backup: &Backup, declared: &Backup, now: Option<Timestamp>) {
        let present = declared.jobs.iter();
        let mut present: BTreeMap<_, _> = present.map(|job| (&job.name, job)).collect();
        let names = Names::of(&backup.fabric);
        for job in &backup.jobs {
            let present = present.remove(&job.name);
            let job = with_later_lease(job, present);
            if present == Some(&job) {
                continue;
            }
            match (present, names.lack(&job)) {
                (None, _) if has_expired(&job, now) => self.expired.push(job.name),
                (_, Some(reason)) => self.unresolved.push(format!("{} ({reason})", job.name)),
                (Some(present), None) => self.replace(job, present),
                (None, None) => self.created.push(job),
            }
        }
        self.deleted.extend(present.into_keys().cloned());
    }

    /// A job that runs on other NICs is deleted and created: another one may have its NICs, and no NIC has two jobs.
    fn replace(&mut self, job: proto::Job, present: &proto::Job) {
        if job.host_names == present.host_names && job.ranks == present.ranks {
            self.updated.push(job);
        } else {
            self.deleted.push(job.name.clone());
            self.former.insert(job.name.clone(), present.clone());
            self.created.push(job);
        }
    }

    /// Returns a line for each kind of change.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some((old, new)) = &self.renamed {
            lines.push(format!("rename fabric {old} to {new}"));
        }
        for (verb, kind) in [
            ("create", ChangeType::Created),
            ("update", ChangeType::Updated),
            ("delete", ChangeType::Deleted),
        ] {
            let listed = changes::listed(changes::of(&self.resources, kind));
            lines.extend(listed.map(|it| format!("{verb} {it}")));
        }
        let modes = self.modes.iter().map(mode).collect();
        let modes = changes::shortened(modes);
        lines.extend(modes.map(|it| format!("set balance modes {it}")));
        let names = |jobs: &[proto::Job]| jobs.iter().map(|it| it.name.clone()).collect();
        for (verb, names) in [
            ("delete jobs", self.deleted.clone()),
            ("update jobs", names(&self.updated)),
            ("create jobs", names(&self.created)),
            ("leave out expired jobs", self.expired.clone()),
            ("leave out jobs", self.unresolved.clone()),
        ] {
            lines.extend(changes::shortened(names).map(|it| format!("{verb} {it}")));
        }
        lines
    }
}

/// Hosts and host ports of a backup.
struct Names<'a> {
    hosts: HashSet<&'a str>,
    ports: HashSet<&'a str>,
}

impl<'a> Names<'a> {
    fn of(fabric: &'a proto::Fabric) -> Self {
        Self {
            hosts: fabric.hosts.iter().map(|it| it.name.as_str()).collect(),
            ports: fabric
                .host_ports
                .iter()
                .map(|it| it.name.as_str())
                .collect(),
        }
    }

    /// Returns the reason why a job cannot be declared: it names a host or a host port that is not there.
    fn lack(&self, job: &proto::Job) -> Option<String> {
        let mut hosts = job.host_names.iter();
        if let Some(name) = hosts.find(|name| !self.hosts.contains(name.as_str())) {
            return Some(format!("the file has no host {name}"));
        }
        let ends = job.flows.iter();
        let ends = ends.flat_map(|flow| flow.source.iter().chain(&flow.destination));
        let mut names = job.ranks.iter().chain(ends).map(|nic| &nic.host_port_name);
        let name = names.find(|name| !name.is_empty() && !self.ports.contains(name.as_str()))?;
        Some(format!("the file has no host port {name}"))
    }
}

/// Returns a mode and its leaf in words.
fn mode(request: &proto::SetBalanceRequest) -> String {
    let mode = balance::name(request.mode());
    match &request.leaf_name {
        Some(leaf) => format!("{leaf} {mode}"),
        None => format!("all {mode}"),
    }
}

/// Returns a job of a backup. Its lease, if it was renewed since, stays renewed.
fn with_later_lease(job: &proto::Job, present: Option<&proto::Job>) -> proto::Job {
    let mut job = job.clone();
    let renewed = present.and_then(|present| present.expire_time);
    if let (Some(then), Some(renewed)) = (&job.expire_time, renewed) {
        let is_later = (renewed.seconds, renewed.nanos) > (then.seconds, then.nanos);
        if is_later {
            job.expire_time = Some(renewed);
        }
    }
    job
}

/// True if the lease of a job ended before `now`.
fn has_expired(job: &proto::Job, now: Option<Timestamp>) -> bool {
    let times = job.expire_time.as_ref().zip(now);
    times.is_some_and(|(end, now)| (end.seconds, end.nanos) <= (now.seconds, now.nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp { seconds, nanos: 0 })
    }

    fn job(name: &str, host: &str, expire_time: Option<Timestamp>) -> proto::Job {
        proto::Job {
            name: name.to_owned(),
            host_names: vec![host.to_owned()],
            expire_time,
            ..proto::Job::default()
        }
    }

    fn modes(default_mode: proto::BalanceMode, own: &[(&str, proto::BalanceMode)]) -> Backup {
        let leaf = |(name, mode): &(&str, proto::BalanceMode)| proto::LeafBalance {
            leaf_name: (*name).to_owned(),
            mode: (*mode).into(),
            ..proto::LeafBalance::default()
        };
        let switch = |name: &str| proto::Switch {
            name: name.to_owned(),
            ..proto::Switch::default()
        };
        let mut backup = Backup {
            default_mode,
            leaf_balances: own.iter().map(leaf).collect(),
            ..Backup::default()
        };
        backup.fabric.switches = ["leaf1", "leaf2"].map(switch).into();
        backup
    }

    fn lines(backup: &Backup, declared: &Backup) -> Vec<String> {
        Difference::new(backup, declared, at(1_000)).lines()
    }

    #[test]
    fn modes_are_set_only_where_they_differ() {
        use proto::BalanceMode::{Off, On, Shadow};
        let wanted = modes(Shadow, &[("leaf1", On)]);
        assert!(Difference::new(&wanted, &wanted, None).is_empty());
        for (present, expected) in [
            (modes(Shadow, &[]), "set balance modes 1: leaf1 on"),
            (
                modes(Shadow, &[("leaf1", Off)]),
                "set balance modes 1: leaf1 on",
            ),
            (
                modes(Off, &[("leaf1", On)]),
                "set balance modes 2: all shadow, leaf1 on",
            ),
            (
                modes(Shadow, &[("leaf1", On), ("leaf2", On)]),
                "set balance modes 2: all shadow, leaf1 on",
            ),
        ] {
            assert_eq!(lines(&wanted, &present), [expected]);
        }
        // A leaf that is deleted loses its mode anyway.
        let present = modes(Shadow, &[("leaf1", On), ("leaf3", On)]);
        assert!(Difference::new(&wanted, &present, None).is_empty());
    }

    #[test]
    fn jobs_are_created_updated_and_deleted_and_renewed_leases_stay() {
        let host = |number: u32| proto::Host {
            name: format!("h{number}"),
            ..proto::Host::default()
        };
        let backup = Backup {
            fabric: proto::Fabric {
                hosts: (1..=6).map(host).collect(),
                ..proto::Fabric::default()
            },
            jobs: vec![
                job("same", "h1", None),
                job("renewed", "h2", at(900)),
                job("changed", "h3", None),
                job("moved", "h4", None),
                job("missing", "h5", at(1_001)),
                job("expired", "h6", at(1_000)),
                job("lost", "h7", None),
            ],
            ..Backup::default()
        };
        let declared = Backup {
            jobs: vec![
                job("same", "h1", None),
                job("renewed", "h2", at(2_000)),
                job("changed", "h3", at(2_000)),
                job("moved", "h9", None),
                job("new", "h4", None),
            ],
            ..Backup::default()
        };
        let expected = [
            "delete jobs 2: moved, new",
            "update jobs 1: changed",
            "create jobs 2: moved, missing",
            "leave out expired jobs 1: expired",
            "leave out jobs 1: lost (the file has no host h7)",
        ];
        assert_eq!(lines(&backup, &declared), expected);
    }
}
