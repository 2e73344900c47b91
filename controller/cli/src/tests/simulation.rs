//! What-if, simulations and reasons, as they are typed.

use std::io::Write;

use super::{refused, typed};

/// A file with this text, for as long as it is kept.
fn file(text: &str) -> (tempfile::NamedTempFile, String) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    (file, path)
}

const JOB: &str = "name: train2\nhost_names: [h1, h2]\n";

#[tokio::test]
async fn what_would_be_planned_is_printed_with_what_changes() {
    let (_kept, job) = file(JOB);
    let words = ["plan", "what-if", "--job", &job, "--without-job", "train1"];
    let (printed, result) = typed(&words).await;
    result.unwrap();
    let expected = "\
JOB         PLAN    FLOWS  PINNED  REASON
train2      pinned  8      8       -
not-train1  pinned  8      8       -

pins:           8: 2 move, 1 are new, 0 go
max load:       50.00% of a link, by the pins of all jobs
lower bound:    50.00% of a link: what leaf1 sends over its uplinks
tight links:    1: leaf1:eth1--spine1:eth1
weights:        of 4 leaves, 3 change; rounding gives a next hop of leaf2 1.25% too much

PLACEMENT         SLOWEST-FLOW  MEAN-FLOW  DRAWS
enhanced-ecmp     33.3%         75.0%      16
capacity-weights  50.0%         80.0%      16

LINK                     FROM    TO      LOAD       SHARE
leaf1:eth1--spine1:eth1  leaf1   spine1  50.0 Gb/s  50.0%
leaf1:eth1--spine1:eth1  spine1  leaf1   25.0 Gb/s  25.0%
and 10 more
";
    assert_eq!(printed, expected);
    let (printed, _) = typed(&["plan", "what-if", "--replan", "-o", "json"]).await;
    let answer: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(answer["pin_changes"]["moved_count"], 6);
    assert_eq!(answer["pins"], serde_json::json!([]));
    let (printed, _) = typed(&["plan", "what-if", "--job", &job, "-o", "name"]).await;
    assert_eq!(printed, "train2\n");
}

#[tokio::test]
async fn pins_are_printed_as_a_list_of_them_is() {
    let (_kept, job) = file(JOB);
    let (_kept, fabric) = file("name: lab\nhosts: [{name: h1}]\n");
    let what_if = ["plan", "what-if", "--job", &job, "--pins"];
    let simulate = ["plan", "simulate", "--fabric", &fabric, "--pins"];
    let expected = "
JOB     SOURCE      DESTINATION  SPINES     UDP-PORTS
train2  leaf1:eth3  leaf2:eth3   spine1*16  -
train2  leaf2:eth3  leaf1:eth3   spine1*16  -
";
    for words in [what_if, simulate] {
        let (printed, result) = typed(&words).await;
        result.unwrap();
        assert!(
            printed.ends_with(&format!("and 10 more\n{expected}")),
            "{printed}"
        );
        let (printed, _) = typed(&[&words[..], &["-o", "json"]].concat()).await;
        let answer: serde_json::Value = serde_json::from_str(&printed).unwrap();
        let pins = answer["pins"].as_array().unwrap();
        assert_eq!(pins.len(), 2);
        assert_eq!(pins[0]["paths"][0]["spine_name"], "spine1");
        assert_eq!(pins[1]["source_host_port_name"], "leaf2:eth3");
    }
    let (printed, _) = typed(&[&what_if[..], &["--no-headers"]].concat()).await;
    assert!(!printed.contains("SOURCE"), "{printed}");
}

#[tokio::test]
async fn a_job_that_would_have_no_way_ends_with_its_own_code() {
    let (_kept, job) = file(JOB);
    let words = ["plan", "what-if", "--drain", "spine1", "--job", &job];
    let (printed, result) = typed(&words).await;
    assert!(printed.contains("leaf1 has no link that carries traffic"));
    let failure = result.unwrap_err();
    assert_eq!(
        (failure.to_string().as_str(), failure.exit_code()),
        ("not placed: train2", 3)
    );
    let said = refused(&["plan", "what-if", "--fail-link", "x"]).await;
    let expected = "failed_link_names[0]: no link is named \"x\"";
    assert_eq!(said, (expected.to_owned(), 1));
    let (said, code) = refused(&["plan", "what-if", "--job", "/nonexistent/j.yaml"]).await;
    let expected = "/nonexistent/j.yaml: No such file or directory (os error 2)";
    assert_eq!((said.as_str(), code), (expected, 1));
}

#[tokio::test]
async fn jobs_that_would_need_more_than_links_carry_end_with_the_same_code() {
    let (_kept, job) = file("name: over\nhost_names: [h1, h2]\n");
    let (_kept, fabric) = file("name: lab\nhosts: [{name: h1}]\n");
    let what_if = ["plan", "what-if", "--job", &job];
    let simulate = ["plan", "simulate", "--fabric", &fabric, "--job", &job];
    for words in [&what_if[..], &simulate[..]] {
        let (printed, result) = typed(words).await;
        let bound = "\nlower bound:    200.00% of a link: what leaf1 sends over its uplinks\n";
        assert!(printed.contains(bound), "{printed}");
        let failure = result.unwrap_err();
        let said = "jobs need 2.00 times what links carry: what leaf1 sends over its uplinks";
        assert_eq!(
            (failure.to_string().as_str(), failure.exit_code()),
            (said, 3)
        );
    }
}

#[tokio::test]
async fn a_fabric_from_a_file_is_simulated_and_drawn() {
    let (_kept, fabric) = file("name: lab\nhosts: [{name: h1}]\n");
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("links.svg");
    let picture = picture.to_str().unwrap();
    let words = ["plan", "simulate", "--fabric", &fabric, "--svg", picture];
    let (printed, result) = typed(&words).await;
    result.unwrap();
    assert!(printed.contains("\nlab  pinned"), "{printed}");
    let svg = std::fs::read_to_string(picture).unwrap();
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    assert!(
        svg.contains("leaf1 to spine1, leaf1:eth1--spine1:eth1"),
        "{svg}"
    );
    let words = ["plan", "what-if", "--svg", "/nonexistent/links.svg"];
    let (said, code) = refused(&words).await;
    let expected = "/nonexistent/links.svg: No such file or directory (os error 2)";
    assert_eq!((said.as_str(), code), (expected, 1));
}

#[tokio::test]
async fn weights_are_explained_by_destination() {
    let expected = "\
leaf1 to leaf2 (192.0.2.12/32): 3 parts over 2 of 3 uplinks
  leaf1:eth3--spine3:eth1: no part
  66.7% over spine1 (eth1): 2 of 3 parts
  33.3% over spine2 (eth2): 1 of 3 parts
leaf1 is on (its own mode): it gets these weights, and flows that are pinned go by their pins
";
    let (printed, result) = typed(&["plan", "why", "leaf1", "leaf2"]).await;
    result.unwrap();
    assert_eq!(printed, expected);
    let (printed, _) = typed(&["plan", "why", "leaf1", "192.0.2.12/32"]).await;
    assert_eq!(printed, expected);
    let (printed, _) = typed(&["plan", "why", "leaf1"]).await;
    assert_eq!(printed.matches("leaf1 to leaf").count(), 2);
    let (printed, _) = typed(&["plan", "why", "leaf1", "-o", "json"]).await;
    let object: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(object["leaf_plan"]["entries"].as_array().unwrap().len(), 2);
    assert_eq!(object["leaf_balance"]["mode"], "BALANCE_MODE_ON");
    for (to, expected) in [
        ("leaf9", "no leaf is named \"leaf9\""),
        ("spine1", "\"spine1\" is a spine"),
        ("leaf1", "leaf1 sends nothing to itself over a spine"),
        ("leaf4", "leaf1 has no plan for what it sends to \"leaf4\""),
        (
            "192.0.2.99/32",
            "leaf1 has no plan for what it sends to \"192.0.2.99/32\"",
        ),
    ] {
        let said = refused(&["plan", "why", "leaf1", to]).await;
        assert_eq!(said, (expected.to_owned(), 1));
    }
    let said = refused(&["plan", "why", "leaf9"]).await;
    assert_eq!(
        said,
        ("leaf_name: no leaf is named \"leaf9\"".to_owned(), 1)
    );
}

#[tokio::test]
async fn what_a_leaf_has_no_weights_for_goes_as_it_routes_it() {
    let entry = "\
leaf4 to leaf1 (192.0.2.11/32): no confirmed way over 1 uplinks: the switch's own routing decides
  leaf4:eth1--spine1:eth4: not used: nobody announces the way
";
    let said =
        "leaf4 is on (its own mode), and gets no weights to leaf1: its own routing decides\n";
    let (printed, result) = typed(&["plan", "why", "leaf4", "leaf1"]).await;
    result.unwrap();
    assert_eq!(printed, format!("{entry}{said}"));
    // Nobody knows the flows of this job.
    let words = ["plan", "why", "--job", "train2", "leaf4:eth4", "leaf1:eth4"];
    let (printed, result) = typed(&words).await;
    result.unwrap();
    let first = format!("train2, leaf4:eth4 to leaf1:eth4: not pinned; {said}{entry}");
    assert!(printed.starts_with(&first), "{printed}");
}

#[tokio::test]
async fn a_flow_is_explained_by_its_pin_or_by_weights() {
    let words = ["plan", "why", "--job", "train1", "leaf1:eth3", "leaf2:eth3"];
    let expected = "\
train1, leaf1:eth3 to leaf2:eth3: pinned to spine1, 2 of 3 parts, and spine2, 1 of 3 parts
plan of the job: pinned, 2 of 2 flows have their pins
max load: 50.00% of a link, by the pins of all jobs
lower bound: 50.00% of a link: what leaf1 sends over its uplinks
tight links: 1: leaf1:eth1--spine1:eth1
";
    let (printed, result) = typed(&words).await;
    result.unwrap();
    assert_eq!(printed, expected);
    let (printed, _) = typed(&[&words[..], &["-o", "json"]].concat()).await;
    let object: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(object["pin"]["paths"][0]["spine_name"], "spine1");
    assert!(object.get("leaf_plan").is_none());

    let words = ["plan", "why", "--job", "train1", "leaf1:eth5", "leaf2:eth3"];
    let (printed, _) = typed(&words).await;
    let first = "train1, leaf1:eth5 to leaf2:eth3: not pinned; what is sent goes by weights\n";
    assert!(printed.starts_with(first), "{printed}");
    assert!(printed.contains("66.7% over spine1 (eth1)"), "{printed}");
    let words = ["plan", "why", "--job", "train1", "leaf1:eth4", "leaf1:eth5"];
    let (printed, _) = typed(&words).await;
    assert!(
        printed.contains("not pinned; it stays below leaf1\n"),
        "{printed}"
    );
    let words = ["plan", "why", "--job", "x", "leaf1:eth4", "leaf1:eth5"];
    let said = refused(&words).await;
    assert_eq!(said, ("job_name: no job is named \"x\"".to_owned(), 1));
}

#[tokio::test]
async fn what_is_no_flow_of_a_job_is_not_explained() {
    for (from, to, expected) in [
        (
            "leaf1:eth5",
            "leaf2:eth77",
            "no host port is named \"leaf2:eth77\"",
        ),
        (
            "leaf1:eth9",
            "leaf2:eth3",
            "job train1 sends nothing from leaf1:eth9 to leaf2:eth3: it has no NIC at leaf1:eth9",
        ),
        (
            "vni100:192.0.2.1",
            "leaf2:eth3",
            "job train1 sends nothing from vni100:192.0.2.1 to leaf2:eth3: it has no NIC at vni100:192.0.2.1",
        ),
        // Both are NICs of the job. Of its flows one comes before this one, and one behind it.
        (
            "leaf1:eth4",
            "leaf2:eth4",
            "job train1 sends nothing from leaf1:eth4 to leaf2:eth4",
        ),
        (
            "leaf3:eth4",
            "leaf1:eth4",
            "job train1 sends nothing from leaf3:eth4 to leaf1:eth4",
        ),
        (
            "leaf1:eth4",
            "leaf1:eth4",
            "job train1 sends nothing from leaf1:eth4 to leaf1:eth4",
        ),
    ] {
        let said = refused(&["plan", "why", "--job", "train1", from, to]).await;
        assert_eq!(said, (expected.to_owned(), 1));
    }
}

#[tokio::test]
async fn a_switch_without_an_agent_is_told_from_none() {
    let said = refused(&["agent", "show", "leaf9"]).await;
    assert_eq!(said, ("no switch is named \"leaf9\"".to_owned(), 1));
    let said = refused(&["agent", "show", "spine1"]).await;
    let expected = "spine1 is a spine: weft programs leaves";
    assert_eq!(said, (expected.to_owned(), 1));
    let said = refused(&["agent", "show", "leaf5"]).await;
    let expected = "leaf5 has no agent_address: weft does not program it";
    assert_eq!(said, (expected.to_owned(), 1));
}
