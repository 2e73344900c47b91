//! Numbered UDP packets from one node to another, many flows at a steady rate, and which of them arrived.
//! It does not know what lies between the nodes.

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::sys::socket::{setsockopt, sockopt};

use crate::{
    clock,
    failure::{Context, Failure},
    namespace::Namespace,
};

/// Where flows begin and end.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    /// The node that sends.
    pub(crate) from: Namespace,
    /// The node that counts.
    pub(crate) to: Namespace,
    /// The address of the node that counts.
    pub(crate) address: Ipv4Addr,
}

/// Flows that are being sent and counted.
pub(crate) struct Flows {
    begun: Instant,
    enough: Arc<AtomicBool>,
    sender: JoinHandle<io::Result<Vec<Vec<Duration>>>>,
    sent_all: Arc<AtomicBool>,
    receiver: JoinHandle<io::Result<Vec<Vec<bool>>>>,
}

/// What was sent, when, and whether it arrived.
#[derive(Debug, Default)]
pub(crate) struct Count {
    /// By flow and number: time since the beginning.
    sent: Vec<Vec<Duration>>,
    /// By flow and number.
    arrived: Vec<Vec<bool>>,
}

impl Flows {
    /// Begins to send `per_second` packets of all flows together, one source port each, in turn.
    pub(crate) fn start(route: &Route, ports: &[u16], per_second: u32) -> Result<Self, Failure> {
        let sockets = senders(&route.from, ports)?;
        let to = SocketAddrV4::new(route.address, PORT);
        let counter = receiver(route)?;
        let (enough, sent_all) = (Arc::default(), Arc::default());
        let flag = Arc::clone(&sent_all);
        let flows = ports.len();
        let receiver = thread::spawn(move || count(&counter, flows, &flag));
        let flag = Arc::clone(&enough);
        let begun = Instant::now();
        let gap = Duration::from_secs(1) / per_second;
        let sender = thread::spawn(move || send(&sockets, to, (begun, gap), &flag));
        Ok(Self {
            begun,
            enough,
            sender,
            sent_all,
            receiver,
        })
    }

    /// Time since the first packet.
    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Ends sending, waits for what is on its way, and counts.
    pub(crate) fn stop(self) -> Result<Count, Failure> {
        let joined = |_| Failure::new("a thread of the traffic panicked");
        self.enough.store(true, Ordering::Relaxed);
        let sent = self.sender.join().map_err(joined)?;
        clock::settle(ON_ITS_WAY);
        self.sent_all.store(true, Ordering::Relaxed);
        let arrived = self.receiver.join().map_err(joined)?;
        Ok(Count {
            sent: sent.context(|| "sending".to_owned())?,
            arrived: arrived.context(|| "counting".to_owned())?,
        })
    }
}

impl Count {
    /// Packets that were sent.
    pub(crate) fn sent(&self) -> usize {
        self.sent.iter().map(Vec::len).sum()
    }

    /// Packets that were sent from `from` on and before `until`, and did not arrive.
    pub(crate) fn lost(&self, from: Duration, until: Duration) -> usize {
        let lost = |flow| self.losses(flow, from, until).count();
        (0..self.sent.len()).map(lost).sum()
    }

    /// Flows that lost a packet then.
    pub(crate) fn flows_hit(&self, from: Duration, until: Duration) -> usize {
        let hit = |flow: &usize| self.losses(*flow, from, until).next().is_some();
        (0..self.sent.len()).filter(hit).count()
    }

    /// Time from the first to the last packet that was lost then.
    pub(crate) fn outage(&self, from: Duration, until: Duration) -> Duration {
        let flows = 0..self.sent.len();
        let mut losses: Vec<Duration> = flows
            .flat_map(|flow| self.losses(flow, from, until))
            .collect();
        losses.sort();
        match (losses.first(), losses.last()) {
            (Some(first), Some(last)) => *last - *first,
            _ => Duration::ZERO,
        }
    }

    fn losses(
        &self,
        flow: usize,
        from: Duration,
        until: Duration,
    ) -> impl Iterator<Item = Duration> + '_ {
        let numbered = self.sent[flow].iter().copied().enumerate();
        numbered
            .filter(move |(number, at)| {
                *at >= from && *at < until && self.arrived[flow].get(*number) != Some(&true)
            })
            .map(|(_, at)| at)
    }
}

/// One socket for each source port, made in the node that sends. None is connected: the kernel gives a connected
/// socket a hash by lot, and its packets another way through VXLAN each time.
pub(crate) fn senders(from: &Namespace, ports: &[u16]) -> Result<Vec<UdpSocket>, Failure> {
    let bind = |port: &u16| UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, *port));
    let made = from.inside(|| ports.iter().map(bind).collect::<io::Result<_>>())?;
    made.context(|| format!("sockets of {}", from.0))
}

/// The socket that counts: what waits in it while this machine is busy must fit, or it
/// would count as lost. Reading ends with an error where nothing comes for a moment.
pub(crate) fn receiver(route: &Route) -> Result<UdpSocket, Failure> {
    let made = route.to.inside(|| -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind(SocketAddrV4::new(route.address, PORT))?;
        setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_OCTETS)?;
        socket.set_read_timeout(Some(LOOK_EVERY))?;
        Ok(socket)
    })?;
    made.context(|| format!("socket of {}", route.to.0))
}

fn send(
    sockets: &[UdpSocket],
    to: SocketAddrV4,
    (begun, gap): (Instant, Duration),
    enough: &AtomicBool,
) -> io::Result<Vec<Vec<Duration>>> {
    let mut sent = vec![Vec::new(); sockets.len()];
    for turn in 0_u32.. {
        let due = begun + gap * turn;
        let now = Instant::now();
        if now < due {
            thread::sleep(due - now);
        }
        if enough.load(Ordering::Relaxed) {
            break;
        }
        let flow = turn as usize % sockets.len();
        let number = sent[flow].len();
        sent[flow].push(begun.elapsed());
        sockets[flow].send_to(&packet(flow, number), to)?;
    }
    Ok(sent)
}

fn count(socket: &UdpSocket, flows: usize, sent_all: &AtomicBool) -> io::Result<Vec<Vec<bool>>> {
    let mut arrived = vec![Vec::new(); flows];
    let mut buffer = [0; PACKET_OCTETS];
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                let Some((flow, number)) = numbers(&buffer[..length]) else {
                    continue;
                };
                let Some(seen) = arrived.get_mut(flow) else {
                    continue;
                };
                if seen.len() <= number {
                    seen.resize(number + 1, false);
                }
                seen[number] = true;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if sent_all.load(Ordering::Relaxed) {
                    return Ok(arrived);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// A packet of a flow: both numbers, then zeros.
fn packet(flow: usize, number: usize) -> [u8; PACKET_OCTETS] {
    let mut octets = [0; PACKET_OCTETS];
    octets[..8].copy_from_slice(&(flow as u64).to_be_bytes());
    octets[8..16].copy_from_slice(&(number as u64).to_be_bytes());
    octets
}

fn numbers(octets: &[u8]) -> Option<(usize, usize)> {
    let number = |at: usize| {
        let octets = octets.get(at..at + 8)?.try_into().ok()?;
        usize::try_from(u64::from_be_bytes(octets)).ok()
    };
    Some((number(0)?, number(8)?))
}

/// The port of the node that counts.
pub(crate) const PORT: u16 = 7777;

const PACKET_OCTETS: usize = 64;

/// Seconds of packets, each with the kernel's own bookkeeping.
const BUFFER_OCTETS: usize = 32 << 20;

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A packet crosses the lab in well under a millisecond; a busy machine is given longer.
const ON_ITS_WAY: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(of: &[u64]) -> Vec<Duration> {
        of.iter().map(|ms| Duration::from_millis(*ms)).collect()
    }

    #[test]
    fn what_was_sent_and_did_not_arrive_is_lost_when_it_was_sent() {
        let count = Count {
            sent: vec![ms(&[0, 10, 20, 30]), ms(&[5, 15, 25])],
            arrived: vec![vec![true, false, false, true], vec![true, true]],
        };
        let all = (Duration::ZERO, Duration::MAX);
        assert_eq!((count.sent(), count.lost(all.0, all.1)), (7, 3));
        assert_eq!(count.flows_hit(all.0, all.1), 2);
        assert_eq!(count.outage(all.0, all.1), Duration::from_millis(15));
        let early = (Duration::ZERO, Duration::from_millis(20));
        assert_eq!(count.lost(early.0, early.1), 1);
        assert_eq!(count.flows_hit(early.0, early.1), 1);
    }

    #[test]
    fn a_packet_says_its_flow_and_its_number() {
        assert_eq!(numbers(&packet(63, 70_000)), Some((63, 70_000)));
        assert_eq!(numbers(&[0; 15]), None);
    }
}
