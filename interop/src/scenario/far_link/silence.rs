//! Nobody speaks for weft any more: the agent of a leaf is killed, or every replica falls silent. FRR alone routes a
//! second later, and not one packet is lost by the change.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use super::{Faults, REPLICAS, fault::Fault, switch, weights};
use crate::{
    check::{Checks, agreement},
    clock,
    expect::Lines,
    failure::Failure,
    flows::Flows,
    lab::Lab,
    namespace::Sent,
    sabotage::{self, Break},
};

/// SIGKILL to the agent of the leaf that sends.
pub(super) fn agent_killed(
    lab: &mut Lab,
    faults: &Faults,
    sabotage: Option<Break>,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let flows = started(lab, faults)?;
    if sabotage == Some(Break::Guardian) {
        sabotage::guardian(lab, &faults.traffic.leaf)?;
    }
    lab.end(&faults.traffic.agent, Signal::SIGKILL)?;
    let traffic = &faults.traffic;
    let is_blind = sabotage == Some(Break::FarLinkBlind);
    if is_blind {
        sabotage::blind(lab, &traffic.leaf, &traffic.vtep.to_string())?;
        Fault::FarLinkDown.begin(lab)?;
    }
    plain(lab, faults, "agent killed", (flows, A_SECOND), checks)?;
    if is_blind {
        sabotage::seeing(lab, &traffic.leaf)?;
        Fault::FarLinkDown.end(lab)?;
    }
    lab.start(&faults.traffic.agent)?;
    weights::declare(lab, faults, checks)
}

/// SIGSTOP to every replica: their connections stay, and nobody speaks on them.
pub(super) fn replicas_silent(
    lab: &mut Lab,
    faults: &Faults,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let flows = started(lab, faults)?;
    for (replica, _) in REPLICAS {
        lab.signal(replica, Some("weftd"), Signal::SIGSTOP)?;
    }
    let answer = plain(
        lab,
        faults,
        "weft silent past its lease",
        (flows, LEASE + A_SECOND),
        checks,
    );
    for (replica, _) in REPLICAS {
        lab.signal(replica, Some("weftd"), Signal::SIGCONT)?;
    }
    answer
}

/// Flows over the uplinks that weft chose, and over no other.
fn started(lab: &Lab, faults: &Faults) -> Result<Flows, Failure> {
    let traffic = &faults.traffic;
    let ports: Vec<u16> = (FIRST_PORT..).take(traffic.flows).collect();
    let flows = Flows::start(&traffic.route(lab)?, &ports, traffic.packets_per_second)?;
    clock::pause(STEADY)?;
    Ok(flows)
}

/// Within some time nothing of weft is left in the leaf's kernel and its flows take all of FRR's uplinks; nothing was
/// lost.
fn plain(
    lab: &Lab,
    faults: &Faults,
    what: &str,
    (flows, within): (Flows, Duration),
    checks: &mut Checks,
) -> Result<(), Failure> {
    let start = Instant::now();
    let (leaf, uplinks) = (&faults.traffic.leaf, &faults.traffic.uplinks);
    let answer = agreement(within, &Lines::new(), || switch::of_weft(lab, leaf))?;
    checks.record(
        &format!(
            "{what}: nothing of weft in the kernel of {leaf} within {} s",
            within.as_secs()
        ),
        start,
        answer.map(|()| "rule, routes and marks are gone".to_owned()),
    );
    clock::pause(within.saturating_sub(start.elapsed()))?;
    let before = lab.namespace(leaf)?.sent()?;
    clock::pause(STEADY)?;
    let after = lab.namespace(leaf)?.sent()?;
    checks.record(
        &format!("{what}: flows take all of FRR's uplinks"),
        start,
        spread(uplinks, &before, &after),
    );
    let count = flows.stop()?;
    let lost = count.lost(Duration::ZERO, Duration::MAX);
    checks.record(
        &format!("{what}: no packet lost"),
        start,
        match lost {
            0 => Ok(format!("{} sent", count.sent())),
            lost => Err(format!(
                "expected: 0 packets lost\nactual:   {lost} of {}, of {} flows, within {} ms",
                count.sent(),
                count.flows_hit(Duration::ZERO, Duration::MAX),
                count.outage(Duration::ZERO, Duration::MAX).as_millis()
            )),
        },
    );
    Ok(())
}

/// Each uplink has a share of the packets that is neither nothing nor weft's three quarters.
fn spread(
    uplinks: &[String],
    before: &BTreeMap<String, Sent>,
    after: &BTreeMap<String, Sent>,
) -> Result<String, String> {
    let packets = |sent: &BTreeMap<String, Sent>, uplink| {
        sent.get(uplink).map_or(0, |sent: &Sent| sent.packets)
    };
    let sent: Vec<u64> = uplinks
        .iter()
        .map(|uplink| packets(after, uplink).saturating_sub(packets(before, uplink)))
        .collect();
    let total: u64 = sent.iter().sum();
    let fair = |packets: &u64| packets * 20 > total && packets * 2 < total;
    let said = format!("packets {sent:?} over {}", uplinks.join(" "));
    match total > 0 && sent.iter().all(fair) {
        true => Ok(said),
        false => Err(format!(
            "expected: each between 5 and 50 %\nactual:   {said}"
        )),
    }
}

/// Of weft-agent: after so long without a word from weft it removes what it installed.
const LEASE: Duration = Duration::from_secs(10);

const A_SECOND: Duration = Duration::from_secs(1);

const STEADY: Duration = Duration::from_millis(400);

const FIRST_PORT: u16 = 30_000;
