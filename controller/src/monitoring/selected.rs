//! What was selected, and what peers are told of it, read off the tables page by page: Loc-RIB and
//! Adj-RIB-Out. A reader that is slow sees the last state of a destination, not each one between. Knows
//! tables, and no connection.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use weft_bgp::constrain::Interest;
use weft_bgp::family::Family;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::peer::PeerId;
use weft_bgp::reflect::Local;
use weft_bgp::table::{Path, Table, TooOld};
use weft_bgp::update_group::{ExportKey, UpdateGroup};
use weft_bgp::wire::Writer;
use weft_evpn::Route;

use super::message::Messages;
use crate::reflector::{Reflector, since};

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
    /// What was selected up to this revision has been read.
    selected: u64,
    /// What went up to this revision has been read; absent before the first page.
    gone: Option<u64>,
    /// The whole table was read once.
    pub(super) is_complete: bool,
    /// How many destinations there were.
    pub(super) destinations: u64,
}

/// A page of a table.
pub(super) enum Page {
    Evpn(Part<Route>),
    Ipv4(Part<Prefix4>),
    Ipv6(Part<Prefix6>),
    Rtc(Part<Membership>),
}

pub(super) struct Part<N: Nlri> {
    selected: Vec<Path<N>>,
    gone: Vec<N::Key>,
    place: Place,
    /// There is more already.
    more: bool,
}

impl Place {
    /// Nothing was read.
    pub(super) fn new(family: Family) -> Self {
        Self {
            family,
            selected: 0,
            gone: None,
            is_complete: false,
            destinations: 0,
        }
    }

    /// Everything is told anew, and what is not to be told is withdrawn.
    pub(super) fn again(&mut self) {
        self.selected = 0;
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
        let mut place = self.clone();
        // Of what went before the first page nobody was told.
        let gone = self.gone.unwrap_or(now);
        place.gone = Some(now);
        place.destinations = table.len() as u64;
        if self.selected == now && gone == now {
            place.is_complete = true;
            return Ok(Part {
                selected: Vec::new(),
                gone: Vec::new(),
                place,
                more: false,
            });
        }
        let gone = table.gone_since(gone)?;
        let gone = gone.into_iter().map(|(_, key)| key.clone()).collect();
        let selected = since::selected(table, self.selected, PAGE);
        let more = selected.len() == PAGE;
        let last = selected.last().map(|(revision, _)| *revision);
        // After the last page nothing older than now is left.
        place.selected = if more { last.unwrap_or(now) } else { now };
        place.is_complete |= !more;
        Ok(Part {
            selected: selected.into_iter().map(|(_, path)| path).collect(),
            gone,
            place,
            more,
        })
    }
}

impl Page {
    /// Where the next one begins, and whether there is more already.
    pub(super) fn next(&self) -> (Place, bool) {
        match self {
            Self::Evpn(part) => (part.place.clone(), part.more),
            Self::Ipv4(part) => (part.place.clone(), part.more),
            Self::Ipv6(part) => (part.place.clone(), part.more),
            Self::Rtc(part) => (part.place.clone(), part.more),
        }
    }

    /// As UPDATEs. `is_first`: what is not to be told has never been.
    pub(super) fn messages(&self, whose: &Whose, is_first: bool, local: &Local) -> Vec<Bytes> {
        match self {
            Self::Evpn(part) => part.messages(whose, is_first, local),
            Self::Ipv4(part) => part.messages(whose, is_first, local),
            Self::Ipv6(part) => part.messages(whose, is_first, local),
            Self::Rtc(part) => part.messages(whose, is_first, local),
        }
    }
}

impl<N: Nlri> Part<N> {
    fn messages(&self, whose: &Whose, is_first: bool, local: &Local) -> Vec<Bytes> {
        let mut messages = Messages::new(N::family());
        for key in &self.gone {
            messages.withdraw(|out| N::encode_withdraw(key, out));
        }
        // Equal attributes of one source are one value: together again.
        let mut paths: Vec<&Path<N>> = self.selected.iter().collect();
        let value = |path: &Path<N>| {
            let (source, attributes) = (&path.source, &path.attributes);
            (
                Arc::as_ptr(source) as usize,
                Arc::as_ptr(attributes) as usize,
            )
        };
        paths.sort_by_key(|path| value(path));
        for run in paths.chunk_by(|a, b| value(a) == value(b)) {
            run_messages(run, whose, is_first, local, &mut messages);
        }
        messages.finish()
    }
}

fn run_messages<N: Nlri>(
    run: &[&Path<N>],
    whose: &Whose,
    is_first: bool,
    local: &Local,
    messages: &mut Messages,
) {
    let encode = |path: &Path<N>| {
        let mut out = Writer::new();
        path.nlri.encode(&mut out);
        out.finish()
    };
    let (mut told, mut attributes) = (Vec::new(), None);
    for path in run {
        match whose {
            Whose::LocRib => {
                attributes.get_or_insert_with(|| (*path.attributes).clone());
                told.push(encode(path));
            }
            Whose::Peer(_, peer, key, interest) => {
                let own = path.source.peer == *peer;
                let explained = UpdateGroup::<N>::new(key.clone(), *local).explain(path, interest);
                match explained {
                    Ok(changed) if !own => {
                        attributes.get_or_insert(changed);
                        told.push(encode(path));
                    }
                    Ok(_) | Err(_) if is_first => {}
                    Ok(_) | Err(_) => {
                        messages.withdraw(|out| N::encode_withdraw(&path.nlri.key(), out));
                    }
                }
            }
        }
    }
    if let Some(attributes) = attributes {
        messages.announce(&attributes, told.iter().map(|nlri| &nlri[..]));
    }
}

/// Destinations copied at a time: about a millisecond of the tables' thread.
const PAGE: usize = 1_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    use bytes::BytesMut;
    use weft_bgp::attribute::{Attributes, NextHop};
    use weft_bgp::capability::AddPathSet;
    use weft_bgp::frame;
    use weft_bgp::message::{DecodeContext, Message};
    use weft_bgp::peer::{ClusterId, RouterId};
    use weft_bgp::table::{PeerKind, Source};

    use super::*;

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
        let local = Local {
            asn: 64_496,
            router_id: RouterId(100),
            cluster_id: ClusterId(1),
        };
        loop {
            let part = place.part(table).unwrap();
            for message in part.messages(whose, !place.is_complete, &local) {
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
            *place = part.place;
            if !part.more {
                return;
            }
        }
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
        assert!(part.selected.is_empty() && part.gone.is_empty() && !part.more);
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
}
