//! MAC addresses that move too often, as rows. Knows the reflector's view of them.

use std::time::Duration;

use weft_evpn::moves::Holder;
use weft_evpn::moves::Moves;
use weft_evpn::{Mac, Vni};
use weft_proto::operator::v1 as proto;

use crate::reflector::Reflector;

/// Those that have not recovered.
pub(super) fn rows(reflector: &Reflector) -> proto::ListMovesResponse {
    let (moves, now) = reflector.moves();
    answer(moves, now)
}

fn answer(moves: &Moves, now: Duration) -> proto::ListMovesResponse {
    let row = |(vni, mac, holder, until): (Vni, Mac, Option<Holder>, Duration)| proto::Move {
        vni: vni.number(),
        mac: mac.to_string(),
        holder: holder.map(|it| it.to_string()).unwrap_or_default(),
        recovers_secs: until.saturating_sub(now).as_secs(),
    };
    let mut rows: Vec<_> = moves.duplicates(now).map(row).collect();
    rows.sort_by(|a, b| (a.vni, &a.mac).cmp(&(b.vni, &b.mac)));
    proto::ListMovesResponse {
        moves: rows,
        followed: moves.followed() as u64,
        unfollowed: moves.unfollowed(),
    }
}
