//! Whether a `Flush` is allowed. Knows the election and nothing of entries.

use tonic::Code;
use weft_proto::agent::v1::ConditionType;
use weft_proto::gribi::flush_response_error::Reason;
use weft_proto::gribi::{FlushRequest, flush_request, flush_response};

use super::{Agent, Now};
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
    pub(super) fn may_flush(
        &mut self,
        address: &str,
        request: &FlushRequest,
        now: Now,
    ) -> Result<Flushed, Refusal> {
        match &request.election {
            Some(flush_request::Election::Override(_)) => {
                self.may_override(address, now)?;
            }
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

    /// With override a `Flush` needs no election id, and so it counts from the address of the primary only, unless the operator of the
    /// switch allows more: not everybody who may connect may empty the switch.
    fn may_override(&mut self, address: &str, now: Now) -> Result<(), Refusal> {
        if self.config.allow_override || self.election.may_override(address) {
            return Ok(());
        }
        let text =
            "override is taken from the address of the primary only, without --allow-override";
        let noted = format!("Flush from {address}: {text}");
        self.note(ConditionType::CallersRefused, noted, now);
        let code = Code::FailedPrecondition;
        Err(Refusal::flush(code, Reason::NotPrimary, text))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weft_proto::gribi::{Empty, ModifyRequest, SessionParameters, Uint128};

    use super::*;
    use crate::agent::{Config, Input};
    use crate::election::Client;
    use crate::fib::Ids;
    use crate::forwarding::Observed;

    /// An agent that a client at this address programs.
    fn agent(allow_override: bool, primary: &str) -> Agent {
        let config = Config {
            network_instance: "DEFAULT".into(),
            ids: Ids::new(0x5700_0000).expect("a range"),
            prefixes: Vec::new(),
            pins: false,
            lease: LEASE,
            allow_override,
        };
        let mut agent = Agent::new(config, Observed::default());
        let client = Client(1);
        agent.handle(Input::Opened(client, primary.to_owned()), Now::default());
        let parameters = ModifyRequest {
            params: Some(SessionParameters {
                redundancy: 1,
                persistence: 1,
                ack_type: 1,
            }),
            ..ModifyRequest::default()
        };
        let election = ModifyRequest {
            election_id: Some(Uint128 { high: 1, low: 7 }),
            ..ModifyRequest::default()
        };
        for request in [parameters, election] {
            agent.handle(Input::Request(client, request), Now::default());
        }
        assert_eq!(agent.election().primary(), Some(client));
        agent
    }

    #[test]
    fn override_is_for_the_address_of_the_primary_unless_the_switch_allows_more() {
        let request = FlushRequest {
            election: Some(flush_request::Election::Override(Empty {})),
            network_instance: Some(flush_request::NetworkInstance::All(Empty {})),
        };
        let primary = "192.0.2.1:40000";
        for (caller, allow_override, expected) in [
            (primary, false, true),
            ("192.0.2.1:40001", false, true),
            ("192.0.2.2:40000", false, false),
            ("[2001:db8::1]:40000", false, false),
            ("", false, false),
            ("192.0.2.2:40000", true, true),
        ] {
            let mut agent = agent(allow_override, primary);
            let flushed = agent.may_flush(caller, &request, Now::default());
            assert_eq!(flushed.is_ok(), expected, "{caller} {allow_override}");
            let noted = agent.conditions().shown(Duration::ZERO).count();
            assert_eq!(noted, usize::from(!expected), "{caller}");
            // The primary is gone, and its lease is not over.
            agent.handle(Input::Closed(Client(1)), Now::default());
            let flushed = agent.may_flush(caller, &request, Now::default());
            assert_eq!(flushed.is_ok(), expected, "{caller} {allow_override}");
            // Nobody programs the switch any more.
            let now = Now {
                uptime: LEASE,
                ..Now::default()
            };
            agent.handle(Input::Tick, now);
            assert!(agent.may_flush(caller, &request, now).is_ok(), "{caller}");
        }
    }

    const LEASE: Duration = Duration::from_secs(5);
}
