//! The guardian: a process beside the agent that leaves packets to the main table as soon as the
//! agent is not there any more, however it went. Knows nothing of why there are routes.
//!
//! ```text
//! weft-agent --- an octet every 250 ms, over a pipe ---> weft-agent guardian
//!            <-- an octet for each, over another --------
//!   silent for 700 ms (hangs, is stopped): the rules go; they come back when it does
//!   the pipe ends (it died): rules, marks, routes, groups, next hops go, and the guardian ends
//!   no answer to eight in a row (the guardian hangs, is stopped): the agent kills it and starts another
//! ```
//!
//! The guardian holds the name by which one agent at a time works in a network namespace. Should it
//! die itself, the agent starts another; should both die at once, the kernel ends the marking (see
//! [`crate::marks`]) and the rule matches nothing.
//!
//! Starting a guardian may take seconds, so that a task of the agent looks after it. The task sends a
//! heartbeat when the agent asks for it and never by itself: an agent that hangs sends none.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::forwarding::kernel::{Kernel, Numbers};
use crate::marks;

/// The agent's end. One task.
#[derive(Debug)]
pub struct Guardian {
    /// Each value is one heartbeat.
    beats: watch::Sender<()>,
    reports: watch::Receiver<Report>,
    task: JoinHandle<()>,
}

/// Whether there is a guardian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The first one is there.
    Present,
    /// Another one is there, since this happened to the last.
    Replaced(String),
    /// There is none, and none can be started for this reason.
    Absent(String),
}

impl Guardian {
    /// Starts a guardian, this program with these arguments, and the task that looks after it.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or another agent works in this network namespace.
    pub async fn start(arguments: Vec<String>) -> Result<Self, String> {
        let process = Process::start(&arguments).await?;
        let (beats, asked) = watch::channel(());
        let (outcomes, reports) = watch::channel(Report::Present);
        let task = tokio::spawn(look_after(process, arguments, asked, outcomes));
        Ok(Self {
            beats,
            reports,
            task,
        })
    }

    /// Says that the agent lives.
    pub fn beat(&self) {
        self.beats.send_replace(());
    }

    /// Whether there is a guardian, if that is news since this was asked last.
    pub fn report(&mut self) -> Option<Report> {
        match self.reports.has_changed() {
            Ok(true) => Some(self.reports.borrow_and_update().clone()),
            Ok(false) => None,
            Err(_) => Some(Report::Absent(UNTENDED.to_owned())),
        }
    }

    /// Ends it, and waits until it has removed what it watches over.
    pub async fn end(self) {
        let Self { beats, task, .. } = self;
        drop(beats);
        // The task ends in its own time; it has a bound for each step.
        let _panicked = task.await;
    }
}

/// Passes heartbeats on and replaces a guardian that is lost, until the agent ends.
async fn look_after(
    mut process: Process,
    arguments: Vec<String>,
    mut beats: watch::Receiver<()>,
    reports: watch::Sender<Report>,
) {
    while let Some(lost) = process.watch(&mut beats).await {
        tracing::warn!("{lost}; another one is started");
        process.kill().await;
        process = loop {
            // A start that is given up leaves a guardian without an agent, which ends by itself.
            let started = tokio::select! {
                started = Process::start(&arguments) => started,
                () = ended(&mut beats) => return,
            };
            match started {
                Ok(process) => break process,
                Err(error) => {
                    tracing::error!(%error, "no guardian can be started");
                    reports.send_replace(Report::Absent(error));
                }
            }
            tokio::select! {
                () = sleep(START_AGAIN) => {}
                () = ended(&mut beats) => return,
            }
        };
        reports.send_replace(Report::Replaced(lost));
    }
    process.end().await;
}

/// Returns when nobody is left to send heartbeats.
async fn ended(beats: &mut watch::Receiver<()>) {
    while beats.changed().await.is_ok() {}
}

/// A guardian as the agent has it.
struct Process {
    child: Child,
    beats: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    async fn start(arguments: &[String]) -> Result<Self, String> {
        // The same program, even where its file was replaced meanwhile.
        let mut child = Command::new("/proc/self/exe")
            .arg0("weft-agent")
            .args(arguments)
            // What ends the agent's group, a terminal's Ctrl-C for one, does not end its guardian.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the guardian was not started: {error}"))?;
        let beats = child.stdin.take().ok_or("the guardian has no input")?;
        let output = child.stdout.take().ok_or("the guardian has no output")?;
        let mut line = String::new();
        let mut answers = BufReader::new(output);
        let outcome = timeout(START_MAX, answers.read_line(&mut line)).await;
        if matches!(outcome, Ok(Ok(_))) && line == READY {
            return Ok(Self {
                child,
                beats,
                answers,
            });
        }
        // One that did not begin holds nothing that anybody needs, and may hold the name.
        kill(&mut child).await;
        match outcome {
            Ok(Ok(_)) if !line.is_empty() => Err(line.trim().to_owned()),
            outcome => Err(format!("the guardian did not begin: {outcome:?}")),
        }
    }

    /// Sends a heartbeat for each of the agent's and reads the answers, until the guardian is lost:
    /// why; None: the agent ends.
    async fn watch(&mut self, beats: &mut watch::Receiver<()>) -> Option<String> {
        let mut buffer = [0; 64];
        let mut unanswered = 0;
        loop {
            tokio::select! {
                beat = beats.changed() => {
                    beat.ok()?;
                    if unanswered >= UNANSWERED_MAX {
                        return Some("the guardian did not answer".into());
                    }
                    // So few octets always fit into the pipe.
                    if let Err(error) = self.beats.write_all(BEAT).await {
                        return Some(format!("the guardian was gone: {error}"));
                    }
                    unanswered += 1;
                }
                answer = self.answers.read(&mut buffer) => match answer {
                    Ok(octets) if octets > 0 => unanswered = 0,
                    _ => return Some("the guardian was gone".into()),
                },
            }
        }
    }

    async fn kill(mut self) {
        kill(&mut self.child).await;
    }

    async fn end(self) {
        let Self {
            mut child, beats, ..
        } = self;
        drop(beats);
        if timeout(START_MAX, child.wait()).await.is_err() {
            tracing::warn!("the guardian does not end; it is killed");
            kill(&mut child).await;
        }
    }
}

/// Kills a guardian and waits, but not for one that the kernel cannot end now: it keeps the name of the agent, so
/// that no other can begin, and that is said.
async fn kill(child: &mut Child) {
    match timeout(START_MAX, child.kill()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "the guardian was gone already"),
        Err(_) => tracing::error!("the guardian does not die"),
    }
}

/// The guardian itself: returns when the agent is gone and what it left is removed. `at_end` runs then.
///
/// # Errors
///
/// When another agent works in this network namespace, or the kernel gives no netlink socket.
pub async fn guard(numbers: Numbers, at_end: impl FnOnce()) -> Result<(), String> {
    let _name = take_name().await?;
    // Whoever ends the agent's whole group sends these to its guardian too, which has to clean up first.
    let mut ignored = Vec::new();
    for kind in [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ] {
        ignored.push(signal(kind).map_err(|error| error.to_string())?);
    }
    let mut kernel = Kernel::open(numbers).map_err(|error| error.to_string())?;
    let mut stdout = tokio::io::stdout();
    let ready = async {
        stdout.write_all(READY.as_bytes()).await?;
        stdout.flush().await
    };
    ready.await.map_err(|error| error.to_string())?;
    let mut beats = tokio::io::stdin();
    let mut buffer = [0; 256];
    let mut bypassed = false;
    loop {
        match timeout(SILENCE_MAX, beats.read(&mut buffer)).await {
            Ok(Ok(octets)) if octets > 0 => {
                bypassed = false;
                answer(&mut stdout).await;
            }
            Ok(_) => break,
            Err(_) if bypassed => {}
            Err(_) => {
                // The marks end by themselves, and go on with the agent.
                let outcome = kernel.bypass().await;
                bypassed = true;
                tracing::error!("the agent is silent; packets are left to the main table");
                log(outcome);
            }
        }
    }
    let bypassed = kernel.bypass().await;
    marks::remove().await;
    let cleaned = kernel.clean().await;
    at_end();
    log(bypassed);
    log(cleaned);
    Ok(())
}

/// Tells the agent that the guardian lives. An agent that does not read has other troubles.
async fn answer(stdout: &mut tokio::io::Stdout) {
    let answer = async {
        stdout.write_all(BEAT).await?;
        stdout.flush().await
    };
    if let Ok(Err(error)) = timeout(SILENCE_MAX, answer).await {
        tracing::debug!(%error, "the agent takes no answer");
    }
}

fn log(outcome: io::Result<usize>) {
    match outcome {
        Ok(0) => {}
        Ok(objects) => tracing::warn!(objects, "removed what the agent left"),
        Err(error) => tracing::error!(%error, "could not remove what the agent left"),
    }
}

/// One agent at a time: a name of the network namespace, free when its holder is gone. The guardian
/// of an agent that has just died may hold it for the moment that it takes to clean up.
///
/// # Errors
///
/// When somebody else has it.
pub async fn take_name() -> Result<UnixListener, String> {
    let address = SocketAddr::from_abstract_name("weft-agent");
    let address = address.map_err(|error| error.to_string())?;
    let since = Instant::now();
    loop {
        match UnixListener::bind_addr(&address) {
            Ok(listener) => return Ok(listener),
            Err(_) if since.elapsed() < NAME_MAX => sleep(Duration::from_millis(20)).await,
            Err(error) => {
                return Err(format!(
                    "another weft-agent works in this network namespace: {error}"
                ));
            }
        }
    }
}

const READY: &str = "ready\n";

/// A heartbeat and its answer.
const BEAT: &[u8] = b".";

/// The agent sends four heartbeats a second: a guardian that answers none for two seconds is replaced.
/// The count begins anew with each answer, so that an agent that was stopped itself does not blame it.
const UNANSWERED_MAX: u32 = 8;

/// After a start that failed: the next one may fail in the same way.
const START_AGAIN: Duration = Duration::from_secs(1);

/// The agent sends a heartbeat every 250 ms: two may be late before it counts as gone. With what the
/// kernel needs to change, packets are on the main table within a second.
const SILENCE_MAX: Duration = Duration::from_millis(700);

/// For the guardian of an earlier agent to remove what that left.
const NAME_MAX: Duration = Duration::from_secs(3);

/// What is said of a guardian that nobody looks after any more.
const UNTENDED: &str = "the task that looks after the guardian ended";

/// Above the time for the name.
const START_MAX: Duration = Duration::from_secs(5);
