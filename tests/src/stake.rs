//! Drives the controller's own `reflector::stake` by virtual time, as `speaker::ownership` does by futures. Knows when a
//! scan is read, and that others may leave no room for a batch.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_bgp::capability::AddPathSet;
use weft_bgp::family::Family;
use weft_bgp::peer::PeerId;
use weft_bgp::reflect::Local;
use weft_bgp::table::PeerKind;
use weft_controller::ledger::{Phase, Retention};
use weft_controller::reflector::learn::inbound::Inbound;
use weft_controller::reflector::owner::{Agreed, Parting, Preserved};
use weft_controller::reflector::stake::{self, Facts, Parties, Stake, Terms, Ticket};
use weft_store::{Batch, View};

use crate::random::Random;

/// One peer's stake at one replica, and what it waits for.
pub(crate) struct Driven {
    pub(crate) stake: Stake,
    scan: Option<Scan>,
    scans: u64,
}

struct Scan {
    ticket: Ticket,
    at: u64,
    /// Read when it was asked for; else it is read when it is due.
    read: Option<Facts>,
}

/// What a stake needs of its replica now.
pub(crate) struct Moment<'a> {
    pub(crate) now: u64,
    pub(crate) view: &'a View,
    pub(crate) random: &'a mut Random,
    /// Takes a batch, gives a ticket.
    pub(crate) propose: &'a mut dyn FnMut(Batch) -> Ticket,
}

impl Driven {
    pub(crate) fn begin(
        (replica, members): (u64, Vec<u64>),
        (peer, address): (PeerId, IpAddr),
        local: Local,
        agreed: Agreed,
        now: u64,
    ) -> Self {
        let parties = Parties {
            replica,
            members,
            local,
            peer,
            address,
        };
        let view = Arc::default();
        Self {
            stake: Stake::begin(parties, terms(), view, agreed, time(now)),
            scan: None,
            scans: 0,
        }
    }

    pub(crate) fn resume(&mut self, now: u64) {
        self.stake.resume(terms(), Arc::default(), time(now));
    }

    /// Takes the next steps.
    pub(crate) fn go_on(&mut self, moment: &mut Moment<'_>) {
        let now = time(moment.now);
        if let Some(scan) = self.scan.take_if(|scan| scan.at <= moment.now) {
            let read = || read(moment.view, self.stake.peer());
            let committed = scan.read.unwrap_or_else(read);
            self.stake.scanned(scan.ticket, Some(&committed), now);
        }
        let Self { stake, scan, scans } = self;
        let peer = stake.peer();
        stake.go_on(
            now,
            &mut Asked {
                moment,
                peer,
                scan,
                scans,
            },
        );
    }
}

/// What the stake asks for at one moment.
struct Asked<'a, 'b> {
    moment: &'a mut Moment<'b>,
    peer: PeerId,
    scan: &'a mut Option<Scan>,
    scans: &'a mut u64,
}

impl stake::Driver for Asked<'_, '_> {
    type Room = ();

    fn step(&mut self, batch: Batch) -> Ticket {
        (self.moment.propose)(batch)
    }

    fn room(&mut self) -> Option<()> {
        // Others' proposals may leave none.
        (!self.moment.random.permille(20)).then_some(())
    }

    fn batch(&mut self, (): (), batch: Batch, _taken: Option<Duration>) -> Ticket {
        (self.moment.propose)(batch)
    }

    fn scan(&mut self) -> Ticket {
        let early = self.moment.random.permille(500);
        *self.scans += 1;
        *self.scan = Some(Scan {
            ticket: *self.scans,
            at: self.moment.now + self.moment.random.below(40),
            read: early.then(|| read(self.moment.view, self.peer)),
        });
        *self.scans
    }

    fn away(&self) -> Duration {
        Duration::ZERO
    }

    fn is_declared(&self, _address: IpAddr) -> bool {
        false
    }
}

fn read(view: &View, peer: PeerId) -> Facts {
    stake::committed(view, peer).expect("the store can be read")
}

/// The time of a stake, from milliseconds since the world began.
pub(crate) fn time(now: u64) -> Duration {
    Duration::from_millis(now)
}

/// Every model switch says the same, and forwards as before when it is back.
fn terms() -> Terms {
    Terms {
        kind: KIND,
        families: FAMILIES.to_vec(),
        preserved: Preserved {
            graceful: FAMILIES.to_vec(),
            long_lived: FAMILIES.to_vec(),
        },
        ending: Vec::new(),
        add_path: AddPathSet::NONE,
        inbound: Inbound::default(),
    }
}

/// What the end of a session to a switch that restarts means: a while as stale, and a while as long-lived stale.
pub(crate) fn restarting() -> Parting {
    let [family] = FAMILIES;
    Parting::Restarting(Retention {
        phase: Phase::Graceful,
        restart_secs: RESTART_SECS,
        families: vec![(family, LONG_LIVED_SECS)],
    })
}

const RESTART_SECS: u16 = 4;
const LONG_LIVED_SECS: u32 = 6;

/// What every model peer is to the reflector.
pub(crate) const KIND: PeerKind = PeerKind::IbgpClient;
/// What every model peer speaks.
pub(crate) const FAMILIES: [Family; 1] = [Family::L2VPN_EVPN];
