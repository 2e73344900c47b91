//! The wires between switches and replicas: sessions begin, carry octets in order, and end when one end
//! says so or notices that the other is silent. Knows no routes.

use bytes::Bytes;

use crate::invariants::facts::Delta;
use crate::invariants::{Verdict, end_of_rib};
use crate::session::{Heard, Session, Wire};
use crate::world::{Place, World};

impl World {
    /// What switches and replicas sent each other, who connects, and who gives up.
    pub(crate) fn carry(&mut self) -> Verdict {
        self.connect();
        let ids: Vec<u64> = self.sessions.keys().copied().collect();
        for id in ids {
            self.hear_at_replica(id);
            self.hear_at_switch(id)?;
            self.hold(id);
        }
        self.sessions
            .retain(|_, session| session.switch_up || session.replica_up);
        Ok(())
    }

    fn connect(&mut self) {
        for at in 0..self.switches.len() {
            if !self.switches[at].alive {
                continue;
            }
            for replica in self.switches[at].replicas.clone() {
                let due = self.retry.get(&(at, replica)).copied().unwrap_or_default();
                let taken = self
                    .sessions
                    .values()
                    .any(|session| session.switch == at && session.replica == replica);
                let place = self.places.get(&replica);
                let host = place.filter(|place| place.is_awake());
                let serves = host.and_then(|place| place.host.as_ref());
                if self.now < due || taken || self.is_dark(at, replica) {
                    continue;
                }
                if serves.is_some_and(|host| host.serves()) {
                    self.establish(at, replica);
                } else {
                    let later = self.now + self.random.between(200, 2_000);
                    self.retry.insert((at, replica), later);
                }
            }
        }
    }

    fn establish(&mut self, at: usize, replica: u64) {
        self.last_session += 1;
        let (id, now) = (self.last_session, self.now);
        let mut session = Session::new(at, replica, now);
        let switch = &self.switches[at];
        let table = switch.table();
        // Some say half of it, and the rest after a while.
        let slow = self.random.permille(150);
        let pause = if slow {
            self.random.between(PAUSE_MS, PAUSE_MS + 2_000)
        } else {
            0
        };
        let half = table.len() / 2;
        let table = table.into_iter().enumerate();
        session.to_replica.extend(table.map(|(number, octets)| {
            let due = if number < half { now } else { now + pause };
            (due, Wire::Octets(octets))
        }));
        if let Some(host) = self
            .places
            .get_mut(&replica)
            .and_then(|place| place.host.as_mut())
        {
            host.established(id, switch.peer, switch.address, switch.context, now);
        }
        self.sessions.insert(id, session);
        self.trace.note(
            now,
            format!("session {id}: switch {at} to replica {replica}"),
        );
    }

    /// A switch sends something over every session.
    pub(crate) fn tell(&mut self, at: usize, octets: &Bytes) {
        let due = self.now + self.random.below(DELAY_MS);
        for session in self.sessions.values_mut() {
            if session.switch == at && session.switch_up {
                let last = session.to_replica.back().map_or(0, |(at, _)| *at);
                let wire = Wire::Octets(octets.clone());
                session.to_replica.push_back((due.max(last), wire));
            }
        }
    }

    fn hear_at_replica(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let (at, replica) = (session.switch, session.replica);
        if self.dark.contains_key(&(at, replica)) || !session.replica_up {
            return;
        }
        let place = self.places.get_mut(&replica);
        let Some(host) = place
            .filter(|it| it.is_awake())
            .and_then(|it| it.host.as_mut())
        else {
            return;
        };
        while let Some((_, wire)) = session.to_replica.pop_front_if(|(due, _)| *due <= self.now) {
            match wire {
                Wire::Octets(octets) => host.hear(id, &octets, self.now),
                Wire::Close => {
                    session.replica_up = false;
                    host.down(id, self.switches[at].parting(), self.now);
                    return;
                }
            }
        }
    }

    fn hear_at_switch(&mut self, id: u64) -> Verdict {
        let Some(session) = self.sessions.get_mut(&id) else {
            return Ok(());
        };
        let (at, replica) = (session.switch, session.replica);
        if self.dark.contains_key(&(at, replica)) || !session.switch_up {
            return Ok(());
        }
        let context = self.switches[at].context;
        let mut heard = Vec::new();
        while let Some((_, wire)) = session.to_switch.pop_front_if(|(due, _)| *due <= self.now) {
            match wire {
                Wire::Octets(octets) => {
                    self.frames += 1;
                    heard.extend(session.learn(&octets, &context));
                }
                Wire::Close => {
                    session.switch_up = false;
                    break;
                }
            }
        }
        self.judge_heard(id, &heard)
    }

    fn judge_heard(&mut self, id: u64, heard: &[Heard]) -> Verdict {
        for heard in heard {
            match heard {
                Heard::Announced(key, attributes) => {
                    self.committed.reflected(key, attributes)?;
                }
                Heard::Withdrawn(key) => {
                    self.trace
                        .note(self.now, format!("session {id}: {key} withdrawn"));
                    let session = &self.sessions[&id];
                    self.wellness(|wellness| wellness.withdrawn(session, key))?;
                }
                Heard::EndOfRib => {
                    self.trace
                        .note(self.now, format!("session {id}: End-of-RIB"));
                    end_of_rib::heard(&self.sessions[&id], &self.switches, &self.facts)?;
                }
            }
        }
        Ok(())
    }

    /// Keepalives and hold timers of both ends.
    fn hold(&mut self, id: u64) {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let key = (session.switch, session.replica);
        let lit = !self.dark.contains_key(&key);
        let switch = self.switches[key.0].alive && session.switch_up;
        let awake = self.places.get(&key.1).is_some_and(Place::is_awake);
        let replica = awake && session.replica_up;
        let blocked = session.blocked_until > now;
        if lit && replica && switch {
            session.switch_heard = now;
            session.replica_heard = if blocked { session.replica_heard } else { now };
        }
        let late = |heard: u64| now > heard + HOLD_MS;
        if session.switch_up && late(session.switch_heard) {
            self.close_switch(id, lit);
        } else if session.replica_up && awake && late(session.replica_heard) {
            self.close_replica(id);
        }
    }

    /// The switch ends a session; the other end hears of it, or not.
    pub(crate) fn close_switch(&mut self, id: u64, tell: bool) {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.switch_up = false;
        if tell {
            session.to_replica.push_back((now, Wire::Close));
        }
        let key = (session.switch, session.replica);
        let later = now + self.random.between(50, 1_500);
        self.retry.insert(key, later);
        self.trace
            .note(now, format!("session {id}: closed by switch {}", key.0));
    }

    /// The replica ends a session.
    pub(crate) fn close_replica(&mut self, id: u64) {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.replica_up = false;
        session.to_switch.push_back((now, Wire::Close));
        let (replica, parting) = (session.replica, self.switches[session.switch].parting());
        if let Some(host) = self
            .places
            .get_mut(&replica)
            .and_then(|place| place.host.as_mut())
        {
            host.down(id, parting, now);
        }
        self.trace
            .note(now, format!("session {id}: closed by replica {replica}"));
    }

    /// A replica's process died: the system resets its connections.
    pub(crate) fn reset_sessions_of(&mut self, replica: u64) {
        let now = self.now;
        for session in self
            .sessions
            .values_mut()
            .filter(|it| it.replica == replica)
        {
            session.replica_up = false;
            session.to_switch.clear();
            session.to_switch.push_back((now, Wire::Close));
        }
    }

    /// What replicas have for the switches.
    pub(crate) fn write(&mut self) {
        for (id, session) in &mut self.sessions {
            if !session.is_up() || session.blocked_until > self.now {
                continue;
            }
            let place = self.places.get_mut(&session.replica);
            let Some(host) = place
                .filter(|it| it.is_awake())
                .and_then(|it| it.host.as_mut())
            else {
                continue;
            };
            let room = usize::try_from(self.random.between(1, 12)).expect("a small number");
            for octets in host.write(*id, room) {
                let last = session.to_switch.back().map_or(0, |(at, _)| *at);
                let due = (self.now + self.random.below(DELAY_MS)).max(last);
                session.to_switch.push_back((due, Wire::Octets(octets)));
            }
        }
    }

    pub(crate) fn is_dark(&self, at: usize, replica: u64) -> bool {
        self.dark.contains_key(&(at, replica))
    }

    pub(crate) fn note_change(&mut self, delta: &Delta) {
        let what = match (&delta.old, &delta.new) {
            (None, Some(_)) => "new",
            (Some(_), None) => "gone",
            _ => "changed",
        };
        let key = weft_controller::ledger::FactKey::decode(&delta.key);
        self.trace
            .note(self.now, format!("fact {what}: {}", name(key)));
    }
}

fn name(key: Option<weft_controller::ledger::FactKey<'_>>) -> String {
    use weft_bgp::nlri::Nlri;
    use weft_controller::ledger::FactKey;
    match key {
        Some(FactKey::Route(_, peer, octets)) => {
            let key = weft_evpn::Route::key_from_octets(octets);
            format!(
                "{peer} {}",
                key.map(|key| key.to_string()).unwrap_or_default()
            )
        }
        Some(FactKey::Owner(peer)) => format!("owner of {peer}"),
        Some(FactKey::Session(replica, peer)) => format!("session of {peer} to {replica}"),
        Some(other) => format!("{other:?}"),
        None => "not understood".to_owned(),
    }
}

const DELAY_MS: u64 = 20;
/// As the peers are configured.
const HOLD_MS: u64 = 9_000;

/// Long enough that other sessions of the switch are well served meanwhile.
const PAUSE_MS: u64 = 10_500;
