//! The EVPN family: routes of types 1 to 11, their extended communities and PMSI, MAC mobility, what
//! may be admitted, what a peer can take, and which VTEP is a member of which VNI. RFC 7432, RFC 8365, RFC
//! 9135, RFC 9136, RFC 9251, RFC 9572.
//!
//! It plugs into `weft_bgp` by [`weft_bgp::nlri::Nlri`] for [`route::Route`]. It knows no session, no
//! storage and no tenant: who may say what is decided elsewhere, here only what can be true at all.

pub mod admission;
pub mod community;
pub mod designated_forwarder;
pub mod esi;
pub mod guard;
pub mod limits;
pub mod mac;
mod mobility;
pub mod moves;
pub mod neighbor;
pub mod pmsi;
pub mod profile;
pub mod route;
pub mod segment;
pub mod vni;
pub mod vtep;

pub use esi::Esi;
pub use mac::Mac;
pub use route::{Route, RouteKey};
pub use vni::{EthernetTag, Label, Vni};
