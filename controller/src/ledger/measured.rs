//! The octets of what the leader decided from what it measured. A derating: `version(1) percent(1) cause(1)`. Why weights carry
//! a job: `version(1) percent(2) fingerprint(8) leaf`. What a leaf keeps free: `version(1) percent(1)`.

use bytes::{BufMut, Bytes, BytesMut};
use weft_telemetry::derating::{Cause, Decision, PERCENT_MAX};
use weft_telemetry::kept_free;

use crate::fabric::measured::OffPlan;

/// The octets of a derating.
pub fn encode_derating(decision: Decision) -> Bytes {
    let cause = match decision.cause {
        None => 0,
        Some(Cause::Errors) => 1,
        Some(Cause::Discards) => 2,
        Some(Cause::Pause) => 3,
    };
    Bytes::copy_from_slice(&[VERSION, decision.derating_percent, cause])
}

/// Reads a derating; `None` if no version of weft that this one knows wrote it.
pub fn decode_derating(value: &[u8]) -> Option<Decision> {
    let [VERSION, derating_percent, cause] = *value else {
        return None;
    };
    let cause = match cause {
        0 => None,
        1 => Some(Cause::Errors),
        2 => Some(Cause::Discards),
        3 => Some(Cause::Pause),
        _ => return None,
    };
    (derating_percent <= PERCENT_MAX).then_some(Decision {
        derating_percent,
        cause,
    })
}

/// The octets of why weights carry a job.
pub fn encode_off_plan(why: &OffPlan) -> Bytes {
    let leaf = why.leaf.as_str();
    let mut octets = BytesMut::with_capacity(11 + leaf.len());
    octets.put_u8(VERSION);
    octets.put_u16(why.percent);
    octets.put_u64(why.fingerprint);
    octets.put_slice(leaf.as_bytes());
    octets.freeze()
}

/// Reads why weights carry a job; `None` if no version of weft that this one knows wrote it.
pub fn decode_off_plan(value: &[u8]) -> Option<OffPlan> {
    let (&[VERSION, high, low], rest) = value.split_first_chunk()? else {
        return None;
    };
    let (fingerprint, leaf) = rest.split_first_chunk()?;
    Some(OffPlan {
        leaf: std::str::from_utf8(leaf).ok()?.into(),
        percent: u16::from_be_bytes([high, low]),
        fingerprint: u64::from_be_bytes(*fingerprint),
    })
}

/// The octets of what a leaf keeps free, in percent.
pub fn encode_kept_free(percent: u8) -> Bytes {
    Bytes::copy_from_slice(&[VERSION, percent])
}

/// Reads what a leaf keeps free, in percent; `None` if no version of weft that this one knows wrote it.
pub fn decode_kept_free(value: &[u8]) -> Option<u8> {
    let [VERSION, percent] = *value else {
        return None;
    };
    (percent <= kept_free::PERCENT_MAX).then_some(percent)
}

const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_survives_a_round_trip() {
        let causes = [Cause::Errors, Cause::Discards, Cause::Pause].map(Some);
        for cause in causes.into_iter().chain([None]) {
            let decision = Decision {
                derating_percent: 50,
                cause,
            };
            let octets = encode_derating(decision);
            assert_eq!(decode_derating(&octets), Some(decision));
        }
        let why = OffPlan {
            leaf: "leaf1".into(),
            percent: 23,
            fingerprint: 0x0123_4567_89ab_cdef,
        };
        assert_eq!(decode_off_plan(&encode_off_plan(&why)), Some(why));
        for percent in [0, 10, kept_free::PERCENT_MAX] {
            assert_eq!(decode_kept_free(&encode_kept_free(percent)), Some(percent));
        }
    }

    #[test]
    fn what_is_of_a_later_version_or_no_decision_is_not_understood() {
        for octets in [
            &[][..],
            &[1, 25],
            &[1, 25, 9],
            &[1, 99, 1],
            &[2, 25, 1],
            &[1, 25, 1, 0],
        ] {
            assert_eq!(decode_derating(octets), None);
        }
        let long = [&[1; 11][..], &[0xff]].concat();
        for octets in [&[][..], &[1, 0], &[2; 12], &[1; 10], &long] {
            assert_eq!(decode_off_plan(octets), None);
        }
        for octets in [&[][..], &[1], &[1, 51], &[1, 255], &[2, 10], &[1, 10, 0]] {
            assert_eq!(decode_kept_free(octets), None);
        }
    }
}
