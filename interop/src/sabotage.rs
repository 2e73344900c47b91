//! Breaking a running lab on purpose, so that everybody can see a check fail for the right reason.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Deserialize;

use crate::{expect::Expect, failure::Failure, lab::Lab, tables};

/// What `cargo interop --break` breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Break {
    /// A leaf exports a VNI with a route target that nobody imports
    RouteTarget,
    /// No withdraw reaches the first leaf
    Withdraw,
    /// A weight in the first leaf's kernel is doubled, and its agent stopped
    Weight,
    /// far-link: what a leaf sends to another has one next hop, which nobody takes away
    FarLinkBlind,
    /// far-link: what leaves through VXLAN loses its packet mark
    Marks,
    /// far-link: the process that takes the rule away is killed with the agent
    Guardian,
    /// collective: a rule of somebody else's takes all that a leaf sends over one uplink
    Astray,
    /// collective: the agent of a leaf stands still before it has pins, that of another before its jobs end
    Unpinned,
    /// Labs with steps: weft's daemons stand still from the beginning
    Silent,
    /// Labs with steps: weft's daemons stand still once the lab is whole
    Stalled,
    /// Labs with steps: what the lab does is left out, or somebody does the contrary
    Meddled,
}

/// The leaf of the last host exports that host's VNI with another route target.
pub(crate) fn route_target(lab: &Lab, expect: &Expect) -> Result<(), Failure> {
    let Some(host) = expect.hosts.values().next_back() else {
        return Ok(());
    };
    println!(
        "  break {} exports VNI {} with RT:{}:999",
        host.leaf, host.vni, expect.asn
    );
    lab.frr(&host.leaf)?
        .vtysh(&[
            "configure terminal",
            &format!("router bgp {}", expect.asn),
            "address-family l2vpn evpn",
            &format!("vni {}", host.vni),
            &format!("route-target export {}:999", expect.asn),
        ])
        .map(drop)
}

/// Routes towards the first leaf become black holes at every reflector, so that what they send to it no
/// longer arrives, withdraws included.
pub(crate) fn swallow_withdraws(lab: &Lab, expect: &Expect, swallow: bool) -> Result<(), Failure> {
    let Some((leaf, vtep)) = expect.vteps.iter().next() else {
        return Ok(());
    };
    if swallow {
        println!("  break nothing that a reflector sends reaches {leaf}");
    }
    let verb = if swallow { "add" } else { "del" };
    for reflector in expect.reflectors.keys() {
        lab.run(
            reflector,
            &["ip", "route", verb, "blackhole", &format!("{vtep}/32")],
        )?;
    }
    Ok(())
}

/// Doubles the first weight of the group behind the first leaf's first route, and stops the agent, which would mend it.
pub(crate) fn weight(lab: &Lab, expect: &Expect) -> Result<(), Failure> {
    let Some(leaf) = expect.vteps.keys().next() else {
        return Ok(());
    };
    for (id, hop) in tables::next_hops(lab, leaf)? {
        let Some(members) = hop["group"].as_array() else {
            continue;
        };
        if !members
            .iter()
            .any(|member| member["weight"].as_u64().unwrap_or(1) > 1)
        {
            continue;
        }
        let doubled: Vec<String> = members
            .iter()
            .enumerate()
            .map(|(place, member)| {
                let weight = member["weight"].as_u64().unwrap_or(1);
                let weight = if place == 0 { 2 * weight } else { weight };
                format!("{},{weight}", member["id"].as_u64().unwrap_or_default())
            })
            .collect();
        let (id, group) = (id.to_string(), doubled.join("/"));
        println!("  break {leaf}: ip nexthop replace id {id} group {group}");
        stand_still(lab, leaf)?;
        let protocol = hop["protocol"].as_str().unwrap_or("static").to_owned();
        let replace = [
            "ip", "nexthop", "replace", "id", &id, "group", &group, "proto", &protocol,
        ];
        return lab.run(leaf, &replace).map(drop);
    }
    Err(Failure::new(format!(
        "{leaf} has no next-hop group with weights"
    )))
}

/// A leaf sent its last keepalive at most a third of the hold time before it stopped, so no hold timer
/// runs out earlier than six seconds after; and what was swallowed since less than six seconds does not
/// end the first leaf's own sessions before its answer counts.
pub(crate) const BEFORE_THE_FIRST_WITHDRAW: Duration = Duration::from_millis(5_500);

/// A rule before all others, with one way that follows nobody: what a route of weft's beside FRR's used to be.
pub(crate) fn blind(lab: &Lab, leaf: &str, vtep: &str) -> Result<(), Failure> {
    let (table, prefix) = ("999", format!("{vtep}/32"));
    println!("  break {leaf}: {prefix} over eth1, whatever FRR finds");
    let gateway = "10.0.1.0";
    let route = [
        "ip", "route", "replace", &prefix, "via", gateway, "dev", "eth1", "table", table,
    ];
    lab.run(leaf, &route)?;
    let rule = ["ip", "rule", "add", "priority", BLIND, "lookup", table];
    lab.run(leaf, &rule).map(drop)
}

/// Takes that rule away.
pub(crate) fn seeing(lab: &Lab, leaf: &str) -> Result<(), Failure> {
    lab.run(leaf, &["ip", "rule", "del", "priority", BLIND])
        .map(drop)
}

/// A chain after all others sets every mark of what leaves through VXLAN to nothing.
pub(crate) fn marks(lab: &Lab, leaf: &str) -> Result<(), Failure> {
    println!("  break {leaf}: nothing that leaves through VXLAN has a packet mark");
    let chain = "{ type filter hook postrouting priority 2000; }";
    lab.run(leaf, &["nft", "add", "table", "bridge", "broken"])?;
    lab.run(
        leaf,
        &["nft", "add", "chain", "bridge", "broken", "last", chain],
    )?;
    let rule = [
        "nft", "add", "rule", "bridge", "broken", "last", "meta", "mark", "set", "0",
    ];
    lab.run(leaf, &rule).map(drop)
}

/// Kills the guardian of a leaf's agent, which has no time to start another one before it is killed too. One that is only
/// stopped goes on then: the kernel wakes what an orphaned process group has stopped.
pub(crate) fn guardian(lab: &Lab, leaf: &str) -> Result<(), Failure> {
    println!("  break {leaf}: the guardian of weft-agent is killed with it");
    stand_still(lab, leaf)?;
    let killed = lab.namespace(leaf)?.signal("guardian", Signal::SIGKILL)?;
    match killed {
        0 => Err(Failure::new(format!("no guardian in {leaf}"))),
        _ => Ok(()),
    }
}

/// SIGSTOP to a leaf's agent and its guardian.
pub(crate) fn stand_still(lab: &Lab, leaf: &str) -> Result<(), Failure> {
    let stopped = lab.namespace(leaf)?.signal("weft-agent", Signal::SIGSTOP)?;
    match stopped {
        0 => Err(Failure::new(format!("no agent in {leaf}"))),
        _ => Ok(()),
    }
}

/// SIGCONT to a leaf's agent and its guardian.
pub(crate) fn go_on(lab: &Lab, leaf: &str) -> Result<(), Failure> {
    let agent = lab.namespace(leaf)?;
    agent.signal("weft-agent", Signal::SIGCONT).map(drop)
}

/// The priority of the rule that leaves a leaf one way.
const BLIND: &str = "100";
