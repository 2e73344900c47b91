//! What was selected, and what peers are told of it, read off the tables page by page: Loc-RIB and
//! Adj-RIB-Out. A reader that is slow sees the last state of a destination, not each one between. Knows
//! tables, and no connection.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use weft_bgp::attribute::Attributes;
use weft_bgp::constrain::Interest;
use weft_bgp::family::Family;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::peer::PeerId;
use weft_bgp::reflect::Local;
use weft_bgp::table::{Mark, Path, Table, TooOld};
use weft_bgp::update_group::{ExportKey, UpdateGroup};
use weft_bgp::wire::Writer;
use weft_evpn::Route;

use super::message::Messages;
use crate::reflector::Reflector;

/// Whose table is told.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Whose {
    /// What was selected.
    LocRib,
    /// What this peer is told of it.
    Peer(IpAddr, PeerId, ExportKey, Interest),
}

/// How far a reader of one family is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) family: Family,
    /// What was selected has been read up to there.
    mark: Mark,
    /// What went up to this revision has been read; absent before the first page.
    gone: Option<u64>,
    /// A destination that was selected up to this revision, and not since then, was not told of before its
    /// page came: if it is not to be told there is nothing to take back.
    untold: u64,
    /// The whole table was read once.
    pub(super) is_complete: bool,
    /// How many destinations there were.
    pub(super) destinations: u64,
}

/// A page of a table, for all readers that are there.
#[derive(Debug)]
pub(super) enum Page {
    Evpn(Part<Route>),
    Ipv4(Part<Prefix4>),
    Ipv6(Part<Prefix6>),
    Rtc(Part<Membership>),
}

#[derive(Debug)]
pub(super) struct Part<N: Nlri> {
    /// With the revision of the selection.
    selected: Vec<(u64, Path<N>)>,
    /// With the revision at which it went.
    gone: Vec<(u64, N::Key)>,
    span: Span,
}

/// What a page is about.
#[derive(Clone, Debug)]
struct Span {
    from: Place,
    /// Where what was selected goes on.
    next: Mark,
    /// What went was read up to this revision.
    gone_to: u64,
    /// The table's revision.
    now: u64,
    destinations: u64,
}

impl Place {
    /// Nothing was read.
    pub(super) fn new(family: Family) -> Self {
        Self {
            family,
            mark: Mark::default(),
            gone: None,
            untold: 0,
            is_complete: false,
            destinations: 0,
        }
    }

    /// Everything is told anew, and what is not to be told is withdrawn.
    pub(super) fn again(&mut self) {
        self.mark = Mark::default();
        self.untold = 0;
    }

    /// Has read everything once, and waits for what changes.
    fn is_following(&self) -> bool {
        self.gone.is_some() && !self.mark.is_walking() && self.mark.revision > 0
    }

    /// Where a page begins that serves both readers; here if there is none.
    pub(super) fn or_earlier(self, other: &Self) -> Self {
        let alike = self.family == other.family && self.is_following() && other.is_following();
        if !alike {
            return self;
        }
        let mark = match self.mark.revision <= other.mark.revision {
            true => self.mark,
            false => other.mark,
        };
        Self {
            mark,
            gone: self.gone.min(other.gone),
            ..self
        }
    }

    /// What comes next.
    ///
    /// # Errors
    /// What went since then is no longer remembered.
    pub(super) fn read(&self, reflector: &Reflector) -> Result<Page, TooOld> {
        Ok(match self.family {
            Family::IPV4_UNICAST => Page::Ipv4(self.part(reflector.ipv4())?),
            Family::IPV6_UNICAST => Page::Ipv6(self.part(reflector.ipv6())?),
            Family::RTC => Page::Rtc(self.part(reflector.rtc())?),
            _ => Page::Evpn(self.part(reflector.evpn())?),
        })
    }

    fn part<N: Nlri>(&self, table: &Table<N>) -> Result<Part<N>, TooOld> {
        let now = table.revision();
        // Of what went before the first page nobody was told.
        let (gone, gone_to) = table.gone_part(self.gone.unwrap_or(now), GONE)?;
        let gone = gone.into_iter().map(|(at, key)| (at, key.clone()));
        let read = table.read(self.mark, PAGE);
        let selected = read.selected.into_iter();
        Ok(Part {
            selected: selected.map(|(at, path)| (at, path.clone())).collect(),
            gone: gone.collect(),
            span: Span {
                from: self.clone(),
                next: read.next,
                gone_to,
                now,
                destinations: table.len() as u64,
            },
        })
    }
}

impl Span {
    /// Where a reader is after the page; `None`: the page is not for it.
    fn after(&self, place: &Place) -> Option<Place> {
        let Self { from, next, .. } = self;
        let exactly = (place.mark, place.gone) == (from.mark, from.gone);
        let has_begin = match next.is_walking() {
            true => from.mark == place.mark,
            false => from.mark.revision <= place.mark.revision,
        };
        let follows = from.is_following() && place.is_following() && from.gone <= place.gone;
        if place.family != from.family || !(exactly || (follows && has_begin)) {
            return None;
        }
        let is_behind =
            next.is_walking() || place.mark.is_walking() || place.mark.revision < next.revision;
        Some(Place {
            family: place.family,
            mark: if is_behind { *next } else { place.mark },
            gone: place.gone.max(Some(self.gone_to)),
            untold: match place.gone {
                None => self.now,
                Some(_) => place.untold,
            },
            is_complete: place.is_complete || !self.more(),
            destinations: self.destinations,
        })
    }

    /// There is more already.
    fn more(&self) -> bool {
        self.next.is_walking() || self.next.revision.min(self.gone_to) < self.now
    }
}

impl Page {
    fn span(&self) -> &Span {
        match self {
            Self::Evpn(part) => &part.span,
            Self::Ipv4(part) => &part.span,
            Self::Ipv6(part) => &part.span,
            Self::Rtc(part) => &part.span,
        }
    }

    pub(super) fn family(&self) -> Family {
        self.span().from.family
    }

    /// Where a reader is when it was told the page; `None`: the page is not for it.
    pub(super) fn after(&self, place: &Place) -> Option<Place> {
        self.span().after(place)
    }

    /// There is more already.
    pub(super) fn more(&self) -> bool {
        self.span().more()
    }

    /// As UPDATEs, for a reader at this place, for which the page is.
    pub(super) fn messages(&self, whose: &Whose, place: &Place, local: &Local) -> Vec<Bytes> {
        match self {
            Self::Evpn(part) => part.messages(whose, place, local),
            Self::Ipv4(part) => part.messages(whose, place, local),
            Self::Ipv6(part) => part.messages(whose, place, local),
            Self::Rtc(part) => part.messages(whose, place, local),
        }
    }
}

impl<N: Nlri> Part<N> {
    fn messages(&self, whose: &Whose, place: &Place, local: &Local) -> Vec<Bytes> {
        let mut messages = Messages::new(N::family());
        let gone = self.gone.iter();
        for (_, key) in gone.filter(|(at, _)| place.gone.is_none_or(|read| *at > read)) {
            messages.withdraw(|out| N::encode_withdraw(key, out));
        }
        // Where the page is not the reader's own, it has read the begin of it.
        let is_new = |(at, _): &&(u64, Path<N>)| *at > place.mark.revision;
        let mut paths: Vec<&(u64, Path<N>)> = self.selected.iter().filter(is_new).collect();
        // Equal attributes of one source are one value: together again.
        let value = |(_, path): &(u64, Path<N>)| {
            let (source, attributes) = (&path.source, &path.attributes);
            (
                Arc::as_ptr(source) as usize,
                Arc::as_ptr(attributes) as usize,
            )
        };
        paths.sort_by_key(|path| value(path));
        let teller = Teller::new(whose, local);
        for run in paths.chunk_by(|a, b| value(a) == value(b)) {
            teller.tell(run, untold(place), &mut messages);
        }
        messages.finish()
    }
}

/// Up to which revision nothing has to be taken back.
fn untold(place: &Place) -> u64 {
    match place.gone {
        None => u64::MAX,
        Some(_) => place.untold,
    }
}

/// What one reader is told of a path.
enum Teller<'a, N: Nlri> {
    Everything,
    Peer(PeerId, Box<UpdateGroup<N>>, &'a Interest),
}

impl<'a, N: Nlri> Teller<'a, N> {
    fn new(whose: &'a Whose, local: &Local) -> Self {
        match whose {
            Whose::LocRib => Self::Everything,
            Whose::Peer(_, peer, key, interest) => {
                let group = UpdateGroup::new(key.clone(), *local);
                Self::Peer(*peer, Box::new(group), interest)
            }
        }
    }

    /// The path's attributes as the reader is told them.
    fn attributes<'p>(&self, path: &'p Path<N>) -> Option<Cow<'p, Attributes>> {
        match self {
            Self::Everything => Some(Cow::Borrowed(&*path.attributes)),
            Self::Peer(peer, group, _) if path.source.peer == *peer && !group.returns() => None,
            Self::Peer(_, group, interest) => group.explain(path, interest).ok().map(Cow::Owned),
        }
    }

    /// Tells paths that have their attributes in common.
    fn tell(&self, run: &[&(u64, Path<N>)], untold: u64, messages: &mut Messages) {
        let (mut told, mut attributes) = (Vec::new(), None);
        for (at, path) in run {
            match self.attributes(path) {
                Some(changed) => {
                    attributes.get_or_insert(changed);
                    let mut nlri = Writer::new();
                    path.nlri.encode(&mut nlri);
                    told.push(nlri.finish());
                }
                None if *at <= untold => {}
                None => messages.withdraw(|out| N::encode_withdraw(&path.nlri.key(), out)),
            }
        }
        if let Some(attributes) = attributes {
            messages.announce(&attributes, told.iter().map(|nlri| &nlri[..]));
        }
    }
}

/// Destinations copied at a time: about a millisecond of the tables' thread.
const PAGE: usize = 1_000;
/// Times one went that are looked at at a time: there is less to copy.
const GONE: usize = 4_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    use bytes::BytesMut;
    use weft_bgp::attribute::{ExtendedCommunity, NextHop};
    use weft_bgp::capability::AddPathSet;
    use weft_bgp::frame;
    use weft_bgp::message::{DecodeContext, Message};
    use weft_bgp::peer::{ClusterId, RouterId};
    use weft_bgp::table::{PeerKind, Source};
    use weft_evpn::RouteKey;

    use super::*;
    use crate::monitoring::tests::{self, announced, flood, host, withdrawn};

    const CONTEXT: DecodeContext = DecodeContext {
        four_octet_as: true,
        ibgp: true,
        extended_message: false,
        add_path: AddPathSet::NONE,
    };

    fn prefix(number: u32) -> Prefix4 {
        Prefix4 {
            addr: Ipv4Addr::from(0xcb00_7100 + number),
            len: 32,
        }
    }

    fn peer(last: u8) -> PeerId {
        PeerId {
            router_id: RouterId(last.into()),
            asn: 64_496,
        }
    }

    fn source(last: u8) -> Arc<Source> {
        let address = Ipv4Addr::new(192, 0, 2, last).into();
        Arc::new(Source::new(peer(last), address, PeerKind::IbgpClient))
    }

    fn attributes(med: u32) -> Arc<Attributes> {
        Arc::new(Attributes {
            next_hop: Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, 1))),
            med: Some(med),
            ..Attributes::default()
        })
    }

    /// What a collector has after it was told everything: prefix and MED.
    fn told(
        table: &Table<Prefix4>,
        whose: &Whose,
        place: &mut Place,
        has: &mut BTreeMap<Prefix4, Option<u32>>,
    ) {
        loop {
            let part = place.part(table).unwrap();
            tell(&part, whose, place, has);
            if !part.span.more() {
                return;
            }
        }
    }

    /// One page, to a reader that it is for.
    fn tell(
        part: &Part<Prefix4>,
        whose: &Whose,
        place: &mut Place,
        has: &mut BTreeMap<Prefix4, Option<u32>>,
    ) {
        let local = Local {
            asn: 64_496,
            router_id: RouterId(100),
            cluster_id: ClusterId(1),
        };
        let after = part.span.after(place).unwrap();
        for message in part.messages(whose, place, &local) {
            let mut octets = BytesMut::from(&message[..]);
            let frame = frame::split(&mut octets, 4_096).unwrap().unwrap();
            let Message::Update(update) = Message::decode(frame, &CONTEXT).unwrap() else {
                panic!("an UPDATE");
            };
            for (_, prefix) in update.withdrawn {
                has.remove(&prefix);
            }
            for (_, prefix) in update.announced {
                has.insert(prefix, update.attributes.med);
            }
        }
        *place = after;
    }

    #[test]
    fn a_reader_has_the_table_however_it_changed_meanwhile() {
        let mut table = Table::new();
        let count = u32::try_from(PAGE).unwrap() * 2 + 10;
        for number in 0..count {
            table.learn(&source(1), 0, prefix(number), attributes(number % 3));
        }
        table.select();
        let (mut place, mut has) = (Place::new(Family::IPV4_UNICAST), BTreeMap::new());
        told(&table, &Whose::LocRib, &mut place, &mut has);
        assert_eq!(has.len(), count as usize);
        assert!(place.is_complete);

        table.withdraw(peer(1), 0, &prefix(0));
        table.learn(&source(1), 0, prefix(1), attributes(9));
        table.withdraw(peer(1), 0, &prefix(2));
        table.select();
        table.learn(&source(2), 0, prefix(2), attributes(5));
        table.select();
        told(&table, &Whose::LocRib, &mut place, &mut has);
        assert_eq!(has.len(), count as usize - 1);
        assert_eq!(has.get(&prefix(0)), None);
        assert_eq!(has[&prefix(1)], Some(9));
        assert_eq!(has[&prefix(2)], Some(5));
        // Nothing is said twice.
        let part = place.part(&table).unwrap();
        assert!(part.selected.is_empty() && part.gone.is_empty() && !part.span.more());
    }

    #[test]
    fn a_peer_is_not_told_its_own_routes_even_if_it_was_told_others() {
        let mut table = Table::new();
        table.learn(&source(1), 0, prefix(1), attributes(3));
        table.learn(&source(2), 0, prefix(2), attributes(3));
        table.select();
        let key = ExportKey::new(PeerKind::IbgpClient, &CONTEXT);
        let address = Ipv4Addr::new(192, 0, 2, 2).into();
        let whose = Whose::Peer(address, peer(2), key, Interest::Everything);
        let (mut place, mut has) = (Place::new(Family::IPV4_UNICAST), BTreeMap::new());
        told(&table, &whose, &mut place, &mut has);
        assert_eq!(has.keys().collect::<Vec<_>>(), [&prefix(1)]);
        // Its own becomes the best one: what it was told is taken back.
        table.learn(&source(2), 0, prefix(1), attributes(1));
        table.select();
        told(&table, &whose, &mut place, &mut has);
        assert!(has.is_empty(), "{has:?}");
    }

    fn everything_to(last: u8) -> Whose {
        let key = ExportKey::new(PeerKind::IbgpClient, &CONTEXT);
        let address = Ipv4Addr::new(192, 0, 2, last).into();
        Whose::Peer(address, peer(last), key, Interest::Everything)
    }

    #[test]
    fn what_was_told_on_an_earlier_page_is_taken_back() {
        let mut table = Table::new();
        let count = u32::try_from(PAGE).unwrap() * 2;
        for number in 0..count {
            let from = if number < 10 { 2 } else { 1 };
            table.learn(&source(from), 0, prefix(number), attributes(3));
        }
        table.select();
        let (mut place, mut has) = (Place::new(Family::IPV4_UNICAST), BTreeMap::new());
        let whose = everything_to(2);
        let part = place.part(&table).unwrap();
        tell(&part, &whose, &mut place, &mut has);
        assert!(part.span.more() && has.contains_key(&prefix(20)));
        // It becomes the reader's own, and another comes back as such, in the last place.
        table.learn(&source(2), 0, prefix(20), attributes(1));
        table.withdraw(peer(1), 0, &prefix(count - 1));
        table.select();
        table.withdraw(peer(1), 0, &prefix(21));
        table.learn(&source(2), 0, prefix(21), attributes(3));
        table.select();
        told(&table, &whose, &mut place, &mut has);
        assert_eq!(has.len(), count as usize - 13);
        for number in [20, 21, count - 1] {
            assert!(!has.contains_key(&prefix(number)), "{number}");
        }
    }

    #[test]
    fn who_is_told_otherwise_has_taken_back_what_it_is_not_told_any_more() {
        let mut table = Table::new();
        for number in 0..10 {
            table.learn(&source(1), 0, prefix(number), attributes(3));
        }
        table.select();
        let (mut place, mut has) = (Place::new(Family::IPV4_UNICAST), BTreeMap::new());
        told(&table, &everything_to(2), &mut place, &mut has);
        assert_eq!(has.len(), 10);
        // As who it is told now, the routes are its own.
        place.again();
        told(&table, &everything_to(1), &mut place, &mut has);
        assert!(has.is_empty(), "{has:?}");
    }

    #[test]
    fn one_page_serves_readers_that_are_at_different_places() {
        let mut table = Table::new();
        for number in 0..10 {
            table.learn(&source(1), 0, prefix(number), attributes(3));
        }
        table.select();
        let new = || (Place::new(Family::IPV4_UNICAST), BTreeMap::new());
        let (mut ahead, mut ahead_has) = new();
        let (mut behind, mut behind_has) = new();
        told(&table, &Whose::LocRib, &mut ahead, &mut ahead_has);
        told(&table, &everything_to(2), &mut behind, &mut behind_has);
        table.withdraw(peer(1), 0, &prefix(0));
        table.learn(&source(1), 0, prefix(1), attributes(4));
        table.select();
        told(&table, &Whose::LocRib, &mut ahead, &mut ahead_has);
        table.withdraw(peer(1), 0, &prefix(2));
        table.learn(&source(1), 0, prefix(3), attributes(5));
        table.select();
        let from = ahead.clone().or_earlier(&behind);
        assert_eq!((from.mark, from.gone), (behind.mark, behind.gone));
        let part = from.part(&table).unwrap();
        assert_eq!((part.selected.len(), part.gone.len()), (2, 2));
        tell(&part, &Whose::LocRib, &mut ahead, &mut ahead_has);
        tell(&part, &everything_to(2), &mut behind, &mut behind_has);
        assert_eq!(ahead_has, behind_has);
        assert_eq!(ahead_has.len(), 8);
        assert_eq!(ahead_has[&prefix(3)], Some(5));
        assert_eq!((ahead.mark, ahead.gone), (behind.mark, behind.gone));
        // Who has not read everything once does not share it.
        assert!(part.span.after(&Place::new(Family::IPV4_UNICAST)).is_none());
    }
    /// What a collector has of EVPN after it was told everything, and how many UPDATEs it took.
    fn told_evpn(
        table: &Table<Route>,
        whose: &Whose,
        place: &mut Place,
        has: &mut BTreeMap<RouteKey, (Route, Attributes)>,
    ) -> usize {
        let local = Local {
            asn: 64_496,
            router_id: RouterId(100),
            cluster_id: ClusterId(1),
        };
        let mut count = 0;
        loop {
            let page = Page::Evpn(place.part(table).unwrap());
            assert_eq!(page.family(), Family::L2VPN_EVPN);
            let after = page.after(place).unwrap();
            for message in page.messages(whose, place, &local) {
                count += 1;
                let update = tests::decoded(&message, AddPathSet::NONE);
                for (_, key) in withdrawn(&update, false) {
                    has.remove(&key);
                }
                for (_, route) in announced(&update, false) {
                    has.insert(route.key(), (route, update.attributes.clone()));
                }
            }
            *place = after;
            if !page.more() {
                return count;
            }
        }
    }

    /// As a collector hears of it: the next hop stands with the NLRI.
    fn heard(route: &Route) -> (Route, Attributes) {
        let attributes = Attributes {
            next_hop: None,
            ..tests::attributes(route)
        };
        (route.clone(), attributes)
    }

    fn evpn_table(routes: &[Route]) -> Table<Route> {
        let mut table = Table::new();
        let source = source(1);
        let hosts = Arc::new(tests::attributes(&host(0)));
        let floods = Arc::new(tests::attributes(&flood(0)));
        for route in routes {
            let attributes = match route {
                Route::MacIp(_) => &hosts,
                _ => &floods,
            };
            table.learn(&source, 0, route.clone(), Arc::clone(attributes));
        }
        table.select();
        table
    }

    /// With the labels and the segment of a type 2 and the tunnel of a type 3, over several pages.
    #[test]
    fn evpn_routes_are_told_as_they_were_selected_and_taken_back_by_key() {
        let count = u32::try_from(PAGE).unwrap() + 10;
        let mut routes: Vec<_> = (0..count).map(host).collect();
        routes.extend((0..10).map(flood));
        let mut table = evpn_table(&routes);
        let (mut place, mut has) = (Place::new(Family::L2VPN_EVPN), BTreeMap::new());
        let messages = told_evpn(&table, &Whose::LocRib, &mut place, &mut has);
        let expected: BTreeMap<_, _> = routes.iter().map(|it| (it.key(), heard(it))).collect();
        assert_eq!(has, expected);
        assert!(messages * 10 < routes.len(), "{messages} UPDATEs");

        let gone = [host(3), flood(3)].map(|route| route.key());
        gone.iter().for_each(|key| table.withdraw(peer(1), 0, key));
        table.select();
        told_evpn(&table, &Whose::LocRib, &mut place, &mut has);
        let mut expected = expected;
        expected.retain(|key, _| !gone.contains(key));
        assert_eq!(has, expected);
    }

    /// RFC 8671 §5: with what the reflector adds, and not what a peer may not be told.
    #[test]
    fn a_peer_is_told_evpn_routes_as_it_hears_them_from_us() {
        let routes = [host(1), flood(1)];
        let table = evpn_table(&routes);
        let new = || (Place::new(Family::L2VPN_EVPN), BTreeMap::new());
        let (mut place, mut has) = new();
        told_evpn(&table, &everything_to(2), &mut place, &mut has);
        let reflected = |route: &Route| {
            let (route, attributes) = heard(route);
            let attributes = Attributes {
                originator_id: Some(RouterId(1)),
                cluster_list: vec![ClusterId(1)],
                ..attributes
            };
            (route.key(), (route, attributes))
        };
        assert_eq!(has, routes.iter().map(reflected).collect());
        // Its own are not told to their peer.
        let (mut place, mut has) = new();
        told_evpn(&table, &everything_to(1), &mut place, &mut has);
        assert_eq!(has, BTreeMap::new());
        // Who wants another route target is told neither.
        let target = ExtendedCommunity::route_target_as2(64_496, 101);
        let Whose::Peer(address, id, key, _) = everything_to(2) else {
            panic!("a peer");
        };
        let other = Whose::Peer(address, id, key, Interest::of_exports([target]));
        let (mut place, mut has) = new();
        told_evpn(&table, &other, &mut place, &mut has);
        assert_eq!(has, BTreeMap::new());
    }
}
