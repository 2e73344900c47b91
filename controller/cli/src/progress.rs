//! What is said on standard error beside an answer: that it takes longer than a second, if a person looks at that, and notes. Knows
//! no command.

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use tokio::time::sleep;

use crate::output::printable;

/// A line that is written again and again, until something else is printed.
pub(crate) struct Progress {
    shown: Cell<bool>,
    drawn: Cell<bool>,
    text: RefCell<String>,
    notes: RefCell<Vec<String>>,
}

impl Progress {
    /// Shown where standard error is a terminal.
    pub(crate) fn new() -> Self {
        Self {
            shown: Cell::new(io::stderr().is_terminal()),
            drawn: Cell::new(false),
            text: RefCell::new("waiting for an answer".to_owned()),
            notes: RefCell::default(),
        }
    }

    /// What the next line says.
    pub(crate) fn say(&self, text: impl Into<String>) {
        self.text.replace(text.into());
    }

    /// Takes the line away for good: something else is printed where it stands, or what is done has no end.
    pub(crate) fn end(&self) {
        self.shown.set(false);
        self.wipe();
    }

    /// Keeps a line that is not part of the answer, until that is printed.
    pub(crate) fn note(&self, line: impl Into<String>) {
        self.notes.borrow_mut().push(line.into());
    }

    /// The lines that are kept.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.take()
    }

    /// Does something, and shows the line from one second on.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let mut secs = 0_u64;
        loop {
            tokio::select! {
                done = &mut work => {
                    self.wipe();
                    return done;
                }
                () = sleep(SECOND) => secs += 1,
            }
            if self.shown.get() {
                let line = format!("\r{}, {secs} s\x1b[K", printable(&self.text.borrow()));
                write(&line);
                self.drawn.set(true);
            }
        }
    }

    /// Takes the line away until the next second: something else is printed where it stands.
    pub(crate) fn wipe(&self) {
        if self.drawn.replace(false) {
            write("\r\x1b[K");
        }
    }
}

/// A terminal that rows are printed to, on which no line of progress may stand then.
pub(crate) struct Screen<'a, W> {
    /// Where rows go.
    pub(crate) out: W,
    /// What ends with the first one.
    pub(crate) progress: &'a Progress,
}

impl<W: Write + IsTerminal> Write for Screen<'_, W> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.out.is_terminal() {
            self.progress.end();
        }
        self.out.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Nobody reads it when standard error is closed.
fn write(text: &str) {
    let mut err = io::stderr();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

const SECOND: Duration = Duration::from_secs(1);
