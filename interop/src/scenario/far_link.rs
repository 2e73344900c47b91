//! The lab `far-link`: what breaks away from a leaf, with weft on that leaf and with FRR alone, in packets that were
//! lost. What breaks stands in `faults.yaml`.

mod backups;
mod compare;
mod fault;
mod groups;
mod mode;
mod paths;
mod silence;
mod switch;
mod weights;

use std::{fs, net::Ipv4Addr, path::Path, time::Instant};

use serde::Deserialize;

use crate::{
    check::Checks,
    expect::Lines,
    failure::{Context, Failure},
    flows::Route,
    lab::Lab,
    sabotage::Break,
    tables::AGENT_TABLE as TABLE,
};

use super::Form;
use fault::Row;

/// `faults.yaml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Faults {
    traffic: Traffic,
    /// How many times what FRR alone loses may be lost with weft.
    ratio: f64,
    faults: Vec<Row>,
}

/// The packets that count what a fault costs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Traffic {
    from: String,
    to: String,
    address: Ipv4Addr,
    leaf: String,
    agent: String,
    vtep: Ipv4Addr,
    uplinks: Vec<String>,
    flows: usize,
    packets_per_second: u32,
}

impl Faults {
    /// The faults of a lab, or None where it has no such file.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, Failure> {
        let path = folder.join("faults.yaml");
        if !path.is_file() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).context(|| path.display().to_string())?;
        serde_yaml_ng::from_str(&text)
            .map(Some)
            .context(|| path.display().to_string())
    }

    /// The faults of a form of the lab.
    fn of(&self, form: Form) -> Self {
        let mut faults = self.clone();
        faults.faults.retain(|row| form == Form::Long || row.short);
        faults
    }
}

impl Traffic {
    fn route(&self, lab: &Lab) -> Result<Route, Failure> {
        Ok(Route {
            from: lab.namespace(&self.from)?.clone(),
            to: lab.namespace(&self.to)?.clone(),
            address: self.address,
        })
    }
}

/// Every check of the lab, in this form.
pub(super) fn check(
    lab: &mut Lab,
    faults: &Faults,
    form: Form,
    runs: u32,
    sabotage: Option<Break>,
) -> Result<Checks, Failure> {
    let mut checks = Checks::default();
    let faults = &faults.of(form);
    introduce(lab, faults, &mut checks)?;
    let is_blind = sabotage == Some(Break::FarLinkBlind);
    if sabotage.is_none() || is_blind {
        compare::faults(lab, faults, runs, sabotage, &mut checks)?;
    }
    weights::declare(lab, faults, &mut checks)?;
    if !is_blind {
        weights::hold(lab, faults, sabotage, &mut checks)?;
    }
    if sabotage.is_none() && form == Form::Long {
        backups::check(lab, faults, &mut checks)?;
        groups::check(lab, faults, &mut checks)?;
    }
    silence::agent_killed(lab, faults, sabotage, &mut checks)?;
    if !is_blind && form == Form::Long {
        silence::replicas_silent(lab, faults, &mut checks)?;
    }
    let fallen = lab.fallen();
    checks.record(
        "no program ended by itself",
        Instant::now(),
        match fallen.is_empty() {
            true => Ok("all run".to_owned()),
            false => Err(fallen.join("\n")),
        },
    );
    Ok(checks)
}

/// Waits until FRR has all ways and every host can be reached, and lets flows spread over FRR's next hops.
fn introduce(lab: &Lab, faults: &Faults, checks: &mut Checks) -> Result<(), Failure> {
    let all: Lines = ["all".to_owned()].into();
    checks.agree(
        "FRR has all ways to every VTEP",
        checks.patience(),
        &all,
        || Ok(switch::missing(lab, &faults.traffic.uplinks)?.unwrap_or_else(|| all.clone())),
    )?;
    for leaf in LEAVES {
        let file = lab.files.join(SPREAD).display().to_string();
        lab.run(leaf, &["nft", "-f", &file])?;
    }
    let reached: Lines = ["reached".to_owned()].into();
    checks.agree(
        "hosts reach each other through VXLAN",
        checks.patience(),
        &reached,
        || {
            for to in 1..=LEAVES.len() {
                let to = format!("192.0.2.{to}");
                lab.run(&faults.traffic.from, &["ping", "-c", "1", "-W", "1", &to])?;
            }
            Ok(reached.clone())
        },
    )?;
    mode::declare(lab, "fabric.yaml", checks).map(drop)
}

/// How a person looks around in the lab.
pub(super) fn hint(lab: &Lab) -> Result<String, Failure> {
    let leaf = &lab.namespace(LEAVES[0])?.0;
    Ok(format!(
        "to look around:\n    ip netns exec {leaf} ip route show table {TABLE}\n    ip netns exec {leaf} vtysh -N {leaf} -c 'show ip route'"
    ))
}

const LEAVES: [&str; 4] = ["leaf1", "leaf2", "leaf3", "leaf4"];

/// Port `ethN` of each is cabled to leaf N.
const SPINES: [&str; 4] = ["spine1", "spine2", "spine3", "spine4"];

const REPLICAS: [(&str, Ipv4Addr); 3] = [
    ("weft1", Ipv4Addr::new(10, 255, 1, 1)),
    ("weft2", Ipv4Addr::new(10, 255, 1, 2)),
    ("weft3", Ipv4Addr::new(10, 255, 1, 3)),
];

/// The lab's own packet marks.
const SPREAD: &str = "spread.nft";
