//! What the speaker knows of a peer from its configuration, with every default filled in: plain values
//! that are compared and printed, and change nothing by themselves. Knows no socket and no session.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::{NonZeroU8, NonZeroU32};
use std::path::PathBuf;
use std::time::Duration;

use weft_bgp::attribute::{
    AttributeFilter, AttributeForms, Attributes, OpaqueAttribute, UnknownAttribute,
};
use weft_bgp::family::Family;
use weft_bgp::reflect::{LinkBandwidthForm, LocalAs};
use weft_bgp::session::RemoteAsn;
use weft_bgp::table::PeerKind;
use weft_evpn::profile::Profile;

use super::tcp_ao::TcpAoKey;

/// What peers have in common; of one peer, the values of its group with its own laid over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerGroup {
    /// Its name.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// Kept down by the operator; the text is for the operator at the other end (RFC 9003), at most 255
    /// octets.
    pub shutdown: Option<String>,
    /// Which AS a peer may have.
    pub remote_asn: RemoteAsn,
    /// Address families offered; see also [`PeerGroup::offered`].
    pub families: Vec<Family>,
    /// Hold time offered; zero: none.
    pub hold: Duration,
    /// Time between attempts to connect.
    pub connect_retry: Duration,
    /// Wait for the peer to dial.
    pub passive: bool,
    /// TCP port to dial.
    pub port: u16,
    /// iBGP: RFC 4456 client.
    pub route_reflector_client: bool,
    /// eBGP: RFC 7947 client.
    pub route_server_client: bool,
    /// Another AS that we are in towards the peer.
    pub local_as: Option<LocalAs>,
    /// How often our AS may be in a path that is learned: 0 to 10.
    pub allow_as_in: u8,
    /// The address to dial from; absent: that of a listener which names one.
    pub source_address: Option<IpAddr>,
    /// The file with the key of TCP-MD5, RFC 2385. The key itself is never held here.
    pub password_file: Option<PathBuf>,
    /// The keys of TCP-AO, RFC 5925: it signs with the first, and takes each. Empty: it is not used.
    pub tcp_ao: Vec<TcpAoKey>,
    /// How far away the peer may be.
    pub ttl: Ttl,
    /// BFD, if it watches the peer.
    pub bfd: Option<Bfd>,
    /// Graceful restart (RFC 4724), if it is offered.
    pub graceful_restart: Option<GracefulRestart>,
    /// How long paths of a peer that is gone may be kept after its restart time, in seconds, RFC 9494;
    /// 0: not at all.
    pub long_lived_secs: u32,
    /// All that the peer is told carries GRACEFUL_SHUTDOWN, RFC 8326.
    pub graceful_shutdown: bool,
    /// Several paths of one destination, RFC 7911.
    pub add_path: AddPath,
    /// Offer the software version capability.
    pub software_version: bool,
    /// Offer messages of up to 65,535 octets, RFC 8654.
    pub extended_messages: bool,
    /// Offer the name of this host (draft-walton-bgp-hostname-capability).
    pub fqdn: bool,
    /// Whether the peer is told only of the route targets that it imports.
    pub route_target_filter: RouteTargetFilter,
    /// What runs on the peer; absent: found out from its OPEN.
    pub profile: Option<Profile>,
    /// EVPN route types that nobody knows pass as octets among the peers that set this.
    pub opaque_relay: bool,
    /// An EVPN NLRI with a fault ends the session, instead of being passed over.
    pub strict: bool,
    /// What happens to EVPN routes that break a rule of the fabric.
    pub guard: Guard,
    /// Form of the link bandwidth community towards the peer; absent: its profile says.
    pub link_bandwidth: Option<LinkBandwidthForm>,
    /// Which of the path attributes that are carried as they came the peer is told.
    pub attributes: AttributeLists,
    /// What the peer may announce at most.
    pub limits: Limits,
}

impl PeerGroup {
    /// Every default, under a name.
    pub fn new(name: String) -> Self {
        Self {
            name,
            description: None,
            shutdown: None,
            remote_asn: RemoteAsn::Any,
            families: vec![Family::L2VPN_EVPN],
            hold: HOLD,
            connect_retry: CONNECT_RETRY,
            passive: false,
            port: BGP_PORT,
            route_reflector_client: false,
            route_server_client: false,
            local_as: None,
            allow_as_in: 0,
            source_address: None,
            password_file: None,
            tcp_ao: Vec::new(),
            ttl: Ttl::Multihop(u8::MAX),
            bfd: None,
            graceful_restart: Some(GracefulRestart::default()),
            long_lived_secs: 0,
            graceful_shutdown: false,
            add_path: AddPath::default(),
            software_version: true,
            extended_messages: true,
            fqdn: true,
            route_target_filter: RouteTargetFilter::Off,
            profile: None,
            opaque_relay: false,
            strict: false,
            guard: Guard::default(),
            link_bandwidth: None,
            attributes: AttributeLists::default(),
            limits: Limits::default(),
        }
    }

    /// How reflection treats a peer of this group once its AS is known.
    pub fn kind(&self, remote_asn: u32, local_asn: u32) -> PeerKind {
        let local_asn = self.local_as.map_or(local_asn, |local_as| local_as.asn);
        match (
            remote_asn == local_asn,
            self.route_reflector_client,
            self.route_server_client,
        ) {
            (true, true, _) => PeerKind::IbgpClient,
            (true, false, _) => PeerKind::IbgpNonClient,
            (false, _, true) => PeerKind::RouteServerClient,
            (false, _, false) => PeerKind::Ebgp,
        }
    }

    /// The families of the OPEN: those configured, and route target membership (RFC 4684) where it
    /// filters.
    pub fn offered(&self) -> Vec<Family> {
        let mut families = self.families.clone();
        if self.route_target_filter == RouteTargetFilter::Rtc && !families.contains(&Family::RTC) {
            families.push(Family::RTC);
        }
        families
    }
}

/// How far away a peer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// Packets leave with TTL 255 and must arrive with at least 255 less these hops plus 1: 1 to 254.
    /// RFC 5082 §3.
    Gtsm(u8),
    /// Packets leave with this TTL, 1 to 255.
    Multihop(u8),
}

impl Ttl {
    /// The TTL, or hop limit, of what is sent.
    pub fn sent(self) -> u8 {
        match self {
            Self::Gtsm(_) => u8::MAX,
            Self::Multihop(ttl) => ttl,
        }
    }

    /// The least TTL, or hop limit, of what is taken; 1: any.
    pub fn accepted_min(self) -> u8 {
        match self {
            Self::Gtsm(hops) => u8::MAX - hops.saturating_sub(1),
            Self::Multihop(_) => 1,
        }
    }

    /// The peer is on the same link.
    pub fn is_one_hop(self) -> bool {
        matches!(self, Self::Gtsm(1) | Self::Multihop(1))
    }
}

/// Bidirectional forwarding detection, RFC 5880.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bfd {
    /// Between packets, both ways: 10 ms to 60 s.
    pub interval: Duration,
    /// Packets that may be missed in a row: 1 to 255.
    pub multiplier: u8,
    /// RFC 5883 instead of RFC 5881; absent: unless the peer is on our link, see [`Bfd::multihop`].
    pub multihop: Option<bool>,
}

impl Bfd {
    /// Whether the peer is watched over several hops, as far as it was said or the TTL tells. Otherwise the
    /// addresses of the session decide, as those of FRR 8.4 to 10.7 do.
    pub fn multihop(&self, ttl: Ttl) -> Option<bool> {
        match self.multihop {
            None if ttl.is_one_hop() => Some(false),
            said => said,
        }
    }
}

impl Default for Bfd {
    fn default() -> Self {
        Self {
            interval: BFD_INTERVAL,
            multiplier: 3,
            multihop: None,
        }
    }
}

/// What is offered of RFC 4724.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GracefulRestart {
    /// How long the peer may wait for us to come back where no other replica serves it: up to 4095 s.
    pub restart: Duration,
    /// Restart time for a peer that another replica may serve too: up to 4095 s. What the peer keeps of a replica that is
    /// gone, it keeps although the others withdraw it.
    pub redundant: Duration,
}

impl Default for GracefulRestart {
    fn default() -> Self {
        Self {
            restart: RESTART,
            redundant: REDUNDANT_RESTART,
        }
    }
}

/// Several paths of one destination, RFC 7911.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddPath {
    /// Families in which we take them.
    pub receive: Vec<Family>,
    /// Families in which we send them.
    pub send: Vec<Family>,
    /// At most this many paths of a destination are sent; absent: all.
    pub max: Option<NonZeroU8>,
}

/// Path attributes that are carried as they came (RFC 4271 §5), by code: what holds beside the default of
/// [`AttributeFilter`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeLists {
    /// The peer is told these too.
    pub pass: BTreeSet<u8>,
    /// The peer is not told these.
    pub drop: BTreeSet<u8>,
}

impl AttributeLists {
    /// With the forms that a peer reads.
    pub fn filter(&self, forms: AttributeForms) -> AttributeFilter {
        let (pass, drop) = (self.pass.iter().copied(), self.drop.iter().copied());
        AttributeFilter::new(pass, drop, forms)
    }

    /// Attributes of what a peer announced that are not carried at all, or that its own group is not told.
    pub fn dropped(&self, attributes: &Attributes) -> Vec<UnknownAttribute> {
        let mut dropped = attributes.unknown.clone();
        if !attributes.opaque.is_empty() {
            let filter = self.filter(AttributeForms::All);
            let opaque = attributes.opaque.iter();
            let not_told = opaque.filter(|it| !filter.passes(it.code));
            dropped.extend(not_told.map(OpaqueAttribute::dropped));
        }
        dropped
    }
}

/// Whether a peer is told only of the route targets that it imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteTargetFilter {
    /// Of everything.
    Off,
    /// Of what its memberships ask for, RFC 4684.
    Rtc,
    /// Of the route targets that its own routes carry.
    Auto,
}

/// What happens to a route that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardMode {
    /// Nothing; nobody looks.
    Off,
    /// It is counted and told of.
    Warn,
    /// It is held back until it breaks none.
    Reject,
}

/// The rules that EVPN routes are held to before they are reflected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The next hop is a VTEP that is registered or announced.
    pub next_hop: GuardMode,
    /// An encapsulation is named.
    pub encapsulation: GuardMode,
    /// The tunnel of an inclusive multicast route is complete.
    pub pmsi: GuardMode,
    /// The router's MAC is not that of another leaf.
    pub router_mac: GuardMode,
    /// The originator of a type 3 or 4 route is its next hop.
    pub originator: GuardMode,
}

impl Guard {
    /// One mode for all rules.
    pub fn all(mode: GuardMode) -> Self {
        Self {
            next_hop: mode,
            encapsulation: mode,
            pmsi: mode,
            router_mac: mode,
            originator: mode,
        }
    }

    /// Nobody looks at any rule.
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Guard {
    fn default() -> Self {
        Self::all(GuardMode::Off)
    }
}

/// What one peer may announce at most. An absent limit is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Routes of all families.
    pub routes: Option<u64>,
    /// Routes of one family.
    pub families: BTreeMap<Family, u64>,
    /// EVPN routes of one type.
    pub types: BTreeMap<u8, u64>,
    /// MAC addresses in one VNI.
    pub macs_per_vni: Option<u64>,
    /// IP addresses of one MAC address.
    pub ips_per_mac: Option<u64>,
    /// Octets of path attributes of one route.
    pub attribute_octets: u32,
    /// Octets of path attributes of all routes, each counted as if no other had the same.
    pub attribute_octets_total: Option<u64>,
    /// UPDATEs a second; the peer is read no faster.
    pub updates_per_sec: Option<NonZeroU32>,
    /// Share of a limit above which a warning is due: 1 to 100.
    pub warn_percent: u8,
    /// What happens at a limit.
    pub action: LimitAction,
    /// How long the session stays down after a reset.
    pub restart: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            routes: Some(ROUTES),
            families: BTreeMap::new(),
            types: BTreeMap::new(),
            macs_per_vni: None,
            ips_per_mac: None,
            attribute_octets: ATTRIBUTE_OCTETS,
            attribute_octets_total: Some(ATTRIBUTE_OCTETS_TOTAL),
            updates_per_sec: None,
            warn_percent: 75,
            action: LimitAction::DropNew,
            restart: LIMIT_RESTART,
        }
    }
}

/// What happens to the route that is one too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitAction {
    /// It is not kept; the session goes on.
    DropNew,
    /// It is kept, and told of.
    Warn,
    /// The session ends with Cease/1 (RFC 4486 §4) and begins again later.
    Reset,
}

/// A set of families in the order in which they are offered; none twice.
pub(super) fn in_order(families: impl IntoIterator<Item = Family>) -> Vec<Family> {
    let mut seen = BTreeSet::new();
    families
        .into_iter()
        .filter(|family| seen.insert(*family))
        .collect()
}

/// RFC 4271 §8: the well-known port.
pub(super) const BGP_PORT: u16 = 179;
/// RFC 4271 §10 suggests 90 s; a fabric wants to notice sooner, and FRR's default is 180.
const HOLD: Duration = Duration::from_secs(90);
/// Below RFC 4271's 120 s: a leaf that restarts is back before its jobs give up.
const CONNECT_RETRY: Duration = Duration::from_secs(10);
/// RFC 5880 leaves it open; FRR's default.
const BFD_INTERVAL: Duration = Duration::from_millis(300);
/// FRR's default.
const RESTART: Duration = Duration::from_secs(120);
/// Longer than a replica takes to be back after its process was killed.
const REDUNDANT_RESTART: Duration = Duration::from_secs(2);
/// Routes of one peer: ten times those of the largest leaf of a fabric. A route server's peer with a full table needs a limit of
/// its own. Beyond it routes are refused, see [`LimitAction`].
const ROUTES: u64 = 200_000;
/// Octets of the attributes of all routes of one peer: 320 for each of [`ROUTES`], and bearable on every replica.
const ATTRIBUTE_OCTETS_TOTAL: u64 = 64 << 20;
/// Several times what any fabric needs, and small enough that a million of them are not the end.
const ATTRIBUTE_OCTETS: u32 = 16_384;
/// A person may have to look at the peer first.
const LIMIT_RESTART: Duration = Duration::from_secs(300);
