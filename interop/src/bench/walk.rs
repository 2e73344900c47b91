//! A walk over an UPDATE to its EVPN type-2 routes, and nothing else: forty million routes pass here in
//! one run, so it copies nothing and looks at no attribute that it does not need.

/// The routes of one UPDATE, as octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Routes<'a> {
    pub(crate) next_hop: &'a [u8],
    pub(crate) announced: &'a [u8],
    pub(crate) withdrawn: &'a [u8],
}

/// One type-2 NLRI with an IPv4 address and one label, without its type and length.
///
/// ```text
/// +--- 8 ---+-- 10 --+-- 4 --+-- 1 --+-- 6 --+-- 1 --+--- 4 ---+--- 3 ---+
/// |   RD    |  ESI   |  tag  |  48   |  MAC  |  32   |  IPv4   |  label  |
/// +---------+--------+-------+-------+-------+-------+---------+---------+
/// ```
pub(crate) type MacIp = [u8; 37];

/// The EVPN routes in the body of an UPDATE; `None` where its framing is broken or it carries routes of
/// another family. RFC 4271 §4.3, RFC 4760 §3 and §4.
pub(crate) fn routes(body: &[u8]) -> Option<Routes<'_>> {
    let (withdrawn, rest) = counted(body)?;
    let (mut attributes, classic) = counted(rest)?;
    if !withdrawn.is_empty() || !classic.is_empty() {
        return None;
    }
    let mut routes = Routes::default();
    while let [flags, code, rest @ ..] = attributes {
        let (value, rest) = if flags & EXTENDED_LENGTH == 0 {
            let (&length, rest) = rest.split_first()?;
            rest.split_at_checked(length.into())?
        } else {
            counted(rest)?
        };
        match *code {
            MP_REACH_NLRI => {
                let (&length, rest) = value.strip_prefix(&EVPN)?.split_first()?;
                let (next_hop, rest) = rest.split_at_checked(length.into())?;
                routes.next_hop = next_hop;
                routes.announced = rest.get(1..)?;
            }
            MP_UNREACH_NLRI => routes.withdrawn = value.strip_prefix(&EVPN)?,
            _ => {}
        }
        attributes = rest;
    }
    attributes.is_empty().then_some(routes)
}

/// The next route and what follows it; `None` if it is not of the one form that the load has.
pub(crate) fn mac_ip(nlri: &[u8]) -> Option<(&MacIp, &[u8])> {
    nlri.strip_prefix(&MAC_IP)?.split_first_chunk()
}

/// A field behind its two octets of length.
fn counted(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = octets.split_first_chunk()?;
    rest.split_at_checked(u16::from_be_bytes(*length).into())
}

/// AFI 25, SAFI 70. RFC 7432 §7.
const EVPN: [u8; 3] = [0, 25, 70];

/// Type 2, 37 octets.
const MAC_IP: [u8; 2] = [2, 37];

const EXTENDED_LENGTH: u8 = 0x10;
const MP_REACH_NLRI: u8 = 14;
const MP_UNREACH_NLRI: u8 = 15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::load::Load;

    const HEADER_LEN: usize = 19;

    #[test]
    fn every_route_of_an_announcement_is_found() {
        let load = Load::new(2, 400, 10).unwrap();
        let octets = load.announcement(20, 20);
        let routes = routes(&octets[HEADER_LEN..]).unwrap();
        assert_eq!(routes.next_hop, [10, 99, 0, 1]);
        assert!(routes.withdrawn.is_empty());
        let mut rest = routes.announced;
        let mut count = 0;
        while let Some((_, after)) = mac_ip(rest) {
            rest = after;
            count += 1;
        }
        assert!(rest.is_empty());
        assert_eq!(count, 20);
    }

    #[test]
    fn a_withdrawal_is_found() {
        let load = Load::new(2, 400, 10).unwrap();
        let octets = load.withdrawal(load.extra(0));
        let routes = routes(&octets[HEADER_LEN..]).unwrap();
        assert!(routes.announced.is_empty());
        assert!(mac_ip(routes.withdrawn).unwrap().1.is_empty());
    }

    #[test]
    fn a_body_cut_short_is_no_update() {
        let load = Load::new(2, 400, 10).unwrap();
        let octets = load.announcement(0, 1);
        let body = &octets[HEADER_LEN..];
        assert!((0..body.len()).all(|length| routes(&body[..length]).is_none()));
    }
}
