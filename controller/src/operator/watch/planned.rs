//! Plans of jobs and statuses of links as the leader has them, as rows that are followed. Knows no stream.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tonic::Status;
use weft_proto::v1::{self as proto, ChangeType};

use super::super::plans::Service;
use super::board::{Look, Row, Source};

/// The plans of all jobs.
pub(super) struct JobPlans(pub(super) Arc<Service>);

impl Source for JobPlans {
    type Row = proto::JobPlan;

    async fn rows(&self) -> Result<Vec<proto::JobPlan>, Status> {
        self.0.every_job_plan().await
    }

    async fn wait(&mut self, last: &Look) -> bool {
        sleep(rest(last)).await;
        true
    }
}

/// The statuses of all links.
pub(super) struct LinkStatuses(pub(super) Arc<Service>);

impl Source for LinkStatuses {
    type Row = proto::LinkStatus;

    async fn rows(&self) -> Result<Vec<proto::LinkStatus>, Status> {
        self.0.every_link_status().await
    }

    async fn wait(&mut self, last: &Look) -> bool {
        sleep(rest(last)).await;
        true
    }
}

/// How long after a look the next one is.
fn rest(last: &Look) -> Duration {
    let most = match last.answered {
        Ok(()) => REST_MAX,
        Err(_) => FAILED_REST_MAX,
    };
    (last.cost * SHARE).clamp(REST_MIN, most)
}

impl Row for proto::JobPlan {
    type Change = proto::JobPlanChange;
    const KIND: &'static str = "job plans";
    const HAS_OTHER_NAMES: bool = false;

    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.job_name.as_str())
    }

    /// The leader may be of an older release, which writes no etag.
    fn is_still(&self, other: &Self) -> bool {
        self.etag == other.etag && !self.etag.is_empty()
    }

    fn named(&self) -> Self {
        Self {
            job_name: self.job_name.clone(),
            ..Self::default()
        }
    }

    fn change(self, change: ChangeType) -> proto::JobPlanChange {
        proto::JobPlanChange {
            change_type: change.into(),
            job_plan: Some(self),
        }
    }
}

impl Row for proto::LinkStatus {
    type Change = proto::LinkStatusChange;
    const KIND: &'static str = "link statuses";
    const HAS_OTHER_NAMES: bool = false;

    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.link_name.as_str())
    }

    /// Its etag leaves out bits per second. The leader may be of an older release, which writes none.
    fn is_still(&self, other: &Self) -> bool {
        self.etag == other.etag && !self.etag.is_empty()
    }

    fn named(&self) -> Self {
        Self {
            link_name: self.link_name.clone(),
            ..Self::default()
        }
    }

    fn change(self, change: ChangeType) -> proto::LinkStatusChange {
        proto::LinkStatusChange {
            change_type: change.into(),
            link_status: Some(self),
        }
    }
}

/// Looks take a tenth of the time at most.
const SHARE: u32 = 10;
/// Nothing rings when the leader plans anew, or hears of a link. What changes within a second is one change.
const REST_MIN: Duration = Duration::from_secs(1);
/// Watchers hear of a change within so long, and a look. One that takes longer than a second mostly waits, as for a majority: that
/// is no cost.
const REST_MAX: Duration = Duration::from_secs(10);
/// Where nobody answered, an election may be over soon.
const FAILED_REST_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_take_a_tenth_of_the_time_at_most() {
        for (cost, expected) in [(0, 1_000), (99, 1_000), (300, 3_000), (5_000, 10_000)] {
            let cost = Duration::from_millis(cost);
            let answered = Ok(());
            assert_eq!(
                rest(&Look { cost, answered }),
                Duration::from_millis(expected)
            );
        }
    }

    #[test]
    fn a_leader_that_does_not_answer_is_asked_less_often_but_soon_again() {
        for (cost, expected) in [(0, 1), (300, 3), (10_000, 5)] {
            let cost = Duration::from_millis(cost);
            let answered = Err(Status::unavailable("nobody leads"));
            assert_eq!(
                rest(&Look { cost, answered }),
                Duration::from_secs(expected)
            );
        }
    }

    #[test]
    fn what_has_no_etag_is_never_still() {
        let plan = |etag: &str| proto::JobPlan {
            etag: etag.to_owned(),
            ..proto::JobPlan::default()
        };
        let status = |etag: &str| proto::LinkStatus {
            etag: etag.to_owned(),
            ..proto::LinkStatus::default()
        };
        assert!(plan("1").is_still(&plan("1")) && !plan("1").is_still(&plan("2")));
        assert!(status("1").is_still(&status("1")) && !status("1").is_still(&status("2")));
        assert!(!plan("").is_still(&plan("")) && !status("").is_still(&status("")));
    }
}
