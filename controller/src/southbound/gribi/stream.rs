//! The calls to one switch: a Modify stream that knows who is in charge, a Get.
//!
//! Every wait has a bound. It refuses to know what is sent and why.

use std::time::Duration;

use prost::Message as _;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;
use weft_proto::gribi::g_ribi_client::GRibiClient;
use weft_proto::gribi::{
    AftEntry, AftType, Empty, GetRequest, ModifyRequest, ModifyResponse, get_request,
};
use weft_telemetry::text::{SENTENCE_MAX, plain};

use super::{Counted, Ended, message};
use crate::southbound::Election;
use crate::southbound::access::Line;
use crate::southbound::answers::Bound;
use crate::southbound::intent::Installed;
use crate::southbound::undecoded::Undecoded;

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
        let client = GRibiClient::new(line);
        let mut client = client.max_decoding_message_size(MODIFY_MESSAGE_OCTETS_MAX);
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

/// Everything that the switch has in our network instances. An answer beyond a bound ends it: the switch is not programmed by what
/// was read so far.
pub(super) async fn get(line: Line, counted: Counted) -> Result<Installed, Ended> {
    let Ok(read) = timeout(GET_MAX, read(line)).await else {
        return Err(Ended::Lost("no answer to Get".to_owned()));
    };
    read.map_err(|fault| match fault {
        Fault::Status(status) => lost(&status),
        Fault::Exceeds(bound, why) => {
            counted.answers.refuse(&counted.switch, bound);
            Ended::Lost(why)
        }
    })
}

/// Why nothing was read.
enum Fault {
    Status(Status),
    /// A bound, and in words.
    Exceeds(Bound, String),
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

async fn read(line: Line) -> Result<Installed, Fault> {
    let request = GetRequest {
        network_instance: Some(get_request::NetworkInstance::All(Empty {})),
        aft: AftType::All.into(),
    };
    let mut client = Grpc::new(line).max_decoding_message_size(GET_MESSAGE_OCTETS_MAX);
    let ready = client.ready().await;
    ready.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<GetRequest, Undecoded>::default();
    let path = PathAndQuery::from_static(GET);
    let call = client.server_streaming(Request::new(request), path, codec);
    let mut responses = call.await?.into_inner();
    let mut installed = Installed::default();
    let (mut entries, mut octets) = (0, 0);
    while let Some(response) = responses.message().await? {
        entries += response.entries.len();
        octets += response.encoded_len();
        if entries > GET_ENTRIES_MAX {
            let why = format!("the answer to Get has more than {GET_ENTRIES_MAX} entries");
            return Err(Fault::Exceeds(Bound::Entries, why));
        }
        if octets > GET_OCTETS_MAX {
            let why = format!("the answer to Get has more than {GET_OCTETS_MAX} octets");
            return Err(Fault::Exceeds(Bound::Octets, why));
        }
        for entry in response.entries {
            let entry = AftEntry::decode(entry);
            let malformed = |error| Status::internal(format!("an entry of Get: {error}"));
            message::collect(&mut installed, entry.map_err(malformed)?);
        }
    }
    Ok(installed)
}

fn lost(status: &Status) -> Ended {
    let message = plain(status.message(), SENTENCE_MAX);
    Ended::Lost(match status.code() {
        Code::Unauthenticated => format!("login refused (UNAUTHENTICATED): {message}"),
        code => format!("{code}: {message}"),
    })
}

const STREAM_CLOSED: &str = "the switch closed the stream";
/// A switch that does not answer a connection or a handshake within this is not there.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(5);
/// A whole table, 200,000 entries, at a slow switch.
const GET_MAX: Duration = Duration::from_secs(30);
/// Without any acknowledgement for this long a push is stuck.
pub(super) const PROGRESS_MAX: Duration = Duration::from_secs(10);
/// Messages that wait for the transport; the push window bounds them before this does.
const REQUESTS_MAX: usize = 8;
/// Octets of an answer to Modify: 256 results of operations in flight, each with a sentence of 1,000 octets, and room. Results that
/// are empty on the wire become 28 MiB of it.
const MODIFY_MESSAGE_OCTETS_MAX: usize = 1024 * 1024;
/// Octets of a message of Get: as many as any gRPC client takes unless it is configured otherwise. Entries that are empty on the wire
/// become 64 MiB of it, until they are counted.
const GET_MESSAGE_OCTETS_MAX: usize = 4 * 1024 * 1024;
/// Entries of an answer to Get: twice those of 65,536 pins with their routes and groups. The bound counts entries of other clients
/// and repeated ones too.
const GET_ENTRIES_MAX: usize = 200_000;
/// Octets of an answer to Get in all: 200,000 entries of 80 octets each.
const GET_OCTETS_MAX: usize = 16 * 1024 * 1024;
/// Path of the call.
const GET: &str = "/gribi.gRIBI/Get";
