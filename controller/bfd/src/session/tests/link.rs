//! Two sessions and the link between them, in simulated time. It refuses to know what is expected.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::super::pace::Jitter;
use super::super::{Input, Output, Session, SessionConfig, State, Status, Timers};
use super::discriminator;
use crate::packet::Packet;

/// Packets arrive in order, after the delay, unless they are lost.
#[derive(Debug)]
pub(super) struct Link {
    now: Instant,
    ends: [Session; 2],
    /// Towards each end.
    flying: [VecDeque<(Instant, Packet)>; 2],
    delay: Duration,
    loss_percent: u32,
    cut: bool,
    dice: Jitter,
}

impl Link {
    pub(super) fn new(
        now: Instant,
        timers: [Timers; 2],
        delay: Duration,
        loss_percent: u32,
        seed: u64,
    ) -> Self {
        let mut dice = Jitter::new(seed);
        let ends = [(1, timers[0]), (2, timers[1])].map(|(name, timers)| {
            let config = SessionConfig {
                mine: discriminator(name),
                multihop: false,
                timers,
                jitter_seed: dice.next(),
            };
            Session::new(config, now)
        });
        Self {
            now,
            ends,
            flying: [VecDeque::new(), VecDeque::new()],
            delay,
            loss_percent,
            cut: false,
            dice,
        }
    }

    pub(super) fn status(&self, end: usize) -> Status {
        self.ends[end].status()
    }

    pub(super) fn interval(&self, end: usize) -> Duration {
        self.ends[end].timers.interval
    }

    pub(super) fn cut(&mut self, cut: bool) {
        self.cut = cut;
    }

    pub(super) fn change(&mut self, end: usize, timers: Timers) {
        self.ends[end].handle(Input::Change(timers), self.now);
        self.carry(end);
    }

    pub(super) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(until) {}
    }

    /// Whether both came up in time.
    pub(super) fn run_until_up(&mut self, time: Duration) -> bool {
        let until = self.now + time;
        loop {
            if self.ends.iter().all(|end| end.status().state == State::Up) {
                return true;
            }
            if !self.step(until) {
                return false;
            }
        }
    }

    /// After which time each end went down.
    pub(super) fn run_until_down(&mut self, time: Duration) -> [Option<Duration>; 2] {
        let began = self.now;
        let mut found = [None; 2];
        while found.contains(&None) && self.step(began + time) {
            for (found, end) in found.iter_mut().zip(&self.ends) {
                if found.is_none() && end.status().state != State::Up {
                    *found = Some(self.now - began);
                }
            }
        }
        found
    }

    /// The next thing that happens; false if nothing does until then.
    fn step(&mut self, until: Instant) -> bool {
        let arrivals = self
            .flying
            .iter()
            .map(|flying| flying.front().map(|(at, _)| *at));
        let deadlines = self.ends.iter().map(Session::poll_timeout);
        let next = arrivals.chain(deadlines).flatten().min();
        let Some(at) = next.filter(|at| *at <= until) else {
            self.now = until;
            return false;
        };
        self.now = self.now.max(at);
        for end in 0..2 {
            while let Some((_, packet)) = self.flying[end].pop_front_if(|(at, _)| *at <= self.now) {
                self.ends[end].handle(Input::Packet(packet), self.now);
                self.carry(end);
            }
            self.ends[end].handle(Input::Timeout, self.now);
            self.carry(end);
        }
        true
    }

    fn carry(&mut self, from: usize) {
        while let Some(output) = self.ends[from].poll_output() {
            let Output::Send(packet) = output else {
                continue;
            };
            let packet = Packet::decode(&packet.encode()).expect("what we send is a packet");
            let lost = self.dice.next() % 100 < u64::from(self.loss_percent);
            if !self.cut && !lost {
                self.flying[1 - from].push_back((self.now + self.delay, packet));
            }
        }
    }
}
