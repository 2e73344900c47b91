//! Which next hops, groups and prefixes of the RIB the kernel can have now, and why not the others.
//! Reads what was observed and changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::Fib;
use super::ids::{HALF, QUARTER};
use crate::entry::{Key, NextHop};
use crate::forwarding::{Family, Link, Member, OwnHop, OwnRoute, Path, WEIGHT_MAX};
use crate::rib::Rib;

/// Why an entry is in the RIB and not in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Nothing is wrong with it: a link is down or missing. It comes back by itself.
    Inactive(String),
    /// The kernel has no way to do it.
    Refused(String),
}

/// What becomes of a prefix that is programmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// The prefix is left to the switch's own routing; why.
    Bypassed(String),
    /// Packets to the prefix go by a group of weft's.
    By {
        /// By the next hops of this group: its own, or the backup of that.
        group: u64,
        /// Why not by all of its own; `None`: by all.
        partly: Option<String>,
    },
}

impl Fib {
    pub(super) fn next_hop(&self, index: u64, rib: &Rib) -> Result<(u32, Path), Unusable> {
        let key = Key::NextHop(index);
        let next_hop = rib.next_hop(index).ok_or_else(|| absent(key))?;
        let id = self.ids.id(key).ok_or_else(|| too_large(key))?;
        let link = resolve(&self.links, next_hop)?;
        if !link.up {
            return Err(Unusable::Inactive(format!(
                "interface {} is down",
                link.name
            )));
        }
        let gateway = match (next_hop.address, &next_hop.interface) {
            (Some(declared), Some(_)) => Some(self.gateway(declared, link.index)),
            (Some(declared), None) => Some(declared),
            (None, _) => self.neighbour(link)?,
        };
        let interface = link.index;
        Ok((id, Path { gateway, interface }))
    }

    /// The address of a next hop on a link that it names. Where the switch's own routing does not use the
    /// declared one, and knows one neighbour only behind the interface, by an IPv6 link-local address (BGP
    /// unnumbered), it is that one: packets go where the switch itself sends them.
    fn gateway(&self, declared: IpAddr, interface: u32) -> IpAddr {
        let key = (Family::of(declared.into()), interface);
        let mut used = self.gateways.get(&key).into_iter().flatten();
        match (used.next(), used.next()) {
            (Some(IpAddr::V6(only)), None) if only.is_unicast_link_local() => (*only).into(),
            _ => declared,
        }
    }

    /// The one neighbour that the switch's own routing has behind an interface, whatever its address. None: it has no
    /// neighbour there, and the destination itself is on the link. Where IPv4 and IPv6 have neighbours of their own, IPv4's
    /// counts: VTEPs have IPv4 addresses.
    fn neighbour(&self, link: &Link) -> Result<Option<IpAddr>, Unusable> {
        let of = |family| self.gateways.get(&(family, link.index));
        let known = of(Family::V4).filter(|known| !known.is_empty());
        let mut known = known.or_else(|| of(Family::V6)).into_iter().flatten();
        match (known.next(), known.next()) {
            (Some(first), Some(second)) => Err(Unusable::Inactive(format!(
                "the switch's own routing has several neighbours behind interface {}: {first} and {second}",
                link.name
            ))),
            (first, _) => Ok(first.copied()),
        }
    }

    pub(super) fn group(&self, group: u64, rib: &Rib) -> Result<(u32, Vec<Member>), Unusable> {
        let key = Key::Group(group);
        let entry = rib.group(group).ok_or_else(|| absent(key))?;
        let id = self.ids.id(key).ok_or_else(|| too_large(key))?;
        let mut members = Vec::with_capacity(entry.members.len());
        let mut why = None;
        for (index, weight) in &entry.members {
            let weight = usable_weight(*index, *weight)?;
            match self.next_hop(*index, rib) {
                Ok((next_hop, _)) if self.expected.next_hops.contains_key(&next_hop) => {
                    members.push(Member { next_hop, weight });
                }
                Ok(_) => {
                    why = Some(Unusable::Inactive(format!(
                        "the kernel refused next hop {index}"
                    )))
                }
                Err(unusable) => why = Some(unusable),
            }
        }
        match why {
            Some(Unusable::Inactive(why) | Unusable::Refused(why)) if members.is_empty() => {
                let why = format!("no next hop of the group is usable: {why}");
                Err(Unusable::Inactive(why))
            }
            Some(_) | None => Ok((id, members)),
        }
    }

    /// Which next hops of its group the switch's own routing has for a prefix too.
    pub(super) fn usable(&self, prefix: IpNet, rib: &Rib) -> Result<Usable, Unusable> {
        let entry = rib
            .prefix(prefix)
            .ok_or_else(|| absent(Key::Prefix(prefix)))?;
        self.usable_of(entry.group, prefix, rib)
    }

    /// Which next hops of a group the switch's own routing has for a prefix too.
    pub(super) fn usable_of(
        &self,
        group: u64,
        prefix: IpNet,
        rib: &Rib,
    ) -> Result<Usable, Unusable> {
        self.usable_by(group, self.own_route(prefix)?, rib)
    }

    /// The route of the switch's own routing to a prefix; None: there is no such routing, and all is allowed.
    pub(super) fn own_route(&self, prefix: IpNet) -> Result<Option<&OwnRoute>, Unusable> {
        if prefix.prefix_len() == prefix.max_prefix_len() && self.addresses.contains(&prefix.addr())
        {
            let why = format!("{} is an address of this switch itself", prefix.addr());
            return Err(Unusable::Inactive(why));
        }
        self.own.route(prefix).map_err(Unusable::Inactive)
    }

    /// Which next hops of a group a route of the switch's own routing has too; if none, which of its backup.
    pub(super) fn usable_by(
        &self,
        group: u64,
        own: Option<&OwnRoute>,
        rib: &Rib,
    ) -> Result<Usable, Unusable> {
        let unusable = match self.usable_itself(group, own, rib) {
            Ok(usable) => return Ok(usable),
            Err(unusable) => unusable,
        };
        let backup = rib.group(group).and_then(|group| group.backup);
        backup
            .and_then(|backup| self.usable_itself(backup, own, rib).ok())
            .ok_or(unusable)
    }

    fn usable_itself(
        &self,
        group: u64,
        own: Option<&OwnRoute>,
        rib: &Rib,
    ) -> Result<Usable, Unusable> {
        let (_, mut usable) = self.group(group, rib).map_err(|unusable| {
            let (Unusable::Inactive(why) | Unusable::Refused(why)) = unusable;
            Unusable::Inactive(format!(
                "next-hop group {group} is not in the kernel: {why}"
            ))
        })?;
        let members = rib.group(group).ok_or_else(|| absent(Key::Group(group)))?;
        let members = members.members.iter().map(|(index, _)| *index);
        // A next hop whose link is down stays: the link says so by itself, for all prefixes.
        let denied: BTreeSet<u64> = match own {
            Some(own) => {
                let denied = |index: &u64| match self.next_hop(*index, rib) {
                    Ok((_, path)) => !own.uses(path.gateway, path.interface),
                    Err(_) => false,
                };
                members.filter(denied).collect()
            }
            None => BTreeSet::new(),
        };
        let whole = denied.is_empty();
        usable.retain(|member| match self.ids.key(member.next_hop) {
            Some(Key::NextHop(index)) => !denied.contains(&index),
            _ => false,
        });
        if usable.is_empty() {
            return Err(Unusable::Inactive(format!(
                "the switch's own routing uses none of the next hops of group {group}"
            )));
        }
        Ok(Usable {
            group,
            whole,
            members: usable,
        })
    }
}

/// Which parts of groups prefixes use, as it was found for the last prefix of each group: most prefixes of a group have the same
/// route of the switch's own routing. It holds as long as no next hop and no group changes.
#[derive(Debug, Default)]
pub struct Found(BTreeMap<u64, (Vec<OwnHop>, Result<Usable, Unusable>)>);

impl Found {
    /// As [`Fib::usable`].
    pub(super) fn usable(
        &mut self,
        fib: &Fib,
        prefix: IpNet,
        rib: &Rib,
    ) -> Result<Usable, Unusable> {
        let entry = rib.prefix(prefix);
        let group = entry.ok_or_else(|| absent(Key::Prefix(prefix)))?.group;
        // Without a routing of its own there is no route for any prefix.
        let own = fib.own_route(prefix)?;
        let hops = own.map_or(&[][..], |own| &own.hops);
        match self.0.get(&group) {
            Some((of, usable)) if of == hops => usable.clone(),
            Some(_) | None => {
                let usable = fib.usable_by(group, own, rib);
                self.0.insert(group, (hops.to_vec(), usable.clone()));
                usable
            }
        }
    }
}

/// The part of a group that a prefix may use.
#[derive(Clone, Debug)]
pub(super) struct Usable {
    /// The prefix's group, or the backup of that.
    pub(super) group: u64,
    /// Nothing of the group is left out but for links that are down.
    pub(super) whole: bool,
    pub(super) members: Vec<Member>,
}

/// The link of a next hop: the named one, or the one with the longest connected subnet that has
/// the address, those that are up first.
fn resolve<'a>(links: &'a [Link], next_hop: &NextHop) -> Result<&'a Link, Unusable> {
    if let Some(name) = &next_hop.interface {
        return links
            .iter()
            .find(|link| link.name == *name)
            .ok_or_else(|| Unusable::Inactive(format!("there is no interface {name}")));
    }
    let address = next_hop.address.ok_or_else(|| absent(Key::NextHop(0)))?;
    links
        .iter()
        .filter_map(|link| Some((link.up, connected(link, address)?, link)))
        .max_by_key(|(up, len, _)| (*up, *len))
        .map(|(_, _, link)| link)
        .ok_or_else(|| Unusable::Inactive(format!("{address} is on no connected subnet")))
}

/// The length of the longest subnet of the link that has the neighbour's address.
fn connected(link: &Link, neighbour: IpAddr) -> Option<u8> {
    let subnets = link.addresses.iter();
    let on_link =
        subnets.filter(|subnet| subnet.contains(&neighbour) && subnet.addr() != neighbour);
    on_link.map(IpNet::prefix_len).max()
}

pub(super) fn absent(key: Key) -> Unusable {
    Unusable::Inactive(format!("there is no {key}"))
}

fn too_large(key: Key) -> Unusable {
    Unusable::Refused(format!(
        "the number of {key} is above {}, the last of the agent's id range",
        match key {
            Key::NextHop(_) => HALF - 1,
            Key::Group(_) | Key::Prefix(_) | Key::Policy(_) => QUARTER - 1,
        }
    ))
}

fn usable_weight(index: u64, weight: u64) -> Result<u16, Unusable> {
    let fits = u16::try_from(weight).ok();
    fits.filter(|weight| (1..=WEIGHT_MAX).contains(weight))
        .ok_or_else(|| {
            Unusable::Refused(format!(
                "weight {weight} of next hop {index} is not in 1..={WEIGHT_MAX}"
            ))
        })
}
