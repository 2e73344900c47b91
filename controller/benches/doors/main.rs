//! The doors of weft under attack: three weftd of this build, real leaves and callers, and beside them whoever attacks the leader
//! or an agent. Each row has a group of its own, so that no attack inherits the memory of another. Attacks come from a process in
//! a network namespace of its own, which the kernel schedules when nothing else runs: a real attacker brings processors of its own.
//!
//! ```text
//!   namespace of the replicas                        namespace of the attackers
//!     3x weftd, 1x weft-agent        <---- veth ----   1x this program with --attack, or doors.py
//!     this program: leaves, callers, figures
//! ```
//! `-- --list`, `--only ATTACK`, `--from one,subnet,many`, `--secs N`, `--short`. The bench fails if a figure misses its goal.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails"
)]

mod attack;
mod caller;
mod calls;
mod group;
mod http2;
mod jobs;
mod leaves;
#[expect(
    dead_code,
    reason = "the replicas here are three, with addresses of their own"
)]
#[path = "../lone.rs"]
mod lone;
mod network;
mod routes;
mod switch;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use clap::Parser;
use tokio::time::{Instant, sleep};

use attack::{ATTACKS, Attack};
use group::{Group, metrics, refused, resident_mib};
use leaves::Leaves;
use network::{At, Attackers, Door, Sources};
use table::{Figures, say};

#[derive(Parser)]
#[command(about = "Attacks every door of weft, and measures what others notice of it")]
struct Arguments {
    /// Run this attack only; may be given several times
    #[arg(long, value_name = "ATTACK")]
    only: Vec<String>,
    /// Run attacks from these sources only
    #[arg(long, value_delimiter = ',', value_enum)]
    from: Vec<Sources>,
    /// Seconds that an attack lasts, and that nobody attacks before it; those of jobs and routes last longer
    #[arg(long, default_value_t = 5)]
    secs: u64,
    /// Routes of the real leaf
    #[arg(long, default_value_t = 20_000)]
    routes: u32,
    /// Silent connections, streams and exports from one source, for three seconds each, on a machine that does other things too:
    /// announcements are late beyond a second only
    #[arg(long)]
    short: bool,
    /// Print the attacks
    #[arg(long)]
    list: bool,
    /// As cargo calls a bench
    #[arg(long, hide = true)]
    bench: bool,
    /// Inside the namespace of the replicas
    #[arg(long, hide = true)]
    inside: bool,
    /// Attack this replica, and measure nothing
    #[arg(long, hide = true)]
    attack: Option<u8>,
}

impl Arguments {
    fn lasting(&self, attack: &Attack) -> Duration {
        self.calm() * attack.times()
    }

    /// How long nobody attacks before that.
    fn calm(&self) -> Duration {
        Duration::from_secs(if self.short { 3 } else { self.secs })
    }

    fn routes(&self) -> u32 {
        if self.short {
            self.routes.min(5_000)
        } else {
            self.routes
        }
    }

    /// Python, if an attack is written in it.
    fn python(&self) -> Option<PathBuf> {
        let mut rows = self.rows().into_iter();
        rows.any(|(attack, _)| attack.is_python()).then(python)
    }

    /// Attacks and their sources, in the order of the table.
    fn rows(&self) -> Vec<(&'static Attack, Sources)> {
        let wanted = |attack: &&Attack| {
            let named = self.only.iter().any(|name| name == attack.name);
            if self.only.is_empty() && self.short {
                SHORT.contains(&attack.name)
            } else {
                named || self.only.is_empty()
            }
        };
        let sources = match (&self.from[..], self.short) {
            ([], true) => &[Sources::One][..],
            ([], false) => &[Sources::One, Sources::Subnet, Sources::Many],
            (from, _) => from,
        };
        let attacks = ATTACKS.iter().filter(wanted);
        let rows = attacks.flat_map(|attack| sources.iter().map(move |sources| (attack, *sources)));
        rows.filter(|(attack, sources)| attack.comes_from(*sources))
            .collect()
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        ATTACKS
            .iter()
            .for_each(|attack| say(&format!("{:16} {}", attack.name, attack.text())));
        return ExitCode::SUCCESS;
    }
    for name in &arguments.only {
        assert!(
            ATTACKS.iter().any(|attack| attack.name == name),
            "no attack {name}: see --list"
        );
    }
    if !arguments.inside && arguments.attack.is_none() {
        build_agent();
        // There is no network inside to bring it.
        arguments.python();
        return code(network::enter("--inside"));
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let Some(replica) = arguments.attack else {
            return code(measure(&arguments).await);
        };
        let _as_many_as_there_are = rlimit::increase_nofile_limit(u64::MAX);
        let (attack, sources) = arguments.rows()[0];
        attack
            .run(sources, replica, arguments.lasting(attack))
            .await;
        ExitCode::SUCCESS
    })
}

fn code(is_good: bool) -> ExitCode {
    if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The agent is another package's program, which cargo does not build for a bench.
fn build_agent() {
    let agent = Path::new(env!("CARGO_BIN_EXE_weftd")).with_file_name("weft-agent");
    if !agent.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let arguments = [
            "build",
            "--quiet",
            "--release",
            "--workspace",
            "--bin",
            "weft-agent",
        ];
        let built = Command::new(cargo).args(arguments).status().unwrap();
        assert!(built.success(), "weft-agent does not compile");
    }
}

/// Measures without an attack, then under each. Returns false if a figure misses its goal.
async fn measure(arguments: &Arguments) -> bool {
    let attackers = Attackers::start().await;
    let python = arguments.python();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    say(&format!(
        "{} routes, 100 changes a second; load average {load}",
        arguments.routes()
    ));
    table::head(arguments.short);
    let mut missed = 0;
    for (attack, sources) in arguments.rows() {
        let figures = row(arguments, &attackers, python.as_deref(), (attack, sources)).await;
        missed += table::row(attack, sources, &figures, arguments.short);
    }
    say(&format!("{missed} figures missed their goal"));
    missed == 0
}

/// Measures one row, in a group of its own: a while without the attack, then under it.
async fn row(
    arguments: &Arguments,
    attackers: &Attackers,
    python: Option<&Path>,
    (attack, sources): (&Attack, Sources),
) -> Figures {
    let (mut group, leader) = Group::start(sources.family()).await;
    let leaves = Leaves::start(leader, arguments.routes()).await;
    sleep(SETTLING).await;
    let (none, answer) = observe(&leaves, leader, attack, Instant::now() + arguments.calm()).await;
    assert!(
        answer < caller::PATIENCE,
        "a caller has no answer before {} begins",
        attack.name
    );
    let lasting = arguments.lasting(attack);
    let watching = tokio::spawn(caller::watch(leader, Instant::now() + SETTLING + lasting));
    let place = usize::from(leader.replica) - 1;
    let is_agent = attack.door == Door::Agent;
    let target = if is_agent {
        &group.agent
    } else {
        &group.replicas[place]
    };
    let (process, before, logged) = (target.id(), resident_mib(target.id()), target.logged());
    let (term, counted) = (group.term().await, refused(&metrics(leader).await));
    let attacking = begin(arguments, attackers, python, (attack, sources), leader);
    if attack.is_switch() {
        // The switch listens before it is dialled.
        sleep(SETTLING).await;
        group.declare(leader, sources).await;
    }
    let until = Instant::now() + lasting;
    let memory = tokio::spawn(peak_mib(process, until));
    let (p99, worst) = observe(&leaves, leader, attack, until).await;
    let peak = memory.await.unwrap();
    let watch_lives = watching.await.unwrap();
    let note = end(attacking);
    let target = if is_agent {
        &mut group.agent
    } else {
        &mut group.replicas[place]
    };
    let lives = target.runs();
    let (lines, forged) = target.lines(logged);
    let refusals = refused(&metrics(leader).await).saturating_sub(counted);
    let elections = group.term().await.saturating_sub(term);
    let mut restarted = None;
    if attack.lasts() {
        restarted = Some(restart(&mut group, leader).await - before);
    }
    Figures {
        none,
        p99,
        worst,
        memory_mib: peak - before,
        restarted_mib: restarted,
        elections,
        refused: refusals,
        lines_a_second: lines as f64 / lasting.as_secs_f64(),
        faults: [
            (!lives, "the process ended"),
            (!watch_lives, "a real watch ended"),
            (forged > 0, "a switch wrote lines of the log"),
        ],
        note,
    }
}

/// The p99 of changes, and the longest time of a caller, until a moment.
async fn observe(leaves: &Leaves, at: At, attack: &Attack, until: Instant) -> (Duration, Duration) {
    let first = leaves.next();
    let asking = attack.callers().iter().map(|caller| caller.ask(at, until));
    let worst = futures::future::join_all(asking).await.into_iter().max();
    let p99 = leaves.p99_since(first).await;
    (p99, worst.unwrap_or(caller::PATIENCE))
}

/// Begins an attack in a process of its own.
fn begin(
    arguments: &Arguments,
    attackers: &Attackers,
    python: Option<&Path>,
    (attack, sources): (&Attack, Sources),
    at: At,
) -> Child {
    let mut command = attackers.command("chrt");
    command.args(["--idle", "0"]);
    let secs = arguments.lasting(attack).as_secs();
    if attack.is_python() {
        let api = at.door(Door::Api);
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/doors/doors.py");
        let name = attack.name.trim_start_matches("python-");
        command
            .arg(python.unwrap())
            .arg(program)
            .args([name, &api.to_string(), &secs.to_string()]);
    } else {
        let sources = clap::ValueEnum::to_possible_value(&sources).unwrap();
        command.arg(std::env::current_exe().unwrap());
        command.args([
            "--attack",
            &at.replica.to_string(),
            "--only",
            attack.name,
            "--from",
            sources.get_name(),
        ]);
        command.args(["--secs", &arguments.secs.to_string()]);
        if arguments.short {
            command.arg("--short");
        }
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the end of an attack. Returns its account.
fn end(attacking: Child) -> String {
    let output = attacking.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The most memory that a process has until a moment, in MiB.
async fn peak_mib(process: u32, until: Instant) -> f64 {
    let mut peak = 0.0_f64;
    while Instant::now() < until {
        peak = peak.max(resident_mib(process));
        sleep(SAMPLED_EVERY).await;
    }
    peak
}

/// Starts a replica again. Returns its memory once it answers and has been still for some seconds.
async fn restart(group: &mut Group, at: At) -> f64 {
    let replica = &mut group.replicas[usize::from(at.replica) - 1];
    replica.restart();
    let late = Instant::now() + Duration::from_secs(60);
    while caller::leader(at).await.is_err() {
        assert!(
            Instant::now() < late,
            "no answer after a restart: {}",
            replica.said()
        );
        sleep(SAMPLED_EVERY).await;
    }
    sleep(Duration::from_secs(3)).await;
    resident_mib(replica.id())
}

/// Python with grpcio, which is made if it is missing.
fn python() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/python/venv.sh");
    let mut bash = Command::new("bash");
    bash.args(["-euc", r#"source "$0" >&2 && command -v python3"#])
        .arg(script);
    let found = bash.stderr(Stdio::inherit()).output().unwrap();
    assert!(found.status.success(), "there is no Python with grpcio");
    PathBuf::from(String::from_utf8(found.stdout).unwrap().trim())
}

/// Attacks of the short form.
const SHORT: [&str; 3] = ["silent-api", "streams-api", "exports"];
const SETTLING: Duration = Duration::from_millis(500);
const SAMPLED_EVERY: Duration = Duration::from_millis(100);
