//! With weft or with FRR alone, and when the change is complete.

use std::time::Duration;

use super::{Faults, LEAVES, REPLICAS, TABLE, switch};
use crate::{check::Checks, expect::Lines, failure::Failure, lab::Lab, weft::Client};

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
        || said(lab, &["fabric", "apply", &path]).map(|_| accepted.clone()),
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
            let all: Lines = ["all".to_owned()].into();
            checks.agree("with weft: every leaf routes by it", PATIENCE, &all, || {
                Ok(unready(lab, faults)?.unwrap_or_else(|| all.clone()))
            })
        }
    }
}

/// What keeps the leaves from routing by weft's tables. None: nothing.
pub(super) fn unready(lab: &Lab, faults: &Faults) -> Result<Option<Lines>, Failure> {
    switch::lacking(lab, TABLE, &faults.traffic.uplinks)
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

/// A change of who routes takes a second; a machine that does other things is given longer.
const PATIENCE: Duration = Duration::from_secs(20);
