//! What an operator types around a command: several replicas, names, waits, and what is wrong.

use std::time::Duration;

use clap::Parser;
use tokio::net::TcpListener;
use tokio::time::timeout;
use weft_proto::v1 as proto;

use super::{Failure, REPLICA, Replica, ask, listening, typed, typed_at};
use crate::Arguments;
use crate::connection::Connection;
use crate::output::Row;
use crate::progress::Progress;

/// An address that nobody listens at.
async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    address.to_string()
}

#[tokio::test]
async fn the_next_replica_is_asked_if_one_is_silent() {
    // It takes connections, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let dead = nobody().await;
    let replica = listening(REPLICA).await;
    let several = format!("{dead},{replica}");
    let (printed, result) = typed_at_all(&several, &["peer", "list", "-o", "name"]).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(printed, "192.0.2.11\n192.0.2.12\n");
    let (_, result) = typed_at_all(&format!("{dead},{silent}"), &["peer", "list"]).await;
    let said = result.unwrap_err().to_string();
    assert!(said.contains("and none from 1 other addresses"), "{said}");
}

async fn typed_at_all(addresses: &str, words: &[&str]) -> (String, Result<(), Failure>) {
    let words = [&["--address", addresses, "--timeout", "1"], words].concat();
    super::typed_as(&words).await
}

#[tokio::test]
async fn a_list_has_names_and_no_header_if_that_is_wanted() {
    let (printed, _) = typed(&["peer", "list", "-o", "name"]).await;
    assert_eq!(printed, "192.0.2.11\n192.0.2.12\n");
    let (printed, _) = typed(&["peer", "list", "--no-headers"]).await;
    assert!(printed.starts_with("192.0.2.11 "), "{printed}");
    let (printed, _) = typed(&["peer", "list", "-o", "wide"]).await;
    let header = printed.lines().next().unwrap();
    assert!(
        header.ends_with("LAST-ERROR  FAMILIES  RECEIVED  SENT  DYNAMIC"),
        "{header}"
    );
}

#[tokio::test]
async fn a_wait_ends_when_it_is_so_or_with_its_own_code() {
    let down = ["peer", "wait", "192.0.2.9", "--for", "down"];
    assert!(typed(&down).await.1.is_ok());
    let up = ["peer", "wait", "192.0.2.9", "--within", "0"];
    let failure = typed(&up).await.1.unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    assert_eq!(failure.to_string(), "192.0.2.9 is Active after 0 s");
}

#[tokio::test]
async fn a_wait_for_a_peer_that_cannot_come_ends_at_once() {
    let begun = tokio::time::Instant::now();
    for awaited in ["established", "down"] {
        let unknown = ["peer", "wait", "203.0.113.9", "--for", awaited];
        let failure = typed(&unknown).await.1.unwrap_err();
        let text = "no such peer: 203.0.113.9; `weft peer list` has those that are known";
        assert_eq!(
            (failure.to_string().as_str(), failure.exit_code()),
            (text, 1)
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
    // One in a listen range may still come.
    let ranged = ["peer", "wait", "198.51.100.9", "--within", "0"];
    let failure = typed(&ranged).await.1.unwrap_err();
    assert_eq!(failure.to_string(), "198.51.100.9 is Idle after 0 s");
    let down = ["peer", "wait", "198.51.100.9", "--for", "down"];
    assert!(typed(&down).await.1.is_ok());
}

#[tokio::test]
async fn what_nobody_knows_is_no_empty_table() {
    let silent = "no route has the MAC address 00:00:5e:00:53:99; no peer has a session";
    let list = ["route", "list"];
    for (words, expected) in [
        (&["--mac", "00:00:5e:00:53:99"][..], silent),
        (
            &["--peer", "203.0.113.9"],
            "no such peer: 203.0.113.9; `weft peer list` has those that are known",
        ),
        (&["--vni", "9"], "no route has VNI 9"),
    ] {
        for format in ["table", "json"] {
            let words = [&list[..], words, &["-o", format]].concat();
            let (printed, result) = typed(&words).await;
            let failure = result.unwrap_err();
            assert_eq!((printed.as_str(), failure.exit_code()), ("", 1));
            assert_eq!(failure.to_string(), expected);
        }
    }
    for mac in ["00:00:5E:00:53:99", "00-00-5e-00-53-99", "0000.5e00.5399"] {
        let failure = typed(&["route", "show", mac]).await.1.unwrap_err();
        assert_eq!(
            (failure.to_string().as_str(), failure.exit_code()),
            (silent, 1)
        );
    }
    let (printed, result) = typed(&["vni", "list", "--vni", "7"]).await;
    assert_eq!((printed.as_str(), result.unwrap_err().exit_code()), ("", 1));
}

#[tokio::test]
async fn a_name_of_two_words_may_be_two_arguments() {
    let key = "[3]:[0]:[32]:[192.0.2.11]";
    let failure = typed(&["route", "show", "192.0.2.11:2", key]).await.1;
    let said = failure.unwrap_err().to_string();
    assert!(said.contains("rd: Some(\"192.0.2.11:2\")"), "{said}");
    assert!(said.contains(&format!("key: Some(\"{key}\")")), "{said}");
}

#[tokio::test]
async fn a_vni_that_is_not_there_is_named() {
    let failure = typed(&["vni", "show", "7"]).await.1.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "vni: no inclusive multicast route (type 3) advertises VNI 7"
    );
}

#[tokio::test]
async fn replicas_are_compared_only_where_there_are_several() {
    let words = ["config", "diff", "--replicas"];
    let failure = typed(&words).await.1.unwrap_err();
    assert_eq!(failure.exit_code(), 1);
    let replicas = group([1, 2]).await;
    let (printed, result) = typed_at_all(&replicas.join(","), &words).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(printed.lines().count(), 1);
}

/// Where replicas 1 and 2 of two listen, or those that stand for them.
async fn group(ids: [u64; 2]) -> Vec<String> {
    let mut addresses = Vec::new();
    for id in ids {
        let replica = Replica {
            id,
            group: &[1, 2],
            ..REPLICA
        };
        addresses.push(listening(replica).await.to_string());
    }
    addresses
}

#[tokio::test]
async fn a_replica_that_is_not_compared_is_named_and_the_others_are_compared() {
    let diff = ["config", "diff", "--replicas", "-o", "json"];
    let other = Replica {
        id: 2,
        group: &[1, 2, 3],
        hold_secs: "30",
        ..REPLICA
    };
    let first = Replica { id: 1, ..other };
    let first = Replica {
        hold_secs: "9",
        ..first
    };
    let (first, other) = (listening(first).await, listening(other).await);
    let three = format!("{first},{other},{}", nobody().await);
    let (printed, result) = typed_at_all(&three, &diff).await;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&printed).unwrap();
    assert_eq!(rows[0]["key"], "hold_secs");
    assert_eq!(rows[0]["values"][1]["value"], "30");
    let failure = result.unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    let said = failure.to_string();
    assert!(
        said.starts_with("1 value differs; replica 3 was not compared; no answer from "),
        "{said}"
    );
    // Two addresses of one replica are not two replicas.
    let doubled = group([1, 1]).await.join(",");
    let failure = typed_at_all(&doubled, &diff).await.1.unwrap_err();
    assert!(
        failure
            .to_string()
            .starts_with("replica 2 was not compared; ")
    );
    let reload = ["config", "reload", "--all", "-o", "json"];
    let (printed, result) = typed_at_all(&three, &reload).await;
    let answers: Vec<serde_json::Value> = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        (answers.len(), &answers[1]["header"]["replica_id"]),
        (2, &2.into())
    );
    let said = result.unwrap_err().to_string();
    assert!(said.starts_with("replica 3 was not reloaded; "), "{said}");
}

#[tokio::test]
async fn nothing_is_reloaded_if_one_file_is_wrong() {
    let good = Replica {
        id: 1,
        group: &[1, 2],
        ..REPLICA
    };
    let bad = Replica {
        id: 2,
        hold_secs: "bad",
        ..good
    };
    let both = format!("{},{}", listening(good).await, listening(bad).await);
    let (printed, result) = typed_at_all(&both, &["config", "reload", "--all"]).await;
    let failure = result.unwrap_err();
    assert_eq!((printed.as_str(), failure.exit_code()), ("", 1));
    let said = failure.to_string();
    assert!(
        said.ends_with("hold_secs: bad; no replica was reloaded"),
        "{said}"
    );
}

#[tokio::test]
async fn a_replica_that_dies_in_the_middle_of_a_list_is_left_for_the_next_one() {
    let dying = Replica {
        dies: true,
        ..REPLICA
    };
    let dying = listening(dying).await;
    let both = format!("{dying},{}", listening(REPLICA).await);
    let (printed, result) = typed_at_all(&both, &["peer", "list", "-o", "name"]).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(printed, "192.0.2.11\n192.0.2.12\n");
    let (_, result) = typed_at(dying, &["peer", "list"]).await;
    assert_eq!(result.unwrap_err().exit_code(), 2);
}

#[tokio::test]
async fn a_replica_without_a_majority_is_asked_last() {
    let alone = Replica {
        id: 1,
        alone: true,
        group: &[1, 2],
        ..REPLICA
    };
    let other = Replica {
        id: 2,
        alone: false,
        ..alone
    };
    let (alone, other) = (listening(alone).await, listening(other).await);
    let dead = nobody().await;
    for (addresses, id) in [
        (format!("{alone},{other}"), 2),
        (format!("{dead},{alone}"), 1),
    ] {
        let words = ["config", "reload", "-o", "json"];
        let (printed, result) = typed_at_all(&addresses, &words).await;
        assert!(result.is_ok(), "{result:?}");
        let answer: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(answer["header"]["replica_id"], id);
    }
}

/// What is printed in so long by a command that does not end.
pub(super) async fn watched(addresses: &str, words: &[&str]) -> String {
    let words = [&["weft", "--address", addresses], words].concat();
    let arguments = Arguments::try_parse_from(words).unwrap();
    let (progress, mut out) = (Progress::new(), Vec::new());
    let endless = ask(arguments, &progress, &mut out);
    let endless = timeout(Duration::from_millis(1500), endless).await;
    assert!(endless.is_err(), "it ends");
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn a_watch_goes_on_at_the_next_replica_after_the_last_revision() {
    let dying = Replica {
        dies: true,
        ..REPLICA
    };
    let both = format!("{},{}", listening(dying).await, listening(REPLICA).await);
    let printed = watched(&both, &["fabric", "watch", "-o", "json"]).await;
    let rows: Vec<serde_json::Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 2, "{printed}");
    assert_eq!(rows[0]["change_type"], "CHANGE_TYPE_CREATED");
    assert_eq!(rows[1]["revision"], 8);
    assert_eq!(rows[1]["link_resource"]["admin_state"], "ADMIN_STATE_DOWN");
    let printed = watched(&both, &["fabric", "watch", "--no-headers"]).await;
    let names = printed.matches(" leaf1:eth1--spine1:eth1\n").count();
    assert_eq!((names, printed.lines().count()), (2, 2), "{printed}");
    let printed = watched(&both, &["link", "list", "-w", "--no-headers"]).await;
    let states: Vec<_> = printed
        .lines()
        .filter_map(|line| line.split_whitespace().next_back())
        .collect();
    assert_eq!(states, ["up", "down"], "{printed}");
    // Nobody remembers what is after 9.
    let words = ["fabric", "watch", "--after-revision", "9"];
    let failure = typed_at_all(&both, &words).await.1.unwrap_err();
    assert_eq!(failure.exit_code(), 1);
}

#[tokio::test]
async fn statuses_of_links_are_watched_or_looked_at_again() {
    let dying = Replica {
        dies: true,
        ..REPLICA
    };
    let older = Replica {
        older: true,
        faulty: true,
        ..REPLICA
    };
    let both = format!("{},{}", listening(dying).await, listening(REPLICA).await);
    let older = listening(older).await.to_string();
    let words = ["link", "status", "-w", "--no-headers"];
    let links = |printed: &str| {
        let lines = printed.lines().map(|line| {
            let cells: Vec<_> = line.split_whitespace().collect();
            let derated = line.contains("50 % for errors");
            let name = cells[0].split("--").next().unwrap();
            format!("{name} {} {derated}", cells[1])
        });
        lines.collect::<Vec<_>>()
    };
    let two = ["leaf1:eth1 up true", "leaf1:eth2 down false"];
    let printed = watched(&both, &words).await;
    let rest = ["leaf1:eth1 up false", "leaf1:eth2 is false"];
    assert_eq!(links(&printed), [two, rest].concat());
    let printed = watched(&older, &words).await;
    assert_eq!(links(&printed), two);
    // One that says once more which links there are, in the same stream.
    let repeating = Replica {
        faulty: true,
        ..REPLICA
    };
    let repeating = listening(repeating).await.to_string();
    let printed = watched(&repeating, &words).await;
    assert_eq!(links(&printed), [two, rest].concat());
}

#[tokio::test]
async fn a_wait_ends_at_once_if_it_is_wrong_and_in_time_if_nobody_answers() {
    let failure = typed(&["peer", "wait", "bad"]).await.1.unwrap_err();
    assert_eq!(
        (failure.to_string().as_str(), failure.exit_code()),
        ("name: not an address", 1)
    );
    let begun = tokio::time::Instant::now();
    let words = ["peer", "wait", "silent", "--within", "0", "--timeout", "60"];
    let failure = typed(&words).await.1.unwrap_err();
    assert_eq!(failure.exit_code(), 2, "{failure}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_part_of_the_status_that_fails_is_said_to_be_so_and_the_others_go_on() {
    let replica = Replica {
        group: &[3],
        ..REPLICA
    };
    let replica = listening(replica).await;
    let (printed, result) = typed_at(replica, &["status", "--timeout", "1"]).await;
    assert_eq!(result.unwrap_err().exit_code(), 3);
    assert!(printed.starts_with("replica 3 at "), "{printed}");
    // The replica in this process has no majority for VTEPs.
    let unknown = printed
        .lines()
        .find(|line| line.starts_with("vteps"))
        .unwrap();
    assert!(
        unknown.contains("not known") && unknown.ends_with(" 1 wrong"),
        "{unknown}"
    );
    assert!(printed.contains("0 of 0 sessions established"), "{printed}");
    let (printed, _) = typed_at(replica, &["status", "-o", "json", "--timeout", "1"]).await;
    let status: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let parts = status["parts"].as_array().unwrap();
    let names: Vec<_> = parts
        .iter()
        .map(|part| part["what"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "replicas", "config", "peers", "fabric", "links", "vteps", "agents", "plans", "jobs",
            "macs", "hosts"
        ]
    );
}

#[tokio::test]
async fn links_jobs_and_pins_that_are_not_as_they_should_be_are_on_the_screen() {
    let replica = Replica {
        group: &[3],
        faulty: true,
        ..REPLICA
    };
    let replica = listening(replica).await;
    let (printed, result) = typed_at(replica, &["status", "--timeout", "1"]).await;
    assert_eq!(result.unwrap_err().exit_code(), 3);
    let part = |what: &str| {
        let lines = printed.lines().skip_while(|line| !line.starts_with(what));
        let first = lines.clone().next().unwrap();
        let below = lines.skip(1).take_while(|line| line.starts_with("  "));
        let words: Vec<_> = first.split_whitespace().collect();
        (words.join(" "), below.collect::<Vec<_>>().join("\n"))
    };
    let (links, below) = part("links");
    assert_eq!(links, "links 1 of 2 are up, 1 derated 3 wrong");
    let expected = "  \
  link leaf1:eth2--spine2:eth1 is down: leaf1: eth2 leads to spine1: eth9
  link leaf1:eth1--spine1:eth1 is derated by 50 % for errors
  no gNMI from spine2: connection refused";
    assert_eq!(below, expected);
    let (jobs, below) = part("jobs");
    assert_eq!(
        jobs,
        "jobs 4, of which 0 are pinned, 4 go by weights 1 wrong"
    );
    let expected = "  \
  job loose is weighted, 0 of 8 flows have their pins: the busiest uplink of leaf1 carried 40 % more than predicted
  jobs need 2.00 times what links carry: what leaf1 sends over its uplinks
  job off is weighted: its mode is off
  job train2 is pinned, 2 of 2 flows have their pins, of which switches get none: the job is in shadow";
    assert_eq!(below, expected);
    let (agents, below) = part("agents");
    assert_eq!(
        agents,
        "agents 1 of 1 switches that are on are programmed 1 wrong"
    );
    let expected = "  no packet by pins of leaf1: 192.168.2.1 in VNI 100";
    assert_eq!(below, expected);
}

#[tokio::test]
async fn what_is_done_to_a_peer_is_answered_in_json() {
    let (printed, _) = typed(&["peer", "reset", "192.0.2.11", "-o", "json"]).await;
    let answer: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(answer["header"]["replica_id"], 1);
    assert_eq!(typed(&["peer", "reset", "192.0.2.11"]).await.0, "");
}

#[tokio::test]
async fn tables_have_names_and_no_header_if_that_is_wanted() {
    let (printed, _) = typed(&["fabric", "show", "-o", "name"]).await;
    assert_eq!(printed, "leaf1\nleaf2\n");
    let (printed, _) = typed(&["fabric", "show", "--no-headers"]).await;
    assert!(
        !printed.contains("SWITCH") && printed.contains("leaf1   leaf  -     -      up\n"),
        "{printed}"
    );
    let words = ["plan", "diff", "--leaf", "leaf1", "-o", "name"];
    assert_eq!(typed(&words).await.0, "leaf1\n");
    let words = ["plan", "diff", "--leaf", "leaf1", "--no-headers"];
    assert!(!typed(&words).await.0.contains("PREFIX"));
    let words = ["context", "list", "-w"];
    let failure = typed(&words).await.1.unwrap_err();
    assert!(
        failure.to_string().contains("file of your own"),
        "{failure}"
    );
}

/// Every message that is printed has its descriptor.
#[test]
fn every_row_is_an_object() {
    fn object<R: Row + Default>() {
        let row = R::default();
        assert!(row.object().is_object());
        let columns = R::HEADER.len() + R::WIDE.len();
        assert!(row.lines(None).iter().all(|line| line.len() == columns));
        assert!(
            R::PASSING
                .iter()
                .all(|it| R::HEADER.contains(it) || R::WIDE.contains(it))
        );
    }
    object::<proto::Peer>();
    object::<proto::Route>();
    object::<proto::Vtep>();
    object::<proto::Vni>();
    object::<proto::HostAddress>();
    object::<proto::DuplicateMac>();
    object::<proto::EthernetSegment>();
    object::<proto::Replica>();
    object::<proto::SwitchAgent>();
    object::<proto::LeafPlan>();
    object::<proto::LeafPlanDiff>();
    object::<proto::ConfigValue>();
    object::<proto::ReloadConfigResponse>();
    object::<proto::ResourceChange>();
    object::<proto::Switch>();
    object::<proto::Link>();
    object::<proto::Job>();
    object::<proto::Pin>();
}

#[tokio::test]
async fn each_address_is_a_replica_of_its_own() {
    let both = vec!["192.0.2.1:1".to_owned(), "192.0.2.2:1".to_owned()];
    let connection = Connection::new(both, Duration::from_secs(1));
    let each: Vec<_> = connection
        .each()
        .iter()
        .map(|it| it.address().to_owned())
        .collect();
    assert_eq!(each, ["192.0.2.1:1", "192.0.2.2:1"]);
    assert_eq!(connection.patient(Duration::ZERO).address(), "192.0.2.1:1");
}

#[tokio::test]
async fn a_status_of_nobody_is_no_answer() {
    let (_, result) = typed_at_all(&nobody().await, &["status"]).await;
    assert_eq!(result.unwrap_err().exit_code(), 2);
}
