//! `weft job list`: every job with how far its plan came. Knows no other question.

use std::collections::{BTreeMap, BTreeSet};

use prost_types::Timestamp;
use serde_json::Value;
use weft_proto::v1::resource_change::Resource;
use weft_proto::v1::{self as proto, ChangeType};

use super::detail;
use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, Heard, PAGE_SIZE, Reader};
use crate::failure::Failure;
use crate::output::{Row, or_dash};
use crate::words::{self, word};

/// Asks for all plans, and prints the jobs page by page.
pub(super) async fn list(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let connection = &dialog.connection;
    let ask = async |token| plans(connection, token).await.map(|(page, _)| page);
    let planned = connection.every(ask, |_| {}).await?;
    let planned = planned.into_iter().map(|it| (it.job_name.clone(), it));
    let planned: BTreeMap<String, proto::JobPlan> = planned.collect();
    let ask = async |connection: &Connection, page_token| {
        let page = super::page(connection, page_token).await?;
        let rows = page.rows.into_iter().map(|job| Listed {
            plan: planned.get(&job.name).cloned(),
            job,
        });
        Ok(Page::new(page.header, rows.collect(), page.next))
    };
    dialog.pages(ask).await
}

/// Follows jobs, which `request` asks for, and their plans beside them.
pub(super) async fn follow(
    request: proto::WatchRequest,
    dialog: &mut Dialog<'_>,
) -> Result<(), Failure> {
    let request = proto::WatchRequest {
        job_plans: Some(proto::JobPlanFilter::default()),
        ..request
    };
    dialog.follow(request, Told::default()).await
}

/// Jobs and their plans as a watch tells them.
#[derive(Default)]
struct Told {
    jobs: BTreeMap<String, proto::Job>,
    /// Empty at a replica of an older release, which does not stream them.
    plans: BTreeMap<String, proto::JobPlan>,
    /// What the stream that is read now has told so far.
    stream: Stream,
}

/// What a stream has told since it began.
#[derive(Default)]
struct Stream {
    /// Jobs that exist.
    jobs: bool,
    /// Plans that there are.
    plans: bool,
    /// The names of those, while it says once more which ones there are.
    listed: BTreeSet<String>,
    /// All that it tells of both.
    whole: bool,
}

impl Reader for Told {
    type Row = Listed;

    fn begin(&mut self) {
        self.stream = Stream::default();
    }

    /// Jobs are held until the plans are there: these come in an answer behind all jobs.
    fn read(&mut self, answer: proto::WatchResponse) -> Option<Heard<Listed>> {
        let is_last = answer.header.is_some() && !answer.snapshot;
        let (changed, gone) = self.take(answer);
        let mut heard = Heard {
            gone,
            ..Heard::default()
        };
        if self.stream.whole {
            heard.rows = changed.iter().filter_map(|it| self.row(it)).collect();
        } else if is_last {
            if !self.stream.plans {
                self.plans.clear();
            }
            heard.rows = self.jobs.keys().filter_map(|it| self.row(it)).collect();
            self.stream.whole = true;
            heard.whole = true;
        }
        Some(heard)
    }
}

impl Told {
    /// Takes what an answer says. The names of jobs of which something changed, and jobs that went.
    fn take(&mut self, answer: proto::WatchResponse) -> (BTreeSet<String>, Vec<Listed>) {
        let (mut changed, mut gone) = (BTreeSet::new(), Vec::new());
        if answer.snapshot && !std::mem::replace(&mut self.stream.jobs, true) {
            self.jobs.clear();
        }
        for change in answer.changes {
            let deleted = change.change_type() == ChangeType::Deleted;
            let Some(Resource::JobResource(job)) = change.resource else {
                continue;
            };
            changed.insert(job.name.clone());
            if deleted {
                self.jobs.remove(&job.name);
                gone.push(Listed { job, plan: None });
            } else {
                self.jobs.insert(job.name.clone(), job);
            }
        }
        self.stream.plans |= answer.job_plan_snapshot;
        for change in answer.job_plan_changes {
            let deleted = change.change_type() == ChangeType::Deleted;
            let Some(plan) = change.job_plan else {
                continue;
            };
            changed.insert(plan.job_name.clone());
            if answer.job_plan_snapshot {
                self.stream.listed.insert(plan.job_name.clone());
            }
            if deleted {
                self.plans.remove(&plan.job_name);
            } else {
                self.plans.insert(plan.job_name.clone(), plan);
            }
        }
        if answer.job_plan_snapshot && answer.header.is_some() {
            let listed = std::mem::take(&mut self.stream.listed);
            let gone = self.plans.extract_if(.., |name, _| !listed.contains(name));
            changed.extend(gone.map(|(name, _)| name));
        }
        (changed, gone)
    }

    /// A job of this name, if it is there.
    fn row(&self, name: &str) -> Option<Listed> {
        let job = self.jobs.get(name)?.clone();
        let plan = self.plans.get(name).cloned();
        Some(Listed { job, plan })
    }
}

/// One page of what is planned for jobs, and how good the pins of all jobs are; None: there are no pins.
pub(crate) async fn plans(
    connection: &Connection,
    page_token: String,
) -> Result<(Page<proto::JobPlan>, Option<proto::PinCertificate>), Failure> {
    let mut client = connection.plans().await?;
    let request = proto::ListJobPlansRequest {
        page_size: PAGE_SIZE,
        page_token,
    };
    let call = client.list_job_plans(request);
    let page = connection.answer(call).await?;
    let rows = page.job_plans;
    let plans = Page::new(page.header, rows, page.next_page_token);
    Ok((plans, page.certificate))
}

/// A job with its plan.
struct Listed {
    job: proto::Job,
    /// None: it was declared after the plans were read, or is followed at a replica of an older release.
    plan: Option<proto::JobPlan>,
}

impl Listed {
    /// How far the plan came, how many flows go by pins, and why no more.
    fn planned(&self) -> [String; 3] {
        let plan = self.plan.as_ref();
        let state = plan.map(|it| word(it.state().as_str_name(), "JOB_PLAN_STATE_"));
        let pins = plan.filter(|it| it.flow_count > 0).map(pins);
        let reason = plan.map(detail::reasons).unwrap_or_default();
        [
            words::or_dash(state),
            words::or_dash(pins),
            or_dash(&reason),
        ]
    }
}

impl Row for Listed {
    const HEADER: &'static [&'static str] = &[
        "JOB", "STATE", "PINS", "HOSTS", "RANKS", "GROUPS", "FLOWS", "EXPIRES", "REASON",
    ];
    const WIDE: &'static [&'static str] = proto::Job::WIDE;

    fn object(&self) -> Value {
        self.job.object()
    }

    fn lines(&self, answered: Option<Timestamp>) -> Vec<Vec<String>> {
        let [state, pins, reason] = self.planned();
        let mut lines = self.job.lines(answered);
        for line in &mut lines {
            let wide = line.split_off(proto::Job::HEADER.len());
            line.insert(1, state.clone());
            line.insert(2, pins.clone());
            line.push(reason.clone());
            line.extend(wide);
        }
        lines
    }

    fn name(&self) -> String {
        self.job.name()
    }

    /// The job, and the columns that its plan fills: a row is printed again when these change.
    fn lasting(&self) -> String {
        format!("{} {}", self.job.lasting(), self.planned().join(" "))
    }
}

/// How many flows go by pins that leaves have, of all: `8/12`; `-/12` if none is known to, and nobody knows of some.
fn pins(plan: &proto::JobPlan) -> String {
    let programmed = plan.programmed_flow_count;
    let others = [plan.weighted_flow_count, plan.own_routing_flow_count];
    let known = others
        .iter()
        .fold(programmed, |sum, it| sum.saturating_add(*it));
    let is_open = plan.pinned_flow_count > 0 && programmed == 0 && known < plan.flow_count;
    let programmed = words::or_dash((!is_open).then_some(programmed));
    format!("{programmed}/{}", plan.flow_count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Format, List};

    #[test]
    fn plans_that_are_not_said_once_more_are_not_there_any_more() {
        let mut told = Told::default();
        for name in ["train1", "train2"] {
            let job = proto::Job {
                name: name.to_owned(),
                ..proto::Job::default()
            };
            told.jobs.insert(name.to_owned(), job);
        }
        let mut rows = |names: &[&str], is_last: bool| {
            let change = |name: &&str| proto::JobPlanChange {
                change_type: ChangeType::Created.into(),
                job_plan: Some(proto::JobPlan {
                    job_name: (*name).to_owned(),
                    ..proto::JobPlan::default()
                }),
            };
            let heard = told.read(proto::WatchResponse {
                header: is_last.then(proto::ResponseHeader::default),
                job_plan_changes: names.iter().map(change).collect(),
                job_plan_snapshot: true,
                ..proto::WatchResponse::default()
            });
            let rows = heard.unwrap().rows.into_iter();
            rows.map(|it| (it.job.name, it.plan.is_some()))
                .collect::<Vec<_>>()
        };
        let row = |name: &str, is_planned| (name.to_owned(), is_planned);
        assert_eq!(rows(&["train1"], false), []);
        let both = [row("train1", true), row("train2", true)];
        assert_eq!(rows(&["train2"], true), both);
        // The same stream says which plans there are, in two parts.
        assert_eq!(rows(&["train1"], false), both[..1]);
        assert_eq!(rows(&[], true), [row("train2", false)]);
    }

    #[test]
    fn a_job_says_how_far_its_plan_came_and_why_no_farther() {
        let listed = |name: &str, plan: Option<proto::JobPlan>| Listed {
            job: proto::Job {
                name: name.to_owned(),
                ..proto::Job::default()
            },
            plan,
        };
        let cut = proto::JobPlan {
            state: proto::JobPlanState::Infeasible.into(),
            flow_count: 12,
            pinned_flow_count: 8,
            programmed_flow_count: 5,
            own_routing_flow_count: 3,
            reason: "leaf1 has no link that carries traffic: 4 of 12 flows have no way, the others are pinned".to_owned(),
            unprogrammed_reasons: vec!["leaf2 is in shadow".to_owned()],
            ..proto::JobPlan::default()
        };
        // A new leader has not heard its leaves yet.
        let unheard = proto::JobPlan {
            state: proto::JobPlanState::Pinned.into(),
            flow_count: 2,
            pinned_flow_count: 2,
            ..proto::JobPlan::default()
        };
        let own = proto::JobPlan {
            own_routing_flow_count: 2,
            ..unheard.clone()
        };
        let half = proto::JobPlan {
            own_routing_flow_count: 1,
            ..unheard.clone()
        };
        let idle = proto::JobPlan {
            state: proto::JobPlanState::NoFlows.into(),
            ..proto::JobPlan::default()
        };
        let rows = [
            listed("cut", Some(cut)),
            listed("unheard", Some(unheard)),
            listed("own", Some(own)),
            listed("half", Some(half)),
            listed("idle", Some(idle)),
            listed("new", None),
        ];
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        list.add(&rows, None).unwrap();
        list.end().unwrap();
        let expected = "\
JOB      STATE       PINS  HOSTS  RANKS  GROUPS  FLOWS  EXPIRES  REASON
cut      infeasible  5/12  -      -      0       0      never    \
leaf1 has no link that carries traffic: 4 of 12 flows have no way, the others are pinned; leaf2 is in shadow
unheard  pinned      -/2   -      -      0       0      never    -
own      pinned      0/2   -      -      0       0      never    -
half     pinned      -/2   -      -      0       0      never    -
idle     no-flows    -     -      -      0       0      never    -
new      -           -     -      -      0       0      never    -
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let (columns, wide) = (Listed::HEADER.len(), Listed::WIDE.len());
        assert_eq!(rows[0].lines(None)[0].len(), columns + wide);
    }
}
