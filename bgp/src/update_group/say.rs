//! What a change of one path, or of the best one, makes a group hear. It does not know which paths may be told.

use std::sync::Arc;

use super::offer::Offer;
use super::pack::Packer;
use super::{Audience, Told};
use crate::nlri::Nlri;
use crate::table::Path;
use crate::wire::Writer;

/// Goes through two lists by id: each id once, with what it was and what it is.
pub(super) fn pair<'a, N>(
    old: Vec<(u32, &'a Path<N>, Arc<Offer>)>,
    new: Vec<(u32, &'a Path<N>, Arc<Offer>)>,
    mut each: impl FnMut(u32, Option<Told<'a, N>>, Option<Told<'a, N>>),
) {
    let mut old = old.into_iter().peekable();
    for (id, path, offer) in new {
        while let Some((gone, path, offer)) = old.next_if(|(other, ..)| *other < id) {
            each(gone, Some((path, offer)), None);
        }
        let before = old.next_if(|(other, ..)| *other == id);
        let before = before.map(|(_, path, offer)| (path, offer));
        each(id, before, Some((path, offer)));
    }
    for (gone, path, offer) in old {
        each(gone, Some((path, offer)), None);
    }
}

/// Tells a group what changed of one path, or of the best one. See [`UpdateGroup::advertise`]. `returns`: members are
/// told of their own paths too.
pub(super) fn say<N: Nlri>(
    packer: &mut Packer,
    key: &N::Key,
    id: Option<u32>,
    returns: bool,
    old: Option<Told<'_, N>>,
    new: Option<Told<'_, N>>,
) {
    let Some((new, offer)) = new else {
        if let Some((old, _)) = old {
            withdraw::<N>(packer, key, id, audience(old, returns));
        }
        return;
    };
    if let Some((old, before)) = old {
        if old.source.peer != new.source.peer {
            if !returns {
                withdraw::<N>(packer, key, id, Audience::Only(new.source.peer));
            }
        } else if old.nlri == new.nlri && before == offer {
            return;
        }
        if !before.targets.same(&offer.targets) {
            let targets = (&before.targets, &offer.targets);
            let encode = |out: &mut Writer| encode_withdraw::<N>(out, key, id);
            packer.lose(audience(new, returns), targets, encode);
        }
    }
    announce(packer, id, returns, new, &offer);
}

/// Whom a path concerns.
fn audience<N>(path: &Path<N>, returns: bool) -> Audience {
    match returns {
        false => Audience::AllBut(path.source.peer),
        true => Audience::All,
    }
}

/// Tells one member what is different for it now, of one path that stayed.
pub(super) fn say_to_one<N: Nlri>(
    packer: &mut Packer,
    key: &N::Key,
    id: Option<u32>,
    returns: bool,
    old: Option<Told<'_, N>>,
    new: Option<Told<'_, N>>,
) {
    match (old, new) {
        (None, None) => {}
        (Some((old, _)), None) => {
            withdraw::<N>(packer, key, id, audience(old, returns));
        }
        (Some((_, before)), Some((_, offer))) if before == offer => {}
        (_, Some((new, offer))) => announce(packer, id, returns, new, &offer),
    }
}

pub(super) fn announce<N: Nlri>(
    packer: &mut Packer,
    id: Option<u32>,
    returns: bool,
    path: &Path<N>,
    offer: &Arc<Offer>,
) {
    packer.announce(offer, audience(path, returns), |out| {
        if let Some(id) = id {
            out.u32(id);
        }
        path.nlri.encode(out);
    });
}

pub(super) fn withdraw<N: Nlri>(
    packer: &mut Packer,
    key: &N::Key,
    id: Option<u32>,
    audience: Audience,
) {
    packer.withdraw(audience, |out| encode_withdraw::<N>(out, key, id));
}

fn encode_withdraw<N: Nlri>(out: &mut Writer, key: &N::Key, id: Option<u32>) {
    if let Some(id) = id {
        out.u32(id);
    }
    N::encode_withdraw(key, out);
}
