//! What weft-agents count of pins: asked for when somebody wants to know. It refuses to know whose flows these are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;
use weft_proto::agent::v1;
use weft_telemetry::text::{SENTENCE_MAX, plain};

use super::access::Dialer;
use super::intent::{Flow, Source, interface_name};
use super::undecoded::Undecoded;

/// The weft-agent of a switch, and how it is reached.
#[derive(Clone)]
pub struct Reached {
    agent: Arc<str>,
    dialer: Dialer,
    /// Where it is asked: not where another replica's question came in, which is Raft's.
    runtime: Handle,
}

impl Reached {
    pub(super) fn new(agent: Arc<str>, dialer: Dialer, runtime: Handle) -> Self {
        Self {
            agent,
            dialer,
            runtime,
        }
    }

    /// Bits per second of those of these flows that the agent counts, a mean over some seconds; none, if it does not answer within a
    /// second.
    pub async fn seen(&self, wanted: BTreeSet<Flow>) -> BTreeMap<Flow, u64> {
        let asked = self.clone();
        let seen = self
            .runtime
            .spawn(async move { asked.seen_of(&wanted).await });
        seen.await.unwrap_or_default()
    }

    async fn seen_of(&self, wanted: &BTreeSet<Flow>) -> BTreeMap<Flow, u64> {
        let answer = timeout(ANSWER_MAX, self.ask()).await;
        let answer = answer.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        let pins = answer.unwrap_or_else(|error| {
            tracing::debug!(agent = %self.agent, %error, "packets of pins are not counted");
            Vec::new()
        });
        let seen = pins
            .iter()
            .filter_map(|pin| Some((flow(pin)?, pin.bits_per_second?)));
        seen.filter(|(flow, _)| wanted.contains(flow)).collect()
    }

    async fn ask(&self) -> Result<Vec<v1::PinCounter>, String> {
        let line = self.dialer.open(self.agent.clone()).await?;
        let mut client = Grpc::new(line).max_decoding_message_size(MESSAGE_OCTETS_MAX);
        let ready = client.ready().await;
        ready.map_err(|error| plain(&error.to_string(), SENTENCE_MAX))?;
        let codec = ProstCodec::<v1::ListPinsRequest, Undecoded>::default();
        let request = Request::new(v1::ListPinsRequest {});
        let call = client.unary(request, PathAndQuery::from_static(LIST_PINS), codec);
        let answer = call.await;
        let answer = answer.map_err(|status| plain(status.message(), SENTENCE_MAX))?;
        let pins = answer.into_inner().entries;
        if pins.len() > PINS_MAX {
            return Err(format!(
                "the answer to ListPins has more than {PINS_MAX} pins"
            ));
        }
        let pins = pins.into_iter().map(v1::PinCounter::decode);
        let pins: Result<_, _> = pins.collect();
        pins.map_err(|error| format!("a pin of ListPins: {error}"))
    }
}

/// The flow that a pin is of; None: weft has no such flows.
fn flow(pin: &v1::PinCounter) -> Option<Flow> {
    let udp_source_port = match (pin.ip_protocol, pin.source_port) {
        (None, None) => None,
        (Some(UDP), Some(port)) => Some(u16::try_from(port).ok()?),
        (_, _) => return None,
    };
    let source = match (&*pin.source_address, &*pin.source_interface) {
        ("", "") => Source::Any,
        (address, "") => Source::Address(address.parse().ok()?),
        ("", interface) => Source::Interface(interface_name(interface)?),
        (_, _) => return None,
    };
    let destination = match &*pin.destination {
        "" if matches!(source, Source::Interface(_)) => None,
        destination => Some(destination.parse().ok()?),
    };
    Some(Flow {
        vni: pin.vni?,
        source,
        destination,
        udp_source_port,
    })
}

/// IANA's number of UDP.
const UDP: u32 = 17;
/// An agent that speaks every second answers a call as fast.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Pins of an answer: as many as a weft-agent has. An answer of more is passed over.
const PINS_MAX: usize = 65_536;
/// Octets of an answer: a pin has some 100.
const MESSAGE_OCTETS_MAX: usize = 8 * 1024 * 1024;
/// Path of the call.
const LIST_PINS: &str = "/weft.agent.v1.AgentService/ListPins";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::southbound::intent::InterfaceName;

    fn pin(vni: Option<u32>, destination: &str, port: Option<(u32, u32)>) -> v1::PinCounter {
        v1::PinCounter {
            vni,
            destination: destination.to_owned(),
            ip_protocol: port.map(|(protocol, _)| protocol),
            source_port: port.map(|(_, port)| port),
            ..v1::PinCounter::default()
        }
    }

    #[test]
    fn a_pin_is_of_a_flow_or_of_none_that_weft_has() {
        let whole = Flow::to(100, [192, 168, 0, 1].into());
        let of_port = Flow {
            udp_source_port: Some(49_152),
            ..whole
        };
        let address = "192.168.0.1";
        assert_eq!(flow(&pin(Some(100), address, None)), Some(whole));
        let with_port = pin(Some(100), address, Some((17, 49_152)));
        assert_eq!(flow(&with_port), Some(of_port));
        let from = |address: &str, interface: &str, destination: &str| {
            let pin = v1::PinCounter {
                source_address: address.to_owned(),
                source_interface: interface.to_owned(),
                ..pin(Some(100), destination, None)
            };
            flow(&pin)
        };
        let source = Source::Address([192, 168, 0, 9].into());
        let pair = Flow { source, ..whole };
        assert_eq!(from("192.168.0.9", "", address), Some(pair));
        let source = Source::Interface(InterfaceName::from("swp1").unwrap());
        let of_interface = Flow { source, ..whole };
        assert_eq!(from("", "swp1", address), Some(of_interface));
        let all = Flow {
            destination: None,
            ..of_interface
        };
        assert_eq!(from("", "swp1", ""), Some(all));
        assert_eq!(from("192.168.0.9", "swp1", address), None);
        assert_eq!(from("192.168.0.9", "", ""), None);
        for none in [
            pin(None, address, None),
            pin(Some(100), "leaf1", None),
            pin(Some(100), "", None),
            pin(Some(100), address, Some((6, 49_152))),
            pin(Some(100), address, Some((17, 1 << 16))),
        ] {
            assert_eq!(flow(&none), None, "{none:?}");
        }
    }
}
