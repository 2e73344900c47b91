//! What netlink does not say: the speed of a port, from sysfs, and LLDP neighbours, where lldpd runs. Asked for in the
//! background, at most every five seconds, while somebody reads. Knows no path and no stream.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;

use crate::forwarding::Interface;
use crate::openconfig::lldp;
use crate::openconfig::tree::Beside;

/// Port speeds from sysfs and neighbours from lldpd, as they were read last.
#[derive(Debug, Default)]
pub(super) struct Others {
    known: Arc<Mutex<Known>>,
    /// Where lldpd listens; None: where lldpcli looks for it.
    lldpd: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Known {
    beside: Arc<Beside>,
    asked: Option<Duration>,
}

impl Others {
    pub(super) fn new(lldpd: Option<PathBuf>) -> Self {
        Self {
            lldpd,
            ..Self::default()
        }
    }

    /// What is known; if that is old, it is asked for anew. Nobody waits long for it: what comes later is for the next one
    /// who reads.
    pub(super) async fn known(&self, interfaces: &[Interface], now: Duration) -> Arc<Beside> {
        let asked = lock(&self.known).asked;
        if asked.is_none_or(|at| now.saturating_sub(at) >= EVERY) {
            lock(&self.known).asked = Some(now);
            let (known, lldpd) = (Arc::clone(&self.known), self.lldpd.clone());
            let interfaces: Vec<(u32, String)> = interfaces
                .iter()
                .map(|interface| (interface.index, interface.name.clone()))
                .collect();
            let asking = tokio::spawn(async move {
                let beside = Arc::new(ask(interfaces, lldpd.as_deref()).await);
                lock(&known).beside = beside;
            });
            let patience = asked.map_or(PATIENCE_FIRST, |_| PATIENCE);
            let _in_time = timeout(patience, asking).await;
        }
        Arc::clone(&lock(&self.known).beside)
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn ask(interfaces: Vec<(u32, String)>, lldpd: Option<&Path>) -> Beside {
    let shown = match timeout(LLDPCLI_MAX, lldpcli(lldpd)).await {
        Ok(Ok(shown)) => shown,
        Ok(Err(error)) => {
            tracing::debug!(%error, "no LLDP neighbours are known");
            None
        }
        Err(_) => {
            tracing::warn!("lldpcli does not answer; no LLDP neighbours are known");
            None
        }
    };
    // The driver of a port may take its time to answer.
    let asked = tokio::task::spawn_blocking(move || {
        let names = interfaces.iter().map(|(_, name)| name.as_str()).collect();
        let neighbors = shown.map(|shown| lldp::neighbors(&shown, &names));
        let neighbors = neighbors.unwrap_or_else(|| Ok(Vec::new()));
        Beside {
            speeds: speeds(&interfaces),
            neighbors: neighbors.unwrap_or_else(|error| {
                tracing::warn!(error, "what lldpcli says cannot be read");
                Vec::new()
            }),
        }
    });
    asked.await.unwrap_or_default()
}

/// What lldpcli prints; None where there is none.
async fn lldpcli(lldpd: Option<&Path>) -> io::Result<Option<Vec<u8>>> {
    let mut command = Command::new("lldpcli");
    if let Some(socket) = lldpd {
        command.arg("-u").arg(socket);
    }
    command.args(["-f", "json0", "show", "neighbors"]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command.stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut shown = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(SHOWN_MAX).read_to_end(&mut shown).await?;
    }
    if shown.len() as u64 == SHOWN_MAX {
        return Err(io::Error::other("lldpcli says more than a megabyte"));
    }
    let status = child.wait().await?;
    if status.success() {
        Ok(Some(shown))
    } else {
        Err(io::Error::other(format!("lldpcli ended with {status}")))
    }
}

/// Megabits per second of those that have a speed. A link that is down, and a device without one, have -1 or an error.
fn speeds(interfaces: &[(u32, String)]) -> BTreeMap<u32, u32> {
    let speed = |(index, name): &(u32, String)| {
        let number = |file: &str| -> Option<u32> {
            let text = fs::read_to_string(format!("/sys/class/net/{name}/{file}"));
            text.ok()?.trim().parse().ok()
        };
        // Where sysfs is that of another network namespace, a name means another device.
        let is_this = number("ifindex") == Some(*index);
        let mbps = number("speed").filter(|mbps| is_this && *mbps > 0)?;
        Some((*index, mbps))
    };
    interfaces.iter().filter_map(speed).collect()
}

/// Speeds seldom change, and neighbours not often; who moves a cable wants to see it.
const EVERY: Duration = Duration::from_secs(5);

/// How long lldpcli may take: it asks lldpd over a local socket.
const LLDPCLI_MAX: Duration = Duration::from_secs(2);

/// Octets of its answer: a thousand neighbours have less.
const SHOWN_MAX: u64 = 1 << 20;

/// How long the first reader waits for port speeds and neighbours before it is answered without them.
const PATIENCE_FIRST: Duration = Duration::from_millis(500);

/// How long a later one waits: lldpcli takes some ten milliseconds.
const PATIENCE: Duration = Duration::from_millis(100);
