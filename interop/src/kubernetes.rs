//! kube-apiserver and kube-controller-manager: Debian has their source only, so they are built, once, beside the build of weft.

use std::{fs, process::Command};

use crate::{
    command,
    failure::{Context, Failure},
    packages, programs,
};

/// Builds them unless that was done before: some three minutes on two cores. The lab's script knows where they are.
pub(crate) fn obtain() -> Result<(), Failure> {
    packages::install(&[&packages::KUBERNETES])?;
    let folder = packages::cache()?.join("kubernetes");
    if PROGRAMS.iter().all(|name| folder.join(name).is_file()) {
        return Ok(());
    }
    println!("building {}", PROGRAMS.join(" and "));
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
    if !command::show(&mut build)? {
        let reason = format!("{} were not built", PROGRAMS.join(" and "));
        return Err(Failure::new(reason));
    }
    fs::rename(half.join("bin"), &folder).context(|| folder.display().to_string())?;
    fs::remove_dir_all(&half).context(|| half.display().to_string())
}

const PROGRAMS: [&str; 2] = ["kube-apiserver", "kube-controller-manager"];
