//! Changes of facts in, frames for update groups out: tables, selection, reflection. The same facts
//! give the same octets on every replica. Knows no socket, clock or channel.

mod alarms;
mod control;
mod declared;
pub mod families;
pub mod freezes;
pub mod history;
pub mod latency;
pub mod learn;
pub mod news;
pub mod owner;
mod sources;
pub(crate) mod sparing;
pub mod stake;
pub mod thread;
mod unreadable;
mod views;
mod wishes;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weft_bgp::constrain::Interest;
use weft_bgp::family::Family;
use weft_bgp::intern::Interner;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::peer::PeerId;
use weft_bgp::reflect::Local;
use weft_bgp::table::TooOld;
use weft_bgp::update_group::{ExportKey, Segment};
use weft_evpn::Route;
use weft_evpn::moves::{self, Holder, Moves, Place};
use weft_evpn::vtep::Vteps;
use weft_store::{Applied, Change};
use weft_telemetry::derating::Decision;

use crate::fabric::decision::DecisionChanged;
use crate::fabric::declared::Changed;
use crate::fabric::mode::Modes;
use crate::fabric::pin::PinChanged;
use crate::ledger::{self, FactKey, FactPrefix, Head, Owner, Request, RequestId};
pub use control::Control;
use families::{FamilyState, GroupId, Image, LastValue};
use freezes::Freezes;
use learn::sanity::FabricView;
use news::{Selected, Selection};
use owner::Agreed;
use sources::Sources;
pub use thread::{Entry, Input};
pub use unreadable::{Fault, Unreadable};
use views::Views;
use wishes::Wishes;

/// What follows from the facts.
pub struct Reflector {
    local: Local,
    index: u64,
    evpn: FamilyState<Route>,
    ipv4: FamilyState<Prefix4>,
    ipv6: FamilyState<Prefix6>,
    rtc: FamilyState<Membership>,
    wishes: Wishes,
    /// Whether memberships were told or taken back since the last poll.
    rtc_touched: bool,
    views: Views,
    freezes: Freezes,
    /// As of the last poll, from any fixed moment.
    now: Duration,
    interner: Interner,
    last: LastValue,
    peers: BTreeMap<PeerId, PeerFacts>,
    control: Control,
    next_group: u64,
    /// Peers whose agreed state changed since the last poll.
    touched: HashSet<PeerId>,
    control_touched: bool,
    /// What became of declared facts since the last poll.
    changed: Vec<Changed>,
    /// What became of adopted pins since then.
    repinned: Vec<PinChanged>,
    /// Changes of the leader's decisions since the last poll.
    decided: Vec<DecisionChanged>,
}

/// What is agreed about one peer.
#[derive(Debug)]
struct PeerFacts {
    agreed: Agreed,
    sources: Option<Sources>,
}

/// What a poll produced.
pub enum Output {
    /// New frames of a group, to be appended to its journal.
    Advertise(GroupId, Arc<Segment>),
    /// What is agreed about a peer changed.
    Agreed(PeerId, Agreed),
    /// Facts that are not routes, or who serves which peer, changed.
    Control,
    /// Declared facts changed, in this order.
    Declared(Vec<Changed>),
    /// Adopted pins changed, in this order.
    Pinned(Vec<PinChanged>),
    /// Decisions of the leader changed, in this order.
    Decided(Vec<DecisionChanged>),
    /// Best paths changed, in this order.
    Selected(Selected),
    /// MAC addresses move too often.
    Alarm(moves::Alarm),
    /// What peers' guards may ask of the fabric changed.
    View(Arc<FabricView>),
}

impl Reflector {
    /// One without facts.
    pub fn new(local: Local) -> Self {
        Self {
            local,
            index: 0,
            evpn: FamilyState::new(),
            ipv4: FamilyState::new(),
            ipv6: FamilyState::new(),
            rtc: FamilyState::new(),
            wishes: Wishes::new(&local),
            rtc_touched: false,
            views: Views::new(),
            freezes: Freezes::default(),
            now: Duration::ZERO,
            interner: Interner::new(INTERNER_SEED),
            last: LastValue::default(),
            peers: BTreeMap::new(),
            control: Control::default(),
            next_group: 1,
            touched: HashSet::new(),
            control_touched: false,
            changed: Vec::new(),
            repinned: Vec::new(),
            decided: Vec::new(),
        }
    }

    /// When moves of MAC addresses are too many; what moved before still counts.
    pub fn watch_moves(&mut self, settings: moves::Settings) {
        self.views.moves.set(settings);
    }

    /// The time of the next poll, from any fixed moment. Only alarms depend on it: nothing that is told
    /// does, unless the leader makes a fact of one.
    pub fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// MAC addresses that moved, and the time of the last poll.
    pub fn moves(&self) -> (&Moves, Duration) {
        (&self.views.moves, self.now)
    }

    /// MAC addresses that are frozen, as agreed.
    pub fn freezes(&self) -> &Freezes {
        &self.freezes
    }

    /// The index up to which facts were taken.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Takes an applied entry. `Change::Reset` is the caller's: it answers with [`Self::reset`].
    ///
    /// # Errors
    /// The fact that is not understood. Part of the entry may be taken then: this reflector must
    /// not be polled again.
    pub fn handle(&mut self, applied: &Applied) -> Result<(), Unreadable> {
        if applied.index <= self.index {
            return Ok(()); // already part of the state that a reset read
        }
        self.index = applied.index;
        for change in &applied.changes {
            let taken = self.change(change);
            taken.map_err(|fault| fault.at(applied.index))?;
        }
        Ok(())
    }

    fn change(&mut self, change: &Change) -> Result<(), Fault> {
        match change {
            Change::Put { value, keys } => self.put(value, keys),
            Change::Delete { keys } => keys.iter().try_for_each(|key| self.delete(key)),
            Change::DeletePrefix { prefix } => self.delete_prefix(prefix),
            Change::Reset => Ok(()),
        }
    }

    /// Replaces everything by `facts`, which hold all changes up to `index` at least.
    ///
    /// # Errors
    /// As [`Self::handle`].
    pub fn reset(&mut self, index: u64, facts: Vec<(Bytes, Bytes)>) -> Result<(), Unreadable> {
        self.replace(facts).map_err(|fault| fault.at(index))?;
        self.index = index;
        // Nobody knows when what is different became so.
        self.changed.clear();
        self.repinned = Vec::new();
        self.decided = Vec::new();
        Ok(())
    }

    fn replace(&mut self, facts: Vec<(Bytes, Bytes)>) -> Result<(), Fault> {
        let keep: HashSet<&Bytes> = facts.iter().map(|(key, _)| key).collect();
        let gone: Vec<_> = self.keys().filter(|key| !keep.contains(key)).collect();
        gone.iter().try_for_each(|key| self.delete(key))?;
        // Owners first: a path needs its source.
        let (owners, others): (Vec<_>, Vec<_>) = facts
            .iter()
            .partition(|(key, _)| key.first() == Some(&b'o'));
        for (key, value) in owners.into_iter().chain(others) {
            self.put(value, std::slice::from_ref(key))?;
        }
        Ok(())
    }

    /// Keys of every fact held.
    fn keys(&self) -> impl Iterator<Item = Bytes> + '_ {
        let peers = self.peers.iter().flat_map(|(peer, facts)| {
            let owner = facts
                .agreed
                .owner
                .iter()
                .map(|_| FactKey::Owner(*peer).encode());
            let sessions = facts
                .agreed
                .sessions
                .iter()
                .map(|id| FactKey::Session(*id, *peer).encode());
            owner.chain(sessions)
        });
        let control = &self.control;
        let single = [control.incarnation.map(|_| FactKey::Incarnation.encode())];
        let frozen = self.freezes.iter();
        let frozen = frozen.map(|frozen| FactKey::Freeze(frozen.place).encode());
        let modes = control.modes.declared();
        let modes = modes.map(|(leaf, _)| FactKey::Balance(leaf).encode());
        let single = single.into_iter().flatten().chain(frozen).chain(modes);
        let pinned = control.pins.iter();
        let pinned = pinned.map(|(name, _)| FactKey::Pin(name.clone()).encode());
        let counted = (control.pins.revision() > 0).then(|| FactKey::Pins.encode());
        let single = single.chain(control.declared.keys());
        let derated = control.measured.deratings();
        let derated = derated.map(|(link, _)| FactKey::Derating(link.as_str()).encode());
        let off_plan = control.measured.all_off_plan();
        let off_plan = off_plan.map(|(job, _)| FactKey::OffPlan(job.as_str()).encode());
        let kept_free = control.measured.all_kept_free();
        let kept_free = kept_free.map(|(leaf, _)| FactKey::KeptFree(leaf.as_str()).encode());
        let single = single.chain(counted).chain(pinned);
        let single = single.chain(derated).chain(off_plan).chain(kept_free);
        let routes = route_keys(&self.evpn)
            .chain(route_keys(&self.ipv4))
            .chain(route_keys(&self.ipv6))
            .chain(route_keys(&self.rtc));
        peers.chain(single).chain(routes)
    }

    fn put(&mut self, value: &Bytes, keys: &[Bytes]) -> Result<(), Fault> {
        let mut at = 0;
        while let Some(key) = keys.get(at) {
            match FactKey::decode(key) {
                Some(FactKey::Route(family, peer, _)) => {
                    // A run of keys of one peer and family is learned in one go.
                    let prefix = FactPrefix::RoutesOfPeer(family, peer).encode();
                    let run = keys[at..]
                        .iter()
                        .take_while(|key| key.starts_with(&prefix))
                        .count();
                    self.put_routes(family, peer, value, &keys[at..at + run], prefix.len())?;
                    at += run;
                }
                Some(fact) => {
                    self.put_fact(key, fact, value)?;
                    at += 1;
                }
                None => return Err(Fault::Key(key.clone())),
            }
        }
        Ok(())
    }

    /// Takes a fact that is not a route.
    fn put_fact(&mut self, key: &Bytes, fact: FactKey<'_>, value: &Bytes) -> Result<(), Fault> {
        match fact {
            FactKey::Route(..) => {}
            FactKey::Owner(peer) => {
                let owner = Fault::unless(key, Owner::decode(value))?;
                self.put_owner(peer, owner);
            }
            FactKey::Session(replica, peer) => {
                self.facts_of(peer).agreed.sessions.insert(replica);
            }
            FactKey::Head => {
                let head = Fault::unless(key, Head::decode(value))?;
                self.put_head(Some(head));
            }
            FactKey::Declared(slot, kind, name) => {
                let changed = self.change_declared(slot, kind, name, Some(value));
                changed.map_err(|error| Fault::invalid(key, &error))?;
            }
            FactKey::Stage(slot) => self.control_mut().declared.mark(slot, true),
            FactKey::Edit(kind, name) => {
                let edit = Fault::unless(key, ledger::decode_edit(value))?;
                let declared = &mut self.control_mut().declared;
                declared.put_edit(kind, name, Some(edit));
            }
            FactKey::Job(name) => {
                let changed = self.change_job(name, Some(value));
                changed.map_err(|error| Fault::invalid(key, &error))?;
            }
            FactKey::Jobs => self.control_mut().declared.set_jobs(count(key, value)?),
            FactKey::Pins => self.control_mut().pins.set_revision(count(key, value)?),
            FactKey::Pin(name) => {
                let paths = Fault::unless(key, ledger::decode_paths(value))?;
                self.change_pin(name, Some(paths));
            }
            FactKey::Request(id) => {
                let request = Fault::unless(key, Request::decode(value))?;
                self.control_mut().declared.put_request(id, Some(request));
            }
            FactKey::RequestAt(at) => {
                let id = Fault::unless(key, value.as_ref().try_into().ok())?;
                let id = Some(RequestId(id));
                self.control_mut().declared.put_request_at(at, id);
            }
            FactKey::Incarnation => self.control_mut().incarnation = Some(count(key, value)?),
            FactKey::Freeze(place) => {
                let holder = Fault::unless(key, ledger::decode_holder(value))?;
                self.put_freeze(place, holder);
            }
            FactKey::Balance(leaf) => {
                let mode = Fault::unless(key, ledger::decode_mode(value))?;
                self.control_mut().modes.set(leaf, Some(mode));
            }
            FactKey::Derating(link) => {
                let decision = Fault::unless(key, ledger::decode_derating(value))?;
                self.derate(link, decision);
            }
            FactKey::OffPlan(job) => {
                let why = Fault::unless(key, ledger::decode_off_plan(value))?;
                self.set_off_plan(job, Some(why));
            }
            FactKey::KeptFree(leaf) => {
                let percent = Fault::unless(key, ledger::decode_kept_free(value))?;
                self.keep_free(leaf, percent);
            }
        }
        Ok(())
    }

    fn put_routes(
        &mut self,
        family: Family,
        peer: PeerId,
        value: &Bytes,
        keys: &[Bytes],
        skip: usize,
    ) -> Result<(), Fault> {
        let is_reflected = matches!(
            family,
            Family::L2VPN_EVPN | Family::IPV4_UNICAST | Family::IPV6_UNICAST | Family::RTC
        );
        if let Some(key) = keys.first().filter(|_| !is_reflected) {
            return Err(Fault::Key(key.clone()));
        }
        let facts = self.peers.get(&peer);
        let sources = facts.and_then(|facts| facts.sources.as_ref());
        let Some(source) = sources.map(|sources| sources.of(value)) else {
            tracing::error!(%peer, "a committed route has no owner");
            return Ok(());
        };
        let interner = &mut self.interner;
        let decoded = self
            .last
            .decode(value, |attributes| interner.intern(attributes));
        let Some((payload, attributes)) = decoded else {
            // What stood there before is not what the peer says now, and a replica that restarts never knew it.
            tracing::error!(%peer, "the attributes of a committed route are not understood");
            return keys.iter().try_for_each(|key| self.delete(key));
        };
        self.rtc_touched |= family == Family::RTC;
        let nlri = keys.iter().map(|key| &key[skip..]);
        match family {
            Family::L2VPN_EVPN if !self.freezes.is_empty() => {
                let freezes = &mut self.freezes;
                let marked = |id, route: &Route| freezes.learn(source, id, route, attributes);
                self.evpn
                    .put_as(source.peer, marked, nlri, payload, attributes);
            }
            Family::L2VPN_EVPN => self.evpn.put(source, nlri, payload, attributes),
            Family::IPV4_UNICAST => self.ipv4.put(source, nlri, payload, attributes),
            Family::IPV6_UNICAST => self.ipv6.put(source, nlri, payload, attributes),
            Family::RTC => self.rtc.put(source, nlri, payload, attributes),
            _ => return Err(Fault::Key(keys[0].clone())),
        }
        Ok(())
    }

    fn put_owner(&mut self, peer: PeerId, owner: Owner) {
        let sources = Sources::new(peer, &owner);
        let facts = self.facts_of(peer);
        facts.agreed.owner = Some(owner);
        let moved = Sources::replace(&mut facts.sources, sources);
        let facts = self.peers.get(&peer).filter(|_| moved);
        if let Some(sources) = facts.and_then(|facts| facts.sources.as_ref()) {
            // The paths stay, but they are compared and reflected as the new sources say.
            sources.relearn(peer, &mut self.evpn.table);
            sources.relearn(peer, &mut self.ipv4.table);
            sources.relearn(peer, &mut self.ipv6.table);
            sources.relearn(peer, &mut self.rtc.table);
        }
    }

    fn put_freeze(&mut self, place: Place, holder: Holder) {
        self.freezes
            .put(place, holder, self.now, &mut self.evpn.table);
        self.control_touched = true;
    }

    /// The address is free, and its moves count anew, on every replica.
    fn thaw(&mut self, place: Place) {
        self.freezes.delete(place, &mut self.evpn.table);
        self.views.moves.clear(place.0, place.1);
        self.control_touched = true;
    }

    fn delete_evpn(&mut self, peer: PeerId, nlri: &[u8]) {
        if !self.freezes.is_empty()
            && let Some((path_id, key)) = FamilyState::<Route>::named(nlri)
        {
            self.freezes.withdraw(peer, path_id, key);
        }
        self.evpn.delete(peer, nlri);
    }

    fn delete(&mut self, key: &Bytes) -> Result<(), Fault> {
        match FactKey::decode(key) {
            Some(FactKey::Route(family, peer, nlri)) => match family {
                Family::L2VPN_EVPN => self.delete_evpn(peer, nlri),
                Family::IPV4_UNICAST => self.ipv4.delete(peer, nlri),
                Family::IPV6_UNICAST => self.ipv6.delete(peer, nlri),
                Family::RTC => {
                    self.rtc.delete(peer, nlri);
                    self.rtc_touched = true;
                }
                _ => return Err(Fault::Key(key.clone())),
            },
            Some(FactKey::Owner(peer)) => {
                self.facts_of(peer).agreed.owner = None;
                self.forget_if_empty(peer);
            }
            Some(FactKey::Session(replica, peer)) => {
                self.facts_of(peer).agreed.sessions.remove(&replica);
                self.forget_if_empty(peer);
            }
            Some(FactKey::Head) => self.put_head(None),
            Some(FactKey::Declared(slot, kind, name)) => {
                let changed = self.change_declared(slot, kind, name, None);
                changed.map_err(|error| Fault::invalid(key, &error))?;
            }
            Some(FactKey::Stage(slot)) => self.control_mut().declared.mark(slot, false),
            Some(FactKey::Edit(kind, name)) => {
                self.control_mut().declared.put_edit(kind, name, None);
            }
            Some(FactKey::Job(name)) => {
                let changed = self.change_job(name, None);
                changed.map_err(|error| Fault::invalid(key, &error))?;
            }
            Some(FactKey::Jobs) => self.control_mut().declared.set_jobs(0),
            Some(FactKey::Pins) => self.control_mut().pins.set_revision(0),
            Some(FactKey::Pin(name)) => self.change_pin(name, None),
            Some(FactKey::Request(id)) => self.control_mut().declared.put_request(id, None),
            Some(FactKey::RequestAt(at)) => self.control_mut().declared.put_request_at(at, None),
            Some(FactKey::Incarnation) => self.control_mut().incarnation = None,
            Some(FactKey::Freeze(place)) => self.thaw(place),
            Some(FactKey::Balance(leaf)) => self.control_mut().modes.set(leaf, None),
            Some(FactKey::Derating(link)) => self.derate(link, Decision::default()),
            Some(FactKey::OffPlan(job)) => self.set_off_plan(job, None),
            Some(FactKey::KeptFree(leaf)) => self.keep_free(leaf, 0),
            None => return Err(Fault::Key(key.clone())),
        }
        Ok(())
    }

    fn delete_prefix(&mut self, prefix: &Bytes) -> Result<(), Fault> {
        match FactPrefix::decode(prefix) {
            Some(FactPrefix::RoutesOfPeer(family, peer)) => match family {
                Family::L2VPN_EVPN => {
                    self.freezes.withdraw_peer(peer);
                    self.evpn.table.withdraw_peer(peer);
                }
                Family::IPV4_UNICAST => self.ipv4.table.withdraw_peer(peer),
                Family::IPV6_UNICAST => self.ipv6.table.withdraw_peer(peer),
                Family::RTC => {
                    self.rtc.table.withdraw_peer(peer);
                    self.rtc_touched |= self.wishes.hears(peer);
                }
                _ => return Err(Fault::Prefix(prefix.clone())),
            },
            Some(FactPrefix::SessionsOfReplica(replica)) => {
                let served = |(peer, facts): (&PeerId, &PeerFacts)| {
                    facts.agreed.sessions.contains(&replica).then_some(*peer)
                };
                let peers: Vec<_> = self.peers.iter().filter_map(served).collect();
                for peer in peers {
                    self.delete(&FactKey::Session(replica, peer).encode())?;
                }
            }
            Some(FactPrefix::Balance) => self.control_mut().modes = Modes::default(),
            Some(FactPrefix::Slot(slot)) => {
                let changed = self.delete_slot(slot);
                changed.map_err(|error| Fault::invalid(prefix, &error))?;
            }
            Some(FactPrefix::Edits) => self.control_mut().declared.delete_edits(),
            None => return Err(Fault::Prefix(prefix.clone())),
        }
        Ok(())
    }

    fn facts_of(&mut self, peer: PeerId) -> &mut PeerFacts {
        self.touched.insert(peer);
        self.control_touched = true;
        let empty = || PeerFacts {
            agreed: Agreed::default(),
            sources: None,
        };
        self.peers.entry(peer).or_insert_with(empty)
    }

    fn control_mut(&mut self) -> &mut Control {
        self.control_touched = true;
        &mut self.control
    }

    fn forget_if_empty(&mut self, peer: PeerId) {
        let empty = |facts: &PeerFacts| facts.agreed == Agreed::default();
        if self.peers.get(&peer).is_some_and(empty) {
            self.peers.remove(&peer);
        }
    }

    /// Selects, reflects and encodes what the facts taken since the last poll changed.
    pub fn poll(&mut self, out: &mut Vec<Output>) {
        // Before selection: what is withheld must not be told first.
        self.control_touched |= self.freezes.settle(&mut self.evpn.table);
        let mut alarms = Vec::new();
        let Self {
            evpn,
            views,
            wishes,
            now,
            control_touched,
            ..
        } = self;
        let changes = evpn.advertise(
            |group, segment| out.push(Output::Advertise(group, segment)),
            |change| {
                wishes.learn(change);
                *control_touched |= views.learn(change, *now, &mut alarms);
            },
        );
        selected(out, changes, Selected::Evpn);
        let changes = self.ipv4.advertise(
            |group, segment| out.push(Output::Advertise(group, segment)),
            |_| {},
        );
        selected(out, changes, Selected::Ipv4);
        let changes = self.ipv6.advertise(
            |group, segment| out.push(Output::Advertise(group, segment)),
            |_| {},
        );
        selected(out, changes, Selected::Ipv6);
        if std::mem::take(&mut self.rtc_touched) {
            self.wishes.hear(&self.rtc.table);
        }
        self.wishes.tell(&mut self.rtc.table);
        let changes = self.rtc.advertise(
            |group, segment| out.push(Output::Advertise(group, segment)),
            |_| {},
        );
        selected(out, changes, Selected::Rtc);
        // The leader may have to freeze something.
        self.control_touched |= !alarms.is_empty();
        out.extend(alarms.into_iter().map(Output::Alarm));
        for peer in self.touched.drain() {
            let agreed = self.peers.get(&peer).map(|facts| facts.agreed.clone());
            out.push(Output::Agreed(peer, agreed.unwrap_or_default()));
        }
        if std::mem::take(&mut self.control_touched) {
            out.push(Output::Control);
        }
        if !self.changed.is_empty() {
            out.push(Output::Declared(std::mem::take(&mut self.changed)));
        }
        if !self.repinned.is_empty() {
            out.push(Output::Pinned(std::mem::take(&mut self.repinned)));
        }
        if !self.decided.is_empty() {
            out.push(Output::Decided(std::mem::take(&mut self.decided)));
        }
        if let Some(view) = self.views.fabric() {
            out.push(Output::View(Arc::new(view)));
        }
    }

    /// The group that a member with `key` reads, made if there is none. After a poll.
    pub fn group(&mut self, family: Family, key: &ExportKey) -> GroupId {
        let Self {
            local, next_group, ..
        } = self;
        match family {
            Family::IPV4_UNICAST => self.ipv4.group(key, local, next_group),
            Family::IPV6_UNICAST => self.ipv6.group(key, local, next_group),
            Family::RTC => self.rtc.group(key, local, next_group),
            _ => self.evpn.group(key, local, next_group),
        }
    }

    /// What a member of `group` with this interest that knows everything up to `since` has to hear; 0: everything, whatever
    /// its interest.
    ///
    /// # Errors
    /// What went since then is no longer remembered.
    pub fn image(
        &mut self,
        family: Family,
        group: GroupId,
        since: u64,
        interest: &Interest,
    ) -> Result<Image, TooOld> {
        match family {
            Family::IPV4_UNICAST => self.ipv4.image(group, since, interest),
            Family::IPV6_UNICAST => self.ipv6.image(group, since, interest),
            Family::RTC => self.rtc.image(group, since, interest),
            _ => self.evpn.image(group, since, interest),
        }
    }

    /// What a member that was told everything under another key and interest has to hear to read `group` from now on, with
    /// a new interest. After a poll.
    pub fn turn(
        &mut self,
        family: Family,
        group: GroupId,
        old: (&ExportKey, &Interest),
        interest: &Interest,
    ) -> Arc<Segment> {
        match family {
            Family::IPV4_UNICAST => self.ipv4.turn(group, old, interest),
            Family::IPV6_UNICAST => self.ipv6.turn(group, old, interest),
            Family::RTC => self.rtc.turn(group, old, interest),
            _ => self.evpn.turn(group, old, interest),
        }
    }

    /// Forgets groups that nobody reads, and attributes that no path has.
    pub fn sweep(&mut self, mut read: impl FnMut(GroupId) -> bool) {
        self.evpn.retain(&mut read);
        self.ipv4.retain(&mut read);
        self.ipv6.retain(&mut read);
        self.rtc.retain(&mut read);
        self.interner.sweep();
        self.views.moves.forget(self.now);
    }

    /// What is agreed about `peer`.
    pub fn agreed(&self, peer: PeerId) -> Agreed {
        self.peers
            .get(&peer)
            .map(|facts| facts.agreed.clone())
            .unwrap_or_default()
    }

    /// What is agreed about every peer.
    pub fn peers(&self) -> impl Iterator<Item = (PeerId, &Agreed)> {
        self.peers
            .iter()
            .map(|(peer, facts)| (*peer, &facts.agreed))
    }

    /// Facts that are not routes.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// EVPN destinations.
    pub fn evpn(&self) -> &weft_bgp::table::Table<Route> {
        &self.evpn.table
    }

    /// IPv4 unicast destinations.
    pub fn ipv4(&self) -> &weft_bgp::table::Table<Prefix4> {
        &self.ipv4.table
    }

    /// IPv6 unicast destinations.
    pub fn ipv6(&self) -> &weft_bgp::table::Table<Prefix6> {
        &self.ipv6.table
    }

    /// Route target memberships, and what is wished for on behalf of peers that tell none: from router id 0.0.0.0.
    pub fn rtc(&self) -> &weft_bgp::table::Table<Membership> {
        &self.rtc.table
    }

    /// Who we are.
    pub fn local(&self) -> &Local {
        &self.local
    }

    /// Which VTEPs are members of which VNI.
    pub fn vteps(&self) -> &Vteps {
        &self.views.vteps
    }

    /// EVPN destinations of which a peer is not told if nothing is known of it, by the first reason.
    pub fn withheld(&self) -> &BTreeMap<&'static str, u64> {
        self.views.withheld()
    }

    /// EVPN destinations by route type; those of types 1 to 5 also where there are none.
    pub fn types(&self) -> &BTreeMap<u8, u64> {
        self.views.types()
    }
}

fn count(key: &Bytes, value: &[u8]) -> Result<u64, Fault> {
    Fault::unless(key, ledger::decode_count(value))
}

fn route_keys<N: Nlri>(family: &FamilyState<N>) -> impl Iterator<Item = Bytes> + '_ {
    let mut scratch = Vec::new();
    family.table.iter().flat_map(move |destination| {
        scratch.clear();
        N::key_octets(&destination.key(), &mut scratch);
        let key = |path: &weft_bgp::table::Path<N>| {
            let mut octets = Vec::with_capacity(scratch.len());
            ledger::write_path(path.path_id(), &scratch, &mut octets);
            FactKey::Route(N::family(), path.source.peer, &octets).encode()
        };
        let facts = destination.paths.iter();
        let facts = facts.filter(|path| !Wishes::are_of(path.source.peer));
        facts.map(key).collect::<Vec<_>>()
    })
}

/// Spreads attributes over the interner's buckets; never visible outside.
const INTERNER_SEED: u64 = 0x7765_6674;
/// Says which best paths changed, if any did.
fn selected<N: Nlri>(
    out: &mut Vec<Output>,
    selection: Selection<N>,
    of: fn(Selection<N>) -> Selected,
) {
    if !(selection.changes.is_empty() && selection.unchanged.is_empty()) {
        out.push(Output::Selected(of(selection)));
    }
}

#[cfg(test)]
mod tests {
    use weft_bgp::attribute::{AsPath, Attributes, NextHop};
    use weft_bgp::peer::{ClusterId, RouterId};
    use weft_bgp::table::PeerKind;

    use super::*;
    use crate::fabric::pin::{PinName, PinPath};

    const PEER: PeerId = PeerId {
        router_id: RouterId(9),
        asn: 64_499,
    };

    /// Invariants 4 and 5: a replica that restarts would not know the old path either.
    #[test]
    fn a_path_that_is_not_understood_takes_the_old_one_away() {
        let mut reflector = Reflector::new(Local {
            asn: 64_496,
            router_id: RouterId(1),
            cluster_id: ClusterId(2),
        });
        let address = std::net::Ipv4Addr::new(192, 0, 2, 1);
        let owner = Owner {
            replica: 1,
            epoch: 1,
            address: address.into(),
            kind: PeerKind::Ebgp,
            fresh_from: 0,
            returned: None,
            retention: None,
        };
        reflector
            .put(&owner.encode(), &[FactKey::Owner(PEER).encode()])
            .unwrap();
        let prefix = Prefix4::new(address, 32).unwrap();
        let mut nlri = Vec::new();
        <Prefix4 as Nlri>::key_octets(&prefix, &mut nlri);
        let key = FactKey::Route(Family::IPV4_UNICAST, PEER, &nlri).encode();
        let mut put = |numbers: usize| {
            let attributes = Attributes {
                next_hop: Some(NextHop::V4(address)),
                as_path: AsPath::sequence(&vec![64_499; numbers]),
                ..Attributes::default()
            };
            let octets = attributes.to_octets();
            let value = ledger::encode_path(&prefix, &octets, &mut Vec::new());
            reflector.put(&value, std::slice::from_ref(&key)).unwrap();
            reflector.ipv4().paths_len()
        };
        assert_eq!([put(1), put(513), put(2)], [1, 0, 1]);
    }

    #[test]
    fn a_pin_that_is_put_as_it_was_is_no_change() {
        let mut reflector = Reflector::new(Local {
            asn: 64_496,
            router_id: RouterId(1),
            cluster_id: ClusterId(2),
        });
        let name = PinName {
            job: "train".into(),
            source: "leaf1:eth1".into(),
            destination: "leaf2:eth1".into(),
        };
        let key = FactKey::Pin(name.clone()).encode();
        let paths = |weight| -> Arc<[PinPath]> {
            let spine = "spine1".into();
            Arc::from([PinPath { spine, weight }])
        };
        let put = |weight| Change::Put {
            value: ledger::encode_paths(&paths(weight)),
            keys: vec![key.clone()],
        };
        let delete = || Change::Delete {
            keys: vec![key.clone()],
        };
        // The third one changes nothing.
        let changes = [delete(), put(1), put(1), put(2), delete()];
        for (index, change) in (1..).zip(changes) {
            reflector
                .handle(&Applied {
                    index,
                    term: 1,
                    changes: vec![change],
                })
                .unwrap();
        }
        let changed = |revision, before: Option<u32>, after: Option<u32>| PinChanged {
            revision,
            name: name.clone(),
            before: before.map(paths),
            after: after.map(paths),
        };
        let mut out = Vec::new();
        reflector.poll(&mut out);
        let pinned = out.into_iter().filter_map(|output| match output {
            Output::Pinned(changes) => Some(changes),
            _ => None,
        });
        let expected = [
            changed(2, None, Some(1)),
            changed(4, Some(1), Some(2)),
            changed(5, Some(2), None),
        ];
        assert_eq!(pinned.flatten().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_decision_that_is_made_again_is_no_change() {
        use weft_telemetry::derating::{Cause, Decision};

        use crate::fabric::decision::Decided;

        let mut reflector = Reflector::new(Local {
            asn: 64_496,
            router_id: RouterId(1),
            cluster_id: ClusterId(2),
        });
        let decision = |derating_percent| Decision {
            derating_percent,
            cause: Some(Cause::Errors),
        };
        let put = |key: &FactKey<'_>, value: Bytes| Change::Put {
            value,
            keys: vec![key.encode()],
        };
        let delete = |key: &FactKey<'_>| Change::Delete {
            keys: vec![key.encode()],
        };
        let (link, leaf) = (FactKey::Derating("link1"), FactKey::KeptFree("leaf1"));
        let derate = |percent| put(&link, ledger::encode_derating(decision(percent)));
        let keep_free = || put(&leaf, ledger::encode_kept_free(10));
        // The third batch changes nothing.
        let batches = [
            vec![delete(&link)],
            vec![derate(25), keep_free()],
            vec![derate(25)],
            vec![derate(50)],
            vec![delete(&leaf)],
            vec![delete(&link), delete(&leaf)],
        ];
        for (index, changes) in (1..).zip(batches) {
            reflector
                .handle(&Applied {
                    index,
                    term: 1,
                    changes,
                })
                .unwrap();
        }
        let derated = |percent| Some(Decided::Derated("link1".into(), decision(percent)));
        let kept_free = Some(Decided::KeptFree("leaf1".into(), 10));
        let expected = [
            (2, None, derated(25)),
            (2, None, kept_free.clone()),
            (4, derated(25), derated(50)),
            (5, kept_free, None),
            (6, derated(50), None),
        ]
        .map(|(revision, before, after)| DecisionChanged {
            revision,
            before,
            after,
        });
        let mut out = Vec::new();
        reflector.poll(&mut out);
        let decided = out.into_iter().filter_map(|output| match output {
            Output::Decided(changes) => Some(changes),
            _ => None,
        });
        assert_eq!(decided.flatten().collect::<Vec<_>>(), expected);
    }
}
