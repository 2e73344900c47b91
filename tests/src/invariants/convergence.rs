//! When all is healed, every client holds over every session exactly what the other live switches
//! announce, octet for octet the same whichever replica said it. Works out what is best by itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use weft_bgp::reflect::{self, ExportKey, Local};
use weft_bgp::table::Source;
use weft_evpn::RouteKey;
use weft_evpn::community::MacMobility;

use super::Verdict;
use crate::session::{Held, Session, held};
use crate::stake::KIND;
use crate::switch::{Announced, Switch};

/// Judges one session of a switch.
pub(crate) fn session(session: &Session, switches: &[Switch], local: &Local) -> Verdict {
    let expected = expected(session.switch, switches, local);
    let (switch, replica) = (session.switch, session.replica);
    let keys: BTreeSet<_> = expected.keys().chain(session.routes.keys()).collect();
    for key in keys {
        let fault = match (expected.get(key), session.routes.get(key)) {
            (Some(_), None) => "is missing",
            (None, Some(_)) => "is still there",
            (Some(expected), Some(found)) if expected != found => "is another",
            _ => continue,
        };
        return Err(format!(
            "{key} {fault} at switch {switch} by replica {replica}"
        ));
    }
    if session.ended == session.unconfirmed {
        let heard = if session.ended {
            "heard"
        } else {
            "never heard"
        };
        return Err(format!(
            "switch {switch} {heard} End-of-RIB from replica {replica}"
        ));
    }
    Ok(())
}

/// Judges one session before the routes of the dead are gone: they may be left, and may hide others'.
pub(crate) fn settled(session: &Session, switches: &[Switch], local: &Local) -> Verdict {
    let expected = expected(session.switch, switches, local);
    let own = |key: &RouteKey| switches.iter().any(|switch| switch.owns(key));
    let (switch, replica) = (session.switch, session.replica);
    for (key, expected) in expected.iter().filter(|(key, _)| own(key)) {
        let fault = match session.routes.get(key) {
            None => "is still missing",
            Some(found) if found != expected => "is still another",
            Some(_) => continue,
        };
        return Err(format!(
            "{key} {fault} at switch {switch} by replica {replica}"
        ));
    }
    Ok(())
}

/// What a switch must hold: of each key the best path, unless it is its own.
fn expected(at: usize, switches: &[Switch], local: &Local) -> BTreeMap<RouteKey, Held> {
    let mut best: BTreeMap<RouteKey, (usize, &Announced)> = BTreeMap::new();
    for (from, switch) in switches.iter().enumerate().filter(|(_, it)| it.alive) {
        for (key, announced) in &switch.routes {
            let better = |held: &(usize, &Announced)| rank(announced) > rank(held.1);
            if best.get(key).is_none_or(better) {
                best.insert(key.clone(), (from, announced));
            }
        }
    }
    best.retain(|_, (from, _)| *from != at);
    let tell = |(from, announced): (usize, &Announced)| {
        let (source, to) = (&switches[from], &switches[at]);
        let source = Source::new(source.peer, source.address, KIND);
        let key = ExportKey::new(KIND, &to.context);
        let told = reflect::reflect(&source, &announced.attributes, &key, local);
        held(
            &announced.route,
            told.expect("a client is told").to_octets(),
        )
    };
    best.into_iter()
        .map(|(key, path)| (key, tell(path)))
        .collect()
}

/// RFC 7432 §15: the highest sequence, then the lowest next hop.
fn rank(announced: &Announced) -> (u32, Reverse<Option<weft_bgp::attribute::NextHop>>) {
    let sequence = MacMobility::find(&announced.attributes).map_or(0, MacMobility::sequence);
    (sequence, Reverse(announced.attributes.next_hop))
}
