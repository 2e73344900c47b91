//! What weft does with the routes of each leaf: as it is agreed, and set anew. Knows no switch.

use tonic::Status;
use weft_proto::v1 as proto;
use weft_store::{Batch, Op, Outcome};

use super::super::access::Identity;
use super::super::refusal;
use crate::consensus::Consensus;
use crate::fabric::fact::InvalidFabric;
use crate::fabric::mode::{self, Mode, Modes};
use crate::fabric::topology::{Role, Topology};
use crate::ledger::{self, FactKey, FactPrefix};

/// The modes as they are agreed now, and up to where.
pub(super) async fn modes(consensus: &Consensus) -> Result<(Modes, u64), Status> {
    let index = consensus.read_index().await;
    let index = index.ok_or_else(refusal::no_majority)?;
    let mut modes = Modes::default();
    for fact in consensus.view().scan(&FactPrefix::Balance.encode()) {
        let (key, value) = fact.map_err(|error| Status::internal(error.to_string()))?;
        if let Some(FactKey::Balance(leaf)) = FactKey::decode(&key) {
            modes.set(leaf, Some(ledger::decode_mode(&value).unwrap_or(Mode::Off)));
        }
    }
    Ok((modes, index))
}

/// Sets the mode of a leaf of the fabric; of all, if none is named. The index of the change.
pub(super) async fn set(
    consensus: &Consensus,
    topology: Option<&Topology>,
    request: &proto::SetBalanceRequest,
    by: Identity,
) -> Result<u64, Status> {
    let (leaf, mode) = read(request)?;
    if let Some(leaf) = leaf {
        known(topology, leaf)?;
    }
    match consensus
        .propose(batch(leaf.unwrap_or_default(), mode))
        .await
    {
        Outcome::Applied { index } => {
            tracing::info!(leaf, ?mode, %by, "balance set");
            Ok(index)
        }
        Outcome::ConditionFailed { .. } | Outcome::Superseded | Outcome::Dropped => {
            Err(refusal::outcome_unknown())
        }
    }
}

fn read(request: &proto::SetBalanceRequest) -> Result<(Option<&str>, Mode), Status> {
    let mut faults = InvalidFabric::default();
    let mode = mode::from_message(request.mode);
    if mode.is_none() {
        faults.fault("mode", "not off, shadow or on");
    }
    let leaf = request.leaf_name.as_deref();
    // An empty name would be that of all.
    if leaf == Some("") {
        faults.fault("leaf_name", "empty; absent for all leaves");
    }
    match mode.filter(|_| faults.is_empty()) {
        Some(mode) => Ok((leaf, mode)),
        None => Err(refusal::invalid(&faults)),
    }
}

/// Whether the fabric has such a leaf.
pub(super) fn known(topology: Option<&Topology>, leaf: &str) -> Result<(), Status> {
    let switch = topology.and_then(|topology| topology.switch(&leaf.into()));
    match switch.map(|switch| switch.role) {
        Some(Role::Leaf) => Ok(()),
        Some(Role::Spine) => {
            let reason = format!("{leaf:?} is a spine");
            Err(refusal::missing_because("leaf_name", "leaf", leaf, reason))
        }
        None => Err(refusal::missing("leaf_name", "leaf", leaf)),
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
        leaf_name: leaf.name.to_string(),
        mode: mode::to_message(modes.of(leaf.name.as_str())).into(),
        has_own_mode: modes.is_own(leaf.name.as_str()),
        agent_address: leaf.agent.as_deref().map(str::to_owned),
    });
    proto::Balance {
        default_mode: mode::to_message(modes.of_others()).into(),
        leaves: leaves.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::topology::tests::leaf_spine;
    use crate::operator::lone;

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
        assert_eq!(said, "leaf_name: no leaf is named \"leaf9\"");
        assert_eq!(
            refusal("spine1").unwrap_err(),
            "leaf_name: \"spine1\" is a spine"
        );
    }

    #[test]
    fn an_empty_name_is_not_all_leaves() {
        let request = |leaf: Option<&str>, mode: proto::BalanceMode| proto::SetBalanceRequest {
            leaf_name: leaf.map(str::to_owned),
            mode: mode.into(),
        };
        let all = request(None, proto::BalanceMode::Off);
        assert_eq!(read(&all).unwrap(), (None, Mode::Off));
        let refused = read(&request(Some(""), proto::BalanceMode::Unspecified)).unwrap_err();
        let said = "mode: not off, shadow or on; and 1 more";
        assert_eq!(refused.message(), said);
        assert_eq!(lone::fields(&refused), ["mode", "leaf_name"]);
    }

    #[test]
    fn every_leaf_is_listed_with_what_holds_for_it() {
        let mut modes = Modes::default();
        modes.set("leaf2", Some(Mode::On));
        let balance = to_message(&modes, Some(&leaf_spine(2, 1)));
        let leaves: Vec<_> = balance
            .leaves
            .iter()
            .map(|it| (it.leaf_name.as_str(), it.mode(), it.has_own_mode))
            .collect();
        let expected = [
            ("leaf1", proto::BalanceMode::Shadow, false),
            ("leaf2", proto::BalanceMode::On, true),
        ];
        assert_eq!(leaves, expected);
    }
}
