//! Waiting, and being interrupted while waiting. Nothing else in this room sleeps.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::{Context, Failure};

/// From here on SIGINT and SIGTERM make every wait end with `Failure::Interrupted`, so that what was
/// brought up is torn down on the way out.
pub(crate) fn watch_signals() -> Result<(), Failure> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(flag))
            .context(|| format!("handler of signal {signal}"))?;
    }
    Ok(())
}

/// Whether somebody asked us to stop.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED
        .get()
        .is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Err once somebody asked us to stop.
pub(crate) fn go_on() -> Result<(), Failure> {
    if interrupted() {
        Err(Failure::Interrupted)
    } else {
        Ok(())
    }
}

/// The instant at which something that may take `within` is too late.
pub(crate) fn deadline(within: Duration) -> Instant {
    Instant::now() + within
}

/// Seconds and tenths since `start`, for a person.
pub(crate) fn since(start: Instant) -> String {
    format!("{:.1} s", start.elapsed().as_secs_f64())
}

/// Sleeps, unless interrupted.
pub(crate) fn pause(duration: Duration) -> Result<(), Failure> {
    let end = Instant::now() + duration;
    loop {
        go_on()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(STEP));
    }
}

/// Sleeps without asking whether anybody wants to stop: for tearing down.
pub(crate) fn settle(duration: Duration) {
    thread::sleep(duration);
}

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// How long a Ctrl-C may wait to be noticed.
const STEP: Duration = Duration::from_millis(50);
