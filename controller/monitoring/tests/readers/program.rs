//! Programs of other authors, run on a file or on octets.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a program is; says loudly when it is nowhere.
pub(crate) fn find(program: &str, package: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];
    let found = folders
        .iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.exists());
    if found.is_none() {
        say(&format!(
            "NOT TESTED: {program} is missing, apt-get install -y {package}"
        ));
    }
    found
}

/// To the terminal, even where the harness keeps what a test prints.
fn say(text: &str) {
    use std::io::Write as _;
    std::io::stderr()
        .write_all(format!("\n!!!! {text} !!!!\n").as_bytes())
        .unwrap();
}

/// What it printed, both ways; it must succeed.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
    text
}
