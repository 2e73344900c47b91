//! The plan of one leaf: per remote VTEP the next hops, their weights and why; as routes and as text.
//!
//! It refuses to know how it was made and how it is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use weft_proto::v1;
use weft_weights::explain::{Exclusion, Reason};
use weft_weights::traffic::Utilization;

use crate::fabric::live::Unusable;
use crate::fabric::topology::{LinkName, SwitchName};
use crate::southbound::intent::NextHop;

/// How one leaf spreads what it sends.
#[derive(Clone, Debug, PartialEq)]
pub struct LeafPlan {
    /// `host:port` of its gRIBI server; None if weft does not program it.
    pub agent: Option<Arc<str>>,
    /// By the host prefix of the remote VTEP.
    pub entries: BTreeMap<IpNet, Entry>,
}

/// How one leaf spreads what it sends to one VTEP.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The leaf that has the VTEP.
    pub to: SwitchName,
    /// In order of the names of the links. Empty when nothing alive leads there: the entry is not programmed then.
    pub members: Vec<Member>,
    /// The uplinks that carry no part.
    pub excluded: Vec<Excluded>,
    /// Uplinks without a part that carry everything while no member is usable.
    pub backups: Vec<Backup>,
    /// The sum of the weights.
    pub parts: u32,
    /// How far rounding overloads the worst member, in millionths: 1,000,000 is exact.
    pub delta_ppm: u64,
    /// How busy the busiest link is, where the weights follow from what jobs are known to send, or why they do not. None: they are by
    /// capacity, as nothing is known to be sent, others are no better, or they were not looked for yet.
    pub by_demand: Option<Result<Utilization, Arc<str>>>,
    /// An uplink without an address of a leaf where no weft-agent finds the neighbour by the interface: the entry has no members then.
    pub unresolved: Option<LinkName>,
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

/// A next hop that is used while no member is usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Where to send.
    pub next_hop: NextHop,
    /// The switch there.
    pub via: SwitchName,
    /// At least 1.
    pub weight: u32,
    /// Why it is no member.
    pub reason: String,
}

/// An uplink without a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excluded {
    /// The link.
    pub link: LinkName,
    /// Why.
    pub reason: Exclusion,
    /// Who says so of which link.
    pub seen: Option<Unusable>,
}

impl Excluded {
    /// Whether nobody says that it leads to the destination, and nobody that it does not.
    fn is_unconfirmed(&self) -> bool {
        self.seen.as_ref().is_some_and(Unusable::is_unconfirmed)
    }

    /// Why it carries no part, in words.
    pub(super) fn why(&self) -> String {
        let why = self.reason;
        let Some(seen) = &self.seen else {
            return why.to_string();
        };
        match why {
            // Nobody says that it is down.
            Exclusion::LinkDown if self.is_unconfirmed() => format!("not used: {seen}"),
            Exclusion::NoWayOn if self.is_unconfirmed() => format!(
                "not used: the next switch has no confirmed link towards the destination ({seen})"
            ),
            Exclusion::LinkDown | Exclusion::NoWayOn | Exclusion::TooSmall { .. } => {
                format!("{why} ({seen})")
            }
        }
    }
}

impl LeafPlan {
    /// As the API shows it.
    pub fn to_messages(&self) -> impl Iterator<Item = v1::PlanEntry> {
        let entries = self.entries.iter();
        entries.map(|(prefix, entry)| entry.to_message(prefix))
    }
}

impl Entry {
    /// Why these shares, in words: what is used, how exact it is, what is not used.
    pub fn reason(&self) -> String {
        let uplinks = self.members.len() + self.excluded.len();
        let mut reason = if let Some(link) = &self.unresolved {
            format!(
                "{link} has no address, and no weft-agent answers that would find the neighbour by the interface: \
                 the switch's own routing decides"
            )
        } else if self.members.is_empty() {
            let kind = match self.excluded.iter().any(Excluded::is_unconfirmed) {
                true => "confirmed",
                false => "live",
            };
            format!("no {kind} way over {uplinks} uplinks: the switch's own routing decides")
        } else {
            format!(
                "{} over {} of {uplinks} uplinks",
                parts(self.parts),
                self.members.len()
            )
        };
        if !self.backups.is_empty() {
            let via: BTreeSet<&str> = self.backups.iter().map(|it| it.via.as_str()).collect();
            let via: Vec<_> = via.into_iter().collect();
            reason += &format!(", with {} as backup", via.join(", "));
        }
        if self.delta_ppm > 1_000_000 {
            let tenths = (self.delta_ppm - 1_000_000).div_ceil(1_000);
            reason += &format!(
                ", rounding gives a member {}.{} % too much",
                tenths / 10,
                tenths % 10
            );
        }
        match &self.by_demand {
            Some(Ok(utilization)) => {
                let percent = |share: f64| share * 100.0;
                reason += &format!(
                    ", by what jobs are known to send: the busiest link carries {:.1} % of its capacity, {:.1} % with weights by capacity",
                    percent(utilization.weights),
                    percent(utilization.capacity_weights)
                );
            }
            Some(Err(why)) if !self.members.is_empty() => {
                reason += &format!(", by capacity, not by what jobs are known to send: {why}");
            }
            Some(Err(_)) | None => {}
        }
        for excluded in &self.excluded {
            let is_small = matches!(excluded.reason, Exclusion::TooSmall { .. });
            let why = match is_small && self.is_by_demand() {
                true => "no part, others have more room".to_owned(),
                false => excluded.why(),
            };
            reason += &format!("; {}: {why}", excluded.link);
        }
        reason
    }

    fn is_by_demand(&self) -> bool {
        matches!(self.by_demand, Some(Ok(_)))
    }

    /// As the API shows it.
    pub fn to_message(&self, prefix: &IpNet) -> v1::PlanEntry {
        let member = |next_hop: &NextHop, via: &SwitchName, weight, reason| v1::PlanMember {
            next_hop: next_hop
                .address
                .map(|address| address.to_string())
                .unwrap_or_default(),
            interface_name: next_hop.interface.to_string(),
            neighbor_switch_name: via.to_string(),
            weight,
            reason,
        };
        let members = self.members.iter().map(|it| {
            let reason = match self.is_by_demand() {
                true => format!("by what jobs are known to send; {}", it.reason),
                false => it.reason.to_string(),
            };
            member(&it.next_hop, &it.via, it.weight, reason)
        });
        let backups = self.backups.iter();
        let backups = backups.map(|it| member(&it.next_hop, &it.via, it.weight, it.reason.clone()));
        v1::PlanEntry {
            destination_switch_name: self.to.to_string(),
            prefix: prefix.to_string(),
            members: members.collect(),
            reason: self.reason(),
            backup_members: backups.collect(),
        }
    }
}

fn parts(count: u32) -> String {
    match count {
        1 => "1 part".to_owned(),
        count => format!("{count} parts"),
    }
}
