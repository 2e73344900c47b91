//! A switch that answers without end, or with texts of many lines: it is bounded, counted, and programmed once it stops.

use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::time::sleep;
use weft_controller::southbound::intent::Mode;
use weft_controller::southbound::{AgentState, Heard};

use super::EVEN;
use super::foreign::Foreign;
use super::switch::Replica;

/// Lines of the page of metrics that name a bound of this switch.
fn refused(replica: &Replica) -> String {
    let mut registry = Registry::default();
    replica.southbound.answers().register(&mut registry);
    let mut page = String::new();
    encode(&mut page, &registry).unwrap();
    let lines = page.lines();
    let lines = lines.filter(|line| line.starts_with("switch_answers_refused_total{"));
    lines.collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn a_get_without_end_is_refused_counted_and_tried_again() {
    let foreign = Foreign::start();
    foreign.be_endless(true);
    let mut replica = Replica::over(foreign.connect());
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica.is(AgentState::Unreachable).await;
    let why = replica.status().last_error;
    assert_eq!(why, "the answer to Get has more than 200000 entries");
    let line = "switch_answers_refused_total{switch=\"leaf1\",bound=\"entries\"} 1";
    assert!(refused(&replica).contains(line), "{}", refused(&replica));
    assert_eq!(foreign.taken(), []);

    foreign.be_endless(false);
    replica.in_sync(1).await;
}

#[tokio::test(start_paused = true)]
async fn statuses_without_end_are_read_slowly_and_leave_nothing_behind() {
    let foreign = Foreign::start();
    foreign.be_endless(true);
    let mut replica = Replica::over(foreign.connect());
    replica.mode = Mode::Shadow;
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    sleep(Duration::from_secs(5)).await;
    let statuses = foreign.statuses();
    assert!((100..600).contains(&statuses), "{statuses}");
    let Heard::Status(said) = replica.southbound.observed(&"leaf1".into()) else {
        panic!("it speaks");
    };
    assert_eq!(said.prefixes.as_ref().map(|it| it.len()), Some(0));
    assert_eq!(said.status.interfaces.len(), 4_096);
    assert!(said.status.interfaces[0].name.contains("\\u{a}"));
    let line = "switch_answers_refused_total{switch=\"leaf1\",bound=\"status\"}";
    assert!(refused(&replica).contains(line), "{}", refused(&replica));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_many_lines_is_one_short_line() {
    let foreign = Foreign::start();
    foreign.refuse(format!("busy\n{}", "x".repeat(8_000)));
    let mut replica = Replica::over(foreign.connect());
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica.is(AgentState::Unreachable).await;
    let why = replica.status().last_error;
    assert!(why.contains("busy\\u{a}xxx"), "{why}");
    assert!(why.len() < 400 && !why.contains('\n'), "{why}");
}
