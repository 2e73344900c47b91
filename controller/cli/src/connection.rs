//! Whom a command asks and how long it waits. Knows no question and no answer.

use std::cell::Cell;
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};
use weft_proto::v1 as proto;
use weft_proto::v1::config_service_client::ConfigServiceClient;
use weft_proto::v1::evpn_service_client::EvpnServiceClient;
use weft_proto::v1::fabric_service_client::FabricServiceClient;
use weft_proto::v1::peer_service_client::PeerServiceClient;
use weft_proto::v1::plan_service_client::PlanServiceClient;
use weft_proto::v1::replica_service_client::ReplicaServiceClient;
use weft_proto::v1::route_service_client::RouteServiceClient;
use weft_proto::v1::watch_service_client::WatchServiceClient;

use crate::failure::{self, Failure};

/// A replica that is asked: the first of several addresses that answers, and the same one for the whole command.
pub(crate) struct Connection {
    addresses: Vec<String>,
    /// Which of them answers; the next ones are tried when it does not.
    at: Cell<usize>,
    timeout: Duration,
}

impl Connection {
    /// Nothing is opened yet. `timeout` holds for the connection and for each answer.
    pub(crate) fn new(addresses: Vec<String>, timeout: Duration) -> Self {
        Self {
            addresses,
            at: Cell::new(0),
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
        let patient = Self::new(self.addresses.clone(), self.timeout.max(timeout));
        patient.at.set(self.at.get());
        patient
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

    /// A client of the service of the configuration, connected.
    pub(crate) async fn config(&self) -> Result<ConfigServiceClient<Channel>, Failure> {
        Ok(ConfigServiceClient::new(self.open().await?))
    }

    /// A client of the service of the fabric, connected.
    pub(crate) async fn fabric(&self) -> Result<FabricServiceClient<Channel>, Failure> {
        let channel = self.open().await?;
        Ok(FabricServiceClient::new(channel).max_decoding_message_size(ANSWER_MAX_OCTETS))
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

    /// Goes on to the page after this one.
    pub(crate) fn advance(&self, token: &mut String, next: String) -> Result<(), Failure> {
        if *token == next {
            let reason = format!("{} gives the page {next:?} again and again", self.address());
            return Err(Failure::Refused(reason));
        }
        *token = next;
        Ok(())
    }

    /// All rows of a list. `ask` gets the token of a page, and gives its rows with the token of the next one; the last has
    /// none.
    pub(crate) async fn every<T>(
        &self,
        mut ask: impl AsyncFnMut(String) -> Result<(Vec<T>, String), Failure>,
    ) -> Result<Vec<T>, Failure> {
        let (mut rows, mut token) = (Vec::new(), String::new());
        loop {
            let (page, next) = ask(token.clone()).await?;
            rows.extend(page);
            if next.is_empty() {
                return Ok(rows);
            }
            self.advance(&mut token, next)?;
        }
    }

    /// Who is asked, as it was given.
    pub(crate) fn address(&self) -> &str {
        self.addresses.get(self.at.get()).map_or("", String::as_str)
    }

    /// Opens a connection to the first address that takes one; where several are given, none is waited for longer than two
    /// seconds.
    async fn open(&self) -> Result<Channel, Failure> {
        let begun = self.at.get();
        let mut failures = Vec::new();
        for step in 0..self.addresses.len() {
            self.at.set((begun + step) % self.addresses.len());
            let opened = match self.open_here().await {
                Ok(channel) => self.spoken(&channel).await.map(|()| channel),
                Err(failure) => Err(failure),
            };
            match opened {
                Ok(channel) => return Ok(channel),
                Err(failure) => failures.push(failure),
            }
        }
        let others = failures.len().saturating_sub(1);
        let last = failures.pop();
        let last = last.unwrap_or_else(|| Failure::Refused("no address is given".to_owned()));
        match others {
            0 => Err(last),
            _ => Err(last.with(&format!(", and none from {others} other addresses"))),
        }
    }

    /// Whether whoever took the connection answers; not asked where nobody else could be.
    async fn spoken(&self, channel: &Channel) -> Result<(), Failure> {
        if self.addresses.len() == 1 {
            return Ok(());
        }
        // What any replica says for itself.
        let request = proto::ListConfigValuesRequest {
            page_size: 1,
            ..proto::ListConfigValuesRequest::default()
        };
        let mut client = ConfigServiceClient::new(channel.clone());
        let patience = self.timeout.min(SILENT);
        let said = tokio::time::timeout(patience, client.list_config_values(request)).await;
        match said {
            Ok(_) => Ok(()),
            Err(_) => {
                let reason = format!("nothing within {} s", patience.as_secs());
                Err(Failure::unanswered(self.address(), reason))
            }
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
            format!("nothing within {} s", self.timeout.as_secs()),
        )
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
/// Changes of one revision come in one answer, at whatever length; what is larger is no answer of weft.
const ANSWER_MAX_OCTETS: usize = 256 * 1024 * 1024;
