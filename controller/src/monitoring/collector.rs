//! One collector: dials it, tells it everything from the beginning, and begins again when the connection
//! ends or when it reads too slowly. Knows sockets; what is told is `weft_monitoring`'s.

mod telling;

use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;
use weft_monitoring::bmp::Termination;
use weft_monitoring::station::{Demand, Station, reconnect_secs};

use crate::config::Bmp;
use crate::daemon::resolver::Resolver;
use crate::speaker::Shared;
use telling::Telling;

/// Why a connection ended.
enum End {
    /// The daemon stops, or the collector is not configured like this any more.
    Ours(Termination),
    /// Begin again.
    Theirs(String),
    /// It did not keep up: begin again.
    TooSlow,
}

/// Tells one collector until the daemon stops or its settings change; gives its name back.
pub(super) async fn collect(shared: Arc<Shared>, bmp: Bmp) -> String {
    let mut failures = 0;
    let mut resolver = Resolver::new(bmp.address.clone());
    loop {
        let begun = Instant::now();
        let end = tokio::select! {
            end = connected(&shared, &bmp, &mut resolver) => end,
            ours = unwanted(&shared, &bmp) => End::Ours(ours),
        };
        shared.taps.sweep();
        let error = match end {
            End::Ours(_) => break,
            End::Theirs(error) => error,
            End::TooSlow => {
                shared
                    .taps
                    .note(&bmp.name, |collector| collector.overruns += 1);
                "it reads too slowly".to_owned()
            }
        };
        tracing::warn!(collector = %bmp.name, %error, "collector lost");
        shared.taps.note(&bmp.name, |collector| {
            collector.connected = None;
            collector.last_error = error;
        });
        failures = if begun.elapsed() > STABLE {
            0
        } else {
            failures + 1
        };
        tokio::select! {
            () = tokio::time::sleep(pause(failures)) => {}
            _ = unwanted(&shared, &bmp) => break,
        }
    }
    shared.taps.forget(&bmp.name);
    bmp.name
}

/// RFC 7854 §3.2 suggests half a minute at least. Whoever restarts a collector wants to see something
/// sooner, so the first attempts come before that.
fn pause(failures: u32) -> Duration {
    let secs = match failures {
        0 => 1,
        1..QUICK => 1 << failures,
        _ => reconnect_secs(failures - QUICK).into(),
    };
    Duration::from_secs(secs)
}

/// Resolves when the collector is not to be told any more.
async fn unwanted(shared: &Shared, bmp: &Bmp) -> Termination {
    let mut stop = shared.stop.subscribe();
    let mut config = shared.follow_config();
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => Termination::Administrative,
        _ = config.wait_for(|config| !config.bmp.contains(bmp)) => Termination::Permanent,
    }
}

async fn connected(shared: &Arc<Shared>, bmp: &Bmp, resolver: &mut Resolver) -> End {
    let stream = match dial(resolver.addresses().await).await {
        Ok(stream) => stream,
        Err(error) => return End::Theirs(error),
    };
    tracing::info!(collector = %bmp.name, address = %bmp.address, "collector connected");
    shared.taps.note(&bmp.name, |collector| {
        collector.connected = Some(Instant::now());
        collector.connections += 1;
    });
    let mut telling = Telling::new(shared, bmp);
    let end = drive(&mut telling, &stream).await;
    telling.note();
    if let End::Ours(reason) = end {
        telling.station.terminate(reason);
        let last_words = last_words(&mut telling.station, &stream);
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, last_words).await;
    }
    end
}

/// Dials one address after the other, so that one which does not answer keeps the next from nothing.
async fn dial(addresses: &[SocketAddr]) -> Result<TcpStream, String> {
    let mut last = "its name has no address".to_owned();
    for address in addresses {
        let dialed = TcpStream::connect(*address);
        last = match tokio::time::timeout(DIAL_TIMEOUT, dialed).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it does not answer".to_owned(),
        };
    }
    Err(last)
}

async fn drive(telling: &mut Telling<'_>, stream: &TcpStream) -> End {
    let unwanted = unwanted(telling.shared, telling.bmp);
    tokio::pin!(unwanted);
    telling.begin().await;
    loop {
        telling.fill();
        let demand = telling.station.poll();
        if demand == Demand::Close {
            return End::TooSlow;
        }
        let (is_hungry, is_sharing) = (telling.is_hungry(), telling.is_sharing());
        let Telling {
            station, sources, ..
        } = &mut *telling;
        let input = tokio::select! {
            ours = &mut unwanted => return End::Ours(ours),
            written = write(station, stream), if demand == Demand::Write => match written {
                Ok(octets) => {
                    station.advance(octets);
                    continue;
                }
                Err(error) => return End::Theirs(error.to_string()),
            },
            closed = closed(stream) => return End::Theirs(closed),
            () = tokio::task::yield_now(), if is_sharing => continue,
            input = sources.next(is_hungry) => input,
        };
        if let Err(end) = telling.take(input) {
            return end;
        }
    }
}

/// Sends what waits, and no more.
async fn last_words(station: &mut Station, stream: &TcpStream) {
    while station.poll() == Demand::Write {
        match write(station, stream).await {
            Ok(octets) => station.advance(octets),
            Err(_) => return,
        }
    }
}

/// One vectored write of what waits.
async fn write(station: &Station, stream: &TcpStream) -> std::io::Result<usize> {
    loop {
        stream.writable().await?;
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = station.slices(&mut slices);
        match stream.try_write_vectored(&slices[..count]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            written => return written,
        }
    }
}

/// Resolves when the collector has closed its end; what it says is not looked at, for it has nothing to
/// say. RFC 7854 §3.1.
async fn closed(stream: &TcpStream) -> String {
    let mut octets = [0; 256];
    loop {
        if let Err(error) = stream.readable().await {
            return error.to_string();
        }
        match stream.try_read(&mut octets) {
            Ok(0) => return "it closed the connection".to_owned(),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return error.to_string(),
        }
    }
}

/// Attempts that are made sooner than RFC 7854 suggests: after 2, 4, 8 and 16 s.
const QUICK: u32 = 5;
/// A connection that lasted this long was no failure.
const STABLE: Duration = Duration::from_secs(60);
/// Longest time in which one address answers.
const DIAL_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a collector gets to read the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Slices of one write; the system takes up to 1,024.
const SLICES: usize = 64;

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn the_next_address_is_dialed_if_one_is_not_reached() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listens = listener.local_addr().unwrap();
        let ended = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let refuses = ended.local_addr().unwrap();
        drop(ended);
        let stream = dial(&[refuses, listens]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listens);
        assert!(dial(&[refuses]).await.is_err());
        assert!(dial(&[]).await.is_err());
    }
}
