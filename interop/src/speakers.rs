//! Speakers of another Debian release than this machine's: FRR, GoBGP, BIRD, ExaBGP and OpenBGPD as its archive has
//! them, unpacked beside the build and run with its /usr in the place of this machine's. Nothing of them is installed.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use crate::{
    clock, command,
    failure::{Context, Failure},
    packages,
};

/// A release of Debian, by the name that its archive gives it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, clap::ValueEnum, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Suite {
    /// The speakers that this machine has installed
    #[default]
    Installed,
    /// Debian 13: FRR 10.3, GoBGP 3.36, BIRD 3.1, ExaBGP 4.2, OpenBGPD 8.8
    Trixie,
    /// Debian's next release: FRR 10.7, GoBGP 4.8, BIRD 3.4, ExaBGP 5, OpenBGPD 9.3
    Testing,
}

impl Suite {
    /// The suite that a topology's label names.
    pub(crate) fn named(name: &str) -> Option<Self> {
        clap::ValueEnum::from_str(name, false).ok()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Trixie => "trixie",
            Self::Testing => "testing",
        }
    }
}

/// The programs of a suite.
#[derive(Debug, Clone, Default)]
pub(crate) struct Speakers {
    suite: Suite,
    /// Where they are unpacked; None: this machine has them.
    root: Option<PathBuf>,
}

impl Speakers {
    /// Unpacks a suite unless that was done before.
    pub(crate) fn obtain(suite: Suite) -> Result<Self, Failure> {
        if suite == Suite::Installed {
            return Ok(Self::default());
        }
        let root = cache()?.join(suite.name());
        let list = root.join(LIST);
        if fs::read_to_string(&list).is_ok_and(|had| had == PACKAGES) {
            return Ok(Self {
                suite,
                root: Some(root),
            });
        }
        packages::install(&[&packages::UNPACK])?;
        println!("unpacking the speakers of Debian {}", suite.name());
        let start = Instant::now();
        unpack(suite, &root)?;
        println!("unpacked in {}", clock::since(start));
        fs::write(&list, PACKAGES).context(|| list.display().to_string())?;
        Ok(Self {
            suite,
            root: Some(root),
        })
    }

    pub(crate) fn suite(&self) -> Suite {
        self.suite
    }

    /// Whether a program of this path is there.
    pub(crate) fn bring(&self, program: &Path) -> bool {
        let inside = program.strip_prefix("/").unwrap_or(program);
        match &self.root {
            Some(root) => root.join(inside).exists(),
            None => program.exists(),
        }
    }

    /// What to run in a network namespace for `argv` to be the suite's own program.
    ///
    /// `ip netns exec` has made a mount namespace: what is bound there is seen by this program alone. /etc, /run and
    /// the users stay this machine's.
    pub(crate) fn own(&self, argv: Vec<String>) -> Vec<String> {
        let Some(root) = &self.root else {
            return argv;
        };
        let name = argv.first().and_then(|path| path.rsplit('/').next());
        if !name.is_some_and(|name| PROGRAMS.contains(&name)) {
            return argv;
        }
        let user = if argv[0] == OPENBGPD { USER } else { "" };
        let bind = format!(
            "{user}mount --bind {}/usr /usr && exec \"$@\"",
            root.display()
        );
        // Not sh: dash drops variables whose names have dots, and ExaBGP's have.
        let shell = ["bash", "-c", bind.as_str(), "bash"];
        shell.map(str::to_owned).into_iter().chain(argv).collect()
    }
}

/// `mmdebstrap` computes dependencies and unpacks, and configures nothing. A half of a root is never taken for a
/// whole one: it is moved to its place at the end.
fn unpack(suite: Suite, root: &Path) -> Result<(), Failure> {
    let half = root.with_extension("half");
    for old in [&half, root] {
        if old.exists() {
            fs::remove_dir_all(old).context(|| old.display().to_string())?;
        }
    }
    let cache = cache()?;
    fs::create_dir_all(&cache).context(|| cache.display().to_string())?;
    let mut mmdebstrap = Command::new("mmdebstrap");
    mmdebstrap
        .args(["--quiet", "--mode=root", "--variant=extract"])
        // A mirror may be older than its Release file promises; signatures are checked all the same.
        .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
        .arg(format!("--include={PACKAGES}"))
        .arg(suite.name())
        .arg(&half)
        .arg(packages::archive()?);
    if !command::show(&mut mmdebstrap)? {
        let _nothing_usable = fs::remove_dir_all(&half);
        return Err(Failure::new(format!(
            "mmdebstrap did not unpack Debian {}",
            suite.name()
        )));
    }
    // Links that a package makes when it is configured.
    for (name, program) in [
        ("exabgp", "python3-exabgp"),
        ("exabgpcli", "python3-exabgp-cli"),
    ] {
        let link = half.join("usr/sbin").join(name);
        symlink(program, &link).context(|| link.display().to_string())?;
    }
    fs::rename(&half, root).context(|| root.display().to_string())
}

fn cache() -> Result<PathBuf, Failure> {
    packages::cache().map(|cache| cache.join("speakers"))
}

/// OpenBGPD; FRR's bgpd is elsewhere.
const OPENBGPD: &str = "/usr/sbin/bgpd";

/// The user that OpenBGPD becomes, in a folder that it can be shut in: the package would have made it.
const USER: &str = "mount -t tmpfs none /mnt && { cat /etc/passwd; \
                    echo '_openbgpd:x:65534:65534::/mnt:/bin/false'; } >/mnt/passwd && \
                    mount --bind /mnt/passwd /etc/passwd && ";

/// What is unpacked, as mmdebstrap wants it.
const PACKAGES: &str = "frr,gobgpd,bird3,exabgp,openbgpd";

/// Of the root, what it was made from.
const LIST: &str = "packages";

/// What a suite brings; anything else is this machine's.
const PROGRAMS: [&str; 13] = [
    "zebra",
    "bgpd",
    "bfdd",
    "staticd",
    "mgmtd",
    "vtysh",
    "gobgpd",
    "gobgp",
    "bird",
    "birdc",
    "exabgp",
    "exabgpcli",
    "bgpctl",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_speakers_are_taken_from_a_suite() {
        let argv = |line: &str| command::words(line).unwrap();
        let suite = Speakers {
            suite: Suite::Testing,
            root: Some(PathBuf::from("/root")),
        };
        let own = suite.own(argv("/usr/lib/frr/bgpd -N leaf1"));
        assert_eq!(own[2], "mount --bind /root/usr /usr && exec \"$@\"");
        assert_eq!(own[4..], argv("/usr/lib/frr/bgpd -N leaf1"));
        assert_eq!(suite.own(argv("ping ::1")), argv("ping ::1"));
        let openbgpd = suite.own(argv("/usr/sbin/bgpd -d"));
        assert!(openbgpd[2].contains("_openbgpd:") && openbgpd[2].ends_with(&own[2]));
        let installed = Speakers::default();
        assert_eq!(installed.own(argv("bird -f")), argv("bird -f"));
    }

    #[test]
    fn a_program_of_a_suite_has_the_environment_that_its_node_names() {
        let suite = Speakers {
            suite: Suite::Testing,
            root: Some(PathBuf::from("/root")),
        };
        let own = suite.own(vec!["exabgp".to_owned()]);
        let seen = Command::new(&own[0])
            .args(["-c", "exec \"$@\"", "-", "env"])
            .env("exabgp.daemon.user", "root")
            .output()
            .unwrap();
        let seen = String::from_utf8(seen.stdout).unwrap();
        assert!(seen.contains("exabgp.daemon.user=root"), "{seen}");
    }

    #[test]
    fn a_suite_has_the_archives_name() {
        assert_eq!(Suite::named("testing"), Some(Suite::Testing));
        assert_eq!(Suite::named("sarge"), None);
    }
}
