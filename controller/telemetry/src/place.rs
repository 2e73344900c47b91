//! gNMI paths as places in the part of OpenConfig's tree that is read here. It tolerates a prefix or none, an origin or
//! none, module names before elements, and paths as strings. It refuses to know values.

use weft_proto::gnmi::{Path, PathElem};

use crate::oddities::Odd;
use crate::sample::{Counter, Counters};
use crate::text::NAME_MAX;

/// One element of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step<'a> {
    /// Without the name of a module.
    pub(crate) name: &'a str,
    /// The key of a list entry. None: all of them.
    pub(crate) key: Option<&'a str>,
}

/// Where a leaf is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// A leaf of an interface.
    Interface(&'a str, InterfaceLeaf),
    /// A leaf of the neighbour with this id at this interface.
    Neighbor(&'a str, &'a str, NeighborLeaf),
    /// A leaf that nobody here needs, below what was subscribed to.
    Beside,
}

/// Where something is deleted: what begins with the names, of the list entries with the keys, or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Region<'a> {
    /// Everything.
    All,
    /// Of interfaces: one or all, and the leaves whose path begins so.
    Interfaces(Option<&'a str>, Vec<&'a str>),
    /// Of neighbours: at one interface or all, one or all, and the leaves whose path begins so.
    Neighbors(Option<&'a str>, Option<&'a str>, Vec<&'a str>),
    /// Nothing that is known here.
    Beside,
}

/// A leaf of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InterfaceLeaf {
    OperStatus,
    LastChange,
    PortSpeed,
    NegotiatedPortSpeed,
    InOctets,
    OutOctets,
    InErrors,
    OutErrors,
    InDiscards,
    OutDiscards,
    InPauseFrames,
    OutPauseFrames,
}

/// A leaf of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeighborLeaf {
    ChassisId,
    SystemName,
    PortId,
    PortDescription,
}

/// Below `/interfaces/interface`.
pub(crate) const INTERFACE_LEAVES: [(InterfaceLeaf, &[&str]); 12] = [
    (InterfaceLeaf::OperStatus, &["state", "oper-status"]),
    (InterfaceLeaf::LastChange, &["state", "last-change"]),
    (
        InterfaceLeaf::PortSpeed,
        &["ethernet", "state", "port-speed"],
    ),
    (
        InterfaceLeaf::NegotiatedPortSpeed,
        &["ethernet", "state", "negotiated-port-speed"],
    ),
    (InterfaceLeaf::InOctets, &["state", "counters", "in-octets"]),
    (
        InterfaceLeaf::OutOctets,
        &["state", "counters", "out-octets"],
    ),
    (InterfaceLeaf::InErrors, &["state", "counters", "in-errors"]),
    (
        InterfaceLeaf::OutErrors,
        &["state", "counters", "out-errors"],
    ),
    (
        InterfaceLeaf::InDiscards,
        &["state", "counters", "in-discards"],
    ),
    (
        InterfaceLeaf::OutDiscards,
        &["state", "counters", "out-discards"],
    ),
    (
        InterfaceLeaf::InPauseFrames,
        &["ethernet", "state", "counters", "in-mac-pause-frames"],
    ),
    (
        InterfaceLeaf::OutPauseFrames,
        &["ethernet", "state", "counters", "out-mac-pause-frames"],
    ),
];

/// Below `/lldp/interfaces/interface/neighbors/neighbor`.
pub(crate) const NEIGHBOR_LEAVES: [(NeighborLeaf, &[&str]); 4] = [
    (NeighborLeaf::ChassisId, &["state", "chassis-id"]),
    (NeighborLeaf::SystemName, &["state", "system-name"]),
    (NeighborLeaf::PortId, &["state", "port-id"]),
    (
        NeighborLeaf::PortDescription,
        &["state", "port-description"],
    ),
];

impl InterfaceLeaf {
    /// The counter that the leaf is; None: it is none.
    pub(crate) fn counter(self, counters: &mut Counters) -> Option<&mut Option<Counter>> {
        Some(match self {
            Self::OperStatus | Self::LastChange | Self::PortSpeed | Self::NegotiatedPortSpeed => {
                return None;
            }
            Self::InOctets => &mut counters.in_octets,
            Self::OutOctets => &mut counters.out_octets,
            Self::InErrors => &mut counters.in_errors,
            Self::OutErrors => &mut counters.out_errors,
            Self::InDiscards => &mut counters.in_discards,
            Self::OutDiscards => &mut counters.out_discards,
            Self::InPauseFrames => &mut counters.in_pause_frames,
            Self::OutPauseFrames => &mut counters.out_pause_frames,
        })
    }
}

/// The steps of a path behind its prefix.
///
/// # Errors
///
/// A path of another origin, or of more than 32 elements.
pub(crate) fn steps<'a>(prefix: Option<&'a Path>, path: &'a Path) -> Result<Vec<Step<'a>>, Odd> {
    let mut steps = Vec::new();
    for path in prefix.into_iter().chain([path]) {
        let origin = path.origin.as_str();
        if !origin.is_empty() && !origin.starts_with("openconfig") {
            return Err(Odd::Origin);
        }
        if path.elem.len().max(path.element.len()) > STEPS_MAX {
            return Err(Odd::LongPath);
        }
        if path.elem.is_empty() {
            steps.extend(path.element.iter().map(|text| written(text)));
        } else {
            steps.extend(path.elem.iter().map(element));
        }
    }
    if steps.len() > STEPS_MAX {
        return Err(Odd::LongPath);
    }
    Ok(steps)
}

fn element(elem: &PathElem) -> Step<'_> {
    let name = local(&elem.name);
    if elem.key.is_empty() && name.contains('[') {
        return written(&elem.name);
    }
    let key = key_name(name).and_then(|key| elem.key.get(key));
    step(name, key.map(String::as_str))
}

/// An element as people write it: `interface[name=eth0]`.
fn written(text: &str) -> Step<'_> {
    let (name, rest) = text.split_once('[').unwrap_or((text, ""));
    let key = rest.strip_suffix(']').and_then(|rest| rest.split_once('='));
    step(local(name), key.map(|(_, value)| value))
}

fn step<'a>(name: &'a str, key: Option<&'a str>) -> Step<'a> {
    let key = key.filter(|key| *key != "*");
    Step { name, key }
}

/// A name without that of its module.
pub(crate) fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

/// The name of the key of a list. None: no list that is read here.
pub(crate) fn key_name(list: &str) -> Option<&'static str> {
    match list {
        "interface" => Some("name"),
        "neighbor" => Some("id"),
        _ => None,
    }
}

/// Which leaf is there.
///
/// # Errors
///
/// A place outside what was subscribed to, or a list entry without a usable key.
pub(crate) fn place<'a>(steps: &[Step<'a>]) -> Result<Place<'a>, Odd> {
    match region(steps)? {
        Region::All => Err(Odd::UnknownPath),
        Region::Beside => Ok(Place::Beside),
        Region::Interfaces(interface, tail) => {
            let mut leaves = INTERFACE_LEAVES.iter();
            let Some((leaf, _)) = leaves.find(|(_, path)| *path == tail.as_slice()) else {
                return Ok(Place::Beside);
            };
            Ok(Place::Interface(usable(interface)?, *leaf))
        }
        Region::Neighbors(interface, id, tail) => {
            let mut leaves = NEIGHBOR_LEAVES.iter();
            let Some((leaf, _)) = leaves.find(|(_, path)| *path == tail.as_slice()) else {
                return Ok(Place::Beside);
            };
            Ok(Place::Neighbor(usable(interface)?, usable(id)?, *leaf))
        }
    }
}

/// What a path that may end above leaves is about.
///
/// # Errors
///
/// A place outside what was subscribed to.
pub(crate) fn region<'a>(steps: &[Step<'a>]) -> Result<Region<'a>, Odd> {
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    let key = |at: usize| steps.get(at).and_then(|step| step.key);
    match names.as_slice() {
        [] => Ok(Region::All),
        ["interfaces"] => Ok(Region::Interfaces(None, Vec::new())),
        ["interfaces", "interface", tail @ ..] => Ok(Region::Interfaces(key(1), tail.to_vec())),
        ["lldp"] | ["lldp", "interfaces"] => Ok(Region::Neighbors(None, None, Vec::new())),
        ["lldp", "interfaces", "interface"] | ["lldp", "interfaces", "interface", "neighbors"] => {
            Ok(Region::Neighbors(key(2), None, Vec::new()))
        }
        [
            "lldp",
            "interfaces",
            "interface",
            "neighbors",
            "neighbor",
            tail @ ..,
        ] => Ok(Region::Neighbors(key(2), key(4), tail.to_vec())),
        ["interfaces" | "lldp", ..] => Ok(Region::Beside),
        _ => Err(Odd::UnknownPath),
    }
}

fn usable(key: Option<&str>) -> Result<&str, Odd> {
    key.filter(|key| !key.is_empty() && key.len() <= NAME_MAX && !key.contains(char::is_control))
        .ok_or(Odd::Key)
}

/// A path as people write it.
pub(crate) fn shown(steps: &[Step<'_>]) -> String {
    let shown = steps.iter().map(|step| match step.key {
        Some(key) => format!("/{}[{key}]", step.name),
        None => format!("/{}", step.name),
    });
    shown.collect()
}

/// Elements of a path: OpenConfig's longest have some twenty.
pub(crate) const STEPS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn path(origin: &str, elems: &[(&str, &[(&str, &str)])]) -> Path {
        let elem = elems.iter().map(|(name, keys)| PathElem {
            name: (*name).into(),
            key: keys
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
        });
        Path {
            origin: origin.into(),
            elem: elem.collect(),
            ..Path::default()
        }
    }

    #[test]
    fn one_place_is_written_in_many_ways() {
        let expected = Place::Interface("eth1", InterfaceLeaf::InOctets);
        let name: &[(&str, &str)] = &[("name", "eth1")];
        let tail: [(&str, &[(&str, &str)]); 3] =
            [("state", &[]), ("counters", &[]), ("in-octets", &[])];
        let whole = [
            &[("interfaces", &[] as &[_]), ("interface", name)],
            &tail[..],
        ]
        .concat();
        let modules = [
            &[
                ("openconfig-interfaces:interfaces", &[] as &[_]),
                ("openconfig-interfaces:interface", name),
            ],
            &tail[..],
        ]
        .concat();
        let head = [("interfaces", &[] as &[_]), ("interface", name)];
        let in_name = [
            &[("interfaces", &[] as &[_]), ("interface[name=eth1]", &[])],
            &tail[..],
        ]
        .concat();
        let strings = Path {
            element: [
                "interfaces",
                "interface[name=eth1]",
                "state",
                "counters",
                "in-octets",
            ]
            .map(String::from)
            .to_vec(),
            ..Path::default()
        };
        let table = [
            ("no prefix, no origin", None, path("", &whole)),
            ("an origin", None, path("openconfig", &whole)),
            (
                "a module as origin",
                None,
                path("openconfig-interfaces", &whole),
            ),
            ("modules", None, path("", &modules)),
            ("a prefix", Some(path("openconfig", &head)), path("", &tail)),
            ("an empty prefix", Some(Path::default()), path("", &whole)),
            ("all in the prefix", Some(path("", &whole)), Path::default()),
            ("a key in the name", None, path("", &in_name)),
            ("strings", None, strings),
        ];
        for (case, prefix, path) in table {
            let steps = steps(prefix.as_ref(), &path).expect(case);
            assert_eq!(place(&steps), Ok(expected), "{case}");
        }
    }

    #[test]
    fn what_is_not_here_has_a_reason() {
        let none: &[(&str, &str)] = &[];
        let oper = [("interfaces", none), ("interface", none), ("state", none)];
        let leaf = [&oper[..], &[("oper-status", none)]].concat();
        let beside = [&oper[..], &[("mtu", none)]].concat();
        let deep = vec![("interfaces", none); STEPS_MAX + 1];
        let table = [
            ("another origin", path("srl_nokia", &leaf), Err(Odd::Origin)),
            ("no key", path("", &leaf), Err(Odd::Key)),
            ("another leaf", path("", &beside), Ok(Place::Beside)),
            (
                "another tree",
                path("", &[("system", none)]),
                Err(Odd::UnknownPath),
            ),
            ("nothing", path("", &[]), Err(Odd::UnknownPath)),
            ("too deep", path("", &deep), Err(Odd::LongPath)),
        ];
        for (case, path, expected) in table {
            let found = steps(None, &path).and_then(|steps| place(&steps));
            assert_eq!(found, expected, "{case}");
        }
    }
}
