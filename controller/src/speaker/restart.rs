//! Graceful restart as helper: what of a peer outlives its session, and what its return says about it.
//! RFC 4724, RFC 8538, RFC 9494. Knows no time; the facts and their leader count it.

use weft_bgp::family::Family;
use weft_bgp::message::notification::Cease;
use weft_bgp::session::{DownReason, Negotiated};

use crate::config::PeerGroup;
use crate::ledger::{Phase, Retention};
use crate::reflector::owner::{Parting, Preserved};

/// Whether we mean to see the peer again.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// We do.
    Serve,
    /// This replica stops.
    Stop,
    /// The peer is not configured any more.
    Leave,
}

/// What becomes of a peer's paths now that the session fell to Idle for `reason`; `negotiated` is what held
/// while it was established. `None`: it was not, so what the end of the last one meant still holds. A peer
/// that is not configured any more is gone either way.
pub fn ended(
    intent: Intent,
    group: &PeerGroup,
    negotiated: Option<&Negotiated>,
    reason: &DownReason,
) -> Option<Parting> {
    match (intent, negotiated) {
        (Intent::Leave, _) => Some(Parting::Gone),
        (Intent::Serve | Intent::Stop, None) => None,
        (Intent::Stop, Some(_)) => Some(Parting::OurDoing),
        (Intent::Serve, Some(negotiated)) => Some(parting(group, negotiated, reason)),
    }
}

/// What the end of a session for `reason` means for the paths of a peer of this group. Where graceful restart
/// is off, a peer that is gone is gone; the group's long-lived stale time is the longest that is granted,
/// whatever the peer asks for (RFC 9494 §4.2).
fn parting(group: &PeerGroup, negotiated: &Negotiated, reason: &DownReason) -> Parting {
    // What we end for a reason of our own says nothing about the peer.
    let ours = matches!(
        reason,
        DownReason::Renewed
            | DownReason::Stopped(
                Cease::OutOfResources | Cease::ConfigurationChange | Cease::Reset,
                _
            )
    );
    if ours {
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
    let listed = |family: Family| restart.families.iter().any(|(it, _)| *it == family);
    let stale_secs = |family: Family| {
        let long_lived = negotiated.long_lived.iter();
        let mut granted = long_lived.filter(|offer| offer.family == family);
        let secs = granted.next().map_or(0, |offer| offer.stale_secs);
        secs.min(long_lived_max_secs)
    };
    let families = negotiated.families.iter();
    let families: Vec<_> = families
        .map(|family| (*family, stale_secs(*family)))
        .filter(|(family, secs)| listed(*family) || *secs > 0)
        .collect();
    // RFC 9494 §4.2: the restart time of a family that is not listed is zero. There is one time for all
    // that stays: beside others it waits for theirs.
    let any_listed = families.iter().any(|(family, _)| listed(*family));
    (!families.is_empty()).then_some(Retention {
        phase: Phase::Graceful,
        restart_secs: if any_listed { restart.restart_secs } else { 0 },
        families,
    })
}

/// Families for which the peer kept its forwarding state: the F bits. RFC 4724 §4.2, RFC 9494 §4.2.
pub fn preserved(negotiated: &Negotiated) -> Preserved {
    let restart = negotiated.graceful_restart.as_ref();
    let families = restart.map_or(&[][..], |restart| &restart.families);
    let kept = families.iter().filter(|(_, forwarding)| *forwarding);
    let offers = negotiated.long_lived.iter();
    let long_lived: Vec<_> = offers
        .filter(|offer| offer.forwarding)
        .map(|offer| offer.family)
        .collect();
    // What the other capability does not list has no other bit than the long-lived one.
    let listed = |family: &Family| families.iter().any(|(it, _)| it == family);
    let unlisted = long_lived.iter().filter(|family| !listed(family));
    Preserved {
        graceful: kept
            .map(|(family, _)| family)
            .chain(unlisted)
            .copied()
            .collect(),
        long_lived,
    }
}

/// Families for which the peer may restart, so that it says the end of all its routes. RFC 4724 §2, §4.1.
pub fn ending(negotiated: &Negotiated) -> Vec<Family> {
    let restart = negotiated.graceful_restart.iter();
    let listed = restart.flat_map(|restart| restart.families.iter().map(|(family, _)| *family));
    let long_lived = negotiated.long_lived.iter().map(|offer| offer.family);
    listed.chain(long_lived).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weft_bgp::capability::{AddPathSet, GracefulRestart, LongLived};
    use weft_bgp::message::DecodeContext;
    use weft_bgp::peer::{PeerId, RouterId};

    use super::*;

    const EVPN: Family = Family::L2VPN_EVPN;
    const IPV4: Family = Family::IPV4_UNICAST;

    fn group() -> PeerGroup {
        PeerGroup::new("leaves".to_owned())
    }

    /// What a peer offers: a restart time of 120 s for these families, each with or without F.
    fn negotiated(families: &[(Family, bool)]) -> Negotiated {
        Negotiated {
            peer: PeerId {
                router_id: RouterId(0xc000_0201),
                asn: 64_496,
            },
            ibgp: true,
            hold: Duration::from_secs(9),
            keepalive: Duration::from_secs(3),
            send_hold: Duration::from_secs(480),
            families: vec![EVPN, IPV4],
            decode: DecodeContext {
                four_octet_as: true,
                ibgp: true,
                extended_message: true,
                add_path: AddPathSet::NONE,
            },
            max_len: u16::MAX,
            route_refresh: true,
            enhanced_route_refresh: true,
            add_path_receive: AddPathSet::NONE,
            add_path_send: AddPathSet::NONE,
            ipv4_over_ipv6: false,
            graceful_restart: Some(GracefulRestart {
                restart_secs: 120,
                families: families.to_vec(),
                ..GracefulRestart::default()
            }),
            restart_after_notification: true,
            long_lived: Vec::new(),
            peer_capabilities: Vec::new(),
        }
    }

    fn long_lived(family: Family, forwarding: bool) -> LongLived {
        LongLived {
            family,
            forwarding,
            stale_secs: 3600,
        }
    }

    fn retained(negotiated: &Negotiated) -> Option<(u16, Vec<(Family, u32)>)> {
        let group = PeerGroup {
            long_lived_secs: 86_400,
            ..group()
        };
        match parting(&group, negotiated, &DownReason::PeerClosed) {
            Parting::Restarting(retention) => Some((retention.restart_secs, retention.families)),
            Parting::Gone | Parting::OurDoing => None,
        }
    }

    #[test]
    fn a_family_that_only_the_long_lived_capability_lists_is_retained() {
        let aware = Negotiated {
            long_lived: vec![long_lived(EVPN, true)],
            ..negotiated(&[])
        };
        assert_eq!(retained(&aware), Some((0, vec![(EVPN, 3600)])));
        let both = Negotiated {
            long_lived: vec![long_lived(EVPN, true)],
            ..negotiated(&[(IPV4, true)])
        };
        let families = vec![(EVPN, 3600), (IPV4, 0)];
        assert_eq!(retained(&both), Some((120, families)));
        assert_eq!(retained(&negotiated(&[])), None);
    }

    #[test]
    fn each_capability_has_its_own_bits() {
        let back = Negotiated {
            long_lived: vec![long_lived(EVPN, true), long_lived(IPV4, false)],
            ..negotiated(&[(EVPN, false), (IPV4, true)])
        };
        let Preserved {
            graceful,
            long_lived: after,
        } = preserved(&back);
        assert_eq!((graceful, after), (vec![IPV4], vec![EVPN]));
        let aware = Negotiated {
            long_lived: vec![long_lived(EVPN, true)],
            ..negotiated(&[])
        };
        assert_eq!(preserved(&aware).graceful, [EVPN]);
    }

    #[test]
    fn an_attempt_that_fails_changes_nothing_of_what_the_last_session_meant() {
        let (group, up) = (group(), negotiated(&[(EVPN, true)]));
        let ended = |intent, up| ended(intent, &group, up, &DownReason::PeerClosed);
        assert_eq!(ended(Intent::Serve, None), None);
        assert_eq!(ended(Intent::Stop, None), None);
        assert_eq!(ended(Intent::Leave, None), Some(Parting::Gone));
        assert_eq!(ended(Intent::Stop, Some(&up)), Some(Parting::OurDoing));
        let restarting = ended(Intent::Serve, Some(&up));
        assert!(matches!(restarting, Some(Parting::Restarting(_))));
    }
}
