//! Which routes are wanted, in which order, in pages. The tables' thread looks at a part of the table at a time for their keys,
//! and copies what is on the page.

use std::net::{IpAddr, Ipv4Addr};

use weft_bgp::attribute::{ExtendedCommunity, NextHop};
use weft_bgp::decision::Step;
use weft_bgp::nlri::Nlri;
use weft_bgp::table::{Destination, Path, Table};
use weft_evpn::mac::Mac;
use weft_proto::v1 as proto;

use super::super::PART;
use super::super::page::list::List;
use super::super::page::{self, Page};
use super::explain::{self, Sessions};
use super::row::{self, Name, Row};

/// Which routes are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::operator) struct Filter {
    /// EVPN route type.
    pub(in crate::operator) route_type: Option<u8>,
    /// VNI.
    pub(in crate::operator) vni: Option<u32>,
    /// MAC address of a type 2.
    pub(in crate::operator) mac: Option<Mac>,
    /// Address or router id of the announcing peer.
    pub(in crate::operator) peer: Option<IpAddr>,
    /// Forms of a route target that are written alike; empty: any.
    pub(in crate::operator) route_targets: Vec<ExtendedCommunity>,
    /// NEXT_HOP.
    pub(in crate::operator) vtep: Option<IpAddr>,
    /// An address of the host, or within the prefix.
    pub(in crate::operator) ip: Option<IpAddr>,
    /// Key and route distinguisher.
    pub(in crate::operator) name: Name,
}

impl Filter {
    /// Whether it asks for nothing that EVPN alone has.
    pub(in crate::operator) fn is_of_any_family(&self) -> bool {
        self.route_type.is_none() && self.vni.is_none() && self.mac.is_none()
    }
}

impl Filter {
    /// Whether a path is wanted.
    pub(in crate::operator) fn wants<N: Row>(&self, path: &Path<N>) -> bool {
        path.nlri.passes(&path.attributes, self)
            && self.ip.is_none_or(|ip| path.nlri.covers(ip))
            && self.vtep.is_none_or(|vtep| leads_to(path, vtep))
            && (self.route_targets.is_empty() || has_target(path, &self.route_targets))
            && self.peer.is_none_or(|peer| is_of(path, peer))
            && path.nlri.is_named(&self.name)
    }
}

/// A page of a table that is wanted.
#[derive(Clone, Debug)]
pub(in crate::operator) struct Wanted<N: Nlri> {
    filter: Filter,
    /// Only what comes after it, of a list that is complete up to a revision.
    after: Option<(N::Key, u64)>,
    /// Destinations.
    size: usize,
}

/// Destinations of a page in order.
#[derive(Debug)]
pub(in crate::operator) struct Found<N: Nlri> {
    destinations: Vec<(N::Key, Copied<N>)>,
    /// There are more behind this one.
    next: Option<N::Key>,
}

/// A destination with all its paths, wanted or not, and the place of the best one with the step that chose it.
#[derive(Debug)]
struct Copied<N> {
    paths: Vec<Path<N>>,
    best: Option<(usize, Step)>,
}

impl<N: Row> Wanted<N> {
    /// The page behind a place, or the first one.
    pub(in crate::operator) fn new(
        filter: Filter,
        after: Option<(N::Key, u64)>,
        size: usize,
    ) -> Self {
        Self {
            filter,
            after,
            size,
        }
    }

    /// The place that the token of a page names. `None`: no answer named it.
    pub(in crate::operator) fn place(text: &str) -> Option<(N::Key, u64)> {
        let key = |text: &str| N::key_from_octets(&from_hex(text)?);
        page::place_read(text, key)
    }

    /// What is wanted.
    pub(super) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// How many destinations.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Up to where the list is complete that the page is of; `None`: it is the first page.
    pub(super) fn revision(&self) -> Option<u64> {
        self.after.as_ref().map(|(_, revision)| *revision)
    }

    /// What all that is wanted is called beside its key, if it is known.
    pub(super) fn shared_name(&self) -> Option<u64> {
        N::shared_name(&self.filter)
    }

    /// The one route that can be meant, if a name is asked for that says so: nothing has to be looked for.
    pub(in crate::operator) fn only(&self) -> Option<N> {
        N::named(&self.filter.name)
    }

    /// What is at one place of a table.
    pub(in crate::operator) fn at(&self, table: &Table<N>, key: &N::Key) -> Found<N> {
        self.first(table.get(key).into_iter().collect())
    }

    /// What is on the page of what has a name; `None`: too many have it.
    pub(super) fn named(&self, table: &Table<N>, name: u64) -> Option<Found<N>> {
        let destinations: Vec<_> = table.named(name).take(PART + 1).collect();
        (destinations.len() <= PART).then(|| self.first(destinations))
    }

    fn first(&self, destinations: Vec<Destination<'_, N>>) -> Found<N> {
        let keyed = self
            .wanted(destinations)
            .filter(|(key, _)| self.is_behind(key));
        let mut keyed: Vec<_> = keyed.collect();
        keyed.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let more = keyed.len() > self.size;
        keyed.truncate(self.size);
        let last = keyed.last().map(|(key, _)| key.clone());
        let copies = keyed.into_iter().map(|(key, it)| (key, copied(&it)));
        Found {
            destinations: copies.collect(),
            next: last.filter(|_| more),
        }
    }

    /// The keys of all that is wanted in the next places of the table up to `end`, in no meaningful order, and where to go on.
    pub(in crate::operator) fn keys(
        &self,
        table: &Table<N>,
        place: usize,
        end: Option<&N::Key>,
    ) -> (Vec<N::Key>, Option<usize>) {
        let (part, next) = table.page(place, PART);
        let keys = self.wanted(part).map(|(key, _)| key);
        let near = keys.filter(|key| end.is_none_or(|end| key <= end));
        (near.collect(), next)
    }

    /// What goes on a page after `found` destinations, of a list of keys: those from `place` on that are behind the page before.
    /// And where to go on, unless the page is full.
    pub(super) fn among(
        &self,
        table: &Table<N>,
        list: &List<N::Key>,
        place: usize,
        found: usize,
    ) -> (Found<N>, Option<usize>) {
        let keys = &list.items;
        let begin = keys.partition_point(|key| !self.is_behind(key));
        let mut part = Found::default();
        let mut before = (begin + place).checked_sub(1).and_then(|at| keys.get(at));
        for key in keys.iter().skip(begin + place).take(PART) {
            if found + part.destinations.len() >= self.size {
                part.next = before.cloned();
                return (part, None);
            }
            if let Some(destination) = table.get(key).filter(|it| self.wants_any(it)) {
                part.destinations.push((key.clone(), copied(&destination)));
            }
            before = Some(key);
        }
        let next = place + PART;
        if begin + next < keys.len() {
            return (part, Some(next));
        }
        part.next = before.filter(|_| list.more).cloned();
        (part, None)
    }

    fn is_behind(&self, key: &N::Key) -> bool {
        let after = self.after.as_ref();
        after.is_none_or(|(after, _)| key > after)
    }

    fn wanted<'a>(
        &self,
        destinations: Vec<Destination<'a, N>>,
    ) -> impl Iterator<Item = (N::Key, Destination<'a, N>)> {
        let wanted = destinations.into_iter().filter(|it| self.wants_any(it));
        wanted.map(|destination| (destination.key(), destination))
    }

    /// In words, with the token of the next page, of a list that is complete up to `revision`; in full with `sessions`.
    pub(in crate::operator) fn page(
        &self,
        found: &Found<N>,
        sessions: Option<&Sessions<'_>>,
        revision: u64,
    ) -> (Vec<proto::Route>, String) {
        let mut page = Page::new(self.size);
        let mut last = None;
        for (key, copied) in &found.destinations {
            if !page.put(self.route(copied, sessions)) {
                break;
            }
            last = Some(key);
        }
        let next = match page.more {
            true => last,
            false => found.next.as_ref(),
        };
        let next = next.map(|key| {
            let mut octets = Vec::new();
            N::key_octets(key, &mut octets);
            let place = page::place(to_hex(&octets), revision);
            page::token(&list::<N>(), place)
        });
        (page.rows, next.unwrap_or_default())
    }

    fn route(&self, copied: &Copied<N>, sessions: Option<&Sessions<'_>>) -> proto::Route {
        let mut paths = match sessions {
            Some(sessions) => explain::paths(&copied.paths, sessions),
            None => brief(copied),
        };
        let mut wanted = copied.paths.iter().map(|path| self.filter.wants(path));
        paths.retain(|_| wanted.next().unwrap_or(false));
        let first = copied.paths.first();
        let route = first.map(|first| row::route(&first.nlri));
        proto::Route {
            paths,
            ..route.unwrap_or_default()
        }
    }

    fn wants_any(&self, destination: &Destination<'_, N>) -> bool {
        destination.paths.iter().any(|path| self.filter.wants(path))
    }
}

impl<N: Nlri> Found<N> {
    /// How many there are so far.
    pub(super) fn len(&self) -> usize {
        self.destinations.len()
    }

    /// With what comes behind.
    pub(super) fn with(mut self, part: Self) -> Self {
        self.destinations.extend(part.destinations);
        self.next = part.next;
        self
    }
}

impl<N: Nlri> Default for Found<N> {
    fn default() -> Self {
        Self {
            destinations: Vec::new(),
            next: None,
        }
    }
}

/// What the tokens of a family's pages begin with.
pub(in crate::operator) fn list<N: Nlri>() -> String {
    format!("routes/{}", N::family())
}

fn copied<N: Nlri>(destination: &Destination<'_, N>) -> Copied<N> {
    let selected = destination.selected;
    let place = selected.and_then(|best| {
        let mut sources = destination.paths.iter();
        sources.position(|path| path.source == best.source)
    });
    Copied {
        paths: destination.paths.to_vec(),
        best: place.map(|place| (place, destination.by)),
    }
}

/// Every path, as the table chose.
fn brief<N: Row>(copied: &Copied<N>) -> Vec<proto::Path> {
    let paths = copied.paths.iter().enumerate();
    let path = |(at, path): (usize, &Path<N>)| {
        let by = copied.best.filter(|(best, _)| *best == at);
        row::path(path, by.is_some(), by.map(|(_, step)| step))
    };
    paths.map(path).collect()
}

/// Whether a path is announced by the peer of this address or router id.
fn is_of<N>(path: &Path<N>, peer: IpAddr) -> bool {
    let source = &path.source;
    peer == source.address || peer == IpAddr::from(Ipv4Addr::from(source.peer.router_id.0))
}

/// Whether an address is the next hop of a path.
fn leads_to<N>(path: &Path<N>, address: IpAddr) -> bool {
    match path.attributes.next_hop {
        Some(NextHop::V4(next_hop)) => address == next_hop,
        Some(NextHop::V6(next_hop) | NextHop::V6LinkLocal(next_hop, _)) => address == next_hop,
        None => false,
    }
}

/// Whether a path has one of these route targets.
fn has_target<N>(path: &Path<N>, targets: &[ExtendedCommunity]) -> bool {
    let communities = path.attributes.ext_communities.iter();
    communities.into_iter().any(|it| targets.contains(it))
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

    use weft_bgp::attribute::Attributes;
    use weft_bgp::nlri::unicast::Prefix4;
    use weft_bgp::peer::{PeerId, RouterId};
    use weft_bgp::rd::Rd;
    use weft_bgp::table::{PeerKind, Source};
    use weft_evpn::route::{Labels, MacIp, MacIpKey};
    use weft_evpn::{Esi, EthernetTag, Label, Route};

    use super::super::super::page::list::First;
    use super::*;
    use crate::fabric::fact::InvalidFabric;

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
                let (routes, next) = page(&table, filter, &token, size);
                assert!(routes.len() <= size);
                for route in routes {
                    best += route.paths.iter().filter(|path| path.best).count();
                    keys.extend(route.paths.iter().map(|_| route.key.clone()));
                }
                token = next;
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
        for token in ["no token", "cb007100", "cb007100@", "@7", "x@7"] {
            assert_eq!(Wanted::<Prefix4>::place(token), None);
        }
    }

    fn page(
        table: &Table<Prefix4>,
        filter: &Filter,
        token: &str,
        size: usize,
    ) -> (Vec<proto::Route>, String) {
        let after = after(token);
        let wanted = Wanted::new(filter.clone(), after, size);
        assert_eq!(wanted.revision(), after.map(|_| 7));
        let whole = found(&wanted, table, First::all());
        if after.is_none() {
            let first = First::new(size + 1, PartialEq::eq);
            assert_eq!(found(&wanted, table, first), whole);
        }
        whole
    }

    /// The place behind which the page of a token begins.
    fn after(token: &str) -> Option<(<Prefix4 as Nlri>::Key, u64)> {
        let mut faults = InvalidFabric::default();
        let place = Wanted::<Prefix4>::place;
        let after = page::after_read(&list::<Prefix4>(), token, place, &mut faults);
        assert!(faults.is_empty(), "{faults}");
        after
    }

    /// A page of the keys of a table, all or the first ones.
    fn found<N: Row>(
        wanted: &Wanted<N>,
        table: &Table<N>,
        mut first: First<N::Key>,
    ) -> (Vec<proto::Route>, String) {
        let mut place = Some(0);
        while let Some(at) = place {
            let (part, next) = wanted.keys(table, at, first.end().as_ref());
            first = first.with(part);
            place = next;
        }
        let list = first.finish(7);
        let (mut found, mut place) = (Found::default(), Some(0));
        while let Some(at) = place {
            let (part, next) = wanted.among(table, &list, at, found.len());
            found = found.with(part);
            place = next;
        }
        wanted.page(&found, None, list.revision)
    }

    #[test]
    fn a_page_of_routes_that_went_meanwhile_names_the_next_one() {
        let peer = PeerId {
            router_id: RouterId(1),
            asn: 64_496,
        };
        let address = Ipv4Addr::new(192, 0, 2, 1).into();
        let source = Arc::new(Source::new(peer, address, PeerKind::IbgpClient));
        let mut table = Table::new();
        let keys = (0..4).map(|number| prefix(number).key()).collect();
        table.learn(&source, 0, prefix(3), Arc::new(Attributes::default()));
        table.select();
        let wanted = |token: &str| Wanted::<Prefix4>::new(Filter::default(), after(token), 2);
        let mut keys = List {
            items: keys,
            more: true,
            revision: 7,
        };
        keys.items.truncate(3);
        let (found, next) = wanted("").among(&table, &keys, 0, 0);
        assert_eq!(next, None);
        let (routes, token) = wanted("").page(&found, None, 7);
        assert!(routes.is_empty());
        let (routes, _) = page(&table, &Filter::default(), &token, 2);
        assert_eq!(routes.len(), 1);
    }

    #[test]
    fn what_has_a_mac_address_is_found_without_a_search() {
        let peer = PeerId {
            router_id: RouterId(1),
            asn: 64_496,
        };
        let address = Ipv4Addr::new(192, 0, 2, 1).into();
        let source = Arc::new(Source::new(peer, address, PeerKind::IbgpClient));
        let mut table: Table<Route> = Table::new();
        let mac = |last: u8| Mac([0, 0, 0x5e, 0, 0x53, last]);
        // The routes of a MAC address are those of all VTEPs and tags, with an address of the host and without.
        for (number, last) in (0..60_u32).zip([1, 2, 3].into_iter().cycle()) {
            let octets = number.to_be_bytes();
            let key = MacIpKey {
                rd: Rd([0, 1, 192, 0, 2, 1, 0, octets[3]]),
                tag: EthernetTag(0),
                mac: mac(last),
                ip: None,
            };
            let nlri = Route::MacIp(MacIp {
                key,
                esi: Esi::ZERO,
                labels: Labels::One(Label([0, 0, 1])),
            });
            table.learn(&source, 0, nlri, Arc::new(Attributes::default()));
        }
        table.select();
        for (last, count) in [(1, 20), (3, 20), (4, 0)] {
            let filter = Filter {
                mac: Some(mac(last)),
                ..Filter::default()
            };
            let wanted = Wanted::<Route>::new(filter, None, 7);
            let name = wanted.shared_name().unwrap();
            let named = wanted.named(&table, name).unwrap();
            let (page, next) = wanted.page(&named, None, 7);
            let all = found(&wanted, &table, First::all());
            assert_eq!((page.clone(), next.clone()), all);
            assert_eq!((page.len(), next.is_empty()), (count.min(7), count == 0));
        }
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
            let (routes, next) = page(&table, &Filter::default(), &token, 15_000);
            keys.extend(routes.into_iter().map(|route| route.key));
            (token, pages) = (next, pages + 1);
            if token.is_empty() {
                break;
            }
        }
        let expected = (0..count).map(|number| prefix(number).key().to_string());
        assert!(keys.into_iter().eq(expected));
        // They are bounded by their octets before they are by their number.
        assert!(pages >= 3, "{pages}");
    }

    #[test]
    fn a_prefix_that_is_named_is_found_without_a_search() {
        let mut table = Table::new();
        let peer = PeerId {
            router_id: RouterId(1),
            asn: 64_496,
        };
        let address = Ipv4Addr::new(192, 0, 2, 1).into();
        let source = Arc::new(Source::new(peer, address, PeerKind::IbgpClient));
        table.learn(&source, 0, prefix(1), Arc::new(Attributes::default()));
        table.select();
        for (number, count) in [(1, 1), (2, 0)] {
            let key = prefix(number).key();
            let filter = Filter {
                name: Name::new(Some(key.to_string()), None),
                ..Filter::default()
            };
            let wanted = Wanted::<Prefix4>::new(filter, None, 10);
            assert_eq!(wanted.only(), Some(prefix(number)));
            let (routes, next) = wanted.page(&wanted.at(&table, &key), None, 7);
            assert_eq!((routes.len(), next.as_str()), (count, ""));
        }
    }
}
