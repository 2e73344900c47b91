//! What a switch hears from its neighbours by LLDP against the declared fabric: a link to the wrong switch or port is
//! miswired. It refuses to know topologies, and to trust a neighbour: what that says is shown cut, and decides nothing
//! but this verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::sample::{Interface, Neighbor, Sample};
use crate::text::{SHOWN_MAX, plain};

/// The other end of a declared link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The name of the switch.
    pub switch: Arc<str>,
    /// The name of its interface.
    pub interface: Arc<str>,
}

/// What LLDP says of one end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The neighbour is the declared one.
    Match,
    /// The neighbour is another switch, or another port of the declared one.
    Miswired {
        /// As declared.
        expected: Expected,
        /// As heard.
        seen: Neighbor,
    },
    /// LLDP does not tell.
    Unknown(Why),
    /// Several neighbours, not all of them the declared one: a hub between, or one that has not expired yet.
    Ambiguous(Vec<Neighbor>),
}

/// Why LLDP does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The switch does not serve LLDP.
    NotServed,
    /// No neighbour was heard yet.
    NotHeard,
    /// No link is declared at this interface.
    NotDeclared,
    /// The neighbour does not tell its system name.
    Nameless,
    /// The neighbour is the declared switch, and calls its port by something that is no interface's name.
    PortUnnamed,
}

/// Judges every interface that has a declared link or a neighbour. `declared`: the other end, by the interface of this
/// switch.
#[must_use]
pub fn judge(
    declared: &BTreeMap<Arc<str>, Expected>,
    sample: &Sample,
) -> BTreeMap<Arc<str>, Verdict> {
    let heard = sample.interfaces.iter();
    let heard = heard.filter(|(_, interface)| !interface.neighbors.is_empty());
    let names: BTreeSet<&Arc<str>> = declared.keys().chain(heard.map(|(name, _)| name)).collect();
    let verdict = |name: &Arc<str>| {
        let interface = sample.interfaces.get(name);
        match declared.get(name) {
            None => Verdict::Unknown(Why::NotDeclared),
            Some(_) if !sample.has_lldp => Verdict::Unknown(Why::NotServed),
            Some(expected) => of_interface(expected, interface),
        }
    };
    let verdicts = names
        .into_iter()
        .map(|name| (Arc::clone(name), verdict(name)));
    verdicts.collect()
}

/// What both ends together say of a link: miswired if either says so.
#[must_use]
pub fn link(a: &Verdict, b: &Verdict) -> Verdict {
    let rank = |verdict: &Verdict| match verdict {
        Verdict::Miswired { .. } => 3,
        Verdict::Ambiguous(_) => 2,
        Verdict::Match => 1,
        Verdict::Unknown(_) => 0,
    };
    if rank(b) > rank(a) { b } else { a }.clone()
}

fn of_interface(expected: &Expected, interface: Option<&Interface>) -> Verdict {
    let neighbors = interface.map(|interface| &interface.neighbors);
    // One neighbour may be listed twice: by another protocol, or under its next id.
    let neighbors: BTreeSet<&Neighbor> = neighbors.into_iter().flat_map(BTreeMap::values).collect();
    let verdicts = neighbors
        .iter()
        .map(|neighbor| of_neighbor(expected, neighbor));
    let mut verdicts: Vec<Verdict> = verdicts.collect();
    let all_match = verdicts.iter().all(|verdict| *verdict == Verdict::Match);
    match verdicts.pop() {
        None => Verdict::Unknown(Why::NotHeard),
        Some(verdict) if verdicts.is_empty() || all_match => verdict,
        Some(_) => Verdict::Ambiguous(neighbors.into_iter().cloned().collect()),
    }
}

fn of_neighbor(expected: &Expected, seen: &Neighbor) -> Verdict {
    let miswired = || Verdict::Miswired {
        expected: expected.clone(),
        seen: seen.clone(),
    };
    let Some(system_name) = seen.system_name.as_deref().filter(|name| !name.is_empty()) else {
        return Verdict::Unknown(Why::Nameless);
    };
    if !is_same_switch(&expected.switch, system_name) {
        return miswired();
    }
    let texts = [&seen.port_id, &seen.port_description];
    let mut texts = texts.into_iter().flatten();
    if texts.any(|text| is_same_interface(&expected.interface, text)) {
        return Verdict::Match;
    }
    let id = seen.port_id.as_deref().unwrap_or_default();
    let description = seen.port_description.as_deref().unwrap_or_default();
    // A port id may be a MAC address or a number, and a description anything that somebody wrote: only what looks like the
    // name of an interface names another one.
    let is_other = is_interface(id)
        || (is_interface(description) && is_alike(&expected.interface, description));
    match is_other {
        true => miswired(),
        false => Verdict::Unknown(Why::PortUnnamed),
    }
}

/// Whether both name one switch; one of them may be fully qualified.
#[must_use]
pub fn is_same_switch(declared: &str, heard: &str) -> bool {
    let equal = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    let first = |name: &'_ str| name.split('.').next().unwrap_or_default().to_owned();
    let is_short = |name: &str| !name.contains('.');
    equal(declared, heard)
        || (is_short(declared) && equal(declared, &first(heard)))
        || (is_short(heard) && equal(&first(declared), heard))
}

/// Whether both name one interface; its kind may be cut short, as in Et1 for Ethernet1.
fn is_same_interface(declared: &str, heard: &str) -> bool {
    if declared.eq_ignore_ascii_case(heard) {
        return true;
    }
    let (a, b) = (kind(declared), kind(heard));
    let short = a.0.len().min(b.0.len());
    a.1 == b.1
        && !a.1.is_empty()
        && short >= KIND_MIN
        && a.0
            .bytes()
            .zip(b.0.bytes())
            .all(|(a, b)| a.eq_ignore_ascii_case(&b))
}

/// Whether both are of one kind: an interface that a description names, beside one that is declared.
fn is_alike(declared: &str, heard: &str) -> bool {
    kind(declared).0.eq_ignore_ascii_case(kind(heard).0)
}

/// The letters that an interface's name begins with, and the rest.
fn kind(name: &str) -> (&str, &str) {
    let end = name.find(|character: char| !character.is_ascii_alphabetic());
    name.split_at(end.unwrap_or(name.len()))
}

/// Whether a text looks like the name of an interface: letters, then a number somewhere, no space, no MAC address.
fn is_interface(text: &str) -> bool {
    let digits = |text: &str| text.contains(|character: char| character.is_ascii_digit());
    let (letters, rest) = kind(text);
    letters.len() >= KIND_MIN && digits(rest) && !text.contains(' ') && !is_mac(text)
}

/// `00:00:5e:00:53:01`, `0000.5e00.5301`, or without anything between.
fn is_mac(text: &str) -> bool {
    let hex = text.chars().filter(|character| !":-.".contains(*character));
    let hex: Vec<char> = hex.collect();
    hex.len() == 12 && hex.iter().all(char::is_ascii_hexdigit)
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.switch, self.interface)
    }
}

/// Every part cut to 64 octets.
impl fmt::Display for Neighbor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &Option<Arc<str>>| plain(text.as_deref().unwrap_or("?"), SHOWN_MAX);
        let name = self.system_name.as_ref().or(self.chassis_id.as_ref());
        write!(f, "{}:{}", text(&name.cloned()), text(&self.port_id))?;
        match &self.port_description {
            Some(_) => write!(f, " ({})", text(&self.port_description)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotServed => "the switch does not serve LLDP",
            Self::NotHeard => "no neighbour heard",
            Self::NotDeclared => "no link declared",
            Self::Nameless => "the neighbour tells no system name",
            Self::PortUnnamed => "the neighbour tells no interface name",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Match => f.write_str("as declared"),
            Self::Miswired { expected, seen } => {
                write!(f, "miswired: expected {expected}, LLDP hears {seen}")
            }
            Self::Unknown(why) => write!(f, "unknown: {why}"),
            Self::Ambiguous(seen) => {
                write!(f, "ambiguous: {} neighbours", seen.len())?;
                let mut seen = seen.iter().take(NEIGHBORS_SHOWN_MAX);
                seen.try_for_each(|seen| write!(f, ", {seen}"))
            }
        }
    }
}

/// Letters of the kind of an interface: et, ge, xe, lo.
const KIND_MIN: usize = 2;

/// Neighbours in one text.
const NEIGHBORS_SHOWN_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expected() -> Expected {
        Expected {
            switch: "spine1".into(),
            interface: "Ethernet1/2".into(),
        }
    }

    fn neighbor(name: &str, port: &str, description: &str) -> Neighbor {
        let text = |text: &str| (!text.is_empty()).then(|| text.into());
        Neighbor {
            chassis_id: Some("00:00:5e:00:53:01".into()),
            system_name: text(name),
            port_id: text(port),
            port_description: text(description),
        }
    }

    fn heard(neighbors: &[Neighbor]) -> Sample {
        let neighbors = (1..).zip(neighbors);
        let neighbors = neighbors.map(|(id, it)| (id.to_string().into(), it.clone()));
        let interface = Interface {
            neighbors: neighbors.collect(),
            ..Interface::default()
        };
        Sample {
            interfaces: [("eth1".into(), interface)].into(),
            has_lldp: true,
            ..Sample::default()
        }
    }

    fn verdict(neighbors: &[Neighbor]) -> Verdict {
        let declared = [("eth1".into(), expected())].into();
        judge(&declared, &heard(neighbors))["eth1"].clone()
    }

    /// A case, the neighbour's name, port and description, and the verdict.
    #[rustfmt::skip]
    const CASES: [(&str, &str, &str, &str, &str); 18] = [
        ("as declared", "spine1", "Ethernet1/2", "", "match"),
        ("in another case", "SPINE1", "ethernet1/2", "", "match"),
        ("fully qualified", "spine1.example.net", "Ethernet1/2", "", "match"),
        ("cut short", "spine1", "Eth1/2", "", "match"),
        ("cut shorter", "spine1", "Et1/2", "", "match"),
        ("a MAC address, and a description", "spine1", "00:00:5e:00:53:02", "Ethernet1/2", "match"),
        ("a number, and a description", "spine1", "516", "Ethernet1/2", "match"),
        ("another switch", "spine2", "Ethernet1/2", "", "miswired"),
        ("a longer name", "spine11", "Ethernet1/2", "", "miswired"),
        ("another port", "spine1", "Ethernet1/3", "", "miswired"),
        ("a longer number", "spine1", "Ethernet1/22", "", "miswired"),
        ("a number, and another description", "spine1", "516", "Ethernet1/3", "miswired"),
        ("only a MAC address", "spine1", "00:00:5e:00:53:02", "", "port unnamed"),
        ("a MAC address of letters", "spine1", "fade.cafe.ad01", "", "port unnamed"),
        ("a MAC address, and words", "spine1", "00:00:5e:00:53:02", "to leaf1 port 3", "port unnamed"),
        ("no port", "spine1", "", "", "port unnamed"),
        ("no name", "", "Ethernet1/2", "", "nameless"),
        ("a name with a control character", "spine1\u{0}", "Ethernet1/2", "", "miswired"),
    ];

    #[test]
    fn one_neighbour() {
        let long = "spine1".repeat(1_700);
        let long = ("a name of 10 kB", &*long, "Ethernet1/2", "", "miswired");
        for (case, name, port, description, expected) in CASES.into_iter().chain([long]) {
            let found = match verdict(&[neighbor(name, port, description)]) {
                Verdict::Match => "match",
                Verdict::Miswired { .. } => "miswired",
                Verdict::Unknown(Why::PortUnnamed) => "port unnamed",
                Verdict::Unknown(Why::Nameless) => "nameless",
                Verdict::Unknown(_) => "unknown",
                Verdict::Ambiguous(_) => "ambiguous",
            };
            assert_eq!(found, expected, "{case}");
        }
    }

    #[test]
    fn no_neighbour_and_several() {
        let right = neighbor("spine1", "Ethernet1/2", "");
        let wrong = neighbor("spine2", "Ethernet1/2", "");
        assert_eq!(verdict(&[]), Verdict::Unknown(Why::NotHeard));
        assert_eq!(verdict(&[right.clone(), right.clone()]), Verdict::Match);
        let qualified = neighbor("spine1.example.net", "Ethernet1/2", "");
        assert_eq!(verdict(&[right.clone(), qualified]), Verdict::Match);
        let both = verdict(&[right.clone(), wrong.clone()]);
        assert_eq!(both, Verdict::Ambiguous(vec![right, wrong.clone()]));
        assert!(matches!(
            verdict(&[wrong.clone(), wrong]),
            Verdict::Miswired { .. }
        ));
    }

    #[test]
    fn what_is_not_declared_or_not_served_is_unknown() {
        let sample = heard(&[neighbor("host7", "eth0", "")]);
        let verdicts = judge(&BTreeMap::new(), &sample);
        assert_eq!(verdicts["eth1"], Verdict::Unknown(Why::NotDeclared));
        let declared = [("eth7".into(), expected())].into();
        let verdicts = judge(&declared, &sample);
        assert_eq!(verdicts["eth7"], Verdict::Unknown(Why::NotHeard));
        let verdicts = judge(&declared, &Sample::default());
        assert_eq!(verdicts["eth7"], Verdict::Unknown(Why::NotServed));
    }

    #[test]
    fn a_link_is_miswired_when_either_end_says_so() {
        let unknown = Verdict::Unknown(Why::NotHeard);
        let miswired = verdict(&[neighbor("spine2", "Ethernet1/2", "")]);
        let ambiguous = Verdict::Ambiguous(Vec::new());
        let table = [
            (&unknown, &miswired, &miswired),
            (&Verdict::Match, &miswired, &miswired),
            (&ambiguous, &miswired, &miswired),
            (&Verdict::Match, &ambiguous, &ambiguous),
            (&Verdict::Match, &unknown, &Verdict::Match),
            (&unknown, &unknown, &unknown),
        ];
        for (a, b, expected) in table {
            assert_eq!(link(a, b), *expected);
            assert_eq!(link(b, a), *expected);
        }
    }

    #[test]
    fn a_verdict_is_shown_cut_and_plain() {
        let long = "x\u{1b}]0;".repeat(2_500);
        let shown = verdict(&[neighbor(&long, &long, &long)]).to_string();
        assert!(shown.len() < 300, "{shown}");
        assert!(!shown.contains(char::is_control));
        let shown = verdict(&[neighbor("spine2", "Ethernet9", "to leaf1")]).to_string();
        let expected =
            "miswired: expected spine1:Ethernet1/2, LLDP hears spine2:Ethernet9 (to leaf1)";
        assert_eq!(shown, expected);
    }

    proptest! {
        #[test]
        fn no_neighbour_breaks_the_judge(
            neighbors in proptest::collection::vec((".{0,40}", ".{0,40}", ".{0,40}"), 0..5),
        ) {
            let neighbors: Vec<_> = neighbors.iter().map(|(a, b, c)| neighbor(a, b, c)).collect();
            let shown = verdict(&neighbors).to_string();
            prop_assert!(!shown.contains(char::is_control));
            prop_assert!(shown.len() < 1_200);
        }

        #[test]
        fn only_the_declared_switch_matches(name in "[a-z0-9.]{1,12}", port in "[A-Za-z]{1,8}[0-9/]{0,4}") {
            if verdict(&[neighbor(&name, &port, "")]) == Verdict::Match {
                prop_assert!(name == "spine1" || name.starts_with("spine1."));
                prop_assert!(port.ends_with("1/2"));
            }
        }
    }
}
