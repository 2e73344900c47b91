//! What a peer can take of EVPN, and how that is known: from its OPEN, or because someone said so. Knows
//! no session; a wrong guess must not end one, so whoever is not recognised gets what everybody takes.
//!
//! Measured with one UPDATE each over an iBGP session (FRR 8.4.4, GoBGP 3.10.0, ExaBGP 4.2.21 of Debian 12; GoBGP 3.36.0
//! does as 3.10.0 does, and takes the community's sub-type 4):
//!
//! | what is sent | FRR 8.4.4 | GoBGP 3.10.0 | GoBGP 4.8.0 | ExaBGP 4.2.21 |
//! | --- | --- | --- | --- | --- |
//! | types 6 to 11, 99 | ignored, the rest of the UPDATE counts | the whole UPDATE is lost, the session stays | NOTIFICATION 3/10 | kept as octets |
//! | originator of 128 bits, withdrawn too | NOTIFICATION 3/9 | taken | taken | taken |
//! | PMSI_TUNNEL of 21 octets | NOTIFICATION 3/5 | taken | taken | NOTIFICATION 1/0 |
//! | next hop of 16 octets | taken, but it forwards types 2 and 5 to 0.0.0.0 | taken | taken | NOTIFICATION 3/0; 5.0.15: 3/9 |
//! | segment of type 1 or 2 whose last octet is not 0 | taken | the whole UPDATE is lost | NOTIFICATION 3/10 | taken |
//! | community 0x06 of another sub-type than 0 to 3 | taken | the whole UPDATE is lost | the same, but 4 and 5 are taken | taken |
//! | next hop of 32 octets | NOTIFICATION 3/10 | taken | taken | NOTIFICATION 3/0 |
//!
//! Nobody is sent the last one: of a next hop with a link-local address, that half is left out.
//!
//! OpenBGPD 9.3 takes types 2 and 3 only: any other type ends its session with 3/9. BIRD 3.4.0 takes all octets of a type that
//! it does not know for its key; a withdrawal of types 5 to 8 need not repeat all of them (RFC 9136 §3.1), and leaves the route there.
//!
//! Communities are carried as they are, so GoBGP does without the routes that have such a one: all routes in
//! one UPDATE have the same. Segments differ within one, so that one bad one would take others with it.

mod choose;
mod sendable;

use std::fmt;
use std::str::FromStr;

use weft_bgp::attribute::AttributeForms;
use weft_bgp::reflect::{Filter, LinkBandwidthForm};

pub use choose::Why;
pub use sendable::{Withheld, sendable, withdrawable};

/// What runs on a peer, as far as it makes a difference.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Profile {
    /// FRR, and what is built from it; the version where it is known.
    Frr(FrrVersion),
    /// GoBGP, of any version that is not said to be a later one.
    GoBgp,
    /// GoBGP from 4.8.0 on, which lives with the default route target.
    GoBgp48,
    /// ExaBGP.
    ExaBgp,
    /// BIRD.
    Bird,
    /// OpenBGPD.
    OpenBgpd,
    /// RustyBGP.
    RustyBgp,
    /// Arista EOS.
    Eos,
    /// NVIDIA Cumulus Linux: an FRR whose version says nothing about its patches.
    Cumulus,
    /// SONiC with FRR.
    Sonic,
    /// Nokia SR Linux.
    SrLinux,
    /// Juniper Junos.
    Junos,
    /// Another weft.
    Weft,
    /// Nobody knows.
    #[default]
    Generic,
}

/// Major and minor version of FRR.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct FrrVersion {
    /// 10 in 10.7; zero when it is not known, which means an old one.
    pub major: u16,
    /// 7 in 10.7.
    pub minor: u16,
}

/// May be told of type 1; the bit is the type's number, as for the others up to 11.
pub const TYPE_1: Filter = Filter(1 << 1);
/// May be told of type 4.
pub const TYPE_4: Filter = Filter(1 << 4);
/// May be told of type 5.
pub const TYPE_5: Filter = Filter(1 << 5);
/// May be told of type 6.
pub const TYPE_6: Filter = Filter(1 << 6);
/// May be told of type 7.
pub const TYPE_7: Filter = Filter(1 << 7);
/// May be told of type 8.
pub const TYPE_8: Filter = Filter(1 << 8);
/// May be told of type 9.
pub const TYPE_9: Filter = Filter(1 << 9);
/// May be told of type 10.
pub const TYPE_10: Filter = Filter(1 << 10);
/// May be told of type 11.
pub const TYPE_11: Filter = Filter(1 << 11);
/// May be told of types that are not known here.
pub const OPAQUE: Filter = Filter(1 << 12);
/// May be told of routes whose originating router is named by IPv6.
pub const IPV6_ORIGINATOR: Filter = Filter(1 << 13);
/// May be sent a PMSI_TUNNEL of 21 octets, whose endpoint is an IPv6 address.
pub const IPV6_PMSI: Filter = Filter(1 << 14);
/// May be sent a PMSI_TUNNEL of another type than ingress replication.
pub const OTHER_TUNNELS: Filter = Filter(1 << 15);
/// May be sent a next hop of 16 octets.
pub const IPV6_NEXT_HOP: Filter = Filter(1 << 16);
/// May be sent segments of type 1 and 2 whose last octet is not zero, as RFC 7432 §5 asks.
pub const ODD_SEGMENTS: Filter = Filter(1 << 17);

impl Profile {
    /// What it may be told of beside types 2 and 3 of IPv4 VTEPs, which everybody may.
    ///
    /// [`OPAQUE`] is in none of them: it is for a peer group to add.
    #[must_use]
    pub fn filter(self) -> Filter {
        match self {
            Self::Frr(version) => version.filter(),
            // Measured; see the table above.
            Self::GoBgp | Self::GoBgp48 => GOBGP,
            Self::ExaBgp => EXABGP,
            // Types 5 to 8 it would keep after their withdrawal, until its session ends; measured with 3.4.0.
            Self::Bird => union(&[TYPE_1, TYPE_4, TUNNELS, IPV6_NEXT_HOP, ODD_SEGMENTS]),
            // Ends the session on any other type than 2 and 3; measured.
            Self::OpenBgpd => Filter(0),
            // Its source ends the session on a type that it does not know; not measured.
            Self::RustyBgp => USUAL,
            // RFC 9251 is in their manuals, IPv6 underlays as well; not measured.
            Self::Eos | Self::SrLinux => union(&[USUAL, MULTICAST, IPV6, ODD_SEGMENTS]),
            // As those, and RFC 9572; not measured.
            Self::Junos => union(&[USUAL, MULTICAST, TUNNELS, IPV6, ODD_SEGMENTS]),
            Self::Cumulus | Self::Sonic => FrrVersion::OLD.filter(),
            Self::Generic => USUAL,
            Self::Weft => union(&[USUAL, MULTICAST, TUNNELS, IPV6, ODD_SEGMENTS]),
        }
    }

    /// Whether it keeps EVPN routes for the restart time of a speaker whose connection ended (RFC 4724 §4.2). FRR 8.4.4
    /// and 10.3 agree to and drop them, 10.7 keeps them (measured).
    #[must_use]
    pub fn keeps_evpn_over_restart(self) -> bool {
        matches!(self, Self::Frr(version) if version >= FrrVersion::KEEPS_EVPN)
    }

    /// In which form it is sent link bandwidth communities (RFC 10005): as they came, except to an FRR that reads one
    /// only. Of no other is it known that it does not read both.
    #[must_use]
    pub fn link_bandwidth(self) -> LinkBandwidthForm {
        match self {
            Self::Frr(version) => version.link_bandwidth(),
            Self::GoBgp
            | Self::GoBgp48
            | Self::ExaBgp
            | Self::Bird
            | Self::OpenBgpd
            | Self::RustyBgp
            | Self::Eos
            | Self::Cumulus
            | Self::Sonic
            | Self::SrLinux
            | Self::Junos
            | Self::Weft
            | Self::Generic => LinkBandwidthForm::AsIs,
        }
    }

    /// In which forms tunnel encapsulation and PREFIX_SID are sent to it: those that FRR 8.4.4 and GoBGP 3.10 take
    /// (measured; of other forms to later ones nothing is known), so too to those that end sessions on less, and to whom
    /// nobody knows; to ExaBGP no SRv6 service, on which 4.2.21 ends its session with 3/5 (measured), and 5 offers the same.
    #[must_use]
    pub fn attribute_forms(self) -> AttributeForms {
        match self {
            Self::ExaBgp => AttributeForms::PlainWithoutServices,
            Self::Frr(_)
            | Self::Cumulus
            | Self::Sonic
            | Self::GoBgp
            | Self::GoBgp48
            | Self::OpenBgpd
            | Self::RustyBgp
            | Self::Generic => AttributeForms::Plain,
            Self::Bird | Self::Eos | Self::SrLinux | Self::Junos | Self::Weft => {
                AttributeForms::All
            }
        }
    }

    /// Whether it is to be sent only the default route target of RFC 4684: EOS takes any other as all
    /// that is wanted, and keeps the rest.
    #[must_use]
    pub fn default_route_target_only(self) -> bool {
        self == Self::Eos
    }

    /// Whether it takes the default route target of RFC 4684. GoBGP 3.10.0 and 3.36.0 read the target of that membership,
    /// which has none, as soon as another membership comes or goes, and die of it (measured: nil dereference in
    /// `propagateUpdate`); 4.8.0 lives.
    #[must_use]
    pub fn takes_default_route_target(self) -> bool {
        self != Self::GoBgp
    }

    /// What it is taken for after a session that it ended over an UPDATE: what its OPEN shows may be an earlier version.
    #[must_use]
    pub fn doubted(self) -> Self {
        match self {
            Self::Frr(_) => Self::Frr(FrrVersion::OLD),
            Self::GoBgp | Self::GoBgp48 => Self::GoBgp,
            // Who is not known is told more: other types, and SRv6 services.
            Self::OpenBgpd | Self::ExaBgp => self,
            _ => Self::Generic,
        }
    }
}

impl FrrVersion {
    /// An FRR of which nothing more is known.
    pub const OLD: Self = Self { major: 0, minor: 0 };
    /// The first with VTEPs named by IPv6; from its release notes, not measured.
    pub const IPV6_VTEPS: Self = Self {
        major: 10,
        minor: 6,
    };
    /// The first with a PMSI_TUNNEL of 21 octets; from its source, not measured.
    pub const IPV6_TUNNELS: Self = Self {
        major: 10,
        minor: 7,
    };
    /// The first of which it is known that EVPN routes outlive a connection.
    const KEEPS_EVPN: Self = Self {
        major: 10,
        minor: 7,
    };
    /// The first that weighs paths by the transitive form of link bandwidth only (10.3 measured; the first, from source).
    const ONE_LINK_BANDWIDTH: Self = Self {
        major: 10,
        minor: 3,
    };
    /// The first that weighs them by both again (10.7 measured; the first, from source). Some of 10.5 do too, and read
    /// what they are sent.
    const BOTH_LINK_BANDWIDTHS: Self = Self {
        major: 10,
        minor: 6,
    };

    fn link_bandwidth(self) -> LinkBandwidthForm {
        match (Self::ONE_LINK_BANDWIDTH..Self::BOTH_LINK_BANDWIDTHS).contains(&self) {
            true => LinkBandwidthForm::Transitive,
            false => LinkBandwidthForm::AsIs,
        }
    }

    /// It ignores types 6 to 11, so it need not be told of them.
    fn filter(self) -> Filter {
        let bits = |from: Self, filter: Filter| if self >= from { filter } else { Filter(0) };
        union(&[
            USUAL,
            ODD_SEGMENTS,
            bits(Self::IPV6_VTEPS, union(&[IPV6_NEXT_HOP, IPV6_ORIGINATOR])),
            bits(Self::IPV6_TUNNELS, IPV6_PMSI),
        ])
    }
}

/// Types 1, 4 and 5: all that an EVPN speaker is taken to know beside types 2 and 3. RFC 7432, RFC 9136.
const USUAL: Filter = Filter(TYPE_1.0 | TYPE_4.0 | TYPE_5.0);
/// Types 6 to 8. RFC 9251.
const MULTICAST: Filter = Filter(TYPE_6.0 | TYPE_7.0 | TYPE_8.0);
/// Types 9 to 11. RFC 9572.
const TUNNELS: Filter = Filter(TYPE_9.0 | TYPE_10.0 | TYPE_11.0 | OTHER_TUNNELS.0);
/// VTEPs named by IPv6.
const IPV6: Filter = Filter(IPV6_ORIGINATOR.0 | IPV6_PMSI.0 | IPV6_NEXT_HOP.0);
const GOBGP: Filter = union(&[USUAL, IPV6]);
const EXABGP: Filter = union(&[USUAL, IPV6_ORIGINATOR, ODD_SEGMENTS]);

const fn union(filters: &[Filter]) -> Filter {
    let mut bits = 0;
    let mut rest = filters;
    while let [first, others @ ..] = rest {
        bits |= first.0;
        rest = others;
    }
    Filter(bits)
}

/// The name for the configuration: "frr", "frr-10.7", "gobgp", "sr-linux".
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frr(FrrVersion::OLD) => f.write_str("frr"),
            Self::Frr(version) => write!(f, "frr-{}.{}", version.major, version.minor),
            other => {
                let named = NAMES.iter().find(|(_, profile)| profile == other);
                f.write_str(named.map_or("generic", |(name, _)| name))
            }
        }
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        if let Some((_, profile)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(*profile);
        }
        let version = text.strip_prefix("frr-").ok_or(UnknownProfile)?;
        let (major, minor) = version.split_once('.').ok_or(UnknownProfile)?;
        Ok(Self::Frr(FrrVersion {
            major: major.parse().map_err(|_| UnknownProfile)?,
            minor: minor.parse().map_err(|_| UnknownProfile)?,
        }))
    }
}

/// The text names no profile.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct UnknownProfile;

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no profile of that name; there are frr-MAJOR.MINOR")?;
        NAMES.iter().try_for_each(|(name, _)| write!(f, ", {name}"))
    }
}

impl std::error::Error for UnknownProfile {}

const NAMES: [(&str, Profile); 14] = [
    ("frr", Profile::Frr(FrrVersion::OLD)),
    ("gobgp", Profile::GoBgp),
    ("gobgp-4.8", Profile::GoBgp48),
    ("exabgp", Profile::ExaBgp),
    ("bird", Profile::Bird),
    ("openbgpd", Profile::OpenBgpd),
    ("rustybgp", Profile::RustyBgp),
    ("eos", Profile::Eos),
    ("cumulus", Profile::Cumulus),
    ("sonic", Profile::Sonic),
    ("sr-linux", Profile::SrLinux),
    ("junos", Profile::Junos),
    ("weft", Profile::Weft),
    ("generic", Profile::Generic),
];

#[cfg(test)]
mod tests;
