//! One long-running program in a namespace: started, signalled by its process id, ended.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    clock,
    failure::{Context, Failure},
    namespace::Namespace,
};

/// A program, how to start it, and its process while there is one.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) name: String,
    pub(crate) namespace: Namespace,
    pub(crate) argv: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    /// Where it runs; relative paths in its configuration start here.
    pub(crate) folder: PathBuf,
    /// Both of its outputs.
    pub(crate) log: PathBuf,
    child: Option<Child>,
}

impl Daemon {
    pub(crate) fn new(
        name: &str,
        namespace: &Namespace,
        argv: Vec<String>,
        folder: PathBuf,
    ) -> Self {
        let log = folder.join(format!("{name}.log"));
        Self {
            name: name.to_owned(),
            namespace: namespace.clone(),
            argv,
            env: BTreeMap::new(),
            folder,
            log,
            child: None,
        }
    }

    /// `ip netns exec` becomes the program, so the child's process id is the program's own. Its own
    /// process group keeps a Ctrl-C on our terminal away from it.
    pub(crate) fn start(&mut self) -> Result<(), Failure> {
        let log = self.open_log()?;
        let errors = log.try_clone().context(|| self.log.display().to_string())?;
        let child = Command::new("ip")
            .args(["netns", "exec", &self.namespace.0])
            .args(&self.argv)
            .envs(&self.env)
            .current_dir(&self.folder)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .context(|| self.argv.join(" "))?;
        self.child = Some(child);
        Ok(())
    }

    /// Its process id, once started.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let Some(child) = &self.child else {
            return Err(Failure::new(format!("{} has no process", self.name)));
        };
        let pid = i32::try_from(child.id()).context(|| format!("process id of {}", self.name))?;
        kill(Pid::from_raw(pid), signal).context(|| format!("{signal} to {}", self.name))
    }

    /// Sends a signal that ends the program, and waits until it has ended.
    pub(crate) fn end(&mut self, signal: Signal) -> Result<(), Failure> {
        self.signal(signal)?;
        let deadline = clock::deadline(END_WITHIN);
        while self.running() {
            if std::time::Instant::now() > deadline {
                self.signal(Signal::SIGKILL)?;
                return Err(Failure::new(format!(
                    "{} outlived {signal} by {END_WITHIN:?}",
                    self.name
                )));
            }
            clock::settle(Duration::from_millis(10));
        }
        let status = self.child.take().map(|mut child| child.try_wait());
        let ended_by = status.and_then(|status| status.ok()??.signal());
        match ended_by {
            Some(by) if by != signal as i32 => Err(Failure::new(format!(
                "{} ended with signal {by} after {signal}",
                self.name
            ))),
            _ => Ok(()),
        }
    }

    pub(crate) fn running(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Whether it ended without being asked to.
    pub(crate) fn fell(&mut self) -> bool {
        self.child.is_some() && !self.running()
    }

    pub(crate) fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn open_log(&self) -> Result<File, Failure> {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .context(|| self.log.display().to_string())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _gone_already = child.kill();
            let _reaped = child.wait();
        }
    }
}

/// A clean stop says Cease to its peers and closes a database; none of that takes seconds.
const END_WITHIN: Duration = Duration::from_secs(10);
