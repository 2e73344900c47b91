//! How fast a single replica takes routes: 400 batches of 1,000 keys that share a value.
#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "an example measures time and prints"
)]

use std::{error::Error, time::Instant};

use bytes::Bytes;
use weft_store::{Batch, Config, Input, Op, Outcome, Output, Replica};

const BATCHES: u64 = 400;
const KEYS: u64 = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    for in_flight in [1, 8, BATCHES] {
        let dir = tempfile::tempdir_in(std::env::temp_dir())?;
        let mut replica = Replica::open(Config::new(1, vec![1], dir.path(), [1; 16], 1))?;
        replica.poll(&mut Vec::new());
        let batches: Vec<Batch> = (0..BATCHES).map(batch).collect();
        let started = Instant::now();
        let mut committed = 0;
        let mut out = Vec::new();
        for (ticket, batch) in (0..).zip(batches) {
            replica.handle(Input::Propose { batch, ticket });
            if (ticket + 1) % in_flight == 0 {
                replica.poll(&mut out);
            }
            committed += count(&mut out);
        }
        let took = started.elapsed();
        assert_eq!(committed, BATCHES);
        println!(
            "{BATCHES} batches of {KEYS} keys, {in_flight} per poll: {:.3} s, {:.0} keys/s",
            took.as_secs_f64(),
            (BATCHES * KEYS) as f64 / took.as_secs_f64()
        );
        let started = Instant::now();
        let keys = replica.view().scan(b"").count();
        println!(
            "  scan of {keys} keys: {:.3} s",
            started.elapsed().as_secs_f64()
        );
        let started = Instant::now();
        let hash = replica.view().state_hash()?;
        println!(
            "  state hash {hash:016x}: {:.3} s",
            started.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

fn count(out: &mut Vec<Output>) -> u64 {
    out.drain(..)
        .filter(|output| {
            matches!(
                output,
                Output::Proposed {
                    outcome: Outcome::Applied { .. },
                    ..
                }
            )
        })
        .count() as u64
}

fn batch(n: u64) -> Batch {
    let key = |k: u64| Bytes::from(format!("route/{n:020}/{k:019}"));
    Batch {
        conditions: Vec::new(),
        ops: vec![Op::Put {
            value: Bytes::from(vec![n as u8; 150]),
            keys: (0..KEYS).map(key).collect(),
        }],
    }
}
