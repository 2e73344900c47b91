//! What a VTEP of a segment wants of the election of a designated forwarder. Knows no election.

use weft_bgp::attribute::ExtendedCommunity;

/// DF election, on type 4. RFC 8584 §2.2, RFC 9785 §3.
///
/// ```text
/// +- 0x06 -+- 0x06 -+- 3 bits -+-- 5 bits --+--- 2 ---+---- 1 ----+----- 2 ------+
/// |  type  |  sub   | reserved | algorithm  | bitmap  | reserved  |  preference  |
/// +--------+--------+----------+------------+---------+-----------+--------------+
///                    bitmap: 0x8000 does not preempt, 0x4000 counts only circuits that are up
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct DfElection(ExtendedCommunity);

impl DfElection {
    /// The community; an algorithm has five bits.
    #[must_use]
    pub fn new(algorithm: u8, bitmap: u16, preference: u16) -> Self {
        let ([a, b], [c, d]) = (bitmap.to_be_bytes(), preference.to_be_bytes());
        let octets = [0x06, 0x06, algorithm & ALGORITHM, a, b, 0, c, d];
        Self(ExtendedCommunity(octets))
    }

    /// The view, if it is this community.
    #[must_use]
    pub fn of(octets: ExtendedCommunity) -> Option<Self> {
        matches!(octets.0, [0x06, 0x06, ..]).then_some(Self(octets))
    }

    /// The octets, unchanged.
    #[must_use]
    pub fn octets(self) -> ExtendedCommunity {
        self.0
    }

    /// Number of the algorithm. IANA, "DF Alg".
    #[must_use]
    pub fn algorithm(self) -> u8 {
        let [_, _, algorithm, ..] = self.0.0;
        algorithm & ALGORITHM
    }

    /// Does not want to take over from another with the same preference. RFC 9785 §3.
    #[must_use]
    pub fn dont_preempt(self) -> bool {
        self.bitmap() & 0x8000 != 0
    }

    /// Counts only VTEPs whose circuit is up. RFC 8584 §4.
    #[must_use]
    pub fn ac_influenced(self) -> bool {
        self.bitmap() & 0x4000 != 0
    }

    /// The bitmap without the bit that is each VTEP's own wish: in what is left all have to agree. RFC 8584
    /// §2.2.1, RFC 9785 §3.
    #[must_use]
    pub fn capabilities(self) -> u16 {
        self.bitmap() & !0x8000
    }

    /// Preference. RFC 9785 §3.
    #[must_use]
    pub fn preference(self) -> u16 {
        let [.., high, low] = self.0.0;
        u16::from_be_bytes([high, low])
    }

    fn bitmap(self) -> u16 {
        let [_, _, _, high, low, ..] = self.0.0;
        u16::from_be_bytes([high, low])
    }
}

const ALGORITHM: u8 = 0x1f;
