//! weft-agent: a gRIBI server that programs Linux next-hop groups and routes, and a gNMI server that shows them.
//!
//! [`Agent`] is the agent without I/O; [`gribi`] and [`gnmi`] are the gRPC servers around it; [`driver`] is the
//! task between them and a [`forwarding`] plane. The agent knows nothing of plans or topology: it
//! does what the primary client says, and leaves the switch on its own routes where it can not.
//!
//! ```text
//! Modify stream (1x per client) --+
//! Get, Flush (1x per call) -------+
//! gNMI Get, Subscribe (1x each) --+--> driver (1x): Agent --> forwarding --> kernel
//! link events, every 5 s ---------+                   ^            |
//!                                                     +------------+
//! ```

pub mod access;
pub mod agent;
pub mod conditions;
mod contents;
pub mod driver;
pub mod election;
pub mod entry;
pub mod fib;
pub mod forwarding;
pub mod gnmi;
pub mod gribi;
pub mod guardian;
pub mod instance;
pub mod listener;
pub mod marks;
pub mod openconfig;
pub mod refusal;
pub mod rib;
pub mod status;

pub use agent::Agent;
