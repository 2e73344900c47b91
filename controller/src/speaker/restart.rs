//! Graceful restart as helper: what of a peer outlives its session, and what its return says about it.
//! RFC 4724, RFC 8538, RFC 9494. Knows no time; the facts and their leader count it.

use weft_bgp::family::Family;
use weft_bgp::session::{DownReason, Negotiated};

use crate::ledger::{Phase, Retention};
use crate::reflector::owner::Parting;

/// What the end of a session for `reason` means for the peer's paths. `long_lived_max_secs` is the longest
/// stale time that we grant, whatever the peer asks for (RFC 9494 §4.2); zero: none.
pub fn parting(negotiated: &Negotiated, reason: &DownReason, long_lived_max_secs: u32) -> Parting {
    retention(negotiated, reason, long_lived_max_secs).map_or(Parting::Gone, Parting::Restarting)
}

fn retention(
    negotiated: &Negotiated,
    reason: &DownReason,
    long_lived_max_secs: u32,
) -> Option<Retention> {
    if !reason.retains(negotiated) {
        return None;
    }
    let restart = negotiated.graceful_restart.as_ref()?;
    let stale_secs = |family: Family| {
        let long_lived = negotiated.long_lived.iter();
        let mut granted = long_lived.filter(|offer| offer.family == family);
        granted.next().map_or(0, |offer| offer.stale_secs)
    };
    let listed = restart.families.iter().map(|(family, _)| *family);
    let families: Vec<_> = listed
        .filter(|family| negotiated.families.contains(family))
        .map(|family| (family, stale_secs(family).min(long_lived_max_secs)))
        .collect();
    (!families.is_empty()).then_some(Retention {
        phase: Phase::Graceful,
        restart_secs: restart.restart_secs,
        families,
    })
}

/// Families for which the peer kept its forwarding state: the F bit. RFC 4724 §4.2.
pub fn preserved(negotiated: &Negotiated) -> Vec<Family> {
    let restart = negotiated.graceful_restart.as_ref();
    let families = restart.map_or(&[][..], |restart| &restart.families);
    let kept = families.iter().filter(|(_, forwarding)| *forwarding);
    kept.map(|(family, _)| *family).collect()
}
