//! What a status says of prefixes: of all of them, or of those that are not as they were told.
//!
//! Most prefixes have the same next hops as others: these are put into words once.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;

use ipnet::IpNet;
use weft_proto::agent::v1::{Condition, ConditionType, NextHop, Prefix, PrefixState};

use super::{and_more, condition};
use crate::agent::Agent;
use crate::entry::Key;
use crate::fib::{Forwarded, Found};
use crate::forwarding::{Family, OwnHop};

/// Prefixes that were told, each with a hash of what was said of it.
pub type ToldPrefixes = BTreeMap<IpNet, u64>;

/// What is to be said of prefixes.
pub(super) struct All {
    /// Prefixes that are not as they were told.
    pub(super) changed: Vec<Prefix>,
    /// Prefixes that were told, and are neither programmed nor asked for any more.
    pub(super) gone: Vec<IpNet>,
    /// What follows from the states of all of them.
    pub(super) conditions: Vec<Condition>,
}

/// Looks at every prefix that is programmed or asked for. All count as told then.
pub(super) fn all(agent: &Agent, asked: &BTreeSet<IpNet>, told: &mut ToldPrefixes) -> All {
    let programmed = agent.rib().keys().filter_map(|key| match key {
        Key::Prefix(prefix) => Some(prefix),
        Key::NextHop(_) | Key::Group(_) | Key::Policy(_) => None,
    });
    let all: BTreeSet<IpNet> = programmed.chain(asked.iter().copied()).collect();
    let mut before = std::mem::take(told);
    let mut words = Words::default();
    let mut found = Found::default();
    let mut changed = Vec::new();
    let mut unlike: BTreeMap<PrefixState, (String, usize)> = BTreeMap::new();
    for prefix in all {
        let seen = Seen::of(agent, prefix, &mut found);
        if OF_STATES.iter().any(|(state, _)| *state == seen.state) {
            let first = || (format!("{prefix}: {}", seen.reason), 0);
            let known = unlike.entry(seen.state);
            known
                .and_modify(|(_, others)| *others += 1)
                .or_insert_with(first);
        }
        let own = agent.fib().own().hops(prefix);
        let hops = words.of(agent, &seen, own);
        let hash = hash(&(seen.state as i32, &seen.reason, hops.hash));
        told.insert(prefix, hash);
        if before.remove(&prefix) != Some(hash) {
            changed.push(Prefix {
                prefix: prefix.to_string(),
                state: seen.state.into(),
                reason: seen.reason,
                wanted: hops.wanted.clone(),
                own: hops.own.clone(),
            });
        }
    }
    let conditions = OF_STATES.iter().filter_map(|(state, kind)| {
        let (first, others) = unlike.remove(state)?;
        Some(condition((*kind, and_more(first, others))))
    });
    All {
        conditions: conditions.collect(),
        changed,
        gone: before.into_keys().collect(),
    }
}

/// Whether a condition follows from the states of prefixes.
pub(super) fn follows(condition: &Condition) -> bool {
    let kind = condition.condition_type();
    OF_STATES.iter().any(|(_, of_state)| *of_state == kind)
}

/// What becomes of a prefix.
struct Seen {
    prefix: IpNet,
    state: PrefixState,
    reason: String,
    /// Its group.
    group: Option<u64>,
    /// The group that it is forwarded by: its own, or the backup of that.
    used: Option<u64>,
}

impl Seen {
    fn of(agent: &Agent, prefix: IpNet, found: &mut Found) -> Self {
        let (rib, fib) = (agent.rib(), agent.fib());
        let group = rib.prefix(prefix).map(|entry| entry.group);
        let forwarding = group.map(|_| match fib.has_foreign(Family::of(prefix)) {
            true => Forwarded::Bypassed("the table has routes of somebody else".into()),
            false => fib.forwarding(prefix, rib, found),
        });
        let (state, reason, used) = match forwarding {
            None => (PrefixState::Absent, String::new(), None),
            Some(Forwarded::Bypassed(why)) => (PrefixState::Bypassed, why, None),
            Some(Forwarded::By { group, partly }) => match partly {
                Some(why) => (PrefixState::Partial, why, Some(group)),
                None => (PrefixState::Forwarding, String::new(), Some(group)),
            },
        };
        Self {
            prefix,
            state,
            reason,
            group,
            used,
        }
    }
}

/// Next hops of prefixes in words, as they were for the last prefix of each group.
#[derive(Default)]
struct Words(BTreeMap<[Option<u64>; 2], Said>);

/// Next hops in words, of prefixes that the switch's own routing has over these.
struct Said {
    own: Vec<OwnHop>,
    hops: Arc<Hops>,
}

/// The next hops of a prefix in words.
struct Hops {
    wanted: Vec<NextHop>,
    own: Vec<NextHop>,
    hash: u64,
}

impl Words {
    /// The next hops of a prefix in words; the switch's own routing sends its packets over `own`.
    fn of(&mut self, agent: &Agent, seen: &Seen, own: &[OwnHop]) -> Arc<Hops> {
        let groups = [seen.group, seen.used];
        match self.0.get(&groups) {
            Some(said) if said.own == own => Arc::clone(&said.hops),
            Some(_) | None => {
                let hops = Arc::new(Hops::of(agent, seen, own));
                let said = Said {
                    own: own.to_vec(),
                    hops: Arc::clone(&hops),
                };
                self.0.insert(groups, said);
                hops
            }
        }
    }
}

impl Hops {
    fn of(agent: &Agent, seen: &Seen, own: &[OwnHop]) -> Self {
        let wanted = wanted(agent, seen);
        let own: Vec<_> = own.iter().map(|hop| own_hop(agent, hop)).collect();
        let words = |hops: &[NextHop]| -> Vec<_> {
            let words = hops.iter().map(|hop| {
                let NextHop {
                    address,
                    interface_name,
                    weight,
                    in_use,
                } = hop.clone();
                (address, interface_name, weight, in_use)
            });
            words.collect()
        };
        Self {
            hash: hash(&(words(&wanted), words(&own))),
            wanted,
            own,
        }
    }
}

/// The next hops of a prefix, and those that it is forwarded by, which may be of the backup.
fn wanted(agent: &Agent, seen: &Seen) -> Vec<NextHop> {
    let (rib, fib) = (agent.rib(), agent.fib());
    let used = seen.used.filter(|it| Some(*it) != seen.group);
    let groups = seen.group.into_iter().chain(used);
    let groups = groups.filter_map(|group| rib.group(group));
    let members = groups.flat_map(|group| &group.members);
    members
        .filter_map(|(index, weight)| {
            let next_hop = rib.next_hop(*index)?;
            let address = next_hop.address.map(|address| address.to_string());
            let is_usable = || fib.obstacle(*index, seen.prefix, rib).is_none();
            Some(NextHop {
                address: address.unwrap_or_default(),
                interface_name: next_hop.interface.clone().unwrap_or_default(),
                weight: u32::try_from(*weight).unwrap_or(u32::MAX),
                in_use: seen.used.is_some() && is_usable(),
            })
        })
        .collect()
}

fn own_hop(agent: &Agent, hop: &OwnHop) -> NextHop {
    let mut links = agent.fib().links().iter();
    let link = links.find(|link| link.index == hop.path.interface);
    let address = hop.path.gateway.map(|address| address.to_string());
    NextHop {
        address: address.unwrap_or_default(),
        interface_name: link.map(|link| link.name.clone()).unwrap_or_default(),
        weight: hop.weight.into(),
        in_use: true,
    }
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Conditions of prefixes of which some next hops are used, and of those of which none is.
const OF_STATES: [(PrefixState, ConditionType); 2] = [
    (PrefixState::Partial, ConditionType::NextHopsUnused),
    (PrefixState::Bypassed, ConditionType::PrefixesBypassed),
];
