//! What an OPEN must be, and what two OPENs agree on. It refuses to know the states.

use std::time::Duration;

use bytes::Bytes;

use super::config::IPV4_OVER_IPV6;
use super::timers::SEND_HOLD_MIN;
use super::{MAX_LEN, MAX_LEN_EXTENDED, SessionConfig};
use crate::capability::{AddPath, AddPathSet, Capability, GracefulRestart, LongLived};
use crate::error::Fault;
use crate::family::Family;
use crate::message::{DecodeContext, Notification, Open};
use crate::peer::PeerId;

/// What both sides hold once their OPENs were exchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct Negotiated {
    /// Who the peer is.
    pub peer: PeerId,
    /// The peer is in our AS.
    pub ibgp: bool,
    /// The smaller of both offers; zero means that neither side sends KEEPALIVEs.
    pub hold: Duration,
    /// Between two KEEPALIVEs of ours: a third of the hold time, zero with it.
    pub keepalive: Duration,
    /// How long the connection may take no octets. RFC 9687 §3.
    pub send_hold: Duration,
    /// The families of both, in our order; not empty.
    pub families: Vec<Family>,
    /// How to read and write messages from here on.
    pub decode: DecodeContext,
    /// The longest message in octets, header included, in both directions: 65535 if both offer
    /// extended messages, else 4096.
    pub max_len: u16,
    /// The peer takes ROUTE-REFRESH. RFC 2918.
    pub route_refresh: bool,
    /// Both sides mark where an answer begins and ends. RFC 7313 §4.
    pub enhanced_route_refresh: bool,
    /// In which families the peer sends path identifiers; as in [`Negotiated::decode`]. RFC 7911 §4.
    pub add_path_receive: AddPathSet,
    /// In which families we send path identifiers. RFC 7911 §4.
    pub add_path_send: AddPathSet,
    /// The peer takes IPv6 next hops of IPv4 prefixes. RFC 8950 §4.
    pub ipv4_over_ipv6: bool,
    /// What the peer says about its restarts. RFC 4724 §3.
    pub graceful_restart: Option<GracefulRestart>,
    /// Both sides have set N: a NOTIFICATION or the hold timer ends a session as the loss of its
    /// connection does. RFC 8538 §2.
    pub restart_after_notification: bool,
    /// For how long the peer asks to keep its stale routes; empty without a graceful restart
    /// capability. RFC 9494 §3.1.
    pub long_lived: Vec<LongLived>,
    /// All that the peer offered, known or not.
    pub peer_capabilities: Vec<Capability>,
}

/// Checks the peer's OPEN in the order of RFC 4271 §6.2, and works out what both sides hold.
pub(super) fn negotiate(config: &SessionConfig, open: Open) -> Result<Negotiated, Notification> {
    let ibgp = open.asn == config.local_asn;
    check(config, &open).map_err(|fault| fault.notification())?;
    let offers = |wanted: &Capability| open.capabilities.contains(wanted);
    let families = common_families(&config.families, &open.capabilities);
    if families.is_empty() {
        return Err(no_common_family(&config.families));
    }
    let hold_secs = open.hold_secs.min(config.hold_secs());
    let hold = Duration::from_secs(u64::from(hold_secs));
    let extended_message = config.extended_message && offers(&Capability::ExtendedMessage);
    let (add_path_receive, add_path_send) = add_path(config, &families, &open.capabilities);
    // RFC 4724 §3: the last instance of several counts.
    let graceful_restart = open.capabilities.iter().rev().find_map(graceful_restart);
    let long_lived = match &graceful_restart {
        Some(_) => long_lived(&open.capabilities),
        None => Vec::new(),
    };
    let is_four_octet_as = |offer: &Capability| matches!(offer, Capability::FourOctetAs(_));
    let four_octet_as = open.capabilities.iter().any(is_four_octet_as);
    Ok(Negotiated {
        peer: PeerId {
            router_id: open.router_id,
            asn: open.asn,
        },
        ibgp,
        hold,
        keepalive: hold / 3,
        send_hold: send_hold(config.send_hold, hold),
        families,
        decode: DecodeContext {
            four_octet_as,
            ibgp,
            extended_message,
            add_path: add_path_receive,
        },
        max_len: if extended_message {
            MAX_LEN_EXTENDED
        } else {
            MAX_LEN
        },
        route_refresh: offers(&Capability::RouteRefresh),
        enhanced_route_refresh: config.route_refresh
            && config.enhanced_route_refresh
            && offers(&Capability::EnhancedRouteRefresh),
        add_path_receive,
        add_path_send,
        ipv4_over_ipv6: open.capabilities.iter().any(is_ipv4_over_ipv6),
        restart_after_notification: sets_n(config.graceful_restart.as_ref())
            && sets_n(graceful_restart.as_ref()),
        graceful_restart,
        long_lived,
        peer_capabilities: open.capabilities,
    })
}

fn check(config: &SessionConfig, open: &Open) -> Result<(), Fault> {
    let ibgp = open.asn == config.local_asn;
    let router_id = open.router_id.0;
    if !config.remote_asn.accepts(open.asn) {
        return Err(Fault::PeerAs { asn: open.asn });
    }
    // RFC 6286 §2.2: an eBGP peer may have our router id.
    if router_id == 0 || (ibgp && open.router_id == config.router_id) {
        return Err(Fault::RouterId { router_id });
    }
    if matches!(open.hold_secs, 1 | 2) {
        return Err(Fault::HoldTime {
            secs: open.hold_secs,
        });
    }
    Ok(())
}

/// The families of both, in our order. A peer that offers none at all speaks IPv4 unicast
/// (RFC 4760 §8 adds to RFC 4271, which has no other).
fn common_families(ours: &[Family], theirs: &[Capability]) -> Vec<Family> {
    let offered: Vec<_> = theirs.iter().filter_map(multi_protocol).collect();
    let speaks = |family: &Family| match offered.as_slice() {
        [] => *family == Family::IPV4_UNICAST,
        offered => offered.contains(family),
    };
    ours.iter().copied().filter(speaks).collect()
}

fn multi_protocol(capability: &Capability) -> Option<Family> {
    if let Capability::MultiProtocol(family) = capability {
        Some(*family)
    } else {
        None
    }
}

fn graceful_restart(capability: &Capability) -> Option<GracefulRestart> {
    if let Capability::GracefulRestart(restart) = capability {
        Some(restart.clone())
    } else {
        None
    }
}

fn sets_n(restart: Option<&GracefulRestart>) -> bool {
    restart.is_some_and(|restart| restart.notification)
}

/// RFC 9494 §3.1.
fn long_lived(theirs: &[Capability]) -> Vec<LongLived> {
    let families = theirs.iter().rev().find_map(|capability| {
        if let Capability::LongLivedGracefulRestart(families) = capability {
            Some(families.clone())
        } else {
            None
        }
    });
    families.unwrap_or_default()
}

fn is_ipv4_over_ipv6(capability: &Capability) -> bool {
    if let Capability::ExtendedNextHop(families) = capability {
        families.contains(&IPV4_OVER_IPV6)
    } else {
        false
    }
}

/// The families in which the peer sends several paths and we take them, and the other way round.
/// RFC 7911 §4.
fn add_path(
    config: &SessionConfig,
    families: &[Family],
    theirs: &[Capability],
) -> (AddPathSet, AddPathSet) {
    let offered: Vec<AddPath> = theirs.iter().flat_map(add_path_offer).copied().collect();
    let both = |ours: fn(&AddPath) -> bool, theirs: fn(&AddPath) -> bool| {
        let says = |offers: &[AddPath], family: Family, what: fn(&AddPath) -> bool| {
            let offer = offers.iter().find(|offer| offer.family == family);
            offer.is_some_and(what)
        };
        let agreed = families.iter().copied().filter(|&family| {
            says(&config.add_path, family, ours) && says(&offered, family, theirs)
        });
        AddPathSet::of(agreed)
    };
    (
        both(|ours| ours.receive, |theirs| theirs.send),
        both(|ours| ours.send, |theirs| theirs.receive),
    )
}

fn add_path_offer(capability: &Capability) -> &[AddPath] {
    if let Capability::AddPath(families) = capability {
        families
    } else {
        &[]
    }
}

/// RFC 5492 §5: 2/7, listing what we would have needed. It leaves to us whether to insist; as FRR
/// 8.4 to 10.7 do, we want one family in common, since a session without any carries nothing.
fn no_common_family(ours: &[Family]) -> Notification {
    let missing = ours
        .iter()
        .map(|&family| Fault::CapabilityMissing { family }.notification());
    let data: Vec<u8> = missing.flat_map(|notification| notification.data).collect();
    Notification {
        code: 2,
        subcode: 7,
        data: Bytes::from(data),
    }
}

pub(super) fn send_hold(configured: Duration, hold: Duration) -> Duration {
    if configured.is_zero() {
        SEND_HOLD_MIN.max(hold * 2)
    } else {
        configured
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::RouterId;
    use crate::session::RemoteAsn;

    fn agree(config: &SessionConfig, asn: u32, offers: &[Capability]) -> Negotiated {
        let family = [Capability::MultiProtocol(Family::L2VPN_EVPN)];
        let capabilities = [&family, offers].concat();
        let open = Open {
            asn,
            hold_secs: 30,
            router_id: RouterId(2),
            capabilities,
        };
        negotiate(config, open).unwrap()
    }

    fn config() -> SessionConfig {
        SessionConfig::new(64_496, RouterId(1), RemoteAsn::Any)
    }

    #[test]
    fn a_context_holds_what_both_offer() {
        let plain = agree(&config(), 64_496, &[]);
        let decode = DecodeContext {
            four_octet_as: false,
            ibgp: true,
            extended_message: false,
            add_path: AddPathSet::NONE,
        };
        assert_eq!(
            (plain.decode, plain.max_len, plain.ibgp),
            (decode, 4096, true)
        );
        assert!(!plain.route_refresh && !plain.enhanced_route_refresh);

        let offers = [Capability::FourOctetAs(64_497), Capability::ExtendedMessage];
        let rich = agree(&config(), 64_497, &offers);
        let decode = DecodeContext {
            four_octet_as: true,
            ibgp: false,
            extended_message: true,
            add_path: AddPathSet::NONE,
        };
        assert_eq!(
            (rich.decode, rich.max_len, rich.ibgp),
            (decode, 65_535, false)
        );

        let standard = SessionConfig {
            extended_message: false,
            ..config()
        };
        assert_eq!(agree(&standard, 64_497, &offers).max_len, 4096);
    }

    #[test]
    fn our_router_id_is_taken_within_our_as_only() {
        let check = |asn, router_id| {
            let open = Open {
                asn,
                hold_secs: 90,
                router_id: RouterId(router_id),
                capabilities: Vec::new(),
            };
            check(&config(), &open)
        };
        let taken = Err(Fault::RouterId { router_id: 1 });
        assert_eq!(check(64_496, 1), taken);
        assert_eq!(check(64_497, 1), Ok(()));
        assert_eq!(check(64_496, 2), Ok(()));
    }

    #[test]
    fn refresh_and_restart_are_what_the_peer_says() {
        let restart = GracefulRestart {
            restart_secs: 120,
            ..GracefulRestart::default()
        };
        let offers = [
            Capability::RouteRefresh,
            Capability::EnhancedRouteRefresh,
            Capability::GracefulRestart(restart.clone()),
        ];
        let negotiated = agree(&config(), 64_496, &offers);
        assert!(negotiated.route_refresh && negotiated.enhanced_route_refresh);
        assert_eq!(negotiated.graceful_restart, Some(restart));
        assert_eq!(negotiated.peer_capabilities.len(), 4);
    }

    #[test]
    fn the_send_hold_time_is_eight_minutes_or_twice_the_hold_time() {
        let secs = Duration::from_secs;
        assert_eq!(send_hold(secs(0), secs(90)), secs(480));
        assert_eq!(send_hold(secs(0), secs(300)), secs(600));
        assert_eq!(send_hold(secs(20), secs(300)), secs(20));
    }

    #[test]
    fn an_offer_of_the_families_is_in_every_open() {
        let config = SessionConfig {
            fqdn: Some(("rr1".into(), String::new())),
            ..config()
        };
        let open = config.open();
        assert_eq!(
            (open.asn, open.hold_secs, open.router_id),
            (64_496, 9, RouterId(1))
        );
        assert!(
            open.capabilities
                .contains(&Capability::MultiProtocol(Family::L2VPN_EVPN))
        );
        assert!(open.capabilities.contains(&Capability::FourOctetAs(64_496)));
        let host = Capability::Fqdn {
            host: "rr1".into(),
            domain: String::new(),
        };
        assert!(open.capabilities.contains(&host));
    }
}
