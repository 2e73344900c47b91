//! What one peer told us over its session, as facts: decoded, checked, keyed, and what of it is not
//! committed yet. Knows no socket and no clock; whether this replica may commit is the owner's affair.
//!
//! Only the latest word for each key is kept, so a peer that talks faster than the replicas agree
//! costs memory for its routes, never for its updates.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::BuildHasher;

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use weft_bgp::attribute::Attributes;
use weft_bgp::error::{DecodeError, Treatment};
use weft_bgp::family::Family;
use weft_bgp::message::update::Update;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::nlri::{Nlri, decode_all};
use weft_bgp::peer::PeerId;
use weft_bgp::reflect::{self, Local};
use weft_bgp::table::PeerKind;
use weft_evpn::Route;
use weft_store::Op;

use crate::ledger::{self, FactKey, FactPrefix};

/// The routes that a peer announced over one session: Adj-RIB-In, RFC 4271 §3.2, in the form of facts.
#[derive(Debug)]
pub struct AdjRibIn {
    peer: PeerId,
    kind: PeerKind,
    local: Local,
    families: Vec<Family>,
    routes: HashMap<Bytes, Bytes>,
    counts: BTreeMap<Family, usize>,
    /// Keys whose latest word was not proposed, in order of arrival, each once.
    waiting: VecDeque<Bytes>,
    dirty: HashSet<Bytes>,
    /// This replica commits what the peer says; otherwise nothing waits.
    owned: bool,
    ended: BTreeSet<Family>,
    scratch: Vec<u8>,
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
    /// End-of-RIB of this family, RFC 4724 §2.
    pub end_of_rib: Option<Family>,
}

impl AdjRibIn {
    /// An empty one for a session that has just been established.
    pub fn new(peer: PeerId, kind: PeerKind, local: Local, families: Vec<Family>) -> Self {
        Self {
            peer,
            kind,
            local,
            families,
            routes: HashMap::new(),
            counts: BTreeMap::new(),
            waiting: VecDeque::new(),
            dirty: HashSet::new(),
            owned: false,
            ended: BTreeSet::new(),
            scratch: Vec::new(),
        }
    }

    /// Takes an UPDATE. Routes of a family that was not negotiated are ignored, RFC 4760 §6.
    ///
    /// # Errors
    /// The framing of the NLRI is lost: the session ends with the fault's NOTIFICATION.
    pub fn learn(&mut self, update: &Update) -> Result<Learned, DecodeError> {
        let mut learned = Learned::default();
        if let Some(family) = update.is_end_of_rib() {
            self.ended.insert(family);
            learned.end_of_rib = Some(family);
            return Ok(learned);
        }
        let verdict = self.verdict(update);
        if self.families.contains(&Family::IPV4_UNICAST) {
            update
                .withdrawn
                .iter()
                .for_each(|(_, prefix)| self.withdraw(prefix, &mut learned));
            self.take(
                update.announced.iter().map(|(_, prefix)| *prefix),
                &update.attributes,
                verdict,
                &mut learned,
            );
        }
        if let Some(unreach) = update
            .unreach
            .as_ref()
            .filter(|part| self.families.contains(&part.family))
        {
            match unreach.family {
                Family::IPV4_UNICAST => self.unreach::<Prefix4>(&unreach.nlri, &mut learned)?,
                Family::IPV6_UNICAST => self.unreach::<Prefix6>(&unreach.nlri, &mut learned)?,
                _ => self.unreach::<Route>(&unreach.nlri, &mut learned)?,
            }
        }
        if let Some(reach) = update
            .reach
            .as_ref()
            .filter(|part| self.families.contains(&part.family))
        {
            let mut attributes = update.attributes.clone();
            attributes.next_hop = Some(reach.next_hop);
            match reach.family {
                Family::IPV4_UNICAST => {
                    self.reach::<Prefix4>(&reach.nlri, &attributes, verdict, &mut learned)?
                }
                Family::IPV6_UNICAST => {
                    self.reach::<Prefix6>(&reach.nlri, &attributes, verdict, &mut learned)?
                }
                _ => self.reach::<Route>(&reach.nlri, &attributes, verdict, &mut learned)?,
            }
        }
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
        reflect::accept(&update.attributes, self.kind, &self.local, 0)
            .err()
            .map(|_| "loop")
    }

    fn unreach<N: Fact>(&mut self, nlri: &[u8], learned: &mut Learned) -> Result<(), DecodeError> {
        let mut discarded = 0;
        decode_all::<N>(
            nlri,
            false,
            |_, route| self.withdraw(&route, learned),
            |_| discarded += 1,
        )?;
        note(learned, "nlri", discarded);
        Ok(())
    }

    fn reach<N: Fact>(
        &mut self,
        nlri: &[u8],
        attributes: &Attributes,
        verdict: Option<&'static str>,
        learned: &mut Learned,
    ) -> Result<(), DecodeError> {
        let mut routes = Vec::new();
        let mut discarded = 0;
        decode_all::<N>(nlri, false, |_, route| routes.push(route), |_| discarded += 1)?;
        note(learned, "nlri", discarded);
        self.take(routes.into_iter(), attributes, verdict, learned);
        Ok(())
    }

    /// Keeps routes that share their attributes: equal payloads share one value.
    fn take<N: Fact>(
        &mut self,
        routes: impl Iterator<Item = N>,
        attributes: &Attributes,
        verdict: Option<&'static str>,
        learned: &mut Learned,
    ) {
        let mut octets = None;
        let mut value = Bytes::new();
        for route in routes {
            let refused = verdict.or_else(|| route.refused(attributes));
            if let Some(reason) = refused {
                // What stood under this key before is not what the peer says now.
                self.withdraw(&route, learned);
                note(learned, reason, 1);
                continue;
            }
            let octets = octets.get_or_insert_with(|| attributes.to_octets());
            let next = ledger::encode_path(&route, octets, &mut self.scratch);
            if next != value {
                value = next;
            }
            learned.announced += 1;
            let key = self.key(&route);
            let before = self.routes.insert(key.clone(), value.clone());
            if before.is_none() {
                *self.counts.entry(N::family()).or_default() += 1;
            }
            if before.as_ref() != Some(&value) {
                self.mark(key);
            }
        }
    }

    fn withdraw<N: Nlri>(&mut self, route: &N, learned: &mut Learned) {
        let key = self.key(route);
        if self.routes.remove(&key).is_some() {
            learned.withdrawn += 1;
            if let Some(count) = self.counts.get_mut(&N::family()) {
                *count -= 1;
            }
            self.mark(key);
        }
    }

    fn key<N: Nlri>(&mut self, route: &N) -> Bytes {
        self.scratch.clear();
        N::key_octets(&route.key(), &mut self.scratch);
        FactKey::Route(N::family(), self.peer, &self.scratch).encode()
    }

    fn mark(&mut self, key: Bytes) {
        if self.owned && self.dirty.insert(key.clone()) {
            self.waiting.push_back(key);
        }
    }

    /// Whether the peer said that it announced everything of `family`.
    pub fn ended(&self, family: Family) -> bool {
        self.ended.contains(&family)
    }

    /// Number of routes held, by family.
    pub fn counts(&self) -> &BTreeMap<Family, usize> {
        &self.counts
    }

    /// Number of routes held.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether no route is held.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Whether something waits to be proposed.
    pub fn is_dirty(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Compares with what is committed, on becoming the owner: additions and changes wait to be
    /// proposed; what is committed and not held is kept, for the peer may not have said it yet.
    pub fn claim(&mut self, committed: &Committed<impl BuildHasher>) {
        self.owned = true;
        self.dirty.clear();
        self.waiting.clear();
        let differs = |(key, value): &(&Bytes, &Bytes)| committed.get(*key) != Some(*value);
        let mut keys: Vec<_> = self
            .routes
            .iter()
            .filter(differs)
            .map(|(key, _)| key.clone())
            .collect();
        keys.sort_unstable();
        keys.into_iter().for_each(|key| self.mark(key));
    }

    /// Another replica commits what the peer says.
    pub fn renounce(&mut self) {
        self.owned = false;
        self.dirty.clear();
        self.waiting.clear();
    }

    /// What is committed of `family` and was not announced in this session goes.
    pub fn sweep(&mut self, family: Family, committed: &Committed<impl BuildHasher>) {
        let prefix = FactPrefix::RoutesOfPeer(family, self.peer).encode();
        let gone = committed
            .keys()
            .filter(|key| key.starts_with(&prefix) && !self.routes.contains_key(*key));
        let mut keys: Vec<_> = gone.cloned().collect();
        keys.sort_unstable();
        keys.into_iter().for_each(|key| self.mark(key));
    }

    /// The next operations to propose and the keys in them; `None` if nothing waits. Equal values
    /// travel once.
    pub fn next_batch(&mut self) -> Option<(Vec<Op>, Vec<Bytes>)> {
        let mut keys = Vec::new();
        let mut gone = Vec::new();
        let mut puts: Vec<(Bytes, Vec<Bytes>)> = Vec::new();
        let mut places: HashMap<Bytes, usize> = HashMap::new();
        let mut octets = 0;
        while keys.len() < BATCH_KEYS_MAX && octets < BATCH_OCTETS_MAX {
            let Some(key) = self.waiting.pop_front() else {
                break;
            };
            self.dirty.remove(&key);
            octets += key.len();
            match self.routes.get(&key) {
                None => gone.push(key.clone()),
                Some(value) => {
                    let place = *places.entry(value.clone()).or_insert_with(|| {
                        octets += value.len();
                        puts.push((value.clone(), Vec::new()));
                        puts.len() - 1
                    });
                    puts[place].1.push(key.clone());
                }
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return None;
        }
        let mut ops: Vec<_> = puts
            .into_iter()
            .map(|(value, keys)| Op::Put { value, keys })
            .collect();
        if !gone.is_empty() {
            ops.push(Op::Delete { keys: gone });
        }
        Some((ops, keys))
    }

    /// A batch was lost: its keys wait again, with whatever they say now.
    pub fn redo(&mut self, keys: Vec<Bytes>) {
        keys.into_iter().for_each(|key| self.mark(key));
    }
}

/// What a family adds to the checks of learning.
pub trait Fact: Nlri {
    /// Why a route is not kept although it could be decoded.
    fn refused(&self, attributes: &Attributes) -> Option<&'static str>;
}

impl Fact for Prefix4 {
    fn refused(&self, attributes: &Attributes) -> Option<&'static str> {
        no_tunnel(attributes)
    }
}

impl Fact for Prefix6 {
    fn refused(&self, attributes: &Attributes) -> Option<&'static str> {
        no_tunnel(attributes)
    }
}

/// A PMSI tunnel says nothing about a unicast route, and not every receiver parses all of them.
fn no_tunnel(attributes: &Attributes) -> Option<&'static str> {
    attributes
        .pmsi
        .as_ref()
        .map(|_| "PMSI tunnel on a unicast route")
}

impl Fact for Route {
    fn refused(&self, attributes: &Attributes) -> Option<&'static str> {
        weft_evpn::admission::check(self, attributes)
            .err()
            .map(|reason| reason.name())
    }
}

fn note(learned: &mut Learned, reason: &'static str, count: u64) {
    if count > 0 {
        *learned.refused.entry(reason).or_default() += count;
    }
}

/// As many routes as go into one batch: it must stay small enough not to delay a heartbeat.
const BATCH_KEYS_MAX: usize = 1000;
const BATCH_OCTETS_MAX: usize = 256 << 10;
