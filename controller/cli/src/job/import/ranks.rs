//! What ranks send to each other, before it is known where their NICs are. Knows no format.

use std::collections::{BTreeMap, BTreeSet};

use weft_proto::v1::{self as proto, Collective, CollectiveAlgorithm};

use super::nics::{self, Nics};
use super::{Notes, add};
use crate::failure::Failure;

/// What some ranks do together.
pub(super) struct Group {
    /// What it is called where it comes from.
    pub(super) name: String,
    pub(super) collective: Collective,
    pub(super) algorithm: CollectiveAlgorithm,
    /// In their order.
    pub(super) ranks: Vec<u32>,
    /// Octets of the buffer of a rank, as nccl-tests counts them.
    pub(super) octets: u64,
    /// None: not known.
    pub(super) channels: Option<u32>,
}

/// What the ranks of a job send.
#[derive(Default)]
pub(super) struct Ranks {
    /// The host of each rank.
    pub(super) hosts: Vec<String>,
    pub(super) groups: Vec<Group>,
    /// Octets from one rank to another.
    pub(super) sends: BTreeMap<(u32, u32), u64>,
}

impl Ranks {
    /// Gives each rank its NIC. What no spine carries is left out.
    pub(super) fn job(self, nics: &Nics, notes: &mut Notes) -> Result<proto::Job, Failure> {
        let ports = self.ports(nics, notes)?;
        let mut names = BTreeSet::new();
        let (mut groups, mut local) = (Vec::new(), Vec::new());
        for group in &self.groups {
            let name = unique(&group.name, group.collective, &mut names);
            match self.crosses(&group.ranks) {
                true if group.octets > 0 => groups.push(self.group(name, group)),
                _ => local.push(name),
            }
        }
        notes.count("groups within a host, or without octets, left out", &local);
        let flows = self.flows(&ports, notes);
        let ranks = ports.iter().map(|port| nics::nic(port)).collect();
        Ok(proto::Job {
            ranks,
            groups,
            flows,
            ..proto::Job::default()
        })
    }

    /// The host port of each rank.
    fn ports<'a>(&self, nics: &'a Nics, notes: &mut Notes) -> Result<Vec<&'a str>, Failure> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for host in &self.hosts {
            *counts.entry(host).or_default() += 1;
        }
        let mut uneven = Vec::new();
        for (host, ranks) in &counts {
            let count = nics.of(host).map_err(Failure::Refused)?.len();
            if count != *ranks {
                uneven.push(format!("{host} ({ranks} ranks, {count} NICs)"));
            }
        }
        let what = "hosts with another number of ranks than of NICs: neighboring ranks share one, or NICs are left out";
        notes.count(what, &uneven);
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let mut ports = Vec::with_capacity(self.hosts.len());
        for host in &self.hosts {
            let at = seen.entry(host).or_default();
            let port = nics.of_rank(host, *at, counts[host.as_str()]);
            ports.push(port.map_err(Failure::Refused)?);
            *at += 1;
        }
        Ok(ports)
    }

    fn host(&self, rank: u32) -> Option<&str> {
        self.hosts.get(rank as usize).map(String::as_str)
    }

    /// Whether the ranks are at more than one host.
    fn crosses(&self, ranks: &[u32]) -> bool {
        let mut hosts = ranks.iter().map(|rank| self.host(*rank));
        let first = hosts.next();
        hosts.any(|host| Some(host) != first)
    }

    fn group(&self, name: String, group: &Group) -> proto::CollectiveGroup {
        let ranks = &group.ranks;
        let ordered = (0..).zip(ranks).all(|(at, rank)| at == *rank);
        let all = ordered && ranks.len() == self.hosts.len();
        let algorithm = match group.collective {
            Collective::AllReduce => group.algorithm,
            _ => CollectiveAlgorithm::Unspecified,
        };
        proto::CollectiveGroup {
            name,
            collective: group.collective.into(),
            algorithm: algorithm.into(),
            ranks: if all { Vec::new() } else { ranks.clone() },
            octets: group.octets,
            channels: group.channels.map(|it| it.clamp(1, CHANNELS_MAX)),
            ..proto::CollectiveGroup::default()
        }
    }

    /// A flow for each two NICs of different hosts.
    fn flows(&self, ports: &[&str], notes: &mut Notes) -> Vec<proto::JobFlow> {
        let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        let mut local = 0;
        for ((from, to), octets) in &self.sends {
            if self.host(*from) == self.host(*to) {
                local += 1;
                continue;
            }
            let ends = ports.get(*from as usize).zip(ports.get(*to as usize));
            if let Some((from, to)) = ends.filter(|_| *octets > 0) {
                add(sums.entry((from, to)).or_default(), *octets);
            }
        }
        if local > 0 {
            notes.say(format!("sends within a host, left out: {local}"));
        }
        let flow = |((from, to), octets)| proto::JobFlow {
            source: Some(nics::nic(from)),
            destination: Some(nics::nic(to)),
            octets,
            ..proto::JobFlow::default()
        };
        sums.into_iter().map(flow).collect()
    }
}

/// The name of a group, as a replica takes it, that no other group of the job has.
fn unique(name: &str, collective: Collective, taken: &mut BTreeSet<String>) -> String {
    let word = crate::words::word(collective.as_str_name(), "COLLECTIVE_");
    let mut text = String::new();
    for letter in name.chars() {
        let letter = match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' => letter,
            _ => '-',
        };
        if letter != '-' || !(text.is_empty() || text.ends_with('-')) {
            text.push(letter);
        }
    }
    let mut count = 1_usize;
    loop {
        let end = match count {
            1 => word.clone(),
            _ => format!("{word}-{count}"),
        };
        let room = NAME_OCTETS_MAX - end.len() - 1;
        let start = text.get(..room).unwrap_or(&text).trim_end_matches('-');
        let name = match start {
            "" => end,
            _ => format!("{start}-{end}"),
        };
        if taken.insert(name.clone()) {
            return name;
        }
        count += 1;
    }
}

/// As many octets as a replica takes of a name.
const NAME_OCTETS_MAX: usize = 63;
/// As many channels as a replica takes.
const CHANNELS_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_such_as_a_replica_takes() {
        let mut taken = BTreeSet::new();
        let long = "x".repeat(80);
        for (name, expected) in [
            ("0x7f8c", "0x7f8c-all-reduce"),
            ("DP Group 0", "DP-Group-0-all-reduce"),
            ("DP--Group: 0", "DP-Group-0-all-reduce-2"),
            ("DP Group 0", "DP-Group-0-all-reduce-3"),
            ("", "all-reduce"),
            ("-", "all-reduce-2"),
            ("Größe", "Gr-e-all-reduce"),
            (&long, &format!("{}-all-reduce", "x".repeat(52))),
        ] {
            let made = unique(name, Collective::AllReduce, &mut taken);
            assert_eq!(made, expected, "{name}");
            assert!(made.len() <= NAME_OCTETS_MAX, "{made}");
        }
    }
}
