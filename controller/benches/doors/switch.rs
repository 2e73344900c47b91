//! A switch that weft dials, and that answers as it should not.

use std::pin::Pin;

use futures::Stream;
use tokio_stream::StreamExt;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use weft_proto::agent::v1 as agent;
use weft_proto::agent::v1::agent_service_server::{AgentService, AgentServiceServer};
use weft_proto::gribi::g_ribi_server::{GRibi, GRibiServer};
use weft_proto::gribi::{
    AftEntry, FlushRequest, FlushResponse, GetRequest, GetResponse, ModifyRequest, ModifyResponse,
    SessionParametersResult, aft_entry, session_parameters_result,
};
use weft_proto::gribi_aft::afts::{Ipv4Entry, Ipv4EntryKey};
use weft_proto::ywrapper::UintValue;

use crate::group::FORGED;

/// The wrong answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Get has no end.
    Get,
    /// Statuses of almost 16 MiB, whose prefixes nobody asked for.
    Status,
    /// Errors of several lines.
    Error,
}

/// Serves gRIBI and the agent's status at every address of this namespace.
pub(crate) async fn serve(answer: Answer) {
    let server = Server::builder()
        .add_service(GRibiServer::new(Switch(answer)))
        .add_service(AgentServiceServer::new(Switch(answer)));
    let served = server.serve("[::]:9340".parse().unwrap()).await;
    served.unwrap();
}

#[derive(Clone, Copy)]
struct Switch(Answer);

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Switch {
    fn refuse(self) -> Result<(), Status> {
        if self.0 == Answer::Error {
            return Err(Status::internal(format!(
                "no table\n{FORGED} {}",
                "x\n".repeat(1_000)
            )));
        }
        Ok(())
    }
}

#[tonic::async_trait]
impl GRibi for Switch {
    type ModifyStream = Answers<ModifyResponse>;
    type GetStream = Answers<GetResponse>;

    async fn modify(
        &self,
        request: Request<Streaming<ModifyRequest>>,
    ) -> Result<Response<Self::ModifyStream>, Status> {
        let answers = request.into_inner().map(|request| {
            let request = request?;
            Ok(ModifyResponse {
                session_params_result: request.params.map(|_| SessionParametersResult {
                    status: session_parameters_result::Status::Ok.into(),
                }),
                election_id: request.election_id,
                ..ModifyResponse::default()
            })
        });
        Ok(Response::new(Box::pin(answers) as Self::ModifyStream))
    }

    async fn get(&self, _: Request<GetRequest>) -> Result<Response<Self::GetStream>, Status> {
        self.refuse()?;
        let parts = match self.0 {
            Answer::Get => u32::MAX,
            Answer::Status | Answer::Error => 0,
        };
        let answers = tokio_stream::iter(0..parts).map(|part| {
            let entry = (0..ENTRIES).map(|it| entry(part.wrapping_mul(ENTRIES).wrapping_add(it)));
            Ok(GetResponse {
                entry: entry.collect(),
            })
        });
        Ok(Response::new(Box::pin(answers) as Self::GetStream))
    }

    async fn flush(&self, _: Request<FlushRequest>) -> Result<Response<FlushResponse>, Status> {
        Err(Status::unimplemented("nothing is flushed"))
    }
}

#[tonic::async_trait]
impl AgentService for Switch {
    type WatchStatusStream = Answers<agent::Status>;

    async fn watch_status(
        &self,
        _: Request<agent::WatchStatusRequest>,
    ) -> Result<Response<Self::WatchStatusStream>, Status> {
        self.refuse()?;
        let parts = match self.0 {
            Answer::Status => u32::MAX,
            Answer::Get | Answer::Error => {
                return Err(Status::unimplemented("a gRIBI server alone"));
            }
        };
        let answers = tokio_stream::iter(0..parts).map(|part| Ok(status(part)));
        Ok(Response::new(Box::pin(answers) as Self::WatchStatusStream))
    }

    async fn list_pins(
        &self,
        _: Request<agent::ListPinsRequest>,
    ) -> Result<Response<agent::ListPinsResponse>, Status> {
        Ok(Response::new(agent::ListPinsResponse::default()))
    }
}

/// A prefix that no other part has.
fn entry(number: u32) -> AftEntry {
    AftEntry {
        network_instance: "DEFAULT".to_owned(),
        entry: Some(aft_entry::Entry::Ipv4(Ipv4EntryKey {
            prefix: format!("{}/32", std::net::Ipv4Addr::from_bits(number)),
            ipv4_entry: Some(Ipv4Entry {
                next_hop_group: Some(UintValue {
                    value: number.into(),
                }),
                ..Ipv4Entry::default()
            }),
        })),
        ..AftEntry::default()
    }
}

/// The first has all prefixes; each after it others.
fn status(part: u32) -> agent::Status {
    let prefix = |number: u32| agent::Prefix {
        prefix: format!(
            "{}/32",
            std::net::Ipv4Addr::from_bits(part.wrapping_mul(PREFIXES).wrapping_add(number))
        ),
        reason: "x".repeat(200),
        ..agent::Prefix::default()
    };
    agent::Status {
        version: "x".repeat(1 << 20),
        state: agent::State::Active.into(),
        prefixes: (0..PREFIXES).map(prefix).collect(),
        prefixes_are_changes: part > 0,
        ..agent::Status::default()
    }
}

/// Of a part of Get.
const ENTRIES: u32 = 10_000;
/// Of a status: 15 MiB.
const PREFIXES: u32 = 65_000;
