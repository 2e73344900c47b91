//! Leaves as gNMI's messages: paths, typed values, and subtrees as JSON by RFC 7951. Knows nothing of when they are sent.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use tonic::Code;
use weft_proto::gnmi::typed_value::Value as Typed;
use weft_proto::gnmi::{Encoding, Notification, Path, PathElem, TypedValue, Update};

use super::pattern::Pattern;
use super::tree::{Place, Tree, Value};
use crate::refusal::{Detail, Refusal};

/// How the answers of one call are written.
#[derive(Clone, Debug, PartialEq)]
pub struct Writer {
    encoding: Form,
    prefix: Option<Path>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Form {
    Json,
    JsonIetf,
    Proto,
}

/// What is served.
pub const ENCODINGS: [Encoding; 3] = [Encoding::Json, Encoding::JsonIetf, Encoding::Proto];

impl Writer {
    /// For an encoding as a request has it, and the prefix of that, whose target the answers repeat.
    ///
    /// # Errors
    ///
    /// UNIMPLEMENTED for another encoding, as gNMI §3.3.1 wants it.
    pub fn new(encoding: i32, prefix: Option<&Path>) -> Result<Self, Refusal> {
        let form = match Encoding::try_from(encoding) {
            Ok(Encoding::Json) => Form::Json,
            Ok(Encoding::JsonIetf) => Form::JsonIetf,
            Ok(Encoding::Proto) => Form::Proto,
            Ok(Encoding::Bytes | Encoding::Ascii) | Err(_) => {
                let name = Encoding::try_from(encoding).map(|known| known.as_str_name());
                let name = name.map_or_else(|_| encoding.to_string(), str::to_owned);
                return Err(Refusal {
                    code: Code::Unimplemented,
                    text: format!(
                        "encoding {name} is not supported; JSON, JSON_IETF and PROTO are"
                    ),
                    detail: Detail::None,
                });
            }
        };
        let target = prefix.map(|prefix| prefix.target.clone());
        let target = target.filter(|target| !target.is_empty());
        Ok(Self {
            encoding: form,
            prefix: target.map(|target| Path {
                target,
                ..Path::default()
            }),
        })
    }

    /// Leaves, and places of leaves that are there no more, in as many notifications as it takes.
    #[must_use]
    pub fn leaves(
        &self,
        unix_ns: i64,
        leaves: &[(&Place, &Value)],
        deleted: &[&Place],
    ) -> Vec<Notification> {
        let mut notifications = Vec::new();
        for part in deleted.chunks(UPDATES_MAX) {
            notifications.push(Notification {
                delete: part.iter().map(|place| path(place, usize::MAX)).collect(),
                ..self.notification(unix_ns)
            });
        }
        for part in leaves.chunks(UPDATES_MAX) {
            notifications.push(Notification {
                update: part.iter().map(|leaf| self.update(leaf)).collect(),
                ..self.notification(unix_ns)
            });
        }
        notifications
    }

    /// Answers one path of a `Get`: the nodes that it names, each with what is below it.
    ///
    /// # Errors
    ///
    /// NOT_FOUND if it names a list entry that is not there, or something that it does not have; RESOURCE_EXHAUSTED if
    /// it is more than one message should carry.
    pub fn node(&self, tree: &Tree, pattern: &Pattern) -> Result<Notification, Refusal> {
        let leaves: Vec<_> = pattern.select(tree).take(LEAVES_MAX + 1).collect();
        let refuse = |code, text| {
            let detail = Detail::None;
            Err(Refusal { code, text, detail })
        };
        if leaves.is_empty() && pattern.is_exact() {
            return refuse(Code::NotFound, format!("{} is not there", pattern.text()));
        }
        if leaves.len() > LEAVES_MAX {
            let text = format!(
                "{} has more than {LEAVES_MAX} leaves: Subscribe with ONCE sends them in parts",
                pattern.text()
            );
            return refuse(Code::ResourceExhausted, text);
        }
        let ietf = match self.encoding {
            Form::Json => false,
            Form::JsonIetf => true,
            Form::Proto => {
                return Ok(Notification {
                    update: leaves.iter().map(|leaf| self.update(leaf)).collect(),
                    ..self.notification(tree.unix_ns)
                });
            }
        };
        let mut nodes: Vec<(Path, Node)> = Vec::new();
        let mut numbers: BTreeMap<Vec<(&str, &str)>, usize> = BTreeMap::new();
        for (place, value) in leaves {
            let number = *numbers
                .entry(identity(place, pattern.depth()))
                .or_insert_with(|| {
                    nodes.push((path(place, pattern.depth()), Node::default()));
                    nodes.len() - 1
                });
            if let Some((_, node)) = nodes.get_mut(number) {
                node.insert(place, pattern.depth(), value.json(ietf));
            }
        }
        let update = nodes.into_iter().map(|(path, node)| {
            let json = node.json("", ietf).to_string().into_bytes().into();
            let typed = if ietf {
                Typed::JsonIetfVal(json)
            } else {
                Typed::JsonVal(json)
            };
            update(path, typed)
        });
        Ok(Notification {
            update: update.collect(),
            ..self.notification(tree.unix_ns)
        })
    }

    /// A notification of nothing.
    #[must_use]
    pub fn notification(&self, unix_ns: i64) -> Notification {
        Notification {
            timestamp: unix_ns,
            prefix: self.prefix.clone(),
            ..Notification::default()
        }
    }

    fn update(&self, (place, value): &(&Place, &Value)) -> Update {
        let octets = |ietf| value.json(ietf).to_string().into_bytes().into();
        let typed = match self.encoding {
            Form::Json => Typed::JsonVal(octets(false)),
            Form::JsonIetf => Typed::JsonIetfVal(octets(true)),
            Form::Proto => match value {
                Value::Text(text) => Typed::StringVal(text.to_string()),
                Value::Number(number) => Typed::UintVal((*number).into()),
                Value::Long(number) => Typed::UintVal(*number),
                Value::Identity(_, name) => Typed::StringVal((*name).to_owned()),
            },
        };
        update(path(place, usize::MAX), typed)
    }
}

impl Value {
    fn json(&self, ietf: bool) -> Json {
        match self {
            Self::Text(text) => Json::from(&**text),
            Self::Number(number) => Json::from(*number),
            Self::Long(number) if ietf => Json::from(number.to_string()),
            Self::Long(number) => Json::from(*number),
            Self::Identity(module, name) if ietf => Json::from(format!("{module}:{name}")),
            Self::Identity(_, name) => Json::from(*name),
        }
    }
}

/// A subtree while it grows.
#[derive(Debug, Default)]
struct Node {
    value: Option<Json>,
    /// By name and module: one node of a container, or the entries of a list by their keys.
    below: BTreeMap<(&'static str, &'static str), Below>,
}

#[derive(Debug)]
enum Below {
    One(Node),
    Entries(BTreeMap<String, Node>),
}

impl Node {
    /// Puts a leaf where it belongs, below the first `depth` steps.
    fn insert(&mut self, place: &Place, depth: usize, value: Json) {
        let steps = &place.leaf.template().steps;
        let mut keys = place.keys.iter();
        let above = steps.iter().take(depth).filter(|step| step.key.is_some());
        let mut node = self;
        keys.by_ref().take(above.count()).for_each(drop);
        for step in steps.iter().skip(depth) {
            let below = node.below.entry((step.name, step.module));
            let below = below.or_insert_with(|| match step.key {
                Some(_) => Below::Entries(BTreeMap::new()),
                None => Below::One(Self::default()),
            });
            node = match below {
                Below::One(node) => node,
                Below::Entries(entries) => {
                    let key = keys.next().map(|key| key.to_string());
                    entries.entry(key.unwrap_or_default()).or_default()
                }
            };
        }
        node.value = Some(value);
    }

    /// As JSON. By RFC 7951 §4 a name has its module where that is not the module of the node above it.
    fn json(self, above: &str, ietf: bool) -> Json {
        if let Some(value) = self.value {
            return value;
        }
        let members = self.below.into_iter().map(|((name, module), below)| {
            let name = if ietf && module != above {
                format!("{module}:{name}")
            } else {
                name.to_owned()
            };
            let json = match below {
                Below::One(node) => node.json(module, ietf),
                Below::Entries(entries) => {
                    let entries = entries.into_values();
                    entries.map(|entry| entry.json(module, ietf)).collect()
                }
            };
            (name, json)
        });
        Json::Object(members.collect())
    }
}

fn update(path: Path, value: Typed) -> Update {
    Update {
        path: Some(path),
        val: Some(TypedValue { value: Some(value) }),
        duplicates: 0,
    }
}

/// The first `depth` elements of the path of a leaf.
fn path(place: &Place, depth: usize) -> Path {
    let mut keys = place.keys.iter();
    let steps = place.leaf.template().steps.iter().take(depth);
    let elem = steps.map(|step| {
        let key = step
            .key
            .and_then(|key| Some((key.to_owned(), keys.next()?.to_string())));
        PathElem {
            name: step.name.to_owned(),
            key: key.into_iter().collect(),
        }
    });
    Path {
        elem: elem.collect(),
        ..Path::default()
    }
}

/// The names and keys of the first elements of the path of a leaf, for comparing two places.
fn identity(place: &Place, depth: usize) -> Vec<(&'static str, &str)> {
    let mut keys = place.keys.iter();
    let steps = place.leaf.template().steps.iter().take(depth);
    let step = |step: &'static super::schema::Step| {
        let key = step.key.and_then(|_| keys.next());
        (step.name, key.map_or("", |key| key))
    };
    steps.map(step).collect()
}

/// Leaves in one notification of a stream: some 40 KiB.
const UPDATES_MAX: usize = 256;

/// Leaves that one path of a `Get` is answered with: as JSON far below the 4 MiB that a client takes.
const LEAVES_MAX: usize = 16_384;
