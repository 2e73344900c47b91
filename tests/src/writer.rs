//! `speaker::writer` without its socket: one member's place in its group's journal. Knows cursors and
//! audiences, not what a frame says.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use weft_bgp::constrain::Interest;
use weft_bgp::peer::PeerId;
use weft_bgp::update_group::Segment;
use weft_bgp::update_group::journal::{Cursor, Journal, Read};
use weft_controller::reflector::families::GroupId;

/// Where a member begins, or goes on.
pub(crate) struct Stream {
    pub(crate) group: GroupId,
    pub(crate) image: Arc<Segment>,
    pub(crate) cursor: Cursor,
    /// Written once after the image.
    pub(crate) end_of_rib: Option<Bytes>,
    /// The member wants to hear again what it may know already. RFC 2918.
    pub(crate) again: bool,
}

/// The writer of one connection.
#[derive(Default)]
pub(crate) struct Writer {
    active: Option<Active>,
}

struct Active {
    group: GroupId,
    cursor: Cursor,
    end_of_rib: Option<Bytes>,
    /// Written before the journal goes on.
    pending: VecDeque<Pending>,
    /// To be said again between two segments, and up to where the journal was then.
    again: Option<(Arc<Segment>, Cursor)>,
    /// What was said again is complete once the journal was written up to here; the next repeat waits for that.
    repeated: Option<Cursor>,
    revision: u64,
    lagged: bool,
}

struct Pending {
    segment: Arc<Segment>,
    next_frame: usize,
    /// Who has read it knows everything up to its revision.
    tells_all: bool,
}

impl Writer {
    /// Begins, goes on elsewhere after a lag, or says everything again. An image withdraws nothing, so the journal must
    /// not be skipped, nor wait for ever behind one repeat after the other.
    pub(crate) fn begin(&mut self, stream: Stream) {
        let pending = Pending {
            segment: stream.image,
            next_frame: 0,
            tells_all: true,
        };
        match &mut self.active {
            Some(active) if stream.again => active.again = Some((pending.segment, stream.cursor)),
            Some(active) => {
                active.pending.push_back(pending);
                active.cursor = stream.cursor;
                active.repeated = None;
                active.lagged = false;
            }
            None => {
                self.active = Some(Active {
                    group: stream.group,
                    cursor: stream.cursor,
                    end_of_rib: stream.end_of_rib,
                    pending: VecDeque::from([pending]),
                    again: None,
                    repeated: None,
                    revision: 0,
                    lagged: false,
                });
            }
        }
    }

    /// Up to `room` messages for `peer`; the revision known when it has just fallen off its journal.
    pub(crate) fn fill(
        &mut self,
        journals: &BTreeMap<GroupId, Journal>,
        peer: PeerId,
        mut room: usize,
        out: &mut Vec<Bytes>,
    ) -> Option<u64> {
        let active = self.active.as_mut()?;
        while room > 0 {
            let Some(pending) = active.pending.front_mut() else {
                if active.lagged {
                    return None;
                }
                active.repeated.take_if(|at| active.cursor >= *at);
                if active.repeated.is_none()
                    && let Some((segment, complete)) = active.again.take()
                {
                    // It may be older than what was written since, which is written once more then.
                    active.repeated = Some(complete.max(active.cursor));
                    active.cursor = complete.min(active.cursor);
                    active.revision = active.revision.min(segment.revision.max(1));
                    active.pending.push_back(Pending {
                        segment,
                        next_frame: 0,
                        tells_all: false,
                    });
                    continue;
                }
                match journals.get(&active.group)?.read(&mut active.cursor) {
                    Read::Segment(segment) => active.pending.push_back(Pending {
                        segment,
                        next_frame: 0,
                        tells_all: true,
                    }),
                    Read::Empty => return None,
                    Read::Lagged => {
                        active.lagged = true;
                        return Some(active.revision);
                    }
                }
                continue;
            };
            let Some(frame) = pending.segment.frames.get(pending.next_frame) else {
                if pending.tells_all {
                    active.revision = pending.segment.revision;
                    out.extend(active.end_of_rib.take());
                }
                active.pending.pop_front();
                continue;
            };
            pending.next_frame += 1;
            let concerned = frame.concerns.includes(&Interest::Everything);
            if frame.audience.includes(peer) && concerned {
                room -= 1;
                out.push(frame.octets.clone());
            }
        }
        None
    }
}
