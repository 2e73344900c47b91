//! The service as a client meets it.

use bytes::Bytes;
use prost_types::FieldMask;
use tonic::{Code, Streaming};
use weft_proto::v1::decision::Subject;
use weft_proto::v1::plan_service_client::PlanServiceClient;
use weft_proto::v1::resource_change::Resource as Written;
use weft_store::{Batch, Op, Outcome};
use weft_telemetry::derating::{Cause, Decision};

use super::*;
use crate::fabric::measured::OffPlan;
use crate::fabric::pin::{PinName, PinPath};
use crate::fabric::topology::tests::declared;
use crate::ledger::{self, FactKey};
use crate::operator::lone::{Lone, fields, host, reason};

mod planned;

const ID: &str = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

async fn watch(
    lone: &mut Lone,
    request: proto::WatchRequest,
) -> Result<Streaming<proto::WatchResponse>, Status> {
    Ok(lone.watch.watch(request).await?.into_inner())
}

fn after(revision: u64) -> proto::WatchRequest {
    proto::WatchRequest {
        after_revision: Some(revision),
        ..Default::default()
    }
}

/// Type, name and revision of the next changes, and where to go on.
async fn next(
    stream: &mut Streaming<proto::WatchResponse>,
) -> (Vec<(proto::ChangeType, String, u64)>, u64) {
    let answer = stream.message().await.unwrap().unwrap();
    assert!(!answer.snapshot);
    let changes = answer.changes.iter();
    let changes = changes.map(|it| (it.change_type(), it.name.clone(), it.revision.unwrap()));
    (changes.collect(), answer.header.unwrap().revision)
}

/// What existed when the watch began, and where to go on.
async fn snapshot(
    stream: &mut Streaming<proto::WatchResponse>,
) -> (Vec<proto::ResourceChange>, u64) {
    let mut changes = Vec::new();
    loop {
        let part = stream.message().await.unwrap().unwrap();
        assert!(part.snapshot);
        changes.extend(part.changes);
        if let Some(header) = part.header {
            return (changes, header.revision);
        }
    }
}

async fn delete(lone: &mut Lone, name: &str) {
    let request = proto::DeleteHostRequest {
        name: name.to_owned(),
        ..Default::default()
    };
    lone.client.delete_host(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_hears_what_exists_and_then_what_changes() {
    let mut lone = Lone::start().await;
    lone.create("h1", "").await.unwrap();
    let mut stream = watch(&mut lone, Default::default()).await.unwrap();
    let (existing, begun) = snapshot(&mut stream).await;
    assert_eq!(existing.len(), 1);
    let change = &existing[0];
    assert_eq!(
        (change.change_type(), change.revision),
        (proto::ChangeType::Created, None)
    );
    let Some(Written::HostResource(seen)) = &change.resource else {
        panic!("{change:?}");
    };
    assert!(seen.name == "h1" && !seen.etag.is_empty());
    let created = lone.create("h2", "").await.unwrap();
    let (changes, revision) = next(&mut stream).await;
    assert_eq!(changes.len(), 1);
    let (change, name, at) = &changes[0];
    assert_eq!((*change, name), (proto::ChangeType::Created, &created.name));
    assert!(begun < *at && *at <= revision);
    delete(&mut lone, "h2").await;
    let (changes, _) = next(&mut stream).await;
    assert_eq!(changes[0].0, proto::ChangeType::Deleted);
    drop(stream);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_on_where_it_stopped() {
    let mut lone = Lone::start().await;
    let mut stream = watch(&mut lone, Default::default()).await.unwrap();
    let (_, begun) = snapshot(&mut stream).await;
    drop(stream);
    for name in ["h1", "h2", "h3"] {
        lone.create(name, "").await.unwrap();
    }
    // What is asked for twice is made once, and heard once.
    lone.create("h4", ID).await.unwrap();
    lone.create("h4", ID).await.unwrap();
    let update = proto::UpdateHostRequest {
        resource: Some(proto::Host {
            labels: [("rack".to_owned(), "r1".to_owned())].into(),
            ..host("h1")
        }),
        update_mask: Some(FieldMask {
            paths: vec!["labels".to_owned()],
        }),
        ..Default::default()
    };
    lone.client.update_host(update).await.unwrap();
    let (mut heard, mut revision) = (Vec::new(), begun);
    while heard.len() < 5 {
        // A new stream for each answer.
        let mut stream = watch(&mut lone, after(revision)).await.unwrap();
        let (changes, reached) = next(&mut stream).await;
        assert!(reached >= revision);
        revision = reached;
        heard.extend(changes.into_iter().map(|(change, name, _)| (change, name)));
    }
    use proto::ChangeType::{Created, Updated};
    let expected = [
        (Created, "h1"),
        (Created, "h2"),
        (Created, "h3"),
        (Created, "h4"),
        (Updated, "h1"),
    ];
    assert_eq!(
        heard,
        expected.map(|(change, name)| (change, name.to_owned()))
    );
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_hears_only_what_it_asked_for() {
    let mut lone = Lone::start().await;
    lone.apply(&declared(2, 1), |_| {}).await.unwrap();
    let request = proto::WatchRequest {
        kinds: vec![
            proto::ResourceKind::Link.into(),
            proto::ResourceKind::Host.into(),
        ],
        names: vec!["h2".to_owned(), "leaf2:eth1--spine1:eth2".to_owned()],
        ..Default::default()
    };
    let mut stream = watch(&mut lone, request).await.unwrap();
    let (existing, _) = snapshot(&mut stream).await;
    let names: Vec<_> = existing.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["leaf2:eth1--spine1:eth2"]);
    lone.create("h1", "").await.unwrap();
    lone.create("h2", "").await.unwrap();
    assert_eq!(next(&mut stream).await.0[0].1, "h2");
    drop(stream);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hears_of_no_change_hears_how_far_it_is() {
    let mut lone = Lone::start().await;
    let request = proto::WatchRequest {
        names: vec!["nobody".to_owned()],
        progress_interval: Some(prost_types::Duration {
            seconds: 0,
            nanos: 100_000_000,
        }),
        ..Default::default()
    };
    let mut stream = watch(&mut lone, request).await.unwrap();
    let (_, begun) = snapshot(&mut stream).await;
    lone.create("h1", "").await.unwrap();
    let mut reached = begun;
    while reached == begun {
        let (changes, revision) = next(&mut stream).await;
        assert_eq!(changes, []);
        reached = revision;
    }
    drop(stream);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_is_not_there_is_refused() {
    let mut lone = Lone::start().await;
    let refused = watch(&mut lone, after(u64::MAX)).await.unwrap_err();
    assert_eq!(
        reason(&refused),
        (Code::OutOfRange, "REVISION_IN_FUTURE".to_owned())
    );
    // Before the replica's tables were read.
    lone.create("h1", "").await.unwrap();
    lone.forget().await;
    let refused = watch(&mut lone, after(1)).await.unwrap_err();
    assert_eq!(
        reason(&refused),
        (Code::OutOfRange, "REVISION_COMPACTED".to_owned())
    );
    let request = proto::WatchRequest {
        kinds: vec![0, 77],
        names: vec![String::new(); NAMES],
        ..Default::default()
    };
    let refused = watch(&mut lone, request).await.unwrap_err();
    assert_eq!(fields(&refused), ["kinds[0]", "kinds[1]", "names"]);
    let request = proto::WatchRequest {
        kinds: vec![77],
        routes: Some(proto::RouteFilter {
            family: 9,
            vni: Some(1 << 24),
            ..Default::default()
        }),
        peers: Some(proto::PeerFilter {
            names: vec![String::new(); NAMES],
        }),
        pins: Some(proto::PinFilter {
            job_name: Some(String::new()),
        }),
        decisions: Some(proto::DecisionFilter { kind: 77 }),
        job_plans: Some(proto::JobPlanFilter {
            names: vec![String::new(); NAMES],
        }),
        link_statuses: Some(proto::LinkStatusFilter {
            names: vec![String::new(); NAMES],
        }),
        progress_interval: Some(prost_types::Duration {
            seconds: -1,
            nanos: 0,
        }),
        ..Default::default()
    };
    let refused = watch(&mut lone, request).await.unwrap_err();
    let expected = [
        "kinds[0]",
        "routes.family",
        "routes.vni",
        "pins.job_name",
        "decisions.kind",
        "progress_interval",
        "peers.names",
        "job_plans.names",
        "link_statuses.names",
    ];
    assert_eq!(fields(&refused), expected);
    lone.stop().await;
}

const NAMES: usize = 1001;

#[test]
fn what_is_long_comes_in_parts() {
    let change = |number: usize| proto::PeerChange {
        peer: Some(proto::Peer {
            router_id: Some(format!("{number:0>200}")),
            ..proto::Peer::default()
        }),
        ..proto::PeerChange::default()
    };
    assert!(parts(Vec::<proto::PeerChange>::new()).next().is_none());
    let all: Vec<_> = (0..10_000).map(change).collect();
    let parts: Vec<_> = parts(all.clone()).collect();
    let octets = |part: &Vec<proto::PeerChange>| part.iter().map(prost::Message::encoded_len).sum();
    assert!(
        parts
            .iter()
            .all(|part| (1..2 * PART_OCTETS).contains(&octets(part)))
    );
    assert!(parts.len() > 5);
    assert_eq!(parts.concat(), all);
}

/// Who asks for routes or peers alone hears of nothing else; both begin with what there is.
#[tokio::test(flavor = "multi_thread")]
async fn routes_and_peers_are_streamed_beside_or_without_what_is_declared() {
    let mut lone = Lone::start().await;
    lone.create("h1", "").await.unwrap();
    let request = proto::WatchRequest {
        routes: Some(proto::RouteFilter::default()),
        peers: Some(proto::PeerFilter::default()),
        ..Default::default()
    };
    let mut stream = watch(&mut lone, request).await.unwrap();
    let (existing, begun) = snapshot(&mut stream).await;
    assert!(existing.is_empty());
    let answer = stream.message().await.unwrap().unwrap();
    assert!(answer.peer_snapshot && answer.peer_changes.is_empty());
    assert!(answer.header.unwrap().revision >= begun);
    drop(stream);
    let request = proto::WatchRequest {
        kinds: vec![proto::ResourceKind::Host.into()],
        routes: Some(proto::RouteFilter::default()),
        ..Default::default()
    };
    let mut stream = watch(&mut lone, request).await.unwrap();
    assert_eq!(snapshot(&mut stream).await.0.len(), 1);
    lone.stop().await;
}

/// Commits that flows of a job go over a spine; None: that they have no pin any more.
async fn pin(lone: &Lone, job: &str, destinations: std::ops::Range<usize>, spine: Option<&str>) {
    let name = |destination: usize| PinName {
        job: job.into(),
        source: "leaf1:eth1".into(),
        destination: format!("leaf2:eth{destination:05}").as_str().into(),
    };
    let keys = destinations.map(|it| FactKey::Pin(name(it)).encode());
    let keys = keys.collect();
    let op = match spine {
        Some(spine) => Op::Put {
            value: ledger::encode_paths(&[PinPath {
                spine: spine.into(),
                weight: 16,
            }]),
            keys,
        },
        None => Op::Delete { keys },
    };
    let batch = Batch {
        conditions: Vec::new(),
        ops: vec![op],
    };
    let made = lone.consensus.propose(batch).await;
    assert!(matches!(made, Outcome::Applied { .. }), "{made:?}");
}

/// Pins that changed until an answer has a revision; that; and how many answers it took.
async fn pins_until(
    stream: &mut Streaming<proto::WatchResponse>,
) -> (Vec<proto::PinChange>, u64, usize) {
    let (mut changes, mut answers) = (Vec::new(), 0);
    loop {
        let answer = stream.message().await.unwrap().unwrap();
        assert!(answer.changes.is_empty());
        answers += 1;
        changes.extend(answer.pin_changes);
        if let Some(header) = answer.header {
            return (changes, header.revision, answers);
        }
    }
}

fn pins_of(job: &str, after_revision: Option<u64>) -> proto::WatchRequest {
    proto::WatchRequest {
        pins: Some(proto::PinFilter {
            job_name: Some(job.to_owned()),
        }),
        after_revision,
        // What changes is heard of by itself.
        progress_interval: Some(prost_types::Duration {
            seconds: 3600,
            nanos: 0,
        }),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn adopted_pins_are_streamed_as_they_change() {
    let mut lone = Lone::start().await;
    lone.create("h1", "").await.unwrap();
    pin(&lone, "a", 0..2, Some("spine1")).await;
    pin(&lone, "b", 0..1, Some("spine1")).await;
    let mut stream = watch(&mut lone, pins_of("a", None)).await.unwrap();
    let (existing, begun, _) = pins_until(&mut stream).await;
    assert_eq!(existing.len(), 2);
    for change in &existing {
        assert_eq!(change.change_type(), proto::ChangeType::Created);
        assert_eq!(change.revision, None);
        let seen = change.pin.as_ref().unwrap();
        assert_eq!(
            (seen.job_name.as_str(), seen.paths[0].weight, &seen.ports),
            ("a", 16, &Vec::new())
        );
    }
    pin(&lone, "b", 0..1, Some("spine2")).await;
    // As it was: no change.
    pin(&lone, "a", 1..2, Some("spine1")).await;
    pin(&lone, "a", 0..1, Some("spine2")).await;
    pin(&lone, "a", 1..2, None).await;
    use proto::ChangeType::{Deleted, Updated};
    let expected = [
        (Updated, "leaf2:eth00000".to_owned(), "spine2".to_owned()),
        (Deleted, "leaf2:eth00001".to_owned(), "spine1".to_owned()),
    ];
    // Another client goes on from the revision of the first one.
    let mut other = watch(&mut lone, pins_of("a", Some(begun))).await.unwrap();
    for stream in [&mut stream, &mut other] {
        let (mut heard, mut last) = (Vec::new(), begun);
        while heard.len() < expected.len() {
            let (changes, reached, _) = pins_until(stream).await;
            for change in changes {
                let at = change.revision.unwrap();
                assert!(last < at && at <= reached, "{last} {at} {reached}");
                last = at;
                let (kind, pin) = (change.change_type(), change.pin.unwrap());
                let spine = pin.paths[0].spine_name.clone();
                heard.push((kind, pin.destination_host_port_name, spine));
            }
        }
        assert_eq!(heard, expected);
    }
    drop((stream, other));
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pins_that_change_at_once_come_in_parts_and_are_forgotten_at_last() {
    const PINS: usize = 10_000;
    let mut lone = Lone::start().await;
    let mut stream = watch(&mut lone, pins_of("a", None)).await.unwrap();
    let (existing, begun, _) = pins_until(&mut stream).await;
    assert!(existing.is_empty());
    pin(&lone, "a", 0..PINS, Some("spine1")).await;
    let (changes, reached, answers) = pins_until(&mut stream).await;
    assert!(answers > 1, "{answers}");
    assert_eq!(changes.len(), PINS);
    let name = |it: &proto::PinChange| it.pin.clone().unwrap().destination_host_port_name;
    assert!(changes.is_sorted_by_key(name));
    let revision = changes[0].revision.unwrap();
    assert!(begun < revision && revision <= reached);
    assert!(changes.iter().all(|it| it.revision == Some(revision)));
    drop(stream);
    lone.forget().await;
    let refused = watch(&mut lone, pins_of("a", Some(begun))).await;
    assert_eq!(
        reason(&refused.unwrap_err()),
        (Code::OutOfRange, "REVISION_COMPACTED".to_owned())
    );
    let mut stream = watch(&mut lone, pins_of("a", None)).await.unwrap();
    let (existing, _, answers) = pins_until(&mut stream).await;
    assert_eq!(existing.len(), PINS);
    assert!(answers > 2, "{answers}");
    drop(stream);
    lone.stop().await;
}

const LINK: &str = "leaf1:eth1--spine1:eth1";

/// A fact that the leader decides on; None: it is deleted.
type Decided<'a> = (FactKey<'a>, Option<Bytes>);

/// By how many percent a link is derated for errors; 0: it is not.
fn derated(derating_percent: u8) -> Decided<'static> {
    let decision = Decision {
        derating_percent,
        cause: Some(Cause::Errors),
    };
    let value = (derating_percent > 0).then(|| ledger::encode_derating(decision));
    (FactKey::Derating(LINK), value)
}

fn off_plan(job: &str) -> Decided<'_> {
    let why = OffPlan {
        leaf: "leaf1".into(),
        percent: 40,
        fingerprint: 7,
    };
    (FactKey::OffPlan(job), Some(ledger::encode_off_plan(&why)))
}

fn kept_free(leaf: &str) -> Decided<'_> {
    (FactKey::KeptFree(leaf), Some(ledger::encode_kept_free(10)))
}

/// Commits decisions in one batch.
async fn decide(lone: &Lone, decided: &[Decided<'_>]) {
    let ops = decided.iter().map(|(key, value)| match value {
        Some(value) => ledger::put(key, value.clone()),
        None => ledger::delete(key),
    });
    let batch = Batch {
        conditions: Vec::new(),
        ops: ops.collect(),
    };
    let made = lone.consensus.propose(batch).await;
    assert!(matches!(made, Outcome::Applied { .. }), "{made:?}");
}

/// Decisions that changed until an answer has a revision, and that.
async fn decisions_until(
    stream: &mut Streaming<proto::WatchResponse>,
) -> (Vec<proto::DecisionChange>, u64) {
    let mut changes = Vec::new();
    loop {
        let answer = stream.message().await.unwrap().unwrap();
        assert!(answer.changes.is_empty() && answer.pin_changes.is_empty());
        changes.extend(answer.decision_changes);
        if let Some(header) = answer.header {
            return (changes, header.revision);
        }
    }
}

fn decisions_of(kind: proto::DecisionKind, after_revision: Option<u64>) -> proto::WatchRequest {
    proto::WatchRequest {
        decisions: Some(proto::DecisionFilter { kind: kind.into() }),
        after_revision,
        // What changes is heard of by itself.
        progress_interval: Some(prost_types::Duration {
            seconds: 3600,
            nanos: 0,
        }),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_derating_is_streamed_as_it_is_made_changed_and_taken_back() {
    use proto::ChangeType::{Created, Deleted, Updated};
    use proto::DecisionKind::DeratedLink;
    let mut lone = Lone::start().await;
    lone.create("h1", "").await.unwrap();
    decide(&lone, &[kept_free("leaf1")]).await;
    let request = decisions_of(DeratedLink, None);
    let mut stream = watch(&mut lone, request).await.unwrap();
    let (existing, begun) = decisions_until(&mut stream).await;
    assert!(existing.is_empty());
    decide(&lone, &[derated(25)]).await;
    // As it was: no change.
    decide(&lone, &[derated(25)]).await;
    decide(&lone, &[kept_free("leaf2")]).await;
    decide(&lone, &[derated(50)]).await;
    decide(&lone, &[derated(0)]).await;
    let expected = [(Created, 25), (Updated, 50), (Deleted, 50)];
    let mut after = begun;
    // Then other clients go on: after what the first one began with, and after each change.
    for at in 0..=expected.len() {
        let rest = &expected[at.saturating_sub(1)..];
        if at > 0 {
            let request = decisions_of(DeratedLink, Some(after));
            stream = watch(&mut lone, request).await.unwrap();
        }
        let (mut heard, mut last, mut first) = (Vec::new(), after, None);
        while heard.len() < rest.len() {
            let (changes, reached) = decisions_until(&mut stream).await;
            for change in changes {
                let revision = change.revision.unwrap();
                assert!(last < revision && revision <= reached, "{last} {reached}");
                last = revision;
                first.get_or_insert(revision);
                let kind = change.change_type();
                let Some(Subject::DeratedLink(link)) = change.decision.unwrap().subject else {
                    panic!("{kind:?} of something else");
                };
                assert_eq!(link.link_name, LINK);
                assert_eq!(link.derating_cause(), proto::DeratingCause::Errors);
                heard.push((kind, link.derating_percent));
            }
        }
        assert_eq!(heard, rest);
        if at > 0 {
            after = first.unwrap();
        }
    }
    drop(stream);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_of_one_revision_come_together_and_are_listed_as_they_are_streamed() {
    let mut lone = Lone::start().await;
    let all = proto::DecisionKind::Unspecified;
    let mut stream = watch(&mut lone, decisions_of(all, None)).await.unwrap();
    let (existing, begun) = decisions_until(&mut stream).await;
    assert!(existing.is_empty());
    let decided = [kept_free("leaf1"), off_plan("train"), derated(25)];
    decide(&lone, &decided).await;
    let (mut changes, reached) = decisions_until(&mut stream).await;
    assert_eq!(changes.len(), 3);
    let revision = changes[0].revision.unwrap();
    assert!(begun < revision && revision <= reached);
    assert!(changes.iter().all(|it| it.revision == Some(revision)));
    // What exists comes in the order of the list, whatever was made first.
    changes.reverse();
    let rows = |changes: Vec<proto::DecisionChange>| -> Vec<proto::Decision> {
        changes.into_iter().filter_map(|it| it.decision).collect()
    };
    let expected = rows(changes);
    let mut plans = PlanServiceClient::new(lone.channel.clone());
    for consistency in [
        proto::Consistency::Linearizable,
        proto::Consistency::Serializable,
    ] {
        let request = proto::ListDecisionsRequest {
            consistency: consistency.into(),
            ..Default::default()
        };
        let listed = plans.list_decisions(request).await.unwrap().into_inner();
        assert_eq!(listed.decisions, expected);
        assert!(listed.header.unwrap().revision >= revision);
    }
    drop(stream);
    lone.forget().await;
    let refused = watch(&mut lone, decisions_of(all, Some(begun))).await;
    assert_eq!(
        reason(&refused.unwrap_err()),
        (Code::OutOfRange, "REVISION_COMPACTED".to_owned())
    );
    let mut stream = watch(&mut lone, decisions_of(all, None)).await.unwrap();
    let (existing, _) = decisions_until(&mut stream).await;
    for change in &existing {
        assert_eq!(change.change_type(), proto::ChangeType::Created);
        assert_eq!(change.revision, None);
    }
    assert_eq!(rows(existing), expected);
    drop(stream);
    lone.stop().await;
}
