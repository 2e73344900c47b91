//! BGP-4 without I/O: octets, sessions, tables, decision, reflection, update groups.
//!
//! This crate knows no socket, clock, thread or random number, and neither Raft nor EVPN: a family
//! reaches it through [`nlri::Nlri`]. Octets go in through [`frame::split`] and
//! [`message::Message::decode`], and come out of [`message::Message::encode`].

pub mod attribute;
pub mod capability;
pub mod constrain;
pub mod decision;
pub mod error;
pub mod family;
pub mod frame;
pub mod iana;
pub mod intern;
pub mod message;
pub mod nlri;
pub mod peer;
pub mod rd;
pub mod reflect;
pub mod session;
pub mod table;
pub mod update_group;
pub mod wire;
