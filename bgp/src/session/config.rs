//! What an operator decides about a session. It refuses to know where that is written.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::capability::{AddPath, Capability, ExtendedNextHop, GracefulRestart, LongLived};
use crate::family::Family;
use crate::message::Open;
use crate::peer::RouterId;

/// How one session is to be run. [`SessionConfig::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Our AS.
    pub local_asn: u32,
    /// Our BGP Identifier; not zero.
    pub router_id: RouterId,
    /// Which AS the peer may be in.
    pub remote_asn: RemoteAsn,
    /// The hold time that we offer: zero, or 3 to 65535 whole seconds. Zero means no keepalives.
    pub hold: Duration,
    /// Between two dials, before jitter; not zero.
    pub connect_retry: Duration,
    /// How long a connection may take no octets; zero means the greater of 8 min and twice the
    /// negotiated hold time. RFC 9687 §3.
    pub send_hold: Duration,
    /// What we offer, in order of preference; not empty. One in common suffices.
    pub families: Vec<Family>,
    /// Never dial, only accept.
    pub passive: bool,
    /// Take requests to send routes again. RFC 2918.
    pub route_refresh: bool,
    /// Mark where an answer to such a request begins and ends; not without `route_refresh`. RFC 7313.
    pub enhanced_route_refresh: bool,
    /// The families in which we can receive or send several paths of a destination. RFC 7911 §4.
    pub add_path: Vec<AddPath>,
    /// Offer messages of up to 65535 octets. RFC 8654.
    pub extended_message: bool,
    /// Two sessions that may fail together should have different ones.
    pub delay_jitter_seed: u64,
    /// Host and domain name for the operator at the other end (draft-walton-bgp-hostname-capability).
    pub fqdn: Option<(String, String)>,
    /// What we run, for the operator at the other end (draft-abraitis-bgp-version-capability).
    pub software_version: Option<String>,
    /// The graceful restart capability to offer, if any. RFC 4724 §3.
    pub graceful_restart: Option<GracefulRestart>,
    /// The families whose routes we ask to be kept for long after the restart time; offered only
    /// beside `graceful_restart`. RFC 9494 §3.1.
    pub long_lived: Vec<LongLived>,
}

/// Which AS a peer may be in. AS 0 is never accepted (RFC 7607 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteAsn {
    /// Every one.
    Any,
    /// This one.
    Exactly(u32),
    /// From the first to the second, both included.
    Range(u32, u32),
}

impl RemoteAsn {
    /// Whether a peer in this AS may come up.
    #[must_use]
    pub fn accepts(self, asn: u32) -> bool {
        asn != 0
            && match self {
                Self::Any => true,
                Self::Exactly(only) => asn == only,
                Self::Range(first, last) => (first..=last).contains(&asn),
            }
    }
}

impl SessionConfig {
    /// An active session with a hold time of 9 s, a connect-retry time of 10 s, the EVPN family and
    /// extended messages.
    #[must_use]
    pub fn new(local_asn: u32, router_id: RouterId, remote_asn: RemoteAsn) -> Self {
        Self {
            local_asn,
            router_id,
            remote_asn,
            hold: Duration::from_secs(9),
            connect_retry: Duration::from_secs(10),
            send_hold: Duration::ZERO,
            families: vec![Family::L2VPN_EVPN],
            passive: false,
            route_refresh: true,
            enhanced_route_refresh: true,
            add_path: Vec::new(),
            extended_message: true,
            delay_jitter_seed: u64::from(router_id.0),
            fqdn: None,
            software_version: None,
            graceful_restart: None,
            long_lived: Vec::new(),
        }
    }

    pub(super) fn assert_bounds(&self) {
        let hold_secs = self.hold.as_secs();
        let whole = self.hold.subsec_nanos() == 0;
        assert!(
            whole && (hold_secs == 0 || HOLD_SECS.contains(&hold_secs)),
            "hold time out of bounds"
        );
        assert!(!self.connect_retry.is_zero(), "connect-retry time of zero");
        assert!(!self.families.is_empty(), "no family to offer");
        assert!(
            self.local_asn != 0 && self.router_id != RouterId(0),
            "no identity"
        );
    }

    /// Our OPEN.
    pub(super) fn open(&self) -> Open {
        Open {
            asn: self.local_asn,
            hold_secs: self.hold_secs(),
            router_id: self.router_id,
            capabilities: self.capabilities(),
        }
    }

    pub(super) fn hold_secs(&self) -> u16 {
        u16::try_from(self.hold.as_secs()).expect("within bounds since `Session::new`")
    }

    fn capabilities(&self) -> Vec<Capability> {
        let mut offered: Vec<_> = self
            .families
            .iter()
            .map(|&family| Capability::MultiProtocol(family))
            .collect();
        if self.route_refresh {
            offered.push(Capability::RouteRefresh);
        }
        if self.route_refresh && self.enhanced_route_refresh {
            offered.push(Capability::EnhancedRouteRefresh);
        }
        offered.push(Capability::FourOctetAs(self.local_asn));
        if self.families.contains(&Family::IPV4_UNICAST) {
            offered.push(Capability::ExtendedNextHop(vec![IPV4_OVER_IPV6]));
        }
        if self.extended_message {
            offered.push(Capability::ExtendedMessage);
        }
        if !self.add_path.is_empty() {
            offered.push(Capability::AddPath(self.add_path.clone()));
        }
        if let Some(restart) = &self.graceful_restart {
            offered.push(Capability::GracefulRestart(restart.clone()));
            if !self.long_lived.is_empty() {
                let families = self.long_lived.clone();
                offered.push(Capability::LongLivedGracefulRestart(families));
            }
        }
        if let Some((host, domain)) = self.fqdn.clone() {
            offered.push(Capability::Fqdn { host, domain });
        }
        offered.extend(
            self.software_version
                .clone()
                .map(Capability::SoftwareVersion),
        );
        offered
    }
}

/// IPv4 prefixes may have IPv6 next hops: what we carry, and never touch. RFC 8950 §4.
pub(super) const IPV4_OVER_IPV6: ExtendedNextHop = ExtendedNextHop {
    family: Family::IPV4_UNICAST,
    next_hop_afi: 2,
};

/// RFC 4271 §4.2.
const HOLD_SECS: RangeInclusive<u64> = 3..=65_535;
