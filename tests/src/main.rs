//! Simulator, invariants, tidy and cross-crate tests.

fn main() {}
