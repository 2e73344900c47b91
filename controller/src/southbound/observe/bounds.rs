//! Bounds of a status: a weft-agent keeps to them, any other server has to. It refuses to know what a status means.

use prost::Message as _;
use weft_proto::agent::v1;
use weft_telemetry::text::{NAME_MAX, SENTENCE_MAX, make_plain};

/// Cuts lists and texts of a status to their bounds, and drops prefixes beyond theirs. True if a list was cut or a prefix dropped.
pub(super) fn cut(status: &mut v1::Status) -> bool {
    make_plain(&mut status.version, NAME_MAX);
    if let Some(primary) = &mut status.primary {
        make_plain(&mut primary.address, NAME_MAX);
    }
    let mut is_cut = shorten(&mut status.conditions, CONDITIONS_MAX);
    for condition in &mut status.conditions {
        make_plain(&mut condition.message, SENTENCE_MAX);
    }
    is_cut |= shorten(&mut status.interfaces, INTERFACES_MAX);
    for interface in &mut status.interfaces {
        make_plain(&mut interface.name, NAME_MAX);
        is_cut |= shorten(&mut interface.addresses, ADDRESSES_MAX);
        for address in &mut interface.addresses {
            make_plain(address, NAME_MAX);
        }
    }
    let before = status.prefixes.len();
    status.prefixes.retain(is_bounded);
    for prefix in &mut status.prefixes {
        make_plain(&mut prefix.reason, SENTENCE_MAX);
        for next_hop in prefix.wanted.iter_mut().chain(&mut prefix.own) {
            make_plain(&mut next_hop.address, NAME_MAX);
            make_plain(&mut next_hop.interface_name, NAME_MAX);
        }
    }
    is_cut || status.prefixes.len() < before
}

/// Octets of a status in which so many prefixes are asked for.
pub(super) fn message_octets_max(prefixes: usize) -> usize {
    let octets = prefixes.saturating_mul(PREFIX_OCTETS_MEAN);
    octets.saturating_add(REST_OCTETS_MAX).min(OCTETS_MAX)
}

fn shorten<T>(list: &mut Vec<T>, max: usize) -> bool {
    let is_long = list.len() > max;
    list.truncate(max);
    is_long
}

fn is_bounded(prefix: &v1::Prefix) -> bool {
    let next_hops = prefix.wanted.len().max(prefix.own.len());
    next_hops <= NEXT_HOPS_MAX && prefix.encoded_len() <= PREFIX_OCTETS_MAX
}

/// Conditions: a weft-agent has one of each of 17 kinds.
const CONDITIONS_MAX: usize = 64;
/// Interfaces, with VLANs and VXLAN devices. Those beyond are not seen.
const INTERFACES_MAX: usize = 4_096;
/// Addresses of an interface. Those beyond are not seen.
const ADDRESSES_MAX: usize = 64;
/// Next hops of a prefix, programmed or the switch's own: four times the uplinks of a leaf of 128 ports.
const NEXT_HOPS_MAX: usize = 512;
/// Octets of a prefix: 256 next hops, programmed and the switch's own, of 32 octets each.
const PREFIX_OCTETS_MAX: usize = 16 * 1024;
/// Octets of a prefix in a status of many: those of a leaf with 128 uplinks.
const PREFIX_OCTETS_MEAN: usize = PREFIX_OCTETS_MAX / 2;
/// Octets of a status beside its prefixes: 4,096 interfaces of 100 octets, and room.
const REST_OCTETS_MAX: usize = 512 * 1024;
/// Octets of a status, however many prefixes are asked for. A longer one ends the stream.
const OCTETS_MAX: usize = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn next_hops(count: usize) -> Vec<v1::NextHop> {
        vec![v1::NextHop::default(); count]
    }

    #[test]
    fn a_status_is_cut_to_its_bounds() {
        let interface = v1::Interface {
            name: "eth1\n".to_owned(),
            addresses: vec!["192.0.2.1/31".to_owned(); ADDRESSES_MAX + 1],
            ..v1::Interface::default()
        };
        let condition = v1::Condition {
            message: "a\nb".repeat(1 << 20),
            ..v1::Condition::default()
        };
        let prefix = |wanted, reason: usize| v1::Prefix {
            wanted: next_hops(wanted),
            reason: "x".repeat(reason),
            ..v1::Prefix::default()
        };
        let mut status = v1::Status {
            version: "1\u{202e}".to_owned(),
            conditions: vec![condition; CONDITIONS_MAX + 1],
            interfaces: vec![interface; INTERFACES_MAX + 1],
            prefixes: vec![
                prefix(NEXT_HOPS_MAX, 0),
                prefix(NEXT_HOPS_MAX + 1, 0),
                prefix(1, PREFIX_OCTETS_MAX),
                prefix(1, PREFIX_OCTETS_MAX / 2),
            ],
            ..v1::Status::default()
        };
        assert!(cut(&mut status));
        assert_eq!(status.version, "1\\u{202e}");
        assert_eq!(status.conditions.len(), CONDITIONS_MAX);
        assert!(status.conditions[0].message.starts_with("a\\u{a}ba"));
        assert!(status.conditions[0].message.len() < SENTENCE_MAX + 4);
        assert_eq!(status.interfaces.len(), INTERFACES_MAX);
        assert_eq!(status.interfaces[0].name, "eth1\\u{a}");
        assert_eq!(status.interfaces[0].addresses.len(), ADDRESSES_MAX);
        let kept: Vec<_> = status.prefixes.iter().map(|it| it.wanted.len()).collect();
        assert_eq!(kept, [NEXT_HOPS_MAX, 1]);
        let same = status.clone();
        status.conditions.clear();
        assert!(!cut(&mut status));
        assert_eq!(status.prefixes[0], same.prefixes[0]);
    }

    #[test]
    fn a_status_of_a_whole_fabric_fits() {
        // An address and an interface of 15 octets each.
        let next_hop = v1::NextHop {
            address: "255.255.255.255".to_owned(),
            interface_name: "x".repeat(11),
            weight: 1,
            in_use: true,
        };
        let prefix = v1::Prefix {
            prefix: "255.255.255.255/32".to_owned(),
            wanted: vec![next_hop.clone(); 64],
            own: vec![next_hop; 64],
            ..v1::Prefix::default()
        };
        let mut status = v1::Status {
            prefixes: vec![prefix; 1_000],
            ..v1::Status::default()
        };
        assert!(status.encoded_len() <= message_octets_max(1_000));
        assert!(!cut(&mut status));
        assert_eq!(message_octets_max(usize::MAX), OCTETS_MAX);
    }
}
