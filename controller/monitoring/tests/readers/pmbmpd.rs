//! pmacct's pmbmpd, a live collector.
