//! Queue pairs, as `rdma -j resource show qp` of iproute2 prints them on each host: a list of objects with `ifname`, `lqpn`, `rqpn`,
//! `type`, `state` and `comm`. Nothing there says which host the other end is at: the numbers of both ends do, where only one queue
//! pair has them the other way around.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use weft_proto::v1 as proto;

use super::nics::{self, Nics};
use super::{Kind, Notes, Wanted, fault, json_fault, open, refuse};
use crate::dialog::Dialog;
use crate::failure::Failure;

/// Which files, and which NICs their devices are.
#[derive(Args)]
pub(crate) struct Source {
    /// A host, and the file with what `rdma -j resource show qp` printed there; one for each host.
    #[arg(long, value_name = "NAME=FILE", required = true, value_parser = read_host)]
    host: Vec<Dump>,
    /// The host port that a device of a host is behind; may be given several times.
    #[arg(long, value_name = "HOST:DEVICE=HOST_PORT", value_parser = read_nic)]
    nic: Vec<Named>,
    /// The rail that a device is on at every host; may be given several times. Without it and --nic, a host has one host port.
    #[arg(long, value_name = "DEVICE=RAIL", value_parser = read_device)]
    device: Vec<Railed>,
    /// If several queue pairs could be the other end, take that of the device with the same name.
    #[arg(long)]
    same_device: bool,
    /// Only queue pairs of programs with this name, as in python3.
    #[arg(long, value_name = "NAME")]
    comm: Option<String>,
    /// Octets of each flow.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    octets: u64,
    #[command(flatten)]
    wanted: Wanted,
}

/// `NAME=FILE`.
#[derive(Clone)]
struct Dump {
    host: String,
    file: PathBuf,
}

/// `HOST:DEVICE=HOST_PORT`.
#[derive(Clone)]
struct Named {
    host: String,
    device: String,
    host_port: String,
}

/// `DEVICE=RAIL`.
#[derive(Clone)]
struct Railed {
    device: String,
    rail: u32,
}

/// One queue pair as it is printed; one that is not connected has no `rqpn`.
#[derive(Deserialize)]
struct Printed {
    ifname: String,
    lqpn: u32,
    #[serde(default)]
    rqpn: Option<u32>,
    #[serde(rename = "type")]
    kind: String,
    state: String,
    #[serde(default)]
    comm: Option<String>,
}

/// A connected queue pair.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct QueuePair {
    /// Number of the host among those that are given.
    host: usize,
    device: String,
    local: u32,
    remote: u32,
}

/// A NIC of a host, by its device.
type Device = (usize, String);
/// The queue pairs that go from one device to another: numbers at both ends.
type Connections = BTreeMap<(Device, Device), Vec<(u32, u32)>>;

impl Source {
    /// Reads the files, and finds both ends of each queue pair.
    pub(super) async fn job(
        self,
        dialog: &Dialog<'_>,
        notes: &mut Notes,
    ) -> Result<(Wanted, proto::Job), Failure> {
        let names: BTreeSet<_> = self.host.iter().map(|it| it.host.as_str()).collect();
        if names.len() < self.host.len() {
            let reason = "--host: a host is named twice";
            return Err(Failure::Refused(reason.to_owned()));
        }
        let mut found = Vec::new();
        for (host, dump) in self.host.iter().enumerate() {
            let text = read(&dump.file)?;
            let printed = parse(&text, &dump.file)?;
            found.extend(connected(host, printed, self.comm.as_deref()));
        }
        let connections = self.matched(found, notes);
        let nics = self.nics(&connections, dialog, notes).await?;
        let flows = self.flows(connections, &nics, notes);
        let job = proto::Job {
            flows,
            ..proto::Job::default()
        };
        Ok((self.wanted, job))
    }

    /// Each connection in both directions; what is left alone is noted.
    fn matched(&self, found: Vec<QueuePair>, notes: &mut Notes) -> Connections {
        let (pairs, left) = matched(found, self.same_device);
        let name = |it: &QueuePair| {
            let host = &self.host[it.host].host;
            format!("{host} {} {} -> {}", it.device, it.local, it.remote)
        };
        let names = |left: &[QueuePair]| left.iter().map(name).collect::<Vec<_>>();
        let what = "queue pairs whose other end is at none of the hosts";
        notes.count(what, &names(&left.unmatched));
        let what = match self.same_device {
            true => "queue pairs whose other end could be one of several",
            false => {
                "queue pairs whose other end could be one of several (--same-device: that of the same device)"
            }
        };
        notes.count(what, &names(&left.ambiguous));
        let mut connections = Connections::new();
        for (a, b) in pairs {
            let numbers = (a.local, a.remote);
            let (a, b) = ((a.host, a.device), (b.host, b.device));
            let there = connections.entry((a.clone(), b.clone())).or_default();
            there.push(numbers);
            let back = connections.entry((b, a)).or_default();
            back.push((numbers.1, numbers.0));
        }
        connections
    }

    /// The host port of each device that sends or takes.
    async fn nics(
        &self,
        connections: &Connections,
        dialog: &Dialog<'_>,
        notes: &mut Notes,
    ) -> Result<BTreeMap<Device, String>, Failure> {
        let devices: BTreeSet<&Device> = connections.keys().map(|(from, _)| from).collect();
        let named = |(host, device): &Device| {
            let host = &self.host[*host].host;
            let nic = self.nic.iter();
            let mut nic = nic.filter(|it| it.host == *host && it.device == *device);
            nic.next().map(|it| it.host_port.clone())
        };
        let nics = match devices.iter().all(|it| named(it).is_some()) {
            true => Nics::default(),
            false => self.wanted.nics(dialog).await?,
        };
        let mut of_device = BTreeMap::new();
        for device in devices {
            let host = &self.host[device.0].host;
            let nic = match named(device) {
                Some(nic) => Ok(nic),
                None => self.looked_up(host, &device.1, &nics),
            };
            let nic = nic.map_err(|reason| {
                let device = &device.1;
                Failure::Refused(format!(
                    "device {device} of {host}: {reason}; --nic {host}:{device}=HOST_PORT or --device {device}=RAIL says which it is"
                ))
            })?;
            of_device.insert(device.clone(), nic);
        }
        let ports: BTreeSet<&str> = of_device.values().map(String::as_str).collect();
        let what =
            "host ports without udp_port_formula, so that the queue pairs there are of no use";
        notes.count(what, &nics.without_formula(ports));
        Ok(of_device)
    }

    fn looked_up(&self, host: &str, device: &str, nics: &Nics) -> Result<String, String> {
        let rail = self.device.iter().find(|it| it.device == device);
        let nic = match rail {
            Some(it) => nics.of_rail(host, it.rail),
            None => nics.only(host),
        };
        nic.map(str::to_owned)
    }

    /// A flow for each two NICs and direction.
    fn flows(
        &self,
        connections: Connections,
        nics: &BTreeMap<Device, String>,
        notes: &mut Notes,
    ) -> Vec<proto::JobFlow> {
        let mut by_nics: BTreeMap<(&str, &str), Vec<(u32, u32)>> = BTreeMap::new();
        for ((from, to), numbers) in connections {
            let ends = (nics[&from].as_str(), nics[&to].as_str());
            by_nics.entry(ends).or_default().extend(numbers);
        }
        let (mut flows, mut long) = (Vec::new(), Vec::new());
        for ((from, to), mut numbers) in by_nics {
            numbers.sort_unstable();
            if numbers.len() > PAIRS_MAX {
                long.push(format!("{from} {to} ({})", numbers.len()));
                numbers.truncate(PAIRS_MAX);
            }
            let pair = |(source_number, destination_number)| proto::QueuePair {
                source_number,
                destination_number,
                ..proto::QueuePair::default()
            };
            flows.push(proto::JobFlow {
                source: Some(nics::nic(from)),
                destination: Some(nics::nic(to)),
                octets: self.octets,
                pairs: numbers.into_iter().map(pair).collect(),
                ..proto::JobFlow::default()
            });
        }
        let what =
            format!("flows with more than {PAIRS_MAX} queue pairs, of which the first are there");
        notes.count(&what, &long);
        flows
    }
}

/// What has no other end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    /// No queue pair of another host has the numbers the other way around.
    unmatched: Vec<QueuePair>,
    /// Several have.
    ambiguous: Vec<QueuePair>,
}

/// Finds the other end of each queue pair: the only one of another host with its numbers the other way around, whose only one it is.
fn matched(found: Vec<QueuePair>, same_device: bool) -> (Vec<(QueuePair, QueuePair)>, Left) {
    let found: BTreeSet<QueuePair> = found.into_iter().collect();
    let mut by_numbers: BTreeMap<(u32, u32), Vec<&QueuePair>> = BTreeMap::new();
    for it in &found {
        let numbers = (it.local, it.remote);
        by_numbers.entry(numbers).or_default().push(it);
    }
    let ends = |it: &QueuePair| -> Vec<&QueuePair> {
        let there = by_numbers.get(&(it.remote, it.local)).into_iter().flatten();
        let elsewhere: Vec<&QueuePair> = there.filter(|end| end.host != it.host).copied().collect();
        let same = elsewhere.iter().filter(|end| end.device == it.device);
        let same: Vec<&QueuePair> = same.copied().collect();
        match same_device && !same.is_empty() {
            true => same,
            false => elsewhere,
        }
    };
    let (mut pairs, mut left) = (Vec::new(), Left::default());
    for it in &found {
        match ends(it).as_slice() {
            [] => left.unmatched.push(it.clone()),
            [end] if ends(end) == [it] => {
                if it < end {
                    pairs.push((it.clone(), (*end).clone()));
                }
            }
            _ => left.ambiguous.push(it.clone()),
        }
    }
    (pairs, left)
}

/// Reliable connections that send.
fn connected(host: usize, printed: Vec<Printed>, comm: Option<&str>) -> Vec<QueuePair> {
    let printed = printed.into_iter();
    let sends = printed.filter(|it| it.kind == "RC" && it.state == "RTS");
    let wanted = sends.filter(|it| comm.is_none_or(|comm| it.comm.as_deref() == Some(comm)));
    let pair = |it: Printed| {
        let remote = it.rqpn?;
        Some(QueuePair {
            host,
            device: it.ifname,
            local: it.lqpn,
            remote,
        })
    };
    wanted.filter_map(pair).collect()
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let input = open(file)?;
    let read = input.take(FILE_OCTETS_MAX + 1).read_to_end(&mut text);
    read.map_err(|error| super::unreadable(file, &error))?;
    match text.len() as u64 > FILE_OCTETS_MAX {
        true => Err(refuse(file, &format!("more than {FILE_OCTETS_MAX} octets"))),
        false => Ok(text),
    }
}

/// Reads what is printed; a number that no queue pair has is a fault.
fn parse(text: &[u8], file: &Path) -> Result<Vec<Printed>, Failure> {
    let printed: Vec<Printed> = serde_json::from_slice(text).map_err(|error| {
        let (place, reason) = json_fault(&error);
        fault(file, &place, &reason, Kind::Rdma)
    })?;
    let is_number = |it: u32| it <= NUMBER_MAX;
    let bad = printed
        .iter()
        .position(|it| !is_number(it.lqpn) || !it.rqpn.is_none_or(is_number));
    match bad {
        Some(at) => {
            let Printed { lqpn, rqpn, .. } = &printed[at];
            let numbers = format!("lqpn {lqpn}, rqpn {}", rqpn.unwrap_or_default());
            let reason = format!("entry {at}: {numbers}: a number is at most {NUMBER_MAX}");
            Err(refuse(file, &reason))
        }
        None => Ok(printed),
    }
}

fn read_host(text: &str) -> Result<Dump, String> {
    let parts = text.split_once('=');
    match parts {
        Some((host, file)) if !host.is_empty() && !file.is_empty() => Ok(Dump {
            host: host.to_owned(),
            file: file.into(),
        }),
        _ => Err("NAME=FILE is needed, as in h1=h1.json".to_owned()),
    }
}

fn read_nic(text: &str) -> Result<Named, String> {
    let (left, host_port) = text.split_once('=').unwrap_or_default();
    let (host, device) = left.split_once(':').unwrap_or_default();
    if [host, device, host_port].iter().any(|it| it.is_empty()) {
        return Err("HOST:DEVICE=HOST_PORT is needed, as in h1:mlx5_0=leaf1:eth3".to_owned());
    }
    Ok(Named {
        host: host.to_owned(),
        device: device.to_owned(),
        host_port: host_port.to_owned(),
    })
}

fn read_device(text: &str) -> Result<Railed, String> {
    let (device, rail) = text.split_once('=').unwrap_or_default();
    match rail.parse() {
        Ok(rail) if !device.is_empty() => Ok(Railed {
            device: device.to_owned(),
            rail,
        }),
        _ => Err("DEVICE=RAIL is needed, as in mlx5_0=0".to_owned()),
    }
}

/// A queue pair has a number of 24 bits.
const NUMBER_MAX: u32 = 0xff_ffff;
/// As many queue pairs as a replica takes of a flow.
const PAIRS_MAX: usize = 128;
/// A host with 100,000 queue pairs prints 20 MB.
const FILE_OCTETS_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(host: usize, device: &str, local: u32, remote: u32) -> QueuePair {
        QueuePair {
            host,
            device: device.to_owned(),
            local,
            remote,
        }
    }

    /// Queue pairs as host, device, number and number of the other end; what is matched, and how many are unmatched and ambiguous.
    type Case<'a> = (
        &'a str,
        &'a [(usize, &'a str, u32, u32)],
        usize,
        usize,
        usize,
    );

    const CASES: &[Case<'_>] = &[
        ("two hosts", &[(0, "a", 7, 8), (1, "a", 8, 7)], 1, 0, 0),
        (
            "the same number at both",
            &[(0, "a", 7, 7), (1, "a", 7, 7)],
            1,
            0,
            0,
        ),
        (
            "printed twice",
            &[(0, "a", 7, 8), (0, "a", 7, 8), (1, "a", 8, 7)],
            1,
            0,
            0,
        ),
        (
            "an end is missing",
            &[(0, "a", 7, 8), (1, "a", 9, 7)],
            0,
            2,
            0,
        ),
        ("within a host", &[(0, "a", 7, 8), (0, "b", 8, 7)], 0, 2, 0),
        (
            "two ends fit",
            &[(0, "a", 7, 8), (1, "a", 8, 7), (2, "a", 8, 7)],
            0,
            0,
            3,
        ),
        (
            "rails with the same numbers",
            &[
                (0, "a", 7, 8),
                (0, "b", 7, 8),
                (1, "a", 8, 7),
                (1, "b", 8, 7),
            ],
            0,
            0,
            4,
        ),
        (
            "one certain, one not",
            &[
                (0, "a", 7, 8),
                (1, "a", 8, 7),
                (0, "a", 1, 2),
                (1, "a", 2, 1),
                (1, "b", 2, 1),
            ],
            1,
            0,
            3,
        ),
        ("none", &[], 0, 0, 0),
    ];

    #[test]
    fn the_other_end_is_the_only_one_with_the_numbers_the_other_way_around() {
        for (name, found, both, unmatched, ambiguous) in CASES {
            let found = found
                .iter()
                .map(|(host, device, local, remote)| pair(*host, device, *local, *remote));
            let (pairs, left) = matched(found.collect(), false);
            let counts = (pairs.len(), left.unmatched.len(), left.ambiguous.len());
            assert_eq!(counts, (*both, *unmatched, *ambiguous), "{name}");
        }
    }

    #[test]
    fn rails_with_the_same_numbers_are_told_apart_by_their_device() {
        let found = CASES
            .iter()
            .find(|it| it.0 == "rails with the same numbers");
        let found = found.unwrap().1.iter();
        let found = found.map(|(host, device, local, remote)| pair(*host, device, *local, *remote));
        let (pairs, left) = matched(found.collect(), true);
        assert_eq!(left, Left::default());
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(a, b)| (&*a.device, &*b.device))
            .collect();
        assert_eq!(pairs, [("a", "a"), ("b", "b")]);
        // Another device is an end as well, where none has the same name.
        let crossed = vec![pair(0, "a", 7, 8), pair(1, "b", 8, 7)];
        assert_eq!(matched(crossed, true).0.len(), 1);
    }

    #[test]
    fn only_connections_that_send_count() {
        let text = br#"[
            {"ifindex":0,"ifname":"rxe0","port":1,"lqpn":1,"type":"GSI","state":"RTS","sq-psn":0,"comm":"ib_core"},
            {"ifname":"rxe0","lqpn":17,"rqpn":18,"type":"RC","state":"RTS","comm":"python3","pid":7,"pdn":3},
            {"ifname":"rxe0","lqpn":19,"rqpn":20,"type":"RC","state":"RTR","comm":"python3"},
            {"ifname":"rxe0","lqpn":21,"type":"RC","state":"RTS","comm":"python3"},
            {"ifname":"rxe0","lqpn":23,"rqpn":24,"type":"RC","state":"RTS","comm":"nvme"},
            {"ifname":"rxe0","lqpn":25,"rqpn":26,"type":"UC","state":"RTS","comm":"python3"}]"#;
        let locals = |comm| -> Vec<u32> {
            let printed = parse(text, Path::new("h1.json")).unwrap();
            connected(0, printed, comm)
                .iter()
                .map(|it| it.local)
                .collect()
        };
        assert_eq!(locals(None), [17, 23]);
        assert_eq!(locals(Some("python3")), [17]);
    }

    #[test]
    fn arguments_have_their_form() {
        let named = read_nic("h1:mlx5_0=leaf1:eth3").unwrap();
        let parts = (&*named.host, &*named.device, &*named.host_port);
        assert_eq!(parts, ("h1", "mlx5_0", "leaf1:eth3"));
        let railed = read_device("mlx5_1=1").unwrap();
        assert_eq!((&*railed.device, railed.rail), ("mlx5_1", 1));
        let dump = read_host("h1=a=b.json").unwrap();
        assert_eq!((&*dump.host, dump.file), ("h1", PathBuf::from("a=b.json")));
        for text in ["", "=", "h1", "h1=", "=f"] {
            assert!(read_host(text).is_err(), "{text}");
        }
        for text in ["", "h1=leaf1:eth3", "h1:mlx5_0", ":d=p", "h:=p", "h:d="] {
            assert!(read_nic(text).is_err(), "{text}");
        }
        for text in ["", "mlx5_0", "=0", "mlx5_0=", "mlx5_0=-1", "mlx5_0=a"] {
            assert!(read_device(text).is_err(), "{text}");
        }
    }
}
