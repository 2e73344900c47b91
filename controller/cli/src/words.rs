//! What messages say in numbers, in the words that people read: families, enums, ages. Knows no noun.

use std::time;

use prost_types::{Duration, Timestamp};
use weft_proto::v1::{AddressFamily, ResponseHeader, Staleness};

/// A value of an enum without what all of them begin with: `SWITCH_AGENT_STATE_IN_SYNC` as `in-sync`.
pub(crate) fn word(name: &str, prefix: &str) -> String {
    let word = name.strip_prefix(prefix).unwrap_or(name);
    word.to_ascii_lowercase().replace('_', "-")
}

/// A family by its name.
pub(crate) fn family(family: AddressFamily) -> String {
    let name = FAMILIES.iter().find(|(it, _)| *it == family);
    name.map_or_else(|| "unknown".to_owned(), |(_, name)| (*name).to_owned())
}

/// Reads the name of a family.
pub(crate) fn read_family(name: &str) -> Result<AddressFamily, String> {
    let family = FAMILIES.iter().find(|(_, it)| *it == name);
    family
        .map(|(family, _)| *family)
        .ok_or_else(|| format!("{name:?} is not carried"))
}

const FAMILIES: [(AddressFamily, &str); 4] = [
    (AddressFamily::L2vpnEvpn, "l2vpn-evpn"),
    (AddressFamily::Ipv4Unicast, "ipv4-unicast"),
    (AddressFamily::Ipv6Unicast, "ipv6-unicast"),
    (AddressFamily::RouteTargetMembership, "rtc"),
];

/// Reads a MAC address in one of its three notations: `00:00:5e:00:53:01`, `00-00-5e-00-53-01` or `0000.5e00.5301`. Returns the first
/// of them; None: the text is no MAC address.
pub(crate) fn mac(text: &str) -> Option<String> {
    let (separator, width) = match text.find([':', '-', '.']) {
        Some(2) if text.contains('-') => ('-', 2),
        Some(2) => (':', 2),
        Some(4) => ('.', 4),
        _ => return None,
    };
    let groups = text.split(separator);
    let is_group =
        |group: &str| group.len() == width && group.bytes().all(|it| it.is_ascii_hexdigit());
    if groups.clone().count() != 12 / width || !groups.clone().all(is_group) {
        return None;
    }
    let digits = groups.collect::<String>().to_ascii_lowercase();
    let pairs: Vec<&str> = (0..6).map(|at| &digits[2 * at..2 * at + 2]).collect();
    Some(pairs.join(":"))
}

/// Nothing, `stale`, or `long-lived stale`.
pub(crate) fn stale(staleness: Staleness) -> &'static str {
    match staleness {
        Staleness::Stale => "stale",
        Staleness::LongLivedStale => "long-lived stale",
        Staleness::Fresh | Staleness::Unspecified => "",
    }
}

/// The replica's time when it answered: ages are counted from it, whatever the clock here says.
pub(crate) fn answered(header: Option<&ResponseHeader>) -> Option<Timestamp> {
    header.and_then(|header| header.answer_time)
}

/// Time from a moment to the answer, however far they are apart; None if either is not known.
pub(crate) fn age(answered: Option<Timestamp>, then: Option<Timestamp>) -> Option<time::Duration> {
    let (now, then) = (answered?, then?);
    let nanos = |time: Timestamp| i128::from(time.seconds) * GIGA + i128::from(time.nanos);
    let age = (nanos(now) - nanos(then)).max(0);
    let secs = u64::try_from(age / GIGA).unwrap_or(u64::MAX);
    let nanos = u32::try_from(age % GIGA).unwrap_or(0);
    Some(time::Duration::new(secs, nanos))
}

/// Seconds in the two largest units: `4d7h`, `2h5m`, `3m12s`, `45s`.
pub(crate) fn units(secs: u64) -> String {
    let (minutes, hours, days) = (secs / 60, secs / 3_600, secs / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{secs}s"),
        (0, 0, _) => format!("{minutes}m{}s", secs % 60),
        (0, ..) => format!("{hours}h{}m", minutes % 60),
        (..) => format!("{days}d{}h", hours % 24),
    }
}

/// Whole seconds of a span.
pub(crate) fn secs(span: Option<&Duration>) -> u64 {
    span.map_or(0, |span| u64::try_from(span.seconds).unwrap_or(0))
}

/// A rate with a digit behind the point: 49.8 Mb/s.
pub(crate) fn measured(bps: Option<u64>) -> String {
    let Some(bps) = bps else {
        return "-".to_owned();
    };
    let units = [
        (1_000_000_000_000, "Tb/s"),
        (1_000_000_000, "Gb/s"),
        (1_000_000, "Mb/s"),
        (1_000, "kb/s"),
    ];
    match units.into_iter().find(|(unit, _)| bps >= *unit) {
        Some((unit, name)) => {
            let tenths = bps / (unit / 10);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bps} b/s"),
    }
}

/// A number, or what stands for one that is not known.
pub(crate) fn or_dash(number: Option<impl ToString>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

const GIGA: i128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_names_both_ways() {
        for (number, name) in FAMILIES {
            assert_eq!(read_family(name), Ok(number));
            assert_eq!(family(number), name);
        }
        assert!(read_family("vpnv4").is_err());
    }

    #[test]
    fn a_mac_address_has_three_notations() {
        for text in ["00:00:5e:00:53:0A", "00-00-5E-00-53-0a", "0000.5e00.530a"] {
            assert_eq!(mac(text).as_deref(), Some("00:00:5e:00:53:0a"), "{text}");
        }
        for text in [
            "",
            "00:00:5e:00:53",
            "00:00:5e:00:53:0a:01",
            "00:00-5e:00:53:0a",
            "0000.5e00",
            "0000.5e00.53é",
            "2001:db8::/32",
            "192.0.2.0/24",
            "64496:RT:1",
            "[3]:[0]:[32]:[192.0.2.1]",
        ] {
            assert_eq!(mac(text), None, "{text}");
        }
    }

    #[test]
    fn an_age_is_what_the_replica_says() {
        let at = |seconds, nanos| Some(Timestamp { seconds, nanos });
        let millis = |millis| Some(time::Duration::from_millis(millis));
        assert_eq!(age(at(10, 0), at(7, 500_000_000)), millis(2_500));
        assert_eq!(age(at(10, 0), at(11, 0)), millis(0));
        assert_eq!(age(None, at(7, 0)), None);
        let wild = age(at(i64::MAX, i32::MAX), at(i64::MIN, i32::MIN));
        assert_eq!(wild.map(|age| age.as_secs()), Some(u64::MAX));
    }

    #[test]
    fn a_measured_rate_is_short() {
        let table = [
            (None, "-"),
            (Some(0), "0 b/s"),
            (Some(999), "999 b/s"),
            (Some(49_876_543), "49.8 Mb/s"),
            (Some(400_000_000_000), "400.0 Gb/s"),
            (Some(3_200_000_000_000), "3.2 Tb/s"),
        ];
        for (bps, text) in table {
            assert_eq!(measured(bps), text);
        }
    }

    #[test]
    fn ages_have_two_units() {
        for (secs, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m0s"),
            (7_500, "2h5m"),
            (370_800, "4d7h"),
        ] {
            assert_eq!(units(secs), text);
        }
    }

    #[test]
    fn a_word_is_what_is_left_of_a_name() {
        assert_eq!(word("BALANCE_MODE_ON", "BALANCE_MODE_"), "on");
        assert_eq!(word("STATE_IN_SYNC", "STATE_"), "in-sync");
    }
}
