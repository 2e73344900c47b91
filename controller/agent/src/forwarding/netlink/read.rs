//! From messages of a dump to the agent's words. Knows no socket.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};

use super::Mark;
use super::nexthop::{Attribute, NextHopMessage};
use crate::forwarding::{Installed, Link, Path};

/// Adds a next hop or a group.
pub(super) fn collect(message: NextHopMessage, installed: &mut Installed) {
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
        (Some(id), Some(members), _) => drop(installed.groups.insert(id, members)),
        (Some(id), None, Some(interface)) => {
            installed.next_hops.insert(id, Path { gateway, interface });
        }
        (_, _, _) => {}
    }
}

/// A route of ours, with its group.
pub(super) fn read_route(message: &RouteMessage, mark: Mark) -> Option<(IpNet, u32)> {
    let (mut address, mut group, mut metric) = (None, None, 0);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(ipv4)) => {
                address = Some(IpAddr::V4(*ipv4))
            }
            RouteAttribute::Destination(RouteAddress::Inet6(ipv6)) => {
                address = Some(IpAddr::V6(*ipv6))
            }
            RouteAttribute::NhId(id) => group = Some(*id),
            RouteAttribute::Priority(value) => metric = *value,
            _ => {}
        }
    }
    // The default route has no destination.
    let address = address.unwrap_or(match message.header.address_family {
        AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    });
    let ours = u8::from(message.header.protocol) == mark.protocol && metric == mark.metric;
    let prefix = IpNet::new(address, message.header.destination_prefix_length).ok()?;
    if ours { Some((prefix, group?)) } else { None }
}

/// A link, without its addresses.
pub(super) fn read_link(message: LinkMessage) -> Option<Link> {
    let flags = message.header.flags;
    let index = message.header.index;
    let up = flags.contains(LinkFlags::Up) && flags.contains(LinkFlags::LowerUp);
    let name = message
        .attributes
        .into_iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        })?;
    Some(Link {
        index,
        name,
        up,
        addresses: Vec::new(),
    })
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
