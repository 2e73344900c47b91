//! Three weftd of this build and a weft-agent, and figures of their processes: memory, terms, refusals, lines of the log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use weft_proto::v1::plan_service_client::PlanServiceClient;
use weft_proto::v1::{self as proto};

use crate::caller;
use crate::network::{At, Door, Family, Sources};

/// The replicas and the agent of one row of the table.
pub(crate) struct Group {
    family: Family,
    pub(crate) replicas: Vec<Process>,
    pub(crate) agent: Process,
    _folder: tempfile::TempDir,
}

/// One program that is attacked.
pub(crate) struct Process {
    child: Child,
    argv: Vec<String>,
    log: PathBuf,
}

impl Group {
    /// Starts them, and waits for a leader that all replicas know. Returns its number beside them.
    pub(crate) async fn start(family: Family) -> (Self, At) {
        let folder = tempfile::tempdir().unwrap();
        let weftd = env!("CARGO_BIN_EXE_weftd");
        let replica = |number: u8| {
            let file = folder.path().join(format!("weft{number}.toml"));
            std::fs::write(
                &file,
                config(
                    At {
                        replica: number,
                        family,
                    },
                    folder.path(),
                ),
            )
            .unwrap();
            let argv = [weftd, "--config", file.to_str().unwrap()].map(str::to_owned);
            Process::start(argv.into(), file.with_extension("log"))
        };
        let replicas: Vec<_> = (1..=3).map(replica).collect();
        let agent = Path::new(weftd).with_file_name("weft-agent");
        let any = At { replica: 1, family };
        let listen = any.door(Door::Agent).to_string();
        let argv = [
            agent.to_str().unwrap(),
            "--listen",
            &listen,
            "--controller",
            "10.99.0.0/16",
            "--prefix",
            "198.18.0.0/15",
        ];
        let agent = Process::start(
            argv.map(str::to_owned).into(),
            folder.path().join("agent.log"),
        );
        let mut group = Self {
            family,
            replicas,
            agent,
            _folder: folder,
        };
        let leader = group.leader().await;
        (group, leader)
    }

    /// The leader, once all replicas name the same one.
    async fn leader(&mut self) -> At {
        let late = Instant::now() + STARTING;
        loop {
            let mut named = Vec::new();
            for at in self.all() {
                named.push(caller::leader(at).await);
            }
            if let [Ok(leader), second, third] = &named[..]
                && (second.as_ref(), third.as_ref()) == (Ok(leader), Ok(leader))
            {
                return At {
                    replica: u8::try_from(*leader).unwrap(),
                    family: self.family,
                };
            }
            let running = self.replicas.iter_mut().all(Process::runs);
            assert!(
                running && Instant::now() < late,
                "no leader: {named:?}; {}",
                self.replicas[0].said()
            );
            sleep(AGAIN).await;
        }
    }

    /// Declares a leaf for each source, whose agent is there, and has weft balance them.
    pub(crate) async fn declare(&self, at: At, sources: Sources) {
        caller::apply(at, fabric(sources)).await.unwrap();
        let request = proto::SetBalanceRequest {
            all_leaves: true,
            mode: proto::BalanceMode::On.into(),
            ..proto::SetBalanceRequest::default()
        };
        let mut client = PlanServiceClient::new(caller::channel(at));
        client.set_balance(request).await.unwrap();
    }

    /// Each replica.
    fn all(&self) -> impl Iterator<Item = At> + use<> {
        let family = self.family;
        (1..=3).map(move |replica| At { replica, family })
    }

    /// The highest Raft term that a replica knows.
    pub(crate) async fn term(&self) -> u64 {
        let mut terms = Vec::new();
        for at in self.all() {
            terms.push(
                metrics(at)
                    .await
                    .get("weft_raft_term")
                    .copied()
                    .unwrap_or(0),
            );
        }
        terms.into_iter().max().unwrap_or(0)
    }
}

/// A leaf for each source, and a spine.
fn fabric(sources: Sources) -> proto::ApplyFabricRequest {
    let switch = |name: &str, role: proto::SwitchRole| proto::Switch {
        name: name.to_owned(),
        role: role.into(),
        ..proto::Switch::default()
    };
    let end = |switch_name: &str, port: usize| {
        Some(proto::LinkEnd {
            switch_name: switch_name.to_owned(),
            interface_name: format!("eth{port}"),
            ..proto::LinkEnd::default()
        })
    };
    let mut fabric = proto::ApplyFabricRequest {
        display_name: "doors".to_owned(),
        switches: vec![switch("spine1", proto::SwitchRole::Spine)],
        ..proto::ApplyFabricRequest::default()
    };
    for (source, number) in sources.addresses().into_iter().zip(1..) {
        let name = format!("leaf{number}");
        fabric.switches.push(proto::Switch {
            vtep_address: format!("198.18.0.{number}"),
            agent_address: std::net::SocketAddr::from((source, 9340)).to_string(),
            ..switch(&name, proto::SwitchRole::Leaf)
        });
        fabric.links.push(proto::Link {
            a: end(&name, 1),
            b: end("spine1", number),
            capacity_bps: 100_000_000_000,
            ..proto::Link::default()
        });
    }
    fabric
}

/// Series of the metrics page of a replica; none if it does not answer.
pub(crate) async fn metrics(at: At) -> BTreeMap<String, u64> {
    let page = caller::scrape(at).await.unwrap_or_default();
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let series = lines.filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse::<f64>().ok()? as u64))
    });
    series.collect()
}

/// Sum of all counters of refusals, and of calls that found no place.
pub(crate) fn refused(metrics: &BTreeMap<String, u64>) -> u64 {
    let counts = metrics.iter().filter(|(series, _)| {
        let name = series.split('{').next().unwrap_or_default();
        let is_refusal = name.ends_with("_total") && name.contains("refused");
        let found_no_place =
            name == "weft_api_requests_total" && series.contains("code=\"ResourceExhausted\"");
        is_refusal || found_no_place
    });
    counts.map(|(_, count)| count).sum()
}

impl Process {
    fn start(argv: Vec<String>, log: PathBuf) -> Self {
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let child = Command::new(&argv[0])
            .args(&argv[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::from(file.try_clone().unwrap()))
            .stderr(Stdio::from(file))
            .spawn();
        Self {
            child: child.unwrap_or_else(|error| panic!("{}: {error}", argv[0])),
            argv,
            log,
        }
    }

    /// Starts it again.
    pub(crate) fn restart(&mut self) {
        self.kill();
        *self = Self::start(
            std::mem::take(&mut self.argv),
            std::mem::take(&mut self.log),
        );
    }

    /// Returns true if it has not ended.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Octets of its log so far.
    pub(crate) fn logged(&self) -> u64 {
        std::fs::metadata(&self.log).map_or(0, |it| it.len())
    }

    /// Lines of its log after the first `from` octets: how many, and how many of them a switch forged.
    pub(crate) fn lines(&self, from: u64) -> (u64, u64) {
        let Ok(mut file) = File::open(&self.log) else {
            return (0, 0);
        };
        file.seek(SeekFrom::Start(from)).unwrap();
        let mut counted = (0, 0);
        for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
            counted.0 += 1;
            counted.1 += u64::from(line.starts_with(FORGED.as_bytes()));
        }
        counted
    }

    /// The last lines of its log.
    pub(crate) fn said(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn kill(&mut self) {
        let _gone = self.child.kill();
        let _waited = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Resident memory of a process, in MiB; 0 if it has ended.
pub(crate) fn resident_mib(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// Attackers are in a listen range: they may open sessions.
fn config(at: At, folder: &Path) -> String {
    let number = at.replica;
    let [v4, v6] = [Family::V4, Family::V6].map(|family| At { family, ..at });
    let replica = |id: u8| {
        let raft = At { replica: id, ..at }.door(Door::Raft);
        format!("[[replicas]]\nid = {id}\naddress = \"{raft}\"\n")
    };
    let replicas: String = (1..=3).map(replica).collect();
    let data = folder.join(format!("weft{number}"));
    let [bgp, bgp_v6] = [v4, v6].map(|at| at.door(Door::Bgp));
    let [api, metrics] = [Door::Api, Door::Metrics].map(|door| at.door(door));
    let range = |prefix: &str| {
        format!("[[bgp.listen_range]]\nprefix = \"{prefix}\"\npeer_group = \"leaves\"\n")
    };
    let ranges = ["10.99.3.0/24", "10.98.0.0/16", "fd98::/16"].map(range);
    let ranges = ranges.concat();
    format!(
        "[replica]\nid = {number}\ndata_dir = {data:?}\n{replicas}\
         [bgp]\nasn = 64496\nrouter_id = \"10.99.1.{number}\"\ncluster_id = \"10.99.1.1\"\nlisten = [\"{bgp}\", \"{bgp_v6}\"]\n\
         [[bgp.peer_group]]\nname = \"leaves\"\nroute_reflector_client = true\n{ranges}\
         [api]\nlisten = \"{api}\"\ninsecure = true\n[metrics]\nlisten = \"{metrics}\"\n"
    )
}

/// Begin of a line that an error text of a switch would add to the log.
pub(crate) const FORGED: &str = "FORGED";
const STARTING: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(50);
