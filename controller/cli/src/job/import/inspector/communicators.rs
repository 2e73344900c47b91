//! From communicators to ranks of the job. NCCL numbers the ranks of each communicator from 0; what they have in common is the process
//! that each is in.

use std::collections::BTreeMap;

use weft_proto::v1::Collective;

use super::super::ranks::{Group, Ranks};
use super::super::{Notes, add};
use super::{Calls, Communicator, Found};
use crate::failure::Failure;

/// The ranks of the job that a process has, in their order.
type OfProcess = BTreeMap<u32, Vec<u32>>;

impl Found {
    /// Puts all communicators together.
    pub(super) fn ranks(mut self, largest: bool, notes: &mut Notes) -> Result<Ranks, Failure> {
        self.notes(notes);
        let incomplete = self.leave_incomplete();
        let what =
            "communicators with ranks that no file is of, or that two processes have, left out";
        notes.count(what, &incomplete);
        let order = self.order();
        if order.len() > super::RANKS_MAX {
            let reason = format!("{} ranks, at most {}", order.len(), super::RANKS_MAX);
            return Err(Failure::Refused(reason));
        }
        let mut hosts_of = BTreeMap::new();
        for ((host, _), process) in &self.processes {
            hosts_of.insert(*process, host.clone());
        }
        let mut of_process = OfProcess::new();
        for (rank, process) in (0..).zip(&order) {
            of_process.entry(*process).or_default().push(rank);
        }
        let hosts = order.iter().map(|process| hosts_of[process].clone());
        let mut ranks = Ranks {
            hosts: hosts.collect(),
            ..Ranks::default()
        };
        let mut unclear = Vec::new();
        for (id, communicator) in &self.communicators {
            match communicator.ranks(&of_process) {
                Some(of_job) => communicator.into(id, &of_job, largest, &mut ranks),
                None => unclear.push(id.clone()),
            }
        }
        let what = "communicators of processes with more ranks than it has of them, left out";
        notes.count(what, &unclear);
        Ok(ranks)
    }

    fn notes(&self, notes: &mut Notes) {
        if self.dropped > 0 {
            notes.say(format!(
                "{} records were overwritten before the plugin wrote them (NCCL_INSPECTOR_DUMP_COLL_RING_SIZE): octets are too few",
                self.dropped
            ));
        }
        let calls = |(name, calls): (&String, &u64)| format!("{name} ({calls} calls)");
        let unknown: Vec<_> = self.unknown.iter().map(calls).collect();
        notes.count("collectives that weft does not know, left out", &unknown);
        notes.count("files that end within a record", &self.cut);
    }

    /// Takes communicators away whose ranks are not all known.
    fn leave_incomplete(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        self.communicators.retain(|id, communicator| {
            let (there, all) = (communicator.members.len(), communicator.n_ranks);
            let whole = there == all as usize && !communicator.conflict;
            if !whole {
                left.push(format!("{id} ({there} of {all} ranks)"));
            }
            whole
        });
        left
    }

    /// The process of each rank of the job: as in the communicator of all, or else by host and number of the process.
    fn order(&self) -> Vec<u32> {
        let mut slots: BTreeMap<u32, usize> = BTreeMap::new();
        for communicator in self.communicators.values() {
            for (process, count) in communicator.counts() {
                let most = slots.entry(process).or_default();
                *most = count.max(*most);
            }
        }
        let all: usize = slots.values().sum();
        let communicators = self.communicators.values();
        let mut whole = communicators.filter(|it| it.members.len() == all);
        if let Some(world) = whole.next() {
            return world.members.values().copied().collect();
        }
        let processes = self.processes.values();
        let of_process = |process: &u32| {
            let count = slots.get(process).copied().unwrap_or_default();
            std::iter::repeat_n(*process, count)
        };
        processes.flat_map(of_process).collect()
    }
}

impl Communicator {
    /// How many of its ranks each process has.
    fn counts(&self) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        for process in self.members.values() {
            *counts.entry(*process).or_default() += 1;
        }
        counts
    }

    /// The rank in the job of each of its ranks; None if a process has others, too, and nothing says which are meant.
    fn ranks(&self, of_process: &OfProcess) -> Option<Vec<u32>> {
        let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
        let counts = self.counts();
        let rank = |process: &u32| {
            let ranks = of_process.get(process)?;
            let at = seen.entry(*process).or_default();
            let rank = ranks.get(*at).copied();
            *at += 1;
            rank.filter(|_| counts.get(process) == Some(&ranks.len()))
        };
        self.members.values().map(rank).collect()
    }

    /// Adds its groups, and what its ranks send to each other.
    fn into(&self, id: &str, of_job: &[u32], largest: bool, ranks: &mut Ranks) {
        let mut most: BTreeMap<i32, &Calls> = BTreeMap::new();
        for ((collective, _), calls) in &self.calls {
            let before = most.entry(*collective).or_insert(calls);
            if calls.octets(largest) > before.octets(largest) {
                *before = calls;
            }
        }
        let name = if self.name.is_empty() { id } else { &self.name };
        for (collective, calls) in most {
            ranks.groups.push(Group {
                name: name.to_owned(),
                collective: Collective::try_from(collective).unwrap_or_default(),
                algorithm: calls.algorithm(),
                ranks: of_job.to_vec(),
                octets: calls.octets(largest),
                channels: (calls.channels > 0).then_some(calls.channels),
            });
        }
        for ((from, to), (sent, taken)) in &self.sends {
            let ends = of_job.get(*from as usize).zip(of_job.get(*to as usize));
            if let Some((from, to)) = ends {
                let octets = sent.octets(largest).max(taken.octets(largest));
                add(ranks.sends.entry((*from, *to)).or_default(), octets);
            }
        }
    }
}
