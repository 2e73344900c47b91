//! Routes as rows that a person can read: which of them, in which order, in pages.

use std::collections::BTreeMap;
use std::str::FromStr;

use tonic::Status;
use weft_bgp::attribute::Attributes;
use weft_bgp::family::Family;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::table::{Path, Table};
use weft_evpn::mac::Mac;
use weft_evpn::{Route, RouteKey};
use weft_proto::operator::v1 as proto;

use crate::ledger::FAMILIES;

/// Which routes are wanted.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// EVPN route type.
    pub route_type: Option<u8>,
    /// VNI.
    pub vni: Option<u32>,
    /// MAC address of a type 2.
    pub mac: Option<Mac>,
    /// Address or router id of the announcing peer.
    pub peer: Option<String>,
}

/// A page of rows, and the token of the next one if there is more.
#[derive(Default)]
pub struct Page {
    /// In the order of the keys.
    pub routes: Vec<proto::Route>,
    /// Octets of the last key, in hex; empty at the end.
    pub next_page_token: String,
}

/// What a family can say of its routes beyond the key.
pub trait Row: Nlri {
    /// Route type, VNI, RD and ESI, where the family has them.
    fn describe(&self, attributes: &Attributes, row: &mut proto::Route);
    /// Whether the route's own fields pass.
    fn passes(&self, attributes: &Attributes, filter: &Filter) -> bool;
}

impl Row for Route {
    fn describe(&self, attributes: &Attributes, row: &mut proto::Route) {
        let key = self.key();
        row.rd = key.rd().to_string();
        row.route_type = key.route_type().into();
        row.vni = self.vni(attributes).map_or(0, |vni| vni.number());
        row.esi = match self {
            Self::EthernetAd(route) => route.key.esi.to_string(),
            Self::MacIp(route) => route.esi.to_string(),
            Self::EthernetSegment(route) => route.key.esi.to_string(),
            Self::IpPrefix(route) => route.esi.to_string(),
            Self::MulticastJoin(route) => route.key.esi.to_string(),
            Self::MulticastLeave(route) => route.key.esi.to_string(),
            Self::InclusiveMulticast(_)
            | Self::SelectiveMulticast(_)
            | Self::RegionPmsi(_)
            | Self::SelectivePmsi(_)
            | Self::Leaf(_)
            | Self::Opaque(_) => String::new(),
        };
    }

    fn passes(&self, attributes: &Attributes, filter: &Filter) -> bool {
        let mac = |wanted: Mac| match self.key() {
            RouteKey::MacIp(key) => key.mac == wanted,
            RouteKey::EthernetAd(_)
            | RouteKey::InclusiveMulticast(_)
            | RouteKey::EthernetSegment(_)
            | RouteKey::IpPrefix(_)
            | RouteKey::SelectiveMulticast(_)
            | RouteKey::MulticastJoin(_)
            | RouteKey::MulticastLeave(_)
            | RouteKey::RegionPmsi(_)
            | RouteKey::SelectivePmsi(_)
            | RouteKey::Leaf(_)
            | RouteKey::Opaque(_) => false,
        };
        filter
            .route_type
            .is_none_or(|wanted| self.key().route_type() == wanted)
            && filter.mac.is_none_or(mac)
            && filter.vni.is_none_or(|wanted| {
                self.vni(attributes)
                    .is_some_and(|vni| vni.number() == wanted)
            })
    }
}

impl Row for Prefix4 {
    fn describe(&self, _: &Attributes, _: &mut proto::Route) {}

    fn passes(&self, _: &Attributes, filter: &Filter) -> bool {
        filter.route_type.is_none() && filter.vni.is_none() && filter.mac.is_none()
    }
}

impl Row for Prefix6 {
    fn describe(&self, _: &Attributes, _: &mut proto::Route) {}

    fn passes(&self, _: &Attributes, filter: &Filter) -> bool {
        filter.route_type.is_none() && filter.vni.is_none() && filter.mac.is_none()
    }
}

impl Row for Membership {
    fn describe(&self, _: &Attributes, _: &mut proto::Route) {}

    fn passes(&self, _: &Attributes, filter: &Filter) -> bool {
        filter.route_type.is_none() && filter.vni.is_none() && filter.mac.is_none()
    }
}

/// What a request asks for.
pub(super) fn wanted(request: &proto::ListRoutesRequest) -> Result<(Family, Filter), Status> {
    let family = family(&request.family)?;
    let route_type = match request.route_type {
        0 => None,
        number @ 1..=255 => u8::try_from(number).ok(),
        number => {
            return Err(Status::invalid_argument(format!(
                "route_type: {number} is not 1 to 255"
            )));
        }
    };
    let mac = match request.mac.as_str() {
        "" => None,
        text => {
            let mac = Mac::from_str(text);
            Some(mac.map_err(|_| {
                Status::invalid_argument(format!("mac: {text:?} is not a MAC address"))
            })?)
        }
    };
    let vni = (request.vni != 0).then_some(request.vni);
    let peer = (!request.peer.is_empty()).then(|| request.peer.clone());
    Ok((
        family,
        Filter {
            route_type,
            vni,
            mac,
            peer,
        },
    ))
}

/// The family of this name; EVPN without one.
pub(super) fn family(name: &str) -> Result<Family, Status> {
    if name.is_empty() {
        return Ok(Family::L2VPN_EVPN);
    }
    Family::from_str(name)
        .ok()
        .filter(|family| FAMILIES.contains(family))
        .ok_or_else(|| Status::invalid_argument(format!("family: {name:?} is not carried")))
}

/// The destinations after `token` that have a wanted path, `size` of them at most.
pub fn page<N: Row>(table: &Table<N>, filter: &Filter, token: &str, size: usize) -> Option<Page> {
    let after = match token {
        "" => None,
        token => Some(N::key_from_octets(&from_hex(token)?)?),
    };
    // The smallest keys, without sorting the whole table.
    let mut kept: BTreeMap<N::Key, Vec<proto::Route>> = BTreeMap::new();
    let mut more = false;
    for destination in table.iter() {
        let key = destination.key();
        let full = kept.len() == size;
        let last = kept.last_key_value().map(|(last, _)| last);
        if after.as_ref().is_some_and(|after| key <= *after) {
            continue;
        }
        let wanted =
            |path: &&Path<N>| path.nlri.passes(&path.attributes, filter) && from_peer(path, filter);
        let mut paths = destination.paths.iter().filter(wanted).peekable();
        if paths.peek().is_none() {
            continue;
        }
        if full {
            more = true;
            if last.is_some_and(|last| key > *last) {
                continue;
            }
            kept.pop_last();
        }
        let best = destination.selected;
        let rows = paths.map(|path| {
            let best = best.is_some_and(|best| best.source == path.source);
            row(
                path,
                best,
                if best {
                    destination.by.to_string()
                } else {
                    String::new()
                },
            )
        });
        kept.insert(key, rows.collect());
    }
    let next_page_token = match kept.last_key_value().filter(|_| more) {
        Some((key, _)) => {
            let mut octets = Vec::new();
            N::key_octets(key, &mut octets);
            to_hex(&octets)
        }
        None => String::new(),
    };
    Some(Page {
        routes: kept.into_values().flatten().collect(),
        next_page_token,
    })
}

fn from_peer<N>(path: &Path<N>, filter: &Filter) -> bool {
    let source = &path.source;
    filter.peer.as_ref().is_none_or(|wanted| {
        source.address.to_string() == *wanted || source.peer.router_id.to_string() == *wanted
    })
}

/// One path; `by` is the step that chose it, where it is the best one.
pub(super) fn row<N: Row>(path: &Path<N>, best: bool, by: String) -> proto::Route {
    let attributes = &path.attributes;
    let texts = |values: &mut dyn Iterator<Item = String>| values.collect::<Vec<_>>();
    let mut row = proto::Route {
        family: N::family().to_string(),
        key: path.nlri.key().to_string(),
        next_hop: attributes
            .next_hop
            .map(|next_hop| next_hop.to_string())
            .unwrap_or_default(),
        peer: path.source.peer.router_id.to_string(),
        peer_asn: path.source.peer.asn,
        best,
        by,
        as_path: attributes.as_path.to_string(),
        local_pref: attributes.local_pref_or_default(),
        communities: texts(&mut attributes.communities.iter().map(ToString::to_string)),
        ext_communities: texts(&mut attributes.ext_communities.iter().map(ToString::to_string)),
        origin: attributes.origin.to_string(),
        ..proto::Route::default()
    };
    path.nlri.describe(attributes, &mut row);
    row
}

fn to_hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}
