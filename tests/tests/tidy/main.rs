//! House rules that a machine can check: dependencies of packages and rooms, sizes of files and structs, words, limits in pages. A
//! failure names file, line and rule.
//!
//! ```text
//! tree ── every Rust file, parsed once ──> source: code, comments, items
//!                                             |
//!   rules with tables:  packages  banned  rooms  limits
//!   rules with lists:   rooms  shape  families  public  names  prose ──> ratchet: lists/*.txt may only shrink
//! ```
//!
//! Each rule has a test with a planted violation. `ratchet` explains how a list shrinks, and why no list may grow.

mod banned;
mod families;
mod items;
mod limits;
mod names;
mod packages;
mod prose;
mod public;
mod ratchet;
mod rooms;
mod scripts;
mod shape;
mod source;
mod tree;

/// Panics if there are faults.
fn report(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
