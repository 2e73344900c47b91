//! Seeded disorder: loss, repetition, reordering, partitions, kills between any two steps. Then
//! healing, and the books must balance.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use weft_store::{Outcome, Probe};

use crate::{
    order::Watch,
    world::{Random, Weather, World, put, when},
};

/// What all replicas of a world share: a promise keeper, and when to kill whom.
struct Fate {
    watch: Watch,
    random: Random,
    /// One step in so many ends in a kill; 0 is none.
    kill_one_in: u64,
}

#[test]
fn disorder_never_makes_two_replicas_differ() {
    for seed in 0..5 {
        disorder(seed, 0);
    }
}

#[test]
fn replicas_killed_between_any_two_steps_lose_nothing() {
    for seed in 100..106 {
        disorder(seed, 60);
    }
}

fn disorder(seed: u64, kill_one_in: u64) {
    let fate = Arc::new(Mutex::new(Fate {
        watch: Watch::default(),
        random: Random(seed ^ 0xfa7e),
        kill_one_in,
    }));
    let shared = Arc::clone(&fate);
    let voters = if seed % 4 == 3 { 5 } else { 3 };
    let mut world = World::with(voters, move |config| {
        let (id, fate) = (config.id, Arc::clone(&shared));
        config.seed = seed;
        config.log_keep_entries = 8;
        config.probe = Some(Probe::new(move |step| {
            let mut fate = fate.lock().unwrap();
            fate.watch.see(id, &step);
            let one_in = fate.kill_one_in;
            if one_in != 0 && fate.random.below(one_in) == 0 {
                return Err(format!("killed at {step:?}"));
            }
            Ok(())
        }));
    });
    world.random = Random(seed);
    world.weather = Some(Weather {
        loss_percent: seed % 4 * 10,
        repeat_percent: 20,
        reorder: true,
    });
    let mut books = Books::default();
    for _ in 0..150 {
        act(&mut world, &mut books);
        revive(&mut world);
        books.compare(&world, seed);
    }
    fate.lock().unwrap().kill_one_in = 0;
    revive(&mut world);
    world.weather = None;
    world.cut.clear();
    let leader = world.leader();
    world.converge();
    world.ticks(70);
    books.compare(&world, seed);
    books.balance(&world, leader, seed);
}

/// What was proposed, and what state was seen at which index.
#[derive(Default)]
struct Books {
    tickets: Vec<u64>,
    hashes: BTreeMap<u64, u64>,
}

impl Books {
    /// The state at an index is the same on every replica and after every restart.
    fn compare(&mut self, world: &World, seed: u64) {
        for (id, replica) in &world.replicas {
            let view = replica.view();
            let (applied, hash) = (view.applied(), view.state_hash().unwrap());
            let expected = *self.hashes.entry(applied).or_insert(hash);
            assert_eq!(
                hash, expected,
                "seed {seed}: replica {id} at index {applied}"
            );
        }
    }

    /// Each increment that was said to be applied is in the count, none that was said not to be.
    fn balance(&self, world: &World, leader: u64, seed: u64) {
        let (mut applied, mut unknown) = (0, 0);
        for ticket in &self.tickets {
            let is_there = world.get(leader, &format!("t{ticket}")).is_some();
            match world.outcomes.get(ticket) {
                Some(Outcome::Applied { .. }) => {
                    assert!(is_there, "seed {seed}: {ticket} is lost");
                    applied += 1;
                }
                Some(Outcome::ConditionFailed { .. } | Outcome::Superseded) => {
                    assert!(!is_there, "seed {seed}: {ticket} was not to be applied");
                }
                Some(Outcome::Dropped) | None => unknown += u64::from(is_there),
            }
        }
        let count = world
            .get(leader, "count")
            .map_or(0, |count| count.parse().unwrap());
        assert_eq!(count, applied + unknown, "seed {seed}");
        assert!(applied > 0, "seed {seed}: nothing was applied");
    }
}

fn act(world: &mut World, books: &mut Books) {
    let voters = world.dirs.len() as u64;
    let id = 1 + world.random.below(voters);
    match world.random.below(20) {
        0 => world.cut = [id].into(),
        1 => world.cut.clear(),
        2 => {
            world.kill(id);
            world.start(id);
        }
        3 => {
            world.read(id);
        }
        4..=9 => increment(world, books, id),
        _ => world.tick(),
    }
    for id in world.ids() {
        world.poll(id);
    }
}

fn increment(world: &mut World, books: &mut Books, id: u64) {
    let count = world.get(id, "count");
    let next = count
        .as_deref()
        .map_or(0, |count| count.parse::<u64>().unwrap())
        + 1;
    let ticket = books.tickets.last().map_or(1, |last| last + 1)
        + 1_000_000 * u64::from(books.tickets.is_empty());
    let mut batch = when("count", count.as_deref(), put("count", &next.to_string()));
    batch.ops.extend(put(&format!("t{ticket}"), "1").ops);
    world.input(id, weft_store::Input::Propose { batch, ticket });
    books.tickets.push(ticket);
}

/// A replica that the probe stopped is as dead as a killed one: it is opened again.
fn revive(world: &mut World) {
    for id in world.ids() {
        if world.replicas[&id].status().degraded.is_some() {
            world.kill(id);
            world.start(id);
        }
    }
}
