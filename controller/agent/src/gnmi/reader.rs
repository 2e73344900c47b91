//! Reads the switch for all calls and streams of gNMI: once for those that ask at the same time. Knows no path.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::time::sleep_until;
use tonic::Status;

use super::beside::Others;
use super::pause::Pauses;
use super::stopped;
use crate::driver::Command;
use crate::driver::clock::Uptime;
use crate::openconfig::{Snapshot, Tree};

/// Where trees come from.
#[derive(Debug)]
pub(super) struct Reader {
    commands: mpsc::Sender<Command>,
    changes: watch::Receiver<u64>,
    uptime: Uptime,
    last: Mutex<Option<Last>>,
    others: Others,
    pauses: Mutex<Pauses>,
}

/// The tree that was read last.
#[derive(Debug)]
struct Last {
    tree: Arc<Tree>,
    at: Duration,
    /// How long it took.
    cost: Duration,
    changes: u64,
}

impl Reader {
    pub(super) fn new(
        commands: mpsc::Sender<Command>,
        changes: watch::Receiver<u64>,
        lldpd: Option<PathBuf>,
    ) -> Self {
        Self {
            commands,
            changes,
            uptime: Uptime::begin(),
            last: Mutex::new(None),
            others: Others::new(lldpd),
            pauses: Mutex::default(),
        }
    }

    /// The clock by which subscriptions are due.
    pub(super) fn uptime(&self) -> Uptime {
        self.uptime
    }

    /// Says when something may have changed.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// The tree as it is, or as it was a moment ago if nothing has changed since.
    pub(super) async fn read(&self) -> Result<Arc<Tree>, Status> {
        let mut last = self.last.lock().await;
        if let Some(last) = &*last {
            let rest = (last.cost * REST).clamp(REST_MIN, REST_MAX);
            let next = self.uptime.instant(last.at.saturating_add(rest));
            if let Some(next) = next.filter(|_| last.changes != *self.changes.borrow()) {
                sleep_until(next).await;
            }
        }
        // Taken before the snapshot: what changes meanwhile is read again.
        let changes = *self.changes.borrow();
        let now = self.uptime.now();
        if let Some(last) = &*last
            && last.changes == changes
            && now.saturating_sub(last.at) < FRESH
        {
            return Ok(Arc::clone(&last.tree));
        }
        let mut snapshot = self.snapshot().await?;
        let cost = self.uptime.now().saturating_sub(now);
        let pauses = &mut *self.pauses.lock().await;
        pauses.fill(&mut snapshot.interfaces).await;
        let beside = self.others.known(&snapshot.interfaces, now).await;
        let build = move || Tree::new(&snapshot, &beside);
        let built = tokio::task::spawn_blocking(build).await;
        let tree = Arc::new(built.map_err(|_| stopped())?);
        *last = Some(Last {
            tree: Arc::clone(&tree),
            at: now,
            cost,
            changes,
        });
        Ok(tree)
    }

    async fn snapshot(&self) -> Result<Snapshot, Status> {
        let (reply, answer) = oneshot::channel();
        let sent = self.commands.send(Command::Snapshot(reply)).await;
        sent.map_err(|_| stopped())?;
        let snapshot = answer.await.map_err(|_| stopped())?;
        snapshot.map_err(|why| Status::unavailable(format!("the kernel could not be read: {why}")))
    }
}

/// While the switch changes again and again, the driver spends a fifth of its time on snapshots at most.
const REST: u32 = 5;
const REST_MIN: Duration = Duration::from_millis(20);
const REST_MAX: Duration = Duration::from_secs(1);

/// Samples of all streams are a second apart or more.
const FRESH: Duration = Duration::from_millis(200);
