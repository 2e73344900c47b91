//! Simulator, invariants, tidy and cross-crate tests.
