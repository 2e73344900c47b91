//! The tables as an MRT file, RFC 6396: a stream of octets, read off the tables page by page while they
//! change: each destination that is there all the time, once. Knows tables; the octets are `weft_monitoring::mrt`'s.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use weft_bgp::family::Family;
use weft_bgp::nlri::Nlri;
use weft_bgp::peer::PeerId;
use weft_bgp::table::{Destination, Path, Table};
use weft_bgp::wire::Writer;
use weft_monitoring::mrt::{Entry, Error, Peer, TableDump};
use weft_proto::operator::v1 as proto;

use crate::monitoring::timestamp;
use crate::reflector::Reflector;
use crate::speaker::Shared;

/// The file in parts.
pub(super) type Dump = ReceiverStream<Result<proto::DumpRibResponse, Status>>;

/// Begins a dump of these families; of all if there are none.
pub(super) fn dump(shared: &Arc<Shared>, families: Vec<Family>) -> Dump {
    let (parts, receiver) = mpsc::channel(PARTS_MAX);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        if let Err(status) = write(&shared, &families, &parts).await {
            // Whoever asked may have gone.
            let _ = parts.send(Err(status)).await;
        }
    });
    ReceiverStream::new(receiver)
}

type Parts = mpsc::Sender<Result<proto::DumpRibResponse, Status>>;

async fn write(shared: &Shared, families: &[Family], parts: &Parts) -> Result<(), Status> {
    let peers = shared.reflection.query(peers).await.ok_or_else(stopping)?;
    let numbers = peers.iter().zip(0_u16..);
    let numbers = numbers.map(|((peer, _), number)| (*peer, number)).collect();
    let rows: Vec<_> = peers.into_iter().map(|(_, row)| row).collect();
    let buffer = Buffer::default();
    let now = timestamp();
    let router_id = shared.local.router_id;
    let dump = TableDump::begin(buffer.clone(), now, router_id, "", &rows).map_err(failed)?;
    let mut dumping = Dumping {
        shared,
        parts,
        buffer,
        dump,
        numbers,
        originated_secs: now.secs,
    };
    let wanted = |family: Family| families.is_empty() || families.contains(&family);
    if wanted(Family::IPV4_UNICAST) {
        dumping.family(Reflector::ipv4).await?;
    }
    if wanted(Family::IPV6_UNICAST) {
        dumping.family(Reflector::ipv6).await?;
    }
    if wanted(Family::L2VPN_EVPN) {
        dumping.family(Reflector::evpn).await?;
    }
    if wanted(Family::RTC) {
        dumping.family(Reflector::rtc).await?;
    }
    dumping.flush().await
}

/// Everybody whose paths there may be.
fn peers(reflector: &Reflector) -> Vec<(PeerId, Peer)> {
    let owned = reflector.peers().filter_map(|(peer, agreed)| {
        let row = Peer {
            router_id: peer.router_id,
            address: agreed.owner.as_ref()?.address,
            asn: peer.asn,
        };
        Some((peer, row))
    });
    owned.take(usize::from(u16::MAX)).collect()
}

struct Dumping<'a> {
    shared: &'a Shared,
    parts: &'a Parts,
    buffer: Buffer,
    dump: TableDump<Buffer>,
    numbers: HashMap<PeerId, u16>,
    /// When a path was learned is no fact: the moment of the dump stands for it.
    originated_secs: u32,
}

impl Dumping<'_> {
    async fn family<N: Nlri>(&mut self, table: fn(&Reflector) -> &Table<N>) -> Result<(), Status> {
        let mut met = HashSet::new();
        let mut place = Some(0);
        while let Some(at) = place {
            let page = self.shared.reflection.query(move |reflector| {
                let (page, next) = table(reflector).page(at, PAGE);
                (copies(page), next)
            });
            let (page, next) = page.await.ok_or_else(stopping)?;
            place = next;
            for paths in page.iter().filter(|paths| is_first(paths, &mut met)) {
                self.destination(paths)?;
            }
            self.flush().await?;
        }
        Ok(())
    }

    fn destination<N: Nlri>(&mut self, paths: &[Path<N>]) -> Result<(), Status> {
        let Some(first) = paths.first() else {
            return Ok(());
        };
        let mut nlri = Writer::new();
        first.nlri.encode(&mut nlri);
        // A peer that came after the table of peers was written has to wait for the next dump.
        let known = paths.iter().filter_map(|path| {
            let number = self.numbers.get(&path.source.peer)?;
            Some(Entry {
                peer: *number,
                originated_secs: self.originated_secs,
                path_id: Some(path.path_id()).filter(|path_id| *path_id != 0),
                attributes: &path.attributes,
            })
        });
        let entries: Vec<_> = known.collect();
        match self
            .dump
            .destination(N::family(), nlri.as_slice(), &entries)
        {
            Ok(()) => Ok(()),
            Err(Error::TooLong | Error::TooMany) => {
                tracing::warn!(key = %first.nlri.key(), "a destination is too large for MRT");
                Ok(())
            }
            Err(error @ (Error::Io(_) | Error::NotFramed(_) | Error::UnknownPeer(_))) => {
                Err(failed(error))
            }
        }
    }

    async fn flush(&self) -> Result<(), Status> {
        let octets = self.buffer.take();
        for part in octets.chunks(PART_OCTETS) {
            let octets = Bytes::copy_from_slice(part);
            let part = proto::DumpRibResponse { octets };
            let sent = self.parts.send(Ok(part)).await;
            sent.map_err(|_| Status::cancelled("nobody reads the dump"))?;
        }
        Ok(())
    }
}

fn copies<N: Nlri>(page: Vec<Destination<'_, N>>) -> Vec<Vec<Path<N>>> {
    page.into_iter().map(|at| at.paths.to_vec()).collect()
}

/// A destination that went and came back meanwhile is met again elsewhere, and has one record. RFC 6396
/// §4.3.2.
fn is_first<N: Nlri>(paths: &[Path<N>], met: &mut HashSet<N::Key>) -> bool {
    let first = paths.first();
    first.is_some_and(|path| met.insert(path.nlri.key()))
}

/// What was written and not sent yet.
#[derive(Clone, Debug, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Buffer {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn stopping() -> Status {
    Status::unavailable("the replica is stopping")
}

fn failed(error: Error) -> Status {
    Status::internal(error.to_string())
}

/// Places looked at, and destinations copied, at a time: about a millisecond of the tables' thread.
const PAGE: usize = 1_000;
/// Parts that wait for a slow reader.
const PARTS_MAX: usize = 4;
/// Below what gRPC takes in one message.
const PART_OCTETS: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use weft_bgp::attribute::Attributes;
    use weft_bgp::nlri::unicast::Prefix4;
    use weft_bgp::peer::RouterId;
    use weft_bgp::table::{PeerKind, Source};

    use super::*;

    fn prefix(number: u32) -> Prefix4 {
        Prefix4 {
            addr: Ipv4Addr::from(0xcb00_7100 + number),
            len: 32,
        }
    }

    #[test]
    fn a_dump_ends_under_churn_and_has_each_destination_once() {
        let peer = PeerId {
            router_id: RouterId(1),
            asn: 64_496,
        };
        let address = Ipv4Addr::new(192, 0, 2, 1).into();
        let source = Arc::new(Source::new(peer, address, PeerKind::IbgpClient));
        let attributes = Arc::new(Attributes::default());
        let mut table = Table::new();
        for number in 0..100 {
            table.learn(&source, 0, prefix(number), Arc::clone(&attributes));
        }
        table.select();
        // The last place is free, so that who comes back goes there.
        table.withdraw(peer, 0, &prefix(99));
        table.select();
        let (mut met, mut place) = (HashSet::new(), Some(0));
        let (mut records, mut again, mut pages) = (Vec::new(), 0, 0_u32);
        while let Some(at) = place {
            let (page, next) = table.page(at, 7);
            let page = copies(page);
            place = next;
            pages += 1;
            assert!(pages <= 15, "no end");
            for paths in &page {
                match is_first(paths, &mut met) {
                    true => records.push(paths[0].nlri),
                    false => again += 1,
                }
            }
            // One changes each time, and one goes and comes back at the end.
            let other = Attributes {
                med: Some(pages),
                ..Attributes::default()
            };
            table.learn(&source, 0, prefix(50), Arc::new(other));
            if pages == 1 {
                table.withdraw(peer, 0, &prefix(3));
                table.learn(&source, 0, prefix(99), Arc::clone(&attributes));
                table.select();
                table.withdraw(peer, 0, &prefix(99));
                table.select();
                table.learn(&source, 0, prefix(3), Arc::clone(&attributes));
            }
            table.select();
        }
        assert!(again > 0, "nobody was met twice");
        records.sort_unstable();
        assert_eq!(records, (0..99).map(prefix).collect::<Vec<_>>());
    }
}
