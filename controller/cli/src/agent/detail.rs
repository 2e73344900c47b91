//! `weft agent show`: one switch, with what weft-agent last said of itself.

use std::io::{self, Write};

use prost_types::Timestamp;
use tonic::Code;
use weft_proto::agent::v1 as agent;
use weft_proto::v1::{self as proto, SwitchRole};

use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{Row, Table, or_dash, printable};
use crate::switch;
use crate::words::{self, word};

/// Asks and prints.
pub(super) async fn show(switch_name: String, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let connection = &dialog.connection;
    let question = async || {
        let mut client = connection.plans().await?;
        let switch_name = switch_name.clone();
        let call = client.get_switch_agent(proto::GetSwitchAgentRequest { switch_name });
        let answer = connection.status(call).await?;
        let failed = |status| Failure::from_status(connection.address(), &status);
        match answer {
            Ok(answer) => Ok(Ok(answer)),
            Err(status) if status.code() == Code::NotFound => Ok(Err(failed(status))),
            Err(status) => Err(failed(status)),
        }
    };
    let answer = match connection.read(question).await? {
        Ok(answer) => answer,
        Err(missing) => {
            let found = switch::found(&switch_name, connection).await?;
            return Err(match found {
                Some(found) => unprogrammed(&found).map_or(missing, Failure::Refused),
                None => Failure::Refused(format!("no switch is named {switch_name:?}")),
            });
        }
    };
    let now = words::answered(answer.header.as_ref());
    let agent = answer.resource.unwrap_or_default();
    if !dialog.object(&agent.object())? {
        print(&agent, now, dialog.out)?;
    }
    Ok(())
}

/// Why weft does not program a declared switch; None: it should.
fn unprogrammed(switch: &proto::Switch) -> Option<String> {
    let name = printable(&switch.name);
    if switch.role() == SwitchRole::Spine {
        return Some(format!("{name} is a spine: weft programs leaves"));
    }
    if !switch.agent_address.is_empty() {
        return None;
    }
    let instead = match switch.link_bandwidth_weights {
        true => "it takes its weights over BGP",
        false => "weft does not program it",
    };
    Some(format!("{name} has no agent_address: {instead}"))
}

fn print(
    switch: &proto::SwitchAgent,
    answered: Option<Timestamp>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let names = proto::SwitchAgent::HEADER.iter().map(|name| match *name {
        "STATE" => "session".to_owned(),
        "REVISION" => "plan".to_owned(),
        "LAST-ACK" => "last acknowledgement".to_owned(),
        name => name.to_lowercase().replace('-', " "),
    });
    let texts = switch.lines(answered).into_iter().flatten();
    for (name, text) in names.zip(texts) {
        writeln!(out, "{name}: {}", printable(&text))?;
    }
    match &switch.agent_status {
        Some(status) => print_status(status, out),
        None => writeln!(out, "agent: no weft-agent says anything of itself"),
    }
}

fn print_status(status: &agent::Status, out: &mut dyn Write) -> io::Result<()> {
    let mut line = |name: &str, text: &str| writeln!(out, "{name}: {}", printable(text));
    let state = word(status.state().as_str_name(), "STATE_");
    line("agent", &format!("{state}, version {}", status.version))?;
    for condition in &status.conditions {
        let kind = word(condition.condition_type().as_str_name(), "CONDITION_TYPE_");
        line("condition", &format!("{kind}: {}", condition.message))?;
    }
    let installed = match status.rule_installed {
        true => "installed",
        false => "not installed",
    };
    let rule = format!("priority {}, {installed}", status.rule_priority);
    line("rule", &rule)?;
    line("table", &status.table.to_string())?;
    let mark = format!("{:#x}/{:#x}", status.mark, status.mark_mask);
    line("mark", &mark)?;
    let primary = status.primary.as_ref().map(primary);
    line("primary", primary.as_deref().unwrap_or("none"))?;
    let kernel = format!(
        "{} routes, {} groups, {} next hops",
        status.routes, status.groups, status.next_hops
    );
    line("kernel", &kernel)?;
    if status.prefixes_left_out {
        return line("prefixes", "the agent has not told them to this leader yet");
    }
    writeln!(out)?;
    let rows: Vec<_> = status.prefixes.iter().map(row).collect();
    let header = ["PREFIX", "STATE", "WANTED", "OWN", "REASON"];
    Table::print(out, &header, &rows, true)
}

fn primary(primary: &agent::Primary) -> String {
    let millis = primary.lease_remaining_ms;
    format!(
        "{}, election {}.{}, lease ends in {}.{} s",
        primary.address,
        primary.election_high,
        primary.election_low,
        millis / 1_000,
        millis % 1_000 / 100
    )
}

fn row(prefix: &agent::Prefix) -> Vec<String> {
    vec![
        prefix.prefix.clone(),
        word(prefix.state().as_str_name(), "PREFIX_STATE_"),
        next_hops(&prefix.wanted),
        next_hops(&prefix.own),
        or_dash(&prefix.reason),
    ]
}

/// `eth1*1, eth2*3`; next hops that are not used stand in brackets.
fn next_hops(next_hops: &[agent::NextHop]) -> String {
    let text = |it: &agent::NextHop| {
        let text = format!("{}*{}", it.interface_name, it.weight);
        if it.in_use { text } else { format!("[{text}]") }
    };
    let all: Vec<_> = next_hops.iter().map(text).collect();
    or_dash(&all.join(", "))
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
        print_status(&status(), &mut out).unwrap();
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
    fn a_switch_that_weft_does_not_program_says_why() {
        let leaf = proto::Switch {
            name: "leaf3".to_owned(),
            role: SwitchRole::Leaf.into(),
            ..proto::Switch::default()
        };
        let over_bgp = proto::Switch {
            link_bandwidth_weights: true,
            ..leaf.clone()
        };
        let why = "leaf3 has no agent_address: it takes its weights over BGP";
        assert_eq!(unprogrammed(&over_bgp).as_deref(), Some(why));
        let why = "leaf3 has no agent_address: weft does not program it";
        assert_eq!(unprogrammed(&leaf).as_deref(), Some(why));
        let declared = proto::Switch {
            agent_address: "192.0.2.13:9340".to_owned(),
            ..leaf
        };
        assert_eq!(unprogrammed(&declared), None);
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
        print(&agent, None, &mut out).unwrap();
        let printed = String::from_utf8(out).unwrap();
        assert!(printed.starts_with("switch: leaf1\n"), "{printed}");
        assert!(printed.ends_with("agent: no weft-agent says anything of itself\n"));
    }
}
