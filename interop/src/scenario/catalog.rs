//! Which labs there are, and what is known of each before it runs: its files, whether it bears others beside it, and the speakers
//! that it does not hold with.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    failure::{Context, Failure},
    programs,
    speakers::Suite,
};

/// The labs of the tree.
pub(crate) fn names() -> Result<Vec<String>, Failure> {
    names_in(&labs())
}

/// The labs of a folder, each with a topology file of its own name, beside what they share. A lab that is not
/// found is not run, and nobody misses its checks: so a folder without one is an error, and so is none at all.
fn names_in(labs: &Path) -> Result<Vec<String>, Failure> {
    let context = || labs.display().to_string();
    let mut names = Vec::new();
    for entry in fs::read_dir(labs).context(context)? {
        let entry = entry.context(context)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !entry.path().is_dir() || name == PARTS {
            continue;
        }
        let topology = topology_in(labs, &name);
        if !topology.is_file() {
            let reason = format!("{name} is no lab: there is no {}", topology.display());
            return Err(Failure::new(reason));
        }
        names.push(name);
    }
    names.sort();
    match names.is_empty() {
        true => Err(Failure::new(format!("no lab in {}", labs.display()))),
        false => Ok(names),
    }
}

pub(crate) fn folder(name: &str) -> PathBuf {
    labs().join(name)
}

pub(crate) fn topology_file(name: &str) -> PathBuf {
    topology_in(&labs(), name)
}

fn topology_in(labs: &Path, name: &str) -> PathBuf {
    labs.join(name).join(format!("{name}.clab.yml"))
}

fn labs() -> PathBuf {
    programs::root().join("interop/labs")
}

/// Returns true if a lab measures packets, a CPU or parts of a second: beside others it would measure those.
pub(super) fn runs_alone(lab: &str) -> bool {
    ALONE.contains(&lab)
}

/// Returns true if the expectations of a lab hold with the speakers of a suite.
pub(crate) fn holds_with(lab: &str, suite: Suite) -> bool {
    !NOT_WITH.contains(&(lab, suite))
}

/// The lab with a browser.
pub(super) const PAGE: &str = "page";

/// The lab with a cluster of Slurm.
pub(super) const SLURM: &str = "slurm";

/// The lab with Kubernetes.
pub(super) const KUBERNETES: &str = "kubernetes";

const ALONE: [&str; 9] = [
    "balance-off",
    "bfd",
    "collective",
    "evpn-basic",
    "far-link",
    "hung-replica",
    "idle",
    "kubernetes",
    "pods",
];

/// Labs whose expectations are those of another generation of speakers: `link-bandwidth` has the weights that FRR 8.4 writes.
const NOT_WITH: [(&str, Suite); 2] = [
    ("link-bandwidth", Suite::Trixie),
    ("link-bandwidth", Suite::Testing),
];

/// What labs share.
const PARTS: &str = "parts";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lab_of_the_tree_is_found() {
        let names = names().unwrap();
        assert!(names.contains(&"evpn-basic".to_owned()), "{names:?}");
        assert!(!names.contains(&PARTS.to_owned()), "{names:?}");
    }

    #[test]
    fn what_is_known_of_labs_is_known_of_labs_that_are_there() {
        let names = names().unwrap();
        let named = NOT_WITH.iter().map(|(lab, _)| lab).chain(&ALONE);
        for lab in named.chain(&[PAGE, SLURM, KUBERNETES]) {
            assert!(names.iter().any(|name| name == lab), "{lab}");
        }
    }

    #[test]
    fn a_folder_without_its_topology_is_an_error_and_so_is_no_lab() {
        let labs = std::env::temp_dir().join(format!("weft-labs-{}", std::process::id()));
        let said = || names_in(&labs).unwrap_err().to_string();
        fs::create_dir_all(labs.join(PARTS)).unwrap();
        assert!(said().starts_with("no lab in "));
        fs::create_dir(labs.join("bfd")).unwrap();
        fs::write(labs.join("bfd/bdf.clab.yml"), "").unwrap();
        assert!(said().starts_with("bfd is no lab: "), "{}", said());
        fs::write(topology_in(&labs, "bfd"), "").unwrap();
        assert_eq!(names_in(&labs).unwrap(), ["bfd"]);
        fs::remove_dir_all(&labs).unwrap();
    }
}
