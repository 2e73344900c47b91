//! A plan: per leaf and remote VTEP the next hops, their weights and why; as intent and as text.
//!
//! It refuses to know how it was made and how it is sent.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;
use weft_proto::operator::v1;
use weft_weights::explain::{Exclusion, Reason};

use crate::fabric::topology::{LinkName, SwitchName};
use crate::southbound::intent::{Intent, Members, Mode, NextHop, Routes, SwitchIntent};

/// How every leaf spreads what it sends.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Plan {
    /// Grows with every plan that differs from the one before; 0 for none.
    pub revision: u64,
    /// Every leaf of the topology.
    pub leaves: BTreeMap<SwitchName, LeafPlan>,
}

/// How one leaf spreads what it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafPlan {
    /// `host:port` of its gRIBI server; None if weft does not program it.
    pub agent: Option<Arc<str>>,
    /// By the host prefix of the remote VTEP.
    pub entries: BTreeMap<IpNet, Entry>,
}

/// How one leaf spreads what it sends to one VTEP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The leaf that has the VTEP.
    pub to: SwitchName,
    /// In order of the names of the links. Empty when nothing alive leads there: the entry is not programmed then.
    pub members: Vec<Member>,
    /// The uplinks that carry no part.
    pub excluded: Vec<Excluded>,
    /// The sum of the weights.
    pub parts: u32,
    /// How far rounding overloads the worst member, in millionths: 1,000,000 is exact.
    pub delta_ppm: u64,
}

/// A next hop with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where to send.
    pub next_hop: NextHop,
    /// The switch there.
    pub via: SwitchName,
    /// The link to it.
    pub link: LinkName,
    /// At least 1.
    pub weight: u32,
    /// Why.
    pub reason: Reason,
}

/// An uplink without a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excluded {
    /// The link.
    pub link: LinkName,
    /// Why.
    pub reason: Exclusion,
}

impl Plan {
    /// What the leaves with a gRIBI server should have, in the mode that `mode` says for each.
    pub fn intent(&self, mode: impl Fn(&SwitchName) -> Mode) -> Intent {
        let switches = self.leaves.iter().filter_map(|(leaf, plan)| {
            let prefixes = plan.entries.iter();
            let routes = Routes {
                prefixes: prefixes
                    .map(|(prefix, entry)| (*prefix, Arc::new(entry.weights())))
                    .collect(),
            };
            let intent = SwitchIntent {
                agent: plan.agent.clone()?,
                mode: mode(leaf),
                routes: Arc::new(routes),
            };
            Some((leaf.clone(), intent))
        });
        Intent {
            revision: self.revision,
            switches: switches.collect(),
        }
    }

    /// As the operator's API shows it, of one leaf or of all.
    pub fn to_message(&self, leaf: Option<&SwitchName>) -> v1::Plan {
        let entries = self
            .leaves
            .iter()
            .filter(|(name, _)| leaf.is_none_or(|leaf| leaf == *name))
            .flat_map(|(name, plan)| {
                plan.entries
                    .iter()
                    .map(|(prefix, entry)| entry.to_message(name, prefix))
            });
        v1::Plan {
            revision: self.revision,
            entries: entries.collect(),
        }
    }
}

impl Entry {
    /// The weight of each next hop.
    pub fn weights(&self) -> Members {
        self.members
            .iter()
            .map(|member| (member.next_hop.clone(), member.weight))
            .collect()
    }

    /// Why these shares, in words: what is used, how exact it is, what is not used.
    pub fn reason(&self) -> String {
        let uplinks = self.members.len() + self.excluded.len();
        let mut reason = if self.members.is_empty() {
            format!("no live way over {uplinks} uplinks: the switch's own routing decides")
        } else {
            format!(
                "{} over {} of {uplinks} uplinks",
                parts(self.parts),
                self.members.len()
            )
        };
        if self.delta_ppm > 1_000_000 {
            let tenths = (self.delta_ppm - 1_000_000).div_ceil(1_000);
            reason += &format!(
                ", rounding gives a member {}.{} % too much",
                tenths / 10,
                tenths % 10
            );
        }
        for excluded in &self.excluded {
            reason += &format!("; {}: {}", excluded.link, excluded.reason);
        }
        reason
    }

    fn to_message(&self, leaf: &SwitchName, prefix: &IpNet) -> v1::PlanEntry {
        let members = self.members.iter().map(|member| v1::PlanMember {
            next_hop: member.next_hop.address.to_string(),
            interface: member.next_hop.interface.to_string(),
            via: member.via.to_string(),
            weight: member.weight,
            reason: member.reason.to_string(),
        });
        v1::PlanEntry {
            leaf: leaf.to_string(),
            to: self.to.to_string(),
            prefix: prefix.to_string(),
            members: members.collect(),
            reason: self.reason(),
        }
    }
}

fn parts(count: u32) -> String {
    match count {
        1 => "1 part".to_owned(),
        count => format!("{count} parts"),
    }
}

impl fmt::Display for Plan {
    /// One line per entry and one per member.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan {}", self.revision)?;
        for (leaf, plan) in &self.leaves {
            for (prefix, entry) in &plan.entries {
                writeln!(f, "{leaf} to {} ({prefix}): {}", entry.to, entry.reason())?;
                for member in &entry.members {
                    writeln!(
                        f,
                        "  {:>3}  {} by {} over {}: {}",
                        member.weight,
                        member.via,
                        member.next_hop.address,
                        member.next_hop.interface,
                        member.reason
                    )?;
                }
            }
        }
        Ok(())
    }
}
