//! `cargo demo`: the main job in front of a person's eyes.

use std::time::{Duration, Instant};

use crate::{
    check::Checks, clock, evpn, expect::Expect, failure::Failure, lab::Lab, packages,
    programs::Programs, resilience, scenario, speakers::Suite, tables, topology::Topology,
    weft::Client,
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// End by itself instead of staying up until Ctrl-C
    #[arg(long)]
    once: bool,
    /// Use the programs that were built before
    #[arg(long)]
    no_build: bool,
}

/// Ok(false): something that the demo shows did not come about.
pub(crate) fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let start = Instant::now();
    packages::require_root()?;
    packages::install(&[&packages::LAB, &packages::BUILD])?;
    let programs = if arguments.no_build {
        Programs::find()?
    } else {
        println!(
            "building weftd, weft-agent and weft (the first time this compiles RocksDB: minutes)"
        );
        Programs::build()?
    };
    println!("bringing up three replicas of weft, two spines and four leaves of FRR, four hosts");
    let folder = scenario::folder(LAB);
    let expect = Expect::read(&folder)?;
    let mut lab = Lab::up(
        &folder,
        &Topology::read(&scenario::topology_file(LAB))?,
        Some(programs),
        Suite::Installed,
    )?;
    let shown = show(&mut lab, &expect, start);
    if !clock::interrupted() && !matches!(shown, Ok(true)) {
        lab.fallen()
            .iter()
            .for_each(|daemon| println!("ended by itself: {daemon}"));
        println!("logs: {}", lab.keep_logs()?.display());
    }
    if !arguments.once && matches!(shown, Ok(true)) {
        println!(
            "\nThe fabric stays up until Ctrl-C; {}",
            evpn::hint(&lab, &expect)?
        );
        stay(&lab, &expect)?;
    }
    drop(lab);
    println!("everything is down again");
    shown
}

fn show(lab: &mut Lab, expect: &Expect, start: Instant) -> Result<bool, Failure> {
    let mut checks = Checks::default();
    evpn::introduce(lab, expect, &mut checks)?;
    checks.agree(
        "every leaf has every route from every replica",
        checks.patience(),
        &expect.routes(None),
        || tables::routes(lab, expect, None),
    )?;
    checks.agree(
        "every bridge forwards to every remote host",
        checks.patience(),
        &expect.forwarding(None),
        || tables::forwarding(lab, expect, None),
    )?;
    let client = Client::at(lab, expect, evpn::any_replica(expect))?
        .ok_or_else(|| Failure::new("no weft in this lab"))?;
    checks.agree(
        "weights follow the capacities of the links",
        checks.patience(),
        &expect.shares(),
        || tables::ratios(&client),
    )?;
    let planned = tables::planned(&client)?;
    checks.agree(
        "every kernel has the weights of the plan",
        checks.patience(),
        &planned,
        || tables::installed(lab, expect),
    )?;
    println!("converged after {}", clock::since(start));
    for question in [
        ["peer", "list"],
        ["vtep", "list"],
        ["plan", "show"],
        ["replica", "list"],
    ] {
        println!(
            "\n$ weft {}\n{}",
            question.join(" "),
            client.text(&question)?.trim_end()
        );
    }
    let victim = resilience::leader(lab, expect)?;
    println!(
        "\nkilling {victim}, the leader, with SIGKILL while hosts ping each other every 10 ms"
    );
    let killed = Instant::now();
    let seen = resilience::watch_a_kill(lab, expect, &victim)?;
    println!(
        "{} pings sent, {} lost; {} FDB entries removed",
        seen.sent,
        seen.lost,
        seen.removed.len()
    );
    checks.record(
        &format!("{victim} killed and nobody noticed"),
        killed,
        seen.untouched(),
    );
    lab.start(&victim)?;
    println!("{}", checks.summary());
    Ok(checks.failed == 0)
}

/// Until Ctrl-C; a ping now and then keeps the hosts in the tables of their leaves.
fn stay(lab: &Lab, expect: &Expect) -> Result<(), Failure> {
    let mut spoke = Instant::now();
    while !clock::interrupted() {
        clock::settle(Duration::from_millis(100));
        if spoke.elapsed() > HOSTS_SPEAK_EVERY {
            spoke = Instant::now();
            for (a, b) in expect.neighbours(true) {
                let to = expect.hosts[b].address.to_string();
                let _somebody_may_experiment = lab.run(a, &["ping", "-c", "1", "-W", "1", &to]);
            }
        }
    }
    Ok(())
}

const LAB: &str = "evpn-basic";

/// A bridge forgets a silent MAC after 300 s.
const HOSTS_SPEAK_EVERY: Duration = Duration::from_secs(60);
