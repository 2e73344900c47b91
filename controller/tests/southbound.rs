//! The southbound client against the agent over a recorded forwarding plane: in memory, in virtual time.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use weft_agent::forwarding::Operation;
use weft_controller::config::Credentials;
use weft_controller::southbound::intent::{Flow, Flows, InterfaceName, Mode, Source};
use weft_controller::southbound::{AgentState, Heard};

use self::foreign::Foreign;
use self::switch::{Replica, Switch, flows};

#[path = "southbound/backups.rs"]
mod backups;
#[path = "southbound/emptied.rs"]
mod emptied;
#[path = "southbound/endless.rs"]
mod endless;
#[path = "southbound/foreign.rs"]
mod foreign;
#[path = "southbound/switch.rs"]
mod switch;

const EVEN: &[(u8, u32)] = &[(1, 1), (2, 1)];
const UNEVEN: &[(u8, u32)] = &[(1, 2), (2, 1)];

#[tokio::test(start_paused = true)]
async fn the_first_push_installs_everything_once() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.intend(7, &[(1, EVEN), (2, EVEN), (3, &[(3, 1)])]);
    assert_eq!(replica.status().state, AgentState::Standby);
    replica.lead(1, 1);
    replica.in_sync(7).await;
    let installed = switch.plane.installed();
    assert_eq!(installed.next_hops.len(), 3);
    assert_eq!(installed.groups.len(), 2);
    assert_eq!(installed.routes.len(), 3);
    assert_eq!(switch.told().len(), 8);
    let status = replica.status();
    assert_eq!((status.entries, status.pending, status.failed), (8, 0, 0));
    assert!(status.last_ack.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_new_intent_sends_the_difference_only() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN), (2, EVEN)]);
    replica.lead(1, 1);
    replica.in_sync(1).await;
    let before = switch.told().len();

    replica.intend(2, &[(1, UNEVEN), (2, UNEVEN)]);
    replica.in_sync(2).await;
    let told = switch.told();
    assert_eq!(told.len(), before + 1);
    assert!(matches!(&told[before], Operation::PutGroup(_, members) if members[0].weight == 2));

    // One prefix goes its own way, and goes.
    replica.intend(3, &[(1, UNEVEN), (2, &[(3, 1)])]);
    replica.in_sync(3).await;
    assert_eq!(switch.told().len(), before + 4);
    replica.intend(4, &[(1, UNEVEN)]);
    replica.in_sync(4).await;
    let installed = switch.plane.installed();
    assert_eq!(
        (
            installed.next_hops.len(),
            installed.groups.len(),
            installed.routes.len()
        ),
        (2, 1, 1)
    );
    // One for gRIBI, one to ask for the agent's status.
    assert_eq!(switch.knocks(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_is_declared_with_tls_is_not_programmed_in_clear() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica.in_sync(1).await;
    let knocks = switch.knocks();

    // There are no CAs: its connections are closed, and none is opened.
    replica.tls = true;
    replica.intend(2, &[(1, EVEN)]);
    replica.is(AgentState::Unreachable).await;
    let why = replica.status().last_error;
    assert!(why.contains("[switches] ca_file"), "{why}");
    assert_eq!(switch.knocks(), knocks);

    // Other credentials change nothing for a switch that is reached in clear.
    replica.tls = false;
    replica.intend(3, &[(1, EVEN)]);
    replica.in_sync(3).await;
    let knocks = switch.knocks();
    let login = Some(("weft".to_owned(), weft_sys::Key::new(b"a secret").unwrap()));
    let credentials = Credentials {
        login,
        ..Credentials::default()
    };
    replica.southbound.set_credentials(Arc::new(credentials));
    replica.intend(4, &[(1, UNEVEN)]);
    replica.in_sync(4).await;
    assert_eq!(switch.knocks(), knocks);
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_reads_and_finds_nothing_to_do() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut first = Replica::new(&switch);
    first.intend(1, &[(1, EVEN), (2, UNEVEN)]);
    first.lead(1, 5);
    first.in_sync(1).await;
    let before = switch.told();

    let mut second = Replica::new(&switch);
    second.intend(1, &[(1, EVEN), (2, UNEVEN)]);
    second.lead(1, 6);
    second.in_sync(1).await;
    assert_eq!(switch.told(), before);
}

#[tokio::test(start_paused = true)]
async fn flows_have_tables_of_their_own_and_the_next_leader_finds_them() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut first = Replica::new(&switch);
    first.flows = flows(&[(1, &[(1, 1)]), (2, &[(2, 1)]), (3, &[(1, 1)])]);
    first.intend(1, &[(1, EVEN), (2, EVEN)]);
    first.lead(1, 5);
    first.in_sync(1).await;
    let installed = switch.plane.installed();
    // Two prefixes by two groups of one next hop each; flows 1 and 3 share theirs.
    assert_eq!((installed.groups.len(), installed.pin_routes.len()), (3, 4));
    assert_eq!(installed.pin_rules.len(), 2);
    assert_eq!(first.status().entries, 2 + 3 + 2 + 3);

    let before = switch.told();
    let mut second = Replica::new(&switch);
    second.flows = flows(&[(1, &[(1, 1)]), (2, &[(2, 1)]), (3, &[(1, 1)])]);
    second.intend(1, &[(1, EVEN), (2, EVEN)]);
    second.lead(1, 6);
    second.in_sync(1).await;
    assert_eq!(switch.told(), before);

    // What one flow alone used goes with it, and nothing else changes.
    second.flows = flows(&[(1, &[(1, 1)]), (3, &[(1, 1)])]);
    second.intend(2, &[(1, EVEN), (2, EVEN)]);
    second.in_sync(2).await;
    let installed = switch.plane.installed();
    assert_eq!((installed.groups.len(), installed.pin_routes.len()), (2, 2));
    assert_eq!(installed.pin_rules.len(), 1);
    assert_eq!(installed.routes.len(), 2);

    second.mode = Mode::Off;
    second.intend(3, &[(1, EVEN), (2, EVEN)]);
    second.is(AgentState::Off).await;
    assert_eq!(switch.plane.installed(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn queue_pairs_of_a_flow_go_their_own_ways_and_the_next_leader_finds_them() {
    let mut switch = Switch::new();
    switch.on().await;
    // To one NIC: what has no known port by both links, and two queue pairs over one each.
    let divided = || {
        let whole = flows(&[(1, EVEN)]);
        let (flow, _) = whole.first_key_value().unwrap();
        let pair = |udp_source_port, link: u8| {
            let flow = Flow {
                udp_source_port: Some(udp_source_port),
                ..*flow
            };
            let one = flows(&[(1, &[(link, 1)])]);
            (flow, Arc::clone(&one[&one.keys().next().copied().unwrap()]))
        };
        let mut all = (*whole).clone();
        all.extend([pair(49_152, 1), pair(49_153, 2)]);
        Arc::new(all)
    };
    let mut first = Replica::new(&switch);
    first.flows = divided();
    first.intend(1, &[(1, EVEN)]);
    first.lead(1, 5);
    first.in_sync(1).await;
    // Two next hops, three groups, a prefix and three flows.
    assert_eq!(first.status().entries, 2 + 3 + 1 + 3);

    let before = switch.told();
    let mut second = Replica::new(&switch);
    second.flows = divided();
    second.intend(1, &[(1, EVEN)]);
    second.lead(1, 6);
    second.in_sync(1).await;
    assert_eq!(
        switch.told(),
        before,
        "the entries read back as they were told"
    );
}

#[tokio::test(start_paused = true)]
async fn what_goes_to_one_nic_is_told_apart_by_its_sources_and_the_next_leader_finds_it() {
    let mut switch = Switch::new();
    switch.on().await;
    let from = |source, row: (u8, &[(u8, u32)]), destination: bool| {
        let whole = flows(&[row]);
        let (flow, members) = whole.first_key_value().unwrap();
        let destination = flow.destination.filter(|_| destination);
        let flow = Flow {
            source,
            destination,
            ..*flow
        };
        (flow, Arc::clone(members))
    };
    let address = Source::Address([10, 0, 0, 9].into());
    let interface = Source::Interface(InterfaceName::from("eth9").unwrap());
    let apart = Arc::new(Flows::from([
        from(address, (1, &[(1, 1)]), true),
        from(interface, (1, &[(2, 1)]), true),
        from(interface, (1, &[(1, 1)]), false),
    ]));
    let mut first = Replica::new(&switch);
    first.flows = Arc::clone(&apart);
    first.intend(1, &[(1, EVEN)]);
    first.lead(1, 5);
    first.in_sync(1).await;
    // Two next hops, three groups, a prefix and three flows.
    assert_eq!(first.status().entries, 2 + 3 + 1 + 3);

    let before = switch.told();
    let mut second = Replica::new(&switch);
    second.flows = apart;
    second.intend(1, &[(1, EVEN)]);
    second.lead(1, 6);
    second.in_sync(1).await;
    assert_eq!(
        switch.told(),
        before,
        "the entries read back as they were told"
    );
    second.flows = flows(&[(1, &[(1, 1)])]);
    second.intend(2, &[(1, EVEN)]);
    second.in_sync(2).await;
    assert_eq!(second.status().entries, 2 + 2 + 1 + 1);
}

#[tokio::test(start_paused = true)]
async fn a_flow_of_a_vni_that_the_switch_does_not_have_holds_up_nothing() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    let elsewhere = |(flow, members): (&Flow, _)| {
        let vni = 200;
        (Flow { vni, ..*flow }, Arc::clone(members))
    };
    let flow = flows(&[(1, &[(1, 1)])]);
    replica.flows = Arc::new(flow.iter().map(elsewhere).collect());
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica.is(AgentState::Held).await;
    assert_eq!(switch.plane.installed().routes.len(), 1);
    assert_eq!(
        replica.status().last_error,
        "add flow to 10.0.0.1 in VNI 200 by group 1: accepted, not active: there is no VXLAN device for vni-200"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_can_not_write_and_stops() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut first = Replica::new(&switch);
    first.intend(1, &[(1, EVEN)]);
    first.lead(1, 5);
    first.in_sync(1).await;

    let mut second = Replica::new(&switch);
    second.intend(2, &[(1, UNEVEN)]);
    second.lead(1, 6);
    second.in_sync(2).await;
    let before = switch.told();

    first.intend(3, &[(2, EVEN)]);
    first.is(AgentState::Deposed).await;
    assert_eq!(
        first.status().last_error,
        "the switch obeys incarnation 1 term 6, this is incarnation 1 term 5"
    );
    assert_eq!(switch.told(), before);
    // It tries again, in case the other one is gone, and never with a higher id of its own.
    sleep(Duration::from_secs(300)).await;
    assert_eq!(first.status().state, AgentState::Deposed);
    assert_eq!(switch.told(), before);

    // Until it is elected again.
    first.lead(1, 7);
    first.in_sync(3).await;
    assert_eq!(switch.plane.installed().routes.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_incarnation_is_an_alarm_and_nothing_is_sent() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut foreign = Replica::new(&switch);
    foreign.intend(1, &[(1, EVEN)]);
    foreign.lead(9, 1);
    foreign.in_sync(1).await;
    let before = switch.told();

    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(2, EVEN)]);
    replica.lead(1, 1_000);
    replica.is(AgentState::ForeignController).await;
    assert_eq!(switch.told(), before);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_agent_begins_empty_and_is_programmed_again() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN), (2, UNEVEN)]);
    replica.lead(1, 1);
    replica.in_sync(1).await;
    let before = switch.plane.installed();

    switch.off();
    replica.is(AgentState::Unreachable).await;
    switch.on().await;
    assert!(switch.plane.installed().routes.is_empty());
    replica.in_sync(1).await;
    assert_eq!(switch.plane.installed(), before);

    switch.off();
    replica.intend(2, &[(1, EVEN), (2, EVEN)]);
    switch.on().await;
    replica.in_sync(2).await;
    assert_eq!(switch.plane.installed().groups.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_agent_is_tried_again_with_a_bound() {
    let switch = Switch::new();
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica.is(AgentState::Unreachable).await;
    sleep(Duration::from_secs(600)).await;
    let knocks = switch.knocks();
    assert!(
        (40..=52).contains(&knocks),
        "{knocks} attempts in ten minutes"
    );
    assert_eq!(replica.status().state, AgentState::Unreachable);
    assert!(!replica.status().last_error.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_the_forwarding_plane_refuses_is_shown_and_tried_again() {
    let mut switch = Switch::new();
    switch.on().await;
    switch.plane.refuse(Some("no space"));
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica.until(|status| status.failed > 0).await;
    assert!(
        replica.status().last_error.contains("no space"),
        "{:?}",
        replica.status()
    );
    assert_eq!(replica.status().installed_revision, 0);
    switch.plane.refuse(None);
    replica.in_sync(1).await;
    assert_eq!(replica.status().failed, 0);
    assert_eq!(switch.plane.installed().routes.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_yields_is_silent() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica.in_sync(1).await;
    let before = switch.told();
    replica.southbound.yield_();
    replica.intend(2, &[(1, UNEVEN)]);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(replica.status().state, AgentState::Standby);
    assert_eq!(replica.status().intended_revision, 2);
    assert_eq!(switch.told(), before);
    // Nobody renews the lease.
    sleep(Duration::from_secs(3)).await;
    assert!(switch.plane.installed().routes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_whole_fabric_passes_through_the_window() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    let members: Vec<[(u8, u32); 2]> = (1..=250).map(|weight| [(1, weight), (2, 251)]).collect();
    let rows: Vec<(u8, &[(u8, u32)])> = (1..=250_u8)
        .zip(&members)
        .map(|(last, members)| (last, members.as_slice()))
        .collect();
    replica.intend(1, &rows);
    replica.lead(1, 1);
    replica.in_sync(1).await;
    assert_eq!(switch.plane.installed().routes.len(), 250);
    assert_eq!(switch.plane.installed().groups.len(), 250);
    // All of it replaced by one group, while it runs by another: the last intent wins.
    let even: Vec<(u8, &[(u8, u32)])> = (1..=250).map(|last| (last, EVEN)).collect();
    replica.intend(2, &even);
    sleep(Duration::from_millis(10)).await;
    replica.intend(3, &rows[..10]);
    replica.in_sync(3).await;
    assert_eq!(switch.plane.installed().routes.len(), 10);
    assert_eq!(switch.plane.installed().groups.len(), 10);
}

/// One uplink is down, and the leader begins later.
#[tokio::test(start_paused = true)]
async fn what_a_switch_holds_back_delays_nothing_else() {
    let mut switch = Switch::new();
    switch.plane.turn("eth3", false);
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN), (2, &[(3, 1)])]);
    replica.lead(1, 1);
    replica.is(AgentState::Held).await;
    let status = replica.status();
    // The next hop and its group; the prefix waits for the group.
    assert_eq!((status.held, status.pending, status.failed), (2, 1, 0));
    assert!(
        status.last_error.contains("interface eth3 is down"),
        "{status:?}"
    );
    assert_eq!(switch.plane.installed().routes.len(), 1);

    let begin = Instant::now();
    replica.intend(2, &[(1, UNEVEN), (2, &[(3, 1)])]);
    let before = switch.told().len();
    while switch.told().len() == before {
        sleep(Duration::from_millis(1)).await;
    }
    assert!(
        begin.elapsed() < Duration::from_millis(100),
        "{:?}",
        begin.elapsed()
    );
    replica.is(AgentState::Held).await;

    // The link comes back, and what waited for it follows, over the same session.
    let knocks = switch.knocks();
    switch.plane.turn("eth3", true);
    replica.in_sync(2).await;
    assert_eq!(switch.plane.installed().routes.len(), 2);
    let status = replica.status();
    assert_eq!((status.held, status.pending, status.entries), (0, 0, 7));
    assert!(switch.knocks() <= knocks + 1, "the session began anew");
}

#[tokio::test(start_paused = true)]
async fn two_links_that_change_in_one_plan_give_no_prefix_a_third_group() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    let (west, east): (&[_], &[_]) = (&[(1, 1), (2, 1)], &[(3, 1), (4, 1)]);
    replica.intend(1, &[(1, west), (2, east), (3, west), (4, east)]);
    replica.lead(1, 1);
    replica.in_sync(1).await;
    let first = switch.told();
    let old = contents(&first);

    let (west, east): (&[_], &[_]) = (&[(1, 1)], &[(3, 1)]);
    replica.intend(2, &[(1, east), (2, west), (3, west), (4, east)]);
    replica.in_sync(2).await;
    let told = switch.told();
    let new = contents(&told);
    for end in first.len()..=told.len() {
        for (prefix, content) in contents(&told[..end]) {
            assert!(
                content == old[&prefix] || content == new[&prefix],
                "{prefix}: {content:?}"
            );
        }
    }
}

/// The next hops and weights of each prefix after these operations.
fn contents(told: &[Operation]) -> BTreeMap<String, Vec<(u32, u16)>> {
    let (mut groups, mut routes) = (BTreeMap::new(), BTreeMap::new());
    for operation in told {
        match operation {
            Operation::PutGroup(id, members) => {
                let members = members
                    .iter()
                    .map(|member| (member.next_hop, member.weight));
                groups.insert(*id, members.collect::<Vec<_>>());
            }
            Operation::PutRoute(_, prefix, group) => {
                routes.insert(prefix.to_string(), *group);
            }
            Operation::DeleteRoute(_, prefix) => drop(routes.remove(&prefix.to_string())),
            Operation::PutNextHop(..)
            | Operation::DeleteNextHop(_)
            | Operation::DeleteGroup(_)
            | Operation::PutRule(..)
            | Operation::DeleteRule(..) => {}
        }
    }
    routes
        .into_iter()
        .map(|(prefix, group)| (prefix, groups[&group].clone()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn drift_is_counted_and_repaired() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN), (2, UNEVEN)]);
    replica.lead(1, 1);
    replica.in_sync(1).await;
    let before = switch.plane.installed();

    // Another hand, under the same id.
    let mut hand = Replica::new(&switch);
    hand.intend(9, &[(1, EVEN)]);
    hand.lead(1, 1);
    hand.in_sync(9).await;
    hand.southbound.yield_();
    assert_eq!(replica.status().state, AgentState::InSync);
    assert_eq!(replica.status().drift, 0);

    replica.until(|status| status.drift == 2).await;
    replica.in_sync(1).await;
    assert_eq!(switch.plane.installed(), before);
    replica.until(|status| status.drift == 0).await;
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_every_second_and_silence_ends_the_session() {
    let foreign = Foreign::start();
    let mut replica = Replica::over(foreign.connect());
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica.in_sync(1).await;
    let before = foreign.elections();
    sleep(Duration::from_secs(10)).await;
    let renewed = foreign.elections() - before;
    assert!((9..=11).contains(&renewed), "{renewed} in ten seconds");

    foreign.fall_silent(true);
    let begin = Instant::now();
    replica.is(AgentState::Unreachable).await;
    let after = begin.elapsed();
    assert!((5..=8).contains(&after.as_secs()), "{after:?}");
    foreign.fall_silent(false);
    replica.in_sync(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_forgets_a_higher_id_is_programmed_again() {
    let foreign = Foreign::start();
    foreign.obey(9, 9);
    let mut replica = Replica::over(foreign.connect());
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica.is(AgentState::ForeignController).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(replica.status().state, AgentState::ForeignController);
    foreign.obey(0, 0);
    let begin = Instant::now();
    replica.in_sync(1).await;
    assert!(
        begin.elapsed() < Duration::from_secs(11),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_agent_says_is_known_while_it_is_fresh() {
    let foreign = Foreign::start();
    let mut replica = Replica::over(foreign.connect());
    replica.mode = Mode::Shadow;
    replica.intend(1, &[(1, EVEN), (2, EVEN)]);
    let leaf = "leaf1".into();
    let mut changed = replica.southbound.changed();
    let heard = |replica: &Replica| match replica.southbound.observed(&leaf) {
        Heard::Status(said) => Some(said.status.version.clone()),
        Heard::Silent | Heard::Foreign => None,
    };
    assert!(heard(&replica).is_none());
    replica.lead(1, 1);
    changed.changed().await.unwrap();
    let expected = Some("198.51.100.1/32 198.51.100.2/32".to_owned());
    assert_eq!(heard(&replica), expected);
    // Counters alone change nothing.
    sleep(Duration::from_secs(30)).await;
    assert!(!changed.has_changed().unwrap());
    assert_eq!(heard(&replica), expected);

    foreign.fall_silent(true);
    changed.changed().await.unwrap();
    assert!(heard(&replica).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_the_agent_counts_of_pins_is_asked_for_by_whoever_programs_the_switch() {
    let foreign = Foreign::start();
    let mut replica = Replica::over(foreign.connect());
    replica.intend(1, &[(1, EVEN)]);
    assert!(replica.southbound.reached().is_empty());
    replica.lead(1, 1);
    let reached = replica.southbound.reached();
    let reached = reached.values().next().unwrap();
    let flow = |last: u8, udp_source_port| Flow {
        udp_source_port,
        ..Flow::to(100, [192, 168, 0, last].into())
    };
    let (whole, of_port) = (flow(1, None), flow(1, Some(49_152)));
    // One has no rate yet, and one is not there.
    let wanted: BTreeSet<_> = [whole, of_port, flow(2, None), flow(4, None)].into();
    let seen = reached.seen(wanted.clone()).await;
    assert_eq!(seen, [(whole, 1_000), (of_port, 2_000)].into());

    foreign.fall_silent(true);
    let begin = Instant::now();
    assert!(reached.seen(wanted).await.is_empty());
    assert!(begin.elapsed() < Duration::from_millis(1_100));
    replica.mode = Mode::Shadow;
    replica.intend(2, &[(1, EVEN)]);
    assert!(replica.southbound.reached().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_without_the_status_service_is_not_a_weft_agent() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.mode = Mode::Shadow;
    replica.intend(1, &[(1, EVEN)]);
    let leaf = "leaf1".into();
    let mut changed = replica.southbound.changed();
    replica.lead(1, 1);
    changed.changed().await.unwrap();
    assert!(matches!(replica.southbound.observed(&leaf), Heard::Foreign));
    // It is that while it is away, too.
    switch.off();
    sleep(Duration::from_secs(120)).await;
    assert!(matches!(replica.southbound.observed(&leaf), Heard::Foreign));
}

#[tokio::test(start_paused = true)]
async fn a_switch_on_hold_is_not_written_to_and_is_emptied_when_it_leaves() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut first = Replica::new(&switch);
    first.intend(1, &[(1, EVEN)]);
    first.lead(1, 1);
    first.in_sync(1).await;
    first.southbound.yield_();
    // The next leader has not heard of the switch, and it goes from on to shadow.
    let mut next = Replica::new(&switch);
    next.hold = true;
    next.intend(1, &[(1, UNEVEN)]);
    next.lead(1, 2);
    let before = switch.told();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(switch.told(), before);
    next.hold = false;
    next.mode = Mode::Shadow;
    next.intend(2, &[(1, UNEVEN)]);
    next.is(AgentState::Shadow).await;
    assert!(switch.plane.installed().routes.is_empty());
}
