//! What this replica knows of its peers, as it changes: looked at once for all who follow it, and only while somebody does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tonic::Status;
use weft_proto::v1::{self as proto, ChangeType};

use super::super::peers;
use crate::fabric::fact::InvalidFabric;
use crate::speaker::Shared;

/// Peers that somebody follows.
#[derive(Debug, Default)]
pub(super) struct Board {
    known: Mutex<Known>,
    bell: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Known {
    /// Of the last change.
    version: u64,
    rows: BTreeMap<String, Row>,
    /// Peers that went, with the version of that.
    gone: VecDeque<(u64, proto::Peer)>,
    /// Of the last one that went and is forgotten.
    forgotten: u64,
}

#[derive(Debug)]
struct Row {
    peer: proto::Peer,
    created: u64,
    changed: u64,
}

/// The peers that a watcher follows.
#[derive(Debug)]
pub(super) struct Peers {
    board: Arc<Board>,
    /// Addresses and router ids; empty: all.
    names: BTreeSet<String>,
    /// Of the last change that was told; None: nothing was.
    version: Option<u64>,
}

impl Peers {
    /// The bell of their changes.
    pub(super) fn bell(&self) -> watch::Receiver<()> {
        self.board.bell.subscribe()
    }

    /// What has changed since it was asked for last; true: it is all that there is.
    pub(super) fn changes(&mut self) -> (Vec<proto::PeerChange>, bool) {
        let known = self.board.lock();
        let since = self.version.filter(|it| *it >= known.forgotten);
        self.version = Some(known.version);
        let mut changes = Vec::new();
        let mut tell = |peer: &proto::Peer, change: ChangeType| {
            if self.names.is_empty() || names(peer).any(|it| self.names.contains(it)) {
                changes.push(proto::PeerChange {
                    change_type: change.into(),
                    peer: Some(peer.clone()),
                });
            }
        };
        if let Some(since) = since {
            let gone = known.gone.iter().filter(|(version, _)| *version > since);
            gone.for_each(|(_, peer)| tell(peer, ChangeType::Deleted));
        }
        for row in known.rows.values() {
            match since {
                Some(since) if row.changed <= since => {}
                Some(since) if row.created <= since => tell(&row.peer, ChangeType::Updated),
                Some(_) | None => tell(&row.peer, ChangeType::Created),
            }
        }
        (changes, since.is_none())
    }
}

/// Notes what is wrong with a filter.
pub(super) fn check(wanted: &proto::PeerFilter, faults: &mut InvalidFabric) {
    if wanted.names.len() > NAMES_MAX {
        faults.fault("peers.names", format_args!("more than {NAMES_MAX}"));
    }
}

/// Makes the board when the first watcher comes, and lets go of it with the last.
#[derive(Debug, Default)]
pub(super) struct Boards(tokio::sync::Mutex<Weak<Board>>);

impl Boards {
    /// The peers that a client wants to follow.
    pub(super) async fn follow(
        &self,
        shared: &Arc<Shared>,
        wanted: proto::PeerFilter,
    ) -> Result<Peers, Status> {
        let mut held = self.0.lock().await;
        let board = match held.upgrade() {
            Some(board) => board,
            None => {
                let board = Arc::new(Board::default());
                board.take(peers::all(shared).await?);
                *held = Arc::downgrade(&board);
                let sessions = shared.sessions();
                tokio::spawn(look(Arc::downgrade(&board), Arc::clone(shared), sessions));
                board
            }
        };
        Ok(Peers {
            board,
            names: wanted.names.into_iter().collect(),
            version: None,
        })
    }
}

/// Looks when a session changed, and now and then for what no session says, until nobody follows.
async fn look(board: Weak<Board>, shared: Arc<Shared>, mut sessions: watch::Receiver<()>) {
    loop {
        // Nobody rings while the daemon stops.
        let rung = timeout(AT_LEAST, sessions.changed()).await;
        let Some(board) = board.upgrade().filter(|_| !matches!(rung, Ok(Err(_)))) else {
            return;
        };
        if let Ok(rows) = peers::all(&shared).await {
            board.take(rows);
        }
        drop(board);
        // Many sessions that come together are one look.
        sleep(AT_MOST).await;
    }
}

impl Board {
    /// Takes what there is now.
    fn take(&self, rows: Vec<proto::Peer>) {
        let mut known = self.lock();
        let version = known.version + 1;
        let mut changed = false;
        let mut before = std::mem::take(&mut known.rows);
        for peer in rows {
            let name = names(&peer).next().unwrap_or_default().to_owned();
            let row = match before.remove(&name) {
                Some(row) if still(&row.peer) == still(&peer) => Row { peer, ..row },
                found => {
                    changed = true;
                    Row {
                        peer,
                        created: found.map_or(version, |row| row.created),
                        changed: version,
                    }
                }
            };
            known.rows.insert(name, row);
        }
        for row in before.into_values() {
            changed = true;
            known.gone.push_back((version, named(&row.peer)));
        }
        while known.gone.len() > GONE_MAX {
            let oldest = known.gone.pop_front();
            known.forgotten = oldest.map_or(version, |(version, _)| version);
        }
        if changed {
            known.version = version;
            drop(known);
            self.bell.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a peer can be called: its address here, and its router id.
fn names(peer: &proto::Peer) -> impl Iterator<Item = &str> {
    let address = peer.session.as_ref().map(|it| it.address.as_str());
    address.into_iter().chain(peer.router_id.as_deref())
}

/// A peer that went: what it was called.
fn named(peer: &proto::Peer) -> proto::Peer {
    let session = peer.session.as_ref().map(|it| proto::PeerSession {
        address: it.address.clone(),
        ..proto::PeerSession::default()
    });
    proto::Peer {
        router_id: peer.router_id.clone(),
        session,
        ..proto::Peer::default()
    }
}

/// A peer without what is counted, which changes all the time.
fn still(peer: &proto::Peer) -> proto::Peer {
    let session = peer.session.clone().map(|it| proto::PeerSession {
        messages_received: 0,
        messages_sent: 0,
        ..it
    });
    proto::Peer {
        route_count: 0,
        session,
        ..peer.clone()
    }
}

/// They are looked up for each change.
const NAMES_MAX: usize = 1000;
/// Who is that far behind hears all that there is.
const GONE_MAX: usize = 4096;
/// Who owns a peer, and whether its routes are stale, rings nowhere.
const AT_LEAST: Duration = Duration::from_secs(1);
const AT_MOST: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str, asn: u32, routes: u64) -> proto::Peer {
        proto::Peer {
            asn: Some(asn),
            route_count: routes,
            session: Some(proto::PeerSession {
                address: address.to_owned(),
                ..proto::PeerSession::default()
            }),
            ..proto::Peer::default()
        }
    }

    fn told(peers: &mut Peers) -> (Vec<(ChangeType, String)>, bool) {
        let (changes, all) = peers.changes();
        let changes = changes.into_iter().map(|it| {
            let address = it.peer.clone().unwrap().session.unwrap().address;
            (it.change_type(), address)
        });
        (changes.collect(), all)
    }

    #[test]
    fn a_watcher_hears_what_there_is_and_then_each_change_once() {
        let board = Arc::new(Board::default());
        let follow = |names: &[&str]| Peers {
            board: Arc::clone(&board),
            names: names.iter().map(|it| (*it).to_owned()).collect(),
            version: None,
        };
        let said = |change, name: &str| (change, name.to_owned());
        board.take(vec![peer("a", 1, 1), peer("b", 1, 1)]);
        let (mut all, mut one) = (follow(&[]), follow(&["b"]));
        let created = |name| said(ChangeType::Created, name);
        assert_eq!(told(&mut all), (vec![created("a"), created("b")], true));
        assert_eq!(told(&mut one), (vec![created("b")], true));
        let bell = all.bell();
        // What is counted is no change.
        board.take(vec![peer("a", 1, 9), peer("b", 1, 9)]);
        assert!(!bell.has_changed().unwrap());
        assert_eq!(told(&mut all), (vec![], false));
        board.take(vec![peer("b", 2, 9), peer("c", 1, 1)]);
        assert!(bell.has_changed().unwrap());
        let deleted = said(ChangeType::Deleted, "a");
        let updated = said(ChangeType::Updated, "b");
        let expected = vec![deleted, updated.clone(), created("c")];
        assert_eq!(told(&mut all), (expected, false));
        assert_eq!(told(&mut one), (vec![updated], false));
        assert_eq!(told(&mut all), (vec![], false));
        // Far behind: all that there is.
        for number in 0..=GONE_MAX {
            board.take(vec![peer("b", 2, 9), peer(&format!("x{number}"), 1, 1)]);
        }
        board.take(vec![peer("b", 2, 9)]);
        assert_eq!(told(&mut one), (vec![created("b")], true));
    }
}
