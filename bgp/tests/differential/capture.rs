//! The captured vectors: octets of other speakers, and what tshark says of them. It knows no message;
//! see `vectors/captures/README.md` for the format.

use std::fs;
use std::path::Path;

use weft_bgp::capability::AddPathSet;
use weft_bgp::family::Family;
use weft_bgp::message::DecodeContext;

/// One message that a speaker sent.
#[derive(Debug)]
pub(crate) struct Captured {
    /// File and line.
    pub(crate) place: String,
    /// What was negotiated.
    pub(crate) ctx: DecodeContext,
    /// Header included.
    pub(crate) octets: Vec<u8>,
    /// What tshark says, unless it cannot.
    pub(crate) said: Option<Vec<String>>,
}

/// All of them.
pub(crate) fn all() -> Vec<Captured> {
    let folder = Path::new("../bgp/tests/vectors/captures");
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let name = path.file_name().unwrap().to_str().unwrap();
            read(name, &fs::read_to_string(&path).unwrap(), &mut all);
        }
    }
    assert!(all.len() > 300, "{} messages", all.len());
    all
}

fn read(name: &str, text: &str, all: &mut Vec<Captured>) {
    let mut lines = text.lines();
    for key in ["author", "command", "decoder"] {
        let line = lines.next().unwrap();
        assert!(line.starts_with(&format!("# {key}: ")), "{name}: {line}");
    }
    for (number, line) in text.lines().enumerate().skip(3) {
        if let Some(context) = line.strip_prefix("message") {
            all.push(Captured {
                place: format!("{name}:{}", number + 1),
                ctx: context_of(context),
                octets: Vec::new(),
                said: Some(Vec::new()),
            });
        }
        let Some(last) = all.last_mut() else { continue };
        if let Some(digits) = line.strip_prefix("  ") {
            last.octets.extend(hex(digits));
        } else if line.starts_with("tshark cannot") {
            last.said = None;
        } else if let (Some(said), false) = (&mut last.said, line.starts_with("message")) {
            said.extend((!line.is_empty()).then(|| line.to_owned()));
        }
    }
}

fn context_of(words: &str) -> DecodeContext {
    let has = |wanted: &str| words.split_whitespace().any(|word| word == wanted);
    let families = [
        ("add-path=1/1", Family::IPV4_UNICAST),
        ("add-path=2/1", Family::IPV6_UNICAST),
        ("add-path=25/70", Family::L2VPN_EVPN),
    ];
    let add_path = families.into_iter().filter(|(word, _)| has(word));
    DecodeContext {
        four_octet_as: has("four-octet-as"),
        ibgp: has("ibgp"),
        extended_message: has("extended-message"),
        add_path: AddPathSet::of(add_path.map(|(_, family)| family)),
    }
}

fn hex(digits: &str) -> impl Iterator<Item = u8> {
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
}
