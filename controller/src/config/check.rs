//! From the file as written to a configuration that can be meant: every mistake with its place and its
//! reason. Reads no other file but those of keys, and knows no socket.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use weft_bgp::peer::{ClusterId, RouterId};
use weft_bgp::reflect::Local;
use weft_sys::Key;

use super::file::{File, FileApi, FileBgp, FileBmp, FileKnobs, FileMetrics, FileMoves, OrFlag};
use super::group::PeerGroup;
use super::knobs::off;
use super::remote::{NAME_MAX, Remote};
use super::tcp_ao;
use super::{
    Api, Bgp, Bmp, Config, ConfigError, ListenRange, Member, MoveAction, Moves, Peer, Replica,
};

/// A mistake, in a file that has no name yet.
#[derive(Debug)]
pub(super) struct Invalid {
    pub(super) field: String,
    pub(super) reason: String,
}

impl Invalid {
    pub(super) fn at(self, path: &Path) -> ConfigError {
        ConfigError::Invalid {
            path: path.to_owned(),
            field: self.field,
            reason: self.reason,
        }
    }
}

pub(super) fn invalid<T>(
    field: impl fmt::Display,
    reason: impl fmt::Display,
) -> Result<T, Invalid> {
    Err(Invalid {
        field: field.to_string(),
        reason: reason.to_string(),
    })
}

/// One of a few words.
pub(super) fn word<T: Copy>(field: String, text: &str, words: &[(&str, T)]) -> Result<T, Invalid> {
    if let Some((_, meant)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*meant);
    }
    let known: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    invalid(
        field,
        format!("{text:?} is not one of {}", known.join(", ")),
    )
}

/// A number within bounds.
pub(super) fn within<T: Copy + PartialOrd + fmt::Display>(
    field: String,
    number: T,
    low: T,
    high: T,
) -> Result<T, Invalid> {
    match number >= low && number <= high {
        true => Ok(number),
        false => invalid(field, format!("{number} is not {low} to {high}")),
    }
}

pub(super) fn secs(number: u32) -> Duration {
    Duration::from_secs(number.into())
}

impl FileApi {
    fn check(self) -> Result<Api, Invalid> {
        let known =
            |it: &String| !it.is_empty() && it.len() <= NAME_MAX && !it.contains([':', '/', ' ']);
        if let Some(at) = self.hosts.iter().position(|it| !known(it)) {
            let reason = format!("{:?} is not the name of a host", self.hosts[at]);
            return invalid(format!("api.hosts[{at}]"), reason);
        }
        Ok(Api {
            listen: self.listen,
            insecure: self.insecure,
            hosts: self.hosts,
        })
    }
}

impl FileMetrics {
    fn check(self) -> Result<Option<SocketAddr>, Invalid> {
        listener("metrics.listen", self.listen)
    }
}

fn listener(
    field: &str,
    written: Option<OrFlag<SocketAddr>>,
) -> Result<Option<SocketAddr>, Invalid> {
    match written {
        None => Ok(None),
        Some(OrFlag::Flag(flag)) => off(field.to_owned(), flag).map(|()| None),
        Some(OrFlag::Given(address)) => Ok(Some(address)),
    }
}

impl File {
    pub(super) fn check(self) -> Result<Config, Invalid> {
        let replicas = self.check_replicas()?;
        if replicas.len() > 1 && self.bgp.cluster_id.is_none() {
            return invalid("bgp.cluster_id", "must be given, the same on every replica");
        }
        let listen = listener("replica.listen", self.replica.listen)?;
        if listen.is_some() && self.replicas.is_empty() {
            return invalid("replica.listen", "needs [[replicas]]");
        }
        Ok(Config {
            replicas,
            replica: Replica {
                id: self.replica.id,
                data_dir: self.replica.data_dir,
                listen,
            },
            bgp: self.bgp.check()?,
            bmp: check_bmp(self.bmp)?,
            switches: self.switches.check()?,
            api: self.api.check()?,
            metrics: self.metrics.check()?,
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
            if let Remote::Address(SocketAddr::V6(address)) = &member.address
                && address.scope_id() != 0
            {
                let reason = format!("{address}: an address with a zone cannot be dialed");
                return invalid(format!("replicas[{at}].address"), reason);
            }
            if seen.insert(member.id, member.address.clone()).is_some() {
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
        let listen_ranges = self.check_ranges(&groups)?;
        let peers = self.check_peers(&groups)?;
        self.check_prefixes(&groups, &listen_ranges, &peers)?;
        let mut vteps = Vec::new();
        for (at, text) in self.vteps.iter().enumerate() {
            vteps.push(prefix(format!("bgp.vteps[{at}]"), text)?);
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
            route_octets_total: Some(self.route_octets_total).filter(|octets| *octets > 0),
            vteps,
            moves: self.moves.check()?,
        })
    }

    /// Whether there is a key in every file that is said to hold one.
    pub(super) fn check_keys(&self) -> Result<(), Invalid> {
        let tables = [("peer_group", &self.peer_group), ("peer", &self.peer)];
        for (table, all) in tables {
            for (at, raw) in all.iter().enumerate() {
                if let Some(OrFlag::Given(all)) = &raw.tcp_ao {
                    tcp_ao::check_keys(all, &format!("bgp.{table}[{at}]"))?;
                }
                let Some(OrFlag::Given(path)) = &raw.password_file else {
                    continue;
                };
                if let Err(error) = Key::load(path) {
                    let source = std::error::Error::source(&error);
                    let why = source.map_or_else(String::new, |source| format!(": {source}"));
                    let field = format!("bgp.{table}[{at}].password_file");
                    return invalid(field, format!("{error}{why}"));
                }
            }
        }
        Ok(())
    }

    /// Whether the keys of TCP-AO of each peer and range can hold next to those of the ranges that it is under.
    fn check_prefixes(
        &self,
        groups: &BTreeMap<String, PeerGroup>,
        ranges: &[ListenRange],
        peers: &BTreeMap<IpAddr, Peer>,
    ) -> Result<(), Invalid> {
        for range in ranges {
            let of_range = &groups[&range.peer_group];
            let under = |prefix| tcp_ao::is_under(prefix, range.prefix);
            for other in ranges.iter().filter(|other| under(other.prefix)) {
                let (group, whose) = (&groups[&other.peer_group], other.prefix.to_string());
                tcp_ao::fits_under(group, &whose, range, of_range)
                    .or_else(|reason| invalid("bgp.listen_range", reason))?;
            }
            for (at, raw) in self.peer.iter().enumerate() {
                let address = raw.address.map(|address| address.to_canonical());
                let peer = address.and_then(|address| peers.get(&address));
                if let Some(peer) = peer.filter(|peer| range.prefix.contains(&peer.address)) {
                    tcp_ao::fits_under(&peer.settings, &peer.address.to_string(), range, of_range)
                        .or_else(|reason| invalid(format!("bgp.peer[{at}].tcp_ao"), reason))?;
                }
            }
        }
        Ok(())
    }

    fn check_groups(&self) -> Result<BTreeMap<String, PeerGroup>, Invalid> {
        let mut groups = BTreeMap::new();
        for (at, raw) in self.peer_group.iter().enumerate() {
            let place = format!("bgp.peer_group[{at}]");
            let Some(name) = raw.name.clone().filter(|name| !name.is_empty()) else {
                return invalid(format!("{place}.name"), "must be given");
            };
            if raw.address.is_some() {
                return invalid(format!("{place}.address"), "belongs into a [[bgp.peer]]");
            }
            if raw.peer_group.is_some() {
                return invalid(format!("{place}.peer_group"), "belongs into a [[bgp.peer]]");
            }
            let group = raw.lay_over(PeerGroup::new(name.clone()), &place, self.asn)?;
            if groups.insert(name, group).is_some() {
                return invalid(
                    format!("{place}.name"),
                    format!(
                        "{:?} appears twice",
                        raw.name.as_deref().unwrap_or_default()
                    ),
                );
            }
        }
        Ok(groups)
    }

    fn check_ranges(
        &self,
        groups: &BTreeMap<String, PeerGroup>,
    ) -> Result<Vec<ListenRange>, Invalid> {
        let mut ranges: Vec<ListenRange> = Vec::new();
        for (at, range) in self.listen_range.iter().enumerate() {
            let place = format!("bgp.listen_range[{at}]");
            let prefix = prefix(format!("{place}.prefix"), &range.prefix)?;
            if ranges.iter().any(|other| other.prefix == prefix) {
                return invalid(format!("{place}.prefix"), format!("{prefix} appears twice"));
            }
            let group = known(groups, format!("{place}.peer_group"), &range.peer_group)?;
            ranges.push(ListenRange {
                prefix,
                peer_group: group.name.clone(),
            });
        }
        // The longest prefix wins, as everywhere in routing.
        ranges.sort_by_key(|range| (std::cmp::Reverse(range.prefix.prefix_len()), range.prefix));
        Ok(ranges)
    }

    fn check_peers(
        &self,
        groups: &BTreeMap<String, PeerGroup>,
    ) -> Result<BTreeMap<IpAddr, Peer>, Invalid> {
        let mut peers = BTreeMap::new();
        for (at, raw) in self.peer.iter().enumerate() {
            let place = format!("bgp.peer[{at}]");
            let FileKnobs {
                name,
                address,
                peer_group,
                ..
            } = raw;
            if name.is_some() {
                return invalid(
                    format!("{place}.name"),
                    "belongs into a [[bgp.peer_group]]; use description",
                );
            }
            let Some(address) = address.map(|address| address.to_canonical()) else {
                return invalid(format!("{place}.address"), "must be given");
            };
            let Some(peer_group) = peer_group else {
                return invalid(format!("{place}.peer_group"), "must be given");
            };
            let group = known(groups, format!("{place}.peer_group"), peer_group)?;
            let peer = Peer {
                address,
                settings: raw.lay_over(group.clone(), &place, self.asn)?,
            };
            if peers.insert(address, peer).is_some() {
                return invalid(
                    format!("{place}.address"),
                    format!("{address} appears twice"),
                );
            }
        }
        Ok(peers)
    }
}

impl FileMoves {
    fn check(self) -> Result<Moves, Invalid> {
        let default = Moves::default();
        let place = "bgp.moves";
        let positive = |name: &str, number: Option<u32>| match number {
            Some(0) => invalid(format!("{place}.{name}"), "must be at least 1"),
            other => Ok(other),
        };
        let action = match self.action {
            None => default.action,
            Some(text) => word(format!("{place}.action"), &text, &MOVE_ACTIONS)?,
        };
        Ok(Moves {
            window: positive("window_secs", self.window_secs)?.map_or(default.window, secs),
            moves: positive("moves", self.moves)?.unwrap_or(default.moves),
            action,
            recover: positive("recover_secs", self.recover_secs)?.map_or(default.recover, secs),
        })
    }
}

fn check_bmp(stations: Vec<FileBmp>) -> Result<Vec<Bmp>, Invalid> {
    let mut checked: Vec<Bmp> = Vec::new();
    for (at, raw) in stations.into_iter().enumerate() {
        let place = format!("bmp[{at}]");
        let station = Bmp {
            name: raw.name.unwrap_or_else(|| raw.address.to_string()),
            address: raw.address,
            adj_rib_in: raw.adj_rib_in.unwrap_or(true),
            loc_rib: raw.loc_rib.unwrap_or(true),
            adj_rib_out: raw.adj_rib_out.unwrap_or(false),
            statistics: match raw.statistics_secs {
                Some(0) => {
                    return invalid(format!("{place}.statistics_secs"), "must be at least 1");
                }
                Some(number) => secs(number),
                None => BMP_STATISTICS,
            },
        };
        if checked.iter().any(|other| other.name == station.name) {
            return invalid(
                format!("{place}.name"),
                format!("{:?} appears twice", station.name),
            );
        }
        checked.push(station);
    }
    Ok(checked)
}

fn known<'a>(
    groups: &'a BTreeMap<String, PeerGroup>,
    field: String,
    name: &str,
) -> Result<&'a PeerGroup, Invalid> {
    groups.get(name).map_or_else(
        || invalid(field, format!("no peer group is named {name:?}")),
        Ok,
    )
}

fn prefix(field: String, text: &str) -> Result<IpNet, Invalid> {
    let prefix =
        IpNet::from_str(text).or_else(|_| invalid(field, format!("{text:?} is not a prefix")))?;
    Ok(prefix.trunc())
}

pub(super) const MOVE_ACTIONS: [(&str, MoveAction); 2] =
    [("warn", MoveAction::Warn), ("freeze", MoveAction::Freeze)];
/// Often enough for a graph, and nothing next to the routes.
const BMP_STATISTICS: Duration = Duration::from_secs(60);
