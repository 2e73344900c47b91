//! Weights as BGP says them (RFC 10005): of the prefix of each VTEP one path for each next hop, with a link bandwidth
//! community, for one session of one leaf.
//!
//! Every path says NO_ADVERTISE: a leaf that passed it on would draw the traffic of spines. LOCAL_PREF, or to another AS a
//! path of one AS number, makes the leaf prefer it to what the underlay announces, and when it is withdrawn the underlay
//! decides as before. Pure. It refuses to know sockets, which leaf it speaks to, and why a weight is what it is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bytes::Bytes;
use ipnet::IpNet;
use weft_bgp::attribute::as_path::AS_TRANS;
use weft_bgp::attribute::link_bandwidth::LinkBandwidth;
use weft_bgp::attribute::{AsPath, Attributes, Community, NextHop, Reach, Unreach};
use weft_bgp::capability::AddPathSet;
use weft_bgp::family::Family;
use weft_bgp::message::update::Update;
use weft_bgp::message::{DecodeContext, Message};
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::reflect::LinkBandwidthForm;
use weft_bgp::wire::Writer;

use super::intent::Routes;

/// How a session writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The family; its NLRI carry path identifiers.
    pub family: Family,
    /// Our AS as the peer knows it.
    pub asn: u32,
    /// As was negotiated.
    pub context: DecodeContext,
    /// Octets of the longest message.
    pub max_len: u16,
    /// The form of the community that the peer reads.
    pub form: LinkBandwidthForm,
}

/// What a session was told of weights.
#[derive(Clone, Debug)]
pub struct Told {
    dialect: Dialect,
    paths: Paths,
    /// The path identifier of each next hop.
    ids: BTreeMap<IpAddr, u32>,
}

/// The weight of each path: prefix and next hop.
type Paths = BTreeMap<(IpNet, IpAddr), u32>;

impl Told {
    /// Nothing yet.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            paths: Paths::new(),
            ids: BTreeMap::new(),
        }
    }

    /// How many paths there are.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether nothing is told.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// UPDATE messages from what was told to these routes: what is new or weighs otherwise first, then what goes.
    pub fn turn_to(&mut self, routes: &Routes) -> Vec<Bytes> {
        let paths = paths(routes, self.dialect.family);
        let gone = self.paths.keys().filter(|path| !paths.contains_key(path));
        let withdrawn = gone.map(|(prefix, hop)| (self.id(*hop), *prefix)).collect();
        // An identifier that is withdrawn here is not given to another next hop before the next turn.
        let used: BTreeSet<IpAddr> = self.paths.keys().map(|(_, hop)| *hop).collect();
        self.ids.retain(|hop, _| used.contains(hop));
        for (_, hop) in paths.keys() {
            if !self.ids.contains_key(hop) {
                let taken: BTreeSet<u32> = self.ids.values().copied().collect();
                let free = (FIRST_ID..).find(|id| !taken.contains(id));
                self.ids.insert(*hop, free.unwrap_or(FIRST_ID));
            }
        }
        let new = paths
            .iter()
            .filter(|(path, weight)| self.paths.get(*path) != Some(*weight));
        let mut said = self.announce(new);
        said.extend(self.withdraw(withdrawn));
        self.paths = paths;
        said
    }

    /// All that was told, once more: for a peer that asks (RFC 2918).
    pub fn again(&self) -> Vec<Bytes> {
        self.announce(self.paths.iter())
    }
}

impl Told {
    fn id(&self, hop: IpAddr) -> u32 {
        self.ids.get(&hop).copied().unwrap_or(FIRST_ID)
    }

    /// Paths with one next hop and weight share their messages.
    fn announce<'a>(
        &self,
        paths: impl Iterator<Item = (&'a (IpNet, IpAddr), &'a u32)>,
    ) -> Vec<Bytes> {
        let mut alike: BTreeMap<(IpAddr, u32), Vec<(u32, IpNet)>> = BTreeMap::new();
        for ((prefix, hop), weight) in paths {
            let path = (self.id(*hop), *prefix);
            alike.entry((*hop, *weight)).or_default().push(path);
        }
        let messages = alike.iter().flat_map(|((hop, weight), paths)| {
            let fitting = paths.chunks(self.paths_max());
            fitting.map(|paths| self.announcement(*hop, *weight, paths))
        });
        messages.collect()
    }

    fn announcement(&self, hop: IpAddr, weight: u32, paths: &[(u32, IpNet)]) -> Bytes {
        let attributes = self.attributes(hop, weight);
        let update = match self.dialect.family {
            Family::IPV4_UNICAST => Update {
                announced: classic(paths),
                attributes,
                ..Update::default()
            },
            family => Update {
                reach: attributes.next_hop.map(|next_hop| Reach {
                    family,
                    next_hop,
                    nlri: field(paths),
                }),
                attributes,
                ..Update::default()
            },
        };
        self.encode(update)
    }

    fn withdraw(&self, paths: Vec<(u32, IpNet)>) -> Vec<Bytes> {
        let messages = paths.chunks(self.paths_max()).map(|paths| {
            self.encode(match self.dialect.family {
                Family::IPV4_UNICAST => Update {
                    withdrawn: classic(paths),
                    ..Update::default()
                },
                family => Update {
                    unreach: Some(Unreach {
                        family,
                        nlri: field(paths),
                    }),
                    ..Update::default()
                },
            })
        });
        messages.collect()
    }

    fn attributes(&self, hop: IpAddr, weight: u32) -> Attributes {
        let Dialect {
            asn, context, form, ..
        } = self.dialect;
        #[expect(clippy::cast_precision_loss, reason = "weights are small")]
        let bandwidth = LinkBandwidth {
            asn: u16::try_from(asn).unwrap_or(AS_TRANS),
            octets_per_sec: weight as f32 * OCTETS_PER_SEC,
            transitive: form != LinkBandwidthForm::NonTransitive,
        };
        Attributes {
            as_path: match context.ibgp {
                true => AsPath::default(),
                false => AsPath::sequence(&[asn]),
            },
            next_hop: Some(match hop {
                IpAddr::V4(hop) => NextHop::V4(hop),
                IpAddr::V6(hop) => NextHop::V6(hop),
            }),
            local_pref: context.ibgp.then_some(LOCAL_PREF),
            communities: vec![Community::NO_ADVERTISE],
            ext_communities: vec![bandwidth.community()],
            ..Attributes::default()
        }
    }

    fn encode(&self, update: Update) -> Bytes {
        let context = DecodeContext {
            add_path: AddPathSet::of([self.dialect.family]),
            ..self.dialect.context
        };
        Message::Update(Box::new(update)).encode(&context)
    }

    /// How many paths fit into a message beside the attributes that weft gives them.
    fn paths_max(&self) -> usize {
        let room = usize::from(self.dialect.max_len).saturating_sub(BESIDE_PATHS);
        (room / PATH_MAX).max(1)
    }
}

/// The paths of a family that routes come to. A next hop of the other family is left out: who takes those was not asked. So is
/// one without an address, which no leaf that takes these has: see the checks of the fabric.
fn paths(routes: &Routes, family: Family) -> Paths {
    let is_of = |address: IpAddr| address.is_ipv4() == (family == Family::IPV4_UNICAST);
    let prefixes = routes.prefixes.iter();
    let prefixes = prefixes.filter(|(prefix, _)| is_of(prefix.addr()));
    let paths = prefixes.flat_map(|(prefix, members)| {
        let members = members.iter();
        members.filter_map(move |(hop, weight)| {
            let address = hop.address.filter(|address| is_of(*address))?;
            Some(((*prefix, address), *weight))
        })
    });
    paths.collect()
}

/// IPv4 prefixes as an UPDATE has them in its own fields.
fn classic(paths: &[(u32, IpNet)]) -> Vec<(u32, Prefix4)> {
    let prefixes = paths.iter().filter_map(|(id, prefix)| match prefix {
        IpNet::V4(prefix) => Some((*id, Prefix4::new(prefix.addr(), prefix.prefix_len())?)),
        IpNet::V6(_) => None,
    });
    prefixes.collect()
}

/// IPv6 prefixes as the multiprotocol attributes have them. RFC 7911 §3.
fn field(paths: &[(u32, IpNet)]) -> Bytes {
    let mut out = Writer::new();
    for (id, prefix) in paths {
        if let IpNet::V6(prefix) = prefix
            && let Some(prefix) = Prefix6::new(prefix.addr(), prefix.prefix_len())
        {
            out.u32(*id);
            prefix.encode(&mut out);
        }
    }
    out.finish()
}

/// Above the 100 that routes have unless somebody says otherwise.
const LOCAL_PREF: u32 = 200;
/// What one part of a weight says: 1 Mbit/s. Only proportions count, and FRR before 10.1 takes a number of 32 bits.
const OCTETS_PER_SEC: f32 = 125_000.0;
/// The identifiers of paths of others are hashes; one that is this small is one in millions.
const FIRST_ID: u32 = 1;
/// Header, lengths and attributes of an UPDATE of ours, with room to spare.
const BESIDE_PATHS: usize = 256;
/// A path identifier, a length and an IPv6 prefix.
const PATH_MAX: usize = 4 + 1 + 16;

#[cfg(test)]
mod tests;
