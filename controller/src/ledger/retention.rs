//! How long the paths of a peer outlive its last session, as a fact: RFC 4724 and RFC 9494. Knows no
//! clock; who leads measures the time.

use std::fmt;

use bytes::{BufMut, BytesMut};
use weft_bgp::family::Family;

/// A peer whose last session ended in a way that its restart capability covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How stale its paths are.
    pub phase: Phase,
    /// Seconds that `Phase::Graceful` lasts, from its begin. RFC 4724 §3.
    pub restart_secs: u16,
    /// Families whose paths stay, and the seconds that each is to stay in `Phase::LongLived`, from its
    /// begin; zero: its paths go with the end of `Phase::Graceful`. RFC 9494 §3.1.
    pub families: Vec<(Family, u32)>,
}

/// How stale retained paths are.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// RFC 4724 §4.2: as good as before.
    Graceful,
    /// RFC 9494 §4.2: the last choice, and marked.
    LongLived,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Graceful => "stale",
            Self::LongLived => "long-lived stale",
        })
    }
}

impl Retention {
    /// Whether paths of `family` stay.
    pub fn covers(&self, family: Family) -> bool {
        self.families.iter().any(|(covered, _)| *covered == family)
    }

    /// Seconds of `Phase::LongLived` that `family` has, if its paths stay.
    pub fn stale_secs(&self, family: Family) -> Option<u32> {
        let mut covered = self.families.iter().filter(|(it, _)| *it == family);
        covered.next().map(|(_, secs)| *secs)
    }

    /// The same, of these families only; `None` if that is none.
    pub fn only(&self, mut kept: impl FnMut(Family) -> bool) -> Option<Self> {
        let families = self.families.iter().filter(|(family, _)| kept(*family));
        let families: Vec<_> = families.copied().collect();
        (!families.is_empty()).then_some(Self {
            families,
            ..self.clone()
        })
    }

    /// The same after so many seconds of `Phase::LongLived`; the time of `Phase::Graceful` does not count.
    pub fn after(&self, secs: u32) -> Self {
        let mut left = self.clone();
        if left.phase == Phase::LongLived {
            let families = left.families.iter_mut();
            families.for_each(|(_, left)| *left = left.saturating_sub(secs));
        }
        left
    }

    /// Seconds from the begin of this state to the next.
    pub fn lasts_secs(&self) -> u64 {
        match self.phase {
            Phase::Graceful => self.restart_secs.into(),
            Phase::LongLived => {
                let shortest = self.families.iter().map(|(_, secs)| *secs).min();
                shortest.unwrap_or_default().into()
            }
        }
    }

    /// What follows when [`Retention::lasts_secs`] are over; `None`: nothing of the peer stays.
    pub fn next(&self) -> Option<Self> {
        let elapsed = match self.phase {
            Phase::Graceful => 0,
            Phase::LongLived => u32::try_from(self.lasts_secs()).unwrap_or(u32::MAX),
        };
        let left = self.families.iter().filter_map(|(family, secs)| {
            let secs = secs.checked_sub(elapsed).filter(|secs| *secs > 0)?;
            Some((*family, secs))
        });
        let families: Vec<_> = left.collect();
        (!families.is_empty()).then_some(Self {
            phase: Phase::LongLived,
            restart_secs: 0,
            families,
        })
    }

    /// Octets: phase(1) restart-secs(2), then afi(2) safi(1) stale-secs(4) for each family.
    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_u8(match self.phase {
            Phase::Graceful => 1,
            Phase::LongLived => 2,
        });
        out.put_u16(self.restart_secs);
        for (family, secs) in &self.families {
            out.put_u16(family.afi);
            out.put_u8(family.safi);
            out.put_u32(*secs);
        }
    }

    /// Reads what [`Retention::encode`] wrote.
    pub(super) fn decode(octets: &[u8]) -> Option<Self> {
        let ([phase, high, low], families) = octets.split_first_chunk::<3>()?;
        let phase = match phase {
            1 => Phase::Graceful,
            2 => Phase::LongLived,
            _ => return None,
        };
        let (families, []) = families.as_chunks::<7>() else {
            return None;
        };
        let family = |[a, b, safi, w, x, y, z]: &[u8; 7]| {
            let family = Family {
                afi: u16::from_be_bytes([*a, *b]),
                safi: *safi,
            };
            (family, u32::from_be_bytes([*w, *x, *y, *z]))
        };
        Some(Self {
            phase,
            restart_secs: u16::from_be_bytes([*high, *low]),
            families: families.iter().map(family).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graceful(families: &[(Family, u32)]) -> Retention {
        Retention {
            phase: Phase::Graceful,
            restart_secs: 120,
            families: families.to_vec(),
        }
    }

    #[test]
    fn it_survives_a_round_trip() {
        let retention = graceful(&[(Family::L2VPN_EVPN, 3600), (Family::IPV4_UNICAST, 0)]);
        let mut octets = BytesMut::new();
        retention.encode(&mut octets);
        assert_eq!(Retention::decode(&octets), Some(retention));
        assert_eq!(Retention::decode(&octets[..9]), None);
        assert_eq!(Retention::decode(b"\x09\0\0"), None);
    }

    #[test]
    fn each_family_stays_as_long_as_it_was_promised() {
        let first = graceful(&[
            (Family::L2VPN_EVPN, 100),
            (Family::IPV4_UNICAST, 0),
            (Family::IPV6_UNICAST, 30),
        ]);
        assert_eq!(first.lasts_secs(), 120);
        let second = first.next().unwrap();
        assert_eq!(second.phase, Phase::LongLived);
        assert!(!second.covers(Family::IPV4_UNICAST));
        assert_eq!(second.lasts_secs(), 30);
        let third = second.next().unwrap();
        assert_eq!(third.families, [(Family::L2VPN_EVPN, 70)]);
        assert_eq!(third.lasts_secs(), 70);
        assert_eq!(third.next(), None);
    }

    #[test]
    fn without_long_lived_nothing_follows() {
        assert_eq!(graceful(&[(Family::L2VPN_EVPN, 0)]).next(), None);
    }
}
