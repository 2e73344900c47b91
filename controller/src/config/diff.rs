//! What changes between two configurations: for a person, line by line, and for those who carry it out.
//! Knows no task and no session.

use std::collections::BTreeSet;
use std::fmt;

use ipnet::IpNet;

use super::Config;
use super::group::PeerGroup;
use super::settings::{self, Effect, Setting};

/// One line of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whose it is: `peer 192.0.2.1`, `peer_group leaves`, `listen_range 192.0.2.0/24`, `bmp lab`, or a
    /// table such as `bgp`.
    pub subject: String,
    /// The name of the value; empty if the subject itself came or went.
    pub knob: &'static str,
    /// What it was; `None` for a subject that came.
    pub old: Option<String>,
    /// What it is now; `None` for a subject that went.
    pub new: Option<String>,
    /// When it holds.
    pub effect: Effect,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subject,
            knob,
            old,
            new,
            effect,
        } = self;
        match (old, new) {
            (Some(old), Some(new)) => write!(f, "{subject}: {knob}: {old} -> {new} ({effect})"),
            (None, _) => write!(f, "{subject}: added ({effect})"),
            (Some(_), None) => write!(f, "{subject}: removed ({effect})"),
        }
    }
}

/// Every difference, in the order of the file.
pub fn diff(old: &Config, new: &Config) -> Vec<Change> {
    let mut speaking = groups(old, new);
    speaking.extend(ranges(old, new));
    speaking.extend(peers(old, new));
    if changes_as(old, new) {
        for change in &mut speaking {
            change.effect = Effect::NeedsRestart;
        }
    }
    let mut changes = daemon(old, new);
    changes.extend(speaking);
    changes.extend(bmp(old, new));
    changes
}

/// The peers of another AS are meant for a speaker that is in it: none of them can change before.
fn changes_as(old: &Config, new: &Config) -> bool {
    old.bgp.local.asn != new.bgp.local.asn
}

/// `new` as far as it can hold without a restart: what needs one is as in `old`.
pub fn applicable(old: &Config, new: &Config) -> Config {
    let mut held = new.clone();
    if changes_as(old, new) {
        held.bgp.groups.clone_from(&old.bgp.groups);
        held.bgp.listen_ranges.clone_from(&old.bgp.listen_ranges);
        held.bgp.peers.clone_from(&old.bgp.peers);
    }
    held.replica.clone_from(&old.replica);
    held.replicas.clone_from(&old.replicas);
    held.bgp.local = old.bgp.local;
    held.bgp.listen.clone_from(&old.bgp.listen);
    held.api.clone_from(&old.api);
    held.metrics = old.metrics;
    held
}

/// What differs between the values of two peers or groups; what changes both ways costs what the dearer
/// way costs.
pub fn between(old: &[Setting], new: &[Setting]) -> Vec<(Setting, Setting)> {
    let pairs = old.iter().zip(new);
    pairs
        .filter(|(old, new)| old.value != new.value)
        .map(|(old, new)| {
            let effect = old.effect.max(new.effect);
            let costing = |setting: &Setting| Setting {
                effect,
                ..setting.clone()
            };
            (costing(old), costing(new))
        })
        .collect()
}

fn daemon(old: &Config, new: &Config) -> Vec<Change> {
    let (old, new) = (settings::of_daemon(old), settings::of_daemon(new));
    let pairs = old.into_iter().zip(new);
    pairs
        .filter(|((_, old), (_, new))| old.value != new.value)
        .map(|((table, old), (_, new))| changed(table.to_owned(), old, new))
        .collect()
}

fn groups(old: &Config, new: &Config) -> Vec<Change> {
    let (old, new) = (&old.bgp.groups, &new.bgp.groups);
    let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let one = |name: &String| {
        let subject = format!("peer_group {name}");
        match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) => {
                let (old, new) = (settings::of_group(old), settings::of_group(new));
                lines(&subject, between(&old, &new))
            }
            (before, after) => {
                came_or_went(subject, before.is_some(), after.is_some(), Effect::Applied)
            }
        }
    };
    names.into_iter().flat_map(one).collect()
}

fn ranges(old: &Config, new: &Config) -> Vec<Change> {
    let group = |config: &Config, prefix| {
        let mut ranges = config.bgp.listen_ranges.iter();
        let range = ranges.find(|range| range.prefix == prefix)?;
        Some(range.peer_group.clone())
    };
    let ranges = old.bgp.listen_ranges.iter().chain(&new.bgp.listen_ranges);
    let prefixes: BTreeSet<_> = ranges.map(|range| range.prefix).collect();
    let one = |prefix| {
        let subject = format!("listen_range {prefix}");
        match (group(old, prefix), group(new, prefix)) {
            (Some(before), Some(after)) if before != after => {
                vec![regrouped(
                    subject,
                    &before,
                    &after,
                    moved(old, new, &before, &after),
                )]
            }
            (Some(_), Some(_)) => Vec::new(),
            (before, after) => {
                let effect = resettled(covering(old, prefix), covering(new, prefix));
                came_or_went(subject, before.is_some(), after.is_some(), effect)
            }
        }
    };
    prefixes.into_iter().flat_map(one).collect()
}

/// What holds for who dials from all of a prefix: the settings of the longest range around it.
fn covering(config: &Config, prefix: IpNet) -> Option<&PeerGroup> {
    let mut ranges = config.bgp.listen_ranges.iter();
    let range = ranges.find(|range| range.prefix.contains(&prefix))?;
    config.bgp.groups.get(&range.peer_group)
}

fn peers(old: &Config, new: &Config) -> Vec<Change> {
    let addresses: BTreeSet<_> = old.bgp.peers.keys().chain(new.bgp.peers.keys()).collect();
    let mut changes = Vec::new();
    for address in addresses {
        let subject = format!("peer {address}");
        let (before, after) = (old.bgp.peers.get(address), new.bgp.peers.get(address));
        let (Some(before), Some(after)) = (before, after) else {
            let [was, is] = [old, new].map(|config| config.bgp.resolve(*address));
            let effect = resettled(was.map(|was| was.settings), is.map(|is| is.settings));
            let (before, after) = (before.is_some(), after.is_some());
            changes.extend(came_or_went(subject, before, after, effect));
            continue;
        };
        let (before, after) = (&before.settings, &after.settings);
        let differences = between(&settings::of_group(before), &settings::of_group(after));
        if before.name != after.name {
            let effect = dearest(&differences);
            changes.push(regrouped(
                subject.clone(),
                &before.name,
                &after.name,
                effect,
            ));
            changes.extend(lines(&subject, differences));
            continue;
        }
        // What the group says of all its peers is not said again of each.
        let said = match (
            old.bgp.groups.get(&before.name),
            new.bgp.groups.get(&after.name),
        ) {
            (Some(old), Some(new)) => between(&settings::of_group(old), &settings::of_group(new)),
            (None, _) | (_, None) => Vec::new(),
        };
        let own = differences
            .into_iter()
            .filter(|difference| !said.contains(difference));
        changes.extend(lines(&subject, own.collect()));
    }
    changes
}

fn bmp(old: &Config, new: &Config) -> Vec<Change> {
    let names: BTreeSet<_> = old
        .bmp
        .iter()
        .chain(&new.bmp)
        .map(|bmp| &bmp.name)
        .collect();
    let find = |config: &Config, name: &str| {
        let found = config.bmp.iter().find(|bmp| bmp.name == name);
        found.map(settings::of_bmp)
    };
    let one = |name: &String| {
        let subject = format!("bmp {name}");
        match (find(old, name), find(new, name)) {
            (Some(before), Some(after)) => lines(&subject, between(&before, &after)),
            (before, after) => {
                came_or_went(subject, before.is_some(), after.is_some(), Effect::Applied)
            }
        }
    };
    names.into_iter().flat_map(one).collect()
}

/// What it costs those who were in one group to be in another.
fn moved(old: &Config, new: &Config, from: &str, to: &str) -> Effect {
    match (old.bgp.groups.get(from), new.bgp.groups.get(to)) {
        (Some(from), Some(to)) => resettled(Some(from), Some(to)),
        (None, _) | (_, None) => Effect::Applied,
    }
}

/// What it costs those who had these settings to have others, or none: their sessions end then.
fn resettled(was: Option<&PeerGroup>, is: Option<&PeerGroup>) -> Effect {
    match (was, is) {
        (Some(was), Some(is)) => {
            dearest(&between(&settings::of_group(was), &settings::of_group(is)))
        }
        (Some(_), None) => Effect::SessionReset,
        (None, _) => Effect::Applied,
    }
}

fn dearest(differences: &[(Setting, Setting)]) -> Effect {
    let effects = differences.iter().map(|(_, new)| new.effect);
    effects.max().unwrap_or(Effect::Applied)
}

fn lines(subject: &str, differences: Vec<(Setting, Setting)>) -> Vec<Change> {
    let differences = differences.into_iter();
    differences
        .map(|(old, new)| changed(subject.to_owned(), old, new))
        .collect()
}

fn changed(subject: String, old: Setting, new: Setting) -> Change {
    Change {
        subject,
        knob: new.knob,
        old: Some(old.value),
        new: Some(new.value),
        effect: new.effect,
    }
}

fn regrouped(subject: String, old: &str, new: &str, effect: Effect) -> Change {
    Change {
        subject,
        knob: "peer_group",
        old: Some(format!("{old:?}")),
        new: Some(format!("{new:?}")),
        effect,
    }
}

fn came_or_went(subject: String, before: bool, after: bool, effect: Effect) -> Vec<Change> {
    let there = |there: bool| there.then(String::new);
    if before == after {
        return Vec::new();
    }
    vec![Change {
        subject,
        knob: "",
        old: there(before),
        new: there(after),
        effect,
    }]
}
