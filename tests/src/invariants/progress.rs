//! What a well served switch says is agreed before long, whoever else it speaks to, and whatever ails
//! them.

use weft_bgp::family::Family;
use weft_bgp::nlri::Nlri;
use weft_controller::ledger::{self, FactKey};
use weft_evpn::Route;

use super::Verdict;
use super::facts::Facts;
use super::no_withdraw::Wellness;
use crate::switch;

/// Judges every switch that has been well served for long.
pub(crate) fn agreed(wellness: &Wellness<'_>, facts: &Facts) -> Verdict {
    for (at, switch) in wellness.switches.iter().enumerate() {
        if !switch.alive || !wellness.serves(at, AGREED_AFTER) {
            continue;
        }
        let long = |changed: u64| changed + AGREED_AFTER <= wellness.now;
        for (key, announced) in switch.routes.iter().filter(|(_, it)| long(it.changed)) {
            let mut octets = Vec::new();
            Route::key_octets(key, &mut octets);
            let fact = FactKey::Route(Family::L2VPN_EVPN, switch.peer, &octets).encode();
            let value = facts.held.get(&fact);
            let agreed = value.and_then(|value| ledger::decode_path(value));
            let mark = agreed.and_then(|(_, attributes)| switch::version(&attributes));
            if mark != switch::version(&announced.attributes) {
                let secs = (wellness.now - announced.changed) / 1_000;
                return Err(format!(
                    "switch {at} says {key} since {secs} s, agreed is {mark:?}"
                ));
            }
        }
    }
    Ok(())
}

/// Above T_dead, a claim, the wait of an impatient replica, a few losses, and a switch that says its routes slowly.
const AGREED_AFTER: u64 = 28_000;
