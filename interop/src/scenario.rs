//! `cargo interop`: running labs, one after another or side by side, whole or in their short form.

mod bad_input;
mod catalog;
mod collective;
mod far_link;
mod jobs;
mod proof;

use std::time::{Duration, Instant};

use crate::{
    check::Checks,
    clock, evpn,
    expect::Expect,
    failure::Failure,
    kubernetes,
    lab::Lab,
    packages,
    programs::Programs,
    sabotage::Break,
    speakers::{Speakers, Suite},
    story::Story,
    topology::Topology,
};

use catalog::{KUBERNETES, PAGE, SLURM, runs_alone};
pub(crate) use catalog::{folder, holds_with, names, topology_file};
pub(crate) use jobs::Outcome;

#[derive(clap::Args, Default)]
pub(crate) struct Arguments {
    /// Labs to run; all of them if none is named
    names: Vec<String>,
    /// Print the labs there are
    #[arg(long)]
    list: bool,
    /// Leave the lab up after its checks, until interrupted
    #[arg(long)]
    keep: bool,
    /// Take the short form of a lab that has one, as `cargo verify` does
    #[arg(long)]
    short: bool,
    /// Break something on purpose: a check must fail
    #[arg(long = "break", value_enum, value_name = "KIND")]
    sabotage: Option<Break>,
    /// Run each lab once as it is and once for each break that it has, and print under which of them each check fails
    #[arg(long, conflicts_with_all = ["keep", "sabotage", "jobs"])]
    prove: bool,
    /// Who reflects the routes
    #[arg(long, value_enum, default_value = "weft")]
    reflector: Reflector,
    /// Whose speakers run, by release of Debian, where a lab does not say so itself
    #[arg(long, value_enum, default_value = "installed")]
    speakers: Suite,
    /// How often a lab repeats what it repeats: faults of far-link, steps under `repeat`
    #[arg(long)]
    runs: Option<u32>,
    /// How many labs run at once; those that measure run alone
    #[arg(long, default_value_t = 1, conflicts_with_all = ["keep", "sabotage"])]
    jobs: usize,
    /// Use the programs that were built before
    #[arg(long)]
    no_build: bool,
}

/// Who reflects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Reflector {
    /// What the labs are for
    #[default]
    Weft,
    /// FRR in the place of weftd, without agents: what weft is compared with
    Frr,
    /// GoBGP in the place of weftd
    Gobgp,
}

impl Reflector {
    /// Whether a lab can be run with it.
    fn stands_in(self, lab: &str) -> bool {
        match self {
            Self::Weft => true,
            Self::Frr => folder(lab).join("reflector-frr").is_dir(),
            Self::Gobgp => folder(lab).join("reflector-gobgp").is_dir(),
        }
    }
}

/// How much of a lab is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// All of it.
    Long,
    /// Of a lab that takes minutes, what shows the most in the least time; all of any other.
    Short,
}

/// What a lab is checked by.
enum Plot {
    /// Facts of a fabric, from which every route and entry is derived.
    Fabric(Expect),
    /// Steps, one after the other.
    Story(Story),
    /// Rows of bad input.
    BadInput,
    /// Faults, with weft and with FRR alone.
    FarLink(far_link::Faults),
    /// Collectives, with FRR alone, with weights and with pins.
    Collective(collective::Plan),
}

impl Plot {
    fn read(lab: &str) -> Result<Self, Failure> {
        let folder = folder(lab);
        if let Some(faults) = far_link::Faults::read(&folder)? {
            return Ok(Self::FarLink(faults));
        }
        if let Some(plan) = collective::Plan::read(&folder)? {
            return Ok(Self::Collective(plan));
        }
        if !folder.join("expect.yaml").is_file() {
            return Ok(Self::BadInput);
        }
        match Story::read(&folder)? {
            Some(story) => Ok(Self::Story(story)),
            None => Expect::read(&folder).map(Self::Fabric),
        }
    }

    /// The breaks that the lab has.
    fn breaks(&self) -> Vec<Break> {
        match self {
            Self::Fabric(_) => vec![Break::RouteTarget, Break::Withdraw, Break::Weight],
            Self::FarLink(_) => vec![Break::FarLinkBlind, Break::Marks, Break::Guardian],
            Self::Collective(_) => vec![Break::Astray, Break::Unpinned],
            Self::Story(story) => story.breaks(),
            Self::BadInput => Vec::new(),
        }
    }

    fn has_short_form(&self) -> bool {
        match self {
            Self::FarLink(_) | Self::Collective(_) => true,
            Self::Story(story) => story.has_short_form(),
            Self::Fabric(_) | Self::BadInput => false,
        }
    }
}

/// Runs the labs that were asked for. Ok(false): a check failed.
pub(crate) fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let all = names()?;
    if arguments.list {
        all.iter().for_each(|name| println!("{name}"));
        return Ok(true);
    }
    if let Some(unknown) = arguments.names.iter().find(|name| !all.contains(name)) {
        return Err(Failure::new(format!(
            "no lab {unknown}: there are {}",
            all.join(", ")
        )));
    }
    let wanted = wanted(&all, arguments)?;
    if arguments.prove {
        return proof::of(&wanted, arguments);
    }
    let mut total = Checks::default();
    for outcome in run_labs(&wanted, arguments)? {
        total.add(&outcome.checks);
    }
    println!("{}", total.summary());
    Ok(total.failed == 0)
}

/// The labs to run. Another reflector needs a configuration of its own, and not every lab can be broken by
/// name: all of them then means all that have one.
fn wanted(all: &[String], arguments: &Arguments) -> Result<Vec<String>, Failure> {
    let mut fitting = Vec::new();
    for name in all {
        let breaks = Plot::read(name)?.breaks();
        let is_broken = match arguments.sabotage {
            Some(sabotage) => breaks.contains(&sabotage),
            None => !arguments.prove || !breaks.is_empty(),
        };
        if arguments.reflector.stands_in(name) && is_broken {
            fitting.push(name.clone());
        }
    }
    if arguments.names.is_empty() {
        return Ok(fitting);
    }
    match arguments.names.iter().find(|name| !fitting.contains(name)) {
        None => Ok(arguments.names.clone()),
        Some(name) => Err(Failure::new(format!(
            "{name} is not run with this reflector, or cannot be broken by name"
        ))),
    }
}

/// The labs that have a short form.
pub(crate) fn long_ones() -> Result<Vec<String>, Failure> {
    let mut long = Vec::new();
    for name in names()? {
        if Plot::read(&name)?.has_short_form() {
            long.push(name);
        }
    }
    Ok(long)
}

/// Runs labs for `cargo verify`, each as a process of its own, `jobs` of them at once.
pub(crate) fn run_each(
    names: &[String],
    form: Form,
    speakers: Suite,
    jobs: usize,
) -> Result<Vec<Outcome>, Failure> {
    let arguments = Arguments {
        short: form == Form::Short,
        speakers,
        jobs,
        ..Arguments::default()
    };
    prepare(names, &arguments)?;
    let (alone, together): (Vec<String>, Vec<String>) =
        names.iter().cloned().partition(|name| runs_alone(name));
    let options = arguments.options();
    let mut outcomes = jobs::run(&together, jobs, &options)?;
    outcomes.extend(jobs::run(&alone, 1, &options)?);
    Ok(outcomes)
}

/// Installs and builds what labs need; returns weft's programs.
fn prepare(wanted: &[String], arguments: &Arguments) -> Result<Option<Programs>, Failure> {
    packages::require_root()?;
    packages::install(&[&packages::LAB])?;
    let is_wanted = |lab: &str| wanted.iter().any(|name| name == lab);
    if is_wanted(SLURM) {
        packages::install(&[&packages::SLURM])?;
    }
    if is_wanted(KUBERNETES) {
        kubernetes::obtain()?;
    }
    if is_wanted(PAGE) {
        packages::install_page()?;
    }
    for name in wanted {
        for node in Topology::read(&topology_file(name))?.nodes.values() {
            Speakers::obtain(node.speakers().unwrap_or(arguments.speakers))?; // by one, not by all of them at once
        }
    }
    match (arguments.reflector, arguments.no_build) {
        (Reflector::Frr | Reflector::Gobgp, _) => Ok(None),
        (Reflector::Weft, true) => Programs::find().map(Some),
        (Reflector::Weft, false) => {
            packages::install(&[&packages::BUILD])?;
            Programs::build().map(Some)
        }
    }
}

fn run_labs(wanted: &[String], arguments: &Arguments) -> Result<Vec<Outcome>, Failure> {
    let programs = prepare(wanted, arguments)?;
    let (alone, together): (Vec<String>, Vec<String>) = wanted
        .iter()
        .cloned()
        .partition(|name| arguments.jobs <= 1 || runs_alone(name));
    let mut outcomes = jobs::run(&together, arguments.jobs, &arguments.options())?;
    for name in alone {
        let start = Instant::now();
        let checks = run_lab(&name, arguments, programs.clone())?;
        outcomes.push(Outcome {
            name,
            checks,
            took: start.elapsed(),
            logs: None,
        });
    }
    Ok(outcomes)
}

impl Arguments {
    fn form(&self) -> Form {
        match self.short {
            true => Form::Short,
            false => Form::Long,
        }
    }

    /// The options of a run that concern one lab, as they are typed.
    fn options(&self) -> Vec<String> {
        let options = [
            ("--reflector", typed(&self.reflector)),
            ("--speakers", typed(&self.speakers)),
            ("--runs", self.runs.map(|runs| runs.to_string())),
        ];
        let given = options
            .into_iter()
            .filter_map(|(name, value)| value.map(|it| (name, it)));
        let given = given.map(|(name, value)| format!("{name}={value}"));
        given
            .chain(self.short.then(|| "--short".to_owned()))
            .collect()
    }
}

fn typed(value: &impl clap::ValueEnum) -> Option<String> {
    let value = value.to_possible_value()?;
    Some(value.get_name().to_owned())
}

fn run_lab(
    name: &str,
    arguments: &Arguments,
    programs: Option<Programs>,
) -> Result<Checks, Failure> {
    let start = Instant::now();
    let plot = Plot::read(name)?;
    let form = match plot.has_short_form() {
        true => arguments.form(),
        false => Form::Long,
    };
    match form {
        Form::Long => println!("lab {name}"),
        Form::Short => println!("lab {name}, short form"),
    }
    let mut lab = Lab::up(
        &folder(name),
        &Topology::read(&topology_file(name))?,
        programs,
        arguments.speakers,
    )?;
    println!("  up    after {}", clock::since(start));
    let (runs, sabotage) = (arguments.runs, arguments.sabotage);
    let checks = match &plot {
        Plot::Fabric(expect) => evpn::check(&mut lab, expect, sabotage),
        Plot::Story(story) => story.told(&mut lab, (form, sabotage), runs),
        Plot::BadInput => bad_input::check(&mut lab),
        Plot::FarLink(faults) => {
            far_link::check(&mut lab, faults, form, runs.unwrap_or(RUNS), sabotage)
        }
        Plot::Collective(plan) => collective::check(&mut lab, plan, form, sabotage),
    };
    if !clock::interrupted() && !matches!(&checks, Ok(checks) if checks.failed == 0) {
        lab.fallen()
            .iter()
            .for_each(|daemon| println!("  ended by itself: {daemon}"));
        println!("{LOGS}{}", lab.keep_logs()?.display());
    }
    if arguments.keep && checks.is_ok() {
        println!("  up until Ctrl-C; {}", hint(&plot, &lab)?);
        while !clock::interrupted() {
            clock::settle(Duration::from_millis(100));
        }
    }
    drop(lab);
    println!("  down  after {}", clock::since(start));
    checks
}

/// How a person looks around in a lab.
fn hint(plot: &Plot, lab: &Lab) -> Result<String, Failure> {
    match plot {
        Plot::Fabric(expect) => evpn::hint(lab, expect),
        Plot::Story(_) => Ok("to look around: ip netns list".to_owned()),
        Plot::BadInput => bad_input::hint(lab),
        Plot::FarLink(_) => far_link::hint(lab),
        Plot::Collective(_) => collective::hint(lab),
    }
}

/// Precedes the folder with the logs of a failed lab.
const LOGS: &str = "  logs: ";

/// Enough to see a way that stays dead, in a minute and a half.
const RUNS: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lab_with_a_short_form_can_be_broken() {
        let long = long_ones().unwrap();
        let expected = [
            "collective",
            "far-link",
            "kubernetes",
            "link-bandwidth",
            "path-lost",
            "replica-lost",
        ];
        assert_eq!(long, expected);
        for lab in long {
            assert!(!Plot::read(&lab).unwrap().breaks().is_empty(), "{lab}");
        }
    }

    #[test]
    fn a_run_of_one_lab_has_the_options_of_the_run() {
        let arguments = Arguments {
            short: true,
            runs: Some(2),
            ..Arguments::default()
        };
        let options = [
            "--reflector=weft",
            "--speakers=installed",
            "--runs=2",
            "--short",
        ];
        assert_eq!(arguments.options(), options);
    }
}
