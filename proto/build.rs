//! Compiles every `.proto` file of this package, without protoc. Knows nothing of their content.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost_types::FileDescriptorSet;

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);

    let mut files = Vec::new();
    // Only there: what clients in other languages leave in this directory is no reason to build anew.
    for folder in FOLDERS {
        collect(&root.join(folder), &mut files)?;
    }
    files.sort();

    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(&files)?;
    // With the options that are extensions: how a call is made over HTTP and JSON.
    fs::write(out.join("weft.bin"), compiler.encode_file_descriptor_set())?;
    let descriptors = compiler.file_descriptor_set();

    // Octets are shared, not copied: Raft messages and snapshots pass through here.
    let build = || tonic_prost_build::configure().bytes(".");
    let rest = descriptors.file.iter().cloned();
    let rest = rest.filter(|file| file.package() != API).collect();
    // The API embeds messages of others, and is compiled with them; theirs are written again afterwards, as they are to be.
    build()
        // Equal messages have equal octets.
        .btree_map(".")
        // A replica in a test answers what the test asks; what else it is asked is UNIMPLEMENTED.
        .generate_default_stubs(true)
        .compile_fds(descriptors)?;
    build().compile_fds(FileDescriptorSet { file: rest })?;
    Ok(())
}

/// The package of what programs and operators ask.
const API: &str = "weft.v1";

/// The folders of contracts.
const FOLDERS: [&str; 4] = ["gnmi", "google", "gribi", "weft"];

/// Adds the `.proto` files below `directory`, and asks to be run again when one comes or changes.
#[expect(
    clippy::disallowed_macros,
    reason = "cargo reads the standard output of a build script"
)]
fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={}", directory.display());
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push(path);
        }
    }
    Ok(())
}
