//! Too much of it: 200 connections from one address, and a peer that never reads.

use std::{
    net::{Ipv4Addr, SocketAddrV4},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use super::{
    REPLICAS, ROGUE, SOON, bystanders,
    table::Table,
    voice::{KEEPALIVE, Voice},
    witness,
};
use crate::{
    check::Checks,
    clock,
    expect::Lines,
    failure::Failure,
    lab::Lab,
    weft::{Client, count, field},
};

/// Of 200 connections at once one becomes a session and the others are closed; once they have gone, the
/// address can peer as before.
pub(super) fn at_once(lab: &Lab, table: &Table, checks: &mut Checks) -> Result<(), Failure> {
    let (_, replica) = REPLICAS[0];
    let greeting = greeting(table, CROWD, replica)?;
    let start = Instant::now();
    let mut voices = Vec::new();
    for _ in 0..CROWD_SIZE {
        voices.push(dial(lab, CROWD, replica, None)?);
    }
    for voice in &mut voices {
        voice.say(&greeting)?;
    }
    let deadline = clock::deadline(PATIENCE);
    let (open, up) = loop {
        clock::pause(Duration::from_millis(500))?;
        for voice in &mut voices {
            voice.hear(Duration::from_millis(2), |voice| voice.closed)?;
        }
        let open = voices.iter().filter(|voice| !voice.closed).count();
        let up = voices.iter().filter(|voice| voice.got(KEEPALIVE)).count();
        if (open, up) == (1, 1) || Instant::now() > deadline {
            break (open, up);
        }
    };
    let verdict = match (open, up) {
        (1, 1) => Ok(format!("1 session, {} closed", CROWD_SIZE - 1)),
        _ => Err(format!(
            "expected: 1 open, 1 with a session\nactual:   {open} open, {up} with a session"
        )),
    };
    let name = format!("{CROWD_SIZE} connections at once from one peer");
    checks.record(&name, start, verdict);
    drop(voices);

    let start = Instant::now();
    let deadline = clock::deadline(Duration::from_secs(5));
    let mut attempts = 0;
    let verdict = loop {
        attempts += 1;
        let mut voice = dial(lab, CROWD, replica, None)?;
        voice.say(&greeting)?;
        voice.hear(Duration::from_secs(1), |voice| voice.got(KEEPALIVE))?;
        if voice.got(KEEPALIVE) && !voice.closed {
            break Ok(format!("attempt {attempts}"));
        }
        if Instant::now() > deadline {
            break Err(format!(
                "expected: a session\nactual:   {:?}",
                voice.notification
            ));
        }
        clock::pause(Duration::from_millis(200))?;
    };
    checks.record("the same peer is served afterwards", start, verdict);
    Ok(())
}

/// A peer that takes no octets, while thousands of routes are there for it: everybody else has them, and
/// what comes next reaches them at once.
pub(super) fn deaf(
    lab: &mut Lab,
    table: &Table,
    beside: &Lines,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let (name, replica) = REPLICAS[0];
    let mut deaf = dial(lab, DEAF, replica, Some(4096))?;
    deaf.say(&greeting(table, DEAF, replica)?)?;
    deaf.hear(PATIENCE, |voice| voice.got(KEEPALIVE))?;
    let mut talker = dial(lab, TALKER, replica, None)?;
    talker.say(&greeting(table, TALKER, replica)?)?;
    talker.hear(PATIENCE, |voice| voice.got(KEEPALIVE))?;
    let updates = updates(table, replica)?;
    let (first, rest) = updates.split_at(FIRST / IN_A_MESSAGE);
    first.iter().try_for_each(|update| talker.say(update))?;
    beside_it(lab, beside, checks)?;
    rest.iter().try_for_each(|update| talker.say(update))?;
    let everything: Lines = REPLICAS
        .iter()
        .map(|(name, _)| format!("{name}: {ROUTES}"))
        .collect();
    let title = format!("{ROUTES} routes reach the leaf though one peer never reads");
    checks.agree(&title, SOON, &everything, || witness::leaf_received(lab))?;

    blocked(lab, name, checks)?;

    let mut next = dial(lab, NEXT, replica, None)?;
    next.say(&greeting(table, NEXT, replica)?)?;
    next.hear(PATIENCE, |voice| voice.got(KEEPALIVE))?;
    next.say(&table.spoken("ANNOUNCE_LAST", NEXT, replica)?)?;
    let one_more: Lines = REPLICAS
        .iter()
        .map(|(name, _)| format!("{name}: {}", ROUTES + 1))
        .collect();
    checks.agree(
        "the next route reaches the leaf at once",
        AT_ONCE,
        &one_more,
        || witness::leaf_received(lab),
    )?;
    let client = Client::of(lab, name, &replica.to_string())?;
    let expected: Lines = [(DEAF, 0), (TALKER, ROUTES), (NEXT, 1)]
        .map(|(peer, routes)| format!("{peer}: SESSION_STATE_ESTABLISHED, {routes} routes"))
        .into();
    checks.agree("all three sessions are up", AT_ONCE, &expected, || {
        let peers = client.list(&["peer", "list"])?;
        let ours = [DEAF, TALKER, NEXT].map(|peer| peer.to_string());
        let known = peers
            .iter()
            .filter(|peer| ours.contains(&field(&peer["session"], "address")));
        Ok(known
            .map(|peer| {
                let routes = count(peer, "route_count").unwrap_or_default();
                format!(
                    "{}: {}, {routes} routes",
                    field(&peer["session"], "address"),
                    field(&peer["session"], "state")
                )
            })
            .collect())
    })?;
    Ok(())
}

/// GoBGP and ExaBGP hear the first of it and stay. Then they go: GoBGP 3.10, whose time grows with the square, takes
/// minutes over all of it.
fn beside_it(lab: &mut Lab, sessions: &Lines, checks: &mut Checks) -> Result<(), Failure> {
    let own_too: Lines = [format!("{} of 3 paths", FIRST + 1)].into();
    let title = format!("GoBGP has the first {FIRST} routes from every replica");
    checks.agree(&title, GOBGP_WITHIN, &own_too, || {
        bystanders::gobgp_counts(lab)
    })?;
    super::undisturbed(lab, "in the crowd", sessions, checks)?;
    for node in [bystanders::GOBGP, bystanders::EXABGP] {
        lab.end_program(node, None, Signal::SIGTERM)?;
    }
    Ok(())
}

/// Whether octets really wait for the peer that never reads.
fn blocked(lab: &Lab, replica: &str, checks: &mut Checks) -> Result<(), Failure> {
    let start = Instant::now();
    let waiting = lab.run(
        replica,
        &[
            "ss",
            "-Htn",
            "state",
            "established",
            "dst",
            &DEAF.to_string(),
        ],
    )?;
    let queued = waiting
        .split_whitespace()
        .nth(1)
        .and_then(|octets| octets.parse::<u64>().ok());
    let verdict = match queued {
        Some(octets) if octets > 0 => Ok(format!("{octets} octets wait")),
        _ => Err(format!(
            "expected: octets wait for it\nactual:   {waiting:?}"
        )),
    };
    checks.record("the peer that never reads really blocks", start, verdict);
    Ok(())
}

fn dial(
    lab: &Lab,
    own: Ipv4Addr,
    replica: Ipv4Addr,
    window: Option<usize>,
) -> Result<Voice, Failure> {
    let to = SocketAddrV4::new(replica, BGP_PORT);
    Voice::dial(lab.namespace(ROGUE)?, own, to, window)
}

fn greeting(table: &Table, own: Ipv4Addr, replica: Ipv4Addr) -> Result<Vec<u8>, Failure> {
    table.spoken("OPEN KEEPALIVE", own, replica)
}

/// Type 2 routes of hosts that differ in their MAC address, as many in a message as fit.
fn updates(table: &Table, replica: Ipv4Addr) -> Result<Vec<Vec<u8>>, Failure> {
    let numbers: Vec<u64> = (0..ROUTES).collect();
    numbers
        .chunks(IN_A_MESSAGE)
        .map(|chunk| {
            let nlri: Vec<String> = chunk
                .iter()
                .map(|number| format!("02 1{{ MAC_HEAD 30 06{number:010x} 00 000064 }}"))
                .collect();
            let text = format!(
                "update{{ 0000 2{{ 90 0e 2{{ HEAD {} }} ATTRIBUTES }} }}",
                nlri.join(" ")
            );
            table.spoken(&text, TALKER, replica)
        })
        .collect()
}

const BGP_PORT: u16 = 179;
const CROWD_SIZE: usize = 200;
const CROWD: Ipv4Addr = Ipv4Addr::new(10, 255, 2, 251);
const DEAF: Ipv4Addr = Ipv4Addr::new(10, 255, 2, 252);
const TALKER: Ipv4Addr = Ipv4Addr::new(10, 255, 2, 253);
const NEXT: Ipv4Addr = Ipv4Addr::new(10, 255, 2, 254);

/// 700 KB on the wire: far more than a socket takes for a peer with a window of 4 KB.
const ROUTES: u64 = 20_000;
/// Of those, as many as GoBGP takes within its time: twice as many take it a minute on a machine of two cores that builds
/// besides.
const FIRST: usize = 1_000;
const GOBGP_WITHIN: Duration = Duration::from_secs(60);
/// 100 NLRI of 35 octets, and their attributes: below 4096.
const IN_A_MESSAGE: usize = 100;
const PATIENCE: Duration = Duration::from_secs(3);
const AT_ONCE: Duration = Duration::from_secs(3);
