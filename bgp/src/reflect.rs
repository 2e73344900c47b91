//! What may be told to whom, and changed how: RFC 4456 inside our AS, RFC 7947 between others, RFC 1997 everywhere.
//!
//! The next hop is replaced only where the group says so: a reflector is not on the forwarding path. It does not know tables, octets, or which
//! members a group has; that a path does not go back to its own peer is said by the frame's audience.

use std::fmt;
use std::num::NonZeroU8;

use crate::attribute::{AttributeFilter, Attributes, Community, NextHop, link_bandwidth};
use crate::capability::AddPathSet;
use crate::decision::DEFAULT_LOCAL_PREF;
use crate::frame::{MAX_LEN, MAX_LEN_EXTENDED};
use crate::message::DecodeContext;
use crate::peer::{ClusterId, RouterId};
use crate::table::{PeerKind, Source, Stale};

/// Who we are. Replicas that reflect the same facts have all of this in common but the router id, which is not sent in
/// any attribute.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Local {
    /// Our AS.
    pub asn: u32,
    /// Our BGP Identifier.
    pub router_id: RouterId,
    /// The cluster of RFC 4456 §7, one for all replicas.
    pub cluster_id: ClusterId,
}

/// All that changes the octets a peer is sent. Peers with equal keys share one group: each UPDATE is encoded once.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ExportKey {
    /// What the peer is to us.
    pub kind: PeerKind,
    /// Its AS, where that decides what it is told: paths that went through it are kept from it. `None` leaves it to the
    /// peer to find its own AS in a path, and lets peers of different ASes share a group.
    pub remote_asn: Option<u32>,
    /// AS numbers are written in four octets. RFC 6793.
    pub four_octet_as: bool,
    /// Octets of the longest message: 4096, or 65535 where RFC 8654 was negotiated.
    pub max_len: u16,
    /// What it can take beside what everybody takes.
    pub filter: Filter,
    /// How link bandwidth is written.
    pub link_bandwidth: LinkBandwidthForm,
    /// The AS that we claim to be towards it.
    pub local_as: Option<LocalAs>,
    /// How many paths of a destination it is told; `None`: the best one, without path ids.
    pub add_path: Option<PathsTold>,
    /// Our end of the session, where it stands as next hop: RFC 4271 §5.1.3 to plain peers of another AS, RFC 4684 §3.2.
    /// `None`: the next hop stays as it was announced.
    pub next_hop: Option<NextHop>,
    /// It knows what a long-lived stale path is. RFC 9494 §4.3.
    pub long_lived: bool,
    /// It shall use other paths where it has them: all that we tell it is about to go. RFC 8326.
    pub graceful_shutdown: bool,
    /// Which of the attributes that are carried as they came it is told.
    pub attributes: AttributeFilter,
}

/// Another AS number that we show to a peer of another AS, as after a migration. FRR's `local-as`.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct LocalAs {
    /// The AS shown.
    pub asn: u32,
    /// Do not put it in front of what the peer announces. Changes nothing in what it is told.
    pub no_prepend: bool,
    /// Show it instead of our own AS rather than in front of it.
    pub replace_as: bool,
}

/// How many paths of a destination are told. RFC 7911.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum PathsTold {
    /// Every one.
    All,
    /// The best ones, so many.
    Best(NonZeroU8),
}

/// How the link bandwidth community is written: some peers read only one of its forms.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum LinkBandwidthForm {
    /// As it came.
    #[default]
    AsIs,
    /// 0x40/0x04; 0x42/0x06 of twenty octets.
    NonTransitive,
    /// 0x00/0x04; 0x02/0x06 of twenty octets.
    Transitive,
}

impl ExportKey {
    /// The key of a peer with which `negotiated` was agreed, and with which nothing special was configured. Destructured, so that what else may be negotiated does not
    /// compile until someone decides whether it changes octets.
    #[must_use]
    pub fn new(kind: PeerKind, negotiated: &DecodeContext) -> Self {
        let DecodeContext {
            four_octet_as,
            ibgp: _, // said by `kind`
            extended_message,
            add_path: _, // how the peer writes, not how we do
        } = *negotiated;
        Self {
            kind,
            remote_asn: None,
            four_octet_as,
            max_len: if extended_message {
                MAX_LEN_EXTENDED
            } else {
                MAX_LEN
            },
            filter: Filter::default(),
            link_bandwidth: LinkBandwidthForm::AsIs,
            local_as: None,
            add_path: None, // agreed per family
            next_hop: None, // as the next
            long_lived: false,
            graceful_shutdown: false,
            attributes: AttributeFilter::default(),
        }
    }

    /// How to encode for the group.
    #[must_use]
    pub fn context(&self) -> DecodeContext {
        DecodeContext {
            four_octet_as: self.four_octet_as,
            ibgp: !self.kind.is_external(),
            extended_message: self.max_len > MAX_LEN,
            add_path: AddPathSet::NONE,
        }
    }
}

/// What the members of a group can take beside what everybody takes, as bits that only the families read, in
/// [`crate::nlri::Nlri::sendable`]. A set bit permits.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filter(pub u32);

impl Filter {
    /// Whether every bit of `other` is set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Why a group is not told of a path.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum NotReflected {
    /// It is withheld from everybody: who fills the table froze its destination elsewhere (EVPN: RFC 7432 §15.1).
    Withheld,
    /// NO_ADVERTISE. RFC 1997.
    NoAdvertise,
    /// NO_EXPORT or NO_EXPORT_SUBCONFED, to a peer of another AS. RFC 1997.
    NoExport,
    /// From a non-client to a non-client: they are meshed. RFC 4456 §6.
    NonClients,
    /// The group's AS is in the AS_PATH, and the group is keyed by AS.
    AsLoop,
    /// Without a next hop there is nothing to send.
    NoNextHop,
    /// The family keeps it from peers that may not understand it, by the group's filter.
    Filter,
    /// Long-lived stale, and the group does not know what that means or the path is marked NO_LLGR. RFC 9494 §4.3.
    Stale,
    /// The peer wants none of its route targets. RFC 4684 §6.
    Interest,
    /// The group is not told PREFIX_SID in this form, and an SRv6 service without its SID leads nowhere. RFC 9252 §5, §6.
    NoSid,
    /// The attributes leave no room for an NLRI in the longest message. RFC 8654 §4.
    TooLong,
}

impl fmt::Display for NotReflected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Withheld => "frozen elsewhere",
            Self::NoAdvertise => "community no-advertise",
            Self::NoExport => "community no-export",
            Self::NonClients => "from a non-client to a non-client",
            Self::AsLoop => "AS of the peer in the AS path",
            Self::NoNextHop => "no next hop",
            Self::Filter => "withheld by the peer's profile",
            Self::Stale => "long-lived stale",
            Self::Interest => "no route target that the peer wants",
            Self::NoSid => "SRv6 SID that the peer is not told",
            Self::TooLong => "attributes too long for a message",
        })
    }
}

impl std::error::Error for NotReflected {}

/// Why a path must not be learned: it has been here before.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Loop {
    /// Our AS is in the AS_PATH. RFC 4271 §9.1.2.
    As,
    /// We are the ORIGINATOR_ID. RFC 4456 §8.
    Originator,
    /// Our cluster is in the CLUSTER_LIST. RFC 4456 §8.
    Cluster,
}

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::As => "own AS in the AS path",
            Self::Originator => "own router id as originator",
            Self::Cluster => "own cluster in the cluster list",
        })
    }
}

impl std::error::Error for Loop {}

/// Whether a path from a peer of this kind may be learned, if our AS may be in its AS_PATH so many times.
///
/// # Errors
/// The loop it has come through.
pub fn accept(
    attributes: &Attributes,
    from: PeerKind,
    local: &Local,
    allow_as_in: u8,
) -> Result<(), Loop> {
    let asns = attributes
        .as_path
        .segments
        .iter()
        .flat_map(|segment| &segment.asns);
    if asns.filter(|asn| **asn == local.asn).count() > allow_as_in.into() {
        return Err(Loop::As);
    }
    if from.is_external() {
        return Ok(()); // RFC 7606 §7.9 and §7.10 discard both attributes from another AS
    }
    if attributes.originator_id == Some(local.router_id) {
        return Err(Loop::Originator);
    }
    if attributes.cluster_list.contains(&local.cluster_id) {
        return Err(Loop::Cluster);
    }
    Ok(())
}

/// What the group may be told of a path of `source`.
///
/// # Errors
/// Why it may not be told.
pub fn reflect(
    source: &Source,
    attributes: &Attributes,
    to: &ExportKey,
    local: &Local,
) -> Result<Attributes, NotReflected> {
    permit(source, attributes, to)?;
    let mut told = match (source.kind.is_external(), to.kind) {
        (false, PeerKind::IbgpClient | PeerKind::IbgpNonClient) => {
            within_our_as(source, attributes, local)
        }
        (true, PeerKind::IbgpClient | PeerKind::IbgpNonClient) => into_our_as(attributes),
        (true, PeerKind::RouteServerClient) => between_others(attributes),
        (false, PeerKind::RouteServerClient) | (_, PeerKind::Ebgp) => {
            out_of_our_as(attributes, local, to.local_as)
        }
    };
    told.next_hop = to
        .next_hop
        .or_else(|| told.next_hop.map(NextHop::beyond_the_link));
    if source.stale == Stale::LongLived {
        label(&mut told, Community::LLGR_STALE);
    }
    if to.graceful_shutdown {
        label(&mut told, Community::GRACEFUL_SHUTDOWN);
        // RFC 8326 §4.2 and §4.3: the community is for other ASes, which know it; LOCAL_PREF works for all in ours.
        told.local_pref = told.local_pref.map(|_| 0);
    }
    link_bandwidth::with_form(&mut told.ext_communities, to.link_bandwidth);
    link_bandwidth::extended_with_form(&mut told.ipv6_ext_communities, to.link_bandwidth);
    match to.attributes.apply(&mut told.opaque) {
        true => Ok(told),
        false => Err(NotReflected::NoSid),
    }
}

fn permit(source: &Source, attributes: &Attributes, to: &ExportKey) -> Result<(), NotReflected> {
    let from = source.kind;
    let labelled = |community| attributes.communities.contains(&community);
    if source.withheld {
        return Err(NotReflected::Withheld);
    }
    if labelled(NO_ADVERTISE) {
        return Err(NotReflected::NoAdvertise);
    }
    // RFC 7947 §2.2.4 would have a route server pass these on without a look. A leaf that says no-export to a reflector
    // of another AS means the other leaves, so we honour it.
    if to.kind.is_external() && (labelled(NO_EXPORT) || labelled(NO_EXPORT_SUBCONFED)) {
        return Err(NotReflected::NoExport);
    }
    if from == PeerKind::IbgpNonClient && to.kind == PeerKind::IbgpNonClient {
        return Err(NotReflected::NonClients);
    }
    let through = |asn| attributes.as_path.contains(asn);
    if to.remote_asn.is_some_and(through) {
        return Err(NotReflected::AsLoop);
    }
    let long_lived = source.stale == Stale::LongLived;
    if (long_lived && labelled(Community::NO_LLGR))
        || ((long_lived || labelled(Community::LLGR_STALE)) && !to.long_lived)
    {
        return Err(NotReflected::Stale);
    }
    if attributes.next_hop.is_none() {
        return Err(NotReflected::NoNextHop);
    }
    Ok(())
}

/// Adds a community that is not there.
fn label(attributes: &mut Attributes, community: Community) {
    if !attributes.communities.contains(&community) {
        attributes.communities.push(community);
    }
}

/// RFC 4456 §8: ORIGINATOR_ID where there is none, our cluster in front of CLUSTER_LIST.
fn within_our_as(source: &Source, attributes: &Attributes, local: &Local) -> Attributes {
    let mut reflected = known(attributes);
    reflected.originator_id.get_or_insert(source.peer.router_id);
    reflected.cluster_list.insert(0, local.cluster_id);
    reflected.local_pref.get_or_insert(DEFAULT_LOCAL_PREF);
    reflected
}

/// RFC 4271 §5.1.5: LOCAL_PREF is mandatory here. Not reflection yet: no ORIGINATOR_ID, no CLUSTER_LIST.
fn into_our_as(attributes: &Attributes) -> Attributes {
    Attributes {
        local_pref: Some(attributes.local_pref.unwrap_or(DEFAULT_LOCAL_PREF)),
        ..without_internal(attributes)
    }
}

/// RFC 7947 §2.2: AS_PATH, MED and next hop stay as they are.
fn between_others(attributes: &Attributes) -> Attributes {
    without_internal(attributes)
}

/// Our AS in front. MED does not cross a second AS border (RFC 4271 §5.1.4). Extended communities do even if they are not
/// transitive: RFC 4360 §6 would drop link bandwidth, which fabrics with one AS per leaf rely on.
/// With `local_as`, that one in front of ours or instead of it.
fn out_of_our_as(attributes: &Attributes, local: &Local, local_as: Option<LocalAs>) -> Attributes {
    let mut reflected = without_internal(attributes);
    if attributes.as_path.neighbor_as().is_some() {
        reflected.med = None;
    }
    if !local_as.is_some_and(|shown| shown.replace_as) {
        reflected.as_path.prepend(local.asn);
    }
    if let Some(LocalAs { asn, .. }) = local_as {
        reflected.as_path.prepend(asn);
    }
    reflected
}

/// Without what has a meaning only inside an AS.
fn without_internal(attributes: &Attributes) -> Attributes {
    Attributes {
        as_path: attributes.as_path.outside_confederation(),
        local_pref: None,
        originator_id: None,
        cluster_list: Vec::new(),
        ..known(attributes)
    }
}

/// Without what is only counted.
fn known(attributes: &Attributes) -> Attributes {
    Attributes {
        unknown: Vec::new(),
        ..attributes.clone()
    }
}

/// RFC 1997, "Well-known Communities".
const NO_EXPORT: Community = Community(0xffff_ff01);
const NO_ADVERTISE: Community = Community(0xffff_ff02);
const NO_EXPORT_SUBCONFED: Community = Community(0xffff_ff03);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::attribute::{AsPath, ExtendedCommunity, Ipv6ExtendedCommunity, UnknownAttribute};
    use crate::peer::PeerId;

    use PeerKind::{Ebgp, IbgpClient, IbgpNonClient, RouteServerClient};

    const LOCAL: Local = Local {
        asn: 64_496,
        router_id: RouterId(1),
        cluster_id: ClusterId(2),
    };
    const KINDS: [PeerKind; 4] = [IbgpClient, IbgpNonClient, RouteServerClient, Ebgp];

    fn from(kind: PeerKind) -> Source {
        let peer = PeerId {
            router_id: RouterId(9),
            asn: 64_499,
        };
        Source::new(peer, Ipv4Addr::new(192, 0, 2, 9).into(), kind)
    }

    fn to(kind: PeerKind) -> ExportKey {
        let negotiated = DecodeContext {
            four_octet_as: true,
            ibgp: !kind.is_external(),
            extended_message: false,
            add_path: AddPathSet::NONE,
        };
        ExportKey::new(kind, &negotiated)
    }

    fn path(kind: PeerKind) -> Attributes {
        Attributes {
            next_hop: Some(NextHop::V4(Ipv4Addr::new(203, 0, 113, 1))),
            as_path: AsPath::sequence(if kind.is_external() { &[64_499] } else { &[] }),
            med: Some(5),
            local_pref: (!kind.is_external()).then_some(200),
            unknown: vec![UnknownAttribute {
                code: 200,
                flags: 0xc0,
                length: 1,
            }],
            ..Attributes::default()
        }
    }

    #[test]
    fn our_end_of_the_session_is_the_next_hop_where_the_group_says_so() {
        let ours = NextHop::V4(Ipv4Addr::new(192, 0, 2, 254));
        for kind in KINDS {
            let group = ExportKey {
                next_hop: Some(ours),
                ..to(kind)
            };
            let next_hop = |group: &ExportKey| {
                let told = reflect(&from(IbgpClient), &path(IbgpClient), group, &LOCAL);
                told.unwrap().next_hop
            };
            assert_eq!(next_hop(&group), Some(ours));
            assert_eq!(next_hop(&to(kind)), path(IbgpClient).next_hop);
        }
        // A route without any is malformed, whoever would be in the way.
        let none = Attributes {
            next_hop: None,
            ..path(IbgpClient)
        };
        let group = ExportKey {
            next_hop: Some(ours),
            ..to(Ebgp)
        };
        let told = reflect(&from(IbgpClient), &none, &group, &LOCAL);
        assert_eq!(told, Err(NotReflected::NoNextHop));
    }

    /// RFC 4456 §6 and RFC 7947: one row per source, one column per group. AS path, MED, LOCAL_PREF, ORIGINATOR_ID and
    /// length of CLUSTER_LIST.
    #[test]
    fn each_kind_of_group_is_told_what_its_rfc_says() {
        type Row = (&'static [u32], Option<u32>, Option<u32>, Option<u32>, usize);
        let within: Row = (&[], Some(5), Some(200), Some(9), 1);
        let out: Row = (&[64_496], Some(5), None, None, 0);
        let into: Row = (&[64_499], Some(5), Some(100), None, 0);
        let through: Row = (&[64_496, 64_499], None, None, None, 0);
        let between: Row = (&[64_499], Some(5), None, None, 0);
        let expected: [[Option<Row>; 4]; 4] = [
            [Some(within), Some(within), Some(out), Some(out)],
            [Some(within), None, Some(out), Some(out)],
            [Some(into), Some(into), Some(between), Some(through)],
            [Some(into), Some(into), Some(between), Some(through)],
        ];
        for (source, row) in KINDS.into_iter().zip(expected) {
            for (group, expected) in KINDS.into_iter().zip(row) {
                let told = reflect(&from(source), &path(source), &to(group), &LOCAL);
                let case = format!("from {source} to {group}");
                let Some((asns, med, local_pref, originator, clusters)) = expected else {
                    assert_eq!(told, Err(NotReflected::NonClients), "{case}");
                    continue;
                };
                let told = told.unwrap();
                assert_eq!(told.as_path, AsPath::sequence(asns), "{case}");
                assert_eq!(told.med, med, "{case}");
                assert_eq!(told.local_pref, local_pref, "{case}");
                assert_eq!(told.originator_id, originator.map(RouterId), "{case}");
                assert_eq!(told.cluster_list.len(), clusters, "{case}");
                assert_eq!(told.next_hop, path(source).next_hop, "{case}");
                assert!(told.unknown.is_empty(), "{case}");
            }
        }
    }

    #[test]
    fn a_reflected_path_keeps_its_originator_and_gains_our_cluster_in_front() {
        let attributes = Attributes {
            originator_id: Some(RouterId(7)),
            cluster_list: vec![ClusterId(8)],
            ..path(IbgpNonClient)
        };
        let told = reflect(&from(IbgpNonClient), &attributes, &to(IbgpClient), &LOCAL).unwrap();
        assert_eq!(told.originator_id, Some(RouterId(7)));
        assert_eq!(told.cluster_list, [ClusterId(2), ClusterId(8)]);
    }

    #[test]
    fn well_known_communities_are_honoured() {
        let told = |community, group| {
            let attributes = Attributes {
                communities: vec![Community(64_496 << 16), community],
                ..path(IbgpClient)
            };
            reflect(&from(IbgpClient), &attributes, &to(group), &LOCAL).map(|_| ())
        };
        for group in KINDS {
            assert_eq!(told(NO_ADVERTISE, group), Err(NotReflected::NoAdvertise));
            let expected = match group.is_external() {
                true => Err(NotReflected::NoExport),
                false => Ok(()),
            };
            assert_eq!(told(NO_EXPORT, group), expected);
            assert_eq!(told(NO_EXPORT_SUBCONFED, group), expected);
        }
    }

    #[test]
    fn a_group_keyed_by_as_is_not_told_paths_through_it() {
        let told = |remote_asn| {
            let group = ExportKey {
                remote_asn,
                ..to(RouteServerClient)
            };
            reflect(&from(Ebgp), &path(Ebgp), &group, &LOCAL).map(|_| ())
        };
        assert_eq!(told(Some(64_499)), Err(NotReflected::AsLoop));
        assert_eq!(told(Some(64_500)), Ok(()));
        assert_eq!(told(None), Ok(()));
    }

    /// RFC 2545 §3: a link-local address is for those who share a subnet with us and with the next hop. Of them we know
    /// nothing.
    #[test]
    fn a_link_local_next_hop_stays_on_its_link() {
        let global = "2001:db8::1".parse().unwrap();
        let link_local = "fe80::1".parse().unwrap();
        for (source, group) in [(IbgpClient, IbgpClient), (Ebgp, RouteServerClient)] {
            let attributes = Attributes {
                next_hop: Some(NextHop::V6LinkLocal(global, link_local)),
                ..path(source)
            };
            let told = reflect(&from(source), &attributes, &to(group), &LOCAL).unwrap();
            assert_eq!(told.next_hop, Some(NextHop::V6(global)));
        }
    }

    #[test]
    fn a_path_without_next_hop_is_not_told() {
        let attributes = Attributes {
            next_hop: None,
            ..path(IbgpClient)
        };
        let told = reflect(&from(IbgpClient), &attributes, &to(IbgpClient), &LOCAL);
        assert_eq!(told, Err(NotReflected::NoNextHop));
    }

    #[test]
    fn loops_are_found() {
        let clean = path(IbgpClient);
        assert_eq!(accept(&clean, IbgpClient, &LOCAL, 0), Ok(()));
        let through_us = Attributes {
            as_path: AsPath::sequence(&[64_499, 64_496]),
            ..clean.clone()
        };
        let from_us = Attributes {
            originator_id: Some(RouterId(1)),
            ..clean.clone()
        };
        let by_us = Attributes {
            cluster_list: vec![ClusterId(7), ClusterId(2)],
            ..clean
        };
        for kind in KINDS {
            assert_eq!(accept(&through_us, kind, &LOCAL, 0), Err(Loop::As));
            let internal = !kind.is_external();
            assert_eq!(accept(&from_us, kind, &LOCAL, 0).is_err(), internal);
            assert_eq!(accept(&by_us, kind, &LOCAL, 0).is_err(), internal);
        }
        assert_eq!(
            accept(&from_us, IbgpClient, &LOCAL, 0),
            Err(Loop::Originator)
        );
        assert_eq!(accept(&by_us, IbgpNonClient, &LOCAL, 0), Err(Loop::Cluster));
    }

    #[test]
    fn our_as_may_be_in_a_path_as_often_as_allowed() {
        let twice = Attributes {
            as_path: AsPath::sequence(&[64_496, 64_499, 64_496]),
            ..path(Ebgp)
        };
        let accepted = |allowed| accept(&twice, Ebgp, &LOCAL, allowed);
        let as_loop = Err(Loop::As);
        assert_eq!([0, 1, 2].map(accepted), [as_loop, as_loop, Ok(())]);
    }

    /// FRR: `local-as N` shows N in front of the true AS, `replace-as` instead of it; only between ASes.
    #[test]
    fn another_as_is_shown_in_front_of_ours_or_instead() {
        let told = |group: PeerKind, replace_as| {
            let group = ExportKey {
                local_as: Some(LocalAs {
                    asn: 64_511,
                    no_prepend: false,
                    replace_as,
                }),
                ..to(group)
            };
            let told = reflect(&from(Ebgp), &path(Ebgp), &group, &LOCAL);
            told.unwrap().as_path
        };
        assert_eq!(
            told(Ebgp, false),
            AsPath::sequence(&[64_511, 64_496, 64_499])
        );
        assert_eq!(told(Ebgp, true), AsPath::sequence(&[64_511, 64_499]));
        for group in [IbgpClient, RouteServerClient] {
            assert_eq!(told(group, false), AsPath::sequence(&[64_499]));
        }
    }

    /// RFC 8326 §4: the community for all, LOCAL_PREF 0 within our AS.
    #[test]
    fn before_a_shutdown_all_is_told_as_a_last_resort() {
        for kind in KINDS {
            let group = ExportKey {
                graceful_shutdown: true,
                ..to(kind)
            };
            let told = reflect(&from(IbgpClient), &path(IbgpClient), &group, &LOCAL).unwrap();
            assert_eq!(told.communities, [Community::GRACEFUL_SHUTDOWN]);
            assert_eq!(told.local_pref, (!kind.is_external()).then_some(0));
        }
    }

    /// RFC 9494 §4.3 and §4.6: marked for those who know, withheld from others, gone where nobody may keep it.
    #[test]
    fn a_long_lived_stale_path_is_told_to_those_who_know_what_it_is() {
        let told = |stale, communities: &[Community], long_lived| {
            let source = Source {
                stale,
                ..from(IbgpClient)
            };
            let attributes = Attributes {
                communities: communities.to_vec(),
                ..path(IbgpClient)
            };
            let group = ExportKey {
                long_lived,
                ..to(IbgpClient)
            };
            reflect(&source, &attributes, &group, &LOCAL).map(|told| told.communities)
        };
        let (marked, never) = (Community::LLGR_STALE, Community::NO_LLGR);
        let withheld = Err(NotReflected::Stale);
        assert_eq!(told(Stale::Graceful, &[], false), Ok(vec![]));
        assert_eq!(told(Stale::LongLived, &[], false), withheld);
        assert_eq!(told(Stale::LongLived, &[], true), Ok(vec![marked]));
        assert_eq!(told(Stale::LongLived, &[marked], true), Ok(vec![marked]));
        assert_eq!(told(Stale::LongLived, &[never], true), withheld);
        assert_eq!(told(Stale::No, &[never], false), Ok(vec![never]));
        assert_eq!(told(Stale::No, &[marked], false), withheld);
        assert_eq!(told(Stale::No, &[marked], true), Ok(vec![marked]));
    }

    #[test]
    fn a_withheld_path_is_told_to_nobody() {
        for (kind, to_kind) in KINDS.into_iter().flat_map(|a| KINDS.map(|b| (a, b))) {
            let source = Source {
                withheld: true,
                ..from(kind)
            };
            let told = reflect(&source, &path(kind), &to(to_kind), &LOCAL);
            assert_eq!(told, Err(NotReflected::Withheld));
        }
    }

    #[test]
    fn link_bandwidth_is_written_as_the_group_reads_it() {
        let of = |kind| ExtendedCommunity([kind, 4, 0xfb, 0xf0, 0x47, 0xc3, 0x50, 0]);
        let extended = |kind| {
            let mut octets = [0; 20];
            (octets[0], octets[1], octets[10], octets[15]) = (kind, 6, 100, 4);
            Ipv6ExtendedCommunity(octets)
        };
        let attributes = Attributes {
            ext_communities: vec![of(0x40), ExtendedCommunity::route_target_as2(1, 2)],
            ipv6_ext_communities: vec![extended(0x42)],
            ..path(IbgpClient)
        };
        let told = |link_bandwidth| {
            let group = ExportKey {
                link_bandwidth,
                ..to(IbgpClient)
            };
            let told = reflect(&from(IbgpClient), &attributes, &group, &LOCAL).unwrap();
            assert_eq!(told.ext_communities[1], attributes.ext_communities[1]);
            (told.ext_communities[0], told.ipv6_ext_communities[0])
        };
        let as_it_came = (of(0x40), extended(0x42));
        assert_eq!(told(LinkBandwidthForm::AsIs), as_it_came);
        assert_eq!(told(LinkBandwidthForm::NonTransitive), as_it_came);
        let transitive = (of(0x00), extended(0x02));
        assert_eq!(told(LinkBandwidthForm::Transitive), transitive);
    }

    #[test]
    fn the_key_says_how_to_encode() {
        for extended_message in [false, true] {
            for kind in KINDS {
                let negotiated = DecodeContext {
                    four_octet_as: extended_message,
                    ibgp: !kind.is_external(),
                    extended_message,
                    add_path: AddPathSet::NONE,
                };
                assert_eq!(ExportKey::new(kind, &negotiated).context(), negotiated);
            }
        }
    }
}
