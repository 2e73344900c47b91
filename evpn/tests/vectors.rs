//! Octets and values, both ways. Each file under `vectors` says on its first line where it comes from.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use weft_bgp::attribute::ExtendedCommunity;
use weft_bgp::nlri::{Nlri, decode_all};
use weft_bgp::rd::Rd;
use weft_bgp::wire::Writer;
use weft_evpn::route::{
    Channel, EthernetAd, EthernetAdKey, EthernetSegment, EthernetSegmentKey, InclusiveMulticast,
    InclusiveMulticastKey, IpPrefix, IpPrefixKey, Labels, Leaf, LeafKey, MacIp, MacIpKey,
    MembershipFlags, MulticastJoin, MulticastLeave, MulticastSyncKey, PmsiKey, Prefix, RegionPmsi,
    RegionPmsiKey, SelectiveMulticast, SelectiveMulticastKey, SelectivePmsi, SelectivePmsiKey,
};
use weft_evpn::{Label, Route};

struct Vector {
    place: String,
    withdrawn: bool,
    octets: Vec<u8>,
    text: String,
}

fn vectors() -> Vec<Vector> {
    // cargo runs a test in the folder of its package.
    let directory = Path::new("tests/vectors");
    let mut all = Vec::new();
    for file in fs::read_dir(directory).unwrap() {
        let file = file.unwrap().path();
        let content = fs::read_to_string(&file).unwrap();
        assert!(
            content.starts_with("# "),
            "{} has no provenance",
            file.display()
        );
        let mut lines = content
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        while let Some((number, line)) = lines.next() {
            let (verb, octets) = line.split_once(' ').unwrap();
            assert!(matches!(verb, "announce" | "withdraw"), "{verb}");
            all.push(Vector {
                place: format!("{}:{}", file.display(), number + 1),
                withdrawn: verb == "withdraw",
                octets: hex(octets),
                text: lines.next().unwrap().1.to_owned(),
            });
        }
    }
    all
}

fn hex(digits: &str) -> Vec<u8> {
    let octet = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(octet).collect()
}

fn decode(octets: &[u8]) -> Route {
    let mut routes = Vec::new();
    decode_all::<Route>(
        octets,
        false,
        |_, route| routes.push(route),
        |fault| panic!("{fault}"),
    )
    .unwrap();
    assert_eq!(routes.len(), 1);
    routes.remove(0)
}

fn label(text: &str) -> Label {
    Label(hex(text).try_into().unwrap())
}

fn labels(label: impl IntoIterator<Item = Label>) -> String {
    label.into_iter().fold(String::new(), |mut text, label| {
        write!(text, " {:06x}", label.vni().number()).unwrap();
        text
    })
}

/// The second line of a vector.
fn write(route: &Route) -> String {
    let key = route.key();
    let head = format!("RD {} {key}", key.rd());
    match route {
        Route::EthernetAd(route) => format!("{head} label{}", labels(route.label)),
        Route::MacIp(route) => {
            let both = route
                .labels
                .first()
                .into_iter()
                .chain(route.labels.second());
            format!("{head} esi {} labels{}", route.esi, labels(both))
        }
        Route::SelectiveMulticast(route) => format!("{head} flags {:02x}", route.flags.0),
        Route::MulticastJoin(route) => format!("{head} flags {:02x}", route.flags.0),
        Route::MulticastLeave(route) => {
            let reserved = u32::from_be_bytes(route.reserved);
            let (time, flags) = (route.response_time, route.flags.0);
            format!("{head} reserved {reserved:08x} time {time} flags {flags:02x}")
        }
        Route::InclusiveMulticast(_)
        | Route::EthernetSegment(_)
        | Route::RegionPmsi(_)
        | Route::SelectivePmsi(_)
        | Route::Leaf(_) => head,
        Route::Opaque(_) => panic!("{head}"),
        Route::IpPrefix(route) => {
            let gateway = route.gateway.map_or_else(
                || match route.key.prefix {
                    Prefix::V4(_) => "0.0.0.0".to_owned(),
                    Prefix::V6(_) => "::".to_owned(),
                },
                |gateway| gateway.to_string(),
            );
            let label = labels(route.label);
            format!("{head} esi {} gateway {gateway} label{label}", route.esi)
        }
    }
}

/// The route of the second line of a vector, without any octets.
fn read(text: &str) -> Route {
    let mut words = text.split(' ').skip(1);
    let rd = words.next().unwrap().parse().unwrap();
    let key = words.next().unwrap();
    let key: Vec<&str> = key[1..key.len() - 1].split("]:[").collect();
    let rest: Vec<&str> = words.collect();
    match key[0] {
        "1" => Route::EthernetAd(EthernetAd {
            key: EthernetAdKey {
                rd,
                tag: key[1].parse().unwrap(),
                esi: key[2].parse().unwrap(),
            },
            label: rest.get(1).copied().map(label),
        }),
        "2" => Route::MacIp(MacIp {
            key: MacIpKey {
                rd,
                tag: key[1].parse().unwrap(),
                mac: key[3].parse().unwrap(),
                ip: key.get(5).map(|ip| ip.parse().unwrap()),
            },
            esi: rest[1].parse().unwrap(),
            labels: match rest[3..] {
                [] => Labels::None,
                [first] => Labels::One(label(first)),
                [first, second] => Labels::Two(label(first), label(second)),
                _ => panic!("{text}"),
            },
        }),
        "3" => Route::InclusiveMulticast(InclusiveMulticast {
            key: InclusiveMulticastKey {
                rd,
                tag: key[1].parse().unwrap(),
                originator: key[3].parse().unwrap(),
            },
        }),
        "4" => Route::EthernetSegment(EthernetSegment {
            key: EthernetSegmentKey {
                rd,
                esi: key[1].parse().unwrap(),
                originator: key[3].parse().unwrap(),
            },
        }),
        "5" => Route::IpPrefix(IpPrefix {
            key: IpPrefixKey {
                rd,
                tag: key[1].parse().unwrap(),
                prefix: Prefix::new(key[3].parse().unwrap(), key[2].parse().unwrap()).unwrap(),
            },
            esi: rest[1].parse().unwrap(),
            gateway: Some(rest[3].parse().unwrap())
                .filter(|gateway: &IpAddr| !gateway.is_unspecified()),
            label: rest.get(5).copied().map(label),
        }),
        _ => read_rare(rd, &key, &rest),
    }
}

fn ip(text: &str) -> Option<IpAddr> {
    (text != "*").then(|| text.parse().unwrap())
}

fn flags(text: &str) -> MembershipFlags {
    MembershipFlags(u8::from_str_radix(text, 16).unwrap())
}

/// Types 6 to 11.
fn read_rare(rd: Rd, key: &[&str], rest: &[&str]) -> Route {
    let channel = |at: usize| Channel {
        source: ip(key[at]),
        group: ip(key[at + 2]),
    };
    let tag = |at: usize| key[at].parse().unwrap();
    let originator = key[key.len() - 1].parse();
    let sync = || MulticastSyncKey {
        rd,
        esi: key[1].parse().unwrap(),
        tag: tag(2),
        channel: channel(4),
        originator: key[8].parse().unwrap(),
    };
    match key[0] {
        "6" => {
            let key = SelectiveMulticastKey {
                rd,
                tag: tag(1),
                channel: channel(3),
                originator: originator.unwrap(),
            };
            let flags = flags(rest[1]);
            Route::SelectiveMulticast(SelectiveMulticast { key, flags }.into())
        }
        "7" => {
            let (key, flags) = (sync(), flags(rest[1]));
            Route::MulticastJoin(MulticastJoin { key, flags }.into())
        }
        "8" => {
            let route = MulticastLeave {
                key: sync(),
                reserved: hex(rest[1]).try_into().unwrap(),
                response_time: rest[3].parse().unwrap(),
                flags: flags(rest[5]),
            };
            Route::MulticastLeave(route.into())
        }
        "9" => {
            let region = ExtendedCommunity(hex(key[2]).try_into().unwrap());
            let tag = tag(1);
            let key = RegionPmsiKey { rd, tag, region };
            Route::RegionPmsi(RegionPmsi { key }.into())
        }
        "10" => {
            let key = SelectivePmsiKey {
                rd,
                tag: tag(1),
                channel: channel(3),
                originator: originator.unwrap(),
            };
            Route::SelectivePmsi(SelectivePmsi { key }.into())
        }
        "11" => {
            let of = match read(&format!("RD {rd} [{}]", key[1..key.len() - 2].join("]:["))) {
                Route::InclusiveMulticast(route) => PmsiKey::InclusiveMulticast(route.key),
                Route::RegionPmsi(route) => PmsiKey::RegionPmsi(route.key),
                Route::SelectivePmsi(route) => PmsiKey::SelectivePmsi(route.key),
                other => panic!("{other:?}"),
            };
            let originator = originator.unwrap();
            let key = LeafKey { of, originator };
            Route::Leaf(Leaf { key }.into())
        }
        other => panic!("{other}"),
    }
}

#[test]
fn octets_give_the_value() {
    let vectors = vectors();
    assert!(vectors.len() > 70, "{}", vectors.len());
    for vector in vectors {
        assert_eq!(
            write(&decode(&vector.octets)),
            vector.text,
            "{}",
            vector.place
        );
    }
}

#[test]
fn the_value_gives_the_octets() {
    for vector in vectors() {
        let mut out = Writer::new();
        read(&vector.text).encode(&mut out);
        assert_eq!(out.as_slice(), vector.octets, "{}", vector.place);
    }
}

#[test]
fn every_withdrawal_has_the_key_of_its_announcement() {
    let all = vectors();
    for withdrawn in all.iter().filter(|vector| vector.withdrawn) {
        let key = decode(&withdrawn.octets).key();
        let announced = all.iter().filter(|vector| !vector.withdrawn);
        let found = announced
            .filter(|vector| decode(&vector.octets).key() == key)
            .count();
        assert!(
            found > 0 || withdrawn.place.contains("layout.txt"),
            "{}",
            withdrawn.place
        );
    }
}

#[test]
fn weft_withdraws_octet_for_octet_as_frr_does() {
    let frr = vectors();
    let frr = frr
        .iter()
        .filter(|vector| vector.withdrawn && vector.place.contains("/frr-"));
    for vector in frr {
        let mut out = Writer::new();
        Route::encode_withdraw(&decode(&vector.octets).key(), &mut out);
        assert_eq!(out.as_slice(), vector.octets, "{}", vector.place);
    }
}
