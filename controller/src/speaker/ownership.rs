//! One peer's stake in the replicated facts: says that a session is up, claims the peer, commits what
//! it announced, and takes everything back when it goes. Knows clocks and proposals; what is to be
//! proposed is decided by `reflector::owner` and `reflector::learn`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;
use weft_bgp::capability::AddPathSet;
use weft_bgp::constrain::Interest;
use weft_bgp::error::DecodeError;
use weft_bgp::family::Family;
use weft_bgp::message::RouteRefresh;
use weft_bgp::message::update::Update;
use weft_bgp::peer::PeerId;
use weft_bgp::table::PeerKind;
use weft_store::{Batch, Outcome};

use super::Shared;
use crate::ledger::{self, FactKey, FactPrefix, Owner, Phase, Retention};
use crate::reflector::learn::inbound::Inbound;
use crate::reflector::learn::sanity::FabricView;
use crate::reflector::learn::{AdjRibIn, Learned};
use crate::reflector::owner::{self, Agreed, Own, Parting, Preserved, Step};

/// A peer's stake. Lives from its first session until nothing of it is left in the facts.
pub struct Ownership {
    shared: Arc<Shared>,
    peer: PeerId,
    address: IpAddr,
    kind: PeerKind,
    families: Vec<Family>,
    agreed: watch::Receiver<Agreed>,
    view: watch::Receiver<Arc<FabricView>>,
    adj_rib_in: AdjRibIn,
    established: Option<Instant>,
    /// Since when no living replica owns the peer.
    unserved: Option<Instant>,
    announced: bool,
    claimed: Option<Owner>,
    /// The claim's difference was taken: batches may go.
    compared: bool,
    /// Families whose unannounced paths were removed.
    swept: BTreeSet<Family>,
    /// At most one step about the session or the owner is under way.
    step: Option<BoxFuture<'static, (Proposed, Outcome)>>,
    scan: Option<BoxFuture<'static, Option<HashMap<Bytes, Bytes>>>>,
    batches: FuturesUnordered<BoxFuture<'static, (Vec<Bytes>, Outcome)>>,
    /// No further step before this, unless what is agreed changes.
    pause: Option<Instant>,
    /// What the end of the session means for the paths.
    parting: Parting,
    /// The record under which the peer was left to others, and until when those may turn out to be dead.
    left: Option<(Owner, Instant)>,
    /// Families that the peer says again, and until when we wait for the end of it. RFC 7313 §4.
    refreshing: BTreeMap<Family, Instant>,
    /// Families whose forwarding the peer kept since its last session.
    preserved: Preserved,
    /// Families in which it says End-of-RIB.
    ending: Vec<Family>,
    /// A record of ours that is applied, behind the one that it replaced: what is agreed here may still be that.
    replaced: Option<(Owner, Owner)>,
    /// The session before this one ended in a restart, and the facts may not say so yet.
    restarted: bool,
    /// A claim that may have been agreed though nobody said so, by the session that was established then.
    unanswered: Option<(Owner, Option<Instant>)>,
    /// For how many seconds that one was established.
    served_secs: u32,
    /// The session is over, and before that is said, what was stale and not said again goes.
    sifting: bool,
    /// When the last UPDATE came.
    learned_at: Option<Instant>,
    /// Not before then what the fabric looks like is judged by again.
    look_at: Option<Instant>,
    done: bool,
}

/// What a session that is established says of the peer.
#[derive(Clone, Debug)]
pub struct Terms {
    /// How reflection treats it.
    pub kind: PeerKind,
    /// Families that both speak.
    pub families: Vec<Family>,
    /// Families whose forwarding it kept since its last session.
    pub preserved: Preserved,
    /// Families in which it says End-of-RIB, however late: before that it may wait for that of all its
    /// other peers. RFC 4724 §4.1.
    pub ending: Vec<Family>,
    /// Families in which it sends path identifiers, RFC 7911 §4.
    pub add_path: AddPathSet,
    /// What it may announce.
    pub inbound: Inbound,
}

enum Proposed {
    Announced,
    /// To others, if there is a record.
    Released(Option<Owner>),
    /// Under this record, in the place of that one, by the session that was established then.
    Claim(Owner, Option<Owner>, Option<Instant>),
    /// All, or more, was said that the peer had not said since its return: this record, in the place of that one.
    Settled(Owner, Owner),
}

impl Ownership {
    /// The stake of a peer whose session has just been established; `None` while the daemon stops.
    pub async fn begin(
        shared: &Arc<Shared>,
        peer: PeerId,
        address: IpAddr,
        terms: Terms,
        now: Instant,
    ) -> Option<Self> {
        let agreed = shared.reflection.follow(peer).await?;
        let mut view = shared.reflection.view();
        let adj_rib_in = adj_rib_in(shared, peer, &terms, &mut view);
        let Terms {
            kind,
            families,
            preserved,
            ending,
            add_path: _,
            inbound: _,
        } = terms;
        Some(Self {
            shared: Arc::clone(shared),
            peer,
            address,
            kind,
            adj_rib_in,
            families,
            agreed,
            view,
            refreshing: BTreeMap::new(),
            established: Some(now),
            unserved: None,
            announced: false,
            claimed: None,
            compared: false,
            swept: BTreeSet::new(),
            step: None,
            scan: None,
            batches: FuturesUnordered::new(),
            pause: None,
            parting: Parting::default(),
            left: None,
            preserved,
            ending,
            replaced: None,
            served_secs: 0,
            restarted: false,
            unanswered: None,
            sifting: false,
            learned_at: None,
            look_at: None,
            done: false,
        })
    }

    /// Whose it is.
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// The peer came back before everything was taken away.
    pub fn resume(&mut self, terms: Terms, now: Instant) {
        self.sifting = false;
        self.adj_rib_in = adj_rib_in(&self.shared, self.peer, &terms, &mut self.view);
        self.kind = terms.kind;
        self.families = terms.families;
        self.preserved = terms.preserved;
        self.ending = terms.ending;
        self.established = Some(now);
        self.left = None;
        self.renounce();
        self.done = false;
    }

    /// Reflection is to treat the peer otherwise from now on: whoever owns it says so in a new record, and
    /// the paths stay.
    pub fn rekind(&mut self, kind: PeerKind) {
        if std::mem::replace(&mut self.kind, kind) == kind {
            return;
        }
        self.adj_rib_in.set_kind(kind);
        if self.claimed.is_some() {
            self.renounce();
        }
    }

    /// The session ended; if it was the last one, `parting` says what becomes of the peer's paths. `ours`: it ended
    /// rather for our fault, and paths that would go stay for a while.
    pub fn end(&mut self, parting: Parting, ours: bool) {
        let since = self.established.take();
        self.served_secs = since.map_or(0, |since| whole_secs(since.elapsed()));
        self.learned_at = None;
        self.refreshing.clear();
        self.pause = None;
        self.parting = match parting {
            Parting::Gone if ours => Parting::OurDoing,
            parting => parting,
        };
        self.restarted = matches!(self.parting, Parting::Restarting(_));
        // It came and went before anybody served it. What is retained of it goes all the same.
        let agreed = self.agreed.borrow().owner.clone();
        let retained = agreed.filter(|owner| owner.retention.is_some());
        if let Some(owner) = retained.filter(|_| self.parting == Parting::Gone) {
            self.left = Some((owner, Instant::now() + LEAVE));
        }
        self.sifting = self
            .returned()
            .is_some_and(|returned| returned.phase == Phase::Graceful && self.restarted);
        if !self.sifting {
            self.over();
        }
    }

    /// What the session said is of no use any more.
    fn over(&mut self) {
        self.sifting = false;
        self.renounce();
        let (kind, local) = (self.kind, self.shared.local);
        self.adj_rib_in = AdjRibIn::new(self.peer, kind, local, self.families.clone());
    }

    /// What the peer, which this replica owns, is back from and has not said again.
    fn returned(&self) -> Option<&Retention> {
        self.claimed.as_ref()?.returned.as_ref()
    }

    fn renounce(&mut self) {
        self.claimed = None;
        self.compared = false;
        self.swept.clear();
        self.scan = None;
        // Whatever comes of them was decided by a session that is over.
        self.batches.clear();
        self.adj_rib_in.renounce();
    }

    /// Nothing of the peer is left in the facts, and no session holds it.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether nothing of what was learned is on its way.
    pub fn is_idle(&self) -> bool {
        self.batches.is_empty()
    }

    /// Takes an UPDATE.
    ///
    /// # Errors
    /// The session must end with the fault's NOTIFICATION.
    pub fn learn(&mut self, update: &Update, now: Instant) -> Result<Learned, DecodeError> {
        self.learned_at = Some(now);
        self.adj_rib_in.learn(update)
    }

    /// Another inbound policy from now on; what is held stays.
    pub fn set_policy(&mut self, inbound: Inbound) -> Learned {
        self.adj_rib_in.set_policy(inbound)
    }

    /// The peer begins or ends to say all its routes of a family again. RFC 7313 §4.
    pub fn refreshed(&mut self, refresh: RouteRefresh, now: Instant) -> Learned {
        match refresh.subtype {
            // A second begin changes nothing: what was not said since the first is still unsaid.
            RouteRefresh::BEGIN if self.refreshing.contains_key(&refresh.family) => {
                Learned::default()
            }
            RouteRefresh::BEGIN => {
                self.adj_rib_in.begin_refresh(refresh.family);
                self.refreshing
                    .insert(refresh.family, now + REFRESH_DEADLINE);
                Learned::default()
            }
            RouteRefresh::END => {
                self.refreshing.remove(&refresh.family);
                self.adj_rib_in.end_refresh(refresh.family)
            }
            _ => Learned::default(),
        }
    }

    /// Who does not say the end of a refresh has had the time to.
    fn refresh_due(&mut self, now: Instant) -> Option<Learned> {
        let mut due = self.refreshing.iter().filter(|(_, at)| now >= **at);
        let family = due.next().map(|(family, _)| *family)?;
        self.refreshing.remove(&family);
        let learned = self.adj_rib_in.end_refresh(family);
        let withdrawn = learned.withdrawn;
        tracing::warn!(peer = %self.peer, %family, withdrawn, "refresh without an end");
        Some(learned)
    }

    /// What the peer wants to be told.
    pub fn interest(&self) -> Interest {
        self.adj_rib_in.interest()
    }

    /// The same, if it changed since somebody asked for news.
    pub fn interest_news(&mut self) -> Option<Interest> {
        let changed = self.adj_rib_in.take_interest_changed();
        changed.then(|| self.adj_rib_in.interest())
    }

    /// What is held of the routes that an UPDATE names, by key.
    pub fn said(&mut self, update: &Update) -> Vec<(Bytes, Option<Bytes>)> {
        self.adj_rib_in.said(update)
    }

    /// Routes held of this session, as facts.
    pub fn held(&self) -> Vec<(Bytes, Bytes)> {
        self.adj_rib_in.held()
    }

    /// Number of routes held of this session.
    pub fn routes(&self) -> &BTreeMap<Family, usize> {
        const NONE: &BTreeMap<Family, usize> = &BTreeMap::new();
        match self.established {
            Some(_) => self.adj_rib_in.counts(),
            None => NONE,
        }
    }

    /// Waits until something happened and takes the next steps; says what that changed of what is held.
    /// May be dropped at any await.
    pub async fn turn(&mut self, now: Instant) -> Learned {
        if let Some(learned) = self.refresh_due(now) {
            return learned;
        }
        self.go_on(now);
        if self.done {
            return Learned::default();
        }
        let rested = self.look_at.is_none_or(|at| now >= at);
        let looks = self.adj_rib_in.is_guarded() && rested && !self.sifting;
        let deadline = self.deadline(now);
        tokio::select! {
            changed = self.agreed.changed() => {
                self.pause = None;
                if changed.is_err() {
                    // The daemon stops: there is nobody to agree with any more.
                    self.done = true;
                    std::future::pending::<()>().await;
                }
            }
            Ok(()) = self.view.changed(), if looks => {
                let view = Arc::clone(&self.view.borrow_and_update());
                let learned = self.adj_rib_in.see(view);
                let looked_at = u32::try_from(learned.looked_at).unwrap_or(u32::MAX);
                self.look_at = Some(now + LOOK_PAUSE.saturating_mul(looked_at));
                if learned.announced > 0 {
                    tracing::info!(peer = %self.peer, released = learned.announced, "routes no longer held back");
                }
                return learned;
            }
            (proposed, outcome) = pending_or(&mut self.step) => self.stepped(proposed, outcome, now),
            committed = pending_or(&mut self.scan) => self.scanned(committed.as_ref()),
            Some((keys, outcome)) = self.batches.next(), if !self.batches.is_empty() => {
                self.batch_ended(keys, &outcome, now);
            }
            () = tokio::time::sleep_until(deadline) => self.pause = None,
        }
        Learned::default()
    }

    /// Takes the steps that need not wait for anything; above all, proposes what was learned.
    pub fn go_on(&mut self, now: Instant) {
        if self.done {
            return;
        }
        if self.step.is_none() && self.pause.is_none_or(|until| now >= until) {
            self.pause = None;
            let mut agreed = self.agreed.borrow_and_update().clone();
            match &self.replaced {
                Some((old, new)) if agreed.owner.as_ref() == Some(old) => {
                    agreed.owner = Some(new.clone());
                }
                // What was agreed once may be agreed again, when the peer was gone meanwhile.
                Some(_) | None => self.replaced = None,
            }
            let served = |owner: &Owner| agreed.sessions.contains(&owner.replica);
            self.unserved = match agreed.owner.as_ref().is_some_and(served) {
                true => None,
                false => self.unserved.or(Some(now)),
            };
            let is_agreed = |(owner, by): &(Owner, Option<Instant>)| {
                agreed.owner.as_ref() == Some(owner) && self.established == *by
            };
            if self.unanswered.as_ref().is_some_and(is_agreed) {
                self.restarted = false;
            }
            let owns = self.claimed.is_some() && self.claimed == agreed.owner;
            if let Some(owner) = self.settled().filter(|_| owns) {
                let put = ledger::put(&FactKey::Owner(self.peer), owner.encode());
                let batch = ledger::owned(self.peer, self.claimed.as_ref(), vec![put]);
                let claimed = self.claimed.clone().unwrap_or_else(|| owner.clone());
                return self.propose(batch, Proposed::Settled(owner, claimed));
            }
            // Others heard what they heard: what this replica did not is not unsaid.
            let alone = agreed.sessions.iter().all(|id| *id == self.shared.replica);
            if self.sifting && !(owns && alone && self.unsaid().next().is_some()) {
                self.over();
            }
            let step = match self.sifting {
                true => Step::Commit,
                false => self.decide(&agreed, now),
            };
            match step {
                Step::Wait => {}
                Step::Announce(batch) => {
                    self.announced = true;
                    self.propose(batch, Proposed::Announced);
                }
                Step::Release(batch) => self.propose(batch, Proposed::Released(None)),
                Step::Leave(batch, owner) => {
                    self.propose(batch, Proposed::Released(Some(owner)));
                }
                Step::Claim(batch, owner) => {
                    let by = self.established;
                    self.propose(batch, Proposed::Claim(owner, agreed.owner, by));
                }
                Step::Commit => self.commit(now),
                Step::Done => self.done = true,
            }
        }
    }

    /// The record that follows from what was said, and committed, since the peer's return, if that is another.
    fn settled(&self) -> Option<Owner> {
        let claimed = self.claimed.as_ref()?;
        let committed = self.batches.is_empty() && !self.adj_rib_in.is_dirty();
        if claimed.returned.is_none() || !self.compared || !committed {
            return None;
        }
        let swept = |family| self.swept.contains(&family);
        let record = match self.sifting {
            false => owner::settled(claimed, swept),
            true if self.unsaid().all(swept) => owner::sifted(claimed),
            true => return None,
        };
        (record != *claimed).then_some(record)
    }

    /// Families of which something may be there that is no more than stale and was not said again.
    fn unsaid(&self) -> impl Iterator<Item = Family> + '_ {
        let returned = self.returned();
        let stale = returned.filter(|returned| returned.phase == Phase::Graceful);
        let families = stale.into_iter().flat_map(|returned| &returned.families);
        families.map(|(family, _)| *family)
    }

    fn decide(&self, agreed: &Agreed, now: Instant) -> Step {
        let own = Own {
            replica: self.shared.replica,
            members: &self.shared.members,
            peer: self.peer,
            families: &ledger::FAMILIES,
            established: self.established.map(|_| (self.address, self.kind)),
            claimed: self.claimed.as_ref(),
            announced: self.announced,
            impatient: self.unserved.is_some_and(|since| now >= since + PATIENCE),
            parting: &self.parting,
            restarted: self.restarted,
            served_secs: self.served_secs,
            away_secs: whole_secs(self.shared.away(self.peer)),
            left: self.left_at(now),
            preserved: &self.preserved,
        };
        owner::next(&own, agreed)
    }

    /// The record under which the peer was left to others, while those may turn out to be dead.
    fn left_at(&self, now: Instant) -> Option<&Owner> {
        let left = self.left.as_ref().filter(|(_, until)| now < *until);
        left.map(|(owner, _)| owner)
    }

    fn propose(&mut self, batch: Batch, what: Proposed) {
        let consensus = self.shared.consensus.clone();
        self.step = Some(Box::pin(
            async move { (what, consensus.propose(batch).await) },
        ));
    }

    fn stepped(&mut self, proposed: Proposed, outcome: Outcome, now: Instant) {
        self.step = None;
        match (outcome, proposed) {
            (Outcome::Applied { .. }, Proposed::Claim(owner, replaced, by))
                if self.established.is_some() && self.established == by =>
            {
                self.restarted = false;
                self.await_news(now, |agreed| agreed.owner.as_ref() == Some(&owner));
                if owner.kind != self.kind {
                    // A claim of another kind than the peer has become meanwhile is renewed.
                    return;
                }
                self.replaced = replaced.map(|old| (old, owner.clone()));
                tracing::info!(peer = %self.peer, epoch = owner.epoch, "peer claimed");
                self.claimed = Some(owner);
                self.compared = false;
                self.swept.clear();
            }
            (Outcome::Applied { .. }, Proposed::Settled(owner, old)) => {
                if self.claimed.as_ref() == Some(&old) {
                    self.claimed = Some(owner.clone());
                }
                self.replaced = Some((old, owner));
            }
            (Outcome::Applied { .. }, Proposed::Released(left)) => {
                self.announced = false;
                self.restarted = false;
                let left = left.filter(|_| self.established.is_none());
                self.left = left.map(|owner| (owner, now + LEAVE));
                self.await_news(now, |_| false);
            }
            (Outcome::Applied { .. }, Proposed::Announced) => {
                let replica = self.shared.replica;
                self.await_news(now, |agreed| agreed.sessions.contains(&replica));
            }
            (Outcome::Applied { .. } | Outcome::ConditionFailed { .. }, _) => {
                self.await_news(now, |_| false);
            }
            (Outcome::Superseded | Outcome::Dropped, proposed) => {
                // It may have been agreed all the same, and nobody left to say so.
                match proposed {
                    Proposed::Released(Some(owner)) if self.established.is_none() => {
                        self.left = Some((owner, now + LEAVE));
                    }
                    Proposed::Claim(owner, _, by) => self.unanswered = Some((owner, by)),
                    Proposed::Announced | Proposed::Released(_) | Proposed::Settled(..) => {}
                }
                self.pause = Some(now + RETRY);
            }
        }
    }

    /// What is agreed arrives a moment later, and says what is next; unless it shows what was done already.
    fn await_news(&mut self, now: Instant, shows: impl FnOnce(&Agreed) -> bool) {
        if !shows(&self.agreed.borrow()) {
            self.pause = Some(now + SETTLE);
        }
    }

    /// This replica owns the peer: keep the pipeline full.
    fn commit(&mut self, now: Instant) {
        if self.scan.is_some() {
            return;
        }
        if !self.compared || self.sweepable(now).next().is_some() {
            self.scan = Some(scan(&self.shared, self.peer));
            return;
        }
        let Some(owner) = self.claimed.clone() else {
            return;
        };
        while self.batches.len() < PIPELINE && self.adj_rib_in.is_dirty() {
            // One that waited for room would come after those that found some, and they may say newer things.
            let Some(room) = self.shared.consensus.try_room() else {
                self.pause = Some(now + RETRY);
                return;
            };
            let Some((ops, keys)) = self.adj_rib_in.next_batch() else {
                return;
            };
            let outcome = room.propose(ledger::owned(self.peer, Some(&owner), ops));
            self.batches
                .push(Box::pin(async move { (keys, outcome.await) }));
        }
    }

    /// When a peer that does not say the End-of-RIB of a family has had its time to.
    fn said_all_at(&self, family: Family) -> Option<Instant> {
        let since = self.established?;
        let ends = self.ending.contains(&family);
        Some(said_all_at(since, self.learned_at, ends))
    }

    /// Families of which the peer has said everything, or had the time to, or does not speak, or will say no more.
    fn sweepable(&self, now: Instant) -> impl Iterator<Item = Family> + '_ {
        let late = move |family| self.said_all_at(family).is_some_and(|at| now >= at);
        let said = move |family: Family| match self.sifting {
            true => self.unsaid().any(|it| it == family),
            false => {
                let ended = self.adj_rib_in.ended(family);
                ended || late(family) || !self.families.contains(&family)
            }
        };
        let due = move |family: &Family| !self.swept.contains(family) && said(*family);
        ledger::FAMILIES.into_iter().filter(due)
    }

    fn scanned(&mut self, committed: Option<&HashMap<Bytes, Bytes>>) {
        self.scan = None;
        let Some(committed) = committed else {
            // The store cannot be read: not now, then later.
            self.pause = Some(Instant::now() + RETRY);
            return;
        };
        let fresh_from = self.claimed.as_ref().map_or(0, |owner| owner.fresh_from);
        if !std::mem::replace(&mut self.compared, true) {
            self.adj_rib_in.claim(committed, fresh_from);
        }
        // RFC 9494 §4.2: what is long-lived stale outlives another restart.
        let spared = if self.sifting { fresh_from } else { 0 };
        let due: Vec<_> = self.sweepable(Instant::now()).collect();
        for family in due {
            self.adj_rib_in.sweep(family, committed, spared);
            self.swept.insert(family);
        }
    }

    fn batch_ended(&mut self, keys: Vec<Bytes>, outcome: &Outcome, now: Instant) {
        match outcome {
            Outcome::Applied { .. } => {}
            Outcome::ConditionFailed { .. } => self.renounce(),
            Outcome::Superseded | Outcome::Dropped => {
                self.adj_rib_in.redo(keys);
                self.pause = Some(now + RETRY);
            }
        }
    }

    fn deadline(&self, now: Instant) -> Instant {
        let far = now + IDLE;
        let sync = ledger::FAMILIES
            .into_iter()
            .filter_map(|family| self.said_all_at(family));
        let patience = self.unserved.map(|since| since + PATIENCE);
        let refreshed = self.refreshing.values().copied();
        let left = self.left.as_ref().map(|(_, until)| *until);
        let timers = sync
            .into_iter()
            .chain(patience)
            .chain(refreshed)
            .chain(self.look_at)
            .chain(left);
        timers
            .chain(self.pause)
            .filter(|at| *at > now)
            .fold(far, Instant::min)
    }
}

/// When a peer that is established `since` then, and said its last word at `learned_at`, has said everything
/// of a family whose end it may never say: a while after its last word, since we may be who reads it slowly.
/// Where it `ends` what it says, its silence means nothing.
fn said_all_at(since: Instant, learned_at: Option<Instant>, ends: bool) -> Instant {
    if ends {
        return since + SYNC_DEADLINE_MAX;
    }
    let quiet = learned_at.map_or(since, |at| at + SYNC_QUIET);
    quiet.clamp(since + SYNC_DEADLINE, since + SYNC_DEADLINE_MAX)
}

/// Rounded up, so that no time is counted twice as less than it was.
fn whole_secs(time: Duration) -> u32 {
    u32::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u32::MAX)
}

/// An empty one under these terms.
fn adj_rib_in(
    shared: &Shared,
    peer: PeerId,
    terms: &Terms,
    view: &mut watch::Receiver<Arc<FabricView>>,
) -> AdjRibIn {
    let families = terms.families.clone();
    let mut adj_rib_in = AdjRibIn::new(peer, terms.kind, shared.local, families);
    adj_rib_in.set_add_path(terms.add_path);
    adj_rib_in.set_policy(terms.inbound.clone());
    adj_rib_in.see(Arc::clone(&view.borrow_and_update()));
    adj_rib_in
}

/// What the facts hold of a peer; `None` if the store cannot be read.
fn scan(shared: &Arc<Shared>, peer: PeerId) -> BoxFuture<'static, Option<HashMap<Bytes, Bytes>>> {
    let view = shared.consensus.view().clone();
    Box::pin(async move {
        let read = move || -> Option<HashMap<Bytes, Bytes>> {
            let mut committed = HashMap::new();
            for family in ledger::FAMILIES {
                let prefix = FactPrefix::RoutesOfPeer(family, peer).encode();
                for fact in view.scan(&prefix) {
                    let (key, value) = fact.ok()?;
                    committed.insert(key, value);
                }
            }
            Some(committed)
        };
        tokio::task::spawn_blocking(read).await.ok().flatten()
    })
}

/// The future's output, and the place is free; for ever pending if there is none.
async fn pending_or<T>(place: &mut Option<BoxFuture<'static, T>>) -> T {
    match place {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Batches in flight for one peer: enough to hide a round trip, few enough to coalesce.
const PIPELINE: usize = 4;
/// How long the replica that should claim may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a replica may be dead before everybody knows it, while the others elect a leader too.
const LEAVE: Duration = Duration::from_secs(5);
/// How long an applied step may take to show in what is agreed here.
const SETTLE: Duration = Duration::from_millis(200);
/// Before proposing again when there was no leader, or no room for a proposal.
const RETRY: Duration = Duration::from_millis(100);
/// A peer that never says End-of-RIB has said everything after this, if it has been quiet,
const SYNC_DEADLINE: Duration = Duration::from_secs(30);
/// for so long,
const SYNC_QUIET: Duration = Duration::from_secs(10);
/// or after this; FRR's time to wait for its other peers is as long.
const SYNC_DEADLINE_MAX: Duration = Duration::from_secs(360);
/// A refresh whose end never comes is over after this, RFC 7313 §4: longer than a whole table takes.
const REFRESH_DEADLINE: Duration = Duration::from_secs(360);
/// Between two looks at what the guard holds back, for each route looked at: some ten times what that costs, so
/// that a fabric in which VTEPs come and go takes a tenth of the task's time at most.
const LOOK_PAUSE: Duration = Duration::from_micros(16);
/// Look again now and then, whatever happens.
const IDLE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_says_the_end_may_be_silent_until_then() {
        let since = Instant::now();
        let secs = |at: Instant| (at - since).as_secs();
        let spoke = |at| Some(since + Duration::from_secs(at));
        assert_eq!(secs(said_all_at(since, None, false)), 30);
        assert_eq!(secs(said_all_at(since, spoke(5), false)), 30);
        assert_eq!(secs(said_all_at(since, spoke(100), false)), 110);
        assert_eq!(secs(said_all_at(since, spoke(3600), false)), 360);
        assert_eq!(secs(said_all_at(since, None, true)), 360);
        assert_eq!(secs(said_all_at(since, spoke(5), true)), 360);
    }
}
