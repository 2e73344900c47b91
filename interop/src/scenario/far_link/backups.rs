//! A drained spine is what leaves fall back to: the link to the only other one goes down while nobody speaks for weft, and packets take
//! the drained one at once, and none of the ways that weft was not told of.

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{Faults, REPLICAS, TABLE, mode, switch, weights};
use crate::{
    check::Checks,
    clock,
    expect::Lines,
    failure::Failure,
    lab::Lab,
    weft::{Client, field},
};

/// The first spine of two is drained, and its link is all that is left.
pub(super) fn check(lab: &mut Lab, faults: &Faults, checks: &mut Checks) -> Result<(), Failure> {
    let traffic = &faults.traffic;
    let [drained, other, ..] = traffic.uplinks.as_slice() else {
        return Err(Failure::new("fewer than two uplinks"));
    };
    mode::said(lab, &["switch", "down", SPINE])?;
    let name = format!("{SPINE} is drained: {} uses the other one", traffic.leaf);
    ways(lab, faults, (&name, checks.patience()), other, checks)?;
    let planned: Lines = [SPINE.to_owned()].into();
    checks.agree(
        "plan show says what is left while none of these is usable",
        checks.patience(),
        &planned,
        || fallen_back_to(lab, faults),
    )?;
    silence(lab, Signal::SIGSTOP)?;
    lab.run(&traffic.leaf, &["ip", "link", "set", other, "down"])?;
    let name = format!("weft is silent and {other} goes down: {drained} is used");
    let used = ways(lab, faults, (&name, AT_ONCE), drained, checks)
        .and_then(|()| packets(lab, faults, checks));
    lab.run(&traffic.leaf, &["ip", "link", "set", other, "up"])?;
    silence(lab, Signal::SIGCONT)?;
    used?;
    mode::said(lab, &["switch", "up", SPINE])?;
    weights::declare(lab, faults, checks)
}

/// Waits until the leaf sends to the VTEP over this uplink alone.
fn ways(
    lab: &Lab,
    faults: &Faults,
    (name, within): (&str, Duration),
    uplink: &str,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let traffic = &faults.traffic;
    let expected: Lines = [uplink.to_owned()].into();
    checks.agree(name, within, &expected, || {
        let vtep = traffic.vtep.to_string();
        let found = switch::ways(lab, &traffic.leaf, TABLE, &vtep)?;
        Ok([found.join(" ")].into())
    })?;
    Ok(())
}

/// The neighbours that the plan of the leaf falls back to on its way to the VTEP.
fn fallen_back_to(lab: &Lab, faults: &Faults) -> Result<Lines, Failure> {
    let traffic = &faults.traffic;
    let (replica, address) = REPLICAS[0];
    let client = Client::of(lab, replica, &address.to_string())?;
    let plans = client.list(&["plan", "show", "--leaf", &traffic.leaf])?;
    let prefix = format!("{}/32", traffic.vtep);
    let flat = |of: &Value, name: &str| of[name].as_array().cloned().unwrap_or_default();
    let entries = plans.iter().flat_map(|plan| flat(plan, "entries"));
    let entries = entries.filter(|entry| field(entry, "prefix") == prefix);
    let members = entries.flat_map(|entry| flat(&entry, "backup_members"));
    Ok(members
        .map(|member| field(&member, "neighbor_switch_name"))
        .collect())
}

/// Every replica stands still, or goes on.
fn silence(lab: &mut Lab, signal: Signal) -> Result<(), Failure> {
    REPLICAS
        .iter()
        .try_for_each(|(replica, _)| lab.signal(replica, Some("weftd"), signal))
}

/// Packets to the VTEP leave over the drained spine's link, and no other.
fn packets(lab: &Lab, faults: &Faults, checks: &mut Checks) -> Result<(), Failure> {
    let (start, traffic) = (Instant::now(), &faults.traffic);
    let before = lab.namespace(&traffic.leaf)?.sent()?;
    let from = lab.namespace(&traffic.from)?;
    weights::send(from, &[TO], PORTS)?;
    clock::pause(weights::ARRIVED)?;
    let after = lab.namespace(&traffic.leaf)?.sent()?;
    let octets = weights::octets(&traffic.uplinks, &before, &after);
    let said = format!("octets {octets:?} over {}", traffic.uplinks.join(" "));
    let elsewhere: u64 = octets.iter().skip(1).sum();
    // Keepalives and ARP go over the others.
    let verdict = match octets[0] >= SENT && elsewhere * 10 <= octets[0] {
        true => Ok(said),
        false => Err(format!(
            "expected: at least {SENT} over the first, a tenth of it elsewhere\nactual:   {said}"
        )),
    };
    checks.record("packets take the drained spine alone", start, verdict);
    Ok(())
}

/// Behind the first uplink.
const SPINE: &str = "spine1";

/// The host at the VTEP.
const TO: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 3);

const PORTS: std::ops::Range<u16> = 20_000..20_000 + 640;

/// 640 packets of 200 octets and more.
const SENT: u64 = 640 * 200;

/// Far less than the lease of weft-agent, after which FRR alone routes.
const AT_ONCE: Duration = Duration::from_secs(4);
