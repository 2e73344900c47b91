//! What the switches of a fabric say of their interfaces, and what follows from it. It refuses to know plans, jobs, the
//! store and BGP: the declared fabric and the predicted load come in as small values of its own.
//!
//! ```text
//! gNMI server --Subscribe--> client (1x per switch) --> Mirror --> Sample, in a watch channel
//!                                                                    |
//!     lldp:      neighbours against the declared fabric  <-----------+
//!     rates:     counters -> units per second            <-----------+
//!                   |
//!     derating:  errors, discards, pause of a link       -> percent of its capacity to leave alone
//!     kept_free: what no job declares, of the uplinks    -> percent of them that pins leave alone
//!     load:      measured against predicted shares       -> Fine, Off, Held
//! ```
//!
//! [`client`] and [`connection`] alone do I/O; `trust` checks certificates, and `cause` words errors. Everything
//! else is pure: no socket, no clock, no randomness; time is an argument.

pub use self::client::{Client, Clock, Heard, Options};
pub use self::connection::{Connect, Connecting, connect_tcp, connect_tls};
pub use self::mirror::{Changed, Mirror};
pub use self::oddities::{Odd, Oddities};
pub use self::sample::{Counter, Counters, Interface, Neighbor, Sample};
pub use self::trust::Authorities;

mod cause;
pub mod client;
pub mod connection;
pub mod derating;
pub mod kept_free;
pub mod lldp;
pub mod load;
mod mirror;
mod oddities;
mod place;
pub mod rates;
mod sample;
mod subscription;
pub mod text;
mod trust;
mod value;
