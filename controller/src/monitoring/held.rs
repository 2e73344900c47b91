//! What a peer has announced, from the facts in which its task holds it: Adj-RIB-In. Facts say what was
//! kept; what was refused before a collector connected is not in them. Knows no collector.

use std::vec;

use bytes::Bytes;
use weft_bgp::capability::AddPathSet;
use weft_bgp::family::Family;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::wire::Writer;
use weft_evpn::Route;

use super::message::Messages;
use crate::ledger::{self, FactKey};

/// Routes that wait to be told.
#[derive(Debug)]
pub(super) struct Held {
    routes: vec::IntoIter<(Bytes, Bytes)>,
    /// Taken off, and the begin of the next message.
    next: Option<(Bytes, Bytes)>,
    add_path: AddPathSet,
}

impl Held {
    /// All of these; in some families their peer sends path identifiers.
    pub(super) fn new(mut routes: Vec<(Bytes, Bytes)>, add_path: AddPathSet) -> Self {
        // One UPDATE of the peer gave one value, wherever it stands: together again.
        routes.sort_unstable_by_key(|(_, value)| value.as_ptr() as usize);
        let mut routes = routes.into_iter();
        Self {
            next: routes.next(),
            routes,
            add_path,
        }
    }

    /// The messages of the next routes that have one value; `None`: there are no more.
    pub(super) fn next(&mut self) -> Option<(Family, Vec<Bytes>)> {
        loop {
            let (first, value) = self.next.take()?;
            let mut keys = vec![first];
            for (key, other) in self.routes.by_ref() {
                if other != value || family(&key) != family(&keys[0]) || keys.len() == RUN_MAX {
                    self.next = Some((key, other));
                    break;
                }
                keys.push(key);
            }
            // What this version does not understand it has not told anybody else either.
            let Some(family) = family(&keys[0]) else {
                continue;
            };
            let add_path = self.add_path.contains(family);
            let messages = match family {
                Family::IPV4_UNICAST => messages::<Prefix4>(&keys, &value, add_path),
                Family::IPV6_UNICAST => messages::<Prefix6>(&keys, &value, add_path),
                Family::RTC => messages::<Membership>(&keys, &value, add_path),
                _ => messages::<Route>(&keys, &value, add_path),
            };
            if let Some(messages) = messages {
                return Some((family, messages));
            }
        }
    }
}

fn family(key: &[u8]) -> Option<Family> {
    match FactKey::decode(key)? {
        FactKey::Route(family, ..) => Some(family),
        FactKey::Owner(_)
        | FactKey::Session(..)
        | FactKey::Fabric
        | FactKey::Allocation
        | FactKey::Incarnation => None,
    }
}

fn messages<N: Nlri>(keys: &[Bytes], value: &[u8], add_path: bool) -> Option<Vec<Bytes>> {
    let (payload, attributes) = ledger::decode_path(value)?;
    let encode = |key: &Bytes| {
        let FactKey::Route(_, _, octets) = FactKey::decode(key)? else {
            return None;
        };
        let (path_id, octets) = ledger::read_path(octets)?;
        let nlri = N::from_parts(N::key_from_octets(octets)?, payload)?;
        let mut out = Writer::new();
        if add_path {
            out.u32(path_id);
        }
        nlri.encode(&mut out);
        Some(out.finish())
    };
    let nlri: Vec<Bytes> = keys.iter().filter_map(encode).collect();
    let mut messages = Messages::new(N::family());
    messages.announce(&attributes, nlri.iter().map(|nlri| &nlri[..]));
    Some(messages.finish())
}

/// Routes told before others get their turn.
const RUN_MAX: usize = 1_024;
