//! End-of-RIB means the whole RIB: who hears it holds every route that was committed before its session
//! began and has not gone since. Looks at routes that one switch alone announces.

use weft_bgp::nlri::Nlri;
use weft_controller::ledger::FactKey;
use weft_evpn::Route;

use super::Verdict;
use super::facts::Facts;
use crate::session::Session;
use crate::switch::Switch;

/// Judges the moment at which a session's switch hears it.
pub(crate) fn heard(session: &Session, switches: &[Switch], facts: &Facts) -> Verdict {
    for (key, since) in &facts.since {
        let Some(FactKey::Route(_, peer, octets)) = FactKey::decode(key) else {
            continue;
        };
        let from = switches.iter().position(|switch| switch.peer == peer);
        let Some(from) = from.filter(|from| *from != session.switch) else {
            continue;
        };
        let route = Route::key_from_octets(octets).filter(|key| switches[from].owns(key));
        let route = route.filter(|_| !facts.is_stale(key));
        let missing = route.filter(|key| !session.routes.contains_key(key));
        if let Some(key) = missing.filter(|_| *since < session.since) {
            let (switch, replica) = (session.switch, session.replica);
            return Err(format!(
                "switch {switch} heard End-of-RIB from replica {replica} before {key}"
            ));
        }
    }
    Ok(())
}
