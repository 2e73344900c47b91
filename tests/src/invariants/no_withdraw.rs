//! A route whose switch is up and well served is never lost. Well served: an established session,
//! for long enough, to a replica that has been part of the majority for long enough.

use weft_bgp::nlri::Nlri;
use weft_controller::ledger::FactKey;
use weft_evpn::{Route, RouteKey};

use super::Verdict;
use super::facts::Delta;
use crate::session::Session;
use crate::switch::Switch;

/// What is known of how well everybody is.
pub(crate) struct Wellness<'a> {
    pub(crate) now: u64,
    pub(crate) switches: &'a [Switch],
    pub(crate) sessions: &'a [&'a Session],
    /// Since when each replica has been up, awake and part of the majority.
    pub(crate) well_since: &'a dyn Fn(u64) -> Option<u64>,
}

impl Wellness<'_> {
    /// Whether a switch has had, for so long, a session to a replica that was part of the majority.
    pub(crate) fn serves(&self, at: usize, long_ms: u64) -> bool {
        let long = |since: u64| since + long_ms <= self.now;
        self.sessions.iter().any(|session| {
            session.switch == at
                && session.is_up()
                && long(session.since)
                && (self.well_since)(session.replica).is_some_and(long)
        })
    }

    /// The index of the switch that has said `key` for long and is well served.
    fn secure(&self, key: &RouteKey) -> Option<usize> {
        let at = self.switches.iter().position(|switch| switch.owns(key))?;
        let switch = self.switches.get(at)?;
        let announced = switch.routes.get(key)?;
        let long = announced.since + SECURE_AFTER <= self.now;
        (switch.alive && long && self.serves(at, SECURE_AFTER)).then_some(at)
    }

    /// A fact went.
    pub(crate) fn changed(&self, delta: &Delta) -> Verdict {
        let Some(FactKey::Route(_, peer, octets)) = FactKey::decode(&delta.key) else {
            return Ok(());
        };
        let key = Route::key_from_octets(octets).filter(|_| delta.new.is_none());
        match key.filter(|key| self.secure(key).is_some()) {
            Some(key) => Err(format!(
                "{key} of {peer} was deleted, and is still announced"
            )),
            None => Ok(()),
        }
    }

    /// A client lost a route over one of its sessions.
    pub(crate) fn withdrawn(&self, session: &Session, key: &RouteKey) -> Verdict {
        let long = |since: u64| since + SECURE_AFTER <= self.now;
        if !(self.well_since)(session.replica).is_some_and(long) {
            return Ok(());
        }
        match self.secure(key) {
            Some(switch) if switch != session.switch => Err(format!(
                "{key} was withdrawn from switch {} by replica {}, and is still announced",
                session.switch, session.replica
            )),
            _ => Ok(()),
        }
    }
}

/// Above a proposal's deadline, hand-over and a few losses.
const SECURE_AFTER: u64 = 10_000;
