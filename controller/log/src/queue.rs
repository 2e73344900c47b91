//! Lines that wait to be written. Knows no thread, and no stream but the one that it is given.

use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines between the threads that log and the one that writes.
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Whole lines, at most [`QUEUE_MAX`] octets.
    waiting: Vec<u8>,
    /// True while lines that were taken out are being written.
    writing: bool,
    dropped: u64,
    dropped_at: Option<Instant>,
}

/// Lines that were not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Count since the program started.
    pub lines: u64,
    /// Time since the last one; `None`: there was none.
    pub ago: Option<Duration>,
}

impl Queue {
    pub(crate) const fn new() -> Self {
        let state = State {
            waiting: Vec::new(),
            writing: false,
            dropped: 0,
            dropped_at: None,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Queues a line, or drops it if it does not fit. Never waits for the stream.
    pub(crate) fn push(&self, line: &[u8]) {
        let mut state = self.state();
        if state.waiting.len() + line.len() > QUEUE_MAX {
            return state.drop_lines(1);
        }
        state.waiting.extend_from_slice(line);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for lines, and writes all that are queued. Returns true if the stream took each of them.
    pub(crate) fn write_to(&self, stream: &mut impl Write) -> bool {
        let idle = |state: &mut State| state.waiting.is_empty();
        let state = self.changed.wait_while(self.state(), idle);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let lines = std::mem::take(&mut state.waiting);
        state.writing = true;
        drop(state);
        // One write for each line: another process that shares the pipe does not cut one in two.
        let lines = lines.split_inclusive(|octet| *octet == b'\n');
        let lost = lines.filter(|line| stream.write_all(line).is_err());
        let lost = u64::try_from(lost.count()).unwrap_or(u64::MAX);
        let mut state = self.state();
        state.writing = false;
        if lost > 0 {
            state.drop_lines(lost);
        }
        drop(state);
        self.changed.notify_all();
        lost == 0
    }

    /// Waits until all lines are written, at most for `patience`.
    pub(crate) fn flush(&self, patience: Duration) {
        let busy = |state: &mut State| state.writing || !state.waiting.is_empty();
        drop(
            self.changed
                .wait_timeout_while(self.state(), patience, busy),
        );
    }

    pub(crate) fn dropped(&self) -> Dropped {
        let state = self.state();
        Dropped {
            lines: state.dropped,
            ago: state.dropped_at.map(|at| at.elapsed()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    #[expect(
        clippy::disallowed_methods,
        reason = "an operator asks when lines were lost"
    )]
    fn drop_lines(&mut self, count: u64) {
        self.dropped = self.dropped.saturating_add(count);
        self.dropped_at = Some(Instant::now());
    }
}

/// Some 8,000 lines: more than the sessions of a whole fabric log when they end at once. Above it lines are dropped.
const QUEUE_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc;

    use super::*;

    /// A pipe of no capacity: each write waits for its reader, and fails without one.
    struct Pipe(mpsc::SyncSender<Vec<u8>>);

    impl Write for Pipe {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let sent = self.0.send(octets.to_vec());
            sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn pipe() -> (Pipe, mpsc::Receiver<Vec<u8>>) {
        let (sender, reader) = mpsc::sync_channel(0);
        (Pipe(sender), reader)
    }

    #[test]
    fn lines_that_nobody_reads_are_dropped_and_counted_and_nobody_waits() {
        let queue = Queue::new();
        let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
        for _ in 0..2_000 {
            queue.push(&line);
        }
        let dropped = queue.dropped();
        assert_eq!(dropped.lines, 2_000 - 1_024);
        assert!(dropped.ago.is_some());
        let (mut pipe, reader) = pipe();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| queue.write_to(&mut pipe));
            assert_eq!(reader.recv().unwrap(), line, "one write for each line");
            // The writer waits for its reader. Threads that log do not, nor does the end of the program.
            queue.push(b"next\n");
            queue.flush(Duration::from_millis(1));
            drop(reader);
            assert!(!writer.join().unwrap());
        });
        assert_eq!(queue.dropped().lines, 2_000 - 1, "one was read");
    }

    #[test]
    fn a_flush_waits_until_all_is_written() {
        let queue = Queue::new();
        let mut written = Vec::new();
        std::thread::scope(|scope| {
            queue.push(b"one\n");
            queue.push(b"two\n");
            let writer = scope.spawn(|| queue.write_to(&mut written));
            queue.flush(Duration::from_secs(60));
            assert!(writer.join().unwrap());
        });
        assert_eq!(written, b"one\ntwo\n");
        queue.flush(Duration::from_secs(60));
        assert_eq!(queue.dropped(), Dropped::default());
    }
}
