//! From messages of a dump to the agent's words. Knows no socket.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteNextHopFlags, RouteType, RouteVia,
};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};

use super::nexthop::{Attribute, NextHopMessage};
use super::{METRIC, priority};
use crate::forwarding::kernel::Numbers;
use crate::forwarding::{
    Counters, Family, Installed, Interface, Link, Member, OperStatus, OwnHop, OwnRoute, Path,
    PauseFrames, Slot,
};

/// All next-hop objects of the switch, of whoever made them.
#[derive(Debug, Default)]
pub(super) struct Objects {
    next_hops: BTreeMap<u32, (u8, Path)>,
    groups: BTreeMap<u32, (u8, Vec<Member>)>,
    /// Next hops whose link is down.
    dead: BTreeSet<u32>,
}

impl Objects {
    /// Adds a next hop or a group.
    pub(super) fn collect(&mut self, message: NextHopMessage) {
        let (protocol, flags) = (message.protocol, message.flags);
        let (mut id, mut group, mut interface, mut gateway) = (None, None, None, None);
        for attribute in message.attributes {
            match attribute {
                Attribute::Id(value) => id = Some(value),
                Attribute::Group(members) => group = Some(members),
                Attribute::Interface(index) => interface = Some(index),
                Attribute::Gateway(address) => gateway = Some(address),
                Attribute::Unknown(_) => {}
            }
        }
        match (id, group, interface) {
            (Some(id), Some(members), _) => drop(self.groups.insert(id, (protocol, members))),
            (Some(id), None, Some(interface)) => {
                let path = Path { gateway, interface };
                self.next_hops.insert(id, (protocol, path));
                if flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN) != 0 {
                    self.dead.insert(id);
                }
            }
            (_, _, _) => {}
        }
    }

    /// Adds those of one protocol number to what is installed.
    pub(super) fn install(&self, protocol: u8, installed: &mut Installed) {
        let ours = |made_by: &u8| *made_by == protocol;
        for (id, (_, path)) in self.next_hops.iter().filter(|(_, (by, _))| ours(by)) {
            installed.next_hops.insert(*id, path.clone());
        }
        for (id, (_, members)) in self.groups.iter().filter(|(_, (by, _))| ours(by)) {
            installed.groups.insert(*id, members.clone());
        }
    }

    /// Where a route by this object sends packets.
    fn hops(&self, id: u32) -> Vec<OwnHop> {
        let alive = |id: u32| {
            let (_, path) = self.next_hops.get(&id)?;
            (!self.dead.contains(&id)).then(|| path.clone())
        };
        let hop = |id, weight| {
            let path = alive(id)?;
            Some(OwnHop { path, weight })
        };
        match self.groups.get(&id) {
            Some((_, members)) => members
                .iter()
                .filter_map(|member| hop(member.next_hop, member.weight))
                .collect(),
            None => hop(id, 1).into_iter().collect(),
        }
    }
}

/// A route of the agent's table.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InTable {
    /// The agent's, with its group.
    Ours(IpNet, u32),
    /// Somebody else's.
    Foreign(IpNet),
}

/// Reads a route of the agent's table, and tells the agent's from those of others.
pub(super) fn read_route(message: &RouteMessage, numbers: Numbers) -> Option<InTable> {
    let (mut group, mut metric) = (None, 0);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::NhId(id) => group = Some(*id),
            RouteAttribute::Priority(value) => metric = *value,
            _ => {}
        }
    }
    let ours = u8::from(message.header.protocol) == numbers.protocol && metric == METRIC;
    let prefix = prefix(message)?;
    Some(match group {
        Some(group) if ours => InTable::Ours(prefix, group),
        _ => InTable::Foreign(prefix),
    })
}

/// A route of the main table. Routes of the agent's own protocol number do not count, nor do those
/// for one type of service only.
pub(super) fn read_own(
    message: &RouteMessage,
    numbers: Numbers,
    objects: &Objects,
) -> Option<(IpNet, OwnRoute)> {
    if u8::from(message.header.protocol) == numbers.protocol || message.header.tos != 0 {
        return None;
    }
    let prefix = prefix(message)?;
    let (mut object, mut metric, mut hops) = (None, 0, Vec::new());
    let (mut interface, mut gateway) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::NhId(id) => object = Some(*id),
            RouteAttribute::Priority(value) => metric = *value,
            RouteAttribute::Oif(index) => interface = Some(*index),
            RouteAttribute::MultiPath(paths) => {
                for path in paths.iter().filter(|path| alive(path.flags)) {
                    let gateway = path.attributes.iter().find_map(read_gateway);
                    let interface = path.interface_index;
                    hops.push(OwnHop {
                        path: Path { gateway, interface },
                        weight: u16::from(path.hops) + 1,
                    });
                }
            }
            other => gateway = read_gateway(other).or(gateway),
        }
    }
    let flags = u8::try_from(message.header.flags.bits() & 0xff).unwrap_or(0);
    match (object, interface) {
        (Some(id), _) => hops = objects.hops(id),
        (None, Some(interface))
            if hops.is_empty() && alive(RouteNextHopFlags::from_bits_retain(flags)) =>
        {
            hops.push(OwnHop {
                path: Path { gateway, interface },
                weight: 1,
            });
        }
        (None, _) => {}
    }
    if message.header.kind != RouteType::Unicast {
        hops.clear();
    }
    Some((prefix, OwnRoute { metric, hops }))
}

fn alive(flags: RouteNextHopFlags) -> bool {
    !flags.intersects(RouteNextHopFlags::Dead | RouteNextHopFlags::Linkdown)
}

fn read_gateway(attribute: &RouteAttribute) -> Option<IpAddr> {
    match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(address)) => Some((*address).into()),
        RouteAttribute::Gateway(RouteAddress::Inet6(address)) => Some((*address).into()),
        RouteAttribute::Via(RouteVia::Inet(address)) => Some((*address).into()),
        RouteAttribute::Via(RouteVia::Inet6(address)) => Some((*address).into()),
        _ => None,
    }
}

fn prefix(message: &RouteMessage) -> Option<IpNet> {
    let given = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
            _ => None,
        });
    // The default route has no destination.
    let address = given.unwrap_or(match message.header.address_family {
        AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    });
    IpNet::new(address, message.header.destination_prefix_length).ok()
}

/// Whether a rule has the agent's protocol number.
pub(super) fn is_ours(message: &RuleMessage, numbers: Numbers) -> bool {
    let protocol = RuleAttribute::Protocol(numbers.protocol.into());
    message.attributes.contains(&protocol)
}

/// The slot and the family of a rule that is as the agent puts it.
pub(super) fn read_rule(message: &RuleMessage, numbers: Numbers) -> Option<(Slot, Family)> {
    let given = message.attributes.iter();
    let table = given.fold(u32::from(message.header.table), |table, it| match it {
        RuleAttribute::Table(value) => *value,
        _ => table,
    });
    let slot = numbers.slot_of(table)?;
    let (mark, mask) = numbers.mark_of(slot);
    let wanted = [
        RuleAttribute::Priority(priority(slot, numbers)),
        RuleAttribute::FwMark(mark),
        RuleAttribute::FwMask(mask),
    ];
    let right = is_ours(message, numbers)
        && wanted
            .iter()
            .all(|wanted| message.attributes.contains(wanted));
    match message.header.family {
        AddressFamily::Inet if right => Some((slot, Family::V4)),
        AddressFamily::Inet6 if right => Some((slot, Family::V6)),
        _ => None,
    }
}

/// The table that a route is in.
pub(super) fn table(message: &RouteMessage) -> Option<u32> {
    let given = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Table(table) => Some(*table),
            _ => None,
        });
    given.or_else(|| Some(message.header.table.into()))
}

/// A link, without its addresses.
pub(super) fn read_link(message: LinkMessage) -> Option<Link> {
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        up: is_up(&message),
        addresses: Vec::new(),
        vxlan: false,
        vni: None,
        tx_octets: 0,
        rx_octets: 0,
    };
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::LinkInfo(infos) => {
                link.vxlan = infos.contains(&LinkInfo::Kind(InfoKind::Vxlan));
                link.vni = infos.iter().find_map(vni);
            }
            LinkAttribute::Stats64(stats) => {
                link.tx_octets = stats.tx_bytes;
                link.rx_octets = stats.rx_bytes;
            }
            _ => {}
        }
    }
    if link.name.is_empty() {
        None
    } else {
        Some(link)
    }
}

/// A link as telemetry shows it.
pub(super) fn read_interface(message: LinkMessage) -> Option<Interface> {
    let mut interface = Interface {
        index: message.header.index,
        name: String::new(),
        admin_up: message.header.flags.contains(LinkFlags::Up),
        up: is_up(&message),
        oper: OperStatus::Unknown,
        mtu: 0,
        counters: Counters::default(),
        pause: PauseFrames::default(),
    };
    let counters = &mut interface.counters;
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name = name,
            LinkAttribute::Mtu(mtu) => interface.mtu = mtu,
            LinkAttribute::OperState(state) => interface.oper = oper_status(state),
            LinkAttribute::CarrierChanges(changes) => {
                counters.carrier_transitions = changes.into();
            }
            LinkAttribute::Stats64(stats) => {
                *counters = Counters {
                    in_octets: stats.rx_bytes,
                    in_pkts: stats.rx_packets,
                    in_errors: stats.rx_errors,
                    in_discards: stats.rx_dropped,
                    out_octets: stats.tx_bytes,
                    out_pkts: stats.tx_packets,
                    out_errors: stats.tx_errors,
                    out_discards: stats.tx_dropped,
                    carrier_transitions: counters.carrier_transitions,
                };
            }
            _ => {}
        }
    }
    (!interface.name.is_empty()).then_some(interface)
}

/// Administratively up, and with carrier.
fn is_up(message: &LinkMessage) -> bool {
    let flags = message.header.flags;
    flags.contains(LinkFlags::Up) && flags.contains(LinkFlags::LowerUp)
}

fn oper_status(state: State) -> OperStatus {
    match state {
        State::Up => OperStatus::Up,
        State::Down => OperStatus::Down,
        State::Testing => OperStatus::Testing,
        State::Dormant => OperStatus::Dormant,
        State::NotPresent => OperStatus::NotPresent,
        State::LowerLayerDown => OperStatus::LowerLayerDown,
        _ => OperStatus::Unknown,
    }
}

fn vni(info: &LinkInfo) -> Option<u32> {
    let LinkInfo::Data(InfoData::Vxlan(data)) = info else {
        return None;
    };
    // A device that takes the VNI from the packet has none of its own.
    let collects = data.contains(&InfoVxlan::CollectMetadata(true));
    let vni = data.iter().find_map(|it| match it {
        InfoVxlan::Id(vni) => Some(*vni),
        _ => None,
    });
    vni.filter(|_| !collects)
}

/// IFA_LOCAL is the own address; without it (IPv6) IFA_ADDRESS is.
pub(super) fn read_address(message: &AddressMessage) -> Option<IpNet> {
    let (mut local, mut address) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(value) => local = Some(*value),
            AddressAttribute::Address(value) => address = Some(*value),
            _ => {}
        }
    }
    IpNet::new(local.or(address)?, message.header.prefix_len).ok()
}

/// `linux/rtnetlink.h`.
const RTNH_F_DEAD: u32 = 1;
const RTNH_F_LINKDOWN: u32 = 16;
