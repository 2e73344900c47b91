//! Chakra execution traces (MLCommons), a file for each rank: what each node of type COMM_COLL_NODE, COMM_SEND_NODE and COMM_RECV_NODE
//! moves, by its attributes `comm_type`, `comm_size`, `pg_name`, `involved_dim`, `comm_src` and `comm_dst`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use weft_proto::v1::{self as proto, Collective, CollectiveAlgorithm};

use super::ranks::{Group, Ranks};
use super::{Kind, Notes, RANKS_MAX, Wanted, add, fault, files, json_fault, open, refuse};
use crate::dialog::Dialog;
use crate::failure::Failure;

use trace::Node;

mod trace;

/// Which files, and where their ranks are.
#[derive(Args)]
pub(crate) struct Source {
    /// Traces, or directories of them; the last number in the name of a file is its rank, as in train.7.et.
    #[arg(required = true, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Hosts of the ranks, in their order: each has as many as any other.
    #[arg(long, required = true, value_name = "NAME,...", value_delimiter = ',')]
    host: Vec<String>,
    /// JSON file with the ranks of each process group, {"0": [0, 1]}, as ASTRA-sim reads it; without it those whose traces name it.
    #[arg(long, value_name = "FILE")]
    comm_group: Option<PathBuf>,
    /// How many ranks there are along each dimension of involved_dim, that in which neighboring ranks differ first.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    dimensions: Vec<u32>,
    /// Octets of a group are those of the largest node; without it, of all nodes together.
    #[arg(long)]
    largest: bool,
    #[command(flatten)]
    wanted: Wanted,
}

/// Who takes part in a collective.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Every rank.
    All,
    /// The ranks of a process group.
    Group(String),
    /// These, which differ along some dimensions.
    Ranks(Vec<u32>),
}

/// Octets of nodes of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Octets {
    sum: u64,
    largest: u64,
}

/// Everything that the traces say.
#[derive(Default)]
struct Found {
    /// By ranks and collective: those of the rank with the most, and who names it.
    groups: BTreeMap<(Part, i32), (Octets, BTreeSet<u32>)>,
    /// What one rank says that it sends to another, and what that one says that it takes.
    sends: BTreeMap<(u32, u32), (Octets, Octets)>,
    /// Nodes that are left out, by reason.
    left: BTreeMap<&'static str, u64>,
}

/// What one trace says.
struct Rank<'a> {
    rank: u32,
    ranks: u32,
    dimensions: &'a [u32],
    groups: BTreeMap<(Part, i32), Octets>,
}

impl Source {
    /// Reads the traces, and gives ranks their NICs.
    pub(super) async fn job(
        self,
        dialog: &Dialog<'_>,
        notes: &mut Notes,
    ) -> Result<(Wanted, proto::Job), Failure> {
        let files = numbered(files(&self.file)?)?;
        let members = match &self.comm_group {
            Some(file) => read_members(file)?,
            None => BTreeMap::new(),
        };
        let of_groups = members.values().flatten();
        let last = files.keys().chain(of_groups).max();
        let ranks = last.map_or(0, |it| it.saturating_add(1));
        let hosts = self.hosts(ranks)?;
        let mut found = Found::default();
        for (rank, file) in &files {
            let rank = Rank {
                rank: *rank,
                ranks,
                dimensions: &self.dimensions,
                groups: BTreeMap::new(),
            };
            found.read(rank, file)?;
            dialog.progress.say(format!("{} read", file.display()));
        }
        let ranks = found.ranks(hosts, &members, self.largest, notes);
        let job = ranks.job(&self.wanted.nics(dialog).await?, notes)?;
        Ok((self.wanted, job))
    }

    /// The host of each rank.
    fn hosts(&self, ranks: u32) -> Result<Vec<String>, Failure> {
        let (count, ranks) = (self.host.len(), ranks as usize);
        let product = self.dimensions.iter().map(|it| *it as usize);
        let product = product.fold(1, usize::saturating_mul);
        let reason = match () {
            () if ranks > RANKS_MAX => format!("rank {}: at most {RANKS_MAX} ranks", ranks - 1),
            () if ranks % count != 0 => {
                format!("--host: {count} hosts for {ranks} ranks: each has as many as any other")
            }
            () if !self.dimensions.is_empty() && product != ranks => {
                format!("--dimensions: {product} ranks, and there are {ranks}")
            }
            () => {
                let of_host = ranks / count;
                let hosts = self.host.iter();
                let hosts = hosts.flat_map(|it| std::iter::repeat_n(it.clone(), of_host));
                return Ok(hosts.collect());
            }
        };
        Err(Failure::Refused(reason))
    }
}

impl Found {
    fn read(&mut self, mut rank: Rank<'_>, file: &Path) -> Result<(), Failure> {
        let mut node = |node: Node| {
            if let Err(reason) = rank.node(&node, self) {
                *self.left.entry(reason).or_default() += 1;
            }
        };
        trace::read(open(file)?, file, &mut node)?;
        for (key, octets) in rank.groups {
            let (most, ranks) = self.groups.entry(key).or_default();
            most.sum = most.sum.max(octets.sum);
            most.largest = most.largest.max(octets.largest);
            ranks.insert(rank.rank);
        }
        Ok(())
    }

    /// Puts all traces together.
    fn ranks(
        self,
        hosts: Vec<String>,
        members: &BTreeMap<String, Vec<u32>>,
        largest: bool,
        notes: &mut Notes,
    ) -> Ranks {
        for (reason, count) in &self.left {
            notes.say(format!("nodes {reason}, left out: {count}"));
        }
        let mut found = Ranks {
            hosts,
            ..Ranks::default()
        };
        let all = found.hosts.len() as u32;
        for ((part, collective), (octets, named)) in self.groups {
            let (name, ranks) = match part {
                Part::All => ("all".to_owned(), (0..all).collect()),
                Part::Group(name) => {
                    let ranks = members.get(&name).cloned();
                    let ranks = ranks.unwrap_or_else(|| named.into_iter().collect());
                    (format!("pg-{name}"), ranks)
                }
                Part::Ranks(ranks) => {
                    let first = ranks.first().copied().unwrap_or_default();
                    (format!("ranks-from-{first}"), ranks)
                }
            };
            let collective = Collective::try_from(collective).unwrap_or_default();
            // There what a rank gives is counted, here what one has of all.
            let times = match collective {
                Collective::AllGather | Collective::Gather => ranks.len() as u64,
                _ => 1,
            };
            found.groups.push(Group {
                name,
                collective,
                algorithm: CollectiveAlgorithm::Unspecified,
                ranks,
                octets: octets.of(largest).saturating_mul(times),
                channels: None,
            });
        }
        for (ends, (sent, taken)) in self.sends {
            let octets = sent.of(largest).max(taken.of(largest));
            found.sends.insert(ends, octets);
        }
        found
    }
}

impl Rank<'_> {
    /// Adds what a node moves, or says why it does not.
    fn node(&mut self, node: &Node, found: &mut Found) -> Result<(), &'static str> {
        let octets = node.comm_size.ok_or("without comm_size")?;
        match node.kind {
            trace::Type::Collective => {
                let collective = node.comm_type.ok_or("without comm_type")?;
                let collective = collective_of(collective).ok_or("that no octets go with")?;
                let part = self.part(node)?;
                let group = self.groups.entry((part, collective.into())).or_default();
                group.add(octets);
            }
            trace::Type::Send => {
                let to = node.comm_dst.ok_or("that do not say where they send to")?;
                let from = node.comm_src.unwrap_or_else(|| self.rank.into());
                let ends = (self.known(from)?, self.known(to)?);
                found.sends.entry(ends).or_default().0.add(octets);
            }
            trace::Type::Receive => {
                let from = node
                    .comm_src
                    .ok_or("that do not say whom they have it from")?;
                let to = node.comm_dst.unwrap_or_else(|| self.rank.into());
                let ends = (self.known(from)?, self.known(to)?);
                found.sends.entry(ends).or_default().1.add(octets);
            }
        }
        Ok(())
    }

    fn known(&self, rank: u64) -> Result<u32, &'static str> {
        let rank = u32::try_from(rank).ok().filter(|it| *it < self.ranks);
        rank.ok_or("with a rank that there is not")
    }

    /// Who takes part: a process group, the ranks along some dimensions, or all.
    fn part(&self, node: &Node) -> Result<Part, &'static str> {
        if let Some(name) = &node.group {
            return Ok(Part::Group(name.clone()));
        }
        let involved = &node.involved;
        if involved.iter().all(|it| *it) {
            return Ok(Part::All);
        }
        if involved.len() < self.dimensions.len() || self.dimensions.is_empty() {
            return Err("along some dimensions (--dimensions: how many ranks they have)");
        }
        let mut ranks = vec![0];
        let mut stride = 1;
        for (degree, involved) in self.dimensions.iter().zip(involved) {
            let own = self.rank / stride % degree;
            let places = match involved {
                true => 0..*degree,
                false => own..own + 1,
            };
            let places = places.map(|place| place * stride);
            let of_place = |place| ranks.iter().map(move |rank: &u32| rank + place);
            ranks = places.flat_map(of_place).collect();
            stride *= degree;
        }
        Ok(Part::Ranks(ranks))
    }
}

impl Octets {
    fn add(&mut self, octets: u64) {
        add(&mut self.sum, octets);
        self.largest = self.largest.max(octets);
    }

    fn of(self, largest: bool) -> u64 {
        if largest { self.largest } else { self.sum }
    }
}

/// The collective by its number in `CollectiveCommType`; 9 is a barrier.
fn collective_of(number: u64) -> Option<Collective> {
    Some(match number {
        0 => Collective::AllReduce,
        1 => Collective::Reduce,
        2 => Collective::AllGather,
        3 => Collective::Gather,
        4 => Collective::Scatter,
        5 => Collective::Broadcast,
        6 => Collective::AllToAll,
        7 | 8 => Collective::ReduceScatter,
        _ => return None,
    })
}

/// Files by the last number in their names.
fn numbered(files: Vec<PathBuf>) -> Result<BTreeMap<u32, PathBuf>, Failure> {
    let mut by_rank = BTreeMap::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let mut numbers = name.split(|it: char| !it.is_ascii_digit());
        let last = numbers.rfind(|it| !it.is_empty());
        let rank = last.and_then(|it| it.parse::<u32>().ok());
        let Some(rank) = rank else {
            return Err(refuse(&file, "no rank in the name, as in train.7.et"));
        };
        if let Some(other) = by_rank.insert(rank, file.clone()) {
            let reason = format!("rank {rank}, as {} is", other.display());
            return Err(refuse(&file, &reason));
        }
    }
    Ok(by_rank)
}

/// The ranks of each process group.
fn read_members(file: &Path) -> Result<BTreeMap<String, Vec<u32>>, Failure> {
    let mut input = serde_json::Deserializer::from_reader(open(file)?);
    let members = BTreeMap::<String, Vec<u32>>::deserialize(&mut input);
    let members = members.map_err(|error| {
        let (place, reason) = json_fault(&error);
        Failure::Refused(format!("{}:{place}: {reason}", file.display()))
    })?;
    for (name, ranks) in &members {
        let set: BTreeSet<&u32> = ranks.iter().collect();
        if set.len() < ranks.len() || ranks.is_empty() {
            let reason = format!("group {name:?}: no rank, or one twice");
            return Err(refuse(file, &reason));
        }
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_a_name_is_the_rank() {
        let ranks = |names: &[&str]| {
            let files = names.iter().map(PathBuf::from).collect();
            numbered(files).map(|it| it.into_keys().collect::<Vec<_>>())
        };
        assert_eq!(
            ranks(&["t1/train2.10.et", "t1/train2.9.et"]).unwrap(),
            [9, 10]
        );
        assert_eq!(ranks(&["rank3.json"]).unwrap(), [3]);
        let said = ranks(&["1/train.et"]).unwrap_err().to_string();
        assert_eq!(said, "1/train.et: no rank in the name, as in train.7.et");
        let said = ranks(&["a.1.et", "b.1.et"]).unwrap_err().to_string();
        assert_eq!(said, "b.1.et: rank 1, as a.1.et is");
    }

    #[test]
    fn dimensions_say_which_ranks_take_part() {
        let rank = Rank {
            rank: 5,
            ranks: 8,
            dimensions: &[2, 4],
            groups: BTreeMap::new(),
        };
        let part = |involved: &[bool]| {
            rank.part(&Node {
                involved: involved.to_vec(),
                ..Node::default()
            })
        };
        assert_eq!(part(&[]), Ok(Part::All));
        assert_eq!(part(&[true, true]), Ok(Part::All));
        assert_eq!(part(&[true, false]), Ok(Part::Ranks(vec![4, 5])));
        assert_eq!(part(&[false, true]), Ok(Part::Ranks(vec![1, 3, 5, 7])));
        assert_eq!(part(&[false, false]), Ok(Part::Ranks(vec![5])));
        assert!(part(&[false]).is_err());
    }
}
