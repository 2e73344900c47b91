//! What others build upon: the JSON that weftd says of itself, clients in other languages, gRIBI, metrics, and man pages.

use std::{
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::Duration,
};

use super::{Verification, pass};
use crate::{
    clock, command,
    failure::{Context, Failure},
    packages,
    programs::{Programs, root},
};

/// Every path of the document, asked for with what fits it and with what does not.
pub(super) fn openapi(_: &mut Verification) -> Result<(), Failure> {
    packages::install(&[&packages::CLIENTS])?;
    pass(
        check("openapi")
            .arg(Programs::build()?.path("weftd")?)
            .arg("60"),
    )
}

/// The Python wheel, its types, tests and story; Go stubs that compile; a switch as a gNMI client of others reads it.
pub(super) fn clients(verification: &mut Verification) -> Result<(), Failure> {
    packages::install(&[&packages::CLIENTS])?;
    let programs = Programs::build()?;
    pass(check("python").arg(programs.path("weftd")?))?;
    pass(&mut check("go"))?;
    if verification.arguments.without_root {
        println!("     left out: pygnmi, whose switch is a network namespace");
        return Ok(());
    }
    packages::install(&[&packages::TEST])?;
    let pygnmi = root().join("controller/agent/pygnmi/check.sh");
    pass(Command::new(pygnmi).arg(programs.path("weft-agent")?))
}

/// The tables of gRIBI cases that the agent's own tests run too, from another gRPC stack, on a kernel.
pub(super) fn gribi(_: &mut Verification) -> Result<(), Failure> {
    packages::install(&[&packages::CLIENTS, &packages::AGENT])?;
    let check = root().join("controller/agent/tests/gribi/check.sh");
    pass(Command::new(check).arg(Programs::build()?.path("weft-agent")?))
}

/// A folder of the contract has a check of its own, to be run by hand too.
fn check(folder: &str) -> Command {
    Command::new(root().join("proto").join(folder).join("check.sh"))
}

/// The page of a weftd that has a peer, a collector and a switch, as Prometheus judges it.
pub(super) fn metrics(_: &mut Verification) -> Result<(), Failure> {
    packages::install(&[&packages::METRICS])?;
    let weftd = Programs::build()?.path("weftd")?;
    let folder = Folder::make("metrics")?;
    let page = folder.0.join("page");
    let text = Lone::start(&weftd, &folder.0)?.page()?;
    fs::write(&page, &text).context(|| page.display().to_string())?;
    let opened = File::open(&page).context(|| page.display().to_string())?;
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(opened);
    let judged = promtool.status().context(|| "promtool".to_owned())?;
    if !judged.success() {
        return Err(Failure::new(format!("promtool ended with {judged}")));
    }
    let metrics = text.matches("# TYPE ").count();
    println!("     {metrics} metrics, no fault");
    Ok(())
}

/// Every page that `weft man` writes, as mandoc judges it. Matters of style are left out: clap_mangen writes the pages.
pub(super) fn manual(_: &mut Verification) -> Result<(), Failure> {
    packages::install(&[&packages::MANUAL])?;
    let weft = Programs::build()?.path("weft")?;
    let folder = Folder::make("manual")?;
    pass(Command::new(weft).arg("man").arg(&folder.0))?;
    let pages: Vec<PathBuf> = fs::read_dir(&folder.0)
        .context(|| folder.0.display().to_string())?
        .flatten()
        .map(|page| page.path())
        .collect();
    if pages.is_empty() {
        return Err(Failure::new("weft man wrote no page"));
    }
    let level = ["-T", "lint", "-W", "warning"];
    pass(Command::new("mandoc").args(level).args(&pages))?;
    println!("     {} pages, no fault", pages.len());
    Ok(())
}

/// A folder of this run, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn make(name: &str) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("weft-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).context(|| folder.display().to_string())?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_to_the_system = fs::remove_dir_all(&self.0);
    }
}

/// A weftd alone, on ports that nobody else has.
struct Lone {
    process: Child,
    api: String,
    metrics: String,
}

impl Lone {
    fn start(weftd: &str, folder: &Path) -> Result<Self, Failure> {
        let [bgp, api, metrics] = free_ports()?.map(|port| format!("127.0.0.1:{port}"));
        let data = folder.join("data");
        let config = folder.join("weftd.toml");
        let text = format!(
            r#"
            [replica]
            data_dir = "{}"
            [bgp]
            asn = 64496
            listen = ["{bgp}"]
            [[bgp.peer_group]]
            name = "leaves"
            remote_asn = 64496
            [[bgp.peer]]
            address = "127.0.0.2"
            peer_group = "leaves"
            [[bmp]]
            name = "lab"
            address = "127.0.0.1:9"
            [api]
            listen = "{api}"
            [metrics]
            listen = "{metrics}"
            "#,
            data.display()
        );
        fs::write(&config, text).context(|| config.display().to_string())?;
        let log = folder.join("weftd.log");
        let log = File::create(&log).context(|| log.display().to_string())?;
        let mut command = Command::new(weftd);
        command.arg("--config").arg(&config);
        command.stderr(log);
        let process = command.spawn().context(|| weftd.to_owned())?;
        Ok(Self {
            process,
            api,
            metrics,
        })
    }

    /// The page of metrics, once there is something to be said of a switch.
    fn page(&self) -> Result<String, Failure> {
        let ready = format!("http://{}/readyz", self.api);
        answered(|| command::answer(&["curl", "--silent", "--fail", &ready]))?;
        for (path, data) in [("fabric:apply", FABRIC), ("leafBalances:set", ON)] {
            let address = format!("http://{}/v1/{path}", self.api);
            let kind = "content-type: application/json";
            let ask = [
                "curl", "--silent", "--fail", "--header", kind, "--data", data, &address,
            ];
            command::answer(&ask)?;
        }
        let page = format!("http://{}/metrics", self.metrics);
        answered(|| {
            let text = command::answer(&["curl", "--silent", "--fail", &page])?;
            let missing = SERIES.iter().find(|series| !text.contains(**series));
            match missing {
                Some(series) => Err(Failure::new(format!("no {series} in {page}"))),
                None => Ok(text),
            }
        })
    }
}

impl Drop for Lone {
    fn drop(&mut self) {
        let _ended_by_itself = self.process.kill();
        let _ended_by_itself = self.process.wait();
    }
}

/// What something answers at last; what it said last, if it does not.
fn answered(ask: impl Fn() -> Result<String, Failure>) -> Result<String, Failure> {
    let mut answer = ask();
    for _ in 0..ATTEMPTS {
        if answer.is_ok() {
            break;
        }
        clock::pause(PAUSE)?;
        answer = ask();
    }
    answer
}

/// Ports that are free now.
fn free_ports() -> Result<[u16; 3], Failure> {
    let free = || TcpListener::bind("127.0.0.1:0").and_then(|it| Ok((it.local_addr()?.port(), it)));
    let taken = || "a free port".to_owned();
    let held = [free(), free(), free()].map(|port| port.context(taken));
    let [one, two, three] = held;
    Ok([one?.0, two?.0, three?.0])
}

/// A leaf that weft would program, and cannot reach.
const FABRIC: &str = r#"{"display_name": "lab", "switches": [
    {"name": "leaf1", "role": "SWITCH_ROLE_LEAF", "vtep_address": "192.0.2.1", "agent_address": "127.0.0.1:9"},
    {"name": "spine1", "role": "SWITCH_ROLE_SPINE"}
]}"#;
/// In shadow, weft wants no session to it, and has no metric of one.
const ON: &str = r#"{"all_leaves": true, "mode": "BALANCE_MODE_ON"}"#;
/// Of each kind of metric one series, so that a page that lost some is noticed.
const SERIES: [&str; 10] = [
    "weft_api_request_duration_seconds_bucket{",
    "weft_bgp_advertise_duration_seconds_count ",
    "weft_bgp_peer_state{",
    "weft_bmp_connected{",
    "weft_build_info{",
    "weft_evpn_vteps ",
    "weft_fabric_leaf_announced{",
    "weft_raft_sync_duration_seconds_count ",
    "weft_switch_agent_state{",
    "weft_switch_session_up{",
];
const ATTEMPTS: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);
