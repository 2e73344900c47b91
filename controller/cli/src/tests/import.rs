//! `weft job import`, as it is typed, of files in `tests-data/import`, in which a README names their formats.

use std::path::Path;

use clap::Parser;

use super::{REPLICA, Replica, ask, listening, refused};
use crate::Arguments;
use crate::failure::Failure;
use crate::progress::Progress;

/// A file that is there for tests.
fn data(name: &str) -> String {
    format!("{}/tests-data/import/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// What is printed, what is noted, and what comes of it. `@` stands for the directory of the files.
async fn imported(line: &str) -> (String, Vec<String>, Result<(), Failure>) {
    let line = line.replace('@', &data(""));
    let words = ["weft", "job", "import"].into_iter().chain(line.split(' '));
    let arguments = Arguments::try_parse_from(words).unwrap();
    let (mut out, progress) = (Vec::new(), Progress::new());
    let result = ask(arguments, &progress, &mut out).await;
    let notes = progress.notes().into_iter();
    let notes = notes.map(|it| it.replace(&data(""), "@"));
    (String::from_utf8(out).unwrap(), notes.collect(), result)
}

/// What is said of bad input.
async fn refusal(line: &str) -> String {
    let failure = imported(line).await.2.unwrap_err();
    assert_eq!(failure.exit_code(), 1, "{failure}");
    failure.to_string().replace(&data(""), "@")
}

const QUEUE_PAIRS: &str = "rdma --host h1=@rdma/h1.json --host h2=@rdma/h2.json";
const RAILS: &str = "--device mlx5_0=0 --device mlx5_1=1";
const FABRIC: &str = "--fabric @fabric.yaml --name train1";

#[tokio::test]
async fn queue_pairs_of_two_hosts_are_flows_in_both_directions() {
    let line = format!("{QUEUE_PAIRS} {RAILS} {FABRIC} --comm python3 --octets 1000 --ttl 1h");
    let (printed, notes, result) = imported(&line).await;
    result.unwrap();
    let expected = "\
name: train1
ttl: 3600s
flows:
- source:
    host_port_name: leaf1:eth1
  destination:
    host_port_name: leaf3:eth1
  octets: 1000
  pairs:
  - source_number: 277
    destination_number: 412
  - source_number: 278
    destination_number: 413
- source:
    host_port_name: leaf2:eth1
  destination:
    host_port_name: leaf4:eth1
  octets: 1000
  pairs:
  - source_number: 301
    destination_number: 455
- source:
    host_port_name: leaf3:eth1
  destination:
    host_port_name: leaf1:eth1
  octets: 1000
  pairs:
  - source_number: 412
    destination_number: 277
  - source_number: 413
    destination_number: 278
- source:
    host_port_name: leaf4:eth1
  destination:
    host_port_name: leaf2:eth1
  octets: 1000
  pairs:
  - source_number: 455
    destination_number: 301
";
    assert_eq!(printed, expected);
    let expected = [
        "queue pairs whose other end is at none of the hosts: 1: h1 mlx5_1 302 -> 999",
        "host ports without udp_port_formula, so that the queue pairs there are of no use: 4: leaf1:eth1, leaf2:eth1, leaf3:eth1, leaf4:eth1",
    ];
    assert_eq!(notes, expected);
}

#[tokio::test]
async fn host_ports_that_say_how_udp_source_ports_are_made_are_not_noted() {
    let fabric = std::fs::read_to_string(data("fabric.yaml")).unwrap();
    let said = "host ports without udp_port_formula, so that the queue pairs there are of no use: ";
    for (host, expected) in [
        // Of each host.
        ("host: h", None),
        ("host: h1", Some(format!("{said}2: leaf3:eth1, leaf4:eth1"))),
    ] {
        let text = fabric.replace(host, &format!("udp_port_formula: kernel, {host}"));
        let file = JobFile::new("formulas.yaml", &text);
        let line = format!(
            "{QUEUE_PAIRS} {RAILS} --comm python3 --name train1 --fabric {}",
            file.0.display()
        );
        let (_, notes, result) = imported(&line).await;
        result.unwrap();
        let noted = notes.into_iter().find(|it| it.starts_with(said));
        assert_eq!(noted, expected);
    }
}

#[tokio::test]
async fn what_is_imported_can_be_applied() {
    for line in [
        format!("{QUEUE_PAIRS} {RAILS} {FABRIC} --priority 7"),
        format!("nccl-inspector @nccl-inspector {FABRIC}"),
        format!("chakra @chakra --host h1,h2 {FABRIC} --ttl 90m"),
    ] {
        let mut read = Vec::new();
        for form in ["yaml", "json"] {
            let (printed, ..) = imported(&format!("{line} -o {form}")).await;
            let (_, job) =
                crate::job::declared::read(Path::new("-"), &mut printed.as_bytes()).unwrap();
            read.push(job);
        }
        assert_eq!(read[0], read[1]);
        assert!(read[0].groups.len() + read[0].flows.len() > 2, "{line}");
        let address = listening(REPLICA).await;
        for (more, done) in [
            ("--apply", "job train9 created\n"),
            (
                "--apply --dry-run",
                "job train9 valid, nothing changed; it would be created\n",
            ),
        ] {
            let line = format!(
                "{} --address {address} {more}",
                line.replace("train1", "train9")
            );
            let (printed, _, result) = imported(&line).await;
            result.unwrap();
            assert_eq!(printed, done);
        }
    }
}

#[tokio::test]
async fn a_replica_knows_where_nics_are() {
    let replica = Replica {
        host_ports: true,
        ..REPLICA
    };
    let address = listening(replica).await;
    let line = format!("{QUEUE_PAIRS} {RAILS} --comm python3 --name train1");
    let (asked, ..) = imported(&format!("{line} --address {address}")).await;
    let (declared, ..) = imported(&format!("{line} --fabric @fabric.yaml")).await;
    assert_eq!(asked, declared);
    // Nobody is asked if each device has its NIC.
    let line = format!(
        "{QUEUE_PAIRS} --comm nvme --name train1 --address 127.0.0.1:1 --nic h1:mlx5_0=leaf9:a --nic h2:mlx5_0=leaf9:b"
    );
    let (printed, _, result) = imported(&line).await;
    result.unwrap();
    assert!(printed.contains("host_port_name: leaf9:a\n"), "{printed}");
}

#[tokio::test]
async fn a_device_is_a_nic_or_the_way_to_name_it_is_said() {
    let said = refusal(&format!("{QUEUE_PAIRS} {FABRIC}")).await;
    let expected = "device mlx5_0 of h1: \"h1\" has 2 host ports; --nic h1:mlx5_0=HOST_PORT or --device mlx5_0=RAIL says which it is";
    assert_eq!(said, expected);
    let said = refusal(&format!("{QUEUE_PAIRS} {FABRIC} --device mlx5_0=7")).await;
    assert!(
        said.contains("no host port of \"h1\" is on rail 7"),
        "{said}"
    );
    let line = QUEUE_PAIRS.replace("h2=", "h9=");
    let said = refusal(&format!("{line} {FABRIC} {RAILS}")).await;
    assert!(said.contains("no host port has the host \"h9\""), "{said}");
    let twice = QUEUE_PAIRS.replace("h2=", "h1=");
    let said = refusal(&format!("{twice} {FABRIC}")).await;
    assert_eq!(said, "--host: a host is named twice");
}

/// Groups of a job: name, collective, algorithm, ranks, octets and channels.
fn groups(printed: &str) -> Vec<String> {
    let (_, job) = crate::job::declared::read(Path::new("-"), &mut printed.as_bytes()).unwrap();
    let groups = job.groups.iter();
    let group = |it: &weft_proto::v1::CollectiveGroup| {
        let channels = crate::words::or_dash(it.channels);
        let (collective, algorithm) = (it.collective(), it.algorithm());
        format!(
            "{} {collective:?} {algorithm:?} {:?} {} {channels}",
            it.name, it.ranks, it.octets
        )
    };
    groups.map(group).collect()
}

#[tokio::test]
async fn communicators_are_groups_of_ranks_at_nics() {
    let line = format!("nccl-inspector @nccl-inspector {FABRIC}");
    let (printed, notes, result) = imported(&line).await;
    result.unwrap();
    let expected = [
        "0x7f8c496ae9f661-all-reduce AllReduce Ring [] 1114112 4",
        "DP-0-all-gather AllGather Unspecified [0, 2] 67108864 -",
        "DP-0-reduce-scatter ReduceScatter Unspecified [0, 2] 33554432 -",
        "DP-1-all-gather AllGather Unspecified [1, 3] 67108864 -",
        "DP-1-reduce-scatter ReduceScatter Unspecified [1, 3] 33554432 -",
    ];
    assert_eq!(groups(&printed), expected);
    let ranks = "\
ranks:
- host_port_name: leaf1:eth1
- host_port_name: leaf2:eth1
- host_port_name: leaf3:eth1
- host_port_name: leaf4:eth1
";
    assert!(printed.contains(ranks), "{printed}");
    // The send to the other host, which both ends saw, once.
    let flows = "\
flows:
- source:
    host_port_name: leaf1:eth1
  destination:
    host_port_name: leaf3:eth1
  octets: 262144
";
    assert!(printed.contains(flows), "{printed}");
    let expected = [
        "groups within a host, or without octets, left out: 2: TP-0-all-gather, TP-1-all-gather",
        "sends within a host, left out: 1",
    ];
    assert_eq!(notes, expected);
    let line = format!("nccl-inspector @nccl-inspector-v4.3 {FABRIC}");
    assert_eq!(imported(&line).await.0, printed);
    let (largest, ..) = imported(&format!("{line} --largest")).await;
    assert!(groups(&largest)[0].contains(" 1048576 "), "{largest}");
    assert!(groups(&largest)[1].contains(" 33554432 "), "{largest}");
}

#[tokio::test]
async fn a_communicator_with_unknown_ranks_is_left_out() {
    let files = ["h1-pid101", "h1-pid102", "h2-pid201"];
    let files = files
        .map(|it| format!("@nccl-inspector/{it}.log"))
        .join(" ");
    let (printed, notes, result) = imported(&format!("nccl-inspector {files} {FABRIC}")).await;
    result.unwrap();
    let groups: Vec<_> = groups(&printed);
    assert_eq!(groups.len(), 2, "{groups:?}");
    assert!(groups[0].starts_with("DP-0-all-gather "), "{groups:?}");
    let expected = "communicators with ranks that no file is of, or that two processes have, left out: 3: 0x51c0ffee000001 (1 of 2 ranks), 0x7f8c496ae9f661 (3 of 4 ranks), 0xd9aa0000000001 (1 of 2 ranks)";
    assert_eq!(notes[0], expected);
    assert!(
        notes[1].starts_with("hosts with another number of ranks than of NICs"),
        "{notes:?}"
    );
}

#[tokio::test]
async fn traces_are_groups_in_each_of_their_forms() {
    let more = format!("--host h1,h2 --dimensions 2,2 {FABRIC}");
    let (printed, notes, result) = imported(&format!("chakra @chakra {more}")).await;
    result.unwrap();
    let expected = [
        "pg-0-all-reduce AllReduce Unspecified [] 5242880 -",
        "pg-1-all-gather AllGather Unspecified [0, 2] 524288 -",
        "pg-2-all-gather AllGather Unspecified [1, 3] 524288 -",
    ];
    assert_eq!(groups(&printed), expected);
    let flow = "\
- source:
    host_port_name: leaf2:eth1
  destination:
    host_port_name: leaf3:eth1
  octets: 65536
";
    assert!(printed.ends_with(flow), "{printed}");
    let expected = [
        "nodes that no octets go with, left out: 4",
        "groups within a host, or without octets, left out: 2: ranks-from-0-all-reduce, ranks-from-2-all-reduce",
    ];
    assert_eq!(notes, expected);
    for form in ["chakra-json", "chakra-graph"] {
        let (same, _, result) = imported(&format!("chakra @{form} {more}")).await;
        result.unwrap();
        assert_eq!(same, printed, "{form}");
    }
    // One trace, and who is in each group.
    let line =
        format!("chakra @chakra/train.1.et --comm-group @comm_group.json --host h1,h2 {FABRIC}");
    let (printed, ..) = imported(&line).await;
    let expected = [
        "pg-0-all-reduce AllReduce Unspecified [] 5242880 -",
        "pg-2-all-gather AllGather Unspecified [1, 3] 524288 -",
    ];
    assert_eq!(groups(&printed), expected);
    let (largest, ..) = imported(&format!("{line} --largest")).await;
    assert!(groups(&largest)[0].contains(" 4194304 "), "{largest}");
}

/// What is typed, with `FILE` for a file with the octets, and what is said.
const REFUSED: &[(&str, &[u8], &str)] = &[
    ("rdma --host h1=FILE", b"", "FILE:1:0: EOF while parsing a value"),
    ("rdma --host h1=FILE", b"[{\"ifname\":\"a\"}]", "FILE:1:15: missing field `lqpn`"),
    ("rdma --host h1=FILE", b"[\n{]", "FILE:2:2: key must be a string"),
    (
        "rdma --host h1=FILE",
        b"[{\"ifname\":\"a\",\"lqpn\":16777216,\"type\":\"RC\",\"state\":\"RTS\"}]",
        "FILE: entry 0: lqpn 16777216, rqpn 0: a number is at most 16777215",
    ),
    (
        "rdma --host h1=FILE",
        b"{\"header\":{},\"coll_perf\":{}}",
        "FILE: lines of NCCL Inspector, not what `rdma -j resource show qp` prints",
    ),
    ("rdma --host h1=FILE", b"[]", "no group and no flow was found"),
    ("nccl-inspector FILE", b"", "FILE: empty"),
    (
        "nccl-inspector FILE",
        b"[{\"ifname\":\"a\",\"lqpn\":1}]",
        "FILE: what `rdma -j resource show qp` prints, not lines of NCCL Inspector",
    ),
    ("nccl-inspector FILE", b"{}\n", "FILE:1: none of coll_perf, p2p_perf, proxy_trace and dump_stats"),
    ("nccl-inspector FILE", b"\n{\"coll_perf\":1}\n", "FILE:2:14: invalid type: integer `1`, expected struct Call"),
    (
        "nccl-inspector FILE",
        b"{\"coll_perf\":{\"coll\":\"AllReduce\",\"coll_msg_size_bytes\":1}}\n",
        "FILE:1: a record without header, and no dump_stats before it",
    ),
    (
        "nccl-inspector FILE",
        b"{\"header\":{\"id\":\"0x1\",\"rank\":2,\"n_ranks\":2},\"metadata\":{\"hostname\":\"h1\",\"pid\":1},\"dump_stats\":{}}\n",
        "FILE:1: rank 2 of 2 ranks",
    ),
    (
        "nccl-inspector FILE",
        b"{\"header\":{\"id\":\"0x1\",\"rank\":0,\"n_ranks\":2},\"metadata\":{\"hostname\":\"h1\",\"pid\":1},\"dump_stats\":{}}\n{\"coll_perf\":{\"coll\":\"AllReduce\",\"coll_msg_size_bytes\":1}}",
        "FILE:2: more records than dump_stats said",
    ),
    ("chakra FILE --host h1", b"", "FILE: empty"),
    ("chakra FILE --host h1", b"\x1f\x8b\x08", "FILE: compressed by gzip, not a Chakra execution trace"),
    ("chakra FILE --host h1", b"\x05\x0a", "FILE:octet 0: ends within a node of 5 octets"),
    ("chakra FILE --host h1", b"\x80", "FILE:octet 0: ends within a length"),
    (
        "chakra FILE --host h1",
        b"\xff\xff\xff\xff\x0f",
        "FILE:octet 0: a node of 4294967295 octets, at most 16777216",
    ),
    (
        "chakra FILE --host h1",
        b"{\"schema\":\"1.1.1\",\"nodes\":[]}",
        "FILE: a trace of PyTorch's profiler, which chakra_converter reads, not a Chakra execution trace",
    ),
    ("chakra FILE --host h1", b"{\"version\":\"0.0.4\"}{\"id\":", "FILE:1:25: EOF while parsing a value"),
    ("chakra FILE --host h1,h2", b"{\"version\":\"0.0.4\"}", "--host: 2 hosts for 1 ranks: each has as many as any other"),
    ("chakra FILE --host h1", b"{\"version\":\"0.0.4\"}", "no group and no flow was found"),
];

#[tokio::test]
async fn bad_input_is_refused_with_its_file_place_and_reason() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("train.0");
    let file = file.to_str().unwrap();
    for (line, octets, expected) in REFUSED {
        std::fs::write(file, octets).unwrap();
        let line = line.replace("FILE", file);
        let said = refusal(&format!("{line} {FABRIC}")).await;
        assert_eq!(said.replace(file, "FILE"), *expected, "{line}");
    }
    let words = [
        "job",
        "import",
        "chakra",
        "/nonexistent/t.0.et",
        "--host",
        "h1",
        "--name",
        "a",
    ];
    let (said, code) = refused(&words).await;
    let expected = "/nonexistent/t.0.et: No such file or directory (os error 2)";
    assert_eq!((said.as_str(), code), (expected, 1));
}

#[tokio::test]
async fn a_file_that_ends_within_a_record_counts_up_to_there() {
    let directory = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(data("nccl-inspector")).unwrap() {
        let entry = entry.unwrap();
        let octets = std::fs::read(entry.path()).unwrap();
        std::fs::write(
            directory.path().join(entry.file_name()),
            &octets[..octets.len() - 9],
        )
        .unwrap();
    }
    let path = directory.path().display();
    let (printed, notes, result) = imported(&format!("nccl-inspector {path} {FABRIC}")).await;
    result.unwrap();
    assert_eq!(groups(&printed).len(), 5);
    assert!(
        notes[0].starts_with("files that end within a record: 4: "),
        "{notes:?}"
    );
}

/// Takes a file, cuts it and changes some octets, again and again.
#[tokio::test]
async fn no_octets_make_it_panic() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("train.0");
    let path = file.to_str().unwrap();
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for (source, line) in [
        ("rdma/h1.json", "rdma --host h1=FILE"),
        ("nccl-inspector/h1-pid101.log", "nccl-inspector FILE"),
        ("nccl-inspector-v4.3/h1-pid101.log", "nccl-inspector FILE"),
        ("chakra/train.1.et", "chakra FILE --host h1"),
        ("chakra-json/train.1.json", "chakra FILE --host h1"),
        ("chakra-graph/train.1.json", "chakra FILE --host h1"),
    ] {
        let whole = std::fs::read(data(source)).unwrap();
        let line = format!("{} {FABRIC}", line.replace("FILE", path));
        for _ in 0..60 {
            let mut octets = whole.clone();
            octets.truncate(1 + random(whole.len()));
            for _ in 0..random(4) {
                let at = random(octets.len());
                octets[at] = random(256) as u8;
            }
            std::fs::write(&file, &octets).unwrap();
            let _ = imported(&line).await;
        }
    }
}

/// A file of this test alone, gone when it ends.
struct JobFile(std::path::PathBuf);

impl JobFile {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("weft-into-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }

    fn job(&self) -> weft_proto::v1::Job {
        let mut input = std::io::empty();
        crate::job::declared::read(&self.0, &mut input).unwrap().1
    }

    fn option(&self) -> String {
        format!("--into {}", self.0.display())
    }
}

impl Drop for JobFile {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

const BY_HAND: &str = "\
# The vision team's.
name: train1
ttl: 3600s   # renewed by hand
groups:
- {name: gradients, collective: COLLECTIVE_ALL_REDUCE, octets: 1073741824}
flows:
- source: {host_port_name: 'leaf1:eth9'}
  destination: {host_port_name: 'leaf2:eth9'}
  octets: 5
- source: {host_port_name: 'leaf1:eth1'}
  destination: {host_port_name: 'leaf3:eth1'}
  octets: 9
  pairs: [{source_number: 1, destination_number: 2}]

# Who asks.
labels: {team: vision}
";

#[tokio::test]
async fn queue_pairs_go_into_the_file_of_their_job_and_leave_the_rest() {
    let file = JobFile::new("rdma.yaml", BY_HAND);
    let line = format!(
        "{QUEUE_PAIRS} {RAILS} {FABRIC} --comm python3 {}",
        file.option()
    );
    let before = file.job();
    let (printed, _, result) = imported(&line).await;
    result.unwrap();
    let done = format!(
        "job train1 in {}: 0 groups and 4 flows, in the place of 1 flows\n",
        file.0.display()
    );
    assert_eq!(printed, done);
    let after = file.job();
    assert_eq!(after.flows.len(), 5);
    assert_eq!(after.flows[0], before.flows[0]);
    assert_eq!(after.flows[1].pairs[0].source_number, 277);
    let rest = weft_proto::v1::Job {
        flows: before.flows.clone(),
        ..after.clone()
    };
    assert_eq!(rest, before);
    let text = file.text();
    let (head, _) = BY_HAND.split_once("flows:\n").unwrap();
    let tail = "\n# Who asks.\nlabels: {team: vision}\n";
    assert!(text.starts_with(head) && text.ends_with(tail), "{text}");
    // Once more: nothing is there twice.
    imported(&line).await.2.unwrap();
    assert_eq!((file.job(), file.text()), (after, text));
}

#[tokio::test]
async fn a_job_that_is_not_in_the_file_is_named_and_nothing_is_written() {
    let file = JobFile::new("other.yaml", &BY_HAND.replace("train1", "train2"));
    let before = file.text();
    let line = format!("{QUEUE_PAIRS} {RAILS} {FABRIC} {}", file.option());
    let reason = format!("{}: there is no job train1, but train2", file.0.display());
    assert_eq!(refusal(&line).await, reason);
    assert_eq!(file.text(), before);
    let absent = line.replace("other.yaml", "absent.yaml");
    assert!(refusal(&absent).await.contains("No such file"));
}

#[tokio::test]
async fn json_stays_json_and_a_file_without_flows_gets_them() {
    let file = JobFile::new("short.json", "{\"name\": \"train1\", \"priority\": 7}");
    let line = format!("{QUEUE_PAIRS} {RAILS} {FABRIC} {}", file.option());
    imported(&line).await.2.unwrap();
    let json: serde_json::Value = serde_json::from_str(&file.text()).unwrap();
    assert_eq!(json["priority"], 7);
    assert_eq!(file.job().flows.len(), 4);
    let file = JobFile::new("short.yaml", "# Mine.\nname: train1");
    let line = format!("{QUEUE_PAIRS} {RAILS} {FABRIC} {}", file.option());
    imported(&line).await.2.unwrap();
    assert!(file.text().starts_with("# Mine.\nname: train1\nflows:\n- "));
    assert_eq!(file.job().flows.len(), 4);
}

#[tokio::test]
async fn what_a_trace_says_takes_the_place_of_what_it_said_before() {
    for tool in [
        "nccl-inspector @nccl-inspector",
        "chakra @chakra --host h1,h2",
    ] {
        let (printed, ..) = imported(&format!("{tool} {FABRIC}")).await;
        let file = JobFile::new("trace.yaml", "name: train1\nlabels: {team: vision}\n");
        let line = format!("{tool} {FABRIC} {}", file.option());
        imported(&line).await.2.unwrap();
        let once = file.job();
        imported(&line).await.2.unwrap();
        assert_eq!(file.job(), once, "{tool}");
        let alone = JobFile::new("alone.yaml", &printed).job();
        assert_eq!((once.groups, once.flows), (alone.groups, alone.flows));
        assert_eq!(once.labels["team"], "vision");
        let queue_pairs = format!("{QUEUE_PAIRS} {RAILS} {FABRIC} {}", file.option());
        imported(&queue_pairs).await.2.unwrap();
        let pairs = |file: &JobFile| {
            let flows = file.job().flows;
            flows.iter().filter(|it| !it.pairs.is_empty()).count()
        };
        imported(&line).await.2.unwrap();
        assert_eq!(pairs(&file), 4, "{tool}");
        let other = file.text().replacen("leaf1:eth1", "leaf1:eth7", 1);
        std::fs::write(&file.0, other).unwrap();
        let reason = "groups name ranks by number";
        assert!(refusal(&line).await.contains(reason), "{tool}");
    }
}
