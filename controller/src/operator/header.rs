//! What an answer says of itself, and times as messages. Knows no call.

use std::time::{Duration, SystemTime};

use prost_types::Timestamp;
use weft_proto::v1::ResponseHeader;

use crate::speaker::Shared;

/// The header of an answer that is complete up to `revision`.
pub(super) fn of(shared: &Shared, revision: u64) -> ResponseHeader {
    let leader = shared.consensus.group().borrow().status.leader;
    from(shared.replica, leader, revision)
}

/// The header of an answer that `replica` gives now.
pub(super) fn from(replica: u64, leader: Option<u64>, revision: u64) -> ResponseHeader {
    ResponseHeader {
        replica_id: replica,
        leader_id: leader,
        revision,
        answer_time: Some(Timestamp::from(now())),
    }
}

/// The header of an answer about this replica alone: complete up to what it has applied.
pub(super) fn own(shared: &Shared) -> ResponseHeader {
    let applied = shared.consensus.group().borrow().status.applied;
    of(shared, applied)
}

/// The time of day.
#[expect(clippy::disallowed_methods, reason = "people and programs read it")]
pub(super) fn now() -> SystemTime {
    SystemTime::now()
}

/// A span of time.
pub(super) fn duration(span: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or(0),
    }
}
