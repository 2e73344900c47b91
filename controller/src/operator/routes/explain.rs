//! One destination in full: the step that put each path behind the best one, and to which peers of this replica it is
//! advertised, or why not. Knows tables and reports.

use std::net::IpAddr;

use weft_bgp::decision;
use weft_bgp::reflect::{Local, NotReflected, PathsTold};
use weft_bgp::table::Path;
use weft_bgp::update_group::UpdateGroup;
use weft_proto::v1::{self as proto, NotAdvertisedReason};

use super::row::{self, Row};
use crate::speaker::report::Facts;

/// What this replica knows of its sessions.
pub(in crate::operator) struct Sessions<'a> {
    /// Every peer that it speaks to.
    pub(in crate::operator) reports: &'a [(IpAddr, Facts)],
    /// Who it is.
    pub(in crate::operator) local: &'a Local,
}

/// The paths of one destination, in their order.
pub(in crate::operator) fn paths<N: Row>(
    paths: &[Path<N>],
    sessions: &Sessions<'_>,
) -> Vec<proto::Path> {
    let selected = decision::select(paths);
    let went = decision::explain(paths);
    let detail = |(at, path): (usize, &Path<N>)| {
        let best = selected.as_ref().filter(|best| best.index == at);
        let behind = went.iter().find(|(place, _)| *place == at);
        let by = match best {
            Some(best) => Some(best.by),
            None => behind.map(|(_, step)| *step),
        };
        proto::Path {
            advertisements: advertisements(paths, at, sessions),
            ..row::path(path, best.is_some(), by)
        }
    };
    paths.iter().enumerate().map(detail).collect()
}

fn advertisements<N: Row>(
    paths: &[Path<N>],
    at: usize,
    sessions: &Sessions<'_>,
) -> Vec<proto::Advertisement> {
    let established = sessions.reports.iter();
    let established = established.filter(|(_, facts)| facts.state == "Established");
    established
        .map(|(address, facts)| advertisement(paths, at, *address, facts, sessions.local))
        .collect()
}

/// Whether the path at this place is advertised to one peer.
fn advertisement<N: Row>(
    paths: &[Path<N>],
    at: usize,
    address: IpAddr,
    facts: &Facts,
    local: &Local,
) -> proto::Advertisement {
    let why_not = why_not(paths, at, facts, local);
    let peer = facts.peer.map(|peer| peer.router_id.to_string());
    let reason = why_not.as_ref().map(|(reason, _)| *reason);
    proto::Advertisement {
        peer_address: address.to_string(),
        peer_router_id: peer.unwrap_or_default(),
        advertised: why_not.is_none(),
        reason: reason.unwrap_or(NotAdvertisedReason::Unspecified).into(),
        reason_text: why_not.map(|(_, text)| text),
    }
}

fn why_not<N: Row>(
    paths: &[Path<N>],
    at: usize,
    facts: &Facts,
    local: &Local,
) -> Option<(NotAdvertisedReason, String)> {
    use NotAdvertisedReason as Reason;
    let family = N::family();
    if !facts.families.contains(&family) {
        let text = "family not negotiated".to_owned();
        return Some((Reason::FamilyNotNegotiated, text));
    }
    let Some((key, interest)) = facts.told.get(&family) else {
        return Some((Reason::NotBegun, "not begun yet".to_owned()));
    };
    let path = paths.get(at)?;
    let group = UpdateGroup::<N>::new(key.clone(), *local);
    if facts.peer == Some(path.source.peer) && !group.returns() {
        return Some((Reason::OwnPath, "its own".to_owned()));
    }
    let (places, text) = match key.add_path {
        None => (decision::best(paths, 1), "not the best path".to_owned()),
        Some(PathsTold::All) => ((0..paths.len()).collect(), String::new()),
        Some(PathsTold::Best(count)) => (
            decision::best(paths, count.get().into()),
            format!("not among the {count} best paths"),
        ),
    };
    if !places.contains(&at) {
        return Some((Reason::NotBest, text));
    }
    let withheld = group.explain(path, interest).err()?;
    Some((reason(&withheld), withheld.to_string()))
}

fn reason(why: &NotReflected) -> NotAdvertisedReason {
    match why {
        NotReflected::Withheld => NotAdvertisedReason::FrozenElsewhere,
        NotReflected::NoAdvertise => NotAdvertisedReason::NoAdvertise,
        NotReflected::NoExport => NotAdvertisedReason::NoExport,
        NotReflected::NonClients => NotAdvertisedReason::BetweenNonClients,
        NotReflected::AsLoop => NotAdvertisedReason::AsLoop,
        NotReflected::NoNextHop => NotAdvertisedReason::NoNextHop,
        NotReflected::Filter => NotAdvertisedReason::Profile,
        NotReflected::Stale => NotAdvertisedReason::LongLivedStale,
        NotReflected::Interest => NotAdvertisedReason::NoInterest,
        NotReflected::NoSid => NotAdvertisedReason::NoSid,
        NotReflected::TooLong => NotAdvertisedReason::TooLong,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use weft_bgp::attribute::{Attributes, NextHop};
    use weft_bgp::capability::AddPathSet;
    use weft_bgp::constrain::Interest;
    use weft_bgp::family::Family;
    use weft_bgp::message::DecodeContext;
    use weft_bgp::nlri::unicast::Prefix4;
    use weft_bgp::peer::{ClusterId, PeerId, RouterId};
    use weft_bgp::table::{PeerKind, Source};
    use weft_bgp::update_group::ExportKey;

    use super::*;
    use crate::speaker::report::Report;

    fn peer(last: u8) -> (PeerId, IpAddr) {
        let peer = PeerId {
            router_id: RouterId(last.into()),
            asn: 64_496,
        };
        (peer, Ipv4Addr::new(192, 0, 2, last).into())
    }

    fn path(last: u8, local_pref: u32) -> Path<Prefix4> {
        let (peer, address) = peer(last);
        Path {
            source: Arc::new(Source::new(peer, address, PeerKind::IbgpClient)),
            attributes: Arc::new(Attributes {
                next_hop: Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, last))),
                local_pref: Some(local_pref),
                ..Attributes::default()
            }),
            nlri: Prefix4 {
                addr: Ipv4Addr::new(203, 0, 113, 0),
                len: 24,
            },
        }
    }

    fn report(last: u8, families: &[Family], is_told: bool) -> (IpAddr, Facts) {
        let (peer, address) = peer(last);
        let mut facts = Report::new("leaves".to_owned(), false, Default::default()).facts();
        facts.state = "Established";
        facts.peer = Some(peer);
        facts.families = families.to_vec();
        let negotiated = DecodeContext {
            four_octet_as: true,
            ibgp: true,
            extended_message: false,
            add_path: AddPathSet::NONE,
        };
        let key = ExportKey::new(PeerKind::IbgpClient, &negotiated);
        for family in families.iter().filter(|_| is_told) {
            let manner = (key.clone(), Interest::Everything);
            facts.told.insert(*family, manner);
        }
        (address, facts)
    }

    #[test]
    fn each_path_is_advertised_to_each_peer_or_there_is_a_reason() {
        let local = Local {
            asn: 64_496,
            router_id: RouterId(100),
            cluster_id: ClusterId(1),
        };
        let ipv4 = [Family::IPV4_UNICAST];
        let reports = [
            report(1, &ipv4, true),
            report(2, &ipv4, true),
            report(3, &[Family::L2VPN_EVPN], true),
            report(4, &ipv4, false),
        ];
        let sessions = Sessions {
            reports: &reports,
            local: &local,
        };
        let explained = paths(&[path(1, 200), path(2, 100)], &sessions);
        let says = |at: usize| {
            let path: &proto::Path = &explained[at];
            let peers = path.advertisements.iter();
            let peers = peers.map(|it| match it.advertised {
                true => "sent",
                false => it.reason_text.as_deref().unwrap(),
            });
            (path.decision.as_deref().unwrap(), peers.collect::<Vec<_>>())
        };
        let (none, late) = ("family not negotiated", "not begun yet");
        let chosen = "highest local preference";
        assert_eq!(says(0), (chosen, vec!["its own", "sent", none, late]));
        let behind = "not the best path";
        let expected = (
            "highest local preference",
            vec![behind, "its own", none, late],
        );
        assert_eq!(says(1), expected);
        let reasons: Vec<_> = explained[1]
            .advertisements
            .iter()
            .map(|it| it.reason())
            .collect();
        let expected = [
            NotAdvertisedReason::NotBest,
            NotAdvertisedReason::OwnPath,
            NotAdvertisedReason::FamilyNotNegotiated,
            NotAdvertisedReason::NotBegun,
        ];
        assert_eq!(reasons, expected);
        assert_eq!([0, 1].map(|at| explained[at].best), [true, false]);
    }
}
