//! The notation of `cases.yaml`: octets that a person can read and get wrong on purpose. Knows lengths
//! and headers, and no rule of BGP.

use std::{collections::BTreeMap, net::Ipv4Addr};

use crate::failure::Failure;

/// Named pieces of notation.
pub(super) type Fragments = BTreeMap<String, String>;

/// What the words SELF, REPLICA and NUMBER stand for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) own: Ipv4Addr,
    pub(super) replica: Ipv4Addr,
    /// How often the same was said before.
    pub(super) number: u32,
}

/// What a bracket does with what is inside it.
#[derive(Debug, Clone, Copy)]
enum Bracket {
    /// The outermost, which nothing closes.
    Whole,
    /// A length of so many octets before it.
    Length(usize),
    /// A BGP header of this type before it. RFC 4271 §4.1.
    Message(u8),
}

/// The octets that a text means.
pub(super) fn octets(text: &str, fragments: &Fragments, ends: Ends) -> Result<Vec<u8>, Failure> {
    let mut open = vec![(Bracket::Whole, Vec::new())];
    read(text, fragments, ends, 0, &mut open)?;
    match open.pop() {
        Some((Bracket::Whole, octets)) => Ok(octets),
        _ => Err(Failure::new(format!("bracket without an end in `{text}`"))),
    }
}

type Open = Vec<(Bracket, Vec<u8>)>;

fn read(
    text: &str,
    fragments: &Fragments,
    ends: Ends,
    depth: usize,
    open: &mut Open,
) -> Result<(), Failure> {
    let bad = |word: &str| Failure::new(format!("`{word}` in `{text}`: no notation of octets"));
    for word in text.split_whitespace() {
        if let Some(bracket) = word.strip_suffix('{') {
            open.push((
                Bracket::named(bracket).ok_or_else(|| bad(word))?,
                Vec::new(),
            ));
            continue;
        }
        if word == "}" {
            let (bracket, inside) = open.pop().ok_or_else(|| bad(word))?;
            let (_, outside) = open.last_mut().ok_or_else(|| bad(word))?;
            outside.extend(bracket.head(inside.len()).ok_or_else(|| bad(word))?);
            outside.extend(inside);
            continue;
        }
        if let Some(fragment) = fragments.get(word) {
            if depth == DEPTH_MAX {
                return Err(Failure::new(format!("{word} contains itself")));
            }
            read(fragment, fragments, ends, depth + 1, open)?;
            continue;
        }
        let octets = plain(word, ends).ok_or_else(|| bad(word))?;
        open.last_mut().ok_or_else(|| bad(word))?.1.extend(octets);
    }
    Ok(())
}

fn plain(word: &str, ends: Ends) -> Option<Vec<u8>> {
    match word {
        "SELF" => return Some(ends.own.octets().to_vec()),
        "REPLICA" => return Some(ends.replica.octets().to_vec()),
        "NUMBER" => return Some(ends.number.to_be_bytes().to_vec()),
        _ => {}
    }
    if let Some(quoted) = word.strip_prefix('\'') {
        return Some(quoted.strip_suffix('\'')?.as_bytes().to_vec());
    }
    match word.split_once('*') {
        Some((times, digits)) => Some(hex(digits)?.repeat(times.parse().ok()?)),
        None => hex(word),
    }
}

/// Octets in hex, lower case so that no name can look like them.
pub(super) fn hex(digits: &str) -> Option<Vec<u8>> {
    let lower = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    if !digits.len().is_multiple_of(2) || !digits.chars().all(lower) {
        return None;
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok())
        .collect()
}

impl Bracket {
    fn named(name: &str) -> Option<Self> {
        match name {
            "1" => Some(Self::Length(1)),
            "2" => Some(Self::Length(2)),
            "open" => Some(Self::Message(1)),
            "update" => Some(Self::Message(2)),
            "notification" => Some(Self::Message(3)),
            "keepalive" => Some(Self::Message(4)),
            "refresh" => Some(Self::Message(5)),
            _ => None,
        }
    }

    /// What stands before `length` octets.
    fn head(self, length: usize) -> Option<Vec<u8>> {
        match self {
            Self::Whole => None,
            Self::Length(1) => Some(vec![u8::try_from(length).ok()?]),
            Self::Length(_) => Some(u16::try_from(length).ok()?.to_be_bytes().to_vec()),
            Self::Message(kind) => {
                let length = u16::try_from(length + HEADER_LEN).ok()?;
                let mut head = vec![0xff; 16];
                head.extend(length.to_be_bytes());
                head.push(kind);
                Some(head)
            }
        }
    }
}

/// Octets of a BGP header. RFC 4271 §4.1.
pub(super) const HEADER_LEN: usize = 19;

/// Fragments in fragments; more is a circle.
const DEPTH_MAX: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: Ends = Ends {
        own: Ipv4Addr::new(192, 0, 2, 1),
        replica: Ipv4Addr::new(192, 0, 2, 2),
        number: 258,
    };

    fn meant(text: &str) -> Result<Vec<u8>, Failure> {
        let fragments = [("ID", "1{ SELF }"), ("LOOP", "LOOP")];
        let fragments = fragments.map(|(name, text)| (name.to_owned(), text.to_owned()));
        octets(text, &fragments.into(), ENDS)
    }

    #[test]
    fn lengths_and_headers_are_counted() {
        assert_eq!(meant("0a 2*00ff 'Hi'").unwrap(), *b"\x0a\0\xff\0\xffHi");
        assert_eq!(
            meant("2{ 01 ID REPLICA }").unwrap(),
            [0, 10, 1, 4, 192, 0, 2, 1, 192, 0, 2, 2]
        );
        assert_eq!(meant("NUMBER").unwrap(), [0, 0, 1, 2]);
        let keepalive = meant("keepalive{ }").unwrap();
        assert_eq!((keepalive.len(), &keepalive[16..]), (19, &[0, 19, 4][..]));
    }

    #[test]
    fn what_means_nothing_is_named() {
        for bad in ["0", "AB", "1{ 00", "}", "3{ }", "'a b'", "x*00", "LOOP"] {
            assert!(meant(bad).is_err(), "{bad}");
        }
    }
}
