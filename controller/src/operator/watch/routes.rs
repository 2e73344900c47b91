//! Which routes a watcher follows, and how their best paths are written. Knows no stream.

use std::sync::Arc;

use tonic::Status;
use weft_bgp::decision::Step;
use weft_bgp::family::Family;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::table::{BestChange, Path, Table};
use weft_evpn::Route;
use weft_proto::v1::{self as proto, ChangeType};

use super::super::routes::page::Filter;
use super::super::routes::row::{self, Row};
use super::super::tables::Tables;
use super::super::{PART, family, off_the_runtime, routes};
use crate::fabric::fact::InvalidFabric;
use crate::reflector::Reflector;
use crate::reflector::history::Compacted;
use crate::reflector::news::{News, Recent};

/// The routes that a watcher follows.
#[derive(Debug)]
pub(super) struct Routes {
    family: Family,
    filter: Arc<Filter>,
    /// Where to read on.
    place: u64,
    /// What is streamed before that.
    first: Vec<proto::RouteChange>,
}

/// A family whose routes can be followed.
trait Followed: Row {
    fn table(reflector: &Reflector) -> &Table<Self>;
    fn recent(news: &News) -> &Recent<Self>;
}

impl Followed for Route {
    fn table(reflector: &Reflector) -> &Table<Self> {
        reflector.evpn()
    }

    fn recent(news: &News) -> &Recent<Self> {
        &news.evpn
    }
}

impl Followed for Prefix4 {
    fn table(reflector: &Reflector) -> &Table<Self> {
        reflector.ipv4()
    }

    fn recent(news: &News) -> &Recent<Self> {
        &news.ipv4
    }
}

impl Followed for Prefix6 {
    fn table(reflector: &Reflector) -> &Table<Self> {
        reflector.ipv6()
    }

    fn recent(news: &News) -> &Recent<Self> {
        &news.ipv6
    }
}

impl Followed for Membership {
    fn table(reflector: &Reflector) -> &Table<Self> {
        reflector.rtc()
    }

    fn recent(news: &News) -> &Recent<Self> {
        &news.rtc
    }
}

/// Does something for the family of these routes.
macro_rules! of_family {
    ($routes:expr, $call:ident($($argument:expr),*)) => {
        match $routes.family {
            Family::IPV4_UNICAST => $routes.$call::<Prefix4>($($argument),*),
            Family::IPV6_UNICAST => $routes.$call::<Prefix6>($($argument),*),
            Family::RTC => $routes.$call::<Membership>($($argument),*),
            _ => $routes.$call::<Route>($($argument),*),
        }
    };
}

impl Routes {
    /// Reads which a client wants; None: none.
    pub(super) fn read(
        wanted: Option<proto::RouteFilter>,
        faults: &mut InvalidFabric,
    ) -> Option<Self> {
        let wanted = wanted?;
        let evpn = Some(Family::L2VPN_EVPN);
        let family = family::read("routes.family", wanted.family, evpn, faults);
        let request = proto::ListRoutesRequest {
            route_type: wanted.route_type,
            vni: wanted.vni,
            route_target: wanted.route_target,
            mac: wanted.mac,
            vtep_address: wanted.vtep_address,
            ..proto::ListRoutesRequest::default()
        };
        let (filter, _) = routes::wanted(&request, "routes.", faults);
        Some(Self {
            family: family.unwrap_or(Family::L2VPN_EVPN),
            filter: Arc::new(filter),
            place: 0,
            first: Vec::new(),
        })
    }

    /// Begins with what changes after a revision.
    ///
    /// # Errors
    /// That is forgotten.
    pub(super) fn begin(&mut self, news: &News, revision: u64) -> Result<(), Compacted> {
        self.place = of_family!(self, place(news, revision))?;
        Ok(())
    }

    /// Begins with what its client may know otherwise, that knows everything up to a revision from another replica. Each
    /// selects what came together at once, and may pass over a path that the other one selected for a moment.
    pub(super) async fn resume(&mut self, tables: &Tables, revision: u64) -> Result<(), Status> {
        self.first = match self.family {
            Family::IPV4_UNICAST => self.doubtful::<Prefix4>(tables, revision).await,
            Family::IPV6_UNICAST => self.doubtful::<Prefix6>(tables, revision).await,
            Family::RTC => self.doubtful::<Membership>(tables, revision).await,
            _ => self.doubtful::<Route>(tables, revision).await,
        }?;
        Ok(())
    }

    async fn doubtful<N: Followed>(
        &self,
        tables: &Tables,
        revision: u64,
    ) -> Result<Vec<proto::RouteChange>, Status> {
        let keys = N::recent(tables.shared().reflection.news()).doubtful(revision);
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let look = move |reflector: &Reflector| {
            let selected = |key: &N::Key| {
                let destination = N::table(reflector).get(key)?;
                Some((destination.selected?.clone(), destination.by))
            };
            let found = keys.iter().map(|key| (key.clone(), selected(key)));
            found.collect::<Vec<_>>()
        };
        let found = tables.look(0, look).await?.into_iter();
        let now = found.map(|(key, selected)| {
            match selected.filter(|(path, _)| self.filter.wants(path)) {
                Some((path, by)) => written(&path, by, ChangeType::Updated),
                None => proto::RouteChange {
                    change_type: ChangeType::Deleted.into(),
                    route: Some(row::route_at::<N>(&key)),
                },
            }
        });
        Ok(now.collect())
    }

    /// What has changed since it was asked for last.
    ///
    /// # Errors
    /// Something of it is forgotten.
    pub(super) fn changes(&mut self, news: &News) -> Result<Vec<proto::RouteChange>, Compacted> {
        let (mut changes, place) = of_family!(self, since(news))?;
        self.place = place;
        if !self.first.is_empty() {
            changes.splice(0..0, std::mem::take(&mut self.first));
        }
        Ok(changes)
    }

    /// What there is in the next places of the table, and where to go on.
    pub(super) async fn existing(
        &self,
        tables: &Tables,
        place: usize,
    ) -> Result<(Vec<proto::RouteChange>, Option<usize>), Status> {
        match self.family {
            Family::IPV4_UNICAST => self.part::<Prefix4>(tables, place).await,
            Family::IPV6_UNICAST => self.part::<Prefix6>(tables, place).await,
            Family::RTC => self.part::<Membership>(tables, place).await,
            _ => self.part::<Route>(tables, place).await,
        }
    }

    fn place<N: Followed>(&self, news: &News, revision: u64) -> Result<u64, Compacted> {
        N::recent(news).place(revision)
    }

    fn since<N: Followed>(&self, news: &News) -> Result<(Vec<proto::RouteChange>, u64), Compacted> {
        let (batches, place) = N::recent(news).from(self.place)?;
        let changes = batches.iter().flat_map(|batch| batch.iter());
        let changes = changes.filter_map(|it| change(&self.filter, it));
        Ok((changes.collect(), place))
    }

    async fn part<N: Followed>(
        &self,
        tables: &Tables,
        place: usize,
    ) -> Result<(Vec<proto::RouteChange>, Option<usize>), Status> {
        let filter = Arc::clone(&self.filter);
        let look = move |reflector: &Reflector| {
            let (part, next) = N::table(reflector).page(place, PART);
            let selected = part
                .into_iter()
                .filter_map(|it| Some((it.selected?, it.by)));
            let wanted = selected.filter(|(path, _)| filter.wants(path));
            let paths: Vec<_> = wanted.map(|(path, by)| (path.clone(), by)).collect();
            (paths, next)
        };
        let (paths, next) = tables.look(0, look).await?;
        let written = off_the_runtime(move || {
            let paths = paths.iter();
            paths
                .map(|(path, by)| written(path, *by, ChangeType::Created))
                .collect()
        });
        Ok((written.await?, next))
    }
}

/// An answer of these changes alone, without a header.
pub(super) fn answer(route_changes: Vec<proto::RouteChange>) -> proto::WatchResponse {
    proto::WatchResponse {
        route_changes,
        ..proto::WatchResponse::default()
    }
}

/// A change as its watcher wants to hear it; None if it does not.
fn change<N: Row>(filter: &Filter, change: &BestChange<N>) -> Option<proto::RouteChange> {
    let wanted = |path: &&Path<N>| filter.wants(path);
    let (old, new) = (change.old.as_ref(), change.new.as_ref());
    match (old.filter(wanted), new.filter(wanted)) {
        (None, None) => None,
        (None, Some(path)) => Some(written(path, change.by, ChangeType::Created)),
        (Some(_), Some(path)) => Some(written(path, change.by, ChangeType::Updated)),
        (Some(path), None) => Some(proto::RouteChange {
            change_type: ChangeType::Deleted.into(),
            route: Some(row::route(&path.nlri)),
        }),
    }
}

fn written<N: Row>(path: &Path<N>, by: Step, change: ChangeType) -> proto::RouteChange {
    proto::RouteChange {
        change_type: change.into(),
        route: Some(proto::Route {
            paths: vec![row::path(path, true, Some(by))],
            ..row::route(&path.nlri)
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use weft_bgp::attribute::{Attributes, NextHop};
    use weft_bgp::nlri::Nlri;
    use weft_bgp::peer::{PeerId, RouterId};
    use weft_bgp::table::{PeerKind, Source};

    use super::*;

    fn path(next_hop: u8) -> Path<Prefix4> {
        let peer = PeerId {
            router_id: RouterId(1),
            asn: 64_496,
        };
        let address = Ipv4Addr::new(192, 0, 2, 1).into();
        Path {
            source: Arc::new(Source::new(peer, address, PeerKind::IbgpClient)),
            attributes: Arc::new(Attributes {
                next_hop: Some(NextHop::V4(Ipv4Addr::new(198, 51, 100, next_hop))),
                ..Attributes::default()
            }),
            nlri: Prefix4 {
                addr: Ipv4Addr::new(203, 0, 113, 1),
                len: 32,
            },
        }
    }

    /// A watcher of one VTEP hears of a route that comes to it, changes there, and leaves it: for another one, or for good.
    #[test]
    fn a_change_is_what_it_means_to_who_watches() {
        let filter = Filter {
            vtep: Some(Ipv4Addr::new(198, 51, 100, 1).into()),
            ..Filter::default()
        };
        let (created, updated, deleted) = (
            Some(ChangeType::Created),
            Some(ChangeType::Updated),
            Some(ChangeType::Deleted),
        );
        for (old, new, expected) in [
            (None, Some(1), created),
            (None, Some(2), None),
            (Some(1), Some(1), updated),
            (Some(2), Some(1), created),
            (Some(1), Some(2), deleted),
            (Some(1), None, deleted),
            (Some(2), None, None),
            (Some(2), Some(3), None),
        ] {
            let heard = change(
                &filter,
                &BestChange {
                    key: path(1).nlri.key(),
                    old: old.map(path),
                    new: new.map(path),
                    by: Step::NoPath,
                    revision: 1,
                },
            );
            assert_eq!(
                heard.as_ref().map(proto::RouteChange::change_type),
                expected
            );
            let Some(route) = heard.and_then(|it| it.route) else {
                continue;
            };
            assert_eq!(route.key, "203.0.113.1/32");
            let paths = usize::from(expected != deleted);
            assert_eq!(route.paths.len(), paths);
        }
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_named() {
        let mut faults = InvalidFabric::default();
        let wanted = proto::RouteFilter {
            vni: Some(1 << 24),
            mac: Some("x".to_owned()),
            ..proto::RouteFilter::default()
        };
        Routes::read(Some(wanted), &mut faults);
        let fields = faults.faults.iter().map(|fault| fault.field.as_str());
        assert_eq!(fields.collect::<Vec<_>>(), ["routes.vni", "routes.mac"]);
        assert!(Routes::read(None, &mut faults).is_none());
    }
}
