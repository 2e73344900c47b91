//! weft's reading of octets beside that of others: tshark, in the captured vectors, and a second decoder.
//!
//! Where they differ, [`Disagreement`] says who is right and by which rule.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod capture;
mod emit;
mod generate;
mod second;
mod words;

use std::cell::Cell;

use bytes::{Bytes, BytesMut};
use netgauze_bgp_pkt::BgpMessage;
use netgauze_bgp_pkt::update::BgpUpdateMessage;
use proptest::prelude::*;
use proptest::sample::Index;

use weft_bgp::capability::AddPathSet;
use weft_bgp::error::Fault;
use weft_bgp::family::Family;
use weft_bgp::frame;
use weft_bgp::message::{DecodeContext, Message, Update};
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};

use capture::Captured;
use second::{Tally, Verdict};

fn read(octets: &[u8], ctx: &DecodeContext) -> Option<Message> {
    let mut buffer = BytesMut::from(octets);
    let frame = frame::split(&mut buffer, frame::MAX_LEN_EXTENDED).ok()??;
    Message::decode(frame, ctx).ok()
}

/// Every difference that there is between weft and another reader of the same octets.
#[derive(Debug, PartialEq)]
enum Disagreement {
    /// ORIGINATOR_ID and CLUSTER_LIST of a peer in another AS: RFC 7606 §7.9 and §7.10 discard them.
    InternalOnly(u8),
    /// AS4_PATH and AS4_AGGREGATOR are merged into AS_PATH and AGGREGATOR: RFC 6793 §4.2.3.
    Merged(u8),
    /// An attribute that weft counts and drops: one that is not transitive, or beyond the bounds of a path.
    NotCarried(u8),
}

impl Disagreement {
    /// Why `line` of tshark's is missing in weft's reading, or the other way round.
    fn of_line(line: &str, message: &Message, ctx: &DecodeContext) -> Option<Self> {
        let Message::Update(update) = message else {
            return None;
        };
        let code = line.strip_prefix("attribute ")?.split(' ').next()?;
        match Self::of_attribute(code.parse().ok()?, update, ctx) {
            Some(Self::NotCarried(_)) | None => None,
            why => why,
        }
    }

    /// Why another reader sees another value of an attribute in what came than in what weft makes of it.
    fn of_attribute(code: u8, update: &Update, ctx: &DecodeContext) -> Option<Self> {
        let unexpected =
            |fault: &Fault| matches!(fault, Fault::AttributeUnexpected { code: of } if *of == code);
        let mut faults = update.faults.iter().map(|error| &error.fault);
        let mut dropped = update.attributes.unknown.iter();
        match code {
            9 | 10 if faults.any(unexpected) => Some(Self::InternalOnly(code)),
            2 | 7 | 17 | 18 if !ctx.four_octet_as => Some(Self::Merged(code)),
            _ if dropped.any(|unknown| unknown.code == code) => Some(Self::NotCarried(code)),
            _ => None,
        }
    }
}

/// What only the crate of EVPN can say.
fn of_evpn(line: &str) -> bool {
    line.starts_with("announce 25/70 ") || line.starts_with("withdraw 25/70 ")
}

#[test]
fn captured_messages_mean_to_weft_what_they_mean_to_tshark() {
    let mut compared = 0;
    for captured in capture::all() {
        let Captured {
            place,
            ctx,
            octets,
            said,
        } = &captured;
        let message = read(octets, ctx).unwrap_or_else(|| panic!("{place}"));
        let Some(said) = said else { continue };
        let ours = words::lines(&message, ctx);
        let (more, less) = (
            ours.iter().filter(|line| !said.contains(line)),
            said.iter().filter(|line| !ours.contains(line)),
        );
        for line in more.chain(less).filter(|line| !of_evpn(line)) {
            let why = Disagreement::of_line(line, &message, ctx);
            assert!(
                why.is_some(),
                "{place}: {line}\nweft: {ours:#?}\ntshark: {said:#?}"
            );
        }
        compared += 1;
    }
    assert!(compared > 300, "{compared}");
}

/// Whether a route target membership ends within an octet: RFC 4684 §4 counts bits, the second decoder octets.
fn ends_within_an_octet(octets: &[u8], ctx: &DecodeContext) -> bool {
    let Some(Message::Update(update)) = read(octets, ctx) else {
        return false;
    };
    let reach = update.reach.iter().map(|reach| (reach.family, &reach.nlri));
    let unreach = update
        .unreach
        .iter()
        .map(|unreach| (unreach.family, &unreach.nlri));
    let mut fields = reach
        .chain(unreach)
        .filter(|(family, _)| *family == Family::RTC);
    fields.any(|(_, nlri)| {
        emit::good::<Membership>(nlri, false)
            .iter()
            .any(|it| it.len % 8 != 0)
    })
}

/// `octets` are ours, and the second decoder makes of what it reads in them the same ones; or it does not take them, and
/// is known not to.
fn agrees(octets: &[u8], ctx: &DecodeContext) -> Result<Verdict, String> {
    if ends_within_an_octet(octets, ctx) {
        return Ok(Verdict::Excused);
    }
    let read = match second::decode(octets, ctx) {
        Ok(read) => read,
        Err(error) if second::Narrower::explain(&error, ctx).is_some() => {
            return Ok(Verdict::Excused);
        }
        Err(error) => return Err(format!("{error}: {}", words::hex(octets))),
    };
    let (ours, theirs) = (second::simplify(octets), second::encode(&read));
    if ours == theirs {
        return Ok(Verdict::Compared);
    }
    let same = |(ours, theirs): &(&u8, &u8)| ours == theirs;
    let at = ours.iter().zip(&theirs).take_while(same).count();
    let around = |all: &[u8]| words::hex(&all[at.saturating_sub(12)..(at + 12).min(all.len())]);
    let (ours, theirs) = (around(&ours), around(&theirs));
    Err(format!("at {at}: ours {ours}, theirs {theirs}"))
}

#[test]
fn what_weft_encodes_the_second_decoder_reads_and_writes_alike() {
    let tally = Tally::default();
    for captured in capture::all() {
        let octets = read(&captured.octets, &captured.ctx)
            .unwrap()
            .encode(&captured.ctx);
        let verdict = agrees(&octets, &captured.ctx);
        tally.count(verdict.unwrap_or_else(|error| panic!("{}: {error}", captured.place)));
    }
    tally.assert_mostly_compared(300);
}

#[test]
fn the_second_decoder_reads_in_captured_octets_what_it_reads_in_ours() {
    for captured in capture::all() {
        let Captured {
            place, ctx, octets, ..
        } = &captured;
        let message = read(octets, ctx).unwrap();
        let foreign =
            second::decode(octets, ctx).unwrap_or_else(|error| panic!("{place}: {error}"));
        let own = second::decode(&message.encode(ctx), ctx).unwrap();
        let (foreign, own) = match (&foreign, &own) {
            (BgpMessage::Update(foreign), BgpMessage::Update(own)) => (foreign, own),
            (BgpMessage::Open(foreign), BgpMessage::Open(own)) => {
                // However they are spread over optional parameters. RFC 5492 §4.
                assert_eq!(foreign.capabilities(), own.capabilities(), "{place}");
                continue;
            }
            _ => {
                assert_eq!(foreign, own, "{place}");
                continue;
            }
        };
        let routes =
            |update: &BgpUpdateMessage| (update.nlri().to_vec(), update.withdraw_routes().to_vec());
        assert_eq!(routes(foreign), routes(own), "{place}");
        let (foreign, own) = (second::attributes(foreign), second::attributes(own));
        let Message::Update(update) = &message else {
            panic!("{place}")
        };
        for code in (0..=u8::MAX).filter(|code| foreign.get(code) != own.get(code)) {
            let why = Disagreement::of_attribute(code, update, ctx);
            let (foreign, own) = (foreign.get(&code), own.get(&code));
            assert!(
                why.is_some(),
                "{place}: {code}: {foreign:?}, of ours {own:?}"
            );
        }
    }
}

/// What a session would have for the octets; the families of this crate.
fn told(update: &Update, ctx: &DecodeContext) -> Vec<(Bytes, DecodeContext)> {
    let mut all = Vec::new();
    for key in emit::groups() {
        let hop = update.attributes.next_hop;
        let classic: Vec<_> = update.announced.iter().map(|(_, prefix)| *prefix).collect();
        let mut frames = emit::emit::<Prefix4>(&classic, update, hop, ctx.ibgp, &key);
        if let Some(reach) = &update.reach {
            let (add_path, hop) = (ctx.add_path.contains(reach.family), Some(reach.next_hop));
            let nlri = &reach.nlri;
            frames.extend(match reach.family {
                Family::IPV4_UNICAST => {
                    emit::emit::<Prefix4>(&emit::good(nlri, add_path), update, hop, ctx.ibgp, &key)
                }
                Family::IPV6_UNICAST => {
                    emit::emit::<Prefix6>(&emit::good(nlri, add_path), update, hop, ctx.ibgp, &key)
                }
                Family::RTC => emit::emit::<Membership>(
                    &emit::good(nlri, add_path),
                    update,
                    hop,
                    ctx.ibgp,
                    &key,
                ),
                _ => Vec::new(),
            });
        }
        all.extend(frames.into_iter().map(|octets| (octets, key.context())));
    }
    all
}

fn contexts() -> impl Strategy<Value = DecodeContext> {
    any::<(bool, bool)>().prop_map(|(four_octet_as, add_path)| DecodeContext {
        four_octet_as,
        ibgp: true,
        extended_message: true,
        add_path: match add_path {
            true => AddPathSet::of([
                Family::IPV4_UNICAST,
                Family::IPV6_UNICAST,
                Family::L2VPN_EVPN,
            ]),
            false => AddPathSet::NONE,
        },
    })
}

#[test]
fn generated_updates_are_read_and_written_alike() {
    let tally = Tally::default();
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2_000)
    };
    let generated =
        contexts().prop_flat_map(|ctx| (Just(ctx), generate::update(!ctx.add_path.is_empty())));
    proptest!(config, |((ctx, update) in generated)| {
        let octets = Message::Update(Box::new(update)).encode(&ctx);
        tally.count(agrees(&octets, &ctx).map_err(TestCaseError::fail)?);
    });
    tally.assert_mostly_compared(1_500);
}

/// A captured UPDATE with a few octets changed, taken out or put in behind its header.
fn mutate(octets: &[u8], changes: &[(Index, u8, u8)]) -> Vec<u8> {
    let mut octets = octets.to_vec();
    for (at, how, octet) in changes {
        let at = 19 + at.index(octets.len() - 19);
        match how % 4 {
            0 | 1 => octets[at] = *octet,
            2 => octets[at] = octets[at].wrapping_add(1),
            _ => octets[at] ^= 1 << (octet % 8),
        }
    }
    octets
}

#[test]
fn whatever_a_peer_sends_what_weft_emits_is_accepted_by_the_second_decoder() {
    let updates: Vec<_> = capture::all()
        .into_iter()
        .filter(|captured| captured.octets[18] == 2 && captured.octets.len() > 23)
        .collect();
    let (accepted, emitted) = (Cell::new(0_u32), Tally::default());
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(60_000)
    };
    let changes = proptest::collection::vec(any::<(Index, u8, u8)>(), 0..4);
    proptest!(config, |(which in any::<Index>(), changes in changes)| {
        let captured = which.get(&updates);
        let octets = mutate(&captured.octets, &changes);
        let Some(Message::Update(update)) = read(&octets, &captured.ctx) else { return Ok(()) };
        accepted.set(accepted.get() + 1);
        for (frame, ctx) in told(&update, &captured.ctx) {
            emitted.count(agrees(&frame, &ctx).map_err(TestCaseError::fail)?);
        }
    });
    assert!(accepted.get() > 1000, "{accepted:?}");
    emitted.assert_mostly_compared(1_000);
}
