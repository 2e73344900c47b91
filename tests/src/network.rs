//! The wires between replicas: loss, delay, repetition, reordering, and directions that are cut. Knows
//! not what a message says.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::random::Random;

/// A message on its way.
#[derive(Clone)]
pub(crate) struct Packet {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) octets: Bytes,
    pub(crate) snapshot: bool,
}

/// How bad the wires are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) loss_permille: u64,
    pub(crate) repeat_permille: u64,
    pub(crate) delay_ms_max: u64,
}

/// Wires without order: a message leaves when its time has come.
#[derive(Default)]
pub(crate) struct Network {
    due: BTreeMap<(u64, u64), Packet>,
    sent: u64,
    /// Directions that carry nothing.
    cut: BTreeSet<(u64, u64)>,
    pub(crate) weather: Weather,
    /// Snapshots that did not arrive: whoever sent them always comes to know.
    pub(crate) lost: Vec<Packet>,
}

impl Network {
    /// Sends; false if it is known at once that it does not arrive.
    pub(crate) fn send(&mut self, packet: &Packet, now: u64, random: &mut Random) -> bool {
        if self.is_cut(packet.from, packet.to) {
            return false;
        }
        if random.permille(self.weather.loss_permille) {
            return !packet.snapshot && random.permille(500);
        }
        let copies = 1 + u64::from(random.permille(self.weather.repeat_permille));
        for _ in 0..copies {
            self.sent += 1;
            let at = now + 1 + random.below(self.weather.delay_ms_max + 1);
            self.due.insert((at, self.sent), packet.clone());
        }
        true
    }

    /// What has arrived by now at a replica that listens.
    pub(crate) fn arrived(
        &mut self,
        now: u64,
        mut listens: impl FnMut(u64) -> bool,
    ) -> Vec<Packet> {
        let due: Vec<_> = self
            .due
            .range(..=(now, u64::MAX))
            .filter(|(_, packet)| listens(packet.to))
            .map(|(at, _)| *at)
            .collect();
        let taken = due.into_iter().filter_map(|at| self.due.remove(&at));
        taken.collect()
    }

    /// A replica died, and what was on its way to it is lost.
    pub(crate) fn forget(&mut self, replica: u64) {
        self.drop_where(|packet| packet.to == replica);
    }

    fn drop_where(&mut self, gone: impl Fn(&Packet) -> bool) {
        let gone = self.due.extract_if(.., |_, packet| gone(packet));
        let packets = gone.map(|(_, packet)| packet);
        self.lost.extend(packets.filter(|packet| packet.snapshot));
    }

    pub(crate) fn is_cut(&self, from: u64, to: u64) -> bool {
        self.cut.contains(&(from, to))
    }

    pub(crate) fn cut(&mut self, from: u64, to: u64) {
        self.cut.insert((from, to));
        self.drop_where(|packet| (packet.from, packet.to) == (from, to));
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
    }
}
