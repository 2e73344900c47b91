//! What we offer a peer: its part of the configuration as the session's. Knows no socket and no state.

use weft_bgp::capability::{AddPath, GracefulRestart, LongLived};
use weft_bgp::family::Family;
use weft_bgp::reflect::Local;
use weft_bgp::session::SessionConfig;

use crate::config::{self, PeerGroup};

/// Who else serves a peer, as far as that changes what it is asked to keep while we are gone.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Company {
    /// Nobody: it is to keep our routes for the whole restart time, whatever ends the session (RFC 8538).
    Alone,
    /// Another replica, by its own session. A path that we told and cannot withdraw any more must not outlive what
    /// that one withdraws: the peer keeps ours for a moment, and not at all after a hold time or a NOTIFICATION.
    Redundant,
}

/// The offer to a peer of this group. `seed` spreads the retries of many peers. One that is `weighted` takes weights over
/// BGP: it is to drop unicast routes with the session, since they would hide what becomes of its own.
pub fn session(
    group: &PeerGroup,
    local: &Local,
    hostname: &str,
    seed: u64,
    (company, weighted): (Company, bool),
) -> SessionConfig {
    let asn = group.local_as.map_or(local.asn, |local_as| local_as.asn);
    let families = group.offered();
    let unicast = [Family::IPV4_UNICAST, Family::IPV6_UNICAST];
    let kept = families
        .iter()
        .filter(|family| !(weighted && unicast.contains(family)));
    let kept: Vec<Family> = kept.copied().collect();
    let graceful_restart = group.graceful_restart.map(|restart| GracefulRestart {
        restarted: false,
        notification: company == Company::Alone,
        restart_secs: restart_secs(restart, company),
        // F always: a reflector is not on the forwarding path, so its restart breaks none.
        families: kept.iter().map(|family| (*family, true)).collect(),
    });
    let long_lived = |family: &Family| LongLived {
        family: *family,
        forwarding: true,
        stale_secs: group.long_lived_secs,
    };
    SessionConfig {
        hold: group.hold,
        connect_retry: group.connect_retry,
        passive: group.passive,
        add_path: add_path(group, &families),
        extended_message: group.extended_messages,
        delay_jitter_seed: seed,
        fqdn: group.fqdn.then(|| (hostname.to_owned(), String::new())),
        software_version: group.software_version.then(|| SOFTWARE.to_owned()),
        long_lived: match group.long_lived_secs {
            0 => Vec::new(),
            _ => kept.iter().map(long_lived).collect(),
        },
        graceful_restart,
        families,
        ..SessionConfig::new(asn, local.router_id, group.remote_asn)
    }
}

fn restart_secs(restart: config::GracefulRestart, company: Company) -> u16 {
    let time = match company {
        Company::Alone => restart.restart,
        Company::Redundant => restart.restart.min(restart.redundant),
    };
    u16::try_from(time.as_secs()).unwrap_or(RESTART_SECS_MAX)
}

fn add_path(group: &PeerGroup, families: &[Family]) -> Vec<AddPath> {
    let modes = families.iter().map(|family| AddPath {
        family: *family,
        receive: group.add_path.receive.contains(family),
        send: group.add_path.send.contains(family),
    });
    modes.filter(|mode| mode.receive || mode.send).collect()
}

/// What the software version capability says (draft-abraitis-bgp-version-capability).
const SOFTWARE: &str = concat!("weft/", env!("CARGO_PKG_VERSION"));
/// RFC 4724 §3, 12 bits.
const RESTART_SECS_MAX: u16 = 0x0fff;

#[cfg(test)]
mod tests {
    use weft_bgp::peer::{ClusterId, RouterId};

    use super::*;

    /// Its own routes would be hidden behind paths that nobody withdraws any more.
    #[test]
    fn a_leaf_that_takes_weights_does_not_keep_unicast_routes_of_a_session_that_ended() {
        let group = PeerGroup {
            families: vec![Family::L2VPN_EVPN, Family::IPV4_UNICAST],
            graceful_restart: Some(config::GracefulRestart::default()),
            long_lived_secs: 60,
            ..PeerGroup::new("leaves".to_owned())
        };
        let local = Local {
            asn: 64_496,
            router_id: RouterId(1),
            cluster_id: ClusterId(1),
        };
        let kept = |company, weighted| {
            let session = session(&group, &local, "weft1", 0, (company, weighted));
            let restart = session.graceful_restart.map(|it| it.families);
            let restart = restart.unwrap_or_default().into_iter().map(|it| it.0);
            let long_lived = session.long_lived.into_iter().map(|it| it.family);
            let both: [Vec<_>; 2] = [restart.collect(), long_lived.collect()];
            assert_eq!(both[0], both[1]);
            (session.families, both[0].clone())
        };
        let (evpn, ipv4) = (Family::L2VPN_EVPN, Family::IPV4_UNICAST);
        for company in [Company::Alone, Company::Redundant] {
            assert_eq!(kept(company, false), (vec![evpn, ipv4], vec![evpn, ipv4]));
            assert_eq!(kept(company, true), (vec![evpn, ipv4], vec![evpn]));
        }
    }
}
