//! When all is healed, nothing is left of a switch that died: no fact, and no route at any client.

use weft_controller::ledger::FactKey;

use super::Verdict;
use super::facts::Facts;
use crate::session::Session;
use crate::switch::Switch;

/// Judges what is left of `switch`, which is dead.
pub(crate) fn dead(switch: &Switch, facts: &Facts, sessions: &[&Session]) -> Verdict {
    for key in facts.held.keys() {
        let of = match FactKey::decode(key) {
            Some(FactKey::Route(_, peer, _) | FactKey::Owner(peer) | FactKey::Session(_, peer)) => {
                peer
            }
            Some(
                FactKey::Head
                | FactKey::Declared(..)
                | FactKey::Stage(_)
                | FactKey::Edit(..)
                | FactKey::Job(_)
                | FactKey::Jobs
                | FactKey::Pins
                | FactKey::Pin(_)
                | FactKey::Request(_)
                | FactKey::RequestAt(_)
                | FactKey::Incarnation
                | FactKey::Freeze(_)
                | FactKey::Balance(_)
                | FactKey::Derating(_)
                | FactKey::KeptFree(_)
                | FactKey::OffPlan(_),
            )
            | None => continue,
        };
        if of == switch.peer {
            return Err(format!(
                "{} is dead, and there is a fact {key:?}",
                switch.peer
            ));
        }
    }
    for session in sessions.iter().filter(|session| session.switch_up) {
        if let Some(key) = session.routes.keys().find(|key| switch.owns(key)) {
            let at = session.switch;
            return Err(format!(
                "{} is dead, and {key} is at switch {at}",
                switch.peer
            ));
        }
    }
    Ok(())
}
