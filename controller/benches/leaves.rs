//! How long a link that goes down, a leader that is killed at that moment, and a job of 1,024 NICs take until the last leaf has
//! acknowledged what follows: three weftd of this build, and 64 agents, or as many as `--leaves` says, that ship, over
//! forwarding planes in memory and TCP of this machine. Every leaf has a link to each of 16 spines.
//!
//! A spine is drained then, and links go down while it is.
//!
//! A link goes down where its leaf sees it. What is measured ends with the last acknowledgement that the leader has; that it is
//! true is looked at in every forwarding plane.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails"
)]

mod agents;
mod replicas;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Server};
use weft_agent::forwarding::recorded::Recorded;
use weft_agent::{gribi, listener, status};
use weft_proto::v1::job_service_client::JobServiceClient;
use weft_proto::v1::plan_service_client::PlanServiceClient;
use weft_proto::v1::{self as proto};

use agents::{VNI, agent, uplinks};
use replicas::{Client, Replica, channel, leader};

#[tokio::main]
async fn main() {
    let _as_many_as_there_are = rlimit::increase_nofile_limit(u64::MAX);
    let leaves = number("--leaves", 64);
    let dir = tempfile::tempdir().unwrap();
    let mut replicas = Replica::three(dir.path());
    for replica in &mut replicas {
        replica.answers().await;
    }
    let mut fabric = Fabric::start(leaves, replicas).await;
    fabric.declare().await;
    let took = fabric.begin().await;
    say(&format!(
        "{leaves} leaves, {UPLINKS} spines: all on after {:.2} s",
        took.as_secs_f64()
    ));

    let mut links = Vec::new();
    let (mut begins, mut ends, mut leases) = (Vec::new(), Vec::new(), Vec::new());
    let (mut kills, mut drained) = (Vec::new(), Vec::new());
    let events = number("--events", 40).min(leaves * 3 / 8);
    let before = fabric.cpu();
    for leaf in 0..events {
        links.push(fabric.link_down(leaf).await);
    }
    report(leaves, "links that go down", links);
    let spent = fabric.cpu().zip(before);
    if let Some(([leader, agents], before)) = spent {
        let each = |spent: u64, before: u64| (spent - before) * 10 / u64::from(events.max(1));
        say(&format!(
            "{leaves} leaves, each such event with what goes on beside it: CPU of the leader {} ms, of all agents {} ms",
            each(leader, before[0]),
            each(agents, before[1])
        ));
    }
    for number in 0..JOBS {
        begins.push(fabric.job(number, None).await.0);
        ends.push(fabric.job_gone(number).await);
    }
    report(leaves, "jobs of 1,024 NICs, from the call", begins);
    report(leaves, "jobs deleted, from the call", ends);
    for number in 0..LEASES {
        leases.push(fabric.lease(number).await);
    }
    report(leaves, "leases over", leases);
    let after = events + number("--kills", 10).min(leaves / 2);
    for leaf in events..after {
        kills.push(fabric.leader_killed(leaf).await);
    }
    report(leaves, "links down as the leader is killed", kills);
    let set = vec![fabric.drain(Some(UPLINKS)).await];
    report(leaves, "a spine that is drained", set);
    let others = (after..leaves).filter(|leaf| uplink_of(*leaf) != UPLINKS);
    for leaf in others.take(number("--drained", 10).into()) {
        drained.push(fabric.link_down(leaf).await);
    }
    report(leaves, "links that go down while it is drained", drained);
    let set = vec![fabric.drain(None).await];
    report(leaves, "the spine back", set);
}

/// A fabric with its replicas and leaves.
struct Fabric {
    replicas: Vec<Replica>,
    /// Which of them leads.
    leads: usize,
    planes: Vec<Recorded>,
    /// Where the agents serve.
    addresses: Vec<String>,
    /// Spines that leaves have lost.
    dead: BTreeMap<u16, u8>,
    /// The spine that is drained.
    drained: Option<u8>,
}

impl Fabric {
    async fn start(leaves: u16, replicas: Vec<Replica>) -> Self {
        let mut fabric = Self {
            replicas,
            leads: 0,
            planes: Vec::new(),
            addresses: Vec::new(),
            dead: BTreeMap::new(),
            drained: None,
        };
        for leaf in 0..leaves {
            let (plane, commands) = agent(uplinks(UPLINKS, &|uplink| end(leaf, uplink, 0))).await;
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            fabric
                .addresses
                .push(listener.local_addr().unwrap().to_string());
            fabric.planes.push(plane);
            let allowed = vec!["127.0.0.0/8".parse().unwrap()];
            let server = Server::builder()
                .add_service(gribi::service(commands.clone()))
                .add_service(status::service(commands.clone()))
                .serve_with_incoming(listener::connections(listener, allowed, commands));
            tokio::spawn(server);
        }
        fabric.find_leader(&[]).await;
        fabric
    }

    /// Looks who leads; not one of these.
    async fn find_leader(&mut self, gone: &[usize]) {
        let alive = self.replicas.iter().enumerate();
        let alive = alive.filter(|(at, _)| !gone.contains(at));
        let ports: Vec<u16> = alive.map(|(_, replica)| replica.api).collect();
        let late = Instant::now() + PATIENCE;
        loop {
            let leads = leader(&ports).await.expect("somebody leads");
            self.leads = usize::try_from(leads - 1).unwrap();
            if !gone.contains(&self.leads) {
                return;
            }
            assert!(Instant::now() < late, "a dead replica leads");
        }
    }

    fn channel(&self) -> Channel {
        channel(self.replicas[self.leads].api)
    }

    /// What the leader, and this process with all agents, have run on CPUs, in hundredths of a second; None: there is no /proc.
    fn cpu(&self) -> Option<[u64; 2]> {
        let of = |id: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            // Behind the name, which may hold anything: proc(5), fields 14 and 15.
            let (_, fields) = stat.rsplit_once(')')?;
            let mut times = fields.split_whitespace().skip(11);
            let mut time = || times.next()?.parse::<u64>().ok();
            Some(time()? + time()?)
        };
        Some([of(self.replicas[self.leads].id())?, of(std::process::id())?])
    }

    async fn declare(&self) {
        let leaves = u16::try_from(self.planes.len()).unwrap();
        let numbered = (0..leaves).zip(&self.addresses);
        let leaf = numbered.map(|(leaf, address)| proto::Switch {
            name: format!("leaf{leaf}"),
            role: proto::SwitchRole::Leaf.into(),
            vtep_address: vtep(leaf).to_string(),
            agent_address: address.clone(),
            ..proto::Switch::default()
        });
        let spine = (1..=UPLINKS).map(|spine| proto::Switch {
            name: format!("spine{spine}"),
            role: proto::SwitchRole::Spine.into(),
            ..proto::Switch::default()
        });
        let links = (0..leaves).flat_map(|leaf| (1..=UPLINKS).map(move |spine| link(leaf, spine)));
        let links: Vec<_> = links.collect();
        let host = |number: u16| proto::Host {
            name: format!("host{number}"),
            ..proto::Host::default()
        };
        let port = |number: u16| proto::HostPort {
            switch_name: format!("leaf{}", number % leaves),
            interface_name: format!("nic{}", number / leaves),
            host_name: format!("host{number}"),
            vni: Some(VNI),
            capacity_bps: Some(CAPACITY),
            addresses: vec![nic(number).to_string()],
            ..proto::HostPort::default()
        };
        let mut parts = vec![proto::ApplyFabricRequest {
            display_name: "leaves".to_owned(),
            switches: leaf.chain(spine).collect(),
            hosts: (0..NICS).map(host).collect(),
            ..proto::ApplyFabricRequest::default()
        }];
        parts.extend(links.chunks(PART).map(|part| proto::ApplyFabricRequest {
            links: part.to_vec(),
            ..proto::ApplyFabricRequest::default()
        }));
        parts.push(proto::ApplyFabricRequest {
            host_ports: (0..NICS).map(port).collect(),
            ..proto::ApplyFabricRequest::default()
        });
        let mut client = Client::new(self.channel());
        let answer = client.apply_fabric(tokio_stream::iter(parts)).await;
        let mut answer = answer.unwrap().into_inner();
        while answer.message().await.unwrap().is_some() {}
    }

    /// Every leaf gets its weights.
    async fn begin(&mut self) -> Duration {
        let begin = now();
        let mut plans = PlanServiceClient::new(self.channel());
        let request = proto::SetBalanceRequest {
            mode: proto::BalanceMode::On.into(),
            all_leaves: true,
            ..proto::SetBalanceRequest::default()
        };
        plans.set_balance(request).await.unwrap();
        self.until(begin, Self::right).await
    }

    /// A link of a leaf goes down.
    async fn link_down(&mut self, leaf: u16) -> Duration {
        let begin = now();
        self.lose(leaf);
        self.until(begin, Self::right).await
    }

    /// A spine is set down, or the one that was is up again.
    async fn drain(&mut self, spine: Option<u8>) -> Duration {
        let begin = now();
        let (name, state) = match (spine, self.drained) {
            (Some(spine), _) => (spine, proto::AdminState::Down),
            (None, was) => (was.unwrap(), proto::AdminState::Up),
        };
        let request = proto::UpdateSwitchRequest {
            resource: Some(proto::Switch {
                name: format!("spine{name}"),
                admin_state: state.into(),
                ..proto::Switch::default()
            }),
            update_mask: Some(prost_types::FieldMask {
                paths: vec!["admin_state".to_owned()],
            }),
            ..proto::UpdateSwitchRequest::default()
        };
        let mut client = Client::new(self.channel());
        client.update_switch(request).await.unwrap();
        self.drained = spine;
        self.until(begin, Self::right).await
    }

    fn lose(&mut self, leaf: u16) {
        let uplink = uplink_of(leaf);
        self.planes[usize::from(leaf)].turn(&format!("eth{uplink}"), false);
        self.dead.insert(leaf, uplink);
    }

    /// The leader is killed as a link goes down; it is back after that.
    async fn leader_killed(&mut self, leaf: u16) -> Duration {
        let old = self.leads;
        let begin = now();
        self.replicas[old].kill();
        self.lose(leaf);
        self.find_leader(&[old]).await;
        let took = self.until(begin, Self::right).await;
        self.replicas[old].restart();
        self.replicas[old].answers().await;
        took
    }

    /// A job of all NICs begins: how long until its pins were there, and when its lease ends.
    async fn job(&mut self, number: u32, ttl: Option<i64>) -> (Duration, Option<SystemTime>) {
        let mut jobs = JobServiceClient::new(self.channel());
        // Each NIC sends to one of another leaf, the next one or one further on.
        let stride = 1 + 2 * u16::try_from(number % 8).unwrap();
        let rank = |at: u16| proto::Nic {
            address: nic(at.wrapping_mul(stride) % NICS).to_string(),
            vni: Some(VNI),
            ..proto::Nic::default()
        };
        let group = proto::CollectiveGroup {
            name: "gradients".to_owned(),
            collective: proto::Collective::AllReduce.into(),
            octets: 1 << 30,
            ..proto::CollectiveGroup::default()
        };
        let job = proto::Job {
            name: format!("job{number}"),
            ttl: ttl.map(|seconds| prost_types::Duration { seconds, nanos: 0 }),
            ranks: (0..NICS).map(rank).collect(),
            groups: vec![group],
            ..proto::Job::default()
        };
        let request = proto::CreateJobRequest {
            resource: Some(job),
            ..proto::CreateJobRequest::default()
        };
        let begin = now();
        let created = jobs.create_job(request).await.unwrap().into_inner();
        let took = self.until(begin, Self::pinned).await;
        let ends = created.resource.and_then(|job| job.expire_time);
        (took, ends.map(|time| SystemTime::try_from(time).unwrap()))
    }

    async fn job_gone(&mut self, number: u32) -> Duration {
        let mut jobs = JobServiceClient::new(self.channel());
        let begin = now();
        let request = proto::DeleteJobRequest {
            name: format!("job{number}"),
            ..proto::DeleteJobRequest::default()
        };
        jobs.delete_job(request).await.unwrap();
        self.until(begin, Self::unpinned).await
    }

    /// A job of a few seconds that nobody renews: how long its pins outlive it.
    async fn lease(&mut self, number: u32) -> Duration {
        let (_, ends) = self.job(JOBS + number, Some(LEASE)).await;
        self.until(ends.unwrap(), Self::unpinned).await
    }

    /// Waits until every leaf has acknowledged everything, and it is so: from `begin` to the last acknowledgement.
    async fn until(&mut self, begin: SystemTime, is_so: fn(&Self) -> bool) -> Duration {
        let mut plans = PlanServiceClient::new(self.channel());
        let late = Instant::now() + PATIENCE;
        let mut before = begin;
        loop {
            sleep(BETWEEN).await;
            let asked = plans.list_switch_agents(proto::ListSwitchAgentsRequest::default());
            let agents = asked.await.map(|answer| answer.into_inner().switch_agents);
            let last = agents.as_ref().ok().and_then(|agents| last(agents));
            // It is the last one if no other follows it. An answer says how long ago it was: it is known to some microseconds.
            if let Some(last) = last.filter(|last| *last > begin) {
                let is_same = last < before + SAME;
                if is_same && is_so(self) {
                    return last.duration_since(begin).unwrap();
                }
                before = last;
            }
            assert!(
                Instant::now() < late,
                "no end: {:?}\n{}",
                agents.map(|agents| agents.into_iter().find(|it| !is_in_sync(it))),
                self.replicas[self.leads].said()
            );
        }
    }

    /// Whether every leaf sends to each other one over all spines that both have.
    fn right(&self) -> bool {
        let leaves = 0..u16::try_from(self.planes.len()).unwrap();
        let bit = |spine: u8| 1_u32 << spine;
        let up: u32 = (1..=UPLINKS).map(bit).sum();
        let lost = |leaf: u16| self.dead.get(&leaf).map_or(0, |spine| bit(*spine));
        let up = up & !self.drained.map_or(0, bit);
        let mut planes = leaves.clone().zip(&self.planes);
        planes.all(|(leaf, plane)| {
            let installed = plane.installed();
            let groups = installed.groups.iter().map(|(id, members)| {
                let over = members.iter().map(|member| {
                    let path = &installed.next_hops[&member.next_hop];
                    bit(u8::try_from(path.interface).unwrap())
                });
                (*id, over.fold(0, |all, one| all | one))
            });
            let groups: BTreeMap<u32, u32> = groups.collect();
            leaves.clone().filter(|other| *other != leaf).all(|other| {
                let group = installed.routes.get(&vtep(other).into());
                let over = group.and_then(|group| groups.get(group).copied());
                over.unwrap_or_default() == up & !lost(leaf) & !lost(other)
            })
        })
    }

    fn pinned(&self) -> bool {
        let mut planes = self.planes.iter();
        planes.all(|plane| !plane.installed().pin_routes.is_empty())
    }

    fn unpinned(&self) -> bool {
        let mut planes = self.planes.iter();
        planes.all(|plane| plane.installed().pin_routes.is_empty())
    }
}

/// The uplink that a leaf loses.
fn uplink_of(leaf: u16) -> u8 {
    1 + (leaf % u16::from(UPLINKS)) as u8
}

fn is_in_sync(agent: &proto::SwitchAgent) -> bool {
    agent.state() == proto::SwitchAgentState::InSync
        && agent.installed_plan_revision == Some(agent.intended_plan_revision)
}

/// When the last one acknowledged something, if all have everything.
fn last(agents: &[proto::SwitchAgent]) -> Option<SystemTime> {
    let times = agents.iter().filter_map(|it| it.last_acknowledgement_time);
    let times = times.map(|time| SystemTime::try_from(time).unwrap());
    times.max().filter(|_| agents.iter().all(is_in_sync))
}

fn link(leaf: u16, spine: u8) -> proto::Link {
    let end = |switch_name: String, interface_name: String, side: u16| {
        Some(proto::LinkEnd {
            switch_name,
            interface_name,
            address: end(leaf, spine, side).to_string(),
        })
    };
    proto::Link {
        a: end(format!("leaf{leaf}"), format!("eth{spine}"), 0),
        b: end(format!("spine{spine}"), format!("eth{leaf}"), 1),
        capacity_bps: CAPACITY,
        ..proto::Link::default()
    }
}

/// An end of a link: of the leaf (0) or the spine (1).
fn end(leaf: u16, spine: u8, side: u16) -> IpAddr {
    let number = (u32::from(leaf) * u32::from(UPLINKS) + u32::from(spine - 1)) * 2;
    Ipv4Addr::from(0x0a80_0000 + number + u32::from(side)).into()
}

fn vtep(leaf: u16) -> IpAddr {
    Ipv4Addr::from(0xac10_0001 + u32::from(leaf)).into()
}

fn nic(number: u16) -> IpAddr {
    Ipv4Addr::from(0x0a01_0001 + u32::from(number)).into()
}

fn report(leaves: u16, what: &str, mut took: Vec<Duration>) {
    if took.is_empty() {
        return;
    }
    took.sort();
    let at = |percent: usize| {
        let at = (took.len() * percent / 100).min(took.len() - 1);
        took[at].as_secs_f64() * 1e3
    };
    say(&format!(
        "{leaves} leaves, {} {what}, to the last acknowledgement: p50 {:.0}, p99 {:.0}, max {:.0} ms",
        took.len(),
        at(50),
        at(99),
        at(100)
    ));
}

#[expect(clippy::disallowed_methods, reason = "a measurement of the clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

fn number(name: &str, otherwise: u16) -> u16 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    let given = arguments.nth(1);
    given.map_or(otherwise, |given| given.parse().unwrap())
}

#[expect(clippy::disallowed_macros, reason = "the result of a benchmark")]
fn say(text: &str) {
    println!("{text}");
}

const UPLINKS: u8 = 16;
const NICS: u16 = 1_024;
const CAPACITY: u64 = 400_000_000_000;
const JOBS: u32 = 20;
const LEASES: u32 = 5;
/// Seconds.
const LEASE: i64 = 3;
/// Facts of a part of a declaration.
const PART: usize = 5_000;
/// Between two looks at what has been acknowledged.
const BETWEEN: Duration = Duration::from_millis(50);
const SAME: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(60);
