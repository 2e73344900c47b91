//! One path as a message: what every family says of its paths, and what EVPN says beyond that. Knows tables, no call.

use std::fmt::{self, Write};
use std::net::IpAddr;

use ipnet::IpNet;
use weft_bgp::attribute::{Attributes, Origin};
use weft_bgp::decision::Step;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::table::{Path, Stale};
use weft_evpn::mac::Mac;
use weft_evpn::{Esi, Route, RouteKey};
use weft_proto::v1::{self as proto, DecisionStep, Staleness};

use super::super::family;
use super::page::Filter;

/// What a family can say of its routes beyond the key.
pub(in crate::operator) trait Row: Nlri {
    /// Route type and route distinguisher, where the family has them.
    fn place(key: &Self::Key, route: &mut proto::Route);
    /// VNI and segment, where the family has them.
    fn describe(&self, attributes: &Attributes, path: &mut proto::Path);
    /// Whether the route's own fields pass.
    fn passes(&self, attributes: &Attributes, filter: &Filter) -> bool;
    /// Whether it is the route of a host with this address, or of a prefix that covers it.
    fn covers(&self, ip: IpAddr) -> bool;
    /// Whether the route is what is asked for by name.
    fn is_named(&self, name: &Name) -> bool;
    /// What all that passes is called beside its key, [`Nlri::name`], if it is known.
    fn shared_name(_: &Filter) -> Option<u64> {
        None
    }
    /// The one route that can be meant, where its name is all that there is of it.
    fn named(_: &Name) -> Option<Self> {
        None
    }
}

/// A route as a list prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::operator) struct Name {
    key: Option<String>,
    rd: Option<String>,
    /// Of EVPN: what all their keys have in common, and what most keys have not is known at a glance.
    route_type: Option<u8>,
    mac: Option<Mac>,
}

impl Name {
    /// With any key, or any route distinguisher, if there is none.
    pub(in crate::operator) fn new(key: Option<String>, rd: Option<String>) -> Self {
        // [2]:[tag]:[48]:[MAC] or [2]:[tag]:[48]:[MAC]:[IPlen]:[IP]
        let fields: Vec<&str> = key.iter().flat_map(|key| key.split("]:[")).collect();
        let route_type = fields.first().and_then(|field| field.strip_prefix('['));
        let mac = fields.get(3).map(|field| field.trim_end_matches(']'));
        Self {
            route_type: route_type.and_then(|field| field.parse().ok()),
            mac: mac.and_then(|field| field.parse().ok()),
            key,
            rd,
        }
    }

    /// Whether everything has this name.
    fn is_any(&self) -> bool {
        self.key.is_none() && self.rd.is_none()
    }

    fn is_key(&self, key: &impl fmt::Display) -> bool {
        let text = self.key.as_deref();
        text.is_none_or(|text| is_written(key, text))
    }

    /// Of a family without route distinguishers.
    fn is_plain(&self, key: &impl fmt::Display) -> bool {
        self.rd.is_none() && self.is_key(key)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.rd, &self.key].into_iter().flatten();
        let parts: Vec<&str> = parts.map(String::as_str).collect();
        f.write_str(&parts.join(" "))
    }
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

impl Row for Route {
    fn place(key: &RouteKey, route: &mut proto::Route) {
        route.rd = Some(key.rd().to_string());
        route.route_type = key.route_type().into();
    }

    fn describe(&self, attributes: &Attributes, path: &mut proto::Path) {
        path.vni = self.vni(attributes).map(|vni| vni.number());
        path.esi = esi(self)
            .filter(|esi| !esi.is_zero())
            .map(|esi| esi.to_string());
    }

    fn passes(&self, attributes: &Attributes, filter: &Filter) -> bool {
        let mac = |wanted: Mac| match self.key() {
            RouteKey::MacIp(key) => key.mac == wanted,
            RouteKey::EthernetAd(_)
            | RouteKey::InclusiveMulticast(_)
            | RouteKey::EthernetSegment(_)
            | RouteKey::IpPrefix(_)
            | RouteKey::SelectiveMulticast(_)
            | RouteKey::MulticastJoin(_)
            | RouteKey::MulticastLeave(_)
            | RouteKey::RegionPmsi(_)
            | RouteKey::SelectivePmsi(_)
            | RouteKey::Leaf(_)
            | RouteKey::Opaque(_) => false,
        };
        filter
            .route_type
            .is_none_or(|wanted| self.key().route_type() == wanted)
            && filter.mac.is_none_or(mac)
            && filter.vni.is_none_or(|wanted| {
                self.vni(attributes)
                    .is_some_and(|vni| vni.number() == wanted)
            })
    }

    fn shared_name(filter: &Filter) -> Option<u64> {
        let name = &filter.name;
        let named = name.mac.filter(|_| name.route_type == Some(MAC_IP));
        filter.mac.or(named).map(Mac::number)
    }

    fn covers(&self, ip: IpAddr) -> bool {
        match self {
            Self::MacIp(route) => route.key.ip == Some(ip),
            Self::IpPrefix(route) => {
                let prefix = route.key.prefix;
                within(prefix.address(), prefix.bits(), ip)
            }
            _ => false,
        }
    }

    /// Most are not, and it takes long to write a key.
    fn is_named(&self, name: &Name) -> bool {
        if name.is_any() {
            return true;
        }
        if name.key.is_some() && name.route_type != Some(self.route_type()) {
            return false;
        }
        if let Self::MacIp(route) = self
            && name.key.is_some()
            && name.mac != Some(route.key.mac)
        {
            return false;
        }
        let key = self.key();
        let rd = name.rd.as_deref();
        name.is_key(&key) && rd.is_none_or(|rd| is_written(key.rd(), rd))
    }
}

fn esi(route: &Route) -> Option<Esi> {
    match route {
        Route::EthernetAd(route) => Some(route.key.esi),
        Route::MacIp(route) => Some(route.esi),
        Route::EthernetSegment(route) => Some(route.key.esi),
        Route::IpPrefix(route) => Some(route.esi),
        Route::MulticastJoin(route) => Some(route.key.esi),
        Route::MulticastLeave(route) => Some(route.key.esi),
        Route::InclusiveMulticast(_)
        | Route::SelectiveMulticast(_)
        | Route::RegionPmsi(_)
        | Route::SelectivePmsi(_)
        | Route::Leaf(_)
        | Route::Opaque(_) => None,
    }
}

impl Row for Prefix4 {
    fn place(_: &Self, _: &mut proto::Route) {}

    fn covers(&self, ip: IpAddr) -> bool {
        within(self.addr.into(), self.len, ip)
    }

    fn describe(&self, _: &Attributes, _: &mut proto::Path) {}

    fn passes(&self, _: &Attributes, filter: &Filter) -> bool {
        filter.is_of_any_family()
    }

    fn is_named(&self, name: &Name) -> bool {
        name.is_plain(&self.key())
    }

    fn named(name: &Name) -> Option<Self> {
        name.key.as_ref()?.parse().ok()
    }
}

impl Row for Prefix6 {
    fn place(_: &Self, _: &mut proto::Route) {}

    fn covers(&self, ip: IpAddr) -> bool {
        within(self.addr.into(), self.len, ip)
    }

    fn describe(&self, _: &Attributes, _: &mut proto::Path) {}

    fn passes(&self, _: &Attributes, filter: &Filter) -> bool {
        filter.is_of_any_family()
    }

    fn is_named(&self, name: &Name) -> bool {
        name.is_plain(&self.key())
    }

    fn named(name: &Name) -> Option<Self> {
        name.key.as_ref()?.parse().ok()
    }
}

impl Row for Membership {
    fn place(_: &Self, _: &mut proto::Route) {}

    fn covers(&self, _: IpAddr) -> bool {
        false
    }

    fn describe(&self, _: &Attributes, _: &mut proto::Path) {}

    fn passes(&self, _: &Attributes, filter: &Filter) -> bool {
        filter.is_of_any_family()
    }

    fn is_named(&self, name: &Name) -> bool {
        name.is_plain(&self.key())
    }
}

/// Whether a prefix covers an address.
fn within(prefix: IpAddr, bits: u8, ip: IpAddr) -> bool {
    IpNet::new(prefix, bits).is_ok_and(|prefix| prefix.contains(&ip))
}

/// A destination without its paths.
pub(in crate::operator) fn route<N: Row>(nlri: &N) -> proto::Route {
    route_at::<N>(&nlri.key())
}

/// The same of a key.
pub(in crate::operator) fn route_at<N: Row>(key: &N::Key) -> proto::Route {
    let mut route = proto::Route {
        family: family::to_message(N::family()).into(),
        key: key.to_string(),
        ..proto::Route::default()
    };
    N::place(key, &mut route);
    route
}

/// One path; `by` is the step that chose it or put it behind, where that is known.
pub(in crate::operator) fn path<N: Row>(
    path: &Path<N>,
    best: bool,
    by: Option<Step>,
) -> proto::Path {
    let attributes = &path.attributes;
    let mut row = proto::Path {
        peer_router_id: path.source.peer.router_id.to_string(),
        peer_asn: path.source.peer.asn,
        path_id: Some(path.path_id()).filter(|path_id| *path_id != 0),
        best,
        decision_step: by.map_or(DecisionStep::Unspecified, step).into(),
        decision: by.map(|by| by.to_string()),
        staleness: staleness(path).into(),
        next_hop: attributes.next_hop.map(|next_hop| next_hop.to_string()),
        origin: origin(attributes.origin).into(),
        as_path: attributes.as_path.to_string(),
        local_preference: attributes.local_pref_or_default(),
        med: attributes.med,
        communities: texts(&attributes.communities),
        extended_communities: texts(&attributes.ext_communities),
        large_communities: texts(&attributes.large_communities),
        originator_id: attributes.originator_id.map(|id| id.to_string()),
        cluster_list: texts(&attributes.cluster_list),
        ..proto::Path::default()
    };
    path.nlri.describe(attributes, &mut row);
    row
}

fn texts<T: ToString>(values: &[T]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

fn staleness<N>(path: &Path<N>) -> Staleness {
    match path.source.stale {
        Stale::No if path.is_long_lived_stale() => Staleness::LongLivedStale,
        Stale::No => Staleness::Fresh,
        Stale::Graceful => Staleness::Stale,
        Stale::LongLived => Staleness::LongLivedStale,
    }
}

fn origin(origin: Origin) -> proto::Origin {
    match origin {
        Origin::Igp => proto::Origin::Igp,
        Origin::Egp => proto::Origin::Egp,
        Origin::Incomplete => proto::Origin::Incomplete,
    }
}

fn step(step: Step) -> DecisionStep {
    match step {
        Step::NoPath => DecisionStep::Unspecified,
        Step::OnlyPath => DecisionStep::OnlyPath,
        Step::Withheld => DecisionStep::NotWithheld,
        Step::Stale => DecisionStep::NotStale,
        Step::NonClient => DecisionStep::NotNonClient,
        Step::Family(_) => DecisionStep::FamilyRule,
        Step::LocalPref => DecisionStep::LocalPreference,
        Step::AsPathLength => DecisionStep::AsPathLength,
        Step::Origin => DecisionStep::Origin,
        Step::Med => DecisionStep::Med,
        Step::ExternalOverInternal => DecisionStep::ExternalOverInternal,
        Step::RouterId => DecisionStep::RouterId,
        Step::ClusterListLength => DecisionStep::ClusterListLength,
        Step::PeerAddress => DecisionStep::PeerAddress,
        Step::PeerAs => DecisionStep::PeerAsn,
        Step::PathId => DecisionStep::PathId,
    }
}

/// MAC/IP advertisement. RFC 7432 §7.2.
const MAC_IP: u8 = 2;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use weft_bgp::rd::Rd;
    use weft_evpn::route::{
        EthernetAd, EthernetAdKey, EthernetSegment, EthernetSegmentKey, InclusiveMulticast,
        InclusiveMulticastKey, Labels, MacIp, MacIpKey, Opaque,
    };
    use weft_evpn::{EthernetTag, Label};

    use super::*;

    #[test]
    fn a_prefix_is_found_by_its_text() {
        let prefix: Prefix4 = "203.0.113.0/24".parse().unwrap();
        let named =
            |text: &str, rd: Option<&str>| Name::new(Some(text.to_owned()), rd.map(str::to_owned));
        let name = named("203.0.113.0/24", None);
        assert!(prefix.is_named(&name));
        assert_eq!(Prefix4::named(&name), Some(prefix));
        assert!(!prefix.is_named(&named("203.0.113.0/24", Some("64496:1"))));
        for other in ["203.0.113.0/25", "203.0.113.0", "", "203.0.112.0/24"] {
            assert!(!prefix.is_named(&named(other, None)), "{other}");
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
        for wanted in routes.iter().map(Nlri::key) {
            let key = wanted.to_string();
            let named = |rd: Option<String>| Name::new(Some(key.clone()), rd);
            let of_any = named(None);
            let of_one = named(Some(wanted.rd().to_string()));
            let of_none = named(Some("64496:3".to_owned()));
            for route in &routes {
                let is_it = route.key().to_string() == key;
                assert_eq!(route.is_named(&of_any), is_it, "{key} and {route:?}");
                assert_eq!(route.is_named(&of_one), route.key() == wanted, "{key}");
                assert!(!route.is_named(&of_none), "{key}");
            }
        }
        for other in ["", "[2]", "nonsense", "[2]:[7]:[48]:[x]", "[]:[]:[]:[]"] {
            let name = Name::new(Some(other.to_owned()), None);
            assert!(!routes.iter().any(|route| route.is_named(&name)));
        }
    }
}
