//! Routes as rows that a person can read: which of them, in which order, in pages. The tables' thread looks at a
//! part of the table at a time, and copies what may be on the page.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use tonic::Status;
use weft_bgp::attribute::Attributes;
use weft_bgp::decision::Step;
use weft_bgp::family::Family;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::table::{Destination, Path, Table};
use weft_evpn::mac::Mac;
use weft_evpn::{Route, RouteKey};
use weft_proto::operator::v1 as proto;

use super::PART;
use crate::ledger::FAMILIES;

/// Which routes are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    /// EVPN route type.
    pub(super) route_type: Option<u8>,
    /// VNI.
    pub(super) vni: Option<u32>,
    /// MAC address of a type 2.
    pub(super) mac: Option<Mac>,
    /// Address or router id of the announcing peer.
    pub(super) peer: Option<IpAddr>,
}

/// A page of rows, and the token of the next one if there is more.
pub(super) struct Page {
    /// In the order of the keys.
    pub(super) routes: Vec<proto::Route>,
    /// Octets of the last key, in hex; empty at the end.
    pub(super) next_page_token: String,
}

/// What a family can say of its routes beyond the key.
pub(super) trait Row: Nlri {
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
    let peer = match request.peer.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| {
            Status::invalid_argument(format!(
                "peer: {text:?} is neither an address nor a router id"
            ))
        })?),
    };
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

/// A page of a table that is wanted.
#[derive(Debug)]
pub(super) struct Wanted<N: Nlri> {
    filter: Filter,
    /// Only what comes after it.
    after: Option<N::Key>,
    /// Destinations.
    size: usize,
}

/// Destinations of a page by key, each with its wanted paths, and whether there are more behind.
#[derive(Debug)]
pub(super) struct Found<N: Nlri> {
    destinations: BTreeMap<N::Key, Paths<N>>,
    more: bool,
}

/// What a part of the table may add to a page, in no meaningful order.
pub(super) struct Part<N: Nlri> {
    destinations: Vec<(N::Key, Paths<N>)>,
    more: bool,
}

/// Copies, the best one with the step that chose it.
type Paths<N> = Vec<(Path<N>, Option<Step>)>;

impl<N: Row> Wanted<N> {
    /// The page behind this token, which is empty for the first one. `None`: no answer gave it.
    pub(super) fn new(filter: Filter, token: &str, size: usize) -> Option<Self> {
        let after = match token {
            "" => None,
            token => Some(N::key_from_octets(&from_hex(token)?)?),
        };
        Some(Self {
            filter,
            after,
            size,
        })
    }

    /// What may be on the page of what is in the next places of the table, after a page of those before that ends at
    /// `end`, and where to go on. Keys have no order in a table, so each page needs all of it.
    pub(super) fn part(
        &self,
        table: &Table<N>,
        place: usize,
        end: Option<&N::Key>,
    ) -> (Part<N>, Option<usize>) {
        let (part, next) = table.page(place, PART);
        let (mut near, mut more) = (Vec::new(), false);
        for destination in part {
            let key = destination.key();
            if self.after.as_ref().is_some_and(|after| key <= *after) {
                continue;
            }
            let is_later = end.is_some_and(|end| key > *end);
            if (is_later && more) || !destination.paths.iter().any(|path| self.wants(path)) {
                continue;
            }
            match is_later {
                true => more = true,
                false => near.push((key, destination)),
            }
        }
        if near.len() > self.size {
            near.select_nth_unstable_by(self.size, |(a, _), (b, _)| a.cmp(b));
            near.truncate(self.size);
            more = true;
        }
        let near = near.into_iter();
        let copies = |(key, destination)| (key, self.copies(&destination));
        let destinations = near.map(copies).collect();
        (Part { destinations, more }, next)
    }

    /// With what another part of the table has.
    pub(super) fn merge(&self, mut found: Found<N>, part: Part<N>) -> Found<N> {
        found.more |= part.more;
        found.destinations.extend(part.destinations);
        while found.destinations.len() > self.size {
            found.destinations.pop_last();
            found.more = true;
        }
        found
    }

    /// Where the page ends if it is full: nothing behind has to be copied any more.
    pub(super) fn end(&self, found: &Found<N>) -> Option<N::Key> {
        let is_full = found.destinations.len() >= self.size;
        let last = found.destinations.last_key_value();
        last.filter(|_| is_full).map(|(key, _)| key.clone())
    }

    fn wants(&self, path: &Path<N>) -> bool {
        path.nlri.passes(&path.attributes, &self.filter)
            && self.filter.peer.is_none_or(|peer| is_of(path, peer))
    }

    fn copies(&self, destination: &Destination<'_, N>) -> Paths<N> {
        let wanted = destination.paths.iter().filter(|path| self.wants(path));
        let copy = |path: &Path<N>| {
            let best = destination.selected;
            let best = best.is_some_and(|best| best.source == path.source);
            (path.clone(), best.then_some(destination.by))
        };
        wanted.map(copy).collect()
    }
}

impl<N: Nlri> Default for Found<N> {
    fn default() -> Self {
        Self {
            destinations: BTreeMap::new(),
            more: false,
        }
    }
}

impl<N: Row> Found<N> {
    /// In words.
    pub(super) fn page(&self) -> Page {
        let next_page_token = match self.destinations.last_key_value().filter(|_| self.more) {
            Some((key, _)) => {
                let mut octets = Vec::new();
                N::key_octets(key, &mut octets);
                to_hex(&octets)
            }
            None => String::new(),
        };
        let row = |(path, by): &(Path<N>, Option<Step>)| {
            let step = by.map(|by| by.to_string());
            row(path, by.is_some(), step.unwrap_or_default())
        };
        Page {
            routes: self.destinations.values().flatten().map(row).collect(),
            next_page_token,
        }
    }
}

/// Whether a path is announced by the peer of this address or router id.
fn is_of<N>(path: &Path<N>, peer: IpAddr) -> bool {
    let source = &path.source;
    peer == source.address || peer == IpAddr::from(Ipv4Addr::from(source.peer.router_id.0))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_bgp::peer::{PeerId, RouterId};
    use weft_bgp::table::{PeerKind, Source};

    use super::*;

    fn prefix(number: u32) -> Prefix4 {
        Prefix4 {
            addr: Ipv4Addr::from(0xcb00_7100 + number),
            len: 32,
        }
    }

    #[test]
    fn pages_are_every_route_once_in_order_and_of_the_peer_that_is_named() {
        let mut table = Table::new();
        for number in 0..100_u32 {
            for last in [1, 2]
                .into_iter()
                .take(if number % 10 == 0 { 2 } else { 1 })
            {
                let peer = PeerId {
                    router_id: RouterId(0xc633_6400 + last),
                    asn: 64_496,
                };
                let address = Ipv4Addr::from(0xc000_0200 + last).into();
                let source = Arc::new(Source::new(peer, address, PeerKind::IbgpClient));
                let attributes = Arc::new(Attributes::default());
                table.learn(&source, 0, prefix(number * 37 % 100), attributes);
            }
        }
        table.select();
        let all = |filter: &Filter, size: usize| {
            let (mut keys, mut best, mut token) = (Vec::new(), 0, String::new());
            loop {
                let page = page(&table, filter, &token, size);
                assert!(page.routes.len() <= 2 * size);
                best += page.routes.iter().filter(|route| route.best).count();
                keys.extend(page.routes.into_iter().map(|route| route.key));
                token = page.next_page_token;
                if token.is_empty() {
                    return (keys, best);
                }
            }
        };
        let (whole, best) = all(&Filter::default(), 1_000);
        assert_eq!((whole.len(), best), (110, 100));
        for size in [1, 7, 100] {
            assert_eq!(all(&Filter::default(), size), (whole.clone(), 100));
        }
        for (name, count) in [("192.0.2.2", 10), ("198.51.100.2", 10), ("192.0.2.3", 0)] {
            let filter = Filter {
                peer: name.parse().ok(),
                ..Filter::default()
            };
            assert_eq!(all(&filter, 3).0.len(), count, "{name}");
        }
        let filter = Filter::default();
        assert!(Wanted::<Prefix4>::new(filter, "no token", 1).is_none());
    }

    fn page(table: &Table<Prefix4>, filter: &Filter, token: &str, size: usize) -> Page {
        let wanted = Wanted::new(filter.clone(), token, size).unwrap();
        let (mut found, mut place) = (Found::default(), Some(0));
        while let Some(at) = place {
            let end = wanted.end(&found);
            let (part, next) = wanted.part(table, at, end.as_ref());
            found = wanted.merge(found, part);
            place = next;
        }
        found.page()
    }

    #[test]
    fn pages_of_a_table_of_several_parts_are_every_route_once_in_order() {
        let peer = PeerId {
            router_id: RouterId(1),
            asn: 64_496,
        };
        let address = Ipv4Addr::new(192, 0, 2, 1).into();
        let source = Arc::new(Source::new(peer, address, PeerKind::IbgpClient));
        let attributes = Arc::new(Attributes::default());
        let mut table = Table::new();
        let count = 2 * PART as u32 + 7;
        for number in 0..count {
            // In no order.
            let nlri = prefix(number.wrapping_mul(7_919) % count);
            table.learn(&source, 0, nlri, Arc::clone(&attributes));
        }
        table.select();
        let (mut keys, mut token, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let page = page(&table, &Filter::default(), &token, 15_000);
            keys.extend(page.routes.into_iter().map(|route| route.key));
            (token, pages) = (page.next_page_token, pages + 1);
            if token.is_empty() {
                break;
            }
        }
        let expected = (0..count).map(|number| prefix(number).key().to_string());
        assert!(keys.into_iter().eq(expected));
        assert_eq!(pages, 3);
    }

    #[test]
    fn a_peer_is_an_address_or_a_router_id() {
        let asked = |peer: &str| {
            let peer = peer.to_owned();
            wanted(&proto::ListRoutesRequest {
                peer,
                ..proto::ListRoutesRequest::default()
            })
        };
        for name in ["192.0.2.1", "2001:db8::1"] {
            assert_eq!(asked(name).unwrap().1.peer, name.parse().ok());
        }
        assert_eq!(asked("").unwrap().1.peer, None);
        for name in ["leaf1", "192.0.2.256", "192.0.2.1 "] {
            let status = asked(name).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            let said = format!("peer: {name:?} is neither an address nor a router id");
            assert_eq!(status.message(), said);
        }
    }
}
