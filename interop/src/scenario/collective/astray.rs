//! A leaf that sends packets elsewhere than their pins say: weft measures that, and leaves its jobs to weights.

use serde_json::Value;

use super::{
    fabric::{self, Balance, Flow, Pattern, client},
    transfer::Running,
};
use crate::{check::Checks, expect::Lines, failure::Failure, lab::Lab, weft::field};

/// All that leaf1 sends goes over one uplink, by a rule of somebody else's.
pub(super) fn check(lab: &Lab, ring: &[u8], checks: &mut Checks) -> Result<(), Failure> {
    fabric::enter(lab, Balance::On, checks)?;
    fabric::run(lab, &Pattern::Ring("astray", ring.to_vec()), checks)?;
    let flows = fabric::pinned(lab)?;
    let of_leaf: Vec<Flow> = flows
        .into_iter()
        .filter(|flow| flow.from_leaf == LEAF)
        .collect();
    let traffic = Running::endless(lab, &of_leaf)?;
    rule(lab, "add")?;
    let weighted: Lines = ["vni-100 weighted", "vni-200 weighted"]
        .map(str::to_owned)
        .into();
    checks.agree(
        "packets of leaf1 leave elsewhere than by their pins: its jobs are left to weights",
        checks.patience() * 2,
        &weighted,
        || off_plan(lab),
    )?;
    drop(traffic);
    rule(lab, "del")?;
    fabric::ended(lab, checks)
}

/// The jobs that are left to weights for what is measured at the leaf.
fn off_plan(lab: &Lab) -> Result<Lines, Failure> {
    let mut lines = Lines::new();
    for job in ["vni-100", "vni-200"] {
        let shown = client(lab)?.answer(&["job", "show", job])?;
        let plan: &Value = &shown["job_plan"];
        let is_off = field(plan, "reason").contains(LEAF);
        let state = match field(plan, "state").as_str() {
            "JOB_PLAN_STATE_WEIGHTED" if is_off => "weighted".to_owned(),
            state => format!("{state}: {}", field(plan, "reason")),
        };
        lines.insert(format!("{job} {state}"));
    }
    Ok(lines)
}

fn rule(lab: &Lab, word: &str) -> Result<(), Failure> {
    let route = [
        "ip",
        "route",
        word,
        "10.255.0.0/24",
        "via",
        SPINE,
        "table",
        TABLE,
    ];
    let rule = [
        "ip",
        "rule",
        word,
        "to",
        "10.255.0.0/24",
        "priority",
        "100",
        "table",
        TABLE,
    ];
    lab.run(LEAF, &route)?;
    lab.run(LEAF, &rule).map(drop)
}

const LEAF: &str = "leaf1";
/// The address of spine1 on its link with leaf1.
const SPINE: &str = "10.0.1.0";
/// A routing table that neither FRR nor weft uses.
const TABLE: &str = "99";
