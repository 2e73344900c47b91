//! The declared fabric as releases before the facts of `t` wrote it, in one piece: what the first leader of this release
//! makes of it. Knows no switch.

use bytes::Bytes;
use prost::Message;
use weft_proto::fabric::v1 as old;
use weft_proto::v1;
use weft_store::{Batch, Condition};

use crate::fabric::topology::{Declaration, Fact, Topology};
use crate::ledger::{self, FactKey, Head};

/// Batches that make facts of it, each for a fabric of which no other release of facts knows anything yet: with the last one
/// it goes. None if it is not understood: then it stays until another fabric is applied.
pub(super) fn batches(octets: &Bytes) -> Vec<Batch> {
    let read = old::Fabric::decode(&octets[..]).map_err(|error| error.to_string());
    let read = read.and_then(|fabric| {
        let revision = fabric.revision;
        let topology = Topology::new(&declaration(fabric)).map_err(|error| error.to_string())?;
        Ok((revision, topology))
    });
    let (revision, topology) = match read {
        Ok(read) => read,
        Err(error) => {
            tracing::error!(%error, "the committed fabric of an earlier release is not understood; apply one anew");
            return Vec::new();
        }
    };
    let facts: Vec<Fact> = topology.facts().collect();
    let untouched = Condition::Equals {
        key: FactKey::Head.encode(),
        value: None,
    };
    let put = |fact: &Fact| {
        let key = FactKey::Declared(fact.kind(), fact.name());
        ledger::put(&key, fact.encode())
    };
    let parts = facts.chunks(PART_MAX).map(|part| Batch {
        conditions: vec![untouched.clone()],
        ops: part.iter().map(put).collect(),
    });
    let mut batches: Vec<Batch> = parts.collect();
    let head = Head {
        generation: revision.max(1),
        applying: 0,
        display_name: topology.display_name().to_owned(),
    };
    batches.push(Batch {
        conditions: vec![untouched],
        ops: vec![
            ledger::put(&FactKey::Head, head.encode()),
            ledger::delete(&FactKey::Fabric),
        ],
    });
    batches
}

/// What was declared. A host was a text to show; one that is no name becomes a label of its port.
fn declaration(fabric: old::Fabric) -> Declaration {
    let ports = fabric.host_ports.into_iter().map(host_port);
    let host_ports: Vec<_> = ports.collect();
    let mut hosts: Vec<&str> = host_ports
        .iter()
        .map(|port| port.host_name.as_str())
        .collect();
    hosts.retain(|host| !host.is_empty());
    hosts.sort_unstable();
    hosts.dedup();
    Declaration {
        display_name: fabric.name,
        hosts: hosts.into_iter().map(host).collect(),
        switches: fabric.switches.into_iter().map(switch).collect(),
        links: fabric.links.into_iter().map(link).collect(),
        host_ports,
    }
}

fn host(name: &str) -> v1::Host {
    v1::Host {
        name: name.to_owned(),
        ..v1::Host::default()
    }
}

fn switch(switch: old::Switch) -> v1::Switch {
    v1::Switch {
        // The numbers of the roles are the same.
        role: switch.role,
        name: switch.name,
        vtep_address: switch.vtep_address,
        agent_address: switch.agent_address,
        peer_address: switch.peer_address,
        ..v1::Switch::default()
    }
}

fn link(link: old::Link) -> v1::Link {
    let end = |end: old::LinkEnd| v1::LinkEnd {
        switch_name: end.switch,
        interface_name: end.interface,
        address: end.address,
    };
    let state = match link.down {
        true => v1::AdminState::Down,
        false => v1::AdminState::Up,
    };
    v1::Link {
        a: link.a.map(end),
        b: link.b.map(end),
        capacity_bps: link.capacity_bps,
        admin_state: state.into(),
        ..v1::Link::default()
    }
}

fn host_port(port: old::HostPort) -> v1::HostPort {
    let mut new = v1::HostPort {
        switch_name: port.switch,
        interface_name: port.interface,
        vni: Some(port.vni).filter(|vni| *vni > 0),
        capacity_bps: Some(port.capacity_bps).filter(|bps| *bps > 0),
        ..v1::HostPort::default()
    };
    match Fact::read(&host(&port.host)) {
        Ok(_) => new.host_name = port.host,
        Err(_) if port.host.is_empty() => {}
        Err(_) => {
            let text = port.host.chars().take(SHOWN_MAX).collect();
            new.labels.insert("host".to_owned(), text);
        }
    }
    new
}

/// Facts of a batch.
const PART_MAX: usize = 400;
/// Characters of a text that become a label, which has 256 octets at most.
const SHOWN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use weft_store::Op;

    use super::*;
    use crate::fabric::topology::Kind;

    #[test]
    fn a_fabric_in_one_piece_becomes_facts_and_goes() {
        let end = |switch: &str, address: &str| {
            Some(old::LinkEnd {
                switch: switch.to_owned(),
                interface: "eth1".to_owned(),
                address: address.to_owned(),
            })
        };
        let port = |interface: &str, host: &str| old::HostPort {
            switch: "leaf1".to_owned(),
            interface: interface.to_owned(),
            host: host.to_owned(),
            ..old::HostPort::default()
        };
        let fabric = old::Fabric {
            name: "example".to_owned(),
            switches: vec![
                old::Switch {
                    name: "leaf1".to_owned(),
                    role: old::Role::Leaf.into(),
                    vtep_address: "198.51.100.1".to_owned(),
                    ..old::Switch::default()
                },
                old::Switch {
                    name: "spine1".to_owned(),
                    role: old::Role::Spine.into(),
                    ..old::Switch::default()
                },
            ],
            links: vec![old::Link {
                a: end("leaf1", "192.0.2.0"),
                b: end("spine1", "192.0.2.1"),
                capacity_bps: 1,
                down: true,
            }],
            host_ports: vec![
                port("eth2", "h1"),
                port("eth3", "h1"),
                port("eth4", "host 7"),
            ],
            revision: 3,
        };
        let octets = Bytes::from(fabric.encode_to_vec());
        let batches = batches(&octets);
        let ops: Vec<&Op> = batches.iter().flat_map(|batch| &batch.ops).collect();
        let mut topology = Topology::default();
        for op in &ops {
            if let Op::Put { value, keys } = op
                && let Some(FactKey::Declared(kind, _)) = FactKey::decode(&keys[0])
            {
                topology.put(Fact::decode(kind, value).unwrap());
            }
        }
        let counts = Kind::ALL.map(|kind| topology.count(kind));
        assert_eq!(counts, [2, 1, 1, 3]);
        assert!(topology.links().all(|link| link.down));
        let Some(Op::Delete { keys }) = ops.last() else {
            panic!("it stays");
        };
        assert_eq!(FactKey::decode(&keys[0]), Some(FactKey::Fabric));
        let untouched = |batch: &Batch| {
            let Condition::Equals { key, value } = &batch.conditions[0];
            FactKey::decode(key) == Some(FactKey::Head) && value.is_none()
        };
        assert!(batches.iter().all(untouched));
        let generation = ops.iter().find_map(|op| match op {
            Op::Put { value, keys } if keys[0] == FactKey::Head.encode() => Head::decode(value),
            _ => None,
        });
        assert_eq!(generation.unwrap().generation, 3);
    }

    #[test]
    fn a_fabric_that_is_not_understood_stays() {
        assert!(batches(&Bytes::from_static(b"\xff\xff")).is_empty());
    }
}
