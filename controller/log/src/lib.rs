//! The log of a program, on its standard error. A thread that logs never waits for the reader of that stream: lines go
//! into a queue, and one thread writes them. Knows no event.
//!
//! ```text
//! threads that log (any) --lines--> queue (1 MiB) --> thread "log" (1x per process) --write(2)--> standard error
//!                                   if it is full, the line is dropped and counted
//! ```

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::time::Duration;

use clap::ValueEnum;
use tracing::field::display;
use tracing_subscriber::EnvFilter;

use queue::Queue;

pub use queue::Dropped;

mod queue;

/// Form of the log.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Form {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Flushes the log when dropped.
#[derive(Debug)]
#[must_use = "the last lines are lost without it"]
pub struct Flush(());

impl Drop for Flush {
    fn drop(&mut self) {
        QUEUE.flush(FLUSH_MAX);
    }
}

/// Starts the log of this process, panics included. `RUST_LOG` chooses the events, as everywhere in Rust; `info` if it is not set. A
/// panic is logged whatever it chooses.
///
/// # Panics
/// If the system cannot start a thread, or the log was started before.
pub fn start(form: Form) -> Flush {
    let thread = std::thread::Builder::new().name("log".to_owned());
    let started = thread.spawn(write_lines);
    started.expect("the system can start a thread at startup");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(|| Line);
    match form {
        Form::Text => subscriber.init(),
        Form::Json => subscriber.json().init(),
    }
    // The hook of the standard library writes to standard error itself: on a full pipe it never returns.
    std::panic::set_hook(Box::new(log_panic));
    Flush(())
}

/// Prints a line for the person who started the program, whatever `RUST_LOG` chooses.
pub fn print(line: impl fmt::Display) {
    QUEUE.push(format!("{line}\n").as_bytes());
}

/// Ends the process by SIGABRT. The log gets a second to be written.
pub fn abort() -> ! {
    QUEUE.flush(FLUSH_MAX);
    std::process::abort();
}

/// Counts the lines that were not written, because standard error was not read, or not fast enough.
#[must_use]
pub fn dropped() -> Dropped {
    QUEUE.dropped()
}

fn write_lines() {
    let (mut stream, mut reported) = (io::stderr(), 0);
    loop {
        let written = QUEUE.write_to(&mut stream);
        let dropped = QUEUE.dropped().lines;
        // While the stream takes nothing, this line would be one more to report.
        if written && dropped > reported {
            let lines = dropped - reported;
            tracing::warn!(
                lines,
                "log lines dropped: standard error is not read fast enough"
            );
            reported = dropped;
        }
    }
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let location = panic.location().map(display);
    let captured = |backtrace: &Backtrace| backtrace.status() == BacktraceStatus::Captured;
    let backtrace = Some(Backtrace::capture()).filter(captured).map(display);
    if tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!(
            thread = thread.name(),
            reason = panic.payload_as_str(),
            location,
            backtrace,
            "thread panicked"
        );
    } else {
        // `RUST_LOG` names other targets, or is off.
        let name = thread.name().unwrap_or("without a name");
        print(format_args!("thread {name} {panic}"));
    }
    QUEUE.flush(PANIC_FLUSH_MAX);
}

/// Queues what is written as one line: the formatter writes each event at once.
struct Line;

impl Write for Line {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        QUEUE.push(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

static QUEUE: Queue = Queue::new();

/// A reader that is alive takes the whole queue in less.
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// The process may abort right after the hook, as at a panic in a destructor; most do not, and the thread goes on.
const PANIC_FLUSH_MAX: Duration = Duration::from_millis(100);
