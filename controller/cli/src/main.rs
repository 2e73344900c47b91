//! weft: what an operator types.

fn main() {}
