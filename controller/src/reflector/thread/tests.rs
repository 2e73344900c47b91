//! Latency of UPDATEs and signs of life: the outputs of the edge that no other test reads.

use std::net::Ipv4Addr;

use weft_bgp::attribute::{AsPath, Attributes, NextHop};
use weft_bgp::capability::AddPathSet;
use weft_bgp::message::DecodeContext;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::unicast::Prefix4;
use weft_bgp::peer::{ClusterId, RouterId};
use weft_bgp::reflect::Local;
use weft_bgp::table::PeerKind;
use weft_store::{Config, Replica};

use super::*;
use crate::ledger::{self, FactKey, Owner};

const PEER: PeerId = PeerId {
    router_id: RouterId(9),
    asn: 64_499,
};
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const CONTEXT: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: false,
    extended_message: false,
    add_path: AddPathSet::NONE,
};

/// A path of a prefix with this metric, or none any more.
fn said(med: Option<u32>) -> Change {
    let prefix = Prefix4::new(ADDRESS, 32).unwrap();
    let mut nlri = Vec::new();
    <Prefix4 as Nlri>::key_octets(&prefix, &mut nlri);
    let keys = vec![FactKey::Route(Family::IPV4_UNICAST, PEER, &nlri).encode()];
    let Some(med) = med else {
        return Change::Delete { keys };
    };
    let attributes = Attributes {
        next_hop: Some(NextHop::V4(ADDRESS)),
        as_path: AsPath::sequence(&[64_499]),
        med: Some(med),
        ..Attributes::default()
    };
    let value = ledger::encode_path(&prefix, &attributes.to_octets(), &mut Vec::new());
    Change::Put { value, keys }
}

#[test]
fn an_update_is_measured_once_what_it_changes_is_in_a_journal() {
    let dir = tempfile::tempdir().unwrap();
    let replica = Replica::open(Config::new(1, vec![1], dir.path(), [1; 16], 1)).unwrap();
    let (reflection, inbox) = channel();
    let reflector = Reflector::new(Local {
        asn: 64_496,
        router_id: RouterId(1),
        cluster_id: ClusterId(2),
    });
    let mut edge = Edge::new(reflector, replica.view(), inbox);
    let key = ExportKey::new(PeerKind::Ebgp, &CONTEXT);
    let group = edge.reflector.group(Family::IPV4_UNICAST, &key);
    let _feed = edge.feed(group);
    let owner = Owner {
        replica: 1,
        epoch: 1,
        address: ADDRESS.into(),
        kind: PeerKind::Ebgp,
        fresh_from: 0,
        returned: None,
        retention: None,
    };
    let owned = Change::Put {
        value: owner.encode(),
        keys: vec![FactKey::Owner(PEER).encode()],
    };
    let now = Instant::now().into_std();
    let mut index = 0;
    let mut measured = |change: Change, taken| {
        index += 1;
        let applied = Applied {
            index,
            term: 1,
            changes: vec![change],
        };
        edge.apply(Entry { applied, taken }).unwrap();
        edge.poll();
        let (counts, above, _) = reflection.latency().totals();
        counts.iter().sum::<u64>() + above
    };
    assert_eq!(measured(owned, None), 0);
    assert_eq!(measured(said(Some(1)), Some(now)), 1);
    assert_eq!(measured(said(Some(2)), None), 1, "of another replica");
    assert_eq!(measured(said(Some(2)), Some(now)), 1, "nobody hears of it");
    assert_eq!(measured(said(None), Some(now)), 2);
}

/// In a storm the thread takes many inputs, some of them long, before it looks for new ones.
#[test]
fn each_input_is_a_sign_of_life() {
    let dir = tempfile::tempdir().unwrap();
    let replica = Replica::open(Config::new(1, vec![1], dir.path(), [1; 16], 1)).unwrap();
    let (reflection, inbox) = channel();
    let reflector = Reflector::new(Local {
        asn: 64_496,
        router_id: RouterId(1),
        cluster_id: ClusterId(2),
    });
    let edge = Edge::new(reflector, replica.view(), inbox);
    let (asked, shown) = (
        Arc::clone(reflection.pulse()),
        Arc::clone(reflection.pulse()),
    );
    let now = Instant::now();
    let ask: Query = Box::new(move |_| assert!(asked.ask(now)));
    let show: Query = Box::new(move |_| {
        let later = now + Duration::from_secs(60);
        assert_eq!(shown.silence(later), Duration::ZERO);
    });
    let inputs = reflection.inputs();
    for input in [Input::Query(ask), Input::Query(show), Input::Stop] {
        assert!(inputs.try_send(input).is_ok());
    }
    edge.drive().unwrap();
}

/// Whoever proposed something and asks then must find it, however many entries were before it.
#[test]
fn a_question_finds_all_entries_that_were_there_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let replica = Replica::open(Config::new(1, vec![1], dir.path(), [1; 16], 1)).unwrap();
    let (reflection, inbox) = channel();
    let reflector = Reflector::new(Local {
        asn: 64_496,
        router_id: RouterId(1),
        cluster_id: ClusterId(2),
    });
    let mut edge = Edge::new(reflector, replica.view(), inbox);
    edge.reset().unwrap();
    let first = edge.reflector.index() + 1;
    let (inputs, entries) = (reflection.inputs(), reflection.entries());
    let entry = |index| {
        let applied = Applied {
            index,
            term: 1,
            changes: Vec::new(),
        };
        Entry {
            applied,
            taken: None,
        }
    };
    let (seen, indexes) = std::sync::mpsc::channel();
    let last = first + TAKEN_MAX as u64 * 2;
    for index in first..=last {
        assert!(entries.try_send(entry(index)).is_ok());
    }
    for later in 1..=3 {
        let (seen, entries) = (seen.clone(), entries.clone());
        let look: Query = Box::new(move |reflector| {
            seen.send(reflector.index()).unwrap();
            // An entry that comes now is before the questions that are not looked at yet.
            assert!(entries.try_send(entry(last + later)).is_ok());
        });
        assert!(inputs.try_send(Input::Query(look)).is_ok());
    }
    assert!(inputs.try_send(Input::Stop).is_ok());
    edge.drive().unwrap();
    let indexes: Vec<u64> = indexes.try_iter().collect();
    assert_eq!(indexes, [last, last + 1, last + 2]);
}
