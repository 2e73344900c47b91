//! Reads a fact from its message: what it takes to be one at all.
//!
//! It collects every fault instead of stopping at the first, and gives what is left of the fact for others to be compared
//! with. It refuses to know what a fact may not be besides: what is stored stays a fact, whatever is asked of new ones.

use std::net::IpAddr;

use weft_proto::v1;

use super::{
    Host, HostPort, InvalidFabric, Link, LinkEnd, Role, Switch, SwitchLimits, UdpPortFormula, below,
};

pub(super) fn switch(switch: &v1::Switch, field: &str, faults: &mut InvalidFabric) -> Switch {
    let role = match v1::SwitchRole::try_from(switch.role) {
        Ok(v1::SwitchRole::Leaf) => Role::Leaf,
        Ok(v1::SwitchRole::Spine) => Role::Spine,
        Ok(v1::SwitchRole::Unspecified) | Err(_) => {
            faults.fault(below(field, "role"), "neither leaf nor spine");
            // It still exists for the links that name it.
            Role::Spine
        }
    };
    let server = |address: &str| (!address.is_empty()).then(|| address.into());
    let limits = switch.limits.unwrap_or_default();
    Switch {
        down: is_down(switch.admin_state, field, faults),
        limits: SwitchLimits {
            group_members: limits.group_members,
            group_width: limits.group_width,
            pins: limits.pins,
            groups: limits.groups,
        },
        name: switch.name.as_str().into(),
        role,
        vtep: optional(&switch.vtep_address, &below(field, "vtep_address"), faults),
        agent: server(&switch.agent_address),
        gnmi: server(&switch.gnmi_address),
        tls: switch.tls,
        peer: optional(&switch.peer_address, &below(field, "peer_address"), faults),
        link_bandwidth: switch.link_bandwidth_weights,
        tier: switch.tier,
        plane: switch.plane,
        rail: switch.rail,
        pod: switch.pod.clone(),
        labels: switch.labels.clone(),
    }
}

pub(super) fn host(host: &v1::Host) -> Host {
    Host {
        name: host.name.as_str().into(),
        labels: host.labels.clone(),
    }
}

pub(super) fn link(link: &v1::Link, field: &str, faults: &mut InvalidFabric) -> Link {
    let name = match link.name.as_str() {
        "" => usual_link_name(link).unwrap_or_default(),
        name => name.to_owned(),
    };
    Link {
        name: name.as_str().into(),
        a: end(link.a.as_ref(), &below(field, "a"), faults),
        b: end(link.b.as_ref(), &below(field, "b"), faults),
        capacity_bps: link.capacity_bps,
        down: is_down(link.admin_state, field, faults),
        derating_percent: link.derating_percent,
        labels: link.labels.clone(),
    }
}

fn is_down(state: i32, field: &str, faults: &mut InvalidFabric) -> bool {
    match v1::AdminState::try_from(state) {
        Ok(v1::AdminState::Unspecified | v1::AdminState::Up) => false,
        Ok(v1::AdminState::Down) => true,
        Err(_) => {
            faults.fault(below(field, "admin_state"), "neither up nor down");
            false
        }
    }
}

fn end(end: Option<&v1::LinkEnd>, field: &str, faults: &mut InvalidFabric) -> LinkEnd {
    let address = match end {
        Some(end) => optional(&end.address, &below(field, "address"), faults),
        None => {
            faults.fault(field, "missing");
            None
        }
    };
    let end = end.cloned().unwrap_or_default();
    LinkEnd {
        switch: end.switch_name.as_str().into(),
        interface: end.interface_name.into(),
        address,
    }
}

pub(super) fn host_port(port: &v1::HostPort, field: &str, faults: &mut InvalidFabric) -> HostPort {
    let name = match port.name.as_str() {
        "" => usual_port_name(port).unwrap_or_default(),
        name => name.to_owned(),
    };
    let host = port.host_name.as_str();
    let addresses = port.addresses.iter().enumerate().filter_map(|(at, text)| {
        let field = below(field, &format!("addresses[{at}]"));
        address(text, &field, faults)
    });
    let addresses = addresses.collect();
    let udp_port_formula = match v1::UdpPortFormula::try_from(port.udp_port_formula) {
        Ok(formula) => UdpPortFormula::read(formula),
        Err(_) => {
            faults.fault(below(field, "udp_port_formula"), "not a formula");
            None
        }
    };
    HostPort {
        addresses,
        udp_port_formula,
        name: name.as_str().into(),
        switch: port.switch_name.as_str().into(),
        interface: port.interface_name.as_str().into(),
        host: (!host.is_empty()).then(|| host.into()),
        vni: port.vni,
        capacity_bps: port.capacity_bps,
        rail: port.rail,
        labels: port.labels.clone(),
    }
}

/// The name of a link that was given none; None if its ends do not say it.
pub(super) fn usual_link_name(link: &v1::Link) -> Option<String> {
    let end = |end: &v1::LinkEnd| interface(&end.switch_name, &end.interface_name);
    let (a, b) = (end(link.a.as_ref()?)?, end(link.b.as_ref()?)?);
    Some(format!("{a}--{b}"))
}

/// The name of a host port; None if it does not say where it is.
pub(super) fn usual_port_name(port: &v1::HostPort) -> Option<String> {
    interface(&port.switch_name, &port.interface_name)
}

fn interface(switch: &str, interface: &str) -> Option<String> {
    (!switch.is_empty() && !interface.is_empty()).then(|| format!("{switch}:{interface}"))
}

fn optional(text: &str, field: &str, faults: &mut InvalidFabric) -> Option<IpAddr> {
    match text {
        "" => None,
        text => address(text, field, faults),
    }
}

fn address(text: &str, field: &str, faults: &mut InvalidFabric) -> Option<IpAddr> {
    let address = text.parse().ok();
    if address.is_none() {
        faults.fault(field, format_args!("{text:?} is not an IP address"));
    }
    address
}
