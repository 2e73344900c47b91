//! All of netlink that the agent uses, in one place, because the crates below change their
//! interface with each release. Knows messages and sockets, and nothing of why they are sent.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use futures::StreamExt;
use ipnet::IpNet;
use netlink_packet_core::{
    DecodeError, Emitable, ErrorMessage, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE,
    NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable, NlasIterator, Parseable, parse_string,
};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_proto::{ConnectionHandle, new_connection};
use netlink_sys::{AsyncSocket, SocketAddr, protocols::NETLINK_ROUTE};
use tokio::sync::Notify;

use self::nexthop::{Attribute, NextHopMessage};
use self::read::{collect, read_address, read_link, read_route};
use super::{Installed, Link, Member, Path};

mod nexthop;
mod read;

/// A netlink socket for requests.
#[derive(Clone, Debug)]
pub(super) struct Netlink {
    handle: ConnectionHandle<Message>,
}

/// How the agent marks what it makes.
#[derive(Copy, Clone, Debug)]
pub(super) struct Mark {
    /// Of routes and next hops.
    pub(super) protocol: u8,
    /// Of routes.
    pub(super) metric: u32,
}

/// Everything on the route socket: what the crate knows, and next-hop objects.
#[derive(Clone, Debug)]
enum Message {
    Route(RouteNetlinkMessage),
    NextHop(Verb, NextHopMessage),
}

/// The values are RTM_NEWNEXTHOP, RTM_DELNEXTHOP and RTM_GETNEXTHOP.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Verb {
    New = 104,
    Delete = 105,
    Dump = 106,
}

impl Netlink {
    /// Opens a socket in the network namespace of the calling thread.
    pub(super) fn open() -> io::Result<Self> {
        let (mut connection, handle, _) = new_connection::<Message>(NETLINK_ROUTE)?;
        let socket = connection.socket_mut().socket_mut();
        // Filters of dumps are obeyed, errors have a text, and do not repeat the request.
        socket.set_netlink_get_strict_chk(true)?;
        socket.set_ext_ack(true)?;
        socket.set_cap_ack(true)?;
        tokio::spawn(connection);
        Ok(Self { handle })
    }

    /// Notifies when a link or an address changes. A socket of its own, so that a storm of events
    /// does not cost an acknowledgement.
    pub(super) fn watch() -> io::Result<Arc<Notify>> {
        let (mut connection, _handle, mut events) = new_connection::<Message>(NETLINK_ROUTE)?;
        let socket = connection.socket_mut().socket_mut();
        for group in [RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR] {
            socket.add_membership(group)?;
        }
        tokio::spawn(connection);
        let changed = Arc::new(Notify::new());
        let notify = Arc::clone(&changed);
        tokio::spawn(async move {
            // However many events: one permit, one look.
            while events.next().await.is_some() {
                notify.notify_one();
            }
            tracing::error!("link events ended; the agent looks at the links periodically only");
        });
        Ok(changed)
    }

    pub(super) async fn put_next_hop(&self, id: u32, path: &Path, mark: Mark) -> io::Result<()> {
        let mut attributes = vec![Attribute::Id(id), Attribute::Interface(path.interface)];
        attributes.extend(path.gateway.map(Attribute::Gateway));
        let family = match path.gateway {
            Some(IpAddr::V4(_)) | None => AddressFamily::Inet,
            Some(IpAddr::V6(_)) => AddressFamily::Inet6,
        };
        let (family, protocol) = (family.into(), mark.protocol);
        let message = NextHopMessage {
            family,
            protocol,
            flags: 0,
            attributes,
        };
        self.put(Message::NextHop(Verb::New, message)).await
    }

    pub(super) async fn put_group(
        &self,
        id: u32,
        members: &[Member],
        mark: Mark,
    ) -> io::Result<()> {
        let attributes = vec![Attribute::Id(id), Attribute::Group(members.to_vec())];
        let message = NextHopMessage {
            protocol: mark.protocol,
            attributes,
            ..Default::default()
        };
        self.put(Message::NextHop(Verb::New, message)).await
    }

    /// Deletes a next hop or a group; one that does not exist is deleted already.
    pub(super) async fn delete_next_hop(&self, id: u32) -> io::Result<()> {
        let attributes = vec![Attribute::Id(id)];
        let message = NextHopMessage {
            attributes,
            ..NextHopMessage::default()
        };
        self.delete(Message::NextHop(Verb::Delete, message)).await
    }

    pub(super) async fn put_route(&self, prefix: IpNet, group: u32, mark: Mark) -> io::Result<()> {
        let mut message = route(prefix, mark);
        message.header.kind = RouteType::Unicast;
        message.attributes.push(RouteAttribute::NhId(group));
        self.put(Message::Route(RouteNetlinkMessage::NewRoute(message)))
            .await
    }

    /// Deletes a route; one that does not exist is deleted already.
    pub(super) async fn delete_route(&self, prefix: IpNet, mark: Mark) -> io::Result<()> {
        let mut message = route(prefix, mark);
        // Any scope, any type.
        message.header.scope = RouteScope::NoWhere;
        self.delete(Message::Route(RouteNetlinkMessage::DelRoute(message)))
            .await
    }

    /// The agent's next hops, groups and routes.
    pub(super) async fn installed(&self, mark: Mark) -> io::Result<Installed> {
        let mut installed = Installed::default();
        let request = Message::NextHop(Verb::Dump, NextHopMessage::default());
        for message in self.dump(request).await? {
            if let Message::NextHop(Verb::New, message) = message
                && message.protocol == mark.protocol
            {
                collect(message, &mut installed);
            }
        }
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = RouteMessage::default();
            request.header.address_family = family;
            request.header.table = RouteHeader::RT_TABLE_MAIN;
            request.header.protocol = mark.protocol.into();
            let request = Message::Route(RouteNetlinkMessage::GetRoute(request));
            for message in self.dump(request).await? {
                if let Message::Route(RouteNetlinkMessage::NewRoute(message)) = message {
                    installed.routes.extend(read_route(&message, mark));
                }
            }
        }
        Ok(installed)
    }

    pub(super) async fn links(&self) -> io::Result<Vec<Link>> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let mut links = Vec::new();
        for message in self.dump(Message::Route(request)).await? {
            if let Message::Route(RouteNetlinkMessage::NewLink(message)) = message {
                links.extend(read_link(message));
            }
        }
        let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        for message in self.dump(Message::Route(request)).await? {
            if let Message::Route(RouteNetlinkMessage::NewAddress(message)) = message
                && let Some(link) = links
                    .iter_mut()
                    .find(|link| link.index == message.header.index)
            {
                link.addresses.extend(read_address(&message));
            }
        }
        Ok(links)
    }

    async fn put(&self, message: Message) -> io::Result<()> {
        let flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        self.request(message, flags).await.map(drop)
    }

    async fn delete(&self, message: Message) -> io::Result<()> {
        match self.request(message, NLM_F_REQUEST | NLM_F_ACK).await {
            Err(error) if absent(&error) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// A dump of a table that nobody has written to yet is an error to the kernel, and empty to us.
    async fn dump(&self, message: Message) -> io::Result<Vec<Message>> {
        match self.request(message, NLM_F_REQUEST | NLM_F_DUMP).await {
            Err(error) if absent(&error) => Ok(Vec::new()),
            outcome => outcome,
        }
    }

    async fn request(&self, message: Message, flags: u16) -> io::Result<Vec<Message>> {
        let mut message = NetlinkMessage::new(
            NetlinkHeader::default(),
            NetlinkPayload::InnerMessage(message),
        );
        message.header.flags = flags;
        let kernel = SocketAddr::new(0, 0);
        let mut answers = self
            .handle
            .request(message, kernel)
            .map_err(io::Error::other)?;
        let mut messages = Vec::new();
        while let Some(answer) = answers.next().await {
            match answer.payload {
                NetlinkPayload::InnerMessage(message) => messages.push(message),
                NetlinkPayload::Error(error) if error.code.is_some() => {
                    return Err(explain(&error));
                }
                NetlinkPayload::Overrun(_) => return Err(io::Error::other("netlink overrun")),
                _ => {}
            }
        }
        Ok(messages)
    }
}

fn route(prefix: IpNet, mark: Mark) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = match prefix {
        IpNet::V4(_) => AddressFamily::Inet,
        IpNet::V6(_) => AddressFamily::Inet6,
    };
    message.header.destination_prefix_length = prefix.prefix_len();
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = mark.protocol.into();
    message.header.scope = RouteScope::Universe;
    let destination = RouteAddress::from(prefix.network());
    message
        .attributes
        .push(RouteAttribute::Destination(destination));
    message
        .attributes
        .push(RouteAttribute::Priority(mark.metric));
    message
}

fn absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(ENOENT | ESRCH | ENODEV))
        || matches!(error.get_ref().and_then(|error| error.downcast_ref::<Refused>()), Some(refused) if refused.absent())
}

/// A refusal with the kernel's own words, when it has some.
#[derive(Debug, thiserror::Error)]
#[error("{error}: {text}")]
struct Refused {
    error: io::Error,
    text: String,
}

impl Refused {
    fn absent(&self) -> bool {
        matches!(self.error.raw_os_error(), Some(ENOENT | ESRCH | ENODEV))
    }
}

/// After the repeated header come attributes; NLMSGERR_ATTR_MSG is a text.
fn explain(message: &ErrorMessage) -> io::Error {
    let error = message.to_io();
    let attributes = message.header.get(HEADER_LEN..).unwrap_or_default();
    let text = NlasIterator::new(attributes).find_map(|nla| {
        let nla = nla.ok().filter(|nla| nla.kind() == NLMSGERR_ATTR_MSG)?;
        parse_string(nla.value()).ok()
    });
    match text {
        Some(text) => io::Error::other(Refused { error, text }),
        None => error,
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        match self {
            Self::Route(message) => message.message_type(),
            Self::NextHop(verb, _) => *verb as u16,
        }
    }

    fn buffer_len(&self) -> usize {
        match self {
            Self::Route(message) => Emitable::buffer_len(message),
            Self::NextHop(_, message) => message.buffer_len(),
        }
    }

    fn serialize(&self, buffer: &mut [u8]) {
        match self {
            Self::Route(message) => message.serialize(buffer),
            Self::NextHop(_, message) => message.emit(buffer),
        }
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Self::Error> {
        let verb = match header.message_type {
            104 => Verb::New,
            105 => Verb::Delete,
            106 => Verb::Dump,
            _ => return RouteNetlinkMessage::deserialize(header, payload).map(Self::Route),
        };
        NextHopMessage::parse(payload).map(|message| Self::NextHop(verb, message))
    }
}

/// `struct nlmsghdr`.
const HEADER_LEN: usize = 16;
const NLMSGERR_ATTR_MSG: u16 = 1;

const RTNLGRP_LINK: u32 = 1;
const RTNLGRP_IPV4_IFADDR: u32 = 5;
const RTNLGRP_IPV6_IFADDR: u32 = 9;

const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
const ENODEV: i32 = 19;
