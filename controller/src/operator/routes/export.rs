//! The tables as an MRT file, RFC 6396: a stream of octets, read off the tables page by page while they
//! change: each destination that is there all the time, once. Knows tables; the octets are `weft_monitoring::mrt`'s.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use weft_bgp::family::Family;
use weft_bgp::nlri::Nlri;
use weft_bgp::peer::PeerId;
use weft_bgp::table::{Destination, Path, Table};
use weft_bgp::wire::Writer;
use weft_monitoring::mrt::{Entry, Error, Peer, TableDump};
use weft_proto::v1 as proto;

use super::super::{header, refusal};
use crate::monitoring::timestamp;
use crate::reflector::Reflector;
use crate::speaker::Shared;

/// The file in parts.
pub(super) type Export = ReceiverStream<Result<proto::ExportMrtResponse, Status>>;

/// Begins an export of these families; of all if there are none. It holds its place until it ends.
pub(super) fn export(
    shared: &Arc<Shared>,
    families: Vec<Family>,
    place: OwnedSemaphorePermit,
) -> Export {
    let (parts, receiver) = mpsc::channel(PARTS_MAX);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let written = write(&shared, &families, &parts).await;
        drop(place);
        if let Err(status) = written {
            // Whoever asked may have gone, or reads nothing.
            let _ = parts.send_timeout(Err(status), PART_PATIENCE).await;
        }
    });
    ReceiverStream::new(receiver)
}

type Parts = mpsc::Sender<Result<proto::ExportMrtResponse, Status>>;

async fn write(shared: &Shared, families: &[Family], parts: &Parts) -> Result<(), Status> {
    let begun = shared.reflection.query(|it| (peers(it), it.index()));
    let (peers, revision) = begun.await.ok_or_else(refusal::stopping)?;
    let numbers = peers.iter().zip(0_u16..);
    let numbers = numbers.map(|((peer, _), number)| (*peer, number)).collect();
    let rows: Vec<_> = peers.into_iter().map(|(_, row)| row).collect();
    let buffer = Buffer::default();
    let now = timestamp();
    let first = proto::ExportMrtResponse {
        header: Some(header::of(shared, revision)),
        ..proto::ExportMrtResponse::default()
    };
    send(parts, first).await?;
    let router_id = shared.local.router_id;
    let dump = TableDump::begin(buffer.clone(), now, router_id, "", &rows).map_err(failed)?;
    let mut dumping = Dumping {
        shared,
        parts,
        buffer,
        records: Records {
            dump,
            numbers,
            originated_secs: now.secs,
        },
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
    records: Records,
}

impl Dumping<'_> {
    async fn family<N: Nlri>(&mut self, table: fn(&Reflector) -> &Table<N>) -> Result<(), Status> {
        let mut met = HashSet::new();
        let mut place = Some(0);
        while let Some(at) = place {
            let reflection = &self.shared.reflection;
            let look = reflection.place().await.ok_or_else(refusal::stopping)?;
            let page = reflection.query(move |reflector| {
                let (page, next) = table(reflector).page(at, PAGE);
                (copies(page), next)
            });
            let (page, next) = page.await.ok_or_else(refusal::stopping)?;
            drop(look);
            place = next;
            for paths in page.iter().filter(|paths| is_first(paths, &mut met)) {
                self.records.destination(paths)?;
            }
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), Status> {
        let octets = self.buffer.take();
        for part in octets.chunks(PART_OCTETS) {
            let octets = Bytes::copy_from_slice(part);
            let part = proto::ExportMrtResponse {
                octets,
                ..proto::ExportMrtResponse::default()
            };
            send(self.parts, part).await?;
        }
        Ok(())
    }
}

/// The records of the file, one for each destination.
struct Records {
    dump: TableDump<Buffer>,
    numbers: HashMap<PeerId, u16>,
    /// When a path was learned is no fact: the moment of the dump stands for it.
    originated_secs: u32,
}

impl Records {
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

async fn send(parts: &Parts, part: proto::ExportMrtResponse) -> Result<(), Status> {
    let sent = parts.send_timeout(Ok(part), PART_PATIENCE).await;
    sent.map_err(|_| Status::cancelled("nobody reads the file"))
}

fn failed(error: Error) -> Status {
    refusal::failed(error)
}

/// Places looked at, and destinations copied, at a time: about a millisecond of the tables' thread.
const PAGE: usize = 1_000;
/// Parts that wait for a slow reader.
const PARTS_MAX: usize = 4;
/// For so long a part waits for room: a reader that takes less than a part in it holds the only place for nothing.
const PART_PATIENCE: Duration = Duration::from_secs(30);
/// Below what gRPC takes in one message.
const PART_OCTETS: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use weft_bgp::attribute::Attributes;
    use weft_bgp::capability::AddPathSet;
    use weft_bgp::error::Fault;
    use weft_bgp::nlri::unicast::Prefix4;
    use weft_bgp::peer::RouterId;
    use weft_bgp::table::{PeerKind, Source};
    use weft_bgp::wire::Reader;
    use weft_evpn::Route;
    use weft_monitoring::timestamp::Timestamp;

    use super::*;
    use crate::monitoring::tests::{self, flood, host};

    fn prefix(number: u32) -> Prefix4 {
        Prefix4 {
            addr: Ipv4Addr::from(0xcb00_7100 + number),
            len: 32,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_export_that_nobody_reads_ends() {
        let (parts, mut reader) = mpsc::channel(1);
        let part = proto::ExportMrtResponse::default;
        assert!(send(&parts, part()).await.is_ok());
        let began = tokio::time::Instant::now();
        assert!(send(&parts, part()).await.is_err());
        assert_eq!(began.elapsed(), PART_PATIENCE);
        assert!(reader.recv().await.is_some());
        assert!(send(&parts, part()).await.is_ok());
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
    fn peer(last: u8) -> PeerId {
        PeerId {
            router_id: RouterId(last.into()),
            asn: 64_496,
        }
    }

    /// Of this type (TABLE_DUMP_V2) and subtype, what is in one record. RFC 6396 §2.
    fn record(octets: &mut Reader<'_>) -> (u16, Vec<u8>) {
        assert_eq!(octets.u32().unwrap(), 1_000);
        assert_eq!(octets.u16().unwrap(), 13);
        let subtype = octets.u16().unwrap();
        let length = octets.u32().unwrap() as usize;
        (subtype, octets.take(length).unwrap().to_vec())
    }

    /// RFC 6396 §4.3.3 and, of path identifiers, RFC 8050 §4.3: each destination with its paths of all peers, the NLRI
    /// whole, and the next hop with the attributes. RFC 6396 §4.3.4.
    #[test]
    fn evpn_destinations_are_dumped_with_all_that_was_said_of_them() {
        let routes = [host(1), host(2), flood(1)];
        let rows = [1, 2].map(|last| Peer {
            router_id: peer(last).router_id,
            address: Ipv4Addr::new(192, 0, 2, last).into(),
            asn: peer(last).asn,
        });
        let mut table = Table::new();
        for (row, path_ids) in rows.iter().zip([&[0][..], &[7, 8]]) {
            let id = PeerId {
                router_id: row.router_id,
                asn: row.asn,
            };
            let source = Arc::new(Source::new(id, row.address, PeerKind::IbgpClient));
            for route in &routes {
                for path_id in path_ids {
                    let attributes = Arc::new(tests::attributes(route));
                    table.learn(&source, *path_id, route.clone(), attributes);
                }
            }
        }
        table.select();
        let buffer = Buffer::default();
        let now = Timestamp {
            secs: 1_000,
            ..timestamp()
        };
        let dump = TableDump::begin(buffer.clone(), now, RouterId(9), "", &rows).unwrap();
        let mut records = Records {
            dump,
            numbers: [(peer(1), 0), (peer(2), 1)].into(),
            originated_secs: now.secs,
        };
        let (page, next) = table.page(0, PAGE);
        assert_eq!(next, None);
        for paths in copies(page) {
            records.destination(&paths).unwrap();
        }
        let octets = buffer.take();
        let mut octets = Reader::new(&octets, 0, Fault::NlriFraming);
        assert_eq!(record(&mut octets).0, 1, "the peers");
        let mut dumped = Vec::new();
        while !octets.is_empty() {
            let (subtype, body) = record(&mut octets);
            let mut body = Reader::new(&body, 0, Fault::NlriFraming);
            body.u32().unwrap();
            assert_eq!((body.u16().unwrap(), body.u8().unwrap()), (25, 70));
            let path_id = match subtype {
                6 => 0,
                12 => body.u32().unwrap(),
                other => panic!("subtype {other}"),
            };
            let route = Route::decode(&mut body).unwrap();
            assert!(routes.contains(&route), "{route:?}");
            for _ in 0..body.u16().unwrap() {
                let number = body.u16().unwrap();
                assert_eq!(body.u32().unwrap(), now.secs);
                let length = body.u16().unwrap().into();
                assert_entry(&route, body.take(length).unwrap());
                dumped.push((route.key(), number, path_id));
            }
            assert!(body.is_empty());
        }
        dumped.sort();
        let paths = [(0, 0), (1, 7), (1, 8)];
        let expected = routes.iter().flat_map(|route| {
            let path = |(number, path_id)| (route.key(), number, path_id);
            paths.map(path)
        });
        assert_eq!(dumped, expected.collect::<Vec<_>>());
    }

    /// The attributes of an entry are those with which the route came, as far as an UPDATE that has them says it again.
    fn assert_entry(route: &Route, octets: &[u8]) {
        let (next_hop, others) = octets.split_at(8);
        assert_eq!(next_hop, [0x80, 14, 5, 4, 192, 0, 2, 1]);
        let mut nlri = Writer::new();
        route.encode(&mut nlri);
        let octet = |length: usize| u8::try_from(length).unwrap();
        let reach_len = octet(9 + nlri.len());
        let reach = [0x80, 14, reach_len, 0, 25, 70, 4, 192, 0, 2, 1, 0];
        let attributes = [&reach[..], nlri.as_slice(), others].concat();
        let (whole, list) = (octet(23 + attributes.len()), octet(attributes.len()));
        let head = [&[0xff; 16][..], &[0, whole, 2, 0, 0, 0, list]].concat();
        let update = tests::decoded(&[head, attributes].concat(), AddPathSet::NONE);
        let expected = Attributes {
            next_hop: None,
            ..tests::attributes(route)
        };
        assert_eq!(update.attributes, expected);
    }
}
