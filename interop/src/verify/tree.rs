//! Steps that look at the tree itself: its form, its tests, its contract, its simulator. Labs and other authors' clients are elsewhere.

use std::process::Command;

use super::{Verification, pass};
use crate::{
    command,
    failure::Failure,
    packages,
    programs::{self, Programs, cargo, root},
    timings,
};

pub(super) fn format(_: &mut Verification) -> Result<(), Failure> {
    pass(cargo().args(["fmt", "--all", "--check", "--", "-l"]))
}

/// Compiles everything that later steps run, so that their times are their own.
pub(super) fn build(_: &mut Verification) -> Result<(), Failure> {
    Programs::build()?;
    let target = programs::target()?;
    for mut tests in [outer_tests(), unit_tests()] {
        if !timings::build(tests.args(["--no-run", "--quiet"]), &target)? {
            return Err(Failure::new("something does not compile"));
        }
    }
    Ok(())
}

pub(super) fn clippy(_: &mut Verification) -> Result<(), Failure> {
    let mut clippy = cargo();
    clippy.arg("clippy").args(WORKSPACE);
    pass(clippy.args(["--all-targets", "--quiet", "--", "-D", "warnings"]))
}

/// Everything but the two that are steps of their own.
pub(super) fn test(verification: &mut Verification) -> Result<(), Failure> {
    let without_root = verification.arguments.without_root;
    // Tests beside other authors' programs print that they were left out where one is missing.
    if !without_root {
        packages::install(&[&packages::TEST])?;
    }
    let mut docs = cargo();
    docs.args(["test", "--doc"]).args(WORKSPACE);
    for mut tests in [outer_tests(), unit_tests(), docs] {
        pass(leaving_out(&mut tests, without_root).arg("--quiet"))?;
    }
    Ok(())
}

/// Tests of the programs, and those in `tests` folders.
fn outer_tests() -> Command {
    let mut tests = cargo();
    tests
        .arg("test")
        .args(WORKSPACE)
        .args(["--bins", "--test", "*"]);
    tests
}

/// Tests beside the code of libraries.
fn unit_tests() -> Command {
    let mut tests = cargo();
    tests.arg("unit");
    tests
}

/// Tests that need root print that they were left out where it is not to be had.
fn leaving_out(tests: &mut Command, without_root: bool) -> &mut Command {
    if without_root {
        tests.env("WEFT_SKIP_ROOT", "1");
    }
    tests
}

pub(super) fn doc(_: &mut Verification) -> Result<(), Failure> {
    let mut doc = cargo();
    doc.arg("doc")
        .args(WORKSPACE)
        .args(["--no-deps", "--quiet"]);
    pass(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// The measure of `cargo bench-watch`, for a few leaders.
pub(super) fn watch(_: &mut Verification) -> Result<(), Failure> {
    pass(cargo().args(["bench-watch", "--", "--kills", "3"]))
}

/// The measure of `cargo bench-last-path`, for a few leaders.
pub(super) fn last_path(_: &mut Verification) -> Result<(), Failure> {
    pass(cargo().args(["bench-last-path", "--", "--rounds", "20"]))
}

/// The measure of `cargo bench-doors`, in its short form.
pub(super) fn doors(_: &mut Verification) -> Result<(), Failure> {
    pass(cargo().args(["bench-doors", "--", "--short"]))
}

/// The measure of `cargo bench-doors`.
pub(super) fn long_doors(_: &mut Verification) -> Result<(), Failure> {
    pass(cargo().arg("bench-doors"))
}

pub(super) fn tidy(_: &mut Verification) -> Result<(), Failure> {
    pass(cargo().arg("tidy"))
}

/// The packages that others build upon; npm brings buf.
pub(super) fn contract(_: &mut Verification) -> Result<(), Failure> {
    packages::install(&[&packages::CONTRACT])?;
    let proto = root().join("proto");
    let buf = |word: &str| {
        let mut buf = Command::new("npx");
        buf.args(["--yes", BUF, "buf", word]).arg(&proto);
        buf
    };
    pass(&mut buf("lint"))?;
    pass(buf("breaking").arg("--against").arg(proto.join(RELEASED)))
}

/// Advisories are left to whoever has a network: their database is no package of a registry.
pub(super) fn licences(_: &mut Verification) -> Result<(), Failure> {
    if command::answer(&["cargo", "deny", "--version"]).is_err() {
        println!("installing cargo-deny");
        pass(cargo().args(["install", "--locked", "--quiet", "cargo-deny"]))?;
    }
    // It looks at the crates of every platform, also at those that no build of this machine has brought.
    pass(cargo().args(["fetch", "--locked", "--quiet"]))?;
    let scope = ["deny", "--offline", "--log-level", "error", "check"];
    pass(cargo().args(scope).args(["licenses", "bans", "sources"]))
}

pub(super) fn sim(_: &mut Verification) -> Result<(), Failure> {
    pass(&mut Command::new(Programs::build()?.path("weft-sim")?))
}

/// The seeds after those of `sim`.
pub(super) fn long_sim(_: &mut Verification) -> Result<(), Failure> {
    let mut sim = Command::new(Programs::build()?.path("weft-sim")?);
    pass(sim.args(["--seed", "51", "--seeds", "1000"]))
}

/// The packages and the profile of every step, so that cargo chooses the same features of dependencies each time.
const WORKSPACE: [&str; 2] = ["--release", "--workspace"];

/// The contract as it was released last; `buf build proto --exclude-source-info -o proto/released.binpb` makes the next.
const RELEASED: &str = "released.binpb";
/// The version of buf: what it asks for grows with it.
const BUF: &str = "--package=@bufbuild/buf@1.75.0";

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn tests_that_need_root_are_left_out_only_where_that_was_asked_for() {
        for without_root in [false, true] {
            let mut command = outer_tests();
            let command = leaving_out(&mut command, without_root);
            let skips = (OsStr::new("WEFT_SKIP_ROOT"), Some(OsStr::new("1")));
            assert_eq!(command.get_envs().any(|it| it == skips), without_root);
        }
    }
}
