//! What goes wrong and what changes, drawn from the seed as time passes. Knows how to hurt, not what
//! must hold.

use bytes::Bytes;
use weft_bgp::message::{Message, RouteRefresh};
use weft_store::Role;

use crate::network::Weather;
use crate::random::Random;
use crate::stake::FAMILIES;
use crate::switch;
use crate::world::World;

/// What will have to be undone, and when the next fault is due.
#[derive(Default)]
pub(crate) struct Script {
    undo: Vec<(u64, Undo)>,
    next_fault: u64,
    next_weather: u64,
    mood: Option<Mood>,
}

/// What one seed is like, from beginning to end.
#[derive(Clone, Copy)]
struct Mood {
    /// Longest pause between two faults.
    fault_ms_max: u64,
    /// A change of a switch in so many steps: the lower, the busier.
    change_in: u64,
    /// Longest time that wires between replicas stay cut.
    cut_ms_max: u64,
    /// Of ten faults so many more are resets of sessions.
    resets: u64,
}

impl Mood {
    fn of(random: &mut Random) -> Self {
        Self {
            fault_ms_max: random.pick(&[500, 2_000, 5_000]).unwrap_or(5_000),
            change_in: random.pick(&[5, 50, 300]).unwrap_or(50),
            cut_ms_max: random.pick(&[2_000, 12_000, 40_000]).unwrap_or(12_000),
            resets: random.pick(&[0, 3, 12]).unwrap_or(0),
        }
    }
}

#[derive(Clone, Copy)]
enum Undo {
    Start(u64),
    Wake(u64),
    Heal,
    Light(usize, u64),
    Revive(usize),
}

impl Script {
    pub(crate) fn act(&mut self, world: &mut World) {
        let now = world.now;
        let mood = *self.mood.get_or_insert_with(|| Mood::of(&mut world.random));
        let due: Vec<_> = self.undo.extract_if(.., |(at, _)| *at <= now).collect();
        due.into_iter().for_each(|(_, undo)| repair(world, undo));
        if now >= self.next_weather {
            self.next_weather = now + world.random.between(2_000, 10_000);
            world.network.weather = weather(world);
        }
        if now >= self.next_fault && now > QUIET_MS {
            self.next_fault = now + world.random.between(100, mood.fault_ms_max);
            self.fault(world, mood);
        }
        for at in 0..world.switches.len() {
            change(world, at, mood);
        }
    }

    fn later(&mut self, world: &mut World, low: u64, high: u64, undo: Undo) {
        let at = world.now + world.random.between(low, high);
        self.undo.push((at, undo));
    }

    fn fault(&mut self, world: &mut World, mood: Mood) {
        let ids: Vec<u64> = world.places.keys().copied().collect();
        let id = victim(world, &ids);
        match world.random.below(10 + mood.resets) {
            0 | 1 => {
                world.kill(id);
                self.later(world, 100, 8_000, Undo::Start(id));
            }
            2 | 3 => {
                world.pause(id, true);
                self.later(world, 100, 15_000, Undo::Wake(id));
            }
            4 => {
                let others = ids.iter().copied().filter(|other| *other != id);
                others.for_each(|other| cut(world, id, other, true));
                self.later(world, 500, mood.cut_ms_max, Undo::Heal);
            }
            5 => {
                let other = world.random.pick(&ids).unwrap_or(1);
                let both = world.random.permille(300);
                cut(world, id, other, both);
                self.later(world, 500, mood.cut_ms_max, Undo::Heal);
            }
            6 | 7 => self.darken(world, id),
            8 => self.die(world),
            9 if world.random.permille(300) => world.call_gone(id),
            _ => refuse(world),
        }
    }

    /// The wire between one switch and one replica.
    fn darken(&mut self, world: &mut World, id: u64) {
        let at = any_switch(world);
        world.dark.insert((at, id), world.now);
        world
            .trace
            .note(world.now, format!("switch {at}: no wire to replica {id}"));
        self.later(world, 500, 15_000, Undo::Light(at, id));
    }

    fn die(&mut self, world: &mut World) {
        let at = any_switch(world);
        if !world.switches[at].alive {
            return;
        }
        let silent = world.random.permille(500);
        world
            .trace
            .note(world.now, format!("switch {at}: dies, silent {silent}"));
        world.switches[at].alive = false;
        world.switches[at].routes.clear();
        let sessions = world.sessions.iter().filter(|(_, it)| it.switch == at);
        let ids: Vec<u64> = sessions.map(|(id, _)| *id).collect();
        for id in ids {
            let lit = world
                .sessions
                .get(&id)
                .is_some_and(|it| !world.is_dark(at, it.replica));
            world.close_switch(id, lit && !silent);
        }
        if world.random.permille(700) {
            self.later(world, 200, 12_000, Undo::Revive(at));
        }
    }
}

/// One replica, more often than not the leader.
fn victim(world: &mut World, ids: &[u64]) -> u64 {
    let leads = |id: &u64| {
        let host = world.places.get(id).and_then(|place| place.host.as_ref());
        host.is_some_and(|host| host.store.status().role == Role::Leader)
    };
    let leader = ids.iter().copied().find(leads);
    let any = world.random.pick(ids).unwrap_or(1);
    leader.filter(|_| world.random.permille(400)).unwrap_or(any)
}

/// A session is reset, or a switch is slow.
fn refuse(world: &mut World) {
    let ids: Vec<u64> = world.sessions.keys().copied().collect();
    let Some(id) = world.random.pick(&ids) else {
        return;
    };
    let by_replica = world.random.permille(300);
    let (reset, until) = (world.random.permille(600), world.random.between(500, 8_000));
    let Some(session) = world.sessions.get_mut(&id) else {
        return;
    };
    if !reset {
        session.blocked_until = world.now + until;
        world
            .trace
            .note(world.now, format!("session {id}: blocked"));
    } else if session.replica_up && by_replica {
        world.close_replica(id);
    } else if session.switch_up {
        let lit = !world.dark.contains_key(&(session.switch, session.replica));
        world.close_switch(id, lit);
    }
}

fn cut(world: &mut World, from: u64, to: u64, both: bool) {
    world.trace.note(
        world.now,
        format!("wire from {from} to {to} cut, both ways {both}"),
    );
    world.network.cut(from, to);
    if both {
        world.network.cut(to, from);
    }
}

fn repair(world: &mut World, undo: Undo) {
    match undo {
        Undo::Start(id) => {
            if world
                .places
                .get(&id)
                .is_some_and(|place| place.host.is_none())
            {
                world.start(id);
            }
        }
        Undo::Wake(id) => world.pause(id, false),
        Undo::Heal => {
            world
                .trace
                .note(world.now, "wires between replicas heal".to_owned());
            world.network.heal();
        }
        Undo::Light(at, id) => {
            world.dark.remove(&(at, id));
        }
        Undo::Revive(at) => {
            world.trace.note(world.now, format!("switch {at}: is back"));
            world.switches[at].alive = true;
        }
    }
}

fn weather(world: &mut World) -> Weather {
    let random = &mut world.random;
    Weather {
        loss_permille: random.pick(&[0, 0, 5, 50]).unwrap_or(0),
        repeat_permille: random.pick(&[0, 0, 100]).unwrap_or(0),
        delay_ms_max: random.pick(&[0, 5, 20, 80]).unwrap_or(0),
    }
}

/// What one switch has to say now, if anything.
fn change(world: &mut World, at: usize, mood: Mood) {
    if !world.switches[at].alive {
        return;
    }
    let (now, random) = (world.now, &mut world.random);
    let switch = &mut world.switches[at];
    if switch.routes.is_empty() {
        let keys = (0..random.between(3, 20)).map(|number| switch.own_key(number));
        let keys: Vec<_> = keys.collect();
        let octets = keys.into_iter().map(|key| switch.announce(key, 0, now));
        let octets: Vec<_> = octets.collect();
        return octets.iter().for_each(|octets| world.tell(at, octets));
    }
    if random.below(mood.change_in) > 0 {
        return;
    }
    let octets = match random.below(12) {
        0..6 => {
            let key = switch.own_key(random.below(30));
            Some(switch.announce(key, 0, now))
        }
        6..9 => {
            let keys: Vec<_> = switch.routes.keys().cloned().collect();
            random.pick(&keys).and_then(|key| switch.withdraw(&key))
        }
        9..11 => {
            let key = switch::shared_key(u8::try_from(random.below(4)).unwrap_or(0));
            let sequence = u32::try_from(random.below(8)).unwrap_or(0);
            Some(switch.announce(key, sequence, now))
        }
        _ => return refresh(world, at),
    };
    if let Some(octets) = octets {
        world.tell(at, &octets);
    }
}

/// A switch asks one replica for all routes again. RFC 2918.
fn refresh(world: &mut World, at: usize) {
    let [family] = FAMILIES;
    let message = Message::RouteRefresh(RouteRefresh { family, subtype: 0 });
    let octets: Bytes = message.encode(&world.switches[at].context);
    world.tell(at, &octets);
}

fn any_switch(world: &mut World) -> usize {
    let count = world.switches.len() as u64;
    usize::try_from(world.random.below(count)).expect("few switches")
}

/// The first sessions and tables come undisturbed.
const QUIET_MS: u64 = 3_000;
