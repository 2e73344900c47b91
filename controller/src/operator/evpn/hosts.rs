//! Which hosts claim which IP addresses, as rows in pages by domain and address. The tables' thread looks at
//! a part of the table at a time, and copies what may be on the page. Knows tables; the rules are
//! `weft_evpn`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use weft_bgp::table::{Path, Table};
use weft_evpn::neighbor::{Domain, Neighbor, Neighbors};
use weft_evpn::route::MacIp;
use weft_evpn::{Route, Vni};
use weft_proto::v1 as proto;

use super::super::PART;

/// Which claims to IP addresses are wanted.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Wanted {
    /// Only this VNI.
    pub(super) vni: Option<Vni>,
    /// Only this address.
    pub(super) ip: Option<IpAddr>,
    /// Only addresses that several hosts claim.
    pub(super) duplicates: bool,
    /// Only what comes after it.
    pub(super) after: Option<Address>,
    /// Rows; an address that does not fit has its own page.
    pub(super) size: usize,
}

/// An IP address in its domain: what a page ends with.
pub(super) type Address = (Domain, IpAddr);

/// Paths of one page, all of each address, and the last address if more follow.
#[derive(Debug, Default)]
pub(super) struct Claims {
    paths: Vec<Path<Route>>,
    last: Option<Address>,
}

impl Claims {
    /// Where the page ends if it is full: nothing behind has to be looked for any more.
    pub(super) fn end(&self) -> Option<Address> {
        self.last
    }
}

impl Wanted {
    /// The address that a path claims, if it is wanted, duplicate or not.
    fn address(&self, path: &Path<Route>) -> Option<Address> {
        let Route::MacIp(MacIp { key, .. }) = &path.nlri else {
            return None;
        };
        let ip = key.ip.filter(|ip| self.ip.is_none_or(|it| it == *ip))?;
        let vni = path.nlri.vni(&path.attributes);
        if self.vni.is_some() && vni != self.vni {
            return None;
        }
        let domain = vni.map_or(Domain::Instance(key.rd, key.tag), Domain::Vni);
        let address = (domain, ip);
        (self.after.is_none_or(|after| address > after)).then_some(address)
    }

    /// The page of what is in the next slots of the table, after a page of those before that ends at `end`,
    /// and where to go on. Of duplicates everything, for one is told by the other.
    pub(super) fn part(
        self,
        table: &Table<Route>,
        place: usize,
        end: Option<Address>,
    ) -> (Claims, Option<usize>) {
        let (part, next) = table.page(place, PART);
        let paths = self.addressed(part.into_iter().filter_map(|at| at.selected));
        let claims = match self.duplicates {
            true => Claims {
                paths: paths.map(|(_, path)| path.clone()).collect(),
                last: None,
            },
            false => self.page(paths.filter(|(address, _)| end.is_none_or(|end| *address <= end))),
        };
        (claims, next)
    }

    /// The page of what is in both.
    pub(super) fn merge(self, mut found: Claims, part: Claims) -> Claims {
        if self.duplicates {
            found.paths.extend(part.paths);
            return found;
        }
        let mut merged = self.page(self.addressed(found.paths.iter().chain(&part.paths)));
        if found.last.or(part.last).is_some() {
            let last = merged.paths.last();
            merged.last = last.and_then(|path| self.address(path));
        }
        merged
    }

    fn addressed<'p>(
        self,
        paths: impl Iterator<Item = &'p Path<Route>>,
    ) -> impl Iterator<Item = (Address, &'p Path<Route>)> {
        paths.filter_map(move |path| Some((self.address(path)?, path)))
    }

    /// The first addresses, until the page is full.
    fn page<'p>(&self, paths: impl Iterator<Item = (Address, &'p Path<Route>)>) -> Claims {
        let mut kept: BTreeMap<Address, Vec<&Path<Route>>> = BTreeMap::new();
        let (mut count, mut more) = (0, false);
        for (address, path) in paths {
            let last = kept.last_key_value().map(|(last, _)| *last);
            if count >= self.size && last.is_some_and(|last| address > last) {
                more = true;
                continue;
            }
            kept.entry(address).or_default().push(path);
            count += 1;
            // The last one goes as long as the others fill the page.
            while let Some(last) = kept.last_entry()
                && count - last.get().len() >= self.size
                && count > last.get().len()
            {
                count -= last.remove().len();
                more = true;
            }
        }
        let last = kept.last_key_value().map(|(last, _)| *last);
        Claims {
            paths: kept.into_values().flatten().cloned().collect(),
            last: last.filter(|_| more),
        }
    }

    /// The claims that these paths make as rows, and the last address if more follow.
    pub(super) fn rows(&self, claims: &Claims) -> (Vec<proto::HostAddress>, Option<Address>) {
        let view = Neighbors::of(&claims.paths);
        let duplicates: BTreeSet<Address> = view
            .duplicates()
            .map(|(domain, ip, _)| (domain, ip))
            .collect();
        let (mut rows, mut last) = (Vec::new(), None);
        for (domain, ip, _) in view.iter() {
            let duplicate = duplicates.contains(&(domain, ip));
            if self.duplicates && !duplicate {
                continue;
            }
            if rows.len() >= self.size {
                return (rows, last);
            }
            let claims = view.claims(domain, ip);
            rows.extend(claims.map(|claim| row(domain, ip, claim, duplicate)));
            last = Some((domain, ip));
        }
        (rows, claims.last)
    }
}

/// What the token of the page after an address says.
pub(super) fn place((domain, ip): Address) -> String {
    match domain {
        Domain::Vni(vni) => format!("{vni}/{ip}"),
        // Two route distinguishers may be written alike.
        Domain::Instance(rd, tag) => format!("0x{:016x}/{tag}/{ip}", u64::from_be_bytes(rd.0)),
    }
}

/// The address behind a token.
pub(super) fn address(token: &str) -> Option<Address> {
    let (domain, ip) = token.rsplit_once('/')?;
    let domain = match domain.split_once('/') {
        None => Domain::Vni(domain.parse().ok()?),
        Some((rd, tag)) => Domain::Instance(rd.parse().ok()?, tag.parse().ok()?),
    };
    Some((domain, ip.parse().ok()?))
}

fn row(domain: Domain, ip: IpAddr, claim: Neighbor, duplicate: bool) -> proto::HostAddress {
    let (vni, rd) = match domain {
        Domain::Vni(vni) => (Some(vni.number()), None),
        Domain::Instance(rd, _) => (None, Some(rd.to_string())),
    };
    let Neighbor {
        mac,
        vtep,
        esi,
        sequence,
        sticky,
        gateway,
        router,
    } = claim;
    proto::HostAddress {
        vni,
        rd,
        ip: ip.to_string(),
        mac: mac.to_string(),
        vtep_address: vtep.to_string(),
        esi: (!esi.is_zero()).then(|| esi.to_string()),
        sequence,
        sticky,
        gateway,
        router,
        duplicate,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use weft_bgp::attribute::{Attributes, NextHop};
    use weft_bgp::peer::{PeerId, RouterId};
    use weft_bgp::rd::Rd;
    use weft_bgp::table::{PeerKind, Source};
    use weft_evpn::community::Encapsulation;
    use weft_evpn::mac::Mac;
    use weft_evpn::route::{Labels, MacIpKey};
    use weft_evpn::{Esi, EthernetTag, Label};

    use super::*;

    fn leaf(number: u8) -> (Arc<Source>, Arc<Attributes>) {
        let peer = PeerId {
            router_id: RouterId(number.into()),
            asn: 64_496,
        };
        let address = Ipv4Addr::new(192, 0, 2, number);
        let source = Source::new(peer, address.into(), PeerKind::IbgpClient);
        let attributes = Attributes {
            next_hop: Some(NextHop::V4(address)),
            ext_communities: vec![Encapsulation::new(Encapsulation::VXLAN).octets()],
            ..Attributes::default()
        };
        (Arc::new(source), Arc::new(attributes))
    }

    /// A host of a leaf in a VNI, whose address has this number.
    fn host(leaf: u8, vni: u32, mac: u32, ip: u32) -> Route {
        let [a, b, c, d] = mac.to_be_bytes();
        let key = MacIpKey {
            rd: Rd::from_ipv4(Ipv4Addr::new(192, 0, 2, leaf), 1),
            tag: EthernetTag(0),
            mac: Mac([2, 0, a, b, c, d]),
            ip: Some(Ipv4Addr::from(0x0a00_0000 + ip).into()),
        };
        let [_, label @ ..] = vni.to_be_bytes();
        Route::MacIp(MacIp {
            key,
            esi: Esi::ZERO,
            labels: Labels::One(Label(label)),
        })
    }

    fn table(count: u32) -> Table<Route> {
        let mut table = Table::new();
        let (source, attributes) = leaf(1);
        for number in 0..count {
            // In no order, in two VNIs.
            let ip = number.wrapping_mul(7_919) % count;
            let route = host(1, 100 + ip % 2, ip, ip / 2);
            table.learn(&source, 0, route, Arc::clone(&attributes));
        }
        let (source, attributes) = leaf(2);
        for ip in (0..count).step_by(1_000) {
            let route = host(2, 100 + ip % 2, count + ip, ip / 2);
            table.learn(&source, 0, route, Arc::clone(&attributes));
        }
        table.select();
        table
    }

    fn all(table: &Table<Route>, mut wanted: Wanted) -> (Vec<proto::HostAddress>, usize) {
        let (mut rows, mut pages) = (Vec::new(), 0);
        loop {
            let (mut claims, mut place) = (Claims::default(), Some(0));
            while let Some(at) = place {
                let (part, next) = wanted.part(table, at, claims.end());
                claims = wanted.merge(claims, part);
                place = next;
            }
            let (page, last) = wanted.rows(&claims);
            pages += 1;
            rows.extend(page);
            let Some(last) = last else {
                return (rows, pages);
            };
            assert_eq!(address(&super::place(last)), Some(last));
            wanted.after = Some(last);
        }
    }

    #[test]
    fn pages_are_every_claim_once_and_duplicates_stay_together() {
        let table = table(5_003);
        let (whole, _) = all(
            &table,
            Wanted {
                size: 100_000,
                ..Wanted::default()
            },
        );
        assert_eq!(whole.len(), 5_003 + 6);
        assert_eq!(whole.iter().filter(|row| row.duplicate).count(), 12);
        for size in [1, 7, 1_000] {
            let (paged, pages) = all(
                &table,
                Wanted {
                    size,
                    ..Wanted::default()
                },
            );
            assert!(pages >= 5_009 / (size + 1));
            assert_eq!(paged, whole, "size {size}");
        }
    }

    #[test]
    fn an_address_survives_as_a_token() {
        let ip: IpAddr = "2001:db8::1".parse().unwrap();
        for rd in [Rd::from_as4(64_496, 7), Rd::from_as2(64_496, 7)] {
            let wanted = (Domain::Instance(rd, EthernetTag(5)), ip);
            assert_eq!(address(&place(wanted)), Some(wanted));
        }
        for text in ["", "100", "100/", "x/10.0.0.1", "0x1/10.0.0.1", "1/2/3/4"] {
            assert_eq!(address(text), None, "{text}");
        }
    }

    #[test]
    fn only_what_is_wanted_is_told() {
        let table = table(5_003);
        let wanted = Wanted {
            size: 4,
            ..Wanted::default()
        };
        let (rows, pages) = all(
            &table,
            Wanted {
                duplicates: true,
                ..wanted
            },
        );
        assert_eq!((rows.len(), pages), (12, 3));
        assert!(rows.iter().all(|row| row.duplicate));
        let (rows, _) = all(
            &table,
            Wanted {
                duplicates: true,
                vni: Vni::new(101),
                ..wanted
            },
        );
        assert!(rows.is_empty());
        let ip = Some(Ipv4Addr::new(10, 0, 0, 0).into());
        let (rows, _) = all(&table, Wanted { ip, ..wanted });
        assert_eq!(rows.len(), 3);
        let (rows, _) = all(
            &table,
            Wanted {
                ip,
                vni: Vni::new(101),
                ..wanted
            },
        );
        assert_eq!(rows.len(), 1);
    }

    /// How long one look holds the tables' thread, and how long all looks for a list do.
    #[test]
    #[ignore = "a measurement: cargo test --release -p weft-controller --lib a_look_at_400_000_routes -- --ignored --nocapture"]
    #[expect(clippy::disallowed_methods, reason = "it measures")]
    #[expect(clippy::disallowed_macros, reason = "it says what it measured")]
    fn a_look_at_400_000_routes() {
        use super::super::segments;
        use crate::operator::page;
        use crate::operator::routes::{page as routes, row};

        let table = table(400_000);
        let best = |look: &dyn Fn() -> usize| {
            let one = |_| {
                let begun = std::time::Instant::now();
                let count = look();
                (begun.elapsed(), count)
            };
            (0..20).map(one).min()
        };
        for size in [1_000, 10_000] {
            let wanted = Wanted {
                size,
                ..Wanted::default()
            };
            let part = || wanted.part(&table, 200_000, None).0.paths.len();
            eprintln!("neighbors, pages of {size}: {:?}", best(&part));
        }
        let all = Wanted {
            duplicates: true,
            ..Wanted::default()
        };
        let part = || all.part(&table, 200_000, None).0.paths.len();
        eprintln!("duplicates: {:?}", best(&part));
        let part = || {
            segments::paths(&table, 200_000, segments::Wanted::default())
                .0
                .len()
        };
        eprintln!("segments: {:?}", best(&part));
        let key = "[2]:[0]:[48]:[02:00:00:03:00:00]:[32]:[10.0.0.1]".to_owned();
        let filter = routes::Filter {
            name: row::Name::new(Some(key), None),
            ..routes::Filter::default()
        };
        let named = routes::Wanted::new(filter, None, 10_000).unwrap();
        let part = || named.part(&table, 200_000, None).1.unwrap();
        eprintln!("one route: {:?}", best(&part));
        let list = routes::list::<Route>();
        let wanted = |token: &str| {
            let after = page::after(&list, token).unwrap();
            let wanted = routes::Wanted::new(routes::Filter::default(), after, 10_000);
            wanted.unwrap()
        };
        let part = || wanted("").part(&table, 200_000, None).1.unwrap();
        eprintln!("the first of a page of routes: {:?}", best(&part));
        let (mut token, mut looks) = (String::new(), Vec::new());
        loop {
            let wanted = wanted(&token);
            let (mut found, mut place) = (routes::Found::default(), Some(0));
            while let Some(at) = place {
                let end = wanted.end(&found);
                let begun = std::time::Instant::now();
                let (part, next) = wanted.part(&table, at, end.as_ref());
                looks.push(begun.elapsed());
                found = wanted.merge(found, part);
                place = next;
            }
            token = wanted.page(&found, None).1;
            if token.is_empty() {
                break;
            }
        }
        let sum: std::time::Duration = looks.iter().sum();
        eprintln!("all routes: {} looks, {sum:?}", looks.len());
    }
}
