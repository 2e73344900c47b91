//! The hooks of `proto/hooks`, as they are, with programs in their path that do as weft, Slurm and Kubernetes may: none of them delays a
//! job, or makes it fail.

mod kubernetes;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;
use weft_proto::v1::{self as proto, Collective};

/// Programs that a hook may find, and nothing else.
struct Programs {
    directory: tempfile::TempDir,
}

/// What came of a hook.
struct Ended {
    code: Option<i32>,
    took: Duration,
    said: String,
}

impl Programs {
    fn new() -> Self {
        let programs = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        for name in [
            "sh", "timeout", "head", "tr", "sed", "paste", "cat", "dirname", "sleep", "setsid",
            "date",
        ] {
            let path = found(name).unwrap_or_else(|| panic!("no {name}"));
            programs.script(name, &format!("exec {} \"$@\"", path.display()));
        }
        programs.script("python3", &format!("exec {} \"$@\"", python().display()));
        programs.script("scontrol", "printf 'h1\\nh2\\n'");
        programs.script(
            "kubectl",
            &format!("cat {}", programs.path("pods.json").display()),
        );
        fs::write(programs.path("pods.json"), kubernetes::PODS).unwrap();
        programs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Puts a program there.
    fn script(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A weft that keeps what it is given.
    fn kept(&self) {
        let [words, file, members] = ["words", "job", "members"].map(|it| self.path(it));
        let text = format!(
            "echo \"$*\" >>{}\ncase $* in *apply*) cat >{};; *members*) cat >{};; esac\necho done",
            words.display(),
            file.display(),
            members.display()
        );
        self.script("weft", &text);
    }

    /// Waits until a file is there, as another process writes it.
    fn wait_for(&self, name: &str) {
        let until = format!(
            "until [ -e {} ]; do sleep 0.05; done",
            self.path(name).display()
        );
        let mut waiting = Command::new(found("timeout").unwrap());
        let waited = waiting.args(["20", "sh", "-c", &until]).status().unwrap();
        assert!(waited.success(), "no {name}");
    }

    /// Waits until nothing runs that has the directory in its arguments.
    fn wait_for_silence(&self) {
        let directory = self.directory.path().to_str().unwrap();
        let mut left = String::new();
        for _ in 0..50 {
            left = running(directory);
            if left.is_empty() {
                return;
            }
            let slept = Command::new("sleep").arg("0.1").status().unwrap();
            assert!(slept.success());
        }
        panic!("left behind: {left}");
    }

    /// The words that weft was called with, a line for each call.
    fn words(&self) -> String {
        fs::read_to_string(self.path("words")).unwrap_or_default()
    }

    /// The job that weft was given.
    fn job(&self) -> proto::Job {
        self.read("job")
    }

    /// A job file that weft was given.
    fn read(&self, name: &str) -> proto::Job {
        let read = crate::job::declared::read(&self.path(name), &mut std::io::empty());
        read.unwrap().1
    }

    /// Runs a hook without its own limit: what it says and does is the same on a machine that has much else to do.
    fn bounded(&self, hook: &str, words: &[&str], environment: &[(&str, &str)]) -> Ended {
        self.run(hook, &[words, &["--bounded"]].concat(), environment)
    }

    /// Runs a hook.
    fn run(&self, hook: &str, words: &[&str], environment: &[(&str, &str)]) -> Ended {
        // A file: whatever a hook leaves behind may hold it.
        let said = self.path("said");
        let began = Instant::now();
        let status = Command::new(found("timeout").unwrap())
            .args(["-s", "KILL", "60", "/bin/sh"])
            .arg(hooks().join(hook))
            .args(words)
            .env_clear()
            .env("PATH", self.directory.path())
            .env("WEFT_SETTINGS", self.path("settings"))
            .env("XDG_RUNTIME_DIR", self.directory.path())
            .envs(SLURM.iter().chain(KUBERNETES).chain(environment).copied())
            .stdin(Stdio::null())
            .stdout(fs::File::create(&said).unwrap())
            .stderr(fs::File::options().append(true).open(&said).unwrap())
            .status()
            .unwrap();
        Ended {
            code: status.code(),
            took: began.elapsed(),
            said: String::from_utf8_lossy(&fs::read(&said).unwrap()).into_owned(),
        }
    }
}

/// The arguments of all processes that have this text in theirs.
fn running(text: &str) -> String {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let arguments = processes.filter_map(|it| fs::read(it.path().join("cmdline")).ok());
    let arguments = arguments.map(|it| String::from_utf8_lossy(&it).replace('\0', " "));
    let found: Vec<_> = arguments.filter(|it| it.contains(text)).collect();
    found.join("; ")
}

fn hooks() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/hooks")
}

/// Where a program is.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|it| it.join(name));
    places.find(|it| it.is_file())
}

/// The interpreter itself: what is found may be a script that looks for it.
fn python() -> PathBuf {
    let words = ["-c", "import sys; print(sys.executable, end='')"];
    let outcome = Command::new("python3").args(words).output().unwrap();
    String::from_utf8(outcome.stdout).unwrap().into()
}

const SLURM: &[(&str, &str)] = &[
    ("SLURM_JOB_ID", "4711"),
    ("SLURM_JOB_NODELIST", "h[1-2]"),
    ("SLURM_JOB_NUM_NODES", "2"),
];

const KUBERNETES: &[(&str, &str)] = &[
    ("WEFT_JOB", "train-42"),
    ("WEFT_SELECTOR", "job-name=train-42"),
    ("WEFT_NETWORKS", "fabric/rail0=100 fabric/rail1=101"),
];

/// What weft may do, and a word of the line that is said of it.
const WEFTS: &[(&str, &str, &str)] = &[
    (
        "does what it should",
        "echo job slurm-4711 created",
        "created",
    ),
    (
        "refuses",
        "echo 'weft: name: too long' >&2; exit 1",
        "too long",
    ),
    (
        "finds no replica",
        "echo 'weft: no answer from 192.0.2.1:7401' >&2; exit 2",
        "no answer",
    ),
    ("hangs", "sleep 60", "no answer"),
    (
        "hangs and takes no signal",
        "trap '' TERM INT HUP; while :; do sleep 1 || exit; done",
        "no answer",
    ),
    ("leaves a child behind", "setsid sleep 20 & exit 0", ""),
    (
        "never stops talking",
        "while :; do echo again and again; done",
        "again",
    ),
    ("is not to be run", "exec /nonexistent", ""),
    ("is not installed", "", "not found"),
];

/// No hook is slower than a second. Machines that test are: the scripts have the limits, and this has some room.
const ROOM: Duration = Duration::from_secs(10);

/// Runs a hook with every weft: it ends with 0, in time, and says one line.
fn whatever_weft_does(hook: &str, words: &[&str]) {
    for (what, text, said) in WEFTS {
        let programs = Programs::new();
        if !text.is_empty() {
            programs.script("weft", text);
        }
        let ended = programs.run(hook, words, &[]);
        assert_eq!(ended.code, Some(0), "{hook}: weft {what}: {}", ended.said);
        assert!(ended.took < ROOM, "{hook}: weft {what}: {:?}", ended.took);
        assert_eq!(
            ended.said.lines().count(),
            1,
            "{hook}: weft {what}: {}",
            ended.said
        );
        assert!(
            ended.said.starts_with("weft: "),
            "{hook}: weft {what}: {}",
            ended.said
        );
        // On a machine that has much else to do weft may be as good as silent.
        let said = ended.said.contains(said) || ended.said.contains("no answer");
        assert!(said, "{hook}: weft {what}: {}", ended.said);
    }
}

#[test]
fn a_prolog_is_not_delayed_whatever_weft_does() {
    whatever_weft_does("slurm/prolog.sh", &[]);
}

#[test]
fn an_epilog_is_not_delayed_whatever_weft_does() {
    whatever_weft_does("slurm/epilog.sh", &[]);
}

#[test]
fn a_start_of_pods_is_not_delayed_whatever_weft_does() {
    whatever_weft_does("kubernetes/hook.sh", &["start"]);
}

#[test]
fn an_end_of_pods_is_not_delayed_whatever_weft_does() {
    whatever_weft_does("kubernetes/hook.sh", &["stop"]);
    whatever_weft_does("kubernetes/hook.sh", &["renew"]);
}

#[test]
fn hooks_have_limits_below_a_second() {
    for hook in ["slurm/prolog.sh", "slurm/epilog.sh", "kubernetes/hook.sh"] {
        let text = fs::read_to_string(hooks().join(hook)).unwrap();
        // What is told, the pipe behind it, and syslog.
        assert_eq!(
            text.matches("timeout -s KILL 0.6 sh \"$0\"").count(),
            1,
            "{hook}"
        );
        assert_eq!(
            text.matches("| timeout -s KILL 0.85 head").count(),
            1,
            "{hook}"
        );
        let loggers = text.matches("logger -t weft").count();
        assert_eq!(
            text.matches("timeout -s KILL 0.05 logger").count(),
            loggers,
            "{hook}"
        );
        assert!(text.ends_with("\nexit 0\n"), "{hook}");
    }
}

#[test]
fn slurm_and_kubernetes_may_hang_or_be_missing_as_well() {
    for (hook, words, program) in [
        ("slurm/prolog.sh", &[][..], "scontrol"),
        ("kubernetes/hook.sh", &["start"], "kubectl"),
        ("kubernetes/hook.sh", &["start"], "python3"),
    ] {
        for text in ["sleep 60", "exit 1", ""] {
            let programs = Programs::new();
            programs.kept();
            match text {
                "" => fs::remove_file(programs.path(program)).unwrap(),
                text => programs.script(program, text),
            }
            let ended = programs.run(hook, words, &[]);
            assert_eq!(ended.code, Some(0), "{program} {text:?}: {}", ended.said);
            assert!(ended.took < ROOM, "{program} {text:?}: {:?}", ended.took);
            assert_eq!(
                ended.said.lines().count(),
                1,
                "{program} {text:?}: {}",
                ended.said
            );
            assert_eq!(programs.words(), "", "{program} {text:?}");
        }
    }
    // Without timeout nothing is asked: nothing could end it.
    let programs = Programs::new();
    programs.kept();
    fs::remove_file(programs.path("timeout")).unwrap();
    let ended = programs.run("slurm/prolog.sh", &[], &[]);
    assert_eq!((ended.code, programs.words()), (Some(0), String::new()));
}

#[test]
fn a_prolog_declares_the_hosts_and_an_epilog_ends_the_job() {
    let programs = Programs::new();
    programs.kept();
    programs.bounded("slurm/prolog.sh", &[], &[]);
    let job = programs.job();
    assert_eq!(job.name, "slurm-4711");
    assert_eq!(job.host_names, ["h1", "h2"]);
    assert_eq!(job.ttl.map(|it| it.seconds), Some(86_400));
    assert_eq!((job.priority, job.groups.len()), (0, 1));
    assert_eq!(job.groups[0].collective(), Collective::AllReduce);
    // A host may have a number for a name.
    programs.script("scontrol", "printf '17\\ntrue\\n'");
    let more = [
        ("WEFT_PRIORITY", "7"),
        ("WEFT_TTL_SECS", "60"),
        ("WEFT_COLLECTIVE", "COLLECTIVE_ALL_TO_ALL"),
        ("WEFT_OCTETS", "1000"),
    ];
    programs.bounded("slurm/prolog.sh", &[], &more);
    let job = programs.job();
    assert_eq!(job.host_names, ["17", "true"]);
    assert_eq!((job.priority, job.groups[0].octets), (7, 1_000));
    assert_eq!(job.ttl.map(|it| it.seconds), Some(60));
    assert_eq!(job.groups[0].collective(), Collective::AllToAll);
    programs.bounded("slurm/epilog.sh", &[], &[]);
    let apply = "--timeout 1 job apply -\n";
    let expected = format!("{apply}{apply}--timeout 1 job delete slurm-4711\n");
    assert_eq!(programs.words(), expected);
    // A job of one node sends nothing over the fabric.
    let one = [("SLURM_JOB_NUM_NODES", "1")];
    assert!(
        programs
            .bounded("slurm/prolog.sh", &[], &one)
            .said
            .contains("one node")
    );
    assert!(
        programs
            .bounded("slurm/epilog.sh", &[], &one)
            .said
            .contains("one node")
    );
    assert_eq!(programs.words(), expected);
}

#[test]
fn settings_are_read_from_a_file_and_a_bad_one_does_no_harm() {
    let programs = Programs::new();
    programs.kept();
    fs::write(programs.path("settings"), "WEFT_PRIORITY=9\n").unwrap();
    programs.bounded("slurm/prolog.sh", &[], &[]);
    assert_eq!(programs.job().priority, 9);
    for bad in ["(((\n", "exit 3\n", "sleep 60\n"] {
        fs::write(programs.path("settings"), bad).unwrap();
        for hook in ["slurm/prolog.sh", "slurm/epilog.sh"] {
            let ended = programs.run(hook, &[], &[]);
            assert_eq!(ended.code, Some(0), "{bad}: {}", ended.said);
            assert!(ended.took < ROOM, "{bad}: {:?}", ended.took);
        }
    }
}

#[test]
fn jobs_that_run_are_renewed_and_unknown_ones_declared() {
    let programs = Programs::new();
    programs.script(
        "squeue",
        "printf '4711 2 h[1-2]\\n4712 1 h3\\n4713 4 h[4-7]\\n'",
    );
    let words = programs.path("words");
    let text = format!(
        "echo \"$*\" >>{}\ncase $* in *4713*) exit 1;; *apply*) cat;; esac",
        words.display()
    );
    programs.script("weft", &text);
    let ended = programs.run("slurm/renew.sh", &[], &[("WEFT_TTL_SECS", "3600")]);
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    let renew = |job| format!("--timeout 5 job renew slurm-{job} --ttl 3600s --members -\n");
    let list = "--timeout 5 job list -o name\n";
    let (first, second) = (
        renew(4711),
        renew(4713) + "--timeout 5 job show slurm-4713 -o json\n",
    );
    let expected = format!("{list}{first}{second}--timeout 1 job apply -\n");
    assert_eq!(programs.words(), expected);
    assert!(ended.said.contains("name: slurm-4713"), "{}", ended.said);
    // One that has ended since is not declared again.
    fs::remove_file(&words).unwrap();
    programs.script(
        "squeue",
        "case $* in *--jobs*) ;; *) printf '4711 2 h[1-2]\\n4713 4 h[4-7]\\n';; esac",
    );
    programs.run("slurm/renew.sh", &[], &[("WEFT_TTL_SECS", "3600")]);
    assert_eq!(programs.words(), format!("{list}{first}{second}"));
    // Where nobody answers the others are not asked for.
    fs::remove_file(&words).unwrap();
    programs.script(
        "weft",
        &format!("echo \"$*\" >>{}\nexit 2", words.display()),
    );
    let ended = programs.run("slurm/renew.sh", &[], &[("WEFT_TTL_SECS", "3600")]);
    let expected = format!("{list}{first}");
    assert_eq!((ended.code, programs.words()), (Some(0), expected));
}

/// A job that is requeued runs on other hosts, as weft hears of neither its end nor its new begin.
#[test]
fn a_job_that_was_requeued_moves_to_the_hosts_on_which_it_runs() {
    let programs = Programs::new();
    let (words, members) = (programs.path("words"), programs.path("members"));
    // Job 43 has the hosts of job 42 of before: it is declared when those are free.
    programs.script("squeue", "printf '43 2 n1,n2\\n42 2 n3,n4\\n'");
    programs.script("scontrol", "echo \"$3\" | tr , '\\n'");
    let text = format!(
        "echo \"$*\" >>{}\ncase $* in *slurm-43*) exit 1;; *members*) cat >{};; *apply*) cat >{};; esac",
        words.display(),
        members.display(),
        programs.path("job").display()
    );
    programs.script("weft", &text);
    let ended = programs.run("slurm/renew.sh", &[], &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    let moved = programs.read("members");
    assert_eq!(
        (moved.name.as_str(), moved.host_names.join(",")),
        ("slurm-42", "n3,n4".to_owned())
    );
    let declared = programs.job();
    assert_eq!(
        (declared.name.as_str(), declared.host_names.join(",")),
        ("slurm-43", "n1,n2".to_owned())
    );
    let words = programs.words();
    let order = [
        "job list",
        "renew slurm-43",
        "renew slurm-42",
        "job apply -",
    ];
    let places = order.map(|it| words.find(it).unwrap_or_else(|| panic!("no {it}: {words}")));
    assert!(places.is_sorted(), "{words}");
    // The lease is renewed also if the hosts are not known.
    fs::remove_file(programs.path("words")).unwrap();
    programs.script("scontrol", "exit 1");
    programs.run("slurm/renew.sh", &[], &[]);
    let plain = "--timeout 5 job renew slurm-42 --ttl 86400s\n";
    assert!(programs.words().contains(plain), "{}", programs.words());
}

/// Two jobs that were requeued have the hosts of each other: neither can move before the other one.
#[test]
fn jobs_that_swapped_hosts_are_declared_anew() {
    let programs = Programs::new();
    programs.script("squeue", "printf '42 2 n1,n2\\n43 2 n3,n4\\n44 2 n5,n6\\n'");
    programs.script("scontrol", "echo \"$3\" | tr , '\\n'");
    let shown =
        |hosts| format!("printf '{{\"job\": {{\\n  \"host_names\": [\\n{hosts}\\n]}}}}\\n'");
    let text = format!(
        "echo \"$*\" >>{}\ncase $* in *renew*) exit 1;; *show*-42*) {};; *show*-43*) {};; *show*-44*) {};; esac",
        programs.path("words").display(),
        shown("\"n3\",\\n\"n4\""),
        shown("\"n1\",\\n\"n2\""),
        // Refused for another reason.
        shown("\"n5\",\\n\"n6\"")
    );
    programs.script("weft", &text);
    let ended = programs.run("slurm/renew.sh", &[], &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    let words = programs.words();
    let changes = words
        .lines()
        .filter(|it| it.contains("delete") || it.contains("apply"));
    let expected = [
        "--timeout 5 job delete slurm-42",
        "--timeout 5 job delete slurm-43",
        "--timeout 1 job apply -",
        "--timeout 1 job apply -",
        "--timeout 1 job apply -",
    ];
    assert_eq!(changes.collect::<Vec<_>>(), expected);
}

#[test]
fn a_hook_that_nobody_answers_is_repeated_behind_its_caller() {
    for (hook, words) in [
        ("slurm/prolog.sh", &[][..]),
        ("slurm/epilog.sh", &[]),
        ("kubernetes/hook.sh", &["start"]),
        ("kubernetes/hook.sh", &["stop"]),
    ] {
        let programs = Programs::new();
        // Nobody answers twice; a prolog's job starts, and that of an epilog has ended.
        let states = if hook.ends_with("epilog.sh") {
            ""
        } else {
            "echo 4711"
        };
        programs.script("squeue", states);
        let path = |name| programs.path(name).display().to_string();
        let text = format!(
            "[ -e {0} ] && echo \"$*\" >{2} && exit; [ -e {1} ] && : >{0}; : >{1}; echo no answer; exit 2",
            path("second"),
            path("first"),
            path("done")
        );
        programs.script("weft", &text);
        let ended = programs.run(hook, words, &[]);
        assert_eq!(ended.code, Some(0), "{hook}: {}", ended.said);
        assert!(ended.took < ROOM, "{hook}: {:?}", ended.took);
        assert!(
            ended.said.ends_with("trying again in the background \n"),
            "{}",
            ended.said
        );
        programs.wait_for("done");
    }
}

#[test]
fn a_hook_is_not_repeated_for_a_job_that_is_over_or_runs_again() {
    for (hook, squeue) in [
        ("slurm/prolog.sh", ":"),
        // Tasks of an array whose master has ended.
        ("slurm/prolog.sh", "printf '4712\\n47110\\n'"),
        ("slurm/epilog.sh", "printf '4712\\n4711\\n'"),
    ] {
        let programs = Programs::new();
        programs.kept();
        programs.script("squeue", squeue);
        programs.run(hook, &["--again"], &[]);
        assert_eq!(programs.words(), "", "{hook}");
    }
    // The job ends while its prolog is repeated: what came too late is taken back.
    let programs = Programs::new();
    programs.kept();
    let asked = programs.path("asked");
    let squeue = format!("[ -e {0} ] || echo 4711; : >{0}", asked.display());
    programs.script("squeue", &squeue);
    programs.run("slurm/prolog.sh", &["--again"], &[]);
    let expected = "--timeout 1 job apply -\n--timeout 1 job delete slurm-4711\n";
    assert_eq!(programs.words(), expected);
}

#[test]
fn an_epilog_is_repeated_while_other_tasks_of_its_array_run() {
    let programs = Programs::new();
    programs.kept();
    programs.script("squeue", "printf '4712\\n47110\\n'");
    programs.run("slurm/epilog.sh", &["--again"], &[]);
    assert_eq!(programs.words(), "--timeout 1 job delete slurm-4711\n");
}

#[test]
fn no_try_begins_after_four_seconds() {
    for (hook, words, squeue) in [
        ("slurm/prolog.sh", &["--again"][..], "echo 4711"),
        ("slurm/epilog.sh", &["--again"], ":"),
        ("kubernetes/hook.sh", &["start", "--again"], ":"),
    ] {
        let programs = Programs::new();
        programs.script("squeue", squeue);
        // Each look at the clock is two seconds after the one before.
        let [clock, tries] = ["clock", "words"].map(|it| programs.path(it));
        let wc = found("wc").unwrap();
        let date = format!("echo . >>{0}\n{1} -c <{0}", clock.display(), wc.display());
        programs.script("date", &date);
        let weft = format!("echo \"$*\" >>{}\nexit 2", tries.display());
        programs.script("weft", &weft);
        programs.run(hook, words, &[]);
        assert_eq!(programs.words().lines().count(), 1, "{hook}");
    }
}

#[test]
fn jobs_whose_end_nobody_heard_are_deleted() {
    let programs = Programs::new();
    let words = programs.path("words");
    let text = format!(
        "case $* in *list*) printf '%s\\n' slurm-4710 slurm-4711 slurm-4712 slurm-47 slurm-test train-42 4709;; *) echo \"$*\" >>{};; esac",
        words.display()
    );
    programs.script("weft", &text);
    // One was requeued and waits, one runs.
    programs.script(
        "squeue",
        "case $* in *RUNNING*) echo 4712 1 h1;; *) printf '4711 PENDING\\n4712 RUNNING\\n';; esac",
    );
    let ended = programs.run("slurm/renew.sh", &[], &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    let delete = |job| format!("--timeout 5 job delete slurm-{job}\n");
    assert_eq!(programs.words(), delete(4710) + &delete(4711) + &delete(47));
    // weft does not answer any more: the others are not asked for.
    fs::remove_file(&words).unwrap();
    let silent = format!("{text}; exit 2");
    programs.script("weft", &silent.replace("4709;;", "4709; exit 0;;"));
    let ended = programs.run("slurm/renew.sh", &[], &[]);
    assert_eq!((ended.code, programs.words()), (Some(0), delete(4710)));
    // Slurm does not answer: nobody knows which have ended.
    fs::remove_file(&words).unwrap();
    programs.script("squeue", "exit 1");
    let ended = programs.run("slurm/renew.sh", &[], &[]);
    assert_eq!((ended.code, programs.words()), (Some(0), String::new()));
}

#[test]
fn scripts_are_clean() {
    let Some(shellcheck) = found("shellcheck") else {
        return;
    };
    let scripts = [
        "slurm/prolog.sh",
        "slurm/epilog.sh",
        "slurm/renew.sh",
        "kubernetes/hook.sh",
        "kubernetes/launch.sh",
    ];
    let outcome = Command::new(shellcheck)
        .args(scripts.map(|it| hooks().join(it)))
        .output()
        .unwrap();
    assert!(
        outcome.status.success(),
        "{}",
        String::from_utf8_lossy(&outcome.stdout)
    );
}
