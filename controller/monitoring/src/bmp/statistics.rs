//! Statistics Report: counts of one peer. It refuses to know who counts.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use bytes::{BufMut, BytesMut};
use weft_bgp::family::Family;

use super::{PeerHeader, Policy, STATISTICS_REPORT, message, tlv};

/// One count. Counters grow from the session's start, 32 bits; gauges say how many there are now, 64
/// bits. RFC 7854 §4.8, RFC 8671 §6.2.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Statistic {
    /// Prefixes rejected by inbound policy (type 0).
    RejectedByPolicy(u32),
    /// Prefixes announced again without a change (1).
    DuplicateAnnouncements(u32),
    /// Withdrawals of what was not there (2).
    DuplicateWithdrawals(u32),
    /// Updates invalidated by our own cluster in CLUSTER_LIST (3).
    ClusterListLoops(u32),
    /// By our own AS in AS_PATH (4).
    AsPathLoops(u32),
    /// By our own router id in ORIGINATOR_ID (5).
    OriginatorLoops(u32),
    /// Routes in all Adj-RIBs-In (7).
    AdjRibIn(u64),
    /// Routes in Loc-RIB (8).
    LocRib(u64),
    /// Routes in the Adj-RIB-In of a family (9).
    AdjRibInOf(Family, u64),
    /// Routes in the Loc-RIB of a family (10).
    LocRibOf(Family, u64),
    /// Updates treated as withdrawals (11). RFC 7606.
    UpdatesTreatedAsWithdraw(u32),
    /// Prefixes treated as withdrawals (12).
    PrefixesTreatedAsWithdraw(u32),
    /// Updates received twice (13).
    DuplicateUpdates(u32),
    /// Routes in all Adj-RIBs-Out (14, 15).
    AdjRibOut(Policy, u64),
    /// Routes in the Adj-RIB-Out of a family (16, 17).
    AdjRibOutOf(Policy, Family, u64),
}

/// Appends a Statistics Report. RFC 7854 §4.8. An empty one is legal and says nothing.
pub fn statistics(out: &mut BytesMut, header: &PeerHeader, statistics: &[Statistic]) {
    let count = u32::try_from(statistics.len()).expect("statistics are fewer than octets");
    message(out, STATISTICS_REPORT, |out| {
        header.of_session().encode(out);
        out.put_u32(count);
        for statistic in statistics {
            statistic.encode(out);
        }
    });
}

impl Statistic {
    fn encode(self, out: &mut BytesMut) {
        let counter = |out: &mut BytesMut, kind, value: u32| tlv(out, kind, &value.to_be_bytes());
        let gauge = |out: &mut BytesMut, kind, value: u64| tlv(out, kind, &value.to_be_bytes());
        match self {
            Self::RejectedByPolicy(value) => counter(out, 0, value),
            Self::DuplicateAnnouncements(value) => counter(out, 1, value),
            Self::DuplicateWithdrawals(value) => counter(out, 2, value),
            Self::ClusterListLoops(value) => counter(out, 3, value),
            Self::AsPathLoops(value) => counter(out, 4, value),
            Self::OriginatorLoops(value) => counter(out, 5, value),
            Self::AdjRibIn(value) => gauge(out, 7, value),
            Self::LocRib(value) => gauge(out, 8, value),
            Self::AdjRibInOf(family, value) => gauge_of(out, 9, family, value),
            Self::LocRibOf(family, value) => gauge_of(out, 10, family, value),
            Self::UpdatesTreatedAsWithdraw(value) => counter(out, 11, value),
            Self::PrefixesTreatedAsWithdraw(value) => counter(out, 12, value),
            Self::DuplicateUpdates(value) => counter(out, 13, value),
            Self::AdjRibOut(Policy::Pre, value) => gauge(out, 14, value),
            Self::AdjRibOut(Policy::Post, value) => gauge(out, 15, value),
            Self::AdjRibOutOf(Policy::Pre, family, value) => gauge_of(out, 16, family, value),
            Self::AdjRibOutOf(Policy::Post, family, value) => gauge_of(out, 17, family, value),
        }
    }
}

/// AFI (2), SAFI (1), gauge (8).
fn gauge_of(out: &mut BytesMut, kind: u16, family: Family, value: u64) {
    let [a, b] = family.afi.to_be_bytes();
    let [c, d, e, f, g, h, i, j] = value.to_be_bytes();
    tlv(out, kind, &[a, b, family.safi, c, d, e, f, g, h, i, j]);
}
