//! Modes off and shadow: a switch is emptied, and looked at until it is.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use weft_controller::southbound::AgentState;
use weft_controller::southbound::intent::Mode;

use super::switch::{Replica, Switch};
use super::{EVEN, UNEVEN};

#[tokio::test(start_paused = true)]
async fn off_is_said_when_the_switch_reads_back_empty() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN), (2, UNEVEN)]);
    replica.lead(1, 1);
    replica.in_sync(1).await;

    let begin = Instant::now();
    replica.mode = Mode::Off;
    replica.intend(2, &[(1, EVEN), (2, UNEVEN)]);
    replica.is(AgentState::Off).await;
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(replica.status().entries, 0);
    assert_eq!(switch.plane.installed(), Default::default());
    let knocks = switch.knocks();
    sleep(Duration::from_secs(300)).await;
    assert_eq!(switch.knocks(), knocks);

    replica.mode = Mode::On;
    replica.intend(3, &[(1, EVEN)]);
    replica.in_sync(3).await;
    assert_eq!(switch.plane.installed().routes.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn off_is_not_said_of_a_switch_that_can_not_be_read() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica.in_sync(1).await;
    switch.off();
    replica.mode = Mode::Off;
    replica.intend(2, &[(1, EVEN)]);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(replica.status().state, AgentState::Unreachable);
    switch.on().await;
    replica.is(AgentState::Off).await;
    assert_eq!(switch.plane.installed(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn shadow_touches_nothing() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.mode = Mode::Shadow;
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica.is(AgentState::Shadow).await;
    sleep(Duration::from_secs(60)).await;
    assert!(switch.told().is_empty());
    assert_eq!(replica.status().state, AgentState::Shadow);

    replica.mode = Mode::On;
    replica.intend(2, &[(1, EVEN)]);
    replica.in_sync(2).await;
    // What this replica wrote goes before it only looks on.
    replica.mode = Mode::Shadow;
    replica.intend(3, &[(1, EVEN)]);
    replica.is(AgentState::Shadow).await;
    assert_eq!(switch.plane.installed(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_empties_what_went_from_on_to_shadow() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut first = Replica::new(&switch);
    let mut second = Replica::new(&switch);
    first.intend(1, &[(1, EVEN)]);
    second.intend(1, &[(1, EVEN)]);
    first.lead(1, 1);
    first.in_sync(1).await;
    first.southbound.yield_();
    second.mode = Mode::Shadow;
    second.intend(2, &[(1, EVEN)]);
    second.lead(1, 2);
    second.is(AgentState::Shadow).await;
    assert_eq!(switch.plane.installed(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_is_no_longer_declared_is_emptied_and_then_forgotten() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica.in_sync(1).await;
    switch.off();
    replica.southbound.set_intent(BTreeMap::new(), 2);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(replica.status().state, AgentState::Unreachable);

    // The next leader goes on with it, since it saw the switch leave.
    let mut next = Replica::new(&switch);
    next.intend(1, &[(1, EVEN)]);
    next.southbound.set_intent(BTreeMap::new(), 2);
    replica.southbound.yield_();
    next.lead(1, 2);
    next.is(AgentState::Unreachable).await;
    switch.on().await;
    while !next.southbound.statuses().is_empty() {
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(switch.plane.installed(), Default::default());
}
