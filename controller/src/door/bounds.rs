//! The bounds of each door. The table of `controller/README.md` has the same numbers, and a test compares them.

use std::time::Duration;

/// How many connections a door has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Name in metrics and in the log.
    pub(crate) door: &'static str,
    /// Connections in all.
    pub(crate) connections: usize,
    /// Connections of one address; IPv6 addresses of one /64 count as one.
    pub(crate) per_address: usize,
}

/// A watcher takes one connection, and there may be 10,000 of them; the rest is for everybody else. A host with 1,000 watchers has
/// some to spare.
pub(crate) const API: Bounds = Bounds {
    door: "api",
    connections: 12_000,
    per_address: 1_024,
};
/// Each of four other replicas has a stream and some five connections for calls at the leader, and again as many while it
/// restarts. In tests all of them have one address.
pub(crate) const RAFT: Bounds = Bounds {
    door: "raft",
    connections: 64,
    per_address: 64,
};
/// A scraper has one or two connections, and a load balancer or a kubelet some more for probes.
pub(crate) const METRICS: Bounds = Bounds {
    door: "metrics",
    connections: 256,
    per_address: 64,
};

/// HTTP/2 streams of one connection (RFC 9113 §5.1.2). A client that asks for more gets REFUSED_STREAM, or waits.
pub(crate) const STREAMS_MAX: u32 = 256;
/// Octets that a client of the API may send before weft reads them, on a stream and on a connection (RFC 9113 §6.9): the initial
/// window of HTTP/2. 64 MiB for all connections of one address.
pub(crate) const WINDOW: u32 = 65_535;
/// Request octets in flight over all calls of the API: some thousand usual requests.
pub(crate) const OCTETS_MAX: usize = 64 << 20;
/// Request octets in flight of one address: four of the largest messages.
pub(crate) const OCTETS_PER_ADDRESS: usize = 16 << 20;
/// A call without a body takes as much: its task, its stream and its headers.
pub(crate) const CALL_OCTETS: usize = 1 << 10;
/// Time until a connection has sent the preface of HTTP/2, or as many octets of HTTP/1. Every client does at once.
pub(crate) const FIRST_OCTETS: Duration = Duration::from_secs(5);
/// Time until the first part of an apply or of a body in JSON has come, and between parts of an apply. A long one takes its place
/// only then.
pub(crate) const PART_PATIENCE: Duration = Duration::from_secs(5);
/// A connection whose client does not answer PING for so long twice is closed (RFC 9113 §6.7).
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
