//! Metrics of the switches that weft programs. Knows what the task knows of them, and no stream.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use weft_proto::v1::SwitchAgentState;

use super::{SwitchLabel, gauge};
use crate::daemon::switches::led::Led;
use crate::southbound::{AgentState, AgentStatus};

/// One family for each thing that is known of a switch. A switch has them where it is programmed: at the leader.
#[derive(Default)]
struct Switches {
    up: Family<SwitchLabel, Gauge>,
    state: Family<SwitchLabel, Gauge>,
    drift: Family<SwitchLabel, Gauge>,
    pending: Family<SwitchLabel, Gauge>,
    held: Family<SwitchLabel, Gauge>,
    failed: Family<SwitchLabel, Gauge>,
}

/// Registers what is known of the plan and of every switch that has an agent.
pub(super) fn register(registry: &mut Registry, led: &Led) {
    let switches = Switches::default();
    led.sessions().iter().for_each(|it| switches.switch(it));
    switches.register(registry);
    if let Some(age) = led.plan_age() {
        let metric: Gauge<f64, AtomicU64> = Gauge::default();
        metric.set(age.as_secs_f64());
        let help = "Time since the plan changed; absent while there is none";
        registry.register_with_unit("plan_age", help, Unit::Seconds, metric);
    }
    led.answers().register(registry);
}

impl Switches {
    fn switch(&self, status: &AgentStatus) {
        let label = SwitchLabel {
            switch: status.switch.to_string(),
        };
        let set = |family: &Family<SwitchLabel, Gauge>, value: usize| {
            family.get_or_create(&label).set(gauge(value));
        };
        let state = i32::from(status.state.to_message());
        self.state.get_or_create(&label).set(state.into());
        if wants_session(status.state) {
            set(&self.up, status.is_up.into());
        }
        set(&self.drift, status.drift);
        set(&self.pending, status.pending);
        set(&self.held, status.held);
        set(&self.failed, status.failed);
    }

    fn register(self, registry: &mut Registry) {
        let help = "1 if the gRIBI session to the switch is open, 0 if it should be; at the leader only, and absent of a \
                    switch that is off or in shadow";
        registry.register("switch_session_up", help, self.up);
        let help = format!(
            "Where programming the switch stands, at the leader only: {}",
            states().join(", ")
        );
        registry.register("switch_agent_state", help, self.state);
        let help = "Entries that differed from what the switch had acknowledged when it was last read; at the leader only";
        registry.register("plan_drift_entries", help, self.drift);
        let help = "Operations that the switch has not answered, or that wait for others; at the leader only";
        registry.register("plan_pending_operations", help, self.pending);
        let help = "Operations that the switch accepted and that are not in its forwarding plane; at the leader only";
        registry.register("plan_held_operations", help, self.held);
        let help =
            "Operations that the switch refused when it was last written to; at the leader only";
        registry.register("plan_failed_operations", help, self.failed);
    }
}

fn wants_session(state: AgentState) -> bool {
    match state {
        AgentState::Off | AgentState::Shadow | AgentState::Standby => false,
        AgentState::Connecting
        | AgentState::Synchronizing
        | AgentState::InSync
        | AgentState::Held
        | AgentState::TurningOff
        | AgentState::Unreachable
        | AgentState::Deposed
        | AgentState::ForeignController => true,
    }
}

/// The numbers of the contract with their words.
fn states() -> Vec<String> {
    let known = (1..).map_while(|number| SwitchAgentState::try_from(number).ok());
    let words = known.map(|state| {
        let name = state.as_str_name();
        let word = name.strip_prefix("SWITCH_AGENT_STATE_").unwrap_or(name);
        let word = word.to_ascii_lowercase().replace('_', " ");
        format!("{} {word}", i32::from(state))
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::southbound::intent::Mode;

    fn page(statuses: &[AgentStatus]) -> String {
        let mut registry = Registry::with_prefix("weft");
        let switches = Switches::default();
        statuses.iter().for_each(|it| switches.switch(it));
        switches.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    fn status(name: &str, state: AgentState, is_up: bool) -> AgentStatus {
        AgentStatus {
            is_up,
            pending: 3,
            failed: 2,
            ..AgentStatus::new(name.into(), "192.0.2.1:9340".into(), Mode::On, state)
        }
    }

    #[test]
    fn a_session_is_up_while_it_is_open_whatever_is_written_over_it() {
        let page = page(&[
            status("leaf1", AgentState::Synchronizing, true),
            status("leaf2", AgentState::Unreachable, false),
            status("leaf3", AgentState::Shadow, false),
            status("leaf4", AgentState::InSync, true),
        ]);
        let up = |leaf: &str| format!("weft_switch_session_up{{switch=\"{leaf}\"}}");
        for (leaf, value) in [("leaf1", 1), ("leaf2", 0), ("leaf4", 1)] {
            let line = format!("{} {value}\n", up(leaf));
            assert!(page.contains(&line), "{line}{page}");
        }
        assert!(!page.contains(&up("leaf3")), "nobody wants one: {page}");
        assert!(page.contains("weft_switch_agent_state{switch=\"leaf3\"} 7\n"));
        assert!(page.contains("weft_plan_pending_operations{switch=\"leaf1\"} 3\n"));
        assert!(page.contains("weft_plan_failed_operations{switch=\"leaf1\"} 2\n"));
    }

    #[test]
    fn the_numbers_of_states_are_those_of_the_contract() {
        let states = states();
        assert_eq!(
            states[..3],
            ["1 connecting", "2 synchronizing", "3 in sync"]
        );
        let standby = i32::from(AgentState::Standby.to_message());
        assert_eq!(states.last(), Some(&format!("{standby} standby")));
    }
}
