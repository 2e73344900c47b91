//! The configuration file: its shape, and every mistake an operator can make in it, found before
//! anything starts. Knows no socket and no route.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;
use weft_bgp::family::Family;
use weft_bgp::peer::{ClusterId, RouterId};
use weft_bgp::reflect::Local;
use weft_bgp::session::RemoteAsn;
use weft_bgp::table::PeerKind;

/// Why a configuration was refused: the file, the place in it, and the reason.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not TOML, or not of our shape. The message carries line and column.
    #[error("{}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, column and reason.
        message: String,
    },
    /// Well-formed, but it cannot be meant.
    #[error("{}: {field}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The field as a path, such as `bgp.peer_group[1].remote_asn`.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A whole configuration, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// This replica and where its data lies.
    pub replica: Replica,
    /// All replicas, this one included; a single entry without an address for a lone replica.
    pub replicas: Vec<Member>,
    /// The speaker.
    pub bgp: Bgp,
    /// gRPC listener for operators and orchestrators.
    pub api: SocketAddr,
    /// HTTP listener for Prometheus; absent: none.
    pub metrics: Option<SocketAddr>,
}

/// This replica.
#[derive(Clone, Debug)]
pub struct Replica {
    /// Raft id, 1 or more.
    pub id: u64,
    /// Directory of the store.
    pub data_dir: PathBuf,
}

/// A member of the Raft group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Raft id, 1 or more.
    pub id: u64,
    /// Where it takes Raft streams; `None` only for a lone replica.
    pub address: Option<SocketAddr>,
}

/// The BGP speaker.
#[derive(Clone, Debug)]
pub struct Bgp {
    /// Our AS, identifier and cluster.
    pub local: Local,
    /// TCP listeners.
    pub listen: Vec<SocketAddr>,
    /// Groups by name.
    pub groups: BTreeMap<String, PeerGroup>,
    /// Prefixes from which peers are accepted without being listed.
    pub listen_ranges: Vec<ListenRange>,
    /// Peers by address.
    pub peers: Vec<Peer>,
    /// At most this many dynamic peers; the next is refused.
    pub dynamic_peers_max: usize,
}

/// What peers have in common.
#[derive(Clone, Debug)]
pub struct PeerGroup {
    /// Its name.
    pub name: String,
    /// Which AS a peer may have.
    pub remote_asn: RemoteAsn,
    /// iBGP: RFC 4456 client.
    pub route_reflector_client: bool,
    /// eBGP: RFC 7947 client.
    pub route_server_client: bool,
    /// Address families offered.
    pub families: Vec<Family>,
    /// Hold time offered; zero: none.
    pub hold: Duration,
    /// Time between attempts to connect.
    pub connect_retry: Duration,
}

impl PeerGroup {
    /// How reflection treats a peer of this group once its AS is known.
    pub fn kind(&self, remote_asn: u32, local_asn: u32) -> PeerKind {
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
}

/// A prefix whose addresses may become peers.
#[derive(Clone, Debug)]
pub struct ListenRange {
    /// Source addresses.
    pub prefix: IpNet,
    /// Name of the group they join.
    pub peer_group: String,
}

/// A peer by address.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Its TCP port.
    pub port: u16,
    /// Name of its group.
    pub peer_group: String,
    /// Wait for it to dial.
    pub passive: bool,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// What is wrong, with the file and the place in it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Checks a text; `path` only names it in errors.
    ///
    /// # Errors
    /// What is wrong, with the place.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let raw: File = toml::from_str(text).map_err(|error| ConfigError::Malformed {
            path: path.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        })?;
        raw.check()
            .map_err(|Invalid { field, reason }| ConfigError::Invalid {
                path: path.to_owned(),
                field,
                reason,
            })
    }

    /// What `weftd` does without a file: one replica, BGP on port 179, no peer until one is named.
    pub fn standalone() -> Self {
        File::default().check().unwrap_or_else(|error| {
            panic!("the defaults are valid: {}: {}", error.field, error.reason)
        })
    }

    /// Identifies the Raft group, so that a replica of another one is never listened to: the ids of
    /// its members and the BGP cluster.
    pub fn cluster(&self) -> [u8; 16] {
        let mut cluster = [0; 16];
        cluster[..4].copy_from_slice(b"weft");
        cluster[4..8].copy_from_slice(&self.bgp.local.cluster_id.0.to_be_bytes());
        // FNV-1a over the sorted ids: small, stable, and no secret is needed.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for octet in self
            .replicas
            .iter()
            .flat_map(|member| member.id.to_be_bytes())
        {
            hash = (hash ^ u64::from(octet)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        cluster[8..].copy_from_slice(&hash.to_be_bytes());
        cluster
    }

    /// Where this replica takes Raft streams.
    pub fn raft_listen(&self) -> Option<SocketAddr> {
        let own = self
            .replicas
            .iter()
            .find(|member| member.id == self.replica.id);
        own.and_then(|member| member.address)
    }
}

// The file as written.

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    replica: FileReplica,
    #[serde(default)]
    replicas: Vec<FileMember>,
    #[serde(default)]
    bgp: FileBgp,
    #[serde(default)]
    api: FileApi,
    #[serde(default)]
    metrics: FileMetrics,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileReplica {
    id: u64,
    data_dir: PathBuf,
}

impl Default for FileReplica {
    fn default() -> Self {
        Self {
            id: 1,
            data_dir: PathBuf::from("weft-data"),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileMember {
    id: u64,
    address: SocketAddr,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileBgp {
    asn: u32,
    router_id: Ipv4Addr,
    cluster_id: Option<Ipv4Addr>,
    listen: Vec<SocketAddr>,
    dynamic_peers_max: usize,
    peer_group: Vec<FileGroup>,
    listen_range: Vec<FileRange>,
    peer: Vec<FilePeer>,
}

impl Default for FileBgp {
    fn default() -> Self {
        Self {
            asn: DEFAULT_ASN,
            router_id: Ipv4Addr::new(127, 0, 0, 1),
            cluster_id: None,
            listen: vec![SocketAddr::from(([0, 0, 0, 0], BGP_PORT))],
            dynamic_peers_max: DYNAMIC_PEERS_MAX,
            peer_group: Vec::new(),
            listen_range: Vec::new(),
            peer: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileGroup {
    name: String,
    remote_asn: Option<AsnText>,
    #[serde(default)]
    route_reflector_client: bool,
    #[serde(default)]
    route_server_client: bool,
    families: Option<Vec<String>>,
    hold_secs: Option<u16>,
    connect_retry_secs: Option<u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRange {
    prefix: String,
    peer_group: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePeer {
    address: IpAddr,
    peer_group: String,
    #[serde(default)]
    passive: bool,
    port: Option<u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileApi {
    listen: SocketAddr,
}

impl Default for FileApi {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], API_PORT)),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct FileMetrics {
    listen: Option<SocketAddr>,
}

/// An AS number, or a range of them in quotes.
#[derive(Deserialize)]
#[serde(untagged)]
enum AsnText {
    Number(u32),
    Text(String),
}

impl AsnText {
    fn resolve(&self) -> Result<RemoteAsn, String> {
        let (low, high) = match self {
            Self::Number(asn) => (*asn, *asn),
            Self::Text(text) => {
                let (low, high) = text.split_once('-').unwrap_or((text, text));
                let number = |part: &str| {
                    u32::from_str(part.trim()).map_err(|_| {
                        format!(
                            "{text:?} is neither an AS number nor a range such as \"65001-65100\""
                        )
                    })
                };
                (number(low)?, number(high)?)
            }
        };
        if low == 0 {
            return Err("AS 0 is reserved (RFC 7607)".to_owned());
        }
        match low.cmp(&high) {
            std::cmp::Ordering::Less => Ok(RemoteAsn::Range(low, high)),
            std::cmp::Ordering::Equal => Ok(RemoteAsn::Exactly(low)),
            std::cmp::Ordering::Greater => Err(format!("the range {low}-{high} is empty")),
        }
    }
}

struct Invalid {
    field: String,
    reason: String,
}

fn invalid<T>(field: impl fmt::Display, reason: impl fmt::Display) -> Result<T, Invalid> {
    Err(Invalid {
        field: field.to_string(),
        reason: reason.to_string(),
    })
}

impl File {
    fn check(self) -> Result<Config, Invalid> {
        let replicas = self.check_replicas()?;
        if replicas.len() > 1 && self.bgp.cluster_id.is_none() {
            return invalid("bgp.cluster_id", "must be given, the same on every replica");
        }
        Ok(Config {
            replicas,
            replica: Replica {
                id: self.replica.id,
                data_dir: self.replica.data_dir,
            },
            bgp: self.bgp.check()?,
            api: self.api.listen,
            metrics: self.metrics.listen,
        })
    }

    fn check_replicas(&self) -> Result<Vec<Member>, Invalid> {
        let own = self.replica.id;
        if own == 0 {
            return invalid("replica.id", "must be 1 or more");
        }
        if self.replicas.is_empty() {
            return Ok(vec![Member {
                id: own,
                address: None,
            }]);
        }
        let mut seen = BTreeMap::new();
        for (at, member) in self.replicas.iter().enumerate() {
            if member.id == 0 {
                return invalid(format!("replicas[{at}].id"), "must be 1 or more");
            }
            if seen.insert(member.id, member.address).is_some() {
                return invalid(
                    format!("replicas[{at}].id"),
                    format!("{} appears twice", member.id),
                );
            }
        }
        let addresses: BTreeSet<_> = seen.values().collect();
        if addresses.len() != seen.len() {
            return invalid("replicas", "two replicas have the same address");
        }
        if !matches!(seen.len(), 1 | 3 | 5) {
            let reason = format!(
                "{} replicas; 1, 3 or 5 can lose 0, 1 or 2 of them",
                seen.len()
            );
            return invalid("replicas", reason);
        }
        if !seen.contains_key(&own) {
            return invalid("replica.id", format!("{own} is not among the replicas"));
        }
        let member = |(id, address)| Member {
            id,
            address: Some(address),
        };
        Ok(seen.into_iter().map(member).collect())
    }
}

impl FileBgp {
    fn check(self) -> Result<Bgp, Invalid> {
        if self.asn == 0 {
            return invalid("bgp.asn", "AS 0 is reserved (RFC 7607)");
        }
        if self.router_id.is_unspecified() {
            return invalid("bgp.router_id", "must not be 0.0.0.0 (RFC 6286)");
        }
        let groups = self.check_groups()?;
        let known = |field: String, name: &str| match groups.contains_key(name) {
            true => Ok(name.to_owned()),
            false => invalid(field, format!("no peer group is named {name:?}")),
        };
        let mut listen_ranges = Vec::new();
        for (at, range) in self.listen_range.iter().enumerate() {
            let prefix = IpNet::from_str(&range.prefix).or_else(|_| {
                invalid(
                    format!("bgp.listen_range[{at}].prefix"),
                    format!("{:?} is not a prefix", range.prefix),
                )
            })?;
            let peer_group = known(
                format!("bgp.listen_range[{at}].peer_group"),
                &range.peer_group,
            )?;
            listen_ranges.push(ListenRange {
                prefix: prefix.trunc(),
                peer_group,
            });
        }
        // The longest prefix wins, as everywhere in routing.
        listen_ranges.sort_by_key(|range| std::cmp::Reverse(range.prefix.prefix_len()));
        let mut peers: Vec<Peer> = Vec::new();
        for (at, peer) in self.peer.iter().enumerate() {
            if peers.iter().any(|other| other.address == peer.address) {
                return invalid(
                    format!("bgp.peer[{at}].address"),
                    format!("{} appears twice", peer.address),
                );
            }
            let peer_group = known(format!("bgp.peer[{at}].peer_group"), &peer.peer_group)?;
            peers.push(Peer {
                address: peer.address,
                port: peer.port.unwrap_or(BGP_PORT),
                peer_group,
                passive: peer.passive,
            });
        }
        let router_id = RouterId::from(self.router_id);
        let cluster_id = ClusterId(self.cluster_id.map_or(router_id.0, u32::from));
        Ok(Bgp {
            local: Local {
                asn: self.asn,
                router_id,
                cluster_id,
            },
            listen: self.listen,
            groups,
            listen_ranges,
            peers,
            dynamic_peers_max: self.dynamic_peers_max,
        })
    }

    fn check_groups(&self) -> Result<BTreeMap<String, PeerGroup>, Invalid> {
        let mut groups = BTreeMap::new();
        for (at, raw) in self.peer_group.iter().enumerate() {
            let group = raw.check(&format!("bgp.peer_group[{at}]"), self.asn)?;
            if groups.insert(group.name.clone(), group).is_some() {
                return invalid(
                    format!("bgp.peer_group[{at}].name"),
                    format!("{:?} appears twice", raw.name),
                );
            }
        }
        Ok(groups)
    }
}

impl FileGroup {
    fn check(&self, place: &str, local_asn: u32) -> Result<PeerGroup, Invalid> {
        let remote_asn = match &self.remote_asn {
            None => RemoteAsn::Any,
            Some(text) => text
                .resolve()
                .or_else(|reason| invalid(format!("{place}.remote_asn"), reason))?,
        };
        let ibgp_only = matches!(remote_asn, RemoteAsn::Exactly(asn) if asn == local_asn);
        if ibgp_only && self.route_server_client {
            return invalid(
                format!("{place}.route_server_client"),
                "the group is iBGP; use route_reflector_client (RFC 4456)",
            );
        }
        if self.route_reflector_client
            && matches!(remote_asn, RemoteAsn::Exactly(asn) if asn != local_asn)
        {
            return invalid(
                format!("{place}.route_reflector_client"),
                "the group is eBGP; use route_server_client (RFC 7947)",
            );
        }
        let mut families = Vec::new();
        let names = self
            .families
            .clone()
            .unwrap_or_else(|| vec!["l2vpn-evpn".to_owned()]);
        for (at, name) in names.iter().enumerate() {
            let family = Family::from_str(name)
                .ok()
                .filter(|family| SUPPORTED.contains(family));
            let Some(family) = family else {
                let known: Vec<_> = SUPPORTED.iter().map(ToString::to_string).collect();
                return invalid(
                    format!("{place}.families[{at}]"),
                    format!("{name:?} is not one of {}", known.join(", ")),
                );
            };
            if !families.contains(&family) {
                families.push(family);
            }
        }
        if families.is_empty() {
            return invalid(format!("{place}.families"), "names no family");
        }
        let hold_secs = self.hold_secs.unwrap_or(HOLD_SECS);
        if matches!(hold_secs, 1 | 2) {
            return invalid(
                format!("{place}.hold_secs"),
                "must be 0 or at least 3 (RFC 4271 §4.2)",
            );
        }
        let retry_secs = self.connect_retry_secs.unwrap_or(CONNECT_RETRY_SECS);
        if retry_secs == 0 {
            return invalid(format!("{place}.connect_retry_secs"), "must be at least 1");
        }
        Ok(PeerGroup {
            name: self.name.clone(),
            remote_asn,
            route_reflector_client: self.route_reflector_client,
            route_server_client: self.route_server_client,
            families,
            hold: Duration::from_secs(hold_secs.into()),
            connect_retry: Duration::from_secs(retry_secs.into()),
        })
    }
}

/// Families that the speaker carries.
pub const SUPPORTED: [Family; 3] = [
    Family::L2VPN_EVPN,
    Family::IPV4_UNICAST,
    Family::IPV6_UNICAST,
];

/// RFC 4271 §8: the well-known port.
const BGP_PORT: u16 = 179;
const API_PORT: u16 = 7401;
/// First AS number for private use, RFC 6996.
const DEFAULT_ASN: u32 = 64_512;
/// RFC 4271 §10 suggests 90 s; a fabric wants to notice sooner, and FRR's default is 180.
const HOLD_SECS: u16 = 90;
/// Below RFC 4271's 120 s: a leaf that restarts is back before its jobs give up.
const CONNECT_RETRY_SECS: u16 = 10;
/// Each costs two tasks and its routes; a fabric above this wants `dynamic_peers_max`.
const DYNAMIC_PEERS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("weft.toml"))
    }

    fn refused(text: &str) -> String {
        parse(text).expect_err("must be refused").to_string()
    }

    const FULL: &str = r#"
        [replica]
        id = 2
        data_dir = "weft-data"
        [[replicas]]
        id = 1
        address = "10.255.1.1:7400"
        [[replicas]]
        id = 2
        address = "10.255.1.2:7400"
        [[replicas]]
        id = 3
        address = "10.255.1.3:7400"
        [bgp]
        asn = 65000
        router_id = "10.255.1.2"
        cluster_id = "10.255.1.1"
        listen = ["0.0.0.0:179"]
        [[bgp.peer_group]]
        name = "leaves"
        remote_asn = 65000
        route_reflector_client = true
        families = ["l2vpn-evpn"]
        hold_secs = 9
        [[bgp.listen_range]]
        prefix = "10.255.0.0/24"
        peer_group = "leaves"
        [[bgp.peer]]
        address = "10.255.0.9"
        peer_group = "leaves"
        passive = false
        [api]
        listen = "127.0.0.1:7401"
        [metrics]
        listen = "127.0.0.1:7402"
    "#;

    #[test]
    fn the_documented_file_is_understood() {
        let config = parse(FULL).unwrap();
        assert_eq!(config.replicas.len(), 3);
        assert_eq!(
            config.raft_listen(),
            Some("10.255.1.2:7400".parse().unwrap())
        );
        assert_eq!(
            config.bgp.groups["leaves"].kind(65000, 65000),
            PeerKind::IbgpClient
        );
        assert_eq!(config.bgp.local.cluster_id, ClusterId(0x0aff_0101));
    }

    #[test]
    fn nothing_at_all_is_a_single_replica() {
        let config = parse("").unwrap();
        assert_eq!(
            config.replicas,
            vec![Member {
                id: 1,
                address: None
            }]
        );
        assert_eq!(Config::standalone().cluster(), config.cluster());
    }

    #[test]
    fn every_mistake_names_its_place_and_its_reason() {
        let cases = [
            ("[bgp]\nasn = 0", "bgp.asn: AS 0 is reserved"),
            ("[bgp]\nasn = \"x\"", "line 2"),
            ("[bgp]\nasm = 1", "unknown field `asm`"),
            ("[replica]\nid = 0", "replica.id: must be 1 or more"),
            ("[[replicas]]\nid = 1\naddress = \"10.0.0.1\"", "line 3"),
            (
                "[[bgp.peer_group]]\nname = \"a\"\nremote_asn = \"9-3\"",
                "bgp.peer_group[0].remote_asn: the range 9-3 is empty",
            ),
            (
                "[[bgp.peer_group]]\nname = \"a\"\nfamilies = [\"vpnv4\"]",
                "bgp.peer_group[0].families[0]: \"vpnv4\" is not one of l2vpn-evpn",
            ),
            (
                "[[bgp.peer_group]]\nname = \"a\"\nhold_secs = 2",
                "bgp.peer_group[0].hold_secs: must be 0 or at least 3",
            ),
            (
                "[[bgp.peer]]\naddress = \"192.0.2.1\"\npeer_group = \"b\"",
                "bgp.peer[0].peer_group: no peer group is named \"b\"",
            ),
            (
                "[bgp]\nasn = 65000\n[[bgp.peer_group]]\nname = \"a\"\nremote_asn = 65000\nroute_server_client = true",
                "bgp.peer_group[0].route_server_client: the group is iBGP",
            ),
        ];
        for (text, expected) in cases {
            let message = refused(text);
            assert!(message.starts_with("weft.toml: "), "{message}");
            assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        }
    }

    #[test]
    fn two_replicas_are_refused() {
        let text = "[[replicas]]\nid = 1\naddress = \"10.0.0.1:1\"\n[[replicas]]\nid = 2\naddress = \"10.0.0.2:1\"";
        assert!(refused(text).contains("1, 3 or 5"));
    }
}
