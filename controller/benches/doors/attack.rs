//! The attacks: where each goes, how many attack, and what one of them does with a connection. A process of their own runs them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::caller::Caller;
use crate::network::{At, Door, Sources};
use crate::{calls, jobs, routes, switch};

/// One attack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) door: Door,
    kind: Kind,
}

/// Action of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    None,
    Rate,
    Silent,
    Drip,
    Slow1,
    Slow2,
    Streams,
    Exports,
    Hanging,
    Headers1,
    Headers2,
    Reset,
    Claim,
    Endless1,
    Endless2,
    SwitchGet,
    SwitchStatus,
    SwitchErrors,
    Jobs,
    Routes,
    /// As `doors.py` does it.
    Python,
}

const fn attack(name: &'static str, door: Door, kind: Kind) -> Attack {
    Attack { name, door, kind }
}

/// All of them, in the order of the table.
#[rustfmt::skip]
pub(crate) const ATTACKS: &[Attack] = &[
    attack("none", Door::Api, Kind::None),
    attack("rate-bgp", Door::Bgp, Kind::Rate),
    attack("rate-raft", Door::Raft, Kind::Rate),
    attack("rate-api", Door::Api, Kind::Rate),
    attack("rate-metrics", Door::Metrics, Kind::Rate),
    attack("rate-agent", Door::Agent, Kind::Rate),
    attack("silent-bgp", Door::Bgp, Kind::Silent),
    attack("silent-raft", Door::Raft, Kind::Silent),
    attack("silent-api", Door::Api, Kind::Silent),
    attack("silent-metrics", Door::Metrics, Kind::Silent),
    attack("silent-agent", Door::Agent, Kind::Silent),
    attack("octets-bgp", Door::Bgp, Kind::Drip),
    attack("octets-raft", Door::Raft, Kind::Drip),
    attack("octets-api", Door::Api, Kind::Drip),
    attack("octets-metrics", Door::Metrics, Kind::Drip),
    attack("octets-agent", Door::Agent, Kind::Drip),
    attack("slow-http1", Door::Api, Kind::Slow1),
    attack("slow-http2", Door::Api, Kind::Slow2),
    attack("slow-metrics", Door::Metrics, Kind::Slow1),
    attack("streams-api", Door::Api, Kind::Streams),
    attack("streams-raft", Door::Raft, Kind::Streams),
    attack("streams-agent", Door::Agent, Kind::Streams),
    attack("exports", Door::Api, Kind::Exports),
    attack("hanging-apply", Door::Api, Kind::Hanging),
    attack("headers-http1", Door::Api, Kind::Headers1),
    attack("headers-http2", Door::Api, Kind::Headers2),
    attack("headers-metrics", Door::Metrics, Kind::Headers1),
    attack("resets", Door::Api, Kind::Reset),
    attack("claim-api", Door::Api, Kind::Claim),
    attack("claim-raft", Door::Raft, Kind::Claim),
    attack("claim-bgp", Door::Bgp, Kind::Claim),
    attack("endless-http1", Door::Api, Kind::Endless1),
    attack("endless-http2", Door::Api, Kind::Endless2),
    attack("switch-get", Door::Api, Kind::SwitchGet),
    attack("switch-status", Door::Api, Kind::SwitchStatus),
    attack("switch-errors", Door::Api, Kind::SwitchErrors),
    attack("jobs", Door::Api, Kind::Jobs),
    attack("routes", Door::Bgp, Kind::Routes),
    attack("python-silent", Door::Api, Kind::Python),
    attack("python-slow", Door::Api, Kind::Python),
    attack("python-streams", Door::Api, Kind::Python),
    attack("python-hanging", Door::Api, Kind::Python),
];

impl Attack {
    /// For a person.
    pub(crate) fn text(&self) -> &'static str {
        match self.kind {
            Kind::None => "nobody attacks",
            Kind::Rate => "1,000 connections a second, each for a second",
            Kind::Silent => "12,000 connections that send nothing",
            Kind::Drip => "500 connections that send an octet a second",
            Kind::Slow1 => "500 connections of HTTP/1.1 that ask for much and read nothing",
            Kind::Slow2 => "500 connections of HTTP/2 that ask for much and read nothing",
            Kind::Streams => {
                "10,000 streams on one connection, or 256 on each of 250, each with the begin of a message"
            }
            Kind::Exports => "200 ExportMrt at once that take nothing",
            Kind::Hanging => "2 ApplyFabric on a connection that send nothing",
            Kind::Headers1 => "headers of 1 MiB over HTTP/1.1",
            Kind::Headers2 => "headers of 1 MiB over HTTP/2",
            Kind::Reset => "a million streams that are reset at once",
            Kind::Claim => "a message that claims 4 GiB (BGP: 64 KiB), and octets of it",
            Kind::Endless1 => "a body over HTTP/1.1 without end",
            Kind::Endless2 => "an ApplyFabric with parts without end",
            Kind::SwitchGet => "a switch that answers Get without end",
            Kind::SwitchStatus => "a switch that sends statuses of 16 MiB",
            Kind::SwitchErrors => "a switch whose error texts have newlines",
            Kind::Jobs => "jobs of 600 KiB without end",
            Kind::Routes => {
                "a leaf that announces routes without end, each with attributes of its own"
            }
            Kind::Python => "the same by Python's grpcio",
        }
    }

    /// Returns true if it can come from these sources: a switch, a job client and Python have IPv4 addresses, Raft listens at one.
    pub(crate) fn comes_from(&self, sources: Sources) -> bool {
        match sources {
            Sources::One => true,
            Sources::Many => !self.is_python() && self.kind != Kind::None,
            Sources::Subnet | Sources::Subnets => {
                let alone = self.is_switch()
                    || self.is_python()
                    || matches!(self.kind, Kind::None | Kind::Jobs);
                !alone && self.door != Door::Raft
            }
        }
    }

    /// Returns true if `doors.py` runs it.
    pub(crate) fn is_python(&self) -> bool {
        self.kind == Kind::Python
    }

    /// Returns the callers that ask meanwhile.
    pub(crate) fn callers(&self) -> &'static [Caller] {
        match (self.kind, self.door) {
            (Kind::Hanging, _) => &[Caller::Read, Caller::Apply],
            (Kind::Python, _) if self.name == "python-hanging" => &[Caller::Read, Caller::Apply],
            (_, Door::Metrics) => &[Caller::Read, Caller::Scrape],
            _ => &[Caller::Read],
        }
    }

    /// Returns true if the attacker is a switch that weft dials.
    pub(crate) fn is_switch(&self) -> bool {
        matches!(
            self.kind,
            Kind::SwitchGet | Kind::SwitchStatus | Kind::SwitchErrors
        )
    }

    /// How many times as long as others it lasts: until something is full.
    pub(crate) fn times(&self) -> u32 {
        match self.kind {
            Kind::Jobs => 12,
            Kind::Routes => 4,
            _ => 1,
        }
    }

    /// Returns true if it leaves facts behind, so that memory counts after a restart too.
    pub(crate) fn lasts(&self) -> bool {
        matches!(self.kind, Kind::Jobs | Kind::Routes)
    }

    /// Returns true if it asks for more than a bound permits, so that refusals must be counted.
    pub(crate) fn exceeds(&self, sources: Sources) -> bool {
        let of_one =
            matches!(self.kind, Kind::Silent | Kind::Exports | Kind::Streams) && sources.is_one();
        (of_one || self.lasts()) && self.door != Door::Agent
    }

    /// Attacks a replica for some time.
    pub(crate) async fn run(&self, sources: Sources, replica: u8, lasting: Duration) {
        let until = Instant::now() + lasting;
        let at = At {
            replica,
            family: sources.family(),
        };
        let aim = Arc::new(Aim::new(at.door(self.door), sources, until));
        let each = aim.sources.len();
        // Of attacks with one connection of each source.
        let connections = if sources.is_one() { 1 } else { each };
        let second = Duration::from_secs(1);
        let tenth = Duration::from_millis(100);
        let door = self.door;
        let done = async {
            match self.kind {
                Kind::Rate => aim.keep(1_000, second, hold).await,
                Kind::Silent => aim.keep(12_000, second, silent).await,
                Kind::Drip => {
                    aim.keep(500, second, move |stream, _| drip(stream, door))
                        .await
                }
                Kind::Slow1 => {
                    aim.keep(500, second, move |stream, _| slow(stream, door))
                        .await
                }
                Kind::Slow2 => aim.keep(500, second, calls::slow).await,
                Kind::Streams => {
                    let count = if connections == 1 { 10_000 } else { 256 };
                    let work = move |stream, _| calls::streams(stream, door, count);
                    aim.keep(connections, second, work).await;
                }
                Kind::Exports => {
                    let (connections, exports) = if connections == 1 { (1, 200) } else { (200, 1) };
                    aim.keep(connections, tenth, move |stream, _| {
                        calls::exports(stream, exports)
                    })
                    .await;
                }
                Kind::Hanging => aim.keep(connections.min(16), tenth, calls::hanging).await,
                Kind::Headers2 => aim.keep(16, Duration::ZERO, calls::headers).await,
                Kind::Headers1 => aim.keep(16, Duration::ZERO, headers).await,
                Kind::Reset => {
                    aim.keep(connections.min(16), Duration::ZERO, calls::resets)
                        .await
                }
                Kind::Claim if door == Door::Bgp => aim.keep(16, tenth, routes::claim).await,
                Kind::Claim => {
                    aim.keep(16, tenth, move |stream, _| calls::claim(stream, door))
                        .await
                }
                Kind::Endless1 => aim.keep(50, tenth, endless).await,
                Kind::Endless2 => aim.keep(50, tenth, calls::endless).await,
                Kind::SwitchGet => switch::serve(switch::Answer::Get).await,
                Kind::SwitchStatus => switch::serve(switch::Answer::Status).await,
                Kind::SwitchErrors => switch::serve(switch::Answer::Error).await,
                Kind::Jobs => jobs::create(&aim).await,
                Kind::Routes => aim.keep(connections, second, routes::announce).await,
                Kind::None | Kind::Python => {}
            }
        };
        let _over = tokio::time::timeout_at(until, done).await;
        aim.report();
    }
}

/// Where an attack goes, where it comes from, and what came of it.
pub(crate) struct Aim {
    pub(crate) door: SocketAddr,
    pub(crate) sources: Vec<IpAddr>,
    until: Instant,
    /// Connections that may be on their way at one time.
    gate: Semaphore,
    opened: AtomicU64,
    failed: AtomicU64,
    /// Other things that were done, such as jobs that were taken and refused.
    pub(crate) taken: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Aim {
    fn new(door: SocketAddr, sources: Sources, until: Instant) -> Self {
        Self {
            door,
            sources: sources.addresses(),
            until,
            gate: Semaphore::new(500),
            opened: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Keeps so many connections, each opened again when its work has ended, and at most once in a while.
    async fn keep<W>(
        self: &Arc<Self>,
        count: usize,
        every: Duration,
        work: impl Fn(TcpStream, IpAddr) -> W + Copy + Send + Sync + 'static,
    ) where
        W: Future<Output = io::Result<()>> + Send + 'static,
    {
        let mut workers = tokio::task::JoinSet::new();
        for number in 0..count {
            let (aim, source) = (Arc::clone(self), self.sources[number % self.sources.len()]);
            workers.spawn(async move {
                while Instant::now() < aim.until {
                    let next = Instant::now() + every;
                    match aim.connect(source).await {
                        Ok(stream) => {
                            aim.opened.fetch_add(1, Ordering::Relaxed);
                            let _refused = work(stream, source).await;
                        }
                        Err(_) => {
                            aim.failed.fetch_add(1, Ordering::Relaxed);
                            sleep(every.max(PAUSE)).await;
                        }
                    }
                    sleep_until(next).await;
                    tokio::task::yield_now().await;
                }
            });
        }
        sleep_until(self.until).await;
    }

    async fn connect(&self, source: IpAddr) -> io::Result<TcpStream> {
        let _place = self.gate.acquire().await.map_err(io::Error::other)?;
        let socket = if source.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        socket.bind(SocketAddr::from((source, 0)))?;
        let stream = timeout(PATIENCE, socket.connect(self.door)).await??;
        // No TIME_WAIT: a port of a source is free again at once.
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        Ok(stream)
    }

    #[expect(
        clippy::disallowed_macros,
        reason = "what is said to the process that began this one"
    )]
    fn report(&self) {
        let counted = [
            (&self.opened, "connections opened"),
            (&self.failed, "not opened"),
            (&self.taken, "accepted"),
            (&self.refused, "refused"),
        ];
        let counted = counted.map(|(count, name)| (count.load(Ordering::Relaxed), name));
        let counted = counted.iter().filter(|(count, _)| *count > 0);
        let counted: Vec<_> = counted
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        println!("{}", counted.join(", "));
    }
}

async fn hold(stream: TcpStream, _: IpAddr) -> io::Result<()> {
    sleep(Duration::from_millis(900)).await;
    drop(stream);
    Ok(())
}

/// Sends nothing until the other end closes.
async fn silent(mut stream: TcpStream, _: IpAddr) -> io::Result<()> {
    let mut octets = [0; 512];
    while stream.read(&mut octets).await? > 0 {}
    Ok(())
}

/// Sends what could become something, an octet a second.
async fn drip(mut stream: TcpStream, door: Door) -> io::Result<()> {
    let begin: &[u8] = match door {
        Door::Bgp => &[0xff; 16],
        Door::Raft | Door::Agent => crate::http2::PREFACE,
        Door::Api | Door::Metrics => b"GET /metrics HTTP/1.1\r\nHost: 10.99.1.1\r\nx: ",
    };
    for octet in begin.iter().chain(std::iter::repeat(&b'x')) {
        stream.write_all(&[*octet]).await?;
        sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// Asks for pages over and over, and reads none.
async fn slow(mut stream: TcpStream, door: Door) -> io::Result<()> {
    SockRef::from(&stream).set_recv_buffer_size(4096)?;
    let page = if door == Door::Metrics {
        "/metrics"
    } else {
        "/v1/routes?page_size=1000"
    };
    let request = format!("GET {page} HTTP/1.1\r\nHost: 10.99.1.1\r\n\r\n");
    loop {
        stream.write_all(request.as_bytes()).await?;
    }
}

/// A header of 1 MiB.
async fn headers(mut stream: TcpStream, _: IpAddr) -> io::Result<()> {
    let line = format!("x: {}\r\n", "x".repeat(1000));
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: 10.99.1.1\r\n")
        .await?;
    for _ in 0..1_046 {
        stream.write_all(line.as_bytes()).await?;
    }
    stream.write_all(b"\r\n").await?;
    Ok(())
}

/// A body of chunks without end; and one that claims 4 GiB.
async fn endless(mut stream: TcpStream, source: IpAddr) -> io::Result<()> {
    let is_odd = source.is_ipv6();
    let length = if is_odd {
        "Content-Length: 4294967296"
    } else {
        "Transfer-Encoding: chunked"
    };
    let head = format!(
        "POST /v1/fabric:apply HTTP/1.1\r\nHost: 10.99.1.1\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let blank = " ".repeat(0x4000);
    let chunk = if is_odd {
        blank
    } else {
        format!("4000\r\n{blank}\r\n")
    };
    loop {
        stream.write_all(chunk.as_bytes()).await?;
    }
}

const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);
