//! The declared fabric as releases before the facts of `t` wrote it, in one piece: what the first leader of this release
//! makes of it. Knows no switch.

use bytes::Bytes;
use prost::Message;
use weft_proto::fabric::v1 as old;
use weft_proto::v1;
use weft_store::{Batch, Condition, Op};

use crate::fabric::topology::{Declaration, Fact, InvalidFabric, Resource, Topology};
use crate::ledger::{self, FactKey, Head};

/// Batches that make facts of it, each for the fabric as the one before left it; with the last one what was in one piece
/// goes. None if it is not understood: then it stays until another fabric is applied.
pub(super) fn batches(octets: &Bytes) -> Vec<Batch> {
    let read = old::Fabric::decode(&octets[..]).map_err(|error| error.to_string());
    let read = read.and_then(|fabric| {
        let revision = fabric.revision;
        let topology = topology(&declaration(fabric)).map_err(|error| error.to_string())?;
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
    let mut parts: Vec<&[Fact]> = facts.chunks(PART_MAX).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    let count = parts.len();
    let mut before = None;
    let mut batches = Vec::with_capacity(count);
    for (part, generation) in parts.into_iter().zip(revision.max(1)..) {
        let last = batches.len() + 1 == count;
        let head = Head {
            generation,
            applying: if last { 0 } else { MARK },
            display_name: topology.display_name().to_owned(),
        };
        let mut batch = batch(before.as_ref(), &head, part);
        if last {
            batch.ops.push(ledger::delete(&FactKey::Fabric));
        }
        batches.push(batch);
        before = Some(head);
    }
    batches
}

/// Those that are still to be made, if the fabric is as one of them found it: else somebody declares another one.
pub(super) fn left<'a>(batches: &'a [Batch], head: Option<&Head>) -> &'a [Batch] {
    let found = is_as(head);
    let next = batches.iter().position(|it| it.conditions[0] == found);
    next.map_or(&[], |next| &batches[next..])
}

fn batch(before: Option<&Head>, after: &Head, facts: &[Fact]) -> Batch {
    let put = |fact: &Fact| {
        let key = FactKey::Declared(fact.kind(), fact.name());
        ledger::put(&key, fact.encode())
    };
    let mut ops: Vec<Op> = facts.iter().map(put).collect();
    ops.push(ledger::put(&FactKey::Head, after.encode()));
    Batch {
        conditions: vec![is_as(before)],
        ops,
    }
}

/// No other change of the fabric was made since: each has another head.
fn is_as(head: Option<&Head>) -> Condition {
    Condition::Equals {
        key: FactKey::Head.encode(),
        value: head.map(Head::encode),
    }
}

/// What was stored, also what nobody may declare like that today.
fn topology(declaration: &Declaration) -> Result<Topology, InvalidFabric> {
    if let Err(faults) = Topology::new(declaration) {
        tracing::warn!(
            %faults,
            "the fabric of an earlier release is taken as it is; whoever changes these resources has to mend them"
        );
    }
    let mut topology = Topology::default().with_head(&declaration.display_name, 0);
    put_all(&declaration.switches, &mut topology)?;
    put_all(&declaration.hosts, &mut topology)?;
    put_all(&declaration.links, &mut topology)?;
    put_all(&declaration.host_ports, &mut topology)?;
    Ok(topology)
}

fn put_all<R: Resource>(messages: &[R], topology: &mut Topology) -> Result<(), InvalidFabric> {
    for message in messages {
        topology.put(Fact::stored(message)?);
    }
    Ok(())
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
    match Fact::declared(&host(&port.host)) {
        Ok(_) => new.host_name = port.host,
        Err(_) if port.host.is_empty() => {}
        Err(_) => {
            let text = port.host.chars().take(SHOWN_MAX).collect();
            new.labels.insert("host".to_owned(), text);
        }
    }
    new
}

/// Says that the fabric is being written, as an ApplyFabric does: other changes wait, and one that finds that nobody goes
/// on takes its place.
const MARK: u64 = u64::MAX;
/// Facts of a batch.
const PART_MAX: usize = 400;
/// Characters of a text that become a label, which has 256 octets at most.
const SHOWN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::topology::Kind;

    /// What a replica knows after some batches, in whatever order they came: the facts, and the fabric as such.
    fn made<'a>(batches: impl IntoIterator<Item = &'a Batch>) -> (Topology, Option<Head>, bool) {
        let (mut topology, mut head, mut is_gone) = (Topology::default(), None, false);
        for batch in batches {
            if batch.conditions[0] != is_as(head.as_ref()) {
                continue;
            }
            for op in &batch.ops {
                match op {
                    Op::Put { value, keys } => match FactKey::decode(&keys[0]) {
                        Some(FactKey::Declared(kind, _)) => {
                            topology.put(Fact::decode(kind, value).unwrap());
                        }
                        Some(FactKey::Head) => head = Head::decode(value),
                        other => panic!("{other:?}"),
                    },
                    Op::Delete { keys } => {
                        assert_eq!(FactKey::decode(&keys[0]), Some(FactKey::Fabric));
                        is_gone = true;
                    }
                    Op::DeletePrefix { .. } => panic!("it deletes what it does not know"),
                }
            }
        }
        (topology, head, is_gone)
    }

    /// A fabric of so many spines and nothing else.
    fn spines(spines: usize, display_name: &str) -> Bytes {
        let spine = |spine: usize| old::Switch {
            name: format!("spine{spine}"),
            role: old::Role::Spine.into(),
            ..old::Switch::default()
        };
        let fabric = old::Fabric {
            name: display_name.to_owned(),
            switches: (0..spines).map(spine).collect(),
            revision: 3,
            ..old::Fabric::default()
        };
        fabric.encode_to_vec().into()
    }

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
        let (topology, head, is_gone) = made(&batches);
        let counts = Kind::ALL.map(|kind| topology.count(kind));
        assert_eq!(counts, [2, 1, 1, 3, 0]);
        assert!(topology.links().all(|link| link.down));
        let head = head.unwrap();
        assert_eq!((head.generation, head.applying, is_gone), (3, 0, true));
    }

    /// Another leader goes on where the one before stopped; whoever declares a fabric meanwhile takes its place.
    #[test]
    fn a_large_one_is_written_in_batches_of_which_each_needs_the_one_before() {
        let batches = batches(&spines(2 * PART_MAX + 1, "example"));
        assert_eq!(batches.len(), 3);
        let (_, head, is_gone) = made(&batches[..1]);
        assert_eq!(left(&batches, None), batches);
        assert_eq!(left(&batches, head.as_ref()), &batches[1..]);
        let begun = head.unwrap();
        assert_eq!(
            (begun.generation, begun.applying, is_gone),
            (3, MARK, false)
        );
        let other = Head {
            generation: begun.generation + 1,
            applying: 7,
            ..begun
        };
        assert_eq!(left(&batches, Some(&other)), []);
        let (topology, head, is_gone) = made(&batches);
        assert_eq!(topology.count(Kind::Switch), 2 * PART_MAX + 1);
        let head = head.unwrap();
        assert_eq!((head.generation, head.applying, is_gone), (5, 0, true));
        // Made again, they change nothing.
        let twice = made(batches.iter().chain(&batches));
        assert_eq!(twice.1, Some(head));
    }

    #[test]
    fn an_empty_one_has_a_name() {
        let batches = batches(&spines(0, "example"));
        let (topology, head, is_gone) = made(&batches);
        assert_eq!((topology.count(Kind::Switch), is_gone), (0, true));
        assert_eq!(head.unwrap().display_name, "example");
    }

    /// Earlier releases had no limit for the name of an interface, the name to show and the address of an agent.
    #[test]
    fn what_is_longer_than_anybody_may_declare_today_is_taken() {
        let long = "葉".repeat(300);
        let end = |switch: &str, address: &str| {
            Some(old::LinkEnd {
                switch: switch.to_owned(),
                interface: long.clone(),
                address: address.to_owned(),
            })
        };
        let switch = |name: &str| old::Switch {
            name: name.to_owned(),
            role: old::Role::Spine.into(),
            agent_address: format!("{name}.{long}:1"),
            ..old::Switch::default()
        };
        let fabric = old::Fabric {
            name: long.clone(),
            switches: vec![switch("spine1"), switch("spine2")],
            links: vec![old::Link {
                a: end("spine1", "192.0.2.0"),
                b: end("spine2", "192.0.2.1"),
                capacity_bps: 1,
                ..old::Link::default()
            }],
            host_ports: vec![old::HostPort {
                switch: "spine1".to_owned(),
                interface: format!("{long}2"),
                ..old::HostPort::default()
            }],
            ..old::Fabric::default()
        };
        let batches = batches(&fabric.encode_to_vec().into());
        let (topology, head, is_gone) = made(&batches);
        let counts = Kind::ALL.map(|kind| topology.count(kind));
        assert_eq!((counts, is_gone), ([2, 0, 1, 1, 0], true));
        let link = format!("spine1:{long}--spine2:{long}");
        assert!(topology.link(&link).is_some());
        assert_eq!(head.unwrap().display_name, long);
    }

    #[test]
    fn a_fabric_that_is_not_understood_stays() {
        assert!(batches(&Bytes::from_static(b"\xff\xff")).is_empty());
    }
}
