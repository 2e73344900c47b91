//! House rules that a machine can check: dependencies of packages and rooms, sizes of files and structs, words, limits in pages. A
//! failure names file, line and rule.
//!
//! Each rule has a test with a planted violation. `ratchet` explains how a list shrinks, and why no list may grow.

mod banned;
mod families;
mod items;
mod limits;
mod packages;
mod public;
mod ratchet;
mod rooms;
mod shape;
mod source;
mod tree;

/// Panics if there are faults.
fn report(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
