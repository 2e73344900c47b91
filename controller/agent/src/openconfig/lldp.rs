//! What `lldpcli -f json0 show neighbors` prints, as neighbours. What a neighbour says of itself is taken as text of bounded
//! length, and as nothing else. Starts no process.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::tree::Neighbor;

/// Reads the neighbours at these interfaces. What is odd in one of them is left out; the others stay.
///
/// # Errors
///
/// When the text is not what lldpcli prints.
pub fn neighbors(text: &[u8], interfaces: &BTreeSet<&str>) -> Result<Vec<Neighbor>, String> {
    let shown: Shown = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let mut neighbors = Vec::new();
    let mut seen = BTreeSet::new();
    let listed = shown.lldp.into_iter().flat_map(|list| list.interface);
    for neighbor in listed.filter_map(|entry| read(entry, interfaces)) {
        if neighbors.len() < NEIGHBORS_MAX
            && seen.insert((neighbor.interface.clone(), neighbor.id.clone()))
        {
            neighbors.push(neighbor);
        }
    }
    Ok(neighbors)
}

fn read(entry: Entry, interfaces: &BTreeSet<&str>) -> Option<Neighbor> {
    interfaces.get(entry.name.as_str())?;
    let chassis = entry.chassis.into_iter().next().unwrap_or_default();
    let port = entry.port.into_iter().next().unwrap_or_default();
    Some(Neighbor {
        interface: entry.name,
        // lldpd's number of the neighbour: what that says has no part in it.
        id: plain(entry.rid)?,
        system_name: first(chassis.name),
        chassis_id: first(chassis.id),
        port_id: first(port.id),
        port_description: first(port.descr),
    })
}

fn first(texts: Vec<Text>) -> Option<String> {
    plain(texts.into_iter().next()?.value)
}

/// A text that can be printed and is no longer than one may be: an LLDP string has 255 octets at most.
fn plain(text: String) -> Option<String> {
    let is_plain = !text.is_empty() && text.len() <= OCTETS_MAX && !text.contains(char::is_control);
    is_plain.then_some(text)
}

/// With `json0`, everything is a list, also what there is one of.
#[derive(Debug, Deserialize)]
struct Shown {
    #[serde(default)]
    lldp: Vec<List>,
}

#[derive(Debug, Deserialize)]
struct List {
    #[serde(default)]
    interface: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    name: String,
    rid: String,
    #[serde(default)]
    chassis: Vec<Chassis>,
    #[serde(default)]
    port: Vec<Port>,
}

#[derive(Debug, Default, Deserialize)]
struct Chassis {
    #[serde(default)]
    id: Vec<Text>,
    #[serde(default)]
    name: Vec<Text>,
}

#[derive(Debug, Default, Deserialize)]
struct Port {
    #[serde(default)]
    id: Vec<Text>,
    #[serde(default)]
    descr: Vec<Text>,
}

#[derive(Debug, Default, Deserialize)]
struct Text {
    #[serde(default)]
    value: String,
}

/// Neighbours in all: a few at each port of a switch.
const NEIGHBORS_MAX: usize = 1024;

/// IEEE 802.1AB §8.5: a string in a TLV.
const OCTETS_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(name: &str, rid: &str, system: &str) -> serde_json::Value {
        json!({
            "name": name, "via": "LLDP", "rid": rid, "age": "0 day, 00:01:02",
            "chassis": [{"id": [{"type": "mac", "value": "00:00:5e:00:53:01"}], "name": [{"value": system}]}],
            "port": [{"id": [{"type": "mac", "value": "00:00:5e:00:53:02"}], "descr": [{"value": "swp1"}], "ttl": [{"value": "120"}]}],
        })
    }

    fn read(entries: &[serde_json::Value]) -> Vec<Neighbor> {
        let text = json!({"lldp": [{"interface": entries}]}).to_string();
        neighbors(text.as_bytes(), &BTreeSet::from(["up1", "up2"])).expect("as lldpcli prints it")
    }

    #[test]
    fn neighbours_are_read() {
        let found = read(&[entry("up1", "1", "spine1"), entry("up2", "2", "spine2")]);
        let names: Vec<_> = found.iter().map(|it| it.system_name.as_deref()).collect();
        assert_eq!(names, [Some("spine1"), Some("spine2")]);
        assert_eq!(
            found[0],
            Neighbor {
                interface: "up1".into(),
                id: "1".into(),
                system_name: Some("spine1".into()),
                chassis_id: Some("00:00:5e:00:53:01".into()),
                port_id: Some("00:00:5e:00:53:02".into()),
                port_description: Some("swp1".into()),
            }
        );
    }

    #[test]
    fn an_odd_neighbour_harms_no_other() {
        let found = read(&[
            entry("up1", "1", &"x".repeat(256)),
            entry("up1", "2", "a\u{1b}[31mred"),
            entry("up1", "2", "the same again"),
            entry("eth9", "3", "at no interface of ours"),
            entry("up1", "", "without a number"),
            json!({"name": "up2", "rid": "4"}),
        ]);
        let seen: Vec<_> = found
            .iter()
            .map(|it| {
                (
                    it.interface.as_str(),
                    it.id.as_str(),
                    it.system_name.clone(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [("up1", "1", None), ("up1", "2", None), ("up2", "4", None)]
        );
    }

    #[test]
    fn there_are_not_too_many() {
        let many: Vec<_> = (0..2_000)
            .map(|rid| entry("up1", &rid.to_string(), "spine1"))
            .collect();
        assert_eq!(read(&many).len(), NEIGHBORS_MAX);
    }

    #[test]
    fn what_lldpcli_does_not_print_is_an_error() {
        let none = BTreeSet::new();
        for text in ["", "{\"lldp\": 1}", "{\"lldp\": [{\"interface\": [{}]}]}"] {
            assert!(neighbors(text.as_bytes(), &none).is_err(), "{text}");
        }
        // Nobody is there.
        assert_eq!(neighbors(b"{\"lldp\": [{}]}", &none), Ok(Vec::new()));
        let deep = "[".repeat(100_000);
        assert!(neighbors(deep.as_bytes(), &none).is_err());
    }
}
