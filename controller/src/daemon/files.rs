//! Reads of small files that may lie on a file system that hangs: by a few threads that may wait, and not for long. Knows
//! no content.

use std::error::Error;
use std::io;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Runs `read` on a thread that may block. Tasks and sessions of the runtime go on meanwhile.
///
/// # Errors
/// The error of `read`; or it took longer than [`READ_MAX`], waiting for a thread included.
pub(crate) async fn read<T, E>(
    read: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> io::Result<T>
where
    T: Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
{
    read_by(&THREADS, read).await
}

async fn read_by<T, E>(
    threads: &'static Semaphore,
    read: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> io::Result<T>
where
    T: Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
{
    let reading = async {
        let thread = threads.acquire().await.map_err(io::Error::other)?;
        let read = spawn_blocking(move || {
            let outcome = read();
            // Only now: a read that hangs goes on when nobody waits for it any more.
            drop(thread);
            outcome
        });
        read.await
            .map_err(io::Error::other)?
            .map_err(io::Error::other)
    };
    let late = || io::Error::new(io::ErrorKind::TimedOut, "files not read in time");
    let in_time = timeout(READ_MAX, reading).await;
    in_time.unwrap_or_else(|_| Err(late()))
}

/// Threads that may hang at a time. With more, a dead file system would take all those of the runtime.
static THREADS: Semaphore = Semaphore::const_new(THREADS_MAX);
const THREADS_MAX: usize = 8;

/// Less than the shortest hold time of a session (RFC 4271 §4.2), which may wait for it.
const READ_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    static ONE: Semaphore = Semaphore::const_new(1);

    #[tokio::test(start_paused = true)]
    async fn a_read_that_hangs_is_given_up_and_keeps_its_thread_until_it_ends() {
        let (end, hangs) = mpsc::channel::<()>();
        let hang = read_by(&ONE, move || hangs.recv());
        let wait = read_by(&ONE, || Ok::<_, io::Error>(()));
        let time = async {
            tokio::task::yield_now().await;
            tokio::time::advance(READ_MAX * 2).await;
        };
        let (hung, waited, ()) = tokio::join!(hang, wait, time);
        for outcome in [hung, waited] {
            assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
        drop(end);
        assert_eq!(read_by(&ONE, || Ok::<_, io::Error>(7)).await.unwrap(), 7);
        let refused = read_by(&ONE, || Err::<(), _>("no key")).await;
        assert_eq!(refused.unwrap_err().to_string(), "no key");
    }
}
