//! What a leaf that hears the messages has, whatever it was told before.

use bytes::BytesMut;
use proptest::collection::btree_map;
use proptest::prelude::*;
use weft_bgp::attribute::ExtendedCommunity;
use weft_bgp::frame;
use weft_bgp::nlri;

use super::*;
use crate::southbound::intent::Members;

fn dialect(family: Family, ibgp: bool) -> Dialect {
    Dialect {
        family,
        asn: 64_496,
        context: DecodeContext {
            four_octet_as: true,
            ibgp,
            extended_message: false,
            add_path: AddPathSet::of([family]),
        },
        max_len: frame::MAX_LEN,
        form: LinkBandwidthForm::AsIs,
    }
}

/// A leaf's Adj-RIB-In: what it knows of each prefix and path identifier.
#[derive(Debug, Default, PartialEq)]
struct Leaf(BTreeMap<(IpNet, u32), Attributes>);

impl Leaf {
    fn hear(&mut self, messages: &[Bytes], dialect: &Dialect) {
        for octets in messages {
            let mut octets = BytesMut::from(&octets[..]);
            let frame = frame::split(&mut octets, dialect.max_len).unwrap().unwrap();
            assert!(octets.is_empty(), "one message");
            let message = Message::decode(frame, &dialect.context).unwrap();
            let Message::Update(update) = message else {
                panic!("an UPDATE");
            };
            assert_eq!(update.faults, []);
            self.take(*update);
        }
    }

    fn take(&mut self, update: Update) {
        let net = |prefix: &Prefix4| IpNet::new(prefix.addr.into(), prefix.len).unwrap();
        for (id, prefix) in &update.withdrawn {
            assert!(self.0.remove(&(net(prefix), *id)).is_some(), "it was told");
        }
        for prefix in each(update.unreach.map(|it| it.nlri)) {
            assert!(self.0.remove(&prefix).is_some(), "it was told");
        }
        let classic = update.announced.iter().map(|(id, it)| (net(it), *id));
        let mut attributes = update.attributes;
        if let Some(reach) = &update.reach {
            attributes.next_hop = Some(reach.next_hop);
        }
        for path in classic.chain(each(update.reach.map(|it| it.nlri))) {
            self.0.insert(path, attributes.clone());
        }
    }

    /// The weights that it balances by, where every path of a prefix has one.
    fn weights(&self) -> Paths {
        let paths = self.0.iter().map(|((prefix, _), attributes)| {
            let hop = match attributes.next_hop.unwrap() {
                NextHop::V4(hop) => IpAddr::V4(hop),
                NextHop::V6(hop) => IpAddr::V6(hop),
                NextHop::V6LinkLocal(..) => panic!("nobody said so"),
            };
            let [community] = attributes.ext_communities[..] else {
                panic!("one link bandwidth");
            };
            let bandwidth = LinkBandwidth::of(community).unwrap();
            assert!(bandwidth.transitive);
            let weight = bandwidth.octets_per_sec / OCTETS_PER_SEC;
            ((*prefix, hop), weight as u32)
        });
        paths.collect()
    }
}

/// IPv6 prefixes of a field, with their identifiers.
fn each(field: Option<Bytes>) -> Vec<(IpNet, u32)> {
    let mut all = Vec::new();
    let each = |id, prefix: Prefix6| {
        all.push((IpNet::new(prefix.addr.into(), prefix.len).unwrap(), id));
    };
    let field = field.unwrap_or_default();
    nlri::decode_all(&field, true, each, |error| panic!("{error:?}")).unwrap();
    all
}

fn vtep(family: Family, number: u8) -> IpNet {
    match family {
        Family::IPV4_UNICAST => IpNet::from(IpAddr::from([10, 255, 0, number])),
        _ => IpNet::from(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into()])),
    }
}

fn hop(family: Family, number: u8) -> crate::southbound::intent::NextHop {
    crate::southbound::intent::NextHop {
        address: Some(match family {
            Family::IPV4_UNICAST => [10, 0, number, 0].into(),
            _ => [0x2001, 0xdb8, 1, 0, 0, 0, 0, u16::from(number)].into(),
        }),
        interface: format!("eth{number}").into(),
    }
}

/// Weights of prefixes by next hop, by small numbers.
fn routes(family: Family, weights: &BTreeMap<u8, BTreeMap<u8, u32>>) -> Routes {
    let prefixes = weights.iter().map(|(to, members)| {
        let members = members
            .iter()
            .map(|(by, weight)| (hop(family, *by), *weight));
        (vtep(family, *to), members.collect::<Members>().into())
    });
    Routes {
        prefixes: prefixes.collect(),
        ..Routes::default()
    }
}

fn anything() -> impl Strategy<Value = BTreeMap<u8, BTreeMap<u8, u32>>> {
    btree_map(0..9_u8, btree_map(0..6_u8, 1..=1024_u32, 0..5), 0..9)
}

proptest! {
    /// Also where next hops come and go, so that identifiers are used again; and a leaf that asks hears the same.
    #[test]
    fn a_leaf_has_the_weights_that_were_said_last(
        all in proptest::collection::vec(anything(), 1..8),
        ipv6: bool,
        ibgp: bool,
    ) {
        let family = if ipv6 { Family::IPV6_UNICAST } else { Family::IPV4_UNICAST };
        let dialect = dialect(family, ibgp);
        let (mut told, mut leaf) = (Told::new(dialect), Leaf::default());
        for weights in &all {
            let routes = routes(family, weights);
            leaf.hear(&told.turn_to(&routes), &dialect);
            prop_assert_eq!(leaf.weights(), paths(&routes, family));
            prop_assert_eq!(leaf.0.len(), told.len());
            prop_assert_eq!(told.turn_to(&routes), Vec::<Bytes>::new());
            let mut newcomer = Leaf::default();
            newcomer.hear(&told.again(), &dialect);
            prop_assert_eq!(&newcomer, &leaf);
        }
    }
}

#[test]
fn a_path_stays_at_the_leaf_and_is_preferred() {
    let weights = [(2, [(1, 3), (2, 1)].into())].into();
    for (ibgp, local_pref, as_path) in [
        (true, Some(200), AsPath::default()),
        (false, None, AsPath::sequence(&[64_496])),
    ] {
        let dialect = dialect(Family::IPV4_UNICAST, ibgp);
        let mut leaf = Leaf::default();
        let said = Told::new(dialect).turn_to(&routes(dialect.family, &weights));
        leaf.hear(&said, &dialect);
        let attributes = leaf.0.values().next().unwrap();
        assert_eq!(attributes.communities, [Community::NO_ADVERTISE]);
        assert_eq!(attributes.local_pref, local_pref);
        assert_eq!(attributes.as_path, as_path);
        // Three times 125,000 octets per second, transitive, of AS 64496.
        let community = [0x00, 0x04, 0xfb, 0xf0, 0x48, 0xb7, 0x1b, 0x00];
        assert_eq!(attributes.ext_communities, [ExtendedCommunity(community)]);
    }
}

#[test]
fn what_does_not_fit_into_one_message_takes_several() {
    let mut weights = BTreeMap::new();
    for to in 0..=255 {
        weights.insert(to, [(1, 1)].into());
    }
    let dialect = dialect(Family::IPV6_UNICAST, true);
    let mut told = Told::new(dialect);
    let mut leaf = Leaf::default();
    let said = told.turn_to(&routes(dialect.family, &weights));
    assert_eq!(said.len(), 2);
    leaf.hear(&said, &dialect);
    assert_eq!(leaf.0.len(), 256);
    leaf.hear(&told.turn_to(&Routes::default()), &dialect);
    assert_eq!(leaf, Leaf::default());
    assert!(told.is_empty());
}

#[test]
fn an_ipv4_prefix_is_not_told_by_an_ipv6_next_hop() {
    let mut mixed = routes(Family::IPV4_UNICAST, &[(1, [(1, 1)].into())].into());
    let members: Members = [(hop(Family::IPV6_UNICAST, 1), 1)].into();
    mixed
        .prefixes
        .insert(vtep(Family::IPV4_UNICAST, 2), members.into());
    let mut told = Told::new(dialect(Family::IPV4_UNICAST, true));
    assert_eq!(told.turn_to(&mixed).len(), 1);
    assert_eq!(told.len(), 1);
}
