//! What the lab's speakers, kernels and replicas say, in the words of `expect.rs`. It compares nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    expect::{self, Expect, FLOOD, Lines},
    failure::{Context, Failure},
    lab::Lab,
    weft::{Client, count, field},
};

/// `show bgp l2vpn evpn summary` of every leaf.
pub(crate) fn sessions(lab: &Lab, expect: &Expect) -> Result<Lines, Failure> {
    let mut lines = Lines::new();
    for leaf in expect.vteps.keys() {
        let summary = lab.frr(leaf)?.json("show bgp l2vpn evpn summary json")?;
        for (peer, session) in members(&summary["peers"]) {
            lines.insert(format!("{leaf} to {peer}: {}", field(session, "state")));
        }
    }
    Ok(lines)
}

/// The interfaces over which zebra sends to every other leaf's VTEP address, as BGP found them.
pub(crate) fn underlay(lab: &Lab, expect: &Expect) -> Result<Lines, Failure> {
    let mut lines = Lines::new();
    for leaf in expect.vteps.keys() {
        let routes = lab.frr(leaf)?.json("show ip route bgp json")?;
        for (other, vtep) in expect.vteps.iter().filter(|(other, _)| *other != leaf) {
            let next_hops = routes[format!("{vtep}/32")][0]["nexthops"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let mut over: Vec<String> = next_hops
                .iter()
                .map(|hop| field(hop, "interfaceName"))
                .collect();
            over.sort();
            lines.insert(format!(
                "{leaf} to {}: {}",
                expect.vteps[other],
                over.join(" ")
            ));
        }
    }
    Ok(lines)
}

/// `show bgp l2vpn evpn` of every leaf but `without`: one line per path.
pub(crate) fn routes(lab: &Lab, expect: &Expect, without: Option<&str>) -> Result<Lines, Failure> {
    let mut lines = Lines::new();
    for leaf in expect
        .vteps
        .keys()
        .filter(|leaf| Some(leaf.as_str()) != without)
    {
        let table = lab
            .frr(leaf)?
            .json("show bgp l2vpn evpn route detail json")?;
        for (rd, destinations) in members(&table) {
            for (key, destination) in members(destinations).filter(|(key, _)| key.starts_with('['))
            {
                for path in flat(&destination["paths"]) {
                    lines.insert(route_line(leaf, rd, key, path));
                }
            }
        }
    }
    Ok(lines)
}

fn route_line(leaf: &str, rd: &str, key: &str, path: &Value) -> String {
    let mut communities: Vec<&str> = path["extendedCommunity"]["string"]
        .as_str()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    communities.sort_by_key(|community| (!community.starts_with("RT:"), *community));
    let next_hop = field(&path["nexthops"][0], "ip");
    let from = match field(&path["peer"], "peerId").as_str() {
        "0.0.0.0" | "(unspec)" | "" => "own".to_owned(),
        peer => format!("from {peer}"),
    };
    format!(
        "{leaf} {rd} {key} {} next hop {next_hop}, {from}",
        communities.join(" ")
    )
}

/// `bridge fdb` of every VXLAN device of every leaf but `without`: what points at another VTEP.
pub(crate) fn forwarding(
    lab: &Lab,
    expect: &Expect,
    without: Option<&str>,
) -> Result<Lines, Failure> {
    let hosts: Vec<&str> = expect
        .hosts
        .values()
        .map(|host| host.mac.as_str())
        .collect();
    let mut lines = Lines::new();
    for leaf in expect
        .vteps
        .keys()
        .filter(|leaf| Some(leaf.as_str()) != without)
    {
        for vni in &expect.vnis {
            let device = format!("vxlan{vni}");
            let text = lab.run(leaf, &["bridge", "-j", "fdb", "show", "dev", &device])?;
            let entries: Vec<Value> =
                serde_json::from_str(&text).context(|| format!("fdb of {leaf}"))?;
            for entry in entries.iter().filter(|entry| entry["dst"].is_string()) {
                let mac = field(entry, "mac");
                if mac == FLOOD || hosts.contains(&mac.as_str()) || entry["dst"].is_string() {
                    lines.insert(format!("{leaf} {device} {mac} to {}", field(entry, "dst")));
                }
            }
        }
    }
    Ok(lines)
}

/// `weft vtep list`.
pub(crate) fn members_of(client: &Client<'_>) -> Result<Lines, Failure> {
    let vteps = client.list(&["vtep", "list"])?;
    Ok(vteps
        .iter()
        .map(|vtep| {
            let vnis: Vec<String> = flat(&vtep["vnis"]).map(ToString::to_string).collect();
            let macs = count(vtep, "mac_route_count").unwrap_or_default();
            format!(
                "{}: VNI {}, {macs} MACs",
                field(vtep, "address"),
                vnis.join(" ")
            )
        })
        .collect())
}

/// `weft peer list`: every leaf by its address, with what this replica sees.
pub(crate) fn peers(client: &Client<'_>) -> Result<Lines, Failure> {
    let peers = client.list(&["peer", "list"])?;
    Ok(peers
        .iter()
        .map(|peer| {
            format!(
                "{}: {}, {} routes",
                field(peer, "router_id"),
                field(&peer["session"], "state"),
                field(peer, "route_count")
            )
        })
        .collect())
}

/// `weft route list`: RD, key, communities and next hop of every path.
pub(crate) fn reflected(client: &Client<'_>) -> Result<Lines, Failure> {
    let routes = client.list(&["route", "list"])?;
    let mut lines = Lines::new();
    for route in &routes {
        lines.extend(flat(&route["paths"]).map(|path| reflected_line(route, path)));
    }
    Ok(lines)
}

fn reflected_line(route: &Value, path: &Value) -> String {
    let mut communities: Vec<&str> = flat(&path["extended_communities"])
        .filter_map(Value::as_str)
        .collect();
    communities.sort_by_key(|community| (!community.starts_with("RT:"), *community));
    format!(
        "{} {} {} next hop {}",
        field(route, "rd"),
        field(route, "key"),
        communities.join(" "),
        field(path, "next_hop")
    )
}

/// `weft plan show`, as `LEAF to PREFIX: ADDRESS%INTERFACE=WEIGHT ...`.
pub(crate) fn planned(client: &Client<'_>) -> Result<Lines, Failure> {
    let plans = client.list(&["plan", "show"])?;
    Ok(entries(&plans)
        .map(|(leaf, entry)| {
            let mut shares: Vec<String> = flat(&entry["members"])
                .map(|member| {
                    let weight = count(member, "weight").unwrap_or_default();
                    format!(
                        "{}%{}={weight}",
                        field(member, "next_hop"),
                        field(member, "interface_name")
                    )
                })
                .collect();
            shares.sort();
            format!("{leaf} to {}: {}", field(entry, "prefix"), shares.join(" "))
        })
        .collect())
}

/// The shares of `weft plan show` in lowest terms, by interface.
pub(crate) fn ratios(client: &Client<'_>) -> Result<Lines, Failure> {
    let plans = client.list(&["plan", "show"])?;
    let mut lines = Lines::new();
    for (leaf, entry) in entries(&plans) {
        let shares: BTreeMap<String, u32> = flat(&entry["members"])
            .map(|member| {
                let weight = count(member, "weight").and_then(|weight| u32::try_from(weight).ok());
                (field(member, "interface_name"), weight.unwrap_or_default())
            })
            .collect();
        let to = field(entry, "prefix");
        let to = to.strip_suffix("/32").unwrap_or(&to);
        lines.insert(format!("{leaf} to {to}: {}", expect::ratio(&shares)));
    }
    Ok(lines)
}

/// Every entry of every plan, with its leaf.
fn entries(plans: &[Value]) -> impl Iterator<Item = (String, &Value)> {
    plans.iter().flat_map(|plan| {
        let leaf = field(plan, "leaf_name");
        flat(&plan["entries"]).map(move |entry| (leaf.clone(), entry))
    })
}

/// What each kernel does with what it sends to another leaf's VTEP address, in the words of `planned`:
/// the route in weft-agent's table, its next-hop group, the group's members and weights.
pub(crate) fn installed(lab: &Lab, expect: &Expect) -> Result<Lines, Failure> {
    let mut lines = Lines::new();
    for leaf in expect.vteps.keys() {
        let hops = next_hops(lab, leaf)?;
        for (other, vtep) in expect.vteps.iter().filter(|(other, _)| *other != leaf) {
            let prefix = format!("{}/32", expect.vteps[other]);
            let show = ["ip", "-j", "route", "show", "table", AGENT_TABLE, &prefix];
            let routes: Vec<Value> = serde_json::from_str(&lab.run(leaf, &show)?)
                .context(|| format!("{prefix} of {leaf}"))?;
            let group = routes.first().and_then(|route| route["nhid"].as_u64());
            let mut shares = group.map(|group| shares(&hops, group)).unwrap_or_default();
            shares.sort();
            lines.insert(format!("{leaf} to {vtep}/32: {}", shares.join(" ")));
        }
    }
    Ok(lines)
}

/// `ip nexthop` of a node, by id.
pub(crate) fn next_hops(lab: &Lab, node: &str) -> Result<BTreeMap<u64, Value>, Failure> {
    let text = lab.run(node, &["ip", "-j", "nexthop", "show"])?;
    let hops: Vec<Value> =
        serde_json::from_str(&text).context(|| format!("next hops of {node}"))?;
    Ok(hops
        .into_iter()
        .filter_map(|hop| Some((hop["id"].as_u64()?, hop)))
        .collect())
}

fn shares(hops: &BTreeMap<u64, Value>, id: u64) -> Vec<String> {
    let Some(hop) = hops.get(&id) else {
        return Vec::new();
    };
    let named = |hop: &Value| format!("{}%{}", field(hop, "gateway"), field(hop, "dev"));
    if !hop["group"].is_array() {
        return vec![format!("{}=1", named(hop))];
    }
    flat(&hop["group"])
        .map(|member| {
            let at = member["id"]
                .as_u64()
                .and_then(|id| hops.get(&id))
                .map(named)
                .unwrap_or_default();
            format!("{at}={}", member["weight"].as_u64().unwrap_or(1))
        })
        .collect()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The elements of a list, or of a list of lists: FRR prints paths either way.
fn flat(value: &Value) -> impl Iterator<Item = &Value> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|element| match element {
            Value::Array(inner) => inner.iter().collect::<Vec<_>>(),
            other => vec![other],
        })
}

/// The routing table of weft-agent.
pub(crate) const AGENT_TABLE: &str = "155";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_is_told_as_the_expectation_tells_it() {
        let path = json!({
            "peer": {"peerId": "192.0.2.1"},
            "extendedCommunity": {"string": "ET:8 RT:64496:7"},
            "nexthops": [{"ip": "198.51.100.2"}],
        });
        let line = route_line("a", "198.51.100.2:7", "[3]:[0]:[32]:[198.51.100.2]", &path);
        assert_eq!(
            line,
            "a 198.51.100.2:7 [3]:[0]:[32]:[198.51.100.2] RT:64496:7 ET:8 next hop 198.51.100.2, from 192.0.2.1"
        );
    }

    #[test]
    fn a_path_of_weft_is_told_as_the_expectation_tells_it() {
        let path = json!({
            "extended_communities": ["ET:8", "RT:64496:7"],
            "next_hop": "198.51.100.2",
        });
        let route = json!({"rd": "198.51.100.2:7", "key": "[3]:[0]:[32]:[198.51.100.2]"});
        assert_eq!(
            reflected_line(&route, &path),
            "198.51.100.2:7 [3]:[0]:[32]:[198.51.100.2] RT:64496:7 ET:8 next hop 198.51.100.2"
        );
    }

    #[test]
    fn an_entry_of_a_plan_has_its_leaf() {
        let plans = [
            json!({"leaf_name": "a", "entries": [{"prefix": "192.0.2.1/32"}, {}]}),
            json!({"leaf_name": "b", "entries": []}),
        ];
        let leaves: Vec<String> = entries(&plans).map(|(leaf, _)| leaf).collect();
        assert_eq!(leaves, ["a", "a"]);
    }

    #[test]
    fn a_member_without_a_weight_has_weight_one() {
        let hops = [
            (1, json!({"id": 1, "gateway": "192.0.2.0", "dev": "eth1"})),
            (2, json!({"id": 2, "gateway": "192.0.2.2", "dev": "eth2"})),
            (
                3,
                json!({"id": 3, "group": [{"id": 1, "weight": 2}, {"id": 2}]}),
            ),
        ];
        let hops = hops.into_iter().collect();
        assert_eq!(shares(&hops, 3), ["192.0.2.0%eth1=2", "192.0.2.2%eth2=1"]);
        assert_eq!(shares(&hops, 1), ["192.0.2.0%eth1=1"]);
        assert!(shares(&hops, 9).is_empty());
    }
}
