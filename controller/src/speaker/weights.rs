//! Weights for leaves that take them over BGP, on their way from the plan to the writers of sessions. Knows no plan and no
//! octet.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use crate::southbound::intent::Routes;
use crate::southbound::link_bandwidth::{Dialect, Told};

/// What each leaf that takes its weights over BGP should be told, by the address of its sessions; nothing for one that is
/// not balanced.
pub type Weighted = BTreeMap<IpAddr, Arc<Routes>>;

/// What leaves should be told now. The lock is held to clone or replace one pointer, and only after a change.
pub struct Weights {
    weighted: Mutex<Arc<Weighted>>,
    /// Counts the changes.
    revision: AtomicU64,
    bell: watch::Sender<()>,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            weighted: Mutex::default(),
            revision: AtomicU64::new(1),
            bell: watch::Sender::new(()),
        }
    }
}

impl Weights {
    /// Takes what they should be told from now on, and rings if it is something else.
    pub fn set(&self, weighted: Weighted) {
        let mut place = self.weighted.lock().unwrap_or_else(PoisonError::into_inner);
        if **place != weighted {
            *place = Arc::new(weighted);
            drop(place);
            self.revision.fetch_add(1, Ordering::Release);
            self.bell.send_replace(());
        }
    }

    /// Whether a peer is a leaf that takes its weights over BGP.
    pub fn is_for(&self, peer: IpAddr) -> bool {
        self.now().contains_key(&peer)
    }

    fn now(&self) -> Arc<Weighted> {
        let weighted = self.weighted.lock();
        Arc::clone(&weighted.unwrap_or_else(PoisonError::into_inner))
    }
}

/// What weft says itself in one family of one session beside what others announce: written when the family begins, when
/// it changes, and once more when the peer asks for everything.
pub struct Own {
    weights: Arc<Weights>,
    bell: watch::Receiver<()>,
    peer: IpAddr,
    /// The revision of the weights that it was told; 0: none.
    revision: u64,
    told: Told,
}

impl Own {
    /// For a session that was told nothing yet.
    pub fn new(weights: &Arc<Weights>, peer: IpAddr, dialect: Dialect) -> Self {
        Self {
            weights: Arc::clone(weights),
            bell: weights.bell.subscribe(),
            peer,
            revision: 0,
            told: Told::new(dialect),
        }
    }

    /// Rings when there may be news.
    pub fn bell(&mut self) -> &mut watch::Receiver<()> {
        &mut self.bell
    }

    /// Messages from what was told to what should be.
    pub fn news(&mut self) -> Vec<Bytes> {
        let revision = self.weights.revision.load(Ordering::Acquire);
        if self.revision == revision {
            return Vec::new();
        }
        self.revision = revision;
        let weighted = self.weights.now();
        match weighted.get(&self.peer) {
            Some(routes) => self.told.turn_to(routes),
            None => self.told.turn_to(&Routes::default()),
        }
    }

    /// All that was told once more, after what has to be told anew.
    pub fn again(&mut self) -> Vec<Bytes> {
        let mut said = self.news();
        said.extend(self.told.again());
        said
    }
}
