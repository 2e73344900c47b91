//! The table of marks as nft lists it, and in what it differs from what was written. A task of its own asks, so that an `nft`
//! that is slow renews marks no later.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::pinned::{Map, chain, map, name};
use super::{ANSWER_MAX, Counted};
use crate::forwarding::{Pin, Pins};

/// Packets of a pin since the maps have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub packets: u64,
    /// Octets of their frames, as they are before they are encapsulated.
    pub octets: u64,
}

/// The table as it is.
#[derive(Debug)]
pub(super) struct Listed {
    /// Sets, maps and chains, each by what it is and its name.
    objects: BTreeSet<String>,
    /// Words and numbers of each rule, by chain.
    rules: BTreeMap<String, Vec<BTreeSet<String>>>,
    /// Each rule of a chain in full, without its counter, by chain.
    texts: BTreeMap<String, Vec<String>>,
    pins: BTreeMap<Pin, Element>,
    /// Elements of the maps of pins that are none.
    others: Vec<String>,
}

/// An element of a map of pins.
#[derive(Debug)]
struct Element {
    /// The chain that packets go to.
    target: Option<String>,
    /// Packets and octets; None where the kernel does not count.
    counted: Option<(u64, u64)>,
}

/// The table as it was written.
#[derive(Debug)]
pub(super) struct Written<'a> {
    /// Sets, maps and chains, each by what it is and its name.
    pub(super) objects: BTreeSet<String>,
    /// Words and numbers that each rule has, by chain; those of the weights are the first of the base chain.
    pub(super) rules: BTreeMap<String, Vec<Vec<String>>>,
    /// Rules in full, as [`Listed::texts`] had them before. How a rule is shown depends on nft and on the kernel, so that it cannot
    /// be known from what was written; what was not listed yet is compared by its words alone.
    pub(super) known: &'a BTreeMap<String, Vec<String>>,
    pub(super) pins: &'a Pins,
}

/// In what the table differs from what was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Changed {
    /// What is not as it was written, and what is there beside that.
    pub(super) what: String,
    /// Whether packets of the weights are not marked.
    pub(super) weights: bool,
}

impl Listed {
    /// Packets of these pins since the maps have them. One that another hand took away has none, and is not forgotten.
    pub(super) fn counted(&self, pins: &Pins) -> Counted {
        let counts = pins.keys().filter_map(|pin| {
            let counted = self.pins.get(pin).map_or(Some((0, 0)), |it| it.counted);
            let (packets, octets) = counted?;
            let count = Count { packets, octets };
            Some((pin.clone(), count))
        });
        counts.collect()
    }

    /// The rules in full by chain, but for what they counted.
    pub(super) fn texts(&self) -> &BTreeMap<String, Vec<String>> {
        &self.texts
    }

    /// Whether a rule is shown otherwise than it was.
    fn is_another(&self, written: &Written, chain: &str, index: usize) -> bool {
        let text = |of: &BTreeMap<String, Vec<String>>| of.get(chain)?.get(index).cloned();
        text(written.known).is_some_and(|known| text(&self.texts) != Some(known))
    }

    /// In what the table differs from what was written; None: in nothing.
    pub(super) fn changed(&self, written: &Written) -> Option<Changed> {
        let gone = written.objects.difference(&self.objects);
        let mut lost: Vec<String> = gone.cloned().collect();
        let new = self.objects.difference(&written.objects);
        let mut foreign: Vec<String> = new.cloned().collect();
        for (chain, rules) in &written.rules {
            let listed = self.rules.get(chain).map_or(&[][..], Vec::as_slice);
            let rule = |index: usize| format!("rule {} of chain {chain}", index + 1);
            let is_lost = |index: &usize| {
                !has(listed.get(*index), &rules[*index]) || self.is_another(written, chain, *index)
            };
            lost.extend((0..rules.len()).filter(is_lost).map(rule));
            foreign.extend((rules.len()..listed.len()).map(rule));
        }
        for (pin, slot) in written.pins {
            let target = self.pins.get(pin).and_then(|it| it.target.as_deref());
            if target != Some(chain(*slot).as_str()) {
                lost.push(name(pin));
            }
        }
        let new = self.pins.keys();
        let new = new.filter(|pin| !written.pins.contains_key(*pin));
        foreign.extend(new.map(name).chain(self.others.iter().cloned()));
        let removed = some("removed or changed", &lost);
        let added = some("added", &foreign);
        let what: Vec<String> = removed.into_iter().chain(added).collect();
        (!what.is_empty()).then(|| Changed {
            what: format!("another hand {}", what.join(" and ")),
            weights: lost.iter().any(|it| it == "rule 1 of chain postrouting"),
        })
    }
}

/// Whether a rule that is listed has these words.
fn has(rule: Option<&BTreeSet<String>>, words: &[String]) -> bool {
    rule.is_some_and(|rule| words.iter().all(|word| rule.contains(word)))
}

/// The first ones by name, after a verb; None: there are none.
fn some(verb: &str, names: &[String]) -> Option<String> {
    let named = names.get(..NAMED_MAX).unwrap_or(names).join(", ");
    match names.len() {
        0 => None,
        1..=NAMED_MAX => Some(format!("{verb} {named}")),
        more => Some(format!("{verb} {named} (and {} more)", more - NAMED_MAX)),
    }
}

/// Asks nft for the table when that is due.
#[derive(Debug, Default)]
pub(super) struct Reading {
    due: bool,
    task: Option<JoinHandle<Option<Listed>>>,
}

impl Reading {
    /// Asks when [`begin`](Self::begin) is called next.
    pub(super) fn is_due(&mut self) {
        self.due = true;
    }

    /// Asks if that is due.
    pub(super) fn begin(&mut self) {
        if self.due && self.task.is_none() {
            self.task = Some(tokio::spawn(read()));
        }
    }

    /// Forgets what was asked, for the table is about to be another one. It is asked again.
    pub(super) fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// Returns the answer; None: there is no table, or no answer in time. Who renews the marks says why. May be dropped and
    /// called again.
    pub(super) async fn listed(&mut self) -> Option<Listed> {
        let Some(task) = &mut self.task else {
            return std::future::pending().await;
        };
        let listed = task.await.ok().flatten();
        *self = Self::default();
        listed
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn read() -> Option<Listed> {
    let listed = Command::new("nft")
        .args(["-j", "-n", "list", "table", "bridge", "weft"])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(ANSWER_MAX, listed).await.ok()?.ok()?;
    output.status.success().then(|| parse(&output.stdout))?
}

/// Reads a table as `nft -j` lists it.
fn parse(text: &[u8]) -> Option<Listed> {
    let text: Value = serde_json::from_slice(text).ok()?;
    let mut listed = Listed {
        objects: BTreeSet::new(),
        rules: BTreeMap::new(),
        texts: BTreeMap::new(),
        pins: BTreeMap::new(),
        others: Vec::new(),
    };
    for object in text["nftables"].as_array()? {
        let Some((kind, object)) = object.as_object().and_then(|it| it.iter().next()) else {
            continue;
        };
        match kind.as_str() {
            "metainfo" | "table" => {}
            "rule" => {
                let mut rule = BTreeSet::new();
                words(&object["expr"], &mut rule);
                let chain = object["chain"].as_str()?.to_owned();
                let texts = listed.texts.entry(chain.clone()).or_default();
                texts.push(uncounted(&object["expr"]));
                listed.rules.entry(chain).or_default().push(rule);
            }
            _ => {
                let name = object["name"].as_str()?;
                let hook = base(object).unwrap_or_default();
                listed.objects.insert(format!("{kind} {name}{hook}"));
                if let Some(map) = map(name) {
                    elements(map, object, &mut listed);
                }
            }
        }
    }
    Some(listed)
}

/// What makes a chain a base chain.
fn base(chain: &Value) -> Option<String> {
    let word = |key: &str| chain[key].as_str();
    let (kind, hook, policy) = (word("type")?, word("hook")?, word("policy")?);
    Some(hooked(kind, hook, chain["prio"].as_i64()?, policy))
}

/// What follows the name of a base chain.
pub(super) fn hooked(kind: &str, hook: &str, priority: i64, policy: &str) -> String {
    format!(" ({kind} hook {hook} priority {priority} policy {policy})")
}

/// A rule in full, but for what it counted.
fn uncounted(rule: &Value) -> String {
    let statements = rule.as_array().into_iter().flatten();
    let texts = statements.map(|statement| match statement.get("counter") {
        Some(_) => "counter".to_owned(),
        None => statement.to_string(),
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Words and numbers, wherever they are.
fn words(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| words(value, into)),
        Value::Object(values) => values.values().for_each(|value| words(value, into)),
        Value::String(word) => drop(into.insert(word.clone())),
        Value::Number(number) => drop(into.insert(number.to_string())),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Reads the elements of a map of pins.
fn elements(map: Map, object: &Value, listed: &mut Listed) {
    for element in object["elem"].as_array().into_iter().flatten() {
        // Only one that has a counter is an object itself.
        let counted = &element[0]["elem"];
        let key = match &counted["val"] {
            Value::Null => &element[0],
            key => key,
        };
        match key["concat"].as_array().and_then(|key| map.pin(key)) {
            Some(pin) => {
                let target = element[1]["goto"]["target"].as_str().map(str::to_owned);
                let counter = |what: &str| counted["counter"][what].as_u64();
                let counted = counter("packets").zip(counter("bytes"));
                listed.pins.insert(pin, Element { target, counted });
            }
            None => listed.others.push(format!("{key} in map {}", map.name)),
        }
    }
}

/// As much as a person reads in a line of a log.
const NAMED_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::forwarding::Slot;
    use crate::forwarding::kernel::Numbers;
    use crate::instance::Source;
    use crate::marks::pinned::Pinned;

    fn pin(port: Option<(u8, u16)>) -> Pin {
        Pin {
            device: "vxlan100".to_owned(),
            source: Source::Any,
            destination: Some([192, 0, 2, 3].into()),
            port,
        }
    }

    fn pinned() -> Pinned {
        let pins = Pins::from([(pin(None), Slot(1)), (pin(Some((17, 49_152))), Slot(2))]);
        Pinned::with(pins)
    }

    /// The table of these pins, as nft lists it.
    fn table() -> Value {
        let rule = |chain: &str, expr: Value| json!({"rule": {"chain": chain, "expr": expr}});
        let looks_up_in = |chain: &str, map: &str| {
            let vxlan = json!({"match": {"op": "==", "left": {"meta": {"key": "oifname"}}, "right": "@vxlan"}});
            rule(
                chain,
                json!([vxlan, {"vmap": {"key": {"concat": []}, "data": map}}]),
            )
        };
        let looks_up = |map: &str| looks_up_in("postrouting", map);
        let by_port = |map: &str| looks_up_in("forward", map);
        let empty = |name: &str| json!({"map": {"name": name}});
        let base = |name: &str| json!({"chain": {"name": name, "type": "filter", "hook": name, "prio": 100, "policy": "accept"}});
        let sets = |mark: u32| json!({"mangle": {"value": {"|": [{"&": [{"meta": {"key": "mark"}}, 65_535]}, mark]}}});
        let weights = json!([{"match": {"right": "@vxlan"}}, sets(0x5700_0000)]);
        let element = |key: Value, packets: u64, chain: &str| {
            let counter = json!({"packets": packets, "bytes": 100 * packets});
            json!([{"elem": {"val": {"concat": key}, "counter": counter}}, {"goto": {"target": chain}}])
        };
        let pins4 = element(json!(["vxlan100", "192.0.2.3"]), 7, "pin1");
        let ports4 = element(json!(["vxlan100", "192.0.2.3", 17, 49_152]), 0, "pin2");
        json!({"nftables": [
            {"metainfo": {"version": "1.0.6"}},
            {"table": {"family": "bridge", "name": "weft"}},
            {"set": {"name": "vxlan", "elem": [{"elem": {"val": "vxlan100", "timeout": 1}}]}},
            {"map": {"name": "ports4", "elem": [ports4]}},
            {"map": {"name": "ports6"}},
            {"map": {"name": "pins4", "elem": [pins4]}},
            {"map": {"name": "pins6"}},
            base("postrouting"),
            {"chain": {"name": "pin1"}},
            {"chain": {"name": "pin2"}},
            base("forward"),
            empty("source_ports4"),
            empty("source_ports6"),
            empty("sources4"),
            empty("sources6"),
            empty("interface_ports4"),
            empty("interface_ports6"),
            empty("interface_pins4"),
            empty("interface_pins6"),
            empty("interfaces"),
            rule("postrouting", weights),
            looks_up("@source_ports4"),
            looks_up("@source_ports6"),
            looks_up("@ports4"),
            looks_up("@ports6"),
            looks_up("@sources4"),
            looks_up("@sources6"),
            looks_up("@pins4"),
            looks_up("@pins6"),
            by_port("@interface_ports4"),
            by_port("@interface_ports6"),
            by_port("@interface_pins4"),
            by_port("@interface_pins6"),
            by_port("@interfaces"),
            rule("pin1", json!([sets(0x5701_0000)])),
            rule("pin2", json!([sets(0x5702_0000)])),
        ]})
    }

    fn read(table: &Value) -> Listed {
        parse(table.to_string().as_bytes()).expect("a table")
    }

    /// Packets and octets of these pins.
    fn counted(pinned: &Pinned, table: &Value) -> Vec<(Pin, u64, u64)> {
        let listed = read(table);
        let counted = pinned.counted(&listed).into_iter();
        let counted = counted.map(|(pin, count)| (pin, count.packets, count.octets));
        counted.collect()
    }

    fn changed(table: &Value) -> Option<(String, bool)> {
        let pinned = pinned();
        let changed = read(table).changed(&pinned.expected(Numbers::default()));
        changed.map(|changed| (changed.what, changed.weights))
    }

    #[test]
    fn packets_and_octets_of_each_pin_are_read() {
        let expected = [(pin(None), 7, 700), (pin(Some((17, 49_152))), 0, 0)];
        assert_eq!(counted(&pinned(), &table()), expected);
        assert!(parse(b"Error").is_none());
    }

    #[test]
    fn a_pin_that_another_hand_took_away_is_counted_on() {
        let mut table = table();
        table["nftables"][5]["map"]["elem"] = json!([]);
        let expected = [(pin(None), 0, 0), (pin(Some((17, 49_152))), 0, 0)];
        assert_eq!(counted(&pinned(), &table), expected);
        // A kernel without counters in maps says nothing of it.
        table["nftables"][5]["map"]["elem"] =
            json!([[{"concat": ["vxlan100", "192.0.2.3"]}, {"goto": {"target": "pin1"}}]]);
        assert_eq!(changed(&table), None);
        let expected = [(pin(Some((17, 49_152))), 0, 0)];
        assert_eq!(counted(&pinned(), &table), expected);
    }

    #[test]
    fn a_rule_that_says_more_than_was_written_is_another_once_it_was_listed() {
        let with = |index: usize, statement: Value| {
            let mut table = table();
            let rule = &mut table["nftables"][index]["rule"]["expr"];
            rule.as_array_mut().expect("a rule").insert(0, statement);
            table
        };
        let counted = |packets: u64| with(20, json!({"counter": {"packets": packets, "bytes": 0}}));
        let mut pinned = pinned();
        // As nft shows it for the first time: the words of the rule are all there.
        let narrow = json!({"match": {"op": "==", "left": {"payload": {"field": "daddr"}}, "right": "192.0.2.9"}});
        assert_eq!(changed(&with(34, narrow.clone())), None);
        pinned.learn(&read(&counted(0)));
        let changed = |table: &Value| {
            let changed = read(table).changed(&pinned.expected(Numbers::default()));
            changed.map(|changed| (changed.what, changed.weights))
        };
        assert_eq!(changed(&counted(7)), None);
        let lost = |rule: &str, weights| {
            let what = format!("another hand removed or changed {rule}");
            Some((what, weights))
        };
        // The counter of the weights is gone.
        assert_eq!(changed(&table()), lost("rule 1 of chain postrouting", true));
        let mut narrowed = with(34, narrow);
        narrowed["nftables"][20] = counted(7)["nftables"][20].clone();
        assert_eq!(changed(&narrowed), lost("rule 1 of chain pin1", false));
        narrowed["nftables"][34]["rule"]["expr"][0] = json!({"accept": null});
        assert_eq!(changed(&narrowed), lost("rule 1 of chain pin1", false));
    }

    #[test]
    fn what_another_hand_changed_is_named() {
        assert_eq!(changed(&table()), None);
        let says = |change: &dyn Fn(&mut Vec<Value>)| {
            let mut table = table();
            change(table["nftables"].as_array_mut().expect("objects"));
            changed(&table).expect("a change")
        };
        let lost =
            |what: &str, weights| (format!("another hand removed or changed {what}"), weights);
        assert_eq!(
            says(&|objects| objects[5]["map"]["elem"] = json!([])),
            lost("\"vxlan100\" . 192.0.2.3 in map pins4", false)
        );
        assert_eq!(
            says(&|objects| objects[5]["map"]["elem"][0][1] = json!({"drop": null})),
            lost("\"vxlan100\" . 192.0.2.3 in map pins4", false)
        );
        assert_eq!(
            says(&|objects| drop(objects.remove(34))),
            lost("rule 1 of chain pin1", false)
        );
        // What was ahead of it is where it was.
        assert_eq!(
            says(&|objects| drop(objects.remove(27))),
            lost(
                "rule 8 of chain postrouting, rule 9 of chain postrouting",
                false
            )
        );
        assert_eq!(
            says(&|objects| objects.truncate(20)),
            lost(
                "rule 1 of chain forward, rule 2 of chain forward, rule 3 of chain forward (and 13 more)",
                true
            )
        );
        let added = |what: &str| (format!("another hand added {what}"), false);
        assert_eq!(
            says(&|objects| objects.push(json!({"map": {"name": "other"}}))),
            added("map other")
        );
        assert_eq!(
            says(&|objects| objects.push(json!({"rule": {"chain": "pin1", "expr": []}}))),
            added("rule 2 of chain pin1")
        );
        assert_eq!(
            says(&|objects| objects[6]["map"]["elem"] = json!([[{"concat": [1]}, {"drop": null}]])),
            added("{\"concat\":[1]} in map pins6")
        );
    }
}
