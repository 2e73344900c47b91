//! Bidirectional Forwarding Detection in asynchronous mode: RFC 5880 over one hop (RFC 5881) and over
//! many (RFC 5883). It refuses to know BGP and what its user does when a path fails. Authentication,
//! demand mode and the echo function are not offered.
//!
//! ```text
//! packet    octets <-> control packets                          pure
//! session   packets and the time -> packets, one status, one deadline    pure
//! service   sockets, the clock, one thread for all sessions     1x per daemon
//! ```

pub mod packet;

pub use self::packet::{Diagnostic, Discriminator};
