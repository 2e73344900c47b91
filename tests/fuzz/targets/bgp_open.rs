//! The OPEN of a peer, as its body: what is taken encodes canonically, and a session that gets it either
//! agrees within its own offer or says why not.

#![no_main]

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;

use weft_bgp::capability::{AddPath, AddPathSet, GracefulRestart, LongLived};
use weft_bgp::family::Family;
use weft_bgp::frame::{self, Frame};
use weft_bgp::message::{DecodeContext, Message, MessageKind};
use weft_bgp::peer::RouterId;
use weft_bgp::session::{Input, Negotiated, Output, RemoteAsn, Session, SessionConfig, Side};

const FAMILIES: [Family; 4] =
    [Family::L2VPN_EVPN, Family::IPV4_UNICAST, Family::IPV6_UNICAST, Family::RTC];

fuzz_target!(|octets: &[u8]| {
    let Some((&flags, body)) = octets.split_first() else { return };
    let frame = Frame { kind: MessageKind::Open, body: Bytes::copy_from_slice(body) };
    let message = match Message::decode(frame, &BEFORE) {
        Ok(message) => message,
        Err(error) => {
            let _ = (error.to_string(), error.fault.notification());
            return;
        }
    };
    canonical(&message);
    negotiate(config(flags), message);
});

fn canonical(message: &Message) {
    let octets = message.encode(&BEFORE);
    let mut buffer = BytesMut::from(&octets[..]);
    // A list of capabilities may be longer than an OPEN can be without RFC 8654: it came from no frame.
    let Ok(Some(frame)) = frame::split(&mut buffer, frame::MAX_LEN_EXTENDED) else { return };
    let again = Message::decode(frame, &BEFORE).expect("what we encode is valid");
    assert_eq!(again.encode(&BEFORE), octets);
    assert_eq!(&again, message);
}

fn negotiate(config: SessionConfig, open: Message) {
    #[expect(clippy::disallowed_methods, reason = "an Instant comes from nowhere else")]
    let now = Instant::now();
    let mut session = Session::new(config.clone());
    let mut outputs = Vec::new();
    let inputs = [
        Input::Start,
        Input::Connected(Side::Incoming),
        Input::Message(Side::Incoming, open),
        Input::Message(Side::Incoming, Message::Keepalive),
    ];
    for input in inputs {
        session.handle(input, now);
        outputs.extend(std::iter::from_fn(|| session.poll_output()));
    }
    let up = outputs.iter().find_map(|output| match output {
        Output::Established(_, negotiated) => Some(negotiated),
        _ => None,
    });
    match up {
        Some(negotiated) => within_the_offer(&config, negotiated),
        None => assert!(outputs.iter().any(|output| matches!(
            output,
            Output::Send(_, Message::Notification(_)) | Output::Close(_)
        ))),
    }
}

fn within_the_offer(config: &SessionConfig, agreed: &Negotiated) {
    assert!(!agreed.families.is_empty());
    assert!(agreed.families.iter().all(|family| config.families.contains(family)));
    assert!(agreed.hold <= config.hold);
    assert!(agreed.hold.is_zero() || agreed.hold.as_secs() >= 3);
    assert!(config.extended_message || !agreed.decode.extended_message);
    for family in FAMILIES {
        let of = |set: AddPathSet| set.contains(family);
        let offer = config.add_path.iter().find(|offer| offer.family == family);
        assert!(!of(agreed.add_path_receive) || offer.is_some_and(|offer| offer.receive));
        assert!(!of(agreed.add_path_send) || offer.is_some_and(|offer| offer.send));
    }
}

fn config(flags: u8) -> SessionConfig {
    let on = |bit: u8| flags & (1 << bit) != 0;
    let all = |family| AddPath { family, receive: on(2), send: on(3) };
    let long = |family| LongLived { family, forwarding: on(1), stale_secs: 3600 };
    SessionConfig {
        families: FAMILIES[..if on(0) { 4 } else { 1 }].to_vec(),
        passive: true,
        extended_message: on(1),
        add_path: if on(2) || on(3) { FAMILIES[..3].iter().copied().map(all).collect() } else { Vec::new() },
        graceful_restart: on(4).then(GracefulRestart::default),
        long_lived: if on(4) && on(5) { FAMILIES[..3].iter().copied().map(long).collect() } else { Vec::new() },
        ..SessionConfig::new(64_496, RouterId(0xc000_0201), RemoteAsn::Any)
    }
}

const BEFORE: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: false,
    extended_message: false,
    add_path: AddPathSet::NONE,
};
