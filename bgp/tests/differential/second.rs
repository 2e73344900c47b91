//! Another decoder, by other authors: netgauze-bgp-pkt. It knows nothing of ours.

use std::cell::Cell;
use std::collections::BTreeMap;

use netgauze_bgp_pkt::BgpMessage;
use netgauze_bgp_pkt::path_attribute::PathAttribute;
use netgauze_bgp_pkt::update::BgpUpdateMessage;
use netgauze_bgp_pkt::wire::deserializer::BgpParsingContext;
use netgauze_iana::address_family::AddressType;
use netgauze_parse_utils::WritablePdu;
use netgauze_parse_utils::reader::SliceReader;
use netgauze_parse_utils::traits::ParseFromWithOneInput;

use weft_bgp::family::Family;
use weft_bgp::message::DecodeContext;

/// What it reads in one message, all of it; or why it does not take it.
pub(crate) fn decode(octets: &[u8], ctx: &DecodeContext) -> Result<BgpMessage, String> {
    let families = [
        (Family::IPV4_UNICAST, AddressType::Ipv4Unicast),
        (Family::IPV6_UNICAST, AddressType::Ipv6Unicast),
        (Family::L2VPN_EVPN, AddressType::L2VpnBgpEvpn),
    ];
    let add_path = families.map(|(family, kind)| (kind, ctx.add_path.contains(family)));
    let mut parsing = BgpParsingContext::asn2_default();
    parsing.set_asn4(ctx.four_octet_as);
    parsing.add_path_mut().extend(add_path);
    let mut reader = SliceReader::new(octets);
    let message =
        BgpMessage::parse(&mut reader, &mut parsing).map_err(|error| error.to_string())?;
    if reader.is_empty() {
        Ok(message)
    } else {
        Err("octets left over".to_owned())
    }
}

/// The octets that it makes of what it read.
pub(crate) fn encode(message: &BgpMessage) -> Vec<u8> {
    let mut octets = Vec::new();
    message.write(&mut octets).unwrap();
    octets
}

/// The attributes of an UPDATE by their codes, values only: order and the width of lengths say nothing.
pub(crate) fn attributes(update: &BgpUpdateMessage) -> BTreeMap<u8, String> {
    let code = |attribute: &PathAttribute| {
        attribute
            .path_attribute_type()
            .map_or_else(|code| code, u8::from)
    };
    let attributes = update.path_attributes().iter();
    attributes
        .map(|attribute| (code(attribute), format!("{:?}", attribute.value())))
        .collect()
}

/// What became of a message of ours.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Read, and written again octet for octet.
    Compared,
    /// Not taken, for one of the reasons of [`Narrower`] or for a length in bits.
    Excused,
}

/// How many messages were compared, and how many excused.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    compared: Cell<u32>,
    excused: Cell<u32>,
}

impl Tally {
    pub(crate) fn count(&self, verdict: Verdict) {
        let count = match verdict {
            Verdict::Compared => &self.compared,
            Verdict::Excused => &self.excused,
        };
        count.set(count.get() + 1);
    }

    /// Panics unless at least so many were compared, and more than were excused.
    pub(crate) fn assert_mostly_compared(&self, least: u32) {
        let (compared, excused) = (self.compared.get(), self.excused.get());
        assert!(
            compared >= least && compared > excused,
            "compared {compared}, excused {excused}"
        );
    }
}

/// What weft takes and the second decoder does not.
#[derive(Debug, PartialEq)]
pub(crate) enum Narrower {
    /// A prefix of class D or E, or of ff00::/8, in a unicast family. RFC 4271 §6.3 would have it ignored, not
    /// the message refused; learning ignores those of multicast.
    NotUnicast,
    /// A route distinguisher of another type than 0, 1 and 2. RFC 4364 §4.2 leaves the others open; weft relays its
    /// eight octets.
    RdType,
    /// An EVPN route of type 6 or above. RFC 7606 §5.4 would have it ignored, not the message refused.
    RouteType,
    /// Segments of a confederation in AS_PATH, between speakers of one AS, where RFC 5065 §4 has them.
    Confederation,
}

impl Narrower {
    /// Which one this error is about.
    pub(crate) fn explain(error: &str, ctx: &DecodeContext) -> Option<Self> {
        let confederation = ["AS_PATH segment type 3", "AS_PATH segment type 4"];
        if error.contains("unicast network") {
            Some(Self::NotUnicast)
        } else if error.contains("unknown route distinguisher type") {
            Some(Self::RdType)
        } else if error.contains("unknown L2 EVPN route type") {
            Some(Self::RouteType)
        } else if ctx.ibgp && confederation.iter().any(|text| error.contains(text)) {
            Some(Self::Confederation)
        } else {
            None
        }
    }
}

/// Makes of `octets` what the second decoder would have written: see [`REWRITTEN`].
pub(crate) fn simplify(octets: &[u8]) -> Vec<u8> {
    let mut octets = octets.to_vec();
    if octets[18] != 2 {
        return octets;
    }
    let mut at = 23 + usize::from(u16::from_be_bytes([octets[19], octets[20]]));
    let end = at + usize::from(u16::from_be_bytes([octets[at - 2], octets[at - 1]]));
    while at < end {
        let long = octets[at] & 0x10 != 0;
        let length = match long {
            true => usize::from(u16::from_be_bytes([octets[at + 2], octets[at + 3]])),
            false => octets[at + 2].into(),
        };
        let start = at + if long { 4 } else { 3 };
        if octets[at + 1] == 16 {
            let communities = octets[start..start + length].chunks_exact_mut(8);
            communities.for_each(rewrite);
        }
        at = start + length;
    }
    octets
}

fn rewrite(community: &mut [u8]) {
    for (from, to, meaning) in REWRITTEN {
        if community[..2] == from {
            community[..2].copy_from_slice(&to);
            community[2..]
                .iter_mut()
                .zip(meaning)
                .for_each(|(octet, mask)| *octet &= mask);
            return;
        }
    }
}

/// Extended communities that the second decoder does not give back as they came: type and subtype, what it writes
/// for them, and the bits of the value that it keeps. The others are reserved, and RFC 4360 §6 has a speaker pass on
/// what it received; weft relays all eight octets.
const REWRITTEN: [([u8; 2], [u8; 2], [u8; 6]); 7] = [
    // Subtype 9, as a route target: its mistake.
    ([0x00, 0x09], [0x00, 0x02], [0xff; 6]),
    ([0x02, 0x09], [0x02, 0x02], [0xff; 6]),
    (
        [0x03, 0x09],
        [0x03, 0x09],
        [0x80, 0, 0xff, 0xff, 0xff, 0xff],
    ),
    // Default gateway, RFC 7432 §7.8.
    ([0x03, 0x0d], [0x03, 0x0d], [0; 6]),
    // MAC mobility, RFC 7432 §7.7.
    (
        [0x06, 0x00],
        [0x06, 0x00],
        [0xff, 0, 0xff, 0xff, 0xff, 0xff],
    ),
    // ESI label, RFC 7432 §7.5.
    ([0x06, 0x01], [0x06, 0x01], [0xff, 0, 0, 0xff, 0xff, 0xff]),
    // Layer 2 attributes, RFC 8214 §3.1.
    ([0x06, 0x04], [0x06, 0x04], [0xff, 0xff, 0xff, 0xff, 0, 0]),
];
