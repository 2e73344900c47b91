//! `cargo interop`: which labs there are, and running them one after another.

mod bad_input;
mod collective;
mod far_link;
mod jobs;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    check::Checks,
    clock, evpn,
    expect::Expect,
    failure::{Context, Failure},
    kubernetes,
    lab::Lab,
    packages,
    programs::{self, Programs},
    sabotage::Break,
    speakers::{Speakers, Suite},
    story::Story,
    topology::Topology,
};

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
    /// Break something on purpose: a check must fail
    #[arg(long = "break", value_enum, value_name = "KIND")]
    sabotage: Option<Break>,
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
    let checks = run_labs(&wanted(&all, arguments)?, arguments)?;
    println!("{}", checks.summary());
    Ok(checks.failed == 0)
}

/// The labs to run. Another reflector needs a configuration of its own, and only a fabric can be broken
/// by name: all of them then means all that have one.
fn wanted(all: &[String], arguments: &Arguments) -> Result<Vec<String>, Failure> {
    let mut fitting = Vec::new();
    for name in all {
        let breakable = |sabotage: Break| {
            let plot = Plot::read(name)?;
            let named = matches!(plot, Plot::Fabric(_) | Plot::FarLink(_));
            Ok::<_, Failure>(named && sabotage.fits(name))
        };
        if arguments.reflector.stands_in(name) && arguments.sabotage.map_or(Ok(true), breakable)? {
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

/// Runs all labs with the options of `cargo interop`'s defaults, and some of them with newer speakers: for
/// `cargo verify`.
pub(crate) fn run_all() -> Result<Checks, Failure> {
    let installed = Arguments {
        jobs: AT_ONCE,
        ..Arguments::default()
    };
    let mut checks = run_labs(&names()?, &installed)?;
    let newer = Arguments {
        speakers: Suite::Testing,
        jobs: AT_ONCE,
        no_build: true,
        ..Arguments::default()
    };
    println!("with the speakers of Debian testing");
    checks.add(&run_labs(&NEWER.map(str::to_owned), &newer)?);
    Ok(checks)
}

fn run_labs(wanted: &[String], arguments: &Arguments) -> Result<Checks, Failure> {
    packages::require_root()?;
    packages::install(&[&packages::LAB])?;
    if wanted.iter().any(|name| name == SLURM) {
        packages::install(&[&packages::SLURM])?;
    }
    if wanted.iter().any(|name| name == KUBERNETES) {
        kubernetes::obtain()?;
    }
    if wanted.iter().any(|name| name == PAGE) {
        packages::install_page()?;
    }
    let programs = match (arguments.reflector, arguments.no_build) {
        (Reflector::Frr | Reflector::Gobgp, _) => None,
        (Reflector::Weft, true) => Some(Programs::find()?),
        (Reflector::Weft, false) => {
            packages::install(&[&packages::BUILD])?;
            Some(Programs::build()?)
        }
    };
    let (alone, together): (Vec<&String>, Vec<&String>) = wanted
        .iter()
        .partition(|name| arguments.jobs <= 1 || ALONE.contains(&name.as_str()));
    let together: Vec<String> = together.into_iter().cloned().collect();
    for name in &together {
        for node in Topology::read(&topology_file(name))?.nodes.values() {
            Speakers::obtain(node.speakers().unwrap_or(arguments.speakers))?; // by one, not by all of them at once
        }
    }
    let mut total = jobs::run(&together, arguments.jobs, &arguments.options())?;
    for name in alone {
        total.add(&run_lab(name, arguments, programs.clone())?);
    }
    Ok(total)
}

impl Arguments {
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
        given
            .map(|(name, value)| format!("{name}={value}"))
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
    println!("lab {name}");
    let folder = folder(name);
    let plot = Plot::read(name)?;
    let mut lab = Lab::up(
        &folder,
        &Topology::read(&topology_file(name))?,
        programs,
        arguments.speakers,
    )?;
    println!("  up    after {}", clock::since(start));
    let checks = match &plot {
        Plot::Fabric(expect) => evpn::check(&mut lab, expect, arguments.sabotage),
        Plot::Story(story) => story.told(&mut lab, arguments.runs),
        Plot::BadInput => bad_input::check(&mut lab),
        Plot::FarLink(faults) => far_link::check(
            &mut lab,
            faults,
            arguments.runs.unwrap_or(RUNS),
            arguments.sabotage,
        ),
        Plot::Collective(plan) => collective::check(&mut lab, plan),
    };
    if !clock::interrupted() && !matches!(&checks, Ok(checks) if checks.failed == 0) {
        lab.fallen()
            .iter()
            .for_each(|daemon| println!("  ended by itself: {daemon}"));
        println!("  logs: {}", lab.keep_logs()?.display());
    }
    if arguments.keep && checks.is_ok() {
        let hint = match &plot {
            Plot::Fabric(expect) => evpn::hint(&lab, expect)?,
            Plot::Story(_) => "to look around: ip netns list".to_owned(),
            Plot::BadInput => bad_input::hint(&lab)?,
            Plot::FarLink(_) => far_link::hint(&lab)?,
            Plot::Collective(_) => collective::hint(&lab)?,
        };
        println!("  up until Ctrl-C; {hint}");
        while !clock::interrupted() {
            clock::settle(Duration::from_millis(100));
        }
    }
    drop(lab);
    println!("  down  after {}", clock::since(start));
    checks
}

/// The labs of the tree.
pub(crate) fn names() -> Result<Vec<String>, Failure> {
    names_in(&labs())
}

/// The labs of a folder, each with a topology file of its own name, beside what they share. A lab that is not
/// found is not run, and nobody misses its checks: so a folder without one is an error, and so is none at all.
fn names_in(labs: &Path) -> Result<Vec<String>, Failure> {
    let context = || labs.display().to_string();
    let mut names = Vec::new();
    for entry in fs::read_dir(labs).context(context)? {
        let entry = entry.context(context)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !entry.path().is_dir() || name == PARTS {
            continue;
        }
        let topology = topology_in(labs, &name);
        if !topology.is_file() {
            let reason = format!("{name} is no lab: there is no {}", topology.display());
            return Err(Failure::new(reason));
        }
        names.push(name);
    }
    names.sort();
    match names.is_empty() {
        true => Err(Failure::new(format!("no lab in {}", labs.display()))),
        false => Ok(names),
    }
}

pub(crate) fn folder(name: &str) -> PathBuf {
    labs().join(name)
}

pub(crate) fn topology_file(name: &str) -> PathBuf {
    topology_in(&labs(), name)
}

fn topology_in(labs: &Path, name: &str) -> PathBuf {
    labs.join(name).join(format!("{name}.clab.yml"))
}

fn labs() -> PathBuf {
    programs::root().join("interop/labs")
}

/// The lab with a browser.
const PAGE: &str = "page";

/// The lab with a cluster of Slurm.
const SLURM: &str = "slurm";

/// The lab with Kubernetes.
const KUBERNETES: &str = "kubernetes";

/// Enough to see a way that stays dead, in a minute and a half.
const RUNS: u32 = 1;

/// Labs that hold with the speakers of Debian testing, and show most of what differs.
const NEWER: [&str; 17] = [
    "add-path",
    "bfd",
    "capabilities",
    "evpn-basic",
    "evpn-ebgp",
    "evpn-injectors",
    "evpn-ipv6",
    "evpn-mac-move",
    "evpn-multihoming",
    "far-link",
    "graceful-restart",
    "md5-ttl",
    "policy",
    "reload",
    "rtc",
    "seeing",
    "unknown-types",
];

/// Labs that measure packets, a CPU or parts of a second: beside others they would measure those.
const ALONE: [&str; 8] = [
    "balance-off",
    "bfd",
    "collective",
    "evpn-basic",
    "far-link",
    "idle",
    "kubernetes",
    "pods",
];

/// How many labs two cores bear at once without being late.
const AT_ONCE: usize = 3;

/// What labs share.
const PARTS: &str = "parts";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lab_of_the_tree_is_found() {
        let names = names().unwrap();
        assert!(names.contains(&"evpn-basic".to_owned()), "{names:?}");
        assert!(!names.contains(&PARTS.to_owned()), "{names:?}");
    }

    #[test]
    fn a_folder_without_its_topology_is_an_error_and_so_is_no_lab() {
        let labs = std::env::temp_dir().join(format!("weft-labs-{}", std::process::id()));
        let said = || names_in(&labs).unwrap_err().to_string();
        fs::create_dir_all(labs.join(PARTS)).unwrap();
        assert!(said().starts_with("no lab in "));
        fs::create_dir(labs.join("bfd")).unwrap();
        fs::write(labs.join("bfd/bdf.clab.yml"), "").unwrap();
        assert!(said().starts_with("bfd is no lab: "), "{}", said());
        fs::write(topology_in(&labs, "bfd"), "").unwrap();
        assert_eq!(names_in(&labs).unwrap(), ["bfd"]);
        fs::remove_dir_all(&labs).unwrap();
    }
}
