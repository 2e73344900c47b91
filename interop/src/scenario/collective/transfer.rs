//! TCP from host to host, all flows at once, and how long the last of them takes.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Barrier},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::fabric::{Flow, address};
use crate::{
    failure::{Context, Failure},
    lab::Lab,
};

/// Seconds until every flow has sent so many octets, all at once.
pub(super) fn time(lab: &Lab, flows: &[Flow], octets: u64) -> Result<f64, Failure> {
    let (start, mut running) = Running::begin(lab, flows, octets)?;
    for thread in running.threads.drain(..) {
        let joined = thread.join();
        let ended = joined.map_err(|_| Failure::new("a thread of the traffic panicked"))?;
        ended.context(|| "TCP".to_owned())?;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Flows that send.
pub(super) struct Running {
    threads: Vec<JoinHandle<io::Result<()>>>,
    streams: Vec<TcpStream>,
}

impl Running {
    /// All at once, until they are dropped.
    pub(super) fn endless(lab: &Lab, flows: &[Flow]) -> Result<Self, Failure> {
        Self::begin(lab, flows, u64::MAX).map(|(_, running)| running)
    }

    fn begin(lab: &Lab, flows: &[Flow], octets: u64) -> Result<(Instant, Self), Failure> {
        let ends = flows.iter().map(|flow| connect(lab, flow));
        let ends: Vec<(TcpStream, TcpStream)> = ends.collect::<Result<_, _>>()?;
        let streams = ends.iter().map(|(sender, _)| sender.try_clone());
        let streams = streams.collect::<io::Result<_>>();
        let streams = streams.context(|| "TCP".to_owned())?;
        let begin = Arc::new(Barrier::new(2 * flows.len() + 1));
        let mut threads = Vec::new();
        for (sender, receiver) in ends {
            let (ready, also_ready) = (Arc::clone(&begin), Arc::clone(&begin));
            threads.push(thread::spawn(move || {
                ready.wait();
                send(sender, octets)
            }));
            threads.push(thread::spawn(move || {
                also_ready.wait();
                take(receiver, octets)
            }));
        }
        begin.wait();
        Ok((Instant::now(), Self { threads, streams }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for stream in &self.streams {
            let _ended_already = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Both ends of a connection, each made in its host.
fn connect(lab: &Lab, flow: &Flow) -> Result<(TcpStream, TcpStream), Failure> {
    let to = address(&flow.to);
    let listen = || TcpListener::bind((to.as_str(), 0));
    let listener = lab.namespace(&flow.to)?.inside(listen)?;
    let listener = listener.context(|| format!("a port of {}", flow.to))?;
    let at = listener.local_addr().context(|| flow.to.clone())?;
    let dial = || TcpStream::connect_timeout(&at, PATIENCE);
    let sender = lab.namespace(&flow.from)?.inside(dial)?;
    let sender = sender.context(|| format!("{} to {}", flow.from, flow.to))?;
    let (receiver, _) = listener.accept().context(|| flow.to.clone())?;
    Ok((sender, receiver))
}

fn send(mut sender: TcpStream, octets: u64) -> io::Result<()> {
    sender.set_write_timeout(Some(PROGRESS))?;
    let buffer = [0; BUFFER_OCTETS];
    let mut left = octets;
    while left > 0 {
        let part = usize::try_from(left).map_or(BUFFER_OCTETS, |left| left.min(BUFFER_OCTETS));
        left -= sender.write(&buffer[..part])? as u64;
    }
    // The other end says when it has all.
    sender.set_read_timeout(Some(PROGRESS))?;
    sender.read_exact(&mut [0])
}

fn take(mut receiver: TcpStream, octets: u64) -> io::Result<()> {
    receiver.set_read_timeout(Some(PROGRESS))?;
    let mut buffer = vec![0; BUFFER_OCTETS];
    let mut left = octets;
    while left > 0 {
        match receiver.read(&mut buffer)? as u64 {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => left = left.saturating_sub(read),
        }
    }
    receiver.write_all(&[0])
}

const BUFFER_OCTETS: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(5);
/// A flow that stands still for so long is broken.
const PROGRESS: Duration = Duration::from_secs(20);
