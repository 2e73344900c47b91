//! The lab `collective`: how long a collective takes, with FRR alone, with weights and with pins, and over which uplinks the
//! packets of a pin leave. What is compared stands in `collective.yaml`.

mod astray;
mod condition;
mod fabric;
mod kept_free;
mod transfer;
mod ways;

use std::{fs, path::Path, time::Instant};

use serde::Deserialize;

use crate::{
    check::Checks,
    clock,
    failure::{Context, Failure},
    lab::Lab,
};

use condition::Condition;
use fabric::{Balance, Flow, Pattern};

/// `collective.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Plan {
    /// What a NIC and an uplink carry, in bits per second of frames.
    link_bps: f64,
    /// Octets of TCP payload in an octet of frames on an uplink.
    payload: f64,
    /// Seconds that a NIC sends at its rate, if nothing is in the way.
    seconds: f64,
    /// How many times the ideal a pattern may take with pins.
    pins: f64,
    /// Hashing is bad enough to compare with where it takes so many times the ideal.
    hashing: f64,
    /// Packets of each flow whose uplinks are counted.
    packets: usize,
    /// Orders of the hosts of a VNI; each sends to the next, the last to the first.
    rings: Rings,
}

/// Orders of hosts in which none is followed by one of its own leaf.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Rings {
    ring: Vec<u8>,
    permutation: Vec<u8>,
}

impl Plan {
    /// What a lab compares, or None where it has no such file.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, Failure> {
        let path = folder.join("collective.yaml");
        if !path.is_file() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).context(|| path.display().to_string())?;
        serde_yaml_ng::from_str(&text)
            .map(Some)
            .context(|| path.display().to_string())
    }

    /// The patterns of traffic, in order.
    fn patterns(&self) -> [Pattern; 3] {
        [
            Pattern::Ring("ring", self.rings.ring.clone()),
            Pattern::Ring("permutation", self.rings.permutation.clone()),
            Pattern::AllToAll,
        ]
    }
}

/// Every check of the lab.
pub(super) fn check(lab: &mut Lab, plan: &Plan) -> Result<Checks, Failure> {
    let mut checks = Checks::default();
    fabric::introduce(lab, &mut checks)?;
    // First, while nothing is kept free for what other parts of the lab send without a job.
    kept_free::check(lab, plan, &mut checks)?;
    for condition in Condition::ALL {
        condition.begin(lab, &mut checks)?;
        for pattern in plan.patterns() {
            compare(lab, plan, condition, &pattern, &mut checks)?;
        }
        match condition {
            Condition::Healthy => astray::check(lab, &plan.rings.ring, &mut checks)?,
            // Four NICs of a leaf send more than three and a half uplinks carry: flows have to be divided.
            Condition::HalfRate => divided(lab, plan, &mut checks)?,
            Condition::LinkDown => {}
        }
        condition.end(lab, &mut checks)?;
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

/// Where queue pairs of flows go that are divided by them.
fn divided(lab: &Lab, plan: &Plan, checks: &mut Checks) -> Result<(), Failure> {
    let pattern = Pattern::QueuePairs(plan.rings.ring.clone());
    fabric::enter(lab, Balance::On, checks)?;
    fabric::run(lab, &pattern, checks)?;
    ways::follow(lab, plan, (Condition::HalfRate, &pattern), checks)?;
    fabric::ended(lab, checks)
}

/// How long a pattern takes with FRR alone, with weights and with pins, in the same minute.
fn compare(
    lab: &Lab,
    plan: &Plan,
    condition: Condition,
    pattern: &Pattern,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let start = Instant::now();
    fabric::enter(lab, Balance::On, checks)?;
    fabric::run(lab, pattern, checks)?;
    let flows = fabric::pinned(lab)?;
    let payload_bps = plan.link_bps * plan.payload;
    let of_flow = payload_bps / 8.0 * plan.seconds / most_shared(Condition::Healthy, &flows);
    let time = || transfer::time(lab, &flows, of_flow as u64);
    let ideal = of_flow * 8.0 * most_shared(condition, &flows) / payload_bps;
    let mut pins = time()?;
    for _ in 1..MEASURED_MOST {
        // Something else may have had the machine.
        if pins > plan.pins * ideal {
            pins = pins.min(time()?);
        }
    }
    ways::follow(lab, plan, (condition, pattern), checks)?;
    fabric::ended(lab, checks)?;
    let weights = time()?;
    fabric::enter(lab, Balance::Off, checks)?;
    let hashing = time()?;
    let said = format!(
        "{} flows, {ideal:.1} s at best: {:.2} times that by hashing, {:.2} with weights, {:.2} with pins",
        flows.len(),
        hashing / ideal,
        weights / ideal,
        pins / ideal
    );
    let (what, good, expected) = match pattern {
        Pattern::Ring(..) | Pattern::QueuePairs(_) => (
            "pins are near the ideal",
            pins <= plan.pins * ideal || hashing < plan.hashing * ideal,
            format!(
                "at most {} times the ideal with pins, or less than {} times by hashing",
                plan.pins, plan.hashing
            ),
        ),
        // Flows share NICs here, and TCP does not share them evenly.
        Pattern::AllToAll => (
            "pins are no worse than hashing",
            pins <= plan.pins * hashing,
            format!("at most {} times what hashing takes", plan.pins),
        ),
    };
    let name = format!("{} {}: {what}", condition.name(), pattern.name());
    let answer = match good {
        true => Ok(said),
        false => Err(format!("expected: {expected}\nactual:   {said}")),
    };
    checks.record(&name, start, answer);
    clock::go_on()
}

/// How many whole flows share the fullest NIC or the uplinks of a leaf, in any placement.
fn most_shared(condition: Condition, flows: &[Flow]) -> f64 {
    let count = |of: &dyn Fn(&Flow) -> String| {
        let mut counts = std::collections::BTreeMap::<String, u32>::new();
        flows
            .iter()
            .for_each(|flow| *counts.entry(of(flow)).or_default() += 1);
        counts
    };
    let nics = [
        count(&|flow| flow.from.clone()),
        count(&|flow| flow.to.clone()),
    ];
    let leaves = [
        count(&|flow| flow.from_leaf.clone()),
        count(&|flow| flow.to_leaf.clone()),
    ];
    let of_nic = nics.iter().flat_map(|counts| counts.values());
    let of_nic = of_nic.copied().max().unwrap_or(1);
    let of_leaf = leaves.iter().flatten();
    let of_leaf = of_leaf.map(|(leaf, flows)| condition.shared(leaf, *flows));
    of_leaf.fold(f64::from(of_nic), f64::max)
}

/// How often a pattern is measured with pins, at most.
const MEASURED_MOST: usize = 3;

/// How a person looks around in the lab.
pub(super) fn hint(lab: &Lab) -> Result<String, Failure> {
    let client = fabric::client(lab)?;
    let leaf = &lab.namespace("leaf1")?.0;
    Ok(format!(
        "to look around:\n    ip netns exec {leaf} nft list table bridge weft\n    {}",
        client.spelled("pin list")?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(from: u8, to: u8) -> Flow {
        let host = |host: u8| format!("a{host}");
        let leaf = |host: u8| format!("leaf{}", host.div_ceil(2));
        Flow {
            from: host(from),
            to: host(to),
            from_leaf: leaf(from),
            to_leaf: leaf(to),
            spine: String::new(),
            ports: Vec::new(),
        }
    }

    #[test]
    fn the_ideal_follows_the_fullest_nic_or_leaf() {
        let ring = [flow(1, 3), flow(2, 4), flow(3, 1), flow(4, 2)];
        assert_eq!(most_shared(Condition::Healthy, &ring), 1.0);
        // Two flows over three uplinks: each has its own.
        assert_eq!(most_shared(Condition::LinkDown, &ring), 1.0);
        let twice = [flow(1, 3), flow(1, 5), flow(2, 7), flow(2, 4)];
        assert_eq!(most_shared(Condition::Healthy, &twice), 2.0);
        assert_eq!(most_shared(Condition::HalfRate, &twice), 2.0);
    }
}
