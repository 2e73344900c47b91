//! What a fact must be for anybody to declare it, field by field.
//!
//! It collects every fault instead of stopping at the first, and refuses to guess: nothing is defaulted that matters. It
//! says nothing of what is stored already: an earlier release had other limits.

use std::net::IpAddr;

use weft_proto::v1;

use super::read::{usual_link_name, usual_port_name};
use super::{InvalidFabric, Labels, below};

pub(super) fn switch(switch: &v1::Switch, field: &str, faults: &mut InvalidFabric) {
    name(&switch.name, field, faults);
    let role = switch.role();
    if role == v1::SwitchRole::Leaf && switch.vtep_address.is_empty() {
        faults.fault(below(field, "vtep_address"), "empty, and a leaf needs one");
    }
    let far = match role {
        v1::SwitchRole::Leaf => switch.tier.is_some_and(|tier| tier != 1),
        v1::SwitchRole::Spine => switch.tier.is_some_and(|tier| tier < 2),
        v1::SwitchRole::Unspecified => false,
    };
    if far {
        faults.fault(
            below(field, "tier"),
            "a leaf is of tier 1, a spine of tier 2 or more",
        );
    }
    if !switch.pod.is_empty() && !is_name(&switch.pod) {
        faults.fault(below(field, "pod"), not_a_name(&switch.pod));
    }
    labels(&switch.labels, field, faults);
    unicast(&switch.vtep_address, &below(field, "vtep_address"), faults);
    let (agent, gnmi) = (&switch.agent_address, &switch.gnmi_address);
    server(agent, &below(field, "agent_address"), faults);
    server(gnmi, &below(field, "gnmi_address"), faults);
    unicast(&switch.peer_address, &below(field, "peer_address"), faults);
    link_bandwidth(switch, field, faults);
    if role == v1::SwitchRole::Leaf && switch.admin_state() == v1::AdminState::Down {
        let reason = "a leaf is always up: what its hosts send has no other path";
        faults.fault(below(field, "admin_state"), reason);
    }
    if let Some(limits) = &switch.limits {
        tables(limits, &below(field, "limits"), faults);
    }
}

fn tables(limits: &v1::SwitchLimits, field: &str, faults: &mut InvalidFabric) {
    let parts = [
        ("group_members", limits.group_members, 2..=GROUP_MEMBERS_MAX),
        ("group_width", limits.group_width, 2..=GROUP_WIDTH_MAX),
        ("pins", limits.pins, 0..=PINS_MAX),
        ("groups", limits.groups, 1..=GROUPS_MAX),
    ];
    for (part, value, range) in parts {
        if let Some(value) = value
            && !range.contains(&value)
        {
            let reason = format!("{value} is not {} to {}", range.start(), range.end());
            faults.fault(below(field, part), reason);
        }
    }
}

/// Who takes weights over BGP has a session, and nobody else who programs it.
fn link_bandwidth(switch: &v1::Switch, field: &str, faults: &mut InvalidFabric) {
    if !switch.link_bandwidth_weights {
        return;
    }
    let mut fault = |reason| faults.fault(below(field, "link_bandwidth_weights"), reason);
    if switch.role() == v1::SwitchRole::Spine {
        fault("a spine gets no weights");
    }
    if switch.peer_address.is_empty() {
        fault("needs the peer_address of the leaf");
    }
    if !switch.agent_address.is_empty() {
        fault("not with an agent_address: weights would come twice");
    }
}

pub(super) fn host(host: &v1::Host, field: &str, faults: &mut InvalidFabric) {
    name(&host.name, field, faults);
    labels(&host.labels, field, faults);
}

pub(super) fn link(link: &v1::Link, field: &str, faults: &mut InvalidFabric) {
    link_name(link, field, faults);
    for (part, end) in [("a", &link.a), ("b", &link.b)] {
        if let Some(end) = end {
            let field = below(field, part);
            interface(&end.switch_name, &end.interface_name, &field, faults);
            unicast(&end.address, &below(&field, "address"), faults);
        }
    }
    if let (Some(a), Some(b)) = (&link.a, &link.b) {
        apart(a, b, field, faults);
    }
    if link.capacity_bps == 0 {
        faults.fault(below(field, "capacity_bps"), "missing, or 0");
    }
    if link.derating_percent > DERATING_MAX {
        let reason = format!("{} is not 0 to {DERATING_MAX}", link.derating_percent);
        faults.fault(below(field, "derating_percent"), reason);
    }
    labels(&link.labels, field, faults);
}

fn link_name(link: &v1::Link, field: &str, faults: &mut InvalidFabric) {
    let (name, usual) = (link.name.as_str(), usual_link_name(link));
    if name.is_empty() || usual.as_deref() == Some(name) {
        return;
    }
    if !name.contains("--") {
        if !is_long_name(name) {
            faults.fault(below(field, "name"), not_a_long_name(name));
        }
    } else if let Some(usual) = usual {
        // It would be taken for the name of another link.
        let reason =
            format!("{name:?} is not {usual:?}, as its ends say: other names have no \"--\"");
        faults.fault(below(field, "name"), reason);
    }
}

/// Two ends that are of one link.
fn apart(a: &v1::LinkEnd, b: &v1::LinkEnd, field: &str, faults: &mut InvalidFabric) {
    if a.switch_name == b.switch_name && !b.switch_name.is_empty() {
        let reason = format!("{:?} is at both ends", b.switch_name);
        faults.fault(below(field, "b.switch_name"), reason);
    }
    for (part, end, other) in [("a.address", a, b), ("b.address", b, a)] {
        if end.address.is_empty() && !other.address.is_empty() {
            let reason = "missing, and the other end has one: both have one, or none";
            faults.fault(below(field, part), reason);
        }
    }
    let address = |end: &v1::LinkEnd| end.address.parse::<IpAddr>().ok();
    let Some((a, b)) = address(a).zip(address(b)) else {
        return;
    };
    if a == b {
        let reason = format!("{b} is at both ends");
        faults.fault(below(field, "b.address"), reason);
    } else if a.is_ipv4() != b.is_ipv4() {
        let reason = format!("{b} is not of the same family as {a}");
        faults.fault(below(field, "b.address"), reason);
    }
}

pub(super) fn host_port(port: &v1::HostPort, field: &str, faults: &mut InvalidFabric) {
    if let Some(usual) = usual_port_name(port)
        && !port.name.is_empty()
        && port.name != usual
    {
        let reason = format!(
            "{:?} is not {usual:?}, as its switch and interface say",
            port.name
        );
        faults.fault(below(field, "name"), reason);
    }
    interface(&port.switch_name, &port.interface_name, field, faults);
    if let Some(vni) = port.vni
        && !(1..=VNI_MAX).contains(&vni)
    {
        let reason = format!("{vni} is not a VNI of 1 to {VNI_MAX}");
        faults.fault(below(field, "vni"), reason);
    }
    if port.capacity_bps == Some(0) {
        let reason = "0: it is left out where it is not known";
        faults.fault(below(field, "capacity_bps"), reason);
    }
    addresses(&port.addresses, field, faults);
    labels(&port.labels, field, faults);
}

fn addresses(addresses: &[String], field: &str, faults: &mut InvalidFabric) {
    if addresses.len() > ADDRESSES_MAX {
        let reason = format!("{} entries, at most {ADDRESSES_MAX}", addresses.len());
        faults.fault(below(field, "addresses"), reason);
        return;
    }
    for (at, text) in addresses.iter().enumerate() {
        let field = below(field, &format!("addresses[{at}]"));
        unicast(text, &field, faults);
        if addresses[..at].contains(text) {
            faults.fault(field, format_args!("{text:?} stands there twice"));
        }
    }
}

pub(super) fn name(text: &str, field: &str, faults: &mut InvalidFabric) {
    if !is_name(text) {
        faults.fault(below(field, "name"), not_a_name(text));
    }
}

/// Which switch there is, only other facts say.
fn interface(switch: &str, interface: &str, field: &str, faults: &mut InvalidFabric) {
    if switch.is_empty() {
        faults.fault(below(field, "switch_name"), "empty");
    }
    if !is_long_name(interface) || interface.len() > NAME_OCTETS_MAX || interface.contains("--") {
        let reason = format!("{interface:?} is not the name of an interface");
        faults.fault(below(field, "interface_name"), reason);
    }
}

fn server(text: &str, field: &str, faults: &mut InvalidFabric) {
    if text.is_empty() {
        return;
    }
    if text.len() > SERVER_OCTETS_MAX {
        let reason = format!("{} octets, at most {SERVER_OCTETS_MAX}", text.len());
        faults.fault(field, reason);
        return;
    }
    let host_and_port = text.rsplit_once(':').filter(|(host, port)| {
        let bracketed = host.starts_with('[') && host.ends_with(']');
        let plain =
            !host.is_empty() && !host.contains(|c: char| c == ':' || c == '/' || c.is_whitespace());
        (plain || bracketed) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if host_and_port.is_none() {
        faults.fault(field, format_args!("{text:?} is not host:port"));
    }
}

/// Of a text that is an address.
fn unicast(text: &str, field: &str, faults: &mut InvalidFabric) {
    if let Ok(address) = text.parse::<IpAddr>()
        && (address.is_unspecified() || address.is_multicast() || address.is_loopback())
    {
        let reason = format!("{address} is not a unicast address");
        faults.fault(field, reason);
    }
}

pub(super) fn labels(labels: &Labels, field: &str, faults: &mut InvalidFabric) {
    let field = below(field, "labels");
    if labels.len() > LABELS_MAX {
        let reason = format!("{} labels, at most {LABELS_MAX}", labels.len());
        faults.fault(&field, reason);
        return;
    }
    for (key, value) in labels {
        if key.is_empty() || key.len() > NAME_OCTETS_MAX {
            let reason = format!("{key:?} is not a key of 1 to {NAME_OCTETS_MAX} octets");
            faults.fault(&field, reason);
        }
        if value.len() > LABEL_OCTETS_MAX {
            let reason = format!("{} octets, at most {LABEL_OCTETS_MAX}", value.len());
            faults.fault(format_args!("{field}[{key:?}]"), reason);
        }
    }
}

/// Whether a text can be a name: it stands inside link names, table columns, URLs and file paths.
pub(super) fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=NAME_OCTETS_MAX).contains(&text.len()) && !text.contains("--") && text.chars().all(fits)
}

pub(super) fn not_a_name(text: &str) -> String {
    format!("{text:?} is not a name of letters, digits, '.', '_' and single '-'")
}

/// Whether a text can name an interface, or a link: what switches call their interfaces stands in it.
fn is_long_name(text: &str) -> bool {
    (1..=LONG_NAME_OCTETS_MAX).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic())
}

fn not_a_long_name(text: &str) -> String {
    format!("{text:?} is not a name of 1 to {LONG_NAME_OCTETS_MAX} printable characters of ASCII")
}

/// A DNS name, a colon and a port.
const SERVER_OCTETS_MAX: usize = 260;
/// A DNS label.
const NAME_OCTETS_MAX: usize = 63;
/// Two names of switches and two of interfaces, with what stands between them.
const LONG_NAME_OCTETS_MAX: usize = 256;
/// A fact is a log entry, and every replica holds all of them.
pub(crate) const LABELS_MAX: usize = 32;
/// As long as a value in Kubernetes' annotations seldom is.
const LABEL_OCTETS_MAX: usize = 256;
/// One of each family, and some of either for migrations.
const ADDRESSES_MAX: usize = 16;
/// What is left is more than nothing: a link that carries nothing is set down.
const DERATING_MAX: u32 = 99;
/// More than any switch chip has.
const GROUP_MEMBERS_MAX: u32 = 1 << 20;
/// What weights of 16 bits come to.
const GROUP_WIDTH_MAX: u32 = 65_535;
/// More than any switch chip has.
const GROUPS_MAX: u32 = 65_536;
/// More than any switch chip matches exactly.
const PINS_MAX: u32 = 65_536;
/// RFC 7348 §5: 24 bits.
const VNI_MAX: u32 = 0xff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_port_without_a_capacity_is_not_one_of_0() {
        let faults = |capacity_bps| {
            let mut faults = InvalidFabric::default();
            let port = v1::HostPort {
                switch_name: "leaf1".to_owned(),
                interface_name: "eth9".to_owned(),
                capacity_bps,
                ..v1::HostPort::default()
            };
            host_port(&port, "host_ports[0]", &mut faults);
            faults.to_string()
        };
        assert_eq!([faults(None), faults(Some(1))], ["", ""]);
        let why = "host_ports[0].capacity_bps: 0: it is left out where it is not known";
        assert_eq!(faults(Some(0)), why);
    }
}
