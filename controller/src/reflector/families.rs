//! One family's tables and update groups. Knows facts as typed
//! routes; not how they were agreed, nor who reads the journals.

use std::sync::Arc;

use bytes::Bytes;
use weft_bgp::attribute::Attributes;
use weft_bgp::constrain::Interest;
use weft_bgp::nlri::Nlri;
use weft_bgp::peer::PeerId;
use weft_bgp::reflect::Local;
use weft_bgp::table::{BestChange, Source, Table, TooOld};
use weft_bgp::update_group::{ExportKey, Segment, UpdateGroup};

use super::news::Selection;

/// Names an update group for its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

/// A family: its table, and one group for each way of saying what is in it.
pub struct FamilyState<N: Nlri> {
    /// All paths and what was selected.
    pub table: Table<N>,
    groups: Vec<(GroupId, ExportKey, UpdateGroup<N>)>,
}

/// What a member needs to begin.
pub struct Image {
    /// The group whose journal goes on from here.
    pub group: GroupId,
    /// Everything since the revision that was asked for.
    pub segment: Arc<Segment>,
}

impl<N: Nlri> FamilyState<N> {
    /// Nothing learned, nobody to tell.
    pub fn new() -> Self {
        Self {
            table: Table::new(),
            groups: Vec::new(),
        }
    }

    /// Learns one value under many keys. A route that does not decode is skipped, with an error in
    /// the log, and the path under its key is withdrawn.
    pub fn put<'k>(
        &mut self,
        source: &Arc<Source>,
        keys: impl Iterator<Item = &'k [u8]>,
        payload: &[u8],
        attributes: &Arc<Attributes>,
    ) {
        self.put_as(
            source.peer,
            |_, _| Arc::clone(source),
            keys,
            payload,
            attributes,
        );
    }

    /// As [`Self::put`], where each path of the peer has a source of its own, by path id and route.
    pub fn put_as<'k>(
        &mut self,
        peer: PeerId,
        mut source: impl FnMut(u32, &N) -> Arc<Source>,
        keys: impl Iterator<Item = &'k [u8]>,
        payload: &[u8],
        attributes: &Arc<Attributes>,
    ) {
        for octets in keys {
            let path = crate::ledger::read_path(octets).and_then(|(path_id, octets)| {
                let nlri = N::from_parts(N::key_from_octets(octets)?, payload)?;
                Some((path_id, nlri))
            });
            match path {
                Some((path_id, nlri)) => {
                    let attributes = Arc::clone(attributes);
                    let source = source(path_id, &nlri);
                    self.table.learn(&source, path_id, nlri, attributes);
                }
                None => {
                    tracing::error!(family = %N::family(), "a committed route is not understood");
                    self.delete(peer, octets);
                }
            }
        }
    }

    /// Withdraws one peer's path.
    pub fn delete(&mut self, peer: PeerId, octets: &[u8]) {
        if let Some((path_id, key)) = Self::named(octets) {
            self.table.withdraw(peer, path_id, &key);
        }
    }

    /// Which path of which destination the octets of a key name.
    pub fn named(octets: &[u8]) -> Option<(u32, N::Key)> {
        let (path_id, octets) = crate::ledger::read_path(octets)?;
        Some((path_id, N::key_from_octets(octets)?))
    }

    /// Selects what is dirty and tells every group; `tell` takes a group's new frames, `changed` each
    /// change of a best path. Returns those changes, and what changed and is as it was.
    pub fn advertise(
        &mut self,
        mut tell: impl FnMut(GroupId, Arc<Segment>),
        mut changed: impl FnMut(&BestChange<N>),
    ) -> Selection<N> {
        let changes = self.table.select();
        let unchanged = self.table.take_unchanged();
        let paths = self.table.path_changes();
        let revision = self.table.revision();
        changes.iter().for_each(&mut changed);
        for (id, key, group) in &mut self.groups {
            let segment = match key.add_path {
                None if changes.is_empty() => continue,
                None => group.advertise(&changes),
                Some(_) if paths.is_empty() => continue,
                Some(_) => group.advertise_paths(&paths, revision),
            };
            tell(*id, Arc::new(segment));
        }
        Selection { changes, unchanged }
    }

    /// The group of `key`, made if there is none. What was learned has been selected.
    pub fn group(&mut self, key: &ExportKey, local: &Local, next: &mut u64) -> GroupId {
        if let Some((id, ..)) = self.groups.iter().find(|(_, other, _)| other == key) {
            return *id;
        }
        let id = GroupId(*next);
        *next += 1;
        if key.add_path.is_some() {
            self.table.track_paths(true);
        }
        self.groups
            .push((id, key.clone(), UpdateGroup::new(key.clone(), *local)));
        id
    }

    /// What a member of `id` with this interest that knows everything up to `since` has to hear. Since 0: what any
    /// member has to.
    ///
    /// # Errors
    /// The table no longer remembers what went since then.
    pub fn image(&mut self, id: GroupId, since: u64, interest: &Interest) -> Result<Image, TooOld> {
        let found = self.groups.iter_mut().find(|(other, ..)| *other == id);
        let (_, _, group) = found.expect("a group lives while it has a member");
        let segment = Arc::new(group.image(&self.table, since, interest)?);
        Ok(Image { group: id, segment })
    }

    /// What a member that was told everything under the old key and interest has to hear to read `id` from now on.
    pub fn turn(
        &mut self,
        id: GroupId,
        old: (&ExportKey, &Interest),
        interest: &Interest,
    ) -> Arc<Segment> {
        let found = self.groups.iter_mut().find(|(other, ..)| *other == id);
        let (_, _, group) = found.expect("a group lives while it has a member");
        Arc::new(group.turn(&self.table, old, interest))
    }

    /// Forgets groups that nobody reads. What was learned has been selected.
    pub fn retain(&mut self, mut read: impl FnMut(GroupId) -> bool) {
        self.groups.retain(|(id, ..)| read(*id));
        let several = |(_, key, _): &(GroupId, ExportKey, UpdateGroup<N>)| key.add_path.is_some();
        self.table.track_paths(self.groups.iter().any(several));
    }
}

impl<N: Nlri> Default for FamilyState<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Decoded values by their octets, for the length of one entry: one value stands under many keys.
#[derive(Default)]
pub struct LastValue {
    octets: Bytes,
    decoded: Option<(Vec<u8>, Arc<Attributes>)>,
}

impl LastValue {
    /// The payload and attributes of `value`, decoded at most once in a row.
    pub fn decode(
        &mut self,
        value: &Bytes,
        intern: impl FnOnce(Attributes) -> Arc<Attributes>,
    ) -> Option<(&[u8], &Arc<Attributes>)> {
        if self.octets != value {
            self.decoded = crate::ledger::decode_path(value)
                .map(|(payload, attributes)| (payload.to_vec(), intern(attributes)));
            self.octets = value.clone();
        }
        self.decoded
            .as_ref()
            .map(|(payload, attributes)| (&payload[..], attributes))
    }
}
