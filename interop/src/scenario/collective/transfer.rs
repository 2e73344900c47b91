//! TCP from host to host, all flows at once, and what the slowest of them gets.

use std::{
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    libc::linger,
    sys::socket::{setsockopt, sockopt},
};

use super::fabric::{Flow, address};
use crate::{
    clock,
    failure::{Context, Failure},
    lab::Lab,
};

/// Bits per second of payload that the slowest flow had.
pub(super) fn slowest(lab: &Lab, flows: &[Flow], seconds: u64) -> Result<f64, Failure> {
    let ends = flows.iter().map(|flow| connect(lab, flow));
    let ends: Vec<(TcpStream, TcpStream)> = ends.collect::<Result<_, _>>()?;
    let counters: Vec<Arc<AtomicU64>> = flows.iter().map(|_| Arc::default()).collect();
    let enough = Arc::new(AtomicBool::new(false));
    let begin = Arc::new(Barrier::new(2 * flows.len() + 1));
    let mut threads = Vec::new();
    for ((sender, receiver), counter) in ends.into_iter().zip(&counters) {
        let (enough, ready) = (Arc::clone(&enough), Arc::clone(&begin));
        threads.push(thread::spawn(move || {
            ready.wait();
            send(sender, &enough)
        }));
        let (counter, ready) = (Arc::clone(counter), Arc::clone(&begin));
        threads.push(thread::spawn(move || {
            ready.wait();
            count(receiver, &counter)
        }));
    }
    begin.wait();
    // TCP finds its rate first.
    clock::settle(WARM);
    let read = || -> Vec<u64> {
        let counters = counters.iter();
        counters.map(|it| it.load(Ordering::Relaxed)).collect()
    };
    let (before, start) = (read(), Instant::now());
    clock::settle(Duration::from_secs(seconds));
    let (after, took) = (read(), start.elapsed());
    enough.store(true, Ordering::Relaxed);
    for thread in threads {
        let joined = thread.join();
        let ended = joined.map_err(|_| Failure::new("a thread of the traffic panicked"))?;
        ended.context(|| "TCP".to_owned())?;
    }
    let octets = before
        .iter()
        .zip(&after)
        .map(|(before, after)| after - before);
    let least = octets.min().unwrap_or(0);
    Ok(least as f64 * 8.0 / took.as_secs_f64())
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

fn send(mut sender: TcpStream, enough: &AtomicBool) -> io::Result<()> {
    sender.set_write_timeout(Some(LOOK_EVERY))?;
    let octets = vec![0; BUFFER_OCTETS];
    while !enough.load(Ordering::Relaxed) {
        match sender.write(&octets) {
            Ok(_) => {}
            Err(error) if would_block(&error) => {}
            Err(error) => return Err(error),
        }
    }
    // What waits to be sent is forgotten.
    let (l_onoff, l_linger) = (1, 0);
    setsockopt(&sender, sockopt::Linger, &linger { l_onoff, l_linger })?;
    Ok(())
}

/// Counts until the other end is gone.
fn count(mut receiver: TcpStream, counter: &AtomicU64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_OCTETS];
    loop {
        match receiver.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(octets) => drop(counter.fetch_add(octets as u64, Ordering::Relaxed)),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn would_block(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

const BUFFER_OCTETS: usize = 64 << 10;
const WARM: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(5);
