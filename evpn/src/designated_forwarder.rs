//! Which of the VTEPs of a segment forwards flooded frames to it. Every one of them computes the same from
//! their types 4, and so can we. Knows no route.

use std::cmp::Reverse;
use std::fmt;
use std::net::IpAddr;

use crate::community::DfElection;
use crate::esi::Esi;

/// A VTEP of a segment, as its type 4 shows it.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Candidate {
    /// Originating router.
    pub originator: IpAddr,
    /// What it wants; without the community of RFC 8584 service carving.
    pub algorithm: Algorithm,
    /// Preference, 0 to 65535. RFC 9785 §3.
    pub preference: u16,
    /// Does not want to take over from another with the same preference. RFC 9785 §3.
    pub dont_preempt: bool,
    /// What else it is capable of, by bits of its community, RFC 8584 §2.2: 0x4000 is to count only those
    /// whose circuit is up. Who that is, is not known here.
    pub capabilities: u16,
}

/// How a forwarder is elected. IANA, "DF Alg".
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Algorithm {
    /// 0, service carving: the tag modulo the number of candidates. RFC 7432 §8.5.
    #[default]
    Modulo,
    /// 1, highest random weight. RFC 8584 §3.2.
    HighestRandomWeight,
    /// 2, highest preference. RFC 9785 §4.1.
    HighestPreference,
    /// 3, lowest preference. RFC 9785 §4.1.
    LowestPreference,
    /// Another one; nobody here can tell whom it elects.
    Other(u8),
}

impl Algorithm {
    /// Whether domains of one segment may have different forwarders.
    #[must_use]
    pub fn goes_by_tag(self) -> bool {
        match self {
            Self::Modulo | Self::HighestRandomWeight => true,
            Self::HighestPreference | Self::LowestPreference | Self::Other(_) => false,
        }
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Modulo => 0,
            Self::HighestRandomWeight => 1,
            Self::HighestPreference => 2,
            Self::LowestPreference => 3,
            Self::Other(number) => number,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Modulo => "service carving",
            Self::HighestRandomWeight => "highest random weight",
            Self::HighestPreference => "highest preference",
            Self::LowestPreference => "lowest preference",
            Self::Other(number) => return write!(f, "algorithm {number}"),
        })
    }
}

impl From<u8> for Algorithm {
    fn from(number: u8) -> Self {
        match number {
            0 => Self::Modulo,
            1 => Self::HighestRandomWeight,
            2 => Self::HighestPreference,
            3 => Self::LowestPreference,
            other => Self::Other(other),
        }
    }
}

impl Candidate {
    /// What the type 4 of `originator` with this community, or none, says.
    #[must_use]
    pub fn new(originator: IpAddr, election: Option<DfElection>) -> Self {
        let algorithm = election.map_or(0, DfElection::algorithm);
        Self {
            originator,
            algorithm: algorithm.into(),
            preference: election.map_or(DEFAULT_PREFERENCE, DfElection::preference),
            dont_preempt: election.is_some_and(DfElection::dont_preempt),
            capabilities: election.map_or(0, DfElection::capabilities),
        }
    }
}

/// The algorithm that the candidates agree on: the one that all want, else service carving. Capabilities
/// have to agree likewise. RFC 8584 §2.2.1.
#[must_use]
pub fn agreed(candidates: &[Candidate]) -> Algorithm {
    unanimous(candidates).map_or(Algorithm::Modulo, |(algorithm, _)| algorithm)
}

/// Whether the candidates agree to count only those whose circuit is up: AC-DF. RFC 8584 §4. Who disagrees
/// on anything elects as RFC 7432 has it, over all. RFC 8584 §2.2.1.
#[must_use]
pub fn by_circuit(candidates: &[Candidate]) -> bool {
    unanimous(candidates).is_some_and(|(_, capabilities)| capabilities & AC_DF != 0)
}

/// What all candidates want, if that is the same.
fn unanimous(candidates: &[Candidate]) -> Option<(Algorithm, u16)> {
    let wish = |candidate: &Candidate| (candidate.algorithm, candidate.capabilities);
    let mut wishes = candidates.iter().map(wish);
    let first = wishes.next()?;
    wishes.all(|other| other == first).then_some(first)
}

/// Elects the forwarder of a segment for a broadcast domain: the tag is its VLAN, or the lowest of a
/// bundle (RFC 7432 §8.5), or what the fabric uses instead, the VNI (RFC 8365 §8.1).
///
/// `None` without candidates, and where they agree on an algorithm that is not known. One that does not
/// preempt is taken for the forwarder among equals, which is what a fabric that has settled shows.
#[must_use]
pub fn elect(candidates: &[Candidate], esi: Esi, tag: u32) -> Option<IpAddr> {
    let elected = match agreed(candidates) {
        Algorithm::Modulo => return carve(candidates, tag),
        Algorithm::HighestRandomWeight => candidates
            .iter()
            .max_by_key(|it| (weight(tag, esi, it.originator), Reverse(it.originator))),
        Algorithm::HighestPreference => candidates
            .iter()
            .max_by_key(|it| (it.preference, it.dont_preempt, Reverse(it.originator))),
        Algorithm::LowestPreference => candidates
            .iter()
            .min_by_key(|it| (it.preference, Reverse(it.dont_preempt), it.originator)),
        Algorithm::Other(_) => None,
    };
    elected.map(|candidate| candidate.originator)
}

/// RFC 7432 §8.5: ordinals by ascending address, from 0.
fn carve(candidates: &[Candidate], tag: u32) -> Option<IpAddr> {
    let mut originators: Vec<IpAddr> = candidates.iter().map(|it| it.originator).collect();
    originators.sort_unstable();
    originators.dedup();
    let number = u32::try_from(originators.len()).ok()?;
    let ordinal = tag.checked_rem(number)?;
    originators.get(usize::try_from(ordinal).ok()?).copied()
}

/// RFC 8584 §3.2: `(1103515245 * ((1103515245 * Si + 12345) XOR D(v, Es)) + 12345) mod 2^31`. Only the lower
/// 31 bits of an address count, so that wrapping 32 bits are exact.
fn weight(tag: u32, esi: Esi, address: IpAddr) -> u32 {
    let address = match address {
        IpAddr::V4(address) => u32::from(address),
        IpAddr::V6(address) => {
            let [.., a, b, c, d] = address.octets();
            u32::from_be_bytes([a, b, c, d])
        }
    };
    let step = |value: u32| MULTIPLIER.wrapping_mul(value).wrapping_add(INCREMENT);
    step(step(address) ^ digest(tag, esi)) & LOWER_31
}

/// D(v, Es): CRC-32 of the tag and the segment, without its highest bit. RFC 8584 §3.2.
fn digest(tag: u32, esi: Esi) -> u32 {
    let octets = tag.to_be_bytes().into_iter().chain(esi.0);
    let crc = octets.fold(u32::MAX, |crc, octet| {
        (0..8).fold(crc ^ u32::from(octet), |crc, _| {
            let carry = if crc & 1 == 1 { CRC_32 } else { 0 };
            (crc >> 1) ^ carry
        })
    });
    !crc & LOWER_31
}

/// AC-influenced election among the capabilities. RFC 8584 §2.2.
const AC_DF: u16 = 0x4000;
/// What a type 4 without a preference is worth. RFC 9785 §3.
const DEFAULT_PREFERENCE: u16 = 32_767;
const MULTIPLIER: u32 = 1_103_515_245;
const INCREMENT: u32 = 12_345;
const LOWER_31: u32 = 0x7fff_ffff;
/// The polynomial of IEEE 802.3, reflected.
const CRC_32: u32 = 0xedb8_8320;

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(host: u8, algorithm: u8) -> Candidate {
        let election = DfElection::new(algorithm, 0, DEFAULT_PREFERENCE);
        Candidate::new([192, 0, 2, host].into(), Some(election))
    }

    fn preferred(host: u8, algorithm: u8, preference: u16, dont_preempt: bool) -> Candidate {
        Candidate {
            preference,
            dont_preempt,
            ..candidate(host, algorithm)
        }
    }

    fn elected(candidates: &[Candidate], tag: u32) -> Option<u8> {
        let esi = Esi([0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99]);
        let mut turned = candidates.to_vec();
        turned.reverse();
        let elected = elect(candidates, esi, tag);
        assert_eq!(elected, elect(&turned, esi, tag), "the order counts");
        elected.map(|address| match address {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(address) => address.octets()[15],
        })
    }

    /// RFC 7432 §8.5, by hand: ordinals 0, 1, 2 for .1, .2, .9.
    #[test]
    fn service_carving_counts_in_the_order_of_addresses() {
        let three = [candidate(9, 0), candidate(1, 0), candidate(2, 0)];
        for (tag, host) in [(0, 1), (1, 2), (2, 9), (3, 1), (100, 2), (u32::MAX, 1)] {
            assert_eq!(elected(&three, tag), Some(host), "{tag}");
        }
        assert_eq!(elected(&[], 1), None);
        assert_eq!(elected(&[candidate(7, 0)], 1), Some(7));
    }

    /// CRC-32 of "123456789" is 0xcbf43926; the tag and segment here spell its digits and more.
    #[test]
    fn the_digest_is_crc_32_of_ieee() {
        let esi = Esi(*b"5678901234");
        let expected = crc32_by_table(b"12345678901234");
        assert_eq!(
            digest(u32::from_be_bytes(*b"1234"), esi),
            expected & LOWER_31
        );
        assert_eq!(crc32_by_table(b"123456789"), 0xcbf4_3926);
    }

    /// The same by long division, most significant bit first, over bits turned around.
    fn crc32_by_table(octets: &[u8]) -> u32 {
        let mut rest = u32::MAX;
        for octet in octets {
            rest ^= u32::from(octet.reverse_bits()) << 24;
            for _ in 0..8 {
                let carry = rest & 0x8000_0000 != 0;
                rest <<= 1;
                if carry {
                    rest ^= 0x04c1_1db7;
                }
            }
        }
        !rest.reverse_bits()
    }

    /// RFC 8584 §3.2 with numbers of any size, as it is written.
    #[test]
    fn the_weight_is_that_of_the_rfc() {
        let esi = Esi([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        for (tag, host) in [(1, 1), (100, 2), (4_094, 250), (16_777_215, 9)] {
            let address = IpAddr::from([192, 0, 2, host]);
            let si = 0xc000_0200_u128 + u128::from(host);
            let inner = (1_103_515_245 * si + 12_345) ^ u128::from(digest(tag, esi));
            let weighted = (1_103_515_245 * inner + 12_345) % (1 << 31);
            assert_eq!(u128::from(weight(tag, esi, address)), weighted);
        }
    }

    /// A candidate that goes moves only the tags that it had.
    #[test]
    fn highest_random_weight_moves_little() {
        let four: Vec<_> = (1..=4).map(|host| candidate(host, 1)).collect();
        let mut shares = [0_u32; 5];
        for tag in 0..1_000 {
            let all = elected(&four, tag).unwrap();
            shares[usize::from(all)] += 1;
            if all != 4 {
                assert_eq!(elected(&four[..3], tag), Some(all), "{tag}");
            }
        }
        assert!(shares[1..].iter().all(|share| *share > 150), "{shares:?}");
    }

    /// RFC 9785 §4.1, by hand.
    #[test]
    fn preference_then_no_preemption_then_the_lower_address() {
        let highest = [
            preferred(1, 2, 100, false),
            preferred(2, 2, 300, false),
            preferred(3, 2, 300, true),
            preferred(4, 2, 300, true),
        ];
        assert_eq!(elected(&highest, 1), Some(3));
        assert_eq!(elected(&highest[..2], 1), Some(2));
        let lowest = [
            preferred(1, 3, 300, false),
            preferred(2, 3, 100, false),
            preferred(3, 3, 100, true),
            preferred(4, 3, 100, true),
        ];
        assert_eq!(elected(&lowest, 1), Some(3));
        assert_eq!(elected(&lowest[..2], 1), Some(2));
    }

    /// RFC 8584 §2.2.1 and §4: 0x4000 is one of the things to agree on.
    #[test]
    fn circuits_count_where_all_say_so() {
        let wish = |host, algorithm, capabilities| Candidate {
            capabilities,
            ..candidate(host, algorithm)
        };
        assert!(by_circuit(&[wish(1, 1, 0x4000), wish(2, 1, 0x4000)]));
        assert!(by_circuit(&[wish(1, 0, 0x5000)]));
        let no = [
            vec![],
            vec![wish(1, 1, 0x1000), wish(2, 1, 0x1000)],
            vec![wish(1, 1, 0x4000), wish(2, 1, 0)],
            vec![wish(1, 1, 0x4000), wish(2, 2, 0x4000)],
        ];
        for candidates in no {
            assert!(!by_circuit(&candidates), "{candidates:?}");
        }
    }

    /// RFC 8584 §2.2.1.
    #[test]
    fn who_does_not_agree_carves() {
        let one = |algorithm| [candidate(1, algorithm), candidate(2, 0)];
        for algorithm in 1..=4 {
            assert_eq!(agreed(&one(algorithm)), Algorithm::Modulo);
            assert_eq!(elected(&one(algorithm), 1), Some(2));
        }
        let other = Candidate {
            capabilities: 0x4000,
            ..candidate(1, 2)
        };
        assert_eq!(agreed(&[other, candidate(2, 2)]), Algorithm::Modulo);
        assert!(!by_circuit(&[other, candidate(2, 2)]));
        let unknown = [candidate(1, 9), candidate(2, 9)];
        assert_eq!(agreed(&unknown), Algorithm::Other(9));
        assert_eq!(agreed(&unknown).to_string(), "algorithm 9");
        assert_eq!(elected(&unknown, 1), None);
    }
}
