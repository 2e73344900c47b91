//! `weft backup save`: writes what is declared to a file, which is there whole or not at all.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::Args;

use super::state::State;
use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::printable;

/// Target of a backup.
#[derive(Args)]
pub(crate) struct Save {
    /// File to write or replace, readable by its owner alone; `-` is standard output.
    file: PathBuf,
}

impl Save {
    /// Asks and writes.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let backup = State::read(dialog).await?.backup;
        let file = self.file.display();
        if backup.is_empty() {
            let reason = format!("nothing is declared; {file} was not written");
            return Err(Failure::Unmet(reason));
        }
        let text = backup.text()?;
        if self.file == Path::new("-") {
            dialog.out.write_all(&text)?;
            return Ok(());
        }
        let written = replace(&self.file, &text);
        written.map_err(|error| Failure::Refused(format!("{file}: {error}")))?;
        let fabric = &backup.fabric;
        let written = serde_json::json!({
            "file": file.to_string(),
            "display_name": fabric.display_name,
            "generation": backup.generation,
        });
        if dialog.object(&written)? {
            return Ok(());
        }
        let line = format!(
            "{file}: fabric {}, generation {}: {} switches, {} hosts, {} links, {} host ports, {} jobs",
            fabric.display_name,
            backup.generation,
            fabric.switches.len(),
            fabric.hosts.len(),
            fabric.links.len(),
            fabric.host_ports.len(),
            backup.jobs.len(),
        );
        writeln!(dialog.out, "{}", printable(&line))?;
        Ok(())
    }
}

/// Writes a file that has its name only when it is complete, and on the disk.
fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let write = || {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let mut written = options.open(&part)?;
        // One that an earlier command left may have another mode.
        written.set_permissions(Permissions::from_mode(0o600))?;
        written.write_all(text)?;
        written.sync_all()?;
        std::fs::rename(&part, file)
    };
    let result = write();
    if result.is_err() {
        // The failure matters more than what is left of the part.
        let _ = std::fs::remove_file(&part);
    }
    result
}
