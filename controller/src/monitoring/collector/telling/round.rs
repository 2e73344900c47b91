//! What is done now and then for a collector: how peers are told is looked at, counts are sent, and noted
//! for operators. Knows no socket.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;
use weft_monitoring::bmp::{Policy, Rib, Statistic};

use super::{Table, Telling, header};
use crate::monitoring::selected::{Place, Whose};
use crate::speaker::report::Facts;

impl Telling<'_> {
    /// What peers are told may have begun or changed, and somebody may want to know how far we are.
    pub(super) fn look(&mut self) {
        self.note();
        let recent = |looked: Instant| looked.elapsed() < LOOK_EVERY;
        if !self.bmp.adj_rib_out || self.looked.is_some_and(recent) {
            return;
        }
        self.looked = Some(Instant::now());
        for (address, facts) in self.shared.reports() {
            self.look_at(address, &facts);
        }
    }

    /// Notes what was told since the last note.
    pub(in crate::monitoring::collector) fn note(&mut self) {
        let now = self.station.counters();
        let before = std::mem::replace(&mut self.noted, now);
        self.shared.taps.note(&self.bmp.name, |it| {
            it.told.messages += now.messages - before.messages;
            it.told.octets += now.octets - before.octets;
        });
    }

    fn look_at(&mut self, address: IpAddr, facts: &Facts) {
        let (Some(up), Some(peer)) = (self.sessions.get(&address), facts.peer) else {
            return;
        };
        let header = header(up, Rib::AdjRibOut(Policy::Post));
        for (family, (key, interest)) in &facts.told {
            // Several paths are told by path ids that only its update group knows.
            if key.add_path.is_some() {
                if self.untold.insert((address, *family)) {
                    tracing::info!(
                        collector = %self.bmp.name, peer = %address, %family,
                        "what a peer is told over add-path is not shown in its Adj-RIB-Out"
                    );
                }
                continue;
            }
            let whose = Whose::Peer(address, peer, key.clone(), interest.clone());
            let held = self.tables.iter_mut().find(|table| {
                let same = matches!(&table.whose, Whose::Peer(other, ..) if *other == address);
                same && table.place.family == *family
            });
            match held {
                Some(table) if table.whose == whose => {}
                Some(table) => {
                    table.whose = whose;
                    table.place.again();
                    table.due = Instant::now();
                }
                None => {
                    self.station.begin(&header, *family);
                    self.tables.push(Table {
                        whose,
                        place: Place::new(*family),
                        due: Instant::now(),
                    });
                }
            }
        }
    }

    pub(super) fn statistics(&mut self) {
        let reports: BTreeMap<IpAddr, Facts> = self.shared.reports().into_iter().collect();
        for (address, up) in &self.sessions {
            let Some(facts) = reports.get(address) else {
                continue;
            };
            let header = header(up, Rib::AdjRibIn(Policy::Pre));
            self.station.statistics(&header, &statistics(facts));
        }
        let loc_rib = self.tables.iter().filter(|it| it.whose == Whose::LocRib);
        let counts: Vec<_> = loc_rib
            .map(|table| (table.place.family, table.place.destinations))
            .collect();
        if !counts.is_empty() {
            let total = counts.iter().map(|(_, count)| count).sum();
            let each = counts
                .iter()
                .map(|(family, count)| Statistic::LocRibOf(*family, *count));
            let all: Vec<_> = [Statistic::LocRib(total)].into_iter().chain(each).collect();
            let header = self.loc_rib_header();
            self.station.statistics(&header, &all);
        }
    }
}

fn statistics(facts: &Facts) -> Vec<Statistic> {
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let refused = facts.refused.values().sum();
    let malformed = facts.malformed.values().sum();
    let routes: usize = facts.routes.values().sum();
    let mut all = vec![
        Statistic::RejectedByPolicy(small(refused)),
        Statistic::UpdatesTreatedAsWithdraw(small(malformed)),
        Statistic::AdjRibIn(routes as u64),
    ];
    let each = facts.routes.iter();
    all.extend(each.map(|(family, count)| Statistic::AdjRibInOf(*family, *count as u64)));
    all
}

/// Between two looks at how peers are told.
const LOOK_EVERY: Duration = Duration::from_secs(1);
