//! Which hosts claim which IP addresses, in order by domain, address and host, as rows in pages. The tables' thread looks at a
//! part of the table at a time, and says who claims what: a page asks it nothing more. Knows tables; the rules are
//! `weft_evpn`'s.

use std::net::IpAddr;

use weft_bgp::table::{Path, Table};
use weft_evpn::neighbor::{self, Domain, Neighbor};
use weft_evpn::{Route, Vni};
use weft_proto::v1 as proto;

use super::super::PART;
use super::super::page::Page;
use super::super::page::list::List;

/// Which claims to IP addresses are wanted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    /// Only this VNI.
    pub(super) vni: Option<Vni>,
    /// Only this address.
    pub(super) ip: Option<IpAddr>,
    /// Only addresses that several hosts claim.
    pub(super) duplicates: bool,
}

/// Who claims an IP address in its domain: what a page ends with. An address may have more claims than a page.
pub(super) type Place = (Domain, IpAddr, Neighbor);

/// A claim in a list: some 80 octets.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    place: Place,
    /// Another MAC address claims the same. Not known while the list is made.
    duplicate: bool,
}

impl Claim {
    /// Whether both are claims to one address.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        self.address() == other.address()
    }

    fn address(&self) -> (Domain, IpAddr) {
        let (domain, ip, _) = self.place;
        (domain, ip)
    }
}

impl Filter {
    /// The claims in the next places of the table to addresses up to that of `end`, in no meaningful order, duplicates or not,
    /// and where to go on.
    pub(super) fn part(
        self,
        table: &Table<Route>,
        place: usize,
        end: Option<Claim>,
    ) -> (Vec<Claim>, Option<usize>) {
        let (part, next) = table.page(place, PART);
        let selected = part.into_iter().filter_map(|at| at.selected);
        let claims = selected.filter_map(|path| self.claim(path));
        let near = claims.filter(|it| end.is_none_or(|end| it.address() <= end.address()));
        (near.collect(), next)
    }

    fn claim(self, path: &Path<Route>) -> Option<Claim> {
        let Route::MacIp(route) = &path.nlri else {
            return None;
        };
        if self.ip.is_some() && self.ip != route.key.ip {
            return None;
        }
        let place = neighbor::claim(path)?;
        let (domain, ..) = place;
        let is_wanted = self.vni.is_none_or(|vni| domain == Domain::Vni(vni));
        let duplicate = false;
        is_wanted.then_some(Claim { place, duplicate })
    }

    /// A list that has all claims to each of its addresses, with the duplicates marked, or nothing but them. Those of gateways
    /// make none.
    pub(super) fn marked(self, mut list: List<Claim>) -> List<Claim> {
        for claims in list.items.chunk_by_mut(Claim::is_beside) {
            let hosts = claims.iter().map(|claim| &claim.place.2);
            let mut macs = hosts.filter(|it| !it.gateway).map(|it| it.mac);
            let first = macs.next();
            let duplicate = macs.any(|mac| Some(mac) != first);
            claims.iter_mut().for_each(|it| it.duplicate = duplicate);
        }
        if self.duplicates {
            list.items.retain(|claim| claim.duplicate);
            list.items.shrink_to_fit();
        }
        list
    }
}

/// The page behind a place, and the place that it ends with if more follow.
pub(super) fn page(
    list: &List<Claim>,
    after: Option<Place>,
    size: usize,
) -> (Vec<proto::HostAddress>, Option<Place>) {
    let is_before = |claim: &Claim| after.is_some_and(|after| claim.place <= after);
    let begin = list.items.partition_point(is_before);
    let (mut page, mut last) = (Page::new(size), None);
    for claim in list.items.iter().skip(begin) {
        if !page.put(row(*claim)) {
            break;
        }
        last = Some(claim.place);
    }
    (page.rows, last.filter(|_| page.more || list.more))
}

/// What the token of the page after a place says.
pub(super) fn text((domain, ip, claim): Place) -> String {
    let domain = match domain {
        Domain::Vni(vni) => vni.to_string(),
        // Two route distinguishers may be written alike.
        Domain::Instance(rd, tag) => format!("0x{:016x}/{tag}", u64::from_be_bytes(rd.0)),
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
    let flags = [sticky, gateway, router].map(u8::from);
    let [sticky, gateway, router] = flags;
    format!("{domain}/{ip}/{mac}/{vtep}/{esi}/{sequence}/{sticky}{gateway}{router}")
}

/// The place that a token names.
pub(super) fn place(text: &str) -> Option<Place> {
    let mut fields = text.rsplit('/');
    let flags = fields.next()?.chars().map(|it| it.to_digit(2));
    let flags: Vec<bool> = flags.map(|it| Some(it? == 1)).collect::<Option<_>>()?;
    let [sticky, gateway, router] = flags[..] else {
        return None;
    };
    let sequence = fields.next()?.parse().ok()?;
    let esi = fields.next()?.parse().ok()?;
    let vtep = fields.next()?.parse().ok()?;
    let mac = fields.next()?.parse().ok()?;
    let ip = fields.next()?.parse().ok()?;
    let last = fields.next()?;
    let domain = match fields.next() {
        None => Domain::Vni(last.parse().ok()?),
        Some(rd) => Domain::Instance(rd.parse().ok()?, last.parse().ok()?),
    };
    let claim = Neighbor {
        mac,
        vtep,
        esi,
        sequence,
        sticky,
        gateway,
        router,
    };
    fields.next().is_none().then_some((domain, ip, claim))
}

fn row(Claim { place, duplicate }: Claim) -> proto::HostAddress {
    let (domain, ip, claim) = place;
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
    use std::cell::Cell;
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use weft_bgp::attribute::{Attributes, NextHop};
    use weft_bgp::peer::{PeerId, RouterId};
    use weft_bgp::rd::Rd;
    use weft_bgp::table::{PeerKind, Source};
    use weft_evpn::community::Encapsulation;
    use weft_evpn::mac::Mac;
    use weft_evpn::route::{Labels, MacIp, MacIpKey};
    use weft_evpn::{Esi, EthernetTag, Label};

    use super::super::super::page::kept::Kept;
    use super::super::super::page::list::First;
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

    /// A list that clients read as the service lets them.
    struct Reader<'t> {
        table: &'t Table<Route>,
        kept: Arc<Kept>,
        /// Destinations that were looked at.
        looked: Cell<usize>,
        pages: Cell<usize>,
    }

    impl<'t> Reader<'t> {
        fn of(table: &'t Table<Route>) -> Self {
            Self {
                table,
                kept: Arc::new(Kept::new()),
                looked: Cell::new(0),
                pages: Cell::new(0),
            }
        }

        fn list(&self, filter: Filter, mut first: First<Claim>) -> List<Claim> {
            let mut place = Some(0);
            while let Some(at) = place {
                let (part, next) = filter.part(self.table, at, first.end());
                first = first.with(part);
                place = next;
            }
            self.looked.set(self.looked.get() + self.table.len());
            filter.marked(first.finish(7))
        }

        async fn all(&self, filter: Filter, size: usize) -> Vec<proto::HostAddress> {
            let (mut rows, mut after) = (Vec::new(), None);
            loop {
                let list = match after {
                    None if !filter.duplicates => {
                        let first = First::new(size + 1, Claim::is_beside);
                        Arc::new(self.list(filter, first))
                    }
                    _ => {
                        let make = async { Ok(self.list(filter, First::all())) };
                        self.kept.list(&filter, 7, make).await.unwrap()
                    }
                };
                let (page, last) = page(&list, after, size);
                assert!(page.len() <= size);
                self.pages.set(self.pages.get() + 1);
                rows.extend(page);
                let Some(last) = last else { return rows };
                after = place(&text(last));
                assert_eq!(after, Some(last));
            }
        }
    }

    #[tokio::test]
    async fn pages_are_every_claim_once_and_the_table_is_looked_at_twice_for_all_of_them() {
        let table = table(5_003);
        let whole = Reader::of(&table).all(Filter::default(), 10_000).await;
        assert_eq!(whole.len(), 5_003 + 6);
        assert_eq!(whole.iter().filter(|row| row.duplicate).count(), 12);
        for size in [1, 7, 1_000] {
            let reader = Reader::of(&table);
            assert_eq!(reader.all(Filter::default(), size).await, whole, "{size}");
            assert_eq!(reader.pages.get(), 5_009_usize.div_ceil(size));
            assert_eq!(reader.looked.get(), 2 * table.len(), "{size}");
            // Another client needs its own first page only.
            assert_eq!(reader.all(Filter::default(), 500).await, whole);
            assert_eq!(reader.looked.get(), 3 * table.len());
        }
    }

    #[tokio::test]
    async fn an_address_that_very_many_claim_is_read_to_its_end() {
        let mut table = table(100);
        let (source, attributes) = leaf(1);
        for mac in 0..30_000 {
            let route = host(1, 100, 1 << 24 | mac, 7);
            table.learn(&source, 0, route, Arc::clone(&attributes));
        }
        table.select();
        let wanted = Filter {
            ip: Some(Ipv4Addr::new(10, 0, 0, 7).into()),
            ..Filter::default()
        };
        let duplicates = Filter {
            duplicates: true,
            ..wanted
        };
        for (filter, size, pages_min) in [
            (wanted, 10_000, 4),
            (wanted, 900, 34),
            (duplicates, 10_000, 4),
        ] {
            let reader = Reader::of(&table);
            let rows = reader.all(filter, size).await;
            // One in each VNI has it anyway.
            let in_vni = |vni| rows.iter().filter(move |row| row.vni == Some(vni));
            assert_eq!(in_vni(100).count(), 30_001);
            assert!(in_vni(100).all(|row| row.duplicate));
            assert_eq!(in_vni(101).count(), usize::from(!filter.duplicates));
            let macs = in_vni(100).map(|row| row.mac.clone());
            let macs: std::collections::BTreeSet<String> = macs.collect();
            assert_eq!(macs.len(), 30_001);
            assert!(reader.pages.get() >= pages_min);
        }
    }

    #[test]
    fn a_place_survives_as_a_token() {
        let claim = Neighbor {
            mac: Mac([2, 0, 0, 0, 0, 1]),
            vtep: "2001:db8::9".parse().unwrap(),
            esi: Esi([3; 10]),
            sequence: 7,
            sticky: true,
            gateway: false,
            router: true,
        };
        let ip: IpAddr = "2001:db8::1".parse().unwrap();
        for rd in [Rd::from_as4(64_496, 7), Rd::from_as2(64_496, 7)] {
            let wanted = (Domain::Instance(rd, EthernetTag(5)), ip, claim);
            assert_eq!(place(&text(wanted)), Some(wanted));
        }
        let good = text((Domain::Vni(Vni::new(100).unwrap()), ip, claim));
        assert!(place(&good).is_some());
        let longer = format!("1/2/{good}");
        let texts = [
            "",
            "100",
            "100/10.0.0.1",
            "leaf1",
            "x/y/z",
            &good[1..4],
            &longer,
        ];
        for text in texts {
            assert_eq!(place(text), None, "{text}");
        }
        assert_eq!(place(&good[..good.len() - 1]), None);
    }

    #[tokio::test]
    async fn only_what_is_wanted_is_told() {
        let table = table(5_003);
        let duplicates = Filter {
            duplicates: true,
            ..Filter::default()
        };
        let reader = Reader::of(&table);
        let rows = reader.all(duplicates, 5).await;
        assert_eq!((rows.len(), reader.pages.get()), (12, 3));
        assert!(rows.iter().all(|row| row.duplicate));
        assert_eq!(reader.looked.get(), table.len());
        let wanted = Filter {
            vni: Vni::new(101),
            ..duplicates
        };
        assert!(reader.all(wanted, 5).await.is_empty());
        let ip = Some(Ipv4Addr::new(10, 0, 0, 0).into());
        let wanted = Filter {
            ip,
            ..Filter::default()
        };
        assert_eq!(reader.all(wanted, 5).await.len(), 3);
        let wanted = Filter {
            vni: Vni::new(101),
            ..wanted
        };
        assert_eq!(reader.all(wanted, 5).await.len(), 1);
    }

    /// How long one look holds the tables' thread.
    #[test]
    #[ignore = "a measurement: cargo test --release -p weft-controller --lib a_look_at_400_000_routes -- --ignored --nocapture"]
    #[expect(clippy::disallowed_methods, reason = "it measures")]
    #[expect(clippy::disallowed_macros, reason = "it says what it measured")]
    fn a_look_at_400_000_routes() {
        use super::super::segments;
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
        let part = || Filter::default().part(&table, 200_000, None).0.len();
        eprintln!("hosts: {:?}", best(&part));
        let part = || segments::identifiers(&table, 200_000, None).0.len();
        eprintln!("segments: {:?}", best(&part));
        let key = "[2]:[0]:[48]:[02:00:00:03:00:00]:[32]:[10.0.0.1]".to_owned();
        let named = routes::Filter {
            name: row::Name::new(Some(key), None),
            ..routes::Filter::default()
        };
        for filter in [named, routes::Filter::default()] {
            let wanted = routes::Wanted::<Route>::new(filter, None, 10_000);
            let part = || wanted.keys(&table, 200_000, None).0.len();
            eprintln!("keys of routes: {:?}", best(&part));
        }
        let begun = std::time::Instant::now();
        let list = Reader::of(&table).list(Filter::default(), First::all());
        eprintln!(
            "all hosts, in order: {:?}, {}",
            begun.elapsed(),
            list.items.len()
        );
    }
}
