//! Weights of 1 to 3 over two uplinks, in octets that left through VXLAN.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    ops::Range,
    time::{Duration, Instant},
};

use super::{Faults, LEAVES, SPREAD, TABLE, mode, switch};
use crate::{
    check::Checks,
    clock,
    expect::Lines,
    failure::{Context, Failure},
    flows,
    lab::Lab,
    namespace::{Namespace, Sent},
    sabotage::{self, Break},
};

/// Declares two spines of which one has links of three times the capacity, and waits until the leaves have the weights.
pub(super) fn declare(lab: &Lab, faults: &Faults, checks: &mut Checks) -> Result<(), Failure> {
    mode::declare(lab, "fabric-weights.yaml", checks)?;
    mode::said(lab, &["balance", "on"])?;
    let two: Vec<String> = faults.traffic.uplinks.iter().take(2).cloned().collect();
    let all: Lines = ["all".to_owned()].into();
    checks.agree(
        "with weft: every leaf uses two uplinks",
        checks.patience(),
        &all,
        || Ok(switch::lacking(lab, TABLE, &two)?.unwrap_or_else(|| all.clone())),
    )?;
    Ok(())
}

/// Octets per uplink of many flows, without the lab's own packet marks: weft's alone make weights hold.
pub(super) fn hold(
    lab: &Lab,
    faults: &Faults,
    sabotage: Option<Break>,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let leaf = &faults.traffic.leaf;
    lab.run(leaf, &["nft", "delete", "table", "bridge", "lab"])?;
    if sabotage == Some(Break::Marks) {
        sabotage::marks(lab, leaf)?;
    }
    let start = Instant::now();
    let before = lab.namespace(leaf)?.sent()?;
    let hosts = 2..=LEAVES.len();
    let hosts = hosts.map(|host| u8::try_from(host).expect("there are four leaves"));
    let hosts: Vec<Ipv4Addr> = hosts.map(|host| Ipv4Addr::new(192, 0, 2, host)).collect();
    let from = lab.namespace(&faults.traffic.from)?;
    send(from, &hosts, FIRST_PORT..LAST_PORT)?;
    clock::pause(ARRIVED)?;
    let after = lab.namespace(leaf)?.sent()?;
    let octets = octets(&faults.traffic.uplinks, &before, &after);
    checks.record(
        "octets through VXLAN are within 5 % of 1 to 3",
        start,
        verdict(&octets),
    );
    let file = lab.files.join(SPREAD).display().to_string();
    lab.run(leaf, &["nft", "-f", &file]).map(drop)
}

/// Octets that each uplink sent between two readings.
pub(super) fn octets(
    uplinks: &[String],
    before: &BTreeMap<String, Sent>,
    after: &BTreeMap<String, Sent>,
) -> Vec<u64> {
    let of = |sent: &BTreeMap<String, Sent>, uplink: &String| {
        sent.get(uplink).map_or(0, |sent| sent.octets)
    };
    let sent = |uplink: &String| of(after, uplink).saturating_sub(of(before, uplink));
    uplinks.iter().map(sent).collect()
}

/// One packet of each flow, 64 source ports after another, to each host. How many ports there are is a multiple of 64.
pub(super) fn send(from: &Namespace, hosts: &[Ipv4Addr], ports: Range<u16>) -> Result<(), Failure> {
    for port in ports.step_by(usize::from(AT_ONCE)) {
        let ports: Vec<u16> = (port..port + AT_ONCE).collect();
        for socket in flows::senders(from, &ports)? {
            for host in hosts {
                socket
                    .send_to(&[0; OCTETS], (*host, flows::PORT))
                    .context(|| format!("packet to {host}"))?;
            }
        }
        clock::pause(BETWEEN)?;
    }
    Ok(())
}

/// Whether the second uplink carried three times what the first did, and the others nothing to speak of.
fn verdict(octets: &[u64]) -> Result<String, String> {
    let [one, three, rest @ ..] = octets else {
        return Err("fewer than two uplinks".to_owned());
    };
    let ratio = *three as f64 / (*one as f64).max(1.0);
    let said = format!("octets {one} to {three}, 1 to {ratio:.3}; elsewhere {rest:?}");
    let elsewhere: u64 = rest.iter().sum();
    match (ratio / 3.0 - 1.0).abs() <= 0.05 && elsewhere * 100 <= one + three {
        true => Ok(said),
        false => Err(format!("expected: 1 to 3, within 5 %\nactual:   {said}")),
    }
}

/// 32,000 source ports to three VTEPs. VXLAN folds them to 28,000 outer ports for each, so they count as 45,000 flows:
/// their ratio deviates from 1 to 3 by 1.1 % (one in 1 / sqrt(1/4 x 3/4 x 45,000)), and 5 % is four and a half times that.
/// 64 flows would deviate by 29 %.
const FIRST_PORT: u16 = 20_000;
const LAST_PORT: u16 = FIRST_PORT + 32_000;

const AT_ONCE: u16 = 64;

const OCTETS: usize = 200;

/// 64 x 3 packets every few milliseconds: no queue of a veth pair overflows.
const BETWEEN: Duration = Duration::from_millis(5);

/// Time for the last packets to arrive.
pub(super) const ARRIVED: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_right_within_five_percent_and_nothing_goes_elsewhere() {
        assert!(verdict(&[1_000, 3_140, 0, 0]).is_ok());
        assert!(verdict(&[1_000, 3_160, 0, 0]).is_err());
        assert!(verdict(&[1_000, 2_840, 0, 0]).is_err());
        assert!(verdict(&[1_000, 3_000, 100, 0]).is_err());
        assert!(verdict(&[0, 4_000, 0, 0]).is_err());
    }
}
