//! Whom a command asks and how long it waits. Knows no question and no answer.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};
use weft_proto::v1::config_service_client::ConfigServiceClient;
use weft_proto::v1::evpn_service_client::EvpnServiceClient;
use weft_proto::v1::fabric_service_client::FabricServiceClient;
use weft_proto::v1::peer_service_client::PeerServiceClient;
use weft_proto::v1::plan_service_client::PlanServiceClient;
use weft_proto::v1::replica_service_client::ReplicaServiceClient;
use weft_proto::v1::route_service_client::RouteServiceClient;
use weft_proto::v1::watch_service_client::WatchServiceClient;

use crate::failure::{self, Failure};

/// A replica that is asked.
pub(crate) struct Connection {
    address: String,
    timeout: Duration,
}

impl Connection {
    /// Nothing is opened yet. `timeout` holds for the connection and for each answer.
    pub(crate) fn new(address: String, timeout: Duration) -> Self {
        Self { address, timeout }
    }

    /// The same replica, with more time for each answer.
    pub(crate) fn patient(&self, timeout: Duration) -> Self {
        Self::new(self.address.clone(), self.timeout.max(timeout))
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
        answer.map_err(|status| Failure::from_status(&self.address, &status))
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
        part.map_err(|status| Failure::from_status(&self.address, &status))
    }

    /// Goes on to the page after this one.
    pub(crate) fn advance(&self, token: &mut String, next: String) -> Result<(), Failure> {
        if *token == next {
            let reason = format!("{} gives the page {next:?} again and again", self.address);
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
        &self.address
    }

    async fn open(&self) -> Result<Channel, Failure> {
        let endpoint = endpoint(&self.address).map_err(Failure::Refused)?;
        let channel = tokio::time::timeout(self.timeout, endpoint.connect()).await;
        let channel = channel.map_err(|_| self.timed_out())?;
        channel.map_err(|error| Failure::unanswered(&self.address, failure::root(&error)))
    }

    fn timed_out(&self) -> Failure {
        Failure::unanswered(
            &self.address,
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

/// Changes of one revision come in one answer, at whatever length; what is larger is no answer of weft.
const ANSWER_MAX_OCTETS: usize = 256 * 1024 * 1024;
