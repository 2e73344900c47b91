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
    /// It was taken for another one, and ended a session over an UPDATE.
    Doubted,
    /// Nothing in its OPEN tells it from others.
    Unknown,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => f.write_str("configured"),
            Self::SoftwareVersion(version) => write!(f, "software version {version:?}"),
            Self::Capabilities(of) => f.write_str(of),
            Self::Doubted => f.write_str("it ended a session over an UPDATE"),
            Self::Unknown => f.write_str("nothing in its OPEN says what it runs"),
        }
    }
}

impl Profile {
    /// The profile of a peer that offers these capabilities, and why.
    ///
    /// FRR since 9.1 tells its software version where "neighbor capability software-version" is configured. Without it, FRR
    /// 8.4.4 offers the route refresh of before RFC 2918 and 10.7.1 a limit of paths (seen on the wire). FRR since 10.1
    /// offers the same as 10.7.1, and before 10.6 it ends a session that names a router by IPv6: who takes a peer for
    /// 10.7 has to look for that, see [`Profile::doubted`].
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
        if has(FQDN) && has(ENHANCED_ROUTE_REFRESH) && has(PATHS_LIMIT) && !has(OLD_ROUTE_REFRESH) {
            let why =
                Why::Capabilities("host name and capabilities of FRR 10, no software version");
            return (Self::Frr(FrrVersion::IPV6_TUNNELS), why);
        }
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
        let only = |codes: &[u8]| {
            let offered = capabilities.iter().map(Capability::code);
            codes.iter().all(|code| has(*code)) && offered.into_iter().all(|it| codes.contains(&it))
        };
        if only(&BIRD) && capabilities.iter().all(lists_no_family) {
            let why = Why::Capabilities("the capabilities of BIRD, no software version");
            return (Self::Bird, why);
        }
        if only(&OPENBGPD) && capabilities.iter().any(restarts_in_no_time) {
            let why = Why::Capabilities("the capabilities of OpenBGPD, no software version");
            return (Self::OpenBgpd, why);
        }
        // A router that offers messages of 65,535 octets knows route refresh.
        if only(&EXABGP) {
            let why = Why::Capabilities("the capabilities of ExaBGP, no software version");
            return (Self::ExaBgp, why);
        }
        (Self::Generic, Why::Unknown)
    }
}

/// As of a speaker that helps others restart, and keeps nothing over its own: BIRD's default.
fn lists_no_family(capability: &Capability) -> bool {
    match capability {
        Capability::GracefulRestart(restart) => restart.families.is_empty(),
        Capability::LongLivedGracefulRestart(families) => families.is_empty(),
        _ => true, // many other capabilities, of another crate
    }
}

/// No restart time and no family: as OpenBGPD says that it knows End-of-RIB. It sets the R bit too, but not while it keeps
/// routes of a peer whose connection was lost (seen on the wire with 9.3).
fn restarts_in_no_time(capability: &Capability) -> bool {
    match capability {
        Capability::GracefulRestart(restart) => {
            restart.restart_secs == 0 && restart.families.is_empty()
        }
        _ => false, // many other capabilities, of another crate
    }
}

/// Who writes such a software version.
fn named(version: &str) -> Option<Profile> {
    let lower = version.to_ascii_lowercase();
    let (_, profile) = WRITTEN
        .iter()
        .find(|(beginning, _)| lower.starts_with(beginning))?;
    Some(match profile {
        Profile::Frr(_) => Profile::Frr(version_of(&lower)),
        Profile::GoBgp if version_of(&lower) >= GOBGP_48 => Profile::GoBgp48,
        other => *other,
    })
}

/// "frrouting/10.7.0-dev" is 10.7; what is written otherwise is an old one.
fn version_of(version: &str) -> FrrVersion {
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
/// draft-abraitis-idr-addpath-paths-limit.
const PATHS_LIMIT: u8 = 76;
/// Of before RFC 2918.
const OLD_ROUTE_REFRESH: u8 = 128;
/// What BIRD 3.4.0 offers by default, on the wire.
const BIRD: [u8; 6] = [1, ROUTE_REFRESH, 64, 65, ENHANCED_ROUTE_REFRESH, 71];
/// What OpenBGPD 9.3 offers by default, on the wire.
const OPENBGPD: [u8; 4] = [1, ROUTE_REFRESH, 64, 65];
/// What ExaBGP 4.2.21 and 5.0.15 offer by default, on the wire.
const EXABGP: [u8; 3] = [1, 65, EXTENDED_MESSAGE];
/// The first GoBGP that was seen to take the default route target.
const GOBGP_48: FrrVersion = FrrVersion { major: 4, minor: 8 };
