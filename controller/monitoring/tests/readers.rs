//! What others read in our octets: decoders and collectors that are not ours. It refuses to look inside.
//!
//! `bgpdump`, `tshark`, `text2pcap` and `pmbmpd` come from Debian (bgpdump, tshark, wireshark-common,
//! pmacct); where one is missing its test says so on standard error and passes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[path = "readers/bgpdump.rs"]
mod bgpdump;
#[path = "readers/bgpkit.rs"]
mod bgpkit;
#[path = "readers/netgauze.rs"]
mod netgauze;
#[path = "readers/pmbmpd.rs"]
mod pmbmpd;
#[path = "readers/program.rs"]
mod program;
#[path = "readers/property.rs"]
mod property;
#[path = "readers/story.rs"]
mod story;
#[path = "readers/tshark.rs"]
mod tshark;
