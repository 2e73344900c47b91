//! MAC addresses that move too often, as the whole fabric shows it: one host in two places, or a loop.
//! Knows no clock and no session: what the time is comes in, what is done about an alarm is the caller's.
//!
//! A reflector sees every leaf's announcements, so it sees what no leaf does: who had the address before.

mod freeze;
mod holder;

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::fmt;
use std::time::Duration;

use foldhash::HashMap;
use weft_bgp::table::{BestChange, Path};

use crate::community::MacMobility;
use crate::mac::Mac;
use crate::route::Route;
use crate::vni::Vni;

pub use freeze::{Standing, place};
pub use holder::Holder;

use holder::Holders;

/// When moves are too many.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// N of RFC 7432 §15.1: so many moves of one MAC address ...
    pub moves: u32,
    /// ... within M: are one host in two places.
    pub window: Duration,
    /// For how long a MAC address that moved too often is one that did.
    pub recover: Duration,
    /// So many moves of any MAC addresses of one VNI ...
    pub storm_moves: u32,
    /// ... within this time are a storm.
    pub storm_window: Duration,
    /// MAC addresses that are followed at most; those beyond are not, and counted.
    pub followed_max: usize,
}

/// FRR's numbers for one MAC address: 5 moves in 180 s, 1800 s to recover. A storm is a hundred in ten
/// seconds: a rack that is moved by hand makes fewer, a loop makes thousands.
impl Default for Settings {
    fn default() -> Self {
        Self {
            moves: 5,
            window: Duration::from_secs(180),
            recover: Duration::from_secs(1_800),
            storm_moves: 100,
            storm_window: Duration::from_secs(10),
            followed_max: 1 << 20,
        }
    }
}

/// What is worth saying.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Alarm {
    /// A MAC address moved too often.
    Duplicate {
        /// In which VNI.
        vni: Vni,
        /// Which.
        mac: Mac,
        /// Where it was last but one.
        from: Holder,
        /// Where it is.
        to: Holder,
        /// How often within the window.
        moves: u32,
    },
    /// A VNI in which too many move.
    Storm {
        /// Which.
        vni: Vni,
        /// How many moves within the window.
        moves: u32,
    },
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate {
                vni,
                mac,
                from,
                to,
                moves,
            } => write!(
                f,
                "{mac} in VNI {vni} moved {moves} times, last from {from} to {to}"
            ),
            Self::Storm { vni, moves } => write!(f, "{moves} moves in VNI {vni}"),
        }
    }
}

/// Where every MAC address is, and which moved lately.
///
/// ```text
/// type 2 selected --> hosts:   (VNI, MAC) -> holder, sequence, routes,     24 octets each
///                                            and those that say just that
///                     history: (VNI, MAC) -> times of moves                only of those that moved
///                     storms:   VNI       -> times of moves
/// ```
///
/// A move is an announcement with a higher sequence from another place (RFC 7432 §15). A session that ends
/// and comes back is none: its routes come back from the same place with the same sequence. A leaf that was
/// started again may count from the beginning: if the sequence is its own, it falls with it.
#[derive(Debug, Default)]
pub struct Moves {
    settings: Settings,
    hosts: HashMap<Place, Host>,
    holders: Holders,
    history: HashMap<Place, History>,
    storms: HashMap<Vni, Storm>,
    unfollowed: u64,
}

/// A MAC address of a broadcast domain.
pub type Place = (Vni, Mac);

/// A MAC address that moved too often and has not recovered.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Duplicate {
    /// Which.
    pub place: Place,
    /// Where it is; `None`: nobody announces any more what was the last word.
    pub holder: Option<Holder>,
    /// It is there for good, as the one who announced the last move says. RFC 7432 §15.2.
    pub is_sticky: bool,
    /// When it has recovered, if it moves no more.
    pub until: Duration,
}

/// Of more routes than can be counted, which is more than there are addresses in a subnet, the first ones that go
/// seem to be the last: then it is as if the address were new.
#[derive(Copy, Clone, Debug)]
struct Host {
    holder: u32,
    sequence: u32,
    routes: u16,
    /// Those of them with this holder and this sequence.
    named: u16,
}

#[derive(Debug, Default)]
struct History {
    /// Of moves, the oldest first; never more than [`Settings::moves`].
    times: VecDeque<Duration>,
    /// Said already, and until when.
    alarmed_until: Option<Duration>,
    /// The last move was to a static address.
    is_sticky: bool,
}

#[derive(Debug, Default)]
struct Storm {
    times: VecDeque<Duration>,
    alarmed_until: Option<Duration>,
}

impl Moves {
    /// Nothing has moved yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Other settings from now on; what moved is remembered.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// What is too many.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes in a change of selection at `now`, counted from any fixed moment: each change of a table
    /// once, in order. Routes other than type 2, those without a VNI, and those that are withheld change
    /// nothing.
    pub fn learn(&mut self, change: &BestChange<Route>, now: Duration) -> Vec<Alarm> {
        let old = change.old.as_ref().and_then(announced);
        let new = change.new.as_ref().and_then(announced);
        let mut alarms = Vec::new();
        match (old, new) {
            (old, Some(new)) if old.is_none_or(|old| old.place == new.place) => {
                self.announce(old, new, now, &mut alarms);
            }
            (old, new) => {
                if let Some(new) = new {
                    self.announce(None, new, now, &mut alarms);
                }
                if let Some(old) = old {
                    self.withdraw(old);
                }
            }
        }
        alarms
    }

    /// MAC addresses that moved too often and have not recovered at `now`.
    pub fn duplicates(&self, now: Duration) -> impl Iterator<Item = Duplicate> {
        self.history.iter().filter_map(move |(place, history)| {
            let until = history.alarmed_until.filter(|until| now < *until)?;
            let host = self.hosts.get(place).filter(|host| host.named > 0);
            Some(Duplicate {
                place: *place,
                holder: host.and_then(|host| self.holders.get(host.holder)),
                is_sticky: history.is_sticky,
                until,
            })
        })
    }

    /// Forgets what is too old to count at `now`. To be called now and then: once in a window will do.
    pub fn forget(&mut self, now: Duration) {
        let Self {
            settings,
            hosts,
            holders,
            history,
            storms,
            ..
        } = self;
        history.retain(|place, history| {
            keep_recent(&mut history.times, now, settings.window);
            let alarmed = history.alarmed_until.is_some_and(|until| now < until);
            if !alarmed {
                history.alarmed_until = None;
            }
            let keep = alarmed || !history.times.is_empty();
            let gone = hosts.get(place).is_some_and(|host| host.routes == 0);
            if !keep && gone {
                hosts.remove(place);
            }
            keep
        });
        storms.retain(|_, storm| {
            keep_recent(&mut storm.times, now, settings.storm_window);
            !storm.times.is_empty() || storm.alarmed_until.is_some_and(|until| now < until)
        });
        holders.keep(hosts.values().map(|host| host.holder));
    }

    /// Takes back what is known of a MAC address's moves, as an operator wishes.
    pub fn clear(&mut self, vni: Vni, mac: Mac) {
        let place = (vni, mac);
        self.history.remove(&place);
        if self.hosts.get(&place).is_some_and(|host| host.routes == 0) {
            self.hosts.remove(&place);
        }
    }

    /// MAC addresses that are followed.
    #[must_use]
    pub fn followed(&self) -> usize {
        self.hosts.len()
    }

    /// Announcements of MAC addresses that were too many to follow.
    #[must_use]
    pub fn unfollowed(&self) -> u64 {
        self.unfollowed
    }

    /// A route says that its address is there; if it said something of it before, it was `old`.
    fn announce(
        &mut self,
        old: Option<Announced>,
        new: Announced,
        now: Duration,
        alarms: &mut Vec<Alarm>,
    ) {
        let full = self.hosts.len() >= self.settings.followed_max;
        let holder = self.holders.number(new.holder);
        let host = match self.hosts.entry(new.place) {
            Entry::Occupied(host) => host.into_mut(),
            Entry::Vacant(_) if full => {
                self.unfollowed = self.unfollowed.saturating_add(1);
                return;
            }
            Entry::Vacant(vacant) => {
                vacant.insert(Host {
                    holder,
                    sequence: new.sequence,
                    routes: 1,
                    named: 1,
                });
                return;
            }
        };
        let alone = host.routes == 0;
        if old.is_none() || alone {
            host.routes = host.routes.saturating_add(1);
        }
        let named = old.is_some_and(|old| host.is_named_by(&old, &self.holders));
        let again = named && host.holder == holder;
        let later = new.sequence > host.sequence;
        let from = host.holder;
        if later || alone || (again && new.sequence < host.sequence) {
            host.sequence = new.sequence;
            host.holder = holder;
            host.named = 1;
        } else if !again {
            let also = host.holder == holder && host.sequence == new.sequence;
            let others = host.named.saturating_sub(u16::from(named));
            host.named = others.saturating_add(u16::from(also));
        }
        if later && !alone && from != holder {
            self.moved(new, from, now, alarms);
        }
    }

    fn withdraw(&mut self, old: Announced) {
        let Entry::Occupied(mut entry) = self.hosts.entry(old.place) else {
            return;
        };
        let host = entry.get_mut();
        let named = host.is_named_by(&old, &self.holders);
        host.named = host.named.saturating_sub(u16::from(named));
        host.routes = host.routes.saturating_sub(1);
        // Its moves still count; without any there is nothing to remember.
        if host.routes == 0 && !self.history.contains_key(&old.place) {
            entry.remove();
        }
    }

    fn moved(&mut self, new: Announced, from: u32, now: Duration, alarms: &mut Vec<Alarm>) {
        let settings = self.settings;
        let (vni, mac) = new.place;
        let history = self.history.entry(new.place).or_default();
        let moves = count(&mut history.times, now, settings.window, settings.moves);
        let silent = history.alarmed_until.is_none_or(|until| now >= until);
        history.is_sticky = new.is_sticky;
        if moves >= settings.moves && silent {
            history.alarmed_until = Some(now.saturating_add(settings.recover));
            alarms.push(Alarm::Duplicate {
                vni,
                mac,
                from: self.holders.get(from).unwrap_or(new.holder),
                to: new.holder,
                moves,
            });
        }
        let storm = self.storms.entry(vni).or_default();
        let (window, max) = (settings.storm_window, settings.storm_moves);
        let moves = count(&mut storm.times, now, window, max);
        let silent = storm.alarmed_until.is_none_or(|until| now >= until);
        if moves >= max && silent {
            storm.alarmed_until = Some(now.saturating_add(window));
            alarms.push(Alarm::Storm { vni, moves });
        }
    }
}

impl Host {
    /// Whether the route says what is the last word about the address.
    fn is_named_by(&self, route: &Announced, holders: &Holders) -> bool {
        self.sequence == route.sequence && holders.get(self.holder) == Some(route.holder)
    }
}

/// What of a path counts here.
#[derive(Copy, Clone, Debug)]
struct Announced {
    place: Place,
    holder: Holder,
    sequence: u32,
    is_sticky: bool,
}

fn announced(path: &Path<Route>) -> Option<Announced> {
    let Route::MacIp(route) = &path.nlri else {
        return None;
    };
    if path.source.withheld {
        return None;
    }
    let mobility = MacMobility::find(&path.attributes);
    Some(Announced {
        place: place(&path.nlri, &path.attributes)?,
        is_sticky: mobility.is_some_and(MacMobility::is_sticky),
        holder: Holder::of(route, &path.attributes)?,
        sequence: mobility.map_or(0, MacMobility::sequence),
    })
}

/// Adds a move, and says how many are within the window; no more than `max` are kept.
fn count(times: &mut VecDeque<Duration>, now: Duration, window: Duration, max: u32) -> u32 {
    keep_recent(times, now, window);
    while times.len() >= usize::try_from(max).unwrap_or(usize::MAX).max(1) {
        times.pop_front();
    }
    times.push_back(now);
    u32::try_from(times.len()).unwrap_or(u32::MAX)
}

fn keep_recent(times: &mut VecDeque<Duration>, now: Duration, window: Duration) {
    while times
        .front()
        .is_some_and(|time| now.saturating_sub(*time) >= window)
    {
        times.pop_front();
    }
}

#[cfg(test)]
mod tests;
