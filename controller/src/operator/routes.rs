//! The service of routes: every path, why the best one won, and to whom it is advertised. Knows no table's rows.

use std::str::FromStr;
use std::sync::Arc;

use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use weft_bgp::attribute::ExtendedCommunity;
use weft_bgp::family::Family;
use weft_bgp::table::Table;
use weft_evpn::Vni;
use weft_evpn::community::RouteTarget;
use weft_proto::v1::{self as proto, Consistency, RouteView, route_service_server};

use self::explain::Sessions;
use self::page::{Filter, Found, Wanted};
use self::row::{Name, Row};
use super::page::list::{First, List};
use super::tables::Tables;
use super::{Answer, family, field, off_the_runtime, refusal};
use crate::fabric::fact::InvalidFabric;
use crate::reflector::Reflector;

mod explain;
mod export;
pub(in crate::operator) mod page;
pub(in crate::operator) mod row;

/// Answers of routes.
pub struct Service {
    tables: Arc<Tables>,
}

/// A page that is asked for.
struct Asked {
    filter: Filter,
    /// Token of the page before.
    token: String,
    size: usize,
    /// Everything that is known of each path.
    full: bool,
    consistency: Consistency,
    /// What is wrong with it so far.
    faults: InvalidFabric,
}

/// Routes of a page, the token of the next one, and up to where they are complete.
type Listed = (Vec<proto::Route>, String, u64);

impl Service {
    /// For a running daemon.
    pub fn new(tables: Arc<Tables>) -> Self {
        Self { tables }
    }

    /// A page of the table of a family.
    async fn of_family(&self, family: Family, asked: Asked) -> Result<Listed, Status> {
        match family {
            Family::IPV4_UNICAST => self.page(asked, Reflector::ipv4).await,
            Family::IPV6_UNICAST => self.page(asked, Reflector::ipv6).await,
            Family::RTC => self.page(asked, Reflector::rtc).await,
            _ => self.page(asked, Reflector::evpn).await,
        }
    }

    async fn page<N: Row>(
        &self,
        mut asked: Asked,
        table: fn(&Reflector) -> &Table<N>,
    ) -> Result<Listed, Status> {
        let (list, faults) = (page::list::<N>(), &mut asked.faults);
        let after = super::page::after_read(&list, &asked.token, Wanted::<N>::place, faults);
        refusal::check(faults)?;
        let index = self.tables.catch_up(asked.consistency).await?;
        let wanted = Arc::new(Wanted::new(asked.filter, after, asked.size));
        let (found, revision) = self.found(index, &wanted, table).await?;
        let shared = Arc::clone(self.tables.shared());
        let written = off_the_runtime(move || {
            let reports = if asked.full {
                shared.reports()
            } else {
                Vec::new()
            };
            let sessions = Sessions {
                reports: &reports,
                local: &shared.local,
            };
            wanted.page(&found, asked.full.then_some(&sessions), revision)
        });
        let (routes, next_page_token) = written.await?;
        Ok((routes, next_page_token, revision))
    }

    /// What is on a page, found as fast as what is asked for allows, and up to where the list is complete that it is of.
    async fn found<N: Row>(
        &self,
        index: u64,
        wanted: &Arc<Wanted<N>>,
        table: fn(&Reflector) -> &Table<N>,
    ) -> Result<(Found<N>, u64), Status> {
        if let Some(nlri) = wanted.only() {
            return self.one(index, wanted, nlri, table).await;
        }
        if let Some(name) = wanted.shared_name() {
            let named = Arc::clone(wanted);
            let look = move |reflector: &Reflector| named.named(table(reflector), name);
            let (found, applied) = self.tables.look_indexed(index, look).await?;
            if let Some(found) = found {
                return Ok((found, applied));
            }
        }
        let list = match wanted.revision() {
            None => {
                let first = First::new(wanted.size() + 1, PartialEq::eq);
                Arc::new(self.keys(index, wanted, table, first).await?)
            }
            Some(revision) => {
                let make = self.keys(index, wanted, table, First::all());
                let kept = self.tables.kept();
                kept.list(wanted.filter(), revision, make).await?
            }
        };
        let look = |found: &Found<N>, at: usize| {
            let (wanted, list, len) = (Arc::clone(wanted), Arc::clone(&list), found.len());
            move |reflector: &Reflector| wanted.among(table(reflector), &list, at, len)
        };
        let walk = self.tables.walk(index, Found::default(), look, Found::with);
        let (found, _) = walk.await?;
        Ok((found, list.revision))
    }

    /// The keys of what is wanted, whatever the page, in order.
    async fn keys<N: Row>(
        &self,
        index: u64,
        wanted: &Arc<Wanted<N>>,
        table: fn(&Reflector) -> &Table<N>,
        first: First<N::Key>,
    ) -> Result<List<N::Key>, Status> {
        let look = |end: Option<N::Key>, at: usize| {
            let wanted = Arc::clone(wanted);
            move |reflector: &Reflector| wanted.keys(table(reflector), at, end.as_ref())
        };
        self.tables.list(index, first, look).await
    }

    /// What a prefix leads to: nothing has to be looked for.
    async fn one<N: Row>(
        &self,
        index: u64,
        wanted: &Arc<Wanted<N>>,
        nlri: N,
        table: fn(&Reflector) -> &Table<N>,
    ) -> Result<(Found<N>, u64), Status> {
        let (wanted, key) = (Arc::clone(wanted), nlri.key());
        let look = move |reflector: &Reflector| wanted.at(table(reflector), &key);
        self.tables.look_indexed(index, look).await
    }
}

#[tonic::async_trait]
impl route_service_server::RouteService for Service {
    async fn list_routes(
        &self,
        request: Request<proto::ListRoutesRequest>,
    ) -> Answer<proto::ListRoutesResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let evpn = Some(Family::L2VPN_EVPN);
        let family = family::read("family", request.family, evpn, &mut faults);
        let (filter, full) = wanted(&request, "", &mut faults);
        let asked = Asked {
            size: super::page::size(request.page_size, &mut faults),
            consistency: field::consistency(request.consistency, &mut faults),
            // Of which list it has to be is not known otherwise.
            token: family.map_or_else(String::new, |_| request.page_token),
            filter,
            full,
            faults,
        };
        let family = family.unwrap_or(Family::L2VPN_EVPN);
        let (routes, next_page_token, revision) = self.of_family(family, asked).await?;
        Ok(Response::new(proto::ListRoutesResponse {
            header: Some(self.tables.header(revision)),
            routes,
            next_page_token,
        }))
    }

    async fn get_route(
        &self,
        request: Request<proto::GetRouteRequest>,
    ) -> Answer<proto::GetRouteResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let evpn = Some(Family::L2VPN_EVPN);
        let family = family::read("family", request.family, evpn, &mut faults);
        if request.key.is_empty() {
            faults.fault("key", "missing");
        }
        if family == evpn && request.rd.is_none() {
            faults.fault("rd", "missing; ListRoutes answers those of all");
        }
        let family = family.unwrap_or(Family::L2VPN_EVPN);
        let name = Name::new(Some(request.key), request.rd);
        let text = name.to_string();
        let asked = Asked {
            filter: Filter {
                name,
                ..Filter::default()
            },
            token: String::new(),
            size: 1,
            full: true,
            consistency: field::consistency(request.consistency, &mut faults),
            faults,
        };
        let (routes, _, revision) = self.of_family(family, asked).await?;
        let route = routes.into_iter().next();
        let missing = || {
            let reason = format!("there is no {text} in {family}");
            refusal::missing_because("key", "route", &text, reason)
        };
        Ok(Response::new(proto::GetRouteResponse {
            header: Some(self.tables.header(revision)),
            resource: Some(route.ok_or_else(missing)?),
        }))
    }

    async fn export_mrt(
        &self,
        request: Request<proto::ExportMrtRequest>,
    ) -> Answer<BoxStream<proto::ExportMrtResponse>> {
        let mut faults = InvalidFabric::default();
        let families = request.into_inner().families.into_iter().enumerate();
        let families = families.filter_map(|(at, family)| {
            family::read(&format!("families[{at}]"), family, None, &mut faults)
        });
        let families: Vec<Family> = families.collect();
        refusal::check(&faults)?;
        let place = self.tables.export()?;
        let parts = export::export(self.tables.shared(), families, place);
        Ok(Response::new(Box::pin(parts)))
    }
}

/// Which routes a request asks for, and whether in full. Its fields are named with `before`.
pub(in crate::operator) fn wanted(
    request: &proto::ListRoutesRequest,
    before: &str,
    faults: &mut InvalidFabric,
) -> (Filter, bool) {
    let known = faults.faults.len();
    let route_type = request.route_type.map(|number| {
        let read = u8::try_from(number).ok().filter(|number| *number > 0);
        field::noted(read, "route_type", &number, "not 1 to 255", faults)
    });
    let vni = request.vni.and_then(|vni| field::vni(vni, faults));
    let mut read = Read(faults);
    let mac = read.text("mac", request.mac.as_ref(), "not a MAC address");
    let named = "neither an address nor a router id";
    let peer = read.text("peer", request.peer.as_ref(), named);
    let target = request.route_target.as_ref();
    let target: Option<RouteTarget> = read.text("route_target", target, "not a route target");
    let vtep = read.text(
        "vtep_address",
        request.vtep_address.as_ref(),
        "not an address",
    );
    let ip = read.text("ip", request.ip.as_ref(), "not an address");
    let view = RouteView::try_from(request.view).ok();
    let view = field::noted(view, "view", &request.view, "not a view", faults);
    for fault in faults.faults.iter_mut().skip(known) {
        fault.field.insert_str(0, before);
    }
    let filter = Filter {
        route_type: route_type.flatten(),
        vni: vni.map(Vni::number),
        mac,
        peer,
        route_targets: target.map(alike).unwrap_or_default(),
        vtep,
        ip,
        name: Name::new(request.key.clone(), request.rd.clone()),
    };
    (filter, view == Some(RouteView::Full))
}

/// Reads texts of a request, and keeps what is wrong with them.
struct Read<'a>(&'a mut InvalidFabric);

impl Read<'_> {
    fn text<T: FromStr>(&mut self, field: &str, text: Option<&String>, kind: &str) -> Option<T> {
        field::text(field, text?, kind, self.0)
    }
}

/// The forms that are written as a route target is: an AS below 65536 has one of two octets and one of four.
fn alike(target: RouteTarget) -> Vec<ExtendedCommunity> {
    let text = target.to_string();
    let (asn, number) = text.split_once(':').unwrap_or_default();
    let short = asn.parse().ok().zip(number.parse().ok());
    let long = asn.parse().ok().zip(number.parse().ok());
    let short = short.map(|(asn, number)| RouteTarget::two_octet_as(asn, number));
    let long = long.map(|(asn, number)| RouteTarget::four_octet_as(asn, number));
    let forms = [Some(target), short, long].into_iter().flatten();
    forms.map(RouteTarget::octets).collect()
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_peer_is_an_address_or_a_router_id() {
        let asked = |peer: Option<&str>| {
            let request = proto::ListRoutesRequest {
                peer: peer.map(str::to_owned),
                ..proto::ListRoutesRequest::default()
            };
            let mut faults = InvalidFabric::default();
            let (filter, _) = wanted(&request, "", &mut faults);
            refusal::check(&faults).map(|()| filter.peer)
        };
        for name in ["192.0.2.1", "2001:db8::1"] {
            assert_eq!(asked(Some(name)).unwrap(), name.parse().ok());
        }
        assert_eq!(asked(None).unwrap(), None);
        for name in ["leaf1", "192.0.2.256", "192.0.2.1 ", ""] {
            let status = asked(Some(name)).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            let said = format!("peer: {name:?} is neither an address nor a router id");
            assert_eq!(status.message(), said);
        }
    }

    #[test]
    fn every_filter_that_cannot_be_read_is_named() {
        let request = proto::ListRoutesRequest {
            route_type: Some(256),
            vni: Some(1 << 24),
            mac: Some("x".to_owned()),
            route_target: Some("64496".to_owned()),
            vtep_address: Some("leaf1".to_owned()),
            ip: Some("10.0.0.0/8".to_owned()),
            view: 9,
            ..proto::ListRoutesRequest::default()
        };
        let mut faults = InvalidFabric::default();
        wanted(&request, "", &mut faults);
        let fields = faults.faults.iter().map(|fault| fault.field.as_str());
        assert_eq!(
            fields.collect::<Vec<_>>(),
            [
                "route_type",
                "vni",
                "mac",
                "route_target",
                "vtep_address",
                "ip",
                "view"
            ]
        );
    }

    #[test]
    fn a_route_target_is_found_in_each_form_that_is_written_alike() {
        let forms = |text: &str| alike(text.parse().unwrap());
        let written = |forms: Vec<ExtendedCommunity>| {
            let texts = forms.into_iter().map(|it| it.to_string());
            texts.collect::<std::collections::BTreeSet<_>>()
        };
        for text in [
            "64496:100",
            "192.0.2.1:100",
            "4200000000:100",
            "64496:100000",
        ] {
            assert_eq!(written(forms(text)), [format!("RT:{text}")].into());
        }
        assert!(forms("64496:100").contains(&RouteTarget::four_octet_as(64_496, 100).octets()));
    }
}
