//! The fabric of the lab, what runs on it, and when weft has brought it to where it is to be.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    check::Checks,
    clock,
    expect::Lines,
    failure::{Context, Failure},
    lab::Lab,
    weft::{Client, field},
};

/// Who balances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Balance {
    /// FRR alone.
    Off,
    /// weft.
    On,
}

/// Who sends to whom; the same in both VNIs.
#[derive(Debug, Clone)]
pub(super) enum Pattern {
    /// Each host to the next one in this order.
    Ring(&'static str, Vec<u8>),
    /// Each to all others.
    AllToAll,
    /// Each host to the next one in this order, by queue pairs whose ports are known.
    QueuePairs(Vec<u8>),
}

/// What a host sends to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) from_leaf: String,
    pub(super) to_leaf: String,
    /// Where it is pinned to, if that is one spine.
    pub(super) spine: String,
    /// All spines that it is pinned to, each with its weight.
    pub(super) paths: String,
    /// UDP source ports of its queue pairs, each with its spine, where they divide it.
    pub(super) ports: Vec<(u16, String)>,
}

impl Pattern {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ring(name, _) => name,
            Self::AllToAll => "all-to-all",
            Self::QueuePairs(_) => "queue pairs",
        }
    }

    /// A job of a VNI.
    fn job(&self, vni: u32) -> Value {
        let nic = |host: &u8| json!({"address": format!("192.0.2.{host}"), "vni": vni});
        let name = format!("vni-{vni}");
        let (order, collective) = match self {
            Self::Ring(_, order) => (order.clone(), "COLLECTIVE_ALL_REDUCE"),
            Self::AllToAll => ((1..=HOSTS).collect(), "COLLECTIVE_ALL_TO_ALL"),
            Self::QueuePairs(order) => {
                let next = order.iter().cycle().skip(1);
                let pairs: Vec<_> = PORTS.map(|port| json!({"udp_source_port": port})).collect();
                let flow = |(from, to): (&u8, &u8)| json!({"source": nic(from), "destination": nic(to), "octets": 1 << 30, "pairs": pairs});
                let flows: Vec<_> = order.iter().zip(next).map(flow).collect();
                return json!({"name": name, "flows": flows});
            }
        };
        json!({
            "name": name,
            "ranks": order.iter().map(nic).collect::<Vec<_>>(),
            "groups": [{"name": "all", "collective": collective, "octets": 1 << 30}],
        })
    }
}

pub(super) fn client(lab: &Lab) -> Result<Client<'_>, Failure> {
    Client::of(lab, REPLICA, "10.255.1.1")
}

/// Waits until FRR has all ways and every host reaches the others of its VNI, and declares the fabric.
pub(super) fn introduce(lab: &Lab, checks: &mut Checks) -> Result<(), Failure> {
    all_ways(lab, checks)?;
    declare(lab, "fabric.yaml", checks)?;
    let pairs: Vec<(String, String)> = pairs().collect();
    reach(lab, "hosts reach those of their VNI", &pairs, checks)
}

/// Waits until the second host of each pair answers pings of the first: leaves know where both are then.
pub(super) fn reach(
    lab: &Lab,
    name: &str,
    pairs: &[(String, String)],
    checks: &mut Checks,
) -> Result<(), Failure> {
    let line = |(from, to): &(String, String)| format!("{from} {to}");
    let reached: Lines = pairs.iter().map(line).collect();
    checks.agree(name, checks.patience(), &reached, || {
        let reaches = |(from, to): &&(String, String)| {
            let address = address(to);
            lab.run(from, &["ping", "-q", "-c", "1", "-W", "1", &address])
                .is_ok()
        };
        let reached = pairs.iter().filter(reaches);
        Ok(reached.map(line).collect())
    })?;
    Ok(())
}

/// A pair of hosts of each leaf with each other leaf, in both VNIs.
fn pairs() -> impl Iterator<Item = (String, String)> {
    let leaves = [1, 3, 5, 7];
    let pairs = leaves.into_iter().flat_map(move |from| {
        let others = leaves.into_iter().filter(move |to| *to != from);
        others.map(move |to| (from, to))
    });
    let vnis = pairs.flat_map(|pair| ["a", "b"].map(|vni| (vni, pair)));
    vnis.map(|(vni, (from, to))| (format!("{vni}{from}"), format!("{vni}{to}")))
}

/// The address of a host; its VNI has it once.
pub(super) fn address(host: &str) -> String {
    format!("192.0.2.{}", &host[1..])
}

/// Waits until FRR of every leaf has all ways to all others.
pub(super) fn all_ways(lab: &Lab, checks: &mut Checks) -> Result<(), Failure> {
    let expected: Lines = (1..=LEAVES)
        .flat_map(|from| {
            let others = (1..=LEAVES).filter(move |to| *to != from);
            others.map(move |to| format!("leaf{from} to leaf{to}: 4"))
        })
        .collect();
    checks.agree(
        "FRR has all ways to every VTEP",
        checks.patience(),
        &expected,
        || {
            let mut lines = Lines::new();
            for from in 1..=LEAVES {
                for to in (1..=LEAVES).filter(|to| *to != from) {
                    let leaf = format!("leaf{from}");
                    let prefix = format!("10.255.0.1{to}/32");
                    let shown = lab.run(&leaf, &["ip", "-j", "route", "show", &prefix])?;
                    let routes: Vec<Value> =
                        serde_json::from_str(&shown).context(|| leaf.clone())?;
                    let hops = routes
                        .first()
                        .and_then(|route| route["nexthops"].as_array());
                    lines.insert(format!("{leaf} to leaf{to}: {}", hops.map_or(1, Vec::len)));
                }
            }
            Ok(lines)
        },
    )?;
    Ok(())
}

/// Declares a fabric.
pub(super) fn declare(lab: &Lab, file: &str, checks: &mut Checks) -> Result<(), Failure> {
    let path = lab.files.join(file).display().to_string();
    let accepted: Lines = ["accepted".to_owned()].into();
    checks.agree(
        &format!("weft accepts {file}"),
        checks.patience(),
        &accepted,
        || {
            client(lab)?
                .text(&["fabric", "apply", &path, "--prune", "--yes"])
                .map(|_| accepted.clone())
        },
    )?;
    Ok(())
}

/// Changes who balances, and waits until all leaves are so.
pub(super) fn enter(lab: &Lab, balance: Balance, checks: &mut Checks) -> Result<(), Failure> {
    let (word, state) = match balance {
        Balance::Off => ("off", "SWITCH_AGENT_STATE_OFF"),
        Balance::On => ("on", "SWITCH_AGENT_STATE_IN_SYNC"),
    };
    client(lab)?.text(&["balance", word])?;
    let expected: Lines = (1..=LEAVES)
        .map(|leaf| format!("leaf{leaf} {state}"))
        .collect();
    checks.agree(
        &format!("weft balance {word}"),
        checks.patience(),
        &expected,
        || states(lab),
    )?;
    clock::pause(SETTLED)
}

fn states(lab: &Lab) -> Result<Lines, Failure> {
    let agents = client(lab)?.list(&["agent", "list"])?;
    let leaves = agents
        .iter()
        .filter(|agent| field(agent, "switch_name").starts_with("leaf"));
    let line = |agent: &Value| format!("{} {}", field(agent, "switch_name"), field(agent, "state"));
    Ok(leaves.map(line).collect())
}

/// Declares the jobs of a pattern, and waits until their pins are in the kernels of all leaves.
pub(super) fn run(lab: &Lab, pattern: &Pattern, checks: &mut Checks) -> Result<(), Failure> {
    run_in(lab, &VNIS, pattern, checks)
}

/// Declares the jobs of a pattern in some VNIs, and waits until their pins are in the kernels of all leaves.
pub(super) fn run_in(
    lab: &Lab,
    vnis: &[u32],
    pattern: &Pattern,
    checks: &mut Checks,
) -> Result<(), Failure> {
    for vni in vnis {
        let path = lab.folder().join(format!("{}-{vni}.json", pattern.name()));
        fs::write(&path, pattern.job(*vni).to_string()).context(|| path.display().to_string())?;
        client(lab)?.text(&["job", "apply", &path.display().to_string()])?;
    }
    in_kernels(lab, pattern.name(), checks)
}

/// Waits until the adopted pins, and no others, are in the kernels of all leaves.
pub(super) fn in_kernels(lab: &Lab, what: &str, checks: &mut Checks) -> Result<(), Failure> {
    let name = format!("{what}: every pin is in its leaf's kernel");
    let all: Lines = ["all".to_owned()].into();
    checks.agree(&name, checks.patience(), &all, || {
        let planned = planned(lab)?;
        let there = installed(lab)?;
        let difference = planned.symmetric_difference(&there);
        match planned.is_empty() {
            true => Ok(["none is planned".to_owned()].into()),
            false => match difference.clone().next() {
                None => Ok(all.clone()),
                Some(_) => Ok(difference.cloned().collect()),
            },
        }
    })?;
    clock::pause(SETTLED)
}

/// Says that all jobs have ended, and waits until no leaf has a pin.
pub(super) fn ended(lab: &Lab, checks: &mut Checks) -> Result<(), Failure> {
    ended_in(lab, &VNIS, checks)
}

/// Says that the jobs of some VNIs have ended, where there are no others, and waits until no leaf has a pin.
pub(super) fn ended_in(lab: &Lab, vnis: &[u32], checks: &mut Checks) -> Result<(), Failure> {
    for vni in vnis {
        client(lab)?.text(&["job", "delete", &format!("vni-{vni}")])?;
    }
    checks.agree(
        "jobs ended: no leaf has a pin",
        checks.patience(),
        &Lines::new(),
        || installed(lab),
    )?;
    clock::pause(SETTLED)
}

/// Leaf, VNI and destination of each flow that is pinned; and its source, where not all that the leaf sends there goes the same way.
fn planned(lab: &Lab) -> Result<Lines, Failure> {
    let flows = pinned(lab)?;
    let mut ways: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for flow in &flows {
        let ways = ways.entry((&flow.from_leaf, &flow.to)).or_default();
        ways.insert(&flow.paths);
    }
    let line = |flow: &Flow| {
        let vni = if flow.to.starts_with('a') { 100 } else { 200 };
        let (leaf, to) = (&flow.from_leaf, address(&flow.to));
        match ways[&(leaf.as_str(), flow.to.as_str())].len() {
            1 => format!("{leaf} vxlan{vni} {to}"),
            _ => format!("{leaf} vxlan{vni} {} {to}", address(&flow.from)),
        }
    };
    Ok(flows.iter().map(line).collect())
}

/// Leaf, VXLAN device, source if it has one, and destination of each pin that nft has.
fn installed(lab: &Lab) -> Result<Lines, Failure> {
    let mut lines = Lines::new();
    for leaf in 1..=LEAVES {
        let leaf = format!("leaf{leaf}");
        for map in ["pins4", "sources4"] {
            let list = ["nft", "-j", "list", "map", "bridge", "weft", map];
            let shown = match lab.run(&leaf, &list) {
                Err(Failure::Said(said)) if said.contains("No such file") => continue,
                shown => shown?,
            };
            let shown: Value = serde_json::from_str(&shown).context(|| leaf.clone())?;
            let maps = shown["nftables"].as_array().into_iter().flatten();
            let elements = maps.filter_map(|it| it["map"]["elem"].as_array()).flatten();
            for element in elements {
                let key = element[0]["elem"]["val"]["concat"].as_array();
                let parts = key.into_iter().flatten();
                let parts = parts.map(|part| part.as_str().unwrap_or("?"));
                let parts: Vec<&str> = parts.collect();
                lines.insert(format!("{leaf} {}", parts.join(" ")));
            }
        }
    }
    Ok(lines)
}

/// Every pinned flow, by the names of its hosts.
pub(super) fn pinned(lab: &Lab) -> Result<Vec<Flow>, Failure> {
    let pins = client(lab)?.list(&["pin", "list"])?;
    let mut flows = Vec::new();
    for pin in &pins {
        let end = |name: &str| {
            let port = field(pin, name);
            host(&port).ok_or_else(|| Failure::new(format!("no host is behind {port:?}")))
        };
        let (from, from_leaf) = end("source_host_port_name")?;
        let (to, to_leaf) = end("destination_host_port_name")?;
        let paths = pin["paths"].as_array().map_or(&[][..], Vec::as_slice);
        let spine = match paths {
            [path] => field(path, "spine_name"),
            _ => String::new(),
        };
        let part = |path: &Value| format!("{}={}", field(path, "spine_name"), path["weight"]);
        let paths = paths.iter().map(part).collect::<Vec<_>>().join(" ");
        let ports = pin["ports"].as_array().into_iter().flatten();
        let port = |it: &Value| {
            let port = it["udp_source_port"].as_u64()?;
            Some((u16::try_from(port).ok()?, field(it, "spine_name")))
        };
        flows.push(Flow {
            from,
            to,
            from_leaf,
            to_leaf,
            spine,
            paths,
            ports: ports.filter_map(port).collect(),
        });
    }
    Ok(flows)
}

/// The host behind a port as fabric.yaml has it, `a3` behind `leaf2:eth5`, and its leaf.
pub(super) fn host(port: &str) -> Option<(String, String)> {
    let (leaf, interface) = port.split_once(":eth")?;
    let number: u8 = leaf.strip_prefix("leaf")?.parse().ok()?;
    let (vni, second) = match interface {
        "5" => ("a", 0),
        "6" => ("a", 1),
        "7" => ("b", 0),
        "8" => ("b", 1),
        _ => return None,
    };
    let host = 2 * number.checked_sub(1)? + 1 + second;
    Some((format!("{vni}{host}"), leaf.to_owned()))
}

const REPLICA: &str = "weft1";
const LEAVES: u8 = 4;
/// Hosts of each VNI.
const HOSTS: u8 = 8;
const VNIS: [u32; 2] = [100, 200];
/// UDP source ports of the queue pairs of a flow.
const PORTS: std::ops::Range<u16> = 49_152..49_168;
/// Packets of before are gone, and TCP begins anew.
const SETTLED: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_says_its_host() {
        let host = |port| host(port).map(|(host, leaf)| format!("{host} {leaf}"));
        assert_eq!(host("leaf1:eth5").as_deref(), Some("a1 leaf1"));
        assert_eq!(host("leaf4:eth6").as_deref(), Some("a8 leaf4"));
        assert_eq!(host("leaf2:eth7").as_deref(), Some("b3 leaf2"));
        assert_eq!(host("leaf0:eth5"), None);
        assert_eq!(host("spine1:eth1"), None);
    }
}
