//! Address families as the API writes them. Knows no call.

use weft_bgp::family::Family;
use weft_proto::v1::AddressFamily;

use crate::fabric::fact::InvalidFabric;

/// The family as the API writes it; UNSPECIFIED for one that weft does not carry.
pub(super) fn to_message(family: Family) -> AddressFamily {
    match family {
        Family::IPV4_UNICAST => AddressFamily::Ipv4Unicast,
        Family::IPV6_UNICAST => AddressFamily::Ipv6Unicast,
        Family::L2VPN_EVPN => AddressFamily::L2vpnEvpn,
        Family::RTC => AddressFamily::RouteTargetMembership,
        _ => AddressFamily::Unspecified,
    }
}

/// Reads a family; `default` if none is named. There may be no such family.
pub(super) fn read(
    field: &str,
    family: i32,
    default: Option<Family>,
    faults: &mut InvalidFabric,
) -> Option<Family> {
    let read = match AddressFamily::try_from(family) {
        Ok(AddressFamily::Ipv4Unicast) => Some(Family::IPV4_UNICAST),
        Ok(AddressFamily::Ipv6Unicast) => Some(Family::IPV6_UNICAST),
        Ok(AddressFamily::L2vpnEvpn) => Some(Family::L2VPN_EVPN),
        Ok(AddressFamily::RouteTargetMembership) => Some(Family::RTC),
        Ok(AddressFamily::Unspecified) => default,
        Err(_) => None,
    };
    if read.is_none() {
        faults.fault(field, format_args!("{family} is not a family"));
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::FAMILIES;

    #[test]
    fn every_family_that_is_carried_has_a_number() {
        let of = |number, default| {
            let mut faults = InvalidFabric::default();
            read("family", number, default, &mut faults).ok_or(faults)
        };
        for family in FAMILIES {
            let number = to_message(family).into();
            assert_eq!(of(number, None), Ok(family));
        }
        assert!(of(0, None).is_err());
        assert!(of(5, Some(Family::RTC)).is_err());
        assert_eq!(of(0, Some(Family::RTC)), Ok(Family::RTC));
    }
}
