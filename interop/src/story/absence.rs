//! For how long a text was not in an answer: a question that is asked again and again, beside the steps of a story.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{clock, failure::Failure};

/// A thread that asks until it is told to stop.
pub(super) struct Absence {
    pub(super) name: String,
    stop: Arc<AtomicBool>,
    asking: thread::JoinHandle<Duration>,
}

impl Absence {
    /// Asks ten times a second whether the answer has `text`. No answer has not.
    pub(super) fn watch(
        name: &str,
        text: String,
        question: impl Fn() -> Result<String, Failure> + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let ask = move || {
            let mut absent = Duration::ZERO;
            let mut since = Instant::now();
            while !told.load(Ordering::Relaxed) && !clock::interrupted() {
                let there = question().is_ok_and(|answer| answer.contains(&text));
                let now = Instant::now();
                if !there {
                    absent += now - since;
                }
                since = now;
                clock::settle(BETWEEN);
            }
            absent
        };
        Self {
            name: name.to_owned(),
            stop,
            asking: thread::spawn(ask),
        }
    }

    /// For how long the text was not there.
    pub(super) fn stop(self) -> Result<Duration, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = |_| Failure::new(format!("who watched {} panicked", self.name));
        self.asking.join().map_err(panicked)
    }
}

const BETWEEN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absence_lasts_until_the_text_is_back() {
        let start = Instant::now();
        let question = move || {
            Ok(match start.elapsed() > Duration::from_millis(500) {
                true => "a b".to_owned(),
                false => "a".to_owned(),
            })
        };
        let absence = Absence::watch("b", "b".to_owned(), question);
        clock::settle(Duration::from_millis(1500));
        let absent = absence.stop().unwrap();
        assert!(absent >= Duration::from_millis(400), "{absent:?}");
        assert!(absent <= Duration::from_millis(1400), "{absent:?}");
    }
}
