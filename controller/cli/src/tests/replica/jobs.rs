//! Its jobs: `train1` and `train2` are there, with a plan and pins.

use prost_types::Timestamp;
use tonic::{Request, Status};
use weft_proto::v1::resource_change::Resource;
use weft_proto::v1::{self as proto, job_service_server as job_server};

use super::{Answer, Replica};

/// A second after 1970 when it answers.
fn header(revision: u64) -> Option<proto::ResponseHeader> {
    Some(proto::ResponseHeader {
        revision,
        answer_time: at(1),
        ..proto::ResponseHeader::default()
    })
}

fn at(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds, nanos: 0 })
}

fn job(name: &str) -> proto::Job {
    proto::Job {
        name: name.to_owned(),
        expire_time: at(3_601),
        host_names: vec!["h1".to_owned(), "h2".to_owned()],
        etag: "1".to_owned(),
        ..proto::Job::default()
    }
}

/// Why a name is refused, if it is.
fn known(field: &str, name: &str) -> Result<(), Status> {
    match name {
        "train1" | "train2" => Ok(()),
        _ => Err(Status::not_found(format!(
            "{field}: no job is named {name:?}"
        ))),
    }
}

#[tonic::async_trait]
impl job_server::JobService for Replica {
    async fn get_job(
        &self,
        request: Request<proto::GetJobRequest>,
    ) -> Answer<proto::GetJobResponse> {
        let name = request.into_inner().name;
        known("name", &name)?;
        Ok(tonic::Response::new(proto::GetJobResponse {
            header: header(4),
            resource: Some(job(&name)),
        }))
    }

    async fn list_jobs(
        &self,
        request: Request<proto::ListJobsRequest>,
    ) -> Answer<proto::ListJobsResponse> {
        let (name, next) = match request.into_inner().page_token.as_str() {
            "" => ("train1", "second"),
            _ => ("train2", ""),
        };
        Ok(tonic::Response::new(proto::ListJobsResponse {
            header: header(4),
            jobs: vec![job(name)],
            next_page_token: next.to_owned(),
        }))
    }

    async fn create_job(
        &self,
        request: Request<proto::CreateJobRequest>,
    ) -> Answer<proto::CreateJobResponse> {
        let request = request.into_inner();
        assert_eq!(request.request_id.len(), 36);
        let job = request.resource.unwrap_or_default();
        if job.name == "bad" {
            let reason = "resource.groups[0].octets: less than 1";
            return Err(Status::invalid_argument(reason));
        }
        Ok(tonic::Response::new(proto::CreateJobResponse {
            header: header(5),
            resource: Some(job),
        }))
    }

    /// All of a job, or its lease, from when it answers.
    async fn update_job(
        &self,
        request: Request<proto::UpdateJobRequest>,
    ) -> Answer<proto::UpdateJobResponse> {
        let request = request.into_inner();
        assert_eq!(request.request_id.len(), 36);
        let wanted = request.resource.unwrap_or_default();
        known("resource.name", &wanted.name)?;
        let stored = job(&wanted.name);
        let lease = wanted.ttl.and_then(|ttl| at(1 + ttl.seconds));
        let paths = request.update_mask.unwrap_or_default().paths;
        let resource = match paths
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .as_slice()
        {
            ["ttl"] => proto::Job {
                expire_time: lease,
                ..stored
            },
            ["*"] => {
                let etag = match wanted.host_names == stored.host_names {
                    true => "1",
                    false => "2",
                };
                proto::Job {
                    expire_time: lease.or(wanted.expire_time),
                    ttl: None,
                    etag: etag.to_owned(),
                    ..wanted
                }
            }
            other => panic!("{other:?}"),
        };
        Ok(tonic::Response::new(proto::UpdateJobResponse {
            header: header(6),
            resource: Some(resource),
        }))
    }

    async fn delete_job(
        &self,
        request: Request<proto::DeleteJobRequest>,
    ) -> Answer<proto::DeleteJobResponse> {
        let request = request.into_inner();
        assert_eq!(request.request_id.len(), 36);
        known("name", &request.name)?;
        Ok(tonic::Response::new(proto::DeleteJobResponse {
            header: header(7),
        }))
    }
}

/// What is planned for a job.
pub(super) fn plan(request: proto::GetJobPlanRequest) -> Result<proto::GetJobPlanResponse, Status> {
    known("job_name", &request.job_name)?;
    Ok(proto::GetJobPlanResponse {
        header: header(4),
        resource: Some(proto::JobPlan {
            job_name: request.job_name,
            state: proto::JobPlanState::Pinned.into(),
            flow_count: 2,
            pinned_flow_count: 2,
            ..proto::JobPlan::default()
        }),
        certificate: Some(proto::PinCertificate {
            max_load: 0.5,
            lower_bound: 0.5,
            bound_kind: proto::BoundKind::LeafSends.into(),
            bound_leaf_names: vec!["leaf1".to_owned()],
            tight_link_names: vec!["leaf1:eth1--spine1:eth1".to_owned()],
            tight_link_count: 1,
        }),
    })
}

/// A pin of each job, or of one.
pub(super) fn pins(request: proto::ListPinsRequest) -> Result<proto::ListPinsResponse, Status> {
    let names = match &request.job_name {
        Some(name) => {
            known("job_name", name)?;
            vec![name.clone()]
        }
        None => vec!["train1".to_owned(), "train2".to_owned()],
    };
    let path = |spine: &str, weight| proto::PinPath {
        spine_name: spine.to_owned(),
        weight,
    };
    let pin = |job_name| proto::Pin {
        job_name,
        source_host_port_name: "leaf1:eth3".to_owned(),
        destination_host_port_name: "leaf2:eth3".to_owned(),
        paths: vec![path("spine1", 2), path("spine2", 1)],
        ports: Vec::new(),
    };
    Ok(proto::ListPinsResponse {
        header: header(4),
        pins: names.into_iter().map(pin).collect(),
        ..proto::ListPinsResponse::default()
    })
}

/// What a watcher of jobs hears: both, or from their revision on that one changed and the other went.
pub(super) fn changes(after_revision: Option<u64>) -> proto::WatchResponse {
    let change =
        |change_type: proto::ChangeType, revision, job: proto::Job| proto::ResourceChange {
            kind: proto::ResourceKind::Job.into(),
            name: job.name.clone(),
            change_type: change_type.into(),
            revision,
            resource: Some(Resource::JobResource(job)),
        };
    let other = proto::Job {
        etag: "2".to_owned(),
        ..job("train1")
    };
    use proto::ChangeType::{Created, Deleted, Updated};
    match after_revision {
        None => proto::WatchResponse {
            header: header(7),
            snapshot: true,
            changes: ["train1", "train2"]
                .map(|name| change(Created, None, job(name)))
                .into(),
            ..proto::WatchResponse::default()
        },
        Some(_) => proto::WatchResponse {
            header: header(9),
            changes: vec![
                change(Updated, Some(8), other),
                change(Deleted, Some(9), job("train2")),
            ],
            ..proto::WatchResponse::default()
        },
    }
}
