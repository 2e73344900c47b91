//! Whom a command asks and how long it waits. Knows no question and no answer.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use prost_types::Timestamp;
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};
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

/// A replica that is asked: the first of several addresses that answers, until it does not.
pub(crate) struct Connection {
    addresses: Vec<String>,
    /// Which of them answers; the next ones are tried when it does not.
    at: Cell<usize>,
    /// Open to it.
    channel: RefCell<Option<Channel>>,
    timeout: Duration,
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
    /// Nothing is opened yet. `timeout` holds for the connection and for each answer.
    pub(crate) fn new(addresses: Vec<String>, timeout: Duration) -> Self {
        Self {
            addresses,
            at: Cell::new(0),
            channel: RefCell::new(None),
            timeout,
        }
    }

    /// Each address as a connection of its own: what every replica says for itself.
    pub(crate) fn each(&self) -> Vec<Self> {
        let each = self.addresses.iter();
        each.map(|address| Self::new(vec![address.clone()], self.timeout))
            .collect()
    }

    /// The same replica, with more time for each answer.
    pub(crate) fn patient(&self, timeout: Duration) -> Self {
        self.within(self.timeout.max(timeout))
    }

    /// The same replica, with less time for each answer.
    pub(crate) fn hasty(&self, timeout: Duration) -> Self {
        self.within(self.timeout.min(timeout))
    }

    /// Asks from now on whom `other` asks.
    pub(crate) fn follow(&self, other: &Self) {
        self.at.set(other.at.get());
        self.channel.replace(other.channel.borrow().clone());
    }

    fn within(&self, timeout: Duration) -> Self {
        Self {
            addresses: self.addresses.clone(),
            at: self.at.clone(),
            channel: self.channel.clone(),
            timeout,
        }
    }

    /// Asks what may be asked twice: without an answer, at the next address, until each was asked.
    pub(crate) async fn read<T>(
        &self,
        mut ask: impl AsyncFnMut() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        for _ in 1..self.addresses.len() {
            match ask().await {
                Err(Failure::Unanswered { .. }) if self.leave() => {}
                answer => return answer,
            }
        }
        ask().await
    }

    /// Makes a change that may be asked for twice. While the leader cannot decide it, asks again for some seconds.
    pub(crate) async fn change<T>(
        &self,
        mut ask: impl AsyncFnMut() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let until = Instant::now() + DECIDED_WITHIN;
        loop {
            match self.read(async || ask().await).await {
                Err(Failure::Undecided(_)) if Instant::now() < until => sleep(AGAIN).await,
                answer => return answer,
            }
        }
    }

    /// Leaves a replica that does not answer. False: no connection was open, so that all were tried.
    pub(crate) fn leave(&self) -> bool {
        let opened = self.channel.take().is_some();
        self.at
            .set((self.at.get() + 1) % self.addresses.len().max(1));
        opened
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

    /// All rows of a list, page by page; each page comes from a replica that answers. `ask` gets the token of a page. `count`
    /// hears how many rows there are so far.
    pub(crate) async fn every<T>(
        &self,
        mut ask: impl AsyncFnMut(String) -> Result<Page<T>, Failure>,
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

    /// Who is asked, as it was given.
    pub(crate) fn address(&self) -> &str {
        self.addresses.get(self.at.get()).map_or("", String::as_str)
    }

    /// A connection to the first address that answers and has a majority, or else to the first that answers; where several are
    /// given, none is waited for longer than two seconds.
    async fn open(&self) -> Result<Channel, Failure> {
        if let Some(channel) = self.channel.borrow().clone() {
            return Ok(channel);
        }
        let begun = self.at.get();
        let (mut alone, mut failures) = (None, Vec::new());
        for step in 0..self.addresses.len() {
            self.at.set((begun + step) % self.addresses.len());
            let opened = match self.open_here().await {
                Ok(channel) => self.agrees(&channel).await.map(|agrees| (channel, agrees)),
                Err(failure) => Err(failure),
            };
            match opened {
                Ok((channel, true)) => return Ok(self.keep(self.at.get(), channel)),
                Ok((channel, false)) => {
                    alone.get_or_insert_with(|| (self.at.get(), channel));
                }
                Err(failure) => failures.push(failure),
            }
        }
        if let Some((at, channel)) = alone {
            return Ok(self.keep(at, channel));
        }
        let others = failures.len().saturating_sub(1);
        let last = failures.pop();
        let last = last.unwrap_or_else(|| Failure::Refused("no address is given".to_owned()));
        match others {
            0 => Err(last),
            _ => Err(last.with(&format!(", and none from {others} other addresses"))),
        }
    }

    fn keep(&self, at: usize, channel: Channel) -> Channel {
        self.at.set(at);
        self.channel.replace(Some(channel.clone()));
        channel
    }

    /// Whether whoever took the connection answers and has a majority; not asked where nobody else could be.
    async fn agrees(&self, channel: &Channel) -> Result<bool, Failure> {
        if self.addresses.len() == 1 {
            return Ok(true);
        }
        // A short answer that needs a majority.
        let mut client = FabricServiceClient::new(channel.clone());
        let patience = self.timeout.min(SILENT);
        let call = client.get_fabric(proto::GetFabricRequest {});
        let said = tokio::time::timeout(patience, call).await;
        let Ok(said) = said else {
            let reason = format!("nothing within {} s", patience.as_secs());
            return Err(Failure::unanswered(self.address(), reason));
        };
        match said {
            Err(status) if status.code() == Code::Unavailable && status.source().is_none() => {
                Ok(false)
            }
            Err(status) => match Failure::from_status(self.address(), &status) {
                failure @ Failure::Unanswered { .. } => Err(failure),
                _ => Ok(true),
            },
            Ok(_) => Ok(true),
        }
    }

    async fn open_here(&self) -> Result<Channel, Failure> {
        let address = self.address();
        let endpoint = endpoint(address).map_err(Failure::Refused)?;
        let patience = match self.addresses.len() {
            1 => self.timeout,
            _ => self.timeout.min(SILENT),
        };
        let channel = tokio::time::timeout(patience, endpoint.connect()).await;
        let channel = channel.map_err(|_| {
            let reason = format!("nothing within {} s", patience.as_secs());
            Failure::unanswered(address, reason)
        })?;
        channel.map_err(|error| Failure::unanswered(address, failure::root(&error)))
    }

    fn timed_out(&self) -> Failure {
        Failure::unanswered(
            self.address(),
            format!("nothing within {} s", self.timeout.as_secs_f32().ceil()),
        )
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

/// Who takes no connection for so long is passed over, if somebody else may.
const SILENT: Duration = Duration::from_secs(2);
/// Time that an election takes, and in which a new leader hears of its links.
const DECIDED_WITHIN: Duration = Duration::from_secs(12);
/// Pause between two tries of a change that the leader cannot decide yet.
const AGAIN: Duration = Duration::from_millis(250);
/// Changes of one revision come in one answer, at whatever length; what is larger is no answer of weft.
const ANSWER_MAX_OCTETS: usize = 256 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_changes_have_one_id() {
        let (first, second) = (request_id(), request_id());
        assert_ne!(first, second);
        let lengths: Vec<_> = first.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{first}");
        assert!(first.chars().all(|it| it == '-' || it.is_ascii_hexdigit()));
    }
}
