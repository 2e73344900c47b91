//! Collectors that are told over BMP what peers say, what is chosen and what peers are told: a task for
//! each, which dials, and nobody waits for. RFC 7854, RFC 8671, RFC 9069. Knows sockets and the clock; the
//! octets are `weft_monitoring`'s.
//!
//! ```text
//! peer (1x per peer) --UPDATEs, ups and downs--> tap (1x per connection) --> collector (1x per [[bmp]])
//! tables --pages since a revision, on request------------------------------^
//! ```

mod collector;
pub(crate) mod held;
mod message;
mod selected;
pub mod tap;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use tokio::task::JoinSet;
use weft_monitoring::timestamp::Timestamp;

use crate::config::Bmp;
use crate::speaker::Shared;

/// Runs a task for every collector of the configuration that holds, until the daemon stops.
pub async fn serve(shared: Arc<Shared>) {
    let mut config = shared.follow_config();
    let mut stop = shared.stop.subscribe();
    let mut running: Vec<Bmp> = Vec::new();
    let mut tasks = JoinSet::new();
    loop {
        let wanted = config.borrow_and_update().bmp.clone();
        for bmp in wanted {
            // One whose settings changed ends by itself, and is begun anew then.
            if running.iter().any(|held| held.name == bmp.name) {
                continue;
            }
            running.push(bmp.clone());
            tasks.spawn(collect(Arc::clone(&shared), bmp));
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            changed = config.changed() => if changed.is_err() { break },
            Some(Ok(name)) = tasks.join_next() => running.retain(|held| held.name != name),
        }
    }
    while tasks.join_next().await.is_some() {}
}

/// One collector, until it is not to be told like this any more. A defect that one meets is not the end of
/// the others; it begins anew after a while.
async fn collect(shared: Arc<Shared>, bmp: Bmp) -> String {
    let name = bmp.name.clone();
    let mut stop = shared.stop.subscribe();
    let told = AssertUnwindSafe(collector::collect(Arc::clone(&shared), bmp));
    if told.catch_unwind().await.is_err() {
        tracing::error!(collector = %name, "its task panicked: a defect of weft; it begins anew in a minute");
        shared.taps.sweep();
        shared.taps.forget(&name);
        // Whether the daemon stops first or the pause ends is all the same here.
        let _ = tokio::time::timeout(AFTER_DEFECT, stop.wait_for(|stop| *stop)).await;
    }
    name
}

const AFTER_DEFECT: Duration = Duration::from_secs(60);

/// The time of day, as BMP and MRT write it.
#[expect(clippy::disallowed_methods, reason = "collectors show it to people")]
pub fn timestamp() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since.map_or(0, |since| since.as_micros());
    Timestamp::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

#[cfg(test)]
pub(crate) mod tests;
