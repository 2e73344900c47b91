//! A job client without end.

use std::sync::atomic::Ordering;

use tonic::transport::Endpoint;
use weft_proto::v1::job_service_client::JobServiceClient;
use weft_proto::v1::{self as proto};

use crate::attack::Aim;

/// Creates jobs over four connections until nobody waits for it any more.
pub(crate) async fn create(aim: &Aim) {
    let creating = (0..CLIENTS).map(|client| async move {
        let source = aim.sources[client % aim.sources.len()];
        let endpoint = Endpoint::from_shared(format!("http://{}", aim.door)).unwrap();
        let channel = endpoint.local_address(Some(source)).connect_lazy();
        let mut jobs = JobServiceClient::new(channel);
        for number in 0_usize.. {
            let request = proto::CreateJobRequest {
                resource: Some(job(number * CLIENTS + client)),
                ..proto::CreateJobRequest::default()
            };
            let counter = match jobs.create_job(request).await {
                Ok(_) => &aim.taken,
                Err(_) => &aim.refused,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    futures::future::join_all(creating).await;
}

/// A job of some 600 KiB: octets between each two of 256 ranks, all at one NIC that no route has.
fn job(number: usize) -> proto::Job {
    let [_, _, a, b] = u32::try_from(number).unwrap_or(0).to_be_bytes();
    let nic = proto::Nic {
        address: format!("10.96.{a}.{b}"),
        vni: Some(100),
        ..proto::Nic::default()
    };
    proto::Job {
        name: format!("job{number}"),
        ranks: vec![nic; RANKS],
        groups: vec![proto::CollectiveGroup {
            name: "experts".to_owned(),
            collective: proto::Collective::AllToAllV.into(),
            pair_octets: vec![1 << 58; RANKS * RANKS],
            ..proto::CollectiveGroup::default()
        }],
        ..proto::Job::default()
    }
}

const CLIENTS: usize = 4;
const RANKS: usize = 256;
