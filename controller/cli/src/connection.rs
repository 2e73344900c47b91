//! The replicas that a command asks, and how long it waits for them. Knows no question and no answer.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::time::Duration;

use prost_types::Timestamp;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};
use weft_proto::v1 as proto;
use weft_proto::v1::config_service_client::ConfigServiceClient;
use weft_proto::v1::evpn_service_client::EvpnServiceClient;
use weft_proto::v1::fabric_service_client::FabricServiceClient;
use weft_proto::v1::job_service_client::JobServiceClient;
use weft_proto::v1::peer_service_client::PeerServiceClient;
use weft_proto::v1::plan_service_client::PlanServiceClient;
use weft_proto::v1::replica_service_client::ReplicaServiceClient;
use weft_proto::v1::route_service_client::RouteServiceClient;
use weft_proto::v1::simulation_service_client::SimulationServiceClient;
use weft_proto::v1::watch_service_client::WatchServiceClient;

use crate::failure::{self, Failure};

mod race;
#[cfg(test)]
mod tests;

/// The replicas at several addresses. The first one that answers is asked first from then on.
pub(crate) struct Connection {
    replicas: Rc<Replicas>,
    timeout: Duration,
    /// Pause before the next replica is asked as well.
    next_after: Duration,
}

/// State that all handles of a connection share.
struct Replicas {
    addresses: Vec<String>,
    /// Open channels, one for each address.
    channels: RefCell<Vec<Option<Channel>>>,
    /// Replica that is asked first.
    first: Cell<usize>,
    /// Replica whose question is polled at this moment: several are asked at once.
    polled: Cell<Option<usize>>,
    /// True once a replica with a majority was looked for.
    settled: Cell<bool>,
}

/// A part of a list, as a replica answers it.
pub(crate) struct Page<T> {
    /// Who answered, and when.
    pub(crate) header: Option<proto::ResponseHeader>,
    /// What is on it.
    pub(crate) rows: Vec<T>,
    /// Token of the next one; the last has none.
    pub(crate) next: String,
}

impl Connection {
    /// Opens nothing yet. `timeout` is the longest time for each answer. A replica that does not answer pings is left earlier.
    pub(crate) fn new(addresses: Vec<String>, timeout: Duration) -> Self {
        let replicas = Replicas {
            channels: RefCell::new(vec![None; addresses.len()]),
            addresses,
            first: Cell::new(0),
            polled: Cell::new(None),
            settled: Cell::new(false),
        };
        Self {
            replicas: Rc::new(replicas),
            timeout,
            next_after: race::NEXT_AFTER,
        }
    }

    /// Returns a connection to each address alone.
    pub(crate) fn each(&self) -> Vec<Self> {
        let each = self.replicas.addresses.iter();
        each.map(|address| Self::new(vec![address.clone()], self.timeout))
            .collect()
    }

    /// Returns the same replicas for a request that takes long: another one is asked only after one has failed.
    pub(crate) fn patient(&self, timeout: Duration) -> Self {
        Self {
            next_after: Duration::MAX,
            ..self.within(self.timeout.max(timeout))
        }
    }

    /// Returns the same replicas, with less time for each answer.
    pub(crate) fn hasty(&self, timeout: Duration) -> Self {
        self.within(self.timeout.min(timeout))
    }

    fn within(&self, timeout: Duration) -> Self {
        Self {
            replicas: Rc::clone(&self.replicas),
            timeout,
            next_after: self.next_after,
        }
    }

    /// A client of the service of peers, connected.
    pub(crate) async fn peers(&self) -> Result<PeerServiceClient<Channel>, Failure> {
        Ok(PeerServiceClient::new(self.open().await?))
    }

    /// A client of the service of routes, connected.
    pub(crate) async fn routes(&self) -> Result<RouteServiceClient<Channel>, Failure> {
        Ok(RouteServiceClient::new(self.open().await?))
    }

    /// A client of the service of the overlay, connected.
    pub(crate) async fn evpn(&self) -> Result<EvpnServiceClient<Channel>, Failure> {
        Ok(EvpnServiceClient::new(self.open().await?))
    }

    /// A client of the service of replicas, connected.
    pub(crate) async fn replicas(&self) -> Result<ReplicaServiceClient<Channel>, Failure> {
        Ok(ReplicaServiceClient::new(self.open().await?))
    }

    /// A client of the service of plans, connected.
    pub(crate) async fn plans(&self) -> Result<PlanServiceClient<Channel>, Failure> {
        Ok(PlanServiceClient::new(self.open().await?))
    }

    /// A client of the service of simulations, connected.
    pub(crate) async fn simulations(&self) -> Result<SimulationServiceClient<Channel>, Failure> {
        Ok(SimulationServiceClient::new(self.open().await?))
    }

    /// A client of the service of the configuration, connected.
    pub(crate) async fn config(&self) -> Result<ConfigServiceClient<Channel>, Failure> {
        Ok(ConfigServiceClient::new(self.open().await?))
    }

    /// A client of the service of the fabric, connected.
    pub(crate) async fn fabric(&self) -> Result<FabricServiceClient<Channel>, Failure> {
        let channel = self.open().await?;
        Ok(FabricServiceClient::new(channel).max_decoding_message_size(ANSWER_MAX_OCTETS))
    }

    /// A client of the service of jobs, connected.
    pub(crate) async fn jobs(&self) -> Result<JobServiceClient<Channel>, Failure> {
        let channel = self.open().await?;
        // One job may be as long as a message, and an answer has more than that.
        Ok(JobServiceClient::new(channel).max_decoding_message_size(ANSWER_MAX_OCTETS))
    }

    /// A client of the watch service, connected.
    pub(crate) async fn watch(&self) -> Result<WatchServiceClient<Channel>, Failure> {
        let channel = self.open().await?;
        Ok(WatchServiceClient::new(channel).max_decoding_message_size(ANSWER_MAX_OCTETS))
    }

    /// What a call answers, if it does so in time.
    pub(crate) async fn answer<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Failure> {
        let answer = self.status(call).await?;
        answer.map_err(|status| Failure::from_status(self.address(), &status))
    }

    /// Returns the answer to a change. A refusal names the option that overrides it.
    pub(crate) async fn changed<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Failure> {
        let answer = self.status(call).await?;
        answer.map_err(|status| Failure::of_change(self.address(), &status))
    }

    /// The same; what the replica refuses is left for the caller to put in words.
    pub(crate) async fn status<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<Result<T, Status>, Failure> {
        let answer = tokio::time::timeout(self.timeout, call).await;
        let answer = answer.map_err(|_| self.timed_out())?;
        Ok(answer.map(Response::into_inner))
    }

    /// The next part of a long answer, if it comes in time.
    pub(crate) async fn part<T>(
        &self,
        part: impl Future<Output = Result<Option<T>, Status>>,
    ) -> Result<Option<T>, Failure> {
        let part = tokio::time::timeout(self.timeout, part).await;
        let part = part.map_err(|_| self.timed_out())?;
        part.map_err(|status| Failure::from_status(self.address(), &status))
    }

    /// Returns all rows of a list, page by page; each page comes from the replica that answers first. `ask` gets the token of a
    /// page, `count` the number of rows so far.
    pub(crate) async fn every<T>(
        &self,
        ask: impl AsyncFn(String) -> Result<Page<T>, Failure>,
        mut count: impl FnMut(usize),
    ) -> Result<Vec<T>, Failure> {
        let (mut rows, mut token) = (Vec::new(), String::new());
        loop {
            let page = self.read(async || ask(token.clone()).await).await?;
            rows.extend(page.rows);
            count(rows.len());
            if page.next.is_empty() {
                return Ok(rows);
            }
            self.advance(&mut token, page.next)?;
        }
    }

    /// Goes on to the page after this one.
    pub(crate) fn advance(&self, token: &mut String, next: String) -> Result<(), Failure> {
        if *token == next {
            let reason = format!("{} gives the page {next:?} again and again", self.address());
            return Err(Failure::Refused(reason));
        }
        *token = next;
        Ok(())
    }

    /// Returns the address that is asked, as it was given.
    pub(crate) fn address(&self) -> &str {
        let address = self.replicas.addresses.get(self.at());
        address.map_or("", String::as_str)
    }

    /// Index of the replica whose question is polled, or of the one that is asked first.
    fn at(&self) -> usize {
        let first = self.replicas.first.get();
        self.replicas.polled.get().unwrap_or(first)
    }

    /// Returns a channel to the replica that is asked. Without a race, that is one with a majority, if there is one.
    async fn open(&self) -> Result<Channel, Failure> {
        if self.replicas.polled.get().is_none() {
            self.settle().await?;
        }
        self.channel().await
    }

    /// Returns a channel to the replica that is asked, and keeps it open.
    async fn channel(&self) -> Result<Channel, Failure> {
        let at = self.at();
        let open = self.replicas.channels.borrow().get(at).cloned().flatten();
        if let Some(channel) = open {
            return Ok(channel);
        }
        let channel = self.dial().await?;
        let mut channels = self.replicas.channels.borrow_mut();
        if let Some(place) = channels.get_mut(at) {
            *place = Some(channel.clone());
        }
        Ok(channel)
    }

    async fn dial(&self) -> Result<Channel, Failure> {
        let address = self.address();
        let patience = self.timeout.min(SILENT);
        let endpoint = endpoint(address)
            .map_err(Failure::Refused)?
            .connect_timeout(patience)
            // A process that is stopped still accepts connections, and answers no ping.
            .http2_keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_WITHIN);
        let channel = tokio::time::timeout(patience, endpoint.connect()).await;
        let channel = channel.map_err(|_| self.silent(patience))?;
        channel.map_err(|error| Failure::unanswered(address, failure::root(&error)))
    }

    fn timed_out(&self) -> Failure {
        self.silent(Duration::from_secs_f32(self.timeout.as_secs_f32().ceil()))
    }

    fn silent(&self, patience: Duration) -> Failure {
        let reason = format!("nothing within {} s", patience.as_secs_f32());
        Failure::unanswered(self.address(), reason)
    }
}

impl<T> Page<T> {
    /// As it was answered.
    pub(crate) fn new(header: Option<proto::ResponseHeader>, rows: Vec<T>, next: String) -> Self {
        Self { header, rows, next }
    }

    /// When the replica answered: what ages are counted from.
    pub(crate) fn answered(&self) -> Option<Timestamp> {
        self.header.as_ref().and_then(|header| header.answer_time)
    }

    /// Raft id of the replica that answered; 0: it does not say.
    pub(crate) fn replica(&self) -> u64 {
        self.header.as_ref().map_or(0, |header| header.replica_id)
    }
}

/// Accepts `HOST:PORT`, where an IPv6 address stands in brackets.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let (host, port) = text
        .rsplit_once(':')
        .ok_or("no port; HOST:PORT is needed")?;
    match port.parse::<u16>() {
        Ok(1..) if !host.is_empty() => {}
        Ok(_) | Err(_) => return Err("not of the form HOST:PORT".to_owned()),
    }
    endpoint(text).map(|_| text.to_owned())
}

/// A new UUID of random numbers, RFC 9562 §5.4: a change with it is made once, however often replicas are asked for it.
pub(crate) fn request_id() -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | ((low >> 48) & 0x3fff),
        low & 0xffff_ffff_ffff,
    )
}

fn endpoint(address: &str) -> Result<Endpoint, String> {
    Endpoint::from_shared(format!("http://{address}")).map_err(|error| {
        format!(
            "{address:?} is not a host and a port: {}",
            failure::root(&error)
        )
    })
}

/// Longest time to open a connection and to find a majority: a command that nobody answers ends within 2 s.
const SILENT: Duration = Duration::from_millis(1_700);
/// Time without a word of a replica that is asked, after which it gets a ping (RFC 9113 §6.7).
const PING_AFTER: Duration = Duration::from_millis(300);
/// Longest time for the answer to a ping; together with the time before it as long as SILENT.
const PING_WITHIN: Duration = Duration::from_millis(1_400);
/// Changes of one revision come in one answer, at whatever length; what is larger is no answer of weft.
const ANSWER_MAX_OCTETS: usize = 256 * 1024 * 1024;
