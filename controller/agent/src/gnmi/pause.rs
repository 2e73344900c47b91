//! What drivers count of pause frames: asked for at each reading of the switch, which waits a little for it and not for long.
//! Knows no path, and no message of the kernel.

use std::io;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::forwarding::Interface;
use crate::forwarding::ethtool::{Counted, Ethtool};

/// The counts that were read last, and the question that is under way.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    counted: Counted,
    asked: Option<JoinHandle<io::Result<(Ethtool, Counted)>>>,
    ethtool: Option<Ethtool>,
    /// Whether the log has it that nothing is counted.
    is_told: bool,
}

impl Pauses {
    /// Fills in the counts of these interfaces. If drivers are slow, those of the last time.
    pub(super) async fn fill(&mut self, interfaces: &mut [Interface]) {
        let ethtool = &mut self.ethtool;
        let asked = self
            .asked
            .get_or_insert_with(|| tokio::spawn(ask(ethtool.take())));
        if let Ok(answer) = timeout(PATIENCE, asked).await {
            self.asked = None;
            let answer = answer.map_err(io::Error::other);
            self.take(answer.flatten());
        }
        for interface in interfaces {
            // An index may be given to another interface.
            let key = (interface.index, interface.name.clone());
            interface.pause = self.counted.get(&key).copied().unwrap_or_default();
        }
    }

    fn take(&mut self, answer: io::Result<(Ethtool, Counted)>) {
        match answer {
            Ok((ethtool, counted)) => {
                self.ethtool = Some(ethtool);
                self.counted = counted;
                self.is_told = false;
            }
            Err(error) => {
                self.counted.clear();
                if !self.is_told {
                    self.is_told = true;
                    tracing::warn!(%error, "pause frames cannot be read, and are left out");
                }
            }
        }
    }
}

async fn ask(known: Option<Ethtool>) -> io::Result<(Ethtool, Counted)> {
    let ethtool = match known {
        Some(ethtool) => ethtool,
        None => Ethtool::open().await?,
    };
    let counted = ethtool.pause_frames().await?;
    Ok((ethtool, counted))
}

/// How long a reading of the switch waits for drivers.
const PATIENCE: Duration = Duration::from_millis(100);
