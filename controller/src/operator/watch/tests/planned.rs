//! Plans of jobs and statuses of links as a client follows them.

use prost_types::FieldMask;
use tonic::Streaming;
use tonic::transport::Channel;
use weft_proto::v1::job_service_client::JobServiceClient;
use weft_proto::v1::plan_service_client::PlanServiceClient;
use weft_proto::v1::{self as proto, ChangeType};

use super::{Lone, after, snapshot, watch};
use crate::fabric::topology::tests::with_nics;

const LINK: &str = "leaf1:eth1--spine1:eth1";

async fn create(jobs: &mut JobServiceClient<Channel>, name: &str, host: &str) {
    let job = proto::Job {
        name: name.to_owned(),
        host_names: vec![host.to_owned()],
        ..proto::Job::default()
    };
    let request = proto::CreateJobRequest {
        resource: Some(job),
        ..proto::CreateJobRequest::default()
    };
    jobs.create_job(request).await.unwrap();
}

async fn delete(jobs: &mut JobServiceClient<Channel>, name: &str) {
    let request = proto::DeleteJobRequest {
        name: name.to_owned(),
        ..proto::DeleteJobRequest::default()
    };
    jobs.delete_job(request).await.unwrap();
}

async fn derate(lone: &mut Lone, link: &str, derating_percent: u32) {
    let request = proto::UpdateLinkRequest {
        resource: Some(proto::Link {
            name: link.to_owned(),
            derating_percent,
            ..proto::Link::default()
        }),
        update_mask: Some(FieldMask {
            paths: vec!["derating_percent".to_owned()],
        }),
        ..proto::UpdateLinkRequest::default()
    };
    lone.client.update_link(request).await.unwrap();
}

/// Plans of these jobs and statuses of these links, and nothing else.
fn following(jobs: &[&str], links: &[&str]) -> proto::WatchRequest {
    let names = |of: &[&str]| of.iter().map(|it| (*it).to_owned()).collect();
    proto::WatchRequest {
        job_plans: Some(proto::JobPlanFilter { names: names(jobs) }),
        link_statuses: Some(proto::LinkStatusFilter {
            names: names(links),
        }),
        // What changes is heard of by itself.
        progress_interval: Some(prost_types::Duration {
            seconds: 3600,
            nanos: 0,
        }),
        ..proto::WatchRequest::default()
    }
}

/// Plans and statuses that changed until an answer has a header.
#[derive(Default)]
struct Heard {
    plans: Vec<(ChangeType, proto::JobPlan)>,
    links: Vec<(ChangeType, proto::LinkStatus)>,
    snapshots: (bool, bool),
    parts: usize,
    revision: u64,
}

impl Heard {
    fn plans(&self) -> Vec<(ChangeType, &str)> {
        let plans = self.plans.iter();
        plans
            .map(|(it, row)| (*it, row.job_name.as_str()))
            .collect()
    }

    fn links(&self) -> Vec<(ChangeType, &str)> {
        let links = self.links.iter();
        links
            .map(|(it, row)| (*it, row.link_name.as_str()))
            .collect()
    }
}

async fn heard(stream: &mut Streaming<proto::WatchResponse>) -> Heard {
    let mut heard = Heard::default();
    loop {
        let answer = stream.message().await.unwrap().unwrap();
        assert!(!answer.snapshot && answer.changes.is_empty());
        heard.parts += 1;
        heard.snapshots.0 |= answer.job_plan_snapshot;
        heard.snapshots.1 |= answer.link_status_snapshot;
        let plans = answer.job_plan_changes.into_iter();
        let plans = plans.map(|it| (it.change_type(), it.job_plan.unwrap()));
        heard.plans.extend(plans);
        let links = answer.link_status_changes.into_iter();
        let links = links.map(|it| (it.change_type(), it.link_status.unwrap()));
        heard.links.extend(links);
        if let Some(header) = answer.header {
            heard.revision = header.revision;
            return heard;
        }
    }
}

use ChangeType::{Created, Deleted, Updated};

#[tokio::test(flavor = "multi_thread")]
async fn plans_and_statuses_are_streamed_as_they_are_listed() {
    let mut lone = Lone::start().await;
    let fabric = with_nics(2, 2, 2).declaration();
    lone.apply(&fabric, |_| ()).await.unwrap();
    let mut jobs = JobServiceClient::new(lone.channel.clone());
    create(&mut jobs, "a", "h1-1").await;
    let mut stream = watch(&mut lone, following(&[], &[])).await.unwrap();
    assert!(snapshot(&mut stream).await.0.is_empty());
    let existing = heard(&mut stream).await;
    assert_eq!(existing.snapshots, (true, true));
    assert_eq!(existing.plans(), [(Created, "a")]);
    let mut plans = PlanServiceClient::new(lone.channel.clone());
    let listed = plans.list_job_plans(proto::ListJobPlansRequest::default());
    let listed = listed.await.unwrap().into_inner().job_plans;
    assert_eq!(existing.plans[0].1, listed[0]);
    let listed = plans.list_link_statuses(proto::ListLinkStatusesRequest::default());
    let listed = listed.await.unwrap().into_inner().link_statuses;
    let links: Vec<_> = existing.links.iter().map(|it| it.1.clone()).collect();
    assert_eq!((links.len(), &links), (4, &listed));

    let mut one = watch(&mut lone, following(&["b"], &[LINK])).await.unwrap();
    snapshot(&mut one).await;
    let begun = heard(&mut one).await;
    assert_eq!(
        (begun.plans(), begun.links()),
        (vec![], vec![(Created, LINK)])
    );
    // Another link is derated, too.
    derate(&mut lone, "leaf2:eth1--spine1:eth2", 10).await;
    derate(&mut lone, LINK, 25).await;
    let mut updated = heard(&mut one).await;
    assert_eq!(updated.links(), [(Updated, LINK)]);
    assert_eq!(updated.links.remove(0).1.derating_percent, 25);
    assert_eq!(
        (updated.plans(), updated.snapshots),
        (vec![], (false, false))
    );
    create(&mut jobs, "b", "h1-2").await;
    assert_eq!(heard(&mut one).await.plans(), [(Created, "b")]);
    delete(&mut jobs, "a").await;
    delete(&mut jobs, "b").await;
    let deleted = heard(&mut one).await;
    assert_eq!(deleted.plans(), [(Deleted, "b")]);
    let name_alone = proto::JobPlan {
        job_name: "b".to_owned(),
        ..proto::JobPlan::default()
    };
    assert_eq!(deleted.plans[0].1, name_alone);
    drop((stream, one));
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_goes_on_begins_with_a_snapshot_in_parts() {
    let mut lone = Lone::start().await;
    let fabric = with_nics(110, 100, 0).declaration();
    lone.apply(&fabric, |_| ()).await.unwrap();
    let mut stream = watch(&mut lone, following(&[], &[])).await.unwrap();
    let (_, begun) = snapshot(&mut stream).await;
    let existing = heard(&mut stream).await;
    // More than a page of the list, and than an answer.
    assert_eq!(existing.links.len(), 11_000);
    assert!(existing.parts > 1, "{}", existing.parts);
    drop(stream);
    lone.create("h", "").await.unwrap();
    let request = proto::WatchRequest {
        after_revision: after(begun).after_revision,
        ..following(&[], &[])
    };
    let mut stream = watch(&mut lone, request).await.unwrap();
    let again = heard(&mut stream).await;
    assert_eq!((again.snapshots, again.plans.len()), ((true, true), 0));
    assert_eq!(again.links, existing.links);
    assert!(again.revision > begun);
    drop(stream);
    lone.stop().await;
}
