//! Route target membership: which route targets a peer wants. Knows no filter that is made of it.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;

use crate::attribute::{Attributes, ExtendedCommunity, PmsiTunnel};
use crate::error::{DecodeError, Fault};
use crate::family::Family;
use crate::nlri::{Nlri, NlriError};
use crate::reflect::Filter;
use crate::wire::{Reader, Writer};

/// A wish for routes with a route target, or with all that begin like it. RFC 4684 §4.
///
/// ```text
/// +--- 1 ---+--- 4 ---+--- 0..8 ---+
/// |   len   |   AS    |   target   |     len: 0 (everything) or 32 to 96 bits
/// +---------+---------+------------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Membership {
    /// Bits of `origin_as` and `target` that count.
    pub len: u8,
    /// AS of the router that wishes.
    pub origin_as: u32,
    /// The route target, bits beyond `len` zero.
    pub target: [u8; 8],
}

impl Membership {
    /// The wish for every route. RFC 4684 §3.2.
    pub const DEFAULT: Self = Self {
        len: 0,
        origin_as: 0,
        target: [0; 8],
    };

    /// The wish of `origin_as` for exactly `target`.
    #[must_use]
    pub fn exactly(origin_as: u32, target: ExtendedCommunity) -> Self {
        Self {
            len: LEN_MAX,
            origin_as,
            target: target.0,
        }
    }

    /// Whether a route with `target` is wished for.
    #[must_use]
    pub fn matches(&self, target: ExtendedCommunity) -> bool {
        let difference = u64::from_be_bytes(self.target) ^ u64::from_be_bytes(target.0);
        difference & mask(self.len) == 0
    }

    /// `None` when `len` is none of the lengths allowed. Bits beyond it are cleared.
    fn new(len: u8, origin_as: u32, target: [u8; 8]) -> Option<Self> {
        match len {
            0 => Some(Self::DEFAULT),
            AS_BITS..=LEN_MAX => {
                let target = u64::from_be_bytes(target) & mask(len);
                Some(Self {
                    len,
                    origin_as,
                    target: target.to_be_bytes(),
                })
            }
            _ => None,
        }
    }
}

/// The bits of a target that a membership of `len` bits compares.
fn mask(len: u8) -> u64 {
    let ignored = LEN_MAX.saturating_sub(len.max(AS_BITS));
    u64::MAX.checked_shl(ignored.into()).unwrap_or(0)
}

/// Bit of a [`Filter`]: the peer takes the memberships of others beside our own, which is the default one. EOS would take
/// them for all that we want.
pub const OTHERS_MEMBERSHIPS: u32 = 1 << 30;

impl Nlri for Membership {
    type Key = Self;

    /// RFC 4684 §3.2: by its own wish a client knows that there is somebody to tell, such as another one with that wish.
    const RETURNS: bool = true;

    /// RFC 4684 §3.2: a non-client is told a client's path where there is one. What a membership says is in its key, so it
    /// is the best path for everybody.
    const NON_CLIENTS_LAST: bool = true;

    fn family() -> Family {
        Family::RTC
    }

    fn key(&self) -> Self {
        *self
    }

    /// RFC 7606 §5.3: a length that is not allowed, or that goes beyond the field, loses framing.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, NlriError> {
        let start = reader.error(Fault::Network);
        let reset = |_: DecodeError| NlriError::Reset(start);
        let len = reader.u8().map_err(reset)?;
        if len == 0 {
            return Ok(Self::DEFAULT);
        }
        let target_bits = len.checked_sub(AS_BITS).ok_or(NlriError::Reset(start))?;
        let origin_as = reader.u32().map_err(reset)?;
        let mut target = [0; 8];
        let field = target.get_mut(..target_bits.div_ceil(8).into());
        let field = field.ok_or(NlriError::Reset(start))?;
        field.copy_from_slice(reader.take(field.len()).map_err(reset)?);
        Self::new(len, origin_as, target).ok_or(NlriError::Reset(start))
    }

    fn encode(&self, out: &mut Writer) {
        out.u8(self.len);
        if let Some(target_bits) = self.len.checked_sub(AS_BITS) {
            out.u32(self.origin_as);
            let octets = usize::from(target_bits.div_ceil(8));
            out.slice(self.target.get(..octets).unwrap_or(&self.target));
        }
    }

    fn encode_withdraw(key: &Self, out: &mut Writer) {
        key.encode(out);
    }

    fn key_octets(key: &Self, out: &mut Vec<u8>) {
        out.push(key.len);
        out.extend_from_slice(&key.origin_as.to_be_bytes());
        out.extend_from_slice(&key.target);
    }

    fn key_from_octets(octets: &[u8]) -> Option<Self> {
        let (&len, rest) = octets.split_first()?;
        let (origin_as, target) = rest.split_first_chunk()?;
        Self::new(len, u32::from_be_bytes(*origin_as), target.try_into().ok()?)
    }

    fn payload_octets(&self, _out: &mut Vec<u8>) {}

    fn from_parts(key: Self, payload: &[u8]) -> Option<Self> {
        payload.is_empty().then_some(key)
    }

    /// The default one is never told for others: each speaker has its own, and theirs must not replace or withdraw it.
    fn sendable(&self, attributes: &Attributes, filter: Filter) -> bool {
        let plain = attributes.pmsi.as_ref().is_none_or(PmsiTunnel::is_plain);
        plain && Self::withdrawable(self, filter)
    }

    /// Nor is it taken back for others: the peer would take our own for gone.
    fn withdrawable(key: &Self, filter: Filter) -> bool {
        *key != Self::DEFAULT && filter.0 & OTHERS_MEMBERSHIPS != 0
    }
}

/// "64496:RT:64496:100/96", "default" for the wish for everything.
impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len {
            0 => f.write_str("default"),
            len => write!(
                f,
                "{}:{}/{len}",
                self.origin_as,
                ExtendedCommunity(self.target)
            ),
        }
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const AS_BITS: u8 = 32;
const LEN_MAX: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nlri::decode_all;

    const TARGET: ExtendedCommunity = ExtendedCommunity([0, 2, 0xfb, 0xf0, 0, 0, 0, 100]);

    #[test]
    fn memberships_survive_a_field_and_storage() {
        let shorter = Membership::new(48, 64_496, TARGET.0).unwrap();
        let all = [
            Membership::DEFAULT,
            Membership::exactly(64_496, TARGET),
            shorter,
        ];
        let mut out = Writer::new();
        all.iter()
            .for_each(|membership| membership.encode(&mut out));
        let octets = out.finish();
        assert_eq!(octets.len(), 1 + 13 + 7);
        let mut decoded = Vec::new();
        decode_all(
            &octets,
            false,
            |_, membership: Membership| decoded.push(membership),
            |_| (),
        )
        .unwrap();
        assert_eq!(decoded, all);
        for membership in all {
            let mut octets = Vec::new();
            Membership::key_octets(&membership, &mut octets);
            assert_eq!(Membership::key_from_octets(&octets), Some(membership));
        }
        assert_eq!(
            all.map(|membership| membership.to_string()),
            ["default", "64496:RT:64496:100/96", "64496:RT:0:0/48",]
        );
    }

    #[test]
    fn a_membership_matches_what_begins_like_it() {
        let other = ExtendedCommunity([1, 2, 0xfb, 0xf0, 0, 0, 0, 100]);
        let near = ExtendedCommunity([0, 2, 0xfb, 0xf0, 0, 0, 0, 101]);
        let table = [
            (Membership::DEFAULT, [true, true, true]),
            (Membership::new(32, 1, [0; 8]).unwrap(), [true, true, true]),
            (
                Membership::new(48, 1, TARGET.0).unwrap(),
                [true, false, true],
            ),
            (Membership::exactly(1, TARGET), [true, false, false]),
        ];
        for (membership, expected) in table {
            assert_eq!(
                [TARGET, other, near].map(|target| membership.matches(target)),
                expected
            );
        }
    }

    #[test]
    fn other_lengths_lose_the_framing() {
        for octets in [
            &[1, 0][..],
            &[31, 0, 0, 0, 1],
            &[97; 20],
            &[96, 0, 0, 0, 1, 0, 2],
            &[32, 0],
        ] {
            let result = decode_all(octets, false, |_, _: Membership| (), |_| ());
            assert_eq!(
                result,
                Err(DecodeError {
                    fault: Fault::Network,
                    offset: 0
                }),
                "{octets:?}"
            );
        }
    }
}
