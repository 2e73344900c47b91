//! `weft plan`: how each leaf should spread what it sends, and why.

use std::io::{self, Write};

use clap::{Args, Subcommand};
use prost_types::Timestamp;
use weft_proto::v1 as proto;

use crate::completion;
use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Format, Row, Table, or_dash, printable};

pub(crate) mod diff;
mod simulation;
mod svg;
mod why;

/// What can be asked of the plan.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Shares by leaf and destination, each with its reason.
    Show(Wanted),
    /// What the leaves' own routing has, what weft plans, and what the uplinks carry. Exit code 3: they differ, or a leaf
    /// could not be compared.
    Diff(Wanted),
    /// What would be planned if switches were drained, links failed, or other jobs ran; nothing is changed. Exit code 3: a job
    /// would have no way, or jobs need more than links carry.
    WhatIf(simulation::WhatIf),
    /// The same of the fabric that a file declares, in the place of the declared one.
    Simulate(simulation::Simulate),
    /// Why the weights of a leaf, or the pin of a flow, are what they are.
    Why(why::Why),
}

/// Whose plan is wanted.
#[derive(Args)]
pub(crate) struct Wanted {
    /// Only this leaf.
    #[arg(long, value_name = "LEAF", add = completion::leaves())]
    leaf: Option<String>,
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::Show(wanted) => show(wanted, dialog).await,
            Self::Diff(wanted) => diff::diff(wanted, dialog).await,
            Self::WhatIf(what_if) => what_if.run(dialog).await,
            Self::Simulate(simulate) => simulate.run(dialog).await,
            Self::Why(why) => why.run(dialog).await,
        }
    }
}

async fn show(wanted: Wanted, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let ask = async |connection: &Connection, page_token| {
        let mut client = connection.plans().await?;
        let request = proto::ListLeafPlansRequest {
            page_size: PAGE_SIZE,
            page_token,
            leaf_name: wanted.leaf.clone(),
        };
        let call = client.list_leaf_plans(request);
        let page = connection.answer(call).await?;
        Ok(Page::new(
            page.header,
            page.leaf_plans,
            page.next_page_token,
        ))
    };
    if !matches!(dialog.format, Format::Table | Format::Wide) {
        return dialog.pages(ask).await;
    }
    let mut shown = Shown::new(dialog.headers);
    let Dialog {
        connection,
        progress,
        out,
        ..
    } = dialog;
    let (mut token, mut entries) = (String::new(), 0);
    loop {
        let question = async || ask(connection, token.clone()).await;
        let page = connection.read(question).await?;
        for plan in &page.rows {
            shown.print(plan, out)?;
            entries += plan.entries.len();
        }
        progress.say(format!("{entries} entries so far"));
        if page.next.is_empty() {
            writeln!(out, "{entries} entries")?;
            return Ok(());
        }
        connection.advance(&mut token, page.next)?;
    }
}

/// In JSON and by name: a leaf whose entries do not fit on a page goes on in the next one, as the API answers it.
impl Row for proto::LeafPlan {
    const HEADER: &'static [&'static str] = &["LEAF", "ENTRIES"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.LeafPlan", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        vec![vec![self.leaf_name.clone(), self.entries.len().to_string()]]
    }

    fn name(&self) -> String {
        self.leaf_name.clone()
    }
}

/// A plan that is printed leaf by leaf.
struct Shown {
    table: Table,
    headers: bool,
    revision: Option<u64>,
}

impl Shown {
    /// Nothing is printed yet.
    fn new(headers: bool) -> Self {
        Self {
            table: Table::new(HEADER),
            headers,
            revision: None,
        }
    }

    /// One line for each destination of a leaf, and a row for each next hop below it.
    fn print(&mut self, plan: &proto::LeafPlan, out: &mut dyn Write) -> io::Result<()> {
        let rows: Vec<_> = plan.entries.iter().map(rows).collect();
        rows.iter().for_each(|rows| self.table.fit(rows));
        self.table.wrap(COLUMNS);
        let revision = plan.plan_revision.unwrap_or(0);
        if self.revision != Some(revision) {
            self.revision = Some(revision);
            writeln!(out, "plan {revision}")?;
            if self.headers {
                writeln!(out, "\n{}", self.table.header())?;
            }
        }
        for (entry, rows) in plan.entries.iter().zip(&rows) {
            print_entry(&plan.leaf_name, entry, out)?;
            if !rows.is_empty() {
                writeln!(out, "{}", self.table.body(rows))?;
            }
        }
        Ok(())
    }
}

/// The destination; what the reason says of single links stands on lines of its own.
fn print_entry(leaf: &str, entry: &proto::PlanEntry, out: &mut dyn Write) -> io::Result<()> {
    let (leaf, to, prefix) = (
        printable(leaf),
        printable(&entry.destination_switch_name),
        printable(&entry.prefix),
    );
    let reason = printable(&entry.reason).replace("; ", "\n  ");
    writeln!(out, "{leaf} to {to} ({prefix}): {reason}")
}

fn rows(entry: &proto::PlanEntry) -> Vec<Vec<String>> {
    let weights = entry.members.iter().map(|it| u64::from(it.weight));
    let parts: u64 = weights.sum();
    let row = |share: &str, member: &proto::PlanMember| {
        vec![
            // Under the destination's line.
            format!("  {share}"),
            member.neighbor_switch_name.clone(),
            member.interface_name.clone(),
            or_dash(&member.next_hop),
            member.reason.clone(),
        ]
    };
    let members = entry.members.iter();
    let members = members.map(|it| row(&percent(it.weight.into(), parts), it));
    let backups = entry.backup_members.iter().map(|it| row("backup", it));
    members.chain(backups).collect()
}

/// `66.7%`, rounded to the nearest tenth.
fn percent(weight: u64, parts: u64) -> String {
    let tenths = (weight * 1_000 + parts / 2).checked_div(parts);
    tenths.map_or_else(
        || "-".to_owned(),
        |tenths| format!("{}.{}%", tenths / 10, tenths % 10),
    )
}

const HEADER: &[&str] = &["  SHARE", "VIA", "INTERFACE", "NEXT-HOP", "REASON"];

/// Reasons are sentences; they are wrapped to what every terminal has.
const COLUMNS: u16 = 100;

#[cfg(test)]
mod tests {
    use super::*;

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
            backup_members: Vec::new(),
        };
        let members = [
            ("spine1", "eth1", "198.51.100.0", 2),
            ("spine2", "eth2", "198.51.100.8", 1),
        ];
        let mut alive = entry(
            "leaf2",
            "192.0.2.12/32",
            "3 parts over 2 of 2 uplinks",
            members.map(member).to_vec(),
        );
        let backup = proto::PlanMember {
            reason: "no part: the link is down (an operator set spine3 down)".to_owned(),
            ..member(("spine3", "eth3", "198.51.100.16", 1))
        };
        alive.backup_members.push(backup);
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
                ..proto::LeafPlan::default()
            })
            .into()
    }

    #[test]
    fn shares_stand_below_their_destination() {
        let mut out = Vec::new();
        let mut shown = Shown::new(true);
        for plan in plan() {
            shown.print(&plan, &mut out).unwrap();
        }
        let expected = "\
plan 7

  SHARE   VIA     INTERFACE  NEXT-HOP       REASON
leaf1 to leaf2 (192.0.2.12/32): 3 parts over 2 of 2 uplinks
  66.7%   spine1  eth1       198.51.100.0   2 of 3 parts: 100 Gb/s end to end, the least of 100 Gb/s
                                            up and 100 Gb/s down
  33.3%   spine2  eth2       198.51.100.8   1 of 3 parts: 50 Gb/s end to end, the least of 50 Gb/s
                                            up and 50 Gb/s down
  backup  spine3  eth3       198.51.100.16  no part: the link is down (an operator set spine3 down)
leaf1 to leaf3 (192.0.2.13/32): no live way over 2 uplinks
  leaf1:eth1--spine1:eth1: no part: the link is down
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn shares_of_nothing_are_none() {
        assert_eq!(
            (percent(0, 0), percent(1, 3), percent(5, 5)),
            ("-".into(), "33.3%".into(), "100.0%".into())
        );
    }
}
