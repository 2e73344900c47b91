//! Who a peer is, told from its OPEN. Most say nothing of themselves; then the set of their capabilities
//! may do, where it was seen on the wire. Knows no address and no name of a host.

use std::fmt;

use weft_bgp::capability::Capability;

use super::{FrrVersion, Profile};

/// Why a profile was chosen, as a sentence without a full stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// Someone configured it.
    Configured,
    /// It says so. draft-abraitis-bgp-version-capability.
    SoftwareVersion(String),
    /// Only one known speaker offers these capabilities.
    Capabilities(&'static str),
    /// Nothing in its OPEN tells it from others.
    Unknown,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => f.write_str("configured"),
            Self::SoftwareVersion(version) => write!(f, "software version {version:?}"),
            Self::Capabilities(of) => f.write_str(of),
            Self::Unknown => f.write_str("nothing in its OPEN says what it runs"),
        }
    }
}

impl Profile {
    /// The profile of a peer that offers these capabilities, and why.
    ///
    /// FRR since 9.1 tells its software version where "neighbor capability software-version" is
    /// configured; without it an FRR cannot be told from an older one and is taken for one.
    #[must_use]
    pub fn choose(capabilities: &[Capability]) -> (Self, Why) {
        let version = capabilities.iter().find_map(|capability| match capability {
            Capability::SoftwareVersion(version) => Some(version),
            _ => None, // many other capabilities, of another crate
        });
        if let Some((profile, version)) = version.and_then(|it| Some((named(it)?, it))) {
            return (profile, Why::SoftwareVersion(version.clone()));
        }
        let has = |code: u8| capabilities.iter().any(|it| it.code() == code);
        if has(FQDN) && has(ENHANCED_ROUTE_REFRESH) {
            let why = Why::Capabilities("host name and capabilities of FRR, no software version");
            return (Self::Frr(FrrVersion::OLD), why);
        }
        let gobgp = [ROUTE_REFRESH, EXTENDED_NEXT_HOP, FQDN];
        let others = [EXTENDED_MESSAGE, OLD_ROUTE_REFRESH];
        if gobgp.into_iter().all(has) && !others.into_iter().any(has) {
            let why = Why::Capabilities("host name and capabilities of GoBGP, no software version");
            return (Self::GoBgp, why);
        }
        (Self::Generic, Why::Unknown)
    }
}

/// Who writes such a software version.
fn named(version: &str) -> Option<Profile> {
    let lower = version.to_ascii_lowercase();
    let (_, profile) = WRITTEN
        .iter()
        .find(|(beginning, _)| lower.starts_with(beginning))?;
    Some(match profile {
        Profile::Frr(_) => Profile::Frr(frr(&lower)),
        other => *other,
    })
}

/// "frrouting/10.7.0-dev" is 10.7; what is written otherwise is an old one.
fn frr(version: &str) -> FrrVersion {
    let from = version.find(|letter: char| letter.is_ascii_digit());
    let digits = version.get(from.unwrap_or(version.len())..).unwrap_or("");
    let mut numbers = digits
        .split(|letter: char| !letter.is_ascii_digit())
        .map(|number| number.parse().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => FrrVersion { major, minor },
        (_, None) | (None, _) => FrrVersion::OLD,
    }
}

/// How software versions begin, in small letters.
const WRITTEN: [(&str, Profile); 9] = [
    ("frr", Profile::Frr(FrrVersion::OLD)),
    ("gobgp", Profile::GoBgp),
    ("exabgp", Profile::ExaBgp),
    ("bird", Profile::Bird),
    ("openbgpd", Profile::OpenBgpd),
    ("rustybgp", Profile::RustyBgp),
    ("arista", Profile::Eos),
    ("cumulus", Profile::Cumulus),
    ("weft", Profile::Weft),
];

/// IANA, "Capability Codes".
const ROUTE_REFRESH: u8 = 2;
const EXTENDED_NEXT_HOP: u8 = 5;
const EXTENDED_MESSAGE: u8 = 6;
const ENHANCED_ROUTE_REFRESH: u8 = 70;
const FQDN: u8 = 73;
/// Of before RFC 2918.
const OLD_ROUTE_REFRESH: u8 = 128;
