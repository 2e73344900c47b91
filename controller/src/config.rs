//! The configuration: what an operator wrote, checked, with every default filled in. Knows no socket
//! and no route.
//!
//! ```text
//! file (as written) --check, knobs--> Config --settings--> lines --diff--> what a reload changes
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use weft_bgp::family::Family;
use weft_bgp::reflect::Local;
use weft_evpn::moves;

use file::File;

pub use group::{
    AddPath, AttributeLists, Bfd, GracefulRestart, Guard, GuardMode, LimitAction, Limits,
    PeerGroup, RouteTargetFilter, Ttl,
};
pub use remote::{NotRemote, Remote};
pub use switches::{Credentials, CredentialsError, Login, Switches};
pub use tcp_ao::TcpAoKey;

mod check;
pub mod diff;
mod file;
mod group;
mod knobs;
mod remote;
pub mod settings;
pub mod show;
mod switches;
mod tcp_ao;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// This replica and where its data lies.
    pub replica: Replica,
    /// All replicas, this one included; a single entry without an address for a lone replica.
    pub replicas: Vec<Member>,
    /// The speaker.
    pub bgp: Bgp,
    /// Collectors that we report to, RFC 7854.
    pub bmp: Vec<Bmp>,
    /// What switches that are declared with TLS are reached with.
    pub switches: Switches,
    /// Listener for operators and orchestrators.
    pub api: Api,
    /// HTTP listener for Prometheus; absent: none.
    pub metrics: Option<SocketAddr>,
}

/// The API's port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    /// Address and port of gRPC, JSON and the page.
    pub listen: SocketAddr,
    /// True if gRPC, JSON and the page are answered to clients beyond this machine too.
    pub insecure: bool,
    /// Names that such clients may call this replica by, beside its addresses.
    pub hosts: Vec<String>,
}

impl Api {
    /// Returns true if no other machine reaches the port.
    pub fn listens_on_loopback(&self) -> bool {
        self.listen.ip().to_canonical().is_loopback()
    }

    /// Returns true if other machines reach the port and are answered, without encryption or a password.
    pub fn is_exposed(&self) -> bool {
        self.insecure && !self.listens_on_loopback()
    }
}

/// This replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Raft id, 1 or more.
    pub id: u64,
    /// Directory of the store.
    pub data_dir: PathBuf,
    /// Address and port of the listener for Raft; `None`: those of its entry among the replicas.
    pub listen: Option<SocketAddr>,
}

/// A member of the Raft group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Raft id, 1 or more.
    pub id: u64,
    /// Where it takes Raft streams; `None` only for a lone replica.
    pub address: Option<Remote>,
}

/// The BGP speaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bgp {
    /// Our AS, identifier and cluster.
    pub local: Local,
    /// TCP listeners.
    pub listen: Vec<SocketAddr>,
    /// Groups by name.
    pub groups: BTreeMap<String, PeerGroup>,
    /// Prefixes from which peers are accepted without being listed, the longest first.
    pub listen_ranges: Vec<ListenRange>,
    /// Peers by address.
    pub peers: BTreeMap<IpAddr, Peer>,
    /// At most this many dynamic peers; the next is refused.
    pub dynamic_peers_max: usize,
    /// At most so many octets of routes of all peers, as estimated; new routes beyond are refused.
    pub route_octets_total: Option<u64>,
    /// Where VTEPs may be that no route has told of yet.
    pub vteps: Vec<IpNet>,
    /// What is to be made of MAC addresses that move too often.
    pub moves: Moves,
}

/// A prefix whose addresses may become peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenRange {
    /// Source addresses.
    pub prefix: IpNet,
    /// Name of the group they join.
    pub peer_group: String,
}

/// A peer by address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Its group's values with its own laid over them; `settings.name` is the group's.
    pub settings: PeerGroup,
}

/// What holds for one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved<'a> {
    /// Every value, whether it comes from the peer, its group or the defaults.
    pub settings: &'a PeerGroup,
    /// Not listed, but within a listen range.
    pub dynamic: bool,
}

impl Bgp {
    /// Who may speak from an address, if anybody.
    pub fn resolve(&self, address: IpAddr) -> Option<Resolved<'_>> {
        if let Some(peer) = self.peers.get(&address) {
            return Some(Resolved {
                settings: &peer.settings,
                dynamic: false,
            });
        }
        let mut ranges = self.listen_ranges.iter();
        let range = ranges.find(|range| range.prefix.contains(&address))?;
        Some(Resolved {
            settings: self.groups.get(&range.peer_group)?,
            dynamic: true,
        })
    }
}

/// When a MAC address moves too often, RFC 7432 §15.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moves {
    /// Moves are counted over this time.
    pub window: Duration,
    /// This many within the window are too many.
    pub moves: u32,
    /// What is done then.
    pub action: MoveAction,
    /// How long it is done.
    pub recover: Duration,
}

impl Default for Moves {
    /// RFC 7432 §15.1: 5 moves in 180 s. FRR recovers after half an hour if told to.
    fn default() -> Self {
        Self {
            window: Duration::from_secs(180),
            moves: 5,
            action: MoveAction::Warn,
            recover: Duration::from_secs(1800),
        }
    }
}

impl Moves {
    /// As the detector takes it.
    pub fn settings(&self) -> moves::Settings {
        moves::Settings {
            moves: self.moves,
            window: self.window,
            recover: self.recover,
            ..moves::Settings::default()
        }
    }
}

/// What is done about a MAC address that moves too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveAction {
    /// It is told of.
    Warn,
    /// It stays where it is until the recovery time is over.
    Freeze,
}

/// A collector that we report to, RFC 7854.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bmp {
    /// Its name; its address unless one is given.
    pub name: String,
    /// Where we connect to.
    pub address: Remote,
    /// Tell it what each peer announces.
    pub adj_rib_in: bool,
    /// Tell it what we choose, RFC 9069.
    pub loc_rib: bool,
    /// Tell it what each peer is told, RFC 8671.
    pub adj_rib_out: bool,
    /// Between two statistics reports.
    pub statistics: Duration,
}

impl Config {
    /// Reads and checks a file, and the keys that it names.
    ///
    /// # Errors
    /// What is wrong, with the file and the place in it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let written = written(&text, path)?;
        let keys = written.bgp.check_keys();
        let config = written.check();
        let config = config.and_then(|config| {
            keys?;
            config.switches.check_files()?;
            Ok(config)
        });
        config.map_err(|invalid| invalid.at(path))
    }

    /// Checks a text; `path` only names it in errors, and no other file is read.
    ///
    /// # Errors
    /// What is wrong, with the place.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let checked = written(text, path)?.check();
        checked.map_err(|invalid| invalid.at(path))
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

    /// Where this replica takes Raft streams: at `replica.listen`, or else at its address among the replicas. If that is a name, then
    /// at all addresses of this host. `None` for a lone replica.
    pub fn raft_listen(&self) -> Option<SocketAddr> {
        let own = self
            .replicas
            .iter()
            .find(|member| member.id == self.replica.id);
        let address = match own?.address.as_ref()? {
            Remote::Address(address) => *address,
            Remote::Name { port, .. } => SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port)),
        };
        Some(self.replica.listen.unwrap_or(address))
    }

    /// Addresses that this replica dials other replicas from: its own among the replicas, then that of `replica.listen`. None where
    /// both are names or unspecified.
    pub fn raft_sources(&self) -> impl Iterator<Item = IpAddr> {
        let mut own = self.replicas.iter();
        let own = own.find(|member| member.id == self.replica.id);
        let own = own.and_then(|own| match own.address {
            Some(Remote::Address(address)) => Some(address),
            Some(Remote::Name { .. }) | None => None,
        });
        let known = [own, self.replica.listen].into_iter().flatten();
        known
            .map(|address| address.ip())
            .filter(|address| !address.is_unspecified())
    }
}

fn written(text: &str, path: &Path) -> Result<File, ConfigError> {
    toml::from_str(text).map_err(|error| ConfigError::Malformed {
        path: path.to_owned(),
        message: error.to_string().trim_end().to_owned(),
    })
}

/// Families that the speaker carries.
pub const SUPPORTED: [Family; 3] = [
    Family::L2VPN_EVPN,
    Family::IPV4_UNICAST,
    Family::IPV6_UNICAST,
];

#[cfg(test)]
mod tests;
