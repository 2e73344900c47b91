//! What may be told to whom, and changed how: RFC 4456 inside our AS, RFC 7947 between others, RFC 1997 everywhere.
//!
//! The next hop is never touched: a reflector is not on the forwarding path. It does not know tables, octets, or which
//! members a group has; that a path does not go back to its own peer is said by the frame's audience.

use std::fmt;

use crate::attribute::{Attributes, Community};
use crate::decision::DEFAULT_LOCAL_PREF;
use crate::frame::{MAX_LEN, MAX_LEN_EXTENDED};
use crate::message::DecodeContext;
use crate::peer::{ClusterId, RouterId};
use crate::table::{PeerKind, Source};

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
}

impl ExportKey {
    /// The key of a peer with which `negotiated` was agreed. Destructured, so that what else may be negotiated does not
    /// compile until someone decides whether it changes octets.
    #[must_use]
    pub fn new(kind: PeerKind, negotiated: &DecodeContext) -> Self {
        let DecodeContext {
            four_octet_as,
            ibgp: _, // said by `kind`
            extended_message,
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
        }
    }

    /// How to encode for the group.
    #[must_use]
    pub fn context(&self) -> DecodeContext {
        DecodeContext {
            four_octet_as: self.four_octet_as,
            ibgp: !self.kind.is_external(),
            extended_message: self.max_len > MAX_LEN,
        }
    }
}

/// Why a group is not told of a path.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum NotReflected {
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
    /// The attributes leave no room for an NLRI in the longest message. RFC 8654 §4.
    TooLong,
}

impl fmt::Display for NotReflected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAdvertise => "community no-advertise",
            Self::NoExport => "community no-export",
            Self::NonClients => "from a non-client to a non-client",
            Self::AsLoop => "AS of the peer in the AS path",
            Self::NoNextHop => "no next hop",
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

/// Whether a path from a peer of this kind may be learned.
///
/// # Errors
/// The loop it has come through.
pub fn accept(attributes: &Attributes, from: PeerKind, local: &Local) -> Result<(), Loop> {
    if attributes.as_path.contains(local.asn) {
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
    let allowed = permit(source.kind, attributes, to);
    allowed.map(|()| match (source.kind.is_external(), to.kind) {
        (false, PeerKind::IbgpClient | PeerKind::IbgpNonClient) => {
            within_our_as(source, attributes, local)
        }
        (true, PeerKind::IbgpClient | PeerKind::IbgpNonClient) => into_our_as(attributes),
        (true, PeerKind::RouteServerClient) => between_others(attributes),
        (false, PeerKind::RouteServerClient) | (_, PeerKind::Ebgp) => {
            out_of_our_as(attributes, local)
        }
    })
}

fn permit(from: PeerKind, attributes: &Attributes, to: &ExportKey) -> Result<(), NotReflected> {
    let labelled = |community| attributes.communities.contains(&community);
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
    if attributes.next_hop.is_none() {
        return Err(NotReflected::NoNextHop);
    }
    Ok(())
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
fn out_of_our_as(attributes: &Attributes, local: &Local) -> Attributes {
    let mut reflected = without_internal(attributes);
    if attributes.as_path.neighbor_as().is_some() {
        reflected.med = None;
    }
    reflected.as_path.prepend(local.asn);
    reflected
}

/// Without what has a meaning only inside an AS.
fn without_internal(attributes: &Attributes) -> Attributes {
    Attributes {
        local_pref: None,
        originator_id: None,
        cluster_list: Vec::new(),
        ..known(attributes)
    }
}

/// Without what we cannot vouch for: unknown attributes are never encoded again.
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
