//! Rooms of the controller and their imports (`house.md`, 3). Knows paths in `use`, inline paths and re-exports.

use std::collections::{BTreeMap, BTreeSet};

use crate::ratchet::{self, Found};
use crate::report;
use crate::source::Source;
use crate::tree;

const CRATE: &str = "controller/src/";

/// A room and the rooms that it may import.
struct Room {
    name: &'static str,
    may: &'static [&'static str],
}

/// The floor plan for the rooms of today, from top to bottom: a room may import only rooms below it, and of these only the named ones.
///
/// Some rooms of the plan are still part of others: `switches`, `leader` and `supervision` of daemon; `neighbor`, `report` and
/// `handles` of speaker; `reflection` of reflector. Their rows come with the rooms.
#[rustfmt::skip]
const ROOMS: &[Room] = &[
    Room { name: "daemon", may: &["operator", "monitoring", "speaker", "consensus", "reflector", "balancer", "ledger", "southbound", "fabric", "door", "config"] },
    Room { name: "operator", may: &["monitoring", "speaker", "reflector", "balancer", "ledger", "southbound", "fabric", "door", "config"] },
    Room { name: "monitoring", may: &["reflector", "ledger", "config"] },
    Room { name: "speaker", may: &["consensus", "reflector", "ledger", "southbound", "config"] },
    // Its listener is a door.
    Room { name: "consensus", may: &["reflector", "door"] },
    Room { name: "reflector", may: &["ledger", "fabric", "config"] },
    Room { name: "balancer", may: &["southbound", "fabric"] },
    Room { name: "ledger", may: &["fabric"] },
    Room { name: "southbound", may: &["fabric", "config"] },
    Room { name: "fabric", may: &[] },
    Room { name: "door", may: &["config"] },
    Room { name: "config", may: &[] },
];

/// Importing files by the importing and the imported room.
type Arrows = BTreeMap<(String, String), BTreeSet<String>>;

#[test]
fn rooms_import_only_what_the_floor_plan_permits() {
    let arrows = arrows(tree::product());
    ratchet::print(&summary(&arrows));
    report(&unknown(&names(tree::product())));
    let rule = "a room imports only the rooms of its row in `ROOMS`";
    ratchet::check("rooms", rule, &refused(&arrows));
}

/// Lists the rooms: modules at the top of the crate.
fn names<'a>(sources: impl Iterator<Item = &'a Source>) -> BTreeSet<String> {
    sources.filter_map(room).map(str::to_owned).collect()
}

fn room(source: &Source) -> Option<&str> {
    let within = source.path.strip_prefix(CRATE)?;
    let name = within.split('/').next()?;
    let name = name.strip_suffix(".rs").unwrap_or(name);
    Some(name).filter(|name| !["lib", "main"].contains(name))
}

/// Lists rooms without a row and rows without a room.
fn unknown(names: &BTreeSet<String>) -> Vec<String> {
    let known: BTreeSet<_> = ROOMS.iter().map(|room| room.name.to_owned()).collect();
    let missing = names.difference(&known);
    let missing = missing.map(|name| format!("{CRATE}{name}.rs: {name} has no row in `ROOMS`"));
    let gone = known.difference(names);
    let gone = gone.map(|name| format!("{CRATE}: `ROOMS` has a row for {name}, which is no room"));
    missing.chain(gone).collect()
}

fn refused(arrows: &Arrows) -> Found {
    let mut found = Found::default();
    for ((from, to), files) in arrows {
        let row = ROOMS.iter().find(|room| room.name == from);
        if !row.is_some_and(|row| row.may.contains(&to.as_str())) {
            for file in files {
                found.add(&format!("{from} -> {to}"), file.clone());
            }
        }
    }
    found
}

fn summary(arrows: &Arrows) -> String {
    let nodes: BTreeSet<_> = arrows
        .keys()
        .flat_map(|(from, to)| [from.as_str(), to.as_str()])
        .collect();
    let circle = nodes
        .iter()
        .filter(|node| reached(arrows, node).contains(**node));
    let up = arrows.keys().filter(|(from, to)| rank(from) > rank(to));
    format!(
        "{} of {} rooms are in a circle, {} of {} arrows point up",
        circle.count(),
        ROOMS.len(),
        up.count(),
        arrows.len()
    )
}

/// Returns how far down a room is.
fn rank(name: &str) -> usize {
    let rank = ROOMS.iter().position(|room| room.name == name);
    rank.unwrap_or(ROOMS.len())
}

/// Lists the rooms that a room knows, directly or through others.
fn reached<'a>(arrows: &'a Arrows, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from.to_owned()];
    while let Some(room) = next.pop() {
        for (from, to) in arrows.keys() {
            if *from == room && reached.insert(to.as_str()) {
                next.push(to.clone());
            }
        }
    }
    reached
}

/// A path from the root of the crate in a file of a room.
struct Import<'a> {
    file: &'a Source,
    from: &'a str,
    path: Vec<&'a str>,
    reexport: bool,
}

fn arrows<'a>(sources: impl Iterator<Item = &'a Source>) -> Arrows {
    let sources: Vec<_> = sources
        .filter_map(|source| Some((source, room(source)?)))
        .collect();
    let rooms: BTreeSet<_> = sources.iter().map(|(_, room)| *room).collect();
    let mut imports: Vec<Import<'_>> = Vec::new();
    for (file, from) in &sources {
        imports.extend(imports_of(file, from));
    }
    imports.retain(|import| rooms.contains(import.path[0]));
    let hidden: Vec<_> = imports
        .iter()
        .filter(|import| import.reexport && import.path[0] != import.from)
        .collect();
    let mut arrows = Arrows::new();
    let mut add = |import: &Import<'_>, to: &str| {
        if import.from != to {
            let key = (import.from.to_owned(), to.to_owned());
            arrows
                .entry(key)
                .or_default()
                .insert(import.file.path.clone());
        }
    };
    for import in &imports {
        add(import, import.path[0]);
        // A name that its room re-exports is of the room that has it.
        let through = hidden.iter().filter(|hidden| {
            let name = hidden.path.last();
            hidden.from == import.path[0] && import.path[1..].iter().any(|part| Some(part) == name)
        });
        for hidden in through {
            add(import, hidden.path[0]);
        }
    }
    arrows
}

/// Lists the paths of a file that begin with `crate::`, or with as many `super::` as lead to the root.
fn imports_of<'a>(file: &'a Source, from: &'a str) -> Vec<Import<'a>> {
    let depth = file.path[CRATE.len()..].split('/').count();
    let mut imports = Vec::new();
    let mut index = 0;
    while index < file.tokens.len() {
        let first = index;
        let mut up = 0;
        while file.token(index) == "super" && is_separator(file, index + 1) {
            up += 1;
            index += 3;
        }
        let root = file.token(index) == "crate" && is_separator(file, index + 1);
        if root {
            index += 3;
        }
        if root || up == depth {
            let at = file.tokens[first].start;
            let mut places = file.items.reexports.iter();
            let reexport = places.any(|place| place.contains(&at));
            let mut paths = Vec::new();
            read(file, &mut index, &mut Vec::new(), &mut paths);
            imports.extend(paths.into_iter().map(|path| Import {
                file,
                from,
                path,
                reexport,
            }));
        } else if up == 0 {
            index += 1;
        }
    }
    imports
}

fn is_separator(file: &Source, index: usize) -> bool {
    file.token(index) == ":" && file.token(index + 1) == ":"
}

/// Reads a path, or a tree of paths, whose beginning is known. Leaves `index` behind it.
fn read<'a>(
    file: &'a Source,
    index: &mut usize,
    before: &mut Vec<&'a str>,
    paths: &mut Vec<Vec<&'a str>>,
) {
    let length = before.len();
    loop {
        let token = file.token(*index);
        *index += 1;
        if token == "{" {
            while !["}", ""].contains(&file.token(*index)) {
                read(file, index, before, paths);
                if file.token(*index) == "," {
                    *index += 1;
                }
            }
            *index += 1;
            break;
        }
        before.push(token);
        if is_separator(file, *index) && !["<", "("].contains(&file.token(*index + 2)) {
            *index += 2;
            continue;
        }
        if file.token(*index) == "as" {
            before.push(file.token(*index + 1));
            *index += 2;
        }
        paths.push(before.clone());
        break;
    }
    before.truncate(length);
}

#[test]
fn the_floor_plan_has_no_circle() {
    for room in ROOMS {
        let up: Vec<_> = room
            .may
            .iter()
            .filter(|to| rank(to) <= rank(room.name))
            .collect();
        assert!(
            up.is_empty(),
            "{} is not above {up:?}, which its row permits",
            room.name
        );
    }
}

#[cfg(test)]
fn planted(files: &[(&str, &str)]) -> Vec<Source> {
    let read = |(path, text): &(&str, &str)| Source::read(&format!("{CRATE}{path}"), text);
    files.iter().map(read).collect()
}

#[test]
fn imports_by_use_inline_paths_and_reexports_are_refused() {
    let sources = planted(&[
        ("lib.rs", "pub mod fabric; pub mod config;"),
        (
            "fabric.rs",
            "//! [`crate::config`]\n#[cfg(test)] mod tests { use crate::daemon::A; }\nfn f() { crate::operator::f(\"crate::door\") }",
        ),
        ("fabric/mode.rs", "pub use crate::southbound::intent::Mode;"),
        (
            "ledger.rs",
            "use crate::{fabric::{self, mode::Mode}, config as c};",
        ),
        (
            "ledger/key.rs",
            "use super::super::speaker::Peer; use super::fabric;",
        ),
        ("config.rs", "use std::{fs, io};"),
        (
            "speaker.rs",
            "select! { x = crate::consensus::f::<crate::config::C>() => {} }",
        ),
        ("southbound.rs", ""),
        ("operator.rs", ""),
        ("consensus.rs", ""),
        ("daemon.rs", ""),
    ]);
    let arrows = arrows(sources.iter());
    let found = refused(&arrows);
    let refused: Vec<_> = found
        .counts()
        .iter()
        .map(|(key, count)| format!("{key} {count}"))
        .collect();
    assert_eq!(
        refused,
        [
            "fabric -> operator 1",
            "fabric -> southbound 1",
            "ledger -> config 1",
            "ledger -> southbound 1",
            "ledger -> speaker 1",
        ]
    );
    assert!(arrows.contains_key(&("speaker".to_owned(), "config".to_owned())));
    assert!(summary(&arrows).starts_with("0 of 12 rooms are in a circle, 3 of 8 arrows point up"));
}

#[test]
fn a_circle_and_a_room_without_a_row_are_found() {
    let sources = planted(&[
        ("fabric.rs", "use crate::ledger::A;"),
        ("ledger.rs", "use crate::fabric::B;"),
        ("util.rs", "use crate::ledger::A;"),
    ]);
    assert!(summary(&arrows(sources.iter())).starts_with("2 of 12 rooms are in a circle"));
    let faults = unknown(&names(sources.iter()));
    assert!(
        faults.contains(&"controller/src/util.rs: util has no row in `ROOMS`".to_owned()),
        "{faults:?}"
    );
    assert_eq!(
        refused(&arrows(sources.iter())).counts()["util -> ledger"],
        1
    );
}
