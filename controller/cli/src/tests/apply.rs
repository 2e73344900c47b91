//! `weft fabric apply`, and switches and links that go out of service: what is deleted, kept and refused.

use std::net::SocketAddr;

use weft_proto::v1::{self as proto, AdminState};

use super::memory::Memory;
use super::{typed_at, typed_by_a_person};

/// A file in a directory of its own.
struct File {
    _directory: tempfile::TempDir,
    path: String,
}

fn file(text: &str) -> File {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fabric.yaml");
    std::fs::write(&path, text).unwrap();
    File {
        path: path.to_str().unwrap().to_owned(),
        _directory: directory,
    }
}

/// Two switches of the three that are declared, and nothing else.
const TWO: &str =
    "name: example\nswitches: [{name: leaf1, role: leaf}, {name: spine1, role: spine}]\n";

async fn refused(address: SocketAddr, words: &[&str]) -> (String, u8) {
    let failure = typed_at(address, words).await.1.unwrap_err();
    (failure.to_string(), failure.exit_code())
}

#[tokio::test]
async fn without_prune_the_rest_is_kept_and_listed() {
    let (memory, file) = (Memory::declared(), file(TWO));
    let address = memory.listening().await;
    let (printed, result) = typed_at(address, &["fabric", "apply", &file.path]).await;
    result.unwrap();
    let path = &file.path;
    let kept = "5: switch leaf2, host h1, link leaf1:eth1--spine1:leaf1, link leaf2:eth1--spine1:leaf2, host port leaf1:eth3";
    let expected = format!(
        "fabric example applied: 0 created, 0 updated, 0 deleted, generation 7\n\
         not in {path}, kept: {kept}; --prune deletes them\n"
    );
    assert_eq!(printed, expected);
    assert_eq!(memory.content().fabric.switches.len(), 3);
}

#[tokio::test]
async fn prune_shows_what_goes_and_asks() {
    let (memory, file) = (Memory::declared(), file(TWO));
    let address = memory.listening().await;
    let words = ["fabric", "apply", &file.path, "--prune"];
    let (said, code) = refused(address, &words).await;
    assert_eq!(code, 1);
    let named = ", would be deleted: 5: switch leaf2, host h1, ";
    assert!(
        said.contains(named) && said.contains("repeat with --yes"),
        "{said}"
    );
    let (_, screen, result) = typed_by_a_person(address, &words, "n\n").await;
    assert!(
        screen.contains(named) && screen.ends_with("Delete them? [y/N] "),
        "{screen}"
    );
    assert_eq!(result.unwrap_err().to_string(), "nothing was changed");
    let (printed, _) = typed_at(address, &[&words[..], &["--dry-run"]].concat()).await;
    let verdict =
        "fabric example valid, nothing changed; it would be: 0 created, 0 updated, 5 deleted\n";
    assert!(printed.starts_with(verdict), "{printed}");
    assert!(
        printed.contains("would be deleted: 5: switch leaf2, "),
        "{printed}"
    );
    assert!(memory.calls().is_empty());
    let (printed, _, result) = typed_by_a_person(address, &words, "y\n").await;
    result.unwrap();
    assert!(
        printed.contains("0 created, 0 updated, 5 deleted, generation 8\n"),
        "{printed}"
    );
    assert_eq!(memory.calls(), ["apply prune=true force=false"]);
    assert_eq!(memory.content().fabric.switches.len(), 2);
    // Nothing goes any more, and nobody is asked.
    typed_at(address, &words).await.1.unwrap();
}

#[tokio::test]
async fn yes_answers_the_question_before_it_is_asked() {
    let (memory, file) = (Memory::declared(), file(TWO));
    let address = memory.listening().await;
    let words = ["fabric", "apply", &file.path, "--prune", "--yes"];
    let (printed, result) = typed_at(address, &words).await;
    result.unwrap();
    assert!(printed.contains("5 deleted, generation 8\n"), "{printed}");
    assert_eq!(memory.calls(), ["apply prune=true force=false"]);
}

#[tokio::test]
async fn only_what_the_person_saw_is_deleted() {
    let (memory, file) = (Memory::declared(), file(TWO));
    let address = memory.listening().await;
    // The fabric changes while it is looked at.
    memory.content().restless = 1;
    let words = ["fabric", "apply", &file.path, "--prune"];
    typed_by_a_person(address, &words, "y\n").await.2.unwrap();
    assert_eq!(memory.content().generation, 9);
}

#[tokio::test]
async fn changes_of_others_are_listed_for_a_file_without_a_generation() {
    let memory = Memory::declared();
    let address = memory.listening().await;
    let others = || {
        vec![proto::ResourceChange {
            kind: proto::ResourceKind::Link.into(),
            name: "a--b".to_owned(),
            ..proto::ResourceChange::default()
        }]
    };
    memory.content().changed_since = others();
    let without = file(TWO);
    let (printed, _) = typed_at(address, &["fabric", "apply", &without.path]).await;
    let line = "changed by other calls since the last apply that changed something: 1: link a--b\n";
    assert!(printed.ends_with(line), "{printed}");
    memory.content().changed_since = others();
    let with = file(&format!("generation: 7\n{TWO}"));
    let (printed, _) = typed_at(address, &["fabric", "apply", &with.path]).await;
    assert!(!printed.contains("other calls"), "{printed}");
    // A person is shown them before the deletion and has them afterwards.
    memory.content().changed_since = others();
    let words = ["fabric", "apply", &without.path, "--prune"];
    let (printed, _, _) = typed_by_a_person(address, &words, "y\n").await;
    assert!(printed.ends_with(line), "{printed}");
}

#[tokio::test]
async fn each_refusal_names_the_file_and_the_remedy() {
    let memory = Memory::declared();
    let address = memory.listening().await;
    let cases: [(String, &[&str]); 4] = [
        (
            "name: example\n".to_owned(),
            &["names no switch, host, link or host port"],
        ),
        (
            TWO.replace("example", "other"),
            &["is of another fabric: \"example\" is declared", "--rename"],
        ),
        (
            format!("generation: 6\n{TWO}"),
            &["states generation 6", "weft fabric show -o yaml"],
        ),
        (
            "name: example\nswitches: [{name: spine1, role: spine, down: true}]\n".to_owned(),
            &["leaf1 and leaf2", "jobs: train1", "--force"],
        ),
    ];
    for (text, parts) in cases {
        memory.content().last_path = true;
        let file = file(&text);
        let (said, code) = refused(address, &["fabric", "apply", &file.path]).await;
        assert_eq!(code, 1, "{said}");
        assert!(
            said.starts_with(&file.path) && said.contains("nothing was changed"),
            "{said}"
        );
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
    assert!(memory.calls().is_empty());
    let other = file(&TWO.replace("example", "other"));
    typed_at(address, &["fabric", "apply", &other.path, "--rename"])
        .await
        .1
        .unwrap();
    assert_eq!(memory.content().fabric.display_name, "other");
    let down = file("name: other\nswitches: [{name: spine1, role: spine, down: true}]\n");
    typed_at(address, &["fabric", "apply", &down.path, "--force"])
        .await
        .1
        .unwrap();
    let calls = [
        "apply prune=false force=false",
        "apply prune=false force=true",
    ];
    assert_eq!(memory.calls(), calls);
}

#[tokio::test]
async fn a_state_that_the_file_does_not_state_stays() {
    let memory = Memory::declared();
    let address = memory.listening().await;
    let (printed, _) = typed_at(address, &["fabric", "show", "-o", "yaml"]).await;
    assert!(
        printed.starts_with("name: example\ngeneration: 7\n"),
        "{printed}"
    );
    assert_eq!(printed.matches("down:").count(), 1, "{printed}");
    let shown = file(&printed);
    typed_at(address, &["switch", "down", "spine1"])
        .await
        .1
        .unwrap();
    let (printed, result) = typed_at(address, &["fabric", "apply", &shown.path]).await;
    result.unwrap();
    assert!(
        printed.contains("0 created, 0 updated, 0 deleted"),
        "{printed}"
    );
    let switches = &memory.content().fabric.switches;
    assert_eq!(switches[2].admin_state(), AdminState::Down);
}

#[tokio::test]
async fn the_last_path_is_taken_by_force_alone() {
    let memory = Memory::declared();
    memory.content().last_path = true;
    let address = memory.listening().await;
    for noun in ["switch", "link"] {
        let words = [noun, "down", "spine1"];
        let (said, code) = refused(address, &words).await;
        let expected = "leaf1 and leaf2 lose their last path to each other; jobs: train1; \
                        nothing was changed. Repeat with --force to accept that";
        assert_eq!((said.as_str(), code), (expected, 1));
        let forced = [&words[..], &["--force"]].concat();
        typed_at(address, &forced).await.1.unwrap();
        assert_eq!(memory.calls(), [format!("{noun} force=true")]);
        typed_at(address, &[noun, "up", "spine1"]).await.1.unwrap();
        assert_eq!(memory.calls(), [format!("{noun} force=false")]);
    }
}

/// A replica refuses a request_id that it knows of another request.
#[tokio::test]
async fn each_name_of_a_link_is_a_request_of_its_own_however_often_it_is_asked() {
    let memory = Memory::declared();
    let address = memory.listening().await;
    memory.content().unsure = 2;
    let turned = ["link", "down", "spine1:leaf1--leaf1:eth1"];
    typed_at(address, &turned).await.1.unwrap();
    assert_eq!(memory.content().unsure, 0);
    assert_eq!(memory.calls(), ["link force=false"]);
    let mut names: Vec<_> = memory.content().requests.values().cloned().collect();
    names.sort_unstable();
    assert_eq!(names, ["leaf1:eth1--spine1:leaf1", turned[2]]);
}

#[tokio::test]
async fn a_leader_that_does_not_know_its_links_yet_is_asked_again() {
    let memory = Memory::declared();
    let (address, two) = (memory.listening().await, file(TWO));
    for words in [
        &["switch", "down", "spine1"][..],
        &["link", "down", "leaf1:eth1--spine1:leaf1"],
        &["fabric", "apply", &two.path],
    ] {
        memory.content().unsure = 2;
        typed_at(address, words).await.1.unwrap();
        assert_eq!(memory.content().unsure, 0);
    }
    memory.content().unsure = u32::MAX;
    let (said, code) = refused(address, &["switch", "down", "spine1"]).await;
    assert_eq!(code, 2);
    assert!(
        said.contains("nothing was changed") && said.contains("--force"),
        "{said}"
    );
}

#[tokio::test]
async fn an_apply_whose_answer_is_lost_is_asked_for_again_and_made_once() {
    let (memory, file) = (
        Memory::declared(),
        file(&TWO.replace("spine}", "spine, pod: p1}")),
    );
    let address = memory.listening().await;
    memory.content().lost = 2;
    let (printed, result) = typed_at(address, &["fabric", "apply", &file.path]).await;
    result.unwrap();
    let expected = "fabric example applied: by an earlier try of this command, whose answer was lost, generation 8\n";
    assert_eq!(printed, expected);
    assert_eq!(memory.calls(), ["apply prune=false force=false"]);
    assert_eq!(memory.content().lost, 0);
}

#[tokio::test]
async fn a_file_of_the_name_of_a_dash_is_standard_input() {
    let memory = Memory::declared();
    let address = memory.listening().await;
    let words = ["fabric", "apply", "-"];
    let (printed, _, result) = typed_by_a_person(address, &words, TWO).await;
    result.unwrap();
    let kept = "fabric example applied: 0 created, 0 updated, 0 deleted, generation 7\nnot in standard input, kept: ";
    assert!(printed.starts_with(kept), "{printed}");
    assert_eq!(memory.calls(), ["apply prune=false force=false"]);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_says_once_that_nothing_was_changed() {
    let memory = Memory::declared();
    let address = memory.listening().await;
    let empty = ["", "\n", "name: example\n", "name: [\n"].map(file);
    let files = empty.iter().map(|it| it.path.as_str());
    for path in files.chain(["/nowhere/fabric.yaml"]) {
        let (said, code) = refused(address, &["fabric", "apply", path]).await;
        assert_eq!(
            (code, said.matches("nothing was changed").count()),
            (1, 1),
            "{said}"
        );
        assert!(said.starts_with(path), "{said}");
    }
    let (said, code) = refused(address, &["fabric", "apply", "-"]).await;
    let expected = "standard input: is empty; nothing was changed";
    assert_eq!((said.as_str(), code), (expected, 1));
    assert!(memory.calls().is_empty());
}
