//! What a family must be able to do to be carried: decode, encode, tell its key, break its ties.
//! Knows no family.

pub mod route_target;
pub mod unicast;

use std::cmp::Ordering;
use std::fmt;
use std::hash::Hash;

use crate::attribute::{Attributes, PmsiTunnel};
use crate::decision::Step;
use crate::error::{DecodeError, Fault};
use crate::family::Family;
use crate::reflect::Filter;
use crate::wire::{Reader, Writer};

/// One NLRI of a family: a key, and a payload that travels with it.
pub trait Nlri: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static {
    /// What identifies the destination; all that a withdrawal needs.
    type Key: Clone + Eq + Hash + Ord + fmt::Debug + fmt::Display + Send + Sync + 'static;

    /// The family.
    fn family() -> Family;

    /// The destination.
    fn key(&self) -> Self::Key;

    /// Takes one NLRI off `reader`. It consumes at least one octet, unless it fails with
    /// [`NlriError::Reset`].
    ///
    /// # Errors
    /// [`NlriError::Discard`] when this one is bad and `reader` stands behind it (RFC 7606 §5.4);
    /// [`NlriError::Reset`] when nothing behind it can be found.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, NlriError>;

    /// Writes it into MP_REACH_NLRI or the classic field.
    fn encode(&self, out: &mut Writer);

    /// Writes `key` into MP_UNREACH_NLRI or the classic field.
    fn encode_withdraw(key: &Self::Key, out: &mut Writer);

    /// Octets of `key` for storage: self-contained and injective; order is not kept.
    fn key_octets(key: &Self::Key, out: &mut Vec<u8>);

    /// The key of which [`Nlri::key_octets`] made `octets`.
    fn key_from_octets(octets: &[u8]) -> Option<Self::Key>;

    /// The part that is not key (ESI, labels, gateway), for storage beside the attributes.
    fn payload_octets(&self, out: &mut Vec<u8>);

    /// Puts together what [`Nlri::key`] and [`Nlri::payload_octets`] took apart.
    fn from_parts(key: Self::Key, payload: &[u8]) -> Option<Self>;

    /// What many destinations may be called together, for those who look for it without their keys; `None`: nothing.
    fn name(key: &Self::Key) -> Option<u64> {
        let _ = key;
        None
    }

    /// Whether a client is told of its own route too, as any other: it has to know that we have it.
    const RETURNS: bool = false;

    /// Whether a path that every peer may be told of is better than one of a non-client, which other non-clients are not
    /// told of.
    const NON_CLIENTS_LAST: bool = false;

    /// Whether its route targets may be others than those of the routes that they concern: then what a peer exports
    /// does not show that it does not want it.
    fn stands_apart(&self) -> bool {
        false
    }

    /// Whether a group with this filter may be told of it. The bits of a filter are the family's; one
    /// that reads none is told to everybody, but for a PMSI tunnel that not everybody reads.
    fn sendable(&self, attributes: &Attributes, filter: Filter) -> bool {
        let _ = filter;
        attributes.pmsi.as_ref().is_none_or(PmsiTunnel::is_plain)
    }

    /// Whether a group with this filter may hear that it is gone, though nobody knows whether it was told of
    /// it: a withdrawal has to be understood too.
    fn withdrawable(key: &Self::Key, filter: Filter) -> bool {
        let _ = (key, filter);
        true
    }

    /// Compared before the steps of RFC 4271 §9.1.2.2. Greater is better; `Equal` goes on with
    /// them. The step names the rule that made the difference.
    fn prefer(a: (&Self, &Attributes), b: (&Self, &Attributes)) -> (Ordering, Step) {
        let _ = (a, b);
        (Ordering::Equal, Step::Family("none"))
    }
}

/// Why an NLRI could not be decoded.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum NlriError {
    /// This one is bad, the next one can be found.
    Discard(DecodeError),
    /// The rest of the field is lost.
    Reset(DecodeError),
}

/// Decodes every NLRI of a field: the good ones go to `each` with their path identifiers, the bad
/// ones to `discarded`. With `add_path` each NLRI stands behind an identifier of four octets
/// (RFC 7911 §3); without, the identifier is 0. Offsets count from the first octet of `octets`.
///
/// # Errors
/// Where framing is lost; what stood before it has gone to `each` already.
pub fn decode_all<N: Nlri>(
    octets: &[u8],
    add_path: bool,
    mut each: impl FnMut(u32, N),
    mut discarded: impl FnMut(DecodeError),
) -> Result<(), DecodeError> {
    let mut reader = Reader::new(octets, 0, Fault::NlriFraming);
    while !reader.is_empty() {
        let before = reader.remaining();
        let path_id = if add_path { reader.u32()? } else { 0 };
        match N::decode(&mut reader) {
            Ok(nlri) => each(path_id, nlri),
            Err(NlriError::Discard(error)) => discarded(error),
            Err(NlriError::Reset(error)) => return Err(error),
        }
        // A codec that consumes nothing would never end.
        assert!(
            reader.remaining() < before,
            "a decoded NLRI consumes octets"
        );
    }
    Ok(())
}
