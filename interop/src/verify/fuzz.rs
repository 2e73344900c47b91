//! Fuzz targets: a workspace of their own, which needs a nightly compiler and libFuzzer. It does not know what a target decodes.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use super::{Verification, pass};
use crate::{
    clock, command,
    failure::{Context, Failure},
    programs::root,
};

pub(super) fn few_seconds(verification: &mut Verification) -> Result<(), Failure> {
    each(verification.arguments.fuzz_secs.unwrap_or(FEW_SECS))
}

pub(super) fn two_minutes(verification: &mut Verification) -> Result<(), Failure> {
    each(verification.arguments.fuzz_secs.unwrap_or(MANY_SECS))
}

/// Runs every target for so many seconds. New inputs go to a folder of this run: a check changes no file of the tree, but for the
/// input that reproduces a crash.
fn each(secs: u32) -> Result<(), Failure> {
    let folder = root().join("tests/fuzz");
    let nightly = nightly()?;
    pass(cargo(&folder, &nightly).args(["build", "--quiet", "--release", "--bins"]))?;
    for target in &targets(&folder.join("targets"))? {
        clock::go_on()?;
        let found = std::env::temp_dir().join(format!("weft-fuzz-{}-{target}", std::process::id()));
        for folder in [&found, &folder.join("artifacts")] {
            fs::create_dir_all(folder).context(|| folder.display().to_string())?;
        }
        println!("fuzz {target}, {secs} s");
        let mut fuzz = cargo(&folder, &nightly);
        fuzz.args(["run", "--quiet", "--release", "--bin", target, "--"])
            .arg(&found)
            .arg(format!("corpus/{target}"))
            .arg(format!("-max_total_time={secs}"))
            .args([
                "-artifact_prefix=artifacts/",
                "-verbosity=0",
                "-print_final_stats=1",
            ]);
        let output = fuzz.output();
        let _left_to_the_system = fs::remove_dir_all(&found);
        report(target, &output.context(|| "rustup".to_owned())?)?;
    }
    Ok(())
}

/// cargo of the nightly toolchain, in the workspace of the targets, with a folder of their own in a shared target directory.
fn cargo(folder: &Path, nightly: &str) -> Command {
    let mut cargo = Command::new("rustup");
    cargo.current_dir(folder).env_remove("CARGO");
    cargo.args(["run", nightly, "cargo"]);
    if let Some(shared) = std::env::var_os("CARGO_TARGET_DIR") {
        cargo.env("CARGO_TARGET_DIR", Path::new(&shared).join("fuzz"));
    }
    cargo
}

/// libFuzzer prints a lot; if nothing is wrong, the number of its inputs matters.
fn report(target: &str, output: &Output) -> Result<(), Failure> {
    let said = String::from_utf8_lossy(&output.stderr);
    let tried = said
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    match tried {
        Some(tried) if output.status.success() => {
            println!("     {} inputs, no fault", tried.trim());
            Ok(())
        }
        _ => {
            println!("{said}");
            Err(Failure::new(format!(
                "{target} ended with {}",
                output.status
            )))
        }
    }
}

/// The names of the fuzz targets. None at all is an error: there are decoders, so there are targets.
fn targets(folder: &Path) -> Result<Vec<String>, Failure> {
    let mut targets: Vec<String> = fs::read_dir(folder)
        .context(|| folder.display().to_string())?
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".rs")?.to_owned()))
        .collect();
    targets.sort();
    if targets.is_empty() {
        return Err(Failure::new(format!(
            "no fuzz target in {}",
            folder.display()
        )));
    }
    Ok(targets)
}

/// The name of a nightly toolchain, installed if there is none.
fn nightly() -> Result<String, Failure> {
    let find = || -> Result<Option<String>, Failure> {
        let listed = command::answer(&["rustup", "toolchain", "list"])?;
        let line = listed.lines().find(|line| line.starts_with("nightly"));
        Ok(line
            .and_then(|line| line.split_whitespace().next())
            .map(str::to_owned))
    };
    if let Some(name) = find()? {
        return Ok(name);
    }
    println!("installing a nightly compiler");
    pass(Command::new("rustup").args(["toolchain", "install", "nightly", "--profile", "minimal"]))?;
    find()?.ok_or_else(|| Failure::new("rustup installed no nightly compiler"))
}

/// Enough to replay the corpus and to see a target that fails at once.
const FEW_SECS: u32 = 4;
/// Of a campaign that somebody waits for.
const MANY_SECS: u32 = 120;
