//! Bidirectional Forwarding Detection in asynchronous mode: RFC 5880, over one hop (RFC 5881) and over
//! many (RFC 5883). It refuses to know BGP, and what its user does when a path fails. Authentication,
//! demand mode of our own and the echo function are not offered.
//!
//! ```text
//! packet    octets <-> control packets                                  pure
//! session   packets and the time -> packets, one status, one deadline   pure
//! service   sockets, the clock, one thread for all sessions             1x per daemon
//! link      whether two addresses are one hop apart
//! ```

pub use self::packet::{Diagnostic, Discriminator, State};
pub use self::service::{Config, Counters, Service, Watch, WatchError};
pub use self::session::{Status, Timers};

pub mod link;
pub mod packet;
mod service;
pub mod session;
