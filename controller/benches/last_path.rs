//! The last paths of a fabric, at three weftd of this build. A file without a spine is applied a hundred times and deletes nothing.
//! Then the last two spines go down at once while the leader is killed, with a client for each spine that asks again until it has an
//! answer. `-- --rounds N`: 1,000 unless said otherwise. The bench fails unless exactly one spine goes down each time.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails"
)]

#[expect(dead_code, reason = "nobody's memory is looked at here")]
mod replicas;

use std::time::Duration;

use prost_types::FieldMask;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;
use weft_proto::v1::{self as proto};

use replicas::{Client, Replica, channel, leader};

#[tokio::main]
async fn main() {
    let rounds = rounds();
    let dir = tempfile::tempdir().unwrap();
    let mut replicas = Replica::three(dir.path());
    let ports: Vec<u16> = replicas.iter().map(|replica| replica.api).collect();
    for replica in &mut replicas {
        replica.answers().await;
    }
    apply(&ports, &fabric()).await;
    let kept = apply_without_a_spine(&ports).await;
    say(&format!(
        "apply of a file without a spine, without prune: deletes nothing {kept} of {APPLIES}"
    ));
    assert_eq!(kept, APPLIES);
    let (mut taken_by_round, mut both, mut none) = (0, 0, 0);
    let mut took = Vec::new();
    for round in 0..rounds {
        let Some(leader) = leader(&ports).await else {
            panic!("nobody leads: {}", said(&mut replicas));
        };
        let place = usize::try_from(leader - 1).unwrap();
        let begin = Instant::now();
        let asked = [("spine1", round), ("spine2", round + 1)].map(|(spine, at)| {
            let id = format!("00000000-0000-4000-8000-{:012x}", 2 * round + at % 2);
            tokio::spawn(set(ports.clone(), at, spine, proto::AdminState::Down, id))
        });
        sleep(Duration::from_millis(
            u64::try_from(round % KILLED_WITHIN).unwrap(),
        ))
        .await;
        replicas[place].kill();
        let mut taken = 0;
        for one in asked {
            taken += usize::from(timeout(PATIENCE, one).await.unwrap().unwrap());
        }
        took.push(begin.elapsed());
        let down = down(&ports).await;
        assert_eq!(taken, down, "round {round}: answers and the fabric differ");
        match taken {
            1 => taken_by_round += 1,
            0 => none += 1,
            _ => both += 1,
        }
        replicas[place].restart();
        replicas[place].answers().await;
        for spine in ["spine1", "spine2"] {
            set(
                ports.clone(),
                round,
                spine,
                proto::AdminState::Up,
                String::new(),
            )
            .await;
        }
        if (round + 1) % 50 == 0 {
            say(&format!("{} rounds", round + 1));
        }
    }
    took.sort();
    say(&format!(
        "two spines down at once, the leader killed meanwhile: exactly one taken {taken_by_round} of {rounds}, both {both}, none {none}; \
         both answers after {:.2} s (median), {:.2} s (longest)",
        took[took.len() / 2].as_secs_f64(),
        took[took.len() - 1].as_secs_f64()
    ));
    assert_eq!(taken_by_round, rounds);
}

/// Sets a switch down or up, asking one replica after the other until there is an answer. False: it would take the last path away.
async fn set(
    ports: Vec<u16>,
    mut at: usize,
    name: &'static str,
    admin_state: proto::AdminState,
    request_id: String,
) -> bool {
    let request = proto::UpdateSwitchRequest {
        resource: Some(proto::Switch {
            name: name.to_owned(),
            admin_state: admin_state.into(),
            ..proto::Switch::default()
        }),
        update_mask: Some(FieldMask {
            paths: vec!["admin_state".to_owned()],
        }),
        request_id,
        ..proto::UpdateSwitchRequest::default()
    };
    loop {
        let mut client = Client::new(channel(ports[at % ports.len()]));
        match timeout(CALL, client.update_switch(request.clone())).await {
            Ok(Ok(_)) => return true,
            Ok(Err(refused)) if refused.code() == Code::FailedPrecondition => return false,
            // Unknown: the connection broke.
            Ok(Err(refused)) => assert!(
                matches!(
                    refused.code(),
                    Code::Unavailable | Code::Aborted | Code::Unknown
                ),
                "{refused:?}"
            ),
            Err(_) => {}
        }
        at += 1;
        sleep(AGAIN).await;
    }
}

/// How many spines are down.
async fn down(ports: &[u16]) -> usize {
    for at in 0.. {
        let mut client = Client::new(channel(ports[at % ports.len()]));
        let request = proto::ListSwitchesRequest::default();
        if let Ok(Ok(answer)) = timeout(CALL, client.list_switches(request)).await {
            let switches = answer.into_inner().switches.into_iter();
            let down = switches.filter(|it| it.admin_state() == proto::AdminState::Down);
            return down.count();
        }
        sleep(AGAIN).await;
    }
    unreachable!("the loop ends with an answer")
}

/// Two leaves with a link to each of two spines.
fn fabric() -> proto::ApplyFabricRequest {
    let switch = |name: String, role: proto::SwitchRole, vtep_address: String| proto::Switch {
        name,
        role: role.into(),
        vtep_address,
        ..proto::Switch::default()
    };
    let end = |switch_name: String, port: u8| {
        Some(proto::LinkEnd {
            switch_name,
            interface_name: format!("eth{port}"),
            ..proto::LinkEnd::default()
        })
    };
    let mut fabric = proto::ApplyFabricRequest {
        display_name: "last-path".to_owned(),
        ..proto::ApplyFabricRequest::default()
    };
    for number in 1..=2_u8 {
        let (leaf, spine) = (format!("leaf{number}"), format!("spine{number}"));
        let vtep = format!("198.51.100.{number}");
        fabric
            .switches
            .push(switch(leaf.clone(), proto::SwitchRole::Leaf, vtep));
        fabric
            .switches
            .push(switch(spine, proto::SwitchRole::Spine, String::new()));
        fabric.links.extend((1..=2_u8).map(|spine| proto::Link {
            a: end(leaf.clone(), spine),
            b: end(format!("spine{spine}"), number),
            capacity_bps: 100_000_000_000,
            ..proto::Link::default()
        }));
    }
    fabric
}

/// Applies a fabric. Returns the last message of the answer.
async fn apply(ports: &[u16], fabric: &proto::ApplyFabricRequest) -> proto::ApplyFabricResponse {
    for at in 0.. {
        let mut client = Client::new(channel(ports[at % ports.len()]));
        let requests = tokio_stream::iter([fabric.clone()]);
        let refused = match client.apply_fabric(requests).await {
            Ok(answer) => match answer.into_inner().message().await {
                Ok(message) => return message.expect("an answer has a message"),
                Err(refused) => refused,
            },
            Err(refused) => refused,
        };
        assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
        sleep(AGAIN).await;
    }
    unreachable!("the loop ends with an answer")
}

/// Applies the fabric without one of its spines and that spine's links, again and again, without `prune`. Returns how often nothing
/// was deleted, by the answer and by the fabric.
async fn apply_without_a_spine(ports: &[u16]) -> usize {
    let mut kept = 0;
    for round in 0..APPLIES {
        let spine = ["spine1", "spine2"][round % 2];
        let mut fabric = fabric();
        fabric.switches.retain(|it| it.name != spine);
        let at_spine =
            |end: &Option<proto::LinkEnd>| end.as_ref().is_some_and(|it| it.switch_name == spine);
        fabric.links.retain(|it| !at_spine(&it.b));
        let answer = apply(ports, &fabric).await;
        let deleted = answer
            .changes
            .iter()
            .filter(|it| it.change_type() == proto::ChangeType::Deleted);
        let listed = proto::ListSwitchesRequest::default();
        let mut client = Client::new(channel(ports[round % ports.len()]));
        let switches = client
            .list_switches(listed)
            .await
            .unwrap()
            .into_inner()
            .switches;
        let links = client
            .list_links(proto::ListLinksRequest::default())
            .await
            .unwrap()
            .into_inner()
            .links;
        let would_delete = answer.would_delete.len();
        kept += usize::from(
            (deleted.count(), would_delete, switches.len(), links.len()) == (0, 3, 4, 4),
        );
    }
    kept
}

fn said(replicas: &mut [Replica]) -> String {
    replicas.iter_mut().map(Replica::said).collect()
}

fn rounds() -> usize {
    let mut arguments = std::env::args();
    let found = arguments.by_ref().any(|it| it == "--rounds");
    let number = arguments.next().filter(|_| found);
    number.map_or(1000, |it| it.parse().expect("--rounds takes a number"))
}

#[expect(clippy::disallowed_macros, reason = "figures go to standard output")]
fn say(line: &str) {
    println!("{line}");
}

/// Applies of a fabric that lacks a spine.
const APPLIES: usize = 100;
/// The leader dies in one of these milliseconds after both are asked.
const KILLED_WITHIN: usize = 40;
const CALL: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(20);
