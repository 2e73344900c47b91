//! The programs of Kubernetes, of one source: Debian has a package of kubectl only. Built once, kept in the user's cache.
//! Knows nothing of labs.

use std::{fs, process::Command, time::Instant};

use nix::fcntl::{Flock, FlockArg};

use crate::{
    clock, command,
    failure::{Context, Failure},
    packages, programs,
};

/// Builds them unless that was done before: some five minutes on two cores. The lab's script knows where they are.
pub(crate) fn obtain() -> Result<(), Failure> {
    packages::install(&[&packages::KUBERNETES])?;
    let cache = packages::cache()?;
    let folder = cache.join("kubernetes-1.20.2");
    fs::create_dir_all(&cache).context(|| cache.display().to_string())?;
    // Another run may be building them.
    let lock = folder.with_extension("lock");
    let file = fs::File::create(&lock).context(|| lock.display().to_string())?;
    let _lock = Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, error)| Failure::new(format!("{}: {error}", lock.display())))?;
    if PROGRAMS.iter().all(|name| folder.join(name).is_file()) {
        return Ok(());
    }
    println!("building {}", PROGRAMS.join(", "));
    // What was made in part is never taken for the whole.
    let half = folder.with_extension("half");
    for old in [&half, &folder] {
        if old.exists() {
            fs::remove_dir_all(old).context(|| old.display().to_string())?;
        }
    }
    fs::create_dir_all(&half).context(|| half.display().to_string())?;
    let mut build = Command::new("sh");
    build
        .arg(programs::root().join("interop/kubernetes/build.sh"))
        .arg(packages::archive()?)
        .args(PROGRAMS)
        .current_dir(&half);
    let start = Instant::now();
    let built = command::show(&mut build)?;
    println!("  after {}", clock::since(start));
    if built {
        fs::rename(half.join("bin"), &folder).context(|| folder.display().to_string())?;
    }
    fs::remove_dir_all(&half).context(|| half.display().to_string())?;
    match built {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{} were not built",
            PROGRAMS.join(", ")
        ))),
    }
}

const PROGRAMS: [&str; 5] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kubelet",
];
