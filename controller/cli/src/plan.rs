//! `weft plan`: how each leaf should spread what it sends, and why.

use std::io::{self, Write};

use clap::{Args, Subcommand};
use serde::Serialize;
use weft_proto::v1 as proto;

use crate::completion;
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Table, printable};

mod diff;

/// What can be asked of the plan.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Shares by leaf and destination, each with its reason.
    Show(Wanted),
    /// What the leaves' own routing has, what weft plans, and what the uplinks carry. Exit code 3: they differ, or a leaf
    /// could not be compared.
    Diff(Wanted),
}

/// Whose plan is wanted.
#[derive(Args)]
pub(crate) struct Wanted {
    /// Only this leaf.
    #[arg(long, value_name = "LEAF", add = completion::switches())]
    leaf: Option<String>,
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::Show(wanted) => show(wanted, dialog).await,
            Self::Diff(wanted) => diff::diff(wanted, dialog).await,
        }
    }
}

async fn show(wanted: Wanted, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.plans().await?;
    let ask = async |page_token| {
        let request = proto::ListLeafPlansRequest {
            page_size: PAGE_SIZE,
            page_token,
            leaf_name: wanted.leaf.clone(),
        };
        let call = client.list_leaf_plans(request);
        let page = dialog.connection.answer(call).await?;
        Ok((page.leaf_plans, page.next_page_token))
    };
    let plan = Plan::new(dialog.connection.every(ask).await?);
    if !output::object(dialog.out, dialog.format, &plan)? {
        plan.print(dialog.out)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Plan {
    revision: u64,
    entries: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    leaf: String,
    to: String,
    prefix: String,
    reason: String,
    members: Vec<Member>,
}

#[derive(Serialize)]
struct Member {
    next_hop: String,
    interface: String,
    via: String,
    weight: u32,
    reason: String,
}

impl Plan {
    /// One line for each destination of a leaf, and a row for each next hop below it.
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "plan {}, {} entries",
            self.revision,
            self.entries.len()
        )?;
        let rows: Vec<_> = self.entries.iter().map(Entry::rows).collect();
        let mut table = Table::new(HEADER);
        rows.iter().for_each(|rows| table.fit(rows));
        table.wrap(COLUMNS);
        if rows.iter().any(|rows| !rows.is_empty()) {
            writeln!(out, "\n{}", table.header())?;
        }
        for (entry, rows) in self.entries.iter().zip(&rows) {
            entry.print(out)?;
            if !rows.is_empty() {
                writeln!(out, "{}", table.body(rows))?;
            }
        }
        Ok(())
    }
}

impl Entry {
    /// The destination; what the reason says of single links stands on lines of its own.
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let (leaf, to, prefix) = (
            printable(&self.leaf),
            printable(&self.to),
            printable(&self.prefix),
        );
        let reason = printable(&self.reason).replace("; ", "\n  ");
        writeln!(out, "{leaf} to {to} ({prefix}): {reason}")
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let parts: u64 = self
            .members
            .iter()
            .map(|member| u64::from(member.weight))
            .sum();
        self.members
            .iter()
            .map(|member| member.row(parts))
            .collect()
    }
}

impl Member {
    fn row(&self, parts: u64) -> Vec<String> {
        vec![
            // Under the destination's line.
            format!("  {}", percent(self.weight.into(), parts)),
            self.via.clone(),
            self.interface.clone(),
            self.next_hop.clone(),
            self.reason.clone(),
        ]
    }
}

/// `66.7%`, rounded to the nearest tenth.
fn percent(weight: u64, parts: u64) -> String {
    let tenths = (weight * 1_000 + parts / 2).checked_div(parts);
    tenths.map_or_else(
        || "-".to_owned(),
        |tenths| format!("{}.{}%", tenths / 10, tenths % 10),
    )
}

impl Plan {
    /// Of leaves, in whatever pieces they came.
    fn new(leaves: Vec<proto::LeafPlan>) -> Self {
        let revision = leaves.first().map_or(0, proto::LeafPlan::plan_revision);
        let entries = leaves.into_iter().flat_map(|plan| {
            let leaf = plan.leaf_name;
            let entries = plan.entries.into_iter();
            entries.map(move |entry| Entry::new(leaf.clone(), entry))
        });
        Self {
            revision,
            entries: entries.collect(),
        }
    }
}

impl Entry {
    fn new(leaf: String, entry: proto::PlanEntry) -> Self {
        Self {
            leaf,
            to: entry.destination_switch_name,
            prefix: entry.prefix,
            reason: entry.reason,
            members: entry.members.into_iter().map(Member::from).collect(),
        }
    }
}

impl From<proto::PlanMember> for Member {
    fn from(member: proto::PlanMember) -> Self {
        Self {
            next_hop: member.next_hop,
            interface: member.interface_name,
            via: member.neighbor_switch_name,
            weight: member.weight,
            reason: member.reason,
        }
    }
}

const HEADER: &[&str] = &["  SHARE", "VIA", "INTERFACE", "NEXT-HOP", "REASON"];

/// Reasons are sentences; they are wrapped to what every terminal has.
const COLUMNS: u16 = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    fn plan() -> Vec<proto::LeafPlan> {
        let member = |(via, interface, next_hop, weight): (&str, &str, &str, u32)| {
            proto::PlanMember {
                next_hop: next_hop.to_owned(),
                interface_name: interface.to_owned(),
                neighbor_switch_name: via.to_owned(),
                weight,
                reason: format!(
                    "{weight} of 3 parts: {0} Gb/s end to end, the least of {0} Gb/s up and {0} Gb/s down",
                    weight * 50
                ),
            }
        };
        let entry = |to: &str, prefix: &str, reason: &str, members| proto::PlanEntry {
            destination_switch_name: to.to_owned(),
            prefix: prefix.to_owned(),
            members,
            reason: reason.to_owned(),
        };
        let members = [
            ("spine1", "eth1", "198.51.100.0", 2),
            ("spine2", "eth2", "198.51.100.8", 1),
        ];
        let alive = entry(
            "leaf2",
            "192.0.2.12/32",
            "3 parts over 2 of 2 uplinks",
            members.map(member).to_vec(),
        );
        let dead = entry(
            "leaf3",
            "192.0.2.13/32",
            "no live way over 2 uplinks; leaf1:eth1--spine1:eth1: no part: the link is down",
            Vec::new(),
        );
        // In two pages.
        [alive, dead]
            .map(|entry| proto::LeafPlan {
                leaf_name: "leaf1".to_owned(),
                plan_revision: Some(7),
                entries: vec![entry],
            })
            .into()
    }

    #[test]
    fn shares_stand_below_their_destination() {
        let mut out = Vec::new();
        Plan::new(plan()).print(&mut out).unwrap();
        let expected = "\
plan 7, 2 entries

  SHARE  VIA     INTERFACE  NEXT-HOP      REASON
leaf1 to leaf2 (192.0.2.12/32): 3 parts over 2 of 2 uplinks
  66.7%  spine1  eth1       198.51.100.0  2 of 3 parts: 100 Gb/s end to end, the least of 100 Gb/s
                                          up and 100 Gb/s down
  33.3%  spine2  eth2       198.51.100.8  1 of 3 parts: 50 Gb/s end to end, the least of 50 Gb/s up
                                          and 50 Gb/s down
leaf1 to leaf3 (192.0.2.13/32): no live way over 2 uplinks
  leaf1:eth1--spine1:eth1: no part: the link is down
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn the_plan_for_machines() {
        let mut out = Vec::new();
        assert!(output::object(&mut out, Format::Json, &Plan::new(plan())).unwrap());
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value["revision"], 7);
        let fields = value["entries"][0].as_object().unwrap();
        let names: Vec<_> = fields.keys().map(String::as_str).collect();
        assert_eq!(names, ["leaf", "members", "prefix", "reason", "to"]);
        assert_eq!(value["entries"][0]["members"][1]["weight"], 1);
    }

    #[test]
    fn shares_of_nothing_are_none() {
        assert_eq!(
            (percent(0, 0), percent(1, 3), percent(5, 5)),
            ("-".into(), "33.3%".into(), "100.0%".into())
        );
    }
}
