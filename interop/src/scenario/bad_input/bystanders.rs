//! GoBGP and ExaBGP, who listen while rows are played: what weft emits ends no session of theirs. Knows how
//! each of them tells of its sessions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{REPLICAS, witness};
use crate::{
    expect::Lines,
    failure::{Context, Failure},
    lab::Lab,
    weft::field,
};

/// GoBGP's sessions, each with when it began, and every NOTIFICATION in either direction; and ExaBGP's, which says
/// little of itself, as the replicas count them.
pub(super) fn sessions(lab: &Lab) -> Result<Lines, Failure> {
    let mut lines = Lines::new();
    for neighbour in gobgp(lab, "gobgp neighbor -j")?
        .as_array()
        .into_iter()
        .flatten()
    {
        let (state, timers) = (&neighbour["state"], &neighbour["timers"]["state"]);
        let notifications = |direction: &str| {
            let count = &state["messages"][direction]["notification"];
            count.as_u64().unwrap_or_default()
        };
        lines.insert(format!(
            "{GOBGP} to {}: state {} since {}, NOTIFICATIONs {} sent {} received",
            field(state, "neighbor_address"),
            field(state, "session_state"),
            timers["uptime"]["seconds"],
            notifications("sent"),
            notifications("received"),
        ));
    }
    for (name, client) in witness::clients(lab)? {
        let peer = client.answer(&["peer", "show", EXABGP_ADDRESS])?;
        let (session, detail) = (&peer["session"], &peer["detail"]);
        lines.insert(format!(
            "{EXABGP} at {name}: state {}, up {}, last error {}, NOTIFICATIONs {} sent {} received",
            field(session, "state"),
            field(detail, "established_count"),
            field(session, "last_error"),
            field(&detail["messages_sent"], "notification"),
            field(&detail["messages_received"], "notification"),
        ));
    }
    Ok(lines)
}

/// Whether all of these sessions are up.
pub(super) fn all_up(sessions: &Lines) -> bool {
    let up = [": state 6 since ", ": state SESSION_STATE_ESTABLISHED, "];
    let is_up = |line: &&String| up.iter().any(|state| line.contains(state));
    sessions.iter().filter(is_up).count() == 2 * REPLICAS.len()
}

/// What GoBGP has of EVPN, and from how many replicas. It switches the family off, without ending the session, on a
/// route type that it does not know: then it hears of no withdrawal any more.
pub(super) fn gobgp_routes(lab: &Lab) -> Result<Lines, Failure> {
    let table = gobgp(lab, "gobgp global rib -a evpn -j")?;
    let mut lines = Lines::new();
    for (key, paths) in table.as_object().into_iter().flatten() {
        let paths = paths.as_array().map_or(0, Vec::len);
        lines.insert(format!("{key}, {paths} paths"));
    }
    Ok(lines)
}

/// How many destinations GoBGP has, by their number of paths.
pub(super) fn gobgp_counts(lab: &Lab) -> Result<Lines, Failure> {
    let mut counts = BTreeMap::<String, usize>::new();
    for line in gobgp_routes(lab)? {
        let paths = line.rsplit_once(", ").map_or("", |(_, paths)| paths);
        *counts.entry(paths.to_owned()).or_default() += 1;
    }
    let counts = counts.iter();
    Ok(counts
        .map(|(paths, count)| format!("{count} of {paths}"))
        .collect())
}

fn gobgp(lab: &Lab, line: &str) -> Result<Value, Failure> {
    let text = lab.ask(GOBGP, line)?;
    serde_json::from_str(&text).context(|| line.to_owned())
}

pub(super) const GOBGP: &str = "gobgp1";
pub(super) const EXABGP: &str = "exabgp1";
const EXABGP_ADDRESS: &str = "10.255.0.31";
