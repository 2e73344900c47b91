//! What one run of a lab owns outside of this process, under a name of its own: found and removed when a
//! killed run left it. It does not know what a node is for.

use std::{fs, path::PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::{
    failure::{Context, Failure},
    frr::PathSpace,
    namespace::Namespace,
    speakers::Speakers,
    topology::Topology,
};

/// What one run owns outside of this process. The lock tells the living from the dead.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    _lock: Flock<fs::File>,
}

impl Run {
    /// Takes the first free name, `clab-LAB` or `clab-LAB-N`, and removes what a dead run left under it.
    pub(super) fn begin(lab: &str, topology: &Topology) -> Result<Self, Failure> {
        for attempt in 1..=RUNS_AT_ONCE {
            let suffix = if attempt == 1 {
                String::new()
            } else {
                format!("-{attempt}")
            };
            let name = format!("clab-{lab}{suffix}");
            let folder = runs().join(&name);
            fs::create_dir_all(&folder).context(|| folder.display().to_string())?;
            let path = folder.join("lock");
            let file = fs::File::create(&path).context(|| path.display().to_string())?;
            let Ok(lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else {
                continue;
            };
            let run = Self {
                name,
                folder,
                _lock: lock,
            };
            run.remove_all();
            let own = topology
                .nodes
                .iter()
                .filter(|(_, node)| node.parent().is_none());
            let namespaces: Vec<Namespace> = own.map(|(node, _)| run.namespace(node)).collect();
            if namespaces.iter().any(Namespace::exists) {
                continue; // somebody else's, for instance containerlab's own
            }
            fs::create_dir_all(&run.folder).context(|| run.folder.display().to_string())?;
            let list: String = namespaces
                .iter()
                .map(|namespace| format!("{}\n", namespace.0))
                .collect();
            fs::write(run.list(), list).context(|| run.list().display().to_string())?;
            return Ok(run);
        }
        Err(Failure::new(format!(
            "{RUNS_AT_ONCE} runs of {lab} at once: no name left"
        )))
    }

    pub(super) fn namespace(&self, node: &str) -> Namespace {
        Namespace(format!("{}-{node}", self.name))
    }

    fn list(&self) -> PathBuf {
        self.folder.join("namespaces")
    }

    /// Removes every namespace that the list names, then the list and all else but the lock.
    pub(super) fn remove_all(&self) {
        for name in fs::read_to_string(self.list()).unwrap_or_default().lines() {
            let namespace = Namespace(name.to_owned());
            namespace.remove();
            let speakers = &Speakers::default();
            let namespace = &namespace;
            PathSpace {
                namespace,
                speakers,
            }
            .remove();
        }
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        for entry in entries
            .flatten()
            .filter(|entry| entry.file_name() != "lock")
        {
            let path = entry.path();
            let removed = if path.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            if let Err(error) = removed {
                println!("left behind: {}: {error}", path.display());
            }
        }
    }
}

/// Where runs leave what they write.
pub(super) fn runs() -> PathBuf {
    std::env::temp_dir().join("weft-interop")
}

/// Several people on one machine may each run a lab; more than this is a leak.
const RUNS_AT_ONCE: u32 = 9;
