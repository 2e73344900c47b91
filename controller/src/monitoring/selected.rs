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
#[derive(Clone, Debug)]
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
