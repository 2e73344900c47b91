//! The hooks of Kubernetes: pods as jobs, and launchers.

use std::fs;

use weft_proto::v1 as proto;

use super::{Programs, ROOM, WEFTS, found};

/// Three pods of an indexed job, one of which has ended, in the order in which Kubernetes lists them.
pub(super) const PODS: &str = r#"{"kind": "List", "items": [
  {"metadata": {"name": "train-42-10-x", "annotations": {
      "batch.kubernetes.io/job-completion-index": "10",
      "k8s.v1.cni.cncf.io/network-status": "[{\"name\": \"cbr0\", \"interface\": \"eth0\", \"ips\": [\"10.244.1.7\"], \"default\": true, \"dns\": {}}, {\"name\": \"fabric/rail1\", \"interface\": \"net2\", \"ips\": [\"198.51.100.3\"], \"mac\": \"02:00:00:00:00:03\", \"dns\": {}}, {\"name\": \"fabric/rail0\", \"interface\": \"net1\", \"ips\": [\"192.0.2.3\"], \"mac\": \"02:00:00:00:00:02\", \"dns\": {}}]"}},
   "status": {"phase": "Running"}},
  {"metadata": {"name": "train-42-2-y", "annotations": {
      "batch.kubernetes.io/job-completion-index": "2",
      "k8s.v1.cni.cncf.io/network-status": "[{\"name\": \"fabric/rail0\", \"interface\": \"net1\", \"ips\": [\"192.0.2.1\"]}, {\"name\": \"fabric/rail1\", \"interface\": \"net2\", \"ips\": [\"198.51.100.1\"]}]"}},
   "status": {"phase": "Running"}},
  {"metadata": {"name": "train-42-2-a"}, "status": {"phase": "Failed"}}]}"#;

#[test]
fn pods_are_ranks_by_address_and_vni() {
    let programs = Programs::new();
    programs.kept();
    let ended = programs.bounded("kubernetes/hook.sh", &["start"], &[("WEFT_PRIORITY", "3")]);
    assert!(ended.said.contains("done"), "{}", ended.said);
    let job = programs.job();
    let nics = |job: &proto::Job| -> Vec<String> {
        let nics = job.ranks.iter();
        nics.map(|it| format!("{} {}", it.address, it.vni.unwrap_or_default()))
            .collect()
    };
    let expected = [
        "192.0.2.1 100",
        "198.51.100.1 101",
        "192.0.2.3 100",
        "198.51.100.3 101",
    ];
    assert_eq!(nics(&job), expected);
    assert_eq!((job.name.as_str(), job.priority), ("train-42", 3));
    assert_eq!(job.ttl.map(|it| it.seconds), Some(3_600));
    // A pod that was replaced has other addresses.
    fs::write(
        programs.path("pods.json"),
        PODS.replace("192.0.2.3", "192.0.2.7"),
    )
    .unwrap();
    programs.bounded("kubernetes/hook.sh", &["renew"], &[]);
    let moved = programs.read("members");
    assert_eq!(nics(&moved)[2], "192.0.2.7 100");
    // Four ranks in a pod, two on a NIC.
    programs.bounded("kubernetes/hook.sh", &["start"], &[("WEFT_RANKS", "4")]);
    let job = programs.job();
    assert_eq!(job.ranks.len(), 8);
    assert_eq!(
        nics(&job)[..3],
        ["192.0.2.1 100", "192.0.2.1 100", "198.51.100.1 101"]
    );
}

#[test]
fn pods_without_nics_are_no_job_and_the_reason_is_said() {
    let programs = Programs::new();
    programs.kept();
    let network = ("WEFT_NETWORKS", "fabric/rail7=100");
    for (pods, environment, said) in [
        ("{\"items\": []}", None, "no pod is there"),
        ("", None, "job.py: JSONDecodeError: "),
        ("[]", None, "job.py: TypeError: "),
        (
            "{\"items\": [{\"metadata\": {\"name\": \"a\"}}]}",
            None,
            "pod a has no k8s.v1.cni.cncf.io/network-status yet",
        ),
        (
            PODS,
            Some(network),
            "pod train-42-2-y has no address in fabric/rail7",
        ),
        (
            PODS,
            Some(("WEFT_NETWORKS", "fabric/rail0")),
            "NAME=VNI is needed",
        ),
        (PODS, Some(("WEFT_NETWORKS", "")), "no network is named"),
        (PODS, Some(("WEFT_PODS", "3")), "2 of 3 pods are there"),
        (PODS, Some(("WEFT_TTL_SECS", "1h")), "ValueError"),
    ] {
        fs::write(programs.path("pods.json"), pods).unwrap();
        let environment: Vec<_> = environment.into_iter().collect();
        let ended = programs.bounded("kubernetes/hook.sh", &["start"], &environment);
        assert_ne!(ended.code, Some(0), "{}", ended.said);
        assert!(ended.said.contains(said), "{said}: {}", ended.said);
        assert_eq!(programs.words(), "", "{said}");
    }
}

#[test]
fn a_launcher_starts_at_once_and_its_exit_code_is_kept() {
    let programs = Programs::new();
    programs.kept();
    let quick = [("WEFT_RETRY_SECS", "0.1"), ("WEFT_RENEW_SECS", "0.3")];
    // Until weft heard of the job twice.
    let until = format!(
        "until grep -q renew {0} 2>/dev/null; do sleep 0.1; done; exit 7",
        programs.path("words").display()
    );
    programs.script(
        "grep",
        &format!("exec {} \"$@\"", found("grep").unwrap().display()),
    );
    let ended = programs.run("kubernetes/launch.sh", &["sh", "-c", &until], &quick);
    assert_eq!(ended.code, Some(7), "{}", ended.said);
    let words = programs.words();
    assert!(
        words.starts_with("--timeout 1 job apply -\n--timeout 1 job renew train-42 --ttl 3600s\n"),
        "{words}"
    );
    assert!(
        words.ends_with("--timeout 1 job delete train-42\n"),
        "{words}"
    );
    for (what, text, _) in WEFTS {
        programs.script("weft", text);
        let ended = programs.run("kubernetes/launch.sh", &["sh", "-c", "exit 3"], &quick);
        assert_eq!(ended.code, Some(3), "weft {what}: {}", ended.said);
        assert!(ended.took < ROOM, "weft {what}: {:?}", ended.took);
        programs.wait_for_silence();
    }
}

#[test]
fn a_launcher_waits_until_weft_knows_that_the_job_is_over() {
    let programs = Programs::new();
    // Nobody answers the first try.
    let text = format!(
        "case $* in *delete*) [ -e {0} ] && echo \"$*\" >>{1} && exit; : >{0};; esac; exit 2",
        programs.path("first").display(),
        programs.path("words").display()
    );
    programs.script("weft", &text);
    let ended = programs.run("kubernetes/launch.sh", &["sh", "-c", "exit 3"], &[]);
    assert_eq!(ended.code, Some(3), "{}", ended.said);
    let words = programs.words();
    assert!(
        words.starts_with("--timeout 1 job delete train-42\n"),
        "{words}"
    );
}

/// The last call owns a job: the one before is not tried again, and what it did meanwhile is taken back.
#[test]
fn a_start_is_not_repeated_after_a_stop() {
    let delete = "--timeout 1 job delete train-42\n";
    for (verb, mark, expected) in [
        ("start", "start 1\n", "--timeout 1 job apply -\n"),
        ("start", "start 2\n", ""),
        ("start", "stop 2\n", delete),
        ("stop", "stop 1\n", delete),
        ("stop", "start 2\n", ""),
    ] {
        let programs = Programs::new();
        programs.kept();
        fs::write(programs.path("weft-train-42"), mark).unwrap();
        programs.run("kubernetes/hook.sh", &[verb, "--again", "1"], &[]);
        assert_eq!(programs.words(), expected, "{verb} {mark}");
    }
    // The stop comes while the start is tried again.
    let programs = Programs::new();
    let text = format!(
        "echo \"$*\" >>{}\necho stop 2 >{}",
        programs.path("words").display(),
        programs.path("weft-train-42").display()
    );
    programs.script("weft", &text);
    programs.run("kubernetes/hook.sh", &["start", "--again"], &[]);
    let expected = format!("--timeout 1 job apply -\n{delete}");
    assert_eq!(programs.words(), expected);
}
