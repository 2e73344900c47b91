//! `weft plan diff`: what a leaf's own routing has beside what weft plans, and what its uplinks carry.

use std::io::{self, Write};

use serde::Serialize;
use weft_proto::operator::v1 as proto;

use super::{Wanted, percent};
use crate::balance;
use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{self, Table, printable};

/// Asks, prints, and fails if there are differences or if a leaf could not be compared.
pub(super) async fn diff(wanted: Wanted, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.operator().await?;
    let leaf = wanted.leaf.unwrap_or_default();
    let call = client.diff_plan(proto::DiffPlanRequest { leaf });
    let diff = Diff::from(dialog.connection.answer(call).await?);
    if !output::object(dialog.out, dialog.format, &diff)? {
        diff.print(dialog.out)?;
    }
    match diff.unmet() {
        None => Ok(()),
        Some(unmet) => Err(Failure::Unmet(unmet)),
    }
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

impl From<proto::PlanDiff> for Diff {
    fn from(diff: proto::PlanDiff) -> Self {
        Self {
            revision: diff.revision,
            leaves: diff.leaves.into_iter().map(Leaf::from).collect(),
        }
    }
}

impl From<proto::LeafDiff> for Leaf {
    fn from(leaf: proto::LeafDiff) -> Self {
        let mode = balance::name(leaf.mode());
        Self {
            leaf: leaf.leaf,
            mode,
            unknown: leaf.unknown,
            prefixes: leaf.prefixes.into_iter().map(Prefix::from).collect(),
            uplinks: leaf.uplinks.into_iter().map(Uplink::from).collect(),
        }
    }
}

impl From<proto::PrefixDiff> for Prefix {
    fn from(prefix: proto::PrefixDiff) -> Self {
        let next_hops = |all: Vec<proto::WeightedNextHop>| {
            let all = all.into_iter().map(|it| NextHop {
                address: it.address,
                interface: it.interface,
                weight: it.weight,
            });
            all.collect()
        };
        Self {
            prefix: prefix.prefix,
            to: prefix.to,
            own: next_hops(prefix.own),
            planned: next_hops(prefix.planned),
            differs: prefix.differs,
        }
    }
}

impl From<proto::UplinkShare> for Uplink {
    fn from(uplink: proto::UplinkShare) -> Self {
        Self {
            interface: uplink.interface,
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

    pub(super) fn answer() -> proto::PlanDiff {
        let next_hop = |interface: &str, weight| proto::WeightedNextHop {
            address: "192.0.2.1".to_owned(),
            interface: interface.to_owned(),
            weight,
        };
        let uplink = |interface: &str, planned_ppm, measured_ppm, octets| proto::UplinkShare {
            interface: interface.to_owned(),
            planned_ppm,
            measured_ppm,
            octets,
        };
        proto::PlanDiff {
            revision: 7,
            leaves: vec![
                proto::LeafDiff {
                    leaf: "leaf1".to_owned(),
                    mode: proto::BalanceMode::Shadow.into(),
                    prefixes: vec![proto::PrefixDiff {
                        prefix: "198.51.100.2/32".to_owned(),
                        to: "leaf2".to_owned(),
                        own: vec![next_hop("eth1", 1), next_hop("eth2", 1)],
                        planned: vec![next_hop("eth1", 1), next_hop("eth2", 3)],
                        differs: true,
                    }],
                    uplinks: vec![
                        uplink("eth1", 250_000, Some(499_600), 1_000),
                        uplink("eth2", 750_000, None, 0),
                    ],
                    ..proto::LeafDiff::default()
                },
                proto::LeafDiff {
                    leaf: "leaf2".to_owned(),
                    mode: proto::BalanceMode::Off.into(),
                    unknown: "no weft-agent there says what its own routing has".to_owned(),
                    ..proto::LeafDiff::default()
                },
            ],
        }
    }

    #[test]
    fn own_routing_stands_beside_the_plan() {
        let diff = Diff::from(answer());
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
        let mut diff = Diff::from(answer());
        let expected = "1 prefix differs; not compared: leaf2";
        assert_eq!(diff.unmet().as_deref(), Some(expected));
        diff.leaves[0].prefixes.clear();
        assert_eq!(diff.unmet().as_deref(), Some("not compared: leaf2"));
        diff.leaves[1].unknown.clear();
        assert_eq!(diff.unmet(), None);
    }
}
