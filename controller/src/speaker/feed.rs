//! A journal between the reflector's thread and the writers of many sessions: appended by one, read
//! by each from its own cursor. Knows nothing of what a frame says.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use weft_bgp::update_group::Segment;
use weft_bgp::update_group::journal::{Cursor, Journal, Read};

use super::gate::Gate;

/// A group's journal and the bell that rings when it grew. The lock is held to push or clone one
/// pointer, once per segment and member.
pub struct Feed {
    journal: Mutex<Journal>,
    bell: watch::Sender<()>,
}

impl Feed {
    /// An empty one that remembers this many octets.
    pub fn new(limit_octets: usize) -> Self {
        Self {
            journal: Mutex::new(Journal::new(limit_octets)),
            bell: watch::Sender::new(()),
        }
    }

    /// Appends and rings.
    pub fn push(&self, segment: Arc<Segment>) {
        self.journal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(segment);
        self.bell.send_replace(());
    }

    /// The next segment for this cursor.
    pub fn read(&self, cursor: &mut Cursor) -> Read {
        self.journal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .read(cursor)
    }

    /// The same for a reader behind a gate; `None`: it is closed. Looked at under the lock of the journal: whoever closes
    /// the gate and then asks for [`Feed::end`] knows that the reader does not get beyond it.
    pub fn read_through(&self, gate: &Gate, cursor: &mut Cursor) -> Option<Read> {
        let journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        (!gate.is_held()).then(|| journal.read(cursor))
    }

    /// Where the next segment will stand.
    pub fn end(&self) -> Cursor {
        self.journal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .end()
    }

    /// Whether a reader at `cursor` would miss nothing.
    pub fn reaches(&self, mut cursor: Cursor) -> bool {
        !matches!(self.read(&mut cursor), Read::Lagged)
    }

    /// Rings when the journal grew.
    pub fn bell(&self) -> watch::Receiver<()> {
        self.bell.subscribe()
    }
}
