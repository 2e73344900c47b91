//! A stream of messages: the first octet is what was negotiated, the rest is read as from a socket.
//! No octets make a decoder panic, and what it takes without a fault encodes canonically.

#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;

use weft_bgp::capability::AddPathSet;
use weft_bgp::family::Family;
use weft_bgp::frame;
use weft_bgp::message::{DecodeContext, Message, Update};
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::nlri::decode_all;

/// Re-encoding may be longer than what came, so the longest messages are only decoded.
const ENCODE_MAX: usize = 60_000;

fuzz_target!(|octets: &[u8]| {
    let Some((&flags, stream)) = octets.split_first() else { return };
    let ctx = DecodeContext {
        four_octet_as: flags & 1 != 0,
        ibgp: flags & 2 != 0,
        extended_message: flags & 4 != 0,
        add_path: AddPathSet::of((flags & 8 != 0).then_some(Family::IPV4_UNICAST)),
    };
    let max_len = if ctx.extended_message { frame::MAX_LEN_EXTENDED } else { frame::MAX_LEN };
    let mut buffer = BytesMut::from(stream);
    while let Ok(Some(frame)) = frame::split(&mut buffer, max_len) {
        let short = frame.body.len() < ENCODE_MAX;
        match Message::decode(frame, &ctx) {
            Ok(message) if short => canonical(message, &ctx),
            Ok(_) => {}
            Err(error) => {
                let _ = (error.to_string(), error.fault.notification());
            }
        }
    }
});

fn canonical(mut message: Message, ctx: &DecodeContext) {
    if let Message::Update(update) = &mut message {
        nlri(update, ctx.add_path.contains(Family::IPV4_UNICAST));
        assert_eq!(update.treatment.is_none(), update.faults.is_empty());
        if update.treatment.is_some() {
            return;
        }
        update.attributes.unknown.clear();
    }
    let octets = message.encode(ctx);
    let mut buffer = BytesMut::from(&octets[..]);
    let frame = frame::split(&mut buffer, frame::MAX_LEN_EXTENDED)
        .expect("what we encode has a good header")
        .expect("what we encode is complete");
    let decoded = Message::decode(frame, ctx).expect("what we encode is valid");
    assert_eq!(decoded, message);
    assert_eq!(decoded.encode(ctx), octets);
}

fn nlri(update: &Update, add_path: bool) {
    let reach = update.reach.iter().map(|reach| (reach.family, &reach.nlri));
    let unreach = update.unreach.iter().map(|unreach| (unreach.family, &unreach.nlri));
    for (family, nlri) in reach.chain(unreach) {
        let _ = match family {
            Family::IPV4_UNICAST => decode_all::<Prefix4>(nlri, add_path, |_, _| (), drop),
            Family::IPV6_UNICAST => decode_all::<Prefix6>(nlri, add_path, |_, _| (), drop),
            _ => Ok(()),
        };
    }
}
