//! `weft plan diff`: what a leaf's own routing has beside what weft plans, and what its uplinks carry.

use std::io::{self, Write};

use serde::Serialize;
use weft_proto::v1::{self as proto, NotComparedReason};

use super::{Wanted, percent};
use crate::balance;
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Table, printable};

/// Asks, prints, and fails if there are differences or if a leaf could not be compared.
pub(super) async fn diff(wanted: Wanted, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let diff = Diff::new(match wanted.leaf {
        Some(leaf) => vec![one(leaf, dialog).await?],
        None => all(dialog).await?,
    });
    if !output::object(dialog.out, dialog.format, &diff)? {
        diff.print(dialog.out)?;
    }
    match diff.unmet() {
        None => Ok(()),
        Some(unmet) => Err(Failure::Unmet(unmet)),
    }
}

async fn one(leaf_name: String, dialog: &Dialog<'_>) -> Result<proto::LeafPlanDiff, Failure> {
    let mut client = dialog.connection.plans().await?;
    let call = client.get_leaf_plan_diff(proto::GetLeafPlanDiffRequest { leaf_name });
    let answer = dialog.connection.answer(call).await?;
    Ok(answer.resource.unwrap_or_default())
}

async fn all(dialog: &Dialog<'_>) -> Result<Vec<proto::LeafPlanDiff>, Failure> {
    let mut client = dialog.connection.plans().await?;
    let ask = async |page_token| {
        let request = proto::ListLeafPlanDiffsRequest {
            page_size: PAGE_SIZE,
            page_token,
        };
        let call = client.list_leaf_plan_diffs(request);
        let page = dialog.connection.answer(call).await?;
        Ok((page.leaf_plan_diffs, page.next_page_token))
    };
    dialog.connection.every(ask).await
}

#[derive(Serialize)]
struct Diff {
    revision: u64,
    leaves: Vec<Leaf>,
}

#[derive(Serialize)]
struct Leaf {
    leaf: String,
    mode: &'static str,
    unknown: String,
    prefixes: Vec<Prefix>,
    uplinks: Vec<Uplink>,
}

#[derive(Serialize)]
struct Prefix {
    prefix: String,
    to: String,
    own: Vec<NextHop>,
    planned: Vec<NextHop>,
    differs: bool,
}

#[derive(Serialize)]
struct NextHop {
    address: String,
    interface: String,
    weight: u32,
}

#[derive(Serialize)]
struct Uplink {
    interface: String,
    planned_ppm: u32,
    measured_ppm: Option<u32>,
    octets: u64,
}

impl Diff {
    fn differing(&self) -> usize {
        let prefixes = self.leaves.iter().flat_map(|leaf| &leaf.prefixes);
        prefixes.filter(|prefix| prefix.differs).count()
    }

    /// What keeps plan and routing from being known to be equal.
    fn unmet(&self) -> Option<String> {
        let differing = match self.differing() {
            0 => None,
            1 => Some("1 prefix differs".to_owned()),
            count => Some(format!("{count} prefixes differ")),
        };
        let unknown = self.leaves.iter().filter(|leaf| !leaf.unknown.is_empty());
        let unknown: Vec<_> = unknown.map(|leaf| printable(&leaf.leaf)).collect();
        let compared =
            (!unknown.is_empty()).then(|| format!("not compared: {}", unknown.join(", ")));
        let parts: Vec<_> = differing.into_iter().chain(compared).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let count = self.leaves.len();
        let leaves = if count == 1 { "leaf" } else { "leaves" };
        writeln!(out, "plan {}, {count} {leaves}", self.revision)?;
        for leaf in &self.leaves {
            leaf.print(out)?;
        }
        Ok(())
    }
}

impl Leaf {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let name = printable(&self.leaf);
        if !self.unknown.is_empty() {
            return writeln!(
                out,
                "\n{name} ({}): {}",
                self.mode,
                printable(&self.unknown)
            );
        }
        writeln!(out, "\n{name} ({})", self.mode)?;
        let rows: Vec<_> = self.prefixes.iter().map(Prefix::row).collect();
        Table::print(out, &["PREFIX", "TO", "OWN", "PLANNED", "DIFFERS"], &rows)?;
        let rows: Vec<_> = self.uplinks.iter().map(Uplink::row).collect();
        Table::print(out, &["UPLINK", "PLANNED", "MEASURED", "OCTETS"], &rows)
    }
}

impl Prefix {
    fn row(&self) -> Vec<String> {
        vec![
            self.prefix.clone(),
            self.to.clone(),
            shares(&self.own, "no route"),
            shares(&self.planned, "own routing"),
            if self.differs { "yes" } else { "no" }.to_owned(),
        ]
    }
}

impl Uplink {
    fn row(&self) -> Vec<String> {
        let measured = self.measured_ppm;
        vec![
            self.interface.clone(),
            percent(self.planned_ppm.into(), MILLION),
            measured.map_or_else(|| "-".to_owned(), |ppm| percent(ppm.into(), MILLION)),
            self.octets.to_string(),
        ]
    }
}

/// `eth1 25.0%, eth2 75.0%`.
fn shares(next_hops: &[NextHop], none: &str) -> String {
    if next_hops.is_empty() {
        return none.to_owned();
    }
    let parts = next_hops.iter().map(|it| u64::from(it.weight)).sum();
    let shares = next_hops.iter().map(|it| {
        let name = match it.interface.as_str() {
            "" => &it.address,
            _ => &it.interface,
        };
        format!("{name} {}", percent(it.weight.into(), parts))
    });
    shares.collect::<Vec<_>>().join(", ")
}

impl Diff {
    fn new(leaves: Vec<proto::LeafPlanDiff>) -> Self {
        Self {
            revision: leaves.first().map_or(0, proto::LeafPlanDiff::plan_revision),
            leaves: leaves.into_iter().map(Leaf::from).collect(),
        }
    }
}

impl From<proto::LeafPlanDiff> for Leaf {
    fn from(leaf: proto::LeafPlanDiff) -> Self {
        Self {
            mode: balance::name(leaf.mode()),
            unknown: unknown(leaf.not_compared_reason()).to_owned(),
            leaf: leaf.leaf_name,
            prefixes: leaf.prefixes.into_iter().map(Prefix::from).collect(),
            uplinks: leaf.uplinks.into_iter().map(Uplink::from).collect(),
        }
    }
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

impl From<proto::PrefixDiff> for Prefix {
    fn from(prefix: proto::PrefixDiff) -> Self {
        let next_hops = |all: Vec<proto::WeightedNextHop>| {
            let all = all.into_iter().map(|it| NextHop {
                address: it.address.unwrap_or_default(),
                interface: it.interface_name,
                weight: it.weight,
            });
            all.collect()
        };
        Self {
            prefix: prefix.prefix,
            to: prefix.destination_switch_name,
            own: next_hops(prefix.own_next_hops),
            planned: next_hops(prefix.planned_next_hops),
            differs: prefix.differs,
        }
    }
}

impl From<proto::UplinkShare> for Uplink {
    fn from(uplink: proto::UplinkShare) -> Self {
        Self {
            interface: uplink.interface_name,
            planned_ppm: uplink.planned_ppm,
            measured_ppm: uplink.measured_ppm,
            octets: uplink.octets,
        }
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
        let diff = Diff::new(answer());
        let mut out = Vec::new();
        diff.print(&mut out).unwrap();
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
        assert_eq!(diff.differing(), 1);
    }

    #[test]
    fn a_leaf_of_which_nothing_is_known_is_not_as_planned() {
        let mut diff = Diff::new(answer());
        let expected = "1 prefix differs; not compared: leaf2";
        assert_eq!(diff.unmet().as_deref(), Some(expected));
        diff.leaves[0].prefixes.clear();
        assert_eq!(diff.unmet().as_deref(), Some("not compared: leaf2"));
        diff.leaves[1].unknown.clear();
        assert_eq!(diff.unmet(), None);
    }
}
