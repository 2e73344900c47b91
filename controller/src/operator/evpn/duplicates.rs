//! MAC addresses that move too often, as rows, and what an operator takes back of it. Knows the reflector's view of
//! them.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use tonic::Status;
use weft_evpn::moves::{Holder, Moves, Place};
use weft_evpn::{Mac, Vni};
use weft_proto::v1 as proto;
use weft_store::{Batch, Outcome};

use super::super::access::Identity;
use super::super::{header, refusal};
use crate::consensus::Consensus;
use crate::fabric::fact::InvalidFabric;
use crate::ledger::{self, FactKey};
use crate::reflector::Reflector;
use crate::reflector::freezes::Freezes;

/// What this replica knows of MAC addresses that move.
pub(super) struct Duplicates {
    /// Those that have not recovered, and those that are frozen.
    pub(super) rows: BTreeMap<Place, proto::DuplicateMac>,
    /// MAC addresses that are watched.
    pub(super) watched: u64,
    /// Announcements that were too many to watch.
    pub(super) unwatched: u64,
}

impl Duplicates {
    /// As the reflector has them.
    pub(super) fn of(reflector: &Reflector) -> Self {
        let (moves, now) = reflector.moves();
        Self {
            rows: rows(moves, reflector.freezes(), now),
            watched: moves.followed() as u64,
            unwatched: moves.unfollowed(),
        }
    }
}

fn rows(moves: &Moves, freezes: &Freezes, now: Duration) -> BTreeMap<Place, proto::DuplicateMac> {
    let mut rows = BTreeMap::new();
    for moved in moves.duplicates(now) {
        rows.insert(
            moved.place,
            row(moved.place, moved.holder, moved.until, now),
        );
    }
    for frozen in freezes.iter() {
        let until = frozen.since.saturating_add(moves.settings().recover);
        let row = proto::DuplicateMac {
            frozen: true,
            withheld_path_count: frozen.withheld as u64,
            ..row(frozen.place, Some(frozen.holder), until, now)
        };
        rows.insert(frozen.place, row);
    }
    rows
}

fn row(
    (vni, mac): Place,
    holder: Option<Holder>,
    until: Duration,
    now: Duration,
) -> proto::DuplicateMac {
    let (vtep, esi) = match holder {
        Some(Holder::Vtep(vtep)) => (Some(vtep), None),
        Some(Holder::Segment(esi)) => (None, Some(esi)),
        None => (None, None),
    };
    proto::DuplicateMac {
        vni: vni.number(),
        mac: mac.to_string(),
        vtep_address: vtep.map(|vtep| vtep.to_string()),
        esi: esi.map(|esi| esi.to_string()),
        recovers_in: Some(header::duration(until.saturating_sub(now))),
        ..proto::DuplicateMac::default()
    }
}

/// What the token of the page after a row says.
pub(super) fn name(row: &proto::DuplicateMac) -> String {
    format!("{}/{}", row.vni, row.mac)
}

/// The address that a token names.
pub(super) fn after(name: &str) -> Option<Place> {
    let (vni, mac) = name.split_once('/')?;
    Some((Vni::new(vni.parse().ok()?)?, mac.parse().ok()?))
}

/// The address that a request is about.
pub(super) fn place(request: &proto::ClearDuplicateMacRequest) -> Result<Place, Status> {
    let mut faults = InvalidFabric::default();
    let (vni, mac) = (Vni::new(request.vni), Mac::from_str(&request.mac).ok());
    if vni.is_none() {
        faults.fault("vni", format_args!("{} is not a VNI", request.vni));
    }
    if mac.is_none() {
        faults.fault(
            "mac",
            format_args!("{:?} is not a MAC address", request.mac),
        );
    }
    let place = vni.zip(mac);
    place.ok_or_else(|| refusal::invalid(&faults))
}

/// Agrees that an address is not frozen; every replica forgets its moves with that. The index of the change.
pub(super) async fn clear(
    consensus: &Consensus,
    (vni, mac): Place,
    by: Identity,
) -> Result<u64, Status> {
    let batch = Batch {
        conditions: Vec::new(),
        ops: vec![ledger::delete(&FactKey::Freeze((vni, mac)))],
    };
    match consensus.propose(batch).await {
        Outcome::Applied { index } => {
            tracing::info!(%vni, %mac, %by, "an operator takes back what moved");
            Ok(index)
        }
        Outcome::ConditionFailed { .. } | Outcome::Superseded | Outcome::Dropped => {
            Err(refusal::outcome_unknown())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::lone;

    #[test]
    fn what_cannot_be_an_address_is_named_field_by_field() {
        let request = |vni, mac: &str| proto::ClearDuplicateMacRequest {
            vni,
            mac: mac.to_owned(),
        };
        let known = place(&request(7, "00:00:5e:00:53:01")).unwrap();
        let text = name(&row(known, None, Duration::ZERO, Duration::ZERO));
        assert_eq!(text, "7/00:00:5e:00:53:01");
        assert_eq!(after(&text), Some(known));
        let status = place(&request(1 << 24, "x")).unwrap_err();
        let said = "vni: 16777216 is not a VNI; and 1 more";
        assert_eq!(status.message(), said);
        assert_eq!(lone::fields(&status), ["vni", "mac"]);
    }
}
