//! One destination in full: its paths, the step that put each behind the best one, and what each peer of
//! this replica was told of it, or why not. Knows tables and reports.

use std::collections::BTreeMap;
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
use weft_evpn::{Mac, Route};
use weft_proto::operator::v1 as proto;

use super::PART;
use super::routes::{self, Row};
use crate::reflector::Reflector;
use crate::speaker::report::Facts;

/// Which destinations are asked for, by what a list prints of them.
#[derive(Debug)]
pub(super) struct Asked {
    family: Family,
    key: String,
    rd: String,
    /// Of EVPN: what all their keys have in common, and what most keys have not is known at a glance.
    route_type: Option<u8>,
    mac: Option<Mac>,
}

/// Copies of the paths of the destinations that were asked for: of EVPN one for each route distinguisher.
#[derive(Debug, Default)]
pub(super) struct Found {
    evpn: Destinations<Route>,
    ipv4: Destinations<Prefix4>,
    ipv6: Destinations<Prefix6>,
    rtc: Destinations<Membership>,
}

/// Paths by key.
type Destinations<N> = BTreeMap<<N as Nlri>::Key, Vec<Path<N>>>;

impl Asked {
    /// Of this family, with any route distinguisher if there is none.
    pub(super) fn new(family: Family, key: String, rd: String) -> Self {
        // [2]:[tag]:[48]:[MAC] or [2]:[tag]:[48]:[MAC]:[IPlen]:[IP]
        let fields: Vec<&str> = key.split("]:[").collect();
        let route_type = fields.first().and_then(|field| field.strip_prefix('['));
        let mac = fields.get(3).map(|field| field.trim_end_matches(']'));
        Self {
            route_type: route_type.and_then(|field| field.parse().ok()),
            mac: mac.and_then(|field| field.parse().ok()),
            family,
            key,
            rd,
        }
    }

    /// What is found in the next places of the table, and where to go on.
    pub(super) fn part(&self, reflector: &Reflector, place: usize) -> (Found, Option<usize>) {
        let mut found = Found::default();
        let next = match self.family {
            Family::IPV4_UNICAST => {
                found.ipv4 = at(reflector.ipv4(), self.key.parse().ok());
                None
            }
            Family::IPV6_UNICAST => {
                found.ipv6 = at(reflector.ipv6(), self.key.parse().ok());
                None
            }
            Family::RTC => {
                let (rtc, next) = named(reflector.rtc(), place, |nlri| self.names(&nlri.key()));
                found.rtc = rtc;
                next
            }
            _ => {
                let (evpn, next) = named(reflector.evpn(), place, |route| self.names_route(route));
                found.evpn = evpn;
                next
            }
        };
        (found, next)
    }

    fn names(&self, key: &impl fmt::Display) -> bool {
        is_written(key, &self.key)
    }

    /// Whether this is what was asked for. Most are not, and it takes long to write a key.
    pub(super) fn names_route(&self, route: &Route) -> bool {
        if self.route_type != Some(route.route_type()) {
            return false;
        }
        if let Route::MacIp(route) = route
            && self.mac != Some(route.key.mac)
        {
            return false;
        }
        let key = route.key();
        self.names(&key) && (self.rd.is_empty() || is_written(key.rd(), &self.rd))
    }
}

/// A prefix is its own key: nothing has to be looked for.
fn at<N: Nlri>(table: &Table<N>, nlri: Option<N>) -> Destinations<N> {
    let found = nlri.and_then(|nlri| {
        let key = nlri.key();
        let paths = table.get(&key)?.paths.to_vec();
        Some((key, paths))
    });
    found.into_iter().collect()
}

/// What is wanted in the next places of a table, and where to go on.
pub(super) fn named<N: Nlri>(
    table: &Table<N>,
    place: usize,
    wanted: impl Fn(&N) -> bool,
) -> (Destinations<N>, Option<usize>) {
    let (part, next) = table.page(place, PART);
    let found = part
        .into_iter()
        .filter(|at| at.paths.first().is_some_and(|path| wanted(&path.nlri)));
    let found = found.map(|at| (at.key(), at.paths.to_vec()));
    (found.collect(), next)
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
    /// With what another part of the table has.
    pub(super) fn with(mut self, part: Self) -> Self {
        let Self {
            evpn,
            ipv4,
            ipv6,
            rtc,
        } = part;
        self.evpn.extend(evpn);
        self.ipv4.extend(ipv4);
        self.ipv6.extend(ipv6);
        self.rtc.extend(rtc);
        self
    }

    /// In words, with what each of these peers was told.
    pub(super) fn explain(
        &self,
        reports: &[(IpAddr, Facts)],
        local: &Local,
    ) -> Vec<proto::Destination> {
        let mut destinations = each(&self.evpn, reports, local);
        destinations.extend(each(&self.ipv4, reports, local));
        destinations.extend(each(&self.ipv6, reports, local));
        destinations.extend(each(&self.rtc, reports, local));
        destinations
    }
}

fn each<N: Row>(
    found: &Destinations<N>,
    reports: &[(IpAddr, Facts)],
    local: &Local,
) -> Vec<proto::Destination> {
    let destination = |paths: &Vec<Path<N>>| destination(paths, reports, local);
    found.values().map(destination).collect()
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
    use weft_bgp::rd::Rd;
    use weft_bgp::table::{PeerKind, Source};
    use weft_bgp::update_group::ExportKey;
    use weft_evpn::route::{
        EthernetAd, EthernetAdKey, EthernetSegment, EthernetSegmentKey, InclusiveMulticast,
        InclusiveMulticastKey, Labels, MacIp, MacIpKey, Opaque,
    };
    use weft_evpn::{Esi, EthernetTag, Label};

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
        let paths = vec![path(1, 200), path(2, 100)];
        let found = Found {
            ipv4: [(paths[0].nlri.key(), paths)].into(),
            ..Found::default()
        };
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

    /// A route of each sort, of two route distinguishers.
    fn routes() -> Vec<Route> {
        let (tag, esi) = (EthernetTag(7), Esi([3; 10]));
        let originator = IpAddr::from([192, 0, 2, 1]);
        let ips = [None, Some(originator), "2001:db8::1".parse().ok()];
        let of = |rd: Rd| {
            let host = move |mac: u8, ip: Option<IpAddr>| {
                let mac = Mac([2, 0, 0, 0, 0, mac]);
                Route::MacIp(MacIp {
                    key: MacIpKey { rd, tag, mac, ip },
                    esi,
                    labels: Labels::One(Label([0; 3])),
                })
            };
            let hosts = [1, 2].into_iter();
            let hosts = hosts.flat_map(move |mac| ips.map(|ip| host(mac, ip)));
            hosts.chain([
                Route::EthernetAd(EthernetAd {
                    key: EthernetAdKey { rd, esi, tag },
                    label: None,
                }),
                Route::InclusiveMulticast(InclusiveMulticast {
                    key: InclusiveMulticastKey {
                        rd,
                        tag,
                        originator,
                    },
                }),
                Route::EthernetSegment(EthernetSegment {
                    key: EthernetSegmentKey {
                        rd,
                        esi,
                        originator,
                    },
                }),
            ])
        };
        let opaque = Opaque::new(200, &[1, 2, 3]).expect("a route type nobody knows");
        let rds = [Rd::from_as2(64_496, 1), Rd::from_as2(64_496, 2)].into_iter();
        let routes = rds.flat_map(of);
        routes.chain([Route::Opaque(opaque.into())]).collect()
    }

    #[test]
    fn every_route_is_found_by_what_is_printed_of_it_and_no_other() {
        let routes = routes();
        let evpn = Family::L2VPN_EVPN;
        for wanted in routes.iter().map(Nlri::key) {
            let key = wanted.to_string();
            let of_any = Asked::new(evpn, key.clone(), String::new());
            let of_one = Asked::new(evpn, key.clone(), wanted.rd().to_string());
            let of_none = Asked::new(evpn, key.clone(), "64496:3".to_owned());
            for route in &routes {
                let is_it = route.key().to_string() == key;
                assert_eq!(of_any.names_route(route), is_it, "{key} and {route:?}");
                assert_eq!(of_one.names_route(route), route.key() == wanted, "{key}");
                assert!(!of_none.names_route(route), "{key}");
            }
        }
        for other in ["", "[2]", "nonsense", "[2]:[7]:[48]:[x]", "[]:[]:[]:[]"] {
            let asked = Asked::new(evpn, other.to_owned(), String::new());
            assert!(!routes.iter().any(|route| asked.names_route(route)));
        }
    }
}
