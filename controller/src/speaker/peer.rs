//! One peer: drives its session with octets, time and connections, and hands its routes to its
//! ownership. Knows sockets and clocks; the rules of BGP are the session's.

mod asking;
mod colliding;
pub mod command;
mod company;
mod dialing;
mod exporting;
mod guessed;
mod inbound;
mod joining;
mod lingering;
mod liveness;
mod newcomer;
mod owed;
mod pace;
mod pause;
mod reconfigure;
mod shown;
mod signing;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use weft_bgp::family::Family;
use weft_bgp::message::notification::Cease;
use weft_bgp::message::update::Update;
use weft_bgp::message::{Message, MessageKind, RouteRefresh};
use weft_bgp::session::{DownReason, Input, Negotiated, Output, Session, SessionConfig, Side};
use weft_bgp::{error::DecodeError, frame};

use super::offer::Company;
use super::ownership::Ownership;
use super::report::{Direction, Report};
use super::restart::{self, Intent};
use super::writer::{self, Event, Order};
use super::{Shared, offer};
use crate::config::{Config, PeerGroup};
use crate::monitoring::tap::Tap;
use crate::reflector::learn::Learned;
use crate::reflector::learn::rate::Budget;
use crate::reflector::owner::Parting;

use asking::Asking;
use command::{Command, Refused};
use company::Companions;
use exporting::Exporting;
use guessed::Guessed;
use joining::{Answer, Why};
use liveness::Liveness;
use newcomer::Newcomer;
use owed::Owed;
use pause::Pause;

/// What a peer's task is told from outside.
pub enum Word {
    /// The peer dialed us.
    Incoming(TcpStream),
    /// A collector is to be shown the session and all that the peer has announced.
    Show(Tap),
    /// An operator wants something done with the session, and hears whether it is.
    Do(Command, oneshot::Sender<Result<(), Refused>>),
}

/// How to reach a peer.
#[derive(Clone)]
pub struct Setup {
    /// Its address.
    pub address: IpAddr,
    /// Its TCP port.
    pub port: u16,
    /// Its group.
    pub group: PeerGroup,
    /// Wait for it to dial.
    pub passive: bool,
    /// Not listed: the task ends with the session, once nothing of it has to be remembered.
    pub dynamic: bool,
}

/// The task of one peer.
pub struct Peer {
    shared: Arc<Shared>,
    setup: Setup,
    words: mpsc::Receiver<Word>,
    stop: watch::Receiver<bool>,
    config: watch::Receiver<Arc<Config>>,
    /// What this task has changed into last.
    held: Arc<Config>,
    report: Report,
    session: Session,
    connections: [Option<Connection>; 2],
    /// Dialed us while there was another of that side, and is refused or takes its place in the next moment.
    arrived: Option<Connection>,
    /// Dialed us while the session was up.
    newcomer: Option<Newcomer>,
    dialing: Option<BoxFuture<'static, std::io::Result<TcpStream>>>,
    up: Option<Up>,
    ownership: Option<Ownership>,
    liveness: Liveness,
    /// Routes to ask for: family, why, and the revision known.
    wanted: BTreeMap<(Family, Why), u64>,
    joining: Option<BoxFuture<'static, Answer>>,
    /// Families whose End-of-RIB waits for a majority.
    owed: Owed,
    /// Who else serves it, by what its OPEN was offered for that.
    companions: Companions,
    /// Why we ended the session ourselves.
    grievance: Option<String>,
    /// The limit beyond which the peer went, if that ends the session.
    exceeded: Option<String>,
    /// What was not kept for want of room.
    asking: Asking,
    stopping: Option<Instant>,
    /// Not configured any more: the task ends when nothing of the peer is left.
    leaving: bool,
    /// Was served a moment ago: dialed often until then or until it has a session, and also if it is not listed.
    dialed_until: Option<Instant>,
    /// We ended the session for a reason that passes.
    pause: Option<Pause>,
    /// A session ended by the peer's mistake: the task of one that is not listed stays until then.
    lingers_until: Option<Instant>,
    /// Connections that are closed and may not have ended.
    ending: JoinSet<()>,
    /// What it may still send, where somebody limits that.
    budget: Option<Budget>,
    /// It has spent that: nothing is read until then.
    resting: Option<Instant>,
    guessed: Guessed,
}

/// What is known while the session is established.
struct Up {
    side: Side,
    negotiated: Negotiated,
    exporting: Exporting,
}

struct Connection {
    socket: OwnedReadHalf,
    buffer: BytesMut,
    orders: mpsc::Sender<Order>,
    events: mpsc::Receiver<Event>,
    opened: Instant,
    /// A whole message came.
    spoke: bool,
    /// A message was sent.
    said: bool,
}

impl Connection {
    /// Takes what is there, without waiting. It asks the system itself: the runtime may not have noticed yet.
    fn read_on(&mut self) -> std::io::Result<usize> {
        let socket: &TcpStream = self.socket.as_ref();
        let socket = socket2::SockRef::from(socket);
        if socket.peek(&mut [std::mem::MaybeUninit::uninit()])? == 0 {
            return Ok(0);
        }
        let mut octets = vec![0; READ_OCTETS];
        let read = std::io::Read::read(&mut &*socket, &mut octets)?;
        self.buffer.extend_from_slice(&octets[..read]);
        Ok(read)
    }

    /// The writer finishes what waits, closes and ends; then, if it `lingers`, it is the other end's turn to close.
    /// What that still says is thrown away: a socket that is closed over unread octets resets the connection, and
    /// our last words are lost on their way.
    async fn end(self, lingers: bool) {
        let Self {
            mut socket,
            orders,
            events,
            ..
        } = self;
        let close = orders.send(Order::Close);
        if tokio::time::timeout(CLOSE_TIMEOUT, close).await.is_ok() {
            let closed = orders.closed();
            tokio::time::timeout(CLOSE_TIMEOUT, closed).await.ok();
        }
        // A writer that still waits for the peer to take something gives up.
        drop((orders, events));
        if !lingers {
            return;
        }
        let mut rest = [0; 4096];
        let last_words = async { while matches!(socket.read(&mut rest).await, Ok(1..)) {} };
        tokio::time::timeout(LINGER, last_words).await.ok();
    }
}

/// Something that happened to a connection.
enum Happened {
    Octets,
    Ended,
    Wrote(Event),
}

impl Peer {
    /// A peer that has not begun; a dynamic one is dialed until `dialed_until`.
    pub fn new(
        shared: Arc<Shared>,
        setup: Setup,
        dialed_until: Option<Instant>,
        words: mpsc::Receiver<Word>,
        report: Report,
    ) -> Self {
        let companions = Companions::expected(shared.members.len(), now());
        let company = companions.offered();
        let config = session_config(&shared, &setup, dialed_until, company);
        let session = Session::new(config);
        Self {
            stop: shared.stop.subscribe(),
            config: shared.follow_config(),
            held: shared.config(),
            shared,
            setup,
            words,
            report,
            session,
            connections: [None, None],
            arrived: None,
            newcomer: None,
            dialing: None,
            up: None,
            ownership: None,
            liveness: Liveness::default(),
            wanted: BTreeMap::new(),
            joining: None,
            owed: Owed::default(),
            companions,
            grievance: None,
            exceeded: None,
            asking: Asking::default(),
            stopping: None,
            leaving: false,
            dialed_until,
            pause: None,
            lingers_until: None,
            ending: JoinSet::new(),
            budget: None,
            resting: None,
            guessed: Guessed::default(),
        }
    }

    /// Serves the peer until the daemon stops, or a dynamic peer has gone.
    pub async fn serve(mut self) {
        if self.setup.group.shutdown.is_none() {
            self.input(Input::Start).await;
        }
        while !self.is_over() {
            self.turn().await;
        }
        self.close_door();
        self.shared.release_identity(self.setup.address);
    }

    /// When the first timer runs out.
    fn deadline(&self) -> Instant {
        let timeout = self.session.poll_timeout().map(Instant::from_std);
        let telling = self.telling_deadline();
        let owed = self.owed.deadline();
        let timers = [timeout, self.stopping, owed, telling];
        timers
            .into_iter()
            .chain([self.resting, self.dialed_until, self.lingers_until])
            .chain([self.asking.deadline(), self.company_deadline()])
            .chain([self.guessed.look_at])
            .flatten()
            .fold(now() + IDLE, Instant::min)
    }

    async fn turn(&mut self) {
        if now() >= self.deadline() {
            // First: words that take long must not keep a timer waiting.
            self.due().await;
            self.settle().await;
            if self.is_over() {
                return;
            }
        }
        let deadline = self.deadline();
        let (resting, holds) = (self.resting.is_some(), self.pauses_shortly());
        let [outgoing, incoming] = &mut self.connections;
        tokio::select! {
            word = self.words.recv(), if self.stopping.is_none() => self.hear(word).await,
            () = stopped(&mut self.stop), if self.stopping.is_none() => self.stop().await,
            Ok(()) = self.config.changed(), if self.stopping.is_none() => self.reconfigured().await,
            dialed = pending_or(&mut self.dialing) => self.dialed(dialed).await,
            happened = watch(outgoing, resting) => self.happened(Side::Outgoing, happened).await,
            happened = watch(incoming, resting) => self.happened(Side::Incoming, happened).await,
            words = newcomer::first_words(&mut self.newcomer), if !holds => self.met(words).await,
            () = pause::end(&mut self.pause), if self.stopping.is_none() => self.begin_again().await,
            answer = pending_or(&mut self.joining) => self.joined(answer).await,
            withheld = pending_or(&mut self.guessed.looking) => self.say_withheld(withheld),
            learned = own(&mut self.ownership) => {
                self.judged(&learned);
                self.heard(&learned);
            }
            Some(_) = self.ending.join_next() => {}
            diagnostic = self.liveness.failed() => self.path_failed(diagnostic).await,
            () = tokio::time::sleep_until(deadline) => self.due().await,
        }
        self.settle().await;
    }

    /// Does what follows from all that has just happened.
    async fn settle(&mut self) {
        self.dismiss().await;
        self.refuse_rival().await;
        if self.ownership.as_ref().is_some_and(Ownership::is_done) && self.up.is_none() {
            self.ownership = None;
            self.shared.release_identity(self.setup.address);
        }
        self.report_lingering();
    }

    async fn due(&mut self) {
        if self.dialed_until.is_some_and(|at| now() >= at) {
            self.stop_dialing();
            self.report.failed("it has not come back".to_owned());
        }
        self.mind_company().await;
        self.forget();
        for family in self.owed.due(now()) {
            self.want(family, Why::End, 0);
        }
        self.ask_for_room();
        self.look_withheld();
        if self.telling_deadline().is_some_and(|at| now() >= at) {
            self.telling_due();
        }
        if self.resting.take_if(|at| now() >= *at).is_some()
            && let Some(side) = self.up.as_ref().map(|up| up.side)
        {
            self.decode(side).await;
        }
        self.show_signature();
        let timeout = self.session.poll_timeout().map(Instant::from_std);
        if timeout.is_some_and(|at| now() >= at) {
            self.read_on().await;
        }
        self.input(Input::Timeout).await;
    }

    /// Takes what has come before a timer is judged: if it was us who stood still, and not the peer, then its
    /// KEEPALIVEs are here already. Returns true if there was something.
    async fn read_on(&mut self) -> bool {
        let mut any = false;
        for side in [Side::Outgoing, Side::Incoming] {
            let read = match &mut self.connections[side as usize] {
                Some(connection) if self.resting.is_none() => connection.read_on(),
                Some(_) | None => continue,
            };
            let happened = match read {
                Ok(1..) => Happened::Octets,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Ok(0) | Err(_) => Happened::Ended,
            };
            any = true;
            self.happened(side, happened).await;
        }
        any
    }

    async fn hear(&mut self, word: Option<Word>) {
        match word {
            Some(Word::Incoming(stream)) => self.incoming(stream).await,
            Some(Word::Show(tap)) => self.show(&tap),
            Some(Word::Do(command, done)) => {
                // Whoever asked may have gone.
                let _ = done.send(self.obey(command).await);
            }
            None => self.stop().await,
        }
    }

    async fn stop(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some(now() + STOP_TIMEOUT);
            self.input(Input::Stop(Cease::Shutdown)).await;
        }
    }

    async fn connect(&mut self, side: Side, stream: TcpStream) {
        if self.prepare(side, &stream).await {
            let heard = BytesMut::with_capacity(READ_OCTETS);
            self.hold(side, stream, heard).await;
        } else if side == Side::Outgoing {
            self.input(Input::ConnectFailed).await;
        }
    }

    /// A connection is there, and its first octets may be.
    async fn hold(&mut self, side: Side, stream: TcpStream, buffer: BytesMut) {
        let (socket, sink) = stream.into_split();
        let (orders, inbox) = mpsc::channel(ORDERS_MAX);
        let (outbox, events) = mpsc::channel(EVENTS_MAX);
        let report = self.report.clone();
        let counted = move |kind, count| report.sent(kind, count);
        tokio::spawn(writer::write(sink, inbox, outbox, counted));
        let connection = Some(Connection {
            socket,
            buffer,
            orders,
            events,
            opened: now(),
            spoke: false,
            said: false,
        });
        match &mut self.connections[side as usize] {
            Some(_) => self.arrived = connection,
            free @ None => *free = connection,
        }
        // Whoever has seen it once must not wait for the End-of-RIB of a restart again. RFC 4724 §4.1.
        let restarted = self.shared.has_restarted(self.setup.address);
        self.session.set_restarted(restarted);
        self.input(Input::Connected(side)).await;
    }

    async fn happened(&mut self, side: Side, happened: Happened) {
        match happened {
            Happened::Octets => {
                self.decode(side).await;
                // Not in the next turn: it asks all that may have happened first.
                if let Some(ownership) = self.ownership.as_mut().filter(|it| it.stake.is_idle()) {
                    ownership.go_on(now());
                }
            }
            Happened::Ended => {
                self.connections[side as usize] = None;
                self.input(Input::Disconnected(side)).await;
            }
            Happened::Wrote(Event::Blocked) => self.input(Input::SendBlocked).await,
            Happened::Wrote(Event::Sent) => self.input(Input::Sent).await,
            Happened::Wrote(Event::Failed(error)) => {
                tracing::debug!(peer = %self.setup.address, %error, "connection failed");
                self.connections[side as usize] = None;
                self.input(Input::Disconnected(side)).await;
            }
            Happened::Wrote(Event::Lagged(family, revision)) => {
                self.want(family, Why::Behind, revision)
            }
            Happened::Wrote(Event::Lost(_)) => self.start_again().await,
        }
    }

    /// Takes every whole message out of a connection's buffer.
    async fn decode(&mut self, side: Side) {
        let (mut taken, mut since) = (0, now());
        loop {
            let (context, max_len) = self.session.decode_context(side);
            let Some(connection) = &mut self.connections[side as usize] else {
                return;
            };
            match frame::split(&mut connection.buffer, max_len) {
                Ok(None) => return,
                Ok(Some(frame)) => match self.shared.decode(frame.clone(), &context) {
                    Ok((message, raw)) => {
                        connection.spoke = true;
                        let kind = message.kind();
                        self.report.received(kind);
                        self.shown(side, &message, raw);
                        self.input(Input::Message(side, message)).await;
                        if kind == MessageKind::Update && !self.spend() {
                            return;
                        }
                    }
                    Err(error) => return self.malformed(side, error, shown::octets(&frame)).await,
                },
                Err(error) => return self.malformed(side, error, Bytes::new()).await,
            }
            taken += 1;
            if taken % YIELD_EVERY == 0 || since.elapsed() >= YIELD_AFTER {
                // A peer that sends a whole table, or what costs much, must not keep the others' keepalives waiting.
                tokio::task::yield_now().await;
                since = now();
            }
        }
    }

    async fn malformed(&mut self, side: Side, error: DecodeError, message: Bytes) {
        let rule = error.fault.rule();
        tracing::warn!(peer = %self.setup.address, fault = %error.fault, offset = error.offset, %rule, "malformed message");
        self.input(Input::Malformed(side, error, message)).await;
    }

    /// Gives the session an input and does all that it asks for.
    async fn input(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.session.handle(input, now().into_std());
            while let Some(output) = self.session.poll_output() {
                if let Some(error) = self.output(output).await {
                    let side = self.up.as_ref().map_or(Side::Incoming, |up| up.side);
                    inputs.push(Input::Malformed(side, error, Bytes::new()));
                }
            }
        }
        self.report.state(self.session.state_name(), self.waits());
    }

    async fn output(&mut self, output: Output) -> Option<DecodeError> {
        match output {
            Output::Connect => self.dial(),
            Output::Send(side, message) => self.send(side, &message),
            Output::Close(side) => self.close(side),
            Output::Refuse(side) => self.refuse(side),
            Output::Established(side, negotiated) => self.established(side, negotiated).await,
            Output::Learn(update) => return self.learn(&update),
            Output::Refresh(refresh) => {
                if refresh.subtype == RouteRefresh::REQUEST {
                    self.want(refresh.family, Why::Again, 0);
                } else {
                    self.marked(refresh);
                }
            }
            Output::Down(reason) => {
                tracing::warn!(peer = %self.setup.address, %reason, "session closed");
                self.show_end(&reason);
                self.linger(&reason);
                self.doubt(&reason);
                let up = self.up.take();
                let parting = self.parting(up.as_ref(), &reason);
                if up.is_some() {
                    self.dial_again(&reason);
                }
                let reason = self.grievance.take().unwrap_or_else(|| reason.to_string());
                self.report.down(reason);
                self.joining = None;
                self.wanted.clear();
                self.owed = Owed::default();
                self.dialing = None;
                self.resting = None;
                self.liveness.session_ended();
                self.asking = Asking::default();
                // The leaf may have been declared since to take weights over BGP.
                self.offer();
                if let (Some(ownership), Some((parting, ours))) = (&mut self.ownership, parting) {
                    ownership.end(parting, ours, now());
                }
            }
        }
        None
    }

    fn send(&mut self, side: Side, message: &Message) {
        let Some(octets) = self.write(side, message) else {
            return;
        };
        self.report.sent(message.kind(), 1);
        if message.kind() == MessageKind::Open {
            self.report.opened(side, Direction::Sent, octets);
        }
    }

    /// Queues a message without counting it. Returns its octets, if there is a connection.
    fn write(&mut self, side: Side, message: &Message) -> Option<Bytes> {
        let (context, _) = self.session.decode_context(side);
        let connection = self.connections[side as usize].as_mut()?;
        connection.said = true;
        let octets = message.encode(&context);
        let order = Order::Control(octets.clone());
        if connection.orders.try_send(order).is_err() {
            // A peer that takes not even keepalives: RFC 9687's timer ends it.
            tracing::debug!(peer = %self.setup.address, "control message not queued");
        }
        Some(octets)
    }

    /// Closes a connection, or gives up the dial for one; one that has arrived on the same side takes its place.
    fn close(&mut self, side: Side) {
        let place = &mut self.connections[side as usize];
        if side == Side::Outgoing && place.is_none() {
            self.dialing = None;
        }
        let arrived = self.arrived.take_if(|_| side == Side::Incoming);
        if let Some(connection) = std::mem::replace(place, arrived) {
            let lingers = connection.said && self.ending.len() < ENDING_MAX;
            self.ending.spawn(connection.end(lingers));
        }
    }

    async fn established(&mut self, side: Side, negotiated: Negotiated) {
        let kind = self
            .setup
            .group
            .kind(negotiated.peer.asn, self.shared.local.asn);
        tracing::info!(peer = %self.setup.address, id = %negotiated.peer, %kind, "session established");
        self.report.up(&negotiated);
        let claimed = self
            .shared
            .claim_identity(negotiated.peer, self.setup.address);
        if let Err(holder) = claimed {
            return self.collide(negotiated.peer, holder);
        }
        self.pace();
        let terms = self.terms(&negotiated);
        match self
            .ownership
            .as_mut()
            .filter(|ownership| ownership.stake.peer() == negotiated.peer)
        {
            Some(ownership) => ownership.resume(terms, now()),
            None => {
                self.retire();
                let (peer, address) = (negotiated.peer, self.setup.address);
                self.ownership = Ownership::begin(&self.shared, peer, address, terms, now()).await;
            }
        }
        if let Some(rival) = self.take_rival() {
            return self.collide(negotiated.peer, rival);
        }
        self.shared.saw_restart(self.setup.address);
        self.companions.begin(now());
        self.stop_dialing();
        self.watch_path(side).await;
        let exporting = Exporting::new(self.exports(&negotiated, side));
        self.shared.losses.gain();
        self.up = Some(Up {
            side,
            negotiated,
            exporting,
        });
        self.begin_telling();
        self.begin_guessing();
        self.show_begin();
    }

    /// What becomes of the peer's paths if its session, or an attempt at one, has ended for `reason`, and whether
    /// that is rather our fault.
    fn parting(&self, up: Option<&Up>, reason: &DownReason) -> Option<(Parting, bool)> {
        let intent = match self.stopping {
            Some(_) => Intent::Stop,
            None if self.leaving => Intent::Leave,
            None => Intent::Serve,
        };
        let negotiated = up.map(|up| &up.negotiated);
        let parting = restart::ended(intent, &self.setup.group, negotiated, reason);
        let ours = up.is_some() && self.shared.losses.lose(reason, now());
        let ours = ours && intent == Intent::Serve;
        if ours {
            tracing::error!(peer = %self.setup.address, "most peers fell silent at once: this one need not be dead");
        }
        Some((parting?, ours))
    }

    /// A peer that came back under another identity: the old one is taken away on its own.
    fn retire(&mut self) {
        if let Some(mut old) = self.ownership.take() {
            old.end(Parting::Gone, false, now());
            tokio::spawn(async move {
                while !old.is_done() {
                    old.turn(now()).await;
                }
            });
        }
    }

    fn learn(&mut self, update: &Update) -> Option<DecodeError> {
        if let Some(fault) = update.faults.first()
            && let Some(count) = self.report.malformed(&fault.fault)
        {
            tracing::warn!(
                peer = %self.setup.address, fault = %fault.fault, offset = fault.offset, count,
                "malformed UPDATE"
            );
        }
        let dropped = self.setup.group.attributes.dropped(&update.attributes);
        for (attribute, count) in self.report.dropped(&dropped) {
            tracing::info!(peer = %self.setup.address, attribute, count, "attribute dropped");
        }
        let ownership = self.ownership.as_mut()?;
        match ownership.learn(update, now()) {
            Ok(learned) => {
                self.judged(&learned);
                self.heard(&learned);
                if !update.faults.is_empty() {
                    self.show_healed(update);
                }
                None
            }
            Err(error) => Some(error),
        }
    }
}

fn session_config(
    shared: &Shared,
    setup: &Setup,
    dialed_until: Option<Instant>,
    company: Company,
) -> SessionConfig {
    let seed = super::seed(setup.address, shared.replica);
    let weighted = shared.weights.is_for(setup.address);
    let config = offer::session(
        &setup.group,
        &shared.local,
        &shared.hostname,
        seed,
        (company, weighted),
    );
    let connect_retry = match dialed_until {
        Some(_) => config.connect_retry.min(dialing::EVERY),
        None => config.connect_retry,
    };
    SessionConfig {
        passive: config.passive || (setup.dynamic && dialed_until.is_none()),
        connect_retry,
        ..config
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Waits for octets, unless the peer has spent its rate, or for the writer; for ever pending without a
/// connection.
async fn watch(place: &mut Option<Connection>, resting: bool) -> Happened {
    let Some(connection) = place else {
        return std::future::pending().await;
    };
    if connection.buffer.capacity() - connection.buffer.len() < READ_OCTETS / 2 {
        connection.buffer.reserve(READ_OCTETS);
    }
    tokio::select! {
        read = connection.socket.read_buf(&mut connection.buffer), if !resting => match read {
            Ok(0) | Err(_) => Happened::Ended,
            Ok(_) => Happened::Octets,
        },
        Some(event) = connection.events.recv() => Happened::Wrote(event),
    }
}

async fn own(place: &mut Option<Ownership>) -> Learned {
    match place {
        Some(ownership) if !ownership.is_done() => ownership.turn(now()).await,
        _ => std::future::pending().await,
    }
}

async fn pending_or<T>(place: &mut Option<BoxFuture<'static, T>>) -> T {
    match place {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

fn now() -> Instant {
    Instant::now()
}

/// Control messages that may wait for a blocked peer.
const ORDERS_MAX: usize = 64;
const EVENTS_MAX: usize = 8;
/// Room for a full extended message, RFC 8654.
const READ_OCTETS: usize = 1 << 17;
/// Messages decoded before others get their turn.
const YIELD_EVERY: u32 = 64;
/// ... or for so long.
const YIELD_AFTER: std::time::Duration = std::time::Duration::from_millis(5);
/// Look again now and then, whatever happens.
const IDLE: std::time::Duration = std::time::Duration::from_secs(60);
/// How long a connection may be silent before another one of the same peer replaces it.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(3);
/// How long a peer gets to take our Cease.
const CLOSE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);
/// How long a peer gets to close its end.
const LINGER: std::time::Duration = std::time::Duration::from_secs(1);
/// Connections that get so much time at once; whoever dials more often than that hears less.
const ENDING_MAX: usize = 8;
/// How long the daemon waits for the last words.
const STOP_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3);
