//! The service of the overlay: what the selected EVPN routes say of segments, hosts, VNIs and VTEPs, and which MAC addresses
//! are in two places. Knows no row.

use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use tonic::{Request, Response, Status};
use weft_evpn::{Esi, Vni};
use weft_proto::v1::{self as proto, evpn_service_server};

use self::duplicates::Duplicates;
use self::hosts::Claims;
use super::access::{Permission, permit};
use super::page::{self, Page};
use super::tables::Tables;
use super::{Answer, off_the_runtime, refusal};
use crate::daemon::switches::led::Led;
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

    /// Segments that are wanted, and up to where they are complete.
    async fn segments(
        &self,
        index: u64,
        wanted: segments::Wanted,
    ) -> Result<(Vec<proto::EthernetSegment>, u64), Status> {
        let look = |_: &Vec<_>, at: usize| {
            move |reflector: &Reflector| segments::paths(reflector.evpn(), at, wanted)
        };
        let take = |mut paths: Vec<_>, part| {
            paths.extend::<Vec<_>>(part);
            paths
        };
        let found = self.tables.walk(index, Vec::new(), look, take).await?;
        let (paths, applied) = found;
        let rows = off_the_runtime(move || segments::rows(paths, wanted)).await?;
        Ok((rows, applied))
    }

    /// A page's announcements of IP addresses.
    async fn claims(&self, index: u64, wanted: hosts::Wanted) -> Result<(Claims, u64), Status> {
        let look = |claims: &Claims, at: usize| {
            let end = claims.end();
            move |reflector: &Reflector| wanted.part(reflector.evpn(), at, end)
        };
        let take = |claims, part| wanted.merge(claims, part);
        self.tables.walk(index, Claims::default(), look, take).await
    }
}

#[tonic::async_trait]
impl evpn_service_server::EvpnService for Service {
    async fn list_ethernet_segments(
        &self,
        request: Request<proto::ListEthernetSegmentsRequest>,
    ) -> Answer<proto::ListEthernetSegmentsResponse> {
        permit(&request, Permission::ReadRoutes)?;
        let request = request.into_inner();
        let wanted = segments::Wanted {
            esi: None,
            after: page::after_read(SEGMENTS, &request.page_token, |esi| esi.parse().ok())?,
            tag: request.ethernet_tag,
        };
        let index = self.tables.catch_up(request.consistency).await?;
        let (rows, revision) = self.segments(index, wanted).await?;
        let page = Page::of(page::size(request.page_size)?, rows);
        Ok(Response::new(proto::ListEthernetSegmentsResponse {
            header: Some(self.tables.header(revision)),
            next_page_token: page.next(SEGMENTS, |last| last.esi.clone()),
            ethernet_segments: page.rows,
        }))
    }

    async fn get_ethernet_segment(
        &self,
        request: Request<proto::GetEthernetSegmentRequest>,
    ) -> Answer<proto::GetEthernetSegmentResponse> {
        permit(&request, Permission::ReadRoutes)?;
        let request = request.into_inner();
        let esi: Esi = read("esi", &request.esi, "an Ethernet segment identifier")?;
        let wanted = segments::Wanted {
            esi: Some(esi),
            after: None,
            tag: request.ethernet_tag,
        };
        let index = self.tables.catch_up(request.consistency).await?;
        let (rows, revision) = self.segments(index, wanted).await?;
        let segment = rows.into_iter().next();
        Ok(Response::new(proto::GetEthernetSegmentResponse {
            header: Some(self.tables.header(revision)),
            resource: Some(found(segment, "esi", "Ethernet segment", esi)?),
        }))
    }

    async fn list_host_addresses(
        &self,
        request: Request<proto::ListHostAddressesRequest>,
    ) -> Answer<proto::ListHostAddressesResponse> {
        permit(&request, Permission::ReadRoutes)?;
        let request = request.into_inner();
        let ip = request.ip.as_deref();
        let wanted = hosts::Wanted {
            vni: request.vni.map(vni).transpose()?,
            ip: ip.map(|ip| read("ip", ip, "an IP address")).transpose()?,
            duplicates: request.duplicates_only,
            after: page::after_read(HOSTS, &request.page_token, hosts::address)?,
            size: page::size(request.page_size)?,
        };
        let index = self.tables.catch_up(request.consistency).await?;
        let (claims, revision) = self.claims(index, wanted).await?;
        let (host_addresses, last) = off_the_runtime(move || wanted.rows(&claims)).await?;
        let next = last.map(|last| page::token(HOSTS, hosts::place(last)));
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
        permit(&request, Permission::ReadRoutes)?;
        let request = request.into_inner();
        let after = page::after_read(VNIS, &request.page_token, |vni| vni.parse().ok())?;
        let size = page::size(request.page_size)?;
        let index = self.tables.catch_up(request.consistency).await?;
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
        permit(&request, Permission::ReadRoutes)?;
        let request = request.into_inner();
        let vni = vni(request.vni)?;
        let index = self.tables.catch_up(request.consistency).await?;
        let topology = self.led.topology();
        let look =
            move |reflector: &Reflector| vteps::vni(reflector.vteps(), topology.as_deref(), vni);
        let (row, revision) = self.tables.look_indexed(index, look).await?;
        Ok(Response::new(proto::GetVniResponse {
            header: Some(self.tables.header(revision)),
            resource: Some(found(row, "vni", "VNI", vni)?),
        }))
    }

    async fn list_vteps(
        &self,
        request: Request<proto::ListVtepsRequest>,
    ) -> Answer<proto::ListVtepsResponse> {
        permit(&request, Permission::ReadRoutes)?;
        let request = request.into_inner();
        let after = page::after_read(VTEPS, &request.page_token, |it| it.parse().ok())?;
        let size = page::size(request.page_size)?;
        let index = self.tables.catch_up(request.consistency).await?;
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
        permit(&request, Permission::ReadRoutes)?;
        let request = request.into_inner();
        let address: IpAddr = read("address", &request.address, "an IP address")?;
        let index = self.tables.catch_up(request.consistency).await?;
        let topology = self.led.topology();
        let look = move |reflector: &Reflector| {
            vteps::one(reflector.vteps(), topology.as_deref(), address)
        };
        let (row, revision) = self.tables.look_indexed(index, look).await?;
        Ok(Response::new(proto::GetVtepResponse {
            header: Some(self.tables.header(revision)),
            resource: Some(found(row, "address", "VTEP", address)?),
        }))
    }

    async fn list_duplicate_macs(
        &self,
        request: Request<proto::ListDuplicateMacsRequest>,
    ) -> Answer<proto::ListDuplicateMacsResponse> {
        permit(&request, Permission::ReadRoutes)?;
        let request = request.into_inner();
        let after = page::after_read(DUPLICATES, &request.page_token, duplicates::after)?;
        let (known, revision) = self.tables.look_indexed(0, Duplicates::of).await?;
        let rest = known.rows.into_iter();
        let rest = rest.filter(|(place, _)| after.is_none_or(|after| *place > after));
        let size = page::size(request.page_size)?;
        let page = Page::of(size, rest.map(|(_, row)| row));
        Ok(Response::new(proto::ListDuplicateMacsResponse {
            header: Some(self.tables.header(revision)),
            next_page_token: page.next(DUPLICATES, duplicates::name),
            duplicate_macs: page.rows,
            watched_mac_count: known.watched,
            unwatched_announcement_count: known.unwatched,
        }))
    }

    async fn clear_duplicate_mac(
        &self,
        request: Request<proto::ClearDuplicateMacRequest>,
    ) -> Answer<proto::ClearDuplicateMacResponse> {
        let by = permit(&request, Permission::ClearDuplicateMacs)?;
        let place = duplicates::place(request.get_ref())?;
        let mut known = self.tables.look(0, Duplicates::of).await?;
        let consensus = &self.tables.shared().consensus;
        let index = duplicates::clear(consensus, place, by).await?;
        Ok(Response::new(proto::ClearDuplicateMacResponse {
            header: Some(self.tables.header(index)),
            cleared: known.rows.remove(&place),
        }))
    }
}

/// What a field has to be.
fn read<T: FromStr>(field: &str, text: &str, kind: &str) -> Result<T, Status> {
    let refused = |_| refusal::field(field, format_args!("{text:?} is not {kind}"));
    T::from_str(text).map_err(refused)
}

fn vni(number: u32) -> Result<Vni, Status> {
    let refused = || refusal::field("vni", format_args!("{number} is not a VNI"));
    Vni::new(number).ok_or_else(refused)
}

/// What there is of this name.
fn found<T>(row: Option<T>, field: &str, kind: &str, name: impl Display) -> Result<T, Status> {
    row.ok_or_else(|| {
        let name = name.to_string();
        let reason = format!("no route tells of {kind} {name}");
        refusal::missing_because(field, kind, &name, reason)
    })
}

const SEGMENTS: &str = "ethernet_segments";
const HOSTS: &str = "host_addresses";
const VNIS: &str = "vnis";
const VTEPS: &str = "vteps";
const DUPLICATES: &str = "duplicate_macs";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_cannot_be_read_says_what_it_has_to_be() {
        let ip = read::<IpAddr>("ip", "foo", "an IP address").unwrap_err();
        assert_eq!(ip.code(), tonic::Code::InvalidArgument);
        assert_eq!(ip.message(), "ip: \"foo\" is not an IP address");
        let esi = read::<Esi>("esi", "00:00", "an Ethernet segment identifier");
        let said = "esi: \"00:00\" is not an Ethernet segment identifier";
        assert_eq!(esi.unwrap_err().message(), said);
        let said = "vni: 16777216 is not a VNI";
        assert_eq!(vni(1 << 24).unwrap_err().message(), said);
    }
}
