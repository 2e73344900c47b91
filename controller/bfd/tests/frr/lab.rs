//! Us and FRR's bfdd, each in a network namespace, and a veth pair between. Each has an address of a
//! loopback too, for sessions over many hops.
//!
//! ```text
//! ours   192.0.2.1/24 2001:db8:1::1/64 near ---- far 192.0.2.2/24 2001:db8:1::2/64   FRR
//!   lo   203.0.113.1  2001:db8:2::1                   203.0.113.2  2001:db8:2::2  lo
//! ```

use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::num::NonZeroU8;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use weft_bfd::packet::{Interval, Packet};
use weft_bfd::{Config, Diagnostic, Discriminator, Service, State, Watch, WatchError};

/// Our end is the namespace of this thread.
pub(crate) struct Lab {
    pub(crate) service: Service,
    folder: TempDir,
    /// Keeps the namespace of the other end.
    holder: Child,
    daemons: Vec<Child>,
}

/// One session, and FRR's words for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) ours: &'static str,
    pub(crate) theirs: &'static str,
    pub(crate) multihop: bool,
}

pub(crate) const PAIRS: [Pair; 4] = [
    Pair::new("192.0.2.1", "192.0.2.2", false),
    Pair::new("2001:db8:1::1", "2001:db8:1::2", false),
    Pair::new("203.0.113.1", "203.0.113.2", true),
    Pair::new("2001:db8:2::1", "2001:db8:2::2", true),
];

/// Runs the test on a thread with a namespace of its own, with the daemons of the other end started.
pub(crate) fn beside_frr(test: impl AsyncFnOnce(&mut Lab) + Send + 'static) {
    if !nix::unistd::geteuid().is_root() {
        if env::var("WEFT_SKIP_ROOT").is_ok_and(|value| value == "1") {
            say("NOT TESTED: tests beside FRR need root");
            return;
        }
        panic!("tests beside FRR need root; WEFT_SKIP_ROOT=1 skips them");
    }
    let run = move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let mut lab = Lab::new();
            lab.cable();
            lab.start().await;
            test(&mut lab).await;
        });
    };
    if let Err(panic) = thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

/// To the terminal, even where the harness keeps what a test prints.
fn say(text: &str) {
    use std::io::Write as _;
    // Nobody is left to be told when standard error is closed.
    let _ = std::io::stderr().write_all(format!("\n!!!! {text} !!!!\n").as_bytes());
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // FRR's daemons run as a user of their own.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(folder.path(), mode).expect("ours");
        let holder = Command::new("unshare")
            .args(["--net", "sleep", "infinity"])
            .spawn()
            .expect("unshare runs");
        Self {
            service: Service::new(16).expect("a thread"),
            folder,
            holder,
            daemons: Vec::new(),
        }
    }

    fn cable(&self) {
        let ours = fs::read_link("/proc/thread-self/ns/net").expect("readable");
        let theirs = format!("/proc/{}/ns/net", self.holder.id());
        while fs::read_link(&theirs).expect("readable") == ours {
            thread::yield_now();
        }
        ip("link add near type veth peer name far");
        ip(&format!("link set far netns {}", self.holder.id()));
        let far = |arguments: &str| self.far("ip", arguments);
        ip("link set lo up");
        ip("link set near up");
        far("link set lo up");
        far("link set far up");
        ip("addr add 192.0.2.1/24 dev near");
        ip("addr add 2001:db8:1::1/64 dev near nodad");
        ip("addr add 203.0.113.1/32 dev lo");
        ip("addr add 2001:db8:2::1/128 dev lo nodad");
        far("addr add 192.0.2.2/24 dev far");
        far("addr add 2001:db8:1::2/64 dev far nodad");
        far("addr add 203.0.113.2/32 dev lo");
        far("addr add 2001:db8:2::2/128 dev lo nodad");
        ip("route add 203.0.113.2/32 via 192.0.2.2 src 203.0.113.1");
        ip("route add 2001:db8:2::2/128 via 2001:db8:1::2");
        far("route add 203.0.113.1/32 via 192.0.2.1 src 203.0.113.2");
        far("route add 2001:db8:2::1/128 via 2001:db8:1::1");
    }

    /// zebra and bfdd, with all pairs configured.
    async fn start(&mut self) {
        for daemon in ["zebra", "bfdd"] {
            self.daemon(daemon);
            self.wait_for(&format!("{daemon}.vty")).await;
            if daemon == "zebra" {
                self.wait_for("zserv.api").await;
            }
        }
        let mut commands = vec!["configure terminal".to_owned(), "bfd".to_owned()];
        for pair in PAIRS {
            commands.push(pair.peer());
            commands.push("receive-interval 300".to_owned());
            commands.push("transmit-interval 300".to_owned());
            commands.push("detect-multiplier 3".to_owned());
            commands.push("exit".to_owned());
        }
        self.vtysh(&commands);
    }

    /// bgpd, with a neighbor whose BFD session is the first pair's. FRR begins it when BGP is established.
    pub(crate) async fn start_bgp(&mut self) {
        let no_peer = format!("no {}", PAIRS[0].peer());
        self.vtysh(&["configure terminal", "bfd", &no_peer]);
        self.daemon("bgpd");
        self.wait_for("bgpd.vty").await;
        self.vtysh(&[
            "configure terminal",
            "router bgp 64497",
            "bgp router-id 192.0.2.2",
            "neighbor 192.0.2.1 remote-as 64496",
            "neighbor 192.0.2.1 passive",
            "neighbor 192.0.2.1 bfd 3 300 300",
        ]);
    }

    /// Tells FRR's end of the first pair that ours is Down, by the names of both ends. FRR 8.4.4 drops what
    /// does not name its session while that is Up.
    pub(crate) fn forge_down(&self) {
        let shown = self.shown(PAIRS[0]);
        let name = |key: &str| {
            let line = shown.lines().find_map(|line| line.trim().strip_prefix(key));
            let number = line.and_then(|number| number.trim().parse().ok());
            Discriminator(number.expect("a name"))
        };
        let packet = Packet {
            diagnostic: Diagnostic::None,
            state: State::Down,
            poll: false,
            final_bit: false,
            control_plane_independent: false,
            demand: false,
            multiplier: NonZeroU8::MIN,
            mine: name("Remote ID:"),
            yours: Some(name("ID:")),
            desired_min_tx: Interval(1_000_000),
            required_min_rx: Interval(1_000_000),
            required_min_echo_rx: Interval(0),
        };
        let socket = UdpSocket::bind("192.0.2.1:0").expect("ours");
        socket.set_ttl(255).expect("ours");
        let sent = socket.send_to(&packet.encode(), "192.0.2.2:3784");
        sent.expect("a route");
    }

    fn daemon(&mut self, name: &str) {
        let at = |file: &str| self.folder.path().join(file).display().to_string();
        let log = at(&format!("{name}.log"));
        let mut command = self.in_far(&format!("/usr/lib/frr/{name}"));
        command.args(["-i", &at(&format!("{name}.pid")), "-z", &at("zserv.api")]);
        command.args(["--vty_socket", &at(""), "-f", "/dev/null"]);
        command.args(["--log", &format!("file:{log}"), "--log-level", "debug"]);
        if name == "bfdd" {
            command.args(["--bfdctl", &at("bfdd.sock")]);
        }
        let child = command.stdin(Stdio::null()).spawn().expect("FRR is there");
        self.daemons.push(child);
    }

    async fn wait_for(&self, file: &str) {
        let path = self.folder.path().join(file);
        until(file, || path.exists()).await;
    }

    /// A session with the other end of a pair, three times 300 ms.
    pub(crate) async fn watch(&self, pair: Pair) -> Watch {
        let config = Config {
            local: pair.ours.parse::<IpAddr>().expect("an address"),
            remote: pair.theirs.parse::<IpAddr>().expect("an address"),
            multihop: pair.multihop,
            interval: Duration::from_millis(300),
            multiplier: NonZeroU8::new(3).expect("not zero"),
            min_ttl: 254,
        };
        loop {
            match self.service.watch(config).await {
                Ok(watch) => return watch,
                // A child that another test is just starting holds a socket of an ended session.
                Err(WatchError::Socket { source, .. }) if source.kind() == ErrorKind::AddrInUse => {
                    sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) async fn watch_all(&self) -> Vec<Watch> {
        let mut watches = Vec::new();
        for pair in PAIRS {
            watches.push(self.watch(pair).await);
        }
        watches
    }

    /// Sends a signal to bfdd.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = fs::read_to_string(self.folder.path().join("bfdd.pid")).expect("running");
        let pid = pid.trim().parse().expect("a number");
        kill(Pid::from_raw(pid), signal).expect("running");
    }

    pub(crate) fn vtysh<Text: AsRef<str>>(&self, commands: &[Text]) -> String {
        let mut vtysh = Command::new("vtysh");
        vtysh.arg("--vty_socket").arg(self.folder.path());
        for command in commands {
            vtysh.args(["-c", command.as_ref()]);
        }
        output(&mut vtysh)
    }

    /// What FRR says of its end, in lines of `key: value`.
    pub(crate) fn shown(&self, pair: Pair) -> String {
        self.vtysh(&[format!("show bfd {}", pair.peer())])
    }

    pub(crate) async fn until_shown(&self, pair: Pair, text: &str) {
        let all = || self.shown(pair).contains(text);
        until(&format!("`{text}` of {pair:?}"), all).await;
    }

    fn far(&self, program: &str, arguments: &str) {
        output(self.in_far(program).args(arguments.split(' ')));
    }

    fn in_far(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.id()));
        command.arg(program);
        command
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.folder.path().join("bfdd.log");
            eprintln!("{}", read(&log));
        }
        for child in self.daemons.iter_mut().chain([&mut self.holder]) {
            let _gone_already = child.kill();
            let _gone_already = child.wait();
        }
    }
}

impl Pair {
    const fn new(ours: &'static str, theirs: &'static str, multihop: bool) -> Self {
        Self {
            ours,
            theirs,
            multihop,
        }
    }

    /// The configuration line of FRR's end.
    pub(crate) fn peer(&self) -> String {
        let Self { ours, theirs, .. } = self;
        if self.multihop {
            format!("peer {ours} multihop local-address {theirs}")
        } else {
            format!("peer {ours} local-address {theirs} interface far")
        }
    }
}

/// Waits until the session is in a state.
pub(crate) async fn reach(watch: &Watch, state: State) {
    let mut status = watch.subscribe();
    let reached = status.wait_for(|status| status.state == state);
    if timeout(PATIENCE, reached).await.is_err() {
        panic!("not {state:?} but {:?}", watch.status());
    }
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let in_time = timeout(PATIENCE, wait).await.is_ok();
    assert!(in_time, "not in time: {what}");
}

pub(crate) fn ip(arguments: &str) {
    output(Command::new("ip").args(arguments.split(' ')));
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text} {errors}");
    text
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Up to two packets a second each way, on a busy host.
const PATIENCE: Duration = Duration::from_secs(20);
