//! What weft does with the routes of each leaf: as it is agreed, and set anew. Knows no switch.

use tonic::Status;
use weft_proto::v1 as proto;
use weft_store::Op;

use super::super::access::Identity;
use super::super::{agreed, once, refusal};
use crate::consensus::Consensus;
use crate::fabric::fact::{Fact, InvalidFabric};
use crate::fabric::mode::{self, Mode, Modes};
use crate::fabric::topology::{Kind, Role, Switch, Topology};
use crate::ledger::{self, FactKey, FactPrefix, RequestId};
use crate::speaker::Shared;

/// The modes as they are agreed now, and up to where.
pub(super) async fn modes(consensus: &Consensus) -> Result<(Modes, u64), Status> {
    let index = consensus.read_index().await;
    let index = index.ok_or_else(refusal::no_majority)?;
    let mut modes = Modes::default();
    for fact in consensus.view().scan(&FactPrefix::Balance.encode()) {
        let (key, value) = fact.map_err(refusal::failed)?;
        if let Some(FactKey::Balance(leaf)) = FactKey::decode(&key) {
            modes.set(leaf, Some(ledger::decode_mode(&value).unwrap_or(Mode::Off)));
        }
    }
    Ok((modes, index))
}

/// Sets the mode of a leaf of the fabric, or of all. The index of the change, and the mode of all other leaves after it: nothing is
/// asked once the change is made, so that its answer cannot be that nothing was changed.
pub(super) async fn set(
    shared: &Shared,
    request: &proto::SetBalanceRequest,
    by: Identity,
) -> Result<(u64, Mode), Status> {
    let (leaf, mode, id) = read(request)?;
    let (declared, _) = agreed::declared(shared).await?;
    let (before, index) = modes(&shared.consensus).await?;
    if let Some(leaf) = leaf {
        known(declared.topology(), leaf)?;
    }
    let content = proto::SetBalanceRequest {
        request_id: String::new(),
        ..request.clone()
    };
    let content = once::content("SetBalance", &content);
    let is_set = before.is_set(leaf.unwrap_or_default(), mode);
    let index = match (is_set, id) {
        (true, None) => index,
        // The request alone is remembered: a copy of it that arrives later changes nothing.
        (true, Some(_)) => agreed::once(shared, id, content, Vec::new()).await?,
        (false, _) => {
            let ops = ops(leaf.unwrap_or_default(), mode);
            let index = agreed::once(shared, id, content, ops).await?;
            tracing::info!(leaf, ?mode, %by, "balance set");
            index
        }
    };
    let others = if leaf.is_some() {
        before.of_others()
    } else {
        mode
    };
    Ok((index, others))
}

type Read<'a> = (Option<&'a str>, Mode, Option<RequestId>);

fn read(request: &proto::SetBalanceRequest) -> Result<Read<'_>, Status> {
    let mut faults = InvalidFabric::default();
    let id = once::id(&request.request_id, &mut faults);
    let mode = mode::from_message(request.mode);
    if mode.is_none() {
        faults.fault("mode", "not off, shadow or on");
    }
    let leaf = request.leaf_name.as_deref();
    match (leaf, request.all_leaves) {
        // An empty name would be that of all.
        (None | Some(""), false) => faults.fault("leaf_name", "missing; all_leaves is for all"),
        (Some(_), true) => faults.fault("all_leaves", "a leaf is named too"),
        (Some(_), false) | (None, true) => {}
    }
    match mode.filter(|_| faults.is_empty()) {
        Some(mode) => Ok((leaf, mode, id)),
        None => Err(refusal::invalid(&faults)),
    }
}

/// The leaf of this name, if the fabric has one.
pub(super) fn known<'a>(topology: &'a Topology, leaf: &str) -> Result<&'a Switch, Status> {
    let switch = topology.switch(&leaf.into());
    match switch.map(|switch| (switch, switch.role)) {
        Some((switch, Role::Leaf)) => Ok(switch),
        Some((_, Role::Spine)) => {
            let reason = format!("{leaf:?} is a spine");
            Err(refusal::missing_because("leaf_name", "leaf", leaf, reason))
        }
        None => Err(refusal::missing("leaf_name", "leaf", leaf)),
    }
}

/// All leaves: none has a mode of its own any more.
fn ops(leaf: &str, mode: Mode) -> Vec<Op> {
    let put = ledger::put(&FactKey::Balance(leaf), ledger::encode_mode(mode));
    let prefix = FactPrefix::Balance.encode();
    match leaf {
        "" => vec![Op::DeletePrefix { prefix }, put],
        _ => vec![put],
    }
}

/// The modes of the leaves of the fabric behind one of them, in order of their names.
pub(super) fn rows(
    modes: &Modes,
    topology: &Topology,
    after: &str,
) -> impl Iterator<Item = proto::LeafBalance> {
    let facts = topology.facts_after(Kind::Switch, after);
    facts.filter_map(move |fact| match fact {
        Fact::Switch(switch) if switch.role == Role::Leaf => Some(row(modes, &switch)),
        _ => None,
    })
}

/// The mode of one leaf.
pub(super) fn row(modes: &Modes, leaf: &Switch) -> proto::LeafBalance {
    proto::LeafBalance {
        leaf_name: leaf.name.to_string(),
        mode: mode::to_message(modes.of(leaf.name.as_str())).into(),
        has_own_mode: modes.is_own(leaf.name.as_str()),
        agent_address: leaf.agent.as_deref().map(str::to_owned),
        peer_address: leaf
            .peer
            .filter(|_| leaf.link_bandwidth)
            .map(|it| it.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::fabric::topology::tests::leaf_spine;
    use crate::operator::lone;

    #[test]
    fn a_mode_for_all_forgets_those_of_single_leaves() {
        let Op::DeletePrefix { prefix } = &ops("", Mode::Off)[0] else {
            panic!("nothing is forgotten");
        };
        assert_eq!(FactPrefix::decode(prefix), Some(FactPrefix::Balance));
        assert_eq!(ops("leaf1", Mode::Off).len(), 1);
    }

    /// Sets a mode for all leaves. The majority is lost at the moment at which a change is made. Returns the answer, and how many
    /// changes were proposed.
    async fn set_all(mode: proto::BalanceMode) -> ((u64, Mode), usize) {
        use crate::config::Config;
        use crate::consensus::Command;
        use crate::reflector::{Reflector, thread};
        use weft_store::Outcome;
        let dir = tempfile::tempdir().unwrap();
        let (consensus, mut commands) = crate::consensus::tests::unheard(&dir);
        let config = Config::parse("[bgp]\nasn = 64496\n", "weftd.toml".as_ref()).unwrap();
        let (reflection, inbox) = thread::channel();
        let inputs = reflection.inputs();
        let reflector = Reflector::new(config.bgp.local);
        let (reflector, _failure) = thread::start(reflector, consensus.view().clone(), inbox);
        let shared = Shared::new(config, "weft".to_owned(), consensus, reflection);
        let proposed = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&proposed);
        let answering = tokio::spawn(async move {
            while let Some(command) = commands.recv().await {
                let is_lost = counted.load(Ordering::Relaxed) > 0;
                match command {
                    Command::Read(reply) => reply.send((!is_lost).then_some(0)).unwrap(),
                    Command::Propose(_, asker) => {
                        counted.fetch_add(1, Ordering::Relaxed);
                        asker.reply.send(Outcome::Applied { index: 7 }).unwrap();
                    }
                    _ => {}
                }
            }
        });
        let request = proto::SetBalanceRequest {
            mode: mode.into(),
            all_leaves: true,
            ..proto::SetBalanceRequest::default()
        };
        let caller = tonic::Request::new(());
        let by = Identity::of(&caller);
        let set = set(&shared, &request, by).await.unwrap();
        answering.abort();
        inputs.send(thread::Input::Stop).await.unwrap();
        tokio::task::spawn_blocking(|| reflector.join().unwrap())
            .await
            .unwrap();
        (set, proposed.load(Ordering::Relaxed))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_mode_that_was_set_is_answered_whatever_becomes_of_the_leader() {
        let set = set_all(proto::BalanceMode::On).await;
        assert_eq!(set, ((7, Mode::On), 1));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_mode_that_holds_already_is_not_written() {
        let set = set_all(proto::BalanceMode::Shadow).await;
        assert_eq!(set, ((0, Mode::Shadow), 0));
    }

    #[test]
    fn a_switch_that_is_no_leaf_is_refused_by_name() {
        let topology = leaf_spine(1, 1);
        let refusal = |leaf| known(&topology, leaf).unwrap_err().message().to_owned();
        assert_eq!(known(&topology, "leaf1").unwrap().name.as_str(), "leaf1");
        assert_eq!(refusal("leaf9"), "leaf_name: no leaf is named \"leaf9\"");
        assert_eq!(refusal("spine1"), "leaf_name: \"spine1\" is a spine");
    }

    #[test]
    fn an_empty_name_is_not_all_leaves() {
        let request =
            |leaf: Option<&str>, all_leaves, mode: proto::BalanceMode| proto::SetBalanceRequest {
                leaf_name: leaf.map(str::to_owned),
                mode: mode.into(),
                all_leaves,
                ..proto::SetBalanceRequest::default()
            };
        let all = request(None, true, proto::BalanceMode::Off);
        assert_eq!(read(&all).unwrap(), (None, Mode::Off, None));
        for (leaf, all_leaves, field) in [
            (None, false, "leaf_name"),
            (Some("leaf1"), true, "all_leaves"),
            (Some(""), true, "all_leaves"),
        ] {
            let request = request(leaf, all_leaves, proto::BalanceMode::On);
            assert_eq!(lone::fields(&read(&request).unwrap_err()), [field]);
        }
        let none = request(Some(""), false, proto::BalanceMode::Unspecified);
        let refused = read(&none).unwrap_err();
        let said = "mode: not off, shadow or on; and 1 more";
        assert_eq!(refused.message(), said);
        assert_eq!(lone::fields(&refused), ["mode", "leaf_name"]);
    }

    #[test]
    fn every_leaf_is_listed_with_what_holds_for_it() {
        let mut modes = Modes::default();
        modes.set("leaf2", Some(Mode::On));
        let topology = leaf_spine(2, 1);
        let leaves = |after| {
            let rows = rows(&modes, &topology, after);
            let rows = rows.map(|it| (it.leaf_name.clone(), it.mode(), it.has_own_mode));
            rows.collect::<Vec<_>>()
        };
        let second = ("leaf2".to_owned(), proto::BalanceMode::On, true);
        let first = ("leaf1".to_owned(), proto::BalanceMode::Shadow, false);
        assert_eq!(leaves(""), [first, second.clone()]);
        assert_eq!(leaves("leaf1"), [second]);
    }
}
