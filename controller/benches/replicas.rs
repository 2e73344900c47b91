//! Three weftd of this build, each with a directory of its own on this machine's disk.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use weft_proto::v1::GetFabricRequest;
use weft_proto::v1::fabric_service_client::FabricServiceClient;

/// A client of a replica.
pub(crate) type Client = FabricServiceClient<Channel>;

/// A replica.
pub(crate) struct Replica {
    child: Child,
    file: PathBuf,
    /// Port of its API.
    pub(crate) api: u16,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Replica {
    /// Three replicas on ports that were free a moment ago, and that the kernel gives to no connection: one that is started
    /// again finds its ports free.
    pub(crate) fn three(dir: &Path) -> Vec<Self> {
        let first = FIRST_PORT + u16::try_from(std::process::id() % 800).unwrap() * 20;
        let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
        let ports: Vec<_> = (first..LAST_PORT).filter(free).take(9).collect();
        let mut ports = ports.into_iter();
        let mut port = || ports.next().expect("nine ports of this machine are free");
        let raft: Vec<u16> = (0..3).map(|_| port()).collect();
        let members: String = (1..)
            .zip(&raft)
            .map(|(id, port)| format!("[[replicas]]\nid = {id}\naddress = \"127.0.0.1:{port}\"\n"))
            .collect();
        let mut replica = |id: usize| {
            let (api, bgp) = (port(), port());
            let data = dir.join(format!("weft{id}"));
            let text = format!(
                "[replica]\nid = {id}\ndata_dir = {data:?}\n{members}[bgp]\nasn = 64512\nrouter_id = \"192.0.2.{id}\"\n\
                 cluster_id = \"192.0.2.1\"\nlisten = [\"127.0.0.1:{bgp}\"]\n[api]\nlisten = \"127.0.0.1:{api}\"\n"
            );
            let file = dir.join(format!("weft{id}.toml"));
            std::fs::write(&file, text).unwrap();
            let child = run(&file);
            Self { child, file, api }
        };
        (1..=3).map(&mut replica).collect()
    }

    /// Waits until it answers. It ends the measurement, with its log, where it does not for a minute, or has ended itself.
    pub(crate) async fn answers(&mut self) -> Client {
        let late = Instant::now() + STARTING;
        loop {
            let mut client = Client::new(channel(self.api));
            let asked = timeout(PATIENCE, client.get_fabric(GetFabricRequest {})).await;
            if matches!(asked, Ok(Ok(_))) {
                return client;
            }
            let ended = self.child.try_wait().unwrap().is_some();
            assert!(
                !ended && Instant::now() < late,
                "no answer ({asked:?}): {}",
                self.said()
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether it has ended, and what it said last.
    pub(crate) fn said(&mut self) -> String {
        let log = std::fs::read_to_string(self.file.with_extension("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(40).collect();
        let lines: Vec<_> = lines.into_iter().rev().collect();
        let (name, ended) = (self.file.display(), self.child.try_wait());
        format!("{name} ({ended:?}):\n{}\n", lines.join("\n"))
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _gone = self.child.kill();
        let _waited = self.child.wait();
    }

    /// Starts it again.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.child = run(&self.file);
    }
}

fn run(file: &Path) -> Child {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(file.with_extension("log"))
        .unwrap();
    Command::new(env!("CARGO_BIN_EXE_weftd"))
        .arg("--config")
        .arg(file)
        .stdout(Stdio::from(log.try_clone().unwrap()))
        .stderr(Stdio::from(log))
        .spawn()
        .unwrap()
}

/// A connection to a replica, made when it is first used; it waits for an answer for some seconds.
pub(crate) fn channel(api: u16) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{api}")).unwrap();
    endpoint.connect_timeout(PATIENCE).connect_lazy()
}

/// The Raft id of the leader, once two replicas say the same.
pub(crate) async fn leader(ports: &[u16]) -> Option<u64> {
    let late = Instant::now() + ELECTION;
    while Instant::now() < late {
        let mut named = BTreeMap::<u64, usize>::new();
        for port in ports {
            let mut client = Client::new(channel(*port));
            let asked = timeout(PATIENCE, client.get_fabric(GetFabricRequest {})).await;
            let header = asked.ok().and_then(Result::ok);
            let header = header.and_then(|answer| answer.into_inner().header);
            if let Some(leader) = header.and_then(|header| header.leader_id) {
                *named.entry(leader).or_default() += 1;
            }
        }
        if let Some((leader, _)) = named.into_iter().find(|(_, times)| *times >= 2) {
            return Some(leader);
        }
        sleep(AGAIN).await;
    }
    None
}

const PATIENCE: Duration = Duration::from_secs(2);
/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(20);
/// Until replicas agree on a leader.
const ELECTION: Duration = Duration::from_secs(60);
/// Until a replica answers after its start.
const STARTING: Duration = Duration::from_secs(60);
/// Below what the kernel takes for the near ends of connections (32768 and above).
const FIRST_PORT: u16 = 12_000;
const LAST_PORT: u16 = 32_000;
