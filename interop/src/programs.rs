//! weft's own programs: built by cargo, found where cargo put them.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use serde_json::Value;

use crate::{
    failure::{Context, Failure},
    timings,
};

/// The folder with weftd, weft-agent, weft and weft-sim.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Builds them in the one profile of the tree, and finds them.
    ///
    /// The whole workspace and its examples are chosen because cargo chooses the features of dependencies by what
    /// is built: like this they are those of `cargo test --workspace`, and nothing is compiled twice. A run builds them once.
    pub(crate) fn build() -> Result<Self, Failure> {
        if let Some(built) = BUILT.get() {
            return Ok(built.clone());
        }
        let mut build = cargo();
        build.args(["build", "--release", "--workspace", "--bins", "--examples"]);
        if !timings::build(&mut build, &target()?)? {
            return Err(Failure::new(
                "cargo build of weftd, weft-agent, weft and weft-sim failed",
            ));
        }
        let built = Self::find()?;
        Ok(BUILT.get_or_init(|| built).clone())
    }

    /// Finds them in cargo's target directory.
    pub(crate) fn find() -> Result<Self, Failure> {
        let found = Self {
            folder: target()?.join("release"),
        };
        for program in ["weftd", "weft-agent", "weft", "weft-sim"] {
            found.path(program)?;
        }
        Ok(found)
    }

    pub(crate) fn path(&self, program: &str) -> Result<String, Failure> {
        let path = self.folder.join(program);
        if path.is_file() {
            Ok(path.display().to_string())
        } else {
            Err(Failure::new(format!("{} does not exist", path.display())))
        }
    }
}

/// The directory where cargo puts what it builds.
pub(crate) fn target() -> Result<PathBuf, Failure> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .context(|| "cargo metadata".to_owned())?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).context(|| "cargo metadata".to_owned())?;
    Ok(PathBuf::from(
        metadata["target_directory"].as_str().unwrap_or("target"),
    ))
}

/// The programs that this run has built.
static BUILT: OnceLock<Programs> = OnceLock::new();

/// cargo, in the root of the workspace, with the environment that a person has who calls it. What the cargo that runs this program
/// says of its package is left out: build scripts look at it, and half of the workspace would be compiled again.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo.current_dir(root());
    let of_package =
        |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(of_package) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// The root of the workspace that cargo runs this program for; by hand, of the one it was built in.
///
/// A target folder that several clones share keeps one program for all of them, with the paths of
/// the clone that compiled it last.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        package
            .parent()
            .expect("this package is a folder of the workspace")
            .to_owned()
    })
}
