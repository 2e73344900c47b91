//! What a message must say to be a fact, field by field.
//!
//! It collects every fault instead of stopping at the first, and refuses to guess: nothing is defaulted that matters.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use weft_proto::v1;

use super::{Host, HostPort, Labels, Link, LinkEnd, LinkName, PortName, Role, Switch, SwitchName};

/// Everything that is wrong with what was declared, in the order of the declaration.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct InvalidFabric {
    /// At most 100.
    pub faults: Vec<FieldFault>,
}

impl InvalidFabric {
    /// One fault.
    pub fn of(field: impl fmt::Display, reason: impl fmt::Display) -> Self {
        let mut faults = Self::default();
        faults.fault(field, reason);
        faults
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Adds a fault, as long as they are few.
    pub(crate) fn fault(&mut self, field: impl fmt::Display, reason: impl fmt::Display) {
        if self.faults.len() < FAULTS_MAX {
            // What a client wrote stands in it, at whatever length.
            let short = |text: String| match text.char_indices().nth(FAULT_CHARS_MAX) {
                Some((end, _)) => format!("{}...", &text[..end]),
                None => text,
            };
            self.faults.push(FieldFault {
                field: short(field.to_string()),
                reason: short(reason.to_string()),
            });
        }
    }
}

impl fmt::Display for InvalidFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidFabric {}

/// A field of the declaration and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFault {
    /// The path of the field: `links[3].a.switch_name`.
    pub field: String,
    /// A noun phrase: `no switch is named "leaf9"`.
    pub reason: String,
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

/// A field below another one.
pub(in crate::fabric) fn below(field: &str, name: &str) -> String {
    match field {
        "" => name.to_owned(),
        field => format!("{field}.{name}"),
    }
}

pub(super) fn switch(
    switch: &v1::Switch,
    field: &str,
    faults: &mut InvalidFabric,
) -> Option<Switch> {
    name(&switch.name, field, faults)?;
    let role = match v1::SwitchRole::try_from(switch.role) {
        Ok(v1::SwitchRole::Leaf) => Some(Role::Leaf),
        Ok(v1::SwitchRole::Spine) => Some(Role::Spine),
        Ok(v1::SwitchRole::Unspecified) | Err(_) => None,
    };
    if role.is_none() {
        faults.fault(below(field, "role"), "neither leaf nor spine");
    }
    if role == Some(Role::Leaf) && switch.vtep_address.is_empty() {
        faults.fault(below(field, "vtep_address"), "empty, and a leaf needs one");
    }
    let far = match role {
        Some(Role::Leaf) => switch.tier.is_some_and(|tier| tier != 1),
        Some(Role::Spine) => switch.tier.is_some_and(|tier| tier < 2),
        None => false,
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
    Some(Switch {
        name: switch.name.as_str().into(),
        // A switch with a fault still exists for the links that name it.
        role: role.unwrap_or(Role::Spine),
        vtep: optional(&switch.vtep_address, &below(field, "vtep_address"), faults),
        agent: agent(
            &switch.agent_address,
            &below(field, "agent_address"),
            faults,
        ),
        peer: optional(&switch.peer_address, &below(field, "peer_address"), faults),
        tier: switch.tier,
        plane: switch.plane,
        rail: switch.rail,
        pod: switch.pod.clone(),
        labels: switch.labels.clone(),
    })
}

pub(super) fn host(host: &v1::Host, field: &str, faults: &mut InvalidFabric) -> Option<Host> {
    name(&host.name, field, faults)?;
    labels(&host.labels, field, faults);
    Some(Host {
        name: host.name.as_str().into(),
        labels: host.labels.clone(),
    })
}

pub(super) fn link(link: &v1::Link, field: &str, faults: &mut InvalidFabric) -> Option<Link> {
    let a = end(link.a.as_ref(), &below(field, "a"), faults);
    let b = end(link.b.as_ref(), &below(field, "b"), faults);
    if link.capacity_bps == 0 {
        faults.fault(below(field, "capacity_bps"), "0");
    }
    let down = match v1::AdminState::try_from(link.admin_state) {
        Ok(v1::AdminState::Unspecified | v1::AdminState::Up) => false,
        Ok(v1::AdminState::Down) => true,
        Err(_) => {
            faults.fault(below(field, "admin_state"), "neither up nor down");
            false
        }
    };
    labels(&link.labels, field, faults);
    let (a, b) = (a?, b?);
    if a.switch == b.switch {
        let reason = format!("{:?} is at both ends", b.switch.as_str());
        faults.fault(below(field, "b.switch_name"), reason);
    }
    if a.address == b.address {
        let reason = format!("{} is at both ends", b.address);
        faults.fault(below(field, "b.address"), reason);
    } else if a.address.is_ipv4() != b.address.is_ipv4() {
        let reason = format!("{} is not of the same family as {}", b.address, a.address);
        faults.fault(below(field, "b.address"), reason);
    }
    let usual = format!("{a}--{b}");
    let name = match link.name.as_str() {
        "" => usual,
        name if name == usual => usual,
        // It would be taken for the name of another link.
        name if name.contains("--") => {
            let reason =
                format!("{name:?} is not {usual:?}, as its ends say: other names have no \"--\"");
            faults.fault(below(field, "name"), reason);
            return None;
        }
        name if is_long_name(name) => name.to_owned(),
        name => {
            faults.fault(below(field, "name"), not_a_long_name(name));
            return None;
        }
    };
    Some(Link {
        name: LinkName::from(name.as_str()),
        a,
        b,
        capacity_bps: link.capacity_bps,
        down,
        labels: link.labels.clone(),
    })
}

fn end(end: Option<&v1::LinkEnd>, field: &str, faults: &mut InvalidFabric) -> Option<LinkEnd> {
    let Some(end) = end else {
        faults.fault(field, "missing");
        return None;
    };
    let interface = interface(&end.interface_name, &below(field, "interface_name"), faults);
    let address = address(&end.address, &below(field, "address"), faults);
    Some(LinkEnd {
        switch: SwitchName::from(end.switch_name.as_str()),
        interface: interface?,
        address: address?,
    })
}

pub(super) fn host_port(
    port: &v1::HostPort,
    field: &str,
    faults: &mut InvalidFabric,
) -> Option<HostPort> {
    if let Some(vni) = port.vni
        && !(1..=VNI_MAX).contains(&vni)
    {
        let reason = format!("{vni} is not a VNI of 1 to {VNI_MAX}");
        faults.fault(below(field, "vni"), reason);
    }
    if port.capacity_bps == Some(0) {
        faults.fault(below(field, "capacity_bps"), "0");
    }
    labels(&port.labels, field, faults);
    let interface = interface(
        &port.interface_name,
        &below(field, "interface_name"),
        faults,
    )?;
    let name = format!("{}:{interface}", port.switch_name);
    if !port.name.is_empty() && port.name != name {
        let reason = format!(
            "{:?} is not {name:?}, as its switch and interface say",
            port.name
        );
        faults.fault(below(field, "name"), reason);
    }
    Some(HostPort {
        name: PortName::from(name.as_str()),
        switch: port.switch_name.as_str().into(),
        interface,
        host: Some(port.host_name.as_str())
            .filter(|host| !host.is_empty())
            .map(Into::into),
        vni: port.vni,
        capacity_bps: port.capacity_bps,
        rail: port.rail,
        labels: port.labels.clone(),
    })
}

fn name(text: &str, field: &str, faults: &mut InvalidFabric) -> Option<()> {
    if !is_name(text) {
        faults.fault(below(field, "name"), not_a_name(text));
        return None;
    }
    Some(())
}

fn interface(text: &str, field: &str, faults: &mut InvalidFabric) -> Option<Arc<str>> {
    if !is_long_name(text) || text.len() > NAME_OCTETS_MAX || text.contains("--") {
        let reason = format!("{text:?} is not the name of an interface");
        faults.fault(field, reason);
        return None;
    }
    Some(text.into())
}

fn agent(text: &str, field: &str, faults: &mut InvalidFabric) -> Option<Arc<str>> {
    if text.is_empty() {
        return None;
    }
    if text.len() > AGENT_OCTETS_MAX {
        let reason = format!("{} octets, at most {AGENT_OCTETS_MAX}", text.len());
        faults.fault(field, reason);
        return None;
    }
    let host_and_port = text.rsplit_once(':').filter(|(host, port)| {
        let bracketed = host.starts_with('[') && host.ends_with(']');
        let plain =
            !host.is_empty() && !host.contains(|c: char| c == ':' || c == '/' || c.is_whitespace());
        (plain || bracketed) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if host_and_port.is_none() {
        faults.fault(field, format_args!("{text:?} is not host:port"));
        return None;
    }
    Some(text.into())
}

fn optional(text: &str, field: &str, faults: &mut InvalidFabric) -> Option<IpAddr> {
    match text {
        "" => None,
        text => address(text, field, faults),
    }
}

fn address(text: &str, field: &str, faults: &mut InvalidFabric) -> Option<IpAddr> {
    let Ok(address) = text.parse::<IpAddr>() else {
        faults.fault(field, format_args!("{text:?} is not an IP address"));
        return None;
    };
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        let reason = format!("{address} is not a unicast address of a switch");
        faults.fault(field, reason);
        return None;
    }
    Some(address)
}

fn labels(labels: &Labels, field: &str, faults: &mut InvalidFabric) {
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
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=NAME_OCTETS_MAX).contains(&text.len()) && !text.contains("--") && text.chars().all(fits)
}

fn not_a_name(text: &str) -> String {
    format!("{text:?} is not a name of letters, digits, '.', '_' and single '-'")
}

/// Whether a text can name an interface, or a link: what switches call their interfaces stands in it.
fn is_long_name(text: &str) -> bool {
    (1..=LONG_NAME_OCTETS_MAX).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic())
}

fn not_a_long_name(text: &str) -> String {
    format!("{text:?} is not a name of 1 to {LONG_NAME_OCTETS_MAX} printable characters of ASCII")
}

/// More would not be read by anybody; the first are enough to find the cause.
const FAULTS_MAX: usize = 100;
/// Characters of a field and of a reason: longer ones are cut.
const FAULT_CHARS_MAX: usize = 200;
/// A DNS name, a colon and a port.
const AGENT_OCTETS_MAX: usize = 260;
/// A DNS label.
const NAME_OCTETS_MAX: usize = 63;
/// Two names of switches and two of interfaces, with what stands between them.
const LONG_NAME_OCTETS_MAX: usize = 256;
/// A fact is a log entry, and every replica holds all of them.
pub(crate) const LABELS_MAX: usize = 32;
/// As long as a value in Kubernetes' annotations seldom is.
const LABEL_OCTETS_MAX: usize = 256;
/// RFC 7348 §5: 24 bits.
const VNI_MAX: u32 = 0xff_ffff;
