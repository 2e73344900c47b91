//! Which uplink a flow takes: tried with a few packets of each source port, since two hashes lie between.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::Traffic;
use crate::{
    clock,
    failure::{Context, Failure},
    flows::{self, Route},
    namespace::Namespace,
};

/// Source ports for as many flows as the traffic has, the same number over each uplink. Those of one uplink do not follow
/// each other: packets are sent in this order, and a fault would meet all of them or none for some milliseconds.
pub(super) fn spread(
    traffic: &Traffic,
    leaf: &Namespace,
    route: &Route,
) -> Result<Vec<u16>, Failure> {
    let share = traffic.flows / traffic.uplinks.len();
    let mut found: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for port in FIRST_PORT..FIRST_PORT + PORTS_TRIED {
        let Some(over) = tried(traffic, leaf, route, port)? else {
            continue;
        };
        let ports = found.entry(over).or_default();
        if ports.len() < share {
            ports.push(port);
        }
        if found.len() == traffic.uplinks.len() && found.values().all(|ports| ports.len() == share)
        {
            let place = |place: usize| found.values().map(move |ports| ports[place]);
            return Ok((0..share).flat_map(place).collect());
        }
    }
    let seen: Vec<String> = found
        .iter()
        .map(|(uplink, ports)| format!("{uplink} {}", ports.len()))
        .collect();
    Err(Failure::new(format!(
        "flows do not spread: of {PORTS_TRIED} source ports {share} were wanted over each of {}, found {}",
        traffic.uplinks.join(" "),
        seen.join(", ")
    )))
}

/// The uplink that sent the packets of a source port. None: a route changed meanwhile, and none sent all.
fn tried<'a>(
    traffic: &'a Traffic,
    leaf: &Namespace,
    route: &Route,
    port: u16,
) -> Result<Option<&'a str>, Failure> {
    let before = leaf.sent()?;
    let sockets = flows::senders(&route.from, &[port])?;
    for _ in 0..PACKETS {
        sockets[0]
            .send_to(&[0; 16], (route.address, flows::PORT))
            .context(|| format!("source port {port}"))?;
    }
    let deadline = Instant::now() + WITHIN;
    loop {
        let after = leaf.sent()?;
        for uplink in &traffic.uplinks {
            let [before, after] =
                [&before, &after].map(|sent| sent.get(uplink).map_or(0, |sent| sent.packets));
            if after.saturating_sub(before) >= PACKETS {
                return Ok(Some(uplink));
            }
        }
        if Instant::now() > deadline {
            return Ok(None);
        }
        clock::pause(Duration::from_millis(1))?;
    }
}

/// More than BGP sends in that time.
const PACKETS: u64 = 40;

const FIRST_PORT: u16 = 20_000;

/// With four uplinks the rarest of them gets 16 flows of about 90 ports.
const PORTS_TRIED: u16 = 400;

const WITHIN: Duration = Duration::from_millis(200);
