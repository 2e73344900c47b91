//! All of netlink that the agent uses, in one place, because the crates below change their
//! interface with each release. Knows messages and sockets, and nothing of why they are sent.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use ipnet::IpNet;
use netlink_packet_core::{
    DecodeError, Emitable, ErrorMessage, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL,
    NLM_F_REPLACE, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable, NlasIterator, Parseable, parse_string,
};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_proto::{ConnectionHandle, new_connection};
use netlink_sys::{AsyncSocket, SocketAddr, protocols::NETLINK_ROUTE};
use tokio::sync::Notify;
use tokio::time::timeout;

use self::nexthop::{Attribute, NextHopMessage};
use self::read::{
    InTable, Objects, is_ours, read_address, read_interface, read_link, read_own, read_route,
    read_rule, table,
};
use super::kernel::Numbers;
use super::{Family, Installed, Interface, Link, Member, Own, Path, Slot};

pub(crate) mod ethtool;
mod nexthop;
mod read;

/// A netlink socket for requests.
#[derive(Clone, Debug)]
pub(super) struct Netlink {
    handle: ConnectionHandle<Message>,
    /// The port number by which the kernel tells others who made a change.
    port: u32,
}

/// Whether an object is made, or replaces one of ours. What others made is never replaced.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// There is none yet.
    New,
    /// Ours is there.
    Over,
}

/// What the tables of the switch say.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The agent's own.
    pub(super) installed: Installed,
    /// The main table.
    pub(super) own: Own,
    /// Routes of others in the agent's table.
    pub(super) foreign: Vec<IpNet>,
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
        let port = socket.bind_auto()?.port_number();
        tokio::spawn(connection);
        Ok(Self { handle, port })
    }

    /// Notifies when somebody else changes a link, an address, a route, a rule or a next hop. A
    /// socket of its own, so that a storm of events does not cost an acknowledgement.
    pub(super) fn watch(&self) -> io::Result<Arc<Notify>> {
        let (mut connection, _handle, mut events) = new_connection::<Message>(NETLINK_ROUTE)?;
        let socket = connection.socket_mut().socket_mut();
        // The kernel passes over sockets without a port number.
        socket.bind_auto()?;
        for group in WATCHED {
            // A kernel without IPv6 does not have its groups.
            if let Err(error) = socket.add_membership(group) {
                tracing::warn!(group, %error, "the kernel does not tell of these changes");
            }
        }
        tokio::spawn(connection);
        let changed = Arc::new(Notify::new());
        let (notify, own) = (Arc::clone(&changed), self.port);
        tokio::spawn(async move {
            // However many events: one permit, one look.
            while let Some((message, _)) = events.next().await {
                if message.header.port_number != own {
                    notify.notify_one();
                }
            }
            tracing::error!("route events ended; the agent looks at the switch periodically only");
        });
        Ok(changed)
    }

    pub(super) async fn put_next_hop(
        &self,
        id: u32,
        path: &Path,
        put: Put,
        numbers: Numbers,
    ) -> io::Result<()> {
        let mut attributes = vec![Attribute::Id(id), Attribute::Interface(path.interface)];
        attributes.extend(path.gateway.map(Attribute::Gateway));
        let family = match path.gateway {
            Some(IpAddr::V4(_)) | None => AddressFamily::Inet,
            Some(IpAddr::V6(_)) => AddressFamily::Inet6,
        };
        // FRR without next-hop objects has 169.254.0.1 for an IPv6 link-local next hop, which no subnet has.
        let flags = match path.gateway {
            Some(IpAddr::V4(gateway)) if gateway.is_link_local() => RTNH_F_ONLINK,
            _ => 0,
        };
        let (family, protocol) = (family.into(), numbers.protocol);
        let message = NextHopMessage {
            family,
            protocol,
            flags,
            attributes,
        };
        self.put(Message::NextHop(Verb::New, message), put).await
    }

    pub(super) async fn put_group(
        &self,
        id: u32,
        members: &[Member],
        put: Put,
        numbers: Numbers,
    ) -> io::Result<()> {
        let attributes = vec![Attribute::Id(id), Attribute::Group(members.to_vec())];
        let message = NextHopMessage {
            protocol: numbers.protocol,
            attributes,
            ..Default::default()
        };
        self.put(Message::NextHop(Verb::New, message), put).await
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

    pub(super) async fn put_route(
        &self,
        slot: Slot,
        prefix: IpNet,
        group: u32,
        put: Put,
        numbers: Numbers,
    ) -> io::Result<()> {
        let mut message = route(slot, prefix, numbers);
        message.header.kind = RouteType::Unicast;
        message.attributes.push(RouteAttribute::NhId(group));
        let message = Message::Route(RouteNetlinkMessage::NewRoute(message));
        self.put(message, put).await
    }

    /// Has marked packets look up the agent's table.
    pub(super) async fn put_rule(
        &self,
        slot: Slot,
        family: Family,
        numbers: Numbers,
    ) -> io::Result<()> {
        let message = Message::Route(RouteNetlinkMessage::NewRule(rule(slot, family, numbers)));
        match self.put(message, Put::New).await {
            Err(error) if number(&error) == Some(EEXIST) => Ok(()),
            outcome => outcome,
        }
    }

    /// Deletes the rule; one that does not exist is deleted already.
    pub(super) async fn delete_rule(
        &self,
        slot: Slot,
        family: Family,
        numbers: Numbers,
    ) -> io::Result<()> {
        let message = RouteNetlinkMessage::DelRule(rule(slot, family, numbers));
        self.delete(Message::Route(message)).await
    }

    /// Deletes every rule with the protocol number, whatever it says.
    pub(super) async fn delete_rules(&self, numbers: Numbers) -> io::Result<usize> {
        let mut deleted = 0;
        for family in FAMILIES {
            let rules = self.rules(family).await?;
            for rule in rules.into_iter().filter(|rule| is_ours(rule, numbers)) {
                let message = RouteNetlinkMessage::DelRule(rule);
                self.delete(Message::Route(message)).await?;
                deleted += 1;
            }
        }
        Ok(deleted)
    }

    /// Deletes every route, group and next hop with the protocol number, in whatever table.
    pub(super) async fn delete_all(&self, numbers: Numbers) -> io::Result<usize> {
        let mut deleted = 0;
        for family in FAMILIES {
            for mut route in self.routes(family, None, Some(numbers.protocol)).await? {
                // What names the route; the kernel takes either its group or the group's next hops.
                route.attributes.retain(|attribute| {
                    matches!(
                        attribute,
                        RouteAttribute::Destination(_)
                            | RouteAttribute::Priority(_)
                            | RouteAttribute::Table(_)
                    )
                });
                let message = RouteNetlinkMessage::DelRoute(route);
                self.delete(Message::Route(message)).await?;
                deleted += 1;
            }
        }
        let mut installed = Installed::default();
        self.objects()
            .await?
            .install(numbers.protocol, &mut installed);
        for id in installed.groups.keys().chain(installed.next_hops.keys()) {
            self.delete_next_hop(*id).await?;
            deleted += 1;
        }
        Ok(deleted)
    }

    /// Deletes a route; one that does not exist is deleted already.
    pub(super) async fn delete_route(
        &self,
        slot: Slot,
        prefix: IpNet,
        numbers: Numbers,
    ) -> io::Result<()> {
        let mut message = route(slot, prefix, numbers);
        // Any scope, any type.
        message.header.scope = RouteScope::NoWhere;
        self.delete(Message::Route(RouteNetlinkMessage::DelRoute(message)))
            .await
    }

    /// The agent's table and rules, the main table, and all next hops.
    pub(super) async fn tables(&self, numbers: Numbers) -> io::Result<Tables> {
        let objects = self.objects().await?;
        let mut tables = Tables::default();
        objects.install(numbers.protocol, &mut tables.installed);
        for family in FAMILIES {
            for route in self.routes(family, Some(numbers.table), None).await? {
                match read_route(&route, numbers) {
                    Some(InTable::Ours(prefix, group)) => {
                        tables.installed.routes.insert(prefix, group);
                    }
                    Some(InTable::Foreign(prefix)) => tables.foreign.push(prefix),
                    None => {}
                }
            }
            // Those of pins: one look at all tables costs less than one at each.
            for route in self.routes(family, None, Some(numbers.protocol)).await? {
                let slot = table(&route).and_then(|table| numbers.slot_of(table));
                if let (Some(slot), Some(InTable::Ours(prefix, group))) =
                    (slot, read_route(&route, numbers))
                    && slot != Slot::WEIGHTS
                {
                    tables.installed.set_route(slot, prefix, Some(group));
                }
            }
            let main = Some(RouteHeader::RT_TABLE_MAIN);
            for route in self.routes(family, main, None).await? {
                if let Some((prefix, route)) = read_own(&route, numbers, &objects) {
                    tables.own.insert(prefix, route);
                }
            }
            let rules = self.rules(family).await?;
            for (slot, family) in rules.iter().filter_map(|rule| read_rule(rule, numbers)) {
                tables.installed.set_rule(slot, family, true);
            }
        }
        Ok(tables)
    }

    async fn objects(&self) -> io::Result<Objects> {
        let mut objects = Objects::default();
        let request = Message::NextHop(Verb::Dump, NextHopMessage::default());
        for message in self.dump(request).await? {
            if let Message::NextHop(Verb::New, message) = message {
                objects.collect(message);
            }
        }
        Ok(objects)
    }

    /// Routes of one table or of all, of one protocol number or of all.
    async fn routes(
        &self,
        family: Family,
        table: Option<u8>,
        protocol: Option<u8>,
    ) -> io::Result<Vec<RouteMessage>> {
        let mut request = RouteMessage::default();
        request.header.address_family = address_family(family);
        request.header.table = table.unwrap_or_default();
        request.header.protocol = protocol.unwrap_or_default().into();
        let request = Message::Route(RouteNetlinkMessage::GetRoute(request));
        let messages = self.dump(request).await?.into_iter();
        Ok(messages
            .filter_map(|message| match message {
                Message::Route(RouteNetlinkMessage::NewRoute(route)) => Some(route),
                Message::Route(_) | Message::NextHop(..) => None,
            })
            .collect())
    }

    async fn rules(&self, family: Family) -> io::Result<Vec<RuleMessage>> {
        let mut request = RuleMessage::default();
        request.header.family = address_family(family);
        let request = Message::Route(RouteNetlinkMessage::GetRule(request));
        let messages = self.dump(request).await?.into_iter();
        Ok(messages
            .filter_map(|message| match message {
                Message::Route(RouteNetlinkMessage::NewRule(rule)) => Some(rule),
                Message::Route(_) | Message::NextHop(..) => None,
            })
            .collect())
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

    /// The interfaces, with their counters and without their addresses.
    pub(super) async fn interfaces(&self) -> io::Result<Vec<Interface>> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let messages = self.dump(Message::Route(request)).await?.into_iter();
        Ok(messages
            .filter_map(|message| match message {
                Message::Route(RouteNetlinkMessage::NewLink(message)) => read_interface(message),
                Message::Route(_) | Message::NextHop(..) => None,
            })
            .collect())
    }

    async fn put(&self, message: Message, put: Put) -> io::Result<()> {
        let flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
        let kind = match put {
            Put::New => NLM_F_EXCL,
            Put::Over => NLM_F_REPLACE,
        };
        self.request(message, flags | kind).await.map(drop)
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
        request(&self.handle, message, flags).await
    }
}

/// What the kernel answers to a request.
async fn request<M>(handle: &ConnectionHandle<M>, message: M, flags: u16) -> io::Result<Vec<M>>
where
    M: NetlinkSerializable + fmt::Debug + Clone + Unpin,
{
    let mut message = NetlinkMessage::new(
        NetlinkHeader::default(),
        NetlinkPayload::InnerMessage(message),
    );
    message.header.flags = flags;
    let kernel = SocketAddr::new(0, 0);
    let mut answers = handle.request(message, kernel).map_err(io::Error::other)?;
    let read = async {
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
        // The acknowledgement, or the end of a dump, ends the answers without a message; so does a
        // socket that closes, and then the next request is refused.
        Ok(messages)
    };
    match timeout(ANSWER_MAX, read).await {
        Ok(outcome) => outcome,
        Err(_) => Err(io::Error::other("the kernel does not answer")),
    }
}

fn address_family(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}

fn rule(slot: Slot, family: Family, numbers: Numbers) -> RuleMessage {
    let (mark, mask) = numbers.mark_of(slot);
    let mut message = RuleMessage::default();
    message.header.family = address_family(family);
    message.header.action = RuleAction::ToTable;
    message.attributes = vec![
        RuleAttribute::Priority(priority(slot, numbers)),
        RuleAttribute::FwMark(mark),
        RuleAttribute::FwMask(mask),
        RuleAttribute::Protocol(numbers.protocol.into()),
        RuleAttribute::Table(numbers.table_of(slot)),
    ];
    message
}

/// The priority of the rule of a slot. Pins come before weights.
fn priority(slot: Slot, numbers: Numbers) -> u32 {
    match slot {
        Slot::WEIGHTS => numbers.priority,
        Slot(_) => numbers.priority - 1,
    }
}

fn route(slot: Slot, prefix: IpNet, numbers: Numbers) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = address_family(Family::of(prefix));
    message.header.destination_prefix_length = prefix.prefix_len();
    message.header.protocol = numbers.protocol.into();
    message.header.scope = RouteScope::Universe;
    let destination = RouteAddress::from(prefix.network());
    message.attributes = vec![
        RouteAttribute::Destination(destination),
        RouteAttribute::Priority(METRIC),
        RouteAttribute::Table(numbers.table_of(slot)),
    ];
    message
}

fn absent(error: &io::Error) -> bool {
    matches!(
        number(error),
        Some(ENOENT | ESRCH | ENODEV | EAFNOSUPPORT | EOPNOTSUPP)
    )
}

/// The kernel's number of an error, with a text or without.
fn number(error: &io::Error) -> Option<i32> {
    let refused = error.get_ref().and_then(|error| error.downcast_ref());
    let inner = refused.map(|refused: &Refused| &refused.error);
    inner.unwrap_or(error).raw_os_error()
}

/// A refusal with the kernel's own words, when it has some.
#[derive(Debug, thiserror::Error)]
#[error("{error}: {text}")]
struct Refused {
    error: io::Error,
    text: String,
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

/// The groups of `linux/rtnetlink.h` with the changes that matter: links, addresses, routes and rules
/// of IPv4 and of IPv6, next hops.
const WATCHED: [u32; 8] = [1, 5, 9, 7, 11, 8, 19, 32];

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// The kernel answers at once; an answer that was lost does not come.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Metric of all the agent's routes. They are alone in their table, so that any number does.
const METRIC: u32 = 10;

/// `linux/rtnetlink.h`: the neighbour is on the link, whatever the subnets are.
const RTNH_F_ONLINK: u32 = 4;

const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
const EEXIST: i32 = 17;
const ENODEV: i32 = 19;
const EOPNOTSUPP: i32 = 95;
const EAFNOSUPPORT: i32 = 97;
