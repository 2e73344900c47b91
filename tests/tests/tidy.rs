//! What a machine can check of the house rules: who depends on whom, which words a room must not
//! say, how a file begins and how long it gets. Knows rows, not code; a failure names file, line and
//! rule.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// What a package may depend on, in any section of its manifest.
struct Package {
    name: &'static str,
    /// Of ours.
    ours: &'static [&'static str],
    /// Of ours, in its tests only.
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

/// Words that code in some files must not say. Tests and comments may.
struct Banned {
    words: &'static [&'static str],
    /// Paths under the root that begin so.
    within: &'static [&'static str],
    /// But not these.
    except: &'static [&'static str],
    rule: &'static str,
}

const PURE: &[&str] = &[
    "bgp/src",
    "evpn/src",
    "controller/weights/src",
    "controller/monitoring/src",
    "controller/bfd/src/packet.rs",
    "controller/bfd/src/session",
    "controller/src/ledger.rs",
    "controller/src/reflector",
    "controller/src/fabric",
    "controller/src/balancer",
    "controller/src/southbound/intent",
    "controller/src/southbound/link_bandwidth",
    "controller/src/southbound/reconcile",
    "controller/telemetry/src/derating",
    "controller/telemetry/src/kept_free",
    "controller/telemetry/src/lldp.rs",
    "controller/telemetry/src/load",
    "controller/telemetry/src/mirror",
    "controller/telemetry/src/oddities.rs",
    "controller/telemetry/src/place.rs",
    "controller/telemetry/src/rates",
    "controller/telemetry/src/sample.rs",
    "controller/telemetry/src/subscription.rs",
    "controller/telemetry/src/text.rs",
    "controller/telemetry/src/value.rs",
];

/// What of the agent is pure. It speaks in gRPC's words, which need no runtime.
const PURE_AGENT: &[&str] = &[
    "controller/agent/src/agent",
    "controller/agent/src/election.rs",
    "controller/agent/src/entry.rs",
    "controller/agent/src/fib",
    "controller/agent/src/openconfig",
    "controller/agent/src/rib.rs",
];

const BANNED: &[Banned] = &[
    Banned {
        words: &[
            "tokio",
            "tonic",
            "std::net::Tcp",
            "std::net::Udp",
            "std::thread",
            "std::fs",
            "std::process",
            "std::env",
            "rand::",
            "rocksdb",
        ],
        within: PURE,
        except: &[
            // Rings for the watchers, who wait in other threads.
            "controller/src/reflector/history.rs",
            "controller/src/reflector/news.rs",
            "controller/src/reflector/thread.rs",
        ],
        rule: "a pure room knows no socket, thread, disk, environment or randomness",
    },
    Banned {
        words: &[
            "tokio",
            "std::net::Tcp",
            "std::thread",
            "std::fs",
            "netlink",
        ],
        within: PURE_AGENT,
        except: &[],
        rule: "the agent's rules know no socket, thread or kernel",
    },
    Banned {
        words: &[
            "tokio",
            "tonic",
            "std::net::",
            "Instant",
            "SystemTime",
            "std::thread",
            "rand::",
        ],
        within: &["store/src"],
        except: &[],
        rule: "the store knows its disk, but no network, clock or thread",
    },
    Banned {
        words: &["Instant::now", "SystemTime::now", ".elapsed()"],
        within: &[""],
        except: &[
            "controller/agent/src/driver/clock.rs",
            "controller/agent/src/guardian.rs",
            "controller/agent/src/listener.rs",
            "controller/bfd/src/service",
            "controller/cli/src",
            "controller/log/src",
            "controller/src/consensus.rs",
            "controller/src/daemon.rs",
            "controller/src/daemon/leadership.rs",
            "controller/src/daemon/leadership/departed.rs",
            "controller/src/daemon/solver.rs",
            "controller/src/daemon/switches.rs",
            "controller/src/daemon/switches/announced.rs",
            "controller/src/daemon/switches/led.rs",
            "controller/src/daemon/switches/telemetry.rs",
            "controller/src/door",
            "controller/src/monitoring.rs",
            "controller/src/monitoring",
            "controller/src/operator",
            "controller/src/reflector/thread.rs",
            "controller/src/southbound.rs",
            "controller/src/southbound/gribi",
            "controller/src/speaker",
            "interop/src",
        ],
        rule: "only edge files read the clock",
    },
    Banned {
        words: &["nom::"],
        within: &[""],
        except: &["bgp/src/wire.rs"],
        rule: "nom parses leaves inside wire.rs only",
    },
    Banned {
        words: &["weft_evpn", "weft_store", "L2VPN_EVPN =>"],
        within: &["bgp/src"],
        except: &[],
        rule: "bgp does not know that EVPN or Raft exists",
    },
    Banned {
        words: &["LeaseBased"],
        within: &[""],
        except: &[],
        rule: "no lease reads: a paused clock makes them stale",
    },
    Banned {
        words: &["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"],
        within: &[""],
        // Socket options that no safe crate has.
        except: &["controller/sys/src/options.rs"],
        rule: "no unsafe: a file that needs it is named here, with the reason",
    },
    Banned {
        words: &[
            "mod util",
            "mod common",
            "mod helpers",
            "mod misc",
            "mod types",
            "mod manager",
            "mod handler",
            "mod processor",
            "mod convert",
        ],
        within: &[""],
        except: &[],
        rule: "a room is a noun from an RFC, from Raft, or from the fabric",
    },
];

/// Nobody leaves these in the tree, not even in a comment. Put together so that this file may say them.
const UNFINISHED: [&str; 4] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("todo", "!("),
];

/// Lines of a file without its tests.
const LINES_MAX: usize = 800;

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

#[test]
fn no_room_says_a_word_that_is_not_its_own() {
    let mut faults = Vec::new();
    for file in files() {
        for banned in BANNED.iter().filter(|banned| banned.covers(&file)) {
            for (number, line) in file.code() {
                let said = banned.words.iter().find(|word| says(line, word));
                if let Some(word) = said {
                    faults.push(file.fault(number, &format!("`{word}`: {}", banned.rule)));
                }
            }
        }
    }
    report(&faults);
}

impl Banned {
    fn covers(&self, file: &File) -> bool {
        let under = |paths: &[&str]| paths.iter().any(|path| file.path.starts_with(path));
        !file.is_test() && under(self.within) && !under(self.except)
    }
}

/// Whether a line says a word, not as the end of a longer one.
fn says(line: &str, word: &str) -> bool {
    let begins = |at: usize| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && before != '_')
    };
    let punctuated = word.starts_with('.');
    line.match_indices(word)
        .any(|(at, _)| punctuated || begins(at))
}

#[test]
fn every_file_says_what_it_is_and_is_finished() {
    let mut faults = Vec::new();
    for file in files() {
        if !file.text.starts_with("//!") {
            faults.push(file.fault(
                1,
                "a file opens with `//!`: what it is, and what it refuses to know",
            ));
        }
        if file.path.ends_with("/mod.rs") {
            faults.push(file.fault(1, "a module's file has the module's name"));
        }
        let lines = file.code().count();
        if !file.is_test() && lines > LINES_MAX {
            faults.push(file.fault(
                LINES_MAX,
                &format!("{lines} lines without tests, {LINES_MAX} at most"),
            ));
        }
        for (number, line) in file.text.lines().enumerate() {
            if let Some(word) = UNFINISHED.iter().find(|word| says(line, word)) {
                faults.push(file.fault(
                    number + 1,
                    &format!("`{word}`: it is done, or it is an issue"),
                ));
            }
        }
    }
    report(&faults);
}

/// A package of a registry that is another one tomorrow runs with the rights of the check.
#[test]
fn scripts_install_python_packages_by_their_digests() {
    let mut faults = Vec::new();
    let mut installs = 0;
    for file in files_named(".sh") {
        for (number, line) in file.text.lines().enumerate() {
            if !(line.contains("pip\" install") || line.contains("pip install")) {
                continue;
            }
            installs += 1;
            let is_ours = line.contains("--no-deps") && line.ends_with("/*.whl");
            if !line.contains("--require-hashes") && !is_ours {
                faults.push(file.fault(number + 1, "pip installs with `--require-hashes` only"));
            }
        }
    }
    assert!(installs > 0, "no script installs a package");
    report(&faults);
}

#[test]
fn a_commented_word_and_a_longer_one_are_not_said() {
    let file = File {
        path: "bgp/src/x.rs".to_owned(),
        text: "//! x\nuse a; // tokio\nlet rtokio = 1;\n#[cfg(test)]\nmod tests {\nuse tokio;\n"
            .to_owned(),
    };
    let code: Vec<_> = file
        .code()
        .filter(|(_, line)| says(line, "tokio"))
        .collect();
    assert_eq!(code, []);
    assert!(says("use tokio::time;", "tokio"));
}

struct File {
    /// From the root, with `/`.
    path: String,
    text: String,
}

impl File {
    fn is_test(&self) -> bool {
        let inside = ["/tests/", "/examples/", "/benches/", "/fuzz/"];
        inside.iter().any(|part| self.path.contains(part)) || self.path.ends_with("/tests.rs")
    }

    /// Lines before the tests, from 1, without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines
            .take_while(|(_, line)| *line != "#[cfg(test)]")
            .map(|(number, line)| (number + 1, line.split("//").next().unwrap_or_default()))
    }

    fn fault(&self, line: usize, rule: &str) -> String {
        format!("{}:{line}: {rule}", self.path)
    }
}

fn report(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

fn root() -> PathBuf {
    // cargo runs a test in the folder of its package, which is inside the workspace.
    PathBuf::from("..")
}

/// Every Rust file of ours.
fn files() -> Vec<File> {
    let files = files_named(".rs");
    assert!(files.len() > 100, "only {} files found", files.len());
    files
}

/// Every file of ours whose name ends so.
fn files_named(end: &str) -> Vec<File> {
    let root = root();
    let mut directories = vec![root.clone()];
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("the tree can be read") {
            let path = entry.expect("the tree can be read").path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    directories.push(path);
                }
            } else if name.ends_with(end) {
                let within = path.strip_prefix(&root).expect("found under the root");
                files.push(File {
                    path: within.to_string_lossy().into_owned(),
                    text: fs::read_to_string(&path).expect("the tree can be read"),
                });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
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
