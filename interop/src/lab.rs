//! A lab while it is up: namespaces, links, programs; and everything gone again when it is dropped,
//! or, where a run was killed, when the next one starts. It does not know what a lab is meant to show.

mod run;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use nix::sys::signal::Signal;

use crate::{
    command,
    daemon::Daemon,
    failure::{Context, Failure},
    frr::PathSpace,
    namespace::{self, Namespace},
    programs::Programs,
    speakers::{Speakers, Suite},
    topology::{Image, Topology},
};

use run::{Run, runs};

/// A running lab.
#[derive(Debug)]
pub(crate) struct Lab {
    /// Where the lab's files are.
    pub(crate) files: PathBuf,
    /// weft's programs; None: FRR stands in for weftd, and nobody runs the agents.
    pub(crate) programs: Option<Programs>,
    nodes: BTreeMap<String, Node>,
    run: Run,
}

#[derive(Debug)]
struct Node {
    namespace: Namespace,
    /// Shares its namespace with a parent.
    sidecar: bool,
    runs_frr: bool,
    speakers: Speakers,
    daemons: Vec<Daemon>,
    /// (path here, path in the container) of its files.
    bound: Vec<(PathBuf, String)>,
}

impl Node {
    fn frr(&self) -> PathSpace<'_> {
        PathSpace {
            namespace: &self.namespace,
            speakers: &self.speakers,
        }
    }

    fn named<'a>(&'a mut self, program: Option<&'a str>) -> impl Iterator<Item = &'a mut Daemon> {
        let all = self.daemons.iter_mut();
        all.filter(move |daemon| program.is_none_or(|program| daemon.name == program))
    }
}

impl Lab {
    /// Brings a lab up, with the speakers of a suite where a node does not name its own. What went up is taken down
    /// again when an error ends this early.
    pub(crate) fn up(
        files: &Path,
        topology: &Topology,
        programs: Option<Programs>,
        suite: Suite,
    ) -> Result<Self, Failure> {
        let run = Run::begin(&topology.name, topology)?;
        let mut lab = Self {
            files: files.to_path_buf(),
            programs,
            nodes: BTreeMap::new(),
            run,
        };
        lab.create_namespaces(topology, suite)?;
        for [a, b] in &topology.links {
            let (near, far) = (lab.namespace(&a.node)?, lab.namespace(&b.node)?);
            namespace::link((near, &a.interface), (far, &b.interface))?;
        }
        for name in topology.nodes.keys() {
            lab.prepare(name, topology)?;
        }
        for sidecars in [false, true] {
            for name in topology.nodes.keys() {
                if lab.node(name)?.sidecar == sidecars {
                    lab.equip(name, topology)?;
                    lab.start(name)?;
                }
            }
        }
        Ok(lab)
    }

    pub(crate) fn namespace(&self, node: &str) -> Result<&Namespace, Failure> {
        Ok(&self.node(node)?.namespace)
    }

    /// The suite whose speakers a node runs.
    pub(crate) fn suite(&self, node: &str) -> Result<Suite, Failure> {
        Ok(self.node(node)?.speakers.suite())
    }

    pub(crate) fn frr(&self, node: &str) -> Result<PathSpace<'_>, Failure> {
        self.node(node).map(Node::frr)
    }

    /// Runs a program in a node and returns what it printed.
    pub(crate) fn run(&self, node: &str, argv: &[&str]) -> Result<String, Failure> {
        self.namespace(node)?.run(argv)
    }

    /// Runs a line as a person in the node would type it, in the node's own folder, and returns what it
    /// printed.
    pub(crate) fn ask(&self, node: &str, line: &str) -> Result<String, Failure> {
        self.question(node, line)?()
    }

    /// A line as a person in the node would type it, to be asked as often as one likes and from any thread.
    pub(crate) fn question(
        &self,
        node: &str,
        line: &str,
    ) -> Result<impl Fn() -> Result<String, Failure> + Send + use<>, Failure> {
        let words = self.typed(node, line)?;
        let namespace = self.namespace(node)?.clone();
        let folder = self.run.folder.join(node);
        Ok(move || {
            let argv: Vec<&str> = words.iter().map(String::as_str).collect();
            namespace.run_in(&folder, &argv)
        })
    }

    /// What runs in a node's namespace when a person in the node types a line.
    pub(crate) fn typed(&self, node: &str, line: &str) -> Result<Vec<String>, Failure> {
        Ok(self.node(node)?.speakers.own(self.words(node, line)?))
    }

    /// Runs a line as [`Self::ask`] does, and returns all that it printed, whether it succeeded or not: some programs
    /// print their version where others print errors.
    pub(crate) fn all_said(&self, node: &str, line: &str) -> Result<String, Failure> {
        let words = self.node(node)?.speakers.own(self.words(node, line)?);
        let argv: Vec<&str> = words.iter().map(String::as_str).collect();
        self.namespace(node)?
            .all_said_in(&self.run.folder.join(node), &argv)
    }

    /// A program that goes on, as a person in the node would type its line; it is not started yet.
    pub(crate) fn program(&self, node: &str, title: &str, line: &str) -> Result<Daemon, Failure> {
        let argv = self.node(node)?.speakers.own(self.words(node, line)?);
        let folder = self.run.folder.join(node);
        let daemon = Daemon::new(title, self.namespace(node)?, argv, folder);
        let _none_before = fs::remove_file(&daemon.log);
        Ok(daemon)
    }

    /// The line with which a person asks the same from outside of the lab.
    pub(crate) fn spelled(&self, node: &str, line: &str) -> Result<String, Failure> {
        let words: Vec<String> = self
            .words(node, line)?
            .into_iter()
            .map(
                |word| match word.contains(|c: char| c.is_whitespace() || "'\"*[]".contains(c)) {
                    true => format!("\"{word}\""),
                    false => word,
                },
            )
            .collect();
        let namespace = &self.namespace(node)?.0;
        Ok(format!("ip netns exec {namespace} {}", words.join(" ")))
    }

    /// A line's words, with our own programs where cargo put them and FRR's shell in the node's path space.
    fn words(&self, node: &str, line: &str) -> Result<Vec<String>, Failure> {
        let mut words = command::words(&self.outside(line, node)?)?;
        if let Some(programs) = &self.programs {
            // A script that starts agents is told where they are.
            for word in words.iter_mut().filter(|word| *word == "weft-agent") {
                *word = programs.path(word)?;
            }
        }
        let first = words
            .first_mut()
            .ok_or_else(|| Failure::new(format!("nothing to run at {node}")))?;
        match (first.as_str(), &self.programs) {
            ("weft" | "weftd", Some(programs)) => *first = programs.path(first)?,
            ("vtysh", _) => {
                let space = self.namespace(node)?.0.clone();
                words.splice(1..1, ["-N".to_owned(), space]);
            }
            _ => {}
        }
        Ok(words)
    }

    /// Where programs of this run leave what they write.
    pub(crate) fn folder(&self) -> &Path {
        &self.run.folder
    }

    /// Starts those of the node's programs that do not run: at the beginning, and after `end`.
    pub(crate) fn start(&mut self, name: &str) -> Result<(), Failure> {
        let node = self.node_mut(name)?;
        let path_space = node.runs_frr.then_some(PathSpace {
            namespace: &node.namespace,
            speakers: &node.speakers,
        });
        for daemon in &mut node.daemons {
            if daemon.running() {
                continue;
            }
            match &path_space {
                Some(path_space) => path_space.start(daemon)?,
                None => daemon.start()?,
            }
        }
        match &path_space {
            Some(path_space) => path_space.load(&mut node.daemons),
            None => Ok(()),
        }
    }

    /// Ends the node's programs with a signal.
    pub(crate) fn end(&mut self, name: &str, signal: Signal) -> Result<(), Failure> {
        self.end_program(name, None, signal)
    }

    /// Ends one of the node's programs, or all of them, with a signal.
    pub(crate) fn end_program(
        &mut self,
        name: &str,
        program: Option<&str>,
        signal: Signal,
    ) -> Result<(), Failure> {
        self.node_mut(name)?
            .named(program)
            .try_for_each(|daemon| daemon.end(signal))
    }

    /// Sends a signal to one of the node's programs, or to all of them.
    pub(crate) fn signal(
        &mut self,
        name: &str,
        program: Option<&str>,
        signal: Signal,
    ) -> Result<(), Failure> {
        self.node_mut(name)?
            .named(program)
            .try_for_each(|daemon| daemon.signal(signal))
    }

    /// Stops or continues every program in the node's namespace, as `docker pause` does.
    pub(crate) fn freeze(&self, name: &str, frozen: bool) -> Result<(), Failure> {
        let signal = if frozen {
            Signal::SIGSTOP
        } else {
            Signal::SIGCONT
        };
        let namespace = self.namespace(name)?;
        for node in self
            .nodes
            .values()
            .filter(|node| node.namespace == *namespace)
        {
            node.daemons
                .iter()
                .try_for_each(|daemon| daemon.signal(signal))?;
        }
        Ok(())
    }

    /// Names of programs that ended without being asked to, and the last that each said.
    pub(crate) fn fallen(&mut self) -> Vec<String> {
        let mut fallen = Vec::new();
        for (name, node) in &mut self.nodes {
            for daemon in &mut node.daemons {
                if daemon.fell() {
                    let said = daemon.output();
                    fallen.push(format!(
                        "{} of {name}, see {}: {}",
                        daemon.name,
                        daemon.log.display(),
                        said.lines().next_back().unwrap_or_default()
                    ));
                }
            }
        }
        fallen
    }

    /// Copies the logs of this run to where they outlive it. Those of the run that failed before stay beside them.
    pub(crate) fn keep_logs(&self) -> Result<PathBuf, Failure> {
        let kept = runs().join(format!("logs-{}", self.run.name));
        let before = kept.with_extension("before");
        let _none_before = fs::remove_dir_all(&before);
        let _none_before = fs::rename(&kept, &before);
        for name in self.nodes.keys() {
            let from = self.run.folder.join(name);
            for entry in fs::read_dir(&from)
                .context(|| from.display().to_string())?
                .flatten()
            {
                if entry
                    .path()
                    .extension()
                    .is_some_and(|extension| extension == "log")
                {
                    fs::create_dir_all(kept.join(name)).context(|| kept.display().to_string())?;
                    let to = kept.join(name).join(entry.file_name());
                    fs::copy(entry.path(), &to).context(|| to.display().to_string())?;
                }
            }
        }
        Ok(kept)
    }

    fn node(&self, name: &str) -> Result<&Node, Failure> {
        self.nodes
            .get(name)
            .ok_or_else(|| Failure::new(format!("no node {name} in this lab")))
    }

    fn node_mut(&mut self, name: &str) -> Result<&mut Node, Failure> {
        self.nodes
            .get_mut(name)
            .ok_or_else(|| Failure::new(format!("no node {name} in this lab")))
    }

    fn create_namespaces(&mut self, topology: &Topology, suite: Suite) -> Result<(), Failure> {
        for (name, node) in &topology.nodes {
            let speakers = Speakers::obtain(node.speakers().unwrap_or(suite))?;
            let namespace = self.run.namespace(node.parent().unwrap_or(name));
            let sidecar = node.parent().is_some();
            if !sidecar {
                namespace.create()?;
            }
            let folder = self.run.folder.join(name);
            fs::create_dir_all(&folder).context(|| folder.display().to_string())?;
            let node = Node {
                namespace,
                sidecar,
                runs_frr: false,
                speakers,
                daemons: Vec::new(),
                bound: node
                    .bound_files()
                    .map(|(from, to)| {
                        Ok((bound(&self.files.join(from), &folder, to)?, to.to_owned()))
                    })
                    .collect::<Result<_, Failure>>()?,
            };
            self.nodes.insert(name.clone(), node);
        }
        Ok(())
    }

    /// sysctls and `exec` lines: what the node's network needs.
    fn prepare(&self, name: &str, topology: &Topology) -> Result<(), Failure> {
        let node = &topology.nodes[name];
        for (key, value) in &node.sysctls {
            self.run(name, &["sysctl", "-q", "-w", &format!("{key}={value}")])?;
        }
        for line in &node.exec {
            let words = command::words(&self.outside(line, name)?)?;
            let argv: Vec<&str> = words.iter().map(String::as_str).collect();
            self.namespace(name)?
                .run_in(&self.run.folder.join(name), &argv)
                .context(|| format!("exec of {name}"))?;
        }
        Ok(())
    }

    /// Decides which programs the node runs, and lays out their files.
    fn equip(&mut self, name: &str, topology: &Topology) -> Result<(), Failure> {
        let node = &topology.nodes[name];
        let folder = self.run.folder.join(name);
        let mut files: Vec<(PathBuf, String)> = Vec::new();
        match (node.image(), &self.programs) {
            (Image::Weft, Some(_)) | (Image::Host, _) => {
                return self.equip_with_cmd(name, node, folder);
            }
            (Image::Weft, None) => {
                let stand_in = |reflector: &str, name: String| {
                    let file = self.files.join(reflector).join(name);
                    file.is_file().then_some(file)
                };
                if let Some(file) = stand_in("reflector-gobgp", format!("{name}.toml")) {
                    let line = format!(
                        "gobgpd -t toml -l error --pprof-disable -f {}",
                        file.display()
                    );
                    let mut instead = node.clone();
                    instead.cmd = Some(line);
                    return self.equip_with_cmd(name, &instead, folder);
                }
                let Some(stand_in) = stand_in("reflector-frr", format!("{name}.conf")) else {
                    return Ok(());
                };
                files.extend(
                    node.frr_files(&self.files)
                        .filter(|(_, name)| name != "frr.conf"),
                );
                files.push((stand_in, "frr.conf".to_owned()));
            }
            (Image::Frr, _) => files.extend(node.frr_files(&self.files)),
        }
        let path_space = self.frr(name)?;
        path_space.install(&files)?;
        let daemons = path_space.daemons(&folder)?;
        let node = self.node_mut(name)?;
        node.runs_frr = true;
        node.daemons = daemons;
        Ok(())
    }

    /// The program that `cmd` names, of ours or of this machine; a host without `cmd` runs none.
    fn equip_with_cmd(
        &mut self,
        name: &str,
        node: &crate::topology::Node,
        folder: PathBuf,
    ) -> Result<(), Failure> {
        let Some(line) = &node.cmd else {
            return Ok(());
        };
        let mut argv = command::words(&self.outside(line, name)?)?;
        let program = argv
            .first_mut()
            .ok_or_else(|| Failure::new(format!("{name} has an empty cmd")))?;
        let title = program.rsplit('/').next().unwrap_or(name).to_owned();
        if let (Image::Weft, Some(programs)) = (node.image(), &self.programs) {
            *program = programs.path(program)?;
        }
        let argv = self.node(name)?.speakers.own(argv);
        let mut daemon = Daemon::new(&title, self.namespace(name)?, argv, folder);
        let env = node.env.iter();
        daemon.env = env
            .map(|(key, value)| (key.clone(), value.to_string()))
            .collect();
        self.node_mut(name)?.daemons.push(daemon);
        Ok(())
    }

    /// A line with the container's paths of bound files replaced by the paths they have here.
    fn outside(&self, line: &str, node: &str) -> Result<String, Failure> {
        let bound = self.node(node)?.bound.iter();
        Ok(bound.fold(line.to_owned(), |line, (from, to)| {
            line.replace(to, &from.display().to_string())
        }))
    }
}

/// Copies a file that is bound at `to` into the folder of a node, and returns its path there: a program that runs as another user may
/// not enter the folders that lead to the clone. A folder gets a link there.
fn bound(from: &Path, folder: &Path, to: &str) -> Result<PathBuf, Failure> {
    let copy = folder.join(BOUND).join(to.trim_start_matches('/'));
    let parent = copy.parent().unwrap_or(folder);
    fs::create_dir_all(parent).context(|| parent.display().to_string())?;
    let made = if from.is_dir() {
        fs::canonicalize(from).and_then(|from| symlink(from, &copy))
    } else {
        fs::copy(from, &copy).map(drop)
    };
    made.context(|| from.display().to_string())?;
    Ok(copy)
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.nodes.clear();
        self.run.remove_all();
    }
}

/// The folder of bound files in the folder of a node.
const BOUND: &str = "bound";
