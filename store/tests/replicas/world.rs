//! Replicas in temporary directories and the wire between them, driven by ticks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use tempfile::TempDir;
use weft_store::{
    Applied, Batch, Change, Condition, Config, Input, Op, Outcome, Output, Replica, Role,
};

pub(crate) const CLUSTER: [u8; 16] = [7; 16];

pub(crate) struct Packet {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) octets: Bytes,
    pub(crate) snapshot: bool,
}

/// Chosen per packet: lost, once, or twice; now or later.
pub(crate) struct Weather {
    pub(crate) loss_percent: u64,
    pub(crate) repeat_percent: u64,
    pub(crate) reorder: bool,
}

pub(crate) struct World {
    pub(crate) dirs: BTreeMap<u64, TempDir>,
    pub(crate) replicas: BTreeMap<u64, Replica>,
    pub(crate) wire: VecDeque<Packet>,
    /// Replicas that nothing reaches and that reach nobody.
    pub(crate) cut: BTreeSet<u64>,
    /// Pairs of sender and receiver between which nothing arrives.
    pub(crate) cut_ways: BTreeSet<(u64, u64)>,
    pub(crate) outcomes: BTreeMap<u64, Outcome>,
    pub(crate) ready: BTreeMap<u64, u64>,
    pub(crate) failed: BTreeSet<u64>,
    pub(crate) applied: BTreeMap<u64, Vec<Applied>>,
    pub(crate) weather: Option<Weather>,
    pub(crate) random: Random,
    tickets: u64,
    configure: Box<dyn Fn(&mut Config)>,
}

impl World {
    pub(crate) fn new(replicas: u64) -> Self {
        Self::with(replicas, |_| {})
    }

    pub(crate) fn with(replicas: u64, configure: impl Fn(&mut Config) + 'static) -> Self {
        let mut world = Self {
            dirs: (1..=replicas).map(|id| (id, directory())).collect(),
            replicas: BTreeMap::new(),
            wire: VecDeque::new(),
            cut: BTreeSet::new(),
            cut_ways: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            ready: BTreeMap::new(),
            failed: BTreeSet::new(),
            applied: BTreeMap::new(),
            weather: None,
            random: Random(1),
            tickets: 0,
            configure: Box::new(configure),
        };
        for id in 1..=replicas {
            world.start(id);
        }
        world
    }

    pub(crate) fn config(&self, id: u64) -> Config {
        let voters = self.dirs.keys().copied().collect();
        let mut config = Config::new(id, voters, self.dirs[&id].path(), CLUSTER, 42);
        (self.configure)(&mut config);
        config
    }

    pub(crate) fn start(&mut self, id: u64) {
        let replica = Replica::open(self.config(id)).unwrap();
        self.replicas.insert(id, replica);
        self.applied.entry(id).or_default();
    }

    /// As a kill does: nothing is said goodbye to.
    pub(crate) fn kill(&mut self, id: u64) {
        self.replicas.remove(&id);
        self.wire.retain(|packet| packet.to != id);
    }

    pub(crate) fn poll(&mut self, id: u64) {
        let mut out = Vec::new();
        if let Some(replica) = self.replicas.get_mut(&id) {
            replica.poll(&mut out);
        }
        for output in out {
            match output {
                Output::Send {
                    to,
                    octets,
                    snapshot,
                } => self.wire.push_back(Packet {
                    from: id,
                    to,
                    octets,
                    snapshot,
                }),
                Output::Applied(applied) => self.applied.entry(id).or_default().push(applied),
                Output::Proposed { ticket, outcome } => {
                    assert!(self.outcomes.insert(ticket, outcome).is_none());
                }
                Output::ReadReady { ticket, index } => {
                    assert!(self.replicas[&id].status().applied >= index);
                    assert!(self.ready.insert(ticket, index).is_none());
                }
                Output::ReadFailed { ticket } => assert!(self.failed.insert(ticket)),
                Output::Status(_) => {}
            }
        }
    }

    /// Delivers what is on the wire, and what that causes, until it is quiet.
    pub(crate) fn deliver(&mut self) {
        for id in self.ids() {
            self.poll(id);
        }
        let mut budget = 20_000;
        while let Some(packet) = self.next_packet() {
            self.carry(packet);
            budget -= 1;
            assert!(budget > 0, "the wire never falls quiet");
        }
    }

    pub(crate) fn tick(&mut self) {
        for id in self.ids() {
            self.input(id, Input::Tick);
        }
        self.deliver();
    }

    pub(crate) fn ticks(&mut self, count: usize) {
        for _ in 0..count {
            self.tick();
        }
    }

    /// Ticks until `done`.
    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        for _ in 0..600 {
            if done(self) {
                return;
            }
            self.tick();
        }
        panic!("never: {what}");
    }

    pub(crate) fn input(&mut self, id: u64, input: Input) {
        if let Some(replica) = self.replicas.get_mut(&id) {
            replica.handle(input);
        }
    }

    /// The leader that a majority follows, ticking until there is one.
    pub(crate) fn leader(&mut self) -> u64 {
        let leader = |world: &Self| {
            let reachable: Vec<_> = world
                .replicas
                .iter()
                .filter(|(id, _)| !world.cut.contains(id))
                .map(|(_, replica)| replica.status())
                .collect();
            let first = reachable
                .iter()
                .find(|status| status.role == Role::Leader)?;
            reachable
                .iter()
                .all(|status| status.leader == Some(first.id) && status.term == first.term)
                .then_some(first.id)
        };
        self.until("a leader", |world| leader(world).is_some());
        leader(self).unwrap()
    }

    pub(crate) fn follower(&mut self) -> u64 {
        let leader = self.leader();
        self.ids()
            .into_iter()
            .find(|id| *id != leader && !self.cut.contains(id))
            .unwrap()
    }

    pub(crate) fn propose(&mut self, id: u64, batch: Batch) -> u64 {
        self.tickets += 1;
        let ticket = self.tickets;
        self.input(id, Input::Propose { batch, ticket });
        ticket
    }

    /// Proposes and ticks until the outcome is known.
    pub(crate) fn commit(&mut self, id: u64, batch: Batch) -> Outcome {
        let ticket = self.propose(id, batch);
        self.deliver();
        self.until("an outcome", |world| world.outcomes.contains_key(&ticket));
        self.outcomes[&ticket].clone()
    }

    pub(crate) fn read(&mut self, id: u64) -> u64 {
        self.tickets += 1;
        let ticket = self.tickets;
        self.input(id, Input::Read { ticket });
        ticket
    }

    pub(crate) fn get(&self, id: u64, key: &str) -> Option<String> {
        let value = self.replicas[&id].view().get(key.as_bytes()).unwrap();
        value.map(|value| String::from_utf8(value.to_vec()).unwrap())
    }

    /// Ticks until all replicas have applied the same, and checks that they have the same state.
    pub(crate) fn converge(&mut self) {
        self.until("convergence", |world| {
            let mut statuses = world.replicas.values().map(Replica::status);
            let first = statuses.next().unwrap();
            first.commit == first.applied
                && statuses
                    .all(|status| status.applied == first.applied && status.last == first.last)
        });
        self.assert_equal_states();
    }

    /// Wherever two replicas have applied up to the same index, they have the same state.
    pub(crate) fn assert_equal_states(&self) {
        let mut hashes = BTreeMap::new();
        for (id, replica) in &self.replicas {
            let view = replica.view();
            let hash = view.state_hash().unwrap();
            let applied = replica.status().applied;
            assert_eq!(view.applied(), applied);
            let expected = *hashes.entry(applied).or_insert(hash);
            assert_eq!(hash, expected, "replica {id} at index {applied}");
        }
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.replicas.keys().copied().collect()
    }

    fn next_packet(&mut self) -> Option<Packet> {
        let reorder = self.weather.as_ref().is_some_and(|weather| weather.reorder);
        if reorder && !self.wire.is_empty() {
            let at = self.random.below(self.wire.len().min(8) as u64) as usize;
            return self.wire.remove(at);
        }
        self.wire.pop_front()
    }

    fn carry(&mut self, packet: Packet) {
        let cut = self.cut.contains(&packet.from) || self.cut.contains(&packet.to);
        let cut = cut || self.cut_ways.contains(&(packet.from, packet.to));
        let mut lost = cut || !self.replicas.contains_key(&packet.to);
        let mut copies = 1;
        if let Some(weather) = &self.weather {
            lost |= self.random.percent(weather.loss_percent);
            copies += usize::from(self.random.percent(weather.repeat_percent));
        }
        for _ in 0..if lost { 0 } else { copies } {
            let octets = packet.octets.clone();
            let from = packet.from;
            self.input(packet.to, Input::Message { from, octets });
        }
        if packet.snapshot {
            let (to, ok) = (packet.to, !lost);
            self.input(packet.from, Input::SnapshotSent { to, ok });
        } else if lost {
            self.input(packet.from, Input::Unreachable(packet.to));
        }
        self.poll(packet.to);
        if packet.snapshot || lost {
            self.poll(packet.from);
        }
    }
}

/// In memory where the system offers that: these stories are about order, not about platters.
pub(crate) fn directory() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap_or_else(|_| TempDir::new().unwrap())
}

/// Replays changes, as the reflector does.
pub(crate) fn replay(applied: &[Applied]) -> BTreeMap<Bytes, Bytes> {
    let mut state = BTreeMap::new();
    for change in applied.iter().flat_map(|applied| &applied.changes) {
        match change {
            Change::Put { value, keys } => {
                state.extend(keys.iter().map(|key| (key.clone(), value.clone())));
            }
            Change::Delete { keys } => keys.iter().for_each(|key| {
                state.remove(key);
            }),
            Change::DeletePrefix { prefix } => state.retain(|key, _| !key.starts_with(prefix)),
            Change::Reset => panic!("a snapshot cannot be replayed"),
        }
    }
    state
}

pub(crate) fn put(key: &str, value: &str) -> Batch {
    Batch {
        conditions: Vec::new(),
        ops: vec![Op::Put {
            value: Bytes::copy_from_slice(value.as_bytes()),
            keys: vec![Bytes::copy_from_slice(key.as_bytes())],
        }],
    }
}

pub(crate) fn when(key: &str, value: Option<&str>, mut batch: Batch) -> Batch {
    batch.conditions.push(Condition::Equals {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: value.map(|value| Bytes::copy_from_slice(value.as_bytes())),
    });
    batch
}

/// The batch, applied only in an entry of this term.
pub(crate) fn in_term(term: u64, mut batch: Batch) -> Batch {
    batch.conditions.push(Condition::Term(term));
    batch
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
