//! Reads of small files that may lie on a file system that hangs: by a few threads that may wait, and not for long. Knows
//! no content.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Directories of the files that are read together. Reads of one place wait for each other: if it hangs, it takes one
/// thread, and readers of other places go on.
pub(crate) type Place = BTreeSet<PathBuf>;

/// The place of these files.
pub(crate) fn place<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Place {
    let directories = files.filter_map(|file| file.parent());
    directories.map(Path::to_path_buf).collect()
}

/// Runs `read` on a thread that may block. Tasks and sessions of the runtime go on meanwhile.
///
/// # Errors
/// The read took longer than [`READ_MAX`], waiting for its place and a thread included.
pub(crate) async fn read<T: Send + 'static>(
    place: Place,
    read: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    read_by(&THREADS, place, read).await
}

/// Runs `read`, which reads many files and for which nothing else waits, on a thread that may block.
///
/// # Errors
/// The read took longer than [`READ_ALL_MAX`].
pub(crate) async fn read_all<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    in_time(READ_ALL_MAX, run(&THREADS_FOR_ALL, None, read)).await
}

async fn read_by<T: Send + 'static>(
    threads: &'static Threads,
    place: Place,
    read: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let reading = async {
        let place = threads.place(place).acquire_owned().await;
        let place = place.map_err(io::Error::other)?;
        run(&threads.free, Some(place), read).await
    };
    in_time(READ_MAX, reading).await
}

async fn run<T: Send + 'static>(
    threads: &'static Semaphore,
    place: Option<OwnedSemaphorePermit>,
    read: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let thread = threads.acquire().await.map_err(io::Error::other)?;
    let read = spawn_blocking(move || {
        let outcome = read();
        // Only now: a read that hangs goes on when nobody waits for it any more.
        drop((thread, place));
        outcome
    });
    read.await.map_err(io::Error::other)
}

async fn in_time<T>(
    patience: Duration,
    reading: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "files not read in time");
    timeout(patience, reading)
        .await
        .unwrap_or_else(|_| Err(late()))
}

/// Threads that may hang, and the places where one of them reads or is waited for.
struct Threads {
    free: Semaphore,
    places: Mutex<BTreeMap<Place, Arc<Semaphore>>>,
}

impl Threads {
    const fn new(count: usize) -> Self {
        Self {
            free: Semaphore::const_new(count),
            places: Mutex::new(BTreeMap::new()),
        }
    }

    /// Lets one read of the place begin at a time.
    fn place(&self, place: Place) -> Arc<Semaphore> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody reads and nobody waits for are forgotten.
        places.retain(|_, one| Arc::strong_count(one) > 1);
        let one = places.entry(place);
        Arc::clone(one.or_insert_with(|| Arc::new(Semaphore::new(1))))
    }
}

/// Threads that may hang at a time. With more, a dead file system would take all those of the runtime.
static THREADS: Threads = Threads::new(THREADS_MAX);
/// Threads for reads of many files, which may hang for longer.
static THREADS_FOR_ALL: Semaphore = Semaphore::const_new(THREADS_MAX);
const THREADS_MAX: usize = 8;

/// Far less than the shortest hold time of a session (RFC 4271 §4.2), which may wait for a few of them.
const READ_MAX: Duration = Duration::from_millis(750);
/// Less than an operator waits for a reload, and more than the files of the largest configuration take.
const READ_ALL_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver};

    use super::*;

    static ONE: Threads = Threads::new(1);
    static TWO: Threads = Threads::new(2);

    fn place_of(file: &str) -> Place {
        place([PathBuf::from(file)].iter())
    }

    async fn late_ones() {
        tokio::task::yield_now().await;
        tokio::time::advance(READ_MAX * 2).await;
    }

    /// Reads at two places: the first read hangs until `hangs` ends, and neither is answered in time.
    async fn both_late(threads: &'static Threads, [one, other]: [&str; 2], hangs: Receiver<()>) {
        let hang = read_by(threads, place_of(one), move || {
            let _ended = hangs.recv();
        });
        let wait = read_by(threads, place_of(other), || ());
        let (hung, waited, ()) = tokio::join!(hang, wait, late_ones());
        for outcome in [hung, waited] {
            assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_hangs_is_given_up_and_keeps_its_thread_until_it_ends() {
        let (end, hangs) = mpsc::channel();
        both_late(&ONE, ["/a/key", "/b/key"], hangs).await;
        drop(end);
        assert_eq!(read_by(&ONE, place_of("/a/key"), || 7).await.unwrap(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_directory_that_hangs_takes_one_thread() {
        let (_end, hangs) = mpsc::channel();
        both_late(&TWO, ["/a/key", "/a/other"], hangs).await;
        assert_eq!(read_by(&TWO, place_of("/b/key"), || 7).await.unwrap(), 7);
    }
}
