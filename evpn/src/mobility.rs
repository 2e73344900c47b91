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
