//! The reflectors under test: how each is configured and started in the namespace.

use std::{fmt, fs, path::Path};

use crate::{
    command,
    daemon::Daemon,
    failure::{Context, Failure},
    namespace::Namespace,
};

use super::load::{ASN, HOLD_SECS};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Reflector {
    /// FRR's bgpd alone, without zebra
    Frr,
    /// weftd, one replica
    Weft,
    /// weftd, three replicas on this machine; all speakers connect to the first
    Weft3,
    /// GoBGP's gobgpd
    Gobgp,
}

impl Reflector {
    /// The processes, not started yet. All their files are in `folder`.
    pub(crate) fn daemons(
        self,
        namespace: &Namespace,
        folder: &Path,
        weftd: &str,
    ) -> Result<Vec<Daemon>, Failure> {
        let daemon = |name: &str, argv: Vec<String>| {
            Daemon::new(name, namespace, argv, folder.to_path_buf())
        };
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).context(|| path.display().to_string())?;
            Ok::<String, Failure>(path.display().to_string())
        };
        let own = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        match self {
            Self::Frr => {
                let file = write("bgpd.conf", frr())?;
                let sockets = folder.display().to_string();
                let pid = folder.join("bgpd.pid").display().to_string();
                Ok(vec![daemon(
                    "bgpd",
                    own(&[
                        BGPD,
                        "-Z",
                        "-n",
                        "-S",
                        "-f",
                        &file,
                        "-i",
                        &pid,
                        "-l",
                        ADDRESS,
                        "-p",
                        "179",
                        "-P",
                        "0",
                        "--vty_socket",
                        &sockets,
                        "--log",
                        "stdout",
                    ]),
                )])
            }
            Self::Weft | Self::Weft3 => (1..=self.replicas())
                .map(|id| {
                    let name = format!("weftd-{id}");
                    let file = write(&format!("{name}.toml"), weft(id, self.replicas()))?;
                    Ok(daemon(&name, own(&[weftd, "--config", &file])))
                })
                .collect(),
            Self::Gobgp => {
                let file = write("gobgpd.toml", gobgp())?;
                let argv = [GOBGPD, "-f", &file, "--api-hosts", "127.0.0.1:50051"];
                Ok(vec![daemon("gobgpd", own(&argv))])
            }
        }
    }

    /// Its name and version.
    pub(crate) fn label(self) -> String {
        let version = |argv: &[&str]| {
            let said = command::answer(argv).unwrap_or_default();
            let line = said.lines().next().unwrap_or_default();
            line.split_whitespace()
                .last()
                .unwrap_or_default()
                .to_owned()
        };
        match self {
            Self::Frr => format!("FRR {}", version(&[BGPD, "--version"])),
            Self::Weft => "weft, one replica".to_owned(),
            Self::Weft3 => "weft, three replicas".to_owned(),
            Self::Gobgp => format!("GoBGP {}", version(&[GOBGPD, "--version"])),
        }
    }

    fn replicas(self) -> u8 {
        match self {
            Self::Weft3 => 3,
            Self::Frr | Self::Weft | Self::Gobgp => 1,
        }
    }
}

impl fmt::Display for Reflector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Frr => "frr",
            Self::Weft => "weft",
            Self::Weft3 => "weft3",
            Self::Gobgp => "gobgp",
        })
    }
}

fn frr() -> String {
    format!(
        "router bgp {ASN}
 bgp router-id {ADDRESS}
 bgp cluster-id {ADDRESS}
 no bgp default ipv4-unicast
 bgp listen limit 1000
 neighbor leaves peer-group
 neighbor leaves remote-as {ASN}
 neighbor leaves timers {} {HOLD_SECS}
 bgp listen range {SPEAKERS} peer-group leaves
 address-family l2vpn evpn
  neighbor leaves activate
  neighbor leaves route-reflector-client
 exit-address-family
",
        HOLD_SECS / 3
    )
}

fn weft(id: u8, replicas: u8) -> String {
    let mut text = format!("[replica]\nid = {id}\ndata_dir = \"data-{id}\"\n");
    if replicas > 1 {
        for id in 1..=replicas {
            text += &format!("[[replicas]]\nid = {id}\naddress = \"10.99.1.{id}:7400\"\n");
        }
    }
    text + &format!(
        "[bgp]
asn = {ASN}
router_id = \"10.99.1.{id}\"
cluster_id = \"{ADDRESS}\"
listen = [\"10.99.1.{id}:179\"]
[[bgp.peer_group]]
name = \"leaves\"
remote_asn = {ASN}
route_reflector_client = true
families = [\"l2vpn-evpn\"]
hold_secs = {HOLD_SECS}
limits = {{ routes = 0, attribute_octets_total = 0 }}
[[bgp.listen_range]]
prefix = \"{SPEAKERS}\"
peer_group = \"leaves\"
[api]
listen = \"10.99.1.{id}:7401\"
insecure = true
[metrics]
listen = \"10.99.1.{id}:7402\"
"
    )
}

fn gobgp() -> String {
    format!(
        "[global.config]
as = {ASN}
router-id = \"{ADDRESS}\"
local-address-list = [\"{ADDRESS}\"]
[[peer-groups]]
[peer-groups.config]
peer-group-name = \"leaves\"
peer-as = {ASN}
[peer-groups.timers.config]
hold-time = {HOLD_SECS}
[peer-groups.route-reflector.config]
route-reflector-client = true
route-reflector-cluster-id = \"{ADDRESS}\"
[[peer-groups.afi-safis]]
[peer-groups.afi-safis.config]
afi-safi-name = \"l2vpn-evpn\"
[[dynamic-neighbors]]
[dynamic-neighbors.config]
prefix = \"{SPEAKERS}\"
peer-group = \"leaves\"
"
    )
}

/// Where the reflector listens.
pub(crate) const ADDRESS: &str = "10.99.1.1";

/// Where the speakers are.
const SPEAKERS: &str = "10.99.0.0/24";

const BGPD: &str = "/usr/lib/frr/bgpd";
const GOBGPD: &str = "gobgpd";
