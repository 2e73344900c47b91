//! Packs NLRI with equal attributes and audience into as few UPDATE messages as they fit. RFC 4271 §4.3, RFC 4760.
//!
//! It does not know why something is announced or withdrawn, nor what an NLRI is: octets that must not be cut.
//!
//! ```text
//! MP_REACH_NLRI                                   classic, IPv4 unicast with an IPv4 next hop
//! 19  header                                      19  header
//!  2  0, withdrawn routes length                   2  0, withdrawn routes length
//!  2  total path attribute length                  2  total path attribute length
//!  4  0x90, 14, length                             n  path attributes with NEXT_HOP
//!  3  AFI, SAFI                                    n  NLRI
//!  1  next hop length
//!  n  next hop                                    MP_UNREACH_NLRI
//!  1  0, reserved                                 19  header
//!  n  NLRI                                         2  0, withdrawn routes length
//!  n  the other path attributes                    2  total path attribute length
//!                                                  4  0x90, 15, length
//! withdrawn routes, IPv4 unicast                   3  AFI, SAFI
//! 19  header                                       n  NLRI
//!  2  withdrawn routes length
//!  n  NLRI
//!  2  0, total path attribute length
//! ```
//! The MP attribute is the first one: RFC 7606 §5.1.

use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{Audience, Concerns, Frame, Offer, Segment};
use crate::constrain::Targets;
use crate::family::Family;
use crate::frame::{HEADER_LEN, MARKER};
use crate::message::MessageKind;
use crate::wire::Writer;

/// Messages being filled, and those that are full.
pub(super) struct Packer {
    family: Family,
    max_len: u16,
    announcements: HashMap<(usize, Audience), usize, FixedState>,
    /// The run that was announced in last: NLRI that came in one UPDATE follow each other.
    last: Option<((usize, Audience), usize)>,
    withdrawals: HashMap<Audience, usize, FixedState>,
    losses: HashMap<(Audience, Targets, Targets), usize, FixedState>,
    runs: Vec<Run>,
    out: Output,
}

/// NLRI that go into one message, as long as there is room.
struct Run {
    says: Says,
    audience: Audience,
    concerns: Concerns,
    nlri: Writer,
    count: u32,
    room: usize,
}

enum Says {
    Announce(Arc<Offer>),
    Withdraw,
}

/// Finished messages, many in a buffer.
struct Output {
    buffer: Writer,
    capacity_left: usize,
    expected: usize,
    frames: Vec<Frame>,
    octets_len: usize,
}

impl Packer {
    /// `routes` is how many are expected.
    pub(super) fn new(family: Family, max_len: u16, routes: usize) -> Self {
        Self {
            family,
            max_len,
            announcements: HashMap::default(),
            last: None,
            withdrawals: HashMap::default(),
            losses: HashMap::default(),
            runs: Vec::new(),
            out: Output {
                buffer: Writer::new(),
                capacity_left: 0,
                expected: routes.saturating_mul(OCTETS_PER_ROUTE),
                frames: Vec::new(),
                octets_len: 0,
            },
        }
    }

    /// An NLRI is announced with these attributes.
    pub(super) fn announce(
        &mut self,
        offer: &Arc<Offer>,
        audience: Audience,
        encode: impl FnOnce(&mut Writer),
    ) {
        // The run holds the offer, so its address stays its own.
        let place = (Arc::as_ptr(offer).addr(), audience);
        let run = match self.last {
            Some((last, run)) if last == place => run,
            Some(_) | None => self.run(offer, place),
        };
        self.last = Some((place, run));
        self.push(run, encode);
    }

    fn run(&mut self, offer: &Arc<Offer>, place: (usize, Audience)) -> usize {
        let (runs, room) = (&mut self.runs, room(offer, self.max_len));
        *self.announcements.entry(place).or_insert_with(|| {
            let says = Says::Announce(Arc::clone(offer));
            let concerns = match offer.targets.is_empty() {
                true => Concerns::All,
                false => Concerns::Wanting(offer.targets.clone()),
            };
            open(runs, says, (place.1, concerns), room)
        })
    }

    /// An NLRI is withdrawn.
    pub(super) fn withdraw(&mut self, audience: Audience, encode: impl FnOnce(&mut Writer)) {
        let (runs, room) = (&mut self.runs, room_to_withdraw(self.family, self.max_len));
        let run = *self
            .withdrawals
            .entry(audience)
            .or_insert_with(|| open(runs, Says::Withdraw, (audience, Concerns::All), room));
        self.push(run, encode);
    }

    /// An NLRI is withdrawn from those who wanted it for the targets that it had, and do not want it for those it has now.
    pub(super) fn lose(
        &mut self,
        audience: Audience,
        (had, now): (&Targets, &Targets),
        encode: impl FnOnce(&mut Writer),
    ) {
        let (runs, room) = (&mut self.runs, room_to_withdraw(self.family, self.max_len));
        let run = *self
            .losses
            .entry((audience, had.clone(), now.clone()))
            .or_insert_with(|| {
                let (had, now) = (had.clone(), now.clone());
                let concerns = Concerns::Losing { had, now };
                open(runs, Says::Withdraw, (audience, concerns), room)
            });
        self.push(run, encode);
    }

    /// Closes all messages.
    pub(super) fn finish(mut self, revision: u64) -> Segment {
        for run in &self.runs {
            self.out.message(self.family, run, run.nlri.as_slice());
        }
        Segment {
            revision,
            frames: self.out.frames,
            octets_len: self.out.octets_len,
        }
    }

    fn push(&mut self, run: usize, encode: impl FnOnce(&mut Writer)) {
        let run = &mut self.runs[run];
        let full = run.nlri.len();
        encode(&mut run.nlri);
        assert!(
            run.nlri.len() - full <= NLRI_MAX,
            "an NLRI is no longer than its length octet says"
        );
        if run.nlri.len() > run.room {
            let (fits, rest) = run.nlri.as_slice().split_at(full);
            let rest = Bytes::copy_from_slice(rest);
            self.out.message(self.family, run, fits);
            run.nlri.truncate(0);
            run.nlri.slice(&rest);
            run.count = 0;
        }
        run.count += 1;
    }
}

fn open(
    runs: &mut Vec<Run>,
    says: Says,
    (audience, concerns): (Audience, Concerns),
    room: usize,
) -> usize {
    runs.push(Run {
        says,
        audience,
        concerns,
        nlri: Writer::new(),
        count: 0,
        room,
    });
    runs.len() - 1
}

impl Output {
    fn message(&mut self, family: Family, run: &Run, nlri: &[u8]) {
        let (routes, withdrawals) = match &run.says {
            Says::Announce(offer) => {
                self.reserve(reach_overhead(offer) + nlri.len());
                self.announcement(family, offer, nlri);
                (run.count, 0)
            }
            Says::Withdraw => {
                self.reserve(UNREACH_OVERHEAD + nlri.len());
                self.withdrawal(family, nlri);
                (0, run.count)
            }
        };
        let octets = self.buffer.take();
        self.octets_len += octets.len();
        self.frames.push(Frame {
            octets,
            audience: run.audience,
            concerns: run.concerns.clone(),
            routes,
            withdrawals,
        });
    }

    fn announcement(&mut self, family: Family, offer: &Offer, nlri: &[u8]) {
        let out = &mut self.buffer;
        header(out, reach_overhead(offer) + nlri.len());
        out.u16(0);
        match &offer.next_hop {
            None => {
                out.u16(length(offer.octets.len()));
                out.slice(&offer.octets);
                out.slice(nlri);
            }
            Some(next_hop) => {
                let value = 5 + usize::from(next_hop.octets_len()) + nlri.len();
                out.u16(length(4 + value + offer.octets.len()));
                out.slice(&[OPTIONAL_LONG, MP_REACH_NLRI]);
                out.u16(length(value));
                out.u16(family.afi);
                out.u8(family.safi);
                next_hop.encode(out);
                out.u8(0);
                out.slice(nlri);
                out.slice(&offer.octets);
            }
        }
    }

    fn withdrawal(&mut self, family: Family, nlri: &[u8]) {
        let out = &mut self.buffer;
        if family == Family::IPV4_UNICAST {
            header(out, EMPTY_UPDATE + nlri.len());
            out.u16(length(nlri.len()));
            out.slice(nlri);
            out.u16(0);
        } else {
            header(out, UNREACH_OVERHEAD + nlri.len());
            out.u16(0);
            out.u16(length(7 + nlri.len()));
            out.slice(&[OPTIONAL_LONG, MP_UNREACH_NLRI]);
            out.u16(length(3 + nlri.len()));
            out.u16(family.afi);
            out.u8(family.safi);
            out.slice(nlri);
        }
    }

    /// A new buffer when the message does not fit the old one, so that no buffer ever grows.
    fn reserve(&mut self, octets: usize) {
        if octets > self.capacity_left {
            self.capacity_left = self
                .expected
                .saturating_sub(self.octets_len)
                .min(BUFFER_MAX)
                .max(octets);
            self.buffer = Writer::with_capacity(self.capacity_left);
        }
        self.capacity_left -= octets;
    }
}

/// Octets left for NLRI in a message with these attributes.
pub(super) fn room(offer: &Offer, max_len: u16) -> usize {
    usize::from(max_len).saturating_sub(reach_overhead(offer))
}

fn room_to_withdraw(family: Family, max_len: u16) -> usize {
    let overhead = if family == Family::IPV4_UNICAST {
        EMPTY_UPDATE
    } else {
        UNREACH_OVERHEAD
    };
    usize::from(max_len).saturating_sub(overhead)
}

/// Octets of a message that announces nothing with these attributes.
fn reach_overhead(offer: &Offer) -> usize {
    let reach = offer
        .next_hop
        .as_ref()
        .map_or(0, |hop| 9 + usize::from(hop.octets_len()));
    EMPTY_UPDATE + reach + offer.octets.len()
}

/// RFC 4271 §4.1.
fn header(out: &mut Writer, octets: usize) {
    out.slice(&MARKER);
    out.u16(length(octets));
    out.u8(MessageKind::Update.code());
}

fn length(octets: usize) -> u16 {
    u16::try_from(octets).expect("a message ends before its longest length")
}

const MP_REACH_NLRI: u8 = 14;
const MP_UNREACH_NLRI: u8 = 15;
/// Attribute flags: optional, extended length.
const OPTIONAL_LONG: u8 = 0x90;

/// Header and the two lengths.
const EMPTY_UPDATE: usize = HEADER_LEN as usize + 2 + 2;
/// The same with an MP_UNREACH_NLRI that withdraws nothing.
const UNREACH_OVERHEAD: usize = EMPTY_UPDATE + 4 + 3;

/// The longest NLRI: a path id, EVPN's type and length octets, and what the length can say.
pub(super) const NLRI_MAX: usize = 4 + 257;

/// Of an EVPN type 2, with its share of header and attributes.
const OCTETS_PER_ROUTE: usize = 48;

/// Many messages per allocation, and little kept alive by a reader that still holds one of them.
const BUFFER_MAX: usize = 1 << 20;
