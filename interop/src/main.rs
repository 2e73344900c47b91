//! Labs with real speakers, the runner behind demo and verify, benchmarks.

fn main() {}
