//! What the kernel of a leaf has: FRR's ways in the main table, weft's in its own, the rule before them and the packet
//! marks.

use serde_json::Value;

use super::{LEAVES, SPINES, TABLE};
use crate::{
    expect::Lines,
    failure::{Context, Failure},
    lab::Lab,
    weft::field,
};

/// The interfaces over which a table sends to an address, in order.
pub(super) fn ways(lab: &Lab, leaf: &str, table: &str, to: &str) -> Result<Vec<String>, Failure> {
    let prefix = format!("{to}/32");
    let show = ["ip", "-j", "route", "show", "table", table, &prefix];
    // A table that nobody ever wrote to does not exist, and asking for it is an error.
    let text = match lab.run(leaf, &show) {
        Err(Failure::Said(said)) if said.contains("does not exist") => return Ok(Vec::new()),
        answer => answer?,
    };
    let routes: Vec<Value> =
        serde_json::from_str(&text).context(|| format!("table {table} of {leaf}"))?;
    let mut over: Vec<String> = routes.iter().flat_map(over).collect();
    over.sort();
    Ok(over)
}

fn over(route: &Value) -> Vec<String> {
    let alive = |hop: &Value| {
        let flags = hop["flags"].as_array().cloned().unwrap_or_default();
        !flags.iter().any(|flag| flag == "dead")
    };
    match &route["nexthops"] {
        Value::Array(hops) => hops
            .iter()
            .filter(|hop| alive(hop))
            .map(|hop| field(hop, "dev"))
            .collect(),
        _ => vec![field(route, "dev")],
    }
}

/// The VTEPs to which a leaf lacks ways in the main table, or a spine its own: one that has told a leaf of a way may not
/// have it in its kernel yet. None: all have all.
pub(super) fn missing(lab: &Lab, uplinks: &[String]) -> Result<Option<Lines>, Failure> {
    let mut lines = lacking(lab, "main", uplinks)?.unwrap_or_default();
    for spine in SPINES {
        for to in 0..LEAVES.len() {
            let vtep = format!("10.255.0.{}", 11 + to);
            let found = ways(lab, spine, "main", &vtep)?;
            if found != [format!("eth{}", 1 + to)] {
                lines.insert(format!("{spine} to {vtep}: {}", found.join(" ")));
            }
        }
    }
    Ok((!lines.is_empty()).then_some(lines))
}

/// The same of a table.
pub(super) fn lacking(
    lab: &Lab,
    table: &str,
    uplinks: &[String],
) -> Result<Option<Lines>, Failure> {
    let mut lines = Lines::new();
    for (from, leaf) in LEAVES.iter().enumerate() {
        for to in (0..LEAVES.len()).filter(|to| *to != from) {
            let vtep = format!("10.255.0.{}", 11 + to);
            let found = ways(lab, leaf, table, &vtep)?;
            if found != uplinks {
                lines.insert(format!(
                    "{leaf} to {vtep} in table {table}: {}",
                    found.join(" ")
                ));
            }
        }
    }
    Ok((!lines.is_empty()).then_some(lines))
}

/// Everything in a leaf's kernel that is weft's: rules, routes, next hops and marks. Empty: FRR alone routes.
pub(super) fn of_weft(lab: &Lab, leaf: &str) -> Result<Lines, Failure> {
    let mut lines = Lines::new();
    let named = |what: &str, text: &str, lines: &mut Lines| {
        let found = text.lines().filter(|line| !line.trim().is_empty());
        lines.extend(found.map(|line| format!("{leaf} {what}: {}", line.trim())));
    };
    for family in ["-4", "-6"] {
        let rules = lab.run(leaf, &["ip", family, "rule", "show", "table", TABLE])?;
        named("rule", &rules, &mut lines);
        match lab.run(leaf, &["ip", family, "route", "show", "table", TABLE]) {
            Err(Failure::Said(said)) if said.contains("does not exist") => {}
            answer => named("route", &answer?, &mut lines),
        }
    }
    let hops = lab.run(leaf, &["ip", "nexthop", "show", "proto", TABLE])?;
    named("next hop", &hops, &mut lines);
    let tables = lab.run(leaf, &["nft", "list", "tables"])?;
    let own = tables.lines().filter(|line| line.contains(" weft"));
    lines.extend(own.map(|line| format!("{leaf} nft: {line}")));
    Ok(lines)
}
