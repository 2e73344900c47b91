//! Decisions of the leader, as they are typed.

use clap::Parser;

use super::operator::watched;
use super::{REPLICA, Replica, ask, listening, typed};
use crate::Arguments;
use crate::progress::Progress;

#[tokio::test]
async fn decisions_are_listed_page_by_page_of_all_kinds_or_of_one() {
    let (printed, result) = typed(&["decision", "list"]).await;
    result.unwrap();
    let lines = printed
        .lines()
        .map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "));
    let expected = [
        "KIND NAME DECISION",
        "derated-link leaf1:eth1--spine1:eth1 derated by 50 % for errors",
        "off-plan-job train1 left to weights: the busiest uplink of leaf1 carried 40 % more than predicted",
        "kept-free-leaf leaf1 20 % of its uplinks kept free",
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
    for kind in ["derated-link", "off-plan-job", "kept-free-leaf"] {
        let words = ["decision", "list", "--kind", kind, "-o", "name"];
        let (printed, result) = typed(&words).await;
        result.unwrap();
        let names: Vec<_> = printed.lines().collect();
        assert_eq!(names.len(), 1, "{printed}");
        assert!(names[0].starts_with(kind), "{printed}");
    }
    let words = ["decision", "list", "--consistency", "serializable"];
    let (printed, _) = typed(&[&words[..], &["-o", "json"]].concat()).await;
    let rows: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let link = &rows[0]["derated_link"];
    assert_eq!(link["derating_percent"], 50);
    assert_eq!(link["derating_cause"], "DERATING_CAUSE_ERRORS");
    assert_eq!(rows[1]["off_plan_job"]["excess_percent"], 40);
    assert_eq!(rows[2]["etag"], "1");
}

#[tokio::test]
async fn decisions_that_are_watched_change_and_go() {
    let dying = Replica {
        dies: true,
        ..REPLICA
    };
    let both = format!("{},{}", listening(dying).await, listening(REPLICA).await);
    let printed = watched(&both, &["decision", "list", "-w", "--no-headers"]).await;
    let lines = printed
        .lines()
        .map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "));
    let expected = [
        "derated-link leaf1:eth1--spine1:eth1 derated by 25 % for errors",
        "kept-free-leaf leaf1 20 % of its uplinks kept free",
        "kept-free-leaf leaf1 is gone",
        "derated-link leaf1:eth1--spine1:eth1 derated by 50 % for errors",
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
    let words = ["decision", "list", "-w", "--kind", "kept-free-leaf"];
    let printed = watched(&both, &[&words[..], &["-o", "json"]].concat()).await;
    let rows: Vec<serde_json::Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 2, "{printed}");
    assert_eq!(rows[0]["kept_free_leaf"]["kept_free_percent"], 20);
    assert_eq!(rows[1]["gone"], "kept-free-leaf leaf1");
}

/// What is typed, what is printed, and what is said on standard error, where nothing is decided.
const NOTHING: &[(&[&str], &str, &[&str])] = &[
    (
        &["-o", "table"],
        "KIND  NAME  DECISION\n",
        &["nothing is decided"],
    ),
    (
        &["--kind", "derated-link"],
        "KIND  NAME  DECISION\n",
        &["nothing of this kind is decided"],
    ),
    (&["-o", "json"], "[]\n", &[]),
    (&["-o", "name"], "", &[]),
];

#[tokio::test]
async fn that_nothing_is_decided_is_said_beside_the_list() {
    let undecided = Replica {
        undecided: true,
        ..REPLICA
    };
    let address = listening(undecided).await.to_string();
    for (more, printed, notes) in NOTHING {
        let words = ["weft", "--address", &address, "decision", "list"];
        let words = [&words[..], more].concat();
        let arguments = Arguments::try_parse_from(words).unwrap();
        let (mut out, progress) = (Vec::new(), Progress::new());
        ask(arguments, &progress, &mut out).await.unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), *printed);
        assert_eq!(progress.notes(), *notes);
    }
}
