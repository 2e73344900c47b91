//! A peer's epoch only grows while its record exists, and a route is written under the owner's record
//! only. Knows owners, no routes.

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
        && new.epoch <= old.epoch
    {
        let (old, new) = (old.epoch, new.epoch);
        return Err(format!("epoch of {peer} went from {old} to {new}"));
    }
    Ok(())
}
