//! Scripts install packages of PyPI by their digests: one that is another tomorrow runs with the rights of the check.

use super::report;
use super::tree::files;

#[test]
fn scripts_install_python_packages_by_their_digests() {
    let scripts = files(".sh");
    let lines = scripts.iter().flat_map(|(path, text)| {
        let lines = text.lines().enumerate();
        lines.map(move |(number, line)| (format!("{path}:{}", number + 1), line))
    });
    let installs: Vec<_> = lines.filter(|(_, line)| installs(line)).collect();
    assert!(!installs.is_empty(), "no script installs a package");
    let unsafe_ones = installs.iter().filter(|(_, line)| !is_safe(line));
    let faults =
        unsafe_ones.map(|(at, _)| format!("{at}: pip installs with `--require-hashes` only"));
    report(&faults.collect::<Vec<_>>());
}

#[test]
fn an_install_without_digests_is_a_fault() {
    let safe = |line| installs(line) && is_safe(line);
    assert!(!safe("pip install grpcio"));
    assert!(!safe("\"$venv/bin/pip\" install 'grpcio>=1.74'"));
    assert!(safe("pip install --require-hashes -r requirements.txt"));
    assert!(safe("pip install --no-deps dist/*.whl"));
}

fn installs(line: &str) -> bool {
    line.contains("pip\" install") || line.contains("pip install")
}

/// A wheel of ours is built from this tree.
fn is_safe(line: &str) -> bool {
    line.contains("--require-hashes") || (line.contains("--no-deps") && line.ends_with("/*.whl"))
}
