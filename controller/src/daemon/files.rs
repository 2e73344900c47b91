//! Reads of small files that may lie on a file system that hangs: by a few threads that may wait, and not for long. Knows
//! no content.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
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
/// The error of `read`; or it took longer than [`READ_MAX`], waiting for its place and a thread included.
pub(crate) async fn read<T, E>(
    place: Place,
    read: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> io::Result<T>
where
    T: Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
{
    read_by(&THREADS, place, read).await
}

/// Runs `read`, which reads many files and for which nothing else waits, on a thread that may block.
///
/// # Errors
/// It took longer than [`READ_ALL_MAX`].
pub(crate) async fn read_all<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let reading = run(&THREADS_FOR_ALL, None, move || Ok::<_, io::Error>(read()));
    let in_time = timeout(READ_ALL_MAX, reading).await;
    in_time.unwrap_or_else(|_| Err(late()))
}

async fn read_by<T, E>(
    threads: &'static Threads,
    place: Place,
    read: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> io::Result<T>
where
    T: Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
{
    let reading = async {
        let place = threads.place(place).acquire_owned().await;
        let place = place.map_err(io::Error::other)?;
        run(&threads.free, Some(place), read).await
    };
    let in_time = timeout(READ_MAX, reading).await;
    in_time.unwrap_or_else(|_| Err(late()))
}

async fn run<T, E>(
    threads: &'static Semaphore,
    place: Option<OwnedSemaphorePermit>,
    read: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> io::Result<T>
where
    T: Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
{
    let thread = threads.acquire().await.map_err(io::Error::other)?;
    let read = spawn_blocking(move || {
        let outcome = read();
        // Only now: a read that hangs goes on when nobody waits for it any more.
        drop((thread, place));
        outcome
    });
    read.await
        .map_err(io::Error::other)?
        .map_err(io::Error::other)
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "files not read in time")
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
/// The same for reads of many files, which may hang for longer.
static THREADS_FOR_ALL: Semaphore = Semaphore::const_new(THREADS_MAX);
const THREADS_MAX: usize = 8;

/// Far less than the shortest hold time of a session (RFC 4271 §4.2), which may wait for a few of them.
const READ_MAX: Duration = Duration::from_millis(750);
/// Less than an operator waits for a reload, and more than the files of the largest configuration take.
const READ_ALL_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

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

    #[tokio::test(start_paused = true)]
    async fn a_read_that_hangs_is_given_up_and_keeps_its_thread_until_it_ends() {
        let (end, hangs) = mpsc::channel::<()>();
        let hang = read_by(&ONE, place_of("/a/key"), move || hangs.recv());
        let wait = read_by(&ONE, place_of("/b/key"), || Ok::<_, io::Error>(()));
        let (hung, waited, ()) = tokio::join!(hang, wait, late_ones());
        for outcome in [hung, waited] {
            assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
        drop(end);
        let read = read_by(&ONE, place_of("/a/key"), || Ok::<_, io::Error>(7));
        assert_eq!(read.await.unwrap(), 7);
        let refused = read_by(&ONE, place_of("/a/key"), || Err::<(), _>("no key")).await;
        assert_eq!(refused.unwrap_err().to_string(), "no key");
    }

    #[tokio::test(start_paused = true)]
    async fn a_directory_that_hangs_takes_one_thread() {
        let (end, hangs) = mpsc::channel::<()>();
        let hang = read_by(&TWO, place_of("/a/key"), move || hangs.recv());
        let wait = read_by(&TWO, place_of("/a/other"), || Ok::<_, io::Error>(()));
        let (hung, waited, ()) = tokio::join!(hang, wait, late_ones());
        for outcome in [hung, waited] {
            assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
        let elsewhere = read_by(&TWO, place_of("/b/key"), || Ok::<_, io::Error>(7));
        assert_eq!(elsewhere.await.unwrap(), 7);
        drop(end);
    }
}
