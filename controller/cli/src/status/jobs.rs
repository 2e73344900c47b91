//! Jobs that do not go as they were planned.

use weft_proto::v1::{self as proto, JobPlanState, WeightedCause};

use super::Report;
use crate::connection::{Connection, Page};
use crate::dialog::PAGE_SIZE;
use crate::failure::Failure;
use crate::job;

/// Whether every job goes by pins that can.
pub(super) async fn jobs(report: &mut Report<'_>) {
    let connection = report.connection;
    let ask = async |token| page(connection, token).await;
    let plans = match connection.every(ask, report.count("jobs")).await {
        Ok(plans) => plans,
        Err(failure) => return report.unknown("jobs", failure),
    };
    let of = |state: JobPlanState| plans.iter().filter(|it| it.state() == state).count();
    let (pinned, weighted) = (of(JobPlanState::Pinned), of(JobPlanState::Weighted));
    let summary = format!(
        "{}, of which {pinned} are pinned, {weighted} go by weights",
        plans.len()
    );
    let lines = |wanted: Verdict| {
        let plans = plans.iter().filter(move |it| verdict(it) == wanted);
        plans.map(line).collect::<Vec<_>>()
    };
    let (wrong, notes) = (lines(Verdict::Wrong), lines(Verdict::Noted));
    report.noted("jobs", summary, wrong, notes);
}

/// What an operator makes of the plan of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// As it should be.
    Good,
    /// As somebody wanted it, or not planned to the end yet.
    Noted,
    /// The job could go by pins, and does not.
    Wrong,
}

fn verdict(plan: &proto::JobPlan) -> Verdict {
    match (plan.state(), plan.weighted_cause()) {
        (JobPlanState::Unresolved | JobPlanState::Infeasible, _) => Verdict::Wrong,
        (JobPlanState::Weighted, WeightedCause::OverLimits | WeightedCause::OffPlan) => {
            Verdict::Wrong
        }
        // Weights are made for it.
        (JobPlanState::Weighted, WeightedCause::Wide) => Verdict::Good,
        // An earlier release does not say which of them it is.
        (JobPlanState::Weighted, WeightedCause::Off | WeightedCause::Unspecified) => Verdict::Noted,
        (JobPlanState::Pending, _) => Verdict::Noted,
        (JobPlanState::Pinned, _) if !plan.unprogrammed_reasons.is_empty() => Verdict::Noted,
        (JobPlanState::Pinned | JobPlanState::NoFlows | JobPlanState::Unspecified, _) => {
            Verdict::Good
        }
    }
}

fn line(plan: &proto::JobPlan) -> String {
    format!("job {} is {}", plan.job_name, job::detail::planned(plan))
}

async fn page(
    connection: &Connection,
    page_token: String,
) -> Result<Page<proto::JobPlan>, Failure> {
    let mut client = connection.plans().await?;
    let request = proto::ListJobPlansRequest {
        page_size: PAGE_SIZE,
        page_token,
    };
    let call = client.list_job_plans(request);
    let page = connection.answer(call).await?;
    let rows = page.job_plans;
    Ok(Page::new(page.header, rows, page.next_page_token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_weights_carry_as_it_is_wanted_is_not_wrong() {
        let plan = |state: JobPlanState, cause: WeightedCause| proto::JobPlan {
            state: state.into(),
            weighted_cause: cause.into(),
            ..proto::JobPlan::default()
        };
        let weighted = |cause| verdict(&plan(JobPlanState::Weighted, cause));
        assert_eq!(weighted(WeightedCause::OffPlan), Verdict::Wrong);
        assert_eq!(weighted(WeightedCause::OverLimits), Verdict::Wrong);
        assert_eq!(weighted(WeightedCause::Off), Verdict::Noted);
        assert_eq!(weighted(WeightedCause::Wide), Verdict::Good);
        assert_eq!(weighted(WeightedCause::Unspecified), Verdict::Noted);
        let other = |state| verdict(&plan(state, WeightedCause::Unspecified));
        assert_eq!(other(JobPlanState::Unresolved), Verdict::Wrong);
        assert_eq!(other(JobPlanState::Infeasible), Verdict::Wrong);
        assert_eq!(other(JobPlanState::Pending), Verdict::Noted);
        assert_eq!(other(JobPlanState::NoFlows), Verdict::Good);
        assert_eq!(other(JobPlanState::Pinned), Verdict::Good);
        let shadowed = proto::JobPlan {
            unprogrammed_reasons: vec!["the job is in shadow".to_owned()],
            ..plan(JobPlanState::Pinned, WeightedCause::Unspecified)
        };
        assert_eq!(verdict(&shadowed), Verdict::Noted);
    }
}
