//! `cargo verify`: every check of the tree as a named step. A step that cannot run has failed, unless
//! somebody asked to skip it by name.

use std::{fs, path::Path, process::Command, time::Instant};

use crate::{
    clock, command,
    failure::{Context, Failure},
    packages,
    programs::{cargo, root},
    scenario,
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Leave out the labs, which need root
    #[arg(long)]
    without_root: bool,
    /// Leave out a step, by name; may be given several times
    #[arg(long, value_name = "STEP")]
    skip: Vec<String>,
    /// Run only this step; may be given several times
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
    /// Print the steps and end
    #[arg(long)]
    list: bool,
    /// Seconds for each fuzz target
    #[arg(long, default_value_t = 15)]
    fuzz_secs: u32,
}

/// One question about the tree.
struct Step {
    name: &'static str,
    asks: &'static str,
    run: fn(&Arguments) -> Result<(), Failure>,
}

const STEPS: [Step; 8] = [
    Step {
        name: "format",
        asks: "cargo fmt --check",
        run: format,
    },
    Step {
        name: "clippy",
        asks: "cargo clippy, warnings are errors",
        run: clippy,
    },
    Step {
        name: "test",
        asks: "cargo test --workspace",
        run: test,
    },
    Step {
        name: "doc",
        asks: "cargo doc, warnings are errors",
        run: doc,
    },
    Step {
        name: "tidy",
        asks: "dependency rules and the shape of files",
        run: tidy,
    },
    Step {
        name: "sim",
        asks: "the simulator, fixed seeds",
        run: sim,
    },
    Step {
        name: "fuzz",
        asks: "every fuzz target for a few seconds",
        run: fuzz,
    },
    Step {
        name: "labs",
        asks: "every lab with real speakers",
        run: labs,
    },
];

/// Ok(false): a step failed.
pub(crate) fn run(arguments: &Arguments) -> Result<bool, Failure> {
    if arguments.list {
        STEPS
            .iter()
            .for_each(|step| println!("{:8} {}", step.name, step.asks));
        return Ok(true);
    }
    for name in arguments.skip.iter().chain(&arguments.only) {
        if !STEPS.iter().any(|step| step.name == name) {
            return Err(Failure::new(format!(
                "no step {name}: there are {}",
                STEPS.map(|step| step.name).join(", ")
            )));
        }
    }
    packages::install(&[&packages::BUILD])?;
    let mut lines = Vec::new();
    let (mut passed, mut failed) = (0, 0);
    for step in &STEPS {
        if skipped(step, arguments) {
            lines.push(format!("skip  {:8}", step.name));
            continue;
        }
        println!("\n== {}: {}", step.name, step.asks);
        let start = Instant::now();
        let done = (step.run)(arguments);
        if clock::interrupted() {
            return Err(Failure::Interrupted);
        }
        let took = clock::since(start);
        match done {
            Ok(()) => {
                passed += 1;
                lines.push(format!("ok    {:8} {took}", step.name));
            }
            Err(reason) => {
                failed += 1;
                println!("FAIL {}: {reason}", step.name);
                lines.push(format!("FAIL  {:8} {took}: {reason}", step.name));
            }
        }
    }
    println!("\n{}", lines.join("\n"));
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

fn skipped(step: &Step, arguments: &Arguments) -> bool {
    let named = |names: &[String]| names.iter().any(|name| name == step.name);
    named(&arguments.skip)
        || (!arguments.only.is_empty() && !named(&arguments.only))
        || (arguments.without_root && step.name == "labs")
}

fn format(_: &Arguments) -> Result<(), Failure> {
    pass(cargo().args(["fmt", "--all", "--check", "--", "-l"]))
}

fn clippy(_: &Arguments) -> Result<(), Failure> {
    let scope = [
        "clippy",
        "--release",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
    ];
    pass(cargo().args(scope).args(["-D", "warnings"]))
}

/// Everything but the two that are steps of their own.
fn test(_: &Arguments) -> Result<(), Failure> {
    pass(cargo().args(["test", "--release", "--workspace", "--quiet"]))
}

fn doc(_: &Arguments) -> Result<(), Failure> {
    let scope = ["doc", "--release", "--workspace", "--no-deps", "--quiet"];
    pass(cargo().args(scope).env("RUSTDOCFLAGS", "-D warnings"))
}

fn tidy(_: &Arguments) -> Result<(), Failure> {
    pass(cargo().arg("tidy"))
}

fn sim(_: &Arguments) -> Result<(), Failure> {
    pass(cargo().arg("sim"))
}

/// Fuzz targets live in a workspace of their own, and need a nightly compiler and cargo-fuzz.
fn fuzz(arguments: &Arguments) -> Result<(), Failure> {
    let folder = root().join("tests/fuzz");
    let targets = targets(&folder.join("fuzz_targets"))?;
    let Some(nightly) = nightly()? else {
        return Err(Failure::new(
            "no nightly compiler: `rustup toolchain install nightly --profile minimal`",
        ));
    };
    if !command::exists("cargo-fuzz") && !cargo_home_has("cargo-fuzz") {
        println!("installing cargo-fuzz");
        pass(cargo().args(["install", "--quiet", "--locked", "cargo-fuzz"]))?;
    }
    for target in &targets {
        println!("fuzz {target}, {} s", arguments.fuzz_secs);
        let limit = format!("-max_total_time={}", arguments.fuzz_secs);
        let mut fuzz = Command::new("rustup");
        fuzz.current_dir(root().join("tests"))
            .env_remove("CARGO")
            .args(["run", &nightly, "cargo"])
            .args([
                "fuzz",
                "run",
                "--fuzz-dir",
                "fuzz",
                target,
                "--",
                &limit,
                "-verbosity=0",
            ]);
        pass(&mut fuzz)?;
    }
    Ok(())
}

fn labs(_: &Arguments) -> Result<(), Failure> {
    let checks = scenario::run_all()?;
    println!("{}", checks.summary());
    if checks.failed == 0 {
        Ok(())
    } else {
        Err(Failure::new(format!(
            "{} of {} checks",
            checks.failed,
            checks.failed + checks.passed
        )))
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

/// The name of a nightly toolchain, if there is one.
fn nightly() -> Result<Option<String>, Failure> {
    let listed = command::answer(&["rustup", "toolchain", "list"])?;
    let name = listed
        .lines()
        .find(|line| line.starts_with("nightly"))
        .map(|line| {
            line.split_whitespace()
                .next()
                .unwrap_or("nightly")
                .to_owned()
        });
    Ok(name)
}

fn cargo_home_has(program: &str) -> bool {
    let home = std::env::var_os("CARGO_HOME").map_or_else(
        || Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cargo"),
        std::path::PathBuf::from,
    );
    home.join("bin").join(program).is_file()
}

fn pass(command: &mut Command) -> Result<(), Failure> {
    let line = format!("{command:?}");
    if command::show(command)? {
        Ok(())
    } else {
        Err(Failure::new(format!("{line} failed")))
    }
}
