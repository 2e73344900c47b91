//! The benchmark of reflectors: the same hundred speakers and 400,000 routes against each, side by
//! side on one machine. Everything runs in one namespace, over its loopback interface.
//!
//! ```text
//! speakers 10.99.0.1..=100 --- lo --- 10.99.1.1 reflector (replicas 2 and 3 on 10.99.1.2 and .3)
//! 2x thread, epoll                    1x or 3x process
//! ```

mod load;
mod measure;
mod received;
mod reflector;
mod speaker;
mod swarm;
mod table;
mod usage;
mod walk;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use nix::sched::{CloneFlags, setns};

use crate::{
    clock,
    failure::{Context, Failure},
    namespace::Namespace,
    packages,
    programs::Programs,
};

use self::{load::Load, measure::Measured, reflector::Reflector, table::Row};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many speakers announce routes; one more joins late
    #[arg(long, default_value_t = 100)]
    speakers: u32,
    /// How many routes they announce together
    #[arg(long, default_value_t = 400_000)]
    routes: u32,
    /// Over how many VNIs the routes of a speaker are spread
    #[arg(long, default_value_t = 200)]
    vnis: u32,
    /// Which reflectors are measured, in this order
    #[arg(long, value_delimiter = ',', default_values_t = [Reflector::Frr, Reflector::Weft, Reflector::Weft3])]
    only: Vec<Reflector>,
    /// A weftd to measure instead of the one of this tree
    #[arg(long, value_name = "PATH")]
    weftd: Option<PathBuf>,
    /// Threads of the load generator
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
    /// Seconds until a reflector is given up
    #[arg(long, default_value_t = 180)]
    limit_secs: u64,
    /// Where the reflectors' files lie while they run; should be on a disk
    #[arg(long, value_name = "FOLDER", default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
}

/// Ok(false): a reflector did not give every route to every speaker.
pub(crate) fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let load = Load::new(arguments.speakers, arguments.routes, arguments.vnis)?;
    packages::require_root()?;
    packages::install(&[&packages::LAB])?;
    let weftd = weftd(arguments)?;
    let cores = thread::available_parallelism().map_or(0, usize::from);
    println!(
        "{} sessions, {} type-2 routes over {} VNIs; {cores} cores, load average {}",
        load.speakers,
        load.routes,
        arguments.vnis,
        usage::load_average()
    );
    let mut rows: Vec<(Reflector, Row)> = Vec::new();
    for &reflector in &arguments.only {
        let label = reflector.label();
        let measured = match one(reflector, arguments, &load, &weftd) {
            Ok(measured) => {
                describe(&label, &measured);
                Ok(measured)
            }
            Err(Failure::Said(reason)) => {
                println!("{label}: failed: {reason}");
                Err(reason)
            }
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
        };
        rows.push((reflector, (label, measured)));
    }
    let row = |wanted| {
        let found = rows.iter().find(|(reflector, _)| *reflector == wanted);
        found.map(|(_, row)| row)
    };
    let ratios = row(Reflector::Frr).zip(row(Reflector::Weft).or_else(|| row(Reflector::Weft3)));
    let shown: Vec<Row> = rows.iter().map(|(_, row)| row.clone()).collect();
    println!("\n{}", table::table(&shown, ratios));
    Ok(shown.iter().all(|(_, measured)| measured.is_ok()))
}

fn describe(label: &str, measured: &Measured) {
    println!(
        "{label}: converged in {:.2} s with {:.2} CPU-s ({}); the load generator used \
         {:.2}, everything else on the machine {:.2}",
        measured.converged.as_secs_f64(),
        measured.processor.total,
        table::threads(measured),
        measured.generator_secs,
        measured.others_secs
    );
}

/// The program under test; built first unless one was named or none is wanted.
fn weftd(arguments: &Arguments) -> Result<String, Failure> {
    if let Some(path) = &arguments.weftd {
        let path = fs::canonicalize(path).context(|| path.display().to_string())?;
        return Ok(path.display().to_string());
    }
    let wanted = |reflector: &Reflector| match reflector {
        Reflector::Weft | Reflector::Weft3 => true,
        Reflector::Frr | Reflector::Gobgp => false,
    };
    if !arguments.only.iter().any(wanted) {
        return Ok(String::new());
    }
    packages::install(&[&packages::BUILD])?;
    Programs::build()?.path("weftd")
}

/// Measures one reflector in a namespace and folder of its own, and leaves nothing of it behind.
fn one(
    reflector: Reflector,
    arguments: &Arguments,
    load: &Load,
    weftd: &str,
) -> Result<Measured, Failure> {
    let name = format!("weft-bench-{}-{reflector}", std::process::id());
    let place = Place {
        folder: arguments.folder.join(&name),
        namespace: Namespace(name),
    };
    place.make()?;
    let mut daemons = reflector.daemons(&place.namespace, &place.folder, weftd)?;
    for daemon in &mut daemons {
        daemon.start()?;
    }
    let limit = Duration::from_secs(arguments.limit_secs);
    let threads = usize::from(arguments.threads);
    let path = Path::new("/run/netns").join(&place.namespace.0);
    let measured = thread::scope(|scope| {
        let inside = scope.spawn(|| {
            let namespace = File::open(&path).context(|| path.display().to_string())?;
            setns(namespace, CloneFlags::CLONE_NEWNET).context(|| "setns".to_owned())?;
            measure::measure(load, &daemons, threads, limit)
        });
        inside.join().expect("a measurement does not panic")
    });
    match measured {
        Err(Failure::Said(reason)) => Err(Failure::new(format!("{reason}{}", ended(&mut daemons)))),
        other => other,
    }
}

/// What a process that should still run said last.
fn ended(daemons: &mut [crate::daemon::Daemon]) -> String {
    let dead = daemons
        .iter_mut()
        .find_map(|daemon| (!daemon.running()).then_some(daemon));
    dead.map_or_else(String::new, |daemon| {
        let said = daemon.output();
        let last = said.lines().last().unwrap_or_default();
        format!("; {} has ended: {last}", daemon.name)
    })
}

/// Where one reflector runs; dropped, it is gone with all processes in it.
struct Place {
    namespace: Namespace,
    folder: PathBuf,
}

impl Place {
    /// The whole prefix on `lo` makes every address in it ours.
    fn make(&self) -> Result<(), Failure> {
        fs::create_dir_all(&self.folder).context(|| self.folder.display().to_string())?;
        self.namespace.create()?;
        let add = ["ip", "address", "add", "10.99.0.1/16", "dev", "lo"];
        self.namespace.run(&add).map(drop)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.namespace.remove();
        // A killed process may still be closing its files.
        clock::settle(Duration::from_millis(100));
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            println!("left behind: {}: {error}", self.folder.display());
        }
    }
}
