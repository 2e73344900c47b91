//! Declarations that do not say everything, and changes that take paths away.

use super::*;

/// One line of a file.
fn only_named(display_name: &str) -> Declaration {
    Declaration {
        display_name: display_name.to_owned(),
        ..Declaration::default()
    }
}

/// Kinds of change and names.
fn said(changes: &[proto::ResourceChange]) -> Vec<(proto::ChangeType, &str)> {
    let said = changes.iter();
    said.map(|it| (it.change_type(), it.name.as_str()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_one_line_deletes_nothing_and_is_refused_by_name() {
    let mut lone = Lone::start().await;
    lone.apply(&declared(2, 2), |_| {}).await.unwrap();
    for name in ["example", "another"] {
        for prune in [false, true] {
            let refused = lone.apply(&only_named(name), |it| it.prune = prune).await;
            let refused = reason(&refused.unwrap_err());
            assert_eq!(
                refused,
                (Code::InvalidArgument, "NOTHING_DECLARED".to_owned())
            );
        }
    }
    assert_eq!(lone.generation().await.unwrap(), 1);
    let all = |it: &mut proto::ApplyFabricRequest| (it.prune, it.force) = (true, true);
    let (changes, _) = lone.apply(&only_named("example"), all).await.unwrap();
    assert_eq!(changes.len(), 4 + 4);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_file_does_not_name_stays_unless_it_prunes() {
    let mut lone = Lone::start().await;
    let whole = declared(3, 2);
    lone.apply(&whole, |_| {}).await.unwrap();
    let mut part = whole.clone();
    // Without spine 2 and its links.
    part.switches.pop();
    part.links
        .retain(|link| link.b.as_ref().unwrap().switch_name == "spine1");
    part.links[0].capacity_bps += 1;
    for validate_only in [true, false] {
        let answer = lone.applied(&part, |it| it.validate_only = validate_only);
        let answer = answer.await.unwrap();
        let link = "leaf1:eth1--spine1:eth1";
        assert_eq!(said(&answer.changes), [(proto::ChangeType::Updated, link)]);
        assert_eq!(answer.would_delete.len(), 1 + 3);
        let deleted = |it: &proto::ResourceChange| it.change_type() == proto::ChangeType::Deleted;
        assert!(answer.would_delete.iter().all(deleted));
    }
    // A file that names links alone refers to switches that are declared already.
    let links = Declaration {
        links: whole.links.clone(),
        ..only_named("example")
    };
    let answer = lone.applied(&links, |_| {}).await.unwrap();
    assert_eq!((answer.changes.len(), answer.would_delete.len()), (1, 5));
    let answer = lone.applied(&part, |it| it.prune = true).await.unwrap();
    assert_eq!(
        (answer.changes.len(), answer.would_delete.len()),
        (1 + 4, 0)
    );
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_another_fabric_changes_nothing_unless_it_renames() {
    let mut lone = Lone::start().await;
    let mut fabric = declared(2, 2);
    lone.apply(&fabric, |_| {}).await.unwrap();
    fabric.display_name = "another".to_owned();
    let refused = lone.apply(&fabric, |it| it.prune = true).await.unwrap_err();
    let expected = (Code::FailedPrecondition, "OTHER_FABRIC".to_owned());
    assert_eq!(reason(&refused), expected);
    let (changes, generation) = lone.apply(&fabric, |it| it.rename = true).await.unwrap();
    assert_eq!((changes.len(), generation), (0, 2));
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operators_state_stays_unless_the_file_states_it() {
    let mut lone = Lone::start().await;
    let mut fabric = declared(2, 2);
    lone.apply(&fabric, |_| {}).await.unwrap();
    let down = proto::AdminState::Down;
    lone.set_switch("spine1", down, false).await.unwrap();
    let answer = lone.applied(&fabric, |_| {}).await.unwrap();
    assert_eq!(answer.changes, []);
    let spine = [(proto::ChangeType::Updated, "spine1")];
    assert_eq!(said(&answer.changed_since_apply), spine);
    // Also if another field of the same switch changes.
    fabric.switches[2].pod = "pod7".to_owned();
    let answer = lone.applied(&fabric, |_| {}).await.unwrap();
    assert_eq!(said(&answer.changes), spine);
    let request = proto::GetSwitchRequest {
        name: "spine1".to_owned(),
    };
    let spine1 = lone.client.get_switch(request.clone()).await.unwrap();
    let spine1 = spine1.into_inner().resource.unwrap();
    assert_eq!((spine1.admin_state(), &*spine1.pod), (down, "pod7"));
    // What was applied is no edit any more; the generation says that nobody needs the list.
    let answer = lone.applied(&fabric, |_| {}).await.unwrap();
    assert_eq!(answer.changed_since_apply, []);
    fabric.switches[2].admin_state = proto::AdminState::Up.into();
    let stated = lone.applied(&fabric, |it| it.generation = Some(3)).await;
    assert_eq!(said(&stated.unwrap().changes), spine);
    let spine1 = lone.client.get_switch(request).await.unwrap();
    let spine1 = spine1.into_inner().resource.unwrap();
    assert_eq!(spine1.admin_state(), proto::AdminState::Up);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_spine_goes_down_by_force_alone() {
    let mut lone = Lone::start().await;
    let mut fabric = declared(2, 2);
    lone.apply(&fabric, |_| {}).await.unwrap();
    let (down, up) = (proto::AdminState::Down, proto::AdminState::Up);
    lone.set_switch("spine1", down, false).await.unwrap();
    let last_path = (Code::FailedPrecondition, "LAST_PATH".to_owned());
    let refused = lone.set_switch("spine2", down, false).await.unwrap_err();
    assert_eq!(reason(&refused), last_path);
    let message =
        "leaf1 and leaf2 lose their last path to each other; force makes the change all the same";
    assert_eq!(refused.message(), message);
    // The same by a file, by a link and by a deletion.
    fabric.switches[3].admin_state = down.into();
    let refused = lone.apply(&fabric, |_| {}).await.unwrap_err();
    assert_eq!(reason(&refused), last_path);
    let link = "leaf1:eth2--spine2:eth1".to_owned();
    let delete = |force| proto::DeleteLinkRequest {
        name: link.clone(),
        force,
        ..proto::DeleteLinkRequest::default()
    };
    let refused = lone.client.delete_link(delete(false)).await.unwrap_err();
    assert_eq!(reason(&refused), last_path);
    let update = proto::UpdateLinkRequest {
        resource: Some(proto::Link {
            name: link.clone(),
            admin_state: down.into(),
            ..proto::Link::default()
        }),
        ..proto::UpdateLinkRequest::default()
    };
    let refused = lone.client.update_link(update).await.unwrap_err();
    assert_eq!(reason(&refused), last_path);
    assert_eq!(lone.generation().await.unwrap(), 2);
    lone.set_switch("spine2", down, true).await.unwrap();
    lone.set_switch("spine2", up, false).await.unwrap();
    lone.client.delete_link(delete(true)).await.unwrap();
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_observed_down_is_none_and_a_leader_that_knows_nothing_decides_nothing() {
    let mut lone = Lone::start().await;
    lone.apply(&declared(2, 2), |_| {}).await.unwrap();
    let down = proto::AdminState::Down;
    lone.observe(None);
    let refused = lone.set_switch("spine1", down, false).await.unwrap_err();
    let unsure = (Code::Unavailable, "LEADER_UNSURE".to_owned());
    assert_eq!(reason(&refused), unsure);
    lone.observe(Some(&["leaf2:eth2--spine2:eth2"]));
    let refused = lone.set_switch("spine1", down, false).await.unwrap_err();
    assert_eq!(reason(&refused).1, "LAST_PATH");
    // The other one carries nothing anyway.
    lone.set_switch("spine2", down, false).await.unwrap();
    lone.stop().await;
}

/// A leaf that boots comes back with what operators left it.
#[tokio::test(flavor = "multi_thread")]
async fn a_leaf_without_a_path_keeps_one_that_may_come_back() {
    let mut lone = Lone::start().await;
    lone.apply(&declared(2, 2), |_| {}).await.unwrap();
    let links = ["leaf1:eth1--spine1:eth1", "leaf1:eth2--spine2:eth1"];
    lone.observe(Some(&links));
    lone.set_link(links[0], true).await.unwrap();
    let refused = lone.set_link(links[1], true).await.unwrap_err();
    assert_eq!(reason(&refused).1, "LAST_PATH");
    lone.stop().await;
}

/// Two calls race fifty times, so that they meet in different ways.
#[tokio::test(flavor = "multi_thread")]
async fn of_the_last_two_spines_one_goes_down() {
    let mut lone = Lone::start().await;
    lone.apply(&declared(2, 2), |_| {}).await.unwrap();
    let (down, up) = (proto::AdminState::Down, proto::AdminState::Up);
    for _ in 0..50 {
        let both = ["spine1", "spine2"].map(|spine| {
            let mut client = lone.another();
            tokio::spawn(async move { client.set_switch(spine, down, false).await.is_ok() })
        });
        let mut taken = 0;
        for one in both {
            taken += u32::from(one.await.unwrap());
        }
        assert_eq!(taken, 1);
        for spine in ["spine1", "spine2"] {
            lone.set_switch(spine, up, false).await.unwrap();
        }
    }
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_since_the_last_apply_are_remembered_as_what_they_come_to() {
    let mut lone = Lone::start().await;
    let fabric = declared(2, 1);
    lone.apply(&fabric, |_| {}).await.unwrap();
    for name in ["h1", "h2"] {
        lone.create(name, "").await.unwrap();
    }
    let delete = proto::DeleteHostRequest {
        name: "h1".to_owned(),
        ..proto::DeleteHostRequest::default()
    };
    lone.client.delete_host(delete).await.unwrap();
    let delete = proto::DeleteLinkRequest {
        name: "leaf1:eth1--spine1:eth1".to_owned(),
        force: true,
        ..proto::DeleteLinkRequest::default()
    };
    lone.client.delete_link(delete).await.unwrap();
    let dry = |it: &mut proto::ApplyFabricRequest| it.validate_only = true;
    let answer = lone.applied(&fabric, dry).await.unwrap();
    let expected = [
        (proto::ChangeType::Created, "h2"),
        (proto::ChangeType::Deleted, "leaf1:eth1--spine1:eth1"),
    ];
    assert_eq!(said(&answer.changed_since_apply), expected);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_declared_in_a_slot_of_its_own_survives_a_reset_and_can_be_changed() {
    let mut lone = Lone::start().await;
    let many = large("a", "a");
    let whole = |it: &mut proto::ApplyFabricRequest| it.prune = true;
    lone.apply(&many, whole).await.unwrap();
    lone.forget().await;
    lone.create("one", "").await.unwrap();
    let smaller = Declaration {
        hosts: many.hosts[..500].to_vec(),
        ..many.clone()
    };
    let (changes, generation) = lone.apply(&smaller, whole).await.unwrap();
    assert_eq!((changes.len(), generation), (5501, 3));
    lone.forget().await;
    assert_eq!(lone.hosts(2000, "").await.unwrap().0.len(), 500);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declaration_that_is_asked_for_again_says_that_it_was_applied_before() {
    let mut lone = Lone::start().await;
    let fabric = declared(2, 2);
    let named = |it: &mut proto::ApplyFabricRequest| ID.clone_into(&mut it.request_id);
    for (changes, applied_before) in [(4 + 4, false), (0, true), (0, true)] {
        let answer = lone.applied(&fabric, named).await.unwrap();
        let said = (answer.changes.len(), answer.applied_before);
        assert_eq!(said, (changes, applied_before));
        assert_eq!(answer.generation, Some(1));
    }
    let answer = lone.applied(&fabric, |_| {}).await.unwrap();
    assert_eq!((answer.changes.len(), answer.applied_before), (0, false));
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declaration_that_changes_nothing_overtakes_nobody() {
    let mut lone = Lone::start().await;
    let mut fabric = declared(2, 2);
    lone.apply(&fabric, |_| {}).await.unwrap();
    lone.set_switch("spine1", proto::AdminState::Down, false)
        .await
        .unwrap();
    // As the command sends it, again and again; each is a request of its own.
    for digit in ["1", "2"] {
        let id = ID.replace("f81d", &format!("f81{digit}"));
        let named = |it: &mut proto::ApplyFabricRequest| it.request_id.clone_from(&id);
        let answer = lone.applied(&fabric, named).await;
        let answer = answer.unwrap();
        assert_eq!((answer.changes.len(), answer.generation), (0, Some(2)));
        assert!(!answer.applied_before);
        // It wrote nothing, so that the next one has the same list.
        let spine = [(proto::ChangeType::Updated, "spine1")];
        assert_eq!(said(&answer.changed_since_apply), spine);
    }
    // The file of a colleague, who read generation 2.
    fabric.links[0].capacity_bps += 1;
    let theirs = lone.applied(&fabric, |it| it.generation = Some(2)).await;
    assert_eq!(theirs.unwrap().generation, Some(3));
    let answer = lone.applied(&fabric, |_| {}).await.unwrap();
    assert_eq!(answer.changed_since_apply, []);
    lone.stop().await;
}
