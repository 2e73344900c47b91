//! A switch that is not weft's: it takes everything, and can fall silent or obey another writer. It tells of itself as
//! weft-agent does.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use weft_controller::southbound::Connect;
use weft_proto::agent::v1;
use weft_proto::agent::v1::agent_service_server::{AgentService, AgentServiceServer};
use weft_proto::gribi::g_ribi_server::{GRibi, GRibiServer};
use weft_proto::gribi::{
    AftEntry, AftOperation, AftResult, FlushRequest, FlushResponse, GetRequest, GetResponse,
    ModifyRequest, ModifyResponse, SessionParametersResult, Uint128, aft_entry, aft_operation,
    aft_result,
};
use weft_proto::gribi_aft::afts;

use super::switch::{Door, connect};

/// The switch; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Foreign {
    door: Arc<Mutex<Door>>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    elections: usize,
    is_silent: bool,
    /// The id of another writer.
    obeyed: Uint128,
    /// What it answers for next-hop groups that have a backup; None: it takes them.
    backups: Option<aft_result::Status>,
    /// Every operation that it took.
    taken: Vec<aft_operation::Entry>,
    /// Whether it answers Get and WatchStatus without end.
    is_endless: bool,
    /// Why it refuses Modify; None: it does not.
    refusal: Option<String>,
    /// Statuses that it sent.
    statuses: usize,
}

impl Foreign {
    pub(crate) fn start() -> Self {
        let foreign = Self::default();
        let server = Server::builder()
            .add_service(GRibiServer::new(foreign.clone()))
            .add_service(AgentServiceServer::new(foreign.clone()))
            .serve_with_incoming(Door::open(&foreign.door));
        tokio::spawn(async move { server.await.unwrap() });
        foreign
    }

    pub(crate) fn connect(&self) -> Connect {
        connect(self.door.clone())
    }

    /// How often a writer stated its election id.
    pub(crate) fn elections(&self) -> usize {
        self.state().elections
    }

    /// Answers nothing from now on, or everything again.
    pub(crate) fn fall_silent(&self, silent: bool) {
        self.state().is_silent = silent;
    }

    /// Obeys another writer from now on.
    pub(crate) fn obey(&self, high: u64, low: u64) {
        self.state().obeyed = Uint128 { high, low };
    }

    /// Answers this for groups with a backup from now on.
    pub(crate) fn answer_backups(&self, status: aft_result::Status) {
        self.state().backups = Some(status);
    }

    /// Every operation that it took.
    pub(crate) fn taken(&self) -> Vec<aft_operation::Entry> {
        self.state().taken.clone()
    }

    /// Answers without end from now on, or no more.
    pub(crate) fn be_endless(&self, endless: bool) {
        self.state().is_endless = endless;
    }

    /// Refuses Modify from now on.
    pub(crate) fn refuse(&self, why: String) {
        self.state().refusal = Some(why);
    }

    /// Statuses that it sent.
    pub(crate) fn statuses(&self) -> usize {
        self.state().statuses
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn answer(&self, request: ModifyRequest) -> Option<ModifyResponse> {
        let mut state = self.state();
        state.elections += usize::from(request.election_id.is_some());
        if state.is_silent {
            return None;
        }
        let obeyed = (state.obeyed.high, state.obeyed.low);
        let highest = |id: Uint128| {
            let (high, low) = obeyed.max((id.high, id.low));
            Uint128 { high, low }
        };
        let backups = state.backups;
        let taken = &mut state.taken;
        let mut result = |operation: &AftOperation| {
            let has_backup = operation.entry.as_ref().is_some_and(has_backup);
            let status = match backups.filter(|_| has_backup) {
                Some(status) => status,
                None => {
                    taken.extend(operation.entry.clone());
                    aft_result::Status::FibProgrammed
                }
            };
            AftResult {
                id: operation.id,
                status: status.into(),
                ..AftResult::default()
            }
        };
        Some(ModifyResponse {
            session_params_result: request.params.map(|_| SessionParametersResult::default()),
            election_id: request.election_id.map(highest),
            result: request.operation.iter().map(&mut result).collect(),
        })
    }
}

fn has_backup(entry: &aft_operation::Entry) -> bool {
    let aft_operation::Entry::NextHopGroup(key) = entry else {
        return false;
    };
    let group = key.next_hop_group.as_ref();
    group.is_some_and(|group| group.backup_next_hop_group.is_some())
}

/// A status with prefixes that nobody asked for, and with interfaces of other names than the last.
fn flood(number: u64) -> v1::Status {
    let prefix = |it: u64| {
        let [.., a, b, c] = (1_000 * number + it).to_be_bytes();
        v1::Prefix {
            prefix: format!("10.{a}.{b}.{c}/32"),
            ..v1::Prefix::default()
        }
    };
    let interface = |it: u64| v1::Interface {
        name: format!("eth{number}\n{it}"),
        ..v1::Interface::default()
    };
    v1::Status {
        prefixes: (0..1_000).map(prefix).collect(),
        prefixes_are_changes: number > 0,
        interfaces: (0..5_000).map(interface).collect(),
        ..v1::Status::default()
    }
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl GRibi for Foreign {
    type ModifyStream = Responses<ModifyResponse>;
    type GetStream = Responses<GetResponse>;

    async fn modify(
        &self,
        request: Request<Streaming<ModifyRequest>>,
    ) -> Result<Response<Self::ModifyStream>, Status> {
        if let Some(why) = self.state().refusal.clone() {
            return Err(Status::unavailable(why));
        }
        let foreign = self.clone();
        let answers = request
            .into_inner()
            .filter_map(move |request| match request {
                Ok(request) => foreign.answer(request).map(Ok),
                Err(status) => Some(Err(status)),
            });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn get(&self, _: Request<GetRequest>) -> Result<Response<Self::GetStream>, Status> {
        if !self.state().is_endless {
            return Ok(Response::new(Box::pin(tokio_stream::empty())));
        }
        let entry = AftEntry {
            network_instance: "DEFAULT".to_owned(),
            entry: Some(aft_entry::Entry::NextHop(afts::NextHopKey::default())),
            ..AftEntry::default()
        };
        let response = GetResponse {
            entry: vec![entry; 1_000],
        };
        let endless = std::iter::repeat_with(move || Ok(response.clone()));
        Ok(Response::new(Box::pin(tokio_stream::iter(endless))))
    }

    async fn flush(&self, _: Request<FlushRequest>) -> Result<Response<FlushResponse>, Status> {
        Err(Status::unimplemented("nobody flushes"))
    }
}

#[tonic::async_trait]
impl AgentService for Foreign {
    type WatchStatusStream = Responses<v1::Status>;

    /// Says which prefixes it was asked for.
    async fn watch_status(
        &self,
        request: Request<v1::WatchStatusRequest>,
    ) -> Result<Response<Self::WatchStatusStream>, Status> {
        let prefixes = request.into_inner().prefixes.join(" ");
        let (statuses, queue) = mpsc::channel(1);
        let foreign = self.clone();
        tokio::spawn(async move {
            for octets in 0_u64.. {
                let interface = v1::Interface {
                    name: "eth1".to_owned(),
                    tx_octets: octets,
                    ..v1::Interface::default()
                };
                let status = v1::Status {
                    version: prefixes.clone(),
                    interfaces: vec![interface],
                    ..v1::Status::default()
                };
                let (silent, endless) = {
                    let state = foreign.state();
                    (state.is_silent, state.is_endless)
                };
                let status = if endless { flood(octets) } else { status };
                foreign.state().statuses += 1;
                if !silent && statuses.send(Ok(status)).await.is_err() {
                    return;
                }
                if !endless {
                    sleep(Duration::from_secs(1)).await;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(queue))))
    }

    /// Counts the packets of two pins, unless it is silent.
    async fn list_pins(
        &self,
        _: Request<v1::ListPinsRequest>,
    ) -> Result<Response<v1::ListPinsResponse>, Status> {
        let is_silent = self.state().is_silent;
        if is_silent {
            std::future::pending::<()>().await;
        }
        let pin = |last: u8, port: Option<u32>, bps| v1::PinCounter {
            device_name: "vxlan100".to_owned(),
            vni: Some(100),
            destination: format!("192.168.0.{last}"),
            ip_protocol: port.map(|_| 17),
            source_port: port,
            bits_per_second: bps,
            ..v1::PinCounter::default()
        };
        let no_address = v1::PinCounter {
            destination: "leaf1".to_owned(),
            ..pin(1, None, Some(1))
        };
        Ok(Response::new(v1::ListPinsResponse {
            pins: vec![
                no_address,
                pin(1, None, Some(1_000)),
                pin(1, Some(49_152), Some(2_000)),
                pin(1, Some(1 << 16), Some(3_000)),
                pin(2, None, None),
                pin(3, None, Some(4_000)),
            ],
        }))
    }
}
