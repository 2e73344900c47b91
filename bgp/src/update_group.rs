//! Peers that are told the same octets: reflects, packs and encodes each change once for all of them.
//!
//! It does not know its members, their sockets or their cursors: a frame says whom it is for, and each member picks.

pub mod journal;
mod pack;

use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};

use crate::attribute::{Attributes, NextHop};
use crate::family::Family;
use crate::nlri::Nlri;
use crate::peer::{PeerId, RouterId};
use crate::reflect::{self, NotReflected};
use crate::table::{BestChange, Path, PeerKind, Table, TooOld};
use crate::wire::Writer;

pub use crate::reflect::{ExportKey, Local};

use pack::Packer;

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

/// One complete UPDATE message.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Header included. A slice of a buffer that the frames of a segment share.
    pub octets: Bytes,
    /// Whom it is for.
    pub audience: Audience,
    /// NLRI announced.
    pub routes: u32,
    /// NLRI withdrawn.
    pub withdrawals: u32,
}

/// What a group is told at once. No member finds a key in it twice, so its frames may go out in any order.
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

    /// Encodes the answer of one `Table::select()`; a key must not be in it twice.
    ///
    /// From X to Y: everybody but Y's peer is told Y, and Y's peer that X is gone, if it had been told X.
    /// ```text
    ///               Y may be told                   Y is none or may not be told
    /// X was told    Y to all but Y.peer,            withdraw to all but X.peer
    ///               withdraw to Y.peer if not X's
    /// X was not     Y to all but Y.peer             nothing
    /// ```
    pub fn advertise(&mut self, changes: &[BestChange<N>]) -> Segment {
        let mut packer = Packer::new(N::family(), self.key.max_len, changes.len());
        for change in changes {
            let old = change.old.as_ref().and_then(|path| self.told(path));
            let new = change.new.as_ref().and_then(|path| self.told(path));
            match (old, new) {
                (None, None) => {}
                (Some((old, _)), None) => {
                    let audience = Audience::AllBut(old.source.peer);
                    packer.withdraw(audience, |out| N::encode_withdraw(&change.key, out));
                }
                (None, Some((new, offer))) => {
                    packer.announce(&offer, new.source.peer, |out| new.nlri.encode(out));
                }
                (Some((old, before)), Some((new, offer))) => {
                    let peer = new.source.peer;
                    if old.source.peer != peer {
                        let audience = Audience::Only(peer);
                        packer.withdraw(audience, |out| N::encode_withdraw(&change.key, out));
                    } else if old.nlri == new.nlri && before == offer {
                        continue;
                    }
                    packer.announce(&offer, peer, |out| new.nlri.encode(out));
                }
            }
        }
        if let Some(last) = changes.last() {
            self.revision = self.revision.max(last.revision);
        }
        packer.finish(self.revision)
    }

    /// What a member that has seen everything up to revision `since` has to be told to be up to date. Since 0, a joiner
    /// that knows nothing: the whole table and no withdrawal. Any number of members may share it.
    ///
    /// # Errors
    /// [`TooOld`] if the table has forgotten what went since then.
    pub fn image(&mut self, table: &Table<N>, since: u64) -> Result<Segment, TooOld> {
        let gone = table.gone_since(since)?;
        let mut packer = Packer::new(N::family(), self.key.max_len, table.len());
        for (_, path, _) in table.selected_since(since) {
            let told = self.told(path);
            if since > 0 {
                let audience = match told {
                    Some(_) => Audience::Only(path.source.peer),
                    None => Audience::All,
                };
                packer.withdraw(audience, |out| N::encode_withdraw(&path.nlri.key(), out));
            }
            if let Some((path, offer)) = told {
                packer.announce(&offer, path.source.peer, |out| path.nlri.encode(out));
            }
        }
        for (_, key) in gone {
            packer.withdraw(Audience::All, |out| N::encode_withdraw(key, out));
        }
        self.revision = self.revision.max(table.revision());
        Ok(packer.finish(table.revision()))
    }

    /// What the group may be told of this path, or why not.
    ///
    /// # Errors
    /// Why not.
    pub fn explain(&self, path: &Path<N>) -> Result<Attributes, NotReflected> {
        let reflected = reflect::reflect(&path.source, &path.attributes, &self.key, &self.local)?;
        Offer::encode(&reflected, N::family(), &self.key)?;
        Ok(reflected)
    }

    /// The path and its encoded attributes, if the group may be told of it.
    fn told<'a>(&mut self, path: &'a Path<N>) -> Option<(&'a Path<N>, Arc<Offer>)> {
        let Self {
            key, local, offers, ..
        } = self;
        let offer = offers.find(path, || {
            let reflected = reflect::reflect(&path.source, &path.attributes, key, local)?;
            Offer::encode(&reflected, N::family(), key)
        });
        offer.ok().map(|offer| (path, offer))
    }
}

/// Reflected attributes, encoded.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Offer {
    /// Next hop of MP_REACH_NLRI; `None`: it is in `octets`, and the NLRI go into the classic field.
    next_hop: Option<NextHop>,
    /// Path attributes without MP_REACH_NLRI.
    octets: Bytes,
}

impl Offer {
    fn encode(
        attributes: &Attributes,
        family: Family,
        key: &ExportKey,
    ) -> Result<Self, NotReflected> {
        let next_hop = attributes.next_hop.ok_or(NotReflected::NoNextHop)?;
        let classic = family == Family::IPV4_UNICAST && matches!(next_hop, NextHop::V4(_));
        let mut out = Writer::new();
        attributes.encode_with(&mut out, &key.context(), classic);
        let offer = Self {
            next_hop: (!classic).then_some(next_hop),
            octets: out.finish(),
        };
        if pack::room(&offer, key.max_len) < pack::NLRI_MAX {
            tracing::warn!(
                octets = offer.octets.len(),
                "attributes too long for a message"
            );
            return Err(NotReflected::TooLong);
        }
        Ok(offer)
    }
}

type Told = Result<Arc<Offer>, NotReflected>;

/// Offers by what they were made of, and each once by value. Full: swept of attributes that are gone, else emptied; it
/// is only a memory of computations.
#[derive(Debug, Default)]
struct Offers {
    /// The weak pointer keeps the address from being used again.
    made: HashMap<Made, (Weak<Attributes>, Told), FixedState>,
    values: HashSet<Arc<Offer>, FixedState>,
    after_sweep: usize,
}

/// All that [`reflect::reflect`] looks at: the attributes by address, and of the source its kind and router id.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
struct Made {
    attributes: usize,
    kind: PeerKind,
    router_id: RouterId,
}

impl Offers {
    fn find<N>(
        &mut self,
        path: &Path<N>,
        encode: impl FnOnce() -> Result<Offer, NotReflected>,
    ) -> Told {
        let made = Made {
            attributes: Arc::as_ptr(&path.attributes).addr(),
            kind: path.source.kind,
            router_id: path.source.peer.router_id,
        };
        if let Some((_, told)) = self.made.get(&made) {
            return told.clone();
        }
        self.make_room();
        let told = encode().map(|offer| {
            let offer = Arc::new(offer);
            Arc::clone(self.values.get_or_insert(offer))
        });
        let known = (Arc::downgrade(&path.attributes), told.clone());
        self.made.insert(made, known);
        told
    }

    fn make_room(&mut self) {
        if self.made.len() < SWEEP_AT_LEAST.max(2 * self.after_sweep).min(OFFERS_MAX) {
            return;
        }
        self.made
            .retain(|_, (attributes, _)| attributes.strong_count() > 0);
        if self.made.len() > OFFERS_MAX / 2 {
            self.made.clear();
        }
        self.values.retain(|offer| Arc::strong_count(offer) > 1);
        self.after_sweep = self.made.len();
    }
}

/// Below this a sweep is not worth its scan.
const SWEEP_AT_LEAST: usize = 4096;

/// Attribute sets remembered per group: a fabric of 128 leaves with 1,000 tenants each; about 60 MB.
const OFFERS_MAX: usize = 1 << 17;
