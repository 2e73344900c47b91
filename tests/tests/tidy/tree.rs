//! The tree, read once for all rules. Knows folders and file names, and no rule.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

use crate::source::Source;

/// Folders that are not ours: the compiler's and the package managers'.
const FOREIGN: [&str; 3] = ["target", "node_modules", "__pycache__"];

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    // cargo runs a test in the folder of its package, which is inside the workspace.
    PathBuf::from("..")
}

/// Returns every Rust file of ours, sorted by path.
pub(crate) fn sources() -> &'static [Source] {
    static SOURCES: OnceLock<Vec<Source>> = OnceLock::new();
    SOURCES.get_or_init(|| read(&files(".rs")))
}

/// Returns the Rust files that are no tests, benches or examples.
pub(crate) fn product() -> impl Iterator<Item = &'static Source> {
    sources().iter().filter(|source| !source.test)
}

/// Returns paths and texts of the files whose names end so, sorted by path.
pub(crate) fn files(ending: &str) -> Vec<(String, String)> {
    let root = root();
    let mut paths = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the tree can be read") {
            let path = entry.expect("the tree can be read").path();
            let name = name(&path);
            if name.starts_with('.') || FOREIGN.contains(&name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(ending) {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let read = |path: &PathBuf| {
        let within = path.strip_prefix(&root).expect("found under the root");
        let text = fs::read_to_string(path).expect("the tree can be read");
        (within.to_string_lossy().into_owned(), text)
    };
    paths.iter().map(read).collect()
}

fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

fn read(files: &[(String, String)]) -> Vec<Source> {
    assert!(files.len() > 100, "only {} files found", files.len());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let each = |first: usize| {
        let files = files.iter().skip(first).step_by(threads);
        files
            .map(|(path, text)| Source::read(path, text))
            .collect::<Vec<_>>()
    };
    let mut sources: Vec<Source> = thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|first| scope.spawn(move || each(first)))
            .collect();
        let joined = readers
            .into_iter()
            .map(|reader| reader.join().expect("each file can be parsed"));
        joined.flatten().collect()
    });
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    leave_out_tests(&mut sources);
    sources
}

/// Marks the files of modules that are declared under `#[cfg(test)]`.
fn leave_out_tests(sources: &mut [Source]) {
    let modules = sources
        .iter()
        .flat_map(|source| source.items.test_modules.clone());
    let modules: Vec<String> = modules.collect();
    for source in sources {
        let of = |module: &String| {
            let rest = source.path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        source.test |= modules.iter().any(of);
    }
}

#[test]
fn files_of_test_modules_are_left_out() {
    let declaring = "#[cfg(test)]\nmod look;\nmod kept;\n";
    let files = [
        ("c/src/a.rs", declaring),
        ("c/src/a/kept.rs", ""),
        ("c/src/a/look.rs", ""),
        ("c/src/a/look/deep.rs", ""),
        ("c/src/a/looking.rs", ""),
        ("c/src/lib.rs", "#[cfg(test)]\nmod bench;\n"),
        ("c/src/bench.rs", ""),
    ];
    let mut sources: Vec<_> = files
        .iter()
        .map(|(path, text)| Source::read(path, text))
        .collect();
    leave_out_tests(&mut sources);
    let tests: Vec<_> = sources
        .iter()
        .filter(|source| source.test)
        .map(|source| source.path.as_str())
        .collect();
    assert_eq!(
        tests,
        ["c/src/a/look.rs", "c/src/a/look/deep.rs", "c/src/bench.rs"]
    );
}
