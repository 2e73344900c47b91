//! The lab `collective`: how long a collective takes, with FRR alone, with weights and with pins, and over which uplinks the
//! packets of a pin leave. What is compared stands in `collective.yaml`.

mod astray;
mod condition;
mod fabric;
mod kept_free;
mod transfer;
mod ways;

use std::{collections::BTreeMap, fs, path::Path, time::Instant};

use serde::Deserialize;

use crate::{
    check::Checks,
    clock,
    failure::{Context, Failure},
    lab::Lab,
    sabotage::{self, Break},
};

use super::Form;
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
    /// Seconds that a NIC sends at its rate in an all-to-all, if nothing is in the way.
    seconds_shared: f64,
    /// How many times what is best a pattern may take with pins.
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

/// Every check of the lab, in this form.
pub(super) fn check(
    lab: &mut Lab,
    plan: &Plan,
    form: Form,
    sabotage: Option<Break>,
) -> Result<Checks, Failure> {
    let mut checks = Checks::default();
    fabric::introduce(lab, &mut checks)?;
    match form {
        Form::Long => long(lab, plan, sabotage, &mut checks)?,
        Form::Short => short(lab, plan, sabotage, &mut checks)?,
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

/// A ring while all is well, and queue pairs that divide flows while a link has half of its rate.
fn short(
    lab: &Lab,
    plan: &Plan,
    sabotage: Option<Break>,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let [ring, ..] = plan.patterns();
    compare(lab, plan, (Condition::Healthy, &ring), sabotage, checks)?;
    Condition::HalfRate.begin(lab, checks)?;
    divided(lab, plan, sabotage, checks)?;
    Condition::HalfRate.end(lab, checks)
}

/// Storage, and every pattern in every condition.
fn long(
    lab: &Lab,
    plan: &Plan,
    sabotage: Option<Break>,
    checks: &mut Checks,
) -> Result<(), Failure> {
    // First, while nothing is kept free for what other parts of the lab send without a job.
    kept_free::check(lab, plan, checks)?;
    for condition in Condition::ALL {
        condition.begin(lab, checks)?;
        for pattern in plan.patterns() {
            compare(lab, plan, (condition, &pattern), sabotage, checks)?;
        }
        match condition {
            Condition::Healthy => astray::check(lab, &plan.rings.ring, checks)?,
            // Four NICs of a leaf send more than three and a half uplinks carry: flows have to be divided.
            Condition::HalfRate => divided(lab, plan, sabotage, checks)?,
            Condition::LinkDown => {}
        }
        condition.end(lab, checks)?;
    }
    Ok(())
}

/// Where queue pairs of flows go that are divided by them.
fn divided(
    lab: &Lab,
    plan: &Plan,
    sabotage: Option<Break>,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let pattern = Pattern::QueuePairs(plan.rings.ring.clone());
    fabric::enter(lab, Balance::On, checks)?;
    if sabotage == Some(Break::Unpinned) {
        sabotage::stand_still(lab, astray::LEAF)?;
    }
    fabric::run(lab, &pattern, checks)?;
    ways::follow(lab, plan, (Condition::HalfRate, &pattern), checks)?;
    if sabotage == Some(Break::Unpinned) {
        sabotage::go_on(lab, astray::LEAF)?;
    }
    fabric::ended(lab, checks)
}

/// How long a pattern takes with FRR alone, with weights and with pins, in the same minute.
fn compare(
    lab: &Lab,
    plan: &Plan,
    (condition, pattern): (Condition, &Pattern),
    sabotage: Option<Break>,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let start = Instant::now();
    fabric::enter(lab, Balance::On, checks)?;
    if sabotage == Some(Break::Unpinned) {
        println!("  break {}: weft-agent stands still", astray::LEAF);
        sabotage::stand_still(lab, astray::LEAF)?;
    }
    fabric::run(lab, pattern, checks)?;
    if sabotage == Some(Break::Astray) {
        println!("  break {}: all that it sends goes over eth1", astray::LEAF);
        astray::rule(lab, "add")?;
    }
    let flows = fabric::pinned(lab)?;
    let payload_bps = plan.link_bps * plan.payload;
    let seconds = match pattern {
        Pattern::AllToAll => plan.seconds_shared,
        Pattern::Ring(..) | Pattern::QueuePairs(_) => plan.seconds,
    };
    let of_flow = payload_bps / 8.0 * seconds / most_shared(Condition::Healthy, &flows);
    let time = || transfer::time(lab, &flows, of_flow as u64);
    let ideal = of_flow * 8.0 * most_shared(condition, &flows) / payload_bps;
    // Something else may have had the machine.
    let best = || -> Result<f64, Failure> {
        let mut best = time()?;
        for _ in 1..MEASURED_MOST {
            if best > plan.pins * ideal {
                best = best.min(time()?);
            }
        }
        Ok(best)
    };
    let pins = best()?;
    // Flows share NICs there, which TCP does not share evenly.
    let non_blocking = match (condition, pattern) {
        (Condition::Healthy, Pattern::AllToAll) => Some(condition::with_wide_links(lab, best)?),
        _ => None,
    };
    ways::follow(lab, plan, (condition, pattern), checks)?;
    if sabotage == Some(Break::Unpinned) {
        sabotage::stand_still(lab, ANOTHER)?;
    }
    fabric::ended(lab, checks)?;
    if sabotage == Some(Break::Unpinned) {
        sabotage::go_on(lab, astray::LEAF)?;
        sabotage::go_on(lab, ANOTHER)?;
    }
    let weights = time()?;
    fabric::enter(lab, Balance::Off, checks)?;
    let times = Times {
        ideal,
        non_blocking,
        pins,
        weights,
        hashing: time()?,
    };
    let name = format!(
        "{} {}: pins are near the ideal",
        condition.name(),
        pattern.name()
    );
    let answer = times.judged(plan);
    let answer = answer.map(|said| format!("{} flows, {said}", flows.len()));
    checks.record(&name, start, answer);
    clock::go_on()
}

/// Seconds that a pattern takes.
struct Times {
    /// With the best place for each flow.
    ideal: f64,
    /// While nothing but NICs is in the way, where that was measured.
    non_blocking: Option<f64>,
    pins: f64,
    weights: f64,
    hashing: f64,
}

impl Times {
    fn judged(&self, plan: &Plan) -> Result<String, String> {
        let times = [self.hashing, self.weights, self.pins];
        let [hashing, weights, pins] = times.map(|time| time / self.ideal);
        let mut said = format!(
            "{:.1} s at best: {hashing:.2} times that by hashing, {weights:.2} with weights, {pins:.2} with pins",
            self.ideal
        );
        let non_blocking = self.non_blocking.unwrap_or(self.ideal);
        if let Some(time) = self.non_blocking {
            let times = time / self.ideal;
            said = format!("{said}, {times:.2} where nothing but NICs is in the way");
        }
        let near = self.pins <= plan.pins * non_blocking || hashing < plan.hashing;
        let no_worse = self.pins <= plan.pins * self.hashing;
        // Else something else had the machine, and nothing is known.
        let known = non_blocking <= NON_BLOCKING_MOST * self.ideal;
        match near && no_worse && known {
            true => Ok(said),
            false => Err(format!(
                "expected: pins take at most {0} times what is best, where hashing takes {1} times the ideal; and at most {0} times what hashing takes; NICs alone take at most {NON_BLOCKING_MOST} times the ideal\nactual:   {said}",
                plan.pins, plan.hashing
            )),
        }
    }
}

/// How many flows share the fullest NIC or the uplinks of a leaf, in any placement.
fn most_shared(condition: Condition, flows: &[Flow]) -> f64 {
    let nics: [fn(&Flow) -> &str; 2] = [|flow| &flow.from, |flow| &flow.to];
    let of_nic = nics.map(|nic| counts(flows, nic).into_values().max());
    let of_nic = of_nic.into_iter().flatten().max().unwrap_or(1);
    let mut most = f64::from(of_nic);
    let leaves: [fn(&Flow) -> &str; 2] = [|flow| &flow.from_leaf, |flow| &flow.to_leaf];
    for leaf in leaves {
        for (name, flows) in counts(flows, leaf) {
            most = most.max(condition.shared(name, flows));
        }
    }
    most
}

/// How many flows there are of each kind.
fn counts<'a, K: Ord>(
    flows: impl IntoIterator<Item = &'a Flow>,
    kind: impl Fn(&'a Flow) -> K,
) -> BTreeMap<K, u32> {
    let mut counts = BTreeMap::new();
    for flow in flows {
        *counts.entry(kind(flow)).or_default() += 1;
    }
    counts
}

/// How many times the ideal NICs alone may take: TCP does not share them evenly, but not worse than that.
const NON_BLOCKING_MOST: f64 = 1.25;
/// A leaf whose agent stands still when jobs end, if that is broken.
const ANOTHER: &str = "leaf2";
/// How often a pattern is measured with pins, at most.
const MEASURED_MOST: usize = 5;

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
            paths: String::new(),
            ports: Vec::new(),
        }
    }

    #[test]
    fn pins_are_near_what_is_best_and_no_worse_than_hashing() {
        let plan = Plan {
            link_bps: 1.0,
            payload: 1.0,
            seconds: 4.0,
            seconds_shared: 8.0,
            pins: 1.1,
            hashing: 1.5,
            packets: 1,
            rings: Rings {
                ring: Vec::new(),
                permutation: Vec::new(),
            },
        };
        let good = |non_blocking, pins, hashing| {
            let times = Times {
                ideal: 4.0,
                non_blocking,
                pins,
                weights: 4.0,
                hashing,
            };
            times.judged(&plan).is_ok()
        };
        assert!(good(None, 4.4, 8.0) && !good(None, 4.5, 8.0));
        // NICs alone take longer than if they were full until the end.
        assert!(good(Some(4.2), 4.5, 8.0) && !good(Some(4.2), 4.7, 8.0));
        assert!(!good(Some(5.2), 4.5, 8.0));
        // Hashing does well.
        assert!(good(None, 5.0, 5.0) && !good(None, 5.6, 5.0));
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

    #[test]
    fn the_ideal_of_an_all_to_all() {
        // Of two VNIs, as the lab has them: 24 flows leave each leaf.
        let mut all = Vec::new();
        for vni in ["a", "b"] {
            let pairs = (1..=8_u8).flat_map(|from| (1..=8_u8).map(move |to| (from, to)));
            let apart = pairs.filter(|(from, to)| from.div_ceil(2) != to.div_ceil(2));
            all.extend(apart.map(|(from, to)| Flow {
                from: format!("{vni}{from}"),
                to: format!("{vni}{to}"),
                ..flow(from, to)
            }));
        }
        assert_eq!(most_shared(Condition::Healthy, &all), 6.0);
        assert_eq!(most_shared(Condition::LinkDown, &all), 8.0);
        assert_eq!(most_shared(Condition::HalfRate, &all), 7.0);
    }
}
