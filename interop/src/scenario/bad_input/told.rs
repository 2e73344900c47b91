//! What weft tells others of all that: to peers inside the AS and outside of it that come when the rows
//! have said what they say. Whatever a peer says, what weft emits is without fault.

use std::{
    net::{Ipv4Addr, SocketAddrV4},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use weft_bgp::{
    attribute::NextHop,
    capability::AddPathSet,
    family::Family,
    frame,
    message::{DecodeContext, Message, Update},
    nlri::{self, route_target::Membership},
};
use weft_evpn::Route;

use super::{REPLICAS, ROGUE, table::Table, voice::Voice};
use crate::{check::Checks, failure::Failure, lab::Lab};

/// Both get everything, and nothing of it is malformed.
pub(super) fn rightly(lab: &Lab, table: &Table, checks: &mut Checks) -> Result<(), Failure> {
    let listeners = [
        ("inside the AS", "OPEN", INSIDER, true),
        ("in another AS", "OPEN_OUTSIDE", OUTSIDER, false),
    ];
    for (name, open, own, ibgp) in listeners {
        let start = Instant::now();
        let (_, replica) = REPLICAS[0];
        let to = SocketAddrV4::new(replica, 179);
        let mut voice = Voice::dial(lab.namespace(ROGUE)?, own, to, None)?;
        voice.updates = Some(Vec::new());
        voice.say(&table.spoken(&format!("{open} KEEPALIVE"), own, replica)?)?;
        voice.hear(PATIENCE, |voice| {
            let updates = voice.updates.iter().flatten();
            updates.rev().any(|update| update.ends_with(END_OF_RIB))
        })?;
        let updates = voice.updates.as_deref().unwrap_or_default();
        let verdict = judged(updates, ibgp, ROUTES_MIN);
        checks.record(
            &format!("what weft emits to a peer {name} is valid"),
            start,
            verdict,
        );
    }
    Ok(())
}

/// A peer that says which route targets it wants hears once that we want all of them, as RFC 4684 §3.2 has it, and no route
/// before it has said so.
pub(super) fn of_memberships(lab: &Lab, table: &Table, checks: &mut Checks) -> Result<(), Failure> {
    let start = Instant::now();
    let (_, replica) = REPLICAS[0];
    let to = SocketAddrV4::new(replica, 179);
    let mut voice = Voice::dial(lab.namespace(ROGUE)?, CHOOSER, to, None)?;
    voice.updates = Some(Vec::new());
    let spoken = |text: &str| table.spoken(text, CHOOSER, replica);
    voice.say(&spoken("OPEN_RTC KEEPALIVE")?)?;
    voice.hear(PATIENCE, |voice| {
        let updates = voice.updates.iter().flatten();
        updates
            .rev()
            .any(|update| update.ends_with(END_OF_MEMBERSHIPS))
    })?;
    voice.hear(A_MOMENT, |voice| voice.closed)?;
    let before = voice.updates.replace(Vec::new()).unwrap_or_default();
    voice.say(&spoken("ANNOUNCE_MEMBERSHIP")?)?;
    voice.hear(PATIENCE, |voice| {
        let updates = voice.updates.as_deref().unwrap_or_default();
        judged(updates, true, ROUTES_MIN).is_ok()
    })?;
    voice.hear(A_MOMENT, |voice| voice.closed)?;
    let after = voice.updates.take().unwrap_or_default();
    checks.record(
        "a peer with route target membership hears one default membership, and then what it wants",
        start,
        chosen(&before, &after, replica),
    );
    Ok(())
}

/// Ok: what was heard after the membership was said.
fn chosen(before: &[Vec<u8>], after: &[Vec<u8>], replica: Ipv4Addr) -> Result<String, String> {
    let early = before.iter().map(|update| count(update, true));
    let early: usize = early.sum::<Result<_, _>>()?;
    if early > 0 {
        return Err(format!(
            "expected: no route before the membership\nactual:   {early}"
        ));
    }
    let mut found = Vec::new();
    for update in before.iter().chain(after) {
        found.extend(default_memberships(update)?);
    }
    if found != [NextHop::V4(replica)] {
        return Err(format!(
            "expected: one default membership of next hop {replica}\nactual:   {found:?}"
        ));
    }
    judged(after, true, ROUTES_MIN)
}

/// The next hop of each default membership in it.
fn default_memberships(update: &[u8]) -> Result<Vec<NextHop>, String> {
    let update = read(update, true)?;
    let mut found = Vec::new();
    if let Some(reach) = update.reach.filter(|part| part.family == Family::RTC) {
        let mut each = |_, membership| {
            if membership == Membership::DEFAULT {
                found.push(reach.next_hop);
            }
        };
        nlri::decode_all::<Membership>(&reach.nlri, false, &mut each, |_| ())
            .map_err(|error| format!("{error:?}"))?;
    }
    Ok(found)
}

/// Ok: how much it was. Err: each UPDATE that is not as it has to be, and why.
fn judged(updates: &[Vec<u8>], ibgp: bool, least: usize) -> Result<String, String> {
    let mut routes = 0;
    let mut wrong = Vec::new();
    for update in updates {
        match count(update, ibgp) {
            Ok(count) => routes += count,
            Err(fault) => wrong.push(format!("{fault}: {}", hex(update))),
        }
    }
    match (wrong.is_empty(), routes < least) {
        (true, false) => Ok(format!("{} UPDATEs, {routes} EVPN routes", updates.len())),
        (true, true) => Err(format!(
            "expected: at least {least} EVPN routes\nactual:   {routes}"
        )),
        (false, _) => Err(wrong.join("\n")),
    }
}

/// EVPN routes in it.
fn count(update: &[u8], ibgp: bool) -> Result<usize, String> {
    evpn(&read(update, ibgp)?)
}

/// An UPDATE without fault.
fn read(update: &[u8], ibgp: bool) -> Result<Update, String> {
    let said = |error: &dyn std::fmt::Debug| format!("{error:?}");
    let mut octets = BytesMut::from(update);
    let frame = frame::split(&mut octets, LENGTH_MAX)
        .map_err(|error| said(&error))?
        .ok_or("not whole")?;
    let context = DecodeContext {
        four_octet_as: true,
        ibgp,
        extended_message: false,
        add_path: AddPathSet::NONE,
    };
    let Message::Update(update) = Message::decode(frame, &context).map_err(|error| said(&error))?
    else {
        return Err("no UPDATE".to_owned());
    };
    if !update.faults.is_empty() {
        return Err(said(&update.faults));
    }
    Ok(*update)
}

fn evpn(update: &Update) -> Result<usize, String> {
    let Some(reach) = &update.reach else {
        return Ok(0);
    };
    if reach.family != Family::L2VPN_EVPN {
        return Ok(0);
    }
    let (mut routes, mut discarded) = (0, Vec::new());
    nlri::decode_all::<Route>(
        &reach.nlri,
        false,
        |_, _| routes += 1,
        |error| discarded.push(error),
    )
    .map_err(|error| format!("{error:?}"))?;
    match discarded.is_empty() {
        true => Ok(routes),
        false => Err(format!("{discarded:?}")),
    }
}

fn hex(octets: &[u8]) -> String {
    let shown = octets.iter().take(SHOWN);
    shown.map(|octet| format!("{octet:02x}")).collect()
}

const INSIDER: Ipv4Addr = Ipv4Addr::new(10, 255, 2, 250);
const CHOOSER: Ipv4Addr = Ipv4Addr::new(10, 255, 2, 249);
const OUTSIDER: Ipv4Addr = Ipv4Addr::new(10, 255, 7, 1);

/// Behind the attribute's flags, code and length: RFC 4724 §2.
const END_OF_RIB: &[u8] = &[0x00, 0x19, 0x46];
const END_OF_MEMBERSHIPS: &[u8] = &[0x00, 0x01, 0x84];

/// Neither of them offers extended messages.
const LENGTH_MAX: u16 = 4096;

/// The rows that stay up leave more than that.
const ROUTES_MIN: usize = 200;

const PATIENCE: Duration = Duration::from_secs(6);

/// Long enough for one thing more, if there is one.
const A_MOMENT: Duration = Duration::from_millis(200);

/// Octets of an UPDATE that name it.
const SHOWN: usize = 160;
