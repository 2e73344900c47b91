//! weftd: reads its arguments, and starts the daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use weft_controller::config::Config;
use weft_controller::daemon;
use weft_log::Form;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Replicated BGP EVPN route reflector and fabric controller.
///
/// Without arguments: one replica, BGP on port 179, data in ./weft-data.
#[derive(Parser)]
#[command(name = "weftd", version)]
struct Arguments {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check a configuration file, say what is wrong with it, and exit.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    check: Option<PathBuf>,
    /// Form of the log on standard error.
    #[arg(long, value_enum, default_value_t = Form::Text)]
    log: Form,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(file) = arguments.check {
        return check(&file);
    }
    // Before anything else can make a file or a thread: routes, keys and passwords are for nobody else.
    let private = weft_sys::make_private();
    let _flush = weft_log::start(arguments.log);
    if let Err(error) = private {
        tracing::warn!(%error, "core dumps of weftd stay on, and have its keys");
    }
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    let config = match arguments.config.as_deref().map(Config::load) {
        None => Config::standalone(),
        Some(Ok(config)) => config,
        Some(Err(error)) => return refuse(&error),
    };
    match daemon::run(config, arguments.config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error),
    }
}

#[expect(clippy::disallowed_macros, reason = "answers the person who asked")]
fn check(file: &std::path::Path) -> ExitCode {
    match Config::load(file) {
        Ok(config) => {
            println!(
                "{}: replica {} of {}, AS {}, {} peer groups, {} peers",
                file.display(),
                config.replica.id,
                config.replicas.len(),
                config.bgp.local.asn,
                config.bgp.groups.len(),
                config.bgp.peers.len(),
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("weftd: {error}");
            ExitCode::FAILURE
        }
    }
}

/// For the person who started it, whatever the log leaves out.
fn refuse(error: &dyn std::error::Error) -> ExitCode {
    weft_log::print(format_args!("weftd: {error}"));
    ExitCode::FAILURE
}
