//! Jobs that do not go as they were planned, or that need more than links carry.

use std::cell::RefCell;

use weft_proto::v1::{self as proto, FlowWay, JobPlanState, WeightedCause};

use super::{Part, Report};
use crate::failure::Failure;
use crate::job;

/// Looks whether every job goes by pins that can, and links carry what jobs need.
pub(super) async fn jobs(report: &Report<'_>) -> Result<Part, Failure> {
    let connection = &report.connection;
    let certificate = RefCell::new(None);
    // Each page says it of all jobs.
    let ask = async |token| {
        let (page, latest) = job::listed::plans(connection, token).await?;
        certificate.replace(latest);
        Ok(page)
    };
    let plans = connection.every(ask, report.count("jobs")).await?;
    let certificate = certificate.into_inner();
    let summary = summary(&plans);
    let lines = |wanted: Verdict| {
        let plans = plans.iter().filter(move |it| verdict(it) == wanted);
        plans.map(line).collect::<Vec<_>>()
    };
    // No plan is better, and the jobs run, slower than they could.
    let over = certificate.as_ref().and_then(job::detail::over);
    let notes = over.into_iter().chain(lines(Verdict::Noted));
    Ok(Part::new(summary, lines(Verdict::Wrong)).noted(notes.collect()))
}

/// How many jobs go which way with all of their flows.
fn summary(plans: &[proto::JobPlan]) -> String {
    let of = |way: FlowWay| plans.iter().filter(|it| self::way(it) == Some(way)).count();
    let (pinned, weighted) = (of(FlowWay::Pins), of(FlowWay::Weights));
    let all = plans.len();
    let text = format!("{all}, of which {pinned} are pinned, {weighted} go by weights");
    match of(FlowWay::OwnRouting) {
        0 => text,
        own => format!("{text}, {own} as the own routing of their leaves has it"),
    }
}

/// The way that all flows of a job go; None: some go another way than others, or nobody knows.
fn way(plan: &proto::JobPlan) -> Option<FlowWay> {
    let (pins, weights) = (plan.programmed_flow_count, plan.weighted_flow_count);
    match (pins, weights, plan.own_routing_flow_count) {
        // An earlier release does not say it, and nobody knows it of a job that is off.
        (0, 0, 0) => match plan.state() {
            JobPlanState::Pinned if plan.unprogrammed_reasons.is_empty() => Some(FlowWay::Pins),
            JobPlanState::Weighted if plan.unprogrammed_reasons.is_empty() => {
                Some(FlowWay::Weights)
            }
            _ => None,
        },
        (_, 0, 0) => Some(FlowWay::Pins),
        (0, _, 0) => Some(FlowWay::Weights),
        (0, 0, _) => Some(FlowWay::OwnRouting),
        (_, _, _) => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_counted_by_the_way_that_their_flows_go() {
        use JobPlanState::{Pinned, Unresolved, Weighted};
        let plan = |state: JobPlanState, [pins, weights, own]: [u32; 3]| proto::JobPlan {
            state: state.into(),
            programmed_flow_count: pins,
            weighted_flow_count: weights,
            own_routing_flow_count: own,
            ..proto::JobPlan::default()
        };
        let unheard = proto::JobPlan {
            unprogrammed_reasons: vec!["leaf1 is not heard yet by this leader".to_owned()],
            ..plan(Pinned, [0; 3])
        };
        let table = [
            (plan(Pinned, [8, 0, 0]), Some(FlowWay::Pins)),
            (plan(Pinned, [0, 8, 0]), Some(FlowWay::Weights)),
            (plan(Pinned, [0, 0, 8]), Some(FlowWay::OwnRouting)),
            (plan(Weighted, [0, 0, 8]), Some(FlowWay::OwnRouting)),
            (plan(Pinned, [4, 0, 4]), None),
            (plan(Pinned, [0; 3]), Some(FlowWay::Pins)),
            (plan(Weighted, [0; 3]), Some(FlowWay::Weights)),
            (plan(Unresolved, [0; 3]), None),
            (unheard, None),
        ];
        for (plan, expected) in &table {
            assert_eq!(way(plan), *expected, "{plan:?}");
        }
        let plans = table.map(|(plan, _)| plan);
        let text = "9, of which 2 are pinned, 2 go by weights, 2 as the own routing of their leaves has it";
        assert_eq!(summary(&plans), text);
        assert_eq!(summary(&[]), "0, of which 0 are pinned, 0 go by weights");
    }

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
