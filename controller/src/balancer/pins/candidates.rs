//! Which jobs are pinned: those of which it is known what they send, as long as leaves have room for their pins. Pure. It refuses to
//! know spines.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::sent::{self, Sent, SentOfJob, Unresolved};
use super::{JobPlan, SentByJobs, State, Weighted};
use crate::balancer::flows::{PINS_OF_LEAF_MAX, flows_between, flows_to, is_addressed};
use crate::fabric::fact::{JobName, PortName, SwitchName};
use crate::fabric::measured::{Measured, OffPlan};
use crate::fabric::topology::Topology;

/// The jobs that can be pinned, with what they send; and those of them whose flows to one NIC may be told apart.
pub(super) type Candidates<'a> = (BTreeMap<&'a JobName, &'a [Sent]>, BTreeSet<&'a JobName>);

/// The jobs that can be pinned: those that send something, as long as no leaf has too much to pin. Those of a higher priority first, and
/// of these small ones, so that one large job does not keep out many.
pub(super) fn candidates<'a>(
    topology: &Topology,
    all: &'a SentByJobs,
    measured: &Measured,
    plans: &mut BTreeMap<JobName, JobPlan>,
) -> Candidates<'a> {
    let mut sending = Vec::new();
    for (job, sent) in all {
        let (state, flows) = match sent {
            Err(Unresolved::Unknown(why)) => (State::Unresolved(why.clone()), 0),
            Err(Unresolved::Off) => (State::Weighted("its mode is off".to_owned()), 0),
            Err(Unresolved::TooLarge) => {
                let why = format!(
                    "its groups have more than {} ranks together",
                    sent::RANKS_MOST
                );
                (State::Weighted(why), 0)
            }
            Err(Unresolved::TooMany { flows, .. }) => {
                let why = format!(
                    "it may have {flows} flows, at most {} are pinned",
                    sent::MOST
                );
                (State::Weighted(why), *flows)
            }
            Ok(sent) if sent.over.is_empty() => (State::NoFlows, 0),
            Ok(sent) if let Some(why) = off_plan(topology, measured, job) => {
                (State::Weighted(why.to_string()), sent.over.len())
            }
            Ok(sent) => {
                sending.push((sent.over.len(), job, sent.over.as_slice()));
                (State::Placed, sent.over.len())
            }
        };
        let unknown = |sent: &&Sent| !sent.is_known();
        let over = sent.iter().flat_map(|sent| &sent.over);
        let unaddressed = over.filter(unknown).count();
        let known = sent.as_ref().ok();
        let plan = JobPlan {
            flows,
            bundled: 0,
            unaddressed,
            weighted: cause(sent, &state),
            hashed: None,
            state,
            times: known.map_or_else(Vec::new, |sent| sent.times.clone()),
            sets: known.map_or(0, |sent| sent.sets),
        };
        plans.insert(job.clone(), plan);
    }
    let priority = |job: &JobName| topology.job(job).map_or(0, |job| job.declared.priority);
    sending.sort_unstable_by_key(|(flows, job, _)| (Reverse(priority(job)), *flows, *job));
    with_room(topology, sending, plans)
}

/// Jobs in their order, as long as the leaves have room for their pins.
fn with_room<'a>(
    topology: &Topology,
    sending: Vec<(usize, &'a JobName, &'a [Sent])>,
    plans: &mut BTreeMap<JobName, JobPlan>,
) -> Candidates<'a> {
    let mut room = Room {
        topology,
        of_leaf: BTreeMap::new(),
    };
    let (mut pinned, mut apart) = (BTreeMap::new(), BTreeSet::new());
    for (_, job, sent) in sending {
        match room.take(sent, true).or_else(|_| room.take(sent, false)) {
            Ok(is_apart) => {
                pinned.insert(job, sent);
                apart.extend(is_apart.then_some(job));
            }
            Err(why) => {
                let plan = plans.get_mut(job).expect("every job has a plan");
                (plan.state, plan.weighted) = (State::Weighted(why), Some(Weighted::OverLimits));
            }
        }
    }
    (pinned, apart)
}

/// What leaves have entries for: what goes to a NIC, or what goes there from another one.
type Entries<'a> = BTreeMap<&'a SwitchName, BTreeMap<(&'a PortName, Option<&'a PortName>), usize>>;

/// Entries that leaves have for pins.
struct Room<'a> {
    topology: &'a Topology,
    /// How many there are for each, one for each address.
    of_leaf: Entries<'a>,
}

impl<'a> Room<'a> {
    /// Takes the entries for what a job sends, told apart by its sources or not; whether it is. The error says which leaf has no room
    /// for them.
    fn take(&mut self, sent: &'a [Sent], is_apart: bool) -> Result<bool, String> {
        let mut own = Entries::new();
        for sent in sent {
            let leaf = &sent.from.switch;
            let by_source = is_apart || !is_addressed(&sent.to);
            let ends = (&sent.to.name, by_source.then_some(&sent.from.name));
            let known = self.of_leaf.get(leaf);
            if known.is_some_and(|known| known.contains_key(&ends)) {
                continue;
            }
            let count = match is_apart {
                _ if !is_addressed(&sent.to) => usize::from(sent.is_known()),
                true => flows_between(&sent.from, &sent.to).count(),
                false => flows_to(&sent.to).count(),
            };
            own.entry(leaf).or_default().insert(ends, count);
        }
        for (leaf, own) in &own {
            let before = self.of_leaf.get(leaf);
            let all = before.into_iter().chain([own]).flat_map(BTreeMap::values);
            let (count, most) = (all.sum::<usize>(), pins_most(self.topology, leaf));
            if count > most {
                return Err(format!("{leaf} would have {count} pins, at most {most}"));
            }
        }
        for (leaf, own) in own {
            self.of_leaf.entry(leaf).or_default().extend(own);
        }
        Ok(is_apart)
    }
}

/// Why weights carry a job of which so much is known, and that came so far.
fn cause(sent: &Result<SentOfJob, Unresolved>, state: &State) -> Option<Weighted> {
    match (sent, state) {
        (Err(Unresolved::Off), _) => Some(Weighted::Off),
        (Err(Unresolved::TooMany { .. }), _) => Some(Weighted::Wide),
        (Err(Unresolved::TooLarge), _) => Some(Weighted::OverLimits),
        (Ok(_), State::Weighted(_)) => Some(Weighted::OffPlan),
        (Err(Unresolved::Unknown(_)) | Ok(_), _) => None,
    }
}

/// Entries for pins that a leaf has room for.
pub(super) fn pins_most(topology: &Topology, leaf: &SwitchName) -> usize {
    let declared = topology.switch(leaf).and_then(|it| it.limits.pins);
    declared.map_or(PINS_OF_LEAF_MAX, |most| most as usize)
}

/// Why weights carry a job that could be pinned, as long as it is what it was then.
fn off_plan<'a>(topology: &Topology, measured: &'a Measured, job: &JobName) -> Option<&'a OffPlan> {
    let why = measured.off_plan(job)?;
    let job = topology.job(job)?;
    (job.fingerprint() == why.fingerprint).then_some(why)
}
