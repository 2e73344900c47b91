//! The file as it is written: names, nesting and TOML types. Knows nothing of what makes sense.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use weft_bgp::session::RemoteAsn;

use super::remote::Remote;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) replica: FileReplica,
    #[serde(default)]
    pub(super) replicas: Vec<FileMember>,
    #[serde(default)]
    pub(super) bgp: FileBgp,
    #[serde(default)]
    pub(super) bmp: Vec<FileBmp>,
    #[serde(default)]
    pub(super) switches: FileSwitches,
    #[serde(default)]
    pub(super) api: FileApi,
    #[serde(default)]
    pub(super) metrics: FileMetrics,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileReplica {
    pub(super) id: u64,
    pub(super) data_dir: PathBuf,
    pub(super) listen: Option<OrFlag<SocketAddr>>,
}

impl Default for FileReplica {
    fn default() -> Self {
        Self {
            id: 1,
            data_dir: PathBuf::from("weft-data"),
            listen: None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileMember {
    pub(super) id: u64,
    pub(super) address: Remote,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileBgp {
    pub(super) asn: u32,
    pub(super) router_id: Ipv4Addr,
    pub(super) cluster_id: Option<Ipv4Addr>,
    pub(super) listen: Vec<SocketAddr>,
    pub(super) dynamic_peers_max: usize,
    pub(super) route_octets_total: u64,
    pub(super) vteps: Vec<String>,
    pub(super) moves: FileMoves,
    pub(super) peer_group: Vec<FileKnobs>,
    pub(super) listen_range: Vec<FileRange>,
    pub(super) peer: Vec<FileKnobs>,
}

impl Default for FileBgp {
    fn default() -> Self {
        Self {
            asn: DEFAULT_ASN,
            router_id: Ipv4Addr::new(127, 0, 0, 1),
            cluster_id: None,
            listen: vec![SocketAddr::from(([0, 0, 0, 0], super::group::BGP_PORT))],
            dynamic_peers_max: DYNAMIC_PEERS_MAX,
            route_octets_total: ROUTE_OCTETS_TOTAL,
            vteps: Vec::new(),
            moves: FileMoves::default(),
            peer_group: Vec::new(),
            listen_range: Vec::new(),
            peer: Vec::new(),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileMoves {
    pub(super) window_secs: Option<u32>,
    pub(super) moves: Option<u32>,
    pub(super) action: Option<String>,
    pub(super) recover_secs: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileRange {
    pub(super) prefix: String,
    pub(super) peer_group: String,
}

/// A `[[bgp.peer_group]]` or a `[[bgp.peer]]`: both may have every knob. One type, so that a mistake
/// is told with its line wherever it is.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileKnobs {
    /// Of a group only.
    pub(super) name: Option<String>,
    /// Of a peer only.
    pub(super) address: Option<IpAddr>,
    /// Of a peer only.
    pub(super) peer_group: Option<String>,
    pub(super) description: Option<String>,
    pub(super) shutdown: Option<bool>,
    pub(super) shutdown_message: Option<String>,
    pub(super) remote_asn: Option<FileAsn>,
    pub(super) families: Option<Vec<String>>,
    pub(super) hold_secs: Option<u16>,
    pub(super) connect_retry_secs: Option<u16>,
    pub(super) passive: Option<bool>,
    pub(super) port: Option<u16>,
    pub(super) route_reflector_client: Option<bool>,
    pub(super) route_server_client: Option<bool>,
    pub(super) local_as: Option<OrFlag<FileLocalAs>>,
    pub(super) allow_as_in: Option<u32>,
    pub(super) source_address: Option<OrFlag<IpAddr>>,
    pub(super) password_file: Option<OrFlag<PathBuf>>,
    pub(super) ttl_security_hops: Option<OrFlag<u32>>,
    pub(super) ebgp_multihop: Option<u32>,
    pub(super) tcp_ao: Option<OrFlag<Vec<FileTcpAo>>>,
    pub(super) bfd: Option<OrFlag<FileBfd>>,
    pub(super) graceful_restart: Option<OrFlag<FileGracefulRestart>>,
    pub(super) long_lived_secs: Option<u32>,
    pub(super) graceful_shutdown: Option<bool>,
    pub(super) add_path: Option<FileAddPath>,
    pub(super) software_version: Option<bool>,
    pub(super) extended_messages: Option<bool>,
    pub(super) fqdn: Option<bool>,
    pub(super) route_target_filter: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) opaque_relay: Option<bool>,
    pub(super) strict: Option<bool>,
    pub(super) guard: Option<FileGuard>,
    pub(super) link_bandwidth: Option<String>,
    pub(super) attributes: Option<FileAttributes>,
    pub(super) limits: Option<FileLimits>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileTcpAo {
    pub(super) key_file: PathBuf,
    /// Both ids.
    pub(super) id: Option<u8>,
    pub(super) send_id: Option<u8>,
    pub(super) recv_id: Option<u8>,
    pub(super) algorithm: Option<String>,
    pub(super) tcp_options: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileLocalAs {
    pub(super) asn: u32,
    #[serde(default)]
    pub(super) no_prepend: bool,
    #[serde(default)]
    pub(super) replace_as: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileBfd {
    pub(super) interval_ms: Option<u32>,
    pub(super) multiplier: Option<u32>,
    pub(super) multihop: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileGracefulRestart {
    pub(super) restart_secs: Option<u32>,
    pub(super) redundant_restart_secs: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileAddPath {
    pub(super) receive: Option<Vec<String>>,
    pub(super) send: Option<Vec<String>>,
    pub(super) max: Option<u8>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileAttributes {
    pub(super) pass: Option<Vec<u8>>,
    pub(super) drop: Option<Vec<u8>>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"off\", \"warn\", \"reject\", or a table of these by rule"
)]
pub(super) enum FileGuard {
    All(String),
    Rules(BTreeMap<String, String>),
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileLimits {
    pub(super) routes: Option<u64>,
    #[serde(rename = "l2vpn-evpn")]
    pub(super) l2vpn_evpn: Option<u64>,
    #[serde(rename = "ipv4-unicast")]
    pub(super) ipv4_unicast: Option<u64>,
    #[serde(rename = "ipv6-unicast")]
    pub(super) ipv6_unicast: Option<u64>,
    pub(super) rtc: Option<u64>,
    #[serde(rename = "type")]
    pub(super) types: BTreeMap<String, u64>,
    pub(super) macs_per_vni: Option<u64>,
    pub(super) ips_per_mac: Option<u64>,
    pub(super) attribute_octets: Option<u32>,
    pub(super) attribute_octets_total: Option<u64>,
    pub(super) updates_per_sec: Option<u32>,
    pub(super) warn_percent: Option<u32>,
    pub(super) action: Option<String>,
    pub(super) restart_secs: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileBmp {
    pub(super) name: Option<String>,
    pub(super) address: Remote,
    pub(super) adj_rib_in: Option<bool>,
    pub(super) loc_rib: Option<bool>,
    pub(super) adj_rib_out: Option<bool>,
    pub(super) statistics_secs: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileSwitches {
    pub(super) ca_file: Option<OrFlag<PathBuf>>,
    pub(super) username: Option<OrFlag<String>>,
    pub(super) password_file: Option<OrFlag<PathBuf>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileApi {
    pub(super) listen: SocketAddr,
    pub(super) insecure: bool,
    pub(super) hosts: Vec<String>,
}

impl Default for FileApi {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], API_PORT)),
            insecure: false,
            hosts: Vec::new(),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileMetrics {
    pub(super) listen: Option<OrFlag<SocketAddr>>,
}

/// A value, or a boolean in its place: `false` takes away what a group has.
pub(super) enum OrFlag<T> {
    Flag(bool),
    Given(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrFlag<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OrFlagVisitor(PhantomData))
    }
}

/// Unlike an untagged enum it keeps what is wrong inside of a value.
struct OrFlagVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OrFlagVisitor<T> {
    type Value = OrFlag<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or false for none")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(OrFlag::Flag(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(OrFlag::Given)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(text.into_deserializer()).map(OrFlag::Given)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, list: S) -> Result<Self::Value, S::Error> {
        T::deserialize(SeqAccessDeserializer::new(list)).map(OrFlag::Given)
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(OrFlag::Given)
    }
}

/// An AS number, or in quotes a range of them or `any`.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected an AS number, a range such as \"65001-65100\", or \"any\""
)]
pub(super) enum FileAsn {
    Number(u32),
    Text(String),
}

impl FileAsn {
    pub(super) fn resolve(&self) -> Result<RemoteAsn, String> {
        let (low, high) = match self {
            Self::Number(asn) => (*asn, *asn),
            Self::Text(text) if text == "any" => return Ok(RemoteAsn::Any),
            Self::Text(text) => {
                let (low, high) = text.split_once('-').unwrap_or((text, text));
                let number = |part: &str| {
                    u32::from_str(part.trim()).map_err(|_| {
                        format!(
                            "{text:?} is no AS number, no range such as \"65001-65100\", and not \"any\""
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

const API_PORT: u16 = 7401;
/// First AS number for private use, RFC 6996.
const DEFAULT_ASN: u32 = 64_512;
/// Each costs two tasks and its routes; a fabric above this wants `dynamic_peers_max`.
const DYNAMIC_PEERS_MAX: usize = 4096;
/// 4 GiB: some six million routes with usual attributes, more than a fabric has.
const ROUTE_OCTETS_TOTAL: u64 = 4 << 30;
