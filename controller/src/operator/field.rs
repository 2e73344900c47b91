//! Fields of requests that may be wrong: read, or noted with the reason why they cannot be. Knows no call.

use std::fmt::Debug;
use std::str::FromStr;

use weft_evpn::Vni;
use weft_proto::v1::Consistency;

use crate::fabric::fact::InvalidFabric;

/// Reads a text; `kind` says what it is not: "not a MAC address".
pub(super) fn text<T: FromStr>(
    field: &str,
    text: &str,
    kind: &str,
    faults: &mut InvalidFabric,
) -> Option<T> {
    noted(text.parse().ok(), field, &text, kind, faults)
}

/// Reads a VNI.
pub(super) fn vni(number: u32, faults: &mut InvalidFabric) -> Option<Vni> {
    noted(Vni::new(number), "vni", &number, "not a VNI", faults)
}

/// Reads how late an answer may be.
pub(super) fn consistency(number: i32, faults: &mut InvalidFabric) -> Consistency {
    let read = Consistency::try_from(number).ok();
    let kind = "not a consistency";
    noted(read, "consistency", &number, kind, faults).unwrap_or_default()
}

/// Notes that a value is none of its kind if it could not be read.
pub(super) fn noted<T>(
    read: Option<T>,
    field: &str,
    value: &dyn Debug,
    kind: &str,
    faults: &mut InvalidFabric,
) -> Option<T> {
    if read.is_none() {
        faults.fault(field, format_args!("{value:?} is {kind}"));
    }
    read
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_field_that_cannot_be_read_says_what_it_has_to_be() {
        let mut faults = InvalidFabric::default();
        let known: Option<IpAddr> = text("ip", "192.0.2.1", "not an address", &mut faults);
        assert_eq!(known, Some([192, 0, 2, 1].into()));
        assert!(faults.is_empty());
        assert_eq!(
            text::<IpAddr>("ip", "foo", "not an address", &mut faults),
            None
        );
        assert_eq!(vni(1 << 24, &mut faults), None);
        consistency(9, &mut faults);
        let said = "ip: \"foo\" is not an address; vni: 16777216 is not a VNI; consistency: 9 is not a consistency";
        assert_eq!(faults.to_string(), said);
    }
}
