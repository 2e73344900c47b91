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

/// The offer to a peer of this group. `seed` spreads the retries of many peers.
pub fn session(
    group: &PeerGroup,
    local: &Local,
    hostname: &str,
    seed: u64,
    company: Company,
) -> SessionConfig {
    let asn = group.local_as.map_or(local.asn, |local_as| local_as.asn);
    let families = group.offered();
    let graceful_restart = group.graceful_restart.map(|restart| GracefulRestart {
        restarted: false,
        notification: company == Company::Alone,
        restart_secs: restart_secs(restart, company),
        // F always: a reflector is not on the forwarding path, so its restart breaks none.
        families: families.iter().map(|family| (*family, true)).collect(),
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
            _ => families.iter().map(long_lived).collect(),
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
