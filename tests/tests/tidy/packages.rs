//! Dependencies of the packages: a table, compared with the manifests as cargo reads them. Knows no code.

use std::process::Command;

use serde_json::Value;

use crate::report;
use crate::tree::root;

/// A package and its permitted dependencies, in any section of its manifest.
struct Package {
    name: &'static str,
    /// Packages of the workspace.
    ours: &'static [&'static str],
    /// Packages of the workspace, in its tests only.
    ours_in_tests: &'static [&'static str],
    others: Others,
}

enum Others {
    /// Exactly these may be named outside `dev-dependencies`.
    Only(&'static [&'static str]),
    /// Anything at the edge, but never these.
    AnyBut(&'static [&'static str]),
}

use Others::{AnyBut, Only};

#[rustfmt::skip]
const PACKAGES: &[Package] = &[
    // foldhash and hashbrown: tables of a million paths want a seeded hash and a table of places, and
    // std's default hasher draws randomness.
    Package { name: "weft-bgp", ours: &[], ours_in_tests: &[], others: Only(&["bytes", "foldhash", "hashbrown", "nom", "tracing"]) },
    Package { name: "weft-evpn", ours: &["weft-bgp"], ours_in_tests: &[], others: Only(&["bytes", "foldhash", "tracing"]) },
    // prost 0.11 and slog are in the signatures of raft 0.7.0.
    Package { name: "weft-store", ours: &[], ours_in_tests: &[], others: Only(&["bytes", "prost", "raft", "rocksdb", "slog", "thiserror", "tracing"]) },
    Package { name: "weft-weights", ours: &[], ours_in_tests: &[], others: Only(&["petgraph", "tracing"]) },
    Package { name: "weft-monitoring", ours: &["weft-bgp"], ours_in_tests: &[], others: Only(&["bytes"]) },
    // prost-reflect and serde: messages as JSON, by their descriptors.
    Package { name: "weft-proto", ours: &[], ours_in_tests: &[], others: Only(&["prost", "prost-reflect", "prost-types", "protox", "serde", "serde_json", "tonic", "tonic-prost", "tonic-prost-build"]) },
    Package { name: "weft-controller", ours: &["weft-bfd", "weft-bgp", "weft-evpn", "weft-log", "weft-monitoring", "weft-proto", "weft-store", "weft-sys", "weft-telemetry", "weft-weights"], ours_in_tests: &["weft-agent"], others: AnyBut(&["raft", "rocksdb"]) },
    Package { name: "weft-agent", ours: &["weft-log", "weft-proto", "weft-sys"], ours_in_tests: &[], others: AnyBut(&["raft", "rocksdb"]) },
    Package { name: "weft-bfd", ours: &["weft-log"], ours_in_tests: &[], others: AnyBut(&["raft", "rocksdb", "tonic"]) },
    Package { name: "weft-log", ours: &[], ours_in_tests: &[], others: Only(&["clap", "tracing", "tracing-subscriber"]) },
    Package { name: "weft-sys", ours: &[], ours_in_tests: &[], others: Only(&["libc", "nix", "socket2", "thiserror", "zeroize"]) },
    Package { name: "weft-telemetry", ours: &["weft-proto"], ours_in_tests: &["weft-agent"], others: Only(&["rustls", "serde_json", "tokio", "tokio-stream", "tonic", "tracing"]) },
    Package { name: "weft-cli", ours: &["weft-proto"], ours_in_tests: &[], others: AnyBut(&["raft", "rocksdb"]) },
    Package { name: "weft-tests", ours: &["weft-agent", "weft-bgp", "weft-controller", "weft-evpn", "weft-store", "weft-weights"], ours_in_tests: &[], others: AnyBut(&["raft", "rocksdb", "tokio", "tonic"]) },
    Package { name: "weft-interop", ours: &["weft-bgp", "weft-controller", "weft-evpn", "weft-proto", "weft-store"], ours_in_tests: &[], others: AnyBut(&["raft", "rocksdb"]) },
];

#[test]
fn packages_depend_only_on_what_their_room_allows() {
    let mut faults = Vec::new();
    let packages = metadata();
    for package in &packages {
        let name = text(package, "name");
        let manifest = text(package, "manifest_path");
        let Some(row) = PACKAGES.iter().find(|row| row.name == name) else {
            faults.push(format!(
                "{manifest}: {name} has no row in the table of packages"
            ));
            continue;
        };
        let dependencies = package["dependencies"].as_array().expect("an array");
        for dependency in dependencies {
            let on = text(dependency, "name");
            if !allowed(row, on, dependency["kind"].as_str() == Some("dev")) {
                faults.push(format!("{manifest}: {name} must not depend on {on}"));
            }
        }
    }
    for row in PACKAGES {
        if !packages
            .iter()
            .any(|package| text(package, "name") == row.name)
        {
            faults.push(format!("Cargo.toml: the workspace has no {}", row.name));
        }
    }
    report(&faults);
}

fn allowed(row: &Package, on: &str, dev: bool) -> bool {
    if on.starts_with("weft-") {
        return row.ours.contains(&on) || (dev && row.ours_in_tests.contains(&on));
    }
    match row.others {
        Only(names) => dev || names.contains(&on),
        AnyBut(names) => !names.contains(&on),
    }
}

fn metadata() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    metadata["packages"].as_array().expect("an array").clone()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().expect("a string")
}

#[test]
fn a_dependency_that_is_not_in_the_row_is_refused() {
    let row = |name| PACKAGES.iter().find(|row| row.name == name).expect("a row");
    assert!(allowed(row("weft-evpn"), "weft-bgp", false));
    assert!(!allowed(row("weft-bgp"), "weft-evpn", false));
    assert!(!allowed(row("weft-bgp"), "tokio", false));
    assert!(allowed(row("weft-bgp"), "tokio", true));
    assert!(!allowed(row("weft-controller"), "rocksdb", true));
    assert!(allowed(row("weft-controller"), "weft-agent", true));
    assert!(!allowed(row("weft-controller"), "weft-agent", false));
}
