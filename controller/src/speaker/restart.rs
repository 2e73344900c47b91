//! Graceful restart as helper: what of a peer outlives its session, and what its return says about it.
//! RFC 4724, RFC 8538, RFC 9494. Knows no time; the facts and their leader count it.

use weft_bgp::family::Family;
use weft_bgp::message::notification::Cease;
use weft_bgp::session::{DownReason, Negotiated};

use crate::config::PeerGroup;
use crate::ledger::{Phase, Retention};
use crate::reflector::owner::Parting;

/// What the end of a session for `reason` means for the paths of a peer of this group. Where graceful restart
/// is off, a peer that is gone is gone; the group's long-lived stale time is the longest that is granted,
/// whatever the peer asks for (RFC 9494 §4.2).
pub fn parting(group: &PeerGroup, negotiated: &Negotiated, reason: &DownReason) -> Parting {
    // What we end for a reason of our own says nothing about the peer.
    let ours = [Cease::OutOfResources, Cease::ConfigurationChange];
    if matches!(reason, DownReason::Stopped(cease) if ours.contains(cease)) {
        return Parting::OurDoing;
    }
    let granted = group.graceful_restart.is_some();
    let retention = granted.then(|| retention(negotiated, reason, group.long_lived_secs));
    retention
        .flatten()
        .map_or(Parting::Gone, Parting::Restarting)
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
