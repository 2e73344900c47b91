//! Weights in a stream: they come with the family, when they change, and within a refresh.

use std::net::{IpAddr, Ipv4Addr};

use bytes::BytesMut;
use ipnet::IpNet;
use weft_bgp::capability::AddPathSet;
use weft_bgp::frame;
use weft_bgp::message::{DecodeContext, Message};
use weft_bgp::reflect::LinkBandwidthForm;

use super::*;
use crate::southbound::intent::{Members, NextHop, Routes};
use crate::southbound::link_bandwidth::Dialect;
use crate::speaker::weights::{Weighted, Weights};

/// What a leaf is told of weights by each of these octets: how many prefixes are announced, and withdrawn.
fn told(octets: &[Bytes]) -> Vec<(usize, usize)> {
    let context = DecodeContext {
        add_path: AddPathSet::of([Family::IPV4_UNICAST]),
        ..CONTEXT
    };
    let each = octets.iter().map(|octets| {
        let mut octets = BytesMut::from(&octets[..]);
        let Ok(Some(frame)) = frame::split(&mut octets, frame::MAX_LEN) else {
            return (0, 0); // a text of these tests
        };
        let Ok(Message::Update(update)) = Message::decode(frame, &context) else {
            panic!("an UPDATE");
        };
        (update.announced.len(), update.withdrawn.len())
    });
    each.collect()
}

fn weighted(vteps: &[u8]) -> Weighted {
    let hop = NextHop {
        address: Some([10, 0, 1, 0].into()),
        interface: "eth1".into(),
    };
    let members: Arc<Members> = Arc::new([(hop, 3)].into());
    let prefix = |vtep: &u8| {
        (
            IpNet::from(IpAddr::from([10, 255, 0, *vtep])),
            Arc::clone(&members),
        )
    };
    let routes = Routes {
        prefixes: vteps.iter().map(prefix).collect(),
        ..Routes::default()
    };
    [(LEAF, Arc::new(routes))].into()
}

fn own(weights: &Arc<Weights>) -> Own {
    let dialect = Dialect {
        family: Family::IPV4_UNICAST,
        asn: 64_496,
        context: CONTEXT,
        max_len: frame::MAX_LEN,
        form: LinkBandwidthForm::AsIs,
    };
    Own::new(weights, LEAF, dialect)
}

#[tokio::test]
async fn weights_come_with_the_family_when_they_change_and_within_a_refresh() {
    let (feed, weights) = (feed(), Arc::<Weights>::default());
    weights.set(weighted(&[2, 3]));
    let mut writer = begun(Stream {
        own: Some(own(&weights)),
        ..stream(&feed, segment(1, "image"))
    });
    let first = written(&mut writer);
    assert_eq!(
        (told(&first), &first[1]),
        (vec![(2, 0), (0, 0)], &Bytes::from("image"))
    );
    assert_eq!(written(&mut writer), Vec::<Bytes>::new());

    let (_orders, mut inbox) = mpsc::channel(1);
    weights.set(weighted(&[3, 4]));
    assert!(
        matches!(writer.wait(&mut inbox).await, Some(None)),
        "it wakes"
    );
    assert_eq!(told(&written(&mut writer)), [(1, 0), (0, 1)]);

    // Between BoRR and EoRR all of it is said again, or the peer would drop it. RFC 7313 §4.
    writer.take(again(segment(1, "image"), (feed.end(), feed.end()), true));
    let refreshed = written(&mut writer);
    assert_eq!(refreshed[..2], ["BoRR", "preface"]);
    assert_eq!(told(&refreshed[2..3]), [(2, 0)]);
    assert_eq!(refreshed[3..], ["image", "EoRR"]);

    // Who fell behind was told of weights all the same.
    writer.take(Order::Begin(Box::new(stream(
        &feed,
        segment(2, "catch up"),
    ))));
    assert_eq!(written(&mut writer), ["catch up"]);
    weights.set(Weighted::new());
    assert_eq!(told(&written(&mut writer)), [(0, 2)]);
}

const LEAF: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 17));

const CONTEXT: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: true,
    extended_message: false,
    add_path: AddPathSet::NONE,
};
