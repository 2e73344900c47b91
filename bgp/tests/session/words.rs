//! Sessions, inputs and outputs as short words, both ways.

use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_bgp::capability::{Capability, GracefulRestart};
use weft_bgp::family::Family;
use weft_bgp::message::{Message, Notification, Open, RouteRefresh, Update};
use weft_bgp::peer::RouterId;
use weft_bgp::session::{Negotiated, Output, RemoteAsn, Session, SessionConfig, Side};

const FAMILIES: [Family; 4] = [
    Family::IPV4_UNICAST,
    Family::IPV6_UNICAST,
    Family::L2VPN_EVPN,
    Family::RTC,
];

/// Our AS and the peer's, unless a test says otherwise. RFC 5398.
pub(crate) const ASN: u32 = 64_496;

/// The origin of virtual time.
#[expect(
    clippy::disallowed_methods,
    reason = "an Instant comes from nowhere else"
)]
pub(crate) fn epoch() -> Instant {
    Instant::now()
}

/// 192.0.2.`host`, RFC 5737.
pub(crate) fn router_id(host: u8) -> RouterId {
    RouterId(0xc000_0200 + u32::from(host))
}

/// 192.0.2.1 with a hold time of 90 s.
pub(crate) fn config() -> SessionConfig {
    SessionConfig {
        hold: Duration::from_secs(90),
        ..SessionConfig::new(ASN, router_id(1), RemoteAsn::Exactly(ASN))
    }
}

/// An OPEN as FRR would send it.
pub(crate) fn open(asn: u32, router_id: RouterId, hold_secs: u16, families: &[Family]) -> Open {
    let mut capabilities: Vec<_> = families
        .iter()
        .copied()
        .map(Capability::MultiProtocol)
        .collect();
    capabilities.extend([Capability::RouteRefresh, Capability::FourOctetAs(asn)]);
    Open {
        asn,
        hold_secs,
        router_id,
        capabilities,
    }
}

/// The OPEN of 192.0.2.2, which a session of `config()` accepts.
pub(crate) fn good_open() -> Message {
    Message::Open(open(ASN, router_id(2), 90, &[Family::L2VPN_EVPN]))
}

/// The same of a peer that keeps its EVPN routes over a restart.
pub(crate) fn restarting_open() -> Message {
    let mut open = open(ASN, router_id(2), 90, &[Family::L2VPN_EVPN]);
    let restart = GracefulRestart {
        restart_secs: 90,
        families: vec![(Family::L2VPN_EVPN, true)],
        ..GracefulRestart::default()
    };
    open.capabilities.push(Capability::GracefulRestart(restart));
    Message::Open(open)
}

/// An UPDATE: the end of the EVPN routes.
pub(crate) fn update() -> Message {
    Message::Update(Box::new(Update::end_of_rib(Family::L2VPN_EVPN)))
}

/// A request for the EVPN routes.
pub(crate) fn refresh() -> Message {
    Message::RouteRefresh(RouteRefresh::request(Family::L2VPN_EVPN))
}

/// A NOTIFICATION without data.
pub(crate) fn notification(code: u8, subcode: u8) -> Message {
    Message::Notification(Notification {
        code,
        subcode,
        data: Bytes::new(),
    })
}

/// All outputs.
pub(crate) fn drain(session: &mut Session) -> Vec<Output> {
    std::iter::from_fn(|| session.poll_output()).collect()
}

/// "out" or "in".
pub(crate) fn side(side: Side) -> &'static str {
    match side {
        Side::Outgoing => "out",
        Side::Incoming => "in",
    }
}

/// One line.
pub(crate) fn output(output: &Output, session: &Session) -> String {
    match output {
        Output::Connect => "connect".into(),
        Output::Send(on, message) => format!("send {} {}", side(*on), self::message(message)),
        Output::Close(on) => format!("close {}", side(*on)),
        Output::Established(on, negotiated) => format!(
            "established {} with {} hold={}s keepalive={}s families={:?} max_len={}{}",
            side(*on),
            negotiated.peer,
            negotiated.hold.as_secs(),
            negotiated.keepalive.as_secs(),
            negotiated.families,
            negotiated.max_len,
            extras(negotiated),
        ),
        Output::Learn(update) => match update.is_end_of_rib() {
            Some(family) => format!("learn end of {family}"),
            None => "learn UPDATE".into(),
        },
        Output::Refresh(refresh) => format!("refresh {}/{}", refresh.family, refresh.subtype),
        Output::Down(reason) => format!("idle because {reason}"),
        Output::Refuse(on) => {
            format!("refuse {} {}", side(*on), session.refusal().notification())
        }
    }
}

/// What few sessions agree on.
fn extras(negotiated: &Negotiated) -> String {
    let mut text = String::new();
    for (name, set) in [
        ("receives", negotiated.add_path_receive),
        ("sends", negotiated.add_path_send),
    ] {
        let families = FAMILIES.iter().filter(|family| set.contains(**family));
        let families: Vec<_> = families.map(ToString::to_string).collect();
        if !families.is_empty() {
            text += &format!(" {name} path ids of {}", families.join(","));
        }
    }
    if let Some(restart) = &negotiated.graceful_restart {
        let GracefulRestart {
            restarted,
            notification: _,
            restart_secs,
            families,
        } = restart;
        text += &format!(" restart={restart_secs}s of {families:?}");
        text += if *restarted { " restarted" } else { "" };
    }
    if negotiated.restart_after_notification {
        text += " restart after notification";
    }
    for long_lived in &negotiated.long_lived {
        text += &format!(" stale {} {}s", long_lived.family, long_lived.stale_secs);
    }
    text
}

fn message(message: &Message) -> String {
    match message {
        Message::Open(open) => format!(
            "OPEN as={} id={} hold={} capabilities={}",
            open.asn,
            open.router_id,
            open.hold_secs,
            open.capabilities.len()
        ),
        Message::Notification(notification) => {
            let Notification {
                code,
                subcode,
                data,
            } = notification;
            let text = format!("NOTIFICATION {code}/{subcode} {notification}");
            if data.is_empty() {
                text
            } else {
                format!("{text} {data:?}")
            }
        }
        Message::Update(_) | Message::Keepalive | Message::RouteRefresh(_) => {
            message.kind().to_string()
        }
    }
}
