//! `cargo verify`: every check of the tree as a named step. A step that cannot run has failed, unless
//! somebody asked to skip it by name.

mod clients;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::Instant,
};

use crate::{
    clock, command,
    failure::{Context, Failure},
    packages,
    programs::{Programs, cargo, root},
    scenario,
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Leave out the labs, and what else needs root
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

const STEPS: [Step; 16] = [
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
        name: "contract",
        asks: "buf: the form and the comments of weft.v1, and that it breaks no client of the last release",
        run: contract,
    },
    Step {
        name: "licences",
        asks: "cargo deny: licences, banned crates, sources",
        run: licences,
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
        name: "watch",
        asks: "a client follows every change while three leaders are killed",
        run: watch,
    },
    Step {
        name: "openapi",
        asks: "every path of /openapi.json, with what fits it and what does not",
        run: clients::openapi,
    },
    Step {
        name: "clients",
        asks: "the Python client and its story, Go stubs that compile, and pygnmi at weft-agent",
        run: clients::clients,
    },
    Step {
        name: "gribi",
        asks: "gRIBI's compliance cases and ours, said to weft-agent by Python's grpcio",
        run: clients::gribi,
    },
    Step {
        name: "metrics",
        asks: "promtool: names, units and help of /metrics",
        run: clients::metrics,
    },
    Step {
        name: "manual",
        asks: "mandoc: every man page of weft",
        run: clients::manual,
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
        || (arguments.without_root && matches!(step.name, "gribi" | "labs"))
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
fn test(arguments: &Arguments) -> Result<(), Failure> {
    // Tests beside other authors' programs say loudly that they were left out where one is missing.
    if !arguments.without_root {
        packages::install(&[&packages::TEST])?;
    }
    pass(&mut tests(arguments))
}

/// All tests; those that need root say that they were left out where it is not to be had.
fn tests(arguments: &Arguments) -> Command {
    let mut command = cargo();
    command.args(["test", "--release", "--workspace", "--quiet"]);
    if arguments.without_root {
        command.env("WEFT_SKIP_ROOT", "1");
    }
    command
}

fn doc(_: &Arguments) -> Result<(), Failure> {
    let scope = ["doc", "--release", "--workspace", "--no-deps", "--quiet"];
    pass(cargo().args(scope).env("RUSTDOCFLAGS", "-D warnings"))
}

/// The measure of `cargo bench-watch`, for a few leaders.
fn watch(_: &Arguments) -> Result<(), Failure> {
    pass(cargo().args(["bench-watch", "--", "--kills", "3"]))
}

fn tidy(_: &Arguments) -> Result<(), Failure> {
    pass(cargo().arg("tidy"))
}

/// The packages that others build upon; npm brings buf.
fn contract(_: &Arguments) -> Result<(), Failure> {
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
fn licences(_: &Arguments) -> Result<(), Failure> {
    if command::answer(&["cargo", "deny", "--version"]).is_err() {
        println!("installing cargo-deny");
        pass(cargo().args(["install", "--locked", "--quiet", "cargo-deny"]))?;
    }
    // It looks at the crates of every platform, also at those that no build of this machine has brought.
    pass(cargo().args(["fetch", "--locked", "--quiet"]))?;
    let scope = ["deny", "--offline", "--log-level", "error", "check"];
    pass(cargo().args(scope).args(["licenses", "bans", "sources"]))
}

fn sim(_: &Arguments) -> Result<(), Failure> {
    pass(&mut Command::new(Programs::build()?.path("weft-sim")?))
}

/// Fuzz targets live in a workspace of their own and need a nightly compiler. New inputs go to a folder
/// of this run: a check changes no file of the tree, but for what reproduces a crash.
fn fuzz(arguments: &Arguments) -> Result<(), Failure> {
    let folder = root().join("tests/fuzz");
    let nightly = nightly()?;
    for target in &targets(&folder.join("targets"))? {
        let found = std::env::temp_dir().join(format!("weft-fuzz-{}-{target}", std::process::id()));
        for folder in [&found, &folder.join("artifacts")] {
            fs::create_dir_all(folder).context(|| folder.display().to_string())?;
        }
        println!("fuzz {target}, {} s", arguments.fuzz_secs);
        let mut fuzz = Command::new("rustup");
        fuzz.current_dir(&folder)
            .env_remove("CARGO")
            .args([
                "run",
                &nightly,
                "cargo",
                "run",
                "--quiet",
                "--release",
                "--bin",
                target,
                "--",
            ])
            .arg(&found)
            .arg(format!("corpus/{target}"))
            .arg(format!("-max_total_time={}", arguments.fuzz_secs))
            .args([
                "-artifact_prefix=artifacts/",
                "-verbosity=0",
                "-print_final_stats=1",
            ]);
        if let Some(shared) = std::env::var_os("CARGO_TARGET_DIR") {
            fuzz.env("CARGO_TARGET_DIR", Path::new(&shared).join("fuzz"));
        }
        let output = fuzz.output();
        let _left_to_the_system = fs::remove_dir_all(&found);
        report(target, &output.context(|| "rustup".to_owned())?)?;
    }
    Ok(())
}

/// libFuzzer says a lot; what matters when nothing is wrong is how much it tried.
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

/// The contract as it was released last; `buf build proto --exclude-source-info -o proto/released.binpb` makes the next.
const RELEASED: &str = "released.binpb";
/// Which buf: what it asks for grows with its version.
const BUF: &str = "--package=@bufbuild/buf@1.75.0";

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

fn pass(command: &mut Command) -> Result<(), Failure> {
    let line = format!("{command:?}");
    if command::show(command)? {
        Ok(())
    } else {
        Err(Failure::new(format!("{line} failed")))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn tests_that_need_root_are_left_out_only_where_that_was_asked_for() {
        for without_root in [false, true] {
            let arguments = Arguments {
                without_root,
                skip: Vec::new(),
                only: Vec::new(),
                list: false,
                fuzz_secs: 0,
            };
            let command = tests(&arguments);
            let skips = (OsStr::new("WEFT_SKIP_ROOT"), Some(OsStr::new("1")));
            assert_eq!(command.get_envs().any(|it| it == skips), without_root);
        }
    }
}
