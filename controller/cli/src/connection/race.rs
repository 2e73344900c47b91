//! Asks several replicas one question, each a moment after the one before: the first answer counts. Knows no channel.

use std::cell::Cell;
use std::error::Error;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;
use weft_proto::v1 as proto;
use weft_proto::v1::fabric_service_client::FabricServiceClient;
use weft_proto::v1::peer_service_client::PeerServiceClient;

use super::{Connection, SILENT};
use crate::failure::Failure;

impl Connection {
    /// Returns the first answer to a question that may be asked of several replicas. A change carries one `request_id`.
    pub(crate) async fn read<T>(
        &self,
        ask: impl AsyncFn() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.settle().await?;
        self.race(self.next_after, ask).await
    }

    /// Makes a change that may be asked for twice. While the leader cannot decide it, and after a replica died with it, asks again
    /// for some seconds. If no replica can be reached from the beginning, the change fails at once.
    pub(crate) async fn change<T>(
        &self,
        ask: impl AsyncFn() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (mut until, mut unsettled) = (None, None);
        loop {
            let failure = match self.read(&ask).await {
                Err(failure @ (Failure::Undecided(_) | Failure::Unsettled { .. })) => failure,
                Err(failure @ Failure::Unanswered { .. }) if until.is_some() => failure,
                answer => return answer,
            };
            let until = *until.get_or_insert_with(|| Instant::now() + DECIDED_WITHIN);
            if unsettled.is_none() && matches!(failure, Failure::Unsettled { .. }) {
                unsettled = Some(failure);
            } else if Instant::now() >= until {
                // A later try that changed nothing does not mean that an earlier one did not.
                return Err(unsettled.unwrap_or(failure));
            }
            sleep(AGAIN).await;
        }
    }

    /// Leaves a replica that ended its stream: the next one is asked first.
    pub(crate) fn leave(&self) {
        let (replicas, first) = (&self.replicas, self.replicas.first.get());
        if let Some(channel) = replicas.channels.borrow_mut().get_mut(first) {
            *channel = None;
        }
        replicas
            .first
            .set((first + 1) % replicas.addresses.len().max(1));
    }

    /// Puts the first replica that answers and has a majority before the others, or else the first that answers. Looks for it once.
    pub(crate) async fn settle(&self) -> Result<(), Failure> {
        let replicas = &self.replicas;
        if replicas.settled.replace(true) || replicas.addresses.len() == 1 {
            return Ok(());
        }
        let alone = Cell::new(None);
        let keep = || alone.set(alone.get().or_else(|| Some(self.at())));
        let question = async || {
            let lives = async {
                if self.lives().await {
                    keep();
                }
                pending::<Result<bool, Failure>>().await
            };
            let agrees = tokio::select! {
                agrees = self.agrees() => agrees?,
                never = lives => never?,
            };
            if agrees {
                return Ok(());
            }
            // A refusal is an answer, too, and may come before that of `lives`.
            keep();
            Err(Failure::unanswered(self.address(), "no majority"))
        };
        match (self.race(NEXT_AFTER, question).await, alone.get()) {
            (Err(_), Some(at)) => replicas.first.set(at),
            (settled, _) => settled?,
        }
        Ok(())
    }

    /// Returns true if the replica that is asked answers a question that needs no majority.
    async fn lives(&self) -> bool {
        let Ok(channel) = self.channel().await else {
            return false;
        };
        let request = proto::ListPeersRequest {
            page_size: 1,
            ..proto::ListPeersRequest::default()
        };
        match PeerServiceClient::new(channel).list_peers(request).await {
            Ok(_) => true,
            // A refusal is an answer; an error of the connection has a source.
            Err(status) => status.source().is_none(),
        }
    }

    /// Returns true if the replica that is asked has a majority.
    async fn agrees(&self) -> Result<bool, Failure> {
        // A short answer that needs a majority.
        let mut client = FabricServiceClient::new(self.channel().await?);
        let patience = self.timeout.min(SILENT);
        let answer = timeout(patience, client.get_fabric(proto::GetFabricRequest {})).await;
        match answer.map_err(|_| self.silent(patience))? {
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

    /// Asks the first replica, and every further one `next_after` the one before, or as soon as that has failed.
    async fn race<T>(
        &self,
        next_after: Duration,
        ask: impl AsyncFn() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (count, first) = (self.replicas.addresses.len(), self.replicas.first.get());
        let mut rest = (0..count).map(|step| (first + step) % count);
        let mut asked = FuturesUnordered::new();
        let mut failures = Vec::new();
        loop {
            asked.extend(rest.next().map(|at| self.of(at, ask())));
            let pause = if rest.len() == 0 {
                Duration::MAX
            } else {
                next_after
            };
            match timeout(pause, asked.next()).await {
                Err(_) => {}
                Ok(None) => return Err(none_of(failures)),
                // The first replica was chosen, or is the only one that lives.
                Ok(Some((
                    at,
                    Err(failure @ (Failure::Unanswered { .. } | Failure::Unsettled { .. })),
                ))) => {
                    let place = if at == first { 0 } else { failures.len() };
                    failures.insert(place, failure);
                }
                Ok(Some((at, answer))) => {
                    self.replicas.first.set(at);
                    return answer;
                }
            }
        }
    }

    /// Polls a question as one to the replica at `at`.
    async fn of<T>(&self, at: usize, question: impl Future<Output = T>) -> (usize, T) {
        let mut question = pin!(question);
        let polled = &self.replicas.polled;
        let answer = poll_fn(|context| {
            let before = polled.replace(Some(at));
            let answer = question.as_mut().poll(context);
            polled.set(before);
            answer
        });
        (at, answer.await)
    }
}

/// Returns the first of several failures, with the number of the others. That of a replica that took the change comes first.
fn none_of(mut failures: Vec<Failure>) -> Failure {
    let others = failures.len().saturating_sub(1);
    failures.sort_by_key(|it| !matches!(it, Failure::Unsettled { .. }));
    let first = failures.into_iter().next();
    let first = first.unwrap_or_else(|| Failure::Refused("no address is given".to_owned()));
    match others {
        0 => first,
        others => first.with(&format!(", and none from {others} other addresses")),
    }
}

/// Pause before the next replica is asked: most answers take some milliseconds.
pub(super) const NEXT_AFTER: Duration = Duration::from_millis(100);
/// Time that an election takes, and in which a new leader hears of its links, or a replica starts again.
const DECIDED_WITHIN: Duration = Duration::from_secs(12);
/// Pause between two tries of a change that the leader cannot decide yet.
const AGAIN: Duration = Duration::from_millis(250);
