//! `weft plan diff`: what a leaf's own routing has beside what weft plans, and what its uplinks carry.

use std::io::{self, Write};

use prost_types::Timestamp;
use weft_proto::v1::{self as proto, NotComparedReason};

use super::{Wanted, percent};
use crate::balance;
use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Format, Row, Table, printable};
use crate::words;

/// Asks, prints, and fails if there are differences or if a leaf could not be compared.
pub(super) async fn diff(wanted: Wanted, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let leaves = match wanted.leaf {
        Some(leaf) => vec![one(leaf, dialog).await?],
        None => all(dialog).await?,
    };
    match dialog.format {
        Format::Table | Format::Wide => print(&leaves, dialog.headers, dialog.out)?,
        Format::Json | Format::Yaml | Format::Name => dialog.rows(&leaves, None)?,
    }
    match unmet(&leaves) {
        None => Ok(()),
        Some(unmet) => Err(Failure::Unmet(unmet)),
    }
}

async fn one(leaf_name: String, dialog: &Dialog<'_>) -> Result<proto::LeafPlanDiff, Failure> {
    let connection = &dialog.connection;
    let question = async || {
        let mut client = connection.plans().await?;
        let leaf_name = leaf_name.clone();
        let call = client.get_leaf_plan_diff(proto::GetLeafPlanDiffRequest { leaf_name });
        connection.answer(call).await
    };
    Ok(connection
        .read(question)
        .await?
        .resource
        .unwrap_or_default())
}

async fn all(dialog: &Dialog<'_>) -> Result<Vec<proto::LeafPlanDiff>, Failure> {
    let connection = &dialog.connection;
    let count = |count| dialog.progress.say(format!("{count} leaves so far"));
    let ask = async |token| page(connection, token).await;
    connection.every(ask, count).await
}

/// One page of differences.
pub(crate) async fn page(
    connection: &Connection,
    page_token: String,
) -> Result<Page<proto::LeafPlanDiff>, Failure> {
    let mut client = connection.plans().await?;
    let request = proto::ListLeafPlanDiffsRequest {
        page_size: PAGE_SIZE,
        page_token,
    };
    let call = client.list_leaf_plan_diffs(request);
    let page = connection.answer(call).await?;
    let rows = page.leaf_plan_diffs;
    Ok(Page::new(page.header, rows, page.next_page_token))
}

fn differing(leaves: &[proto::LeafPlanDiff]) -> usize {
    let prefixes = leaves.iter().flat_map(|leaf| &leaf.prefixes);
    prefixes.filter(|prefix| prefix.differs).count()
}

/// What keeps plan and routing from being known to be equal.
fn unmet(leaves: &[proto::LeafPlanDiff]) -> Option<String> {
    let differing = match differing(leaves) {
        0 => None,
        1 => Some("1 prefix differs".to_owned()),
        count => Some(format!("{count} prefixes differ")),
    };
    let is_unknown = |leaf: &&proto::LeafPlanDiff| !unknown(leaf.not_compared_reason()).is_empty();
    let unknown = leaves.iter().filter(is_unknown);
    let unknown: Vec<_> = unknown.map(|leaf| printable(&leaf.leaf_name)).collect();
    let compared = (!unknown.is_empty()).then(|| format!("not compared: {}", unknown.join(", ")));
    let parts: Vec<_> = differing.into_iter().chain(compared).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn print(leaves: &[proto::LeafPlanDiff], headers: bool, out: &mut dyn Write) -> io::Result<()> {
    let count = leaves.len();
    let noun = if count == 1 { "leaf" } else { "leaves" };
    let revision = leaves.first().map_or(0, proto::LeafPlanDiff::plan_revision);
    writeln!(out, "plan {revision}, {count} {noun}")?;
    for leaf in leaves {
        print_leaf(leaf, headers, out)?;
    }
    Ok(())
}

fn print_leaf(leaf: &proto::LeafPlanDiff, headers: bool, out: &mut dyn Write) -> io::Result<()> {
    let (name, mode) = (printable(&leaf.leaf_name), balance::name(leaf.mode()));
    match unknown(leaf.not_compared_reason()) {
        "" => writeln!(out, "\n{name} ({mode})")?,
        unknown => return writeln!(out, "\n{name} ({mode}): {unknown}"),
    }
    let rows: Vec<_> = leaf.prefixes.iter().map(prefix).collect();
    let header = ["PREFIX", "TO", "OWN", "PLANNED", "DIFFERS"];
    Table::print(out, &header, &rows, headers)?;
    let rows: Vec<_> = leaf.uplinks.iter().map(uplink).collect();
    let header = ["UPLINK", "PLANNED", "MEASURED", "OCTETS"];
    Table::print(out, &header, &rows, headers)
}

/// In JSON and by name.
impl Row for proto::LeafPlanDiff {
    const HEADER: &'static [&'static str] = &["LEAF", "DIFFERING"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.LeafPlanDiff", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        let differing = differing(std::slice::from_ref(self));
        vec![vec![self.leaf_name.clone(), differing.to_string()]]
    }

    fn name(&self) -> String {
        self.leaf_name.clone()
    }
}

fn prefix(prefix: &proto::PrefixDiff) -> Vec<String> {
    vec![
        prefix.prefix.clone(),
        prefix.destination_switch_name.clone(),
        shares(&prefix.own_next_hops, "no route"),
        shares(&prefix.planned_next_hops, "own routing"),
        if prefix.differs { "yes" } else { "no" }.to_owned(),
    ]
}

fn uplink(uplink: &proto::UplinkShare) -> Vec<String> {
    let share = |ppm: u32| percent(ppm.into(), MILLION);
    vec![
        uplink.interface_name.clone(),
        share(uplink.planned_ppm),
        words::or_dash(uplink.measured_ppm.map(share)),
        uplink.octets.to_string(),
    ]
}

/// `eth1 25.0%, eth2 75.0%`.
fn shares(next_hops: &[proto::WeightedNextHop], none: &str) -> String {
    if next_hops.is_empty() {
        return none.to_owned();
    }
    let parts = next_hops.iter().map(|it| u64::from(it.weight)).sum();
    let shares = next_hops.iter().map(|it| {
        let name = match it.interface_name.as_str() {
            "" => it.address(),
            interface => interface,
        };
        format!("{name} {}", percent(it.weight.into(), parts))
    });
    shares.collect::<Vec<_>>().join(", ")
}

/// Why there is nothing to compare with; empty if there is.
fn unknown(reason: NotComparedReason) -> &'static str {
    match reason {
        NotComparedReason::Unspecified => "",
        NotComparedReason::NoAgent => "the fabric declares no agent for it",
        NotComparedReason::AgentSilent => "no weft-agent there says what its own routing has",
        NotComparedReason::NoPlan => "there is no plan for it yet",
    }
}

const MILLION: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Vec<proto::LeafPlanDiff> {
        let next_hop = |interface: &str, weight| proto::WeightedNextHop {
            address: Some("192.0.2.1".to_owned()),
            interface_name: interface.to_owned(),
            weight,
        };
        let uplink = |interface: &str, planned_ppm, measured_ppm, octets| proto::UplinkShare {
            interface_name: interface.to_owned(),
            planned_ppm,
            measured_ppm,
            octets,
        };
        vec![
            proto::LeafPlanDiff {
                leaf_name: "leaf1".to_owned(),
                plan_revision: Some(7),
                mode: proto::BalanceMode::Shadow.into(),
                prefixes: vec![proto::PrefixDiff {
                    prefix: "198.51.100.2/32".to_owned(),
                    destination_switch_name: "leaf2".to_owned(),
                    own_next_hops: vec![next_hop("eth1", 1), next_hop("eth2", 1)],
                    planned_next_hops: vec![next_hop("eth1", 1), next_hop("eth2", 3)],
                    differs: true,
                }],
                uplinks: vec![
                    uplink("eth1", 250_000, Some(499_600), 1_000),
                    uplink("eth2", 750_000, None, 0),
                ],
                ..proto::LeafPlanDiff::default()
            },
            proto::LeafPlanDiff {
                leaf_name: "leaf2".to_owned(),
                plan_revision: Some(7),
                mode: proto::BalanceMode::Off.into(),
                not_compared_reason: NotComparedReason::AgentSilent.into(),
                ..proto::LeafPlanDiff::default()
            },
        ]
    }

    #[test]
    fn own_routing_stands_beside_the_plan() {
        let mut out = Vec::new();
        print(&answer(), true, &mut out).unwrap();
        let expected = "\
plan 7, 2 leaves

leaf1 (shadow)
PREFIX           TO     OWN                     PLANNED                 DIFFERS
198.51.100.2/32  leaf2  eth1 50.0%, eth2 50.0%  eth1 25.0%, eth2 75.0%  yes
UPLINK  PLANNED  MEASURED  OCTETS
eth1    25.0%    50.0%     1000
eth2    75.0%    -         0

leaf2 (off): no weft-agent there says what its own routing has
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(differing(&answer()), 1);
    }

    #[test]
    fn a_leaf_of_which_nothing_is_known_is_not_as_planned() {
        let mut leaves = answer();
        let expected = "1 prefix differs; not compared: leaf2";
        assert_eq!(unmet(&leaves).as_deref(), Some(expected));
        leaves[0].prefixes.clear();
        assert_eq!(unmet(&leaves).as_deref(), Some("not compared: leaf2"));
        leaves[1].not_compared_reason = NotComparedReason::Unspecified.into();
        assert_eq!(unmet(&leaves), None);
    }
}
