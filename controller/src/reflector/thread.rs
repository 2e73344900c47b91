//! The thread that owns the reflector, and the handle by which sessions and operators reach it.
//! Knows channels; what a route means is the reflector's.

mod turning;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot, watch};
use tokio::time::Instant;
use weft_bgp::constrain::Interest;
use weft_bgp::family::Family;
use weft_bgp::peer::PeerId;
use weft_bgp::table::TooOld;
use weft_bgp::update_group::journal::Cursor;
use weft_bgp::update_group::{ExportKey, Segment};
use weft_evpn::moves;
use weft_store::{Applied, Change, StoreError, View};

use super::alarms::Alarms;
use super::families::GroupId;
use super::history::History;
use super::latency::Latency;
use super::learn::sanity::FabricView;
use super::news::News;
use super::owner::Agreed;
use super::{Output, Reflector, Unreadable};
use crate::daemon::health::Pulse;
use crate::fabric::decision::DecisionChanged;
use crate::fabric::pin::PinChanged;
use crate::fabric::topology::Topology;
use crate::speaker::feed::Feed;
use crate::speaker::gate::{Gate, Held};

use turning::Turning;

/// An applied entry; they come in order.
pub struct Entry {
    /// The entry.
    pub applied: Applied,
    /// When an UPDATE in it was taken, if this replica took it and measures that.
    pub taken: Option<std::time::Instant>,
}

/// An input of the thread that is no entry.
pub enum Input {
    /// A member wants a group's image and journal.
    Join(Join),
    /// A member wants to read another group, or the same with another interest.
    Turn(Turn),
    /// Somebody wants to know what is agreed about a peer from now on.
    Follow(PeerId, oneshot::Sender<watch::Receiver<Agreed>>),
    /// Somebody wants to look at the tables.
    Query(Query),
    /// When moves of MAC addresses are too many from now on.
    Watch(moves::Settings),
    /// Stop.
    Stop,
}

/// Looks at the tables between two changes.
pub type Query = Box<dyn FnOnce(&Reflector) + Send>;

/// A wish to read a group.
pub struct Join {
    /// Which family.
    pub family: Family,
    /// How the member wants it said.
    pub key: ExportKey,
    /// What it wants to hear of.
    pub interest: Interest,
    /// The revision that it knows; 0: nothing.
    pub since: u64,
    /// Not before facts up to this index are part of the tables.
    pub index: u64,
    /// The answer.
    pub reply: oneshot::Sender<Result<Joined, TooOld>>,
}

/// A place in a group.
pub struct Joined {
    /// Everything that the member does not know.
    pub image: Arc<Segment>,
    /// What comes after it.
    pub feed: Arc<Feed>,
    /// From here.
    pub cursor: Cursor,
    /// Up to here it is what there was when the member joined: what comes after is news.
    pub complete: Cursor,
}

/// A wish to be told otherwise from now on, without a new session.
pub struct Turn {
    /// Which family.
    pub family: Family,
    /// How and of what the member was told.
    pub old: (ExportKey, Interest),
    /// How and of what it is to be told.
    pub new: (ExportKey, Interest),
    /// Closed from the moment of the answer on, until the member's writer has it.
    pub gate: Arc<Gate>,
    /// The answer; `None`: the old group has gone, so nobody knows what the member was told.
    pub reply: oneshot::Sender<Option<(Turned, Held)>>,
}

/// A place in another group, or another view of the same.
#[derive(Clone)]
pub struct Turned {
    /// In the old feed: what stands before belongs to the member's old life.
    pub until: Cursor,
    /// What is different for it then.
    pub segment: Arc<Segment>,
    /// What comes after it.
    pub feed: Arc<Feed>,
    /// From here.
    pub cursor: Cursor,
    /// The member does not turn again for so long: it cost a look at the whole table.
    pub rest: Duration,
}

/// A handle on the thread.
#[derive(Clone)]
pub struct Reflection {
    entries: mpsc::Sender<Entry>,
    inputs: mpsc::Sender<Input>,
    control: watch::Receiver<u64>,
    view: watch::Receiver<Arc<FabricView>>,
    topology: watch::Receiver<Topology>,
    history: Arc<History>,
    pins: Arc<History<PinChanged>>,
    decisions: Arc<History<DecisionChanged>>,
    news: Arc<News>,
    latency: Arc<Latency>,
    pulse: Arc<Pulse>,
    places: Arc<Semaphore>,
}

impl Reflection {
    /// Joins a group; `None` while the daemon stops.
    pub async fn join(
        &self,
        family: Family,
        (key, interest): (ExportKey, Interest),
        since: u64,
        index: u64,
    ) -> Option<Result<Joined, TooOld>> {
        let (reply, joined) = oneshot::channel();
        let join = Join {
            family,
            key,
            interest,
            since,
            index,
            reply,
        };
        self.inputs.send(Input::Join(join)).await.ok()?;
        joined.await.ok()
    }

    /// Turns a member of a group to another one, and holds its writer at `gate` from then on; `None` while the
    /// daemon stops.
    pub async fn turn(
        &self,
        family: Family,
        old: (ExportKey, Interest),
        new: (ExportKey, Interest),
        gate: Arc<Gate>,
    ) -> Option<Option<(Turned, Held)>> {
        let (reply, turned) = oneshot::channel();
        let turn = Turn {
            family,
            old,
            new,
            gate,
            reply,
        };
        self.inputs.send(Input::Turn(turn)).await.ok()?;
        turned.await.ok()
    }

    /// What is agreed about `peer`, now and later; `None` while the daemon stops.
    pub async fn follow(&self, peer: PeerId) -> Option<watch::Receiver<Agreed>> {
        let (reply, receiver) = oneshot::channel();
        self.inputs.send(Input::Follow(peer, reply)).await.ok()?;
        receiver.await.ok()
    }

    /// Looks at the tables; `None` while the daemon stops.
    pub async fn query<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Reflector) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        let query: Query = Box::new(move |reflector| drop(reply.send(look(reflector))));
        self.inputs.send(Input::Query(query)).await.ok()?;
        answer.await.ok()
    }

    /// Waits for a place to look at whole tables, which holds the thread up: dumps, lists and the metrics page share
    /// two of them. `None` never comes, but by a daemon that stops.
    pub async fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.acquire().await.ok()
    }

    /// Changes whenever a fact that is not a route, a VTEP or a session changed.
    pub fn control(&self) -> watch::Receiver<u64> {
        self.control.clone()
    }

    /// What the selected routes say of the fabric, for the guards of peers.
    pub fn view(&self) -> watch::Receiver<Arc<FabricView>> {
        self.view.clone()
    }

    /// True if the declared fabric names the address as the `peer_address` of a switch.
    pub fn is_declared(&self, address: IpAddr) -> bool {
        self.topology.borrow().has_peer(address)
    }

    /// What became of declared facts lately.
    pub fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// What became of adopted pins lately: complete up to the revision of [`Self::history`].
    pub fn pins(&self) -> &Arc<History<PinChanged>> {
        &self.pins
    }

    /// What became of the leader's decisions lately: complete up to the revision of [`Self::history`].
    pub fn decisions(&self) -> &Arc<History<DecisionChanged>> {
        &self.decisions
    }

    /// Which best paths changed lately.
    pub fn news(&self) -> &Arc<News> {
        &self.news
    }

    /// How long UPDATEs that this replica took have taken to be advertised.
    pub fn latency(&self) -> &Arc<Latency> {
        &self.latency
    }

    /// Sign of life of the thread.
    pub fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// Has the thread beat, unless so much waits for it that it has no need to be woken.
    pub fn wake(&self) {
        let _ = self.inputs.try_send(Input::Query(Box::new(|_| ())));
    }

    /// Where applied entries go.
    pub fn entries(&self) -> mpsc::Sender<Entry> {
        self.entries.clone()
    }

    /// Where the stop goes.
    pub fn inputs(&self) -> mpsc::Sender<Input> {
        self.inputs.clone()
    }
}

/// The channels to the thread, made before the store is opened so that both ends can be handed out.
pub fn channel() -> (Reflection, Inbox) {
    let (to_entries, entries) = mpsc::channel(ENTRIES_MAX);
    let (to_inputs, inputs) = mpsc::channel(INPUTS_MAX);
    let (publish, control) = watch::channel(0);
    let (show, view) = watch::channel(Arc::default());
    let (declare, topology) = watch::channel(Topology::default());
    let history = Arc::new(History::new());
    let pins = Arc::new(History::new());
    let decisions = Arc::new(History::new());
    let news = Arc::new(News::new());
    let latency = Arc::<Latency>::default();
    let pulse = Pulse::new("reflector", Instant::now());
    let reflection = Reflection {
        entries: to_entries,
        inputs: to_inputs,
        control,
        view,
        topology,
        history: Arc::clone(&history),
        pins: Arc::clone(&pins),
        decisions: Arc::clone(&decisions),
        news: Arc::clone(&news),
        latency: Arc::clone(&latency),
        pulse: Arc::clone(&pulse),
        places: Arc::new(Semaphore::new(LOOKS_MAX)),
    };
    let inbox = Inbox {
        entries,
        inputs,
        held: None,
        publish,
        show,
        declare,
        history,
        pins,
        decisions,
        news,
        latency,
        pulse,
    };
    (reflection, inbox)
}

/// The thread's end of the channels.
pub struct Inbox {
    /// Those who fill the other queue must not hold entries back: a replica that cannot hand them over takes no proposals.
    entries: mpsc::Receiver<Entry>,
    inputs: mpsc::Receiver<Input>,
    /// The next input, and how many of the entries that were there before it are not taken yet.
    held: Option<(Input, usize)>,
    publish: watch::Sender<u64>,
    show: watch::Sender<Arc<FabricView>>,
    declare: watch::Sender<Topology>,
    history: Arc<History>,
    pins: Arc<History<PinChanged>>,
    decisions: Arc<History<DecisionChanged>>,
    news: Arc<News>,
    latency: Arc<Latency>,
    pulse: Arc<Pulse>,
}

/// The next thing to do, of either queue.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Next {
    Entry(Entry),
    Input(Input),
}

impl Inbox {
    /// Waits for an entry or an input; None: the daemon stops.
    fn wait(&mut self) -> Option<Next> {
        if self.held.is_none() {
            let next = futures::executor::block_on(async {
                tokio::select! {
                    biased;
                    Some(entry) = self.entries.recv() => Some(Next::Entry(entry)),
                    input = self.inputs.recv() => input.map(Next::Input),
                }
            });
            match next {
                Some(Next::Input(input)) => self.hold(input),
                entry => return entry,
            }
        }
        self.waiting()
    }

    /// Returns what waits already. An input comes after the entries that were there before it: it often looks at what they change.
    /// Entries that come later do not keep it waiting.
    fn waiting(&mut self) -> Option<Next> {
        if self.held.is_none()
            && let Ok(input) = self.inputs.try_recv()
        {
            self.hold(input);
        }
        if let Some((_, before)) = &mut self.held {
            if *before == 0 {
                return self.held.take().map(|(input, _)| Next::Input(input));
            }
            *before -= 1;
        }
        self.try_entry().map(Next::Entry)
    }

    fn hold(&mut self, input: Input) {
        self.held = Some((input, self.entries.len()));
    }

    /// Returns an entry that waits.
    pub(crate) fn try_entry(&mut self) -> Option<Entry> {
        self.entries.try_recv().ok()
    }
}

/// Why the thread ended before it was stopped. Nothing of the entry at fault is selected or
/// advertised.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// A committed fact is not understood.
    #[error(
        "{0}: it is damaged, or another release wrote it; start that release. If all replicas stop with this, empty data_dir of \
         all of them, and `weft backup restore FILE`"
    )]
    Unreadable(#[from] Unreadable),
    /// The committed state cannot be read again. Tables without it are wrong tables.
    #[error("the committed state cannot be read: {0}")]
    Store(#[from] StoreError),
}

/// Starts the thread on what the store holds. The receiver gets the reason if the thread ends before
/// it is stopped; the daemon must stop then.
pub fn start(
    reflector: Reflector,
    view: View,
    inbox: Inbox,
) -> (std::thread::JoinHandle<()>, oneshot::Receiver<Failure>) {
    let edge = Edge::new(reflector, view, inbox);
    let (report, failed) = oneshot::channel();
    let drive = move || {
        if let Err(failure) = edge.drive() {
            tracing::error!(%failure, "the reflector cannot go on; the daemon stops");
            // Without a receiver the daemon has stopped.
            let _ = report.send(failure);
        }
    };
    let thread = std::thread::Builder::new()
        .name("reflector".to_owned())
        .spawn(move || crate::daemon::supervision::or_abort("reflector", drive))
        .expect("the system can start a thread at startup");
    (thread, failed)
}

/// An image of a whole table and where its journal went on, shared by all who join meanwhile.
struct Cached {
    image: Arc<Segment>,
    cursor: Cursor,
    /// Octets that the journal grew by since: above the image's own size a new one is cheaper.
    since: usize,
    /// When it was made.
    made: Instant,
    /// How long that took.
    took: Duration,
}

/// From where to where somebody turns.
type Way = (Family, (ExportKey, Interest), (ExportKey, Interest));

struct Edge {
    reflector: Reflector,
    view: View,
    inbox: Inbox,
    feeds: HashMap<GroupId, Arc<Feed>>,
    images: HashMap<GroupId, Cached>,
    watchers: HashMap<PeerId, watch::Sender<Agreed>>,
    /// Joins that wait for an index.
    waiting: Vec<Join>,
    /// Turns that wait for the end of the inputs that came with them.
    turning: Turning,
    /// The last turn: the members of a group often turn together.
    turned: Option<(Way, Turned)>,
    outputs: Vec<Output>,
    /// When UPDATEs were taken whose routes are learned and not yet selected.
    taken: Vec<std::time::Instant>,
    alarms: Alarms,
    polls: u64,
    /// Up to where the last poll selected.
    polled: u64,
    started: Instant,
}

impl Edge {
    fn new(reflector: Reflector, view: View, inbox: Inbox) -> Self {
        Self {
            reflector,
            view,
            inbox,
            feeds: HashMap::new(),
            images: HashMap::new(),
            watchers: HashMap::new(),
            waiting: Vec::new(),
            turning: Turning::default(),
            turned: None,
            outputs: Vec::new(),
            taken: Vec::new(),
            alarms: Alarms::default(),
            polls: 0,
            polled: 0,
            started: Instant::now(),
        }
    }

    fn drive(mut self) -> Result<(), Failure> {
        self.reset()?;
        self.poll();
        loop {
            self.inbox.pulse.beat();
            let mut next = match self.turning.is_empty() {
                true => match self.inbox.wait() {
                    Some(next) => Some(next),
                    None => return Ok(()),
                },
                // There is something to do, whether something new came or not.
                false => self.inbox.waiting(),
            };
            let mut taken = 0;
            // What waits is selected and encoded once.
            while let Some(now) = next.take() {
                self.inbox.pulse.beat();
                match now {
                    Next::Entry(entry) => self.apply(entry)?,
                    Next::Input(Input::Stop) => return Ok(()),
                    Next::Input(input) => self.take(input),
                }
                taken += 1;
                if taken < TAKEN_MAX {
                    next = self.inbox.waiting();
                }
            }
            self.poll();
            self.admit();
        }
    }

    fn apply(&mut self, Entry { applied, taken }: Entry) -> Result<(), Failure> {
        self.taken.extend(taken);
        let is_reset = |change: &Change| matches!(change, Change::Reset);
        if applied.changes.iter().any(is_reset) {
            self.reset()
        } else {
            Ok(self.reflector.handle(&applied)?)
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Join(join) => self.waiting.push(join),
            Input::Turn(turn) => self.turning.push(turn),
            Input::Follow(peer, reply) => {
                let agreed = self.reflector.agreed(peer);
                let watcher = self
                    .watchers
                    .entry(peer)
                    .or_insert_with(|| watch::Sender::new(agreed));
                let _ = reply.send(watcher.subscribe());
            }
            Input::Query(look) => {
                // Nobody may see a path that is learned and not yet selected.
                self.poll();
                look(&self.reflector);
            }
            Input::Watch(settings) => self.reflector.watch_moves(settings),
            Input::Stop => {}
        }
    }

    /// Reads the whole state, as of one index: entries up to it are skipped when they come.
    fn reset(&mut self) -> Result<(), Failure> {
        let view = self.view.clone();
        let state = view.frozen();
        let index = state.applied()?;
        let facts = state.scan(b"").collect::<Result<_, _>>()?;
        self.reflector.reset(index, facts)?;
        self.polled = index;
        self.inbox.news.reset(index);
        self.inbox.pins.reset(index);
        self.inbox.decisions.reset(index);
        self.inbox.history.reset(index);
        // The poll that follows selects all paths.
        self.inbox.pulse.beat();
        Ok(())
    }

    fn poll(&mut self) {
        let mut outputs = std::mem::take(&mut self.outputs);
        let (mut changed, mut repinned, mut decided) = (Vec::new(), Vec::new(), Vec::new());
        let (mut rings, mut advertised) = (false, false);
        let now = self.started.elapsed();
        self.reflector.set_now(now);
        self.reflector.poll(&mut outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Advertise(group, segment) => {
                    if let Some(cached) = self.images.get_mut(&group) {
                        cached.since += segment.octets_len;
                    }
                    if let Some(feed) = self.feeds.get(&group) {
                        feed.push(segment);
                        advertised = true;
                    }
                }
                Output::Agreed(peer, agreed) => {
                    if let Some(watcher) = self.watchers.get(&peer) {
                        watcher.send_replace(agreed);
                    }
                }
                Output::Alarm(alarm) => self.alarms.say(&alarm, now),
                Output::Control => {
                    let declared = self.reflector.control().declared.topology();
                    self.inbox.declare.send_replace(declared.clone());
                    self.inbox.publish.send_modify(|version| *version += 1);
                }
                Output::Declared(mut news) => changed.append(&mut news),
                Output::Pinned(news) => repinned = news,
                Output::Decided(news) => decided = news,
                Output::Selected(selected) => {
                    let index = self.reflector.index();
                    self.inbox.news.publish(selected, self.polled, index);
                    rings = true;
                }
                Output::View(view) => drop(self.inbox.show.send_replace(view)),
            }
        }
        self.measure(advertised);
        let index = self.reflector.index();
        self.polled = index;
        // Pins and decisions come first: who reads that changes up to an index are complete finds theirs.
        let pins_ring = self.inbox.pins.keep(repinned, index);
        let decisions_ring = self.inbox.decisions.keep(decided, index);
        self.inbox.history.publish(changed, index);
        if pins_ring {
            self.inbox.pins.ring();
        }
        if decisions_ring {
            self.inbox.decisions.ring();
        }
        if rings {
            self.inbox.news.ring();
        }
        self.alarms.say_rest(now);
        self.outputs = outputs;
        self.polls += 1;
        if self.polls.is_multiple_of(SWEEP_EVERY) {
            self.sweep();
        }
    }

    /// What was taken is in the journals now, unless it changed nothing for anybody.
    fn measure(&mut self, advertised: bool) {
        if self.taken.is_empty() {
            return;
        }
        let now = Instant::now().into_std();
        for taken in self.taken.drain(..).filter(|_| advertised) {
            let took = now.saturating_duration_since(taken);
            self.inbox.latency.observe(took);
        }
    }

    /// Lets go of what nobody reads.
    fn sweep(&mut self) {
        self.turned = None;
        let feeds = &mut self.feeds;
        feeds.retain(|_, feed| Arc::strong_count(feed) > 1);
        self.reflector.sweep(|group| feeds.contains_key(&group));
        self.images.retain(|group, cached| {
            feeds
                .get(group)
                .is_some_and(|feed| feed.reaches(cached.cursor))
                && cached.worth()
        });
        self.watchers
            .retain(|_, watcher| watcher.receiver_count() > 0);
    }

    /// Answers a turn and those like it, and the joins whose index has come. Everything learned is selected. A turn may
    /// look at the whole table, so there is one between two looks at what is new.
    fn admit(&mut self) {
        let mut turning = std::mem::take(&mut self.turning);
        let started = self.started;
        let turn = |way| {
            self.inbox.pulse.beat();
            self.turn(way)
        };
        turning.answer(|| started.elapsed(), turn);
        self.turning = turning;
        let index = self.reflector.index();
        let (ready, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|join| join.index <= index);
        self.waiting = waiting;
        self.waiting.retain(|join| !join.reply.is_closed());
        let ready: Vec<Join> = ready;
        for join in ready {
            self.inbox.pulse.beat();
            let joined = self.join(join.family, (&join.key, &join.interest), join.since);
            let _ = join.reply.send(joined);
        }
    }

    fn feed(&mut self, group: GroupId) -> Arc<Feed> {
        let new = || Arc::new(Feed::new(JOURNAL_OCTETS_MAX));
        Arc::clone(self.feeds.entry(group).or_insert_with(new))
    }

    fn turn(&mut self, way: Way) -> Option<Turned> {
        let (family, (old_key, old_interest), (key, interest)) = &way;
        let old = self.reflector.group(*family, old_key);
        let until = self.feeds.get(&old)?.end();
        let group = self.reflector.group(*family, key);
        let feed = self.feed(group);
        let cursor = feed.end();
        if let Some((last, turned)) = &self.turned
            && (turned.until, turned.cursor) == (until, cursor)
            && *last == way
        {
            return Some(turned.clone());
        }
        let old = (old_key, old_interest);
        let turned = Turned {
            until,
            segment: self.reflector.turn(*family, group, old, interest),
            feed,
            cursor,
            rest: Duration::ZERO,
        };
        self.turned = Some((way, turned.clone()));
        Some(turned)
    }

    fn join(
        &mut self,
        family: Family,
        (key, interest): (&ExportKey, &Interest),
        since: u64,
    ) -> Result<Joined, TooOld> {
        let group = self.reflector.group(family, key);
        let feed = self.feed(group);
        let usable = |cached: &&Cached| since == 0 && cached.worth() && feed.reaches(cached.cursor);
        if let Some(cached) = self.images.get(&group).filter(usable) {
            return Ok(Joined {
                image: Arc::clone(&cached.image),
                cursor: cached.cursor,
                complete: feed.end(),
                feed,
            });
        }
        let made = Instant::now();
        let image = self.reflector.image(family, group, since, interest)?;
        let image = image.segment;
        let cursor = feed.end();
        if since == 0 {
            let cached = Cached {
                image: Arc::clone(&image),
                cursor,
                since: 0,
                made,
                took: made.elapsed(),
            };
            self.images.insert(group, cached);
        }
        Ok(Joined {
            image,
            feed,
            cursor,
            complete: cursor,
        })
    }
}

impl Cached {
    /// Whether it is as good as a new one: a joiner is told of what has gone since, and then that it went.
    fn worth(&self) -> bool {
        let cheap = self.since <= self.image.octets_len.max(IMAGE_OCTETS_MIN);
        let young = || self.made.elapsed() < IMAGE_AGE_MAX.max(self.took * IMAGE_COST);
        self.since == 0 || (cheap && young())
    }
}

/// Looks at whole tables at a time: they hold the thread up.
pub(crate) const LOOKS_MAX: usize = 2;
/// Entries that wait for the thread; a full queue holds back the consensus thread's hand-over, not its heartbeats.
const ENTRIES_MAX: usize = 1024;
/// Questions that wait for the thread; who finds the queue full waits.
const INPUTS_MAX: usize = 1024;
/// Entries and inputs taken before what they changed is selected and sent: bounds the time to the first octet.
const TAKEN_MAX: usize = 256;
/// Polls between two looks for groups and attributes that nobody needs.
const SWEEP_EVERY: u64 = 1024;
/// What a group remembers for its slowest member: about 40 ms at 10 Gb/s.
const JOURNAL_OCTETS_MAX: usize = 64 << 20;
/// An image is kept while the journal grew by less than this, however small the table.
const IMAGE_OCTETS_MIN: usize = 1 << 16;
/// ... and for no longer than this once the journal grew: who joins then hears of dead routes for a moment.
const IMAGE_AGE_MAX: Duration = Duration::from_millis(500);
/// ... or than so many times what it took to make: a tenth of the thread's time at most.
const IMAGE_COST: u32 = 10;

#[cfg(test)]
mod tests;
