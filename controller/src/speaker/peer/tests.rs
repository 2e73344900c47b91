//! A peer's task with a peer at the other end of a pair of sockets, in virtual time. There is no reflector: nobody is told
//! routes, and none are kept.

mod blocked;
mod connections;
mod lingering;
mod paced;
mod reading;
mod reconfigured;
mod restarted;
mod shown;
mod telling;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use weft_bgp::capability::{AddPathSet, Capability};
use weft_bgp::message::{DecodeContext, Notification, Open};
use weft_bgp::peer::RouterId;
use weft_store::Replica;

use super::*;
use crate::consensus;
use crate::monitoring::tap::Taps;
use crate::operator::metrics::Counted;
use crate::reflector::thread;

/// 192.0.2.1, which the replica does not list.
pub(super) const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

/// From a loopback address nobody outside is dialed.
const CONFIG: &str = r#"
    [bgp]
    asn = 64496
    router_id = "192.0.2.254"
    [[bgp.peer_group]]
    name = "leaves"
    source_address = "127.0.0.1"
    limits = { action = "reset", restart_secs = 10 }
    [[bgp.listen_range]]
    prefix = "192.0.2.0/28"
    peer_group = "leaves"
"#;

/// A store that nobody leads, for as long as somebody holds this.
pub(crate) struct Store {
    commands: mpsc::Sender<consensus::Command>,
    thread: Option<JoinHandle<()>>,
    _dir: TempDir,
}

impl Drop for Store {
    /// A process that ends while a thread of its still has the store may not end well.
    fn drop(&mut self) {
        let _ = self.commands.try_send(consensus::Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What peers share.
pub(crate) fn shared(config: &str) -> (Shared, Store) {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::parse(config, "weftd.toml".as_ref()).unwrap();
    let store = weft_store::Config::new(1, vec![1], dir.path(), config.cluster(), 1);
    let replica = Replica::open(store).unwrap();
    let (reflection, _) = thread::channel();
    let (consensus, thread) = consensus::start(
        replica,
        reflection.entries(),
        BTreeMap::new(),
        Counted::new(),
    );
    let store = Store {
        commands: consensus.commands(),
        thread: Some(thread),
        _dir: dir,
    };
    let shared = Shared::new(config, "weft".to_owned(), consensus, reflection);
    (shared, store)
}

/// What peers share over these replicas, where nothing is reflected.
pub(crate) fn shared_over(consensus: consensus::Consensus) -> Shared {
    let config = Config::parse(CONFIG, "weftd.toml".as_ref()).unwrap();
    let (reflection, _) = thread::channel();
    Shared::new(config, "weft".to_owned(), consensus, reflection)
}

/// A task that is driven turn by turn.
pub(in crate::speaker::peer) struct Bench {
    pub(super) shared: Arc<Shared>,
    pub(super) peer: Peer,
    words: mpsc::Sender<Word>,
    _store: Store,
}

impl Bench {
    pub(in crate::speaker::peer) async fn new() -> Self {
        Self::with(CONFIG).await
    }

    pub(super) async fn with(config: &str) -> Self {
        let (shared, store) = shared(config);
        Self::over(shared, store).await
    }

    pub(super) async fn over(shared: Shared, store: Store) -> Self {
        let shared = Arc::new(shared);
        let (peer, words) = begin(&shared).await;
        Self {
            shared,
            peer,
            words,
            _store: store,
        }
    }

    /// The task has ended, and another one is there for the same peer.
    pub(super) async fn begin_anew(&mut self) {
        (self.peer, self.words) = begin(&self.shared).await;
    }

    /// The peer dials.
    pub(super) fn dialed(&self) -> Remote {
        let (ours, theirs) = pair();
        self.words.try_send(Word::Incoming(ours)).ok().unwrap();
        Remote(theirs, BytesMut::new())
    }

    /// Turns until the other end has done this.
    pub(super) async fn until<T: Send + 'static>(
        &mut self,
        script: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let (words, done) = (self.words.clone(), Arc::new(AtomicBool::new(false)));
        let is_done = Arc::clone(&done);
        let script = tokio::spawn(async move {
            let said = script.await;
            done.store(true, Ordering::Relaxed);
            let (tap, _) = Taps::default().open();
            // A word that changes nothing ends the turn.
            let _ = words.send(Word::Show(tap)).await;
            said
        });
        let hears = |peer: &Peer| peer.stopping.is_none() && !peer.words.is_empty();
        while !is_done.load(Ordering::Relaxed) || hears(&self.peer) {
            self.peer.turn().await;
        }
        script.await.unwrap()
    }

    pub(super) async fn pass(&mut self, time: Duration) {
        self.until(tokio::time::sleep(time)).await;
    }

    /// From now on this configuration holds, as after a reload.
    pub(super) fn reload(&self, config: &str) {
        let config = Config::parse(config, "weftd.toml".as_ref()).unwrap();
        self.shared.config.send_replace(Arc::new(config));
    }

    /// The peer dials, and its OPEN is there already.
    pub(super) fn dialed_with(&self, open: Open) -> Remote {
        let (ours, remote) = opened(open);
        self.words.try_send(Word::Incoming(ours)).ok().unwrap();
        remote
    }

    /// The peer dials with this OPEN; the last message before the connection is closed.
    pub(super) async fn last_words(&mut self, open: Open) -> Option<Notification> {
        let remote = self.dialed_with(open);
        self.until(remote.hear_out()).await
    }

    /// The peer dials and gets a session, or is refused.
    pub(super) async fn session(&mut self) -> Option<Remote> {
        self.session_of(open()).await
    }

    /// The same of a peer that says this.
    pub(super) async fn session_of(&mut self, open: Open) -> Option<Remote> {
        let mut remote = self.dialed();
        let remote = self.until(async move {
            remote.say(&Message::Open(open)).await;
            let Some(Message::Open(_)) = remote.hear().await else {
                return None;
            };
            remote.say(&Message::Keepalive).await;
            while remote.hear().await? != Message::Keepalive {}
            Some(remote)
        });
        let remote = remote.await?;
        while self.peer.up.is_none() {
            self.peer.turn().await;
        }
        Some(remote)
    }
}

async fn begin(shared: &Arc<Shared>) -> (Peer, mpsc::Sender<Word>) {
    let (words, inbox) = mpsc::channel(4);
    let setup = shared.setup(ADDRESS).unwrap();
    let report = Report::new(setup.group.name.clone(), setup.dynamic, Default::default());
    let mut peer = Peer::new(Arc::clone(shared), setup, None, inbox, report);
    peer.input(Input::Start).await;
    (peer, words)
}

/// The other end of a connection.
pub(super) struct Remote(TcpStream, BytesMut);

impl Remote {
    pub(super) async fn say(&mut self, message: &Message) {
        self.say_octets(&message.encode(&CONTEXT)).await;
    }

    pub(super) async fn say_octets(&mut self, octets: &[u8]) {
        // Who is refused may find that out here.
        let _ = self.0.write_all(octets).await;
    }

    /// The next message; `None`: the connection was closed.
    pub(super) async fn hear(&mut self) -> Option<Message> {
        loop {
            if let Some(frame) = frame::split(&mut self.1, frame::MAX_LEN_EXTENDED).unwrap() {
                return Some(Message::decode(frame, &CONTEXT).unwrap());
            }
            if !matches!(self.0.read_buf(&mut self.1).await, Ok(1..)) {
                return None;
            }
        }
    }

    /// The last words before the connection is closed.
    pub(super) async fn hear_out(mut self) -> Option<Notification> {
        let mut last = None;
        while let Some(message) = self.hear().await {
            last = Some(message);
        }
        match last {
            Some(Message::Notification(notification)) => Some(notification),
            Some(_) | None => None,
        }
    }
}

/// Sockets without addresses: what is written at one end is there at the other at once.
fn pair() -> (TcpStream, TcpStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let [ours, theirs] = [ours, theirs].map(|end| {
        end.set_nonblocking(true).unwrap();
        TcpStream::from_std(OwnedFd::from(end).into()).unwrap()
    });
    (ours, theirs)
}

/// Sockets as those of [`pair`], of which the other end has sent an OPEN and a KEEPALIVE.
fn opened(open: Open) -> (TcpStream, Remote) {
    let (ours, theirs) = pair();
    let messages = [Message::Open(open), Message::Keepalive];
    let octets = messages.map(|message| message.encode(&CONTEXT)).concat();
    // The runtime is not asked: its time may pass meanwhile.
    socket2::SockRef::from(&theirs).send(&octets).unwrap();
    (ours, Remote(theirs, BytesMut::new()))
}

/// Not more than this waits in the socket for the other end, whatever the machine's default is.
pub(super) fn small_buffer(socket: &TcpStream) {
    let socket = socket2::SockRef::from(socket);
    socket.set_send_buffer_size(1 << 16).unwrap();
}

fn open() -> Open {
    Open {
        asn: 64_496,
        hold_secs: 90,
        router_id: RouterId(0xc000_0201),
        capabilities: vec![
            Capability::MultiProtocol(Family::L2VPN_EVPN),
            Capability::RouteRefresh,
            Capability::FourOctetAs(64_496),
        ],
    }
}

const CONTEXT: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: true,
    extended_message: false,
    add_path: AddPathSet::NONE,
};
