//! Rows that nobody agrees on, as they change: looked at once for all who follow them, and only while somebody does. Knows no kind of
//! row.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use imbl::{OrdMap, OrdSet};
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

    /// What such rows are called.
    const KIND: &'static str;

    /// Whether a row may have names beside the first one.
    const HAS_OTHER_NAMES: bool;

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

    /// Waits until rows may have changed, and it is time to look at them again. False: they change no more.
    fn wait(&mut self, last: &Look) -> impl Future<Output = bool> + Send;
}

/// How a look went.
#[derive(Debug)]
pub(super) struct Look {
    /// How long it took.
    pub(super) cost: Duration,
    /// Whether the source answered, or why not.
    pub(super) answered: Result<(), Status>,
}

/// Rows that somebody follows.
#[derive(Debug, Default)]
struct Board<R> {
    state: Mutex<State<R>>,
    bell: watch::Sender<()>,
}

/// What a board has. Its lock is held for as long as it takes to copy or change a pointer: rows are read, and others made of them,
/// without it.
#[derive(Debug, Default)]
struct State<R> {
    known: Arc<Known<R>>,
    /// Since when the source of the rows has not answered, and why; None: it answered last time.
    failing: Option<(Instant, Status)>,
}

/// All rows, as they were at one look.
#[derive(Debug, Default)]
struct Known<R> {
    /// Counts the looks at which some row changed.
    version: u64,
    rows: BTreeMap<Arc<str>, Held<R>>,
    /// The names of the rows by their last change: many rows change one by one, and many follow them.
    changed: OrdSet<(u64, Arc<str>)>,
    /// Rows that went, by the version at which they did.
    gone: OrdMap<(u64, Arc<str>), Gone<R>>,
    /// Version of the last one that went and is forgotten.
    forgotten: u64,
}

#[derive(Debug)]
struct Held<R> {
    row: Arc<R>,
    created: u64,
    changed: u64,
}

#[derive(Clone, Debug)]
struct Gone<R> {
    named: Arc<R>,
    created: u64,
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

/// What became of rows that a watcher follows: of each no more than a pointer.
#[derive(Debug, Default)]
pub(super) struct Changes<R> {
    rows: Vec<(Arc<R>, ChangeType)>,
    /// It is all that there is.
    pub(super) is_all: bool,
}

impl<R: Row> Changes<R> {
    /// Each as a message, which is made when it is asked for.
    pub(super) fn messages(self) -> impl Iterator<Item = R::Change> {
        let rows = self.rows.into_iter();
        rows.map(|(row, change)| Arc::unwrap_or_clone(row).change(change))
    }
}

impl<R: Row> Followed<R> {
    /// The bell of their changes.
    pub(super) fn bell(&self) -> watch::Receiver<()> {
        self.board.bell.subscribe()
    }

    /// What has changed since it was asked for last.
    ///
    /// # Errors
    /// The source has not answered for too long, and why.
    pub(super) fn changes(&mut self) -> Result<Changes<R>, Status> {
        let known = self.board.known()?;
        let before = self.version.replace(known.version);
        if before == Some(known.version) {
            return Ok(Changes::default());
        }
        let Some(since) = before.filter(|it| *it >= known.forgotten) else {
            return Ok(Changes {
                rows: self.existing(&known),
                is_all: true,
            });
        };
        let gone = known.gone_since(since);
        let gone = gone.map(|it| (&it.named, ChangeType::Deleted));
        let changed = known.changed_since(since);
        let changed = changed.map(|held| match held.created <= since {
            true => (&held.row, ChangeType::Updated),
            false => (&held.row, ChangeType::Created),
        });
        let wanted = gone.chain(changed).filter(|(row, _)| self.wants(row));
        Ok(Changes {
            rows: wanted.map(|(row, it)| (Arc::clone(row), it)).collect(),
            is_all: false,
        })
    }

    /// All that there is.
    fn existing(&self, known: &Known<R>) -> Vec<(Arc<R>, ChangeType)> {
        let created = |held: &Held<R>| (Arc::clone(&held.row), ChangeType::Created);
        if self.names.is_empty() || R::HAS_OTHER_NAMES {
            let rows = known.rows.values();
            return rows.filter(|it| self.wants(&it.row)).map(created).collect();
        }
        let names = self.names.iter();
        let rows = names.filter_map(|it| known.rows.get(it.as_str()));
        rows.map(created).collect()
    }

    fn wants(&self, row: &R) -> bool {
        self.names.is_empty() || row.names().any(|it| self.names.contains(it))
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
pub(super) struct Boards<R>(tokio::sync::Mutex<First<R>>);

/// What became of the first look.
#[derive(Debug, Default)]
struct First<R> {
    board: Weak<Board<R>>,
    failed: Option<(Instant, Status)>,
}

impl<R: Row> Boards<R> {
    /// The rows of these names, or all of them.
    ///
    /// # Errors
    /// The source does not answer: nobody follows them yet, or it has not for too long.
    pub(super) async fn follow(
        &self,
        source: impl Source<Row = R>,
        names: Vec<String>,
    ) -> Result<Followed<R>, Status> {
        Ok(Followed {
            board: self.board(source).await?,
            names: names.into_iter().collect(),
            version: None,
        })
    }

    async fn board(&self, source: impl Source<Row = R>) -> Result<Arc<Board<R>>, Status> {
        let mut first = self.0.lock().await;
        if let Some(board) = first.board.upgrade() {
            board.known()?;
            return Ok(board);
        }
        if let Some((at, why)) = &first.failed
            && at.elapsed() < FAILED
        {
            return Err(why.clone());
        }
        let board = Arc::new(Board::default());
        let last = board.look(&source).await;
        if let Err(why) = &last.answered {
            first.failed = Some((Instant::now(), why.clone()));
            return Err(why.clone());
        }
        *first = First {
            board: Arc::downgrade(&board),
            failed: None,
        };
        tokio::spawn(look(Arc::downgrade(&board), source, last));
        Ok(board)
    }
}

/// Looks again and again, until nobody follows.
async fn look<S: Source>(board: Weak<Board<S::Row>>, mut source: S, mut last: Look) {
    while source.wait(&last).await {
        let Some(board) = board.upgrade() else {
            return;
        };
        last = board.look(&source).await;
        board.note(&last.answered);
    }
}

impl<R: Row> Board<R> {
    /// Takes what there is now.
    async fn look(self: &Arc<Self>, source: &impl Source<Row = R>) -> Look {
        let began = Instant::now();
        let answered = match source.rows().await {
            Ok(rows) => {
                let board = Arc::clone(self);
                off_the_runtime(move || board.take(rows)).await
            }
            Err(why) => Err(why),
        };
        Look {
            cost: began.elapsed(),
            answered,
        }
    }

    /// Takes what there is now. One look at a time does.
    fn take(&self, rows: Vec<R>) {
        let before = Arc::clone(&self.lock().known);
        let after = Arc::new(before.followed_by(rows));
        let is_changed = after.version != before.version;
        let replaced = std::mem::replace(&mut self.lock().known, after);
        // That takes its time, and the lock is free.
        drop((before, replaced));
        if is_changed {
            self.bell.send_replace(());
        }
    }

    /// Notes whether the source answered, and logs when it ceases to, and when it does again.
    fn note(&self, answered: &Result<(), Status>) {
        let mut state = self.lock();
        let failing = &mut state.failing;
        match (answered, failing.as_mut()) {
            (Ok(()), None) => {}
            (Ok(()), Some((since, _))) => {
                let secs = since.elapsed().as_secs();
                tracing::info!(rows = R::KIND, secs, "watchers hear of changes again");
                *failing = None;
            }
            (Err(error), None) => {
                tracing::warn!(rows = R::KIND, %error, "watchers hear of no changes");
                *failing = Some((Instant::now(), error.clone()));
            }
            (Err(error), Some((since, why))) => {
                *why = error.clone();
                if since.elapsed() >= FAILING_MAX {
                    self.bell.send_replace(());
                }
            }
        }
    }

    /// What there was at the last look that was answered.
    ///
    /// # Errors
    /// That is too long ago.
    fn known(&self) -> Result<Arc<Known<R>>, Status> {
        let state = self.lock();
        match &state.failing {
            Some((since, why)) if since.elapsed() >= FAILING_MAX => Err(why.clone()),
            _ => Ok(Arc::clone(&state.known)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Row> Known<R> {
    /// What there is now. Of the same version: nothing changed.
    fn followed_by(&self, rows: Vec<R>) -> Self {
        let mut after = Self {
            version: self.version,
            rows: BTreeMap::new(),
            changed: self.changed.clone(),
            gone: self.gone.clone(),
            forgotten: self.forgotten,
        };
        let rows = rows.into_iter().map(|row| self.held(row, &mut after));
        // Mostly they come in order: that makes a map at once.
        let rows: Vec<_> = rows.collect();
        after.rows = rows.into_iter().collect();
        for (name, held) in &self.rows {
            if !after.rows.contains_key(name) {
                after.went(self.version + 1, name, held);
            }
        }
        let gone_max = after.rows.len().max(GONE_MIN);
        while after.gone.len() > gone_max
            && let Some((oldest, _)) = after.gone.get_min()
        {
            let oldest = oldest.clone();
            after.gone.remove(&oldest);
            after.forgotten = oldest.0;
        }
        after
    }

    /// A row as it is held now, by its name. What changes is noted in `after`.
    fn held(&self, row: R, after: &mut Self) -> (Arc<str>, Held<R>) {
        let name = row.names().next().unwrap_or_default();
        let before = self.rows.get_key_value(name);
        let name: Arc<str> = before.map_or_else(|| name.into(), |(name, _)| Arc::clone(name));
        let (created, changed) = match before {
            Some((_, held)) if held.row.is_still(&row) => (held.created, held.changed),
            before => {
                let version = self.version + 1;
                let created = before.map_or(version, |(_, held)| held.created);
                if let Some((_, held)) = before {
                    after.changed.remove(&(held.changed, Arc::clone(&name)));
                }
                after.changed.insert((version, Arc::clone(&name)));
                after.version = version;
                (created, version)
            }
        };
        let row = Arc::new(row);
        (
            name,
            Held {
                row,
                created,
                changed,
            },
        )
    }

    /// Notes that a row went.
    fn went(&mut self, version: u64, name: &Arc<str>, held: &Held<R>) {
        self.version = version;
        self.changed.remove(&(held.changed, Arc::clone(name)));
        let gone = Gone {
            named: Arc::new(held.row.named()),
            created: held.created,
        };
        self.gone.insert((version, Arc::clone(name)), gone);
    }

    /// Rows that went after a version, and were there at it.
    fn gone_since(&self, since: u64) -> impl Iterator<Item = &Gone<R>> {
        let gone = self.gone.range((since + 1, Arc::from(""))..);
        let gone = gone.map(|(_, it)| it);
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
/// Rows that went are remembered up to as many as there are, and so many at least: who is farther behind hears all that there is.
const GONE_MIN: usize = 4096;
/// What was told may be wrong by then. An election, and what waits for a majority meanwhile, takes less.
const FAILING_MAX: Duration = Duration::from_secs(10);
/// Those who waited for a first look that failed do not look one after the other.
const FAILED: Duration = Duration::from_secs(1);

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
        let changes = links.changes().unwrap();
        let is_all = changes.is_all;
        (changes.messages().map(|it| said(&it)).collect(), is_all)
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
        let mut messages = follow(&board, &["a"]).changes().unwrap().messages();
        let status = messages.next().unwrap().link_status.unwrap();
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
        let known = board.known().unwrap();
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
        let changes = peers.changes().unwrap();
        let is_all = changes.is_all;
        let changes = changes.messages().map(|it| {
            let address = it.peer.clone().unwrap().session.unwrap().address;
            (it.change_type(), address)
        });
        (changes.collect(), is_all)
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
        for number in 0..=GONE_MIN {
            board.take(vec![peer("b", 2, 9), peer(&format!("x{number}"), 1, 1)]);
        }
        board.take(vec![peer("b", 2, 9)]);
        assert_eq!(told(&mut one), (vec![created("b")], true));
    }

    #[test]
    fn a_snapshot_is_pointers_to_the_same_rows_for_all_watchers() {
        let board = Arc::new(Board::default());
        board.take(vec![link("a", 0, 1), link("b", 0, 1)]);
        let all = follow(&board, &[]).changes().unwrap();
        // Of names that are not there it hears nothing.
        let one = follow(&board, &["b", "c"]).changes().unwrap();
        assert_eq!((all.rows.len(), one.rows.len()), (2, 1));
        assert!(Arc::ptr_eq(&all.rows[1].0, &one.rows[0].0));
        // They stay as they were while others follow them.
        board.take(vec![link("a", 5, 1)]);
        let percents = all
            .messages()
            .map(|it| it.link_status.unwrap().derating_percent);
        assert_eq!(percents.collect::<Vec<_>>(), [0, 0]);
    }

    #[test]
    fn as_many_rows_as_there_are_may_go_at_once() {
        let board = Arc::new(Board::default());
        let rows = |numbers: std::ops::Range<usize>| {
            let rows = numbers.map(|it| link(&format!("{it:06}"), 0, 1));
            rows.collect::<Vec<_>>()
        };
        board.take(rows(0..2 * GONE_MIN + 4));
        let mut all = follow(&board, &[]);
        assert!(told(&mut all).1);
        board.take(rows(0..GONE_MIN + 2));
        let (changes, is_all) = told(&mut all);
        assert_eq!((changes.len(), is_all), (GONE_MIN + 2, false));
        assert!(changes.iter().all(|it| it.0 == Deleted));
        // More than there are now, and than it remembers of none.
        board.take(rows(0..1));
        assert_eq!(
            told(&mut all),
            (vec![(Created, "000000".to_owned(), 0)], true)
        );
    }

    /// By what percentage the one link is derated; None: the source does not answer.
    type Percent = Arc<Mutex<Option<u32>>>;

    /// Answers with what was put there last, when it is told to.
    struct Told {
        rows: Percent,
        turns: mpsc::Receiver<()>,
        dropped: Arc<AtomicBool>,
    }

    impl Told {
        /// One, and what tells it to look.
        fn new(rows: &Percent, dropped: &Arc<AtomicBool>) -> (mpsc::Sender<()>, Self) {
            let (turn, turns) = mpsc::channel(1);
            let (rows, dropped) = (Arc::clone(rows), Arc::clone(dropped));
            let told = Self {
                rows,
                turns,
                dropped,
            };
            (turn, told)
        }
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

        async fn wait(&mut self, _: &Look) -> bool {
            self.turns.recv().await.is_some()
        }
    }

    /// Has a source look once at least.
    async fn looked(turn: &mpsc::Sender<()>) {
        // Taken by the time that the second one after it is.
        turn.send(()).await.unwrap();
        turn.send(()).await.unwrap();
        turn.reserve().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_looks_for_all_and_rows_stay_while_nobody_answers() {
        let boards = Boards::default();
        let rows = Arc::new(Mutex::new(None));
        let dropped = Arc::new(AtomicBool::new(false));
        let source = || Told::new(&rows, &dropped);
        let refused = boards.follow(source().1, Vec::new()).await;
        assert_eq!(refused.unwrap_err().code(), tonic::Code::Unavailable);
        *rows.lock().unwrap() = Some(0);
        // Who waited for that look is refused as well.
        let refused = boards.follow(source().1, Vec::new()).await;
        assert_eq!(refused.unwrap_err().code(), tonic::Code::Unavailable);
        tokio::time::advance(FAILED).await;
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
        looked(&turn).await;
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

    #[tokio::test(start_paused = true)]
    async fn streams_end_when_nobody_answers_for_long() {
        let boards = Boards::default();
        let rows = Arc::new(Mutex::new(Some(0)));
        let source = || Told::new(&rows, &Arc::default());
        let (turn, told_by) = source();
        let mut links = boards.follow(told_by, Vec::new()).await.unwrap();
        assert!(told(&mut links).1);
        let mut bell = links.bell();
        *rows.lock().unwrap() = None;
        looked(&turn).await;
        assert!(boards.follow(source().1, Vec::new()).await.is_ok());
        assert!(links.changes().is_ok() && !bell.has_changed().unwrap());
        tokio::time::advance(FAILING_MAX).await;
        looked(&turn).await;
        bell.changed().await.unwrap();
        let ended = links.changes().unwrap_err();
        assert_eq!(ended.message(), "nobody leads");
        let refused = boards.follow(source().1, Vec::new()).await;
        assert_eq!(refused.unwrap_err().message(), "nobody leads");
        *rows.lock().unwrap() = Some(5);
        looked(&turn).await;
        let updated = vec![(Updated, "a".to_owned(), 5)];
        assert_eq!(told(&mut links), (updated, false));
        assert!(boards.follow(source().1, Vec::new()).await.is_ok());
    }
}
