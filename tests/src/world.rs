//! Everything there is, and its time: advances in steps of 10 ms, lets the script act, carries what is
//! on the wires, gives each replica its turn, and asks the invariants.

use std::collections::BTreeMap;

use tempfile::TempDir;
use weft_bgp::peer::{ClusterId, RouterId};
use weft_bgp::reflect::Local;
use weft_controller::ledger;
use weft_store::{Config, Role};

use crate::host::{Host, Turn};
use crate::invariants::agreement::Agreement;
use crate::invariants::committed::Committed;
use crate::invariants::facts::Facts;
use crate::invariants::no_withdraw::Wellness;
use crate::invariants::{Verdict, convergence, departure, epoch, progress};
use crate::leadership::REHOME_HOLD;
use crate::network::Network;
use crate::random::Random;
use crate::script::Script;
use crate::session::Session;
use crate::switch::{ASN, Switch};
use crate::trace::Trace;

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Steps of 10 ms under faults, before everything heals.
    pub steps: u64,
    /// Last events to tell of when an invariant breaks.
    pub events: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            steps: 3_000,
            events: 60,
        }
    }
}

/// What a run that broke nothing was like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Hash of all events.
    pub trace: u64,
    /// Log index at the end.
    pub index: u64,
    /// Messages that clients took.
    pub frames: u64,
    /// Elections won.
    pub elections: u64,
}

/// What broke.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// At which step of 10 ms.
    pub step: u64,
    /// Which invariant, and how.
    pub what: String,
    /// What happened before.
    pub events: Vec<String>,
}

/// One place of a replica: its directory, and its process if it runs.
pub(crate) struct Place {
    directory: TempDir,
    pub(crate) host: Option<Host>,
    pub(crate) paused: bool,
    boots: u64,
    well_since: Option<u64>,
    hashed: u64,
}

/// All of it.
pub(crate) struct World {
    seed: u64,
    options: Options,
    pub(crate) now: u64,
    pub(crate) random: Random,
    pub(crate) trace: Trace,
    pub(crate) network: Network,
    pub(crate) places: BTreeMap<u64, Place>,
    pub(crate) switches: Vec<Switch>,
    pub(crate) sessions: BTreeMap<u64, Session>,
    pub(crate) last_session: u64,
    /// Wires between switch and replica that carry nothing.
    pub(crate) dark: BTreeMap<(usize, u64), u64>,
    /// When a switch may try again to reach a replica.
    pub(crate) retry: BTreeMap<(usize, u64), u64>,
    pub(crate) committed: Committed,
    agreement: Agreement,
    pub(crate) facts: Facts,
    log_keep: u64,
    journal_octets: usize,
    pub(crate) frames: u64,
    elections: u64,
}

impl World {
    pub(crate) fn new(seed: u64, options: &Options) -> Self {
        let mut random = Random::new(seed);
        let members = if random.permille(250) { 5 } else { 3 };
        let switches = random.between(3, 8);
        let mut world = Self {
            seed,
            options: *options,
            now: 0,
            trace: Trace::new(options.events),
            network: Network::default(),
            places: (1..=members).map(|id| (id, Place::new())).collect(),
            switches: Vec::new(),
            sessions: BTreeMap::new(),
            last_session: 0,
            dark: BTreeMap::new(),
            retry: BTreeMap::new(),
            committed: Committed::default(),
            agreement: Agreement::default(),
            facts: Facts::default(),
            log_keep: random.pick(&[8, 64, 10_000]).unwrap_or(64),
            journal_octets: random.pick(&[2_000, 20_000, 1 << 20]).unwrap_or(20_000),
            frames: 0,
            elections: 0,
            random,
        };
        for number in 1..=switches {
            let number = u8::try_from(number).expect("few switches");
            let replicas = world.homes();
            let switch = Switch::new(number, replicas, &mut world.random);
            world.switches.push(switch);
        }
        for id in 1..=members {
            world.start(id);
        }
        world
    }

    /// To which replicas a switch speaks: one, two, three or all.
    fn homes(&mut self) -> Vec<u64> {
        let members: Vec<u64> = self.places.keys().copied().collect();
        let count = self
            .random
            .pick(&[1, 2, 2, 3, 3, members.len()])
            .unwrap_or(1);
        let mut left = members;
        while left.len() > count {
            let at = self.random.below(left.len() as u64);
            left.remove(usize::try_from(at).expect("a small number"));
        }
        left
    }

    pub(crate) fn run(mut self) -> Result<Summary, Box<Failure>> {
        let mut script = Script::default();
        while self.now < self.options.steps * STEP_MS {
            script.act(&mut self);
            self.step()?;
        }
        self.heal();
        let healed = self.now;
        while self.now < healed + HEALING_MS {
            self.step()?;
            if self.now == healed + SETTLING_MS {
                let settled = self.settled();
                self.judge(settled)?;
            }
        }
        let healed = self.healed();
        self.judge(healed)?;
        Ok(Summary {
            trace: self.trace.hash(),
            index: self.facts.index,
            frames: self.frames,
            elections: self.elections,
        })
    }

    fn step(&mut self) -> Result<(), Box<Failure>> {
        self.now += STEP_MS;
        let carried = self.carry();
        self.judge(carried)?;
        self.deliver();
        let ids: Vec<u64> = self.places.keys().copied().collect();
        for id in ids {
            let Some(host) = self.awake(id) else { continue };
            let (now, mut random) = (host.1, host.2);
            let turn = host.0.turn(now, &mut random);
            self.random = random;
            let observed = self.observe(id, turn);
            self.judge(observed)?;
        }
        self.write();
        self.measure();
        if self.now.is_multiple_of(PROGRESS_EVERY_MS) {
            let agreed = self.wellness(|wellness| progress::agreed(wellness, &self.facts));
            self.judge(agreed)?;
        }
        Ok(())
    }

    /// The process of a replica that runs and is not paused, the time, and the chance to go on with.
    fn awake(&mut self, id: u64) -> Option<(&mut Host, u64, Random)> {
        let place = self.places.get_mut(&id).filter(|place| !place.paused)?;
        let host = place.host.as_mut()?;
        Some((host, self.now, self.random.clone()))
    }

    /// What replicas sent each other.
    fn deliver(&mut self) {
        let now = self.now;
        for packet in std::mem::take(&mut self.network.lost) {
            if let Some(host) = self.host(packet.from) {
                host.sent(&packet, false);
            }
        }
        let Self {
            network, places, ..
        } = self;
        let listens = |id: u64| places.get(&id).is_some_and(Place::is_awake);
        for packet in network.arrived(now, listens) {
            if let Some(host) = self.host(packet.to) {
                host.receive(&packet, now);
            }
            if let Some(host) = self.host(packet.from).filter(|_| packet.snapshot) {
                host.sent(&packet, true);
            }
        }
    }

    /// The process of a replica, if it runs.
    pub(crate) fn host(&mut self, id: u64) -> Option<&mut Host> {
        self.places.get_mut(&id)?.host.as_mut()
    }

    fn observe(&mut self, id: u64, turn: Turn) -> Verdict {
        for status in &turn.statuses {
            let (role, term) = (status.role, status.term);
            self.elections += u64::from(role == Role::Leader);
            self.trace
                .note(self.now, format!("replica {id}: {role:?} in term {term}"));
            self.agreement.status(status)?;
        }
        for applied in &turn.applied {
            let index = applied.index;
            self.trace
                .note(self.now, format!("replica {id}: applied {index}"));
            self.agreement.applied(id, applied)?;
            let deltas = self.facts.apply(applied, self.now);
            for delta in &deltas {
                self.committed.changed(delta);
                epoch::changed(delta)?;
                self.wellness(|wellness| wellness.changed(delta))?;
                self.note_change(delta);
            }
        }
        for packet in turn.packets {
            let sent = self.network.send(&packet, self.now, &mut self.random);
            let place = self.places.get_mut(&id);
            if let Some(host) = place
                .and_then(|place| place.host.as_mut())
                .filter(|_| !sent)
            {
                host.sent(&packet, false);
            }
        }
        for session in turn.too_old {
            self.trace
                .note(self.now, format!("session {session}: too far behind"));
            self.close_replica(session);
        }
        for session in turn.unconfirmed {
            self.trace.note(
                self.now,
                format!("session {session}: told without a majority"),
            );
            self.sessions
                .entry(session)
                .and_modify(|it| it.unconfirmed = true);
        }
        self.compare(id)
    }

    /// The state at an index is one, whoever has it.
    fn compare(&mut self, id: u64) -> Verdict {
        let Some(place) = self.places.get_mut(&id) else {
            return Ok(());
        };
        let Some(host) = &place.host else {
            return Ok(());
        };
        let applied = host.store.status().applied;
        if applied < place.hashed + HASH_EVERY {
            return Ok(());
        }
        place.hashed = applied;
        let hash = host.store.view().state_hash();
        let hash = hash.expect("the store can be read");
        self.agreement.state(id, applied, hash)
    }

    pub(crate) fn wellness<T>(&self, judge: impl FnOnce(&Wellness<'_>) -> T) -> T {
        let sessions: Vec<&Session> = self.sessions.values().collect();
        judge(&Wellness {
            now: self.now,
            switches: &self.switches,
            sessions: &sessions,
            well_since: &|id| self.places.get(&id).and_then(|place| place.well_since),
        })
    }

    /// Who is part of the majority now, and since when.
    fn measure(&mut self) {
        let awake: Vec<_> = self
            .places
            .iter()
            .filter(|(_, place)| place.is_awake())
            .filter_map(|(id, place)| Some((*id, place.host.as_ref()?.store.status())))
            .collect();
        let leaders = awake.iter().filter(|(_, it)| it.role == Role::Leader);
        let leader = leaders.max_by_key(|(_, it)| it.term).cloned();
        let mut well = Vec::new();
        if let Some((leader, status)) = leader {
            let linked = |a, b| !self.network.is_cut(a, b) && !self.network.is_cut(b, a);
            let follows = awake.iter().filter(|(id, it)| {
                it.leader == Some(leader) && it.term == status.term && linked(*id, leader)
            });
            well = follows.map(|(id, _)| *id).collect();
        }
        let majority = well.len() * 2 > self.places.len();
        for (id, place) in &mut self.places {
            let serves = place.host.as_ref().is_some_and(Host::serves);
            if majority && serves && well.contains(id) {
                place.well_since.get_or_insert(self.now);
            } else {
                place.well_since = None;
            }
        }
    }

    /// What must hold soon after everything healed: nothing that is announced is missing.
    fn settled(&self) -> Verdict {
        let mut sessions = self.sessions.values().filter(|session| session.is_up());
        sessions.try_for_each(|session| convergence::settled(session, &self.switches, &LOCAL))
    }

    /// What must hold when everything has healed.
    fn healed(&mut self) -> Verdict {
        let sessions: Vec<&Session> = self.sessions.values().collect();
        for (id, place) in &self.places {
            let host = place
                .host
                .as_ref()
                .ok_or_else(|| format!("replica {id} is down"))?;
            self.agreement.healed(*id, host.store.status().applied)?;
            let hash = host.store.view().state_hash();
            let applied = host.store.status().applied;
            self.agreement
                .state(*id, applied, hash.expect("the store can be read"))?;
        }
        for (at, switch) in self.switches.iter().enumerate() {
            if !switch.alive {
                departure::dead(switch, &self.facts, &sessions)?;
                continue;
            }
            for replica in &switch.replicas {
                let found = sessions.iter().find(|session| {
                    session.switch == at && session.replica == *replica && session.is_up()
                });
                let missing = || format!("switch {at} has no session to replica {replica}");
                let session = found.ok_or_else(missing)?;
                convergence::session(session, &self.switches, &LOCAL)?;
            }
        }
        Ok(())
    }

    pub(crate) fn judge(&mut self, verdict: Verdict) -> Result<(), Box<Failure>> {
        verdict.map_err(|what| {
            Box::new(Failure {
                seed: self.seed,
                step: self.now / STEP_MS,
                what,
                events: self.trace.last(),
            })
        })
    }
}

/// Faults, as the script wants them.
impl World {
    pub(crate) fn start(&mut self, id: u64) {
        let voters = self.places.keys().copied().collect();
        let Some(place) = self.places.get_mut(&id) else {
            return;
        };
        place.boots += 1;
        let seed = self.seed ^ (place.boots << 8) ^ id;
        let path = place.directory.path();
        let mut config = Config::new(id, voters, path, [7; 16], seed);
        config.log_keep_entries = self.log_keep;
        config.accepts = ledger::knows;
        place.host = Some(Host::open(config, LOCAL, self.journal_octets, self.now));
        place.hashed = 0;
        self.trace.note(self.now, format!("replica {id}: started"));
    }

    pub(crate) fn kill(&mut self, id: u64) {
        let Some(place) = self.places.get_mut(&id) else {
            return;
        };
        place.host = None;
        place.paused = false;
        self.network.forget(id);
        self.trace.note(self.now, format!("replica {id}: killed"));
        self.reset_sessions_of(id);
        // Else its machine died with it.
        if self.random.permille(700) {
            self.call_gone(id);
        }
    }

    /// Tells some replicas that connections to one are refused, whether it lives or not.
    pub(crate) fn call_gone(&mut self, id: u64) {
        self.trace
            .note(self.now, format!("replica {id}: refuses connections"));
        for (other, place) in &mut self.places {
            let linked = !self.network.is_cut(*other, id) && !self.network.is_cut(id, *other);
            let Some(host) = place.host.as_mut().filter(|_| linked && *other != id) else {
                continue;
            };
            if self.random.permille(800) {
                host.refused_by(id);
            }
        }
    }

    pub(crate) fn pause(&mut self, id: u64, paused: bool) {
        if let Some(place) = self.places.get_mut(&id) {
            place.paused = paused && place.host.is_some();
            self.trace
                .note(self.now, format!("replica {id}: paused {paused}"));
        }
    }

    fn heal(&mut self) {
        self.trace.note(self.now, "all heals".to_owned());
        self.network.heal();
        self.network.weather.loss_permille = 0;
        self.network.weather.repeat_permille = 0;
        self.network.weather.delay_ms_max = 5;
        self.dark.clear();
        let ids: Vec<u64> = self.places.keys().copied().collect();
        for id in ids {
            self.pause(id, false);
            if self
                .places
                .get(&id)
                .is_some_and(|place| place.host.is_none())
            {
                self.start(id);
            }
        }
    }
}

impl Place {
    fn new() -> Self {
        let memory = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        Self {
            directory: memory.expect("a directory can be made"),
            host: None,
            paused: false,
            boots: 0,
            well_since: None,
            hashed: 0,
        }
    }

    pub(crate) fn is_awake(&self) -> bool {
        self.host.is_some() && !self.paused
    }
}

/// What all replicas are to BGP.
pub(crate) const LOCAL: Local = Local {
    asn: ASN,
    router_id: RouterId(0xcb00_7101),
    cluster_id: ClusterId(0xcb00_71ff),
};

/// Virtual time between two looks at everything.
pub(crate) const STEP_MS: u64 = 10;
/// Virtual time between two looks at what is not agreed yet.
const PROGRESS_EVERY_MS: u64 = 500;
/// Entries between two comparisons of states.
const HASH_EVERY: u64 = 16;
/// Until every switch is served again: hold timer, connect-retry, elections, claims.
const SETTLING_MS: u64 = 20_000;
/// Until the routes of peers that nobody serves must be gone, and some: elections, re-homing.
const HEALING_MS: u64 = REHOME_HOLD + 25_000;
