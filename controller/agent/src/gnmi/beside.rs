//! What netlink does not say: the speed of a port, from sysfs. Asked for in the background, at most
//! every ten seconds, while somebody reads. Knows no path and no stream.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use crate::forwarding::Interface;
use crate::openconfig::tree::Beside;

/// Those who are asked beside netlink, and what they said last.
#[derive(Debug, Default)]
pub(super) struct Others {
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    beside: Arc<Beside>,
    asked: Option<Duration>,
}

impl Others {
    /// What is known; if that is old, it is asked for anew, and known the next time. Only the first time waits, a little.
    pub(super) async fn known(&self, interfaces: &[Interface], now: Duration) -> Arc<Beside> {
        let asked = lock(&self.known).asked;
        if asked.is_none_or(|at| now.saturating_sub(at) >= EVERY) {
            lock(&self.known).asked = Some(now);
            let known = Arc::clone(&self.known);
            let interfaces: Vec<(u32, String)> = interfaces
                .iter()
                .map(|interface| (interface.index, interface.name.clone()))
                .collect();
            let asking = tokio::spawn(async move {
                let beside = Arc::new(ask(interfaces).await);
                lock(&known).beside = beside;
            });
            if asked.is_none() {
                // Later than that, it is for the next one who reads.
                let _in_time = timeout(PATIENCE, asking).await;
            }
        }
        Arc::clone(&lock(&self.known).beside)
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn ask(interfaces: Vec<(u32, String)>) -> Beside {
    // A driver may take its time to answer.
    let speeds = tokio::task::spawn_blocking(move || speeds(&interfaces));
    Beside {
        speeds: speeds.await.unwrap_or_default(),
        neighbors: Vec::new(),
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

/// Speeds seldom change.
const EVERY: Duration = Duration::from_secs(10);

/// Of the first one who reads.
const PATIENCE: Duration = Duration::from_millis(500);
