//! Jobs and their pins, as they are typed.

use std::io::Write;

use clap::Parser;

use super::operator::watched;
use super::{REPLICA, Replica, listening, refused, typed, typed_at};
use crate::Arguments;

/// A file with this text, for as long as it is kept.
fn file(text: &str) -> (tempfile::NamedTempFile, String) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    (file, path)
}

/// What the replica has of `train1`.
const STORED: &str = "name: train1\nhost_names: [h1, h2]\nexpire_time: 1970-01-01T01:00:01Z\n";

#[tokio::test]
async fn jobs_are_listed_page_by_page() {
    let expected = "\
JOB     STATE   PINS  HOSTS  RANKS  GROUPS  FLOWS  EXPIRES  REASON
train1  -       -     2      -      0       0      1h0m     -
train2  pinned  0/2   2      -      0       0      1h0m     the job is in shadow
";
    // It plans one of the two.
    let planning = Replica {
        faulty: true,
        ..REPLICA
    };
    let planning = listening(planning).await;
    let (printed, result) = typed_at(planning, &["job", "list", "--no-headers"]).await;
    result.unwrap();
    let cells = |text: &str| {
        let lines = text.lines().map(|line| {
            let cells = line.split("  ").map(str::trim);
            let cells: Vec<_> = cells.filter(|it| !it.is_empty()).collect();
            cells.join("|")
        });
        lines.collect::<Vec<_>>()
    };
    // A page keeps the widths of the one before, or has wider ones.
    assert_eq!(cells(&printed), cells(expected)[1..]);
    let (printed, _) = typed(&["job", "list"]).await;
    assert_eq!(cells(&printed)[0], cells(expected)[0]);
    let (printed, _) = typed(&["job", "list", "--no-headers", "-o", "wide"]).await;
    assert_eq!(printed.lines().count(), 2, "{printed}");
    assert!(printed.contains("1970-01-01T01:00:01Z"), "{printed}");
    let (printed, _) = typed(&["job", "list", "-o", "name"]).await;
    assert_eq!(printed, "train1\ntrain2\n");
    let (printed, _) = typed(&["job", "list", "-o", "json"]).await;
    let jobs: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(jobs[1]["host_names"][0], "h1");
    let (printed, _) = typed(&["job", "list", "-o", "yaml"]).await;
    let jobs: serde_json::Value = serde_yaml_ng::from_str(&printed).unwrap();
    assert_eq!(jobs[1]["name"], "train2");
}

#[tokio::test]
async fn jobs_that_are_watched_change_and_go() {
    let dying = Replica {
        dies: true,
        ..REPLICA
    };
    let both = format!("{},{}", listening(dying).await, listening(REPLICA).await);
    let printed = watched(&both, &["job", "list", "-w", "--no-headers"]).await;
    let names: Vec<_> = printed
        .lines()
        .map(|line| line.split("  ").next().unwrap())
        .collect();
    let (gone, there) = ("train2 is gone", ["train1", "train2"]);
    assert_eq!(names, [there[0], there[1], gone, there[0]]);
    let lines: Vec<_> = printed.lines().collect();
    let cells = |at: usize| lines[at].split_whitespace().collect::<Vec<_>>();
    // With their plans from the first line on.
    assert_eq!(cells(0)[..3], ["train1", "pinned", "-/2"]);
    assert_eq!(cells(1)[..3], ["train2", "pinned", "0/2"]);
    assert_eq!(cells(3)[..3], ["train1", "weighted", "-/2"]);
    assert!(lines[3].ends_with("it may have too many flows"));
    let json = watched(&both, &["job", "list", "-w", "-o", "json"]).await;
    assert_eq!(json.lines().count(), 4, "{json}");
    assert!(json.contains(r#"{"gone":"train2"}"#), "{json}");
    let words = ["fabric", "watch", "--kind", "job", "--no-headers"];
    let printed = watched(&both, &words).await;
    let cells: Vec<Vec<_>> = printed
        .lines()
        .map(|it| it.split_whitespace().collect())
        .collect();
    assert_eq!(cells[0], ["-", "exists", "job", "train1"]);
    assert_eq!(cells[3], ["9", "deleted", "job", "train2"]);
}

#[tokio::test]
async fn what_stands_above_the_columns_of_a_watch_is_as_wide_as_they_are() {
    let expected = "\
JOB     STATE   PINS  HOSTS  RANKS  GROUPS  FLOWS  EXPIRES  REASON
train1  pinned  -/2   2      -      0       0      1h0m     -
train2  pinned  0/2   2      -      0       0      1h0m     the job is in shadow
";
    let address = listening(REPLICA).await.to_string();
    // Its first answer has no plans, and nothing is printed of that.
    assert_eq!(watched(&address, &["job", "list", "-w"]).await, expected);
    let printed = watched(&address, &["link", "status", "-w"]).await;
    let lines: Vec<_> = printed.lines().collect();
    let at = |line: &str, word: &str| line.find(word).unwrap();
    assert!(lines[1].starts_with("leaf1:eth1--spine1:eth1 "));
    assert_eq!(at(lines[0], "STATE"), at(lines[1], "up "));
    assert_eq!(at(lines[0], "REASON"), at(lines[2], "leaf1: eth2 leads"));
}

#[tokio::test]
async fn jobs_are_watched_without_plans_where_replicas_do_not_stream_them() {
    let older = Replica {
        older: true,
        ..REPLICA
    };
    let (older, newer) = (older, listening(REPLICA).await);
    let alone = listening(older).await.to_string();
    let words = ["job", "list", "-w", "--no-headers"];
    let states = |printed: &str| {
        let lines = printed.lines().map(|line| {
            let cells: Vec<_> = line.split_whitespace().collect();
            format!("{} {}", cells[0], cells[1])
        });
        lines.collect::<Vec<_>>()
    };
    let printed = watched(&alone, &words).await;
    assert_eq!(states(&printed), ["train1 -", "train2 -"]);
    // What the one told of plans before it died is not told by the other.
    let dying = Replica {
        dies: true,
        ..REPLICA
    };
    let both = format!("{},{alone}", listening(dying).await);
    let printed = watched(&both, &words).await;
    let expected = ["train1 pinned", "train2 pinned", "train2 is", "train1 -"];
    assert_eq!(states(&printed), expected);
    let dying = Replica {
        dies: true,
        ..older
    };
    let both = format!("{},{newer}", listening(dying).await);
    let printed = watched(&both, &words).await;
    let expected = ["train1 -", "train2 -", "train2 is", "train1 weighted"];
    assert_eq!(states(&printed), expected);
}

#[tokio::test]
async fn pins_that_are_watched_are_the_rows_of_the_list() {
    let dividing = Replica {
        faulty: true,
        ..REPLICA
    };
    let address = listening(dividing).await;
    let (listed, result) = typed_at(address, &["pin", "list"]).await;
    result.unwrap();
    let ports = listed.matches("spine1: 49152, spine2: 49160\n").count();
    assert_eq!(ports, 2, "{listed}");
    let address = address.to_string();
    // Long enough for a second look, which has no news.
    assert_eq!(watched(&address, &["pin", "list", "-w"]).await, listed);
    let words = ["pin", "list", "-w", "--job", "train2", "-o", "json"];
    let printed = watched(&address, &words).await;
    let rows: Vec<serde_json::Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 1, "{printed}");
    assert_eq!(rows[0]["ports"][0]["udp_source_port"], 49_152);
}

#[tokio::test]
async fn a_job_is_shown_with_its_plan() {
    let expected = "\
job:            train1
hosts:          2: h1, h2
expires:        in 1h0m, 1970-01-01T01:00:01Z
plan:           pinned, 2 of 2 flows have their pins
max load:       50.00% of a link, by the pins of all jobs
lower bound:    50.00% of a link: what leaf1 sends over its uplinks
tight links:    1: leaf1:eth1--spine1:eth1
";
    assert_eq!(typed(&["job", "show", "train1"]).await.0, expected);
    let (printed, _) = typed(&["job", "show", "train2"]).await;
    let expected = "\
mode:           shadow
plan:           pinned, 2 of 2 flows have their pins, of which switches get none: the job is in shadow
traffic:        0 flows by pins, 2 by weights, 0 as the own routing of their leaves has it
";
    assert!(printed.contains(expected), "{printed}");
    let (printed, _) = typed(&["job", "show", "train1", "-o", "json"]).await;
    let shown: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(shown["job"]["name"], "train1");
    assert_eq!(shown["job_plan"]["state"], "JOB_PLAN_STATE_PINNED");
    assert_eq!(shown["certificate"]["bound_kind"], "BOUND_KIND_LEAF_SENDS");
    let (said, code) = refused(&["job", "show", "x"]).await;
    assert_eq!((said.as_str(), code), ("name: no job is named \"x\"", 1));
}

#[tokio::test]
async fn a_job_that_runs_beyond_what_links_carry_says_what_decides_it() {
    let faulty = Replica {
        faulty: true,
        ..REPLICA
    };
    let faulty = listening(faulty).await;
    let (printed, result) = typed_at(faulty, &["job", "show", "train1"]).await;
    result.unwrap();
    let expected = "\
plan:           pinned, 2 of 2 flows have their pins
max load:       200.00% of a link, by the pins of all jobs
lower bound:    200.00% of a link: what leaf1 sends over its uplinks
tight links:    1: leaf1:eth1--spine1:eth1
demand:         jobs need 2.00 times what links carry: what leaf1 sends over its uplinks
";
    assert!(printed.ends_with(expected), "{printed}");
}

#[tokio::test]
async fn the_flows_of_a_job_are_listed_page_by_page() {
    let words = ["job", "show", "train1", "--flows"];
    let (printed, result) = typed(&words).await;
    result.unwrap();
    let cells: Vec<Vec<&str>> = printed
        .lines()
        .map(|line| {
            let cells = line.split("  ").map(str::trim);
            cells.filter(|it| !it.is_empty()).collect()
        })
        .collect();
    let header = [
        "SOURCE",
        "DESTINATION",
        "WAY",
        "OVER",
        "PREDICTED",
        "SEEN",
        "TOGETHER-WITH",
        "REASON",
    ];
    assert_eq!(cells[0], header);
    let pinned = [
        "leaf1:eth3",
        "leaf2:eth3",
        "pins",
        "spine1*16",
        "50.0 Gb/s of 100.0 Gb/s",
        "99.0 Gb/s together",
        "leaf1:eth4",
        "-",
    ];
    assert_eq!(cells[1], pinned);
    let weighted = [
        "leaf1:eth5",
        "leaf2:eth3",
        "weights",
        "-",
        "50.0 Gb/s",
        "-",
        "-",
        "leaf1 has no weft-agent that answers",
    ];
    assert_eq!(cells[2], weighted);
    assert_eq!(cells.len(), 3, "{printed}");
    let (printed, _) = typed(&[&words[..], &["-o", "json"]].concat()).await;
    let flows: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(flows[0]["way"], "FLOW_WAY_PINS");
    assert_eq!(flows[0]["bundled_source_names"][0], "leaf1:eth4");
    assert!(flows[1].get("seen_bps").is_none(), "{printed}");
    let (printed, _) = typed(&[&words[..], &["-o", "name"]].concat()).await;
    assert_eq!(printed, "leaf1:eth3 leaf2:eth3\nleaf1:eth5 leaf2:eth3\n");
}

#[tokio::test]
async fn a_job_without_flows_to_list_says_why() {
    let words = ["job", "show", "train2", "--flows"];
    let (printed, result) = typed(&[&words[..], &["--no-headers"]].concat()).await;
    result.unwrap();
    let expected =
        "no flow of job train2 is listed: it may have 600000 flows, at most 524288 are pinned\n";
    assert_eq!(printed, expected);
    assert_eq!(
        typed(&[&words[..], &["-o", "json"]].concat()).await.0,
        "[]\n"
    );
    let (said, code) = refused(&["job", "show", "x", "--flows"]).await;
    let expected = "job_name: no job is named \"x\"";
    assert_eq!((said.as_str(), code), (expected, 1));
}

#[tokio::test]
async fn a_pin_that_no_switch_gets_is_said_to_be_none() {
    let words = ["plan", "why", "--job", "train2", "leaf1:eth3", "leaf2:eth3"];
    let (printed, result) = typed(&words).await;
    result.unwrap();
    let expected = "\
train2, leaf1:eth3 to leaf2:eth3: pinned to spine1, 2 of 3 parts, and spine2, 1 of 3 parts
  no switch gets this pin: the job is in shadow
plan of the job: pinned, 2 of 2 flows have their pins, of which switches get none: the job is in shadow
";
    assert!(printed.starts_with(expected), "{printed}");
    let (printed, _) = typed(&[&words[..], &["-o", "json"]].concat()).await;
    let object: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(object["leaf_balance"]["leaf_name"], "leaf1");
    let reasons = &object["job_plan"]["unprogrammed_reasons"];
    assert_eq!(reasons[0], "the job is in shadow");
}

#[tokio::test]
async fn a_job_is_created_updated_or_as_it_was() {
    for (text, done) in [
        ("name: train3", "job train3 created"),
        (STORED, "job train1 unchanged"),
        ("name: train1\nhost_names: [h1]", "job train1 updated"),
        // The lease begins anew.
        (
            "{\"name\": \"train1\", \"host_names\": [\"h1\", \"h2\"], \"ttl\": \"7200s\"}",
            "job train1 updated",
        ),
    ] {
        let (_file, path) = file(text);
        let (printed, result) = typed(&["job", "apply", &path]).await;
        result.unwrap();
        assert_eq!(printed, format!("{done}\n"));
        let (printed, _) = typed(&["job", "apply", &path, "--dry-run"]).await;
        let (job, done) = done.rsplit_once(' ').unwrap();
        let expected = format!("{job} valid, nothing changed; it would be {done}\n");
        assert_eq!(printed, expected);
    }
    let (_file, path) = file(STORED);
    let (printed, _) = typed(&["job", "apply", &path, "-o", "json"]).await;
    let job: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        (&job["name"], &job["etag"]),
        (&"train1".into(), &"1".into())
    );
}

#[tokio::test]
async fn a_bad_job_file_is_refused_with_its_name() {
    for (text, expected) in [
        (
            "name: a\nlayout: [{degree: 2, size: 2}]",
            ":2:10: layout[0]: unknown field `size`, expected one of `name`, `degree`",
        ),
        ("host_names: [h1]", ": missing field `name`"),
        ("name: bad", ": resource.groups[0].octets: less than 1"),
    ] {
        let (_file, path) = file(text);
        let said = refused(&["job", "apply", &path]).await;
        assert_eq!(said, (format!("{path}{expected}"), 1));
    }
    let (said, code) = refused(&["job", "apply", "/nonexistent/job.yaml"]).await;
    let expected = "/nonexistent/job.yaml: No such file or directory (os error 2)";
    assert_eq!((said.as_str(), code), (expected, 1));
}

#[tokio::test]
async fn a_lease_is_renewed() {
    let words = ["job", "renew", "train1", "--ttl", "2h"];
    let expected = "job train1 expires 1970-01-01T02:00:01Z, revision 6\n";
    assert_eq!(typed(&words).await.0, expected);
    let (printed, _) = typed(&[&words[..], &["-o", "yaml"]].concat()).await;
    assert!(
        printed.contains("expire_time: \"1970-01-01T02:00:01Z\"\n"),
        "{printed}"
    );
    let (said, code) = refused(&["job", "renew", "x", "--ttl", "2h"]).await;
    let expected = "resource.name: no job is named \"x\"";
    assert_eq!((said.as_str(), code), (expected, 1));
    for words in [
        &["weft", "job", "renew", "x"][..],
        &["weft", "job", "renew", "x", "--ttl", "2"],
    ] {
        assert!(Arguments::try_parse_from(words).is_err(), "{words:?}");
    }
}

#[tokio::test]
async fn a_job_is_deleted_by_name() {
    let (printed, _) = typed(&["job", "delete", "train1"]).await;
    assert_eq!(printed, "job train1 deleted, revision 7\n");
    let (printed, _) = typed(&["job", "delete", "train1", "-o", "json"]).await;
    let answer: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(answer["header"]["revision"], 7);
    let (said, code) = refused(&["job", "delete", "x"]).await;
    assert_eq!((said.as_str(), code), ("name: no job is named \"x\"", 1));
}

#[tokio::test]
async fn pins_are_listed_of_all_jobs_or_of_one() {
    let expected = "\
JOB     SOURCE      DESTINATION  SPINES              UDP-PORTS
train1  leaf1:eth3  leaf2:eth3   spine1*2, spine2*1  -
train2  leaf1:eth3  leaf2:eth3   spine1*2, spine2*1  -
";
    assert_eq!(typed(&["pin", "list"]).await.0, expected);
    let (printed, _) = typed(&["pin", "list", "--job", "train2", "-o", "name"]).await;
    assert_eq!(printed, "train2 leaf1:eth3 leaf2:eth3\n");
    let (said, code) = refused(&["pin", "list", "--job", "x"]).await;
    assert_eq!(
        (said.as_str(), code),
        ("job_name: no job is named \"x\"", 1)
    );
}
