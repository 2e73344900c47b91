//! Links and agents that are not as they should be.

use weft_proto::agent::v1 as agent;
use weft_proto::v1 as proto;

use super::header;

/// A link that is derated, and one that leads elsewhere.
pub(super) fn link_statuses() -> proto::ListLinkStatusesResponse {
    let slow = proto::LinkStatus {
        link_name: "leaf1:eth1--spine1:eth1".to_owned(),
        state: proto::LinkState::Up.into(),
        derating_percent: 50,
        derating_cause: proto::DeratingCause::Errors.into(),
        ..proto::LinkStatus::default()
    };
    let miswired = proto::LinkStatus {
        link_name: "leaf1:eth2--spine2:eth1".to_owned(),
        state: proto::LinkState::Down.into(),
        reason: "leaf1: eth2 leads to spine1: eth9".to_owned(),
        unheard_reasons: vec!["spine2: connection refused".to_owned()],
        ..proto::LinkStatus::default()
    };
    proto::ListLinkStatusesResponse {
        header: header(1),
        link_statuses: vec![slow, miswired],
        ..proto::ListLinkStatusesResponse::default()
    }
}

/// What a watcher hears of statuses behind what is declared: of both links, or that the first one is derated no more and the other
/// one is not there.
pub(super) fn statuses(after_revision: Option<u64>, older: bool) -> proto::WatchResponse {
    let mut answer = proto::WatchResponse {
        header: header(1),
        link_status_snapshot: !older,
        ..proto::WatchResponse::default()
    };
    if older {
        return answer;
    }
    let mut statuses = link_statuses().link_statuses;
    if after_revision.is_some() {
        statuses.truncate(1);
        statuses[0].derating_percent = 0;
    }
    let changes = statuses.into_iter().map(|it| proto::LinkStatusChange {
        change_type: proto::ChangeType::Created.into(),
        link_status: Some(it),
    });
    answer.link_status_changes = changes.collect();
    answer
}

/// A switch that has everything that it should have.
fn in_sync() -> proto::SwitchAgent {
    proto::SwitchAgent {
        switch_name: "leaf1".to_owned(),
        mode: proto::BalanceMode::On.into(),
        state: proto::SwitchAgentState::InSync.into(),
        entry_count: 15,
        ..proto::SwitchAgent::default()
    }
}

/// The one switch.
pub(super) fn switch_agents() -> proto::ListSwitchAgentsResponse {
    proto::ListSwitchAgentsResponse {
        header: header(1),
        switch_agents: vec![in_sync()],
        ..proto::ListSwitchAgentsResponse::default()
    }
}

/// The one switch, which sees no packet of its pins.
pub(super) fn switch_agent() -> proto::GetSwitchAgentResponse {
    let idle = agent::Condition {
        condition_type: agent::ConditionType::PinsIdle.into(),
        message: "192.168.2.1 in VNI 100".to_owned(),
    };
    let status = agent::Status {
        conditions: vec![idle],
        ..agent::Status::default()
    };
    proto::GetSwitchAgentResponse {
        header: header(1),
        resource: Some(proto::SwitchAgent {
            agent_status: Some(status),
            ..in_sync()
        }),
    }
}
