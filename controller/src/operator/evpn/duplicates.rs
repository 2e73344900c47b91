//! MAC addresses that move too often, as rows, and what an operator takes back of it. Knows the reflector's view of
//! them.

use std::time::Duration;

use tonic::Status;
use weft_evpn::Vni;
use weft_evpn::moves::{Holder, Place};
use weft_proto::v1 as proto;

use super::super::access::Identity;
use super::super::page::Page;
use super::super::{agreed, field, header, once, refusal};
use crate::fabric::fact::InvalidFabric;
use crate::ledger::{self, FactKey, RequestId};
use crate::reflector::Reflector;
use crate::speaker::Shared;

/// What this replica knows of MAC addresses that move.
pub(super) struct Duplicates {
    /// Those that have not recovered, and those that are frozen, in no meaningful order, some of them as both.
    found: Vec<Duplicate>,
    now: Duration,
    /// MAC addresses that are watched.
    pub(super) watched: u64,
    /// Announcements that were too many to watch.
    pub(super) unwatched: u64,
}

#[derive(Copy, Clone, Debug)]
struct Duplicate {
    place: Place,
    holder: Option<Holder>,
    until: Duration,
    /// Frozen, with so many paths withheld.
    withheld: Option<usize>,
}

impl Duplicates {
    /// As the reflector has them behind an address.
    pub(super) fn of(reflector: &Reflector, after: Option<Place>) -> Self {
        let (moves, now) = reflector.moves();
        let moved = moves.duplicates(now).map(|it| Duplicate {
            place: it.place,
            holder: it.holder,
            until: it.until,
            withheld: None,
        });
        let recover = moves.settings().recover;
        let frozen = reflector.freezes().iter().map(|it| Duplicate {
            place: it.place,
            holder: Some(it.holder),
            until: it.since.saturating_add(recover),
            withheld: Some(it.withheld),
        });
        let all = moved.chain(frozen);
        Self {
            found: all
                .filter(|it| after.is_none_or(|after| it.place > after))
                .collect(),
            now,
            watched: moves.followed() as u64,
            unwatched: moves.unfollowed(),
        }
    }

    /// Those that fit on a page.
    pub(super) fn page(mut self, size: usize) -> Page<proto::DuplicateMac> {
        let frozen_first = |it: &Duplicate| (it.place, it.withheld.is_none());
        self.found.sort_unstable_by_key(frozen_first);
        self.found.dedup_by_key(|it| it.place);
        Page::of(size, self.found.iter().map(|it| it.row(self.now)))
    }

    /// One of them.
    pub(super) fn one(mut self, place: Place) -> Option<proto::DuplicateMac> {
        self.found.retain(|it| it.place == place);
        self.page(1).rows.pop()
    }
}

impl Duplicate {
    fn row(&self, now: Duration) -> proto::DuplicateMac {
        let (vni, mac) = self.place;
        let (vtep, esi) = match self.holder {
            Some(Holder::Vtep(vtep)) => (Some(vtep), None),
            Some(Holder::Segment(esi)) => (None, Some(esi)),
            None => (None, None),
        };
        proto::DuplicateMac {
            vni: vni.number(),
            mac: mac.to_string(),
            vtep_address: vtep.map(|vtep| vtep.to_string()),
            esi: esi.map(|esi| esi.to_string()),
            recovers_in: Some(header::duration(self.until.saturating_sub(now))),
            frozen: self.withheld.is_some(),
            withheld_path_count: self.withheld.unwrap_or_default() as u64,
        }
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

/// The address that a request is about, and what its client calls it.
pub(super) fn place(
    request: &proto::ClearDuplicateMacRequest,
) -> Result<(Place, Option<RequestId>), Status> {
    let mut faults = InvalidFabric::default();
    let id = once::id(&request.request_id, &mut faults);
    let vni = field::vni(request.vni, &mut faults);
    let mac = field::text("mac", &request.mac, "not a MAC address", &mut faults);
    Ok((refusal::read(vni.zip(mac), &faults)?, id))
}

/// Agrees that an address is not frozen; every replica forgets its moves with that. The index of the change.
pub(super) async fn clear(
    shared: &Shared,
    (vni, mac): Place,
    id: Option<RequestId>,
    by: Identity,
) -> Result<u64, Status> {
    let content = proto::ClearDuplicateMacRequest {
        vni: vni.number(),
        mac: mac.to_string(),
        request_id: String::new(),
    };
    let content = once::content("ClearDuplicateMac", &content);
    let ops = vec![ledger::delete(&FactKey::Freeze((vni, mac)))];
    let index = agreed::once(shared, id, content, ops).await?;
    tracing::info!(%vni, %mac, %by, "an operator takes back what moved");
    Ok(index)
}

#[cfg(test)]
mod tests {
    use weft_evpn::Mac;

    use super::*;
    use crate::operator::lone;

    fn duplicate(place: Place, withheld: Option<usize>) -> Duplicate {
        Duplicate {
            place,
            holder: None,
            until: Duration::ZERO,
            withheld,
        }
    }

    #[test]
    fn an_address_that_moved_and_is_frozen_is_one_row() {
        let place = |mac: u8| (Vni::new(7).unwrap(), Mac([0, 0, 0x5e, 0, 0x53, mac]));
        let all = || Duplicates {
            found: vec![
                duplicate(place(2), None),
                duplicate(place(3), None),
                duplicate(place(1), Some(0)),
                duplicate(place(2), Some(4)),
            ],
            now: Duration::ZERO,
            watched: 0,
            unwatched: 0,
        };
        let page = all().page(2);
        let rows = page
            .rows
            .iter()
            .map(|it| (it.frozen, it.withheld_path_count));
        assert_eq!(rows.collect::<Vec<_>>(), [(true, 0), (true, 4)]);
        assert!(page.more);
        assert_eq!(all().one(place(2)).unwrap().withheld_path_count, 4);
        assert!(all().one(place(4)).is_none());
    }

    #[test]
    fn what_cannot_be_an_address_is_named_field_by_field() {
        let request = |vni, mac: &str| proto::ClearDuplicateMacRequest {
            vni,
            mac: mac.to_owned(),
            request_id: String::new(),
        };
        let (known, _) = place(&request(7, "00:00:5e:00:53:01")).unwrap();
        let text = name(&duplicate(known, None).row(Duration::ZERO));
        assert_eq!(text, "7/00:00:5e:00:53:01");
        assert_eq!(after(&text), Some(known));
        let status = place(&request(1 << 24, "x")).unwrap_err();
        let said = "vni: 16777216 is not a VNI; and 1 more";
        assert_eq!(status.message(), said);
        assert_eq!(lone::fields(&status), ["vni", "mac"]);
    }
}
