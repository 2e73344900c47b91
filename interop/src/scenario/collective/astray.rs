//! Flows at the rate of their NICs, which weft sees; and a leaf that sends packets elsewhere than their pins say: weft measures that,
//! and leaves its jobs to weights.

use serde_json::Value;

use super::{
    fabric::{self, Balance, Flow, Pattern, client, host},
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
    let seen: Lines = of_leaf
        .iter()
        .map(|flow| format!("{} {} by its pin", flow.from, flow.to))
        .collect();
    checks.agree(
        "weft sees each flow of leaf1 at the rate of its NIC",
        checks.patience(),
        &seen,
        || fast(lab),
    )?;
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

/// Flows of the leaf that are seen at the rate of a NIC, or so, and the way that they go.
fn fast(lab: &Lab) -> Result<Lines, Failure> {
    let mut lines = Lines::new();
    for job in ["vni-100", "vni-200"] {
        for flow in client(lab)?.list(&["job", "show", job, "--flows"])? {
            let seen = &flow["seen_bps"];
            let text = seen.as_str().and_then(|text| text.parse().ok());
            let seen_bps: Option<u64> = text.or_else(|| seen.as_u64());
            let ends = ["source_host_port_name", "destination_host_port_name"];
            let [Some((from, _)), Some((to, _))] = ends.map(|end| host(&field(&flow, end))) else {
                continue;
            };
            if field(&flow, "source_leaf_name") != LEAF {
                continue;
            }
            let way = match (field(&flow, "way").as_str(), seen_bps) {
                ("FLOW_WAY_PINS", Some(bps)) if NIC_BPS.contains(&bps) => "by its pin".to_owned(),
                (way, bps) => format!("{way}, at {bps:?}"),
            };
            lines.insert(format!("{from} {to} {way}"));
        }
    }
    Ok(lines)
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

/// Adds or deletes (`word`) the rule of somebody else's.
pub(super) fn rule(lab: &Lab, word: &str) -> Result<(), Failure> {
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

pub(super) const LEAF: &str = "leaf1";
/// What a NIC of 50 Mb/s sends, as frames within VXLAN: uplinks have headers beside them.
const NIC_BPS: std::ops::Range<u64> = 35_000_000..55_000_000;
/// The address of spine1 on its link with leaf1.
const SPINE: &str = "10.0.1.0";
/// A routing table that neither FRR nor weft uses.
const TABLE: &str = "99";
