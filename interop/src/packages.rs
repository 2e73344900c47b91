//! What Debian has to provide: found by what it brings, installed if it is missing.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use crate::{clock, command, failure::Failure};

/// Something we need, and the package that brings it.
pub(crate) struct Need {
    package: &'static str,
    found: fn() -> bool,
}

/// Real bgpd, bfdd and zebra.
const FRR: Need = Need {
    package: "frr",
    found: || Path::new("/usr/lib/frr/bgpd").exists() && command::exists("vtysh"),
};

/// A BMP collector.
const PMACCT: Need = Need {
    package: "pmacct",
    found: || command::exists("pmbmpd"),
};

/// A reader of MRT.
const BGPDUMP: Need = Need {
    package: "bgpdump",
    found: || command::exists("bgpdump"),
};

/// A decoder of everything.
const TSHARK: Need = Need {
    package: "tshark",
    found: || command::exists("tshark"),
};

/// Namespaces, links, routes and rules by hand.
const IPROUTE: Need = Need {
    package: "iproute2",
    found: || command::exists("ip") && command::exists("bridge"),
};

/// What weft-agent marks packets with.
const NFTABLES: Need = Need {
    package: "nftables",
    found: || command::exists("nft"),
};

/// Echoes.
const PING: Need = Need {
    package: "iputils-ping",
    found: || command::exists("ping"),
};

/// Neighbours by LLDP.
const LLDPD: Need = Need {
    package: "lldpd",
    found: || command::exists("lldpd") && command::exists("lldpcli"),
};

/// To run weft-agent.
pub(crate) const AGENT: [Need; 2] = [IPROUTE, NFTABLES];

/// To run tests beside the labs: readers and speakers of other authors, and a switch in a namespace.
pub(crate) const TEST: [Need; 9] = [
    IPROUTE,
    NFTABLES,
    LLDPD,
    PING,
    FRR,
    PMACCT,
    BGPDUMP,
    TSHARK,
    Need {
        package: "wireshark-common",
        found: || command::exists("text2pcap"),
    },
];

/// To run labs.
pub(crate) const LAB: [Need; 15] = [
    IPROUTE,
    NFTABLES,
    LLDPD,
    PING,
    Need {
        package: "procps",
        found: || command::exists("sysctl"),
    },
    FRR,
    Need {
        package: "tcpdump",
        found: || command::exists("tcpdump"),
    },
    Need {
        package: "gobgpd",
        found: || command::exists("gobgpd") && command::exists("gobgp"),
    },
    Need {
        package: "exabgp",
        found: || command::exists("exabgp"),
    },
    Need {
        package: "bird2",
        found: || command::exists("bird") && command::exists("birdc"),
    },
    Need {
        package: "curl",
        found: || command::exists("curl"),
    },
    Need {
        package: "openssl",
        found: || command::exists("openssl"),
    },
    PMACCT,
    TSHARK,
    BGPDUMP,
];

/// To run a cluster of Slurm.
pub(crate) const SLURM: [Need; 3] = [
    Need {
        package: "slurmctld",
        found: || command::exists("slurmctld"),
    },
    Need {
        package: "slurmd",
        found: || command::exists("slurmd"),
    },
    Need {
        package: "slurm-client",
        found: || command::exists("sbatch") && command::exists("scontrol"),
    },
];

/// To run Kubernetes, and to build what Debian has the source of only.
pub(crate) const KUBERNETES: [Need; 7] = [
    Need {
        package: "busybox-static",
        // The other package's is linked with libraries.
        found: || Path::new("/usr/share/doc/busybox-static").exists(),
    },
    Need {
        package: "containerd",
        found: || command::exists("containerd"),
    },
    Need {
        package: "containernetworking-plugins",
        found: || Path::new("/usr/lib/cni/host-device").exists(),
    },
    Need {
        package: "etcd-server",
        found: || command::exists("etcd"),
    },
    Need {
        package: "golang-go",
        found: || command::exists("go"),
    },
    Need {
        package: "golang-github-modern-go-reflect2-dev",
        found: || go_package("github.com/modern-go/reflect2"),
    },
    Need {
        package: "runc",
        found: || command::exists("runc"),
    },
];

/// To unpack another release of Debian.
pub(crate) const UNPACK: [Need; 1] = [Need {
    package: "mmdebstrap",
    found: || command::exists("mmdebstrap"),
}];

/// To look at the page as a person would.
const PAGE: [Need; 2] = [
    Need {
        package: "npm",
        found: || command::exists("npm"),
    },
    Need {
        package: "chromium",
        found: || command::exists("chromium"),
    },
];

/// What drives the browser, and what looks for what some people could not use.
const NODE_MODULES: [&str; 2] = ["playwright-core@1.65.1", "axe-core@4.14.1"];

/// Installs a browser and what drives it; there, other than in a lab, is a network.
pub(crate) fn install_page() -> Result<(), Failure> {
    install(&[&PAGE])?;
    let folder = cache()?.join("page");
    let has = |module: &&str| {
        let name = module.split('@').next().unwrap_or(module);
        folder.join("node_modules").join(name).is_dir()
    };
    if NODE_MODULES.iter().all(has) {
        return Ok(());
    }
    println!("installing {}", NODE_MODULES.join(" "));
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]);
    match command::show(npm.arg(&folder).args(NODE_MODULES))? {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "npm did not install {}",
            NODE_MODULES.join(" ")
        ))),
    }
}

/// To look at the contract.
pub(crate) const CONTRACT: [Need; 1] = [Need {
    package: "npm",
    found: || command::exists("npx"),
}];

/// To make clients of the contract, and to ask weftd in JSON.
pub(crate) const CLIENTS: [Need; 7] = [
    Need {
        package: "python3-venv",
        found: || command::answer(&["python3", "-c", "import ensurepip, venv"]).is_ok(),
    },
    Need {
        package: "curl",
        found: || command::exists("curl"),
    },
    Need {
        package: "golang-go",
        found: || command::exists("go"),
    },
    Need {
        package: "protoc-gen-go",
        found: || command::exists("protoc-gen-go"),
    },
    Need {
        package: "protoc-gen-go-grpc",
        found: || command::exists("protoc-gen-go-grpc"),
    },
    Need {
        package: "golang-google-grpc-dev",
        found: || go_package("google.golang.org/grpc"),
    },
    Need {
        package: "golang-google-protobuf-dev",
        found: || go_package("google.golang.org/protobuf"),
    },
];

/// To look at a page of metrics.
pub(crate) const METRICS: [Need; 2] = [
    Need {
        package: "curl",
        found: || command::exists("curl"),
    },
    Need {
        package: "prometheus",
        found: || command::exists("promtool"),
    },
];

/// To look at man pages.
pub(crate) const MANUAL: [Need; 1] = [Need {
    package: "mandoc",
    found: || command::exists("mandoc"),
}];

/// A package of Go that Debian brings as source.
fn go_package(name: &str) -> bool {
    Path::new("/usr/share/gocode/src").join(name).is_dir()
}

/// To build weftd: bindgen wants libclang, RocksDB a C++ compiler, the raft crate's build `protoc`.
pub(crate) const BUILD: [Need; 4] = [
    Need {
        package: "libclang-dev",
        found: libclang,
    },
    Need {
        package: "g++",
        found: || command::exists("g++") || command::exists("clang++"),
    },
    Need {
        package: "make",
        found: || command::exists("make"),
    },
    Need {
        package: "protobuf-compiler",
        found: || command::exists("protoc"),
    },
];

/// Installs the packages of those needs that are not met, and says so. Without root or `apt-get` a
/// missing package is an error that names it.
pub(crate) fn install(needs: &[&[Need]]) -> Result<(), Failure> {
    let missing: Vec<&str> = needs
        .iter()
        .copied()
        .flatten()
        .filter(|need| !(need.found)())
        .map(|need| need.package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing {}", missing.join(" "));
    let start = Instant::now();
    if !nix::unistd::geteuid().is_root() || !command::exists("apt-get") {
        return Err(Failure::new(format!(
            "missing {}: only root can install it, with apt-get",
            missing.join(", ")
        )));
    }
    let mut update = Command::new("apt-get");
    update.args(["-qq", "update"]);
    let mut install = Command::new("apt-get");
    install
        .args([
            "-qq",
            "-y",
            "-o",
            "Dpkg::Use-Pty=0",
            "install",
            "--no-install-recommends",
        ])
        .args(&missing)
        .env("DEBIAN_FRONTEND", "noninteractive");
    if !(command::show(&mut update)? && command::show(&mut install)?) {
        return Err(Failure::new(format!(
            "apt-get did not install {}",
            missing.join(" ")
        )));
    }
    println!("installed in {}", clock::since(start));
    match needs.iter().copied().flatten().find(|need| !(need.found)()) {
        None => Ok(()),
        Some(need) => Err(Failure::new(format!(
            "{} is installed, but not what it should bring",
            need.package
        ))),
    }
}

/// The archive that this machine installs from.
pub(crate) fn archive() -> Result<String, Failure> {
    let said = command::answer(&["apt-get", "indextargets", "--format", "$(REPO_URI)"])?;
    said.lines()
        .find(|uri| !uri.contains("security"))
        .map(str::to_owned)
        .ok_or_else(|| Failure::new("apt knows no archive: see /etc/apt/sources.list.d"))
}

/// Where things stay that take long to get: `weft` in the user's cache.
pub(crate) fn cache() -> Result<PathBuf, Failure> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
        .map(|base| base.join("weft"))
        .ok_or_else(|| Failure::new("neither XDG_CACHE_HOME nor HOME is set"))
}

/// Labs make namespaces, and namespaces need root.
pub(crate) fn require_root() -> Result<(), Failure> {
    if nix::unistd::geteuid().is_root() {
        Ok(())
    } else {
        Err(Failure::new("labs run in network namespaces and need root"))
    }
}

/// The library, and the compiler's own headers beside it: bindgen needs both.
fn libclang() -> bool {
    let names = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect()
    };
    std::env::var_os("LIBCLANG_PATH").is_some()
        || names(Path::new("/usr/lib"))
            .iter()
            .filter(|path| path.display().to_string().starts_with("/usr/lib/llvm-"))
            .any(|llvm| {
                let library = names(&llvm.join("lib"))
                    .iter()
                    .any(|path| path.display().to_string().contains("/libclang.so"));
                library
                    && names(&llvm.join("lib/clang"))
                        .iter()
                        .any(|v| v.join("include/stddef.h").exists())
            })
}
