//! The lab `bad-input`: peers and operators that do what they must not. Whoever does it is told what the
//! rule says; everybody else notices nothing. What is bad stands in the lab's files, not here.

mod acts;
mod agents;
mod bystanders;
mod corpora;
mod counters;
mod crowd;
mod directory;
mod mistakes;
mod notation;
mod returning;
mod rows;
mod shown;
mod table;
mod told;
mod voice;
mod witness;

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use table::Table;

use crate::{check::Checks, expect::Lines, failure::Failure, lab::Lab};

/// Every check of the lab.
pub(super) fn check(lab: &mut Lab) -> Result<Checks, Failure> {
    let mut checks = Checks::default();
    let table = Table::read(&lab.files.join("cases.yaml"))?;
    let patience = checks.patience();
    checks.agree(
        "the leaf peers with every replica",
        patience,
        &sessions(),
        || witness::leaf_sessions(lab),
    )?;
    checks.agree(
        "every replica has the leaf's route",
        patience,
        &before(),
        || witness::everywhere(lab),
    )?;
    agents::declared(lab, &mut checks)?;
    let beside = listening(lab, &mut checks)?;
    rows::played(lab, &table, &mut checks)?;
    gone(lab, "after the rows", &mut checks)?;
    returning::gracefully(lab, &table, &mut checks)?;
    returning::after_long(lab, &table, &mut checks)?;
    listened(lab, "after the rows", &beside, &mut checks)?;
    corpora::replayed(lab, &table, &mut checks)?;
    gone(lab, "after what fuzzers found", &mut checks)?;
    listened(lab, "after what fuzzers found", &beside, &mut checks)?;
    crowd::at_once(lab, &table, &mut checks)?;
    crowd::deaf(lab, &table, &beside, &mut checks)?;
    gone(lab, "after the crowd", &mut checks)?;
    checks.agree(
        "the leaf's sessions were never reset",
        Duration::ZERO,
        &sessions(),
        || witness::leaf_sessions(lab),
    )?;
    mistakes::made(lab, &mut checks)?;
    agents::unreachable(lab, &mut checks)?;
    let fallen = lab.fallen();
    checks.record(
        "no program ended by itself",
        Instant::now(),
        match fallen.is_empty() {
            true => Ok("all run".to_owned()),
            false => Err(fallen.join("\n")),
        },
    );
    directory::refused(lab, &mut checks)?;
    Ok(checks)
}

/// GoBGP and ExaBGP peer with every replica: their sessions.
fn listening(lab: &Lab, checks: &mut Checks) -> Result<Lines, Failure> {
    let mut sessions = Lines::new();
    checks.agree(
        "GoBGP and ExaBGP peer with every replica",
        checks.patience(),
        &["all".to_owned()].into(),
        || {
            sessions = bystanders::sessions(lab)?;
            match bystanders::all_up(&sessions) {
                true => Ok(["all".to_owned()].into()),
                false => Ok(sessions.clone()),
            }
        },
    )?;
    checks.agree("GoBGP has the leaf's route", SOON, &gobgp_own(), || {
        bystanders::gobgp_routes(lab)
    })?;
    Ok(sessions)
}

/// They hear nothing any more of what was said.
fn listened(lab: &Lab, when: &str, sessions: &Lines, checks: &mut Checks) -> Result<(), Failure> {
    let name = format!("{when}: GoBGP has the leaf's route only");
    checks.agree(&name, SOON, &gobgp_own(), || bystanders::gobgp_routes(lab))?;
    undisturbed(lab, when, sessions, checks)?;
    let name = format!("{when}: the leaf's sessions were never reset");
    checks.agree(&name, Duration::ZERO, &self::sessions(), || {
        witness::leaf_sessions(lab)
    })?;
    Ok(())
}

/// Their sessions are the same as ever.
fn undisturbed(
    lab: &Lab,
    when: &str,
    sessions: &Lines,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let name = format!("{when}: sessions of GoBGP and ExaBGP are the first ones");
    checks.agree(&name, Duration::ZERO, sessions, || {
        bystanders::sessions(lab)
    })?;
    Ok(())
}

/// What GoBGP has without rogues.
fn gobgp_own() -> Lines {
    let key = format!("[type:multicast][rd:{LEAF_ADDRESS}:100][etag:0][ip:{LEAF_ADDRESS}]");
    [format!("{key}, 3 paths")].into()
}

/// What is left when the rogues have gone: the leaf's route, and nothing else anywhere.
fn gone(lab: &Lab, when: &str, checks: &mut Checks) -> Result<(), Failure> {
    let name = format!("{when}: every replica has the leaf's route only");
    checks.agree(&name, SOON, &before(), || witness::everywhere(lab))?;
    let own: Lines = [format!("{LEAF_ADDRESS}:100 {LEAF_ROUTE}, 1 paths")].into();
    let name = format!("{when}: the leaf has its own route only");
    checks.agree(&name, SOON, &own, || witness::leaf_routes(lab))?;
    Ok(())
}

/// The leaf's sessions as they were at the beginning.
fn sessions() -> Lines {
    let of = |(name, _): &(&str, Ipv4Addr)| {
        format!("{LEAF} to {name}: Established, up 1, lost 0, NOTIFICATIONs 0 sent 0 received")
    };
    REPLICAS.iter().map(of).collect()
}

/// Every replica's table without rogues.
fn before() -> Lines {
    let of = |(name, _): &(&str, Ipv4Addr)| format!("{name}: {LEAF_ADDRESS} {LEAF_ROUTE}");
    REPLICAS.iter().map(of).collect()
}

/// How a person looks around in the lab.
pub(super) fn hint(lab: &Lab) -> Result<String, Failure> {
    let namespace = &lab.namespace(LEAF)?.0;
    Ok(format!(
        "to look around:\n    ip netns exec {namespace} vtysh -N {namespace} -c 'show bgp l2vpn evpn'"
    ))
}

const REPLICAS: [(&str, Ipv4Addr); 3] = [
    ("weft1", Ipv4Addr::new(10, 255, 1, 1)),
    ("weft2", Ipv4Addr::new(10, 255, 1, 2)),
    ("weft3", Ipv4Addr::new(10, 255, 1, 3)),
];

/// The peer that behaves.
const LEAF: &str = "leaf1";
const LEAF_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 11);
const LEAF_ROUTE: &str = "[3]:[0]:[32]:[10.255.0.11]";

/// The node from which everything else is said.
const ROGUE: &str = "rogue";
const ROGUE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 255, 255, 1);

/// Thousands of routes pass through three replicas and FRR, on a machine that does other things too.
const SOON: Duration = Duration::from_secs(20);
