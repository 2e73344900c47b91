//! The service of jobs: what trains on the fabric. Knows when a lease ends; how a change is made is the fabric's.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prost_types::Timestamp;
use tonic::{Request, Response};
use weft_proto::v1::{self as proto, job_service_server};

use super::access::Identity;
use super::fabric::{self, asked};
use super::{Answer, header};
use crate::fabric::fact::InvalidFabric;

/// Takes jobs.
pub struct Service {
    fabric: Arc<fabric::Service>,
}

impl Service {
    /// Beside the fabric that jobs run on.
    pub(super) fn new(fabric: Arc<fabric::Service>) -> Self {
        Self { fabric }
    }
}

/// Makes a time of what a client said of a job's lease. `mask` is what an update changes.
fn lease(
    job: Option<&mut proto::Job>,
    mask: Option<&prost_types::FieldMask>,
    now: SystemTime,
    faults: &mut InvalidFabric,
) {
    let Some(job) = job else { return };
    let paths = mask.map_or(&[][..], |mask| &mask.paths);
    let named = |path: &String| path == "*" || path.starts_with("expire_time");
    if !paths.is_empty() && !paths.iter().any(named) {
        job.ttl = None;
        return;
    }
    match (job.ttl.take(), &job.expire_time) {
        (None, None) => {}
        (Some(_), Some(_)) => faults.fault("resource.ttl", "expire_time is there too"),
        (Some(ttl), None) => {
            let span = Duration::try_from(ttl).ok();
            match span.filter(|span| (TTL_MIN..=TTL_MAX).contains(span)) {
                Some(span) => job.expire_time = Some(Timestamp::from(now + span)),
                None => faults.fault("resource.ttl", "not 1 s to 30 days"),
            }
        }
        (None, Some(time)) => {
            let past = Timestamp::from(now).seconds >= time.seconds;
            if past && time.seconds >= 0 {
                faults.fault("resource.expire_time", "in the past");
            }
        }
    }
}

/// A mask whose ttl is the time that was made of it.
fn of_lease(
    mask: &mut prost_types::FieldMask,
    job: Option<&proto::Job>,
    faults: &mut InvalidFabric,
) {
    let ttl = |path: &&mut String| *path == "ttl" || path.starts_with("ttl.");
    for path in mask.paths.iter_mut().filter(ttl) {
        if job.is_some_and(|job| job.ttl.is_none()) {
            faults.fault("resource.ttl", "missing, and update_mask names it");
        }
        "expire_time".clone_into(path);
    }
}

#[tonic::async_trait]
impl job_service_server::JobService for Service {
    async fn get_job(
        &self,
        request: Request<proto::GetJobRequest>,
    ) -> Answer<proto::GetJobResponse> {
        let (header, resource) = self.fabric.one(&request.get_ref().name).await?;
        Ok(Response::new(proto::GetJobResponse {
            header: Some(header),
            resource: Some(resource),
        }))
    }

    async fn list_jobs(
        &self,
        request: Request<proto::ListJobsRequest>,
    ) -> Answer<proto::ListJobsResponse> {
        let request = request.into_inner();
        let page = (request.page_size, &*request.page_token);
        let page = self.fabric.page(page, |_| true, &[]).await?;
        let (header, jobs, next_page_token) = page;
        Ok(Response::new(proto::ListJobsResponse {
            header: Some(header),
            jobs,
            next_page_token,
        }))
    }

    async fn create_job(
        &self,
        request: Request<proto::CreateJobRequest>,
    ) -> Answer<proto::CreateJobResponse> {
        let by = Identity::of(&request);
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let mut asked = asked("CreateJob", &id, &request, request.validate_only).by(by);
        let job = request.resource.as_mut();
        lease(job, None, header::now(), &mut asked.faults);
        let (header, resource) = self.fabric.create(asked, request.resource).await?;
        Ok(Response::new(proto::CreateJobResponse {
            header: Some(header),
            resource,
        }))
    }

    async fn update_job(
        &self,
        request: Request<proto::UpdateJobRequest>,
    ) -> Answer<proto::UpdateJobResponse> {
        let by = Identity::of(&request);
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let mut asked = asked("UpdateJob", &id, &request, request.validate_only).by(by);
        if let Some(mask) = &mut request.update_mask {
            of_lease(mask, request.resource.as_ref(), &mut asked.faults);
        }
        let (job, mask) = (request.resource.as_mut(), request.update_mask.as_ref());
        lease(job, mask, header::now(), &mut asked.faults);
        let updated = self
            .fabric
            .update(asked, request.resource, request.update_mask);
        let (header, resource) = updated.await?;
        Ok(Response::new(proto::UpdateJobResponse {
            header: Some(header),
            resource,
        }))
    }

    async fn delete_job(
        &self,
        request: Request<proto::DeleteJobRequest>,
    ) -> Answer<proto::DeleteJobResponse> {
        let by = Identity::of(&request);
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let asked = asked("DeleteJob", &id, &request, request.validate_only).by(by);
        let deleted = self
            .fabric
            .delete::<proto::Job>(asked, &request.name, &request.etag);
        Ok(Response::new(proto::DeleteJobResponse {
            header: Some(deleted.await?),
        }))
    }
}

const TTL_MIN: Duration = Duration::from_secs(1);
/// A lease that lasts longer is none.
const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

#[cfg(test)]
mod tests {
    use prost_types::FieldMask;
    use tonic::Code;
    use tonic::transport::Channel;
    use weft_proto::v1::job_service_client::JobServiceClient;

    use super::*;
    use crate::fabric::topology::tests::with_nics;
    use crate::operator::lone::{Lone, fields, reason};

    fn job(name: &str, host: &str) -> proto::Job {
        proto::Job {
            name: name.to_owned(),
            host_names: vec![host.to_owned()],
            ..proto::Job::default()
        }
    }

    async fn create(
        jobs: &mut JobServiceClient<Channel>,
        job: proto::Job,
        id: &str,
    ) -> Result<proto::Job, tonic::Status> {
        let request = proto::CreateJobRequest {
            resource: Some(job),
            request_id: id.to_owned(),
            ..proto::CreateJobRequest::default()
        };
        let answer = jobs.create_job(request).await?;
        Ok(answer.into_inner().resource.unwrap())
    }

    async fn update(
        jobs: &mut JobServiceClient<Channel>,
        job: proto::Job,
        paths: &[&str],
    ) -> Result<proto::Job, tonic::Status> {
        let request = proto::UpdateJobRequest {
            resource: Some(job),
            update_mask: Some(FieldMask {
                paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            }),
            ..proto::UpdateJobRequest::default()
        };
        let answer = jobs.update_job(request).await?;
        Ok(answer.into_inner().resource.unwrap())
    }

    fn seconds(seconds: i64) -> Option<prost_types::Duration> {
        Some(prost_types::Duration { seconds, nanos: 0 })
    }

    async fn with_fabric() -> (Lone, JobServiceClient<Channel>) {
        let mut lone = Lone::start().await;
        let fabric = with_nics(2, 2, 2).declaration();
        lone.apply(&fabric, |_| ()).await.unwrap();
        let jobs = JobServiceClient::new(lone.channel.clone());
        (lone, jobs)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_job_is_declared_once_and_the_fabrics_generation_stays() {
        let (mut lone, mut jobs) = with_fabric().await;
        let generation = lone.generation().await.unwrap();
        let id = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
        let made = create(&mut jobs, job("train", "h1-1"), id).await.unwrap();
        let again = create(&mut jobs, job("train", "h1-1"), id).await.unwrap();
        assert_eq!(made, again);
        assert!(!made.etag.is_empty());
        let reused = create(&mut jobs, job("train", "h1-2"), id)
            .await
            .unwrap_err();
        assert_eq!(reason(&reused).1, "REQUEST_ID_REUSED");
        let there = create(&mut jobs, job("train", "h1-2"), "")
            .await
            .unwrap_err();
        assert_eq!(reason(&there).0, Code::AlreadyExists);
        assert_eq!(lone.generation().await.unwrap(), generation);

        // A whole declaration does not name jobs, and does not touch them.
        let fabric = with_nics(2, 2, 2).declaration();
        lone.apply(&fabric, |_| ()).await.unwrap();
        let asked = proto::ListJobsRequest::default();
        let list = jobs.list_jobs(asked).await.unwrap().into_inner();
        assert_eq!(list.jobs, [made]);

        let gone = proto::DeleteJobRequest {
            name: "train".to_owned(),
            ..proto::DeleteJobRequest::default()
        };
        jobs.delete_job(gone.clone()).await.unwrap();
        let missing = jobs.delete_job(gone).await.unwrap_err();
        assert_eq!(
            reason(&missing),
            (Code::NotFound, "NO_SUCH_RESOURCE".to_owned())
        );
        lone.stop().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_fault_of_a_job_is_named() {
        let (lone, mut jobs) = with_fabric().await;
        let wrong = proto::Job {
            ttl: seconds(0),
            layout: vec![proto::LayoutDimension {
                name: "dp".to_owned(),
                degree: 3,
            }],
            host_names: vec!["h1-1".to_owned(), "h9".to_owned()],
            ..proto::Job::default()
        };
        let refused = create(&mut jobs, wrong, "x").await.unwrap_err();
        let named = [
            "request_id",
            "resource.ttl",
            "resource.name",
            "resource.host_names[1]",
            "resource.layout",
        ];
        assert_eq!(fields(&refused), named);
        create(&mut jobs, job("first", "h1-1"), "").await.unwrap();
        let refused = create(&mut jobs, job("second", "h1-1"), "")
            .await
            .unwrap_err();
        assert_eq!(
            refused.message(),
            "resource.host_names[0]: job first has the NIC at leaf1:nic1"
        );
        lone.stop().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_lease_is_renewed_whatever_became_of_the_fabric() {
        let (mut lone, mut jobs) = with_fabric().await;
        let leased = proto::Job {
            ttl: seconds(60),
            ..job("train", "h1-1")
        };
        let made = create(&mut jobs, leased, "").await.unwrap();
        let first = made.expire_time.unwrap().seconds;
        assert!(made.ttl.is_none());

        let mut fabric = with_nics(2, 2, 2).declaration();
        fabric.hosts.retain(|host| host.name != "h1-1");
        fabric.host_ports.retain(|port| port.host_name != "h1-1");
        lone.apply(&fabric, |_| ()).await.unwrap();

        let renewed = proto::Job {
            ttl: seconds(600),
            ..job("train", "")
        };
        let made = update(&mut jobs, renewed.clone(), &["ttl"]).await.unwrap();
        assert!(made.expire_time.unwrap().seconds >= first + 500);
        assert_eq!(made.host_names, ["h1-1"]);
        let both = proto::Job {
            expire_time: made.expire_time,
            ..renewed
        };
        let refused = update(&mut jobs, both, &["ttl"]).await.unwrap_err();
        assert_eq!(fields(&refused), ["resource.ttl"]);
        let refused = update(&mut jobs, job("train", ""), &["ttl"])
            .await
            .unwrap_err();
        assert_eq!(fields(&refused), ["resource.ttl"]);
        let past_time = Some(Timestamp {
            seconds: 1,
            nanos: 0,
        });
        let past = proto::Job {
            expire_time: past_time,
            ..job("train", "")
        };
        let refused = update(&mut jobs, past, &["expire_time"]).await.unwrap_err();
        assert_eq!(fields(&refused), ["resource.expire_time"]);
        let lately = proto::Job {
            expire_time: past_time,
            labels: [("a".to_owned(), "b".to_owned())].into(),
            ..job("train", "")
        };
        assert!(update(&mut jobs, lately, &["labels"]).await.is_ok());
        // What it names is checked when that changes.
        let other = update(&mut jobs, job("train", "h1-1"), &["labels", "flows"]).await;
        assert!(other.is_ok(), "{other:?}");
        let moved = update(&mut jobs, job("train", "h9"), &["host_names"])
            .await
            .unwrap_err();
        assert_eq!(fields(&moved), ["resource.host_names[0]"]);
        lone.stop().await;
    }
}
