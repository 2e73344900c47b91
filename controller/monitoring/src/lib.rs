//! What a collector is told: BMP (RFC 7854, 8671, 9069) and MRT (RFC 6396, 8050) octets from plain
//! values.
//!
//! Pure: time is an argument, and a connection is a [`station::Station`] that somebody else reads.
//! It refuses to know tables, peers' sessions, sockets and files; BGP messages come in as octets, or are
//! made by [`update`] from one route.

pub mod bmp;
pub mod mrt;
pub mod station;
pub mod timestamp;
pub mod update;
