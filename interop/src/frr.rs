//! FRR in a namespace: one set of daemons per node, kept apart by FRR's own path space (`-N`), so that
//! `ip netns exec NODE vtysh -N NODE` works for whoever looks around.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

use crate::{
    clock, command,
    daemon::Daemon,
    failure::{Context, Failure},
    namespace::Namespace,
    speakers::Speakers,
};

/// Where FRR keeps what belongs to one path space, and whose FRR runs there.
pub(crate) struct PathSpace<'a> {
    pub(crate) namespace: &'a Namespace,
    pub(crate) speakers: &'a Speakers,
}

impl PathSpace<'_> {
    fn configuration(&self) -> PathBuf {
        Path::new("/etc/frr").join(&self.namespace.0)
    }

    fn sockets(&self) -> PathBuf {
        Path::new("/run/frr").join(&self.namespace.0)
    }

    /// Makes the folders, and puts the files that a container would find in /etc/frr there.
    pub(crate) fn install(&self, files: &[(PathBuf, String)]) -> Result<(), Failure> {
        for folder in [self.configuration(), self.sockets()] {
            let folder = folder.display().to_string();
            command::answer(&[
                "install", "-d", "-m", "755", "-o", "frr", "-g", "frr", &folder,
            ])?;
        }
        for (from, name) in files {
            let to = self.configuration().join(name);
            fs::copy(from, &to).context(|| format!("{} to {}", from.display(), to.display()))?;
        }
        Ok(())
    }

    /// The daemons that the `daemons` file says yes to and this FRR has, with their options.
    pub(crate) fn daemons(&self, folder: &Path) -> Result<Vec<Daemon>, Failure> {
        let path = self.configuration().join("daemons");
        let text = fs::read_to_string(&path).context(|| path.display().to_string())?;
        enabled(&text)
            .into_iter()
            .filter(|(name, _)| self.speakers.bring(&program(name)))
            .map(|(name, options)| {
                let mut argv = vec![
                    program(&name).display().to_string(),
                    "-N".to_owned(),
                    self.namespace.0.clone(),
                ];
                argv.extend(command::words(&options)?);
                let argv = self.speakers.own(argv);
                let folder = folder.to_path_buf();
                Ok(Daemon::new(&name, self.namespace, argv, folder))
            })
            .collect()
    }

    /// Waits until every daemon listens to vtysh, then loads frr.conf as FRR's start script does.
    pub(crate) fn load(&self, daemons: &mut [Daemon]) -> Result<(), Failure> {
        for daemon in daemons {
            let socket = format!("{}.vty", daemon.name);
            self.wait_for(&socket, daemon)?;
        }
        self.shell(&["-b"]).map(drop)
    }

    /// Starts a daemon. The others wait for zebra's socket: one that finds none tries again after 10 s. mgmtd is first.
    pub(crate) fn start(&self, daemon: &mut Daemon) -> Result<(), Failure> {
        let _gone_already = fs::remove_file(self.sockets().join(format!("{}.vty", daemon.name)));
        if daemon.name != "zebra" {
            return daemon.start();
        }
        let _gone_already = fs::remove_file(self.sockets().join(ZEBRA_SOCKET));
        daemon.start()?;
        self.wait_for(ZEBRA_SOCKET, daemon)
    }

    fn wait_for(&self, socket: &str, daemon: &mut Daemon) -> Result<(), Failure> {
        let deadline = clock::deadline(START_WITHIN);
        while !self.sockets().join(socket).exists() {
            if !daemon.running() || std::time::Instant::now() > deadline {
                let said = daemon.output();
                return Err(Failure::new(format!(
                    "{} of {} does not start: {said}",
                    daemon.name, self.namespace.0
                )));
            }
            clock::pause(Duration::from_millis(20))?;
        }
        Ok(())
    }

    pub(crate) fn remove(&self) {
        for folder in [self.configuration(), self.sockets()] {
            if folder.exists()
                && let Err(error) = fs::remove_dir_all(&folder)
            {
                println!("left behind: {}: {error}", folder.display());
            }
        }
    }

    pub(crate) fn vtysh(&self, commands: &[&str]) -> Result<String, Failure> {
        let commands: Vec<&str> = commands.iter().flat_map(|&line| ["-c", line]).collect();
        self.shell(&commands)
    }

    fn shell(&self, options: &[&str]) -> Result<String, Failure> {
        let argv = ["vtysh", "-N", &self.namespace.0].into_iter();
        let argv = argv.chain(options.iter().copied());
        let argv = self.speakers.own(argv.map(str::to_owned).collect());
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        self.namespace.run(&argv)
    }

    pub(crate) fn json(&self, command: &str) -> Result<Value, Failure> {
        let text = self.vtysh(&[command])?;
        serde_json::from_str(&text).context(|| format!("`{command}` of {}", self.namespace.0))
    }
}

/// (name, options) of what a `daemons` file enables. zebra and staticd always run, as in FRR.
fn enabled(daemons: &str) -> Vec<(String, String)> {
    let value = |key: &str| {
        daemons.lines().find_map(|line| {
            line.trim()
                .strip_prefix(key)?
                .strip_prefix('=')
                .map(str::trim)
        })
    };
    KNOWN
        .iter()
        .filter(|name| ALWAYS.contains(name) || value(name) == Some("yes"))
        .map(|name| {
            let options = value(&format!("{name}_options")).unwrap_or_default();
            ((*name).to_owned(), options.trim_matches('"').to_owned())
        })
        .collect()
}

fn program(daemon: &str) -> PathBuf {
    Path::new("/usr/lib/frr").join(daemon)
}

/// In the order in which FRR starts them.
const KNOWN: [&str; 5] = ["mgmtd", "zebra", "bgpd", "bfdd", "staticd"];

/// mgmtd came with FRR 9; interfaces and filters are configured through it.
const ALWAYS: [&str; 3] = ["mgmtd", "zebra", "staticd"];

/// What zebra listens on for the other daemons.
const ZEBRA_SOCKET: &str = "zserv.api";

/// A daemon listens within a tenth of a second; a busy machine is given longer.
const START_WITHIN: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_file_decides_what_runs() {
        let text = "zebra=yes\nbgpd=yes\nbfdd=no\nbgpd_options=\"-A 127.0.0.1 -p 1179\"\n";
        let names: Vec<String> = enabled(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["mgmtd", "zebra", "bgpd", "staticd"]);
        assert_eq!(enabled(text)[2].1, "-A 127.0.0.1 -p 1179");
    }
}
