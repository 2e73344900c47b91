//! What NCCL Inspector writes, the profiler plugin that comes with NCCL since 2.28: a JSON object on each line, a file for each process.
//! Versions 4.0 to 4.2 of its format have `header` (communicator, rank) and `metadata` (host, process) in each record; since 4.3 they
//! stand once before the records of a dump, in its `dump_stats`.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use serde::de::IgnoredAny;
use weft_proto::v1::{self as proto, Collective, CollectiveAlgorithm};

use super::{Kind, Notes, RANKS_MAX, Wanted, add, fault, files, json_fault, open, refuse};
use crate::dialog::Dialog;
use crate::failure::Failure;

mod communicators;

/// Which files, and how octets are counted.
#[derive(Args)]
pub(crate) struct Source {
    /// Files of NCCL Inspector, or directories of them, of every rank (NCCL_INSPECTOR_DUMP_DIR).
    #[arg(required = true, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Octets of a group are those of the largest call; without it, of all calls together.
    #[arg(long)]
    largest: bool,
    #[command(flatten)]
    wanted: Wanted,
}

/// A line. What else it has says nothing of octets.
#[derive(Deserialize)]
struct Line {
    header: Option<Header>,
    metadata: Option<Metadata>,
    coll_perf: Option<Call>,
    p2p_perf: Option<Send>,
    dump_stats: Option<DumpStats>,
    proxy_trace: Option<IgnoredAny>,
}

#[derive(Clone, Deserialize)]
struct Header {
    id: String,
    #[serde(default)]
    comm_name: String,
    rank: u32,
    n_ranks: u32,
}

#[derive(Clone, Deserialize)]
struct Metadata {
    hostname: String,
    pid: u64,
}

#[derive(Deserialize)]
struct Call {
    coll: String,
    #[serde(default)]
    coll_algo: String,
    coll_msg_size_bytes: u64,
    event_trace_sn: Option<EventTrace>,
}

/// There with NCCL_INSPECTOR_DUMP_VERBOSE alone.
#[derive(Deserialize)]
struct EventTrace {
    #[serde(default)]
    kernel_events: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct Send {
    p2p: String,
    p2p_peer: u32,
    p2p_msg_size_bytes: u64,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct DumpStats {
    coll_records: u64,
    coll_dropped_since_last_dump: u64,
    p2p_records: u64,
    p2p_dropped_since_last_dump: u64,
    proxy_records: u64,
}

/// Everything that the files say.
#[derive(Default)]
struct Found {
    communicators: BTreeMap<String, Communicator>,
    /// Processes by host and number.
    processes: BTreeMap<(String, u64), u32>,
    /// Records that the plugin lost.
    dropped: u64,
    /// Collectives that weft has no word for, with their calls.
    unknown: BTreeMap<String, u64>,
    /// Files that end within a record.
    cut: Vec<String>,
}

/// Ranks that do something together.
#[derive(Default)]
struct Communicator {
    name: String,
    n_ranks: u32,
    /// The process of each rank.
    members: BTreeMap<u32, u32>,
    /// A rank was at two processes.
    conflict: bool,
    /// By collective and rank.
    calls: BTreeMap<(i32, u32), Calls>,
    /// What one rank said that it sent to another, and what that one said that it took.
    sends: BTreeMap<(u32, u32), (Calls, Calls)>,
}

/// Calls of one kind by one rank.
#[derive(Clone, Default)]
struct Calls {
    sum: u64,
    largest: u64,
    channels: u32,
    /// Octets by algorithm.
    algorithms: BTreeMap<i32, u64>,
}

/// Header and metadata of the records that come next.
#[derive(Default)]
struct Context {
    known: Option<(Header, Metadata)>,
    /// How many of them; None: each record says whose it is.
    left: Option<u64>,
}

impl Source {
    /// Reads the files, and gives ranks their NICs.
    pub(super) async fn job(
        self,
        dialog: &Dialog<'_>,
        notes: &mut Notes,
    ) -> Result<(Wanted, proto::Job), Failure> {
        let mut found = Found::default();
        for file in files(&self.file)? {
            found.read(open(&file)?, &file)?;
        }
        let ranks = found.ranks(self.largest, notes)?;
        let job = ranks.job(&self.wanted.nics(dialog).await?, notes)?;
        Ok((self.wanted, job))
    }
}

impl Found {
    /// Reads the file of one process.
    fn read(&mut self, mut input: impl BufRead, path: &Path) -> Result<(), Failure> {
        let (mut text, mut number) = (Vec::new(), 0_u64);
        let mut context = Context::default();
        loop {
            text.clear();
            let mut bounded = std::io::Read::take(&mut input, LINE_OCTETS_MAX);
            let read = bounded.read_until(b'\n', &mut text);
            let octets = read.map_err(|error| super::unreadable(path, &error))?;
            if octets == 0 {
                break;
            }
            number += 1;
            let whole = text.ends_with(b"\n");
            if !whole && octets as u64 == LINE_OCTETS_MAX {
                let reason = format!("a line of more than {LINE_OCTETS_MAX} octets");
                return Err(fault(path, &number.to_string(), &reason, Kind::Inspector));
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            let line = match serde_json::from_slice::<Line>(&text) {
                Ok(line) => line,
                // It was being written when its process ended.
                Err(error) if error.is_eof() && !whole && number > 1 => {
                    self.cut.push(path.display().to_string());
                    break;
                }
                Err(error) => {
                    let (place, reason) = json_fault(&error);
                    let column = place.split_once(':').map_or("1", |(_, it)| it);
                    let place = format!("{number}:{column}");
                    return Err(fault(path, &place, &reason, Kind::Inspector));
                }
            };
            self.line(line, &mut context)
                .map_err(|reason| fault(path, &number.to_string(), &reason, Kind::Inspector))?;
        }
        match number {
            0 => Err(refuse(path, "empty")),
            _ => Ok(()),
        }
    }

    fn line(&mut self, line: Line, context: &mut Context) -> Result<(), String> {
        let own = line.header.zip(line.metadata);
        if let Some(stats) = line.dump_stats {
            add(&mut self.dropped, stats.coll_dropped_since_last_dump);
            add(&mut self.dropped, stats.p2p_dropped_since_last_dump);
            let (header, metadata) = own.ok_or("dump_stats without header and metadata")?;
            self.member(&header, &metadata)?;
            let left = stats.coll_records.saturating_add(stats.p2p_records);
            context.left = Some(left.saturating_add(stats.proxy_records));
            context.known = Some((header, metadata));
            return Ok(());
        }
        if line.coll_perf.is_none() && line.p2p_perf.is_none() && line.proxy_trace.is_none() {
            return Err("none of coll_perf, p2p_perf, proxy_trace and dump_stats".to_owned());
        }
        let (header, metadata) = match own {
            Some(own) => own,
            None => context.next()?,
        };
        let communicator = self.member(&header, &metadata)?;
        if let Some(sent) = line.p2p_perf {
            communicator.send(header.rank, &sent)?;
        }
        if let Some(call) = line.coll_perf {
            match collective(&call.coll) {
                Some(collective) => communicator.call(header.rank, collective, &call),
                None => *self.unknown.entry(call.coll).or_default() += 1,
            }
        }
        Ok(())
    }

    /// The communicator that a record is of.
    fn member(
        &mut self,
        header: &Header,
        metadata: &Metadata,
    ) -> Result<&mut Communicator, String> {
        let Header { rank, n_ranks, .. } = *header;
        if rank >= n_ranks || n_ranks as usize > RANKS_MAX {
            return Err(format!("rank {rank} of {n_ranks} ranks"));
        }
        let count = self.processes.len() as u32;
        let process = (metadata.hostname.clone(), metadata.pid);
        let process = *self.processes.entry(process).or_insert(count);
        let communicator = self.communicators.entry(header.id.clone()).or_default();
        if communicator.n_ranks == 0 {
            communicator.n_ranks = n_ranks;
        }
        if communicator.name.is_empty() && header.comm_name != "unknown" {
            communicator.name.clone_from(&header.comm_name);
        }
        let before = *communicator.members.entry(rank).or_insert(process);
        communicator.conflict |= before != process || communicator.n_ranks != n_ranks;
        Ok(communicator)
    }
}

impl Context {
    /// Header and metadata of the next record, if it has none of its own.
    fn next(&mut self) -> Result<(Header, Metadata), String> {
        let left = self.left.as_mut().and_then(|left| {
            *left = left.checked_sub(1)?;
            Some(())
        });
        match (left, &self.known) {
            (Some(()), Some(known)) => Ok(known.clone()),
            (None, Some(_)) => Err("more records than dump_stats said".to_owned()),
            (_, None) => Err("a record without header, and no dump_stats before it".to_owned()),
        }
    }
}

impl Communicator {
    fn call(&mut self, rank: u32, collective: Collective, call: &Call) {
        let count = u64::from(self.n_ranks);
        // NCCL counts what a rank gives to each, or has from each, where nccl-tests counts the whole.
        let octets = match collective {
            Collective::AllReduce | Collective::Broadcast | Collective::Reduce => {
                call.coll_msg_size_bytes
            }
            _ => call.coll_msg_size_bytes.saturating_mul(count),
        };
        let key = (collective.into(), rank);
        let calls = self.calls.entry(key).or_default();
        calls.add(octets);
        let of_algorithm = calls.algorithms.entry(algorithm(&call.coll_algo).into());
        add(of_algorithm.or_default(), octets);
        let events = call.event_trace_sn.as_ref();
        let channels = events.map_or(0, |it| it.kernel_events.len() as u32);
        calls.channels = calls.channels.max(channels);
    }

    fn send(&mut self, rank: u32, sent: &Send) -> Result<(), String> {
        if sent.p2p_peer >= self.n_ranks {
            let (peer, ranks) = (sent.p2p_peer, self.n_ranks);
            return Err(format!("p2p_peer {peer} of {ranks} ranks"));
        }
        let octets = sent.p2p_msg_size_bytes;
        match sent.p2p.as_str() {
            "Send" => {
                let key = (rank, sent.p2p_peer);
                self.sends.entry(key).or_default().0.add(octets);
            }
            "Recv" => {
                let key = (sent.p2p_peer, rank);
                self.sends.entry(key).or_default().1.add(octets);
            }
            _ => {}
        }
        Ok(())
    }
}

impl Calls {
    fn add(&mut self, octets: u64) {
        add(&mut self.sum, octets);
        self.largest = self.largest.max(octets);
    }

    fn octets(&self, largest: bool) -> u64 {
        if largest { self.largest } else { self.sum }
    }

    /// The algorithm that moved the most octets.
    fn algorithm(&self) -> CollectiveAlgorithm {
        let most = self.algorithms.iter().max_by_key(|(_, octets)| **octets);
        let most = most.and_then(|(it, _)| CollectiveAlgorithm::try_from(*it).ok());
        most.unwrap_or_default()
    }
}

/// A collective by NCCL's name of it.
fn collective(name: &str) -> Option<Collective> {
    let name = name.to_ascii_lowercase();
    let known = COLLECTIVES.iter().find(|(it, _)| *it == name);
    known.map(|(_, collective)| *collective)
}

/// An algorithm by NCCL's name of it. Between hosts, NVLS-tree is a tree.
fn algorithm(name: &str) -> CollectiveAlgorithm {
    match name.to_ascii_uppercase().as_str() {
        "RING" => CollectiveAlgorithm::Ring,
        "TREE" | "NVLS_TREE" | "NVLSTREE" => CollectiveAlgorithm::DoubleTree,
        _ => CollectiveAlgorithm::Unspecified,
    }
}

/// Without upper case.
const COLLECTIVES: [(&str, Collective); 8] = [
    ("allreduce", Collective::AllReduce),
    ("allgather", Collective::AllGather),
    ("reducescatter", Collective::ReduceScatter),
    ("alltoall", Collective::AllToAll),
    ("broadcast", Collective::Broadcast),
    ("reduce", Collective::Reduce),
    ("gather", Collective::Gather),
    ("scatter", Collective::Scatter),
];
/// With the events of 64 channels a record has 10 kB.
const LINE_OCTETS_MAX: u64 = 1 << 20;
