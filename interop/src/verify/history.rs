//! Runs of `cargo verify` that were before: seconds of each step and lab, and labs that were flaky. A file in the user's cache. It
//! does not know how a lab is run.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    failure::{Context, Failure},
    packages,
};

/// Facts of earlier runs, and of this one so far.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct History {
    /// Seconds of each step, and of each lab, in its last run.
    seconds: BTreeMap<String, f64>,
    /// Flaky labs of each run that had labs, this run last. A lab is in it once for each time that it failed and then passed.
    flaky: Vec<Vec<String>>,
}

impl History {
    /// Reads the file. No file, or one that is damaged, is a history without runs.
    pub(super) fn read(path: &Path) -> Self {
        let Ok(text) = fs::read_to_string(path) else {
            return Self::default();
        };
        serde_json::from_str(&text).unwrap_or_else(|error| {
            println!("{}: {error}; starting anew", path.display());
            Self::default()
        })
    }

    /// Writes the file as a whole: a reader sees the old one or the new one.
    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let context = || path.display().to_string();
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).context(context)?;
        }
        let text = serde_json::to_string_pretty(self).context(context)?;
        let half = path.with_extension(format!("{}", std::process::id()));
        fs::write(&half, text).context(context)?;
        fs::rename(&half, path).context(context)
    }

    /// Begins a run of labs, and forgets all but the last ones.
    pub(super) fn begin(&mut self) {
        self.flaky.push(Vec::new());
        let old = self.flaky.len().saturating_sub(RUNS);
        self.flaky.drain(..old);
    }

    /// Notes that a lab of this run failed and then passed alone.
    pub(super) fn flaked(&mut self, lab: &str) {
        if let Some(now) = self.flaky.last_mut() {
            now.push(lab.to_owned());
        }
    }

    /// Judges the flaky labs of this run: at most one, and none that was flaky in the runs before.
    pub(super) fn judge(&self) -> Result<(), Failure> {
        let Some(now) = self.flaky.last() else {
            return Ok(());
        };
        if now.len() > 1 {
            return Err(Failure::new(format!(
                "{} flaky labs in one run: {}",
                now.len(),
                now.join(", ")
            )));
        }
        for lab in now {
            let times = self.flaky.iter().flatten().filter(|it| *it == lab).count();
            if times > 1 {
                return Err(Failure::new(format!(
                    "{lab} was flaky {times} times within {} runs",
                    self.flaky.len()
                )));
            }
        }
        Ok(())
    }

    /// Notes how long a step or a lab took.
    pub(super) fn took(&mut self, name: &str, time: Duration) {
        let tenths = (time.as_secs_f64() * 10.0).round();
        self.seconds.insert(name.to_owned(), tenths / 10.0);
    }

    /// Seconds that a step or a lab took in its last run; `-` before its first.
    pub(super) fn last(&self, name: &str) -> String {
        match self.seconds.get(name) {
            Some(seconds) => format!("{seconds:.1} s"),
            None => "-".to_owned(),
        }
    }
}

/// The file of this user.
pub(super) fn file() -> Result<PathBuf, Failure> {
    Ok(packages::cache()?.join("verify.json"))
}

/// A lab that is flaky twice within so many runs is no accident.
const RUNS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(flaky: &[&[&str]]) -> History {
        let mut history = History::default();
        for labs in flaky {
            history.begin();
            labs.iter().for_each(|lab| history.flaked(lab));
        }
        history
    }

    fn reason(history: &History) -> String {
        history.judge().unwrap_err().to_string()
    }

    #[test]
    fn one_flaky_lab_is_forgiven_and_two_in_one_run_are_not() {
        assert_eq!(runs(&[]).judge(), Ok(()));
        assert_eq!(runs(&[&[]]).judge(), Ok(()));
        assert_eq!(runs(&[&["bfd"]]).judge(), Ok(()));
        assert_eq!(runs(&[&["bfd"], &["rtc"]]).judge(), Ok(()));
        let two = runs(&[&["bfd", "rtc"]]);
        assert_eq!(reason(&two), "2 flaky labs in one run: bfd, rtc");
        // With speakers of two releases.
        assert!(runs(&[&["bfd", "bfd"]]).judge().is_err());
    }

    #[test]
    fn a_lab_that_is_flaky_twice_within_ten_runs_is_not_forgiven() {
        let mut flaky: Vec<&[&str]> = vec![&["bfd"]];
        flaky.extend([&[][..]; 8]);
        flaky.push(&["bfd"]);
        assert_eq!(
            reason(&runs(&flaky)),
            "bfd was flaky 2 times within 10 runs"
        );
        // The next run is not red for it.
        flaky.push(&[]);
        assert_eq!(runs(&flaky).judge(), Ok(()));
        // Ten runs later it is forgotten.
        flaky.insert(1, &[]);
        flaky.pop();
        assert_eq!(flaky.len(), 11);
        assert_eq!(runs(&flaky).judge(), Ok(()));
    }

    #[test]
    fn a_history_survives_its_file_and_a_damaged_file_is_none() {
        let folder = std::env::temp_dir().join(format!("weft-history-{}", std::process::id()));
        let path = folder.join("verify.json");
        let mut history = runs(&[&["bfd"]]);
        history.took("labs", Duration::from_millis(12_340));
        history.write(&path).unwrap();
        let read = History::read(&path);
        assert_eq!(read.last("labs"), "12.3 s");
        assert_eq!(read.last("fuzz"), "-");
        assert_eq!(read.flaky, history.flaky);
        fs::write(&path, "{").unwrap();
        assert!(History::read(&path).flaky.is_empty());
        fs::remove_dir_all(&folder).unwrap();
        assert!(History::read(&path).flaky.is_empty());
    }
}
