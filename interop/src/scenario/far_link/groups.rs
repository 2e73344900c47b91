//! A leaf whose table has room for fewer next-hop groups than its weights need: how many its kernel has, and over which uplinks packets
//! leave. It reads the kernel, and not what weft says of it.

use std::{fs, net::Ipv4Addr, ops::Range, time::Instant};

use serde_json::Value;

use super::{Faults, TABLE, Traffic, mode, weights};
use crate::{
    check::Checks,
    clock,
    expect::Lines,
    failure::{Context, Failure},
    flows::{self, Route},
    lab::Lab,
    weft::field,
};

/// The fabric without the limit first: the leaf needs a group for each other leaf. Then with it.
pub(super) fn check(lab: &Lab, faults: &Faults, checks: &mut Checks) -> Result<(), Failure> {
    let traffic = &faults.traffic;
    let text = fs::read_to_string(lab.files.join(FABRIC)).context(|| FABRIC.to_owned())?;
    let unlimited = lab.folder().join(FABRIC);
    let path = unlimited.display().to_string();
    fs::write(&unlimited, text.replace(LIMIT, "")).context(|| path.clone())?;
    mode::said(lab, &["fabric", "apply", &path, "--prune", "--yes"])?;
    let leaf = &traffic.leaf;
    let name = format!("without a limit {leaf} has a group for each other leaf");
    in_kernel(lab, traffic, &name, (3, [50, 33, 20]), checks)?;
    mode::declare(lab, FABRIC, checks)?;
    let name = format!("with room for two groups {leaf} has two, and the nearest are merged");
    in_kernel(lab, traffic, &name, (2, [50, 27, 27]), checks)?;
    for host in OTHERS {
        go(lab, traffic, host, checks)?;
    }
    Ok(())
}

/// Waits until the kernel of the leaf has so many groups of weft, and gives the first uplink so many percent of what goes to each
/// other leaf.
fn in_kernel(
    lab: &Lab,
    traffic: &Traffic,
    name: &str,
    (groups, percents): (usize, [u32; 3]),
    checks: &mut Checks,
) -> Result<(), Failure> {
    let line =
        |host: u8, percent: &str| format!("to leaf{host}: {percent} % over the first uplink");
    let shares = OTHERS.into_iter().zip(percents);
    let mut expected: Lines = shares
        .map(|(host, percent)| line(host, &percent.to_string()))
        .collect();
    expected.insert(format!("{groups} groups"));
    checks.agree(name, checks.patience(), &expected, || {
        let mut lines: Lines = [format!("{} groups", count(lab, &traffic.leaf)?)].into();
        for host in OTHERS {
            let percent = format!("{:.0}", share(lab, traffic, host)? * 100.0);
            lines.insert(line(host, &percent));
        }
        Ok(lines)
    })?;
    Ok(())
}

/// Next-hop groups of weft in the kernel of a leaf.
fn count(lab: &Lab, leaf: &str) -> Result<usize, Failure> {
    let show = ["ip", "-j", "nexthop", "show", "proto", TABLE];
    let hops: Vec<Value> =
        serde_json::from_str(&lab.run(leaf, &show)?).context(|| format!("next hops of {leaf}"))?;
    Ok(hops.iter().filter(|hop| hop["group"].is_array()).count())
}

/// What the first uplink has of the weights of all, by the kernel's route to another leaf.
fn share(lab: &Lab, traffic: &Traffic, host: u8) -> Result<f64, Failure> {
    let prefix = format!("10.255.0.1{host}/32");
    let show = ["ip", "-j", "route", "show", "table", TABLE, &prefix];
    let routes: Vec<Value> = serde_json::from_str(&lab.run(&traffic.leaf, &show)?)
        .context(|| format!("{prefix} of {}", traffic.leaf))?;
    let hops = routes
        .iter()
        .filter_map(|route| route["nexthops"].as_array());
    let hops: Vec<&Value> = hops.flatten().collect();
    let weight = |hop: &&Value| hop["weight"].as_u64().unwrap_or(1);
    let all: u64 = hops.iter().map(weight).sum();
    let first = traffic.uplinks.first();
    let first = hops.iter().filter(|hop| Some(&field(hop, "dev")) == first);
    let first: u64 = first.map(weight).sum();
    Ok(first as f64 / all.max(1) as f64)
}

/// Packets of many flows to the host of another leaf: all arrive, and they leave by the weights that the kernel has.
fn go(lab: &Lab, traffic: &Traffic, host: u8, checks: &mut Checks) -> Result<(), Failure> {
    let start = Instant::now();
    let wanted = share(lab, traffic, host)?;
    let route = Route {
        from: lab.namespace(&traffic.from)?.clone(),
        to: lab.namespace(&format!("h{host}"))?.clone(),
        address: Ipv4Addr::new(192, 0, 2, host),
    };
    let receiver = flows::receiver(&route)?;
    let leaf = lab.namespace(&traffic.leaf)?;
    let before = leaf.sent()?;
    weights::send(&route.from, &[route.address], PORTS)?;
    clock::pause(weights::ARRIVED)?;
    let octets = weights::octets(&traffic.uplinks, &before, &leaf.sent()?);
    let mut arrived = 0;
    while receiver.recv(&mut [0; 16]).is_ok() {
        arrived += 1;
    }
    let name = format!(
        "{} to {}: packets arrive, and leave by merged weights",
        traffic.leaf, route.address
    );
    checks.record(&name, start, verdict(&octets, wanted, arrived));
    Ok(())
}

/// Whether all packets arrived, the first uplink carried its share of the octets, and others than two nothing to speak of.
fn verdict(octets: &[u64], wanted: f64, arrived: usize) -> Result<String, String> {
    let all: u64 = octets.iter().sum();
    let first = octets.first().copied().unwrap_or_default();
    let elsewhere: u64 = octets.iter().skip(2).sum();
    let share = first as f64 / all.max(1) as f64;
    let said = format!(
        "{arrived} of {} packets; {:.1} % of octets {octets:?}, {:.1} % by weights",
        PORTS.len(),
        share * 100.0,
        wanted * 100.0
    );
    let is_near = (share - wanted).abs() <= NEAR && elsewhere * 100 <= all;
    match is_near && arrived == PORTS.len() {
        true => Ok(said),
        false => Err(format!(
            "expected: all packets, within {:.1} % of all octets by weights\nactual:   {said}",
            NEAR * 100.0
        )),
    }
}

/// Two spines. To leaf2 both carry as much, to leaf3 the first half of the second, to leaf4 a quarter: a third and a fifth of all, and
/// merged 4 of 15, which is between them.
const FABRIC: &str = "fabric-groups.yaml";

/// What [`FABRIC`] says of the table of leaf1; without it there is room for all groups.
const LIMIT: &str = ", limits: {groups: 2}";

/// Numbers of the leaves beside leaf1, and of their hosts.
const OTHERS: [u8; 3] = [2, 3, 4];

/// Source ports to each leaf. VXLAN folds them to 28,000 outer ports, so that they count as 10,000 flows.
const PORTS: Range<u16> = 20_000..36_000;

/// A share of a half deviates by 0.5 % of all by chance (one in sqrt(1/4 / 10,000)): this is five times that. Not merged, shares would be
/// 6.7 % more, or less.
const NEAR: f64 = 0.025;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    #[test]
    fn the_limit_is_in_the_file_once() {
        let file = scenario::folder("far-link").join(FABRIC);
        let text = fs::read_to_string(file).unwrap();
        assert_eq!(text.matches(LIMIT).count(), 1);
    }

    #[test]
    fn all_packets_have_to_arrive_near_their_weights() {
        let wanted = 4.0 / 15.0;
        assert!(verdict(&[2_667, 7_333, 0, 0], wanted, 16_000).is_ok());
        assert!(verdict(&[2_450, 7_550, 30, 0], wanted, 16_000).is_ok());
        assert!(verdict(&[2_667, 7_333, 0, 0], wanted, 15_999).is_err());
        // As if it were not merged.
        assert!(verdict(&[3_333, 6_667, 0, 0], wanted, 16_000).is_err());
        assert!(verdict(&[2_000, 8_000, 0, 0], wanted, 16_000).is_err());
        assert!(verdict(&[2_667, 7_333, 200, 0], wanted, 16_000).is_err());
        assert!(verdict(&[], wanted, 0).is_err());
    }
}
