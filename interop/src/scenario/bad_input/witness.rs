//! Those who must notice nothing: every replica's table, and the leaf's session and table.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{LEAF, REPLICAS};
use crate::{
    expect::Lines,
    failure::Failure,
    lab::Lab,
    weft::{Client, field},
};

/// Keys by the peer that announced them.
pub(super) type Routes = BTreeMap<String, BTreeSet<String>>;

/// What one replica has, of every family that rogues may speak.
pub(super) fn routes(client: &Client<'_>) -> Result<Routes, Failure> {
    let mut routes = Routes::new();
    for family in ["l2vpn-evpn", "ipv4-unicast"] {
        for route in client.list(&["route", "list", "--family", family])? {
            for path in route["paths"].as_array().into_iter().flatten() {
                let keys = routes.entry(field(path, "peer_router_id")).or_default();
                keys.insert(field(&route, "key"));
            }
        }
    }
    Ok(routes)
}

/// One line for each route and each replica.
pub(super) fn everywhere(lab: &Lab) -> Result<Lines, Failure> {
    let mut lines = Lines::new();
    for (name, client) in clients(lab)? {
        for (peer, keys) in routes(&client)? {
            lines.extend(keys.iter().map(|key| format!("{name}: {peer} {key}")));
        }
    }
    Ok(lines)
}

/// `weft` at every replica.
pub(super) fn clients(lab: &Lab) -> Result<Vec<(&'static str, Client<'_>)>, Failure> {
    REPLICAS
        .iter()
        .map(|(name, address)| Ok((*name, Client::of(lab, name, &address.to_string())?)))
        .collect()
}

/// What the leaf has, by route distinguisher, and from how many reflectors.
pub(super) fn leaf_routes(lab: &Lab) -> Result<Lines, Failure> {
    let table = lab
        .frr(LEAF)?
        .json("show bgp l2vpn evpn route detail json")?;
    let mut lines = Lines::new();
    for (rd, destinations) in table.as_object().into_iter().flatten() {
        for (key, destination) in destinations.as_object().into_iter().flatten() {
            if key.starts_with('[') {
                let paths = destination["paths"].as_array().map_or(0, Vec::len);
                lines.insert(format!("{rd} {key}, {paths} paths"));
            }
        }
    }
    Ok(lines)
}

/// The leaf's sessions: state, how often they were lost, and every NOTIFICATION in either direction.
pub(super) fn leaf_sessions(lab: &Lab) -> Result<Lines, Failure> {
    let neighbours = lab.frr(LEAF)?.json("show bgp neighbors json")?;
    let mut lines = Lines::new();
    for (name, address) in REPLICAS {
        let session = &neighbours[address.to_string()];
        let messages = &session["messageStats"];
        lines.insert(format!(
            "{LEAF} to {name}: {}, up {}, lost {}, NOTIFICATIONs {} sent {} received",
            field(session, "bgpState"),
            count(session, "connectionsEstablished"),
            count(session, "connectionsDropped"),
            count(messages, "notificationsSent"),
            count(messages, "notificationsRecv"),
        ));
    }
    Ok(lines)
}

/// Prefixes that the leaf took from each replica.
pub(super) fn leaf_received(lab: &Lab) -> Result<Lines, Failure> {
    let summary = lab.frr(LEAF)?.json("show bgp l2vpn evpn summary json")?;
    let peers = &summary["peers"];
    Ok(REPLICAS
        .iter()
        .map(|(name, address)| format!("{name}: {}", count(&peers[address.to_string()], "pfxRcd")))
        .collect())
}

fn count(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_default()
}
