//! Whether a `Flush` is allowed. Knows the election and nothing of entries.

use tonic::Code;
use weft_proto::gribi::flush_response_error::Reason;
use weft_proto::gribi::{FlushRequest, flush_request, flush_response};

use super::Agent;
use crate::election::ElectionId;
use crate::instance::Instance;
use crate::refusal::Refusal;

/// What a `Flush` removes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// Everything.
    All,
    /// What is of the main network instance.
    Main,
    /// The policy forwarding entries of a network instance.
    Policies(Instance),
}

impl Agent {
    /// Removes what was asked for. The answer says whether something of it stays, because other network instances refer to it.
    pub(super) fn flush(&mut self, what: &Flushed) -> flush_response::Result {
        for key in self.rib.keys() {
            self.fib.touch(key);
        }
        let remains = match what {
            Flushed::All => {
                self.rib.clear();
                false
            }
            Flushed::Main => self.rib.clear_main(),
            Flushed::Policies(instance) => {
                self.rib.clear_policies(*instance);
                false
            }
        };
        match remains {
            true => flush_response::Result::NonZeroReferenceRemain,
            false => flush_response::Result::Ok,
        }
    }

    /// Whether a `Flush` may be acted upon, and what it is to remove.
    pub(super) fn may_flush(&self, request: &FlushRequest) -> Result<Flushed, Refusal> {
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
            Some(flush_request::NetworkInstance::All(_)) => return Ok(Flushed::All),
            Some(flush_request::NetworkInstance::Name(name)) => match name.as_str() {
                "" => (
                    Reason::InvalidNetworkInstance,
                    "the network instance is empty",
                ),
                name if name == self.config.network_instance => return Ok(Flushed::Main),
                name if let Some(instance) = Instance::named(name) => {
                    return Ok(Flushed::Policies(instance));
                }
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
