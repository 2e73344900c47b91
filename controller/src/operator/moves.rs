//! MAC addresses that move too often, as rows, and what an operator takes back of it. Knows the reflector's view of
//! them.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use tonic::Status;
use weft_evpn::moves::{Moves, Place};
use weft_evpn::{Mac, Vni};
use weft_proto::operator::v1 as proto;
use weft_store::{Batch, Outcome};

use crate::consensus::Consensus;
use crate::ledger::{self, FactKey};
use crate::reflector::Reflector;
use crate::reflector::freezes::Freezes;

/// Those that have not recovered, and those that are frozen.
pub(super) fn rows(reflector: &Reflector) -> proto::ListMovesResponse {
    let (moves, now) = reflector.moves();
    answer(moves, reflector.freezes(), now)
}

fn answer(moves: &Moves, freezes: &Freezes, now: Duration) -> proto::ListMovesResponse {
    let mut rows: BTreeMap<Place, proto::Move> = BTreeMap::new();
    for moved in moves.duplicates(now) {
        let (vni, mac) = moved.place;
        let row = proto::Move {
            vni: vni.number(),
            mac: mac.to_string(),
            holder: moved.holder.map(|it| it.to_string()).unwrap_or_default(),
            recovers_secs: moved.until.saturating_sub(now).as_secs(),
            ..proto::Move::default()
        };
        rows.insert(moved.place, row);
    }
    for frozen in freezes.iter() {
        let (vni, mac) = frozen.place;
        let until = frozen.since.saturating_add(moves.settings().recover);
        let row = proto::Move {
            vni: vni.number(),
            mac: mac.to_string(),
            holder: frozen.holder.to_string(),
            recovers_secs: until.saturating_sub(now).as_secs(),
            frozen: true,
            withheld: frozen.withheld as u64,
        };
        rows.insert(frozen.place, row);
    }
    proto::ListMovesResponse {
        moves: rows.into_values().collect(),
        followed: moves.followed() as u64,
        unfollowed: moves.unfollowed(),
    }
}

/// The address that a request is about.
pub(super) fn place(request: &proto::ClearMovesRequest) -> Result<Place, Status> {
    let vni = Vni::new(request.vni)
        .ok_or_else(|| Status::invalid_argument(format!("vni: {} is none", request.vni)))?;
    let mac = Mac::from_str(&request.mac).map_err(|_| {
        Status::invalid_argument(format!("mac: {:?} is not a MAC address", request.mac))
    })?;
    Ok((vni, mac))
}

/// The row of an address, if it has one.
pub(super) fn row((vni, mac): Place, rows: Vec<proto::Move>) -> Option<proto::Move> {
    let (vni, mac) = (vni.number(), mac.to_string());
    rows.into_iter()
        .find(|row| row.vni == vni && row.mac == mac)
}

/// Agrees that an address is not frozen; every replica forgets its moves with that.
pub(super) async fn clear(consensus: &Consensus, (vni, mac): Place) -> Result<(), Status> {
    let batch = Batch {
        conditions: Vec::new(),
        ops: vec![ledger::delete(&FactKey::Freeze((vni, mac)))],
    };
    match consensus.propose(batch).await {
        Outcome::Applied { .. } => {
            tracing::info!(%vni, %mac, "an operator takes back what moved");
            Ok(())
        }
        Outcome::ConditionFailed { .. } | Outcome::Superseded | Outcome::Dropped => Err(
            Status::unavailable("not agreed, or nobody knows yet; ask again"),
        ),
    }
}
