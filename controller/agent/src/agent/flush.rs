//! Whether a `Flush` is allowed. Knows the election and nothing of entries.

use tonic::Code;
use weft_proto::gribi::flush_response_error::Reason;
use weft_proto::gribi::{FlushRequest, flush_request};

use super::Agent;
use crate::election::ElectionId;
use crate::refusal::Refusal;

impl Agent {
    /// Whether a `Flush` may be acted upon.
    pub(super) fn may_flush(&self, request: &FlushRequest) -> Result<(), Refusal> {
        match &request.election {
            Some(flush_request::Election::Override(_)) => {}
            Some(flush_request::Election::Id(id)) => {
                let id = ElectionId::from(id);
                if id == ElectionId::ZERO {
                    let text = "the election id is zero";
                    return Err(Refusal::flush(
                        Code::InvalidArgument,
                        Reason::InvalidElectionId,
                        text,
                    ));
                }
                if !self.election.may_flush(id) {
                    let text = "another client has a higher election id";
                    return Err(Refusal::flush(
                        Code::FailedPrecondition,
                        Reason::NotPrimary,
                        text,
                    ));
                }
            }
            None => {
                let text = "neither an election id nor override is given";
                let reason = Reason::UnspecifiedElectionBehavior;
                return Err(Refusal::flush(Code::FailedPrecondition, reason, text));
            }
        }
        let (reason, text) = match &request.network_instance {
            Some(flush_request::NetworkInstance::All(_)) => return Ok(()),
            Some(flush_request::NetworkInstance::Name(name)) => match name.as_str() {
                "" => (
                    Reason::InvalidNetworkInstance,
                    "the network instance is empty",
                ),
                name if name == self.config.network_instance => return Ok(()),
                _ => (
                    Reason::NoSuchNetworkInstance,
                    "there is no such network instance",
                ),
            },
            None => (
                Reason::UnspecifiedNetworkInstance,
                "no network instance is given",
            ),
        };
        Err(Refusal::flush(Code::InvalidArgument, reason, text))
    }
}
