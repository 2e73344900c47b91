//! The Raft log on disk.
pub(crate) const APPLIED: &[u8] = b"applied";
pub(crate) const PROPOSER_PREFIX: &[u8] = b"proposer/";
pub(crate) fn index_from(octets: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(octets.try_into().ok()?))
}
