//! Reflected attributes in octets, made once for all paths that share them. It does not know NLRI or audiences.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};

use super::pack;
use crate::attribute::{Attributes, NextHop};
use crate::constrain::Targets;
use crate::family::Family;
use crate::nlri::Nlri;
use crate::peer::RouterId;
use crate::reflect::{ExportKey, NotReflected};
use crate::table::{Path, PeerKind, Stale};
use crate::wire::Writer;

/// Reflected attributes, encoded.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(super) struct Offer {
    /// Next hop of MP_REACH_NLRI; `None`: it is in `octets`, and the NLRI go into the classic field.
    pub(super) next_hop: Option<NextHop>,
    /// Path attributes without MP_REACH_NLRI.
    pub(super) octets: Bytes,
    /// The route targets among them.
    pub(super) targets: Targets,
}

impl Offer {
    pub(super) fn encode<N: Nlri>(
        nlri: &N,
        attributes: &Attributes,
        key: &ExportKey,
    ) -> Result<Self, NotReflected> {
        let next_hop = attributes.next_hop.ok_or(NotReflected::NoNextHop)?;
        let classic = N::family() == Family::IPV4_UNICAST && matches!(next_hop, NextHop::V4(_));
        let mut out = Writer::new();
        if classic && !attributes.opaque.is_empty() {
            let mut before_nlri = attributes.clone();
            key.attributes.apply_before_nlri(&mut before_nlri.opaque);
            before_nlri.encode_with(&mut out, &key.context(), classic);
        } else {
            attributes.encode_with(&mut out, &key.context(), classic);
        }
        let offer = Self {
            next_hop: (!classic).then_some(next_hop),
            octets: out.finish(),
            targets: Targets::of(attributes).standing(nlri.stands_apart()),
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
pub(super) struct Offers {
    /// The weak pointer keeps the address from being used again.
    made: HashMap<Made, (Weak<Attributes>, Told), FixedState>,
    /// The one that was asked for last, and is in `made`: paths that came in one UPDATE follow each other.
    last: Option<(Made, Told)>,
    values: HashSet<Arc<Offer>, FixedState>,
    targets: HashSet<Targets, FixedState>,
    after_sweep: usize,
}

/// All that [`crate::reflect::reflect`] looks at: the attributes by address, and of the source its kind, router id,
/// whether it is long gone, and whether it is withheld. And whether the route stands apart.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
struct Made {
    attributes: usize,
    kind: PeerKind,
    long_lived: bool,
    withheld: bool,
    apart: bool,
    router_id: RouterId,
}

impl Offers {
    pub(super) fn find<N: Nlri>(
        &mut self,
        path: &Path<N>,
        encode: impl FnOnce() -> Result<Offer, NotReflected>,
    ) -> Told {
        let made = Made {
            attributes: Arc::as_ptr(&path.attributes).addr(),
            kind: path.source.kind,
            long_lived: path.source.stale == Stale::LongLived,
            withheld: path.source.withheld,
            apart: path.nlri.stands_apart(),
            router_id: path.source.peer.router_id,
        };
        if let Some((_, told)) = self.last.as_ref().filter(|(last, _)| *last == made) {
            return told.clone();
        }
        let told = self.look_up(made, &path.attributes, encode);
        self.last = Some((made, told.clone()));
        told
    }

    fn look_up(
        &mut self,
        made: Made,
        attributes: &Arc<Attributes>,
        encode: impl FnOnce() -> Result<Offer, NotReflected>,
    ) -> Told {
        if let Some((_, told)) = self.made.get(&made) {
            return told.clone();
        }
        self.make_room();
        let told = encode().map(|offer| self.share(offer));
        let known = (Arc::downgrade(attributes), told.clone());
        self.made.insert(made, known);
        told
    }

    fn share(&mut self, mut offer: Offer) -> Arc<Offer> {
        if let Some(known) = self.values.get(&offer) {
            return Arc::clone(known);
        }
        if !offer.targets.is_empty() {
            offer.targets = self.targets.get_or_insert(offer.targets).clone();
        }
        let offer = Arc::new(offer);
        self.values.insert(Arc::clone(&offer));
        offer
    }

    fn make_room(&mut self) {
        if self.made.len() < SWEEP_AT_LEAST.max(2 * self.after_sweep).min(OFFERS_MAX) {
            return;
        }
        self.last = None;
        self.made
            .retain(|_, (attributes, _)| attributes.strong_count() > 0);
        if self.made.len() > OFFERS_MAX / 2 {
            self.made.clear();
        }
        self.values.retain(|offer| Arc::strong_count(offer) > 1);
        self.targets.retain(Targets::is_shared);
        self.after_sweep = self.made.len();
    }
}

/// Below this a sweep is not worth its scan.
const SWEEP_AT_LEAST: usize = 4096;

/// Attribute sets remembered per group: a fabric of 128 leaves with 1,000 tenants each; about 60 MB.
const OFFERS_MAX: usize = 1 << 17;
