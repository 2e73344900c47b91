//! `weft agent show`: one switch, with what weft-agent last said of itself.

use std::io::{self, Write};

use prost_types::Timestamp;
use serde::Serialize;
use weft_proto::agent::v1 as agent;
use weft_proto::v1 as proto;

use super::Agent;
use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{self, Table, or_dash, printable};
use crate::words::{self, word};

/// Asks and prints.
pub(super) async fn show(switch: String, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.plans().await?;
    let request = proto::GetSwitchAgentRequest {
        switch_name: switch,
    };
    let call = client.get_switch_agent(request);
    let answer = dialog.connection.answer(call).await?;
    let now = words::answered(answer.header.as_ref());
    let detail = Detail::new(answer.resource.unwrap_or_default(), now);
    if !output::object(dialog.out, dialog.format, &detail)? {
        detail.print(dialog.out)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Detail {
    #[serde(flatten)]
    agent: Agent,
    status: Option<Status>,
}

#[derive(Serialize)]
struct Status {
    version: String,
    state: String,
    conditions: Vec<Condition>,
    table: u32,
    rule_priority: u32,
    rule_installed: bool,
    mark: u32,
    mark_mask: u32,
    primary: Option<Primary>,
    routes: u32,
    groups: u32,
    next_hops: u32,
    prefixes: Vec<Prefix>,
}

#[derive(Serialize)]
struct Condition {
    r#type: String,
    message: String,
}

#[derive(Serialize)]
struct Primary {
    address: String,
    election_high: u64,
    election_low: u64,
    lease_remaining_ms: u32,
}

#[derive(Serialize)]
struct Prefix {
    prefix: String,
    state: String,
    reason: String,
    wanted: Vec<NextHop>,
    own: Vec<NextHop>,
}

#[derive(Serialize)]
struct NextHop {
    address: String,
    interface: String,
    weight: u32,
    in_use: bool,
}

impl Detail {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        for (name, text) in self.agent.lines() {
            writeln!(out, "{name}: {}", printable(&text))?;
        }
        match &self.status {
            Some(status) => status.print(out),
            None => writeln!(out, "agent: no weft-agent says anything of itself"),
        }
    }
}

impl Status {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut line = |name: &str, text: &str| writeln!(out, "{name}: {}", printable(text));
        line(
            "agent",
            &format!("{}, version {}", self.state, self.version),
        )?;
        for condition in &self.conditions {
            line(
                "condition",
                &format!("{}: {}", condition.r#type, condition.message),
            )?;
        }
        let installed = if self.rule_installed {
            "installed"
        } else {
            "not installed"
        };
        line(
            "rule",
            &format!("priority {}, {installed}", self.rule_priority),
        )?;
        line("table", &self.table.to_string())?;
        line("mark", &format!("{:#x}/{:#x}", self.mark, self.mark_mask))?;
        let primary = self.primary.as_ref().map(Primary::text);
        line("primary", primary.as_deref().unwrap_or("none"))?;
        let kernel = format!(
            "{} routes, {} groups, {} next hops",
            self.routes, self.groups, self.next_hops
        );
        line("kernel", &kernel)?;
        writeln!(out)?;
        let rows: Vec<_> = self.prefixes.iter().map(Prefix::row).collect();
        Table::print(out, &["PREFIX", "STATE", "WANTED", "OWN", "REASON"], &rows)
    }
}

impl Primary {
    fn text(&self) -> String {
        let (secs, tenths) = (
            self.lease_remaining_ms / 1_000,
            self.lease_remaining_ms % 1_000 / 100,
        );
        format!(
            "{}, election {}.{}, lease ends in {secs}.{tenths} s",
            self.address, self.election_high, self.election_low
        )
    }
}

impl Prefix {
    fn row(&self) -> Vec<String> {
        vec![
            self.prefix.clone(),
            self.state.clone(),
            next_hops(&self.wanted),
            next_hops(&self.own),
            or_dash(&self.reason),
        ]
    }
}

/// `eth1*1, eth2*3`; next hops that are not used stand in brackets.
fn next_hops(next_hops: &[NextHop]) -> String {
    let text = |it: &NextHop| {
        let text = format!("{}*{}", it.interface, it.weight);
        if it.in_use { text } else { format!("[{text}]") }
    };
    let all: Vec<_> = next_hops.iter().map(text).collect();
    or_dash(&all.join(", "))
}

impl Detail {
    /// As it was when the replica answered.
    fn new(mut agent: proto::SwitchAgent, now: Option<Timestamp>) -> Self {
        let status = agent.agent_status.take().map(Status::from);
        Self {
            agent: Agent::new(agent, now),
            status,
        }
    }
}

impl From<agent::Status> for Status {
    fn from(status: agent::Status) -> Self {
        let state = word(status.state().as_str_name(), "STATE_");
        let conditions = status.conditions.iter().map(|condition| Condition {
            r#type: word(condition.condition_type().as_str_name(), "CONDITION_TYPE_"),
            message: condition.message.clone(),
        });
        Self {
            state,
            conditions: conditions.collect(),
            version: status.version,
            table: status.table,
            rule_priority: status.rule_priority,
            rule_installed: status.rule_installed,
            mark: status.mark,
            mark_mask: status.mark_mask,
            primary: status.primary.map(|primary| Primary {
                address: primary.address,
                election_high: primary.election_high,
                election_low: primary.election_low,
                lease_remaining_ms: primary.lease_remaining_ms,
            }),
            routes: status.routes,
            groups: status.groups,
            next_hops: status.next_hops,
            prefixes: status.prefixes.into_iter().map(Prefix::from).collect(),
        }
    }
}

impl From<agent::Prefix> for Prefix {
    fn from(prefix: agent::Prefix) -> Self {
        let state = word(prefix.state().as_str_name(), "PREFIX_STATE_");
        let next_hops = |all: Vec<agent::NextHop>| {
            let all = all.into_iter().map(|it| NextHop {
                address: it.address,
                interface: it.interface_name,
                weight: it.weight,
                in_use: it.in_use,
            });
            all.collect()
        };
        Self {
            state,
            prefix: prefix.prefix,
            reason: prefix.reason,
            wanted: next_hops(prefix.wanted),
            own: next_hops(prefix.own),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> agent::Status {
        let next_hop = |interface: &str, weight, in_use| agent::NextHop {
            address: "192.0.2.1".to_owned(),
            interface_name: interface.to_owned(),
            weight,
            in_use,
        };
        agent::Status {
            version: "1.2.3".to_owned(),
            state: agent::State::Active.into(),
            conditions: vec![agent::Condition {
                condition_type: agent::ConditionType::NextHopsUnused.into(),
                message: "1 of 2 for 198.51.100.2/32".to_owned(),
            }],
            table: 9340,
            rule_priority: 1000,
            rule_installed: true,
            mark: 0x77,
            mark_mask: 0xff,
            primary: Some(agent::Primary {
                address: "203.0.113.1:40000".to_owned(),
                election_high: 1_700_000_000,
                election_low: 3,
                lease_remaining_ms: 4_210,
            }),
            prefixes: vec![agent::Prefix {
                prefix: "198.51.100.2/32".to_owned(),
                state: agent::PrefixState::Partial.into(),
                reason: "eth2 is not a next hop of the main table".to_owned(),
                wanted: vec![next_hop("eth1", 1, true), next_hop("eth2", 3, false)],
                own: vec![next_hop("eth1", 1, true)],
            }],
            routes: 1,
            groups: 1,
            next_hops: 2,
            ..agent::Status::default()
        }
    }

    #[test]
    fn every_condition_and_prefix_has_a_name_and_a_reason() {
        let mut out = Vec::new();
        Status::from(status()).print(&mut out).unwrap();
        let expected = "\
agent: active, version 1.2.3
condition: next-hops-unused: 1 of 2 for 198.51.100.2/32
rule: priority 1000, installed
table: 9340
mark: 0x77/0xff
primary: 203.0.113.1:40000, election 1700000000.3, lease ends in 4.2 s
kernel: 1 routes, 1 groups, 2 next hops

PREFIX           STATE    WANTED            OWN     REASON
198.51.100.2/32  partial  eth1*1, [eth2*3]  eth1*1  eth2 is not a next hop of the main table
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_switch_without_weft_agent_says_so() {
        let agent = proto::SwitchAgent {
            switch_name: "leaf1".to_owned(),
            address: "192.0.2.11:9340".to_owned(),
            state: proto::SwitchAgentState::InSync.into(),
            ..proto::SwitchAgent::default()
        };
        let mut out = Vec::new();
        Detail::new(agent, None).print(&mut out).unwrap();
        let printed = String::from_utf8(out).unwrap();
        assert!(printed.starts_with("switch: leaf1\n"), "{printed}");
        assert!(printed.ends_with("agent: no weft-agent says anything of itself\n"));
    }
}
