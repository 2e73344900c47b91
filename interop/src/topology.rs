//! The part of a containerlab topology file that our labs use. A key outside of that part is an
//! error, not silence: a lab must mean the same here and in containerlab.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    failure::{Context, Failure},
    speakers::Suite,
};

/// A topology with defaults and kinds already folded into the nodes.
#[derive(Debug)]
pub(crate) struct Topology {
    pub(crate) name: String,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) links: Vec<[Endpoint; 2]>,
}

/// One node, <https://containerlab.dev/manual/nodes/>.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Node {
    kind: Option<String>,
    image: Option<String>,
    /// `path beside the topology file:path in the container`
    pub(crate) binds: Vec<String>,
    pub(crate) env: BTreeMap<String, Scalar>,
    pub(crate) sysctls: BTreeMap<String, Scalar>,
    pub(crate) exec: Vec<String>,
    pub(crate) cmd: Option<String>,
    network_mode: Option<String>,
    startup_delay: Option<u32>,
    group: Option<String>,
    labels: BTreeMap<String, Scalar>,
    mgmt_ipv4: Option<String>,
}

/// One end of a link: `leaf1:eth1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) node: String,
    pub(crate) interface: String,
}

/// What runs in a node, told by the last part of its image's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Image {
    /// `quay.io/frrouting/frr:8.4.4`: the daemons that its `daemons` file names.
    Frr,
    /// `weft:latest`: the program that `cmd` names.
    Weft,
    /// Anything else: a host without a program.
    Host,
}

/// Text, number or truth value: the same to whoever reads a variable.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Scalar {
    Text(String),
    Number(i64),
    Truth(bool),
}

impl Topology {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).context(|| path.display().to_string())?;
        Self::parse(&text).context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self, Failure> {
        let file: File = serde_yaml_ng::from_str(text).context(|| "topology".to_owned())?;
        let mut nodes = BTreeMap::new();
        for (name, node) in file.topology.nodes {
            let kind = node
                .kind
                .clone()
                .or_else(|| file.topology.defaults.kind.clone());
            if kind.as_deref() != Some("linux") {
                return Err(Failure::new(format!(
                    "node {name}: kind {kind:?}, known is \"linux\""
                )));
            }
            let of_kind = file
                .topology
                .kinds
                .get("linux")
                .cloned()
                .unwrap_or_default();
            nodes.insert(
                name,
                node.over(of_kind).over(file.topology.defaults.clone()),
            );
        }
        let mut links = Vec::new();
        for link in file.topology.links {
            links.push([
                endpoint(&link.endpoints[0], &nodes)?,
                endpoint(&link.endpoints[1], &nodes)?,
            ]);
        }
        let topology = Self {
            name: file.name,
            nodes,
            links,
        };
        topology.check_parents()?;
        topology.check_speakers()?;
        Ok(topology)
    }

    fn check_speakers(&self) -> Result<(), Failure> {
        for (name, node) in &self.nodes {
            if let Some(suite) = node.labels.get(SPEAKERS)
                && node.speakers().is_none()
            {
                return Err(Failure::new(format!(
                    "node {name}: speakers of no suite that we know: {suite}"
                )));
            }
        }
        Ok(())
    }

    fn check_parents(&self) -> Result<(), Failure> {
        for (name, node) in &self.nodes {
            if let Some(parent) = node.parent()
                && self
                    .nodes
                    .get(parent)
                    .is_none_or(|node| node.parent().is_some())
            {
                return Err(Failure::new(format!(
                    "node {name}: network-mode of no node of its own: {parent}"
                )));
            }
        }
        Ok(())
    }
}

impl Node {
    /// This node, with what it does not say taken from `base`; lists and maps are joined.
    fn over(self, base: Self) -> Self {
        let mut binds = base.binds;
        binds.extend(self.binds);
        let mut exec = base.exec;
        exec.extend(self.exec);
        let mut env = base.env;
        env.extend(self.env);
        let mut sysctls = base.sysctls;
        sysctls.extend(self.sysctls);
        let mut labels = base.labels;
        labels.extend(self.labels);
        Self {
            kind: self.kind.or(base.kind),
            image: self.image.or(base.image),
            binds,
            env,
            sysctls,
            exec,
            cmd: self.cmd.or(base.cmd),
            network_mode: self.network_mode.or(base.network_mode),
            startup_delay: self.startup_delay.or(base.startup_delay),
            group: self.group.or(base.group),
            labels,
            mgmt_ipv4: self.mgmt_ipv4.or(base.mgmt_ipv4),
        }
    }

    pub(crate) fn image(&self) -> Image {
        let image = self.image.as_deref().unwrap_or_default();
        let last = image.rsplit('/').next().unwrap_or_default();
        match last.split(':').next().unwrap_or_default() {
            "frr" => Image::Frr,
            "weft" => Image::Weft,
            _ => Image::Host,
        }
    }

    /// The suite that its label `speakers` names: whose programs run there, whatever the rest of the lab runs.
    pub(crate) fn speakers(&self) -> Option<Suite> {
        Suite::named(&self.labels.get(SPEAKERS)?.to_string())
    }

    /// The node whose network this one shares.
    pub(crate) fn parent(&self) -> Option<&str> {
        self.network_mode.as_deref()?.strip_prefix("container:")
    }

    /// Pairs of (path beside the topology file, path in the container); options after a second colon
    /// change nothing here.
    pub(crate) fn bound_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.binds.iter().filter_map(|bind| {
            let (from, to) = bind.split_once(':')?;
            Some((from, to.split(':').next().unwrap_or(to)))
        })
    }
}

impl Node {
    /// (path here, name in /etc/frr) of the files that it binds there.
    pub(crate) fn frr_files(&self, beside: &Path) -> impl Iterator<Item = (PathBuf, String)> {
        self.bound_files().filter_map(move |(from, to)| {
            Some((beside.join(from), to.strip_prefix("/etc/frr/")?.to_owned()))
        })
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Truth(truth) => write!(f, "{truth}"),
        }
    }
}

/// The label that chooses between releases of a speaker.
const SPEAKERS: &str = "speakers";

fn endpoint(text: &str, nodes: &BTreeMap<String, Node>) -> Result<Endpoint, Failure> {
    match text.split_once(':') {
        Some((node, interface)) if nodes.contains_key(node) && !interface.is_empty() => {
            Ok(Endpoint {
                node: node.to_owned(),
                interface: interface.to_owned(),
            })
        }
        _ => Err(Failure::new(format!(
            "endpoint {text}: not NODE:INTERFACE of a node in this file"
        ))),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    topology: Body,
    /// containerlab's management network does not exist here.
    #[serde(rename = "mgmt", default)]
    _mgmt: Option<serde_yaml_ng::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(default)]
    defaults: Node,
    #[serde(default)]
    kinds: BTreeMap<String, Node>,
    nodes: BTreeMap<String, Node>,
    #[serde(default)]
    links: Vec<LinkLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkLine {
    endpoints: [String; 2],
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "
name: small
topology:
  kinds: {linux: {image: 'quay.io/frrouting/frr:8.4.4', binds: ['daemons:/etc/frr/daemons']}}
  nodes:
    a: {kind: linux, binds: ['a.conf:/etc/frr/frr.conf:ro']}
    b: {kind: linux, image: 'weft:latest', network-mode: 'container:a', cmd: weft-agent}
    c: {kind: linux, image: 'alpine:3', sysctls: {net.ipv4.ip_forward: 1}}
  links:
    - endpoints: ['a:eth1', 'c:eth1']
";

    #[test]
    fn kinds_fold_into_nodes_and_images_tell_what_runs() {
        let topology = Topology::parse(SMALL).unwrap();
        let a = &topology.nodes["a"];
        assert_eq!(a.image(), Image::Frr);
        assert_eq!(
            a.bound_files().collect::<Vec<_>>(),
            [
                ("daemons", "/etc/frr/daemons"),
                ("a.conf", "/etc/frr/frr.conf")
            ]
        );
        assert_eq!(topology.nodes["b"].image(), Image::Weft);
        assert_eq!(topology.nodes["b"].parent(), Some("a"));
        assert_eq!(topology.nodes["c"].image(), Image::Host);
        assert_eq!(topology.links[0][1].interface, "eth1");
    }

    #[test]
    fn what_we_do_not_know_is_an_error_with_its_place() {
        let unknown = SMALL.replace("cmd: weft-agent", "cdm: weft-agent");
        let error = Topology::parse(&unknown).unwrap_err().to_string();
        assert!(error.contains("cdm") && error.contains("line"), "{error}");
        let stray = SMALL.replace("c:eth1", "d:eth1");
        assert!(
            Topology::parse(&stray)
                .unwrap_err()
                .to_string()
                .contains("d:eth1")
        );
        let kind = SMALL.replace("a: {kind: linux,", "a: {kind: arista_ceos,");
        assert!(
            Topology::parse(&kind)
                .unwrap_err()
                .to_string()
                .contains("arista_ceos")
        );
    }

    #[test]
    fn every_lab_in_the_tree_parses() {
        for lab in crate::scenario::names().unwrap() {
            let topology = Topology::read(&crate::scenario::topology_file(&lab)).unwrap();
            assert_eq!(topology.name, lab);
            assert!(!topology.nodes.is_empty());
        }
    }
}
