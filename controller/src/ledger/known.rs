//! The check of a batch that another replica forwards: the reflector must understand all of it. Knows no state: a batch that passes may
//! still be wrong.

use bytes::Bytes;
use weft_store::{Batch, Condition, Op};

use super::{FAMILIES, FactKey, FactPrefix, Head, Owner, Request};
use crate::fabric::fact::{Fact, Kind};

/// Returns true if weft has a name for each key and prefix in `batch`, and each value decodes. A committed fact that is not
/// understood ends every replica, at each start.
pub fn knows(batch: &Batch) -> bool {
    let is_key = |key: &Bytes| FactKey::decode(key).is_some();
    let condition = |condition: &Condition| match condition {
        Condition::Equals { key, .. } => is_key(key),
        Condition::Term(_) => true,
    };
    let op = |op: &Op| match op {
        Op::Put { value, keys } => keys.iter().all(|key| is_fact(key, value)),
        Op::Delete { keys } => keys.iter().all(is_key),
        Op::DeletePrefix { prefix } => FactPrefix::decode(prefix).is_some(),
    };
    batch.conditions.iter().all(condition) && batch.ops.iter().all(op)
}

fn is_fact(key: &[u8], value: &[u8]) -> bool {
    match FactKey::decode(key) {
        // The reflector leaves out a route whose attributes it does not understand.
        Some(FactKey::Route(family, ..)) => FAMILIES.contains(&family),
        Some(key) => is_value(&key, value),
        None => false,
    }
}

/// Returns true if the reflector takes `value` under `key`. A new kind of fact is a new arm here, and a new
/// example in the examples of the format.
pub(super) fn is_value(key: &FactKey<'_>, value: &[u8]) -> bool {
    match key {
        FactKey::Route(..) => super::decode_path(value).is_some(),
        FactKey::Owner(_) => Owner::decode(value).is_some(),
        FactKey::Head => Head::decode(value).is_some(),
        FactKey::Declared(_, kind, _) => Fact::decode(*kind, value).is_ok(),
        FactKey::Job(_) => Fact::decode(Kind::Job, value).is_ok(),
        FactKey::Edit(..) => super::decode_edit(value).is_some(),
        FactKey::Jobs | FactKey::Pins | FactKey::Incarnation => {
            super::decode_count(value).is_some()
        }
        FactKey::Pin(_) => super::decode_paths(value).is_some(),
        FactKey::Request(_) => Request::decode(value).is_some(),
        FactKey::RequestAt(_) => value.len() == 16,
        FactKey::Session(..) | FactKey::Stage(_) => true,
        FactKey::Freeze(_) => super::decode_holder(value).is_some(),
        FactKey::Balance(_) => super::decode_mode(value).is_some(),
        FactKey::Derating(_) => super::decode_derating(value).is_some(),
        FactKey::OffPlan(_) => super::decode_off_plan(value).is_some(),
        FactKey::KeptFree(_) => super::decode_kept_free(value).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use weft_bgp::family::Family;
    use weft_bgp::peer::{PeerId, RouterId};

    use super::*;

    fn batch(conditions: Vec<Condition>, ops: Vec<Op>) -> Batch {
        Batch { conditions, ops }
    }

    fn equals(key: &'static [u8]) -> Condition {
        Condition::Equals {
            key: Bytes::from_static(key),
            value: None,
        }
    }

    fn put(key: &FactKey<'_>, value: &'static [u8]) -> Op {
        Op::Put {
            value: Bytes::from_static(value),
            keys: vec![key.encode()],
        }
    }

    fn delete(key: &'static [u8]) -> Op {
        Op::Delete {
            keys: vec![Bytes::from_static(key)],
        }
    }

    fn prefix(prefix: &'static [u8]) -> Op {
        Op::DeletePrefix {
            prefix: Bytes::from_static(prefix),
        }
    }

    fn route(family: Family) -> Op {
        let peer = PeerId {
            router_id: RouterId(1),
            asn: 64_496,
        };
        put(&FactKey::Route(family, peer, b"nlri"), b"")
    }

    #[test]
    fn a_fact_without_a_name_or_of_another_form_is_not_known() {
        let ops = vec![
            delete(b"j"),
            prefix(b"b"),
            put(&FactKey::Jobs, &[0; 8]),
            route(Family::RTC),
        ];
        assert!(knows(&batch(vec![Condition::Term(7), equals(b"i")], ops)));
        assert!(!knows(&batch(vec![equals(b"?")], Vec::new())));
        let foreign = [
            delete(b""),
            delete(b"?"),
            prefix(b""),
            prefix(b"r"),
            prefix(b"t"),
            put(&FactKey::Jobs, &[0; 7]),
            put(&FactKey::Balance("leaf1"), b"?"),
            route(Family { afi: 25, safi: 65 }),
        ];
        for op in foreign {
            assert!(!knows(&batch(Vec::new(), vec![op.clone()])), "{op:?}");
        }
    }
}
