//! One destination in full: its paths, the step that put each behind the best one, and what each peer of
//! this replica was told of it, or why not. Knows tables and reports.

use std::fmt::{self, Write};
use std::net::IpAddr;

use weft_bgp::decision;
use weft_bgp::family::Family;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::reflect::{Local, PathsTold};
use weft_bgp::table::{Path, Stale, Table};
use weft_bgp::update_group::UpdateGroup;
use weft_evpn::{Route, RouteKey};
use weft_proto::operator::v1 as proto;

use super::routes::{self, Row};
use crate::reflector::Reflector;
use crate::speaker::report::Facts;

/// Copies of the paths of the destinations that were asked for.
#[derive(Debug)]
pub(super) enum Found {
    /// EVPN: one for each route distinguisher.
    Evpn(Vec<Vec<Path<Route>>>),
    /// IPv4 unicast.
    Ipv4(Vec<Vec<Path<Prefix4>>>),
    /// IPv6 unicast.
    Ipv6(Vec<Vec<Path<Prefix6>>>),
    /// Route target membership.
    Rtc(Vec<Vec<Path<Membership>>>),
}

/// Looks for destinations by what a list prints of them.
pub(super) fn find(reflector: &Reflector, family: Family, key: &str, rd: &str) -> Found {
    match family {
        Family::IPV4_UNICAST => Found::Ipv4(at(reflector.ipv4(), key.parse().ok())),
        Family::IPV6_UNICAST => Found::Ipv6(at(reflector.ipv6(), key.parse().ok())),
        Family::RTC => Found::Rtc(named(reflector.rtc(), key, |_| true)),
        _ => {
            let of_rd = |key: &RouteKey| rd.is_empty() || is_written(key.rd(), rd);
            Found::Evpn(named(reflector.evpn(), key, of_rd))
        }
    }
}

/// A prefix is its own key: nothing has to be looked for.
fn at<N: Nlri>(table: &Table<N>, nlri: Option<N>) -> Vec<Vec<Path<N>>> {
    let found = nlri.and_then(|nlri| table.get(&nlri.key()));
    found.map(|at| at.paths.to_vec()).into_iter().collect()
}

fn named<N: Nlri>(
    table: &Table<N>,
    text: &str,
    passes: impl Fn(&N::Key) -> bool,
) -> Vec<Vec<Path<N>>> {
    let wanted = |key: &N::Key| is_written(key, text) && passes(key);
    let found = table.iter().filter(|at| wanted(&at.key()));
    let mut found: Vec<_> = found.map(|at| at.paths.to_vec()).collect();
    found.sort_by_key(|paths| paths.first().map(|path| path.nlri.key()));
    found
}

/// Whether a value is printed as `text`; ends at the first octet that differs, for there are many.
fn is_written(value: &impl fmt::Display, text: &str) -> bool {
    struct Left<'a>(&'a str);
    impl Write for Left<'_> {
        fn write_str(&mut self, written: &str) -> fmt::Result {
            self.0 = self.0.strip_prefix(written).ok_or(fmt::Error)?;
            Ok(())
        }
    }
    let mut left = Left(text);
    write!(left, "{value}").is_ok() && left.0.is_empty()
}

impl Found {
    /// In words, with what each of these peers was told.
    pub(super) fn explain(
        &self,
        reports: &[(IpAddr, Facts)],
        local: &Local,
    ) -> Vec<proto::Destination> {
        match self {
            Self::Evpn(found) => each(found, reports, local),
            Self::Ipv4(found) => each(found, reports, local),
            Self::Ipv6(found) => each(found, reports, local),
            Self::Rtc(found) => each(found, reports, local),
        }
    }
}

fn each<N: Row>(
    found: &[Vec<Path<N>>],
    reports: &[(IpAddr, Facts)],
    local: &Local,
) -> Vec<proto::Destination> {
    let destination = |paths: &Vec<Path<N>>| destination(paths, reports, local);
    found.iter().map(destination).collect()
}

fn destination<N: Row>(
    paths: &[Path<N>],
    reports: &[(IpAddr, Facts)],
    local: &Local,
) -> proto::Destination {
    let selected = decision::select(paths);
    let went = decision::explain(paths);
    let detail = |(at, path): (usize, &Path<N>)| {
        let best = selected.as_ref().is_some_and(|best| best.index == at);
        let by = selected.as_ref().filter(|_| best);
        let by = by.map(|best| best.by.to_string()).unwrap_or_default();
        let behind_by = went.iter().find(|(place, _)| *place == at);
        let stale = match path.source.stale {
            Stale::No if path.is_long_lived_stale() => "long-lived stale",
            Stale::No => "",
            Stale::Graceful => "stale",
            Stale::LongLived => "long-lived stale",
        };
        proto::PathDetail {
            route: Some(routes::row(path, best, by)),
            path_id: path.path_id(),
            behind_by: behind_by
                .map(|(_, step)| step.to_string())
                .unwrap_or_default(),
            stale: stale.to_owned(),
            told: reports
                .iter()
                .filter(|(_, facts)| facts.state == "Established")
                .map(|(address, facts)| told(paths, at, *address, facts, local))
                .collect(),
        }
    };
    let paths: Vec<_> = paths.iter().enumerate().map(detail).collect();
    let first = paths.first().and_then(|path| path.route.clone());
    let first = first.unwrap_or_default();
    proto::Destination {
        rd: first.rd,
        key: first.key,
        paths,
    }
}

/// What one peer was told of the path at this place.
fn told<N: Row>(
    paths: &[Path<N>],
    at: usize,
    address: IpAddr,
    facts: &Facts,
    local: &Local,
) -> proto::Told {
    let reason = why_not(paths, at, facts, local);
    let peer = facts.peer.map(|peer| peer.router_id.to_string());
    proto::Told {
        peer: peer.unwrap_or_default(),
        address: address.to_string(),
        sent: reason.is_none(),
        reason: reason.unwrap_or_default(),
    }
}

fn why_not<N: Row>(paths: &[Path<N>], at: usize, facts: &Facts, local: &Local) -> Option<String> {
    let family = N::family();
    if !facts.families.contains(&family) {
        return Some("family not negotiated".to_owned());
    }
    let Some((key, interest)) = facts.told.get(&family) else {
        return Some("not begun yet".to_owned());
    };
    let path = paths.get(at)?;
    let group = UpdateGroup::<N>::new(key.clone(), *local);
    if facts.peer == Some(path.source.peer) && !group.returns() {
        return Some("its own".to_owned());
    }
    let places = match key.add_path {
        None => decision::best(paths, 1),
        Some(PathsTold::All) => (0..paths.len()).collect(),
        Some(PathsTold::Best(count)) => decision::best(paths, count.get().into()),
    };
    if !places.contains(&at) {
        return Some(match key.add_path {
            None => "not the best path".to_owned(),
            Some(PathsTold::All) => String::new(),
            Some(PathsTold::Best(count)) => format!("not among the {count} best paths"),
        });
    }
    let explained = group.explain(path, interest);
    explained.err().map(|reason| reason.to_string())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use weft_bgp::attribute::{Attributes, NextHop};
    use weft_bgp::capability::AddPathSet;
    use weft_bgp::constrain::Interest;
    use weft_bgp::message::DecodeContext;
    use weft_bgp::peer::{ClusterId, PeerId, RouterId};
    use weft_bgp::table::{PeerKind, Source};
    use weft_bgp::update_group::ExportKey;

    use super::*;
    use crate::speaker::report::Report;

    fn peer(last: u8) -> (PeerId, IpAddr) {
        let peer = PeerId {
            router_id: RouterId(last.into()),
            asn: 64_496,
        };
        (peer, Ipv4Addr::new(192, 0, 2, last).into())
    }

    fn path(last: u8, local_pref: u32) -> Path<Prefix4> {
        let (peer, address) = peer(last);
        Path {
            source: Arc::new(Source::new(peer, address, PeerKind::IbgpClient)),
            attributes: Arc::new(Attributes {
                next_hop: Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, last))),
                local_pref: Some(local_pref),
                ..Attributes::default()
            }),
            nlri: Prefix4 {
                addr: Ipv4Addr::new(203, 0, 113, 0),
                len: 24,
            },
        }
    }

    fn report(last: u8, families: &[Family], is_told: bool) -> (IpAddr, Facts) {
        let (peer, address) = peer(last);
        let mut facts = Report::new("leaves".to_owned(), false).facts();
        facts.state = "Established";
        facts.peer = Some(peer);
        facts.families = families.to_vec();
        let negotiated = DecodeContext {
            four_octet_as: true,
            ibgp: true,
            extended_message: false,
            add_path: AddPathSet::NONE,
        };
        let key = ExportKey::new(PeerKind::IbgpClient, &negotiated);
        for family in families.iter().filter(|_| is_told) {
            let manner = (key.clone(), Interest::Everything);
            facts.told.insert(*family, manner);
        }
        (address, facts)
    }

    #[test]
    fn each_peer_was_told_or_there_is_a_reason() {
        let local = Local {
            asn: 64_496,
            router_id: RouterId(100),
            cluster_id: ClusterId(1),
        };
        let ipv4 = [Family::IPV4_UNICAST];
        let reports = [
            report(1, &ipv4, true),
            report(2, &ipv4, true),
            report(3, &[Family::L2VPN_EVPN], true),
            report(4, &ipv4, false),
        ];
        let found = Found::Ipv4(vec![vec![path(1, 200), path(2, 100)]]);
        let explained = found.explain(&reports, &local);
        let [destination] = &explained[..] else {
            panic!("one destination");
        };
        assert_eq!(destination.key, "203.0.113.0/24");
        let says = |at: usize| {
            let path = &destination.paths[at];
            let told = path.told.iter();
            let told = told.map(|told| match told.sent {
                true => "sent",
                false => told.reason.as_str(),
            });
            (path.behind_by.as_str(), told.collect::<Vec<_>>())
        };
        let (none, late) = ("family not negotiated", "not begun yet");
        assert_eq!(says(0), ("", vec!["its own", "sent", none, late]));
        let behind = "not the best path";
        let expected = (
            "highest local preference",
            vec![behind, "its own", none, late],
        );
        assert_eq!(says(1), expected);
    }

    #[test]
    fn a_prefix_is_found_by_its_text() {
        let mut table = Table::new();
        let path = path(1, 100);
        table.learn(&path.source, 0, path.nlri, Arc::clone(&path.attributes));
        table.select();
        let find = |text: &str| at(&table, text.parse::<Prefix4>().ok()).len();
        assert_eq!(find("203.0.113.0/24"), 1);
        for other in ["203.0.113.0/25", "203.0.113.0", "", "203.0.112.0/24"] {
            assert_eq!(find(other), 0, "{other}");
        }
    }

    #[test]
    fn a_key_is_what_is_printed_of_it_and_nothing_else() {
        let address: IpAddr = "192.0.2.1".parse().expect("an address");
        assert!(is_written(&address, "192.0.2.1"));
        for other in ["192.0.2.10", "192.0.2.", "", "192.0.2.2"] {
            assert!(!is_written(&address, other), "{other}");
        }
    }
}
