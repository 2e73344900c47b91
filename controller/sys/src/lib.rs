//! Socket options that no safe crate has (TCP-MD5, TCP-AO, the least TTL to accept), the
//! keys that go into them, listeners, and the privacy of a process. It refuses to know BGP, peers and what a connection carries.
//!
//! `options.rs` is the one file of the workspace that says `unsafe`.
//!
//! # How a key of TCP-MD5 changes without loss
//!
//! Of TCP-AO see [`tcp_ao`].
//!
//! Linux holds one MD5 key for each connection and peer, and tries no other. To change it on an
//! *established* connection takes effect with the next segment; so does to set the first one, and to
//! remove it. While only one end has changed, each drops silently what the other sends; nothing is
//! reset. When both have, the next retransmission is signed with the new key, and all octets arrive in
//! order. Retransmissions come 0.2, 0.6, 1.4, 3.0, 6.2, 12.6 s after the octets were first sent, so the
//! pause is at most twice the time between the two changes, and 0.2 s. Measured on Linux 6.18 over the
//! loopback (`tests/md5.rs`), one octet written right after the first change:
//!
//! | between the changes | arrives after the second change |
//! | --- | --- |
//! | 0.1 s | 0.10 s |
//! | 1 s | 0.67 s |
//! | 3 s | 0.30 s |
//! | 10 s | 3.25 s |
//!
//! So a rollover without loss is: set the new key on the listener (a connection has keys of its own from
//! its first segment on) and on the live connection, and have the other end do the same well within half
//! the hold time.
//!
//! Not every peer does. FRR 8.4.4 ends its session with Cease/6 when its password changes, signed with the old
//! key, and comes back with the new one. Who has changed the live connection before does not hear that, and
//! holds a dead session. So the live connection keeps the old key while the peer is heard, and goes to the
//! new one, and back, when it is not: a wrong key loses nothing.

pub use self::key::{Key, KeyError, private_file};
pub use self::listener::{Listening, listen};
pub use self::options::{md5_key, min_ttl, tcp_ao_supported};
pub use self::process::make_private;

mod key;
mod listener;
mod options;
mod process;
pub mod tcp_ao;
