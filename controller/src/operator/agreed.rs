//! Changes of what the replicas agree on beside the declared fabric, each made once for its request_id: what was asked for is
//! remembered in the entry that makes the change, so that no death of a leader comes between the two. Knows no call.

use bytes::Bytes;
use tonic::Status;
use weft_store::{Batch, Condition, Op, Outcome};

use super::{look, refusal};
use crate::fabric::declared::Declared;
use crate::ledger::{self, FactKey, Request, RequestId};
use crate::speaker::Shared;

/// What is declared, with everything that was agreed before the call, and up to where that is.
///
/// # Errors
/// UNAVAILABLE without a majority, or where this replica does not keep up.
pub(super) async fn declared(shared: &Shared) -> Result<(Declared, u64), Status> {
    let index = shared.consensus.read_index().await;
    let index = index.ok_or_else(refusal::no_majority)?;
    let look = look::at(shared, index, |reflector| {
        (reflector.control().declared.clone(), reflector.index())
    });
    let (declared, applied) = look.await?;
    Ok((declared, applied.max(index)))
}

/// Makes a change. The index of it; where the request was made before, one after it. `content` is a hash of what is asked for.
///
/// # Errors
/// The id came with other content before; nobody can say whether the change was made; this replica's proposals count as old ones.
pub(super) async fn once(
    shared: &Shared,
    id: Option<RequestId>,
    content: u64,
    ops: Vec<Op>,
) -> Result<u64, Status> {
    let mut superseded = 0;
    for _ in 0..ATTEMPTS_MAX {
        let Some(id) = id else {
            let conditions = Vec::new();
            let ops = ops.clone();
            match shared.consensus.propose(Batch { conditions, ops }).await {
                Outcome::Applied { index } => return Ok(index),
                Outcome::Superseded if superseded < SUPERSEDED_MAX => superseded += 1,
                Outcome::Superseded => return Err(refusal::superseded()),
                Outcome::ConditionFailed { .. } | Outcome::Dropped => {
                    return Err(refusal::outcome_unknown());
                }
            }
            continue;
        };
        let (declared, index) = declared(shared).await?;
        if let Some(made) = declared.request(id) {
            return match made.content == content {
                true => Ok(index),
                false => Err(refusal::request_id_reused()),
            };
        }
        let batch = remembered(&declared, id, content, ops.clone());
        match shared.consensus.propose(batch).await {
            Outcome::Applied { index } => return Ok(index),
            // Another request took the place, or this one was made at another replica meanwhile.
            Outcome::ConditionFailed { .. } => {}
            Outcome::Superseded if superseded < SUPERSEDED_MAX => superseded += 1,
            Outcome::Superseded => return Err(refusal::superseded()),
            Outcome::Dropped => return Err(refusal::outcome_unknown()),
        }
    }
    Err(refusal::busy())
}

/// A batch that holds once, and is known to have held for as long as [`CALLS_MAX`] others come.
pub(super) fn remembered(
    declared: &Declared,
    id: RequestId,
    content: u64,
    mut ops: Vec<Op>,
) -> Batch {
    let place = declared.next_call();
    let absent = [FactKey::Request(id), FactKey::RequestAt(place)];
    let conditions = absent.map(|key| Condition::Equals {
        key: key.encode(),
        value: None,
    });
    let request = Request {
        generation: place,
        content,
    };
    ops.push(ledger::put(&FactKey::Request(id), request.encode()));
    let octets = Bytes::copy_from_slice(&id.0);
    ops.push(ledger::put(&FactKey::RequestAt(place), octets));
    if let Some((at, id)) = declared.oldest_call(place.saturating_sub(CALLS_MAX)) {
        ops.push(ledger::delete(&FactKey::Request(id)));
        ops.push(ledger::delete(&FactKey::RequestAt(at)));
    }
    Batch {
        conditions: conditions.to_vec(),
        ops,
    }
}

/// As for a change of the fabric.
const ATTEMPTS_MAX: usize = 64;
/// A proposal is superseded if a later one of this replica is applied first, which happens once at the most. If it happens so often
/// the replica counts its proposals from a number that the others have passed.
pub(super) const SUPERSEDED_MAX: usize = 8;
/// Requests that are known: an operator makes a few in a minute, and a scheduler some in a second.
const CALLS_MAX: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn made(declared: &mut Declared, id: u8) -> usize {
        let batch = remembered(declared, RequestId([id; 16]), 7, Vec::new());
        let count = batch.ops.len();
        for op in batch.ops {
            let (keys, value) = match op {
                Op::Put { keys, value } => (keys, Some(value)),
                Op::Delete { keys } => (keys, None),
                Op::DeletePrefix { .. } => panic!("nothing is deleted by prefix"),
            };
            for key in keys {
                match FactKey::decode(&key).unwrap() {
                    FactKey::Request(id) => {
                        declared.put_request(id, value.as_deref().and_then(Request::decode));
                    }
                    FactKey::RequestAt(at) => {
                        let id = value.as_deref().map(|it| RequestId(it.try_into().unwrap()));
                        declared.put_request_at(at, id);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        count
    }

    #[test]
    fn a_call_is_remembered_apart_from_changes_of_the_fabric() {
        let mut declared = Declared::default();
        declared.put_request_at(3, Some(RequestId([9; 16])));
        let first = declared.next_call();
        assert_eq!(made(&mut declared, 1), 2);
        assert_eq!(declared.next_call(), first + 1);
        assert_eq!(made(&mut declared, 2), 2);
        let request = declared.request(RequestId([1; 16])).unwrap();
        assert_eq!((request.generation, request.content), (first, 7));
        // The fabric's own go on by their generation.
        assert_eq!(declared.oldest_request(5), Some((3, RequestId([9; 16]))));
        assert_eq!(declared.oldest_call(first - 1), None);
        let oldest = Some((first, RequestId([1; 16])));
        assert_eq!(declared.oldest_call(first + 1), oldest);
    }
}
