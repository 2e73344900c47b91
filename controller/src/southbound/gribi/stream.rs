//! The calls to one switch: a Modify stream that knows who is in charge, a Get.
//!
//! Every wait has a bound. It refuses to know what is sent and why.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};
use weft_proto::gribi::g_ribi_client::GRibiClient;
use weft_proto::gribi::{AftType, Empty, GetRequest, ModifyRequest, ModifyResponse, get_request};

use super::{Ended, message};
use crate::southbound::Election;
use crate::southbound::access::Line;
use crate::southbound::intent::Installed;

/// A Modify stream on which this writer is the highest.
pub(super) struct Stream {
    election: Election,
    requests: mpsc::Sender<ModifyRequest>,
    responses: Streaming<ModifyResponse>,
}

impl Stream {
    /// Parameters, then the election id, each alone and each answered.
    pub(super) async fn open(line: Line, election: Election) -> Result<Self, Ended> {
        let (requests, outgoing) = mpsc::channel(REQUESTS_MAX);
        // Some servers answer the call itself only after the first message.
        let first = requests.send(message::parameters()).await;
        first.map_err(|_| Ended::Lost(STREAM_CLOSED.to_owned()))?;
        let mut client = client(line);
        let call = client.modify(ReceiverStream::new(outgoing));
        let responses = timeout(ANSWER_MAX, call)
            .await
            .map_err(|_| Ended::Lost("no answer to Modify".to_owned()))?
            .map_err(|status| lost(&status))?
            .into_inner();
        let mut stream = Self {
            election,
            requests,
            responses,
        };
        stream
            .handshake("the session parameters", |answer| {
                answer.session_params_result.is_some()
            })
            .await?;
        stream.send(message::election(election)).await?;
        stream
            .handshake("the election id", |answer| answer.election_id.is_some())
            .await?;
        Ok(stream)
    }

    async fn handshake(
        &mut self,
        what: &str,
        is_it: impl Fn(&ModifyResponse) -> bool,
    ) -> Result<(), Ended> {
        let answer = timeout(ANSWER_MAX, async {
            loop {
                let answer = self.next().await?;
                if is_it(&answer) {
                    return Ok(());
                }
            }
        });
        answer
            .await
            .map_err(|_| Ended::Lost(format!("no answer to {what}")))?
    }

    /// States the election id again: a switch may take silence as the end of a lease.
    pub(super) async fn renew(&self) -> Result<(), Ended> {
        self.send(message::election(self.election)).await
    }

    pub(super) async fn send(&self, request: ModifyRequest) -> Result<(), Ended> {
        // Bounded: the window is. A switch that does not read for so long is gone.
        let sent = timeout(PROGRESS_MAX, self.requests.send(request)).await;
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Ended::Lost(STREAM_CLOSED.to_owned())),
        }
    }

    /// The next message; an error as soon as one names a higher election id than ours.
    pub(super) async fn next(&mut self) -> Result<ModifyResponse, Ended> {
        let answer = self
            .responses
            .message()
            .await
            .map_err(|status| lost(&status))?;
        let answer = answer.ok_or_else(|| Ended::Lost(STREAM_CLOSED.to_owned()))?;
        if let Some(id) = &answer.election_id {
            let known = Election {
                incarnation: id.high,
                term: id.low,
            };
            if known > self.election {
                return Err(Ended::Outranked(known));
            }
        }
        Ok(answer)
    }
}

/// Everything that the switch has in our network instances.
pub(super) async fn get(line: Line) -> Result<Installed, Ended> {
    let read = async {
        let request = GetRequest {
            network_instance: Some(get_request::NetworkInstance::All(Empty {})),
            aft: AftType::All.into(),
        };
        let mut responses = client(line).get(request).await?.into_inner();
        let mut installed = Installed::default();
        while let Some(response) = responses.message().await? {
            for entry in response.entry {
                message::collect(&mut installed, entry);
            }
        }
        Ok(installed)
    };
    timeout(GET_MAX, read)
        .await
        .map_err(|_| Ended::Lost("no answer to Get".to_owned()))?
        .map_err(|status: tonic::Status| lost(&status))
}

fn client(line: Line) -> GRibiClient<Line> {
    GRibiClient::new(line).max_decoding_message_size(MESSAGE_OCTETS_MAX)
}

fn lost(status: &tonic::Status) -> Ended {
    let message = status.message();
    Ended::Lost(match status.code() {
        Code::Unauthenticated => format!("login refused (UNAUTHENTICATED): {message}"),
        code => format!("{code}: {message}"),
    })
}

const STREAM_CLOSED: &str = "the switch closed the stream";
/// A switch that does not answer a connection or a handshake within this is not there.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(5);
/// A whole table, 100,000 entries, at a slow switch.
const GET_MAX: Duration = Duration::from_secs(30);
/// Without any acknowledgement for this long a push is stuck.
pub(super) const PROGRESS_MAX: Duration = Duration::from_secs(10);
/// Messages that wait for the transport; the push window bounds them before this does.
const REQUESTS_MAX: usize = 8;
/// A server may answer a Get in one message: 100,000 entries of some 100 octets, and room.
const MESSAGE_OCTETS_MAX: usize = 64 * 1024 * 1024;
