//! Over which uplinks packets leave: what nft of the lab's own counts at a leaf, not what weft says.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    Plan,
    condition::Condition,
    fabric::{self, Flow, Pattern, address},
};
use crate::{
    check::Checks,
    clock,
    failure::{Context, Failure},
    lab::Lab,
};

/// Sends packets of each flow that has one spine to port 4791, each from another port, and of each that queue pairs divide from
/// the port of each of them, and looks where they leave. Where the plan moved pins while packets were sent, they are sent again:
/// a pin may move by what the leader measures.
pub(super) fn follow(
    lab: &Lab,
    plan: &Plan,
    (condition, pattern): (Condition, &Pattern),
    checks: &mut Checks,
) -> Result<(), Failure> {
    let start = Instant::now();
    let what = format!("{} {}", condition.name(), pattern.name());
    clock::pause(TCP_ENDED)?;
    let mut answer = Err("pins moved each time that packets were sent".to_owned());
    for _ in 0..SENT_MOST {
        let flows = fabric::pinned(lab)?;
        // An nft that took too long while two cores sent as much as they can makes the agent put its table anew, pins last.
        fabric::in_kernels(lab, &what, checks)?;
        let found = by_pins(lab, plan, pattern, &flows)?;
        if found.is_ok() || fabric::pinned(lab)? == flows {
            answer = found;
            break;
        }
    }
    let name = format!("{what}: every packet of a flow leaves by its pin");
    checks.record(&name, start, answer);
    Ok(())
}

/// How many flows were followed, or where packets left that had another pin.
fn by_pins(
    lab: &Lab,
    plan: &Plan,
    pattern: &Pattern,
    flows: &[Flow],
) -> Result<Result<String, String>, Failure> {
    if flows.is_empty() {
        return Ok(Err("no flow is pinned".to_owned()));
    }
    let mut astray = Vec::new();
    let whole = flows.iter().filter(|flow| !flow.spine.is_empty());
    let whole = whole.map(|flow| (flow, 0, &flow.spine));
    let divided = flows.iter().flat_map(|flow| {
        let ports = flow.ports.iter();
        ports.map(move |(port, spine)| (flow, *port, spine))
    });
    let followed: Vec<(&Flow, u16, &String)> = whole.chain(divided).collect();
    for (flow, port, spine) in &followed {
        lab.run(
            &flow.from_leaf,
            &["nft", "flush", "set", "ip", "lab", "ways"],
        )?;
        send(lab, flow, *port, plan.packets)?;
        clock::pause(ARRIVED)?;
        let found = left_by(lab, &flow.from_leaf)?;
        let uplink = format!("eth{}", spine.trim_start_matches("spine"));
        let expected = BTreeMap::from([(uplink, plan.packets as u64)]);
        if found != expected {
            astray.push(format!(
                "expected: {} to {} from port {port}: {expected:?}\nactual:   {found:?}",
                flow.from, flow.to
            ));
        }
    }
    let by_pairs = followed.iter().filter(|(_, port, _)| *port > 0).count();
    if matches!(pattern, Pattern::QueuePairs(_)) && by_pairs == 0 {
        astray.push("no flow is divided by its queue pairs".to_owned());
    }
    Ok(match astray.is_empty() {
        true => Ok(format!(
            "{} flows as a whole and {by_pairs} queue pairs, {} packets each",
            followed.len() - by_pairs,
            plan.packets
        )),
        false => Err(astray.join("\n")),
    })
}

/// From a port; 0: from another one each.
fn send(lab: &Lab, flow: &Flow, port: u16, packets: usize) -> Result<(), Failure> {
    let to = address(&flow.to);
    let to: Ipv4Addr = to.parse().context(|| flow.to.clone())?;
    let to = SocketAddrV4::new(to, ROCE);
    let sent = lab.namespace(&flow.from)?.inside(|| {
        for _ in 0..packets {
            let socket = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
            socket.send_to(&[0; OCTETS], to)?;
        }
        Ok::<_, std::io::Error>(())
    })?;
    sent.context(|| format!("{} to {}", flow.from, flow.to))
}

/// Packets that left through VXLAN, by uplink.
fn left_by(lab: &Lab, leaf: &str) -> Result<BTreeMap<String, u64>, Failure> {
    let shown = lab.run(leaf, &["nft", "-j", "list", "set", "ip", "lab", "ways"])?;
    let shown: Value = serde_json::from_str(&shown).context(|| leaf.to_owned())?;
    let sets = shown["nftables"].as_array().into_iter().flatten();
    let elements = sets.filter_map(|it| it["set"]["elem"].as_array()).flatten();
    let count = |element: &Value| {
        let element = &element["elem"];
        let name = element["val"].as_str()?.to_owned();
        Some((name, element["counter"]["packets"].as_u64()?))
    };
    Ok(elements.filter_map(count).collect())
}

/// RoCEv2.
const ROCE: u16 = 4791;
const OCTETS: usize = 1000;
/// Until the last packets of connections that ended are gone.
const TCP_ENDED: Duration = Duration::from_secs(2);
const ARRIVED: Duration = Duration::from_millis(50);
/// How often packets are sent, at most.
const SENT_MOST: usize = 3;
