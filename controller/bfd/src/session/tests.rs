//! The state table, each timer, and two sessions over a simulated link.

use std::num::{NonZeroU8, NonZeroU32};

use proptest::prelude::*;

use super::*;

#[path = "tests/link.rs"]
mod link;

use self::link::Link;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[expect(
    clippy::disallowed_methods,
    reason = "an Instant comes from nowhere else"
)]
fn start() -> Instant {
    Instant::now()
}

fn discriminator(value: u32) -> Discriminator {
    Discriminator(NonZeroU32::new(value).unwrap())
}

fn timers(interval_ms: u64, multiplier: u8) -> Timers {
    Timers {
        interval: ms(interval_ms),
        multiplier: NonZeroU8::new(multiplier).unwrap(),
    }
}

/// Over one hop, three times 300 ms, and called 1.
fn session(now: Instant) -> Session {
    let config = SessionConfig {
        mine: discriminator(1),
        multihop: false,
        timers: timers(300, 3),
        jitter_seed: 7,
    };
    Session::new(config, now)
}

/// From an end that calls the session 2 and has the same timers.
fn packet(state: State) -> Packet {
    Packet {
        diagnostic: Diagnostic::None,
        state,
        poll: false,
        final_bit: false,
        control_plane_independent: false,
        demand: false,
        multiplier: NonZeroU8::new(3).unwrap(),
        mine: discriminator(2),
        yours: Some(discriminator(1)),
        desired_min_tx: Interval(300_000),
        required_min_rx: Interval(300_000),
        required_min_echo_rx: Interval(0),
    }
}

fn outputs(session: &mut Session) -> Vec<Output> {
    std::iter::from_fn(|| session.poll_output()).collect()
}

fn sent(session: &mut Session) -> Vec<Packet> {
    let outputs = outputs(session);
    let packets = outputs.into_iter().filter_map(|output| match output {
        Output::Send(packet) => Some(packet),
        Output::Changed(_) | Output::Ended => None,
    });
    packets.collect()
}

fn hear(session: &mut Session, packet: Packet, now: Instant) -> Vec<Packet> {
    session.handle(Input::Packet(packet), now);
    sent(session)
}

/// A session in this state, whose poll sequences are over.
fn session_in(state: State, now: Instant) -> Session {
    let mut session = session(now);
    session.handle(Input::Timeout, now);
    let heard: &[State] = match state {
        State::Down => &[],
        State::Init => &[State::Down],
        State::Up => &[State::Down, State::Up],
        State::AdminDown => {
            session.handle(Input::Packet(packet(State::Down)), now);
            session.handle(Input::Stop, now);
            &[]
        }
    };
    for state in heard {
        session.handle(Input::Packet(packet(*state)), now);
    }
    let answer = Packet {
        final_bit: true,
        ..packet(State::Up)
    };
    if state == State::Up {
        session.handle(Input::Packet(answer), now);
    }
    outputs(&mut session);
    assert_eq!(session.state, state);
    session
}

#[test]
fn every_state_follows_every_state_of_the_other_end() {
    use State::{AdminDown, Down, Init, Up};
    let table = [
        (Down, [Down, Init, Up, Down]),
        (Init, [Down, Init, Up, Up]),
        (Up, [Down, Down, Up, Up]),
        (AdminDown, [AdminDown; 4]),
    ];
    let now = start();
    for (ours, expected) in table {
        for (theirs, expected) in [AdminDown, Down, Init, Up].into_iter().zip(expected) {
            let mut session = session_in(ours, now);
            session.handle(Input::Packet(packet(theirs)), now);
            assert_eq!(session.state, expected, "{ours:?} hears {theirs:?}");
            let fell = ours != Down && expected == Down && ours != expected;
            let diagnostic = match (fell, ours) {
                (true, _) => Diagnostic::NeighborSignaledDown,
                (false, AdminDown) => Diagnostic::AdministrativelyDown,
                (false, Down | Init | Up) => Diagnostic::None,
            };
            assert_eq!(session.diagnostic, diagnostic, "{ours:?} hears {theirs:?}");
        }
    }
}

#[test]
fn the_first_packet_is_due_at_once_and_says_little() {
    let now = start();
    let mut session = session(now);
    assert_eq!(session.poll_timeout(), Some(now));
    session.handle(Input::Timeout, now);
    let expected = Packet {
        state: State::Down,
        mine: discriminator(1),
        yours: None,
        desired_min_tx: Interval(1_000_000),
        ..packet(State::Down)
    };
    assert_eq!(outputs(&mut session), [Output::Send(expected)]);
    let next = session.poll_timeout().unwrap() - now;
    assert!(next >= ms(750) && next <= ms(1_000), "{next:?}");
}

#[test]
fn a_change_of_state_is_told_at_once_and_going_up_polls() {
    let now = start();
    let mut session = session_in(State::Down, now);
    let told = hear(&mut session, packet(State::Down), now);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].state, told[0].poll), (State::Init, false));
    assert_eq!(told[0].yours, Some(discriminator(2)));
    let told = hear(&mut session, packet(State::Up), now);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].state, told[0].poll), (State::Up, true));
    assert_eq!(told[0].desired_min_tx, Interval(300_000));
    let answer = Packet {
        final_bit: true,
        ..packet(State::Up)
    };
    assert_eq!(hear(&mut session, answer, now), []);
    let at = session.poll_timeout().unwrap();
    session.handle(Input::Timeout, at);
    assert!(!sent(&mut session)[0].poll);
}

#[test]
fn a_poll_is_answered_at_once_in_every_state_but_admin_down() {
    let now = start();
    for state in [State::Down, State::Init, State::Up] {
        let mut session = session_in(state, now);
        let poll = Packet {
            poll: true,
            ..packet(State::Up)
        };
        let told = hear(&mut session, poll, now);
        let answers: Vec<_> = told.iter().filter(|packet| packet.final_bit).collect();
        assert_eq!(answers.len(), 1, "{state:?}: {told:?}");
        assert!(!answers[0].poll);
    }
    let mut session = session_in(State::AdminDown, now);
    let poll = Packet {
        poll: true,
        ..packet(State::Down)
    };
    assert_eq!(hear(&mut session, poll, now), []);
}

#[test]
fn silence_for_the_detection_time_is_a_failure() {
    let now = start();
    for state in [State::Init, State::Up] {
        let mut session = session_in(state, now);
        assert_eq!(session.status().detection_time, Some(ms(900)));
        while session.state == state {
            let at = session.poll_timeout().unwrap();
            session.handle(Input::Timeout, at);
            assert_eq!(session.state == state, at < now + ms(900));
        }
        let told = *sent(&mut session).last().unwrap();
        assert_eq!(told.state, State::Down);
        assert_eq!(told.diagnostic, Diagnostic::DetectionTimeExpired);
        assert_eq!(told.yours, None, "the other end may have started anew");
        let status = session.status();
        assert_eq!(status.state, State::Down);
        assert_eq!(status.diagnostic, Diagnostic::DetectionTimeExpired);
        assert_eq!(status.failures, u64::from(state == State::Up));
        assert_eq!(status.detection_time, None);
    }
}

/// From an end that has just started.
fn nameless(state: State) -> Packet {
    Packet {
        mine: discriminator(9),
        yours: None,
        ..packet(state)
    }
}

/// RFC 5880 §6.8.6, and RFC 5882 §3.2 for AdminDown.
#[test]
fn over_one_hop_an_end_that_restarts_is_noticed_at_once() {
    let now = start();
    for (theirs, failures) in [(State::Down, 1), (State::AdminDown, 0)] {
        let mut session = session_in(State::Up, now);
        let told = hear(&mut session, nameless(theirs), now + ms(250));
        assert_eq!(told.len(), 1, "{theirs:?}");
        assert_eq!(told[0].state, State::Down);
        assert_eq!(told[0].diagnostic, Diagnostic::NeighborSignaledDown);
        assert_eq!(told[0].yours, Some(discriminator(9)));
        let status = session.status();
        assert_eq!((status.state, status.failures), (theirs, failures));
        assert_eq!(status.diagnostic, Diagnostic::NeighborSignaledDown);
    }
}

#[test]
fn over_many_hops_a_packet_without_our_name_is_nothing_while_up() {
    let now = start();
    for state in [State::Down, State::AdminDown] {
        let mut session = session_in(State::Up, now);
        session.multihop = true;
        session.handle(Input::Packet(nameless(state)), now + ms(500));
        assert_eq!(outputs(&mut session), []);
        assert_eq!(session.detection_at(), Some(now + ms(900)));
    }
    let mut session = session_in(State::Init, now);
    session.multihop = true;
    session.handle(Input::Packet(nameless(State::Down)), now + ms(500));
    assert_eq!(session.detection_at(), Some(now + ms(1_400)));
}

#[test]
fn an_end_that_is_gone_is_not_polled() {
    let now = start();
    let mut session = session_in(State::Up, now);
    session.handle(Input::Change(timers(400, 3)), now);
    assert!(sent(&mut session)[0].poll);
    session.handle(Input::Timeout, now + ms(1_200));
    let told = sent(&mut session);
    assert_eq!((told[0].state, told[0].poll), (State::Down, false));
}

#[test]
fn any_packet_of_the_session_restarts_detection() {
    let mut now = start();
    let mut session = session_in(State::Up, now);
    for _ in 0..20 {
        now += ms(899);
        session.handle(Input::Packet(packet(State::Up)), now);
        session.handle(Input::Timeout, now);
    }
    assert_eq!(session.state, State::Up);
}

#[test]
fn a_packet_with_another_name_is_nothing() {
    let now = start();
    let mut session = session_in(State::Up, now);
    let other = Packet {
        yours: Some(discriminator(3)),
        ..packet(State::Down)
    };
    session.handle(Input::Packet(other), now + ms(500));
    assert_eq!(outputs(&mut session), []);
    assert_eq!(session.detection_at(), Some(now + ms(900)));
}

#[test]
fn an_operator_at_the_other_end_is_no_failure() {
    let now = start();
    let mut session = session_in(State::Up, now);
    session.handle(Input::Packet(packet(State::AdminDown)), now);
    let status = session.status();
    assert_eq!((status.state, status.failures), (State::AdminDown, 0));
    assert_eq!(status.diagnostic, Diagnostic::NeighborSignaledDown);
    assert_eq!(sent(&mut session)[0].state, State::Down);

    session.handle(Input::Packet(packet(State::Down)), now);
    assert_eq!(session.status().state, State::Init);
    session.handle(Input::Packet(packet(State::Up)), now);
    let status = session.status();
    assert_eq!((status.state, status.failures), (State::Up, 0));
}

#[test]
fn an_end_that_starts_anew_is_a_failure_also_if_it_is_quick() {
    let now = start();
    let mut session = session_in(State::Up, now);
    let renamed = |state| Packet {
        mine: discriminator(9),
        ..packet(state)
    };
    let told = hear(&mut session, renamed(State::Down), now);
    assert_eq!(told[0].yours, Some(discriminator(9)));
    session.handle(Input::Packet(renamed(State::Init)), now);
    let status = session.status();
    assert_eq!((status.state, status.failures), (State::Up, 1));
    assert_eq!(status.diagnostic, Diagnostic::NeighborSignaledDown);
}

#[test]
fn stopping_tells_the_other_end_three_times_and_ends() {
    let now = start();
    let mut session = session_in(State::Up, now);
    session.handle(Input::Stop, now);
    let mut told = Vec::new();
    let mut ended_at = None;
    loop {
        for output in outputs(&mut session) {
            match output {
                Output::Send(packet) => told.push(packet),
                Output::Changed(status) => assert_eq!(status.state, State::AdminDown),
                Output::Ended => ended_at = session.poll_timeout().or(Some(now)),
            }
        }
        let Some(at) = session.poll_timeout() else {
            break;
        };
        assert!(at <= now + ms(3_000));
        session.handle(Input::Timeout, at);
    }
    assert!(ended_at.is_some());
    assert!(told.len() >= 3, "{told:?}");
    for packet in told {
        assert_eq!(packet.state, State::AdminDown);
        assert_eq!(packet.diagnostic, Diagnostic::AdministrativelyDown);
    }
    session.handle(Input::Packet(packet(State::Down)), now + ms(4_000));
    assert_eq!(outputs(&mut session), []);
}

#[test]
fn stopping_what_nobody_answers_ends_at_once() {
    let now = start();
    let mut session = session_in(State::Down, now);
    session.handle(Input::Stop, now);
    assert_eq!(session.poll_timeout(), Some(now));
    session.handle(Input::Timeout, now);
    assert_eq!(outputs(&mut session).last(), Some(&Output::Ended));
    assert_eq!(session.poll_timeout(), None);
}

#[test]
fn slower_timers_hold_when_the_other_end_has_confirmed_them() {
    let now = start();
    let mut session = session_in(State::Up, now);
    session.handle(Input::Change(timers(2_000, 3)), now);
    let told = sent(&mut session);
    assert_eq!(told.len(), 1);
    assert!(told[0].poll);
    assert_eq!(told[0].desired_min_tx, Interval(2_000_000));
    assert_eq!(session.status().transmit_interval, ms(300));
    assert_eq!(session.status().detection_time, Some(ms(6_000)));
    let answer = Packet {
        final_bit: true,
        ..packet(State::Up)
    };
    session.handle(Input::Packet(answer), now);
    assert_eq!(session.status().transmit_interval, ms(2_000));
    assert_eq!(session.status().state, State::Up);
}

#[test]
fn the_other_end_says_how_much_it_can_receive() {
    let now = start();
    let asking = |required_min_rx| Packet {
        required_min_rx: Interval(required_min_rx),
        ..packet(State::Up)
    };
    let mut session = session_in(State::Up, now);
    session.handle(Input::Packet(asking(5_000_000)), now);
    assert_eq!(session.status().transmit_interval, ms(5_000));
    session.handle(Input::Packet(asking(0)), now);
    assert_eq!(session.transmit_at(), None, "RFC 5880 §6.8.7");
    assert_eq!(session.poll_timeout(), Some(now + ms(900)));
    // It dies, and is spoken to again.
    session.handle(Input::Timeout, now + ms(900));
    assert!(session.transmit_at().is_some());
}

#[test]
fn demand_mode_of_the_other_end_is_honored() {
    let now = start();
    let mut session = session_in(State::Up, now);
    let demand = Packet {
        demand: true,
        ..packet(State::Up)
    };
    session.handle(Input::Packet(demand), now);
    assert_eq!(session.transmit_at(), None, "RFC 5880 §6.8.7");
    session.handle(Input::Change(timers(400, 3)), now);
    assert!(session.transmit_at().is_some(), "a poll is under way");
}

#[test]
fn zero_is_never_offered() {
    let now = start();
    let mut session = Session::new(
        SessionConfig {
            mine: discriminator(1),
            multihop: false,
            timers: timers(0, 1),
            jitter_seed: 0,
        },
        now,
    );
    session.handle(Input::Timeout, now);
    let told = sent(&mut session);
    assert_eq!(told[0].required_min_rx, Interval(1));
    assert_eq!(told[0].desired_min_tx, Interval(1_000_000));
}

fn any_timers() -> impl Strategy<Value = Timers> {
    (10_u64..1_500, 1_u8..6).prop_map(|(interval_ms, multiplier)| timers(interval_ms, multiplier))
}

fn any_packet() -> impl Strategy<Value = Packet> {
    any::<[u8; 24]>().prop_filter_map("no packet", |mut octets| {
        octets[0] = octets[0] & 0x1f | 0x20;
        octets[1] &= !0x05;
        octets[3] = 24;
        let yours = octets[11] & 1;
        octets[8..12].copy_from_slice(&[0, 0, 0, yours]);
        Packet::decode(&octets).ok()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn without_loss_two_sessions_come_up_and_stay(
        a in any_timers(),
        b in any_timers(),
        delay_ms in 0_u64..200,
        seed: u64,
        changes in prop::collection::vec((any::<bool>(), any_timers(), 0_u64..3_000), 0..4),
    ) {
        let mut link = Link::new(start(), [a, b], ms(delay_ms), 0, seed);
        prop_assert!(link.run_until_up(ms(5_000)), "{link:?}");
        link.run(ms(10_000));
        for (end, timers, wait_ms) in changes {
            link.change(usize::from(end), timers);
            link.run(ms(wait_ms));
        }
        link.run(ms(10_000));
        for end in 0..2 {
            prop_assert_eq!(link.status(end).state, State::Up);
            prop_assert_eq!(link.status(end).failures, 0);
        }
        // Both go at the slower of what one wishes and the other can, in both directions.
        let slower = link.interval(0).max(link.interval(1));
        for end in 0..2 {
            prop_assert_eq!(link.status(end).transmit_interval, slower);
        }
    }

    #[test]
    fn with_loss_two_sessions_come_up(
        a in any_timers(),
        b in any_timers(),
        loss_percent in 1_u32..50,
        seed: u64,
    ) {
        let mut link = Link::new(start(), [a, b], ms(1), loss_percent, seed);
        prop_assert!(link.run_until_up(ms(120_000)), "{link:?}");
    }

    #[test]
    fn a_cut_is_found_within_the_detection_time_and_healed(
        a in any_timers(),
        b in any_timers(),
        delay_ms in 0_u64..50,
        seed: u64,
    ) {
        let mut link = Link::new(start(), [a, b], ms(delay_ms), 0, seed);
        prop_assert!(link.run_until_up(ms(5_000)));
        link.run(ms(10_000));
        let limits = [0, 1].map(|end| link.status(end).detection_time.unwrap() + ms(delay_ms));
        link.cut(true);
        let found = link.run_until_down(ms(60_000));
        for (found, limit) in found.into_iter().zip(limits) {
            prop_assert!(found.is_some_and(|after| after <= limit), "{found:?} {limit:?}");
        }
        for end in 0..2 {
            prop_assert_eq!(link.status(end).diagnostic, Diagnostic::DetectionTimeExpired);
            prop_assert_eq!(link.status(end).failures, 1);
        }
        link.cut(false);
        prop_assert!(link.run_until_up(ms(5_000)));
    }

    #[test]
    fn no_packets_panic_or_make_a_storm(
        inputs in prop::collection::vec((any_packet(), 0_u64..2_000, 0_u8..20), 0..60),
    ) {
        let mut now = start();
        let mut session = session(now);
        for (packet, wait_ms, choice) in inputs {
            now += ms(wait_ms);
            let input = match choice {
                0 => Input::Change(timers(wait_ms, 2)),
                1 if wait_ms < 200 => Input::Stop,
                2..8 => Input::Timeout,
                _ => Input::Packet(packet),
            };
            session.handle(input, now);
            prop_assert!(sent(&mut session).len() <= 2);
            // A deadline that has come is over once it was handled.
            if session.poll_timeout().is_some_and(|at| at <= now) {
                session.handle(Input::Timeout, now);
                prop_assert!(sent(&mut session).len() <= 2);
                prop_assert!(session.poll_timeout().is_none_or(|at| at > now));
            }
        }
    }
}
