//! The service of the overlay: what the selected EVPN routes say of segments, hosts, VNIs and VTEPs, and which MAC addresses
//! are in two places. Knows no row.

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;

use tonic::{Request, Response, Status};
use weft_evpn::Esi;
use weft_proto::v1::{self as proto, evpn_service_server};

use self::duplicates::Duplicates;
use self::hosts::Claim;
use super::access::Identity;
use super::page::list::{First, List};
use super::page::{self, Page};
use super::tables::Tables;
use super::{Answer, field, off_the_runtime, refusal};
use crate::daemon::switches::led::Led;
use crate::fabric::fact::InvalidFabric;
use crate::reflector::Reflector;

mod duplicates;
mod hosts;
mod segments;
mod vteps;

/// Answers of the overlay.
pub struct Service {
    tables: Arc<Tables>,
    led: Led,
}

impl Service {
    /// For a running daemon.
    pub fn new(tables: Arc<Tables>, led: Led) -> Self {
        Self { tables, led }
    }

    /// The index up to which an answer has to be complete, once everything else that was asked for is read.
    ///
    /// # Errors
    /// What is wrong with the request; NO_MAJORITY.
    async fn caught_up(&self, consistency: i32, mut faults: InvalidFabric) -> Result<u64, Status> {
        let consistency = field::consistency(consistency, &mut faults);
        refusal::check(&faults)?;
        self.tables.catch_up(consistency).await
    }

    /// Identifiers of segments: the first ones, or all.
    async fn segments(&self, index: u64, first: First<Esi>) -> Result<List<Esi>, Status> {
        let look = |end: Option<Esi>, at: usize| {
            move |reflector: &Reflector| segments::identifiers(reflector.evpn(), at, end)
        };
        self.tables.list(index, first, look).await
    }

    /// What of a list of segments is on the page behind one of them, and which it ends with if more follow.
    async fn segments_page(
        &self,
        index: u64,
        list: &List<Esi>,
        after: Option<Esi>,
        (size, tag): (usize, Option<u32>),
    ) -> Result<(Vec<proto::EthernetSegment>, Option<Esi>), Status> {
        let is_before = |esi: &Esi| after.is_some_and(|after| *esi <= after);
        let begin = list.items.partition_point(is_before);
        let (mut page, mut last) = (Page::new(size), None);
        let mut rest = list.items.get(begin..).unwrap_or_default();
        while !rest.is_empty() {
            let count = rest.len().min(size + 1 - page.rows.len());
            let (rows, count, _) = self.rows(index, &rest[..count], tag).await?;
            let mut rows = rows.into_iter().peekable();
            for esi in &rest[..count] {
                // It may have gone meanwhile.
                let name = esi.to_string();
                if let Some(row) = rows.next_if(|row| row.esi == name)
                    && !page.put(row)
                {
                    return Ok((page.rows, last));
                }
                last = Some(*esi);
            }
            rest = &rest[count..];
        }
        Ok((page.rows, last.filter(|_| list.more)))
    }

    /// Rows of segments, of how many of them, and up to where they are complete.
    async fn rows(
        &self,
        index: u64,
        wanted: &[Esi],
        tag: Option<u32>,
    ) -> Result<(Vec<proto::EthernetSegment>, usize, u64), Status> {
        let first = wanted.first().copied().unwrap_or_default();
        let wanted: Arc<[Esi]> = wanted.into();
        let look = move |reflector: &Reflector| segments::of(reflector.evpn(), &wanted);
        let ((mut paths, mut count), mut applied) = self.tables.look_indexed(index, look).await?;
        if count == 0 {
            let look = |_: &Vec<_>, at: usize| {
                move |reflector: &Reflector| segments::part(reflector.evpn(), at, first)
            };
            let take = |mut paths: Vec<_>, part| {
                paths.extend::<Vec<_>>(part);
                paths
            };
            (paths, applied) = self.tables.walk(index, Vec::new(), look, take).await?;
            count = 1;
        }
        let rows = off_the_runtime(move || segments::rows(paths, tag)).await?;
        Ok((rows, count, applied))
    }

    /// Claims to IP addresses that are wanted: the first ones, or all.
    async fn claims(
        &self,
        index: u64,
        filter: hosts::Filter,
        first: First<Claim>,
    ) -> Result<List<Claim>, Status> {
        let look = |end: Option<Claim>, at: usize| {
            move |reflector: &Reflector| filter.part(reflector.evpn(), at, end)
        };
        let list = self.tables.list(index, first, look).await?;
        off_the_runtime(move || filter.marked(list)).await
    }
}

#[tonic::async_trait]
impl evpn_service_server::EvpnService for Service {
    async fn list_ethernet_segments(
        &self,
        request: Request<proto::ListEthernetSegmentsRequest>,
    ) -> Answer<proto::ListEthernetSegmentsResponse> {
        let request = request.into_inner();
        let read = |text: &str| page::place_read(text, |esi| esi.parse().ok());
        let mut faults = InvalidFabric::default();
        let after = page::after_read(SEGMENTS, &request.page_token, read, &mut faults);
        let size = page::size(request.page_size, &mut faults);
        let index = self.caught_up(request.consistency, faults).await?;
        let list = match after {
            None => {
                let first = First::new(size + 1, PartialEq::eq);
                Arc::new(self.segments(index, first).await?)
            }
            Some((_, revision)) => {
                let make = self.segments(index, First::all());
                self.tables.kept().list(&(), revision, make).await?
            }
        };
        let (after, asked) = (after.map(|(esi, _)| esi), (size, request.ethernet_tag));
        let page = self.segments_page(index, &list, after, asked).await?;
        let (ethernet_segments, last) = page;
        let next = last.map(|last| page::token(SEGMENTS, page::place(last, list.revision)));
        Ok(Response::new(proto::ListEthernetSegmentsResponse {
            header: Some(self.tables.header(list.revision)),
            ethernet_segments,
            next_page_token: next.unwrap_or_default(),
        }))
    }

    async fn get_ethernet_segment(
        &self,
        request: Request<proto::GetEthernetSegmentRequest>,
    ) -> Answer<proto::GetEthernetSegmentResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let kind = "not an Ethernet segment identifier";
        let esi: Option<Esi> = field::text("esi", &request.esi, kind, &mut faults);
        let consistency = field::consistency(request.consistency, &mut faults);
        let esi = refusal::read(esi, &faults)?;
        let index = self.tables.catch_up(consistency).await?;
        let (rows, _, revision) = self.rows(index, &[esi], request.ethernet_tag).await?;
        let segment = rows.into_iter().next();
        Ok(Response::new(proto::GetEthernetSegmentResponse {
            header: Some(self.tables.header(revision)),
            resource: Some(found(segment, "esi", "Ethernet segment", esi, "route")?),
        }))
    }

    async fn list_host_addresses(
        &self,
        request: Request<proto::ListHostAddressesRequest>,
    ) -> Answer<proto::ListHostAddressesResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let place = |text: &str| page::place_read(text, hosts::place);
        let after = page::after_read(HOSTS, &request.page_token, place, &mut faults);
        let size = page::size(request.page_size, &mut faults);
        let ip = request.ip.as_deref();
        let filter = hosts::Filter {
            vni: request.vni.and_then(|vni| field::vni(vni, &mut faults)),
            ip: ip.and_then(|ip| field::text("ip", ip, NO_ADDRESS, &mut faults)),
            duplicates: request.duplicates_only,
        };
        let index = self.caught_up(request.consistency, faults).await?;
        let revision = match after {
            Some((_, revision)) => Some(revision),
            // Which are some is known when all are.
            None if filter.duplicates => Some(self.tables.revision().await?.max(index)),
            None => None,
        };
        let list = match revision {
            None => {
                let first = First::new(size + 1, Claim::is_beside);
                Arc::new(self.claims(index, filter, first).await?)
            }
            Some(revision) => {
                let make = self.claims(index, filter, First::all());
                self.tables.kept().list(&filter, revision, make).await?
            }
        };
        let (revision, after) = (list.revision, after.map(|(place, _)| place));
        let page = off_the_runtime(move || hosts::page(&list, after, size)).await?;
        let (host_addresses, last) = page;
        let next = last.map(|last| page::token(HOSTS, page::place(hosts::text(last), revision)));
        Ok(Response::new(proto::ListHostAddressesResponse {
            header: Some(self.tables.header(revision)),
            host_addresses,
            next_page_token: next.unwrap_or_default(),
        }))
    }

    async fn list_vnis(
        &self,
        request: Request<proto::ListVnisRequest>,
    ) -> Answer<proto::ListVnisResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let read = |vni: &str| vni.parse().ok();
        let after = page::after_read(VNIS, &request.page_token, read, &mut faults);
        let size = page::size(request.page_size, &mut faults);
        let index = self.caught_up(request.consistency, faults).await?;
        let topology = self.led.topology();
        let look = move |reflector: &Reflector| {
            vteps::vnis(reflector.vteps(), topology.as_deref(), after, size)
        };
        let (page, revision) = self.tables.look_indexed(index, look).await?;
        Ok(Response::new(proto::ListVnisResponse {
            header: Some(self.tables.header(revision)),
            next_page_token: page.next(VNIS, |last| last.vni.to_string()),
            vnis: page.rows,
        }))
    }

    async fn get_vni(
        &self,
        request: Request<proto::GetVniRequest>,
    ) -> Answer<proto::GetVniResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let vni = field::vni(request.vni, &mut faults);
        let consistency = field::consistency(request.consistency, &mut faults);
        let vni = refusal::read(vni, &faults)?;
        let index = self.tables.catch_up(consistency).await?;
        let topology = self.led.topology();
        let look =
            move |reflector: &Reflector| vteps::vni(reflector.vteps(), topology.as_deref(), vni);
        let (row, revision) = self.tables.look_indexed(index, look).await?;
        Ok(Response::new(proto::GetVniResponse {
            header: Some(self.tables.header(revision)),
            resource: Some(found(row, "vni", "VNI", vni, INCLUSIVE)?),
        }))
    }

    async fn list_vteps(
        &self,
        request: Request<proto::ListVtepsRequest>,
    ) -> Answer<proto::ListVtepsResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let read = |address: &str| address.parse().ok();
        let after = page::after_read(VTEPS, &request.page_token, read, &mut faults);
        let size = page::size(request.page_size, &mut faults);
        let index = self.caught_up(request.consistency, faults).await?;
        let topology = self.led.topology();
        let look = move |reflector: &Reflector| {
            vteps::page(reflector.vteps(), topology.as_deref(), after, size)
        };
        let (page, revision) = self.tables.look_indexed(index, look).await?;
        Ok(Response::new(proto::ListVtepsResponse {
            header: Some(self.tables.header(revision)),
            next_page_token: page.next(VTEPS, |last| last.address.clone()),
            vteps: page.rows,
        }))
    }

    async fn get_vtep(
        &self,
        request: Request<proto::GetVtepRequest>,
    ) -> Answer<proto::GetVtepResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let address = field::text("address", &request.address, NO_ADDRESS, &mut faults);
        let consistency = field::consistency(request.consistency, &mut faults);
        let address: IpAddr = refusal::read(address, &faults)?;
        let index = self.tables.catch_up(consistency).await?;
        let topology = self.led.topology();
        let look = move |reflector: &Reflector| {
            vteps::one(reflector.vteps(), topology.as_deref(), address)
        };
        let (row, revision) = self.tables.look_indexed(index, look).await?;
        Ok(Response::new(proto::GetVtepResponse {
            header: Some(self.tables.header(revision)),
            resource: Some(found(row, "address", "VTEP", address, INCLUSIVE)?),
        }))
    }

    async fn list_duplicate_macs(
        &self,
        request: Request<proto::ListDuplicateMacsRequest>,
    ) -> Answer<proto::ListDuplicateMacsResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let read = duplicates::after;
        let after = page::after_read(DUPLICATES, &request.page_token, read, &mut faults);
        let size = page::size(request.page_size, &mut faults);
        refusal::check(&faults)?;
        let look = move |reflector: &Reflector| Duplicates::of(reflector, after);
        let (known, revision) = self.tables.look_indexed(0, look).await?;
        let (watched, unwatched) = (known.watched, known.unwatched);
        let page = off_the_runtime(move || known.page(size)).await?;
        Ok(Response::new(proto::ListDuplicateMacsResponse {
            header: Some(self.tables.header(revision)),
            next_page_token: page.next(DUPLICATES, duplicates::name),
            duplicate_macs: page.rows,
            watched_mac_count: watched,
            unwatched_announcement_count: unwatched,
        }))
    }

    async fn clear_duplicate_mac(
        &self,
        request: Request<proto::ClearDuplicateMacRequest>,
    ) -> Answer<proto::ClearDuplicateMacResponse> {
        let by = Identity::of(&request);
        let (place, id) = duplicates::place(request.get_ref())?;
        let look = |reflector: &Reflector| Duplicates::of(reflector, None);
        let known = self.tables.look(0, look).await?;
        let index = duplicates::clear(self.tables.shared(), place, id, by).await?;
        Ok(Response::new(proto::ClearDuplicateMacResponse {
            header: Some(self.tables.header(index)),
            cleared: known.one(place),
        }))
    }
}

/// Returns the row of this name, or that no such `route` advertises it.
fn found<T>(
    row: Option<T>,
    field: &str,
    kind: &str,
    name: impl Display,
    route: &str,
) -> Result<T, Status> {
    row.ok_or_else(|| {
        let name = name.to_string();
        let reason = format!("no {route} advertises {kind} {name}");
        refusal::missing_because(field, kind, &name, reason)
    })
}

/// A VTEP floods, and is in a VNI, by this route alone (RFC 7432 section 7.3).
const INCLUSIVE: &str = "inclusive multicast route (type 3)";
const NO_ADDRESS: &str = "not an IP address";
const SEGMENTS: &str = "ethernet_segments";
const HOSTS: &str = "host_addresses";
const VNIS: &str = "vnis";
const VTEPS: &str = "vteps";
const DUPLICATES: &str = "duplicate_macs";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use bytes::Bytes;
    use weft_bgp::attribute::{Attributes, NextHop};
    use weft_bgp::family::Family;
    use weft_bgp::nlri::Nlri;
    use weft_bgp::peer::{PeerId, RouterId};
    use weft_bgp::rd::Rd;
    use weft_bgp::table::PeerKind;
    use weft_evpn::community::Encapsulation;
    use weft_evpn::route::{
        EthernetAd, EthernetAdKey, EthernetSegment, EthernetSegmentKey, Labels, MacIp, MacIpKey,
    };
    use weft_evpn::{EthernetTag, Label, Mac, Route};
    use weft_proto::v1::evpn_service_client::EvpnServiceClient;
    use weft_proto::v1::route_service_client::RouteServiceClient;
    use weft_store::{Batch, Op, Outcome};

    use super::super::lone::{Lone, fields};
    use super::*;
    use crate::ledger::{self, FactKey, Owner};

    const PEER: PeerId = PeerId {
        router_id: RouterId(1),
        asn: 64_496,
    };
    const VTEP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    fn rd() -> Rd {
        Rd::from_ipv4(VTEP, 1)
    }

    fn host(mac: u32, ip: u32) -> Route {
        let [a, b, c, d] = mac.to_be_bytes();
        let key = MacIpKey {
            rd: rd(),
            tag: EthernetTag(0),
            mac: Mac([2, 0, a, b, c, d]),
            ip: Some(Ipv4Addr::from(0x0a00_0000 + ip).into()),
        };
        Route::MacIp(MacIp {
            key,
            esi: Esi::ZERO,
            labels: Labels::One(Label([0, 0, 100])),
        })
    }

    /// What two leaves tell of a segment.
    fn segment(number: u8) -> [Route; 2] {
        let esi = Esi([0, number, 1, 1, 1, 1, 1, 1, 1, 1]);
        let (rd, tag, originator) = (rd(), EthernetTag::MAX, VTEP.into());
        let discovery = EthernetAdKey { rd, esi, tag };
        let key = EthernetSegmentKey {
            rd,
            esi,
            originator,
        };
        [
            Route::EthernetSegment(EthernetSegment { key }),
            Route::EthernetAd(EthernetAd {
                key: discovery,
                label: None,
            }),
        ]
    }

    /// The replica agrees on routes of a peer.
    async fn learn(lone: &Lone, routes: Vec<Route>) {
        let owner = Owner {
            replica: 1,
            epoch: 1,
            address: VTEP.into(),
            kind: PeerKind::IbgpClient,
            fresh_from: 0,
            returned: None,
            retention: None,
        };
        let attributes = Attributes {
            next_hop: Some(NextHop::V4(VTEP)),
            ext_communities: vec![Encapsulation::new(Encapsulation::VXLAN).octets()],
            ..Attributes::default()
        };
        let attributes = attributes.to_octets();
        let put = |route: &Route| {
            let (mut nlri, mut path) = (Vec::new(), Vec::new());
            Route::key_octets(&route.key(), &mut nlri);
            ledger::write_path(0, &nlri, &mut path);
            let value: Bytes = ledger::encode_path(route, &attributes, &mut Vec::new());
            ledger::put(&FactKey::Route(Family::L2VPN_EVPN, PEER, &path), value)
        };
        let owner = ledger::put(&FactKey::Owner(PEER), owner.encode());
        let ops: Vec<Op> = std::iter::once(owner)
            .chain(routes.iter().map(put))
            .collect();
        for ops in ops.chunks(500) {
            let batch = Batch {
                conditions: Vec::new(),
                ops: ops.to_vec(),
            };
            let outcome = lone.consensus.propose(batch).await;
            assert!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
        }
    }

    /// Every row of a list, and the tokens of its pages.
    macro_rules! all {
        ($client:expr, $call:ident, $rows:ident, $request:expr) => {{
            let (mut rows, mut tokens, mut revision) = (Vec::new(), Vec::new(), 0);
            let mut request = $request;
            loop {
                let page = $client.$call(request.clone()).await.unwrap().into_inner();
                assert!(page.$rows.len() <= request.page_size as usize);
                rows.extend(page.$rows);
                let reached = page.header.unwrap().revision;
                assert!(reached >= revision, "a later page is as complete");
                revision = reached;
                request.page_token = page.next_page_token;
                if request.page_token.is_empty() {
                    break (rows, tokens);
                }
                tokens.push(request.page_token.clone());
            }
        }};
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn long_lists_are_read_to_their_ends_by_their_own_tokens() {
        let lone = Lone::start().await;
        let apart = (0..2_000).map(|number| host(number, number));
        let together = (0..1_500).map(|number| host(1 << 24 | number, 7));
        let hosts: Vec<Route> = apart.chain(together).collect();
        let segments = (1..31).flat_map(segment);
        learn(&lone, hosts.iter().cloned().chain(segments).collect()).await;
        let mut evpn = EvpnServiceClient::new(lone.channel.clone());
        let mut routes = RouteServiceClient::new(lone.channel.clone());
        let request = proto::ListHostAddressesRequest {
            page_size: 400,
            ..Default::default()
        };
        let (rows, of_hosts) = all!(evpn, list_host_addresses, host_addresses, request.clone());
        assert_eq!((rows.len(), of_hosts.len()), (3_500, 8));
        let names = rows.iter().map(|row| (&row.ip, &row.mac));
        assert_eq!(names.collect::<BTreeSet<_>>().len(), 3_500);
        let duplicates = proto::ListHostAddressesRequest {
            duplicates_only: true,
            ..request
        };
        let (rows, _) = all!(evpn, list_host_addresses, host_addresses, duplicates);
        assert!(rows.iter().all(|row| row.ip == "10.0.0.7" && row.duplicate));
        assert_eq!(rows.len(), 1_501);
        let request = proto::ListEthernetSegmentsRequest {
            page_size: 7,
            ..Default::default()
        };
        let (rows, of_segments) = all!(evpn, list_ethernet_segments, ethernet_segments, request);
        assert_eq!((rows.len(), of_segments.len()), (30, 4));
        assert!(rows.is_sorted_by_key(|row| row.esi.clone()));
        assert!(rows.iter().all(|row| row.attached_vteps == ["192.0.2.1"]));
        let request = proto::GetEthernetSegmentRequest {
            esi: rows[3].esi.clone(),
            ..Default::default()
        };
        let one = evpn.get_ethernet_segment(request).await.unwrap();
        assert_eq!(one.into_inner().resource.as_ref(), Some(&rows[3]));
        let request = proto::ListRoutesRequest {
            page_size: 900,
            ..Default::default()
        };
        let (rows, of_routes) = all!(routes, list_routes, routes, request);
        assert_eq!((rows.len(), of_routes.len()), (3_560, 3));
        let part = of_hosts[0][..20].to_owned();
        for token in [&of_segments[0], &of_routes[0], &part] {
            let request = proto::ListHostAddressesRequest {
                page_token: token.clone(),
                ..Default::default()
            };
            let refusal = evpn.list_host_addresses(request).await.unwrap_err();
            assert_eq!(fields(&refusal), ["page_token"], "{token}");
        }
        for token in [&of_hosts[0], &of_routes[0]] {
            let request = proto::ListEthernetSegmentsRequest {
                page_token: token.clone(),
                ..Default::default()
            };
            let refusal = evpn.list_ethernet_segments(request).await.unwrap_err();
            assert_eq!(fields(&refusal), ["page_token"], "{token}");
        }
        for token in [&of_hosts[0], &of_segments[0]] {
            let request = proto::ListRoutesRequest {
                page_token: token.clone(),
                ..Default::default()
            };
            let refusal = routes.list_routes(request).await.unwrap_err();
            assert_eq!(fields(&refusal), ["page_token"], "{token}");
        }
        lone.stop().await;
    }
}
