//! Loc-RIB as a collector sees it: a peer that we are ourselves. RFC 9069. Knows no socket.

use std::net::Ipv4Addr;

use bytes::Bytes;
use tokio::time::Instant;
use weft_bgp::capability::{AddPathSet, Capability};
use weft_bgp::message::{DecodeContext, Message, Open};
use weft_monitoring::bmp::{Instance, Peer, PeerHeader, PeerUp, Rib};

use super::{Table, Telling, framed};
use crate::ledger::FAMILIES;
use crate::monitoring::selected::{Place, Whose};
use crate::monitoring::timestamp;
use crate::speaker::Shared;

impl Telling<'_> {
    /// It is up from the begin of the connection to its end.
    pub(super) fn begin_loc_rib(&mut self) {
        let open = loc_rib_open(self.shared);
        let header = self.loc_rib_header();
        let up = PeerUp {
            local_address: Ipv4Addr::UNSPECIFIED.into(),
            local_port: 0,
            remote_port: 0,
            sent: &open,
            received: &open,
            table: "global",
        };
        framed(self.station.peer_up(&header, &up));
        for family in FAMILIES {
            self.station.begin(&header, family);
            self.tables.push(Table {
                whose: Whose::LocRib,
                place: Place::new(family),
                due: Instant::now(),
            });
        }
    }

    /// The header of all that is said of it.
    pub(super) fn loc_rib_header(&self) -> PeerHeader {
        let local = self.shared.local;
        PeerHeader {
            rib: Rib::LocRib { filtered: false },
            peer: Peer::loc_rib(Instance::Global, local.asn, local.router_id),
            two_octet_as: false,
            time: timestamp(),
        }
    }
}

/// An OPEN that we could have sent. RFC 9069 §5.3.
fn loc_rib_open(shared: &Shared) -> Bytes {
    let local = shared.local;
    let families = FAMILIES.into_iter().map(Capability::MultiProtocol);
    let capabilities = families.chain([Capability::FourOctetAs(local.asn)]);
    let open = Message::Open(Open {
        asn: local.asn,
        hold_secs: 0,
        router_id: local.router_id,
        capabilities: capabilities.collect(),
    });
    open.encode(&DecodeContext {
        four_octet_as: true,
        ibgp: true,
        extended_message: false,
        add_path: AddPathSet::NONE,
    })
}
