//! What a `Modify` stream may say, and when it ends. Knows nothing of entries.

use tonic::Code;
use weft_proto::agent::v1::ConditionType;
use weft_proto::gribi::{ModifyRequest, ModifyResponse, SessionParametersResult};

use super::{Agent, Job, Now, Output};
use crate::election::{Client, ElectionId};
use crate::refusal::{Detail, Refusal};

impl Agent {
    /// Ends streams that were silent for too long, and what the last of them programmed.
    pub(super) fn expire(&mut self, now: Now) {
        for client in self.election.silent(now.uptime) {
            let refusal = Refusal {
                code: Code::DeadlineExceeded,
                text: format!(
                    "nothing was received on this stream for {} s: send the election id again to stay",
                    self.config.lease.as_secs_f32()
                ),
                detail: Detail::None,
            };
            self.end(client, refusal);
        }
        if self.election.lapse(now.uptime) && self.rib.keys().next().is_some() {
            let text = "whoever programmed the switch was silent past the lease";
            tracing::warn!("{text}; everything goes");
            self.note(ConditionType::LeaseExpired, text.into(), now);
            self.rib_cleared();
            self.jobs.push_back(Job::Settle);
        }
    }

    pub(super) fn request(
        &mut self,
        client: Client,
        request: ModifyRequest,
        now: Now,
    ) -> Result<(), Refusal> {
        if !self.election.knows(client) {
            return Ok(());
        }
        match (
            request.params,
            request.election_id,
            request.operation.is_empty(),
        ) {
            (Some(given), None, true) => {
                self.election.parameters(client, &given)?;
                let result = SessionParametersResult::default();
                let response = ModifyResponse {
                    session_params_result: Some(result),
                    ..ModifyResponse::default()
                };
                self.outputs.push_back(Output::Respond(client, response));
                Ok(())
            }
            (None, Some(id), true) => {
                let id = ElectionId::from(&id);
                let highest = self.election.elect(client, id, now.uptime)?;
                if self.election.primary() == Some(client) {
                    self.conditions.mend(ConditionType::LeaseExpired);
                }
                let response = ModifyResponse {
                    election_id: Some(highest.into()),
                    ..ModifyResponse::default()
                };
                self.outputs.push_back(Output::Respond(client, response));
                Ok(())
            }
            (None, None, false) => {
                self.election.acknowledge(client)?;
                let operations = request.operation.into_iter();
                self.jobs.extend(
                    operations.map(|operation| Job::Operation(client, Box::new(operation))),
                );
                Ok(())
            }
            (_, _, _) => Err(Refusal::invalid(
                "a request has exactly one of operation, params and election_id",
            )),
        }
    }
}
