//! What weft reads in a message, in the words of the captured vectors. It looks at typed values only.

use std::fmt::Write as _;

use weft_bgp::attribute::{AsPath, Attributes, NextHop, SegmentKind};
use weft_bgp::capability::{AddPath, Capability};
use weft_bgp::family::Family;
use weft_bgp::message::{DecodeContext, Message, Notification, Open, Update};
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::nlri::{Nlri, decode_all};

/// One line per fact.
pub(crate) fn lines(message: &Message, ctx: &DecodeContext) -> Vec<String> {
    let mut lines = vec![format!("type {}", message.kind().code())];
    match message {
        Message::Open(message) => open(message, &mut lines),
        Message::Update(message) => update(message, ctx, &mut lines),
        Message::Notification(message) => lines.push(notification(message)),
        Message::Keepalive => {}
        Message::RouteRefresh(message) => {
            let family = pair(message.family);
            lines.push(format!("route-refresh {family} {}", message.subtype));
        }
    }
    lines
}

fn pair(family: Family) -> String {
    format!("{}/{}", family.afi, family.safi)
}

pub(crate) fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        write!(text, "{octet:02x}").unwrap();
        text
    })
}

fn open(open: &Open, lines: &mut Vec<String>) {
    let asn = u16::try_from(open.asn).unwrap_or(23_456);
    let (hold, id) = (open.hold_secs, open.router_id);
    lines.push(format!("open version 4 as {asn} hold {hold} id {id}"));
    for capability in &open.capabilities {
        let words = of_capability(capability);
        let line = format!("capability {} {}", capability.code(), words.join(" "));
        lines.push(line.trim_end().to_owned());
    }
}

fn of_capability(capability: &Capability) -> Vec<String> {
    let mode = |one: &AddPath| u8::from(one.receive) | u8::from(one.send) << 1;
    match capability {
        Capability::MultiProtocol(family) => vec![pair(*family)],
        Capability::FourOctetAs(asn) => vec![asn.to_string()],
        Capability::AddPath(list) => list
            .iter()
            .map(|one| format!("{}={}", pair(one.family), mode(one)))
            .collect(),
        Capability::ExtendedNextHop(list) => list
            .iter()
            .map(|one| format!("{}={}", pair(one.family), one.next_hop_afi))
            .collect(),
        Capability::GracefulRestart(restart) => {
            let flags = u16::from(restart.restarted) << 15 | u16::from(restart.notification) << 14;
            let families = restart.families.iter().map(|(family, forwarding)| {
                format!("{}={:02x}", pair(*family), u8::from(*forwarding) << 7)
            });
            let head = format!("{:04x}", flags | restart.restart_secs);
            std::iter::once(head).chain(families).collect()
        }
        Capability::Fqdn { host, domain } => [host, domain]
            .into_iter()
            .filter(|name| !name.is_empty())
            .map(|name| hex(name.as_bytes()))
            .collect(),
        // tshark 4.0 shows no more of these than that they are there.
        _ => Vec::new(),
    }
}

fn notification(notification: &Notification) -> String {
    let said = notification.shutdown_communication().unwrap_or_default();
    let line = format!(
        "notification {}/{} {said}",
        notification.code, notification.subcode
    );
    line.trim_end().to_owned()
}

fn update(update: &Update, ctx: &DecodeContext, lines: &mut Vec<String>) {
    let identifier = |id: u32| match ctx.add_path.contains(Family::IPV4_UNICAST) {
        true => format!(" id {id}"),
        false => String::new(),
    };
    for (id, prefix) in &update.withdrawn {
        lines.push(format!("withdraw 1/1{} {prefix}", identifier(*id)));
    }
    for (id, prefix) in &update.announced {
        lines.push(format!("announce 1/1{} {prefix}", identifier(*id)));
    }
    if let Some(reach) = &update.reach {
        lines.push(format!(
            "next-hop {} {}",
            pair(reach.family),
            hop(reach.next_hop)
        ));
        routes("announce", reach.family, &reach.nlri, ctx, lines);
    }
    if let Some(unreach) = &update.unreach {
        lines.push(format!("unreach {}", pair(unreach.family)));
        routes("withdraw", unreach.family, &unreach.nlri, ctx, lines);
    }
    if !update.announced.is_empty() || update.reach.is_some() {
        attributes(&update.attributes, lines);
    }
}

fn hop(hop: NextHop) -> String {
    match hop {
        NextHop::V4(address) => address.to_string(),
        NextHop::V6(address) => address.to_string(),
        NextHop::V6LinkLocal(global, link_local) => format!("{global} {link_local}"),
    }
}

/// EVPN is left to the crate that knows it.
fn routes(verb: &str, family: Family, octets: &[u8], ctx: &DecodeContext, lines: &mut Vec<String>) {
    let add_path = ctx.add_path.contains(family);
    let mut each = |id: u32, route: String| {
        let id = if add_path {
            format!("id {id} ")
        } else {
            String::new()
        };
        lines.push(format!("{verb} {} {id}{route}", pair(family)));
    };
    match family {
        Family::IPV4_UNICAST => {
            strict::<Prefix4>(octets, add_path, |id, it| each(id, it.to_string()))
        }
        Family::IPV6_UNICAST => {
            strict::<Prefix6>(octets, add_path, |id, it| each(id, it.to_string()))
        }
        Family::RTC => strict::<Membership>(octets, add_path, |id, it| each(id, membership(&it))),
        _ => {}
    }
}

fn strict<N: Nlri>(octets: &[u8], add_path: bool, each: impl FnMut(u32, N)) {
    decode_all::<N>(octets, add_path, each, |error| panic!("{error}")).unwrap();
}

fn membership(membership: &Membership) -> String {
    match membership.len {
        0 => "00".to_owned(),
        _ => hex(&membership.origin_as.to_be_bytes()) + &hex(&membership.target),
    }
}

fn attributes(attributes: &Attributes, lines: &mut Vec<String>) {
    let mut say = |code: u8, words: Vec<String>| {
        lines.push(
            format!("attribute {code} {}", words.join(" "))
                .trim_end()
                .to_owned(),
        );
    };
    let one = |value: &dyn ToString| vec![value.to_string()];
    say(1, one(&attributes.origin.code()));
    say(2, path(&attributes.as_path));
    if let Some(next_hop) = attributes.next_hop {
        say(3, one(&next_hop));
    }
    attributes.med.iter().for_each(|med| say(4, one(med)));
    attributes
        .local_pref
        .iter()
        .for_each(|value| say(5, one(value)));
    if attributes.atomic_aggregate {
        say(6, Vec::new());
    }
    if let Some(aggregator) = attributes.aggregator {
        say(
            7,
            vec![aggregator.asn.to_string(), aggregator.address.to_string()],
        );
    }
    for (code, words) in lists(attributes) {
        if !words.is_empty() {
            say(code, words);
        }
    }
    if let Some(pmsi) = &attributes.pmsi {
        let to = pmsi
            .endpoint_address()
            .map_or(String::new(), |address| address.to_string());
        say(22, vec![format!("type {} to {to}", pmsi.tunnel_type)]);
    }
    for opaque in &attributes.opaque {
        say(opaque.code, Vec::new());
    }
    for unknown in &attributes.unknown {
        say(unknown.code, Vec::new());
    }
}

/// Attributes that are lists, or may be absent like an empty one.
fn lists(attributes: &Attributes) -> [(u8, Vec<String>); 5] {
    let communities = attributes.communities.iter();
    let originator = attributes.originator_id.iter();
    let clusters = attributes.cluster_list.iter();
    let extended = attributes.ext_communities.iter();
    let large = attributes.large_communities.iter();
    let large = large.map(|it| format!("{}:{}:{}", it.global, it.local1, it.local2));
    let clusters = clusters.map(|it| std::net::Ipv4Addr::from(it.0).to_string());
    [
        (8, communities.map(|it| hex(&it.0.to_be_bytes())).collect()),
        (9, originator.map(ToString::to_string).collect()),
        (10, clusters.collect()),
        (16, extended.map(|it| hex(&it.0)).collect()),
        (32, large.collect()),
    ]
}

fn path(path: &AsPath) -> Vec<String> {
    path.segments
        .iter()
        .map(|segment| {
            let kind = if segment.kind == SegmentKind::Set {
                1
            } else {
                2
            };
            let asns: Vec<_> = segment.asns.iter().map(u32::to_string).collect();
            format!("{kind}:{}", asns.join(","))
        })
        .collect()
}
