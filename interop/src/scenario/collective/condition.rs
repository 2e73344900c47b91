//! What is wrong with the fabric while patterns of traffic are compared.

use super::fabric;
use crate::{check::Checks, failure::Failure, lab::Lab};

/// A state of the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// All links at their rate.
    Healthy,
    /// The link between leaf1 and spine4 is down.
    LinkDown,
    /// The link between leaf1 and spine1 has half of its rate, as declared.
    HalfRate,
}

impl Condition {
    pub(super) const ALL: [Self; 3] = [Self::Healthy, Self::LinkDown, Self::HalfRate];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::LinkDown => "a link down",
            Self::HalfRate => "a link at half rate",
        }
    }

    pub(super) fn begin(self, lab: &Lab, checks: &mut Checks) -> Result<(), Failure> {
        match self {
            Self::Healthy => Ok(()),
            Self::LinkDown => link(lab, "down"),
            Self::HalfRate => {
                rate(lab, "25mbit")?;
                fabric::declare(lab, "fabric-half.yaml", checks)
            }
        }
    }

    pub(super) fn end(self, lab: &Lab, checks: &mut Checks) -> Result<(), Failure> {
        match self {
            Self::Healthy => Ok(()),
            Self::LinkDown => {
                link(lab, "up")?;
                fabric::all_ways(lab, checks)
            }
            Self::HalfRate => {
                rate(lab, RATE)?;
                fabric::declare(lab, "fabric.yaml", checks)
            }
        }
    }

    /// Into how many parts the rate of a link is divided for the slowest of so many flows of a leaf, at best.
    pub(super) fn shared(self, leaf: &str, flows: u32) -> f64 {
        let rates: &[f64] = match self {
            Self::LinkDown if leaf == "leaf1" => &[1.0, 1.0, 1.0],
            Self::HalfRate if leaf == "leaf1" => &[1.0, 1.0, 1.0, 0.5],
            Self::Healthy | Self::LinkDown | Self::HalfRate => &[1.0, 1.0, 1.0, 1.0],
        };
        // One after the other to where it gets most.
        let mut on: Vec<f64> = vec![0.0; rates.len()];
        for _ in 0..flows {
            let share = |at: &usize| (on[*at] + 1.0) / rates[*at];
            let best = (0..rates.len()).min_by(|a, b| share(a).total_cmp(&share(b)));
            on[best.expect("there are links")] += 1.0;
        }
        let shared = on.iter().zip(rates).map(|(on, rate)| on / rate);
        shared.fold(1.0, f64::max)
    }
}

fn link(lab: &Lab, state: &str) -> Result<(), Failure> {
    lab.run("leaf1", &["ip", "link", "set", "eth4", state])
        .map(drop)
}

fn rate(lab: &Lab, rate: &str) -> Result<(), Failure> {
    ["leaf1", "spine1"]
        .iter()
        .try_for_each(|node| shape(lab, node, "eth1", rate))
}

/// Does something while links between leaves and spines carry twenty times what NICs do: nothing but NICs is in the way.
pub(super) fn with_wide_links<T>(
    lab: &Lab,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let all = |rate: &str| {
        for number in 1..=4 {
            for node in [format!("leaf{number}"), format!("spine{number}")] {
                let mut links = (1..=4).map(|link| format!("eth{link}"));
                links.try_for_each(|link| shape(lab, &node, &link, rate))?;
            }
        }
        Ok::<_, Failure>(())
    };
    all("1gbit")?;
    let done = work();
    all(RATE)?;
    done
}

fn shape(lab: &Lab, node: &str, interface: &str, rate: &str) -> Result<(), Failure> {
    let mut change = vec!["tc", "qdisc", "change", "dev", interface, "root", "tbf"];
    change.extend(["rate", rate, "burst", "128kb", "latency", "100ms"]);
    lab.run(node, &change).map(drop)
}

/// What a link carries each way if nothing is wrong with it, as `tc` writes it; `shape.sh` has it, too.
const RATE: &str = "50mbit";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_flows_share_what_is_left() {
        let shared = |condition: Condition, flows| condition.shared("leaf1", flows);
        assert_eq!(shared(Condition::Healthy, 4), 1.0);
        assert_eq!(shared(Condition::Healthy, 5), 2.0);
        assert_eq!(shared(Condition::LinkDown, 4), 2.0);
        assert_eq!(shared(Condition::HalfRate, 3), 1.0);
        assert_eq!(shared(Condition::HalfRate, 4), 2.0);
        assert_eq!(Condition::LinkDown.shared("leaf2", 4), 1.0);
        // Over three and a half links: seven and three.
        assert_eq!(shared(Condition::HalfRate, 24), 7.0);
    }
}
