//! Privacy of a process. The one test of its file: both settings are of the whole process.

use std::fs;
use std::os::unix::fs::MetadataExt;

#[test]
fn a_private_process_has_no_core_dumps_and_makes_files_for_its_user_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().mode() & 0o777;
    weft_sys::make_private().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(mode(&file), 0o600);
    let inner = dir.path().join("inner");
    fs::create_dir(&inner).unwrap();
    assert_eq!(mode(&inner), 0o700);
    assert!(!nix::sys::prctl::get_dumpable().unwrap());
}
