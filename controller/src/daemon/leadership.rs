//! What follows from being the leader, and from not being it, for peers and replicas: replicas that died lose their
//! sessions, peers that nobody serves expire. Level-triggered: it looks at what is agreed and proposes what is missing, so a
//! new leader goes on where the old one stopped. The switches are programmed by a task of their own: see
//! [`switches`](super::switches).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::departed::Departed;
use super::freezer::{Log, Sight};
use super::no_llgr::NoLlgr;
use crate::config::Moves;
use crate::reflector::Input;
use crate::speaker::Shared;

mod departed;

/// Runs until it is aborted.
pub async fn lead(shared: Arc<Shared>) {
    let mut control = shared.reflection.control();
    let mut group = shared.consensus.group();
    let mut leadership = Leadership::new(shared);
    loop {
        leadership.turn().await;
        tokio::select! {
            changed = control.changed() => if changed.is_err() { return },
            changed = group.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

struct Leadership {
    shared: Arc<Shared>,
    departed: Departed,
    no_llgr: NoLlgr,
    /// When moves of MAC addresses are too many, as the reflector was told last.
    moves: Option<Moves>,
    /// What was said of those that are frozen.
    log: Log,
}

impl Leadership {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            departed: Departed::new(Arc::clone(&shared)),
            shared,
            no_llgr: NoLlgr::default(),
            moves: None,
            log: Log::default(),
        }
    }

    async fn turn(&mut self) {
        let now = Instant::now();
        let moves = self.shared.config().bgp.moves.clone();
        self.watch(&moves).await;
        let action = moves.action;
        let look = self.shared.reflection.query(move |reflector| {
            let peers: BTreeMap<_, _> = reflector
                .peers()
                .map(|(peer, agreed)| (peer, agreed.clone()))
                .collect();
            (peers, Sight::of(reflector, action))
        });
        let Some((peers, sight)) = look.await else {
            return;
        };
        let group = self.shared.consensus.group().borrow().clone();
        self.departed.count(&group, &peers, now);
        if group.status.leader.is_some() {
            self.departed.dismiss(group.status.id, &peers).await;
        }
        let leads = group.leads();
        self.departed.lead(leads, now);
        if leads {
            self.departed.bury(&group, &peers, now).await;
            self.departed.expire(&peers).await;
            if let Some(batch) = sight.next(&moves, &mut self.log) {
                self.shared.consensus.propose(batch).await;
            }
            self.no_llgr.remove(&self.shared, &peers).await;
        }
    }

    /// Moves are counted as the configuration says now, on every replica.
    async fn watch(&mut self, moves: &Moves) {
        if self.moves.as_ref() == Some(moves) {
            return;
        }
        let watch = Input::Watch(moves.settings());
        if self.shared.reflection.inputs().send(watch).await.is_ok() {
            self.moves = Some(moves.clone());
        }
    }
}

/// Look again now and then, whatever happens.
const LOOK_EVERY: Duration = Duration::from_millis(250);
