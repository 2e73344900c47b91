//! Every state and every input: what comes out, and which state follows. The table is a file, so
//! that a person can read it and a change of it shows in a review.

use std::fmt::Write;
use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_bgp::error::{DecodeError, Fault};
use weft_bgp::family::Family;
use weft_bgp::message::Message;
use weft_bgp::message::notification::Cease;
use weft_bgp::session::{Input, Session, SessionConfig, Side};

use crate::golden;
use crate::words::{self, ASN, config, epoch, good_open, notification, open, router_id};

use Side::{Incoming, Outgoing};

#[test]
fn every_pair_of_state_and_input_is_decided() {
    let start = epoch();
    let mut text = String::from(
        "# state, input -> outputs => next state. Rewritten by WEFT_REWRITE=1.\n# `=` stands for: nothing comes out, nothing changes.\n",
    );
    for (name, reach) in states() {
        writeln!(text, "\n{name}").unwrap();
        for (label, input) in inputs() {
            let mut session = reach(start);
            let before = session.state_name();
            let deadline = session.poll_timeout();
            let now = match (label.as_str(), deadline) {
                ("timeout due", Some(deadline)) => deadline,
                ("timeout late", _) => start + Duration::from_secs(86_400),
                _ => start + Duration::from_millis(1),
            };
            session.handle(input, now);
            let outputs = words::drain(&mut session);
            let lines: Vec<_> = outputs
                .iter()
                .map(|output| words::output(output, &session))
                .collect();
            let after = session.state_name();
            let same = lines.is_empty() && before == after && session.poll_timeout() == deadline;
            let outcome = match same {
                true => "=".into(),
                false => format!("{} => {after}", lines.join("; ")),
            };
            writeln!(text, "  {label:<24} {}", outcome.trim()).unwrap();
        }
    }
    golden::check(&golden::path("session-table.txt"), &text);
}

#[test]
fn a_stop_in_every_state_closes_everything_and_stays() {
    for (name, reach) in states() {
        let start = epoch();
        let mut session = reach(start);
        session.handle(Input::Stop(Cease::Shutdown), start);
        words::drain(&mut session);
        assert_eq!(
            (session.state_name(), session.poll_timeout()),
            ("Idle", None),
            "{name}"
        );
    }
}

type Reach = fn(Instant) -> Session;

fn states() -> Vec<(&'static str, Reach)> {
    vec![
        ("Idle, stopped", |now| reach(config(), &[], now)),
        ("Idle, held", |now| {
            let bad = Input::Message(Outgoing, Message::Keepalive);
            reach(
                config(),
                &[Input::Start, Input::Connected(Outgoing), bad],
                now,
            )
        }),
        ("Connect", |now| reach(config(), &[Input::Start], now)),
        ("Active", |now| {
            reach(config(), &[Input::Start, Input::ConnectFailed], now)
        }),
        ("Active, passive", |now| {
            reach(
                SessionConfig {
                    passive: true,
                    ..config()
                },
                &[Input::Start],
                now,
            )
        }),
        ("OpenSent, out", |now| {
            reach(config(), &[Input::Start, Input::Connected(Outgoing)], now)
        }),
        ("OpenSent, in, dial under way", |now| {
            reach(config(), &[Input::Start, Input::Connected(Incoming)], now)
        }),
        ("OpenSent, in and out", |now| reach(config(), &both(), now)),
        ("OpenConfirm, out", |now| {
            let opened = Input::Message(Outgoing, good_open());
            reach(
                config(),
                &[Input::Start, Input::Connected(Outgoing), opened],
                now,
            )
        }),
        ("OpenConfirm, in, dial under way", |now| {
            let opened = Input::Message(Incoming, good_open());
            reach(
                config(),
                &[Input::Start, Input::Connected(Incoming), opened],
                now,
            )
        }),
        ("OpenConfirm, in, rival out", |now| {
            let opened = Input::Message(Incoming, good_open());
            reach(config(), &[both().as_slice(), &[opened]].concat(), now)
        }),
        // We have the lower router id, so the connection that we dialed loses.
        ("OpenConfirm, out confirmed, rival in", |now| {
            let opened = Input::Message(Outgoing, good_open());
            let confirmed = Input::Message(Outgoing, Message::Keepalive);
            reach(
                config(),
                &[both().as_slice(), &[opened, confirmed]].concat(),
                now,
            )
        }),
        ("Established, out", |now| {
            let opened = Input::Message(Outgoing, good_open());
            let confirmed = Input::Message(Outgoing, Message::Keepalive);
            let inputs = [Input::Start, Input::Connected(Outgoing), opened, confirmed];
            reach(config(), &inputs, now)
        }),
    ]
}

fn both() -> Vec<Input> {
    vec![
        Input::Start,
        Input::Connected(Incoming),
        Input::Connected(Outgoing),
    ]
}

fn reach(config: SessionConfig, inputs: &[Input], now: Instant) -> Session {
    let mut session = Session::new(config);
    for input in inputs {
        session.handle(input.clone(), now);
        words::drain(&mut session);
    }
    session
}

fn inputs() -> Vec<(String, Input)> {
    let mut inputs = vec![
        ("start".into(), Input::Start),
        ("connect failed".into(), Input::ConnectFailed),
        ("timeout early".into(), Input::Timeout),
        ("timeout due".into(), Input::Timeout),
        ("timeout late".into(), Input::Timeout),
        ("stop".into(), Input::Stop(Cease::Shutdown)),
        (
            "stop saying".into(),
            Input::StopSaying(Cease::Reset, "back soon".into()),
        ),
        ("renew".into(), Input::Renew),
        ("sent".into(), Input::Sent),
        ("send blocked".into(), Input::SendBlocked),
    ];
    let bad_as = open(ASN + 1, router_id(2), 90, &[Family::L2VPN_EVPN]);
    let messages = [
        ("OPEN", good_open()),
        ("OPEN wrong AS", Message::Open(bad_as)),
        ("KEEPALIVE", Message::Keepalive),
        ("UPDATE", words::update()),
        ("ROUTE-REFRESH", words::refresh()),
        ("NOTIFICATION 6/2", notification(6, 2)),
        ("NOTIFICATION 6/7", notification(6, 7)),
    ];
    for side in [Outgoing, Incoming] {
        let on = words::side(side);
        let error = DecodeError {
            fault: Fault::Marker,
            offset: 0,
        };
        inputs.push((format!("{on} connected"), Input::Connected(side)));
        inputs.push((format!("{on} disconnected"), Input::Disconnected(side)));
        inputs.push((
            format!("{on} malformed"),
            Input::Malformed(side, error, Bytes::new()),
        ));
        for (name, message) in &messages {
            inputs.push((
                format!("{on} {name}"),
                Input::Message(side, message.clone()),
            ));
        }
    }
    inputs
}
