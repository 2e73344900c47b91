//! The guardian: a process beside the agent that leaves packets to the main table as soon as the
//! agent is not there any more, however it went. Knows nothing of why there are routes.
//!
//! ```text
//! weft-agent --- a word every 250 ms, over a pipe ---> weft-agent guardian
//!   silent for 700 ms (hangs, is stopped): the rules go; they come back when it does
//!   the pipe ends (it died): rules, marks, routes, groups, next hops go, and the guardian ends
//! ```
//!
//! The guardian holds the name by which one agent at a time works in a network namespace. Should it
//! die itself, the agent starts another; should both die at once, the kernel ends the marking (see
//! [`crate::marks`]) and the rule matches nothing.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};

use crate::forwarding::kernel::{Kernel, Numbers};
use crate::marks;

/// The agent's end.
#[derive(Debug)]
pub struct Guardian {
    arguments: Vec<String>,
    child: Child,
    words: ChildStdin,
}

impl Guardian {
    /// Starts a guardian: this program with these arguments.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or another agent works in this network namespace.
    pub async fn start(arguments: Vec<String>) -> Result<Self, String> {
        // The same program, even where its file was replaced meanwhile.
        let mut child = Command::new("/proc/self/exe")
            .arg0("weft-agent")
            .args(&arguments)
            // What ends the agent's group, a terminal's Ctrl-C for one, does not end its guardian.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the guardian was not started: {error}"))?;
        let words = child.stdin.take().ok_or("the guardian has no input")?;
        let output = child.stdout.take().ok_or("the guardian has no output")?;
        let mut line = String::new();
        let mut output = BufReader::new(output);
        match timeout(START_MAX, output.read_line(&mut line)).await {
            Ok(Ok(_)) if line == READY => Ok(Self {
                arguments,
                child,
                words,
            }),
            Ok(Ok(_)) if !line.is_empty() => Err(line.trim().to_owned()),
            outcome => Err(format!("the guardian did not begin: {outcome:?}")),
        }
    }

    /// Says that the agent lives. A guardian that is gone is started again: `Ok(true)`.
    ///
    /// # Errors
    ///
    /// When it is gone and cannot be started.
    pub async fn beat(&mut self) -> Result<bool, String> {
        let ended = !matches!(self.child.try_wait(), Ok(None));
        let said = timeout(SILENCE_MAX, self.words.write_all(b".")).await;
        if !ended && matches!(said, Ok(Ok(()))) {
            return Ok(false);
        }
        // One that stands still holds the name; the next one cannot begin before it is gone.
        let _ended_already = self.child.kill().await;
        *self = Self::start(self.arguments.clone()).await?;
        Ok(true)
    }

    /// Ends it, and waits until it has removed what it watches over.
    pub async fn end(self) {
        let Self {
            mut child, words, ..
        } = self;
        drop(words);
        if timeout(START_MAX, child.wait()).await.is_err() {
            tracing::warn!("the guardian does not end");
        }
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
    let mut words = tokio::io::stdin();
    let mut buffer = [0; 256];
    let mut bypassed = false;
    loop {
        match timeout(SILENCE_MAX, words.read(&mut buffer)).await {
            Ok(Ok(octets)) if octets > 0 => bypassed = false,
            Ok(_) => break,
            Err(_) if bypassed => {}
            Err(_) => {
                tracing::error!("the agent is silent; packets are left to the main table");
                // The marks end by themselves, and go on with the agent.
                log(kernel.bypass().await);
                bypassed = true;
            }
        }
    }
    log(kernel.bypass().await);
    marks::remove().await;
    log(kernel.clean().await);
    at_end();
    Ok(())
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

/// The agent speaks every 250 ms: two words may be late before it counts as gone. With what the
/// kernel needs to change, packets are on the main table within a second.
const SILENCE_MAX: Duration = Duration::from_millis(700);

/// For the guardian of an earlier agent to remove what that left.
const NAME_MAX: Duration = Duration::from_secs(3);

/// Above the time for the name.
const START_MAX: Duration = Duration::from_secs(5);
