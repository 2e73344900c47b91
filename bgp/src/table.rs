//! All paths of one family, what is selected of them, and what changed since when.
//!
//! It does not know where paths come from, who will be told, or what an NLRI means. The same facts give the same
//! selection whatever order they come in; revisions count changes of this table and are not compared across replicas.

mod counts;
mod named;
mod path;
mod recent;
mod since;
mod tombstone;
mod tracking;

use std::hash::{BuildHasher, Hash};
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::attribute::Attributes;
use crate::decision::{self, Step};
use crate::nlri::Nlri;
use crate::peer::PeerId;

pub use path::{Path, PeerKind, Source, Stale};
pub use since::{Gone, Mark, Part};
pub use tombstone::{TOMBSTONES_MAX, TooOld};
pub use tracking::PathsChange;

use counts::Counts;
use named::Named;
use path::Sources;
use recent::{RECENT_MAX, Recent};
use tombstone::Tombstones;
use tracking::Tracking;

/// A destination as its reader sees it.
#[derive(Copy, Clone, Debug)]
pub struct Destination<'a, N> {
    /// All paths, by peer and path id.
    pub paths: &'a [Path<N>],
    /// What the last `select()` chose. `None`: learned after it.
    pub selected: Option<&'a Path<N>>,
    /// Why that one.
    pub by: Step,
    /// The revision at which it was selected.
    pub revision: u64,
}

impl<N: Nlri> Destination<'_, N> {
    /// What its paths lead to.
    #[must_use]
    pub fn key(&self) -> N::Key {
        let first = self.paths.first();
        first.expect("a destination has a path").nlri.key()
    }
}

/// A destination's best path changed.
#[derive(Clone, Debug)]
pub struct BestChange<N: Nlri> {
    /// Of which destination.
    pub key: N::Key,
    /// What was selected before; always `None` in an answer of [`Table::changes_since`].
    pub old: Option<Path<N>>,
    /// What is selected now; `None`: the destination is gone.
    pub new: Option<Path<N>>,
    /// Why.
    pub by: Step,
    /// The table's revision with this change, from 1.
    pub revision: u64,
}

/// Destinations by key. Each costs 56 octets, an index entry of 9, and `size_of::<Path<N>>()` per path.
///
/// The key is not stored beside the paths: it is computed from the first of them.
#[derive(Debug)]
pub struct Table<N: Nlri> {
    /// Places in `slots`, by hash of the key.
    index: HashTable<Entry>,
    /// Those of them that have a name.
    named: Named,
    slots: Vec<Slot<N>>,
    free: Vec<u32>,
    dirty: Vec<Dirty<N>>,
    /// Of the last `select()`: what changed, and was then as it had been.
    unchanged: Vec<N::Key>,
    tracking: Option<Tracking<N>>,
    sources: Sources,
    tombstones: Tombstones<N::Key>,
    recent: Recent,
    revision: u64,
    /// Number of slots that have a path.
    destinations: usize,
    paths: usize,
    counts: Counts,
    hasher: FixedState,
}

#[derive(Debug)]
struct Slot<N> {
    /// By peer and path id, so that the order of arrival is not remembered.
    paths: Vec<Path<N>>,
    by: Step,
    revision: u64,
    /// Place in `paths`, or `NONE`. Not true while the slot is dirty.
    selected: u32,
    /// Place in `Table::dirty`, or `NONE`.
    dirty: u32,
}

/// Where a destination is. The hash is beside the place, so that the index grows without a look at the slots.
#[derive(Copy, Clone, Debug)]
struct Entry {
    hash: u32,
    slot: u32,
}

/// A destination whose paths changed since the last `select()`.
#[derive(Debug)]
struct Dirty<N: Nlri> {
    slot: u32,
    key: N::Key,
    /// What was selected before the first change.
    before: Option<Path<N>>,
}

impl<N: Nlri> Table<N> {
    /// An empty table at revision 0.
    #[must_use]
    pub fn new() -> Self {
        Self::with_seed(0)
    }

    /// As `new`, with keys hashed under `seed`, so that no peer can prepare keys that collide. No answer depends on it.
    #[must_use]
    pub fn with_seed(seed: u64) -> Self {
        Self {
            index: HashTable::new(),
            named: Named::default(),
            slots: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            unchanged: Vec::new(),
            tracking: None,
            sources: Sources::default(),
            tombstones: Tombstones::new(TOMBSTONES_MAX),
            recent: Recent::new(RECENT_MAX),
            revision: 0,
            destinations: 0,
            paths: 0,
            counts: Counts::default(),
            hasher: FixedState::with_seed(seed),
        }
    }

    /// For an empty table: remembers only so many destinations that went.
    #[must_use]
    pub fn with_tombstones(mut self, max: usize) -> Self {
        self.tombstones = Tombstones::new(max);
        self
    }

    /// For an empty table: remembers where only so many changes were. Readers that are further behind walk.
    #[must_use]
    pub fn with_recent(mut self, max: usize) -> Self {
        self.recent = Recent::new(max);
        self
    }

    /// While `on`, every change of a destination's paths is remembered for [`Table::path_changes`], at the price of copies.
    /// For a table without paths learned or withdrawn since the last `select()`.
    pub fn track_paths(&mut self, on: bool) {
        if on == self.tracking.is_some() {
            return;
        }
        assert!(
            self.dirty.is_empty(),
            "tracking begins and ends between two selections"
        );
        self.tracking = on.then(Tracking::new);
    }

    /// A peer announces a path; it replaces the one it announced before under the same key and path id, 0 without
    /// add-path.
    pub fn learn(
        &mut self,
        source: &Arc<Source>,
        path_id: u32,
        nlri: N,
        attributes: Arc<Attributes>,
    ) {
        let key = nlri.key();
        let path = Path {
            source: self.sources.with_id(source, path_id),
            attributes,
            nlri,
        };
        let slot = self.find(&key).unwrap_or_else(|| self.occupy(&key));
        let paths = &self.slots[slot as usize].paths;
        match paths.binary_search_by_key(&path.source.place(), |held| held.source.place()) {
            Ok(place) => {
                let held = &paths[place];
                if held.source == path.source
                    && held.nlri == path.nlri
                    && (Arc::ptr_eq(&held.attributes, &path.attributes)
                        || held.attributes == path.attributes)
                {
                    return;
                }
                self.mark(slot, key);
                self.slots[slot as usize].paths[place] = path;
            }
            Err(place) => {
                self.mark(slot, key);
                self.counts.add(path.source.peer);
                let paths = &mut self.slots[slot as usize].paths;
                paths.reserve_exact(1);
                paths.insert(place, path);
                self.paths += 1;
                self.destinations += usize::from(paths.len() == 1);
            }
        }
    }

    /// A peer takes one of its paths back. Nothing happens if it has none of that id.
    pub fn withdraw(&mut self, peer: PeerId, path_id: u32, key: &N::Key) {
        let Some(slot) = self.find(key) else { return };
        let paths = &self.slots[slot as usize].paths;
        let place = (peer, path_id);
        if let Ok(found) = paths.binary_search_by_key(&place, |held| held.source.place()) {
            self.remove(slot, found..found + 1);
        }
    }

    /// A peer's paths all go. Looks at every destination: about 10 ms for 400,000.
    pub fn withdraw_peer(&mut self, peer: PeerId) {
        for slot in 0..self.slots.len() {
            let paths = &self.slots[slot].paths;
            let own = |held: &Path<N>| held.source.peer == peer;
            let Some(first) = paths.iter().position(own) else {
                continue;
            };
            let others = paths[first..].iter().position(|held| !own(held));
            let end = others.map_or(paths.len(), |count| first + count);
            let slot = u32::try_from(slot).expect("slots are counted in u32");
            self.remove(slot, first..end);
        }
    }

    /// Decides the destinations that changed since the last call, in the order in which they first changed. A key is in
    /// the answer at most once, and not at all if what can be sent is what was sent.
    pub fn select(&mut self) -> Vec<BestChange<N>> {
        let dirty = std::mem::take(&mut self.dirty);
        if let Some(tracking) = &mut self.tracking {
            tracking.select(&dirty, &self.slots);
        }
        self.unchanged.clear();
        let mut changes = Vec::with_capacity(dirty.len());
        for Dirty { slot, key, before } in dirty {
            let place = &mut self.slots[slot as usize];
            place.dirty = NONE;
            let (new, by) = match decision::select(&place.paths) {
                Some(selected) => {
                    place.selected =
                        u32::try_from(selected.index).expect("paths are counted in u32");
                    place.by = selected.by;
                    let same = |old: &Path<N>| old.sends_same(selected.path);
                    if before.as_ref().is_some_and(same) {
                        self.unchanged.push(key);
                        continue;
                    }
                    (Some(selected.path.clone()), selected.by)
                }
                None => {
                    self.vacate(slot, &key);
                    if before.is_none() {
                        self.unchanged.push(key);
                        continue;
                    }
                    (None, Step::NoPath)
                }
            };
            self.revision += 1;
            self.recent.note(slot);
            match new {
                Some(_) => self.slots[slot as usize].revision = self.revision,
                None => self.tombstones.bury(self.revision, key.clone()),
            }
            changes.push(BestChange {
                key,
                old: before,
                new,
                by,
                revision: self.revision,
            });
        }
        changes
    }

    /// Destinations that changed before the last `select()` and that it found as they had been: who looked in between may have
    /// seen another path.
    pub fn take_unchanged(&mut self) -> Vec<N::Key> {
        std::mem::take(&mut self.unchanged)
    }

    /// How the paths of destinations changed with the selections since the last call, each destination at most once per
    /// selection; nothing unless tracked. To be taken after each `select()`.
    pub fn path_changes(&mut self) -> Vec<PathsChange<N>> {
        self.tracking
            .as_mut()
            .map(Tracking::take)
            .unwrap_or_default()
    }

    /// All paths of each destination as of the last `select()`, in no meaningful order; nothing unless tracked.
    pub fn tracked_paths(&self) -> impl Iterator<Item = &[Path<N>]> {
        self.tracking.iter().flat_map(|tracking| {
            self.slots
                .iter()
                .map(|slot| tracking.before(slot.dirty).unwrap_or(&slot.paths))
                .filter(|paths| !paths.is_empty())
        })
    }

    /// Number of changes so far.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Number of destinations with a path.
    #[must_use]
    pub fn len(&self) -> usize {
        self.destinations
    }

    /// True when there is no path.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths == 0
    }

    /// Number of paths.
    #[must_use]
    pub fn paths_len(&self) -> usize {
        self.paths
    }

    /// Number of paths of each peer that has any, in no meaningful order.
    pub fn paths_by_peer(&self) -> impl Iterator<Item = (PeerId, usize)> {
        self.counts.iter()
    }

    /// The destination, if it has a path.
    #[must_use]
    pub fn get(&self, key: &N::Key) -> Option<Destination<'_, N>> {
        let slot = &self.slots[self.find(key)? as usize];
        (!slot.paths.is_empty()).then(|| self.view(slot))
    }

    /// The destinations with a path that have this name ([`Nlri::name`]), in no meaningful order.
    pub fn named(&self, name: u64) -> impl Iterator<Item = Destination<'_, N>> {
        let slots = self.named.slots(self.hash(&name));
        let slots = slots.map(|slot| &self.slots[slot as usize]);
        let has_it = move |slot: &&Slot<N>| {
            let path = slot.paths.first();
            path.is_some_and(|path| N::name(&path.nlri.key()) == Some(name))
        };
        slots.filter(has_it).map(|slot| self.view(slot))
    }

    /// All destinations that have a path, in no meaningful order.
    pub fn iter(&self) -> impl Iterator<Item = Destination<'_, N>> {
        let occupied = self.slots.iter().filter(|slot| !slot.paths.is_empty());
        occupied.map(|slot| self.view(slot))
    }

    fn view<'a>(&'a self, slot: &'a Slot<N>) -> Destination<'a, N> {
        Destination {
            paths: &slot.paths,
            selected: self.selected(slot),
            by: slot.by,
            revision: slot.revision,
        }
    }

    /// What the last `select()` chose, whatever has changed since.
    fn selected<'a>(&'a self, slot: &'a Slot<N>) -> Option<&'a Path<N>> {
        match self.dirty.get(slot.dirty as usize) {
            Some(dirty) => dirty.before.as_ref(),
            None => slot.paths.get(slot.selected as usize),
        }
    }

    fn find(&self, key: &N::Key) -> Option<u32> {
        let Self { slots, dirty, .. } = self;
        let hash = self.hash(key);
        let same =
            |entry: &Entry| entry.hash == hash && has_key(&slots[entry.slot as usize], dirty, key);
        self.index.find(spread(hash), same).map(|entry| entry.slot)
    }

    /// A new slot for a key that has none. `mark` must follow before anything looks for a key.
    fn occupy(&mut self, key: &N::Key) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::VACANT);
            u32::try_from(self.slots.len() - 1).expect("slots are counted in u32")
        });
        let hash = self.hash(key);
        let entry = Entry { hash, slot };
        self.index
            .insert_unique(spread(hash), entry, |entry| spread(entry.hash));
        if let Some(name) = N::name(key) {
            self.named.insert(self.hash(&name), slot);
        }
        slot
    }

    fn vacate(&mut self, slot: u32, key: &N::Key) {
        let hash = spread(self.hash(key));
        if let Ok(entry) = self.index.find_entry(hash, |held| held.slot == slot) {
            entry.remove();
        }
        if let Some(name) = N::name(key) {
            self.named.remove(self.hash(&name), slot);
        }
        self.slots[slot as usize] = Slot::VACANT;
        self.free.push(slot);
    }

    fn hash(&self, key: &impl Hash) -> u32 {
        let hash = self.hasher.hash_one(key);
        let (high, low) = ((hash >> 32) as u32, hash as u32);
        high ^ low
    }

    /// Takes paths of one peer away, at least one.
    fn remove(&mut self, slot: u32, places: Range<usize>) {
        let first = &self.slots[slot as usize].paths[places.start];
        let (key, peer) = (first.nlri.key(), first.source.peer);
        self.mark(slot, key);
        self.counts.remove(peer, places.len());
        let paths = &mut self.slots[slot as usize].paths;
        self.paths -= places.len();
        match places.len() {
            1 => drop(paths.remove(places.start)), // far cheaper than to drain
            _ => drop(paths.drain(places)),
        }
        self.destinations -= usize::from(paths.is_empty());
    }

    /// Remembers that the slot has to be decided again, and what was selected before. To be called before it changes.
    fn mark(&mut self, slot: u32, key: N::Key) {
        let place = &mut self.slots[slot as usize];
        if place.dirty != NONE {
            return;
        }
        place.dirty = u32::try_from(self.dirty.len()).expect("slots are counted in u32");
        if let Some(tracking) = &mut self.tracking {
            tracking.mark(&place.paths);
        }
        self.dirty.push(Dirty {
            slot,
            key,
            before: place.paths.get(place.selected as usize).cloned(),
        });
    }
}

impl<N: Nlri> Default for Table<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<N> Slot<N> {
    const VACANT: Self = Self {
        paths: Vec::new(),
        by: Step::NoPath,
        revision: 0,
        selected: NONE,
        dirty: NONE,
    };
}

/// The key is computed from the first path. A slot without paths is dirty, and its key is there.
fn has_key<N: Nlri>(slot: &Slot<N>, dirty: &[Dirty<N>], key: &N::Key) -> bool {
    match slot.paths.first() {
        Some(path) => path.nlri.key() == *key,
        None => dirty
            .get(slot.dirty as usize)
            .is_some_and(|dirty| dirty.key == *key),
    }
}

/// The index takes its place from the lowest bits of a hash and its tag from the highest ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// No place: one past the largest.
const NONE: u32 = u32::MAX;
