//! Which of two announcements of a MAC address is the later one. Knows no path beyond its attributes.

use std::cmp::{Ordering, Reverse};
use std::net::IpAddr;

use weft_bgp::attribute::Attributes;
use weft_bgp::decision::Step;

use crate::community::MacMobility;
use crate::vtep;

/// Orders two paths of one type 2, the better one greater: static addresses first, then the one that has
/// moved more often, then the lowest next hop. RFC 7432 §15, §15.1, §15.2.
///
/// FRR 8.4 decides in this order, before LOCAL_PREF, on a reflector too. Two of its steps are left out:
/// a local path of the same segment (a reflector has none), and the one that is not a proxy's, which
/// FRR asks only within one segment: with it three paths can each be better than the next.
pub(crate) fn prefer(a: &Attributes, b: &Attributes) -> (Ordering, Step) {
    let (mine, theirs) = (mobility(a), mobility(b));
    let sticky = mine.0.cmp(&theirs.0);
    if sticky != Ordering::Equal {
        return (sticky, STICKY);
    }
    let sequence = mine.1.cmp(&theirs.1);
    if sequence != Ordering::Equal {
        return (sequence, SEQUENCE);
    }
    let next_hop = Reverse(next_hop(a)).cmp(&Reverse(next_hop(b)));
    if next_hop != Ordering::Equal {
        return (next_hop, NEXT_HOP);
    }
    (Ordering::Equal, UNDECIDED)
}

/// What says nothing has not moved. RFC 7432 §15.
fn mobility(attributes: &Attributes) -> (bool, u32) {
    MacMobility::find(attributes).map_or((false, 0), |view| (view.is_sticky(), view.sequence()))
}

/// IPv4 is lower than IPv6; none, which admission refuses, is highest.
fn next_hop(attributes: &Attributes) -> (bool, Option<IpAddr>) {
    let address = vtep::next_hop(attributes);
    (address.is_none(), address)
}

const STICKY: Step = Step::Family("EVPN sticky MAC");
const SEQUENCE: Step = Step::Family("highest EVPN mobility sequence");
const NEXT_HOP: Step = Step::Family("lowest EVPN next hop");
/// Nothing here makes a difference.
pub(crate) const UNDECIDED: Step = Step::Family("EVPN mobility equal");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_bgp::attribute::NextHop;

    use super::*;

    fn path(mobility: Option<(bool, u32)>, host: u8) -> Attributes {
        let view = mobility.map(|(sticky, sequence)| MacMobility::new(sticky, sequence).octets());
        Attributes {
            ext_communities: view.into_iter().collect(),
            next_hop: Some(NextHop::V4([192, 0, 2, host].into())),
            ..Attributes::default()
        }
    }

    /// Measured: two clients announce one MAC address under one RD to FRR 8.4.4 as a reflector, which
    /// says in brackets why the first is its best path.
    #[test]
    fn the_order_is_that_of_frr() {
        let cases = [
            ((Some((true, 0)), 9), (Some((false, 5)), 3), STICKY), // EVPN Sticky Mac
            ((Some((false, 2)), 9), (Some((false, 1)), 3), SEQUENCE), // EVPN sequence number
            ((Some((true, 2)), 9), (Some((true, 1)), 3), SEQUENCE),
            (
                (Some((false, u32::MAX)), 9),
                (Some((false, 1)), 3),
                SEQUENCE,
            ),
            ((Some((false, 0)), 3), (None, 9), NEXT_HOP), // EVPN lower IP
            ((None, 3), (None, 9), NEXT_HOP),
        ];
        for ((a, a_host), (b, b_host), step) in cases {
            let (a, b) = (path(a, a_host), path(b, b_host));
            assert_eq!(prefer(&a, &b), (Ordering::Greater, step));
            assert_eq!(prefer(&b, &a), (Ordering::Less, step));
        }
    }

    /// Measured likewise: sequences 1 and 9 in one path lose to 5 in the other.
    #[test]
    fn of_two_mobility_communities_the_lower_counts() {
        let mut twice = path(Some((false, 9)), 9);
        twice
            .ext_communities
            .push(MacMobility::new(false, 1).octets());
        let five = path(Some((false, 5)), 3);
        assert_eq!(prefer(&twice, &five), (Ordering::Less, SEQUENCE));
    }

    #[test]
    fn local_preference_has_no_say_before_the_next_hop() {
        let preferred = Attributes {
            local_pref: Some(200),
            ..path(None, 9)
        };
        assert_eq!(prefer(&path(None, 3), &preferred).0, Ordering::Greater);
        assert_eq!(
            prefer(&path(None, 9), &preferred),
            (Ordering::Equal, UNDECIDED)
        );
    }

    fn any_path() -> impl Strategy<Value = Attributes> {
        let mobility = prop::option::of((any::<bool>(), 0..3_u32));
        let next_hop = prop::option::of(prop_oneof![
            (0..3_u8).prop_map(|n| NextHop::V4([192, 0, 2, n].into())),
            (0..3_u16).prop_map(|n| NextHop::V6([0x2001, 0xdb8, 0, 0, 0, 0, 0, n].into())),
        ]);
        (mobility, next_hop).prop_map(|(mobility, next_hop)| Attributes {
            next_hop,
            ..path(mobility, 0)
        })
    }

    proptest! {
        /// A total preorder: elimination may then take paths in any order.
        #[test]
        fn the_order_is_one(a in any_path(), b in any_path(), c in any_path()) {
            prop_assert_eq!(prefer(&a, &a).0, Ordering::Equal);
            prop_assert_eq!(prefer(&a, &b).0, prefer(&b, &a).0.reverse());
            if prefer(&a, &b).0.is_ge() && prefer(&b, &c).0.is_ge() {
                prop_assert!(prefer(&a, &c).0.is_ge());
            }
        }
    }
}
