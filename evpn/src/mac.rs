//! A MAC address. Knows no route that carries it.

use std::fmt;
use std::str::FromStr;

/// An IEEE 802 MAC address, six octets as sent.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All ones.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// The six octets as a number.
    #[must_use]
    pub fn number(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// True for a group address: broadcast and every multicast address. IEEE 802, I/G bit.
    #[must_use]
    pub fn is_group(self) -> bool {
        let [first, ..] = self.0;
        first & 0x01 != 0
    }

    /// True for 00:00:00:00:00:00.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0 == [0; 6]
    }
}

/// `00:00:5e:00:53:01`, as FRR prints it.
impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        colons(&self.0, f)
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Mac {
    type Err = MacSyntax;

    fn from_str(text: &str) -> Result<Self, MacSyntax> {
        let octets = pairs(text).or_else(|| fours(text));
        octets.map(Self).ok_or(MacSyntax)
    }
}

/// Neither six pairs of hexadecimal digits with colons or hyphens between them, nor three groups of four with dots.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MacSyntax;

impl fmt::Display for MacSyntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a MAC address")
    }
}

impl std::error::Error for MacSyntax {}

/// Writes octets as pairs of hexadecimal digits with colons between them.
pub(crate) fn colons(octets: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, octet) in octets.iter().enumerate() {
        let colon = if at == 0 { "" } else { ":" };
        write!(f, "{colon}{octet:02x}")?;
    }
    Ok(())
}

/// Reads what [`colons`] writes; hyphens will do as well.
pub(crate) fn pairs<const N: usize>(text: &str) -> Option<[u8; N]> {
    let separator = if text.contains('-') { '-' } else { ':' };
    let mut octets = [0; N];
    let mut words = text.split(separator);
    for octet in &mut octets {
        let word = words.next()?;
        let digits = word.len() == 2 && word.bytes().all(|digit| digit.is_ascii_hexdigit());
        *octet = u8::from_str_radix(word, 16).ok().filter(|_| digits)?;
    }
    words.next().is_none().then_some(octets)
}

/// Reads three groups of four digits with dots between them, as EOS and IOS write them.
fn fours(text: &str) -> Option<[u8; 6]> {
    let digits = text.bytes().enumerate().all(|(at, octet)| match at {
        4 | 9 => octet == b'.',
        _ => octet.is_ascii_hexdigit(),
    });
    let number = u64::from_str_radix(&text.replace('.', ""), 16).ok()?;
    let [0, 0, octets @ ..] = number.to_be_bytes() else {
        return None;
    };
    (digits && text.len() == 14).then_some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_reads_what_it_writes() {
        let mac: Mac = "00:00:5E:00:53:af".parse().unwrap();
        assert_eq!(mac, Mac([0, 0, 0x5e, 0, 0x53, 0xaf]));
        assert_eq!(mac.to_string(), "00:00:5e:00:53:af");
        assert_eq!("00-00-5e-00-53-af".parse(), Ok(mac));
        assert_eq!("0000.5e00.53AF".parse(), Ok(mac));
        for bad in [
            "",
            "00:00:5e:00:53",
            "00:00:5e:00:53:af:01",
            "0:0:5e:0:53:af",
            "+0:00:5e:00:53:af",
            "00005e0053af",
            "0000.5e00.53a",
            "0000.5e00.53af.",
            "0000.5e.0053af",
            "+000.5e00.53af",
        ] {
            assert_eq!(bad.parse::<Mac>(), Err(MacSyntax), "{bad}");
        }
    }

    #[test]
    fn broadcast_is_a_group() {
        assert!(Mac::BROADCAST.is_group());
        assert!(Mac([1, 0, 0x5e, 0, 0, 1]).is_group());
        assert!(!Mac([2, 0, 0, 0, 0, 1]).is_group());
    }
}
