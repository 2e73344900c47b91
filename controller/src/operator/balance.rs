//! What weft does with the routes of each leaf: as it is agreed, and set anew. Knows no switch.

use tonic::Status;
use weft_proto::operator::v1 as proto;
use weft_store::{Batch, Op, Outcome};

use crate::consensus::Consensus;
use crate::fabric::mode::{self, Mode, Modes};
use crate::fabric::topology::{Role, Topology};
use crate::ledger::{self, FactKey, FactPrefix};

/// The modes as they are agreed now.
pub(super) async fn modes(consensus: &Consensus) -> Result<Modes, Status> {
    if consensus.read_index().await.is_none() {
        return Err(Status::unavailable("no majority of replicas answers"));
    }
    let mut modes = Modes::default();
    for fact in consensus.view().scan(&FactPrefix::Balance.encode()) {
        let (key, value) = fact.map_err(|error| Status::internal(error.to_string()))?;
        if let Some(FactKey::Balance(leaf)) = FactKey::decode(&key) {
            modes.set(leaf, Some(ledger::decode_mode(&value).unwrap_or(Mode::Off)));
        }
    }
    Ok(modes)
}

/// Sets the mode of a leaf of the fabric; with an empty name, of all.
pub(super) async fn set(
    consensus: &Consensus,
    topology: Option<&Topology>,
    request: &proto::SetBalanceRequest,
) -> Result<(), Status> {
    let mode = mode::from_message(request.mode)
        .ok_or_else(|| Status::invalid_argument("mode: off, shadow or on"))?;
    let leaf = request.leaf.as_str();
    if !leaf.is_empty() {
        known(topology, leaf)?;
    }
    match consensus.propose(batch(leaf, mode)).await {
        Outcome::Applied { .. } => Ok(()),
        Outcome::ConditionFailed { .. } | Outcome::Superseded | Outcome::Dropped => {
            Err(Status::unavailable(
                "the replicas did not answer in time; the change may still be made",
            ))
        }
    }
}

/// Whether the fabric has such a leaf.
pub(super) fn known(topology: Option<&Topology>, leaf: &str) -> Result<(), Status> {
    let switch = topology.and_then(|topology| topology.switch(&leaf.into()));
    match switch.map(|switch| switch.role) {
        Some(Role::Leaf) => Ok(()),
        Some(Role::Spine) => Err(Status::not_found(format!("leaf: {leaf:?} is a spine"))),
        None => Err(Status::not_found(format!(
            "leaf: the fabric has no switch named {leaf:?}"
        ))),
    }
}

/// All leaves: none has a mode of its own any more.
fn batch(leaf: &str, mode: Mode) -> Batch {
    let put = ledger::put(&FactKey::Balance(leaf), ledger::encode_mode(mode));
    let prefix = FactPrefix::Balance.encode();
    let ops = match leaf {
        "" => vec![Op::DeletePrefix { prefix }, put],
        _ => vec![put],
    };
    Batch {
        conditions: Vec::new(),
        ops,
    }
}

/// The modes of the leaves of the fabric.
pub(super) fn to_message(modes: &Modes, topology: Option<&Topology>) -> proto::Balance {
    let switches = topology.into_iter().flat_map(Topology::switches);
    let leaves = switches.filter(|switch| switch.role == Role::Leaf);
    let leaves = leaves.map(|leaf| proto::LeafBalance {
        leaf: leaf.name.to_string(),
        mode: mode::to_message(modes.of(leaf.name.as_str())).into(),
        own: modes.is_own(leaf.name.as_str()),
        agent_address: leaf.agent.as_deref().unwrap_or_default().to_owned(),
    });
    proto::Balance {
        mode: mode::to_message(modes.of_others()).into(),
        leaves: leaves.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::topology::tests::leaf_spine;

    #[test]
    fn a_mode_for_all_forgets_those_of_single_leaves() {
        let Op::DeletePrefix { prefix } = &batch("", Mode::Off).ops[0] else {
            panic!("nothing is forgotten");
        };
        assert_eq!(FactPrefix::decode(prefix), Some(FactPrefix::Balance));
        assert_eq!(batch("leaf1", Mode::Off).ops.len(), 1);
    }

    #[test]
    fn a_switch_that_is_no_leaf_is_refused_by_name() {
        let topology = leaf_spine(1, 1);
        let refusal = |leaf| known(Some(&topology), leaf).map_err(|it| it.message().to_owned());
        assert_eq!(refusal("leaf1"), Ok(()));
        let said = refusal("leaf9").unwrap_err();
        assert_eq!(said, "leaf: the fabric has no switch named \"leaf9\"");
        assert_eq!(
            refusal("spine1").unwrap_err(),
            "leaf: \"spine1\" is a spine"
        );
    }

    #[test]
    fn every_leaf_is_listed_with_what_holds_for_it() {
        let mut modes = Modes::default();
        modes.set("leaf2", Some(Mode::On));
        let balance = to_message(&modes, Some(&leaf_spine(2, 1)));
        let leaves: Vec<_> = balance
            .leaves
            .iter()
            .map(|it| (it.leaf.as_str(), it.mode(), it.own))
            .collect();
        let expected = [
            ("leaf1", proto::BalanceMode::Shadow, false),
            ("leaf2", proto::BalanceMode::On, true),
        ];
        assert_eq!(leaves, expected);
    }
}
