//! AS_PATH, AS4_PATH and how the two become one. Knows no policy.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;

use crate::error::{DecodeError, Fault};
use crate::wire::{Reader, Writer};

/// The ASes a route came through, nearest first. RFC 4271 §5.1.2.
///
/// ```text
/// +-- 1 --+-- 1 --+-- 2 or 4 --+-- ...
/// | kind  | count | AS number  |            once per segment
/// +-------+-------+------------+-- ...
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AsPath {
    /// Segments, nearest first; none is empty or longer than 255.
    pub segments: Vec<Segment>,
}

/// A run of AS numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Ordered or not, of a confederation or not.
    pub kind: SegmentKind,
    /// 1 to 255 AS numbers.
    pub asns: Vec<u32>,
}

/// RFC 4271 §4.3, RFC 5065 §3.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// 1, unordered.
    Set,
    /// 2, ordered.
    Sequence,
    /// 3, ordered, members of our confederation.
    ConfedSequence,
    /// 4, unordered, members of our confederation.
    ConfedSet,
}

/// Stands for an AS number that does not fit two octets. RFC 6793 §9.
pub const AS_TRANS: u16 = 23_456;

/// More numbers than any real path has by far; a longer one is treated as withdrawn, so that a
/// path always fits a message together with its routes.
pub const AS_PATH_MAX: usize = 512;

impl SegmentKind {
    /// The octet on the wire.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Set => 1,
            Self::Sequence => 2,
            Self::ConfedSequence => 3,
            Self::ConfedSet => 4,
        }
    }

    /// The kind with this octet.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Set),
            2 => Some(Self::Sequence),
            3 => Some(Self::ConfedSequence),
            4 => Some(Self::ConfedSet),
            _ => None,
        }
    }

    fn is_confederation(self) -> bool {
        match self {
            Self::Set | Self::Sequence => false,
            Self::ConfedSequence | Self::ConfedSet => true,
        }
    }
}

impl Segment {
    /// What it counts for. RFC 4271 §9.1.2.2 (a), RFC 5065 §5.3.
    fn length(&self) -> usize {
        match self.kind {
            SegmentKind::Set => 1,
            SegmentKind::Sequence => self.asns.len(),
            SegmentKind::ConfedSequence | SegmentKind::ConfedSet => 0,
        }
    }
}

impl AsPath {
    /// A path of one sequence; empty when there are no numbers.
    #[must_use]
    pub fn sequence(asns: &[u32]) -> Self {
        let segments = asns
            .chunks(SEGMENT_MAX)
            .map(|asns| Segment {
                kind: SegmentKind::Sequence,
                asns: asns.to_vec(),
            })
            .collect();
        Self { segments }
    }

    /// Length for the decision: a set counts one, a confederation nothing. RFC 4271 §9.1.2.2 (a).
    #[must_use]
    pub fn length(&self) -> usize {
        self.segments.iter().map(Segment::length).sum()
    }

    /// Whether there is no segment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether it has more numbers than [`AS_PATH_MAX`], so that it could not be read again.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        let numbers = self.segments.iter().map(|segment| segment.asns.len());
        numbers.sum::<usize>() > AS_PATH_MAX
    }

    /// The AS that the route was learned from, for comparing MEDs: the first number when the path
    /// begins with a sequence. RFC 4271 §9.1.2.2 (c). Confederation segments are skipped.
    #[must_use]
    pub fn neighbor_as(&self) -> Option<u32> {
        let first = self
            .segments
            .iter()
            .find(|segment| !segment.kind.is_confederation())?;
        match first.kind {
            SegmentKind::Sequence => first.asns.first().copied(),
            SegmentKind::Set | SegmentKind::ConfedSequence | SegmentKind::ConfedSet => None,
        }
    }

    /// Whether `asn` stands anywhere in it: a loop, if it is ours. RFC 4271 §9.1.2.
    #[must_use]
    pub fn contains(&self, asn: u32) -> bool {
        self.segments
            .iter()
            .any(|segment| segment.asns.contains(&asn))
    }

    /// Whether its order is lost somewhere: nobody may announce such a path any more. RFC 9774 §3.
    #[must_use]
    pub fn has_set(&self) -> bool {
        self.segments.iter().any(|segment| match segment.kind {
            SegmentKind::Set | SegmentKind::ConfedSet => true,
            SegmentKind::Sequence | SegmentKind::ConfedSequence => false,
        })
    }

    /// Without the segments that have a meaning only inside a confederation. RFC 5065 §4.1 (c).
    #[must_use]
    pub fn outside_confederation(&self) -> Self {
        let outside = |segment: &&Segment| !segment.kind.is_confederation();
        Self {
            segments: self.segments.iter().filter(outside).cloned().collect(),
        }
    }

    /// Puts `asn` in front. RFC 4271 §5.1.2 (b).
    pub fn prepend(&mut self, asn: u32) {
        match self.segments.first_mut() {
            Some(first)
                if first.kind == SegmentKind::Sequence && first.asns.len() < SEGMENT_MAX =>
            {
                first.asns.insert(0, asn);
            }
            _ => {
                let first = Segment {
                    kind: SegmentKind::Sequence,
                    asns: vec![asn],
                };
                self.segments.insert(0, first);
            }
        }
    }

    /// Whether some number does not fit two octets.
    pub(crate) fn needs_four_octets(&self) -> bool {
        self.segments
            .iter()
            .flat_map(|segment| &segment.asns)
            .any(|&asn| u16::try_from(asn).is_err())
    }

    /// All of `reader`. RFC 7606 §7.2: an unknown kind, an empty segment and an overrun are
    /// malformed; RFC 7607: so is AS 0. Confederation segments only come from inside (RFC 5065 §4).
    pub(crate) fn decode(
        reader: &mut Reader<'_>,
        four_octets: bool,
        confederation: bool,
    ) -> Result<Self, DecodeError> {
        let mut segments = Vec::new();
        let mut total = 0_usize;
        while !reader.is_empty() {
            let start = reader.error(Fault::AsPath);
            let kind = SegmentKind::from_code(reader.u8()?).ok_or(start)?;
            let count = usize::from(reader.u8()?);
            total = total.saturating_add(count);
            if count == 0 || (kind.is_confederation() && !confederation) {
                return Err(start);
            }
            if total > AS_PATH_MAX {
                return Err(DecodeError {
                    fault: Fault::AsPathTooLong,
                    ..start
                });
            }
            let width = if four_octets { 4 } else { 2 };
            let mut numbers = reader.sub(count.saturating_mul(width))?;
            let mut asns = Vec::with_capacity(count);
            while !numbers.is_empty() {
                let zero = numbers.error(Fault::AsPathZero);
                let asn = if four_octets {
                    numbers.u32()?
                } else {
                    numbers.u16()?.into()
                };
                asns.push(if asn == 0 { return Err(zero) } else { asn });
            }
            segments.push(Segment { kind, asns });
        }
        Ok(Self { segments })
    }

    pub(crate) fn encode(&self, out: &mut Writer, four_octets: bool) {
        for segment in &self.segments {
            segment.encode(out, four_octets);
        }
    }

    /// As AS4_PATH, which has no confederation segments. RFC 6793 §4.2.2.
    pub(crate) fn encode_as4(&self, out: &mut Writer) {
        for segment in self
            .segments
            .iter()
            .filter(|segment| !segment.kind.is_confederation())
        {
            segment.encode(out, true);
        }
    }

    /// The true path, from AS_PATH (`self`) and AS4_PATH of a two-octet speaker: AS4_PATH behind
    /// what AS_PATH has more. RFC 6793 §4.2.3.
    pub(crate) fn merge(self, mut as4_path: Self) -> Self {
        as4_path
            .segments
            .retain(|segment| !segment.kind.is_confederation());
        let Some(mut missing) = self.length().checked_sub(as4_path.length()) else {
            return self;
        };
        let mut segments = Vec::with_capacity(self.segments.len());
        for mut segment in self.segments {
            if missing == 0 && !segment.kind.is_confederation() {
                break;
            }
            if segment.kind == SegmentKind::Sequence {
                segment.asns.truncate(missing);
            }
            missing = missing.saturating_sub(segment.length());
            segments.push(segment);
        }
        let mut rest = as4_path.segments.into_iter().peekable();
        if let (Some(last), Some(first)) = (segments.last_mut(), rest.peek())
            && last.joins(first)
        {
            last.asns
                .extend(rest.next().into_iter().flat_map(|first| first.asns));
        }
        segments.extend(rest);
        Self { segments }
    }
}

impl Segment {
    fn encode(&self, out: &mut Writer, four_octets: bool) {
        out.u8(self.kind.code());
        out.u8(u8::try_from(self.asns.len()).expect("a segment has at most 255 numbers"));
        for &asn in &self.asns {
            if four_octets {
                out.u32(asn);
            } else {
                out.u16(u16::try_from(asn).unwrap_or(AS_TRANS));
            }
        }
    }

    fn joins(&self, next: &Self) -> bool {
        let sequences = self.kind == SegmentKind::Sequence && next.kind == SegmentKind::Sequence;
        sequences && self.asns.len().saturating_add(next.asns.len()) <= SEGMENT_MAX
    }
}

/// As FRR writes it: sequences bare, sets in braces, confederations in parentheses and brackets.
impl fmt::Display for AsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.segments.iter().enumerate() {
            let (open, separator, close) = match segment.kind {
                SegmentKind::Sequence => ("", " ", ""),
                SegmentKind::Set => ("{", ",", "}"),
                SegmentKind::ConfedSequence => ("(", " ", ")"),
                SegmentKind::ConfedSet => ("[", ",", "]"),
            };
            if index > 0 {
                f.write_str(" ")?;
            }
            f.write_str(open)?;
            for (index, asn) in segment.asns.iter().enumerate() {
                f.write_str(if index > 0 { separator } else { "" })?;
                write!(f, "{asn}")?;
            }
            f.write_str(close)?;
        }
        Ok(())
    }
}

/// The count of a segment is one octet.
const SEGMENT_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(kind: SegmentKind, asns: &[u32]) -> Segment {
        Segment {
            kind,
            asns: asns.to_vec(),
        }
    }

    #[test]
    fn a_set_counts_one_and_a_confederation_nothing() {
        let path = AsPath {
            segments: vec![
                segment(SegmentKind::ConfedSequence, &[65_001, 65_002]),
                segment(SegmentKind::Sequence, &[64_496, 64_497]),
                segment(SegmentKind::Set, &[1, 2, 3]),
                segment(SegmentKind::ConfedSet, &[4]),
            ],
        };
        assert_eq!(path.length(), 3);
        assert_eq!(path.neighbor_as(), Some(64_496));
        assert!(path.contains(3) && path.contains(65_002) && !path.contains(5));
        assert_eq!(path.to_string(), "(65001 65002) 64496 64497 {1,2,3} [4]");
        assert_eq!(
            AsPath {
                segments: vec![segment(SegmentKind::Set, &[1])]
            }
            .neighbor_as(),
            None
        );
        assert_eq!(AsPath::default().neighbor_as(), None);
    }

    #[test]
    fn prepending_begins_a_segment_where_there_is_no_room() {
        let mut path = AsPath::default();
        path.prepend(1);
        path.prepend(2);
        assert_eq!(path, AsPath::sequence(&[2, 1]));
        let mut path = AsPath::sequence(&[1; 255]);
        path.prepend(2);
        assert_eq!((path.segments.len(), path.length()), (2, 256));
        let mut path = AsPath {
            segments: vec![segment(SegmentKind::Set, &[1])],
        };
        path.prepend(2);
        assert_eq!(path.to_string(), "2 {1}");
    }

    #[test]
    fn merging_keeps_the_segments_of_the_true_path() {
        let true_path = AsPath {
            segments: vec![
                segment(SegmentKind::Sequence, &[65_550]),
                segment(SegmentKind::Sequence, &[65_551]),
            ],
        };
        assert_eq!(
            AsPath::sequence(&[1, 2]).merge(true_path.clone()),
            true_path
        );
        let longer = AsPath::sequence(&[9, 1, 2]).merge(true_path);
        assert_eq!(longer.to_string(), "9 65550 65551");
    }
}
