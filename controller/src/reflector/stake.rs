//! One peer's stake in the replicated facts, step by step: says that a session is up, claims the peer, commits what it
//! announced, and takes everything back when it goes. What is to be proposed is decided by [`owner`] and [`learn`].
//!
//! Knows no clock, channel or future: whoever drives it says what time it is, what is agreed and what became of a
//! proposal, and does what it asks for.
//!
//! [`learn`]: super::learn

mod driver;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use weft_bgp::capability::AddPathSet;
use weft_bgp::constrain::Interest;
use weft_bgp::error::DecodeError;
use weft_bgp::family::Family;
use weft_bgp::message::RouteRefresh;
use weft_bgp::message::update::Update;
use weft_bgp::peer::PeerId;
use weft_bgp::reflect::Local;
use weft_bgp::table::PeerKind;
use weft_store::{Outcome, StoreError, View};

use super::learn::inbound::Inbound;
use super::learn::sanity::FabricView;
use super::learn::{AdjRibIn, Committed, Learned};
use super::owner::{self, Agreed, Home, Own, Parting, Preserved, Step, whole_secs};
use crate::ledger::{self, FactKey, FactPrefix, Owner, Phase, Retention};

pub use driver::{Driver, Ticket};

/// What the store holds of a peer's routes: value by key.
pub type Facts = Committed<RandomState>;

/// Who has a stake in whom.
#[derive(Clone, Debug)]
pub struct Parties {
    /// This replica.
    pub replica: u64,
    /// All replicas.
    pub members: Vec<u64>,
    /// Who we are to peers.
    pub local: Local,
    /// The peer.
    pub peer: PeerId,
    /// Its address.
    pub address: IpAddr,
}

/// A peer's stake. Lives from its first session until nothing of it is left in the facts. Times are from any fixed
/// moment.
#[derive(Debug)]
pub struct Stake {
    parties: Parties,
    kind: PeerKind,
    families: Vec<Family>,
    agreed: Agreed,
    adj_rib_in: AdjRibIn,
    established: Option<Duration>,
    /// Since when no living replica owns the peer.
    unserved: Option<Duration>,
    announced: bool,
    claimed: Option<Owner>,
    /// The claim's difference was taken: batches may go.
    compared: bool,
    /// Families whose unannounced paths were removed.
    swept: BTreeSet<Family>,
    /// At most one step about the session or the owner is under way.
    step: Option<(Ticket, Proposed)>,
    scan: Option<Ticket>,
    /// Keys of each batch under way.
    batches: BTreeMap<Ticket, Vec<Bytes>>,
    /// No further step before this, unless what is agreed changes.
    pause: Option<Duration>,
    /// What the end of the session means for the paths.
    parting: Parting,
    /// The record under which the peer was left to others, and until when those may turn out to be dead.
    left: Option<(Owner, Duration)>,
    /// True while the release of a session was applied and is not seen yet.
    released: bool,
    /// True if the peer has come and gone while the release of the session before was on its way: the paths that this retains go too.
    goes_late: bool,
    /// Families that the peer says again, and until when we wait for the end of it. RFC 7313 §4.
    refreshing: BTreeMap<Family, Duration>,
    /// Families whose forwarding the peer kept since its last session.
    preserved: Preserved,
    /// Families in which it says End-of-RIB.
    ending: Vec<Family>,
    /// A record of ours that is applied, behind the one that it replaced: what is agreed here may still be that.
    replaced: Option<(Owner, Owner)>,
    /// The session before this one ended in a restart, and the facts may not say so yet.
    restarted: bool,
    /// A claim that may have been agreed though nobody said so, by the session that was established then.
    unanswered: Option<(Owner, Option<Duration>)>,
    /// For how many seconds the last session that ended was established.
    served_secs: u32,
    /// Address at which another replica serves the peer, while this session should not be.
    rival: Option<IpAddr>,
    /// The session ended for that: it says nothing of the peer.
    refused: bool,
    /// The session is over, and before that is said, what was stale and not said again goes.
    sifting: bool,
    /// When the last UPDATE came.
    learned_at: Option<Duration>,
    /// An UPDATE that is measured: when it was taken, and how many routes are proposed before its first.
    measured: Option<(Duration, usize)>,
    /// Not before then what the fabric looks like is judged by again.
    look_at: Option<Duration>,
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

#[derive(Debug)]
enum Proposed {
    Announced,
    /// To others, if there is a record.
    Released(Option<Owner>),
    /// Under this record, in the place of that one, by the session that was established then.
    Claim(Owner, Option<Owner>, Option<Duration>),
    /// All, or more, was said that the peer had not said since its return: this record, in the place of that one.
    Settled(Owner, Owner),
}

impl Stake {
    /// The stake in a peer whose session has just been established.
    pub fn begin(
        parties: Parties,
        terms: Terms,
        view: Arc<FabricView>,
        agreed: Agreed,
        now: Duration,
    ) -> Self {
        let adj_rib_in = adj_rib_in(&parties, &terms, view);
        let Terms {
            kind,
            families,
            preserved,
            ending,
            add_path: _,
            inbound: _,
        } = terms;
        Self {
            parties,
            kind,
            families,
            agreed,
            adj_rib_in,
            established: Some(now),
            unserved: None,
            announced: false,
            claimed: None,
            compared: false,
            swept: BTreeSet::new(),
            step: None,
            scan: None,
            batches: BTreeMap::new(),
            pause: None,
            parting: Parting::default(),
            left: None,
            released: false,
            goes_late: false,
            refreshing: BTreeMap::new(),
            preserved,
            ending,
            replaced: None,
            restarted: false,
            unanswered: None,
            served_secs: 0,
            rival: None,
            refused: false,
            sifting: false,
            learned_at: None,
            measured: None,
            look_at: None,
            done: false,
        }
    }

    /// Whose it is.
    pub fn peer(&self) -> PeerId {
        self.parties.peer
    }

    /// The peer came back before everything was taken away.
    pub fn resume(&mut self, terms: Terms, view: Arc<FabricView>, now: Duration) {
        self.sifting = false;
        (self.rival, self.refused) = (None, false);
        self.adj_rib_in = adj_rib_in(&self.parties, &terms, view);
        self.kind = terms.kind;
        self.families = terms.families;
        self.preserved = terms.preserved;
        self.ending = terms.ending;
        self.established = Some(now);
        (self.left, self.goes_late) = (None, false);
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
    pub fn end(&mut self, parting: Parting, ours: bool, now: Duration) {
        let since = self.established.take();
        self.served_secs = since.map_or(0, |since| whole_secs(now.saturating_sub(since)));
        self.learned_at = None;
        self.refreshing.clear();
        self.pause = None;
        self.refused |= self.rival.take().is_some();
        self.parting = match parting {
            _ if self.refused => Parting::Gone,
            Parting::Gone if ours => Parting::OurDoing,
            parting => parting,
        };
        self.restarted = matches!(self.parting, Parting::Restarting(_));
        // It came and went before anybody served it. What is retained of it goes all the same.
        let agreed = self.agreed.owner.as_ref();
        let retained = agreed.filter(|owner| owner.retention.is_some());
        if let Some(owner) = retained.filter(|_| self.parting == Parting::Gone) {
            self.left = Some((owner.clone(), now + LEAVE));
        }
        let releases = matches!(self.step, Some((_, Proposed::Released(_))));
        self.goes_late = self.parting == Parting::Gone && (releases || self.released);
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
        let Parties { peer, local, .. } = self.parties;
        self.adj_rib_in = AdjRibIn::new(peer, self.kind, local, self.families.clone());
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
        self.measured = None;
        self.adj_rib_in.renounce();
    }

    /// Address at which another replica serves a peer of the same router id and AS: this session has to end. As of the
    /// last [`Self::go_on`]; a session that waits for what it proposed is not judged.
    pub fn rival(&self) -> Option<IpAddr> {
        self.rival
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
    pub fn learn(&mut self, update: &Update, now: Duration) -> Result<Learned, DecodeError> {
        // What a peer withdraws after it had the time to say everything changes nothing of that.
        let withdraws = update.announced.is_empty() && update.reach.is_none();
        let since = self.established.filter(|_| withdraws);
        if since.is_none_or(|since| now < said_all_at(since, self.learned_at, false)) {
            self.learned_at = Some(now);
        }
        let waiting = self.adj_rib_in.waiting();
        let learned = self.adj_rib_in.learn(update);
        if self.measured.is_none() && self.adj_rib_in.waiting() > waiting {
            self.measured = Some((now, waiting));
        }
        learned
    }

    /// When the UPDATE that is measured was taken, if its first route is in the next batch, of so many.
    fn measured_in(&mut self, routes: usize) -> Option<Duration> {
        let (taken, waiting) = self.measured?;
        let before = waiting.checked_sub(routes);
        self.measured = before.map(|before| (taken, before));
        before.is_none().then_some(taken)
    }

    /// Another inbound policy from now on; what is held stays.
    pub fn set_policy(&mut self, inbound: Inbound) -> Learned {
        self.adj_rib_in.set_policy(inbound)
    }

    /// The peer begins or ends to say all its routes of a family again. RFC 7313 §4.
    pub fn refreshed(&mut self, refresh: RouteRefresh, now: Duration) -> Learned {
        match refresh.subtype {
            // A second begin marks all routes again, those that were announced since the first too; the time for the
            // end goes on.
            RouteRefresh::BEGIN => {
                self.adj_rib_in.begin_refresh(refresh.family);
                self.refreshing
                    .entry(refresh.family)
                    .or_insert(now + REFRESH_DEADLINE);
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
    pub fn refresh_due(&mut self, now: Duration) -> Option<Learned> {
        let mut due = self.refreshing.iter().filter(|(_, at)| now >= **at);
        let family = due.next().map(|(family, _)| *family)?;
        self.refreshing.remove(&family);
        let learned = self.adj_rib_in.end_refresh(family);
        let withdrawn = learned.withdrawn;
        tracing::warn!(peer = %self.parties.peer, %family, withdrawn, "refresh without an end");
        Some(learned)
    }

    /// Routes that were refused for the sake of all peers, once others made room: the peer is to be asked for them.
    pub fn room(&mut self) -> Option<Learned> {
        let learned = self.adj_rib_in.take_room();
        (!learned.room.is_empty()).then_some(learned)
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

    /// Whether what the fabric looks like matters here and now.
    pub fn looks(&self, now: Duration) -> bool {
        let rested = self.look_at.is_none_or(|at| now >= at);
        self.adj_rib_in.is_guarded() && rested && !self.sifting
    }

    /// The fabric looks like this now.
    pub fn see(&mut self, view: Arc<FabricView>, now: Duration) -> Learned {
        let learned = self.adj_rib_in.see(view);
        let looked_at = u32::try_from(learned.looked_at).unwrap_or(u32::MAX);
        self.look_at = Some(now + LOOK_PAUSE.saturating_mul(looked_at));
        if learned.announced > 0 {
            tracing::info!(peer = %self.parties.peer, released = learned.announced, "routes no longer held back");
        }
        learned
    }

    /// This is agreed about the peer now.
    pub fn agree(&mut self, agreed: Agreed) {
        self.agreed = agreed;
        self.pause = None;
        self.released = false;
    }

    /// Takes the steps that need not wait for anything; above all, proposes what was learned.
    pub fn go_on(&mut self, now: Duration, driver: &mut impl Driver) {
        let pauses = self.pause.is_some_and(|until| now < until);
        if self.done || self.step.is_some() || pauses {
            return;
        }
        self.pause = None;
        if self.goes_late {
            let owner = self.agreed.owner.clone();
            let ours = owner.filter(|it| it.replica == self.parties.replica);
            self.goes_late = ours.as_ref().is_some_and(|it| it.retention.is_none());
            let retained = ours.filter(|it| it.retention.is_some());
            self.left = retained.map(|it| (it, now + LEAVE));
        }
        let mut agreed = self.agreed.clone();
        match &self.replaced {
            Some((old, new)) if agreed.owner.as_ref() == Some(old) => {
                agreed.owner = Some(new.clone());
            }
            // What was agreed once may be agreed again, when the peer was gone meanwhile.
            Some(_) | None => self.replaced = None,
        }
        let Parties {
            replica, address, ..
        } = self.parties;
        let established = self.established.is_some();
        let home = Home::of(address, &agreed, |it| driver.is_declared(it));
        let rival = owner::rival(replica, address, &agreed, home);
        self.rival = rival.filter(|_| established);
        let served = |owner: &Owner| agreed.sessions.contains(&owner.replica);
        let is_served = agreed.owner.as_ref().is_some_and(served);
        self.unserved = (!is_served).then(|| self.unserved.unwrap_or(now));
        let is_agreed = |(owner, by): &(Owner, Option<Duration>)| {
            agreed.owner.as_ref() == Some(owner) && self.established == *by
        };
        if self.unanswered.as_ref().is_some_and(is_agreed) {
            self.restarted = false;
        }
        let owns = self.claimed.is_some() && self.claimed == agreed.owner;
        if let Some(owner) = self.settled().filter(|_| owns) {
            let put = ledger::put(&FactKey::Owner(self.parties.peer), owner.encode());
            let batch = ledger::owned(self.parties.peer, self.claimed.as_ref(), vec![put]);
            let claimed = self.claimed.clone().unwrap_or_else(|| owner.clone());
            self.step = Some((driver.step(batch), Proposed::Settled(owner, claimed)));
            return;
        }
        // Others heard what they heard: what this replica did not is not unsaid.
        let alone = agreed.sessions.iter().all(|id| *id == self.parties.replica);
        if self.sifting && !(owns && alone && self.unsaid().next().is_some()) {
            self.over();
        }
        let step = match self.sifting {
            true => Step::Commit,
            false => self.decide(&agreed, now, (whole_secs(driver.away()), home)),
        };
        let proposed = match step {
            Step::Wait => return,
            Step::Announce(batch) => {
                self.announced = true;
                (driver.step(batch), Proposed::Announced)
            }
            Step::Release(batch) => (driver.step(batch), Proposed::Released(None)),
            Step::Leave(batch, owner) => (driver.step(batch), Proposed::Released(Some(owner))),
            Step::Claim(batch, owner) => {
                let claim = Proposed::Claim(owner, agreed.owner, self.established);
                (driver.step(batch), claim)
            }
            Step::Commit => return self.commit(now, driver),
            Step::Done => {
                self.done = true;
                return;
            }
        };
        self.step = Some(proposed);
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

    fn decide(&self, agreed: &Agreed, now: Duration, (away_secs, home): (u32, Home)) -> Step {
        let parties = &self.parties;
        let patience = match owner::is_stranger(parties.replica, parties.address, agreed) {
            true => STRANGER_PATIENCE,
            false => PATIENCE,
        };
        let own = Own {
            replica: parties.replica,
            members: &parties.members,
            peer: parties.peer,
            families: &ledger::FAMILIES,
            established: self.established.map(|_| (parties.address, self.kind)),
            claimed: self.claimed.as_ref(),
            announced: self.announced,
            impatient: self.unserved.is_some_and(|since| now >= since + patience),
            parting: &self.parting,
            restarted: self.restarted,
            served_secs: self.served_secs,
            away_secs,
            left: self.left_at(now),
            preserved: &self.preserved,
            refused: self.refused,
            home,
        };
        owner::next(&own, agreed)
    }

    /// The record under which the peer was left to others, while those may turn out to be dead.
    fn left_at(&self, now: Duration) -> Option<&Owner> {
        let left = self.left.as_ref().filter(|(_, until)| now < *until);
        left.map(|(owner, _)| owner)
    }

    /// What became of a proposal. That of a batch of a claim that is over says nothing.
    pub fn ended(&mut self, ticket: Ticket, outcome: &Outcome, now: Duration) {
        if let Some((_, proposed)) = self.step.take_if(|(step, _)| *step == ticket) {
            self.stepped(proposed, outcome, now);
        } else if let Some(keys) = self.batches.remove(&ticket) {
            match outcome {
                Outcome::Applied { .. } => {}
                Outcome::ConditionFailed { .. } => self.renounce(),
                Outcome::Superseded | Outcome::Dropped => {
                    self.adj_rib_in.redo(keys);
                    self.pause = Some(now + RETRY);
                }
            }
        }
    }

    fn stepped(&mut self, proposed: Proposed, outcome: &Outcome, now: Duration) {
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
                tracing::info!(peer = %self.parties.peer, epoch = owner.epoch, "peer claimed");
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
                self.released = true;
                self.announced = false;
                self.restarted = false;
                let left = left.filter(|_| self.established.is_none() && !self.refused);
                self.left = left.map(|owner| (owner, now + LEAVE));
                self.await_news(now, |_| false);
            }
            (Outcome::Applied { .. }, Proposed::Announced) => {
                let replica = self.parties.replica;
                self.await_news(now, |agreed| agreed.sessions.contains(&replica));
            }
            (Outcome::ConditionFailed { .. }, Proposed::Claim(_, replaced, _)) => {
                self.await_news(now, |agreed| agreed.owner != replaced);
            }
            (Outcome::Applied { .. } | Outcome::ConditionFailed { .. }, _) => {
                self.await_news(now, |_| false);
            }
            (Outcome::Superseded | Outcome::Dropped, proposed) => {
                // It may have been agreed all the same, and nobody left to say so.
                match proposed {
                    Proposed::Released(Some(owner))
                        if self.established.is_none() && !self.refused =>
                    {
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
    fn await_news(&mut self, now: Duration, shows: impl FnOnce(&Agreed) -> bool) {
        if !shows(&self.agreed) {
            self.pause = Some(now + SETTLE);
        }
    }

    /// This replica owns the peer: keep the pipeline full.
    fn commit(&mut self, now: Duration, driver: &mut impl Driver) {
        if self.scan.is_some() {
            return;
        }
        if !self.compared || self.sweepable(now).next().is_some() {
            self.scan = Some(driver.scan());
            return;
        }
        let Some(owner) = self.claimed.clone() else {
            return;
        };
        while self.batches.len() < PIPELINE && self.adj_rib_in.is_dirty() {
            // One that waited for room would come after those that found some, and they may say newer things.
            let Some(room) = driver.room() else {
                self.pause = Some(now + RETRY);
                return;
            };
            let Some((ops, keys)) = self.adj_rib_in.next_batch() else {
                return;
            };
            let batch = ledger::owned(self.parties.peer, Some(&owner), ops);
            let taken = self.measured_in(keys.len());
            self.batches.insert(driver.batch(room, batch, taken), keys);
        }
    }

    /// When a peer that does not say the End-of-RIB of a family has had its time to.
    fn said_all_at(&self, family: Family) -> Option<Duration> {
        let since = self.established?;
        let ends = self.ending.contains(&family);
        Some(said_all_at(since, self.learned_at, ends))
    }

    /// Families of which the peer has said everything, or had the time to, or does not speak, or will say no more.
    fn sweepable(&self, now: Duration) -> impl Iterator<Item = Family> + '_ {
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

    /// What the facts hold of the peer, as of a moment since it was asked for; nothing, if the store could not be read.
    pub fn scanned(&mut self, ticket: Ticket, committed: Option<&Facts>, now: Duration) {
        if self.scan.take_if(|scan| *scan == ticket).is_none() {
            return; // of a session that is over
        }
        let Some(committed) = committed else {
            // Not now, then later.
            self.pause = Some(now + RETRY);
            return;
        };
        let fresh_from = self.claimed.as_ref().map_or(0, |owner| owner.fresh_from);
        if !std::mem::replace(&mut self.compared, true) {
            self.measured = None;
            self.adj_rib_in.claim(committed, fresh_from);
        }
        // RFC 9494 §4.2: what is long-lived stale outlives another restart.
        let spared = if self.sifting { fresh_from } else { 0 };
        let due: Vec<_> = self.sweepable(now).collect();
        for family in due {
            self.adj_rib_in.sweep(family, committed, spared);
            self.swept.insert(family);
        }
    }

    /// When to go on at the latest, though nothing happens.
    pub fn deadline(&self, now: Duration) -> Duration {
        let sync = ledger::FAMILIES
            .into_iter()
            .filter_map(|family| self.said_all_at(family));
        let patience = [PATIENCE, STRANGER_PATIENCE];
        let patience = patience.map(|it| self.unserved.map(|since| since + it));
        let refreshed = self.refreshing.values().copied();
        let left = self.left.as_ref().map(|(_, until)| *until);
        sync.chain(patience.into_iter().flatten())
            .chain(refreshed)
            .chain(left)
            .chain(self.look_at)
            .chain(self.pause)
            .filter(|at| *at > now)
            .fold(now + IDLE, Duration::min)
    }
}

/// When a peer that is established `since` then, and said its last word at `learned_at`, has said everything
/// of a family whose end it may never say: a while after its last word, since we may be who reads it slowly.
/// Where it `ends` what it says, its silence means nothing.
fn said_all_at(since: Duration, learned_at: Option<Duration>, ends: bool) -> Duration {
    if ends {
        return since + SYNC_DEADLINE_MAX;
    }
    let quiet = learned_at.map_or(since, |at| at + SYNC_QUIET);
    quiet.clamp(since + SYNC_DEADLINE, since + SYNC_DEADLINE_MAX)
}

/// What the store holds of a peer's routes.
///
/// # Errors
/// It cannot be read.
pub fn committed(view: &View, peer: PeerId) -> Result<Facts, StoreError> {
    let prefixes = ledger::FAMILIES.map(|family| FactPrefix::RoutesOfPeer(family, peer).encode());
    let facts = prefixes.iter().flat_map(|prefix| view.scan(prefix));
    facts.collect()
}

/// An empty one under these terms.
fn adj_rib_in(parties: &Parties, terms: &Terms, view: Arc<FabricView>) -> AdjRibIn {
    let families = terms.families.clone();
    let mut adj_rib_in = AdjRibIn::new(parties.peer, terms.kind, parties.local, families);
    adj_rib_in.set_add_path(terms.add_path);
    adj_rib_in.set_policy(terms.inbound.clone());
    adj_rib_in.see(view);
    adj_rib_in
}

/// Batches in flight for one peer: enough to hide a round trip, few enough to coalesce.
const PIPELINE: usize = 4;
/// How long the replica that should claim may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// ... and those that serve the peer at the address that it had.
const STRANGER_PATIENCE: Duration = Duration::from_secs(4);
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
/// or after this: so long FRR to 10.4 waits for its other peers (10.5: 240 s, since 10.6: 120 s).
/// RFC 4724 §4.1.
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
    use weft_bgp::attribute::{Attributes, NextHop, Reach};
    use weft_bgp::peer::{ClusterId, RouterId};
    use weft_store::{Batch, Op};

    use super::*;

    /// Remembers what it was asked to propose, and when what is measured of that was taken.
    #[derive(Default)]
    struct Book(Vec<Batch>, Vec<Duration>);

    impl Driver for Book {
        type Room = ();

        fn step(&mut self, batch: Batch) -> Ticket {
            self.0.push(batch);
            self.0.len() as Ticket
        }

        fn room(&mut self) -> Option<()> {
            Some(())
        }

        fn batch(&mut self, (): (), batch: Batch, taken: Option<Duration>) -> Ticket {
            self.1.extend(taken);
            self.step(batch)
        }

        fn scan(&mut self) -> Ticket {
            0
        }

        fn away(&self) -> Duration {
            Duration::ZERO
        }

        fn is_declared(&self, _address: IpAddr) -> bool {
            false
        }
    }

    const OURS: u64 = 2;
    const BEGUN: Duration = Duration::from_secs(1);

    /// A session at the second of two replicas that serve the peer.
    fn second() -> Stake {
        let parties = Parties {
            replica: OURS,
            members: vec![1, OURS],
            local: Local {
                asn: 64_496,
                router_id: RouterId(1),
                cluster_id: ClusterId(2),
            },
            peer: PeerId {
                router_id: RouterId(9),
                asn: 64_496,
            },
            address: IpAddr::from([192, 0, 2, 9]),
        };
        Stake::begin(parties, terms(), Arc::default(), serving(&[1]), BEGUN)
    }

    fn terms() -> Terms {
        Terms {
            kind: PeerKind::IbgpClient,
            families: vec![Family::L2VPN_EVPN],
            preserved: Preserved::default(),
            ending: Vec::new(),
            add_path: AddPathSet::NONE,
            inbound: Inbound::default(),
        }
    }

    /// Nobody's, and served by these.
    fn serving(replicas: &[u64]) -> Agreed {
        Agreed {
            owner: None,
            sessions: replicas.iter().copied().collect(),
        }
    }

    fn applied() -> Outcome {
        Outcome::Applied { index: 7 }
    }

    /// Whoever sleeps until the deadline misses nothing.
    #[test]
    fn the_deadline_is_never_after_what_is_due() {
        let (mut stake, mut book) = (second(), Book::default());
        let mut now = BEGUN;
        stake.go_on(now, &mut book);
        stake.agree(serving(&[1, OURS]));
        stake.ended(1, &applied(), now);
        while book.0.len() == 1 {
            now = stake.deadline(now);
            stake.go_on(now, &mut book);
        }
        assert_eq!(now, BEGUN + PATIENCE, "the first should have claimed");
        let begun = now;
        let refresh = |subtype| RouteRefresh {
            subtype,
            ..RouteRefresh::request(Family::L2VPN_EVPN)
        };
        stake.refreshed(refresh(RouteRefresh::BEGIN), now);
        while stake.refresh_due(now).is_none() {
            now = stake.deadline(now);
        }
        assert_eq!(now, begun + REFRESH_DEADLINE);
    }

    /// A type 2 of this MAC address.
    fn announced(last: u8) -> Update {
        let head = [2, 33, 0, 1, 192, 0, 2, 9, 0, 100];
        let rest = [48, 0, 0, 0x5e, 0, 0x53, last, 0, 0, 0, 100];
        Update {
            reach: Some(Reach {
                family: Family::L2VPN_EVPN,
                next_hop: NextHop::V4([192, 0, 2, 9].into()),
                nlri: [&head[..], &[0; 14], &rest].concat().into(),
            }),
            attributes: Attributes {
                local_pref: Some(100),
                ..Attributes::default()
            },
            ..Update::default()
        }
    }

    /// RFC 7313 §4: each begin marks all routes of the family as stale.
    #[test]
    fn a_second_begin_of_a_refresh_marks_all_routes_again() {
        let mut stake = second();
        let refresh = |subtype| RouteRefresh {
            subtype,
            ..RouteRefresh::request(Family::L2VPN_EVPN)
        };
        for last in [1, 2] {
            assert_eq!(stake.learn(&announced(last), BEGUN).unwrap().announced, 1);
        }
        let later = BEGUN + Duration::from_secs(10);
        stake.refreshed(refresh(RouteRefresh::BEGIN), BEGUN);
        stake.learn(&announced(1), BEGUN).unwrap();
        stake.refreshed(refresh(RouteRefresh::BEGIN), later);
        stake.learn(&announced(2), later).unwrap();
        let learned = stake.refreshed(refresh(RouteRefresh::END), later);
        assert_eq!((learned.withdrawn, learned.swept.len()), (1, 1));
        let learned = stake.refreshed(refresh(RouteRefresh::END), later);
        assert_eq!(learned.withdrawn, 0);
    }

    #[test]
    fn a_session_from_another_address_than_that_which_is_served_proposes_nothing() {
        let rival = IpAddr::from([192, 0, 2, 1]);
        let owned = |sessions: &[u64]| Agreed {
            owner: Some(Owner {
                replica: 1,
                epoch: 1,
                address: rival,
                kind: PeerKind::IbgpClient,
                fresh_from: 0,
                returned: None,
                retention: None,
            }),
            sessions: sessions.iter().copied().collect(),
        };
        let (mut stake, mut book) = (second(), Book::default());
        stake.agree(owned(&[1]));
        stake.go_on(BEGUN, &mut book);
        assert_eq!((stake.rival(), book.0.len()), (Some(rival), 0));
        stake.end(Parting::Gone, false, BEGUN);
        stake.go_on(BEGUN, &mut book);
        assert!(stake.is_done() && stake.rival().is_none());
        // The other one claims after this session was announced: it is taken back, and says nothing of the peer.
        let (mut stake, mut book) = (second(), Book::default());
        stake.go_on(BEGUN, &mut book);
        stake.agree(owned(&[1, OURS]));
        stake.go_on(BEGUN, &mut book);
        assert_eq!(
            stake.rival(),
            None,
            "not before it is known what came of it"
        );
        stake.ended(1, &applied(), BEGUN);
        stake.go_on(BEGUN, &mut book);
        assert_eq!((stake.rival(), book.0.len()), (Some(rival), 1));
        stake.end(Parting::Gone, false, BEGUN);
        stake.go_on(BEGUN, &mut book);
        assert_eq!(book.0.len(), 2, "taken back");
        stake.ended(2, &applied(), BEGUN);
        stake.agree(owned(&[1]));
        stake.go_on(BEGUN, &mut book);
        assert!(stake.is_done());
        // The other one is expected back.
        let (mut stake, mut book) = (second(), Book::default());
        stake.agree(owned(&[]));
        stake.go_on(BEGUN, &mut book);
        assert_eq!((stake.rival(), book.0.len()), (Some(rival), 0));
        // The other one went: nothing is in the way.
        let (mut stake, mut book) = (second(), Book::default());
        stake.agree(Agreed::default());
        stake.go_on(BEGUN, &mut book);
        assert_eq!((stake.rival(), book.0.len()), (None, 1));
    }

    #[test]
    fn what_is_agreed_already_is_not_waited_for() {
        let after = |shown: bool| {
            let (mut stake, mut book) = (second(), Book::default());
            stake.agree(Agreed::default());
            stake.go_on(BEGUN, &mut book);
            if shown {
                stake.agree(serving(&[OURS]));
            }
            stake.ended(1, &applied(), BEGUN);
            stake.go_on(BEGUN, &mut book);
            let at_once = book.0.len();
            if !shown {
                stake.agree(serving(&[OURS]));
            }
            stake.go_on(BEGUN, &mut book);
            (at_once, book.0.len())
        };
        assert_eq!(after(true), (2, 2), "announced, and claimed at once");
        assert_eq!(after(false), (1, 2), "announced; claimed once that shows");
    }

    /// Of a whole table one UPDATE after another is measured, each for as long as it waited itself.
    #[test]
    fn an_update_is_measured_with_the_batch_that_has_its_first_route() {
        let (mut stake, mut book) = (second(), Book::default());
        let at = |millis| BEGUN + Duration::from_millis(millis);
        stake.learn(&announced(1), BEGUN).unwrap();
        assert_eq!(stake.measured, None, "another replica commits it");
        stake.scan = Some(0);
        stake.scanned(0, Some(&Facts::default()), BEGUN);
        stake.swept.extend(ledger::FAMILIES);
        stake.claimed = Some(Owner {
            replica: OURS,
            epoch: 1,
            address: IpAddr::from([192, 0, 2, 9]),
            kind: PeerKind::IbgpClient,
            fresh_from: 0,
            returned: None,
            retention: None,
        });
        stake.learn(&announced(2), at(2)).unwrap();
        stake.learn(&announced(3), at(3)).unwrap();
        assert_eq!(stake.measured, Some((at(2), 1)), "behind what was claimed");
        assert_eq!(stake.measured_in(1), None, "a batch of that alone");
        assert_eq!(stake.measured_in(1), Some(at(2)));
        // The same again changes the place of nothing.
        stake.learn(&announced(3), at(4)).unwrap();
        assert_eq!(stake.measured, None);
        stake.learn(&announced(5), at(5)).unwrap();
        stake.commit(at(6), &mut book);
        assert_eq!((book.0.len(), &book.1[..]), (1, &[at(5)][..]));
        stake.learn(&announced(7), at(7)).unwrap();
        stake.renounce();
        assert_eq!(stake.measured, None, "others commit it");
    }

    #[test]
    fn what_is_withdrawn_after_everything_was_said_delays_nothing() {
        let mut stake = second();
        stake.ending.clear();
        stake.learn(&announced(1), BEGUN).unwrap();
        let said = stake.said_all_at(Family::L2VPN_EVPN).unwrap();
        for later in [0, 100] {
            let at = said + Duration::from_secs(later);
            stake.learn(&Update::default(), at).unwrap();
            assert_eq!(stake.said_all_at(Family::L2VPN_EVPN), Some(said));
        }
        let later = said + Duration::from_secs(200);
        stake.learn(&announced(2), later).unwrap();
        assert!(stake.said_all_at(Family::L2VPN_EVPN) > Some(later));
    }

    /// The record of the peer's owner that a batch puts.
    fn record(stake: &Stake, batch: &Batch) -> Option<Owner> {
        let key = FactKey::Owner(stake.peer()).encode();
        batch.ops.iter().find_map(|op| match op {
            Op::Put { value, keys } if keys.contains(&key) => Owner::decode(value),
            Op::Put { .. } | Op::Delete { .. } | Op::DeletePrefix { .. } => None,
        })
    }

    /// The peer is lost, comes back, and leaves before its loss is agreed: its paths go. Those that another replica retains stay.
    #[test]
    fn a_peer_that_comes_and_goes_before_its_loss_is_agreed_leaves_nothing() {
        let last = |is_applied: bool, replica: u64| {
            let (mut stake, mut book) = (second(), Book::default());
            stake.agree(Agreed::default());
            stake.go_on(BEGUN, &mut book);
            stake.agree(serving(&[OURS]));
            stake.ended(1, &applied(), BEGUN);
            stake.go_on(BEGUN, &mut book);
            let owner = record(&stake, &book.0[1]);
            stake.ended(2, &applied(), BEGUN);
            stake.agree(Agreed {
                owner,
                ..serving(&[OURS])
            });
            let retention = Retention {
                phase: Phase::LongLived,
                restart_secs: 0,
                families: vec![(Family::L2VPN_EVPN, 600)],
            };
            stake.end(Parting::Restarting(retention), false, BEGUN);
            stake.go_on(BEGUN, &mut book);
            let owner = record(&stake, &book.0[2]).filter(|it| it.retention.is_some());
            let owner = owner.map(|owner| Owner { replica, ..owner });
            assert!(owner.is_some(), "{:?}", book.0[2]);
            let release = |stake: &mut Stake| stake.ended(3, &applied(), BEGUN);
            if is_applied {
                release(&mut stake);
            }
            stake.resume(terms(), Arc::default(), BEGUN);
            stake.end(Parting::Gone, false, BEGUN);
            if !is_applied {
                release(&mut stake);
            }
            stake.agree(Agreed {
                owner,
                ..Agreed::default()
            });
            stake.go_on(BEGUN, &mut book);
            (book.0.len(), stake.is_done())
        };
        for is_applied in [false, true] {
            assert_eq!(last(is_applied, OURS), (4, false), "the paths go");
            assert_eq!(last(is_applied, 1), (3, true));
        }
    }

    #[test]
    fn a_peer_that_says_the_end_may_be_silent_until_then() {
        let since = Duration::from_secs(7);
        let secs = |at: Duration| (at - since).as_secs();
        let spoke = |at| Some(since + Duration::from_secs(at));
        assert_eq!(secs(said_all_at(since, None, false)), 30);
        assert_eq!(secs(said_all_at(since, spoke(5), false)), 30);
        assert_eq!(secs(said_all_at(since, spoke(100), false)), 110);
        assert_eq!(secs(said_all_at(since, spoke(3600), false)), 360);
        assert_eq!(secs(said_all_at(since, None, true)), 360);
        assert_eq!(secs(said_all_at(since, spoke(5), true)), 360);
    }
}
