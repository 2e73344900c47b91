//! What a sane leaf's announcement has, beyond what [`crate::admission`] asks of any: rules about the
//! rest of the fabric. Whether a broken one is counted, said or refused is not known here.

mod router_macs;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use weft_bgp::attribute::Attributes;
use weft_bgp::peer::PeerId;

use crate::community::{Encapsulation, RouterMac};
use crate::mac::Mac;
use crate::pmsi::IngressReplication;
use crate::route::Route;
use crate::vni::Label;
use crate::vtep::{Vteps, next_hop};

pub use router_macs::RouterMacs;

/// A rule that a route can break.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Rule {
    /// The next hop is a VTEP that is registered or has a type 3.
    NextHop,
    /// A route with a label says that it is a VNI. RFC 8365 §5.1.3.
    Encapsulation,
    /// A type 3 replicates to its originator or next hop, with a VNI. RFC 7432 §11.2, RFC 8365 §5.1.3.
    Pmsi,
    /// The router's MAC address is not another leaf's: hosts behind that one would be lost. RFC 9135 §8.1.
    /// A leaf may have several VTEPs: of IPv4 and of IPv6, its own and one that it shares.
    RouterMac,
    /// Types 3 and 4 are originated by their next hop. RFC 7432 §11.1, §8.1.1.
    Originator,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 5] = [
        Self::NextHop,
        Self::Encapsulation,
        Self::Pmsi,
        Self::RouterMac,
        Self::Originator,
    ];

    /// The name for counters and the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NextHop => "next-hop",
            Self::Encapsulation => "encapsulation",
            Self::Pmsi => "pmsi",
            Self::RouterMac => "router-mac",
            Self::Originator => "originator",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::NextHop => 1,
            Self::Encapsulation => 1 << 1,
            Self::Pmsi => 1 << 2,
            Self::RouterMac => 1 << 3,
            Self::Originator => 1 << 4,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The rules that a route breaks.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default)]
pub struct Broken(u8);

impl Broken {
    /// None.
    pub const NONE: Self = Self(0);

    /// Whether it breaks none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it breaks this one.
    #[must_use]
    pub fn contains(self, rule: Rule) -> bool {
        self.0 & rule.bit() != 0
    }

    /// Those it breaks, in the order of [`Rule::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Rule> {
        Rule::ALL
            .into_iter()
            .filter(move |rule| self.contains(*rule))
    }

    fn note(&mut self, rule: Rule, holds: bool) {
        if !holds {
            self.0 |= rule.bit();
        }
    }
}

impl FromIterator<Rule> for Broken {
    fn from_iter<I: IntoIterator<Item = Rule>>(rules: I) -> Self {
        Self(rules.into_iter().fold(0, |bits, rule| bits | rule.bit()))
    }
}

/// "next-hop, pmsi"; nothing for none.
impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, rule) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{rule}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// What the rules ask of the fabric.
pub trait GuardView {
    /// Whether an operator declared this VTEP.
    fn is_registered(&self, vtep: IpAddr) -> bool;

    /// Whether a selected type 3 has this next hop.
    fn is_announced(&self, vtep: IpAddr) -> bool;

    /// Whether this router's MAC address, announced with this next hop, is another leaf's. See
    /// [`RouterMacs::is_anothers`].
    fn is_anothers(&self, mac: Mac, vtep: IpAddr) -> bool;
}

/// The fabric as the selected routes and the declared VTEPs show it.
#[derive(Copy, Clone, Debug)]
pub struct Fabric<'a> {
    /// Who has a type 3.
    pub vteps: &'a Vteps,
    /// Whose router's MAC addresses are whose.
    pub router_macs: &'a RouterMacs,
    /// Declared VTEPs.
    pub registered: &'a BTreeSet<IpAddr>,
    /// Whose routes are judged.
    pub peer: PeerId,
}

impl GuardView for Fabric<'_> {
    fn is_registered(&self, vtep: IpAddr) -> bool {
        self.registered.contains(&vtep)
    }

    fn is_announced(&self, vtep: IpAddr) -> bool {
        self.vteps.contains(vtep)
    }

    fn is_anothers(&self, mac: Mac, vtep: IpAddr) -> bool {
        self.router_macs.is_anothers(mac, vtep, self.peer)
    }
}

/// Which rules an announcement breaks. It was admitted already; withdrawals are never judged.
///
/// A leaf that sends its types 2 before its types 3 breaks [`Rule::NextHop`] with each until the fabric
/// is seen with its first type 3: who refuses by this rule judges a new peer's routes at its End-of-RIB,
/// or registers VTEPs.
#[must_use]
pub fn check(route: &Route, attributes: &Attributes, view: &impl GuardView) -> Broken {
    let mut broken = Broken::NONE;
    let Some(vtep) = next_hop(attributes) else {
        return Broken::from_iter([Rule::NextHop]);
    };
    let own = matches!(route, Route::InclusiveMulticast(_)) && originator(route) == Some(vtep);
    let known = own || view.is_registered(vtep) || view.is_announced(vtep);
    broken.note(Rule::NextHop, known);
    let encapsulated = !has_label(route) || Encapsulation::any_with_vni(attributes);
    broken.note(Rule::Encapsulation, encapsulated);
    if let Route::InclusiveMulticast(flood) = route {
        broken.note(
            Rule::Pmsi,
            replicates(attributes, [flood.key.originator, vtep]),
        );
    }
    let mut macs = RouterMac::all(attributes).map(RouterMac::mac);
    let stolen = macs.any(|mac| view.is_anothers(mac, vtep));
    broken.note(Rule::RouterMac, !stolen);
    if let Some(originator) = originator(route) {
        broken.note(Rule::Originator, originator == vtep);
    }
    broken
}

/// Routes that say which broadcast domain, or VRF, by a label.
fn has_label(route: &Route) -> bool {
    match route {
        Route::EthernetAd(route) => !route.key.is_per_segment(),
        Route::MacIp(_) | Route::InclusiveMulticast(_) | Route::IpPrefix(_) => true,
        Route::EthernetSegment(_)
        | Route::SelectiveMulticast(_)
        | Route::MulticastJoin(_)
        | Route::MulticastLeave(_)
        | Route::RegionPmsi(_)
        | Route::SelectivePmsi(_)
        | Route::Leaf(_)
        | Route::Opaque(_) => false,
    }
}

fn originator(route: &Route) -> Option<IpAddr> {
    match route {
        Route::InclusiveMulticast(route) => Some(route.key.originator),
        Route::EthernetSegment(route) => Some(route.key.originator),
        Route::EthernetAd(_)
        | Route::MacIp(_)
        | Route::IpPrefix(_)
        | Route::SelectiveMulticast(_)
        | Route::MulticastJoin(_)
        | Route::MulticastLeave(_)
        | Route::RegionPmsi(_)
        | Route::SelectivePmsi(_)
        | Route::Leaf(_)
        | Route::Opaque(_) => None,
    }
}

fn replicates(attributes: &Attributes, ends: [IpAddr; 2]) -> bool {
    let tunnel = attributes.pmsi.as_ref().map(IngressReplication::try_from);
    match tunnel {
        Some(Ok(tunnel)) => tunnel.label != Label::ZERO && ends.contains(&tunnel.endpoint),
        Some(Err(_)) | None => false,
    }
}

#[cfg(test)]
mod tests;
