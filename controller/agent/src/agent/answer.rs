//! From what happened to what the client is told: RIB_PROGRAMMED, FIB_PROGRAMMED, FIB_FAILED.

use weft_proto::gribi::aft_result::Status;
use weft_proto::gribi::{AftErrorDetails, AftResult, ModifyResponse};

use super::{Agent, Output};
use crate::election::{Acknowledge, Client};
use crate::entry::Key;
use crate::fib::Unusable;

impl Agent {
    /// What a client is told of its operation, now that the kernel has answered.
    pub(super) fn outcome(
        &self,
        key: Key,
        acknowledge: Acknowledge,
        error: Option<String>,
    ) -> (Status, Option<String>) {
        let deleted = !self.rib.contains(key);
        match acknowledge {
            Acknowledge::Rib => (Status::RibProgrammed, None),
            Acknowledge::RibAndFib => match (error, self.fib.state(key, &self.rib)) {
                (Some(error), _) => (Status::FibFailed, Some(error)),
                (None, _) if deleted => match key {
                    Key::Policy(_) => (Status::RibProgrammed, Some(UNMARKED.into())),
                    Key::NextHop(_) | Key::Group(_) | Key::Prefix(_) => {
                        (Status::FibProgrammed, None)
                    }
                },
                (None, Ok(true)) => (Status::FibProgrammed, None),
                (None, Ok(false)) if matches!(key, Key::Policy(_)) => {
                    (Status::RibProgrammed, Some(UNMARKED.into()))
                }
                (None, Ok(false)) => (
                    Status::FibFailed,
                    Some("the kernel does not have it".into()),
                ),
                (None, Err(Unusable::Inactive(why))) => (Status::RibProgrammed, Some(why)),
                (None, Err(Unusable::Refused(why))) => (Status::FibFailed, Some(why)),
            },
        }
    }

    /// Keeps a result for the next response.
    pub(super) fn answer(
        &mut self,
        client: Client,
        id: u64,
        status: Status,
        text: Option<String>,
        timestamp: i64,
    ) {
        let error_details = text.map(|error_message| AftErrorDetails { error_message });
        let result = AftResult {
            id,
            status: status.into(),
            timestamp,
            error_details,
        };
        self.results.push((client, result));
    }

    /// Gives the results out. Those of one client in a row share a response.
    pub(super) fn respond(&mut self) {
        let mut responses: Vec<(Client, ModifyResponse)> = Vec::new();
        for (client, result) in self.results.drain(..) {
            match responses.last_mut() {
                Some((last, response)) if *last == client => response.result.push(result),
                Some(_) | None => {
                    let response = ModifyResponse {
                        result: vec![result],
                        ..Default::default()
                    };
                    responses.push((client, response));
                }
            }
        }
        let outputs = responses
            .into_iter()
            .map(|(client, response)| Output::Respond(client, response));
        self.outputs.extend(outputs);
    }
}

/// Why a policy forwarding entry, or that it is gone, is accepted only: the answer that the forwarding plane has it follows.
const UNMARKED: &str = "packets are not marked yet";
