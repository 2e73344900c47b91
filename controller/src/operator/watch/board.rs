//! Rows that nobody agrees on, as they change: looked at once for all who follow them, and only while somebody does. Knows no kind of
//! row.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Status;
use weft_proto::v1::ChangeType;

use super::super::off_the_runtime;
use crate::fabric::fact::InvalidFabric;

/// A row that can be followed.
pub(super) trait Row: Clone + Debug + Default + Send + Sync + 'static {
    /// What a watcher hears of it.
    type Change: prost::Message;

    /// What it can be called; no two rows have the same first name.
    fn names(&self) -> impl Iterator<Item = &str>;

    /// Whether it differs from another one in nothing but what changes all the time.
    fn is_still(&self, other: &Self) -> bool;

    /// What is left of it when it went: what it was called.
    fn named(&self) -> Self;

    /// What became of it.
    fn change(self, change: ChangeType) -> Self::Change;
}

/// Where rows come from.
pub(super) trait Source: Send + Sync + 'static {
    type Row: Row;

    /// Every row, as it is now.
    fn rows(&self) -> impl Future<Output = Result<Vec<Self::Row>, Status>> + Send;

    /// Waits until rows may have changed, and it is time to look at them again. `cost`: how long the last look took. False: they
    /// change no more.
    fn wait(&mut self, cost: Duration) -> impl Future<Output = bool> + Send;
}

/// Rows that somebody follows.
#[derive(Debug, Default)]
struct Board<R> {
    known: Mutex<Known<R>>,
    bell: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Known<R> {
    /// Of the last change.
    version: u64,
    rows: BTreeMap<Arc<str>, Held<R>>,
    /// The names of the rows by their last change: many rows change one by one, and many follow them.
    changed: BTreeSet<(u64, Arc<str>)>,
    /// Rows that went, in the order in which they did.
    gone: VecDeque<Gone<R>>,
    /// Version of the last one that went and is forgotten.
    forgotten: u64,
}

#[derive(Debug)]
struct Held<R> {
    row: R,
    created: u64,
    changed: u64,
}

#[derive(Debug)]
struct Gone<R> {
    named: R,
    created: u64,
    deleted: u64,
}

/// The rows that a watcher follows.
#[derive(Debug)]
pub(super) struct Followed<R> {
    board: Arc<Board<R>>,
    /// Empty: all.
    names: BTreeSet<String>,
    /// Of the last change that was told; None: nothing was.
    version: Option<u64>,
}

impl<R: Row> Followed<R> {
    /// The bell of their changes.
    pub(super) fn bell(&self) -> watch::Receiver<()> {
        self.board.bell.subscribe()
    }

    /// What has changed since it was asked for last; true: it is all that there is.
    pub(super) fn changes(&mut self) -> (Vec<R::Change>, bool) {
        let known = self.board.lock();
        let since = self.version.filter(|it| *it >= known.forgotten);
        self.version = Some(known.version);
        let mut changes = Vec::new();
        let mut tell = |row: &R, change: ChangeType| {
            if self.names.is_empty() || row.names().any(|it| self.names.contains(it)) {
                changes.push(row.clone().change(change));
            }
        };
        let Some(since) = since else {
            let rows = known.rows.values();
            rows.for_each(|it| tell(&it.row, ChangeType::Created));
            return (changes, true);
        };
        for gone in known.gone_since(since) {
            tell(&gone.named, ChangeType::Deleted);
        }
        for held in known.changed_since(since) {
            match held.created <= since {
                true => tell(&held.row, ChangeType::Updated),
                false => tell(&held.row, ChangeType::Created),
            }
        }
        (changes, false)
    }
}

/// Notes what is wrong with the names of a filter.
pub(super) fn check(field: &str, names: &[String], faults: &mut InvalidFabric) {
    if names.len() > NAMES_MAX {
        faults.fault(field, format_args!("more than {NAMES_MAX}"));
    }
}

/// Makes the board when the first watcher comes, and lets go of it with the last.
#[derive(Debug, Default)]
pub(super) struct Boards<R>(tokio::sync::Mutex<Weak<Board<R>>>);

impl<R: Row> Boards<R> {
    /// The rows of these names, or all of them.
    ///
    /// # Errors
    /// Nobody follows them yet, and the source does not answer.
    pub(super) async fn follow(
        &self,
        source: impl Source<Row = R>,
        names: Vec<String>,
    ) -> Result<Followed<R>, Status> {
        let mut held = self.0.lock().await;
        let board = match held.upgrade() {
            Some(board) => board,
            None => {
                let board = Arc::new(Board::default());
                let cost = board.look(&source).await?;
                *held = Arc::downgrade(&board);
                tokio::spawn(look(Arc::downgrade(&board), source, cost));
                board
            }
        };
        Ok(Followed {
            board,
            names: names.into_iter().collect(),
            version: None,
        })
    }
}

/// Looks again and again, until nobody follows.
async fn look<S: Source>(board: Weak<Board<S::Row>>, mut source: S, mut cost: Duration) {
    while source.wait(cost).await {
        let Some(board) = board.upgrade() else {
            return;
        };
        // A source that does not answer says nothing of rows, and nothing of what looks cost.
        cost = board.look(&source).await.unwrap_or_default();
    }
}

impl<R: Row> Board<R> {
    /// Takes what there is now, and says how long that took.
    async fn look(self: &Arc<Self>, source: &impl Source<Row = R>) -> Result<Duration, Status> {
        let began = Instant::now();
        let rows = source.rows().await?;
        let board = Arc::clone(self);
        off_the_runtime(move || board.take(rows)).await?;
        Ok(began.elapsed())
    }

    /// Takes what there is now.
    fn take(&self, rows: Vec<R>) {
        let is_changed = self.lock().take(rows);
        if is_changed {
            self.bell.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known<R>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Row> Known<R> {
    /// Takes what there is now. False: nothing changed.
    fn take(&mut self, rows: Vec<R>) -> bool {
        let version = self.version + 1;
        let mut is_changed = false;
        let mut before = std::mem::take(&mut self.rows);
        for row in rows {
            let name = row.names().next().unwrap_or_default();
            let (name, held) = match before.remove_entry(name) {
                Some((name, held)) if held.row.is_still(&row) => (name, Held { row, ..held }),
                found => {
                    is_changed = true;
                    let created = found.as_ref().map_or(version, |(_, held)| held.created);
                    let name = match found {
                        Some((name, held)) => self.unlisted(name, held.changed),
                        None => name.into(),
                    };
                    self.changed.insert((version, Arc::clone(&name)));
                    let held = Held {
                        row,
                        created,
                        changed: version,
                    };
                    (name, held)
                }
            };
            self.rows.insert(name, held);
        }
        for (name, held) in before {
            is_changed = true;
            self.unlisted(name, held.changed);
            self.gone.push_back(Gone {
                named: held.row.named(),
                created: held.created,
                deleted: version,
            });
        }
        while self.gone.len() > GONE_MAX {
            let oldest = self.gone.pop_front();
            self.forgotten = oldest.map_or(version, |it| it.deleted);
        }
        if is_changed {
            self.version = version;
        }
        is_changed
    }

    /// Takes a name out of those of the rows that changed at a version.
    fn unlisted(&mut self, name: Arc<str>, version: u64) -> Arc<str> {
        let listed = (version, name);
        self.changed.remove(&listed);
        listed.1
    }

    /// Rows that went after a version, and were there at it.
    fn gone_since(&self, since: u64) -> impl Iterator<Item = &Gone<R>> {
        let heard = self.gone.partition_point(|it| it.deleted <= since);
        let gone = self.gone.range(heard..);
        gone.filter(move |it| it.created <= since)
    }

    /// Rows that changed after a version.
    fn changed_since(&self, since: u64) -> impl Iterator<Item = &Held<R>> {
        let names = self.changed.range((since + 1, Arc::from(""))..);
        names.filter_map(|(_, name)| self.rows.get(name))
    }
}

/// They are looked up for each change.
const NAMES_MAX: usize = 1000;
/// Who is that far behind hears all that there is.
const GONE_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::mpsc;
    use weft_proto::v1::{self as proto, LinkStatusChange};

    use super::*;

    fn link(name: &str, percent: u32, bps: u64) -> proto::LinkStatus {
        proto::LinkStatus {
            link_name: name.to_owned(),
            derating_percent: percent,
            a_to_b_bps: Some(bps),
            etag: percent.to_string(),
            ..proto::LinkStatus::default()
        }
    }

    type Said = (ChangeType, String, u32);

    fn said(change: &LinkStatusChange) -> Said {
        let status = change.link_status.clone().unwrap();
        let kind = change.change_type();
        (kind, status.link_name, status.derating_percent)
    }

    fn told(links: &mut Followed<proto::LinkStatus>) -> (Vec<Said>, bool) {
        let (changes, all) = links.changes();
        (changes.iter().map(said).collect(), all)
    }

    fn follow<R>(board: &Arc<Board<R>>, names: &[&str]) -> Followed<R> {
        Followed {
            board: Arc::clone(board),
            names: names.iter().map(|it| (*it).to_owned()).collect(),
            version: None,
        }
    }

    use ChangeType::{Created, Deleted, Updated};

    #[test]
    fn rows_that_came_and_went_meanwhile_are_not_heard_of() {
        let board = Arc::new(Board::default());
        board.take(vec![link("a", 0, 1), link("b", 0, 1)]);
        let (mut all, mut one) = (follow(&board, &[]), follow(&board, &["b"]));
        let of = |kind, name: &str, percent| (kind, name.to_owned(), percent);
        let both = vec![of(Created, "a", 0), of(Created, "b", 0)];
        assert_eq!(told(&mut all), (both, true));
        assert_eq!(told(&mut one), (vec![of(Created, "b", 0)], true));
        let bell = all.bell();
        board.take(vec![link("a", 0, 7), link("b", 0, 9)]);
        assert!(!bell.has_changed().unwrap());
        assert_eq!(told(&mut all), (vec![], false));
        // Who comes now hears what passes as it is now.
        let (changes, _) = follow(&board, &["a"]).changes();
        let status = changes[0].link_status.clone().unwrap();
        assert_eq!(status.a_to_b_bps, Some(7));
        board.take(vec![link("b", 5, 9), link("c", 0, 1)]);
        board.take(vec![link("b", 5, 9), link("a", 9, 1)]);
        assert!(bell.has_changed().unwrap());
        // It went, and came again; another one came and went.
        let expected = vec![
            of(Deleted, "a", 0),
            of(Updated, "b", 5),
            of(Created, "a", 9),
        ];
        assert_eq!(told(&mut all), (expected, false));
        assert_eq!(told(&mut one), (vec![of(Updated, "b", 5)], false));
        board.take(vec![]);
        let expected = vec![of(Deleted, "a", 0), of(Deleted, "b", 0)];
        assert_eq!(told(&mut all), (expected, false));
        assert_eq!(told(&mut one), (vec![of(Deleted, "b", 0)], false));
        let known = board.lock();
        assert!(known.rows.is_empty() && known.changed.is_empty());
    }

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

    fn told_of_peers(peers: &mut Followed<proto::Peer>) -> (Vec<(ChangeType, String)>, bool) {
        let (changes, all) = peers.changes();
        let changes = changes.into_iter().map(|it| {
            let address = it.peer.clone().unwrap().session.unwrap().address;
            (it.change_type(), address)
        });
        (changes.collect(), all)
    }

    #[test]
    fn a_watcher_hears_what_there_is_and_then_each_change_once() {
        let told = told_of_peers;
        let board = Arc::new(Board::default());
        let said = |change, name: &str| (change, name.to_owned());
        board.take(vec![peer("a", 1, 1), peer("b", 1, 1)]);
        let (mut all, mut one) = (follow(&board, &[]), follow(&board, &["b"]));
        let created = |name| said(Created, name);
        assert_eq!(told(&mut all), (vec![created("a"), created("b")], true));
        assert_eq!(told(&mut one), (vec![created("b")], true));
        let bell = all.bell();
        // What is counted is no change.
        board.take(vec![peer("a", 1, 9), peer("b", 1, 9)]);
        assert!(!bell.has_changed().unwrap());
        assert_eq!(told(&mut all), (vec![], false));
        board.take(vec![peer("b", 2, 9), peer("c", 1, 1)]);
        assert!(bell.has_changed().unwrap());
        let deleted = said(Deleted, "a");
        let updated = said(Updated, "b");
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

    /// Answers with what was put there last, when it is told to.
    struct Told {
        rows: Arc<Mutex<Option<u32>>>,
        turns: mpsc::Receiver<()>,
        dropped: Arc<AtomicBool>,
    }

    impl Drop for Told {
        fn drop(&mut self) {
            self.dropped.store(true, Ordering::Relaxed);
        }
    }

    impl Source for Told {
        type Row = proto::LinkStatus;

        async fn rows(&self) -> Result<Vec<proto::LinkStatus>, Status> {
            match *self.rows.lock().unwrap() {
                Some(percent) => Ok(vec![link("a", percent, 1)]),
                None => Err(Status::unavailable("nobody leads")),
            }
        }

        async fn wait(&mut self, _: Duration) -> bool {
            self.turns.recv().await.is_some()
        }
    }

    #[tokio::test]
    async fn one_looks_for_all_and_rows_stay_while_nobody_answers() {
        let boards = Boards::default();
        let rows = Arc::new(Mutex::new(None));
        let dropped = Arc::new(AtomicBool::new(false));
        let source = || {
            let (turn, turns) = mpsc::channel(1);
            let (rows, dropped) = (Arc::clone(&rows), Arc::clone(&dropped));
            let told = Told {
                rows,
                turns,
                dropped,
            };
            (turn, told)
        };
        let refused = boards.follow(source().1, Vec::new()).await;
        assert_eq!(refused.unwrap_err().code(), tonic::Code::Unavailable);
        *rows.lock().unwrap() = Some(0);
        let (turn, told_by) = source();
        let mut first = boards.follow(told_by, Vec::new()).await.unwrap();
        assert!(told(&mut first).1);
        *rows.lock().unwrap() = None;
        dropped.store(false, Ordering::Relaxed);
        // The board of the first one.
        let mut second = boards.follow(source().1, Vec::new()).await.unwrap();
        assert!(dropped.swap(false, Ordering::Relaxed));
        assert_eq!(
            told(&mut second),
            (vec![(Created, "a".to_owned(), 0)], true)
        );
        let mut bell = second.bell();
        // Taken by the time that the second one after it is.
        turn.send(()).await.unwrap();
        turn.send(()).await.unwrap();
        turn.reserve().await.unwrap();
        assert_eq!(told(&mut first), (vec![], false));
        *rows.lock().unwrap() = Some(5);
        turn.send(()).await.unwrap();
        bell.changed().await.unwrap();
        let updated = vec![(Updated, "a".to_owned(), 5)];
        assert_eq!(told(&mut first), (updated.clone(), false));
        assert_eq!(told(&mut second), (updated, false));
        drop((first, second));
        turn.send(()).await.unwrap();
        // Nobody follows: nobody looks.
        turn.closed().await;
        assert!(dropped.load(Ordering::Relaxed));
    }
}
