//! Collectors that are told over BMP what peers say, what is chosen and what peers are told: a task for
//! each, which dials, and nobody waits for. RFC 7854, RFC 8671, RFC 9069. Knows sockets and the clock; the
//! octets are `weft_monitoring`'s.
//!
//! ```text
//! peer (1x per peer) --UPDATEs, ups and downs--> tap (1x per connection) --> collector (1x per [[bmp]])
//! tables --pages since a revision, on request------------------------------^
//! ```

mod collector;
mod held;
mod message;
mod selected;
pub mod tap;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

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
            tasks.spawn(collector::collect(Arc::clone(&shared), bmp));
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            changed = config.changed() => if changed.is_err() { break },
            Some(ended) = tasks.join_next() => match ended {
                Ok(name) => running.retain(|held| held.name != name),
                Err(error) => {
                    tracing::error!(%error, "a collector's task failed");
                    return;
                }
            },
        }
    }
    while tasks.join_next().await.is_some() {}
}

/// The time of day, as BMP and MRT write it.
#[expect(clippy::disallowed_methods, reason = "collectors show it to people")]
pub fn timestamp() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since.map_or(0, |since| since.as_micros());
    Timestamp::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}
