//! A peer's epoch grows with each claim while its record exists; between two, the record says only how the peer's
//! paths are kept. Knows owners, no routes.

use weft_controller::ledger::{FactKey, Owner};

use super::Verdict;
use super::facts::Delta;

/// Judges one change of a fact.
pub(crate) fn changed(delta: &Delta) -> Verdict {
    let Some(FactKey::Owner(peer)) = FactKey::decode(&delta.key) else {
        return Ok(());
    };
    let owner = |value: &Option<bytes::Bytes>| value.as_ref().and_then(|it| Owner::decode(it));
    if let (Some(old), Some(new)) = (owner(&delta.old), owner(&delta.new))
        && (new.epoch < old.epoch || new.epoch == old.epoch && is_claim(&old, &new))
    {
        let (old, new) = (old.epoch, new.epoch);
        return Err(format!("epoch of {peer} went from {old} to {new}"));
    }
    Ok(())
}

fn is_claim(old: &Owner, new: &Owner) -> bool {
    let back = old.retention.is_some() && new.retention.is_none();
    back || (old.replica, old.address, old.kind) != (new.replica, new.address, new.kind)
}
