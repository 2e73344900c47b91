//! The service as a client meets it.

use axum::body::Body;
use axum::http;
use prost_types::FieldMask;
use tonic::Code;
use tower::ServiceExt;

use super::*;
use crate::fabric::topology::Declaration;
use crate::fabric::topology::tests::declared;
use crate::operator::lone::{Lone, fields, host, reason};

mod apply;

const ID: &str = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

#[tokio::test(flavor = "multi_thread")]
async fn a_fact_is_created_changed_and_deleted_by_who_saw_it() {
    let mut lone = Lone::start().await;
    let created = lone.create("h1", "").await.unwrap();
    let again = lone.create("h1", "").await.unwrap_err();
    assert_eq!(
        reason(&again),
        (Code::AlreadyExists, "ALREADY_EXISTS".to_owned())
    );
    let update = |etag: &str, rack: &str| proto::UpdateHostRequest {
        resource: Some(proto::Host {
            labels: [("rack".to_owned(), rack.to_owned())].into(),
            etag: etag.to_owned(),
            ..host("h1")
        }),
        update_mask: Some(FieldMask {
            paths: vec!["labels".to_owned()],
        }),
        ..Default::default()
    };
    let answer = lone.client.update_host(update(&created.etag, "r1")).await;
    let updated = answer.unwrap().into_inner();
    let header = updated.header.unwrap();
    assert_eq!((header.replica_id, header.leader_id), (1, Some(1)));
    assert!(header.revision > 0);
    let updated = updated.resource.unwrap();
    assert_ne!(updated.etag, created.etag);
    let stale = lone
        .client
        .update_host(update(&created.etag, "r2"))
        .await
        .unwrap_err();
    assert_eq!(reason(&stale), (Code::Aborted, "ETAG_MISMATCH".to_owned()));
    let delete = |etag: &str| proto::DeleteHostRequest {
        name: "h1".to_owned(),
        etag: etag.to_owned(),
        ..Default::default()
    };
    assert!(
        lone.client
            .delete_host(delete(&created.etag))
            .await
            .is_err()
    );
    lone.client
        .delete_host(delete(&updated.etag))
        .await
        .unwrap();
    let gone = lone.client.delete_host(delete("")).await.unwrap_err();
    assert_eq!(
        reason(&gone),
        (Code::NotFound, "NO_SUCH_RESOURCE".to_owned())
    );
    assert_eq!(lone.generation().await.unwrap(), 3);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_asked_for_twice_is_made_once() {
    let mut lone = Lone::start().await;
    let first = lone.create("h1", ID).await.unwrap();
    let second = lone.create("h1", ID).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(lone.generation().await.unwrap(), 1);
    // Also if it is gone meanwhile.
    let delete = proto::DeleteHostRequest {
        name: "h1".to_owned(),
        ..Default::default()
    };
    lone.client.delete_host(delete).await.unwrap();
    let request = proto::CreateHostRequest {
        resource: Some(host("h1")),
        request_id: ID.to_owned(),
        ..Default::default()
    };
    let third = lone.client.create_host(request).await.unwrap().into_inner();
    assert_eq!(third.resource, None);
    let other = lone.create("h2", ID).await.unwrap_err();
    assert_eq!(reason(&other).1, "REQUEST_ID_REUSED");
    let none = lone.create("h2", "7").await.unwrap_err();
    assert_eq!(fields(&none), ["request_id"]);
    lone.stop().await;
}

/// Also with a request id, which is remembered: what changes nothing the first time changes nothing the second time.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_set_already_is_no_change() {
    let mut lone = Lone::start().await;
    lone.apply(&declared(2, 2), |_| {}).await.unwrap();
    let update = |admin_state: proto::AdminState, request_id: &str| proto::UpdateSwitchRequest {
        resource: Some(proto::Switch {
            name: "spine1".to_owned(),
            admin_state: admin_state.into(),
            ..Default::default()
        }),
        request_id: request_id.to_owned(),
        ..Default::default()
    };
    let (up, down) = (proto::AdminState::Up, proto::AdminState::Down);
    let other = ID.replace("f81d", "a81d");
    for (state, id, generation) in [
        (up, "", 1),
        (up, ID, 1),
        (down, other.as_str(), 2),
        (down, "", 2),
        // The same request again, and now it would change something.
        (up, ID, 2),
        (up, "", 3),
    ] {
        lone.client.update_switch(update(state, id)).await.unwrap();
        assert_eq!(
            lone.generation().await.unwrap(),
            generation,
            "{state:?} {id}"
        );
    }
    let link = proto::UpdateLinkRequest {
        resource: Some(proto::Link {
            name: "leaf1:eth1--spine1:eth1".to_owned(),
            admin_state: up.into(),
            ..Default::default()
        }),
        request_id: ID.replace("f81d", "b81d"),
        ..Default::default()
    };
    let answer = lone.client.update_link(link).await.unwrap().into_inner();
    assert_eq!(answer.resource.unwrap().admin_state(), up);
    assert_eq!(lone.generation().await.unwrap(), 3);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_differs_is_written_and_the_answer_says_what() {
    let mut lone = Lone::start().await;
    let mut fabric = declared(3, 2);
    let (changes, generation) = lone.apply(&fabric, |_| {}).await.unwrap();
    assert_eq!((changes.len(), generation), (5 + 6, 1));
    let (changes, generation) = lone.apply(&fabric, |_| {}).await.unwrap();
    assert_eq!((changes.len(), generation), (0, 1));
    fabric.links[3].admin_state = proto::AdminState::Down.into();
    fabric.links.pop();
    let (dry, generation) = lone
        .apply(&fabric, |it| (it.validate_only, it.prune) = (true, true))
        .await
        .unwrap();
    assert_eq!(generation, 1);
    let (changes, generation) = lone.apply(&fabric, |it| it.prune = true).await.unwrap();
    assert_eq!((&changes, generation), (&dry, 2));
    let said: Vec<_> = changes
        .iter()
        .map(|it| (it.change_type(), it.name.as_str()))
        .collect();
    let expected = [
        (proto::ChangeType::Deleted, "leaf3:eth2--spine2:eth3"),
        (proto::ChangeType::Updated, "leaf2:eth2--spine2:eth2"),
    ];
    assert_eq!(said, expected);
    // A client that got no answer asks again.
    let again = lone.apply(&fabric, |it| it.generation = Some(1)).await;
    assert_eq!(again.unwrap().1, 2);
    fabric.links[0].capacity_bps += 1;
    let overtaken = lone
        .apply(&fabric, |it| it.generation = Some(1))
        .await
        .unwrap_err();
    assert_eq!(reason(&overtaken).1, "GENERATION_MISMATCH");
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_that_is_wrong_is_named_and_nothing_changes() {
    let mut lone = Lone::start().await;
    let mut fabric = declared(2, 1);
    fabric.links[0].capacity_bps = 0;
    fabric.links[1].b.as_mut().unwrap().switch_name = "spine9".to_owned();
    let refused = lone.apply(&fabric, |_| {}).await.unwrap_err();
    assert_eq!(
        fields(&refused),
        ["links[0].capacity_bps", "links[1].b.switch_name"]
    );
    assert_eq!(lone.generation().await.unwrap(), 0);
    let masked = lone.client.update_host(proto::UpdateHostRequest {
        resource: Some(host("h1")),
        ..Default::default()
    });
    assert_eq!(reason(&masked.await.unwrap_err()).1, "NO_SUCH_RESOURCE");
    let none = lone
        .client
        .create_host(proto::CreateHostRequest::default())
        .await;
    assert_eq!(fields(&none.unwrap_err()), ["resource"]);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_a_link_names_stays() {
    let mut lone = Lone::start().await;
    lone.apply(&declared(1, 1), |_| {}).await.unwrap();
    let delete = proto::DeleteSwitchRequest {
        name: "spine1".to_owned(),
        ..Default::default()
    };
    let refused = lone.client.delete_switch(delete).await.unwrap_err();
    assert_eq!(
        reason(&refused),
        (Code::FailedPrecondition, "IN_USE".to_owned())
    );
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_goes_on_where_its_page_ended() {
    let mut lone = Lone::start().await;
    for name in ["h3", "h1", "h2"] {
        lone.create(name, "").await.unwrap();
    }
    let (page, token) = lone.hosts(2, "").await.unwrap();
    assert_eq!(
        (page, token.as_str()),
        (vec!["h1".to_owned(), "h2".to_owned()], "hosts/h2")
    );
    let (page, token) = lone.hosts(2, &token).await.unwrap();
    assert_eq!((page, token.as_str()), (vec!["h3".to_owned()], ""));
    for other in ["links/h2", "h2"] {
        assert_eq!(
            fields(&lone.hosts(2, other).await.unwrap_err()),
            ["page_token"]
        );
    }
    assert_eq!(lone.hosts(0, "").await.unwrap().0.len(), 3);
    lone.stop().await;
}

/// Some thousand facts, so that both take several batches and a slot of their own.
fn large(display_name: &str, prefix: &str) -> Declaration {
    let hosts = (0..6000).map(|number| host(&format!("{prefix}{number}")));
    Declaration {
        display_name: display_name.to_owned(),
        hosts: hosts.collect(),
        ..Declaration::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_fabrics_that_are_applied_at_once_one_is_there_whole() {
    let mut lone = Lone::start().await;
    let both = ["a", "b"].map(|name| {
        let mut client = lone.another();
        tokio::spawn(async move {
            let whole = |it: &mut proto::ApplyFabricRequest| (it.prune, it.rename) = (true, true);
            client.apply(&large(name, name), whole).await
        })
    });
    for applied in both {
        let (changes, _) = applied.await.unwrap().unwrap();
        assert!(changes.len() >= 6000, "{}", changes.len());
    }
    let answer = lone
        .client
        .get_fabric(proto::GetFabricRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.host_count, 6000);
    let (names, _) = lone.hosts(10_000, "").await.unwrap();
    let last = answer.display_name;
    assert!(names.iter().all(|name| name.starts_with(&last)), "{last}");
    // Whoever came second took the other's hosts away as well.
    let (changes, _) = lone.apply(&large(&last, &last), |_| {}).await.unwrap();
    assert_eq!(changes, []);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declaration_of_several_batches_is_for_the_generation_that_it_names() {
    let mut lone = Lone::start().await;
    lone.create("h", "").await.unwrap();
    let large = large("a", "a");
    let only_checked = |it: &mut proto::ApplyFabricRequest| {
        (it.validate_only, it.generation) = (true, Some(7));
    };
    let refused = lone.apply(&large, only_checked).await.unwrap_err();
    assert_eq!(reason(&refused).1, "GENERATION_MISMATCH");
    let applied = lone.apply(&large, |it| it.generation = Some(1)).await;
    let (changes, generation) = applied.unwrap();
    assert_eq!((changes.len(), generation), (6000, 2));
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_part_says_nothing_else_of_the_whole() {
    let mut lone = Lone::start().await;
    let first = proto::ApplyFabricRequest {
        display_name: "a".to_owned(),
        ..Default::default()
    };
    let others = [
        (
            "validate_only",
            proto::ApplyFabricRequest {
                validate_only: true,
                ..Default::default()
            },
        ),
        (
            "generation",
            proto::ApplyFabricRequest {
                generation: Some(1),
                ..Default::default()
            },
        ),
        (
            "display_name",
            proto::ApplyFabricRequest {
                display_name: "b".to_owned(),
                ..Default::default()
            },
        ),
    ];
    for (field, other) in others {
        let parts = tokio_stream::iter([first.clone(), other]);
        let mut answer = lone.client.apply_fabric(parts).await.unwrap().into_inner();
        assert_eq!(fields(&answer.message().await.unwrap_err()), [field]);
    }
    assert_eq!(lone.generation().await.unwrap(), 0);
    let below = lone.hosts(-1, "").await.unwrap_err();
    assert_eq!(fields(&below), ["page_size"]);
    lone.stop().await;
}

/// What is wrong with one field hides nothing that is wrong with another one, wherever it is found.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_nothing_holds_no_place_for_long() {
    let mut lone = Lone::start().await;
    let mut silent = tokio::task::JoinSet::new();
    for _ in 0..=APPLYING_MAX {
        let mut client = lone.client.clone();
        silent.spawn(async move { client.apply_fabric(tokio_stream::pending()).await });
        let request = http::Request::post("/v1/fabric:apply")
            .header(http::header::HOST, "127.0.0.1:7401")
            .header(http::header::CONTENT_TYPE, "application/json");
        let body = Body::from_stream(tokio_stream::pending::<Result<String, Status>>());
        let answer = lone.http.clone().oneshot(request.body(body).unwrap());
        tokio::spawn(answer);
    }
    lone.apply(&large("leaf", "leaf"), |_| {}).await.unwrap();
    let refused = silent.join_next().await.unwrap().unwrap().unwrap_err();
    let expected = (Code::DeadlineExceeded, "STREAM_TOO_SLOW".to_owned());
    assert_eq!(reason(&refused), expected);
    drop(silent);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_a_change_is_named_at_once() {
    let mut lone = Lone::start().await;
    let end = |switch_name: &str, address: &str| {
        Some(proto::LinkEnd {
            switch_name: switch_name.to_owned(),
            interface_name: "eth1".to_owned(),
            address: address.to_owned(),
        })
    };
    let create = proto::CreateLinkRequest {
        resource: Some(proto::Link {
            a: end("leaf9", "x"),
            b: end("spine9", "192.0.2.1"),
            ..Default::default()
        }),
        request_id: "7".to_owned(),
        ..Default::default()
    };
    let refused = lone.client.create_link(create).await.unwrap_err();
    let expected = [
        "request_id",
        "resource.capacity_bps",
        "resource.a.address",
        "resource.a.switch_name",
        "resource.b.switch_name",
    ];
    assert_eq!(fields(&refused), expected);
    let none = proto::DeleteLinkRequest {
        request_id: "7".to_owned(),
        ..Default::default()
    };
    let refused = lone.client.delete_link(none).await.unwrap_err();
    assert_eq!(fields(&refused), ["request_id", "name"]);
    let none = proto::GetLinkRequest::default();
    let refused = lone.client.get_link(none).await.unwrap_err();
    assert_eq!(fields(&refused), ["name"]);
    let both = lone.hosts(-1, "links/h2").await.unwrap_err();
    assert_eq!(fields(&both), ["page_token", "page_size"]);
    assert_eq!(lone.generation().await.unwrap(), 0);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_an_update_is_named_at_once() {
    let mut lone = Lone::start().await;
    lone.create("h1", "").await.unwrap();
    let mask = |paths: &[&str]| {
        Some(FieldMask {
            paths: paths.iter().map(|it| (*it).to_owned()).collect(),
        })
    };
    for (name, paths, expected) in [
        (
            "",
            ["colour", "shape"],
            &["request_id", "resource.name", "update_mask", "update_mask"][..],
        ),
        (
            "h1",
            ["colour", "labels"],
            &["request_id", "update_mask", "resource.labels"],
        ),
    ] {
        let update = proto::UpdateHostRequest {
            resource: Some(proto::Host {
                labels: [(String::new(), String::new())].into(),
                etag: "stale".to_owned(),
                ..host(name)
            }),
            update_mask: mask(&paths),
            request_id: "7".to_owned(),
            ..Default::default()
        };
        let refused = lone.client.update_host(update).await.unwrap_err();
        assert_eq!(fields(&refused), expected);
    }
    assert_eq!(lone.generation().await.unwrap(), 1);
    lone.stop().await;
}

/// The names of a megabyte and the messages that no handler sees.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_or_unknown_is_refused_with_a_reason() {
    let mut lone = Lone::start().await;
    let long = proto::GetHostRequest {
        name: "葉".repeat(1 << 20),
    };
    let refused = lone.client.get_host(long).await.unwrap_err();
    assert_eq!(
        reason(&refused),
        (Code::NotFound, "NO_SUCH_RESOURCE".to_owned())
    );
    let longer = proto::GetHostRequest {
        name: "x".repeat(5 << 20),
    };
    let refused = lone.client.get_host(longer).await.unwrap_err();
    let expected = (Code::ResourceExhausted, "MESSAGE_TOO_LARGE".to_owned());
    assert_eq!(reason(&refused), expected);
    for (path, body, code, expected) in [
        (
            "/weft.v1.FabricService/GetHost",
            &b"\0\0\0\0\x01\xff"[..],
            Code::InvalidArgument,
            "MALFORMED_MESSAGE",
        ),
        (
            "/weft.v1.FabricService/GetHost",
            b"\0\0\0\0\x09x",
            Code::InvalidArgument,
            "MALFORMED_MESSAGE",
        ),
        (
            "/weft.v1.FabricService/GetNothing",
            b"\0\0\0\0\0",
            Code::Unimplemented,
            "UNKNOWN_METHOD",
        ),
        (
            "/weft.v1.NoService/Get",
            b"\0\0\0\0\0",
            Code::Unimplemented,
            "UNKNOWN_METHOD",
        ),
    ] {
        let request = http::Request::post(path)
            .version(http::Version::HTTP_2)
            .header(http::header::CONTENT_TYPE, "application/grpc")
            .body(Body::from(body));
        let answer = lone.http.clone().oneshot(request.unwrap()).await.unwrap();
        let refused = Status::from_header_map(answer.headers()).expect(path);
        assert_eq!(reason(&refused), (code, expected.to_owned()), "{path}");
    }
    lone.stop().await;
}
