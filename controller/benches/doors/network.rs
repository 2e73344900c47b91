//! Two network namespaces: that of the replicas, which this process has, and that of whoever attacks them.
//!
//! ```text
//! replicas                                           attackers
//!   10.99.1.1, .2, .3   fd99::1, ::2, ::3  replicas    10.98.0.1                          one source
//!   10.99.1.9           fd99::9            agent       fd98::1 to fd98::fa                250 addresses of one /64: one source
//!   10.99.3.1, .2                          leaves      10.98.1.1 to 10.98.1.250           250 sources
//!   10.99.9.1           fd99::c            callers     fd98:0:0:1::1 to fd98:0:0:fa::1    250 sources
//!   10.97.0.1           fd97::1  ---------- veth ----------  10.97.0.2  fd97::2
//! ```

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Addresses that an attack comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sources {
    /// One IPv4 address
    One,
    /// 250 addresses of one IPv6 /64, which count as one
    Subnet,
    /// 250 IPv4 addresses
    Many,
    /// 250 IPv6 addresses, each in a /64 of its own
    Subnets,
}

impl Sources {
    /// Each of them.
    pub(crate) fn addresses(self) -> Vec<IpAddr> {
        let v6 = |net: u16, host: u16| IpAddr::from([ATTACKERS_V6, 0, 0, net, 0, 0, 0, host]);
        match self {
            Self::One => vec![ATTACKER.into()],
            Self::Subnet => (1..=250).map(|host| v6(0, host)).collect(),
            Self::Many => (1..=250)
                .map(|host| IpAddr::from([10, 98, 1, host]))
                .collect(),
            Self::Subnets => (1..=250).map(|net| v6(net, 1)).collect(),
        }
    }

    /// Returns true if they count as one.
    pub(crate) fn is_one(self) -> bool {
        matches!(self, Self::One | Self::Subnet)
    }

    /// The family of their addresses.
    pub(crate) fn family(self) -> Family {
        match self {
            Self::One | Self::Many => Family::V4,
            Self::Subnet | Self::Subnets => Family::V6,
        }
    }

    /// Name in the table.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Subnet => "1 /64",
            Self::Many => "250",
            Self::Subnets => "250 /64",
        }
    }
}

/// The family at which API, metrics and agent listen; BGP listens at both, Raft at IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// A replica, as its callers reach it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) replica: u8,
    pub(crate) family: Family,
}

impl At {
    /// The address and port of a door.
    pub(crate) fn door(self, door: Door) -> SocketAddr {
        let (host, port) = match door {
            Door::Bgp => (self.replica, 179),
            Door::Raft => return SocketAddr::from(([10, 99, 1, self.replica], 7400)),
            Door::Api => (self.replica, 7401),
            Door::Metrics => (self.replica, 7402),
            Door::Agent => (AGENT, 9340),
        };
        let address = match self.family {
            Family::V4 => IpAddr::from([10, 99, 1, host]),
            Family::V6 => IpAddr::from([REPLICAS_V6, 0, 0, 0, 0, 0, 0, host.into()]),
        };
        SocketAddr::from((address, port))
    }

    /// The address of a real caller.
    pub(crate) fn caller(self) -> IpAddr {
        match self.family {
            Family::V4 => IpAddr::from([10, 99, 9, 1]),
            Family::V6 => IpAddr::from([REPLICAS_V6, 0, 0, 0, 0, 0, 0, 0xc]),
        }
    }
}

/// A port of a replica, or of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Bgp,
    Raft,
    Api,
    Metrics,
    Agent,
}

/// Runs this program again in a namespace of its own, with one more argument. Returns true if it succeeds.
pub(crate) fn enter(argument: &str) -> bool {
    let mut command = Command::new("unshare");
    command.arg("--net");
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        command.arg("--map-root-user");
    }
    command
        .arg(std::env::current_exe().unwrap())
        .args(std::env::args_os().skip(1))
        .arg(argument);
    command.status().unwrap().success()
}

/// The namespace of whoever attacks, while it is kept.
pub(crate) struct Attackers(Child);

impl Attackers {
    /// Makes it beside the namespace of this process, and gives both their addresses.
    pub(crate) async fn start() -> Self {
        let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
        let mut sleeper = Command::new("unshare");
        sleeper.args(["--net", "sleep", "4h"]).stdin(Stdio::null());
        let attackers = Self(sleeper.spawn().unwrap());
        let process = attackers.0.id().to_string();
        let late = Instant::now() + Duration::from_secs(5);
        while namespace(&process) == namespace("self") {
            assert!(Instant::now() < late, "unshare --net makes no namespace");
            sleep(Duration::from_millis(10)).await;
        }
        attackers.link(&process);
        attackers.link_v6();
        attackers
    }

    fn link(&self, process: &str) {
        let near = format!(
            "link set lo up\naddress add 10.99.0.1/16 dev lo\n\
             link add out type veth peer name out netns {process}\nlink set out up\n\
             address add 10.97.0.1/30 dev out\n"
        );
        batch(Command::new("ip"), &near);
        let sources = [Sources::One, Sources::Many].map(|it| lines(it, "/32 dev lo"));
        let far = format!(
            "link set lo up\nlink set out up\naddress add 10.97.0.2/30 dev out\n{}\
             route add 10.99.0.0/16 via 10.97.0.1 src {ATTACKER}\n",
            sources.concat()
        );
        batch(self.command("ip"), &far);
        batch(Command::new("ip"), "route add 10.98.0.0/16 via 10.97.0.2\n");
    }

    fn link_v6(&self) {
        let v6 = |mut ip: Command| {
            ip.arg("-6");
            ip
        };
        let replicas = ["1", "2", "3", "9", "c"]
            .map(|host| format!("address add {REPLICAS_V6:x}::{host}/128 dev lo nodad\n"));
        let near = format!(
            "address add fd97::1/64 dev out nodad\n{}",
            replicas.concat()
        );
        batch(v6(Command::new("ip")), &near);
        let sources = [Sources::Subnet, Sources::Subnets].map(|it| lines(it, "/128 dev lo nodad"));
        let far = format!(
            "address add fd97::2/64 dev out nodad\n{}route add {REPLICAS_V6:x}::/16 via fd97::1\n",
            sources.concat()
        );
        batch(v6(self.command("ip")), &far);
        let back = format!("route add {ATTACKERS_V6:x}::/16 via fd97::2\n");
        batch(v6(Command::new("ip")), &back);
    }

    /// A program in there.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.0.id().to_string(), "--net", program]);
        command
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _waited = self.0.wait();
    }
}

/// A line of `ip` for each address.
fn lines(sources: Sources, rest: &str) -> String {
    let lines = sources.addresses().into_iter();
    lines
        .map(|source| format!("address add {source}{rest}\n"))
        .collect()
}

/// Gives `ip` lines of commands.
fn batch(mut ip: Command, lines: &str) {
    let mut child = ip
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    assert!(
        child.wait().unwrap().success(),
        "ip refuses one of:\n{lines}"
    );
}

/// The agent's host number.
const AGENT: u8 = 9;
const ATTACKER: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
const REPLICAS_V6: u16 = 0xfd99;
const ATTACKERS_V6: u16 = 0xfd98;
