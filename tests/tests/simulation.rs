//! A handful of seeds with every build; `cargo sim` runs more.

use weft_tests::{Options, simulate};

#[test]
fn no_invariant_breaks_under_the_first_seeds() {
    for seed in 1..=4 {
        if let Err(failure) = simulate(seed, &Options::default()) {
            panic!(
                "seed {seed}, step {}: {}\n{}",
                failure.step,
                failure.what,
                failure.events.join("\n")
            );
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let options = Options {
        steps: 1_000,
        ..Options::default()
    };
    let run = || simulate(7, &options).expect("no invariant breaks");
    assert_eq!(run(), run());
}
