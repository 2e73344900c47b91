//! The table of path attributes: code, name, flags, length, and what a malformed one does. Adding
//! an attribute is adding a row (and a field or a file). Knows no value.

use crate::error::{Rule, Treatment};

/// Codes of path attributes. IANA, "BGP Path Attributes".
pub mod code {
    #![expect(missing_docs, reason = "the names are the registry's")]
    pub const ORIGIN: u8 = 1;
    pub const AS_PATH: u8 = 2;
    pub const NEXT_HOP: u8 = 3;
    pub const MULTI_EXIT_DISC: u8 = 4;
    pub const LOCAL_PREF: u8 = 5;
    pub const ATOMIC_AGGREGATE: u8 = 6;
    pub const AGGREGATOR: u8 = 7;
    pub const COMMUNITIES: u8 = 8;
    pub const ORIGINATOR_ID: u8 = 9;
    pub const CLUSTER_LIST: u8 = 10;
    pub const MP_REACH_NLRI: u8 = 14;
    pub const MP_UNREACH_NLRI: u8 = 15;
    pub const EXTENDED_COMMUNITIES: u8 = 16;
    pub const AS4_PATH: u8 = 17;
    pub const AS4_AGGREGATOR: u8 = 18;
    pub const PMSI_TUNNEL: u8 = 22;
    pub const TUNNEL_ENCAPSULATION: u8 = 23;
    pub const IPV6_EXTENDED_COMMUNITIES: u8 = 25;
    pub const AIGP: u8 = 26;
    pub const BGP_LS: u8 = 29;
    pub const LARGE_COMMUNITIES: u8 = 32;
    pub const D_PATH: u8 = 36;
    pub const NEXT_HOP_CHARACTERISTICS: u8 = 39;
    pub const PREFIX_SID: u8 = 40;
}

/// Flags octet of an attribute. RFC 4271 §4.3.
pub mod flag {
    /// Not every speaker knows it.
    pub const OPTIONAL: u8 = 0x80;
    /// Passed on by those who do not know it.
    pub const TRANSITIVE: u8 = 0x40;
    /// Someone on the way did not know it.
    pub const PARTIAL: u8 = 0x20;
    /// The length has two octets.
    pub const EXTENDED_LENGTH: u8 = 0x10;
}

/// Whether a speaker must know an attribute, and what it does if not. RFC 4271 §5.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Category {
    /// Every speaker knows it.
    WellKnown,
    /// Passed on unknown.
    OptionalTransitive,
    /// Dropped unknown.
    OptionalNonTransitive,
}

/// Which lengths an attribute can have.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LengthRule {
    /// The content tells.
    Any,
    /// So many octets.
    Exactly(u16),
    /// So many octets or more.
    AtLeast(u16),
    /// A multiple, not zero.
    Items(u16),
    /// An AS number, as wide as negotiated, and four octets.
    AsAndAddress,
}

/// One attribute.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Code.
    pub code: u8,
    /// Name, as in the registry.
    pub name: &'static str,
    /// Which flags it must have.
    pub category: Category,
    /// Which lengths it can have.
    pub length: LengthRule,
    /// What a wrong length or content does.
    pub malformed: Treatment,
    /// What wrong flags do. RFC 7606 §3 (c).
    pub wrong_flags: Treatment,
    /// Whether it is discarded when an external peer sends it.
    pub internal_only: bool,
    /// Where the treatment is written.
    pub rule: Rule,
}

impl Category {
    /// Flags to send.
    #[must_use]
    pub fn flags(self) -> u8 {
        match self {
            Self::WellKnown => flag::TRANSITIVE,
            Self::OptionalTransitive => flag::OPTIONAL | flag::TRANSITIVE,
            Self::OptionalNonTransitive => flag::OPTIONAL,
        }
    }

    /// Whether received flags fit. Only an optional transitive attribute can be partial
    /// (RFC 4271 §4.3); the lower four bits say nothing about the category.
    #[must_use]
    pub fn allows(self, flags: u8) -> bool {
        let partial = match self {
            Self::OptionalTransitive => 0,
            Self::WellKnown | Self::OptionalNonTransitive => flag::PARTIAL,
        };
        flags & (flag::OPTIONAL | flag::TRANSITIVE | partial) == self.flags()
    }
}

impl LengthRule {
    /// Whether an attribute of `length` octets fits.
    #[must_use]
    pub fn allows(self, length: u16, four_octet_as: bool) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(octets) => length == octets,
            Self::AtLeast(octets) => length >= octets,
            Self::Items(octets) => length != 0 && length.is_multiple_of(octets),
            Self::AsAndAddress if four_octet_as => length == 8,
            Self::AsAndAddress => length == 6,
        }
    }
}

impl Row {
    /// The row of an attribute that we know.
    #[must_use]
    pub fn of(code: u8) -> Option<&'static Self> {
        ROWS.iter().find(|row| row.code == code)
    }

    const fn new(
        code: u8,
        name: &'static str,
        category: Category,
        length: LengthRule,
        malformed: Treatment,
        rule: (u16, &'static str),
    ) -> Self {
        let rule = Rule {
            rfc: rule.0,
            section: rule.1,
        };
        Self {
            code,
            name,
            category,
            length,
            malformed,
            wrong_flags: Treatment::TreatAsWithdraw,
            internal_only: false,
            rule,
        }
    }

    /// Its specification has it discarded alone whatever is wrong with it, the flags too.
    const fn discarded_alone(mut self) -> Self {
        self.wrong_flags = Treatment::AttributeDiscard;
        self
    }

    const fn internal_only(mut self) -> Self {
        self.internal_only = true;
        self
    }
}

use Category::{
    OptionalNonTransitive as NonTransitive, OptionalTransitive as Transitive, WellKnown,
};
use LengthRule::{Any, AsAndAddress, AtLeast, Exactly, Items};
use Treatment::{AttributeDiscard as Discard, SessionReset as Reset, TreatAsWithdraw as Withdraw};

/// Every attribute that we know, by code.
pub const ROWS: &[Row] = &[
    Row::new(1, "ORIGIN", WellKnown, Exactly(1), Withdraw, (7606, "7.1")),
    Row::new(2, "AS_PATH", WellKnown, Any, Withdraw, (7606, "7.2")),
    Row::new(
        3,
        "NEXT_HOP",
        WellKnown,
        Exactly(4),
        Withdraw,
        (7606, "7.3"),
    ),
    Row::new(
        4,
        "MULTI_EXIT_DISC",
        NonTransitive,
        Exactly(4),
        Withdraw,
        (7606, "7.4"),
    ),
    Row::new(
        5,
        "LOCAL_PREF",
        WellKnown,
        Exactly(4),
        Withdraw,
        (7606, "7.5"),
    )
    .internal_only(),
    Row::new(
        6,
        "ATOMIC_AGGREGATE",
        WellKnown,
        Exactly(0),
        Discard,
        (7606, "7.6"),
    ),
    Row::new(
        7,
        "AGGREGATOR",
        Transitive,
        AsAndAddress,
        Discard,
        (7606, "7.7"),
    ),
    Row::new(
        8,
        "COMMUNITIES",
        Transitive,
        Items(4),
        Withdraw,
        (7606, "7.8"),
    ),
    Row::new(
        9,
        "ORIGINATOR_ID",
        NonTransitive,
        Exactly(4),
        Withdraw,
        (7606, "7.9"),
    )
    .internal_only(),
    Row::new(
        10,
        "CLUSTER_LIST",
        NonTransitive,
        Items(4),
        Withdraw,
        (7606, "7.10"),
    )
    .internal_only(),
    Row::new(
        14,
        "MP_REACH_NLRI",
        NonTransitive,
        Any,
        Reset,
        (7606, "7.11"),
    ),
    Row::new(
        15,
        "MP_UNREACH_NLRI",
        NonTransitive,
        Any,
        Reset,
        (7606, "7.12"),
    ),
    Row::new(
        16,
        "EXTENDED_COMMUNITIES",
        Transitive,
        Items(8),
        Withdraw,
        (7606, "7.14"),
    ),
    Row::new(17, "AS4_PATH", Transitive, Any, Discard, (6793, "6")).discarded_alone(),
    Row::new(
        18,
        "AS4_AGGREGATOR",
        Transitive,
        Exactly(8),
        Discard,
        (6793, "6"),
    )
    .discarded_alone(),
    Row::new(
        22,
        "PMSI_TUNNEL",
        Transitive,
        AtLeast(5),
        Withdraw,
        (6514, "5"),
    ),
    Row::new(
        23,
        "TUNNEL_ENCAPSULATION",
        Transitive,
        Any,
        Withdraw,
        (9012, "13"),
    ),
    Row::new(
        25,
        "IPV6_EXTENDED_COMMUNITIES",
        Transitive,
        Items(20),
        Withdraw,
        (7606, "7.15"),
    ),
    Row::new(
        26,
        "AIGP",
        NonTransitive,
        AtLeast(3),
        Discard,
        (7311, "3.2"),
    )
    .discarded_alone(),
    Row::new(29, "BGP-LS", NonTransitive, Any, Discard, (9552, "8.2.2")).discarded_alone(),
    Row::new(
        32,
        "LARGE_COMMUNITIES",
        Transitive,
        Items(12),
        Withdraw,
        (8092, "6"),
    ),
    Row::new(
        40,
        "PREFIX_SID",
        Transitive,
        AtLeast(3),
        Discard,
        (8669, "6"),
    ),
];

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may fail where it stands")]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_code() {
        assert!(ROWS.windows(2).all(|pair| pair[0].code < pair[1].code));
    }
}
