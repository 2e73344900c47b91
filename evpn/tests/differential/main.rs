//! EVPN of other speakers, and what weft sends on of it, beside tshark and a second decoder. The other half of
//! `bgp/tests/differential`, with the family that only this crate knows.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]
#![allow(dead_code, reason = "the other half uses more of it")]

#[path = "../../../bgp/tests/differential/capture.rs"]
mod capture;
#[path = "../../../bgp/tests/differential/emit.rs"]
mod emit;
#[path = "../../../bgp/tests/differential/second.rs"]
mod second;

use std::fmt::Write as _;

use bytes::BytesMut;
use proptest::prelude::*;
use proptest::sample::Index;

use weft_bgp::attribute::Attributes;
use weft_bgp::family::Family;
use weft_bgp::frame;
use weft_bgp::message::{DecodeContext, Message, Update};
use weft_bgp::nlri::{Nlri, decode_all};
use weft_bgp::wire::Writer;
use weft_evpn::{Route, admission};

use second::{Tally, Verdict};

fn read(octets: &[u8], ctx: &DecodeContext) -> Option<Update> {
    let mut buffer = BytesMut::from(octets);
    let frame = frame::split(&mut buffer, frame::MAX_LEN_EXTENDED).ok()??;
    match Message::decode(frame, ctx).ok()? {
        Message::Update(update) => Some(*update),
        Message::Open(_)
        | Message::Notification(_)
        | Message::Keepalive
        | Message::RouteRefresh(_) => None,
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        write!(text, "{octet:02x}").unwrap();
        text
    })
}

/// The octets of a route, which are those of the wire: what tshark names must stand there, field by field.
fn octets(route: &Route) -> Vec<u8> {
    let mut out = Writer::new();
    route.encode(&mut out);
    out.as_slice().to_vec()
}

/// A line of tshark's about one route, as octets: type, length and fields in the order of the wire.
fn spelled(line: &str) -> Vec<u8> {
    let words: Vec<_> = line.split(' ').collect();
    let of = |name: &str| {
        words
            .iter()
            .position(|word| *word == name)
            .map(|at| words[at + 1])
    };
    let digits = |text: &str| -> Vec<u8> {
        let text: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
            .collect()
    };
    let address = |text: &str| match text.parse().unwrap() {
        std::net::IpAddr::V4(address) => address.octets().to_vec(),
        std::net::IpAddr::V6(address) => address.octets().to_vec(),
    };
    let kind: u8 = of("type").unwrap().parse().unwrap();
    let mut body = digits(of("rd").unwrap());
    body.extend(of("esi").map(digits).unwrap_or_default());
    if let Some(tag) = of("tag") {
        body.extend(tag.parse::<u32>().unwrap().to_be_bytes());
    }
    if let Some(mac) = of("mac") {
        body.push(48);
        body.extend(digits(mac));
    }
    let ip = of("ip").map(address).unwrap_or_default();
    match kind {
        1 => {}
        5 => body.push(of("length").unwrap().parse().unwrap()),
        _ => body.push(u8::try_from(ip.len() * 8).unwrap()),
    }
    body.extend(ip);
    body.extend(of("gateway").map(address).unwrap_or_default());
    for (at, _) in words
        .iter()
        .enumerate()
        .filter(|(_, word)| **word == "label")
    {
        body.extend(digits(words[at + 1]));
    }
    [&[kind, u8::try_from(body.len()).unwrap()][..], &body].concat()
}

fn routes(octets: &[u8], add_path: bool) -> Vec<(u32, Route)> {
    let mut routes = Vec::new();
    decode_all::<Route>(
        octets,
        add_path,
        |id, route| routes.push((id, route)),
        |error| panic!("{error}"),
    )
    .unwrap();
    routes
}

#[test]
fn captured_routes_mean_to_weft_what_they_mean_to_tshark() {
    let mut compared = 0;
    for captured in capture::all() {
        let (Some(update), Some(said)) = (read(&captured.octets, &captured.ctx), &captured.said)
        else {
            continue;
        };
        let add_path = captured.ctx.add_path.contains(Family::L2VPN_EVPN);
        let reach = update
            .reach
            .iter()
            .map(|part| ("announce", part.family, &part.nlri));
        let unreach = update
            .unreach
            .iter()
            .map(|part| ("withdraw", part.family, &part.nlri));
        for (verb, _, nlri) in reach
            .chain(unreach)
            .filter(|part| part.1 == Family::L2VPN_EVPN)
        {
            let ours: Vec<_> = routes(nlri, add_path)
                .into_iter()
                .map(|(id, route)| (id, hex(&octets(&route))))
                .collect();
            let lines = said
                .iter()
                .filter(|line| line.starts_with(&format!("{verb} 25/70 ")));
            let id = |line: &str| {
                line.split(" id ")
                    .nth(1)
                    .map_or(0, |rest| rest.split(' ').next().unwrap().parse().unwrap())
            };
            let theirs: Vec<_> = lines.map(|line| (id(line), hex(&spelled(line)))).collect();
            assert_eq!(ours, theirs, "{}", captured.place);
            compared += ours.len();
        }
    }
    assert!(compared > 150, "{compared}");
}

/// What is ours is read by the second decoder, which writes the same again.
fn agrees(octets: &[u8], ctx: &DecodeContext) -> Result<Verdict, String> {
    let read = match second::decode(octets, ctx) {
        Ok(read) => read,
        Err(error) if second::Narrower::explain(&error, ctx).is_some() => {
            return Ok(Verdict::Excused);
        }
        Err(error) => return Err(format!("{error}: {}", hex(octets))),
    };
    let (ours, theirs) = (second::simplify(octets), second::encode(&read));
    match ours == theirs {
        true => Ok(Verdict::Compared),
        false => Err(format!("ours {}\ntheirs {}", hex(&ours), hex(&theirs))),
    }
}

/// A captured UPDATE with a few octets changed behind its header.
fn mutate(octets: &[u8], changes: &[(Index, u8, bool)]) -> Vec<u8> {
    let mut octets = octets.to_vec();
    for (at, octet, flip) in changes {
        let at = 19 + at.index(octets.len() - 19);
        octets[at] = if *flip {
            octets[at] ^ (1 << (octet % 8))
        } else {
            *octet
        };
    }
    octets
}

#[test]
fn whatever_a_peer_sends_what_weft_emits_is_accepted_by_the_second_decoder() {
    let evpn = |captured: &capture::Captured| {
        let update = read(&captured.octets, &captured.ctx);
        update
            .and_then(|update| update.reach)
            .is_some_and(|reach| reach.family == Family::L2VPN_EVPN)
    };
    let updates: Vec<_> = capture::all().into_iter().filter(evpn).collect();
    let emitted = Tally::default();
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(10_000)
    };
    let changes = proptest::collection::vec(any::<(Index, u8, bool)>(), 0..4);
    proptest!(config, |(which in any::<Index>(), changes in changes)| {
        let captured = which.get(&updates);
        let Some(update) = read(&mutate(&captured.octets, &changes), &captured.ctx) else { return Ok(()) };
        let Some(reach) = update.reach.as_ref().filter(|reach| reach.family == Family::L2VPN_EVPN) else { return Ok(()) };
        let add_path = captured.ctx.add_path.contains(reach.family);
        for key in emit::groups() {
            let mut good = emit::good::<Route>(&reach.nlri, add_path);
            let attributes = Attributes {
                next_hop: Some(reach.next_hop),
                ..update.attributes.clone()
            };
            good.retain(|route| admission::check(route, &attributes).is_ok());
            for frame in emit::emit(&good, &update, Some(reach.next_hop), captured.ctx.ibgp, &key) {
                emitted.count(agrees(&frame, &key.context()).map_err(TestCaseError::fail)?);
            }
        }
    });
    emitted.assert_mostly_compared(1_000);
}
