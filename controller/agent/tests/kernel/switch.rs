//! A switch in a network namespace: two uplinks, each with a far end whose carrier can be cut.
//!
//! ```text
//! up1 192.0.2.1/24    2001:db8:1::1/64 ---- far1
//! up2 198.51.100.1/24 2001:db8:2::1/64 ---- far2
//! ```

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use weft_agent::agent::Config;
use weft_agent::driver::Driver;
use weft_agent::driver::clock::Clock;
use weft_agent::fib::Ids;
use weft_agent::forwarding::kernel::{Kernel, Numbers};
use weft_agent::{gnmi, gribi};
use weft_proto::agent::v1::agent_service_client::AgentServiceClient;
use weft_proto::agent::v1::{Status, WatchStatusRequest};

/// The network namespace of this thread.
pub(crate) struct Switch;

/// An agent on the test's own runtime.
pub(crate) struct Agent {
    channel: Channel,
    stop: oneshot::Sender<()>,
    driver: JoinHandle<()>,
}

/// The binary.
pub(crate) struct Daemon {
    channel: Channel,
    child: Child,
}

/// Runs the test on a thread with a network namespace of its own: whatever the thread opens or
/// starts is in it, and it goes when the thread does.
pub(crate) fn on_switch(test: impl AsyncFnOnce(&Switch) + Send + 'static) {
    if !nix::unistd::geteuid().is_root() {
        if env::var("WEFT_SKIP_ROOT").is_ok_and(|value| value == "1") {
            say("NOT TESTED: kernel tests need root");
            return;
        }
        panic!("kernel tests need root; WEFT_SKIP_ROOT=1 skips them");
    }
    let run = move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let switch = Switch;
            switch.cable();
            test(&switch).await;
        });
    };
    if let Err(panic) = thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

/// To the terminal, even where the harness keeps what a test prints.
pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    // Nobody is left to be told when standard error is closed.
    let _ = std::io::stderr().write_all(format!("\n!!!! {text} !!!!\n").as_bytes());
}

impl Switch {
    fn cable(&self) {
        self.ip("link set lo up");
        for link in [1, 2] {
            self.ip(&format!("link add up{link} type veth peer name far{link}"));
            self.ip(&format!(
                "addr add {} dev up{link}",
                ["192.0.2.1/24", "198.51.100.1/24"][link - 1]
            ));
            self.ip(&format!(
                "addr add 2001:db8:{link}::1/64 dev up{link} nodad"
            ));
            self.ip(&format!("link set far{link} up"));
            self.ip(&format!("link set up{link} up"));
            // Else an address of the global scope goes with the link, and does not come back.
            let path = format!("/proc/sys/net/ipv6/conf/up{link}/keep_addr_on_down");
            fs::write(path, "1").expect("writable");
        }
        // What the switch's own routing has.
        for prefix in ["203.0.113.0/24", "10.0.0.0/8"] {
            self.ip(&format!(
                "route add {prefix} metric 20 nexthop via 192.0.2.2 nexthop via 198.51.100.2"
            ));
        }
        self.ip("-6 route add 2001:db8:f::/48 metric 20 nexthop via 2001:db8:1::2 nexthop via 2001:db8:2::2");
    }

    /// Has the kernel pass over next hops whose link is down, where no routing daemon takes them away: by default it
    /// goes on hashing flows to them.
    pub(crate) fn pass_over_links_that_are_down(&self) {
        let path = "/proc/sys/net/ipv4/conf/all/ignore_routes_with_linkdown";
        fs::write(path, "1").expect("writable");
    }

    /// An agent in this namespace, over the kernel's netlink.
    pub(crate) async fn agent(&self) -> Agent {
        self.agent_by(Clock::system()).await
    }

    /// Starts an agent with these clocks.
    pub(crate) async fn agent_by(&self, clock: Clock) -> Agent {
        let kernel = Kernel::open(Numbers::default()).expect("netlink");
        let ids = Ids::new(0x5700_0000).expect("a range");
        let config = Config {
            network_instance: "DEFAULT".into(),
            ids,
            prefixes: ["0.0.0.0/0", "::/0"]
                .map(|prefix| prefix.parse().expect("a prefix"))
                .to_vec(),
            pins: true,
            lease: Duration::from_secs(3600),
            allow_override: false,
        };
        let mut driver = Driver::start_by(clock, config, kernel)
            .await
            .expect("readable");
        let (commands, queue) = gribi::commands();
        let service = gribi::service(commands.clone());
        let gnmi = gnmi::service(commands.clone(), driver.changes());
        let status = weft_agent::status::service(commands);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let (stop, stopped) = oneshot::channel();
        let driver = tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            let server = tokio::spawn(
                Server::builder()
                    .add_service(service)
                    .add_service(gnmi)
                    .add_service(status)
                    .serve_with_incoming(incoming),
            );
            let served = driver.run(queue, async { drop(stopped.await) }).await;
            served.expect("readable");
            server.abort();
        });
        let channel = Endpoint::from_shared(address)
            .expect("an address")
            .connect_lazy();
        Agent {
            channel,
            stop,
            driver,
        }
    }

    /// The binary, in this namespace.
    pub(crate) fn daemon(&self, arguments: &[&str]) -> Daemon {
        let path = env::var("PATH").expect("set");
        self.daemon_with_path(arguments, &path)
    }

    /// The binary, which finds programs here.
    pub(crate) fn daemon_with_path(&self, arguments: &[&str], path: &str) -> Daemon {
        self.start(command(LISTEN).args(arguments).env("PATH", path))
    }

    /// The binary with a log of every event, in a pipe that nobody reads.
    pub(crate) fn daemon_unread(&self, arguments: &[&str]) -> Daemon {
        let mut command = command(LISTEN);
        command.args(arguments).env("RUST_LOG", "trace");
        self.start(command.stderr(Stdio::piped()))
    }

    /// The binary, which listens at another address.
    pub(crate) fn daemon_at(&self, listen: &str) -> Daemon {
        self.start(&mut command(listen))
    }

    fn start(&self, command: &mut Command) -> Daemon {
        let child = command.spawn().expect("started");
        let channel = Endpoint::from_shared(format!("http://{LISTEN}"))
            .expect("an address")
            .connect_lazy();
        Daemon { channel, child }
    }

    pub(crate) fn ip(&self, arguments: &str) -> String {
        let output = Command::new("ip")
            .args(arguments.split(' '))
            .output()
            .expect("ip runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {arguments}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn json(&self, arguments: &str) -> Value {
        let text = self.ip(arguments);
        serde_json::from_str(&text).unwrap_or(json!([]))
    }

    pub(crate) fn next_hops(&self) -> Value {
        self.json("-j nexthop show")
    }

    /// Id and members of each group, in the order of ids.
    pub(crate) fn groups(&self) -> Value {
        let shown = self.next_hops();
        let groups = shown.as_array().into_iter().flatten();
        let groups = groups.filter(|object| object.get("group").is_some());
        groups
            .map(|group| json!({"id": group["id"], "group": group["group"]}))
            .collect()
    }

    pub(crate) fn route(&self, prefix: &str) -> Option<Value> {
        self.first(&format!("-j route show table 155 {prefix}"))
    }

    pub(crate) fn route6(&self, prefix: &str) -> Option<Value> {
        self.first(&format!("-6 -j route show table 155 {prefix}"))
    }

    /// The link that a marked packet to this address leaves by.
    pub(crate) fn forwards(&self, address: &str) -> Option<String> {
        self.forwards_by(address, 0)
    }

    /// The link that a packet to this address leaves by, with the mark of a slot; 0 is that of the weights.
    pub(crate) fn forwards_by(&self, address: &str, slot: u32) -> Option<String> {
        let mark = 0x5700_0000 + (slot << 16);
        let route = self.first(&format!("-j route get {address} mark {mark:#x}"))?;
        route["dev"].as_str().map(str::to_owned)
    }

    /// The elements of a map of pins, one line each, without counters.
    pub(crate) fn pins(&self, map: &str) -> Vec<String> {
        let listed = self.nft(&format!("list map bridge weft {map}"));
        let elements = listed.split("elements = {").nth(1).unwrap_or_default();
        let elements = elements.split('}').next().unwrap_or_default().split(',');
        let mut shown: Vec<String> = elements
            .map(|element| {
                let words: Vec<&str> = element.split_whitespace().collect();
                let key = words.iter().take_while(|word| **word != "counter");
                let key: Vec<&str> = key.copied().collect();
                let verdict = words
                    .split(|word| *word == ":")
                    .next_back()
                    .unwrap_or_default();
                format!("{} {}", key.join(" "), verdict.join(" "))
            })
            .filter(|element| !element.trim().is_empty())
            .collect();
        shown.sort();
        shown
    }

    /// Whether marked packets look up the agent's table.
    pub(crate) fn has_rule(&self) -> bool {
        let rules = self.ip("rule show");
        rules.contains("1550:\tfrom all fwmark 0x57000000/0xff000000 lookup 155 proto 155")
    }

    /// Whether packets through a VXLAN device are marked now.
    pub(crate) fn marked(&self) -> bool {
        self.nft("list set bridge weft vxlan").contains("expires")
    }

    /// Whether there is a table of marks.
    pub(crate) fn has_marks(&self) -> bool {
        self.nft("list tables").contains("bridge weft")
    }

    /// The lines of the table of marks, without counters and devices.
    pub(crate) fn marks(&self) -> Vec<String> {
        let arguments = ["-s", "list", "table", "bridge", "weft"];
        let output = Command::new("nft").args(arguments).output();
        let listed = String::from_utf8(output.expect("nft runs").stdout).expect("text");
        let lines = listed.lines().filter(|line| !line.contains("timeout 1s"));
        lines.map(str::to_owned).collect()
    }

    pub(crate) fn nft(&self, arguments: &str) -> String {
        let output = Command::new("nft").arg(arguments).output();
        String::from_utf8_lossy(&output.expect("nft runs").stdout).into_owned()
    }

    /// Sends a UDP packet out of an interface, in an Ethernet frame to everybody.
    pub(crate) fn send_udp(&self, interface: &str, (from, port): (&str, u16), to: &str) {
        let output = Command::new("python3")
            .args(["-c", SEND_UDP, interface, from, to, &port.to_string()])
            .output()
            .expect("python3 runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
    }

    pub(crate) fn hash_policy(&self) -> String {
        let path = "/proc/sys/net/ipv4/fib_multipath_hash_policy";
        fs::read_to_string(path)
            .expect("readable")
            .trim()
            .to_owned()
    }

    fn first(&self, arguments: &str) -> Option<Value> {
        self.json(arguments).as_array()?.first().cloned()
    }

    /// Waits until it holds, without a pause.
    pub(crate) fn at_once(&self, mut holds: impl FnMut(&Self) -> bool) {
        for _ in 0..5_000 {
            if holds(self) {
                return;
            }
        }
        panic!("not in time; routes are\n{}", self.ip("route"));
    }

    /// Waits until it holds.
    pub(crate) async fn until(&self, mut holds: impl FnMut(&Self) -> bool) {
        let wait = async {
            while !holds(self) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(Duration::from_secs(20), wait).await.is_err() {
            panic!(
                "not in time; next hops are {}\n{}",
                self.ip("nexthop"),
                self.ip("route")
            );
        }
    }
}

impl Agent {
    /// The text of a condition, if it has that.
    pub(crate) async fn condition(&self, name: &str) -> Option<String> {
        condition(self.channel(), name).await
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).expect("running");
        self.driver.await.expect("no panic");
    }
}

fn command(listen: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-agent"));
    command.args(["--listen", listen, "--prefix", "203.0.113.0/24"]);
    command.stderr(Stdio::inherit());
    command
}

/// What an agent says of itself.
async fn status(channel: Channel) -> Status {
    let mut client = AgentServiceClient::new(channel);
    let request = WatchStatusRequest::default();
    let call = client.watch_status(request).await.expect("served");
    let first = call.into_inner().message().await.expect("served");
    first.expect("a status")
}

/// The text of a condition of an agent, if it has that.
async fn condition(channel: Channel, name: &str) -> Option<String> {
    let name = format!("CONDITION_TYPE_{name}");
    let conditions = status(channel).await.conditions;
    let mut named = conditions
        .into_iter()
        .filter(|condition| condition.condition_type().as_str_name() == name);
    named.next().map(|condition| condition.message)
}

impl Drop for Daemon {
    /// A test that fails leaves no process behind.
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.child.kill();
    }
}

impl Daemon {
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Waits until it serves.
    pub(crate) async fn ready(&self) {
        let wait = async {
            while tokio::net::TcpStream::connect(LISTEN).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(20), wait)
            .await
            .expect("serving in time");
    }

    /// SIGTERM, and waits for the end.
    pub(crate) async fn stop(mut self) {
        self.ready().await;
        self.signal(Signal::SIGTERM);
        assert!(self.child.wait().expect("ended").success());
    }

    /// Waits for the end; whether it was a good one.
    pub(crate) fn ended(mut self) -> bool {
        self.child.wait().expect("ended").success()
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().expect("ended");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        nix::sys::signal::kill(self.pid(), signal).expect("alive");
    }

    /// The process that watches over this one.
    pub(crate) fn guardian(&self) -> Option<Pid> {
        self.started("guardian")
    }

    /// A process that this one started, with this word in its command line.
    pub(crate) fn started(&self, word: &str) -> Option<Pid> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        let children = fs::read_to_string(path).expect("readable");
        let mut pids = children.split_whitespace();
        let found = pids.find(|pid| {
            let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            command.split('\0').any(|part| part == word)
        })?;
        found.parse().map(Pid::from_raw).ok()
    }

    /// What it says of itself.
    pub(crate) async fn status(&self) -> Status {
        status(self.channel()).await
    }

    /// The text of a condition, if it has that.
    pub(crate) async fn condition(&self, name: &str) -> Option<String> {
        condition(self.channel(), name).await
    }

    /// Waits until it has a condition no more.
    pub(crate) async fn until_mended(&self, name: &str) {
        let wait = async {
            while self.condition(name).await.is_some() {
                sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = timeout(Duration::from_secs(20), wait).await;
        waited.expect("mended in time");
    }

    /// Waits until it has a condition; its text.
    pub(crate) async fn until_condition(&self, name: &str) -> String {
        let wait = async {
            loop {
                if let Some(text) = self.condition(name).await {
                    break text;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        match timeout(Duration::from_secs(20), wait).await {
            Ok(text) => text,
            Err(_) => panic!("no {name}: {:?}", self.status().await.conditions),
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().expect("a pid"))
    }
}

/// A directory with an `nft` that does as this test says.
pub(crate) struct FakeNft(PathBuf);

impl FakeNft {
    /// Does what the real one does.
    pub(crate) fn new(test: &str) -> Self {
        let directory = env::temp_dir().join(format!("weft-agent-{}-{test}", std::process::id()));
        fs::create_dir_all(&directory).expect("writable");
        let real = env::split_paths(&env::var_os("PATH").expect("set"))
            .map(|directory| directory.join("nft"))
            .find(|path| path.exists())
            .expect("nft is installed");
        let script = format!(
            "#!/bin/sh\n\
             case $(/bin/cat {directory}/does) in\n\
             hang) exec /bin/sleep 60 ;;\n\
             refuse) echo 'Error: Could not process rule: Operation not supported' >&2; exit 1 ;;\n\
             refuse-changes) case $1 in -f) echo 'Error: Device or resource busy' >&2; exit 1 ;; esac ;;\n\
             record) case $1 in -f) told=$(/bin/cat) ;; esac ;;\n\
             refuse-pins) case $1 in -f) told=$(/bin/cat)\n\
             case $told in *'add map'*) echo 'Error: Operation not supported' >&2; exit 1 ;; esac ;; esac ;;\n\
             esac\n\
             if [ -n \"$told\" ]; then\n\
             printf '%s\\n{TOLD}' \"$told\" >> {directory}/told\n\
             printf '%s\\n' \"$told\" | {real} \"$@\"\n\
             exit\n\
             fi\n\
             exec {real} \"$@\"\n",
            directory = directory.display(),
            real = real.display(),
        );
        let path = directory.join("nft");
        fs::write(&path, script).expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
        let fake = Self(directory);
        fake.does("work");
        fake
    }

    /// From now on it does this: work, hang, refuse, refuse changes alone (`refuse-changes`) or tables with pins (`refuse-pins`), or
    /// remember what it is told (`record`).
    pub(crate) fn does(&self, what: &str) {
        fs::write(self.0.join("does"), what).expect("writable");
    }

    /// The transactions that it remembers, but for those of `nft -i`.
    pub(crate) fn told(&self) -> Vec<String> {
        let text = fs::read_to_string(self.0.join("told")).unwrap_or_default();
        let mut told: Vec<String> = text.split(TOLD).map(str::to_owned).collect();
        // What follows the last mark is not whole yet.
        told.pop();
        told
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for FakeNft {
    fn drop(&mut self) {
        // It lies in a directory for temporary files.
        let _left = fs::remove_dir_all(&self.0);
    }
}

/// What follows a transaction that an `nft` remembers.
const TOLD: &str = "====\n";

/// Where the binary serves.
pub(crate) const LISTEN: &str = "127.0.0.1:9340";

/// With a checksum: br_netfilter drops IPv4 packets without one.
const SEND_UDP: &str = r#"
import ipaddress, socket, struct, sys
interface, source, destination, port = sys.argv[1:]
source, destination = ipaddress.ip_address(source), ipaddress.ip_address(destination)
datagram = struct.pack("!4H", int(port), 4791, 12, 0) + b"weft"
addresses = source.packed + destination.packed
if source.version == 4:
    def header(checksum):
        return struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(datagram), 1, 0, 64, 17, checksum) + addresses
    total = sum(struct.unpack("!10H", header(0)))
    total = (total & 0xFFFF) + (total >> 16)
    kind, packet = 0x0800, header(~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
else:
    kind, packet = 0x86DD, struct.pack("!IHBB", 6 << 28, len(datagram), 17, 64) + addresses
frame = b"\xff" * 6 + b"\x02\0\0\0\0\x01" + struct.pack("!H", kind)
line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
line.bind((interface, 0))
line.send(frame + packet + datagram)
"#;
