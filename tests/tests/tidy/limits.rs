//! Limits that pages and interfaces quote are those of the code. Knows phrases and constants.

use std::collections::BTreeMap;

use syn::{BinOp, Expr, Lit};

use crate::report;
use crate::source::Source;
use crate::tree;

/// A limit and one phrase that quotes it.
struct Quote {
    /// Beginning of the paths of the files; a file, or a folder.
    within: &'static str,
    /// `{}` stands for the number. Lines are joined by a space, without the marks of comments.
    phrase: &'static str,
    source: &'static str,
    constant: &'static str,
    /// Size of the unit in the phrase, in units of the constant.
    unit: u128,
}

const KIB: u128 = 1 << 10;
const MIB: u128 = 1 << 20;

const CHANGE: &str = "controller/src/operator/fabric/change.rs";
const AGREED: &str = "controller/src/operator/agreed.rs";
const PAGE: &str = "controller/src/operator/page.rs";
const LIMITS: &str = "controller/src/fabric/fact/limits.rs";
const JOB: &str = "controller/src/fabric/fact/job.rs";
const CHECK: &str = "controller/src/fabric/topology/check.rs";
const SIMULATE: &str = "controller/src/operator/plans/simulate.rs";
const HISTORY: &str = "controller/src/reflector/history.rs";
const RIB: &str = "controller/agent/src/rib.rs";
const BOUNDS: &str = "controller/src/door/bounds.rs";

#[rustfmt::skip]
const QUOTES: &[Quote] = &[
    Quote { within: "proto/weft/v1/fabric.proto", phrase: "within the next {} changes", source: CHANGE, constant: "REQUESTS_MAX", unit: 1 },
    Quote { within: "proto/python/src/weft/client.py", phrase: "{} changes of the fabric", source: CHANGE, constant: "REQUESTS_MAX", unit: 1 },
    Quote { within: "proto/python/README.md", phrase: "{} changes of the fabric", source: CHANGE, constant: "REQUESTS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/job.proto", phrase: "within the next {} changes of jobs", source: AGREED, constant: "CALLS_MAX", unit: 1 },
    Quote { within: "proto/python/src/weft/client.py", phrase: "{} changes of jobs", source: AGREED, constant: "CALLS_MAX", unit: 1 },
    Quote { within: "proto/python/README.md", phrase: "{} changes of jobs", source: AGREED, constant: "CALLS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/fabric.proto", phrase: "remembers no more resources: {} changed", source: CHANGE, constant: "EDITS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/", phrase: "At most this many, {} and", source: PAGE, constant: "SIZE_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/", phrase: "and {} MiB; 0:", source: PAGE, constant: "OCTETS_MAX", unit: MIB },
    Quote { within: "proto/weft/v1/", phrase: "MiB; 0: {}.", source: PAGE, constant: "SIZE_DEFAULT", unit: 1 },
    Quote { within: "proto/weft/v1/config.proto", phrase: "as much as fits into {} MiB", source: PAGE, constant: "OCTETS_MAX", unit: MIB },
    Quote { within: "proto/weft/v1/config.proto", phrase: "the values of this many subjects, {};", source: "controller/src/operator/config.rs", constant: "SUBJECTS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/config.proto", phrase: "; 0: {}.", source: "controller/src/operator/config.rs", constant: "SUBJECTS", unit: 1 },
    Quote { within: "proto/weft/v1/", phrase: "as many as fit into {} octets", source: "controller/src/operator/refusal.rs", constant: "DETAILS_OCTETS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/watch.proto", phrase: "this replica has {} already", source: "controller/src/operator/watch.rs", constant: "WATCHERS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/watch.proto", phrase: "with one of these names, at most {}", source: "controller/src/operator/watch/board.rs", constant: "NAMES_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/watch.proto", phrase: "these addresses or router ids, at most {};", source: "controller/src/operator/watch/board.rs", constant: "NAMES_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/job.proto", phrase: "There are at most {}, and all of them", source: CHECK, constant: "JOBS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/job.proto", phrase: "all of them take at most {} MiB of memory", source: CHECK, constant: "JOBS_OCTETS_MAX", unit: MIB },
    Quote { within: "proto/weft/v1/job.proto", phrase: "may share one. At most {}.", source: JOB, constant: "RANKS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/job.proto", phrase: "What ranks do together. At most {}.", source: JOB, constant: "GROUPS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/job.proto", phrase: "What else is sent. At most {}.", source: JOB, constant: "FLOWS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/job.proto", phrase: "the square of its ranks, at most {}.", source: JOB, constant: "PAIR_OCTETS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/", phrase: "and single '-', at most {}.", source: LIMITS, constant: "NAME_OCTETS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/fabric.proto", phrase: "as its weight says; 2 to {}.", source: LIMITS, constant: "GROUP_MEMBERS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/fabric.proto", phrase: "the weights of one group, 2 to {}.", source: LIMITS, constant: "GROUP_WIDTH_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/fabric.proto", phrase: "0: none is pinned. At most {}.", source: LIMITS, constant: "PINS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/fabric.proto", phrase: "Next-hop groups for weights, 1 to {}:", source: LIMITS, constant: "GROUPS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/fabric.proto", phrase: "VNI of the port, 1 to {};", source: LIMITS, constant: "VNI_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/peer.proto", phrase: "within the next {} resets", source: "controller/src/operator/once.rs", constant: "KNOWN_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/peer.proto", phrase: "within the next {} refreshes", source: "controller/src/operator/once.rs", constant: "KNOWN_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/simulation.proto", phrase: "whose links carry nothing. At most {}.", source: SIMULATE, constant: "NAMES_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/simulation.proto", phrase: "the answer has more than {} MiB", source: SIMULATE, constant: "ANSWER_OCTETS_MAX", unit: MIB },
    Quote { within: "proto/weft/v1/simulation.proto", phrase: "largest share first; at most {}.", source: SIMULATE, constant: "LOADS_MAX", unit: 1 },
    Quote { within: "proto/weft/v1/plan.proto", phrase: "in order of their names; the first {}.", source: "controller/src/balancer/pins/times.rs", constant: "SETS_NAMED", unit: 1 },
    Quote { within: "proto/weft/v1/plan.proto", phrase: "in some direction, at most {} of them", source: "controller/src/balancer/pins/certificate.rs", constant: "TIGHT_NAMED", unit: 1 },
    Quote { within: "controller/README.md", phrase: "octets of requests in flight | {} MiB", source: BOUNDS, constant: "OCTETS_MAX", unit: MIB },
    Quote { within: "controller/README.md", phrase: "octets of requests in flight of one address | {} MiB", source: BOUNDS, constant: "OCTETS_PER_ADDRESS", unit: MIB },
    Quote { within: "controller/README.md", phrase: "A declared fabric has at most {} ways", source: CHECK, constant: "WAYS_MAX", unit: 1 },
    Quote { within: "controller/README.md", phrase: "times the other leaves), {} links", source: CHECK, constant: "LINKS_MAX", unit: 1 },
    Quote { within: "controller/README.md", phrase: "links and {} host ports. An apply", source: CHECK, constant: "HOST_PORTS_MAX", unit: 1 },
    Quote { within: "controller/README.md", phrase: "differences have more than {} KiB", source: "controller/src/operator/fabric/stage.rs", constant: "BATCH_OCTETS", unit: KIB },
    Quote { within: "controller/README.md", phrase: "routes and {} MiB of path attributes", source: "controller/src/config/group.rs", constant: "ATTRIBUTE_OCTETS_TOTAL", unit: MIB },
    Quote { within: "controller/README.md", phrase: "has at most {} routes and", source: "controller/src/config/group.rs", constant: "ROUTES", unit: 1 },
    Quote { within: "controller/README.md", phrase: "the last {} changes of a family", source: "controller/src/reflector/news.rs", constant: "CHANGES_MAX", unit: 1 },
    Quote { within: "controller/README.md", phrase: "pins remembers their last {} MiB", source: HISTORY, constant: "PIN_OCTETS_MAX", unit: MIB },
    Quote { within: "controller/README.md", phrase: "decisions remembers the last {} MiB", source: HISTORY, constant: "DECISION_OCTETS_MAX", unit: MIB },
    Quote { within: "controller/agent/README.md", phrase: "Not more than {} prefixes", source: RIB, constant: "PREFIXES_MAX", unit: 1 },
    Quote { within: "controller/agent/README.md", phrase: "prefixes, {} next hops", source: RIB, constant: "NEXT_HOPS_MAX", unit: 1 },
    Quote { within: "controller/agent/README.md", phrase: "next hops and {} groups", source: RIB, constant: "GROUPS_MAX", unit: 1 },
    Quote { within: "controller/agent/README.md", phrase: "Of connections there are at most {},", source: "controller/agent/src/listener.rs", constant: "CONNECTIONS_MAX", unit: 1 },
    Quote { within: "controller/agent/README.md", phrase: "At most 64 paths, and {} leaves", source: "controller/agent/src/openconfig/write.rs", constant: "LEAVES_MAX", unit: 1 },
];

#[test]
fn quoted_limits_are_those_of_the_code() {
    let endings = [".proto", ".py", ".md"];
    let pages = endings.iter().flat_map(|ending| tree::files(ending));
    let pages: BTreeMap<_, _> = pages.map(|(path, text)| (path, joined(&text))).collect();
    report(&faults(QUOTES, &pages, tree::sources()));
}

fn faults(quotes: &[Quote], pages: &BTreeMap<String, String>, sources: &[Source]) -> Vec<String> {
    let mut faults = Vec::new();
    for quote in quotes {
        let Quote {
            within,
            phrase,
            source,
            constant,
            unit,
        } = quote;
        let Some(value) = constant_of(sources, source, constant) else {
            faults.push(format!(
                "{source}: no constant {constant}, whose value {within} quotes"
            ));
            continue;
        };
        let mut quoted = false;
        let of = |(path, _): &(&String, &String)| path.starts_with(within);
        for (path, page) in pages.iter().filter(of) {
            for number in numbers(page, phrase) {
                quoted = true;
                if number * unit != value {
                    faults.push(format!(
                        "{path}: \"{}\", but {constant} in {source} is {value}",
                        phrase.replace("{}", &number.to_string())
                    ));
                }
            }
        }
        if !quoted {
            faults.push(format!(
                "{within}: no \"{phrase}\": tidy's table of limits names the phrase that quotes {constant}"
            ));
        }
    }
    faults
}

fn constant_of(sources: &[Source], path: &str, name: &str) -> Option<u128> {
    let source = sources.iter().find(|source| source.path == path)?;
    let mut constants = source.items.constants.iter();
    constants.find_map(|(constant, value)| (constant == name).then_some(*value))
}

/// Returns a text in one line, without marks of comments.
fn joined(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.trim();
        let rest = ["//", "#"].iter().find_map(|mark| line.strip_prefix(mark));
        rest.unwrap_or(line).trim()
    });
    lines.collect::<Vec<_>>().join(" ")
}

/// Lists the numbers that a page has in a phrase.
fn numbers(page: &str, phrase: &str) -> Vec<u128> {
    let (before, after) = phrase.split_once("{}").expect("a phrase has a number");
    let is_digit = |character: char| character.is_ascii_digit() || character == ',';
    let places = if before.is_empty() { after } else { before };
    let mut numbers = Vec::new();
    for (at, _) in page.match_indices(places) {
        let (number, rest) = if before.is_empty() {
            let begin = page[..at].trim_end_matches(is_digit).len();
            (&page[begin..at], after)
        } else {
            let text = &page[at + before.len()..];
            let end = text.find(|end| !is_digit(end)).unwrap_or(text.len());
            // A comma behind the number is the sentence's.
            let end = text[..end].trim_end_matches(',').len();
            (&text[..end], &text[end..])
        };
        if let Ok(number) = number.replace(',', "").parse()
            && rest.starts_with(after)
        {
            numbers.push(number);
        }
    }
    numbers
}

/// Computes a constant: literals, arithmetic, constants of the same file before it, and the number in `Duration::from_secs`.
pub(crate) fn value(of: &Expr, known: &impl Fn(&str) -> Option<u128>) -> Option<u128> {
    match of {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        Expr::Paren(inner) => value(&inner.expr, known),
        Expr::Cast(inner) => value(&inner.expr, known),
        Expr::Path(path) => known(&path.path.get_ident()?.to_string()),
        Expr::Binary(binary) => {
            let (left, right) = (value(&binary.left, known)?, value(&binary.right, known)?);
            match binary.op {
                BinOp::Add(_) => left.checked_add(right),
                BinOp::Sub(_) => left.checked_sub(right),
                BinOp::Mul(_) => left.checked_mul(right),
                BinOp::Div(_) => left.checked_div(right),
                BinOp::Shl(_) => left.checked_shl(right.try_into().ok()?),
                _ => None,
            }
        }
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) if path.path.segments.last()?.ident == "from_secs" => {
                value(call.args.first()?, known)
            }
            _ => None,
        },
        _ => None,
    }
}

#[test]
fn a_quote_that_drifted_and_one_that_is_gone_are_faults() {
    let text = "#[cfg(test)] mod tests {}\nconst KEPT: u64 = 1_000;\nconst OCTETS: usize = 2 * (KEPT as usize) << 10;\nconst TIME: Duration = Duration::from_secs(30);";
    let source = [Source::read("a/src/x.rs", text)];
    let quote = |within, phrase, constant, unit| Quote {
        within,
        phrase,
        source: "a/src/x.rs",
        constant,
        unit,
    };
    let page = |text: &str| BTreeMap::from([("p/a.proto".to_owned(), joined(text))]);
    let good = page("// At most this\n// many, 1,000, of 2,000 KiB.\n// Within 30 s");
    let quotes = [
        quote("p/a.proto", "many, {}, of", "KEPT", 1),
        quote("p/", "{} KiB", "OCTETS", KIB),
        quote("p/", "Within {} s", "TIME", 1),
    ];
    assert!(faults(&quotes, &good, &source).is_empty());
    let bad = page("// many, 1,000, of: many, 10,000, of 1 KiB. Within some s");
    let faults = faults(&quotes, &bad, &source);
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert!(faults[0].contains("many, 10000, of"), "{faults:?}");
    assert!(faults[2].contains("no \"Within {} s\""), "{faults:?}");
    let unknown = quote("p/", "{} KiB", "GONE", 1);
    assert_eq!(super::limits::faults(&[unknown], &good, &source).len(), 1);
}
