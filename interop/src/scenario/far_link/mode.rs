//! With weft or with FRR alone, and when the change is complete.

use std::{net::Ipv4Addr, time::Duration};

use super::{Faults, LEAVES, REPLICAS, TABLE, switch};
use crate::{check::Checks, clock, expect::Lines, failure::Failure, lab::Lab, weft::Client};

/// Who routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// FRR alone: `weft balance off`.
    Frr,
    /// `weft balance on`.
    Weft,
}

/// Declares a fabric.
pub(super) fn declare(lab: &Lab, file: &str, checks: &mut Checks) -> Result<bool, Failure> {
    let path = lab.files.join(file).display().to_string();
    let accepted: Lines = ["accepted".to_owned()].into();
    checks.agree(
        &format!("weft accepts {file}"),
        checks.patience(),
        &accepted,
        || said(lab, &["fabric", "apply", &path, "--prune", "--yes"]).map(|_| accepted.clone()),
    )
}

/// Changes who routes, and waits until it is so.
pub(super) fn enter(
    lab: &Lab,
    faults: &Faults,
    mode: Mode,
    checks: &mut Checks,
) -> Result<bool, Failure> {
    match mode {
        Mode::Frr => {
            said(lab, &["balance", "off"])?;
            checks.agree(
                "FRR alone: nothing of weft is in any kernel",
                PATIENCE,
                &Lines::new(),
                || traces(lab),
            )
        }
        Mode::Weft => {
            said(lab, &["balance", "on"])?;
            let traffic = &faults.traffic;
            let name = format!("with weft: {} routes by it", traffic.leaf);
            checks.agree(&name, PATIENCE, &expected(faults), || {
                let vtep = traffic.vtep.to_string();
                let found = switch::ways(lab, &traffic.leaf, TABLE, &vtep)?;
                Ok([found.join(" ")].into())
            })
        }
    }
}

/// All ways to the VTEP of the leaf that receives.
fn expected(faults: &Faults) -> Lines {
    [faults.traffic.uplinks.join(" ")].into()
}

/// Waits until a leaf peers with every replica and has from each what the others announce.
pub(super) fn peered(lab: &Lab, leaf: &str, checks: &mut Checks) -> Result<bool, Failure> {
    let all: Lines = REPLICAS
        .iter()
        .map(|(_, at)| format!("{at}: all"))
        .collect();
    let name = format!("{leaf} hears EVPN from every replica again");
    let heard = checks.agree(&name, checks.patience(), &all, || {
        let summary = lab.frr(leaf)?.json("show bgp l2vpn evpn summary json")?;
        let said = |at: &Ipv4Addr| match summary["peers"][at.to_string()]["pfxRcd"].as_u64() {
            Some(received) if received >= EVPN_ROUTES => format!("{at}: all"),
            received => format!("{at}: {}", received.unwrap_or_default()),
        };
        Ok(REPLICAS.iter().map(|(_, at)| said(at)).collect())
    })?;
    clock::pause(SETTLED)?;
    Ok(heard)
}

fn traces(lab: &Lab) -> Result<Lines, Failure> {
    let mut lines = Lines::new();
    for leaf in LEAVES {
        lines.extend(switch::of_weft(lab, leaf)?);
    }
    Ok(lines)
}

/// What `weft` says at the first replica that answers.
pub(super) fn said(lab: &Lab, arguments: &[&str]) -> Result<String, Failure> {
    let mut refused = Failure::new("no replica");
    for (node, address) in REPLICAS {
        match Client::of(lab, node, &address.to_string())?.text(arguments) {
            Ok(text) => return Ok(text),
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Of three other leaves: a multicast route each, and a host each.
const EVPN_ROUTES: u64 = 6;

/// Until zebra has written what EVPN changed.
const SETTLED: Duration = Duration::from_secs(1);

/// A change of who routes takes a second; a machine that does other things is given longer.
const PATIENCE: Duration = Duration::from_secs(20);
