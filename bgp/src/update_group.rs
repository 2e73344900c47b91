//! Peers that are told the same octets: reflects, packs and encodes each change once for all of them.
//!
//! It does not know its members, their sockets or their cursors: a frame says whom it is for, and each member picks.

pub mod journal;
mod offer;
mod pack;
mod say;
mod several;

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;

use crate::attribute::Attributes;
use crate::constrain::{Interest, Targets};
use crate::nlri::Nlri;
use crate::peer::{PeerId, RouterId};
use crate::reflect::{self, NotReflected, PathsTold};
use crate::table::{BestChange, Path, PathsChange, PeerKind, Table, TooOld};

pub use crate::reflect::{ExportKey, Local};

use offer::{Offer, Offers};
use pack::Packer;
use say::{announce, pair, say, say_to_one, withdraw};

/// Whom a frame is for, among the members of its group.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Audience {
    /// Everybody but the peer the path came from.
    AllBut(PeerId),
    /// One peer: the path it had been told is not the best any more, its own is.
    Only(PeerId),
    /// Everybody.
    All,
}

impl Audience {
    /// Whether `peer` is to be sent the frame.
    #[must_use]
    pub fn includes(self, peer: PeerId) -> bool {
        match self {
            Self::AllBut(other) => peer != other,
            Self::Only(one) => peer == one,
            Self::All => true,
        }
    }
}

/// Whom of its audience a frame is for, by the route targets that they want.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Concerns {
    /// Everybody.
    All,
    /// Who wants one of these.
    Wanting(Targets),
    /// Who wanted one of the old ones and wants none of the new ones.
    Losing {
        /// What the routes were announced with.
        had: Targets,
        /// What they are announced with now.
        now: Targets,
    },
}

impl Concerns {
    /// Whether a member with this interest is to be sent the frame.
    #[must_use]
    pub fn includes(&self, interest: &Interest) -> bool {
        match self {
            Self::All => true,
            Self::Wanting(targets) => interest.wants(targets),
            Self::Losing { had, now } => interest.wants(had) && !interest.wants(now),
        }
    }
}

/// One complete UPDATE message.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Header included. A slice of a buffer that the frames of a segment share.
    pub octets: Bytes,
    /// Whom it is for.
    pub audience: Audience,
    /// Whom of those, by their interest.
    pub concerns: Concerns,
    /// NLRI announced.
    pub routes: u32,
    /// NLRI withdrawn.
    pub withdrawals: u32,
}

/// What a group is told at once. No member finds a key and path id in it twice, so its frames may go out in any order.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The table's revision that a member has reached when it has sent all of it.
    pub revision: u64,
    /// The messages.
    pub frames: Vec<Frame>,
    /// Octets of all frames.
    pub octets_len: usize,
}

/// Encodes for all peers with one [`ExportKey`], in one family.
#[derive(Debug)]
pub struct UpdateGroup<N> {
    key: ExportKey,
    local: Local,
    offers: Offers,
    revision: u64,
    family: PhantomData<fn() -> N>,
}

impl<N: Nlri> UpdateGroup<N> {
    /// A group that has told nothing yet.
    #[must_use]
    pub fn new(key: ExportKey, local: Local) -> Self {
        Self {
            key,
            local,
            offers: Offers::default(),
            revision: 0,
            family: PhantomData,
        }
    }

    /// What its members have in common.
    #[must_use]
    pub fn key(&self) -> &ExportKey {
        &self.key
    }

    /// Encodes the answer of one `Table::select()`; a key must not be in it twice. For a group that is told the best path.
    ///
    /// From X to Y: everybody but Y's peer is told Y, and Y's peer that X is gone, if it had been told X.
    /// ```text
    ///               Y may be told                   Y is none or may not be told
    /// X was told    Y to all but Y.peer,            withdraw to all but X.peer
    ///               withdraw to Y.peer if not X's
    /// X was not     Y to all but Y.peer             nothing
    /// ```
    /// If the route targets changed too, who wanted X's and does not want Y's is told that X is gone.
    ///
    /// Clients of a family with [`Nlri::RETURNS`] are all told Y, and all that there is none.
    pub fn advertise(&mut self, changes: &[BestChange<N>]) -> Segment {
        let mut packer = Packer::new(N::family(), self.key.max_len, changes.len());
        for change in changes {
            let old = change.old.as_ref().and_then(|path| self.told(path));
            let new = change.new.as_ref().and_then(|path| self.told(path));
            say(&mut packer, &change.key, None, self.returns(), old, new);
        }
        if let Some(last) = changes.last() {
            self.revision = self.revision.max(last.revision);
        }
        packer.finish(self.revision)
    }

    /// As `advertise` for a group that is told several paths of a destination: each of them by the same rule, under its
    /// path id. `revision` is the table's.
    pub fn advertise_paths(&mut self, changes: &[PathsChange<N>], revision: u64) -> Segment {
        let told = self.key.add_path.expect("the group is told several paths");
        let mut packer = Packer::new(N::family(), self.key.max_len, changes.len());
        for change in changes {
            let old = self.told_several(&change.before, told);
            let new = self.told_several(&change.after, told);
            let returns = self.returns();
            pair(old, new, |id, old, new| {
                say(&mut packer, &change.key, Some(id), returns, old, new);
            });
        }
        self.revision = self.revision.max(revision);
        packer.finish(self.revision)
    }

    /// What a member with this interest that has seen everything up to revision `since` has to be told to be up to date.
    /// Since 0, a joiner that knows nothing: the whole table and no withdrawal, for members of any interest.
    ///
    /// # Errors
    /// [`TooOld`] if the table has forgotten what went since then. Always, for a group that is told several paths, unless
    /// the member knows nothing: the table does not remember single paths.
    pub fn image(
        &mut self,
        table: &Table<N>,
        since: u64,
        interest: &Interest,
    ) -> Result<Segment, TooOld> {
        let mut packer = Packer::new(N::family(), self.key.max_len, table.len());
        let returns = self.returns();
        self.revision = self.revision.max(table.revision());
        if let Some(told) = self.key.add_path {
            if since > 0 {
                let oldest = table.revision();
                return Err(TooOld { oldest });
            }
            for paths in table.tracked_paths() {
                for (id, path, offer) in self.told_several(paths, told) {
                    announce(&mut packer, Some(id), returns, path, &offer);
                }
            }
            return Ok(packer.finish(table.revision()));
        }
        let gone = table.gone_since(since)?;
        for (_, path, _) in table.selected_since(since) {
            let told = self.told(path);
            if since == 0 {
                if let Some((path, offer)) = told {
                    announce(&mut packer, None, returns, path, &offer);
                }
                continue;
            }
            let told = told.filter(|(_, offer)| interest.wants(&offer.targets));
            let audience = match told {
                Some(_) => (!returns).then_some(Audience::Only(path.source.peer)),
                None => Some(Audience::All),
            };
            let key = path.nlri.key();
            let audience = audience.filter(|_| N::withdrawable(&key, self.key.filter));
            if let Some(audience) = audience {
                withdraw::<N>(&mut packer, &key, None, audience);
            }
            if let Some((path, offer)) = told {
                announce(&mut packer, None, returns, path, &offer);
            }
        }
        let filter = self.key.filter;
        for (_, key) in gone
            .into_iter()
            .filter(|(_, key)| N::withdrawable(key, filter))
        {
            withdraw::<N>(&mut packer, key, None, Audience::All);
        }
        Ok(packer.finish(table.revision()))
    }

    /// What a member that was told the table as it stands, under another key and interest or the same, has to hear to be
    /// a member of this group with a new interest: what it was not told so, and what it shall not know any more.
    ///
    /// Both keys are told several paths, or both are told the best one: that was agreed for the session.
    pub fn turn(
        &mut self,
        table: &Table<N>,
        (old_key, old_interest): (&ExportKey, &Interest),
        interest: &Interest,
    ) -> Segment {
        let mut before = (*old_key != self.key).then(|| Self::new(old_key.clone(), self.local));
        let mut packer = Packer::new(N::family(), self.key.max_len, table.len());
        let returns = self.returns();
        let wanted = |told: &Told<'_, N>| interest.wants(&told.1.targets);
        let was_wanted = |told: &Told<'_, N>| old_interest.wants(&told.1.targets);
        match (old_key.add_path, self.key.add_path) {
            (None, None) => {
                for (_, path, _) in table.selected_since(0) {
                    let new = self.told(path);
                    let old = match &mut before {
                        Some(before) => before.told(path),
                        None => new.clone(), // only the interest is another one
                    };
                    let new = new.filter(wanted);
                    let key = path.nlri.key();
                    let old = old.filter(was_wanted);
                    say_to_one(&mut packer, &key, None, returns, old, new);
                }
            }
            (Some(old_told), Some(new_told)) => {
                for paths in table.tracked_paths() {
                    let mut old = before
                        .as_mut()
                        .unwrap_or(self)
                        .told_several(paths, old_told);
                    let mut new = self.told_several(paths, new_told);
                    old.retain(|(_, path, offer)| was_wanted(&(path, Arc::clone(offer))));
                    new.retain(|(_, path, offer)| wanted(&(path, Arc::clone(offer))));
                    pair(old, new, |id, old, new| {
                        let path = old.as_ref().or(new.as_ref());
                        let key = path.map(|(path, _)| path.nlri.key());
                        let key = key.expect("a pair has at least one side");
                        say_to_one(&mut packer, &key, Some(id), returns, old, new);
                    });
                }
            }
            (None, Some(_)) | (Some(_), None) => panic!("path ids are agreed for a session"),
        }
        self.revision = self.revision.max(table.revision());
        packer.finish(table.revision())
    }

    /// What a member with this interest may be told of this path, or why not.
    ///
    /// # Errors
    /// Why not.
    pub fn explain(&self, path: &Path<N>, interest: &Interest) -> Result<Attributes, NotReflected> {
        self.permit(path)?;
        let reflected = reflected(path, &self.key, &self.local)?;
        let offer = Offer::encode(&path.nlri, &reflected, &self.key)?;
        match interest.wants(&offer.targets) {
            true => Ok(reflected),
            false => Err(NotReflected::Interest),
        }
    }

    /// Whether a member is told of its own paths too.
    #[must_use]
    pub fn returns(&self) -> bool {
        returns::<N>(&self.key)
    }

    fn permit(&self, path: &Path<N>) -> Result<(), NotReflected> {
        match path.nlri.sendable(&path.attributes, self.key.filter) {
            true => Ok(()),
            false => Err(NotReflected::Filter),
        }
    }

    /// The path and its encoded attributes, if the group may be told of it.
    fn told<'a>(&mut self, path: &'a Path<N>) -> Option<Told<'a, N>> {
        self.permit(path).ok()?;
        let Self {
            key, local, offers, ..
        } = self;
        let offer = offers.find(path, || {
            let reflected = reflected(path, key, local)?;
            Offer::encode(&path.nlri, &reflected, key)
        });
        offer.ok().map(|offer| (path, offer))
    }

    /// The same of several paths of one destination, by path id.
    fn told_several<'a>(
        &mut self,
        paths: &'a [Path<N>],
        told: PathsTold,
    ) -> Vec<(u32, &'a Path<N>, Arc<Offer>)> {
        several::told(paths, told)
            .into_iter()
            .filter_map(|(id, path)| self.told(path).map(|(path, offer)| (id, path, offer)))
            .collect()
    }
}

fn returns<N: Nlri>(key: &ExportKey) -> bool {
    N::RETURNS && key.kind == PeerKind::IbgpClient
}

/// RFC 4684 §3.2: we are the originator of what goes back to its peer, which would drop it otherwise. By the cluster
/// rather than the router id, so that all replicas say the same.
fn reflected<N: Nlri>(
    path: &Path<N>,
    key: &ExportKey,
    local: &Local,
) -> Result<Attributes, NotReflected> {
    let mut told = reflect::reflect(&path.source, &path.attributes, key, local)?;
    if returns::<N>(key) {
        told.originator_id = told.originator_id.map(|_| RouterId(local.cluster_id.0));
    }
    Ok(told)
}

type Told<'a, N> = (&'a Path<N>, Arc<Offer>);
