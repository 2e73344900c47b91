//! The reflector benchmark's place in the command line.

use crate::failure::Failure;

#[derive(clap::Args)]
pub(crate) struct Arguments {}

/// Says that the benchmark is not part of this build.
pub(crate) fn run(_arguments: &Arguments) -> Result<bool, Failure> {
    Err(Failure::new("the benchmark is not part of this build"))
}
