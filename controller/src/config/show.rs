//! The values that hold, with where each comes from. Knows no file: what a value is equal to is where it
//! comes from.

use std::fmt;

use super::Config;
use super::group::PeerGroup;
use super::settings::{self, Setting};

/// A part of a configuration with all its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// As in a difference: `peer 192.0.2.1`, `peer_group leaves`, `bgp`.
    pub name: String,
    /// Its values in the order of the file.
    pub values: Vec<Value>,
}

/// A value that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its name in the file.
    pub knob: &'static str,
    /// As it is written in the file.
    pub value: String,
    /// Where it comes from.
    pub from: From,
}

/// Where a value comes from. One that says what lies below it anyway comes from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum From {
    /// From nowhere: it is the default.
    Default,
    /// From its table in the file.
    File,
    /// From the peer's group.
    Group,
    /// From the peer itself.
    Peer,
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Group => "group",
            Self::Peer => "peer",
        })
    }
}

/// Every part of a configuration, in the order of the file.
pub fn show(config: &Config) -> Vec<Subject> {
    let mut subjects = daemon(config);
    for group in config.bgp.groups.values() {
        let settings = settings::of_group(group);
        let values = settings.into_iter().zip(defaults());
        subjects.push(Subject {
            name: format!("peer_group {}", group.name),
            values: values
                .map(|(own, default)| below(own, &default, From::File, From::Default))
                .collect(),
        });
    }
    for range in &config.bgp.listen_ranges {
        subjects.push(Subject {
            name: format!("listen_range {}", range.prefix),
            values: vec![grouped(&range.peer_group)],
        });
    }
    for (address, peer) in &config.bgp.peers {
        let mut values = vec![grouped(&peer.settings.name)];
        if let Some(group) = config.bgp.groups.get(&peer.settings.name) {
            values.extend(of_peer(&peer.settings, group));
        }
        let name = format!("peer {address}");
        subjects.push(Subject { name, values });
    }
    for bmp in &config.bmp {
        let values = settings::of_bmp(bmp).into_iter();
        subjects.push(Subject {
            name: format!("bmp {}", bmp.name),
            values: values.map(|setting| value(setting, From::File)).collect(),
        });
    }
    subjects
}

fn daemon(config: &Config) -> Vec<Subject> {
    let defaults = settings::of_daemon(&Config::standalone());
    let mut subjects: Vec<Subject> = Vec::new();
    for ((table, own), (_, default)) in settings::of_daemon(config).into_iter().zip(defaults) {
        let value = below(own, &default, From::File, From::Default);
        match subjects.last_mut().filter(|last| last.name == table) {
            Some(last) => last.values.push(value),
            None => subjects.push(Subject {
                name: table.to_owned(),
                values: vec![value],
            }),
        }
    }
    subjects
}

fn of_peer(peer: &PeerGroup, group: &PeerGroup) -> Vec<Value> {
    let below_it = settings::of_group(group).into_iter().zip(defaults());
    settings::of_group(peer)
        .into_iter()
        .zip(below_it)
        .map(|(own, (group, default))| match own.value == group.value {
            true => below(own, &default, From::Group, From::Default),
            false => value(own, From::Peer),
        })
        .collect()
}

fn below(own: Setting, lower: &Setting, else_from: From, from: From) -> Value {
    let from = match own.value == lower.value {
        true => from,
        false => else_from,
    };
    value(own, from)
}

fn value(setting: Setting, from: From) -> Value {
    Value {
        knob: setting.knob,
        value: setting.value,
        from,
    }
}

fn grouped(group: &str) -> Value {
    Value {
        knob: "peer_group",
        value: format!("{group:?}"),
        from: From::File,
    }
}

fn defaults() -> Vec<Setting> {
    settings::of_group(&PeerGroup::new(String::new()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_value_comes_from_where_it_differs_from_what_is_below() {
        let config = Config::parse(
            r#"
            [bgp]
            asn = 65000
            [[bgp.peer_group]]
            name = "leaves"
            hold_secs = 9
            [[bgp.peer]]
            address = "192.0.2.1"
            peer_group = "leaves"
            strict = true
            passive = false
            "#,
            Path::new("weft.toml"),
        )
        .unwrap();
        let subjects = show(&config);
        let find = |subject: &str, knob: &str| {
            let subject = subjects.iter().find(|found| found.name == subject);
            let mut values = subject.unwrap().values.iter();
            let value = values.find(|value| value.knob == knob).unwrap();
            (value.value.as_str(), value.from)
        };
        assert_eq!(find("bgp", "asn"), ("65000", From::File));
        assert_eq!(find("api", "listen"), ("\"127.0.0.1:7401\"", From::Default));
        assert_eq!(find("peer_group leaves", "hold_secs"), ("9", From::File));
        assert_eq!(
            find("peer_group leaves", "strict"),
            ("false", From::Default)
        );
        let peer = "peer 192.0.2.1";
        assert_eq!(find(peer, "peer_group"), ("\"leaves\"", From::File));
        assert_eq!(find(peer, "hold_secs"), ("9", From::Group));
        assert_eq!(find(peer, "strict"), ("true", From::Peer));
        assert_eq!(find(peer, "passive"), ("false", From::Default));
    }
}
