//! BGP at the edge: who the peers are, which task serves each, and the listeners that hand them
//! their connections.
//!
//! ```text
//! listener (1x per address) --connection--> peer (1x per peer) --orders--> writer (1x per connection)
//! ```

pub mod export;
pub mod feed;
pub mod gate;
mod identities;
pub mod keys;
pub mod losses;
pub mod offer;
pub mod ownership;
pub mod peer;
mod places;
pub mod refusal;
pub mod reload;
pub mod remembered;
pub mod report;
pub mod restart;
pub mod saved;
pub mod socket;
pub mod weights;
pub mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use weft_bgp::peer::PeerId;
use weft_bgp::reflect::Local;

use crate::config::{Bgp, Config};
use crate::consensus::Consensus;
use crate::daemon::health::Health;
use crate::daemon::supervision::supervised;
use crate::door::places::Source;
use crate::monitoring::tap::Taps;
use crate::reflector::learn::total::Total;
use crate::reflector::owner::{self, Agreed};
use crate::reflector::thread::Reflection;
use identities::Identities;
use keys::{Keyring, Keys};
use losses::Losses;
use peer::command::{Command, Refused};
use peer::{Peer, Setup, Word};
use places::Places;
use refusal::{Reason, Refusals};
use reload::Reload;
use report::{Facts, Report};
use weights::Weights;

/// What the tasks of all peers share.
pub struct Shared {
    /// This replica.
    pub replica: u64,
    /// All replicas.
    pub members: Vec<u64>,
    /// Name of this host, for the FQDN capability.
    pub hostname: String,
    /// Our AS, identifier and cluster.
    pub local: Local,
    /// The facts.
    pub consensus: Consensus,
    /// What follows from them.
    pub reflection: Reflection,
    /// The verdict on this replica.
    pub health: Health,
    /// True once the daemon stops.
    pub stop: watch::Sender<bool>,
    config: watch::Sender<Arc<Config>>,
    /// Until when our OPENs say that we have restarted.
    restarted_until: Option<Instant>,
    /// Peers that have had a session since, and are not told any more.
    saw_restart: Mutex<BTreeSet<IpAddr>>,
    bfd: OnceLock<Result<weft_bfd::Service, String>>,
    /// Where peers' tasks tell what collectors are to hear.
    pub taps: Taps,
    /// What leaves that take weights over BGP should be told.
    pub weights: Arc<Weights>,
    /// Octets of routes that the peers of this replica hold.
    pub held: Total,
    /// How many peers were lost a moment ago.
    pub losses: Losses,
    /// The address that holds each identity. Rings when one is released.
    identities: watch::Sender<Identities>,
    away: Mutex<BTreeMap<PeerId, Duration>>,
    entries: Mutex<BTreeMap<IpAddr, Entry>>,
    /// Connections that no peer's task takes.
    refusals: Mutex<Refusals>,
    /// Rings when the state of a session changes.
    sessions: watch::Sender<()>,
}

struct Entry {
    words: mpsc::Sender<Word>,
    report: Report,
    dynamic: bool,
}

impl Shared {
    /// For a daemon that has no peer yet.
    pub fn new(
        config: Config,
        hostname: String,
        consensus: Consensus,
        reflection: Reflection,
    ) -> Self {
        Self {
            replica: config.replica.id,
            members: config.replicas.iter().map(|member| member.id).collect(),
            hostname,
            local: config.bgp.local,
            held: Total::new(config.bgp.route_octets_total),
            config: watch::Sender::new(Arc::new(config)),
            health: Health::new(&consensus, &reflection, Instant::now()),
            consensus,
            reflection,
            stop: watch::Sender::new(false),
            restarted_until: None,
            saw_restart: Mutex::default(),
            bfd: OnceLock::new(),
            taps: Taps::default(),
            weights: Arc::default(),
            losses: Losses::default(),
            identities: watch::Sender::default(),
            away: Mutex::default(),
            entries: Mutex::default(),
            refusals: Mutex::default(),
            sessions: watch::Sender::default(),
        }
    }

    /// Of a daemon that had routes before it started: its first OPENs say so. RFC 4724 §4.1.
    pub fn restarted(mut self, now: Instant) -> Self {
        self.restarted_until = Some(now + RESTARTED_FOR);
        self
    }

    /// For how long peers have been away that nobody serves, or claimed yet, and that may come back.
    pub fn set_away(&self, away: BTreeMap<PeerId, Duration>) {
        *lock(&self.away) = away;
    }

    /// For how long this one has.
    fn away(&self, peer: PeerId) -> Duration {
        lock(&self.away).get(&peer).copied().unwrap_or_default()
    }

    /// Whether an OPEN to a peer says now that we have restarted: it is told until it has seen it.
    pub fn has_restarted(&self, peer: IpAddr) -> bool {
        self.restarted_until().is_some() && !lock(&self.saw_restart).contains(&peer)
    }

    /// The peer has a session.
    pub fn saw_restart(&self, peer: IpAddr) {
        let mut saw = lock(&self.saw_restart);
        match self.restarted_until() {
            Some(_) if saw.len() < SAW_RESTART_MAX => drop(saw.insert(peer)),
            Some(_) => {}
            None => saw.clear(),
        }
    }

    /// Until when our OPENs say so.
    fn restarted_until(&self) -> Option<Instant> {
        self.restarted_until.filter(|until| Instant::now() < *until)
    }

    /// BFD, started when the first peer needs it.
    ///
    /// # Errors
    /// Why it could not start.
    pub fn bfd(&self) -> Result<&weft_bfd::Service, String> {
        let start = || weft_bfd::Service::new(BFD_SESSIONS_MAX).map_err(|error| error.to_string());
        self.bfd.get_or_init(start).as_ref().map_err(Clone::clone)
    }

    /// One identity, one address.
    ///
    /// # Errors
    /// The address that the identity belongs to.
    pub fn claim_identity(&self, peer: PeerId, address: IpAddr) -> Result<(), IpAddr> {
        let is_declared = |address| self.reflection.is_declared(address);
        let mut claimed = Ok(());
        self.identities
            .send_modify(|identities| claimed = identities.claim(peer, address, is_declared));
        claimed
    }

    /// The address holds no identity any more.
    pub fn release_identity(&self, address: IpAddr) {
        let release = |identities: &mut Identities| identities.release(address);
        self.identities.send_if_modified(release);
    }

    /// Connections that were refused before a peer's task saw them.
    pub fn refusals(&self) -> Refusals {
        lock(&self.refusals).clone()
    }

    /// The configuration that holds now. Ask again at the start of a session; it may change meanwhile.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.borrow())
    }

    /// As [`Shared::config`], for those who have to notice when it changes.
    pub fn follow_config(&self) -> watch::Receiver<Arc<Config>> {
        self.config.subscribe()
    }

    /// Changes whenever the state of a session does.
    pub fn sessions(&self) -> watch::Receiver<()> {
        self.sessions.subscribe()
    }

    /// The address to dial from: that of a listener which names one.
    pub fn source_address(&self, to: IpAddr) -> Option<IpAddr> {
        let config = self.config();
        let named = config.bgp.listen.iter().map(SocketAddr::ip);
        named
            .filter(|ip| !ip.is_unspecified())
            .find(|ip| ip.is_ipv4() == to.is_ipv4())
    }

    /// Where every peer's task is told something.
    pub fn words(&self) -> Vec<mpsc::Sender<Word>> {
        let entries = lock(&self.entries);
        entries.values().map(|entry| entry.words.clone()).collect()
    }

    /// Has the task of a peer do something with its session.
    ///
    /// # Errors
    /// Why it is not done.
    pub async fn command(&self, peer: IpAddr, command: Command) -> Result<(), Refused> {
        let words = lock(&self.entries).get(&peer).map(|it| it.words.clone());
        let words = words.ok_or(Refused::NotEstablished)?;
        let (done, answer) = oneshot::channel();
        // A task that ends meanwhile has no session any more.
        let sent = words.send(Word::Do(command, done)).await;
        sent.map_err(|_| Refused::NotEstablished)?;
        answer.await.unwrap_or(Err(Refused::NotEstablished))
    }

    /// Every peer with what it reports.
    pub fn reports(&self) -> Vec<(IpAddr, Facts)> {
        let entries = lock(&self.entries);
        entries
            .iter()
            .map(|(address, entry)| (*address, entry.report.facts()))
            .collect()
    }

    /// Who may speak from this address, if anybody.
    fn setup(&self, address: IpAddr) -> Option<Setup> {
        Setup::resolve(&self.config().bgp, address)
    }
}

/// The running speaker.
pub struct Speaker {
    shared: Arc<Shared>,
    peers: JoinSet<IpAddr>,
    keyring: Keyring,
}

impl Speaker {
    /// Starts a task for every listed peer.
    pub fn new(shared: Arc<Shared>) -> Self {
        let mut speaker = Self {
            shared,
            peers: JoinSet::new(),
            keyring: Keyring::default(),
        };
        speaker.start_listed();
        speaker
    }

    /// Those that have a task already have noticed a change of the configuration by themselves.
    fn start_listed(&mut self) {
        let config = self.shared.config();
        for address in config.bgp.peers.keys() {
            if lock(&self.shared.entries).contains_key(address) {
                continue;
            }
            if let Some(setup) = Setup::resolve(&config.bgp, *address) {
                self.start(setup, None);
            }
        }
    }

    /// Those that were served before a restart of this replica may wait to be dialed: for a while they are
    /// dialed like listed ones.
    async fn start_remembered(&mut self) {
        let Some(until) = self.shared.restarted_until() else {
            return;
        };
        let look = self.shared.reflection.query(|reflector| {
            let owners = reflector.peers();
            let owners = owners.filter_map(|(_, agreed)| agreed.owner.as_ref());
            owners.map(|owner| owner.address).collect::<BTreeSet<_>>()
        });
        let mut addresses = look.await.unwrap_or_default();
        addresses.retain(|address| !lock(&self.shared.entries).contains_key(address));
        let config = self.shared.config();
        for setup in remembered::setups(&config.bgp, addresses, self.room(&config.bgp)) {
            tracing::info!(peer = %setup.address, "dialed, since it may wait for that");
            self.start(setup, Some(until));
        }
    }

    /// How many more dynamic peers there may be.
    fn room(&self, bgp: &Bgp) -> usize {
        let entries = lock(&self.shared.entries);
        let dynamic = entries.values().filter(|entry| entry.dynamic).count();
        bgp.dynamic_peers_max.saturating_sub(dynamic)
    }

    /// Makes room for a dynamic peer at this address: one that needs its place for nothing goes, if it takes that.
    ///
    /// # Errors
    /// Why there is no room.
    fn make_room(&self, address: IpAddr) -> Result<(), Reason> {
        let max = self.shared.config().bgp.dynamic_peers_max;
        let mut entries = lock(&self.shared.entries);
        let dynamic = entries.iter().filter(|(_, entry)| entry.dynamic);
        let dynamic = dynamic.map(|(address, _)| *address);
        let Some(reason) = places::lacking(dynamic, address, max) else {
            return Ok(());
        };
        let of = (reason == Reason::Source).then(|| Source::of(address));
        let lost = places(&entries).to_give_up(of).ok_or(reason)?;
        // The task ends when nobody can reach it any more.
        entries.remove(&lost);
        let noted = lock(&self.shared.refusals).note(Reason::GaveWay, Instant::now());
        if let Some(unlogged) = noted {
            tracing::warn!(peer = %lost, to = %address, unlogged, "a dynamic peer without a session gave way to another; see bgp.dynamic_peers_max");
        }
        Ok(())
    }

    /// Dynamic peers that say nothing go while places are scarce.
    fn end_silent(&self) {
        let (max, now) = (self.shared.config().bgp.dynamic_peers_max, Instant::now());
        let mut entries = lock(&self.shared.entries);
        for address in places(&entries).overdue(max, now) {
            entries.remove(&address);
            let noted = lock(&self.shared.refusals).note(Reason::NoOpen, now);
            if let Some(unlogged) = noted {
                tracing::warn!(peer = %address, unlogged, "connection closed: no OPEN within 10 s, and dynamic peers take more than half of bgp.dynamic_peers_max");
            }
        }
    }

    /// From now on another configuration holds. Every peer's task sees that by itself.
    fn reload(&mut self, reload: Reload) {
        let (config, keys, done) = reload.accept();
        for (address, entry) in lock(&self.shared.entries).iter_mut() {
            let resolved = config.bgp.resolve(*address);
            entry.dynamic = resolved.is_none_or(|resolved| resolved.dynamic);
        }
        self.sign(keys);
        self.shared.held.set_limit(config.bgp.route_octets_total);
        self.shared.config.send_replace(Arc::new(config));
        self.start_listed();
        // Whoever asked may have gone.
        let _ = done.send(());
    }

    /// The listeners hold the keys that the files hold now. A file that was good when the configuration was
    /// checked and is not any more leaves the keys as they were.
    fn sign(&mut self, keys: std::io::Result<Keys>) {
        let keys = match keys {
            Ok(keys) => keys,
            Err(error) => return tracing::error!(%error, "the keys stay as they were"),
        };
        if let Err(error) = self.keyring.hold(keys) {
            tracing::error!(%error, "a listener does not take a key");
        }
    }

    /// Starts what precedes the first connection.
    async fn begin(&mut self) {
        let keys = keys::read_all(&self.shared.config().bgp).await;
        self.sign(keys);
        self.start_remembered().await;
    }

    /// Serves peers until `stop` resolves, then takes leave of them.
    pub async fn serve(
        mut self,
        listeners: Vec<TcpListener>,
        mut reloads: mpsc::Receiver<Reload>,
        stop: impl Future<Output = ()>,
    ) {
        let (accepted, mut incoming) = mpsc::channel(ACCEPTED_MAX);
        let mut listening = JoinSet::new();
        let listeners: Vec<_> = listeners.into_iter().map(Arc::new).collect();
        self.keyring = Keyring::new(listeners.clone());
        let mut stop = stop.shared();
        tokio::select! {
            () = self.begin() => {}
            () = stop.clone() => {}
        }
        for listener in listeners {
            listening.spawn(supervised(
                "BGP listener",
                accept(listener, accepted.clone()),
            ));
        }
        let mut audit = tokio::time::interval(AUDIT_EVERY);
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some((stream, from)) = incoming.recv() => self.hand_over(stream, from),
                Some(reload) = reloads.recv() => self.reload(reload),
                _ = audit.tick() => {
                    self.end_silent();
                    self.audit().await;
                }
                Some(ended) = self.peers.join_next() => match ended {
                    Ok(address) => self.ended(address),
                    Err(error) => tracing::error!(%error, "a peer's task failed"),
                },
            }
        }
        listening.abort_all();
        self.shared.stop.send_replace(true);
        let gone = async { while self.peers.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, gone).await.is_err() {
            tracing::error!("some peers could not be told");
            self.peers.shutdown().await;
        }
    }

    /// Takes back what is agreed of this replica and not true: a session that nobody here serves, left by
    /// a start without a majority or by a task that failed.
    async fn audit(&self) {
        let own = self.shared.replica;
        let look = self.shared.reflection.query(move |reflector| {
            let served = |(_, agreed): &(PeerId, &Agreed)| agreed.sessions.contains(&own);
            let peers = reflector.peers().filter(served);
            peers.map(|(peer, _)| peer).collect::<Vec<_>>()
        });
        // Connections and the end of the daemon wait for this, and a reflector that hangs does not answer.
        let Ok(served) = tokio::time::timeout(AUDIT_PATIENCE, look).await else {
            return;
        };
        for peer in served.unwrap_or_default() {
            if self.shared.identities.borrow().is_held(peer) {
                continue;
            }
            tracing::warn!(%peer, "a session that is not there is taken back");
            let consensus = self.shared.consensus.clone();
            // Its paths stay as long as those of any peer whose replica died.
            tokio::spawn(async move { consensus.propose(owner::retract(own, peer)).await });
        }
    }

    /// A task ended; its address may have got a new one already.
    fn ended(&mut self, address: IpAddr) {
        let mut entries = lock(&self.shared.entries);
        if entries
            .get(&address)
            .is_none_or(|entry| !entry.words.is_closed())
        {
            return;
        }
        entries.remove(&address);
        drop(entries);
        self.shared.sessions.send_replace(());
        self.shared.release_identity(address);
        // A listed peer's task ends by a failure only: begin anew.
        if let Some(setup) = self.shared.setup(address).filter(|setup| !setup.dynamic) {
            self.start(setup, None);
        }
    }

    fn hand_over(&mut self, stream: TcpStream, from: SocketAddr) {
        let address = from.ip().to_canonical();
        let known = lock(&self.shared.entries)
            .get(&address)
            .map(|entry| entry.words.clone());
        let stream = match known {
            None => stream,
            Some(words) => match words.try_send(Word::Incoming(stream)) {
                // A dynamic peer that has just gone.
                Err(TrySendError::Closed(Word::Incoming(stream))) => stream,
                Err(TrySendError::Full(Word::Incoming(stream))) => {
                    return self.turn_away(&stream, from, Reason::Busy);
                }
                Ok(())
                | Err(TrySendError::Full(Word::Show(_) | Word::Do(..)))
                | Err(TrySendError::Closed(Word::Show(_) | Word::Do(..))) => return,
            },
        };
        let Some(setup) = self.shared.setup(address) else {
            return self.turn_away(&stream, from, Reason::Stranger);
        };
        if setup.group.shutdown.is_some() {
            return self.turn_away(&stream, from, Reason::Shutdown);
        }
        if let Err(reason) = self.make_room(address) {
            return self.turn_away(&stream, from, reason);
        }
        let words = self.start(setup, None);
        let _ = words.try_send(Word::Incoming(stream));
    }

    /// Refuses a connection that no peer's task takes.
    fn turn_away(&self, stream: &TcpStream, from: SocketAddr, reason: Reason) {
        refusal::reject(stream, reason.cease());
        let Some(unlogged) = lock(&self.shared.refusals).note(reason, Instant::now()) else {
            return;
        };
        if matches!(reason, Reason::NoRoom | Reason::Source) {
            tracing::error!(%from, %reason, unlogged, "no room for another dynamic peer; see bgp.dynamic_peers_max");
        } else {
            tracing::info!(%from, %reason, unlogged, "connection refused");
        }
    }

    /// `dialed_until` is for a dynamic peer that is dialed, for a while.
    fn start(&mut self, setup: Setup, dialed_until: Option<Instant>) -> mpsc::Sender<Word> {
        let (words, inbox) = mpsc::channel(WORDS_MAX);
        let report = Report::new(
            setup.group.name.clone(),
            setup.dynamic,
            self.shared.sessions.clone(),
        );
        let address = setup.address;
        let entry = Entry {
            words: words.clone(),
            report: report.clone(),
            dynamic: setup.dynamic,
        };
        lock(&self.shared.entries).insert(address, entry);
        let shared = Arc::clone(&self.shared);
        let peer = Peer::new(shared, setup, dialed_until, inbox, report);
        self.peers.spawn(async move {
            if AssertUnwindSafe(peer.serve()).catch_unwind().await.is_err() {
                tracing::error!(peer = %address, "the peer's task failed");
            }
            address
        });
        words
    }
}

fn places(entries: &BTreeMap<IpAddr, Entry>) -> Places {
    let dynamic = entries.iter().filter(|(_, entry)| entry.dynamic);
    Places::of(dynamic.map(|(address, entry)| (*address, &entry.report)))
}

async fn accept(listener: Arc<TcpListener>, accepted: mpsc::Sender<(TcpStream, SocketAddr)>) {
    loop {
        match listener.accept().await {
            Ok(connection) => {
                if accepted.send(connection).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                // Out of descriptors, most likely: wait until some are free.
                tracing::error!(%error, "connection not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Spreads the retries of many peers, differently on each replica.
fn seed(address: IpAddr, replica: u64) -> u64 {
    let octets = match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    let folded = u64::try_from(octets & u128::from(u64::MAX)).unwrap_or_default();
    folded
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(replica)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connections between the listeners and the peers' tasks.
const ACCEPTED_MAX: usize = 256;
/// Connections that a busy peer has not looked at.
const WORDS_MAX: usize = 4;
/// How long the daemon waits for its peers' tasks, which have 3 s for their own last words.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const AUDIT_EVERY: Duration = Duration::from_secs(5);
const AUDIT_PATIENCE: Duration = Duration::from_secs(1);
/// Longer than any peer takes to come back; shorter than the restart time that we offer.
const RESTARTED_FOR: Duration = Duration::from_secs(60);
/// More than any fabric has peers. One beyond may hear twice that we have restarted.
const SAW_RESTART_MAX: usize = 65_536;
/// More than any fabric has switches.
const BFD_SESSIONS_MAX: usize = 4096;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
