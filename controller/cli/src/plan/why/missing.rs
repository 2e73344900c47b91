//! What a leaf is not known to have of what it gets, by what the leader says of its agent. Knows no pin and no weight.

use weft_proto::v1 as proto;

use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::printable;

/// What is not there, and why, in words.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Nothing of it.
    All(String),
    /// Some of it.
    Some(String),
}

impl Missing {
    /// Why.
    pub(super) fn why(&self) -> &str {
        match self {
            Self::All(why) | Self::Some(why) => why,
        }
    }

    /// What follows for one pin.
    pub(super) fn of_pin(&self) -> String {
        match self {
            Self::All(why) => format!("it is not known to be in force: {why}"),
            Self::Some(why) => format!("it may not be in force: {why}"),
        }
    }
}

/// What is missing at a leaf that gets weights or pins over gRIBI; None: nothing, or nobody knows.
pub(super) async fn missing(
    balance: &proto::LeafBalance,
    dialog: &Dialog<'_>,
) -> Result<Option<Missing>, Failure> {
    if balance.mode() != proto::BalanceMode::On || balance.agent_address.is_none() {
        return Ok(None);
    }
    let connection = &dialog.connection;
    let question = async || {
        let mut client = connection.plans().await?;
        let switch_name = balance.leaf_name.clone();
        let call = client.get_switch_agent(proto::GetSwitchAgentRequest { switch_name });
        connection.answer(call).await
    };
    match connection.read(question).await {
        Ok(answer) => Ok(of(&answer.resource.unwrap_or_default())),
        // Nothing is planned for the leaf yet, or nobody leads.
        Err(Failure::Refused(_) | Failure::Unanswered { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

fn of(agent: &proto::SwitchAgent) -> Option<Missing> {
    if let Some(why) = &agent.unprogrammed_reason {
        return Some(Missing::All(printable(why)));
    }
    if agent.held_count == 0 && agent.failed_count == 0 {
        return None;
    }
    let leaf = printable(&agent.switch_name);
    let why = printable(agent.last_error.as_deref().unwrap_or("no reason given"));
    Some(Missing::Some(format!(
        "not all of it is in the forwarding plane of {leaf}: {why}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_what_the_leader_says_of_the_agent() {
        let synced = proto::SwitchAgent {
            switch_name: "leaf1".to_owned(),
            ..proto::SwitchAgent::default()
        };
        assert_eq!(of(&synced), None);
        let error = "flow to 10.0.2.1 in VNI 100: accepted, not active: there is no VXLAN device";
        let held = proto::SwitchAgent {
            held_count: 2,
            last_error: Some(error.to_owned()),
            ..synced.clone()
        };
        let why = format!("not all of it is in the forwarding plane of leaf1: {error}");
        assert_eq!(of(&held), Some(Missing::Some(why.clone())));
        let pin = of(&held).map(|it| it.of_pin());
        assert_eq!(pin, Some(format!("it may not be in force: {why}")));
        let failed = proto::SwitchAgent {
            failed_count: 1,
            ..synced
        };
        let why = "not all of it is in the forwarding plane of leaf1: no reason given";
        assert_eq!(of(&failed).as_ref().map(Missing::why), Some(why));
        // Its session may have ended while it held some.
        let why = "weft-agent of leaf1 has been silent for 12 s";
        let silent = proto::SwitchAgent {
            unprogrammed_reason: Some(why.to_owned()),
            ..held
        };
        assert_eq!(of(&silent), Some(Missing::All(why.to_owned())));
    }
}
