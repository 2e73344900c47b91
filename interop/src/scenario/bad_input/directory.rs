//! A data directory that weftd must not open: of another replica, of another format. It is refused,
//! stays as it is, and opens as before once the mistake is taken back.

use std::{fs, path::Path, time::Instant};

use nix::sys::signal::Signal;

use super::{REPLICAS, SOON, mistakes, witness};
use crate::{
    check::Checks,
    failure::{Context, Failure},
    lab::Lab,
};

/// Stops the last replica, tries its directory in the wrong ways, and starts it again.
pub(super) fn refused(lab: &mut Lab, checks: &mut Checks) -> Result<(), Failure> {
    let (node, address) = REPLICAS[2];
    let (_, first) = REPLICAS[0];
    let weftd = match &lab.programs {
        Some(programs) => programs.path("weftd")?,
        None => return Ok(()),
    };
    lab.end(node, Signal::SIGTERM)?;
    let data = lab.folder().join(node).join("weft-data");
    let data_text = data.display().to_string();
    let own = read(&lab.files.join("weft/weft3.toml"))?.replace("weft-data", &data_text);
    let other = own
        .replacen("id = 3", "id = 1", 1)
        // Its own address stays the one that it can listen at.
        .replace(&format!("{first}:7400"), "OTHER")
        .replace(&format!("{address}:7400"), &format!("{first}:7400"))
        .replace("OTHER", &format!("{address}:7400"));

    let identity = data.join("identity");
    let marker = read(&identity)?;
    let older = marker.replace("format 5", "format 4");
    let newer = marker.replace("format 5", "format 6");
    let rows = [
        (
            "another replica's data directory",
            &other,
            &marker,
            ["belongs to replica 3", "replica 1"],
        ),
        (
            "a data directory of an older format",
            &own,
            &older,
            ["was written in format 4", "has format 5"],
        ),
        (
            "a data directory of a newer format",
            &own,
            &newer,
            ["was written in format 6", "has format 5"],
        ),
        (
            "a data directory without a cluster",
            &own,
            &"weft-store\nformat 5\nreplica 3\n".to_owned(),
            ["identity", "no cluster"],
        ),
    ];
    for (name, configuration, marked, says) in rows {
        let start = Instant::now();
        let file = lab.folder().join("wrong.toml");
        write(&file, configuration)?;
        write(&identity, marked)?;
        let mut says = says.map(str::to_owned).to_vec();
        says.extend(["replica.data_dir".to_owned(), data_text.clone()]);
        let told = lab.run(node, &[&weftd, "--config", &file.display().to_string()]);
        let verdict = mistakes::refusal(&says, told)?;
        let kept = read(&identity)? == *marked;
        let verdict = verdict.and_then(|note| match kept {
            true => Ok(note),
            false => Err("expected: an untouched directory\nactual:   another marker".to_owned()),
        });
        checks.record(name, start, verdict);
    }
    write(&identity, &marker)?;
    lab.start(node)?;
    checks.agree(
        "the replica opens its own directory and has the leaf's route",
        SOON,
        &super::before(),
        || witness::everywhere(lab),
    )?;
    Ok(())
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).context(|| path.display().to_string())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).context(|| path.display().to_string())
}
