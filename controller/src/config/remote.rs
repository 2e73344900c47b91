//! A remote end as an operator writes it: an address or a name, and a port. Knows no resolver.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::Deserialize;

/// The remote end of a connection that weft dials.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub enum Remote {
    /// An address and a port.
    Address(SocketAddr),
    /// A name, which is resolved again at each dial.
    Name {
        /// Name in the DNS or in the files of the host, in lower case (RFC 4343).
        host: String,
        /// TCP port.
        port: u16,
    },
}

/// A text that is no remote end.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is neither an address with a port, such as \"192.0.2.1:7400\" or \"[2001:db8::1]:7400\", nor a name with a port, such as \
     \"weft-1.example.net:7400\""
)]
pub struct NotRemote(String);

impl FromStr for Remote {
    type Err = NotRemote;

    fn from_str(text: &str) -> Result<Self, NotRemote> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let (host, port) = text.rsplit_once(':').unwrap_or_default();
        match port.parse::<u16>() {
            Ok(port) if port > 0 && is_name(host) => Ok(Self::Name {
                host: host.to_ascii_lowercase(),
                port,
            }),
            Ok(_) | Err(_) => Err(NotRemote(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Remote {
    type Error = NotRemote;

    fn try_from(text: String) -> Result<Self, NotRemote> {
        text.parse()
    }
}

impl From<SocketAddr> for Remote {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// True if a host may be called so. A last label of digits is a mistake in an address (RFC 1123 §2.1). The DNS has names
/// with `_`, and so do containers.
fn is_name(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_letter = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
    let is_label =
        |label: &str| (1..=LABEL_MAX).contains(&label.len()) && label.bytes().all(is_letter);
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= NAME_MAX
        && host.split('.').all(is_label)
        && !last.bytes().all(|octet| octet.is_ascii_digit())
}

/// Octets of a label (RFC 1035 §2.3.4).
const LABEL_MAX: usize = 63;
/// Octets of a name as text, without the dot at its end.
pub(super) const NAME_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_read_and_written() {
        let long = format!("{}:1", ["a"; 127].join("."));
        for text in [
            "192.0.2.1:7400",
            "[2001:db8::1]:7400",
            "weft-1.weft.example.net:7400",
            "weft-1:7400",
            "weft_1:1",
            "weft-1.example.net.:65535",
            "1a:7400",
            long.as_str(),
        ] {
            let remote: Remote = text.parse().unwrap();
            assert_eq!(remote.to_string(), text);
        }
        let upper: Remote = "Weft-1.Example.NET:7400".parse().unwrap();
        assert_eq!(upper.to_string(), "weft-1.example.net:7400");
    }

    #[test]
    fn what_is_neither_is_refused() {
        let label = format!("{}.net:1", "a".repeat(64));
        let long = format!("{}:1", ["a"; 128].join("."));
        for text in [
            "",
            ":",
            ":7400",
            "weft-1",
            "weft-1:",
            "weft-1:0",
            "weft-1:65536",
            "weft-1:https",
            "192.0.2.1",
            "192.0.2.256:7400",
            "192.0.2:7400",
            "7400:7400",
            "2001:db8::1:7400",
            "[weft-1]:7400",
            "weft-1..net:7400",
            ".net:7400",
            "weft 1:7400",
            "http://weft-1:7400",
            "wéft:7400",
            label.as_str(),
            long.as_str(),
        ] {
            assert!(text.parse::<Remote>().is_err(), "{text}");
        }
    }
}
