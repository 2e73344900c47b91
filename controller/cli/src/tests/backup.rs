//! `weft backup`: what is saved comes back, and nothing else is changed on the way.

use std::os::unix::fs::PermissionsExt;

use weft_proto::v1 as proto;

use super::memory::{Content, Memory};
use super::{typed_at, typed_by_a_person};

/// A directory with a backup of a replica in which something is declared.
async fn saved() -> (tempfile::TempDir, String, Memory) {
    let memory = Memory::declared();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backup.yaml");
    let path = path.to_str().unwrap().to_owned();
    let address = memory.listening().await;
    typed_at(address, &["backup", "save", &path])
        .await
        .1
        .unwrap();
    (directory, path, memory)
}

fn text(memory: &Memory) -> String {
    let content = memory.content();
    let mut jobs: Vec<_> = content.jobs.values().cloned().collect();
    for job in &mut jobs {
        job.etag.clear();
    }
    let (modes, default) = (&content.modes, content.default_mode);
    format!("{:?} {modes:?} {default:?} {jobs:?}", content.fabric)
}

#[tokio::test]
async fn a_file_is_whole_private_and_replaced() {
    let (directory, path, memory) = saved().await;
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(
        written.contains("\nweft_backup: 1\ndisplay_name: example\ngeneration: 7\n"),
        "{written}"
    );
    let address = memory.listening().await;
    let (printed, _) = typed_at(address, &["backup", "save", &path]).await;
    let expected =
        "fabric example, generation 7: 3 switches, 1 hosts, 2 links, 1 host ports, 1 jobs\n";
    assert_eq!(printed, format!("{path}: {expected}"));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    let (printed, _) = typed_at(address, &["backup", "save", "-"]).await;
    assert_eq!(printed, written);
    let failure = typed_at(address, &["backup", "save", "/nonexistent/b"])
        .await
        .1;
    assert_eq!(failure.unwrap_err().exit_code(), 1);
}

#[tokio::test]
async fn nothing_is_saved_where_nothing_is_declared() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backup.yaml");
    let address = Memory::default().listening().await;
    let failure = typed_at(address, &["backup", "save", path.to_str().unwrap()])
        .await
        .1;
    let failure = failure.unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    assert!(
        failure.to_string().starts_with("nothing is declared"),
        "{failure}"
    );
    assert!(!path.exists());
}

#[tokio::test]
async fn a_fabric_that_changes_is_read_again_but_not_forever() {
    let memory = Memory::declared();
    let address = memory.listening().await;
    memory.content().restless = 3;
    typed_at(address, &["backup", "save", "-"]).await.1.unwrap();
    memory.content().restless = u32::MAX;
    let failure = typed_at(address, &["backup", "save", "-"])
        .await
        .1
        .unwrap_err();
    assert_eq!(failure.exit_code(), 2);
    assert!(
        failure.to_string().contains("changes while it is read"),
        "{failure}"
    );
}

#[tokio::test]
async fn an_empty_weft_is_restored_without_a_question() {
    let (_directory, path, before) = saved().await;
    let after = Memory::default();
    let address = after.listening().await;
    let words = ["backup", "restore", &path];
    let (printed, result) = typed_at(address, &[&words[..], &["--dry-run"]].concat()).await;
    result.unwrap();
    assert!(
        printed.contains("valid, nothing changed; it would\n  create 7: switch leaf1"),
        "{printed}"
    );
    assert!(after.calls().is_empty());
    let (printed, result) = typed_at(address, &words).await;
    result.unwrap();
    let expected = "fabric example restored: 7 created, 0 updated, 0 deleted; 2 balance modes set; jobs: 1 created, 0 updated, 0 deleted\n";
    assert_eq!(printed, format!("{path}: {expected}"));
    let calls = [
        "apply prune=true force=true",
        "mode None BALANCE_MODE_SHADOW",
        "mode Some(\"leaf1\") BALANCE_MODE_ON",
        "create train1",
    ];
    assert_eq!(after.calls(), calls);
    assert_eq!(text(&after), text(&before));
    let (printed, result) = typed_at(address, &words).await;
    result.unwrap();
    assert_eq!(
        printed,
        format!("{path}: nothing differs from fabric example, nothing was changed\n")
    );
    assert!(after.calls().is_empty());
}

#[tokio::test]
async fn what_is_declared_is_changed_after_a_question_only() {
    let (_directory, path, memory) = saved().await;
    let address = memory.listening().await;
    let before = text(&memory);
    let change = |content: &mut Content| {
        content.fabric.switches[2].admin_state = proto::AdminState::Down.into();
        content.fabric.hosts.push(proto::Host {
            name: "h9".to_owned(),
            ..proto::Host::default()
        });
        content.generation += 2;
        content.modes.insert("leaf2".to_owned(), 3);
        content.jobs.clear();
        let name = "other".to_owned();
        content.jobs.insert(
            name.clone(),
            proto::Job {
                name,
                ..proto::Job::default()
            },
        );
    };
    change(&mut memory.content());
    let words = ["backup", "restore", &path];
    let failure = typed_at(address, &words).await.1.unwrap_err();
    assert_eq!(failure.exit_code(), 1);
    let lines = [
        "update 1: switch spine1",
        "delete 1: host h9",
        "set balance modes 2: all shadow, leaf1 on",
        "delete jobs 1: other",
        "create jobs 1: train1",
    ];
    let said = failure.to_string();
    assert!(
        lines.iter().all(|line| said.contains(line)) && said.contains("--yes"),
        "{said}"
    );
    let (_, screen, result) = typed_by_a_person(address, &words, "no\n").await;
    assert!(
        result.is_err() && screen.ends_with("Restore it? [y/N] "),
        "{screen}"
    );
    assert!(memory.calls().is_empty());
    typed_by_a_person(address, &words, "yes\n").await.2.unwrap();
    assert_eq!(text(&memory), before);
    change(&mut memory.content());
    let yes = [&words[..], &["--yes", "-o", "json"]].concat();
    let (printed, result) = typed_at(address, &yes).await;
    result.unwrap();
    assert_eq!(text(&memory), before);
    let done: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(done["jobs_deleted"], serde_json::json!(["other"]));
    assert_eq!(done["changes"][0]["name"], "spine1");
}

#[tokio::test]
async fn a_file_that_is_not_whole_changes_nothing() {
    let (directory, path, memory) = saved().await;
    let address = memory.listening().await;
    let whole = std::fs::read_to_string(&path).unwrap();
    let cut = directory.path().join("cut.yaml");
    let cut = cut.to_str().unwrap();
    for (written, expected) in [
        (
            whole[..whole.find("links:").unwrap()].to_owned(),
            "cut short",
        ),
        (
            whole.replace("jobs: 1", "jobs: 2"),
            "`end` states 2 jobs, and the file has 1",
        ),
        (
            whole.replace("weft_backup: 1", "weft_backup: 9"),
            "backup format 9, of a later release",
        ),
        ("name: example\n".to_owned(), "is no backup"),
    ] {
        std::fs::write(cut, written).unwrap();
        let failure = typed_at(address, &["backup", "restore", cut, "--yes"])
            .await
            .1;
        let failure = failure.unwrap_err();
        let said = failure.to_string();
        assert_eq!(failure.exit_code(), 1);
        assert!(said.starts_with(cut) && said.contains(expected), "{said}");
        assert!(said.ends_with("nothing was changed"), "{said}");
    }
    assert!(memory.calls().is_empty());
}

#[tokio::test]
async fn another_fabric_is_restored_by_rename_alone() {
    let (_directory, path, memory) = saved().await;
    let address = memory.listening().await;
    memory.content().fabric.display_name = "other".to_owned();
    let words = ["backup", "restore", &path, "--yes"];
    let failure = typed_at(address, &words).await.1.unwrap_err();
    assert_eq!(failure.exit_code(), 1);
    let said = failure.to_string();
    assert!(
        said.contains("another fabric: \"other\" is declared") && said.contains("--rename"),
        "{said}"
    );
    assert!(memory.calls().is_empty());
    typed_at(address, &[&words[..], &["--rename"]].concat())
        .await
        .1
        .unwrap();
    assert_eq!(memory.content().fabric.display_name, "example");
}

#[tokio::test]
async fn a_job_that_is_refused_is_named_and_the_others_are_restored() {
    let (_directory, path, before) = saved().await;
    let memory = Memory::default();
    memory.content().refused_job = "train1".to_owned();
    let address = memory.listening().await;
    let words = ["backup", "restore", &path];
    let failure = typed_at(address, &words).await.1.unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    let said = failure.to_string();
    assert!(
        said.contains("train1 (host_names[0]: no host has this name)"),
        "{said}"
    );
    // The cause is gone, and the restore goes on.
    memory.content().refused_job.clear();
    memory.calls();
    typed_at(address, &[&words[..], &["--yes"]].concat())
        .await
        .1
        .unwrap();
    assert_eq!(memory.calls(), ["create train1"]);
    assert_eq!(text(&memory), text(&before));
}

/// A job whose host is gone stays declared, so a backup has it.
#[tokio::test]
async fn a_job_that_names_a_lost_host_is_left_out_and_the_declared_one_stays() {
    let memory = Memory::declared();
    let on = |host: &str| proto::Job {
        name: "lost".to_owned(),
        host_names: vec![host.to_owned()],
        ..proto::Job::default()
    };
    memory
        .content()
        .jobs
        .insert("lost".to_owned(), on("nowhere"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backup.yaml");
    let path = path.to_str().unwrap();
    let address = memory.listening().await;
    let words = ["backup", "save", path];
    typed_at(address, &words).await.1.unwrap();
    let words = ["backup", "restore", path, "--yes"];
    let (printed, result) = typed_at(address, &words).await;
    result.unwrap();
    assert!(printed.contains("nothing differs"), "{printed}");

    let empty = Memory::default();
    let (printed, result) = typed_at(empty.listening().await, &words).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    let expected =
        format!("{path}: everything is restored but jobs 1: lost (the file has no host nowhere)");
    assert_eq!(failure.to_string(), expected);
    assert!(printed.contains("jobs: 1 created, 0 updated"), "{printed}");
    assert!(!empty.content().jobs.contains_key("lost"));

    memory.content().jobs.insert("lost".to_owned(), on("h1-1"));
    memory.calls();
    let (printed, _) = typed_at(address, &["backup", "restore", path, "--dry-run"]).await;
    assert!(
        printed.contains("left out: 1: lost (the file has no host nowhere)"),
        "{printed}"
    );
    let failure = typed_at(address, &words).await.1.unwrap_err();
    assert_eq!(failure.exit_code(), 3, "nothing else differs");
    assert_eq!(memory.calls(), <[&str; 0]>::default());
}

#[tokio::test]
async fn a_job_that_cannot_move_back_is_declared_as_it_was() {
    let (_directory, path, memory) = saved().await;
    let address = memory.listening().await;
    {
        let mut content = memory.content();
        let job = content.jobs.get_mut("train1").unwrap();
        job.host_names = vec!["elsewhere".to_owned()];
        job.ranks.clear();
        content.refused_job = "train1".to_owned();
    }
    let words = ["backup", "restore", &path, "--yes"];
    let (printed, result) = typed_at(address, &words).await;
    let said = result.unwrap_err().to_string();
    assert!(
        said.contains("no host has this name; as before: host_names[0]"),
        "{said}"
    );
    assert!(printed.contains("jobs: 0 created"), "{printed}");
}
