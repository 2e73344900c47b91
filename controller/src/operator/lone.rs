//! A lone replica as its clients meet it: over gRPC, with its own store and reflector behind it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::http;
use axum::middleware::{Next, from_fn};
use hyper_util::rt::TokioIo;
use prost::Message;
use prost_types::FieldMask;
use tokio::sync::mpsc;
use tonic::service::Routes;
use tonic::transport::server::TcpConnectInfo;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tower::{ServiceExt, service_fn};
use weft_proto::v1 as proto;
use weft_proto::v1::fabric_service_client::FabricServiceClient;
use weft_proto::v1::watch_service_client::WatchServiceClient;
use weft_store::{Applied, Batch, Change, Op, Replica};

use super::services::{
    at_leader, fabric, fabric_at_leader, replicas_at_leader, services, simulations_at_leader,
    with_json,
};
use crate::config::Config;
use crate::consensus;
use crate::daemon::switches::led::{Led, Observed};
use crate::fabric::declared::Declared;
use crate::fabric::topology::{Declaration, LinkName};
use crate::ledger::FactKey;
use crate::operator::metrics::Counted;
use crate::operator::requests::Requests;
use crate::reflector::thread::Reflection;
use crate::reflector::{Reflector, thread};
use crate::speaker::Shared;
use crate::speaker::reload::{Reload, Reloader};

/// A lone replica.
pub(crate) struct Lone {
    pub(crate) client: FabricServiceClient<Channel>,
    pub(crate) watch: WatchServiceClient<Channel>,
    /// For clients of the other services.
    pub(crate) channel: Channel,
    /// What its port answers over HTTP.
    pub(crate) http: axum::Router,
    /// What the replicas' own port answers, but for Raft.
    pub(crate) raft: axum::Router,
    /// What it counts of that, and of gRPC.
    pub(crate) requests: Requests,
    pub(crate) consensus: consensus::Consensus,
    led: Led,
    reflection: Reflection,
    commands: mpsc::Sender<consensus::Command>,
    inputs: mpsc::Sender<thread::Input>,
    threads: Vec<std::thread::JoinHandle<()>>,
    _reloads: Option<mpsc::Receiver<Reload>>,
    _dir: Arc<tempfile::TempDir>,
}

impl Lone {
    pub(crate) async fn start() -> Self {
        Self::start_in(Arc::new(tempfile::tempdir().unwrap())).await
    }

    /// Stops, and starts again with what is on the disk.
    pub(crate) async fn restart(self) -> Self {
        let dir = Arc::clone(&self._dir);
        self.stop().await;
        Self::start_in(dir).await
    }

    async fn start_in(dir: Arc<tempfile::TempDir>) -> Self {
        let config = Config::parse("[bgp]\nasn = 64496\n", "weftd.toml".as_ref()).unwrap();
        let store = weft_store::Config::new(1, vec![1], dir.path(), config.cluster(), 1);
        // Tasks of the start before hold its database until they hear that their clients have gone.
        let replica = loop {
            match Replica::open(store.clone()) {
                Ok(replica) => break replica,
                Err(weft_store::OpenError::Database { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        };
        let view = replica.view();
        let (reflection, inbox) = thread::channel();
        let (entries, counted) = (reflection.entries(), Counted::new());
        let (consensus, store) =
            consensus::start(replica, entries, BTreeMap::new(), counted.clone());
        let (reflector, _) = thread::start(Reflector::new(config.bgp.local), view, inbox);
        let commands = consensus.commands();
        let shared = Shared::new(config, "weft".to_owned(), consensus.clone(), reflection);
        let shared = Arc::new(shared);
        let (reloader, reloads) = Reloader::new(Arc::clone(&shared), None);
        let led = Led::new();
        let fabric = fabric(&shared, &led);
        let raft = Routes::new(at_leader(&shared, &led))
            .add_service(fabric_at_leader(&shared, &fabric))
            .add_service(simulations_at_leader(&shared, &led))
            .add_service(replicas_at_leader(&shared));
        let services = services(&shared, &led, &Arc::new(reloader), fabric);
        let api = shared.config().api.clone();
        let requests = counted.requests.clone();
        let port = with_json(services, &counted, &api, shared.health.clone());
        // A caller of a test that names no address is on this machine.
        let port = port.into_axum_router().layer(from_fn(near));
        let (port, http) = (Routes::from(port.clone()), port);
        let (near, far) = tokio::io::duplex(1 << 20);
        let arriving = tokio_stream::iter([Ok::<_, std::io::Error>(far)]);
        tokio::spawn(
            Server::builder()
                .add_routes(port)
                .serve_with_incoming(arriving),
        );
        let mut near = Some(near);
        let wire = service_fn(move |_| {
            let gone = || std::io::Error::from(std::io::ErrorKind::NotConnected);
            let near = near.take().ok_or_else(gone);
            std::future::ready(near.map(TokioIo::new))
        });
        let endpoint = Endpoint::from_static("http://replica.example");
        let channel = endpoint.connect_with_connector(wire).await.unwrap();
        let mut lone = Self {
            client: FabricServiceClient::new(channel.clone()),
            watch: WatchServiceClient::new(channel.clone()),
            channel,
            http,
            raft: raft.into_axum_router(),
            requests,
            consensus,
            led,
            inputs: shared.reflection.inputs(),
            reflection: shared.reflection.clone(),
            commands,
            threads: vec![store, reflector],
            _reloads: Some(reloads),
            _dir: dir,
        };
        // It leads after its first election.
        while lone.generation().await.is_err() || !lone.consensus.group().borrow().leads() {
            tokio::task::yield_now().await;
        }
        lone.observe(Some(&[]));
        lone
    }

    /// Another client of it.
    pub(crate) fn another(&self) -> Self {
        Self {
            client: self.client.clone(),
            watch: self.watch.clone(),
            channel: self.channel.clone(),
            http: self.http.clone(),
            raft: self.raft.clone(),
            requests: self.requests.clone(),
            consensus: self.consensus.clone(),
            led: self.led.clone(),
            reflection: self.reflection.clone(),
            commands: self.commands.clone(),
            inputs: self.inputs.clone(),
            threads: Vec::new(),
            _reloads: None,
            _dir: Arc::clone(&self._dir),
        }
    }

    pub(crate) async fn stop(self) {
        self.commands.send(consensus::Command::Stop).await.unwrap();
        self.inputs.send(thread::Input::Stop).await.unwrap();
        let threads = self.threads;
        let joined = tokio::task::spawn_blocking(|| {
            threads.into_iter().for_each(|it| it.join().unwrap());
        });
        joined.await.unwrap();
    }

    /// Lets the reflector read its tables again, as after a snapshot of another replica.
    pub(crate) async fn forget(&self) {
        let changes = vec![Change::Reset];
        let applied = Applied {
            index: 0,
            term: 0,
            changes,
        };
        let taken = None;
        let reset = thread::Entry { applied, taken };
        self.reflection.entries().send(reset).await.unwrap();
    }

    /// Why a call is refused that is known by its path.
    pub(crate) async fn refused(&self, path: &str, message: &impl Message) -> Status {
        let octets = message.encode_to_vec();
        let mut body = vec![0];
        body.extend(u32::try_from(octets.len()).unwrap().to_be_bytes());
        body.extend(octets);
        let request = http::Request::post(path)
            .version(http::Version::HTTP_2)
            .header("content-type", "application/grpc")
            .body(Body::from(body));
        let answer = self.http.clone().oneshot(request.unwrap()).await.unwrap();
        Status::from_header_map(answer.headers()).unwrap()
    }

    pub(crate) async fn generation(&mut self) -> Result<u64, Status> {
        let answer = self.client.get_fabric(proto::GetFabricRequest {}).await?;
        Ok(answer.into_inner().generation)
    }

    /// Applies a declaration; its changes, and the generation after it.
    pub(crate) async fn apply(
        &mut self,
        declaration: &Declaration,
        edit: impl Fn(&mut proto::ApplyFabricRequest),
    ) -> Result<(Vec<proto::ResourceChange>, u64), Status> {
        let answer = self.applied(declaration, edit).await?;
        Ok((answer.changes, answer.generation.unwrap()))
    }

    /// Applies a declaration; the parts of the answer as one.
    pub(crate) async fn applied(
        &mut self,
        declaration: &Declaration,
        edit: impl Fn(&mut proto::ApplyFabricRequest),
    ) -> Result<proto::ApplyFabricResponse, Status> {
        let mut first = proto::ApplyFabricRequest {
            display_name: declaration.display_name.clone(),
            switches: declaration.switches.clone(),
            hosts: declaration.hosts.clone(),
            ..Default::default()
        };
        edit(&mut first);
        let second = proto::ApplyFabricRequest {
            links: declaration.links.clone(),
            host_ports: declaration.host_ports.clone(),
            ..Default::default()
        };
        let parts = tokio_stream::iter([first, second]);
        let mut answer = self.client.apply_fabric(parts).await?.into_inner();
        let mut whole = proto::ApplyFabricResponse::default();
        while let Some(part) = answer.message().await? {
            whole.changes.extend(part.changes);
            whole.would_delete.extend(part.would_delete);
            whole.changed_since_apply.extend(part.changed_since_apply);
            whole.generation = part.generation;
            whole.applied_before |= part.applied_before;
        }
        Ok(whole)
    }

    /// Lets the leader observe which links are down; None: it has not heard every switch.
    pub(crate) fn observe(&self, down: Option<&[&str]>) {
        let term = self.consensus.group().borrow().status.term;
        self.led.set_observed(down.map(|down| Observed {
            term,
            down: down.iter().map(|it| LinkName::from(*it)).collect(),
        }));
    }

    /// The declared fabric.
    pub(crate) async fn declared(&self) -> Declared {
        let index = self.consensus.read_index().await.unwrap();
        loop {
            let look = self
                .reflection
                .query(|reflector| (reflector.index(), reflector.control().declared.clone()));
            let (reached, declared) = look.await.unwrap();
            if reached >= index {
                return declared;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Sets a link down or up.
    pub(crate) async fn set_link(
        &mut self,
        name: &str,
        down: bool,
    ) -> Result<proto::UpdateLinkResponse, Status> {
        let admin_state = if down {
            proto::AdminState::Down
        } else {
            proto::AdminState::Up
        };
        let request = proto::UpdateLinkRequest {
            resource: Some(proto::Link {
                name: name.to_owned(),
                admin_state: admin_state.into(),
                ..proto::Link::default()
            }),
            ..proto::UpdateLinkRequest::default()
        };
        Ok(self.client.update_link(request).await?.into_inner())
    }

    /// Sets a switch down or up.
    pub(crate) async fn set_switch(
        &mut self,
        name: &str,
        admin_state: proto::AdminState,
        force: bool,
    ) -> Result<proto::UpdateSwitchResponse, Status> {
        let request = proto::UpdateSwitchRequest {
            resource: Some(proto::Switch {
                name: name.to_owned(),
                admin_state: admin_state.into(),
                ..proto::Switch::default()
            }),
            update_mask: Some(FieldMask {
                paths: vec!["admin_state".to_owned()],
            }),
            force,
            ..proto::UpdateSwitchRequest::default()
        };
        Ok(self.client.update_switch(request).await?.into_inner())
    }

    pub(crate) async fn create(&mut self, name: &str, id: &str) -> Result<proto::Host, Status> {
        let request = proto::CreateHostRequest {
            resource: Some(host(name)),
            request_id: id.to_owned(),
            ..Default::default()
        };
        let answer = self.client.create_host(request).await?;
        Ok(answer.into_inner().resource.unwrap())
    }

    pub(crate) async fn hosts(
        &mut self,
        page_size: i32,
        page_token: &str,
    ) -> Result<(Vec<String>, String), Status> {
        let request = proto::ListHostsRequest {
            page_size,
            page_token: page_token.to_owned(),
        };
        let page = self.client.list_hosts(request).await?.into_inner();
        let names = page.hosts.into_iter().map(|host| host.name);
        Ok((names.collect(), page.next_page_token))
    }
}

/// Has a request come from this machine, unless it has an address.
async fn near(mut request: http::Request<Body>, next: Next) -> http::Response<Body> {
    if request.extensions().get::<TcpConnectInfo>().is_none() {
        request.extensions_mut().insert(TcpConnectInfo {
            local_addr: None,
            remote_addr: Some(([127, 0, 0, 1], 4000).into()),
        });
    }
    next.run(request).await
}

/// Makes declared what a batch of resources makes of it.
pub(crate) fn apply(declared: &mut Declared, batch: Batch) {
    for op in batch.ops {
        let (keys, value) = match op {
            Op::Put { keys, value } => (keys, Some(value)),
            Op::Delete { keys } => (keys, None),
            Op::DeletePrefix { .. } => panic!("no prefix is deleted"),
        };
        for key in keys {
            match (FactKey::decode(&key), &value) {
                (Some(FactKey::Declared(slot, kind, name)), Some(value)) => {
                    declared.put(slot, kind, name, value).unwrap();
                }
                (Some(FactKey::Declared(slot, kind, name)), None) => {
                    declared.delete(slot, kind, name);
                }
                (Some(FactKey::Stage(slot)), value) => declared.mark(slot, value.is_some()),
                (other, _) => panic!("{other:?}"),
            }
        }
    }
}

pub(crate) fn host(name: &str) -> proto::Host {
    proto::Host {
        name: name.to_owned(),
        ..Default::default()
    }
}

/// The code of a refusal and the reason that programs read.
pub(crate) fn reason(refusal: &Status) -> (Code, String) {
    let info = refusal.get_details_error_info();
    let reason = info.map(|info| {
        assert_eq!(info.domain, "weft");
        info.reason
    });
    (refusal.code(), reason.unwrap_or_default())
}

/// The fields of a bad request.
pub(crate) fn fields(refusal: &Status) -> Vec<String> {
    let expected = (Code::InvalidArgument, "INVALID_FIELDS".to_owned());
    assert_eq!(reason(refusal), expected);
    let bad = refusal.get_details_bad_request();
    let violations = bad.map(|it| it.field_violations).unwrap_or_default();
    violations.into_iter().map(|it| it.field).collect()
}
