//! What a fabric lab must come to, read from its `expect.yaml`: facts about the lab that are true
//! whatever reflects its routes. The expected routes, entries and sessions are derived here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::Ipv4Addr,
    path::Path,
    time::Duration,
};

use serde::Deserialize;

use crate::failure::{Context, Failure};

/// Lines that a check compares; their order means nothing.
pub(crate) type Lines = BTreeSet<String>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    pub(crate) reflectors: BTreeMap<String, Ipv4Addr>,
    pub(crate) asn: u32,
    pub(crate) hold_secs: u64,
    pub(crate) vteps: BTreeMap<String, Ipv4Addr>,
    pub(crate) vnis: Vec<u32>,
    pub(crate) hosts: BTreeMap<String, Host>,
    /// Interfaces that share what a leaf sends to another, and the ratio of what they may carry.
    pub(crate) uplinks: BTreeMap<String, u32>,
    pub(crate) drained: Drained,
}

/// A link that is set down through the API.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Drained {
    pub(crate) link: String,
    leaf: String,
    uplink: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Host {
    pub(crate) leaf: String,
    pub(crate) vni: u32,
    pub(crate) mac: String,
    pub(crate) address: Ipv4Addr,
}

impl Expect {
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join("expect.yaml");
        let text = fs::read_to_string(&path).context(|| path.display().to_string())?;
        serde_yaml_ng::from_str(&text).context(|| path.display().to_string())
    }

    pub(crate) fn hold(&self) -> Duration {
        Duration::from_secs(self.hold_secs)
    }

    /// Every leaf holds a session to every replica.
    pub(crate) fn sessions(&self) -> Lines {
        self.vteps
            .keys()
            .flat_map(|leaf| {
                self.reflectors
                    .values()
                    .map(move |at| format!("{leaf} to {at}: Established"))
            })
            .collect()
    }

    /// Every leaf reaches every other leaf's VTEP address over all uplinks.
    pub(crate) fn underlay(&self) -> Lines {
        let over: Vec<&str> = self.uplinks.keys().map(String::as_str).collect();
        self.pairs()
            .map(|(leaf, _, vtep)| format!("{leaf} to {vtep}: {}", over.join(" ")))
            .collect()
    }

    /// `show bgp l2vpn evpn` of every leaf but `without`: its own routes once, every other leaf's routes
    /// once from each reflector, as announced.
    pub(crate) fn routes(&self, without: Option<&str>) -> Lines {
        let mut lines = Lines::new();
        for leaf in self
            .vteps
            .keys()
            .filter(|leaf| Some(leaf.as_str()) != without)
        {
            for (origin, key) in self
                .announced()
                .filter(|(origin, _)| Some(*origin) != without)
            {
                let vtep = self.vteps[origin];
                if origin == leaf {
                    lines.insert(format!("{leaf} {key} next hop {vtep}, own"));
                } else {
                    lines.extend(
                        self.reflectors
                            .values()
                            .map(|at| format!("{leaf} {key} next hop {vtep}, from {at}")),
                    );
                }
            }
        }
        lines
    }

    /// (leaf, RD and key in FRR's notation, route targets) of every route that the lab announces.
    fn announced(&self) -> impl Iterator<Item = (&str, String)> {
        let floods = self.vteps.iter().flat_map(move |(leaf, vtep)| {
            self.vnis.iter().map(move |vni| {
                (
                    leaf.as_str(),
                    self.key(leaf, *vni, &format!("[3]:[0]:[32]:[{vtep}]")),
                )
            })
        });
        let macs = self.hosts.values().map(|host| {
            (
                host.leaf.as_str(),
                self.key(
                    &host.leaf,
                    host.vni,
                    &format!("[2]:[0]:[48]:[{}]", host.mac),
                ),
            )
        });
        floods.chain(macs)
    }

    fn key(&self, leaf: &str, vni: u32, key: &str) -> String {
        format!(
            "{}:{vni} {key} RT:{}:{vni} ET:8",
            self.vteps[leaf], self.asn
        )
    }

    /// `bridge fdb` of every VXLAN device: a flood entry per other VTEP, an entry per remote host.
    pub(crate) fn forwarding(&self, without: Option<&str>) -> Lines {
        let mut lines = Lines::new();
        for (leaf, other, vtep) in self
            .pairs()
            .filter(|(a, b, _)| Some(*a) != without && Some(*b) != without)
        {
            for vni in &self.vnis {
                lines.insert(format!("{leaf} vxlan{vni} {FLOOD} to {vtep}"));
            }
            for host in self.hosts.values().filter(|host| host.leaf == other) {
                lines.insert(format!("{leaf} vxlan{} {} to {vtep}", host.vni, host.mac));
            }
        }
        lines
    }

    /// `weft vtep list`: address, VNIs, MACs.
    pub(crate) fn members(&self, without: Option<&str>) -> Lines {
        self.vteps
            .iter()
            .filter(|(leaf, _)| Some(leaf.as_str()) != without)
            .map(|(leaf, vtep)| {
                let vnis: Vec<String> = self.vnis.iter().map(u32::to_string).collect();
                let macs = self
                    .hosts
                    .values()
                    .filter(|host| host.leaf == *leaf)
                    .count();
                format!("{vtep}: VNI {}, {macs} MACs", vnis.join(" "))
            })
            .collect()
    }

    /// `weft peer list`: every leaf's session, with what it announced.
    pub(crate) fn owned(&self) -> Lines {
        self.vteps
            .iter()
            .map(|(leaf, vtep)| {
                let routes = self
                    .announced()
                    .filter(|(origin, _)| origin == leaf)
                    .count();
                format!("{vtep}: SESSION_STATE_ESTABLISHED, {routes} routes")
            })
            .collect()
    }

    /// `weft route list` as one replica answers: RD, key and next hop.
    pub(crate) fn reflected(&self, without: Option<&str>) -> Lines {
        self.announced()
            .filter(|(origin, _)| Some(*origin) != without)
            .map(|(origin, key)| format!("{key} next hop {}", self.vteps[origin]))
            .collect()
    }

    /// The ratio of a plan's members for every (leaf, other leaf).
    pub(crate) fn shares(&self) -> Lines {
        self.pairs()
            .map(|(leaf, _, vtep)| format!("{leaf} to {vtep}: {}", ratio(&self.uplinks)))
            .collect()
    }

    /// The same with the drained link down: to and from its leaf, what is left carries everything.
    pub(crate) fn shares_drained(&self) -> Lines {
        let mut left = self.uplinks.clone();
        left.remove(&self.drained.uplink);
        self.pairs()
            .map(|(leaf, other, vtep)| {
                let touched = [leaf, other].contains(&self.drained.leaf.as_str());
                let shares = ratio(if touched { &left } else { &self.uplinks });
                format!("{leaf} to {vtep}: {shares}")
            })
            .collect()
    }

    /// (host, host) that are in one VNI, in both directions.
    pub(crate) fn neighbours(&self, same_vni: bool) -> Vec<(&str, &str)> {
        let mut pairs = Vec::new();
        for (a, host) in &self.hosts {
            for (b, _) in self
                .hosts
                .iter()
                .filter(|(b, other)| a != *b && (host.vni == other.vni) == same_vni)
            {
                pairs.push((a.as_str(), b.as_str()));
            }
        }
        pairs
    }

    /// (leaf, other leaf, the other's VTEP address).
    fn pairs(&self) -> impl Iterator<Item = (&str, &str, Ipv4Addr)> {
        self.vteps.keys().flat_map(|leaf| {
            self.vteps
                .iter()
                .filter(move |(other, _)| *other != leaf)
                .map(|(other, vtep)| (leaf.as_str(), other.as_str(), *vtep))
        })
    }
}

/// Shares by interface, in lowest terms.
pub(crate) fn ratio(shares: &BTreeMap<String, u32>) -> String {
    let divisor = shares
        .values()
        .copied()
        .fold(0, greatest_common_divisor)
        .max(1);
    let shares: Vec<String> = shares
        .iter()
        .map(|(name, share)| format!("{name}={}", share / divisor))
        .collect();
    shares.join(" ")
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

/// The address under which a VXLAN device keeps whom to flood to.
pub(crate) const FLOOD: &str = "00:00:00:00:00:00";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_fabric_expects_each_route_from_each_reflector_once() {
        let text = "
reflectors: {r1: 192.0.2.1, r2: 192.0.2.2}
asn: 64496
hold_secs: 9
vteps: {a: 198.51.100.1, b: 198.51.100.2}
vnis: [7]
hosts: {h: {leaf: b, vni: 7, mac: '00:00:5e:00:53:01', address: 203.0.113.1}}
uplinks: {eth1: 2, eth2: 1}
drained: {link: 'a:eth2--s:eth1', leaf: a, uplink: eth2}
";
        let expect: Expect = serde_yaml_ng::from_str(text).unwrap();
        let routes = expect.routes(None);
        // a: own type 3, and b's type 3 and type 2 twice; b: two own, and a's type 3 twice.
        assert_eq!(routes.len(), 1 + 4 + 2 + 2);
        assert!(routes.contains(
            "a 198.51.100.2:7 [2]:[0]:[48]:[00:00:5e:00:53:01] RT:64496:7 ET:8 next hop 198.51.100.2, from 192.0.2.2"
        ));
        assert_eq!(expect.routes(Some("b")).len(), 1);
        assert_eq!(expect.forwarding(None).len(), 3);
        assert_eq!(
            expect.shares().first().unwrap(),
            "a to 198.51.100.2: eth1=2 eth2=1"
        );
        assert_eq!(
            expect.shares_drained().first().unwrap(),
            "a to 198.51.100.2: eth1=1"
        );
        assert_eq!(
            expect.members(None).last().unwrap(),
            "198.51.100.2: VNI 7, 1 MACs"
        );
    }
}
