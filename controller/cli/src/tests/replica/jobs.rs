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
        balance_mode: mode(name).into(),
        etag: "1".to_owned(),
        ..proto::Job::default()
    }
}

/// `train2` is in shadow.
fn mode(name: &str) -> proto::BalanceMode {
    match name {
        "train2" => proto::BalanceMode::Shadow,
        _ => proto::BalanceMode::Unspecified,
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

/// A job that is pinned: `train2` without a switch that gets its pins, of `train1` nobody says which way its flows go.
fn pinned(job_name: String) -> proto::JobPlan {
    let shadowed = mode(&job_name) == proto::BalanceMode::Shadow;
    let reason = shadowed.then(|| "the job is in shadow".to_owned());
    proto::JobPlan {
        job_name,
        state: proto::JobPlanState::Pinned.into(),
        flow_count: 2,
        pinned_flow_count: 2,
        weighted_flow_count: if shadowed { 2 } else { 0 },
        unprogrammed_reasons: reason.into_iter().collect(),
        ..proto::JobPlan::default()
    }
}

/// What is planned for all jobs, of which weights carry some.
pub(super) fn plans() -> proto::ListJobPlansResponse {
    let weighted =
        |name: &str, reason: &str, cause: proto::WeightedCause, flow_count| proto::JobPlan {
            job_name: name.to_owned(),
            state: proto::JobPlanState::Weighted.into(),
            reason: reason.to_owned(),
            weighted_cause: cause.into(),
            flow_count,
            ..proto::JobPlan::default()
        };
    let off_plan = "the busiest uplink of leaf1 carried 40 % more than predicted";
    use proto::WeightedCause::{Off, OffPlan, Wide};
    proto::ListJobPlansResponse {
        header: header(4),
        job_plans: vec![
            weighted("loose", off_plan, OffPlan, 8),
            weighted("off", "its mode is off", Off, 0),
            pinned("train2".to_owned()),
            weighted("wide", "it may have too many flows", Wide, 600_000),
        ],
        certificate: Some(certificate(2.0)),
        ..proto::ListJobPlansResponse::default()
    }
}

/// What a watcher of plans hears behind that: of both jobs, or that weights carry the one that is left.
pub(super) fn planned(after_revision: Option<u64>, older: bool) -> proto::WatchResponse {
    let change = |job_plan: proto::JobPlan| proto::JobPlanChange {
        change_type: proto::ChangeType::Created.into(),
        job_plan: Some(job_plan),
    };
    let weighted = proto::JobPlan {
        state: proto::JobPlanState::Weighted.into(),
        reason: "it may have too many flows".to_owned(),
        ..pinned("train1".to_owned())
    };
    let plans = match after_revision {
        _ if older => Vec::new(),
        None => ["train1", "train2"]
            .map(|name| pinned(name.to_owned()))
            .into(),
        Some(_) => vec![weighted],
    };
    proto::WatchResponse {
        header: header(after_revision.map_or(7, |_| 9)),
        job_plan_snapshot: !older,
        job_plan_changes: plans.into_iter().map(change).collect(),
        ..proto::WatchResponse::default()
    }
}

/// What is planned for a job; jobs together may need twice what the uplinks of `leaf1` carry.
pub(super) fn plan(
    request: proto::GetJobPlanRequest,
    is_over: bool,
) -> Result<proto::GetJobPlanResponse, Status> {
    known("job_name", &request.job_name)?;
    Ok(proto::GetJobPlanResponse {
        header: header(4),
        resource: Some(pinned(request.job_name)),
        certificate: Some(certificate(if is_over { 2.0 } else { 0.5 })),
    })
}

/// How good pins are that put this share of its capacity on an uplink of `leaf1`, where none can do with less.
pub(super) fn certificate(share: f64) -> proto::PinCertificate {
    proto::PinCertificate {
        max_load: share,
        lower_bound: share,
        bound_kind: proto::BoundKind::LeafSends.into(),
        bound_leaf_names: vec!["leaf1".to_owned()],
        tight_link_names: vec!["leaf1:eth1--spine1:eth1".to_owned()],
        tight_link_count: 1,
    }
}

/// A pin of each job, or of one; queue pairs divide its flow, or weights.
pub(super) fn pins(
    request: proto::ListPinsRequest,
    by_queue_pairs: bool,
) -> Result<proto::ListPinsResponse, Status> {
    let names = match &request.job_name {
        Some(name) => {
            known("job_name", name)?;
            vec![name.clone()]
        }
        None => vec!["train1".to_owned(), "train2".to_owned()],
    };
    let port = |(udp_source_port, spine_name): &(u32, &str)| proto::PinnedPort {
        udp_source_port: *udp_source_port,
        spine_name: (*spine_name).to_owned(),
        queue_pair_count: 1,
    };
    let ports = [(49_152, "spine1"), (49_160, "spine2")];
    let ports = ports.iter().filter(|_| by_queue_pairs).map(port);
    let ports: Vec<_> = ports.collect();
    let pin = |job_name| proto::Pin {
        ports: ports.clone(),
        ..pin(job_name, &[("spine1", 2), ("spine2", 1)])
    };
    Ok(proto::ListPinsResponse {
        header: header(4),
        pins: names.into_iter().map(pin).collect(),
        ..proto::ListPinsResponse::default()
    })
}

fn pin(job_name: String, paths: &[(&str, u32)]) -> proto::Pin {
    let paths = paths.iter().map(|(spine, weight)| proto::PinPath {
        spine_name: (*spine).to_owned(),
        weight: *weight,
    });
    proto::Pin {
        job_name,
        source_host_port_name: "leaf1:eth3".to_owned(),
        destination_host_port_name: "leaf2:eth3".to_owned(),
        paths: paths.collect(),
        ..proto::Pin::default()
    }
}

/// The flows of `train1` on two pages: one goes by its pin with another, one by weights. Those of `train2` nobody knows.
pub(super) fn flows(
    request: proto::ListJobFlowsRequest,
) -> Result<proto::ListJobFlowsResponse, Status> {
    known("job_name", &request.job_name)?;
    if request.job_name == "train2" {
        return Ok(proto::ListJobFlowsResponse {
            header: header(4),
            unlisted_reason: "it may have 600000 flows, at most 524288 are pinned".to_owned(),
            ..proto::ListJobFlowsResponse::default()
        });
    }
    let flow = |source: &str, way: proto::FlowWay| proto::PlannedFlow {
        source_host_port_name: source.to_owned(),
        destination_host_port_name: "leaf2:eth3".to_owned(),
        source_leaf_name: "leaf1".to_owned(),
        destination_leaf_name: "leaf2".to_owned(),
        way: way.into(),
        predicted_bps: 50_000_000_000,
        ..proto::PlannedFlow::default()
    };
    let pinned = proto::PlannedFlow {
        paths: vec![proto::PinPath {
            spine_name: "spine1".to_owned(),
            weight: 16,
        }],
        bundled_source_names: vec!["leaf1:eth4".to_owned()],
        bundled_source_count: 1,
        bundle_predicted_bps: 100_000_000_000,
        seen_bps: Some(99_000_000_000),
        ..flow("leaf1:eth3", proto::FlowWay::Pins)
    };
    let weighted = proto::PlannedFlow {
        unpinned_reason: "leaf1 has no weft-agent that answers".to_owned(),
        ..flow("leaf1:eth5", proto::FlowWay::Weights)
    };
    let (flow, next) = match request.page_token.as_str() {
        "" => (pinned, "second"),
        _ => (weighted, ""),
    };
    Ok(proto::ListJobFlowsResponse {
        header: header(4),
        flows: vec![flow],
        next_page_token: next.to_owned(),
        ..proto::ListJobFlowsResponse::default()
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
