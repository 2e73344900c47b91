//! What one peer told us over its session, as facts: decoded, checked, keyed, and what of it is not
//! committed yet. Knows no socket and no clock; whether this replica may commit is the owner's affair.
//!
//! Only the latest word for each key is kept, so a peer that talks faster than the replicas agree
//! costs memory for its routes, never for its updates.
//!
//! ```text
//! UPDATE -> decode -> loops, faults -> admission -> guard -> limits -> kept -> pending -> batches
//!                                                     |
//!                                                     v held back until somebody vouches for it
//! ```

pub mod bounds;
pub mod fact;
pub mod hosts;
pub mod inbound;
pub mod interest;
mod keep;
pub mod pending;
pub mod rate;
pub mod refresh;
mod said;
pub mod sanity;
pub mod total;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use weft_bgp::attribute::{Attributes, Community};
use weft_bgp::capability::AddPathSet;
use weft_bgp::constrain;
use weft_bgp::error::{DecodeError, Fault, Treatment};
use weft_bgp::family::Family;
use weft_bgp::message::update::Update;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::peer::PeerId;
use weft_bgp::reflect::{self, Local, LocalAs};
use weft_bgp::table::PeerKind;
use weft_evpn::Route;
use weft_evpn::route::Opaque;
use weft_store::Op;

use crate::ledger::{self, FactKey, FactPrefix};
use bounds::{Bound, Bounds, Warning};
use fact::Fact;
use hosts::Hosts;
use inbound::Inbound;
use interest::Interest;
use pending::Pending;
use refresh::Refresh;
use sanity::Sanity;
use total::Share;

/// The routes that a peer announced over one session: Adj-RIB-In, RFC 4271 §3.2, in the form of facts.
#[derive(Debug)]
pub struct AdjRibIn {
    peer: PeerId,
    kind: PeerKind,
    local: Local,
    families: Vec<Family>,
    add_path: AddPathSet,
    policy: Inbound,
    routes: HashMap<Bytes, Bytes>,
    bounds: Bounds,
    share: Share,
    hosts: Hosts,
    sanity: Sanity,
    interest: Interest,
    refresh: Refresh,
    pending: Pending,
    ended: BTreeSet<Family>,
    scratch: Vec<u8>,
    path: Vec<u8>,
}

/// Committed facts of one peer: value by key.
pub type Committed<S> = std::collections::HashMap<Bytes, Bytes, S>;

/// What an UPDATE did.
#[derive(Debug, Default)]
pub struct Learned {
    /// NLRI announced and kept.
    pub announced: u64,
    /// NLRI withdrawn.
    pub withdrawn: u64,
    /// NLRI that were not kept, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Of those, NLRI of types that we do not know, by type. RFC 7606 §5.4.
    pub unknown: BTreeMap<u8, u64>,
    /// Of those, malformed NLRI of known types, by type: what was wrong with the first, and how many.
    pub malformed: BTreeMap<u8, (DecodeError, u64)>,
    /// NLRI that were kept although they break a rule, by rule.
    pub suspect: BTreeMap<&'static str, u64>,
    /// Bounds that came near.
    pub warned: Vec<Warning>,
    /// A bound that was broken, where the session shall end by that: Cease/1, RFC 4486 §4.
    pub exceeded: Option<Bound>,
    /// Routes that were held back and were looked at again.
    pub looked_at: u64,
    /// Routes were held back and forgotten that might be kept now: the peer is to be asked for its routes.
    pub forgotten: bool,
    /// Families of which routes were refused at a limit that has room now: the peer is to be asked for them.
    pub room: BTreeSet<Family>,
    /// End-of-RIB of this family, RFC 4724 §2.
    pub end_of_rib: Option<Family>,
    /// Keys of routes that the peer did not say again and that are gone for that. RFC 7313 §4.
    pub swept: Vec<Bytes>,
}

impl AdjRibIn {
    /// An empty one for a session that has just been established: without path identifiers, and everything
    /// that is well-formed is welcome.
    pub fn new(peer: PeerId, kind: PeerKind, local: Local, families: Vec<Family>) -> Self {
        Self {
            peer,
            kind,
            local,
            families,
            add_path: AddPathSet::NONE,
            policy: Inbound::default(),
            routes: HashMap::new(),
            bounds: Bounds::default(),
            share: Share::default(),
            hosts: Hosts::default(),
            sanity: Sanity::new(peer),
            interest: Interest::default(),
            refresh: Refresh::default(),
            pending: Pending::default(),
            ended: BTreeSet::new(),
            scratch: Vec::new(),
            path: Vec::new(),
        }
    }

    /// The families in which the peer sends path identifiers. Before the first UPDATE.
    pub fn set_add_path(&mut self, add_path: AddPathSet) {
        self.add_path = add_path;
    }

    /// The peer is of another kind from now on; what is held stays.
    pub fn set_kind(&mut self, kind: PeerKind) {
        self.kind = kind;
    }

    /// Takes an UPDATE. Routes of a family that was not negotiated are ignored, RFC 4760 §6.
    ///
    /// # Errors
    /// The framing of the NLRI is lost, or the policy is strict and one is malformed: the session ends
    /// with the fault's NOTIFICATION.
    pub fn learn(&mut self, update: &Update) -> Result<Learned, DecodeError> {
        let mut learned = Learned::default();
        if let Some(family) = update.is_end_of_rib() {
            if self.families.contains(&family) {
                learned.end_of_rib = Some(family);
                if self.ended.insert(family) {
                    self.look_again(&mut learned);
                }
            }
            return Ok(learned);
        }
        let verdict = self.verdict(update);
        if self.families.contains(&Family::IPV4_UNICAST) {
            for (path_id, prefix) in &update.withdrawn {
                self.withdraw(*path_id, prefix, &mut learned);
            }
            if !update.announced.is_empty() {
                let attributes = self.attributes(update);
                let announced = update.announced.iter().copied();
                self.take(announced, &attributes, verdict, &mut learned);
            }
        }
        let spoken = |family: &Family| self.families.contains(family);
        let unreach = update.unreach.as_ref();
        let reach = update.reach.as_ref();
        let unreach = unreach.filter(|part| spoken(&part.family));
        let reach = reach.filter(|part| spoken(&part.family));
        if let Some(unreach) = unreach {
            let (nlri, learned) = (&unreach.nlri, &mut learned);
            match unreach.family {
                Family::IPV4_UNICAST => self.unreach::<Prefix4>(nlri, learned)?,
                Family::IPV6_UNICAST => self.unreach::<Prefix6>(nlri, learned)?,
                Family::RTC => self.unreach::<Membership>(nlri, learned)?,
                _ => self.unreach::<Route>(nlri, learned)?,
            }
        }
        if let Some(reach) = reach {
            let mut attributes = self.attributes(update);
            attributes.next_hop = Some(reach.next_hop);
            let (nlri, learned) = (&reach.nlri, &mut learned);
            match reach.family {
                Family::IPV4_UNICAST => {
                    self.reach::<Prefix4>(nlri, &attributes, verdict, learned)?
                }
                Family::IPV6_UNICAST => {
                    self.reach::<Prefix6>(nlri, &attributes, verdict, learned)?
                }
                Family::RTC => self.reach::<Membership>(nlri, &attributes, verdict, learned)?,
                _ => self.reach::<Route>(nlri, &attributes, verdict, learned)?,
            }
        }
        if self.sanity.has_news() {
            self.look_at_news(&mut learned);
        }
        self.look_for_room(&mut learned);
        Ok(learned)
    }

    /// Why nothing announced in this UPDATE may be kept, if so. RFC 7606 §2: what was announced is
    /// then taken as withdrawn.
    fn verdict(&self, update: &Update) -> Option<&'static str> {
        match update.treatment {
            Some(Treatment::TreatAsWithdraw) => return Some("treat-as-withdraw"),
            Some(Treatment::AttributeDiscard | Treatment::SessionReset) | None => {}
        }
        // RFC 4456 §8 and RFC 4271 §9.1.2: a path that went through us.
        let allowed = self.policy.allow_as_in;
        let through = |local: &Local| {
            reflect::accept(&update.attributes, self.kind, local, allowed)
                .err()
                .map(|_| "loop")
        };
        let as_shown = |shown: LocalAs| {
            through(&Local {
                asn: shown.asn,
                ..self.local
            })
        };
        through(&self.local).or_else(|| self.shown_as().and_then(as_shown))
    }

    /// The AS that the peer knows us by, if it is another than ours.
    fn shown_as(&self) -> Option<LocalAs> {
        let shown = self.policy.local_as;
        shown.filter(|_| self.kind == PeerKind::Ebgp)
    }

    /// The attributes as they are kept. RFC 8326 §4.2: what an external peer is about to take away is the
    /// last choice until then; inside our AS its LOCAL_PREF says so already.
    fn attributes(&self, update: &Update) -> Attributes {
        let mut attributes = update.attributes.clone();
        let leaving = attributes
            .communities
            .contains(&Community::GRACEFUL_SHUTDOWN);
        if leaving && self.kind.is_external() {
            attributes.local_pref = Some(0);
        }
        if let Some(shown) = self.shown_as().filter(|shown| !shown.no_prepend) {
            attributes.as_path.prepend(shown.asn);
        }
        attributes
    }

    /// Withdrawals are never refused, also of types that are not kept any more: they may have been.
    fn unreach<N: Fact>(&mut self, nlri: &[u8], learned: &mut Learned) -> Result<(), DecodeError> {
        let add_path = self.add_path.contains(N::family());
        let mut strangers = Vec::new();
        let each = |path_id, route: N| {
            let held = self.withdraw(path_id, &route, learned);
            let opaque = route.evpn().map(Route::route_type);
            let opaque = opaque.filter(|route_type| Opaque::is_opaque(*route_type));
            strangers.extend(opaque.filter(|_| !held && !self.policy.opaque));
        };
        let mut bad = Discarded::default();
        N::decode_field(nlri, add_path, true, each, |error| bad.take(error))?;
        strangers.into_iter().for_each(|it| bad.unknown(it));
        self.discarded(bad, learned)
    }

    fn reach<N: Fact>(
        &mut self,
        nlri: &[u8],
        attributes: &Attributes,
        verdict: Option<&'static str>,
        learned: &mut Learned,
    ) -> Result<(), DecodeError> {
        let add_path = self.add_path.contains(N::family());
        let mut routes = Vec::new();
        let mut bad = Discarded::default();
        let each = |path_id, route| routes.push((path_id, route));
        let opaque = self.policy.opaque;
        N::decode_field(nlri, add_path, opaque, each, |error| bad.take(error))?;
        self.discarded(bad, learned)?;
        self.take(routes.into_iter(), attributes, verdict, learned);
        Ok(())
    }

    /// RFC 7606 §5.4: a type that we do not know is no fault, however strict we are.
    fn discarded(&self, bad: Discarded, learned: &mut Learned) -> Result<(), DecodeError> {
        for (route_type, count) in bad.unknown {
            note(&mut learned.refused, "nlri", count);
            *learned.unknown.entry(route_type).or_default() += count;
        }
        let mut first = None;
        for (route_type, (error, count)) in bad.malformed {
            note(&mut learned.refused, "nlri", count);
            let known = learned.malformed.entry(route_type).or_insert((error, 0));
            known.1 += count;
            first.get_or_insert(error);
        }
        match first {
            Some(error) if self.policy.strict => Err(error),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the peer said that it announced everything of `family`.
    pub fn ended(&self, family: Family) -> bool {
        self.ended.contains(&family)
    }

    /// Number of routes held, by family.
    pub fn counts(&self) -> &BTreeMap<Family, usize> {
        self.bounds.families()
    }

    /// Number of EVPN routes held, by type.
    pub fn types(&self) -> &BTreeMap<u8, u64> {
        self.bounds.types()
    }

    /// Number of routes that the guard holds back.
    pub fn held_back(&self) -> usize {
        self.sanity.held_back()
    }

    /// Whether what the fabric looks like matters here.
    pub fn is_guarded(&self) -> bool {
        !self.policy.guard.is_off()
    }

    /// The routes held, as facts, in no order.
    pub fn held(&self) -> Vec<(Bytes, Bytes)> {
        let copy = |(key, value): (&Bytes, &Bytes)| (key.clone(), value.clone());
        self.routes.iter().map(copy).collect()
    }

    /// Number of routes held.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether no route is held.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// What the peer wants to be told, by the policy's `route_target_filter`.
    pub fn interest(&self) -> constrain::Interest {
        self.interest.wanted()
    }

    /// Whether [`Self::interest`] changed since the last call.
    pub fn take_interest_changed(&mut self) -> bool {
        self.interest.take_changed()
    }

    /// Whether something waits to be proposed.
    pub fn is_dirty(&self) -> bool {
        self.pending.is_dirty()
    }

    /// Compares with what is committed, on becoming the owner: additions and changes wait to be
    /// proposed; what is committed and not held is kept, for the peer may not have said it yet. What was not
    /// said since the peer's return is proposed too, see [`ledger::Owner::fresh_from`].
    pub fn claim(&mut self, committed: &Committed<impl BuildHasher>, fresh_from: u64) {
        let same = |value: &Bytes, committed: &Bytes| {
            ledger::what_is_said(committed) == value && ledger::epoch_of(committed) >= fresh_from
        };
        let differs = |(key, value): &(&Bytes, &Bytes)| {
            let committed = committed.get(*key);
            !committed.is_some_and(|committed| same(value, committed))
        };
        let mut keys: Vec<_> = self
            .routes
            .iter()
            .filter(differs)
            .map(|(key, _)| key.clone())
            .collect();
        keys.sort_unstable();
        self.pending.claim(keys, fresh_from);
    }

    /// Another replica commits what the peer says.
    pub fn renounce(&mut self) {
        self.pending.renounce();
    }

    /// What is committed of `family` and was not announced in this session goes, but what stands under an epoch
    /// before `spared`.
    pub fn sweep(&mut self, family: Family, committed: &Committed<impl BuildHasher>, spared: u64) {
        let prefix = FactPrefix::RoutesOfPeer(family, self.peer).encode();
        let gone = committed.iter().filter(|(key, value)| {
            let unsaid = key.starts_with(&prefix) && !self.routes.contains_key(*key);
            unsaid && ledger::epoch_of(value) >= spared
        });
        let mut keys: Vec<_> = gone.map(|(key, _)| key.clone()).collect();
        keys.sort_unstable();
        keys.into_iter().for_each(|key| self.pending.mark(key));
    }

    /// The next operations to propose and the keys in them; `None` if nothing waits. Equal values
    /// travel once.
    pub fn next_batch(&mut self) -> Option<(Vec<Op>, Vec<Bytes>)> {
        self.pending.next_batch(&self.routes)
    }

    /// Routes that wait to be proposed.
    pub fn waiting(&self) -> usize {
        self.pending.waiting()
    }

    /// A batch was lost: its keys wait again, with whatever they say now.
    pub fn redo(&mut self, keys: Vec<Bytes>) {
        keys.into_iter().for_each(|key| self.pending.mark(key));
    }

    fn key<N: Nlri>(&mut self, path_id: u32, route: &N) -> Bytes {
        self.scratch.clear();
        N::key_octets(&route.key(), &mut self.scratch);
        self.path.clear();
        ledger::write_path(path_id, &self.scratch, &mut self.path);
        FactKey::Route(N::family(), self.peer, &self.path).encode()
    }
}

/// NLRI that were not taken, by route type.
#[derive(Default)]
struct Discarded {
    unknown: BTreeMap<u8, u64>,
    /// The first one's fault, and how many.
    malformed: BTreeMap<u8, (DecodeError, u64)>,
}

impl Discarded {
    fn take(&mut self, error: DecodeError) {
        if let Fault::NlriType { route_type } = error.fault {
            return self.unknown(route_type);
        }
        let (_, count) = self
            .malformed
            .entry(route_type(&error.fault))
            .or_insert((error, 0));
        *count += 1;
    }

    fn unknown(&mut self, route_type: u8) {
        *self.unknown.entry(route_type).or_default() += 1;
    }
}

/// Zero, which is reserved, for a family without types.
fn route_type(fault: &Fault) -> u8 {
    if let Fault::NlriLength { route_type, .. } | Fault::NlriValue { route_type, .. } = fault {
        return *route_type;
    }
    0
}

fn note(counts: &mut BTreeMap<&'static str, u64>, reason: &'static str, count: u64) {
    if count > 0 {
        *counts.entry(reason).or_default() += count;
    }
}

#[cfg(test)]
mod tests;
