//! Peer Up and Peer Down: a session with what both sides offered, and why it ended. It refuses to know
//! the state machine.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::net::{IpAddr, Ipv4Addr};

use bytes::{BufMut, BytesMut};
use weft_bgp::message::MessageKind;

use super::peer::address;
use super::{NotFramed, PEER_DOWN, PEER_UP, PeerHeader, Rib, framed, message, tlv};

/// A session that came up. RFC 7854 §4.10; for Loc-RIB, that it is monitored at all, RFC 9069 §5.3.
///
/// ```text
/// +------ 16 ------+--- 2 ---+--- 2 ---+-- ... --+--- ... ----+-- ... --+
/// | local address  |local prt|remote p.|sent OPEN| recv. OPEN |  TLVs   |
/// +----------------+---------+---------+---------+------------+---------+
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PeerUp<'a> {
    /// Our end of the connection; not sent for Loc-RIB, which has none.
    pub local_address: IpAddr,
    /// Its TCP port; as above.
    pub local_port: u16,
    /// TCP port of the peer; as above.
    pub remote_port: u16,
    /// The OPEN that we sent, header included. For Loc-RIB one that we could have sent, with four-octet
    /// AS and the families that are told.
    pub sent: &'a [u8],
    /// The OPEN that we received, header included. For Loc-RIB the same as `sent`.
    pub received: &'a [u8],
    /// Name of the VRF or table, up to 255 octets; required for Loc-RIB ("global" for the default
    /// instance), otherwise usually empty and not sent.
    pub table: &'a str,
}

/// Why a session ended. RFC 7854 §4.9.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Down<'a> {
    /// We ended it with this NOTIFICATION, header included (reason 1).
    NotificationSent(&'a [u8]),
    /// We ended it without one, by this event of the state machine as RFC 4271 §8.1 numbers it; 0 for
    /// none of them (reason 2).
    NoNotificationSent(u16),
    /// The peer ended it with this NOTIFICATION, header included (reason 3).
    NotificationReceived(&'a [u8]),
    /// The connection ended without one (reason 4).
    ClosedByPeer,
    /// The session goes on but is not told any more, or the peer is no longer configured (reason 5).
    NoLongerMonitored,
    /// Loc-RIB of this table is not told any more (reason 6). RFC 9069 §5.6.
    LocRib(&'a str),
}

/// Appends a Peer Up. One per session, however many of the peer's tables are told (RFC 8671 §6.3); one
/// for Loc-RIB.
///
/// # Errors
/// [`NotFramed`] when one of the OPENs is none; nothing is appended then.
pub fn peer_up(out: &mut BytesMut, header: &PeerHeader, up: &PeerUp<'_>) -> Result<(), NotFramed> {
    framed(up.sent, MessageKind::Open)?;
    framed(up.received, MessageKind::Open)?;
    let (local, local_port, remote_port) = match header.rib {
        // RFC 9069 §5.3: there is no connection.
        Rib::LocRib { .. } => (Ipv4Addr::UNSPECIFIED.into(), 0, 0),
        Rib::AdjRibIn(_) | Rib::AdjRibOut(_) => (up.local_address, up.local_port, up.remote_port),
    };
    message(out, PEER_UP, |out| {
        header.of_session().encode(out);
        address(out, local);
        out.put_u16(local_port);
        out.put_u16(remote_port);
        out.put_slice(up.sent);
        out.put_slice(up.received);
        if !up.table.is_empty() {
            tlv(out, TABLE_NAME, name(up.table));
        }
    });
    Ok(())
}

/// Appends a Peer Down. RFC 7854 §4.9: it withdraws all that was told of the peer.
///
/// # Errors
/// [`NotFramed`] when the NOTIFICATION is none; nothing is appended then.
pub fn peer_down(
    out: &mut BytesMut,
    header: &PeerHeader,
    down: &Down<'_>,
) -> Result<(), NotFramed> {
    match down {
        Down::NotificationSent(octets) | Down::NotificationReceived(octets) => {
            framed(octets, MessageKind::Notification)?;
        }
        Down::NoNotificationSent(_)
        | Down::ClosedByPeer
        | Down::NoLongerMonitored
        | Down::LocRib(_) => {}
    }
    message(out, PEER_DOWN, |out| {
        header.of_session().encode(out);
        match down {
            Down::NotificationSent(octets) => {
                out.put_u8(1);
                out.put_slice(octets);
            }
            Down::NoNotificationSent(event) => {
                out.put_u8(2);
                out.put_u16(*event);
            }
            Down::NotificationReceived(octets) => {
                out.put_u8(3);
                out.put_slice(octets);
            }
            Down::ClosedByPeer => out.put_u8(4),
            Down::NoLongerMonitored => out.put_u8(5),
            Down::LocRib(table) => {
                out.put_u8(6);
                tlv(out, TABLE_NAME, name(table));
            }
        }
    });
    Ok(())
}

/// A table's name, whole characters of it.
fn name(table: &str) -> &[u8] {
    let end = table.floor_char_boundary(TABLE_NAME_MAX);
    table.as_bytes().get(..end).unwrap_or_default()
}

/// Information of Peer Up, and of Peer Down with reason 6. RFC 9069 §5.2.1.
const TABLE_NAME: u16 = 3;
/// RFC 9069 §5.2.1, in octets.
const TABLE_NAME_MAX: usize = 255;
