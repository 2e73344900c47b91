//! What a gNMI path asks for: which leaves, of which list entries. Knows the schema; no value but by selecting it from a
//! tree.

use std::sync::Arc;

use tonic::Code;
use weft_proto::gnmi::{Path, PathElem};

use super::schema::{Kind, Leaf, Template, templates};
use super::tree::{Place, Tree, Value};
use crate::refusal::{Detail, Refusal};

/// A path that is of the schema. A key that is not given, or is `*`, is any; so is a node called `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    leaves: Vec<(Leaf, Vec<Option<Arc<str>>>)>,
    depth: usize,
    is_exact: bool,
    text: String,
}

impl Pattern {
    /// Reads a path behind its prefix.
    ///
    /// # Errors
    ///
    /// INVALID_ARGUMENT for what no model has, with the element that is wrong, and for another origin than OpenConfig's;
    /// UNIMPLEMENTED for `...`, which gNMI leaves to targets.
    pub fn read(prefix: Option<&Path>, path: Option<&Path>) -> Result<Self, Refusal> {
        for path in [prefix, path].into_iter().flatten() {
            check(path)?;
        }
        if let Some(target) = path.map(|path| &path.target).filter(|it| !it.is_empty()) {
            return Err(invalid(format!(
                "target {:?} is in a path: it belongs into the prefix",
                short(target)
            )));
        }
        let elements = |path: Option<&'_ Path>| -> Vec<PathElem> {
            path.map(|path| path.elem.clone()).unwrap_or_default()
        };
        let mut elems = elements(prefix);
        elems.extend(elements(path));
        if elems.len() > ELEMENTS_MAX {
            return Err(invalid(format!(
                "a path of {} elements, at most {ELEMENTS_MAX}",
                elems.len()
            )));
        }
        Self::of(&elems)
    }

    fn of(elems: &[PathElem]) -> Result<Self, Refusal> {
        let mut candidates: Vec<&'static Template> = templates().collect();
        for (at, elem) in elems.iter().enumerate() {
            candidates = narrow(&candidates, at, elems, elem)?;
        }
        let leaves = candidates.iter().map(|template| {
            let keys = template.steps.iter().enumerate();
            let keys = keys.filter_map(|(at, step)| Some((elems.get(at), step.key?)));
            let keys = keys.map(|(elem, key)| wanted(elem, key)).collect();
            (template.leaf, keys)
        });
        let leaves: Vec<(Leaf, Vec<Option<Arc<str>>>)> = leaves.collect();
        let exact = |(at, elem): (usize, &PathElem)| {
            let is_list = candidates
                .iter()
                .any(|template| template.steps.get(at).is_some_and(|it| it.key.is_some()));
            elem.name != ANY && (!is_list || elem.key.values().any(|value| value != ANY))
        };
        Ok(Self {
            leaves,
            depth: elems.len(),
            is_exact: elems.iter().any(|elem| !elem.key.is_empty())
                && elems.iter().enumerate().all(exact),
            text: text(elems),
        })
    }

    /// Its leaves of one kind, if it has any.
    #[must_use]
    pub fn only(&self, kind: Kind) -> Option<Self> {
        let mut only = self.clone();
        only.leaves.retain(|(leaf, _)| leaf.template().kind == kind);
        (!only.leaves.is_empty()).then_some(only)
    }

    /// How many elements it has: where the nodes are that it names.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Whether it names one list entry, or something in one.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// As people write it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The leaves that it asks for, of a tree.
    pub fn select<'a>(&'a self, tree: &'a Tree) -> impl Iterator<Item = (&'a Place, &'a Value)> {
        self.leaves.iter().flat_map(move |(leaf, wanted)| {
            let exact: Option<Vec<Arc<str>>> = wanted.iter().cloned().collect();
            let one = exact.and_then(|keys| tree.one(&Place { leaf: *leaf, keys }));
            let is_exact = wanted.iter().all(Option::is_some);
            let many = (!is_exact).then(|| tree.of(*leaf)).into_iter().flatten();
            let many = many.filter(|(place, _)| fits(wanted, &place.keys));
            one.into_iter().chain(many)
        })
    }
}

fn fits(wanted: &[Option<Arc<str>>], keys: &[Arc<str>]) -> bool {
    let mut pairs = wanted.iter().zip(keys);
    pairs.all(|(wanted, key)| wanted.as_ref().is_none_or(|wanted| wanted == key))
}

fn wanted(elem: Option<&PathElem>, key: &str) -> Option<Arc<str>> {
    let value = elem?.key.get(key)?;
    (value != ANY).then(|| value.as_str().into())
}

/// The leaves among the candidates whose path has the element of a pattern at this place.
fn narrow(
    candidates: &[&'static Template],
    at: usize,
    elems: &[PathElem],
    elem: &PathElem,
) -> Result<Vec<&'static Template>, Refusal> {
    if elem.name == "..." {
        let text = format!("{}: \"...\" is not supported; \"*\" is", text(&elems[..at]));
        return Err(Refusal {
            code: Code::Unimplemented,
            text,
            detail: Detail::None,
        });
    }
    let named = |template: &&Template| {
        let step = template.steps.get(at);
        step.is_some_and(|step| elem.name == ANY || step.name == elem.name)
    };
    let named: Vec<_> = candidates.iter().copied().filter(named).collect();
    if named.is_empty() {
        return Err(invalid(format!(
            "{}: no model that is served has {:?} here",
            text(&elems[..at]),
            short(&elem.name)
        )));
    }
    let has_keys = |template: &&Template| {
        let key = template.steps.get(at).and_then(|step| step.key);
        elem.key.keys().all(|given| Some(given.as_str()) == key)
    };
    let keyed: Vec<_> = named.into_iter().filter(has_keys).collect();
    if keyed.is_empty() {
        return Err(invalid(format!(
            "{}: {:?} has no such key: {}",
            text(&elems[..at]),
            short(&elem.name),
            keys(elem)
        )));
    }
    Ok(keyed)
}

fn check(path: &Path) -> Result<(), Refusal> {
    if !path.element.is_empty() {
        return Err(invalid(
            "a path in \"element\", which gNMI gave up: put it into \"elem\"".into(),
        ));
    }
    if !matches!(path.origin.as_str(), "" | "openconfig") {
        return Err(invalid(format!(
            "origin {:?} is not served: leave it empty, or say openconfig",
            short(&path.origin)
        )));
    }
    Ok(())
}

fn invalid(text: String) -> Refusal {
    Refusal {
        code: Code::InvalidArgument,
        text,
        detail: Detail::None,
    }
}

/// A path as people write it, cut where it is long.
fn text(elems: &[PathElem]) -> String {
    if elems.is_empty() {
        return "/".into();
    }
    let mut text = String::new();
    for elem in elems {
        text.push('/');
        text.push_str(short(&elem.name));
        if !elem.key.is_empty() {
            text.push_str(&keys(elem));
        }
        if text.len() > TEXT_MAX {
            return format!("{}...", short(&text));
        }
    }
    text
}

fn keys(elem: &PathElem) -> String {
    let mut keys: Vec<_> = elem.key.iter().take(KEYS_SHOWN).collect();
    keys.sort();
    let keys = keys
        .iter()
        .map(|(key, value)| format!("[{}={}]", short(key), short(value)));
    keys.collect()
}

/// What a text begins with.
fn short(text: &str) -> &str {
    match text.char_indices().nth(SHORT_MAX) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}

const ANY: &str = "*";

/// Twice the longest path that there is.
const ELEMENTS_MAX: usize = 18;

/// Characters of a name or a value in an error.
const SHORT_MAX: usize = 64;

/// Octets of a path in an error.
const TEXT_MAX: usize = 256;

/// Keys of an element in an error.
const KEYS_SHOWN: usize = 2;
