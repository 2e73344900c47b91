//! Two real leaves: one changes its routes a hundred times a second, the other receives them. The time between is that of weft.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use tokio::time::{Instant, sleep};
use weft_bgp::frame;
use weft_bgp::message::Message;
use weft_bgp::nlri::Nlri;
use weft_bgp::wire::Writer;

use crate::lone::{CONTEXT, announce, deaf, route, session, update};
use crate::network::{At, Door, Family};

/// The changes so far. The number of a change is its MULTI_EXIT_DISC.
pub(crate) struct Leaves {
    begin: Instant,
    /// Microseconds from the begin until a change was sent, and until it was received; 0: not yet.
    changes: Vec<[AtomicU64; 2]>,
    next: AtomicUsize,
}

impl Leaves {
    /// Opens both sessions to a replica, announces many routes once, and begins to change some of them.
    pub(crate) async fn start(at: At, routes: u32) -> Arc<Self> {
        let bgp = At {
            family: Family::V4,
            ..at
        }
        .door(Door::Bgp);
        let leaf = |number: u8| {
            let address = Ipv4Addr::new(10, 99, 3, number);
            session(address.into(), address, bgp)
        };
        let leaves = Arc::new(Self {
            begin: Instant::now(),
            changes: (0..CHANGES_MAX).map(|_| Default::default()).collect(),
            next: AtomicUsize::new(0),
        });
        let receiver = leaf(2);
        let mut sender = leaf(1);
        deaf(&sender);
        let receiving = Arc::clone(&leaves);
        std::thread::spawn(move || receiving.receive(receiver));
        let sending = Arc::clone(&leaves);
        std::thread::spawn(move || {
            announce(&mut sender, 0, u32::from(HOSTS)..u32::from(HOSTS) + routes);
            sending.send(sender);
        });
        let late = Instant::now() + Duration::from_secs(60);
        while leaves.took(10) == 0 {
            assert!(Instant::now() < late, "the receiving leaf receives nothing");
            sleep(Duration::from_millis(20)).await;
        }
        leaves
    }

    /// Number of the next change.
    pub(crate) fn next(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// The 99th percentile of the times of changes since a number. A change that does not arrive within some seconds counts as
    /// if it did then.
    pub(crate) async fn p99_since(&self, first: usize) -> Duration {
        let last = self.next();
        let late = Instant::now() + PATIENCE;
        while (first..last).any(|number| self.took(number) == 0) && Instant::now() < late {
            sleep(Duration::from_millis(50)).await;
        }
        let never = u64::try_from(PATIENCE.as_micros()).unwrap();
        let mut took: Vec<_> = (first..last).map(|number| self.took(number)).collect();
        took.iter_mut()
            .filter(|took| **took == 0)
            .for_each(|took| *took = never);
        took.sort_unstable();
        let at = (took.len() * 99).div_ceil(100).saturating_sub(1);
        Duration::from_micros(took.get(at).copied().unwrap_or(never))
    }

    fn took(&self, number: usize) -> u64 {
        let [sent, received] = self.changes[number]
            .each_ref()
            .map(|it| it.load(Ordering::Relaxed));
        received.saturating_sub(sent)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap()
    }

    #[expect(clippy::disallowed_methods, reason = "changes come at a steady rate")]
    fn send(&self, mut leaf: TcpStream) {
        for number in 0..CHANGES_MAX {
            let host = u32::try_from(number % usize::from(HOSTS)).unwrap();
            let mut nlri = Writer::new();
            route(0, host, 100).encode(&mut nlri);
            let med = u32::try_from(number).unwrap();
            self.changes[number][0].store(self.now().max(1), Ordering::Relaxed);
            self.next.store(number + 1, Ordering::Relaxed);
            if leaf.write_all(&update(0, nlri, Some(med))).is_err() {
                return;
            }
            std::thread::sleep(EVERY);
        }
    }

    fn receive(&self, mut leaf: TcpStream) {
        let (mut buffer, mut octets) = (BytesMut::new(), vec![0; 1 << 16]);
        while let Ok(count @ 1..) = leaf.read(&mut octets) {
            buffer.extend_from_slice(&octets[..count]);
            while let Ok(Some(frame)) = frame::split(&mut buffer, frame::MAX_LEN) {
                if let Ok(Message::Update(update)) = Message::decode(frame, &CONTEXT)
                    && let Some(number) = update.attributes.med
                {
                    self.received(number as usize);
                }
            }
        }
    }

    /// Notes a change, and those of the same route before that it has taken the place of.
    fn received(&self, number: usize) {
        let now = self.now();
        let older = std::iter::successors(Some(number), |it| it.checked_sub(HOSTS.into()));
        for number in older {
            let received = &self.changes[number][1];
            if received.load(Ordering::Relaxed) != 0 {
                return;
            }
            received.store(now, Ordering::Relaxed);
        }
    }
}

/// That change in turn.
const HOSTS: u8 = 100;
const EVERY: Duration = Duration::from_millis(10);
/// For ten minutes.
const CHANGES_MAX: usize = 60_000;
const PATIENCE: Duration = Duration::from_secs(10);
