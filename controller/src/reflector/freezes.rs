//! MAC addresses that are frozen where they are, as agreed: which paths are withheld for it. RFC 7432 §15.1.
//! Knows no clock and no detector: the same facts withhold the same paths on every replica.
//!
//! ```text
//! fact:  (VNI, MAC) frozen at a holder
//! held:   paths of that address from the holder     one at least: in force
//! others: paths of that address from elsewhere      withheld while it is in force; sticky ones never are
//! ```
//!
//! Without a path of the holder nothing is withheld, whatever was agreed: an address that has one place left
//! is told there. What is withheld stays in the table, marked in its source.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use weft_bgp::attribute::Attributes;
use weft_bgp::nlri::Nlri;
use weft_bgp::peer::PeerId;
use weft_bgp::table::{Path, Source, Table};
use weft_evpn::moves::{self, Holder, Place, Standing};
use weft_evpn::{Route, RouteKey};

/// What is frozen, and the paths that it is about.
#[derive(Debug, Default)]
pub struct Freezes {
    places: HashMap<Place, Freeze>,
    names: HashMap<Name, Place>,
    /// Agreed since the table was looked through.
    fresh: BTreeSet<Place>,
    /// Paths came or went since the last look.
    touched: BTreeSet<Place>,
}

/// A frozen MAC address as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// Which.
    pub place: Place,
    /// Where it is held.
    pub holder: Holder,
    /// Paths of the holder; 0: the freeze does nothing.
    pub held: usize,
    /// Paths that are told to nobody for it.
    pub withheld: usize,
    /// When this replica learned of it.
    pub since: Duration,
}

/// A path: of which destination, from whom, and its id there.
type Name = (RouteKey, PeerId, u32);

#[derive(Debug)]
struct Freeze {
    holder: Holder,
    since: Duration,
    held: BTreeSet<Name>,
    others: BTreeSet<Name>,
    /// Whether the others are marked in the table.
    in_force: bool,
}

impl Freezes {
    /// Whether nothing is frozen: then nothing of this needs to be asked.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// What is frozen, in no meaningful order. After [`Self::settle`].
    pub fn iter(&self) -> impl Iterator<Item = Frozen> + '_ {
        self.places.iter().map(|(place, freeze)| Frozen {
            place: *place,
            holder: freeze.holder,
            held: freeze.held.len(),
            withheld: match freeze.in_force {
                true => freeze.others.len(),
                false => 0,
            },
            since: freeze.since,
        })
    }

    /// It is agreed that a MAC address is frozen there.
    pub fn put(&mut self, place: Place, holder: Holder, now: Duration, table: &mut Table<Route>) {
        if self.places.get(&place).map(|freeze| freeze.holder) == Some(holder) {
            return;
        }
        self.delete(place, table);
        let freeze = Freeze {
            holder,
            since: now,
            held: BTreeSet::new(),
            others: BTreeSet::new(),
            in_force: false,
        };
        self.places.insert(place, freeze);
        self.fresh.insert(place);
    }

    /// It is agreed that a MAC address is not frozen any more.
    pub fn delete(&mut self, place: Place, table: &mut Table<Route>) {
        let Some(freeze) = self.places.remove(&place) else {
            return;
        };
        self.fresh.remove(&place);
        self.touched.remove(&place);
        for name in freeze.held.iter().chain(&freeze.others) {
            self.names.remove(name);
        }
        if freeze.in_force {
            freeze
                .others
                .iter()
                .for_each(|name| mark(table, name, false));
        }
    }

    /// The source of a path that is about to be learned.
    pub fn learn(
        &mut self,
        source: &Arc<Source>,
        path_id: u32,
        nlri: &Route,
        attributes: &Attributes,
    ) -> Arc<Source> {
        let name = (nlri.key(), source.peer, path_id);
        self.leave(&name);
        let place = moves::place(nlri, attributes);
        let withheld = place.is_some_and(|place| self.enter(place, name, nlri, attributes));
        match withheld {
            true => Arc::new(Source {
                withheld,
                path_id,
                ..(**source).clone()
            }),
            false => Arc::clone(source),
        }
    }

    /// A path goes.
    pub fn withdraw(&mut self, peer: PeerId, path_id: u32, key: RouteKey) {
        self.leave(&(key, peer, path_id));
    }

    /// A peer's paths go.
    pub fn withdraw_peer(&mut self, peer: PeerId) {
        let own = self.names.keys().filter(|(_, of, _)| *of == peer);
        let own: Vec<Name> = own.cloned().collect();
        own.iter().for_each(|name| self.leave(name));
    }

    /// Marks what is withheld now, and unmarks what is not any more; whether that, or what is frozen, changed. Looks
    /// through the table once for all that was agreed since, and otherwise at the paths that it is about.
    pub fn settle(&mut self, table: &mut Table<Route>) -> bool {
        let agreed = !self.fresh.is_empty();
        if agreed {
            self.look_through(table);
        }
        let mut changed = agreed;
        for place in std::mem::take(&mut self.touched) {
            let Some(freeze) = self.places.get_mut(&place) else {
                continue;
            };
            let in_force = !freeze.held.is_empty();
            if freeze.in_force == in_force {
                continue;
            }
            freeze.in_force = in_force;
            changed = true;
            for name in &freeze.others {
                mark(table, name, in_force);
            }
        }
        changed
    }

    /// Finds the paths that are about what was agreed since the last time.
    fn look_through(&mut self, table: &Table<Route>) {
        let fresh = std::mem::take(&mut self.fresh);
        let macs: BTreeSet<_> = fresh.iter().map(|(_, mac)| *mac).collect();
        let about = |path: &Path<Route>| match &path.nlri {
            Route::MacIp(host) if macs.contains(&host.key.mac) => {
                moves::place(&path.nlri, &path.attributes).filter(|place| fresh.contains(place))
            }
            _ => None,
        };
        for path in table.iter().flat_map(|destination| destination.paths) {
            if let Some(place) = about(path) {
                let name = (path.nlri.key(), path.source.peer, path.path_id());
                self.enter(place, name, &path.nlri, &path.attributes);
            }
        }
    }

    /// Notes a path, if its address is frozen; whether it is withheld.
    fn enter(&mut self, place: Place, name: Name, nlri: &Route, attributes: &Attributes) -> bool {
        let Some(freeze) = self.places.get_mut(&place) else {
            return false;
        };
        let (noted, withheld) = match freeze.holder.standing(nlri, attributes) {
            Some(Standing::Holder) => (&mut freeze.held, false),
            Some(Standing::Other) => (&mut freeze.others, freeze.in_force),
            Some(Standing::Sticky) | None => return false,
        };
        noted.insert(name.clone());
        self.names.insert(name, place);
        self.touched.insert(place);
        withheld
    }

    fn leave(&mut self, name: &Name) {
        let Some(place) = self.names.remove(name) else {
            return;
        };
        if let Some(freeze) = self.places.get_mut(&place) {
            freeze.held.remove(name);
            freeze.others.remove(name);
            self.touched.insert(place);
        }
    }
}

/// Withholds a path of the table, or does not any more.
fn mark(table: &mut Table<Route>, (key, peer, path_id): &Name, withheld: bool) {
    let Some(destination) = table.get(key) else {
        return;
    };
    let named = |path: &&Path<Route>| path.source.peer == *peer && path.path_id() == *path_id;
    let Some(path) = destination.paths.iter().find(named).cloned() else {
        return;
    };
    if path.source.withheld == withheld {
        return;
    }
    let source = Arc::new(Source {
        withheld,
        ..(*path.source).clone()
    });
    table.learn(&source, *path_id, path.nlri, path.attributes);
}

#[cfg(test)]
mod tests;
