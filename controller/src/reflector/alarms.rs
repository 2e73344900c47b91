//! What the log is told of MAC addresses that move: a loop moves every address behind it, and the thread that
//! reflects writes the lines.

use std::time::Duration;

use weft_evpn::moves::Alarm;

use super::sparing::Sparing;

/// What was said of it lately.
#[derive(Default)]
pub(super) struct Alarms {
    duplicates: Sparing,
    storms: Sparing,
}

impl Alarms {
    /// An alarm is raised at `now`.
    pub(super) fn say(&mut self, alarm: &Alarm, now: Duration) {
        let sparing = match alarm {
            Alarm::Duplicate { .. } => &mut self.duplicates,
            Alarm::Storm { .. } => &mut self.storms,
        };
        if sparing.admit(now) {
            tracing::warn!(%alarm, "MAC addresses move too often");
        }
    }

    /// What was not said of those before, once it is time.
    pub(super) fn say_rest(&mut self, now: Duration) {
        if let Some(more) = self.duplicates.rest(now) {
            tracing::warn!(
                more,
                "more MAC addresses moved too often, see `weft mac moves`"
            );
        }
        if let Some(more) = self.storms.rest(now) {
            tracing::warn!(more, "more VNIs in which MAC addresses move too often");
        }
    }
}
