//! Which changes a session survives.

use std::time::{Duration, Instant};

use super::*;
use crate::capability::{AddPath, Capability, GracefulRestart, LongLived};
use crate::family::Family;
use crate::message::{Message, Open};
use crate::peer::RouterId;
use crate::session::{Input, Output, RemoteAsn, Side};

const ASN: u32 = 64_496;

fn config() -> SessionConfig {
    SessionConfig::new(ASN, RouterId(1), RemoteAsn::Exactly(ASN))
}

#[expect(
    clippy::disallowed_methods,
    reason = "an Instant comes from nowhere else"
)]
fn established() -> Session {
    let now = Instant::now();
    let mut session = Session::new(config());
    let open = Open {
        asn: ASN,
        hold_secs: 90,
        router_id: RouterId(2),
        capabilities: vec![
            Capability::MultiProtocol(Family::L2VPN_EVPN),
            Capability::FourOctetAs(ASN),
        ],
    };
    let inputs = [
        Input::Start,
        Input::Connected(Side::Outgoing),
        Input::Message(Side::Outgoing, Message::Open(open)),
        Input::Message(Side::Outgoing, Message::Keepalive),
    ];
    for input in inputs {
        session.handle(input, now);
        while session.poll_output().is_some() {}
    }
    assert_eq!(session.state_name(), "Established");
    session
}

/// Each field of the configuration changed alone, under an established session.
#[test]
#[expect(clippy::too_many_lines, reason = "a row for each field")]
fn every_field_is_applied_or_says_what_it_needs() {
    type Change = (&'static str, fn(&mut SessionConfig), Effect);
    let resets = |field| Effect::MustReset(vec![field]);
    let table: [Change; 19] = [
        ("nothing", |_| (), Effect::None),
        ("as", |c| c.local_asn = 64_500, resets("local_asn")),
        ("id", |c| c.router_id = RouterId(3), resets("router_id")),
        (
            "other remote",
            |c| c.remote_asn = RemoteAsn::Exactly(64_500),
            resets("remote_asn"),
        ),
        (
            "wider remote",
            |c| c.remote_asn = RemoteAsn::Range(ASN, ASN + 9),
            Effect::Applied,
        ),
        ("hold", |c| c.hold = Duration::from_secs(90), resets("hold")),
        (
            "retry",
            |c| c.connect_retry = Duration::from_secs(1),
            Effect::Applied,
        ),
        (
            "send hold",
            |c| c.send_hold = Duration::from_secs(7),
            Effect::Applied,
        ),
        (
            "families",
            |c| c.families.push(Family::RTC),
            resets("families"),
        ),
        ("passive", |c| c.passive = true, Effect::Applied),
        (
            "refresh",
            |c| c.route_refresh = false,
            resets("route_refresh"),
        ),
        (
            "enhanced",
            |c| c.enhanced_route_refresh = false,
            resets("enhanced_route_refresh"),
        ),
        (
            "add path",
            |c| {
                c.add_path.push(AddPath {
                    family: Family::L2VPN_EVPN,
                    receive: true,
                    send: false,
                });
            },
            resets("add_path"),
        ),
        (
            "extended",
            |c| c.extended_message = false,
            resets("extended_message"),
        ),
        ("seed", |c| c.delay_jitter_seed = 99, Effect::Applied),
        (
            "fqdn",
            |c| c.fqdn = Some(("rr1".into(), String::new())),
            Effect::NextSession(vec!["fqdn"]),
        ),
        (
            "version",
            |c| c.software_version = Some("weft".into()),
            Effect::NextSession(vec!["software_version"]),
        ),
        (
            "restart",
            |c| c.graceful_restart = Some(GracefulRestart::default()),
            resets("graceful_restart"),
        ),
        (
            "long lived",
            |c| {
                c.long_lived.push(LongLived {
                    family: Family::L2VPN_EVPN,
                    forwarding: true,
                    stale_secs: 3600,
                });
            },
            resets("long_lived"),
        ),
    ];
    for (name, change, expected) in table {
        let mut session = established();
        let mut changed = config();
        change(&mut changed);
        assert_eq!(session.effect(&changed), expected, "{name}");
        assert_eq!(session.reconfigure(changed), expected, "{name}");
        assert_eq!(session.state_name(), "Established", "{name}");
        assert_eq!(session.poll_output(), None, "{name}");
        let mut stopped = Session::new(config());
        let mut changed = config();
        change(&mut changed);
        let idle = stopped.reconfigure(changed);
        assert!(idle <= Effect::Applied, "{name}: nothing to end");
    }
}

#[test]
fn the_worst_of_several_changes_counts_and_names_its_fields() {
    let mut session = established();
    let changed = SessionConfig {
        hold: Duration::from_secs(30),
        families: vec![Family::RTC],
        passive: true,
        fqdn: Some(("rr1".into(), String::new())),
        ..config()
    };
    let effect = session.reconfigure(changed);
    assert_eq!(effect, Effect::MustReset(vec!["hold", "families"]));
}

#[test]
fn the_send_hold_time_holds_at_once() {
    let mut session = established();
    let changed = SessionConfig {
        send_hold: Duration::from_secs(7),
        ..config()
    };
    assert_eq!(session.reconfigure(changed), Effect::Applied);
    let negotiated = session.negotiated().unwrap();
    assert_eq!(negotiated.send_hold, Duration::from_secs(7));
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "an Instant comes from nowhere else"
)]
fn a_restart_is_said_while_it_is_set() {
    let now = Instant::now();
    for restarted in [true, false] {
        let mut session = Session::new(SessionConfig {
            graceful_restart: Some(GracefulRestart::default()),
            ..config()
        });
        session.set_restarted(restarted);
        session.handle(Input::Start, now);
        session.handle(Input::Connected(Side::Outgoing), now);
        let outputs: Vec<_> = std::iter::from_fn(|| session.poll_output()).collect();
        let said = outputs.iter().any(|output| match output {
            Output::Send(_, Message::Open(open)) => {
                open.capabilities
                    .contains(&Capability::GracefulRestart(GracefulRestart {
                        restarted: true,
                        ..GracefulRestart::default()
                    }))
            }
            _ => false,
        });
        assert_eq!(said, restarted);
    }
}
