//! Compares text with a file, or rewrites the file when `WEFT_REWRITE=1`.

use std::fs;
use std::path::{Path, PathBuf};

/// A file beside the scripts.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new("tests/scripts").join(name)
}

/// Fails at the first line that differs.
pub(crate) fn check(path: &Path, actual: &str) {
    if std::env::var("WEFT_REWRITE").is_ok_and(|value| value == "1") {
        fs::write(path, actual).unwrap();
        return;
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    let name = path.file_name().unwrap().to_string_lossy();
    for (index, (want, got)) in expected.lines().zip(actual.lines()).enumerate() {
        assert_eq!(
            want,
            got,
            "{name}:{}; WEFT_REWRITE=1 accepts all",
            index + 1
        );
    }
    assert_eq!(
        expected.lines().count(),
        actual.lines().count(),
        "lines of {name}"
    );
}
