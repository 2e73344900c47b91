//! Words that the code of some files must not use, such as sockets and clocks in a pure room. Knows paths and words.

use crate::report;
use crate::source::Source;
use crate::tree;

/// Words that the code of some files must not use. Tests and comments may.
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

/// Pure parts of the agent. They use messages of gRPC, which need no runtime.
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

#[test]
fn no_room_says_a_word_that_is_not_its_own() {
    report(&faults(tree::product()));
}

fn faults<'a>(sources: impl Iterator<Item = &'a Source>) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources {
        for banned in BANNED.iter().filter(|banned| banned.covers(source)) {
            for (number, line) in source.code() {
                let said = banned.words.iter().find(|word| says(line, word));
                if let Some(word) = said {
                    faults.push(source.fault(number, &format!("`{word}`: {}", banned.rule)));
                }
            }
        }
    }
    faults
}

impl Banned {
    fn covers(&self, source: &Source) -> bool {
        let under = |paths: &[&str]| paths.iter().any(|path| source.path.starts_with(path));
        under(self.within) && !under(self.except)
    }
}

/// Returns true if a line has a word, not as the end of a longer one.
pub(crate) fn says(line: &str, word: &str) -> bool {
    let begins = |at: usize| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && before != '_')
    };
    let punctuated = word.starts_with('.');
    line.match_indices(word)
        .any(|(at, _)| punctuated || begins(at))
}

#[test]
fn a_banned_word_is_found_behind_the_tests_and_not_in_them() {
    let text = "//! x\nuse a; // tokio\nuse rtokio;\n#[cfg(test)]\nmod tests {\n    use tokio;\n}\nuse tokio::time;\n";
    let source = Source::read("bgp/src/x.rs", text);
    let rule = "a pure room knows no socket, thread, disk, environment or randomness";
    assert_eq!(
        faults([&source].into_iter()),
        [format!("bgp/src/x.rs:8: `tokio`: {rule}")]
    );
    let edge = Source::read("controller/src/speaker/x.rs", text);
    assert!(faults([&edge].into_iter()).is_empty());
}
